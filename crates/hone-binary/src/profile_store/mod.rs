//! Stored profiles: shown, compared with the current program and with each other, and merged.
//!
//! There are three forms: LLVM's `profdata` (read through llvm-profdata, because its format changes with each version), BOLT's `fdata` and
//! Go's `pprof` (read by own code). A file itself shows its form. It does not show the program that it was taken from; the
//! [lock](crate::lock) next to it does.
//!
//! [`Keeper::check`] computes how much of a profile's weight a program can still use. For each form it compares what the optimiser itself
//! uses: names and hashes of control flow for LLVM, names and BOLT's own report for BOLT, pairs of caller and callee for Go.

mod check;
mod counting;
mod diff;
mod fault;
pub(crate) mod format;
mod keeper;
mod merge;
mod opened;
mod profdata;
mod show;

pub use check::{Check, DEFAULT_BUDGET, Lost, Why};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use counting::table as counting_table;
pub use diff::{Difference, Moved};
pub use fault::StoreFault;
pub use format::StoredFormat;
pub use keeper::{Identity, Keeper};
pub use merge::{Apart, Input, MergedProfile, Weights, weights_for_shares};
pub use show::{Beside, HotRow, HotTable, Shown};

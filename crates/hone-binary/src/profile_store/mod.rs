//! Profiles that are kept: shown, held against the program of today, against each other, and merged.
//!
//! Three forms: `profdata` of LLVM (read through llvm-profdata, whose form changes with each version), `fdata` of BOLT and
//! `pprof` of Go (read by own code). A file says itself which one it is. What it was taken from it does not say; that is in
//! the [lock](crate::lock) beside it.
//!
//! [`Keeper::check`] answers how much of a profile's weight a program can still take. For each form that is asked of what the
//! optimiser itself goes by: names and hashes of control flow for LLVM, names and BOLT's own words for BOLT, pairs of
//! caller and callee for Go.

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

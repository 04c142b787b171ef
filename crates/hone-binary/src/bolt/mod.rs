//! BOLT: rewriting a linked program by a profile of its branches.
//!
//! *Plan* is `calls`, *capture* is [`Bolt`], *verify* is `preflight` before, `diagnostics` and the checks of [`Bolt`] after. BOLT exits
//! with 0 if it found no profile, if the profile belongs to another program, and if most of it is stale; so its messages and its output
//! file decide. `docs/bolt.md` describes each of these failures.
//!
//! [`fdata`] reads, writes and merges profiles, [`bisect`] finds the functions that BOLT must skip, [`bundle`] collects the files for a bug
//! report.

pub mod bisect;
pub mod bundle;
pub(crate) mod calls;
pub(crate) mod diagnostics;
pub mod fdata;
mod input;
pub mod preflight;
pub(crate) mod refusal;
mod rewriter;
pub(crate) mod samples;

pub use calls::{BoltTools, Rung, Wish, Writes};
pub use diagnostics::{DynoRow, Part, Quality, Said, Split};
pub use input::{Input, Origin};
pub use refusal::BoltRefusal;
pub use rewriter::{Bolt, Budget, InstrumentedByBolt, OptimizedByBolt, ProvenFdata, Rewritten};
pub use samples::Samples;

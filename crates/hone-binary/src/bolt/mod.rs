//! BOLT: rewriting a linked program by a profile of its branches.
//!
//! *Plan* is `calls`, *capture* is [`Bolt`], *verify* is `preflight` before, `diagnostics` and the checks of [`Bolt`] after. BOLT
//! ends with 0 when it found no profile, when the profile is of another program, and when most of it is stale; so its
//! words and the file that it wrote decide. `docs/bolt.md` tells of each of these failures.
//!
//! [`fdata`] reads, writes and merges profiles, [`bisect`] finds the functions that BOLT must leave alone, [`bundle`]
//! packs what a bug report needs.

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

//! How a server's profile gets to disk: aids for programs that would not write one, and a stop that checks what each of its steps left.
//!
//! An instrumented program writes only when it ends by `exit` or a return from `main`. For all others there is the
//! [`preload`](build_preload) (it turns death by a signal into an orderly exit; for the profiles of clang, gcc and BOLT), the
//! [`DumpObject`] (written on demand and reset after the start-up; clang and gcc), and BOLT's own periodic writing
//! ([`crate::bolt::Writes::Every`]). [`stop`] proceeds from the mildest way to the harshest, and refuses if nothing was written, with the
//! remedy for that very end.

mod aids;
mod counts;
mod ended;
mod files;
pub(crate) mod refusal;
mod slowdown;
mod stop;

pub(crate) use aids::planned_dump_object;
pub use aids::{DumpObject, build_dump_object, build_preload, dump_env, preload_env, reset};
pub use counts::{Idle, Tally};
pub use ended::HowEnded;
pub use files::{FileChange, ProfileFiles, ProfileKind, Snapshot, changes, let_all_write};
pub use refusal::CaptureRefusal;
pub use slowdown::{CounterLoss, Driven, SlowDown, measure_slow_down};
pub use stop::{Dump, Lost, Outcome, Rung, Step, Stop, StopPlan, stop};

//! Profile-guided optimisation of a Cargo target; [`bolt`] rewrites a linked program after that, or alone.
//!
//! Three parts, kept apart: *plan* builds [`hone_tool::Call`]s and nothing else (`plan`, `flags`), *capture* carries
//! them out ([`Pgo`]), *verify* reads what came of it (`messages`, `profile`, `elf`, `said`, `proof`). The order of
//! work, of which the training itself belongs to the caller:
//!
//! 1. [`Pgo::prepare`]: everything cheap is checked before anything long starts;
//! 2. [`Pgo::build_baseline`], [`Pgo::build_instrumented`];
//! 3. the caller starts the instrumented program with [`profile_env`], trains it, and stops it with SIGTERM;
//! 4. [`Pgo::merge`], then [`Pgo::prove_profile`]: no build may use a profile that was not proven;
//! 5. [`Pgo::build_optimized`], then [`Pgo::prove_applied`].
//!
//! Profiles that are kept beyond one run have a [`lock`] beside them, and are shown, checked, compared and merged by [`kept`].
//!
//! Every tool on this way ends with exit code 0 on an empty, a foreign and a stale profile, so no exit code is trusted.

pub mod bolt;
pub mod capture;
mod elf;
pub mod family;
mod flags;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod go;
pub mod kept;
pub mod linkmap;
pub mod lock;
mod messages;
mod pgo;
mod plan;
mod profile;
mod proof;
pub mod recipe;
mod refusal;
mod said;
pub mod shim;
mod target;
mod toolchain;

pub use elf::{FileFacts, file_facts, sha256_hex};
pub use messages::NativeCode;
pub use pgo::{Built, Merged, Pgo, Proven};
pub use plan::profile_env;
pub use refusal::Refusal;
pub use target::CargoTarget;
pub use toolchain::{CCompiler, Toolchain};

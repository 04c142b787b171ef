//! Profile-guided optimisation of a program, for every kind of build. [`Builder`] is the interface, with one implementation for Cargo
//! ([`Pgo`]), for the commands of a program's own build system ([`recipe`]), for Go ([`go`]) and for a finished program ([`GivenBinary`]).
//! [`bolt`] rewrites a linked program after that, or alone.
//!
//! Three parts are separate: *plan* builds [`hone_tool::Call`]s and nothing else (`plan`, `flags`), *capture* carries them out (the
//! builders), *verify* reads the results (`messages`, `profile`, `samples`, `gcov`, `elf`, `diagnostics`, `proof`).
//!
//! Profiles that outlive a run have a [`lock`] next to them. [`profile_store`] shows, checks, compares and merges them.
//!
//! Every tool involved exits with code 0 on an empty, a foreign and a stale profile, so Hone trusts no exit code.

mod autofdo;
pub mod bolt;
mod build_request;
pub mod builder;
mod built;
pub mod c_toolchain;
pub mod capture;
mod diagnostics;
mod digest;
mod elf;
mod flags;
mod format_detect;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod gcov;
mod given;
pub mod go;
mod layout;
mod libraries;
pub mod linkmap;
pub mod lock;
mod messages;
pub mod perf;
mod pgo;
mod plan;
mod profdata;
mod profile;
pub mod profile_store;
mod proof;
pub mod recipe;
mod refusal;
mod samples;
pub mod shim;
mod target;
mod target_kind;
mod toolchain;
mod weights;

pub use autofdo::Converter;
pub use build_request::{BuildRequest, Guide};
pub use builder::Builder;
pub use built::{Built, How, Library, Merged, Proven};
pub use diagnostics::MOST_DISCARDED;
pub use elf::{
    CodeBytes, FileFacts, Moved, code_bytes, file_facts, functions_moved, loaded_bytes, sha256_hex,
};
pub use format_detect::{FormFault, ProfileForm};
pub use given::GivenBinary;
pub use messages::NativeCode;
pub use pgo::Pgo;
pub use profdata::profile_env;
pub use proof::owners;
pub use refusal::Refusal;
pub use target::{CargoProgram, CargoTarget, cargo_programs};
pub use target_kind::TargetKind;
pub use toolchain::{CCompiler, Toolchain};
pub use weights::TRAINING_WEIGHTS;

//! Profile-guided optimisation of a Go program.
//!
//! Go needs no instrumented build: CPU profiles of the running service are its profile. Hone fetches them (`fetch`), reads, merges with
//! weights and writes them (`pprof`, `merge`), shows them (`tables`, `findings`), compares them with the program (`proof`, `symbols`), and
//! passes them to `go build` (`plan`, `build`, `diagnostics`). `go build` silently accepts an empty file, a profile of another program and
//! a `default.pgo` in the wrong folder. `bench` runs Go's own benchmarks without and with the profile.

mod bench;
mod build;
mod diagnostics;
mod fetch;
mod findings;
mod merge;
mod plan;
mod pprof;
mod proof;
pub(crate) mod refusal;
mod source;
mod sources;
mod stored_profile;
mod symbols;
mod tables;
mod target;
mod wire;

pub use bench::{BenchLine, BenchPlan, BenchResult, LEAST_ROUNDS, Pairs, parse as parse_benchmarks};
pub use build::{DEFAULT_PGO, GoPgo, Placed, left_beside};
pub use diagnostics::Decisions;
pub use fetch::{Captured, FetchError, ProfileRequest, StackGauge, capture, capture_unless, profile_url};
pub use findings::{
    ALLOCATOR_LEAST_PERCENT, Finding, GARBAGE_LEAST_PERCENT, SIDE_BRANCH_MOST_OF_CALLER, SourceLine,
    WALKER_LEAST_CUMULATIVE_PERCENT, WALKER_MOST_FLAT_OF_CUMULATIVE, WALKER_MOST_FRAMES_UP, of_allocations,
    of_cpu,
};
pub(crate) use merge::WEIGHT_OFF;
pub use merge::{Merger, weights_for_shares};
#[cfg(test)]
pub(crate) use pprof::tests::of_kind as profile_of_kind;
pub use pprof::{Function, Label, Line, Location, Mapping, Profile, Sample, ValueType};
pub use proof::Coverage;
pub use refusal::GoRefusal;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use stored_profile::module_in;
pub(crate) use stored_profile::{coverage_of, findings_of, read_profile};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use symbols::names as names_in_pclntab;
pub use tables::{Row, Table, table};
pub use target::GoTarget;

//! Profile-guided optimisation of a Go program: pprof profiles read, merged and held against the build.

mod findings;
mod merge;
mod pprof;
mod source;
mod tables;
mod wire;

pub use findings::{
    ALLOCATOR_LEAST_PERCENT, Finding, GARBAGE_LEAST_PERCENT, Place, SIDE_BRANCH_MOST_OF_CALLER,
    WALKER_LEAST_CUMULATIVE_PERCENT, WALKER_MOST_FLAT_OF_CUMULATIVE, WALKER_MOST_FRAMES_UP, of_allocations,
    of_cpu,
};
pub use merge::{Merger, weights_for_shares};
pub use pprof::{Function, Label, Line, Location, Mapping, Profile, Sample, ValueType};
pub use tables::{Row, Table, table};

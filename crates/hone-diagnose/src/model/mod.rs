//! One model of code that ran, for every source: blocks, their number of executions, their transitions, and windows of the exact order. The
//! code is pure.

mod branched;
mod code;
mod conflicts;
mod cost;
mod ext_tsp;
mod footprint;
mod measures;
mod replay;
mod run;
mod traced;

pub use branched::{BYTES_OF_AN_INSTRUCTION, Branch, Branched, Depth, Fall, foreign_share, of_branches};
pub use code::{CodeCount, CodeCounts, code, code_changes};
pub use conflicts::{Conflicts, conflicts, conflicts_of};
pub use cost::{Effort, predicted_ratio};
pub use ext_tsp::ext_tsp;
pub use footprint::{
    LARGE_PAGE_BITS, PAGE_BITS, SHARES, Unit, Units, bytes_of_lines, bytes_used_of_a_line, curve, heat,
};
pub use measures::{layout, missed, objects};
pub use replay::{Misses, replay};
pub use run::{Block, Edge, Object, Part, Run, Simulated, Window};
pub use traced::of_traces;

#[cfg(test)]
pub(crate) use run::tests;

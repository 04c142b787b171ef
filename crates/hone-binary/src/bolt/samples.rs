//! The kinds of samples that BOLT takes.

use serde::{Deserialize, Serialize};

/// Kinds of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Samples {
    /// perf's data with branch records (`-j any,u`).
    Branches,
    /// perf's data without them: `-nl`, which 19 and 22 know.
    Plain,
    /// A text with branches and fall-throughs that somebody has added up already.
    AddedUpBranches,
    /// A text with addresses and counts.
    AddedUpAddresses,
}

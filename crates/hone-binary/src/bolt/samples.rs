//! The kinds of samples that BOLT accepts.

use serde::{Deserialize, Serialize};

/// Kinds of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Samples {
    /// perf's data with branch records (`-j any,u`).
    Branches,
    /// perf's data without them: `-nl`, which 19 and 22 support.
    Plain,
    /// A text with pre-aggregated branches and fall-throughs.
    AddedUpBranches,
    /// A text with addresses and counts.
    AddedUpAddresses,
}

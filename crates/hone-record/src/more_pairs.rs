//! What decides how many pairs a run takes: its looks, and the effect that it must be able to detect.

use serde::{Deserialize, Serialize};

/// A look at a running comparison. If it has a verdict then, it may end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// A/B pairs measured by then, with excluded ones.
    pub pairs: u32,
    /// Two-sided error of the primary metric's confidence interval at this look. All looks together stay below the error of the rule.
    pub level: f64,
}

/// The effect that the run must be able to detect. If the A/A pairs scatter too much for it, Hone measures more pairs than planned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The effect as a ratio above 1.
    pub ratio: f64,
    /// The largest number of extra A/B and A/A pairs, taken from the reserve.
    pub more: [u32; 2],
    /// The largest number of A/A pairs that Hone adds at the end if the A/A pairs differ from 1.
    #[serde(default)]
    pub again: u32,
}

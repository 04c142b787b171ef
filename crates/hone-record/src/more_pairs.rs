//! What decides how many pairs a run takes: its looks, its continuation, and the effect that it must be able to detect.

use serde::{Deserialize, Serialize};

/// A look at a running comparison. If it has a verdict then, it may end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// A/B pairs measured by then, with excluded ones.
    pub pairs: u32,
    /// Two-sided error of the primary metric's confidence interval at this look. All looks together stay below the error of the rule.
    pub level: f64,
    /// The part of the rule's error that this look and those before it may spend. 0 in older designs, whose last look spends all of it.
    #[serde(default)]
    pub spent: f64,
}

/// What a run may measure in addition if its time budget ends without a verdict. It is fixed before the first window, like the plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Continuation {
    /// Pairs at the end of the order that only a continued run measures.
    pub pairs: u32,
    /// A/B pairs, with excluded ones, at which each earlier budget of the run ended. Empty in a run that was not continued.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ends: Vec<u32>,
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

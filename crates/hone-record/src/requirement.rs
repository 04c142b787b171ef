//! Rules that a window has to meet.

use serde::{Deserialize, Serialize};

/// A success rule and what the window said to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Requirement {
    /// The rule, for example `p99 < 3 ms`.
    pub rule: String,
    /// The limit, in the unit.
    pub limit: f64,
    /// What was measured, in the unit; `None` when the window can't tell.
    pub measured: Option<f64>,
    /// `µs`, `requests/s`, `records/s`, `records`, `share`.
    pub unit: String,
    /// Whether it was met; `None` when the window can't tell.
    pub met: Option<bool>,
    /// Why it can't tell, why a rule counts as not met without a figure, or what else is to be known of the figure.
    pub reason: Option<String>,
}

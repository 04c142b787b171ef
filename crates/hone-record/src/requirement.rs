//! Rules that a window must meet.

use serde::{Deserialize, Serialize};

/// A success rule and its result in the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Requirement {
    /// The rule, for example `p99 < 3 ms`.
    pub rule: String,
    /// The limit, in the unit.
    pub limit: f64,
    /// The measured value, in the unit; `None` if the window can't provide it.
    pub measured: Option<f64>,
    /// `µs`, `requests/s`, `records/s`, `records`, `share`.
    pub unit: String,
    /// Whether the rule was met; `None` if the window can't show it.
    pub met: Option<bool>,
    /// Why the window can't show it, why a rule counts as missed without a figure, or a remark about the figure.
    pub reason: Option<String>,
}

//! Comparison of windows that were measured at other times.

use serde::{Deserialize, Serialize};

use crate::metric::Metric;

/// Result of a comparison of saved windows, with its limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedComparison {
    /// The first side.
    pub a: SavedSide,
    /// The second side.
    pub b: SavedSide,
    /// Differences between the two sides besides their target: load, durability, machine, configuration.
    pub differences: Vec<String>,
    /// Why the ratios support no statement; `None` if they do.
    pub no_finding: Option<String>,
    /// One for each metric that both sides have, the primary first.
    pub estimates: Vec<SavedEstimate>,
    /// Effects that windows measured at other times can't show.
    pub cannot_show: Vec<String>,
}

impl SavedComparison {
    /// The finding about the primary metric.
    pub fn finding(&self) -> Option<SavedFinding> {
        self.estimates.first()?.finding
    }
}

/// Findings that saved windows support. They are not *better* or *worse*: windows of one session share its conditions, so their confidence
/// interval excludes the difference between two sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SavedFinding {
    /// The confidence interval excludes 1.
    Differs,
    /// The confidence interval lies within the margin of 1.
    WithinMargin,
    /// The confidence interval does neither.
    NotSeen,
}

impl SavedFinding {
    /// The finding for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Differs => "differs",
            Self::WithinMargin => "within the margin",
            Self::NotSeen => "no difference seen",
        }
    }
}

/// Saved windows of one side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedSide {
    /// Source of the windows.
    pub source: String,
    /// Number of valid windows.
    pub windows: u32,
    /// Excluded windows, with the reason.
    pub left_out: Vec<String>,
    /// Start of the first and end of the last one, milliseconds since 1970.
    pub from_unix_ms: u64,
    /// See `from_unix_ms`.
    pub to_unix_ms: u64,
}

/// A ratio of two groups of windows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedEstimate {
    /// The metric.
    pub metric: Metric,
    /// Geometric mean of A's windows.
    pub value_a: f64,
    /// Geometric mean of B's windows.
    pub value_b: f64,
    /// B/A.
    pub ratio: f64,
    /// Lower and upper end of the confidence interval, and its level; `None` with fewer than five windows on a side.
    pub interval: Option<(f64, f64, f64)>,
    /// The finding; `None` if the data supports none.
    pub finding: Option<SavedFinding>,
}

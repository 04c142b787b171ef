//! Windows that were measured at other times, held against each other.

use serde::{Deserialize, Serialize};

use crate::metric::Metric;

/// What saved windows of two sides say, and what they can't.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedComparison {
    /// The first side.
    pub a: SavedSide,
    /// The second side.
    pub b: SavedSide,
    /// In what the two sides differ beside their target: load, durability, machine, configuration.
    pub differences: Vec<String>,
    /// Why nothing is said of the ratios; `None` when something may be said.
    pub no_finding: Option<String>,
    /// One for each metric that both sides have, the primary first.
    pub estimates: Vec<SavedEstimate>,
    /// What windows measured at other times can't show.
    pub cannot_show: Vec<String>,
}

impl SavedComparison {
    /// What is said of the primary metric.
    pub fn finding(&self) -> Option<SavedFinding> {
        self.estimates.first()?.finding
    }
}

/// What may be said of windows that were measured at other times. Not *better* or *worse*: windows of one sitting share its
/// luck, so the interval over them does not know what two sittings differ by on their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SavedFinding {
    /// The interval excludes 1.
    Differs,
    /// The interval lies within the margin of 1.
    WithinMargin,
    /// Neither.
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
    /// Where they came from.
    pub source: String,
    /// Windows that count.
    pub windows: u32,
    /// Windows that do not, with the reason.
    pub left_out: Vec<String>,
    /// Start of the first and end of the last one, milliseconds since 1970.
    pub from_unix_ms: u64,
    /// See `from_unix_ms`.
    pub to_unix_ms: u64,
}

/// A ratio of two groups of windows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedEstimate {
    /// What was compared.
    pub metric: Metric,
    /// Geometric mean of A's windows.
    pub value_a: f64,
    /// Geometric mean of B's windows.
    pub value_b: f64,
    /// B/A.
    pub ratio: f64,
    /// Lower and upper end of the interval, and its confidence; `None` with fewer than five windows on a side.
    pub interval: Option<(f64, f64, f64)>,
    /// `None` where there is none to give.
    pub finding: Option<SavedFinding>,
}

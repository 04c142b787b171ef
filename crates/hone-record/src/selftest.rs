//! Self-test: whether Hone measures planted faults at their true size.

use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// Faults of known size, and the measured values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SelfTest {
    /// The machine.
    pub machine: Machine,
    /// One line for each check.
    pub checks: Vec<SelfCheck>,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SelfCheck {
    /// The measuring engine: `wire`, `librdkafka` ...
    pub engine: String,
    /// The planted fault, in words.
    pub planted: String,
    /// The measured quantity, in words.
    pub looked_at: String,
    /// Its true size.
    pub truth: f64,
    /// Its measured size.
    pub seen: f64,
    /// Smallest accepted value.
    pub least: f64,
    /// Largest accepted value.
    pub most: f64,
    /// Unit of the four.
    pub unit: String,
}

impl SelfCheck {
    /// Whether the measured value lies within its bounds.
    pub fn holds(&self) -> bool {
        (self.least..=self.most).contains(&self.seen)
    }
}

impl SelfTest {
    /// Whether all checks passed.
    pub fn passed(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(SelfCheck::holds)
    }
}

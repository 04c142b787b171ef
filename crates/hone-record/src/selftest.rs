//! Does the instrument see what was planted, at its true size?

use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// Faults of known size, and what the load saw of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SelfTest {
    /// Where it ran.
    pub machine: Machine,
    /// One line for each thing looked at.
    pub checks: Vec<SelfCheck>,
}

/// One thing looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SelfCheck {
    /// The engine that measured: `wire`, `librdkafka` ...
    pub engine: String,
    /// What was planted, in words.
    pub planted: String,
    /// What was looked at, in words.
    pub looked_at: String,
    /// Its true size.
    pub truth: f64,
    /// What was seen.
    pub seen: f64,
    /// Least that is no miss.
    pub least: f64,
    /// Most that is no miss.
    pub most: f64,
    /// Unit of the four.
    pub unit: String,
}

impl SelfCheck {
    /// Whether what was seen is the truth, within its bounds.
    pub fn holds(&self) -> bool {
        (self.least..=self.most).contains(&self.seen)
    }
}

impl SelfTest {
    /// Whether everything was seen at its true size.
    pub fn passed(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(SelfCheck::holds)
    }
}

//! The time limit of a run.

use std::time::Instant;

/// The clock of a run with a budget.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// Of the complete run, in seconds.
    pub total_s: f64,
    /// Seconds that the pairs of earlier attempts took.
    pub earlier_s: f64,
    /// The start of the run.
    pub started: Instant,
    /// Whether it only limits the reserve: the planned pairs are known to fit.
    pub for_the_reserve: bool,
}

impl Clock {
    /// Seconds until the limit; 0 after it.
    pub fn left_s(&self) -> f64 {
        self.total_s - self.earlier_s - self.started.elapsed().as_secs_f64()
    }
}

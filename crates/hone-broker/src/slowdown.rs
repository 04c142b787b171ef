//! A slow-down of known size, for tests of a comparator only. It exists in builds with the feature `planted-slowdown`.
//!
//! The unit is a turn of the worker's loop: everything the thread did since the end of the last turn, sockets and log
//! included, was done for the requests of this turn. With at least one Produce among them the turn is made as many
//! percent longer, in CPU time, as `HONE_PLANTED_SLOWDOWN` says (1.10 means 10 %).

use std::time::Duration;

use crate::cpu::ThreadClock;

/// The slow-down of one worker.
#[derive(Debug)]
pub(crate) struct Slowdown {
    factor: f64,
    produced: bool,
    clock: Option<ThreadClock>,
    turn_began: Duration,
}

impl Slowdown {
    /// Reads the factor; without one, or with one that makes no sense, nothing is slowed down.
    pub(crate) fn from_environment() -> Self {
        let factor = std::env::var("HONE_PLANTED_SLOWDOWN").ok().and_then(|text| text.parse().ok());
        let factor = factor.filter(|factor| (1.0..=100.0).contains(factor)).unwrap_or(1.0);
        Self { factor, produced: false, clock: None, turn_began: Duration::ZERO }
    }

    pub(crate) fn note_produce(&mut self) {
        self.produced = true;
    }

    /// Burns what is owed for the turn.
    pub(crate) fn end_turn(&mut self) {
        if self.factor <= 1.0 {
            return;
        }
        // Made here and not earlier: the clock is that of the thread that runs the loop.
        if self.clock.is_none() {
            self.clock = ThreadClock::of_this_thread();
        }
        let Some(clock) = self.clock else { return };
        if std::mem::take(&mut self.produced) {
            let used = clock.elapsed().saturating_sub(self.turn_began);
            let until = self.turn_began + used.mul_f64(self.factor);
            while clock.elapsed() < until {
                std::hint::spin_loop();
            }
        }
        self.turn_began = clock.elapsed();
    }
}

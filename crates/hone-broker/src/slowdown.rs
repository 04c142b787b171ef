//! A slow-down of known size, for tests of a comparator only. It exists in builds with the feature `planted-slowdown`.
//!
//! The unit is a turn of the reactor's loop: everything the thread did since the end of the last turn, sockets and log
//! included, was done for the requests of this turn. With at least one Produce among them the turn is made as many
//! percent longer, in CPU time, as `HONE_PLANTED_SLOWDOWN` says (1.10 means 10 %).

use std::time::Duration;

use crate::cpu::ThreadClock;

/// The slow-down of one reactor.
#[derive(Debug)]
pub(crate) struct Slowdown {
    factor: f64,
    produced: bool,
    clock: Option<ThreadClock>,
    /// What a look at the clock costs. It is CPU time that a plain broker does not spend, so it is paid out of the slow-down.
    look: Duration,
    turn_began: Duration,
}

impl Slowdown {
    /// Reads the factor; without one, or with one that makes no sense, nothing is slowed down.
    pub(crate) fn from_environment() -> Self {
        let factor = std::env::var("HONE_PLANTED_SLOWDOWN").ok().and_then(|text| text.parse().ok());
        let factor = factor.filter(|factor| (1.0..=100.0).contains(factor)).unwrap_or(1.0);
        Self { factor, produced: false, clock: None, look: Duration::ZERO, turn_began: Duration::ZERO }
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
            self.look = self.clock.as_ref().map_or(Duration::ZERO, cost_of_a_look);
        }
        let Some(clock) = self.clock else { return };
        let mut now = clock.elapsed();
        if std::mem::take(&mut self.produced) {
            let used = now.saturating_sub(self.turn_began).saturating_sub(self.look);
            let until = self.turn_began + used.mul_f64(self.factor);
            while now + self.look / 2 < until {
                std::hint::spin_loop();
                now = clock.elapsed();
            }
        }
        self.turn_began = now;
    }
}

fn cost_of_a_look(clock: &ThreadClock) -> Duration {
    const LOOKS: u32 = 1_000;
    let before = clock.elapsed();
    for _ in 1..LOOKS {
        std::hint::black_box(clock.elapsed());
    }
    (clock.elapsed() - before) / LOOKS
}

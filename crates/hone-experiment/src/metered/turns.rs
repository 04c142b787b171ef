//! When a cluster is looked at again.

use std::time::{Duration, Instant};

use hone_tool::interrupt;

/// So often a wait looks whether somebody wants it to end.
const STEP: Duration = Duration::from_millis(50);

/// The next planned time; where that has gone by while a broker did not answer, the missed looks are not made up for: several at once would
/// be rates over no time.
pub fn next_look(planned: Instant, every: Duration, now: Instant) -> Instant {
    let next = planned + every;
    if next > now { next } else { now + every }
}

/// Whether the time came, and nobody ended the wait.
pub fn wait_until(time: Instant) -> bool {
    while !interrupt::requested() {
        let left = time.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(STEP));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_not_made_up_for_by_looks_at_once() {
        let begun = Instant::now();
        let (every, at) = (Duration::from_secs(5), |seconds| begun + Duration::from_secs(seconds));
        assert_eq!(next_look(begun, every, at(1)), at(5), "the plan does not drift with the time of a look");
        assert_eq!(next_look(at(5), every, at(32)), at(37));
        assert_eq!(next_look(at(5), every, at(10)), at(15), "no two looks with no time between them");
    }
}

//! Did the window mean anything? Pure.

use hone_record::Outcome;

/// What the engine saw of a window, as far as its outcome hangs on it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    /// Requests due but not acknowledged, at the ends of [`SLOTS`] equal parts of the window.
    pub backlog: Vec<u64>,
    /// Requests due in the window.
    pub due: u64,
    /// Requests due in a second.
    pub requests_per_s: f64,
    /// Most requests that may be unanswered at once.
    pub in_flight_limit: u64,
    /// 99th percentile of intended to sent over the requests that found a free slot: the generator's own lateness.
    pub own_lateness_us_p99: f64,
    /// Where that stops to be a measurement.
    pub lateness_limit_us: f64,
}

/// A target that is so far behind and only falls back does not keep up, however long the window was.
const BEHIND_S: f64 = 1.0;

/// Parts of a window at whose ends the backlog is noted.
pub(crate) const SLOTS: usize = 40;

/// The outcome of a window that ran to its end.
///
/// Lateness first: a generator that is late makes a backlog of its own, and the target must not be blamed for it.
pub(crate) fn outcome(seen: &Seen) -> Outcome {
    if seen.own_lateness_us_p99 > seen.lateness_limit_us {
        return Outcome::GeneratorLate {
            lateness_us_p99: seen.own_lateness_us_p99,
            limit_us: seen.lateness_limit_us,
        };
    }
    if only_grows(seen) {
        return Outcome::Saturated { backlog_requests: seen.backlog.last().copied().unwrap_or(0) };
    }
    Outcome::Steady
}

/// The backlog only grew: every point of the last quarter lies above every point of the first half, and what is left at the
/// end is more than one in-flight limit and more than 1 % of the window, or more than [`BEHIND_S`] of the load: in a long window
/// 1 % is minutes. A stall that the target works off does not
/// count, nor does one that began in the last quarter: its requests are in the percentiles at full length.
fn only_grows(seen: &Seen) -> bool {
    let slots = seen.backlog.len();
    if slots < 8 {
        return false;
    }
    let early = seen.backlog[..slots / 2].iter().max();
    let late = seen.backlog[slots - slots / 4..].iter().min();
    let left = seen.backlog[slots - 1];
    late > early
        && left > seen.in_flight_limit
        && (left * 100 > seen.due || left as f64 > seen.requests_per_s * BEHIND_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(backlog: impl Fn(usize) -> u64) -> Seen {
        Seen {
            backlog: (0..SLOTS).map(backlog).collect(),
            due: 10_000,
            requests_per_s: 1_000.0,
            in_flight_limit: 20,
            own_lateness_us_p99: 50.0,
            lateness_limit_us: 10_000.0,
        }
    }

    #[test]
    fn a_flat_backlog_is_steady() {
        assert_eq!(outcome(&seen(|slot| 3 + (slot as u64 * 7) % 11)), Outcome::Steady);
    }

    #[test]
    fn a_backlog_that_only_grows_is_saturation() {
        let outcome = outcome(&seen(|slot| slot as u64 * 100 + (slot as u64 * 7) % 11));
        assert!(matches!(outcome, Outcome::Saturated { backlog_requests } if backlog_requests > 3_800));
    }

    #[test]
    fn a_long_window_does_not_excuse_a_target_that_falls_back() {
        // An hour at 10,000/s against 9,910/s.
        let mut slow = seen(|slot| slot as u64 * 8_100);
        (slow.due, slow.requests_per_s) = (36_000_000, 10_000.0);
        assert!(matches!(outcome(&slow), Outcome::Saturated { .. }));
    }

    #[test]
    fn a_stall_that_is_worked_off_is_not_saturation() {
        for start in [0, 10, 20] {
            let stall = |slot: usize| if (start..start + 4).contains(&slot) { 1_000 } else { 2 };
            assert_eq!(outcome(&seen(stall)), Outcome::Steady, "stall at slot {start}");
        }
        assert_eq!(outcome(&seen(|slot| if slot >= 36 { 1_000 } else { 2 })), Outcome::Steady);
    }

    #[test]
    fn a_late_generator_is_named_before_the_target() {
        let mut late = seen(|slot| slot as u64 * 100);
        late.own_lateness_us_p99 = 25_000.0;
        assert!(matches!(outcome(&late), Outcome::GeneratorLate { lateness_us_p99: 25_000.0, .. }));
    }
}

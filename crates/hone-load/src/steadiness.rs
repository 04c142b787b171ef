//! Whether a window's results are meaningful. The code is pure.

use hone_record::Outcome;

/// The engine's data about a window that determines its outcome.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WindowLoad {
    /// Requests due but not acknowledged, at the ends of [`SLOTS`] equal parts of the window.
    pub backlog: Vec<u64>,
    /// Requests due in the window.
    pub due: u64,
    /// Requests due in a second.
    pub requests_per_s: f64,
    /// Most requests that may be unanswered at once.
    pub in_flight_limit: u64,
    /// 99th percentile of the time from due until handled: the generator's own delay.
    pub own_lateness_us_p99: f64,
    /// Limit of this delay for a valid measurement.
    pub lateness_limit_us: f64,
}

/// A target that is this far behind and only falls back does not keep up, for any length of the window.
const BEHIND_S: f64 = 1.0;

/// Parts of a window at whose ends the backlog is judged.
pub(crate) const SLOTS: usize = 40;
/// Fewer parts are not enough for a judgement.
const LEAST_SLOTS: usize = 8;
/// First interval between notes of a backlog.
const FIRST_EVERY_NS: u64 = 1_000_000;
/// At this number of notes, every other one is dropped.
const MOST_NOTES: usize = 8 * SLOTS;

/// The backlog of a window whose end is still unknown. Notes are frequent enough to judge a window of some milliseconds, and become rarer
/// over time, so that a day has no more notes than a minute.
#[derive(Debug)]
pub(crate) struct Backlog {
    every_ns: u64,
    /// A note is made at every multiple of this.
    notes: Vec<u64>,
}

impl Default for Backlog {
    fn default() -> Self {
        Self { every_ns: FIRST_EVERY_NS, notes: Vec::with_capacity(MOST_NOTES) }
    }
}

impl Backlog {
    /// Stores the backlog at this time, which was the backlog since the last note, too.
    pub(crate) fn note(&mut self, now_ns: u64, requests: u64) {
        while now_ns / self.every_ns > self.notes.len() as u64 {
            self.notes.push(requests);
            if self.notes.len() == MOST_NOTES {
                let mut number = 0;
                self.notes.retain(|_| {
                    number += 1;
                    number % 2 == 0
                });
                self.every_ns *= 2;
            }
        }
    }

    /// The backlog at the ends of [`SLOTS`] equal parts of a window that ended at this time, and at its end. With fewer notes there are
    /// fewer parts.
    pub(crate) fn slots(&self, end_ns: u64, left: u64) -> Vec<u64> {
        let within = usize::try_from(end_ns / self.every_ns).unwrap_or(usize::MAX).min(self.notes.len());
        let slots = within.min(SLOTS);
        let note = |slot: usize| self.notes[(slot * within).div_ceil(slots) - 1];
        (1..slots).map(note).chain(std::iter::once(left)).collect()
    }
}

/// The outcome of a window that ran to its end.
///
/// The generator's delay comes first: a generator that falls behind causes its own backlog, and that must not count against the target.
pub(crate) fn outcome(seen: &WindowLoad) -> Outcome {
    if seen.own_lateness_us_p99 > seen.lateness_limit_us {
        return Outcome::GeneratorLate {
            lateness_us_p99: seen.own_lateness_us_p99,
            limit_us: seen.lateness_limit_us,
        };
    }
    if seen.backlog.len() < LEAST_SLOTS {
        return Outcome::Failed {
            reason:
                "the window ended after some milliseconds, which is too short to judge whether the target \
                 keeps up"
                    .to_owned(),
        };
    }
    if only_grows(seen) {
        return Outcome::Saturated { backlog_requests: seen.backlog.last().copied().unwrap_or(0) };
    }
    Outcome::Steady
}

/// Whether the backlog only grew: every point of the last quarter lies above every point of the first half. In addition, the backlog at the
/// end exceeds one in-flight limit and 1 % of the window, or [`BEHIND_S`] of the load, since in a long window 1 % is minutes. A stall that
/// the target recovers from does not count. Nor does a stall that began in the last quarter: its requests are in the percentiles at full
/// length.
fn only_grows(seen: &WindowLoad) -> bool {
    let slots = seen.backlog.len();
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

    fn seen(backlog: impl Fn(usize) -> u64) -> WindowLoad {
        WindowLoad {
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
    fn a_backlog_that_grows_and_stays_small_is_steady() {
        // Less than may be under way at once, and less than 1 % of the window and a second of the load.
        assert_eq!(outcome(&seen(|slot| slot as u64 * 3 / 8)), Outcome::Steady);
        assert_eq!(outcome(&seen(|slot| slot as u64 * 3 / 2)), Outcome::Steady);
        let mut few = seen(|slot| slot as u64 * 3 / 2);
        few.due = 5_000;
        assert!(matches!(outcome(&few), Outcome::Saturated { .. }), "more than 1 % of the window");
        (few.due, few.requests_per_s) = (10_000, 50.0);
        assert!(matches!(outcome(&few), Outcome::Saturated { .. }), "more than a second of the load");
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

    /// What an unbroken backlog of one request a millisecond is called when the window ends then.
    fn of_a_window_that_ends(end_ms: u64, planned_ms: u64) -> Outcome {
        let mut backlog = Backlog::default();
        (0..=end_ms.min(planned_ms)).for_each(|at_ms| backlog.note(at_ms * 1_000_000, at_ms));
        outcome(&WindowLoad {
            backlog: backlog.slots(end_ms * 1_000_000, end_ms),
            due: end_ms,
            ..seen(|_| 0)
        })
    }

    #[test]
    fn a_window_is_judged_wherever_it_ends() {
        for end_ms in [40, 99, 400, 2_000, 59_000, 60_000] {
            let outcome = of_a_window_that_ends(end_ms, 60_000);
            assert_eq!(outcome, Outcome::Saturated { backlog_requests: end_ms }, "after {end_ms} ms");
        }
        assert!(
            matches!(of_a_window_that_ends(5, 60_000), Outcome::Failed { reason } if reason.contains("too short"))
        );
    }

    #[test]
    fn notes_stand_where_equal_parts_end_and_never_grow_too_many() {
        let mut backlog = Backlog::default();
        for at_ms in 0..3_600_000 {
            backlog.note(at_ms * 1_000_000, at_ms);
        }
        assert!(backlog.notes.len() < MOST_NOTES, "{}", backlog.notes.len());
        let slots = backlog.slots(3_600_000_000_000, 7);
        assert_eq!((slots.len(), slots[SLOTS - 1]), (SLOTS, 7));
        for (slot, at_ms) in slots[..SLOTS - 1].iter().enumerate() {
            let wanted_ms = (slot as u64 + 1) * 3_600_000 / SLOTS as u64;
            assert!(at_ms.abs_diff(wanted_ms) < 30_000, "slot {slot}: {at_ms} ms for {wanted_ms}");
        }
        // The thread slept through it, so the notes since the last one count.
        let mut asleep = Backlog::default();
        asleep.note(86_400_000_000_000, 3);
        assert!(asleep.notes.iter().all(|note| *note == 3) && asleep.notes.len() >= MOST_NOTES / 2 - 1);
        assert_eq!(Backlog::default().slots(0, 4), [4]);
    }

    #[test]
    fn a_late_generator_is_named_before_the_target() {
        let mut late = seen(|slot| slot as u64 * 100);
        late.own_lateness_us_p99 = 25_000.0;
        assert!(matches!(outcome(&late), Outcome::GeneratorLate { lateness_us_p99: 25_000.0, .. }));
    }
}

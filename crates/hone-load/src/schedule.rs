//! Due time of each request: pure, seeded, equal for both arms of a pair.

use std::sync::Arc;

use hone_record::{Climb, Schedule, Shard, Workload};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use crate::error::LoadError;

/// Nanoseconds from the window's start at which requests are due, in order. The sequence is endless, except for a replay and for a ramp
/// down to zero; use the part that lies within the window.
#[derive(Debug, Clone)]
pub struct Arrivals {
    shape: Shape,
    gap_ns: f64,
    index: u64,
    at_ns: f64,
    random: ChaCha8Rng,
}

#[derive(Debug, Clone)]
enum Shape {
    Uniform,
    Poisson,
    Bursts {
        every_ns: f64,
    },
    /// Rate at the start, and its change, per nanosecond.
    Ramp {
        start_per_ns: f64,
        change_per_ns: f64,
    },
    /// Rates per nanosecond, each for `step_ns`; the last one remains.
    Steps {
        rates_per_ns: Vec<f64>,
        step_ns: f64,
    },
    /// Independent arrivals at a rate that rises from step to step, with a pause after each step.
    Climb {
        gaps_ns: Vec<f64>,
        step_ns: f64,
        stride_ns: f64,
    },
    Replay(Arc<[u64]>),
}

impl Arrivals {
    /// The arrivals of a workload that [`crate::check`] has passed. `recorded` are the times of a replay, in ns from its start and in
    /// order. A replay without them has no arrivals.
    pub fn new(workload: &Workload, recorded: Option<Arc<[u64]>>) -> Self {
        let per_ns = |requests_per_s: f64| requests_per_s / 1e9;
        let window_ns = workload.duration_s * 1e9;
        let start_per_ns = per_ns(workload.requests_per_s);
        let shape = match &workload.schedule {
            Schedule::Uniform => Shape::Uniform,
            Schedule::Poisson => Shape::Poisson,
            Schedule::Bursts { every_ms } => Shape::Bursts { every_ns: every_ms * 1e6 },
            Schedule::Ramp { to_requests_per_s } => Shape::Ramp {
                start_per_ns,
                change_per_ns: (per_ns(*to_requests_per_s) - start_per_ns) / window_ns,
            },
            Schedule::Steps { requests_per_s } => Shape::Steps {
                rates_per_ns: requests_per_s.iter().copied().map(per_ns).collect(),
                step_ns: window_ns / requests_per_s.len().max(1) as f64,
            },
            Schedule::Climb(climb) => Shape::Climb {
                gaps_ns: climb.rates(workload.requests_per_s).into_iter().map(|rate| 1e9 / rate).collect(),
                step_ns: climb.step_s * 1e9,
                stride_ns: climb.stride_s() * 1e9,
            },
            Schedule::Replay { .. } => Shape::Replay(recorded.unwrap_or_default()),
        };
        Self {
            shape,
            gap_ns: 1.0 / start_per_ns,
            index: 0,
            at_ns: 0.0,
            random: ChaCha8Rng::seed_from_u64(workload.seed),
        }
    }

    /// An exponential gap by inversion: -ln(1 - u) times the mean.
    fn exponential_gap_ns(&mut self, mean_ns: f64) -> f64 {
        let uniform = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        -(1.0 - uniform).ln() * mean_ns
    }

    /// The next arrival of a ramp search. If a step ends before it, the gap is drawn again for the next step: such gaps have no memory.
    fn climb_ns(&mut self) -> Option<f64> {
        loop {
            let Shape::Climb { gaps_ns, step_ns, stride_ns } = &self.shape else { return None };
            let step = (self.at_ns / stride_ns + 1e-9).floor();
            let (gap_ns, ends_ns, next_ns) =
                (*gaps_ns.get(step as usize)?, step * stride_ns + step_ns, (step + 1.0) * stride_ns);
            self.at_ns += self.exponential_gap_ns(gap_ns);
            if self.at_ns < ends_ns {
                return Some(self.at_ns);
            }
            self.at_ns = next_ns;
        }
    }
}

impl Iterator for Arrivals {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let index = self.index as f64;
        let gap_ns = self.gap_ns;
        // Computed from the index, since a sum of a million rounded gaps drifts.
        let due_ns = match &self.shape {
            Shape::Uniform => index * gap_ns,
            Shape::Poisson => {
                self.at_ns += self.exponential_gap_ns(gap_ns);
                self.at_ns
            }
            Shape::Bursts { every_ns } => (index * gap_ns / every_ns).floor() * every_ns,
            Shape::Ramp { start_per_ns, change_per_ns } => ramp_ns(index, *start_per_ns, *change_per_ns)?,
            Shape::Steps { rates_per_ns, step_ns } => steps_ns(index, rates_per_ns, *step_ns)?,
            Shape::Climb { .. } => self.climb_ns()?,
            Shape::Replay(times) => *times.get(usize::try_from(self.index).ok()?)? as f64,
        };
        self.index += 1;
        Some(due_ns as u64)
    }
}

/// The highest rate of a schedule, per second; the same limit as for the workload's own rate.
pub(crate) const MOST_REQUESTS_PER_S: f64 = 1e7;
/// More steps than this are a ramp.
const MOST_STEPS: usize = 1_000;

/// The problem with the schedule of a workload.
pub(crate) fn check(workload: &Workload) -> Result<(), LoadError> {
    let wrong = |problem: String| Err(LoadError::Setting { name: "schedule", problem });
    match &workload.schedule {
        Schedule::Bursts { every_ms } if !(*every_ms > 0.0 && *every_ms <= workload.duration_s * 1e3) => {
            wrong(format!("bursts must come within the window, not every {every_ms} ms"))
        }
        Schedule::Ramp { to_requests_per_s: to } if !(*to >= 0.0 && *to <= MOST_REQUESTS_PER_S) => {
            wrong(format!("a ramp must end between 0 and {MOST_REQUESTS_PER_S} requests/s, got {to}"))
        }
        Schedule::Steps { requests_per_s } if !(1..=MOST_STEPS).contains(&requests_per_s.len()) => {
            wrong(format!("there must be between 1 and {MOST_STEPS} steps, got {}", requests_per_s.len()))
        }
        Schedule::Steps { requests_per_s: rates } => {
            match rates.iter().find(|rate| !(**rate > 0.0 && **rate <= MOST_REQUESTS_PER_S)) {
                Some(rate) => wrong(format!(
                    "each step must be above 0 and at most {MOST_REQUESTS_PER_S} requests/s, got {rate}"
                )),
                None => Ok(()),
            }
        }
        Schedule::Climb(climb) => check_climb(climb, workload.requests_per_s),
        Schedule::Replay { source, .. } if source.is_empty() => {
            wrong("a replay needs a file or `topic NAME`".to_owned())
        }
        _ => Ok(()),
    }
}

/// The problem with a ramp search.
fn check_climb(climb: &Climb, from_requests_per_s: f64) -> Result<(), LoadError> {
    let wrong = |problem: String| Err(LoadError::Setting { name: "ramp search", problem });
    let (from, to, slo) = (from_requests_per_s, climb.to_requests_per_s, climb.slo);
    if !(to > from && to <= MOST_REQUESTS_PER_S) {
        return wrong(format!(
            "must end above its start rate {from} requests/s and at most at {MOST_REQUESTS_PER_S}, got {to}"
        ));
    }
    if !(climb.growth > 1.0 && climb.rates(from).len() <= MOST_STEPS) {
        return wrong(format!(
            "has more than {MOST_STEPS} steps from {from} to {to} requests/s: use a higher start rate"
        ));
    }
    if !(climb.step_s > 0.0 && climb.rest_s >= 0.0 && slo.latency_us > 0.0) {
        return wrong("needs an SLO, and steps of some length".to_owned());
    }
    let fewest = from * climb.step_s;
    if !(slo.quantile > 0.0 && slo.quantile < 1.0 && fewest >= slo.samples_needed()) {
        return wrong(format!(
            "has the SLO {}, which needs {} requests per step, but the first step has {fewest:.0}: use \
             longer steps, a higher start rate, or an SLO closer to the median",
            slo.label(),
            slo.samples_needed()
        ));
    }
    Ok(())
}

/// Time at which a linearly changing rate has produced `count` requests: the root of `start t + change t^2 / 2 = count`, in the form that
/// loses no digits for a small change. `None` if a falling rate never gets there.
fn ramp_ns(count: f64, start: f64, change: f64) -> Option<f64> {
    let under_root = start * start + 2.0 * change * count;
    (under_root >= 0.0).then(|| 2.0 * count / (start + under_root.sqrt()))
}

/// Time at which rates that each last one step have produced `count` requests.
fn steps_ns(count: f64, rates: &[f64], step_ns: f64) -> Option<f64> {
    let mut made = 0.0;
    for (step, rate) in rates.iter().enumerate() {
        let last = step + 1 == rates.len();
        if last || count < made + rate * step_ns {
            return Some(step as f64 * step_ns + (count - made) / rate);
        }
        made += rate * step_ns;
    }
    None
}

/// Every n-th arrival of the one schedule. All shards together send the whole schedule, and none of them sends bursts.
pub(crate) fn part_of(arrivals: Arrivals, shard: Option<Shard>) -> impl Iterator<Item = u64> {
    let (index, of) = shard.map_or((0, 1), |shard| (shard.index as usize, shard.of.max(1) as usize));
    arrivals.skip(index).step_by(of)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use hone_record::{Engine, Keys, Payload, Sizes};
    use std::collections::BTreeMap;

    pub(crate) fn workload(schedule: Schedule, requests_per_s: f64, seed: u64) -> Workload {
        Workload {
            name: "test".to_owned(),
            engine: Engine::Wire,
            seed,
            schedule,
            requests_per_s,
            records_per_batch: 1,
            record_bytes: 100,
            sizes: Sizes::Fixed,
            payload: Payload::Bytes { compressible_share: 0.5 },
            keys: Keys::None,
            compression: "none".to_owned(),
            connections: 1,
            in_flight: 1,
            topics: hone_record::TopicShares::default(),
            partitions: 1,
            partitions_per_request: 1,
            acks: 1,
            idempotent: false,
            consumers: 0,
            consumer_group: false,
            consumer_groups: 1,
            group_protocol: hone_record::GroupProtocol::Assigned,
            rebalance_every_s: 0.0,
            processing: hone_record::Processing::default(),
            fetch: hone_record::FetchLimits::default(),
            read_from: hone_record::ReadFrom::End,
            backlog_bytes: 0,
            warmup_requests: 0,
            warmup_limit_s: 0.0,
            duration_s: 10.0,
            timeout_s: 1.0,
            topic_config: BTreeMap::new(),
            replication_factor: None,
            recording: None,
        }
    }

    fn due(schedule: Schedule, seed: u64, count: usize) -> Vec<u64> {
        Arrivals::new(&workload(schedule, 1_000.0, seed), None).take(count).collect()
    }

    /// Arrivals in each second of a window of ten.
    fn by_second(schedule: Schedule, requests_per_s: f64) -> Vec<usize> {
        let mut seconds = vec![0; 10];
        for due_ns in Arrivals::new(&workload(schedule, requests_per_s, 1), None) {
            match seconds.get_mut((due_ns / 1_000_000_000) as usize) {
                Some(count) => *count += 1,
                None => break,
            }
        }
        seconds
    }

    #[test]
    fn a_ramp_rises_evenly_and_a_falling_one_ends() {
        let rising = by_second(Schedule::Ramp { to_requests_per_s: 2_000.0 }, 1_000.0);
        for (second, count) in rising.iter().enumerate() {
            let expected = 1_050 + 100 * second;
            assert!(count.abs_diff(expected) <= 1, "second {second}: {count}, expected {expected}");
        }
        assert_eq!(by_second(Schedule::Ramp { to_requests_per_s: 1_000.0 }, 1_000.0), [1_000; 10]);
        let falling = by_second(Schedule::Ramp { to_requests_per_s: 0.0 }, 1_000.0);
        assert!(falling.iter().sum::<usize>().abs_diff(5_000) <= 1, "{falling:?}");
        assert!(falling.is_sorted_by(|left, right| left > right), "{falling:?}");
    }

    #[test]
    fn a_climb_rests_behind_each_step_and_ends() {
        let slo = hone_record::Slo { quantile: 0.9, latency_us: 1e4 };
        let climb = Climb { slo, to_requests_per_s: 4_000.0, growth: 2.0, step_s: 0.9, rest_s: 0.1 };
        let load = workload(Schedule::Uniform, 1_000.0, 7).climbing(climb);
        assert_eq!((load.duration_s, load.requests_per_window()), (3.0, None));
        check(&load).unwrap();
        let times: Vec<u64> = Arrivals::new(&load, None).collect();
        assert!(times.is_sorted() && times.iter().all(|due_ns| due_ns % 1_000_000_000 < 900_000_000));
        for (second, expected) in [900.0_f64, 1_800.0, 3_600.0].into_iter().enumerate() {
            let count =
                times.iter().filter(|due_ns| **due_ns / 1_000_000_000 == second as u64).count() as f64;
            assert!((count - expected).abs() < 4.0 * expected.sqrt(), "second {second}: {count}");
        }
        for (wrong, message) in [
            (
                Climb { slo: hone_record::Slo { quantile: 0.99, ..slo }, ..climb },
                "needs 1000 requests per step",
            ),
            (Climb { to_requests_per_s: 1_000.0, ..climb }, "must end above"),
            (Climb { growth: 1.0001, ..climb }, "more than 1000 steps"),
        ] {
            let problem = check(&workload(Schedule::Climb(wrong), 1_000.0, 7)).unwrap_err().to_string();
            assert!(problem.contains(message), "{problem}");
        }
    }

    #[test]
    fn steps_hold_their_rates() {
        let steps = Schedule::Steps { requests_per_s: vec![100.0, 1_000.0, 0.5, 10.0, 400.0] };
        let seconds = by_second(steps, 302.1);
        for (expected, found) in [200, 2_000, 1, 20, 800].iter().zip(seconds.chunks(2)) {
            assert!(found.iter().sum::<usize>().abs_diff(*expected) <= 1, "{seconds:?}");
        }
    }

    #[test]
    fn bursts_come_at_once_and_keep_the_rate() {
        let times = due(Schedule::Bursts { every_ms: 2.5 }, 1, 1_000);
        assert_eq!(
            times[..5],
            [0, 0, 0, 2_500_000, 2_500_000],
            "two and a half a period, rounded from the index"
        );
        assert!(times.iter().all(|due_ns| due_ns % 2_500_000 == 0));
        assert_eq!(times.iter().filter(|due_ns| **due_ns < 500_000_000).count(), 500);
    }

    #[test]
    fn the_shards_together_have_every_arrival_once() {
        let arrivals = || Arrivals::new(&workload(Schedule::Poisson, 1_000.0, 5), None);
        let whole: Vec<u64> = arrivals().take(3_000).collect();
        let of = |index| Some(Shard { index, of: 3, start_unix_ms: 0 });
        let mut parts: Vec<u64> =
            (0..3).flat_map(|index| part_of(arrivals(), of(index)).take(1_000).collect::<Vec<_>>()).collect();
        parts.sort_unstable();
        assert_eq!(parts, whole);
        assert_eq!(part_of(arrivals(), None).take(3_000).collect::<Vec<_>>(), whole);
    }

    #[test]
    fn a_replay_gives_back_what_was_recorded() {
        let schedule = Schedule::Replay { source: "test".to_owned(), arrivals: 3, sha256: String::new() };
        let replayed = Arrivals::new(&workload(schedule, 1.0, 1), Some(vec![5, 5, 900].into()));
        assert_eq!(replayed.collect::<Vec<_>>(), [5, 5, 900]);
    }

    #[test]
    fn uniform_gaps_do_not_drift() {
        let million = Arrivals::new(&workload(Schedule::Uniform, 3_000.0, 0), None).nth(3_000_000).unwrap();
        assert_eq!(million, 1_000 * 1_000_000_000);
        assert_eq!(due(Schedule::Uniform, 1, 3), [0, 1_000_000, 2_000_000]);
    }

    #[test]
    fn poisson_has_the_asked_rate_and_an_exponential_spread() {
        let times = due(Schedule::Poisson, 7, 100_000);
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!((mean - 1.0).abs() < 0.02, "mean gap {mean} ms");
        // Of exponential gaps, exp(-1) are longer than the mean and exp(-3) longer than three times the mean.
        for (times, expected) in [(1.0, (-1f64).exp()), (3.0, (-3f64).exp())] {
            let share = gaps.iter().filter(|gap| **gap > times).count() as f64 / gaps.len() as f64;
            assert!((share - expected).abs() < 0.01, "{share} of gaps beyond {times}, expected {expected}");
        }
    }

    #[test]
    fn a_seed_repeats_the_arrivals_and_another_does_not() {
        assert_eq!(due(Schedule::Poisson, 3, 100), due(Schedule::Poisson, 3, 100));
        assert_ne!(due(Schedule::Poisson, 3, 100), due(Schedule::Poisson, 4, 100));
        assert!(due(Schedule::Poisson, 3, 1000).is_sorted());
    }
}

//! The highest rate at which an SLO is met, measured in one window.

use serde::{Deserialize, Serialize};

use crate::histogram::{percentile, samples_for};

/// An SLO: this quantile of the latency, from intended time to acknowledgement, is at most this long.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Slo {
    /// The quantile, 0 to 1, for example 0.99.
    pub quantile: f64,
    /// The limit in microseconds.
    pub latency_us: f64,
}

impl Slo {
    /// The SLO for people: `p99 <= 10 ms`.
    pub fn label(self) -> String {
        let (value, unit) = match self.latency_us {
            us if us >= 1e6 => (us / 1e6, "s"),
            us if us >= 1e3 => (us / 1e3, "ms"),
            us => (us, "µs"),
        };
        format!("{} <= {} {unit}", percentile(self.quantile), (value * 1e3).round() / 1e3)
    }

    /// Number of requests that leaves enough of them beyond the quantile.
    pub fn samples_needed(self) -> f64 {
        samples_for(self.quantile) as f64
    }
}

/// A load whose rate rises in steps until the SLO is missed. The workload's own rate is the first step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Climb {
    /// The SLO.
    pub slo: Slo,
    /// Highest rate of a step.
    pub to_requests_per_s: f64,
    /// Ratio of each step's rate to the previous one.
    pub growth: f64,
    /// Length of each step, in seconds.
    pub step_s: f64,
    /// Pause after each step, in seconds, so that the backlog of one step does not spoil the next.
    pub rest_s: f64,
}

/// One measured step. A request belongs to the step in which it was due, even if it ended later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ClimbStep {
    /// Rate of the step.
    pub requests_per_s: f64,
    /// Requests that were due.
    pub requests: u64,
    /// Requests that failed.
    pub failed_requests: u64,
    /// The SLO's quantile of their latency, from intended time to acknowledgement, in microseconds.
    pub latency_us: f64,
    /// The same quantile of the generator's own delay, in microseconds.
    pub generator_lag_us: f64,
}

/// Result of a ramp search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reading {
    /// The capacity, in requests per second.
    Found(f64),
    /// The first step missed the SLO: the capacity is lower.
    NothingHeld,
    /// Every step met the SLO: the capacity is higher.
    NeverBroke,
    /// From this step on, the generator's own delay exceeded the SLO.
    GeneratorLate(ClimbStep),
}

/// The verdict about a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Held,
    Broke,
    /// The SLO was missed, but the generator's delay exceeded it as well. The step shows nothing about the target.
    Late,
}

/// A step with a larger share of failed requests misses the SLO, whatever its latency.
const FAILED_SHARE_LIMIT: f64 = 0.01;
/// Number of consecutive missed steps that end a ramp search. A single miss may come from another process.
pub const STEPS_BEYOND: usize = 3;

impl Climb {
    /// The rates of the steps, beginning with the workload's own.
    pub fn rates(&self, from_requests_per_s: f64) -> Vec<f64> {
        let steps = (self.to_requests_per_s / from_requests_per_s).ln() / self.growth.ln();
        // The last rate is exactly the requested one, whatever rounding the logarithms cause.
        let last = if steps.is_finite() { (steps + 1e-9).floor().max(0.0) as i32 } else { 0 };
        (0..=last).map(|step| from_requests_per_s * self.growth.powi(step)).collect()
    }

    /// Length of a step with its pause, in seconds.
    pub fn stride_s(&self) -> f64 {
        self.step_s + self.rest_s
    }

    /// Shortest duration of a ramp search from this rate that gives a capacity: one step that meets the SLO, and the steps after it that
    /// end the search.
    pub fn least_s(&self, from_requests_per_s: f64) -> f64 {
        let steps = self.rates(from_requests_per_s).len().min(STEPS_BEYOND + 1);
        steps as f64 * self.stride_s()
    }

    fn said(&self, step: &ClimbStep) -> Said {
        let fails = step.failed_requests as f64 > FAILED_SHARE_LIMIT * step.requests as f64;
        match step.latency_us <= self.slo.latency_us && !fails {
            true => Said::Held,
            false if step.generator_lag_us > self.slo.latency_us => Said::Late,
            false => Said::Broke,
        }
    }

    /// Whether the steps so far are enough, since the SLO stays missed.
    pub fn is_over(&self, steps: &[ClimbStep]) -> bool {
        let last = steps.iter().rev().take(STEPS_BEYOND);
        steps.len() >= STEPS_BEYOND && last.into_iter().all(|step| self.said(step) != Said::Held)
    }

    /// The capacity. It lies where the fewest steps contradict it: missed steps below it and met steps above it. If several places are
    /// equally good, the highest wins, because other processes can spoil a step but never improve it. Between the last met step and the
    /// first missed one, it lies where the latency meets the SLO, interpolated on logarithmic scales.
    pub fn read(&self, steps: &[ClimbStep]) -> Reading {
        let counted: Vec<(&ClimbStep, bool)> = steps
            .iter()
            .filter(|step| step.requests > 0 && self.said(step) != Said::Late)
            .map(|step| (step, self.said(step) == Said::Held))
            .collect();
        let contradict = |edge: usize| {
            let below = counted[..edge].iter().filter(|(_, held)| !held).count();
            below + counted[edge..].iter().filter(|(_, held)| *held).count()
        };
        let edge = (0..=counted.len()).rev().min_by_key(|edge| contradict(*edge)).unwrap_or(0);
        if edge == counted.len() {
            let late = steps.iter().rev().take_while(|step| self.said(step) == Said::Late).last();
            return late.map_or(Reading::NeverBroke, |late| Reading::GeneratorLate(*late));
        }
        match edge.checked_sub(1) {
            Some(below) => Reading::Found(self.between(counted[below].0, counted[edge].0)),
            None => Reading::NothingHeld,
        }
    }

    /// The capacity without the reason for its absence.
    pub fn capacity(&self, steps: &[ClimbStep]) -> Option<f64> {
        match self.read(steps) {
            Reading::Found(capacity) => Some(capacity),
            _ => None,
        }
    }

    /// The highest rate of the search, if every rate met the SLO. The capacity is at least this rate.
    pub fn held_throughout(&self, steps: &[ClimbStep]) -> Option<f64> {
        let rates = steps.iter().filter(|step| step.requests > 0).map(|step| step.requests_per_s);
        rates.reduce(f64::max).filter(|_| self.read(steps) == Reading::NeverBroke)
    }

    fn between(&self, held: &ClimbStep, broke: &ClimbStep) -> f64 {
        let log = |latency_us: f64| latency_us.max(1.0).ln();
        let (low, high) = (log(held.latency_us), log(broke.latency_us));
        // A step that missed the SLO only by its failures may have had a short latency.
        let share = if high > low { (log(self.slo.latency_us) - low) / (high - low) } else { 0.5 };
        held.requests_per_s * (broke.requests_per_s / held.requests_per_s).powf(share.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn climb(growth: f64) -> Climb {
        let slo = Slo { quantile: 0.99, latency_us: 50_000.0 };
        Climb { slo, to_requests_per_s: 10_000.0, growth, step_s: 2.0, rest_s: 0.1 }
    }

    fn step(requests_per_s: f64, latency_ms: f64) -> ClimbStep {
        ClimbStep { requests_per_s, requests: 1_000, latency_us: latency_ms * 1e3, ..ClimbStep::default() }
    }

    fn late(requests_per_s: f64) -> ClimbStep {
        ClimbStep { generator_lag_us: 60_000.0, ..step(requests_per_s, 100.0) }
    }

    /// SplitMix64, 0 to 1.
    fn unit(state: &mut u64) -> f64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// One server that takes this long for each request, random arrivals, and a queue that one step may leave to the next.
    fn queue(climb: &Climb, from: f64, service_s: f64, seed: u64) -> Vec<ClimbStep> {
        let (mut random, mut free_s, mut steps) = (seed, 0.0_f64, Vec::new());
        for (index, rate) in climb.rates(from).into_iter().enumerate() {
            let begin_s = index as f64 * climb.stride_s();
            let (mut at_s, mut waited_us) = (begin_s, Vec::new());
            loop {
                at_s -= unit(&mut random).ln() / rate;
                if at_s >= begin_s + climb.step_s {
                    break;
                }
                free_s = free_s.max(at_s) + service_s;
                waited_us.push((free_s - at_s) * 1e6);
            }
            waited_us.sort_by(f64::total_cmp);
            let latency_us = waited_us[(waited_us.len() as f64 * climb.slo.quantile) as usize];
            steps.push(ClimbStep { requests: waited_us.len() as u64, ..step(rate, latency_us / 1e3) });
            if climb.is_over(&steps) {
                break;
            }
        }
        steps
    }

    /// A server of 1,000 requests/s keeps p99 below fifty services up to where it is 95 % busy, and a step of 2 s shows it by 102 %.
    #[test]
    fn the_capacity_of_a_known_queue_is_found_and_half_a_server_has_half() {
        let climb = climb(1.05);
        let mean_log = |service_s: f64| {
            let of = |seed| climb.capacity(&queue(&climb, 250.0, service_s, seed)).unwrap().ln();
            (0..50).map(of).sum::<f64>() / 50.0
        };
        let (whole, half) = (mean_log(0.001).exp(), mean_log(0.002).exp());
        assert!((930.0..1_030.0).contains(&whole), "{whole}");
        let ratio = half / whole;
        // A little less than half: the same SLO is half as many services long.
        assert!((0.46..0.50).contains(&ratio), "{ratio}");
    }

    #[test]
    fn it_lies_between_the_last_that_held_and_the_first_that_broke() {
        let climb = climb(2.0);
        assert_eq!(climb.rates(1_000.0), [1_000.0, 2_000.0, 4_000.0, 8_000.0]);
        assert_eq!(
            Climb { to_requests_per_s: 8_000.0, ..climb }.rates(1_000.0).len(),
            4,
            "the last one, too"
        );
        let found = |steps: &[ClimbStep]| climb.capacity(steps).map(f64::round);
        // From 5 to 500 ms, the SLO of 50 ms is half of the way.
        assert_eq!(found(&[step(1_000.0, 5.0), step(2_000.0, 500.0)]), Some(1_414.0));
        assert_eq!(found(&[step(1_000.0, 50.0), step(2_000.0, 500.0)]), Some(1_000.0));
        let failing = ClimbStep { failed_requests: 11, ..step(2_000.0, 1.0) };
        assert_eq!(found(&[step(1_000.0, 2.0), failing]), Some(1_414.0), "a quick failure is not a gain");
        let few = ClimbStep { failed_requests: 10, ..failing };
        assert_eq!(climb.read(&[step(1_000.0, 2.0), few]), Reading::NeverBroke);
    }

    #[test]
    fn the_shortest_climb_has_one_step_that_holds() {
        let climb = climb(2.0);
        assert!((climb.least_s(100.0) - 4.0 * 2.1).abs() < 1e-9, "three more steps end it");
        let steps = [step(100.0, 1.0), step(200.0, 90.0), step(400.0, 90.0), step(800.0, 90.0)];
        assert!(climb.is_over(&steps) && climb.capacity(&steps).is_some());
        assert_eq!(climb.read(&steps[1..]), Reading::NothingHeld, "one step less is not enough");
        assert!((climb.least_s(6_000.0) - 2.1).abs() < 1e-9, "there are no more");
    }

    #[test]
    fn a_step_that_a_neighbour_broke_is_outvoted() {
        let climb = climb(1.1);
        let of = |latencies_ms: &[f64]| {
            let steps: Vec<ClimbStep> =
                latencies_ms.iter().enumerate().map(|(at, ms)| step(1.1_f64.powi(at as i32), *ms)).collect();
            climb.capacity(&steps)
        };
        let quiet = of(&[1.0, 1.0, 1.0, 1.0, 400.0, 800.0, 1_000.0]);
        assert!(quiet.is_some());
        assert_eq!(of(&[1.0, 900.0, 1.0, 1.0, 400.0, 800.0, 1_000.0]), quiet);
        assert_eq!(of(&[900.0, 1.0, 1.0, 1.0, 400.0, 800.0, 1_000.0]), quiet, "the first one, too");
        assert_eq!(of(&[1.0, 1.0, 900.0, 1.0, 400.0, 800.0, 1_000.0]), quiet, "also near the edge");
    }

    #[test]
    fn what_is_not_known_is_told_and_by_whose_fault() {
        let climb = climb(2.0);
        assert_eq!(climb.read(&[step(1_000.0, 1.0), step(2_000.0, 1.0)]), Reading::NeverBroke);
        assert_eq!(climb.read(&[step(1_000.0, 90.0), step(2_000.0, 90.0)]), Reading::NothingHeld);
        let steps = [step(1_000.0, 1.0), late(2_000.0), late(4_000.0), late(8_000.0)];
        assert_eq!(climb.read(&steps), Reading::GeneratorLate(steps[1]));
        assert!(climb.is_over(&steps), "it gets no further");
        // A generator that fell behind once, below the edge, changes nothing.
        let steps = [step(1_000.0, 1.0), late(2_000.0), step(4_000.0, 1.0), step(8_000.0, 900.0)];
        assert!(matches!(climb.read(&steps), Reading::Found(capacity) if capacity > 4_000.0));
        assert!(!climb.is_over(&steps) && !climb.is_over(&[]));
        let over = [step(1.0, 1.0), step(2.0, 90.0), step(3.0, 90.0), step(4.0, 90.0)];
        assert!(climb.is_over(&over) && !climb.is_over(&over[..3]));
    }

    #[test]
    fn a_promise_in_words() {
        let words = |quantile, latency_us| Slo { quantile, latency_us }.label();
        assert_eq!(words(0.99, 10_000.0), "p99 <= 10 ms");
        assert_eq!(words(0.999, 2_500_000.0), "p99.9 <= 2.5 s");
        assert_eq!(words(0.5, 250.0), "p50 <= 250 µs");
        assert_eq!(Slo { quantile: 0.99, latency_us: 1.0 }.samples_needed(), 1_000.0);
    }
}

//! The highest rate at which a promise about latency holds, as one window measures it.

use serde::{Deserialize, Serialize};

use crate::histogram::{percentile, samples_for};

/// A promise: this quantile of the latency, intended to ack, is at most so long.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Slo {
    /// 0 to 1, as 0.99.
    pub quantile: f64,
    /// In microseconds.
    pub latency_us: f64,
}

impl Slo {
    /// The promise for people: `p99 <= 10 ms`.
    pub fn label(self) -> String {
        let (value, unit) = match self.latency_us {
            us if us >= 1e6 => (us / 1e6, "s"),
            us if us >= 1e3 => (us / 1e3, "ms"),
            us => (us, "µs"),
        };
        format!("{} <= {} {unit}", percentile(self.quantile), (value * 1e3).round() / 1e3)
    }

    /// Requests of which enough lie beyond the quantile.
    pub fn samples_needed(self) -> f64 {
        samples_for(self.quantile) as f64
    }
}

/// A load that climbs by steps until a promise breaks. The workload's own rate is the first step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Climb {
    /// What has to hold.
    pub slo: Slo,
    /// No step is higher.
    pub to_requests_per_s: f64,
    /// Each step is so many times as high as the one before.
    pub growth: f64,
    /// How long each step is held, in seconds.
    pub step_s: f64,
    /// How long nothing is due behind each step, in seconds, so that what one leaves behind does not spoil the next.
    pub rest_s: f64,
}

/// One step as it was measured. A request belongs to the step in which it was due, whenever it ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ClimbStep {
    /// Its rate.
    pub requests_per_s: f64,
    /// Requests due in it.
    pub requests: u64,
    /// Those that ended with an error.
    pub failed_requests: u64,
    /// The promise's quantile of their latency, intended to ack, in microseconds.
    pub latency_us: f64,
    /// The same quantile of how late the generator was by its own fault.
    pub generator_lag_us: f64,
}

/// What a climb has found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reading {
    /// The capacity, in requests per second.
    Found(f64),
    /// The promise broke at the first step: the capacity lies below.
    NothingHeld,
    /// It held at every step: the capacity lies above.
    NeverBroke,
    /// From this step on the generator itself was later than the promise.
    GeneratorLate(ClimbStep),
}

/// How a step counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Held,
    Broke,
    /// Broken, but by the generator as well, so it says nothing of the target.
    Late,
}

/// A step in which more requests than this share came to nothing has broken the promise, whatever its latency.
const FAILED_SHARE_LIMIT: f64 = 0.01;
/// So many steps running that did not hold end a climb: one may be a neighbour's.
pub const STEPS_BEYOND: usize = 3;

impl Climb {
    /// The rates of its steps, from the workload's own on.
    pub fn rates(&self, from_requests_per_s: f64) -> Vec<f64> {
        let steps = (self.to_requests_per_s / from_requests_per_s).ln() / self.growth.ln();
        // The last rate is the one that was asked for, whatever the logarithms have lost.
        let last = if steps.is_finite() { (steps + 1e-9).floor().max(0.0) as i32 } else { 0 };
        (0..=last).map(|step| from_requests_per_s * self.growth.powi(step)).collect()
    }

    /// A step and the rest behind it, in seconds.
    pub fn stride_s(&self) -> f64 {
        self.step_s + self.rest_s
    }

    /// The shortest that a climb from this rate can be which tells a capacity: one step that holds, and as many behind it as end it.
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

    /// Whether the steps so far are enough: the promise is broken for good.
    pub fn is_over(&self, steps: &[ClimbStep]) -> bool {
        let last = steps.iter().rev().take(STEPS_BEYOND);
        steps.len() >= STEPS_BEYOND && last.into_iter().all(|step| self.said(step) != Said::Held)
    }

    /// The capacity: where fewest steps contradict, which are those that broke below it and those that held above. Where several
    /// places are as good, the highest: neighbours break steps, and nobody makes one hold. Between the step that held last and the
    /// one that broke first it lies where the logarithm of the latency, drawn straight over the logarithm of the rate, meets the promise.
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

    /// The same for those who need no reason why there is none.
    pub fn capacity(&self, steps: &[ClimbStep]) -> Option<f64> {
        match self.read(steps) {
            Reading::Found(capacity) => Some(capacity),
            _ => None,
        }
    }

    /// The highest rate that was tried, where the promise held at every rate: the capacity is at least that.
    pub fn held_throughout(&self, steps: &[ClimbStep]) -> Option<f64> {
        let rates = steps.iter().filter(|step| step.requests > 0).map(|step| step.requests_per_s);
        rates.reduce(f64::max).filter(|_| self.read(steps) == Reading::NeverBroke)
    }

    fn between(&self, held: &ClimbStep, broke: &ClimbStep) -> f64 {
        let log = |latency_us: f64| latency_us.max(1.0).ln();
        let (low, high) = (log(held.latency_us), log(broke.latency_us));
        // A step that broke by its failures alone may have been quick.
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

    /// One server that takes so long for each request, random arrivals, and a queue that one step may leave to the next.
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
        // A little less than half: the same promise is half as many services long.
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
        // From 5 to 500 ms, the promise of 50 ms is half of the way.
        assert_eq!(found(&[step(1_000.0, 5.0), step(2_000.0, 500.0)]), Some(1_414.0));
        assert_eq!(found(&[step(1_000.0, 50.0), step(2_000.0, 500.0)]), Some(1_000.0));
        let failing = ClimbStep { failed_requests: 11, ..step(2_000.0, 1.0) };
        assert_eq!(
            found(&[step(1_000.0, 2.0), failing]),
            Some(1_414.0),
            "what is quick and fails is no gain"
        );
        let few = ClimbStep { failed_requests: 10, ..failing };
        assert_eq!(climb.read(&[step(1_000.0, 2.0), few]), Reading::NeverBroke);
    }

    #[test]
    fn the_shortest_climb_has_one_step_that_holds() {
        let climb = climb(2.0);
        assert!((climb.least_s(100.0) - 4.0 * 2.1).abs() < 1e-9, "three more steps end it");
        let steps = [step(100.0, 1.0), step(200.0, 90.0), step(400.0, 90.0), step(800.0, 90.0)];
        assert!(climb.is_over(&steps) && climb.capacity(&steps).is_some());
        assert_eq!(climb.read(&steps[1..]), Reading::NothingHeld, "one step less tells nothing");
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
        // A generator that was late once, below the edge, has said nothing.
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

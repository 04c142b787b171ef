//! The highest rate at which a promise about latency holds, as one window measures it.

use serde::{Deserialize, Serialize};

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
    pub fn words(self) -> String {
        // 0.999 * 100 is 99.9 but for the last bits.
        let percent = (self.quantile * 1e8).round() / 1e6;
        let (value, unit) = match self.latency_us {
            us if us >= 1e6 => (us / 1e6, "s"),
            us if us >= 1e3 => (us / 1e3, "ms"),
            us => (us, "µs"),
        };
        format!("p{percent} <= {} {unit}", (value * 1e3).round() / 1e3)
    }

    /// Requests of which enough lie beyond the quantile.
    pub fn samples_needed(self) -> f64 {
        (10.0 / (1.0 - self.quantile)).round()
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

    fn between(&self, held: &ClimbStep, broke: &ClimbStep) -> f64 {
        let log = |latency_us: f64| latency_us.max(1.0).ln();
        let (low, high) = (log(held.latency_us), log(broke.latency_us));
        // A step that broke by its failures alone may have been quick.
        let share = if high > low { (log(self.slo.latency_us) - low) / (high - low) } else { 0.5 };
        held.requests_per_s * (broke.requests_per_s / held.requests_per_s).powf(share.clamp(0.0, 1.0))
    }
}

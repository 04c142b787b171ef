//! What each step of a load that climbs has said, while it climbs.

use hone_record::{Climb, ClimbStep, Hdr, Outcome, Reading, STEPS_BEYOND};

/// The steps of one window. A request belongs to the step in which it was due: one that a broken step has kept waiting does not
/// spoil the next.
#[derive(Debug)]
pub(crate) struct Stairs {
    climb: Climb,
    stride_ns: f64,
    steps: Vec<Stair>,
}

#[derive(Debug)]
struct Stair {
    requests_per_s: f64,
    due: u64,
    failed: u64,
    /// Made when the step begins: most of a climb is never climbed.
    seen: Option<Box<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    latency: Hdr,
    lag: Hdr,
}

impl Stairs {
    pub(crate) fn new(climb: Climb, from_requests_per_s: f64) -> Self {
        let stair = |requests_per_s| Stair { requests_per_s, due: 0, failed: 0, seen: None };
        Self {
            climb,
            stride_ns: climb.stride_s() * 1e9,
            steps: climb.rates(from_requests_per_s).into_iter().map(stair).collect(),
        }
    }

    fn at(&mut self, due_ns: u64) -> Option<&mut Stair> {
        let step = (due_ns as f64 / self.stride_ns) as usize;
        self.steps.get_mut(step)
    }

    pub(crate) fn due(&mut self, due_ns: u64) {
        if let Some(stair) = self.at(due_ns) {
            stair.due += 1;
        }
    }

    pub(crate) fn late(&mut self, due_ns: u64, lateness_ns: u64) {
        if let Some(stair) = self.at(due_ns) {
            stair.seen.get_or_insert_default().lag.record_ns(lateness_ns);
        }
    }

    pub(crate) fn ended(&mut self, due_ns: u64, latency_ns: u64, is_failed: bool) {
        if let Some(stair) = self.at(due_ns) {
            stair.failed += u64::from(is_failed);
            stair.seen.get_or_insert_default().latency.record_ns(latency_ns);
        }
    }

    /// How many steps lie wholly before a time, with the rest behind them.
    pub(crate) fn whole(&self, now_ns: u64) -> usize {
        ((now_ns as f64 / self.stride_ns + 1e-6) as usize).min(self.steps.len())
    }

    /// Those steps. What has not ended by then counts as longer than all that has.
    pub(crate) fn until(&self, now_ns: u64) -> Vec<ClimbStep> {
        self.told(&self.steps[..self.whole(now_ns)])
    }

    fn told(&self, steps: &[Stair]) -> Vec<ClimbStep> {
        steps.iter().map(|stair| stair.told(self.climb.slo.quantile)).collect()
    }

    /// Whether the promise is broken for good behind so many steps.
    pub(crate) fn is_over(&self, whole: usize) -> bool {
        let last = whole.saturating_sub(STEPS_BEYOND)..whole;
        self.climb.is_over(&self.told(&self.steps[last]))
    }

    /// The outcome of a window that ended then. One in which the promise never broke is steady, and tells no capacity.
    pub(crate) fn outcome(&self, end_ns: u64) -> Outcome {
        let slo = self.climb.slo;
        match self.climb.read(&self.until(end_ns)) {
            Reading::Found(_) | Reading::NeverBroke => Outcome::Steady,
            Reading::NothingHeld => Outcome::Failed {
                reason: format!(
                    "{} broke at the first step already, {:.0} requests/s: begin lower",
                    slo.words(),
                    self.steps.first().map_or(0.0, |first| first.requests_per_s)
                ),
            },
            Reading::GeneratorLate(step) => {
                Outcome::GeneratorLate { lateness_us_p99: step.generator_lag_us, limit_us: slo.latency_us }
            }
        }
    }
}

/// Stands for a latency that nobody knows yet, in microseconds; no number of a record may be infinite.
const NOT_ENDED_US: f64 = 1e12;

impl Stair {
    fn told(&self, quantile: f64) -> ClimbStep {
        let (requests_per_s, requests, failed_requests) = (self.requests_per_s, self.due, self.failed);
        let step = ClimbStep { requests_per_s, requests, failed_requests, ..ClimbStep::default() };
        let Some(seen) = &self.seen else {
            return ClimbStep { latency_us: if requests > 0 { NOT_ENDED_US } else { 0.0 }, ..step };
        };
        let missing = requests.saturating_sub(seen.latency.count());
        ClimbStep {
            latency_us: seen.latency.quantile_us_with_longer(quantile, missing).unwrap_or(NOT_ENDED_US),
            generator_lag_us: seen.lag.quantile_us(quantile).unwrap_or(0.0),
            ..step
        }
    }
}

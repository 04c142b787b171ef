//! Results of each step of a ramp search while it runs.

use hone_record::{Climb, ClimbStep, Hdr, Outcome, Reading, STEPS_BEYOND};

/// The steps of one window. A request belongs to the step in which it was due, so a request delayed by a failed step does not spoil the
/// next.
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
    /// Created when the step begins, since most steps are never reached.
    times: Option<Box<StepTimes>>,
}

#[derive(Debug, Default)]
struct StepTimes {
    latency: Hdr,
    lag: Hdr,
}

impl Stairs {
    pub(crate) fn new(climb: Climb, from_requests_per_s: f64) -> Self {
        let stair = |requests_per_s| Stair { requests_per_s, due: 0, failed: 0, times: None };
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
            stair.times.get_or_insert_default().lag.record_ns(lateness_ns);
        }
    }

    pub(crate) fn ended(&mut self, due_ns: u64, latency_ns: u64, is_failed: bool) {
        if let Some(stair) = self.at(due_ns) {
            stair.failed += u64::from(is_failed);
            stair.times.get_or_insert_default().latency.record_ns(latency_ns);
        }
    }

    /// Number of steps that lie wholly before a time, pauses included.
    pub(crate) fn whole(&self, now_ns: u64) -> usize {
        ((now_ns as f64 / self.stride_ns + 1e-6) as usize).min(self.steps.len())
    }

    /// These steps. An unfinished request counts as longer than all finished ones.
    pub(crate) fn until(&self, now_ns: u64) -> Vec<ClimbStep> {
        self.climb_steps(&self.steps[..self.whole(now_ns)])
    }

    fn climb_steps(&self, steps: &[Stair]) -> Vec<ClimbStep> {
        steps.iter().map(|stair| stair.climb_step(self.climb.slo.quantile)).collect()
    }

    /// Whether the SLO stays missed after this many steps.
    pub(crate) fn is_over(&self, whole: usize) -> bool {
        let last = whole.saturating_sub(STEPS_BEYOND)..whole;
        self.climb.is_over(&self.climb_steps(&self.steps[last]))
    }

    /// The outcome of a window that ended at this time. If the SLO was never missed, the window is steady and gives no capacity.
    pub(crate) fn outcome(&self, end_ns: u64) -> Outcome {
        let slo = self.climb.slo;
        match self.climb.read(&self.until(end_ns)) {
            Reading::Found(_) | Reading::NeverBroke => Outcome::Steady,
            Reading::NothingHeld => Outcome::Failed {
                reason: format!(
                    "{} was missed at the first step already, at {:.0} requests/s: use a lower start rate",
                    slo.label(),
                    self.steps.first().map_or(0.0, |first| first.requests_per_s)
                ),
            },
            Reading::GeneratorLate(step) => {
                Outcome::GeneratorLate { lateness_us_p99: step.generator_lag_us, limit_us: slo.latency_us }
            }
        }
    }
}

/// Stands for a latency that is still unknown, in microseconds; no number of a record may be infinite.
const NOT_ENDED_US: f64 = 1e12;

impl Stair {
    fn climb_step(&self, quantile: f64) -> ClimbStep {
        let (requests_per_s, requests, failed_requests) = (self.requests_per_s, self.due, self.failed);
        let step = ClimbStep { requests_per_s, requests, failed_requests, ..ClimbStep::default() };
        let Some(times) = &self.times else {
            return ClimbStep { latency_us: if requests > 0 { NOT_ENDED_US } else { 0.0 }, ..step };
        };
        let missing = requests.saturating_sub(times.latency.count());
        ClimbStep {
            latency_us: times.latency.quantile_us_with_longer(quantile, missing).unwrap_or(NOT_ENDED_US),
            generator_lag_us: times.lag.quantile_us(quantile).unwrap_or(0.0),
            ..step
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_record::Slo;

    fn stairs() -> Stairs {
        let slo = Slo { quantile: 0.9, latency_us: 10_000.0 };
        Stairs::new(Climb { slo, to_requests_per_s: 8_000.0, growth: 2.0, step_s: 0.9, rest_s: 0.1 }, 1_000.0)
    }

    /// A hundred requests of one step, each answered after this time.
    fn answered(stairs: &mut Stairs, step: u64, latency_ms: u64, failed: u64) {
        for number in 0..100 {
            let due_ns = step * 1_000_000_000 + number * 1_000_000;
            stairs.due(due_ns);
            stairs.late(due_ns, 1_000);
            stairs.ended(due_ns, latency_ms * 1_000_000, number < failed);
        }
    }

    #[test]
    fn a_request_belongs_to_the_step_in_which_it_was_due() {
        let mut stairs = stairs();
        answered(&mut stairs, 0, 1, 0);
        // Answered two steps later.
        answered(&mut stairs, 1, 2_500, 3);
        let steps = stairs.until(2_000_000_000);
        assert_eq!(steps.len(), 2);
        assert!((steps[0].latency_us / 1e3 - 1.0).abs() < 0.01 && steps[0].failed_requests == 0);
        assert!((steps[1].latency_us / 2.5e6 - 1.0).abs() < 0.01 && steps[1].failed_requests == 3);
        assert!((steps[1].generator_lag_us - 1.0).abs() < 0.01);
        assert_eq!(stairs.until(1_900_000_000).len(), 1, "an unfinished step is left out");
        assert_eq!(stairs.outcome(2_000_000_000), Outcome::Steady);
    }

    #[test]
    fn what_has_not_ended_counts_as_longer_than_all() {
        let mut stairs = stairs();
        answered(&mut stairs, 0, 1, 0);
        (0..9).for_each(|number| stairs.due(500_000_000 + number));
        assert!(stairs.until(1_000_000_000)[0].latency_us < 1.1e3, "9 of 109 lie beyond p90");
        (0..9).for_each(|number| stairs.due(600_000_000 + number));
        assert_eq!(stairs.until(1_000_000_000)[0].latency_us, NOT_ENDED_US);
    }

    #[test]
    fn a_climb_is_over_behind_three_broken_steps_and_the_outcome_says_whose_fault() {
        let mut broken = stairs();
        (0..3).for_each(|step| answered(&mut broken, step, 900, 0));
        assert!(broken.is_over(3) && !broken.is_over(2));
        let Outcome::Failed { reason } = broken.outcome(3_000_000_000) else { panic!("it did not fail") };
        assert!(
            reason.contains("p90 <= 10 ms was missed at the first step already, at 1000 requests/s"),
            "{reason}"
        );
        let mut late = stairs();
        answered(&mut late, 0, 1, 0);
        for step in 1..4 {
            answered(&mut late, step, 900, 0);
            (0..100).for_each(|number| late.late(step * 1_000_000_000 + number, 20_000_000));
        }
        assert!(matches!(late.outcome(4_000_000_000), Outcome::GeneratorLate { limit_us: 10_000.0, .. }));
    }
}

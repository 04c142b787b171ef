//! A load that climbs until an SLO breaks, from the user's settings. The workload's rate is its start.

use anyhow::{Result, bail};
use hone_load::LONGEST_WINDOW_S;
use hone_record::{Climb, Engine, Metric, Outcome, Schedule, Slo, Window, Workload};

use crate::ending::{BeyondReach, Usage};
use crate::require::promise;

/// The settings of a climb, as text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wanted {
    /// The SLO, as `p99=10ms`.
    pub slo: Option<String>,
    /// The highest rate.
    pub to_requests_per_s: Option<f64>,
    /// Ratio of one step's rate to the previous one.
    pub growth: Option<f64>,
}

/// A climb stops where the SLO breaks, so its highest rate may be far above.
const FAR: f64 = 32.0;
const GROWTH: f64 = 1.05;
/// In a shorter step a queue does not have enough time to grow.
const LEAST_STEP_S: f64 = 0.5;
/// If a queue reaches the SLO's latency within a step, the capacity looks larger by the ratio of the latency to the step's
/// length: at most 5 %.
const STEP_BY_PROMISE: f64 = 20.0;
const LEAST_REST_S: f64 = 0.1;
/// After a step at the limit, the queue is empty after the SLO's latency. This is twice as long.
const REST_BY_PROMISE: f64 = 2.0;
const SLO_MISSING: &str =
    "the capacity needs an SLO, the latency goal that must hold: for example slo p99=10ms";

impl Wanted {
    /// The load with this climb instead of its schedule, if the metric is the capacity; the unchanged load for any other metric.
    ///
    /// # Errors
    /// When one is given without the other, or the load can't climb.
    pub fn of(&self, workload: Workload, primary: Metric) -> Result<Workload> {
        if primary != Metric::Capacity {
            return match *self == Self::default() {
                true => Ok(workload),
                false => bail!(Usage(format!(
                    "slo and the settings of the climb are for the capacity, but {} decides here",
                    primary.label()
                ))),
            };
        }
        let slo = self.slo()?;
        check_load(&workload)?;
        let from = workload.requests_per_s;
        let climb = Climb {
            slo,
            to_requests_per_s: self.to_requests_per_s.unwrap_or(from * FAR),
            growth: self.growth.unwrap_or(GROWTH),
            step_s: step_s(slo, from),
            rest_s: (slo.latency_us / 1e6 * REST_BY_PROMISE).max(LEAST_REST_S),
        };
        if !(climb.growth >= 1.005 && climb.growth <= 2.0) {
            bail!(Usage(format!("invalid rate step {}: use a ratio from 1.005 to 2", climb.growth)));
        }
        if !(climb.to_requests_per_s > from && climb.to_requests_per_s.is_finite()) {
            bail!(Usage(format!(
                "the climb starts at the load's own rate, {from} requests/s, so its highest rate must be \
                 above that, not {}",
                climb.to_requests_per_s
            )));
        }
        let climbing = workload.climbing(climb);
        check_length(&climbing, climb)?;
        hone_load::check(&climbing)?;
        Ok(climbing)
    }

    fn slo(&self) -> Result<Slo> {
        let text = self.slo.as_ref().ok_or_else(|| Usage(SLO_MISSING.to_owned()))?;
        Ok(promise(text).and_then(|rule| rule.slo()).map_err(|problem| Usage(format!("slo: {problem}")))?)
    }
}

fn check_load(workload: &Workload) -> Result<()> {
    if workload.engine.operations().is_some() {
        bail!(Usage("a load of operations sets its own pace, so it can't climb".to_owned()));
    }
    if workload.schedule != Schedule::Poisson {
        bail!(Usage("a load that climbs has its own schedule; remove `schedule`".to_owned()));
    }
    if workload.acks == 0 {
        bail!(Usage(
            "with acks=0 there are no answers, so no latency can break the SLO; use acks 1 or all".to_owned()
        ));
    }
    Ok(())
}

/// The length of a climb is not a setting, so the error names the settings that determine it.
fn check_length(climbing: &Workload, climb: Climb) -> Result<()> {
    let from = climbing.requests_per_s;
    if climbing.duration_s > LONGEST_WINDOW_S {
        bail!(Usage(format!(
            "a climb from {from} to {} requests/s for {} has {} steps of {} s, which exceeds the limit of a \
             day for a window\n  next: start higher (--start-rate, in a file requests_per_s), end lower \
             (--max-rate, climb_to), take larger steps (--rate-step, climb_growth), or use a percentile \
             closer to the median (slo)",
            climb.to_requests_per_s,
            climb.slo.label(),
            climb.rates(from).len(),
            climb.stride_s()
        )));
    }
    Ok(())
}

/// Long enough for the quantile at the first and slowest step, for random arrivals, and for a queue to show.
fn step_s(slo: Slo, from_requests_per_s: f64) -> f64 {
    let needed = slo.samples_needed();
    let enough_s = (needed + 5.0 * needed.sqrt()) / from_requests_per_s;
    let tenths = enough_s.max(LEAST_STEP_S).max(slo.latency_us / 1e6 * STEP_BY_PROMISE) * 10.0;
    (tenths - 1e-9).ceil() / 10.0
}

/// The highest rate of a climb that met the SLO to its end. `None` for any other window.
pub fn held_throughout(window: &Window) -> Option<f64> {
    let climb = window.workload.climb().filter(|_| window.outcome == Outcome::Steady)?;
    climb.held_throughout(&window.facts.steps)
}

/// Why a window's capacity is outside of the climb. `None` if it is known, or if the target itself is the reason.
pub fn beyond_reach(window: &Window) -> Option<BeyondReach> {
    let climb = window.workload.climb()?;
    let name = &window.variant;
    match &window.outcome {
        Outcome::Steady if window.value(Metric::Capacity).is_none() => Some(BeyondReach {
            why: format!(
                "{name} met {} at every rate up to {} requests/s, so its capacity is higher; begin a new run \
                 that climbs further (--max-rate, in a file climb_to)",
                climb.slo.label(),
                hone_format::exact(climb.to_requests_per_s)
            ),
            may_go_on: false,
        }),
        Outcome::GeneratorLate { lateness_us_p99, .. } => Some(BeyondReach {
            why: format!(
                "before {name} broke {}, the generator itself fell behind by more than that ({}); use a load \
                 that costs less to send ({}), or continue with --resume if a neighbour was the cause",
                climb.slo.label(),
                hone_format::time_us(*lateness_us_p99),
                cheaper(&window.workload.engine)
            ),
            may_go_on: true,
        }),
        _ => None,
    }
}

/// Ways to reduce the generator's cost. Clients form their batches themselves.
fn cheaper(engine: &Engine) -> &'static str {
    match engine {
        Engine::Wire => "fewer connections, more records per batch",
        _ => "fewer connections, smaller records",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::WorkloadFile;

    fn load(requests_per_s: f64) -> Workload {
        WorkloadFile { requests_per_s, ..WorkloadFile::default() }.named("w").unwrap()
    }

    fn wanted(slo: &str) -> Wanted {
        Wanted { slo: Some(slo.to_owned()), ..Wanted::default() }
    }

    #[test]
    fn a_climb_has_steps_that_can_tell_the_promise() {
        let climbing = wanted("p99=10ms").of(load(1_000.0), Metric::Capacity).unwrap();
        let climb = climbing.climb().unwrap();
        assert_eq!(climb.slo, Slo { quantile: 0.99, latency_us: 10_000.0 });
        assert_eq!((climb.step_s, climb.rest_s, climb.to_requests_per_s), (1.2, 0.1, 32_000.0));
        let steps = climb.rates(1_000.0).len() as f64;
        assert!((climbing.duration_s - steps * 1.3).abs() < 1e-9, "{}", climbing.duration_s);
        let of = |slo: &str, from| wanted(slo).of(load(from), Metric::Capacity).unwrap().climb().unwrap();
        assert_eq!(of("p99<10ms", 50_000.0).step_s, 0.5);
        assert_eq!((of("p90=200ms", 1_000.0).step_s, of("p90=200ms", 1_000.0).rest_s), (4.0, 0.4));
        let load = load(1_000.0);
        assert_eq!(Wanted::default().of(load.clone(), Metric::CpuPerRecord).unwrap(), load, "as it was");
    }

    #[test]
    fn what_can_not_climb_is_refused_with_the_way_out() {
        let refused =
            |wanted: &Wanted, load: Workload, primary| format!("{:#}", wanted.of(load, primary).unwrap_err());
        let good = wanted("p99=10ms");
        for (wanted, primary, message) in [
            (
                Wanted::default(),
                Metric::Capacity,
                "the capacity needs an SLO, the latency goal that must hold: for example slo p99=10ms",
            ),
            (good.clone(), Metric::LatencyP50, "are for the capacity, but p50 decides here"),
            (wanted("throughput>5"), Metric::Capacity, "the SLO of a capacity is one latency percentile"),
            (wanted("p99>10ms"), Metric::Capacity, "the SLO of a capacity is one latency percentile"),
            (wanted("p99"), Metric::Capacity, "slo: "),
            (
                Wanted { to_requests_per_s: Some(900.0), ..good.clone() },
                Metric::Capacity,
                "its highest rate must be above that",
            ),
            (Wanted { growth: Some(1.0), ..good.clone() }, Metric::Capacity, "use a ratio from 1.005 to 2"),
        ] {
            let found = refused(&wanted, load(1_000.0), primary);
            assert!(found.contains(message), "{wanted:?}: {found}");
        }
        let long = refused(&wanted("p99.9=10ms"), load(1.0), Metric::Capacity);
        for way in [
            "--start-rate",
            "requests_per_s",
            "--max-rate",
            "climb_to",
            "--rate-step",
            "slo",
            "a day for a window",
        ] {
            assert!(long.contains(way) && !long.contains("duration_s"), "{way}: {long}");
        }
        let ramp = Workload { schedule: Schedule::Uniform, ..load(1_000.0) };
        assert!(refused(&good, ramp, Metric::Capacity).contains("remove `schedule`"));
        let silent = Workload { acks: 0, ..load(1_000.0) };
        assert!(refused(&good, silent, Metric::Capacity).contains("acks 1 or all"));
    }

    /// Without that pair, the arm that was too good for the climb would be missing, and the other one would look better.
    #[test]
    fn a_capacity_beyond_reach_ends_the_run_and_one_below_is_the_arms_own() {
        let step = |requests_per_s, latency_us| hone_record::ClimbStep {
            requests_per_s,
            requests: 2_000,
            latency_us,
            ..hone_record::ClimbStep::default()
        };
        let mut window = crate::fixture::window();
        assert_eq!(beyond_reach(&window), None, "no climb");
        window.workload = wanted("p99=10ms").of(load(1_000.0), Metric::Capacity).unwrap();
        window.facts.steps = vec![step(1_000.0, 500.0), step(1_050.0, 600.0)];
        let BeyondReach { why, may_go_on } = beyond_reach(&window).unwrap();
        assert!(why.contains("p99 <= 10 ms at every rate up to 32") && why.contains("--max-rate"), "{why}");
        assert!(!may_go_on && !why.contains("--resume"), "it would hold again: {why}");
        assert!(crate::drive::troubles(&window).is_empty(), "nothing is known against the arm");
        window.facts.steps.push(step(1_102.5, 900_000.0));
        assert_eq!(beyond_reach(&window), None);
        assert!(window.value(Metric::Capacity).is_some_and(|capacity| capacity > 1_050.0));
        assert_eq!(window.value(Metric::CpuPerRecord), None, "of another load in each window");
        window.outcome = Outcome::Failed { reason: "begin lower".to_owned() };
        assert_eq!((beyond_reach(&window), window.value(Metric::Capacity)), (None, None));
        assert_eq!(crate::drive::troubles(&window).len(), 1);
        window.outcome = Outcome::GeneratorLate { lateness_us_p99: 2e4, limit_us: 1e4 };
        let BeyondReach { why, may_go_on } = beyond_reach(&window).unwrap();
        assert!(may_go_on && why.contains("the generator itself fell behind"), "{why}");
        assert!(why.contains("more records per batch"), "{why}");
        // A client does not accept a number of records per batch.
        window.workload.engine = Engine::Librdkafka { settings: Default::default() };
        let why = beyond_reach(&window).unwrap().why;
        assert!(!why.contains("a batch") && why.contains("fewer connections"), "{why}");
    }
}

//! Measures windows for several rates or batch sizes, and for the search for a capacity. It stores them and computes no
//! statistics.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, bail};
use hone_record::{
    Capacity, CapacityDesign, CapacityEnd, Curve, CurveOver, CurvePoint, EventKind, Machine, Metric, Outcome,
    Requirement, Schedule, Window, Workload,
};

use crate::aim::{Aim, Beside};
use crate::capacity::{self, Next, Said};
use crate::ending::Usage;
use crate::folder::RunFolder;
use crate::progress::Progress;
use crate::require::{Rule, is_the_generators, measured_words};

/// The file name of a search's record.
pub const CAPACITY_FILE: &str = "capacity.json";
/// The file of a sweep's record.
pub const CURVE_FILE: &str = "curve.json";

/// A target, a load, and the folder for the windows.
pub struct Course<'a> {
    /// The target.
    pub aim: &'a Aim,
    /// The load.
    pub workload: &'a Workload,
    /// The run's folder, for the windows.
    pub folder: &'a RunFolder,
    /// The machine of the generator.
    pub machine: Machine,
    /// The progress display.
    pub progress: &'a Progress,
    /// Formats a measured window as a line of progress.
    pub point_line: fn(&CurvePoint) -> String,
}

/// One window to measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stop {
    /// Requests per second.
    pub requests_per_s: f64,
    /// Records per batch.
    pub records_per_batch: u32,
}

impl Course<'_> {
    /// Runs the search. Measured windows are kept, even if the target fails or the user interrupts.
    pub fn capacity(&self, design: CapacityDesign, promise: &[Rule]) -> Result<Capacity> {
        self.folder.write_note("design.json", &design)?;
        let mut points = Vec::new();
        let mut said = Vec::new();
        let knee = loop {
            let requests_per_s = match capacity::next(&design, &said) {
                Next::Measure(requests_per_s) => requests_per_s,
                Next::Done(knee) => break knee,
            };
            let stop = Stop { requests_per_s, records_per_batch: self.workload.records_per_batch };
            let broken_off = match self.measure(points.len(), stop, promise) {
                Ok((point, false)) => {
                    said.push((requests_per_s, what_it_said(&point)));
                    points.push(point);
                    continue;
                }
                Ok((_, true)) => "interrupted".to_owned(),
                // Without a single window there is no result.
                Err(error) if points.is_empty() => return Err(error),
                Err(error) => format!("{error:#}"),
            };
            // With no more windows allowed, the search returns its confirmed bounds.
            let over = CapacityDesign { most_windows: 0, ..design.clone() };
            let Next::Done(knee) = capacity::next(&over, &said) else {
                anyhow::bail!("the search does not end: {broken_off}");
            };
            break capacity::Knee { end: CapacityEnd::BrokenOff { why: broken_off }, ..knee };
        };
        Ok(Capacity {
            variant: self.aim.settings.variant.clone(),
            address: self.aim.settings.address.clone(),
            workload: self.workload.clone(),
            design,
            points,
            held_requests_per_s: knee.held,
            failed_requests_per_s: knee.failed,
            end: knee.end,
            machine: self.machine.clone(),
        })
    }

    /// Measures all stops in the given order. Measured windows are kept if the target fails or the user interrupts, which is the
    /// second result.
    pub fn sweep(&self, over: CurveOver, stops: &[Stop]) -> Result<(Curve, Option<anyhow::Error>)> {
        let mut points = Vec::new();
        let mut broken_off = None;
        for stop in stops {
            let error = match self.measure(points.len(), *stop, &[]) {
                Ok((point, false)) => {
                    points.push(point);
                    continue;
                }
                Ok((_, true)) => anyhow!("interrupted"),
                Err(error) if points.is_empty() => return Err(error),
                Err(error) => error,
            };
            let part = format!("the sweep ended after {} of {} windows", points.len(), stops.len());
            broken_off = Some(error.context(part));
            break;
        }
        let curve = Curve {
            variant: self.aim.settings.variant.clone(),
            address: self.aim.settings.address.clone(),
            workload: self.workload.clone(),
            over,
            points,
            machine: self.machine.clone(),
        };
        Ok((curve, broken_off))
    }

    /// One window on a fresh topic with its own arrivals, and whether the user interrupted it.
    fn measure(&self, index: usize, stop: Stop, promise: &[Rule]) -> Result<(CurvePoint, bool)> {
        let workload = Workload {
            requests_per_s: stop.requests_per_s,
            records_per_batch: stop.records_per_batch,
            seed: self.workload.seed.wrapping_add(index as u64),
            ..self.workload.clone()
        };
        let mut window =
            self.aim
                .window(workload, Beside::default(), || Ok(Instant::now()), self.progress)
                .with_context(|| format!("window {}, {} requests/s", index + 1, stop.requests_per_s))?;
        window.requirements = promise.iter().map(|rule| rule.judge(&window)).collect();
        let interrupted = window.events.iter().any(|event| event.kind == EventKind::Interrupted);
        // An undecided SLO is not a broken one: the search would go down to zero and blame the target.
        let steady = matches!(window.outcome, Outcome::Steady) && !interrupted;
        if let Some(rule) = window.requirements.iter().find(|rule| steady && rule.met.is_none()) {
            let why = rule.reason.as_deref().unwrap_or("it is not measured here");
            bail!("this window can't decide the SLO {}: {why}", rule.rule);
        }
        let name = format!("windows/{index:03}.json");
        let point = point_of(&window, name.clone());
        self.folder.write_record(&name, window)?;
        if !interrupted {
            self.progress.line(&(self.point_line)(&point));
        }
        Ok((point, interrupted))
    }
}

/// The point of a window on the curve.
fn point_of(window: &Window, name: String) -> CurvePoint {
    let facts = &window.facts;
    let per_request = facts.acked_records as f64 / facts.acked_requests.max(1) as f64;
    let values: BTreeMap<Metric, f64> =
        Metric::ALL.into_iter().filter_map(|metric| Some((metric, window.value(metric)?))).collect();
    let (held, why) = judged(window);
    CurvePoint {
        requests_per_s: window.workload.requests_per_s,
        records_per_batch: window.workload.records_per_batch,
        reached_requests_per_s: facts.reached_requests_per_s,
        reached_records_per_s: facts.reached_requests_per_s * per_request,
        outcome: window.outcome.clone(),
        values,
        held,
        why,
        window: name,
    }
}

/// Whether the SLO held completely, in a valid window.
fn judged(window: &Window) -> (Option<bool>, Option<String>) {
    if window.requirements.is_empty() {
        return (None, None);
    }
    let late = matches!(window.outcome, Outcome::GeneratorLate { .. });
    match (window.why_excluded(), late) {
        (Some(why), true) => return (None, Some(why)),
        (Some(why), false) => return (Some(false), Some(why)),
        (None, _) => {}
    }
    let (late, told): (Vec<_>, Vec<_>) = window.requirements.iter().partition(|rule| is_the_generators(rule));
    let why = |rule: &Requirement| {
        let why = rule.reason.clone().unwrap_or_else(|| measured_words(rule));
        Some(format!("{}: {why}", rule.rule))
    };
    match (told.into_iter().find(|rule| rule.met != Some(true)), late.first()) {
        (Some(broken), _) => (Some(false), why(broken)),
        (None, Some(late)) => (None, why(late)),
        (None, None) => (Some(true), None),
    }
}

fn what_it_said(point: &CurvePoint) -> Said {
    match point.held {
        Some(true) => Said::Held,
        Some(false) => Said::Broke,
        None => Said::Late,
    }
}

/// The design of a search, with the SLO rules and the lowest rate that has enough samples for them.
pub fn capacity_design(
    mut design: CapacityDesign,
    slo: &[Rule],
    workload: &Workload,
) -> Result<CapacityDesign> {
    if !(design.precision > 1.001 && design.precision <= 2.0) {
        bail!(Usage(format!("invalid --precision {}: use a ratio from 1.001 to 2", design.precision)));
    }
    let needed = slo.iter().map(Rule::samples_needed).max().unwrap_or(0) as f64;
    // A Poisson window sometimes has fewer requests than planned, but not by five standard deviations.
    let least_requests_per_s = ((needed + 5.0 * needed.sqrt()) / workload.duration_s).max(1.0);
    if workload.requests_per_s < least_requests_per_s {
        bail!(Usage(format!(
            "the SLO needs {needed} requests per window, which {} requests/s for {} s do not give\n  next: \
             start with --rate {}, or use a longer --duration",
            workload.requests_per_s,
            workload.duration_s,
            least_requests_per_s.ceil()
        )));
    }
    if !(design.most_requests_per_s >= workload.requests_per_s && design.most_requests_per_s <= 1e7) {
        bail!(Usage(format!(
            "invalid --max-rate {}: use a rate between --rate and 1e7",
            design.most_requests_per_s
        )));
    }
    design.promise = slo.iter().map(Rule::to_string).collect();
    Ok(CapacityDesign { least_requests_per_s, ..design })
}

/// The windows of a sweep, each checked before the first one is measured.
pub fn stops(rates: &[f64], sizes: &[u32], repeats: u32, workload: &Workload) -> Result<Vec<Stop>> {
    let records_per_s = workload.requests_per_s * f64::from(workload.records_per_batch);
    let rates = rates
        .iter()
        .map(|rate| Stop { requests_per_s: *rate, records_per_batch: workload.records_per_batch });
    let sizes = sizes.iter().map(|records| Stop {
        requests_per_s: records_per_s / f64::from(*records),
        records_per_batch: *records,
    });
    let once: Vec<Stop> = rates.chain(sizes).collect();
    for stop in &once {
        hone_load::check(&Workload {
            requests_per_s: stop.requests_per_s,
            records_per_batch: stop.records_per_batch,
            ..workload.clone()
        })?;
    }
    let mut order = Vec::new();
    for round in 0..u64::from(repeats) {
        order.extend(shuffled(&once, workload.seed.wrapping_add(round)));
    }
    Ok(order)
}

/// A search sets the rate of each window. A schedule with its own rates would ignore it, so that every point would have the same
/// load.
pub fn check_schedule(schedule: &Schedule) -> Result<()> {
    match schedule {
        Schedule::Poisson | Schedule::Uniform | Schedule::Bursts { .. } => Ok(()),
        Schedule::Ramp { .. } | Schedule::Steps { .. } | Schedule::Climb(_) | Schedule::Replay { .. } => {
            bail!(Usage(
                "a search and a sweep set the rate of each window, but this load's schedule has its own \
             rates\n  next: remove --schedule (in a file `schedule`), or use poisson, uniform or bursts"
                    .to_owned()
            ))
        }
    }
}

/// A random order, so that a slow drift of the machine does not look like a trend (Fisher and Yates, by SplitMix64).
fn shuffled(stops: &[Stop], seed: u64) -> Vec<Stop> {
    let mut state = seed;
    let mut order = stops.to_vec();
    for last in (1..order.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        order.swap(last, ((u128::from(mixed) * (last as u128 + 1)) >> 64) as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::window;
    use crate::require::promise;

    fn held(change: impl FnOnce(&mut Window), promise: &str) -> Option<bool> {
        let mut window = window();
        change(&mut window);
        window.requirements = vec![promise.parse::<Rule>().unwrap().judge(&window)];
        point_of(&window, String::new()).held
    }

    #[test]
    fn a_promise_holds_in_a_window_that_counts_only() {
        assert_eq!(held(|_| (), "p50<=1ms"), Some(true));
        assert_eq!(held(|_| (), "p50<=1us"), Some(false));
        let saturated = Outcome::Saturated { backlog_requests: 5 };
        assert_eq!(held(|window| window.outcome = saturated, "throughput>1"), Some(false));
        let late = Outcome::GeneratorLate { lateness_us_p99: 9.0, limit_us: 1.0 };
        assert_eq!(held(|window| window.outcome = late, "p50<=1h"), None);
        assert_eq!(
            held(|window| window.facts.acked_requests = 900, "p50<=1h"),
            Some(false),
            "one in ten failed"
        );
        let late = |window: &mut Window| window.latencies.own_lateness.record_ns(2_000);
        assert_eq!(held(late, "p50<=1us"), None, "the generator's own lateness is not the target's");
        assert_eq!(held(late, "p50<=1ms"), Some(true));
    }

    #[test]
    fn a_promise_is_a_rule_in_short() {
        for (text, written) in [
            ("p99=10ms", "p99 <= 10.0 ms"),
            ("p99.9<50ms", "p99.9 < 50.0 ms"),
            ("records>=5", "records >= 5.00/s"),
        ] {
            assert_eq!(promise(text).unwrap().to_string(), written);
        }
        assert!(promise("p99").is_err() && promise("p99=ten").is_err());
    }

    #[test]
    fn every_stop_comes_once_a_round() {
        let stops: Vec<Stop> =
            (1..=20).map(|records_per_batch| Stop { requests_per_s: 1.0, records_per_batch }).collect();
        let mut order = shuffled(&stops, 5);
        assert_ne!(order, stops);
        assert_ne!(order, shuffled(&stops, 6));
        order.sort_by_key(|stop| stop.records_per_batch);
        assert_eq!(order, stops);
    }
}

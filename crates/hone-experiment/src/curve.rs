//! Windows along a line of rates or batch sizes, and the search for a capacity: measures, keeps, and computes nothing.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, bail};
use hone_record::{
    Capacity, CapacityDesign, CapacityEnd, Curve, CurveOver, CurvePoint, EventKind, Machine, Metric, Outcome,
    Requirement, Window, Workload,
};

use crate::aim::{Aim, Beside};
use crate::capacity::{self, Next, Said};
use crate::folder::RunFolder;
use crate::progress::Progress;
use crate::require::{Rule, is_the_generators, measured_words};

/// The file of a search's record, and of a sweep's.
pub const CAPACITY_FILE: &str = "capacity.json";
/// The file of a sweep's record.
pub const CURVE_FILE: &str = "curve.json";

/// A target, a load, and where the windows are kept.
pub struct Course<'a> {
    /// The target.
    pub aim: &'a Aim,
    /// The load.
    pub workload: &'a Workload,
    /// The run's folder, where the windows are kept.
    pub folder: &'a RunFolder,
    /// The machine of the generator.
    pub machine: Machine,
    /// Where progress is shown.
    pub progress: &'a Progress,
    /// Formats a measured window as a line of progress.
    pub point_line: fn(&CurvePoint) -> String,
}

/// One window to be measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stop {
    /// Requests per second.
    pub requests_per_s: f64,
    /// Records in a batch.
    pub records_per_batch: u32,
}

impl Course<'_> {
    /// Searches. What was measured is kept also when the target breaks off or the user ends it.
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
                Ok((_, true)) => "the user ended it".to_owned(),
                // Without a single window there is nothing to be kept.
                Err(error) if points.is_empty() => return Err(error),
                Err(error) => format!("{error:#}"),
            };
            // Without another window to come, the search tells what stands confirmed.
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

    /// Measures all stops in the given order. What was measured is kept also when the target breaks off or the user ends it, which is
    /// the second answer.
    pub fn sweep(&self, over: CurveOver, stops: &[Stop]) -> Result<(Curve, Option<anyhow::Error>)> {
        let mut points = Vec::new();
        let mut broken_off = None;
        for stop in stops {
            let error = match self.measure(points.len(), *stop, &[]) {
                Ok((point, false)) => {
                    points.push(point);
                    continue;
                }
                Ok((_, true)) => anyhow!("the user ended it"),
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

    /// One window on a fresh topic with arrivals of its own; and whether the user ended it.
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
        // Not told is not broken: a search that took it for that would end at nothing, and blame the target.
        let steady = matches!(window.outcome, Outcome::Steady) && !interrupted;
        if let Some(rule) = window.requirements.iter().find(|rule| steady && rule.met.is_none()) {
            let why = rule.reason.as_deref().unwrap_or("it is not measured here");
            bail!("the promise {} can't be told from a window like this: {why}", rule.rule);
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

/// What a window is on a curve.
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

/// Whether the promise held: all of it, in a window that counts.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::window;

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
}

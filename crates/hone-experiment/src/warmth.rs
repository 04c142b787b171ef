//! Detects whether a target is warm, from the CPU of its processes: for the warm-up and for the course of a window.

use std::time::{Duration, Instant};

use hone_host::compiling::Compiling;
use hone_host::cpu;
use hone_host::repeated::Repeated;
use hone_load::{Effort, Target};
use hone_record::{Metric, Outcome, WarmUpEnd, Window};

/// Samples the process trees of a target.
#[derive(Debug)]
pub struct Looker {
    pids: Vec<u32>,
    compiling: Compiling,
    before: Option<Vec<cpu::CpuSample>>,
}

impl Looker {
    /// The root processes. Their children's CPU counts, too.
    pub fn at(pids: &[u32]) -> Self {
        let mut all: Vec<u32> = pids.iter().flat_map(|pid| cpu::tree(*pid).unwrap_or_default()).collect();
        all.sort_unstable();
        all.dedup();
        Self { pids: pids.to_vec(), compiling: Compiling::new(all), before: None }
    }

    fn samples(&self) -> Option<Vec<cpu::CpuSample>> {
        let all = self.pids.iter().map(|pid| cpu::sample(*pid).ok()).collect::<Option<Vec<_>>>()?;
        (!all.is_empty()).then_some(all)
    }
}

impl Target for Looker {
    fn effort(&mut self) -> Option<Effort> {
        let now = self.samples()?;
        let compiling_s = self.compiling.look();
        let first = self.before.get_or_insert_with(|| now.clone());
        let used = first.iter().zip(&now).map(|(before, after)| cpu::between(before, after).total_s);
        Some(Effort { cpu_s: used.sum(), compiling_s })
    }
}

/// Samples a target repeatedly while a window is open.
#[derive(Debug)]
pub struct Course(Repeated<Vec<Point>>);

/// The target's CPU at a time since the window's start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    at_s: f64,
    effort: Effort,
}

const EVERY: Duration = Duration::from_millis(250);

impl Course {
    /// `None` if no process is known, or no thread can be started.
    pub fn start(pids: &[u32]) -> Option<Self> {
        if pids.is_empty() {
            return None;
        }
        let mut looker = Looker::at(pids);
        let begun = Instant::now();
        let look = move |points: &mut Vec<Point>| {
            let point = looker.effort().map(|effort| Point { at_s: begun.elapsed().as_secs_f64(), effort });
            points.extend(point);
        };
        Repeated::start("course", EVERY, Vec::new(), look).map(Self)
    }

    /// Ends the watch, and returns the samples.
    pub fn stop(self) -> Vec<Point> {
        self.0.stop().unwrap_or_default()
    }
}

/// Share of the CPU for compiling; `None` if the target does not compile.
pub fn compiling_share(points: &[Point]) -> Option<f64> {
    let (first, last) = (points.first()?, points.last()?);
    let compiling_s = last.effort.compiling_s? - first.effort.compiling_s.unwrap_or(0.0);
    Some((compiling_s / (last.effort.cpu_s - first.effort.cpu_s).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0))
}

/// Quarters of a window.
const PARTS: usize = 4;
/// A shorter window shows no trend.
const LEAST_S: f64 = 4.0;
/// The last quarter must be lower by at least this share. It is twice the threshold that ends a warm-up.
const FALL: f64 = 0.10;
/// Share of the CPU for compiling from which a target is suspicious, and from which it is not warm, whatever its trend.
const COMPILES: f64 = 0.05;
const MOSTLY_COMPILES: f64 = 0.20;

/// Marks a window as warming up if its target compiled during the window, or was not warm before it. Other targets are not
/// examined: the results of a window must not decide whether it is valid.
pub fn judge(window: &mut Window, points: &[Point]) {
    window.facts.compiling_share = compiling_share(points);
    let is_cold = window.facts.warm_up.as_ref().is_some_and(|warm_up| warm_up.end == WarmUpEnd::Limit);
    let compiles = |share: f64| window.facts.compiling_share.is_some_and(|found| found > share);
    // A broker that faults stop or kill has no trend of its own.
    let is_disturbed = window.outage.is_some();
    if !(is_cold || compiles(COMPILES)) || window.outcome != Outcome::Steady || is_disturbed {
        return;
    }
    let is_plain = compiles(MOSTLY_COMPILES);
    let whole = || window.value(Metric::CpuPerRecord).map(|us| [us; PARTS]).filter(|_| is_plain);
    let quarters = quarters(window, points).or_else(whole);
    if let Some(quarters) = quarters.filter(|quarters| is_plain || falls(quarters)) {
        window.outcome = Outcome::Warming {
            cpu_us_per_record: [quarters[0], quarters[PARTS - 1]],
            compiling_share: window.facts.compiling_share,
        };
    }
}

/// CPU per record in the quarters of a window, in microseconds.
fn quarters(window: &Window, points: &[Point]) -> Option<[f64; PARTS]> {
    let length_s = window.duration_s / PARTS as f64;
    if window.duration_s < LEAST_S {
        return None;
    }
    let per_request = window.facts.acked_records as f64 / window.facts.acked_requests.max(1) as f64;
    let mut found = [0.0; PARTS];
    for (part, us_per_record) in found.iter_mut().enumerate() {
        let (from_s, to_s) = (part as f64 * length_s, (part + 1) as f64 * length_s);
        let cpu_s = cpu_at(points, to_s)? - cpu_at(points, from_s)?;
        let requests = acked_until(window, to_s) - acked_until(window, from_s);
        *us_per_record = cpu_s * 1e6 / (requests * per_request).max(1.0);
    }
    Some(found)
}

/// Between two samples the CPU is interpolated.
fn cpu_at(points: &[Point], at_s: f64) -> Option<f64> {
    let after = points.iter().position(|point| point.at_s >= at_s).unwrap_or(points.len().checked_sub(1)?);
    let (left, right) = (points.get(after.saturating_sub(1))?, points.get(after)?);
    let span_s = (right.at_s - left.at_s).max(f64::MIN_POSITIVE);
    let share = ((at_s - left.at_s) / span_s).clamp(0.0, 1.0);
    Some(left.effort.cpu_s + share * (right.effort.cpu_s - left.effort.cpu_s))
}

/// Acknowledged requests until a time, from the seconds of the series.
fn acked_until(window: &Window, at_s: f64) -> f64 {
    let share = |point: &hone_record::SeriesPoint| {
        ((at_s - point.at_s) / point.length_s.unwrap_or(1.0).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
    };
    window.series.iter().map(|point| share(point) * point.acked_requests as f64).sum()
}

fn falls(quarters: &[f64; PARTS]) -> bool {
    let each = quarters.windows(2).all(|pair| pair[1] < pair[0]);
    each && quarters[PARTS - 1] < quarters[0] * (1.0 - FALL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_record::{Outage, SeriesPoint, WarmUp};

    /// A window of 8 s with 1,000 requests per second, and this CPU per request in each second, in microseconds.
    fn seen(cpu_us: [f64; 8], compiling_share: Option<f64>, end: WarmUpEnd) -> Window {
        let mut window = crate::fixture::window();
        window.outcome = Outcome::Steady;
        window.duration_s = 8.0;
        (window.facts.acked_requests, window.facts.acked_records) = (8_000, 8_000);
        let second =
            |at: u32| SeriesPoint { at_s: f64::from(at), acked_requests: 1_000, ..SeriesPoint::default() };
        window.series = (0..8).map(second).collect();
        window.facts.warm_up = Some(WarmUp {
            took_s: 1.0,
            requests: 1_000,
            end,
            cpu_us_per_request: None,
            latency_us_p50: None,
            compiling_share,
        });
        judge(&mut window, &course(cpu_us, compiling_share));
        window
    }

    fn course(cpu_us: [f64; 8], compiling_share: Option<f64>) -> Vec<Point> {
        let mut points = vec![Point {
            at_s: 0.0,
            effort: Effort { cpu_s: 0.0, compiling_s: compiling_share.map(|_| 0.0) },
        }];
        for (second, us) in cpu_us.into_iter().enumerate() {
            let before = points[second].effort;
            let cpu_s = before.cpu_s + us * 1_000.0 / 1e6;
            let effort = Effort { cpu_s, compiling_s: compiling_share.map(|share| share * cpu_s) };
            points.push(Point { at_s: second as f64 + 1.0, effort });
        }
        points
    }

    const FALLING: [f64; 8] = [400.0, 350.0, 300.0, 250.0, 220.0, 200.0, 180.0, 170.0];
    const FLAT: [f64; 8] = [100.0, 104.0, 98.0, 101.0, 99.0, 103.0, 97.0, 98.0];

    #[test]
    fn a_target_that_compiles_itself_and_becomes_cheaper_is_warming() {
        let window = seen(FALLING, Some(0.1), WarmUpEnd::Steady);
        let Outcome::Warming { cpu_us_per_record: [first, last], .. } = window.outcome else {
            panic!("{:?}", window.outcome)
        };
        assert!((first - 375.0).abs() < 1.0 && (last - 175.0).abs() < 1.0, "{first} {last}");
        assert_eq!(seen(FLAT, Some(0.1), WarmUpEnd::Steady).outcome, Outcome::Steady);
        assert!(
            matches!(seen(FLAT, Some(0.3), WarmUpEnd::Steady).outcome, Outcome::Warming { .. }),
            "it compiles"
        );
        assert!(matches!(seen(FALLING, None, WarmUpEnd::Limit).outcome, Outcome::Warming { .. }));
    }

    #[test]
    fn the_course_of_a_target_that_faults_end_is_no_warming() {
        let mut window = seen(FALLING, Some(0.3), WarmUpEnd::Limit);
        assert!(matches!(window.outcome, Outcome::Warming { .. }));
        window.outcome = Outcome::Steady;
        window.outage = Some(Outage {
            faults: Vec::new(),
            acks: None,
            reads: None,
            acked_records: 8_000,
            lost_records: Some(0),
            unacked_records: None,
        });
        judge(&mut window, &course(FALLING, Some(0.3)));
        assert_eq!(window.outcome, Outcome::Steady);
    }

    #[test]
    fn of_a_target_that_was_warm_nobody_looks_at_the_course() {
        assert_eq!(seen(FALLING, None, WarmUpEnd::Steady).outcome, Outcome::Steady);
        assert_eq!(seen(FALLING, Some(0.01), WarmUpEnd::Steady).outcome, Outcome::Steady);
        assert_eq!(seen(FALLING, None, WarmUpEnd::TooShort).outcome, Outcome::Steady);
    }

    #[test]
    fn a_course_sees_the_cpu_of_this_process() {
        let course = Course::start(&[std::process::id()]).unwrap();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(600) {
            std::hint::black_box(begun);
        }
        let points = course.stop();
        assert!(points.len() >= 2 && points.last().unwrap().effort.cpu_s > 0.1, "{points:?}");
        assert!(Course::start(&[]).is_none());
    }
}

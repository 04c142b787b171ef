//! Measures how much slower an instrumented program is, and adapts its training load.
//!
//! Requests at fixed times are too fast for a program that needs several times the CPU for each. It would fall behind, and the
//! profile would be of a program that sheds load. So Hone divides rates by the measured factor, so that the program is as busy as
//! the plain one, and multiplies time limits by it.

use anyhow::Result;
use hone_binary::capture::SlowDown;
use hone_record::{Engine, Outcome, Schedule, Window, Workload};
use hone_tool::interrupt;

use crate::arm::Arm;
use crate::bench::Bench;

/// With less CPU than this, the cost per request is not measurable.
const LEAST_CPU_S: f64 = 0.02;

/// A load of operations is first tried with this share of them.
const FIRST_TRY: u64 = 64;

/// Duration of the trial of a load at fixed times.
const TRY_S: f64 = 1.0;

/// Requests before that.
const WARMUP: u64 = 500;

/// Factor of time limits without a measurement. The slowest kinds of instrumentation took four times the CPU, and single loops
/// thirty times. A limit only ends a hanging program.
const UNMEASURED: f64 = 10.0;

/// A load beyond these limits is rejected.
const LONGEST_S: f64 = 3_600.0;
const LONGEST_COMMAND_S: f64 = 86_400.0;

/// CPU per request of the instrumented program, divided by that of the plain one. `None` if it can't be measured: the load can't
/// be shortened, or it failed.
///
/// # Errors
/// When Hone was interrupted.
pub fn slow_down(
    bench: &Bench<'_>,
    plain: &Arm,
    counting: &Arm,
    load: &Workload,
) -> Result<Option<SlowDown>> {
    let Some(sample) = sample(load) else { return Ok(None) };
    // Filling takes time, and not every load needs it.
    let empty = unprepared(&sample);
    for first in [empty.as_ref(), Some(&sample)].into_iter().flatten() {
        match compared(bench, plain, counting, first, load) {
            Err(error) if interrupt::requested() => return Err(error),
            Ok(Some(slow)) => return Ok(Some(slow)),
            // A problem of the load will show in the training.
            Err(_) | Ok(None) => {}
        }
    }
    Ok(None)
}

fn compared(
    bench: &Bench<'_>,
    plain: &Arm,
    counting: &Arm,
    first: &Workload,
    whole: &Workload,
) -> Result<Option<SlowDown>> {
    let Some((plain_per_s, sample)) = per_cpu_s(bench, plain, first, whole)? else { return Ok(None) };
    let sample = Workload { timeout_s: fitted(&sample, None).timeout_s, ..sample };
    let counting = per_cpu_s(bench, counting, &sample, &sample)?;
    Ok(counting.and_then(|(counting_per_s, _)| SlowDown::from_rates(&[plain_per_s], &[counting_per_s]).ok()))
}

/// Requests per second of CPU, and the load that was long enough to measure it. It is at most as long as `whole`.
fn per_cpu_s(
    bench: &Bench<'_>,
    arm: &Arm,
    first: &Workload,
    whole: &Workload,
) -> Result<Option<(f64, Workload)>> {
    let mut subject = bench.subject(arm, first)?;
    let mut load = first.clone();
    let found = loop {
        let window = bench.window(&mut subject, &load)?;
        if matches!(window.outcome, Outcome::Failed { .. }) && window.facts.acked_requests == 0 {
            break None;
        }
        match (rate_of(&window), longer(&load, whole)) {
            (Some(rate), _) => break Some((rate, load)),
            (None, Some(more)) => load = more,
            (None, None) => break None,
        }
    };
    bench.end(subject)?;
    Ok(found)
}

/// The same load on a target without filled data; `None` if it has none anyway.
fn unprepared(load: &Workload) -> Option<Workload> {
    let mut bare = load.clone();
    if let Engine::Tool { populate, warmup, .. } = &mut bare.engine {
        (*populate, *warmup) = (None, None);
    }
    (bare != *load).then_some(bare)
}

/// A short form of a load.
pub fn sample(load: &Workload) -> Option<Workload> {
    match load.engine.operations() {
        Some(operations) => load.with_operations((operations / FIRST_TRY).max(1)),
        // Recorded times have a fixed rate.
        None if matches!(load.schedule, Schedule::Replay { .. }) => None,
        None => Some(Workload {
            duration_s: load.duration_s.min(TRY_S),
            warmup_requests: load.warmup_requests.min(WARMUP),
            ..load.clone()
        }),
    }
}

/// Four times as many operations, up to those of the complete load.
fn longer(load: &Workload, whole: &Workload) -> Option<Workload> {
    let (now, most) = (load.engine.operations()?, whole.engine.operations()?);
    (now < most).then(|| load.with_operations(now.saturating_mul(4).min(most)))?
}

fn rate_of(window: &Window) -> Option<f64> {
    let cpu_s = window.facts.target_cpu?.total_s;
    (cpu_s >= LEAST_CPU_S).then(|| window.facts.acked_requests as f64 / cpu_s)
}

/// The load that fits the instrumented program.
pub fn fitted(load: &Workload, slow: Option<SlowDown>) -> Workload {
    let longest_s = if load.engine.operations().is_some() { LONGEST_COMMAND_S } else { LONGEST_S };
    let times = slow.map_or(UNMEASURED, SlowDown::factor);
    let timeout_s = (load.timeout_s * times).clamp(load.timeout_s, longest_s.max(load.timeout_s));
    let slower = |per_s: f64| slow.map_or(per_s, |slow| slow.rate(per_s));
    Workload { timeout_s, ..load.at_rates(slower) }
}

/// The change of a load, as an addition to a sentence about its training.
pub fn words(load: &Workload, slow: Option<SlowDown>) -> String {
    let Some(slow) = slow else {
        return format!(", with an unknown slow-down, so its time limits are {UNMEASURED} times as long");
    };
    let factor = slow.factor();
    match load.engine.operations() {
        Some(_) => format!(", at {factor:.1} times the CPU, so its time limits are as many times as long"),
        None => format!(
            ", at {factor:.1} times the CPU, so {} requests/s became {} and its time limits are as many times as long",
            hone_format::exact(load.requests_per_s),
            hone_format::measured(slow.rate(load.requests_per_s))
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::spec;

    fn load(keys: &str) -> Workload {
        let text = format!(
            "name = \"x\"\n[target]\nbinary = \"b\"\nargs = [\"{{port}}\"]\n[optimize]\ntrain = \"t\"\njudge = [\"j\"]\n\
             [workload.t]\n{keys}\n[workload.j]\nseed = 9\n"
        );
        let parsed = spec::parse(&text, Path::new("x.toml"));
        parsed.unwrap_or_else(|error| panic!("{error}")).training.remove(0).workload
    }

    const TEN: SlowDown = SlowDown { plain_per_s: 1000.0, instrumented_per_s: 100.0 };

    #[test]
    fn a_program_ten_times_slower_gets_a_tenth_of_the_requests_and_ten_times_the_time() {
        let open = load("requests_per_s = 1500\nduration_s = 30\ntimeout_s = 5");
        let slow = fitted(&open, Some(TEN));
        assert_eq!((slow.requests_per_s, slow.timeout_s, slow.duration_s), (150.0, 50.0, 30.0));
        assert!(words(&open, Some(TEN)).contains("at 10.0 times the CPU, so 1,500 requests/s became 150"));
        let faster = SlowDown { plain_per_s: 1.0, instrumented_per_s: 2.0 };
        assert_eq!(fitted(&open, Some(faster)), open, "it was disturbed");

        let unknown = fitted(&open, None);
        assert_eq!((unknown.requests_per_s, unknown.timeout_s), (1500.0, 50.0));
        assert!(words(&open, None).contains("unknown slow-down"));
        assert_eq!(fitted(&load("timeout_s = 3000"), None).timeout_s, 3600.0, "a load takes no more");
    }

    #[test]
    fn every_rate_of_a_schedule_is_lowered() {
        let steps = load("schedule = \"steps:1000,2000\"\nduration_s = 4");
        let Schedule::Steps { requests_per_s } = fitted(&steps, Some(TEN)).schedule else {
            panic!("{steps:?}")
        };
        assert_eq!(requests_per_s, [100.0, 200.0]);
        let ramp = load("requests_per_s = 100\nschedule = \"ramp:500\"");
        assert_eq!(fitted(&ramp, Some(TEN)).schedule, Schedule::Ramp { to_requests_per_s: 50.0 });
    }

    #[test]
    fn operations_keep_their_number_and_get_more_time() {
        let tool =
            load("command = \"true {operations}\"\noperations = 6400\npopulate = \"true\"\ntimeout_s = 7");
        let slow = fitted(&tool, Some(TEN));
        assert_eq!((slow.engine.operations(), slow.timeout_s), (Some(6400), 70.0));
        let sample = sample(&tool).unwrap();
        assert_eq!(sample.engine.operations(), Some(100));
        let bare = unprepared(&sample).unwrap();
        assert!(!format!("{:?}", bare.engine).contains("populate: Some"), "{:?}", bare.engine);
        assert_eq!(unprepared(&bare), None);
        assert_eq!(longer(&sample, &tool).unwrap().engine.operations(), Some(400));
        assert_eq!(longer(&tool, &tool), None);
        assert_eq!(
            super::sample(&load("command = \"true\"\noperations = 5")),
            None,
            "it can't be made short"
        );
    }
}

//! The one loop where rooms meet: for each pair of a design, start the arms, load them, stop them, keep the record.
//! It computes and prints nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hone_host::affinity;
use hone_load::{Prepared, Settings, Topic};
use hone_record::{
    Comparison, Design, Machine, Metric, Mode, Outcome, PairKind, PairOutcome, Window, Workload,
};
use hone_tool::Runner;

use crate::arm::{Arm, Running};
use crate::folder::RunFolder;
use crate::places::{Places, Seat};
use crate::probe::TargetProbe;
use crate::progress::Progress;

/// Everything a comparison needs.
pub(crate) struct Contest<'a> {
    /// A and B.
    pub(crate) arms: [Arm; 2],
    pub(crate) workload: Workload,
    pub(crate) design: Design,
    pub(crate) storage: String,
    pub(crate) lateness_limit_us: f64,
    pub(crate) folder: &'a RunFolder,
    /// Prefix of this comparison's files in the folder, for example `validate/`, or nothing.
    pub(crate) prefix: String,
    pub(crate) runner: &'a dyn Runner,
    pub(crate) machine: Machine,
}

/// Both arms of a duet begin this long after both are warm: time for two threads to get to their start.
const START_AHEAD: Duration = Duration::from_millis(50);
/// How far apart the arms of a duet begin, about: many gaps between requests, a small part of a window.
const STAGGER_S: f64 = 0.02;
/// A target that fails in so many pairs running will fail in the next one too.
const FAILURES_IN_A_ROW: u32 = 3;
/// A window in which more requests than this share came to nothing is another experiment.
const ERROR_SHARE_LIMIT: f64 = 0.01;

/// Measures every pair that is not measured yet and judges. The design is on disk before the first window.
///
/// # Errors
/// When an arm can't be started or loaded, when it fails again and again, or when the user interrupts. Pairs that were
/// measured stay in the folder; the next attempt goes on behind them.
pub(crate) fn compare(contest: &Contest<'_>, progress: &Progress) -> Result<Comparison> {
    contest.folder.write_note(&format!("{}design.json", contest.prefix), &contest.design)?;
    let mut pairs = Vec::new();
    let mut failures = 0;
    for index in 0..contest.design.order.len() {
        let note = format!("{}pairs/{index:03}.json", contest.prefix);
        let pair: PairOutcome = match contest.folder.read_note(&note)? {
            Some(pair) => pair,
            None => {
                let pair = contest.measure(index, progress).with_context(|| format!("pair {}", index + 1))?;
                contest.folder.write_note(&note, &pair)?;
                progress.pair(&contest.design, &pair);
                // Only those of this attempt: one that goes on may find the trouble gone.
                failures = if pair.dropped.is_some() { failures + 1 } else { 0 };
                if let (FAILURES_IN_A_ROW, Some(reason)) = (failures, &pair.dropped) {
                    bail!("{failures} pairs in a row do not count, the last because {reason}");
                }
                pair
            }
        };
        pairs.push(pair);
    }
    Ok(judged(contest, pairs))
}

fn judged(contest: &Contest<'_>, pairs: Vec<PairOutcome>) -> Comparison {
    let found = hone_compare::judge(&contest.design.rule, &pairs);
    Comparison {
        a: contest.arms[0].name.clone(),
        b: contest.arms[1].name.clone(),
        workload: contest.workload.clone(),
        design: contest.design.clone(),
        pairs,
        judgements: found.judgements,
        not_estimated: found.not_estimated,
        machine: contest.machine.clone(),
    }
}

impl Contest<'_> {
    fn measure(&self, index: usize, progress: &Progress) -> Result<PairOutcome> {
        let kind = self.design.order[index];
        let sides = self.sides(kind);
        // Other arrivals in each pair, the same for both arms of it.
        let workload =
            Workload { seed: self.workload.seed.wrapping_add(index as u64), ..self.workload.clone() };
        let order = if self.design.swapped[index] { [1, 0] } else { [0, 1] };
        progress.begin_pair(&self.design, index);
        let windows = match self.design.mode {
            Mode::Duet => self.duet(&sides, order, &workload, progress)?,
            Mode::Solo => self.solo(&sides, order, &workload, progress)?,
        };
        self.keep(index, kind, windows)
    }

    /// A and B, or A and a twin of A.
    fn sides(&self, kind: PairKind) -> [Arm; 2] {
        let [a, b] = self.arms.clone();
        let second = match kind {
            PairKind::Test => b,
            PairKind::Control => Arm { name: format!("{}-twin", a.name), ..a.clone() },
        };
        [a, second]
    }

    fn duet(
        &self,
        sides: &[Arm; 2],
        order: [usize; 2],
        workload: &Workload,
        progress: &Progress,
    ) -> Result<[Window; 2]> {
        let mut running = in_order(order, |side| sides[side].start(self.runner, &self.folder.scratch()))?;
        let prepared =
            in_order(order, |side| self.prepare(&sides[side], &running[side], workload, progress))?;
        let targets = [0, 1].map(|side: usize| running[side].processes(prepared[side].leaders()));
        let foreign = foreign(&running, &targets);
        // One process that serves both arms has one CPU time, which can't be told apart.
        let shared = targets[0] == targets[1];
        let starts = staggered(order, workload);
        let run = |prepared: Prepared, targets: Vec<u32>, start: Instant| {
            let mut probe = TargetProbe::new(targets, &foreign);
            let mut window = prepared.run(start, &mut probe, &mut progress.load())?;
            probe.describe_machine(&mut window);
            Ok::<Window, hone_load::LoadError>(window)
        };
        let seats = [0, 1].map(|side: usize| Seat {
            pid: running[side].child().unwrap_or(0),
            generator: AtomicI32::new(0),
        });
        let counted = targets.map(|targets| if shared { Vec::new() } else { targets });
        let mut parts: Vec<_> = prepared.into_iter().zip(counted.into_iter().zip(starts)).map(Some).collect();
        let windows = std::thread::scope(|scope| {
            let (run, seats) = (&run, &seats);
            let mut handles = in_order(order, |side| {
                let (prepared, (targets, start)) = parts[side].take().context("a side is started once")?;
                Ok(Some(scope.spawn(move || {
                    seats[side].generator.store(affinity::this_thread(), Ordering::Relaxed);
                    run(prepared, targets, start)
                })))
            })?;
            if let Some(places) = Places::halves().filter(|_| self.design.places) {
                places.swap_until(seats, order[0], || {
                    handles.iter().flatten().any(ScopedJoinHandle::is_finished)
                })?;
            }
            in_order([0, 1], |side| {
                let handle = handles[side].take().context("a side is joined once")?;
                Ok(handle.join().map_err(|_| anyhow::anyhow!("the load of arm {side} panicked"))??)
            })
        })?;
        for arm in &mut running {
            arm.check_alive()?;
        }
        for arm in running {
            arm.stop()?;
        }
        Ok(windows)
    }

    fn solo(
        &self,
        sides: &[Arm; 2],
        order: [usize; 2],
        workload: &Workload,
        progress: &Progress,
    ) -> Result<[Window; 2]> {
        in_order(order, |side| {
            let mut running = sides[side].start(self.runner, &self.folder.scratch())?;
            let prepared = self.prepare(&sides[side], &running, workload, progress)?;
            let targets = running.processes(prepared.leaders());
            let mut probe =
                TargetProbe::new(targets.clone(), if running.child().is_some() { &[] } else { &targets });
            let mut window = prepared.run(Instant::now(), &mut probe, &mut progress.load())?;
            probe.describe_machine(&mut window);
            running.check_alive()?;
            running.stop()?;
            Ok(window)
        })
    }

    fn prepare(
        &self,
        arm: &Arm,
        running: &Running,
        workload: &Workload,
        progress: &Progress,
    ) -> Result<Prepared> {
        let settings = Settings {
            address: running.address.clone(),
            variant: arm.name.clone(),
            storage: self.storage.clone(),
            topic: Topic::Fresh,
            lateness_limit_us: self.lateness_limit_us,
            shard: None,
        };
        hone_load::prepare(settings, workload.clone(), &mut progress.load())
            .with_context(|| format!("loading {}", arm.name))
    }

    /// Window files first, then the pair that names them: a pair on disk always has its windows.
    fn keep(&self, index: usize, kind: PairKind, windows: [Window; 2]) -> Result<PairOutcome> {
        let dropped = windows.iter().find_map(why_it_does_not_count);
        let values = |window: &Window| -> BTreeMap<Metric, f64> {
            Metric::ALL.into_iter().filter_map(|metric| Some((metric, window.value(metric)?))).collect()
        };
        let [values_a, values_b] = [values(&windows[0]), values(&windows[1])];
        let names = ["a", "b"].map(|side| format!("{}windows/{index:03}-{side}.json", self.prefix));
        for (name, window) in names.iter().zip(windows) {
            self.folder.write_record(name, window)?;
        }
        let [window_a, window_b] = names;
        Ok(PairOutcome { index: index as u32, kind, window_a, window_b, values_a, values_b, dropped })
    }
}

/// When the two arms of a duet begin. They replay the same arrivals, but not in step: of two that wake at the same
/// instant the first one would pay, every time, for waking the sleeping core, and the second would ride along. That is
/// worth a third of the CPU per request on a virtual machine, always for the same arm. Half a gap beside the whole
/// ones keeps evenly spaced requests apart too.
fn staggered(order: [usize; 2], workload: &Workload) -> [Instant; 2] {
    let gap_s = 1.0 / workload.requests_per_s;
    let gaps = (STAGGER_S / gap_s).floor() + 0.5;
    let first = Instant::now() + START_AHEAD;
    let second = first + Duration::from_secs_f64((gaps * gap_s).min(1.0));
    if order[0] == 0 { [first, second] } else { [second, first] }
}

/// The targets that Hone did not start.
fn foreign(running: &[Running; 2], targets: &[Vec<u32>; 2]) -> Vec<u32> {
    let arms = running.iter().zip(targets).filter(|(arm, _)| arm.child().is_none());
    arms.flat_map(|(_, targets)| targets.clone()).collect()
}

/// Runs a step for both sides in the given order; the answers stand in the order of the sides.
fn in_order<T>(order: [usize; 2], mut step: impl FnMut(usize) -> Result<T>) -> Result<[T; 2]> {
    let first = step(order[0])?;
    let second = step(order[1])?;
    Ok(if order[0] == 0 { [first, second] } else { [second, first] })
}

/// Why a window can't be compared, by a rule that looks at no latency and no CPU.
pub(crate) fn why_it_does_not_count(window: &Window) -> Option<String> {
    let name = &window.variant;
    match &window.outcome {
        Outcome::Steady => {}
        Outcome::Saturated { backlog_requests } => {
            return Some(format!("{name} was saturated ({backlog_requests} requests behind at the end)"));
        }
        Outcome::GeneratorLate { lateness_us_p99, limit_us } => {
            return Some(format!(
                "the generator was late for {name} (p99 {:.0} ms, limit {:.0} ms)",
                lateness_us_p99 / 1e3,
                limit_us / 1e3
            ));
        }
        Outcome::Failed { reason } => return Some(format!("{name} failed: {reason}")),
    }
    let failed = window.facts.requests - window.facts.acked_requests;
    let share = failed as f64 / window.facts.requests.max(1) as f64;
    (share > ERROR_SHARE_LIMIT).then(|| {
        let names: Vec<&str> = window.facts.errors.keys().map(String::as_str).collect();
        format!("{name} failed {failed} of {} requests ({})", window.facts.requests, names.join(", "))
    })
}

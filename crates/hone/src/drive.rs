//! The one loop where rooms meet: for each pair of a design, start the arms, load them, stop them, keep the record.
//! It computes and prints nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hone_compare::{Neighbours, disturbed};
use hone_host::affinity;
use hone_load::{LoadError, Prepared, Settings, Topic};
use hone_record::{
    Change, Comparison, Design, Machine, Metric, Mode, Outcome, PairKind, PairOutcome, Pilot, Window,
    Workload,
};
use hone_tool::{Runner, interrupt};

use crate::arm::{Arm, Place, Running};
use crate::clients::Clients;
use crate::folder::RunFolder;
use crate::lever::{Held, Lever};
use crate::places::{Places, Seat};
use crate::probe::TargetProbe;
use crate::progress::Progress;
use crate::targets::Targets;

/// Everything a comparison needs.
pub(crate) struct Contest<'a> {
    /// Names of A and B.
    pub(crate) names: [String; 2],
    /// The builds of A and of B, at least one each.
    pub(crate) builds: [Vec<Arm>; 2],
    /// The loads of A and B. They differ only where that is the change.
    pub(crate) workloads: [Workload; 2],
    /// The one thing that differs, where both arms are the same target.
    pub(crate) change: Option<Change>,
    /// What carries out a change of the world outside the arms.
    pub(crate) lever: Option<Lever>,
    pub(crate) design: Design,
    /// What was promised.
    pub(crate) pilot: Option<Pilot>,
    /// What limits the time.
    pub(crate) clock: Option<Clock>,
    pub(crate) storage: String,
    pub(crate) lateness_limit_us: f64,
    pub(crate) folder: &'a RunFolder,
    /// Prefix of this comparison's files in the folder, for example `validate/`, or nothing.
    pub(crate) prefix: String,
    pub(crate) runner: &'a dyn Runner,
    pub(crate) machine: Machine,
}

/// The time of a run with a budget.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    pub(crate) total_s: f64,
    /// What the pairs of earlier attempts took.
    pub(crate) earlier_s: f64,
    pub(crate) started: Instant,
}

impl Clock {
    pub(crate) fn left_s(&self) -> f64 {
        self.total_s - self.earlier_s - self.started.elapsed().as_secs_f64()
    }
}

/// One side of a pair: what is loaded, how, and what is set for it.
#[derive(Debug, Clone)]
struct Side {
    arm: Arm,
    workload: Workload,
    /// Value of the contest's lever; `None` leaves it as it is.
    set: Option<String>,
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
    let pairs = measure_pairs(contest, progress, |longest_s, left_s, _| left_s >= longest_s)?;
    Ok(judged(contest, pairs))
}

/// Measures the pairs of the contest's design in their order, as long as `goes_on` says so: it hears the longest pair so far,
/// what is left of the clock, and how many pairs count. Nobody asks what the pairs showed.
///
/// # Errors
/// As for [`compare`].
pub(crate) fn measure_pairs(
    contest: &Contest<'_>,
    progress: &Progress,
    mut goes_on: impl FnMut(f64, f64, usize) -> bool,
) -> Result<Vec<PairOutcome>> {
    let mut pairs: Vec<PairOutcome> = Vec::new();
    let (mut failures, mut longest_s, mut counted) = (0, 0.0_f64, 0);
    for index in 0..contest.design.order.len() {
        let note = format!("{}pairs/{index:03}.json", contest.prefix);
        let pair: PairOutcome = match contest.folder.read_note::<PairOutcome>(&note)? {
            Some(pair) => pair,
            None => {
                if contest.clock.is_some_and(|clock| !goes_on(longest_s, clock.left_s(), counted)) {
                    break;
                }
                let pair = contest.measure(index, progress).with_context(|| format!("pair {}", index + 1))?;
                contest.folder.write_note(&note, &pair.outcome)?;
                progress.pair(&contest.design, &pair.outcome);
                // Only those of this attempt: one that goes on may find the trouble gone. Neighbours are no failure.
                failures = if pair.failed { failures + 1 } else { 0 };
                if let (FAILURES_IN_A_ROW, Some(reason)) = (failures, &pair.outcome.dropped) {
                    bail!("{failures} pairs in a row do not count, the last because {reason}");
                }
                pair.outcome
            }
        };
        longest_s = longest_s.max(pair.took_s);
        counted += usize::from(pair.dropped.is_none());
        pairs.push(pair);
    }
    Ok(pairs)
}

fn judged(contest: &Contest<'_>, pairs: Vec<PairOutcome>) -> Comparison {
    let found = hone_compare::judge(&contest.design, &pairs);
    let [a, b] = contest.names.clone();
    let [workload, other] = contest.workloads.clone();
    Comparison {
        a,
        b,
        workload_b: (other != workload).then_some(other),
        workload,
        design: contest.design.clone(),
        unmeasured_pairs: (contest.design.order.len() - pairs.len()) as u32,
        pairs,
        judgements: found.judgements,
        not_estimated: found.not_estimated,
        machine: contest.machine.clone(),
        change: contest.change.clone(),
        pilot: contest.pilot.clone(),
    }
}

/// A pair, and whether an arm failed in it (neighbours that disturb it are no failure).
struct Measured {
    outcome: PairOutcome,
    failed: bool,
}

impl Contest<'_> {
    fn measure(&self, index: usize, progress: &Progress) -> Result<Measured> {
        let begun = Instant::now();
        let kind = self.design.order[index];
        let sides = self.sides(kind, index);
        let order = if self.design.swapped[index] { [1, 0] } else { [0, 1] };
        progress.begin_pair(&self.design, index);
        let windows = match self.design.mode {
            Mode::Duet => self.duet(&sides, order, progress)?,
            Mode::Solo => self.solo(&sides, order, progress)?,
        };
        // A window that the user ended is no window of the design.
        if interrupt::requested() {
            bail!("interrupted");
        }
        self.keep(index, kind, windows, begun)
    }

    /// A and B, or A and a twin of A, each in the build whose turn it is.
    fn sides(&self, kind: PairKind, index: usize) -> [Side; 2] {
        let block = self.design.block(index) as usize;
        let build = |side: usize| self.builds[side][block % self.builds[side].len()].clone();
        // Other arrivals in each pair, the same for both arms of it.
        let workload = |side: usize| {
            let workload = self.workloads[side].clone();
            Workload { seed: workload.seed.wrapping_add(index as u64), ..workload }
        };
        let change = self.change.as_ref().filter(|_| self.lever.is_some());
        let a =
            Side { arm: build(0), workload: workload(0), set: change.and_then(|change| change.from.clone()) };
        let second = match kind {
            PairKind::Test => {
                Side { arm: build(1), workload: workload(1), set: change.map(|change| change.to.clone()) }
            }
            PairKind::Control => {
                Side { arm: Arm { name: format!("{}-twin", a.arm.name), ..a.arm.clone() }, ..a.clone() }
            }
        };
        [a, second]
    }

    fn duet(&self, sides: &[Side; 2], order: [usize; 2], progress: &Progress) -> Result<[Window; 2]> {
        let mut running = in_order(order, |side| sides[side].arm.start(self.runner, &self.folder.scratch()))?;
        let prepared = in_order(order, |side| {
            self.set_for_good(&sides[side], &running[side])?;
            self.prepare(&sides[side], &running[side], progress)
        })?;
        let targets = [0, 1].map(|side: usize| running[side].targets(prepared[side].brokers()));
        let foreign = foreign(&running, &targets);
        // One process that serves both arms has one CPU time, which can't be told apart.
        let shared = targets[0].pids.iter().any(|pid| targets[1].pids.contains(pid));
        let starts = staggered(order, &sides[0].workload);
        let run = |prepared: Prepared, targets: Targets, start: Instant| {
            let mut probe = TargetProbe::new(targets, &foreign);
            let mut window = whole(prepared.run(start, &mut probe, &mut progress.load())?)?;
            probe.describe_machine(&mut window);
            Ok::<Window, LoadError>(window)
        };
        let seats = [0, 1].map(|side: usize| Seat {
            pid: running[side].child().unwrap_or(0),
            generator: AtomicI32::new(0),
            helpers: prepared[side].helpers(),
        });
        let counted = targets.map(|targets| {
            if shared { Targets::unknown("one process serves both arms".to_owned()) } else { targets }
        });
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

    fn solo(&self, sides: &[Side; 2], order: [usize; 2], progress: &Progress) -> Result<[Window; 2]> {
        in_order(order, |index| {
            let side = &sides[index];
            let held = match (&self.lever, &side.set, &side.arm.place) {
                // The machine is set before the arm starts, a broker that runs already before it is loaded.
                (Some(lever @ Lever::Host { .. }), Some(value), _) => {
                    Some(lever.set(value, "", self.folder.path())?)
                }
                (Some(lever), Some(value), Place::Address(address)) => {
                    Some(lever.set(value, address, self.folder.path())?)
                }
                _ => None,
            };
            let window = self.window_alone(side, progress)?;
            held.map_or(Ok(()), Held::put_back)?;
            Ok(window)
        })
    }

    fn window_alone(&self, side: &Side, progress: &Progress) -> Result<Window> {
        let mut running = side.arm.start(self.runner, &self.folder.scratch())?;
        self.set_for_good(side, &running)?;
        let prepared = self.prepare(side, &running, progress)?;
        let targets = running.targets(prepared.brokers());
        let foreign = if running.child().is_some() { Vec::new() } else { targets.pids.clone() };
        let mut probe = TargetProbe::new(targets, &foreign);
        let mut window = prepared.run(Instant::now(), &mut probe, &mut progress.load())?;
        probe.describe_machine(&mut window);
        running.check_alive()?;
        running.stop()?;
        Ok(window)
    }

    /// A setting of a broker that Hone started goes with the broker.
    fn set_for_good(&self, side: &Side, running: &Running) -> Result<()> {
        match (&self.lever, &side.set) {
            (Some(lever @ Lever::Cluster { .. }), Some(value)) if running.child().is_some() => {
                lever.set_for_good(value, &running.address)
            }
            _ => Ok(()),
        }
    }

    fn prepare(&self, side: &Side, running: &Running, progress: &Progress) -> Result<Prepared> {
        let settings = Settings {
            address: running.address.clone(),
            variant: side.arm.name.clone(),
            storage: self.storage.clone(),
            topic: Topic::Fresh,
            lateness_limit_us: self.lateness_limit_us,
            shard: None,
            security: side.arm.security.clone(),
        };
        let clients = Clients::within(self.runner, self.folder.scratch());
        hone_load::prepare(settings, side.workload.clone(), &clients, &mut progress.load())
            .with_context(|| format!("loading {}", side.arm.name))
    }

    /// Window files first, then the pair that names them: a pair on disk always has its windows.
    fn keep(&self, index: usize, kind: PairKind, windows: [Window; 2], begun: Instant) -> Result<Measured> {
        let failure = windows.iter().find_map(why_it_does_not_count);
        let failed = failure.is_some();
        let dropped = failure.or_else(|| {
            let seen = [0, 1].map(|side: usize| Neighbours::of(&windows[side]));
            disturbed(self.design.disturbance.as_ref()?, [&seen[0], &seen[1]])
        });
        let values = |window: &Window| -> BTreeMap<Metric, f64> {
            Metric::ALL.into_iter().filter_map(|metric| Some((metric, window.value(metric)?))).collect()
        };
        let [values_a, values_b] = [values(&windows[0]), values(&windows[1])];
        let names = ["a", "b"].map(|side| format!("{}windows/{index:03}-{side}.json", self.prefix));
        for (name, window) in names.iter().zip(windows) {
            self.folder.write_record(name, window)?;
        }
        let [window_a, window_b] = names;
        let outcome = PairOutcome {
            index: index as u32,
            kind,
            window_a,
            window_b,
            values_a,
            values_b,
            dropped,
            block: self.design.block(index),
            took_s: begun.elapsed().as_secs_f64(),
        };
        Ok(Measured { outcome, failed })
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
fn foreign(running: &[Running; 2], targets: &[Targets; 2]) -> Vec<u32> {
    let arms = running.iter().zip(targets).filter(|(arm, _)| arm.child().is_none());
    arms.flat_map(|(_, targets)| targets.pids.clone()).collect()
}

/// Runs a step for both sides in the given order; the answers stand in the order of the sides.
fn in_order<T>(order: [usize; 2], mut step: impl FnMut(usize) -> Result<T>) -> Result<[T; 2]> {
    let first = step(order[0])?;
    let second = step(order[1])?;
    Ok(if order[0] == 0 { [first, second] } else { [second, first] })
}

/// A window that the user ended before its time is none of a pair.
pub(crate) fn whole(window: Window) -> Result<Window, LoadError> {
    if window.was_interrupted() { Err(LoadError::Interrupted) } else { Ok(window) }
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

//! The central loop: for each pair of a design it starts the arms, loads them, stops them, and stores the records. It computes no
//! statistics and prints no results.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hone_compare::{Neighbours, Turns, disturbed, own_events, place_of};
use hone_host::affinity;
use hone_load::{Admin, LoadError, Prepared, Settings, Topic};
use hone_record::{
    BUSY_OF_TARGET, Change, Comparison, Design, Machine, Metric, Mode, Outcome, PairKind, PairOutcome, Pilot,
    Window, Workload,
};
use hone_tool::{Runner, ToolError, interrupt};

use crate::arm::{Arm, Place, Running};
use crate::bench::DID_NOT_START;
use crate::clients::Clients;
pub use crate::clock::Clock;
use crate::ending::Usage;
use crate::folder::{RunFolder, read_record};
use crate::fresh::FreshCopies;
use crate::lever::{self, HeldTogether, Lever, Set, set_together};
use crate::longer::{again_words, more_words};
use crate::looks::{self, MeasuredPairs, PairsEnd};
use crate::meter::Meter;
use crate::places::{Places, Seat};
use crate::probe::TargetProbe;
use crate::progress::Progress;
use crate::targets::Targets;
use crate::warmth::Looker;
use crate::{change, climb};

/// The inputs of a comparison.
pub struct Contest<'a> {
    /// Names of A and B.
    pub names: [String; 2],
    /// The builds of A and of B, at least one each.
    pub builds: [Vec<Arm>; 2],
    /// Whether each pair starts fresh copies if the programs differ. Only builds of Hone can be copied: a program of the user may look for
    /// files beside its own.
    pub fresh_programs: bool,
    /// The loads of A and B. They only differ if the load is the change.
    pub workloads: [Workload; 2],
    /// The single difference, if both arms use the same target.
    pub change: Option<Change>,
    /// Upper bound of the share of the primary metric that B can save, where it is known.
    pub most_saved: Option<f64>,
    /// The external settings for the windows of A and of B, in their order.
    pub sets: [Vec<Set>; 2],
    /// The pairs, and the rule by which they are judged.
    pub design: Design,
    /// The prediction of the pilot.
    pub pilot: Option<Pilot>,
    /// The time limit.
    pub clock: Option<Clock>,
    /// The target's durability before an acknowledgement, in words.
    pub storage: String,
    /// Hone excludes a window whose median request was sent later than this.
    pub lateness_limit_us: f64,
    /// Topic of each window's load; by default each has its own.
    pub topic: Topic,
    /// Folder of the windows.
    pub folder: &'a RunFolder,
    /// Prefix of this comparison's files in the folder, for example `validate/`, or empty.
    pub prefix: String,
    /// Starts programs.
    pub runner: &'a dyn Runner,
    /// The machine that measures.
    pub machine: Machine,
}

/// One side of a pair: its arm, its load and its external settings.
#[derive(Debug, Clone)]
struct Side {
    /// Its place in the pair: 0 for A, 1 for B or a twin.
    index: usize,
    arm: Arm,
    workload: Workload,
    /// The external settings for its windows.
    sets: Vec<Set>,
}

/// Both arms of a duet start this long after both are warm, so that both threads are ready.
const START_AHEAD: Duration = Duration::from_millis(50);
/// Approximate delay between the starts of a duet's arms: longer than many gaps between requests, and a small part of a window.
const STAGGER_S: f64 = 0.02;
/// A target that fails in this many pairs in a row is expected to fail in the next one, too.
const FAILURES_IN_A_ROW: u32 = 3;

/// Measures the remaining pairs and judges. The design is on the disk before the first window.
///
/// # Errors
/// When an arm fails repeatedly, when another part of the system fails, or when the user interrupts. Measured pairs stay in the
/// folder. The next attempt continues after them, unless the clock ended this one.
pub fn compare(contest: &Contest<'_>, progress: &Progress) -> Result<Comparison> {
    fixed_before(contest.folder, &format!("{}design.json", contest.prefix), &contest.design)?;
    let measured = match looks::ended(contest)? {
        Some(measured) => measured,
        None => {
            let measured = measure_pairs(contest, progress, |longest_s, left_s, _| left_s >= longest_s)?;
            looks::note_end(contest, &measured)?;
            measured
        }
    };
    Ok(judged(contest, measured))
}

/// Writes a design before the first window. If there is another one already, windows may have been measured with it, and no other
/// rule may judge them.
///
/// # Errors
/// With the next step, when the stored design differs.
pub fn fixed_before(folder: &RunFolder, note: &str, design: &Design) -> Result<()> {
    // What a continued run has behind it is no part of the rule.
    let design = &looks::as_begun(design);
    // The texts are compared, too, since a fraction may change in its last bit when it is written and read.
    let text = serde_json::to_string_pretty(design)?;
    let same = |earlier: &str| {
        earlier == text || serde_json::from_str::<Design>(earlier).is_ok_and(|earlier| earlier == *design)
    };
    match folder.read_text(note)? {
        Some(earlier) if same(&earlier) => Ok(()),
        Some(_) => bail!(Usage(format!(
            "the rule or the pairs of this run differ from {}, and a measured window is only judged by its \
             own rule\n  next: begin a new run, or continue with the version of Hone and the settings that \
             began this one",
            folder.join(note).display()
        ))),
        None => folder.write_text(note, &text).map(|_| ()),
    }
}

/// Measures the pairs of the design in their order, while `goes_on` agrees. It gets the longest pair so far, the remaining time,
/// and the number of valid pairs. Pairs of the reserve follow for excluded ones, and where the A/A pairs scatter ([`Turns`]). The
/// results of A/B pairs only have an influence at the looks of the design ([`looks`]).
///
/// It stops if B alone fails in several pairs in a row: [`Comparison::verdict`] is then worse.
///
/// # Errors
/// As for [`compare`].
pub fn measure_pairs(
    contest: &Contest<'_>,
    progress: &Progress,
    mut goes_on: impl FnMut(f64, f64, usize) -> bool,
) -> Result<MeasuredPairs> {
    let mut pairs: Vec<PairOutcome> = Vec::new();
    let (mut failures, mut longest_s, mut turns) = (InARow::default(), 0.0_f64, Turns::new(&contest.design));
    for (index, kind) in contest.design.order.iter().copied().enumerate() {
        if index >= contest.design.planned()
            && let Some(more) = turns.more(&pairs)
        {
            progress.line(&more_words(&contest.design, more));
        }
        if let Some(controls) = turns.again(index, &pairs) {
            progress.line(&again_words(controls));
        }
        if !turns.is_due(index) {
            continue;
        }
        let note = contest.note(index);
        let (pair, failed) = match contest.folder.read_note::<PairOutcome>(&note)? {
            Some(pair) => (pair, None),
            None => {
                let is_planned = index < contest.design.planned();
                let clock = contest.clock.filter(|clock| !(clock.for_the_reserve && is_planned));
                let counted = turns.counted().iter().sum();
                if kind == PairKind::Test
                    && let Some(end) = looks::end_at(contest, &pairs, progress)
                {
                    return Ok(MeasuredPairs { pairs, end });
                }
                if clock.is_some_and(|clock| !goes_on(longest_s, clock.left_s(), counted)) {
                    return Ok(MeasuredPairs { pairs, end: PairsEnd::Cut });
                }
                let pair = contest.measure(index, progress).map_err(|error| contest.in_pair(index, error))?;
                contest.folder.write_note(&note, &pair.outcome)?;
                progress.pair(&contest.design, &pair.outcome);
                (pair.outcome, Some(pair.failed))
            }
        };
        longest_s = longest_s.max(pair.took_s);
        turns.count(&pair);
        pairs.push(pair);
        let outlook = contest.most_saved.filter(|_| failed.is_some());
        let outlook = outlook.and_then(|saved| crate::outlook::words(&contest.design, &pairs, saved));
        outlook.iter().for_each(|words| progress.line(words));
        // Only pairs of this attempt count: a resumed one may find the trouble gone. Disturbance by
        // neighbours is no failure.
        let Some(failed) = failed else { continue };
        match failures.count(kind, failed) {
            row if row < FAILURES_IN_A_ROW => {}
            row if b_alone_fails(row, &pairs) => {
                if row >= FAILURES_OF_B_ALONE {
                    return Ok(MeasuredPairs { pairs, end: PairsEnd::Cut });
                }
            }
            row if turns.counted() != [0, 0] && only_late(row, kind, &pairs) => {}
            // There are enough pairs for a confidence interval, so the run keeps them, and the reserve ends
            // it.
            _ if turns.counted()[place_of(kind)] >= hone_compare::FEWEST_PAIRS as usize => {}
            _ => bail!(GaveUp::after(kind, &pairs)),
        }
    }
    Ok(MeasuredPairs { pairs, end: PairsEnd::Complete })
}

/// This many A/B pairs in a row in which B alone fails, after it started, make it worse: a fair coin does the same in 1.6 % of
/// the cases, which is below half the usual error of 5 %.
const FAILURES_OF_B_ALONE: u32 = 6;

/// Whether B alone failed in this many last A/B pairs, and started in one of them. A B that never starts probably has wrong
/// arguments.
fn b_alone_fails(row: u32, pairs: &[PairOutcome]) -> bool {
    let tests = || pairs.iter().rev().filter(|pair| pair.kind == PairKind::Test).take(row as usize);
    pairs.last().is_some_and(|last| last.kind == PairKind::Test)
        && tests().all(|pair| is_alone_in_trouble(1, pair))
        && tests().any(|pair| pair.started[1])
}

/// Whether the last pairs of a kind are only excluded because the generator fell behind. A busy machine can cause that for a
/// while. With valid pairs before it the run continues, and the reserve replaces the excluded ones.
fn only_late(row: u32, kind: PairKind, pairs: &[PairOutcome]) -> bool {
    let mut last = pairs.iter().rev().filter(|pair| pair.kind == kind).take(row as usize);
    last.all(|pair| pair.troubles.iter().all(Vec::is_empty) && pair.late != [false, false])
}

/// Whether one side had trouble and the other had none.
fn is_alone_in_trouble(side: usize, pair: &PairOutcome) -> bool {
    !pair.troubles[side].is_empty() && pair.troubles[1 - side].is_empty()
}

/// An arm failed in too many pairs in a row.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
pub struct GaveUp {
    /// Whether only A had trouble, so that nothing speaks against B.
    pub of_a: bool,
    /// Whether only B had trouble in each of those pairs, so that nothing speaks against A.
    pub of_b: bool,
    /// The side (0 for A, 1 for B) that alone had trouble, or for which alone the generator fell behind, in each of those pairs,
    /// and in at least one of them the generator. This is no fault of a target, but it shows that the generator can't sustain
    /// that side's load.
    pub late: Option<usize>,
    words: String,
}

impl GaveUp {
    /// Attributes the failures after the last pair, which is of this kind.
    fn after(kind: PairKind, pairs: &[PairOutcome]) -> Self {
        let is_test = kind == PairKind::Test;
        let name = if is_test { "A/B" } else { "control" };
        let reason = pairs.last().and_then(|pair| pair.dropped.as_deref()).unwrap_or_default();
        Self {
            of_a: match kind {
                PairKind::Test => last_were_of(0, pairs.iter()),
                // Both arms are equal here. Nothing speaks against B if it passed all its windows.
                PairKind::Control => b_has_stood(pairs.iter()),
            },
            of_b: is_test && last_were_of(1, pairs.iter()),
            late: [0, 1].into_iter().find(|side| is_test && last_were_late_for(*side, pairs.iter())),
            words: format!(
                "{FAILURES_IN_A_ROW} {name} pairs in a row were excluded, the last one because {reason}"
            ),
        }
    }
}

#[cfg(any(test, feature = "fixtures"))]
impl GaveUp {
    /// With failed A/B pairs, by B or by A.
    pub fn for_test(of_b: bool) -> Self {
        Self { of_a: !of_b, of_b, late: None, words: "3 A/B pairs in a row were excluded".to_owned() }
    }

    /// With an arm whose generator fell behind.
    pub fn for_test_by_late(side: usize) -> Self {
        Self { of_a: false, late: Some(side), ..Self::for_test(false) }
    }
}

/// Whether one side (0 for A, 1 for B) had trouble in the last A/B pairs and the other had none.
fn last_were_of<'a>(side: usize, pairs: impl DoubleEndedIterator<Item = &'a PairOutcome>) -> bool {
    let mut tests = pairs.rev().filter(|pair| pair.kind == PairKind::Test).take(FAILURES_IN_A_ROW as usize);
    tests.all(|pair| is_alone_in_trouble(side, pair))
}

/// The same, with a generator that fell behind counted as trouble.
fn last_were_late_for<'a>(side: usize, pairs: impl DoubleEndedIterator<Item = &'a PairOutcome>) -> bool {
    let tests = pairs.rev().filter(|pair| pair.kind == PairKind::Test).take(FAILURES_IN_A_ROW as usize);
    let tests: Vec<&PairOutcome> = tests.collect();
    let is_fine = |pair: &PairOutcome, side: usize| pair.troubles[side].is_empty() && !pair.late[side];
    tests.iter().all(|pair| !is_fine(pair, side) && is_fine(pair, 1 - side))
        && tests.iter().any(|pair| pair.late[side])
}

/// Whether B had no trouble in any A/B pair, its generator kept its schedule, and there is a window of it.
fn b_has_stood<'a>(pairs: impl Iterator<Item = &'a PairOutcome>) -> bool {
    let tests: Vec<&PairOutcome> = pairs.filter(|pair| pair.kind == PairKind::Test).collect();
    tests.iter().all(|pair| pair.troubles[1].is_empty() && !pair.late[1])
        && tests.iter().any(|pair| !pair.window_b.is_empty())
}

/// Consecutive failures by kind of pair: a control between two failed A/B pairs does not clear B.
#[derive(Debug, Default)]
struct InARow([u32; 2]);

impl InARow {
    /// Counts a pair, and returns the consecutive failures of its kind.
    fn count(&mut self, kind: PairKind, failed: bool) -> u32 {
        let row = &mut self.0[place_of(kind)];
        *row = if failed { *row + 1 } else { 0 };
        *row
    }
}

pub(crate) fn judged(contest: &Contest<'_>, measured: MeasuredPairs) -> Comparison {
    let unmeasured_pairs = measured.unmeasured(&contest.design);
    let pairs = measured.pairs;
    let found = hone_compare::judge(&contest.design, &pairs);
    let [a, b] = contest.names.clone();
    let [workload, other] = contest.workloads.clone();
    let judged = Comparison {
        a,
        b,
        workload_b: (other != workload).then_some(other),
        workload,
        unlike_promises: Vec::new(),
        measured: Default::default(),
        behind: Default::default(),
        design: contest.design.clone(),
        unmeasured_pairs,
        pairs,
        judgements: found.judgements,
        not_estimated: found.not_estimated,
        machine: contest.machine.clone(),
        change: contest.change.clone(),
        pilot: contest.pilot.clone(),
        one_layout: Vec::new(),
        counted: None,
        targets: Default::default(),
        started_unix_ms: 0,
    };
    with_targets(judged, contest.folder)
}

/// Adds the start, the measured processes, the processes to which they delegated work, and differences in their durability guarantees. It
/// takes them from the first A/B pair, since only the run itself changes them.
pub fn with_targets(comparison: Comparison, folder: &RunFolder) -> Comparison {
    let window = |name: &str| read_record::<Window>(&folder.join(name)).ok();
    let is_test = |pair: &&PairOutcome| pair.kind == PairKind::Test;
    let first = comparison.pairs.iter().filter(is_test).find_map(|pair| window(&pair.window_a));
    let comparison = Comparison { started_unix_ms: first.map_or(0, |it| it.started_unix_ms), ..comparison };
    let environment = |name: &str| window(name)?.environment;
    let mut tests = comparison.pairs.iter().filter(is_test);
    let seen = tests.find_map(|pair| Some((environment(&pair.window_a)?, environment(&pair.window_b)?)));
    let Some((a, b)) = seen else { return comparison };
    Comparison {
        unlike_promises: hone_record::unlike_promises([&a, &b]),
        measured: [&a, &b].map(|of| of.measured.clone()),
        behind: [&a, &b].map(|of| of.behind.clone()),
        ..comparison
    }
}

/// A pair, and whether an arm failed in it (disturbance by neighbours is no failure).
struct Measured {
    outcome: PairOutcome,
    failed: bool,
}

impl Contest<'_> {
    pub(crate) fn note(&self, index: usize) -> String {
        format!("{}pairs/{index:03}.json", self.prefix)
    }

    fn measure(&self, index: usize, progress: &Progress) -> Result<Measured> {
        let begun = Instant::now();
        let kind = self.design.order[index];
        let (sides, _copies) = self.fresh(self.sides(kind, index))?;
        let order = if self.design.swapped[index] { [1, 0] } else { [0, 1] };
        progress.begin_pair(&self.design, index);
        let seen = match self.design.mode {
            Mode::Duet => match of_arm(self.duet(&sides, order, progress))? {
                Err(failure) => Seen::none(vec![failure]),
                Ok([a, b]) => Seen::both([of_arm(a)?, of_arm(b)?]),
            },
            Mode::Solo => self.solo(&sides, order, progress)?,
        };
        // A window that the user interrupted is not part of the design.
        if interrupt::requested() {
            bail!("interrupted");
        }
        self.keep(index, kind, seen, begun)
    }

    /// A and B, or one of them and its twin, each in its current build.
    fn sides(&self, kind: PairKind, index: usize) -> [Side; 2] {
        let block = self.design.block(index) as usize;
        let build = |side: usize| self.builds[side][block % self.builds[side].len()].clone();
        // Each pair has other arrivals, and both of its arms have the same ones.
        let workload = |side: usize| {
            let workload = self.workloads[side].clone();
            Workload { seed: workload.seed.wrapping_add(index as u64), ..workload }
        };
        let side = |index: usize, arm: usize| Side {
            index,
            arm: build(arm),
            workload: workload(arm),
            sets: self.sets[arm.min(1)].clone(),
        };
        let [first, second] = self.design.arms(index);
        let (first, mut second) = (side(0, first), side(1, second));
        if kind == PairKind::Control {
            second.arm.name.push_str("-twin");
        }
        [first, second]
    }

    /// Both sides with fresh copies of their programs, if that is wanted, and the folder that holds them.
    fn fresh(&self, mut sides: [Side; 2]) -> Result<([Side; 2], Option<FreshCopies>)> {
        let folder = self.folder.join(format!("{}fresh", self.prefix));
        let copies = FreshCopies::of_builds(folder, &self.builds).filter(|_| self.fresh_programs);
        for (place, side) in sides.iter_mut().enumerate() {
            copies
                .iter()
                .try_for_each(|copies| copies.copy_of(&side.arm, place).map(|arm| side.arm = arm))?;
        }
        Ok((sides, copies))
    }

    /// A window of each side, or its failure. A cause that ends one side may end the other, too, and is then no fault of one
    /// alone.
    fn duet(&self, sides: &[Side; 2], order: [usize; 2], progress: &Progress) -> Result<[Result<Window>; 2]> {
        let mut running = in_order(order, |side| self.start(&sides[side]))?;
        let prepared = in_order(order, |side| {
            self.set_for_good(&sides[side], &running[side])?;
            self.prepare(&sides[side], &running[side], progress)
        })?;
        let targets = in_order([0, 1], |side| self.targets(&sides[side], &running[side], &prepared[side]))?;
        let foreign = foreign(&running, &targets);
        // If one process serves both arms, its CPU time can't be divided between them.
        let shared = targets[0].pids.iter().any(|pid| targets[1].pids.contains(pid));
        // The cost of serving the metrics page is over before the windows open.
        let meters = in_order(order, |side| running[side].meter())?;
        let starts = staggered(order, &sides[0].workload);
        let run = |prepared: Prepared, (targets, meter): (Targets, Option<Meter>), start: Instant| {
            let mut probe = TargetProbe::new(targets, &foreign).beside(meter);
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
        let seen = counted.into_iter().zip(meters);
        let mut parts: Vec<_> = prepared.into_iter().zip(seen.zip(starts)).map(Some).collect();
        let mut windows = std::thread::scope(|scope| {
            let (run, seats) = (&run, &seats);
            let mut handles = in_order(order, |side| {
                let (prepared, (seen, start)) = parts[side].take().context("a side is started once")?;
                Ok(Some(scope.spawn(move || {
                    seats[side].generator.store(affinity::this_thread(), Ordering::Relaxed);
                    run(prepared, seen, start)
                })))
            })?;
            if let Some(places) = Places::halves().filter(|_| self.design.places) {
                places.swap_until(seats, order[0], || {
                    handles.iter().flatten().any(ScopedJoinHandle::is_finished)
                })?;
            }
            in_order([0, 1], |side| {
                let handle = handles[side].take().context("a side is joined once")?;
                let window = handle.join().map_err(|_| anyhow::anyhow!("the load of arm {side} panicked"))?;
                Ok(window.with_context(|| in_its_window(&sides[side])))
            })
        })?;
        for ((arm, side), window) in running.iter_mut().zip(sides).zip(&mut windows) {
            if let (true, Err(died)) = (window.is_ok(), arm.check_alive()) {
                *window = Err(died).with_context(|| in_its_window(side));
            }
        }
        if windows.iter().all(Result::is_ok) {
            for arm in running {
                arm.stop(self.runner)?;
            }
        }
        Ok(windows)
    }

    fn solo(&self, sides: &[Side; 2], order: [usize; 2], progress: &Progress) -> Result<Seen> {
        let mut seen = Seen::default();
        for index in order {
            let side = &sides[index];
            let held = self.held(side).with_context(|| ToBeSet::of(side))?;
            let part = of_arm(self.window_alone(side, progress));
            match held.end(part)? {
                Ok(window) => seen.windows[index] = Some(window),
                // The other side is loaded all the same: the result shows whether it sustains the load.
                Err(failure) => seen.failures.push(failure),
            }
        }
        Ok(seen)
    }

    /// Applies the external settings that precede an arm's start: of the machine, and of running brokers.
    fn held(&self, side: &Side) -> Result<HeldTogether> {
        let (of_machine, others): (Vec<&Set>, Vec<&Set>) =
            side.sets.iter().partition(|set| matches!(set.lever, Lever::Host { .. }));
        let mut held = HeldTogether::default();
        // A setting of a program that Hone starts is applied after its start, and disappears with it.
        if let Place::Address(address) = &side.arm.place {
            let several = others.len() > 1;
            for set in others.iter().filter(|_| several) {
                set.was.as_ref().map_or(Ok(()), |was| set.lever.is_as_it_was(was, address))?;
            }
            for set in others {
                let was = set.was.as_deref().filter(|_| !several);
                held = held.and(set.lever.set(&set.value, address, self.folder.path(), was, None))?;
            }
        }
        if of_machine.is_empty() {
            return Ok(held);
        }
        held.and(set_together(
            &of_machine,
            self.folder.path(),
            Some(guard_for(&side.workload, &side.arm.place)),
        ))
    }

    fn start(&self, side: &Side) -> Result<Running> {
        let arm = &side.arm;
        arm.start(self.runner, &self.folder.scratch()).with_context(|| ArmFailed {
            side: side.index,
            at: Stage::Start,
            what: format!("{} {DID_NOT_START}", arm.name),
        })
    }

    fn window_alone(&self, side: &Side, progress: &Progress) -> Result<Window> {
        let mut running = self.start(side)?;
        self.set_for_good(side, &running)?;
        let prepared = self.prepare(side, &running, progress)?;
        let targets = self.targets(side, &running, &prepared)?;
        let foreign = if running.child().is_some() { Vec::new() } else { targets.pids.clone() };
        let mut probe = TargetProbe::new(targets, &foreign).beside(running.meter()?);
        let mut window = prepared
            .run(Instant::now(), &mut probe, &mut progress.load())
            .with_context(|| in_its_window(side))?;
        probe.describe_machine(&mut window);
        running.check_alive().with_context(|| in_its_window(side))?;
        running.stop(self.runner)?;
        Ok(window)
    }

    /// The processes whose CPU counts. If CPU decides, they must be known for a program that Hone started: otherwise another
    /// process would be judged.
    fn targets(&self, side: &Side, running: &Running, prepared: &Prepared) -> Result<Targets> {
        let targets = running.targets(prepared.brokers());
        let primary = self.design.rule.primary;
        if let (Some(_), true, Some(why), true) =
            (running.child(), targets.pids.is_empty(), &targets.missing, primary.is_cpu())
        {
            bail!(Usage(format!(
                "{}: {why}; so {} can't decide\n  next: start the server itself in the foreground, name the \
                 address of a running one, or let a latency decide (--primary latency-p50)",
                side.arm.name,
                primary.label()
            )));
        }
        Ok(targets)
    }

    /// A setting of a broker that Hone started disappears with the broker.
    fn set_for_good(&self, side: &Side, running: &Running) -> Result<()> {
        if running.child().is_none() {
            return Ok(());
        }
        let of_the_broker = side.sets.iter().filter(|set| matches!(set.lever, Lever::Cluster { .. }));
        of_the_broker
            .into_iter()
            .try_for_each(|set| set.lever.set_for_good(&set.value, &running.address))
            .with_context(|| ToBeSet::of(side))
    }

    fn prepare(&self, side: &Side, running: &Running, progress: &Progress) -> Result<Prepared> {
        let settings = Settings {
            address: running.address.clone(),
            variant: side.arm.name.clone(),
            storage: self.storage.clone(),
            topic: self.topic.clone(),
            lateness_limit_us: self.lateness_limit_us,
            shard: None,
            security: side.arm.security.clone(),
        };
        let clients = Clients::within(self.runner, self.folder.scratch());
        let mut loading = progress.load();
        let prepared = hone_load::prepare(settings, side.workload.clone(), &clients, &mut loading);
        let prepared = prepared
            .and_then(|mut prepared| {
                let targets = running.targets(prepared.brokers());
                prepared.warm_up(&mut Looker::at(&targets.pids), &mut loading)?;
                if self.design.mode == Mode::Duet {
                    prepared.stand_by()?;
                }
                Ok(prepared)
            })
            .with_context(|| ArmFailed {
                side: side.index,
                at: Stage::Load,
                what: format!("loading {}", side.arm.name),
            })?;
        self.differs_from_default(side, running, &prepared)?;
        Ok(prepared)
    }

    /// Rejects a change to a value that A's topic already has. The first pair settles it, so later pairs do not query the broker
    /// again. Without an answer the change is accepted.
    fn differs_from_default(&self, side: &Side, running: &Running, prepared: &Prepared) -> Result<()> {
        let asks = side.workload == self.workloads[0] && !self.folder.join(self.note(0)).is_file();
        let Some(change) = self.change.as_ref().filter(|change| change.kind == "topic" && asks) else {
            return Ok(());
        };
        let in_force = Admin::connect_with(&running.address, &side.arm.security)
            .and_then(|mut admin| admin.topic_settings(prepared.topic(), &[&change.name]));
        let in_force = in_force.unwrap_or_default();
        change::differs_from_default(change, in_force.get(&change.name).map(String::as_str))
    }

    /// An error that ends the run, with its pair.
    fn in_pair(&self, index: usize, error: anyhow::Error) -> anyhow::Error {
        let differs =
            Differ { loads: self.workloads[0] != self.workloads[1], sets: self.sets[0] != self.sets[1] };
        let refused = side_that_is_refused(&error, differs).map(|side| self.design.arms(index)[side]);
        error.context(InPair { number: index + 1, refused })
    }

    /// The window files are written first, then the pair with their names: a pair on the disk always has its windows.
    fn keep(&self, index: usize, kind: PairKind, seen: Seen, begun: Instant) -> Result<Measured> {
        let least = [0, 1].map(|side: usize| seen.windows[side].as_ref().and_then(climb::held_throughout));
        let at_least = least.map(|rate| rate.is_some());
        // If only one arm never breaks, that is a result: its capacity is at least the end of the climb. If
        // none breaks in an A/B pair, it has no result. In a control pair, two equal arms with the same
        // outcome are a valid control.
        let is_known = |side: usize| at_least[side] && (kind == PairKind::Control || !at_least[1 - side]);
        let beyond = |side: usize| {
            seen.windows[side].as_ref().filter(|_| !is_known(side)).and_then(climb::beyond_reach)
        };
        if let Some(beyond) = [0, 1].into_iter().find_map(beyond) {
            bail!(beyond);
        }
        if let ([Some(a), Some(b)], Some(change), PairKind::Test) = (&seen.windows, &self.change, kind)
            && let (Some(a), Some(b)) = (&a.client, &b.client)
        {
            change::differs_in_force(change, a, b)?;
        }
        let troubles = seen.troubles();
        let late = [0, 1].map(|side: usize| seen.windows[side].as_ref().is_some_and(is_late));
        let failed_to_start =
            |side| seen.failures.iter().any(|one| one.side == side && one.at == Stage::Start);
        let started = [0, 1].map(|side: usize| !failed_to_start(side));
        let failure = seen.failures.first().map(|failure| failure.reason.clone());
        let failure = failure.or_else(|| seen.windows.iter().flatten().find_map(Window::why_excluded));
        let unread = match self.design.rule.primary {
            Metric::BusyPerRecord => {
                seen.windows.iter().flatten().find_map(|window| window.why_unknown(BUSY_OF_TARGET))
            }
            _ => None,
        };
        // A value that can't be read in the first pair can't be read in the others.
        if let (Some(why), 0) = (&unread, index) {
            bail!(Usage(format!("{BUSY_OF_TARGET}{why}")));
        }
        let failure = failure.or_else(|| unread.map(|why| format!("{BUSY_OF_TARGET}{why}")));
        let failed = failure.is_some();
        let dropped = failure.or_else(|| {
            let [Some(first), Some(second)] = &seen.windows else { return None };
            let [first, second] = neighbours([first, second]);
            disturbed(self.design.disturbance.as_ref()?, [&first, &second])
        });
        let values = |window: &Window| -> BTreeMap<Metric, f64> {
            Metric::ALL.into_iter().filter_map(|metric| Some((metric, window.value(metric)?))).collect()
        };
        let failed_share =
            [0, 1].map(|side: usize| seen.windows[side].as_ref().map_or(0.0, Window::failed_share));
        let throttling =
            [0, 1].map(|side: usize| seen.windows[side].as_ref().and_then(|window| window.facts.throttling));
        let [mut values_a, mut values_b] = [0, 1].map(|side: usize| seen.windows[side].as_ref().map(values));
        for (values, least) in [&mut values_a, &mut values_b].into_iter().zip(least) {
            values.iter_mut().for_each(|values| values.extend(least.map(|rate| (Metric::Capacity, rate))));
        }
        let mut names = [String::new(), String::new()];
        for ((name, side), window) in names.iter_mut().zip(["a", "b"]).zip(seen.windows) {
            let Some(window) = window else { continue };
            *name = format!("{}windows/{index:03}-{side}.json", self.prefix);
            self.folder.write_record(name, window)?;
        }
        let [window_a, window_b] = names;
        let outcome = PairOutcome {
            index: index as u32,
            kind,
            window_a,
            window_b,
            values_a: values_a.unwrap_or_default(),
            values_b: values_b.unwrap_or_default(),
            dropped,
            block: self.design.block(index),
            took_s: begun.elapsed().as_secs_f64(),
            troubles,
            late,
            started,
            failed_share,
            at_least,
            throttling,
        };
        Ok(Measured { outcome, failed })
    }
}

/// The outcome of a pair: its windows, and the failures of arms without one.
#[derive(Debug, Default)]
struct Seen {
    windows: [Option<Window>; 2],
    failures: Vec<Failure>,
}

/// An arm that did not start, or did not sustain its load.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Failure {
    /// Its place in the pair: 0 for A, 1 for B or a twin.
    side: usize,
    at: Stage,
    reason: String,
}

impl Seen {
    fn none(failures: Vec<Failure>) -> Self {
        Self { failures, ..Self::default() }
    }

    /// Of two concurrent windows. A single one has no counterpart.
    fn both(windows: [std::result::Result<Window, Failure>; 2]) -> Self {
        match windows {
            [Ok(a), Ok(b)] => Self { windows: [Some(a), Some(b)], failures: Vec::new() },
            [a, b] => Self::none([a.err(), b.err()].into_iter().flatten().collect()),
        }
    }

    /// The troubles that each arm caused itself, its crash included.
    fn troubles(&self) -> [Vec<String>; 2] {
        [0, 1].map(|side: usize| {
            let crash = self.failures.iter().filter(|failure| failure.side == side);
            let crash = crash.map(|failure| failure.reason.clone());
            crash.chain(self.windows[side].iter().flat_map(troubles)).collect()
        })
    }
}

/// Marks an error as one of an arm: it did not start, or did not sustain its load. It has the arm and the step.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
struct ArmFailed {
    side: usize,
    at: Stage,
    what: String,
}

/// The stage at which an arm failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It was not ready yet.
    Start,
    /// It was ready, and loaded or about to be.
    Load,
}

/// Marks an error as one of the external settings for a side's windows.
#[derive(Debug, thiserror::Error)]
#[error("external settings for {name}")]
struct ToBeSet {
    side: usize,
    name: String,
}

impl ToBeSet {
    fn of(side: &Side) -> Self {
        Self { side: side.index, name: side.arm.name.clone() }
    }
}

/// The pair of an error.
#[derive(Debug, thiserror::Error)]
#[error("pair {number}")]
struct InPair {
    number: usize,
    /// The arm (0 for A, 1 for B) that can't be applied.
    refused: Option<usize>,
}

/// The arm (0 for A, 1 for B) that can't be applied at all, because of its difference from the other one: its load is invalid,
/// its client rejects it, or a broker or the kernel rejects the value. `None` for any other error.
pub fn refused_arm(error: &anyhow::Error) -> Option<usize> {
    error.downcast_ref::<InPair>()?.refused
}

#[cfg(any(test, feature = "fixtures"))]
/// The error of a pair in which an arm was rejected.
pub fn refused_for_test(arm: usize) -> anyhow::Error {
    anyhow::anyhow!("the setting is invalid").context(InPair { number: 1, refused: Some(arm) })
}

/// The difference between the arms of a comparison.
#[derive(Debug, Clone, Copy)]
struct Differ {
    loads: bool,
    sets: bool,
}

/// The side (0 for the first one of a pair) that is rejected for what it has alone. What both have would be rejected for both.
fn side_that_is_refused(error: &anyhow::Error, differ: Differ) -> Option<usize> {
    if lever::is_left(error) {
        return None;
    }
    if let Some(to_be_set) = error.downcast_ref::<ToBeSet>() {
        return (differ.sets && lever::is_refused(error)).then_some(to_be_set.side);
    }
    let of_the_load =
        matches!(error.downcast_ref(), Some(LoadError::Setting { .. } | LoadError::Client { .. }));
    error.downcast_ref::<ArmFailed>().filter(|_| differ.loads && of_the_load).map(|failed| failed.side)
}

/// Time of a window besides its load, a start and a stop: filling a topic, draining a broker. It is generous, since the watchdog
/// only acts if this process is gone.
const GUARD_SPARE_S: f64 = 600.0;
const LONGEST_GUARD_S: f64 = 86_400.0;

/// After this time the watchdog restores the settings of a window.
fn guard_for(load: &Workload, place: &Place) -> Duration {
    let started_s = match place {
        Place::Program(program) => (program.ready_timeout + program.stop_timeout).as_secs_f64(),
        Place::Address(_) => 0.0,
    };
    let within_s = load.duration_s + load.timeout_s + started_s + GUARD_SPARE_S;
    Duration::from_secs_f64(if within_s.is_finite() {
        within_s.clamp(GUARD_SPARE_S, LONGEST_GUARD_S)
    } else {
        LONGEST_GUARD_S
    })
}

fn in_its_window(side: &Side) -> ArmFailed {
    let what = format!("{} failed in its window", side.arm.name);
    ArmFailed { side: side.index, at: Stage::Load, what }
}

/// Separates the failures of an arm from errors that end the run. A crashed arm is a result: an excluded pair, stored with its
/// reason, so that it is not repeated until the arm happens to survive. An interrupt, a full disk, or an unusable setting or
/// client is not the arm's fault.
///
/// # Errors
/// With the error that ends the run.
fn of_arm<T>(done: Result<T>) -> Result<std::result::Result<T, Failure>> {
    match done {
        Ok(done) => Ok(Ok(done)),
        // An interruption makes the arm fail in its window, which is not the arm's fault.
        Err(_) if interrupt::requested() => bail!("interrupted"),
        Err(error) => match arm_that_failed(&error) {
            Some((side, at)) => Ok(Err(Failure { side, at, reason: in_one_line(&error) })),
            None => Err(error),
        },
    }
}

/// A program's output and the place of its log. The command is in the design.
pub fn in_one_line(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    let tells = |line: &&str| !(line.starts_with("command: ") || line.starts_with("next: "));
    text.lines().map(str::trim).filter(tells).collect::<Vec<_>>().join("; ")
}

fn arm_that_failed(error: &anyhow::Error) -> Option<(usize, Stage)> {
    let failed = error.downcast_ref::<ArmFailed>().filter(|_| is_of_a_target(error))?;
    Some((failed.side, failed.at))
}

/// Whether a target can cause this error: it did not start, did not answer, or closed the connection.
pub fn is_of_a_target(error: &anyhow::Error) -> bool {
    use LoadError::{Broken, Connect, Garbage, Mute, Refused, Slow, WarmUp};
    let load = error.downcast_ref::<LoadError>().is_some_and(|error| {
        matches!(
            error,
            Connect { .. }
                | Broken { .. }
                | Garbage { .. }
                | Mute { .. }
                | Refused { .. }
                | Slow { .. }
                | WarmUp { .. }
        )
    });
    let tool = error.downcast_ref::<ToolError>().is_some_and(|error| {
        matches!(error, ToolError::Died { .. } | ToolError::TimedOut { .. } | ToolError::Refused { .. })
    });
    load || tool
}

/// Disturbance by neighbours in the two windows. If a target's processes are not known, its own CPU would count as its
/// neighbours', and pairs would be excluded because of the arms. In that case the others' CPU is left out of both windows.
fn neighbours(windows: [&Window; 2]) -> [Neighbours; 2] {
    let known = windows.iter().all(|window| window.facts.target_cpu.is_some());
    windows.map(|window| {
        let seen = Neighbours::of(window);
        if known { seen } else { Neighbours { others_share: 0.0, ..seen } }
    })
}

/// The start times of the two arms of a duet. They replay the same arrivals, but not in step. If both woke at the same instant,
/// the first one would always pay for waking the sleeping core. On a virtual machine that costs a third of the CPU per request,
/// always for the same arm. Half a gap on top of whole gaps keeps evenly spaced requests apart, too.
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

/// Runs a step for both sides in the given order. The results are in the order of the sides.
fn in_order<T>(order: [usize; 2], mut step: impl FnMut(usize) -> Result<T>) -> Result<[T; 2]> {
    let first = step(order[0])?;
    let second = step(order[1])?;
    Ok(if order[0] == 0 { [first, second] } else { [second, first] })
}

/// A window that the user interrupted does not belong to a pair.
pub fn whole(window: Window) -> Result<Window, LoadError> {
    if window.was_interrupted() { Err(LoadError::Interrupted) } else { Ok(window) }
}

/// The troubles that the arm of a window caused itself. A generator that fell behind is no fault of its target.
pub fn troubles(window: &Window) -> Vec<String> {
    // A generator that fell behind and a target that was not warm are no fault of the arm.
    let is_cold = matches!(window.outcome, Outcome::Warming { .. });
    let failure = window.why_excluded().filter(|_| !is_late(window) && !is_cold);
    failure.into_iter().chain(own_events(window)).collect()
}

/// Whether the load's generator fell behind its schedule.
pub fn is_late(window: &Window) -> bool {
    matches!(window.outcome, Outcome::GeneratorLate { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::window;

    #[test]
    fn neighbours_that_may_be_the_target_itself_drop_no_pair() {
        let (mut quiet, mut busy) = (window(), window());
        (quiet.facts.others_share, busy.facts.others_share) = (0.05, 0.60);
        let rule = hone_compare::disturbance(Mode::Solo);
        for (known, drops) in [(true, true), (false, false)] {
            let cpu = hone_record::CpuSeconds { total_s: 1.0, user_share: None };
            quiet.facts.target_cpu = Some(cpu);
            busy.facts.target_cpu = known.then_some(cpu);
            let [first, second] = neighbours([&quiet, &busy]);
            assert_eq!(disturbed(&rule, [&first, &second]).is_some(), drops, "{known}");
        }
    }

    #[test]
    fn arms_of_a_duet_are_half_a_gap_apart_in_the_order_that_was_drawn() {
        for requests_per_s in [0.5, 3.0, 100.0, 2_000.0, 90_000.0] {
            let load = Workload { requests_per_s, ..window().workload };
            let gap_s = 1.0 / requests_per_s;
            for order in [[0, 1], [1, 0]] {
                let begin = staggered(order, &load);
                let apart_s = begin[order[1]].duration_since(begin[order[0]]).as_secs_f64();
                assert!(apart_s > 0.0 && apart_s <= 1.0, "{apart_s}");
                let beside_gaps = (apart_s / gap_s).fract();
                assert!((beside_gaps - 0.5).abs() < 1e-3, "{apart_s} s at {requests_per_s}/s");
                assert_eq!(
                    begin[order[0]].checked_duration_since(begin[order[1]]),
                    None,
                    "the second came first"
                );
            }
        }
    }

    /// The order of a real session: a B that always fails must not run to the end because of the controls in between.
    #[test]
    fn a_control_in_between_does_not_hide_failures_in_a_row() {
        use PairKind::{Control, Test};
        let given_up = |pairs: &[(PairKind, bool)]| {
            let mut row = InARow::default();
            let gives_up = |(kind, failed): &(PairKind, bool)| row.count(*kind, *failed) == FAILURES_IN_A_ROW;
            pairs.iter().position(gives_up)
        };
        let (b_fails, fine) = ((Test, true), (Control, false));
        assert_eq!(given_up(&[b_fails, b_fails, fine, b_fails, fine]), Some(3));
        assert_eq!(given_up(&[b_fails, b_fails, (Test, false), b_fails, b_fails]), None);
        assert_eq!(given_up(&[b_fails, b_fails, (Control, true), (Test, false)]), None);
        assert_eq!(given_up(&[(Control, true), b_fails, (Control, true), (Control, true)]), Some(3));
    }

    /// A crash, saturation and a lost connection are the arm's own fault. A generator that fell behind is nobody's.
    #[test]
    fn troubles_stand_with_the_arm_that_had_them() {
        use hone_record::EventKind::{
            ConnectionLost, Interrupted, LeaderMoved, Reconnected, RecordingFailed,
        };
        let event = |(kind, what): (_, &str)| hone_record::Event { at_s: 1.5, kind, what: what.to_owned() };
        let events = [(ConnectionLost, "connection 0 broke"), (Reconnected, "back"), (LeaderMoved, "moved")]
            .into_iter()
            .chain([(RecordingFailed, "disk full"), (Interrupted, "ended by the user")]);
        let (mut saturated, mut late) = (window(), window());
        saturated.outcome = Outcome::Saturated { backlog_requests: 9 };
        saturated.events = events.map(event).collect();
        late.outcome = Outcome::GeneratorLate { lateness_us_p99: 2e3, limit_us: 1e3 };
        let [a, b] = Seen::both([Ok(late.clone()), Ok(saturated)]).troubles();
        assert!(a.is_empty(), "{a:?}");
        assert!(b[0].contains("was saturated (9 requests"), "{b:?}");
        assert_eq!(b[1..], ["connection 0 broke at 1.5 s", "moved at 1.5 s"]);
        let crash = |side, what: &str| Failure { side, at: Stage::Load, reason: what.to_owned() };
        let [a, b] = [crash(0, "A ended"), crash(1, "B ended")];
        let alone = Seen::both([Err(a.clone()), Ok(late)]);
        assert_eq!(alone.troubles(), [vec!["A ended".to_owned()], vec![]]);
        assert_eq!(alone.windows, [None, None], "one alone has no counterpart");
        // A cause that ends both at once is no fault of one alone.
        let together = Seen::both([Err(a), Err(b)]).troubles();
        assert_eq!(together, [vec!["A ended".to_owned()], vec!["B ended".to_owned()]]);
    }

    #[test]
    fn pairs_that_fail_by_b_alone_say_nothing_against_a() {
        let pair = |kind, a: &[&str], b: &[&str]| PairOutcome {
            index: 0,
            kind,
            troubles: [a, b].map(|list| list.iter().map(|word| (*word).to_owned()).collect()),
            ..PairOutcome::default()
        };
        let (test, control) = (PairKind::Test, PairKind::Control);
        let of_b = || pair(test, &[], &["died"]);
        let mixed = [pair(test, &["died"], &[]), of_b(), pair(control, &[], &[]), of_b(), of_b()];
        assert!(last_were_of(1, mixed.iter()));
        assert!(!last_were_of(0, mixed.iter()));
        assert!(!last_were_of(1, [of_b(), of_b(), pair(test, &["died"], &["died"])].iter()));
        assert!(!last_were_of(1, [of_b(), pair(test, &[], &[]), of_b()].iter()));
        let of_a = || pair(test, &["died"], &[]);
        assert!(last_were_of(0, [of_a(), pair(control, &["died"], &[]), of_a(), of_a()].iter()));
        // If the control gives up, only B's own windows show whether B is fine.
        let seen = |b: &[&str]| PairOutcome { window_b: "b.json".to_owned(), ..pair(test, &["died"], b) };
        assert!(b_has_stood([seen(&[]), of_a(), pair(control, &["died"], &["died"])].iter()));
        assert!(!b_has_stood([seen(&[]), seen(&["died"])].iter()));
        assert!(!b_has_stood([of_a(), pair(control, &["died"], &[])].iter()));
        // A generator that fell behind is no fault of a target, but shows that it can't sustain that side.
        let late = |late: [bool; 2]| PairOutcome { late, ..pair(test, &[], &[]) };
        let (late_a, late_b) = (|| late([true, false]), || late([false, true]));
        let for_b = [late_b(), pair(control, &[], &[]), of_b(), late_b()];
        assert!(last_were_late_for(1, for_b.iter()) && !last_were_late_for(0, for_b.iter()));
        assert!(!last_were_of(1, for_b.iter()), "nothing is known against the target");
        assert!(last_were_late_for(0, [late_a(), late_a(), late_a()].iter()));
        assert!(!last_were_late_for(1, [late_b(), late_b(), late([true, true])].iter()));
        assert!(!last_were_late_for(1, [of_b(), of_b(), of_b()].iter()), "it was in time");
        assert!(!b_has_stood([seen(&[]), PairOutcome { late: [false, true], ..seen(&[]) }].iter()));
    }

    #[test]
    fn a_side_that_can_not_be_had_is_told_from_a_run_that_can_not_go_on() {
        let both = Differ { loads: true, sets: true };
        let loading = |error: LoadError| {
            anyhow::Error::from(error).context(ArmFailed {
                side: 1,
                at: Stage::Load,
                what: "loading B".to_owned(),
            })
        };
        let client =
            || LoadError::Client { command: "c".to_owned(), problem: "none of linger_ms".to_owned() };
        let setting = || LoadError::Setting { name: "idempotent", problem: "needs acks".to_owned() };
        assert_eq!(side_that_is_refused(&loading(client()), both), Some(1));
        assert_eq!(side_that_is_refused(&loading(setting()), both), Some(1));
        let same = Differ { loads: false, ..both };
        assert_eq!(side_that_is_refused(&loading(client()), same), None, "it would be refused of A, too");
        assert_eq!(side_that_is_refused(&loading(LoadError::Interrupted), both), None);
        assert_eq!(side_that_is_refused(&client().into(), both), None, "not while an arm was loaded");
        let refused = |error| LoadError::Refused {
            address: "b:1".to_owned(),
            what: "to set x".to_owned(),
            error,
            message: String::new(),
        };
        let set = |error: anyhow::Error| error.context(ToBeSet { side: 0, name: "A".to_owned() });
        assert_eq!(side_that_is_refused(&set(refused("INVALID_CONFIG").into()), both), Some(0));
        let same = Differ { sets: false, ..both };
        assert_eq!(side_that_is_refused(&set(refused("INVALID_CONFIG").into()), same), None);
        // Another program also changes it; the rights are missing; there is no answer.
        assert_eq!(side_that_is_refused(&set(anyhow::anyhow!("x was `1` and is `2` now")), both), None);
        assert_eq!(side_that_is_refused(&set(refused("CLUSTER_AUTHORIZATION_FAILED").into()), both), None);
        let error = refused_for_test(1).context("the run");
        assert_eq!(refused_arm(&error), Some(1));
        assert_eq!(format!("{error:#}"), "the run: pair 1: the setting is invalid");
    }

    /// The settings must stay while a service takes an hour to start.
    #[test]
    fn the_guard_waits_for_a_start_and_a_stop() {
        let load = Workload { duration_s: 10.0, timeout_s: 5.0, ..window().workload };
        let of = |place: &Place| guard_for(&load, place).as_secs_f64();
        let limit = |s| Duration::from_secs(s);
        let program = Place::parse("sh --port {port}", &[], limit(3_600), limit(1_800)).unwrap();
        assert_eq!(of(&Place::Address("b:1".to_owned())), 15.0 + GUARD_SPARE_S);
        assert_eq!(of(&program), 15.0 + 3_600.0 + 1_800.0 + GUARD_SPARE_S);
    }

    #[test]
    fn an_arm_that_fails_is_told_from_a_run_that_can_not_go_on() {
        let of_b = || ArmFailed { side: 1, at: Stage::Load, what: "loading B".to_owned() };
        let marked = |error: LoadError| anyhow::Error::from(error).context(of_b());
        let slow =
            || LoadError::Slow { address: "b:1".to_owned(), what: "Metadata".to_owned(), limit_s: 1.0 };
        let failure = of_arm::<()>(Err(marked(slow()))).unwrap().unwrap_err();
        assert_eq!(failure.reason, "loading B: b:1 did not answer Metadata within 1 s");
        assert_eq!(failure.side, 1);
        assert!(of_arm::<()>(Err(slow().into())).is_err(), "not while an arm was started or loaded");
        assert!(of_arm::<()>(Err(marked(LoadError::Interrupted))).is_err());
        assert!(of_arm::<()>(Err(anyhow::anyhow!("disk full").context(of_b()))).is_err());
    }
}

//! Many variants of one program, judged together. All are alive at the same time, and in each round every one is loaded alone for
//! a short time, in random order. Each comparison of a child with its parent consists of pairs from the same rounds. All share
//! the control: the baseline against its byte copy.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use hone_compare::{BASELINE, FEWEST_ROUNDS, Neighbours, RoundPlan, TWIN, disturbed};
use hone_record::{Comparison, Design, Engine, Machine, Metric, PairKind, PairOutcome, Window, Workload};
use hone_tool::{ToolError, interrupt};
use serde::{Deserialize, Serialize};

use crate::arm::Arm;
use crate::bench::{self, Bench, Subject};
use crate::drive::{fixed_before, in_one_line, is_late, is_of_a_target, troubles, with_targets};
use crate::ending::Usage;
use crate::folder::RunFolder;
use crate::fresh::FreshCopies;
use crate::outlook;
use crate::progress::Progress;
use crate::spec::Compare;

/// A variant in the tree. The first one is the baseline, the second its byte copy.
pub struct Runner {
    /// Its name in comparisons and files.
    pub name: String,
    /// The variant on which it is based, by its number; `None` for the baseline and its twin.
    pub parent: Option<usize>,
    /// Its builds, each with another layout. All variants have the same number.
    pub arms: Vec<Arm>,
}

/// The inputs of the rounds.
pub struct Rounds<'a> {
    /// All variants, each after the one on which it is based.
    pub variants: Vec<Runner>,
    /// The load of each burst, with the length of a burst.
    pub workload: Workload,
    /// The order of the variants, the build of each one, and the rule.
    pub plan: RoundPlan,
    /// Starts and loads the variants.
    pub bench: Bench<'a>,
    /// Folder of the windows.
    pub folder: &'a RunFolder,
    /// Prefix of the rounds' files in the folder, for example `judge-get/`.
    pub prefix: String,
    /// The machine that measures.
    pub machine: Machine,
    /// See [`crate::drive::Contest::most_saved`].
    pub most_saved: Option<f64>,
    /// Whether each block gets fresh copies of the programs.
    pub fresh_programs: bool,
    /// Seconds after which no round of the reserve begins. The planned rounds fit.
    pub limit_s: Option<f64>,
}

/// A build of a variant that fails this many times in a row is given up.
const FAILURES_IN_A_ROW: u32 = 3;

/// The CPU of other processes is counted in ticks, usually of 10 ms. In a shorter burst two ticks could look like a neighbour.
const NEIGHBOURS_NEED_S: f64 = 0.25;

/// The layout of the rounds. An interrupted run only continues with the same one.
#[derive(Debug, Serialize)]
struct Layout {
    /// Name, parent and builds of each variant, the builds by their SHA-256.
    variants: Vec<(String, Option<usize>, Vec<String>)>,
    workload: Workload,
    rounds: u32,
    block_rounds: u32,
    /// The build that each block of rounds measures.
    builds: Vec<u32>,
    /// The variants of each round in the order of their loads.
    orders: Vec<Vec<usize>>,
}

/// A measured round.
#[derive(Debug, Serialize, Deserialize)]
pub struct Round {
    /// Counted from 0.
    pub index: u32,
    /// By variant.
    pub seen: Vec<Burst>,
}

/// One variant in one round.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Burst {
    /// Its record, relative to the folder; empty without one.
    pub window: String,
    values: BTreeMap<Metric, f64>,
    /// Why it is excluded.
    pub failure: Option<String>,
    /// The troubles that the variant caused itself.
    troubles: Vec<String>,
    /// Whether the load's generator fell behind.
    #[serde(default)]
    late: bool,
    /// Share of its requests that failed.
    #[serde(default)]
    failed_share: f64,
    /// Whether its process was restarted after a failure, and is younger than the others.
    #[serde(default)]
    pub younger: bool,
    /// Disturbance by neighbours; `None` without a window, and if the window was too short to measure it.
    beside: Option<Beside>,
    /// Duration of the burst in seconds.
    pub took_s: f64,
}

/// [`Neighbours`] on the disk.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Beside {
    steal_share: f64,
    others_share: f64,
    memory_pressure: Option<f64>,
    /// Whether the others' CPU certainly contains none of the target's.
    is_known: bool,
}

/// The result of one set of rounds.
#[derive(Debug, Serialize, Deserialize)]
pub struct Judged {
    /// A comparison for each edge (parent, child), in the order of the children.
    pub edges: Vec<Comparison>,
    /// Variants that are based on another one, compared with the baseline. This needs no more windows, since every round measures
    /// every variant.
    pub on_baseline: Vec<Comparison>,
}

/// Reads measured rounds and measures the others. Each round is on the disk before the next one begins, and the designs before
/// the first window.
///
/// # Errors
/// When the baseline or its twin fails repeatedly, when another part of the system fails, or when the user interrupts.
pub fn judge_rounds(rounds: &Rounds<'_>, progress: &Progress) -> Result<Judged> {
    let plan = &rounds.plan;
    let mut edges = rounds.edges()?;
    let count = edges.len();
    edges.extend(
        edges
            .clone()
            .into_iter()
            .filter(|[parent, _]| *parent != BASELINE)
            .map(|[_, child]| [BASELINE, child]),
    );
    let designs = edges.iter().map(|edge| plan.design(*edge)).collect::<Result<Vec<Design>, _>>()?;
    let layout = rounds.layout()?;
    rounds.fix(&layout, &edges, &designs)?;
    let comparisons: Vec<_> = edges.iter().copied().zip(&designs).collect();
    let measured = rounds.measure(&layout, &comparisons, progress)?;
    let judged = |(edge, design): (&[usize; 2], Design)| rounds.judged(*edge, design, &measured);
    let mut found: Vec<Comparison> = edges.iter().zip(designs).map(judged).collect();
    let on_baseline = found.split_off(count);
    Ok(Judged { edges: found, on_baseline })
}

/// The running variants, and the consecutive failures of each.
struct Standing {
    block: Option<u32>,
    /// The build that this block measures.
    build: usize,
    /// The variants of this block, each with a fresh copy of its program.
    arms: Vec<Arm>,
    copies: FreshCopies,
    subjects: Vec<Option<Subject>>,
    /// Consecutive failures by variant and build. The order of the builds must not decide the consequences of a broken one.
    failures: Vec<Vec<u32>>,
    /// The variants that failed in this block, whose process is therefore younger than the others.
    restarted: Vec<bool>,
}

impl Standing {
    fn count(&mut self, number: usize, build: usize, failed: bool) {
        let row = &mut self.failures[number][build];
        *row = if failed { row.saturating_add(1) } else { 0 };
    }

    /// Of the build that this block measures.
    fn is_given_up(&self, number: usize) -> bool {
        self.failures[number][self.build] >= FAILURES_IN_A_ROW
    }

    /// Counts a round of an earlier attempt. A variant that was given up stays given up. Baseline and control do not, since they
    /// end the rounds: a resumed run may find their trouble gone.
    fn recall(&mut self, round: &Round, build: usize) {
        for (number, burst) in round.seen.iter().enumerate().skip(TWIN + 1) {
            self.count(number, build, burst.failure.is_some());
        }
    }
}

/// The order of the variants under a load, by the experiment's settings.
pub fn plan(settings: &Compare, builds: u32, workload: &Workload, variants: usize) -> RoundPlan {
    // A program that exits is started for each burst anyway.
    let exits = matches!(workload.engine, Engine::Exits { .. });
    RoundPlan {
        variants,
        rounds: settings.rounds,
        asked_reserve: settings.reserve,
        block_rounds: if exits { 0 } else { settings.block_rounds },
        builds,
        closed_loop: workload.engine.operations().is_some(),
        primary: settings.primary,
        guards: settings.guards.clone(),
        alpha: settings.alpha,
        equivalence: settings.equivalence,
        seed: settings.seed,
        keep_disturbed: false,
        ends_early: true,
        busy: settings.busy,
        refused: match workload.engine.operations() {
            Some(_) => hone_compare::refused_for_operations(settings.primary),
            None => BTreeMap::new(),
        },
    }
}

impl Rounds<'_> {
    /// Parent and child of each comparison.
    fn edges(&self) -> Result<Vec<[usize; 2]>> {
        if self.plan.rounds < FEWEST_ROUNDS {
            bail!(Usage(format!(
                "{} rounds are too few for a confidence interval; use at least {FEWEST_ROUNDS}",
                self.plan.rounds
            )));
        }
        let children = self.variants.iter().enumerate().skip(TWIN + 1);
        children
            .map(|(child, variant)| match variant.parent {
                Some(parent) if parent < child && parent != TWIN => Ok([parent, child]),
                _ => bail!("variant {} has no parent before it", variant.name),
            })
            .collect()
    }

    fn layout(&self) -> Result<Layout> {
        bench::check(&self.workload)?;
        let plan = &self.plan;
        let hashes = |variant: &Runner| variant.arms.iter().map(sha256_of).collect::<Result<Vec<_>>>();
        let variants = self
            .variants
            .iter()
            .map(|variant| Ok((variant.name.clone(), variant.parent, hashes(variant)?)))
            .collect::<Result<Vec<_>>>()?;
        if let Some((name, _, builds)) =
            variants.iter().find(|(_, _, builds)| builds.len() != plan.builds.max(1) as usize)
        {
            bail!("{name} has {} builds instead of {}", builds.len(), plan.builds);
        }
        let hash = |number: usize| variants.get(number).map(|(_, _, hash)| hash);
        if hash(BASELINE).is_none() || hash(BASELINE) != hash(TWIN) {
            bail!("the second variant must be a byte copy of the baseline, because it is the control");
        }
        Ok(Layout {
            variants,
            workload: self.workload.clone(),
            rounds: plan.rounds,
            block_rounds: plan.block_rounds,
            builds: plan.builds_of_blocks(),
            orders: plan.orders(),
        })
    }

    /// Writes the layout and the designs before anything is measured.
    fn fix(&self, layout: &Layout, edges: &[[usize; 2]], designs: &[Design]) -> Result<()> {
        let note = format!("{}rounds.json", self.prefix);
        // The texts are compared, since a fraction may change in its last bit when it is written and read.
        let text = serde_json::to_string_pretty(layout)?;
        match self.folder.read_text(&note)? {
            Some(earlier) if earlier != text => bail!(
                "{} belongs to other variants, another load or other rounds\n  next: start a new run",
                self.folder.join(&note).display()
            ),
            Some(_) => {}
            None => {
                self.folder.write_text(&note, &text)?;
            }
        }
        for ([parent, child], design) in edges.iter().zip(designs) {
            let Runner { name, parent: own, .. } = &self.variants[*child];
            let against = if *own == Some(*parent) { "" } else { "-on-baseline" };
            fixed_before(self.folder, &format!("{}design-{name}{against}.json", self.prefix), design)?;
        }
        Ok(())
    }

    fn note(&self, index: u32) -> String {
        format!("{}rounds/{index:03}.json", self.prefix)
    }

    fn measure(
        &self,
        layout: &Layout,
        comparisons: &[([usize; 2], &Design)],
        progress: &Progress,
    ) -> Result<Vec<Round>> {
        let (plan, count) = (&self.plan, self.variants.len());
        let mut standing = Standing {
            block: None,
            build: 0,
            arms: Vec::new(),
            // The other builds have about the size of the first ones.
            copies: FreshCopies::within(
                self.folder.join(format!("{}fresh", self.prefix)),
                self.variants.iter().filter_map(|variant| variant.arms.first()),
            ),
            subjects: (0..count).map(|_| None).collect(),
            failures: vec![vec![0; plan.builds.max(1) as usize]; count],
            restarted: vec![false; count],
        };
        let mut measured = Vec::new();
        for (index, order) in (0_u32..).zip(&layout.orders) {
            if index >= plan.rounds
                && (!lacks_pairs(comparisons, plan.rounds, &measured) || self.is_over(&measured))
            {
                break;
            }
            if is_decided(comparisons, &measured) {
                progress.line(&format!(
                    "  every comparison has a verdict after {index} of {} rounds",
                    plan.rounds
                ));
                break;
            }
            let note = self.note(index);
            let block = plan.block(index);
            let build = layout.builds.get(block as usize).map_or(0, |build| *build as usize);
            if let Some(round) = self.folder.read_note::<Round>(&note)? {
                standing.recall(&round, build);
                measured.push(round);
                continue;
            }
            if standing.block != Some(block) {
                self.end_all(&mut standing)?;
                standing.block = Some(block);
                standing.build = build;
                standing.restarted.fill(false);
                standing.arms = self.fresh_arms(&standing)?;
            }
            let round = self
                .round(index, order, &mut standing, progress)
                .with_context(|| format!("round {}", index + 1))?;
            self.folder.write_note(&note, &round)?;
            progress.line(&self.line(&round));
            self.give_up_on_the_baseline(&standing, &round)?;
            measured.push(round);
            self.tell_outlook(comparisons, &measured, progress);
        }
        self.end_all(&mut standing)?;
        Ok(measured)
    }

    fn is_over(&self, measured: &[Round]) -> bool {
        let took_s: f64 = measured.iter().flat_map(|round| &round.seen).map(|burst| burst.took_s).sum();
        self.limit_s.is_some_and(|limit_s| took_s > limit_s)
    }

    fn tell_outlook(&self, comparisons: &[([usize; 2], &Design)], measured: &[Round], progress: &Progress) {
        let (Some((edge, design)), Some(most_saved)) = (comparisons.first(), self.most_saved) else { return };
        let mut pairs = pairs_of(*edge, design, measured);
        pairs.retain(|pair| pair.kind == PairKind::Control);
        if let Some(words) = outlook::words(design, &pairs, most_saved) {
            progress.line(&words);
        }
    }

    /// The build of each variant that a block measures.
    fn fresh_arms(&self, standing: &Standing) -> Result<Vec<Arm>> {
        standing.copies.clear()?;
        let variants = self.variants.iter().enumerate();
        let fresh = variants.map(|(number, variant)| {
            let arm = variant.arms.get(standing.build).context("a build to measure is missing")?;
            if self.fresh_programs { standing.copies.copy_of(arm, number) } else { Ok(arm.clone()) }
        });
        fresh.collect()
    }

    fn end_all(&self, standing: &mut Standing) -> Result<()> {
        for subject in standing.subjects.iter_mut().filter_map(Option::take) {
            self.bench.end(subject)?;
        }
        Ok(())
    }

    /// Without the baseline or the control there is no verdict. Any other variant is just left out.
    fn give_up_on_the_baseline(&self, standing: &Standing, round: &Round) -> Result<()> {
        for number in [BASELINE, TWIN] {
            if standing.is_given_up(number) {
                let reason = round.seen[number].failure.as_deref().unwrap_or_default();
                bail!("{FAILURES_IN_A_ROW} bursts in a row were excluded, the last one because {reason}");
            }
        }
        Ok(())
    }

    fn round(
        &self,
        index: u32,
        order: &[usize],
        standing: &mut Standing,
        progress: &Progress,
    ) -> Result<Round> {
        let mut seen: Vec<Burst> = self.variants.iter().map(|_| Burst::default()).collect();
        // All variants of a block start before the first of them is loaded.
        for number in order {
            self.start(*number, standing, &mut seen[*number], progress)?;
        }
        // Each round has other arrivals and other keys, and all its variants have the same ones.
        let seed = self.workload.seed.wrapping_add(u64::from(index));
        let workload = Workload { seed, ..self.workload.clone() };
        for number in order {
            let burst = &mut seen[*number];
            if burst.failure.is_some() {
                continue;
            }
            progress.doing(&format!("round {}", turn(index, self.plan.rounds).trim_start()));
            let begun = Instant::now();
            let Some(subject) = &mut standing.subjects[*number] else { continue };
            let done = of_target(self.bench.window(subject, &workload))?;
            burst.took_s += begun.elapsed().as_secs_f64();
            burst.younger = standing.restarted[*number];
            match done {
                Ok(window) => {
                    burst.take(&window);
                    burst.window =
                        format!("{}windows/{index:03}-{}.json", self.prefix, self.variants[*number].name);
                    self.folder.write_record(&burst.window, window)?;
                }
                Err(reason) => burst.fail(reason),
            }
            self.count(*number, burst.failure.is_some(), standing);
        }
        Ok(Round { index, seen })
    }

    /// Starts a variant that is not running, unless it was given up.
    fn start(
        &self,
        number: usize,
        standing: &mut Standing,
        burst: &mut Burst,
        progress: &Progress,
    ) -> Result<()> {
        let arm = standing.arms.get(number).context("a build to measure is missing")?;
        if standing.is_given_up(number) {
            burst.failure =
                Some(format!("{} was given up after {FAILURES_IN_A_ROW} failures in a row", arm.name));
            return Ok(());
        }
        if standing.subjects[number].is_some() {
            return Ok(());
        }
        progress.doing(&format!("start {}", arm.name));
        let begun = Instant::now();
        let started = of_target(self.bench.subject(arm, &self.workload))?;
        burst.took_s = begun.elapsed().as_secs_f64();
        match started {
            Ok(subject) => {
                standing.subjects[number] = Some(subject);
            }
            Err(reason) => {
                burst.fail(reason);
                self.count(number, true, standing);
            }
        }
        Ok(())
    }

    /// A variant that failed may be damaged, so it is restarted for the next round.
    fn count(&self, number: usize, failed: bool, standing: &mut Standing) {
        standing.count(number, standing.build, failed);
        if failed {
            standing.subjects[number] = None;
            standing.restarted[number] = true;
        }
    }

    fn line(&self, round: &Round) -> String {
        let names: Vec<_> = self.variants.iter().map(|variant| (&*variant.name, variant.parent)).collect();
        line(round, self.plan.rounds, self.plan.primary, &names)
    }

    fn judged(&self, edge: [usize; 2], design: Design, measured: &[Round]) -> Comparison {
        let names = edge.map(|number| self.variants[number].name.clone());
        with_targets(judged(edge, names, design, measured, (&self.workload, &self.machine)), self.folder)
    }
}

/// `round 3 of 31 twin 1.002 pgo 0.905 pgo+bolt 0.981`: each relative to its parent. `names` are the variants with their parents.
pub fn line(round: &Round, rounds: u32, primary: Metric, names: &[(&str, Option<usize>)]) -> String {
    let value = |number: usize| round.seen.get(number)?.values.get(&primary).copied();
    let word = |(number, (name, parent)): (usize, &(&str, Option<usize>))| {
        let parent = if number == TWIN { BASELINE } else { parent.unwrap_or(BASELINE) };
        let failed = round.seen.get(number).is_none_or(|burst| burst.failure.is_some());
        let told = match (failed, value(number).zip(value(parent))) {
            (true, _) => "failed".to_owned(),
            (false, Some((child, parent))) => format!("{:.3}", child / parent),
            (false, None) => "-".to_owned(),
        };
        format!("{name} {told}")
    };
    let words: Vec<String> = names.iter().enumerate().skip(1).map(word).collect();
    let mut line = format!("  round {}   {}", turn(round.index, rounds), words.join("   "));
    for reason in round.seen.iter().filter_map(|burst| burst.failure.as_ref()) {
        line.push_str(&format!("\n      {reason}"));
    }
    line
}

/// The number of a round and the planned number. Rounds of the reserve have higher numbers.
pub fn turn(index: u32, rounds: u32) -> String {
    if index < rounds {
        format!("{:>2} of {rounds}", index + 1)
    } else {
        format!("{:>2} (reserve)", index + 1)
    }
}

/// Whether excluded pairs leave a comparison with fewer pairs of a kind than planned rounds, so that a round of the reserve
/// follows. Only counts decide. A variant that failed in all its last rounds gets no more rounds.
pub fn lacks_pairs(comparisons: &[([usize; 2], &Design)], planned: u32, measured: &[Round]) -> bool {
    let is_lost = |number: &usize| {
        let last = measured.iter().rev().take(FAILURES_IN_A_ROW as usize);
        last.clone().count() == FAILURES_IN_A_ROW as usize
            && last.clone().all(|round| round.seen.get(*number).is_none_or(|burst| burst.failure.is_some()))
    };
    comparisons.iter().filter(|(edge, _)| !edge.iter().any(is_lost)).any(|(edge, design)| {
        let pairs = pairs_of(*edge, design, measured);
        [PairKind::Test, PairKind::Control].into_iter().any(|kind| {
            let counted = pairs.iter().filter(|pair| pair.kind == kind && pair.dropped.is_none()).count();
            counted < planned as usize
        })
    })
}

/// Whether an early look falls on the last round, and decides every comparison.
fn is_decided(comparisons: &[([usize; 2], &Design)], measured: &[Round]) -> bool {
    let decided = |(edge, design): &([usize; 2], &Design)| {
        hone_compare::decided(design, &pairs_of(*edge, design, measured)).is_some()
    };
    !comparisons.is_empty() && comparisons.iter().all(decided)
}

/// The comparison of one edge with these names.
pub fn judged(
    edge: [usize; 2],
    [a, b]: [String; 2],
    design: Design,
    measured: &[Round],
    (workload, machine): (&Workload, &Machine),
) -> Comparison {
    let pairs = pairs_of(edge, &design, measured);
    let found = hone_compare::judge(&design, &pairs);
    Comparison {
        a,
        b,
        workload: workload.clone(),
        design,
        pairs,
        judgements: found.judgements,
        not_estimated: found.not_estimated,
        machine: machine.clone(),
        change: None,
        workload_b: None,
        pilot: None,
        unmeasured_pairs: 0,
        one_layout: Vec::new(),
        counted: None,
        unlike_promises: Vec::new(),
        measured: Default::default(),
        behind: Default::default(),
        targets: Default::default(),
        started_unix_ms: 0,
    }
}

/// Test and control pairs of the rounds, in the design's order.
fn pairs_of(edge: [usize; 2], design: &Design, measured: &[Round]) -> Vec<PairOutcome> {
    let of_round = |round: &Round| {
        [(PairKind::Test, edge), (PairKind::Control, [BASELINE, TWIN])]
            .into_iter()
            .enumerate()
            .map(|(place, (kind, sides))| pair(round.index as usize * 2 + place, kind, sides, design, round))
            .collect::<Vec<_>>()
    };
    measured.iter().flat_map(of_round).collect()
}

fn pair(index: usize, kind: PairKind, sides: [usize; 2], design: &Design, round: &Round) -> PairOutcome {
    let [first, second] = sides.map(|number| &round.seen[number]);
    let failure = first.failure.clone().or_else(|| second.failure.clone());
    // Its data and its heap are new, while the other's are some bursts old. This is known without a look at
    // the values.
    let unlike = || {
        (first.younger || second.younger).then(|| {
            "an arm failed before in this block, and its process is younger than that of the other".to_owned()
        })
    };
    let dropped = failure.or_else(unlike).or_else(|| {
        let beside = [first.beside?, second.beside?];
        // If a target's CPU is not known, it may look like that of others.
        let known = beside.iter().all(|beside| beside.is_known);
        let [first, second] = beside.map(|beside| beside.neighbours(known));
        disturbed(design.disturbance.as_ref()?, [&first, &second])
    });
    PairOutcome {
        index: index as u32,
        kind,
        window_a: first.window.clone(),
        window_b: second.window.clone(),
        values_a: first.values.clone(),
        values_b: second.values.clone(),
        dropped,
        block: design.block(index),
        took_s: first.took_s + second.took_s,
        troubles: [first.troubles.clone(), second.troubles.clone()],
        late: [first.late, second.late],
        failed_share: [first.failed_share, second.failed_share],
        ..PairOutcome::default()
    }
}

impl Burst {
    /// Adds a window to the state.
    pub fn take(&mut self, window: &Window) {
        let value = |metric: Metric| Some((metric, window.value(metric)?));
        self.values = Metric::ALL.into_iter().filter_map(value).collect();
        self.failure = window.why_excluded();
        self.troubles = troubles(window);
        self.late = is_late(window);
        self.failed_share = window.failed_share();
        let seen = Neighbours::of(window);
        self.beside = (window.duration_s >= NEIGHBOURS_NEED_S).then(|| Beside {
            steal_share: seen.steal_share,
            others_share: seen.others_share,
            memory_pressure: seen.memory_pressure,
            is_known: window.facts.target_cpu.is_some(),
        });
    }

    /// Stores why there is no window.
    pub fn fail(&mut self, reason: String) {
        self.failure = Some(reason.clone());
        self.troubles = vec![reason];
    }
}

impl Beside {
    fn neighbours(self, known: bool) -> Neighbours {
        Neighbours {
            steal_share: self.steal_share,
            others_share: if known { self.others_share } else { 0.0 },
            memory_pressure: self.memory_pressure,
            start_slip_ms: 0.0,
        }
    }
}

/// Separates the failures of a variant from errors that end the run.
///
/// # Errors
/// With the error that ends the run.
pub fn of_target<T>(done: Result<T>) -> Result<Result<T, String>> {
    if interrupt::requested() {
        bail!("interrupted");
    }
    match done {
        Ok(done) => Ok(Ok(done)),
        Err(error) => {
            // A command of the load that fails because of the target.
            let failed = matches!(error.downcast_ref(), Some(ToolError::Failed { .. }));
            if failed || is_of_a_target(&error) { Ok(Err(in_one_line(&error))) } else { Err(error) }
        }
    }
}

fn sha256_of(arm: &Arm) -> Result<String> {
    let Some(program) = arm.program() else {
        bail!(Usage(format!("{} runs already, but rounds start all variants themselves", arm.name)));
    };
    let (sha256, _) = hone_binary::lock::sha256_of(&program.path)
        .with_context(|| format!("{}: can't read {}", arm.name, program.path.display()))?;
    Ok(sha256)
}

#[cfg(test)]
mod tests;

//! The comparisons: every variant against the one that it builds on, under every judging workload.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use hone_binary::Built;
use hone_record::{Ceiling, Comparison, Metric, VariantFacts, VariantState, Verdict, Workload};

use super::rule;
use super::steps::{Steps, Told};
use crate::job::Job;
use crate::outcome::Outcomes;
use hone_experiment::arm::Arm;
use hone_experiment::broke;
use hone_experiment::drive::{Contest, GaveUp, compare};
use hone_experiment::phase::Phase;
use hone_experiment::rounds::{self, Judged, Rounds, Runner, judge_rounds};
use hone_experiment::variants::{BASELINE, Variant};

/// Two variants, by their places in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) parent: usize,
    pub(super) child: usize,
}

/// The pairs to compare: each variant with its parent. If the parent was left out, Hone compares with the parent's
/// parent.
pub(super) fn edges(variants: &[Variant], made: &BTreeMap<usize, Built>) -> Vec<Edge> {
    let there = |index: usize| made.contains_key(&index) && variants[index].judged;
    let nearest = |child: usize| {
        let mut at = variants[child].parent;
        while let Some(parent) = at.filter(|parent| !there(*parent)) {
            at = variants[parent].parent;
        }
        at
    };
    let children = (0..variants.len()).filter(|child| there(*child));
    children.filter_map(|child| Some(Edge { parent: nearest(child)?, child })).collect()
}

impl Job<'_> {
    /// All comparisons, grouped by edge, with the first judging workload first.
    pub(super) fn judge(
        &self,
        steps: &mut Steps<'_>,
        variants: &[Variant],
        outcomes: &mut Outcomes,
    ) -> Result<Judged> {
        for built in outcomes.made.values().chain(outcomes.layouts.values().flatten()) {
            if let Some(library) = built.changed_library() {
                bail!(
                    "{} loads {}, which is not the library of its build: another run of this experiment has \
                     built there since\n  next: begin a new run",
                    built.variant,
                    library.path.display()
                );
            }
        }
        let mut found = Judged { edges: Vec::new(), on_baseline: Vec::new() };
        for workload in &self.experiment.judging {
            if workload.engine.operations().is_none() {
                found.edges.extend(self.judge_by_pairs(steps, variants, outcomes, workload)?);
                if self.experiment.compares_baseline {
                    found.on_baseline.extend(self.judge_on_baseline(steps, variants, outcomes, workload)?);
                }
                continue;
            }
            let edges = edges(variants, &outcomes.made);
            if !edges.is_empty() {
                let of_rounds = self.judge_by_rounds(steps, &edges, outcomes, workload)?;
                found.edges.extend(of_rounds.edges);
                found.on_baseline.extend(of_rounds.on_baseline);
            }
        }
        // Grouped by variant. Within a variant, the comparisons keep the order of the workloads.
        let place = |name: &str| variants.iter().position(|variant| variant.name == name);
        found.edges.sort_by_key(|comparison| place(&comparison.b));
        for workload in &self.experiment.judging {
            let all = found.edges.iter_mut().chain(&mut found.on_baseline);
            let mut under: Vec<&mut Comparison> =
                all.filter(|judged| judged.workload.name == workload.name).collect();
            self.count_programs(steps, outcomes.made.values(), workload, &mut under)?;
        }
        let of_one_layout = self.one_layouts(variants, outcomes)?;
        for judged in found.edges.iter_mut().chain(&mut found.on_baseline) {
            let arms = of_one_layout.iter().filter(|one| [&judged.a, &judged.b].contains(&&one.variant));
            judged.one_layout = arms.cloned().collect();
        }
        Ok(found)
    }

    /// Each edge by itself, pair by pair. Hone leaves out a variant that it can't measure, and compares its children with the next
    /// variant on the way to the baseline.
    fn judge_by_pairs(
        &self,
        steps: &mut Steps<'_>,
        variants: &[Variant],
        outcomes: &mut Outcomes,
        workload: &Workload,
    ) -> Result<Vec<Comparison>> {
        let mut comparisons = Vec::new();
        let children: Vec<usize> =
            edges(variants, &outcomes.made).into_iter().map(|edge| edge.child).collect();
        for child in &children {
            let now = edges(variants, &outcomes.made);
            let Some(edge) = now.iter().find(|edge| edge.child == *child) else { continue };
            let name = match children[..] {
                [_] if outcomes.left_out.is_empty() => format!("judge-{}", workload.name),
                _ => format!("judge-{}-{}", outcomes.made[child].variant, workload.name),
            };
            comparisons.extend(self.judge_pair(steps, outcomes, workload, *edge, &name)?);
        }
        Ok(comparisons)
    }

    /// Compares variants that build on another variant with the baseline itself, pair by pair.
    fn judge_on_baseline(
        &self,
        steps: &mut Steps<'_>,
        variants: &[Variant],
        outcomes: &mut Outcomes,
        workload: &Workload,
    ) -> Result<Vec<Comparison>> {
        let is_plain = |index: usize| variants[index].name == BASELINE;
        let of_edges = edges(variants, &outcomes.made);
        let later = of_edges.iter().filter(|edge| !is_plain(edge.parent));
        let children: Vec<usize> = later
            .map(|edge| edge.child)
            .filter(|child| hone_experiment::takes::is_worth_trying(&variants[*child]))
            .collect();
        let Some(parent) = outcomes.made.keys().copied().find(|index| is_plain(*index)) else {
            return Ok(Vec::new());
        };
        let mut comparisons = Vec::new();
        for child in children {
            let Some(built) = outcomes.made.get(&child) else { continue };
            let name = format!("judge-{}-on-{BASELINE}-{}", built.variant, workload.name);
            comparisons.extend(self.judge_pair(steps, outcomes, workload, Edge { parent, child }, &name)?);
        }
        Ok(comparisons)
    }

    /// One comparison under a load. `None` if the child can't be measured: then Hone leaves it out.
    fn judge_pair(
        &self,
        steps: &mut Steps<'_>,
        outcomes: &mut Outcomes,
        workload: &Workload,
        edge: Edge,
        name: &str,
    ) -> Result<Option<Comparison>> {
        let settings = &self.experiment.compare;
        let sides = [edge.parent, edge.child].map(|index| &outcomes.made[&index]);
        let builds = [edge.parent, edge.child].map(|index| self.arms(&outcomes.builds(index)));
        let gave_up = format!("{}{name}.json", crate::outcome::FAILED);
        if let Some(why) = self.folder.read_note::<String>(&gave_up)? {
            outcomes.leave_out(edge.child, why);
            return Ok(None);
        }
        let plan = rule::of_pairs(settings, self.experiment.builds, workload);
        let mut contest = Contest {
            names: sides.map(|built| built.variant.clone()),
            builds,
            fresh_programs: true,
            workloads: [workload.clone(), workload.clone()],
            change: None,
            most_saved: self.most_saved(workload)?,
            sets: Default::default(),
            design: hone_compare::plan(&plan)?,
            pilot: None,
            clock: None,
            storage: self.target().storage.clone(),
            lateness_limit_us: settings.lateness_limit_ms * 1e3,
            topic: hone_load::Topic::Fresh,
            folder: self.folder,
            prefix: format!("{name}/"),
            runner: self.runner,
            machine: hone_host::observe::machine(Path::new("/")),
        };
        let told = || {
            self.is_on_the_same_machine()?;
            self.pairs_in_budget(&mut contest, &plan)?;
            let is_raised = self.experiment.raised.contains(&workload.name);
            let found = unless_raised(is_raised, &sides[0].variant, compare(&contest, self.progress))?;
            Ok(match found {
                Ok(found) => {
                    Told { note: hone_report::verdict::sentence(&found), command: None, result: Some(found) }
                }
                Err(why) => Told { note: why, command: None, result: None },
            })
        };
        match steps.run::<Option<Comparison>>(Phase::Judge, name, told) {
            Ok(comparison) => Ok(comparison),
            Err(error) if error.downcast_ref::<GaveUp>().is_some_and(|gave_up| gave_up.of_b) => {
                let why = format!("{error:#}");
                self.progress.line(&format!("{} is left out: {why}", sides[1].variant));
                self.folder.write_note(&gave_up, &why)?;
                outcomes.leave_out(edge.child, why);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The largest share of this load's CPU that a build can save, if CPU is the primary metric.
    fn most_saved(&self, workload: &Workload) -> Result<Option<f64>> {
        let ceilings: Vec<Ceiling> = super::steps::result_of(self.folder, "ceiling")?.unwrap_or_default();
        let of_load = ceilings.into_iter().find(|ceiling| ceiling.workload == workload.name);
        Ok(of_load.filter(|_| self.experiment.compare.primary.is_cpu()).map(|ceiling| ceiling.user_share))
    }

    /// All variants in turns, round by round; the control is a copy of the baseline.
    fn judge_by_rounds(
        &self,
        steps: &mut Steps<'_>,
        edges: &[Edge],
        outcomes: &Outcomes,
        workload: &Workload,
    ) -> Result<Judged> {
        let name = format!("judge-{}", workload.name);
        let variants = self.runners(edges, outcomes)?;
        let first = variants.first().and_then(|runner| runner.arms.first()).cloned();
        let first = first.context("there is no baseline")?;
        let workload = &self.long_enough(steps, workload, &first)?;
        let settings = &self.rounds_in_budget(steps, [edges.len(), variants.len()], workload, &first)?;
        steps.run(Phase::Judge, &name, || {
            self.is_on_the_same_machine()?;
            let builds = self.experiment.builds;
            let rounds = Rounds {
                plan: rounds::plan(settings, builds, workload, variants.len()),
                variants,
                workload: workload.clone(),
                bench: self.bench(),
                folder: self.folder,
                prefix: format!("{name}/"),
                fresh_programs: true,
                limit_s: settings.budget.map(|budget| budget.0 * edges.len() as f64),
                machine: hone_host::observe::machine(Path::new("/")),
                most_saved: self.most_saved(workload)?,
            };
            let found = judge_rounds(&rounds, self.progress)?;
            let all = found.edges.iter().chain(&found.on_baseline);
            let note = all.map(hone_report::verdict::sentence).collect::<Vec<_>>().join(" ");
            Ok(Told { note, command: None, result: found })
        })
    }

    fn arms(&self, builds: &[&Built]) -> Vec<Arm> {
        let arm = |built: &&Built| self.arm(&built.variant, &built.executable, BTreeMap::new());
        builds.iter().map(arm).collect()
    }

    fn runners(&self, edges: &[Edge], outcomes: &Outcomes) -> Result<Vec<Runner>> {
        let arms = |index: usize| self.arms(&outcomes.builds(index));
        let mut runners = vec![
            Runner { name: BASELINE.to_owned(), parent: None, arms: arms(0) },
            self.twin(&outcomes.builds(0))?,
        ];
        // The places of the tree's variants among the runners.
        let mut places = BTreeMap::from([(0, 0)]);
        for edge in edges {
            places.insert(edge.child, runners.len());
            let parent = places.get(&edge.parent).copied().context("a variant comes before its parent")?;
            let name = outcomes.made[&edge.child].variant.clone();
            runners.push(Runner { name, parent: Some(parent), arms: arms(edge.child) });
        }
        Ok(runners)
    }

    /// A byte copy of each baseline build under another name. A difference between the two is noise.
    fn twin(&self, builds: &[&Built]) -> Result<Runner> {
        let copy = |built: &&Built| {
            let name = format!("{}-twin", built.variant);
            let path =
                self.folder.join("bin").join(&name).join(built.executable.file_name().unwrap_or_default());
            let folder = path.parent().unwrap_or(Path::new("."));
            fs::create_dir_all(folder).and_then(|()| fs::copy(&built.executable, &path)).with_context(
                || format!("{} can't be copied to {}", built.executable.display(), path.display()),
            )?;
            Ok(self.arm(&name, &path, BTreeMap::new()))
        };
        let arms = builds.iter().map(copy).collect::<Result<Vec<Arm>>>()?;
        Ok(Runner { name: format!("{BASELINE}-twin"), arms, parent: None })
    }
}

/// A comparison, or the reason why there is none under a raised rate. A parent (`a`) that sustains a rate alone may fail next to another
/// program. The loads that the file asks for are judged in any case.
///
/// # Errors
/// Returns every other failure.
fn unless_raised(
    is_raised: bool,
    a: &str,
    compared: Result<Comparison>,
) -> Result<Result<Comparison, String>> {
    match compared {
        Ok(comparison) => Ok(Ok(comparison)),
        Err(error) if is_raised && error.downcast_ref::<GaveUp>().is_some_and(|gave_up| !gave_up.of_b) => {
            Ok(Err(format!("not compared, because {a} can't sustain this rate here: {error:#}")))
        }
        Err(error) => Err(error),
    }
}

/// The decision for each variant, from its comparisons and its limits, and the best variant. `workloads` are the judging
/// ones, the deciding one first.
pub(super) fn decide(
    variants: &mut [VariantFacts],
    edges: &[Comparison],
    on_baseline: &[Comparison],
    workloads: &[&str],
) -> Option<String> {
    for variant in variants.iter_mut() {
        (variant.decision, variant.why) = decision_of(variant, edges, workloads);
    }
    let verdicts = Verdicts { edges, on_baseline };
    let mut best: Option<(f64, String)> = None;
    for index in 0..variants.len() {
        let name = variants[index].name.clone();
        if variants[index].decision != KEEP {
            continue;
        }
        match verdicts.beats_the_baseline(variants, &name, workloads) {
            Err(why) => (variants[index].decision, variants[index].why) = (DROP.to_owned(), why),
            Ok(ratio) if best.as_ref().is_none_or(|(least, _)| ratio < *least) => best = Some((ratio, name)),
            Ok(_) => {}
        }
    }
    best.map(|(_, name)| name).or_else(|| best_as_a_whole(variants, &verdicts, workloads))
}

/// Without a step that is shown to be better alone, a variant can be better than the baseline with all steps that it builds on. Keeps the one
/// with the largest gain.
fn best_as_a_whole(
    variants: &mut [VariantFacts],
    verdicts: &Verdicts<'_>,
    workloads: &[&str],
) -> Option<String> {
    let is_open = |variant: &VariantFacts| {
        let own: Vec<&Comparison> =
            verdicts.edges.iter().filter(|comparison| comparison.b == variant.name).collect();
        variant.judged && variant.state == VariantState::Made && drawback(variant, &own).is_none()
    };
    let mut best: Option<(f64, usize)> = None;
    for (index, variant) in variants.iter().enumerate().filter(|(_, variant)| is_open(variant)) {
        if let Ok(ratio) = verdicts.beats_the_baseline(variants, &variant.name, workloads)
            && best.is_none_or(|(least, _)| ratio < least)
        {
            best = Some((ratio, index));
        }
    }
    let kept = &mut variants[best?.1];
    let load = workloads.first().unwrap_or(&"no workload");
    let step = std::mem::take(&mut kept.why);
    kept.decision = KEEP.to_owned();
    kept.why = format!("better than {BASELINE} under {load} with all that it builds on; {step}");
    Some(kept.name.clone())
}

/// Whether the exit code reports a regression. Either nothing is kept (`is_kept`) and a variant is worse, or a variant that the user
/// named (`asked`), and that no other variant builds on, is worse than its parent. An intermediate step that costs a little is no
/// reason, nor is a variant of the usual set next to a kept one.
pub fn is_worse(comparisons: &[Comparison], variants: &[VariantFacts], is_kept: bool, asked: bool) -> bool {
    let is_ground = |name: &str| variants.iter().any(|variant| variant.parent.as_deref() == Some(name));
    let mut worse = comparisons.iter().filter(|comparison| comparison.verdict() == Verdict::Worse);
    worse.any(|comparison| !is_kept || (asked && !is_ground(&comparison.b)))
}

pub(super) const KEEP: &str = "keep";
const DROP: &str = "drop";

fn decision_of(variant: &VariantFacts, comparisons: &[Comparison], workloads: &[&str]) -> (String, String) {
    let none = (String::new(), String::new());
    let drop = |why: String| (DROP.to_owned(), why);
    if !variant.judged {
        return none;
    }
    if let VariantState::LeftOut { why } = &variant.state {
        return drop(format!("left out: {why}"));
    }
    let own: Vec<&Comparison> =
        comparisons.iter().filter(|comparison| comparison.b == variant.name).collect();
    let decides = |comparison: &&&Comparison| Some(&&*comparison.workload.name) == workloads.first();
    let Some(first) = own.iter().find(decides) else { return none };
    if let Some(drawback) = drawback(variant, &own) {
        return drop(drawback);
    }
    // A failure under a load of the file ends the run, so only raised loads can be missing.
    let is_seen = |name: &&&str| own.iter().any(|comparison| comparison.workload.name == **name);
    let unseen: String = workloads
        .iter()
        .filter(|name| !is_seen(name))
        .map(|name| format!("; no result under {name}"))
        .collect();
    match first.verdict() {
        Verdict::Better => {
            (KEEP.to_owned(), format!("better than {} under {}{unseen}", first.a, first.workload.name))
        }
        other => drop(format!("{} compared with {} under {}", other.label(), first.a, first.workload.name)),
    }
}

/// Why a variant is dropped, whatever it gains: a limit that it exceeds, a regression, or a failure. `own` are its comparisons.
pub(super) fn drawback(variant: &VariantFacts, own: &[&Comparison]) -> Option<String> {
    if let Some(broken) = variant.harm.as_ref().and_then(|harm| harm.broken.first()) {
        return Some(broken.clone());
    }
    if let Some(worse) = own.iter().find(|comparison| comparison.verdict() == Verdict::Worse) {
        return Some(format!("worse than {} under {}", worse.a, worse.workload.name));
    }
    if let Some(tail) = own.iter().find(|comparison| tail_is_worse(comparison)) {
        return Some(format!("its p99.9 is worse than that of {} under {}", tail.a, tail.workload.name));
    }
    own.iter().find_map(|comparison| broken_words(comparison, variant))
}

/// Low, middle and high value of the ratio, which is below 1 where B is better.
fn cost(comparison: &Comparison) -> Option<[f64; 3]> {
    let estimate = &comparison.primary()?.estimate;
    let [low, ratio, high] = [estimate.low, estimate.ratio, estimate.high];
    let turned = [1.0 / high, 1.0 / ratio, 1.0 / low];
    Some(if estimate.metric.lower_is_better() { [low, ratio, high] } else { turned })
}

/// How a variant failed under a load that its parent sustained.
fn broken_words(comparison: &Comparison, variant: &VariantFacts) -> Option<String> {
    let (a, load) = (&comparison.a, &comparison.workload.name);
    if let Some(trouble) = broke::down_alone(comparison) {
        return Some(format!("it failed under {load}, which {a} sustained: {trouble}"));
    }
    broke::never_counted(comparison).map(|never| {
        let name = variant.builds.get(never.build as usize).map_or(&variant.name, |build| &build.name);
        format!("{name} failed in every measurement under {load}: {}", never.trouble)
    })
}

/// The mean can fall while the slowest requests get slower.
fn tail_is_worse(comparison: &Comparison) -> bool {
    let is_tail = |judgement: &&hone_record::Judgement| judgement.estimate.metric == Metric::LatencyP999;
    comparison.judgements.iter().find(is_tail).is_some_and(|tail| tail.verdict == Verdict::Worse)
}

/// The verdicts of variants, compared with the baseline.
struct Verdicts<'a> {
    edges: &'a [Comparison],
    on_baseline: &'a [Comparison],
}

impl Verdicts<'_> {
    /// The ratio to the baseline under the first workload, or why the variant may not replace the baseline. The ratio includes
    /// the variants that it builds on, with their losses.
    fn beats_the_baseline(
        &self,
        variants: &[VariantFacts],
        name: &str,
        workloads: &[&str],
    ) -> Result<f64, String> {
        let mut first = None;
        for workload in workloads {
            let way = self.way_down(name, workload);
            let facts = |name: &str| variants.iter().find(|variant| variant.name == name);
            for edge in &way {
                let Some(passed) = facts(&edge.b).filter(|passed| passed.name != name) else { continue };
                let harm = passed.harm.as_ref().and_then(|harm| harm.broken.first().cloned());
                if let Some(broken) = harm.or_else(|| broken_words(edge, passed)) {
                    return Err(format!("it builds on {}: {broken}", passed.name));
                }
            }
            let direct =
                self.on_baseline.iter().find(|found| found.b == name && found.workload.name == *workload);
            if let Some(broken) = direct.zip(facts(name)).and_then(|(direct, own)| broken_words(direct, own))
            {
                return Err(broken);
            }
            let found = self.beside_the_baseline(&way, name, workload)?;
            first = first.or(Some(found));
        }
        match first {
            Some((ratio, true)) => Ok(ratio),
            _ => Err(format!(
                "no proven improvement over {BASELINE} under {}, with the variants that it builds on",
                workloads.first().unwrap_or(&"no workload")
            )),
        }
    }

    /// The comparisons from a variant down to the baseline, its own first.
    fn way_down(&self, name: &str, workload: &str) -> Vec<&Comparison> {
        let (mut at, mut way) = (name, Vec::new());
        while at != BASELINE {
            let is_next = |edge: &&Comparison| edge.b == at && edge.workload.name == workload;
            let Some(edge) = self.edges.iter().find(is_next) else { break };
            way.push(edge);
            at = &edge.a;
        }
        way
    }

    /// The ratio to the baseline under one workload, and whether it is better; worse is an error. Without a direct
    /// measurement against the baseline, Hone multiplies the confidence intervals on the way. The product is wider than that
    /// of a comparison, and never too narrow.
    fn beside_the_baseline(
        &self,
        way: &[&Comparison],
        name: &str,
        workload: &str,
    ) -> Result<(f64, bool), String> {
        let is_direct = |found: &&Comparison| found.b == name && found.workload.name == workload;
        let own = way.first().filter(|edge| edge.a == BASELINE).copied();
        let worse = || format!("worse than {BASELINE} under {workload}, with the variants that it builds on");
        if let Some(direct) = self.on_baseline.iter().find(is_direct).or(own) {
            let verdict = direct.verdict();
            if verdict == Verdict::Worse || tail_is_worse(direct) {
                return Err(worse());
            }
            return Ok((cost(direct).map_or(1.0, |[_, ratio, _]| ratio), verdict == Verdict::Better));
        }
        let is_whole = way.last().is_some_and(|edge| edge.a == BASELINE);
        let (mut ratio, mut high) = (1.0, 1.0);
        for edge in way {
            let [_, middle, most] = cost(edge).unwrap_or([1.0, 1.0, f64::INFINITY]);
            ratio *= middle;
            high *= most;
        }
        let has_loss = way.iter().any(|edge| edge.verdict() == Verdict::Worse);
        if (has_loss && high >= 1.0) || way.iter().any(|edge| tail_is_worse(edge)) {
            return Err(worse());
        }
        Ok((ratio, is_whole && high < 1.0))
    }
}

#[cfg(test)]
mod tests;

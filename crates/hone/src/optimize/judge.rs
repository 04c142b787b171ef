//! The comparisons: every variant against the one that it builds on, under every judging workload.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use hone_binary::Built;
use hone_record::{Comparison, Design, Metric, VariantFacts, VariantState, Verdict, Workload};

use super::Job;
use super::steps::{Phase, Steps, Told};
use super::tree::{BASELINE, Variant};
use crate::drive::{Contest, compare};
use crate::rounds::{Rounds, Runner, judge_rounds};
use crate::show;

/// Two variants, by their places in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) parent: usize,
    pub(super) child: usize,
}

/// Who is held against whom: a variant whose parent was left out is held against that one's parent.
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
    /// All comparisons, those of an edge together, the first judging workload first.
    pub(super) fn judge(
        &self,
        steps: &mut Steps<'_>,
        design: &Design,
        edges: &[Edge],
        made: &BTreeMap<usize, Built>,
    ) -> Result<Vec<Comparison>> {
        let mut by_workload: Vec<Vec<Comparison>> = Vec::new();
        for workload in &self.experiment.judging {
            by_workload.push(match workload.engine.operations() {
                None => self.judge_by_pairs(steps, design, edges, made, workload)?,
                Some(_) => self.judge_by_rounds(steps, edges, made, workload)?,
            });
        }
        let mut columns: Vec<_> = by_workload.into_iter().map(Vec::into_iter).collect();
        Ok(edges
            .iter()
            .flat_map(|_| columns.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>())
            .collect())
    }

    /// Each edge for itself, pair by pair.
    fn judge_by_pairs(
        &self,
        steps: &mut Steps<'_>,
        design: &Design,
        edges: &[Edge],
        made: &BTreeMap<usize, Built>,
        workload: &Workload,
    ) -> Result<Vec<Comparison>> {
        let settings = &self.experiment.compare;
        let mut comparisons = Vec::new();
        for edge in edges {
            let sides = [edge.parent, edge.child].map(|index| &made[&index]);
            let name = match edges {
                [_] => format!("judge-{}", workload.name),
                _ => format!("judge-{}-{}", sides[1].variant, workload.name),
            };
            let contest = Contest {
                names: sides.map(|built| built.variant.clone()),
                builds: sides.map(|built| vec![self.arm(&built.variant, &built.executable, BTreeMap::new())]),
                workloads: [workload.clone(), workload.clone()],
                change: None,
                lever: None,
                design: design.clone(),
                pilot: None,
                clock: None,
                storage: self.target().storage.clone(),
                lateness_limit_us: settings.lateness_limit_ms * 1e3,
                folder: self.folder,
                prefix: format!("{name}/"),
                runner: self.runner,
                machine: hone_host::observe::machine(Path::new("/")),
            };
            let told = || {
                let comparison = compare(&contest, self.progress)?;
                Ok(Told { note: show::comparison::sentence(&comparison), command: None, result: comparison })
            };
            comparisons.push(steps.run(Phase::Judge, &name, told)?);
        }
        Ok(comparisons)
    }

    /// All variants in turns, round by round; the control is a copy of the baseline.
    fn judge_by_rounds(
        &self,
        steps: &mut Steps<'_>,
        edges: &[Edge],
        made: &BTreeMap<usize, Built>,
        workload: &Workload,
    ) -> Result<Vec<Comparison>> {
        let name = format!("judge-{}", workload.name);
        steps.run(Phase::Judge, &name, || {
            let settings = &self.experiment.compare;
            let rounds = Rounds {
                variants: self.runners(edges, made)?,
                workload: workload.clone(),
                rounds: settings.rounds,
                block_rounds: settings.block_rounds,
                primary: settings.primary,
                guards: settings.guards.clone(),
                alpha: settings.alpha,
                equivalence: settings.equivalence,
                seed: settings.seed,
                keep_disturbed: false,
                bench: self.bench(),
                folder: self.folder,
                prefix: format!("{name}/"),
                machine: hone_host::observe::machine(Path::new("/")),
            };
            let comparisons = judge_rounds(&rounds, self.progress)?;
            let note = comparisons.iter().map(show::comparison::sentence).collect::<Vec<_>>().join(" ");
            Ok(Told { note, command: None, result: comparisons })
        })
    }

    fn runners(&self, edges: &[Edge], made: &BTreeMap<usize, Built>) -> Result<Vec<Runner>> {
        let arm = |built: &Built| self.arm(&built.variant, &built.executable, BTreeMap::new());
        let baseline = &made[&0];
        let mut runners = vec![
            Runner { name: BASELINE.to_owned(), parent: None, arm: arm(baseline) },
            self.twin(baseline)?,
        ];
        // The places of the tree's variants among the runners.
        let mut places = BTreeMap::from([(0, 0)]);
        for edge in edges {
            places.insert(edge.child, runners.len());
            let parent = places.get(&edge.parent).copied().context("a variant stands behind its parent")?;
            let built = &made[&edge.child];
            runners.push(Runner { name: built.variant.clone(), parent: Some(parent), arm: arm(built) });
        }
        Ok(runners)
    }

    /// A byte copy of the baseline under another name: what differs between the two is noise.
    fn twin(&self, baseline: &Built) -> Result<Runner> {
        let name = format!("{BASELINE}-twin");
        let path =
            self.folder.join("bin").join(&name).join(baseline.executable.file_name().unwrap_or_default());
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).and_then(|()| fs::copy(&baseline.executable, &path)).with_context(
            || format!("{} can't be copied to {}", baseline.executable.display(), path.display()),
        )?;
        Ok(Runner { arm: self.arm(&name, &path, BTreeMap::new()), name, parent: None })
    }
}

/// What follows for each variant from its comparisons and its guard rails, and which one is best.
pub(super) fn decide(variants: &mut [VariantFacts], comparisons: &[Comparison]) -> Option<String> {
    for variant in variants.iter_mut() {
        (variant.decision, variant.why) = decision_of(variant, comparisons);
    }
    let first = comparisons.first().map(|comparison| comparison.workload.name.clone())?;
    let best = variants
        .iter()
        .filter(|variant| variant.decision == KEEP)
        .filter_map(|variant| Some((way_down(variants, &variant.name, comparisons, &first)?, &variant.name)))
        .min_by(|left, right| left.0.total_cmp(&right.0));
    best.map(|(_, name)| name.clone())
}

const KEEP: &str = "keep";
const DROP: &str = "drop";

fn decision_of(variant: &VariantFacts, comparisons: &[Comparison]) -> (String, String) {
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
    let Some(first) = own.first() else { return none };
    if let Some(broken) = variant.harm.as_ref().and_then(|harm| harm.broken.first()) {
        return drop(broken.clone());
    }
    if let Some(worse) = own.iter().find(|comparison| comparison.verdict() == Verdict::Worse) {
        return drop(format!("worse than {} under {}", worse.a, worse.workload.name));
    }
    // The mean can fall while the slowest requests get slower.
    let tail = own.iter().find(|comparison| {
        let of_tail = |judgement: &&hone_record::Judgement| judgement.estimate.metric == Metric::LatencyP999;
        comparison.judgements.iter().find(of_tail).is_some_and(|tail| tail.verdict == Verdict::Worse)
    });
    if let Some(tail) = tail {
        return drop(format!("its p99.9 is worse than that of {} under {}", tail.a, tail.workload.name));
    }
    match first.verdict() {
        Verdict::Better => {
            (KEEP.to_owned(), format!("better than {} under {}", first.a, first.workload.name))
        }
        other => drop(format!("{} beside {} under {}", other.label(), first.a, first.workload.name)),
    }
}

/// The product of the ratios from a variant down to the baseline; `None` when one on the way is worse or unknown.
fn way_down(
    variants: &[VariantFacts],
    name: &str,
    comparisons: &[Comparison],
    workload: &str,
) -> Option<f64> {
    let (mut at, mut product) = (name, 1.0);
    while at != BASELINE {
        let edge = comparisons
            .iter()
            .find(|comparison| comparison.b == at && comparison.workload.name == workload)?;
        let harm = variants.iter().find(|variant| variant.name == at)?.harm.as_ref();
        let is_harmful = harm.is_some_and(|harm| !harm.broken.is_empty());
        if edge.verdict() == Verdict::Worse || is_harmful {
            return None;
        }
        product *= edge.primary()?.estimate.ratio;
        at = &edge.a;
    }
    Some(product)
}

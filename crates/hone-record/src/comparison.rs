//! Two variants, pair by pair, and what may be said of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::metric::Metric;
use crate::resources::Throttling;
use crate::workload::Workload;

/// How the two windows of a pair are laid in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Both at the same time: neighbours hit both alike, but the arms share the machine, so latency differences shrink.
    Duet,
    /// One after the other in random order: true magnitudes, more noise.
    Solo,
}

/// What a pair compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PairKind {
    /// A against A: the control, which must stay silent.
    Control,
    /// A against B.
    Test,
}

/// The rule by which the verdict is found. Written to disk before the first window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// The one metric that was named before the run.
    pub primary: Metric,
    /// Metrics that are told beside it; their intervals are widened for their number.
    pub secondary: Vec<Metric>,
    /// The secondary metrics that must not get worse: one that does makes the whole result worse.
    pub guards: Vec<Metric>,
    /// Whether nobody named the guards: they are Hone's own choice, and withhold no verdict where they can't be told.
    #[serde(default)]
    pub default_guards: bool,
    /// Two-sided error of the primary interval (0.05 means a 95 % interval).
    pub alpha: f64,
    /// A ratio inside 1/(1+d) to 1+d is as good as equal.
    pub equivalence: f64,
    /// Resamples of the bootstrap.
    pub resamples: u32,
    /// Seed of order and bootstrap.
    pub seed: u64,
    /// The rule in words, as it is shown.
    pub words: String,
}

/// The plan of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Design {
    /// Duet or solo.
    pub mode: Mode,
    /// Whether the arms of a duet, each with its generator, are bound to two halves of the cores, and change places
    /// all the time. Only where Hone starts both arms, and there are two cores or more.
    pub places: bool,
    /// A/B pairs.
    pub pairs: u32,
    /// A/A pairs of the control.
    pub control_pairs: u32,
    /// The order of all pairs, those of the reserve last; `true` in `swapped` means that the second arm is started or sent to first.
    pub order: Vec<PairKind>,
    /// See `order`; same length.
    pub swapped: Vec<bool>,
    /// How the verdict is found.
    pub rule: Rule,
    /// Block of each pair: which build of each arm it measures, block modulo the arm's number of builds; or which start of the
    /// processes (`starts`). With both, it is the build of a test pair and the start of a control pair. Empty when each arm is one
    /// build and every pair has processes of its own.
    #[serde(default)]
    pub blocks: Vec<u32>,
    /// Builds of A and of B.
    #[serde(default = "one_build_each")]
    pub builds: [u32; 2],
    /// Metrics that windows of this length can't tell, with the reason; known before the first one, and not counted in
    /// the correction for many metrics.
    #[serde(default)]
    pub refused: BTreeMap<Metric, String>,
    /// When neighbours make a pair not count; `None` when nothing is dropped for them.
    #[serde(default)]
    pub disturbance: Option<Disturbance>,
    /// The time that the run may take; `None` when only the number of pairs was asked for.
    #[serde(default)]
    pub budget: Option<Budget>,
    /// Whether control pairs hold A against A and B against B in turn: where the arms are two targets that go on living between
    /// their windows, both are measured, and warmed, alike.
    #[serde(default)]
    pub both_controls: bool,
    /// Blocks for each of which the processes of all arms were started once: pairs of a block share them, and with them the luck of
    /// their layout, in control pairs too. 0 where every pair has processes of its own.
    #[serde(default)]
    pub starts: u32,
    /// Pairs at the end of `order` that are measured only in place of excluded pairs of their kind, or for `effect`. 0 in older designs.
    #[serde(default)]
    pub reserve: u32,
    /// What the pairs have to be able to show; `None` where their number is fixed, and in older designs.
    #[serde(default)]
    pub effect: Option<Effect>,
}

/// The effect for which more pairs than planned are measured where the A/A pairs scatter too much.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// As a ratio above 1.
    pub ratio: f64,
    /// The most A/B and A/A pairs that come on top of the planned ones, out of the reserve.
    pub more: [u32; 2],
    /// The most A/A pairs that are measured behind all others where these themselves differ from 1.
    #[serde(default)]
    pub again: u32,
}

fn one_build_each() -> [u32; 2] {
    [1, 1]
}

impl Design {
    /// Whether the A/B pairs carry the luck of several builds: their intervals then rest on builds, and not on starts.
    pub fn has_several_builds(&self) -> bool {
        self.builds != [1, 1]
    }

    /// Pairs that are measured in any case: all of the order but the reserve.
    pub fn planned(&self) -> usize {
        self.order.len().saturating_sub(self.reserve as usize)
    }

    /// The block of a pair; 0 where there are none.
    pub fn block(&self, index: usize) -> u32 {
        self.blocks.get(index).copied().unwrap_or(0)
    }

    /// The arms that stand in a pair: 0 for A, 1 for B.
    pub fn arms(&self, index: usize) -> [usize; 2] {
        match self.order.get(index) {
            Some(PairKind::Control) => [control_arm(&self.order, index, self.both_controls); 2],
            _ => [0, 1],
        }
    }

    /// `A/B`, `A/A` or `B/B`.
    pub fn pair_label(&self, index: usize) -> &'static str {
        match self.arms(index) {
            [0, 0] => "A/A",
            [1, 1] => "B/B",
            _ => "A/B",
        }
    }

    /// What control pairs of two living targets do not see; `None` where each window has a target of its own.
    pub fn control_limits(&self) -> Option<&'static str> {
        self.both_controls.then_some(
            "The control pairs hold A against A and B against B, in turn. They see what the session and the order do. They do not \
             see what lies between the two targets beside their software: another disk, an older log, a larger heap, another \
             machine. Whatever of that differs is part of the answer; to take it out, start both as commands, or swap their \
             places and repeat.",
        )
    }
}

/// The arm of a control pair: 0 for A, 1 for B.
pub fn control_arm(order: &[PairKind], index: usize, both: bool) -> usize {
    let before = order.iter().take(index).filter(|kind| **kind == PairKind::Control).count();
    if both { before % 2 } else { 0 }
}

/// When neighbours make a pair not count. Looks at nothing that the arms themselves do: no latency, no CPU of theirs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// Largest difference of the stolen share of all cores between the two windows of a pair.
    pub steal_difference: f64,
    /// Largest stolen share in any one of them.
    pub steal_most: f64,
    /// Largest difference of the share of all cores that everybody else used.
    pub others_difference: f64,
    /// Largest memory pressure (share of the window in which some task waited for memory) in any one of them.
    pub memory_pressure_most: f64,
    /// The rule in words, with its reasons.
    pub words: String,
    /// So late, in milliseconds, may an arm begin after its agreed start; `None` where none is agreed, and in older designs.
    #[serde(default)]
    pub start_slip_most_ms: Option<f64>,
}

/// A limit on the time of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// All that the run may take, starts and warm-ups included, in seconds.
    pub total_s: f64,
    /// The pairs of the pilot: the first ones of the order. They count as control pairs.
    pub pilot_pairs: u32,
    /// What one pair was expected to take, from the pilot, in seconds.
    pub pair_s: f64,
    /// The rule in words.
    pub words: String,
}

/// What the A/A pairs at the beginning of a run say about what the rest of it can show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pilot {
    /// A/A pairs of the pilot that count.
    pub pairs: u32,
    /// How long the pilot took, in seconds.
    pub took_s: f64,
    /// A/B pairs that are planned.
    pub planned_pairs: u32,
    /// A/A pairs that are planned, those of the pilot included.
    pub planned_control_pairs: u32,
    /// What the rest is expected to take, in seconds.
    pub rest_s: f64,
    /// The effect that was asked for, as a ratio above 1.
    pub effect_ratio: Option<f64>,
    /// Probability at which an effect counts as detectable.
    pub power: f64,
    /// One for each metric of the rule, the primary first.
    pub metrics: Vec<Promise>,
    /// Metrics of which nothing can be promised, with the reason.
    pub not_planned: BTreeMap<Metric, String>,
    /// Why nothing is promised of any metric; `None` when something is.
    #[serde(default)]
    pub no_promise: Option<String>,
}

/// What the planned pairs can show of one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Promise {
    /// What is compared.
    pub metric: Metric,
    /// Spread of the log ratio in the pilot.
    pub log_ratio_sd: f64,
    /// Smallest effect that will be found with the pilot's power, as a ratio above 1; `None` above a factor of 1000.
    pub detectable_ratio: Option<f64>,
    /// Pairs that the effect asked for needs; `None` when none was asked for, or 10,000 would not do.
    pub pairs_needed: Option<u32>,
    /// Probability that the effect asked for will be found with the planned pairs.
    pub power_for_effect: Option<f64>,
    /// The same, should one pair in ten scatter five times as far as the others, which a short pilot may not have met.
    #[serde(default)]
    pub power_with_tail: Option<f64>,
}

/// The one thing in which B differs from A, where both are the same target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// `client`, `load`, `topic`, `broker`, `host`, `env` or `arg`.
    pub kind: String,
    /// Which setting.
    pub name: String,
    /// Its value in A; `None` when A is left as it is.
    pub from: Option<String>,
    /// Its value in B.
    pub to: String,
    /// What was in force in A, where A was left as it is and the value could be read.
    #[serde(default)]
    pub was: Option<String>,
}

impl Change {
    /// The change for people: `topic.flush.messages: as it is -> 1`.
    pub fn label(&self) -> String {
        let from = self.from.as_deref().or(self.was.as_deref()).unwrap_or("as it is");
        format!("{}.{}: {from} -> {}", self.kind, self.name, self.to)
    }
}

/// One pair as measured. A pair with a window that can't be used is kept with its reason and left out of the estimate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairOutcome {
    /// Number in the design's order.
    pub index: u32,
    /// Control or test.
    pub kind: PairKind,
    /// Window file of the first arm (A; B where a control holds B against itself), relative to the comparison's file.
    pub window_a: String,
    /// Window file of the second arm (B, or the first one's twin in a control).
    pub window_b: String,
    /// Value of each metric in the first arm.
    pub values_a: BTreeMap<Metric, f64>,
    /// Value of each metric in the second arm.
    pub values_b: BTreeMap<Metric, f64>,
    /// Why the pair does not count, if it does not.
    pub dropped: Option<String>,
    /// Its block, see [`Design::blocks`].
    #[serde(default)]
    pub block: u32,
    /// How long it took, starts and warm-ups included, in seconds.
    #[serde(default)]
    pub took_s: f64,
    /// What the first and the second arm did by themselves, in words: saturated, failed, lost a connection. Empty where
    /// nothing happened. Neighbours and a late generator are no trouble of an arm.
    #[serde(default)]
    pub troubles: [Vec<String>; 2],
    /// Whether the load's generator was late for the first and for the second arm.
    #[serde(default)]
    pub late: [bool; 2],
    /// Whether the first and the second arm got ready, or were not asked to.
    #[serde(default = "both_started")]
    pub started: [bool; 2],
    /// Share of the requests of the first and of the second arm that failed, 0 to 1.
    #[serde(default)]
    pub failed_share: [f64; 2],
    /// Whether the capacity of the first and of the second arm is a lower bound: the promise held at every rate of the climb.
    #[serde(default)]
    pub at_least: [bool; 2],
    /// What a CPU limit took from the first and from the second arm; `None` without one, and in older records.
    #[serde(default, skip_serializing_if = "no_limit")]
    pub throttling: [Option<Throttling>; 2],
}

fn no_limit(throttling: &[Option<Throttling>; 2]) -> bool {
    throttling.iter().all(Option::is_none)
}

/// An A/B pair without a window.
impl Default for PairOutcome {
    fn default() -> Self {
        Self {
            index: 0,
            kind: PairKind::Test,
            window_a: String::new(),
            window_b: String::new(),
            values_a: BTreeMap::new(),
            values_b: BTreeMap::new(),
            dropped: None,
            block: 0,
            took_s: 0.0,
            troubles: Default::default(),
            late: [false; 2],
            started: both_started(),
            failed_share: [0.0; 2],
            at_least: [false; 2],
            throttling: [None; 2],
        }
    }
}

fn both_started() -> [bool; 2] {
    [true, true]
}

impl PairOutcome {
    /// Its number for people, who count from 1.
    pub fn number(&self) -> u32 {
        self.index.saturating_add(1)
    }
}

/// A ratio with its interval over pairs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// What was compared.
    pub metric: Metric,
    /// Pairs that count.
    pub pairs: u32,
    /// Geometric mean of A's values.
    pub value_a: f64,
    /// Geometric mean of B's values.
    pub value_b: f64,
    /// Geometric mean of B/A.
    pub ratio: f64,
    /// Lower end of the interval of the ratio.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Confidence of that interval, after the correction for the number of metrics (0.95 = 95 %).
    pub confidence: f64,
    /// Standard deviation of the log ratio.
    pub log_ratio_sd: f64,
    /// Smallest effect these pairs would have shown with 80 % power, as a ratio above 1 (1.08 = 8 %).
    pub detectable_ratio: f64,
    /// What the blocks contribute (builds, or starts of the processes); `None` where there are none.
    #[serde(default)]
    pub builds: Option<BuildSpread>,
}

impl Estimate {
    /// The ratio, turned where more is better: below 1 B costs less, or does more at the same cost.
    pub fn cost_ratio(&self) -> f64 {
        if self.metric.lower_is_better() { self.ratio } else { 1.0 / self.ratio }
    }
}

/// Spread between blocks (builds, or starts of the processes) and within them. The interval rests on the blocks, not on the pairs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BuildSpread {
    /// Blocks: a build of A and a build of B, or one start of both.
    pub blocks: u32,
    /// Standard deviation of the log ratio between blocks, without what the spread within them explains.
    pub between_log_sd: f64,
    /// Standard deviation of the log ratio of pairs within a block.
    pub within_log_sd: f64,
}

/// The four verdicts, about B against A.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// B is better.
    Better,
    /// B is worse.
    Worse,
    /// B is as good as A, within the rule's margin.
    Equivalent,
    /// These pairs do not show it.
    NotShown,
}

impl Verdict {
    /// The verdict for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Equivalent => "equivalent",
            Self::NotShown => "not shown",
        }
    }
}

/// An estimate with its verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// A/B.
    pub estimate: Estimate,
    /// A/A of the same session; `None` when no control pair counts.
    pub control: Option<Estimate>,
    /// What may be said.
    pub verdict: Verdict,
    /// Why, in words.
    pub why: String,
    /// Whether this is the metric named before the run.
    pub primary: bool,
}

/// Two variants under one workload, judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Name of A, for example `baseline`.
    pub a: String,
    /// Name of B, for example `pgo`.
    pub b: String,
    /// The load that judged.
    pub workload: Workload,
    /// Plan and rule.
    pub design: Design,
    /// All pairs in the order they were measured.
    pub pairs: Vec<PairOutcome>,
    /// One for each metric that could be estimated, the primary first.
    pub judgements: Vec<Judgement>,
    /// Metrics that could not be estimated, with the reason.
    pub not_estimated: BTreeMap<Metric, String>,
    /// Where it ran.
    pub machine: Machine,
    /// The one thing in which B differs, where both arms are the same target; `None` when two targets were named.
    #[serde(default)]
    pub change: Option<Change>,
    /// B's load, where it is the load that differs.
    #[serde(default)]
    pub workload_b: Option<Workload>,
    /// What was promised before the first A/B window.
    #[serde(default)]
    pub pilot: Option<Pilot>,
    /// Planned pairs of the design that the budget's clock left out. Pairs of the reserve are none of them.
    #[serde(default)]
    pub unmeasured_pairs: u32,
    /// Arms of several builds that are one layout all the same.
    #[serde(default)]
    pub one_layout: Vec<OneLayout>,
    /// Settings that bear a promise and that the targets have otherwise, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlike_promises: Vec<String>,
    /// Whose CPU was measured of A and of B, see [`crate::Environment::measured`]. Empty in older records.
    #[serde(default)]
    pub measured: [Vec<String>; 2],
    /// Whom these processes of A and of B passed work on to without its CPU being measured, see [`crate::Environment::behind`].
    #[serde(default)]
    pub behind: [Vec<String>; 2],
}

/// An arm whose builds are not known to have their hot code at other places: the luck of its layout is in no interval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OneLayout {
    /// The arm's name.
    pub variant: String,
    /// By what that is known, in words.
    pub why: String,
}

/// That one arm alone had trouble more often than the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaningTroubles {
    /// Whether it is B.
    pub is_b: bool,
    /// Whether that is shown at the level of the comparison's rule, and no mere doubt.
    pub is_clear: bool,
    /// In words, with what follows.
    pub why: String,
}

/// From this probability of chance on (one-sided) troubles do not lean to an arm: two to none do, one to none does not.
const LEANING: f64 = 0.25;
/// Share of the A/B pairs below which troubles that may be chance do not lean to an arm: so few pairs that are left out hardly flatter it.
const LEANING_SHARE: f64 = 0.1;

/// A larger share of failed requests than before that counts: less is what one lost connection makes.
pub const MORE_FAILURES: f64 = 0.001;

/// Probability that a fair coin shows heads at least `heads` times in `tosses`.
fn at_least(heads: u32, tosses: u32) -> f64 {
    // By logarithms: 0.5 to the power of 1,075 is 0 as a number.
    let mut ln_term = -f64::from(tosses) * std::f64::consts::LN_2;
    let mut below = 0.0;
    for count in 0..heads {
        below += ln_term.exp();
        ln_term += (f64::from(tosses - count) / f64::from(count + 1)).ln();
    }
    1.0 - below
}

impl Comparison {
    /// What the intervals over builds do not know, if anything.
    pub fn one_layout_words(&self) -> Option<String> {
        let arm = |one: &OneLayout| {
            format!(
                "{} counts as one layout however many builds it has: {}. The luck of that layout is not in the interval.",
                one.variant, one.why
            )
        };
        let arms: Vec<String> = self.one_layout.iter().map(arm).collect();
        (!arms.is_empty()).then(|| arms.join(" "))
    }

    /// The judgement of the metric named before the run; `None` when it could not be estimated.
    pub fn primary(&self) -> Option<&Judgement> {
        self.judgements.iter().find(|judgement| judgement.primary)
    }

    /// A metric's name for people, in the words of this load.
    pub fn label(&self, metric: Metric) -> &'static str {
        match self.workload.engine.operations() {
            Some(_) => metric.label_in_operations(),
            None => metric.label(),
        }
    }

    /// Whether a metric is by definition another one's figure again: an operation is a record and a request at once.
    pub fn is_same_again(&self, metric: Metric) -> bool {
        let primary = self.design.rule.primary;
        let twice =
            if primary == Metric::CpuPerRequest { Metric::CpuPerRecord } else { Metric::CpuPerRequest };
        self.workload.engine.operations().is_some() && metric == twice
    }

    /// The guard rails that were broken: metrics named as guards that came out worse.
    pub fn broken_guards(&self) -> impl Iterator<Item = &Judgement> {
        self.judgements.iter().filter(|judgement| {
            judgement.verdict == Verdict::Worse
                && self.design.rule.guards.contains(&judgement.estimate.metric)
        })
    }

    /// The metrics beside the primary one that came out worse, guard metrics first. Of the figures of one CPU time the first is named, and
    /// none beside a primary metric that is one of them and worse, too.
    pub fn regressions(&self) -> Vec<&Judgement> {
        let is_guard = |found: &&Judgement| self.design.rule.guards.contains(&found.estimate.metric);
        let worse = || self.judgements.iter().filter(|found| found.verdict == Verdict::Worse);
        let others = || worse().filter(|found| !found.primary);
        let is_cost = |found: &Judgement| {
            found.estimate.metric.is_cpu() || found.estimate.metric == Metric::BusyPerRecord
        };
        let mut has_cpu = worse().any(|found| found.primary && is_cost(found));
        let ordered = others().filter(is_guard).chain(others().filter(|found| !is_guard(found)));
        ordered.filter(|found| !is_cost(found) || !std::mem::replace(&mut has_cpu, true)).collect()
    }

    /// Whether anything was shown to be worse: the verdict on the whole, or any metric. A gain of the primary metric does not outweigh it.
    pub fn has_regression(&self) -> bool {
        self.verdict() == Verdict::Worse
            || self.judgements.iter().any(|found| found.verdict == Verdict::Worse)
    }

    /// What CPU limits took from an arm in the A/B pairs, excluded ones too: a limit can be why they are. `None` without a limit.
    pub fn throttling(&self, side: usize) -> Option<Throttling> {
        let tests = self.pairs.iter().filter(|pair| pair.kind == PairKind::Test);
        tests.filter_map(|pair| *pair.throttling.get(side)?).reduce(Throttling::and)
    }

    /// That a CPU limit stopped an arm, for people; `None` where none was stopped. Its latencies are the limit's then.
    fn throttled_words(&self) -> Option<String> {
        let [a, b] = [0, 1].map(|side| self.throttling(side));
        if ![a, b].into_iter().flatten().any(Throttling::is_felt) {
            return None;
        }
        let arm = |name: &str, found: Option<Throttling>| match found {
            Some(found) if found.is_felt() => found.stopped_words(name),
            Some(_) => format!("no limit stopped {name}"),
            None => format!("{name} has no limit"),
        };
        Some(format!("Throttled: {}; {}. Latencies contain these waits.", arm("A", a), arm("B", b)))
    }

    /// What measured processes passed on, for people; `None` where they kept it all, or nobody knows.
    fn uncounted_words(&self) -> Option<String> {
        let [a, b] = self.behind.each_ref().map(|servers| servers.join(", "));
        let told = [("A", a), ("B", b)].into_iter().filter(|(_, servers)| !servers.is_empty());
        let told: Vec<String> =
            told.map(|(arm, servers)| format!("{arm} passes work on to {servers}")).collect();
        (!told.is_empty()).then(|| {
            format!(
                "Not counted: {}; the CPU and memory there are in no figure of this comparison.",
                told.join("; ")
            )
        })
    }

    /// What has to be known of the figures besides the verdict, as sentences.
    pub fn reservations(&self) -> Vec<String> {
        self.throttled_words().into_iter().chain(self.uncounted_words()).collect()
    }

    /// Whether B is worse since it alone does not sustain the load, and A does. What metrics say of the rest is then no news.
    pub fn b_does_not_sustain(&self) -> bool {
        let alone = self.pairs.iter().filter(|pair| {
            pair.kind == PairKind::Test && pair.troubles[0].is_empty() && !pair.troubles[1].is_empty()
        });
        // A lost connection or a moved leader leaves a window that counts.
        let (excluded, counted): (Vec<_>, Vec<_>) = alone.partition(|pair| pair.dropped.is_some());
        let is_clear = self.leaning_troubles().is_some_and(|leaning| leaning.is_b && leaning.is_clear);
        is_clear && excluded.len() > counted.len()
    }

    /// What happened to B in the last A/B pair in which it alone had trouble.
    pub fn last_trouble_of_b(&self) -> Option<&str> {
        let tests = self.pairs.iter().rev().filter(|pair| pair.kind == PairKind::Test);
        let mut alone = tests.filter(|pair| pair.troubles[0].is_empty());
        alone.find_map(|pair| pair.troubles[1].first().map(String::as_str))
    }

    /// The guard rails that could not be looked at: metrics named as guards without an estimate, or without a control that can
    /// be read and is silent, where one was planned.
    pub fn unseen_guards(&self) -> impl Iterator<Item = Metric> {
        let of = |guard: Metric| self.judgements.iter().find(move |found| found.estimate.metric == guard);
        let rule = &self.design.rule;
        let guards = rule.guards.iter().copied().filter(|_| !rule.default_guards);
        guards.filter(move |guard| {
            self.not_estimated.contains_key(guard)
                || of(*guard).is_some_and(|found| self.lacks_control(found))
        })
    }

    /// The guard rails that were looked at and neither broke nor held: what they may have lost is told with the verdict.
    pub fn undecided_guards(&self) -> impl Iterator<Item = &Judgement> {
        self.judgements.iter().filter(|judgement| {
            judgement.verdict == Verdict::NotShown
                && !self.design.rule.default_guards
                && self.design.rule.guards.contains(&judgement.estimate.metric)
                && !self.lacks_control(judgement)
        })
    }

    /// Whether a control was planned and can't be read, or differs itself: what the test shows then is told of nothing.
    pub fn lacks_control(&self, judgement: &Judgement) -> bool {
        let margin = 1.0 + self.design.rule.equivalence;
        match &judgement.control {
            None => self.design.control_pairs > 0,
            Some(control) => {
                let excludes_one = control.low > 1.0 || control.high < 1.0;
                excludes_one && control.ratio.max(1.0 / control.ratio) > margin
            }
        }
    }

    /// A/B pairs in which A alone had trouble, and those in which B alone had.
    pub fn lone_troubles(&self) -> [u32; 2] {
        let mut counts = [0, 0];
        for pair in self.pairs.iter().filter(|pair| pair.kind == PairKind::Test) {
            let [a, b] = [0, 1].map(|side: usize| !pair.troubles[side].is_empty());
            counts[0] += u32::from(a && !b);
            counts[1] += u32::from(b && !a);
        }
        counts
    }

    /// What is known of the slowest requests, and at which throughput: a target that does more in the same time is easily praised for
    /// it while the wait at its tail grows.
    pub fn tail_words(&self) -> String {
        let of = |metric: Metric| self.judgements.iter().find(move |found| found.estimate.metric == metric);
        let figures = |found: &Judgement| {
            let estimate = &found.estimate;
            format!("{:.3} [{:.3}, {:.3}]", estimate.ratio, estimate.low, estimate.high)
        };
        let reason = || match self.not_estimated.get(&Metric::LatencyP999) {
            Some(reason) => reason.trim_end_matches('.').to_owned(),
            None => "it was not measured".to_owned(),
        };
        if self.workload.engine.operations().is_some() {
            let throughput = match of(Metric::Throughput) {
                Some(found) => format!("throughput {}, {}", figures(found), found.verdict.label()),
                None => "throughput not estimated".to_owned(),
            };
            return format!(
                "{throughput}; p99.9 not seen: {}; a load at a fixed rate would show it",
                reason()
            );
        }
        if let Some(climb) = self.workload.climb() {
            return format!(
                "loaded up to where {} breaks; what lies beyond that quantile was not looked at",
                climb.slo.label()
            );
        }
        let at = format!("p99.9 at {} requests/s", self.workload.requests_per_s);
        match of(Metric::LatencyP999) {
            None => format!("{at} not seen: {}", reason()),
            Some(found) => match found.verdict {
                Verdict::Worse => format!("{at} is worse: {}", figures(found)),
                Verdict::Better => format!("{at} is better: {}", figures(found)),
                Verdict::Equivalent => format!("{at} holds: {}", figures(found)),
                Verdict::NotShown => format!("{at} is not decided: {}", figures(found)),
            },
        }
    }

    /// The arm that alone had trouble more often than the other, if that is hardly chance; whatever the metrics say.
    ///
    /// Pairs with a window that failed do not count, so what is left flatters the arm that failed. The rule is an exact sign
    /// test over the A/B pairs in which one arm alone had trouble; below a tenth of all A/B pairs only a clear one counts.
    pub fn leaning_troubles(&self) -> Option<LeaningTroubles> {
        let [a, b] = self.lone_troubles();
        let (more, fewer, name) = if b > a { (b, a, &self.b) } else { (a, b, &self.a) };
        let chance = at_least(more, a + b);
        let is_clear = chance <= self.design.rule.alpha / 2.0;
        let tests = self.pairs.iter().filter(|pair| pair.kind == PairKind::Test).count();
        let are_few = f64::from(more) < LEANING_SHARE * tests as f64;
        if more == fewer || chance > LEANING || (are_few && !is_clear) {
            return None;
        }
        let what = match (is_clear, b > a) {
            (true, true) => "by the sign test that is clearly more often, so B is worse",
            (_, true) => "the pairs that are left flatter it, so no gain is shown",
            (_, false) => "the pairs that are left flatter it, so no loss is shown",
        };
        let why =
            format!("{name} alone had trouble in {more} A/B pairs, the other arm alone in {fewer}: {what}");
        Some(LeaningTroubles { is_b: b > a, is_clear, why })
    }

    /// Whether only a lower bound is known of the capacity of A, and of B, in an A/B pair that counts.
    pub fn at_least(&self) -> [bool; 2] {
        let counts = |pair: &&PairOutcome| pair.kind == PairKind::Test && pair.dropped.is_none();
        [0, 1].map(|side: usize| self.pairs.iter().filter(counts).any(|pair| pair.at_least[side]))
    }

    /// That B fails more requests than A, below the share at which a window is excluded: in words, with the mean shares. `None` where it is
    /// not shown. An exact sign test over the A/B pairs that count, in which the shares differ by more than [`MORE_FAILURES`].
    pub fn more_failures(&self) -> Option<String> {
        let counts = |pair: &&PairOutcome| pair.kind == PairKind::Test && pair.dropped.is_none();
        let shares: Vec<[f64; 2]> = self.pairs.iter().filter(counts).map(|pair| pair.failed_share).collect();
        let above = |less: usize, more: usize| {
            shares.iter().filter(|share| share[more] > share[less] + MORE_FAILURES).count() as u32
        };
        let (a, b) = (above(1, 0), above(0, 1));
        if b == 0 || at_least(b, a + b) > self.design.rule.alpha / 2.0 {
            return None;
        }
        let mean =
            |side: usize| 100.0 * shares.iter().map(|share| share[side]).sum::<f64>() / shares.len() as f64;
        Some(format!(
            "error rate is worse: {:.3} % of the requests fail in {}, {:.3} % in {}",
            mean(1),
            self.b,
            mean(0),
            self.a
        ))
    }

    /// What troubles that lean to one arm make of a verdict, and why; `None` where they change nothing.
    fn leaning(&self, verdict: Verdict) -> Option<(Verdict, String)> {
        let LeaningTroubles { is_b, is_clear, why } = self.leaning_troubles()?;
        if is_b && is_clear {
            return (verdict != Verdict::Worse).then_some((Verdict::Worse, why));
        }
        let flattered = if is_b { Verdict::Better } else { Verdict::Worse };
        (verdict == flattered || verdict == Verdict::Equivalent).then_some((Verdict::NotShown, why))
    }

    /// Why the whole verdict is not the one that the metrics gave, where an arm's troubles are the reason.
    pub fn why_troubles_decide(&self) -> Option<String> {
        self.leaning(self.verdict_of_metrics()).map(|(_, why)| why)
    }

    /// The verdict on the whole: worse when the primary metric or a guard rail is worse, otherwise the primary's;
    /// not shown when the primary could not be estimated, or when it is better and a guard rail could not be looked at.
    /// An arm that alone had trouble more often than the other can turn it into worse or not shown.
    pub fn verdict(&self) -> Verdict {
        let verdict = self.verdict_of_metrics();
        self.leaning(verdict).map_or(verdict, |(verdict, _)| verdict)
    }

    fn verdict_of_metrics(&self) -> Verdict {
        if self.broken_guards().next().is_some() || self.more_failures().is_some() {
            return Verdict::Worse;
        }
        match self.primary().map(|judgement| judgement.verdict) {
            Some(Verdict::Better) if self.unseen_guards().next().is_some() => Verdict::NotShown,
            Some(verdict) => verdict,
            None => Verdict::NotShown,
        }
    }
}

//! Two variants, compared pair by pair, and the verdicts that the pairs support.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::counted::Counted;
use crate::machine::Machine;
use crate::metric::Metric;
use crate::more_pairs::{Continuation, Effect, Look};
use crate::resources::Throttling;
use crate::workload::Workload;

/// Timing of the two windows of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Both windows run at the same time (concurrent pairs). Other processes disturb both alike, but the arms share the machine, so latency
    /// differences shrink.
    Duet,
    /// One window after the other in random order (sequential pairs): true magnitudes, more noise.
    Solo,
}

/// The two sides that a pair compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PairKind {
    /// A compared with A: the control, which must show no difference.
    Control,
    /// A compared with B.
    Test,
}

/// The rule that gives the verdict. It is written to disk before the first window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// The primary metric, named before the run.
    pub primary: Metric,
    /// Secondary metrics. Their confidence intervals are widened for the number of metrics.
    pub secondary: Vec<Metric>,
    /// Guard metrics. If one of them gets worse, the whole result is worse.
    pub guards: Vec<Metric>,
    /// Whether Hone chose the guard metrics. Such guard metrics do not withhold a verdict if they can't be judged.
    #[serde(default)]
    pub default_guards: bool,
    /// Two-sided error of the primary confidence interval (0.05 means a 95 % interval).
    pub alpha: f64,
    /// Margin of equivalence d: ratios from 1/(1+d) to 1+d count as equivalent.
    pub equivalence: f64,
    /// Resamples of the bootstrap.
    pub resamples: u32,
    /// Seed of order and bootstrap.
    pub seed: u64,
    /// The rule in words, as Hone shows it.
    pub words: String,
}

/// The design of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Design {
    /// Duet or solo.
    pub mode: Mode,
    /// Whether the arms of concurrent pairs, each with its generator, are pinned to two halves of the cores and swap halves all the time.
    /// It needs two cores or more, and both arms must be started by Hone.
    pub places: bool,
    /// A/B pairs.
    pub pairs: u32,
    /// A/A control pairs.
    pub control_pairs: u32,
    /// The order of all pairs: planned ones, reserve, continuation. `true` in `swapped` means that the second arm is started first, or gets
    /// its requests first.
    pub order: Vec<PairKind>,
    /// See `order`; it has the same length.
    pub swapped: Vec<bool>,
    /// The rule that gives the verdict.
    pub rule: Rule,
    /// Block of each pair: the build of each arm that it measures (block modulo the arm's number of builds), or the start of the processes
    /// (`starts`). With both, it is the build for a test pair and the start for a control pair. It is empty if each arm is one build and
    /// every pair starts its own processes.
    #[serde(default)]
    pub blocks: Vec<u32>,
    /// Number of builds of A and of B.
    #[serde(default = "one_build_each")]
    pub builds: [u32; 2],
    /// Metrics that windows of this length can't provide, with the reason. They are known before the first window and do not count in the
    /// correction for many metrics.
    #[serde(default)]
    pub refused: BTreeMap<Metric, String>,
    /// The rule that excludes pairs with disturbance by other processes; `None` if no pair is excluded for that.
    #[serde(default)]
    pub disturbance: Option<Disturbance>,
    /// Time budget of the run; `None` if the user gave only a number of pairs.
    #[serde(default)]
    pub budget: Option<Budget>,
    /// Whether control pairs alternate between A/A and B/B. This applies if the arms are two targets that keep running between their
    /// windows: Hone then measures and warms both alike.
    #[serde(default)]
    pub both_controls: bool,
    /// Number of blocks for which the processes of all arms were started once. Pairs of a block share these processes and their memory
    /// layout, control pairs too. 0 if every pair starts its own processes.
    #[serde(default)]
    pub starts: u32,
    /// Number of reserve pairs behind the planned ones. They replace excluded pairs of their kind, or serve `effect`. 0 in older designs.
    #[serde(default)]
    pub reserve: u32,
    /// The effect that the pairs must be able to detect; `None` if their number is fixed, and in older designs.
    #[serde(default)]
    pub effect: Option<Effect>,
    /// Whether the value of A is that of the baseline's window together with the window of its byte copy in the same round (geometric
    /// mean). The A/A pair of a round is then a part of the reference, and no independent sample. `false` in older designs.
    #[serde(default)]
    pub pooled_baseline: bool,
    /// The looks at the running comparison, the last one at its planned end. Empty if there is only that one, and in older designs.
    #[serde(default)]
    pub looks: Vec<Look>,
    /// What a run without a verdict may measure in addition; `None` if it can't be continued, and in older designs.
    #[serde(default)]
    pub continuation: Option<Continuation>,
}

fn one_build_each() -> [u32; 2] {
    [1, 1]
}

impl Design {
    /// Whether the A/B pairs compare several builds. Their confidence intervals then rest on builds, and not on starts.
    pub fn has_several_builds(&self) -> bool {
        self.builds != [1, 1]
    }

    /// Number of pairs that are always measured: the whole order without the reserve and the continuation.
    pub fn planned(&self) -> usize {
        self.uncontinued().saturating_sub(self.reserve as usize)
    }

    /// Number of pairs that a run may measure if it is not continued.
    pub fn uncontinued(&self) -> usize {
        let more = self.continuation.as_ref().map_or(0, |continuation| continuation.pairs);
        self.order.len().saturating_sub(more as usize)
    }

    /// The block of a pair; 0 without blocks.
    pub fn block(&self, index: usize) -> u32 {
        self.blocks.get(index).copied().unwrap_or(0)
    }

    /// The arms of a pair: 0 for A, 1 for B.
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

    /// What control pairs of two running targets can't detect; `None` if each window starts its own target.
    pub fn control_limits(&self) -> Option<&'static str> {
        self.both_controls.then_some(
            "The control pairs compare A with A and B with B in turn. They detect effects of the session \
             and of the order. They do not detect differences between the two targets other than their \
             software: another disk, an older log, a larger heap, another machine. Such differences are \
             part of the result. To exclude them, start both targets as commands, or swap their places and \
             repeat the run.",
        )
    }
}

/// The arm of a control pair: 0 for A, 1 for B.
pub fn control_arm(order: &[PairKind], index: usize, both: bool) -> usize {
    let before = order.iter().take(index).filter(|kind| **kind == PairKind::Control).count();
    if both { before % 2 } else { 0 }
}

/// The rule that excludes pairs with disturbance by other processes. It uses nothing that the arms cause: neither their latency nor their
/// CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// Largest difference between the two windows of a pair in the stolen share of all cores.
    pub steal_difference: f64,
    /// Largest stolen share in either window.
    pub steal_most: f64,
    /// Largest difference in the share of all cores that other processes used.
    pub others_difference: f64,
    /// Largest memory pressure (share of the window in which some task waited for memory) in either window.
    pub memory_pressure_most: f64,
    /// The rule in words, with its reasons.
    pub words: String,
    /// Largest delay of an arm after its agreed start, in milliseconds; `None` if no start is agreed, and in older designs.
    #[serde(default)]
    pub start_slip_most_ms: Option<f64>,
}

/// A time budget of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// Total time of the run, starts and warm-ups included, in seconds.
    pub total_s: f64,
    /// Number of pairs of the pilot: the first ones of the order. They count as control pairs.
    pub pilot_pairs: u32,
    /// Expected time per pair, from the pilot, in seconds.
    pub pair_s: f64,
    /// The rule in words.
    pub words: String,
}

/// Forecast from the A/A pairs at the beginning of a run: the effects that the rest of the run can detect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pilot {
    /// Valid A/A pairs of the pilot.
    pub pairs: u32,
    /// Duration of the pilot, in seconds.
    pub took_s: f64,
    /// Planned A/B pairs.
    pub planned_pairs: u32,
    /// Planned A/A pairs, the pilot included.
    pub planned_control_pairs: u32,
    /// Expected duration of the rest, in seconds.
    pub rest_s: f64,
    /// The requested effect, as a ratio above 1.
    pub effect_ratio: Option<f64>,
    /// Probability from which an effect counts as detectable.
    pub power: f64,
    /// One forecast for each metric of the rule, the primary first.
    pub metrics: Vec<Promise>,
    /// Metrics without a forecast, with the reason.
    pub not_planned: BTreeMap<Metric, String>,
    /// Why no metric has a forecast; `None` if one has.
    #[serde(default)]
    pub no_promise: Option<String>,
}

/// The effect that the planned pairs can detect in one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Promise {
    /// The metric.
    pub metric: Metric,
    /// Standard deviation of the log ratio in the pilot.
    pub log_ratio_sd: f64,
    /// Smallest effect that the planned pairs detect with the pilot's power, as a ratio above 1; `None` above a factor of 1000.
    pub detectable_ratio: Option<f64>,
    /// Number of pairs that the requested effect needs; `None` without such a request, or if 10,000 pairs are not enough.
    pub pairs_needed: Option<u32>,
    /// Probability that the planned pairs detect the requested effect.
    pub power_for_effect: Option<f64>,
    /// The same probability if one pair in ten scatters five times as far as the others. A short pilot may miss such pairs.
    #[serde(default)]
    pub power_with_tail: Option<f64>,
}

/// The one setting in which B differs from A, if both are the same target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// `client`, `load`, `topic`, `broker`, `host`, `env` or `arg`.
    pub kind: String,
    /// Name of the setting.
    pub name: String,
    /// Its value in A; `None` if A keeps its existing value.
    pub from: Option<String>,
    /// Its value in B.
    pub to: String,
    /// The existing value in A, if A keeps it and the value could be read.
    #[serde(default)]
    pub was: Option<String>,
}

impl Change {
    /// The change for people: `topic.flush.messages: existing value -> 1`.
    pub fn label(&self) -> String {
        let from = self.from.as_deref().or(self.was.as_deref()).unwrap_or("existing value");
        format!("{}.{}: {from} -> {}", self.kind, self.name, self.to)
    }
}

/// One measured pair. A pair with an unusable window stays in the record with its reason, but the estimate leaves it out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairOutcome {
    /// Position in the design's order.
    pub index: u32,
    /// Control or test.
    pub kind: PairKind,
    /// Window file of the first arm (A; B in a B/B control), relative to the comparison's file.
    pub window_a: String,
    /// Window file of the second arm (B; in a control the repetition of the first arm).
    pub window_b: String,
    /// Value of each metric in the first arm.
    pub values_a: BTreeMap<Metric, f64>,
    /// Value of each metric in the second arm.
    pub values_b: BTreeMap<Metric, f64>,
    /// Why the pair is excluded, if it is.
    pub dropped: Option<String>,
    /// Its block, see [`Design::blocks`].
    #[serde(default)]
    pub block: u32,
    /// Duration, starts and warm-ups included, in seconds.
    #[serde(default)]
    pub took_s: f64,
    /// Troubles of the first and of the second arm, in words: saturated, failed, lost a connection. Empty without trouble. Disturbance by
    /// other processes and a generator that fell behind are no troubles of an arm.
    #[serde(default)]
    pub troubles: [Vec<String>; 2],
    /// Whether the load generator fell behind for the first and for the second arm.
    #[serde(default)]
    pub late: [bool; 2],
    /// Whether the first and the second arm became ready. It is `true` without a ready check.
    #[serde(default = "both_started")]
    pub started: [bool; 2],
    /// Share of failed requests of the first and of the second arm, 0 to 1.
    #[serde(default)]
    pub failed_share: [f64; 2],
    /// Whether the capacity of the first and of the second arm is a lower bound: the SLO was met at every rate of the ramp search.
    #[serde(default)]
    pub at_least: [bool; 2],
    /// How much a CPU limit throttled the first and the second arm; `None` without a limit, and in older records.
    #[serde(default, skip_serializing_if = "no_limit")]
    pub throttling: [Option<Throttling>; 2],
}

fn no_limit(throttling: &[Option<Throttling>; 2]) -> bool {
    throttling.iter().all(Option::is_none)
}

/// An A/B pair without windows.
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
    /// Its number for people, counted from 1.
    pub fn number(&self) -> u32 {
        self.index.saturating_add(1)
    }
}

/// A ratio with its confidence interval over pairs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The metric.
    pub metric: Metric,
    /// Number of valid pairs.
    pub pairs: u32,
    /// Geometric mean of A's values.
    pub value_a: f64,
    /// Geometric mean of B's values.
    pub value_b: f64,
    /// Geometric mean of B/A.
    pub ratio: f64,
    /// Lower end of the confidence interval of the ratio.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Confidence level of that interval, after the correction for the number of metrics (0.95 = 95 %).
    pub confidence: f64,
    /// Standard deviation of the log ratio.
    pub log_ratio_sd: f64,
    /// Smallest effect that these pairs detect with 80 % power, as a ratio above 1 (1.08 = 8 %).
    pub detectable_ratio: f64,
    /// The spread between and within blocks (builds, or starts of the processes); `None` without blocks.
    #[serde(default)]
    pub builds: Option<BuildSpread>,
}

impl Estimate {
    /// The ratio as a cost, inverted for metrics where more is better. Below 1, B costs less, or does more at the same cost.
    pub fn cost_ratio(&self) -> f64 {
        if self.metric.lower_is_better() { self.ratio } else { 1.0 / self.ratio }
    }
}

/// Spread between blocks (builds, or starts of the processes) and within them. The confidence interval rests on the blocks, not on the
/// pairs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BuildSpread {
    /// Number of blocks: a build of A and a build of B, or one start of both.
    pub blocks: u32,
    /// Standard deviation of the log ratio between blocks, without the part that the spread within them explains.
    pub between_log_sd: f64,
    /// Standard deviation of the log ratio of pairs within a block.
    pub within_log_sd: f64,
}

/// The four verdicts about B compared with A.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// B is better.
    Better,
    /// B is worse.
    Worse,
    /// A and B are equivalent within the rule's margin.
    Equivalent,
    /// The pairs do not show a difference, and they do not show equivalence.
    NotShown,
}

impl Verdict {
    /// The verdict for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Equivalent => "equivalent",
            Self::NotShown => "inconclusive",
        }
    }
}

/// An estimate with its verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// A/B.
    pub estimate: Estimate,
    /// A/A of the same session; `None` without a valid control pair.
    pub control: Option<Estimate>,
    /// The verdict.
    pub verdict: Verdict,
    /// Why, in words.
    pub why: String,
    /// Whether this is the primary metric, named before the run.
    pub primary: bool,
}

/// Two variants under one workload, judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Name of A, for example `baseline`.
    pub a: String,
    /// Name of B, for example `pgo`.
    pub b: String,
    /// The judging load.
    pub workload: Workload,
    /// Plan and rule.
    pub design: Design,
    /// All pairs in the order they were measured.
    pub pairs: Vec<PairOutcome>,
    /// One judgement for each metric that could be estimated, the primary first.
    pub judgements: Vec<Judgement>,
    /// Metrics that could not be estimated, with the reason.
    pub not_estimated: BTreeMap<Metric, String>,
    /// Where it ran.
    pub machine: Machine,
    /// Exact counts of the same work by both programs; `None` if nobody counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<Box<Counted>>,
    /// The one setting in which B differs, if both arms are the same target; `None` if there are two named targets.
    #[serde(default)]
    pub change: Option<Change>,
    /// B's load, if the loads differ.
    #[serde(default)]
    pub workload_b: Option<Workload>,
    /// Forecast made before the first A/B window.
    #[serde(default)]
    pub pilot: Option<Pilot>,
    /// Planned pairs that the time budget did not allow, without the pairs of the reserve.
    #[serde(default)]
    pub unmeasured_pairs: u32,
    /// Arms with several builds whose layout is the same in each.
    #[serde(default)]
    pub one_layout: Vec<OneLayout>,
    /// Durability settings that differ between the targets, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlike_promises: Vec<String>,
    /// Processes of A and of B whose CPU was measured, see [`crate::Environment::measured`]. Empty in older records.
    #[serde(default)]
    pub measured: [Vec<String>; 2],
    /// Processes to which A and B passed work on without their CPU being measured, see [`crate::Environment::behind`].
    #[serde(default)]
    pub behind: [Vec<String>; 2],
    /// The address or the command of A and of B, as given. Empty in older records, and if the names say it already.
    #[serde(default)]
    pub targets: [String; 2],
    /// Start of the first A/B window, milliseconds since 1970. 0 in older records, and if no pair has a window.
    #[serde(default)]
    pub started_unix_ms: u64,
}

/// An arm whose builds may all have their hot code at the same addresses. No confidence interval includes the effect of its layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OneLayout {
    /// The arm's name.
    pub variant: String,
    /// The evidence, in words.
    pub why: String,
}

/// A finding that one arm alone had trouble more often than the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaningTroubles {
    /// Whether it is B.
    pub is_b: bool,
    /// Whether the finding is significant at the level of the comparison's rule, and not only a suspicion.
    pub is_clear: bool,
    /// The finding in words, with its consequence.
    pub why: String,
}

/// One-sided probability of chance from which troubles do not lean to an arm: 2 against 0 leans, 1 against 0 does not.
const LEANING: f64 = 0.25;
/// Share of the A/B pairs below which troubles that may be chance do not lean to an arm, since so few excluded pairs hardly flatter it.
const LEANING_SHARE: f64 = 0.1;

/// Smallest difference of the shares of failed requests that matters. A single lost connection causes less.
pub const MORE_FAILURES: f64 = 0.001;

/// Probability that a fair coin shows heads at least `heads` times in `tosses`.
fn at_least(heads: u32, tosses: u32) -> f64 {
    // The calculation uses logarithms, since 0.5 to the power of 1,075 is 0 as a number.
    let mut ln_term = -f64::from(tosses) * std::f64::consts::LN_2;
    let mut below = 0.0;
    for count in 0..heads {
        below += ln_term.exp();
        ln_term += (f64::from(tosses - count) / f64::from(count + 1)).ln();
    }
    1.0 - below
}

impl Comparison {
    /// The source of variance that confidence intervals over builds leave out, if any.
    pub fn one_layout_words(&self) -> Option<String> {
        let arm = |one: &OneLayout| {
            format!(
                "{} counts as one layout however many builds it has: {}. The confidence interval does not \
                 include the effect of that layout.",
                one.variant, one.why
            )
        };
        let arms: Vec<String> = self.one_layout.iter().map(arm).collect();
        (!arms.is_empty()).then(|| arms.join(" "))
    }

    /// The judgement of the primary metric; `None` if it could not be estimated.
    pub fn primary(&self) -> Option<&Judgement> {
        self.judgements.iter().find(|judgement| judgement.primary)
    }

    /// The name of a metric for people, in the words of this load.
    pub fn label(&self, metric: Metric) -> &'static str {
        match self.workload.engine.operations() {
            Some(_) => metric.label_in_operations(),
            None => metric.label(),
        }
    }

    /// Whether a metric is by definition the same figure as another one: an operation is both a record and a request.
    pub fn is_same_again(&self, metric: Metric) -> bool {
        let primary = self.design.rule.primary;
        let twice =
            if primary == Metric::CpuPerRequest { Metric::CpuPerRecord } else { Metric::CpuPerRequest };
        self.workload.engine.operations().is_some() && metric == twice
    }

    /// The guard metrics that came out worse.
    pub fn broken_guards(&self) -> impl Iterator<Item = &Judgement> {
        self.judgements.iter().filter(|judgement| {
            judgement.verdict == Verdict::Worse
                && self.design.rule.guards.contains(&judgement.estimate.metric)
        })
    }

    /// The secondary metrics that came out worse, guard metrics first. Several figures come from one CPU time: the list names only the
    /// first of them, and none if the primary metric is one of them and worse, too.
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

    /// Whether the comparison shows any regression: in the overall verdict or in any metric. A gain of the primary metric does not outweigh
    /// it.
    pub fn has_regression(&self) -> bool {
        self.verdict() == Verdict::Worse
            || self.judgements.iter().any(|found| found.verdict == Verdict::Worse)
    }

    /// How much CPU limits throttled an arm in the A/B pairs. Excluded pairs count too, since a limit can be the reason for their
    /// exclusion. `None` without a limit.
    pub fn throttling(&self, side: usize) -> Option<Throttling> {
        let tests = self.pairs.iter().filter(|pair| pair.kind == PairKind::Test);
        tests.filter_map(|pair| *pair.throttling.get(side)?).reduce(Throttling::and)
    }

    /// A remark that a CPU limit throttled an arm; `None` if none was throttled. The arm's latencies then contain the waits for the limit.
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

    /// A remark about work that the measured processes passed on; `None` if they passed none on, or if it is unknown.
    fn uncounted_words(&self) -> Option<String> {
        let [a, b] = self.behind.each_ref().map(|servers| servers.join(", "));
        let told = [("A", a), ("B", b)].into_iter().filter(|(_, servers)| !servers.is_empty());
        let told: Vec<String> =
            told.map(|(arm, servers)| format!("{arm} passes work on to {servers}")).collect();
        (!told.is_empty()).then(|| {
            format!(
                "Not counted: {}; no figure of this comparison includes its CPU and memory.",
                told.join("; ")
            )
        })
    }

    /// Reservations about the figures besides the verdict, as sentences.
    pub fn reservations(&self) -> Vec<String> {
        self.throttled_words().into_iter().chain(self.uncounted_words()).collect()
    }

    /// Whether B is worse because only B does not sustain the load. The metrics of the other pairs then add nothing.
    pub fn b_does_not_sustain(&self) -> bool {
        let alone = self.pairs.iter().filter(|pair| {
            pair.kind == PairKind::Test && pair.troubles[0].is_empty() && !pair.troubles[1].is_empty()
        });
        // A lost connection or a moved leader leaves a valid window.
        let (excluded, counted): (Vec<_>, Vec<_>) = alone.partition(|pair| pair.dropped.is_some());
        let is_clear = self.leaning_troubles().is_some_and(|leaning| leaning.is_b && leaning.is_clear);
        is_clear && excluded.len() > counted.len()
    }

    /// The trouble of B in the last A/B pair in which only B had trouble.
    pub fn last_trouble_of_b(&self) -> Option<&str> {
        let tests = self.pairs.iter().rev().filter(|pair| pair.kind == PairKind::Test);
        let mut alone = tests.filter(|pair| pair.troubles[0].is_empty());
        alone.find_map(|pair| pair.troubles[1].first().map(String::as_str))
    }

    /// The guard metrics that could not be judged: their estimate is missing, or a planned control is unreadable or shows a difference.
    pub fn unseen_guards(&self) -> impl Iterator<Item = Metric> {
        let of = |guard: Metric| self.judgements.iter().find(move |found| found.estimate.metric == guard);
        let rule = &self.design.rule;
        let guards = rule.guards.iter().copied().filter(|_| !rule.default_guards);
        guards.filter(move |guard| {
            self.not_estimated.contains_key(guard)
                || of(*guard).is_some_and(|found| self.lacks_control(found))
        })
    }

    /// The guard metrics that were judged but are inconclusive. The verdict states the loss that they may have.
    pub fn undecided_guards(&self) -> impl Iterator<Item = &Judgement> {
        self.judgements.iter().filter(|judgement| {
            judgement.verdict == Verdict::NotShown
                && !self.design.rule.default_guards
                && self.design.rule.guards.contains(&judgement.estimate.metric)
                && !self.lacks_control(judgement)
        })
    }

    /// Whether a planned control is missing or shows a difference itself. The test then supports no verdict.
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

    /// Number of A/B pairs in which only A had trouble, and in which only B had.
    pub fn lone_troubles(&self) -> [u32; 2] {
        let mut counts = [0, 0];
        for pair in self.pairs.iter().filter(|pair| pair.kind == PairKind::Test) {
            let [a, b] = [0, 1].map(|side: usize| !pair.troubles[side].is_empty());
            counts[0] += u32::from(a && !b);
            counts[1] += u32::from(b && !a);
        }
        counts
    }

    /// The tail latency, with the throughput at which it was measured. A target that does more in the same time may look better while its
    /// tail latency grows.
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
                "{throughput}; p99.9 is not measured: {}; a load at a fixed rate would measure it",
                reason()
            );
        }
        if let Some(climb) = self.workload.climb() {
            return format!(
                "loaded up to the rate at which {} is missed; the tail beyond that quantile was not measured",
                climb.slo.label()
            );
        }
        let at = format!("p99.9 at {} requests/s", self.workload.requests_per_s);
        match of(Metric::LatencyP999) {
            None => format!("{at} is not measured: {}", reason()),
            Some(found) => match found.verdict {
                Verdict::Worse => format!("{at} is worse: {}", figures(found)),
                Verdict::Better => format!("{at} is better: {}", figures(found)),
                Verdict::Equivalent => format!("{at} holds: {}", figures(found)),
                Verdict::NotShown => format!("{at} is inconclusive: {}", figures(found)),
            },
        }
    }

    /// The arm that alone had trouble more often than the other, if chance hardly explains it. The metrics play no role.
    ///
    /// Pairs with a failed window are excluded, so the remaining pairs flatter the arm that failed. The rule is an exact sign test over the
    /// A/B pairs in which one arm alone had trouble. If these are less than a tenth of all A/B pairs, only a significant result counts.
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
            (true, true) => "this is significant by the sign test, so B is worse",
            (_, true) => "the remaining pairs flatter it, so no gain is claimed",
            (_, false) => "the remaining pairs flatter it, so no loss is claimed",
        };
        let why =
            format!("{name} alone had trouble in {more} A/B pairs, the other arm alone in {fewer}: {what}");
        Some(LeaningTroubles { is_b: b > a, is_clear, why })
    }

    /// Whether the capacity of A, and of B, is only a lower bound in a valid A/B pair.
    pub fn at_least(&self) -> [bool; 2] {
        let counts = |pair: &&PairOutcome| pair.kind == PairKind::Test && pair.dropped.is_none();
        [0, 1].map(|side: usize| self.pairs.iter().filter(counts).any(|pair| pair.at_least[side]))
    }

    /// Finding that B fails more requests than A, below the share at which a window is excluded: in words, with the mean shares. `None` if
    /// the difference is not significant. The rule is an exact sign test over the valid A/B pairs in which the shares differ by more than
    /// [`MORE_FAILURES`].
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

    /// The verdict that follows if troubles lean to one arm, and the reason; `None` if they change nothing.
    fn leaning(&self, verdict: Verdict) -> Option<(Verdict, String)> {
        let LeaningTroubles { is_b, is_clear, why } = self.leaning_troubles()?;
        if is_b && is_clear {
            return (verdict != Verdict::Worse).then_some((Verdict::Worse, why));
        }
        let flattered = if is_b { Verdict::Better } else { Verdict::Worse };
        (verdict == flattered || verdict == Verdict::Equivalent).then_some((Verdict::NotShown, why))
    }

    /// Why the overall verdict differs from the verdict of the metrics, if an arm's troubles are the reason.
    pub fn why_troubles_decide(&self) -> Option<String> {
        self.leaning(self.verdict_of_metrics()).map(|(_, why)| why)
    }

    /// The overall verdict: worse if the primary metric or a guard metric is worse, otherwise the verdict of the primary metric. It is
    /// inconclusive if the primary metric could not be estimated, or if it is better and a guard metric could not be judged. An arm that
    /// alone had trouble more often than the other can turn it into worse or inconclusive.
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

//! A commit compared with its base commit.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::artifact::ToolReceipt;
use crate::comparison::{Comparison, Verdict};
use crate::counted::Counted;
use crate::metric::Metric;

/// Two commits of one program, with equal builds and equal load, and the decision about merging the second one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommitGate {
    /// The experiment's name.
    pub name: String,
    /// The experiment file, by its path in the repository.
    pub file: String,
    /// Origin of the experiment file, in words.
    pub file_of: String,
    /// The base commit.
    pub base: CommitBuild,
    /// The head commit, which is to be merged.
    pub head: CommitBuild,
    /// The rule by which the gate fails, in words. It is written before the first window.
    pub rule: String,
    /// Limit of the regression for each metric that decides (0.03 = 3 %).
    pub worse_by: BTreeMap<Metric, f64>,
    /// Whether the gate also fails if the session could not have detected such a regression.
    pub require_power: bool,
    /// One comparison for each judging workload; empty if both programs are identical.
    pub comparisons: Vec<Comparison>,
    /// The evidence that decides.
    #[serde(default)]
    pub evidence: GateEvidence,
    /// Exact counts for each judging workload; empty if nobody counted, and in older records.
    #[serde(default)]
    pub counted: Vec<Counted>,
    /// The search that found the two commits; `None` if the user named them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bisection: Option<Bisection>,
    /// Findings of the metrics that decide, the first workload first.
    pub findings: Vec<GateFinding>,
    /// The outcome of the gate.
    pub outcome: GateOutcome,
    /// Remarks for the reader of the result.
    pub notes: Vec<String>,
    /// The run's folder.
    pub run: String,
}

/// The evidence by which a gate decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GateEvidence {
    /// Measured pairs.
    #[default]
    Measured,
    /// Exact counts of instructions, without any measured pair.
    Counted,
}

/// The search that led to a gate's two commits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bisection {
    /// Hash of the good commit.
    pub good: String,
    /// Hash of the bad one.
    pub bad: String,
    /// Number of commits after the good one, up to the bad one.
    pub commits: u32,
    /// The commits that were built, in their order.
    pub tried: Vec<TriedCommit>,
    /// Commits before the gate's head that could not be judged, and may be the first bad one. Empty if the head is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
}

/// A commit of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TriedCommit {
    /// Its hash.
    pub commit: String,
    /// The first line of its message.
    pub subject: String,
    /// The result.
    pub state: TriedState,
    /// Ratio of its instructions per operation to those of the good commit.
    pub ratio: Option<f64>,
    /// Why it was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The result for a commit of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TriedState {
    /// It needs less than half of the growth.
    Good,
    /// It needs half of the growth or more.
    Bad,
    /// It can't be built or counted.
    Skipped,
}

impl TriedState {
    /// The name for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Skipped => "skipped",
        }
    }
}

/// A commit and the program built from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommitBuild {
    /// The requested version, in words: `origin/main`, `the working tree`.
    pub asked: String,
    /// The commit's hash.
    pub commit: String,
    /// The first line of its message.
    pub subject: String,
    /// SHA-256 of each build's program, hex. There are several if layouts are a level of the confidence interval.
    pub programs_sha256: Vec<String>,
    /// Size of the first program's file.
    pub file_bytes: u64,
    /// Size of its code in bytes.
    pub text_bytes: u64,
    /// Wall time of its build.
    pub build_s: f64,
    /// Whether the builds come from an earlier run.
    pub kept: bool,
    /// Origin of the builds.
    pub tools: Vec<ToolReceipt>,
}

impl CommitBuild {
    /// A prefix of the hash, long enough to identify the commit.
    pub fn short(&self) -> &str {
        self.commit.get(..10).unwrap_or(&self.commit)
    }
}

/// The finding about one metric under one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateFinding {
    /// The load.
    pub workload: String,
    /// The metric.
    pub metric: Metric,
    /// Whether it is the primary metric; the others are guard metrics.
    pub primary: bool,
    /// The regression from which the metric counts as worse (0.03 = 3 %). For metrics where more is better it is the loss.
    pub worse_by: f64,
    /// Ratio of head to base with its confidence interval; `None` without an estimate.
    pub ratio: Option<[f64; 3]>,
    /// Values of base and head, in the metric's own unit.
    pub values: Option<[f64; 2]>,
    /// Smallest effect that the pairs could detect, as a ratio above 1.
    pub detectable_ratio: Option<f64>,
    /// The comparator's verdict; `None` without an estimate.
    pub verdict: Option<Verdict>,
    /// The state that follows for the gate.
    pub state: GateState,
    /// Why, in words.
    pub why: String,
    /// Whether the failures of one side decide, and not the figures of the remaining pairs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_troubles: bool,
    /// Line of the experiment file that requests the metric.
    pub line: Option<u32>,
}

/// The state of a metric in the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GateState {
    /// The metric is worse by the limit or more.
    Worse,
    /// The metric is worse, but by less than the limit.
    Tolerated,
    /// The metric is better or equivalent, or its confidence interval excludes a regression up to the limit.
    Held,
    /// The comparison is inconclusive.
    NotShown,
    /// The metric can't be judged: its estimate or its A/A control is missing.
    NotSeen,
}

impl GateState {
    /// The name for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Tolerated => "worse, within the limit",
            Self::Held => "held",
            Self::NotShown => "inconclusive",
            Self::NotSeen => "not judged",
        }
    }
}

impl GateFinding {
    /// The smallest loss that the pairs could detect, as a share ([`Metric::loss`]).
    pub fn detectable_loss(&self) -> Option<f64> {
        self.detectable_ratio.map(|ratio| self.metric.loss(self.for_the_worse(ratio)))
    }

    /// An effect above 1 in the direction that is worse.
    fn for_the_worse(&self, ratio: f64) -> f64 {
        if self.metric.lower_is_better() { ratio } else { 1.0 / ratio }
    }

    /// Whether the smallest detectable effect is within the limit.
    fn would_show_the_limit(&self, ratio: f64) -> bool {
        let ratio = self.for_the_worse(ratio);
        if self.metric.lower_is_better() {
            ratio <= 1.0 + self.worse_by
        } else {
            ratio >= 1.0 - self.worse_by
        }
    }

    /// Whether a loss by the limit would have been detected, or is excluded.
    pub fn has_power(&self) -> bool {
        match self.state {
            GateState::Worse | GateState::Tolerated | GateState::Held => true,
            GateState::NotShown => {
                self.detectable_ratio.is_some_and(|ratio| self.would_show_the_limit(ratio))
            }
            GateState::NotSeen => false,
        }
    }
}

/// The outcome of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GateOutcome {
    /// No deciding metric is worse.
    Passed,
    /// Both commits build the same program, byte for byte.
    SameProgram,
    /// A deciding metric is worse.
    Worse,
    /// No metric is worse, but the pairs could not have detected a regression by the limit.
    TooLittlePower,
    /// No metric is worse, but under some load the primary metric could not be judged.
    NotSeen,
}

impl GateOutcome {
    /// The outcome that follows from all findings.
    pub fn from_findings(findings: &[GateFinding], require_power: bool) -> Self {
        if findings.iter().any(|finding| finding.state == GateState::Worse) {
            return Self::Worse;
        }
        let primary = || findings.iter().filter(|finding| finding.primary);
        // A gate that judged nothing must not pass, whatever the user requested.
        if primary().next().is_none() || primary().any(|finding| finding.state == GateState::NotSeen) {
            return Self::NotSeen;
        }
        if require_power && primary().any(|finding| !finding.has_power()) {
            return Self::TooLittlePower;
        }
        Self::Passed
    }
}

impl CommitGate {
    /// The findings that make the gate fail.
    pub fn failures(&self) -> impl Iterator<Item = &GateFinding> {
        let fails = |finding: &&GateFinding| match self.outcome {
            GateOutcome::Worse => finding.state == GateState::Worse,
            GateOutcome::TooLittlePower => finding.primary && !finding.has_power(),
            GateOutcome::NotSeen => finding.primary && finding.state == GateState::NotSeen,
            GateOutcome::Passed | GateOutcome::SameProgram => false,
        };
        self.findings.iter().filter(fails)
    }
}

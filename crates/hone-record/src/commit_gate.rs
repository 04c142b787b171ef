//! A commit held against the one that it builds on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::artifact::ToolReceipt;
use crate::comparison::{Comparison, Verdict};
use crate::metric::Metric;

/// Two commits of one program, built alike and loaded alike, and what follows for who wants to merge the second one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommitGate {
    /// The experiment's name.
    pub name: String,
    /// The experiment file, by its path in the repository.
    pub file: String,
    /// Whose file it is, in words.
    pub file_of: String,
    /// The state before.
    pub base: CommitBuild,
    /// The state that is to be merged.
    pub head: CommitBuild,
    /// When it fails, in words; written down before the first window.
    pub rule: String,
    /// The growth from which each metric that decides counts as worse (0.03 = 3 %).
    pub worse_by: BTreeMap<Metric, f64>,
    /// Whether a session that could not have shown such a growth fails, too.
    pub require_power: bool,
    /// One for each workload that judged; none where both programs are the same.
    pub comparisons: Vec<Comparison>,
    /// What decides, the first workload first.
    pub findings: Vec<GateFinding>,
    /// What follows.
    pub outcome: GateOutcome,
    /// What somebody should know who reads the result.
    pub notes: Vec<String>,
    /// The run's folder.
    pub run: String,
}

/// A commit and the program that was built of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommitBuild {
    /// What was asked for, in words: `origin/main`, `the working tree`.
    pub asked: String,
    /// The commit's hash.
    pub commit: String,
    /// The first line of its message.
    pub subject: String,
    /// SHA-256 of each build's program, hex; several where layouts are a level of the interval.
    pub programs_sha256: Vec<String>,
    /// Size of the first program's file.
    pub file_bytes: u64,
    /// Size of its code.
    pub text_bytes: u64,
    /// Wall time of its build.
    pub build_s: f64,
    /// Whether the builds were kept of an earlier run.
    pub kept: bool,
    /// Who built it.
    pub tools: Vec<ToolReceipt>,
}

impl CommitBuild {
    /// Enough of the hash to name the commit.
    pub fn short(&self) -> &str {
        self.commit.get(..10).unwrap_or(&self.commit)
    }
}

/// What is said of one metric under one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateFinding {
    /// The load.
    pub workload: String,
    /// The metric.
    pub metric: Metric,
    /// Whether it is the one named before the run; the others are guard rails.
    pub primary: bool,
    /// The growth from which it counts as worse (0.03 = 3 %); of what is better when it is more, the fall.
    pub worse_by: f64,
    /// Ratio of head to base with its interval; `None` where there is no estimate.
    pub ratio: Option<[f64; 3]>,
    /// Base and head, in the metric's own unit.
    pub values: Option<[f64; 2]>,
    /// Smallest effect that the pairs would have shown, as a ratio above 1.
    pub detectable_ratio: Option<f64>,
    /// The comparator's verdict; `None` where there is no estimate.
    pub verdict: Option<Verdict>,
    /// What follows from it.
    pub state: GateState,
    /// Why, in words.
    pub why: String,
    /// Whether troubles of one side decide, and not the figures of the pairs that are left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_troubles: bool,
    /// Line of the experiment file that asks for it.
    pub line: Option<u32>,
}

/// What follows from a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GateState {
    /// Shown to be worse, by the limit or more.
    Worse,
    /// Shown to be worse, by less than the limit.
    Tolerated,
    /// Better, equivalent, or with an interval that holds no growth up to the limit.
    Held,
    /// Nothing was shown.
    NotShown,
    /// It could not be looked at: there is no estimate of it, or no A/A control to hold one against.
    NotSeen,
}

impl GateState {
    /// The word for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Worse => "WORSE",
            Self::Tolerated => "worse, within the limit",
            Self::Held => "held",
            Self::NotShown => "not shown",
            Self::NotSeen => "not seen",
        }
    }
}

impl GateFinding {
    /// The smallest loss that the pairs would have shown, as a share ([`Metric::loss`]).
    pub fn detectable_loss(&self) -> Option<f64> {
        self.detectable_ratio.map(|ratio| self.metric.loss(self.for_the_worse(ratio)))
    }

    /// An effect above 1 in the direction that is worse.
    fn for_the_worse(&self, ratio: f64) -> f64 {
        if self.metric.lower_is_better() { ratio } else { 1.0 / ratio }
    }

    /// Whether an effect that the pairs would have shown is no more than the limit.
    fn would_show_the_limit(&self, ratio: f64) -> bool {
        let ratio = self.for_the_worse(ratio);
        if self.metric.lower_is_better() {
            ratio <= 1.0 + self.worse_by
        } else {
            ratio >= 1.0 - self.worse_by
        }
    }

    /// Whether a loss by the limit would have been seen, or has been ruled out.
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

/// What follows from all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GateOutcome {
    /// Nothing that decides was shown to be worse.
    Passed,
    /// Both commits build the same program, byte for byte.
    SameProgram,
    /// Something that decides is worse.
    Worse,
    /// Nothing was shown to be worse, and a growth by the limit would not have been seen either.
    TooLittlePower,
    /// Nothing was shown to be worse, and under some load the primary metric could not be looked at.
    NotSeen,
}

impl GateOutcome {
    /// What follows from all findings.
    pub fn from_findings(findings: &[GateFinding], require_power: bool) -> Self {
        if findings.iter().any(|finding| finding.state == GateState::Worse) {
            return Self::Worse;
        }
        let primary = || findings.iter().filter(|finding| finding.primary);
        // A gate that saw nothing must not be green, whatever was asked for.
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
    /// The findings that make it fail.
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

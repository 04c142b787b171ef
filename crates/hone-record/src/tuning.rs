//! A service tuned over all altitudes: what was seen, what was tried because of it, what was kept, and what that is worth together.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{BatchState, Decision, Durability, Machine, Metric, Proof, ProofStep, Workload};

/// Where a change is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Altitude {
    /// The program: its build and its layout.
    Binary,
    /// The broker's or topic's settings, its arguments and environment.
    Broker,
    /// Producers.
    Client,
    /// The kernel of the broker's machine.
    Host,
}

impl Altitude {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Binary, Self::Broker, Self::Client, Self::Host];

    /// The word in settings, records and for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Binary => "binary",
            Self::Broker => "broker",
            Self::Client => "client",
            Self::Host => "host",
        }
    }
}

/// What a change was chosen for, before it was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Hope {
    /// Share of the objective that it may save, 0 to 1. It ranks and promises nothing.
    pub share: f64,
    /// What was seen, and why that calls for this change.
    pub why: String,
}

/// A change that was tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TuningStep {
    /// Where.
    pub altitude: Altitude,
    /// Why this one, and now.
    pub hope: Hope,
    /// What would have come next, best first, at most a few.
    pub passed_over: Vec<String>,
    /// What came of it.
    pub step: ProofStep,
}

/// What is kept, held against the state before the first change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Together {
    /// All of them against none; `None` where the budget did not reach so far.
    pub all: Option<ProofStep>,
    /// The product of the ratios that the changes had when they were accepted.
    pub product: f64,
    /// For each change all of them against all but this one, as far as the budget reached.
    pub without: Vec<ProofStep>,
}

/// A run of `hone tune`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tuning {
    /// As the file names it.
    pub name: String,
    /// Where the load went, as it was asked for.
    pub target: String,
    /// The load, in words.
    pub load: String,
    /// The load before the first change.
    pub workload: Workload,
    /// The load with all that was kept.
    pub workload_kept: Workload,
    /// What decides.
    pub objective: Metric,
    /// What an acknowledgement promised before the first change.
    pub durability: Durability,
    /// The rule by which a change is kept, in words; on the disk before the first window.
    pub rule: String,
    /// Where changes were allowed.
    pub allowed: Vec<Altitude>,
    /// Seconds that the run might take; `None` for as long as there is something to try.
    pub budget_s: Option<f64>,
    /// Seconds that its pairs took.
    pub took_s: f64,
    /// The state before the first change, by an A/A pilot.
    pub first: BatchState,
    /// In the order in which they were tried.
    pub steps: Vec<TuningStep>,
    /// The changes that are kept in the end, without those that a later one has taken the place of.
    pub kept: Vec<String>,
    /// What the kept changes are worth together; `None` where fewer than two were accepted, since the step says it then.
    pub together: Option<Together>,
    /// Why it ended, in words.
    pub stopped: String,
    /// How to make each kept change last, in words: the run itself leaves everything as it found it.
    pub to_keep: Vec<String>,
    /// What this run can't say, in words.
    pub limits: Vec<String>,
    /// Where it ran.
    pub machine: Machine,
    /// Client and version, broker and version.
    pub software: BTreeMap<String, String>,
}

impl Tuning {
    /// The step that says what all that was kept is worth: all together, or the only one that was accepted.
    pub fn worth(&self) -> Option<&ProofStep> {
        let all = self.together.as_ref().and_then(|together| together.all.as_ref());
        let accepted =
            self.steps.iter().map(|step| &step.step).find(|step| step.decision == Decision::Accepted);
        all.or(accepted).filter(|_| !self.kept.is_empty())
    }

    /// Its steps as a proof, for tables of their states: the last column is all that was kept, where that was measured.
    pub fn as_proof(&self) -> Proof {
        let mut steps: Vec<ProofStep> = self.steps.iter().map(|step| step.step.clone()).collect();
        steps.extend(self.together.iter().filter_map(|together| together.all.clone()));
        Proof {
            target: self.target.clone(),
            load: self.load.clone(),
            workload: self.workload.clone(),
            kept: self.workload_kept.clone(),
            durability: self.durability.clone(),
            rule: self.rule.clone(),
            steps,
            limits: self.limits.clone(),
            machine: self.machine.clone(),
            software: self.software.clone(),
        }
    }
}

//! A target taken through profile-guided optimisation, and the ledger's entry about it.

use serde::{Deserialize, Serialize};

use crate::{Artifact, Comparison, Durability, Machine, Metric, Verdict, Workload};

/// How much a build could bring at most: the share of the target's CPU that is its own user code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// The workload it was probed with.
    pub workload: String,
    /// CPU per record during the probe, in microseconds.
    pub cpu_us_per_record: f64,
    /// User share of the CPU, 0 to 1. The kernel's share can't be changed by a build of the target.
    pub user_share: f64,
    /// What follows, in words.
    pub words: String,
}

/// One finished step of an optimisation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepReceipt {
    /// The step's name, for example `build-baseline`.
    pub step: String,
    /// Wall time.
    pub took_s: f64,
    /// The command, when the step was one.
    pub command: Option<String>,
    /// What came of it, in words.
    pub note: String,
}

/// A target taken through profile-guided optimisation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Optimization {
    /// Name of the experiment.
    pub name: String,
    /// Path of the experiment file as it was given.
    pub experiment: String,
    /// Version of Hone.
    pub hone_version: String,
    /// Where it ran.
    pub machine: Machine,
    /// The load that trained the profile.
    pub training: Workload,
    /// What an acknowledgement promised while judging.
    pub durability: Durability,
    /// Before anything was built with a profile.
    pub ceilings: Vec<Ceiling>,
    /// Baseline first.
    pub artifacts: Vec<Artifact>,
    /// One for each judging workload, the primary first.
    pub comparisons: Vec<Comparison>,
    /// Every step with its time.
    pub steps: Vec<StepReceipt>,
    /// Wall-clock start, milliseconds since 1970.
    pub started_unix_ms: u64,
}

/// What was tried, what was decided, and why. One line of the ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// Wall-clock time, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// Name of the experiment.
    pub experiment: String,
    /// The change, for example `binary: pgo`.
    pub change: String,
    /// The workload that judged.
    pub workload: String,
    /// The metric named before the run.
    pub metric: Metric,
    /// Ratio with its interval, `None` when nothing could be estimated.
    pub ratio: Option<[f64; 3]>,
    /// What was found.
    pub verdict: Verdict,
    /// `keep` or `drop`.
    pub decision: String,
    /// Why, in words.
    pub why: String,
    /// SHA-256 of the profile, when one was used.
    pub profile_sha256: Option<String>,
    /// The run's folder.
    pub run: String,
}

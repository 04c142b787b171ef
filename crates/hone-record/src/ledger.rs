//! One entry of the ledger: the trial, the decision and the reason.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::comparison::{Comparison, Verdict};
use crate::foretelling::Foretold;
use crate::metric::Metric;

/// The trial, the decision and the reason.
///
/// Entries of older builds lack the fields that have a default here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// Wall-clock time, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// Author: `user@host`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub who: String,
    /// Version of Hone, and a prefix of its program's SHA-256.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hone: String,
    /// The command that decided, for example `compare` or `host apply`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub verb: String,
    /// Name of the experiment.
    pub experiment: String,
    /// The layer and the change, for example `binary: pgo`.
    pub change: String,
    /// The question, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub question: String,
    /// The rule of the decision, as it was before the first window.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rule: String,
    /// The judging workload; empty if no load ran.
    pub workload: String,
    /// The primary metric, named before the run; `None` without a measurement.
    pub metric: Option<Metric>,
    /// Ratio with its confidence interval; `None` without an estimate.
    pub ratio: Option<[f64; 3]>,
    /// Confidence level of that interval (0.95 = 95 %).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// The metric before and after, in its own unit: geometric means over the pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<[f64; 2]>,
    /// Number of valid pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<u32>,
    /// The verdict; `None` without a measurement.
    pub verdict: Option<Verdict>,
    /// Secondary metrics that came out worse: ratio and confidence interval. Empty in older entries.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub worse: BTreeMap<Metric, [f64; 3]>,
    /// The decision: `keep`, `drop`, `accepted`, `rejected`, `put back`, `foretold`, `applied` ...
    pub decision: String,
    /// Why, in words.
    pub why: String,
    /// The prediction before the measurement, and whether it was right.
    #[serde(default, rename = "predicted", alias = "foretold", skip_serializing_if = "Option::is_none")]
    pub foretold: Option<Foretold>,
    /// The command that rolls the change back, or advice; `None` if no change remains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<String>,
    /// SHA-256 of the profile, if the change used one.
    pub profile_sha256: Option<String>,
    /// The run's folder; empty without a run.
    pub run: String,
    /// The record files behind the entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<RecordRef>,
}

/// A record file behind an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordRef {
    /// Its path in the run's folder.
    pub path: String,
    /// SHA-256 of the file at the time of the entry, hex.
    pub sha256: String,
    /// Role of the file in the entry.
    pub role: RecordRole,
}

/// Role of a record file in an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordRole {
    /// A window of the state before.
    Before,
    /// A window of the state with the change.
    After,
    /// The design, with the rule, as it was before the first window.
    Design,
}

/// Layers, as [`LedgerEntry::change`] begins with one of them.
pub const ALTITUDES: [&str; 4] = ["binary", "broker", "client", "host"];

/// The change of an entry about all kept changes together. Each of these changes also has an entry of its own.
pub const ALL_TOGETHER: &str = "all: all together";

/// Decision on a kept change that helps again in its re-test, with all other kept changes in place.
pub const STILL_HELPS: &str = "still helps";
/// Decision on a kept change whose re-test is inconclusive: the change stays.
pub const NOT_SHOWN_AGAIN: &str = "not shown again";
/// Decision on a kept change that makes the others worse, or can't bear the load with them. Another entry rolls it back.
pub const HARMS_OTHERS: &str = "harms the others";

impl LedgerEntry {
    /// Fills in the results of a comparison: rule, workload, metric, estimate, verdict.
    #[must_use]
    pub fn judged_by(mut self, comparison: &Comparison) -> Self {
        let primary = comparison.primary().map(|judgement| &judgement.estimate);
        self.rule.clone_from(&comparison.design.rule.words);
        self.workload.clone_from(&comparison.workload.name);
        self.metric = Some(comparison.design.rule.primary);
        self.ratio = primary.map(|estimate| [estimate.ratio, estimate.low, estimate.high]);
        self.confidence = primary.map(|estimate| estimate.confidence);
        self.values = primary.map(|estimate| [estimate.value_a, estimate.value_b]);
        self.pairs = primary.map(|estimate| estimate.pairs);
        self.verdict = Some(comparison.verdict());
        let figures =
            |found: &crate::comparison::Estimate| (found.metric, [found.ratio, found.low, found.high]);
        self.worse = comparison.regressions().into_iter().map(|found| figures(&found.estimate)).collect();
        self
    }

    /// The verdict for people, with every metric that is worse: `better, p99 worse`. Empty without a measurement.
    pub fn verdict_words(&self) -> String {
        let worse = self.worse.keys().map(|metric| format!("{} worse", metric.label()));
        self.verdict
            .map(|verdict| verdict.label().to_owned())
            .into_iter()
            .chain(worse)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// The layer of the change (`binary`, `broker`, `client`, `host`); `None` if the change names no layer, or several.
    pub fn altitude(&self) -> Option<&str> {
        let (named, _) = self.change.split_once(": ")?;
        ALTITUDES.contains(&named).then_some(named)
    }

    /// The machine of the decision, as far as `who` names it; all of `who` if it names none.
    pub fn host(&self) -> &str {
        self.who.rsplit_once('@').map_or(&self.who, |(_, host)| host)
    }

    /// Whether the entry is about all kept changes together, and so about no single change.
    pub fn is_of_all(&self) -> bool {
        self.change == ALL_TOGETHER
    }

    /// Whether the entry only re-tests a kept change together with the others. Its other entries state the outcome of the change.
    pub fn is_among_others(&self) -> bool {
        [STILL_HELPS, NOT_SHOWN_AGAIN, HARMS_OTHERS].contains(&self.decision.as_str())
    }

    /// The change without its layer.
    pub fn change_alone(&self) -> &str {
        self.altitude().map_or(&self.change, |named| self.change.get(named.len() + 2..).unwrap_or_default())
    }
}

impl Comparison {
    /// The window files of the valid pairs, each with its state.
    pub fn counted_windows(&self) -> Vec<(&str, RecordRole)> {
        let of = |arm: usize| if arm == 0 { RecordRole::Before } else { RecordRole::After };
        let counted = self.pairs.iter().filter(|pair| pair.dropped.is_none());
        counted
            .flat_map(|pair| {
                let [first, second] = self.design.arms(pair.index as usize).map(of);
                [(pair.window_a.as_str(), first), (pair.window_b.as_str(), second)]
            })
            .filter(|(name, _)| !name.is_empty())
            .collect()
    }
}

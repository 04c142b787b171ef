//! What was tried, what was decided, and why: one entry of the ledger.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::comparison::{Comparison, Verdict};
use crate::foretelling::Foretold;
use crate::metric::Metric;

/// What was tried, what was decided, and why.
///
/// Entries of older builds lack what has a default here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// Wall-clock time, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// Who: `user@host`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub who: String,
    /// Which Hone: its version, and the beginning of its program's SHA-256.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hone: String,
    /// The command that decided, for example `compare` or `host apply`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub verb: String,
    /// Name of the experiment.
    pub experiment: String,
    /// The altitude and the change, for example `binary: pgo`.
    pub change: String,
    /// What was asked, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub question: String,
    /// The rule by which it was to be decided, as it was before the first window.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rule: String,
    /// The workload that judged; empty where nothing was loaded.
    pub workload: String,
    /// The metric named before the run; `None` where nothing was measured.
    pub metric: Option<Metric>,
    /// Ratio with its interval, `None` when nothing could be estimated.
    pub ratio: Option<[f64; 3]>,
    /// Confidence of that interval (0.95 = 95 %).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// The metric before and after, in its own unit: geometric means over the pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<[f64; 2]>,
    /// Pairs that count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<u32>,
    /// What was found; `None` where nothing was measured.
    pub verdict: Option<Verdict>,
    /// Metrics beside the primary one that came out worse: ratio and interval. Empty in older entries.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub worse: BTreeMap<Metric, [f64; 3]>,
    /// What was done about it: `keep`, `drop`, `accepted`, `rejected`, `put back`, `foretold`, `applied` ...
    pub decision: String,
    /// Why, in words.
    pub why: String,
    /// What was said of it before it was measured, and whether it was right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foretold: Option<Foretold>,
    /// The command that takes it back, or what to do; `None` where nothing stayed changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<String>,
    /// SHA-256 of the profile, when one was used.
    pub profile_sha256: Option<String>,
    /// The run's folder; empty where there is none.
    pub run: String,
    /// The record files that it rests on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<RecordRef>,
}

/// A record file that an entry rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordRef {
    /// Its path in the run's folder.
    pub path: String,
    /// SHA-256 of the file as it was when the entry was written, hex.
    pub sha256: String,
    /// What it is to the entry.
    pub role: RecordRole,
}

/// What a record file is to an entry.
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

/// Where a change acts, as the beginning of [`LedgerEntry::change`] has it.
pub const ALTITUDES: [&str; 4] = ["binary", "broker", "client", "host"];

/// The change of an entry that is of all kept changes together, of which each has an entry of its own.
pub const ALL_TOGETHER: &str = "all: all together";

/// Decision on a kept change that is shown to help once more, beside all others that are kept.
pub const STILL_HELPS: &str = "still helps";
/// The same where neither help nor harm is shown: it stays.
pub const NOT_SHOWN_AGAIN: &str = "not shown again";
/// The same of a change that makes the others worse, or does not stand the load with them: an entry of its own puts it back.
pub const HARMS_OTHERS: &str = "harms the others";

impl LedgerEntry {
    /// Fills in what a comparison decided: rule, workload, metric, estimate, verdict.
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

    /// The verdict for people, with every metric that is worse beside it: `better, p99 worse`. Empty where nothing was measured.
    pub fn verdict_words(&self) -> String {
        let worse = self.worse.keys().map(|metric| format!("{} worse", metric.label()));
        self.verdict
            .map(|verdict| verdict.label().to_owned())
            .into_iter()
            .chain(worse)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// The altitude of the change (`binary`, `broker`, `client`, `host`); `None` where the change begins with none, or with several.
    pub fn altitude(&self) -> Option<&str> {
        let (named, _) = self.change.split_once(": ")?;
        ALTITUDES.contains(&named).then_some(named)
    }

    /// The machine on which it was decided, as far as it says; all of `who` where that names none.
    pub fn host(&self) -> &str {
        self.who.rsplit_once('@').map_or(&self.who, |(_, host)| host)
    }

    /// Whether it is of all that was kept together, and so of no change of its own.
    pub fn is_of_all(&self) -> bool {
        self.change == ALL_TOGETHER
    }

    /// Whether it only asks once more what a change that was kept is worth beside the others: what becomes of the change is said by its other
    /// entries.
    pub fn is_among_others(&self) -> bool {
        [STILL_HELPS, NOT_SHOWN_AGAIN, HARMS_OTHERS].contains(&self.decision.as_str())
    }

    /// The change without its altitude.
    pub fn change_alone(&self) -> &str {
        self.altitude().map_or(&self.change, |named| self.change.get(named.len() + 2..).unwrap_or_default())
    }
}

impl Comparison {
    /// The window files of the pairs that count, each with the state that it is of.
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

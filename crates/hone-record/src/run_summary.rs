//! The trials on one subject at all layers, in the order of time, with their outcomes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::capacity::{Capacity, Curve};
use crate::comparison::Verdict;
use crate::diagnosis::Diagnosis;
use crate::heatmap::Heatmap;
use crate::ledger::{LedgerEntry, NOT_SHOWN_AGAIN, RecordRole};
use crate::machine::Machine;
use crate::optimization::Ceiling;
use crate::proof::BatchState;
use crate::tuned::Tuned;
use crate::window::Window;

/// The trials in the order of time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Story {
    /// The subject: an experiment, a target, a ledger.
    pub title: String,
    /// The file or folder with the data.
    pub source: String,
    /// Why the CPU stalled before the first trial.
    pub diagnoses: Vec<Diagnosis>,
    /// Upper bound of a build's gain.
    pub ceilings: Vec<Ceiling>,
    /// Each change with its figures.
    pub chapters: Vec<Chapter>,
    /// All machines of the measurements, each once.
    pub machines: Vec<Machine>,
    /// Hashes of the ledger lines that no line follows. With them, a reader can later verify that no line was cut off.
    pub heads: Vec<String>,
    /// Limits of the data, in words.
    pub limits: Vec<String>,
    /// The conclusion in the words of its author, for example whether a gate passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headline: Option<String>,
    /// The conclusion of a `hone tune` run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuned: Option<Tuned>,
    /// Maps of the code that runs; two sides are before and after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heatmaps: Vec<Heatmap>,
    /// Searches for the highest rate that meets the SLO.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capacities: Vec<Capacity>,
    /// Sweeps over rates or batch sizes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<Curve>,
}

/// One change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Chapter {
    /// Its line in the ledger; `None` if the data comes from a record alone.
    pub line: Option<usize>,
    /// The ledger entry.
    pub entry: LedgerEntry,
    /// The state before, over all its valid windows. It has no windows if their files are gone.
    pub before: BatchState,
    /// The state with the change.
    pub after: BatchState,
    /// Each window.
    pub windows: Vec<WindowRow>,
}

/// The figures of a window, for tables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WindowRow {
    /// Its file in the run's folder.
    pub path: String,
    /// The state that it measured.
    pub role: RecordRole,
    /// Wall-clock start, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Length.
    pub duration_s: f64,
    /// Requests that were due.
    pub requests: u64,
    /// Requests acknowledged.
    pub acked_requests: u64,
    /// Records acknowledged.
    pub acked_records: u64,
    /// CPU of the target; `None` if unknown.
    pub cpu_s: Option<f64>,
    /// Bytes that the producers sent; `None` if unknown.
    pub sent_bytes: Option<u64>,
    /// Latency from the intended time at each of [`STORY_QUANTILES`]; `None` with fewer than ten samples beyond it.
    pub latency_us: [Option<f64>; 6],
}

/// The quantiles in the tables of a run summary, with their names.
pub const STORY_QUANTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p85", 0.85), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999), ("p99.999", 0.999_99)];

impl WindowRow {
    /// The figures of a window.
    pub fn from_window(path: &str, role: RecordRole, window: &Window) -> Self {
        let state = BatchState::from_windows(std::slice::from_ref(window));
        Self {
            path: path.to_owned(),
            role,
            started_unix_ms: window.started_unix_ms,
            duration_s: window.duration_s,
            requests: window.facts.requests,
            acked_requests: window.facts.acked_requests,
            acked_records: window.facts.acked_records,
            cpu_s: window.facts.target_cpu.map(|cpu| cpu.total_s),
            sent_bytes: window.facts.socket_bytes.map(|bytes| bytes.sent),
            latency_us: STORY_QUANTILES.map(|(_, quantile)| state.latency_us(quantile)),
        }
    }
}

/// Outcome of a change, for the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// The change stays.
    Kept,
    /// The change was tried and rolled back.
    Rejected,
    /// The change was measured, and the result is inconclusive.
    NotShown,
    /// The change was predicted or compared, without a decision.
    Undecided,
    /// The change was in force and was rolled back.
    TakenBack,
    /// The change was re-tested together with the others, which decides nothing by itself.
    Among,
}

impl Fate {
    /// The word for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Rejected => "rejected",
            Self::NotShown => "inconclusive",
            Self::Undecided => "undecided",
            Self::TakenBack => "rolled back",
            Self::Among => "re-tested",
        }
    }
}

impl LedgerEntry {
    /// The outcome, by decision and verdict.
    pub fn fate(&self) -> Fate {
        match (self.decision.as_str(), self.verdict) {
            ("keep" | "accepted" | "applied" | "confirmed" | "passed", _) => Fate::Kept,
            ("could not tell", _) => Fate::NotShown,
            ("failed", _) => Fate::Rejected,
            ("taken back" | "put back" | "replaced", _) => Fate::TakenBack,
            ("drop" | "rejected", Some(Verdict::NotShown)) => Fate::NotShown,
            ("drop" | "rejected", _) => Fate::Rejected,
            _ if self.is_among_others() => Fate::Among,
            _ => Fate::Undecided,
        }
    }

    /// The outcome for people; for a re-test its result.
    pub fn outcome(&self) -> &str {
        match self.fate() {
            Fate::Among if self.decision == NOT_SHOWN_AGAIN => "not reconfirmed",
            Fate::Among => &self.decision,
            // A gate neither keeps nor rolls back a change.
            _ if self.verb == "gate" && !self.decision.is_empty() => &self.decision,
            fate => fate.label(),
        }
    }
}

/// A change in an experiment on a host. One host may keep a change that another host rolls back.
type Tried<'a> = (&'a str, &'a str, &'a str);

fn tried(entry: &LedgerEntry) -> Tried<'_> {
    (entry.host(), &entry.experiment, &entry.change)
}

/// The final outcome of each change: its last decision. Entries about all changes together are not changes of their own. Re-tests leave the
/// outcome unchanged.
#[derive(Debug)]
pub struct Fates<'a> {
    places: BTreeMap<Tried<'a>, usize>,
    /// For each change the entry that decided last, in the order of the trials.
    last: Vec<&'a LedgerEntry>,
}

impl<'a> Fates<'a> {
    /// The changes with this outcome, each name once, in the order of the trials.
    pub fn changes_of(&self, fate: Fate) -> Vec<&'a str> {
        let of_fate = self.last.iter().filter(|entry| entry.fate() == fate);
        let mut named = BTreeSet::new();
        of_fate.map(|entry| entry.change_alone()).filter(|change| named.insert(*change)).collect()
    }

    /// Whether an entry's change is kept in the end, or the entry is about all kept changes.
    pub fn stays(&self, entry: &LedgerEntry) -> bool {
        let last = || self.last.get(*self.places.get(&tried(entry))?);
        entry.is_of_all() || last().is_some_and(|last| last.fate() == Fate::Kept)
    }

    /// Outcome of an entry's change, in a word for people. A change that was kept but is not any more has its own word.
    pub fn outcome_of<'e>(&self, entry: &'e LedgerEntry) -> &'e str {
        match entry.fate() {
            Fate::Kept if !self.stays(entry) => "kept at first",
            _ => entry.outcome(),
        }
    }
}

impl Story {
    /// Final outcome of each change. Callers compute it once and then query it for every entry.
    pub fn fates(&self) -> Fates<'_> {
        let mut places: BTreeMap<Tried<'_>, usize> = BTreeMap::new();
        let mut last: Vec<&LedgerEntry> = Vec::new();
        let decides = |entry: &&LedgerEntry| !entry.is_of_all() && !entry.is_among_others();
        for entry in self.chapters.iter().map(|chapter| &chapter.entry).filter(decides) {
            let place = *places.entry(tried(entry)).or_insert(last.len());
            match last.get_mut(place) {
                Some(known) => *known = entry,
                None => last.push(entry),
            }
        }
        Fates { places, last }
    }

    /// The changes with this outcome; see [`Fates::changes_of`].
    pub fn changes_of(&self, fate: Fate) -> Vec<&str> {
        self.fates().changes_of(fate)
    }

    /// Measured chapters, in groups with one host, target and load. Figures are comparable only within a group. Re-tests are left out,
    /// since their states are not steps of the run.
    pub fn groups(&self) -> Vec<Vec<&Chapter>> {
        let mut places: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
        let mut groups: Vec<Vec<&Chapter>> = Vec::new();
        let is_step = |chapter: &&Chapter| chapter.after.windows > 0 && !chapter.entry.is_among_others();
        for chapter in self.chapters.iter().filter(is_step) {
            let entry = &chapter.entry;
            let key = (entry.host(), entry.experiment.as_str(), entry.workload.as_str());
            let place = *places.entry(key).or_insert(groups.len());
            match groups.get_mut(place) {
                Some(group) => group.push(chapter),
                None => groups.push(vec![chapter]),
            }
        }
        groups
    }

    /// Whether the measurements come from more than one host.
    pub fn is_of_several_hosts(&self) -> bool {
        let hosts = self.chapters.iter().map(|chapter| chapter.entry.host()).filter(|host| !host.is_empty());
        hosts.collect::<BTreeSet<_>>().len() > 1
    }

    /// Number of decided predictions, and number of correct ones.
    pub fn predictions(&self) -> [usize; 2] {
        let decided = self.chapters.iter().filter_map(|chapter| chapter.entry.foretold.as_ref()?.came_true);
        let decided: Vec<bool> = decided.collect();
        [decided.len(), decided.iter().filter(|came| **came).count()]
    }

    /// The summary in a sentence.
    pub fn sentence(&self) -> String {
        if let Some(headline) = &self.headline {
            return headline.clone();
        }
        let fates = self.fates();
        let told =
            [Fate::Kept, Fate::Rejected, Fate::NotShown, Fate::Undecided, Fate::TakenBack].map(|fate| {
                let changes = fates.changes_of(fate);
                let label = fate.label();
                let first = label.chars().next().unwrap_or_default().to_uppercase();
                let rest = label.get(1..).unwrap_or_default();
                (!changes.is_empty()).then(|| format!("{first}{rest}: {}.", changes.join("; ")))
            });
        let told: Vec<String> = told.into_iter().flatten().collect();
        if told.is_empty() { "Nothing was tried yet.".to_owned() } else { told.join(" ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chapter(change: &str, decision: &str, verdict: Option<Verdict>, workload: &str) -> Chapter {
        let entry = LedgerEntry {
            change: change.to_owned(),
            decision: decision.to_owned(),
            verdict,
            workload: workload.to_owned(),
            ..LedgerEntry::default()
        };
        let after = BatchState { windows: 1, ..BatchState::default() };
        Chapter { entry, after, ..Chapter::default() }
    }

    #[test]
    fn a_story_says_what_stays_and_what_does_not() {
        let story = Story {
            chapters: vec![
                chapter("binary: pgo", "keep", Some(Verdict::Better), "a"),
                chapter("binary: pgo", "keep", Some(Verdict::Better), "b"),
                chapter("client: linger=5ms", "rejected", Some(Verdict::Worse), "a"),
                chapter("binary: bolt", "drop", Some(Verdict::NotShown), "a"),
                chapter("host: profile latency", "applied", None, ""),
                chapter("host: profile kafka", "applied", None, ""),
                chapter("host: profile kafka", "taken back", None, ""),
            ],
            ..Story::default()
        };
        let sentence = story.sentence();
        assert_eq!(
            sentence,
            "Kept: pgo; profile latency. Rejected: linger=5ms. Inconclusive: bolt. Rolled back: profile \
             kafka.",
            "each change once, without its layer"
        );
        assert_eq!(story.groups().iter().map(Vec::len).collect::<Vec<_>>(), [3, 1, 3]);
        assert_eq!(Story::default().sentence(), "Nothing was tried yet.");
    }

    #[test]
    fn what_was_kept_at_first_and_put_back_later_does_not_stay() {
        let better = Some(Verdict::Better);
        let story = Story {
            chapters: vec![
                chapter("client: linger=5ms", "accepted", better, "a"),
                chapter("client: linger=20ms", "accepted", better, "a"),
                chapter("client: linger=5ms", "replaced", None, "a"),
                chapter("client: codec=lz4", "accepted", better, "a"),
                chapter("client: codec=lz4", "put back", Some(Verdict::Worse), "a"),
                chapter("client: linger=20ms", crate::ledger::NOT_SHOWN_AGAIN, Some(Verdict::NotShown), "a"),
                chapter(crate::ledger::ALL_TOGETHER, "accepted", better, "a"),
            ],
            ..Story::default()
        };
        assert_eq!(story.changes_of(Fate::Kept), ["linger=20ms"], "not reconfirmed, but still kept");
        assert_eq!(story.changes_of(Fate::TakenBack), ["linger=5ms", "codec=lz4"]);
        assert_eq!(story.changes_of(Fate::Among), [""; 0]);
        let fates = story.fates();
        assert_eq!(fates.outcome_of(&story.chapters[5].entry), "not reconfirmed");
        let outcomes = [0, 1, 6].map(|place: usize| fates.outcome_of(&story.chapters[place].entry));
        assert_eq!(outcomes, ["kept at first", "kept", "kept"]);
        assert_eq!(story.groups()[0].len(), story.chapters.len() - 1, "not a step of the run");
    }

    /// Ledgers of several hosts become one, and a host has several experiments.
    #[test]
    fn what_is_put_back_elsewhere_stays_here() {
        let of = |who: &str, experiment: &str, decision: &str| {
            let mut told = chapter("client: linger=5ms", decision, Some(Verdict::Better), "a");
            (told.entry.who, told.entry.experiment) = (who.to_owned(), experiment.to_owned());
            told
        };
        let story = Story {
            chapters: vec![
                of("ada@one", "orders", "accepted"),
                of("ada@two", "orders", "accepted"),
                of("ada@one", "payments", "accepted"),
                of("ada@two", "orders", "put back"),
                of("bob@one", "payments", "put back"),
            ],
            ..Story::default()
        };
        let fates = story.fates();
        let outcomes = [0, 1, 2, 3, 4].map(|place: usize| fates.outcome_of(&story.chapters[place].entry));
        assert_eq!(outcomes, ["kept", "kept at first", "kept at first", "rolled back", "rolled back"]);
        let stays = [0, 1, 2].map(|place: usize| fates.stays(&story.chapters[place].entry));
        assert_eq!(stays, [true, false, false]);
        assert_eq!(fates.changes_of(Fate::Kept), ["linger=5ms"], "on one host, in one experiment");
    }
}

//! What lies in folders of runs and records, as it is listed, compared and followed over commits. Told by `hone serve`; no record files of
//! their own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::comparison::Verdict;
use crate::metric::Metric;

/// The kind under which a file is listed that should be a record and can't be read as one.
pub const BROKEN: &str = "broken";

/// A record file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ShelfRecord {
    /// Names it in addresses: hex digits, the same as long as the file has its name.
    pub id: String,
    /// Below the folder that is shown, which stands first.
    pub path: String,
    /// What it holds, as the record says itself; [`BROKEN`] where it says nothing.
    pub kind: String,
    /// What it is of, in a few words.
    pub title: String,
    /// What was found, where the record is of a kind that finds something.
    pub verdict: Option<Verdict>,
    /// How it ended, or what is wrong with it, in words; may be empty.
    pub said: String,
    /// When it was measured, or else written, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// Size of the file.
    pub bytes: u64,
    /// The run that it is of.
    pub run: Option<String>,
    /// Of a window, what was measured.
    pub window: Option<ShelfWindow>,
}

impl ShelfRecord {
    /// Whether it can't be read.
    pub fn is_broken(&self) -> bool {
        self.kind == BROKEN
    }
}

/// What a list, and a history, need of a window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ShelfWindow {
    /// The variant.
    pub variant: String,
    /// The commit of the target, where the record says it.
    pub commit: Option<String>,
    /// Load, durability and machine, in words.
    pub circumstances: String,
    /// The same to the last setting, hashed: windows in which it is alike may be points of one line.
    pub alike: String,
    /// Seconds that it took.
    pub duration_s: f64,
    /// Why it does not count, beside windows that were measured at other times.
    pub left_out: Option<String>,
    /// Each metric that the window can tell, in its own unit.
    pub values: BTreeMap<Metric, f64>,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// A process has it.
    Running,
    /// Its result is there.
    Finished,
    /// Neither: it was broken off, or nobody can see who has it.
    #[default]
    Unfinished,
}

impl RunState {
    /// Every state, in the order of lists.
    pub const ALL: [Self; 3] = [Self::Running, Self::Finished, Self::Unfinished];

    /// The state for people, and in addresses.
    pub fn label(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Unfinished => "unfinished",
        }
    }
}

/// A run's folder.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ShelfRun {
    /// Names it in addresses.
    pub id: String,
    /// Below the folder that is shown, which stands first.
    pub path: String,
    /// How far it is.
    pub state: RunState,
    /// The process that has it.
    pub pid: Option<u32>,
    /// Kind of its result; empty where there is none.
    pub kind: String,
    /// What it is of, in a few words.
    pub title: String,
    /// What was found.
    pub verdict: Option<Verdict>,
    /// When the newest of its files was written, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// Record files in it that were read.
    pub records: usize,
    /// The record of its result.
    pub result: Option<String>,
}

/// One part of a run, as far as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunStage {
    /// Its folder in the run, or its step; empty for the run itself.
    pub name: String,
    /// What is counted: `pairs`, `rounds`, `windows`, `step`.
    pub counted: String,
    /// So many are there.
    pub done: u64,
    /// Of so many; `None` where nobody knows before the end.
    pub of: Option<u64>,
    /// What else its files say: which change is tried, what was decided.
    pub note: String,
}

/// A run with what is in it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunProgress {
    /// The run.
    pub run: ShelfRun,
    /// Its parts, in their order.
    pub stages: Vec<RunStage>,
    /// Its variants with the windows that each has.
    pub variants: BTreeMap<String, usize>,
    /// The windows that were written last, the newest first.
    pub last_windows: Vec<ShelfRecord>,
    /// Its other records.
    pub records: Vec<ShelfRecord>,
}

/// What the points of a history stand for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HistoryOver {
    /// Commits of the target, named in windows.
    #[default]
    Commits,
    /// Builds, named by the beginning of the program's SHA-256.
    Builds,
    /// Entries of a ledger on one question.
    Entries,
}

impl HistoryOver {
    /// The name for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Commits => "commits",
            Self::Builds => "builds",
            Self::Entries => "entries of the ledger",
        }
    }
}

/// A line that can be followed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HistoryLine {
    /// Names it in addresses.
    pub id: String,
    /// What its points stand for.
    pub over: HistoryOver,
    /// Which variant, or which change.
    pub name: String,
    /// What is alike in all of its points.
    pub circumstances: String,
    /// What it can be followed by, and how many points each has.
    pub metrics: BTreeMap<Metric, usize>,
}

/// A point of a history.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HistoryPoint {
    /// The commit, the build, or the time of an entry.
    pub label: String,
    /// When its first window began, or its entry was written, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// Geometric mean over the windows; of entries, the ratio of after to before.
    pub value: f64,
    /// Windows that it rests on; of an entry, its pairs.
    pub windows: usize,
    /// Where it comes from, in words.
    pub source: String,
    /// A record of it.
    pub record: Option<String>,
    /// The run that it is of.
    pub run: Option<String>,
}

/// Where a line of values changes its level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChangePoint {
    /// The first value behind it, counted from 0.
    pub first: usize,
    /// Geometric mean from the change point before, or the beginning, up to here.
    pub before: f64,
    /// Geometric mean from here to the next one, or the end.
    pub after: f64,
    /// `after` to `before`.
    pub ratio: f64,
    /// Share of permutations that show as much, 0 to 1.
    pub p_value: f64,
}

/// A metric followed over commits, builds or entries.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// The line.
    pub line: HistoryLine,
    /// The metric; `None` for a line without any.
    pub metric: Option<Metric>,
    /// Oldest first.
    pub points: Vec<HistoryPoint>,
    /// Older points that are not looked at.
    pub left_out: usize,
    /// Where the level changes.
    pub change_points: Vec<ChangePoint>,
    /// The rule by which these are found, in words.
    pub rule: String,
}

/// A field in which two records differ.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldDifference {
    /// Where it stands: `workload.acks`.
    pub field: String,
    /// What A has; `None` where there is none.
    pub a: Option<String>,
    /// What B has.
    pub b: Option<String>,
}

/// Two records beside each other, of which no ratio can be computed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SideBySide {
    /// The first.
    pub a: ShelfRecord,
    /// The second.
    pub b: ShelfRecord,
    /// Fields that differ, in the order of the first.
    pub differences: Vec<FieldDifference>,
    /// Further ones that are not listed.
    pub not_listed: usize,
}

/// What of a list is asked for; nothing asked for is all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShelfFilter {
    /// Words that all have to stand in path, kind, title or outcome.
    pub text: String,
    /// A kind of record, or of a run's result.
    pub kind: Option<String>,
    /// A verdict.
    pub verdict: Option<Verdict>,
    /// A state of runs.
    pub state: Option<RunState>,
    /// What was chosen as the first side of a comparison, and is kept in all links until the second one is.
    pub a: Option<String>,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShelfPage<T> {
    /// What was asked for.
    pub filter: ShelfFilter,
    /// What of it is on this page.
    pub items: Vec<T>,
    /// So many are as asked for.
    pub matching: usize,
    /// So many there are.
    pub in_all: usize,
    /// The number of this page, from 1.
    pub page: usize,
    /// Pages there are, at least one.
    pub pages: usize,
    /// Kinds that there are, with how many of each.
    pub kinds: BTreeMap<String, usize>,
}

/// A ledger in short.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShelfLedger {
    /// Names it in addresses.
    pub id: String,
    /// Below the folder that is shown, which stands first.
    pub path: String,
    /// Size of the file.
    pub bytes: u64,
}

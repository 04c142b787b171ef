//! Folders of runs and records as `hone serve` lists, compares and follows them over commits. These types have no record files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::comparison::{Comparison, Verdict};
use crate::metric::Metric;

/// The kind of a file that should be a record but can't be read as one.
pub const BROKEN: &str = "broken";

/// A record file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ShelfRecord {
    /// Identifier in addresses: hex digits that stay the same while the file has its name.
    pub id: String,
    /// Path below the folder that is served, which is its first part.
    pub path: String,
    /// Kind of the record as the record states it; [`BROKEN`] if it states none.
    pub kind: String,
    /// Subject of the record, in a few words.
    pub title: String,
    /// The verdict, if records of this kind have one.
    pub verdict: Option<Verdict>,
    /// The outcome, or the defect of the file, in words; it may be empty.
    pub said: String,
    /// Time of the measurement, or of the file, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// Size of the file.
    pub bytes: u64,
    /// The run that the record belongs to.
    pub run: Option<String>,
    /// Data of a window, if the record is one.
    pub window: Option<ShelfWindow>,
    /// The outcome in numbers, if records of this kind compare or change something.
    #[serde(default)]
    pub outcome: Option<ShelfOutcome>,
}

impl ShelfRecord {
    /// Whether the record can't be read.
    pub fn is_broken(&self) -> bool {
        self.kind == BROKEN
    }
}

/// What a run compared or changed, and what came out, for one row of a list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ShelfOutcome {
    /// What was compared or changed: addresses, commands, commits, or the one change.
    pub subject: String,
    /// The target: an address, a command, or its name in the experiment file. Empty if it is unknown.
    pub target: String,
    /// Layer of the change: `binary`, `broker`, `client` or `host`. Empty if it is unknown, or if there are several.
    pub layer: String,
    /// Runs with the same text ask the same question, so their values form one line over time.
    pub series: String,
    /// Names of the two variants, if the record does not say what they are. Their windows have the addresses.
    pub variants: Option<[String; 2]>,
    /// The primary metric.
    pub metric: Option<Metric>,
    /// Ratio of after to before, with the lower and the upper end of its confidence interval.
    pub ratio: Option<[f64; 3]>,
    /// Values of the metric before and after, in its own unit.
    pub values: Option<[f64; 2]>,
    /// Value of the metric, if the run has nothing to compare it with.
    #[serde(default)]
    pub value: Option<f64>,
    /// The outcome in a word or two: `2 of 5 kept`, `SLO met`. Empty if the verdict says it.
    #[serde(default)]
    pub word: String,
    /// Colour and mark of that word.
    #[serde(default)]
    pub mark: Option<Verdict>,
    /// The figure that carries the outcome, if it is no metric: `42.3 %`. Empty otherwise.
    #[serde(default)]
    pub figure: String,
    /// The name of that figure, or the change or load that the metric belongs to. It may be empty.
    #[serde(default)]
    pub figure_name: String,
    /// Duration in seconds, if the record states it.
    pub duration_s: Option<f64>,
    /// The machine, in a few words.
    pub machine: String,
}

/// Data of a window for lists and histories.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ShelfWindow {
    /// The variant.
    pub variant: String,
    /// The commit of the target, if the record states it.
    pub commit: Option<String>,
    /// Load, durability class and machine, in words.
    pub circumstances: String,
    /// Hash over all of these settings. Windows with the same hash may be points of one line.
    pub alike: String,
    /// Duration in seconds.
    pub duration_s: f64,
    /// Why the window can't be compared with windows measured at other times.
    pub left_out: Option<String>,
    /// Each metric that the window provides, in its own unit.
    pub values: BTreeMap<Metric, f64>,
    /// Address of the load's target, `host:port`.
    #[serde(default)]
    pub address: String,
}

/// Progress of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// A process is running it.
    Running,
    /// Its result exists.
    Finished,
    /// The run has no result and no visible process: it was interrupted, or its process can't be seen.
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
    /// Identifier in addresses.
    pub id: String,
    /// Path below the folder that is served, which is its first part.
    pub path: String,
    /// Progress of the run.
    pub state: RunState,
    /// Id of the process that runs it.
    pub pid: Option<u32>,
    /// Kind of its result; empty without a result.
    pub kind: String,
    /// Subject of the run, in a few words.
    pub title: String,
    /// The verdict.
    pub verdict: Option<Verdict>,
    /// Time of its newest file, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// Number of readable record files in it.
    pub records: usize,
    /// The record of its result.
    pub result: Option<String>,
    /// What it compared or changed, and what came out. For a running run, this is the state after its last pair.
    #[serde(default)]
    pub outcome: Option<ShelfOutcome>,
    /// Values of the primary metric in the runs of the same series, up to this run, oldest first.
    #[serde(default)]
    pub history: Vec<f64>,
    /// The part that is in progress, for a running run.
    #[serde(default)]
    pub stage: Option<RunStage>,
    /// Expected time until the end of that part, in seconds.
    #[serde(default)]
    pub left_s: Option<f64>,
}

/// Progress of one part of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunStage {
    /// Its folder in the run, or its step; empty for the run itself.
    pub name: String,
    /// The unit of progress: `pairs`, `rounds`, `windows`, `step`.
    pub counted: String,
    /// Number of finished units.
    pub done: u64,
    /// Total number of units; `None` if it is unknown until the end.
    pub of: Option<u64>,
    /// Further progress from its files: the change in trial, the decisions.
    pub note: String,
}

/// A run with its contents.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunProgress {
    /// The run.
    pub run: ShelfRun,
    /// Its parts, in their order.
    pub stages: Vec<RunStage>,
    /// Its variants with their number of windows.
    pub variants: BTreeMap<String, usize>,
    /// Its latest windows, the newest first.
    pub last_windows: Vec<ShelfRecord>,
    /// Its other records.
    pub records: Vec<ShelfRecord>,
    /// The comparison that it measured last, as far as its pairs go; `None` without pairs.
    #[serde(default)]
    pub pairs: Option<RunPairs>,
}

/// A comparison that is not finished.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunPairs {
    /// Its folder in the run; empty for the run itself.
    pub part: String,
    /// The measured pairs, and the estimate of the primary metric that they support so far.
    pub comparison: Comparison,
    /// Number of planned pairs.
    pub planned: usize,
    /// Expected time until the last planned pair, in seconds.
    pub left_s: Option<f64>,
    /// The effect that the pairs should detect, as a ratio above 1.
    pub effect_ratio: f64,
    /// Probability that the planned pairs detect that effect, by the A/A pairs so far; `None` with too few of them.
    pub power: Option<f64>,
    /// Smallest effect that the planned pairs probably detect, as a ratio above 1.
    pub detectable_ratio: Option<f64>,
}

/// The unit of the points of a history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HistoryOver {
    /// Commits of the target, as windows name them.
    #[default]
    Commits,
    /// Builds, named by a prefix of the program's SHA-256.
    Builds,
    /// Entries of a ledger on one question.
    Entries,
    /// Files that another benchmark tool wrote.
    Imports,
}

impl HistoryOver {
    /// The name for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Commits => "commits",
            Self::Builds => "builds",
            Self::Entries => "ledger entries",
            Self::Imports => "imported files",
        }
    }
}

/// What the values of a line are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measure {
    /// Name in exports and on the command line: `latency-p50`, or what another tool calls it: `ns/op`.
    pub name: String,
    /// The name for people.
    pub label: String,
    /// Unit of the values; empty for a ratio.
    pub unit: String,
    /// Whether a smaller value is the better one; `None` if it is unknown.
    pub lower_is_better: Option<bool>,
}

impl Measure {
    /// A metric of Hone. Over ledger entries the values are ratios, and which direction is the better one is unknown: another program may
    /// have judged them.
    pub fn of_metric(metric: Metric, over: HistoryOver) -> Self {
        let is_ratio = over == HistoryOver::Entries;
        Self {
            name: metric.name().to_owned(),
            label: metric.label().to_owned(),
            unit: if is_ratio { String::new() } else { metric.unit().to_owned() },
            lower_is_better: (!is_ratio).then(|| metric.lower_is_better()),
        }
    }

    /// Whether a change goes into the better direction; `None` if the direction is unknown.
    pub fn is_better(&self, change: &ChangePoint) -> Option<bool> {
        self.lower_is_better.map(|lower| lower == (change.ratio < 1.0))
    }
}

/// A line of a history.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HistoryLine {
    /// Identifier in addresses.
    pub id: String,
    /// The unit of its points.
    pub over: HistoryOver,
    /// The variant or the change.
    pub name: String,
    /// The settings that all its points share.
    pub circumstances: String,
    /// The metrics of the line, with their number of points.
    pub metrics: BTreeMap<Metric, usize>,
    /// The newest points of each metric, for a list.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub trends: BTreeMap<Metric, HistoryTrend>,
}

/// The newest points of one metric of a line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HistoryTrend {
    /// Values, oldest first.
    pub values: Vec<f64>,
    /// The last change point of these values.
    pub last_change: Option<ChangePoint>,
    /// Whether the search for change points was done. A list has little time.
    pub is_searched: bool,
}

/// A point of a history.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HistoryPoint {
    /// The commit, the build, or the time of an entry.
    pub label: String,
    /// Start of its first window, or time of its entry, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// Geometric mean over the windows; for entries, the ratio of after to before; for imports, the result that the tool prints.
    pub value: f64,
    /// Smallest and largest value of its windows; for entries and for tools that state one, the confidence interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
    /// Number of its windows; for an entry, the number of its pairs; for an import, the number of its runs, 0 if it is unknown.
    pub windows: usize,
    /// Its source, in words.
    pub source: String,
    /// One of its records.
    pub record: Option<String>,
    /// The run that it belongs to.
    pub run: Option<String>,
}

/// A change point: a line of values changes its level here.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChangePoint {
    /// Index of the first value after the change, counted from 0.
    pub first: usize,
    /// Geometric mean from the previous change point, or the beginning, to this one.
    pub before: f64,
    /// Geometric mean from this change point to the next one, or the end.
    pub after: f64,
    /// Ratio of `after` to `before`.
    pub ratio: f64,
    /// p-value: share of permutations with at least this difference, 0 to 1.
    pub p_value: f64,
}

impl ChangePoint {
    /// Least number of points on each side of a change point: fewer are an outlier.
    pub const FEWEST_BESIDE: usize = 3;
    /// Least number of points of a line in which a change point can be found.
    pub const FEWEST_POINTS: usize = 2 * Self::FEWEST_BESIDE;

    /// Whether the change lies among the newest `within` of `points` points.
    pub fn is_new(&self, points: usize, within: usize) -> bool {
        self.first + within >= points
    }
}

/// What the search for change points says of a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LineState {
    /// A new change point is for the worse.
    NewWorse,
    /// There is a new change point, and which direction is the better one is unknown.
    NewChange,
    /// Every new change point is for the better.
    NewBetter,
    /// All change points are older.
    OldChange,
    /// There is no change point.
    NoChange,
    /// A value is 0 or less, so that changes have no ratio.
    NotPositive,
    /// There are fewer than [`ChangePoint::FEWEST_POINTS`] points.
    #[default]
    TooFewPoints,
}

/// One metric of one target under the same circumstances, as `hone history` shows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MetricLine {
    /// Identifier of the line. All metrics of a line share it.
    pub id: String,
    /// The unit of its points.
    pub over: HistoryOver,
    /// The variant, the change or the benchmark.
    pub name: String,
    /// The settings that all its points share.
    pub circumstances: String,
    /// What its values are.
    pub measure: Measure,
    /// What the search says.
    pub state: LineState,
    /// The change points, oldest first.
    pub change_points: Vec<ChangePoint>,
    /// Points, oldest first.
    pub points: Vec<HistoryPoint>,
    /// Number of older points that are left out.
    pub left_out: usize,
}

impl MetricLine {
    /// Digits of an id that name a line.
    pub const ID_DIGITS: usize = 8;

    /// The name, with digits of the id if another of these lines has the same name and metric.
    pub fn name_among(&self, lines: &[Self]) -> String {
        let is_same = |other: &&Self| other.name == self.name && other.measure == self.measure;
        let id = self.id.get(..Self::ID_DIGITS).unwrap_or(&self.id);
        if lines.iter().filter(is_same).count() > 1 {
            format!("{} ({id})", self.name)
        } else {
            self.name.clone()
        }
    }
}

/// What `hone history` found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MetricHistory {
    /// The lines, those with a new change point for the worse first.
    pub lines: Vec<MetricLine>,
    /// Number of newest points in which a change point is new.
    pub within: usize,
    /// The rule that finds change points, in words.
    pub rule: String,
    /// What was left out, in words.
    pub notes: Vec<String>,
}

impl MetricHistory {
    /// The lines in this state.
    pub fn in_state(&self, state: LineState) -> impl Iterator<Item = &MetricLine> {
        self.lines.iter().filter(move |line| line.state == state)
    }
}

/// The history of one metric over commits, builds or entries.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// The line.
    pub line: HistoryLine,
    /// The metric; `None` for a line without metrics.
    pub metric: Option<Metric>,
    /// Points, oldest first.
    pub points: Vec<HistoryPoint>,
    /// Number of older points that are left out.
    pub left_out: usize,
    /// The change points.
    pub change_points: Vec<ChangePoint>,
    /// The rule that finds them, in words.
    pub rule: String,
    /// Ledger entries between its first and its last point, oldest first.
    #[serde(default)]
    pub notes: Vec<HistoryNote>,
}

/// A ledger entry on the time axis of a history.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryNote {
    /// Index of the first point that is not older than the entry.
    pub first: usize,
    /// Time of the entry, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// The change.
    pub change: String,
    /// The decision, in words.
    pub decision: String,
    /// The ledger.
    pub ledger: String,
    /// Line of the entry in the ledger.
    pub line: usize,
}

/// A field in which two records differ.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldDifference {
    /// Path of the field: `workload.acks`.
    pub field: String,
    /// Value in A; `None` if A has none.
    pub a: Option<String>,
    /// Value in B; `None` if B has none.
    pub b: Option<String>,
}

/// Two records side by side, if no ratio of them can be computed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SideBySide {
    /// The first.
    pub a: ShelfRecord,
    /// The second.
    pub b: ShelfRecord,
    /// Differing fields, in the order of the first record.
    pub differences: Vec<FieldDifference>,
    /// Number of further differing fields.
    pub not_listed: usize,
}

/// Filter of a list; an empty filter matches all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShelfFilter {
    /// Words that must all occur in path, kind, title or outcome.
    pub text: String,
    /// A kind of record, or of a run's result.
    pub kind: Option<String>,
    /// A verdict.
    pub verdict: Option<Verdict>,
    /// A state of runs.
    pub state: Option<RunState>,
    /// The record chosen as the first side of a comparison. All links keep it until the second side is chosen.
    pub a: Option<String>,
    /// A target of runs.
    #[serde(default)]
    pub target: Option<String>,
    /// The layer of a change.
    #[serde(default)]
    pub layer: Option<String>,
    /// The largest age of runs, in hours.
    #[serde(default)]
    pub hours: Option<u64>,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShelfPage<T> {
    /// The filter.
    pub filter: ShelfFilter,
    /// The rows of this page.
    pub items: Vec<T>,
    /// Number of rows that match the filter.
    pub matching: usize,
    /// Number of rows in total.
    pub in_all: usize,
    /// The number of this page, from 1.
    pub page: usize,
    /// Number of pages, at least one.
    pub pages: usize,
    /// All kinds, with the number of rows of each.
    pub kinds: BTreeMap<String, usize>,
    /// All targets, with the number of rows of each.
    #[serde(default)]
    pub targets: BTreeMap<String, usize>,
    /// All layers, with the number of rows of each.
    #[serde(default)]
    pub layers: BTreeMap<String, usize>,
}

/// Summary of a ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShelfLedger {
    /// Identifier in addresses.
    pub id: String,
    /// Path below the folder that is served, which is its first part.
    pub path: String,
    /// Size of the file.
    pub bytes: u64,
}

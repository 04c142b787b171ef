//! Lines of one metric over commits, builds or ledger entries, with their change points.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hone_binary::sha256_hex;
use hone_compare::{CHANGE_POINT_RULE, MOST_VALUES, change_points, geometric_mean};
use hone_record::{
    ChangePoint, History, HistoryLine, HistoryNote, HistoryOver, HistoryPoint, HistoryTrend, LedgerEntry,
    Metric, ShelfRecord,
};
use hone_report::verdict::decision_label;

use super::shelf::Content;
use hone_experiment::reader::Reader;

/// Characters of a point's label, if it is a hash.
const SHORT: usize = 12;
/// Minimum points of a line.
const FEWEST_POINTS: usize = 2;
/// The size limit of a ledger with history, because every page would read all of it.
pub(crate) const MOST_LEDGER_BYTES: u64 = 64 << 20;
/// A longer pause between two windows of a folder starts a new session. A session has room for a start, a warm-up and failed
/// windows.
const MOST_PAUSE_MS: u64 = 30 * 60_000;
/// Maximum ledger entries next to a line: the newest.
const MOST_NOTES: usize = 20;
/// Points of a metric in the list of lines, the newest: a sparkline has no room for more.
const LISTED_POINTS: usize = 60;
/// Time for the search for change points in the list of lines.
const MOST_SEARCH: Duration = Duration::from_millis(300);
/// Answers that are kept.
const MOST_SEARCHED: usize = 10_000;
/// Seed of the permutations, so that the same history gives the same page.
const SEED: u64 = 1;

/// A line with the points of each of its metrics, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Line {
    pub(crate) line: HistoryLine,
    pub(crate) points: BTreeMap<Metric, Vec<HistoryPoint>>,
}

/// The lines that a page shows, by their ids: those with enough points.
pub(super) fn lines(content: &Content, reader: &dyn Reader) -> BTreeMap<String, Line> {
    let mut lines = all_lines(content, reader);
    lines.retain(|_, line| {
        line.points.retain(|_, points| points.len() >= FEWEST_POINTS);
        line.line.metrics = line.points.iter().map(|(metric, points)| (*metric, points.len())).collect();
        !line.points.is_empty()
    });
    lines
}

/// All lines, by their ids.
pub(crate) fn all_lines(content: &Content, reader: &dyn Reader) -> BTreeMap<String, Line> {
    let mut lines = of_windows(content);
    for (shown, path) in content.ledgers.values() {
        if shown.bytes <= MOST_LEDGER_BYTES {
            of_ledger(content, (&shown.id, path), reader, &mut lines);
        }
    }
    for points in lines.values_mut().flat_map(|line| line.points.values_mut()) {
        points.sort_by_key(|point| point.at_unix_ms);
    }
    lines
}

/// A line by one metric. The default is its first metric.
pub(super) fn history(line: &Line, asked: Option<Metric>) -> History {
    let metric = asked.filter(|metric| line.points.contains_key(metric));
    let metric = metric.or_else(|| line.points.keys().next().copied());
    let all = metric.and_then(|metric| line.points.get(&metric)).map(Vec::as_slice).unwrap_or_default();
    let (newest, change_points) = newest_searched(all, MOST_VALUES);
    History {
        line: line.line.clone(),
        metric,
        change_points,
        points: newest.to_vec(),
        left_out: all.len() - newest.len(),
        rule: CHANGE_POINT_RULE.to_owned(),
        notes: Vec::new(),
    }
}

/// The newest points, at most `most` and [`MOST_VALUES`], and their change points.
pub(crate) fn newest_searched(all: &[HistoryPoint], most: usize) -> (&[HistoryPoint], Vec<ChangePoint>) {
    let left_out = all.len().saturating_sub(most.min(MOST_VALUES));
    let newest = all.get(left_out..).unwrap_or_default();
    let values: Vec<f64> = newest.iter().map(|point| point.value).collect();
    (newest, change_points(&values, SEED))
}

/// The lines with the newest points of each metric, and their last change point. A metric whose search had no time yet has none; the next
/// page continues.
pub(super) fn with_trends(lines: BTreeMap<String, Line>) -> Vec<HistoryLine> {
    let until = Instant::now() + MOST_SEARCH;
    let trend = |points: &[HistoryPoint]| {
        let newest = points.get(points.len().saturating_sub(LISTED_POINTS)..).unwrap_or_default();
        let values: Vec<f64> = newest.iter().map(|point| point.value).collect();
        let found = searched(&values, until);
        HistoryTrend { values, last_change: found.flatten(), is_searched: found.is_some() }
    };
    let listed = |line: Line| {
        let trends = line.points.iter().map(|(metric, points)| (*metric, trend(points.as_slice()))).collect();
        HistoryLine { trends, ..line.line }
    };
    lines.into_values().map(listed).collect()
}

/// Answers of earlier searches, by the values.
static SEARCHED: Mutex<BTreeMap<Vec<u64>, Option<ChangePoint>>> = Mutex::new(BTreeMap::new());

/// The last change point of these values. `None` after the time limit, unless an earlier page searched the same values.
fn searched(values: &[f64], until: Instant) -> Option<Option<ChangePoint>> {
    let key: Vec<u64> = values.iter().map(|value| value.to_bits()).collect();
    let known = || SEARCHED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known().get(&key) {
        return Some(*found);
    }
    if Instant::now() >= until {
        return None;
    }
    let found = change_points(values, SEED).last().copied();
    let mut known = known();
    if known.len() >= MOST_SEARCHED {
        known.clear();
    }
    known.insert(key, found);
    Some(found)
}

/// The ledger entries between the first and the last point. A line of ledger entries has none, because its points are entries.
pub(super) fn notes(content: &Content, reader: &dyn Reader, found: &History) -> Vec<HistoryNote> {
    let (Some(first), Some(last)) = (found.points.first(), found.points.last()) else { return Vec::new() };
    if found.line.over == HistoryOver::Entries {
        return Vec::new();
    }
    let range = first.at_unix_ms..=last.at_unix_ms;
    let mut notes = Vec::new();
    for (shown, path) in content.ledgers.values().filter(|(shown, _)| shown.bytes <= MOST_LEDGER_BYTES) {
        let Ok(checked) = reader.ledger(path) else { continue };
        for line in checked.lines {
            let at_unix_ms = line.entry.at_unix_ms;
            if !range.contains(&at_unix_ms) {
                continue;
            }
            notes.push(HistoryNote {
                first: found.points.partition_point(|point| point.at_unix_ms < at_unix_ms),
                at_unix_ms,
                decision: decision_label(&line.entry.decision).to_owned(),
                change: line.entry.change,
                ledger: shown.id.clone(),
                line: line.number,
            });
        }
    }
    notes.sort_by_key(|note| note.at_unix_ms);
    let older = notes.len().saturating_sub(MOST_NOTES);
    notes.split_off(older)
}

/// The id of a line: digits of a hash over what makes it another line.
pub(crate) fn id_of(parts: &[&str]) -> String {
    let mut id = sha256_hex(parts.join("\n").as_bytes());
    id.truncate(16);
    id
}

/// The windows of one session. They share its conditions, so they form one point.
#[derive(Debug, Default)]
struct Sitting {
    label: String,
    at_unix_ms: u64,
    source: String,
    record: Option<String>,
    run: Option<String>,
    values: BTreeMap<Metric, Vec<f64>>,
}

fn of_windows(content: &Content) -> BTreeMap<String, Line> {
    let builds: HashMap<&str, &BTreeMap<String, String>> = content
        .records
        .values()
        .filter(|item| !item.builds.is_empty())
        .filter_map(|item| Some((item.record.run.as_deref()?, &item.builds)))
        .collect();
    let mut lines: BTreeMap<String, Line> = BTreeMap::new();
    let mut sittings: BTreeMap<(String, String, &str, usize), Sitting> = BTreeMap::new();
    for (record, number) in by_sittings(content.records.values().map(|item| &item.record)) {
        let Some(window) = record.window.as_ref().filter(|window| window.left_out.is_none()) else {
            continue;
        };
        let build = || Some((HistoryOver::Builds, builds.get(record.run.as_deref()?)?.get(&window.variant)?));
        let named = window.commit.as_ref().map(|commit| (HistoryOver::Commits, commit)).or_else(build);
        let Some((over, name)) = named else { continue };
        let id = id_of(&[over.label(), &window.variant, &window.alike]);
        lines.entry(id.clone()).or_insert_with(|| Line {
            line: HistoryLine {
                id: id.clone(),
                over,
                name: window.variant.clone(),
                circumstances: window.circumstances.clone(),
                ..HistoryLine::default()
            },
            points: BTreeMap::new(),
        });
        let folder = folder_of(record);
        let sitting = sittings.entry((id, name.clone(), folder, number)).or_insert_with(|| Sitting {
            label: name.get(..SHORT).unwrap_or(name).to_owned(),
            at_unix_ms: u64::MAX,
            source: folder.to_owned(),
            run: record.run.clone(),
            ..Sitting::default()
        });
        if record.at_unix_ms < sitting.at_unix_ms {
            sitting.at_unix_ms = record.at_unix_ms;
            sitting.record = Some(record.id.clone());
        }
        for (metric, value) in &window.values {
            sitting.values.entry(*metric).or_default().push(*value);
        }
    }
    for ((id, ..), sitting) in sittings {
        if let Some(line) = lines.get_mut(&id) {
            line.add(&sitting);
        }
    }
    lines
}

fn folder_of(record: &ShelfRecord) -> &str {
    record.path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Windows with the number of their session in their folder. A folder with the windows of every night has one session for each
/// night.
fn by_sittings<'a>(records: impl Iterator<Item = &'a ShelfRecord>) -> Vec<(&'a ShelfRecord, usize)> {
    let mut windows: Vec<&ShelfRecord> = records.filter(|record| record.window.is_some()).collect();
    windows.sort_by_key(|record| (folder_of(record), record.at_unix_ms));
    let (mut folder, mut number, mut until) = ("", 0, 0);
    let mut found = Vec::new();
    for record in windows {
        if folder != folder_of(record) {
            (folder, number, until) = (folder_of(record), 0, 0);
        }
        if record.at_unix_ms.saturating_sub(until) > MOST_PAUSE_MS {
            number += 1;
        }
        let took_ms = record.window.as_ref().map_or(0, |window| (window.duration_s * 1e3) as u64);
        until = until.max(record.at_unix_ms.saturating_add(took_ms));
        found.push((record, number));
    }
    found
}

impl Line {
    fn add(&mut self, sitting: &Sitting) {
        for (metric, values) in &sitting.values {
            let Some((value, windows)) = geometric_mean(values) else { continue };
            let point = HistoryPoint {
                label: sitting.label.clone(),
                at_unix_ms: sitting.at_unix_ms,
                value,
                // The mean of equal values can differ from them by its rounding.
                range: smallest_and_largest(values.iter().copied().filter(|one| *one > 0.0).chain([value])),
                windows,
                source: sitting.source.clone(),
                record: sitting.record.clone(),
                run: sitting.run.clone(),
            };
            self.points.entry(*metric).or_default().push(point);
        }
    }
}

/// The ends of some values. `None` without values.
pub(crate) fn smallest_and_largest(values: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    values.fold(None, |ends, value| {
        let [low, high] = ends.unwrap_or([value; 2]);
        Some([low.min(value), high.max(value)])
    })
}

/// The answers to one question, once for each time that it was asked.
fn of_ledger(
    content: &Content,
    (ledger, path): (&str, &Path),
    reader: &dyn Reader,
    lines: &mut BTreeMap<String, Line>,
) {
    let Ok(checked) = reader.ledger(path) else { return };
    for line in checked.lines {
        let (Some(metric), Some([ratio, low, high])) = (line.entry.metric, line.entry.ratio) else {
            continue;
        };
        if !(ratio.is_finite() && ratio > 0.0) {
            continue;
        }
        let entry = line.entry;
        // The loads and targets come from command lines and have no names. So nothing shows that two of them
        // are the same.
        if entry.verb == "compare" {
            continue;
        }
        let id =
            id_of(&[ledger, entry.host(), &entry.verb, &entry.experiment, &entry.change, &entry.workload]);
        let known = lines.entry(id.clone()).or_insert_with(|| Line {
            line: HistoryLine {
                id,
                over: HistoryOver::Entries,
                name: entry.change.clone(),
                circumstances: circumstances(&entry),
                ..HistoryLine::default()
            },
            points: BTreeMap::new(),
        });
        let run = run_of(content, path, &entry);
        let point = HistoryPoint {
            label: hone_report::date_utc(entry.at_unix_ms),
            at_unix_ms: entry.at_unix_ms,
            value: ratio,
            range: Some([low, high]),
            windows: entry.pairs.unwrap_or_default() as usize,
            source: if entry.run.is_empty() {
                format!("line {}", line.number)
            } else {
                file_name(&entry.run)
            },
            record: None,
            run,
        };
        known.points.entry(metric).or_default().push(point);
    }
}

fn circumstances(entry: &LedgerEntry) -> String {
    let under = if entry.workload.is_empty() { String::new() } else { format!(", under {}", entry.workload) };
    let at = if entry.host().is_empty() { String::new() } else { format!(", on {}", entry.host()) };
    format!("decided by hone {}{under}{at}", entry.verb)
}

fn file_name(path: &str) -> String {
    Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The run of an entry, if the server shows it: at its original path, or moved with its ledger.
pub(super) fn run_of(content: &Content, ledger: &Path, entry: &LedgerEntry) -> Option<String> {
    let beside = ledger.parent()?.join(Path::new(&entry.run).file_name()?);
    let is_it = |path: &Path| path == Path::new(&entry.run) || path == beside;
    content.runs.values().find(|run| is_it(&run.path)).map(|run| run.id.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(values: &[f64]) -> Line {
        let point = |value: &f64| HistoryPoint { value: *value, ..HistoryPoint::default() };
        Line {
            line: HistoryLine { name: "target".to_owned(), ..HistoryLine::default() },
            points: BTreeMap::from([(Metric::LatencyP50, values.iter().map(point).collect())]),
        }
    }

    #[test]
    fn a_listed_line_has_its_newest_points_and_their_last_change() {
        let values: Vec<f64> = (0..80).map(|place| if place < 70 { 100.0 } else { 125.0 }).collect();
        let lines = with_trends(BTreeMap::from([("0".to_owned(), line(&values))]));
        let trend = &lines[0].trends[&Metric::LatencyP50];
        assert_eq!((trend.values.len(), trend.is_searched), (LISTED_POINTS, true));
        let change = trend.last_change.unwrap();
        assert_eq!((change.first, change.ratio > 1.2), (50, true));
    }

    #[test]
    fn a_search_without_time_is_answered_by_an_earlier_one() {
        let past = Instant::now();
        assert_eq!(searched(&[1.0, 2.0, 3.5], past), None);
        assert_eq!(searched(&[1.0, 2.0, 3.5], past + Duration::from_secs(60)), Some(None));
        assert_eq!(searched(&[1.0, 2.0, 3.5], past), Some(None));
    }
}

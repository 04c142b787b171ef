//! A run in progress: the pairs of its newest comparison, the interval that they support, what the planned pairs can detect, and the end
//! of its log. All of it comes from files of the run.

use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use hone_compare::{Layout, Outlook, USUAL_EFFECT, Widths, judge};
use hone_record::{
    Change, Comparison, Design, Engine, Machine, PairKind, PairOutcome, RunPairs, RunStage, RunState,
    ShelfOutcome, ShelfRun, Verdict, Workload,
};
use hone_report::desk::LogTail;
use serde_json::{Value, json};

use super::progress::{files, note};
use super::shelf::{PASSED_BY, Run};
use super::shown::open;

/// Maximum pairs that are read.
const MOST_PAIRS: usize = 2_000;
/// Maximum resamples of an interval that is computed for a page.
const MOST_RESAMPLES: u32 = 2_000;
/// Maximum depth of folders in a run.
const DEEPEST: usize = 3;
/// Maximum folders that are looked at.
const MOST_FOLDERS: usize = 200;
/// Bytes of a log's end.
const LOG_BYTES: u64 = 8 << 10;
/// Lines of a log's end.
const LOG_LINES: usize = 30;
/// Maximum running runs of a list whose interval is computed.
const MOST_RUNNING: usize = 4;

/// A run is silent if it writes nothing for this many times the mean time of a pair, and at least for [`LEAST_SILENCE_S`].
const SILENT_PAIRS: f64 = 5.0;
/// See [`SILENT_PAIRS`].
const LEAST_SILENCE_S: f64 = 60.0;

/// A folder of a run with pairs.
struct Part {
    path: PathBuf,
    name: String,
    /// Time of its newest pair.
    changed: SystemTime,
}

/// The comparison that a run measures now, or measured last. `None` if it has no pairs that can be read.
pub(super) fn pairs_of(run: &Run, with_power: bool) -> Option<RunPairs> {
    let mut parts = Vec::new();
    collect(&run.path, "", 0, &mut parts);
    let part = parts.into_iter().max_by_key(|part| part.changed)?;
    let design =
        ["design.json", "pilot-design.json"].into_iter().find_map(|name| note(&part.path.join(name)))?;
    let design: Design = serde_json::from_value(design).ok()?;
    let pairs = measured(&part.path.join("pairs"));
    let settings = note(&run.path.join("asked.json")).unwrap_or_default();
    let planned = design.planned();
    let left_s = left_s(&design, &pairs, part.changed);
    let power = if with_power { power(&design, &pairs) } else { None };
    let effect_ratio = design.effect.as_ref().map_or(USUAL_EFFECT, |effect| effect.ratio);
    Some(RunPairs {
        part: part.name,
        comparison: comparison(design, pairs, &settings)?,
        planned,
        left_s,
        effect_ratio,
        power: power.map(|(power, _)| power),
        detectable_ratio: power.and_then(|(_, smallest)| smallest),
    })
}

fn collect(path: &Path, name: &str, depth: usize, parts: &mut Vec<Part>) {
    let pairs = path.join("pairs");
    let is_folder = |found: &fs::Metadata| found.is_dir();
    if let Some(changed) =
        fs::symlink_metadata(&pairs).ok().filter(is_folder).and_then(|found| found.modified().ok())
    {
        parts.push(Part { path: path.to_owned(), name: name.to_owned(), changed });
    }
    if depth >= DEEPEST || parts.len() >= MOST_FOLDERS {
        return;
    }
    let Ok(entries) = fs::read_dir(path) else { return };
    for entry in entries.flatten().take(MOST_FOLDERS) {
        let below = entry.file_name();
        let Some(below) = below.to_str().filter(|below| !below.starts_with('.')) else { continue };
        let is_passed_by = ["windows", "pairs"].contains(&below) || PASSED_BY.contains(&below);
        if !is_passed_by && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let name = if name.is_empty() { below.to_owned() } else { format!("{name}/{below}") };
            collect(&entry.path(), &name, depth + 1, parts);
        }
    }
}

/// The pairs in a folder, in their order. A pair that is being written is left out.
fn measured(folder: &Path) -> Vec<PairOutcome> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    paths.sort();
    let read = |path: &PathBuf| serde_json::from_value::<PairOutcome>(note(path)?).ok();
    paths.iter().take(MOST_PAIRS).filter_map(read).collect()
}

/// The pairs with the estimate of the primary metric. There is no verdict before the last pair.
fn comparison(design: Design, pairs: Vec<PairOutcome>, settings: &Value) -> Option<Comparison> {
    let mut alone = design.clone();
    alone.rule.secondary.clear();
    alone.rule.guards.clear();
    alone.rule.resamples = alone.rule.resamples.min(MOST_RESAMPLES);
    let mut judgements = judge(&alone, &pairs).judgements;
    for judgement in &mut judgements {
        judgement.verdict = Verdict::NotShown;
        judgement.why = "the verdict comes after the last pair".to_owned();
    }
    let workload = settings.get("workload").and_then(|load| serde_json::from_value(load.clone()).ok());
    let workload: Workload = workload.unwrap_or_else(|| Workload::of_operations("", Engine::Wire));
    // The other fields of the record have defaults.
    let found = json!({
        "a": "A",
        "b": "B",
        "workload": workload,
        "design": design,
        "pairs": pairs,
        "judgements": judgements,
        "not_estimated": {},
        "machine": Machine::default(),
        "change": settings.get("change"),
    });
    serde_json::from_value(found).ok()
}

/// The expected time until the last planned pair, by the mean of the measured ones. `None` for a silent run.
fn left_s(design: &Design, pairs: &[PairOutcome], changed: SystemTime) -> Option<f64> {
    let took: f64 = pairs.iter().map(|pair| pair.took_s).sum();
    if pairs.is_empty() || took <= 0.0 || !took.is_finite() {
        return None;
    }
    let mean = took / pairs.len() as f64;
    let since = changed.elapsed().map_or(0.0, |since| since.as_secs_f64());
    if since > (SILENT_PAIRS * mean).max(LEAST_SILENCE_S) {
        return None;
    }
    let since = since.min(mean);
    let left = design.planned().saturating_sub(pairs.len());
    Some(if left == 0 { 0.0 } else { mean * left as f64 - since })
}

/// The probability that the planned pairs detect the effect of the design, and the smallest effect that they probably detect. The A/A pairs
/// show it. `None` with too few of them, and where the interval rests on blocks of pairs.
fn power(design: &Design, pairs: &[PairOutcome]) -> Option<(f64, Option<f64>)> {
    if design.has_several_builds() || design.starts > 0 {
        return None;
    }
    let planned = design.order.get(..design.planned())?;
    let count = |kind: PairKind| planned.iter().filter(|planned| **planned == kind).count() as u32;
    let is_counted = |pair: &&PairOutcome| pair.kind == PairKind::Control && pair.dropped.is_none();
    let controls = pairs.iter().filter(is_counted).count() as u32;
    let layout = Layout {
        pairs: count(PairKind::Test),
        more_control_pairs: count(PairKind::Control).saturating_sub(controls),
        blocks: 1,
    };
    if layout.pairs < 2 || layout.pairs as usize > MOST_PAIRS {
        return None;
    }
    let outlook = Outlook::of_plan(design, design.rule.primary, pairs)?;
    let mut widths = Widths::default();
    let effect = design.effect.as_ref().map_or(USUAL_EFFECT, |effect| effect.ratio);
    Some((outlook.power(layout, effect, &mut widths), outlook.smallest_effect(layout, &mut widths)))
}

/// Adds to the running runs of a list what their pairs show so far. `run_of` finds the folder of a run.
pub(super) fn add_to_rows<'a>(rows: &mut [ShelfRun], run_of: impl Fn(&str) -> Option<&'a Run>) {
    let running = rows.iter_mut().filter(|row| row.state == RunState::Running).take(MOST_RUNNING);
    for row in running {
        let Some(run) = run_of(&row.id) else { continue };
        let known = row.outcome.take().unwrap_or_default();
        let mut outcome = asked_of(run, known.clone()).unwrap_or(known);
        if let Some(pairs) = pairs_of(run, false) {
            let estimate = pairs.comparison.primary().map(|judgement| judgement.estimate.clone());
            outcome.metric = Some(pairs.comparison.design.rule.primary);
            outcome.ratio = estimate.as_ref().map(|found| [found.ratio, found.low, found.high]);
            outcome.values = estimate.as_ref().map(|found| [found.value_a, found.value_b]);
            row.left_s = pairs.left_s;
            row.stage = Some(RunStage {
                name: pairs.part,
                counted: "pairs".to_owned(),
                done: pairs.comparison.pairs.len() as u64,
                of: Some(pairs.planned as u64).filter(|planned| *planned > 0),
                note: String::new(),
            });
        } else {
            let done = files(&run.path.join("pairs"));
            row.stage =
                (done > 0).then(|| RunStage { counted: "pairs".to_owned(), done, ..RunStage::default() });
        }
        row.outcome = Some(outcome);
    }
}

/// An outcome with the subject and the target of a run that has no result yet. `None` if its settings do not name them.
pub(super) fn asked_of(run: &Run, known: ShelfOutcome) -> Option<ShelfOutcome> {
    let (subject, target) = subject(&note(&run.path.join("asked.json"))?)?;
    Some(ShelfOutcome { subject, target, ..known })
}

/// What a comparison in progress compares, by its settings, and its target.
fn subject(settings: &Value) -> Option<(String, String)> {
    let first = |name: &str| settings.get(name)?.get(0)?.as_str().map(str::to_owned);
    let a = first("a")?;
    let change =
        settings.get("change").and_then(|change| serde_json::from_value::<Change>(change.clone()).ok());
    match (change, first("b")) {
        (Some(change), _) => Some((change.label(), a)),
        (None, Some(b)) => Some((format!("{a} → {b}"), a)),
        (None, None) => Some((a.clone(), a)),
    }
}

/// The end of the newest log of a run.
pub(super) fn log_of(run: &Run) -> Option<LogTail> {
    let folder = run.path.join("logs");
    if !fs::symlink_metadata(&folder).is_ok_and(|found| found.is_dir()) {
        return None;
    }
    let entries = fs::read_dir(&folder).ok()?.flatten().take(MOST_PAIRS);
    let written = |entry: fs::DirEntry| {
        let found = entry.metadata().ok().filter(|found| found.is_file() && found.len() > 0)?;
        Some((found.modified().ok()?, entry.path()))
    };
    let (_, path) = entries.filter_map(written).max()?;
    let mut file = open(&path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES))).ok()?;
    let mut bytes = Vec::new();
    file.take(LOG_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let begin = lines.len().saturating_sub(LOG_LINES);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Some(LogTail {
        name: format!("{}/logs/{name}", run.name),
        lines: lines[begin..].iter().map(|line| (*line).to_owned()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run with a design of twelve pairs, of which seven are measured: five controls and two tests.
    fn run() -> (tempfile::TempDir, Run) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        let mut design = hone_experiment::fixture::comparison(None).design;
        design.order = [[PairKind::Control; 6], [PairKind::Test; 6]].concat();
        design.swapped = vec![false; 12];
        design.blocks.clear();
        (design.builds, design.starts, design.reserve, design.effect) = ([1, 1], 0, 0, None);
        fs::create_dir_all(path.join("pairs")).unwrap();
        fs::write(path.join("design.json"), serde_json::to_string(&design).unwrap()).unwrap();
        for index in 0..7 {
            let kind = if index < 5 { PairKind::Control } else { PairKind::Test };
            let mut pair = PairOutcome { index, kind, took_s: 10.0, ..PairOutcome::default() };
            let off = if index % 2 == 0 { 1.01 } else { 0.99 };
            pair.values_a.insert(design.rule.primary, 10.0);
            pair.values_b.insert(design.rule.primary, 10.0 * off);
            fs::write(path.join(format!("pairs/{index:03}.json")), serde_json::to_string(&pair).unwrap())
                .unwrap();
        }
        // One is being written.
        fs::write(path.join("pairs/007.json"), "{\"index\": 7").unwrap();
        (dir, Run { id: "0".repeat(16), name: "runs/x-001".to_owned(), path, ..Run::default() })
    }

    #[test]
    fn pairs_so_far_have_a_prediction_and_no_verdict() {
        let (_dir, run) = run();
        let found = pairs_of(&run, true).unwrap();
        assert_eq!((found.comparison.pairs.len(), found.planned), (7, 12));
        assert!(found.left_s.is_some_and(|left| left > 30.0 && left <= 50.0), "{:?}", found.left_s);
        assert!(found.power.is_some_and(|power| power > 0.9), "{:?}", found.power);
        assert!(
            found.detectable_ratio.is_some_and(|ratio| ratio < USUAL_EFFECT),
            "{:?}",
            found.detectable_ratio
        );
        assert!(found.comparison.judgements.iter().all(|judged| judged.verdict == Verdict::NotShown));
        assert!(pairs_of(&run, false).unwrap().power.is_none());
        let hours_ago = SystemTime::now() - std::time::Duration::from_secs(12 * 3_600);
        fs::File::open(run.path.join("pairs")).unwrap().set_modified(hours_ago).unwrap();
        assert_eq!(pairs_of(&run, false).unwrap().left_s, None, "it shows no sign of life");
        fs::write(run.path.join("design.json"), "{}").unwrap();
        assert!(pairs_of(&run, true).is_none(), "nor without a design");
    }

    #[test]
    fn a_running_row_says_what_it_compares_and_how_far_it_is() {
        let (_dir, run) = run();
        fs::write(run.path.join("asked.json"), r#"{"a": ["10.0.0.1:9092"], "b": ["10.0.0.2:9092"]}"#)
            .unwrap();
        let mut rows = [ShelfRun { id: run.id.clone(), state: RunState::Running, ..ShelfRun::default() }];
        add_to_rows(&mut rows, |_| Some(&run));
        let outcome = rows[0].outcome.as_ref().unwrap();
        assert_eq!(asked_of(&run, ShelfOutcome::default()).unwrap().subject, outcome.subject);
        assert_eq!(outcome.subject, "10.0.0.1:9092 → 10.0.0.2:9092");
        let stage = rows[0].stage.as_ref().unwrap();
        assert_eq!((stage.done, stage.of), (7, Some(12)));
    }

    #[test]
    fn the_newest_log_ends_with_its_last_lines() {
        let (_dir, run) = run();
        assert_eq!(log_of(&run), None);
        fs::create_dir(run.path.join("logs")).unwrap();
        let text: String = (0..5_000).map(|number| format!("line {number}\n")).collect();
        fs::write(run.path.join("logs/001-broker.stderr"), text).unwrap();
        let log = log_of(&run).unwrap();
        assert_eq!((log.lines.len(), log.lines.last().unwrap().as_str()), (LOG_LINES, "line 4999"));
        assert_eq!(log.name, "runs/x-001/logs/001-broker.stderr");
    }
}

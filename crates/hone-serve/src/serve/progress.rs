//! The progress of a run, according to the files that it has written.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use hone_record::{BROKEN, Body as _, RunProgress, RunStage, RunState, ShelfOutcome, ShelfRecord, Window};
use serde_json::Value;

use super::live;
use super::shelf::{Content, PASSED_BY, Run, read};

/// Maximum windows on the page.
const LAST_WINDOWS: usize = 12;
/// Maximum other records on the page.
const MOST_OTHERS: usize = 50;
/// Maximum parts of a run on the page.
const MOST_STAGES: usize = 60;
/// Size limit of a note.
const MOST_NOTE_BYTES: u64 = 4 << 20;
/// Maximum depth of folders in a run.
const DEEPEST: usize = 3;

/// Looks up a run.
pub(super) fn of_run(content: &Content, run: &Run) -> RunProgress {
    let records: Vec<&ShelfRecord> = content.records_of(&run.id).map(|item| &item.record).collect();
    let mut windows: Vec<&ShelfRecord> =
        records.iter().copied().filter(|record| record.window.is_some()).collect();
    windows
        .sort_by(|one, other| other.at_unix_ms.cmp(&one.at_unix_ms).then_with(|| other.path.cmp(&one.path)));
    let mut variants: BTreeMap<String, usize> = BTreeMap::new();
    for window in windows.iter().filter_map(|record| record.window.as_ref()) {
        *variants.entry(window.variant.clone()).or_default() += 1;
    }
    let others = records.iter().filter(|record| record.kind != Window::KIND || record.kind == BROKEN);
    let mut stages = Vec::new();
    look(&run.path, "", 0, &mut stages);
    let mut now = content.run_now(run);
    // Without a result, the settings say what is compared.
    now.outcome = now.outcome.or_else(|| live::asked_of(run, ShelfOutcome::default()));
    // A finished run has a report with all its pairs.
    let pairs = if now.state == RunState::Finished { None } else { live::pairs_of(run, true) };
    RunProgress {
        run: now,
        stages: attempt(&run.path).into_iter().chain(stages).take(MOST_STAGES).collect(),
        variants,
        last_windows: windows.into_iter().take(LAST_WINDOWS).cloned().collect(),
        records: others.take(MOST_OTHERS).map(|record| (*record).clone()).collect(),
        pairs,
    }
}

/// The current step of an optimisation.
fn attempt(run: &Path) -> Option<RunStage> {
    let note = note(&run.join("attempt.json"))?;
    let step = note.get("step").and_then(Value::as_str).unwrap_or("before the first step");
    let done = files(&run.join("steps"));
    Some(RunStage {
        name: "steps".to_owned(),
        counted: "steps".to_owned(),
        done,
        of: None,
        note: format!("now: {step}"),
    })
}

/// Each folder of a run with pairs, rounds, or a tested change.
fn look(path: &Path, name: &str, depth: usize, stages: &mut Vec<RunStage>) {
    if let Some(stage) = stage(path, name) {
        stages.push(stage);
    }
    let Ok(entries) = fs::read_dir(path) else { return };
    let below = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let below: BTreeSet<String> = below.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    for folder in below.iter().filter(|folder| !folder.starts_with('.')) {
        // The folder of a long run has thousands of windows and no subfolders.
        let is_passed_by = folder == "windows" || PASSED_BY.contains(&folder.as_str());
        if depth < DEEPEST && stages.len() < MOST_STAGES && !is_passed_by {
            let name = if name.is_empty() { folder.clone() } else { format!("{name}/{folder}") };
            look(&path.join(folder), &name, depth + 1, stages);
        }
    }
}

fn stage(path: &Path, name: &str) -> Option<RunStage> {
    let of = |note: Option<Value>, list: &str| {
        let note = note?;
        let known = note.get(list)?;
        known.as_array().map(|list| list.len() as u64).or_else(|| known.as_u64())
    };
    let said = said(path);
    let stage = |counted: &str, done: u64, of: Option<u64>| RunStage {
        name: name.to_owned(),
        counted: counted.to_owned(),
        done,
        // Reserve pairs and rounds are on top of the plan.
        of: of.map(|of| of.max(done)),
        note: said.clone().unwrap_or_default(),
    };
    let [pairs, rounds] = ["pairs", "rounds"].map(|folder| files(&path.join(folder)));
    let rounds_json = note(&path.join("rounds.json"));
    let design = note(&path.join("design.json")).or_else(|| note(&path.join("pilot-design.json")));
    if rounds > 0 || rounds_json.is_some() {
        return Some(stage("rounds", rounds, of(rounds_json, "rounds")));
    }
    if pairs > 0 || design.is_some() {
        let reserve = design.as_ref().and_then(|design| design.get("reserve")?.as_u64()).unwrap_or_default();
        let planned = of(design, "order").map(|all| all.saturating_sub(reserve));
        return Some(stage("pairs", pairs, planned.filter(|of| *of > 0)));
    }
    let windows = files(&path.join("windows"));
    match (windows, &said) {
        (0, None) => None,
        (0, Some(_)) => Some(stage("step", u64::from(path.join("step.json").is_file()), Some(1))),
        (windows, _) => Some(stage("windows", windows, None)),
    }
}

/// The change of a step, and its decision.
fn said(path: &Path) -> Option<String> {
    let step = note(&path.join("step.json"));
    let found = step.as_ref().map(|step| step.get("step").unwrap_or(step));
    let words = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let decided = found.and_then(|found| {
        let [change, decision] = ["change", "decision"].map(|name| words(found.get(name)));
        Some(format!("{}: {}", change?, decision?))
    });
    decided.or_else(|| {
        let chosen = note(&path.join("chosen.json"))?;
        let name = words(chosen.get("candidate").and_then(|candidate| candidate.get("name")))?;
        Some(format!("{name}: in progress"))
    })
}

/// The public part of a run's private note.
pub(super) fn note(path: &Path) -> Option<Value> {
    let is_small = fs::symlink_metadata(path).is_ok_and(|found| found.len() <= MOST_NOTE_BYTES);
    if is_small { serde_json::from_str(&read(path).ok()?).ok() } else { None }
}

/// JSON files in a folder, without links.
pub(super) fn files(path: &Path) -> u64 {
    if !fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
        return 0;
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path().extension().is_some_and(|ending| ending == "json")).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, name: &str, text: &str) {
        let path = path.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn stages(path: &Path) -> Vec<(String, String, u64, Option<u64>, String)> {
        let mut found = Vec::new();
        look(path, "", 0, &mut found);
        found.into_iter().map(|stage| (stage.name, stage.counted, stage.done, stage.of, stage.note)).collect()
    }

    #[test]
    fn pairs_rounds_and_steps_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = &dir.path().canonicalize().unwrap();
        write(path, "pilot/design.json", r#"{"order": ["control", "control"]}"#);
        write(path, "pilot/pairs/000.json", "{}");
        write(path, "steps/01/chosen.json", r#"{"candidate": {"name": "linger 5 ms"}, "passed_over": []}"#);
        write(
            path,
            "steps/01/design.json",
            r#"{"order": ["test", "test", "control", "test", "control"], "reserve": 2}"#,
        );
        write(path, "steps/01/step.json", r#"{"step": {"change": "linger 5 ms", "decision": "accepted"}}"#);
        write(path, "steps/02/chosen.json", r#"{"candidate": {"name": "lz4"}, "passed_over": []}"#);
        write(path, "judge-x/rounds.json", r#"{"rounds": 12}"#);
        write(path, "judge-x/rounds/000.json", "{}");
        write(path, "broken/design.json", "{");
        write(path, "builds/pgo/design.json", r#"{"order": ["test"]}"#);
        let of = |name: &str, counted: &str, done, of, note: &str| {
            (name.to_owned(), counted.to_owned(), done, of, note.to_owned())
        };
        assert_eq!(
            stages(path),
            [
                of("judge-x", "rounds", 1, Some(12), ""),
                of("pilot", "pairs", 1, Some(2), ""),
                of("steps/01", "pairs", 0, Some(3), "linger 5 ms: accepted"),
                of("steps/02", "step", 0, Some(1), "lz4: in progress"),
            ]
        );
        write(path, "attempt.json", r#"{"pid": 1, "step": "train"}"#);
        assert_eq!(attempt(path).unwrap().note, "now: train");
    }
}

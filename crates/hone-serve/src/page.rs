//! Renders a record, a run's folder or a ledger as a run summary and as one HTML page.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_record::{
    CommitGate, Comparison, HostTrial, Optimization, PairOutcome, Proof, Story, TailAccount, Tuning, Window,
};

use crate::story::{self, Beside};
use hone_experiment::command_line::{self, CommandLine};
use hone_experiment::ending::Usage;
use hone_experiment::folder::{RESULTS, read_record};
use hone_experiment::ledger;
use hone_experiment::reader::{self, Caller, Reader, record as record_by};
use hone_report::{Document, documents};

/// The source of a page.
pub enum Source {
    /// A record's file.
    Record(PathBuf),
    /// A ledger's file.
    Ledger(PathBuf),
}

/// Whether related records can be added to it.
pub fn has_a_story(record: &Path) -> Result<()> {
    match kind_of(record, &Caller)?.as_deref() {
        Some("optimization" | "comparison" | "commit-gate" | "proof" | "host-trial" | "tuning" | "story") => {
            Ok(())
        }
        _ => bail!(Usage(format!(
            "{} has no run summary, so no record can be added to it: name the run first, then heatmaps, \
             capacities and curves",
            record.display()
        ))),
    }
}

/// The main record of a path, or the ledger.
pub fn find(path: &Path) -> Result<Source> {
    if !path.is_dir() {
        let is_ledger = path.extension().is_some_and(|ending| ending == "jsonl");
        return Ok(if is_ledger { Source::Ledger(path.to_owned()) } else { Source::Record(path.to_owned()) });
    }
    let found = RESULTS.map(|name| path.join(name)).into_iter().find(|record| record.is_file());
    let ledger = path.join(ledger::NAME);
    match found {
        Some(record) => Ok(Source::Record(record)),
        None if ledger.is_file() => Ok(Source::Ledger(ledger)),
        None => bail!(
            "{} has none of {}, and no {}: the run was interrupted, or this is not a run's folder",
            path.display(),
            RESULTS.join(", "),
            ledger::NAME
        ),
    }
}

/// The run summary of a ledger, or of a run that has one.
pub fn story_of(source: &Source) -> Result<Story> {
    let record = match source {
        Source::Ledger(ledger) => return story::of_ledger(ledger, &Caller),
        Source::Record(record) => record,
    };
    let folder = folder_of(record);
    match kind_of(record, &Caller)?.as_deref() {
        Some("optimization") => Ok(story::of_optimization(folder, &read_record(record)?, &Caller)),
        Some("proof") => Ok(story::of_proof(folder, &read_record(record)?, &Caller)),
        Some("comparison") => Ok(story::of_comparison(folder, &read_record(record)?, &Caller)),
        Some("tuning") => Ok(story::of_tuning(folder, &read_record(record)?, &Caller)),
        Some("host-trial") => Ok(story::of_host_trial(folder, &read_record(record)?, &Caller)),
        Some("commit-gate") => Ok(story::of_gate(folder, &read_record(record)?, &Caller)),
        Some("story") => read_record(record),
        _ => bail!(Usage(format!(
            "{} has no run summary: --pr-comment and --json need a run of optimize, gate, tune, batch prove, \
             host try or compare, or a ledger",
            record.display()
        ))),
    }
}

/// The gate's own text comes first, because it says whether the gate passed.
pub fn comment_of(source: &Source) -> Result<String> {
    match source {
        Source::Record(record) if kind_of(record, &Caller)?.as_deref() == Some("commit-gate") => {
            Ok(documents::gate_comment(&read_record(record)?).markdown())
        }
        Source::Record(record) if kind_of(record, &Caller)?.as_deref() == Some("comparison") => {
            Ok(hone_document::comparison::comment(&read_record(record)?))
        }
        _ => Ok(hone_document::story::comment(&story_of(source)?)),
    }
}

/// # Errors
/// The file can't be written.
pub fn keep(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| {
        format!("can't write {}\n  next: choose another place with --output", path.display())
    })
}

fn folder_of(record: &Path) -> &Path {
    record.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The kind that a record states.
fn kind_of(record: &Path, reader: &dyn Reader) -> Result<Option<String>> {
    let text = reader::text(reader, record)?;
    let head = serde_json::from_str::<serde_json::Value>(&text)
        .with_context(|| format!("{} is not a record", record.display()))?;
    Ok(head.get("kind").and_then(serde_json::Value::as_str).map(str::to_owned))
}

/// Writes the page of a record and returns its path.
pub fn write(record: &Path, output: Option<&Path>) -> Result<PathBuf> {
    let html = page(record, &Caller)?;
    let path = output.map_or_else(|| page_path(record), Path::to_owned);
    keep(&path, &html)?;
    Ok(path)
}

/// A run has one page. The folder of a window's file may contain other pages.
pub fn page_path(record: &Path) -> PathBuf {
    let is_result = RESULTS.iter().any(|name| record.ends_with(name));
    if is_result { record.with_file_name("report.html") } else { record.with_extension("html") }
}

/// The page of a record, according to the kind that it states.
///
/// # Errors
/// The same as [`document`].
pub fn page(record: &Path, reader: &dyn Reader) -> Result<String> {
    Ok(document(record, reader, Beside::default())?.html())
}

/// A record as a document. A run summary includes its related records.
///
/// # Errors
/// The record or one of its windows can't be read, or its kind has no document.
pub fn document(record: &Path, reader: &dyn Reader, beside: Beside) -> Result<Document> {
    let command = command_of(folder_of(record), reader);
    Ok(of_kind(record, reader, beside)?.repeated_by(command.as_deref()))
}

/// The command that began the run in a folder. Older runs have none.
fn command_of(folder: &Path, reader: &dyn Reader) -> Option<String> {
    let text = reader::text(reader, &folder.join(command_line::NOTE)).ok()?;
    serde_json::from_str::<CommandLine>(&text).ok()?.whole()
}

fn of_kind(record: &Path, reader: &dyn Reader, beside: Beside) -> Result<Document> {
    let folder = folder_of(record);
    match kind_of(record, reader)?.as_deref() {
        Some("optimization") => {
            let found: Optimization = record_by(reader, record)?;
            let windows =
                windows(folder, reader, found.comparisons.iter().flat_map(|comparison| &comparison.pairs))?;
            Ok(documents::optimization(
                &found,
                &windows,
                Some(&beside.add_to(story::of_optimization(folder, &found, reader))),
            ))
        }
        Some("comparison") => {
            let found: Comparison = record_by(reader, record)?;
            let windows = windows(folder, reader, &found.pairs)?;
            let told = beside.add_to(story::of_comparison(folder, &found, reader));
            Ok(documents::comparison(&found, &windows, Some(&told)))
        }
        Some("commit-gate") => {
            let found: CommitGate = record_by(reader, record)?;
            let told = beside.add_to(story::of_gate(folder, &found, reader));
            let windows =
                windows(folder, reader, found.comparisons.iter().flat_map(|comparison| &comparison.pairs))?;
            Ok(documents::gate(&found, &windows, Some(&told)))
        }
        Some("proof") => {
            let found: Proof = record_by(reader, record)?;
            let comparisons = found.steps.iter().filter_map(|step| step.comparison.as_ref());
            let windows = windows(folder, reader, comparisons.flat_map(|comparison| &comparison.pairs))?;
            let told = beside.add_to(story::of_proof(folder, &found, reader));
            Ok(documents::proof(&found, &windows, Some(&told)))
        }
        Some("host-trial") => {
            let found: HostTrial = record_by(reader, record)?;
            let comparisons = found.tried.iter().chain(&found.together).map(|knob| &knob.comparison);
            let windows = windows(folder, reader, comparisons.flat_map(|comparison| &comparison.pairs))?;
            let told = beside.add_to(story::of_host_trial(folder, &found, reader));
            Ok(documents::host_trial(&found, &windows, Some(&told)))
        }
        Some("tuning") => {
            let found: Tuning = record_by(reader, record)?;
            let proof = found.as_proof();
            let comparisons = proof.steps.iter().filter_map(|step| step.comparison.as_ref());
            let windows = windows(folder, reader, comparisons.flat_map(|comparison| &comparison.pairs))?;
            let told = beside.add_to(story::of_tuning(folder, &found, reader));
            Ok(documents::tuning(&found, &windows, Some(&told)))
        }
        Some("capacity") => Ok(documents::capacity(&record_by(reader, record)?)),
        Some("curve") => Ok(documents::curve(&record_by(reader, record)?)),
        Some("tail") => Ok(documents::tail(&record_by::<TailAccount>(reader, record)?)),
        Some("batch-xray") => Ok(documents::xray(&record_by(reader, record)?)),
        Some("window") => Ok(documents::window(&record_by(reader, record)?)),
        Some("story") => Ok(documents::story(&beside.add_to(record_by(reader, record)?))),
        Some("diagnosis") => Ok(documents::diagnosis(&record_by(reader, record)?)),
        Some("heatmap") => Ok(documents::heatmap(&record_by(reader, record)?)),
        Some(other) => bail!(
            "{} is a `{other}` record, and Hone has no report of that kind\n  next: print it again with its \
             command, or read its JSON (docs/formats.md)",
            record.display()
        ),
        None => bail!("{} is not a Hone record", record.display()),
    }
}

fn windows<'a>(
    folder: &Path,
    reader: &dyn Reader,
    pairs: impl IntoIterator<Item = &'a PairOutcome>,
) -> Result<BTreeMap<String, Window>> {
    // An arm that failed has no window.
    let names = pairs.into_iter().flat_map(|pair| [&pair.window_a, &pair.window_b]);
    names
        .filter(|name| !name.is_empty())
        .map(|name| Ok((name.clone(), record_by(reader, &inside(folder, name)?)?)))
        .collect()
}

/// A name in a record is foreign text: it must not lead out of the run.
fn inside(folder: &Path, name: &str) -> Result<PathBuf> {
    let path = Path::new(name);
    if !path.components().all(|part| matches!(part, Component::Normal(_))) {
        bail!("the record names a window outside its folder: {name}");
    }
    Ok(folder.join(path))
}

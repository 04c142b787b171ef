//! `hone report PATH`: a record, or a run's folder, becomes one HTML page.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use hone_record::{Comparison, Optimization, PairOutcome, Proof, Tuning, Window};

use super::{Desk, print};
use crate::Ending;
use crate::folder::read_record;

/// Write one self-contained HTML page from a record or a run's folder.
///
/// Needs no network to be read and no machine to be made: everything comes from the record files.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone report runs/broker-pgo-001
  hone report window.json --output page.html")]
pub(crate) struct Arguments {
    /// A run's folder, or a record file (optimization, comparison, proof, tuning, capacity, curve, window).
    path: PathBuf,
    /// The page; next to the record unless named: report.html for a run, the record's name for a window.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(arguments: Arguments, desk: &Desk) -> Result<Ending> {
    let record = find_record(&arguments.path)?;
    let page = write(&record, arguments.output.as_deref())?;
    desk.progress.clear();
    print(&format!("{}\n", page.display()))?;
    Ok(Ending::Done)
}

/// The records that stand for a whole run.
const RESULTS: [&str; 6] =
    ["optimization.json", "comparison.json", "capacity.json", "curve.json", "proof.json", "tuning.json"];

/// The record that stands for a path.
fn find_record(path: &Path) -> Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let found = RESULTS.map(|name| path.join(name)).into_iter().find(|record| record.is_file());
    found.with_context(|| {
        format!(
            "{} holds none of {}: the run was broken off, or it is not a run's folder",
            path.display(),
            RESULTS.join(", ")
        )
    })
}

/// Writes the page of a record and answers its path.
pub(in crate::cmd) fn write(record: &Path, output: Option<&Path>) -> Result<PathBuf> {
    let html = page(record)?;
    let path = output.map_or_else(|| page_path(record), Path::to_owned);
    fs::write(&path, html).with_context(|| format!("the page {} can't be written", path.display()))?;
    Ok(path)
}

/// A run has one page; a window's file may have others beside it.
fn page_path(record: &Path) -> PathBuf {
    let is_result = RESULTS.iter().any(|name| record.ends_with(name));
    if is_result { record.with_file_name("report.html") } else { record.with_extension("html") }
}

/// A record says itself what it holds.
fn page(record: &Path) -> Result<String> {
    let text = fs::read_to_string(record).with_context(|| format!("{} can't be read", record.display()))?;
    let kind = serde_json::from_str::<serde_json::Value>(&text)
        .with_context(|| format!("{} is not a record", record.display()))?;
    let folder = record.parent().unwrap_or(Path::new("."));
    match kind.get("kind").and_then(serde_json::Value::as_str) {
        Some("optimization") => {
            let found: Optimization = read_record(record)?;
            let windows = windows(folder, found.comparisons.iter().flat_map(|comparison| &comparison.pairs))?;
            Ok(hone_report::optimization_page(&found, &windows))
        }
        Some("comparison") => {
            let found: Comparison = read_record(record)?;
            let windows = windows(folder, &found.pairs)?;
            Ok(hone_report::comparison_page(&found, &windows))
        }
        Some("proof") => {
            let found: Proof = read_record(record)?;
            let comparisons = found.steps.iter().filter_map(|step| step.comparison.as_ref());
            let windows = windows(folder, comparisons.flat_map(|comparison| &comparison.pairs))?;
            Ok(hone_report::proof_page(&found, &windows))
        }
        Some("tuning") => {
            let found: Tuning = read_record(record)?;
            let proof = found.as_proof();
            let comparisons = proof.steps.iter().filter_map(|step| step.comparison.as_ref());
            let windows = windows(folder, comparisons.flat_map(|comparison| &comparison.pairs))?;
            Ok(hone_report::tuning_page(&found, &windows))
        }
        Some("capacity") => Ok(hone_report::capacity_page(&read_record(record)?)),
        Some("curve") => Ok(hone_report::curve_page(&read_record(record)?)),
        Some("window") => Ok(hone_report::window_page(&read_record(record)?)),
        Some(other) => bail!("{} holds a `{other}`, of which there is no page", record.display()),
        None => bail!("{} is not a Hone record", record.display()),
    }
}

fn windows<'a>(
    folder: &Path,
    pairs: impl IntoIterator<Item = &'a PairOutcome>,
) -> Result<BTreeMap<String, Window>> {
    // An arm that failed left no window.
    let names = pairs.into_iter().flat_map(|pair| [&pair.window_a, &pair.window_b]);
    names
        .filter(|name| !name.is_empty())
        .map(|name| Ok((name.clone(), read_record(&folder.join(name))?)))
        .collect()
}

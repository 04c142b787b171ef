//! Lines of records and ledgers: those of the pages of `hone serve`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_experiment::ending::Usage;
use hone_experiment::reader::{Caller, Reader as _};
use hone_record::{Measure, MetricLine};

use crate::ledger_view::refuse_what_is_none;
use crate::serve::history::{Line, MOST_LEDGER_BYTES, all_lines};
use crate::serve::shelf::{Content, Shelf};

/// The lines of the records and ledgers in these places.
///
/// # Errors
/// A place does not exist or is neither a folder, a record nor a ledger. An interrupt.
pub(super) fn lines(places: &[PathBuf], notes: &mut Vec<String>) -> Result<Vec<MetricLine>> {
    if let Some(missing) = places.iter().find(|place| !place.exists()) {
        bail!(
            "there is no {}\n  next: name a folder of runs or records, a record or a ledger, or results of \
             another tool with --import",
            missing.display()
        );
    }
    let content = Shelf::new(places)?.scanned();
    if !content.is_whole() {
        bail!("interrupted");
    }
    places.iter().try_for_each(|place| refuse_other_files(place, &content))?;
    notes.extend(left_out(&content));
    Ok(all_lines(&content, &Caller).into_values().flat_map(by_metric).collect())
}

/// A line of each metric.
fn by_metric(line: Line) -> Vec<MetricLine> {
    let Line { line, points } = line;
    let one = |(metric, points)| MetricLine {
        id: line.id.clone(),
        over: line.over,
        name: line.name.clone(),
        circumstances: line.circumstances.clone(),
        measure: Measure::of_metric(metric, line.over),
        points,
        ..MetricLine::default()
    };
    points.into_iter().map(one).collect()
}

/// A file that the user named must be a record or a ledger.
fn refuse_other_files(place: &Path, content: &Content) -> Result<()> {
    let path = place.canonicalize().with_context(|| format!("{} can't be read", place.display()))?;
    if path.is_dir() {
        return Ok(());
    }
    if content.ledgers.values().any(|(_, ledger)| *ledger == path) {
        return refuse_what_is_none(place, &Caller.ledger(&path)?);
    }
    let record = content.records.values().find(|item| item.path == path).map(|item| &item.record);
    match record {
        Some(record) if record.is_broken() => bail!(Usage(format!(
            "{}: {}\n  next: restore the record, or name others",
            place.display(),
            record.said
        ))),
        Some(_) => Ok(()),
        None => bail!(Usage(format!(
            "{} is neither a record nor a ledger\n  next: if another tool wrote it, name it with --import",
            place.display()
        ))),
    }
}

/// What a reader of the lines should know.
fn left_out(content: &Content) -> Vec<String> {
    let mut notes = content.limits.clone();
    let broken: Vec<_> = content.records.values().filter(|item| item.record.is_broken()).collect();
    if let [first, ..] = &broken[..] {
        let files = hone_format::counted(broken.len() as u64, "file", "files");
        notes.push(format!("{files} can't be read as records, for example {}", first.record.path));
    }
    let large = content.ledgers.values().filter(|(ledger, _)| ledger.bytes > MOST_LEDGER_BYTES);
    notes.extend(large.map(|(ledger, _)| format!("{} is too large for a history", ledger.path)));
    notes
}

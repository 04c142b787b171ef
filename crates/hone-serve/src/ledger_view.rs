//! A ledger for display: its entries, and whether they are unchanged.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use hone_ledger::{Checked, Fault, Head, Ledger, Line, Repeated};
use hone_record::LedgerEntry;

use hone_document::ledger::{Book, HeldRecords, Shown, ShownFault, Verified};
use hone_experiment::ledger::{NAME, Runs, hash_of, place_in};
use hone_experiment::reader::Caller;

/// Finds the path of the ledger.
///
/// # Errors
/// There is no ledger.
pub fn found_at(path: Option<&Path>, runs: &Path) -> Result<PathBuf> {
    let named = path.unwrap_or(runs).to_owned();
    let file = if named.is_dir() { named.join(NAME) } else { named };
    let file = if path.is_none() && !file.exists() { runs.join(NAME) } else { file };
    if !file.exists() {
        bail!(
            "there is no ledger {}\n  next: name a ledger or the folder of its runs; the first command that \
             decides something creates it",
            file.display()
        );
    }
    Ok(file)
}

/// A file without a single entry was not tampered with, but it also says nothing.
pub(crate) fn refuse_what_is_none(path: &Path, checked: &Checked) -> Result<()> {
    let has_more = !checked.torn.is_empty() && checked.faults.is_empty();
    if checked.lines.is_empty() && has_more {
        bail!(
            "{} has no ledger entry, only an incomplete line\n  next: name a ledger; `hone ledger show` \
             finds the one in the folder `runs`",
            path.display()
        );
    }
    Ok(())
}

/// The selected entries, or the newest of them.
pub fn selected(path: &Path, wants: impl Fn(&LedgerEntry) -> bool, last: Option<usize>) -> Result<Book> {
    let checked = Ledger::at(path).read()?;
    refuse_what_is_none(path, &checked)?;
    let Checked { lines, faults, .. } = checked;
    let entries_in_all = lines.len();
    let wanted: Vec<Line> = lines.into_iter().filter(|line| wants(&line.entry)).collect();
    let skipped = last.map_or(0, |last| wanted.len().saturating_sub(last));
    Ok(Book {
        path: path.display().to_string(),
        entries_in_all,
        entries: wanted.into_iter().skip(skipped).map(Shown::of).collect(),
        faulty_lines: faults.iter().map(|fault| fault.line).collect(),
    })
}

/// Whether the ledger is unchanged and contains these heads. With `records`, also whether the files of its entries exist.
pub fn verify(path: &Path, heads: &[String], records: bool) -> Result<Verified> {
    let checked = Ledger::at(path).check()?;
    refuse_what_is_none(path, &checked)?;
    let records = records.then(|| held(path, &checked.lines));
    Ok(verified(path, checked, heads, records))
}

fn verified(path: &Path, checked: Checked, wanted: &[String], records: Option<HeldRecords>) -> Verified {
    let is_there = |hash: &String| checked.lines.iter().any(|line| line.hash == hash.to_ascii_lowercase());
    let shown = |fault: Fault| ShownFault {
        line: fault.line,
        kind: fault.meaning.label(),
        means: fault.meaning.words(),
        expected: fault.expected,
        found: fault.found,
    };
    Verified {
        path: path.display().to_string(),
        entries: checked.lines.len(),
        unchained_lines: checked.unchained().map(|line| line.number).collect(),
        missing_heads: wanted.iter().filter(|hash| !is_there(hash)).cloned().collect(),
        torn: checked.torn.into_iter().map(|torn| (torn.line, torn.text)).collect(),
        repeated: checked.repeated.iter().map(|Repeated { line, first }| (*line, *first)).collect(),
        heads: checked.heads.into_iter().map(|Head { line, hash }| (line, hash)).collect(),
        faults: checked.faults.into_iter().map(shown).collect(),
        records,
    }
}

/// Looks for each record in its run's folder.
fn held(ledger: &Path, lines: &[Line]) -> HeldRecords {
    let mut held = HeldRecords::default();
    let runs = Runs::of(ledger, lines.iter(), &Caller);
    let mut known: BTreeMap<PathBuf, Option<String>> = BTreeMap::new();
    for line in lines {
        let folders = runs.folders_for(&line.entry, &Caller);
        for record in &line.entry.records {
            let Some(path) = place_in(&folders, record, &Caller) else {
                held.gone += 1;
                continue;
            };
            match known.entry(path.clone()).or_insert_with(|| hash_of(&path).ok()) {
                Some(hash) if *hash == record.sha256 => held.as_they_were += 1,
                _ => held.changed.push((line.number, path.display().to_string())),
            }
        }
    }
    held
}

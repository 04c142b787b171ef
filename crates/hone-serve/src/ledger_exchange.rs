//! Exchanges ledgers through a store: each host pushes its ledger, which only grows there, and a pull merges all of them.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use hone_ledger::{Checked, Ledger, Line};
use hone_store::Store;

use crate::archive;
use hone_document::ledger::{PulledLedgers, PushedLedger};
use hone_experiment::progress::Progress;

/// Name of a host's ledger in the store.
const ENDING: &str = ".jsonl";

/// Number of attempts. A process that writes first this many times in a row does not push the same ledger.
const MOST_TRIES: u32 = 5;

/// Parses bytes as a separate ledger.
fn read(bytes: &[u8], name: &str) -> Result<Checked> {
    let checked = Ledger::check_bytes(bytes);
    if let Some(fault) = checked.faults.first() {
        bail!(
            "{name} is not intact: line {}, {}\n  next: inspect it with `hone ledger verify`",
            fault.line,
            fault.meaning.words()
        );
    }
    Ok(checked)
}

/// Pushes a host's ledger to a store, with the record files of its entries if requested.
pub fn push(
    path: &Path,
    (to, host): (&str, String),
    with_records: bool,
    progress: &Progress,
) -> Result<PushedLedger> {
    // The ledger is locked during the read, so that no entry is incomplete.
    let bytes = Ledger::at(path).bytes()?;
    let own = read(&bytes, &path.display().to_string())?;
    let store = Store::open(to)?;
    let growing = Growing { store: &store, name: format!("{host}{ENDING}"), path, lines: &own.lines };
    let push_records = || archive::push(&store, path, &own.lines, progress);
    let (new_entries, records) = growing.put(&bytes, || with_records.then(push_records).transpose())?;
    let (path, entries) = (path.display().to_string(), own.lines.len());
    Ok(PushedLedger { path, host, entries, new_entries, records })
}

/// A ledger on its way to a store where it only grows.
struct Growing<'a> {
    store: &'a Store,
    name: String,
    path: &'a Path,
    lines: &'a [Line],
}

impl Growing<'_> {
    /// Replaces the stored ledger, if this one contains all of its entries. Returns the number of new entries and the result of
    /// `before`, which pushes the files of the entries.
    ///
    /// `before` may take long, and another process may push under this name meanwhile. So the write succeeds only over the
    /// version that was read. A process that loses the race reads again.
    fn put<T>(&self, bytes: &[u8], before: impl FnOnce() -> Result<T>) -> Result<(usize, T)> {
        let mut seen = self.store.look(&self.name)?;
        let mut new_entries = self.new_beside(seen.as_ref().map(|found| found.bytes.as_slice()))?;
        let done = before()?;
        let mut tries = 0;
        while new_entries > 0 && !self.store.put_over(&self.name, seen.as_ref(), bytes.to_vec())? {
            tries += 1;
            if tries == MOST_TRIES {
                bail!(
                    "another process wrote {} in {} {MOST_TRIES} times while this ledger was pushed; Hone \
                     replaced nothing there\n  next: run the same command again, and let one process at a \
                     time push as this host",
                    self.name,
                    self.store.address()
                );
            }
            seen = self.store.look(&self.name)?;
            new_entries = self.new_beside(seen.as_ref().map(|found| found.bytes.as_slice()))?;
        }
        Ok((new_entries, done))
    }

    /// The number of entries that the stored ledger lacks.
    fn new_beside(&self, there: Option<&[u8]>) -> Result<usize> {
        let (name, address, path) = (&self.name, self.store.address(), self.path.display());
        let Some(there) = there else { return Ok(self.lines.len()) };
        let there = read(there, &format!("{name} in {address}"))?;
        let hashes: HashSet<&str> = self.lines.iter().map(|line| line.hash.as_str()).collect();
        let lost = there.lines.iter().filter(|line| !hashes.contains(line.hash.as_str())).count();
        if lost > 0 {
            bail!(
                "{name} in {address} has {lost} entries that {path} lacks: it is another ledger, or this one \
                 was truncated\n  next: use another name (--host), or pull those entries first (`hone ledger \
                 pull {address} --output {path}`)"
            );
        }
        Ok(self.lines.len() - there.lines.len())
    }
}

/// Merges the ledgers of all hosts into one, with the record files of their entries if requested.
pub fn pull(place: &str, output: &Path, with_records: bool, progress: &Progress) -> Result<PulledLedgers> {
    let store = Store::open(place)?;
    let names: Vec<String> = store.names()?.into_iter().filter(|name| name.ends_with(ENDING)).collect();
    if names.is_empty() {
        bail!(
            "{} has no ledger\n  next: run `hone ledger push --store {}` on each host",
            store.address(),
            store.address()
        );
    }
    if let Some(folder) = output.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).with_context(|| format!("can't create {}", folder.display()))?;
    }
    let ledger = Ledger::at(output);
    let mut copies = Vec::new();
    for (at, name) in names.iter().enumerate() {
        progress.doing(&format!("take {} of {}", at + 1, names.len()));
        let told = format!("{name} in {}", store.address());
        let bytes = store.get(name)?.with_context(|| format!("{told} no longer exists"))?;
        // Every ledger is checked before anything is written.
        let lines = read(&bytes, &told)?.lines;
        copies.push((name.trim_end_matches(ENDING).to_owned(), bytes, lines, told));
    }
    let (mut hosts, mut lines_of_hosts) = (Vec::new(), Vec::new());
    for (host, bytes, lines, told) in copies {
        hosts.push((host, lines.len(), ledger.take_in(&bytes, &told)?));
        lines_of_hosts.push(lines);
    }
    let pulled_records = || archive::pull(&store, output, &lines_of_hosts, progress);
    let records = with_records.then(pulled_records).transpose()?;
    let entries = ledger.read()?.lines.len();
    Ok(PulledLedgers { path: output.display().to_string(), hosts, entries, records })
}

#[cfg(test)]
mod tests {
    use hone_record::LedgerEntry;

    use super::*;

    fn entry(ledger: &Ledger, at_unix_ms: u64) {
        ledger.append(&LedgerEntry { at_unix_ms, ..LedgerEntry::default() }).unwrap();
    }

    /// Pushes a ledger of three entries while another process pushes its own. Returns the result, and the number of stored
    /// entries.
    fn push_while(other: impl Fn(&Ledger) -> Vec<u8>) -> (Result<usize>, usize) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("place").to_str().unwrap()).unwrap();
        let path = folder.path().join("own.jsonl");
        let own = Ledger::at(&path);
        (0..3).for_each(|at| entry(&own, at));
        let bytes = own.bytes().unwrap();
        let lines = read(&bytes, "own").unwrap().lines;
        let growing = Growing { store: &store, name: "a.jsonl".to_owned(), path: &path, lines: &lines };
        let quicker = || Ok(store.put("a.jsonl", other(&own))?);
        let pushed = growing.put(&bytes, quicker).map(|(new_entries, ())| new_entries);
        let there = read(&store.get("a.jsonl").unwrap().unwrap(), "a").unwrap().lines.len();
        (pushed, there)
    }

    #[test]
    fn a_push_takes_nothing_away_that_came_while_it_went_on() {
        let another_ledger = |_: &Ledger| {
            let folder = tempfile::tempdir().unwrap();
            let ledger = Ledger::at(folder.path().join("other.jsonl"));
            (10..14).for_each(|at| entry(&ledger, at));
            ledger.bytes().unwrap()
        };
        let (refused, there) = push_while(another_ledger);
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("has 4 entries that"), "{refused}");
        assert_eq!(there, 4, "the entries of the other process are gone");

        let beginning = |own: &Ledger| {
            let bytes = own.bytes().unwrap();
            let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
            bytes[..=end].to_vec()
        };
        assert!(matches!(push_while(beginning), (Ok(2), 3)));
        assert!(matches!(push_while(|own| own.bytes().unwrap()), (Ok(0), 3)));
    }
}

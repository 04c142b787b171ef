//! `hone ledger push` and `pull`: the ledgers of many hosts meet in a place, and become one.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use hone_ledger::{Checked, Ledger, Line};
use hone_store::Store;

use super::ledger::found_at;
use crate::cmd::context::CliContext;
use hone_document::ledger::{PulledLedgers, PushedLedger};
use hone_experiment::ending::Ending;
use hone_rollout::fleet::host_of;
use hone_serve::archive;

/// Of a host's ledger in its place.
const ENDING: &str = ".jsonl";
/// Somebody who is quicker so many times in a row is no neighbour that pushes the same ledger.
const MOST_TRIES: u32 = 5;

/// Keep a ledger where those of all hosts meet: a folder or an object store, one object for each host.
///
/// A ledger only grows, there as here: one that lacks a line which is there already is refused, and so is one that is not as it was
/// written. Who gets in is said by the environment, as for `hone load --store`.
///
/// With --records the files that its entries rest on go there, too, each by its SHA-256, and what their runs have concluded. What is there
/// already is not pushed again. One that is gone here is told; one that has changed is named and left out, with exit code 1.
#[derive(Debug, Args)]
pub(super) struct PushArguments {
    /// The ledger, or a folder that has one; runs/ledger.jsonl unless named.
    path: Option<PathBuf>,
    /// The place: a folder, s3://BUCKET/PATH, gs://BUCKET/PATH or az://CONTAINER/PATH.
    #[arg(long, value_name = "PLACE")]
    to: String,
    /// The host that it is of; this machine's name unless told otherwise.
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Push the record files that the entries rest on, too.
    #[arg(long)]
    records: bool,
}

/// Make one ledger of those of all hosts.
///
/// Lines that are there already stay as they are; the others come behind them, each once. A copy that is not as it was written ends it,
/// by its host, and nothing of it gets in.
///
/// With --records the files that the entries rest on are taken into `records` beside FILE, a folder for each run, where `hone ledger verify
/// --records`, `hone report` and `hone serve` find them. Each is held against its hash; a broken one is named and left out, with exit code 1.
/// What lies there already is not taken again, and no other file is replaced.
#[derive(Debug, Args)]
pub(super) struct PullArguments {
    /// The place.
    place: String,
    /// The one ledger; it is made, or grows.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Take the record files that the entries rest on, too.
    #[arg(long)]
    records: bool,
}

/// What bytes hold, as a ledger of their own.
fn read(bytes: &[u8], name: &str) -> Result<Checked> {
    let checked = Ledger::check_bytes(bytes);
    if let Some(fault) = checked.faults.first() {
        bail!(
            "{name} is not as it was written: line {}, {}\n  next: look at it with hone ledger verify",
            fault.line,
            fault.meaning.words()
        );
    }
    Ok(checked)
}

fn ending(is_whole: bool) -> Ending {
    if is_whole { Ending::Done } else { Ending::CouldNot }
}

pub(super) fn push(arguments: &PushArguments, cli: &CliContext) -> Result<Ending> {
    let host = host_of(arguments.host.as_deref())?;
    cli.progress.doing("push");
    let path = found_at(arguments.path.as_deref())?;
    // Held while it is read: no entry is half there.
    let bytes = Ledger::at(&path).bytes()?;
    let own = read(&bytes, &path.display().to_string())?;
    let store = Store::open(&arguments.to)?;
    let growing = Growing { store: &store, name: format!("{host}{ENDING}"), path: &path, lines: &own.lines };
    let push_records = || archive::push(&store, &path, &own.lines, &cli.progress);
    let (new_entries, records) = growing.put(&bytes, || arguments.records.then(push_records).transpose())?;
    let (path, entries) = (path.display().to_string(), own.lines.len());
    let pushed = PushedLedger { path, host, entries, new_entries, records };
    cli.show_found("ledger-push", &pushed, |pushed| hone_document::ledger::pushed(pushed, &arguments.to))?;
    Ok(ending(pushed.records.is_none_or(|records| records.left_out.is_empty())))
}

/// A ledger on its way to a place where it only grows.
struct Growing<'a> {
    store: &'a Store,
    name: String,
    path: &'a Path,
    lines: &'a [Line],
}

impl Growing<'_> {
    /// Puts it over the one that is there, which has no entry that it has not; answers how many are new there, and what came of what is done
    /// before: entries rest on it.
    ///
    /// That may take long, and another process may push under this name meanwhile. So it is put only over what was looked at, and whoever is
    /// late looks again.
    fn put<T>(&self, bytes: &[u8], before: impl FnOnce() -> Result<T>) -> Result<(usize, T)> {
        let mut seen = self.store.look(&self.name)?;
        let mut new_entries = self.new_beside(seen.as_ref().map(|found| found.bytes.as_slice()))?;
        let done = before()?;
        let mut tries = 0;
        while new_entries > 0 && !self.store.put_over(&self.name, seen.as_ref(), bytes.to_vec())? {
            tries += 1;
            if tries == MOST_TRIES {
                bail!(
                    "{} in {} was written by somebody else {MOST_TRIES} times while this ledger was pushed; nothing of it was replaced\n  next: run \
                     the same command again, and let one process at a time push as this host",
                    self.name,
                    self.store.address()
                );
            }
            seen = self.store.look(&self.name)?;
            new_entries = self.new_beside(seen.as_ref().map(|found| found.bytes.as_slice()))?;
        }
        Ok((new_entries, done))
    }

    /// How many entries are not in what is there.
    fn new_beside(&self, there: Option<&[u8]>) -> Result<usize> {
        let (name, address, path) = (&self.name, self.store.address(), self.path.display());
        let Some(there) = there else { return Ok(self.lines.len()) };
        let there = read(there, &format!("{name} in {address}"))?;
        let hashes: HashSet<&str> = self.lines.iter().map(|line| line.hash.as_str()).collect();
        let lost = there.lines.iter().filter(|line| !hashes.contains(line.hash.as_str())).count();
        if lost > 0 {
            bail!(
                "{name} in {address} has {lost} entries that {path} has not: it is another ledger, or was cut\n  next: say another name by --host, or \
                 take them in first (hone ledger pull {address} --output {path})"
            );
        }
        Ok(self.lines.len() - there.lines.len())
    }
}

pub(super) fn pull(arguments: &PullArguments, cli: &CliContext) -> Result<Ending> {
    let store = Store::open(&arguments.place)?;
    let names: Vec<String> = store.names()?.into_iter().filter(|name| name.ends_with(ENDING)).collect();
    if names.is_empty() {
        bail!(
            "{} has no ledger\n  next: hone ledger push --to {} on each host",
            store.address(),
            store.address()
        );
    }
    if let Some(folder) = arguments.output.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).with_context(|| format!("{} can't be made", folder.display()))?;
    }
    let ledger = Ledger::at(&arguments.output);
    let mut copies = Vec::new();
    for (at, name) in names.iter().enumerate() {
        cli.progress.doing(&format!("take {} of {}", at + 1, names.len()));
        let told = format!("{name} in {}", store.address());
        let bytes = store.get(name)?.with_context(|| format!("{told} is gone"))?;
        // All are looked at before anything is written.
        let lines = read(&bytes, &told)?.lines;
        copies.push((name.trim_end_matches(ENDING).to_owned(), bytes, lines, told));
    }
    let (mut hosts, mut lines_of_hosts) = (Vec::new(), Vec::new());
    for (host, bytes, lines, told) in copies {
        hosts.push((host, lines.len(), ledger.take_in(&bytes, &told)?));
        lines_of_hosts.push(lines);
    }
    let pulled_records = || archive::pull(&store, &arguments.output, &lines_of_hosts, &cli.progress);
    let records = arguments.records.then(pulled_records).transpose()?;
    let entries = ledger.read()?.lines.len();
    let pulled = PulledLedgers { path: arguments.output.display().to_string(), hosts, entries, records };
    cli.show_found("ledger-pull", &pulled, hone_document::ledger::pulled)?;
    Ok(ending(pulled.records.is_none_or(|records| records.left_out.is_empty())))
}

#[cfg(test)]
mod tests {
    use hone_record::LedgerEntry;

    use super::*;

    fn entry(ledger: &Ledger, at_unix_ms: u64) {
        ledger.append(&LedgerEntry { at_unix_ms, ..LedgerEntry::default() }).unwrap();
    }

    /// Pushes a ledger of three entries, and another process its own one, in between: what came of it, and how many entries are there.
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
        assert_eq!(there, 4, "what came meanwhile is gone");

        let beginning = |own: &Ledger| {
            let bytes = own.bytes().unwrap();
            let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
            bytes[..=end].to_vec()
        };
        assert!(matches!(push_while(beginning), (Ok(2), 3)));
        assert!(matches!(push_while(|own| own.bytes().unwrap()), (Ok(0), 3)));
    }
}

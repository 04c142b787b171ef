//! Writers in processes of their own: simultaneous ones, and killed ones.

#![expect(clippy::disallowed_methods, reason = "the writers are this very program, started again")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hone_ledger::Ledger;

mod common;
use common::{entry, path, times};

const FILE: &str = "HONE_TEST_LEDGER";
const FIRST: &str = "HONE_TEST_FIRST";
const COUNT: &str = "HONE_TEST_COUNT";

/// The work of the started processes. It does nothing unless another process started it.
#[test]
fn writer() {
    let Ok(file) = std::env::var(FILE) else { return };
    let number = |name: &str| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let ledger = Ledger::open(file).unwrap();
    for number in number(FIRST)..number(FIRST) + number(COUNT) {
        // Several pages, so that a kill can happen between two of them.
        let long = hone_record::LedgerEntry { why: "x".repeat(20_000), ..entry(number) };
        ledger.append(&long).unwrap();
    }
}

fn start(file: &Path, first: u64, count: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writer", "--nocapture"])
        .env(FILE, file)
        .env(FIRST, first.to_string())
        .env(COUNT, count.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn processes_that_write_at_the_same_time_make_one_chain() {
    const EACH: u64 = 8;
    let folder = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let mut writers: Vec<Child> =
            (0..2).map(|writer| start(&path(&folder), (round * 2 + writer) * EACH, EACH)).collect();
        assert!(writers.iter_mut().all(|writer| writer.wait().unwrap().success()));
    }
    let ledger = Ledger::open(path(&folder)).unwrap();
    let checked = ledger.check().unwrap();
    assert!(checked.faults.is_empty() && checked.torn.is_empty(), "{:?}", checked.faults);
    assert_eq!(checked.heads.len(), 1, "one chain over all of them");
    let found: BTreeSet<u64> = times(&ledger).into_iter().collect();
    assert_eq!(found, (0..6 * EACH).collect());
}

/// Kills at times that cover a write and its surroundings.
#[test]
fn a_killed_writer_leaves_a_ledger_that_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = path(&folder);
    let rounds = if std::env::var_os("HONE_LONG").is_some() { 200 } else { 6 };
    let mut before = Vec::new();
    for round in 0..rounds {
        let mut writer = start(&file, round * 10_000, 10_000);
        let until = Instant::now() + Duration::from_secs(30);
        let length = || fs::metadata(&file).map_or(0, |found| found.len());
        while length() <= before.len() as u64 && Instant::now() < until {
            std::thread::sleep(Duration::from_micros(200));
        }
        std::thread::sleep(Duration::from_micros(round * 137 % 3_000));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let now = fs::read(&file).unwrap();
        assert!(now.len() > before.len() && now.starts_with(&before), "nothing that was there has changed");
        let ledger = Ledger::open(&file).unwrap();
        let checked = ledger.check().unwrap();
        assert!(checked.faults.is_empty(), "{:?}", checked.faults);
        let ends_torn = now.last() != Some(&b'\n');
        let appended = ledger.append(&entry(round * 10_000 + 9_999)).unwrap();
        let is_piece =
            ends_torn && checked.torn.last().is_some_and(|torn| now.ends_with(torn.text.as_bytes()));
        assert_eq!(appended.behind.is_some(), is_piece);
        before = fs::read(&file).unwrap();
    }
    let checked = Ledger::open(&file).unwrap().check().unwrap();
    assert!(checked.faults.is_empty() && checked.heads.len() == 1);
}

/// If another file replaces the ledger, as git does, an entry that is being written goes into the new one.
#[test]
fn an_entry_is_not_lost_in_a_file_that_was_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = common::ledger_of(folder.path(), [1]);
    let holder = fs::File::open(ledger.path()).unwrap();
    holder.lock().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| ledger.append(&entry(3)));
        std::thread::sleep(Duration::from_millis(200));
        let aside = tempfile::tempdir().unwrap();
        let new = common::ledger_of(aside.path(), [1, 2]);
        fs::copy(new.path(), folder.path().join("new")).unwrap();
        fs::rename(folder.path().join("new"), ledger.path()).unwrap();
        holder.unlock().unwrap();
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(times(&ledger), [1, 2, 3]);
    assert!(ledger.check().unwrap().faults.is_empty());
}

//! Shared parts of the tests.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::path::{Path, PathBuf};

use hone_ledger::{Checked, Ledger};
use hone_record::{LedgerEntry, Metric, RecordRef, RecordRole, Verdict};

/// An entry that differs from the others by its time.
pub fn entry(number: u64) -> LedgerEntry {
    LedgerEntry {
        at_unix_ms: number,
        who: "me@here".into(),
        hone: "0.1.0 (ab)".into(),
        verb: "optimize".into(),
        experiment: "broker".into(),
        change: "binary: pgo".into(),
        question: "Is pgo better?".into(),
        rule: "by the interval of CPU per record".into(),
        workload: "validate".into(),
        metric: Some(Metric::CpuPerRecord),
        ratio: Some([0.91, 0.89, 0.93]),
        confidence: Some(0.95),
        values: Some([21.3, 19.4]),
        pairs: Some(8),
        verdict: Some(Verdict::Better),
        decision: "keep".into(),
        why: "9 % less CPU per record; p50 über die Hälfte\nand a line feed, µs".into(),
        profile_sha256: Some("ab".repeat(32)),
        run: "runs/1".into(),
        records: vec![RecordRef {
            path: "windows/000-a.json".into(),
            sha256: "cd".repeat(32),
            role: RecordRole::Before,
        }],
        ..LedgerEntry::default()
    }
}

/// A line of an older build without a chain.
pub fn old_line(number: u64) -> String {
    format!(
        "{{\"hone_record\":1,\"kind\":\"ledger-entry\",\"body\":{{\"at_unix_ms\":{number},\"experiment\":\"broker\",\
         \"change\":\"binary: pgo\",\"workload\":\"validate\",\"metric\":\"cpu-per-record\",\"ratio\":[0.91,0.89,0.93],\
         \"verdict\":\"better\",\"decision\":\"keep\",\"why\":\"less\",\"profile_sha256\":null,\"run\":\"runs/1\"}}}}\n"
    )
}

/// A ledger with these entries.
pub fn ledger_of(folder: &Path, numbers: impl IntoIterator<Item = u64>) -> Ledger {
    let ledger = Ledger::open(folder.join("ledger.jsonl")).unwrap();
    numbers.into_iter().for_each(|number| drop(ledger.append(&entry(number)).unwrap()));
    ledger
}

/// The entries alone.
pub fn entries(checked: &Checked) -> Vec<LedgerEntry> {
    checked.lines.iter().map(|line| line.entry.clone()).collect()
}

/// The times of all entries, which identify them in the tests.
pub fn times(ledger: &Ledger) -> Vec<u64> {
    ledger.read().unwrap().lines.iter().map(|line| line.entry.at_unix_ms).collect()
}

/// A path in a folder.
pub fn path(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("ledger.jsonl")
}

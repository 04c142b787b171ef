//! A disk that takes only a part of an entry. A limit on the size of files stands in for it; it holds for the whole
//! process, so this file has one test only.

use hone_ledger::{Ledger, LedgerError};
use hone_record::{LedgerEntry, Metric, Verdict};

fn entry(number: u64) -> LedgerEntry {
    LedgerEntry {
        at_unix_ms: number,
        experiment: "broker".into(),
        change: "binary: pgo".into(),
        workload: "plain".into(),
        metric: Metric::CpuPerRecord,
        ratio: None,
        verdict: Verdict::NotShown,
        decision: "drop".into(),
        why: "the interval holds 1".into(),
        foretold: None,
        profile_sha256: None,
        run: "runs/1".into(),
    }
}

fn limit_files_to(bytes: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the structure is valid and only read. Without the signal, a write past the limit is an error.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
    }
}

#[test]
fn an_entry_that_does_not_fit_leaves_the_ledger_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(folder.path().join("ledger.jsonl")).unwrap();
    ledger.append(&entry(1)).unwrap();
    let before = std::fs::read(ledger.path()).unwrap();

    for room in [0, 1, 50] {
        limit_files_to(before.len() as u64 + room);
        let error = ledger.append(&entry(2)).unwrap_err();
        assert!(matches!(error, LedgerError::Io { tried: "append to", .. }), "{error}");
        assert_eq!(std::fs::read(ledger.path()).unwrap(), before, "with room for {room} bytes");
    }

    limit_files_to(libc::RLIM_INFINITY);
    ledger.append(&entry(3)).unwrap();
    let contents = ledger.read().unwrap();
    assert_eq!(contents.entries, [entry(1), entry(3)]);
    assert!(contents.torn.is_empty());
}

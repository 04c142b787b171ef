//! Ledgers of several hosts become one, in any order and any number of times. A changed ledger is not imported.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use hone_ledger::{Ledger, LedgerError};

mod common;
use common::{entry, old_line};

fn ledger(folder: &Path, name: &str, times: &[u64]) -> Ledger {
    let ledger = Ledger::at(folder.join(name));
    for at in times {
        ledger.append(&entry(*at)).unwrap();
    }
    ledger
}

fn bytes(ledger: &Ledger) -> Vec<u8> {
    fs::read(ledger.path()).unwrap()
}

fn times(ledger: &Ledger) -> BTreeSet<u64> {
    let checked = ledger.check().unwrap();
    assert!(checked.faults.is_empty(), "{:?}", checked.faults);
    assert!(checked.repeated.is_empty(), "{:?}", checked.repeated);
    checked.lines.iter().map(|line| line.entry.at_unix_ms).collect()
}

#[test]
fn hosts_become_one_in_any_order_and_each_line_is_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let a = ledger(folder.path(), "a", &[1, 2]);
    // The lines of b follow the state of a at that time.
    let b = Ledger::at(folder.path().join("b"));
    assert_eq!(b.take_in(&bytes(&a), "a").unwrap(), 2);
    let b = ledger(folder.path(), b.path().file_name().unwrap().to_str().unwrap(), &[10, 11]);
    let a = ledger(folder.path(), "a", &[3]);
    let old = Ledger::at(folder.path().join("old"));
    fs::write(old.path(), old_line(100)).unwrap();

    for order in [[&a, &b, &old], [&old, &b, &a]] {
        let all = Ledger::at(folder.path().join("all"));
        for one in order {
            all.take_in(&bytes(one), "one").unwrap();
        }
        let before = bytes(&all);
        assert_eq!(all.take_in(&bytes(&a), "a").unwrap(), 0, "nothing new");
        assert_eq!(bytes(&all), before);
        assert_eq!(times(&all), [1, 2, 3, 10, 11, 100].into());
        assert_eq!(all.check().unwrap().heads.len(), 3);
        all.append(&entry(200)).unwrap();
        assert_eq!(all.check().unwrap().heads.len(), 1, "the next entry follows all");
        assert!(bytes(&all).starts_with(&before), "it only grows");
        fs::remove_file(all.path()).unwrap();
    }
}

#[test]
fn what_a_killed_writer_left_stays_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (ledger(folder.path(), "a", &[1]), ledger(folder.path(), "b", &[2]));
    let torn = |ledger: &Ledger| {
        let text = [&bytes(ledger)[..], b"{\"hone_record\":2,\"ki"].concat();
        fs::write(ledger.path(), text).unwrap();
    };
    torn(&a);
    torn(&b);
    assert_eq!(a.take_in(&bytes(&b), "b").unwrap(), 1);
    assert_eq!(times(&a), [1, 2].into());
    assert_eq!(a.check().unwrap().torn.len(), 1, "its own");
}

#[test]
fn what_is_not_as_it_was_written_does_not_get_in() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (ledger(folder.path(), "a", &[1]), ledger(folder.path(), "b", &[2, 3]));
    let (whole_a, whole_b) = (bytes(&a), String::from_utf8(bytes(&b)).unwrap());
    let second = whole_b.lines().nth(1).unwrap();
    for (wrong, line, words) in [
        (whole_b.replace("\"at_unix_ms\":3,", "\"at_unix_ms\":4,"), 2, "changed"),
        (format!("{second}\n"), 1, ""),
        (format!("{whole_b}{{\"a\":1}}\n"), 3, ""),
    ] {
        let error = a.take_in(wrong.as_bytes(), "host b").unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, LedgerError::Faulty { line: at, .. } if at == line), "{text}");
        assert!(text.contains("host b failed verification") && text.contains(words), "{text}");
        assert_eq!(bytes(&a), whole_a);
    }
    // A changed ledger does not accept lines, either.
    let edited = String::from_utf8(whole_a).unwrap().replace("\"at_unix_ms\":1,", "\"at_unix_ms\":5,");
    fs::write(a.path(), &edited).unwrap();
    assert!(matches!(a.take_in(whole_b.as_bytes(), "b"), Err(LedgerError::Faulty { line: 1, .. })));
    assert_eq!(bytes(&a), edited.as_bytes());
    fs::write(a.path(), "notes of mine\n").unwrap();
    assert!(a.take_in(whole_b.as_bytes(), "b").is_err());
    assert_eq!(bytes(&a), b"notes of mine\n");
}

//! The file on a real disk: round trip, torn lines, foreign files, simultaneous writers.

use std::fs;
use std::path::Path;
use std::sync::Barrier;

use hone_ledger::{Ledger, LedgerError, line_of as line};
use hone_record::{Envelope, LedgerEntry, Machine};
use proptest::prelude::*;

mod common;
use common::{entry, times};

fn line_of(entry: &LedgerEntry) -> String {
    line(entry).unwrap()
}

#[test]
fn a_missing_file_is_an_empty_ledger_and_is_not_created_by_looking() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.jsonl");
    let ledger = Ledger::open(&path).unwrap();
    assert!(ledger.read().unwrap().lines.is_empty());
    assert!(!path.exists());
}

#[test]
fn entries_come_back_as_they_were_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(folder.path().join("ledger.jsonl")).unwrap();
    let entries = [entry(3), LedgerEntry { ratio: None, profile_sha256: None, ..entry(1) }];
    for entry in &entries {
        ledger.append(entry).unwrap();
    }
    let contents = Ledger::open(ledger.path()).unwrap().read().unwrap();
    assert_eq!(common::entries(&contents), entries);
    assert!(contents.torn.is_empty());
    assert_eq!(fs::read_to_string(ledger.path()).unwrap().lines().count(), 2);
}

#[test]
fn a_line_torn_at_any_byte_is_reported_kept_and_does_not_swallow_the_next_entry() {
    let folder = tempfile::tempdir().unwrap();
    // Short, since it is cut at each of its bytes.
    let short = |number| LedgerEntry { at_unix_ms: number, ..LedgerEntry::default() };
    let whole = line_of(&short(2));
    for lines_before in [0_u64, 1] {
        for cut in 0..whole.len() {
            let path = folder.path().join(format!("{lines_before}-{cut}.jsonl"));
            let mut bytes = line_of(&entry(1)).repeat(lines_before as usize).into_bytes();
            bytes.extend_from_slice(&whole.as_bytes()[..cut]);
            fs::write(&path, &bytes).unwrap();

            let ledger = Ledger::open(&path).unwrap();
            // Without its line feed alone, the entry is complete and counts.
            let complete = u64::from(cut == whole.len() - 1);
            let torn = usize::from(cut > 0 && complete == 0);
            let contents = ledger.read().unwrap();
            assert_eq!(contents.lines.len() as u64, lines_before + complete, "cut at {cut}");
            assert_eq!(contents.torn.len(), torn, "cut at {cut}");

            ledger.append(&entry(9)).unwrap();
            let contents = ledger.read().unwrap();
            assert_eq!(contents.lines.len() as u64, lines_before + complete + 1, "cut at {cut}");
            assert_eq!(contents.lines.last().map(|line| &line.entry), Some(&entry(9)));
            assert_eq!(contents.torn.len(), torn, "cut at {cut}");
            assert!(fs::read(&path).unwrap().starts_with(&bytes), "cut at {cut}: old bytes were changed");
        }
    }
}

/// A file may have its new length on the disk before its new bytes: after a power cut it has zeros in their place.
#[test]
fn zeros_of_a_power_cut_are_a_torn_line_and_lock_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.jsonl");
    let whole = line_of(&entry(2));
    let whole = whole.trim_end();
    for there in [0, 1, 10, 40, whole.len()] {
        for zeros in [1, 4_096] {
            let piece = &whole[..there];
            let bytes = format!("{}{piece}{}", line_of(&entry(1)), "\0".repeat(zeros));
            fs::write(&path, &bytes).unwrap();
            let ledger = Ledger::open(&path).unwrap();
            let behind = ledger.append(&entry(3)).unwrap().behind.unwrap();
            assert_eq!((behind.line, behind.text.as_str()), (2, piece), "{zeros} zeros");
            let checked = ledger.check().unwrap();
            assert!(checked.faults.is_empty() && checked.torn.len() == 1, "{there} {zeros}: {checked:?}");
            assert_eq!(times(&ledger), [1, 3]);
            assert!(
                fs::read_to_string(&path).unwrap().starts_with(&bytes),
                "what is there is never rewritten"
            );
        }
    }
    refuses(&path, b"notes of mine\0\0", 1, "is not a ledger");
    refuses(&path, format!("{whole}{whole}\0").as_bytes(), 1, "is not a ledger");
}

#[test]
fn a_torn_line_says_its_number_and_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.jsonl");
    fs::write(&path, format!("{}{}", line_of(&entry(1)), &line_of(&entry(2))[..20])).unwrap();
    let ledger = Ledger::open(&path).unwrap();
    ledger.append(&entry(3)).unwrap();
    let torn = ledger.read().unwrap().torn;
    assert_eq!(torn.len(), 1);
    assert_eq!(torn[0].line, 2);
    assert_eq!(torn[0].text, r#"{"hone_record":2,"ki"#);
    assert_eq!(times(&ledger), [1, 3]);
}

#[track_caller]
fn refuses(path: &Path, content: &[u8], line: usize, words: &str) {
    fs::write(path, content).unwrap();
    let error = Ledger::open(path).unwrap_err();
    let LedgerError::Foreign { line: found, .. } = &error else { panic!("{error}") };
    assert_eq!(*found, line);
    assert!(error.to_string().contains(words), "{error}");
    assert_eq!(fs::read(path).unwrap(), content);
}

#[test]
fn foreign_files_are_refused_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let machine = Envelope::new(Machine::default());
    refuses(&path, b"hello\n", 1, "is not a ledger (line 1: ");
    refuses(&path, b"hello", 1, "is not a ledger");
    refuses(&path, b"\x7fELF\x02\x01\x01\xff\xfe", 1, "not UTF-8");
    refuses(&path, b"{\"a\":1}\n", 1, "not a Hone record");
    refuses(&path, machine.to_line().unwrap().as_bytes(), 1, "has the kind `machine`");
    refuses(&path, machine.to_text().unwrap().as_bytes(), 2, "is not a ledger");
    let mixed = format!("{}name: x\n", line_of(&entry(1)));
    refuses(&path, mixed.as_bytes(), 2, "(line 2: ");
}

#[test]
fn a_file_that_turned_foreign_after_opening_is_not_appended_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.jsonl");
    let ledger = Ledger::open(&path).unwrap();
    fs::write(&path, "notes of mine\n").unwrap();
    assert!(matches!(ledger.append(&entry(1)), Err(LedgerError::Foreign { .. })));
    assert_eq!(fs::read_to_string(&path).unwrap(), "notes of mine\n");
}

#[test]
fn an_entry_of_a_newer_build_stops_reader_and_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.jsonl");
    let newer = line_of(&entry(1)).replace("\"hone_record\":2", "\"hone_record\":999");
    fs::write(&path, &newer).unwrap();
    let error = Ledger::open(&path).unwrap_err();
    assert!(matches!(error, LedgerError::Newer { line: 1, .. }), "{error}");
    assert!(error.to_string().contains("use a newer hone"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), newer);
}

#[test]
fn a_folder_a_pipe_and_a_missing_folder_are_named() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(Ledger::open(folder.path()), Err(LedgerError::NotAFile { .. })));
    assert!(matches!(Ledger::open("/dev/null"), Err(LedgerError::NotAFile { .. })));
    let ledger = Ledger::open(folder.path().join("missing/ledger.jsonl")).unwrap();
    let error = ledger.append(&entry(1)).unwrap_err().to_string();
    assert!(
        error.starts_with("could not open for writing the ledger ") && error.contains("missing"),
        "{error}"
    );
}

#[test]
fn a_number_that_json_does_not_have_is_refused_before_the_file_is_touched() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(folder.path().join("ledger.jsonl")).unwrap();
    let odd = LedgerEntry { ratio: Some([f64::NAN, 1.0, 1.0]), ..entry(1) };
    // The JSON writer turns NaN into `null`, which no reader accepts as a number.
    let error = ledger.append(&odd).unwrap_err();
    assert!(matches!(error, LedgerError::Entry { .. }), "{error}");
    assert!(!ledger.path().exists());
}

#[test]
fn writers_at_the_same_time_lose_nothing_and_tear_nothing() {
    const WRITERS: u64 = 8;
    const EACH: u64 = 25;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.jsonl");
    let start = Barrier::new(WRITERS as usize);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (path, start) = (&path, &start);
            scope.spawn(move || {
                let ledger = Ledger::open(path).unwrap();
                start.wait();
                for number in 0..EACH {
                    ledger.append(&entry(writer * EACH + number)).unwrap();
                }
            });
        }
    });
    let ledger = Ledger::open(&path).unwrap();
    assert!(ledger.read().unwrap().torn.is_empty());
    let found = times(&ledger);
    for writer in 0..WRITERS {
        let of_writer: Vec<u64> = found.iter().copied().filter(|at| at / EACH == writer).collect();
        let expected: Vec<u64> = (writer * EACH..(writer + 1) * EACH).collect();
        assert_eq!(of_writer, expected, "entries of one writer stay in its order");
    }
}

#[test]
fn a_writer_waits_for_the_one_that_holds_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(folder.path().join("ledger.jsonl")).unwrap();
    ledger.append(&entry(1)).unwrap();
    let before = fs::read(ledger.path()).unwrap();
    let holder = fs::File::open(ledger.path()).unwrap();
    holder.lock().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| ledger.append(&entry(2)));
        // Long enough for a writer that does not wait. One that waits may take as long as it likes.
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert_eq!(fs::read(ledger.path()).unwrap(), before);
        holder.unlock().unwrap();
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(times(&ledger), [1, 2]);
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, &bytes).unwrap();
        if let Ok(ledger) = Ledger::open(&path) {
            ledger.append(&entry(5)).unwrap();
            let found = times(&ledger);
            prop_assert_eq!(found.last(), Some(&5));
        }
        prop_assert!(fs::read(&path).unwrap().starts_with(&bytes));
    }

    #[test]
    fn a_flipped_byte_never_invents_an_entry(at in 0_usize..400, byte in any::<u8>()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut bytes = format!("{}{}", line_of(&entry(1)), line_of(&entry(2))).into_bytes();
        let at = at.min(bytes.len() - 1);
        bytes[at] = byte;
        fs::write(&path, &bytes).unwrap();
        match Ledger::open(&path) {
            Ok(ledger) => prop_assert!(ledger.read().unwrap().lines.len() <= 2),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}

//! Faults of a ledger are detected and named: edits, deletions, moves. Other differences are not faults.

use std::fs;

use hone_ledger::{Checked, Ledger, Meaning};
use proptest::prelude::*;

mod common;
use common::{entry, ledger_of, old_line, path, times};

/// Lines of a ledger of `count` entries, each with its line feed.
fn lines(count: u64) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let ledger = ledger_of(folder.path(), 1..=count);
    fs::read_to_string(ledger.path()).unwrap().split_inclusive('\n').map(str::to_owned).collect()
}

fn checked(text: &str) -> Checked {
    let folder = tempfile::tempdir().unwrap();
    fs::write(path(&folder), text).unwrap();
    Ledger::at(path(&folder)).check().unwrap()
}

/// The first fault of a text.
#[track_caller]
fn first(text: &str) -> (usize, Meaning) {
    let checked = checked(text);
    let fault = checked.faults.first().expect("a fault");
    (fault.line, fault.meaning)
}

#[test]
fn a_ledger_as_it_was_written_has_one_head_and_no_fault() {
    let lines = lines(4);
    let checked = checked(&lines.concat());
    assert!(checked.faults.is_empty() && checked.torn.is_empty() && checked.repeated.is_empty());
    assert_eq!(checked.unchained().count(), 0);
    assert_eq!(checked.heads.iter().map(|head| head.line).collect::<Vec<_>>(), [4]);
    assert!(checked.lines[0].parents.is_empty());
    for (index, line) in checked.lines.iter().enumerate().skip(1) {
        assert_eq!(line.parents, [checked.lines[index - 1].hash.clone()]);
    }
}

#[test]
fn an_edit_is_named_at_its_line() {
    for edited in 0..3 {
        let mut lines = lines(3);
        lines[edited] = lines[edited].replace("\"better\"", "\"worse\"");
        assert_eq!(first(&lines.concat()), (edited + 1, Meaning::Edited));
    }
    // An unknown field is content, too.
    let mut lines = lines(2);
    lines[0] = lines[0].replace("\"body\":{", "\"body\":{\"note\":1,");
    assert_eq!(first(&lines.concat()), (1, Meaning::Edited));
}

/// If an editor also recomputes the hash of his line, the next line shows it.
#[test]
fn an_edit_with_a_hash_of_its_own_breaks_the_next_line() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = ledger_of(folder.path(), [1, 2]);
    let other = tempfile::tempdir().unwrap();
    let forged = ledger_of(other.path(), [1]);
    let mut worse = entry(2);
    worse.why = "another reason".into();
    forged.append(&worse).unwrap();
    let forged = fs::read_to_string(forged.path()).unwrap();
    ledger.append(&entry(3)).unwrap();
    let own: Vec<String> =
        fs::read_to_string(ledger.path()).unwrap().split_inclusive('\n').map(str::to_owned).collect();
    let checked = checked(&format!("{forged}{}", own[2]));
    let fault = &checked.faults[0];
    assert_eq!((fault.line, fault.meaning, checked.faults.len()), (3, Meaning::Deleted, 1));
    assert!(fault.found.contains("line 2, which has no successor"), "{}", fault.found);
}

#[test]
fn a_deletion_is_named_at_the_line_behind_it() {
    for deleted in 0..3 {
        let mut lines = lines(4);
        lines.remove(deleted);
        assert_eq!(first(&lines.concat()), (deleted + 1, Meaning::Deleted));
    }
    // At the end of the file only a hash from another source shows it.
    let all = lines(3);
    let before = checked(&all.concat()).heads[0].hash.clone();
    let cut = checked(&all[..2].concat());
    assert!(cut.faults.is_empty() && cut.lines.iter().all(|line| line.hash != before));
}

#[test]
fn a_move_is_named() {
    let mut lines = lines(4);
    lines.swap(1, 2);
    assert_eq!(first(&lines.concat()), (2, Meaning::Reordered));
}

#[test]
fn a_line_of_something_else_is_named_and_the_rest_is_looked_at() {
    let mut lines = lines(3);
    lines.insert(1, String::new());
    // The second one comes with `merge.conflictStyle = diff3`.
    for mark in ["<<<<<<< HEAD\n", "||||||| 4f1c2d3\n", "=======\n", ">>>>>>> theirs\n"] {
        mark.clone_into(&mut lines[1]);
        let checked = checked(&lines.concat());
        assert_eq!((checked.faults[0].line, checked.faults[0].meaning), (2, Meaning::Foreign));
        assert!(checked.faults[0].found.contains("keep all lines of both sides"), "{mark}");
        assert_eq!(checked.lines.len(), 3);
    }
    lines[1] = lines[0].replace("\"decision\":\"keep\"", "\"decision\":7");
    assert_eq!(first(&lines.concat()).1, Meaning::Foreign);
    let deep = format!("\"body\":{{\"x\":{}{},", "[".repeat(200_000), "]".repeat(200_000));
    lines[1] = lines[0].replace("\"body\":{", &deep);
    assert_eq!(first(&lines.concat()).1, Meaning::Foreign, "and the stack holds");
    lines[1] = lines[0].replace("\"decision\":", "\"decision\":\"drop\",\"decision\":");
    assert_eq!(first(&lines.concat()).1, Meaning::Foreign, "which of the two would count?");
}

/// Other programs that read and write JSON change spaces, the order of members and the form of numbers.
#[test]
fn writing_a_line_anew_is_no_edit() {
    let other = |line: &String| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        // Its members are sorted.
        format!("{value}\n").replace("\":", "\": ").replace("21.3", "2.13e1").replace("0.95", "9.5e-1")
    };
    let text: String = lines(3).iter().map(other).collect();
    let checked = checked(&text);
    assert_eq!(checked.lines.len(), 3);
    assert!(checked.faults.is_empty(), "{:?}", checked.faults);
}

#[test]
fn lines_from_before_the_chain_are_read_and_followed() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(path(&folder), format!("{}{}", old_line(1), old_line(2))).unwrap();
    let ledger = Ledger::open(path(&folder)).unwrap();
    assert_eq!(times(&ledger), [1, 2]);
    let checked_before = ledger.check().unwrap();
    assert_eq!((checked_before.unchained().count(), checked_before.heads.len()), (2, 2));
    ledger.append(&entry(3)).unwrap();
    ledger.append(&entry(4)).unwrap();
    let now = ledger.check().unwrap();
    assert_eq!((now.faults.len(), now.heads.len(), now.unchained().count()), (0, 1, 2));
    assert_eq!(now.lines[2].parents.len(), 2);
    // From then on an edit of such lines is detected.
    let text = fs::read_to_string(ledger.path()).unwrap();
    assert_eq!(first(&text.replacen("0.91", "0.81", 1)), (3, Meaning::Deleted));
    assert_eq!(first(&text[old_line(1).len()..]), (2, Meaning::Deleted));
}

#[test]
fn an_entry_behind_an_edit_does_not_heal_it() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = ledger_of(folder.path(), [1, 2]);
    let text = fs::read_to_string(ledger.path()).unwrap();
    fs::write(ledger.path(), text.replace("[0.91", "[0.81")).unwrap();
    let appended = ledger.append(&entry(3)).unwrap();
    assert_eq!(appended.fault.unwrap().line, 1);
    let faults = ledger.check().unwrap().faults;
    assert_eq!(faults.iter().map(|fault| fault.line).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn what_stands_there_twice_counts_once() {
    let lines = lines(3);
    let checked = checked(&format!("{}{}{}", lines.concat(), lines[1], lines[2]));
    assert!(checked.faults.is_empty());
    assert_eq!((checked.lines.len(), checked.repeated.len(), checked.repeated[0].first), (3, 2, 2));
}

#[test]
fn two_lines_without_a_line_feed_between_them_are_no_torn_one() {
    let lines = lines(3);
    for between in ["", " ", "x"] {
        let found = checked(&format!("{}{}{between}{}", lines[0], lines[1].trim_end(), lines[2]));
        assert_eq!((found.torn.len(), found.faults.len(), found.lines.len()), (0, 1, 1), "`{between}`");
    }
}

#[test]
fn behind_a_torn_line_an_entry_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = ledger_of(folder.path(), [1]);
    let whole = fs::read_to_string(ledger.path()).unwrap();
    fs::write(ledger.path(), format!("{whole}{}", &whole[..100])).unwrap();
    let torn = ledger.append(&entry(2)).unwrap().behind.unwrap();
    assert_eq!((torn.line, torn.text.as_str()), (2, &whole[..100]));
    assert_eq!(ledger.append(&entry(3)).unwrap().behind, None, "it is reported once");
    let checked = ledger.check().unwrap();
    assert!(checked.faults.is_empty() && checked.torn.len() == 1);
    assert!(fs::read_to_string(ledger.path()).unwrap().starts_with(&format!("{whole}{}\n", &whole[..100])));
}

/// An editor removed the last line feed. The partial line above is known already.
#[test]
fn behind_a_whole_entry_without_an_end_no_old_piece_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = ledger_of(folder.path(), [1]);
    let whole = fs::read_to_string(ledger.path()).unwrap();
    fs::write(ledger.path(), format!("{}\n{whole}", &whole[..100])).unwrap();
    ledger.append(&entry(2)).unwrap();
    let cut = fs::read_to_string(ledger.path()).unwrap();
    fs::write(ledger.path(), cut.trim_end()).unwrap();
    let appended = ledger.append(&entry(3)).unwrap();
    assert_eq!((appended.behind, appended.fault), (None, None));
    assert_eq!(ledger.read().unwrap().lines.len(), 3);
}

/// A byte that is not UTF-8 replaces a line feed: two complete lines in one, which no cut can create.
#[test]
fn two_lines_joined_by_a_foreign_byte_are_no_torn_one() {
    let lines = lines(3);
    let mut bytes = lines.concat().into_bytes();
    bytes[lines[0].len() + lines[1].len() - 1] = 128;
    let folder = tempfile::tempdir().unwrap();
    fs::write(path(&folder), &bytes).unwrap();
    let found = Ledger::at(path(&folder)).check().unwrap();
    assert!(found.torn.is_empty() && found.faults.len() == 1, "{:?}", found.faults);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever a byte becomes, the file reads as the same entries or with a fault. It never reads as other entries.
    #[test]
    fn a_changed_byte_is_found(at in 0_usize..10_000, byte in any::<u8>()) {
        let text = lines(3).concat();
        let whole = checked(&text);
        let mut bytes = text.into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        let folder = tempfile::tempdir().unwrap();
        fs::write(path(&folder), &bytes).unwrap();
        let found = Ledger::at(path(&folder)).check().unwrap();
        let is_same = common::entries(&found) == common::entries(&whole);
        // A part of the last line looks like the rest of a killed writer.
        let is_torn_end = !found.torn.is_empty() && found.lines.len() == 2;
        prop_assert!(is_same || is_torn_end || !found.faults.is_empty(), "byte {at} is {byte}");
    }

    #[test]
    fn lines_in_any_order_are_found_to_be_moved(seed in proptest::collection::vec(any::<u32>(), 5)) {
        let lines = lines(5);
        let mut order: Vec<usize> = (0..5).collect();
        order.sort_by_key(|index| seed[*index]);
        let moved: String = order.iter().map(|index| lines[*index].as_str()).collect();
        let is_as_written = order.is_sorted();
        prop_assert_eq!(checked(&moved).faults.is_empty(), is_as_written);
    }

    #[test]
    fn foreign_lines_never_panic(
        text in "(\\{\"hone_record\":[12],\"kind\":\"ledger-entry\",(\"hash\":(\"[0-9a-f]{64}\"|7),)?(\"parents\":\\[(\"x\"|null)?\\],)?\"body\":(\\{\\}|3|null)\\}\n|\\PC{0,40}\n){0,4}"
    ) {
        let found = checked(&text);
        prop_assert!(found.lines.is_empty());
    }
}

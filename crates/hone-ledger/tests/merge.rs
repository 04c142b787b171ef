//! Git branches that have both appended merge without losing an entry, and an edit on either branch is detected.

#![expect(clippy::disallowed_methods, reason = "starts the real git")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use hone_ledger::{Ledger, Meaning};

mod common;
use common::{entry, old_line, times};

struct Repository {
    folder: tempfile::TempDir,
}

impl Repository {
    /// `None` without git.
    fn new(attributes: &str) -> Option<Self> {
        let here = Self { folder: tempfile::tempdir().unwrap() };
        if Command::new("git").arg("--version").output().is_err() {
            assert!(std::env::var_os("HONE_REQUIRE_TOOLS").is_none(), "there is no git");
            return None;
        }
        here.git(&["init", "-q", "-b", "main"]);
        fs::write(here.path().join(".gitattributes"), attributes).unwrap();
        Some(here)
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn ledger(&self) -> Ledger {
        Ledger::at(self.path().join("ledger.jsonl"))
    }

    /// Whether it succeeded.
    fn try_git(&self, args: &[&str]) -> bool {
        let ran = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false"])
            .args(args)
            .current_dir(self.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        ran.status.success()
    }

    #[track_caller]
    fn git(&self, args: &[&str]) {
        assert!(self.try_git(args), "git {args:?}");
    }

    fn append_and_commit(&self, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            self.ledger().append(&entry(number)).unwrap();
            self.commit();
        }
    }

    fn commit(&self) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-qm", "entry"]);
    }
}

const UNION: &str = "ledger.jsonl merge=union\n";

#[test]
fn both_branches_keep_their_entries_and_the_next_one_follows_both() {
    let Some(here) = Repository::new(UNION) else { return };
    here.append_and_commit([1, 2]);
    here.git(&["checkout", "-qb", "other"]);
    here.append_and_commit([10, 11, 12]);
    here.git(&["checkout", "-q", "main"]);
    here.append_and_commit([20, 21]);
    here.git(&["merge", "-q", "-m", "m", "other"]);
    let merged = here.ledger().check().unwrap();
    assert!(merged.faults.is_empty(), "{:?}", merged.faults);
    assert_eq!(merged.heads.len(), 2);
    assert_eq!(times(&here.ledger()).into_iter().collect::<BTreeSet<_>>(), [1, 2, 10, 11, 12, 20, 21].into());

    here.append_and_commit([30]);
    let now = here.ledger().check().unwrap();
    assert_eq!((now.lines.last().unwrap().parents.len(), now.heads.len()), (2, 1));

    // After the merge, an edit on either branch is detected.
    let text = fs::read_to_string(here.ledger().path()).unwrap();
    for number in [1, 11, 20] {
        let edited =
            text.replace(&format!("\"at_unix_ms\":{number},"), &format!("\"at_unix_ms\":{},", number + 50));
        fs::write(here.ledger().path(), edited).unwrap();
        assert_eq!(here.ledger().check().unwrap().faults[0].meaning, Meaning::Edited);
    }
    for (index, _) in text.lines().enumerate().take(7) {
        let without: Vec<&str> =
            text.lines().enumerate().filter(|(at, _)| *at != index).map(|(_, line)| line).collect();
        fs::write(here.ledger().path(), without.join("\n") + "\n").unwrap();
        assert_eq!(here.ledger().check().unwrap().faults[0].meaning, Meaning::Deleted);
    }
}

/// Three branches with criss-cross merges, old lines at the start, and a killed writer on one of them.
#[test]
fn merges_of_merges_verify() {
    let Some(here) = Repository::new(UNION) else { return };
    fs::write(here.ledger().path(), format!("{}{}", old_line(1), old_line(2))).unwrap();
    here.commit();
    for (index, branch) in ["a", "b", "c"].into_iter().enumerate() {
        here.git(&["checkout", "-qb", branch, "main"]);
        let first = 10 * (index as u64 + 1);
        here.append_and_commit(first..first + 3);
    }
    let mut text = fs::read_to_string(here.ledger().path()).unwrap();
    text.push_str(&text.clone()[..300]);
    fs::write(here.ledger().path(), text).unwrap();
    here.commit();
    here.git(&["checkout", "-q", "a"]);
    here.git(&["merge", "-q", "-m", "m", "b"]);
    here.append_and_commit([40]);
    here.git(&["checkout", "-q", "b"]);
    here.git(&["merge", "-q", "-m", "m", "c"]);
    here.append_and_commit([50]);
    here.git(&["merge", "-q", "-m", "m", "a"]);
    here.git(&["checkout", "-q", "main"]);
    here.git(&["merge", "-q", "-m", "m", "b"]);
    here.append_and_commit([60]);
    let checked = here.ledger().check().unwrap();
    assert!(checked.faults.is_empty(), "{:#?}", checked.faults);
    let wanted: BTreeSet<u64> = [1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32, 40, 50, 60].into();
    assert_eq!(times(&here.ledger()).into_iter().collect::<BTreeSet<_>>(), wanted);
    assert_eq!((checked.torn.len(), checked.heads.len(), checked.unchained().count()), (1, 1, 2));
}

#[test]
fn a_rebase_keeps_all_entries_too() {
    let Some(here) = Repository::new(UNION) else { return };
    here.append_and_commit([1]);
    here.git(&["checkout", "-qb", "other"]);
    here.append_and_commit([10, 11]);
    here.git(&["checkout", "-q", "main"]);
    here.append_and_commit([20]);
    here.git(&["checkout", "-q", "other"]);
    here.git(&["rebase", "-q", "main"]);
    assert_eq!(times(&here.ledger()).into_iter().collect::<BTreeSet<_>>(), [1, 10, 11, 20].into());
    assert!(here.ledger().check().unwrap().faults.is_empty());
}

#[test]
fn without_the_attribute_git_asks_and_verify_says_what_to_do() {
    let Some(here) = Repository::new("") else { return };
    here.append_and_commit([1]);
    here.git(&["checkout", "-qb", "other"]);
    here.append_and_commit([10]);
    here.git(&["checkout", "-q", "main"]);
    here.append_and_commit([20]);
    assert!(!here.try_git(&["merge", "-q", "-m", "m", "other"]));
    let faults = here.ledger().check().unwrap().faults;
    assert!(faults[0].found.contains("delete the markers"), "{faults:?}");
    assert!(here.ledger().append(&entry(30)).is_err(), "an unfinished merge is not appended to");
    // As the error says: all lines of both sides, without the markers.
    let text = fs::read_to_string(here.ledger().path()).unwrap();
    let whole: String =
        text.lines().filter(|line| line.starts_with('{')).map(|line| format!("{line}\n")).collect();
    fs::write(here.ledger().path(), whole).unwrap();
    here.append_and_commit([30]);
    assert_eq!(times(&here.ledger()), [1, 20, 10, 30]);
    assert!(here.ledger().check().unwrap().faults.is_empty());
}

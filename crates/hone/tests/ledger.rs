//! `hone ledger`: what commands write, who changed it, and a disk that is full.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start the program as its users do, and mount a small disk"
)]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

mod stage;
use stage::{Ran, hone_command, hone_in};

/// A machine with one setting under the root; its files accept anything.
fn machine() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("proc/sys/kernel/random/boot_id", "first-boot\n"),
        ("proc/sys/kernel/osrelease", "6.1.0\n"),
        ("proc/meminfo", "SwapTotal:             0 kB\n"),
        ("proc/sys/vm/dirty_ratio", "20\n"),
        ("proc/sys/vm/dirty_bytes", "0\n"),
    ] {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

fn host(root: &Path, words: &[&str], ledger: &Path) -> Ran {
    let place = ["--root", root.to_str().unwrap(), "--ledger", ledger.to_str().unwrap()];
    hone_in(root, &[&["host"], words, &place].concat())
}

fn ledger(folder: &Path, words: &[&str]) -> Ran {
    hone_in(folder, &[&["ledger"], words].concat())
}

/// A change that was made, confirmed and taken back.
fn there_and_back(root: &Path, ledger: &Path) {
    for words in [&["apply", "latency"][..], &["confirm", "--this-boot"], &["rollback"]] {
        host(root, words, ledger).expect_code(0);
    }
}

#[test]
fn what_was_done_is_shown_filtered_exported_and_verified() {
    let root = machine();
    let runs = root.path().join("runs");
    let path = runs.join("ledger.jsonl");
    ledger(root.path(), &["show"]).expect_code(1).expect_error("there is no ledger runs/ledger.jsonl");
    there_and_back(root.path(), &path);
    let text = ledger(root.path(), &["show"]).expect_code(0).stdout;
    for wanted in [
        "host apply",
        "applied",
        "vm/dirty_ratio = 10",
        "to roll it back: hone host rollback",
        "rolled back",
        "3 of 3",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let shown = |words: &[&str]| {
        let ran = ledger(root.path(), &[&["show", "--json"], words].concat()).expect_code(0);
        ran.json()["body"]["entries"].as_array().unwrap().clone()
    };
    let all = shown(&[]);
    assert_eq!(all[1]["parents"], serde_json::json!([all[0]["hash"]]));
    assert!(all[0]["entry"]["who"].as_str().unwrap().contains('@'), "{}", all[0]);
    assert!(
        all[0]["entry"]["hone"].as_str().unwrap().starts_with(concat!(env!("CARGO_PKG_VERSION"), " (")),
        "{}",
        all[0]
    );
    assert_eq!(shown(&["--newest", "1"])[0]["entry"]["decision"], "taken back");
    assert_eq!((shown(&["--verb", "host"]).len(), shown(&["--verb", "host apply"]).len()), (3, 1));
    assert_eq!((shown(&["--verb", "hos"]).len(), shown(&["--verdict", "better"]).len()), (0, 0));
    assert_eq!(shown(&["--layer", "host", "runs"]).len(), 3);
    let csv = ledger(root.path(), &["export", "--csv", "runs"]).expect_code(0).stdout;
    assert!(csv.starts_with("line,at_utc,") && csv.matches("\r\n").count() == 4, "{csv}");
    let markdown = ledger(root.path(), &["export", "--markdown"]).expect_code(0).stdout;
    assert_eq!(markdown.lines().count(), 5, "{markdown}");
    ledger(root.path(), &["export"]).expect_code(2).expect_error("--csv, --markdown or --json");
    ledger(root.path(), &["export", "--csv", "--json"]).expect_code(2).expect_error("exclude each other");

    let good = ledger(root.path(), &["verify"]).expect_code(0).stdout;
    let head = all[2]["hash"].as_str().unwrap();
    assert!(good.contains("Every line is as it was written") && good.contains(head), "{good}");
    ledger(root.path(), &["verify", "--expect-head", head]).expect_code(0);
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, whole.replacen("= 10", "= 20", 1)).unwrap();
    let edited = ledger(root.path(), &["verify"]).expect_code(1).stdout;
    assert!(edited.contains("Line 1 is edited: this line was changed after it was written"), "{edited}");
    assert!(
        ledger(root.path(), &["show"])
            .expect_code(0)
            .stdout
            .contains("Line 1 was changed after it was written")
    );
    // One that was cut off verifies, but for who kept the head.
    let cut: String = whole.lines().take(2).map(|line| format!("{line}\n")).collect();
    fs::write(&path, cut).unwrap();
    ledger(root.path(), &["verify"]).expect_code(0);
    assert!(
        ledger(root.path(), &["verify", "--expect-head", head])
            .expect_code(1)
            .stdout
            .contains("was truncated")
    );
    // A writer that was killed is told, and the next one goes on after it.
    fs::write(&path, format!("{whole}{}", &whole[..200])).unwrap();
    assert!(ledger(root.path(), &["verify"]).expect_code(0).stdout.contains("Line 4 is incomplete"));
    let said = host(root.path(), &["apply", "latency"], &path).expect_code(0).stderr;
    assert!(said.contains("line 4 is a partial entry"), "{said}");
    assert!(fs::read_to_string(&path).unwrap().starts_with(&format!("{whole}{}\n", &whole[..200])));
}

#[test]
fn commands_at_the_same_time_make_one_chain() {
    const ROUNDS: usize = 3;
    let shared = tempfile::tempdir().unwrap();
    let path = shared.path().join("ledger.jsonl");
    let roots = [machine(), machine()];
    std::thread::scope(|scope| {
        for root in &roots {
            let path = &path;
            scope.spawn(move || (0..ROUNDS).for_each(|_| there_and_back(root.path(), path)));
        }
    });
    let found = ledger(shared.path(), &["verify", "--json", path.to_str().unwrap()]).expect_code(0).json();
    assert_eq!(found["body"]["entries"], 2 * 3 * ROUNDS);
    assert_eq!(found["body"]["heads"].as_array().unwrap().len(), 1, "{found}");
}

/// A file system in memory; `None` where that may not be made.
struct Small(tempfile::TempDir);

impl Small {
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let made = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=8k", "none"])
            .arg(folder.path())
            .stderr(Stdio::null())
            .status();
        made.is_ok_and(|made| made.success()).then_some(Self(folder))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn an_entry_that_the_disk_does_not_take_is_shown_and_leaves_no_trace() {
    // Where none may be mounted, crates/hone-ledger/tests/full_disk.rs has its limit on the size of files.
    let Some(small) = Small::new() else { return };
    let root = machine();
    let path = small.0.path().join("ledger.jsonl");
    fs::write(small.0.path().join("others"), vec![0; 8192]).unwrap();
    let refused = host(root.path(), &["apply", "latency"], &path).expect_code(1);
    // The change itself is made, and its result is shown.
    assert_eq!(fs::read_to_string(root.path().join("proc/sys/vm/dirty_ratio")).unwrap().trim(), "10");
    assert!(refused.stdout.contains("dirty_ratio"), "{}", refused.stdout);
    let (_, line) =
        refused.stderr.split_once("the ledger entry was not written; this is the entry: ").unwrap();
    let entry: Value = serde_json::from_str(line.lines().next().unwrap()).unwrap();
    assert_eq!(entry["body"]["decision"], "applied");
    assert!(refused.stderr.contains("No space left on device"), "{}", refused.stderr);
    assert!(!path.exists());
    fs::remove_file(small.0.path().join("others")).unwrap();
    host(root.path(), &["rollback"], &path).expect_code(0);
    ledger(root.path(), &["verify", path.to_str().unwrap()]).expect_code(0);
}

/// Whatever moment a command is killed at: the ledger verifies.
#[test]
fn a_command_that_is_killed_leaves_a_ledger_that_verifies() {
    let root = machine();
    let path = root.path().join("ledger.jsonl");
    for round in 0..8_u64 {
        let place = ["--root", root.path().to_str().unwrap(), "--ledger", path.to_str().unwrap()];
        let words = [&["host", if round % 2 == 0 { "apply" } else { "rollback" }], &place[..]].concat();
        let mut child: Child =
            hone_command().args(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20 + round * 25));
        let _ = child.kill();
        child.wait().unwrap();
        // One that was killed before its first entry has left none.
        if path.exists() {
            ledger(root.path(), &["verify", path.to_str().unwrap()]).expect_code(0);
        }
    }
    // Whatever they left: who comes behind them gets in.
    for words in [&["rollback", "--interrupted"][..], &["rollback"], &["apply", "latency"]] {
        host(root.path(), words, &path);
    }
    let found = ledger(root.path(), &["verify", "--json", path.to_str().unwrap()]).expect_code(0).json();
    assert!(found["body"]["entries"].as_u64().unwrap() > 0, "{found}");
}

//! `hone host` on a root of plain files: the verbs, the guard, and what is left behind.

use std::fs;
use std::path::Path;

mod host_cli;
use host_cli::{armed, command, hone, journal, let_its_time_come, said, waits_for};

/// A machine with one disk under the root; its files accept anything.
fn machine() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("proc/sys/kernel/random/boot_id", "first-boot\n"),
        ("proc/sys/kernel/osrelease", "6.1.0\n"),
        ("proc/self/mountinfo", "22 1 259:1 / / rw - ext4 /dev/nvme0n1p1 rw\n"),
        ("proc/meminfo", "SwapTotal:             0 kB\n"),
        ("proc/sys/vm/swappiness", "60\n"),
        ("proc/sys/vm/dirty_ratio", "20\n"),
        ("proc/sys/vm/dirty_bytes", "0\n"),
        ("proc/sys/vm/dirty_background_ratio", "10\n"),
        ("proc/sys/vm/dirty_background_bytes", "0\n"),
        ("proc/sys/vm/stat_interval", "1\n"),
        ("sys/block/nvme0n1/dev", "259:0\n"),
        ("sys/block/nvme0n1/serial", "vol01\n"),
        ("sys/block/nvme0n1/diskseq", "1\n"),
        ("sys/block/nvme0n1/nvme0n1p1/dev", "259:1\n"),
        ("sys/block/nvme0n1/nvme0n1p1/partition", "1\n"),
        ("sys/block/nvme0n1/mq/0/nr_tags", "1023\n"),
        ("sys/block/nvme0n1/mq/1/nr_tags", "1023\n"),
        ("sys/block/nvme0n1/queue/scheduler", "[none] mq-deadline\n"),
        ("sys/block/nvme0n1/queue/nomerges", "0\n"),
        ("sys/block/nvme0n1/queue/read_ahead_kb", "128\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
    ] {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

fn ok(root: &Path, arguments: &[&str]) -> String {
    let output = hone(root, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    said(&output)
}

const SETTINGS: [&str; 5] = [
    "proc/sys/vm/dirty_ratio",
    "proc/sys/vm/dirty_background_ratio",
    "proc/sys/vm/swappiness",
    "proc/sys/vm/stat_interval",
    "sys/block/nvme0n1/queue/nomerges",
];

fn values(root: &Path) -> Vec<String> {
    SETTINGS.iter().map(|path| fs::read_to_string(root.join(path)).unwrap().trim().to_owned()).collect()
}

const BEFORE: [&str; 5] = ["20", "10", "60", "1", "0"];

/// As the profile `latency` wants it; nothing is swapped here, so swappiness stays.
const LATENCY: [&str; 5] = ["10", "3", "60", "10", "0"];

#[test]
fn a_plan_writes_nothing_and_says_what_cannot_matter() {
    let root = machine();
    let text = ok(root.path(), &["plan", "latency", "--data", "/var/lib/kafka"]);
    assert!(text.contains("~ vm.dirty_ratio: 20 -> 10"), "{text}");
    assert!(text.contains("= queue.scheduler of nvme0n1: none"), "{text}");
    assert!(text.contains("no effect here: this host has no swap space"), "{text}");
    assert_eq!(values(root.path()), BEFORE);
    assert!(!root.path().join("var").exists());
    let json: serde_json::Value =
        serde_json::from_str(&ok(root.path(), &["plan", "redpanda", "--json", "--disk", "nvme0n1"])).unwrap();
    assert_eq!(json["kind"], "host-plan");
    let unknown = hone(root.path(), &["plan", "no-such-profile"]);
    assert!(said(&unknown).contains("field-guide, redpanda"), "{}", said(&unknown));
    let text = ok(root.path(), &["status", "--data", "/var/lib/kafka"]);
    assert!(text.contains("nvme0n1: 2 hardware queues of 1023 requests, serial vol01"), "{text}");
    // What an fsync costs is measured where one says, and leaves nothing there.
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().to_str().unwrap();
    let probed = ok(root.path(), &["status", "--data", "/var/lib/kafka", "--probe-fsync", there, "--json"]);
    let probed: serde_json::Value = serde_json::from_str(&probed).unwrap();
    let [count, p50, max] = ["count", "us_p50", "us_max"].map(|name| probed["body"]["fsync"][name].as_u64());
    assert!(count == Some(100) && p50.is_some() && p50 <= max, "{probed:#}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let nowhere = hone(root.path(), &["status", "--probe-fsync", "/no/such/folder"]);
    assert!(said(&nowhere).contains("can't probe fsync in /no/such/folder"), "{}", said(&nowhere));
}

#[test]
fn applied_confirmed_reverted_and_nothing_left() {
    let root = machine();
    let data = ["--data", "/var/lib/kafka"];
    ok(root.path(), &[["apply", "latency"], data].concat());
    assert_eq!(values(root.path()), LATENCY);
    let again = hone(root.path(), &[["apply", "redpanda"], data].concat());
    assert!(said(&again).contains("neither confirmed nor rolled back"), "{}", said(&again));
    assert!(ok(root.path(), &["rollback", "--interrupted"]).contains("waits"));
    let text = ok(root.path(), &["confirm"]);
    assert!(text.contains("+ /etc/sysctl.d/99-zz-hone.conf"), "{text}");
    let sysctl = root.path().join("etc/sysctl.d/99-zz-hone.conf");
    assert!(fs::read_to_string(&sysctl).unwrap().contains("\nvm/dirty_ratio = 10\n"));
    // Somebody else sets one of the values: it is named, and left.
    fs::write(root.path().join("proc/sys/vm/stat_interval"), "5\n").unwrap();
    let drift = hone(root.path(), &["rollback"]);
    assert_eq!(drift.status.code(), Some(1));
    assert!(said(&drift).contains("stat_interval: unchanged: 5, before 1"), "{}", said(&drift));
    assert!(!sysctl.exists());
    ok(root.path(), &["rollback", "--force"]);
    assert_eq!(values(root.path()), BEFORE);
    assert!(ok(root.path(), &["uninstall"]).contains("Nothing of `hone host` is left"));
    assert!(!root.path().join("var/lib/hone").exists());
}

/// Seconds since boot, with their fraction.
fn since_boot_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[test]
fn without_a_confirmation_the_guard_takes_it_back() {
    let root = machine();
    let begun_s = since_boot_s();
    let text = ok(root.path(), &["apply", "latency", "--confirm-within", "10m"]);
    let ended_s = since_boot_s();
    assert!(text.contains("rolls it back in 600 s unless"), "{text}");
    assert_eq!(values(root.path()), LATENCY);
    let journal = journal(root.path(), "00001");
    let deadline_s = armed(&journal).unwrap().1 as f64;
    assert!(deadline_s >= begun_s + 600.0, "nobody has less time than was said: {begun_s} {deadline_s}");
    assert!(deadline_s <= ended_s + 601.0, "{ended_s} {deadline_s}");
    let_its_time_come(&journal);
    waits_for("the way back", || values(root.path()) == BEFORE);
    let late = hone(root.path(), &["confirm"]);
    assert!(!late.status.success());
}

#[test]
fn with_a_confirmation_the_guard_goes() {
    let root = machine();
    let json: serde_json::Value =
        serde_json::from_str(&ok(root.path(), &["apply", "latency", "--confirm-within", "10m", "--json"]))
            .unwrap();
    let guard = json["body"]["applied"]["guard"].as_u64().unwrap();
    ok(root.path(), &["confirm", "--this-boot"]);
    // Whether it hears of the confirmation or of its time first, it finds both.
    let journal = journal(root.path(), "00001");
    let_its_time_come(&journal);
    let is_guard = || {
        fs::read(format!("/proc/{guard}/cmdline"))
            .is_ok_and(|line| line.windows(5).any(|word| word == b"guard"))
    };
    waits_for("the guard's end", || !is_guard());
    assert_eq!(values(root.path()), LATENCY);
    assert!(!fs::read_to_string(&journal).unwrap().contains("\"reverting\""));
    assert!(!root.path().join("etc").exists());
}

/// Killed by SIGKILL at or after its first write: the guard alone is left.
#[test]
fn a_change_that_was_killed_half_way_is_taken_back_by_its_guard() {
    let root = machine();
    let stuck = root.path().join("sys/block/nvme0n1/queue/nomerges");
    let mut applying =
        command(root.path(), &["apply", "redpanda", "--disk", "nvme0n1", "--all", "--confirm-within", "10m"])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
    // Killed as soon as a write is announced; the guard is armed by then.
    let journal = journal(root.path(), "00001");
    waits_for("a first write", || {
        fs::read_to_string(&journal)
            .is_ok_and(|text| text.contains("\"intent\"") || text.contains("\"applied\""))
    });
    applying.kill().unwrap();
    applying.wait().unwrap();
    let text = fs::read_to_string(&journal).unwrap();
    assert!(
        text.find("\"armed\"").unwrap() < text.find("\"intent\"").unwrap(),
        "armed before the first write"
    );
    let_its_time_come(&journal);
    waits_for("the way back", || {
        fs::read_to_string(&journal).is_ok_and(|text| text.contains("\"reverted\""))
    });
    assert_eq!(values(root.path()), BEFORE);
    assert_eq!(fs::read_to_string(&stuck).unwrap().trim(), "0");
}

#[test]
fn the_journal_of_another_boot_restores_nothing() {
    let root = machine();
    ok(root.path(), &["apply", "latency"]);
    fs::write(root.path().join("proc/sys/kernel/random/boot_id"), "second-boot\n").unwrap();
    fs::write(root.path().join("proc/sys/vm/dirty_ratio"), "30\n").unwrap();
    let text = ok(root.path(), &["rollback", "--interrupted"]);
    assert!(text.contains("the machine was rebooted"), "{text}");
    assert_eq!(fs::read_to_string(root.path().join("proc/sys/vm/dirty_ratio")).unwrap(), "30\n");
}

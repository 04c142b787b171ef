//! The life of changes of a host: named, on top of each other, over a boot, behind a full disk, with files and guards that somebody
//! else has touched. On a root of plain files, as `host.rs`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::Value;

mod host_cli;
mod tree;
use host_cli::{command, hone, said};

const MACHINE: &str = "
proc/sys/kernel/random/boot_id = first-boot
proc/sys/kernel/osrelease = 6.1.0
proc/self/mountinfo
| 22 1 259:1 / / rw - ext4 /dev/nvme0n1p1 rw
proc/meminfo
| SwapTotal:           1024 kB
proc/sys/vm/swappiness = 60
proc/sys/vm/stat_interval = 1
proc/sys/vm/dirty_ratio = 20
proc/sys/vm/dirty_bytes = 0
sys/block/nvme0n1/dev = 259:0
sys/block/nvme0n1/serial = vol01
sys/block/nvme0n1/mq/{0,1}/nr_tags = 1023
sys/block/nvme0n1/queue/nomerges = 0
";

const DIRTY: &str = "proc/sys/vm/dirty_ratio";
const SWAPPINESS: &str = "proc/sys/vm/swappiness";
const INTERVAL: &str = "proc/sys/vm/stat_interval";
const NOMERGES: &str = "sys/block/nvme0n1/queue/nomerges";
const SYSCTL: &str = "etc/sysctl.d/99-zz-hone.conf";
const RULES: &str = "etc/udev/rules.d/99-zz-hone.rules";

/// A machine with two profiles beside its root.
struct Host {
    folder: tempfile::TempDir,
}

impl Host {
    fn new() -> Self {
        let host = Self { folder: tree::planted(MACHINE) };
        host.profile("a.toml", &[("vm.dirty_ratio", "11"), ("queue.nomerges", "2")]);
        host.profile("b.toml", &[("vm.dirty_ratio", "30"), ("vm.swappiness", "10")]);
        host
    }

    fn root(&self) -> &Path {
        self.folder.path()
    }

    fn profile(&self, name: &str, knobs: &[(&str, &str)]) {
        let knob = |(name, value): &(&str, &str)| {
            format!("[[knobs]]\nname = \"{name}\"\nvalue = \"{value}\"\nreason = \"r\"\nsource = \"s\"\n")
        };
        let knobs: String = knobs.iter().map(knob).collect();
        fs::write(self.root().join(name), format!("about = \"of the test\"\n{knobs}")).unwrap();
    }

    fn apply(&self, profile: &str, more: &[&str]) -> String {
        let path = self.root().join(profile);
        self.ok(&[&["apply", path.to_str().unwrap(), "--disk", "nvme0n1"], more].concat())
    }

    #[track_caller]
    fn ok(&self, arguments: &[&str]) -> String {
        self.ends(arguments, 0)
    }

    #[track_caller]
    fn ends(&self, arguments: &[&str], code: i32) -> String {
        let output = hone(self.root(), arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", said(&output));
        said(&output)
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[arguments, &["--json"]].concat())).unwrap()
    }

    fn says(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap_or_default().trim().to_owned()
    }

    fn set(&self, path: &str, value: &str) {
        fs::write(self.root().join(path), format!("{value}\n")).unwrap();
    }

    /// `dirty_ratio`, `swappiness`, `nomerges`.
    fn values(&self) -> [String; 3] {
        [DIRTY, SWAPPINESS, NOMERGES].map(|path| self.says(path))
    }

    fn journal(&self, id: &str) -> String {
        self.says(&format!("var/lib/hone/host/{id}.journal"))
    }

    /// Another boot: every value the kernel's own, then what files of ours set, as systemd and udev would do it.
    fn reboot(&self, name: &str) {
        for line in MACHINE.lines().filter(|line| line.contains("proc/sys/vm") || line.contains("nomerges")) {
            let (path, value) = line.split_once(" = ").unwrap();
            self.set(path, value);
        }
        self.set("proc/sys/kernel/random/boot_id", name);
        for line in self.says(SYSCTL).lines() {
            if let Some((path, value)) = line.split_once(" = ") {
                self.set(&format!("proc/sys/{path}"), value);
            }
        }
        for line in self.says(RULES).lines().filter(|line| line.contains("ATTR{serial}==\"vol01\"")) {
            let value = line.split_once("ATTR{queue/nomerges}=\"").unwrap().1;
            let disk = ["nvme0n1", "nvme1n1"].into_iter().find(|name| self.serial(name) == "vol01").unwrap();
            self.set(&format!("sys/block/{disk}/queue/nomerges"), value.trim_end_matches('"'));
        }
    }

    fn serial(&self, disk: &str) -> String {
        self.says(&format!("sys/block/{disk}/serial"))
    }
}

const BEFORE: [&str; 3] = ["20", "60", "0"];
const A: [&str; 3] = ["11", "60", "2"];
const B_ON_A: [&str; 3] = ["30", "10", "2"];

#[test]
fn a_change_is_meant_by_its_name() {
    let host = Host::new();
    host.apply("a.toml", &[]);
    host.ok(&["confirm", "--this-boot", "--change-id", "00001"]);
    host.apply("b.toml", &["--confirm-within", "10m"]);
    assert!(
        host.ends(&["renew", "1h", "--change-id", "00001"], 1).contains("already confirmed or rolled back")
    );
    assert!(host.ok(&["renew", "1h", "--change-id", "00002"]).contains("rolls change 00002 back in 3600 s"));
    let below = host.ends(&["rollback", "--change-id", "00001"], 1);
    assert!(below.contains("00002 was made on top of the change 00001"), "{below}");
    for (verb, more) in [("rollback", &[][..]), ("confirm", &[]), ("renew", &["60s"])] {
        let told = host.ends(&[&[verb, "--change-id", "00007"], more].concat(), 1);
        assert!(told.contains("there is no change 00007"), "{told}");
    }
    assert_eq!(host.values(), B_ON_A);
    host.ok(&["rollback", "--change-id", "00002"]);
    assert_eq!(host.values(), A);
    // Once more, and no other one is taken for it.
    for verb in [&["rollback"][..], &["rollback", "--force"], &["confirm"], &["renew", "60s"]] {
        let told = host.ends(&[verb, &["--change-id", "00002"]].concat(), 1);
        assert!(told.contains("the change 00002 of this host is already rolled back"), "{told}");
    }
    assert_eq!(host.values(), A);
    host.ok(&["rollback"]);
    assert_eq!(host.values(), BEFORE);
}

#[test]
fn changes_on_top_of_each_other_go_as_they_came() {
    let host = Host::new();
    host.apply("a.toml", &[]);
    host.ok(&["confirm"]);
    let below = (host.says(SYSCTL), host.says(RULES));
    host.apply("b.toml", &[]);
    let refused = said(&hone(host.root(), &["apply", "latency"]));
    assert!(
        refused.contains("the change 00002 of this host is neither confirmed nor rolled back"),
        "{refused}"
    );
    host.ok(&["confirm"]);
    let both = host.says(SYSCTL);
    assert!(both.contains("vm/dirty_ratio = 30") && both.contains("vm/swappiness = 10"), "{both}");
    assert!(!both.contains("= 11"), "{both}");
    assert!(host.says(RULES).contains("ATTR{queue/nomerges}=\"2\""));
    assert!(host.ends(&["confirm", "--change-id", "00001"], 1).contains("00002 was made on top"));
    // What the one on top has set is no drift of the one below.
    let status = host.json(&["status", "--duration", "0s"]);
    assert_eq!(status["body"]["changes"].as_array().unwrap().len(), 2);
    assert!(!status["body"]["changes"].to_string().contains("vm/"), "{}", status["body"]["changes"]);
    assert!(host.ok(&["rollback"]).contains("Change 00002"));
    assert_eq!(host.values(), A);
    assert_eq!((host.says(SYSCTL), host.says(RULES)), below);
    assert!(host.ok(&["rollback"]).contains("Change 00001"));
    assert_eq!(host.values(), BEFORE);
    assert!(!host.root().join(SYSCTL).exists() && !host.root().join(RULES).exists());
}

/// What could have gone along with a write, and has not, is still that of the change below.
#[test]
fn on_top_of_a_scheduler_requests_are_requests() {
    let host = Host::new();
    host.profile("c.toml", &[("queue.scheduler", "none")]);
    host.profile("d.toml", &[("queue.nr_requests", "64")]);
    host.set("sys/block/nvme0n1/queue/scheduler", "none [mq-deadline]");
    host.set("sys/block/nvme0n1/queue/nr_requests", "256");
    for profile in ["c.toml", "d.toml"] {
        host.apply(profile, &[]);
        host.ok(&["confirm"]);
    }
    let rules = host.says(RULES);
    for rule in ["ATTR{queue/scheduler}=\"none\"", "ATTR{queue/nr_requests}=\"64\""] {
        assert!(rules.contains(rule), "{rules}");
    }
    host.ok(&["rollback"]);
    assert!(host.says(RULES).ends_with("ATTR{queue/scheduler}=\"none\""), "{}", host.says(RULES));
}

#[test]
fn over_a_boot_everything_comes_back() {
    let host = Host::new();
    host.apply("a.toml", &[]);
    host.ok(&["confirm"]);
    host.reboot("second-boot");
    assert_eq!(host.values(), A);
    let status = host.ok(&["status"]);
    assert!(status.contains("confirmed; its files set it again at each boot"), "{status}");
    assert!(host.ok(&["rollback", "--interrupted"]).contains("in force and confirmed"));
    let told = host.ends(&["confirm"], 1);
    assert!(told.contains("it is from an earlier boot"), "{told}");
    // One on top, made in this boot, with the files of both.
    host.apply("b.toml", &[]);
    host.ok(&["confirm"]);
    host.reboot("third-boot");
    assert_eq!(host.values(), B_ON_A);
    let back = host.ok(&["rollback"]);
    assert!(
        back.contains("Change 00002: the machine was rebooted, and files of this change had set"),
        "{back}"
    );
    assert_eq!(host.values(), A);
    let back = host.ok(&["rollback"]);
    assert!(
        back.contains("Change 00001: the machine was rebooted, and files of this change had set"),
        "{back}"
    );
    assert_eq!(host.values(), BEFORE);
    assert!(!host.root().join(SYSCTL).exists() && !host.root().join(RULES).exists());
    assert!(host.ok(&["rollback", "--interrupted"]).contains("nothing to roll back"));
    // Its old name still works.
    let old = hone(host.root(), &["recover"]);
    let warning = String::from_utf8_lossy(&old.stderr).into_owned();
    assert!(warning.contains("is now `hone host rollback --interrupted`"), "{warning}");
    assert!(String::from_utf8_lossy(&old.stdout).contains("nothing to roll back"));
}

/// The disk has another name by then, and its old one belongs to another disk.
#[test]
fn a_disk_is_known_again_by_what_stays_with_it() {
    let host = Host::new();
    host.apply("a.toml", &[]);
    host.ok(&["confirm"]);
    let block = host.root().join("sys/block");
    fs::rename(block.join("nvme0n1"), block.join("nvme1n1")).unwrap();
    for (path, text) in [("serial", "other"), ("dev", "259:0"), ("queue/nomerges", "2")] {
        let path = block.join("nvme0n1").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    host.reboot("second-boot");
    host.set("sys/block/nvme0n1/queue/nomerges", "2");
    assert_eq!(host.says("sys/block/nvme1n1/queue/nomerges"), "2");
    // What says something else by now is of this boot, and nobody's of ours.
    host.set(DIRTY, "44");
    assert!(
        host.json(&["status", "--duration", "0s"])["body"]["changes"][0]["drifted"]
            .to_string()
            .contains("dirty_ratio")
    );
    host.ok(&["uninstall"]);
    assert_eq!(host.says("sys/block/nvme1n1/queue/nomerges"), "0");
    assert_eq!(host.says("sys/block/nvme0n1/queue/nomerges"), "2", "another disk");
    assert_eq!(host.says(DIRTY), "44");
    assert!(!host.root().join("var/lib/hone").exists());
}

#[test]
fn what_went_with_its_boot_is_told_so() {
    let host = Host::new();
    host.apply("a.toml", &["--confirm-within", "1h"]);
    host.reboot("second-boot");
    let status = host.ok(&["status"]);
    assert!(status.contains("from an earlier boot, reset by the reboot"), "{status}");
    assert!(!status.contains("unless confirmed") && !status.contains("someone else has set it"), "{status}");
    let page = host.ok(&["export"]);
    assert!(page.contains("hone_host_settings_held 0\n"), "{page}");
    assert!(page.contains("hone_host_settings_drifted 0\n"), "{page}");
    assert!(host.ok(&["rollback", "--interrupted"]).contains("which reset the values of this change"));
    // Confirmed for its boot only, it has gone as well.
    host.apply("a.toml", &[]);
    host.ok(&["confirm", "--this-boot"]);
    host.reboot("third-boot");
    assert!(host.ok(&["status"]).contains("reset by the reboot"));
    assert!(host.ok(&["rollback", "--interrupted"]).contains("which reset the values of this change"));
    assert!(host.ok(&["rollback", "--interrupted"]).contains("nothing to roll back"));
}

#[test]
fn what_is_held_is_what_was_changed() {
    let host = Host::new();
    host.apply("a.toml", &[]);
    // dirty_bytes is kept for the way back, and was not changed.
    let page = host.ok(&["export"]);
    assert!(page.contains("hone_host_settings_held 2\n"), "{page}");
    assert!(page.contains("hone_host_settings_drifted 0\n"), "{page}");
    host.set(DIRTY, "12");
    assert!(host.ok(&["export"]).contains("hone_host_settings_drifted 1\n"));
}

fn waits_for(what: &str, is: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < until, "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What a guard that is gone has promised is kept by nobody, and said so; its successor keeps the time.
#[test]
fn a_guard_that_was_killed_is_missed() {
    let host = Host::new();
    let kill = |applied: &Value| {
        let pid = applied["body"]["applied"]["guard"].as_i64().unwrap();
        // SAFETY: a signal to the guard that was started for this test.
        assert_eq!(unsafe { libc::kill(i32::try_from(pid).unwrap(), libc::SIGKILL) }, 0);
        let line = format!("/proc/{pid}/cmdline");
        waits_for("its end", || fs::read(&line).map_or(true, |words| words.is_empty()));
    };
    let path = host.root().join("a.toml");
    let apply = ["apply", path.to_str().unwrap(), "--disk", "nvme0n1", "--confirm-within", "1h"];
    let applied = host.json(&apply);
    assert!(host.ok(&["status"]).contains("s unless confirmed"));
    kill(&applied);
    // Its number may be another process's by now.
    let (journal, pid) = ("var/lib/hone/host/00001.journal", &applied["body"]["applied"]["guard"]);
    let text =
        host.journal("00001").replace(&format!("\"pid\":{pid}"), &format!("\"pid\":{}", std::process::id()));
    host.set(journal, &text);
    let status = host.ok(&["status"]);
    assert!(
        status.contains("its rollback watchdog is gone; `hone host rollback --interrupted` rolls it back"),
        "{status}"
    );
    assert!(host.ends(&["renew", "2h"], 1).contains("its watchdog is gone"));
    assert!(host.ok(&["rollback", "--interrupted"]).contains("Change 00001: "));
    assert_eq!(host.values(), BEFORE);

    let applied = host.json(&apply);
    kill(&applied);
    let mut successor = command(host.root(), &["guard", "00002"]).spawn().unwrap();
    let armed = || -> Vec<u64> {
        let lines = host.journal("00002");
        let lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines
            .filter(|line| line["entry"] == "armed")
            .map(|line| line["deadline_s"].as_u64().unwrap())
            .collect()
    };
    waits_for("the successor", || armed().len() == 2);
    assert_eq!(armed()[0], armed()[1]);
    assert!(host.ok(&["rollback", "--interrupted"]).contains("waits"));
    host.ok(&["rollback"]);
    assert!(successor.wait().unwrap().success());
}

/// Behind a change that is open, one that was closed is nobody's; with none open, the one that has left something.
#[test]
fn force_takes_what_is_open_or_has_left_something() {
    let host = Host::new();
    host.apply("a.toml", &[]);
    host.ok(&["confirm", "--this-boot"]);
    host.apply("b.toml", &[]);
    host.ok(&["rollback"]);
    assert_eq!(host.values(), A);
    assert!(host.ok(&["rollback", "--force"]).contains("Change 00001"));
    assert_eq!(host.values(), BEFORE);
    assert!(host.ends(&["rollback", "--force"], 1).contains("this host has no change to roll back"));

    host.apply("a.toml", &[]);
    host.set(DIRTY, "33");
    assert!(host.ends(&["rollback"], 1).contains("unchanged: 33, before 20"));
    host.apply("b.toml", &[]);
    host.ok(&["rollback"]);
    assert!(host.ok(&["rollback", "--force"]).contains("Change 00003"));
    assert_eq!(host.values(), BEFORE);
    host.apply("a.toml", &[]);
    host.set(DIRTY, "33");
    assert!(host.ok(&["uninstall", "--force"]).contains("Nothing of `hone host` is left"));
    assert_eq!(host.values(), BEFORE);
}

/// Values come back whatever became of the files, and nobody's file is written over or called ours.
#[test]
fn files_that_somebody_has_touched_keep_no_value_back() {
    let host = Host::new();
    let path = host.root().join(SYSCTL);
    host.apply("a.toml", &[]);
    host.ok(&["confirm"]);
    fs::write(&path, b"vm/dirty_ratio = 11 \xff\xfe\n").unwrap();
    let told = host.ends(&["rollback"], 1);
    assert!(told.contains("! /etc/sysctl.d/99-zz-hone.conf: it was edited"), "{told}");
    assert_eq!(host.values(), BEFORE);
    assert!(!host.root().join(RULES).exists());
    // The next change does not write over it, and has not claimed it.
    host.apply("b.toml", &[]);
    let told = host.ends(&["confirm"], 1);
    assert!(told.contains("is not Hone's, or was edited"), "{told}");
    assert!(!host.journal("00002").contains("persisting"));
    host.ok(&["rollback"]);
    assert_eq!(fs::read(&path).unwrap(), b"vm/dirty_ratio = 11 \xff\xfe\n");
    // A folder in its place can be read by nobody.
    fs::remove_file(&path).unwrap();
    host.apply("a.toml", &[]);
    host.ok(&["confirm"]);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let told = host.ends(&["rollback"], 1);
    assert!(
        told.contains("! /etc/sysctl.d/99-zz-hone.conf: ")
            && told.contains("hone host rollback --interrupted"),
        "{told}"
    );
    assert_eq!(host.values(), BEFORE);
    // What could be a file of ours is not called gone.
    assert!(host.ends(&["rollback", "--interrupted"], 1).contains("Change 00003"));
    fs::remove_dir(&path).unwrap();
    assert!(host.ok(&["rollback", "--interrupted"]).contains("Change 00003"));
    assert!(host.ok(&["rollback", "--interrupted"]).contains("nothing to roll back"));
}

/// The program with a bound on how long its files may be: the kernel takes what fits of a write, as a full disk does.
fn cramped(host: &Host, arguments: &[&str], bytes: u64) -> Output {
    let mut command = command(host.root(), arguments);
    let bound = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: both are async-signal-safe, and nothing else happens between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            if libc::setrlimit(libc::RLIMIT_FSIZE, &raw const bound) == 0 {
                return Ok(());
            }
            Err(std::io::Error::last_os_error())
        });
    }
    command.output().unwrap()
}

#[test]
fn a_full_disk_anywhere_in_the_journal_leaves_everything_as_it_was_and_every_verb_at_work() {
    let whole = {
        let host = Host::new();
        host.apply("a.toml", &[]);
        fs::metadata(host.root().join("var/lib/hone/host/00001.journal")).unwrap().len()
    };
    let mut cut = 0;
    for bytes in (40..whole + 60).step_by(300) {
        let host = Host::new();
        let path = host.root().join("a.toml");
        let book = host.root().join("elsewhere.jsonl");
        let words =
            ["apply", path.to_str().unwrap(), "--disk", "nvme0n1", "--ledger", book.to_str().unwrap()];
        let output = cramped(&host, &words, bytes);
        if output.status.success() {
            continue;
        }
        cut += 1;
        let told = format!("{bytes} bytes: {}", said(&output));
        assert!(said(&output).contains("00001.journal"), "{told}");
        host.ok(&["status"]);
        host.ok(&["rollback", "--interrupted"]);
        assert_eq!(host.values(), BEFORE, "{told}");
        host.apply("a.toml", &[]);
        assert_eq!(host.values(), A, "{told}");
        host.ok(&["rollback"]);
        assert_eq!(host.values(), BEFORE, "{told}");
    }
    assert!(cut >= 3, "{cut} of {whole} bytes");
}

#[test]
fn a_journal_that_is_broken_hides_no_other_one() {
    let host = Host::new();
    host.apply("a.toml", &["--confirm-within", "1h"]);
    let broken = host.root().join("var/lib/hone/host/00000.journal");
    fs::write(&broken, "{\"entry\":\"app{\"entry\":\"applied\"}\n").unwrap();
    let status = host.ok(&["status"]);
    assert!(status.contains("Change 00001") && status.contains("00000.journal"), "{status}");
    let recovered = host.ends(&["rollback", "--interrupted"], 1);
    assert!(recovered.contains("Change 00001 is complete and waits"), "{recovered}");
    assert!(recovered.contains("! change 00000: line 1 of the journal"), "{recovered}");
    // Which one is the last is not known, so the name is needed; nothing new is made beside it.
    assert!(host.ends(&["rollback"], 1).contains("00000.journal"));
    assert!(host.ends(&["apply", "latency"], 1).contains("00000.journal"));
    host.ok(&["rollback", "--change-id", "00001"]);
    assert_eq!(host.values(), BEFORE);
    assert!(host.ends(&["uninstall"], 1).contains("00000.journal"));
    assert!(broken.exists());
    fs::remove_file(&broken).unwrap();
    host.ok(&["uninstall"]);
}

/// Journals are root's. Whoever else asks for the status has the rest of it.
#[test]
fn the_status_is_for_everybody() {
    const NOBODY: u32 = 65_534;
    let host = Host::new();
    host.apply("a.toml", &[]);
    fs::set_permissions(host.root(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut status = command(host.root(), &["status"]);
    // SAFETY: a question without side effects.
    if unsafe { libc::geteuid() } == 0 {
        status.uid(NOBODY).gid(NOBODY);
    } else {
        let journal = host.root().join("var/lib/hone/host/00001.journal");
        fs::set_permissions(journal, fs::Permissions::from_mode(0o000)).unwrap();
    }
    let output = status.output().unwrap();
    let told = said(&output);
    assert!(output.status.success(), "{told}");
    assert!(
        told.contains("vm.dirty_ratio") && told.contains("00001.journal can't be read; run as root"),
        "{told}"
    );
}

/// The next boot gets what was so already, too, unless a file or the kernel itself sees to that.
#[test]
fn what_was_set_by_hand_before_stays_with_the_rest() {
    let host = Host::new();
    host.profile(
        "all.toml",
        &[
            ("vm.dirty_ratio", "11"),
            ("vm.swappiness", "1"),
            ("vm.stat_interval", "10"),
            ("queue.nomerges", "0"),
        ],
    );
    host.set(SWAPPINESS, "1");
    host.set(INTERVAL, "10");
    fs::create_dir_all(host.root().join("etc/sysctl.d")).unwrap();
    fs::write(host.root().join("etc/sysctl.d/10-ours.conf"), "vm.stat_interval = 10\n").unwrap();
    host.apply("all.toml", &[]);
    host.ok(&["confirm"]);
    let text = host.says(SYSCTL);
    assert!(text.contains("vm/dirty_ratio = 11") && text.contains("vm/swappiness = 1"), "{text}");
    assert!(!text.contains("stat_interval"), "a file sets it: {text}");
    assert!(!host.root().join(RULES).exists(), "the kernel starts with it");
    host.ok(&["rollback"]);
    assert_eq!(host.values(), ["20", "1", "0"]);
}

/// A run that tries settings goes on with its journals.
#[test]
fn nothing_is_uninstalled_under_a_run() {
    let host = Host::new();
    host.apply("a.toml", &[]);
    let turn = fs::File::create(host.root().join("var/lib/hone/host/trial.lock")).unwrap();
    turn.try_lock().unwrap();
    assert!(host.ends(&["uninstall"], 1).contains("another run tries settings of this host"));
    assert_eq!(host.values(), A);
    drop(turn);
    host.ok(&["uninstall"]);
    assert_eq!(host.values(), BEFORE);
}

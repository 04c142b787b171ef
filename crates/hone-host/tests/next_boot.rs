//! What a confirmation writes for the next boot, read by the programs that read it there: systemd-sysctl, systemd-tmpfiles and
//! udev, each on files of a recorded host in a namespace of mounts of its own. Nothing of this machine is changed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hone_host::change::Step;
use hone_host::commit::{ChangeRequest, confirm, make, take_last_back};
use hone_host::disks::{self, DataPath};
use hone_host::kernel::{Files, Kernel as _, plain_value};
use hone_host::plan::{Plan, plan};
use hone_host::profile::{OWN, parse};
use hone_host::relevance::Facts;

mod disk;
#[path = "../../hone/tests/tree/mod.rs"]
mod tree;
use disk::{can_run, is_root};

/// The first of these programs that is there. A missing one is a printed skip, or a failure where HONE_REQUIRE_TOOLS says so.
#[expect(clippy::print_stderr, reason = "a test that does not run must say so")]
fn program(places: &[&str]) -> Option<PathBuf> {
    let found = places.iter().map(PathBuf::from).find(|path| path.exists());
    let required = std::env::var("HONE_REQUIRE_TOOLS").as_deref() == Ok("1");
    assert!(found.is_some() || !required, "{places:?} is required and missing");
    if found.is_none() {
        eprintln!("skipped: {places:?} is not there");
    }
    found
}

#[expect(clippy::disallowed_methods, reason = "the programs that read the files at boot")]
fn run(program: &Path, arguments: &[&str], directory: &Path) -> Output {
    Command::new(program).args(arguments).current_dir(directory).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Commands in a namespace of mounts of their own.
fn in_namespace(script: &str, directory: &Path) -> Output {
    run(Path::new("/usr/bin/unshare"), &["--mount", "--", "sh", "-euc", script], directory)
}

/// A recorded host whose files of the next boot are there, and what was asked for.
struct Confirmed {
    root: tempfile::TempDir,
    text: String,
    plan: Plan,
}

fn confirmed(host: &str, profile: &str) -> Confirmed {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../fixtures/hosts/{host}.tree"));
    let text = fs::read_to_string(fixture).unwrap();
    let root = tree::planted(&text);
    let files = Files::new(root.path());
    let data = disks::of_folder(&files, root.path(), Path::new(tree::data(&text).unwrap()));
    let plan = planned(&files, profile, &data);
    let order = ChangeRequest {
        profile: profile.to_owned(),
        steps: plan.steps(true),
        disks: plan.devices(),
        confirm_within: None,
    };
    make(root.path(), &order, &mut |_| Err("no guard is asked for".to_owned())).unwrap();
    assert!(confirm(root.path(), None, true).unwrap().left_out.is_empty());
    Confirmed { root, text, plan }
}

fn planned(files: &Files, profile: &str, data: &DataPath) -> Plan {
    let text = OWN.iter().find(|(name, _)| *name == profile).unwrap().1;
    plan(files, profile, &parse(profile, text).unwrap(), data, &Facts::default())
}

impl Confirmed {
    fn steps(&self) -> Vec<Step> {
        self.plan.steps(true)
    }

    fn says(&self, path: &str) -> String {
        plain_value(&Files::new(self.root.path()).read(path).unwrap())
    }

    /// As after a boot in which these programs have set everything.
    fn booted(&self) {
        fs::write(self.root.path().join("proc/sys/kernel/random/boot_id"), "the-next-boot\n").unwrap();
    }

    /// As after a boot: every value another one, and another boot's name. One byte, since attributes are written without being
    /// cut off, which plain files take literally.
    fn reboot(&self) {
        for step in self.steps() {
            fs::write(self.root.path().join(&step.path), "-").unwrap();
        }
        fs::write(self.root.path().join("proc/sys/kernel/random/boot_id"), "the-next-boot\n").unwrap();
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    #[track_caller]
    fn holds(&self, is_of: impl Fn(&str) -> bool) {
        let mut held = 0;
        for step in self.steps().iter().filter(|step| is_of(&step.path)) {
            assert_eq!(self.says(&step.path), step.value, "{}", step.path);
            held += 1;
        }
        assert!(held > 0, "nothing was asked for");
    }
}

#[test]
fn systemd_sysctl_reads_what_was_confirmed() {
    let Some(reader) = program(&["/usr/lib/systemd/systemd-sysctl", "/lib/systemd/systemd-sysctl"]) else {
        return;
    };
    if !can_run(is_root(), "this is not root") {
        return;
    }
    let host = confirmed("ubuntu-nvme", "field-guide");
    host.reboot();
    let script = format!(
        "mount --bind proc/sys/vm /proc/sys/vm; {} \"$PWD/etc/sysctl.d/99-zz-hone.conf\"",
        reader.display()
    );
    let output = in_namespace(&script, host.root.path());
    assert!(output.status.success(), "{}", said(&output));
    host.holds(|path| path.starts_with("proc/sys/"));
}

#[test]
fn systemd_tmpfiles_reads_what_was_confirmed() {
    let Some(reader) = program(&["/usr/bin/systemd-tmpfiles", "/bin/systemd-tmpfiles"]) else { return };
    let host = confirmed("ubuntu-nvme", "field-guide");
    host.reboot();
    // Of two files that name a path the first rules: one of the machine's own must not be it.
    let other = "w /sys/kernel/mm/transparent_hugepage/enabled - - - - always\n";
    fs::write(host.root.path().join("etc/tmpfiles.d/thp.conf"), other).unwrap();
    let root = format!("--root={}", host.root.path().display());
    let output = run(&reader, &[&root, "--create", "--prefix=/sys"], host.root.path());
    assert!(output.status.success(), "{}", said(&output));
    host.holds(|path| path.starts_with("sys/kernel/mm/"));
}

/// udev's own reader on a disk that is made of files: the rules hit the disk that was confirmed, and no other one.
#[test]
fn udev_reads_what_was_confirmed() {
    let Some(reader) = program(&["/usr/bin/udevadm", "/bin/udevadm"]) else { return };
    let place = fs::read_dir("/sys/devices/virtual/block").ok().and_then(|mut entries| entries.next()?.ok());
    let Some(place) = place.filter(|_| is_root()) else {
        can_run(false, "this is not root, or has no virtual disk whose place a disk of files could take");
        return;
    };
    let host = confirmed("ubuntu-nvme", "field-guide");
    host.reboot();
    fs::create_dir_all(host.at("empty")).unwrap();
    for disk in ["nvme0n1", "nvme1n1"] {
        let folder = host.at("sys/block").join(disk);
        fs::write(folder.join("uevent"), "DEVTYPE=disk\n").unwrap();
        symlink("../../../../class/block", folder.join("subsystem")).unwrap();
        let untouched: BTreeMap<&str, String> = [("scheduler", "x".to_owned())].into();
        if disk == "nvme0n1" {
            fs::write(folder.join("queue/scheduler"), &untouched["scheduler"]).unwrap();
        }
        let script = format!(
            "mount -t tmpfs tmpfs /run; mount --bind etc/udev/rules.d /etc/udev/rules.d; mount --bind empty /usr/lib/udev/rules.d; mount --bind sys/block/{disk} {place}; SYSTEMD_DEVICE_VERIFY_SYSFS=0 {} test --action=add {place} 2>&1",
            reader.display(),
            place = place.path().display(),
        );
        let output = in_namespace(&script, host.root.path());
        assert!(said(&output).contains("99-zz-hone.rules"), "the rules were not read: {}", said(&output));
    }
    host.holds(|path| path.starts_with("sys/block/nvme1n1/"));
    assert_eq!(host.says("sys/block/nvme0n1/queue/scheduler"), "x", "another disk is left alone");
    // Newer ones check the form, too.
    let verified = run(&reader, &["verify", "etc/udev/rules.d/99-zz-hone.rules"], host.root.path());
    let knows_it = !said(&verified).contains("Unknown command");
    assert!(!knows_it || verified.status.success(), "{}", said(&verified));
}

/// All three are through before a service may start: by systemd's own units, and by its own reading of a broker's.
#[test]
fn all_of_it_comes_before_a_broker() {
    let Some(analyze) = program(&["/usr/bin/systemd-analyze", "/bin/systemd-analyze"]) else { return };
    let units = ["/usr/lib/systemd/system", "/lib/systemd/system"];
    let unit =
        |name: &str| units.iter().find_map(|folder| fs::read_to_string(format!("{folder}/{name}")).ok());
    for name in ["systemd-sysctl.service", "systemd-tmpfiles-setup.service"] {
        let text = unit(name).unwrap_or_else(|| panic!("{name} is not there"));
        let before = text.lines().find(|line| line.starts_with("Before=")).unwrap_or_default();
        assert!(before.contains("sysinit.target"), "{name}: {before}");
    }
    // A service is after basic.target, and so after sysinit.target, unless it says otherwise.
    let folder = tempfile::tempdir().unwrap();
    let broker = folder.path().join("redpanda.service");
    fs::write(&broker, "[Unit]\nDescription=a broker\n[Service]\nExecStart=/bin/true\n").unwrap();
    let output = run(&analyze, &["verify", "--man=no", broker.to_str().unwrap()], folder.path());
    assert!(output.status.success(), "{}", said(&output));
    // What a guide's unit says is right to systemd as well: its order is what only a reader sees.
    let late = folder.path().join("tuning.service");
    fs::write(&late, "[Unit]\nDescription=settings\nAfter=multi-user.target\n[Service]\nType=oneshot\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n").unwrap();
    let output = run(&analyze, &["verify", "--man=no", late.to_str().unwrap()], folder.path());
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn a_change_of_an_older_boot_is_taken_back_with_its_files() {
    let host = confirmed("md-nvme", "kafka-page-cache");
    // Readahead is of the device above the disks, which is known by its own uuid.
    let rules = fs::read_to_string(host.at("etc/udev/rules.d/99-zz-hone.rules")).unwrap_or_default();
    let asks_for_it = host.steps().iter().any(|step| step.path == "sys/block/md0/queue/read_ahead_kb");
    assert_eq!(
        rules.contains("ATTR{md/uuid}==\"6d2f3c41-9a0b-4b7e-8d15-2e9f70c1a855\""),
        asks_for_it,
        "{rules}"
    );
    assert!(host.at("etc/sysctl.d/99-zz-hone.conf").exists());
    let before = tree::planted(&host.text);
    host.booted();
    let back = take_last_back(host.root.path(), None, false).unwrap();
    assert!(back.other_boot && back.is_whole(), "{back:#?}");
    let restored: Vec<&str> = back.outcomes.iter().map(|outcome| outcome.path.as_str()).collect();
    for step in host.steps() {
        assert!(restored.contains(&step.path.as_str()), "{} is not reported", step.path);
        let said = plain_value(&Files::new(before.path()).read(&step.path).unwrap());
        assert_eq!(host.says(&step.path), said, "{}", step.path);
    }
    assert!(!host.at("etc/sysctl.d/99-zz-hone.conf").exists());
    assert!(host.text.contains("raid0"));
}

/// If the files had no effect, no value belongs to the change, and none is rolled back.
#[test]
fn values_of_another_boot_are_left_alone() {
    let host = confirmed("md-nvme", "kafka-page-cache");
    host.reboot();
    let back = take_last_back(host.root.path(), None, false).unwrap();
    assert!(back.other_boot && back.is_whole() && back.outcomes.is_empty(), "{back:#?}");
    assert!(!host.at("etc/sysctl.d/99-zz-hone.conf").exists());
    for step in host.steps() {
        assert_eq!(host.says(&step.path), "-");
    }
}

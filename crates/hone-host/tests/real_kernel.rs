//! The model of the kernel compared with the running kernel, and a change of real settings rolled back to the byte. It uses a loop device
//! of its own, sysctls of vm.dirty_*, and huge pages. It needs root, and restores everything even when a test fails.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use hone_host::change::Step;
use hone_host::commit::{ChangeRequest, make, take_last_back};
use hone_host::disks::look;
use hone_host::kernel::{Files, Kernel, plain_value};
use hone_host::knob::{DeviceKnob, by_name};

mod disk;
mod model;
use disk::{Loop, can_run, is_root, queue, root_over_this_kernel};
use model::Model;

/// Tests that change the machine go one after the other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Settings of the machine that go back when this is dropped.
struct Kept(Vec<(String, String)>);

impl Kept {
    fn of(paths: &[&str]) -> Self {
        let files = Files::new(Path::new("/"));
        let read = |path: &&str| Some(((*path).to_owned(), plain_value(&files.read(path).ok()?)));
        Self(paths.iter().filter_map(read).collect())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let files = Files::new(Path::new("/"));
        for (path, value) in &self.0 {
            if files.read(path).is_ok_and(|text| plain_value(&text) != *value) && value != "0" {
                let _ = files.write(path, value);
            }
        }
    }
}

/// The dirty limits go to values near to today's, so that whatever runs here does not notice.
const SYSCTLS: [&str; 5] = [
    "proc/sys/vm/dirty_ratio",
    "proc/sys/vm/dirty_bytes",
    "proc/sys/vm/dirty_background_ratio",
    "proc/sys/vm/dirty_background_bytes",
    "proc/sys/vm/dirty_expire_centisecs",
];
const HUGE_PAGES: [&str; 2] =
    ["sys/kernel/mm/transparent_hugepage/enabled", "sys/kernel/mm/transparent_hugepage/defrag"];

/// Writes that both kernels have to answer alike: file and value.
const QUEUE_TABLE: [(&str, &str); 28] = [
    ("scheduler", "mq-deadline"),
    ("nr_requests", "64"),
    ("nr_requests", "0"),
    ("nr_requests", "3"),
    ("nr_requests", "-1"),
    ("nr_requests", "abc"),
    ("nr_requests", "100000"),
    ("nr_requests", "300"),
    ("iosched/read_expire", "400"),
    ("scheduler", "bogus"),
    ("scheduler", "noop"),
    ("scheduler", "[none]"),
    ("scheduler", "NONE"),
    ("scheduler", " none"),
    ("nr_requests", "129"),
    ("nr_requests", "100"),
    ("iosched/read_expire", "400"),
    ("scheduler", "mq-deadline\n"),
    ("read_ahead_kb", "3"),
    ("read_ahead_kb", "5"),
    ("read_ahead_kb", "-1"),
    ("read_ahead_kb", "8192k"),
    ("nomerges", "2"),
    ("scheduler", "bfq"),
    ("scheduler", "kyber"),
    ("wbt_lat_usec", "3000"),
    ("scheduler", "kyber"),
    ("scheduler", "none"),
];

#[test]
fn the_model_answers_as_this_kernel_does_for_a_queue() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(disk) = Loop::attach() else { return };
    let files = Files::new(Path::new("/"));
    let schedulers = files.read(&format!("sys/block/{}/queue/scheduler", disk.name)).unwrap();
    let model = Model::new(&[(&disk.name, "none")]);
    let path = |file: &str| format!("sys/block/{}/queue/{file}", disk.name);
    let usual_wbt = disk.before.get("wbt_lat_usec").cloned().unwrap_or_default();
    for (file, value) in QUEUE_TABLE {
        let is_offered = ["bfq", "kyber", "mq-deadline"]
            .iter()
            .all(|name| value.trim() != *name || schedulers.contains(name));
        if !is_offered {
            continue; // this kernel was built without
        }
        let (real, modelled) = (files.write(&path(file), value), model.write(&path(file), value));
        assert_eq!(real.is_ok(), modelled.is_ok(), "{file} = {value:?}: {real:?}, modelled {modelled:?}");
        let kind = |answer: &std::io::Result<()>| answer.as_ref().err().map(std::io::Error::kind);
        assert_eq!(kind(&real), kind(&modelled), "{file} = {value:?}");
        for file in [
            "scheduler",
            "nr_requests",
            "iosched/read_expire",
            "iosched/async_depth",
            "nomerges",
            "wbt_lat_usec",
        ] {
            let says = |kernel: &dyn Kernel| kernel.read(&path(file)).ok().map(|text| plain_value(&text));
            let (mut real, modelled) = (says(&files), says(&model));
            // What a queue starts with hangs on the kind of disk.
            if file == "wbt_lat_usec" && real.as_ref() == Some(&usual_wbt) {
                real = Some("75000".to_owned());
            }
            assert_eq!(real, modelled, "{file} after a write of {value:?}");
        }
        if file == "read_ahead_kb" && modelled.is_ok() {
            assert_eq!(files.read(&path(file)).unwrap(), model.read(&path(file)).unwrap(), "{value}");
        }
    }
}

/// As `QUEUE_TABLE`, for what there is once on a machine. The accepted values are the ones that are there already, or near.
const MACHINE_TABLE: [(&str, &str); 17] = [
    ("proc/sys/vm/dirty_ratio", "101"),
    ("proc/sys/vm/dirty_ratio", "-1"),
    ("proc/sys/vm/dirty_ratio", "20.5"),
    ("proc/sys/vm/dirty_ratio", ""),
    ("proc/sys/vm/dirty_ratio", "21"),
    ("proc/sys/vm/swappiness", "201"),
    ("proc/sys/vm/swappiness", "low"),
    ("proc/sys/vm/dirty_bytes", "4294967296"),
    ("proc/sys/vm/dirty_bytes", "0"),
    ("proc/sys/vm/dirty_ratio", "20"),
    ("proc/sys/vm/dirty_background_bytes", "2147483648"),
    ("proc/sys/vm/dirty_background_ratio", "10"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "[madvise]"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "madvise "),
    ("sys/kernel/mm/transparent_hugepage/enabled", "madvise\n"),
    ("sys/kernel/mm/transparent_hugepage/defrag", "bogus"),
    ("sys/kernel/mm/transparent_hugepage/defrag", "defer+madvise"),
];

#[test]
fn the_model_answers_as_this_kernel_does_for_the_machine() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !can_run(is_root(), "this is not root") {
        return;
    }
    let files = Files::new(Path::new("/"));
    let _kept = Kept::of(&[SYSCTLS.as_slice(), HUGE_PAGES.as_slice()].concat());
    let model = Model::new(&[]);
    // Both begin with the same values. Those of bytes become 0 with their rivals.
    for path in SYSCTLS.iter().chain(&HUGE_PAGES).filter(|path| !path.ends_with("_bytes")) {
        let first = plain_value(&model.read(path).unwrap());
        let written = files.write(path, &first);
        if !can_run(written.is_ok(), &format!("/{path} can't be written: {written:?}")) {
            return;
        }
    }
    for (path, value) in MACHINE_TABLE {
        let (real, modelled) = (files.write(path, value), model.write(path, value));
        assert_eq!(real.is_ok(), modelled.is_ok(), "{path} = {value:?}: {real:?}, modelled {modelled:?}");
        for path in SYSCTLS.iter().chain(&HUGE_PAGES) {
            assert_eq!(
                plain_value(&files.read(path).unwrap()),
                plain_value(&model.read(path).unwrap()),
                "{path} after a write of {value:?}"
            );
        }
    }
}

fn step(files: &Files, name: &str, device: Option<&str>, value: &str) -> Step {
    let place = DeviceKnob::new(by_name(name).unwrap(), device);
    Step { path: place.path(), value: value.to_owned(), closure: place.closure(files) }
}

#[test]
fn real_settings_come_back_to_the_byte() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(disk) = Loop::attach() else { return };
    let _kept = Kept::of(&[SYSCTLS.as_slice(), HUGE_PAGES.as_slice()].concat());
    let root = root_over_this_kernel();
    let files = Files::new(root.path());
    let queue_path = |file: &str| format!("sys/block/{}/queue/{file}", disk.name);
    // Nothing is at its default: what comes back is what was there.
    for (file, value) in [
        ("scheduler", "mq-deadline"),
        ("nr_requests", "77"),
        ("iosched/read_expire", "444"),
        ("read_ahead_kb", "260"),
    ] {
        files.write(&queue_path(file), value).unwrap();
    }
    let raw = || -> Vec<String> {
        let machine = SYSCTLS.iter().chain(&HUGE_PAGES).map(|path| files.read(path).unwrap());
        machine.chain([format!("{:?}", queue(&disk.name))]).collect()
    };
    let before = raw();
    let name = Some(disk.name.as_str());
    let order = ChangeRequest {
        profile: "test".to_owned(),
        steps: vec![
            step(&files, "queue.nr_requests", name, "32"),
            step(&files, "queue.scheduler", name, "none"),
            step(&files, "queue.read_ahead_kb", name, "0"),
            step(&files, "queue.nomerges", name, "2"),
            step(&files, "vm.dirty_bytes", None, "4294967296"),
            step(&files, "vm.dirty_background_ratio", None, "11"),
            step(&files, "vm.dirty_expire_centisecs", None, "3100"),
            step(&files, "transparent_hugepage.defrag", None, "defer+madvise"),
        ],
        disks: vec![look(&files, &disk.name)],
        confirm_within: None::<Duration>,
    };
    make(root.path(), &order, &mut |_| Err("no guard was asked for".to_owned())).unwrap();
    assert_eq!(plain_value(&files.read(&queue_path("scheduler")).unwrap()), "none");
    assert_eq!(files.read(&queue_path("nr_requests")).unwrap(), "32\n");
    assert_eq!(files.read("proc/sys/vm/dirty_ratio").unwrap(), "0\n");
    assert_ne!(raw(), before);
    let back = take_last_back(root.path(), None, false).unwrap();
    assert!(back.is_whole(), "{back:#?}");
    assert_eq!(raw(), before);
}

#[test]
fn a_value_that_the_kernel_refuses_takes_the_others_back() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(disk) = Loop::attach() else { return };
    let root = root_over_this_kernel();
    let files = Files::new(root.path());
    let before = queue(&disk.name);
    let name = Some(disk.name.as_str());
    let order = ChangeRequest {
        steps: vec![
            step(&files, "queue.scheduler", name, "mq-deadline"),
            step(&files, "queue.nr_requests", name, "2"),
            step(&files, "queue.nomerges", name, "2"),
        ],
        ..ChangeRequest::default()
    };
    let error = make(root.path(), &order, &mut |_| Ok(())).unwrap_err().to_string();
    assert!(error.contains("reads `4` afterwards") && error.contains("were rolled back"), "{error}");
    assert_eq!(queue(&disk.name), before);
    assert!(take_last_back(root.path(), None, false).is_err(), "no change is left to roll back");
    assert_eq!(fs::read_dir(root.path().join("var/lib/hone/host")).unwrap().count(), 2, "journal and lock");
}

//! `hone host try`: a planted effect is found and settings without one are not; whatever ends a run, the values go back.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

mod stage;
use stage::{Broker, Ran, hone_command, hone_in};
#[path = "../../hone-host/tests/disk/mod.rs"]
mod disk;

/// A machine of plain files under a root.
fn machine() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("proc/sys/kernel/random/boot_id", "first-boot\n"),
        ("proc/sys/kernel/osrelease", "6.1.0\n"),
        ("proc/meminfo", "SwapTotal:             0 kB\n"),
        ("proc/sys/vm/swappiness", "60\n"),
        ("proc/sys/vm/dirty_ratio", "20\n"),
        ("proc/sys/vm/dirty_bytes", "0\n"),
        ("proc/sys/vm/stat_interval", "1\n"),
        ("proc/sys/vm/zone_reclaim_mode", "0\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
    ] {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

const SETTINGS: [(&str, &str); 4] = [
    ("proc/sys/vm/dirty_ratio", "20"),
    ("proc/sys/vm/stat_interval", "1"),
    ("proc/sys/vm/zone_reclaim_mode", "0"),
    ("proc/sys/vm/swappiness", "60"),
];

fn says(root: &Path, path: &str) -> String {
    fs::read_to_string(root.join(path)).unwrap().trim().to_owned()
}

fn is_as_before(root: &Path) -> bool {
    SETTINGS.iter().all(|(path, value)| says(root, path) == *value)
}

/// Passes on between a load and a broker, whose answers are as slow as a file of the machine says: 80 ms later unless it says `10`. That
/// is many times what neighbours do to a window, and no stall.
fn slow_by(root: &Path, listener: TcpListener, broker: String) -> Arc<AtomicBool> {
    let (file, was_fast) = (root.join("proc/sys/vm/dirty_ratio"), Arc::new(AtomicBool::new(false)));
    let seen = Arc::clone(&was_fast);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(server) = TcpStream::connect(&broker) else { continue };
            let _ = (client.set_nodelay(true), server.set_nodelay(true));
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Both);
            });
            let (file, seen) = (file.clone(), Arc::clone(&seen));
            thread::spawn(move || answer(server, client, &file, &seen));
        }
    });
    was_fast
}

fn answer(mut server: TcpStream, mut client: TcpStream, file: &Path, seen: &AtomicBool) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(count) = server.read(&mut bytes) {
        let is_fast = fs::read_to_string(file).is_ok_and(|text| text.trim() == "10");
        seen.fetch_or(is_fast, Ordering::Relaxed);
        if !is_fast {
            thread::sleep(Duration::from_millis(80));
        }
        if count == 0 || client.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = client.shutdown(std::net::Shutdown::Both);
}

/// A broker that tells clients to come by way of `listener`.
fn broker_behind(listener: &TcpListener) -> Broker {
    let address = listener.local_addr().unwrap().to_string();
    Broker::start_as(hone_command().args(["broker", "--advertise", &address]))
}

/// Short windows of a few requests; neighbours are allowed, since tests run beside each other.
const LOAD: [&str; 17] = [
    "--schedule",
    "uniform",
    "--rate",
    "75",
    "--connections",
    "2",
    "--partitions",
    "2",
    "--duration",
    "0.4",
    "--warmup",
    "20",
    "--keep-disturbed",
    "--max-lateness",
    "5s",
    "--settle",
    "0.05",
];

/// What decides. The effects that are planted are many times the margin, and what chance makes of the other settings is not.
const RULE: [&str; 10] = [
    "--primary",
    "latency-p50",
    "--rounds",
    "6",
    "--alpha",
    "0.1",
    "--equivalence",
    "0.5",
    "--quiet",
    "--json",
];

fn host_try(folder: &Path, root: &Path, args: &[&str]) -> Ran {
    let root = root.to_str().unwrap();
    hone_in(folder, &[&["host", "try", "--root", root], args].concat())
}

fn verdicts(trial: &Value) -> Vec<(String, String)> {
    let text = |knob: &Value, name: &str| knob[name].as_str().unwrap().to_owned();
    trial["body"]["tried"]
        .as_array()
        .unwrap()
        .iter()
        .map(|knob| (text(knob, "title"), text(knob, "verdict")))
        .collect()
}

fn journals(root: &Path) -> Vec<PathBuf> {
    let folder = fs::read_dir(root.join("var/lib/hone/host")).into_iter().flatten().flatten();
    folder
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "journal"))
        .collect()
}

#[test]
fn a_planted_effect_is_found_and_settings_without_one_are_not() {
    let (root, folder) = (machine(), tempfile::tempdir().unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let broker = broker_behind(&listener);
    let was_fast = slow_by(root.path(), listener, broker.address.clone());
    let sets = ["--set", "vm.stat_interval=10", "--set", "vm.dirty_ratio=10"];
    let idle = ["--set", "vm.swappiness=1", "--set", "transparent_hugepage.enabled=never"];
    let guarded = ["--target", &address, "--acks", "1", "--guard-metric", "latency-max"];
    let asked = [&sets[..], &idle, &guarded, &LOAD, &RULE].concat();
    let plan =
        host_try(folder.path(), root.path(), &[&asked[..], &["--dry-run"]].concat()).expect_code(0).json();
    assert_eq!(plan["body"]["candidates"].as_array().unwrap().len(), 2, "{plan:#}");
    assert!(!root.path().join("var").exists() && !folder.path().join("runs").exists(), "nothing was written");

    let kept = ["--keep", "--confirm-within", "60s"];
    let ran = host_try(folder.path(), root.path(), &[&asked[..], &kept].concat());
    let trial = ran.expect_code(0).json();
    let found = verdicts(&trial);
    let why = &trial["body"]["tried"][1]["why"];
    assert_eq!(found[1], ("vm.dirty_ratio".to_owned(), "better".to_owned()), "{found:?}: {why}");
    assert!(["not-shown", "equivalent"].contains(&&*found[0].1), "{found:?}");
    assert!(was_fast.load(Ordering::Relaxed));
    let untried: Vec<&str> =
        trial["body"]["untried"].as_array().unwrap().iter().map(|one| one["why"].as_str().unwrap()).collect();
    assert!(untried[0].contains("no swap space") && untried[1].contains("runs already"), "{untried:?}");
    let knob = &trial["body"]["tried"][1];
    assert!(knob["promise"].as_str().unwrap().contains("power cut"), "{knob:#}");
    assert_eq!(knob["stalls_before"]["windows"], 12, "the baseline and its twin, each window once");
    // What helped was measured once more, and is all that is left in force.
    assert_eq!(trial["body"]["together"]["verdict"], "better");
    let id = trial["body"]["left_in_force"].as_str().unwrap();
    assert_eq!(says(root.path(), "proc/sys/vm/dirty_ratio"), "10");
    assert_eq!(says(root.path(), "proc/sys/vm/stat_interval"), "1");
    let left = journals(root.path());
    assert!(left.iter().any(|path| path.file_stem().unwrap() == id), "{left:?}");
    // On top of a change nothing is tried.
    host_try(folder.path(), root.path(), &asked)
        .expect_code(1)
        .expect_error("a trial needs a host without open changes");
    hone_in(folder.path(), &["host", "rollback", "--root", root.path().to_str().unwrap()]).expect_code(0);
    assert!(is_as_before(root.path()));

    let run = folder.path().join("runs/host-try-001");
    for file in ["host-trial.json", "host-trial.md", "report.html", "rule.txt", "now/design-01.json"] {
        assert!(run.join(file).is_file(), "{file}");
    }
    let rule = fs::read_to_string(run.join("rule.txt")).unwrap();
    assert!(rule.contains("no guard metric is worse (max)"), "{rule}");
    let page = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(page.contains("vm.dirty_ratio: better") && page.contains("no swap space"), "the page tells both");
    let table = fs::read_to_string(run.join("host-trial.md")).unwrap();
    assert!(table.contains("| vm.dirty_ratio 20 → 10 | better |"), "{table}");
    let ledger = fs::read_to_string(folder.path().join("runs/ledger.jsonl")).unwrap();
    let entries: Vec<Value> = ledger.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(entries.len(), 3);
    assert_eq!(entries[1]["body"]["change"], "host: /proc/sys/vm/dirty_ratio: 20 -> 10");
    assert_eq!(entries[1]["body"]["decision"], "accepted");
    assert_eq!(entries[0]["body"]["decision"], "rejected");
}

/// All settings together under two durability classes: a row and a verdict for each, and none across.
#[test]
fn a_factorial_judges_each_class_for_itself() {
    let (root, folder) = (machine(), tempfile::tempdir().unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let broker = broker_behind(&listener);
    let _was_fast = slow_by(root.path(), listener, broker.address.clone());
    let sets = ["--set", "vm.stat_interval=10", "--set", "vm.dirty_ratio=10", "--factorial", "all,1"];
    let trial =
        host_try(folder.path(), root.path(), &[&sets[..], &["--target", &address], &LOAD, &RULE].concat())
            .expect_code(0)
            .json();
    let classes: Vec<i64> = trial["body"]["tried"]
        .as_array()
        .unwrap()
        .iter()
        .map(|knob| knob["durability"]["acks"].as_i64().unwrap())
        .collect();
    assert_eq!(classes, [1, -1]);
    let comparisons =
        trial["body"]["tried"].as_array().unwrap().iter().map(|knob| &knob["comparison"]["workload"]["acks"]);
    assert_eq!(
        comparisons.map(|acks| acks.as_i64().unwrap()).collect::<Vec<_>>(),
        classes,
        "no pair mixes classes"
    );
    assert!(verdicts(&trial).iter().all(|(_, verdict)| verdict == "better"), "{:?}", verdicts(&trial));
    assert_eq!(trial["body"]["tried"][0]["settings"].as_array().unwrap().len(), 2);
    let limits = trial["body"]["limits"].to_string();
    assert!(limits.contains("the price of a durability guarantee"), "{limits}");
    assert!(is_as_before(root.path()));
    let both = ["--factorial", "1", "--acks", "1"];
    host_try(folder.path(), root.path(), &both)
        .expect_code(2)
        .expect_error("--factorial does not go with --acks");
}

fn started(folder: &Path, root: &Path, args: &[&str]) -> Child {
    hone_command()
        .args(["host", "try", "--root"])
        .arg(root)
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn waits_for(what: &str, is: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < until, "{what} did not come");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Whether some journal says that everything of a window was in force.
fn in_force(root: &Path) -> bool {
    journals(root).iter().any(|path| {
        fs::read_to_string(path)
            .is_ok_and(|text| text.contains("\"applied\"") && !text.contains("\"reverted\""))
    })
}

/// SIGKILL in a window, and at other moments: the guard puts everything back, the next attempt goes on after the last round.
#[test]
fn a_run_that_is_killed_leaves_a_guard_and_can_go_on() {
    let (root, folder) = (machine(), tempfile::tempdir().unwrap());
    let broker = Broker::start();
    let sets = ["--set", "vm.stat_interval=10", "--set", "vm.dirty_ratio=10"];
    let asked =
        [&sets[..], &["--target", &broker.address, "--watchdog-timeout", "10s"], &LOAD, &RULE].concat();
    let mut run = started(folder.path(), root.path(), &asked);
    waits_for("a window with a setting in force", || in_force(root.path()));
    run.kill().unwrap();
    run.wait().unwrap();
    waits_for("the way back", || is_as_before(root.path()) && !in_force(root.path()));
    let run_folder = folder.path().join("runs/host-try-001");
    let resumed = ["--resume", run_folder.to_str().unwrap(), "--quiet", "--json"];
    let trial = host_try(folder.path(), root.path(), &resumed);
    assert!([0, 3].contains(&trial.code), "{}", trial.stderr);
    assert_eq!(verdicts(&trial.json()).len(), 2);
    assert!(is_as_before(root.path()));

    let times: u64 = if std::env::var_os("HONE_LONG").is_some() { 20 } else { 1 };
    for moment in 0..times {
        let mut run = started(folder.path(), root.path(), &asked);
        thread::sleep(Duration::from_millis(400 + moment * 310));
        run.kill().unwrap();
        run.wait().unwrap();
        waits_for("the way back", || is_as_before(root.path()) && !in_force(root.path()));
    }
    // A run that begins before the guard's time does not wait for it.
    let mut run = started(folder.path(), root.path(), &asked);
    waits_for("a window with a setting in force", || in_force(root.path()));
    run.kill().unwrap();
    run.wait().unwrap();
    let trial = host_try(folder.path(), root.path(), &asked);
    assert!([0, 3].contains(&trial.code), "{}", trial.stderr);
    // It planned with the values that were taken back, and not with those that the dead run had left.
    assert_eq!(verdicts(&trial.json()).len(), 2);
    assert!(is_as_before(root.path()));
}

/// The same on the kernel that runs here: sysctls, and the queue of a loop device of our own.
#[test]
fn real_settings_go_back_when_a_run_is_killed() {
    let Some(device) = disk::Loop::attach() else { return };
    let (root, folder) = (disk::root_over_this_kernel(), tempfile::tempdir().unwrap());
    let broker = Broker::start();
    let expire = fs::read_to_string("/proc/sys/vm/dirty_expire_centisecs").unwrap();
    let other = format!("vm.dirty_expire_centisecs={}", expire.trim().parse::<u64>().unwrap() + 100);
    let before = disk::queue(&device.name);
    let sets = ["--set", "queue.nr_requests=64", "--set", "queue.scheduler=mq-deadline", "--set", &other];
    let more = ["--disk", &device.name, "--target", &broker.address, "--watchdog-timeout", "10s", "--all"];
    let asked = [&sets[..], &more, &LOAD, &RULE].concat();
    let unchanged = || {
        disk::queue(&device.name) == before
            && fs::read_to_string("/proc/sys/vm/dirty_expire_centisecs").unwrap() == expire
    };
    let mut run = started(folder.path(), root.path(), &asked);
    waits_for("a window with a setting in force", || in_force(root.path()));
    run.kill().unwrap();
    run.wait().unwrap();
    waits_for("the way back", || unchanged() && !in_force(root.path()));
    let trial = host_try(
        folder.path(),
        root.path(),
        &["--resume", folder.path().join("runs/host-try-001").to_str().unwrap(), "--quiet", "--json"],
    );
    assert!([0, 3].contains(&trial.code), "{}", trial.stderr);
    assert!(unchanged(), "{:?}", disk::queue(&device.name));
    let trial = trial.json();
    assert!(trial["body"]["tried"].as_array().unwrap().len() >= 2, "{:?}", verdicts(&trial));
}

/// Somebody else who sets what is tried ends the run, and is not written over.
#[test]
fn what_somebody_else_sets_ends_the_run() {
    let (root, folder) = (machine(), tempfile::tempdir().unwrap());
    let broker = Broker::start();
    let asked = [&["--set", "vm.stat_interval=10", "--target", &broker.address][..], &LOAD, &RULE].concat();
    let mut run = hone_command()
        .args(["host", "try", "--root"])
        .arg(root.path())
        .args(&asked)
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    waits_for("a window with a setting in force", || in_force(root.path()));
    host_try(folder.path(), root.path(), &asked).expect_code(1).expect_error("another run tries settings");
    waits_for("a window with a setting in force", || in_force(root.path()));
    fs::write(root.path().join("proc/sys/vm/stat_interval"), "7\n").unwrap();
    let mut told = String::new();
    run.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(1), "{told}");
    assert!(told.contains("stat_interval") && told.contains("--resume"), "{told}");
    assert_eq!(says(root.path(), "proc/sys/vm/stat_interval"), "7");
}

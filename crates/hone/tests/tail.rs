//! `hone diagnose` of a virtual machine, and `--tail` against known truths: pauses in the way of a broker, a CPU limit, and a quiet target.
//!
//! A proxy in Java stands before Hone's own broker, so that the pauses of its virtual machine are in the latency of every request.

#![expect(clippy::disallowed_methods, reason = "tests start programs as users do")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hone_record::{Diagnosis, Envelope, StallKind, TailAccount};

mod stage;
use stage::tools::{jdks, of_checkout, skip};
use stage::{Broker, Ran, free_port, hone_command};

/// A proxy in a virtual machine, with the broker behind it.
struct Proxied {
    java: Child,
    _broker: Broker,
    home: PathBuf,
    address: String,
}

impl Proxied {
    /// With this many thousand live objects. `None` without a JDK.
    fn start(options: &[&str], live: u32, turns: Option<u32>) -> Option<Self> {
        let Some((_, home)) = jdks().pop() else {
            skip("there is no JDK");
            return None;
        };
        let address = format!("127.0.0.1:{}", free_port());
        let broker = Broker::start_as(hone_command().args(["broker", "--advertise", &address]));
        let port = |address: &str| address.rsplit_once(':').unwrap().1.to_owned();
        let mut java = Command::new(home.join("bin/java"))
            .args(options)
            .arg(of_checkout("crates/hone/tests/tail/Proxy.java"))
            .args([port(&address), port(&broker.address), live.to_string()])
            .args(turns.map(|turns| turns.to_string()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        assert_eq!(stage::first_line(&mut java).trim(), "ready");
        Some(Self { java, _broker: broker, home, address })
    }

    /// Explains the tail while `jcmd` asks for something again and again, at irregular times.
    fn explained_while(&self, command: &str, more: &[&str]) -> Ran {
        let stop = AtomicBool::new(false);
        let pid = self.java.id().to_string();
        thread::scope(|scope| {
            scope.spawn(|| {
                for wait_ms in [700, 1_100, 800, 1_300].into_iter().cycle() {
                    thread::sleep(Duration::from_millis(wait_ms));
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let jcmd = Command::new(self.home.join("bin/jcmd"));
                    drop({ jcmd }.args([&*pid, command]).output());
                }
            });
            let ran = explained(&self.address, &[&LOAD, &["--pid", &pid][..], more].concat());
            stop.store(true, Ordering::Relaxed);
            ran
        })
    }
}

impl Drop for Proxied {
    fn drop(&mut self) {
        let _ = self.java.kill();
        let _ = self.java.wait();
    }
}

const LOAD: [&str; 4] = ["--rate", "400", "--duration", "12s"];

/// The account of a load.
fn explained(address: &str, more: &[&str]) -> Ran {
    let runs = tempfile::tempdir().unwrap();
    let to = ["--json", "--output", runs.path().to_str().unwrap()];
    let ran = hone_command().args(["diagnose", "--tail", address]).args(to).args(more).output().unwrap();
    Ran::of(ran)
}

fn account(ran: &Ran) -> TailAccount {
    Envelope::parse(&ran.stdout).unwrap()
}

#[test]
fn pauses_of_a_collector_are_named_by_a_log_of_hone_or_of_the_user() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("gc.log");
    let log = log.to_str().unwrap();
    let option = format!("-Xlog:gc*,safepoint:file={log}:time,level,tags");
    let Some(proxied) = Proxied::start(&["-Xmx512m", "-XX:+UseSerialGC", &option], 1_500, None) else {
        return;
    };
    for more in [&[][..], &["--gc-log", log]] {
        let found = account(&proxied.explained_while("GC.run", more).expect_code(0));
        let named = found.named();
        assert!(named.first().is_some_and(|cause| cause.kind == StallKind::Pause), "{found:?}");
        assert!(named[0].name.starts_with("Pause Full"), "{:?}", named[0]);
        let explained: u64 = named.iter().map(|cause| cause.explained).sum();
        assert!(3 * explained >= found.slow_count && found.slow_count >= 10, "{found:?}");
    }
    // The log that Hone turned on is off again.
    let listed = Command::new(proxied.home.join("bin/jcmd"))
        .args([&*proxied.java.id().to_string(), "VM.log", "list"])
        .output()
        .unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("gc.log") && !listed.contains("hone-pauses"), "{listed}");
}

#[test]
fn a_thread_that_does_not_stop_is_told_of() {
    let options = ["-XX:-UseCountedLoopSafepoints", "-XX:LoopStripMiningIter=0", "-Xmx128m"];
    let Some(proxied) = Proxied::start(&options, 10, Some(150_000_000)) else { return };
    let found = account(&proxied.explained_while("Thread.print", &[]).expect_code(0));
    let named = found.named();
    assert!(named.first().is_some_and(|cause| cause.kind == StallKind::Pause), "{found:?}");
    let detail = named.iter().find_map(|cause| cause.detail.as_deref()).unwrap_or_default();
    assert!(detail.contains("until the last thread had stopped"), "{named:?}");
}

#[test]
fn code_of_a_virtual_machine_has_names_and_its_threads_a_purpose() {
    let Some(proxied) = Proxied::start(&["-Xmx128m"], 10, Some(400_000_000)) else { return };
    let (runs, pid) = (tempfile::tempdir().unwrap(), proxied.java.id().to_string());
    let to = ["--json", "--output", runs.path().to_str().unwrap()];
    let ran = hone_command().args(["diagnose", "--pid", &pid, "--duration", "4s"]).args(to).output().unwrap();
    let found: Diagnosis = Envelope::parse(&Ran::of(ran).expect_code(0).stdout).unwrap();
    let watched = found.watched.unwrap();
    assert_eq!(watched.groups[0].name, "application", "{:?}", watched.groups);
    let split = watched.samples.unwrap();
    assert!(split.share(split.unknown).unwrap() <= 0.05, "{split:?}");
    assert!(split.share(split.generated).unwrap() >= 0.5, "{split:?}");
    assert_eq!(watched.functions[0].name, "Proxy.spin", "{:?}", watched.functions);
    assert!(!Path::new(&format!("/tmp/perf-{pid}.map")).exists());
}

/// A control group with a limit, for one process. `None` where no group can be made.
struct Limited(PathBuf);

impl Limited {
    fn new(pid: u32, quota_us: u32) -> Option<Self> {
        let name = format!("hone-test-{pid}");
        let (old, new) = (Path::new("/sys/fs/cgroup/cpu"), Path::new("/sys/fs/cgroup"));
        let (folder, file, limit) = if old.is_dir() {
            (old.join(name), "cpu.cfs_quota_us", quota_us.to_string())
        } else {
            (new.join(name), "cpu.max", format!("{quota_us} 100000"))
        };
        fs::create_dir(&folder).ok()?;
        let limited = Self(folder);
        fs::write(limited.0.join(file), limit).ok()?;
        fs::write(limited.0.join("cgroup.procs"), pid.to_string()).ok()?;
        Some(limited)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // The process is gone or goes soon; a group with one can't be removed.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_cpu_limit_is_named_and_a_quiet_broker_has_none() {
    let mut broker = Broker::start();
    let found = account(&explained(&broker.address, &LOAD).expect_code(0));
    let is_quiet = |kind| !found.named().iter().any(|cause| cause.kind == kind);
    assert!(is_quiet(StallKind::Throttling) && is_quiet(StallKind::Pause), "{found:?}");
    // Where no group can be made, there is no limit either.
    let Some(limited) = Limited::new(broker.child.id(), 3_000) else { return };
    let found = account(&explained(&broker.address, &["--rate", "300", "--duration", "12s"]).expect_code(0));
    let named = found.named();
    assert!(named.first().is_some_and(|cause| cause.kind == StallKind::Throttling), "{found:?}");
    broker.child.kill().unwrap();
    broker.child.wait().unwrap();
    drop(limited);
}

#[test]
fn a_busy_core_is_named_with_what_took_it() {
    let broker = Broker::start();
    let pid = broker.child.id().to_string();
    let run = |program: &str, words: &[&str]| Command::new(program).args(words).output().unwrap();
    // More urgent than what is scheduled fairly: it takes the right to do so.
    if !run("chrt", &["--fifo", "10", "true"]).status.success() {
        return;
    }
    run("taskset", &["--all-tasks", "--pid", "--cpu-list", "0", &pid]);
    let stop = AtomicBool::new(false);
    let found = thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let spin = [
                    "0.3",
                    "taskset",
                    "--cpu-list",
                    "0",
                    "chrt",
                    "--fifo",
                    "10",
                    "sh",
                    "-c",
                    "while :; do :; done",
                ];
                run("timeout", &spin);
                thread::sleep(Duration::from_millis(1_300));
            }
        });
        let found = explained(&broker.address, &[&LOAD[..], &["--pid", &pid]].concat());
        stop.store(true, Ordering::Relaxed);
        account(&found.expect_code(0))
    });
    let named = found.named();
    assert!(named.first().is_some_and(|cause| cause.kind == StallKind::RunQueue), "{found:?}");
    assert!(named[0].detail.as_deref().is_some_and(|detail| detail.contains("took")), "{named:?}");
}

#[test]
fn what_can_not_be_explained_says_why() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("gc.log");
    fs::write(&log, "[0.050s][info][safepoint] Safepoint \"Cleanup\", Time since last: 1 ns, Reaching safepoint: 3 ns, Total: 13 ns\n").unwrap();
    let refused = |more: &[&str]| explained(&broker.address, more);
    let of_log = ["--duration", "2s", "--gc-log", log.to_str().unwrap()];
    refused(&of_log).expect_code(2).expect_error("has no dates");
    refused(&["--duration", "2s", "--gc-log", "/nowhere/gc.log"])
        .expect_code(1)
        .expect_error("can't be read");
    refused(&["--pid", "4194304"]).expect_code(2).expect_error("4194304");
    let ran = hone_command().args(["diagnose", "--tail", "nonsense"]).output().unwrap();
    Ran::of(ran).expect_code(2).expect_error("invalid broker address `nonsense`");
    let ran = hone_command().args(["diagnose", "--pid", "1", "--rate", "5"]).output().unwrap();
    Ran::of(ran).expect_code(2).expect_error("--tail");
}

//! `hone diagnose --pid`: running programs whose busy thread is known.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

mod stage;
use serde_json::Value;
use stage::tools::{find, skip};
use stage::{Ran, hone_command, hone_in};

/// One thread that works, and one that sleeps.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
volatile unsigned long sum;
__attribute__((noinline)) void grind(unsigned long n) { for (unsigned long i = 0; i < n; i++) sum += i * i; }
static void *busy(void *none) { prctl(PR_SET_NAME, "reactor-0"); for (;;) grind(1000000); return none; }
static void *idle(void *none) { prctl(PR_SET_NAME, "sleeper"); for (;;) usleep(20000); return none; }
int main(void) {
    pthread_t one, other;
    pthread_create(&one, 0, busy, 0);
    pthread_create(&other, 0, idle, 0);
    puts("ready");
    fflush(stdout);
    pthread_join(one, 0);
    return 0;
}
"#;

/// A program that is ended with the test.
struct Running(Child);

impl Running {
    #[expect(clippy::disallowed_methods, reason = "a test needs a process that Hone has not started")]
    fn start(program: &str, words: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "a test compiles as its users do")]
fn compiled(dir: &Path) -> Option<PathBuf> {
    let cc = find("cc")?;
    let (source, program) = (dir.join("p.c"), dir.join("reactors"));
    fs::write(&source, PROGRAM).unwrap();
    let built = Command::new(cc).args(["-O1", "-pthread", "-o"]).arg(&program).arg(&source).status().unwrap();
    assert!(built.success());
    Some(program)
}

fn watched(dir: &Path, pid: &str) -> Value {
    hone_in(dir, &["diagnose", "--pid", pid, "--duration", "2", "--json"]).expect_code(0).json()["body"]
        .clone()
}

/// Whether perf may sample here; where it may not, the kernel's own part is still told.
fn is_sampled(body: &Value) -> bool {
    let is = body["watched"]["event"].is_string();
    if !is {
        skip(&format!("perf does not sample here: {}", body["notes"]));
    }
    is
}

#[test]
fn the_busy_thread_is_found_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compiled(dir.path()) else { return };
    let running = Running::start(program.to_str().unwrap(), &[]);
    let body = watched(dir.path(), &running.pid());
    let threads = body["watched"]["threads"].as_array().unwrap();
    assert_eq!((threads.len(), &threads[0]["name"]), (3, &"reactor-0".into()), "{body}");
    let cpu = |thread: &Value| thread["cpu_s"].as_f64().unwrap();
    let all: f64 = threads.iter().map(cpu).sum();
    assert!(cpu(&threads[0]) >= 0.9 * all, "{threads:?}");
    let sleeper = threads.iter().find(|thread| thread["name"] == "sleeper").unwrap();
    assert!(sleeper["switches_voluntary"].as_u64().unwrap() > 30, "{sleeper}");
    assert!(dir.path().join("runs/reactors-diagnosis-001/diagnosis.json").is_file());
    if body["evidence"] == "measured" || !is_sampled(&body) {
        return;
    }
    assert_eq!(
        (&body["evidence"], &body["watched"]["functions"][0]["name"]),
        (&"sampled".into(), &"grind".into())
    );
    assert!(body["user_share"].as_f64().unwrap() > 0.8, "{body}");
    let text =
        hone_in(dir.path(), &["diagnose", "--pid", &running.pid(), "--duration", "1"]).expect_code(0).stdout;
    assert!(text.starts_with("Evidence: sampled (where time goes, not why)\nFrom process "), "{text}");
    assert!(
        text.contains("no verdict: samples show where time goes") && text.contains("hone diagnose hone.toml"),
        "{text}"
    );
    // The samples stay, and have a map.
    let map =
        hone_in(dir.path(), &["heatmap", "runs/reactors-diagnosis-001/perf.data"]).expect_code(0).stdout;
    assert!(map.contains("grind"), "{map}");
}

#[test]
fn a_program_of_system_calls_is_the_kernels() {
    let dir = tempfile::tempdir().unwrap();
    let Some(dd) = find("dd") else { return };
    let running = Running::start(dd.to_str().unwrap(), &["if=/dev/zero", "of=/dev/null", "bs=1"]);
    let body = watched(dir.path(), &running.pid());
    assert!(body["watched"]["next"].as_str().unwrap().starts_with("the kernel: "), "{body}");
    assert!(body["watched"]["reads_and_writes"].as_u64().unwrap() > 10_000, "{body}");
    if is_sampled(&body) {
        let samples = &body["watched"]["samples"];
        assert!(samples["kernel"].as_u64().unwrap() > samples["program"].as_u64().unwrap(), "{samples}");
    }
}

#[test]
fn without_perf_the_kernels_own_part_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compiled(dir.path()) else { return };
    let running = Running::start(program.to_str().unwrap(), &[]);
    let mut command = hone_command();
    command.args(["diagnose", "--pid", &running.pid(), "--duration", "1"]).current_dir(dir.path());
    let ran = Ran::of(command.env("PATH", "").env_remove("HONE_PERF").output().unwrap()).expect_code(0);
    assert!(ran.stdout.contains("reactor-0 (") && ran.stdout.contains("waits for a core"), "{}", ran.stdout);
    assert!(ran.stdout.contains("note: no samples: perf not found"), "{}", ran.stdout);
    // One that may not, in its own words.
    let no = stage::script(
        dir.path(),
        "perf",
        "echo 'Error:' >&2; echo 'No permission to enable cpu-clock' >&2; exit 255",
    );
    let mut command = hone_command();
    command.args(["diagnose", "--pid", &running.pid(), "--duration", "1"]).current_dir(dir.path());
    let ran = Ran::of(command.env("HONE_PERF", no).output().unwrap()).expect_code(0);
    assert!(
        ran.stdout.contains("No permission to enable cpu-clock; kernel.perf_event_paranoid is"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("CAP_PERFMON") && ran.stdout.contains("reactor-0 ("), "{}", ran.stdout);
}

#[test]
fn a_process_that_ends_leaves_what_was_seen_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compiled(dir.path()) else { return };
    let running = Running::start(program.to_str().unwrap(), &[]);
    let pid = running.pid();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(3));
        drop(running);
    });
    let ran = hone_in(dir.path(), &["diagnose", "--pid", &pid, "--duration", "60", "--json"]).expect_code(1);
    killer.join().unwrap();
    let body = ran.json()["body"].clone();
    assert!(
        body["notes"][0].as_str().unwrap().contains("of 60 s: the figures cover only that time"),
        "{body}"
    );
    assert_eq!(body["watched"]["threads"][0]["name"], "reactor-0");
    assert!(dir.path().join("runs/reactors-diagnosis-001/diagnosis.json").is_file());
}

#[test]
fn what_can_not_be_looked_at_is_told_before_anything_is_begun() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |pid: &str, said: &str| {
        hone_in(dir.path(), &["diagnose", "--pid", pid]).expect_code(1).expect_error(said);
    };
    refused("8388608", "there is no process 8388608");
    // The kernel's own threads are children of number 2, where this container shows them.
    if fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        refused("2", "is a kernel thread");
    }
    let mut ended = Running::start("true", &[]);
    std::thread::sleep(Duration::from_millis(300));
    refused(&ended.pid(), "has ended, but its parent has not waited for it");
    ended.0.wait().unwrap();
    refused(&ended.pid(), "there is no process");
    hone_in(dir.path(), &["diagnose", "--pid", "1", "--duration", "0"]).expect_code(2);
    hone_in(dir.path(), &["diagnose", "--duration", "5"]).expect_code(2);
    assert!(!dir.path().join("runs").exists(), "nothing was begun");
}

/// An interrupt ends perf, too.
#[test]
fn an_interrupt_leaves_no_perf_behind() {
    let dir = tempfile::tempdir().unwrap();
    let (Some(program), Some(_)) = (compiled(dir.path()), find("perf")) else { return };
    let running = Running::start(program.to_str().unwrap(), &[]);
    let mut command = hone_command();
    command.args(["diagnose", "--pid", &running.pid(), "--duration", "60"]).current_dir(dir.path());
    let mut hone = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    let data = dir.path().join("runs/reactors-diagnosis-001/perf.data");
    while !data.metadata().is_ok_and(|facts| facts.len() > 0) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    let perfs = || stage::processes_with(data.to_str().unwrap()).len();
    if perfs() == 0 {
        let _ = hone.kill();
        let _ = hone.wait();
        return skip("perf does not sample here");
    }
    // SAFETY: a signal to a child of this test that was not waited for.
    unsafe { libc::kill(hone.id().cast_signed(), libc::SIGINT) };
    assert_eq!(hone.wait().unwrap().code(), Some(1));
    assert_eq!(perfs(), 0);
    assert!(!data.with_file_name("diagnosis.json").exists());
}

//! What a load leaves behind, also when it is broken off or the disk is full.

#![expect(clippy::disallowed_methods, reason = "tests start the program as its users do")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

mod stage;
use stage::{Broker, hone, hone_here, hone_in, names_in};

fn seconds_in(path: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn wait_for_seconds(path: &Path, wanted: usize) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while seconds_in(path).len() < wanted {
        assert!(Instant::now() < deadline, "no {wanted} lines in {}", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_series_and_the_percentiles_are_those_of_the_record() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    let load = ["load", &broker.address, "-q", "--rate", "400", "-d", "2", "--warmup", "10"];
    let files = ["-o", "window.json", "--series", "series.ndjson", "--hgrm", "latency.hgrm"];
    hone_in(folder.path(), &[&load[..], &files].concat()).expect_code(0);
    assert_eq!(names_in(folder.path()), ["latency.hgrm", "report.html", "series.ndjson", "window.json"]);
    let record: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder.path().join("window.json")).unwrap()).unwrap();
    assert_eq!(
        seconds_in(&folder.path().join("series.ndjson")),
        *record["body"]["series"].as_array().unwrap()
    );
    let hdr = hone_record::Hdr::from_base64(record["body"]["latencies"]["intended_to_ack"].as_str().unwrap());
    assert_eq!(fs::read_to_string(folder.path().join("latency.hgrm")).unwrap(), hdr.unwrap().to_hgrm());
    // Each second has a histogram of its own; together they are the window's, but for what was drained.
    let mut merged = hone_record::Hdr::new();
    for point in record["body"]["series"].as_array().unwrap() {
        merged.merge(&hone_record::Hdr::from_base64(point["latency"].as_str().unwrap()).unwrap());
    }
    let ended = record["body"]["facts"]["requests"].as_u64().unwrap();
    assert!(merged.count() <= ended && merged.count() > ended * 9 / 10, "{} of {ended}", merged.count());
}

#[test]
fn the_environment_is_told_by_machine_and_broker() {
    let broker = Broker::start();
    let load = ["load", &broker.address, "-q", "--json", "--rate", "100", "-d", "1", "--warmup", "0"];
    let settings = ["--topic-config", "retention.ms=3600000"];
    let record = hone(&[&load[..], &settings].concat()).expect_code(0).json();
    let environment = &record["body"]["environment"];
    assert!(!environment["machine"]["kernel"].as_str().unwrap().is_empty());
    assert_eq!(environment["brokers"]["1"], broker.address);
    assert_eq!(environment["topic_config"]["retention.ms"], "3600000");
    assert_eq!(environment["broker_config"]["log.dirs"], broker.data.path().display().to_string());
    assert_eq!(environment["replicas"], 1);
    assert!(environment["cluster_id"].is_string());
    if Path::new("/proc/pressure/cpu").exists() {
        assert!(environment["pressure"]["cpu"].as_f64().is_some());
    }
}

#[test]
fn an_interrupt_ends_the_window_and_keeps_what_was_measured() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    let series = folder.path().join("series.ndjson");
    let mut child = hone_here()
        .args(["load"])
        .args(stage::PATIENT)
        .args([&broker.address, "--json", "-q", "--rate", "500", "-d", "60", "--warmup", "0", "-o"])
        .args([&folder.path().join("window.json"), Path::new("--series"), &series])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_seconds(&series, 2);
    // SAFETY: the child has not been waited for, so its pid is its own.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    let asked = Instant::now();
    let stdout = std::io::read_to_string(child.stdout.take().unwrap()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
    let record: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let body = &record["body"];
    let duration_s = body["duration_s"].as_f64().unwrap();
    assert!((2.0..40.0).contains(&duration_s), "{duration_s}");
    assert_eq!(body["outcome"], "steady");
    assert_eq!(body["facts"]["acked_requests"], body["facts"]["requests"]);
    let reached = body["facts"]["reached_requests_per_s"].as_f64().unwrap();
    assert!((reached / 500.0 - 1.0).abs() < 0.2, "{reached}");
    assert_eq!(body["events"][0]["kind"], "interrupted");
    assert!(folder.path().join("window.json").exists());
}

/// What is answered after an interrupt is awaited, but no part of the window that it ended.
#[test]
fn what_comes_after_an_interrupt_is_in_no_rate_and_no_second() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    let series = folder.path().join("series.ndjson");
    let child = hone_here()
        .args(["load"])
        .args(stage::PATIENT)
        .args([&broker.address, "--json", "-q", "--rate", "200", "-d", "60", "--warmup", "0"])
        .args(["--timeout", "30", "--in-flight", "10000"])
        .args([Path::new("--series"), &series])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_seconds(&series, 2);
    broker.signal(libc::SIGSTOP);
    std::thread::sleep(Duration::from_secs(4));
    // SAFETY: the child has not been waited for, so its pid is its own.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    std::thread::sleep(Duration::from_secs(2));
    broker.signal(libc::SIGCONT);
    let output = child.wait_with_output().unwrap();
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let (body, facts) = (&record["body"], &record["body"]["facts"]);
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    assert_eq!(facts["acked_requests"], facts["requests"], "what was due was not awaited: {facts:#}");
    let duration_s = number(&body["duration_s"]);
    let in_window = number(&facts["reached_requests_per_s"]) * duration_s;
    let drained = number(&facts["acked_requests"]) - in_window;
    // Four seconds of requests waited for the broker.
    assert!(drained > 500.0, "{drained} requests were answered after the window, of {}", facts["requests"]);
    let seconds = body["series"].as_array().unwrap();
    assert_eq!(seconds.len() as f64, duration_s.ceil(), "{seconds:#?}");
    let in_seconds: f64 = seconds.iter().map(|second| number(&second["acked_requests"])).sum();
    assert!((in_seconds - in_window).abs() < 0.5, "{in_seconds} in seconds, {in_window} in the window");
    let last = seconds.last().unwrap();
    let length_s = last["length_s"].as_f64().unwrap_or(1.0);
    assert!((length_s - (duration_s - number(&last["at_s"]))).abs() < 1e-6, "{last} of {duration_s} s");
    assert_eq!(seconds_in(&series), *seconds, "the file tells other seconds than the record");
}

/// An interrupt does not wait for the next request, however far it is.
#[test]
fn an_interrupt_in_a_gap_of_a_replay_ends_at_once() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    let times: String = (0..200).map(|at| format!("{}.{:02}\n", at / 100, at % 100)).collect();
    std::fs::write(folder.path().join("times"), format!("{times}60\n")).unwrap();
    let series = folder.path().join("series.ndjson");
    let child = hone_here()
        .args(["load"])
        .args(stage::PATIENT)
        .args([&broker.address, "--json", "-q", "--schedule", "replay:times", "-d", "90", "--warmup", "0"])
        .args([Path::new("--series"), &series])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_seconds(&series, 3);
    // SAFETY: the child has not been waited for, so its pid is its own.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    let asked = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(15), "the end took {:?}", asked.elapsed());
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(record["body"]["facts"]["requests"], 200, "a request behind the end was sent");
    assert!(record["body"]["duration_s"].as_f64().unwrap() < 20.0);
}

#[test]
fn a_killed_load_leaves_its_series() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    let series = folder.path().join("series.ndjson");
    let mut child = hone_here()
        .args(["load"])
        .args(stage::PATIENT)
        .args([&broker.address, "-q", "--rate", "500", "-d", "60", "--warmup", "0", "--series"])
        .arg(&series)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_for_seconds(&series, 2);
    child.kill().unwrap();
    child.wait().unwrap();
    let seconds = seconds_in(&series);
    assert!(seconds.len() >= 2 && seconds[1]["acked_requests"].as_u64().unwrap() > 400, "{seconds:?}");
}

/// The system's limit on the size of a file stands in for a disk that is full: writing fails, making a file does not.
#[test]
fn a_full_disk_costs_the_file_and_not_the_window() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    let script = "trap '' XFSZ; ulimit -f 4; exec \"$@\"";
    let output = Command::new("sh")
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_hone"), "load", &broker.address])
        .args([
            "-q",
            "--rate",
            "300",
            "-d",
            "3",
            "--warmup",
            "0",
            "-o",
            "window.json",
            "--hgrm",
            "latency.hgrm",
        ])
        .args(["--series", "/dev/full"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert_eq!(output.status.code(), Some(1), "{stdout}{stderr}");
    assert!(stdout.contains("Steady: "), "{stdout}");
    assert!(stdout.contains("/dev/full can't be written from second 0 on"), "{stdout}");
    assert!(stderr.contains("can't be written"), "{stderr}");
    assert_eq!(names_in(folder.path()), Vec::<String>::new(), "something half-written is left");
}

#[test]
fn without_a_terminal_there_are_plain_lines_and_none_when_quiet() {
    let broker = Broker::start();
    let load = ["load", &broker.address, "--rate", "200", "-d", "6", "--warmup", "0", "--json"];
    let ran = hone(&load).expect_code(0);
    ran.json();
    assert!(ran.stderr.contains("s: ") && ran.stderr.contains("/s due, backlog"), "{}", ran.stderr);
    let quiet = hone(&["load", &broker.address, "--rate", "200", "-d", "6", "--warmup", "0", "-q"]);
    assert_eq!(quiet.expect_code(0).stderr, "");
}

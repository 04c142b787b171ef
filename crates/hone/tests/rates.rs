//! Loads at many rates: the knee lies where it was put, and what was measured is kept.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

mod stage;
use stage::{Broker, hone_command, hone_in};

fn read(path: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

fn windows_in(run: &Path) -> usize {
    std::fs::read_dir(run.join("windows")).map_or(0, Iterator::count)
}

/// A promise about the rate itself breaks at a rate that is known.
#[test]
fn the_knee_is_found_where_it_was_put() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    let load =
        ["load", &broker.address, "--find-capacity", "--slo", "throughput<500,errors<1%", "--rate", "150"];
    let short = [
        "-d",
        "500ms",
        "--warmup",
        "0",
        "--schedule",
        "uniform",
        "--confirmations",
        "2",
        "--precision",
        "1.1",
    ];
    let ran = hone_in(folder.path(), &[&load[..], &short, &["-q", "--json"]].concat()).expect_code(0);
    let body = ran.json()["body"].take();
    let [held, failed] =
        ["held_requests_per_s", "failed_requests_per_s"].map(|end| body[end].as_f64().unwrap());
    assert!(held < 510.0 && failed > 490.0, "{held} .. {failed}");
    assert!(failed / held < 2.0, "{held} .. {failed}");
    assert_eq!(body["end"], "found");
    let run = folder.path().join("runs/capacity-001");
    let points = body["points"].as_array().unwrap();
    assert_eq!(points.len(), windows_in(&run), "every window is kept");
    assert_eq!(read(&run.join("capacity.json"))["body"], body);
    let window = read(&run.join(points[0]["window"].as_str().unwrap()));
    assert_eq!(window["body"]["requirements"].as_array().unwrap().len(), 2);
    assert!(std::fs::read_to_string(run.join("report.html")).unwrap().contains("Where the SLO breaks"));
    std::fs::remove_file(run.join("report.html")).unwrap();
    hone_in(&run, &["report", "."]).expect_code(0);
    assert!(run.join("report.html").exists());
}

#[test]
fn a_promise_that_nothing_keeps_is_worse() {
    let found = |broker: &Broker, promise: &str| {
        let folder = tempfile::tempdir().unwrap();
        let load =
            ["load", &broker.address, "--find-capacity", "--slo", promise, "--rate", "200", "-d", "500ms"];
        let more = ["--warmup", "0", "--confirmations", "2", "-q", "--max-lateness", "60s"];
        hone_in(folder.path(), &[&load[..], &more].concat())
    };
    let slow = Broker::start_as(hone_command().args(["broker", "--storage-fault", "write-delay,ms=60"]));
    let ran = found(&slow, "p50=40ms").expect_code(3);
    let said: Vec<&str> = ran.stdout.split_whitespace().collect();
    assert!(said.join(" ").contains("No rate down to"), "{}", ran.stdout);
    // No generator is as punctual as that, so that nothing follows of the broker.
    found(&Broker::start(), "p50=1us")
        .expect_code(1)
        .expect_error("the generator itself fell behind by more than that");
}

/// A search ends where it was told to: after so many windows, and below so high a rate.
#[test]
fn a_search_keeps_to_its_bounds() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    let search = |bounds: &[&str]| {
        let load =
            ["load", &broker.address, "--find-capacity", "--slo", "throughput<100000", "--rate", "100"];
        let short = ["-d", "500ms", "--warmup", "0", "-q", "--json", "--max-lateness", "60s"];
        hone_in(folder.path(), &[&load[..], &short, bounds].concat())
    };
    let short = search(&["--max-windows", "3"]).expect_code(1).json()["body"].take();
    assert_eq!((&short["end"], short["points"].as_array().unwrap().len()), (&"out-of-windows".into(), 3));
    let low = search(&["--max-rate", "300", "--confirmations", "1"]).expect_code(0).json()["body"].take();
    assert_eq!(low["end"], "not-reached", "{low}");
    let rates = low["points"].as_array().unwrap().iter();
    let rates: Vec<f64> = rates.map(|point| point["requests_per_s"].as_f64().unwrap()).collect();
    assert!(rates.iter().all(|rate| *rate <= 300.0) && rates.contains(&300.0), "{rates:?}");
    search(&["--max-rate", "50"])
        .expect_code(2)
        .expect_error("invalid --max-rate 50: use a rate between --rate and 1e7");
}

#[test]
fn a_sweep_keeps_the_records_and_varies_the_batches() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    let load = [
        "load",
        &broker.address,
        "--rate",
        "400",
        "--records",
        "5",
        "-d",
        "500ms",
        "--warmup",
        "0",
        "--max-lateness",
        "60s",
    ];
    let sweep = ["--sweep-records", "1,10,100", "--repeats", "2", "-q", "--json"];
    let ran = hone_in(folder.path(), &[&load[..], &sweep].concat()).expect_code(0);
    let body = ran.json()["body"].take();
    assert_eq!(body["over"], "records-per-batch");
    let points = body["points"].as_array().unwrap();
    assert_eq!(points.len(), 6);
    for point in points {
        let records = point["records_per_batch"].as_f64().unwrap();
        assert!((point["requests_per_s"].as_f64().unwrap() * records - 2_000.0).abs() < 1e-6, "{point}");
    }
    let run = folder.path().join("runs/curve-001");
    assert_eq!((windows_in(&run), run.join("report.html").exists()), (6, true));
    let text = hone_in(folder.path(), &[&load[..], &["--sweep-rate", "100,300", "-q"]].concat())
        .expect_code(0)
        .stdout;
    assert!(text.contains("  requests/s   windows") && text.contains("  300 "), "{text}");
}

#[test]
fn an_interrupted_search_keeps_what_was_measured() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    let mut child = hone_command()
        .args(["load", &broker.address, "--find-capacity", "--slo", "throughput<100000", "--rate", "100"])
        .args(["-d", "1", "--warmup", "0", "-q", "--json", "--max-lateness", "60s"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let run = folder.path().join("runs/capacity-001");
    let deadline = Instant::now() + Duration::from_secs(60);
    while windows_in(&run) < 2 {
        assert!(Instant::now() < deadline, "no two windows");
        std::thread::sleep(Duration::from_millis(20));
    }
    // SAFETY: the child has not been waited for, so its pid is its own.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    let stdout = std::io::read_to_string(child.stdout.take().unwrap()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let record: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert!(record["body"]["points"].as_array().unwrap().len() >= 2);
    assert!(record["body"]["end"]["broken-off"]["why"].is_string(), "{}", record["body"]["end"]);
    assert_eq!(read(&run.join("capacity.json"))["body"], record["body"]);
}

#[test]
fn a_sweep_that_breaks_off_keeps_what_was_measured() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    let mut child = hone_command()
        .args([
            "load",
            &broker.address,
            "--sweep-rate",
            "100,200",
            "--repeats",
            "500",
            "--max-lateness",
            "60s",
        ])
        .args(["-d", "500ms", "--warmup", "0", "--timeout", "2s", "-q", "--json"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let run = folder.path().join("runs/curve-001");
    let deadline = Instant::now() + Duration::from_secs(60);
    while windows_in(&run) < 2 {
        assert!(Instant::now() < deadline, "no two windows");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(broker);
    let stdout = std::io::read_to_string(child.stdout.take().unwrap()).unwrap();
    let stderr = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{stderr}");
    assert!(stderr.contains("the sweep ended after") && stderr.contains("of 1000 windows"), "{stderr}");
    let record: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert!(record["body"]["points"].as_array().unwrap().len() >= 2);
    assert_eq!(read(&run.join("curve.json"))["body"], record["body"]);
}

#[test]
fn searches_that_make_no_sense_are_refused_before_the_first_window() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |more: &[&str], expected: &str| {
        let ran = hone_in(folder.path(), &[&["load", "127.0.0.1:1"], more].concat());
        ran.expect_code(2).expect_error(expected);
    };
    refused(&["--find-capacity"], "--slo");
    refused(&["--slo", "p99=1ms"], "--find-capacity");
    refused(&["--find-capacity", "--slo", "p99"], "has no limit; write for example p99=10ms");
    refused(&["--find-capacity", "--slo", "p99.99=1ms", "-r", "1000"], "needs 100000 requests per window");
    refused(&["--find-capacity", "--slo", "p50=1ms", "--precision", "0.5"], "invalid --precision 0.5");
    refused(
        &["--find-capacity", "--slo", "p50=1ms", "--topic", "x"],
        "--find-capacity does not go with --topic",
    );
    refused(&["--sweep-records", "1,0"], "--sweep-records `0`: use a whole number from 1 to 1000000");
    refused(&["--sweep-rate", "100,-3"], "--sweep-rate `-3`: use a number above zero");
    let unsteady = "this load's schedule has its own rates";
    refused(&["--find-capacity", "--slo", "p50=1ms", "--schedule", "steps:100,200"], unsteady);
    refused(&["--sweep-rate", "100,200", "--schedule", "ramp:500"], unsteady);
    refused(&["--sweep-records", "1,2", "--schedule", "steps:100,200"], unsteady);
    assert!(!folder.path().join("runs").exists());
}

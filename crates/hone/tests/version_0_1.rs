//! What version 0.1 wrote is opened today: every record and run folder is reported with its figures, and a comparison that was killed goes on.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

mod stage;
use stage::runs::version_0_1;
use stage::{Broker, hone_command, hone_in};

/// Each run, and figures that version 0.1 printed of it.
const RUNS: [(&str, &[&str]); 10] = [
    ("load.json", &["1,234"]),
    ("load-consumers.json", &["800"]),
    ("runs/compare-001", &["0.895", "0.803", "0.999", "159 µs", "142 µs", "0.734", "1.375"]),
    ("runs/batch-prove-001", &["4.88 ms", "4.47 ms", "25.3 ms", "95.9 µs", "117 µs", "2.85"]),
    ("runs/capacity-001", &["27,570", "50.0 ms"]),
    ("runs/curve-001", &["500", "1,000", "2,000"]),
    ("optimize/calc-001", &["0.990", "0.942", "1.041", "496 B", "497 B"]),
    ("gate/calc-gate-001", &["+41.7 %", "+37.0 %", "+46.4 %", "0.356 µs", "0.504 µs"]),
    ("host/host-try-001", &["260 µs", "277 µs", "268 µs"]),
    ("tune/orders-001", &["0.009", "0.007", "0.012", "0.504", "0.508", "1.17 ms", "9.31 ms", "213 ms"]),
];

#[test]
fn every_record_and_run_folder_is_reported_with_its_figures() {
    let folder = version_0_1();
    let plain = |text: String| text.replace(['\u{a0}', '\u{202f}'], " ").replace("&nbsp;", " ");
    for (run, figures) in RUNS {
        let markdown = hone_in(folder.path(), &["report", run, "--markdown"]).expect_code(0).stdout;
        let page = folder.path().join("page.html");
        hone_in(folder.path(), &["report", run, "-o", page.to_str().unwrap()]).expect_code(0);
        let page = plain(fs::read_to_string(page).unwrap());
        for figure in figures {
            assert!(markdown.contains(figure), "{run}: {figure} is not in the Markdown:\n{markdown}");
            assert!(page.contains(figure), "{run}: {figure} is not on the page");
        }
    }
}

#[test]
fn its_ledgers_hold_and_are_listed() {
    let folder = version_0_1();
    for (ledger, entry) in [
        ("runs/ledger.jsonl", "linger=5ms"),
        ("tune/ledger.jsonl", "codec=gzip"),
        ("host/ledger.jsonl", "vm.dirty_ratio"),
        ("gate/ledger.jsonl", "calc"),
        ("optimize/ledger.jsonl", "pgo"),
    ] {
        let listed = hone_in(folder.path(), &["ledger", "show", ledger]).expect_code(0).stdout;
        assert!(listed.contains(entry), "{ledger}: {listed}");
        hone_in(folder.path(), &["ledger", "verify", ledger]).expect_code(0);
    }
    // It called a prediction `foretold`.
    let shown =
        hone_in(folder.path(), &["ledger", "show", "tune/ledger.jsonl", "--json"]).expect_code(0).json();
    let entries = shown["body"]["entries"].as_array().unwrap();
    assert!(entries.iter().any(|shown| shown["entry"]["predicted"]["came_true"] == true), "{shown:#}");
}

/// Replaces a text in all JSON files below a folder.
fn replace_below(folder: &Path, pairs: &[(&str, &str)]) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            replace_below(&path, pairs);
        } else if path.extension().is_some_and(|ending| ending == "json") {
            let text = fs::read_to_string(&path).unwrap();
            let text = pairs.iter().fold(text, |text, (from, to)| text.replace(from, to));
            fs::write(&path, text).unwrap();
        }
    }
}

/// How a run of today knows this machine, by one that is killed as soon as it has written that.
fn fingerprint(folder: &Path, a: &str, b: &str) -> Value {
    let mut child = hone_command()
        .args(["compare", a, b, "--rate", "100", "-q", "-o", "today"])
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (plan, started) = (folder.join("today/compare-001/asked.json"), Instant::now());
    let found = loop {
        let read = fs::read(&plan).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        match read {
            Some(read) => break read["standing"].clone(),
            None => assert!(started.elapsed() < Duration::from_secs(60), "no run began"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    child.kill().unwrap();
    child.wait().unwrap();
    found
}

/// The folder and the program of the machine that began a run become those of this test.
fn adopt(folder: &Path, run: &Path) {
    let (here, program) = (folder.to_str().unwrap(), env!("CARGO_BIN_EXE_hone"));
    replace_below(run, &[("/tmp/v01gen/w", here), ("/tmp/w/v01/target/debug/hone", program)]);
}

/// The same for the brokers of a comparison, and for the machine as a run of today knows it.
fn adopt_comparison(folder: &Path, run: &Path, a: &Broker, b: &Broker) {
    adopt(folder, run);
    replace_below(run, &[("127.0.0.1:39092", &a.address), ("127.0.0.1:39192", &b.address)]);
    let plan = run.join("asked.json");
    let mut asked: Value = serde_json::from_slice(&fs::read(&plan).unwrap()).unwrap();
    asked["standing"] = fingerprint(folder, &a.address, &b.address);
    fs::write(&plan, serde_json::to_vec(&asked).unwrap()).unwrap();
}

#[test]
fn a_comparison_that_was_killed_goes_on_with_the_pairs_that_it_has() {
    let folder = version_0_1();
    let run = folder.path().join("cut/compare-001");
    let (a, b) = (Broker::start(), Broker::start());
    adopt_comparison(folder.path(), &run, &a, &b);
    let windows = || {
        ["000-a", "000-b", "002-a"].map(|name| fs::read(run.join(format!("windows/{name}.json"))).unwrap())
    };
    let measured = windows();
    let ran = hone_in(folder.path(), &["compare", "--resume", "cut/compare-001", "--json"]);
    assert!(matches!(ran.code, 0 | 3), "{}: {}", ran.code, ran.stderr);
    let found = ran.json();
    assert!(found["body"]["pairs"].as_array().unwrap().len() >= 13, "{found:#}");
    assert_eq!(windows(), measured, "the windows of version 0.1 stay");
}

/// Another program began it, and by another rule, so its pairs are not mixed with those of today.
#[test]
fn a_tuning_that_was_killed_is_refused_with_the_reason() {
    let folder = version_0_1();
    let run = folder.path().join("tune-cut/orders-001");
    adopt(folder.path(), &run);
    let before = fs::read(run.join("found.json")).unwrap();
    hone_in(folder.path(), &["tune", "--resume", "tune-cut/orders-001"]).expect_error("can't resume");
    assert_eq!(fs::read(run.join("found.json")).unwrap(), before);
}

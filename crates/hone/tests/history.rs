//! `hone history`: change points of records and imported files, exports, and files that are refused.

use std::fs;
use std::path::Path;

use hone_record::{Envelope, Environment, Machine, Window};
use serde_json::Value;

#[path = "../../hone-report/tests/sample/mod.rs"]
mod sample;
mod stage;
use stage::tools::of_checkout;
use stage::{Ran, hone_in};

/// The commit of a window. Hone shows its first twelve digits.
fn commit(number: u64) -> String {
    format!("{number:02}{}", "c".repeat(38))
}

fn window(number: u64, factor: f64) -> Window {
    let machine = Machine { cpu_model: "Example 9".to_owned(), cores: 2, ..Machine::default() };
    let environment = Environment { machine, commit: Some(commit(number)), ..Environment::default() };
    Window {
        started_unix_ms: 1_795_200_420_000 + number * 60_000,
        environment: Some(environment),
        ..sample::window("target", number, factor)
    }
}

/// A folder `nightly` with a window for each commit. Those from `slower_from` on are slower by a quarter.
fn nightly(commits: u64, slower_from: u64) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("nightly")).unwrap();
    for number in 0..commits {
        let factor = if number < slower_from { 1.0 } else { 1.25 };
        let text = Envelope::new(window(number, factor)).to_text().unwrap();
        fs::write(dir.path().join(format!("nightly/{number:02}.json")), text).unwrap();
    }
    dir
}

fn history(folder: &Path, words: &[&str]) -> Ran {
    hone_in(folder, &[&["history"], words].concat())
}

/// The lines of `--json`.
fn lines(ran: &Ran) -> Vec<Value> {
    let found = ran.json();
    assert_eq!(found["kind"], "history");
    found["body"]["lines"].as_array().unwrap().clone()
}

#[test]
fn a_slower_commit_among_the_newest_is_named_and_ends_with_3() {
    let dir = nightly(20, 16);
    let one = lines(&history(dir.path(), &["nightly", "--metric", "p50", "--json"]).expect_code(3));
    assert_eq!((one.len(), &one[0]["state"]), (1, &Value::from("new-worse")));
    let changes = one[0]["change_points"].as_array().unwrap();
    assert_eq!((changes.len(), &changes[0]["first"]), (1, &Value::from(16)), "{changes:?}");
    assert!((changes[0]["ratio"].as_f64().unwrap() / 1.25 - 1.0).abs() < 0.05);

    let text = history(dir.path(), &["nightly", "--metric", "p50"]).expect_code(3).stdout;
    let [before, after] = [15, 16].map(|number| commit(number)[..12].to_owned());
    let row = text.lines().find(|line| line.trim_start().starts_with(&before)).unwrap();
    assert!(row.contains(&after) && row.contains("new, worse") && row.contains("+2"), "{text}");
    assert!(text.starts_with("Regression: p50 of target, +2"), "{text}");
    assert!(text.contains("20") && text.contains("Points"), "{text}");

    // Of all lines, those that regressed come first.
    let all = history(dir.path(), &["nightly"]).expect_code(3).stdout;
    assert!(all.starts_with("Regression: ") && all.contains(" more"), "{all}");

    // The change is older than the three newest points.
    history(dir.path(), &["nightly", "--metric", "p50", "--within", "3"]).expect_code(0);
    // The twelve newest points have it, too, and the four newest have no other level to compare with.
    history(dir.path(), &["nightly", "--metric", "p50", "--newest", "12"]).expect_code(3);
    history(dir.path(), &["nightly", "--metric", "p50", "--newest", "4"]).expect_code(0);
}

#[test]
fn equal_commits_are_silent() {
    let dir = nightly(20, 20);
    let ran = history(dir.path(), &["nightly", "--json"]).expect_code(0);
    let lines = lines(&ran);
    assert!(lines.len() > 8, "{}", lines.len());
    for line in lines {
        assert_eq!(line["change_points"], Value::from(Vec::<Value>::new()), "{}", line["measure"]);
        assert_eq!((&line["state"], line["points"].as_array().unwrap().len()), (&"no-change".into(), 20));
    }
    let text = history(dir.path(), &["nightly"]).expect_code(0).stdout;
    assert!(text.starts_with("No new change point for the worse in "), "{text}");
}

#[test]
fn few_points_are_named_and_are_no_stable_line() {
    let dir = nightly(5, 3);
    let text = history(dir.path(), &["nightly", "--metric", "p50"]).expect_code(0).stdout;
    assert!(text.starts_with("Too few points: p50 of target has 5, and the search needs 6."), "{text}");
    assert!(!text.contains("none") && !text.contains("No new change point"), "{text}");
    let one = nightly(1, 1);
    let lines = lines(&history(one.path(), &["nightly", "--json"]).expect_code(0));
    assert!(!lines.is_empty() && lines.iter().all(|line| line["state"] == "too-few-points"), "{lines:?}");
}

/// Results of a Go benchmark over commits, the last four slower by a fifth.
fn go_results(folder: &Path) -> Vec<String> {
    let scatter = [0.0, 1.1, -0.7, 0.5, -1.3];
    let name = |number: usize| format!("{number:02}.txt");
    for number in 0..12 {
        let ns = if number < 8 { 100.0 } else { 120.0 } + scatter[number % 5];
        let text =
            format!("goos: linux\npkg: example.com/a\nBenchmarkEncode-8 100 {ns} ns/op 0 B/op\nPASS\n");
        fs::write(folder.join(name(number)), text).unwrap();
    }
    (0..12).map(name).collect()
}

#[test]
fn files_of_go_make_a_line_in_the_order_of_the_command_line() {
    let dir = tempfile::tempdir().unwrap();
    let names = go_results(dir.path());
    let words: Vec<&str> = ["--import"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let text = history(dir.path(), &words).expect_code(3).stdout;
    assert!(text.starts_with("Regression: ns/op of Encode-8, +2") && text.contains(" at 08, p "), "{text}");
    assert!(text.contains("B/op"), "{text}");
    // In the other direction it is an improvement.
    let back: Vec<&str> = ["--import"].into_iter().chain(names.iter().rev().map(String::as_str)).collect();
    let lines =
        lines(&history(dir.path(), &[&back[..], &["--within", "8", "--json"]].concat()).expect_code(0));
    let state = |metric: &str| {
        let line = lines.iter().find(|line| line["measure"]["name"] == metric).unwrap();
        line["state"].clone()
    };
    assert_eq!((state("ns/op"), state("B/op")), ("new-better".into(), "no-change".into()));
}

#[test]
fn results_of_each_tool_are_read_and_a_label_names_their_point() {
    let dir = tempfile::tempdir().unwrap();
    let sample = |name: &str| of_checkout("fixtures/imports").join(name).display().to_string();
    for (name, line, metric) in [
        ("go-bench.txt", "Encode/small-2", "ns/op"),
        ("hyperfine-1.json", "ls /", "time_wall_clock"),
        ("hyperfine-2.json", "ls /", "memory_peak_resident"),
        ("criterion", "sort/unstable/1000", "time"),
        ("criterion/sum/new/estimates.json", "sum", "time"),
        ("criterion/sum/new/benchmark.json", "sum", "time"),
    ] {
        let import = format!("v1={}", sample(name));
        let words = ["--import", &import, "--line", line, "--metric", metric, "--json"];
        let lines = lines(&history(dir.path(), &words).expect_code(0));
        let found = lines.iter().find(|found| found["name"] == line).unwrap();
        assert_eq!(
            (&found["points"][0]["label"], &found["over"]),
            (&"v1".into(), &"imports".into()),
            "{name}"
        );
    }
    // Both versions of hyperfine's file are points of one line, and so are the columns of benchstat.
    let files = [sample("hyperfine-1.json"), sample("hyperfine-2.json")];
    let both = ["--import", &files[0], &files[1], "--line", "ls /", "--metric", "time_wall_clock", "--json"];
    let line = &lines(&history(dir.path(), &both).expect_code(0))[0];
    assert_eq!(
        (&line["points"][0]["label"], &line["points"][1]["label"]),
        (&"hyperfine-1".into(), &"hyperfine-2".into())
    );
    let table = sample("benchstat.csv");
    let columns = ["--import", &table, "--json", "--line", "Encode/small-2", "--metric", "sec/op"];
    let line = &lines(&history(dir.path(), &columns).expect_code(0))[0];
    assert_eq!(
        (&line["points"][0]["label"], &line["points"][1]["label"]),
        (&"old.txt".into(), &"new.txt".into())
    );
    let one_label = format!("v1={table}");
    history(dir.path(), &["--import", &one_label]).expect_code(2).expect_error("next: leave out `LABEL=`");
}

#[test]
fn exports_have_the_newest_point_of_each_line() {
    let dir = nightly(8, 8);
    let newest = |metric: &str| {
        let ran = history(dir.path(), &["nightly", "--metric", metric, "--json"]).expect_code(0);
        lines(&ran)[0]["points"][7]["value"].as_f64().unwrap()
    };
    let bencher = history(dir.path(), &["nightly", "--export", "bencher"]).expect_code(0).json();
    for metric in ["latency-p50", "throughput"] {
        let found = &bencher["target"][metric];
        assert_eq!(found["value"].as_f64().unwrap(), newest(metric), "{metric}");
        assert!(found["lower_value"].as_f64() <= found["value"].as_f64(), "{found}");
        assert!(found["upper_value"].as_f64() >= found["value"].as_f64(), "{found}");
    }
    let to_action = ["nightly", "--export", "github-action-benchmark"];
    history(dir.path(), &to_action).expect_code(2).expect_error("next: add `--better smaller`");
    let to_file = [&to_action[..], &["--better", "smaller", "--output", "smaller.json"]].concat();
    assert_eq!(history(dir.path(), &to_file).expect_code(0).stdout, "");
    let smaller: Value =
        serde_json::from_str(&fs::read_to_string(dir.path().join("smaller.json")).unwrap()).unwrap();
    let entry = |name: &str| smaller.as_array().unwrap().iter().find(|entry| entry["name"] == name).cloned();
    let p50 = entry("target latency-p50").unwrap();
    assert_eq!((p50["value"].as_f64().unwrap(), &p50["unit"]), (newest("latency-p50"), &"µs".into()));
    assert!(p50["range"].as_str().unwrap().starts_with("± ") && p50["extra"].is_string(), "{p50}");
    assert_eq!(entry("target throughput"), None);
    let bigger =
        history(dir.path(), &[&to_action[..], &["--better", "bigger"]].concat()).expect_code(0).json();
    assert_eq!(bigger[0]["name"], "target throughput");
}

#[test]
fn what_can_not_be_read_is_refused_with_its_place() {
    let dir = nightly(2, 2);
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    write("note.txt", "nothing to see\n");
    write("odd.txt", "goos: linux\n\nBenchmarkEncode-8 100 fast ns/op\n");
    write("cut.json", "{\"results\": [{\"command\": \"a\",\n \"mean\": ");
    write("table.txt", "name │ old.txt │\n");
    write("broken.json", "{\"hone_record\": 1, \"kind\": \"window\", \"bo");
    let refused = |words: &[&str], text: &str| {
        history(dir.path(), words).expect_code(2).expect_error(text).expect_error("next:");
    };
    refused(&["--import", "note.txt"], "note.txt: its format is unknown");
    refused(&["--import", "odd.txt"], "odd.txt:3: the value `fast` is no number");
    refused(&["--import", "cut.json"], "line 2, column");
    refused(&["--import", "table.txt"], "benchstat -format csv");
    refused(&["--import", "nightly/00.json"], "it is a record of Hone");
    refused(&["--import", "nightly"], "has no new/estimates.json");
    refused(&["--import", "odd.txt", "--from", "hyperfine"], "odd.txt: ");
    refused(&["note.txt"], "note.txt is neither a record nor a ledger");
    refused(&["broken.json"], "it is not complete JSON");
    refused(&["nightly", "--metric", "p51"], "no line has the metric `p51`");
    refused(&["nightly", "--line", "targt"], "did you mean `target`?");
    refused(&["nightly", "--within", "2"], "--within");
    refused(&["--export", "bencher", "--json"], "exclude each other");
    for (words, text) in [
        (&["--import", "none.txt"][..], "none.txt can't be read"),
        (&["none"], "there is no none"),
        (&[], "there is no runs"),
    ] {
        history(dir.path(), words).expect_code(1).expect_error(text);
    }
    fs::create_dir(dir.path().join("runs")).unwrap();
    history(dir.path(), &[]).expect_code(1).expect_error("there is no line yet");
}

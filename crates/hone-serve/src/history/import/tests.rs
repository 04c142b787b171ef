//! The parsers, on files that the tools themselves wrote. `fixtures/imports` has:
//!
//! | file | written by |
//! |---|---|
//! | `go-bench.txt` | Go 1.26, `go test -bench . -count 3` |
//! | `benchstat.csv` | golang.org/x/perf/cmd/benchstat, `benchstat -format csv old.txt new.txt` |
//! | `hyperfine-1.json` | hyperfine 1.15, `hyperfine -N --runs 3 --export-json FILE true 'ls /'` |
//! | `hyperfine-2.json` | hyperfine 2.0, the same |
//! | `criterion` | criterion 0.5, `cargo bench`, without the files that Hone does not read |
//!
//! Texts in this file are written by hand, after the documents that the parsers name.

use std::collections::BTreeSet;

use super::*;

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/imports").join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(sample(name)).unwrap()
}

fn value<'a>(found: &'a [Benchmark], name: &str, metric: &str) -> &'a Benchmark {
    let is_it = |one: &&Benchmark| one.name == name && one.measure.name == metric;
    found.iter().find(is_it).unwrap_or_else(|| panic!("no {metric} of {name} in {found:?}"))
}

#[test]
fn the_runs_of_a_go_benchmark_are_one_point_at_their_median() {
    let found = go_bench::parse(&text("go-bench.txt")).unwrap();
    let names: BTreeSet<(&str, &str)> =
        found.iter().map(|one| (one.name.as_str(), one.measure.name.as_str())).collect();
    assert_eq!(names.len(), found.len(), "each once");
    let time = value(&found, "Encode/small-2", "ns/op");
    let [low, high] = time.range.unwrap();
    assert!(time.runs == 3 && low < time.value && time.value < high, "{time:?}");
    assert!(time.circumstances.starts_with("pkg example.com/encode, goos linux, goarch amd64, cpu "));
    let direction = |metric: &str| value(&found, "Encode/small-2", metric).measure.lower_is_better;
    assert_eq!(["ns/op", "MB/s", "B/op"].map(direction), [Some(true), Some(false), Some(true)]);
    assert_eq!(value(&found, "Sum-2", "rest/op").measure.lower_is_better, None);
}

#[test]
fn go_text_states_commits_and_directions_and_other_lines_are_ignored() {
    let text = "commit: abc\ncommit-time: 2026-11-30T00:00:00Z\nUnit hits/op better=higher assume=exact\n\
                Benchmarking is no result\nBenchmarkA\n    a_test.go:1: a log line\nBenchmarkA 1 2 hits/op\n\
                commit: def\nBenchmarkA 1 1e-3 hits/op\nok  \texample.com/a\t1.2s\n";
    let found = go_bench::parse(text).unwrap();
    let points: Vec<(Option<&str>, f64)> =
        found.iter().map(|one| (one.label.as_deref(), one.value)).collect();
    assert_eq!(points, [(Some("abc"), 2.0), (Some("def"), 1e-3)]);
    assert_eq!((found[0].measure.lower_is_better, &*found[0].circumstances), (Some(false), ""));
}

#[test]
fn a_result_that_go_would_not_write_is_refused_at_its_line() {
    for (line, problem) in [
        ("BenchmarkA many 1 ns/op", "the number of iterations `many` is no whole number"),
        ("BenchmarkA 1", "no value follows the number of iterations"),
        ("BenchmarkA 1 fast ns/op", "the value `fast` is no number"),
        ("BenchmarkA 1 NaN ns/op", "the value `NaN` is no number"),
        ("BenchmarkA 1 2 ns/op 3", "the value `3` has no unit"),
    ] {
        let text = format!("goos: linux\n{line}\n");
        assert_eq!(go_bench::parse(&text).unwrap_err(), Fault::at(2, problem));
    }
}

#[test]
fn each_column_of_benchstat_is_a_point_with_its_interval() {
    let found = benchstat::parse(&text("benchstat.csv")).unwrap();
    let of_small: Vec<&Benchmark> =
        found.iter().filter(|one| one.name == "Encode/small-2" && one.measure.name == "sec/op").collect();
    let labels: Vec<&str> = of_small.iter().filter_map(|one| one.label.as_deref()).collect();
    assert_eq!(labels, ["old.txt", "new.txt"]);
    assert!(of_small.iter().all(|one| one.value > 0.0 && one.value < 1e-3), "{of_small:?}");
    assert!(found.iter().all(|one| one.name != "geomean"));
    assert!(of_small[0].circumstances.contains("goos linux"));
    let speed = value(&found, "Encode/large-2", "B/s");
    assert_eq!(speed.measure.lower_is_better, Some(false));
}

#[test]
fn a_cell_of_benchstat_can_be_empty_quoted_or_wrong() {
    let text = "\"cpu: A, B\"\n,a.txt,,b.txt\n,sec/op,CI,sec/op,CI,vs base,P\n\"X,\"\"y\"\"\",1e-6,2%\n\
                Y,,,3e-6,∞,?,\n";
    let found = benchstat::parse(text).unwrap();
    let rows: Vec<(&str, Option<&str>, f64)> =
        found.iter().map(|one| (one.name.as_str(), one.label.as_deref(), one.value)).collect();
    assert_eq!(rows, [("X,\"y\"", Some("a.txt"), 1e-6), ("Y", Some("b.txt"), 3e-6)]);
    assert_eq!((found[0].range, found[1].range), (Some([0.98e-6, 1.02e-6]), None));
    assert_eq!(found[0].circumstances, "cpu A, B");
    let refused = |text: &str| benchstat::parse(text).unwrap_err();
    assert_eq!(refused("X,1,2%\n"), Fault::at(1, "no row with units is above this row"));
    assert_eq!(refused(",sec/op,CI\nX,fast,2%\n"), Fault::at(2, "the value `fast` is no number"));
    assert_eq!(refused("\"X,1\n"), Fault::at(1, "a quote is not closed"));
}

#[test]
fn both_versions_of_hyperfine_have_the_means_under_one_name() {
    for name in ["hyperfine-1.json", "hyperfine-2.json"] {
        let found = hyperfine::parse(&text(name)).unwrap();
        let wall = value(&found, "ls /", "time_wall_clock");
        let [low, high] = wall.range.unwrap();
        assert!(wall.runs == 3 && low < wall.value && wall.value < high, "{wall:?}");
        assert_eq!((&*wall.measure.unit, wall.measure.lower_is_better), ("s", Some(true)));
        assert_eq!(value(&found, "true", "time_user").measure.label, "time user");
    }
    let found = hyperfine::parse(&text("hyperfine-2.json")).unwrap();
    assert_eq!(value(&found, "ls /", "memory_peak_resident").measure.unit, "B");
}

#[test]
fn json_that_hyperfine_does_not_write_is_refused() {
    let refused = |text: &str| hyperfine::parse(text).unwrap_err().problem;
    assert!(refused("{\"results\": [{\"command\": \"a\"}]}").contains("the key `mean` is missing"));
    assert!(refused("{\"results\": 1}").contains("write a list"));
    assert!(refused("{\"schema_version\": 3, \"results\": []}").contains("version 3 is newer than 2"));
    assert!(refused("{\"results\": [").contains("line 1"));
}

#[test]
fn criterion_gives_the_time_that_it_prints() {
    let estimates = text("criterion/sum/new/estimates.json");
    let whole: serde_json::Value = serde_json::from_str(&estimates).unwrap();
    let found = criterion::parse(&estimates, "sum".to_owned()).unwrap();
    assert_eq!(Some(found.value), whole["slope"]["point_estimate"].as_f64());
    let [low, high] = found.range.unwrap();
    assert!(low <= found.value && found.value <= high && found.measure.unit == "ns", "{found:?}");
    // Without a fitted line, it is the mean.
    let mut flat = whole;
    flat["slope"] = serde_json::Value::Null;
    let found = criterion::parse(&flat.to_string(), String::new()).unwrap();
    assert_eq!(Some(found.value), flat["mean"]["point_estimate"].as_f64());
    assert!(criterion::parse("{\"mean\": {}}", String::new()).is_err());
}

#[test]
fn a_folder_of_criterion_has_each_benchmark_under_its_full_name() {
    let (format, found) = benchmarks(&sample("criterion"), None).unwrap();
    let names: Vec<&str> = found.iter().map(|(_, one)| one.name.as_str()).collect();
    assert_eq!(format, Format::Criterion);
    assert_eq!(names, ["sort/unstable/10", "sort/unstable/1000", "sum"]);
}

#[test]
fn the_format_is_known_by_the_content() {
    for (name, format) in [
        ("go-bench.txt", Format::GoBench),
        ("benchstat.csv", Format::Benchstat),
        ("hyperfine-1.json", Format::Hyperfine),
        ("hyperfine-2.json", Format::Hyperfine),
        ("criterion/sum/new/estimates.json", Format::Criterion),
        ("criterion/sum/new/benchmark.json", Format::Criterion),
    ] {
        assert_eq!(format_of(&text(name)), Ok(format), "{name}");
    }
    for other in ["", "{}", "[1]", "Benchmarking: done\n", "a,b\n1,2\n"] {
        assert!(format_of(other).is_err(), "{other}");
    }
}

/// Cut and changed files are refused or read, and never a panic.
#[test]
fn foreign_bytes_do_no_harm() {
    for name in ["go-bench.txt", "benchstat.csv", "hyperfine-1.json", "criterion/sum/new/estimates.json"] {
        let text = text(name);
        let places = (0..text.len()).step_by(7).filter(|place| text.is_char_boundary(*place));
        for place in places {
            let (start, end) = text.split_at(place);
            for odd in [start.to_owned(), format!("{start}\"{end}"), format!("{start}\n,{end}")] {
                let _ = format_of(&odd);
                let _ = (go_bench::parse(&odd), benchstat::parse(&odd), hyperfine::parse(&odd));
                let _ = (criterion::parse(&odd, String::new()), criterion::name(&odd));
            }
        }
    }
}

#[test]
fn a_benchmark_twice_at_one_point_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.json");
    let once = r#"{"command": "a", "mean": 1.0}"#;
    fs::write(&path, format!("{{\"results\": [{once}, {once}]}}")).unwrap();
    let refused = lines(&[path.display().to_string()], None).unwrap_err().to_string();
    assert!(refused.contains("time wall clock of `a` is there twice at `a`"), "{refused}");
}

#[test]
fn a_label_stands_before_the_file_unless_the_file_has_that_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a=b.txt").display().to_string();
    let labelled = Import::new("main=old.txt");
    assert_eq!((labelled.label.as_deref(), labelled.path), (Some("main"), PathBuf::from("old.txt")));
    fs::write(&path, "BenchmarkA 1 2 ns/op\n").unwrap();
    let line = lines(&[path], None).unwrap().remove(0);
    assert_eq!((&*line.points[0].label, line.points[0].value), ("a=b", 2.0));
}

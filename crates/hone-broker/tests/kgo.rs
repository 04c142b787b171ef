//! franz-go's own integration tests of `pkg/kgo`, at the version that `matrix/go/go.mod` names, against the broker.
//!
//! `HONE_MATRIX_BROKER=127.0.0.1:PORT` runs them against another broker; `KGO_TEST_RECORDS` sets how many records its
//! chains of groups and transactions carry. One line a test goes to `target/kgo.txt`. Tests that are left out are in
//! `matrix/kgo-left-out.txt` with their reasons; one that skips itself without being there is a failure.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{Process, have, program};

const LEFT_OUT: &str = include_str!("matrix/kgo-left-out.txt");
/// pkg/kgo's own default is 500,000, which takes an hour.
const RECORDS: &str = "5000";

/// Names and reasons.
fn left_out() -> BTreeMap<&'static str, &'static str> {
    let rows = LEFT_OUT.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    rows.map(|line| {
        line.split_once(' ').map(|(name, reason)| (name, reason.trim())).expect("a name and a reason")
    })
    .collect()
}

const PACKAGE: &str = "github.com/twmb/franz-go/pkg/kgo";

fn go() -> Command {
    let mut go = program("go");
    go.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/matrix/go"));
    go
}

/// The folder of the package, where its tests want to be run: one of them reads the sources.
fn folder_of_package() -> PathBuf {
    let listed = go().args(["list", "-mod=readonly", "-f", "{{.Dir}}", PACKAGE]).output().unwrap();
    assert!(listed.status.success(), "go list {PACKAGE}: {}", String::from_utf8_lossy(&listed.stderr));
    String::from_utf8(listed.stdout).unwrap().trim().into()
}

/// The tests, compiled once for each version: Go's own cache knows.
fn compile() -> PathBuf {
    let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kgo.test");
    let mut compile = go();
    compile.args(["test", "-mod=readonly", "-c", "-o"]).arg(&binary).arg(PACKAGE);
    let compiled = compile.output().unwrap();
    assert!(compiled.status.success(), "{compile:?}: {}", String::from_utf8_lossy(&compiled.stderr));
    binary
}

/// Verdicts of top-level tests and their subtests, from lines such as `--- PASS: TestPing (0.00s)`. One that was begun
/// and has none ran out of time.
fn verdicts(output: &str) -> Vec<(&str, &str)> {
    let verdict = |line| str::trim_start(line).strip_prefix("--- ")?.split_once(": ");
    let ended = output.lines().filter_map(verdict);
    let mut verdicts: Vec<(&str, &str)> =
        ended.map(|(word, rest)| (rest.split(" (").next().unwrap_or(rest), word)).collect();
    let ended: BTreeSet<&str> = verdicts.iter().map(|(name, _)| *name).collect();
    let begun = output.lines().filter_map(|line| line.strip_prefix("=== RUN ")).map(str::trim);
    verdicts.extend(begun.filter(|name| !ended.contains(name)).map(|name| (name, "NO END")));
    verdicts
}

#[test]
fn kgo_s_own_tests_pass() {
    if !have("Go", program("go").arg("version")) {
        return;
    }
    let binary = compile();
    let folder = tempfile::tempdir().unwrap();
    let (own, address) = match std::env::var("HONE_MATRIX_BROKER") {
        Ok(address) => (None, address),
        Err(_) => {
            let broker = Process::start(&folder.path().join("data"), &[]);
            let address = broker.kafka.to_string();
            (Some(broker), address)
        }
    };
    let left_out = left_out();
    check_names(&binary, &left_out);
    let skip = format!("^({})$", left_out.keys().copied().collect::<Vec<_>>().join("|"));
    let records = std::env::var("KGO_TEST_RECORDS").unwrap_or_else(|_| RECORDS.to_owned());
    let output = program(&binary)
        .args(["-test.v", "-test.timeout", "9m", "-test.skip", &skip])
        .current_dir(folder_of_package())
        .envs([("KGO_SEEDS", address.as_str()), ("KGO_TEST_RF", "1"), ("KGO_TEST_RECORDS", &records)])
        .env("KGO_LOG_LEVEL", "none")
        .output()
        .unwrap();
    drop(own);
    let said = String::from_utf8_lossy(&output.stdout);
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("kgo.log");
    std::fs::write(&log, [&output.stdout[..], &output.stderr].concat()).unwrap();
    report(&verdicts(&said), &left_out);
    let silent: Vec<_> = verdicts(&said).into_iter().filter(|(_, word)| *word != "PASS").collect();
    assert!(silent.is_empty() && said.contains("\nPASS"), "{silent:?}; see {}", log.display());
}

/// A reason for a test that is no more would explain nothing.
fn check_names(binary: &Path, left_out: &BTreeMap<&str, &str>) {
    let listed = program(binary).args(["-test.list", "."]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    for name in left_out.keys() {
        assert!(listed.lines().any(|line| line == *name), "pkg/kgo has no {name}: take it off the list");
    }
}

fn report(verdicts: &[(&str, &str)], left_out: &BTreeMap<&str, &str>) {
    let mut lines: Vec<String> =
        verdicts.iter().map(|(name, word)| format!("kgo: {word:<8}  {name}")).collect();
    lines.extend(left_out.iter().map(|(name, reason)| format!("kgo: left out  {name}: {reason}")));
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("kgo.txt");
    std::fs::write(path, lines.join("\n") + "\n").unwrap();
    let passed = verdicts.iter().filter(|(_, word)| *word == "PASS").count();
    // Written past the test harness, which keeps back what a passing test prints.
    let mut stderr = std::io::stderr();
    let _ = writeln!(stderr, "kgo: {passed} tests passed, {} left out", left_out.len());
    for line in lines.iter().filter(|line| !line.starts_with("kgo: PASS")) {
        let _ = writeln!(stderr, "{line}");
    }
}

//! `hone diagnose`: what counters said, and what may be said of it.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use hone_tool::{Call, Runner as _, System};

mod stage;
use stage::tools::{find, of_checkout};
use stage::{Ran, hone, hone_command};

fn read(name: &str, more: &[&str]) -> Ran {
    let path = of_checkout("crates/hone-diagnose/fuzz/corpus/topdown").join(name);
    hone(&[&["diagnose", "--read", path.to_str().unwrap()], more].concat())
}

/// The published shares of a broker's hot thread, and what the page says of them.
#[test]
fn the_example_of_the_page() {
    let page = fs::read_to_string(of_checkout("docs/diagnose.md")).unwrap();
    let said = page.split("```\n").find(|block| block.starts_with("Evidence: ")).unwrap();
    let ran = read("published.csv", &["--user-share", "80%"]).expect_code(0);
    let lines = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.starts_with("From ")).map(str::to_owned).collect()
    };
    assert_eq!(lines(&ran.stdout), lines(said));
    let record = read("published.csv", &["--json"]).expect_code(0).json();
    assert_eq!(record["kind"], "diagnosis");
    assert_eq!(record["body"]["evidence"], "measured");
    assert_eq!(record["body"]["parts"][0]["verdict"]["likelihood"], "strong");
}

#[test]
fn a_hybrid_machine_through_a_pipe() {
    let text = fs::read(of_checkout("crates/hone-diagnose/fuzz/corpus/topdown/perf-hybrid.txt")).unwrap();
    let mut child = hone_command();
    child
        .args(["diagnose", "--read", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    child.stdin.take().unwrap().write_all(&text).unwrap();
    let ran = Ran::of(child.wait_with_output().unwrap()).expect_code(0);
    assert!(ran.stdout.contains("From standard input\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains("cpu_atom\n  frontend bound    41.0 %\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains("cpu_core\n  refused: backend bound is not a number"), "{}", ran.stdout);
}

#[test]
fn nothing_left_is_no_diagnosis() {
    let ran = read("toplev.csv", &[]).expect_code(1);
    assert!(ran.stdout.contains("refused: bad speculation is 13273.4 %"), "{}", ran.stdout);
    read("none-metric-only.json", &[]).expect_code(1).expect_error("measured without counters");
    hone(&["diagnose", "--read", "/there/is/none"])
        .expect_code(1)
        .expect_error("/there/is/none can't be read");
    hone(&["diagnose", "--read", "/dev/zero"]).expect_code(1).expect_error("larger than 64 MiB");
    read("published.csv", &["--user-share", "eighty"]).expect_code(2).expect_error("such as 64%");
}

/// With a PMU it is a diagnosis; without one, perf ends with 0 all the same and must not be believed.
#[test]
fn the_perf_of_this_machine() {
    let Some(perf) = find("perf") else { return };
    let dir = tempfile::tempdir().unwrap();
    let system = System::new(dir.path().join("log")).unwrap();
    let output = dir.path().join("slots.json");
    let call = Call::new("perf-stat", &perf, dir.path()).args(["stat", "-j", "-M", "TopdownL1", "-o"]);
    // Where perf may not count at all it ends with an error, and has written why.
    let busy = ["sh", "-c", "i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done"];
    let _ = system.run(&call.arg(&output).args(busy));
    let text = fs::read_to_string(&output).unwrap_or_default();
    let ran = hone(&["diagnose", "--read", output.to_str().unwrap()]);
    if text.contains("<not supported>") {
        ran.expect_code(1)
            .expect_error("measured without counters: {\"counter-value\" : \"<not supported>\"");
    } else if text.contains("frontend_bound") {
        assert!(ran.stdout.contains("Evidence: measured"), "{text}\n{}", ran.stdout);
    } else {
        // A CPU that has no such group, or no rights.
        ran.expect_code(1).expect_error("next: ");
    }
}

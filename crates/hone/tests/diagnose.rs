//! `hone diagnose`: what counters said, and what may be said of it.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use hone_tool::{Call, Runner as _, System};

mod stage;
use stage::tools::{find, of_checkout};
use stage::{Ran, hone, hone_command, hone_in};

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
    hone(&["diagnose", "--read", "/dev/zero"]).expect_code(1).expect_error("larger than 256 MiB");
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

/// qemu's user mode; every test of it is skipped, or fails, where it is not there.
fn emulator() -> Option<()> {
    if find(&format!("qemu-{}", std::env::consts::ARCH)).is_none() {
        stage::tools::skip("there is no qemu-user");
        return None;
    }
    Some(())
}

#[test]
fn a_command_is_diagnosed_without_counters() {
    let Some(()) = emulator() else { return };
    let dir = tempfile::tempdir().unwrap();
    let words = ["diagnose", "--json", "--", "sh", "-c", "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done"];
    let record = hone_in(dir.path(), &words).expect_code(0).json();
    let body = &record["body"];
    assert_eq!(body["evidence"], "simulated");
    let part = &body["parts"][0];
    assert!(part["layout"]["instructions"].as_u64().unwrap() > 5_000_000, "{part}");
    assert_eq!(part["layout"]["misses"].as_array().unwrap().len(), 8);
    // Twice the ways of the same sets hold all that half of them hold.
    let misses = |model: usize| part["layout"]["misses"][model]["per_1000"].as_f64().unwrap();
    assert!(misses(1) <= misses(0) && misses(4) < 1.0, "{part}");
    assert!(part["verdict"]["likelihood"] != "strong", "{part}");
    assert!(dir.path().join("runs/diagnosis-001/diagnosis.json").is_file());
    let text = hone_in(dir.path(), &["diagnose", "--", "sh", "-c", ":"]).expect_code(0).stdout;
    assert!(
        text.starts_with("Evidence: simulated (an exact trace, on models of caches)\nFrom sh -c :"),
        "{text}"
    );
    assert!(text.contains("L1i 32 KiB 8-way") && text.contains("Will a better layout help?"), "{text}");
}

/// The busy threads of a broker have names, and what it did before its load does not count.
#[test]
fn a_broker_is_diagnosed_under_its_load_by_thread() {
    let Some(()) = emulator() else { return };
    let dir = tempfile::tempdir().unwrap();
    let experiment = format!(
        "name = \"b\"\n[target]\nbinary = \"{}\"\nargs = [\"broker\", \"--listen\", \"127.0.0.1:{{port}}\", \"--metrics\", \
         \"127.0.0.1:0\", \"--data\", \"{{data}}\"]\n[optimize]\ntrain = \"t\"\njudge = [\"j\"]\n[workload.t]\n\
         requests_per_s = 300\nduration_s = 2\nseed = 7\nwarmup_requests = 50\n[workload.j]\nseed = 8\n",
        env!("CARGO_BIN_EXE_hone")
    );
    fs::write(dir.path().join("hone.toml"), experiment).unwrap();
    let ran = hone_in(dir.path(), &["diagnose", "hone.toml", "--json"]).expect_code(0);
    let body = ran.json()["body"].clone();
    let scope = body["parts"][0]["scope"].as_str().unwrap().to_owned();
    assert!(scope.contains("reactor"), "{scope}");
    assert!(body["source"].as_str().unwrap().contains("times the CPU"), "{}", body["source"]);
    let rule = body["parts"][0]["verdict"]["rule"].as_str().unwrap();
    assert!(rule.starts_with("pressure on instruction fetch: "), "{rule}");
    hone_in(dir.path(), &["diagnose", "hone.toml", "--workload", "x"])
        .expect_code(2)
        .expect_error("there is no workload `x`; there are: t, j");
}

#[test]
fn what_can_not_be_traced_is_told_with_the_next_best_way() {
    let Some(()) = emulator() else { return };
    let dir = tempfile::tempdir().unwrap();
    let script = stage::script(dir.path(), "starts", "exec sleep 1");
    hone_in(dir.path(), &["diagnose", "--", script.to_str().unwrap()])
        .expect_code(1)
        .expect_error("where this is a script that starts it");
    assert!(!dir.path().join("runs").exists(), "nothing was begun");
    // It is killed natively, too: that is no finding about an emulator.
    hone_in(dir.path(), &["diagnose", "--", "sh", "-c", "kill -9 $$"])
        .expect_code(1)
        .expect_error("native: ended by signal 9");
    let mut command = hone_command();
    command.args(["diagnose", "--", "ls"]).env("HONE_QEMU", "/bin/true").current_dir(dir.path());
    Ran::of(command.output().unwrap()).expect_code(1).expect_error("left no trace");
    hone_in(dir.path(), &["diagnose"]).expect_code(2);
}

#[test]
fn a_program_that_dies_under_the_emulator_alone_has_the_trace_of_what_it_did() {
    let Some(()) = emulator() else { return };
    let dir = tempfile::tempdir().unwrap();
    // Natively its program is itself; under the emulator the kernel knows another one.
    let dies = "case $(readlink /proc/$$/exe) in *qemu*) sleep 3; kill -9 $$;; esac";
    let ran = hone_in(dir.path(), &["diagnose", "--json", "--", "bash", "-c", dies]).expect_code(1);
    let body = ran.json()["body"].clone();
    assert!(body["parts"][0]["layout"]["instructions"].as_u64().unwrap() > 100_000, "{body}");
    let note = body["notes"][0].as_str().unwrap();
    assert!(note.contains("some seconds before its end") && note.contains("signal 9"), "{note}");
}

/// Counts of callgrind's have no order, so nothing is judged by them.
#[test]
fn a_file_of_callgrinds_is_modelled_and_not_judged() {
    let Some(valgrind) = find("valgrind") else { return stage::tools::skip("there is no valgrind") };
    let dir = tempfile::tempdir().unwrap();
    let runner = System::new(dir.path().join("logs")).unwrap();
    let out = dir.path().join("callgrind.out");
    let call = Call::new("callgrind", valgrind, dir.path())
        .args(["--tool=callgrind", "--dump-instr=yes"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .args(["sh", "-c", ":"]);
    runner.run(&call).unwrap();
    let ran = hone(&["diagnose", "--read", out.to_str().unwrap()]).expect_code(0);
    assert!(ran.stdout.starts_with("Evidence: modelled"), "{}", ran.stdout);
    assert!(ran.stdout.contains("no verdict") && !ran.stdout.contains("Will a better"), "{}", ran.stdout);
}

/// The same functions, one page each: they crowd one set, and nothing else about the program changes.
#[test]
fn a_gate_stays_silent_about_the_same_and_finds_code_that_lies_worse() {
    let Some(()) = emulator() else { return };
    let Some(bench) = stage::tools::Workbench::new() else { return };
    let functions: String = (0..64)
        .map(|number| format!("__attribute__((noinline)) int f{number}(int n) {{ return n * {number} + (n >> 3); }}\n"))
        .collect();
    let calls: String = (0..64).map(|number| format!("s += f{number}(s);")).collect();
    let source = bench.path("calls.c");
    let main = format!("int main(void) {{ volatile int s = 1; for (int i = 0; i < 3000; i++) {{ {calls} }} return 0; }}\n");
    fs::write(&source, functions + &main).unwrap();
    bench.compile(&source, "calls", &["-O1"]);
    let program = bench.path("calls").display().to_string();
    let hone = |words: &[&str]| hone_in(&bench.path(""), &[words, &["--", &program]].concat());
    hone(&["diagnose", "--learn", "layout.toml", "--repeats", "2"]).expect_code(0).expect_error("figures learned: layout.toml");
    let learned = fs::read_to_string(bench.path("layout.toml")).unwrap();
    assert!(learned.contains("[figures.\"L1i 32 KiB 8-way, misses in 1,000 instructions\"]"), "{learned}");
    let same = hone(&["diagnose", "--gate", "layout.toml"]).expect_code(0);
    assert!(!same.stdout.contains("worse"), "{}", same.stdout);

    bench.compile(&source, "calls", &["-O1", "-falign-functions=4096"]);
    let worse = hone(&["diagnose", "--gate", "layout.toml"]).expect_code(3);
    let line = worse.stdout.lines().find(|line| line.contains("L1i 32 KiB")).unwrap();
    assert!(line.contains("worse by more than"), "{}", worse.stdout);
    // As many instructions ran as before.
    let line = worse.stdout.lines().find(|line| line.trim_start().starts_with("instructions ")).unwrap();
    assert!(!line.contains("worse"), "{}", worse.stdout);

    fs::write(bench.path("layout.toml"), "[figures.x]\nvalue = 1.0\ntolerence = 0.1\n").unwrap();
    hone(&["diagnose", "--gate", "layout.toml"]).expect_code(2).expect_error("is no budget").expect_error("--learn FILE writes one");
    hone(&["diagnose", "--gate", "none.toml"]).expect_code(1).expect_error("none.toml can't be read");
}

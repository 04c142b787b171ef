//! `hone diagnose`: what counters said, and what may be said of it.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;

use hone_diagnose::image::Image;
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
    assert!(ran.stdout.contains("cpu_core\n  refused: perf printed no number for "), "{}", ran.stdout);
}

/// The table of a page that this project did not write, where it lies beside the checkout; else the same facts.
#[test]
fn the_published_table_is_read_as_it_stands_there() {
    let folder = tempfile::tempdir().unwrap();
    let names = "% tma_frontend_bound % tma_bad_speculation % tma_retiring % tma_backend_bound";
    let run = |of: u32, values: &str| {
        format!("Performance counter stats for thread id '{of}':\n{names}\n{values}\n")
    };
    let facts = run(7, "51.0 10.3 30.9 7.8") + &run(8, "37.9 9.5 36.6 16.0");
    let published = fs::read_to_string(of_checkout("../shared/published/pgo-post.txt"));
    let text = folder.path().join("post.txt");
    fs::write(&text, published.unwrap_or(facts)).unwrap();
    let ran = hone(&["diagnose", "--read", text.to_str().unwrap()]).expect_code(0);
    for line in [
        "  frontend bound    51.0 %   37.9 %    -13.1",
        "  backend bound      7.8 %   16.0 %     +8.2",
        "13 points left frontend bound and 1 bad speculation: 8 went to backend bound, the next bottleneck, and 6 to retiring",
        "  Will a better layout help?  very likely",
    ] {
        assert!(ran.stdout.contains(line), "{line}: {}", ran.stdout);
    }
}

#[test]
fn two_files_are_before_and_after_and_the_page_shows_it() {
    let folder = tempfile::tempdir().unwrap();
    let names = "% tma_frontend_bound % tma_bad_speculation % tma_retiring % tma_backend_bound";
    let file = |name: &str, values: &str| {
        let path = folder.path().join(name);
        fs::write(&path, format!("{names}\n{values}\n")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (before, after) = (file("before.txt", "51.0 10.3 30.9 7.8"), file("after.txt", "37.9 9.5 36.6 16.0"));
    let ran = hone(&["diagnose", "--read", &before, "--read", &after]).expect_code(0);
    let page = fs::read_to_string(of_checkout("docs/diagnose.md")).unwrap();
    let said = page.split("```\n").find(|block| block.contains("    before    after   points")).unwrap();
    assert!(ran.stdout.contains(said), "{said}\n{}", ran.stdout);
    assert!(ran.stdout.contains("(before) and ") && ran.stdout.contains("\nafter\n"), "{}", ran.stdout);
    let record = hone(&["diagnose", "--read", &before, "--read", &after, "--json"]).expect_code(0);
    assert_eq!(record.json()["body"]["shifts"][0]["percent"]["backend-bound"][1].as_f64(), Some(16.0));
    let both = folder.path().join("both.json");
    fs::write(&both, &record.stdout).unwrap();
    let page = hone(&["report", both.to_str().unwrap()]).expect_code(0).stdout;
    let page = fs::read_to_string(page.trim()).unwrap();
    assert!(
        page.contains("the next bottleneck") && page.contains("+8.2") && page.contains("37.9 %"),
        "{page}"
    );
    // What is no slots, and what is too many.
    let counted = folder.path().join("misses.txt");
    fs::write(&counted, "2,000,000  instructions\n25,000  L1-icache-load-misses\n").unwrap();
    hone(&["diagnose", "--read", &before, "--read", counted.to_str().unwrap()])
        .expect_code(2)
        .expect_error("--read compares only slots by counters");
    hone(&["diagnose", "--read", &before, "--read", &before, "--read", &before])
        .expect_code(2)
        .expect_error("one file, or two");
    // What perf says of nothing that is known, line by line.
    let odd = file("odd.txt", "a b c d");
    hone(&["diagnose", "--read", &odd]).expect_code(1).expect_error("line 1 has names of top-down metrics");
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
    read("published.csv", &["--user-share", "eighty"]).expect_code(2).expect_error("for example 64%");
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
        text.starts_with("Evidence: simulated (an exact trace on models of caches)\nFrom sh -c :"),
        "{text}"
    );
    assert!(text.contains("L1i 32 KiB 8-way") && text.contains("Will a better layout help?"), "{text}");
}

/// Hone's own broker as a target.
fn broker() -> String {
    format!(
        "name = \"b\"\n[target]\nbinary = \"{}\"\nargs = [\"broker\", \"--listen\", \"127.0.0.1:{{port}}\", \
         \"--metrics-listen\", \"127.0.0.1:0\", \"--data\", \"{{data}}\"]\n[optimize]\ntrain = \"t\"\njudge = [\"j\"]\n[workload.t]\n\
         requests_per_s = 300\nduration_s = 2\nseed = 7\nwarmup_requests = 50\n[workload.j]\nseed = 8\n",
        env!("CARGO_BIN_EXE_hone")
    )
}

/// The busy threads of a broker have names, and what it did before its load does not count.
#[test]
fn a_broker_is_diagnosed_under_its_load_by_thread() {
    let Some(()) = emulator() else { return };
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("hone.toml"), broker()).unwrap();
    let ran = hone_in(dir.path(), &["diagnose", "hone.toml", "--json"]).expect_code(0);
    let body = ran.json()["body"].clone();
    let scope = body["parts"][0]["scope"].as_str().unwrap().to_owned();
    assert!(scope.contains("reactor"), "{scope}");
    assert!(body["source"].as_str().unwrap().contains("times the CPU"), "{}", body["source"]);
    let rule = body["parts"][0]["verdict"]["rule"].as_str().unwrap();
    assert!(rule.starts_with("pressure on instruction fetch: "), "{rule}");
    hone_in(dir.path(), &["diagnose", "hone.toml", "--workload", "x"])
        .expect_code(2)
        .expect_error("there is no workload `x`; the experiment has t, j");
}

#[test]
fn what_can_not_be_traced_is_told_with_the_next_best_way() {
    let Some(()) = emulator() else { return };
    let dir = tempfile::tempdir().unwrap();
    let script = stage::script(dir.path(), "starts", "exec sleep 1");
    hone_in(dir.path(), &["diagnose", "--", script.to_str().unwrap()])
        .expect_code(1)
        .expect_error("if this is a script, name the program that it starts");
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

/// What Debian 13's qemu-user prints, which is linked statically.
#[test]
fn an_emulator_without_plugins_is_told_with_the_way_to_one() {
    let dir = tempfile::tempdir().unwrap();
    let text = "case $1 in --version) echo 'qemu-x86_64 version 10.0.2 (Debian 1:10.0.2+ds-2+deb13u1~bpo12+1)';; *) echo \
                \"qemu: unknown option 'plugin'\" >&2; exit 1;; esac\n";
    let qemu = stage::script(dir.path(), "qemu", text);
    let mut command = hone_command();
    command.args(["diagnose", "--", "ls"]).env("HONE_QEMU", qemu).current_dir(dir.path());
    let ran = Ran::of(command.output().unwrap()).expect_code(1);
    assert!(!ran.stderr.contains("callgrind"), "{}", ran.stderr);
    ran.expect_error("built without plugins").expect_error("HONE_QEMU");
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
    assert!(note.contains("some seconds before the program's end") && note.contains("signal 9"), "{note}");
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

/// A folder with a program that calls 64 small functions in turn; compiled by [`Calls::compile`] as it is wanted.
struct Calls {
    dir: tempfile::TempDir,
    clang: PathBuf,
    system: System,
}

impl Calls {
    fn new() -> Option<Self> {
        emulator()?;
        let clang = find("clang++-22")?;
        let dir = tempfile::tempdir().unwrap();
        let function = |number| {
            format!(
                "__attribute__((noinline)) static int f(Number<{number}>, int n) {{ return n * {number} + (n >> 3); }}\n"
            )
        };
        let functions: String = (0..64).map(function).collect();
        let calls: String = (0..64).map(|number| format!("s += f(Number<{number}>(), s);")).collect();
        let source = format!(
            "template <int> struct Number {{}};\n{functions}int main() {{ volatile int s = 1; for (int i = 0; i < 3000; i++) {{ {calls} }} \
             return 0; }}\n"
        );
        fs::write(dir.path().join("calls.cpp"), source).unwrap();
        let system = System::new(dir.path().join("log")).unwrap();
        Some(Self { dir, clang, system })
    }

    fn compile(&self, name: &str, flags: &[&str]) {
        let output = self.path(name);
        let call = Call::new("compile", &self.clang, self.dir.path()).arg("-O1").args(flags.iter().copied());
        self.system.run(&call.arg("calls.cpp").arg("-o").arg(&output).produces(&output)).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn diagnose(&self, flags: &[&str], program: &str) -> Ran {
        let program = self.path(program).display().to_string();
        hone_in(self.dir.path(), &[&["diagnose"], flags, &["--", &program]].concat())
    }
}

/// The same functions, one page each: they crowd one set, and nothing else about the program changes.
#[test]
fn a_gate_stays_silent_about_the_same_and_finds_code_that_lies_worse() {
    let Some(calls) = Calls::new() else { return };
    calls.compile("calls", &[]);
    let learned = calls.diagnose(&["--learn", "layout.toml", "--repeats", "2"], "calls").expect_code(0);
    assert!(learned.stdout.contains("figures learned: layout.toml"), "{}", learned.stdout);
    let budget = fs::read_to_string(calls.path("layout.toml")).unwrap();
    assert!(budget.contains("[figures.\"L1i 32 KiB 8-way, misses in 1,000 instructions\"]"), "{budget}");
    assert!(budget.contains("program = \"calls\"\nevidence = \"simulated\"\n"), "{budget}");
    // The input is fixed, so the counts are exact, and the tolerance is the least that there is.
    assert!(!budget.contains("tolerance = 0.1"), "{budget}");
    let same = calls.diagnose(&["--gate", "layout.toml"], "calls").expect_code(0);
    assert!(same.stdout.contains("Within the budget layout.toml: all "), "{}", same.stdout);
    let changed = |line: &str| line.contains('%') && line.contains("in 1,000") && !line.contains("0.0 %");
    assert!(!same.stdout.contains("worse") && !same.stdout.lines().any(changed), "{}", same.stdout);

    calls.compile("calls", &["-falign-functions=4096"]);
    let worse = calls.diagnose(&["--gate", "layout.toml"], "calls").expect_code(3);
    let told = worse.stdout.split("Above the budget layout.toml").nth(1).unwrap();
    for figure in ["L1i 32 KiB 8-way, misses in 1,000", "pages of 4 KiB that hold 99 %"] {
        let line = told.lines().find(|line| line.contains(figure));
        assert!(line.is_some_and(|line| line.contains("limit ")), "{figure}: {}", worse.stdout);
    }
    assert!(told.contains("--learn layout.toml") && told.contains("hone heatmap /"), "{told}");
    // As many instructions ran as before.
    assert!(!told.contains("  instructions:"), "{told}");
    let record = calls.diagnose(&["--gate", "layout.toml", "--json"], "calls").expect_code(3).json();
    assert_eq!((&record["kind"], &record["body"]["is_worse"]), (&"gate".into(), &true.into()));
    let figures = record["body"]["figures"].as_array().unwrap();
    let misses =
        figures.iter().find(|held| held["name"].as_str().unwrap().starts_with("L1i 32 KiB")).unwrap();
    assert_eq!(misses["outcome"], "worse");
    assert!(misses["now"].as_f64() > misses["most"].as_f64(), "{misses}");
}

#[test]
fn a_budget_that_is_none_or_another_ones_is_refused_before_anything_runs() {
    let Some(calls) = Calls::new() else { return };
    calls.compile("calls", &[]);
    calls.diagnose(&["--learn", "layout.toml", "--repeats", "2"], "calls").expect_code(0);
    let good = fs::read_to_string(calls.path("layout.toml")).unwrap();
    let refused = |text: &str, program: &str, why: &str| {
        fs::write(calls.path("layout.toml"), text).unwrap();
        let ran = calls.diagnose(&["--gate", "layout.toml"], program).expect_code(2);
        ran.expect_error(why).expect_error("write one with `hone diagnose --learn FILE`");
    };
    refused("program = \"calls", "calls", "layout.toml:1: ");
    refused(&good.replace("value", "valeu"), "calls", "unknown key `valeu` (did you mean `value`?)");
    refused(&good.replace("iTLB 64 x", "iTLB 65 x"), "calls", "the unknown figure `iTLB 65 x 4 KiB");
    refused(&good.replace("tolerance = 0.01", "tolerance = nan"), "calls", "must be numbers of 0 or more");
    refused("program = \"calls\"\nevidence = \"simulated\"\nfigures = {}\n", "calls", "holds no figures");
    refused(&good.replace("\"simulated\"", "\"modelled\""), "calls", "can't compare them");
    fs::copy(calls.path("calls"), calls.path("others")).unwrap();
    refused(&good, "others", "was learned from `calls`, but this is `others`");
    calls.diagnose(&["--gate", "none.toml"], "calls").expect_code(1).expect_error("none.toml can't be read");
    calls
        .diagnose(&["--learn", "none/layout.toml"], "calls")
        .expect_code(2)
        .expect_error("there is no folder none");
    calls.diagnose(&["--learn", "a", "--gate", "b"], "calls").expect_code(2);
    assert!(!calls.path("runs/diagnosis-002").exists(), "only the first one ran");
}

/// What a load does differs a little each time, and its figures are those of a request.
#[test]
fn a_budget_of_a_load_is_by_operation_and_of_that_load() {
    let Some(()) = emulator() else { return };
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("hone.toml"), broker()).unwrap();
    hone_in(dir.path(), &["diagnose", "--learn", "layout.toml", "hone.toml"]).expect_code(0);
    let budget = fs::read_to_string(dir.path().join("layout.toml")).unwrap();
    assert!(budget.contains("[figures.\"instructions of an operation\"]"), "{budget}");
    assert!(budget.contains("program = \"b\"\nworkload = \"t\"\n"), "{budget}");
    let body =
        hone_in(dir.path(), &["diagnose", "--gate", "layout.toml", "hone.toml", "--json"]).json()["body"]
            .clone();
    let misses = body["figures"]
        .as_array()
        .unwrap()
        .iter()
        .find(|held| held["name"].as_str().unwrap().starts_with("L1i 32"));
    assert_eq!(misses.unwrap()["outcome"], "within", "{budget}\n{body:#}");
    hone_in(dir.path(), &["diagnose", "--gate", "layout.toml", "hone.toml", "--workload", "j"])
        .expect_code(2)
        .expect_error("under workload `t`, but this runs under workload `j`");
}

/// A program of 48 functions with loops of different lengths; the middle one runs most. Their bodies differ, so that none is folded.
fn loops() -> String {
    let function = |number: u64| {
        let turns = 1 + 200 / (1 + number.abs_diff(20));
        format!(
            "__attribute__((noinline)) unsigned f{number}(unsigned n) {{ for (unsigned i = 0; i < {turns}; i++) {{ if ((n + i) % 3) n = \
             n * {} + i; else n ^= i << {}; }} return n; }}\n",
            2 * number + 3,
            number % 5
        )
    };
    let functions: String = (0..48).map(function).collect();
    let calls: String = (0..48).map(|number| format!("s += f{number}(s);")).collect();
    format!(
        "{functions}int main(void) {{ unsigned s = 1; for (int i = 0; i < 300; i++) {{ {calls} }} return s == 1; }}\n"
    )
}

/// What BOLT's instrumentation counted of a program, and the trace of the same program, tell the same.
#[test]
fn bolts_counts_agree_with_the_trace() {
    let Some(()) = emulator() else { return };
    let (Some(clang), Some(bolt)) = (find("clang-22"), find("llvm-bolt-22")) else { return };
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("loops.c"), loops()).unwrap();
    let system = System::new(dir.path().join("log")).unwrap();
    let call = |name: &str, program: &PathBuf| Call::new(name, program, dir.path());
    system.run(&call("compile", &clang).args(["-O2", "-Wl,-q", "loops.c", "-o", "loops"])).unwrap();
    let profile = dir.path().join("loops.fdata").display().to_string();
    let instrument = call("instrument", &bolt).args(["loops", "-instrument", "-o", "counting"]);
    system.run(&instrument.arg(format!("-instrumentation-file={profile}"))).unwrap();
    system.run(&call("counting", &dir.path().join("counting"))).unwrap();
    let body = |words: &[&str]| hone_in(dir.path(), words).expect_code(0).json()["body"].clone();

    let counted = body(&["diagnose", "--json", "--read", "loops.fdata", "--program", "loops"]);
    let traced = body(&["diagnose", "--json", "--", "./loops"]);
    assert_eq!(counted["evidence"], "modelled");
    assert!(counted["notes"].to_string().contains("assumes 4 B per instruction"), "{counted}");
    let lines =
        |body: &serde_json::Value| body["parts"][0]["layout"]["footprints"][0]["units"][1].as_f64().unwrap();
    let ratio = lines(&counted) / lines(&traced);
    assert!((0.75..=1.25).contains(&ratio), "{} and {} lines", lines(&counted), lines(&traced));
    let hottest = |words: &[&str]| {
        let map = body(&[&["heatmap", "--json"], words].concat());
        let functions = map["sides"][0]["functions"].as_array().unwrap().clone();
        functions.iter().find(|function| function["rank"] == 1).unwrap()["name"].clone()
    };
    let by_counts = hottest(&["loops.fdata", "--program", "loops"]);
    assert_eq!(by_counts, hottest(&["runs/diagnosis-001", "--object", "loops"]));
    assert_eq!(by_counts, "f20");

    // The same file with addresses in the place of names, and one function alone.
    let image = Image::parse(&fs::read(dir.path().join("loops")).unwrap()).unwrap();
    let begin = image.functions.iter().find(|function| function.name == "f7").unwrap().address;
    fs::write(dir.path().join("loops.pa"), format!("B X:0 {begin:x} 5 0\n")).unwrap();
    assert_eq!(hottest(&["loops.pa", "--program", "loops"]), "f7");
    // Both sides at once, each of its own program.
    let both =
        ["heatmap", "loops.fdata", "loops.pa", "--program", "loops", "--program", "loops", "-o", "both.html"];
    hone_in(dir.path(), &both).expect_code(0);
}

#[test]
fn what_is_no_map_of_code_is_refused_with_the_next_step() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).unwrap();
    write("x.profdata", b"\xfflprofi\x81\x0c\0\0\0");
    write("x.fdata", b"1 main 4 1 main 9 0 7\n");
    write("no.fdata", b"1 there_is_none 4 1 there_is_none 9 0 7\n");
    write("slots.csv", b"1;2;3\n");
    let own = env!("CARGO_BIN_EXE_hone");
    for (verb, read) in [("diagnose", &["--read"][..]), ("heatmap", &[])] {
        let hone = |words: &[&str]| hone_in(dir.path(), &[&[verb], read, words].concat());
        hone(&["x.profdata"])
            .expect_code(1)
            .expect_error("no addresses")
            .expect_error("hone diagnose -- COMMAND");
        hone(&["x.fdata"]).expect_code(2).expect_error("name exactly that file with --program");
        hone(&["x.fdata", "--program", "none"]).expect_code(1).expect_error("the program none can't be read");
        hone(&["x.fdata", "--program", "x.fdata"]).expect_code(1).expect_error("x.fdata is not a program");
        hone(&["no.fdata", "--program", own]).expect_code(1).expect_error("are in functions that");
    }
    hone_in(dir.path(), &["diagnose", "--read", "slots.csv", "--program", own])
        .expect_code(2)
        .expect_error("is not a BOLT profile");
    hone_in(dir.path(), &["diagnose", "--program", own, "--", "ls"]).expect_code(2);
}

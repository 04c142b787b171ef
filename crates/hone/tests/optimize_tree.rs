//! `hone optimize` on programs that are no Cargo targets: a C++ server by its own build through PGO and BOLT, a finished program
//! that BOLT breaks, a server that leaves no profile. Real compilers and a real BOLT; the rounds are far too few for a
//! verdict that means anything.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use hone_ledger::Ledger;
use hone_record::{Envelope, Evidence, Foretelling, LedgerEntry, Optimization, PairKind, VariantState};
use hone_tool::{Call, Runner as _, Tool};

mod stage;
use stage::tools::{Workbench, find, of_checkout, skip};
use stage::{Ran, hone_command, hone_in, processes_with, script};

fn has_perf() -> bool {
    find("perf").is_some()
}

/// A folder with an experiment, the sources of a server, and a driver for it.
struct Bench(Workbench);

impl Deref for Bench {
    type Target = Workbench;

    fn deref(&self) -> &Workbench {
        &self.0
    }
}

impl Bench {
    /// `None` when a tool is missing.
    fn new() -> Option<Self> {
        Workbench::new().map(Self)
    }

    /// Changes the server.
    fn edit(&self, from: &str, to: &str) {
        let text = fs::read_to_string(self.path("tree/server.cpp")).unwrap();
        assert!(text.contains(from), "no {from}");
        fs::write(self.path("tree/server.cpp"), text.replace(from, to)).unwrap();
    }

    /// Gives the server another use for the signals of the dump object.
    fn uses_the_signals(&self) {
        let begin = "fill_tables();\n    uint16_t";
        self.edit(begin, &format!("signal(SIGUSR2, stop_by_flag);\n    {begin}"));
    }

    /// A program of the load's.
    fn script(&self, name: &str, line: &str) {
        script(self.dir.path(), name, line);
    }

    fn write(&self, text: &str) {
        fs::write(self.path("hone.toml"), text).unwrap();
    }

    fn hone(&self, more: &[&str]) -> Ran {
        hone_in(self.dir.path(), &[&["optimize", "hone.toml", "-o", "runs"], more].concat())
    }

    /// A run that is to end with a verdict, whatever that is.
    fn judged(&self, more: &[&str]) -> (Ran, Optimization) {
        self.ended(self.hone(more))
    }

    /// With a variable of the environment.
    fn hone_where(&self, name: &str, value: &str, more: &[&str]) -> Ran {
        let mut command = hone_command();
        command.args(["optimize", "hone.toml", "-o", "runs"]).args(more).env(name, value);
        Ran::of(command.current_dir(self.dir.path()).output().unwrap())
    }

    /// Another verb, beside the experiment.
    fn verb(&self, words: &[&str]) -> Ran {
        let mut command = hone_command();
        Ran::of(command.args(words).current_dir(self.dir.path()).output().unwrap())
    }

    /// The newest line of the ledger about a change.
    fn entered(&self, change: &str) -> LedgerEntry {
        let checked = Ledger::at(self.path("runs/ledger.jsonl")).check().unwrap();
        assert!(checked.faults.is_empty());
        let mut entries = checked.lines.into_iter().map(|line| line.entry);
        entries.rfind(|entry| entry.change.starts_with(change)).unwrap()
    }

    /// Where nothing is in PATH.
    fn without_tools(&self, more: &[&str]) -> Ran {
        let mut command = hone_command();
        command.args(["optimize", "hone.toml", "-o", "runs"]).args(more).env("PATH", self.path("nothing"));
        Ran::of(command.current_dir(self.dir.path()).output().unwrap())
    }

    fn ended(&self, ran: Ran) -> (Ran, Optimization) {
        assert!([0, 3].contains(&ran.code), "{}\n{}", ran.stdout, ran.stderr);
        let run = self.newest();
        let text = fs::read_to_string(run.join("optimization.json")).unwrap();
        let bin = run.join("bin").display().to_string();
        assert_eq!(processes_with(&bin), Vec::<u32>::new(), "no server is left");
        (ran, Envelope::parse(&text).unwrap())
    }

    fn newest(&self) -> PathBuf {
        let runs = fs::read_dir(self.path("runs")).unwrap().flatten().map(|entry| entry.path());
        let mut runs: Vec<PathBuf> = runs.filter(|path| path.join("experiment.toml").is_file()).collect();
        runs.sort();
        runs.pop().unwrap()
    }
}

const SERVER: &str = r#"
name = "server"
[target]
source = "tree"
build = ["make server"]
program = "server"
compiler = "clang-22"
args = ["serve", "{port}", "--stop=STOP"]
stop_timeout_s = 10
check = "./driver ask {port} 'echo still there'"
[optimize]
diagnose = false
train = ["few", "many"]
weights = [1, 2]
judge = ["judge"]
variants = [VARIANTS]
text_growth = 9.0
[compare]
least_window_s = 0
counts = false
rounds = 6
block_rounds = 2
[workload.few]
command = "./driver drive {port} {operations} 1"
operations = 660
[workload.many]
command = "./driver drive {port} {operations} 2"
operations = 1320
[workload.judge]
command = "./driver drive {port} {operations} 3"
operations = 6600
"#;

fn server(stop: &str, variants: &str) -> String {
    SERVER.replace("STOP", stop).replace("VARIANTS", variants)
}

/// Nothing is built for it.
#[test]
fn a_plan_names_what_is_done_beside_builds_and_loads() {
    let Some(bench) = Bench::new() else { return };
    bench.tree();
    let text = server("default", r#""pgo", "pgo+bolt""#);
    let text =
        text.replace("[optimize]", "provoke = \"./driver ask {port} nonsense\"\n[optimize]\nsoak_s = 3");
    let planned = |text: &str| {
        bench.write(text);
        bench.hone(&["--dry-run"]).expect_code(0).stdout
    };
    let plan = planned(&text);
    // The baseline first, and then what BOLT made.
    assert_eq!(plan.matches("# provoked under load by: ./driver ask {port} nonsense").count(), 2, "{plan}");
    assert_eq!(plan.matches("# repeated for 3 s").count(), 1, "{plan}");
    assert_eq!(
        plan.matches("# each variant is started 5 times, and loaded with judge: ").count(),
        1,
        "{plan}"
    );
    let (_, by_branches) =
        plan.split_once("# or, where perf gives branch records, in place of both:").unwrap();
    assert!(by_branches.lines().take(3).any(|line| line.contains("perf2bolt")), "{plan}");
    let counted = planned(&text.replace("[optimize]", "[optimize]\nprofile = \"instrumented\""));
    assert!(!counted.contains("perf2bolt"), "{counted}");
    let branches = text.replace("[optimize]", "[optimize]\nprofile = \"branches\"");
    let converted = planned(&branches.replace(r#", "pgo+bolt""#, ""));
    assert!(converted.contains("llvm-profgen "), "{converted}");
    assert!(!converted.contains("provoked"), "nothing is rewritten: {converted}");
}

/// In a folder of its own, by a shell that ends with the first line that fails. The folder of the runs lies among the sources.
#[test]
fn the_plan_of_a_plain_build_can_be_pasted() {
    let Some(bench) = Bench::new() else { return };
    bench.tree();
    let text = server("default", r#""pgo", "pgo+bolt""#)
        .replace("source = \"tree\"", "source = \".\"")
        .replace("make server", "make -C tree server")
        .replace("program = \"server\"", "program = \"tree/server\"");
    bench.write(&text);
    let plan = bench.hone(&["--dry-run"]).expect_code(0).stdout;
    let (_, runs) = plan.lines().next().unwrap().split_once('=').unwrap();
    let build: Vec<&str> = plan.lines().take_while(|line| !line.contains("{port}' --stop")).collect();
    assert!(build.len() < plan.lines().count(), "no start in {plan}");
    let elsewhere = tempfile::tempdir().unwrap();
    let paste = Call::new("paste", "/bin/sh", elsewhere.path()).args(["-e", "-c", &build.join("\n")]);
    bench.system.run(&paste).unwrap();
    let place = Path::new(runs).join("builds/server/baseline");
    assert_eq!(place, bench.dir.path().canonicalize().unwrap().join("runs/builds/server/baseline"));
    assert!(place.join("source/tree/server").is_file() && !place.join("source/runs").exists());
    // By the stand-ins, which write down what they do.
    let log = fs::read_to_string(place.join("compilers.jsonl")).unwrap();
    assert!(log.contains("server.cpp") && log.contains("--ld-path="), "{log}");
}

/// One that is set for another target, or names a tool that is gone, would change the compiler behind everybody's back.
#[test]
fn a_variable_that_names_a_tool_is_told() {
    let Some(bench) = Bench::new() else { return };
    bench.tree();
    let text = server("default", r#""pgo""#);
    let unnamed = text.replace("compiler = \"clang-22\"\n", "");
    let old = bench.path("old-profdata");
    bench.script("old-profdata", "echo LLVM version 9.0.1");
    let planned = |text: &str, profdata: &Path| {
        bench.write(text);
        let mut command = hone_command();
        command.args(["optimize", "hone.toml", "--dry-run"]).env("HONE_LLVM_PROFDATA", profdata);
        Ran::of(command.current_dir(bench.dir.path()).output().unwrap())
    };
    let ran = planned(&unnamed, &find("llvm-profdata-22").unwrap()).expect_code(0);
    ran.expect_error("compiler: ")
        .expect_error("clang version 22")
        .expect_error("the newest one that matches HONE_LLVM_PROFDATA");
    let ran = planned(&unnamed, &old).expect_code(1);
    let ran = ran.expect_error("correct or unset HONE_LLVM_PROFDATA, or name the compiler");
    assert!(!ran.stderr.contains("apt-get"), "{}", ran.stderr);
    planned(&text, &old).expect_code(1).expect_error("next: correct or unset HONE_LLVM_PROFDATA, which");
    let ran = planned(&unnamed, Path::new("llvm-profdata-14")).expect_code(1);
    ran.expect_error("HONE_LLVM_PROFDATA=llvm-profdata-14 is not an executable file")
        .expect_error("next: unset");
}

/// Another one would be taken for the C++ in silence.
#[test]
fn a_compiler_for_what_is_inside_of_rust_that_is_not_there_is_not_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let planned = |variable: &str| {
        let mut command = hone_command();
        command.arg("optimize").arg(of_checkout("examples/broker/hone.toml"));
        command.args(["--variants", "pgo", "--dry-run"]).env(variable, "/nosuch").current_dir(dir.path());
        Ran::of(command.output().unwrap()).expect_code(0).stdout
    };
    if !planned("HONE_NOTHING").contains(" CC_") {
        return skip("there is no clang of the Rust compiler's LLVM");
    }
    for variable in ["HONE_CLANG", "HONE_CLANGXX"] {
        let plan = planned(variable);
        assert!(!plan.contains(" CC_") && !plan.contains(" CXX_"), "{variable}: {plan}");
    }
}

/// By its phases, one after the other, as jobs of a CI would; and once more from the cache. The server dies of SIGTERM, so BOLT's
/// counts need the preload.
#[test]
fn a_server_by_its_own_build_goes_through_pgo_and_bolt_phase_by_phase() {
    let Some(bench) = Bench::new() else { return };
    bench.tree();
    // Three builds of each variant, with other layouts each.
    bench.write(
        &server("default", r#""pgo", "pgo+bolt""#)
            .replace("[compare]", "builds = 3\nsoak_s = 2\n[compare]")
            .replace("[optimize]", "provoke = \"./driver ask {port} nonsense\"\n[optimize]"),
    );

    let plan = bench.hone(&["--dry-run"]).expect_code(0);
    for wanted in ["-fprofile-generate", "-fprofile-use=", "-instrument", "-reorder-blocks", "make server"] {
        assert!(plan.stdout.contains(wanted), "no {wanted} in {}", plan.stdout);
    }
    assert_eq!(plan.stdout.matches("# with another layout: ").count(), 4, "{}", plan.stdout);
    assert!(
        plan.stdout.starts_with("RUNS=/") && plan.stdout.contains("\"$RUNS\"/server-001/bin/"),
        "{}",
        plan.stdout
    );
    assert!(!bench.path("runs").exists(), "a plan makes nothing");

    bench
        .hone(&["--phase", "train"])
        .expect_code(1)
        .expect_error("there is no run of `server`")
        .expect_error("next: begin one without --resume, or with --phase baseline");
    bench.hone(&["--phase", "baseline"]).expect_code(0).expect_error("the phase baseline is done");
    bench
        .hone(&["--phase", "judge"])
        .expect_code(1)
        .expect_error("run the earlier phase with --phase train first");
    let trained = bench.hone(&["--phase", "train"]).expect_code(0);
    // It dies of its signal, but was asked for its counts before.
    let trained =
        trained.expect_error("the start-up is not in the profile").expect_error("the phase train is done");
    assert!(trained.stderr.contains("the profile lacks the last "), "{}", trained.stderr);
    assert!(
        trained.stderr.contains("2 operations") || trained.stderr.contains("660 operations"),
        "{}",
        trained.stderr
    );
    // The job of the next phase was given the run, and not what lies beside it.
    fs::remove_dir_all(bench.path("runs/builds/server/profiles")).unwrap();
    let built = bench.hone(&["--phase", "build"]).expect_code(0).expect_error("the phase build is done");
    built
        .expect_error(".profdata from the run")
        .expect_error("with the preload it does")
        .expect_error("the start-up is in the profile");
    // The job that judges was given nothing else either, and has neither a compiler nor BOLT.
    fs::rename(bench.path("runs/builds"), bench.path("elsewhere")).unwrap();
    let ran = bench.without_tools(&["--phase", "judge"]);
    for told in ["this machine can't build, but this phase needs no build", "BOLT is no longer needed"] {
        assert!(ran.stderr.contains(told), "no {told} in {}", ran.stderr);
    }
    let (ran, found) = bench.ended(ran);
    fs::remove_dir_all(bench.path("runs/builds")).unwrap();
    fs::rename(bench.path("elsewhere"), bench.path("runs/builds")).unwrap();
    assert!(
        found.artifacts[0].tools.iter().any(|tool| tool.version.contains("22")),
        "{:?}",
        found.artifacts[0].tools
    );

    let names: Vec<&str> = found.artifacts.iter().map(|artifact| artifact.variant.as_str()).collect();
    assert_eq!(names, ["baseline", "pgo", "pgo+bolt"]);
    let steps: Vec<&str> = found.steps.iter().map(|step| step.step.as_str()).collect();
    for checked in ["check-baseline~2", "check-baseline~3", "check-pgo~2", "check-pgo~3"] {
        assert!(steps.contains(&checked), "no {checked} in {steps:?}");
    }
    // Each of what BOLT makes is measured, so each is provoked.
    for step in found.steps.iter().filter(|step| step.step.starts_with("build-pgo+bolt")) {
        assert!(step.note.contains("provoked "), "{step:?}");
    }
    let proof = found.artifacts[1].profile.as_ref().unwrap();
    assert!(proof.level.starts_with("IR") && proof.functions > 10 && proof.max_count > 0, "{proof:?}");
    assert!(found.artifacts[1].applied.as_ref().unwrap().discarded_weight < 0.1);
    assert!(found.artifacts[1..].iter().all(|artifact| artifact.smoke.as_ref().unwrap().passed));
    let hashes: std::collections::BTreeSet<&str> =
        found.artifacts.iter().map(|artifact| artifact.sha256.as_str()).collect();
    assert_eq!(hashes.len(), 3, "three programs");
    let edges: Vec<(&str, &str)> =
        found.comparisons.iter().map(|one| (one.a.as_str(), one.b.as_str())).collect();
    assert_eq!(edges, [("baseline", "pgo"), ("pgo", "pgo+bolt")]);
    for comparison in &found.comparisons {
        assert_eq!((comparison.design.builds, comparison.design.starts), ([3, 3], 3));
        let variant = found.variants.iter().find(|variant| variant.name == comparison.b).unwrap();
        let built: std::collections::BTreeSet<&str> =
            variant.builds.iter().map(|build| build.sha256.as_str()).collect();
        assert_eq!(built.len(), 3, "{:?}", variant.builds);
        // The build whose turn it was is the one that ran.
        for pair in comparison.pairs.iter().filter(|pair| pair.kind == PairKind::Test) {
            let window = fs::read_to_string(bench.newest().join(&pair.window_b)).unwrap();
            let name = format!("\"variant\": \"{}\"", variant.builds[pair.block as usize].name);
            assert!(window.contains(&name), "no {name} in {}", pair.window_b);
        }
    }
    // Padding moves what PGO has put in order; BOLT lays it out anew, and that is told.
    let of_one_layout = |judged: &hone_record::Comparison| {
        judged.one_layout.iter().map(|one| one.variant.clone()).collect::<Vec<_>>()
    };
    assert_eq!(found.comparisons.iter().map(of_one_layout).collect::<Vec<_>>(), [vec![], vec!["pgo+bolt"]]);
    let luck = "pgo+bolt counts as one layout however many builds it has";
    let said = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains(luck), "{said}");
    assert!(fs::read_to_string(bench.newest().join("report.html")).unwrap().contains(luck));
    for (profile, start_up) in [
        (PathBuf::from(&proof.path), "the start-up is not in the profile"),
        (bench.newest().join("bolt/pgo+bolt/merged.fdata"), "the start-up is in the profile"),
    ] {
        let lock = fs::read_to_string(format!("{}.lock", profile.display())).unwrap();
        for told in ["\"few\"", "\"many\"", "660 operations of", "\"sha256\"", start_up] {
            assert!(lock.contains(told), "no {told} in {lock}");
        }
    }
    let rewriting = found.variants[2].rewriting.as_ref().unwrap();
    assert_eq!((rewriting.rung.as_str(), rewriting.culprits.len()), ("full", 0), "{rewriting:?}");
    // The best kind that the machine gives, and why it is no better one.
    let kind = &found.steps.iter().find(|step| step.step == "profile-kind").unwrap().note;
    assert!(kind.contains("counts of an instrumented build") && kind.contains("branch records"), "{kind}");
    assert!(["counts", "branch records"].contains(&rewriting.profile.as_str()), "{rewriting:?}");
    assert!(rewriting.layout_modified.unwrap() > 0);
    assert_eq!(found.training_mix.len(), 2);
    let harm = found.variants[1].harm.as_ref().unwrap();
    assert!(harm.starts == 5 && harm.rss_bytes.unwrap() > 1e5 && harm.start_up_s.unwrap() > 0.0, "{harm:?}");
    assert!((0.0..=1.0).contains(&found.ceilings[0].user_share));
    for told in ["pgo+bolt against pgo: ", "Decision: ", "What BOLT did for pgo+bolt"] {
        assert!(ran.stdout.contains(told), "no {told} in {}", ran.stdout);
    }
    let html = fs::read_to_string(bench.newest().join("report.html")).unwrap();
    for told in ["pgo+bolt against pgo", "Decision: keep ", "What BOLT did for pgo+bolt"] {
        assert!(html.contains(told), "the report does not tell {told}");
    }
    let ledger = fs::read_to_string(bench.path("runs/ledger.jsonl")).unwrap();
    assert!(ledger.contains("binary: pgo\"") && ledger.contains("binary: pgo+bolt on pgo\""), "{ledger}");
    assert_eq!(ledger.lines().count(), 2, "{ledger}");

    // Nothing has changed, so nothing is compiled again; a changed source is.
    let (again, found_again) = bench.judged(&[]);
    // Threads that count at once lose counts, so the same load may leave another profile, and that is another build.
    let same_profile = found_again.artifacts[1].profile.as_ref().unwrap().sha256 == proof.sha256;
    let kept = if same_profile { 7 } else { 4 };
    let answered = again.stderr.matches("unchanged since the build that took").count();
    assert_eq!(answered, kept, "{}", again.stderr);

    // The same profile, kept by somebody, in place of a training; and without jump tables beside it.
    for ending in ["", ".lock"] {
        let (from, to) = (format!("{}{ending}", proof.path), format!("kept.profdata{ending}"));
        fs::copy(from, bench.path(&to)).unwrap();
    }
    let given = server("default", r#""pgo", "no-jump-tables""#).replace("rounds = 6", "rounds = 5");
    bench.write(&given.replace("[optimize]", "[optimize]\nprofile = \"kept.profdata\""));
    let (told, of_file) = bench.judged(&[]);
    let told = told.expect_error("LLVM counters from");
    assert!(!told.stderr.contains("operations of workload `few`"), "{}", told.stderr);
    let given = of_file.artifacts.iter().find(|artifact| artifact.variant == "pgo").unwrap();
    assert_eq!(given.profile.as_ref().unwrap().total_count, proof.total_count);
    let lock = fs::read_to_string(format!("{}.lock", given.profile.as_ref().unwrap().path)).unwrap();
    assert!(lock.contains("\"few\"") && lock.contains("\"many\""), "what its own lock says: {lock}");
    let edges: Vec<(&str, &str)> =
        of_file.comparisons.iter().map(|one| (one.a.as_str(), one.b.as_str())).collect();
    assert_eq!(edges, [("baseline", "no-jump-tables"), ("baseline", "pgo")]);
    bench.write(&server("default", r#""pgo", "pgo+bolt""#));
    let source = fs::read_to_string(bench.path("tree/server.cpp")).unwrap();
    fs::write(bench.path("tree/server.cpp"), source.replace("3) all", "4) all") + "// new\n").unwrap();
    let changed = bench.hone(&["--phase", "baseline"]).expect_code(0);
    assert!(!changed.stderr.contains("unchanged since the build that took"), "{}", changed.stderr);
}

/// As `hone init` writes it: the experiment stands in the sources, and so do its runs.
#[test]
fn runs_inside_of_the_sources_are_no_part_of_them() {
    let Some(bench) = Bench::new() else { return };
    bench.tree();
    let text = server("default", r#""pgo""#).replace("./driver", "../driver").replace("\"tree\"", "\".\"");
    let tree = bench.path("tree");
    fs::write(tree.join("hone.toml"), text).unwrap();
    let baseline = || hone_in(&tree, &["optimize", "hone.toml", "--phase", "baseline"]).expect_code(0);
    let first = baseline();
    assert!(!first.stderr.contains("unchanged since the build"), "{}", first.stderr);
    assert!(!tree.join("runs/builds/server/baseline/source/runs").exists(), "its own runs were copied");
    baseline().expect_error("unchanged since the build that took");
    // What the experiment says of judging is no part of a build.
    let edited = fs::read_to_string(tree.join("hone.toml")).unwrap().replace("rounds = 6", "rounds = 8");
    fs::write(tree.join("hone.toml"), edited).unwrap();
    baseline().expect_error("unchanged since the build that took");

    // No other phase of that run is of other sources.
    let source = fs::read_to_string(tree.join("server.cpp")).unwrap();
    fs::write(tree.join("server.cpp"), source + "// new\n").unwrap();
    let ran = hone_in(&tree, &["optimize", "hone.toml", "--phase", "train"]).expect_code(2);
    ran.expect_error("can't continue ")
        .expect_error(": the source tree")
        .expect_error("has changed (files: server.cpp) since the run began, so new builds would differ")
        .expect_error("or with --phase baseline");
}

/// As with `hone optimize hone.toml > said.txt`: the shell makes the files before, and they grow with the run.
#[test]
fn what_a_run_says_into_the_sources_is_no_part_of_them() {
    let Some(bench) = Bench::new() else { return };
    bench.tree();
    let text = server("default", r#""pgo""#).replace("./driver", "../driver").replace("\"tree\"", "\".\"");
    let tree = bench.path("tree");
    fs::write(tree.join("hone.toml"), text).unwrap();
    let [said, errors] = ["said.txt", "errors.txt"].map(|name| tree.join(name));
    for phase in ["baseline", "train"] {
        let append = |path| fs::File::options().append(true).create(true).open(path).unwrap();
        let mut command = stage::hone_command();
        command.args(["optimize", "hone.toml", "--phase", phase]).current_dir(&tree);
        let status = command.stdout(append(&said)).stderr(append(&errors)).status().unwrap();
        assert!(status.success(), "{phase}: {}", fs::read_to_string(&errors).unwrap());
    }
    let (said, errors) = (fs::read_to_string(said).unwrap(), fs::read_to_string(errors).unwrap());
    assert!(!said.is_empty() || !errors.is_empty());
}

/// It leaves by `_exit` and has another use for the signals of the dump object, so clang's counts are lost whatever is done; BOLT's are
/// written every few seconds.
#[test]
fn a_variant_that_can_not_be_had_is_left_out_and_the_others_go_on() {
    let Some(bench) = Bench::new() else { return };
    bench.tree();
    bench.uses_the_signals();
    let counted =
        server("_exit", r#""pgo", "bolt""#).replace("[optimize]", "[optimize]\nprofile = \"instrumented\"");
    bench.write(&counted);
    let (ran, found) = bench.judged(&[]);
    let state = |name: &str| &found.variants.iter().find(|variant| variant.name == name).unwrap().state;
    let VariantState::LeftOut { why } = state("pgo") else { panic!("{:?}", state("pgo")) };
    assert!(why.contains("the profile is lost") && why.contains("_exit"), "{why}");
    assert_eq!(state("bolt"), &VariantState::Made);
    let edges: Vec<(&str, &str)> =
        found.comparisons.iter().map(|one| (one.a.as_str(), one.b.as_str())).collect();
    assert_eq!(edges, [("baseline", "bolt")], "relocs was not asked for, and is not judged");
    assert!(ran.stdout.contains("drop pgo: left out:"), "{}", ran.stdout);
    assert!(ran.stderr.contains("it writes its profile every 2 s instead"), "{}", ran.stderr);
    let ledger = fs::read_to_string(bench.path("runs/ledger.jsonl")).unwrap();
    assert_eq!(ledger.lines().count(), 2, "{ledger}");

    let told = "runs without the dump object: it uses SIGUSR1 or SIGUSR2 itself";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);

    bench.write(&server("_exit", r#""pgo""#));
    bench.hone(&[]).expect_code(1).expect_error("pgo: the profile is lost");
}

/// It leaves by `_exit`, is filled by other work than it is trained with, and needs many times the CPU for a request when it counts.
#[test]
fn what_fills_a_server_is_not_in_its_profile_and_a_slow_one_gets_its_time() {
    let Some(bench) = Bench::new() else { return };
    bench.tree();
    let echo = "if (command == \"echo\") return rest;";
    bench.edit(echo, &format!("if (getenv(\"LLVM_PROFILE_FILE\")) hash(200000);\n    {echo}"));
    let one = "train = [\"many\"]\n";
    let text = server("_exit", r#""pgo""#).replace("train = [\"few\", \"many\"]\nweights = [1, 2]\n", one);
    let many = "command = \"./driver drive {port} {operations} 2\"\noperations = 1320\n";
    assert!(text.contains(many));
    let filled = "command = \"./load {port} {operations}\"\noperations = 8000\ntimeout_s = 2\n\
                  populate = \"./driver ask {port} 'run 1000000'\"\n";
    bench.script("load", "./driver drive $1 $2 1");
    bench.write(&text.replace(many, filled));
    let (ran, found) = bench.judged(&[]);
    let profile = found.artifacts[1].profile.as_ref().unwrap();
    let hot: Vec<&str> = profile.hot_functions.iter().map(|function| function.name.as_str()).collect();
    assert!(hot.iter().any(|name| name.contains("hash")), "{hot:?}");
    let run = profile.hot_functions.iter().find(|function| function.name.contains("::run("));
    // 16 kinds of requests ask for 75 steps on the average, a sixth of 8,000 of them; the filling had a million.
    assert!(run.is_none_or(|run| run.max_count < 300_000), "{run:?}");
    assert!(ran.stderr.contains("the start-up and the filling are not in the profile"), "{}", ran.stderr);
    assert!(ran.stderr.contains("times the CPU, so its time limits"), "{}", ran.stderr);

    // It only waits, and that it does well.
    bench.script("load", "sleep 0.4");
    let ran = bench.hone(&[]).expect_code(1);
    assert!(ran.stderr.contains("the training reached almost no code"), "{}", ran.stderr);
}

/// Its destructors, which only the preload lets run, end it before the counts are written; but only when it has served somebody.
#[test]
fn what_the_preload_brings_about_is_tried_behind_a_load_too() {
    let Some(bench) = Bench::new() else { return };
    bench.tree();
    let flag = "std::atomic<bool> stopping{false};";
    let leaves = "bool has_served;\nstruct Leaves { ~Leaves() { if (has_served) _exit(9); } } leaves;";
    bench.edit(flag, &format!("{flag}\n{leaves}"));
    let echo = "if (command == \"echo\") return rest;";
    bench.edit(echo, &format!("has_served = true;\n    {echo}"));
    bench.write(&server("default", r#""bolt""#));
    for phase in ["baseline", "train"] {
        bench.hone(&["--phase", phase]).expect_code(0);
    }
    let built = bench.hone(&["--phase", "build"]).expect_code(0);
    built.expect_error("it writes its profile every 2 s instead");
}

/// Two functions must lie side by side, which nothing promises: BOLT moves them, on every rung.
#[test]
fn a_server_that_bolt_breaks_is_searched_and_delivered_without_the_culprits() {
    let Some(bench) = Bench::new() else { return };
    let source = fs::read_to_string(of_checkout("fixtures/server/server.cpp")).unwrap();
    let side_by_side = "extern \"C\" {\n\
        __attribute__((noinline, aligned(512))) uint64_t first(uint64_t x) { return x % 3 ? x * 5 : x + 1; }\n\
        __attribute__((noinline, aligned(512))) uint64_t second(uint64_t x) { return x % 7 ? x ^ 9 : x / 2; }\n\
        __attribute__((noinline, aligned(512))) uint64_t third(uint64_t x) { return x % 5 ? x * 7 : x + 2; }\n\
        __attribute__((noinline, aligned(512))) uint64_t fourth(uint64_t x) { return x % 9 ? x ^ 5 : x / 3; }\n}\n\
        volatile uint64_t both;\nnamespace {\n";
    let source = source.replacen("namespace {\n", side_by_side, 1);
    let echo = "if (command == \"echo\") return rest;";
    assert!(source.contains(echo));
    // Instrumented code is moved, too; what trains it is short enough for it not to look.
    let look = "both = first(rest.size()) + second(rest.size());\n\
        if (command == \"echo\") return rest.size() > 20 && (intptr_t)second - (intptr_t)first != 512 ? \"moved\" : rest;";
    // The way of an error, which neither the load nor a check takes.
    let error = "return \"unknown\";";
    let trained = "if (command == \"hash\") ";
    assert!(source.contains(error) && source.contains(trained));
    let dies = "if ((intptr_t)fourth - (intptr_t)third != 512) abort();\n return \"unknown\";";
    let uses = "if (command == \"hash\") both = third(number) + fourth(number);\n if (command == \"hash\") ";
    let source = source.replace(echo, look).replace(error, dies).replace(trained, uses);
    fs::write(bench.path("fragile.cpp"), source).unwrap();
    bench.compile(&bench.path("fragile.cpp"), "fragile", &["-O2", "-pthread", "-Wl,-q"]);
    bench.write(
        r#"
name = "fragile"
[target]
binary = "fragile"
args = ["serve", "{port}", "--stop=handler"]
provoke = "./driver ask {port} nonsense"
[optimize]
diagnose = false
train = "train"
judge = ["judge"]
soak_s = 2
[compare]
least_window_s = 0
counts = false
rounds = 6
block_rounds = 2
[workload.train]
command = "./driver ask {port} 'hash 1000000'"
operations = 1
[workload.judge]
command = "./driver drive {port} {operations}"
operations = 6600
"#,
    );
    let (ran, found) = bench.judged(&[]);
    let rewriting = found.variants[1].rewriting.as_ref().unwrap();
    assert_eq!(rewriting.rung, "full");
    assert!(rewriting.given_up.len() >= 4 && rewriting.given_up[0].starts_with("full: "), "{rewriting:?}");
    // Keeping one of the two at its old place keeps both where they were.
    assert!(!rewriting.culprits.is_empty(), "{rewriting:?}");
    // One pair breaks what is checked, the other what is only provoked.
    for pair in [["first", "second"], ["third", "fourth"]] {
        let has = rewriting.culprits.iter().any(|name| pair.contains(&name.as_str()));
        assert!(has, "{pair:?}: {rewriting:?}");
    }
    let soaked = &found.artifacts[1].smoke.as_ref().unwrap().what;
    assert!(soaked.contains("provoked ") && !soaked.contains("of them failed"), "{soaked}");
    assert!(ran.stderr.contains("provoke-baseline"), "{}", ran.stderr);
    let bundle = PathBuf::from(rewriting.bundle.as_ref().unwrap());
    for file in ["README.txt", "command.sh", "functions.txt", "profile.fdata", "said.json"] {
        assert!(bundle.join(file).is_file(), "no {file}");
    }
    assert!(ran.stdout.contains("left unchanged, because the layout breaks them"), "{}", ran.stdout);
    assert!(found.artifacts[1].smoke.as_ref().unwrap().passed);

    // What the plain program does not stand is no measure of another one.
    let text = fs::read_to_string(bench.path("hone.toml")).unwrap();
    bench.write(&text.replace("{port} nonsense", "{port} stop"));
    let refused = bench.hone(&["--phase", "baseline"]).expect_code(1);
    refused.expect_error("the baseline fails under its `provoke` command");
}

/// A compiler in a folder of its own, with everything beside it but the tool that reads branch records.
#[test]
fn branch_records_that_nothing_can_convert_are_refused_before_anything_is_built() {
    let Some(bench) = Bench::new() else { return };
    bench.tree();
    let (real, tools) = (bench.clang.canonicalize().unwrap(), bench.path("tools"));
    fs::create_dir(&tools).unwrap();
    for tool in ["clang++", "ld.lld", "llvm-profdata", "llvm-ar", "llvm-ranlib", "llvm-nm"] {
        std::os::unix::fs::symlink(real.with_file_name(tool), tools.join(tool)).unwrap();
    }
    let compiler = tools.join("clang");
    fs::write(&compiler, format!("#!/bin/sh\nexec {} \"$@\"\n", real.display())).unwrap();
    fs::set_permissions(&compiler, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let text = server("default", r#""pgo""#)
        .replace("\"clang-22\"", &format!("{:?}", compiler.display().to_string()));
    bench.write(&text.replace("[optimize]", "[optimize]\nprofile = \"branches\""));
    let ran = bench.hone(&["--phase", "baseline"]).expect_code(1).expect_error("llvm-profgen not found");
    assert!(!ran.stderr.contains("build-baseline"), "{}", ran.stderr);
}

/// Plain samples of the running server need no build that counts. Branch records need a PMU that most virtual machines do not have;
/// that is found before anything is built.
#[test]
fn a_server_is_sampled_as_it_is() {
    let Some(bench) = Bench::new() else { return };
    if !has_perf() {
        return;
    }
    bench.tree();
    let text = server("default", r#""relocs", "sampled-bolt""#).replace("rounds = 6", "rounds = 5");
    let mut text = text.replace("[optimize]", "[optimize]\nsoak_s = 1");
    for (seed, operations) in [(1, 660), (2, 1320)] {
        let driven = format!("drive {{port}} {{operations}} {seed}\"\noperations = {operations}");
        assert!(text.contains(&driven));
        // User code, which is all that is sampled.
        text = text.replace(&driven, &format!("ask {{port}} 'run {seed}000000'\"\noperations = 1"));
    }
    bench.write(&text);
    let (ran, found) = bench.judged(&[]);
    let edges: Vec<(&str, &str)> =
        found.comparisons.iter().map(|one| (one.a.as_str(), one.b.as_str())).collect();
    let why: Vec<_> = found.variants.iter().map(|variant| (&variant.name, &variant.state)).collect();
    assert_eq!(edges, [("baseline", "relocs"), ("relocs", "sampled-bolt")], "{why:#?}");
    let note = |step: &str| &found.steps.iter().find(|found| found.step == step).unwrap().note;
    assert!(note("profile-kind").contains("for sampled-bolt samples of"), "{}", note("profile-kind"));
    let trained = note("train-sampled-bolt");
    assert!(trained.starts_with("samples of ") && trained.contains("workload `many`"), "{trained}");
    let rewriting = found.variants[2].rewriting.as_ref().unwrap();
    assert!(rewriting.profiled_functions.unwrap()[0] > 0 && rewriting.layout_modified.unwrap() > 0);
    assert!(rewriting.profile.starts_with("samples of "), "{rewriting:?}");
    let profile = fs::read_to_string(bench.newest().join("bolt/sampled-bolt/merged.fdata")).unwrap();
    assert!(profile.starts_with("no_lbr "), "{profile}");
    assert!(!ran.stderr.contains("instrumented"), "nothing counts: {}", ran.stderr);
    let plan = bench.hone(&["--dry-run"]).expect_code(0).stdout;
    // The event that the training took, too: a machine without a PMU has the clock alone.
    let event = if trained.starts_with("samples of the clock") { "cpu-clock:u" } else { "cycles:u" };
    assert!(plan.contains(&format!("perf record -e {event}")) && plan.contains("-p PID"), "{plan}");
    assert!(plan.contains("perf2bolt") && !plan.contains("-instrument"), "{plan}");

    let branches = text.replace("[optimize]", "[optimize]\nprofile = \"branches\"");
    bench.write(&branches.replace("\"sampled-bolt\"", "\"bolt\""));
    let ran = bench.hone(&["--phase", "baseline"]);
    // Where there are branch records, nothing is refused.
    if ran.code != 0 {
        let ran = ran.expect_code(1).expect_error("this machine has no branch records: perf reports");
        assert!(ran.stderr.contains("profile = \"instrumented\""), "{}", ran.stderr);
        assert!(!ran.stderr.contains("build-baseline"), "{}", ran.stderr);
    }
    bench.write(&branches.replace("\"sampled-bolt\"", "\"pgo\"").replace("clang-22", "gcc"));
    bench.hone(&[]).expect_code(1).expect_error("let BOLT use the samples");
    bench.write(&text.replace("[optimize]", "[optimize]\nprofile = \"samples\"").replace("relocs", "pgo"));
    bench.hone(&[]).expect_code(2).expect_error("plain samples are for BOLT only");
}

/// An exact trace of the running server under an emulator needs neither a build that counts nor counters of the machine's, and says what
/// BOLT's own counts say.
#[test]
fn a_server_is_traced_under_an_emulator_and_rewritten_by_that() {
    let Some(bench) = Bench::new() else { return };
    if find(&format!("qemu-{}", std::env::consts::ARCH)).is_none() {
        return skip("there is no qemu-user");
    }
    bench.tree();
    let text = server("default", r#""emulated-bolt", "bolt""#).replace("diagnose = false", "soak_s = 1");
    bench.write(&text);
    let (ran, found) = bench.judged(&[]);
    let note = |step: &str| &found.steps.iter().find(|found| found.step == step).unwrap().note;
    assert!(note("profile-kind").contains("for emulated-bolt an exact trace"), "{}", note("profile-kind"));
    let trained = note("train-emulated-bolt");
    assert!(trained.contains("workload `many` under qemu"), "{trained}");
    assert!(trained.contains("instructions of the program itself"), "{trained}");
    let of = |name: &str| found.variants.iter().find(|variant| variant.name == name).unwrap();
    let rewriting = of("emulated-bolt").rewriting.as_ref().unwrap();
    assert_eq!(
        (rewriting.profile.as_str(), rewriting.rung.as_str()),
        ("an exact trace under an emulator", "full")
    );
    assert!(rewriting.layout_modified.unwrap() > 0, "{rewriting:?}");
    let hottest = |variant: &str| {
        let file = bench.newest().join(format!("bolt/{variant}/merged.fdata"));
        let counts = hone_binary::bolt::fdata::counts(&file).unwrap();
        let mut functions: Vec<(u64, String)> =
            counts.functions.iter().map(|(name, counts)| (counts.heat(), name.clone())).collect();
        functions.sort_by(|left, right| right.cmp(left));
        functions.into_iter().next().unwrap().1
    };
    assert_eq!(hottest("emulated-bolt"), hottest("bolt"));
    tells_why_and_what_will_be(&bench, &ran, &found);

    bench.write(
        &text.replace("[optimize]", "[optimize]\nprofile = \"emulated\"").replace("\"emulated-bolt\", ", ""),
    );
    let plan = bench.hone(&["--dry-run"]).expect_code(0).stdout;
    assert!(plan.contains("under qemu-user") && !plan.contains("-instrument"), "{plan}");
    assert!(plan.contains("# traced under qemu-user, if present, to find why it stalls, with "), "{plan}");
    let ran = bench.hone_where("HONE_QEMU", "/no/such/qemu", &["--phase", "baseline"]).expect_code(1);
    assert!(ran.stderr.contains("HONE_QEMU") && !ran.stderr.contains("build-baseline"), "{}", ran.stderr);
}

/// Of the run that was just made: the diagnosis before anything else, and both layouts foretold, beside what was measured.
fn tells_why_and_what_will_be(bench: &Bench, ran: &Ran, found: &Optimization) {
    let diagnosis = found.diagnosis.as_ref().unwrap();
    assert_eq!(diagnosis.evidence, Evidence::Simulated);
    assert!(diagnosis.parts.iter().any(|part| part.verdict.is_some()), "{diagnosis:?}");
    let begins: Vec<&str> = found.steps.iter().map(|step| step.step.as_str()).collect();
    let at = |name: &str| {
        begins.iter().position(|step| *step == name).unwrap_or_else(|| panic!("{name}: {begins:?}"))
    };
    assert!(at("diagnose") < at("train-bolt") && at("foretell-bolt") < at("harm"), "{begins:?}");
    for name in ["bolt", "emulated-bolt"] {
        let variant = found.variants.iter().find(|variant| variant.name == name).unwrap();
        let foretold = variant.foretelling.as_ref().unwrap();
        assert!(foretold.replayed > 10_000 && foretold.source.starts_with("relocs, "), "{foretold:?}");
        // The same ran, and fewer lines hold it.
        let (before, now) = (&foretold.before, &foretold.now);
        assert_eq!(before.instructions, now.instructions);
        assert!(now.footprints[0].units[2] < before.footprints[0].units[2], "{foretold:?}");
        let judged = found.comparisons.iter().find(|comparison| comparison.b == name).unwrap();
        let told = bench.entered(&format!("binary: {name}")).foretold.unwrap();
        assert_eq!(told.came_true, foretold.expected.came_true(judged.verdict()));
    }
    assert!(ran.stdout.contains("Predicted by replay, before any measurement"), "{}", ran.stdout);
    assert!(ran.stdout.contains("Evidence: simulated"), "{}", ran.stdout);

    // By hand, of the kept trace: the same; and nothing of a program that has no table, or is another one.
    let run = bench.newest();
    let bin = |name: &str| run.join("bin").join(name).join("server").display().to_string();
    let traces = run.join("traces/relocs").display().to_string();
    let told = bench
        .verb(&["diagnose", "--replay", &traces, "--bolt-program", &bin("bolt"), "--json"])
        .expect_code(0);
    let foretold = Envelope::<Foretelling>::parse(&told.stdout).unwrap();
    let known = found.variants.iter().find(|variant| variant.name == "bolt").unwrap();
    assert_eq!(foretold.now, known.foretelling.as_ref().unwrap().now);
    let told =
        bench.verb(&["diagnose", "--replay", &traces, "--bolt-program", &bin("relocs")]).expect_code(1);
    told.expect_error("no address translation table").expect_error("--enable-bat");
}

/// A program that ends, by perf from its start on; `given` is its experiment with a profile by its path.
fn sampled_until_its_end(bench: &Bench, given: &str) {
    // Sampled as it is, by whatever this machine gives.
    let sampled = given.replace("./kept.profile", "samples").replace("20000", "50000000");
    bench.write(&sampled);
    let (ran, found) = bench.judged(&[]);
    assert!(found.variants[1].rewriting.as_ref().unwrap().layout_modified.unwrap() > 0);
    let profile = fs::read_to_string(bench.newest().join("bolt/bolt/merged.fdata")).unwrap();
    assert!(profile.starts_with("no_lbr "), "{profile}");
    ran.expect_error("of the plain program").expect_error("operations of workload `train`");

    // perf's own data, which somebody has recorded; without branches it is converted as what it is.
    let data = bench.path("seen.data");
    let record =
        Call::new("record", "perf", bench.dir.path()).args(["record", "-N", "-e", "cpu-clock:u", "-o"]);
    let record = record.arg(&data).arg("--").arg(bench.path("toy")).arg("50000000");
    bench.system.run(&record.produces(&data)).unwrap();
    bench.write(&given.replace("./kept.profile", "./seen.data"));
    let (_, found) = bench.judged(&[]);
    let rewriting = found.variants[1].rewriting.as_ref().unwrap();
    assert!(rewriting.profile.starts_with("perf samples, /"), "{rewriting:?}");
}

/// A program that does its work and ends.
#[test]
fn a_program_that_ends_goes_through_bolt_alone() {
    let Some(bench) = Bench::new() else { return };
    let source = of_checkout("crates/hone-binary/tests/fixtures/bolt/toy.cpp");
    bench.compile(&source, "toy", &["-O2", "-Wl,-q"]);
    let text = r#"
name = "toy"
[target]
binary = "toy"
check = "{program} 1000"
[optimize]
diagnose = false
train = "train"
judge = ["judge"]
judge_what_was_trained = true
[compare]
least_window_s = 0
counts = false
rounds = 6
[workload.train]
run = ["{operations}"]
operations = 20000
[workload.judge]
run = ["{operations}"]
operations = 300000
"#;
    bench.write(text);
    let (_, found) = bench.judged(&[]);
    assert_eq!(found.variants[1].rewriting.as_ref().unwrap().rung, "full");
    assert_eq!(found.comparisons.len(), 1);
    // Six rounds, each a pair of the test and one of the control; neighbours may well disturb some.
    let comparison = &found.comparisons[0];
    assert_eq!(comparison.design.planned(), 12);
    assert!(comparison.pairs.len() >= 12, "{}", comparison.pairs.len());
    assert!(found.comparisons[0].pairs.iter().all(|pair| !pair.window_a.is_empty()));

    let first = bench.newest();
    // A budget holds as many rounds as fit.
    let plan = bench.hone(&["--dry-run", "--budget", "10m"]).expect_code(0).stdout;
    assert!(plan.contains("at most 10 min for each comparison"), "{plan}");
    let (_, found) = bench.judged(&["--budget", "5s", "--effect", "3%"]);
    assert!(found.comparisons[0].design.planned() > 12, "{}", found.comparisons[0].design.planned());
    bench.write(&text.replace("operations = 300000", "operations = 300000000"));
    let ran =
        bench.hone(&["--budget", "1s"]).expect_code(2).expect_error("--budget 1s is too small: 5 rounds");
    ran.expect_error("use fewer operations in workload `judge`");
    bench.write(text);

    // Somebody's profile in place of a training: the one of the run before, and one of another program.
    fs::copy(first.join("bolt/bolt/merged.fdata"), bench.path("kept.profile")).unwrap();
    let given = text.replace("[optimize]", "[optimize]\nsoak_s = 1\nprofile = \"./kept.profile\"");
    bench.write(&given);
    let (ran, found) = bench.judged(&[]);
    assert_eq!(found.variants[1].rewriting.as_ref().unwrap().rung, "full");
    let ran = ran.expect_error("a BOLT profile from").expect_error("without training");
    ran.expect_error("no note names the build of the profile");
    let lock = fs::read_to_string(bench.newest().join("bolt/bolt/merged.fdata.lock")).unwrap();
    assert!(lock.contains("\"workload\": null"), "{lock}");
    // Its lock knows more: it is not of this build.
    let own = bench.path("runs/toy-001/bolt/bolt/merged.fdata.lock");
    fs::copy(own, bench.path("kept.profile.lock")).unwrap();
    bench.compile(&source, "toy", &["-O1", "-Wl,-q"]);
    bench.hone(&[]).expect_code(1).expect_error("kept.profile was taken from build-id");
    bench.compile(&source, "toy", &["-O2", "-Wl,-q"]);
    fs::remove_file(bench.path("kept.profile.lock")).unwrap();
    fs::write(bench.path("kept.profile"), "1 nowhere 10 1 elsewhere 0 0 90000\n").unwrap();
    bench.hone(&[]).expect_code(1).expect_error("is of another program");
    fs::write(bench.path("kept.profile"), "of no known form\n").unwrap();
    bench.hone(&[]).expect_code(1).expect_error("has an unknown format");
    bench.write(&given.replace("judge_what", "variants = [\"pgo\"]\njudge_what"));
    bench.hone(&[]).expect_code(2).expect_error("this kind of target has no variant `pgo`");

    if has_perf() {
        sampled_until_its_end(&bench, &given);
    }

    // What can be known of a finished program is told before anything is done, and once.
    bench.write(&text.replace("[compare]", "builds = 3\n[compare]"));
    bench.hone(&[]).expect_code(1).expect_error("set one build only (builds = 1)");
    bench.write(text);
    bench.compile(&source, "toy", &["-O2"]);
    let ran = bench.hone(&[]).expect_code(1).expect_error("link it with -Wl,--emit-relocs");
    assert_eq!(ran.stderr.matches("has no relocations").count(), 1, "{}", ran.stderr);
    assert!(!ran.stderr.contains("build-baseline"), "{}", ran.stderr);
    bench.hone(&["--dry-run"]).expect_code(1).expect_error("has no relocations");
    bench.compile(&source, "toy", &["-O2", "-Wl,-q"]);
    bench.write(&text.replace("{program} 1000", "false"));
    bench.hone(&[]).expect_code(1).expect_error("the baseline fails the check");
}

/// BOLT's runtime can't write a name of 12,000 characters, and stops with a part of the profile on disk.
#[test]
fn where_bolts_counts_can_not_be_written_an_emulator_takes_the_profile() {
    let Some(bench) = Bench::new() else { return };
    let source = of_checkout("crates/hone-binary/tests/fixtures/bolt/toy.cpp");
    let text = fs::read_to_string(source).unwrap();
    assert!(text.contains(" step(uint64_t op"));
    let name = format!("step{}", "p".repeat(12_000));
    let source = bench.path("long.cpp");
    fs::write(&source, text.replace(" step(", &format!(" {name}("))).unwrap();
    bench.compile(&source, "toy", &["-O2", "-Wl,-q"]);
    bench.write(
        "name = 'toy'\n[target]\nbinary = 'toy'\n[optimize]\ndiagnose = false\nsoak_s = 1\nprofile = 'instrumented'\n\
         train = 'train'\njudge = ['judge']\njudge_what_was_trained = true\n[compare]\nleast_window_s = 0\ncounts = false\nrounds = 6\n[workload.train]\nrun = ['{operations}']\noperations = 20000\n\
         [workload.judge]\nrun = ['{operations}']\noperations = 300000\n",
    );
    let (ran, found) = bench.judged(&[]);
    ran.expect_error("BOLT's instrumentation gave no profile").expect_error("under an emulator instead");
    let rewriting = found.variants[1].rewriting.as_ref().unwrap();
    assert_eq!(rewriting.profile, "an exact trace under an emulator");
    assert!(rewriting.layout_modified.unwrap() > 0, "{rewriting:?}");
}

/// A profile of each workload alone stands beside that of both.
#[test]
fn a_matrix_trains_with_each_workload_and_judges_with_all() {
    let Some(bench) = Bench::new() else { return };
    bench.tree();
    bench.write(&server("handler", r#""pgo""#).replace("rounds = 6", "rounds = 5"));
    let (ran, found) = bench.judged(&["--matrix"]);
    let names: Vec<&str> = found.variants.iter().map(|variant| variant.name.as_str()).collect();
    assert_eq!(names, ["baseline", "pgo", "pgo@few", "pgo@many"]);
    let rows: Vec<(usize, usize)> =
        found.matrix.iter().map(|row| (row.trained_with.len(), row.cells.len())).collect();
    assert_eq!(rows, [(2, 3), (1, 3), (1, 3)], "judged by `judge`, and by both that train\n{}", ran.stderr);
    let own = |row: usize| found.matrix[row].cells.iter().filter(|cell| cell.own).count();
    assert_eq!([own(0), own(1), own(2)], [2, 1, 1]);
    let profiles: std::collections::BTreeSet<&str> = found.artifacts[1..]
        .iter()
        .map(|artifact| artifact.profile.as_ref().unwrap().sha256.as_str())
        .collect();
    assert_eq!(profiles.len(), 3, "each mix is a profile of its own");
    assert!(ran.stdout.contains("Each profile under each workload"), "{}", ran.stdout);
    let html = fs::read_to_string(bench.newest().join("report.html")).unwrap();
    assert!(html.contains("few + many"), "the report has no matrix");
}

/// gcc has its own counts and its own proofs, and refuses a second round before anything is built.
#[test]
fn a_server_goes_through_the_counts_of_gcc() {
    let Some(bench) = Bench::new() else { return };
    bench.tree();
    let one = "train = [\"few\"]\n";
    let text = server("_exit", r#""pgo""#).replace("clang-22", "gcc").replace("rounds = 6", "rounds = 5");
    let text = text.replace("train = [\"few\", \"many\"]\nweights = [1, 2]\n", one);
    let few = "operations = 660\n";
    let text = text.replace(few, &format!("{few}populate = \"./driver ask {{port}} 'run 1000000'\"\n"));
    bench.write(&text);
    for phase in ["baseline", "train"] {
        bench.hone(&["--phase", phase]).expect_code(0);
    }
    // The job of the next phase was given the run, and not what lies beside it.
    fs::remove_dir_all(bench.path("runs/builds/server/profiles")).unwrap();
    bench.hone(&["--phase", "build"]).expect_code(0).expect_error("-gcda from the run");
    let (_, found) = bench.judged(&["--phase", "judge"]);
    let pgo = &found.artifacts[1];
    // A million steps of the filling are not in it.
    let total = pgo.profile.as_ref().unwrap().total_count;
    assert!((1..1_000_000).contains(&total) && pgo.applied.is_some(), "{pgo:?}");
    assert!(pgo.smoke.as_ref().unwrap().passed);

    bench.write(&text.replace(r#"variants = ["pgo"]"#, r#"variants = ["csir"]"#));
    bench.hone(&[]).expect_code(1).expect_error("gcc has no flag for them");
    bench.write(&text.replace("[compare]", "builds = 3\n[compare]").replace("rounds = 5", "rounds = 6"));
    bench.hone(&[]).expect_code(1).expect_error("GNU ld can't shuffle functions");
    assert!(!bench.path("runs/server-002").exists(), "something was built");

    // Workers serve, and leave no counts; their parent ends in order and leaves its own.
    bench.edit("serve(listener);\n            return 0;", "serve(listener);\n            _exit(0);");
    bench.uses_the_signals();
    bench.write(&text.replace("\"--stop=_exit\"", "\"--stop=handler\", \"--workers=2\""));
    let ran = bench.hone(&[]).expect_code(1);
    assert!(ran.stderr.contains("a worker that ends by `_exit`"), "{}", ran.stderr);
}

/// A second round of counting on top of the first, and BOLT on top of that.
#[test]
fn counts_of_a_second_round_go_on_top_of_the_first() {
    let Some(bench) = Bench::new() else { return };
    bench.tree();
    bench.write(&server("handler", r#""pgo", "csir", "csir+bolt""#).replace("rounds = 6", "rounds = 5"));
    let (_, found) = bench.judged(&[]);
    let edges: Vec<(&str, &str)> =
        found.comparisons.iter().map(|one| (one.a.as_str(), one.b.as_str())).collect();
    assert_eq!(edges, [("baseline", "pgo"), ("pgo", "csir"), ("csir", "csir+bolt")]);
    let profile = |index: usize| found.artifacts[index].profile.as_ref().unwrap();
    assert_ne!(profile(1).sha256, profile(2).sha256);
    assert!(profile(2).total_count > profile(1).total_count, "both rounds are in it");
    assert!(found.steps.iter().any(|step| step.step == "train-cs"));
    let lock = fs::read_to_string(format!("{}.lock", profile(2).path)).unwrap();
    for (round, trainings) in [("first round: ", 2), ("second round: ", 2)] {
        assert_eq!(lock.matches(round).count(), trainings, "{lock}");
    }

    // On top of a profile of somebody's, which has a lock or none.
    let kept = profile(1).path.clone();
    fs::copy(&kept, bench.path("kept.profdata")).unwrap();
    fs::copy(format!("{kept}.lock"), bench.path("kept.profdata.lock")).unwrap();
    let given = server("handler", r#""pgo", "csir""#);
    bench.write(&given.replace("[optimize]", "[optimize]\nprofile = \"kept.profdata\""));
    for (is_known, first) in [(true, 2), (false, 1)] {
        if !is_known {
            fs::remove_file(bench.path("kept.profdata.lock")).unwrap();
        }
        for phase in ["baseline", "train"] {
            bench.hone(&["--phase", phase]).expect_code(0);
        }
        let locks = fs::read_dir(bench.newest().join("profiles")).unwrap().flatten();
        let locks = locks.filter(|entry| entry.path().extension().is_some_and(|ending| ending == "lock"));
        let texts: Vec<String> = locks.map(|entry| fs::read_to_string(entry.path()).unwrap()).collect();
        let lock = texts.iter().find(|text| text.contains("second round: ")).unwrap();
        let trainings = [lock.matches("second round: "), lock.matches("\"workload\": ")].map(Iterator::count);
        assert_eq!(trainings, [2, 2 + first], "{lock}");
        assert_eq!(lock.contains("\"workload\": null"), !is_known, "{lock}");
    }
}

const FLOWD: &str = r#"
name = "flowd"
[target]
source = "flowd"
go = "."
args = ["-listen", "127.0.0.1:{port}", "-pprof", "127.0.0.1:{port2}"]
ready = { line = "ready " }
[optimize]
diagnose = false
train = ["binary", "json"]
judge = ["judge"]
pprof_windows = 2
pprof_window_s = 4
go_bench = { packages = ["./..."], pattern = "Parse|CollectJSON", count = 8, benchtime = "20x" }
place = true
[compare]
least_window_s = 0
counts = false
rounds = 5
block_rounds = 1
[workload.binary]
command = "./load -to 127.0.0.1:{port} -requests {operations} -records 200 -seed 7"
operations = 600
[workload.json]
command = "./load -to 127.0.0.1:{port} -format json -requests {operations} -records 200 -seed 9"
operations = 300
[workload.judge]
command = "./load -to 127.0.0.1:{port} -requests {operations} -records 300 -seed 8"
operations = 300
"#;

/// Go's profiles are taken of the plain program while it is loaded in two formats; what they say is told, and Go's own benchmarks
/// run beside the service.
#[test]
fn a_go_service_is_profiled_while_it_serves() {
    let Some(bench) = Bench::new() else { return };
    let Ok(go) = Tool::new("go", "HONE_GO").locate(&[PathBuf::from("/usr/local/go/bin")]) else {
        return skip("there is no go");
    };
    for file in
        ["go.mod", "main.go", "flow/flow.go", "flow/flow_test.go", "flow/formats.go", "flow/synthetic.go"]
    {
        let to = bench.path("flowd").join(file);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(of_checkout("examples/go-service").join(file), to).unwrap();
    }
    a_size_is_worked_out_again_and_again(&bench.path("flowd/flow/flow.go"));
    let load = bench.path("load");
    let source = of_checkout("examples/go-service");
    let call = Call::new("build-load", go.path(), &source).args(["build", "-o"]).arg(&load).arg("./cmd/load");
    bench.system.run(&call.produces(&load)).unwrap();
    bench.write(FLOWD);
    let (ran, found) = bench.judged(&[]);
    let proof = found.artifacts[1].profile.as_ref().unwrap();
    assert_eq!((proof.level.as_str(), proof.raw_files), ("pprof", 4), "{proof:?}");
    assert!(proof.hot_functions_of_target > 0 && proof.total_count > 0, "{proof:?}");
    assert!(found.artifacts[1].applied.as_ref().unwrap().discarded_weight < 0.5);
    assert_eq!(found.comparisons.len(), 1);
    assert!(ran.stderr.contains("samples in") && ran.stderr.contains("over 2 times 4 s"), "{}", ran.stderr);
    let stacks = found.variants.iter().map(|variant| variant.harm.as_ref().unwrap().stack_bytes.unwrap());
    assert!(stacks.clone().all(|bytes| bytes > 30_000.0), "{:?}", stacks.collect::<Vec<_>>());

    let account = found.go.as_ref().unwrap();
    let kinds: Vec<&str> = account.hot_spots.iter().map(|spots| spots.kind.as_str()).collect();
    assert_eq!(kinds, ["cpu", "alloc_space", "alloc_objects"]);
    let cpu = &account.hot_spots[0];
    assert!(cpu.rows.iter().any(|row| row.function.starts_with("flowd/flow.")), "{cpu:?}");
    assert!(cpu.rows.iter().all(|row| row.flat <= row.cumulative && row.flat_share <= 1.0), "{cpu:?}");
    let found_in = |words: [&str; 2]| {
        account.findings.iter().any(|finding| words.iter().all(|word| finding.contains(word)))
    };
    assert!(found_in(["flowd/flow.sizeOf: ", "called in the loop of "]), "{:?}", account.findings);
    assert!(found_in(["flowd/flow.Collect: ", " % of alloc_space"]), "{:?}", account.findings);
    let benchmarks = account.benchmarks.as_ref().unwrap();
    let timed: Vec<&str> = benchmarks
        .rows
        .iter()
        .filter(|row| row.verdict.is_some())
        .map(|row| row.benchmark.trim_end_matches(|letter: char| letter == '-' || letter.is_ascii_digit()))
        .collect();
    assert_eq!(timed, ["BenchmarkCollectJSON", "BenchmarkParse"], "{:?}", benchmarks.rows);
    assert!(
        benchmarks.rows.iter().all(|row| [&row.off, &row.on, &row.control].iter().all(|by| by.len() == 8))
    );
    assert!(benchmarks.geomean.as_ref().unwrap().ratio.is_some());
    let page = fs::read_to_string(bench.newest().join("report.html")).unwrap();
    for told in ["Where time and memory go", "own benchmarks", "flowd/flow."] {
        assert!(page.contains(told), "{told}");
    }
    for told in ["Where time and memory go", "own benchmarks"] {
        assert!(ran.stdout.contains(told), "{told} is not in\n{}", ran.stdout);
    }

    // It is placed when it helps, which so few rounds rarely show, and never behind anybody's back.
    let place = bench.path("flowd/default.pgo");
    let kept = found.variants[1].decision == "keep";
    assert_eq!(place.is_file(), kept);
    let placed = account.placed.as_ref().unwrap();
    assert!(
        placed.contains(if kept { "a plain `go build` uses it" } else { "hone profile place " }),
        "{placed}"
    );
    a_running_service_is_asked_in_several_windows(&bench, Path::new(&found.artifacts[0].path));
    a_profile_of_before_is_called_stale(&bench, Path::new(&proof.path), &place);
    a_load_that_fails_leaves_no_profile(&bench);
}

/// The published case, planted: the size of the whole growing batch every few records, and a batch that nobody needs.
fn a_size_is_worked_out_again_and_again(file: &Path) {
    const SIZE: &str = r#"
// Walked is what nobody asks for.
var Walked int

//go:noinline
func sizeOf(batch []Record) int {
	sum := 0
	for i := range batch {
		sum += sizeOne(&batch[i])
	}
	return sum
}

//go:noinline
func sizeOne(r *Record) int {
	n := 0
	for i := 0; i < 200; i++ {
		n += int(r.BytesIn>>(i&31)) & 7
	}
	return n
}
"#;
    let text = fs::read_to_string(file).unwrap();
    let once = |text: String, before: &str, after: &str| {
        assert_eq!(text.matches(before).count(), 1, "{before}");
        text.replace(before, after)
    };
    let text = once(text, "\tvar record Record\n\tfor", "\tvar record Record\n\tvar batch []Record\n\tfor");
    let walk = "\t\t\twritten++\n\t\t\tbatch = append(batch, record)\n\t\t\tif written%8 == 0 {\n\t\t\t\tWalked += sizeOf(batch)\n\t\t\t}\n";
    fs::write(file, once(text, "\t\t\twritten++\n", walk) + SIZE).unwrap();
}

/// Whoever asked for five minutes need not wait for them.
fn an_interrupt_does_not_wait_for_the_window(folder: &Path, url: &str) {
    let begun = std::time::Instant::now();
    let mut child = stage::hone_command();
    child.args(["profile", "take", url, "-o", "never.pprof", "--duration", "300"]).current_dir(folder);
    let mut child = child.stderr(std::process::Stdio::null()).spawn().unwrap();
    let hears = || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
        u64::from_str_radix(caught, 16).unwrap() & (1 << (libc::SIGINT - 1)) != 0
    };
    while !hears() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    std::thread::sleep(std::time::Duration::from_millis(500));
    // SAFETY: the child has not been waited for, so its pid is its own.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGINT) };
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
    assert!(!folder.join("never.pprof").exists());
}

/// As a service that users see is: Hone loads nothing.
fn a_running_service_is_asked_in_several_windows(bench: &Bench, program: &Path) {
    let mut service = bench.system.start(&Call::new("flowd", program, bench.dir.path())).unwrap();
    let line = service.stdout_line_matching("ready ", std::time::Duration::from_secs(60)).unwrap();
    let [_, address, _, pprof] = line.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{line}") };
    let url = format!("http://{pprof}");
    let take = |more: &[&str]| {
        hone_in(bench.dir.path(), &[&["profile", "take", &url, "-o", "live.pprof"], more].concat())
    };
    take(&["--duration", "1"]).expect_code(1).expect_error("has no samples");
    assert!(!bench.path("live.pprof").exists());
    let load =
        Call::new("load", bench.path("load"), bench.dir.path()).args(["-to", address, "-seconds", "5"]);
    std::thread::scope(|scope| {
        let loading = scope.spawn(|| bench.system.run(&load).unwrap());
        std::thread::sleep(std::time::Duration::from_millis(300));
        take(&["--duration", "1", "--windows", "2"]).expect_code(0);
        loading.join().unwrap();
    });
    let lock = fs::read_to_string(bench.path("live.pprof.lock")).unwrap();
    assert_eq!(lock.matches("\"weight\": 1").count(), 2, "{lock}");
    hone_in(bench.dir.path(), &["profile", "take", &url, "-o", "heap.pprof", "--allocations"]).expect_code(0);
    let shown = hone_in(bench.dir.path(), &["profile", "show", "heap.pprof", "--json"]).expect_code(0).json();
    let kinds = ["alloc_space", "\"cpu\""].map(|kind| shown["body"]["tables"].to_string().contains(kind));
    assert_eq!(kinds, [true, false], "{shown:#}");
    an_interrupt_does_not_wait_for_the_window(bench.dir.path(), &url);
    service.stop(std::time::Duration::from_secs(60)).unwrap();
}

/// The one of another state of the source lies in it.
fn a_profile_of_before_is_called_stale(bench: &Bench, profile: &Path, place: &Path) {
    fs::copy(profile, place).unwrap();
    let ran = bench.hone(&["--resume"]);
    assert!([0, 3].contains(&ran.code), "a profile in its place is no other source: {}", ran.stderr);
    assert!(ran.stderr.contains("place-profile       already done"), "{}", ran.stderr);
    let mut renamed = 0;
    for file in ["flow.go", "formats.go", "synthetic.go"] {
        let file = bench.path("flowd/flow").join(file);
        let text = fs::read_to_string(&file).unwrap();
        renamed += text.matches("Collect(").count();
        fs::write(
            &file,
            text.replace("Collect(", "Gather(")
                .replace("w.Uint(", "w.Number(")
                .replace(") Uint(", ") Number(")
                .replace("\tUint(", "\tNumber("),
        )
        .unwrap();
    }
    assert!(renamed > 0);
    let main = bench.path("flowd/main.go");
    let text = fs::read_to_string(&main).unwrap();
    fs::write(&main, text.replace("flow.Collect(", "flow.Gather(")).unwrap();
    let ran = bench.hone(&["--phase", "baseline"]).expect_code(0);
    assert!(ran.stderr.contains("default.pgo is stale: "), "{}", ran.stderr);
    assert!(ran.stderr.contains("flowd/flow.Collect"), "{}", ran.stderr);
}

/// An idle service has a profile, too, and none of it may be used. The window is not waited for.
fn a_load_that_fails_leaves_no_profile(bench: &Bench) {
    let script = "#!/bin/sh\necho x >> turns\n[ $(wc -l < turns) -lt 4 ] || { echo the load broke >&2; exit 3; }\nexec ./load \"$@\"\n";
    fs::write(bench.path("flaky.sh"), script).unwrap();
    fs::set_permissions(bench.path("flaky.sh"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let text = FLOWD
        .replace(
            "./load -to 127.0.0.1:{port} -requests {operations} -records 200",
            "./flaky.sh -to 127.0.0.1:{port} -requests 50 -records 20",
        )
        .replace("pprof_window_s = 4", "pprof_window_s = 300");
    bench.write(&text);
    let begun = std::time::Instant::now();
    let ran = bench.hone(&[]).expect_code(1);
    assert!(
        ran.stderr.contains("the load broke") && ran.stderr.contains("shows an idle service"),
        "{}",
        ran.stderr
    );
    assert!(begun.elapsed().as_secs() < 200, "{:?}", begun.elapsed());
    let bin = bench.newest().join("bin").display().to_string();
    assert_eq!(processes_with(&bin), Vec::<u32>::new(), "no server is left");
}

/// What loads it, or what is to stop it, kills it and ends well itself.
#[test]
fn a_target_that_is_killed_in_its_training_is_told_and_the_next_run_goes_through() {
    let Some(bench) = Bench::new() else { return };
    bench.tree();
    // The dump object would have written before.
    bench.uses_the_signals();
    bench.script("kill.sh", "./driver drive $1 66 1 && kill -9 $(./driver ask $1 pid)");
    let good = server("handler", r#""pgo""#);
    let load = "command = \"./driver drive {port} {operations} 1\"";
    let stop = "stop_timeout_s = 10";
    for (from, to, told) in [
        (load, "command = \"./kill.sh {port}\"".to_owned(), "ended by signal 9 (KILL"),
        (stop, format!("{stop}\nstop = \"./kill.sh {{port}}\""), "the target ended (by SIGKILL)"),
    ] {
        assert!(good.contains(from));
        bench.write(&good.replace(from, &to));
        let ran = bench.hone(&[]).expect_code(1);
        assert!(ran.stderr.contains(told), "{to}: {}", ran.stderr);
        assert_eq!(processes_with(&bench.dir.path().display().to_string()), Vec::<u32>::new(), "{to}");
    }
    bench.write(&good);
    let (_, found) = bench.judged(&[]);
    assert!(found.artifacts[1].profile.as_ref().unwrap().max_count > 0);
}

/// The functions of a small program, and other code under the same names.
const TOY: &str = "#include <stdio.h>
#include <stdlib.h>
#define KEPT __asm__ volatile(\"\" : \"+r\"(sum));
__attribute__((noinline)) static long turn(long n) {
    long sum = 0;
    for (long i = 0; i < n; i++) if (i % 3) sum += i;
    KEPT return sum;
}
int main(int count, char **words) {
    long n = count > 1 ? atol(words[1]) : 1, sum = 0;
    for (long i = 0; i < n; i++) sum += turn(100);
    printf(\"%ld\\n\", sum);
}
";

#[test]
fn a_kept_profile_is_held_against_the_source() {
    let Some(bench) = Bench::new() else { return };
    fs::create_dir(bench.path("tree")).unwrap();
    fs::write(bench.path("tree/toy.c"), TOY).unwrap();
    fs::write(bench.path("tree/Makefile"), "toy: toy.c\n\t$(CC) -O2 -o $@ $<\n").unwrap();
    let text = r#"
name = "toy"
[target]
source = "tree"
build = ["make toy"]
program = "toy"
compiler = "clang-22"
[optimize]
diagnose = false
variants = ["pgo"]
judge_what_was_trained = true
train = "train"
judge = ["judge"]
[workload.train]
run = ["{operations}"]
operations = 20000
[workload.judge]
run = ["{operations}"]
operations = 30000
"#;
    // A run of its own for each state of the sources.
    let train = || {
        bench.hone(&["--phase", "baseline"]).expect_code(0);
        bench.hone(&["--phase", "train"])
    };
    bench.write(text);
    // The compiler sees that the calls come to the same, and leaves them out: nobody asks for more of them without an end.
    fs::write(bench.path("tree/toy.c"), TOY.replace("KEPT return", "return")).unwrap();
    bench
        .hone(&["--phase", "baseline"])
        .expect_code(1)
        .expect_error("the CPU time does not grow with the operations");
    fs::write(bench.path("tree/toy.c"), TOY).unwrap();
    train().expect_code(0);
    let trained = fs::read_dir(bench.newest().join("profiles")).unwrap().flatten().map(|entry| entry.path());
    let profile =
        trained.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "profdata")).unwrap();
    let lock = profile.with_extension("profdata.lock");
    fs::copy(&profile, bench.path("kept.profdata")).unwrap();
    fs::copy(&lock, bench.path("kept.profdata.lock")).unwrap();
    bench.write(&text.replace("[optimize]", "[optimize]\nprofile = \"./kept.profdata\""));
    train()
        .expect_code(0)
        .expect_error("without training; the present source does not match 0.00 % of its weight");

    // The names stay, and what they name is other code: the compiler would take nothing of it, and end with 0.
    let other = TOY
        .replace("if (i % 3) sum += i;", "{ if (i % 3) sum += i; if (i % 5) sum ^= n; if (i & n) sum--; }");
    fs::write(bench.path("tree/toy.c"), &other).unwrap();
    train()
        .expect_code(1)
        .expect_error("kept.profdata does not fit: the present source does not match 9")
        .expect_error("turn 9")
        .expect_error("train a new profile from the present source");

    // Nor is one taken whose lock is of another.
    fs::write(bench.path("tree/toy.c"), TOY).unwrap();
    let text = fs::read_to_string(&lock).unwrap();
    let known = text.split("\"sha256\": \"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    fs::write(bench.path("kept.profdata.lock"), text.replace(&known, &"0".repeat(64))).unwrap();
    let ran = bench.hone(&["--phase", "baseline"]).expect_code(1);
    let ran = ran.expect_error("is not the profile that its lock describes");
    assert!(!ran.stderr.contains("build-baseline"), "before anything is built: {}", ran.stderr);
    fs::write(bench.path("kept.profdata.lock"), text).unwrap();
    let half = fs::read(&profile).unwrap();
    fs::remove_file(bench.path("kept.profdata.lock")).unwrap();
    fs::write(bench.path("kept.profdata"), &half[..half.len() / 2]).unwrap();
    train().expect_code(1).expect_error("kept.profdata");
}

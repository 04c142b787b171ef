//! `hone optimize` is killed where it can't say a word any more, at each phase of a run: what it leaves is ended, what happened is told,
//! and the run comes to the same end.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use hone_record::{Envelope, Optimization, VariantState};

mod stage;
use stage::tools::Workbench;
use stage::{Ran, hone_command, hone_in, processes_with, script};

const EXPERIMENT: &str = r#"
name = "server"
[target]
source = "tree"
build = ["make server"]
program = "server"
compiler = "clang-22"
args = ["serve", "{port}", "--stop=handler"]
check = "./driver ask {port} 'echo still there'"
[optimize]
diagnose = false
train = "train"
judge = ["judge"]
variants = ["pgo", "pgo+bolt"]
text_growth = 9.0
soak_s = 0
[compare]
least_window_s = 0
counts = false
rounds = 6
block_rounds = 2
[workload.train]
command = "./load.sh {port} {operations} 1"
operations = 1320
[workload.judge]
command = "./load.sh {port} {operations} 3"
operations = 2640
"#;

/// The server, a driver for it, and a load that leaves a process behind.
fn stage() -> Option<tempfile::TempDir> {
    let bench = Workbench::new()?;
    bench.tree();
    fs::write(bench.path("hone.toml"), EXPERIMENT).unwrap();
    let dir = bench.dir;
    script(dir.path(), "stay.sh", "sleep 300; true");
    script(dir.path(), "load.sh", "\"$PWD/stay.sh\" &\n./driver drive \"$@\"");
    Some(dir)
}

/// Where a run is killed: in a step, as soon as this program of it has begun.
const PLACES: [(&str, &str); 10] = [
    ("build-baseline", "build"),
    ("build-instrumented", "build"),
    ("train", "start-instrumented"),
    ("train", "load-instrumented"),
    ("prove-profile", ""),
    ("check-pgo", "start-pgo"),
    ("train-pgo+bolt", "load-pgo-bolt-instrumented"),
    ("build-pgo+bolt", "start-pgo-bolt-checked"),
    ("harm", "start-pgo"),
    ("judge-judge", "load-pgo"),
];

struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn run(&self) -> PathBuf {
        self.dir.path().join("runs/server-001")
    }

    fn step(&self) -> Option<String> {
        let text = fs::read_to_string(self.run().join("attempt.json")).ok()?;
        let note: serde_json::Value = serde_json::from_str(&text).unwrap();
        note["step"].as_str().map(str::to_owned)
    }

    /// Programs of this name that were started so far.
    fn started(&self, program: &str) -> usize {
        let logs = fs::read_dir(self.run().join("logs")).into_iter().flatten().flatten();
        let is_of = |name: String| name.ends_with(".stdout") && name.contains(program);
        logs.filter(|entry| is_of(entry.file_name().to_string_lossy().into_owned())).count()
    }

    /// Goes on with the run until it is there, and kills it. The step that the next attempt must tell, and what this one said.
    fn killed_at(&self, place: (&str, &str)) -> (String, Ran) {
        let before = self.started(place.1);
        let said = self.dir.path().join("said");
        let mut command = hone_command();
        command.args(["optimize", "hone.toml", "-o", "runs"]);
        if self.run().is_dir() {
            command.arg("--resume");
        }
        command.current_dir(self.dir.path()).stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.stderr(File::create(&said).unwrap()).spawn().unwrap();
        let heard = || fs::read_to_string(&said).unwrap();
        let deadline = Instant::now() + Duration::from_secs(120);
        let is_there = || {
            self.step().as_deref() == Some(place.0)
                && (place.1.is_empty() || self.started(place.1) > before)
                && (!place.1.starts_with("load-") || self.stays() > 0)
        };
        while !is_there() {
            assert!(child.try_wait().unwrap().is_none(), "it ended before {place:?}:\n{}", heard());
            assert!(Instant::now() < deadline, "it never came to {place:?}:\n{}", heard());
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // The step may have come to its end in between.
        (self.step().unwrap(), Ran { code: 9, stdout: String::new(), stderr: heard() })
    }

    /// What loads left behind and do not end.
    fn stays(&self) -> usize {
        processes_with(&self.dir.path().join("stay.sh").display().to_string()).len()
    }

    fn left(&self) -> usize {
        processes_with(&self.dir.path().display().to_string()).len()
    }
}

#[test]
fn a_run_that_is_killed_at_every_phase_goes_on_and_leaves_nobody_behind() {
    let Some(dir) = stage() else { return };
    let bench = Bench { dir };
    let mut before: Option<(String, usize)> = None;
    for place in PLACES {
        let (step, ran) = bench.killed_at(place);
        if let Some((before, stayed)) = &before {
            let told = format!("this run was interrupted during the step {before}: Hone was killed");
            let ran = ran.expect_error(&told);
            let ended = ran.stderr.contains("ended a process that it left running, step load-");
            assert!(ended || *stayed == 0, "after {before}: {}", ran.stderr);
        }
        // The load's own child has no tie to Hone.
        before = Some((step, bench.stays()));
        assert!(bench.stays() > 0 || !place.1.starts_with("load-"), "{place:?}");
    }
    let folder = bench.dir.path();
    let ran = hone_in(folder, &["optimize", "hone.toml", "-o", "runs", "--resume"]);
    assert!([0, 3].contains(&ran.code), "{}\n{}", ran.stdout, ran.stderr);
    let ran = ran.expect_error("this run was interrupted during the step judge-judge");
    assert!(ran.stderr.contains("ended a process that it left running, step load-"), "{}", ran.stderr);
    assert_eq!(bench.left(), 0, "{:?}", processes_with(&folder.display().to_string()));
    assert_eq!(fs::read_dir(bench.run().join("scratch")).unwrap().count(), 0, "no data is left");
    assert_eq!(fs::read_dir(bench.run().join("running")).unwrap().count(), 0, "no note is left");
    assert!(!bench.run().join("attempt.json").exists());

    // The same as a run that nobody disturbs, which is the next one. It tells of a killed one beside it, once.
    let beside = folder.join("runs/other-001");
    fs::create_dir_all(beside.join("scratch/data-0")).unwrap();
    let note = r#"{"pid": 7, "step": "train", "boot_id": "another"}"#;
    fs::write(beside.join("attempt.json"), note).unwrap();
    // Another one can't be cleaned up, which is told and ends nothing.
    let stuck = folder.join("runs/stuck-001");
    fs::create_dir_all(&stuck).unwrap();
    fs::write(stuck.join("attempt.json"), note).unwrap();
    fs::write(stuck.join("running"), "").unwrap();
    let second = hone_in(folder, &["optimize", "hone.toml", "-o", "runs"]);
    assert!([0, 3].contains(&second.code) && !second.stderr.contains("this run was"), "{}", second.stderr);
    let killed = "other-001 was interrupted during the step train: the machine has restarted since (process 7); continue it with --resume";
    let second = second.expect_error(killed).expect_error("removed 1 folders with data");
    let second =
        second.expect_error("stuck-001 was interrupted, and Hone can't clean it up: the processes of");
    assert!(stuck.join("attempt.json").is_file());
    assert!(second.stderr.contains("unchanged since the build that took"), "{}", second.stderr);
    assert!(!beside.join("attempt.json").exists() && !beside.join("scratch/data-0").exists());
    let (one, two) = (read(&bench.run()), read(&folder.join("runs/server-002")));
    assert_eq!(told(&one), told(&two));
    assert!(one.variants.iter().all(|variant| variant.state == VariantState::Made), "{:?}", one.variants);
    assert_eq!(one.artifacts[0].sha256, two.artifacts[0].sha256);
    // Threads that count at once lose counts.
    let profile = |of: &Optimization| of.artifacts[1].profile.as_ref().unwrap().sha256.clone();
    if profile(&one) == profile(&two) {
        assert_eq!(one.artifacts[1].sha256, two.artifacts[1].sha256);
    }
    assert_eq!(bench.left(), 0);
    let ledger = fs::read_to_string(folder.join("runs/ledger.jsonl")).unwrap();
    assert_eq!(ledger.lines().count(), 4, "two variants of two runs: {ledger}");
}

fn read(run: &Path) -> Optimization {
    Envelope::parse(&fs::read_to_string(run.join("optimization.json")).unwrap()).unwrap()
}

/// What does not depend on the minute: steps, variants with what BOLT did, comparisons and their pairs.
fn told(of: &Optimization) -> Vec<String> {
    let steps = of.steps.iter().map(|step| format!("step {}", step.step));
    let variants = of.variants.iter().map(|variant| {
        let rung = variant.rewriting.as_ref().map(|rewriting| rewriting.rung.clone());
        format!("{} of {:?}, {:?}, {rung:?}", variant.name, variant.parent, variant.state)
    });
    let comparisons = of.comparisons.iter().map(|comparison| {
        format!("{} against {}: {} pairs", comparison.b, comparison.a, comparison.pairs.len())
    });
    steps.chain(variants).chain(comparisons).collect()
}

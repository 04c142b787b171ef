//! `hone optimize` with the real compiler on the real broker: interrupted, resumed, judged. The windows are far too short
//! for a verdict that means anything; what is tested is the way, and what stands on the disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

mod stage;
use stage::{Ran, hone_command, processes_with};

const EXPERIMENT: &str = r#"
name = "small"
[target]
manifest = "MANIFEST"
package = "hone-broker"
bin = "hone-broker"
args = ["--listen", "127.0.0.1:{port}", "--metrics-listen", "off", "--data", "{data}"]
storage = "page-cache"
[optimize]
train = "train"
judge = ["judge"]
[compare]
pairs = 5
control_pairs = 0
lateness_limit_ms = 2000
[workload.train]
seed = 7
requests_per_s = 1000
payload = "telemetry"
record_bytes = 300
records_per_batch = 5
warmup_requests = 500
duration_s = 1
topic_config = { "compression.type" = "zstd", "hone.value.schema" = '{"type":"object"}' }
[workload.judge]
seed = 8
requests_per_s = 1000
payload = "orders"
record_bytes = 400
records_per_batch = 4
warmup_requests = 200
duration_s = 1
topic_config = { "compression.type" = "zstd", "hone.value.schema" = '{"type":"object"}' }
"#;

/// The way is the same however well the compiler optimises, and this one is gone in half the time.
const QUICK: (&str, &str) = ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");

/// `hone` in the test's folder.
fn hone_at(home: &Path, args: &[&str]) -> Ran {
    let mut command = hone_command();
    command.args(args).current_dir(home).env(QUICK.0, QUICK.1).stdin(std::process::Stdio::null());
    Ran::of(command.output().unwrap())
}

/// A folder that outlives the test, so that the builds of the last run are used again; its runs do not.
fn home() -> PathBuf {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("optimize");
    fs::create_dir_all(&home).unwrap();
    for entry in fs::read_dir(&home).unwrap().flatten() {
        if entry.file_name() != "builds" {
            let _ = fs::remove_dir_all(entry.path()).or_else(|_| fs::remove_file(entry.path()));
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let text = EXPERIMENT.replace("MANIFEST", root.join("Cargo.toml").to_str().unwrap());
    fs::write(home.join("small.toml"), text).unwrap();
    home
}

#[test]
fn a_run_is_interrupted_resumed_and_judged() {
    let home = home();
    let run = home.join("small-001");

    // Interrupted while the instrumented program is built, or at the latest while it is trained.
    let mut child = hone_command();
    child.args(["optimize", "small.toml", "-o", "."]).current_dir(&home).env(QUICK.0, QUICK.1);
    child.stderr(std::process::Stdio::piped());
    let mut child = child.spawn().unwrap();
    while !run.join("steps/build-baseline.json").is_file() {
        thread::sleep(Duration::from_millis(20));
        assert!(child.try_wait().unwrap().is_none(), "it ended before its first step");
    }
    // SAFETY: the child has not been waited for, so its pid is its own.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains(
            "interrupted; Hone keeps the finished steps\n  next: hone optimize small.toml --output . --resume"
        ),
        "{said}"
    );
    assert_eq!(processes_with(&run.display().to_string()), Vec::<u32>::new());

    // Another experiment can't go on with this run.
    let text = fs::read_to_string(home.join("small.toml")).unwrap();
    fs::write(home.join("other.toml"), text.replace("seed = 7", "seed = 9")).unwrap();
    let other = hone_at(&home, &["optimize", "other.toml", "-o", ".", "--resume", "small-001"]);
    other.expect_code(1).expect_error("has changed since");

    let ran = hone_at(&home, &["optimize", "small.toml", "-o", ".", "--resume"]);
    assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
    assert!(ran.stderr.contains("build-baseline      already done"), "{}", ran.stderr);
    check_record(&run);
    let ledger = fs::read_to_string(home.join("ledger.jsonl")).unwrap();
    assert_eq!(ledger.lines().count(), 1, "{ledger}");

    // A run that is complete has nothing left to do, and its entry stands in the ledger once.
    let again = hone_at(&home, &["optimize", "small.toml", "-o", ".", "--resume", "small-001"]);
    assert_eq!(again.code, ran.code, "{}", again.stderr);
    assert_eq!(fs::read_to_string(home.join("ledger.jsonl")).unwrap(), ledger);
}

fn check_record(run: &Path) {
    let text = fs::read_to_string(run.join("optimization.json")).unwrap();
    let found: hone_record::Optimization = hone_record::Envelope::parse(&text).unwrap();
    let [baseline, pgo] = &found.artifacts[..] else { panic!("{} artefacts", found.artifacts.len()) };
    let proof = pgo.profile.as_ref().unwrap();
    assert_eq!(proof.level, "IR");
    assert!(proof.functions > 100 && proof.max_count > 0 && proof.hot_functions_of_target > 0, "{proof:?}");
    assert!(pgo.applied.as_ref().unwrap().discarded_weight < 0.1, "{:?}", pgo.applied);
    assert!(pgo.smoke.as_ref().unwrap().passed);
    assert!(baseline.profile.is_none() && baseline.sha256 != pgo.sha256);
    assert!(baseline.build_s > 1.0 && pgo.build_s > 1.0, "a build time is that of no build");
    assert!(pgo.code_inside.iter().any(|code| code.name.contains("zstd")), "{:?}", pgo.code_inside);
    let counted = found.comparisons[0].counted.as_ref().expect("both programs were counted");
    let [base, pgo] = counted.instructions();
    assert!(base > 1_000.0 && pgo < base && counted.scatter() < 0.01, "{counted:?}");
    let train = found.steps.iter().find(|step| step.step == "train").unwrap();
    for told in
        ["times the CPU, so 1,000 requests/s became", "the start-up and the warm-up are not in the profile"]
    {
        assert!(train.note.contains(told), "{}", train.note);
    }
    assert_eq!(found.ceilings.len(), 1);
    assert!((0.0..=1.0).contains(&found.ceilings[0].user_share));
    let comparison = &found.comparisons[0];
    assert_eq!(comparison.design.planned(), 5);
    assert!(comparison.pairs.len() >= 5, "{} pairs", comparison.pairs.len());
    let html = fs::read_to_string(run.join("report.html")).unwrap();
    for told in [&proof.sha256[..12], "page-cache", &found.machine.cpu_model, "telemetry", "orders"] {
        assert!(html.contains(told), "the report does not tell {told}");
    }
}

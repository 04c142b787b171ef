//! `hone compare --budget`: a pilot, a plan, and a clock that is kept.

use std::fs;
use std::time::Instant;

mod stage;
use stage::{hone_command, hone_in};

fn broker_command() -> String {
    let hone = env!("CARGO_BIN_EXE_hone");
    format!("{hone} broker --listen 127.0.0.1:{{port}} --metrics-listen off --data {{data}}")
}

const SMALL: [&str; 9] =
    ["--rate", "500", "--duration", "0.3", "--warmup", "50", "--max-lateness", "2s", "--no-counts"];

#[test]
fn the_plan_alone_measures_no_a_b_pair_and_the_rest_follows_it() {
    let folder = tempfile::tempdir().unwrap();
    let command = broker_command();
    let args =
        [&["compare", &command, &command, "--budget", "60s", "--effect", "30%", "--plan-only"][..], &SMALL]
            .concat();
    let ran = hone_in(folder.path(), &args).expect_code(0);
    assert!(ran.stdout.starts_with("Plan: ") && ran.stdout.contains("chance to find 30 %"), "{}", ran.stdout);
    let run = folder.path().join("runs/compare-001");
    let read = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&fs::read(run.join(name)).unwrap()).unwrap()
    };
    let (pilot, design) = (read("pilot.json"), read("design.json"));
    let measured = fs::read_dir(run.join("pairs")).unwrap().count();
    assert!(measured >= 5, "{measured}");
    assert_eq!(design["budget"]["pilot_pairs"], measured);
    assert!(design["order"].as_array().unwrap()[..measured].iter().all(|kind| kind == "control"));
    assert!(design["order"].as_array().unwrap().iter().filter(|kind| *kind == "test").count() >= 5);
    assert_eq!(pilot["planned_pairs"], design["pairs"]);
    // What is planned is carried out, with the design untouched; the budget may have run out on a busy machine.
    let ran = hone_in(folder.path(), &["compare", "--resume", "runs/compare-001", "--json"]);
    assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
    let body = ran.json()["body"].take();
    assert_eq!(read("design.json"), design);
    assert_eq!(body["design"], design);
    // The reserve and the continuation stand behind the plan.
    let behind = design["reserve"].as_u64().unwrap() + design["continuation"]["pairs"].as_u64().unwrap();
    let planned = design["order"].as_array().unwrap().len() as u64 - behind;
    let pairs = body["pairs"].as_array().unwrap().iter();
    let of_the_plan = pairs.filter(|pair| pair["index"].as_u64().unwrap() < planned).count() as u64;
    let ends: serde_json::Value = read("ended.json");
    let at_a_look = ends[0]["why"] == "decided" || ends[0]["why"] == "hopeless";
    let unmeasured = if at_a_look { planned - of_the_plan } else { 0 };
    assert_eq!(of_the_plan + unmeasured.max(body["unmeasured_pairs"].as_u64().unwrap()), planned);
    assert_eq!(body["pilot"], pilot);
}

/// The clock wins over the plan: targets that start slower and slower get fewer pairs and no more time.
#[test]
fn the_budget_is_kept_by_the_clock() {
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("starts");
    let slower = stage::script(
        folder.path(),
        "slower",
        // The pilot's starts are quick, those after it take a second more.
        &format!("echo >> {0}; [ $(wc -l < {0}) -gt 12 ] && sleep 1; exec \"$@\"", count.display()),
    );
    let command = format!("{} {}", slower.display(), broker_command());
    let args = [&["compare", &command, &command, "--budget", "25s", "--json"][..], &SMALL].concat();
    let begun = Instant::now();
    let ran = hone_in(folder.path(), &args);
    let took_s = begun.elapsed().as_secs_f64();
    assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
    let body = ran.json()["body"].take();
    let pairs = body["pairs"].as_array().unwrap();
    let longest_s = pairs.iter().map(|pair| pair["took_s"].as_f64().unwrap()).fold(0.0, f64::max);
    assert!(took_s < 25.0 + longest_s, "{took_s} s of 25, a pair takes up to {longest_s}");
    assert!(body["unmeasured_pairs"].as_u64().unwrap() > 0, "{} pairs fitted", pairs.len());
    assert!(
        body["judgements"].as_array().is_some_and(|all| !all.is_empty()) || !body["not_estimated"].is_null()
    );
    // Whoever has seen the verdict does not measure on until he likes it, however much time a new start believes to have.
    let run = folder.path().join("runs/compare-001");
    let asked = fs::read_to_string(run.join("asked.json")).unwrap();
    let mut asked: serde_json::Value = serde_json::from_str(&asked).unwrap();
    asked["budget_s"] = 3_600.0.into();
    fs::write(run.join("asked.json"), asked.to_string()).unwrap();
    let again = hone_in(folder.path(), &["compare", "--resume", "runs/compare-001", "--json"]);
    let again = again.json()["body"].take();
    assert_eq!(again["pairs"].as_array().unwrap().len(), pairs.len());
    assert_eq!(again["unmeasured_pairs"], body["unmeasured_pairs"]);
}

/// Two equal arms, and hardly any error that a verdict may spend.
#[test]
fn a_run_without_a_verdict_is_continued_with_the_command_that_it_prints() {
    let folder = tempfile::tempdir().unwrap();
    let command = broker_command();
    let rule = ["--alpha", "0.5%", "--primary", "latency-p50", "--keep-disturbed", "--budget", "20s"];
    let ran = hone_in(folder.path(), &[&["compare", &command, &command][..], &rule, &SMALL].concat())
        .expect_code(0);
    let said = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("next: hone compare --resume ") && said.contains("chance of a verdict"), "{said}");
    let run = folder.path().join("runs/compare-001");
    let read = |name: &str| fs::read_to_string(run.join(name)).unwrap();
    let (design, measured) = (read("design.json"), fs::read_dir(run.join("pairs")).unwrap().count());
    let resumed = ["compare", "--resume", "runs/compare-001", "--json"];
    let again = hone_in(folder.path(), &resumed).json()["body"].take();
    assert_eq!(again["pairs"].as_array().unwrap().len(), measured, "no budget, no more pairs");
    let refused = hone_in(folder.path(), &[&resumed[..], &["--budget", "10s"]].concat()).expect_code(2);
    refused.expect_error("--budget is the total time of the run, and 20 s of it are over");
    let ran = hone_in(folder.path(), &[&resumed[..], &["--budget", "40s"]].concat()).expect_code(0);
    let body = ran.json()["body"].take();
    assert!(body["pairs"].as_array().unwrap().len() > measured, "{}", ran.stderr);
    assert_eq!(read("design.json"), design, "the rule was changed");
    let ends = body["design"]["continuation"]["ends"].as_array().unwrap();
    assert_eq!(ends.len(), 1, "{ends:?}");
    assert_eq!(read("continued.json").split_whitespace().collect::<String>(), "[40.0]");
    // A comparison with fixed pairs has no looks for that.
    let fixed = ["--pairs", "5", "--control-pairs", "0", "--reserve", "0", "--quiet"];
    hone_in(folder.path(), &[&["compare", &command, &command][..], &rule[..5], &fixed, &SMALL].concat());
    hone_in(folder.path(), &["compare", "--resume", "runs/compare-002", "--budget", "40s"])
        .expect_code(2)
        .expect_error("can't be continued: its number of pairs is fixed");
}

#[test]
fn an_interrupted_run_goes_on_after_its_last_pair() {
    let folder = tempfile::tempdir().unwrap();
    let command = broker_command();
    let script = stage::script(folder.path(), "wrapped", "exec \"$@\"");
    let wrapped = format!("{} {command}", script.display());
    let child = hone_command()
        .args(["compare", &command, &wrapped, "--pairs", "6", "--control-pairs", "0", "--reserve", "0"])
        .args(SMALL)
        .current_dir(folder.path())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let run = folder.path().join("runs/compare-001");
    while !run.join("pairs/001.json").is_file() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // SAFETY: the child has not been waited for, so its pid is its own.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("hone compare --resume") && said.contains("compare-001"), "{said}");
    let is_blamed = said.contains("failed in its window");
    assert!(said.contains(": interrupted\n") && !is_blamed, "an arm is blamed for what the user did: {said}");
    let first = fs::read(run.join("pairs/001.json")).unwrap();
    // With another program under the same name it would be another experiment.
    stage::script(folder.path(), "wrapped", "sleep 0.1; exec \"$@\"");
    hone_in(folder.path(), &["compare", "--resume", "runs/compare-001"])
        .expect_code(1)
        .expect_error("wrapped has other contents");
    stage::script(folder.path(), "wrapped", "exec \"$@\"");
    let ran = hone_in(folder.path(), &["compare", "--resume", "runs/compare-001", "--json"]);
    assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
    assert_eq!(ran.json()["body"]["pairs"].as_array().unwrap().len(), 6);
    assert_eq!(fs::read(run.join("pairs/001.json")).unwrap(), first, "a measured pair was measured again");
    hone_in(folder.path(), &["compare", "--resume", "."])
        .expect_code(2)
        .expect_error("is not a run folder of hone compare");
}

#[test]
fn budgets_that_cannot_hold_a_comparison_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let command = broker_command();
    let refuse = |more: &[&str], expected: &str| {
        let args = [&["compare", &command, &command][..], more].concat();
        hone_in(folder.path(), &args).expect_code(2).expect_error(expected);
    };
    refuse(&["--budget", "20s", "--duration", "5"], "--budget 20s is too small");
    refuse(&["--budget", "soon"], "--budget: invalid duration `soon`");
    refuse(&["--budget", "5m", "--effect", "much"], "--effect: invalid share `much`");
    refuse(
        &["--primary", "latency-p999", "--rate", "500"],
        "these windows can't show the primary metric p99.9",
    );
    refuse(
        &["--guard-metric", "latency-p99", "--rate", "100"],
        "these windows can't show the guard metric p99",
    );
    refuse(&["--a-build", &command], "2 builds of A and 1 of B can't be compared");
    assert!(!folder.path().join("runs").exists(), "a run was begun");
}

#[test]
fn several_builds_an_arm_share_the_pairs() {
    let folder = tempfile::tempdir().unwrap();
    let command = broker_command();
    let build = |name: &str| {
        let script = stage::script(folder.path(), name, "exec \"$@\"");
        format!("{} {command}", script.display())
    };
    let [a1, a2, a3] = ["a1", "a2", "a3"].map(build);
    let [b1, b2, b3] = ["b1", "b2", "b3"].map(build);
    let args = [
        &["compare", &a1, &b1, "--a-build", &a2, "--a-build", &a3, "--b-build", &b2, "--b-build", &b3][..],
        &["--pairs", "6", "--control-pairs", "0", "--keep-disturbed", "--explain"],
        &SMALL,
    ]
    .concat();
    let ran = hone_in(folder.path(), &args);
    assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
    assert!(ran.stdout.contains("3 builds of A, 3 of B"), "{}", ran.stdout);
    let record = fs::read_to_string(folder.path().join("runs/compare-001/comparison.json")).unwrap();
    let body = serde_json::from_str::<serde_json::Value>(&record).unwrap()["body"].take();
    let mut blocks: Vec<u64> =
        body["pairs"].as_array().unwrap().iter().map(|pair| pair["block"].as_u64().unwrap()).collect();
    blocks.sort_unstable();
    assert_eq!(blocks, [0, 0, 1, 1, 2, 2]);
    assert_eq!(body["judgements"][0]["estimate"]["builds"]["blocks"], 3);
}

//! `hone compare --capacity` and `hone tune` for a capacity, on a broker whose writes begin late by a known time.

use std::fs;

mod stage;
use stage::clients::alone;
use stage::hone_in;

fn broker(delay_ms: u32) -> String {
    let hone = env!("CARGO_BIN_EXE_hone");
    format!(
        "{hone} broker --listen 127.0.0.1:{{port}} --metrics-listen off --data {{data}} --fault write-delay,ms={delay_ms}"
    )
}

/// Writes of one partition come one after the other, so their delay is what bounds the rate.
const CLIMB: [&str; 17] = [
    "--capacity",
    "--slo",
    "p50=20ms",
    // Well below what the slowest of them can do: a first step that breaks tells nothing.
    "--start-rate",
    "60",
    "--rate-step",
    "1.5",
    "--partitions",
    "1",
    "--connections",
    "1",
    "--warmup",
    "50",
    "--pairs",
    "5",
    "--keep-disturbed",
    "--no-counts",
];

#[test]
fn a_planted_slow_down_has_a_lower_capacity_and_equal_arms_are_silent() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let (quick, slow) = (broker(2), broker(6));
    let arms = ["compare", &quick, &slow, "--control-pairs", "5", "--json", "--quiet"];
    let ran = hone_in(folder.path(), &[&arms[..], &CLIMB].concat()).expect_code(3);
    let body = ran.json()["body"].clone();
    assert_eq!(body["design"]["mode"], "solo");
    let judgements = body["judgements"].as_array().unwrap();
    assert_eq!(judgements.len(), 1, "a climb tells nothing else: {judgements:#?}");
    let (found, control) = (&judgements[0], &judgements[0]["control"]);
    assert_eq!((&found["verdict"], &found["estimate"]["metric"]), (&"worse".into(), &"capacity".into()));
    let ratio = found["estimate"]["ratio"].as_f64().unwrap();
    assert!((0.2..0.6).contains(&ratio), "{ratio}");
    let [low, high] = ["low", "high"].map(|end| control[end].as_f64().unwrap());
    assert!(low <= 1.02 && high >= 0.98, "equal arms differ: {control:#}");
    let run = folder.path().join("runs/compare-001");
    let page = hone_in(folder.path(), &["report", run.to_str().unwrap()]).expect_code(0).stdout;
    let page = fs::read_to_string(page.trim()).unwrap();
    // Terms are links to their meaning.
    let text: String =
        page.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)).collect();
    for told in ["B against A: regression.", "capacity is worse: 0.", "climb to", "capacity ↑"] {
        assert!(text.contains(told), "the page does not tell {told}: {text}");
    }
}

/// B holds at every rate: that it can do at least that much is an answer, and the estimate is the least that it can be.
#[test]
fn an_arm_that_never_breaks_is_better_by_at_least_the_end_of_the_climb() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let (slow, quick) = (broker(6), broker(1));
    for (a, b, verdict, code) in [(&slow, &quick, "better", 0), (&quick, &slow, "worse", 3)] {
        let arms = ["compare", a, b, "--control-pairs", "5", "--max-rate", "300"];
        let ran = hone_in(folder.path(), &[&arms[..], &CLIMB].concat()).expect_code(code);
        let said = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        let headline = if verdict == "worse" { "regression" } else { verdict };
        assert!(said.starts_with(&format!("B against A: {headline}. ")), "{said}");
        assert!(said.contains(&format!(" capacity is {verdict}: ")), "{said}");
        let bound = if code == 0 { " B at least 2" } else { ", A at least 2" };
        assert!(said.contains(bound) && said.contains("p50 <= 20 ms held at every step"), "{said}");
        hone_in(folder.path(), &["report", "runs/compare-001"]).expect_code(0);
    }
}

#[test]
fn a_target_that_is_too_good_for_the_climb_is_not_left_out_in_silence() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (broker(1), broker(2));
    let arms = ["compare", &a, &b, "--control-pairs", "0", "--max-rate", "160", "--json", "--quiet"];
    let ran = hone_in(folder.path(), &[&arms[..], &CLIMB].concat()).expect_code(1);
    assert!(ran.stderr.contains("at every rate up to 160 requests/s"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("--resume"), "which would measure the same again: {}", ran.stderr);
    for (wrong, message) in [
        (
            &["--primary", "capacity"][..],
            "the capacity needs an SLO, the latency goal that must hold: for example slo p99=10ms",
        ),
        (&["--slo", "p99=10ms"], "are for the capacity"),
        (&["--capacity", "--slo", "p99=10ms", "--duration", "3"], "--slo does not go with --duration"),
        (
            &["--capacity", "--slo", "p99.9=10ms", "--start-rate", "1"],
            "use a percentile closer to the median",
        ),
        (&["--capacity", "--slo", "p99=10ms", "--budget", "1m"], "is too small"),
        (&["--capacity", "--slo", "p99=10ms", "--max-rate", "500"], "its highest rate must be above that"),
        (&["--capacity", "--slo", "p99=10ms", "--mode", "duet"], "one after the other"),
        (&["--capacity", "--slo", "p99=10ms", "--guard-metric", "latency-p99"], "the load is a ramp search"),
    ] {
        let ran = hone_in(folder.path(), &[&["compare", &a, &b][..], wrong].concat());
        assert!(ran.code != 0 && ran.stderr.contains(message), "{wrong:?}: {} {}", ran.code, ran.stderr);
    }
}

#[test]
fn tuning_for_a_capacity_keeps_what_raises_it() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let target = broker(6);
    let file = format!(
        r#"
name = "high"
[tune]
target = "{target}"
objective = "capacity"
slo = "p50=20ms"
climb_growth = 1.5
pairs = 5
control_pairs = 0
keep_disturbed = true
find = false
[[tune.candidate]]
set = 'arg.--fault=write-delay\,ms=2'
[workload.high]
requests_per_s = 60
connections = 1
partitions = 1
warmup_requests = 50
"#
    );
    fs::write(folder.path().join("hone.toml"), file).unwrap();
    let ran = hone_in(folder.path(), &["tune", "hone.toml", "--json"]).expect_code(0);
    let body = ran.json()["body"].clone();
    assert_eq!(body["kept"].as_array().unwrap().len(), 1, "{body:#}");
    let estimate = &body["steps"][0]["step"]["comparison"]["judgements"][0]["estimate"];
    assert!(estimate["ratio"].as_f64().unwrap() > 1.5, "{estimate}");
    assert!(
        body["load"].as_str().unwrap().contains("climbing until p50 <= 20 ms breaks"),
        "{}",
        body["load"]
    );
    // No two windows had the same load, so the page shows no other figure.
    let run = folder.path().join("runs/high-001");
    for file in ["tuning.md", "report.html"] {
        let told = fs::read_to_string(run.join(file)).unwrap();
        assert!(told.contains("capacity, requests/s"), "{file}: {told}");
        for other in ["CPU time per record", "CPU, cores", "batches per second", "Saved at this load"] {
            assert!(!told.contains(other), "{file} tells {other}");
        }
    }
    let comment = hone_in(folder.path(), &["report", "runs/high-001", "--pr-comment"]).expect_code(0).stdout;
    assert!(!comment.contains("Saved at this load") && !comment.contains("p99"), "{comment}");
}

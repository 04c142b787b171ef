//! `hone compare` on real brokers: addresses and commands, duet and solo, and what stands on the disk afterwards.

#![expect(clippy::disallowed_methods, reason = "tests start proxies as their users do")]

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

mod stage;
use stage::{Broker, hone, hone_command, hone_in};

fn broker_command(options: &str) -> String {
    let hone = env!("CARGO_BIN_EXE_hone");
    format!("{hone} broker --listen 127.0.0.1:{{port}} --metrics-listen off --data {{data}}{options}")
}

// The tests share two cores with each other: lateness of the generator is theirs, and not what is tested here.
const SMALL: [&str; 13] = [
    "--no-counts",
    "--rate",
    "800",
    "--duration",
    "0.5",
    "--warmup",
    "100",
    "--pairs",
    "6",
    "--max-lateness",
    "2s",
    "--reserve",
    "0",
];

#[test]
fn two_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (Broker::start(), Broker::start());
    let ran = hone_in(
        folder.path(),
        &[&["compare", &a.address, &b.address, "--json", "--quiet", "--control-pairs", "5"][..], &SMALL]
            .concat(),
    );
    // With these short windows any verdict is possible; what must hold is the record.
    assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
    let record = ran.json();
    let body = &record["body"];
    assert_eq!(record["kind"], "comparison");
    // A broker that runs already has no twin for the control of a duet.
    assert_eq!(body["design"]["mode"], "solo");
    let pairs = body["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 11);
    // Each of the two brokers is its own control, in turn.
    let run = folder.path().join("runs/compare-001");
    let loaded = |name: &serde_json::Value| -> serde_json::Value {
        let text = fs::read(run.join(name.as_str().unwrap())).unwrap();
        serde_json::from_slice::<serde_json::Value>(&text).unwrap()["body"]["address"].clone()
    };
    let controls: Vec<_> = pairs.iter().filter(|pair| pair["kind"] == "control").collect();
    for (pair, broker) in controls.iter().zip([&a, &b, &a, &b, &a]) {
        assert_eq!([loaded(&pair["window_a"]), loaded(&pair["window_b"])], [&*broker.address; 2], "{pair}");
    }
    let html = hone(&["report", run.to_str().unwrap()]).expect_code(0).stdout;
    assert!(fs::read_to_string(html.trim()).unwrap().contains("B with B in turn"));
    for pair in pairs.iter().filter(|pair| pair["dropped"].is_null()) {
        let has = |side: &str, metric: &str| !pair[side][metric].is_null();
        assert!(has("values_a", "latency-p50") && has("values_b", "latency-p50"), "{pair}");
        assert!(has("values_a", "cpu-per-record") && has("values_b", "cpu-per-record"), "{pair}");
    }
    assert!(
        pairs.iter().filter(|pair| pair["dropped"].is_null()).count() > 2,
        "next to no pair counts: {pairs:#?}"
    );
}

#[test]
fn the_rule_is_on_the_disk_and_every_pair_has_its_windows() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (broker_command(""), broker_command(" --threads 1"));
    let args = [&["compare", &a, &b, "--mode", "solo", "--control-pairs", "0"][..], &SMALL].concat();
    let ran = hone_in(folder.path(), &args);
    assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
    let run = folder.path().join("runs/compare-001");
    let design: serde_json::Value =
        serde_json::from_slice(&fs::read(run.join("design.json")).unwrap()).unwrap();
    assert!(design["rule"]["words"].as_str().unwrap().contains("Primary metric: CPU per record"));
    assert_eq!(fs::read_dir(run.join("windows")).unwrap().count(), 12);
    assert_eq!(fs::read_dir(run.join("pairs")).unwrap().count(), 6);
    assert_eq!(fs::read_dir(run.join("scratch")).unwrap().count(), 0, "data folders were left");
    assert_eq!(design["mode"], "solo");
    // The ledger has it, with each window by its hash; one that was changed since is named.
    let verify = || hone_in(folder.path(), &["ledger", "verify", "--with-records"]);
    assert!(verify().expect_code(0).stdout.contains("0 no longer available, 0 changed"));
    let shown = hone_in(folder.path(), &["ledger", "show", "--verb", "compare", "--json"]).json();
    let entry = &shown["body"]["entries"][0]["entry"];
    let comparison: serde_json::Value =
        serde_json::from_slice(&fs::read(run.join("comparison.json")).unwrap()).unwrap();
    let estimate = &comparison["body"]["judgements"][0]["estimate"];
    // Beside busy neighbours too few pairs may count for an estimate.
    if !estimate.is_null() {
        let told = serde_json::json!([estimate["ratio"], estimate["low"], estimate["high"]]);
        assert_eq!(entry["ratio"], told);
    }
    assert_eq!((&entry["rule"], &entry["pairs"]), (&design["rule"]["words"], &estimate["pairs"]));
    let kept = fs::read(run.join("design.json")).unwrap();
    fs::write(run.join("design.json"), "{}").unwrap();
    let changed = verify().expect_code(1).stdout;
    assert!(changed.contains("design.json, whose content was changed"), "{changed}");
    fs::write(run.join("design.json"), kept).unwrap();
    let read = |entry: std::io::Result<fs::DirEntry>| fs::read(entry.unwrap().path()).unwrap();
    let pairs = fs::read_dir(run.join("pairs")).unwrap().map(read);
    let counts =
        |pair: Vec<u8>| serde_json::from_slice::<serde_json::Value>(&pair).unwrap()["dropped"].is_null();
    // Neighbours may have disturbed so many that too few are left.
    let counted = pairs.map(counts).filter(|counts| *counts).count();
    let said =
        if counted < 5 { "Inconclusive: CPU per record could not be estimated" } else { "B against A: " };
    assert!(ran.stdout.starts_with(said), "{counted} count: {}", ran.stdout);
    let page = hone(&["report", run.to_str().unwrap()]).expect_code(0);
    let html = fs::read_to_string(page.stdout.trim()).unwrap();
    assert!(html.contains("CPU per record") && (counted < 5 || html.contains("<svg")));
}

/// A load that costs one arm far more than the other needs no statistics to be seen.
#[test]
fn an_arm_that_works_twice_as_much_is_worse() {
    let folder = tempfile::tempdir().unwrap();
    let plain = broker_command("");
    let busy = stage::script(
        folder.path(),
        "busy",
        // A neighbour inside the arm's process tree that burns half a core.
        "(while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.02; done) & exec \"$@\"",
    );
    let worse = format!("{} {plain}", busy.display());
    // The arm itself is what disturbs.
    let args = ["compare", &plain, &worse, "--control-pairs", "0", "--keep-disturbed"];
    let ran = hone_in(folder.path(), &[&args[..], &SMALL].concat()).expect_code(3);
    assert!(ran.stdout.contains("worse"), "{}", ran.stdout);
}

#[test]
fn the_same_program_has_the_same_number_of_instructions() {
    if stage::tools::find("qemu-x86_64").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let arm = broker_command(" --threads 1");
    let small = &SMALL[1..];
    let ran = hone_in(
        folder.path(),
        &[&["compare", &arm, &arm, "--json", "--control-pairs", "0"][..], small].concat(),
    );
    let counted = &ran.json()["body"]["counted"];
    assert!(!counted.is_null(), "{}", ran.stderr);
    let of = |side: usize, repetition: usize| {
        counted["counts"][side]["instructions"][repetition].as_f64().unwrap()
    };
    let first = of(0, 0);
    for (side, repetition) in [(0, 1), (1, 0), (1, 1)] {
        let ratio = of(side, repetition) / first;
        assert!((ratio - 1.0).abs() < 0.01, "{ratio}: {counted}");
    }
    assert!(counted["work"].as_str().unwrap().contains("requests on one connection"), "{counted}");
    assert!(counted["counts"][0]["misses"].as_array().unwrap().len() > 4, "{counted}");
}

#[test]
fn saved_windows_have_ratios_and_say_what_they_cannot_show() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::start();
    let small = ["--rate", "500", "--duration", "0.5", "--warmup", "10", "--max-lateness", "2s", "--quiet"];
    for (name, acks) in [("a.json", "all"), ("b.json", "1")] {
        let args = [&["load", &broker.address, "--output", name, "--acks", acks][..], &small].concat();
        hone_in(folder.path(), &args).expect_code(0);
    }
    let shown = hone_in(folder.path(), &["compare", "a.json", "b.json"]).expect_code(0).stdout;
    for part in [
        "There is no ratio",
        "a single window does not show",
        "load, acks: -1 in A, 1 in B",
        "there is no A/A control",
    ] {
        assert!(shown.contains(part), "{shown}");
    }
    let record = hone_in(folder.path(), &["compare", "a.json", "b.json", "--json"]).expect_code(0).json();
    assert_eq!(record["kind"], "saved-comparison");
    assert!(record["body"]["estimates"][0]["ratio"].as_f64().unwrap() > 0.0);
    hone_in(folder.path(), &["compare", "a.json", "b.json", "--primary", "throughput"])
        .expect_code(2)
        .expect_error("--find-capacity");
    hone_in(folder.path(), &["compare", "a.json", "./a.json"])
        .expect_code(2)
        .expect_error("A and B name the same record");
    fs::create_dir(folder.path().join("none")).unwrap();
    hone_in(folder.path(), &["compare", "a.json", "none"])
        .expect_code(1)
        .expect_error("has no record of a window");
}

/// A broker that crashes at its second start and at no other.
fn crashing_once(folder: &Path) -> String {
    let hone = env!("CARGO_BIN_EXE_hone");
    let starts = folder.join("starts");
    let body = format!(
        "echo x >> {0}; [ $(wc -l < {0}) -eq 2 ] && {{ echo out of luck >&2; exit 7; }}; exec {hone} broker \"$@\"",
        starts.display()
    );
    let script = stage::script(folder, "broker-b", &body);
    format!("{} --listen 127.0.0.1:{{port}} --metrics-listen off --data {{data}}", script.display())
}

/// What always comes second finds the disk and the caches as the first one left them: chance decides, and what was drawn is what happens.
#[test]
fn arms_begin_in_the_order_that_was_drawn() {
    for mode in ["solo", "duet"] {
        let folder = tempfile::tempdir().unwrap();
        let starts = folder.path().join("starts");
        let telling = |name: &str| {
            let hone = env!("CARGO_BIN_EXE_hone");
            let body = format!("echo {name} >> {}; exec {hone} broker \"$@\"", starts.display());
            let script = stage::script(folder.path(), &format!("broker-{name}"), &body);
            format!("{} --listen 127.0.0.1:{{port}} --metrics-listen off --data {{data}}", script.display())
        };
        let (a, b) = (telling("A"), telling("B"));
        let args =
            [&["compare", &a, &b, "--mode", mode, "--control-pairs", "0", "--json", "--quiet"][..], &SMALL]
                .concat();
        let ran = hone_in(folder.path(), &args);
        assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
        let swapped = ran.json()["body"]["design"]["swapped"].clone();
        let swapped: Vec<bool> = serde_json::from_value(swapped).unwrap();
        assert!(swapped.contains(&true) && swapped.contains(&false), "{swapped:?}");
        let drawn: String =
            swapped.iter().map(|swapped| if *swapped { "B\nA\n" } else { "A\nB\n" }).collect();
        assert_eq!(fs::read_to_string(&starts).unwrap(), drawn, "{mode}");
    }
}

#[test]
fn an_arm_that_crashes_is_an_outcome_that_is_not_measured_again() {
    for mode in ["solo", "duet"] {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (broker_command(""), crashing_once(folder.path()));
        let args =
            [&["compare", &a, &b, "--mode", mode, "--control-pairs", "0", "--json", "--quiet"][..], &SMALL]
                .concat();
        let ran = hone_in(folder.path(), &args);
        assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
        let pairs = ran.json()["body"]["pairs"].clone();
        let reason = pairs[1]["dropped"].as_str().unwrap();
        assert!(reason.contains("B did not start") && reason.contains("out of luck"), "{reason}");
        assert_eq!(pairs[1]["troubles"], serde_json::json!([[], [reason]]));
        assert_eq!((&pairs[1]["window_b"], &pairs[1]["values_b"]), (&"".into(), &serde_json::json!({})));
        let run = folder.path().join("runs/compare-001");
        // Its report knows of windows that are not there.
        hone_in(folder.path(), &["report", run.to_str().unwrap()]).expect_code(0);
        // Going on measures nothing again, and the crash stays in the record.
        let starts = fs::read_to_string(folder.path().join("starts")).unwrap();
        let resumed =
            hone_in(folder.path(), &["compare", "--resume", run.to_str().unwrap(), "--json", "--quiet"]);
        assert_eq!(resumed.json()["body"]["pairs"], pairs, "{}", resumed.stderr);
        assert_eq!(fs::read_to_string(folder.path().join("starts")).unwrap(), starts);
    }
}

/// A broker that does not start at its second, fourth and sixth start.
fn failing_at_times(folder: &Path, name: &str) -> String {
    let hone = env!("CARGO_BIN_EXE_hone");
    let starts = folder.join(format!("{name}-starts"));
    let body = format!(
        "echo x >> {0}; case $(wc -l < {0}) in 2|4|6) echo out of luck >&2; exit 7;; esac; exec {hone} broker \"$@\"",
        starts.display()
    );
    let script = stage::script(folder, name, &body);
    format!("{} --listen 127.0.0.1:{{port}} --metrics-listen off --data {{data}}", script.display())
}

/// Excluded pairs are measured again, A/B and A/A alike, until as many count as were planned; the excluded ones stay in the record.
#[test]
fn excluded_pairs_are_measured_again_out_of_the_reserve() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (failing_at_times(folder.path(), "broker-a"), broker_command(""));
    let args = ["compare", &a, &b, "--mode", "solo", "--control-pairs", "5", "--keep-disturbed", "--json"];
    let small = SMALL.map(|word| if word == "0" { "4" } else { word });
    // What short windows scatter is no matter here.
    let ran = hone_in(folder.path(), &[&args[..], &["--effect", "90%", "--quiet"], &small].concat());
    assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
    let body = ran.json()["body"].clone();
    let pairs = body["pairs"].as_array().unwrap().clone();
    let of = |kind: &str, counts: bool| {
        let is_one = |pair: &&serde_json::Value| pair["kind"] == kind && pair["dropped"].is_null() == counts;
        pairs.iter().filter(is_one).count()
    };
    assert_eq!((of("test", true), of("control", true)), (6, 5), "{pairs:#?}");
    assert_eq!(of("test", false) + of("control", false), 3, "each failed start is an outcome");
    assert_eq!((pairs.len(), body["unmeasured_pairs"].as_u64()), (14, Some(0)));
    let estimate = &body["judgements"][0]["estimate"];
    assert_eq!((estimate["metric"].as_str(), estimate["pairs"].as_u64()), (Some("cpu-per-record"), Some(6)));
    // Going on measures nothing again.
    let starts = fs::read_to_string(folder.path().join("broker-a-starts")).unwrap();
    let resumed = hone_in(folder.path(), &["compare", "--resume", "runs/compare-001", "--json", "--quiet"]);
    assert_eq!(resumed.json()["body"]["pairs"], body["pairs"], "{}", resumed.stderr);
    assert_eq!(fs::read_to_string(folder.path().join("broker-a-starts")).unwrap(), starts);
}

/// Every second start costs far more than the others, so few pairs show nothing: more are measured, and as many again when it is resumed.
#[test]
fn pairs_that_scatter_are_more_than_planned() {
    let folder = tempfile::tempdir().unwrap();
    let starts = folder.path().join("starts");
    let burn = "(while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.02; done) &";
    let body =
        format!("echo x >> {0}; [ $(($(wc -l < {0}) % 2)) = 0 ] || {burn} exec \"$@\"", starts.display());
    let moody = stage::script(folder.path(), "moody", &body);
    let a = format!("{} {}", moody.display(), broker_command(""));
    let args = ["compare", &a, &a, "--mode", "solo", "--control-pairs", "5", "--keep-disturbed", "--json"];
    let small: Vec<&str> = SMALL.iter().map(|word| if *word == "6" { "5" } else { word }).collect();
    let without_reserve = &small[..small.len() - 2];
    let ran = hone_in(folder.path(), &[&args[..], without_reserve].concat());
    assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
    let told = "pairs predict that 5 A/B pairs detect a difference of";
    assert!(ran.stderr.contains(told) && ran.stderr.contains("but not one of 10 %"), "{}", ran.stderr);
    let body = ran.json()["body"].clone();
    assert_eq!(body["design"]["effect"]["ratio"].as_f64(), Some(1.1));
    let counted = |kind: &str| {
        let pairs = body["pairs"].as_array().unwrap().iter();
        pairs.filter(|pair| pair["kind"] == kind && pair["dropped"].is_null()).count()
    };
    assert_eq!((counted("test"), counted("control")), (15, 15), "three times the plan and no more");
    let resumed = hone_in(folder.path(), &["compare", "--resume", "runs/compare-001", "--json", "--quiet"]);
    assert_eq!(resumed.json()["body"]["pairs"], body["pairs"], "{}", resumed.stderr);
}

/// A target that gives up in the end takes nothing with it of what was measured before.
#[test]
fn pairs_that_counted_are_judged_although_the_last_ones_all_fail() {
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("starts");
    let body = format!("echo x >> {0}; [ $(wc -l < {0}) -le 6 ] || exit 1; exec \"$@\"", count.display());
    let tiring = stage::script(folder.path(), "tiring", &body);
    let (a, b) = (format!("{} {}", tiring.display(), broker_command("")), broker_command(""));
    let small: Vec<&str> = SMALL
        .iter()
        .map(|word| match *word {
            "6" => "10",
            "0" => "4",
            other => other,
        })
        .collect();
    let args = ["compare", &a, &b, "--mode", "solo", "--control-pairs", "0", "--keep-disturbed", "--json"];
    let ran = hone_in(folder.path(), &[&args[..], &small].concat());
    assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
    let record = ran.json();
    let pairs = record["body"]["pairs"].as_array().unwrap();
    let counted = pairs.iter().filter(|pair| pair["dropped"].is_null()).count();
    assert!((5..=6).contains(&counted), "{counted} of {} count", pairs.len());
    assert!(!record["body"]["judgements"].as_array().unwrap().is_empty());
}

/// It answers its warm-up, and dies in every window: that is an answer about B, and not a failed run.
#[test]
fn a_b_that_dies_in_every_window_is_worse() {
    for mode in ["solo", "duet"] {
        let folder = tempfile::tempdir().unwrap();
        let dying = stage::script(folder.path(), "dying", "(sleep 1.5; kill -9 $$) & exec \"$@\"");
        let (a, b) = (broker_command(""), format!("{} {}", dying.display(), broker_command("")));
        let args = ["compare", &a, &b, "--mode", mode, "--control-pairs", "0", "--keep-disturbed"];
        // A start takes its time on a busy machine, and the end has to fall into the window.
        let small = SMALL.map(|word| if word == "0.5" { "3" } else { word });
        let ran = hone_in(folder.path(), &[&args[..], &small].concat()).expect_code(3);
        let said = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.starts_with("B against A: regression. B does not sustain this load."), "{mode}: {said}");
        assert!(said.contains("B alone had trouble in 6 A/B pairs, the other arm alone in 0"), "{said}");
        assert!(said.contains("Last failure: B failed in its window"), "{said}");
        let comment = hone_in(folder.path(), &["report", "runs/compare-001/comparison.json", "--pr-comment"]);
        assert!(comment.expect_code(0).stdout.contains("does not sustain this load"), "the comment hides it");
        hone_in(folder.path(), &["report", "runs/compare-001"]).expect_code(0);
    }
}

/// Stopped for 150 ms of every 2,000: 8 % of the requests wait, which no median and no CPU time shows.
#[test]
fn a_regression_of_p99_alone_reaches_the_first_line_the_comment_and_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let pausing = stage::script(
        folder.path(),
        "pausing",
        "me=$$; (while sleep 1.85 && kill -STOP $me; do sleep 0.15; kill -CONT $me || exit; done) & exec \"$@\"",
    );
    let (a, b) = (broker_command(""), format!("{} {}", pausing.display(), broker_command("")));
    let args = ["compare", &a, &b, "--mode", "duet", "--control-pairs", "5", "--keep-disturbed"];
    let load = ["--rate", "1000", "--duration", "4", "--warmup", "100", "--pairs", "7"];
    let limit = ["--max-lateness", "2s", "--primary", "latency-p50"];
    let ran = hone_in(folder.path(), &[&args[..], &load, &limit].concat()).expect_code(3);
    let said = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let (headline, _) = said.split_once(". ").unwrap();
    assert!(headline.starts_with("B against A: regression in ") && headline.contains("p50"), "{said}");
    assert!(headline.contains("p99") && said.contains("Regression: guard metric p99 "), "{said}");
    let comment = hone_in(folder.path(), &["report", "runs/compare-001/comparison.json", "--pr-comment"]);
    let comment = comment.expect_code(0).stdout;
    assert!(comment.starts_with(&format!("**{headline}.**")), "{comment}");
    assert!(
        comment.lines().any(|line| line.starts_with("| p99 | ") && line.contains("! worse")),
        "{comment}"
    );
    let shown = hone_in(folder.path(), &["ledger", "show"]).expect_code(0).stdout;
    assert!(shown.contains("p99 worse"), "{shown}");
}

/// 300 MB in a helper of the server, which no latency and no CPU time shows.
#[test]
fn a_regression_of_memory_alone_reaches_the_first_line_the_comment_and_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let holding = stage::script(
        folder.path(),
        "holding",
        "(head -c 300M /dev/zero; exec sleep 100) | tail -c 300M >/dev/null & exec \"$@\"",
    );
    let (a, b) = (broker_command(""), format!("{} {}", holding.display(), broker_command("")));
    let args = ["compare", &a, &b, "--control-pairs", "5", "--keep-disturbed", "--primary", "latency-p50"];
    let ran = hone_in(folder.path(), &[&args[..], &SMALL].concat()).expect_code(3);
    let said = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let (headline, _) = said.split_once(". ").unwrap();
    assert!(
        headline.starts_with("B against A: regression in ") && headline.contains("memory peak"),
        "{said}"
    );
    assert!(said.contains("Regression: guard metric memory peak "), "{said}");
    let comment = hone_in(folder.path(), &["report", "runs/compare-001/comparison.json", "--pr-comment"]);
    let comment = comment.expect_code(0).stdout;
    let has = |line: &str| line.starts_with("| memory peak | ") && line.contains("! worse");
    assert!(comment.lines().any(has), "{comment}");
    let record: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path().join("runs/compare-001/comparison.json")).unwrap())
            .unwrap();
    let judged = record["body"]["judgements"].as_array().unwrap();
    let memory = judged.iter().find(|one| one["estimate"]["metric"] == "memory-peak").unwrap();
    let [a, b] = ["value_a", "value_b"].map(|side| memory["estimate"][side].as_f64().unwrap());
    let more_mib = (b - a) / f64::from(1 << 20);
    assert!((240.0..330.0).contains(&more_mib), "{more_mib} MiB more of 300");
}

/// A control group with a CPU limit, where this machine lets one be made.
struct LimitedGroup(PathBuf);

impl LimitedGroup {
    /// `None` without the right to make one.
    fn of_cores(cores: f64) -> Option<Self> {
        let name = format!("hone-test-{}", std::process::id());
        let quota_us = (cores * 100_000.0) as u64;
        [("/sys/fs/cgroup/cpu", false), ("/sys/fs/cgroup", true)].into_iter().find_map(
            |(root, is_unified)| {
                let group = Self(Path::new(root).join(&name));
                fs::create_dir(&group.0).ok()?;
                let limit = match is_unified {
                    true => fs::write(group.0.join("cpu.max"), format!("{quota_us} 100000")),
                    false => fs::write(group.0.join("cpu.cfs_quota_us"), quota_us.to_string()),
                };
                limit.ok().map(|()| group)
            },
        )
    }
}

impl Drop for LimitedGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// A limit of the control group stops B in the middle of its work: the answer names it beside the latencies that it makes.
#[test]
#[expect(clippy::print_stderr, reason = "a test that does not run must say so")]
fn a_cpu_limit_that_stops_an_arm_is_named_beside_its_latencies() {
    let Some(group) = LimitedGroup::of_cores(0.05) else {
        eprintln!("skipped: no control group can be made here");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let body = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", group.0.display());
    let limited = stage::script(folder.path(), "limited", &body);
    let (a, b) = (broker_command(""), format!("{} {}", limited.display(), broker_command("")));
    let args = ["compare", &a, &b, "--mode", "duet", "--control-pairs", "0", "--keep-disturbed"];
    let load =
        ["--rate", "400", "--duration", "3", "--warmup", "100", "--pairs", "6", "--primary", "latency-p50"];
    let ran =
        hone_in(folder.path(), &[&args[..], &load, &["--max-lateness", "2s", "--reserve", "0"]].concat());
    let ran = ran.expect_code(3);
    let said = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("Throttled: ") && said.contains("the CPU limit of 0.05 cores throttled B in "),
        "{said}"
    );
    let comment = hone_in(folder.path(), &["report", "runs/compare-001/comparison.json", "--pr-comment"]);
    assert!(comment.expect_code(0).stdout.contains("the CPU limit of 0.05 cores throttled B in "));
}

/// Puts itself into the background as daemons do: a second fork in a session of its own, whose parent ends. `stays` is what the command
/// itself does then.
fn daemonising(folder: &Path, name: &str, stays: &str) -> String {
    let hone = env!("CARGO_BIN_EXE_hone");
    let burn = "while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.02; done";
    let busy =
        stage::script(folder, &format!("busy-{name}"), &format!("({burn}) & exec {hone} broker \"$@\""));
    let body = format!("(setsid {} \"$@\" >/dev/null 2>&1 &); {stays}", busy.display());
    let script = stage::script(folder, name, &body);
    format!("{} --listen 127.0.0.1:{{port}} --metrics-listen off --data {{data}}", script.display())
}

/// The command lines of processes that name this folder.
fn left_behind(folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(&folder)).collect()
}

/// The process that listens is measured, and not the one that sleeps in its place: a B that takes half a core more is worse.
#[test]
fn a_server_in_the_background_is_followed_measured_and_ended() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (broker_command(""), daemonising(folder.path(), "daemon", "exec sleep 1000"));
    let args = ["compare", &a, &b, "--mode", "solo", "--control-pairs", "0", "--keep-disturbed", "--explain"];
    let ran = hone_in(folder.path(), &[&args[..], &SMALL].concat()).expect_code(3);
    let said = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.starts_with("B against A: regression in CPU per record")
            || said.starts_with("B against A: regression."),
        "{said}"
    );
    assert!(said.contains("CPU per record is worse"), "{said}");
    assert!(said.contains(", in the background) in B."), "{said}");
    assert_eq!(left_behind(folder.path()), Vec::<String>::new());
}

#[test]
fn a_command_that_leaves_its_server_behind_and_ends_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (broker_command(""), daemonising(folder.path(), "gone", "exit 0"));
    let args = ["compare", &a, &b, "--mode", "solo", "--control-pairs", "0"];
    let ran = hone_in(folder.path(), &[&args[..], &SMALL].concat()).expect_code(2);
    ran.expect_error("in the background; Hone has ended that");
    assert_eq!(left_behind(folder.path()), Vec::<String>::new());
}

/// Passes connections on, as a proxy does: `proxy.py LISTEN TO`.
const PROXY: &str = "
import socket, sys, threading
def place(text):
    host, port = text.rsplit(':', 1)
    return host, int(port)
def passed(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass
front = socket.create_server(place(sys.argv[1]))
while True:
    client, _ = front.accept()
    server = socket.create_connection(place(sys.argv[2]))
    threading.Thread(target=passed, args=(client, server), daemon=True).start()
    threading.Thread(target=passed, args=(server, client), daemon=True).start()
";

/// A broker whose clients all come through a proxy: it tells them the proxy's address as its own.
struct Behind {
    broker: Broker,
    front: String,
    proxy: Child,
}

impl Behind {
    fn start(python: &Path) -> Self {
        let front = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let broker = Broker::start_as(hone_command().args(["broker", "--advertise", &front]));
        let proxy = Command::new(python).args(["-c", PROXY, &front, &broker.address]).spawn().unwrap();
        while TcpStream::connect(&front).is_err() {
            thread::sleep(Duration::from_millis(20));
        }
        Self { broker, front, proxy }
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
    }
}

/// The proxy is what listens and what is measured; who does the work behind it is said wherever the result is.
#[test]
fn what_stands_behind_a_local_proxy_is_named() {
    let Some(python) = stage::clients::python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (Behind::start(&python), Broker::start());
    let args =
        ["compare", &a.front, &b.address, "--mode", "solo", "--control-pairs", "0", "--keep-disturbed"];
    let ran = hone_in(folder.path(), &[&args[..], &SMALL].concat());
    assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
    let said = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let server = format!("hone (process {}) at {}", a.broker.child.id(), a.broker.address);
    let wanted = format!(
        "Not counted: A passes work on to {server}; no figure of this comparison includes its CPU and memory"
    );
    assert!(said.contains(&wanted), "{said}");
    let comment = hone_in(folder.path(), &["report", "runs/compare-001/comparison.json", "--pr-comment"]);
    assert!(comment.expect_code(0).stdout.contains(&wanted));
    let record: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path().join("runs/compare-001/comparison.json")).unwrap())
            .unwrap();
    assert_eq!(record["body"]["behind"], serde_json::json!([[server], []]));
}

/// What a command starts answers on its port, and sends its clients to a broker that was there before.
#[test]
fn a_command_that_the_load_passes_by_is_refused_by_name() {
    let Some(python) = stage::clients::python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let before = Broker::start();
    let script = folder.path().join("proxy.py");
    fs::write(&script, PROXY).unwrap();
    let (python, script) = (python.display(), script.display());
    let b = format!("{python} {script} 127.0.0.1:{{port}} {}", before.address);
    let args = ["compare", &broker_command(""), &b, "--mode", "solo", "--control-pairs", "0"];
    let ran = hone_in(folder.path(), &[&args[..], &SMALL].concat()).expect_code(2);
    let why = format!(
        "the load goes to broker 1 at {}, which is hone (process {}); the command did not start that process",
        before.address,
        before.child.id()
    );
    ran.expect_error(&why);
}

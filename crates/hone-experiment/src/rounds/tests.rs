//! Rounds against a known truth: variants of `fixtures/spinner` whose difference is built in.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hone_record::{Judgement, Verdict};
use hone_tool::{Call, Runner as _};

use super::*;
use crate::arm::Ways;
use crate::bench::tests::{Lab, broker, requests, tool, words};

const WORK: u32 = 1_000;

fn rounds<'a>(lab: &'a Lab, variants: Vec<Runner>, workload: Workload, count: u32, block: u32) -> Rounds<'a> {
    let settings = Compare {
        rounds: count,
        block_rounds: block,
        guards: vec![Metric::Throughput],
        // A false alarm in one of many runs of this test would be one too many.
        alpha: 0.01,
        seed: 5,
        ..Compare::default()
    };
    // Tests run at the same time as each other, and as other programs on this machine.
    let plan = RoundPlan { keep_disturbed: true, ..plan(&settings, 1, &workload, variants.len()) };
    Rounds {
        variants,
        workload,
        plan,
        bench: lab.bench(),
        folder: &lab.folder,
        prefix: "judge/".to_owned(),
        machine: Machine::default(),
        most_saved: None,
        fresh_programs: true,
        limit_s: None,
    }
}

/// Baseline, twin, and children of the baseline (or of another) by name, program and parent.
fn tree(arm: impl Fn(&str, &Path) -> Arm, baseline: &Path, children: &[(&str, &Path, usize)]) -> Vec<Runner> {
    let twin = baseline.with_extension("twin");
    fs::copy(baseline, &twin).unwrap();
    let one = |name: &str, path: &Path, parent| Runner {
        name: name.to_owned(),
        parent,
        arms: vec![arm(name, path)],
    };
    let mut all = vec![one("baseline", baseline, None), one("twin", &twin, None)];
    all.extend(children.iter().map(|(name, path, parent)| one(name, path, Some(*parent))));
    all
}

fn copy_of(path: &Path, name: &str) -> PathBuf {
    let copy = path.with_extension(name);
    fs::copy(path, &copy).unwrap();
    copy
}

fn judgement(comparison: &Comparison, metric: Metric) -> &Judgement {
    comparison.judgements.iter().find(|found| found.estimate.metric == metric).unwrap()
}

/// Checks that the verdict is right, and the truth at most 10 % outside of the confidence interval. Besides the planted work, a
/// request has a constant cost, which is higher on a busy machine and pulls a ratio towards 1.
#[track_caller]
fn check(comparison: &Comparison, names: [&str; 2], verdict: Verdict, truth: f64) {
    assert_eq!([comparison.a.as_str(), comparison.b.as_str()], names);
    let found = judgement(comparison, Metric::CpuPerRecord);
    assert_eq!(found.verdict, verdict, "{found:?}\n{:?}", comparison.pairs);
    let span = found.estimate.low / 1.1..found.estimate.high * 1.1;
    assert!(span.contains(&truth), "{names:?}: truly {truth}, {:?}", found.estimate);
}

#[track_caller]
fn check_silent(comparison: &Comparison, names: [&str; 2]) {
    let found = judgement(comparison, Metric::CpuPerRecord).verdict;
    assert!([Verdict::Equivalent, Verdict::NotShown].contains(&found), "{:?}", comparison.judgements);
    check(comparison, names, found, 1.0);
}

#[test]
fn servers_that_differ_by_what_was_planted_are_told_apart_and_equal_ones_are_not() {
    let lab = Lab::new();
    let plain = lab.spinner("plain", WORK, &[]);
    let slower = lab.spinner("slower", WORK * 15 / 10, &[]);
    let faster = lab.spinner("faster", WORK * 6 / 10, &[]);
    let (same, faster_too) = (copy_of(&plain, "same"), copy_of(&faster, "too"));
    let children: [(&str, &Path, usize); 4] =
        [("same", &same, 0), ("slower", &slower, 0), ("faster", &faster, 0), ("faster-too", &faster_too, 4)];
    let variants = tree(|name, path| lab.server(name, path), &plain, &children);
    let rounds = rounds(&lab, variants, tool(200), 16, 2);

    let found = judge_rounds(&rounds, &lab.progress).unwrap();
    let [direct] = &found.on_baseline[..] else { panic!("{} on the baseline", found.on_baseline.len()) };
    check(direct, ["baseline", "faster-too"], Verdict::Better, 0.6);
    let found = found.edges;
    let [same, slower, faster, faster_too] = &found[..] else { panic!("{} comparisons", found.len()) };
    check_silent(same, ["baseline", "same"]);
    check(slower, ["baseline", "slower"], Verdict::Worse, 1.5);
    check(faster, ["baseline", "faster"], Verdict::Better, 0.6);
    check_silent(faster_too, ["faster", "faster-too"]);
    // In a closed loop throughput is a result, too, but it depends on other programs on this machine.
    assert_eq!(judgement(slower, Metric::Throughput).estimate.pairs, 16);
    assert!(slower.not_estimated[&Metric::LatencyP99].contains("reports no latency for them"));

    // 16 rounds, each with a test and a control, in 8 starts on which the confidence intervals are based.
    let design = &slower.design;
    assert_eq!((slower.pairs.len(), design.starts, design.pairs), (32, 8, 16));
    assert_eq!(judgement(slower, Metric::CpuPerRecord).estimate.builds.unwrap().blocks, 8);
    assert!(slower.pairs.iter().all(|pair| lab.folder.join(&pair.window_b).is_file()));
    assert_eq!(fs::read_dir(lab.folder.scratch()).unwrap().count(), 0);
}

#[test]
fn programs_that_exit_are_told_apart_by_what_they_used() {
    let lab = Lab::new();
    let plain = lab.spinner("plain", WORK, &[]);
    let slower = lab.spinner("slower", WORK * 15 / 10, &[]);
    let faster = lab.spinner("faster", WORK * 6 / 10, &[]);
    let same = copy_of(&plain, "same");
    let children: [(&str, &Path, usize); 3] =
        [("same", &same, 0), ("slower", &slower, 0), ("faster", &faster, 0)];
    let variants = tree(|name, path| lab.arm(name, path, "", Ways::default()), &plain, &children);
    let engine = Engine::Exits { arguments: words("run {operations}"), operations: 200 };
    let load = Workload::of_operations("judge", engine);
    let found = judge_rounds(&rounds(&lab, variants, load, 10, 5), &lab.progress).unwrap().edges;
    let [same, slower, faster] = &found[..] else { panic!("{} comparisons", found.len()) };
    check_silent(same, ["baseline", "same"]);
    check(slower, ["baseline", "slower"], Verdict::Worse, 1.5);
    check(faster, ["baseline", "faster"], Verdict::Better, 0.6);
    assert_eq!(slower.design.starts, 0, "each burst is a process of its own");
    let told = hone_report::verdict::sentence(slower);
    assert!(told.contains("CPU per operation is worse"), "{told}");
    assert!(slower.not_estimated[&Metric::LatencyP99].contains("reports no latency for them"));
    let labels: Vec<&str> =
        slower.judgements.iter().map(|judged| slower.label(judged.estimate.metric)).collect();
    assert!(labels.iter().all(|label| !label.contains("request") && !label.contains("record")), "{labels:?}");
}

#[test]
fn requests_of_a_schedule_make_rounds_in_which_latencies_tell_and_throughput_does_not() {
    let lab = Lab::new();
    let one = |name: &str, parent| Runner { name: name.to_owned(), parent, arms: vec![broker(&lab, name)] };
    let variants = vec![one("baseline", None), one("twin", None), one("same", Some(0))];
    let mut rounds = rounds(&lab, variants, requests(), 9, 3);
    rounds.plan.guards.clear();
    (rounds.plan.closed_loop, rounds.plan.refused) = (false, BTreeMap::new());
    let found = judge_rounds(&rounds, &lab.progress).unwrap().edges;
    let [same] = &found[..] else { panic!("{} comparisons", found.len()) };
    check_silent(same, ["baseline", "same"]);
    // On a busy machine the generator may fall behind; such windows are excluded.
    assert!(judgement(same, Metric::LatencyP50).estimate.pairs >= 5);
    assert!(same.not_estimated[&Metric::Throughput].contains("has the requested rate"));
}

/// Builds of one variant that are alternately fast and slow are no effect, although each one alone would look like one.
#[test]
fn luck_of_a_build_is_told_from_an_effect_by_several() {
    let lab = Lab::new();
    let spinner = |name: &str, share: f64| lab.spinner(name, (f64::from(WORK) * share) as u32, &[]);
    let plain = ["plain", "plain2", "plain3"].map(|name| spinner(name, 1.0));
    let lucky = [("lucky", 0.8), ("lucky2", 1.0), ("lucky3", 1.25)].map(|(name, share)| spinner(name, share));
    // Three builds give wide confidence intervals on a machine with neighbours, so the effect is large. A
    // larger one would look too small: the constant cost of a request would be half of it.
    let faster = ["faster", "faster2", "faster3"].map(|name| spinner(name, 0.5));
    let twins = plain.clone().map(|path| copy_of(&path, "twin"));
    let runner = |name: &str, paths: &[PathBuf], parent| {
        let arm =
            |path: &PathBuf| lab.arm(&path.file_name().unwrap().to_string_lossy(), path, "", Ways::default());
        Runner { name: name.to_owned(), parent, arms: paths.iter().map(arm).collect() }
    };
    let of = |builds: usize, children: [&[PathBuf]; 2], prefix: &str| {
        let variants = vec![
            runner("baseline", &plain[..builds], None),
            runner("twin", &twins[..builds], None),
            runner("lucky", children[0], Some(0)),
            runner("faster", children[1], Some(0)),
        ];
        let engine = Engine::Exits { arguments: words("run {operations}"), operations: 200 };
        let mut rounds = rounds(&lab, variants, Workload::of_operations("judge", engine), 9, 1);
        rounds.plan.builds = builds as u32;
        rounds.prefix = prefix.to_owned();
        judge_rounds(&rounds, &lab.progress).map(|found| (found.edges, rounds.plan.builds_of_blocks()))
    };
    let (found, turns) = of(3, [&lucky, &faster], "three/").unwrap();
    let [lucky_one, faster_one] = &found[..] else { panic!("{} comparisons", found.len()) };
    let judged = judgement(lucky_one, Metric::CpuPerRecord);
    assert_eq!(judged.verdict, Verdict::NotShown, "{judged:?}");
    assert!(judged.estimate.builds.unwrap().between_log_sd > 0.1, "{judged:?}");
    check(faster_one, ["baseline", "faster"], Verdict::Better, 0.5);
    // The record has the build of each pair.
    for pair in lucky_one.pairs.iter().filter(|pair| pair.kind == PairKind::Test) {
        let build = turns[pair.index as usize / 2];
        let text = fs::read_to_string(lab.folder.join(&pair.window_b)).unwrap();
        assert_eq!(pair.block, build);
        assert!(text.contains(&format!("\"{}\"", ["lucky", "lucky2", "lucky3"][build as usize])), "{build}");
    }
    assert_eq!(lucky_one.design.builds, [3, 3]);

    let (found, _) = of(1, [&lucky[..1], &faster[..1]], "one/").unwrap();
    check(&found[0], ["baseline", "lucky"], Verdict::Better, 0.8);
    let message = format!("{:#}", of(3, [&lucky, &faster[..1]], "few/").unwrap_err());
    assert!(message.contains("faster has 1 builds instead of 3"), "{message}");
}

/// It starts after the others because of a failure, so its data and its heap are younger: such pairs would make it look better.
#[test]
fn pairs_of_a_process_that_is_younger_than_the_others_do_not_count() {
    let lab = Lab::new();
    let plain = lab.spinner("plain", 10, &[]);
    let late = lab.folder.join("late");
    let script = format!(
        "#!/bin/sh\n[ -e {0}.tried ] || {{ touch {0}.tried; exit 1; }}\nexec {1} \"$@\"\n",
        late.display(),
        plain.display()
    );
    fs::write(&late, script).unwrap();
    fs::set_permissions(&late, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let same = copy_of(&plain, "same");
    let variants =
        tree(|name, path| lab.server(name, path), &plain, &[("late", &late, 0), ("same", &same, 0)]);
    let found = judge_rounds(&rounds(&lab, variants, tool(5), 9, 3), &lab.progress).unwrap().edges;
    let dropped = |comparison: &Comparison| -> Vec<String> {
        let tests = comparison.pairs.iter().filter(|pair| pair.kind == PairKind::Test);
        tests.map(|pair| pair.dropped.clone().unwrap_or_default()).collect()
    };
    let of_late = dropped(&found[0]);
    assert!(of_late[0].contains("late did not start"), "{of_late:?}");
    assert!(
        of_late[1..3].iter().all(|reason| reason.contains("younger than that of the other")),
        "{of_late:?}"
    );
    assert!(of_late[3..].iter().all(String::is_empty), "{of_late:?}");
    assert!(dropped(&found[1]).iter().all(String::is_empty));
    assert_eq!(found[0].lone_troubles(), [0, 1], "an exclusion for its age is no trouble");
}

/// Values that do not matter here, and the neighbours' disturbance.
fn burst_beside(duration_s: f64, others_share: f64) -> Burst {
    let mut window = crate::fixture::window();
    window.duration_s = duration_s;
    window.facts.others_share = others_share;
    window.facts.target_cpu = Some(hone_record::CpuSeconds { total_s: 1.0, user_share: None });
    let mut burst = Burst::default();
    burst.take(&window);
    burst
}

#[test]
fn a_neighbour_in_one_of_two_bursts_drops_the_pair_unless_they_are_too_short_to_tell() {
    let plan = RoundPlan {
        asked_reserve: None,
        ends_early: false,
        busy: false,
        variants: 3,
        rounds: 5,
        block_rounds: 1,
        builds: 1,
        closed_loop: false,
        primary: Metric::CpuPerRecord,
        guards: Vec::new(),
        alpha: 0.05,
        equivalence: 0.02,
        seed: 1,
        refused: BTreeMap::new(),
        keep_disturbed: false,
    };
    for (duration_s, keep_disturbed, dropped) in [(1.0, false, true), (0.1, false, false), (1.0, true, false)]
    {
        let design = RoundPlan { keep_disturbed, ..plan.clone() }.design([0, 2]).unwrap();
        let seen =
            vec![burst_beside(duration_s, 0.0), burst_beside(duration_s, 0.1), burst_beside(duration_s, 0.6)];
        let pairs = pairs_of([0, 2], &design, &[Round { index: 0, seen }]);
        let [test, control] = &pairs[..] else { panic!("{} pairs", pairs.len()) };
        assert_eq!(test.dropped.is_some(), dropped, "{duration_s} s: {:?}", test.dropped);
        assert_eq!((control.kind, control.dropped.as_ref()), (PairKind::Control, None));
    }
}

#[test]
fn what_was_measured_is_not_measured_again_and_other_rounds_do_not_go_on_with_it() {
    let lab = Lab::new();
    let plain = lab.spinner("plain", 10, &[]);
    let variants = || {
        let same = copy_of(&plain, "same");
        tree(|name, path| lab.server(name, path), &plain, &[("same", &same, 0)])
    };
    let load = || Workload { timeout_s: 0.1 + 30.2, ..tool(5) };
    let all = |count| rounds(&lab, variants(), load(), count, 1);
    judge_rounds(&all(6), &lab.progress).unwrap();
    let note = |index: u32| lab.folder.join(format!("judge/rounds/{index:03}.json"));
    let text = |index| fs::read_to_string(note(index)).unwrap();
    let before: Vec<String> = (0..6).map(text).collect();
    for gone in [2, 4, 5] {
        fs::remove_file(note(gone)).unwrap();
    }
    judge_rounds(&all(6), &lab.progress).unwrap();
    for kept in [0, 1, 3] {
        assert_eq!(text(kept), before[kept as usize]);
    }
    for anew in [2, 4, 5] {
        assert_ne!(text(anew), before[anew as usize]);
    }
    let message = format!("{:#}", judge_rounds(&all(7), &lab.progress).unwrap_err());
    assert!(message.contains("other rounds\n  next: start a new run"), "{message}");
    // Another rule does not work, either.
    let mut stricter = all(6);
    stricter.plan.alpha = 0.001;
    let message = format!("{:#}", judge_rounds(&stricter, &lab.progress).unwrap_err());
    assert!(
        message.contains("design-same.json, and a measured window is only judged by its own rule"),
        "{message}"
    );
    // Another program under the same name does not work, either.
    lab.spinner("plain", 11, &[]);
    let message = format!("{:#}", judge_rounds(&all(6), &lab.progress).unwrap_err());
    assert!(message.contains("other variants"), "{message}");
}

#[test]
fn a_variant_that_fails_is_left_out_and_a_baseline_that_fails_ends_the_rounds() {
    let lab = Lab::new();
    let plain = lab.spinner("plain", 10, &[]);
    let broken = lab.folder.join("broken");
    fs::copy("/bin/false", &broken).unwrap();
    let same = copy_of(&plain, "same");
    let children: [(&str, &Path, usize); 2] = [("broken", &broken, 0), ("same", &same, 0)];
    let variants = tree(|name, path| lab.server(name, path), &plain, &children);
    let found = judge_rounds(&rounds(&lab, variants, tool(5), 7, 1), &lab.progress).unwrap().edges;
    let [broken_one, same] = &found[..] else { panic!("{} comparisons", found.len()) };
    assert_eq!(broken_one.verdict(), Verdict::NotShown);
    let tests: Vec<&PairOutcome> =
        broken_one.pairs.iter().filter(|pair| pair.kind == PairKind::Test).collect();
    assert!(tests[2].dropped.as_ref().unwrap().contains("broken did not start"), "{:?}", tests[2]);
    assert!(tests[3].dropped.as_ref().unwrap().contains("given up after 3 failures in a row"));
    assert_eq!(broken_one.lone_troubles(), [0, 3], "what was not tried is no trouble");
    assert!(same.pairs.iter().all(|pair| pair.troubles.iter().all(Vec::is_empty)), "{:?}", same.pairs);
    assert_eq!(judgement(same, Metric::CpuPerRecord).estimate.pairs, 7);

    let lab = Lab::new();
    let variants = tree(|name, path| lab.server(name, path), &broken, &[("plain", &plain, 0)]);
    let message =
        format!("{:#}", judge_rounds(&rounds(&lab, variants, tool(5), 7, 1), &lab.progress).unwrap_err());
    assert!(
        message.contains("3 bursts in a row were excluded, the last one because baseline did not start"),
        "{message}"
    );
}

/// Independent of the order of the builds, and of an interruption in between.
#[test]
fn a_build_that_is_broken_is_given_up_alone_and_stays_so() {
    let lab = Lab::new();
    let plain = ["plain", "plain2", "plain3"].map(|name| lab.spinner(name, 10, &[]));
    let twins = plain.clone().map(|path| copy_of(&path, "twin"));
    let broken = lab.folder.join("broken");
    fs::copy("/bin/false", &broken).unwrap();
    for at in 0..3 {
        let mut some = plain.clone();
        some[at].clone_from(&broken);
        let runner = |name: &str, paths: &[PathBuf], parent| Runner {
            name: name.to_owned(),
            parent,
            arms: paths
                .iter()
                .map(|path| lab.server(&path.file_name().unwrap().to_string_lossy(), path))
                .collect(),
        };
        let judge = || {
            let variants = vec![
                runner("baseline", &plain, None),
                runner("twin", &twins, None),
                runner("some", &some, Some(0)),
            ];
            let mut rounds = rounds(&lab, variants, tool(5), 12, 4);
            (rounds.plan.builds, rounds.prefix) = (3, format!("{at}/"));
            let found = judge_rounds(&rounds, &lab.progress).unwrap().edges.remove(0);
            found.pairs.into_iter().filter(|pair| pair.kind == PairKind::Test).collect::<Vec<PairOutcome>>()
        };
        let pairs = judge();
        let of_broken: Vec<&PairOutcome> = pairs.iter().filter(|pair| pair.block == at as u32).collect();
        assert_eq!(of_broken.len(), 4);
        assert!(of_broken[3].dropped.as_ref().unwrap().contains("broken was given up"), "{:?}", of_broken[3]);
        for pair in pairs.iter().filter(|pair| pair.block != at as u32) {
            assert!(pair.troubles.iter().all(Vec::is_empty), "{pair:?}");
        }
        let last = of_broken[3].index / 2;
        fs::remove_file(lab.folder.join(format!("{at}/rounds/{last:03}.json"))).unwrap();
        let again = judge();
        let pair = again.iter().find(|pair| pair.index / 2 == last).unwrap();
        assert!(pair.dropped.as_ref().unwrap().contains("broken was given up"), "{pair:?}");
    }
}

#[test]
fn a_twin_that_is_no_copy_is_refused() {
    let lab = Lab::new();
    let other = lab.spinner("other", 11, &[]);
    let mut variants = tree(|name, path| lab.server(name, path), &lab.driver, &[("other", &other, 0)]);
    variants[1].arms[0] = lab.server("twin", &other);
    let message =
        format!("{:#}", judge_rounds(&rounds(&lab, variants, tool(5), 7, 1), &lab.progress).unwrap_err());
    assert!(message.contains("byte copy of the baseline"), "{message}");
}

/// The program's own name of one of these tests, which another one starts and interrupts.
const ENDLESS: &str = "rounds::tests::rounds_until_somebody_interrupts";
const FOLDER: &str = "HONE_TEST_ROUNDS_FOLDER";

#[test]
#[ignore = "runs until it is interrupted; ctrl_c_leaves_no_child starts it"]
fn rounds_until_somebody_interrupts() {
    let Some(said) = std::env::var_os(FOLDER) else { return };
    hone_tool::interrupt::install().unwrap();
    let lab = Lab::new();
    let same = copy_of(&lab.driver, "same");
    let variants = tree(|name, path| lab.server(name, path), &lab.driver, &[("same", &same, 0)]);
    fs::write(Path::new(&said).join("lab"), lab.folder.path().display().to_string()).unwrap();
    let error = judge_rounds(&rounds(&lab, variants, tool(20), 9_999, 100), &lab.progress).err().unwrap();
    fs::write(Path::new(&said).join("error"), format!("{error:#}")).unwrap();
}

#[test]
fn ctrl_c_leaves_no_child() {
    let folder = tempfile::tempdir().unwrap();
    let system = hone_tool::System::new(folder.path().join("logs")).unwrap();
    let call = Call::new("rounds", std::env::current_exe().unwrap(), folder.path())
        .args(["--exact", ENDLESS, "--ignored"])
        .env(FOLDER, folder.path());
    let mut session = system.start(&call).unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).ok().filter(|text| !text.is_empty());
    let lab = loop {
        let lab = read("lab").filter(|lab| Path::new(lab).join("judge/rounds/002.json").is_file());
        if let Some(lab) = lab {
            break lab;
        }
        session.check_alive("it measured").unwrap();
        assert!(Instant::now() < deadline, "no round was measured");
        std::thread::sleep(Duration::from_millis(20));
    };
    // Servers, and perhaps a driver.
    assert!(processes_with(&lab) >= 3, "{lab}");
    session.signal(libc::SIGINT);
    session.wait_end(Duration::from_secs(60), Duration::from_secs(10)).unwrap().unwrap();
    assert_eq!(processes_with(&lab), 0);
    let error = read("error").unwrap();
    assert!(error.contains("interrupted"), "{error}");
}

/// Processes whose command line holds a text.
fn processes_with(text: &str) -> usize {
    let folders = fs::read_dir("/proc").unwrap().flatten();
    let lines = folders.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(text)).count()
}

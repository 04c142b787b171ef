//! What follows from comparisons, on trees whose right answer is known.

use hone_record::{Comparison, Harm, PairKind, VariantFacts, Verdict};

use super::*;

/// A comparison with its interval; the verdict is what the interval says.
fn edge(a: &str, b: &str, workload: &str, [low, ratio, high]: [f64; 3]) -> Comparison {
    let mut found = hone_experiment::fixture::comparison(Some(Verdict::Equivalent));
    (found.a, found.b) = (a.to_owned(), b.to_owned());
    found.workload.name = workload.to_owned();
    let primary = &mut found.judgements[0];
    (primary.estimate.low, primary.estimate.ratio, primary.estimate.high) = (low, ratio, high);
    primary.verdict = match (low, high) {
        (_, high) if high < 1.0 => Verdict::Better,
        (low, _) if low > 1.0 => Verdict::Worse,
        (low, high) if low > 0.98 && high < 1.02 => Verdict::Equivalent,
        _ => Verdict::NotShown,
    };
    found
}

const BETTER: [f64; 3] = [0.95, 0.97, 0.99];
const WORSE: [f64; 3] = [1.05, 1.1, 1.15];
const EQUAL: [f64; 3] = [0.99, 1.0, 1.01];
const OPEN: [f64; 3] = [0.98, 1.04, 1.10];

/// baseline, pgo and pgo+bolt, with decisions as `keep`, `drop` and the best one.
fn decided(edges: &[Comparison], on_baseline: &[Comparison], harmful: &str) -> (String, Option<String>) {
    let facts = |name: &str, parent: Option<&str>| VariantFacts {
        harm: Some(Harm {
            broken: (name == harmful).then(|| "it grows".to_owned()).into_iter().collect(),
            ..Harm::default()
        }),
        ..VariantFacts::made(name, parent)
    };
    let mut variants =
        vec![facts("baseline", None), facts("pgo", Some("baseline")), facts("pgo+bolt", Some("pgo"))];
    let best = decide(&mut variants, edges, on_baseline, &["one", "two"]);
    let told: Vec<&str> = variants.iter().skip(1).map(|variant| variant.decision.as_str()).collect();
    (told.join(" "), best)
}

#[track_caller]
fn check(edges: [[f64; 3]; 4], direct: Option<[[f64; 3]; 2]>, expected: (&str, Option<&str>)) {
    let [pgo_one, pgo_two, bolt_one, bolt_two] = edges;
    let edges = [
        edge("baseline", "pgo", "one", pgo_one),
        edge("baseline", "pgo", "two", pgo_two),
        edge("pgo", "pgo+bolt", "one", bolt_one),
        edge("pgo", "pgo+bolt", "two", bolt_two),
    ];
    let direct: Vec<Comparison> = direct.map_or_else(Vec::new, |[one, two]| {
        vec![edge("baseline", "pgo+bolt", "one", one), edge("baseline", "pgo+bolt", "two", two)]
    });
    let (decisions, best) = decided(&edges, &direct, "");
    assert_eq!((decisions.as_str(), best.as_deref()), expected);
}

#[test]
fn what_is_best_is_better_than_the_baseline_and_worse_under_no_workload() {
    // It has all of its parent's loss under the second workload.
    check([BETTER, WORSE, BETTER, EQUAL], None, ("drop drop", None));
    check([BETTER, WORSE, BETTER, EQUAL], Some([BETTER, WORSE]), ("drop drop", None));
    // Better than a parent that may be worse than the baseline.
    check([OPEN, EQUAL, BETTER, EQUAL], None, ("drop drop", None));
    check([OPEN, EQUAL, BETTER, EQUAL], Some([OPEN, EQUAL]), ("drop drop", None));
    // The comparison with the baseline says better, and only that decides.
    check([OPEN, EQUAL, BETTER, EQUAL], Some([BETTER, EQUAL]), ("drop keep", Some("pgo+bolt")));
    check([BETTER, EQUAL, BETTER, EQUAL], None, ("keep keep", Some("pgo+bolt")));
    check([BETTER, EQUAL, OPEN, EQUAL], None, ("keep drop", Some("pgo")));
    check([BETTER, EQUAL, OPEN, EQUAL], Some([BETTER, EQUAL]), ("keep drop", Some("pgo")));
    // No step is shown alone, but both together are.
    check([OPEN, EQUAL, OPEN, EQUAL], Some([BETTER, EQUAL]), ("drop keep", Some("pgo+bolt")));
    check([OPEN, EQUAL, OPEN, EQUAL], Some([BETTER, WORSE]), ("drop drop", None));
    check([OPEN, EQUAL, OPEN, EQUAL], Some([OPEN, EQUAL]), ("drop drop", None));
    check([OPEN, EQUAL, WORSE, EQUAL], Some([BETTER, EQUAL]), ("drop drop", None));
}

#[test]
fn a_variant_has_what_is_wrong_with_the_one_it_builds_on() {
    let edges = |tail: bool| {
        let mut first = edge("baseline", "pgo", "one", BETTER);
        if tail {
            first.judgements[1].estimate.metric = Metric::LatencyP999;
            first.judgements[1].verdict = Verdict::Worse;
            first.design.rule.guards.clear();
        }
        let second = edge("baseline", "pgo", "two", EQUAL);
        [first, second, edge("pgo", "pgo+bolt", "one", BETTER), edge("pgo", "pgo+bolt", "two", EQUAL)]
    };
    assert_eq!(decided(&edges(false), &[], "").0, "keep keep");
    assert_eq!(decided(&edges(false), &[], "pgo"), ("drop drop".to_owned(), None));
    assert_eq!(decided(&edges(true), &[], ""), ("drop drop".to_owned(), None), "a worse p99.9");
    // Under a load that does not decide, such as the first one with more requests.
    let mut raised = edges(false);
    raised[1].judgements[1].estimate.metric = Metric::LatencyP999;
    raised[1].judgements[1].verdict = Verdict::Worse;
    raised[1].design.rule.guards.clear();
    assert_eq!(decided(&raised, &[], "").0, "drop drop", "a worse p99.9 under the second");
}

#[test]
fn a_variant_that_breaks_down_once_where_its_parent_stands_is_dropped() {
    let pair = |a: &str, b: &str, window_b: &str| hone_record::PairOutcome {
        index: 0,
        kind: PairKind::Test,
        window_a: "a.json".to_owned(),
        window_b: window_b.to_owned(),
        values_a: [].into(),
        values_b: [].into(),
        troubles: [a, b].map(|word| (!word.is_empty()).then(|| word.to_owned()).into_iter().collect()),
        ..hone_record::PairOutcome::default()
    };
    let told = |broken: hone_record::PairOutcome| {
        let mut first = edge("baseline", "pgo", "one", BETTER);
        first.pairs = vec![pair("", "", "b.json"), broken];
        decided(&[first, edge("baseline", "pgo", "two", EQUAL)], &[], "").0
    };
    assert_eq!(told(pair("", "pgo ended (signal 11) while it was loaded", "")), "drop ");
    assert_eq!(told(pair("baseline ended", "pgo ended", "")), "keep ", "both: the machine's");
    assert_eq!(told(pair("", "pgo did not start; no port", "")), "keep ");
    assert_eq!(told(pair("", "was saturated", "b.json")), "keep ");
}

/// By the layouts that work alone it is better, in whatever order they came.
#[test]
fn a_variant_with_a_build_that_never_counts_is_dropped_by_its_name() {
    let pair = |block: u32, trouble: [&str; 2], is_dropped: bool| hone_record::PairOutcome {
        index: block,
        kind: PairKind::Test,
        window_a: "a.json".to_owned(),
        window_b: if is_dropped { String::new() } else { "b.json".to_owned() },
        values_a: [].into(),
        values_b: [].into(),
        dropped: is_dropped.then(|| "excluded".to_owned()),
        block,
        troubles: trouble.map(|word| (!word.is_empty()).then(|| word.to_owned()).into_iter().collect()),
        ..hone_record::PairOutcome::default()
    };
    let why = |pairs: Vec<hone_record::PairOutcome>| {
        let built = |name: &str| hone_record::LaidOut {
            name: name.to_owned(),
            link_seed: None,
            sha256: String::new(),
        };
        let builds = vec![built("pgo"), built("pgo~2")];
        let variant = VariantFacts { builds, ..VariantFacts::made("pgo", Some("baseline")) };
        let mut found = edge("baseline", "pgo", "one", BETTER);
        (found.design.builds, found.pairs) = ([2, 2], pairs);
        decision_of(&variant, &[found], &["one"])
    };
    let (no_start, none) = (["", "pgo~2 did not start"], ["", ""]);
    // What was given up has no trouble of its own any more.
    for pairs in [
        vec![pair(1, no_start, true), pair(1, none, true), pair(0, none, false)],
        vec![pair(0, none, false), pair(1, no_start, true), pair(1, none, true)],
    ] {
        let (decision, why) = why(pairs);
        let told = "pgo~2 failed in every measurement under one: pgo~2 did not start";
        assert_eq!((decision.as_str(), why.as_str()), (DROP, told));
    }
    let kept = |pairs| assert_eq!(why(pairs).0, KEEP);
    kept(vec![pair(0, none, false), pair(1, no_start, true), pair(1, none, false)]);
    kept(vec![pair(0, none, false), pair(1, none, true)]);
    // It failed once, and its next process was only too young.
    let younger = hone_record::PairOutcome { window_b: "b.json".to_owned(), ..pair(1, none, true) };
    kept(vec![pair(0, none, false), pair(1, no_start, true), younger]);
    kept(vec![pair(0, none, false), pair(1, ["baseline failed", "pgo~2 failed"], true)]);
}

#[test]
fn a_raised_rate_that_the_parent_does_not_stand_ends_nothing() {
    let gave_up = |of_b| Err(GaveUp::for_test(of_b).into());
    let why = unless_raised(true, "pgo", gave_up(false)).unwrap().unwrap_err();
    assert!(why.starts_with("not compared, because pgo can't sustain this rate here: 3 "), "{why}");
    assert!(unless_raised(false, "pgo", gave_up(false)).is_err(), "a load of the file");
    assert!(unless_raised(true, "pgo", gave_up(true)).is_err(), "it is left out alone");
    assert!(unless_raised(true, "pgo", Err(anyhow::anyhow!("the disk is full"))).is_err());
    // The variant is kept by its results, and a note names the missing ones.
    let mut variants = [VariantFacts::made("pgo", Some("baseline"))];
    let edges = [edge("baseline", "pgo", "one", BETTER)];
    let best = decide(&mut variants, &edges, &[], &["one", "one-x1.2"]);
    assert_eq!(best.as_deref(), Some("pgo"));
    assert_eq!(variants[0].why, "better than baseline under one; no result under one-x1.2");
}

#[test]
fn the_exit_code_hears_of_what_is_worse_when_nothing_is_kept_or_it_was_asked_for() {
    let check = |edges: &[(&str, &str, [f64; 3])], best: Option<&str>, asked: bool, expected: bool| {
        let comparisons: Vec<Comparison> =
            edges.iter().map(|(a, b, ratio)| edge(a, b, "one", *ratio)).collect();
        let variant = |(a, b, _): &(&str, &str, [f64; 3])| VariantFacts::made(b, Some(a));
        let variants: Vec<VariantFacts> = edges.iter().map(variant).collect();
        let found = is_worse(&comparisons, &variants, best.is_some(), asked);
        assert_eq!(found, expected, "{edges:?} {best:?} {asked}");
    };
    let (base, pgo, bolt) = ("baseline", "pgo", "pgo+bolt");
    check(&[(base, pgo, WORSE)], None, false, true);
    check(&[(base, pgo, OPEN)], None, true, false);
    // A rejected variant of the usual set has no effect on the exit code; one that the user named has.
    check(&[(base, pgo, BETTER), (pgo, bolt, WORSE)], Some(pgo), false, false);
    check(&[(base, pgo, BETTER), (pgo, bolt, WORSE)], Some(pgo), true, true);
    // A step on the way.
    check(&[(base, "relocs", WORSE), ("relocs", "bolt", BETTER)], Some("bolt"), true, false);
    check(&[(base, "relocs", WORSE), ("relocs", "bolt", BETTER)], None, true, true);
}

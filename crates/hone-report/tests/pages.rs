//! The pages as a browser sees them: well-formed, self-contained, accessible, escaped, and honest where data is missing.

use std::collections::{BTreeMap, BTreeSet};

use hone_record::{
    Change, Engine, Expectation, Foretelling, GoAccount, GoBenchmark, GoBenchmarks, Hdr, HotSpot, HotSpots,
    LaidOut, LedgerEntry, Metric, OneLayout, Optimization, Outcome, Pilot, Promise, Story, VariantFacts,
    Verdict, Window, WindowFacts, Workload,
};
use hone_report::documents;
use scraper::{ElementRef, Html, Selector};

mod sample;

type Windows = BTreeMap<String, Window>;

fn optimization_page(found: &Optimization, windows: &Windows) -> String {
    documents::optimization(found, windows, None).html()
}

fn comparison_page(found: &hone_record::Comparison, windows: &Windows) -> String {
    documents::comparison(found, windows, None).html()
}

fn select<'a>(page: &'a Html, selector: &'a str) -> Vec<ElementRef<'a>> {
    page.select(&Selector::parse(selector).unwrap()).collect()
}

fn text_of(element: ElementRef) -> String {
    element.text().collect()
}

/// A page's visible text with plain spaces.
fn words(page: &str) -> String {
    let html = Html::parse_document(page);
    select(&html, "body").into_iter().map(text_of).collect::<String>().replace('\u{a0}', " ")
}

/// Everything that must hold for any page, whatever the records hold.
fn check(page: &str) -> Html {
    let html = Html::parse_document(page);
    assert_eq!(html.errors, Vec::<String>::new(), "the parser had to repair something");
    check_ids(&html);
    check_self_contained(&html);
    check_headings(&html);
    check_tables(&html);
    check_drawings(&html);
    html
}

fn ids(html: &Html) -> Vec<&str> {
    html.tree.nodes().filter_map(ElementRef::wrap).filter_map(|element| element.value().id()).collect()
}

fn check_ids(html: &Html) {
    let all = ids(html);
    let unique: BTreeSet<&str> = all.iter().copied().collect();
    assert_eq!(all.len(), unique.len(), "an id stands twice");
    for element in select(html, "[aria-labelledby]") {
        for id in element.attr("aria-labelledby").unwrap().split(' ') {
            assert!(unique.contains(id), "{id} is nowhere");
        }
    }
}

fn check_self_contained(html: &Html) {
    for element in html.tree.nodes().filter_map(ElementRef::wrap) {
        let name = element.value().name();
        // The one script copies commands, and the policy allows no other.
        let is_own = name == "script" && text_of(element) == include_str!("../src/page.js");
        assert!(
            is_own || !["script", "link", "img", "iframe", "object", "embed", "image", "use"].contains(&name),
            "{name}"
        );
        for (attribute, value) in element.value().attrs() {
            assert!(!attribute.starts_with("on"), "{name} {attribute}");
            // A file that is carried inside of the page leads nowhere, and neither does a place in it.
            let is_carried = attribute == "href"
                && (value.starts_with('#')
                    || value.starts_with("data:") && element.attr("download").is_some());
            assert!(
                is_carried || !["src", "srcset", "href", "style", "xlink:href", "data"].contains(&attribute),
                "{name} {attribute}"
            );
            assert!(attribute == "aria-label" || !value.contains("url("), "{name} {attribute}");
        }
    }
    let style: String = select(html, "style").into_iter().map(text_of).collect();
    for outside in ["http:", "https:", "url(", "@import", "@font-face"] {
        assert!(!style.contains(outside), "{outside}");
    }
    assert_eq!(select(html, "meta[http-equiv=Content-Security-Policy]").len(), 1);
}

fn check_headings(html: &Html) {
    assert_eq!(select(html, "h1").len(), 1);
    let levels =
        select(html, "h1, h2, h3, h4").into_iter().map(|heading| heading.value().name().as_bytes()[1] - b'0');
    levels.fold(0, |before, level| {
        assert!(level <= before + 1, "a heading skips a level");
        level
    });
}

fn check_tables(html: &Html) {
    for table in select(html, "table") {
        let captions: Vec<_> = table.select(&Selector::parse("caption").unwrap()).collect();
        assert_eq!(captions.len(), 1);
        assert!(!text_of(captions[0]).is_empty());
        let columns = |row: ElementRef| -> usize {
            let cells = row.child_elements();
            cells.map(|cell| cell.attr("colspan").map_or(1, |span| span.parse().unwrap())).sum()
        };
        let widths: BTreeSet<usize> = table.select(&Selector::parse("tr").unwrap()).map(columns).collect();
        assert!(widths.len() <= 1, "rows of different width: {widths:?} in {}", text_of(captions[0]));
    }
    for head in select(html, "th") {
        assert!(head.attr("scope").is_some());
    }
}

fn check_drawings(html: &Html) {
    for svg in select(html, "svg") {
        let is_named = svg.attr("aria-labelledby").or(svg.attr("aria-label")).is_some();
        let described = svg.attr("role") == Some("img") && is_named;
        assert!(described || svg.attr("aria-hidden") == Some("true"));
    }
    for element in select(html, "svg *") {
        for (name, value) in element.value().attrs() {
            assert!(!value.contains("NaN") && !value.contains("inf"), "{name}=\"{value}\"");
        }
    }
    let wide = select(html, "svg.plot.wide").len();
    assert_eq!(wide, select(html, "svg.plot.narrow").len());
}

#[test]
fn all_pages_are_well_formed_and_self_contained() {
    let (optimization, windows) = sample::optimization();
    let page = check(&optimization_page(&optimization, &windows));
    // Two comparisons with four plots each.
    assert_eq!(select(&page, "svg.plot.wide").len(), 8);
    let page = check(&comparison_page(&optimization.comparisons[0], &windows));
    assert_eq!(select(&page, "svg.plot.wide").len(), 4);
    let page = check(&documents::window(&sample::window("baseline", 1, 1.0)).html());
    assert_eq!(select(&page, "svg.plot.wide").len(), 2);
}

#[test]
fn an_optimisation_tells_what_it_found_and_how() {
    let (optimization, windows) = sample::optimization();
    let page = words(&optimization_page(&optimization, &windows));
    let estimate = &optimization.comparisons[0].primary().unwrap().estimate;
    for wanted in [
        "pgo against baseline: better.".to_owned(),
        format!("CPU per record is better: {:.3} × baseline", estimate.ratio),
        "13 duet pairs)".to_owned(),
        format!("{:.3} to {:.3}", estimate.low, estimate.high),
        "A build can change at most 78 % of the CPU".to_owned(),
        "pair 7 (A/B): steal was 21 %".to_owned(),
        "1 min 36 s".to_owned(),
        "4.90 MiB".to_owned(),
        "1.93 MiB".to_owned(),
        "9f2c4e7d1a5b3c8e6f0d2b4a7c9e1f3d5b7a9c0e2d4f6a8b1c3e5d7f9a0b2c4d".to_owned(),
        "14,822".to_owned(),
        "zstd-sys (C): excluded".to_owned(),
        "passed: wrote and read back records of every codec, 10,000 records".to_owned(),
        "rustc: rustc 1.95.0".to_owned(),
        "≠ JSON, telemetry".to_owned(),
        "page-cache: the operating system has the record".to_owned(),
        "AMD EPYC 7B13".to_owned(),
        "llvm-profdata merge -o".to_owned(),
        "2026-11-20 18:47 UTC".to_owned(),
        "Loopback: the load came from the same machine".to_owned(),
        "embedded broker: one node".to_owned(),
        "differences in latency look smaller".to_owned(),
    ] {
        assert!(page.contains(&wanted), "{wanted}");
    }
}

/// The page shows each prediction with its measurement, whether it was right or wrong.
#[test]
fn why_it_stalls_and_what_was_foretold_are_told() {
    let (mut optimization, windows) = sample::optimization();
    optimization.diagnosis = Some(sample::diagnosis());
    let foretelling = |expected, now: [f64; 3]| Foretelling {
        source: "baseline".to_owned(),
        before: sample::layout([12.5, 3.25, 2.0], 124.0, 61),
        now: sample::layout(now, 83.7, 17),
        replayed: 900_000,
        expected,
        rule: "by a rule".to_owned(),
    };
    let variant = |expected, now| VariantFacts {
        foretelling: Some(foretelling(expected, now)),
        ..VariantFacts::made("pgo", Some("baseline"))
    };
    optimization.variants =
        vec![VariantFacts::made("baseline", None), variant(Expectation::Gain, [0.21, 0.1, 0.0])];
    let page = optimization_page(&optimization, &windows);
    check(&page);
    let told = words(&page);
    for wanted in [
        "Why the CPU stalls",
        "Evidence: simulated (an exact trace on models of caches). Source: baseline, 100,000 requests",
        "reactor-0 (91 %): Will a better layout help? Likely.",
        "It can save at most 64 % of the CPU.",
        "12.50 \u{2192} 0.21",
        "61 \u{2192} 17",
        "a gain",
        "as predicted",
        "Note: libc.so.6 has no symbols.",
    ] {
        assert!(told.contains(wanted), "{wanted}");
    }
    assert!(!told.contains("not as predicted"));
    optimization.variants[1] = variant(Expectation::Harm, [40.0, 20.0, 9.0]);
    assert!(words(&optimization_page(&optimization, &windows)).contains("not as predicted"));
}

/// Counted operations are neither records nor requests, in every text of the page. The page also lists each build of a variant.
#[test]
fn a_load_of_operations_is_told_in_operations_and_builds_are_told_with_their_seeds() {
    let (mut optimization, windows) = sample::optimization();
    let engine = Engine::Exits { arguments: vec!["{operations}".to_owned()], operations: 9 };
    for judged in &mut optimization.comparisons {
        judged.workload = Workload::of_operations(&judged.workload.name, engine.clone());
        judged.design.rule.words.clear();
    }
    let built = |name: &str, link_seed| LaidOut { name: name.to_owned(), link_seed, sha256: "ab".repeat(32) };
    let variant = |name: &str, parent: Option<&str>| VariantFacts {
        builds: vec![built(name, None), built(&format!("{name}~2"), Some(2))],
        ..VariantFacts::made(name, parent)
    };
    optimization.variants = vec![variant("baseline", None), variant("pgo", Some("baseline"))];
    let page = optimization_page(&optimization, &windows);
    check(&page);
    let page = words(&page);
    for wanted in
        ["CPU per operation is better", "operations/s", "pgo~2", "by seed 2", "p99.9 is not measured"]
    {
        assert!(page.contains(wanted), "{wanted}");
    }
    assert!(!page.contains("CPU per record"), "it speaks of records");

    // The same if nothing was judged, and only the training says what is counted.
    optimization.comparisons.clear();
    optimization.training = Workload::of_operations("train", engine);
    let page = words(&optimization_page(&optimization, &windows));
    assert!(page.contains("CPU per operation:") && !page.contains("CPU per record"), "it speaks of records");
}

fn rewriting() -> hone_record::Rewriting {
    hone_record::Rewriting {
        profile: "counts".to_owned(),
        rung: "full".to_owned(),
        given_up: Vec::new(),
        skipped: Vec::new(),
        culprits: Vec::new(),
        search_builds: 0,
        profiled_functions: None,
        layout_modified: None,
        not_optimized: 0,
        wants_more_samples: None,
        stale_share: 0.0,
        bundle: None,
    }
}

/// A program that does its work and ends: no network, no acks, no latencies; a tree in which `relocs` is there for BOLT alone.
fn of_a_program_that_ends() -> (Optimization, Windows) {
    let (mut optimization, mut windows) = sample::optimization();
    let engine = Engine::Exits { arguments: vec!["{operations}".to_owned()], operations: 9 };
    let mut under_both = std::mem::take(&mut optimization.comparisons);
    for judged in &mut under_both {
        judged.workload = Workload::of_operations(&judged.workload.name, engine.clone());
        judged.judgements.retain(|judgement| judgement.estimate.metric == Metric::CpuPerRecord);
        let same = "it would be the same figure again".to_owned();
        judged.not_estimated.insert(Metric::CpuPerRequest, same);
    }
    for window in windows.values_mut() {
        window.address.clear();
        window.workload = under_both[0].workload.clone();
        window.latencies = hone_record::Latencies::default();
        window.series.clear();
    }
    for (a, b) in [("baseline", "relocs"), ("baseline", "pgo"), ("relocs", "bolt")] {
        optimization.comparisons.extend(under_both.iter().cloned().map(|mut judged| {
            (judged.a, judged.b) = (a.to_owned(), b.to_owned());
            judged
        }));
        let (decision, why) = ("drop".to_owned(), format!("inconclusive compared with {a} under validate"));
        optimization.variants.push(VariantFacts { decision, why, ..VariantFacts::made(b, Some(a)) });
    }
    optimization.variants.insert(0, VariantFacts::made("baseline", None));
    optimization.variants[3].rewriting = Some(rewriting());
    let relocs = hone_record::Artifact { variant: "relocs".to_owned(), ..optimization.artifacts[0].clone() };
    optimization.artifacts.push(relocs);
    optimization.artifacts.iter_mut().for_each(|artifact| artifact.path = "bin/db_bench".to_owned());
    optimization.training = Workload::of_operations("train", engine);
    optimization.durability = hone_record::Durability { acks: -1, storage: "unstated".to_owned() };
    (optimization, windows)
}

#[test]
fn of_a_program_that_ends_nothing_is_said_that_only_servers_have() {
    let (mut optimization, windows) = of_a_program_that_ends();
    let page = optimization_page(&optimization, &windows);
    let html = check(&page);
    let text = words(&page);
    for wanted in [
        "The program is its own load and ends by itself. No external load generator runs, and no network takes part",
        "A load of operations reports no latency for single operations, so there is none to draw.",
        "The rule for “validate”, “plain”, fixed before",
    ] {
        assert!(text.contains(wanted), "{wanted}");
    }
    for unfit in ["went over a network", "acks=", "Durability class", "not available", "same figure again"] {
        assert!(!text.contains(unfit), "{unfit}");
    }
    let rows = select(&html, ".results tbody tr").into_iter().map(text_of);
    assert_eq!(rows.filter(|row| row.starts_with("CPU per operation")).count(), 6, "once in each comparison");

    // What the target states of its storage holds without acks, too.
    optimization.durability.storage = "fsync".to_owned();
    let text = words(&optimization_page(&optimization, &windows));
    assert!(text.contains("Durability classfsync: the record is on the device.") && !text.contains("acks="));
}

#[test]
fn the_head_begins_with_the_decision_and_ends_with_what_is_only_built_on() {
    let (mut optimization, windows) = of_a_program_that_ends();
    let places = |optimization: &Optimization, wanted: &[&str]| {
        let html = check(&optimization_page(optimization, &windows));
        let head = text_of(select(&html, "header")[0]);
        let place = |part: &&str| head.find(*part).unwrap_or_else(|| panic!("no {part} in {head}"));
        let places: Vec<usize> = wanted.iter().map(place).collect();
        assert!(places.is_sorted(), "{wanted:?} in {head}");
    };
    let decision = "Decision: keep the baseline; no variant is kept.";
    let reason = "drop pgo: inconclusive compared with baseline under validate";
    let under = "Verdict under the workload";
    places(
        &optimization,
        &[
            decision,
            reason,
            "drop relocs",
            under,
            "pgo against baseline: ",
            "bolt against relocs: ",
            "relocs against baseline: ",
        ],
    );
    optimization.best = Some("bolt".to_owned());
    places(
        &optimization,
        &[
            "Decision: keep bolt",
            under,
            "bolt against relocs: ",
            "pgo against baseline: ",
            "relocs against baseline: ",
        ],
    );
    // No variant builds on it. So the user asked for it, and it is no base variant.
    optimization.best = None;
    optimization.variants.retain(|variant| variant.name != "bolt");
    places(&optimization, &[decision, under, "relocs against baseline: ", "pgo against baseline: "]);
}

#[test]
fn a_check_of_the_baseline_is_told_as_done() {
    let (mut optimization, windows) = sample::optimization();
    optimization.artifacts[0].smoke = None;
    assert!(words(&optimization_page(&optimization, &windows)).contains("smoke testnot done"));
    let note = "reading: 9 operations done; the target's own check".to_owned();
    let step = "check-baseline".to_owned();
    optimization.steps.push(hone_record::StepReceipt { step, took_s: 1.0, command: None, note });
    let text = words(&optimization_page(&optimization, &windows));
    assert!(text.contains("smoke testpassed: reading: 9 operations done") && !text.contains("not done"));
}

#[test]
fn an_arm_of_one_layout_is_told_with_what_the_interval_does_not_know() {
    let (mut optimization, windows) = sample::optimization();
    let why = "only 0 of 9 hot functions have other places in its builds".to_owned();
    optimization.comparisons[0].one_layout = vec![OneLayout { variant: "pgo".to_owned(), why }];
    optimization.comparisons[0].design.builds = [3, 3];
    let wanted = "only 0 of 9 hot functions have other places in its builds. The confidence interval does not include the effect of that layout.";
    let page = words(&comparison_page(&optimization.comparisons[0], &windows));
    assert!(page.contains(wanted), "{page}");
}

#[test]
fn what_a_target_takes_idle_stands_beside_its_cpu() {
    let mut window = sample::window("baseline", 1, 1.0);
    assert!(!words(&documents::window(&window).html()).contains("when idle"));
    window.facts.idle_cores = Some(0.031);
    let page = words(&documents::window(&window).html());
    assert!(page.contains("µs/record above the 0.0310 cores that it uses when idle"), "{page}");
}

/// A loss is in the headline, and what was not carried out is not called survived.
#[test]
fn what_faults_did_comes_first() {
    let mut window = sample::window("baseline", 1, 1.0);
    let gap = |partition, from_s, length_s| Some(hone_record::Gap { partition, from_s, length_s });
    let fault = |what: &str, at_s, acks, recovery| hone_record::Fault {
        due_s: 3.0,
        at_s,
        what: what.to_owned(),
        problem: at_s.is_none().then(|| "no such process <1>".to_owned()),
        acks,
        recovery,
    };
    use hone_record::Recovery::{AfterS, NotYet, Undisturbed};
    let outage = |faults, lost_records| hone_record::Outage {
        faults,
        acks: gap(4, 2.9, 4.2),
        reads: gap(4, 2.9, 4.5),
        acked_records: 39_803,
        lost_records,
        unacked_records: Some(2),
    };
    let killed = || fault("SIGKILL to <java> (process 7)", Some(3.001), gap(4, 2.9, 4.2), AfterS(4.4));
    let never = || fault("SIGTERM to java (process 8)", None, None, Undisturbed);
    let mut words_of = |faults, lost| {
        window.outage = Some(outage(faults, lost));
        let page = documents::window(&window).html();
        check(&page);
        words(&page)
    };
    let page = words_of(vec![killed(), never()], Some(29));
    for wanted in [
        "Records lost",
        "At least 29 acknowledged records were lost. After SIGKILL to <java> (process 7): no acknowledgement for 4.2 s (partition 4).",
        "4.4 s after the fault, requests were answered as before.",
        "not carried out: no such process <1>",
        "29 of them lost; 2 stored without an acknowledgement; no record at a consumer for 4.5 s",
    ] {
        assert!(page.contains(wanted), "no `{wanted}` in {page}");
    }
    assert!(words_of(vec![killed()], Some(0)).contains("All 39,803 acknowledged records are there."));
    assert!(words_of(vec![killed()], None).contains("Losses unknown"));
    assert!(words_of(vec![never()], Some(0)).contains("No fault was carried out."));
    let open = || fault("kill", Some(3.0), gap(4, 2.9, 7.0), NotYet);
    assert!(words_of(vec![open()], Some(0)).contains("Requests still waited when the window ended."));
}

#[test]
fn a_saving_that_code_can_hardly_explain_is_doubted_where_it_is_told() {
    let (mut optimization, windows) = sample::optimization();
    let warnings = |optimization: &Optimization| {
        let html = check(&optimization_page(optimization, &windows));
        select(&html, "header .warning").into_iter().map(text_of).collect::<Vec<_>>()
    };
    assert_eq!(warnings(&optimization), Vec::<String>::new());
    optimization.ceilings[0].user_share = 0.01;
    let told = warnings(&optimization);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("under validate, and all of its user code was 1 % of the CPU"), "{told:?}");
}

/// A p99 over all windows and a mean of theirs are two figures, so each says which it is.
#[test]
fn two_kinds_of_a_percentile_are_told_apart() {
    let (optimization, windows) = sample::optimization();
    let html = check(&comparison_page(&optimization.comparisons[0], &windows));
    let captions: Vec<String> = select(&html, "caption").into_iter().map(text_of).collect();
    for wanted in [
        "Geometric means over the included pairs, from the figures of each window",
        "percentile, all windows together",
    ] {
        assert!(captions.iter().any(|caption| caption.contains(wanted)), "{wanted}: {captions:?}");
    }
}

#[test]
fn the_table_has_every_metric_with_its_verdict_in_words() {
    let (optimization, windows) = sample::optimization();
    let comparison = &optimization.comparisons[0];
    let html = Html::parse_document(&comparison_page(comparison, &windows));
    let rows: Vec<String> = select(&html, ".results tbody tr").into_iter().map(text_of).collect();
    // Only windows that climb have a capacity, and these have one rate. The target's counters were not read, and nobody consumed.
    let untold = [Metric::Capacity, Metric::BusyPerRecord, Metric::EndToEndP50, Metric::EndToEndP99];
    let told = || Metric::ALL.into_iter().filter(|metric| !untold.contains(metric));
    assert_eq!(rows.len(), told().count());
    for metric in told() {
        let judgement = comparison.judgements.iter().find(|j| j.estimate.metric == metric).unwrap();
        let row = rows.iter().find(|row| row.starts_with(metric.label())).unwrap();
        assert!(row.contains(judgement.verdict.label()), "{row}");
        assert!(row.contains(&format!("{:.3}", judgement.estimate.ratio)), "{row}");
    }
    assert!(rows[0].starts_with("CPU per recordprimary"), "the primary stands first: {}", rows[0]);
}

/// The design that was fixed before the first window: the one change, the builds, the predicted power and the pairs that the time limit cut.
#[test]
fn a_comparison_tells_how_it_was_laid_out() {
    let mut comparison = sample::comparison("w", 0.9, &mut BTreeMap::new());
    assert!(
        words(&comparison_page(&comparison, &BTreeMap::new()))
            .contains("Tail latency depends on rare events")
    );
    comparison.change = Some(Change {
        kind: "topic".to_owned(),
        name: "flush.messages".to_owned(),
        from: None,
        to: "<1>".to_owned(),
        was: None,
    });
    comparison.design.builds = [3, 3];
    comparison.unmeasured_pairs = 4;
    comparison.pilot = Some(Pilot {
        pairs: 6,
        took_s: 60.0,
        planned_pairs: 14,
        planned_control_pairs: 8,
        rest_s: 180.0,
        effect_ratio: None,
        power: 0.8,
        metrics: vec![Promise {
            metric: Metric::LatencyP99,
            log_ratio_sd: 0.9,
            detectable_ratio: Some(1.77),
            pairs_needed: None,
            power_for_effect: None,
            power_with_tail: None,
        }],
        not_planned: BTreeMap::new(),
        no_promise: None,
    });
    let page = comparison_page(&comparison, &BTreeMap::new());
    check(&page);
    let said = words(&page);
    for part in [
        "topic.flush.messages: existing value -> <1>",
        "3 builds of baseline, 3 of pgo",
        "p99 77.0 %",
        "The time limit cut 4 of the planned pairs",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    comparison.pilot.as_mut().unwrap().no_promise = Some("builds differ".to_owned());
    comparison.design.both_controls = true;
    let said = words(&comparison_page(&comparison, &BTreeMap::new()));
    assert!(
        said.contains("There is no power prediction: builds differ.") && !said.contains("p99 77.0 %"),
        "{said}"
    );
    assert!(said.contains("compare A with A and B with B in turn"), "{said}");
}

#[test]
fn a_broken_guard_rail_turns_the_mark_at_the_top() {
    let (mut optimization, windows) = sample::optimization();
    let comparison = &mut optimization.comparisons[0];
    let guard = comparison.judgements.iter_mut().find(|j| j.estimate.metric == Metric::LatencyP99).unwrap();
    guard.verdict = Verdict::Worse;
    let html = check(&comparison_page(comparison, &windows));
    assert_eq!(select(&html, ".verdict-word .mark.worse").len(), 1);
    assert_eq!(select(&html, ".others.worse").len(), 1);
    let sentence = text_of(select(&html, ".sentence")[0]);
    assert!(sentence.contains("regression in p99"), "{sentence}");
}

const HOSTILE: &str =
    "\"><script>alert('x')</script><img src=x onerror=alert(1)></td></svg>&lt;\u{202e}\0 url(http://x)";

/// Puts the hostile text into every text of a record that may be any text: one after the other, kept when the record
/// can still be read (a verdict or a histogram cannot be just any text).
fn with_hostile_texts(optimization: &Optimization) -> (Optimization, usize) {
    let mut json = serde_json::to_value(optimization).unwrap();
    let mut paths = Vec::new();
    text_paths(&json, String::new(), &mut paths);
    let mut planted = 0;
    for path in paths {
        let place = json.pointer_mut(&path).unwrap();
        let before = std::mem::replace(place, HOSTILE.into());
        if Optimization::deserialized(&json).is_some() {
            planted += 1;
        } else {
            *json.pointer_mut(&path).unwrap() = before;
        }
    }
    (Optimization::deserialized(&json).unwrap(), planted)
}

trait Deserialized: Sized {
    fn deserialized(json: &serde_json::Value) -> Option<Self>;
}

impl Deserialized for Optimization {
    fn deserialized(json: &serde_json::Value) -> Option<Self> {
        serde_json::from_value(json.clone()).ok()
    }
}

fn text_paths(json: &serde_json::Value, path: String, out: &mut Vec<String>) {
    match json {
        serde_json::Value::String(_) => out.push(path),
        serde_json::Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, item)| text_paths(item, format!("{path}/{index}"), out));
        }
        serde_json::Value::Object(fields) => {
            let pointer = |key: &str| key.replace('~', "~0").replace('/', "~1");
            fields.iter().for_each(|(key, item)| text_paths(item, format!("{path}/{}", pointer(key)), out));
        }
        _ => {}
    }
}

#[test]
fn hostile_texts_stay_texts() {
    let (mut optimization, mut windows) = sample::optimization();
    optimization.training.topic_config.insert(HOSTILE.to_owned(), HOSTILE.to_owned());
    optimization.comparisons[1].judgements.clear();
    optimization.comparisons[1].not_estimated.insert(Metric::CpuPerRecord, "reason".to_owned());
    let (hostile, planted) = with_hostile_texts(&optimization);
    assert!(planted > 100, "only {planted} texts were replaced");
    // Every pair now names the same window.
    let mut window = windows.pop_first().unwrap().1;
    window.variant = HOSTILE.to_owned();
    window.address = HOSTILE.to_owned();
    window.workload = hostile.training.clone();
    window.durability = hostile.durability.clone();
    window.facts.errors.insert(HOSTILE.to_owned(), 7);
    let windows: Windows = BTreeMap::from([(HOSTILE.to_owned(), window.clone())]);
    window.outcome = Outcome::Failed { reason: HOSTILE.to_owned() };
    let pages = [
        optimization_page(&hostile, &windows),
        comparison_page(&hostile.comparisons[0], &windows),
        comparison_page(&hostile.comparisons[1], &windows),
        documents::window(&window).html(),
        documents::window(&windows[HOSTILE]).html(),
    ];
    for page in pages {
        let html = check(&page);
        // The page's own script, as `check` sees to.
        assert_eq!((select(&html, "script").len(), select(&html, "img").len()), (1, 0));
        assert!(text_of(select(&html, "body")[0]).contains("\"><script>alert('x')</script>"));
    }
}

#[test]
fn a_go_program_has_its_hot_spots_and_benchmarks_told() {
    let (mut optimization, windows) = sample::optimization();
    let spots = HotSpots {
        kind: "cpu".to_owned(),
        unit: "nanoseconds".to_owned(),
        total: 2_000_000_000,
        functions: 31,
        rows: vec![HotSpot {
            function: "main.(*T[go.shape.int]).size<b>".to_owned(),
            flat: 60_000_000,
            cumulative: 820_000_000,
            flat_share: 0.03,
            cumulative_share: f64::NAN,
        }],
    };
    let row = GoBenchmark {
        package: "x/flow".to_owned(),
        benchmark: "BenchmarkParse-2".to_owned(),
        metric: "ns/op".to_owned(),
        off: vec![100.0, 104.0],
        on: vec![90.0, f64::NAN],
        control: Vec::new(),
        ratio: Some([0.88, 0.86, 0.9]),
        control_ratio: Some([f64::NAN; 3]),
        verdict: Some(Verdict::Better),
        why: "the interval excludes 1".to_owned(),
    };
    let told = GoBenchmark { metric: "B/op".to_owned(), verdict: None, ratio: None, ..row.clone() };
    optimization.go = Some(GoAccount {
        hot_spots: vec![
            spots.clone(),
            HotSpots { kind: "alloc_space".to_owned(), unit: "bytes".to_owned(), ..spots },
        ],
        findings: vec!["main.size: 3.0 % flat, 41.0 % cumulative".to_owned()],
        benchmarks: Some(GoBenchmarks {
            rounds: 8,
            benchtime: "1s".to_owned(),
            cpus: None,
            rule: "By the rule.".to_owned(),
            geomean: Some(GoBenchmark { package: String::new(), ..row.clone() }),
            rows: vec![row, told],
            unchanged: vec!["x/other".to_owned()],
            incomplete: Vec::new(),
            commands: vec!["cd x && ./a.test".to_owned()],
        }),
        ..GoAccount::default()
    });
    let page = optimization_page(&optimization, &windows);
    check(&page);
    let seen = words(&page);
    for expected in [
        "Where time and memory go",
        "41.0 % cumulative",
        "size<b>",
        "0.880 [0.860, 0.900]",
        "better",
        "x/other",
        "reported, not judged",
    ] {
        assert!(seen.contains(expected), "{expected} is not in\n{seen}");
    }
    assert!(!seen.contains("NaN"));
    let account = optimization.go.as_mut().unwrap();
    (account.benchmarks, account.no_benchmarks) = (None, Some("no package has tests".to_owned()));
    account.hot_spots.clear();
    let seen = words(&optimization_page(&optimization, &windows));
    assert!(
        seen.contains("There are none: no package has tests") && seen.contains("There is no profile"),
        "{seen}"
    );
}

#[test]
fn without_windows_sentences_stand_in_the_place_of_plots() {
    let (optimization, _) = sample::optimization();
    let page = comparison_page(&optimization.comparisons[0], &Windows::new());
    let html = check(&page);
    // Ratios and pairs live in the comparison itself.
    assert_eq!(select(&html, "svg.plot.wide").len(), 2);
    assert!(words(&page).contains("The windows of the pairs are not available"));
}

#[test]
fn some_missing_windows_are_counted() {
    let (optimization, mut windows) = sample::optimization();
    let comparison = &optimization.comparisons[0];
    let named = comparison.pairs.iter().find(|pair| pair.dropped.is_none()).unwrap();
    windows.remove(&named.window_b);
    assert!(words(&comparison_page(comparison, &windows)).contains("1 window was not available."));
}

#[test]
fn when_no_pair_counts_the_page_says_so() {
    let (mut optimization, windows) = sample::optimization();
    let comparison = &mut optimization.comparisons[0];
    for pair in &mut comparison.pairs {
        pair.dropped = Some("window a is saturated".to_owned());
    }
    comparison.judgements.clear();
    let page = comparison_page(comparison, &windows);
    let html = check(&page);
    assert_eq!(select(&html, "svg.plot").len(), 0);
    let words = words(&page);
    for wanted in [
        "Inconclusive: CPU per record could not be estimated.CPU per record: none of the 14 A/B pairs is usable.",
        "18 of 18 pairs excluded",
        "No metric could be estimated, so there is no ratio to draw.",
        "No A/B pair is usable, so there is no latency to draw.",
        "No pair has a ratio of this metric",
    ] {
        assert!(words.contains(wanted), "{wanted}");
    }
}

#[test]
fn without_cpu_the_reason_stands_in_the_table() {
    let (mut optimization, windows) = sample::optimization();
    let comparison = &mut optimization.comparisons[0];
    let cpu = [Metric::CpuPerRecord, Metric::CpuPerRequest, Metric::UserCpuPerRecord];
    comparison.judgements.retain(|judgement| !cpu.contains(&judgement.estimate.metric));
    for metric in cpu {
        comparison.pairs.iter_mut().for_each(|pair| {
            pair.values_a.remove(&metric);
            pair.values_b.remove(&metric);
        });
        comparison.not_estimated.insert(metric, "the target's process is on another machine".to_owned());
    }
    let page = comparison_page(comparison, &windows);
    let html = check(&page);
    let rows: Vec<String> = select(&html, ".results tbody tr").into_iter().map(text_of).collect();
    let row = rows.iter().find(|row| row.starts_with("CPU per record")).unwrap();
    assert!(row.contains("not estimated: the target's process is on another machine"), "{row}");
    assert!(
        words(&page)
            .contains("could not be estimated.CPU per record: the target's process is on another machine.")
    );
}

#[test]
fn an_optimisation_that_broke_off_is_still_a_page() {
    let (mut optimization, _) = sample::optimization();
    optimization.comparisons.clear();
    optimization.artifacts.clear();
    optimization.ceilings.clear();
    optimization.steps.clear();
    let page = optimization_page(&optimization, &Windows::new());
    check(&page);
    for wanted in [
        "No verdict yet: nothing was judged.",
        "holds no build",
        "did not probe the ceiling",
        "holds no step",
    ] {
        assert!(words(&page).contains(wanted), "{wanted}");
    }
}

#[test]
fn a_saturated_window_tells_no_percentile() {
    let page = documents::window(&sample::saturated_window()).html();
    let html = check(&page);
    let words = words(&page);
    assert!(words.contains("1,060 of 2,000 requests/s") && words.contains("9,412 requests were waiting"));
    assert!(words.contains("timeout 312"));
    assert_eq!(select(&html, "#run-spectrum-wide-title").len(), 0);
    assert_eq!(select(&html, "#run-series-wide-title").len(), 1);
}

#[test]
fn an_empty_window_is_sentences() {
    let mut window = sample::window("baseline", 1, 1.0);
    window.facts = WindowFacts::default();
    window.latencies = hone_record::Latencies::default();
    window.series.clear();
    let page = documents::window(&window).html();
    let html = check(&page);
    assert_eq!(select(&html, "svg.plot").len(), 0);
    let words = words(&page);
    for wanted in
        ["No request was due", "Nothing was acknowledged", "holds no time series", "not on this machine"]
    {
        assert!(words.contains(wanted), "{wanted}");
    }
}

#[test]
fn numbers_that_are_none_never_reach_a_page() {
    let (mut optimization, mut windows) = sample::optimization();
    let broken = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0, f64::MAX, f64::MIN_POSITIVE];
    let mut next = broken.into_iter().cycle();
    let mut take = || next.next().unwrap();
    for comparison in &mut optimization.comparisons {
        for judgement in &mut comparison.judgements {
            let estimate = &mut judgement.estimate;
            for place in
                [&mut estimate.ratio, &mut estimate.low, &mut estimate.high, &mut estimate.detectable_ratio]
            {
                *place = take();
            }
            (estimate.value_a, estimate.value_b, estimate.confidence) = (take(), take(), take());
        }
        for value in comparison.pairs.iter_mut().flat_map(|pair| pair.values_a.values_mut()) {
            *value = take();
        }
        (comparison.design.rule.equivalence, comparison.workload.requests_per_s) = (take(), take());
    }
    for point in windows.values_mut().flat_map(|window| window.series.iter_mut()) {
        (point.at_s, point.latency_us_p50, point.latency_us_p99) = (take(), take(), take());
    }
    for ceiling in &mut optimization.ceilings {
        (ceiling.user_share, ceiling.cpu_us_per_record) = (take(), take());
    }
    for artifact in &mut optimization.artifacts {
        artifact.build_s = take();
    }
    let page = optimization_page(&optimization, &windows);
    check(&page);
    let text = words(&page);
    let found = ["NaN", "inf "].iter().filter_map(|none| text.find(none)).next();
    assert!(found.is_none(), "{:?}", found.map(|at| text[..at].chars().rev().take(80).collect::<String>()));
    for window in windows.values().take(3) {
        check(&documents::window(window).html());
    }
}

#[test]
fn one_sample_makes_a_page() {
    let mut window = sample::window("baseline", 1, 1.0);
    let mut hdr = Hdr::new();
    hdr.record_ns(5_000);
    window.latencies.intended_to_ack = hdr;
    window.series.truncate(1);
    check(&documents::window(&window).html());
}

#[test]
fn the_same_records_give_the_same_page() {
    let (optimization, windows) = sample::optimization();
    assert_eq!(optimization_page(&optimization, &windows), optimization_page(&optimization, &windows));
}

#[test]
fn a_capacity_is_a_sentence_a_curve_and_every_window() {
    let page = documents::capacity(&sample::capacity()).html();
    let html = check(&page);
    let text = words(&page);
    assert!(text.contains("p99 <= 10.0 ms holds up to 2,828 requests/s and breaks by 3,364."), "{text}");
    assert!(text.contains("broke: saturated; up to 900 requests behind at the end"), "{text}");
    assert_eq!(select(&html, "svg.plot.wide").len(), 2);
    assert_eq!(select(&html, "svg.plot.wide rect.band").len(), 1, "the interval is shaded");
    let slo =
        select(&html, "svg.plot.wide text").into_iter().filter(|name| text_of(*name) == "p99 <= 10.0 ms");
    assert_eq!(slo.count(), 1, "the SLO has a line");
    let mut twice = sample::capacity();
    let again = twice.points[3].clone();
    twice.points.push(hone_record::CurvePoint { held: Some(false), why: Some("late".to_owned()), ..again });
    let html = check(&documents::capacity(&twice).html());
    let rows: Vec<String> = select(&html, "tbody tr").into_iter().map(text_of).collect();
    let of_a_rate: Vec<&String> = rows.iter().filter(|row| row.starts_with("2,828")).collect();
    assert_eq!(of_a_rate.len(), 1, "a rate has one row: {rows:?}");
    assert!(of_a_rate[0].contains("held (1), broke: late (1)"), "{of_a_rate:?}");
    let mut nothing = sample::capacity();
    nothing.points.clear();
    (nothing.held_requests_per_s, nothing.failed_requests_per_s) = (None, None);
    nothing.end = hone_record::CapacityEnd::BrokenOff { why: "the target closed the connection".to_owned() };
    let page = documents::capacity(&nothing).html();
    check(&page);
    assert!(words(&page).contains("The search was interrupted: the target closed the connection."));
}

#[test]
fn a_sweep_says_what_a_batch_brings() {
    let page = documents::curve(&sample::curve()).html();
    let html = check(&page);
    let text = words(&page);
    assert!(
        text.contains(
            "30.0 µs of the target’s CPU in batches of 1, and 0.300 µs in batches of 100: a factor of 100"
        ),
        "{text}"
    );
    // Six windows and a line on each of the two drawings of CPU.
    assert_eq!(select(&html, "svg.plot.wide circle.spot.b").len(), 12);
}

#[test]
fn a_load_run_tells_rules_events_consumers_and_environment() {
    let page = documents::window(&sample::eventful()).html();
    let html = check(&page);
    let text = words(&page);
    for expected in [
        "NOT MET",
        "unknown: too few samples",
        "partition 0 has another leader <2>",
        "intended to consumer: end to end",
        "records that the slowest consumer lagged behind",
        "25.0 records, 8.00 KiB each (of 50.0 % that were read)",
        "client queue 12.0 µs, broker 80.0 µs",
        "features metadata.version 30",
        "cpu 25.0 %",
        "num.io.threads",
        "topic settings: CLUSTER_AUTHORIZATION_FAILED",
    ] {
        assert!(text.contains(expected), "no `{expected}` in:\n{text}");
    }
    assert_eq!(select(&html, "svg.plot.wide line.event").len(), 8, "two events in four panels");
}

/// The files that a page carries, by their names.
fn carried(html: &Html) -> BTreeMap<String, String> {
    use base64::Engine as _;
    select(html, "a[download]")
        .into_iter()
        .map(|link| {
            let (_, data) = link.attr("href").unwrap().split_once(";base64,").unwrap();
            let bytes = base64::engine::general_purpose::STANDARD.decode(data).unwrap();
            (link.attr("download").unwrap().to_owned(), String::from_utf8(bytes).unwrap())
        })
        .collect()
}

#[test]
fn a_story_has_every_altitude_percentiles_predictions_and_its_numbers() {
    let story = sample::story();
    let page = documents::story(&story).html();
    let html = check(&page);
    let shown = words(&page);
    for wanted in [
        "Kept: pgo; pgo+bolt on pgo; linger=5ms; profile latency.",
        "Rejected: no-jump-tables; topic.write.caching",
        "Inconclusive: linger=50ms",
        "how the service is built",
        "how the machine is set",
        "not measured",
        "p99.999",
        "too few samples",
        "CPU, cores",
        "network sent per second",
        "2 of 3 decided predictions came true.",
        "hone host rollback",
    ] {
        assert!(shown.contains(wanted), "{wanted}: {shown}");
    }
    let head = select(&html, "header")[0];
    let in_head = |selector: &str| {
        let selector = Selector::parse(selector).unwrap();
        head.select(&selector).map(text_of).collect::<Vec<String>>()
    };
    assert_eq!(in_head(".verdict.better .verdict-word"), ["4 of 7 kept"]);
    // Each measured entry is a row of the forest plot; the change of the host was not measured.
    assert_eq!(in_head("svg.plot.wide .mark").len(), 6, "{:?}", in_head("svg.plot.wide text"));
    let captions: Vec<String> = select(&html, "caption").into_iter().map(text_of).collect();
    for altitude in ["Binary", "Broker", "Client", "Host"] {
        assert!(captions.iter().any(|caption| caption.starts_with(altitude)), "{altitude}: {captions:?}");
    }
    // A table for each load; the columns are the state before and each step.
    let steps = captions.iter().position(|caption| caption.contains("under orders")).unwrap();
    let table = select(&html, "table")[steps];
    assert_eq!(table.select(&Selector::parse("thead th").unwrap()).count(), 2 + 3);
    let files = carried(&html);
    assert_eq!(files.keys().collect::<Vec<_>>(), ["steps.csv", "story.json", "windows.csv"]);
    assert_eq!(hone_record::Envelope::<Story>::parse(&files["story.json"]).unwrap().chapters.len(), 7);
    assert_eq!(files["windows.csv"].lines().count(), 1 + 6 * 6);
    assert_eq!(files["steps.csv"].lines().count(), 1 + 7 * 2);
    let p50 = story.chapters[3].after.latency_us(0.5).unwrap().to_string();
    assert!(files["steps.csv"].contains(&p50), "the very number: {p50}");
}

#[test]
fn a_story_of_nothing_and_one_of_foreign_words_are_pages_too() {
    check(&documents::story(&Story::default()).html());
    let mut story = sample::story();
    for chapter in &mut story.chapters {
        let bad = "<script>alert(1)</script> \" onload='x' \u{202e}".to_owned();
        let LedgerEntry { change, why, undo, run, who, experiment, .. } = &mut chapter.entry;
        *change = bad.clone();
        *undo = Some(bad.clone());
        [why, run, who, experiment].into_iter().for_each(|field| field.clone_from(&bad));
        chapter.entry.ratio = Some([f64::NAN, f64::INFINITY, -1.0]);
    }
    let page = documents::story(&story).html();
    check(&page);
    assert!(!page.contains("<script>alert"));
}

#[test]
fn the_pages_of_runs_carry_their_numbers() {
    let (optimization, windows) = sample::optimization();
    let story = sample::story();
    let html = check(&documents::optimization(&optimization, &windows, Some(&story)).html());
    assert_eq!(
        (carried(&html).len(), select(&html, "#percentiles").len(), select(&html, "#foretold").len()),
        (3, 1, 1)
    );
    let html = check(&documents::comparison(&optimization.comparisons[0], &windows, Some(&story)).html());
    assert_eq!(carried(&html).len(), 3);
}

/// What a run of `hone tune` has besides its record: each layer as in the ledger, and the expected gains with their results.
fn tuned_story(tuning: &hone_record::Tuning) -> Story {
    let chapter = |step: &hone_record::TuningStep| hone_record::Chapter {
        entry: LedgerEntry {
            change: format!("{}: {}", step.altitude.label(), step.step.change),
            decision: step.step.decision.label().to_owned(),
            foretold: Some(step.hope.beside(tuning.objective, &step.step)),
            ..LedgerEntry::default().judged_by(step.step.comparison.as_ref().unwrap())
        },
        before: step.step.before.clone(),
        after: step.step.after.clone(),
        ..hone_record::Chapter::default()
    };
    Story {
        chapters: tuning.steps.iter().map(chapter).collect(),
        tuned: Some(hone_record::Tuned::from_tuning(tuning)),
        ..sample::story()
    }
}

#[test]
fn a_tuning_tells_where_the_time_went_what_was_tried_and_what_is_saved() {
    let (tuning, windows) = sample::tuning();
    let page = documents::tuning(&tuning, &windows, Some(&tuned_story(&tuning))).html();
    let html = check(&page);
    let shown = words(&page);
    for wanted in [
        "Saved at this load: ",
        " windows of the first state and 13 windows with the kept changes, in pairs",
        "Where the time went, before the first change",
        "in user code of the target and its libraries",
        "records per batch",
        "Where the CPU goes, and the largest possible gain of a build",
        "one record a request <each>",
        "kept, not reconfirmed",
        "the product of these",
        "all kept changes, compared with the first state",
        "how the machine is set",
        "decided predictions came true.",
        "expected to save 60 % of the CPU per record, since one record a request <each>.",
    ] {
        assert!(shown.contains(wanted), "{wanted}: {shown}");
    }
    let captions: Vec<String> = select(&html, "caption").into_iter().map(text_of).collect();
    for altitude in ["Binary", "Broker", "Client", "Host"] {
        assert!(captions.iter().any(|caption| caption.starts_with(altitude)), "{altitude}: {captions:?}");
    }
    let fates: Vec<String> = select(&html, "#tried td:last-child").into_iter().map(text_of).collect();
    assert_eq!(fates, ["kept", "inconclusive", "kept", "rejected", "inconclusive"], "by layer");
    check(&documents::tuning(&tuning, &windows, None).html());
    let bare = hone_record::Tuning { first: Default::default(), together: None, ..tuning };
    check(&documents::tuning(&bare, &Windows::new(), None).html());
}

#[test]
fn the_saving_of_a_tuned_service_is_in_the_tiles_of_its_summary() {
    let (tuning, _) = sample::tuning();
    let story = tuned_story(&tuning);
    let saving = story.tuned.as_ref().unwrap().saving.clone().unwrap();
    let html = check(&documents::story(&story).html());
    let tiles: String = select(&html, "header .tiles").into_iter().map(text_of).collect();
    assert!(tiles.contains("cores of the target") && tiles.contains("cores saved, interval"), "{tiles}");
    assert!(saving.cores.is_some_and(|cores| cores.saved > 0.0));
    assert!(!select(&html, "header .tiles tr.better").is_empty(), "{tiles}");
}

/// No two of its windows had the same load.
#[test]
fn of_a_load_that_climbs_the_capacity_is_told_and_nothing_else() {
    let (mut tuning, windows) = sample::tuning();
    let slo = hone_record::Slo { quantile: 0.99, latency_us: 10_000.0 };
    let climb =
        hone_record::Climb { slo, to_requests_per_s: 64_000.0, growth: 2.0, step_s: 1.0, rest_s: 0.1 };
    tuning.workload = tuning.workload.climbing(climb);
    let page = documents::tuning(&tuning, &windows, None).html();
    let html = check(&page);
    let rows: Vec<String> = select(&html, "#states tbody th").into_iter().map(text_of).collect();
    let expected =
        ["outcome", "windows", "capacity, requests/s", "CPU per record, ratio", "confidence interval"];
    assert_eq!(rows, expected);
    let look: String = select(&html, "#first-look").into_iter().map(text_of).collect();
    assert!(look.contains("No two had the same load") && !look.contains("records per batch"), "{look}");
    assert!(!words(&page).contains("Saved at this load"), "{}", words(&page));
}

#[test]
fn a_story_has_its_heatmaps_capacities_and_curves() {
    let story = Story {
        heatmaps: vec![sample::heatmap(), sample::heatmap()],
        capacities: vec![sample::capacity(), sample::capacity()],
        curves: vec![sample::curve(), sample::curve()],
        ..sample::story()
    };
    let html = check(&documents::story(&story).html());
    assert_eq!(select(&html, "svg.heat-picture").len(), 2);
    assert_eq!(select(&html, "#capacity-2 svg.plot.wide").len(), 2);
    assert_eq!(select(&html, "#curve-2 svg.plot.wide").len(), 2);
    let shown = words(&documents::story(&story).html());
    assert!(shown.contains("holds up to 2,828 requests/s and breaks by 3,364"), "{shown}");
    assert!(shown.contains("before: hone-broker") && shown.contains("after: hone-broker"), "{shown}");
}

/// Windows in which everything happened that a picture can show.
fn busy(windows: &Windows) -> Windows {
    let eventful = sample::eventful();
    let mut busy = windows.clone();
    for window in busy.values_mut() {
        window.facts.stalls.clone_from(&eventful.facts.stalls);
        window.events.clone_from(&eventful.events);
        window.environment.clone_from(&eventful.environment);
    }
    busy
}

#[test]
fn a_comparison_shows_how_its_verdict_came_about() {
    let (optimization, windows) = sample::optimization();
    let comparison = &optimization.comparisons[0];
    let page = comparison_page(comparison, &windows);
    let html = check(&page);
    let title = text_of(select(&html, "#comparison-1-pairs-wide-title")[0]);
    assert_eq!(title, "Pair by pair: CPU per record");
    assert_eq!(select(&html, "svg.plot.wide path.so-far").len(), 1);
    let rows: Vec<String> = select(&html, "details tbody tr").into_iter().map(text_of).collect();
    let estimate = &comparison.primary().unwrap().estimate;
    let last = format!("{:.3}[{:.3}, {:.3}]", estimate.ratio, estimate.low, estimate.high);
    let last = rows.iter().position(|row| row.contains(&last)).unwrap();
    // The last included A/B pair has number 17; the excluded one has no estimate of its own.
    assert!(rows[last].starts_with("17A/B"), "{}", rows[last]);
    assert!(rows.iter().any(|row| row.starts_with("7A/B") && row.contains("\u{2013}no: steal")), "{rows:?}");
}

#[test]
fn a_percentile_spectrum_has_the_axis_that_everybody_knows() {
    let (optimization, windows) = sample::optimization();
    let html = check(&comparison_page(&optimization.comparisons[0], &windows));
    let figures = select(&html, "figure");
    let is_spectrum = |figure: &&ElementRef| text_of(**figure).starts_with("Latency by percentile");
    let texts = text_of(*figures.iter().find(is_spectrum).unwrap()).replace('\u{a0}', " ");
    for percentile in ["50 %", "90 %", "99 %", "99.9 %", "99.99 %"] {
        assert!(texts.contains(percentile), "{percentile}: {texts}");
    }
}

#[test]
fn a_comparison_marks_the_stalls_events_and_cores_of_both_windows() {
    let (optimization, windows) = sample::optimization();
    let comparison = &optimization.comparisons[0];
    let page = comparison_page(comparison, &busy(&windows));
    let html = check(&page);
    // Two stalls of each window, in one path in the row, and in one in each of three panels.
    assert_eq!(select(&html, "svg.plot.wide path.stall").len(), 2);
    assert_eq!(select(&html, "svg.plot.wide path.stall-band").len(), 2 * 3);
    assert_eq!(select(&html, "svg.plot.wide line.event").len(), 4 * 3);
    let text = words(&page);
    for wanted in
        ["3.2 sbaseline700 ms1", "3.2 spgo700 ms1", "All processes on the generator's machine together"]
    {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(text.contains("baseline mean") && text.contains("partition 0 has another leader <2>"), "{text}");
    let page = comparison_page(comparison, &windows);
    assert_eq!(select(&check(&page), "svg.plot .stall").len(), 0);
    assert!(words(&page).contains("This record has no CPU by core: an older version of Hone made it"));
}

#[test]
fn a_load_run_shows_its_batches_stalls_and_cores() {
    let page = documents::window(&sample::eventful()).html();
    let html = check(&page);
    for title in ["run-series", "run-cores", "run-batches-1"] {
        let selector = format!("#{title}-wide-title");
        assert_eq!(select(&html, &selector).len(), 1, "{title}");
    }
    let text = words(&page);
    for wanted in [
        "Batches of orders by size",
        "Below 4 KiB: 70.0 %. From 4 to 16 KiB: 20.0 %.",
        "6.5 s120 ms1",
        "busiest slice",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let mut older = sample::eventful();
    older.batches[0].sizes = hone_record::BatchSizes::default();
    older.environment.as_mut().unwrap().core_use = None;
    let page = documents::window(&older).html();
    check(&page);
    for wanted in [
        "only the mean and the quantiles of the batch sizes",
        "This record has no CPU by core: an older version",
    ] {
        assert!(words(&page).contains(wanted), "{wanted}");
    }
}

#[test]
fn a_diagnosis_of_two_sides_shows_the_change_of_the_slots() {
    let page = documents::diagnosis(&sample::diagnosis_of_two()).html();
    let html = check(&page);
    assert_eq!(select(&html, "svg.plot.wide rect.slot").len(), 8);
    let points: Vec<String> = select(&html, "svg.plot.wide text.strong").into_iter().map(text_of).collect();
    assert_eq!(points, ["−13.1", "+8.2", "+5.7", "−0.8"], "the largest change first");
    let mut one = sample::diagnosis_of_two();
    (one.shifts, one.parts) = (Vec::new(), one.parts.split_off(1));
    let html = check(&documents::diagnosis(&one).html());
    assert_eq!(select(&html, "svg.plot.wide rect.slot").len(), 4);
    let page = documents::diagnosis(&sample::diagnosis()).html();
    assert_eq!(select(&check(&page), "svg.plot").len(), 0);
    assert!(words(&page).contains("only hardware counters count them"));
}

#[test]
fn a_watched_process_shows_its_threads_and_methods() {
    let page = documents::diagnosis(&sample::watched_jvm()).html();
    let html = check(&page);
    let tables: Vec<String> = select(&html, "#diagnosis table caption").into_iter().map(text_of).collect();
    assert_eq!(tables, ["Threads by purpose", "Threads", "Hottest methods"]);
    let text = words(&page);
    for told in
        ["Busiest threads: application, 83.0 % of a core.", "Next: compare collectors", "kafka.log.append"]
    {
        assert!(text.contains(told), "{told}: {text}");
    }
    assert!(!text.contains("only hardware counters"), "{text}");
}

#[test]
fn steps_are_a_table_and_curves() {
    let (tuning, windows) = sample::tuning();
    let page = documents::proof(&tuning.as_proof(), &windows, None).html();
    let html = check(&page);
    assert_eq!(select(&html, "#states svg.plot.wide").len(), 1);
    // p50, p99 and CPU of seven states; the windows of the sample have no batches. Three steps are not accepted.
    assert_eq!(select(&html, "#states svg.plot.wide circle.dot").len(), 3 * 4);
    assert_eq!(select(&html, "#states svg.plot.wide circle.hollow").len(), 3 * 3);
    assert!(!select(&html, "#states svg.plot.wide line.thin").is_empty(), "intervals are drawn");
    let mut proof = tuning.as_proof();
    for step in &mut proof.steps {
        (step.before, step.after) = Default::default();
    }
    let page = documents::proof(&proof, &windows, None).html();
    assert_eq!(select(&check(&page), "#states svg.plot").len(), 0);
    assert!(words(&page).contains("Fewer than two states have a figure"));
}

#[test]
fn a_heatmap_says_how_few_pages_hold_the_execution() {
    let finding =
        "After the change, 99 % of the execution of hone-broker fits into 12 pages of 4 KiB instead of 40.";
    let mut map = sample::heatmap();
    let page = documents::heatmap(&map).html();
    assert!(words(&page).contains(finding));
    let tiles = |page: &str| {
        let html = Html::parse_document(page);
        select(&html, "header .tiles tbody tr").into_iter().map(text_of).collect::<Vec<String>>()
    };
    let of_change = tiles(&page);
    assert!(of_change.len() >= 2 && of_change[0].starts_with("pages that hold 99 %4012"), "{of_change:?}");
    let story = Story { heatmaps: vec![map.clone()], ..sample::story() };
    let page = documents::story(&story).html();
    check(&page);
    assert!(words(&page).contains(finding));
    map.sides.truncate(1);
    let alone = "99 % of the execution of hone-broker lies in 40 pages of 4 KiB.";
    let page = documents::heatmap(&map).html();
    assert!(words(&page).contains(alone));
    assert_eq!(tiles(&page)[0], "pages that hold 99 %40");
    map.sides[0].pages.clear();
    assert!(!words(&documents::heatmap(&map).html()).contains("99 % of the execution of"));
}

#[test]
fn an_xray_shows_each_topic_its_verdict_and_what_to_set() {
    let page = documents::xray(&sample::xray()).html();
    let html = check(&page);
    let head = text_of(select(&html, "header")[0]).replace('\u{a0}', " ");
    assert!(head.contains("Of 2 topics, orders <eu> has the most costly batches: linger is too short, so batches leave early (LINGER_BOUND)."), "{head}");
    assert!(head.contains("Set linger to 60 ms: 84.0 % fewer batches"), "{head}");
    assert_eq!(select(&html, "svg.plot.wide rect.size-most").len(), 2);
    assert_eq!(select(&html, "svg.plot.wide rect.size-bar").len(), 8);
    assert_eq!(select(&html, "svg.plot.wide line.limit").len(), 4);
    let text = words(&page);
    for wanted in [
        "Batches of clicks by size",
        "the mean and the quantiles",
        "confidence interval 19.6 KiB to 22.6 KiB",
        "time 93.0 %",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let none = hone_record::BatchXray { source: "b:1".to_owned(), ..hone_record::BatchXray::default() };
    let page = documents::xray(&none).html();
    check(&page);
    assert!(words(&page).contains("No topic was read."));
    let empty = hone_record::TopicXray { topic: HOSTILE.to_owned(), ..hone_record::TopicXray::default() };
    let page = documents::xray(&hone_record::BatchXray { topics: vec![empty], ..none }).html();
    check(&page);
    assert!(words(&page).contains("No batch was read"));
}

#[test]
fn a_page_of_200_pairs_is_lighter_than_a_mebibyte() {
    let (optimization, windows) = sample::optimization();
    let mut comparison = optimization.comparisons[0].clone();
    let pairs = comparison.pairs.iter().cycle().zip(0..200);
    comparison.pairs =
        pairs.map(|(pair, index)| hone_record::PairOutcome { index, ..pair.clone() }).collect();
    let mut windows = busy(&windows);
    for window in windows.values_mut() {
        let seconds = window.series.iter().cycle().zip(0..3_600);
        window.series = seconds
            .map(|(point, at)| hone_record::SeriesPoint { at_s: f64::from(at), ..point.clone() })
            .collect();
        let waits: Vec<(u64, u64)> = (0..900).map(|at| (at * 4_000, at * 4_000 + 300)).collect();
        window.facts.stalls = Some(sample::stalls(&waits));
        window.environment.as_mut().unwrap().core_use = Some(sample::core_use(32));
    }
    let page = comparison_page(&comparison, &windows);
    assert!(page.len() < 1 << 20, "{}", page.len());
}

#[test]
fn a_run_summary_names_the_latencies_that_grew() {
    let mut told = sample::story();
    let set = |state: &mut hone_record::BatchState, ns| {
        state.windows = 1;
        state.latency = Hdr::new();
        (0..2_000).for_each(|_| state.latency.record_ns(ns));
    };
    for chapter in told.chapters.iter_mut().filter(|chapter| !chapter.entry.workload.is_empty()) {
        set(&mut chapter.before, 1_000_000);
        set(&mut chapter.after, 5_000_000);
    }
    let html = check(&documents::story(&told).html());
    let head = text_of(select(&html, "header")[0]).replace('\u{a0}', " ");
    let wanted =
        "Latency grew under load “orders” from the first to the last state: p50 from 1.00 ms to 5.00 ms";
    assert!(head.contains(wanted), "{head}");
    assert_eq!(select(&html, "header .verdict-word .mark").len(), 0, "a gain with a price has no tick");
    let html = check(&documents::story(&sample::story()).html());
    assert_eq!(select(&html, "header .verdict-word .mark.better").len(), 1);
}

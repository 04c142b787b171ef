//! A record has one document, and its three forms say the same: every figure of the page stands in Markdown and in the terminal, and none
//! stands there alone.

use std::collections::BTreeMap;

use hone_experiment::fixture::comparison;
use hone_record::{Metric, Schedule, Verdict, Window};
use hone_report::{Detail, Document, documents};
use scraper::{ElementRef, Html, Node};

#[path = "../../hone-report/tests/sample/mod.rs"]
mod sample;

fn documents_of_every_kind() -> Vec<(&'static str, Document)> {
    let (optimization, windows) = sample::optimization();
    let story = sample::story();
    let (tuning, tuned) = sample::tuning();
    let proof = tuning.as_proof();
    vec![
        ("optimization", documents::optimization(&optimization, &windows, Some(&story))),
        ("comparison", documents::comparison(&optimization.comparisons[0], &windows, None)),
        (
            "comparison without windows",
            documents::comparison(&optimization.comparisons[0], &BTreeMap::new(), None),
        ),
        ("proof", documents::proof(&proof, &tuned, Some(&story))),
        ("tuning", documents::tuning(&tuning, &tuned, Some(&story))),
        ("host trial", documents::host_trial(&hone_experiment::fixture::trial(true), &windows, None)),
        ("story", documents::story(&story)),
        ("capacity", documents::capacity(&sample::capacity())),
        ("curve", documents::curve(&sample::curve())),
        ("window", documents::window(&sample::window("baseline", 1, 1.0))),
        ("window with events", documents::window(&sample::eventful())),
        ("saturated window", documents::window(&sample::saturated_window())),
        ("heatmap", documents::heatmap(&sample::heatmap())),
        ("diagnosis", documents::diagnosis(&sample::diagnosis())),
    ]
}

/// Every number in a text, with how often it stands there.
fn figures(text: &str) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',');
    for token in text.split(|c| !is_part(c)) {
        let token = token.trim_matches(['.', ',']);
        if !token.is_empty() {
            *found.entry(token.to_owned()).or_insert(0) += 1;
        }
    }
    found
}

/// What a reader of the page sees, without the pictures and what only explains them.
fn page_text(html: &str) -> String {
    fn append(element: ElementRef, out: &mut String) {
        let name = element.value().name();
        let of_pictures = ["legend", "no-figure", "downloads"];
        let is_picture = ["svg", "figcaption", "style", "title", "script", "form", "nav", "button"]
            .contains(&name)
            || element.value().classes().any(|class| of_pictures.contains(&class));
        if is_picture {
            return;
        }
        for child in element.children() {
            match (child.value(), ElementRef::wrap(child)) {
                (_, Some(element)) => append(element, out),
                (Node::Text(text), _) => out.push_str(text),
                _ => {}
            }
        }
        out.push(' ');
    }
    let mut out = String::new();
    append(Html::parse_document(html).root_element(), &mut out);
    out
}

#[test]
fn the_three_forms_of_every_kind_have_the_same_figures() {
    for (kind, document) in documents_of_every_kind() {
        let markdown = figures(&document.clone().markdown());
        let terminal = figures(&document.clone().terminal(Detail::Everything));
        assert!(markdown.len() > 5, "{kind}: {markdown:?}");
        assert_eq!(terminal, markdown, "{kind}");
        // A page that is used rather than read shows more than its tables.
        if kind == "heatmap" {
            continue;
        }
        assert_eq!(figures(&page_text(&document.html())), markdown, "{kind}");
    }
}

#[test]
fn a_terminal_shows_the_result_first_and_no_more_figures_than_the_whole() {
    for (kind, document) in documents_of_every_kind() {
        let short = document.clone().terminal(Detail::Result);
        let whole = figures(&document.terminal(Detail::Everything));
        let is_part =
            figures(&short).iter().all(|(figure, times)| whole.get(figure).is_some_and(|all| all >= times));
        assert!(is_part && !short.contains("How to read this page"), "{kind}: {short}");
    }
}

#[test]
fn a_rate_that_was_asked_for_is_printed_as_given_in_all_forms() {
    let mut window = sample::window("baseline", 1, 1.0);
    window.workload.requests_per_s = 1_234.0;
    window.workload.schedule = Schedule::Uniform;
    window.facts.requests = 12_340;
    let document = documents::window(&window);
    for text in
        [document.clone().terminal(Detail::Result), document.clone().markdown(), page_text(&document.html())]
    {
        assert!(text.replace('\u{a0}', " ").contains("1,234 requests/s"), "{text}");
    }
}

#[test]
fn foreign_names_have_no_effect_in_any_form() {
    let mut window: Window = sample::window("a\u{1b}[2J|b<script>@all", 1, 1.0);
    window.workload.name = "# [x](http://y)\n- z".to_owned();
    let document = documents::window(&window);
    let terminal = document.clone().terminal(Detail::Everything);
    assert!(!terminal.contains('\u{1b}'), "{terminal}");
    let markdown = document.markdown();
    assert!(
        !markdown.contains("<script") && !markdown.contains("@all") && !markdown.contains("\n- z"),
        "{markdown}"
    );
    assert!(markdown.contains("\\[x\\](http://y)"), "{markdown}");
}

#[test]
fn of_capacities_no_percentiles_are_listed() {
    let mut story = sample::story();
    assert!(documents::story(&story).markdown().contains("| p99.9 |"));
    story.chapters.iter_mut().for_each(|chapter| chapter.entry.metric = Some(Metric::Capacity));
    assert!(!documents::story(&story).markdown().contains("| p99.9 |"));
}

fn terminal(comparison: &hone_record::Comparison, detail: Detail) -> String {
    let text = documents::comparison(comparison, &BTreeMap::new(), None).terminal(detail);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_tail_comes_with_what_its_pairs_may_never_have_met() {
    let mut whole = comparison(Some(Verdict::NotShown));
    whole.judgements[1].estimate.pairs = 14;
    let shown = terminal(&whole, Detail::Everything);
    assert!(shown.contains("none of 14 with a probability of 4 %, in one of 10 with 23 %"), "{shown}");
    assert!(!terminal(&whole, Detail::Result).contains("probability"));
    whole.design.rule.guards.clear();
    assert!(!terminal(&whole, Detail::Everything).contains("probability"), "the verdict hangs on no tail");
}

/// A comparison under a load of operations, as it is judged: what no such window can tell is refused.
fn of_operations(b: &str, workload: &str) -> hone_record::Comparison {
    let mut whole = comparison(Some(Verdict::NotShown));
    let engine = hone_record::Engine::Exits { arguments: Vec::new(), operations: 9 };
    whole.workload = hone_record::Workload::of_operations(workload, engine);
    whole.b = b.to_owned();
    whole.design.mode = hone_record::Mode::Solo;
    whole.design.refused = hone_compare::refused_for_operations(Metric::CpuPerRecord);
    whole.not_estimated = whole.design.refused.clone();
    whole.not_estimated.insert(Metric::UserCpuPerRecord, "only 0 of the pairs".to_owned());
    whole.judgements.truncate(1);
    whole.design.rule.guards.clear();
    whole.pairs = vec![hone_record::PairOutcome {
        index: 11,
        kind: hone_record::PairKind::Test,
        values_a: [].into(),
        values_b: [].into(),
        dropped: Some("neighbours".to_owned()),
        ..hone_record::PairOutcome::default()
    }];
    whole
}

#[test]
fn operations_are_no_records_and_each_reason_stands_once() {
    let shown = terminal(&of_operations("B", "w"), Detail::Everything);
    assert!(shown.contains("user CPU per operation – – not estimated: only 0 of the pairs"), "{shown}");
    assert!(shown.contains("the load's command counts"), "{shown}");
    assert!(!shown.contains("per record") && !shown.contains("per request"), "{shown}");
    assert!(!shown.contains("same figure again"), "{shown}");
    assert!(shown.contains("pair 12 (A/B): neighbours"), "{shown}");
}

#[test]
fn primary_and_guard_are_marked_and_missing_rows_say_what_they_need() {
    let shown = terminal(&comparison(Some(Verdict::NotShown)), Detail::Result);
    assert!(shown.contains("CPU per record (primary)") && shown.contains("p99 (guard rail)"), "{shown}");
    assert!(shown.contains("(−10.0 %)"), "{shown}");
    let shown = terminal(&comparison(None), Detail::Result);
    assert!(shown.contains("only 0 of the pairs (a p99 needs 1,000 requests a window)"), "{shown}");
}

#[test]
fn what_profiles_take_is_told_beside_the_builds() {
    let (mut found, windows) = sample::optimization();
    let step = |step: &str, took_s| hone_record::StepReceipt {
        step: step.to_owned(),
        took_s,
        command: None,
        note: String::new(),
    };
    let all = ["build-baseline", "build-instrumented", "train", "prove-profile", "build-pgo", "train-bolt"];
    found.steps =
        all.into_iter().zip([1.0, 60.0, 20.5, 4.0, 1.0, 10.0]).map(|(name, s)| step(name, s)).collect();
    let text =
        documents::optimization(&found, &windows, None).terminal(Detail::Everything).replace("\n  ", " ");
    let wanted = "Making the profiles took 94.5 s beside these builds: build-instrumented 60.0 s, train 20.5 s, prove-profile 4.0 s, train-bolt 10.0 s";
    assert!(text.contains(wanted), "{text}");
}

#[test]
fn a_decision_comes_first_with_its_reason_and_the_best() {
    let (mut found, windows) = sample::optimization();
    let variant = |name: &str, parent: Option<&str>, decision: &str, why: &str| hone_record::VariantFacts {
        decision: decision.to_owned(),
        why: why.to_owned(),
        ..hone_record::VariantFacts::made(name, parent)
    };
    found.variants = vec![
        variant("baseline", None, "", ""),
        variant("pgo", Some("baseline"), "drop", "not shown beside baseline under reading"),
    ];
    found.best = None;
    let text = |found: &hone_record::Optimization| {
        documents::optimization(found, &windows, None).terminal(Detail::Result)
    };
    let shown = text(&found);
    assert!(shown.starts_with("Decision: keep the baseline; no variant is kept.\n"), "{shown}");
    assert!(shown.contains("\n  drop pgo: not shown beside baseline under reading\n"), "{shown}");
    found.variants.push(variant("bolt", Some("baseline"), "keep", "better than baseline under reading"));
    found.best = Some("bolt".to_owned());
    let shown = text(&found);
    assert!(shown.starts_with("Decision: keep bolt, the best by measurement.\n"), "{shown}");
    assert!(shown.find("Decision") < shown.find("CPU per record"), "{shown}");
}

//! A record has one document, and its three forms say the same: every figure of the page stands in Markdown and in the terminal, and none
//! stands there alone.

use std::collections::BTreeMap;

use hone_record::{Metric, Schedule, Window};
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

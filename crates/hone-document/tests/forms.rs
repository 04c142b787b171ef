//! A record has one document, and its three forms say the same: every figure of the page stands in Markdown and in the terminal, and none
//! stands there alone.

use std::collections::BTreeMap;

use hone_experiment::fixture::{self, comparison, gate};
use hone_record::{
    Decision, GateOutcome, GateState, Metric, Proof, Schedule, Together, Tuning, Verdict, Window,
};
use hone_report::{Detail, documents};
use scraper::{ElementRef, Html, Node};

mod every_kind;
#[path = "../../hone-report/tests/sample/mod.rs"]
mod sample;
use every_kind::{climbing, documents_of_every_kind, replicated, tuning};

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
        let of_pictures = ["legend", "no-figure", "downloads", "only-page", "verdict-word"];
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

fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn terminal(comparison: &hone_record::Comparison, detail: Detail) -> String {
    on_one_line(&documents::comparison(comparison, &BTreeMap::new(), None).terminal(detail))
}

#[test]
fn a_tail_comes_with_what_its_pairs_may_never_have_met() {
    let mut whole = comparison(Some(Verdict::NotShown));
    whole.judgements[1].estimate.pairs = 14;
    let shown = terminal(&whole, Detail::Everything);
    assert!(
        shown.contains("missing from all of 14 with a probability of 4 %, one in 10 windows with 23 %"),
        "{shown}"
    );
    assert!(!terminal(&whole, Detail::Result).contains("probability"));
    whole.design.rule.guards.clear();
    assert!(!terminal(&whole, Detail::Everything).contains("probability"), "the verdict hangs on no tail");
}

/// A comparison under a load of operations, as it is judged: metrics that such windows lack are refused.
fn of_operations(b: &str, workload: &str) -> hone_record::Comparison {
    let mut whole = comparison(Some(Verdict::NotShown));
    let engine = hone_record::Engine::Exits { arguments: Vec::new(), operations: 9 };
    whole.workload = hone_record::Workload::of_operations(workload, engine);
    whole.b = b.to_owned();
    whole.design.mode = hone_record::Mode::Solo;
    whole.design.refused = hone_compare::refused_for_operations(Metric::CpuPerRecord);
    whole.not_estimated = whole.design.refused.clone();
    whole.not_estimated.insert(Metric::UserCpuPerRecord, "none of the pairs has a value".to_owned());
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
    assert!(
        shown.contains("user CPU per operation – – not estimated: none of the pairs has a value"),
        "{shown}"
    );
    assert!(shown.contains("the load's command counts"), "{shown}");
    assert!(!shown.contains("per record") && !shown.contains("per request"), "{shown}");
    assert!(!shown.contains("same figure again"), "{shown}");
    assert!(shown.contains("pair 12 (A/B): neighbours"), "{shown}");
}

#[test]
fn primary_and_guard_are_marked_and_missing_rows_say_what_they_need() {
    let shown = terminal(&comparison(Some(Verdict::NotShown)), Detail::Result);
    assert!(shown.contains("CPU per record (primary)") && shown.contains("p99 (guard metric)"), "{shown}");
    assert!(shown.contains("−10.0 % [−15.0, −5.0] % better"), "{shown}");
    let shown = terminal(&comparison(None), Detail::Result);
    assert!(
        shown.contains("none of the pairs has a value (a p99 needs 1,000 requests per window)"),
        "{shown}"
    );
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
    let wanted = "Making the profiles took 94.5 s in addition to these builds: build-instrumented 60.0 s, train 20.5 s, prove-profile 4.0 s, train-bolt 10.0 s";
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
        variant("pgo", Some("baseline"), "drop", "inconclusive compared with baseline under reading"),
    ];
    found.best = None;
    let text = |found: &hone_record::Optimization| {
        documents::optimization(found, &windows, None).terminal(Detail::Result)
    };
    let shown = text(&found);
    assert!(shown.starts_with("Decision: keep the baseline; no variant is kept.\n"), "{shown}");
    assert!(shown.contains("\n  drop pgo: inconclusive compared with baseline under reading\n"), "{shown}");
    found.variants.push(variant("bolt", Some("baseline"), "keep", "better than baseline under reading"));
    found.best = Some("bolt".to_owned());
    let shown = text(&found);
    assert!(shown.starts_with("Decision: keep bolt, the best variant by measurement.\n"), "{shown}");
    assert!(shown.find("Decision") < shown.find("CPU per record"), "{shown}");
}

fn proven(proof: &Proof, detail: Detail) -> String {
    documents::proof(proof, &BTreeMap::new(), None).terminal(detail)
}

#[test]
fn a_proof_begins_with_its_verdict_and_has_a_column_for_each_step() {
    let shown = proven(&fixture::proof(), Detail::Result);
    assert!(shown.starts_with("Accepted: linger=5ms. Inconclusive: acks=0.\n"), "{shown}");
    let row = |name: &str| {
        let row = shown.lines().find(|line| line.trim_start().starts_with(name));
        on_one_line(row.unwrap_or_else(|| panic!("{name}: {shown}")))
    };
    assert_eq!(row("all windows"), "all windows of a state original linger=5ms acks=0");
    assert_eq!(row("outcome"), "outcome – accepted inconclusive");
    assert_eq!(row("p50"), "p50 25.0 ms 4.00 ms 5.00 ms");
    assert_eq!(row("p99.999"), "p99.999 too few samples 4.00 ms too few samples");
    assert_eq!(row("CPU, cores"), "CPU, cores 0.500 0.500 0.500");
    assert_eq!(row("bytes per batch"), "bytes per batch 1,000 1,000 1,000");
    assert_eq!(row("CPU per record"), "CPU per record, ratio – 0.900 0.900");
    assert_eq!(row("confidence interval"), "confidence interval – [0.850, 0.950] [0.850, 0.950]");
    let shown = on_one_line(&shown);
    assert!(shown.contains("To keep linger=5ms: hone batch settings prints"), "{shown}");
    assert!(!shown.contains("a limit") && !shown.contains("predicted"), "{shown}");
}

#[test]
fn a_proof_explains_predictions_and_what_it_rests_on() {
    let whole = on_one_line(&proven(&fixture::proof(), Detail::Everything));
    let markdown = on_one_line(&documents::proof(&fixture::proof(), &BTreeMap::new(), None).markdown());
    for text in [&whole, &markdown] {
        for wanted in [
            "bytes per batch: predicted 900 (800 to 950), measured 1,000 (+11.1 %), did not come true (whatif)",
            "Unknown for all states: network sent per second, backlog, records (median), consumer lag",
            "a limit",
            "a rule",
            "Original settings: partitions=",
            "Software: client librdkafka 2.",
        ] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
    }
    let mut failed = fixture::proof();
    failed.steps[1].comparison = None;
    let shown = proven(&failed, Detail::Result);
    assert!(shown.starts_with("Accepted: linger=5ms. Rejected: acks=0.\n"), "{shown}");
}

#[test]
fn a_replica_that_is_not_like_its_topic_stands_before_the_steps() {
    let proof = documents::proof(&replicated(), &BTreeMap::new(), None);
    for text in [proof.clone().terminal(Detail::Result), proof.markdown()] {
        let (replica, states) = (text.find("batches/s 200 in the topic"), text.find("p99.999"));
        assert!(replica.unwrap() < states.unwrap(), "{text}");
    }
}

fn tuned(tuning: &Tuning, detail: Detail) -> String {
    on_one_line(&documents::tuning(tuning, &BTreeMap::new(), None).terminal(detail))
}

#[test]
fn a_tuning_begins_with_what_is_kept_and_says_how_to_keep_it() {
    let shown = tuned(&tuning(), Detail::Result);
    for wanted in [
        "Kept 1 of 3 changes: codec=zstd. The CPU per record is 0.900 [0.850, 0.950] times the first value.",
        "Saved at this load: ",
        "Not reconfirmed with the other changes in place: codec=zstd. Rolled back at the end: linger=20ms.",
        "The run ended because nothing is left that is expected to help.",
        "To make the changes permanent Hone restored all settings when the run ended. codec=zstd: set it",
    ] {
        assert!(shown.contains(wanted), "{wanted}: {shown}");
    }
    assert!(shown.starts_with("Kept 1 of 3") && !shown.contains("batches are small"), "{shown}");
}

#[test]
fn a_tuning_explains_each_change_and_what_all_are_worth_together() {
    let whole = tuned(&tuning(), Detail::Everything);
    let markdown = on_one_line(&documents::tuning(&tuning(), &BTreeMap::new(), None).markdown());
    for text in [whole, markdown] {
        for wanted in [
            "tried because batches are small; expected gain 25",
            "next in line: codec=lz4",
            "with the others in place is 0.500",
            "linger=20ms: rolled back.",
            "it breaks p99",
            "codec=zstd: kept, not reconfirmed.",
        ] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
    }
}

/// No two of its windows had the same load.
#[test]
fn of_a_load_that_climbs_only_the_capacity_is_reported() {
    let shown = tuned(&tuning(), Detail::Everything);
    assert!(shown.contains("CPU time per record") && shown.contains("p99.9 "), "{shown}");
    let found = climbing();
    assert_eq!(found.saving(), None);
    let shown = tuned(&found, Detail::Result);
    assert!(shown.contains("capacity, requests/s") && shown.contains("windows"), "{shown}");
    for other in ["CPU time per record", "CPU, cores", "p99.9 ", "batches per second", "Saved at this load"] {
        assert!(!shown.contains(other), "{other}: {shown}");
    }
}

/// What saves makes ratios below 1, and what raises a capacity above.
#[test]
fn what_the_product_means_hangs_on_which_way_the_objective_counts() {
    let said = |found: Tuning| found.together.unwrap().sentence().unwrap();
    let cost = said(tuning());
    assert!(cost.contains("larger if changes share a gain, and smaller if they help"), "{cost}");
    let capacity = said(climbing());
    assert!(capacity.contains("smaller if changes share a gain, and larger if they help"), "{capacity}");
}

#[test]
fn a_tuning_that_kept_nothing_says_so() {
    let mut found = Tuning { kept: Vec::new(), together: None, to_keep: Vec::new(), ..tuning() };
    assert!(
        found.verdict().starts_with("Nothing is kept of 3 changes: linger=20ms; "),
        "{}",
        found.verdict()
    );
    found.steps.iter_mut().for_each(|step| step.step.decision = Decision::Rejected);
    assert!(found.verdict().contains("none was shown to improve"), "{}", found.verdict());
}

/// One by one they helped; the comparison of all of them is what counts, and where there is none, no other one.
#[test]
fn the_verdict_of_a_tuning_has_no_other_figure_than_that_of_all_together() {
    let mut found = tuning();
    found.together = found.together.map(|together| Together { all: None, ..together });
    assert!(!found.verdict().contains("times the first value"), "{}", found.verdict());
    assert!(found.remarks().unwrap().contains("the budget did not reach that far"));
    found.together = None;
    assert!(found.verdict().contains("times the first value"), "{}", found.verdict());
}

fn tried(trial: &hone_record::HostTrial, detail: Detail) -> String {
    on_one_line(&documents::host_trial(trial, &BTreeMap::new(), None).terminal(detail))
}

#[test]
fn a_tail_that_rests_on_one_stall_says_so() {
    let whole = tried(&fixture::trial(false), Detail::Everything);
    let tail = "before: 75.0 % of the requests beyond p99 and 100 % of the requests beyond p99.9 waited in 1 stall of 0.975 s in total";
    assert!(whole.contains(tail) && !whole.contains("after: "), "{whole}");
    assert!(whole.contains("vm.swappiness: 60 → 1: can't matter here"), "{whole}");
    assert!(whole.contains("the speed is no gain") && whole.contains("at most 31 ms"), "{whole}");
    let shown = tried(&fixture::trial(false), Detail::Result);
    assert!(shown.starts_with("Worse: field-guide, acks=all. Inconclusive: field-guide, acks=1."), "{shown}");
    assert!(
        shown.contains("field-guide, acks=all 20 → 80 worse 10.0 µs 9.00 µs 0.900 [0.850, 0.950]"),
        "{shown}"
    );
    assert!(
        shown.contains("Not tried: vm.swappiness.") && !shown.contains("the speed is no gain"),
        "{shown}"
    );
}

#[test]
fn a_factorial_has_a_row_for_each_class_below_its_own_host() {
    let whole = tried(&fixture::trial(true), Detail::Everything);
    assert!(whole.starts_with("Worse: field-guide, acks=all. "), "{whole}");
    for wanted in ["before, acks=1 1.00 ms", "before, acks=all 1.00 ms", "acks=all, storage: page cache"] {
        assert!(whole.contains(wanted), "{wanted}: {whole}");
    }
}

#[test]
fn settings_that_were_left_in_force_come_with_the_command_that_keeps_them() {
    let mut trial = fixture::trial(false);
    trial.together = trial.tried.first().cloned();
    assert!(
        tried(&trial, Detail::Result).contains("Together they are inconclusive, so Hone kept none of them.")
    );
    trial.left_in_force = Some("change-7".to_owned());
    let shown = tried(&trial, Detail::Result);
    assert!(shown.contains("active as change change-7. hone host confirm keeps them"), "{shown}");
}

#[test]
fn a_gate_begins_with_what_follows_and_its_figures() {
    for (outcome, state, expected) in [
        (
            GateOutcome::Worse,
            GateState::Worse,
            "Failed: bbbbbbbbbb has a regression compared with aaaaaaaaaa. CPU per record under judge: +31.0 % [+25.0 %, +38.0 %], limit 3 %.",
        ),
        (
            GateOutcome::Passed,
            GateState::Held,
            "Passed: bbbbbbbbbb shows no regression compared with aaaaaaaaaa.",
        ),
        (GateOutcome::Passed, GateState::NotShown, "would have found is 5.2 % (limit 3 %)"),
        (
            GateOutcome::TooLittlePower,
            GateState::NotShown,
            "Inconclusive: bbbbbbbbbb may be worse than aaaaaaaaaa.",
        ),
        (
            GateOutcome::NotSeen,
            GateState::NotSeen,
            "may be worse than aaaaaaaaaa. CPU per record under judge: the 95 % interval",
        ),
        (GateOutcome::SameProgram, GateState::Held, "byte for byte"),
    ] {
        let found = gate(outcome, state);
        let shown = on_one_line(&documents::gate(&found, &BTreeMap::new(), None).terminal(Detail::Result));
        assert!(shown.contains(expected), "{shown}");
        assert!(shown.contains("Base: aaaaaaaaaa (main): before; built in 1 s"), "{shown}");
        assert!(shown.contains("Note: a note") && !shown.contains("The rule."), "{shown}");
    }
}

#[test]
fn a_head_that_broke_down_is_not_told_by_the_figures_of_what_is_left() {
    let mut found = gate(GateOutcome::Worse, GateState::Worse);
    let finding = &mut found.findings[0];
    finding.ratio = Some([1.0, 0.99, 1.01]);
    (finding.verdict, finding.by_troubles) = (Some(Verdict::NotShown), true);
    finding.why = "the head failed under a load that the base sustained: ended by signal 11".to_owned();
    let sentence = hone_report::gate::sentence(&found);
    let expected =
        "the head failed under a load that the base sustained: ended by signal 11 (remaining pairs: 0.0 % [";
    assert!(sentence.contains(expected) && !sentence.contains(", limit"), "{sentence}");
    assert!(documents::gate_comment(&found).markdown().contains("ended by signal 11"));
}

#[test]
fn a_comment_is_one_table_whatever_a_message_says() {
    let comment = documents::gate_comment(&gate(GateOutcome::Worse, GateState::Worse)).markdown();
    let rows: Vec<&str> = comment.lines().filter(|line| line.starts_with("| ")).collect();
    assert_eq!(rows.len(), 2, "{comment}");
    assert!(rows[1].ends_with("| 5.2 % | worse |"), "{comment}");
    assert!(comment.lines().count() < 20, "{comment}");
}

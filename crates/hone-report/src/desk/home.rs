//! The first page: every run as one row, with what it compared or changed, its verdict and the result in numbers. Running runs come first.

use hone_record::{RunState, ShelfFilter, ShelfLedger, ShelfOutcome, ShelfPage, ShelfRun};

use super::frame::{Around, Tab, ago, copyable, document, link, refresher, silence};
use super::list::{Pager, VERDICTS, counted, encoded, pages, search_form, select, state, unmarked};
use crate::plot::{mark, spark};
use crate::quantity::{self, NONE};
use crate::section::{paragraph, section};
use crate::tree::{Element, Markup, el};

/// Ages of runs for the filter, in hours.
const AGES: [(u64, &str); 4] =
    [(24, "last 24 hours"), (168, "last 7 days"), (720, "last 30 days"), (8_760, "last year")];
/// Titles of the columns.
const COLUMNS: [&str; 7] =
    ["outcome", "compared or changed", "result", "over time", "when", "took", "state and machine"];

/// All runs, the running ones first, then the newest, and the ledgers.
pub fn runs(page: &ShelfPage<ShelfRun>, ledgers: &[ShelfLedger], pager: &Pager, around: &Around) -> String {
    if page.in_all == 0 {
        return document("Runs", Tab::Runs, around, first_steps().into_iter().chain(listed(ledgers)));
    }
    let is_live = page.items.iter().any(|run| run.state == RunState::Running);
    let found = el("section")
        .attr("id", "live")
        .attr("aria-label", "Runs")
        .attr("data-live", if is_live { "yes" } else { "no" })
        .attr("data-end", "No run on this page is running any more. ")
        .children(found(page, pager, around));
    let content = [Some(filters(page)), Some(line(page, is_live)), Some(found), listed(ledgers)];
    document("Runs", Tab::Runs, around, content.into_iter().flatten())
}

/// How many runs the list has, and whether it refreshes. The script replaces the list, so this line lies outside of it.
fn line(page: &ShelfPage<ShelfRun>, is_live: bool) -> Element {
    let count = counted(page, "run", "runs").replace("newest first", "running ones first, then the newest");
    el("div")
        .class("list-line")
        .child(el("p").attr("id", "count").text(&count))
        .children(is_live.then(refresher))
}

/// What to do where there is no run yet.
fn first_steps() -> [Element; 2] {
    let start = section("start", "There is no run yet")
        .child(el("p").text("A run appears here as soon as a Hone command writes into one of these folders. Start with one of these:"))
        .child(el("p").text("Measure one broker:"))
        .child(copyable("hone load 127.0.0.1:9092 --rate 5000"))
        .child(el("p").text("Compare two brokers, with a verdict:"))
        .child(copyable("hone compare 127.0.0.1:9092 127.0.0.1:9192 --rate 5000"))
        .child(el("p").text("See which topics have small batches:"))
        .child(copyable("hone batch xray 127.0.0.1:9092"));
    let check = el("p")
        .text("Check the machine first: ")
        .child(el("code").text("hone doctor"))
        .text(" reports what makes measurements noisy.");
    [start, check]
}

fn listed(ledgers: &[ShelfLedger]) -> Option<Element> {
    if ledgers.is_empty() {
        return None;
    }
    let items = ledgers.iter().map(|ledger| {
        let size = format!(", {}", quantity::bytes(ledger.bytes));
        el("li").child(link(&format!("/ledger/{}", ledger.id), &ledger.path)).text(&size)
    });
    let what =
        paragraph("A ledger lists the tested changes of its folder, each with its result and decision.");
    Some(section("ledgers", "Ledgers").child(what).child(el("ul").children(items)))
}

fn found(page: &ShelfPage<ShelfRun>, pager: &Pager, around: &Around) -> Vec<Element> {
    if page.items.is_empty() {
        let all = link("/", "Show all runs");
        return vec![el("p").class("absent").text("Nothing matches the filter. ").child(all)];
    }
    let reach = spark::reach(page.items.iter().filter_map(|run| run.outcome.as_ref()?.ratio));
    let rows = page.items.iter().map(|run| row(run, &page.filter, reach, around.now_unix_ms));
    let head = COLUMNS.map(|title| el("th").attr("scope", "col").text(title));
    let caption = el("caption").class("heard").text("Runs");
    let table = el("table")
        .class("figures runs")
        .child(caption)
        .child(el("thead").child(el("tr").children(head)))
        .child(el("tbody").children(rows));
    let region = el("div")
        .class("scroll")
        .attr("role", "group")
        .attr("tabindex", "0")
        .attr("aria-label", "Runs")
        .child(table);
    std::iter::once(region).chain(pages(page.page, page.pages, pager)).collect()
}

fn row(run: &ShelfRun, filter: &ShelfFilter, reach: f64, now_unix_ms: u64) -> Element {
    let outcome = run.outcome.as_ref();
    let cell = |class: &'static str, content: Option<Markup>| match content {
        Some(content) => el("td").class(class).child(content),
        // A phone omits an empty field.
        None => el("td").attr("class", format!("{class} none")).text(NONE),
    };
    let is_running = run.state == RunState::Running;
    let pairs = run.stage.as_ref().map_or(0, |stage| stage.done);
    let silence = silence(run, pairs, run.left_s, now_unix_ms);
    el("tr")
        .class(if is_running { "running" } else { "plain" })
        .child(cell(
            "chip",
            Some(silence.map_or_else(
                || chip(run),
                |silence| silent(&format!("no sign of life for {silence}")).into(),
            )),
        ))
        .child(el("th").attr("scope", "row").class("what").child(subject(run, filter)))
        .child(cell("gain", gain(run, outcome, reach)))
        .child(cell("trend", trend(run, outcome)))
        .child(cell("when", Some(ago(run.at_unix_ms, now_unix_ms).into())))
        .child(cell("took", took(run, outcome)))
        .child(cell("where", machine(run, outcome)))
}

/// The state of a running run that writes nothing.
pub(super) fn silent(text: &str) -> Element {
    el("span").class("state silent").text(text)
}

/// The outcome, or the state where there is none. It is the first thing in a row, also on a phone.
pub(super) fn chip(run: &ShelfRun) -> Markup {
    if run.state != RunState::Finished {
        return state(run.state).into();
    }
    let known = run.outcome.as_ref().filter(|outcome| !outcome.word.is_empty());
    let Some(outcome) = known else {
        return run.verdict.map_or_else(|| Markup::text("no verdict"), mark::verdict_words);
    };
    let word = match outcome.mark {
        Some(mark) => mark::verdict_with(mark, &outcome.word),
        None => el("span").text(&outcome.word).into(),
    };
    // The mark of the word says it already.
    let other = run.verdict.filter(|verdict| Some(*verdict) != outcome.mark);
    word.with(
        other.map(|verdict| el("span").class("small").text(verdict.label())).into_iter().collect::<Markup>(),
    )
}

/// What was compared or changed, with the link to the run. The folder is below it.
fn subject(run: &ShelfRun, filter: &ShelfFilter) -> Markup {
    let query = filter.a.as_ref().map_or_else(String::new, |a| format!("?a={}", encoded(a)));
    let known = run.outcome.as_ref().map(|outcome| outcome.subject.as_str()).filter(|text| !text.is_empty());
    let name = known.or((!run.title.is_empty()).then_some(run.title.as_str())).unwrap_or(&run.path);
    let name = unmarked(name);
    let mut below: Vec<String> = Vec::new();
    if let Some(outcome) = &run.outcome {
        let is_new = !outcome.target.is_empty() && !name.contains(&outcome.target);
        below.extend(is_new.then(|| outcome.target.clone()));
        below.extend((!outcome.layer.is_empty()).then(|| outcome.layer.clone()));
    }
    below.extend((!run.kind.is_empty()).then(|| run.kind.clone()));
    below.extend((name != run.path).then(|| run.path.clone()));
    Markup::default()
        .with(link(&format!("/run/{}{query}", run.id), &name))
        .with(el("span").class("small path").text(&below.join(" · ")))
}

/// The signed change of the primary metric, with its interval as a bar. Where nothing was compared, the figure that carries the outcome.
pub(super) fn gain(run: &ShelfRun, outcome: Option<&ShelfOutcome>, reach: f64) -> Option<Markup> {
    let outcome = outcome?;
    let so_far = if run.state == RunState::Running { ", so far" } else { "" };
    let name = match (outcome.metric, &*outcome.figure_name) {
        (Some(metric), "") => metric.label().to_owned(),
        (Some(metric), part) => format!("{}, {part}", metric.label()),
        (None, name) => name.to_owned(),
    };
    let name = with_units(&name);
    let small = |text: &str| {
        let part = (!text.is_empty()).then(|| el("span").class("small path").text(text));
        part.into_iter().collect::<Markup>()
    };
    if let Some((ratio, metric)) = outcome.ratio.zip(outcome.metric) {
        let verdict = run.verdict.filter(|_| run.state == RunState::Finished);
        let bar = spark::interval_bar(ratio, verdict, reach, metric.label());
        let change = el("b").class("word").text(&quantity::change(ratio[0]));
        let bar = bar.into_iter().collect::<Markup>();
        return Some(Markup::from(change).with(bar).with(small(&format!("{name}{so_far}"))));
    }
    let value = outcome.metric.zip(outcome.value).map(|(metric, value)| quantity::of_metric(metric, value));
    let figure =
        value.or_else(|| (!outcome.figure.is_empty()).then(|| outcome.figure.replace(' ', "\u{a0}")));
    match figure {
        Some(figure) => {
            let figure = Markup::from(el("b").class("word").text(&figure));
            Some(figure.with(small(&format!("{name}{so_far}"))))
        }
        None if outcome.metric.is_some() && run.state == RunState::Finished => {
            Some(Markup::text(NONE).with(small(&format!("{name}: no estimate"))))
        }
        None => None,
    }
}

/// Keeps each number and its unit on one line.
pub(super) fn with_units(text: &str) -> String {
    let mut words = text.split(' ').peekable();
    let mut kept = String::new();
    while let Some(word) = words.next() {
        kept.push_str(word);
        let is_digit = |letter: char| letter.is_ascii_digit();
        let is_number = word.starts_with(is_digit) && word.ends_with(is_digit);
        if words.peek().is_some() {
            kept.push(if is_number { quantity::NBSP } else { ' ' });
        }
    }
    kept
}

/// The metric in the runs of the same question. A running run has its progress here.
fn trend(run: &ShelfRun, outcome: Option<&ShelfOutcome>) -> Option<Markup> {
    if let Some(stage) = &run.stage {
        let done = match stage.of {
            Some(of) => format!("{} of {} {}", stage.done, of, stage.counted),
            None => format!("{} {}", stage.done, stage.counted),
        };
        let bar = stage.of.filter(|of| *of > 0).map(|of| {
            el("progress")
                .attr("max", of)
                .attr("value", stage.done.min(of))
                .attr("aria-label", format!("{}: {done}", run.path))
                .text(&done)
        });
        let left = run.left_s.map(|left| format!(", about {} left", quantity::duration(left)));
        let words = format!("{done}{}", left.unwrap_or_default());
        let words = el("span").class("small").text(&words);
        return Some(bar.into_iter().chain([words]).collect());
    }
    let name = outcome.and_then(|outcome| outcome.metric).map_or("values", |metric| metric.label());
    let count = run.history.len() as u64;
    let name = format!("{name} over {}", quantity::counted(count, "run", "runs"));
    let drawn = spark::sparkline(&run.history, &name)?;
    let value = outcome
        .and_then(|outcome| Some(quantity::of_metric(outcome.metric?, outcome.values?[1])))
        .map(|value| el("span").class("small").text(&value));
    Some(std::iter::once(drawn).chain(value).collect())
}

fn took(run: &ShelfRun, outcome: Option<&ShelfOutcome>) -> Option<Markup> {
    let known = outcome.and_then(|outcome| outcome.duration_s).filter(|_| run.state == RunState::Finished);
    Some(el("span").class("word").text(&quantity::duration(known?)).into())
}

/// The state, unless the first cell has it, and the machine.
fn machine(run: &ShelfRun, outcome: Option<&ShelfOutcome>) -> Option<Markup> {
    let state = (run.state == RunState::Finished).then(|| state(run.state));
    let machine = outcome.map(|outcome| outcome.machine.as_str()).filter(|machine| !machine.is_empty());
    let machine = machine.map(|machine| el("span").class("small path").text(&with_units(machine)));
    (state.is_some() || machine.is_some()).then(|| state.into_iter().chain(machine).collect())
}

fn by_ref(list: &[(String, String)]) -> impl Iterator<Item = (&str, String)> {
    list.iter().map(|(value, text)| (value.as_str(), text.clone()))
}

/// The filters, folded until one is active. The script updates the number of active ones.
fn filters(page: &ShelfPage<ShelfRun>) -> Element {
    let filter = &page.filter;
    let active = [
        !filter.text.is_empty(),
        filter.target.is_some(),
        filter.verdict.is_some(),
        filter.layer.is_some(),
        filter.hours.is_some(),
        filter.state.is_some(),
        filter.kind.is_some(),
    ];
    let active = active.into_iter().filter(|is_active| *is_active).count();
    let words = match active {
        0 => "Filter".to_owned(),
        some => format!("Filter: {some} active"),
    };
    let details = el("details").class("filter");
    let details = if active > 0 { details.attr("open", "") } else { details };
    details.child(el("summary").attr("id", "filters").text(&words)).child(form(page))
}

fn form(page: &ShelfPage<ShelfRun>) -> Element {
    let filter = &page.filter;
    let named = VERDICTS.iter().find(|(_, verdict)| Some(*verdict) == filter.verdict).map(|(name, _)| *name);
    let verdicts = VERDICTS.iter().map(|(name, verdict)| (*name, verdict.label().to_owned()));
    let [targets, layers, kinds] = [&page.targets, &page.layers, &page.kinds].map(|counts| {
        let named = |(name, count): (&String, &usize)| {
            (name.clone(), format!("{name} ({})", quantity::count(*count as u64)))
        };
        counts.iter().map(named).collect::<Vec<(String, String)>>()
    });
    let states = RunState::ALL.iter().map(|state| (state.label(), state.label().to_owned()));
    let age = filter.hours.map(|hours| hours.to_string());
    let ages: Vec<(String, String)> =
        AGES.iter().map(|(hours, name)| (hours.to_string(), (*name).to_owned())).collect();
    let fields = [
        select("target", "Target", filter.target.as_deref(), by_ref(&targets)),
        select("verdict", "Verdict", named, verdicts),
        select("layer", "Layer", filter.layer.as_deref(), by_ref(&layers)),
        select("hours", "Time", age.as_deref(), by_ref(&ages)),
        select("state", "State", filter.state.map(RunState::label), states),
        select("kind", "Kind", filter.kind.as_deref(), by_ref(&kinds)),
    ];
    let chosen = [&*filter.text, filter.a.as_deref().unwrap_or_default()];
    // The script filters without a new page, so the link is always there.
    search_form("/", chosen, fields, true).attr("data-swap", "live")
}

/// The numbers of the runs, one line for each.
pub fn runs_csv(runs: &[ShelfRun]) -> String {
    use crate::section::story::csv_line;
    let titles = [
        "run", "state", "verdict", "outcome", "kind", "subject", "target", "layer", "metric", "before",
        "after", "ratio", "low", "high", "unix_ms", "seconds", "machine",
    ];
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let line = |run: &ShelfRun| {
        let none = ShelfOutcome::default();
        let outcome = run.outcome.as_ref().unwrap_or(&none);
        let value = |side: usize| {
            let alone = outcome.value.filter(|_| side == 1);
            number(outcome.values.map(|values| values[side]).or(alone))
        };
        let ratio = |place: usize| number(outcome.ratio.map(|ratio| ratio[place]));
        csv_line(&[
            run.path.clone(),
            run.state.label().to_owned(),
            run.verdict.map_or_else(String::new, |verdict| verdict.label().to_owned()),
            outcome.word.clone(),
            run.kind.clone(),
            outcome.subject.clone(),
            outcome.target.clone(),
            outcome.layer.clone(),
            outcome.metric.map_or_else(String::new, |metric| metric.name().to_owned()),
            value(0),
            value(1),
            ratio(0),
            ratio(1),
            ratio(2),
            run.at_unix_ms.to_string(),
            number(outcome.duration_s),
            outcome.machine.clone(),
        ])
    };
    csv_line(&titles.map(str::to_owned)) + &runs.iter().map(line).collect::<String>()
}

#[cfg(test)]
mod tests {
    use hone_record::{Metric, RunStage, Verdict};

    use super::*;

    const NOW: u64 = 1_795_200_420_000;

    fn run(name: &str, state: RunState) -> ShelfRun {
        ShelfRun {
            id: "0123456789abcdef".to_owned(),
            path: format!("runs/{name}"),
            state,
            kind: "comparison".to_owned(),
            verdict: Some(Verdict::Better),
            at_unix_ms: NOW - 3 * 3_600_000,
            outcome: Some(ShelfOutcome {
                subject: "10.0.0.1:9092 → 10.0.0.2:9092".to_owned(),
                target: "10.0.0.1:9092".to_owned(),
                layer: "broker".to_owned(),
                metric: Some(Metric::CpuPerRecord),
                ratio: Some([0.854, 0.822, 0.888]),
                values: Some([12.0, 10.2]),
                duration_s: Some(95.0),
                machine: "Example 9, 2 cores".to_owned(),
                ..ShelfOutcome::default()
            }),
            history: vec![12.0, 11.0, 10.2],
            ..ShelfRun::default()
        }
    }

    fn page(items: Vec<ShelfRun>) -> String {
        let count = items.len();
        let page = ShelfPage {
            filter: ShelfFilter::default(),
            items,
            matching: count,
            in_all: count,
            page: 1,
            pages: 1,
            kinds: Default::default(),
            targets: [("<b>x</b>".to_owned(), 1)].into(),
            layers: Default::default(),
        };
        runs(&page, &[], &Pager::default(), &Around { now_unix_ms: NOW, ..Around::default() })
    }

    #[test]
    fn a_row_begins_with_the_verdict_and_says_what_was_compared() {
        let html = page(vec![run("compare-001", RunState::Finished)]);
        let row = html.split("<tbody>").nth(1).unwrap();
        let places =
            ["better", "10.0.0.1:9092 → 10.0.0.2:9092", "−14.6", "spark-bar better", "3 h ago", "1 min 35 s"];
        let at: Vec<usize> = places
            .iter()
            .map(|place| {
                row.find(&place.replace(' ', "\u{a0}"))
                    .or_else(|| row.find(place))
                    .unwrap_or_else(|| panic!("{place} in {row}"))
            })
            .collect();
        assert!(at.windows(2).all(|pair| pair[0] < pair[1]), "{at:?} in {row}");
        assert!(row.contains("class=\"spark\"") && row.contains("Example 9, 2\u{a0}cores"), "{row}");
        assert!(html.contains("&lt;b&gt;x&lt;/b&gt;") && html.contains("data-live=\"no\""), "{html}");
    }

    #[test]
    fn a_running_run_has_its_progress_and_no_verdict() {
        let stage = RunStage { counted: "pairs".to_owned(), done: 3, of: Some(12), ..RunStage::default() };
        let live =
            ShelfRun { stage: Some(stage), left_s: Some(80.0), ..run("compare-002", RunState::Running) };
        let html = page(vec![live]);
        assert!(html.contains("data-live=\"yes\"") && html.contains("3 of 12 pairs"), "{html}");
        assert!(html.contains("so far") && html.contains("spark-bar open"), "{html}");
        assert!(!html.contains("spark-bar better"), "{html}");
    }

    #[test]
    fn a_running_run_that_writes_nothing_says_so() {
        let stage = RunStage { counted: "pairs".to_owned(), done: 3, of: Some(12), ..RunStage::default() };
        let silent = ShelfRun { stage: Some(stage), left_s: None, ..run("compare-002", RunState::Running) };
        let html = page(vec![silent.clone()]).replace('\u{a0}', " ");
        assert!(html.contains("no sign of life for 3 h") && !html.contains(" left<"), "{html}");
        let html = page(vec![ShelfRun { stage: None, ..silent }]);
        assert!(
            html.contains(">running<") && !html.contains("no sign"),
            "a build writes nothing, too: {html}"
        );
    }

    #[test]
    fn a_number_keeps_its_unit_and_an_empty_field_is_marked_for_phones() {
        assert_eq!(with_units("p50 <= 50.0 ms, 2 cores"), "p50 <= 50.0\u{a0}ms, 2\u{a0}cores");
        let alone = ShelfRun { history: vec![12.0], ..run("compare-001", RunState::Finished) };
        let html = page(vec![alone]);
        assert!(html.contains("<td class=\"trend none\">"), "one run is no line: {html}");
    }

    #[test]
    fn a_run_without_a_comparison_has_its_outcome_and_the_figure_behind_it() {
        let row = |outcome: ShelfOutcome, verdict| {
            let known = run("x-001", RunState::Finished);
            page(vec![ShelfRun { verdict, outcome: Some(outcome), history: Vec::new(), ..known }])
                .replace('\u{a0}', " ")
        };
        let load = ShelfOutcome {
            word: "SLO not met".to_owned(),
            mark: Some(Verdict::Worse),
            metric: Some(Metric::LatencyP99),
            value: Some(12_000.0),
            ..ShelfOutcome::default()
        };
        let html = row(load, None);
        assert!(html.contains("SLO not met") && html.contains("mark worse"), "{html}");
        assert!(html.contains(">12.0 ms</b>") && html.contains(">p99</span>"), "{html}");
        let diagnosis = ShelfOutcome {
            word: "frontend bound".to_owned(),
            figure: "42.3 %".to_owned(),
            figure_name: "of the <slots>".to_owned(),
            ..ShelfOutcome::default()
        };
        let html = row(diagnosis, None);
        assert!(html.contains(">frontend bound</span>") && html.contains(">42.3 %</b>"), "{html}");
        assert!(html.contains("of the &lt;slots&gt;") && !html.contains("no verdict"), "{html}");
        let proof = ShelfOutcome {
            word: "2 of 3 accepted".to_owned(),
            mark: Some(Verdict::Better),
            metric: Some(Metric::CpuPerRecord),
            ..ShelfOutcome::default()
        };
        let html = row(proof.clone(), Some(Verdict::NotShown));
        assert!(html.contains("2 of 3 accepted") && html.contains(">inconclusive</span>"), "{html}");
        assert!(html.contains("CPU per record: no estimate"), "{html}");
        assert!(!row(proof, Some(Verdict::Better)).contains(">better</span>"), "the mark says it");
    }

    #[test]
    fn filters_are_folded_until_one_is_active() {
        let closed = page(vec![run("compare-001", RunState::Running)]);
        assert!(
            closed.contains("<details class=\"filter\"><summary id=\"filters\">Filter</summary>"),
            "{closed}"
        );
        // The refresh line and the count lie outside of the list that the script replaces.
        let places = ["id=\"count\"", "id=\"pause\"", "id=\"live\""].map(|part| closed.find(part).unwrap());
        assert!(places.is_sorted(), "{places:?}");
        let filter = ShelfFilter { text: "x".to_owned(), hours: Some(24), ..ShelfFilter::default() };
        let open = ShelfPage {
            filter,
            items: Vec::new(),
            matching: 0,
            in_all: 3,
            page: 1,
            pages: 1,
            kinds: Default::default(),
            targets: Default::default(),
            layers: Default::default(),
        };
        let html = runs(&open, &[], &Pager::default(), &Around::default()).replace('\u{a0}', " ");
        assert!(
            html.contains("<details class=\"filter\" open=\"\"><summary id=\"filters\">Filter: 2 active"),
            "{html}"
        );
        assert!(html.contains("0 of 3 runs match the filter") && html.contains("Show all runs"), "{html}");
    }

    #[test]
    fn an_empty_folder_says_what_to_run_first() {
        let html = page(Vec::new());
        assert!(html.contains("hone compare 127.0.0.1:9092") && html.contains("hone doctor"), "{html}");
        assert!(!html.contains("<table"), "{html}");
    }

    #[test]
    fn the_numbers_have_one_line_for_each_run() {
        let csv = runs_csv(&[run("compare-001", RunState::Finished), ShelfRun::default()]);
        assert_eq!(csv.lines().count(), 3);
        assert!(csv.contains("0.854,0.822,0.888") && csv.contains("cpu-per-record,12,10.2"), "{csv}");
    }
}

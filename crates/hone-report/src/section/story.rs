//! The sections of a run summary: the changes in each layer, percentiles step by step, predictions with their outcome, and all
//! numbers as files.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hone_record::{
    ALTITUDES, BatchState, Chapter, Envelope, Fate, Fates, LedgerEntry, Metric, RecordRole, STORY_QUANTILES,
    Story, WindowRow,
};

use super::head::with_arrows;
use super::{absent, paragraph, ratio_cell, section};
use crate::plot::mark;
use crate::quantity::{self, NONE};
use crate::table::{Cell, Column, Table, lines};
use crate::tree::{Element, Markup, el};
use crate::verdict::decision_label;

/// A page opens slowly with more bytes than this inside. The rest is in the run's folder.
const MOST_BYTES: usize = 24 << 20;

/// A description of each layer, for readers who do not know the term. The row is worse if any metric is.
fn shown_verdict(verdict: hone_record::Verdict, entry: &hone_record::LedgerEntry) -> hone_record::Verdict {
    if entry.worse.is_empty() { verdict } else { hone_record::Verdict::Worse }
}

fn owner(altitude: &str) -> &'static str {
    match altitude {
        "binary" => "how the service is built",
        "broker" => "how the service is set",
        "client" => "how its clients are set",
        "host" => "how the machine is set",
        _ => "in several layers, or without a named layer",
    }
}

/// All changes, in a table for each layer.
pub(crate) fn tried(story: &Story) -> Element {
    let section = section("tried", "What was tried in each layer");
    let mut by_altitude: BTreeMap<usize, Vec<&Chapter>> = BTreeMap::new();
    for chapter in &story.chapters {
        let place = ALTITUDES.iter().position(|altitude| chapter.entry.altitude() == Some(altitude));
        by_altitude.entry(place.unwrap_or(ALTITUDES.len())).or_default().push(chapter);
    }
    if by_altitude.is_empty() {
        return section.child(absent("Nothing was tried yet."));
    }
    let fates = story.fates();
    section.children(by_altitude.into_iter().map(|(place, chapters)| {
        let altitude = ALTITUDES.get(place).copied().unwrap_or("other");
        tried_at(&fates, altitude, &chapters)
    }))
}

fn tried_at(fates: &Fates<'_>, altitude: &str, chapters: &[&Chapter]) -> Element {
    let columns = vec![
        Column::words("change"),
        Column::words("metric"),
        Column::numbers(Markup::text("before")),
        Column::numbers(Markup::text("after")),
        Column::numbers(lines(["ratio", "interval"])),
        Column::words("verdict"),
        Column::words("decision"),
    ];
    let name = format!(
        "{}{}",
        altitude.get(..1).unwrap_or_default().to_uppercase(),
        altitude.get(1..).unwrap_or_default()
    );
    let mut table = Table::new(&name, columns).remark(owner(altitude));
    for chapter in chapters {
        table.row(title(chapter), cells(fates, &chapter.entry));
    }
    el("div").child(table.finish()).child(reasons(chapters))
}

fn title(chapter: &Chapter) -> Markup {
    let entry = &chapter.entry;
    let when = (entry.at_unix_ms > 0).then(|| quantity::date_utc(entry.at_unix_ms));
    let under = (!entry.workload.is_empty()).then(|| format!("under {}", entry.workload));
    let small = [Some(entry.verb.clone()), under, when].into_iter().flatten().filter(|text| !text.is_empty());
    let small = small.collect::<Vec<_>>().join(" · ");
    Markup::text(&with_arrows(entry.change_alone())).with(el("span").class("small path").text(&small))
}

/// The decision, in the reader's words.
fn decided<'a>(fates: &Fates<'_>, entry: &'a LedgerEntry) -> &'a str {
    match (entry.fate(), entry.decision.as_str()) {
        (Fate::Undecided | Fate::TakenBack, "") => NONE,
        (Fate::Undecided | Fate::TakenBack, decision)
        | (Fate::Kept, decision @ ("applied" | "confirmed")) => decision_label(decision),
        _ => decision_label(fates.outcome_of(entry)),
    }
}

fn cells(fates: &Fates<'_>, entry: &LedgerEntry) -> Vec<Cell> {
    let value = |place: usize| {
        let metric = entry.metric?;
        let value = *entry.values?.get(place)?;
        Some(quantity::of_metric(metric, value))
    };
    let known = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
    let verdict = entry.verdict.map_or_else(
        || Markup::text("not measured"),
        |verdict| mark::verdict_with(shown_verdict(verdict, entry), &entry.verdict_words()),
    );
    vec![
        Cell::text(entry.metric.map_or(NONE, hone_record::Metric::label)),
        Cell::number(&known(value(0))),
        Cell::number(&known(value(1))),
        ratio_cell(entry.ratio),
        Cell::words(verdict),
        Cell::text(decided(fates, entry)),
    ]
}

/// The reason and the rule, folded, because they are long and the same for many entries.
fn reasons(chapters: &[&Chapter]) -> Element {
    let item = |chapter: &&Chapter| {
        let entry = &chapter.entry;
        let labelled = |name: &str, text: &str| {
            (!text.is_empty()).then(|| el("p").child(el("b").text(&format!("{name}: "))).text(text))
        };
        let who = match (entry.who.as_str(), entry.hone.as_str()) {
            ("", _) => String::new(),
            (who, "") => who.to_owned(),
            (who, hone) => format!("{who}, Hone {hone}"),
        };
        el("li")
            .child(el("strong").text(&with_arrows(entry.change_alone())))
            .children(labelled("Question", &entry.question))
            .children(labelled("Why", &entry.why))
            .children(labelled("The rule, before the first window", &entry.rule))
            .children(entry.undo.as_deref().and_then(|undo| labelled("To roll it back", undo)))
            .children(labelled("Run", &entry.run))
            .children(labelled("By", &who))
    };
    el("details")
        .child(el("summary").text("Questions, reasons, rules and rollback"))
        .child(el("ol").children(chapters.iter().map(item)))
}

/// A table for each target and load: the state before the first change, then the state with each.
pub(crate) fn percentiles(story: &Story) -> Element {
    let section = section("percentiles", "Percentiles, step by step");
    let groups = story.groups();
    if groups.is_empty() {
        return section
            .child(absent("No step has a window: nothing was loaded, or the runs no longer exist."));
    }
    let fates = story.fates();
    let several = story.is_of_several_hosts();
    let tables = groups.iter().map(|group| steps_table(&fates, group, several));
    section.children(tables).child(paragraph(
        "Latency runs from the due time of a request to its acknowledgement, over all included windows of a \
         state. Hone measured the columns one after the other. Only the ratio in the last row compares pairs \
         of windows, each step with the state before it.",
    ))
}

fn steps_table(fates: &Fates<'_>, group: &[&Chapter], names_host: bool) -> Element {
    let Some(first) = group.first() else { return el("div") };
    let original = first.entry.change_alone().rsplit_once(" on ").map_or("before", |(_, parent)| parent);
    let mut columns = vec![
        Column::words("all windows of a state"),
        Column::numbers(if original == "before" { Markup::text("original") } else { Markup::text(original) }),
    ];
    columns.extend(group.iter().map(|chapter| {
        Column::numbers(lines([
            with_arrows(chapter.entry.change_alone()).as_str(),
            decision_label(fates.outcome_of(&chapter.entry)),
        ]))
    }));
    let name = match first.entry.workload.as_str() {
        "" => first.entry.experiment.clone(),
        workload => format!("{}, under {workload}", first.entry.experiment),
    };
    let name = if names_host { format!("{name}, on {}", first.entry.host()) } else { name };
    let mut table = Table::new(&name, columns);
    let states: Vec<&BatchState> =
        std::iter::once(&first.before).chain(group.iter().map(|chapter| &chapter.after)).collect();
    let mut row = |name: &str, cell: &dyn Fn(&BatchState) -> Option<String>, without: &str| {
        let told = |state: &&BatchState| match state.windows {
            0 => "no longer available".to_owned(),
            _ => cell(state).unwrap_or_else(|| without.to_owned()),
        };
        table.row(Markup::text(name), states.iter().map(|state| Cell::number(&told(state))).collect());
    };
    // Each window of a climbing load had a different load, so it has only a capacity.
    if first.entry.metric != Some(Metric::Capacity) {
        figures(&mut row, states.iter().any(|state| state.counts_operations));
    }
    row("windows", &|state| Some(quantity::count(state.windows.into())), "");
    let metric = first.entry.metric.map_or("metric", hone_record::Metric::label);
    let ratios = group.iter().map(|chapter| Cell::number(&ratio_words(&chapter.entry)));
    table.row_of_class(
        "primary",
        Markup::text(&format!("{metric}, compared with the state before")),
        std::iter::once(Cell::number(NONE)).chain(ratios).collect(),
    );
    table.finish()
}

/// Adds a row for a named figure, with a text for unknown values.
type Row<'a> = dyn FnMut(&str, &dyn Fn(&BatchState) -> Option<String>, &str) + 'a;

/// The observed figures of the states under one load.
fn figures(row: &mut Row<'_>, of_operations: bool) {
    for (name, quantile) in STORY_QUANTILES.into_iter().filter(|_| !of_operations) {
        row(name, &|state| state.latency_us(quantile).map(quantity::time_us), "too few samples");
    }
    row("CPU, cores", &|state| state.cores().map(quantity::significant), "unknown");
    let [cpu, rate] = match of_operations {
        true => ["CPU time per operation", "operations per second"],
        false => ["CPU time per record", "records per second"],
    };
    row(cpu, &|state| state.cpu_us_per_record().map(quantity::time_us), "unknown");
    if !of_operations {
        let sent = |state: &BatchState| Some(quantity::throughput(state.sent_bytes_per_s()?));
        row("network sent per second", &sent, "unknown");
    }
    let reached = |state: &BatchState| {
        (state.seconds > 0.0).then(|| quantity::significant(state.acked_records as f64 / state.seconds))
    };
    row(rate, &reached, "unknown");
}

fn ratio_words(entry: &LedgerEntry) -> String {
    entry.ratio.map_or_else(|| NONE.to_owned(), |[ratio, ..]| quantity::change(ratio))
}

const PREDICTIONS: &str = "Predicted and measured";

/// The predictions made before any measurement, with the results. `None` when there were none.
pub(crate) fn predictions(story: &Story) -> Option<Element> {
    let told: Vec<(&Chapter, _)> = story
        .chapters
        .iter()
        .filter_map(|chapter| Some((chapter, chapter.entry.foretold.as_ref()?)))
        .collect();
    if told.is_empty() {
        return None;
    }
    let columns =
        ["change", "predicted", "found", "came true", "source of the prediction"].map(Column::words).into();
    let mut table = Table::new(PREDICTIONS, columns).remark(
        "Hone wrote these down before the first window of the change: from a simulation, from a replay, or \
         as an expected gain of hone tune.",
    );
    for (chapter, foretold) in &told {
        let entry = &chapter.entry;
        let found = match (entry.verdict, entry.ratio) {
            (Some(verdict), Some([ratio, ..])) => format!("{}, {}", verdict.label(), quantity::change(ratio)),
            (Some(verdict), None) => verdict.label().to_owned(),
            (None, _) => "not measured here".to_owned(),
        };
        let came = match foretold.came_true {
            Some(true) => "yes",
            Some(false) => "no",
            None => "not decided",
        };
        let cells = vec![
            Cell::text(&foretold.expected.to_string()),
            Cell::text(&found),
            Cell::text(came),
            Cell::text(&foretold.rule),
        ];
        table.row(Markup::text(entry.change_alone()), cells);
    }
    let [decided, came] = story.predictions();
    let tally = match decided {
        0 => "No prediction is decided yet.".to_owned(),
        _ => format!("{came} of {decided} decided predictions came true."),
    };
    Some(section("foretold", PREDICTIONS).child(paragraph(&tally)).child(table.finish()))
}

/// All numbers as files inside the page.
pub(crate) fn downloads(story: &Story) -> Element {
    let record = Envelope::new(story.clone()).to_text().unwrap_or_default();
    let files = [
        ("steps.csv", "text/csv", "what was tried, one line per change", steps_csv(story)),
        ("windows.csv", "text/csv", "one line per included window", windows_csv(story)),
        (
            "story.json",
            "application/json",
            "all of it as a record: the ledger’s entries, and the histogram of every state",
            record,
        ),
    ];
    let links = files.iter().map(|(name, kind, what, text)| {
        let item = el("li");
        if text.is_empty() || text.len() > MOST_BYTES {
            return item.text(&format!("{name} is too large for a page; hone report --json writes it."));
        }
        let link = el("a")
            .attr("download", name)
            .attr("href", format!("data:{kind};charset=utf-8;base64,{}", STANDARD.encode(text)))
            .text(name);
        item.child(link).text(&format!(", {}: {what}", quantity::bytes(text.len() as u64)))
    });
    let mut section =
        section("numbers", "The numbers as files").child(el("ul").class("downloads").children(links));
    if !story.heads.is_empty() {
        section = section
            .child(paragraph("When Hone made the page, the ledger ended with:"))
            .children(story.heads.iter().map(|head| el("p").child(el("code").class("hash").text(head))))
            .child(paragraph("hone ledger verify --expect-head checks whether this line is still there."));
    }
    section
        .children((!story.limits.is_empty()).then(|| el("h3").text("What to know")))
        .children(story.limits.iter().map(|limit| paragraph(limit)))
}

/// A line of comma-separated values, as RFC 4180 has them.
pub fn csv_line(cells: &[String]) -> String {
    let cell = |text: &String| {
        let needs = text.contains(['"', ',', '\n', '\r']);
        if needs { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.clone() }
    };
    cells.iter().map(cell).collect::<Vec<_>>().join(",") + "\r\n"
}

fn or_empty<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn quantile_names(prefix: &str) -> Vec<String> {
    STORY_QUANTILES.iter().map(|(name, _)| format!("{prefix}latency_us_{}", name.replace('.', "_"))).collect()
}

fn steps_csv(story: &Story) -> String {
    let mut head: Vec<String> = [
        "experiment",
        "change",
        "workload",
        "metric",
        "ratio",
        "low",
        "high",
        "verdict",
        "decision",
        "state",
    ]
    .map(str::to_owned)
    .into();
    head.extend(quantile_names(""));
    head.extend(
        ["cpu_cores", "cpu_us_per_record", "sent_bytes_per_s", "acked_records", "seconds", "windows"]
            .map(str::to_owned),
    );
    let mut out = csv_line(&head);
    for chapter in &story.chapters {
        for (name, state) in [("before", &chapter.before), ("after", &chapter.after)] {
            let entry = &chapter.entry;
            let mut cells = vec![
                entry.experiment.clone(),
                entry.change.clone(),
                entry.workload.clone(),
                or_empty(entry.metric.map(hone_record::Metric::name)),
                or_empty(entry.ratio.map(|[ratio, ..]| ratio)),
                or_empty(entry.ratio.map(|[_, low, _]| low)),
                or_empty(entry.ratio.map(|[.., high]| high)),
                or_empty(entry.verdict.map(hone_record::Verdict::label)),
                entry.decision.clone(),
                name.to_owned(),
            ];
            cells.extend(STORY_QUANTILES.iter().map(|(_, quantile)| or_empty(state.latency_us(*quantile))));
            cells.extend([
                or_empty(state.cores()),
                or_empty(state.cpu_us_per_record()),
                or_empty(state.sent_bytes_per_s()),
            ]);
            cells.extend([
                state.acked_records.to_string(),
                state.seconds.to_string(),
                state.windows.to_string(),
            ]);
            out.push_str(&csv_line(&cells));
        }
    }
    out
}

fn windows_csv(story: &Story) -> String {
    let mut head: Vec<String> = [
        "change",
        "workload",
        "run",
        "path",
        "state",
        "started_unix_ms",
        "duration_s",
        "requests",
        "acked_requests",
        "acked_records",
        "cpu_s",
        "sent_bytes",
    ]
    .map(str::to_owned)
    .into();
    head.extend(quantile_names(""));
    let mut out = csv_line(&head);
    for chapter in &story.chapters {
        for window in &chapter.windows {
            out.push_str(&csv_line(&window_cells(&chapter.entry, window)));
        }
    }
    out
}

fn window_cells(entry: &LedgerEntry, window: &WindowRow) -> Vec<String> {
    let state = if window.role == RecordRole::After { "after" } else { "before" };
    let mut cells = vec![
        entry.change.clone(),
        entry.workload.clone(),
        entry.run.clone(),
        window.path.clone(),
        state.to_owned(),
    ];
    cells.extend([
        window.started_unix_ms.to_string(),
        window.duration_s.to_string(),
        window.requests.to_string(),
        window.acked_requests.to_string(),
        window.acked_records.to_string(),
        or_empty(window.cpu_s),
        or_empty(window.sent_bytes),
    ]);
    cells.extend(window.latency_us.iter().map(|us| or_empty(*us)));
    cells
}

//! A ledger with the state of its hash chain.

use hone_record::{LedgerEntry, ShelfFilter};

use super::frame::{Around, Tab, document, link, when};
use super::list::{Pager, VERDICTS, encoded, pages, select};
use crate::plot::mark;
use crate::quantity::{self, NONE};
use crate::section::{absent, paragraph, section};
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup, el};
use crate::verdict::decision_label;

/// A line that was changed after it was written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LedgerFault {
    /// Line number, from 1.
    pub line: usize,
    /// The problem, in words.
    pub what: String,
}

/// A ledger as the page shows it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LedgerSheet {
    /// Name of the ledger in addresses.
    pub id: String,
    /// Path below the folder that the server shows.
    pub path: String,
    /// The filter of the request.
    pub filter: ShelfFilter,
    /// Line and entry of each match, newest first, with the id of the run if the server shows it.
    pub entries: Vec<(usize, LedgerEntry, Option<String>)>,
    /// Number of entries.
    pub in_all: usize,
    /// Number of the page among the matches, from 1, and the number of pages.
    pub page: usize,
    /// The last page.
    pub pages: usize,
    /// Addresses of the neighbouring pages.
    pub pager: Pager,
    /// Problems of the ledger.
    pub faults: Vec<LedgerFault>,
    /// Lines that a killed writer left incomplete.
    pub torn: Vec<usize>,
    /// Lines from before the hash chain existed.
    pub unchained: usize,
    /// Hashes of the last lines, which no line follows yet.
    pub heads: Vec<String>,
}

/// The page.
pub fn ledger(sheet: &LedgerSheet, around: &Around) -> String {
    let content = [state(sheet), form(sheet), entries(sheet)];
    document(&format!("Ledger {}", sheet.path), Tab::Runs, around, content)
}

fn state(sheet: &LedgerSheet) -> Element {
    let count = quantity::counted(sheet.in_all as u64, "entry", "entries");
    let section = section("chain", "Is the ledger unchanged?");
    let section = if sheet.faults.is_empty() {
        let sentence =
            format!("Every line is as it was written, and no line is missing between them: {count}.");
        section.child(el("p").class("sentence").text(&sentence))
    } else {
        let faults =
            sheet.faults.iter().map(|fault| el("li").text(&format!("Line {}: {}.", fault.line, fault.what)));
        let sentence = format!(
            "The ledger was changed. {count}; first changed line: {}.",
            sheet.faults.first().map_or(0, |fault| fault.line)
        );
        section.child(el("p").class("warning").text(&sentence)).child(el("ul").children(faults))
    };
    let torn = sheet.torn.iter().map(|line| {
        paragraph(&format!("Line {line} is incomplete because its writer was killed. That is no error."))
    });
    let unchained = (sheet.unchained > 0).then(|| {
        paragraph(&format!(
            "{} older than the hash chain.",
            quantity::counted(sheet.unchained as u64, "line is", "lines are")
        ))
    });
    let heads = sheet
        .heads
        .iter()
        .map(|head| el("p").text("It ends with ").child(el("code").class("hash").text(head)));
    let story = el("p").child(link(
        &format!("/ledger/{}/story", sheet.id),
        "Full run summary, with the figures of all windows",
    ));
    section.children(torn).children(unchained).children(heads).child(story)
}

fn form(sheet: &LedgerSheet) -> Element {
    let text = el("input")
        .attr("id", "q")
        .attr("name", "q")
        .attr("type", "search")
        .attr("value", &sheet.filter.text);
    let chosen =
        VERDICTS.iter().find(|(_, verdict)| Some(*verdict) == sheet.filter.verdict).map(|(name, _)| *name);
    let verdict = select(
        "verdict",
        "Verdict",
        chosen,
        VERDICTS.iter().map(|(name, verdict)| (*name, verdict.label().to_owned())),
    );
    el("form")
        .class("choose")
        .attr("role", "search")
        .attr("aria-label", "Choose")
        .attr("method", "get")
        .attr("action", format!("/ledger/{}", encoded(&sheet.id)))
        .child(el("div").child(el("label").attr("for", "q").text("Text")).child(text))
        .child(verdict)
        .child(el("button").attr("type", "submit").text("Show"))
}

fn entries(sheet: &LedgerSheet) -> Element {
    let section = section("entries", "Entries");
    if sheet.entries.is_empty() {
        return section.child(absent("No entry matches the filter."));
    }
    let mut columns: Vec<Column> = ["change", "question and answer"].map(Column::words).into();
    columns.push(Column::numbers(Markup::text("ratio and interval")));
    columns.extend(["verdict", "decision", "when and by whom"].map(Column::words));
    let mut table = Table::new("Entries", columns).remark("Newest first.");
    for (line, entry, run) in &sheet.entries {
        let title = el("span")
            .attr("id", format!("line-{line}"))
            .child(
                el("a")
                    .attr("href", format!("/ledger/{}?line={line}#line-{line}", encoded(&sheet.id)))
                    .text(&format!("{line}")),
            )
            .text(&format!(" {}", entry.change));
        table.row(title, cells(entry, run.as_deref()));
    }
    section.child(table.finish()).children(pages(sheet.page, sheet.pages, &sheet.pager))
}

fn cells(entry: &LedgerEntry, run: Option<&str>) -> Vec<Cell> {
    let ratio = entry.ratio.map_or_else(
        || NONE.to_owned(),
        |[ratio, low, high]| {
            let [ratio, low, high] = [ratio, low, high].map(quantity::ratio);
            format!("{ratio} [{low}, {high}]")
        },
    );
    let metric = entry.metric.map(|metric| el("span").class("small").text(metric.label()));
    let under =
        [entry.verb.as_str(), &entry.experiment, &entry.workload].into_iter().filter(|text| !text.is_empty());
    let small = el("span").class("small path").text(&under.collect::<Vec<_>>().join(" · "));
    let words = if entry.question.is_empty() { &entry.why } else { &entry.question };
    let answer = (!entry.question.is_empty()).then(|| el("div").text(&entry.why));
    let foretold = entry.foretold.as_ref().map(|foretold| {
        let came = match foretold.came_true {
            Some(true) => "came true",
            Some(false) => "did not come true",
            None => "not decided",
        };
        el("div")
            .class("small path")
            .text(&format!("Predicted: {}, {came} ({}).", foretold.expected, foretold.rule))
    });
    let question = Markup::text(words)
        .with(answer.into_iter().collect::<Markup>())
        .with(foretold.into_iter().collect::<Markup>())
        .with(small);
    let decision =
        Markup::text(if entry.decision.is_empty() { NONE } else { decision_label(&entry.decision) });
    let run = run.map(|run| el("div").child(link(&format!("/run/{run}"), "its run")));
    let by = Markup::default()
        .with(el("span").class("word").text(&when(entry.at_unix_ms)))
        .with(el("span").class("small path").text(&entry.who));
    vec![
        Cell::words(question),
        Cell::numbers(
            Markup::default()
                .with(el("span").class("word").text(&ratio))
                .with(metric.into_iter().collect::<Markup>()),
        ),
        Cell::words(entry.verdict.map_or_else(|| Markup::text(NONE), mark::verdict_words)),
        Cell::words(decision.with(run.into_iter().collect::<Markup>())),
        Cell::words(by),
    ]
}

//! A ledger: its outcome, its entries, and the state of its hash chain.

use hone_record::{LedgerEntry, ShelfFilter};

use super::frame::{Around, Tab, document, link, when};
use super::list::{Pager, VERDICTS, encoded, optional, pages, select};
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
    /// Number of changes with an entry.
    pub changes: usize,
    /// The last entry of each change that is kept, then of all kept changes together.
    pub kept: Vec<LedgerEntry>,
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
    let mut content = vec![outcome(sheet), form(sheet), entries(sheet)];
    // A changed ledger may say anything, so the warning comes first.
    content.insert(if sheet.faults.is_empty() { content.len() } else { 0 }, state(sheet));
    document(&format!("Ledger {}", sheet.path), Tab::Runs, around, content)
}

/// How many changes are kept, and what they do.
fn outcome(sheet: &LedgerSheet) -> Element {
    let is_one = |entry: &&LedgerEntry| !entry.is_of_all();
    let kept = sheet.kept.iter().filter(is_one).count();
    let changes = quantity::counted(sheet.changes as u64, "change", "changes");
    let is = if kept == 1 { "is" } else { "are" };
    let sentence = match sheet.changes {
        0 => "No change was tried yet.".to_owned(),
        _ => format!("{kept} of {changes} {is} kept."),
    };
    let item = |entry: &LedgerEntry| {
        let name = if entry.is_of_all() { "all kept changes together" } else { entry.change.as_str() };
        let effect = entry.ratio.zip(entry.metric).map(|([ratio, low, high], metric)| {
            let interval = quantity::change_interval([low, high]);
            format!(": {} {}, confidence interval {interval}", metric.label(), quantity::change(ratio))
        });
        el("li").child(el("b").text(name)).text(&effect.unwrap_or_else(|| ": not measured".to_owned()))
    };
    let story = el("p").child(link(
        &format!("/ledger/{}/story", sheet.id),
        "Full run summary, with the figures of all windows",
    ));
    let list = (!sheet.kept.is_empty()).then(|| el("ul").children(sheet.kept.iter().map(item)));
    el("div").child(el("p").class("sentence").text(&sentence)).children(list).child(story)
}

fn state(sheet: &LedgerSheet) -> Element {
    let count = quantity::counted(sheet.in_all as u64, "entry", "entries");
    let section = section("chain", "Is the ledger unchanged?");
    let section = if sheet.faults.is_empty() {
        let sentence =
            format!("Every line is as it was written, and no line is missing between them: {count}.");
        section.child(paragraph(&sentence))
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
    section.children(torn).children(unchained).children(heads)
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
        .child(el("button").attr("type", "submit").text("Apply"))
}

fn entries(sheet: &LedgerSheet) -> Element {
    let section = section("entries", "Entries");
    if sheet.entries.is_empty() {
        return section.child(absent("No entry matches the filter."));
    }
    let mut columns: Vec<Column> = ["change", "question and answer"].map(Column::words).into();
    columns.push(Column::numbers(Markup::text("ratio and interval")));
    columns.extend(["verdict", "decision", "when and by whom"].map(Column::words));
    let mut table = Table::new("Entries", columns).class("scroll cards").under_its_heading();
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
    section.child(paragraph("Newest first.")).child(table.finish()).children(pages(
        sheet.page,
        sheet.pages,
        &sheet.pager,
    ))
}

fn cells(entry: &LedgerEntry, run: Option<&str>) -> Vec<Cell> {
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
        Cell::words(question).class("words question"),
        ratio(entry),
        entry.verdict.map_or_else(|| optional(NONE), |verdict| Cell::words(mark::verdict_words(verdict))),
        Cell::words(decision.with(run.into_iter().collect::<Markup>())).named("decision"),
        Cell::words(by),
    ]
}

/// The ratio of an entry with its interval, and the metric.
fn ratio(entry: &LedgerEntry) -> Cell {
    let Some(ratio) = entry.ratio else { return Cell::number(NONE).class("number none") };
    let [ratio, low, high] = ratio.map(quantity::ratio);
    let metric = entry.metric.map(|metric| el("span").class("small").text(metric.label()));
    let ratio = el("span").class("word").text(&format!("{ratio} [{low}, {high}]"));
    Cell::numbers(std::iter::once(ratio).chain(metric).collect::<Markup>()).named("ratio")
}

#[cfg(test)]
mod tests {
    use hone_record::{ALL_TOGETHER, Metric};

    use super::*;

    fn entry(change: &str) -> LedgerEntry {
        LedgerEntry {
            change: change.to_owned(),
            metric: Some(Metric::CpuPerRecord),
            ratio: Some([0.854, 0.822, 0.888]),
            ..LedgerEntry::default()
        }
    }

    #[test]
    fn a_ledger_begins_with_what_is_kept_and_ends_with_its_integrity() {
        let mut sheet = LedgerSheet {
            changes: 5,
            kept: vec![entry("client: <linger>"), entry(ALL_TOGETHER)],
            entries: vec![(3, entry("client: <linger>"), None)],
            heads: vec!["abc".to_owned()],
            ..LedgerSheet::default()
        };
        let page = |sheet: &LedgerSheet| ledger(sheet, &Around::default()).replace('\u{a0}', " ");
        let html = page(&sheet);
        let places = [
            "1 of 5 changes is kept.",
            "client: &lt;linger&gt;</b>: CPU per record −14.6 %, confidence interval [−17.8, −11.2] %",
            "all kept changes together</b>",
            ">Entries</h2>",
            "Is the ledger unchanged?",
            ">abc<",
        ];
        let at = places.map(|place| html.find(place).unwrap_or_else(|| panic!("{place}: {html}")));
        assert!(at.is_sorted(), "{at:?}");
        sheet.faults = vec![LedgerFault { line: 1, what: "this line was changed".to_owned() }];
        let html = page(&sheet);
        assert!(html.find("The ledger was changed") < html.find(" is kept."), "a warning comes first");
    }
}

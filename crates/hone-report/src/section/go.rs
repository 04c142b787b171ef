//! The sections of a Go program besides its variants: hot spots, findings, its own benchmarks, the location of its profile.

use hone_record::{GoAccount, GoBenchmark, GoBenchmarks, HotSpots, median};

use super::{absent, command, paragraph, section};
use crate::plot::mark;
use crate::quantity::{self, NONE};
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup, el};

/// The sections. Other targets have none.
pub(crate) fn of(account: Option<&GoAccount>) -> Vec<Element> {
    let Some(account) = account else { return Vec::new() };
    let mut sections = vec![hot_spots(account)];
    sections.extend(benchmarks(account));
    sections
}

fn hot_spots(account: &GoAccount) -> Element {
    let mut section = section("hot-spots", "Where time and memory go");
    if account.hot_spots.is_empty() {
        section = section.child(absent("There is no profile, so this is unknown."));
    }
    section = section
        .child(findings(&account.findings))
        .children(account.hot_spots.iter().map(|spots| table(spots).class("scroll").finish()));
    let words = account.found_profile.iter().chain(&account.placed);
    section.children(words.map(|words| paragraph(words)))
}

fn findings(findings: &[String]) -> Element {
    if findings.is_empty() {
        return paragraph(
            "The rules for functions in loops, garbage collection and allocations found nothing.",
        );
    }
    el("ul").children(findings.iter().map(|finding| el("li").text(finding)))
}

fn table(spots: &HotSpots) -> Table {
    let what = match spots.kind.as_str() {
        "cpu" => "CPU",
        "alloc_space" => "Bytes allocated",
        "alloc_objects" => "Objects allocated",
        other => other,
    };
    let columns = vec![
        Column::words("function"),
        Column::numbers(Markup::text("flat")),
        Column::numbers(Markup::text("share")),
        Column::numbers(Markup::text("cumulative")),
        Column::numbers(Markup::text("share")),
    ];
    let all = format!(
        "{} in {}. Flat counts the function itself. Cumulative also counts everything that it called.",
        figure(spots.total, &spots.unit),
        quantity::counted(spots.functions, "function", "functions")
    );
    let mut table = Table::new(what, columns).remark(&all);
    for row in &spots.rows {
        table.row(
            Markup::text(&row.function),
            vec![
                Cell::number(&figure(row.flat, &spots.unit)),
                Cell::number(&quantity::percent(row.flat_share)),
                Cell::number(&figure(row.cumulative, &spots.unit)),
                Cell::number(&quantity::percent(row.cumulative_share)),
            ],
        );
    }
    table
}

fn figure(value: u64, unit: &str) -> String {
    match unit {
        "nanoseconds" => quantity::time_us(value as f64 / 1e3),
        "bytes" => quantity::bytes(value),
        _ => quantity::count(value),
    }
}

fn benchmarks(account: &GoAccount) -> Option<Element> {
    let section = section("go-benchmarks", "Go's own benchmarks, without the profile and with it");
    if let Some(why) = &account.no_benchmarks {
        return Some(section.child(absent(&format!("There are none: {why}"))));
    }
    let found = account.benchmarks.as_ref()?;
    let mut section = section.child(paragraph(&found.rule)).child(judged(found).class("scroll").finish());
    let lists = [
        ("Not run, because the profile does not change their code", &found.unchanged),
        ("Excluded, because some rounds lack them", &found.incomplete),
    ];
    for (what, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        section = section.child(paragraph(&format!("{what}: {}.", list.join(", "))));
    }
    Some(section.children(found.commands.iter().map(|text| command(text))))
}

fn judged(found: &GoBenchmarks) -> Table {
    let columns =
        ["benchmark", "metric", "without", "with", "with / without", "control / without", "verdict"];
    let words =
        format!("Each {}, in {}", found.benchtime, quantity::counted(found.rounds.into(), "round", "rounds"));
    let mut table = Table::new(&words, columns.map(Column::words).into()).remark("Medians over the rounds.");
    for row in found.geomean.iter().chain(&found.rows) {
        table.row(Markup::text(&title(row)), cells(row));
    }
    table
}

fn title(row: &GoBenchmark) -> String {
    match row.package.as_str() {
        "" => row.benchmark.clone(),
        package => format!("{package} {}", row.benchmark),
    }
}

fn cells(row: &GoBenchmark) -> Vec<Cell> {
    let span = |span: Option<[f64; 3]>| match span.filter(|span| span.iter().all(|end| end.is_finite())) {
        Some(span) => hone_format::interval(span),
        None => NONE.to_owned(),
    };
    let verdict = match row.verdict {
        Some(verdict) => {
            let judged = Markup::from(el("div").child(mark::inline_verdict(verdict)).text(verdict.label()));
            Cell::words(judged.with(el("div").class("small").text(&row.why)))
        }
        None => Cell::text("reported, not judged"),
    };
    vec![
        Cell::text(&row.metric),
        Cell::number(&middle(&row.off)),
        Cell::number(&middle(&row.on)),
        Cell::text(&span(row.ratio)),
        Cell::text(&span(row.control_ratio)),
        verdict,
    ]
}

fn middle(values: &[f64]) -> String {
    let middle = median(values.iter().copied().filter(|value| value.is_finite()));
    middle.map_or_else(|| NONE.to_owned(), quantity::plain)
}

//! The page that compares two records.

use hone_record::{Comparison, Metric, SavedComparison, SavedEstimate, SavedFinding, SideBySide};

use super::frame::{Around, Tab, document, link};
use super::list::select;
use crate::plot::mark;
use crate::quantity::{self, NONE};
use crate::section::{absent, paragraph, section};
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup, el};

/// Compares windows of two sides that were measured at different times. The page opens with `primary`; `metrics` lists the
/// alternatives. `sides` holds the names of the sides in addresses, and the addresses of their own pages.
pub fn saved(
    found: &SavedComparison,
    primary: Metric,
    metrics: &[Metric],
    sides: [(&str, &str); 2],
    around: &Around,
) -> String {
    let [(a, page_a), (b, page_b)] = sides;
    let metrics = metrics.iter().map(|metric| (metric.name(), metric.label().to_owned()));
    let hidden = |name: &'static str, value: &str| {
        el("input").attr("type", "hidden").attr("name", name).attr("value", value)
    };
    let form = el("form")
        .class("choose")
        .attr("method", "get")
        .attr("action", "/compare")
        .child(hidden("a", a))
        .child(hidden("b", b))
        .child(select("primary", "Decided by", Some(primary.name()), metrics))
        .child(el("button").attr("type", "submit").text("Show"));
    let swapped = format!("/compare?a={}&b={}", super::list::encoded(b), super::list::encoded(a));
    let swap = el("p").child(link(&swapped, "Swap A and B"));
    let content = [
        el("p").class("sentence").text(&sentence(found, primary)),
        sides_table(found, [page_a, page_b]),
        form,
        swap,
        estimates(found, primary),
        listed(
            "differences",
            "Differences between the sides",
            &found.differences,
            "The records show no difference.",
        ),
        listed("left-out", "Excluded windows", &left_out(found), "No window is excluded."),
        listed("limits", "Limits of windows measured at different times", &found.cannot_show, ""),
    ];
    document("A and B", Tab::Records, around, content)
}

fn sentence(found: &SavedComparison, primary: Metric) -> String {
    if let Some(why) = &found.no_finding {
        return format!("There is no ratio: {why}.");
    }
    if found.estimates.is_empty() {
        return "The two sides have no metric in common.".to_owned();
    }
    // Another metric has another error level, and was not requested.
    let Some(first) = found.estimates.iter().find(|estimate| estimate.metric == primary) else {
        return format!("{}: no comparison, because one side lacks this metric.", primary.label());
    };
    let finding = first.finding.map_or("no difference was found", SavedFinding::label);
    format!(
        "{}: B is {} of A: {finding}. The page can't say better or worse. For that, measure both side by \
         side.",
        first.metric.label(),
        quantity::ratio(first.ratio)
    )
}

fn sides_table(found: &SavedComparison, pages: [&str; 2]) -> Element {
    let [page_a, page_b] = pages;
    let columns = vec![
        Column::words("side"),
        Column::words("records"),
        Column::numbers(Markup::text("included windows")),
        Column::words("from"),
        Column::words("to"),
    ];
    let mut table = Table::new("The sides", columns);
    for (class, name, side, page) in [("arm a", "A", &found.a, page_a), ("arm b", "B", &found.b, page_b)] {
        let cells = vec![
            Cell::words(link(page, &side.source)),
            Cell::number(&quantity::count(u64::from(side.windows))),
            Cell::text(&super::frame::when(side.from_unix_ms)),
            Cell::text(&super::frame::when(side.to_unix_ms)),
        ];
        table.row(el("span").class(class).text(name), cells);
    }
    table.finish()
}

fn estimates(found: &SavedComparison, primary: Metric) -> Element {
    let section = section("figures", "The figures");
    if found.estimates.is_empty() {
        return section.child(absent("Neither side has a known metric."));
    }
    let mut columns = vec![Column::words("metric")];
    columns.extend(["A", "B", "ratio B/A"].map(|name| Column::numbers(Markup::text(name))));
    columns.extend([Column::words("confidence interval"), Column::words("finding")]);
    let mut table = Table::new("Metrics of both sides", columns).remark(
        "Geometric means over windows, and the Welch confidence interval of their ratio. hone \
             compare A.json B.json computes the same.",
    );
    for estimate in &found.estimates {
        let class = if estimate.metric == primary { "primary" } else { "plain" };
        table.row_of_class(class, Markup::text(estimate.metric.label()), estimate_cells(estimate));
    }
    section.child(table.finish())
}

fn estimate_cells(estimate: &SavedEstimate) -> Vec<Cell> {
    let value = |value: f64| Cell::number(&quantity::of_metric(estimate.metric, value));
    let interval = estimate.interval.map_or_else(
        || NONE.to_owned(),
        |(low, high, confidence)| {
            let level = quantity::chosen_percent(confidence);
            format!("[{}, {}] at {level}", quantity::ratio(low), quantity::ratio(high))
        },
    );
    vec![
        value(estimate.value_a),
        value(estimate.value_b),
        Cell::number(&quantity::ratio(estimate.ratio)),
        Cell::text(&interval),
        Cell::text(estimate.finding.map_or(NONE, SavedFinding::label)),
    ]
}

fn left_out(found: &SavedComparison) -> Vec<String> {
    let of = |name: &'static str, side: &[String]| {
        side.iter().map(|why| format!("{name}: {why}")).collect::<Vec<_>>()
    };
    [of("A", &found.a.left_out), of("B", &found.b.left_out)].concat()
}

fn listed(id: &'static str, title: &str, lines: &[String], without: &str) -> Element {
    let section = section(id, title);
    if lines.is_empty() {
        return section.child(paragraph(without));
    }
    section.child(el("ul").children(lines.iter().map(|line| el("li").text(line))))
}

/// Compares records that are not windows. It lists their differences, and of two comparisons the results of each.
pub fn side_by_side(
    found: &SideBySide,
    judged: Option<(&Comparison, &Comparison)>,
    around: &Around,
) -> String {
    let mut sides = Table::new("The sides", ["side", "record", "kind", "what"].map(Column::words).into());
    for (class, name, side) in [("arm a", "A", &found.a), ("arm b", "B", &found.b)] {
        let record = Cell::words(link(&format!("/record/{}", side.id), &side.path));
        let cells = vec![record, Cell::text(&side.kind), Cell::text(&side.title)];
        sides.row(el("span").class(class).text(name), cells);
    }
    let sentence = "The page shows both results next to each other. It computes no ratio between them.";
    let content = [
        Some(el("p").class("sentence").text(sentence)),
        Some(sides.finish()),
        judged.map(|(a, b)| judgements(a, b)),
        Some(differences(found)),
    ];
    document("A and B", Tab::Records, around, content.into_iter().flatten())
}

fn judgements(a: &Comparison, b: &Comparison) -> Element {
    let mut columns = vec![Column::words("metric")];
    for name in ["A", "B"] {
        columns.push(Column::numbers(Markup::text(&format!("{name}: ratio and interval"))));
        columns.push(Column::words(if name == "A" { "verdict in A" } else { "verdict in B" }));
    }
    let mut table = Table::new("Results of each record", columns).remark(
        "Each ratio compares the two arms of that record. The confidence interval and the verdict come from \
         the record.",
    );
    for metric in Metric::ALL {
        let of = |comparison: &Comparison| {
            let found = comparison.judgements.iter().find(|found| found.estimate.metric == metric)?;
            Some((found.estimate.clone(), found.verdict))
        };
        let both = [of(a), of(b)];
        if both.iter().all(Option::is_none) {
            continue;
        }
        let mut cells = Vec::new();
        for one in both {
            let Some((estimate, verdict)) = one else {
                cells.extend([Cell::number(NONE), Cell::text(NONE)]);
                continue;
            };
            let [ratio, low, high] = [estimate.ratio, estimate.low, estimate.high].map(quantity::ratio);
            cells.extend([
                Cell::number(&format!("{ratio} [{low}, {high}]")),
                Cell::words(mark::verdict_words(verdict)),
            ]);
        }
        table.row(Markup::text(metric.label()), cells);
    }
    section("found", "Results of each record").child(table.finish())
}

fn differences(found: &SideBySide) -> Element {
    let section = section("differences", "Fields that differ");
    if found.differences.is_empty() {
        return section.child(paragraph("All fields are the same."));
    }
    let mut table = Table::new("Fields that differ", ["field", "A", "B"].map(Column::words).into());
    for field in &found.differences {
        let cell = |value: &Option<String>| Cell::text(value.as_deref().unwrap_or(NONE));
        table.row(Markup::text(&field.field), vec![cell(&field.a), cell(&field.b)]);
    }
    let more = (found.not_listed > 0)
        .then(|| paragraph(&format!("{} more are not listed.", quantity::count(found.not_listed as u64))));
    section.child(table.finish()).children(more)
}

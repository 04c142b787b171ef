//! A metric over commits, builds or ledger entries, with its change points.

use hone_record::{ChangePoint, History, HistoryLine, HistoryOver, HistoryPoint, Metric};

use super::frame::{Around, Tab, document, link, link_to, when};
use super::list::{encoded, select};
use crate::plot::over;
use crate::quantity::{self, NONE};
use crate::section::{absent, figure as plotted, no_figure, paragraph, section};
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup, el};

/// The lines that a reader can follow.
pub fn history_lines(lines: &[HistoryLine], around: &Around) -> String {
    if lines.is_empty() {
        let why = "There is no history yet. It needs two records of one load on one machine that name a \
             commit or a build, or a ledger with the same question twice. `hone load --commit` writes the \
             commit into its record.";
        return document("History", Tab::History, around, [absent(why)]);
    }
    let columns = vec![
        Column::words("line"),
        Column::words("over"),
        Column::words("the same at all points"),
        Column::words("metric and points"),
    ];
    let mut table = Table::new("Lines", columns);
    for line in lines {
        let metrics = line.metrics.iter().map(|(metric, points)| {
            let address = address(line, *metric);
            let text = format!("{} ({})", metric.label(), quantity::count(*points as u64));
            el("li").child(link_to(&address, &text, &format!("of {}", line.name)))
        });
        let cells = vec![
            Cell::text(line.over.label()),
            Cell::text(&line.circumstances),
            Cell::words(el("ul").class("metrics").children(metrics)),
        ];
        table.row(Markup::text(&line.name), cells);
    }
    document("History", Tab::History, around, [table.finish()])
}

fn address(line: &HistoryLine, metric: Metric) -> String {
    format!("/history/{}?metric={}", line.id, encoded(metric.name()))
}

/// One line by one metric.
pub fn history(found: &History, around: &Around) -> String {
    let Some(metric) = found.metric else {
        return document(
            &found.line.name,
            Tab::History,
            around,
            [absent("This line does not have the metric.")],
        );
    };
    let title = format!("{} of {}", metric.label(), found.line.name);
    let metrics = found.line.metrics.keys().map(|metric| (metric.name(), metric.label().to_owned()));
    let form = el("form")
        .class("choose")
        .attr("method", "get")
        .attr("action", format!("/history/{}", found.line.id))
        .child(select("metric", "Metric", Some(metric.name()), metrics))
        .child(el("button").attr("type", "submit").text("Show"));
    let content = [
        el("p").class("sentence").text(&sentence(found, metric)),
        paragraph(&format!(
            "Over {}. The same at all points: {}.",
            found.line.over.label(),
            found.line.circumstances
        )),
        form,
        drawing(found, metric),
        changes(found, metric),
        points(found, metric),
    ];
    document(&title, Tab::History, around, content)
}

fn sentence(found: &History, metric: Metric) -> String {
    let label = |point: &ChangePoint| found.points.get(point.first).map_or(NONE, |point| &point.label);
    match &found.change_points[..] {
        [] => format!(
            "{}: no change of level was found.",
            quantity::counted(found.points.len() as u64, "point", "points")
        ),
        [only] => format!(
            "The level changes at {}: {}{}.",
            label(only),
            quantity::change(only.ratio),
            judged(metric, found, only)
        ),
        many => {
            let each =
                many.iter().map(|point| format!("{} ({})", label(point), quantity::change(point.ratio)));
            format!("The level changes {} times: at {}.", many.len(), each.collect::<Vec<_>>().join(", "))
        }
    }
}

/// The better direction is known for a metric, but not for a ratio that another program judged.
fn judged(metric: Metric, found: &History, point: &ChangePoint) -> &'static str {
    match (found.line.over, metric.lower_is_better() == (point.ratio < 1.0)) {
        (HistoryOver::Entries, _) => "",
        (_, true) => ", an improvement",
        (_, false) => ", a regression",
    }
}

fn value_words(found: &History, metric: Metric, value: f64) -> String {
    if found.line.over == HistoryOver::Entries {
        quantity::ratio(value)
    } else {
        quantity::of_metric(metric, value)
    }
}

fn drawing(found: &History, metric: Metric) -> Element {
    let title = format!("{} in the order of measurement", metric.label());
    let is_ratio = found.line.over == HistoryOver::Entries;
    let points: Vec<(String, f64)> =
        found.points.iter().map(|point| (point.label.clone(), point.value)).collect();
    let chart = over::Chart {
        x_name: found.line.over.label(),
        y_name: if is_ratio { "ratio of after to before" } else { metric.label() },
        y_mark: match (is_ratio, metric.unit()) {
            (true, _) => quantity::plain,
            (false, "µs") => |us| quantity::TimeUnit::fitting(us).tick(us),
            (false, "B") => |value| quantity::bytes(value.max(0.0) as u64),
            (false, _) => quantity::short,
        },
        points: &points,
        changes: &found.change_points,
    };
    let description = format!(
        "{} points from {} to {}; change points: {}. The numbers are in the tables below.",
        points.len(),
        points.first().map_or(NONE, |(label, _)| label),
        points.last().map_or(NONE, |(label, _)| label),
        found.change_points.len()
    );
    let Some(plot) = over::plot("history", &title, &description, &chart) else {
        return no_figure(&title, "There is no point to draw.");
    };
    let caption = "A dot is a point. A horizontal line is the level between two change points. A number \
         marks each change point.";
    plotted(&title, None, plot, caption, None)
}

fn changes(found: &History, metric: Metric) -> Element {
    let section = section("changes", "Change points");
    let rule = paragraph(&found.rule);
    if found.change_points.is_empty() {
        return section.child(paragraph("None.")).child(rule);
    }
    let mut columns = vec![Column::words("change point"), Column::words("level from here")];
    columns.extend(
        ["level before", "level after", "change", "p"].map(|name| Column::numbers(Markup::text(name))),
    );
    columns.push(Column::words("compare"));
    let mut table = Table::new("Change points", columns);
    for (place, change) in found.change_points.iter().enumerate() {
        let point = found.points.get(change.first);
        let before = change.first.checked_sub(1).and_then(|place| found.points.get(place));
        let cells = vec![
            Cell::text(point.map_or(NONE, |point| &point.label)),
            Cell::number(&value_words(found, metric, change.before)),
            Cell::number(&value_words(found, metric, change.after)),
            Cell::number(&quantity::change(change.ratio)),
            Cell::number(&quantity::plain(change.p_value)),
            Cell::words(both(before, point, place)),
        ];
        table.row(Markup::text(&(place + 1).to_string()), cells);
    }
    section.child(table.finish()).child(rule)
}

/// The points before and after a change.
fn both(before: Option<&HistoryPoint>, behind: Option<&HistoryPoint>, place: usize) -> Markup {
    let side = |point: Option<&HistoryPoint>| point.and_then(|point| point.record.clone());
    match (side(before), side(behind)) {
        (Some(a), Some(b)) => {
            let address = format!("/compare?a={}&b={}", encoded(&a), encoded(&b));
            link_to(&address, "compare before and after", &format!("at change point {}", place + 1)).into()
        }
        _ => Markup::text(NONE),
    }
}

fn points(found: &History, metric: Metric) -> Element {
    let (name, value, windows) = match found.line.over {
        HistoryOver::Commits => ("commit", metric.label(), "windows"),
        HistoryOver::Builds => ("build", metric.label(), "windows"),
        HistoryOver::Entries => ("entry", "ratio", "pairs"),
    };
    let columns = vec![
        Column::words(name),
        Column::numbers(Markup::text(value)),
        Column::numbers(Markup::text(windows)),
        Column::words("measured"),
        Column::words("from"),
    ];
    let mut table = Table::new("Points", columns)
        .remark("In the order of measurement. A line above a row marks a change point.");
    for (place, point) in found.points.iter().enumerate() {
        let is_change = found.change_points.iter().any(|change| change.first == place);
        let source = match (&point.run, &point.record) {
            (Some(run), _) => Markup::default().with(link(&format!("/run/{run}"), &point.source)),
            (None, Some(record)) => Markup::default().with(link(&format!("/record/{record}"), &point.source)),
            (None, None) => Markup::text(&point.source),
        };
        let cells = vec![
            Cell::number(&value_words(found, metric, point.value)),
            Cell::number(&quantity::count(point.windows as u64)),
            Cell::words(el("span").class("word").text(&when(point.at_unix_ms))),
            Cell::words(source),
        ];
        let title = el("code").text(&point.label);
        table.row_of_class(if is_change { "changed" } else { "plain" }, title, cells);
    }
    let left_out = (found.left_out > 0).then(|| {
        paragraph(&format!("{} older points are left out.", quantity::count(found.left_out as u64)))
    });
    section("points", "Points").children(left_out).child(table.finish())
}

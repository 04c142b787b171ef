//! A metric over commits, builds or ledger entries, with its change points.

use hone_record::{ChangePoint, History, HistoryLine, HistoryOver, HistoryPoint, Measure, Metric};

use super::frame::{Around, Tab, ago, document, downloads, link, link_to, when};
use super::home::with_units;
use super::list::{encoded, select};
use crate::plot::{over, spark};
use crate::quantity::{self, NONE};
use crate::section::history::{LEVELS, level_cells, point_titles};
use crate::section::story::csv_line;
use crate::section::{absent, figure as plotted, no_figure, paragraph, raised, section};
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup, el};

/// The lines that a reader can follow, those with a regression first.
pub fn history_lines(lines: &[HistoryLine], around: &Around) -> String {
    if lines.is_empty() {
        let why = "There is no history yet. It needs two records of one load on one machine that name a \
             commit or a build, or a ledger with the same question twice. `hone load --commit` writes the \
             commit into its record.";
        return document("History", Tab::History, around, [absent(why)]);
    }
    let columns = ["line", "metric, number of points, newest points, state"];
    let mut table = Table::new("Lines", columns.map(Column::words).into()).class("scroll cards lines");
    let mut sorted: Vec<&HistoryLine> = lines.iter().collect();
    sorted.sort_by_key(|line| !line.metrics.keys().any(|metric| has_regressed(line, *metric)));
    for line in &sorted {
        let mut metrics: Vec<(Metric, usize)> =
            line.metrics.iter().map(|(metric, points)| (*metric, *points)).collect();
        metrics.sort_by_key(|(metric, _)| !has_regressed(line, *metric));
        let metrics = metrics.into_iter().map(|(metric, points)| listed(line, metric, points));
        let same = format!("over {}: {}", line.over.label(), with_units(&line.circumstances));
        let title = Markup::text(&line.name).with(el("span").class("small path").text(&same));
        table.row(title, vec![Cell::words(el("ul").class("metrics").children(metrics))]);
    }
    let sentence = el("p").class("sentence").text(&regressed(&sorted));
    document("History", Tab::History, around, [sentence, table.finish()])
}

/// Names the lines with a regression in their newest level.
fn regressed(lines: &[&HistoryLine]) -> String {
    let counted = |line: &&HistoryLine| {
        let worse = line.metrics.keys().filter(|metric| has_regressed(line, **metric)).count();
        let all = quantity::counted(line.metrics.len() as u64, "metric", "metrics");
        (worse > 0).then(|| format!("{worse} of {all} of {} regressed", line.name))
    };
    let found: Vec<String> = lines.iter().filter_map(counted).collect();
    match &found[..] {
        [] => "No metric regressed.".to_owned(),
        [first] => format!("{first}."),
        [first, others @ ..] => {
            let others = quantity::counted(others.len() as u64, "other line", "other lines");
            format!("{first}. Metrics of {others} regressed, too.")
        }
    }
}

fn has_regressed(line: &HistoryLine, metric: Metric) -> bool {
    let last = line.trends.get(&metric).and_then(|trend| trend.last_change.as_ref());
    last.is_some_and(|last| Measure::of_metric(metric, line.over).is_better(last) == Some(false))
}

/// A metric of a line: the link, its newest points, and what the last change point means.
fn listed(line: &HistoryLine, metric: Metric, points: usize) -> Element {
    let count = el("span").class("small").text(&quantity::counted(points as u64, "point", "points"));
    let trend = line.trends.get(&metric);
    let drawn = trend.and_then(|trend| {
        let count = trend.values.len() as u64;
        let name = format!("{} over {}", metric.label(), quantity::counted(count, "point", "points"));
        spark::sparkline(&trend.values, &name)
    });
    let state = trend.filter(|trend| trend.is_searched).map(|trend| {
        let (class, word) = match trend.last_change.as_ref() {
            None => ("chip", without_change(trend.values.len())),
            Some(last) => match Measure::of_metric(metric, line.over).is_better(last) {
                None => ("chip", "changed"),
                Some(true) => ("chip better", "improved"),
                Some(false) => ("chip worse", "regression"),
            },
        };
        el("b").class(class).text(word)
    });
    el("li")
        .child(
            el("span")
                .child(link_to(&address(line, metric), metric.label(), &format!("of {}", line.name)))
                .child(count),
        )
        .child(el("span").children(drawn))
        .child(el("span").children(state))
}

/// The state of a line without a change point. With few points none can be found.
fn without_change(points: usize) -> &'static str {
    if points < ChangePoint::FEWEST_POINTS { "too few points" } else { "stable" }
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
        state(found, around),
        el("p").class("sentence").text(&sentence(found, metric)),
        paragraph(&format!(
            "Over {}. The same at all points: {}.",
            found.line.over.label(),
            with_units(&found.line.circumstances)
        )),
        form,
        drawing(found, metric, around),
        changes(found, metric),
        notes(found),
        points(found, metric),
    ];
    document(&title, Tab::History, around, content)
}

/// The newest level. A change point is a place to look at, so it has no mark of a verdict.
fn state(found: &History, around: &Around) -> Element {
    let line = el("p").class("alert");
    let Some(last) = found.change_points.last() else {
        let word = without_change(found.points.len());
        return line.child(el("b").class("chip").text(word)).text(" No change point.");
    };
    let word = if last.ratio > 1.0 { "change point, higher" } else { "change point, lower" };
    let point = found.points.get(last.first);
    let label = point.map_or(NONE, |point| &point.label);
    let since = found.points.len().saturating_sub(last.first) as u64;
    let text = format!(
        " {} at {label}, {} so far at this level, ",
        quantity::change(last.ratio),
        quantity::counted(since, "point", "points")
    );
    line.child(el("b").class("chip").text(word))
        .text(&text)
        .child(ago(point.map_or(0, |point| point.at_unix_ms), around.now_unix_ms))
        .text(".")
}

/// Ledger entries in the time of the line.
fn notes(found: &History) -> Element {
    if found.notes.is_empty() {
        return el("div");
    }
    let columns = ["note", "change", "decision", "when"].map(Column::words);
    let mut table = Table::new("Ledger entries in this time", columns.into())
        .class("scroll cards")
        .remark("A letter marks each entry in the picture. An entry need not be the cause of a change.");
    for (number, note) in found.notes.iter().enumerate() {
        let address = format!("/ledger/{}?line={}#line-{}", note.ledger, note.line, note.line);
        let cells = vec![
            Cell::words(link(&address, &note.change)).class("words prose"),
            Cell::text(&note.decision),
            Cell::words(el("span").class("word").text(&when(note.at_unix_ms))),
        ];
        table.row(Markup::text(&over::letter(number)), cells);
    }
    section("notes", "Changes in this time").child(table.finish())
}

/// The points, one line for each.
pub fn history_csv(found: &History) -> String {
    let titles =
        ["label", "unix_ms", "value", "unit", "windows", "source", "change_point"].map(str::to_owned);
    let is_ratio = found.line.over == HistoryOver::Entries;
    let unit = found.metric.map_or("", |metric| if is_ratio { "ratio" } else { metric.unit() });
    let line = |(place, point): (usize, &HistoryPoint)| {
        let is_change = found.change_points.iter().any(|change| change.first == place);
        csv_line(&[
            point.label.clone(),
            point.at_unix_ms.to_string(),
            point.value.to_string(),
            unit.to_owned(),
            point.windows.to_string(),
            point.source.clone(),
            is_change.to_string(),
        ])
    };
    csv_line(&titles) + &found.points.iter().enumerate().map(line).collect::<String>()
}

fn sentence(found: &History, metric: Metric) -> String {
    let label = |point: &ChangePoint| found.points.get(point.first).map_or(NONE, |point| &point.label);
    match &found.change_points[..] {
        [] => format!(
            "{}: no change of level was found.",
            quantity::counted(found.points.len() as u64, "point", "points")
        ),
        [only] => format!(
            "The level changes at {}: {} before, {} after ({}, p {}).{}",
            label(only),
            value_words(found, metric, only.before),
            value_words(found, metric, only.after),
            quantity::change(only.ratio),
            quantity::plain(only.p_value),
            judged(metric, found, only)
        ),
        many => {
            let each =
                many.iter().map(|point| format!("{} ({})", label(point), quantity::change(point.ratio)));
            format!("The level changes {} times: at {}.", many.len(), each.collect::<Vec<_>>().join(", "))
        }
    }
}

/// The direction of a change, and what it is not.
fn judged(metric: Metric, found: &History, point: &ChangePoint) -> String {
    let direction = match Measure::of_metric(metric, found.line.over).is_better(point) {
        None => return String::new(),
        Some(true) => "better",
        Some(false) => "worse",
    };
    format!(" The new level is {direction}. A change point is a place to look at, not a verdict.")
}

fn value_words(found: &History, metric: Metric, value: f64) -> String {
    quantity::of_measure(&Measure::of_metric(metric, found.line.over), value)
}

fn drawing(found: &History, metric: Metric, around: &Around) -> Element {
    let title = format!("{} in the order of measurement", metric.label());
    let is_ratio = found.line.over == HistoryOver::Entries;
    let points: Vec<(String, f64)> =
        found.points.iter().map(|point| (point.label.clone(), point.value)).collect();
    let notes: Vec<(usize, String)> =
        found.notes.iter().map(|note| (note.first, format!("{}: {}", note.change, note.decision))).collect();
    let y_name = if is_ratio { "ratio of after to before" } else { metric.label() };
    let y_name = format!("{y_name} (log)");
    let chart = over::Chart {
        x_name: found.line.over.label(),
        y_name: &y_name,
        y_mark: match (is_ratio, metric.unit()) {
            (true, _) => quantity::plain,
            (false, "µs") => |us| quantity::TimeUnit::fitting(us).tick(us),
            (false, "B") => |value| quantity::bytes(value.max(0.0) as u64),
            (false, _) => quantity::short,
        },
        points: &points,
        changes: &found.change_points,
        notes: &notes,
    };
    let description = format!(
        "{} points from {} to {}; change points: {}. The numbers are in the tables below.",
        points.len(),
        points.first().map_or(NONE, |(label, _)| label),
        points.last().map_or(NONE, |(label, _)| label),
        found.change_points.len()
    );
    let Some(plot) = over::plot("history", &title, &description, &chart) else {
        return raised(no_figure(&title, "There is no point to draw."));
    };
    let caption = "A dot is a point. A horizontal line is the level between two change points. A number \
         marks each change point.";
    let figure = raised(plotted(&title, None, plot, caption, None));
    el("div").child(figure).children(downloads(around, &[("history", &title)]))
}

fn changes(found: &History, metric: Metric) -> Element {
    let section = section("changes", "Change points");
    let rule = paragraph(&found.rule);
    if found.change_points.is_empty() {
        return section.child(paragraph("None.")).child(rule);
    }
    let mut columns = vec![Column::words("change point"), Column::words("level from here")];
    columns.extend(LEVELS.map(|name| Column::numbers(Markup::text(name))));
    columns.push(Column::words("compare"));
    let mut table = Table::new("Change points", columns).under_its_heading();
    for (place, change) in found.change_points.iter().enumerate() {
        let point = found.points.get(change.first);
        let before = change.first.checked_sub(1).and_then(|place| found.points.get(place));
        let mut cells = vec![Cell::text(point.map_or(NONE, |point| &point.label))];
        cells.extend(level_cells(change, |value| value_words(found, metric, value)));
        cells.push(Cell::words(both(before, point, place)));
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
    let [name, value, windows] = point_titles(found.line.over, metric.label());
    let mut columns = vec![
        Column::words(name),
        Column::numbers(Markup::text(value)),
        Column::numbers(Markup::text(windows)),
        Column::words("measured"),
        Column::words("from"),
    ];
    let can_choose = found.points.iter().filter(|point| point.record.is_some()).count() > 1;
    columns.extend(can_choose.then(|| Column::words("compare")));
    // The oldest and the newest point are chosen at first.
    let has_record = |point: &HistoryPoint| point.record.is_some();
    let sides = (found.points.iter().position(has_record), found.points.iter().rposition(has_record));
    let mut table = Table::new("Points", columns).under_its_heading();
    for (place, point) in found.points.iter().enumerate() {
        let is_change = found.change_points.iter().any(|change| change.first == place);
        let source = match (&point.run, &point.record) {
            (Some(run), _) => Markup::default().with(link(&format!("/run/{run}"), &point.source)),
            (None, Some(record)) => Markup::default().with(link(&format!("/record/{record}"), &point.source)),
            (None, None) => Markup::text(&point.source),
        };
        let mut cells = vec![
            Cell::number(&value_words(found, metric, point.value)),
            Cell::number(&quantity::count(point.windows as u64)),
            Cell::words(el("span").class("word").text(&when(point.at_unix_ms))),
            Cell::words(source),
        ];
        let chosen = [Some(place) == sides.0, Some(place) == sides.1];
        cells.extend(can_choose.then(|| Cell::words(choice(point, place, chosen))));
        let title = el("code").text(&point.label);
        table.row_of_class(if is_change { "changed" } else { "plain" }, title, cells);
    }
    let left_out = (found.left_out > 0).then(|| {
        paragraph(&format!("{} older points are left out.", quantity::count(found.left_out as u64)))
    });
    let order = paragraph("In the order of measurement. A line above a row marks a change point.");
    let section = section("points", "Points").child(order).children(left_out);
    if !can_choose {
        return section.child(table.finish());
    }
    let form = el("form").attr("method", "get").attr("action", "/compare").child(
        el("p")
            .text("Choose a point as A and another one as B. ")
            .child(el("button").attr("type", "submit").text("Compare A and B")),
    );
    section.child(form.child(table.finish()))
}

/// Two switches that make a point one side of a comparison.
fn choice(point: &HistoryPoint, place: usize, chosen: [bool; 2]) -> Markup {
    let Some(record) = &point.record else { return Markup::text(NONE) };
    let side = |name: &'static str, title: &str, is_chosen: bool| {
        let id = format!("{name}-{place}");
        let field =
            el("input").attr("type", "radio").attr("name", name).attr("id", &id).attr("value", record);
        let field = if is_chosen { field.attr("checked", "") } else { field };
        let words = el("span").class("heard").text(&format!(" is {}, point {}", point.label, place + 1));
        let label = el("label").attr("for", &id).text(title).child(words);
        el("span").class("word").child(field.attr("required", "")).child(label)
    };
    Markup::from(side("a", "A", chosen[0])).with(Markup::text(" ")).with(side("b", "B", chosen[1]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_record::{HistoryNote, HistoryTrend};

    fn found() -> History {
        let points = (0..4).map(|place| HistoryPoint {
            label: format!("commit-{place}"),
            at_unix_ms: 1_795_200_420_000 + place * 60_000,
            value: if place < 2 { 100.0 } else { 125.0 },
            range: None,
            windows: 5,
            source: "nightly".to_owned(),
            record: Some(format!("{place:016x}")),
            run: None,
        });
        History {
            line: HistoryLine { name: "target".to_owned(), ..HistoryLine::default() },
            metric: Some(Metric::LatencyP50),
            points: points.collect(),
            change_points: vec![ChangePoint {
                first: 2,
                before: 100.0,
                after: 125.0,
                ratio: 1.25,
                p_value: 0.01,
            }],
            notes: vec![HistoryNote {
                first: 1,
                at_unix_ms: 1_795_200_450_000,
                change: "client: <linger>".to_owned(),
                decision: "kept".to_owned(),
                ledger: "0123456789abcdef".to_owned(),
                line: 7,
            }],
            ..History::default()
        }
    }

    #[test]
    fn the_state_says_where_the_newest_level_began_without_a_verdict() {
        let html = history(&found(), &Around { now_unix_ms: 1_795_204_020_000, ..Around::default() });
        assert!(html.contains("chip\">change point, higher</b>"), "{html}");
        let values = "100\u{a0}µs before, 125\u{a0}µs after (+25.0\u{a0}%, p 0.01). The new level is worse.";
        assert!(html.contains(values), "{html}");
        assert!(html.contains("+25.0\u{a0}% at commit-2, 2\u{a0}points so far"), "{html}");
        let better = History { metric: Some(Metric::Throughput), ..found() };
        assert!(history(&better, &Around::default()).contains("The new level is better."));
        let few = History { change_points: Vec::new(), ..found() };
        assert!(history(&few, &Around::default()).contains("chip\">too few points</b>"));
        let points = [found().points, found().points].concat();
        let stable = History { points, ..few };
        assert!(history(&stable, &Around::default()).contains("chip\">stable</b>"));
    }

    #[test]
    fn the_list_has_the_newest_points_and_the_state_of_each_metric() {
        let change = ChangePoint { first: 1, before: 100.0, after: 125.0, ratio: 1.25, p_value: 0.01 };
        let trend = |last_change| HistoryTrend { values: vec![100.0; 6], last_change, is_searched: true };
        let late = HistoryTrend { is_searched: false, ..trend(None) };
        let few = HistoryTrend { values: vec![100.0, 125.0], ..trend(None) };
        let trends = [
            (Metric::LatencyP50, trend(Some(change))),
            (Metric::Throughput, trend(Some(change))),
            (Metric::LatencyP90, trend(None)),
            (Metric::LatencyP99, late),
            (Metric::LatencyP999, few),
        ];
        let line = HistoryLine {
            name: "<target>".to_owned(),
            metrics: trends.iter().map(|(metric, _)| (*metric, 2)).collect(),
            trends: trends.into(),
            ..HistoryLine::default()
        };
        let quiet = HistoryLine { name: "quiet".to_owned(), ..HistoryLine::default() };
        let html = history_lines(&[quiet, line], &Around::default());
        assert_eq!(html.matches("class=\"spark-picture\"").count(), 5, "{html}");
        for chip in [
            "chip worse\">regression<",
            "chip better\">improved<",
            "chip\">stable<",
            "chip\">too few points<",
        ] {
            assert_eq!(html.matches(chip).count(), 1, "{chip}: {html}");
        }
        assert!(html.contains("1 of 5\u{a0}metrics of &lt;target&gt; regressed."), "{html}");
        assert!(html.find(">quiet<") > html.find("&lt;target&gt;"), "{html}");
        assert!(html.contains("p50 over 6\u{a0}points") && html.contains("&lt;target&gt;"), "{html}");
    }

    #[test]
    fn two_points_are_compared_by_a_form_and_notes_lead_to_their_ledger() {
        let html = history(&found(), &Around::default());
        assert!(html.contains("action=\"/compare\"") && html.contains("Compare A and B"), "{html}");
        assert_eq!(html.matches("type=\"radio\"").count(), 8);
        assert!(
            html.contains("/ledger/0123456789abcdef?line=7#line-7") && html.contains("&lt;linger&gt;"),
            "{html}"
        );
        let csv = history_csv(&found());
        assert!(csv.contains("commit-2,1795200540000,125,µs,5,nightly,true"), "{csv}");
    }
}

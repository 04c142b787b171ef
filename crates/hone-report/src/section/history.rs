//! Metrics over commits, builds, ledger entries or imported files: a row for each line, or one line with its points and change points.

use hone_record::{ChangePoint, HistoryOver, LineState, MetricHistory, MetricLine, Verdict};

use super::head::{self, Head};
use super::{paragraph, section};
use crate::outcome::Outcome;
use crate::quantity::{self, NONE};
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup, el};

/// The head: whether something regressed.
pub(crate) fn header(found: &MetricHistory) -> Element {
    let (outcome, sentence) = outcome(found);
    let new = format!(
        "A change point is new if it lies among the newest {} points. It is a place to look at, not a verdict.",
        found.within
    );
    Head::new("History", &title(found))
        .verdict(outcome, &sentence, vec![paragraph(&new)])
        .with_all(found.notes.iter().map(|note| paragraph(&format!("Note: {note}."))))
        .meta(&[])
}

/// The title of the document.
pub(crate) fn title(found: &MetricHistory) -> String {
    match &found.lines[..] {
        [only] => subject(only),
        _ => "Metrics over commits".to_owned(),
    }
}

fn subject(line: &MetricLine) -> String {
    format!("{} of {}", line.measure.label, line.name)
}

fn outcome(found: &MetricHistory) -> (Outcome, String) {
    let count = |state| found.in_state(state).count() as u64;
    let few = count(LineState::TooFewPoints);
    if let Some(line) = found.in_state(LineState::NewWorse).next() {
        let change = newest_new(line, found.within, false);
        let change =
            change.map(|change| format!("{}, p {}", changed(line, change), quantity::plain(change.p_value)));
        let others = match count(LineState::NewWorse) - 1 {
            0 => String::new(),
            more => format!(" {} regressed.", quantity::counted(more, "more line", "more lines")),
        };
        let sentence = format!("Regression: {}, {}.{others}", subject(line), change.unwrap_or_default());
        return (Outcome::new(Verdict::Worse, "Regression"), sentence);
    }
    if few == found.lines.len() as u64 {
        let sentence = match &found.lines[..] {
            [only] => format!(
                "Too few points: {} has {}, and the search needs {}.",
                subject(only),
                quantity::count(only.points.len() as u64),
                ChangePoint::FEWEST_POINTS
            ),
            _ => format!("Too few points: the search needs {} in a line.", ChangePoint::FEWEST_POINTS),
        };
        return (Outcome::new(Verdict::NotShown, "Too few points"), sentence);
    }
    let word = "No new change point for the worse";
    let more = match few {
        0 => String::new(),
        few => format!(" {} too few points.", quantity::counted(few, "more line has", "more lines have")),
    };
    let searched = quantity::counted(found.lines.len() as u64 - few, "line", "lines");
    (Outcome::new(None, word), format!("{word} in {searched}.{more}"))
}

/// The newest change point that is new and goes into this direction.
fn newest_new(line: &MetricLine, within: usize, is_better: bool) -> Option<&ChangePoint> {
    let is_wanted = |change: &&ChangePoint| {
        change.is_new(line.points.len(), within) && line.measure.is_better(change) == Some(is_better)
    };
    line.change_points.iter().rev().find(is_wanted)
}

/// The label of the point at a place.
fn label(line: &MetricLine, place: Option<usize>) -> &str {
    place.and_then(|place| line.points.get(place)).map_or(NONE, |point| &point.label)
}

/// `+25.0 % at abc`.
fn changed(line: &MetricLine, change: &ChangePoint) -> String {
    format!("{} at {}", quantity::change(change.ratio), label(line, Some(change.first)))
}

/// A row for each line.
pub(crate) fn list(found: &MetricHistory) -> Element {
    let mut columns = vec![Column::words("line"), Column::words("metric")];
    columns.extend(["points", "newest"].map(|title| Column::numbers(Markup::text(title))));
    columns.push(Column::words("newest change point"));
    let mut table = Table::new("Lines", columns).under_its_heading();
    for line in &found.lines {
        let newest = line.points.last().map(|point| quantity::of_measure(&line.measure, point.value));
        let cells = vec![
            Cell::text(&line.measure.label),
            Cell::number(&quantity::count((line.points.len() + line.left_out) as u64)),
            Cell::number(&newest.unwrap_or_else(|| NONE.to_owned())),
            Cell::text(&state(line, found.within)),
        ];
        table.row(Markup::text(&line.name_among(&found.lines)), cells);
    }
    section("lines", "Lines").child(table.finish())
}

/// The newest change point, or why there is none.
fn state(line: &MetricLine, within: usize) -> String {
    let last = line.change_points.last();
    let known = |word: &str, change: Option<&ChangePoint>| {
        format!("{word}{}", change.map_or(String::new(), |change| changed(line, change)))
    };
    match line.state {
        LineState::NewWorse => known("new, worse: ", newest_new(line, within, false)),
        LineState::NewBetter => known("new, better: ", newest_new(line, within, true)),
        LineState::NewChange => known("new: ", last),
        LineState::OldChange => known("", last),
        LineState::NoChange => "none".to_owned(),
        LineState::NotPositive => "not searched: a value is 0 or less".to_owned(),
        LineState::TooFewPoints => "too few points".to_owned(),
    }
}

/// One line: its circumstances, all change points and all points.
pub(crate) fn line(line: &MetricLine, found: &MetricHistory) -> [Element; 3] {
    let mut facts = Table::facts("The line");
    facts.fact("over", line.over.label());
    if !line.circumstances.is_empty() {
        facts.fact("the same at all points", &line.circumstances);
    }
    facts.fact("id", &line.id);
    [section("line", "The line").child(facts.finish()), changes(line, found), points(line)]
}

fn changes(line: &MetricLine, found: &MetricHistory) -> Element {
    let section = section("changes", "Change points");
    if line.change_points.is_empty() {
        return section.child(paragraph(&format!("Newest change point: {}.", state(line, found.within))));
    }
    let mut columns = ["last before", "first after"].map(Column::words).into_iter().collect::<Vec<_>>();
    columns.extend(LEVELS.map(|title| Column::numbers(Markup::text(title))));
    columns.push(Column::words("state"));
    let mut table = Table::new("Change points", columns).under_its_heading();
    for change in &line.change_points {
        let direction = match line.measure.is_better(change) {
            Some(true) => "better",
            Some(false) => "worse",
            None => "unknown direction",
        };
        let age = if change.is_new(line.points.len(), found.within) { "new, " } else { "" };
        let mut cells = vec![Cell::text(label(line, Some(change.first)))];
        cells.extend(level_cells(change, |value| quantity::of_measure(&line.measure, value)));
        cells.push(Cell::text(&format!("{age}{direction}")));
        let before = Markup::text(label(line, change.first.checked_sub(1)));
        table.row_of_class("changed", before, cells);
    }
    section.child(table.finish()).child(paragraph(&found.rule).detail())
}

/// Titles of [`level_cells`].
pub(crate) const LEVELS: [&str; 4] = ["level before", "level after", "change", "p"];

/// The levels around a change point, its size and its p-value.
pub(crate) fn level_cells(change: &ChangePoint, write: impl Fn(f64) -> String) -> [Cell; 4] {
    [
        Cell::number(&write(change.before)),
        Cell::number(&write(change.after)),
        Cell::number(&quantity::change(change.ratio)),
        Cell::number(&quantity::plain(change.p_value)),
    ]
}

/// What a point is, what its value is and what it consists of, as titles of columns.
pub(crate) fn point_titles(over: HistoryOver, measure: &str) -> [&str; 3] {
    match over {
        HistoryOver::Commits => ["commit", measure, "windows"],
        HistoryOver::Builds => ["build", measure, "windows"],
        HistoryOver::Entries => ["entry", "ratio", "pairs"],
        HistoryOver::Imports => ["file", measure, "runs"],
    }
}

fn points(line: &MetricLine) -> Element {
    let [name, value, runs] = point_titles(line.over, &line.measure.label);
    let mut columns = vec![Column::words(name)];
    columns.extend([value, runs].map(|title| Column::numbers(Markup::text(title))));
    columns.extend(["time", "from"].map(Column::words));
    let mut table = Table::new("Points", columns).under_its_heading();
    for point in &line.points {
        let runs = if point.windows == 0 { NONE.to_owned() } else { quantity::count(point.windows as u64) };
        let cells = vec![
            Cell::number(&quantity::of_measure(&line.measure, point.value)),
            Cell::number(&runs),
            Cell::text(&head::date(point.at_unix_ms)),
            Cell::text(&point.source),
        ];
        table.row(el("code").text(&point.label), cells);
    }
    let left_out = (line.left_out > 0)
        .then(|| paragraph(&format!("{} older points are left out.", quantity::count(line.left_out as u64))));
    section("points", "Points").children(left_out).child(table.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Detail;
    use crate::documents;
    use hone_record::{HistoryPoint, Measure, Metric};

    fn line(name: &str, state: LineState, points: usize, first: usize) -> MetricLine {
        let point = |place: usize| HistoryPoint {
            label: format!("commit-{place}"),
            value: if place < first { 100.0 } else { 125.0 },
            ..HistoryPoint::default()
        };
        let change = ChangePoint { first, before: 100.0, after: 125.0, ratio: 1.25, p_value: 0.005 };
        MetricLine {
            id: "0123456789abcdef".to_owned(),
            name: name.to_owned(),
            measure: Measure::of_metric(Metric::LatencyP50, HistoryOver::Commits),
            state,
            points: (0..points).map(point).collect(),
            change_points: (first < points).then_some(change).into_iter().collect(),
            ..MetricLine::default()
        }
    }

    fn shown(lines: &[MetricLine]) -> String {
        let found = MetricHistory { lines: lines.to_vec(), within: 5, ..MetricHistory::default() };
        documents::history(&found).terminal(Detail::Result).replace('\u{a0}', " ")
    }

    #[test]
    fn a_new_regression_is_the_first_sentence() {
        let worse = line("a", LineState::NewWorse, 20, 16);
        let text = shown(&[worse.clone(), line("b", LineState::OldChange, 20, 8)]);
        assert!(text.starts_with("Regression: p50 of a, +25.0 % at commit-16, p 0.005.\n"), "{text}");
        let row = |name: &str| text.lines().find(|row| row.starts_with(&format!("  {name} "))).unwrap();
        assert!(row("a").ends_with("   new, worse: +25.0 % at commit-16"), "{text}");
        assert!(row("b").ends_with("   +25.0 % at commit-8"), "{text}");
        let both = shown(&[worse.clone(), worse]);
        assert!(both.lines().next().unwrap().ends_with("1 more line regressed."), "{both}");
        assert!(both.contains("a (01234567)"), "equal names stay apart: {both}");
    }

    #[test]
    fn too_few_points_are_never_called_no_change() {
        let few = line("a", LineState::TooFewPoints, 5, 5);
        let text = shown(std::slice::from_ref(&few));
        assert!(text.starts_with("Too few points: p50 of a has 5, and the search needs 6.\n"), "{text}");
        assert!(text.contains("Newest change point: too few points."), "{text}");
        let text = shown(&[line("b", LineState::NoChange, 20, 20), few.clone()]);
        let first = "No new change point for the worse in 1 line. 1 more line has too few points.\n";
        assert!(text.starts_with(first), "{text}");
        assert!(shown(&[few.clone(), few]).starts_with("Too few points: the search needs 6 in a line."));
    }

    #[test]
    fn one_line_has_the_points_around_each_change() {
        let text = shown(&[line("a", LineState::NewWorse, 20, 16)]);
        let row = text.lines().find(|row| row.contains("new, worse")).unwrap();
        let cells = ["commit-15", "commit-16", "100 µs", "125 µs", "+25.0 %", "0.005"];
        assert!(cells.iter().all(|cell| row.contains(cell)), "{text}");
        assert!(text.contains("History: p50 of a") && text.contains("commit-0 "), "{text}");
    }
}

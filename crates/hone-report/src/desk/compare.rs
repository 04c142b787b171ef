//! The page that compares two records.

use hone_record::{
    Category, Comparison, Diagnosis, Hdr, Metric, SavedComparison, SavedEstimate, SavedFinding, ShelfRecord,
    SideBySide, Slots,
};

use super::frame::{Around, Tab, document, downloads, link};
use super::list::{optional, select, unmarked};
use crate::plot::spectrum::{self, Line};
use crate::plot::{Stroke, legend, mark, slots, spark, two_forests};
use crate::quantity::{self, NONE};
use crate::section::story::csv_line;
use crate::section::{absent, figure, no_figure, paragraph, section};
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup, el};

/// Windows that a side needs for a finding, as `hone compare` has it.
const FEWEST_WINDOWS: u32 = 5;
/// A longer list of fields is folded.
const MOST_UNFOLDED: usize = 20;

/// Compares windows of two sides that were measured at different times. The page opens with `primary`; `metrics` lists the
/// alternatives. `sides` holds the names of the sides in addresses, and the addresses of their own pages. `latencies` has all
/// requests of each side.
pub fn saved(
    found: &SavedComparison,
    primary: Metric,
    metrics: &[Metric],
    sides: [(&str, &str); 2],
    latencies: &[Hdr; 2],
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
        spectrum_of_both(found, latencies, around),
        listed(
            "differences",
            "Differences between the sides",
            &found.differences,
            "Both sides have the same setup.",
        ),
        listed("left-out", "Excluded windows", &left_out(found), "No window is excluded."),
        listed("limits", "Limits of windows measured at different times", &found.cannot_show, ""),
    ];
    document(&format!("{} and {}", found.a.source, found.b.source), Tab::Records, around, content)
}

fn sentence(found: &SavedComparison, primary: Metric) -> String {
    if found.estimates.is_empty() {
        return "The two sides have no metric in common.".to_owned();
    }
    if let Some(why) = &found.no_finding {
        let why = too_few(found).unwrap_or_else(|| why.clone());
        return format!("No verdict: {why}. Ratios are shown without one.");
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

/// Why there is no verdict, if a side has too few windows.
fn too_few(found: &SavedComparison) -> Option<String> {
    let [a, b] = [found.a.windows, found.b.windows];
    let windows = |count: u32| quantity::counted(u64::from(count), "window", "windows");
    let measured = match a == b {
        true => format!("{} on each side", windows(a)),
        false => format!("{} in A and {} in B", windows(a), windows(b)),
    };
    (a.min(b) < FEWEST_WINDOWS).then(|| format!("{measured}; at least {FEWEST_WINDOWS} are needed"))
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
    columns.extend(["A", "B", "change", "ratio B/A"].map(|name| Column::numbers(Markup::text(name))));
    // With few windows there is neither an interval nor a finding.
    let has_interval = found.estimates.iter().any(|estimate| estimate.interval.is_some());
    let has_finding = found.estimates.iter().any(|estimate| estimate.finding.is_some());
    if has_interval {
        columns.extend(["confidence interval", "around no change"].map(Column::words));
    }
    columns.extend(has_finding.then(|| Column::words("finding")));
    let mut table = Table::new("Metrics of both sides", columns).remark(
        "Geometric means over windows, and the Welch confidence interval of their ratio. hone \
             compare A.json B.json computes the same.",
    );
    let reach = spark::reach(found.estimates.iter().filter_map(interval_of));
    for estimate in &found.estimates {
        let class = if estimate.metric == primary { "primary" } else { "plain" };
        let mut cells = figures(estimate);
        if has_interval {
            cells.extend(interval_cells(estimate, reach));
        }
        cells.extend(has_finding.then(|| Cell::text(estimate.finding.map_or(NONE, SavedFinding::label))));
        table.row_of_class(class, Markup::text(estimate.metric.label()), cells);
    }
    section.child(table.finish())
}

fn interval_of(estimate: &SavedEstimate) -> Option<[f64; 3]> {
    estimate.interval.map(|(low, high, _)| [estimate.ratio, low, high])
}

fn figures(estimate: &SavedEstimate) -> Vec<Cell> {
    let value = |value: f64| Cell::number(&quantity::of_metric(estimate.metric, value));
    vec![
        value(estimate.value_a),
        value(estimate.value_b),
        Cell::number(&quantity::change(estimate.ratio)),
        Cell::number(&quantity::ratio(estimate.ratio)),
    ]
}

fn interval_cells(estimate: &SavedEstimate, reach: f64) -> [Cell; 2] {
    let interval = estimate.interval.map_or_else(
        || NONE.to_owned(),
        |(low, high, confidence)| {
            let level = quantity::chosen_percent(confidence);
            format!("[{}, {}] at {level}", quantity::ratio(low), quantity::ratio(high))
        },
    );
    let bar = interval_of(estimate)
        .and_then(|ratio| spark::interval_bar(ratio, None, reach, estimate.metric.label()));
    [Cell::text(&interval), Cell::words(bar.map_or_else(|| Markup::text(NONE), Markup::from))]
}

/// The latencies of both sides, each over all its windows.
fn spectrum_of_both(found: &SavedComparison, latencies: &[Hdr; 2], around: &Around) -> Element {
    let title = "Latency by percentile";
    let [a, b] = latencies.clone();
    let names = [&found.a.source, &found.b.source];
    let label = |side: usize| format!("{}: {}", ["A", "B"][side], names[side]);
    let lines = [
        Line { stroke: Stroke::A, label: label(0), histogram: a },
        Line { stroke: Stroke::B, label: label(1), histogram: b },
    ];
    let section = section("latency", title);
    let Some(plot) = spectrum::plot("spectrum", title, &lines) else {
        return section.child(no_figure(title, "Neither side has the latency of single requests."));
    };
    let legend = legend(&[(Stroke::A, label(0)), (Stroke::B, label(1))]);
    let caption = "All requests of each side, from the intended time to the acknowledgement. A line is faint where fewer than ten \
                   requests lie beyond it.";
    section
        .child(figure(title, Some(legend), plot, caption, None))
        .children(downloads(around, &[("spectrum", title)]))
}

/// The metrics of both sides, one line for each.
pub fn saved_csv(found: &SavedComparison) -> String {
    let titles = ["metric", "unit", "a", "b", "ratio", "low", "high", "confidence", "finding"];
    let line = |estimate: &SavedEstimate| {
        let interval = estimate.interval.map(|(low, high, level)| [low, high, level]);
        let end = |place: usize| interval.map_or_else(String::new, |interval| interval[place].to_string());
        csv_line(&[
            estimate.metric.name().to_owned(),
            estimate.metric.unit().to_owned(),
            estimate.value_a.to_string(),
            estimate.value_b.to_string(),
            estimate.ratio.to_string(),
            end(0),
            end(1),
            end(2),
            estimate.finding.map_or_else(String::new, |finding| finding.label().to_owned()),
        ])
    };
    csv_line(&titles.map(str::to_owned)) + &found.estimates.iter().map(line).collect::<String>()
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

/// Two records of one kind that have more to compare than their fields.
#[derive(Debug, Clone, PartialEq)]
pub enum Both {
    /// Two comparisons.
    Comparisons(Box<[Comparison; 2]>),
    /// Two diagnoses.
    Diagnoses(Box<[Diagnosis; 2]>),
    /// Any other records.
    Others,
}

/// Compares records that are not windows. It lists their differences, and of two comparisons or two diagnoses the results of each.
pub fn side_by_side(found: &SideBySide, both: &Both, around: &Around) -> String {
    let mut sides = Table::new("The sides", ["side", "record", "kind", "what"].map(Column::words).into());
    for (class, name, side) in [("arm a", "A", &found.a), ("arm b", "B", &found.b)] {
        let record = Cell::words(link(&format!("/record/{}", side.id), &side.path));
        let subject = side.outcome.as_ref().map(|outcome| outcome.subject.as_str());
        let what = subject.filter(|subject| !subject.is_empty()).unwrap_or(&side.title);
        let cells = vec![record, Cell::text(&side.kind), optional(&unmarked(what))];
        sides.row(el("span").class(class).text(name), cells);
    }
    let no_ratio = if found.a.kind == found.b.kind {
        "Hone computes no ratio between these two results."
    } else {
        "Different kinds of record have no common figures."
    };
    let sentence = format!("{} {no_ratio}", own_results(found, both));
    let mut content = vec![el("p").class("sentence").text(&sentence), sides.finish()];
    match both {
        Both::Comparisons(both) => {
            let [a, b] = &**both;
            content.push(forests(a, b, around));
            content.push(judgements(a, b));
        }
        Both::Diagnoses(both) => {
            let [a, b] = &**both;
            content.push(top_down(a, b, around));
        }
        Both::Others => {}
    }
    content.push(differences(found));
    document(&format!("{} and {}", found.a.path, found.b.path), Tab::Records, around, content)
}

/// Each side's own result.
fn own_results(found: &SideBySide, both: &Both) -> String {
    let [a, b] = match both {
        Both::Comparisons(both) => both.each_ref().map(result_of_comparison),
        _ => [&found.a, &found.b].map(result_of_record),
    };
    format!("A: {a}. B: {b}.")
}

fn result_of_comparison(found: &Comparison) -> String {
    let verdict = found.verdict().label();
    match found.primary() {
        Some(judged) => {
            let label = found.label(judged.estimate.metric);
            format!("{label} {}, {verdict}", quantity::change(judged.estimate.ratio))
        }
        None => verdict.to_owned(),
    }
}

/// The result of any record, as the lists have it.
fn result_of_record(found: &ShelfRecord) -> String {
    let verdict = found.verdict.map(|verdict| verdict.label().to_owned());
    let said = Some(found.said.clone());
    let Some(outcome) = &found.outcome else {
        return verdict.or(said).filter(|text| !text.is_empty()).unwrap_or_else(|| "no result".to_owned());
    };
    let label = outcome.metric.map(|metric| metric.label().to_owned());
    let value = || Some(quantity::of_metric(outcome.metric?, outcome.value?));
    let figure = match outcome.ratio {
        Some([ratio, ..]) => Some(quantity::change(ratio)),
        None => value().or_else(|| Some(outcome.figure.clone())),
    };
    let figure = [label, figure].into_iter().flatten().filter(|text| !text.is_empty()).collect::<Vec<_>>();
    let word = Some(outcome.word.clone()).filter(|word| !word.is_empty()).or(verdict);
    let parts = [Some(figure.join(" ")), word];
    let parts = parts.into_iter().flatten().filter(|text| !text.is_empty()).collect::<Vec<_>>();
    parts.join(", ")
}

/// The numbers of two comparisons or two diagnoses, or the fields that differ.
pub fn side_by_side_csv(found: &SideBySide, both: &Both) -> String {
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    match both {
        Both::Comparisons(both) => {
            let titles = [
                "metric",
                "a_ratio",
                "a_low",
                "a_high",
                "a_verdict",
                "b_ratio",
                "b_low",
                "b_high",
                "b_verdict",
            ];
            let line = |metric: Metric| {
                let cells = both.iter().flat_map(|side| {
                    let judged = side.judgements.iter().find(|judged| judged.estimate.metric == metric);
                    let figure = |of: fn(&hone_record::Estimate) -> f64| {
                        number(judged.map(|judged| of(&judged.estimate)))
                    };
                    let verdict = judged.map_or("", |judged| judged.verdict.label());
                    [figure(|e| e.ratio), figure(|e| e.low), figure(|e| e.high), verdict.to_owned()]
                });
                let cells: Vec<String> = std::iter::once(metric.name().to_owned()).chain(cells).collect();
                cells.iter().skip(1).any(|cell| !cell.is_empty()).then(|| csv_line(&cells))
            };
            csv_line(&titles.map(str::to_owned))
                + &Metric::ALL.into_iter().filter_map(line).collect::<String>()
        }
        Both::Diagnoses(both) => {
            let [a, b] = &**both;
            let shares = [a, b].map(last_slots);
            let line = |category: Category| {
                let share = |side: usize| number(shares[side].and_then(|slots| slots.share(category)));
                csv_line(&[category.label().to_owned(), share(0), share(1)])
            };
            let titles = ["category", "a_percent", "b_percent"].map(str::to_owned);
            csv_line(&titles) + &Category::LEVEL_1.map(line).concat()
        }
        Both::Others => {
            let titles = ["field", "a", "b"].map(str::to_owned);
            let line = |field: &hone_record::FieldDifference| {
                let value = |value: &Option<String>| value.clone().unwrap_or_default();
                csv_line(&[field.field.clone(), value(&field.a), value(&field.b)])
            };
            csv_line(&titles) + &found.differences.iter().map(line).collect::<String>()
        }
    }
}

fn forests(a: &Comparison, b: &Comparison, around: &Around) -> Element {
    let title = "The intervals of both records";
    let section = section("forest", title);
    let Some(plot) = two_forests::plot("forest", title, [a, b]) else {
        return section.child(no_figure(title, "Neither record has an estimate."));
    };
    let legend = legend(&[(Stroke::A, "record A".to_owned()), (Stroke::B, "record B".to_owned())]);
    let caption = "Each interval compares the two arms of its own record. Overlapping intervals do not show that the records agree.";
    section
        .child(figure(title, Some(legend), plot, caption, None))
        .children(downloads(around, &[("forest", title)]))
}

/// The slots of the last part that has some: with two measurements in one record, this is the later one.
fn last_slots(diagnosis: &Diagnosis) -> Option<&Slots> {
    diagnosis.parts.iter().rev().find_map(|part| part.slots.as_ref())
}

fn top_down(a: &Diagnosis, b: &Diagnosis, around: &Around) -> Element {
    let title = "Where the pipeline's slots went";
    let section = section("slots", title);
    if a.evidence != b.evidence {
        let why = format!(
            "The records have different evidence, so their figures can't be compared. A: {}. B: {}.",
            a.evidence.label(),
            b.evidence.label()
        );
        return section.child(no_figure(title, &why));
    }
    let plot =
        last_slots(a).zip(last_slots(b)).and_then(|(a, b)| slots::plot("slots", title, ["A", "B"], [a, b]));
    let Some(plot) = plot else {
        return section.child(no_figure(title, "At least one record has no pipeline slots."));
    };
    let caption = "Shares of the slots. A larger share of retiring is useful work. To see whether the program became faster, compare its \
                   CPU per record.";
    section.child(figure(title, None, plot, caption, None)).children(downloads(around, &[("slots", title)]))
}

fn judgements(a: &Comparison, b: &Comparison) -> Element {
    let mut columns = vec![Column::words("metric")];
    for name in ["A", "B"] {
        columns.push(Column::numbers(Markup::text(&format!("{name}: ratio and interval"))));
        columns.push(Column::words(if name == "A" { "verdict in A" } else { "verdict in B" }));
    }
    let mut table = Table::new("Results of each record", columns).under_its_heading();
    let remark = "Each ratio compares the two arms of that record. The confidence interval and the verdict \
                  come from the record.";
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
    section("found", "Results of each record").child(paragraph(remark)).child(table.finish())
}

fn differences(found: &SideBySide) -> Element {
    let section = section("differences", "Fields that differ");
    if found.differences.is_empty() {
        return section.child(paragraph("All fields that both records have are the same."));
    }
    let mut table = Table::new("Fields that differ", ["field", "A", "B"].map(Column::words).into());
    table = table.under_its_heading();
    for field in &found.differences {
        let cell = |value: &Option<String>| Cell::text(value.as_deref().unwrap_or(NONE));
        table.row(Markup::text(&field.field), vec![cell(&field.a), cell(&field.b)]);
    }
    let listed = found.differences.len();
    let more = (found.not_listed > 0).then(|| {
        let more = quantity::counted(found.not_listed as u64, "more field is", "more fields are");
        paragraph(&format!("{more} not listed."))
    });
    if listed <= MOST_UNFOLDED {
        return section.child(table.finish()).children(more);
    }
    let [listed, all] = [listed, listed + found.not_listed].map(|fields| quantity::count(fields as u64));
    let summary = if listed == all { format!("{all} fields") } else { format!("{listed} of {all} fields") };
    let summary = el("summary").text(&summary);
    section.child(el("details").child(summary).child(table.finish()).children(more))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use hone_record::{SavedSide, Verdict};

    fn around() -> Around {
        Around { here: "/compare?a=1&b=2".to_owned(), has_csv: true, ..Around::default() }
    }

    fn side(source: &str, windows: u32) -> SavedSide {
        SavedSide { source: source.to_owned(), windows, left_out: Vec::new(), from_unix_ms: 1, to_unix_ms: 2 }
    }

    #[test]
    fn two_loads_have_changes_in_percent_and_both_spectra() {
        let estimate = SavedEstimate {
            metric: Metric::LatencyP99,
            value_a: 1_000.0,
            value_b: 1_250.0,
            ratio: 1.25,
            interval: Some((1.2, 1.3, 0.95)),
            finding: Some(SavedFinding::Differs),
        };
        let found = SavedComparison {
            a: side("x.json", 5),
            b: side("y.json", 5),
            differences: Vec::new(),
            no_finding: None,
            estimates: vec![estimate],
            cannot_show: Vec::new(),
        };
        let windows = [sample::window("A", 1, 1.0), sample::window("B", 2, 1.25)];
        let latencies = windows.map(|window| window.latencies.intended_to_ack);
        let sides = [("1", "/record/1"), ("2", "/record/2")];
        let html = saved(&found, Metric::LatencyP99, &[Metric::LatencyP99], sides, &latencies, &around());
        assert!(html.contains("+25.0\u{a0}%") && html.contains("spark-bar open"), "{html}");
        assert!(
            html.contains("spectrum-wide-title") && html.contains("/compare?a=1&amp;b=2&amp;svg=spectrum"),
            "{html}"
        );
        assert!(html.contains("/compare?a=1&amp;b=2&amp;csv=1"));
        assert!(super::super::picture(&html, "spectrum").is_some());
        assert!(saved_csv(&found).ends_with("latency-p99,µs,1000,1250,1.25,1.2,1.3,0.95,differs\r\n"));
    }

    #[test]
    fn single_windows_have_ratios_and_no_empty_columns() {
        let estimate = SavedEstimate {
            metric: Metric::LatencyP99,
            value_a: 1_000.0,
            value_b: 1_250.0,
            ratio: 1.25,
            interval: None,
            finding: None,
        };
        let mut found = SavedComparison {
            a: side("x.json", 1),
            b: side("y.json", 1),
            differences: Vec::new(),
            no_finding: Some("1 window(s) on a side".to_owned()),
            estimates: vec![estimate],
            cannot_show: Vec::new(),
        };
        let html = |found: &SavedComparison| {
            let sides = [("1", "/record/1"), ("2", "/record/2")];
            let metrics = [Metric::LatencyP99];
            saved(found, Metric::LatencyP99, &metrics, sides, &[Hdr::new(), Hdr::new()], &around())
        };
        let page = html(&found).replace('\u{a0}', " ");
        assert!(page.contains("No verdict: 1 window on each side; at least 5 are needed."), "{page}");
        assert!(page.contains("<h1>x.json and y.json</h1>") && page.contains("the same setup"), "{page}");
        assert!(!page.contains("around no change") && !page.contains("finding</th>"), "{page}");
        found.b.windows = 3;
        assert!(html(&found).replace('\u{a0}', " ").contains("1 window in A and 3 windows in B"));
    }

    #[test]
    fn records_of_different_kinds_have_their_own_results_and_a_folded_list() {
        let outcome = hone_record::ShelfOutcome {
            word: "capacity found".to_owned(),
            metric: Some(Metric::Capacity),
            value: Some(2_828.0),
            ..hone_record::ShelfOutcome::default()
        };
        let a = ShelfRecord {
            kind: "comparison".to_owned(),
            verdict: Some(Verdict::Better),
            ..ShelfRecord::default()
        };
        let b = ShelfRecord { kind: "capacity".to_owned(), outcome: Some(outcome), ..ShelfRecord::default() };
        let field = hone_record::FieldDifference { field: "x".to_owned(), a: None, b: None };
        let found = SideBySide { a, b, differences: vec![field; 21], not_listed: 949 };
        let html = side_by_side(&found, &Both::Others, &around()).replace('\u{a0}', " ");
        let said = "A: better. B: capacity 2,830 requests/s, capacity found. Different kinds of record have";
        assert!(html.contains(said), "{html}");
        assert!(
            html.contains("<details><summary>21 of 970 fields") && html.contains("949 more fields are not")
        );
    }

    #[test]
    fn two_comparisons_share_one_axis_and_two_diagnoses_one_picture() {
        let a = sample::bare_comparison(Metric::CpuPerRecord, Verdict::Better, 0.9, 0.85, 0.95, 1.1);
        let both = Both::Comparisons(Box::new([a.clone(), a]));
        let found = SideBySide::default();
        let html = side_by_side(&found, &both, &around());
        assert!(html.contains("forest-wide-title") && html.contains("Results of each record"), "{html}");
        let said = "A: CPU per record −10.0\u{a0}%, better. B: CPU per record −10.0\u{a0}%, better.";
        assert!(html.contains(said), "{html}");
        assert!(side_by_side_csv(&found, &both).contains("cpu-per-record,0.9,0.85,0.95,better,0.9,"));
        let diagnosis = sample::diagnosis();
        let both = Both::Diagnoses(Box::new([diagnosis.clone(), diagnosis]));
        let html = side_by_side(&found, &both, &around());
        assert!(html.contains("Where the pipeline&#39;s slots went"), "{html}");
        assert!(side_by_side_csv(&found, &both).starts_with("category,a_percent,b_percent"));
    }
}

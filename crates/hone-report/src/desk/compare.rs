//! The page that compares two records.

use hone_record::{
    Category, Comparison, Diagnosis, Hdr, Metric, SavedComparison, SavedEstimate, SavedFinding, SideBySide,
    Slots,
};

use super::frame::{Around, Tab, document, downloads, link};
use super::list::select;
use crate::plot::spectrum::{self, Line};
use crate::plot::{Stroke, legend, mark, slots, spark, two_forests};
use crate::quantity::{self, NONE};
use crate::section::story::csv_line;
use crate::section::{absent, figure, no_figure, paragraph, section};
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup, el};

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
    columns.extend(["A", "B", "change", "ratio B/A"].map(|name| Column::numbers(Markup::text(name))));
    columns.extend(["confidence interval", "around no change", "finding"].map(Column::words));
    let mut table = Table::new("Metrics of both sides", columns).remark(
        "Geometric means over windows, and the Welch confidence interval of their ratio. hone \
             compare A.json B.json computes the same.",
    );
    let reach = spark::reach(found.estimates.iter().filter_map(interval_of));
    for estimate in &found.estimates {
        let class = if estimate.metric == primary { "primary" } else { "plain" };
        table.row_of_class(class, Markup::text(estimate.metric.label()), estimate_cells(estimate, reach));
    }
    section.child(table.finish())
}

fn interval_of(estimate: &SavedEstimate) -> Option<[f64; 3]> {
    estimate.interval.map(|(low, high, _)| [estimate.ratio, low, high])
}

fn estimate_cells(estimate: &SavedEstimate, reach: f64) -> Vec<Cell> {
    let value = |value: f64| Cell::number(&quantity::of_metric(estimate.metric, value));
    let interval = estimate.interval.map_or_else(
        || NONE.to_owned(),
        |(low, high, confidence)| {
            let level = quantity::chosen_percent(confidence);
            format!("[{}, {}] at {level}", quantity::ratio(low), quantity::ratio(high))
        },
    );
    let bar = interval_of(estimate)
        .and_then(|ratio| spark::interval_bar(ratio, None, reach, estimate.metric.label()));
    vec![
        value(estimate.value_a),
        value(estimate.value_b),
        Cell::number(&quantity::change(estimate.ratio)),
        Cell::number(&quantity::ratio(estimate.ratio)),
        Cell::text(&interval),
        Cell::words(bar.map_or_else(|| Markup::text(NONE), Markup::from)),
        Cell::text(estimate.finding.map_or(NONE, SavedFinding::label)),
    ]
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
        let cells = vec![record, Cell::text(&side.kind), Cell::text(what)];
        sides.row(el("span").class(class).text(name), cells);
    }
    let sentence = "The page shows both results next to each other. It computes no ratio between them.";
    let mut content = vec![el("p").class("sentence").text(sentence), sides.finish()];
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
    document("A and B", Tab::Records, around, content)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use hone_record::{SavedSide, Verdict};

    fn around() -> Around {
        Around { here: "/compare?a=1&b=2".to_owned(), has_csv: true, ..Around::default() }
    }

    #[test]
    fn two_loads_have_changes_in_percent_and_both_spectra() {
        let side = |source: &str| SavedSide {
            source: source.to_owned(),
            windows: 5,
            left_out: Vec::new(),
            from_unix_ms: 1,
            to_unix_ms: 2,
        };
        let estimate = SavedEstimate {
            metric: Metric::LatencyP99,
            value_a: 1_000.0,
            value_b: 1_250.0,
            ratio: 1.25,
            interval: Some((1.2, 1.3, 0.95)),
            finding: Some(SavedFinding::Differs),
        };
        let found = SavedComparison {
            a: side("x.json"),
            b: side("y.json"),
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
    fn two_comparisons_share_one_axis_and_two_diagnoses_one_picture() {
        let a = sample::bare_comparison(Metric::CpuPerRecord, Verdict::Better, 0.9, 0.85, 0.95, 1.1);
        let both = Both::Comparisons(Box::new([a.clone(), a]));
        let found = SideBySide::default();
        let html = side_by_side(&found, &both, &around());
        assert!(html.contains("forest-wide-title") && html.contains("Results of each record"), "{html}");
        assert!(side_by_side_csv(&found, &both).contains("cpu-per-record,0.9,0.85,0.95,better,0.9,"));
        let diagnosis = sample::diagnosis();
        let both = Both::Diagnoses(Box::new([diagnosis.clone(), diagnosis]));
        let html = side_by_side(&found, &both, &around());
        assert!(html.contains("Where the pipeline&#39;s slots went"), "{html}");
        assert!(side_by_side_csv(&found, &both).starts_with("category,a_percent,b_percent"));
    }
}

//! Windows at many rates or batch sizes: the rate at which the SLO breaks, and the cost of a record.

use hone_record::{Capacity, CapacityEnd, Curve, CurveOver, CurvePoint, Metric, Outcome};

use super::{figure, no_figure, paragraph, section};
use crate::outcome;
use crate::plot::xy::{self, Chart, Line};
use crate::plot::{Stroke, legend_of_shapes, stroke_sample};
use crate::quantity::{self, NONE};
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup};

/// The result of a search, in a sentence.
pub(crate) fn knee_sentence(found: &Capacity) -> String {
    let promise = found.design.promise.join(", ");
    match (found.held_requests_per_s, found.failed_requests_per_s) {
        (Some(held), Some(failed)) => {
            format!(
                "{promise} holds up to {} requests/s and breaks by {}.",
                hone_format::rate(held),
                hone_format::rate(failed)
            )
        }
        (Some(held), None) => format!("{promise} holds at {} requests/s.", hone_format::rate(held)),
        (None, Some(failed)) => {
            format!(
                "{promise} breaks at {} requests/s; no lower rate was confirmed.",
                hone_format::rate(failed)
            )
        }
        (None, None) => format!("No rate was confirmed for {promise}."),
    }
}

/// The effect of batches, from the first and the last size of a sweep.
pub(crate) fn batch_sentence(found: &Curve) -> Option<String> {
    let cpu = line(&found.points, CurveOver::RecordsPerBatch, Metric::CpuPerRecord, Stroke::B);
    let medians: Vec<(f64, f64)> = xy::medians(&cpu.windows).collect();
    let ((least, at_least), (most, at_most)) = (*medians.first()?, *medians.last()?);
    (found.over == CurveOver::RecordsPerBatch && most > least && at_most > 0.0).then(|| {
        format!(
            "A record costs {} of the target’s CPU in batches of {}, and {} in batches of {}: a factor of {}.",
            quantity::time_us(at_least),
            quantity::plain(least),
            quantity::time_us(at_most),
            quantity::plain(most),
            quantity::significant(at_least / at_most)
        )
    })
}

/// How much of the axis a sweep covers.
pub(crate) fn span_sentence(found: &Curve) -> String {
    let at = |point: &CurvePoint| match found.over {
        CurveOver::Rate => point.requests_per_s,
        CurveOver::RecordsPerBatch => f64::from(point.records_per_batch),
    };
    let unit = match found.over {
        CurveOver::Rate => "requests/s",
        CurveOver::RecordsPerBatch => "records per batch",
    };
    let windows = quantity::counted(found.points.len() as u64, "window", "windows");
    let places = found.points.iter().map(at);
    match crate::plot::extent(places) {
        Some((low, high)) => {
            format!("{windows} from {} to {} {unit}.", hone_format::rate(low), hone_format::rate(high))
        }
        None => "No window was measured.".to_owned(),
    }
}

/// The result of a sweep over rates. `None` if no rate was steady.
pub(crate) fn steady_sentence(found: &Curve) -> Option<String> {
    let rate = outcome::highest_steady_rate(found)?;
    Some(format!("Steady up to {} requests/s.", hone_format::rate(rate)))
}

/// How the search ended, if that limits the result, and what to do about it.
fn end_sentence(found: &Capacity) -> Option<String> {
    let design = &found.design;
    let sentence = match &found.end {
        CapacityEnd::Found => return None,
        CapacityEnd::NotReached => format!(
            "It did not break: the highest rate of the search is {} (--max-rate).",
            hone_format::rate(design.most_requests_per_s)
        ),
        CapacityEnd::NothingHeld => format!(
            "No rate down to {} held. Below that, a window of {} s has too few samples.",
            hone_format::rate(design.least_requests_per_s),
            found.workload.duration_s
        ),
        CapacityEnd::GeneratorLate if found.failed_requests_per_s.is_some() => {
            "Between these rates the generator fell behind, so Hone can't narrow the knee further. Give the generator its own core."
                .to_owned()
        }
        CapacityEnd::GeneratorLate => {
            "Above that, the generator is the limit, not the target: it fell behind its schedule. Give it a \
             core of its own. Or use several generators with rates that you choose (hone load --shard); a \
             search has one."
                .to_owned()
        }
        CapacityEnd::OutOfWindows => format!(
            "The search used up its {} windows before both ends were confirmed. Raise --max-windows, or use \
             longer windows, which vary less.",
            design.most_windows
        ),
        CapacityEnd::BrokenOff { why } => format!("The search was interrupted: {why}."),
    };
    Some(sentence)
}

/// The section of a search.
pub(crate) fn of_capacity(found: &Capacity) -> Element {
    section("capacity", "Where the SLO breaks").children(inside_of_capacity("rates", found))
}

/// The content of the section; `id` begins the ids of its drawings.
pub(crate) fn inside_of_capacity(id: &str, found: &Capacity) -> Vec<Element> {
    let band = found.held_requests_per_s.zip(found.failed_requests_per_s);
    let design = &found.design;
    let windows = quantity::counted(design.confirmations.into(), "window", "windows");
    let method = match found.end {
        CapacityEnd::BrokenOff { .. } | CapacityEnd::OutOfWindows => {
            format!("An end of the interval needs at least {windows} that all agree.")
        }
        _ => format!(
            "Each end of the interval has at least {windows}, and all of them agree. Rates in between gave \
             both answers, or lie within {} of an end.",
            quantity::chosen_percent(design.precision - 1.0)
        ),
    };
    let method = format!("{method} A saturated window breaks the SLO.");
    let limits: Vec<(f64, String)> = design.promise.iter().filter_map(|rule| latency_limit(rule)).collect();
    let end = end_sentence(found).map(|sentence| paragraph(&sentence));
    let figures = [
        latency_figure(id, &found.points, CurveOver::Rate, band, &limits),
        cpu_figure(id, &found.points, CurveOver::Rate),
        points_table(&found.points, CurveOver::Rate),
        paragraph(&method),
    ];
    end.into_iter().chain(figures).collect()
}

/// The limit of a latency rule such as `p99 <= 10.0 ms`, in microseconds, with the rule. `None` for another rule.
fn latency_limit(rule: &str) -> Option<(f64, String)> {
    let (metric, limit) = rule.split_once('<')?;
    metric.starts_with('p').then_some(())?;
    let seconds = hone_format::read_duration_s(limit.trim_start_matches('=').trim()).ok()?;
    (seconds > 0.0).then(|| (seconds * 1e6, rule.to_owned()))
}

/// The section of a sweep.
pub(crate) fn of_curve(found: &Curve) -> Element {
    section("curve", "The curve").children(inside_of_curve("rates", found))
}

/// The content of the section; `id` begins the ids of its drawings.
pub(crate) fn inside_of_curve(id: &str, found: &Curve) -> Vec<Element> {
    let latency = latency_figure(id, &found.points, found.over, None, &[]);
    let cpu = cpu_figure(id, &found.points, found.over);
    let table = points_table(&found.points, found.over);
    match found.over {
        CurveOver::Rate => vec![latency, cpu, table],
        CurveOver::RecordsPerBatch => vec![cpu, latency, table],
    }
}

fn axis_name(over: CurveOver) -> &'static str {
    match over {
        CurveOver::Rate => "offered requests/s (log)",
        CurveOver::RecordsPerBatch => "records in a batch (log)",
    }
}

fn line(points: &[CurvePoint], over: CurveOver, metric: Metric, stroke: Stroke) -> Line {
    let window = |point: &CurvePoint| Some((point.position(over), *point.values.get(&metric)?));
    Line { stroke, label: metric.label().to_owned(), windows: points.iter().filter_map(window).collect() }
}

fn latency_figure(
    id: &str,
    points: &[CurvePoint],
    over: CurveOver,
    band: Option<(f64, f64)>,
    limits: &[(f64, String)],
) -> Element {
    let title = match over {
        CurveOver::Rate => "Latency over rate",
        CurveOver::RecordsPerBatch => "Latency over batch size, at the same records/s",
    };
    let lines = [
        line(points, over, Metric::LatencyP99, Stroke::B),
        line(points, over, Metric::LatencyP50, Stroke::A),
        line(points, over, Metric::LatencyP999, Stroke::C),
    ];
    let places: Vec<f64> = points.iter().map(|point| point.position(over)).collect();
    let chart = Chart {
        x_name: axis_name(over),
        y_name: "latency from the scheduled time (log)",
        y_mark: |us| quantity::TimeUnit::fitting(us).tick(us),
        lines: &lines,
        places: &places,
        band,
        limits,
    };
    let description = "Percentiles of latency, both axes logarithmic, a dot for each window.";
    let Some(plot) = xy::plot(&format!("{id}-latency"), title, description, &chart) else {
        return no_figure(title, "No window was steady, so there is no latency to draw.");
    };
    let caption = "Each dot is a window. The line connects the medians. Saturated windows have no \
                   percentiles and no dot.";
    figure(title, Some(key(&lines, band.is_some())), plot, caption, None)
}

fn cpu_figure(id: &str, points: &[CurvePoint], over: CurveOver) -> Element {
    let title = match over {
        CurveOver::Rate => "CPU of the target per record, over rate",
        CurveOver::RecordsPerBatch => "CPU of the target per record, over batch size",
    };
    let lines = [
        line(points, over, Metric::CpuPerRecord, Stroke::B),
        line(points, over, Metric::UserCpuPerRecord, Stroke::A),
    ];
    let places: Vec<f64> = points.iter().map(|point| point.position(over)).collect();
    let chart = Chart {
        x_name: axis_name(over),
        y_name: "CPU per acknowledged record (log)",
        y_mark: |us| quantity::TimeUnit::fitting(us).tick(us),
        lines: &lines,
        places: &places,
        band: None,
        limits: &[],
    };
    let description = "CPU per record, both axes logarithmic, a dot for each window.";
    match xy::plot(&format!("{id}-cpu"), title, description, &chart) {
        Some(plot) => figure(
            title,
            Some(key(&lines, false)),
            plot,
            "Each dot is a window. The line connects the medians.",
            None,
        ),
        None => {
            no_figure(title, "The target's CPU is unknown: its process is not on this machine or not named.")
        }
    }
}

fn key(lines: &[Line], has_band: bool) -> Element {
    let drawn = lines.iter().filter(|line| !line.windows.is_empty());
    let lines = drawn.map(|line| (stroke_sample(line.stroke), line.label.clone()));
    let band = has_band.then(|| (xy::band_sample(), "interval in which the SLO breaks".to_owned()));
    legend_of_shapes(lines.chain(band))
}

fn points_table(points: &[CurvePoint], over: CurveOver) -> Element {
    let first = match over {
        CurveOver::Rate => "requests/s",
        CurveOver::RecordsPerBatch => "records per batch",
    };
    let number = |title: &str| Column::numbers(Markup::text(title));
    let metrics = [Metric::LatencyP50, Metric::LatencyP99, Metric::LatencyP999, Metric::CpuPerRecord];
    let mut columns = vec![Column::words(first), number("windows"), number("reached requests/s")];
    columns.extend(metrics.iter().map(|metric| number(metric.label())));
    columns.push(Column::words("result"));
    let name = match over {
        CurveOver::Rate => "Every rate",
        CurveOver::RecordsPerBatch => "Every batch size",
    };
    let mut table = Table::new(name, columns).remark("Medians, if there are several windows.");
    for group in grouped(points, over) {
        let of = |value: &dyn Fn(&CurvePoint) -> Option<f64>| {
            hone_record::median(group.iter().filter_map(|point| value(point)))
        };
        let reached = of(&|point| Some(point.reached_requests_per_s));
        let mut cells = vec![
            Cell::number(&quantity::count(group.len() as u64)),
            Cell::number(&reached.map_or(NONE.to_owned(), quantity::significant)),
        ];
        let value = |metric: Metric| of(&|point| point.values.get(&metric).copied());
        let is_steady = group.iter().any(|point| point.outcome == Outcome::Steady);
        let text = |metric: Metric| match value(metric) {
            Some(us) => quantity::time_us(us),
            None if is_steady && metric.samples_needed().is_some() => "too few samples".to_owned(),
            None => NONE.to_owned(),
        };
        cells.extend(metrics.map(|metric| Cell::number(&text(metric))));
        cells.push(Cell::text(&said_by(&group)));
        let position = group.first().map_or(0.0, |point| point.position(over));
        table.row(Markup::text(&rate_words_of(position, over)), cells);
    }
    table.finish()
}

/// Groups the windows of each place on the axis, in the order of the axis.
fn grouped(points: &[CurvePoint], over: CurveOver) -> Vec<Vec<&CurvePoint>> {
    let mut sorted: Vec<&CurvePoint> = points.iter().collect();
    sorted.sort_by(|left, right| left.position(over).total_cmp(&right.position(over)));
    let is_one = |left: &&CurvePoint, right: &&CurvePoint| {
        rate_words_of(left.position(over), over) == rate_words_of(right.position(over), over)
    };
    sorted.chunk_by(is_one).map(<[&CurvePoint]>::to_vec).collect()
}

/// The results of the windows at a rate, each once. If they differ, each has its count.
fn said_by(group: &[&CurvePoint]) -> String {
    let mut told: Vec<(String, usize)> = Vec::new();
    for point in group {
        let said = said(point);
        match told.iter_mut().find(|(other, _)| *other == said) {
            Some((_, count)) => *count += 1,
            None => told.push((said, 1)),
        }
    }
    let result = match told.as_slice() {
        [(said, _)] => said.clone(),
        several => {
            several.iter().map(|(said, count)| format!("{said} ({count})")).collect::<Vec<_>>().join(", ")
        }
    };
    let backlog = |point: &&CurvePoint| match point.outcome {
        Outcome::Saturated { backlog_requests } => Some(backlog_requests),
        _ => None,
    };
    match group.iter().filter_map(backlog).max() {
        Some(most) => format!("{result}; up to {} requests behind at the end", quantity::count(most)),
        None => result,
    }
}

fn rate_words_of(position: f64, over: CurveOver) -> String {
    match over {
        CurveOver::Rate => hone_format::rate(position),
        CurveOver::RecordsPerBatch => quantity::plain(position),
    }
}

fn said(point: &CurvePoint) -> String {
    match (point.held, &point.why, &point.outcome) {
        // The reason of the record has a number, so that no two would be equal.
        (Some(false), _, Outcome::Saturated { .. }) => "broke: saturated".to_owned(),
        (Some(true), ..) => "held".to_owned(),
        (Some(false), Some(why), _) => format!("broke: {why}"),
        (Some(false), None, _) => "broke".to_owned(),
        (None, Some(why), _) => why.clone(),
        (None, None, Outcome::Steady) => "steady".to_owned(),
        (None, None, Outcome::Saturated { .. }) => "saturated".to_owned(),
        (None, None, Outcome::Warming { .. }) => "still warming up".to_owned(),
        (None, None, Outcome::GeneratorLate { .. }) => "the generator fell behind".to_owned(),
        (None, None, Outcome::Failed { reason }) => format!("failed: {reason}"),
    }
}

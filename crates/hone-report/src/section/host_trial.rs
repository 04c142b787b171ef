//! Settings of a host that were tried: a row for each, what its tail rests on, and what was not tried.

use hone_record::{BatchState, HostTrial, Metric, StallCounts, TriedKnob, Verdict};

use super::{paragraph, section};
use crate::quantity;
use crate::table::{Cell, Column, Table, lines};
use crate::tree::{Element, Markup, el};

/// The metrics of a row, and the quantile of those that have one.
const METRICS: [(Metric, Option<f64>); 4] = [
    (Metric::LatencyP50, Some(0.5)),
    (Metric::LatencyP99, Some(0.99)),
    (Metric::LatencyP999, Some(0.999)),
    (Metric::CpuPerRecord, None),
];

/// What helped and what did not.
pub(crate) fn sentence(found: &HostTrial) -> String {
    let list = |verdict: Verdict| {
        let named: Vec<String> = found
            .tried
            .iter()
            .filter(|knob| knob.verdict == verdict)
            .map(|knob| title(found, knob))
            .collect();
        (!named.is_empty()).then(|| format!("{}: {}.", verdict.label(), named.join(", ")))
    };
    let told: Vec<String> = [Verdict::Better, Verdict::Worse, Verdict::Equivalent, Verdict::NotShown]
        .into_iter()
        .filter_map(list)
        .collect();
    if told.is_empty() { "Nothing was tried.".to_owned() } else { told.join(" ") }
}

/// Every row carries its durability class where there are several.
pub(crate) fn title(found: &HostTrial, knob: &TriedKnob) -> String {
    if !found.factorial {
        return knob.title.clone();
    }
    let acks = hone_format::acks(knob.durability.acks);
    format!("{}, acks={acks}", knob.title)
}

/// The table of all that was tried.
pub(crate) fn rows(found: &HostTrial) -> Element {
    let mut columns = vec![Column::words("setting"), Column::words("verdict")];
    columns.extend(METRICS.map(|(metric, _)| Column::numbers(Markup::text(metric.label()))));
    columns.push(Column::words("stalls"));
    let mut table = Table::new("Settings that were tried", columns)
        .remark(" each with the host as it is in the same rounds, above it");
    for knob in found.tried.iter().chain(&found.together) {
        let name = title(found, knob);
        let plain = METRICS.map(|(_, quantile)| Cell::number(&figure(&knob.before, quantile)));
        let cells =
            std::iter::once(Cell::text("")).chain(plain).chain([Cell::text(&stalls(&knob.stalls_before))]);
        table.row(Markup::text(&format!("as it is, beside {name}")), cells.collect());
        let own = METRICS.map(|(metric, quantile)| Cell::numbers(compared(knob, metric, quantile)));
        let cells = std::iter::once(Cell::text(knob.verdict.label())).chain(own);
        let told = format!("{}; {}", stalls(&knob.stalls_after), knob.stalls.verdict.label());
        table.row(Markup::text(&name), cells.chain([Cell::text(&told)]).collect());
    }
    section("tried", "Setting by setting").child(table.finish()).child(paragraph(
        "Figures are of all windows that count; the ratio below each, with its interval, is of pairs of windows of the same round. Latency runs \
         from the time a request was due to its acknowledgement.",
    ))
}

fn figure(state: &BatchState, quantile: Option<f64>) -> String {
    match quantile {
        Some(quantile) => {
            state.latency_us(quantile).map_or_else(|| "too few samples".to_owned(), quantity::time_us)
        }
        None => state.cpu_us_per_record().map_or_else(|| "not known".to_owned(), quantity::time_us),
    }
}

fn compared(knob: &TriedKnob, metric: Metric, quantile: Option<f64>) -> Markup {
    let own = figure(&knob.after, quantile);
    let found = knob.comparison.judgements.iter().find(|judgement| judgement.estimate.metric == metric);
    let Some(found) = found else { return Markup::text(&own) };
    let estimate = &found.estimate;
    let ratio = [estimate.ratio, estimate.low, estimate.high].map(quantity::ratio);
    lines([own, format!("{} [{}, {}]", ratio[0], ratio[1], ratio[2]), found.verdict.label().to_owned()])
}

fn stalls(counts: &StallCounts) -> String {
    match (counts.windows, counts.stalls) {
        (0, _) => "not known".to_owned(),
        (windows, 0) => format!("none in {windows} windows"),
        (windows, stalls) => format!(
            "{} in {} of {windows} windows, {} together, the longest {}",
            quantity::count(stalls),
            counts.windows_with,
            quantity::duration(counts.total_s),
            quantity::duration(counts.longest_s)
        ),
    }
}

/// Why each verdict is what it is, and what was left out.
pub(crate) fn reasons(found: &HostTrial) -> Element {
    let entry = |knob: &TriedKnob| {
        let details = [format!("stalls: {}", knob.stalls.why), format!("wanted for: {}", knob.reason)];
        let promise =
            knob.promise.as_ref().map(|promise| format!("beside its speed it {promise}: that is no gain"));
        el("li")
            .child(el("strong").text(&format!("{}: {}. ", title(found, knob), knob.verdict.label())))
            .child(Markup::text(&knob.why))
            .child(el("ul").children(details.iter().chain(&promise).map(|detail| el("li").text(detail))))
    };
    let tried = el("ol").children(found.tried.iter().chain(&found.together).map(entry));
    let untried = found.untried.iter().map(|knob| el("li").text(&format!("{}: {}", knob.title, knob.why)));
    let left = if found.untried.is_empty() {
        paragraph("Every setting of the profile was tried.")
    } else {
        el("div").child(el("h3").text("Not tried")).child(el("ul").children(untried))
    };
    section("reasons", "Why")
        .child(tried)
        .child(left)
        .child(paragraph(&found.rule))
        .children(found.limits.iter().map(|limit| paragraph(limit)))
}

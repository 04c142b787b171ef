//! A trial of host settings: a row for each setting, the basis of its tail, and the settings that were not tried.

use std::collections::BTreeSet;

use hone_record::{
    BatchState, HostTrial, Judgement, Metric, STALL_FROM_MS, StallCounts, TriedKnob, UntriedKnob, Verdict,
};

use super::{paragraph, proof, ratio_cell, section};
use crate::quantity::{self, NONE};
use crate::table::{Cell, Column, Table, lines};
use crate::tree::{Element, Markup, el};

/// The metrics of a row, and the quantile of those that have one.
const METRICS: [(Metric, Option<f64>); 4] = [
    (Metric::LatencyP50, Some(0.5)),
    (Metric::LatencyP99, Some(0.99)),
    (Metric::LatencyP999, Some(0.999)),
    (Metric::CpuPerRecord, None),
];

/// From this share of the slowest requests on, the page says that a tail depends on stalls.
const RESTS_FROM: f64 = 0.1;

fn all(found: &HostTrial) -> impl Iterator<Item = &TriedKnob> {
    found.tried.iter().chain(&found.together)
}

/// The settings by verdict.
pub(crate) fn sentence(found: &HostTrial) -> String {
    let list = |(label, verdict): (&str, Verdict)| {
        let knobs = found.tried.iter().filter(|knob| knob.verdict == verdict);
        let named: Vec<String> = knobs.map(|knob| title(found, knob)).collect();
        (!named.is_empty()).then(|| format!("{label}: {}.", named.join(", ")))
    };
    let groups = [
        ("Better", Verdict::Better),
        ("Worse", Verdict::Worse),
        ("Equivalent", Verdict::Equivalent),
        ("Inconclusive", Verdict::NotShown),
    ];
    let told: Vec<String> = groups.into_iter().filter_map(list).collect();
    if told.is_empty() { "Nothing was tried.".to_owned() } else { told.join(" ") }
}

/// The result of all good settings together, and how to keep them.
pub(crate) fn next(found: &HostTrial) -> Option<Element> {
    let together = found.together.as_ref()?;
    Some(match &found.left_in_force {
        Some(id) => el("p")
            .text(&format!("Together they are better, too. They are active as change {id}. "))
            .child(el("code").text("hone host confirm"))
            .text(" keeps them; without it, Hone rolls them back."),
        None => {
            paragraph(&format!("Together they are {}, so Hone kept none of them.", together.verdict.label()))
        }
    })
}

/// The setting, with its values and its durability class where they distinguish it from another row.
pub(crate) fn title(found: &HostTrial, knob: &TriedKnob) -> String {
    let values =
        |knob: &TriedKnob| knob.settings.iter().map(|one| one.value.as_str()).collect::<Vec<_>>().join(", ");
    let own = values(knob);
    let has_other = namesakes(found, knob).any(|other| values(other) != own);
    let value = if has_other { format!(" = {own}") } else { String::new() };
    format!("{}{value}{}", knob.title, class(found, knob))
}

/// All rows with the same setting.
fn namesakes<'a>(found: &'a HostTrial, knob: &'a TriedKnob) -> impl Iterator<Item = &'a TriedKnob> {
    all(found).filter(|other| other.title == knob.title)
}

/// The durability class, if there are several for this setting.
fn class(found: &HostTrial, knob: &TriedKnob) -> String {
    let acks = knob.durability.acks;
    let has_other = namesakes(found, knob).any(|other| other.durability.acks != acks);
    if found.factorial || has_other { format!(", acks={}", hone_format::acks(acks)) } else { String::new() }
}

/// The setting with its values, if the knob has exactly one.
pub(crate) fn change(found: &HostTrial, knob: &TriedKnob) -> String {
    match &knob.settings[..] {
        [one] => format!("{}{} {} → {}", knob.title, class(found, knob), one.was, one.value),
        _ => title(found, knob),
    }
}

/// The metric that decides, for each setting.
pub(crate) fn verdicts(found: &HostTrial) -> Element {
    let first = all(found).next();
    let metric = first.map(|knob| knob.comparison.label(knob.comparison.design.rule.primary));
    let name = metric.map_or("Setting by setting".to_owned(), |metric| format!("{metric} by setting"));
    let mut columns = vec![Column::words("setting"), Column::words("verdict")];
    let titles = ["before", "after", "ratio and interval"];
    columns.extend(titles.map(|title| Column::numbers(Markup::text(title))));
    let mut table = Table::new(&name, columns).under_its_heading();
    for knob in all(found) {
        let cells =
            std::iter::once(Cell::text(knob.verdict.label())).chain(decided(knob.comparison.primary()));
        table.row(Markup::text(&change(found, knob)), cells.collect());
    }
    section("tried", &name).child(table.finish())
}

/// The settings that were not tried; `None` where all were.
pub(crate) fn left_out(found: &HostTrial) -> Option<Element> {
    let untried: Vec<&str> = found.untried.iter().map(|knob| knob.title.as_str()).collect();
    (!untried.is_empty()).then(|| paragraph(&format!("Not tried: {}.", untried.join(", "))))
}

fn decided(judged: Option<&Judgement>) -> [Cell; 3] {
    let Some(estimate) = judged.map(|judged| &judged.estimate) else {
        return [NONE; 3].map(Cell::number);
    };
    let value = |value| Cell::number(&quantity::of_metric(estimate.metric, value));
    let ratio = ratio_cell(Some([estimate.ratio, estimate.low, estimate.high]));
    [value(estimate.value_a), value(estimate.value_b), ratio]
}

const FIGURES: &str = "All metrics";

/// All metrics of each setting, below the unchanged host in the same rounds.
pub(crate) fn figures(found: &HostTrial) -> Element {
    let mut columns = vec![Column::words("setting")];
    columns.extend(METRICS.map(|(metric, _)| Column::numbers(Markup::text(metric.label()))));
    columns.extend([Column::numbers(Markup::text("failed")), Column::words("stalls")]);
    let mut table = Table::new(FIGURES, columns);
    let mut last: Option<&TriedKnob> = None;
    for knob in all(found) {
        if last.is_none_or(|last| !has_same_ground(last, knob)) {
            table.row(Markup::text(&ground(knob)), ground_cells(knob));
        }
        last = Some(knob);
        table.row(Markup::text(&title(found, knob)), own_cells(knob));
    }
    section("figures", FIGURES).detail().child(table.finish()).child(paragraph(
        "The figures cover all included windows. Each ratio, with its confidence interval, compares pairs of \
         windows of the same round. Latency runs from the due time of a request to its acknowledgement.",
    ))
}

/// Whether both were compared with the same windows of the unchanged host.
fn has_same_ground(one: &TriedKnob, other: &TriedKnob) -> bool {
    ground(one) == ground(other) && one.before == other.before && one.stalls_before == other.stalls_before
}

fn ground(knob: &TriedKnob) -> String {
    let anew = if knob.started_anew { ", restarted" } else { "" };
    format!("before, acks={}{anew}", hone_format::acks(knob.durability.acks))
}

fn ground_cells(knob: &TriedKnob) -> Vec<Cell> {
    let figures = METRICS.map(|(_, quantile)| Cell::number(&figure(&knob.before, quantile)));
    let rest = [failed(&knob.before), Cell::text(&stalls(&knob.stalls_before))];
    figures.into_iter().chain(rest).collect()
}

fn own_cells(knob: &TriedKnob) -> Vec<Cell> {
    let figures = METRICS.map(|(metric, quantile)| Cell::numbers(compared(knob, metric, quantile)));
    let stalls = format!("{}; {}", stalls(&knob.stalls_after), knob.stalls.verdict.label());
    figures.into_iter().chain([failed(&knob.after), Cell::text(&stalls)]).collect()
}

fn failed(state: &BatchState) -> Cell {
    Cell::number(&quantity::percent(state.failed_share()))
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
            "{} in {} of {windows} windows, {} in total, the longest {}",
            quantity::count(stalls),
            counts.windows_with,
            quantity::duration(counts.total_s),
            quantity::duration(counts.longest_s)
        ),
    }
}

/// The reason for each verdict, and what was omitted.
pub(crate) fn reasons(found: &HostTrial) -> Element {
    let entry = |knob: &TriedKnob| {
        el("li")
            .child(el("strong").text(&format!("{}: {}. ", title(found, knob), knob.verdict.label())))
            .child(Markup::text(&knob.why))
            .child(el("ul").children(details(found, knob).iter().map(|detail| el("li").text(detail))))
    };
    let tried = el("ol").children(all(found).map(entry));
    let left = || el("ul").children(found.untried.iter().map(|knob| el("li").text(&untried_setting(knob))));
    let left = if found.untried.is_empty() {
        paragraph("Every setting of the profile was tried.")
    } else {
        el("div").child(el("h3").text("Not tried")).child(left())
    };
    section("reasons", "Why").detail().child(tried).child(left)
}

/// A setting that was not tried, with the reason.
pub fn untried_setting(knob: &UntriedKnob) -> String {
    let now = knob.now.as_deref().unwrap_or("(not there)");
    format!("{}: {now} → {}: {}", knob.title, knob.wanted, knob.why)
}

/// The details of a verdict.
fn details(found: &HostTrial, knob: &TriedKnob) -> Vec<String> {
    let mut lines = vec![format!("wanted for: {}", knob.reason)];
    if found.factorial || knob.settings.len() != 1 {
        let setting = |one: &hone_record::TriedSetting| format!("/{} {} → {}", one.path, one.was, one.value);
        let settings: Vec<String> = knob.settings.iter().map(setting).collect();
        lines.push(format!("settings: {}", settings.join(", ")));
    }
    lines.extend(knob.promise.as_ref().map(|promise| format!("it also {promise}, so the speed is no gain")));
    lines.extend(rests_on("before", &knob.before, &knob.stalls_before));
    lines.extend(rests_on("after", &knob.after, &knob.stalls_after));
    lines.push(format!(
        "stalls: {} ({} by the sign test at {})",
        knob.stalls.why,
        knob.stalls.verdict.label(),
        quantity::chosen_percent(knob.stalls.confidence)
    ));
    if knob.writing_ms_max > 0 {
        let ms = quantity::count(knob.writing_ms_max);
        lines.push(format!("writing it took at most {ms} ms, outside the windows"));
    }
    lines
}

/// The number of the slowest requests that waited in a stall, if it is worth a line.
fn rests_on(state: &str, figures: &BatchState, stalls: &StallCounts) -> Option<String> {
    // If half of the requests wait this long, the cause is the service, not a stall.
    if figures.latency_us(0.5)? >= f64::from(STALL_FROM_MS) * 1e3 {
        return Some(format!(
            "{state}: the median itself is {STALL_FROM_MS} ms or more, so stalls say nothing"
        ));
    }
    let share = |quantile: f64| stalls.share_of_tail(quantile).filter(|share| *share >= RESTS_FROM);
    let part = |name: &str, quantile: f64| {
        Some(format!("{} of the requests beyond {name}", quantity::percent(share(quantile)?)))
    };
    let parts: Vec<String> = [part("p99", 0.99), part("p99.9", 0.999)].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| {
        format!(
            "{state}: {} waited in {} of {} in total, the longest {}, in {} of {} windows",
            parts.join(" and "),
            quantity::counted(stalls.stalls, "stall", "stalls"),
            quantity::duration(stalls.total_s),
            quantity::duration(stalls.longest_s),
            stalls.windows_with,
            stalls.windows
        )
    })
}

/// The rule, the durability classes, and the limits of the result.
pub(crate) fn basis(found: &HostTrial) -> Element {
    let class = |knob: &TriedKnob| {
        format!("acks={}, storage: {}", hone_format::acks(knob.durability.acks), knob.durability.storage)
    };
    let classes: BTreeSet<String> = all(found).map(class).collect();
    let classes: Vec<String> = classes.into_iter().collect();
    section("basis", "Rule, durability and limits")
        .detail()
        .child(paragraph(&found.rule))
        .child(paragraph(&format!("Durability: {}.", classes.join("; "))))
        .children(proof::software(&found.software))
        .children(found.limits.iter().map(|limit| paragraph(limit)))
}

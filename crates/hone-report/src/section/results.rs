//! One comparison: the table of metrics and the plots.

use std::collections::BTreeMap;

use hone_record::{Comparison, Estimate, Hdr, Judgement, Metric, PairKind, PairOutcome, Window};

use super::{conditions, figure, no_figure, ratio_cell, seconds, section};
use crate::evidence::{Arm, CountedPair, Evidence, log_ratio, merged};
use crate::outcome::capital;
use crate::plot::forest::Forest;
use crate::plot::running::{Running, running};
use crate::plot::series::Track;
use crate::plot::spectrum::{Line, SAMPLES_BEYOND};
use crate::plot::{Stroke, forest, legend, mark, pairs, spectrum};
use crate::quantity::{self, NBSP, NONE, TimeUnit};
use crate::sentence;
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup, el};

/// The section of a comparison; `id` must be unique in the page.
pub(crate) fn of(
    id: &str,
    title: &str,
    comparison: &Comparison,
    windows: &BTreeMap<String, Window>,
) -> Element {
    below_a_head(id, title, comparison, windows, Some(forest(id, comparison)))
}

/// The same for a page whose head has the forest plot.
pub(crate) fn below_a_head(
    id: &str,
    title: &str,
    comparison: &Comparison,
    windows: &BTreeMap<String, Window>,
    forest: Option<Element>,
) -> Element {
    let evidence = Evidence::of(comparison, windows);
    section(id, title)
        .child(figures(comparison, &evidence).detail())
        .child(dropped(comparison).detail())
        .children(forest)
        .child(spectrum(id, comparison, &evidence).detail())
        .child(pairs(id, comparison).detail())
        .child(series(id, comparison, &evidence).detail())
        .children(conditions::of(comparison, &evidence).map(Element::detail))
}

/// The title of a comparison's section, if the page is about one pair of arms.
pub(crate) fn title(comparison: &Comparison) -> String {
    format!("Judged under “{}”", comparison.workload.name)
}

/// Judgements in the order of the table: the primary first, then the order of all metrics.
fn ordered(comparison: &Comparison) -> Vec<&Judgement> {
    let mut ordered: Vec<&Judgement> = comparison.judgements.iter().collect();
    ordered.sort_by_key(|judgement| (!judgement.primary, judgement.estimate.metric));
    ordered
}

fn figures(comparison: &Comparison, evidence: &Evidence) -> Element {
    let columns = vec![
        Column::words("metric"),
        Column::numbers(arm_title(Stroke::A, &comparison.a)),
        Column::numbers(arm_title(Stroke::B, &comparison.b)),
        Column::numbers(Markup::text("ratio, interval")),
        Column::words("verdict"),
        Column::numbers(Markup::text("A/A control")),
    ];
    let mut table = Table::new(&table_name(comparison), columns).remark(&table_remark(comparison));
    let judged = ordered(comparison);
    for judgement in &judged {
        let class = if judgement.primary { "primary" } else { "plain" };
        table.row_of_class(
            class,
            metric_title(comparison, judgement.estimate.metric),
            judged_cells(judgement),
        );
    }
    let is_missing = |metric: &Metric| {
        !judged.iter().any(|judgement| judgement.estimate.metric == *metric)
            && !comparison.is_same_again(*metric)
    };
    let missing = Metric::ALL.into_iter().filter(is_missing);
    let missing = missing.filter_map(|metric| Some((metric, unjudged(comparison, evidence, metric)?)));
    for (metrics, [a, b, words]) in same_together(missing) {
        let titles: Vec<Markup> = metrics.iter().map(|metric| metric_title(comparison, *metric)).collect();
        let cells = vec![Cell::number(&a), Cell::number(&b), Cell::text(&words).across(3)];
        table.row(listed(titles), cells);
        let rule = &comparison.design.rule;
        // A metric that the verdict rests on is never left out.
        if !metrics.iter().any(|metric| *metric == rule.primary || rule.guards.contains(metric)) {
            table.explain_last();
        }
    }
    table.class("scroll results").finish()
}

fn table_name(comparison: &Comparison) -> String {
    format!("{} and {} under {}", comparison.a, comparison.b, comparison.workload.name)
}

fn table_remark(comparison: &Comparison) -> String {
    let intervals = match (sentence::level(comparison, true), sentence::level(comparison, false)) {
        (Some(primary), Some(other)) if primary != other => {
            format!(
                "Confidence intervals: {primary} for the primary metric, {other} for the others, corrected \
                 for their number."
            )
        }
        (Some(all), _) | (None, Some(all)) => format!("Confidence intervals: {all}."),
        (None, None) => return "Nothing could be estimated.".to_owned(),
    };
    format!(
        "Geometric means over the included pairs, from the figures of each window; ratio = {} / {}. \
         {intervals} “sees” is the smallest effect that these pairs find in four of five runs.",
        comparison.b, comparison.a
    )
}

fn arm_title(stroke: Stroke, name: &str) -> Markup {
    let class = if stroke == Stroke::A { "arm a" } else { "arm b" };
    el("span").class(class).text(name).into()
}

pub(super) fn metric_title(comparison: &Comparison, metric: Metric) -> Markup {
    let rule = &comparison.design.rule;
    let remarks = [
        matches!(metric, Metric::Throughput | Metric::Capacity).then_some(
            match comparison.workload.engine.operations() {
                Some(_) => "operations/s",
                None => metric.unit(),
            },
        ),
        (metric == rule.primary).then_some("primary"),
        rule.guards.contains(&metric).then_some("guard metric"),
    ];
    let remarks = remarks.into_iter().flatten().map(|remark| el("span").class("small").text(remark));
    remarks.fold(Markup::text(comparison.label(metric)), Markup::with)
}

/// Two values of a metric in one unit.
pub(super) fn values(metric: Metric, a: f64, b: f64) -> [String; 2] {
    if matches!(metric, Metric::Throughput | Metric::Capacity) {
        return [a, b].map(quantity::significant);
    }
    if metric.is_memory() {
        return [a, b].map(|value| quantity::of_metric(metric, value));
    }
    let larger = if a.is_finite() && b.is_finite() { a.max(b) } else { 0.0 };
    [a, b].map(|value| TimeUnit::fitting(larger).write(value))
}

fn judged_cells(judgement: &Judgement) -> Vec<Cell> {
    let estimate = &judgement.estimate;
    let [a, b] = values(estimate.metric, estimate.value_a, estimate.value_b);
    let verdict =
        mark::verdict_words(judgement.verdict).with(el("span").class("small").text(&sees(estimate)));
    vec![
        Cell::number(&a),
        Cell::number(&b),
        Cell::numbers(ratio_with_interval(estimate)),
        Cell::words(verdict),
        Cell::numbers(judgement.control.as_ref().map_or_else(|| Markup::text(NONE), ratio_with_interval)),
    ]
}

fn sees(estimate: &Estimate) -> String {
    if estimate.detectable_ratio.is_finite() && estimate.detectable_ratio > 1.0 {
        let percent = quantity::change_points((estimate.detectable_ratio - 1.0) * 100.0);
        format!("sees ≥{NBSP}{percent}{NBSP}%")
    } else {
        String::new()
    }
}

fn ratio_with_interval(estimate: &Estimate) -> Markup {
    if !sentence::is_sound(estimate) {
        return Markup::text(NONE);
    }
    let [low, high] = [estimate.low, estimate.high].map(quantity::ratio);
    Markup::default()
        .with(el("span").class("ratio").text(&quantity::ratio(estimate.ratio)))
        .with(el("span").class("small change").text(&format!("({})", quantity::change(estimate.ratio))))
        .with(el("span").class("small").text(&format!("[{low}, {high}]")))
}

/// Both values of a metric without a judgement, with the reason. `None` when the record has nothing about it.
fn unjudged(comparison: &Comparison, evidence: &Evidence, metric: Metric) -> Option<[String; 3]> {
    let means = (evidence.mean(metric, Arm::A), evidence.mean(metric, Arm::B));
    let reason = comparison.not_estimated.get(&metric);
    if reason.is_none() && means == (None, None) {
        return None;
    }
    let [a, b] = values(metric, means.0.unwrap_or(f64::NAN), means.1.unwrap_or(f64::NAN));
    let words = why_not_estimated(comparison, metric).unwrap_or_else(|| "not judged".to_owned());
    Some([a, b, words])
}

/// The reason for a missing estimate, with the samples that it needs.
pub(super) fn why_not_estimated(comparison: &Comparison, metric: Metric) -> Option<String> {
    let reason = comparison.not_estimated.get(&metric)?;
    Some(format!("not estimated: {reason}{}", needs(comparison, metric)))
}

/// Groups metrics with the same text, so that a reason appears once.
fn same_together(rows: impl Iterator<Item = (Metric, [String; 3])>) -> Vec<(Vec<Metric>, [String; 3])> {
    let mut groups: Vec<(Vec<Metric>, [String; 3])> = Vec::new();
    for (metric, said) in rows {
        match groups.iter_mut().find(|(_, other)| *other == said) {
            Some((metrics, _)) => metrics.push(metric),
            None => groups.push((vec![metric], said)),
        }
    }
    groups
}

/// Titles with commas between them.
fn listed(titles: Vec<Markup>) -> Markup {
    let commas = std::iter::once("").chain(std::iter::repeat(", "));
    titles
        .into_iter()
        .zip(commas)
        .fold(Markup::default(), |all, (title, comma)| all.with(Markup::text(comma)).with(title))
}

/// The samples that a window needs before it has a value of the metric.
fn needs(comparison: &Comparison, metric: Metric) -> String {
    if comparison.design.refused.contains_key(&metric) {
        // The reason already states this.
        return String::new();
    }
    match metric {
        Metric::UserCpuPerRecord => " (the user share needs 0.1 s of CPU per window)".to_owned(),
        _ => metric.samples_needed().map_or(String::new(), |needed| {
            format!(" (a {} needs {} requests per window)", comparison.label(metric), quantity::count(needed))
        }),
    }
}

fn dropped(comparison: &Comparison) -> Element {
    let left_out: Vec<&PairOutcome> = comparison.pairs.iter().filter(|pair| pair.dropped.is_some()).collect();
    if left_out.is_empty() {
        return el("p").text("No pair was excluded.");
    }
    let item = |pair: &&PairOutcome| {
        let reason = pair.dropped.as_deref().unwrap_or_default();
        el("li").text(&format!("pair {} ({}): {reason}", pair.number(), kind_name(pair.kind)))
    };
    let title = format!(
        "{} of {} excluded, with the reason",
        left_out.len(),
        quantity::counted(comparison.pairs.len() as u64, "pair", "pairs")
    );
    el("div")
        .class("left-out")
        .child(el("h3").text(&title))
        .child(el("ul").children(left_out.iter().map(item)))
}

fn kind_name(kind: PairKind) -> &'static str {
    match kind {
        PairKind::Test => "A/B",
        PairKind::Control => "A/A",
    }
}

pub(super) fn forest(id: &str, comparison: &Comparison) -> Element {
    let title = "Ratios with their intervals";
    let rows = Forest::of_metrics(comparison, &ordered(comparison));
    let legend = forest::legend(&rows);
    let has_arrow = rows.rows.iter().any(|row| !row.is_cost);
    let Some(plot) = forest::plot(&format!("{id}-forest"), title, rows) else {
        return no_figure(title, "No metric could be estimated, so there is no ratio to draw.");
    };
    let load = under(comparison).map_or(String::new(), |load| format!("{}. ", capital(&load)));
    let costs = if has_arrow { " For a metric with ↑, more is better." } else { "" };
    let caption = format!("{load}Left of 1, {} needs less than {}.{costs}", comparison.b, comparison.a);
    figure(title, Some(legend), plot, &caption, None)
}

/// The load of a comparison. `None` for a load without a name.
pub(super) fn under(comparison: &Comparison) -> Option<String> {
    let name = &comparison.workload.name;
    (name != "command-line").then(|| format!("under load “{name}”"))
}

fn spectrum(id: &str, comparison: &Comparison, evidence: &Evidence) -> Element {
    let title = "Latency by percentile";
    if let Some(climb) = comparison.workload.climb() {
        let why = format!(
            "The load climbs until {} breaks, so the windows had no load in common.",
            climb.slo.label()
        );
        return no_figure(title, &why);
    }
    let arm = |stroke, name: &str, histogram| Line { stroke, label: name.to_owned(), histogram };
    let lines = [
        arm(Stroke::A, &comparison.a, merged(evidence.windows_a())),
        arm(Stroke::B, &comparison.b, merged(evidence.windows_b())),
    ];
    let Some(plot) = spectrum::plot(&format!("{id}-spectrum"), title, &lines) else {
        return no_figure(title, without_latencies(comparison, evidence));
    };
    let missing = match evidence.missing() {
        0 => String::new(),
        some => format!(" {} not available.", quantity::counted(some, "window was", "windows were")),
    };
    let caption = format!(
        "All windows of the included pairs together, from the intended send to the acknowledgement; the table \
         has the mean over windows. The line is faint where fewer than {SAMPLES_BEYOND} samples lie beyond.{missing}"
    );
    let numbers = spectrum_numbers("Latency by percentile, all windows together", &lines);
    figure(title, Some(key(&lines)), plot, &caption, Some(numbers))
}

/// The key to the lines of a spectrum.
pub(super) fn key(lines: &[Line]) -> Element {
    let entries: Vec<(Stroke, String)> = lines.iter().map(|line| (line.stroke, line.label.clone())).collect();
    legend(&entries)
}

fn without_latencies(comparison: &Comparison, evidence: &Evidence) -> &'static str {
    if comparison.workload.engine.operations().is_some() {
        "A load of operations reports no latency for single operations, so there is none to draw."
    } else if evidence.windows_a().chain(evidence.windows_b()).next().is_some() {
        "The windows of the pairs hold no latency, so there is none to draw."
    } else {
        without_windows(evidence)
    }
}

fn without_windows(evidence: &Evidence) -> &'static str {
    if evidence.pairs.is_empty() {
        "No A/B pair is usable, so there is no latency to draw."
    } else {
        "The windows of the pairs are not available, so their latencies cannot be drawn."
    }
}

/// The spectrum as a table.
pub(super) fn spectrum_numbers(title: &str, lines: &[Line]) -> Element {
    const QUANTILES: [(f64, &str); 8] = [
        (0.5, "p50"),
        (0.75, "p75"),
        (0.9, "p90"),
        (0.95, "p95"),
        (0.99, "p99"),
        (0.999, "p99.9"),
        (0.9999, "p99.99"),
        (0.99999, "p99.999"),
    ];
    let heads = lines.iter().map(|line| Column::numbers(Markup::text(&line.label)));
    let mut table = Table::new(title, std::iter::once(Column::words("percentile")).chain(heads).collect());
    let cells = |read: &dyn Fn(&Hdr) -> Option<f64>| {
        let text = |line: &Line| read(&line.histogram).map_or(NONE.to_owned(), quantity::time_us);
        lines.iter().map(|line| Cell::number(&text(line))).collect::<Vec<_>>()
    };
    for (quantile, name) in QUANTILES {
        table.row(Markup::text(name), cells(&|hdr| hdr.quantile_us_if_supported(quantile, SAMPLES_BEYOND)));
    }
    table.row(Markup::text("max"), cells(&Hdr::max_us));
    table.row(Markup::text("mean"), cells(&Hdr::mean_us));
    let counts = lines.iter().map(|line| Cell::number(&quantity::count(line.histogram.count())));
    table.row(Markup::text("samples"), counts.collect());
    table.finish()
}

fn pairs(id: &str, comparison: &Comparison) -> Element {
    let primary = comparison.design.rule.primary;
    let title = format!("Pair by pair: {}", sentence::noun(comparison, primary));
    let Some(plot) = pairs::judged(&format!("{id}-pairs"), &title, comparison) else {
        return no_figure(&title, &without_pairs(comparison));
    };
    let caption = "The band is the confidence interval over the pairs so far, and its end is the final \
                   interval. Dots that rise or fall together show a drift.";
    let numbers = pair_numbers(&title, comparison, primary);
    figure(&title, Some(pairs::legend(comparison)), plot, caption, Some(numbers))
}

fn without_pairs(comparison: &Comparison) -> String {
    if comparison.pairs.is_empty() {
        "No pair was measured.".to_owned()
    } else {
        "No pair has a ratio of this metric: all were excluded, or their windows do not have it.".to_owned()
    }
}

fn pair_numbers(title: &str, comparison: &Comparison, metric: Metric) -> Element {
    let columns = vec![
        Column::words("pair"),
        Column::words("kind"),
        Column::numbers(Markup::text("first arm")),
        Column::numbers(Markup::text("second arm")),
        Column::numbers(Markup::text("ratio")),
        Column::numbers(Markup::text("so far")),
        Column::words("included"),
    ];
    let steps = running(comparison);
    let mut table = Table::new(title, columns);
    for (position, pair) in comparison.pairs.iter().enumerate() {
        let value = |arm: Arm| arm.values(pair).get(&metric).copied().unwrap_or(f64::NAN);
        let [a, b] = values(metric, value(Arm::A), value(Arm::B));
        let ratio = log_ratio(pair, metric).map_or(NONE.to_owned(), |log| quantity::ratio(log.exp()));
        let counts = pair.dropped.as_deref().map_or("yes".to_owned(), |reason| format!("no: {reason}"));
        table.row(
            Markup::text(&pair.number().to_string()),
            vec![
                Cell::text(kind_name(pair.kind)),
                Cell::number(&a),
                Cell::number(&b),
                Cell::number(&ratio),
                so_far(steps.iter().find(|step| step.position == position)),
                Cell::text(&counts),
            ],
        );
    }
    table.finish()
}

/// The estimate after a pair, with its interval.
fn so_far(step: Option<&Running>) -> Cell {
    let Some(step) = step else { return Cell::number(NONE) };
    match step.interval {
        Some((low, high)) => ratio_cell(Some([step.ratio, low, high])),
        None => Cell::number(&quantity::ratio(step.ratio)),
    }
}

/// The seconds of the median pair, and below them the cores of its windows.
fn series(id: &str, comparison: &Comparison, evidence: &Evidence) -> Element {
    let title = "Second by second";
    let primary = comparison.design.rule.primary;
    let Some(CountedPair { outcome, a: Some(a), b: Some(b) }) = evidence.median_pair(primary) else {
        return no_figure(title, without_windows(evidence));
    };
    let tracks = [Track::new(Stroke::A, &comparison.a, a), Track::new(Stroke::B, &comparison.b, b)];
    let caption = format!(
        "Pair {}, the median pair by its ratio of {}. It represents the others.",
        outcome.number(),
        sentence::noun(comparison, primary)
    );
    let windows = [(Stroke::A, comparison.a.as_str(), a), (Stroke::B, comparison.b.as_str(), b)];
    let drawn = seconds::seconds(&format!("{id}-series"), title, &tracks, &caption, true);
    el("div")
        .child(
            drawn.unwrap_or_else(|| no_figure(title, "The windows of the median pair hold no time series.")),
        )
        .child(seconds::cores(&format!("{id}-cores"), &windows))
}

/// The rules as written before the run. Comparisons with the same rule and design share one.
pub(crate) fn rules(comparisons: &[Comparison]) -> Vec<Element> {
    let mut told: Vec<(Vec<&str>, &str, String)> = Vec::new();
    for comparison in comparisons {
        let (name, words, design) =
            (&comparison.workload.name, rule_words(comparison), design_words(comparison));
        match told
            .iter_mut()
            .find(|(_, told_words, told_design)| *told_words == words && *told_design == design)
        {
            // All variants of a tree are judged under the same workloads.
            Some((names, ..)) if names.contains(&name.as_str()) => {}
            Some((names, ..)) => names.push(name),
            None => told.push((vec![name], words, design)),
        }
    }
    told.iter().map(|(names, words, design)| rule(names, words, design)).collect()
}

fn rule(names: &[&str], words: &str, design: &str) -> Element {
    let names = names.iter().map(|name| format!("“{name}”")).collect::<Vec<_>>().join(", ");
    el("div")
        .child(el("h3").text(&format!("The rule for {names}, fixed before the first window")))
        .child(el("p").text(words))
        .child(el("p").text(design))
}

fn rule_words(comparison: &Comparison) -> &str {
    let words = comparison.design.rule.words.as_str();
    if words.is_empty() { "The record does not contain the rule as text." } else { words }
}

fn design_words(comparison: &Comparison) -> String {
    let design = &comparison.design;
    format!(
        "{} in {} mode and {} in random order (seed {}); {} bootstrap resamples; margin of equivalence ±{}.",
        quantity::counted(u64::from(design.pairs), "A/B pair", "A/B pairs"),
        sentence::mode(design.mode),
        quantity::counted(u64::from(design.control_pairs), "A/A pair", "A/A pairs"),
        design.rule.seed,
        quantity::count(u64::from(design.rule.resamples)),
        quantity::chosen_percent(design.rule.equivalence)
    )
}

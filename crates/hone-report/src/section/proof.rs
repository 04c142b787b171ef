//! Steps of a proof: the table with a column for each step, and the decision about each.

use std::collections::BTreeMap;

use hone_record::{
    ALL_TOGETHER, BatchState, Comparison, Decision, Engine, Estimate, Metric, Proof, ProofStep, Replica,
    Workload,
};

use super::head::with_arrows;
use super::{absent, figure, no_figure, paragraph, section};
use crate::plot::states::{self, Panel, Reading, State};
use crate::quantity::{self, NONE};
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup, el};
use crate::{prediction, replica, sentence};

/// Rows that are quantiles of the latency.
const QUANTILES: [(&str, f64); 6] = hone_record::STORY_QUANTILES;

/// The topic that the load comes from, compared with the test topic that the load wrote.
pub(crate) fn replica(found: &Replica) -> Element {
    let titles = ["topic today", "replica here", "difference"];
    let mut columns = vec![Column::words("over the recorded period")];
    columns.extend(titles.map(|title| Column::numbers(Markup::text(title))));
    let mut table = Table::new("Replica", columns);
    for (name, cells) in replica::rows(found) {
        table.row(Markup::text(name), cells.map(|cell| Cell::number(&cell)).into());
    }
    let section = section("replica", &format!("The load compared with topic {}", found.topic))
        .child(table.finish().detail())
        .child(paragraph(&replica::verdict(found)));
    // A replica that matches its topic does not qualify the result.
    if found.is_like() { section.detail() } else { section }
}

const STATES: &str = "State by state";

/// The table of all states. The text below names the figures that are unknown for all states.
pub(crate) fn states(proof: &Proof) -> Element {
    let section = section("states", STATES);
    let Some(first) = proof.steps.iter().find(|step| step.comparison.is_some()) else {
        return section.child(absent("No step finished its measurement, so there are no figures."));
    };
    let numbers = |name: &str| Column::numbers(Markup::text(name));
    let mut columns = vec![Column::words("all windows of a state"), numbers("original")];
    let shown = &total_first(proof);
    columns.extend(shown.steps.iter().map(|step| numbers(&with_arrows(&step.change))));
    let mut table = Table::new(STATES, columns).under_its_heading();
    table.row(Markup::text("outcome"), behind(NONE, shown, |step| step.outcome().to_owned()));
    let states = states_of(first, shown);
    // No two windows of a climb had the same load.
    let climbs = proof.workload.climb().is_some();
    let figures = if climbs { vec![windows(&states)] } else { figures(&states) };
    let (known, unknown): (Vec<Figure>, Vec<Figure>) = figures.into_iter().partition(Figure::is_shown);
    known.iter().for_each(|figure| table.row(Markup::text(figure.name), figure.cells(&states)));
    if climbs {
        table.row_of_class("primary", Markup::text("capacity, requests/s"), capacities(shown, first));
    }
    ratios(&mut table, shown);
    let unknown: Vec<&str> = unknown.iter().map(|figure| figure.name).collect();
    let unknown = match &unknown[..] {
        [] => String::new(),
        names => format!(" Unknown for all states: {}.", names.join(", ")),
    };
    let drawn = (!climbs).then(|| curves(proof, first, &states_of(first, proof)));
    section
        .child(table.finish())
        .children(drawn)
        .child(paragraph(&format!("{}{unknown}", of_a_column(proof))).detail())
}

/// The original state and the state after each step.
fn states_of<'a>(first: &'a ProofStep, proof: &'a Proof) -> Vec<&'a BatchState> {
    std::iter::once(&first.before).chain(proof.steps.iter().map(|step| &step.after)).collect()
}

/// The steps with all changes together first: a wide table hides its last column.
fn total_first(proof: &Proof) -> Proof {
    let mut shown = proof.clone();
    let is_total = |step: &ProofStep| ALL_TOGETHER.strip_prefix("all: ") == Some(&*step.change);
    if shown.steps.last().is_some_and(is_total) {
        shown.steps.rotate_right(1);
    }
    shown
}

/// The most important rows of the table as curves.
fn curves(proof: &Proof, first: &ProofStep, states: &[&BatchState]) -> Element {
    let title = "Latency, batches and CPU, step by step";
    let original = State { name: "original".to_owned(), is_kept: true };
    let after =
        |step: &ProofStep| State { name: step.change.clone(), is_kept: step.decision == Decision::Accepted };
    let named: Vec<State> = std::iter::once(original).chain(proof.steps.iter().map(after)).collect();
    let quantile =
        |quantile: f64, metric: Metric| readings(proof, states, &|state| state.latency_us(quantile), metric);
    let panels = [
        latency("p50", quantile(0.5, Metric::LatencyP50)),
        latency("p99", quantile(0.99, Metric::LatencyP99)),
        number("batches per second", states.iter().map(|state| reading(state.batches_per_s())).collect()),
        number("CPU, cores", readings(proof, states, &|state| state.cores(), Metric::CpuPerRecord)),
    ];
    let Some(plot) = states::plot("states-curves", title, &named, &panels) else {
        return no_figure(title, "Fewer than two states have a figure, so there is no curve to draw.");
    };
    let caption = match first.comparison.as_ref().map(|comparison| comparison.design.rule.primary) {
        Some(_) => {
            "An interval is the confidence interval of the step's ratio, around the value of its state. Cores \
             have that of the CPU per record, and batches have none."
        }
        None => "A point is a state.",
    };
    figure(title, Some(states::legend(&named, &panels)), plot, caption, None)
}

fn latency(name: &'static str, readings: Vec<Reading>) -> Panel {
    let mark = |us: f64| quantity::TimeUnit::fitting(us).tick(us);
    Panel { name, mark, write: quantity::time_us, readings }
}

fn number(name: &'static str, readings: Vec<Reading>) -> Panel {
    Panel { name, mark: quantity::short, write: quantity::significant, readings }
}

fn reading(value: Option<f64>) -> Reading {
    Reading { value, interval: None }
}

/// A figure of all states, with the confidence interval of a metric's ratio in each step.
fn readings(
    proof: &Proof,
    states: &[&BatchState],
    value: &dyn Fn(&BatchState) -> Option<f64>,
    metric: Metric,
) -> Vec<Reading> {
    let after = states.iter().skip(1).zip(&proof.steps).map(|(state, step)| {
        // The value covers all windows and the ratio only pairs, so the interval is relative to its own ratio.
        let ends = value(state).zip(interval_of(step, metric));
        Reading { value: value(state), interval: ends.map(|(at, (low, high))| (at * low, at * high)) }
    });
    let original = states.first().map(|state| reading(value(state)));
    original.into_iter().chain(after).collect()
}

/// The confidence interval of a metric's ratio, divided by the ratio.
fn interval_of(step: &ProofStep, metric: Metric) -> Option<(f64, f64)> {
    let judged = step.comparison.as_ref()?.judgements.iter();
    let estimate = judged.map(|judgement| &judgement.estimate).find(|estimate| estimate.metric == metric)?;
    sentence::is_sound(estimate).then(|| (estimate.low / estimate.ratio, estimate.high / estimate.ratio))
}

/// Replaces a quantile with fewer than ten samples beyond it.
const TOO_FEW: &str = "too few samples";

/// A figure of all states.
struct Figure {
    name: &'static str,
    values: Vec<Option<String>>,
    /// The text for an unknown figure.
    without: &'static str,
}

impl Figure {
    /// The quantiles stay, because published tables have all of them.
    fn is_shown(&self) -> bool {
        self.without == TOO_FEW || self.values.iter().any(Option::is_some)
    }

    fn cells(&self, states: &[&BatchState]) -> Vec<Cell> {
        let cell = |(value, state): (&Option<String>, &&BatchState)| match state.windows {
            0 => Cell::number("not measured"),
            _ => Cell::number(value.as_deref().unwrap_or(self.without)),
        };
        self.values.iter().zip(states).map(cell).collect()
    }
}

fn windows(states: &[&BatchState]) -> Figure {
    let values = states.iter().map(|state| Some(quantity::count(state.windows.into()))).collect();
    Figure { name: "windows", values, without: NONE }
}

/// The observed figures of the states under one load.
fn figures(states: &[&BatchState]) -> Vec<Figure> {
    let values = |of: &dyn Fn(&BatchState) -> Option<String>| states.iter().map(|state| of(state)).collect();
    let of = |name: &'static str, of: fn(&BatchState) -> Option<String>| Figure {
        name,
        values: values(&of),
        without: "unknown",
    };
    let quantiles = QUANTILES.map(|(name, quantile)| Figure {
        name,
        values: values(&|state| state.latency_us(quantile).map(quantity::time_us)),
        without: TOO_FEW,
    });
    let others = [
        of("CPU, cores", |state| state.cores().map(quantity::significant)),
        of("CPU time per record", |state| state.cpu_us_per_record().map(quantity::time_us)),
        of("network sent per second", |state| state.sent_bytes_per_s().map(quantity::throughput)),
        of("requests per second", |state| state.requests_per_s().map(quantity::significant)),
        of("batches per second", |state| state.batches_per_s().map(quantity::significant)),
        of("bytes per batch", |state| state.bytes_per_batch().map(quantity::significant)),
        of("records per batch", |state| state.records_per_batch().map(quantity::significant)),
        of("records per second", |state| {
            (state.seconds > 0.0).then(|| quantity::significant(state.acked_records as f64 / state.seconds))
        }),
        of("backlog, records (median)", |state| state.backlog_p50.map(quantity::count)),
        of("consumer lag, records", |state| state.lag_records.map(quantity::count)),
        windows(states),
    ];
    quantiles.into_iter().chain(others).collect()
}

/// A cell for the original state and one for each step.
fn behind(original: &str, proof: &Proof, cell: impl Fn(&ProofStep) -> String) -> Vec<Cell> {
    let cells = proof.steps.iter().map(|step| Cell::number(&cell(step)));
    std::iter::once(Cell::number(original)).chain(cells).collect()
}

/// Adds the figure that decides: the ratio of each step to the state before, and its confidence interval.
fn ratios(table: &mut Table, proof: &Proof) {
    let Some(comparison) = proof.steps.iter().find_map(|step| step.comparison.as_ref()) else { return };
    let name = format!("{}, ratio", comparison.label(comparison.design.rule.primary));
    let or_none = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
    let of = |step: &ProofStep| or_none(ratio(step).map(|[ratio, ..]| quantity::ratio(ratio)));
    table.row_of_class("primary", Markup::text(&name), behind(NONE, proof, of));
    let interval =
        |[_, low, high]: [f64; 3]| format!("[{}, {}]", quantity::ratio(low), quantity::ratio(high));
    let of = |step: &ProofStep| or_none(ratio(step).map(interval));
    table.row(Markup::text("confidence interval"), behind(NONE, proof, of));
}

fn ratio(step: &ProofStep) -> Option<[f64; 3]> {
    let estimate = &step.comparison.as_ref()?.primary()?.estimate;
    Some([estimate.ratio, estimate.low, estimate.high])
}

/// Explains the columns of the table.
fn of_a_column(proof: &Proof) -> String {
    const COLUMN: &str = "A column holds all windows of its state in one comparison. Hone measured the \
         columns one after the other. Only each step is compared with the state before it, in pairs of \
         windows.";
    match proof.workload.climb() {
        Some(climb) => format!(
            "The capacity is the highest rate at which {} held. {COLUMN} The table omits other figures: each \
             window climbs until this SLO breaks, so no two had the same load.",
            climb.slo.label()
        ),
        None => format!(
            "Latency runs from the due time of a record to its acknowledgement. {COLUMN} Network counts what \
             the producers wrote to their sockets, without TCP headers. Backlog is the number of records \
             that were due but not acknowledged, as the median over seconds."
        ),
    }
}

/// The capacity of each state, from its own comparison.
fn capacities(proof: &Proof, first: &ProofStep) -> Vec<Cell> {
    let told = |step: &ProofStep, value: fn(&Estimate) -> f64| {
        let judged = step.comparison.as_ref().and_then(Comparison::primary);
        let value = judged.map(|judged| quantity::significant(value(&judged.estimate)));
        value.unwrap_or_else(|| NONE.to_owned())
    };
    behind(&told(first, |found| found.value_a), proof, |step| told(step, |found| found.value_b))
}

/// The decision about each step, with the reason.
pub(crate) fn decisions(proof: &Proof) -> Element {
    let steps = proof.steps.iter().map(|step| decision(step, "", Vec::new()));
    section("decisions", "Step by step").detail().child(el("ol").children(steps))
}

/// One step with its outcome. `remark` follows its name; `reasons` precede the details.
pub(super) fn decision(step: &ProofStep, remark: &str, reasons: Vec<String>) -> Element {
    let entry = el("li")
        .child(el("strong").text(&format!("{}{remark}: {}. ", step.change, step.outcome())))
        .child(Markup::text(&step.why));
    let details = reasons.into_iter().chain(details(step));
    entry.child(el("ul").children(details.map(|detail| el("li").text(&with_arrows(&detail)))))
}

fn details(step: &ProofStep) -> Vec<String> {
    let guards = step.guards.iter().map(|guard| {
        format!("{}: {} ({})", guard.rule, if guard.held { "held" } else { "broke" }, guard.seen)
    });
    let predicted = step.foretold.iter().flat_map(|predicted| {
        let outcomes = prediction::outcomes(predicted, &step.before, &step.after);
        outcomes.into_iter().map(|outcome| format!("{outcome} ({})", predicted.source))
    });
    let given = step.words.iter().chain(&step.promise).cloned();
    given.chain(guards).chain(predicted).collect()
}

/// How to apply the accepted changes.
pub(crate) fn next(proof: &Proof) -> Option<Element> {
    let accepted = proof.steps.iter().filter(|step| step.decision == Decision::Accepted);
    let accepted: Vec<&str> = accepted.map(|step| step.change.as_str()).collect();
    let keep = format!("Hone left no setting changed. To keep {}: ", accepted.join("; "));
    let advice = el("p").text(&keep).child(el("code").text("hone batch settings"));
    (!accepted.is_empty()).then(|| advice.text(" prints the lines for each client."))
}

/// The rule, the settings before the first step, and the limits of the result.
pub(crate) fn basis(proof: &Proof) -> Element {
    section("basis", "Rule, original settings and limits")
        .detail()
        .child(paragraph(&proof.rule))
        .child(paragraph(&original(&proof.workload)))
        .children(software(&proof.software))
        .children(proof.limits.iter().map(|limit| paragraph(limit)))
}

/// Clients and brokers with their versions.
pub(super) fn software(found: &BTreeMap<String, String>) -> Option<Element> {
    let named: Vec<String> = found.iter().map(|(who, what)| format!("{who} {what}")).collect();
    (!named.is_empty()).then(|| paragraph(&format!("Software: {}.", named.join(", "))))
}

/// The settings before the first step.
fn original(workload: &Workload) -> String {
    let topic = workload.topic_config.iter().map(|(name, value)| format!(", {name}={value}"));
    let topic: String = topic.collect();
    let topic = format!("partitions={}, compression={}{topic}", workload.partitions, workload.compression);
    let (Engine::Librdkafka { settings } | Engine::Command { settings, .. }) = &workload.engine else {
        return format!("Original settings: {topic}, {}.", workload.engine.name());
    };
    let own: String = settings.iter().map(|(name, value)| format!(", {name}={value}")).collect();
    format!("Original settings: {topic}{own}. All other settings are the client's defaults.")
}

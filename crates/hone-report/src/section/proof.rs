//! Steps of a proof: the table with a column for each, and what was decided of each.

use hone_record::{BatchState, Comparison, Estimate, Proof, ProofStep, Replica, TopicFigures};

use super::{absent, paragraph, section};
use crate::quantity::{self, NONE};
use crate::table::{Cell, Column, Table, lines};
use crate::tree::{Element, Markup, el};

/// Rows that are quantiles of the latency.
const QUANTILES: [(&str, f64); 6] = hone_record::STORY_QUANTILES;

/// The topic that the load was taken from, beside what the load made of a test topic.
pub(crate) fn replica(found: &Replica) -> Element {
    let titles = ["topic today", "replica here", "difference"];
    let mut columns = vec![Column::words("over the recorded stretch")];
    columns.extend(titles.map(|title| Column::numbers(Markup::text(title))));
    let mut table = Table::new("Replica", columns);
    let mut row = |name: &str, of: fn(&TopicFigures) -> f64| {
        let (today, here) = (of(&found.today), of(&found.here));
        let cells =
            [quantity::significant(today), quantity::significant(here), quantity::change(here / today)];
        table.row(Markup::text(name), cells.map(|cell| Cell::number(&cell)).into());
    };
    row("records a second", |figures| figures.records_per_s);
    row("bytes a second", |figures| figures.bytes_per_s);
    row("batches a second", |figures| figures.batches_per_s);
    row("bytes a batch", TopicFigures::bytes_per_batch);
    row("records a batch", TopicFigures::records_per_batch);
    let producers = |figures: &TopicFigures| {
        let least = if figures.may_be_more { "at least " } else { "" };
        Cell::number(&format!("{least}{}", quantity::count(figures.producers)))
    };
    let counts = vec![producers(&found.today), producers(&found.here), Cell::number(NONE)];
    table.row(Markup::text("producers"), counts);
    let limit = 100.0 * Replica::LIKE;
    let verdict = match found.is_like() {
        true => format!("Records, bytes and batches a second differ by no more than {limit:.0} %."),
        false => format!(
            "The replica is not like the topic, by more than {limit:.0} % in {}. The steps were proved on it all the same.",
            found.differences().iter().map(|figure| figure.what).collect::<Vec<_>>().join(", ")
        ),
    };
    section("replica", &format!("The load, and topic {}", found.topic))
        .child(table.finish())
        .child(paragraph(&verdict))
        .children(found.reasons.iter().map(|reason| paragraph(reason)))
}

/// The table of all states.
pub(crate) fn states(proof: &Proof) -> Element {
    let section = section("states", "State by state");
    let Some(first) = proof.steps.iter().find(|step| step.comparison.is_some()) else {
        return section.child(absent("No step was measured to its end, so there are no figures."));
    };
    let mut columns =
        vec![Column::words("all windows of a state"), Column::numbers(Markup::text("original"))];
    columns.extend(
        proof.steps.iter().map(|step| Column::numbers(lines([step.change.as_str(), step.outcome()]))),
    );
    let climbs = proof.workload.climb().is_some();
    let mut table = Table::new("States", columns);
    let states: Vec<&BatchState> =
        std::iter::once(&first.before).chain(proof.steps.iter().map(|step| &step.after)).collect();
    let mut row = |name: &str, cell: &dyn Fn(&BatchState) -> Option<String>, without: &str| {
        let told = |state: &&BatchState| match state.windows {
            0 => "not measured".to_owned(),
            _ => cell(state).unwrap_or_else(|| without.to_owned()),
        };
        table.row(Markup::text(name), states.iter().map(|state| Cell::number(&told(state))).collect());
    };
    let unknown = "not known";
    if !climbs {
        figures(&mut row, unknown);
    }
    row("windows", &|state| Some(quantity::count(state.windows.into())), unknown);
    if climbs {
        table.row_of_class("primary", Markup::text("capacity, requests/s"), capacities(proof, first));
    }
    section.child(table.finish()).child(paragraph(if climbs { OF_A_CLIMB } else { OF_A_LOAD }))
}

const OF_A_LOAD: &str = "Latency runs from the time a record was due to its acknowledgement; its percentiles are of all windows of a column together. Columns were measured one after the other; only each step \
     against its own state before, in pairs of windows, is judged.";
const OF_A_CLIMB: &str = "Columns were measured one after the other; only each step against its own state before, in pairs of windows, is judged. \
     Other figures are not told: each window climbs to where the promise breaks, so no two had the same load.";

/// Adds a row of a figure by its name, with what stands where it is not known.
type Row<'a> = dyn FnMut(&str, &dyn Fn(&BatchState) -> Option<String>, &str) + 'a;

/// What the states under one load have been seen to do.
fn figures(row: &mut Row<'_>, unknown: &str) {
    for (name, quantile) in QUANTILES {
        row(name, &|state| state.latency_us(quantile).map(quantity::time_us), "too few samples");
    }
    row("CPU, cores", &|state| state.cores().map(quantity::significant), unknown);
    row("CPU a record", &|state| state.cpu_us_per_record().map(quantity::time_us), unknown);
    row("network sent a second", &|state| Some(quantity::throughput(state.sent_bytes_per_s()?)), unknown);
    row("requests a second", &|state| state.requests_per_s().map(quantity::significant), unknown);
    row("batches a second", &|state| state.batches_per_s().map(quantity::significant), unknown);
    row("bytes a batch", &|state| state.bytes_per_batch().map(quantity::significant), unknown);
    row("records a batch", &|state| state.records_per_batch().map(quantity::significant), unknown);
    row("backlog, records (median)", &|state| state.backlog_p50.map(quantity::count), unknown);
    row("consumer lag, records", &|state| state.lag_records.map(quantity::count), "no consumers");
}

/// The capacity of each state, as its own comparison has it.
fn capacities(proof: &Proof, first: &ProofStep) -> Vec<Cell> {
    let told = |step: &ProofStep, value: fn(&Estimate) -> f64| {
        let judged = step.comparison.as_ref().and_then(Comparison::primary);
        let value = judged.map(|judged| quantity::significant(value(&judged.estimate)));
        Cell::number(value.as_deref().unwrap_or(NONE))
    };
    let cells = proof.steps.iter().map(|step| told(step, |found| found.value_b));
    std::iter::once(told(first, |found| found.value_a)).chain(cells).collect()
}

/// What was decided of each step, and by what.
pub(crate) fn decisions(proof: &Proof) -> Element {
    let steps = proof.steps.iter().map(|step| {
        let entry = el("li")
            .child(el("strong").text(&format!("{}: {}. ", step.change, step.outcome())))
            .child(Markup::text(&step.why));
        entry.child(el("ul").children(details(step).iter().map(|detail| el("li").text(detail))))
    });
    section("decisions", "Step by step")
        .child(el("ol").children(steps))
        .child(paragraph(&proof.rule))
        .children(proof.limits.iter().map(|limit| paragraph(limit)))
}

fn details(step: &ProofStep) -> Vec<String> {
    let guards = step.guards.iter().map(|guard| {
        format!("{}: {} ({})", guard.rule, if guard.held { "held" } else { "broke" }, guard.seen)
    });
    step.words.iter().cloned().chain(step.promise.iter().cloned()).chain(guards).collect()
}

//! A tuned service: the measurements of the first state, each change with its reason, the kept changes, and their value together.

use hone_record::{BatchState, Hope, Tuned, TunedChange, Tuning, TuningStep};

use super::{absent, ceiling, paragraph, proof, ratio_cell, section};
use crate::prediction::expected_gain;
use crate::quantity::{self, NONE};
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup, el};

/// The measurements of the first state: which part of the system uses the CPU, and for what.
pub(crate) fn first_look(tuning: &Tuning) -> Element {
    let first = &tuning.first;
    let section = section("first-look", "Where the time went, before the first change").detail();
    if first.windows == 0 {
        return section
            .child(absent("The first state was not profiled, so it is unknown where its time went."));
    }
    if tuning.workload.climb().is_some() {
        return section.child(absent(
            "Each window climbs until the SLO breaks. No two had the same load, so only the capacity is reported.",
        ));
    }
    let each = if tuning.workload.engine.operations().is_some() { "operation" } else { "record" };
    section.child(by_part(first, each)).child(seen(first)).child(paragraph(&format!(
        "From an A/A pilot of {} before the first change. Hone chose the first changes by these figures.",
        quantity::counted(first.windows.into(), "window", "windows")
    )))
}

fn by_part(first: &BatchState, each: &str) -> Element {
    let share = first.target_cpu.and_then(|cpu| cpu.user_share);
    match (first.cpu_us_per_record(), share) {
        (Some(us), Some(share)) => el("div").class("ceiling").child(ceiling::parts(us, share, each)),
        (Some(us), None) => paragraph(&format!(
            "{} of the target’s CPU per {each}. The split into its own code and the kernel is unknown, \
             because there was too little CPU time.",
            quantity::time_us(us)
        )),
        (None, _) => absent("The target’s CPU is unknown: its process is not on this machine, or not named."),
    }
}

fn seen(first: &BatchState) -> Element {
    let mut table = Table::facts("Measurements");
    let mut fact = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            table.fact(name, &value);
        }
    };
    let records_per_s = (first.seconds > 0.0).then(|| first.acked_records as f64 / first.seconds);
    fact("CPU, cores", first.cores().map(quantity::significant));
    fact("records per second", records_per_s.map(quantity::significant));
    fact("requests per second", first.requests_per_s().map(quantity::significant));
    fact("records per batch", first.records_per_batch().map(quantity::significant));
    fact("bytes per batch", first.bytes_per_batch().map(quantity::significant));
    fact("batches per second", first.batches_per_s().map(quantity::significant));
    fact("network sent per second", first.sent_bytes_per_s().map(quantity::throughput));
    for (name, quantile) in [("p50, all windows together", 0.5), ("p99, all windows together", 0.99)] {
        fact(name, first.latency_us(quantile).map(quantity::time_us));
    }
    fact("consumer lag, records", first.lag_records.map(quantity::count));
    table.finish()
}

/// The expected gain of each change, what was measured, alone and with the others in place, and its fate.
pub(crate) fn choices(tuning: &Tuning) -> Element {
    let tuned = Tuned::from_tuning(tuning);
    let columns = vec![
        Column::words("change"),
        Column::numbers(Markup::text("expected gain")),
        Column::numbers(Markup::text("ratio and interval")),
        Column::numbers(Markup::text("with the others in place")),
        Column::words("in the end"),
    ];
    let mut table = Table::new(CHOICES, columns).class("scroll choices").remark(
        "In the order of time. The ratio compares a change with all changes that were kept before it. With \
         the others in place, it compares all kept changes with all but this one. A ratio below 1 means less \
         of the objective.",
    );
    tuned.changes.iter().for_each(|change| table.row(title(change), cells(change)));
    if let Some(product) = tuned.product {
        let row = [NONE, NONE, &quantity::ratio(product), NONE].map(Cell::number).into();
        table.row(Markup::text("the product of these"), row);
    }
    if let Some(all) = tuned.all {
        let [gain, among, end] = [(); 3].map(|()| Cell::number(NONE));
        let row = vec![gain, ratio_cell(Some(all)), among, end];
        table.row_of_class("primary", Markup::text("all kept changes, compared with the first state"), row);
    }
    section("choices", CHOICES).detail().child(table.finish())
}

const CHOICES: &str = "Change by change";

fn title(change: &TunedChange) -> Markup {
    Markup::text(&change.change).with(el("span").class("small path").text(change.altitude.label()))
}

fn gain(hope: &Hope) -> Cell {
    match hope.is_unsaid {
        true => Cell::number("unknown"),
        false => Cell::number(&quantity::chosen_percent(hope.share)),
    }
}

fn cells(change: &TunedChange) -> Vec<Cell> {
    vec![
        gain(&change.hope),
        ratio_cell(change.ratio),
        ratio_cell(change.among),
        Cell::text(&change.in_the_end),
    ]
}

/// Whether the gains compose, and the fate of each change with the others in place.
pub(crate) fn together(tuning: &Tuning) -> Option<Element> {
    let together = tuning.together.as_ref()?;
    let all = together.sentence().map(|told| paragraph(&told));
    let fates = together.in_the_end().into_iter().map(|(change, _, fate, why)| {
        el("li").child(el("strong").text(&format!("{change}: {fate}. "))).text(why)
    });
    let list = el("ul").children(fates);
    Some(section("together", "All kept changes together").detail().children(all).child(list))
}

/// Why each change was tried, and why it was kept or not.
pub(crate) fn decisions(tuning: &Tuning) -> Element {
    let steps = tuning.steps.iter().map(|step| {
        let remark = format!(" ({})", step.altitude.label());
        proof::decision(&step.step, &remark, reasons(step))
    });
    section("decisions", "Step by step").detail().child(el("ol").children(steps))
}

fn reasons(step: &TuningStep) -> Vec<String> {
    let mut reasons = vec![format!("tried because {}; {}", step.hope.why, expected_gain(&step.hope))];
    if !step.passed_over.is_empty() {
        reasons.push(format!("next in line: {}", step.passed_over.join("; ")));
    }
    reasons
}

/// How to make the kept changes permanent.
pub(crate) fn to_keep(tuning: &Tuning) -> Option<Element> {
    let lines = tuning.to_keep.iter().map(|line| el("li").text(line));
    (!tuning.to_keep.is_empty()).then(|| {
        section("to-keep", "To make the changes permanent")
            .child(paragraph("Hone restored all settings when the run ended."))
            .child(el("ul").children(lines))
    })
}

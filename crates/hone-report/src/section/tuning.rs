//! A service that was tuned: what was seen, tried and why, what was kept, and what that is worth together.

use hone_record::{BatchState, Hope, Tuned, TunedChange, Tuning};

use super::{absent, ceiling, paragraph, section};
use crate::quantity::{self, NONE};
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup, el};

/// What the look at the first state has seen: by which part of the system the CPU goes, and what of.
pub(crate) fn first_look(tuning: &Tuning) -> Element {
    let first = &tuning.first;
    let section = section("first-look", "Where the time went, before the first change");
    if first.windows == 0 {
        return section
            .child(absent("The first state was not looked at, so where its time went is not known."));
    }
    if tuning.workload.climb().is_some() {
        return section.child(absent(
            "Each window climbs to where the promise breaks. No two had the same load, so no figure of them is told but the capacity.",
        ));
    }
    let each = if tuning.workload.engine.operations().is_some() { "operation" } else { "record" };
    section.child(by_part(first, each)).child(seen(first)).child(paragraph(&format!(
        "By an A/A pilot of {} before anything was changed. From these figures the first changes were chosen.",
        quantity::counted(first.windows.into(), "window", "windows")
    )))
}

fn by_part(first: &BatchState, each: &str) -> Element {
    let share = first.target_cpu.and_then(|cpu| cpu.user_share);
    match (first.cpu_us_per_record(), share) {
        (Some(us), Some(share)) => el("div").class("ceiling").child(ceiling::parts(us, share, each)),
        (Some(us), None) => paragraph(&format!(
            "{} of the target’s CPU a {each}. How much of it is its own code and how much the kernel’s is not known: there was too little of it \
             to tell.",
            quantity::time_us(us)
        )),
        (None, _) => {
            absent("The target’s CPU is not known: its process is not on this machine, or not named.")
        }
    }
}

fn seen(first: &BatchState) -> Element {
    let mut table = Table::facts("What was seen");
    let mut fact = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            table.fact(name, &value);
        }
    };
    let records_per_s = (first.seconds > 0.0).then(|| first.acked_records as f64 / first.seconds);
    fact("CPU, cores", first.cores().map(quantity::significant));
    fact("records a second", records_per_s.map(quantity::significant));
    fact("requests a second", first.requests_per_s().map(quantity::significant));
    fact("records a batch", first.records_per_batch().map(quantity::significant));
    fact("bytes a batch", first.bytes_per_batch().map(quantity::significant));
    fact("batches a second", first.batches_per_s().map(quantity::significant));
    fact("network sent a second", first.sent_bytes_per_s().map(quantity::throughput));
    for (name, quantile) in [("p50, all windows together", 0.5), ("p99, all windows together", 0.99)] {
        fact(name, first.latency_us(quantile).map(quantity::time_us));
    }
    fact("consumer lag, records", first.lag_records.map(quantity::count));
    table.finish()
}

/// Why each change was tried, what was hoped of it, what came, and what it is worth beside the others.
pub(crate) fn choices(tuning: &Tuning) -> Element {
    let told = Tuned::from_tuning(tuning);
    let columns = vec![
        Column::words("change"),
        Column::words("why"),
        Column::numbers(Markup::text("hoped to save")),
        Column::numbers(Markup::text("ratio and interval")),
        Column::numbers(Markup::text("beside the others")),
        Column::words("in the end"),
    ];
    let mut table = Table::new("Choices", columns).class("scroll choices").remark(
        "In the order of time. The ratio is to what was kept until then; beside the others, of all that was kept to all but this one. Below 1 is \
         less of the objective.",
    );
    told.changes.iter().for_each(|change| table.row(title(change), cells(change)));
    if let Some(product) = told.product {
        let row = [NONE, NONE, NONE, &quantity::ratio(product), NONE].map(Cell::number).into();
        table.row(Markup::text("the product of these"), row);
    }
    if let Some(all) = told.all {
        let [why, hope, among, end] = [(); 4].map(|()| Cell::number(NONE));
        let row = vec![why, hope, ratio(Some(all)), among, end];
        table.row_of_class("primary", Markup::text("all that was kept, against the first state"), row);
    }
    section("choices", "What was tried, and why")
        .child(table.finish())
        .child(paragraph(&format!("It ended because {}.", tuning.stopped)))
}

fn title(change: &TunedChange) -> Markup {
    Markup::text(&change.change).with(el("span").class("small path").text(change.altitude.label()))
}

fn hoped(hope: &Hope) -> Cell {
    match hope.is_unsaid {
        true => Cell::number("not said"),
        false => Cell::number(&format!("{} %", quantity::significant(hope.share * 100.0))),
    }
}

fn cells(change: &TunedChange) -> Vec<Cell> {
    vec![
        Cell::text(&change.hope.why),
        hoped(&change.hope),
        ratio(change.ratio),
        ratio(change.among),
        Cell::text(&change.in_the_end),
    ]
}

fn ratio(found: Option<[f64; 3]>) -> Cell {
    let Some([ratio, low, high]) = found else { return Cell::number(NONE) };
    let interval = format!("[{}, {}]", quantity::ratio(low), quantity::ratio(high));
    Cell::numbers(Markup::text(&quantity::ratio(ratio)).with(el("span").class("small word").text(&interval)))
}

/// Whether the gains compose, and what became of each change beside the others.
pub(crate) fn together(tuning: &Tuning) -> Option<Element> {
    let together = tuning.together.as_ref()?;
    let all = together.sentence().map(|told| paragraph(&told));
    let columns = vec![
        Column::words("change"),
        Column::numbers(Markup::text("all against all but this")),
        Column::words("in the end"),
        Column::words("by the comparator"),
    ];
    let mut table = Table::new("Without each", columns);
    for (change, step, fate, why) in together.in_the_end() {
        let worth = step.worth_in_words().unwrap_or_else(|| "not measured".to_owned());
        let cells = vec![Cell::number(&worth), Cell::text(fate), Cell::text(why)];
        table.row(Markup::text(change), cells);
    }
    Some(section("together", "What it is worth together").children(all).child(table.finish()))
}

/// How to make it last.
pub(crate) fn to_keep(tuning: &Tuning) -> Option<Element> {
    let lines = tuning.to_keep.iter().map(|line| el("li").text(line));
    (!tuning.to_keep.is_empty()).then(|| {
        section("to-keep", "To make it last")
            .child(paragraph("The run put everything back."))
            .child(el("ul").children(lines))
    })
}

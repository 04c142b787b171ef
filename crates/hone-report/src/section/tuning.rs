//! A service that was tuned: what was tried and why, what was kept, and what that is worth together.

use hone_record::{Comparison, ProofStep, Tuning};

use super::{paragraph, section};
use crate::escape::{Element, Markup, el};
use crate::quantity;
use crate::table::{Cell, Column, Table};

/// What it came to.
pub(crate) fn sentence(tuning: &Tuning) -> String {
    let what = tuning.objective.label();
    if tuning.kept.is_empty() {
        return format!("{} changes were tried for {what}, and none was shown to help.", tuning.steps.len());
    }
    let worth = tuning
        .worth()
        .and_then(ratio)
        .map_or(String::new(), |worth| format!("{what} is {worth} of what it was. "));
    format!("{worth}Kept, of {} that were tried: {}.", tuning.steps.len(), tuning.kept.join("; "))
}

fn ratio(step: &ProofStep) -> Option<String> {
    let estimate = &step.comparison.as_ref().and_then(Comparison::primary)?.estimate;
    Some(format!("{:.3} [{:.3}, {:.3}]", estimate.ratio, estimate.low, estimate.high))
}

/// Why each change was tried, what was hoped of it, and what came.
pub(crate) fn choices(tuning: &Tuning) -> Element {
    let columns = vec![
        Column::words("change"),
        Column::words("where"),
        Column::words("why"),
        Column::numbers(Markup::text("hoped to save")),
        Column::numbers(Markup::text("ratio")),
        Column::words("decision"),
    ];
    let mut table = Table::new("Choices", columns);
    for step in &tuning.steps {
        let cells = vec![
            Cell::text(step.altitude.label()),
            Cell::text(&step.hope.why),
            Cell::number(&format!("{} %", quantity::significant(step.hope.share * 100.0))),
            Cell::number(&ratio(&step.step).unwrap_or_else(|| "not measured".to_owned())),
            Cell::text(step.step.decision.label()),
        ];
        table.row(Markup::text(&step.step.change), cells);
    }
    section("choices", "What was tried, and why").child(table.finish()).child(paragraph(&format!(
        "It ended because {}. A ratio below 1 is less of the objective.",
        tuning.stopped
    )))
}

/// Whether the wins compose.
pub(crate) fn together(tuning: &Tuning) -> Option<Element> {
    let together = tuning.together.as_ref()?;
    let all = together.all.as_ref().and_then(ratio).map(|worth| {
        paragraph(&format!(
            "All that was kept against the first state: {worth}. The product of the single ratios is {:.3}; what is lost between the two are \
             gains that the changes share.",
            together.product
        ))
    });
    let columns = vec![
        Column::words("change"),
        Column::numbers(Markup::text("all against all but this")),
        Column::words("in the end"),
        Column::words("by the comparator"),
    ];
    let mut table = Table::new("Without each", columns);
    for step in &together.without {
        let kept = if tuning.kept.contains(&step.change) { "kept" } else { "put back" };
        let cells = vec![
            Cell::number(&ratio(step).unwrap_or_else(|| "not measured".to_owned())),
            Cell::text(kept),
            Cell::text(&step.why),
        ];
        table.row(Markup::text(&step.change), cells);
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

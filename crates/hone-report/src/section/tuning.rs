//! A service that was tuned: what was tried and why, what was kept, and what that is worth together.

use hone_record::Tuning;

use super::{paragraph, section};
use crate::escape::{Element, Markup, el};
use crate::quantity;
use crate::table::{Cell, Column, Table};

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
            Cell::number(&step.step.worth_in_words().unwrap_or_else(|| "not measured".to_owned())),
            Cell::text(step.step.outcome()),
        ];
        table.row(Markup::text(&step.step.change), cells);
    }
    section("choices", "What was tried, and why").child(table.finish()).child(paragraph(&format!(
        "It ended because {}. A ratio below 1 is less of the objective.",
        tuning.stopped
    )))
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

//! The steps of a run with their commands.

use hone_record::StepReceipt;

use super::{absent, command, section};
use crate::quantity;
use crate::tree::{Element, el};

/// The section.
pub(crate) fn of(steps: &[StepReceipt]) -> Element {
    let section = section("steps", "Steps and commands").detail();
    if steps.is_empty() {
        return section.child(absent("The record holds no step."));
    }
    let total: f64 = steps.iter().map(|step| step.took_s).filter(|took| took.is_finite()).sum();
    section
        .child(el("p").text(&format!(
            "{} in {} in total.",
            quantity::counted(steps.len() as u64, "step", "steps"),
            quantity::duration(total)
        )))
        .child(el("ol").class("steps").children(steps.iter().map(step)))
}

fn step(step: &StepReceipt) -> Element {
    let head = el("p")
        .child(el("b").text(&step.step))
        .child(el("span").class("took").text(&quantity::duration(step.took_s)))
        .child(el("span").class("note").text(&step.note));
    el("li").child(head).children(step.command.as_deref().map(command))
}

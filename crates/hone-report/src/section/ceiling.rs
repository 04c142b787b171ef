//! How much a build could bring at most.

use hone_record::{Ceiling, Comparison, Workload};

use super::{absent, section};
use crate::quantity;
use crate::tree::{Element, Markup, el};

/// The section; the comparisons know what each workload counts. One that none was judged with counts as the training does: the
/// loads of a target are of one kind.
pub(crate) fn of(ceilings: &[Ceiling], comparisons: &[Comparison], training: &Workload) -> Element {
    let section = section("ceiling", "What a build could bring at most");
    if ceilings.is_empty() {
        return section.child(absent(
            "The ceiling was not probed, so how much of the CPU a build can change is not known.",
        ));
    }
    let counts_operations = |name: &str| {
        let load = comparisons.iter().map(|comparison| &comparison.workload).find(|load| load.name == name);
        load.unwrap_or(training).engine.operations().is_some()
    };
    section.children(
        ceilings.iter().map(|found| {
            ceiling(found, if counts_operations(&found.workload) { "operation" } else { "record" })
        }),
    )
}

/// Of loads of which only the names are known; none where nothing was probed.
pub(crate) fn of_loads(ceilings: &[Ceiling]) -> Option<Element> {
    let each = || ceilings.iter().map(|found| ceiling(found, "record"));
    let title = "Where the CPU goes, and what a build could bring at most";
    (!ceilings.is_empty()).then(|| section("ceiling", title).children(each()))
}

fn ceiling(ceiling: &Ceiling, each: &str) -> Element {
    el("div")
        .class("ceiling")
        .child(el("h3").text(&ceiling.workload))
        .child(parts(ceiling.cpu_us_per_record, ceiling.user_share, each))
        .child(el("p").text(&ceiling.words))
}

/// What is the target's own, and what the kernel's, as a bar and in words.
pub(crate) fn parts(cpu_us: f64, user_share: f64, each: &str) -> Markup {
    let share = if user_share.is_finite() { user_share.clamp(0.0, 1.0) } else { 0.0 };
    let figures = format!(
        "{} CPU per {each}: {} the target's user code, libraries with it, {} the kernel's.",
        quantity::time_us(cpu_us),
        quantity::percent(share),
        quantity::percent(1.0 - share)
    );
    Markup::default().with(bar(share)).with(el("p").text(&figures))
}

/// User share filled, the kernel's hatched empty; decoration, the sentence below says it.
fn bar(share: f64) -> Element {
    let width = format!("{:.1}", share * 100.0);
    let rect = |class, width: &str| el("rect").class(class).attr("width", width).attr("height", 4);
    el("svg")
        .class("bar")
        .attr("viewBox", "0 0 100 4")
        .attr("preserveAspectRatio", "none")
        .attr("aria-hidden", "true")
        .child(rect("kernel", "100"))
        .child(rect("user", &width))
}

//! How much a build could bring at most.

use hone_record::Ceiling;

use super::{absent, section};
use crate::escape::{Element, el};
use crate::quantity;

/// The section.
pub(crate) fn of(ceilings: &[Ceiling]) -> Element {
    let section = section("ceiling", "What a build could bring at most");
    if ceilings.is_empty() {
        return section.child(absent(
            "The ceiling was not probed, so how much of the CPU a build can change is not known.",
        ));
    }
    section.children(ceilings.iter().map(ceiling))
}

fn ceiling(ceiling: &Ceiling) -> Element {
    let share = if ceiling.user_share.is_finite() { ceiling.user_share.clamp(0.0, 1.0) } else { 0.0 };
    let figures = format!(
        "{} CPU per record: {} the target's own user code, {} the kernel's.",
        quantity::time_us(ceiling.cpu_us_per_record),
        quantity::share(share),
        quantity::share(1.0 - share)
    );
    el("div")
        .class("ceiling")
        .child(el("h3").text(&ceiling.workload))
        .child(bar(share))
        .child(el("p").text(&figures))
        .child(el("p").text(&ceiling.words))
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

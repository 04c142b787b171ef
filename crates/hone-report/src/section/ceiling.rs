//! The largest possible gain of a build.

use hone_record::{Ceiling, Comparison, Workload};

use super::{absent, section};
use crate::quantity;
use crate::tree::{Element, Markup, el};

/// The section. The comparisons say what each workload counts. A workload without a comparison counts like the training, because
/// the loads of a target are of one kind.
pub(crate) fn of(ceilings: &[Ceiling], comparisons: &[Comparison], training: &Workload) -> Element {
    let section = section("ceiling", "Largest possible gain of a build");
    if ceilings.is_empty() {
        return section.child(absent(
            "Hone did not probe the ceiling. So it is unknown how much of the CPU a build can change.",
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

/// The same for loads that are known by name only. `None` when nothing was probed.
pub(crate) fn of_loads(ceilings: &[Ceiling]) -> Option<Element> {
    let each = || ceilings.iter().map(|found| ceiling(found, "record"));
    let title = "Where the CPU goes, and the largest possible gain of a build";
    (!ceilings.is_empty()).then(|| section("ceiling", title).children(each()))
}

fn ceiling(ceiling: &Ceiling, each: &str) -> Element {
    el("div")
        .class("ceiling")
        .child(el("h3").text(&ceiling.workload))
        .child(parts(ceiling.cpu_us_per_record, ceiling.user_share, each))
        .child(el("p").text(&ceiling.words))
}

/// The CPU of the target itself and of the kernel, as a bar and in words.
pub(crate) fn parts(cpu_us: f64, user_share: f64, each: &str) -> Markup {
    let share = if user_share.is_finite() { user_share.clamp(0.0, 1.0) } else { 0.0 };
    let figures = format!(
        "{} CPU per {each}: {} in user code of the target and its libraries, {} in the kernel.",
        quantity::time_us(cpu_us),
        quantity::percent(share),
        quantity::percent(1.0 - share)
    );
    Markup::default().with(bar(share)).with(el("p").text(&figures))
}

/// The filled part is the user share, the hatched rest is the kernel's. The bar is decoration: the sentence below states the
/// figures.
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

//! What was compared, and how it was laid out: the change, the builds, the budget, the rule for neighbours.

use hone_record::{Comparison, Pilot};

use super::{paragraph, section};
use crate::escape::{Element, el};
use crate::quantity;

/// Of a comparison; nothing when two targets were compared without builds, budget or rule.
pub(crate) fn of(comparison: &Comparison) -> Option<Element> {
    let design = &comparison.design;
    let mut facts = Vec::new();
    if let Some(change) = &comparison.change {
        facts.push(format!("{} is {} with one change, {}.", comparison.b, comparison.a, change.label()));
    }
    if design.has_several_builds() {
        let [a, b] = design.builds;
        facts.push(format!(
            "{a} builds of {}, {b} of {}; the intervals rest on them.",
            comparison.a, comparison.b
        ));
    }
    facts.extend(comparison.one_layout_words());
    if design.starts > 0 {
        let rests = if design.has_several_builds() {
            "the intervals of the control rest"
        } else {
            "the intervals rest"
        };
        facts.push(format!(
            "{} starts of the processes, each for several pairs; {rests} on them.",
            design.starts
        ));
    }
    facts.extend(comparison.pilot.as_ref().map(promised));
    facts.extend(design.budget.as_ref().map(|budget| budget.words.clone()));
    if comparison.unmeasured_pairs > 0 {
        facts.push(format!("The clock left out {} of the planned pairs.", comparison.unmeasured_pairs));
    }
    facts.extend(design.control_limits().map(str::to_owned));
    facts.extend(design.disturbance.as_ref().map(|rule| rule.words.clone()));
    let list = || el("ul").children(facts.iter().map(|fact| el("li").text(fact)));
    (!facts.is_empty()).then(|| {
        section("design", "How it was laid out")
            .child(paragraph("Fixed before the first A/B window, in design.json of the run's folder."))
            .child(list())
    })
}

fn promised(pilot: &Pilot) -> String {
    if let Some(why) = &pilot.no_promise {
        return format!("Nothing was promised: {why}.");
    }
    let percent = |ratio: f64| format!("{} %", quantity::change_points((ratio - 1.0) * 100.0));
    let promise = |promise: &hone_record::Promise| match promise.detectable_ratio {
        Some(ratio) => format!("{} {}", promise.metric.label(), percent(ratio)),
        None => format!("{} nothing", promise.metric.label()),
    };
    let promises: Vec<String> = pilot.metrics.iter().map(promise).collect();
    format!(
        "Promised from a pilot of {} A/A pairs, as the smallest effects that would be found in four of five runs: {}.",
        pilot.pairs,
        promises.join(", ")
    )
}

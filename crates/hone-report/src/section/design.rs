//! The experiment design: the change, the builds, the budget, the rule for neighbours.

use hone_record::{Comparison, Metric, Pilot};

use super::{paragraph, section};
use crate::quantity;
use crate::tree::{Element, el};

/// The design of a comparison. `None` when it compared two targets without builds, budget or rule.
pub(crate) fn of(comparison: &Comparison) -> Option<Element> {
    let design = &comparison.design;
    let mut facts = Vec::new();
    if let Some(change) = &comparison.change {
        facts.push(format!("{} is {} with one change: {}.", comparison.b, comparison.a, change.label()));
    }
    facts.extend(spread(comparison));
    facts.extend(comparison.one_layout_words());
    facts.extend(comparison.pilot.as_ref().map(promised));
    facts.extend(design.budget.as_ref().map(|budget| budget.words.clone()));
    if comparison.unmeasured_pairs > 0 {
        facts.push(format!("The time limit cut {} of the planned pairs.", comparison.unmeasured_pairs));
    }
    facts.extend(unmet(comparison));
    facts.extend(design.control_limits().map(str::to_owned));
    facts.extend(design.disturbance.as_ref().map(|rule| rule.words.clone()));
    let list = || el("ul").children(facts.iter().map(|fact| el("li").text(fact)));
    (!facts.is_empty()).then(|| {
        section("design", "Experiment design")
            .detail()
            .child(paragraph("Fixed before the first A/B window, in design.json of the run's folder."))
            .child(list())
    })
}

/// How much the primary metric varies between builds or starts, and between pairs of one, and what the interval is based on.
fn spread(comparison: &Comparison) -> Option<String> {
    let design = &comparison.design;
    let primary = comparison.primary().and_then(|primary| Some((primary, primary.estimate.builds?)));
    if let Some((primary, starts)) = primary.filter(|_| design.starts > 0 && !design.has_several_builds()) {
        return Some(format!(
            "Hone started the processes {} times, each for several pairs. {} varies by {:.1} % between \
             starts and by {:.1} % between pairs of one start (standard deviations). The interval is based \
             on the starts.",
            starts.blocks,
            comparison.label(primary.estimate.metric),
            starts.between_log_sd * 100.0,
            starts.within_log_sd * 100.0
        ));
    }
    if let Some((primary, builds)) = primary {
        let mut line = format!(
            "{} builds of {}, {} of {}. {} varies by {:.1} % between builds and by {:.1} % between pairs of \
             one build (standard deviations). The interval is based on {} blocks of builds.",
            design.builds[0],
            comparison.a,
            design.builds[1],
            comparison.b,
            comparison.label(primary.estimate.metric),
            builds.between_log_sd * 100.0,
            builds.within_log_sd * 100.0,
            builds.blocks
        );
        if let Some(single) =
            ["A", "B"].iter().zip(design.builds).find_map(|(name, count)| (count == 1).then_some(name))
        {
            line.push_str(&format!(
                " {single} is a single build, so the interval does not include its variation between builds."
            ));
        }
        return Some(line);
    }
    let [a, b] = design.builds;
    design.has_several_builds().then(|| {
        format!(
            "{a} builds of {}, {b} of {}. The intervals are based on these builds.",
            comparison.a, comparison.b
        )
    })
}

/// What pairs can't say about a tail: an event that occurred in none of their windows.
fn unmet(comparison: &Comparison) -> Option<String> {
    let rule = &comparison.design.rule;
    let tail = |metric: &Metric| {
        matches!(metric, Metric::LatencyP99 | Metric::LatencyP999 | Metric::LatencyMax)
            && (*metric == rule.primary || rule.guards.contains(metric))
    };
    let of_tails =
        comparison.judgements.iter().map(|found| &found.estimate).filter(|found| tail(&found.metric));
    let pairs = of_tails.map(|found| found.pairs).min()?;
    let none_in = |windows: f64| 100.0 * (1.0 - 1.0 / windows).powi(pairs as i32);
    Some(format!(
        "Tail latency depends on rare events. An event in one of 5 windows is missing from all of {pairs} \
         with a probability of {:.0} %, one in 10 windows with {:.0} %, one in 20 windows with {:.0} %. The \
         interval does not include events that no window contains.",
        none_in(5.0),
        none_in(10.0),
        none_in(20.0)
    ))
}

fn promised(pilot: &Pilot) -> String {
    if let Some(why) = &pilot.no_promise {
        return format!("There is no power prediction: {why}.");
    }
    let percent = |ratio: f64| format!("{} %", quantity::change_points((ratio - 1.0) * 100.0));
    let promise = |promise: &hone_record::Promise| match promise.detectable_ratio {
        Some(ratio) => format!("{} {}", promise.metric.label(), percent(ratio)),
        None => format!("{} none", promise.metric.label()),
    };
    let promises: Vec<String> = pilot.metrics.iter().map(promise).collect();
    format!(
        "Predicted from a pilot of {} A/A pairs, as the smallest effects that four of five runs find: {}.",
        pilot.pairs,
        promises.join(", ")
    )
}

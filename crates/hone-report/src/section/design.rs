//! What was compared, and how it was laid out: the change, the builds, the budget, the rule for neighbours.

use hone_record::{Comparison, Metric, Pilot};

use super::{paragraph, section};
use crate::quantity;
use crate::tree::{Element, el};

/// Of a comparison; nothing when two targets were compared without builds, budget or rule.
pub(crate) fn of(comparison: &Comparison) -> Option<Element> {
    let design = &comparison.design;
    let mut facts = Vec::new();
    if let Some(change) = &comparison.change {
        facts.push(format!("{} is {} with one change, {}.", comparison.b, comparison.a, change.label()));
    }
    facts.extend(spread(comparison));
    facts.extend(comparison.one_layout_words());
    facts.extend(comparison.pilot.as_ref().map(promised));
    facts.extend(design.budget.as_ref().map(|budget| budget.words.clone()));
    if comparison.unmeasured_pairs > 0 {
        facts.push(format!("The clock left out {} of the planned pairs.", comparison.unmeasured_pairs));
    }
    facts.extend(unmet(comparison));
    facts.extend(design.control_limits().map(str::to_owned));
    facts.extend(design.disturbance.as_ref().map(|rule| rule.words.clone()));
    let list = || el("ul").children(facts.iter().map(|fact| el("li").text(fact)));
    (!facts.is_empty()).then(|| {
        section("design", "How it was laid out")
            .detail()
            .child(paragraph("Fixed before the first A/B window, in design.json of the run's folder."))
            .child(list())
    })
}

/// How far the primary metric moves between builds or starts, and between pairs of one; what the interval rests on.
fn spread(comparison: &Comparison) -> Option<String> {
    let design = &comparison.design;
    let primary = comparison.primary().and_then(|primary| Some((primary, primary.estimate.builds?)));
    if let Some((primary, starts)) = primary.filter(|_| design.starts > 0 && !design.has_several_builds()) {
        return Some(format!(
            "The processes were started {} times, each for several pairs: {} moves by {:.1} % between starts and by {:.1} % \
             between pairs of one start (standard deviations); the interval rests on the starts.",
            starts.blocks,
            comparison.label(primary.estimate.metric),
            starts.between_log_sd * 100.0,
            starts.within_log_sd * 100.0
        ));
    }
    if let Some((primary, builds)) = primary {
        let mut line = format!(
            "{} builds of {}, {} of {}: {} moves by {:.1} % between builds and by {:.1} % between pairs of one build \
             (standard deviations); the interval rests on {} blocks of builds.",
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
            line.push_str(&format!(" {single} is one build, whose own luck the interval does not know."));
        }
        return Some(line);
    }
    let [a, b] = design.builds;
    design.has_several_builds().then(|| {
        format!("{a} builds of {}, {b} of {}; the intervals rest on them.", comparison.a, comparison.b)
    })
}

/// What pairs can't say of a tail: an event that none of their windows met.
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
        "A tail lives on rare events: what happens in one window of 5 is in none of {pairs} with a probability of {:.0} %, in \
         one of 10 with {:.0} %, in one of 20 with {:.0} %; an interval knows nothing of what no window met.",
        none_in(5.0),
        none_in(10.0),
        none_in(20.0)
    ))
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

//! The verdict on a comparison in words, the same in a terminal, in a comment and in a ledger.

use hone_format::{counted, exact_percent, measured, ratio};
use hone_record::{Comparison, Estimate, Metric, Mode, PairKind};

/// The verdict, the figures that carry it, and what qualifies it.
pub fn sentence(comparison: &Comparison) -> String {
    let mut text = format!("{} {}", headline(comparison), of_primary(comparison));
    // With the verdict and not below the table: who reads no further must not take it for a gain.
    if let Some(other) = comparison.other_promise() {
        text.push_str(&format!(" {other}"));
    }
    text.extend(lower_bounds(comparison));
    if let Some(why) = comparison.why_troubles_decide() {
        text.push_str(&format!(" {why}."));
    }
    if comparison.b_does_not_sustain()
        && let Some(trouble) = comparison.last_trouble_of_b()
    {
        text.push_str(&format!(" The last time: {}.", trouble.trim_end_matches('.')));
    }
    for worse in comparison.regressions() {
        let estimate = &worse.estimate;
        let guard = comparison.design.rule.guards.contains(&estimate.metric);
        text.push_str(&format!(
            " {}{} is worse: {} × {} {}.",
            if guard { "Guard metric " } else { "" },
            comparison.label(estimate.metric),
            ratio(estimate.ratio),
            comparison.a,
            interval(estimate)
        ));
    }
    if let Some(more) = comparison.more_failures() {
        text.push_str(&format!(" Guard metric {more}."));
    }
    for unseen in comparison.unseen_guards() {
        text.push_str(&format!(
            " Guard rail not seen: {} could not be estimated or has no usable A/A control, so nothing is called better.",
            comparison.label(unseen)
        ));
    }
    for undecided in comparison.undecided_guards() {
        let estimate = &undecided.estimate;
        let end = if estimate.metric.lower_is_better() { estimate.high } else { estimate.low };
        text.push_str(&format!(
            " Guard rail not decided: {} may be as bad as {} × {}.",
            comparison.label(estimate.metric),
            ratio(end),
            comparison.a
        ));
    }
    text
}

/// `B against A: better.`, or with all that got worse: `B against A: p50 better, p99 worse.`
pub fn headline(comparison: &Comparison) -> String {
    let Comparison { a, b, .. } = comparison;
    if comparison.b_does_not_sustain() {
        return format!("{b} against {a}: worse. {b} does not sustain this load.");
    }
    let regressions = comparison.regressions();
    let mut worse: Vec<&str> =
        regressions.iter().map(|found| comparison.label(found.estimate.metric)).collect();
    worse.extend(comparison.more_failures().map(|_| "error rate"));
    let worse: Vec<String> = worse.iter().map(|label| format!("{label} worse")).collect();
    let worse = worse.join(", ");
    let Some(primary) = comparison.primary() else {
        let metric = comparison.label(comparison.design.rule.primary);
        return match &*worse {
            "" => format!("Not shown: {metric} could not be estimated."),
            worse => format!("{b} against {a}: {worse}, {metric} not estimated."),
        };
    };
    if worse.is_empty() {
        return format!("{b} against {a}: {}.", comparison.verdict().label());
    }
    // What troubles of an arm make of the primary metric is not what its figures say.
    let verdict =
        if comparison.why_troubles_decide().is_some() { comparison.verdict() } else { primary.verdict };
    format!("{b} against {a}: {} {}, {worse}.", comparison.label(primary.estimate.metric), verdict.label())
}

/// That of one arm only a lower bound of the capacity is known: ` B at least 40,000 requests/s, A 31,200.`
fn lower_bounds(comparison: &Comparison) -> Option<String> {
    let bounds = comparison.at_least();
    let estimate = &comparison.primary()?.estimate;
    let climb = comparison.workload.climb().filter(|_| bounds != [false, false])?;
    let side = |side: usize, name: &str, value: f64| {
        format!("{name} {}{} requests/s", if bounds[side] { "at least " } else { "" }, measured(value))
    };
    Some(format!(
        " {}, {}: where it says at least, {} held in every step of a climb.",
        side(1, &comparison.b, estimate.value_b),
        side(0, &comparison.a, estimate.value_a),
        climb.slo.label()
    ))
}

/// Why there is no estimate, without a final point.
fn why_not_estimated(comparison: &Comparison, metric: Metric) -> String {
    let tests = || comparison.pairs.iter().filter(|pair| pair.kind == PairKind::Test);
    match comparison.not_estimated.get(&metric) {
        Some(reason) => reason.trim_end_matches('.').to_owned(),
        None if tests().next().is_none() => "no A/B pair was measured".to_owned(),
        None if tests().all(|pair| pair.dropped.is_some()) => {
            format!("none of the {} counts", counted(tests().count() as u64, "A/B pair", "A/B pairs"))
        }
        None => "the record gives no reason".to_owned(),
    }
}

/// What the primary metric shows.
fn of_primary(comparison: &Comparison) -> String {
    let Some(judgement) = comparison.primary() else {
        let metric = comparison.design.rule.primary;
        return format!("{}: {}.", comparison.label(metric), why_not_estimated(comparison, metric));
    };
    let estimate = &judgement.estimate;
    let counted = format!(
        "{} × {} ({} interval {} to {}, {} {} pairs)",
        ratio(estimate.ratio),
        comparison.a,
        // 97.5 where two loads share the error.
        exact_percent(estimate.confidence),
        ratio(estimate.low),
        ratio(estimate.high),
        estimate.pairs,
        match comparison.design.mode {
            Mode::Duet => "duet",
            Mode::Solo => "solo",
        }
    );
    format!(
        "{} is {}: {counted}; {}.",
        comparison.label(estimate.metric),
        judgement.verdict.label(),
        judgement.why
    )
}

/// `[0.857, 0.882]`: the interval of an estimate, as a table has it beside the ratio.
pub fn interval(estimate: &Estimate) -> String {
    let high = if estimate.high > 100.0 { "> 100".to_owned() } else { ratio(estimate.high) };
    format!("[{}, {high}]", ratio(estimate.low))
}

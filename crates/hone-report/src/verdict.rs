//! The verdict on a comparison in words. The terminal, the comment and the ledger share it.

use hone_format::{counted, exact_percent, measured, ratio};
use hone_record::{Comparison, Estimate, Metric, Mode, NOT_SHOWN_AGAIN, PairKind, Verdict};

/// A decision of a ledger entry for people. The stored value does not change.
pub fn decision_label(stored: &str) -> &str {
    match stored {
        NOT_SHOWN_AGAIN => "not reconfirmed",
        "could not tell" => "inconclusive",
        "put back" | "taken back" => "rolled back",
        "foretold" => "predicted",
        other => other,
    }
}

/// The verdict, the figures that support it, and what qualifies it.
pub fn sentence(comparison: &Comparison) -> String {
    let mut text = format!("{} {}", headline(comparison), of_primary(comparison));
    // This comes with the verdict, not below the table: a reader who stops early must not take the change for
    // a gain.
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
        text.push_str(&format!(" Last failure: {}.", trouble.trim_end_matches('.')));
    }
    for worse in comparison.regressions() {
        let estimate = &worse.estimate;
        let guard = comparison.design.rule.guards.contains(&estimate.metric);
        text.push_str(&format!(
            " Regression: {}{} {} × {} {}.",
            if guard { "guard metric " } else { "" },
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
            " Guard metric unknown: {} has no estimate or no usable A/A control, so the result can't be \
             better.",
            comparison.label(unseen)
        ));
    }
    for undecided in comparison.undecided_guards() {
        let estimate = &undecided.estimate;
        let end = if estimate.metric.lower_is_better() { estimate.high } else { estimate.low };
        text.push_str(&format!(
            " Guard metric inconclusive: {} may be as bad as {} × {}.",
            comparison.label(estimate.metric),
            ratio(end),
            comparison.a
        ));
    }
    text
}

/// The verdict with all regressions: `B against A: better.`, or `B against A: regression in p99; p50 better.`
pub fn headline(comparison: &Comparison) -> String {
    let Comparison { a, b, .. } = comparison;
    if comparison.b_does_not_sustain() {
        return format!("{b} against {a}: regression. {b} does not sustain this load.");
    }
    let regressions = comparison.regressions();
    let mut worse: Vec<&str> =
        regressions.iter().map(|found| comparison.label(found.estimate.metric)).collect();
    worse.extend(comparison.more_failures().map(|_| "error rate"));
    let worse = worse.join(", ");
    let Some(primary) = comparison.primary() else {
        let metric = comparison.label(comparison.design.rule.primary);
        return match &*worse {
            "" => format!("Inconclusive: {metric} could not be estimated."),
            worse => format!("{b} against {a}: regression in {worse}; {metric} not estimated."),
        };
    };
    if worse.is_empty() {
        return format!("{b} against {a}: {}.", headline_word(comparison.verdict()));
    }
    // If the troubles of an arm decide, the figures of the primary metric do not carry the verdict.
    let verdict =
        if comparison.why_troubles_decide().is_some() { comparison.verdict() } else { primary.verdict };
    let label = comparison.label(primary.estimate.metric);
    match verdict {
        Verdict::Worse => format!("{b} against {a}: regression in {label}, {worse}."),
        verdict => format!("{b} against {a}: regression in {worse}; {label} {}.", verdict.label()),
    }
}

/// The verdict as a headline names it.
fn headline_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Worse => "regression",
        verdict => verdict.label(),
    }
}

/// Names the arms whose capacity is only a lower bound: ` B at least 40,000 requests/s, A 31,200.`
fn lower_bounds(comparison: &Comparison) -> Option<String> {
    let bounds = comparison.at_least();
    let estimate = &comparison.primary()?.estimate;
    let climb = comparison.workload.climb().filter(|_| bounds != [false, false])?;
    let side = |side: usize, name: &str, value: f64| {
        format!("{name} {}{} requests/s", if bounds[side] { "at least " } else { "" }, measured(value))
    };
    Some(format!(
        " {}, {}. “At least” means that {} held at every step of the search.",
        side(1, &comparison.b, estimate.value_b),
        side(0, &comparison.a, estimate.value_a),
        climb.slo.label()
    ))
}

/// The reason for a missing estimate, without a full stop.
fn why_not_estimated(comparison: &Comparison, metric: Metric) -> String {
    let tests = || comparison.pairs.iter().filter(|pair| pair.kind == PairKind::Test);
    match comparison.not_estimated.get(&metric) {
        Some(reason) => reason.trim_end_matches('.').to_owned(),
        None if tests().next().is_none() => "no A/B pair was measured".to_owned(),
        None if tests().all(|pair| pair.dropped.is_some()) => {
            format!("none of the {} is usable", counted(tests().count() as u64, "A/B pair", "A/B pairs"))
        }
        None => "the record gives no reason".to_owned(),
    }
}

/// The result of the primary metric.
fn of_primary(comparison: &Comparison) -> String {
    let Some(judgement) = comparison.primary() else {
        let metric = comparison.design.rule.primary;
        return format!("{}: {}.", comparison.label(metric), why_not_estimated(comparison, metric));
    };
    let estimate = &judgement.estimate;
    let counted = format!(
        "{} × {} ({} CI {} to {}, {} {} pairs)",
        ratio(estimate.ratio),
        comparison.a,
        // The confidence is 97.5 % where two loads share the error.
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

/// The interval of an estimate, as a table shows it after the ratio: `[0.857, 0.882]`.
pub fn interval(estimate: &Estimate) -> String {
    let high = if estimate.high > 100.0 { "> 100".to_owned() } else { ratio(estimate.high) };
    format!("[{}, {high}]", ratio(estimate.low))
}

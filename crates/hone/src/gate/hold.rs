//! What follows from comparisons of a head with its base, by limits that were there before. Pure: the comparator's own estimates and
//! verdicts, and no statistic beside them.

use hone_record::{Comparison, GateFinding, GateOutcome, GateState, Judgement, Metric, Verdict};

use crate::experiment::GateWishes;
use crate::show::commit_gate::percent;

/// Pairs in which the head alone had trouble, where no pair counts at all: as many as end a run.
const BROKEN_PAIRS: u32 = 3;

/// All findings of a comparison: the primary metric first, then the guard rails. `line` is where the file asks for this load.
pub(crate) fn findings(comparison: &Comparison, wishes: &GateWishes, line: Option<u32>) -> Vec<GateFinding> {
    let rule = &comparison.design.rule;
    let metrics = std::iter::once(rule.primary).chain(rule.guards.iter().copied());
    let mut found: Vec<GateFinding> = metrics
        .map(|metric| {
            let worse_by = wishes.worse_by.get(&metric).copied().unwrap_or_default();
            let seen = comparison.judgements.iter().find(|judgement| judgement.estimate.metric == metric);
            let finding = GateFinding {
                workload: comparison.workload.name.clone(),
                metric,
                primary: metric == rule.primary,
                worse_by,
                ratio: None,
                values: None,
                detectable_ratio: None,
                verdict: None,
                state: GateState::NotSeen,
                why: comparison.not_estimated.get(&metric).cloned().unwrap_or_default(),
                line,
            };
            seen.map_or(finding.clone(), |judgement| of_judgement(finding, comparison, judgement))
        })
        .collect();
    if let Some((state, why)) = of_troubles(comparison) {
        let is_meant = |finding: &&mut GateFinding| match state {
            // What could not be looked at stays so.
            GateState::NotShown => finding.state != GateState::NotSeen,
            _ => finding.primary,
        };
        for finding in found.iter_mut().filter(is_meant) {
            finding.state = state;
            finding.why.clone_from(&why);
            // What is left of the pairs flatters one of the two.
            finding.detectable_ratio = None;
        }
    }
    found
}

fn of_judgement(finding: GateFinding, comparison: &Comparison, judgement: &Judgement) -> GateFinding {
    let estimate = &judgement.estimate;
    let limit = 1.0 + finding.worse_by;
    let is_blind = comparison.lacks_control(judgement);
    // Growth is what is bad, whichever way the metric goes.
    let (growth, most) = match estimate.metric.lower_is_better() {
        true => (estimate.ratio, estimate.high),
        false => (1.0 / estimate.ratio, 1.0 / estimate.low),
    };
    let state = match judgement.verdict {
        Verdict::Worse if growth >= limit => GateState::Worse,
        Verdict::Worse => GateState::Tolerated,
        Verdict::Better | Verdict::Equivalent => GateState::Held,
        // One was planned, and none of its pairs counts: whatever the head does, no verdict would have been possible.
        Verdict::NotShown if is_blind && judgement.control.is_none() => GateState::NotSeen,
        Verdict::NotShown if most < limit && !is_blind => GateState::Held,
        Verdict::NotShown => GateState::NotShown,
    };
    GateFinding {
        ratio: Some([estimate.ratio, estimate.low, estimate.high]),
        values: Some([estimate.value_a, estimate.value_b]),
        detectable_ratio: (!is_blind).then_some(estimate.detectable_ratio),
        verdict: Some(judgement.verdict),
        state,
        why: judgement.why.clone(),
        ..finding
    }
}

/// What troubles that lean to one side make of all findings.
fn of_troubles(comparison: &Comparison) -> Option<(GateState, String)> {
    if let Some(why) = comparison.why_troubles_decide() {
        let state =
            if comparison.verdict() == Verdict::Worse { GateState::Worse } else { GateState::NotShown };
        return Some((state, why));
    }
    match comparison.lone_troubles() {
        [0, of_head] if of_head >= BROKEN_PAIRS && comparison.primary().is_none() => Some((
            GateState::Worse,
            format!("the head did not stand this load in {of_head} pairs, and the base did in all"),
        )),
        _ => None,
    }
}

/// Of a load that the head did not stand at all.
pub(crate) fn broke_down(
    workload: &str,
    metric: Metric,
    wishes: &GateWishes,
    why: &str,
    line: Option<u32>,
) -> GateFinding {
    GateFinding {
        workload: workload.to_owned(),
        metric,
        primary: true,
        worse_by: wishes.worse_by.get(&metric).copied().unwrap_or_default(),
        ratio: None,
        values: None,
        detectable_ratio: None,
        verdict: None,
        state: GateState::Worse,
        why: format!("the head does not stand this load, and the base does: {why}"),
        line,
    }
}

/// What follows from all findings.
pub(crate) fn outcome(findings: &[GateFinding], require_power: bool) -> GateOutcome {
    if findings.iter().any(|finding| finding.state == GateState::Worse) {
        return GateOutcome::Worse;
    }
    let primary = || findings.iter().filter(|finding| finding.primary);
    // A gate that saw nothing must not be green, whatever was asked for.
    if primary().next().is_none() || primary().any(|finding| finding.state == GateState::NotSeen) {
        return GateOutcome::NotSeen;
    }
    if require_power && primary().any(|finding| !finding.has_power()) {
        return GateOutcome::TooLittlePower;
    }
    GateOutcome::Passed
}

/// The rule in words, as it is before the first window.
pub(crate) fn rule(primary: Metric, wishes: &GateWishes, workloads: usize, require_power: bool) -> String {
    let of = |metric: &Metric| wishes.worse_by.get(metric).copied().unwrap_or_default();
    let guards: Vec<String> = wishes
        .worse_by
        .keys()
        .filter(|metric| **metric != primary)
        .map(|metric| format!("{} ({})", metric.label(), percent(of(metric))))
        .collect();
    let guards = if guards.is_empty() {
        "There are no guard rails.".to_owned()
    } else {
        format!("So do guard rails, each with its own limit: {}.", guards.join(", "))
    };
    let shared = if workloads > 1 {
        format!(" The error of the interval is shared among the {workloads} workloads.")
    } else {
        String::new()
    };
    let power = if require_power {
        format!(", or when the pairs would not have shown a growth of {}", percent(of(&primary)))
    } else {
        String::new()
    };
    format!(
        "The gate fails when the comparator calls the head worse by {}, and the estimate is a growth of {} or more. {guards}{shared} A head \
         that breaks down under a load that the base stands fails, too. The number of pairs is fixed before the first one: nobody looks at \
         results in between. It could not tell where there is no estimate of {}, or none of the A/A control that was planned{power}.",
        primary.label(),
        percent(of(&primary)),
        primary.label()
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hone_record::Estimate;

    use super::*;
    use crate::show::comparison::tests::comparison;

    fn wishes(worse_by: f64) -> GateWishes {
        GateWishes { worse_by: BTreeMap::from([(Metric::CpuPerRecord, worse_by)]), require_power: false }
    }

    fn judged(ratio: [f64; 3], verdict: Verdict, limit: f64) -> GateFinding {
        let mut comparison = comparison(None);
        let judgement = comparison.judgements.iter_mut().find(|judgement| judgement.primary).unwrap();
        let estimate = &mut judgement.estimate;
        [estimate.ratio, estimate.low, estimate.high] = ratio;
        estimate.detectable_ratio = 1.05;
        judgement.verdict = verdict;
        findings(&comparison, &wishes(limit), Some(7)).remove(0)
    }

    #[test]
    fn what_is_shown_and_large_enough_fails_and_nothing_else() {
        use GateState::{Held, NotShown, Tolerated, Worse};
        for (ratio, verdict, limit, state) in [
            ([1.10, 1.05, 1.15], Verdict::Worse, 0.03, Worse),
            ([1.02, 1.01, 1.03], Verdict::Worse, 0.03, Tolerated),
            ([0.90, 0.85, 0.95], Verdict::Better, 0.03, Held),
            ([1.00, 0.99, 1.01], Verdict::Equivalent, 0.03, Held),
            ([1.00, 0.98, 1.02], Verdict::NotShown, 0.03, Held),
            ([1.04, 0.98, 1.10], Verdict::NotShown, 0.03, NotShown),
        ] {
            let found = judged(ratio, verdict, limit);
            assert_eq!((found.state, found.line), (state, Some(7)), "{found:?}");
        }
    }

    #[test]
    fn too_little_power_fails_where_it_is_asked_for() {
        let weak = judged([1.04, 0.98, 1.10], Verdict::NotShown, 0.03);
        assert!(!weak.has_power(), "it would have shown 5 %, and 3 % are asked for");
        assert!(judged([1.04, 0.98, 1.10], Verdict::NotShown, 0.05).has_power());
        let outcome_of = |finding: &GateFinding, power| outcome(std::slice::from_ref(finding), power);
        assert_eq!(outcome_of(&weak, false), GateOutcome::Passed);
        assert_eq!(outcome_of(&weak, true), GateOutcome::TooLittlePower);
        let worse = judged([1.10, 1.05, 1.15], Verdict::Worse, 0.03);
        assert_eq!(outcome(&[weak, worse], true), GateOutcome::Worse);
    }

    #[test]
    fn a_gate_that_saw_nothing_could_not_tell() {
        let sure = judged([1.00, 0.99, 1.01], Verdict::Equivalent, 0.03);
        let outcome_of = |comparison: &hone_record::Comparison, power| {
            let found = findings(comparison, &wishes(0.03), None);
            (found[0].state, outcome(&[vec![sure.clone()], found].concat(), power))
        };
        // All pairs were dropped for what neighbours did.
        let mut blind = comparison(None);
        blind.judgements.clear();
        blind.not_estimated.insert(Metric::CpuPerRecord, "only 0 of the pairs".to_owned());
        // Those of the control alone: then no verdict is worse, either.
        let mut alone = comparison(None);
        alone.design.control_pairs = 6;
        let judgement = alone.judgements.iter_mut().find(|judgement| judgement.primary).unwrap();
        (judgement.verdict, judgement.control) = (Verdict::NotShown, None);
        (judgement.estimate.ratio, judgement.estimate.low, judgement.estimate.high) = (1.3, 1.25, 1.35);
        for (blind, power) in [(&blind, false), (&blind, true), (&alone, false), (&alone, true)] {
            assert_eq!(outcome_of(blind, power), (GateState::NotSeen, GateOutcome::NotSeen));
        }
        // What is worse is worse all the same, and no finding at all is nothing seen.
        let worse = judged([1.10, 1.05, 1.15], Verdict::Worse, 0.03);
        let unseen = findings(&blind, &wishes(0.03), None);
        assert_eq!(outcome(&[unseen, vec![worse]].concat(), false), GateOutcome::Worse);
        assert_eq!(outcome(&[], false), GateOutcome::NotSeen);
        // A guard rail without an estimate is told, and fails nothing.
        let mut wishes = wishes(0.03);
        wishes.worse_by.insert(Metric::LatencyP99, 0.1);
        let found = findings(&comparison(None), &wishes, None);
        assert_eq!((found[1].state, outcome(&found, false)), (GateState::NotSeen, GateOutcome::Passed));
    }

    #[test]
    fn a_control_that_differs_rules_nothing_out() {
        let mut comparison = comparison(None);
        let judgement = comparison.judgements.iter_mut().find(|judgement| judgement.primary).unwrap();
        judgement.verdict = Verdict::NotShown;
        judgement.estimate.high = 1.01;
        let estimate = judgement.estimate.clone();
        judgement.control = Some(Estimate { ratio: 1.2, low: 1.1, high: 1.3, ..estimate });
        let found = findings(&comparison, &wishes(0.03), None).remove(0);
        assert_eq!((found.state, found.has_power()), (GateState::NotShown, false));
    }

    #[test]
    fn the_rule_names_every_limit() {
        let mut wishes = wishes(0.03);
        wishes.worse_by.insert(Metric::LatencyP99, 0.1);
        let words = rule(Metric::CpuPerRecord, &wishes, 2, true);
        for part in
            ["a growth of 3 % or more", "p99 (10 %)", "shared among the 2 workloads", "could not tell"]
        {
            assert!(words.contains(part), "{part}: {words}");
        }
    }
}

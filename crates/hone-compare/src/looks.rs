//! Whether a look ends a running comparison.

use hone_record::{Design, PairOutcome, Verdict};

use crate::continuation::chance_of_plan;
use crate::judge::{judge, tests_of, verdict_of};

/// The verdict of the primary metric with which a run may end after these pairs; `None` if no early look is due, or if it decides nothing.
///
/// A run ends when its primary metric is worse, or when that metric and every guard metric that the user named have a verdict. A control that
/// can't be read ends no run, because it leaves the primary metric inconclusive. The ends of the plan and of its continuation are no early
/// looks: the run ends there anyway.
pub fn decided(design: &Design, pairs: &[PairOutcome]) -> Option<Verdict> {
    let rule = &design.rule;
    if !is_due(design, tests_of(pairs)) {
        return None;
    }
    let verdict = |metric| verdict_of(design, metric, pairs).filter(|verdict| *verdict != Verdict::NotShown);
    let primary = verdict(rule.primary)?;
    let named = if rule.default_guards { &[] } else { &rule.guards[..] };
    let is_decided = primary == Verdict::Worse || named.iter().all(|guard| verdict(*guard).is_some());
    is_decided.then_some(primary)
}

/// Whether an early look is due after this many A/B pairs.
fn is_due(design: &Design, tests: u32) -> bool {
    let early = design.looks.split_last().map_or(&[][..], |(_, early)| early);
    tests != design.pairs && early.iter().any(|look| look.pairs == tests)
}

/// A plan whose chance of a verdict is smaller is not worth its time. The limit of 5 % costs about as much power.
const HOPELESS: f64 = 0.05;

/// The chance of a verdict with which an early look ends a plan as hopeless; `None` if the plan goes on. Only a run with a budget ends so,
/// because it can be continued, and a continued run does not: the user wants its pairs. The rule adds no false verdict: it spends no error,
/// and gives none.
pub fn hopeless(design: &Design, pairs: &[PairOutcome]) -> Option<f64> {
    let tests = tests_of(pairs);
    let is_of_plan = design.continuation.as_ref().is_some_and(|continuation| continuation.ends.is_empty());
    if !is_of_plan || tests >= design.pairs || !is_due(design, tests) {
        return None;
    }
    let judged = judge(design, pairs);
    let primary = judged.judgements.iter().find(|one| one.estimate.metric == design.rule.primary)?;
    if primary.verdict != Verdict::NotShown {
        return None;
    }
    Some(chance_of_plan(design, primary, pairs)).filter(|chance| *chance < HOPELESS)
}

#[cfg(test)]
mod tests {
    use hone_record::{Metric, Mode, PairKind};

    use super::*;
    use crate::design::plan;
    use crate::plan::{LookPlan, Plan};

    const GUARD: Metric = Metric::LatencyP50;

    fn design(looks: LookPlan) -> Design {
        let guards = vec![GUARD];
        plan(&Plan { looks, guards, ..Plan::new(Mode::Duet, Metric::CpuPerRecord, [14, 6]) }).unwrap()
    }

    fn plan_of(asked: &Plan) -> Design {
        plan(asked).unwrap()
    }

    /// As [`before`], with a scatter of the primary metric.
    fn with_scatter(design: &Design, test: usize, ratio: f64, scatter: f64) -> Vec<PairOutcome> {
        let mut pairs = before(design, test, ratio, 0.0);
        for (index, pair) in pairs.iter_mut().enumerate() {
            let off = [1.0, -1.0][index / 2 % 2] * scatter;
            *pair.values_b.get_mut(&Metric::CpuPerRecord).unwrap() *= f64::exp(off);
        }
        pairs
    }

    /// The pairs of a design before this A/B pair, counted from 0. The primary metric has this ratio, and the guard metric has 1 with this
    /// scatter.
    fn before(design: &Design, test: usize, ratio: f64, scatter: f64) -> Vec<PairOutcome> {
        let of_tests = design.order.iter().enumerate().filter(|(_, kind)| **kind == PairKind::Test);
        let end = of_tests.map(|(index, _)| index).nth(test).unwrap_or(design.planned());
        let pair = |index: usize| {
            let (kind, off) = (design.order[index], (index % 5) as f64 - 2.0);
            let ratio = if kind == PairKind::Test { ratio } else { 1.0 };
            let values = [(Metric::CpuPerRecord, ratio * (1.0 + 0.001 * off)), (GUARD, 1.0 + scatter * off)];
            PairOutcome {
                index: index as u32,
                kind,
                values_a: [(Metric::CpuPerRecord, 1.0), (GUARD, 1.0)].into(),
                values_b: values.into(),
                ..PairOutcome::default()
            }
        };
        (0..end).map(pair).collect()
    }

    #[test]
    fn a_run_ends_at_an_early_look_and_nowhere_else() {
        let design = design(LookPlan::of_pairs(14, [1, 1]));
        let looks = |ratio: f64| -> Vec<usize> {
            (0..=14)
                .filter(|test| decided(&design, &before(&design, *test, ratio, 0.001)).is_some())
                .collect()
        };
        assert_eq!((looks(0.8), looks(1.25), looks(1.0)), (vec![6, 9, 12], vec![6, 9, 12], vec![6, 9, 12]));
        assert_eq!(decided(&design, &before(&design, 6, 0.8, 0.001)), Some(Verdict::Better));
        assert_eq!(decided(&design, &before(&design, 6, 1.25, 0.001)), Some(Verdict::Worse));
        assert_eq!(decided(&design, &before(&design, 6, 1.0, 0.001)), Some(Verdict::Equivalent));
        let at_end = self::design(LookPlan::AtEnd);
        assert!((0..=14).all(|test| decided(&at_end, &before(&at_end, test, 0.8, 0.001)).is_none()));
    }

    #[test]
    fn a_guard_metric_without_a_verdict_keeps_a_run_going_unless_the_primary_is_worse() {
        let design = design(LookPlan::of_pairs(14, [1, 1]));
        assert_eq!(decided(&design, &before(&design, 9, 0.8, 0.2)), None);
        assert_eq!(decided(&design, &before(&design, 9, 1.0, 0.2)), None);
        assert_eq!(decided(&design, &before(&design, 9, 1.25, 0.2)), Some(Verdict::Worse));
        // The default ones were not named.
        let mut unnamed = design.clone();
        unnamed.rule.default_guards = true;
        assert_eq!(decided(&unnamed, &before(&unnamed, 9, 0.8, 0.2)), Some(Verdict::Better));
    }

    #[test]
    fn without_a_readable_control_no_look_ends_a_run() {
        let design = design(LookPlan::of_pairs(14, [1, 1]));
        let mut pairs = before(&design, 6, 0.8, 0.001);
        let controls = pairs.iter().filter(|pair| pair.kind == PairKind::Control).count();
        assert_eq!(controls, 5, "the first look has a control that can be read");
        let first = pairs.iter_mut().find(|pair| pair.kind == PairKind::Control).unwrap();
        first.dropped = Some("disturbed".to_owned());
        assert_eq!(decided(&design, &pairs), None);
    }

    #[test]
    fn a_plan_without_a_chance_ends_at_a_look_only_if_it_can_be_continued() {
        let at = |looks: LookPlan, ratio: f64, scatter: f64| {
            let plan = Plan { looks, ..Plan::new(Mode::Duet, Metric::CpuPerRecord, [30, 15]) };
            let design = plan_of(&plan);
            let tests: Vec<usize> = design.looks.iter().map(|look| look.pairs as usize).collect();
            let at = |test: usize| hopeless(&design, &with_scatter(&design, test, ratio, scatter));
            tests.into_iter().filter(|test| *test < 30 && at(*test).is_some()).count()
        };
        assert_eq!(at(LookPlan::Continued, 1.0, 0.30), 3, "noise of 30 % can show neither");
        assert_eq!(at(LookPlan::Continued, 1.0, 0.03), 0, "equivalence is near");
        assert_eq!(at(LookPlan::Continued, 0.9, 0.15), 0, "a difference is near");
        assert_eq!(at(LookPlan::of_pairs(30, [1, 1]), 1.0, 0.30), 0, "the user fixed the pairs");
    }

    #[test]
    fn a_continuation_has_looks_and_the_planned_end_has_none() {
        let design = design(LookPlan::Continued);
        let all = |tests: usize| {
            let pairs = before(&design, 12, 0.8, 0.001);
            let more =
                pairs.iter().filter(|pair| pair.kind == PairKind::Test).cycle().take(tests - 12).cloned();
            pairs.iter().cloned().chain(more).collect::<Vec<_>>()
        };
        let ends = |tests: usize| decided(&design, &all(tests)).is_some();
        assert_eq!([12, 14, 20, 28, 42, 56].map(ends), [true, false, false, true, true, false]);
    }
}

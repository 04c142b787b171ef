//! From pairs to verdicts, by the rule that was fixed before the run.

use std::collections::BTreeMap;

use hone_record::{Estimate, Judgement, Metric, PairKind, PairOutcome, Rule, Verdict};

use crate::estimate::{NotEstimated, Pairs, estimate, pairs_needed};

/// What was found for every metric of the rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The primary metric first.
    pub judgements: Vec<Judgement>,
    /// Metrics without an estimate, and why.
    pub not_estimated: BTreeMap<Metric, String>,
}

/// Judges all metrics of a rule.
pub fn judge(rule: &Rule, pairs: &[PairOutcome]) -> Judged {
    let mut judged = Judged { judgements: Vec::new(), not_estimated: BTreeMap::new() };
    for metric in std::iter::once(rule.primary).chain(rule.secondary.iter().copied()) {
        match judge_metric(rule, metric, pairs) {
            Ok(judgement) => judged.judgements.push(judgement),
            Err(reason) => {
                judged.not_estimated.insert(metric, reason.to_string());
            }
        }
    }
    judged
}

fn judge_metric(rule: &Rule, metric: Metric, pairs: &[PairOutcome]) -> Result<Judgement, NotEstimated> {
    let primary = metric == rule.primary;
    let alpha = if primary { rule.alpha } else { rule.alpha / rule.secondary.len().max(1) as f64 };
    let of = |kind, alpha| estimate(&values(metric, kind, pairs), 1.0 - alpha, rule.resamples, rule.seed);
    let test = of(PairKind::Test, alpha)?;
    let tost = of(PairKind::Test, 2.0 * alpha)?;
    let planned = pairs.iter().any(|pair| pair.kind == PairKind::Control);
    let control = of(PairKind::Control, alpha);
    let (verdict, why) = match &control {
        // A control that was planned and could not be read must not be passed over in silence.
        Err(reason) if planned => {
            (Verdict::NotShown, format!("there is no A/A control to hold it against: {reason}"))
        }
        _ => decide(rule, &test, &tost, control.as_ref().ok()),
    };
    let control = control.ok();
    Ok(Judgement { estimate: test, control, verdict, why, primary })
}

/// The pairs of a kind that count and have the metric on both sides.
fn values(metric: Metric, kind: PairKind, pairs: &[PairOutcome]) -> Pairs {
    let both = |pair: &PairOutcome| Some((*pair.values_a.get(&metric)?, *pair.values_b.get(&metric)?));
    let values =
        pairs.iter().filter(|pair| pair.kind == kind && pair.dropped.is_none()).filter_map(both).collect();
    Pairs { metric, values }
}

/// The rule of [`crate::rule_words`], in its order.
fn decide(rule: &Rule, test: &Estimate, tost: &Estimate, control: Option<&Estimate>) -> (Verdict, String) {
    let margin = (1.0 + rule.equivalence).ln();
    let beyond = |found: &Estimate| found.low.ln() > 0.0 || found.high.ln() < 0.0;
    if let Some(control) = control
        && beyond(control)
        && control.ratio.ln().abs() > margin
    {
        let why = format!(
            "the A/A control itself differs: {}; this session can't tell the variants apart",
            ratio_words(control)
        );
        return (Verdict::NotShown, why);
    }
    if tost.low.ln() > -margin && tost.high.ln() < margin {
        return (
            Verdict::Equivalent,
            format!("the interval lies within {} % of equal", rule.equivalence * 100.0),
        );
    }
    if !beyond(test) {
        let why = format!(
            "the interval holds 1; these {} pairs would have shown {:.1} % or more{}",
            test.pairs,
            (test.detectable_ratio - 1.0) * 100.0,
            pairs_needed(test, 1.0 + rule.equivalence)
                .map(|pairs| format!(", and {:.0} % needs about {pairs} pairs", rule.equivalence * 100.0))
                .unwrap_or_default()
        );
        return (Verdict::NotShown, why);
    }
    if let Some(control) = control
        && test.ratio.ln().abs() <= control.ratio.ln().abs()
    {
        let why = format!("no larger than what the A/A control showed: {}", ratio_words(control));
        return (Verdict::NotShown, why);
    }
    let better = (test.ratio < 1.0) == test.metric.lower_is_better();
    let verdict = if better { Verdict::Better } else { Verdict::Worse };
    (verdict, format!("the {:.4} % interval excludes 1", test.confidence * 100.0).replace(".0000 %", " %"))
}

fn ratio_words(estimate: &Estimate) -> String {
    format!("{:.3} [{:.3}, {:.3}]", estimate.ratio, estimate.low, estimate.high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::{Plan, plan};
    use hone_record::Mode;

    fn rule() -> Rule {
        let asked = Plan {
            mode: Mode::Duet,
            places: false,
            pairs: 10,
            control_pairs: 6,
            primary: Metric::CpuPerRecord,
            guards: vec![],
            alpha: 0.05,
            equivalence: 0.02,
            seed: 3,
        };
        plan(&asked).unwrap().rule
    }

    /// Pairs whose ratios scatter by +-`spread` around `test` and `control`.
    fn pairs(metric: Metric, test: f64, control: f64, spread: f64) -> Vec<PairOutcome> {
        let one = |index: u32, kind: PairKind, ratio: f64| {
            let offset = f64::from(index % 5) / 2.0 - 1.0;
            PairOutcome {
                index,
                kind,
                window_a: String::new(),
                window_b: String::new(),
                values_a: [(metric, 10.0)].into(),
                values_b: [(metric, 10.0 * ratio * (1.0 + spread * offset))].into(),
                dropped: None,
            }
        };
        let tests = (0..10).map(|index| one(index, PairKind::Test, test));
        tests.chain((0..5).map(|index| one(index, PairKind::Control, control))).collect()
    }

    fn check(metric: Metric, test: f64, control: f64, spread: f64, verdict: Verdict, why: &str) {
        let rule = Rule { primary: metric, secondary: vec![], ..rule() };
        let judged = judge(&rule, &pairs(metric, test, control, spread));
        let judgement = &judged.judgements[0];
        assert_eq!(judgement.verdict, verdict, "{metric:?} {test} {control} {spread}: {judgement:?}");
        assert!(judgement.why.contains(why), "{}", judgement.why);
    }

    #[test]
    fn verdicts_follow_the_rule() {
        use Metric::{CpuPerRecord, Throughput};
        check(CpuPerRecord, 0.90, 1.0, 0.02, Verdict::Better, "95 % interval excludes 1");
        check(CpuPerRecord, 1.10, 1.0, 0.02, Verdict::Worse, "excludes 1");
        check(Throughput, 1.10, 1.0, 0.02, Verdict::Better, "excludes 1");
        check(CpuPerRecord, 1.00, 1.0, 0.005, Verdict::Equivalent, "within 2 %");
        check(CpuPerRecord, 1.005, 1.0, 0.001, Verdict::Equivalent, "within 2 %");
        check(CpuPerRecord, 1.03, 1.0, 0.20, Verdict::NotShown, "would have shown");
        check(CpuPerRecord, 0.90, 1.2, 0.02, Verdict::NotShown, "control itself differs");
        check(CpuPerRecord, 1.10, 0.85, 0.28, Verdict::NotShown, "");
    }

    #[test]
    fn an_effect_no_larger_than_the_controls_is_not_shown() {
        // The control scatters too much to exclude 1, but its mean is as far off as the test's.
        let rule = Rule { secondary: vec![], ..rule() };
        let mut all = pairs(Metric::CpuPerRecord, 1.05, 1.0, 0.01);
        let controls = all.iter_mut().filter(|pair| pair.kind == PairKind::Control);
        for (pair, value) in controls.zip([9.0, 15.0, 9.5, 12.5, 10.0]) {
            pair.values_b.insert(Metric::CpuPerRecord, value);
        }
        let judged = judge(&rule, &all);
        assert_eq!(judged.judgements[0].verdict, Verdict::NotShown);
        assert!(judged.judgements[0].why.contains("no larger than"), "{:?}", judged.judgements[0]);
    }

    #[test]
    fn a_planned_control_that_cannot_be_read_shows_nothing() {
        let rule = Rule { secondary: vec![], ..rule() };
        let mut all = pairs(Metric::CpuPerRecord, 0.8, 1.0, 0.01);
        all.retain(|pair| pair.kind == PairKind::Test || pair.index < 3);
        let judged = judge(&rule, &all);
        assert_eq!(judged.judgements[0].verdict, Verdict::NotShown);
        assert!(judged.judgements[0].why.contains("no A/A control"), "{}", judged.judgements[0].why);
        // Without a planned one the user has said so.
        all.retain(|pair| pair.kind == PairKind::Test);
        assert_eq!(judge(&rule, &all).judgements[0].verdict, Verdict::Better);
    }

    #[test]
    fn dropped_pairs_and_missing_values_do_not_count() {
        let mut all = pairs(Metric::CpuPerRecord, 0.9, 1.0, 0.02);
        all[0].dropped = Some("saturated".to_owned());
        let judged = judge(&rule(), &all);
        assert_eq!(judged.judgements[0].estimate.pairs, 9);
        let reason = &judged.not_estimated[&Metric::LatencyP999];
        assert!(reason.contains("only 0 of the pairs"), "{reason}");
    }
}

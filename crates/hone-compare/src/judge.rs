//! From pairs to verdicts, by the rule that was fixed before the run.

use std::collections::BTreeMap;

use hone_record::{Design, Estimate, Judgement, Metric, PairKind, PairOutcome, Rule, Verdict};

use crate::design::EQUAL_MEMORY_BYTES;
use crate::estimate::{NotEstimated, Pairs, Resampled, detectable, pairs_needed, ratio_of};
use crate::spending::level_at;
use crate::student::{t_quantile, welch_freedom};

/// The results of every metric of the rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The primary metric first.
    pub judgements: Vec<Judgement>,
    /// Metrics without an estimate, and the reason.
    pub not_estimated: BTreeMap<Metric, String>,
}

/// Judges all metrics of a design's rule.
pub fn judge(design: &Design, pairs: &[PairOutcome]) -> Judged {
    let rule = &design.rule;
    let mut judged = Judged { judgements: Vec::new(), not_estimated: design.refused.clone() };
    let of_primary = level_of(design, rule.primary, pairs);
    // All other metrics have the same level.
    let of_others = rule.secondary.first().map_or(of_primary, |first| level_of(design, *first, pairs));
    for metric in std::iter::once(rule.primary).chain(rule.secondary.iter().copied()) {
        let alpha = if metric == rule.primary { of_primary } else { of_others };
        match judge_metric(design, metric, alpha, pairs) {
            Ok(judgement) => judged.judgements.push(judgement),
            Err(reason) => {
                judged.not_estimated.insert(metric, reason.to_string());
            }
        }
    }
    judged
}

/// The verdict about one metric; `None` if its level leaves no error for these pairs, or without an estimate.
pub(crate) fn verdict_of(design: &Design, metric: Metric, pairs: &[PairOutcome]) -> Option<Verdict> {
    let level = level_of(design, metric, pairs);
    if level <= 0.0 {
        return None;
    }
    judge_metric(design, metric, level, pairs).ok().map(|judgement| judgement.verdict)
}

/// Measured A/B pairs, with excluded ones.
pub(crate) fn tests_of(pairs: &[PairOutcome]) -> u32 {
    pairs.iter().filter(|pair| pair.kind == PairKind::Test).count() as u32
}

fn level_of(design: &Design, metric: Metric, pairs: &[PairOutcome]) -> f64 {
    level_at(design, tests_of(pairs), alpha_of(&design.rule, metric))
}

/// Two-sided error of a metric's judgement: the primary metric's own, or its share among the secondary ones.
pub(crate) fn alpha_of(rule: &Rule, metric: Metric) -> f64 {
    if metric == rule.primary { rule.alpha } else { rule.alpha / rule.secondary.len().max(1) as f64 }
}

/// Judges a metric at this two-sided error.
fn judge_metric(
    design: &Design,
    metric: Metric,
    alpha: f64,
    pairs: &[PairOutcome],
) -> Result<Judgement, NotEstimated> {
    let rule = &design.rule;
    let of = |kind| {
        // The true ratio of an A/A pair is 1 whichever build it measured: only A/B pairs carry the luck of their builds. But two processes
        // of one build have their own luck, as long as they live.
        let by_build = kind == PairKind::Test && design.has_several_builds();
        let is_pooled = kind == PairKind::Test && design.pooled_baseline;
        let twins = if is_pooled { twins(metric, pairs) } else { BTreeMap::new() };
        let values = values(metric, kind, pairs, by_build || design.starts > 0, &twins);
        Resampled::new(&values, rule.resamples, rule.seed)
    };
    let resampled = of(PairKind::Test)?;
    let (mut test, tost) = (resampled.estimate(1.0 - alpha), resampled.estimate(1.0 - 2.0 * alpha));
    let planned = pairs.iter().any(|pair| pair.kind == PairKind::Control);
    let control = of(PairKind::Control).map(|control| match design.pooled_baseline {
        true => Control::pooled(&control, &resampled, alpha),
        false => Control::apart(&control, &resampled, alpha),
    });
    if let Ok(control) = &control {
        test.detectable_ratio = test.detectable_ratio.max(control.detectable_ratio(test.confidence));
    }
    let (verdict, why) = match &control {
        // A planned control without an estimate must not be ignored.
        Err(reason) if planned => {
            (Verdict::NotShown, format!("there is no A/A control to compare with: {reason}"))
        }
        _ => decide(design, &test, &tost, control.as_ref().ok()),
    };
    let is_bound = |pair: &PairOutcome| pair.kind == PairKind::Test && pair.at_least != [false, false];
    let is_bounded = metric == Metric::Capacity && pairs.iter().any(is_bound);
    let (verdict, why) = match verdict {
        Verdict::Equivalent if is_bounded => (
            Verdict::NotShown,
            "an arm met the SLO at every rate of the search, so only a lower bound of its capacity is known; \
             raise --max-rate"
                .to_owned(),
        ),
        verdict => (verdict, why),
    };
    let (verdict, why) = match verdict {
        Verdict::Better | Verdict::Worse if metric.is_memory() && is_equal_memory(&test) => {
            (Verdict::Equivalent, "the difference is less than 4 MiB".to_owned())
        }
        verdict => (verdict, why),
    };
    let control = control.ok().map(|control| control.estimate);
    Ok(Judgement { estimate: test, control, verdict, why, primary: metric == rule.primary })
}

/// Whether both ends of the confidence interval are within [`EQUAL_MEMORY_BYTES`] of A.
fn is_equal_memory(test: &Estimate) -> bool {
    [test.low, test.high].iter().all(|ratio| (ratio - 1.0).abs() * test.value_a < EQUAL_MEMORY_BYTES)
}

/// The control, and the effect of the test minus the control.
#[derive(Debug)]
struct Control {
    estimate: Estimate,
    /// Standard error and degrees of freedom of test minus control.
    error: f64,
    freedom: f64,
    /// `None` if the control is a part of the reference.
    beside: Option<Beside>,
}

impl Control {
    /// A control that is a part of the reference. Its difference, twin minus baseline, is uncorrelated with the effect, which is the
    /// variant minus the mean of the two. So it is not subtracted, and only shows whether the session can compare at all.
    fn pooled(control: &Resampled, test: &Resampled, alpha: f64) -> Self {
        Self {
            estimate: control.estimate(1.0 - alpha),
            error: test.error,
            freedom: test.freedom,
            beside: None,
        }
    }

    /// A control of its own pairs.
    fn apart(control: &Resampled, test: &Resampled, alpha: f64) -> Self {
        let sides = [test, control].map(|side| (side.error * side.error, side.freedom));
        let freedom = welch_freedom(sides);
        let error = (sides[0].0 + sides[1].0).sqrt();
        let beside = Beside {
            mean: test.mean - control.mean,
            half: t_quantile(1.0 - alpha / 2.0, freedom) * error,
            tost_half: t_quantile(1.0 - alpha, freedom) * error,
        };
        Self { estimate: control.estimate(1.0 - alpha), error, freedom, beside: Some(beside) }
    }

    /// The smallest effect that test and control together can detect: a control of few pairs hides more than the test's own spread does.
    fn detectable_ratio(&self, confidence: f64) -> f64 {
        ratio_of(detectable(self.error, self.freedom, confidence))
    }

    /// The test with the spread that a pair would need for the same error without a control. It serves the number of pairs that an effect
    /// needs, with A/A pairs in proportion.
    fn with_spread_of_both(&self, test: &Estimate) -> Estimate {
        Estimate { log_ratio_sd: self.error * f64::from(test.pairs).sqrt(), ..test.clone() }
    }
}

/// The valid pairs of a kind that have the metric on both sides. With a twin, A is its geometric mean with the baseline.
fn values(
    metric: Metric,
    kind: PairKind,
    pairs: &[PairOutcome],
    in_blocks: bool,
    twins: &BTreeMap<u32, f64>,
) -> Pairs {
    let both = |pair: &PairOutcome| {
        let (a, b) = (*pair.values_a.get(&metric)?, *pair.values_b.get(&metric)?);
        let reference = twins.get(&pair.index).map_or(a, |twin| (a * twin).sqrt());
        Some((pair.block, (reference, b)))
    };
    let counted = pairs.iter().filter(|pair| pair.kind == kind && pair.dropped.is_none()).filter_map(both);
    let (blocks, values): (Vec<u32>, Vec<(f64, f64)>) = counted.unzip();
    Pairs { metric, values, blocks: if in_blocks { blocks } else { Vec::new() } }
}

/// The second window of each valid A/A pair, by the index of the test pair before it: both pairs of a round have the same first window.
fn twins(metric: Metric, pairs: &[PairOutcome]) -> BTreeMap<u32, f64> {
    let controls = pairs.iter().filter(|pair| pair.kind == PairKind::Control && pair.dropped.is_none());
    controls.filter_map(|pair| Some((pair.index.checked_sub(1)?, *pair.values_b.get(&metric)?))).collect()
}

/// A log ratio and half the width of its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Span {
    pub(crate) mean: f64,
    pub(crate) half: f64,
}

impl Span {
    fn of(estimate: &Estimate) -> Self {
        let mean = estimate.ratio.ln();
        Self { mean, half: (estimate.high.ln() - mean).max(mean - estimate.low.ln()) }
    }

    fn excludes_one(self) -> bool {
        self.mean.abs() > self.half
    }
}

/// Test minus control, with Welch's intervals: the half widths of the interval for a difference and of the one for equivalence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Beside {
    pub(crate) mean: f64,
    pub(crate) half: f64,
    pub(crate) tost_half: f64,
}

/// The findings of the rule, in the order of the rule in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    ControlDiffers,
    Equivalent,
    HoldsOne,
    NotBesideControl,
    Differs,
}

/// The rule itself, on numbers. The planner and the judge use the same function.
///
/// A rig that favours one arm favours it in control and test alike, so the test minus the control decides, with the uncertainty of both. In
/// addition the test must hold by itself: a bias that hides an effect of the other sign is neither. In rounds no arm has a place of its own
/// that the rig could favour, and the control is a part of the reference.
pub(crate) fn find(margin: f64, test: Span, tost: Span, control: Option<(Span, Option<Beside>)>) -> Finding {
    let within = |mean: f64, half: f64| mean.abs() + half < margin;
    let beside = control.and_then(|(_, beside)| beside);
    let equal_beside = beside.is_none_or(|beside| within(beside.mean, beside.tost_half));
    match control {
        Some((control, _)) if differs(control, margin) => Finding::ControlDiffers,
        _ if within(tost.mean, tost.half) && equal_beside => Finding::Equivalent,
        _ if !test.excludes_one() => Finding::HoldsOne,
        Some((control, Some(beside))) if !stands_beside(test, control, beside) => Finding::NotBesideControl,
        _ => Finding::Differs,
    }
}

/// Whether equal arms differ.
fn differs(control: Span, margin: f64) -> bool {
    control.excludes_one() && control.mean.abs() > margin
}

/// Whether the control of a judgement itself differs. Then no verdict is possible, whatever the arms showed.
pub fn control_differs(rule: &Rule, judgement: &Judgement) -> bool {
    judgement.control.as_ref().is_some_and(|control| differs(Span::of(control), margin(rule)))
}

/// The A/B and A/A pairs that would most probably give an inconclusive metric a verdict.
///
/// They detect the observed difference, or the margin of equivalence if the difference was smaller. If the A/A pairs themselves differ,
/// there are as many of them as A/B pairs. `None` if there is a verdict, if more builds or starts are necessary, or if 10,000 pairs are too
/// few.
pub fn pairs_to_settle(design: &Design, judgement: &Judgement) -> Option<[u32; 2]> {
    let Judgement { estimate: test, control, verdict, .. } = judgement;
    if *verdict != Verdict::NotShown || test.builds.is_some() {
        return None;
    }
    let least = 1.0 + design.rule.equivalence;
    let seen = test.ratio.max(test.ratio.recip()).max(least);
    let variance = |side: &Estimate| side.log_ratio_sd.powi(2) / f64::from(side.pairs);
    let error = (variance(test) + control.as_ref().map_or(0.0, variance)).sqrt();
    let of_both = Estimate { log_ratio_sd: error * f64::from(test.pairs).sqrt(), ..test.clone() };
    let pairs = pairs_needed(&of_both, seen)?.max(design.pairs);
    let differs = control_differs(&design.rule, judgement);
    Some([pairs, if differs { pairs } else { controls_beside(design, pairs) }])
}

/// A/A pairs in the design's proportion to this number of A/B pairs.
fn controls_beside(design: &Design, pairs: u32) -> u32 {
    let controls = u64::from(pairs) * u64::from(design.control_pairs);
    u32::try_from(controls.div_ceil(u64::from(design.pairs.max(1)))).unwrap_or(u32::MAX)
}

/// Whether the A/A pairs of the primary metric differ. The A/B pairs play no role.
pub(crate) fn primary_control_differs(design: &Design, pairs: &[PairOutcome]) -> bool {
    let rule = &design.rule;
    let values = values(rule.primary, PairKind::Control, pairs, design.starts > 0, &BTreeMap::new());
    Resampled::new(&values, rule.resamples, rule.seed).is_ok_and(|control| {
        differs(Span::of(&control.estimate(1.0 - alpha_of(rule, rule.primary))), margin(rule))
    })
}

/// Whether an effect is larger than that of the control pairs, in its own direction.
fn stands_beside(test: Span, control: Span, beside: Beside) -> bool {
    let same_sign = (test.mean > 0.0) == (beside.mean > 0.0);
    same_sign && beside.mean.abs() > beside.half && test.mean.abs() > control.mean.abs()
}

/// Log of the margin inside which two variants count as equal.
pub(crate) fn margin(rule: &Rule) -> f64 {
    (1.0 + rule.equivalence).ln()
}

/// The verdict with its reason.
fn decide(design: &Design, test: &Estimate, tost: &Estimate, control: Option<&Control>) -> (Verdict, String) {
    let rule = &design.rule;
    let shown = || control.map(|control| ratio_words(&control.estimate)).unwrap_or_default();
    let spans = control.map(|control| (Span::of(&control.estimate), control.beside));
    match find(margin(rule), Span::of(test), Span::of(tost), spans) {
        Finding::ControlDiffers => (
            Verdict::NotShown,
            format!("the A/A control itself differs: {}; this session can't separate the variants", shown()),
        ),
        Finding::Equivalent => (
            Verdict::Equivalent,
            format!("the confidence interval is within {} % of equal", rule.equivalence * 100.0),
        ),
        Finding::HoldsOne => (Verdict::NotShown, why_it_holds_one(design, test, control)),
        Finding::NotBesideControl => (
            Verdict::NotShown,
            format!(
                "the A/A control showed {}; without it, the effect is {}, which is not significant",
                shown(),
                control.and_then(|control| control.beside).map(beside_words).unwrap_or_default()
            ),
        ),
        Finding::Differs => {
            let better = (test.ratio < 1.0) == test.metric.lower_is_better();
            let beside = match control {
                Some(control) if control.beside.is_some() => ", also after subtracting the A/A control",
                _ => "",
            };
            let why = format!("the {:.2} % confidence interval excludes 1{beside}", test.confidence * 100.0)
                .replace(".00 %", " %");
            (if better { Verdict::Better } else { Verdict::Worse }, why)
        }
    }
}

fn why_it_holds_one(design: &Design, test: &Estimate, control: Option<&Control>) -> String {
    let rule = &design.rule;
    let (counted, more) = match &test.builds {
        Some(starts) if design.starts > 0 && !design.has_several_builds() => (
            format!("{} pairs in {} starts of the processes", test.pairs, starts.blocks),
            "; more starts would narrow it".to_owned(),
        ),
        Some(builds) => (
            format!("{} builds per arm", builds.blocks),
            "; more builds would narrow it, more pairs hardly".to_owned(),
        ),
        None => {
            let of_both = control.map(|control| control.with_spread_of_both(test));
            let of_both = of_both.as_ref().unwrap_or(test);
            let needed = |ratio: f64| Some((ratio, pairs_needed(of_both, ratio)?));
            let seen = test.ratio.max(test.ratio.recip());
            let seen = Some(seen).filter(|seen| *seen > 1.0 + rule.equivalence).and_then(needed);
            let asks: Vec<String> = [seen, needed(1.0 + rule.equivalence)]
                .into_iter()
                .flatten()
                .map(|(ratio, pairs)| {
                    format!(
                        "{:.0} % needs about {}",
                        (ratio - 1.0) * 100.0,
                        in_pairs(design, control.is_some(), pairs)
                    )
                })
                .collect();
            let more = if asks.is_empty() { String::new() } else { format!("; {}", asks.join(", ")) };
            (format!("{} pairs", test.pairs), more)
        }
    };
    format!(
        "the confidence interval contains 1; these {counted} could detect {:.1} % or more{more}",
        (test.detectable_ratio - 1.0) * 100.0
    )
}

/// This number of A/B pairs, with A/A pairs in the design's proportion.
fn in_pairs(design: &Design, is_controlled: bool, pairs: u32) -> String {
    match controls_beside(design, pairs) {
        controls if is_controlled && controls > 0 => format!("{pairs} A/B and {controls} A/A pairs"),
        _ => format!("{pairs} pairs"),
    }
}

fn beside_words(beside: Beside) -> String {
    let [ratio, low, high] =
        [beside.mean, beside.mean - beside.half, beside.mean + beside.half].map(ratio_of);
    hone_format::interval([ratio, low, high])
}

fn ratio_words(estimate: &Estimate) -> String {
    hone_format::interval([estimate.ratio, estimate.low, estimate.high])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::plan;
    use crate::plan::Plan;
    use hone_record::Mode;

    fn design() -> Design {
        let asked = Plan { seed: 3, ..Plan::new(Mode::Duet, Metric::CpuPerRecord, [10, 6]) };
        plan(&asked).unwrap()
    }

    /// With this primary metric and no other.
    fn alone(metric: Metric) -> Design {
        let design = design();
        Design { rule: Rule { primary: metric, secondary: vec![], ..design.rule }, ..design }
    }

    /// Pairs whose ratios scatter by +-`spread` around `test` and `control`.
    fn pairs(metric: Metric, test: f64, control: f64, spread: f64) -> Vec<PairOutcome> {
        let one = |index: u32, kind: PairKind, ratio: f64| {
            let offset = f64::from(index % 5) / 2.0 - 1.0;
            PairOutcome {
                index,
                kind,
                values_a: [(metric, 10.0)].into(),
                values_b: [(metric, 10.0 * ratio * (1.0 + spread * offset))].into(),
                ..PairOutcome::default()
            }
        };
        let tests = (0..10).map(|index| one(index, PairKind::Test, test));
        tests.chain((0..5).map(|index| one(index, PairKind::Control, control))).collect()
    }

    fn check(metric: Metric, test: f64, control: f64, spread: f64, verdict: Verdict, why: &str) {
        let judged = judge(&alone(metric), &pairs(metric, test, control, spread));
        let judgement = &judged.judgements[0];
        assert_eq!(judgement.verdict, verdict, "{metric:?} {test} {control} {spread}: {judgement:?}");
        assert!(judgement.why.contains(why), "{}", judgement.why);
    }

    #[test]
    fn verdicts_follow_the_rule() {
        use Metric::{Capacity, CpuPerRecord, Throughput};
        check(CpuPerRecord, 0.90, 1.0, 0.02, Verdict::Better, "95 % confidence interval excludes 1");
        check(CpuPerRecord, 1.10, 1.0, 0.02, Verdict::Worse, "excludes 1");
        check(Throughput, 1.10, 1.0, 0.02, Verdict::Better, "excludes 1");
        check(Capacity, 2.00, 1.0, 0.02, Verdict::Better, "excludes 1");
        check(Capacity, 0.50, 1.0, 0.02, Verdict::Worse, "excludes 1");
        check(Capacity, 1.00, 1.0, 0.005, Verdict::Equivalent, "within 2 %");
        check(CpuPerRecord, 1.00, 1.0, 0.005, Verdict::Equivalent, "within 2 %");
        check(CpuPerRecord, 1.005, 1.0, 0.001, Verdict::Equivalent, "within 2 %");
        check(CpuPerRecord, 1.03, 1.0, 0.20, Verdict::NotShown, "could detect");
        check(CpuPerRecord, 0.90, 1.2, 0.02, Verdict::NotShown, "control itself differs");
        check(CpuPerRecord, 1.10, 0.85, 0.28, Verdict::NotShown, "");
    }

    #[test]
    fn what_was_not_shown_comes_with_the_pairs_that_settle_it() {
        let of = |test, control, spread| {
            let design = alone(Metric::CpuPerRecord);
            let judged = judge(&design, &pairs(Metric::CpuPerRecord, test, control, spread));
            pairs_to_settle(&design, &judged.judgements[0])
        };
        assert_eq!(of(0.80, 1.0, 0.02), None, "a verdict is there");
        let [tests, controls] = of(0.97, 1.0, 0.15).unwrap();
        assert!(tests > 100 && controls < tests, "{tests} and {controls}");
        let [tests, controls] = of(0.90, 1.2, 0.02).unwrap();
        assert_eq!(tests, controls, "its own control differs");
    }

    #[test]
    fn an_effect_no_larger_than_the_controls_is_not_shown() {
        // The control scatters too much to exclude 1, but its mean is as far off as the test's.
        let rule = alone(Metric::CpuPerRecord);
        let mut all = pairs(Metric::CpuPerRecord, 1.05, 1.0, 0.01);
        let controls = all.iter_mut().filter(|pair| pair.kind == PairKind::Control);
        for (pair, value) in controls.zip([9.0, 15.0, 9.5, 12.5, 10.0]) {
            pair.values_b.insert(Metric::CpuPerRecord, value);
        }
        let judged = judge(&rule, &all);
        assert_eq!(judged.judgements[0].verdict, Verdict::NotShown);
        assert!(judged.judgements[0].why.contains("which is not significant"), "{:?}", judged.judgements[0]);
    }

    #[test]
    fn a_planned_control_that_cannot_be_read_shows_nothing() {
        let rule = alone(Metric::CpuPerRecord);
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
        let judged = judge(&design(), &all);
        assert_eq!(judged.judgements[0].estimate.pairs, 9);
        let reason = &judged.not_estimated[&Metric::LatencyP999];
        assert!(reason.contains("none of the pairs has a value"), "{reason}");
    }
}

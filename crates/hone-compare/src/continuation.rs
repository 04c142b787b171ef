//! What a run without a verdict needs to get one: further pairs, and the chance that they decide.

use hone_record::{Design, Estimate, Judgement, PairKind, PairOutcome, Rule, Verdict};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use crate::estimate::POWER;
use crate::judge::{Beside, Finding, Span, alpha_of, find, margin, tests_of};
use crate::random::normal;
use crate::spending::level_at;
use crate::student::{t_quantile, welch_freedom};

/// The next part of a run that is continued.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Further {
    /// Further A/B and A/A pairs.
    pub pairs: [u32; 2],
    /// The probability that they give a verdict if the true effect is the current estimate and the pairs scatter as before.
    pub chance: f64,
}

/// Simulated continuations: the error of the simulation is then about one per cent.
const CONTINUATIONS: usize = 2_000;

/// The shortest planned continuation that gives an inconclusive metric a verdict in four of five runs, otherwise the longest one. `None` if
/// the metric has a verdict, if the run can't be continued, or if it has measured all that may be measured.
pub fn further(design: &Design, judgement: &Judgement, measured: &[PairOutcome]) -> Option<Further> {
    let tests = tests_of(measured);
    if judgement.verdict != Verdict::NotShown {
        return None;
    }
    let mut design = design.clone();
    design.continuation.as_mut()?.ends.push(tests);
    let truth = judgement.estimate.ratio.ln();
    let at = |pairs: u32| {
        let more = more_of_continuation(&design, tests, pairs);
        let later = Later::new(&design, judgement, measured, more, truth);
        Further { pairs: more, chance: later.chance(&design.rule) }
    };
    let ahead = design.looks.iter().map(|look| look.pairs).filter(|pairs| *pairs > tests.max(design.pairs));
    let mut found = None;
    for further in ahead.map(at) {
        found = Some(further);
        if further.chance >= POWER {
            break;
        }
    }
    found
}

/// The highest probability that the rest of the plan gives an inconclusive metric a verdict, if the true effect lies within one standard error of
/// the current estimate and the pairs scatter as before.
pub(crate) fn chance_of_plan(design: &Design, judgement: &Judgement, measured: &[PairOutcome]) -> f64 {
    let tests = tests_of(measured);
    let controls = measured.len() as u32 - tests;
    let planned = design.order[..design.planned()].iter().filter(|kind| **kind == PairKind::Control).count();
    let more = [design.pairs.saturating_sub(tests), (planned as u32).saturating_sub(controls)];
    let estimate = &judgement.estimate;
    let error = estimate.log_ratio_sd / f64::from(estimate.pairs.max(1)).sqrt();
    let chance = |errors: f64| {
        let truth = estimate.ratio.ln() + errors * error;
        Later::new(design, judgement, measured, more, truth).chance(&design.rule)
    };
    [-1.0, 0.0, 1.0].map(chance).into_iter().fold(0.0, f64::max)
}

/// Further A/B and A/A pairs up to this number of A/B pairs, in the proportion of the continuation.
fn more_of_continuation(design: &Design, tests: u32, pairs: u32) -> [u32; 2] {
    let behind = design.order.get(design.uncontinued()..).unwrap_or_default();
    let is_control = |kind: &&PairKind| **kind == PairKind::Control;
    let of_controls = behind.iter().filter(is_control).count() as f64 / behind.len().max(1) as f64;
    let more = pairs - tests;
    let controls = (f64::from(more) * of_controls / (1.0 - of_controls).max(f64::EPSILON)).ceil();
    [more, controls as u32]
}

/// The pairs of a kind now and after a continuation.
#[derive(Debug)]
struct Sample {
    /// Mean and standard deviation of the log ratios.
    mean: f64,
    sd: f64,
    /// The mean of the pairs to come.
    truth: f64,
    /// Valid pairs.
    now: f64,
    then: f64,
}

impl Sample {
    /// `more` for each valid pair so far.
    fn new(estimate: &Estimate, truth: f64, more: f64) -> Self {
        let now = f64::from(estimate.pairs);
        Self { mean: estimate.ratio.ln(), sd: estimate.log_ratio_sd, truth, now, then: now * (1.0 + more) }
    }

    /// The mean of all pairs after the continuation.
    fn draw(&self, random: &mut ChaCha8Rng) -> f64 {
        let more = self.then - self.now;
        let to_come = more * self.truth + more.max(0.0).sqrt() * self.sd * normal(random);
        (self.now * self.mean + to_come) / self.then
    }

    fn error(&self) -> f64 {
        self.sd / self.then.sqrt()
    }

    fn freedom(&self) -> f64 {
        self.then - 1.0
    }
}

/// A run after further pairs.
struct Later {
    level: f64,
    test: Sample,
    control: Option<Sample>,
}

impl Later {
    /// With this many further A/B and A/A pairs, and this log ratio of the further A/B pairs. They count as often as those so far.
    fn new(
        design: &Design,
        judgement: &Judgement,
        measured: &[PairOutcome],
        [more_tests, more_controls]: [u32; 2],
        truth: f64,
    ) -> Self {
        let tests = tests_of(measured);
        let controls = measured.len() as u32 - tests;
        let share = |more: u32, now: u32| f64::from(more) / f64::from(now.max(1));
        let alpha = alpha_of(&design.rule, judgement.estimate.metric);
        // Equal arms have the ratio 1.
        let of_control = |control| Sample::new(control, 0.0, share(more_controls, controls));
        Self {
            level: level_at(design, tests + more_tests, alpha),
            test: Sample::new(&judgement.estimate, truth, share(more_tests, tests)),
            control: judgement.control.as_ref().map(of_control),
        }
    }

    /// The share of simulated continuations with a verdict.
    fn chance(&self, rule: &Rule) -> f64 {
        let halves = |error: f64, freedom: f64| {
            [1.0 - self.level / 2.0, 1.0 - self.level].map(|quantile| t_quantile(quantile, freedom) * error)
        };
        let [half, tost_half] = halves(self.test.error(), self.test.freedom());
        let control = self.control.as_ref().map(|control| {
            let sides = [&self.test, control].map(|kind| (kind.error().powi(2), kind.freedom()));
            let both = halves((sides[0].0 + sides[1].0).sqrt(), welch_freedom(sides));
            (control, halves(control.error(), control.freedom())[0], both)
        });
        let (mut random, margin) = (ChaCha8Rng::seed_from_u64(rule.seed), margin(rule));
        let mut has_verdict = || {
            let mean = self.test.draw(&mut random);
            let control = control.as_ref().map(|(kind, half, [beside, beside_tost])| {
                let of_control = kind.draw(&mut random);
                let beside = Beside { mean: mean - of_control, half: *beside, tost_half: *beside_tost };
                (Span { mean: of_control, half: *half }, Some(beside))
            });
            let found = find(margin, Span { mean, half }, Span { mean, half: tost_half }, control);
            matches!(found, Finding::Differs | Finding::Equivalent)
        };
        (0..CONTINUATIONS).filter(|_| has_verdict()).count() as f64 / CONTINUATIONS as f64
    }
}

#[cfg(test)]
mod tests {
    use hone_record::{Metric, Mode};

    use super::*;
    use crate::design::plan;
    use crate::judge::judge;
    use crate::plan::{LookPlan, Plan};

    fn design() -> Design {
        let looks = LookPlan::Continued;
        plan(&Plan { looks, ..Plan::new(Mode::Duet, Metric::CpuPerRecord, [30, 15]) }).unwrap()
    }

    /// The planned pairs, with this ratio and scatter of the A/B pairs and the same scatter of the A/A pairs.
    fn measured(design: &Design, ratio: f64, scatter: f64) -> Vec<PairOutcome> {
        let pair = |index: usize| {
            let (kind, off) = (design.order[index], [1.0, -1.0][index / 3 % 2]);
            let of_kind = if kind == PairKind::Test { ratio } else { 1.0 };
            PairOutcome {
                index: index as u32,
                kind,
                values_a: [(Metric::CpuPerRecord, 1.0)].into(),
                values_b: [(Metric::CpuPerRecord, of_kind * f64::exp(scatter * off))].into(),
                ..PairOutcome::default()
            }
        };
        (0..design.planned()).map(pair).collect()
    }

    fn continued(design: &Design, ratio: f64, scatter: f64) -> Option<Further> {
        let pairs = measured(design, ratio, scatter);
        further(design, &judge(design, &pairs).judgements[0], &pairs)
    }

    #[test]
    fn a_clear_tendency_needs_few_pairs_and_no_tendency_needs_all() {
        let design = design();
        assert_eq!(continued(&design, 0.8, 0.05), None, "there is a verdict");
        let near = continued(&design, 0.972, 0.04).unwrap();
        let far = continued(&design, 0.99, 0.05).unwrap();
        assert!(near.chance > far.chance && near.pairs[0] < far.pairs[0], "{near:?} and {far:?}");
        assert_eq!(far.pairs, [90, 45], "the longest one");
        let hopeless = continued(&design, 0.99, 0.5).unwrap();
        assert!(hopeless.chance < 0.1, "{hopeless:?}");
        // Equal arms are decided by an interval within the margin.
        let equal = continued(&design, 1.0, 0.035).unwrap();
        assert!(equal.chance > 0.6, "{equal:?}");
    }

    #[test]
    fn a_run_that_can_not_be_continued_has_no_further_pairs() {
        let design = design();
        let never = Design { continuation: None, ..design.clone() };
        assert_eq!(continued(&never, 0.99, 0.05), None);
        let mut all = measured(&design, 0.99, 0.05);
        let judgement = judge(&design, &all).judgements.remove(0);
        assert!(further(&design, &judgement, &all).is_some());
        all = all.iter().cycle().take(4 * all.len()).cloned().collect();
        assert_eq!(further(&design, &judgement, &all), None, "all are measured");
    }

    /// The share of continuations with a verdict is the predicted one.
    #[test]
    fn the_chance_is_kept() {
        let design = design();
        let pairs = measured(&design, 0.972, 0.05);
        let judgement = judge(&design, &pairs).judgements.remove(0);
        let predicted = further(&design, &judgement, &pairs).unwrap();
        let mut then = design.clone();
        then.continuation.as_mut().unwrap().ends.push(30);
        then.rule.resamples = 1_000;
        let (mut random, sd) = (ChaCha8Rng::seed_from_u64(9), judgement.estimate.log_ratio_sd);
        let mut more = |count: u32, kind: PairKind, truth: f64| -> Vec<PairOutcome> {
            let pair = |value: f64| PairOutcome {
                kind,
                values_a: [(Metric::CpuPerRecord, 1.0)].into(),
                values_b: [(Metric::CpuPerRecord, value)].into(),
                ..PairOutcome::default()
            };
            (0..count).map(|_| pair(truth * (sd * normal(&mut random)).exp())).collect()
        };
        let [tests, controls] = predicted.pairs;
        let mut is_decided = || {
            let tests = more(tests, PairKind::Test, judgement.estimate.ratio);
            let all = [pairs.clone(), tests, more(controls, PairKind::Control, 1.0)].concat();
            judge(&then, &all).judgements[0].verdict != Verdict::NotShown
        };
        let decided = (0..400).filter(|_| is_decided()).count() as f64 / 400.0;
        // Three standard errors.
        assert!((decided - predicted.chance).abs() < 0.07, "{decided} and not {}", predicted.chance);
    }
}

//! The power of pairs that are not measured yet: the smallest detectable effect, and the pairs that an effect needs.
//!
//! A formula for the power of a t-test would be too optimistic here. It assumes a known spread, which a pilot of a few pairs only
//! estimates, and it ignores the control, which an effect must exceed. So the power comes from simulated sessions, judged by the rule
//! itself. Each session draws a true spread that is consistent with the pilot, the remaining control pairs and the A/B pairs, and applies
//! the rule.
//!
//! `tests/promise.rs` compares the predictions with the results.

use std::collections::BTreeMap;
use std::rc::Rc;

use hone_record::{Design, Metric, PairKind, PairOutcome, Promise, Rule};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use crate::estimate::{
    FEWEST_PAIRS, POWER, centred, first_enough, mean_and_sd, ratio_of, resample, standard_errors,
};
use crate::judge::{Beside, Finding, Span, alpha_of, find, margin};
use crate::random::{chi_square, normal};
use crate::spending::level_at;
use crate::student::{Quantiles, t_quantile, welch_freedom};
use crate::tail::{self, Question};

/// Simulated sessions for each prediction: the error of the simulation is then below one per cent.
const SESSIONS: usize = 2_000;
/// More pairs than anyone would wait for.
const MOST_PAIRS: u32 = 10_000;
/// The search stops at an effect of a factor of 1,000.
const LARGEST_EFFECT: f64 = 6.9;

/// The layout of the pairs after the pilot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// A/B pairs.
    pub pairs: u32,
    /// A/A pairs besides those of the pilot.
    pub more_control_pairs: u32,
    /// Builds per arm. There is no prediction with more than one.
    pub blocks: u32,
}

impl Layout {
    /// This number of A/B pairs, with A/A pairs in this layout's proportion: a control that stays small limits the effect of more A/B
    /// pairs.
    #[must_use]
    pub fn with_pairs(self, pairs: u32) -> Self {
        let scaled = u64::from(pairs) * u64::from(self.more_control_pairs) / u64::from(self.pairs.max(1));
        Self { pairs, more_control_pairs: scaled as u32, ..self }
    }
}

/// The data of an A/A pilot about one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Outlook {
    logs: Vec<f64>,
    alpha: f64,
    margin: f64,
    seed: u64,
}

/// The width of the estimate's confidence interval, in standard errors, on average over normal samples: with few pairs the bootstrap is
/// wider than Student's t. Cached by the number of pairs, because every metric and every effect needs it.
#[derive(Debug, Default)]
pub struct Widths {
    /// |t*| of normal samples, for each number of values.
    samples: BTreeMap<u32, Vec<Vec<f64>>>,
    /// Student's t, for the bits of each probability.
    quantiles: BTreeMap<u64, Rc<Quantiles>>,
}

/// Samples over which the width is averaged.
const SAMPLES: usize = 40;
/// From this number on, the two agree within one in a hundred.
const LIKE_STUDENT: u32 = 30;

impl Widths {
    pub(crate) fn standard_errors(&mut self, values: u32, confidence: f64) -> f64 {
        let student = t_quantile(f64::midpoint(1.0, confidence), f64::from(values) - 1.0);
        if !(FEWEST_PAIRS..LIKE_STUDENT).contains(&values) {
            return student;
        }
        let samples = self.samples.entry(values).or_insert_with(|| normal_samples(values));
        let of_sample = |deviations: &Vec<f64>| standard_errors(deviations, confidence, student);
        samples.iter().map(of_sample).sum::<f64>() / samples.len() as f64
    }

    pub(crate) fn quantiles(&mut self, probability: f64) -> Rc<Quantiles> {
        let make = || Rc::new(Quantiles::new(probability));
        Rc::clone(self.quantiles.entry(probability.to_bits()).or_insert_with(make))
    }
}

/// |t*| over the resamples of some normal samples of this size.
fn normal_samples(values: u32) -> Vec<Vec<f64>> {
    let mut random = ChaCha8Rng::seed_from_u64(u64::from(values));
    let sample = |random: &mut ChaCha8Rng| {
        let sample: Vec<f64> = (0..values).map(|_| normal(random)).collect();
        let mean = mean_and_sd(&sample).0;
        resample(&centred(&sample, mean), 1_000, random)
    };
    (0..SAMPLES).map(|_| sample(&mut random)).collect()
}

/// Predictions for all metrics of a rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Promises {
    /// The primary metric first.
    pub metrics: Vec<Promise>,
    /// Metrics without a prediction, and the reason.
    pub not_planned: BTreeMap<Metric, String>,
    /// Why no metric has a prediction; `None` if one has.
    pub none: Option<String>,
}

/// Why several builds have no prediction. Both windows of an A/A pair use one build, so the pilot contains nothing of the spread that
/// determines the confidence interval over builds.
fn why_none(layout: Layout) -> Option<String> {
    (layout.blocks > 1).then(|| {
        format!(
            "the confidence interval depends on {} blocks of builds, but a pilot of one build does not show \
             how much builds differ; Hone uses the whole budget",
            layout.blocks
        )
    })
}

/// The power of the planned pairs for every metric; `effect` is the requested ratio.
pub fn promises(design: &Design, pilot: &[PairOutcome], layout: Layout, effect: Option<f64>) -> Promises {
    let rule = &design.rule;
    let mut found =
        Promises { metrics: Vec::new(), not_planned: design.refused.clone(), none: why_none(layout) };
    let mut widths = Widths::default();
    for metric in std::iter::once(rule.primary).chain(rule.secondary.iter().copied()) {
        match Outlook::of_plan(design, metric, pilot) {
            Some(_) if found.none.is_some() => {}
            Some(outlook) => found.metrics.push(outlook.promise(metric, layout, effect, &mut widths)),
            None => {
                let reason = format!("fewer than {FEWEST_PAIRS} pilot pairs have it on both sides");
                found.not_planned.insert(metric, reason);
            }
        }
    }
    found
}

impl Outlook {
    /// For the only look of a rule. `None` if fewer than five pilot pairs have the metric.
    pub fn new(rule: &Rule, metric: Metric, pilot: &[PairOutcome]) -> Option<Self> {
        let log = |pair: &PairOutcome| Some((pair.values_b.get(&metric)? / pair.values_a.get(&metric)?).ln());
        let counts = |pair: &&PairOutcome| pair.kind == PairKind::Control && pair.dropped.is_none();
        let logs: Vec<f64> =
            pilot.iter().filter(counts).filter_map(log).filter(|log| log.is_finite()).collect();
        (logs.len() >= FEWEST_PAIRS as usize).then(|| Self {
            logs,
            alpha: alpha_of(rule, metric),
            margin: margin(rule),
            seed: rule.seed,
        })
    }

    /// As [`Outlook::new`], for the look at the planned end of a design.
    pub fn of_plan(design: &Design, metric: Metric, pilot: &[PairOutcome]) -> Option<Self> {
        let alpha = level_at(design, design.pairs, alpha_of(&design.rule, metric));
        Some(Self { alpha, ..Self::new(&design.rule, metric, pilot)? })
    }

    fn promise(&self, metric: Metric, layout: Layout, effect: Option<f64>, widths: &mut Widths) -> Promise {
        Promise {
            metric,
            log_ratio_sd: self.spread(),
            detectable_ratio: self.smallest_effect(layout, widths),
            pairs_needed: effect.and_then(|effect| self.pairs_needed(layout, effect, widths)),
            power_for_effect: effect.map(|effect| self.power(layout, effect, widths)),
            power_with_tail: effect.map(|effect| self.power_with_tail(layout, effect, widths)),
        }
    }

    /// Spread around 0, the true mean of A/A pairs.
    pub fn spread(&self) -> f64 {
        (self.logs.iter().map(|log| log * log).sum::<f64>() / self.logs.len() as f64).sqrt()
    }

    /// The probability of detecting a true ratio of `effect`, with the right sign.
    pub fn power(&self, layout: Layout, effect: f64, widths: &mut Widths) -> f64 {
        self.sessions(layout, widths).found(effect.ln())
    }

    /// The same if one pair in ten scatters five times as far as the others. A pilot of a few pairs often contains no such pair.
    pub fn power_with_tail(&self, layout: Layout, effect: f64, widths: &mut Widths) -> f64 {
        let Self { alpha, margin, seed, .. } = *self;
        tail::power(&self.logs, Question { layout, effect: effect.ln(), alpha, margin, seed }, widths)
    }

    /// The smallest ratio above 1 that is detected with a probability of 80 %; `None` above a factor of 1,000.
    pub fn smallest_effect(&self, layout: Layout, widths: &mut Widths) -> Option<f64> {
        let sessions = self.sessions(layout, widths);
        let (mut low, mut high) = (0.0, LARGEST_EFFECT);
        if sessions.found(high) < POWER {
            return None;
        }
        while high - low > 1e-4 {
            let middle = f64::midpoint(low, high);
            if sessions.found(middle) < POWER { low = middle } else { high = middle }
        }
        Some(ratio_of(high))
    }

    /// The A/B pairs that detect a true ratio of `effect` with a probability of 80 %, with A/A pairs in the layout's proportion. `None` if
    /// 10,000 are not enough, for example because the control differs.
    pub fn pairs_needed(&self, layout: Layout, effect: f64, widths: &mut Widths) -> Option<u32> {
        first_enough(FEWEST_PAIRS, MOST_PAIRS, |pairs| {
            self.power(layout.with_pairs(pairs), effect, widths) >= POWER
        })
    }

    fn sessions(&self, layout: Layout, widths: &mut Widths) -> Sessions {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let values = layout.pairs;
        let control_pairs = self.logs.len() as u32 + layout.more_control_pairs;
        let limits = Limits {
            test: widths.standard_errors(values, 1.0 - self.alpha),
            tost: widths.standard_errors(values, 1.0 - 2.0 * self.alpha),
            control: widths.standard_errors(control_pairs, 1.0 - self.alpha),
            beside: widths.quantiles(1.0 - self.alpha / 2.0),
            beside_tost: widths.quantiles(1.0 - self.alpha),
        };
        let freedom = f64::from(values) - 1.0;
        let draws = (0..SESSIONS).map(|_| self.draw(layout, freedom, &limits, &mut random)).collect();
        Sessions { margin: self.margin, draws }
    }

    fn draw(&self, layout: Layout, freedom: f64, limits: &Limits, random: &mut ChaCha8Rng) -> Draw {
        let pilot = self.logs.len() as f64;
        let true_sd = self.spread() / (chi_square(pilot, random) / pilot).sqrt();
        let error = true_sd / f64::from(layout.pairs).sqrt();
        let seen_error = error * (chi_square(freedom, random) / freedom).sqrt();
        let offset = error * normal(random);
        let control = self.control(layout, true_sd, limits.control, random);
        let control_error = control.half / limits.control;
        let control_freedom = pilot + f64::from(layout.more_control_pairs) - 1.0;
        let both = [(seen_error * seen_error, freedom), (control_error * control_error, control_freedom)];
        let (both_error, both_freedom) = (seen_error.hypot(control_error), welch_freedom(both));
        Draw {
            offset,
            test_half: limits.test * seen_error,
            tost_half: limits.tost * seen_error,
            control,
            beside_half: limits.beside.at(both_freedom) * both_error,
            beside_tost_half: limits.beside_tost.at(both_freedom) * both_error,
        }
    }

    /// The pilot's pairs together with the remaining ones.
    fn control(&self, layout: Layout, true_sd: f64, limit: f64, random: &mut ChaCha8Rng) -> Span {
        let (count, more) = (self.logs.len() as f64, f64::from(layout.more_control_pairs));
        let mean = self.logs.iter().sum::<f64>() / count;
        let squares = self.logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
        if more == 0.0 {
            return span(mean, squares, count, limit);
        }
        let more_mean = true_sd / more.sqrt() * normal(random);
        let more_squares = if more > 1.0 { true_sd * true_sd * chi_square(more - 1.0, random) } else { 0.0 };
        let all = count + more;
        let apart = count * more / all * (mean - more_mean).powi(2);
        span((count * mean + more * more_mean) / all, squares + more_squares + apart, all, limit)
    }
}

fn span(mean: f64, squares: f64, count: f64, limit: f64) -> Span {
    Span { mean, half: limit * (squares / (count - 1.0) / count).sqrt() }
}

#[derive(Debug)]
struct Limits {
    test: f64,
    tost: f64,
    control: f64,
    beside: Rc<Quantiles>,
    beside_tost: Rc<Quantiles>,
}

/// One simulated session without its effect, so that all effects use the same sessions.
#[derive(Debug)]
struct Draw {
    offset: f64,
    test_half: f64,
    tost_half: f64,
    control: Span,
    beside_half: f64,
    beside_tost_half: f64,
}

#[derive(Debug)]
struct Sessions {
    margin: f64,
    draws: Vec<Draw>,
}

impl Sessions {
    /// The share of sessions in which an effect (a log ratio, not negative) is detected with its sign.
    fn found(&self, effect: f64) -> f64 {
        let finds = |draw: &&Draw| {
            let mean = effect + draw.offset;
            let span = |half| Span { mean, half };
            let beside = Beside {
                mean: mean - draw.control.mean,
                half: draw.beside_half,
                tost_half: draw.beside_tost_half,
            };
            let control = Some((draw.control, Some(beside)));
            mean > 0.0
                && find(self.margin, span(draw.test_half), span(draw.tost_half), control) == Finding::Differs
        };
        self.draws.iter().filter(finds).count() as f64 / self.draws.len() as f64
    }
}

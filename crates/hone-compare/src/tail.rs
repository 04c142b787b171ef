//! The probability of detecting an effect if the noise has a tail that a short pilot may not have met: one pair in ten with five times the
//! spread of the others, for example by an intermittent neighbour.
//!
//! With such noise, more than half of all pilots show five quiet pairs in a row. So the simulation applies the rule to sessions whose noise
//! has that tail, and whose spread is consistent with the pilot. It draws and resamples the pairs themselves: a mean and a spread do not
//! determine the width of a confidence interval with one wild pair.

use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use crate::estimate::{centred, mean_and_sd, resample, standard_errors};
use crate::judge::{Beside, Finding, Span, find};
use crate::power::{Layout, Widths};
use crate::random::{normal, uniform};
use crate::student::{t_quantile, welch_freedom};

/// Share of disturbed pairs.
const SHARE: f64 = 0.1;
/// Their spread, relative to the others.
const SCALE: f64 = 5.0;
/// Simulated sessions: the error of the simulation is below 2.5 per cent.
const SESSIONS: usize = 400;
/// Resamples of each session.
const RESAMPLES: u32 = 400;
/// From this number of pairs on, Student's t can replace the resamples.
const LIKE_STUDENT: u32 = 60;
/// Steps of the spread's grid, and its ends as factors of the pilot's own.
const STEPS: u32 = 200;
const GRID: (f64, f64) = (0.05, 4.0);

/// The question, besides the pilot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question {
    pub(crate) layout: Layout,
    /// A log ratio, not negative.
    pub(crate) effect: f64,
    pub(crate) alpha: f64,
    pub(crate) margin: f64,
    pub(crate) seed: u64,
}

/// The probability of detecting the effect with its sign.
pub(crate) fn power(pilot: &[f64], question: Question, widths: &mut Widths) -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(question.seed);
    let spreads = Spreads::new(pilot);
    let alpha = question.alpha;
    let control_pairs = pilot.len() as u32 + question.layout.more_control_pairs;
    let control_width = widths.standard_errors(control_pairs, 1.0 - alpha);
    let (beside, beside_tost) = (widths.quantiles(1.0 - alpha / 2.0), widths.quantiles(1.0 - alpha));
    let found = (0..SESSIONS).filter(|_| {
        let sd = spreads.draw(&mut random);
        let mut pairs = |count: u32, ratio: f64| -> Vec<f64> {
            (0..count).map(|_| ratio + sd * tailed(&mut random)).collect()
        };
        let test = pairs(question.layout.pairs, question.effect);
        let control = [pilot, &pairs(question.layout.more_control_pairs, 0.0)].concat();
        let (mean, error) = mean_and_error(&test);
        let (control_mean, control_error) = mean_and_error(&control);
        let freedoms = [test.len(), control.len()].map(|count| count as f64 - 1.0);
        let deviations = if question.layout.pairs < LIKE_STUDENT {
            resample(&centred(&test, mean), RESAMPLES, &mut random)
        } else {
            Vec::new()
        };
        let span = |confidence: f64| {
            let student = t_quantile(f64::midpoint(1.0, confidence), freedoms[0]);
            Span { mean, half: standard_errors(&deviations, confidence, student) * error }
        };
        let (both, freedom) = (
            error.hypot(control_error),
            welch_freedom([(error.powi(2), freedoms[0]), (control_error.powi(2), freedoms[1])]),
        );
        let less = Beside {
            mean: mean - control_mean,
            half: beside.at(freedom) * both,
            tost_half: beside_tost.at(freedom) * both,
        };
        let control = Span { mean: control_mean, half: control_width * control_error };
        let finding =
            find(question.margin, span(1.0 - alpha), span(1.0 - 2.0 * alpha), Some((control, Some(less))));
        mean > 0.0 && finding == Finding::Differs
    });
    found.count() as f64 / SESSIONS as f64
}

fn mean_and_error(logs: &[f64]) -> (f64, f64) {
    let (mean, sd) = mean_and_sd(logs);
    (mean, sd / (logs.len() as f64).sqrt())
}

fn tailed(random: &mut ChaCha8Rng) -> f64 {
    let scale = if uniform(random) < SHARE { SCALE } else { 1.0 };
    scale * normal(random)
}

/// The spreads of undisturbed pairs that are consistent with a pilot, weighted by their likelihood (a priori, every order of magnitude is
/// equally likely).
struct Spreads {
    spreads: Vec<f64>,
    /// Cumulative weights, as shares of the total.
    likelihood: Vec<f64>,
}

impl Spreads {
    fn new(pilot: &[f64]) -> Self {
        let own = (pilot.iter().map(|log| log * log).sum::<f64>() / pilot.len() as f64).sqrt();
        let step = (GRID.1 / GRID.0).ln() / f64::from(STEPS);
        let spreads: Vec<f64> =
            (0..=STEPS).map(|index| own * GRID.0 * (step * f64::from(index)).exp()).collect();
        let logs: Vec<f64> = spreads.iter().map(|spread| log_likelihood(pilot, *spread)).collect();
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum = |sum: &mut f64, log: &f64| {
            *sum += (log - most).exp();
            Some(*sum)
        };
        let likelihood = logs.iter().scan(0.0, sum).collect();
        Self { spreads, likelihood }
    }

    fn draw(&self, random: &mut ChaCha8Rng) -> f64 {
        let all = self.likelihood.last().copied().unwrap_or_default();
        let place = uniform(random) * all;
        let index = self.likelihood.partition_point(|up_to| *up_to < place);
        self.spreads[index.min(self.spreads.len() - 1)]
    }
}

fn log_likelihood(logs: &[f64], spread: f64) -> f64 {
    let density = |log: &f64, spread: f64| (-0.5 * (log / spread).powi(2)).exp() / spread;
    let of = |log: &f64| (1.0 - SHARE) * density(log, spread) + SHARE * density(log, SCALE * spread);
    logs.iter().map(|log| of(log).ln()).sum()
}

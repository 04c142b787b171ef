//! Whether one host became slower than its peers: a difference in differences. The value is its ratio to the peers after a change, over the
//! same ratio before it. Anything that slows all of them at the same time (load, time of day, a common neighbour) cancels.

use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use crate::estimate::{
    FEWEST_PAIRS, NotEstimated, below, centred, detectable, mean_and_sd, ratio_of, standard_errors,
};
use crate::student::{t_quantile, welch_freedom};

/// The shift of a ratio, with its confidence interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Shift {
    /// The ratio after over the ratio before: above 1 it got worse than the others, if less is better.
    pub ratio: f64,
    /// Lower end of the confidence interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Confidence level, two-sided.
    pub confidence: f64,
    /// Blocks before the change.
    pub before: u32,
    /// Blocks after it.
    pub after: u32,
    /// The smallest shift that these blocks detect with a probability of 80 %.
    pub detectable_ratio: f64,
}

/// The shift between two stretches of time. A value is the ratio of one block of time. A block is so long that a disturbance of one block
/// does not affect the next one.
///
/// The confidence interval is the bootstrap's, studentised as Welch does it. The bootstrap resamples each stretch by itself.
///
/// # Errors
/// Fails when a stretch has fewer than [`FEWEST_PAIRS`] blocks, or when a value has no logarithm.
pub fn shift(
    before: &[f64],
    after: &[f64],
    confidence: f64,
    resamples: u32,
    seed: u64,
) -> Result<Shift, NotEstimated> {
    let sides = [Side::of(before)?, Side::of(after)?];
    let moved = sides[1].mean - sides[0].mean;
    let error = sides.iter().map(Side::variance).sum::<f64>().sqrt();
    let freedom = welch_freedom([0, 1].map(|at: usize| (sides[at].variance(), sides[at].freedom())));
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut deviations: Vec<f64> = (0..resamples.max(1)).map(|_| deviation(&sides, &mut random)).collect();
    deviations.sort_unstable_by(f64::total_cmp);
    let student = t_quantile(f64::midpoint(1.0, confidence), freedom);
    let half_width = standard_errors(&deviations, confidence, student) * error;
    let blocks = |values: &[f64]| u32::try_from(values.len()).unwrap_or(u32::MAX);
    Ok(Shift {
        ratio: ratio_of(moved),
        low: ratio_of(moved - half_width),
        high: ratio_of(moved + half_width),
        confidence,
        before: blocks(before),
        after: blocks(after),
        detectable_ratio: ratio_of(detectable(error, freedom, confidence)),
    })
}

/// Logarithms of one stretch.
struct Side {
    mean: f64,
    sd: f64,
    /// Around 0.
    centred: Vec<f64>,
}

impl Side {
    fn of(ratios: &[f64]) -> Result<Self, NotEstimated> {
        if ratios.len() < FEWEST_PAIRS as usize {
            return Err(NotEstimated::TooFewPairs { pairs: ratios.len() });
        }
        if !ratios.iter().all(|ratio| *ratio > 0.0 && ratio.is_finite()) {
            return Err(NotEstimated::NotPositive);
        }
        let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
        let (mean, sd) = mean_and_sd(&logs);
        Ok(Self { mean, sd, centred: centred(&logs, mean) })
    }

    /// Of the mean.
    fn variance(&self) -> f64 {
        self.sd * self.sd / self.centred.len() as f64
    }

    fn freedom(&self) -> f64 {
        self.centred.len() as f64 - 1.0
    }
}

/// |t*| of one resample of both sides.
fn deviation(sides: &[Side; 2], random: &mut ChaCha8Rng) -> f64 {
    let drawn = [0, 1].map(|at: usize| {
        let values = &sides[at].centred;
        let sample: Vec<f64> = (0..values.len()).map(|_| values[below(random, values.len())]).collect();
        let (mean, sd) = mean_and_sd(&sample);
        (mean, sd * sd / sample.len() as f64)
    });
    let error = (drawn[0].1 + drawn[1].1).sqrt();
    let moved = (drawn[1].0 - drawn[0].0).abs();
    if error > 1e-12 {
        moved / error
    } else if moved <= f64::EPSILON {
        0.0
    } else {
        // A resample of equal values knows nothing about the spread; counting it as far keeps the interval honest.
        f64::INFINITY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::normal;

    fn ratios(count: usize, log_mean: f64, sd: f64, random: &mut ChaCha8Rng) -> Vec<f64> {
        (0..count).map(|_| (log_mean + sd * normal(random)).exp()).collect()
    }

    #[test]
    fn a_constant_shift_is_found_exactly() {
        let found = shift(&[1.0, 2.0, 4.0, 2.0, 1.0], &[3.0, 6.0, 12.0, 6.0, 3.0], 0.95, 500, 1).unwrap();
        assert!((found.ratio - 3.0).abs() < 1e-12 && found.low < 3.0 && found.high > 3.0);
        let still = shift(&[2.0; 6], &[2.0; 6], 0.95, 500, 1).unwrap();
        assert!((still.low, still.high) == (1.0, 1.0));
    }

    #[test]
    fn what_has_no_logarithm_or_too_few_blocks_is_refused() {
        let few = shift(&[1.0; 4], &[1.0; 9], 0.95, 100, 1);
        assert_eq!(few, Err(NotEstimated::TooFewPairs { pairs: 4 }));
        assert_eq!(shift(&[1.0; 5], &[0.0; 5], 0.95, 100, 1), Err(NotEstimated::NotPositive));
    }

    /// The interval holds the true value as often as its level says, as far as 2,000 trials can show, also with unlike sides and skewed
    /// noise.
    #[test]
    fn the_interval_keeps_its_promise() {
        let mut random = ChaCha8Rng::seed_from_u64(11);
        for (sizes, sds) in [((8, 8), (0.3, 0.3)), ((6, 30), (0.3, 0.1)), ((40, 12), (0.1, 0.5))] {
            let trials: u32 = 2_000;
            let missed = (0..trials)
                .filter(|trial| {
                    let before = ratios(sizes.0, 0.2, sds.0, &mut random);
                    let after = ratios(sizes.1, 0.2 + 0.4, sds.1, &mut random);
                    let found = shift(&before, &after, 0.95, 300, u64::from(*trial)).unwrap();
                    !(found.low..=found.high).contains(&0.4_f64.exp())
                })
                .count();
            let share = missed as f64 / f64::from(trials);
            assert!(share < 0.065, "{sizes:?} {sds:?}: missed {share}");
        }
    }

    /// Most runs over a known shift of the size that is called detectable show it.
    #[test]
    fn the_detectable_shift_is_shown_four_times_in_five() {
        let mut random = ChaCha8Rng::seed_from_u64(12);
        let (n, sd) = (12, 0.2);
        let effect = shift(&ratios(n, 0.0, sd, &mut random), &ratios(n, 0.0, sd, &mut random), 0.95, 300, 1)
            .unwrap()
            .detectable_ratio
            .ln();
        // The planned error, not the one of a single draw.
        let effect = effect.clamp(0.2, 0.28);
        let shown = (0..500)
            .filter(|trial| {
                let before = ratios(n, 0.0, sd, &mut random);
                let after = ratios(n, effect, sd, &mut random);
                shift(&before, &after, 0.95, 300, *trial).unwrap().low > 1.0
            })
            .count();
        assert!((340..=490).contains(&shown), "{shown} of 500 at {effect}");
    }
}

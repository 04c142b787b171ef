//! A ratio with its interval, from pairs.

use hone_record::{Estimate, Metric};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use crate::student::t_quantile;

/// Below this number a resampled interval has too few distinct resamples to mean anything (5 pairs: 126).
pub const FEWEST_PAIRS: u32 = 5;

/// Values of one metric, `(first arm, second arm)` a pair.
#[derive(Debug, Clone, PartialEq)]
pub struct Pairs {
    /// What the values are.
    pub metric: Metric,
    /// Both values positive and finite; others are refused.
    pub values: Vec<(f64, f64)>,
}

/// Why there is no estimate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NotEstimated {
    /// Too few pairs have both values.
    #[error("only {pairs} of the pairs have a value on both sides, at least {FEWEST_PAIRS} are needed")]
    TooFewPairs {
        /// Pairs with both values.
        pairs: usize,
    },
    /// A ratio of these has no logarithm.
    #[error("a value is zero, negative or not finite")]
    NotPositive,
}

/// Power at which the smallest detectable effect is told.
const POWER: f64 = 0.8;

/// Estimates the ratio second/first: the geometric mean over pairs, with a symmetric studentised bootstrap interval.
///
/// The studentised ("bootstrap-t") interval keeps its promise with few pairs, where the plain percentile interval is
/// too narrow (Hall 1988; `crates/hone-compare/tests/coverage.rs` measures both claims). Resampled are pairs.
///
/// `confidence` is two-sided, `seed` fixes the resamples: the same record gives the same estimate.
///
/// # Errors
/// When fewer than [`FEWEST_PAIRS`] pairs are given, or a value has no logarithm.
pub fn estimate(pairs: &Pairs, confidence: f64, resamples: u32, seed: u64) -> Result<Estimate, NotEstimated> {
    let logs = log_ratios(pairs)?;
    let (mean, sd) = mean_and_sd(&logs);
    let error = sd / (logs.len() as f64).sqrt();
    let half_width = bootstrap_t(&logs, mean, confidence, resamples, seed) * error;
    let geometric = |side: fn(&(f64, f64)) -> f64| {
        (pairs.values.iter().map(|pair| side(pair).ln()).sum::<f64>() / pairs.values.len() as f64).exp()
    };
    Ok(Estimate {
        metric: pairs.metric,
        pairs: logs.len() as u32,
        value_a: geometric(|pair| pair.0),
        value_b: geometric(|pair| pair.1),
        ratio: ratio_of(mean),
        low: ratio_of(mean - half_width),
        high: ratio_of(mean + half_width),
        confidence,
        log_ratio_sd: sd,
        detectable_ratio: ratio_of(detectable(error, logs.len() as f64 - 1.0, confidence)),
    })
}

fn log_ratios(pairs: &Pairs) -> Result<Vec<f64>, NotEstimated> {
    if pairs.values.len() < FEWEST_PAIRS as usize {
        return Err(NotEstimated::TooFewPairs { pairs: pairs.values.len() });
    }
    let usable = |value: f64| value > 0.0 && value.is_finite();
    if !pairs.values.iter().all(|&(first, second)| usable(first) && usable(second)) {
        return Err(NotEstimated::NotPositive);
    }
    Ok(pairs.values.iter().map(|(first, second)| (second / first).ln()).collect())
}

/// Back from a logarithm. A ratio beyond a trillion is no measurement; kept finite, it can still be written down.
fn ratio_of(log: f64) -> f64 {
    log.exp().clamp(1e-12, 1e12)
}

/// Mean and sample standard deviation (n - 1).
fn mean_and_sd(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (mean, (squares / (count - 1.0)).sqrt())
}

/// The `confidence` quantile of |t*| over resamples.
fn bootstrap_t(logs: &[f64], mean: f64, confidence: f64, resamples: u32, seed: u64) -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut sample = vec![0.0; logs.len()];
    let root = (logs.len() as f64).sqrt();
    let mut deviations: Vec<f64> = (0..resamples.max(1))
        .map(|_| {
            for slot in &mut sample {
                *slot = logs[below(&mut random, logs.len())];
            }
            let (resampled_mean, resampled_sd) = mean_and_sd(&sample);
            let distance = (resampled_mean - mean).abs() * root;
            // A resample of equal values knows nothing of the spread; counting it as infinitely far keeps the
            // interval honest. Where all pairs agree exactly there is no spread to know.
            if resampled_sd > 0.0 {
                distance / resampled_sd
            } else if distance == 0.0 {
                0.0
            } else {
                f64::INFINITY
            }
        })
        .collect();
    deviations.sort_by(f64::total_cmp);
    let rank = (confidence * deviations.len() as f64).ceil() as usize;
    let found = deviations[rank.clamp(1, deviations.len()) - 1];
    found.min(MOST_OF_STUDENT * t_quantile(f64::midpoint(1.0, confidence), logs.len() as f64 - 1.0))
}

/// With five or six pairs and a high confidence the far resamples are nearly degenerate (one value again and again),
/// and their distance says nothing any more. Twice Student's t bounds them; `tests/coverage.rs` holds at that level too.
const MOST_OF_STUDENT: f64 = 2.0;

/// An unbiased index below `limit`: multiply and shift, rejection is pointless at these sizes (bias < 2^-50).
fn below(random: &mut ChaCha8Rng, limit: usize) -> usize {
    ((u128::from(random.next_u64()) * limit as u128) >> 64) as usize
}

/// Log of the smallest effect shown with [`POWER`]: (t for the confidence + t for the power) standard errors.
fn detectable(error: f64, freedom: f64, confidence: f64) -> f64 {
    (t_quantile(f64::midpoint(1.0, confidence), freedom) + t_quantile(POWER, freedom)) * error
}

/// Pairs needed to show an effect of `ratio` with the spread of `estimate`; `None` when more than 10,000 would not do.
pub(crate) fn pairs_needed(estimate: &Estimate, ratio: f64) -> Option<u32> {
    let effect = ratio.ln().abs();
    (FEWEST_PAIRS..=10_000).find(|&count| {
        let error = estimate.log_ratio_sd / f64::from(count).sqrt();
        detectable(error, f64::from(count) - 1.0, estimate.confidence) <= effect
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(values: &[(f64, f64)]) -> Pairs {
        Pairs { metric: Metric::CpuPerRecord, values: values.to_vec() }
    }

    #[test]
    fn a_constant_ratio_is_found_exactly() {
        let found =
            estimate(&pairs(&[(1.0, 1.1), (2.0, 2.2), (4.0, 4.4), (3.0, 3.3), (5.0, 5.5)]), 0.95, 2_000, 1)
                .unwrap();
        assert!((found.ratio - 1.1).abs() < 1e-12);
        assert!((found.low - 1.1).abs() < 1e-9 && (found.high - 1.1).abs() < 1e-9);
    }

    #[test]
    fn the_interval_holds_the_ratio_and_is_symmetric_in_logs() {
        let found = estimate(
            &pairs(&[(1.0, 1.2), (1.0, 0.9), (1.0, 1.1), (1.0, 1.05), (1.0, 1.15), (1.0, 1.0)]),
            0.95,
            5_000,
            1,
        )
        .unwrap();
        assert!(found.low < found.ratio && found.ratio < found.high);
        assert!((found.low * found.high - found.ratio * found.ratio).abs() < 1e-9);
    }

    #[test]
    fn swapping_the_arms_inverts_the_ratio() {
        let values = [(1.0, 1.2), (1.1, 0.9), (1.0, 1.1), (0.8, 1.05), (1.0, 1.15), (1.3, 1.0)];
        let swapped: Vec<_> = values.iter().map(|&(first, second)| (second, first)).collect();
        let forwards = estimate(&pairs(&values), 0.95, 5_000, 9).unwrap();
        let backwards = estimate(&pairs(&swapped), 0.95, 5_000, 9).unwrap();
        assert!((forwards.ratio * backwards.ratio - 1.0).abs() < 1e-12);
        assert!((forwards.low * backwards.high - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_has_no_logarithm_or_too_few_pairs_is_refused() {
        assert_eq!(
            estimate(&pairs(&[(1.0, 1.0); 4]), 0.95, 100, 1),
            Err(NotEstimated::TooFewPairs { pairs: 4 })
        );
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let mut values = vec![(1.0, 1.0); 6];
            values[3].1 = bad;
            assert_eq!(estimate(&pairs(&values), 0.95, 100, 1), Err(NotEstimated::NotPositive));
        }
    }

    /// A published figure to check against: with a log SD of 0.124 and 20 pairs the smallest effect shown with 80 %
    /// power is 8 %, and 10 % needs about 14 pairs.
    #[test]
    fn the_detectable_effect_matches_the_textbook() {
        let error = 0.124 / 20f64.sqrt();
        let effect = detectable(error, 19.0, 0.95).exp() - 1.0;
        assert!((0.080..0.087).contains(&effect), "{effect}");
        let mut estimate = estimate(&pairs(&[(1.0, 1.0); 6]), 0.95, 100, 1).unwrap();
        estimate.log_ratio_sd = 0.124;
        assert_eq!(pairs_needed(&estimate, 1.10), Some(16));
        assert_eq!(pairs_needed(&estimate, 1.0), None);
    }
}

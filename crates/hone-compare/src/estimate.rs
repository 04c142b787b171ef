//! A ratio with its confidence interval, from pairs.

use std::collections::BTreeMap;

use hone_record::{BuildSpread, Estimate, Metric};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use crate::student::t_quantile;

/// With fewer pairs, a bootstrap interval has too few distinct resamples to mean anything (5 pairs: 126).
pub const FEWEST_PAIRS: u32 = 5;

/// Builds that an arm needs to show the spread between builds. With two, the confidence interval would be 13 standard errors wide on either
/// side.
pub const FEWEST_BLOCKS: u32 = 3;

/// Values of one metric, `(first arm, second arm)` for each pair.
#[derive(Debug, Clone, PartialEq)]
pub struct Pairs {
    /// The metric.
    pub metric: Metric,
    /// Both values must be positive and finite.
    pub values: Vec<(f64, f64)>,
    /// The build, or the start of the processes, that each pair measured: pairs of one block share the luck of both arms. Empty if each
    /// pair has its own.
    pub blocks: Vec<u32>,
}

impl Pairs {
    /// Pairs of arms with one build each.
    pub fn of_one_build(metric: Metric, values: Vec<(f64, f64)>) -> Self {
        Self { metric, values, blocks: Vec::new() }
    }
}

fn with_a_value(pairs: usize) -> String {
    match pairs {
        0 => "none of the pairs has a value".to_owned(),
        1 => "only 1 of the pairs has a value".to_owned(),
        pairs => format!("only {pairs} of the pairs have a value"),
    }
}

/// Why there is no estimate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NotEstimated {
    /// Too few pairs have both values.
    #[error("{} on both sides; at least {FEWEST_PAIRS} are necessary", with_a_value(*.pairs))]
    TooFewPairs {
        /// Pairs with both values.
        pairs: usize,
    },
    /// A ratio of these values has no logarithm.
    #[error("a value is zero, negative or not finite")]
    NotPositive,
    /// Too few blocks to show the spread between them.
    #[error(
        "only {blocks} of the blocks (builds, or starts of the processes) have a valid pair; at least \
         {FEWEST_BLOCKS} are necessary"
    )]
    TooFewBlocks {
        /// Blocks with pairs.
        blocks: usize,
    },
}

/// The power of the smallest detectable effect.
pub(crate) const POWER: f64 = 0.8;

/// Estimates the ratio second/first: the geometric mean over pairs, with a symmetric studentised bootstrap confidence interval.
///
/// The studentised ("bootstrap-t") interval has the right coverage with few pairs, where the plain percentile interval is too narrow (Hall
/// 1988; `crates/hone-compare/tests/coverage.rs` measures both claims). The bootstrap resamples pairs.
///
/// With several builds per arm, or processes that live for several pairs, pairs of one block share the luck of its builds or processes.
/// Then the estimate is the mean of the blocks' means, and the interval is studentised by the spread between blocks: the bootstrap
/// resamples blocks, and pairs within them (Kalibera and Jones 2013). Fewer than five blocks have too few distinct resamples, so Student's
/// t over the blocks' means replaces the bootstrap.
///
/// `confidence` is two-sided. `seed` fixes the resamples, so the same record gives the same estimate.
///
/// # Errors
/// Fails with fewer than [`FEWEST_PAIRS`] pairs or [`FEWEST_BLOCKS`] blocks, or when a value has no logarithm.
pub fn estimate(pairs: &Pairs, confidence: f64, resamples: u32, seed: u64) -> Result<Estimate, NotEstimated> {
    Ok(Resampled::new(pairs, resamples, seed)?.estimate(confidence))
}

/// Pairs with the resamples of their mean, ready for a confidence interval of any level.
#[derive(Debug)]
pub(crate) struct Resampled {
    estimate: Estimate,
    pub(crate) mean: f64,
    /// Standard error of the mean.
    pub(crate) error: f64,
    pub(crate) freedom: f64,
    /// |t*| of the resamples, sorted; empty if Student's t replaces them.
    deviations: Vec<f64>,
}

impl Resampled {
    pub(crate) fn new(pairs: &Pairs, resamples: u32, seed: u64) -> Result<Self, NotEstimated> {
        let logs = log_ratios(pairs)?;
        let blocks = blocks_of(&logs, &pairs.blocks)?;
        let (pair_mean, sd) = mean_and_sd(&logs);
        let geometric = |side: fn(&(f64, f64)) -> f64| {
            (pairs.values.iter().map(|pair| side(pair).ln()).sum::<f64>() / logs.len() as f64).exp()
        };
        let estimate = Estimate {
            metric: pairs.metric,
            pairs: logs.len() as u32,
            value_a: geometric(|pair| pair.0),
            value_b: geometric(|pair| pair.1),
            ratio: 1.0,
            low: 1.0,
            high: 1.0,
            confidence: 0.0,
            log_ratio_sd: sd,
            detectable_ratio: 1.0,
            builds: None,
        };
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        if blocks.len() < 2 {
            let error = sd / (logs.len() as f64).sqrt();
            let deviations = resample(&centred(&logs, pair_mean), resamples, &mut random);
            return Ok(Self {
                estimate,
                mean: pair_mean,
                error,
                freedom: logs.len() as f64 - 1.0,
                deviations,
            });
        }
        let means: Vec<f64> = blocks.iter().map(|block| mean_and_sd(block).0).collect();
        let (mean, between) = mean_and_sd(&means);
        let deviations = if blocks.len() < FEWEST_PAIRS as usize {
            Vec::new()
        } else {
            resample_blocks(&blocks, mean, resamples, &mut random)
        };
        Ok(Self {
            estimate: Estimate { builds: Some(build_spread(&blocks, between)), ..estimate },
            mean,
            error: between / (means.len() as f64).sqrt(),
            freedom: means.len() as f64 - 1.0,
            deviations,
        })
    }

    pub(crate) fn estimate(&self, confidence: f64) -> Estimate {
        let student = t_quantile(f64::midpoint(1.0, confidence), self.freedom);
        let half_width = standard_errors(&self.deviations, confidence, student) * self.error;
        Estimate {
            ratio: ratio_of(self.mean),
            low: ratio_of(self.mean - half_width),
            high: ratio_of(self.mean + half_width),
            confidence,
            detectable_ratio: ratio_of(detectable(self.error, self.freedom, confidence)),
            ..self.estimate.clone()
        }
    }
}

/// Half the width of a confidence interval in standard errors: the `confidence` quantile of |t*| over sorted resamples, or Student's t
/// without resamples.
pub(crate) fn standard_errors(deviations: &[f64], confidence: f64, student: f64) -> f64 {
    let count = deviations.len();
    if count == 0 {
        return student;
    }
    let rank = (confidence * count as f64).ceil() as usize;
    deviations[rank.clamp(1, count) - 1].min(MOST_OF_STUDENT * student)
}

/// The logarithms by block; one block if builds are not distinguished.
fn blocks_of(logs: &[f64], blocks: &[u32]) -> Result<Vec<Vec<f64>>, NotEstimated> {
    if blocks.is_empty() {
        return Ok(vec![logs.to_vec()]);
    }
    let mut found: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (log, block) in logs.iter().zip(blocks) {
        found.entry(*block).or_default().push(*log);
    }
    if found.len() < FEWEST_BLOCKS as usize {
        return Err(NotEstimated::TooFewBlocks { blocks: found.len() });
    }
    Ok(found.into_values().collect())
}

/// The part of the spread that comes from the builds. The spread of the blocks' means also contains a share of the spread within them.
fn build_spread(blocks: &[Vec<f64>], between_sd: f64) -> BuildSpread {
    let squares = |block: &Vec<f64>| {
        let mean = mean_and_sd(block).0;
        block.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
    };
    let freedom = blocks.iter().map(|block| block.len() - 1).sum::<usize>();
    let within = blocks.iter().map(squares).sum::<f64>() / freedom.max(1) as f64;
    let share = blocks.iter().map(|block| 1.0 / block.len() as f64).sum::<f64>() / blocks.len() as f64;
    BuildSpread {
        blocks: blocks.len() as u32,
        between_log_sd: (between_sd * between_sd - within * share).max(0.0).sqrt(),
        within_log_sd: within.sqrt(),
    }
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

/// Converts a logarithm back. A ratio beyond a trillion is no measurement, but a finite value can still be written down.
pub(crate) fn ratio_of(log: f64) -> f64 {
    log.exp().clamp(1e-12, 1e12)
}

/// Mean and sample standard deviation (n - 1; 0 for a single value).
pub(crate) fn mean_and_sd(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (mean, (squares / (count - 1.0).max(1.0)).sqrt())
}

pub(crate) fn centred(values: &[f64], mean: f64) -> Vec<f64> {
    values.iter().map(|value| value - mean).collect()
}

/// |t*| of resamples of values whose mean is 0, sorted.
pub(crate) fn resample(values: &[f64], resamples: u32, random: &mut ChaCha8Rng) -> Vec<f64> {
    let one = |random: &mut ChaCha8Rng| {
        let mut sums = Sums::default();
        for _ in 0..values.len() {
            sums.add(values[below(random, values.len())]);
        }
        sums.deviation()
    };
    sorted((0..resamples.max(1)).map(|_| one(random)).collect())
}

/// |t*| of resamples of blocks, and of pairs within them, sorted.
fn resample_blocks(blocks: &[Vec<f64>], mean: f64, resamples: u32, random: &mut ChaCha8Rng) -> Vec<f64> {
    let blocks: Vec<Vec<f64>> = blocks.iter().map(|block| centred(block, mean)).collect();
    let one = |random: &mut ChaCha8Rng| {
        let mut sums = Sums::default();
        for _ in 0..blocks.len() {
            let block = &blocks[below(random, blocks.len())];
            let total: f64 = (0..block.len()).map(|_| block[below(random, block.len())]).sum();
            sums.add(total / block.len() as f64);
        }
        sums.deviation()
    };
    sorted((0..resamples.max(1)).map(|_| one(random)).collect())
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// Mean and spread of a resample in one pass. The values lie around 0, so nothing cancels.
#[derive(Default)]
struct Sums {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Sums {
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        self.sum += value;
        self.squares += value * value;
    }

    /// |mean| in units of its own standard error.
    ///
    /// A resample of equal values knows nothing about the spread. Counting it as infinitely far keeps the interval honest. If all pairs
    /// agree exactly, there is no spread to know.
    fn deviation(&self) -> f64 {
        let about_mean = self.squares - self.sum * self.sum / self.count;
        if about_mean > 1e-12 * self.squares {
            self.sum.abs() / (self.count * about_mean / (self.count - 1.0)).sqrt()
        } else if self.squares <= f64::EPSILON * f64::EPSILON * self.count {
            0.0
        } else {
            f64::INFINITY
        }
    }
}

/// With five or six pairs and a high confidence, the far resamples are nearly degenerate (one value again and again), so their distance
/// means nothing. Twice Student's t bounds them; `tests/coverage.rs` covers that level too.
const MOST_OF_STUDENT: f64 = 2.0;

/// An unbiased index below `limit`: multiply and shift, rejection is pointless at these sizes (bias < 2^-18).
pub(crate) fn below(random: &mut ChaCha8Rng, limit: usize) -> usize {
    ((u64::from(random.next_u32()) * limit as u64) >> 32) as usize
}

/// Logarithm of the smallest effect that is detected with [`POWER`]: (t for the confidence + t for the power) standard errors.
pub(crate) fn detectable(error: f64, freedom: f64, confidence: f64) -> f64 {
    (t_quantile(f64::midpoint(1.0, confidence), freedom) + t_quantile(POWER, freedom)) * error
}

/// The pairs that detect an effect of `ratio` with the spread of `estimate`. `None` if 10,000 are not enough, or if builds are missing.
pub(crate) fn pairs_needed(estimate: &Estimate, ratio: f64) -> Option<u32> {
    let effect = ratio.ln().abs();
    let enough = |count: u32| {
        let error = estimate.log_ratio_sd / f64::from(count).sqrt();
        detectable(error, f64::from(count) - 1.0, estimate.confidence) <= effect
    };
    if estimate.builds.is_some() {
        return None;
    }
    first_enough(FEWEST_PAIRS, 10_000, enough)
}

/// The first sufficient number from `least` to `most`. All larger numbers must be sufficient too.
pub(crate) fn first_enough(least: u32, most: u32, mut enough: impl FnMut(u32) -> bool) -> Option<u32> {
    let (mut low, mut high) = (least, least);
    while !enough(high) {
        if high == most {
            return None;
        }
        low = high + 1;
        high = high.saturating_mul(2).min(most);
    }
    while low < high {
        let middle = u32::midpoint(low, high);
        if enough(middle) { high = middle } else { low = middle + 1 }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(values: &[(f64, f64)]) -> Pairs {
        Pairs::of_one_build(Metric::CpuPerRecord, values.to_vec())
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

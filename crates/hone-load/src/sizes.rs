//! Sizes of record values: seeded, around a mean.

use hone_record::Sizes;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use crate::error::LoadError;

/// Largest generated value.
pub(crate) const MOST_BYTES: u32 = 64 << 20;
/// With this, one value in twenty is a hundred times the median. A wider distribution would be a different load on every run.
const WIDEST_SIGMA: f64 = 3.0;
/// Sizes draw from a stream of their own, so that they do not depend on the values' contents.
const SIZE_STREAM: u64 = 2;

/// An endless sequence of sizes.
#[derive(Debug, Clone)]
pub(crate) struct SizeSource {
    random: ChaCha8Rng,
    sizes: Sizes,
    mean_bytes: u32,
}

impl SizeSource {
    pub(crate) fn new(sizes: Sizes, mean_bytes: u32, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(SIZE_STREAM);
        Self { random, sizes, mean_bytes }
    }

    /// The size of the next value.
    pub(crate) fn next_bytes(&mut self) -> u32 {
        match self.sizes {
            Sizes::Fixed => self.mean_bytes,
            Sizes::Uniform { least_bytes, most_bytes } => {
                let choices = u64::from(most_bytes.saturating_sub(least_bytes)) + 1;
                least_bytes + ((u128::from(self.random.next_u64()) * u128::from(choices)) >> 64) as u32
            }
            Sizes::LogNormal { sigma } => {
                // The mean of a log-normal is exp(µ + σ²/2).
                let middle = f64::from(self.mean_bytes).ln() - sigma * sigma / 2.0;
                let bytes = (middle + sigma * self.normal()).exp().round();
                bytes.clamp(1.0, f64::from(MOST_BYTES)) as u32
            }
        }
    }

    /// A standard normal number (Box and Muller).
    fn normal(&mut self) -> f64 {
        let mut share = || (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let (radius, turn) = ((-2.0 * (1.0 - share()).ln()).sqrt(), share());
        radius * (turn * std::f64::consts::TAU).cos()
    }
}

/// The problem with the sizes of a workload.
pub(crate) fn check(sizes: Sizes, mean_bytes: u32) -> Result<(), LoadError> {
    let wrong = |problem: String| Err(LoadError::Setting { name: "sizes", problem });
    match sizes {
        Sizes::Uniform { least_bytes, most_bytes } if !(1..=most_bytes).contains(&least_bytes) => {
            wrong(format!("uniform needs 1 ≤ least ≤ most, got {least_bytes}-{most_bytes}"))
        }
        Sizes::Uniform { most_bytes, .. } if most_bytes > MOST_BYTES => {
            wrong(format!("a value has at most {MOST_BYTES} bytes, got {most_bytes}"))
        }
        Sizes::Uniform { least_bytes, most_bytes } => {
            let mean = mean_of(least_bytes, most_bytes);
            if mean == mean_bytes {
                return Ok(());
            }
            wrong(format!("record_bytes is their mean, which is {mean}, not {mean_bytes}"))
        }
        Sizes::LogNormal { sigma } if !(sigma > 0.0 && sigma <= WIDEST_SIGMA) => {
            wrong(format!("sigma of lognormal must be above 0 and at most {WIDEST_SIGMA}, got {sigma}"))
        }
        _ => Ok(()),
    }
}

/// Mean of uniformly distributed sizes, rounded up: the `record_bytes` of such a workload.
pub fn mean_of(least_bytes: u32, most_bytes: u32) -> u32 {
    least_bytes / 2 + most_bytes / 2 + (least_bytes % 2 + most_bytes % 2).div_ceil(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(sizes: Sizes, mean_bytes: u32) -> Vec<f64> {
        let mut source = SizeSource::new(sizes, mean_bytes, 5);
        (0..200_000).map(|_| f64::from(source.next_bytes())).collect()
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn uniform_sizes_reach_both_ends_and_their_mean() {
        let sizes = Sizes::Uniform { least_bytes: 50, most_bytes: 500 };
        let drawn = draw(sizes, 275);
        assert!((mean(&drawn) - 275.0).abs() < 2.0, "{}", mean(&drawn));
        assert!(drawn.contains(&50.0) && drawn.contains(&500.0));
        assert!(drawn.iter().all(|bytes| (50.0..=500.0).contains(bytes)));
        assert!(check(sizes, 275).is_ok() && check(sizes, 100).is_err());
    }

    #[test]
    fn log_normal_sizes_have_the_asked_mean_and_spread() {
        let drawn = draw(Sizes::LogNormal { sigma: 0.7 }, 1_000);
        assert!((mean(&drawn) / 1_000.0 - 1.0).abs() < 0.02, "{}", mean(&drawn));
        let logs: Vec<f64> = drawn.iter().map(|bytes| bytes.ln()).collect();
        let middle = mean(&logs);
        let spread = (logs.iter().map(|log| (log - middle).powi(2)).sum::<f64>() / logs.len() as f64).sqrt();
        assert!((spread - 0.7).abs() < 0.01, "{spread}");
    }

    #[test]
    fn sizes_that_make_no_sense_are_refused() {
        for (sizes, expected) in [
            (Sizes::Uniform { least_bytes: 5, most_bytes: 4 }, "least ≤ most"),
            (Sizes::Uniform { least_bytes: 0, most_bytes: 4 }, "least ≤ most"),
            (Sizes::Uniform { least_bytes: 1, most_bytes: u32::MAX }, "at most"),
            (Sizes::LogNormal { sigma: f64::NAN }, "sigma of lognormal"),
            (Sizes::LogNormal { sigma: 9.0 }, "sigma of lognormal"),
        ] {
            let message = check(sizes, 100).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }
}

//! When each request is due: pure, seeded, the same for both arms of a pair.

use hone_record::Schedule;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// Nanoseconds from the window's start at which requests are due, in order, without end.
#[derive(Debug, Clone)]
pub struct Arrivals {
    kind: Schedule,
    gap_ns: f64,
    index: u64,
    at_ns: f64,
    random: ChaCha8Rng,
}

impl Arrivals {
    /// `requests_per_s` must be positive; the caller has checked its input.
    pub fn new(kind: Schedule, requests_per_s: f64, seed: u64) -> Self {
        Self {
            kind,
            gap_ns: 1e9 / requests_per_s,
            index: 0,
            at_ns: 0.0,
            random: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// An exponential gap by inversion: -ln(1 - u) times the mean.
    fn exponential_gap_ns(&mut self) -> f64 {
        let uniform = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        -(1.0 - uniform).ln() * self.gap_ns
    }
}

impl Iterator for Arrivals {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let due = match self.kind {
            // From the index, not by adding up: a sum of a million rounded gaps drifts.
            Schedule::Uniform => self.index as f64 * self.gap_ns,
            Schedule::Poisson => {
                self.at_ns += self.exponential_gap_ns();
                self.at_ns
            }
        };
        self.index += 1;
        Some(due as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(kind: Schedule, seed: u64, count: usize) -> Vec<u64> {
        Arrivals::new(kind, 1_000.0, seed).take(count).collect()
    }

    #[test]
    fn uniform_gaps_do_not_drift() {
        let million = Arrivals::new(Schedule::Uniform, 3_000.0, 0).nth(3_000_000).unwrap();
        assert_eq!(million, 1_000 * 1_000_000_000);
        assert_eq!(due(Schedule::Uniform, 1, 3), [0, 1_000_000, 2_000_000]);
    }

    #[test]
    fn poisson_has_the_asked_rate_and_an_exponential_spread() {
        let times = due(Schedule::Poisson, 7, 100_000);
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!((mean - 1.0).abs() < 0.02, "mean gap {mean} ms");
        // Of exponential gaps, exp(-1) are longer than the mean and exp(-3) longer than three times the mean.
        for (times, expected) in [(1.0, (-1f64).exp()), (3.0, (-3f64).exp())] {
            let share = gaps.iter().filter(|gap| **gap > times).count() as f64 / gaps.len() as f64;
            assert!((share - expected).abs() < 0.01, "{share} of gaps beyond {times}, expected {expected}");
        }
    }

    #[test]
    fn a_seed_repeats_the_arrivals_and_another_does_not() {
        assert_eq!(due(Schedule::Poisson, 3, 100), due(Schedule::Poisson, 3, 100));
        assert_ne!(due(Schedule::Poisson, 3, 100), due(Schedule::Poisson, 4, 100));
        assert!(due(Schedule::Poisson, 3, 1000).is_sorted());
    }
}

//! Keys of records: seeded, with an exact distribution, equal for both arms of a pair.

use hone_record::Keys;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use crate::error::LoadError;

/// No topic has more distinct keys.
const MOST_KEYS: u64 = 1_000_000_000_000;
/// With a larger exponent nearly every record has the same key.
const STEEPEST: f64 = 20.0;
/// Prevents keys and payloads of one seed from drawing the same numbers.
const KEY_STREAM: u64 = 1;

/// An endless sequence of keys.
#[derive(Debug, Clone)]
pub struct KeySource {
    random: ChaCha8Rng,
    draw: Draw,
}

#[derive(Debug, Clone)]
enum Draw {
    Uniform { distinct: u64 },
    Zipf(Zipf),
}

impl KeySource {
    /// The keys of a workload that [`crate::check`] has passed; `None` if its records have none.
    pub fn new(keys: &Keys, seed: u64) -> Option<Self> {
        let draw = match *keys {
            Keys::None => return None,
            Keys::Uniform { distinct } => Draw::Uniform { distinct },
            Keys::Zipf { distinct, exponent: 0.0 } => Draw::Uniform { distinct },
            Keys::Zipf { distinct, exponent } => Draw::Zipf(Zipf::new(distinct, exponent)),
        };
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(KEY_STREAM);
        Some(Self { random, draw })
    }

    /// Number of the next key, from 0; of a Zipf distribution, 0 is the most frequent.
    pub fn next_rank(&mut self) -> u64 {
        match &self.draw {
            Draw::Uniform { distinct } => {
                ((u128::from(self.random.next_u64()) * u128::from(*distinct)) >> 64) as u64
            }
            Draw::Zipf(zipf) => zipf.draw(&mut self.random),
        }
    }

    /// The next key: `k` and the number in at least eight hexadecimal digits.
    pub fn next_key(&mut self) -> Vec<u8> {
        format!("k{:08x}", self.next_rank()).into_bytes()
    }
}

/// The problem with the keys of a workload.
pub(crate) fn check(keys: &Keys) -> Result<(), LoadError> {
    let wrong = |problem: String| Err(LoadError::Setting { name: "keys", problem });
    match *keys {
        Keys::None => Ok(()),
        Keys::Uniform { distinct } | Keys::Zipf { distinct, .. } if !(1..=MOST_KEYS).contains(&distinct) => {
            wrong(format!("there must be between 1 and {MOST_KEYS} distinct keys, got {distinct}"))
        }
        Keys::Zipf { exponent, .. } if !(0.0..=STEEPEST).contains(&exponent) => {
            wrong(format!("the exponent of zipf must lie between 0 and {STEEPEST}, got {exponent}"))
        }
        _ => Ok(()),
    }
}

/// Numbers 1 to n, where k has a probability in proportion to 1/k^s. The method is inversion of the integral with rejection: exact for
/// every n, without a table, about one try per draw (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone
/// discrete distributions", 1996).
#[derive(Debug, Clone)]
struct Zipf {
    distinct: f64,
    exponent: f64,
    integral_low: f64,
    integral_high: f64,
    /// A draw this close below a candidate is always accepted.
    safe: f64,
}

impl Zipf {
    fn new(distinct: u64, exponent: f64) -> Self {
        let mut zipf =
            Self { distinct: distinct as f64, exponent, integral_low: 0.0, integral_high: 0.0, safe: 0.0 };
        zipf.integral_low = zipf.integral(1.5) - 1.0;
        zipf.integral_high = zipf.integral(zipf.distinct + 0.5);
        zipf.safe = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    fn weight(&self, at: f64) -> f64 {
        (-self.exponent * at.ln()).exp()
    }

    /// The integral of the weight from 1: (x^(1-s) - 1) / (1-s), and ln x where s is 1.
    fn integral(&self, to: f64) -> f64 {
        let log = to.ln();
        let power = (1.0 - self.exponent) * log;
        if power.abs() < 1e-9 { log } else { log * power.exp_m1() / power }
    }

    fn inverse(&self, integral: f64) -> f64 {
        let power = (integral * (1.0 - self.exponent)).max(-1.0);
        let log = if power.abs() < 1e-9 { integral } else { integral * power.ln_1p() / power };
        log.exp()
    }

    fn draw(&self, random: &mut ChaCha8Rng) -> u64 {
        loop {
            let share = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            let under = self.integral_high + share * (self.integral_low - self.integral_high);
            let position = self.inverse(under);
            let number = (position + 0.5).floor().clamp(1.0, self.distinct);
            if number - position <= self.safe || under >= self.integral(number + 0.5) - self.weight(number) {
                return number as u64 - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 200_000;

    /// Shares of the keys 0, 1, 2 ... among many draws.
    fn shares(keys: Keys, distinct: usize) -> Vec<f64> {
        let mut source = KeySource::new(&keys, 11).unwrap();
        let mut counts = vec![0_u32; distinct];
        for _ in 0..DRAWS {
            counts[source.next_rank() as usize] += 1;
        }
        counts.iter().map(|count| f64::from(*count) / DRAWS as f64).collect()
    }

    /// Pearson's chi-square against the exact distribution; 5 standard deviations of it are let through.
    fn assert_distribution(found: &[f64], weights: &[f64]) {
        let sum: f64 = weights.iter().sum();
        let chi_square: f64 = found
            .iter()
            .zip(weights)
            .map(|(found, weight)| (found - weight / sum).powi(2) / (weight / sum) * DRAWS as f64)
            .sum();
        let freedom = found.len() as f64 - 1.0;
        assert!(chi_square <= freedom + 5.0 * (2.0 * freedom).sqrt(), "chi-square {chi_square} of {freedom}");
    }

    #[test]
    fn zipf_has_its_exact_distribution() {
        for (distinct, exponent) in
            [(1, 1.0), (2, 1.0), (10, 0.5), (100, 0.99), (100, 1.0), (50, 1.3), (20, 3.0)]
        {
            let weights: Vec<f64> = (1..=distinct).map(|key| f64::from(key).powf(-exponent)).collect();
            let found =
                shares(Keys::Zipf { distinct: u64::from(distinct as u32), exponent }, distinct as usize);
            assert_distribution(&found, &weights);
        }
    }

    #[test]
    fn uniform_keys_are_all_alike_and_zipf_with_exponent_0_is_uniform() {
        for keys in [Keys::Uniform { distinct: 100 }, Keys::Zipf { distinct: 100, exponent: 0.0 }] {
            assert_distribution(&shares(keys, 100), &[1.0; 100]);
        }
    }

    #[test]
    fn a_large_number_of_keys_needs_no_table_and_stays_in_range() {
        let mut source = KeySource::new(&Keys::Zipf { distinct: MOST_KEYS, exponent: 1.0 }, 1).unwrap();
        let first = (0..DRAWS).filter(|_| source.next_rank() == 0).count() as f64 / DRAWS as f64;
        // 1 / H(10^12), and H(n) is ln n + 0.5772.
        let expected = 1.0 / (1e12_f64.ln() + 0.5772);
        assert!((first - expected).abs() < 0.002, "{first}, expected {expected}");
        for keys in [Keys::Zipf { distinct: 3, exponent: 20.0 }, Keys::Zipf { distinct: 3, exponent: 1e-12 }]
        {
            let mut source = KeySource::new(&keys, 1).unwrap();
            assert!((0..1_000).all(|_| source.next_rank() < 3), "{keys:?}");
        }
    }

    #[test]
    fn a_seed_repeats_the_keys() {
        let draw = |seed| {
            let mut source = KeySource::new(&Keys::Uniform { distinct: 1 << 40 }, seed).unwrap();
            (0..10).map(|_| source.next_key()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!(KeySource::new(&Keys::None, 1).is_none());
    }

    #[test]
    fn keys_that_make_no_sense_are_refused() {
        for (keys, expected) in [
            (Keys::Uniform { distinct: 0 }, "between 1 and"),
            (Keys::Zipf { distinct: 5, exponent: -1.0 }, "exponent of zipf"),
            (Keys::Zipf { distinct: 5, exponent: f64::NAN }, "exponent of zipf"),
        ] {
            let message = check(&keys).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
        assert!(check(&Keys::None).is_ok());
    }
}

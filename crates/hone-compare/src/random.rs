//! Random numbers for simulations: normal and chi-square, from a seeded generator.

use rand_chacha::ChaCha8Rng;
use rand_core::RngCore;

/// Strictly between 0 and 1.
pub(crate) fn uniform(random: &mut ChaCha8Rng) -> f64 {
    ((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

/// Standard normal, after Box and Muller.
pub(crate) fn normal(random: &mut ChaCha8Rng) -> f64 {
    let (radius, angle) = (uniform(random), uniform(random));
    (-2.0 * radius.ln()).sqrt() * (2.0 * std::f64::consts::PI * angle).cos()
}

/// Chi-square with `freedom` degrees (at least 1): twice a gamma variate of half of them, after Marsaglia and Tsang (2000).
pub(crate) fn chi_square(freedom: f64, random: &mut ChaCha8Rng) -> f64 {
    if freedom < 2.0 {
        return normal(random).powi(2);
    }
    let d = freedom / 2.0 - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(random);
        let cube = (1.0 + c * x).powi(3);
        if cube > 0.0 && uniform(random).ln() < 0.5 * x * x + d - d * cube + d * cube.ln() {
            return 2.0 * d * cube;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::SeedableRng as _;

    /// Mean and variance of chi-square are its degrees and twice its degrees.
    #[test]
    fn chi_square_has_its_mean_and_variance() {
        let mut random = ChaCha8Rng::seed_from_u64(3);
        for freedom in [1.0, 2.0, 4.0, 13.0, 200.0] {
            let draws: Vec<f64> = (0..40_000).map(|_| chi_square(freedom, &mut random)).collect();
            let (mean, sd) = crate::estimate::mean_and_sd(&draws);
            assert!((mean / freedom - 1.0).abs() < 0.04, "{freedom}: mean {mean}");
            assert!((sd * sd / (2.0 * freedom) - 1.0).abs() < 0.10, "{freedom}: variance {}", sd * sd);
        }
    }
}

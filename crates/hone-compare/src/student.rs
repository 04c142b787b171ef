//! Student's t distribution, for the smallest detectable effect.

pub(crate) use hone_record::{ln_gamma, t_quantile};

/// Degrees of freedom of a difference of two means, after Welch and Satterthwaite: each side has the variance and the degrees of freedom of
/// its mean.
pub(crate) fn welch_freedom(sides: [(f64, f64); 2]) -> f64 {
    let variance: f64 = sides.iter().map(|(variance, _)| variance).sum();
    let parts: f64 = sides.iter().map(|(variance, freedom)| variance * variance / freedom).sum();
    if parts > 0.0 { variance * variance / parts } else { sides[0].1 + sides[1].1 }
}

/// Quantiles of one probability for any degrees of freedom from two on, read from a table: simulations need thousands.
#[derive(Debug)]
pub(crate) struct Quantiles(Vec<f64>);

/// Steps of the table, even in one over the degrees of freedom.
const STEPS: usize = 128;

impl Quantiles {
    pub(crate) fn new(probability: f64) -> Self {
        let at = |step: usize| t_quantile(probability, 2.0 * STEPS as f64 / (step as f64).max(1e-6));
        Self((0..=STEPS).map(at).collect())
    }

    pub(crate) fn at(&self, freedom: f64) -> f64 {
        let place = (2.0 * STEPS as f64 / freedom).clamp(0.0, STEPS as f64);
        let below = (place as usize).min(STEPS - 1);
        let share = place - below as f64;
        self.0[below] * (1.0 - share) + self.0[below + 1] * share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_agrees_with_the_quantiles() {
        for probability in [0.95, 0.975, 0.997] {
            let table = Quantiles::new(probability);
            for freedom in [2.0, 2.7, 5.0, 9.3, 18.0, 240.0, 1e6] {
                let expected = t_quantile(probability, freedom);
                assert!((table.at(freedom) / expected - 1.0).abs() < 1e-3, "t({probability}, {freedom})");
            }
        }
    }

    #[test]
    fn welch_lies_between_the_smaller_side_and_both_together() {
        assert!((welch_freedom([(1.0, 9.0), (1.0, 9.0)]) - 18.0).abs() < 1e-9);
        assert!((welch_freedom([(1.0, 9.0), (1e-9, 4.0)]) - 9.0).abs() < 1e-6);
        assert_eq!(welch_freedom([(0.0, 9.0), (0.0, 4.0)]), 13.0);
    }
}

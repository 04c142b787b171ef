//! What counts cost: a program's cycles in user code, from its instructions, its taken branches, and the misses of modelled structures. The ratio of
//! two builds needs only weights in units of one instruction. The code is pure.
//!
//! The weights are fitted to the builds of Hone's examples, whose CPU was measured, by `bench/examples/cost_model.py`
//! (docs/results.md#what-counts-predict).

use crate::cache::{ITLB_64, L1D_32K, L1I_32K, LAST_LEVEL_4M, MODELS};

/// Counts of one program for the same work.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Effort {
    /// Instructions.
    pub instructions: f64,
    /// Taken branches.
    pub branches_taken: f64,
    /// Misses by the names of [`MODELS`].
    pub misses: Vec<(String, f64)>,
}

/// Weight of a taken branch.
const TAKEN: f64 = 1.16;
/// Weights of misses, with the index of their structure.
const MISSES: [(usize, f64); 4] = [(L1I_32K, 9.07), (ITLB_64, 14.8), (L1D_32K, 7.59), (LAST_LEVEL_4M, 161.0)];
/// Standard deviation of the model's own error, as a logarithm, for examples that it was not fitted to.
const ERROR: f64 = 0.048;
/// Quantile of the normal distribution for 95 %.
const Z95: f64 = 1.959_964;

/// B's cycles in user code as a ratio to A's, with the limits of a 95 % prediction interval. `None` if a structure was not modelled.
pub fn predicted_ratio(a: &Effort, b: &Effort) -> Option<[f64; 3]> {
    let ratio = b.cost()? / a.cost()?;
    let band = (Z95 * ERROR).exp();
    Some([ratio, ratio / band, ratio * band]).filter(|limits| limits.iter().all(|limit| limit.is_finite()))
}

impl Effort {
    /// In units of one instruction.
    fn cost(&self) -> Option<f64> {
        let missed =
            |name: &str| self.misses.iter().find(|(found, _)| found == name).map(|(_, count)| *count);
        let of_misses = MISSES.iter().map(|(model, weight)| Some(weight * missed(MODELS[*model].name)?));
        Some(self.instructions + TAKEN * self.branches_taken + of_misses.sum::<Option<f64>>()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effort(instructions: f64, missed: f64) -> Effort {
        let misses = MISSES.iter().map(|(model, _)| (MODELS[*model].name.to_owned(), missed)).collect();
        Effort { instructions, branches_taken: 0.0, misses }
    }

    #[test]
    fn equal_programs_cost_the_same_and_misses_cost_more_than_instructions() {
        let [ratio, low, high] = predicted_ratio(&effort(1e3, 1.0), &effort(1e3, 1.0)).unwrap();
        assert!(ratio == 1.0 && (low - 0.91).abs() < 0.01 && (high - 1.1).abs() < 0.01);
        let fewer = predicted_ratio(&effort(1e3, 0.0), &effort(900.0, 0.0)).unwrap()[0];
        assert!((fewer - 0.9).abs() < 1e-12);
        let [missing, ..] = predicted_ratio(&effort(1e3, 0.0), &effort(1e3, 1.0)).unwrap();
        let sum: f64 = MISSES.iter().map(|(_, weight)| weight).sum();
        assert!((missing - (1e3 + sum) / 1e3).abs() < 1e-12);
    }

    #[test]
    fn what_was_not_modelled_or_not_counted_has_no_prediction() {
        assert_eq!(
            predicted_ratio(&Effort { instructions: 1e3, ..Effort::default() }, &effort(1e3, 0.0)),
            None
        );
        assert_eq!(predicted_ratio(&effort(0.0, 0.0), &effort(1e3, 0.0)), None);
    }
}

//! Weights of trainings as whole numbers, which multiply the counts.

use crate::refusal::Refusal;

/// The valid range of a training's weight.
pub const TRAINING_WEIGHTS: std::ops::RangeInclusive<f64> = 1e-3..=1e3;

/// Weights as whole numbers in the same ratio, which can multiply counts.
///
/// # Errors
/// [`Refusal::Weight`] for one that is not between a thousandth and a thousand.
pub(crate) fn whole_weights(weights: &[f64]) -> Result<Vec<u64>, Refusal> {
    if let Some(weight) = weights.iter().find(|weight| !TRAINING_WEIGHTS.contains(*weight)) {
        return Err(Refusal::Weight { weight: weight.to_string() });
    }
    Ok(whole_ratio(weights))
}

/// Whole numbers in the ratio of these, which are above 0: exact if a factor up to a thousand makes them whole, otherwise as in
/// [`nearly_whole_ratio`].
pub(crate) fn whole_ratio(weights: &[f64]) -> Vec<u64> {
    const FINEST: u32 = 1000;
    let times = |factor: f64| weights.iter().map(move |weight| weight * factor);
    let is_whole = |weight: f64| weight >= 0.5 && (weight - weight.round()).abs() < 1e-9 * weight.max(1.0);
    let exact = (1..=FINEST).map(f64::from).find(|&factor| times(factor).all(is_whole));
    exact.map_or_else(|| nearly_whole_ratio(weights), |factor| rounded(times(factor)))
}

/// The smallest whole numbers in the ratio of these, which are above 0, with an error of at most a thousandth each: larger multiples
/// overflow counters sooner.
pub(crate) fn nearly_whole_ratio(weights: &[f64]) -> Vec<u64> {
    const MOST_OFF: f64 = 1e-3;
    // Half of one is a thousandth of it.
    const LEAST_AT_MOST: u32 = 500;
    let least = weights.iter().copied().fold(f64::INFINITY, f64::min);
    let times = |smallest: u32| weights.iter().map(move |weight| weight / least * f64::from(smallest));
    let is_near = |weight: f64| (weight - weight.round()).abs() <= MOST_OFF * weight;
    let smallest = (1..LEAST_AT_MOST).find(|&smallest| times(smallest).all(is_near));
    rounded(times(smallest.unwrap_or(LEAST_AT_MOST)))
}

/// Rounded, without a common factor.
fn rounded(weights: impl Iterator<Item = f64>) -> Vec<u64> {
    let whole: Vec<u64> = weights.map(|weight| weight.round() as u64).collect();
    let common = whole.iter().copied().fold(0, greatest_common_divisor).max(1);
    whole.into_iter().map(|weight| weight / common).collect()
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn weights_keep_their_ratio() {
        let whole = |weights: &[f64]| whole_weights(weights).unwrap();
        assert_eq!(whole(&[1.0, 1.0]), [1, 1]);
        assert_eq!(whole(&[0.7, 0.2, 0.1]), [7, 2, 1]);
        assert_eq!(whole(&[20.0, 30.0]), [2, 3]);
        assert_eq!(whole(&[0.001, 1000.0]), [1, 1_000_000]);
        assert_eq!(whole(&[1.0 / 3.0, 2.0 / 3.0]), [1, 2]);
        assert_eq!(whole(&[]), [] as [u64; 0]);
        assert_eq!(whole(&[1.0, 1.001]), [1_000, 1_001], "exactly where that can be");
        assert_eq!(nearly_whole_ratio(&[1.0, 1.001]), [1, 1]);
        assert_eq!(nearly_whole_ratio(&[1.0, std::f64::consts::PI]), [7, 22], "no more than they must be");
        assert_eq!(nearly_whole_ratio(&[8e-7, 1.0]), [1, 1_250_000]);
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-4, 1e4] {
            assert!(matches!(whole_weights(&[1.0, wrong]), Err(Refusal::Weight { .. })), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn every_ratio_is_kept_to_a_thousandth(weights in prop::collection::vec(1e-3..1e3_f64, 1..6)) {
            let whole = whole_weights(&weights).unwrap();
            for (a, b) in weights.iter().zip(&whole) {
                let ratio = (*b as f64 / whole[0] as f64) / (a / weights[0]);
                prop_assert!((ratio - 1.0).abs() < 2e-3, "{weights:?} {whole:?}");
            }
            let least = nearly_whole_ratio(&weights).into_iter().min().unwrap();
            prop_assert!(least <= 500, "{weights:?} {least}");
        }
    }
}

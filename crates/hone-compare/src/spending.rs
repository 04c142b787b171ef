//! Looks at a running comparison. Whoever looks several times and stops at the first significant result is wrong more often than one look
//! is. So the looks share the error: each may spend a part of it (Lan and DeMets 1983), early ones very little (O'Brien and Fleming 1979).

use hone_record::Look;

/// Points of the grid on which the distribution of a look is kept. With 400 intervals, bounds agree with published ones to four digits.
const POINTS: usize = 401;
/// Farthest bound, in standard errors. A look that may not spend even that much of the error is no look.
const FARTHEST: f64 = 8.0;

/// Looks after these numbers of A/B pairs, the last one at the planned end.
pub(crate) fn looks(pairs: &[u32], alpha: f64) -> Vec<Look> {
    let last = pairs.last().copied().unwrap_or(1);
    let of = levels(&fractions(pairs, last), alpha);
    pairs.iter().zip(of).map(|(&pairs, level)| Look { pairs, level }).collect()
}

/// The level at which results count after so many measured A/B pairs, of `alpha` in all. At a look it is the level of that look; those of
/// `looks` are for a metric with the error `of_looks`. A run that ends between two looks, by its clock or by the user, has its last look
/// there, which spends what is left: no result ended it.
pub(crate) fn level_at(looks: &[Look], measured: u32, alpha: f64, of_looks: f64) -> f64 {
    let Some(last) = looks.last() else { return alpha };
    let end = measured.min(last.pairs);
    let here = looks.iter().find(|look| look.pairs == end);
    if let Some(known) = here.filter(|_| alpha == of_looks) {
        return known.level;
    }
    let mut pairs: Vec<u32> = looks.iter().map(|look| look.pairs).collect();
    let place = pairs.partition_point(|pairs| *pairs < end);
    if here.is_none() {
        pairs.truncate(place);
        pairs.push(end);
    }
    levels(&fractions(&pairs, last.pairs), alpha).get(place).copied().unwrap_or(alpha)
}

fn fractions(pairs: &[u32], of: u32) -> Vec<f64> {
    pairs.iter().map(|pairs| f64::from(*pairs) / f64::from(of.max(1))).collect()
}

/// Two-sided error that may be spent up to a fraction of the planned information (0 to 1), of `alpha` in all: the function of Lan and DeMets
/// that resembles O'Brien and Fleming's bounds, with half of the error for each side.
fn spent(fraction: f64, alpha: f64) -> f64 {
    let fraction = fraction.clamp(0.0, 1.0);
    if fraction == 0.0 { 0.0 } else { (2.0 * both_tails(z_of(alpha / 2.0) / fraction.sqrt())).min(alpha) }
}

/// The two-sided level of each look at which a result counts: of its own confidence interval. `fractions` of the information grow up to 1. The
/// last look spends all that is left. The recursion is that of Armitage, McPherson and Rowe (1969).
fn levels(fractions: &[f64], alpha: f64) -> Vec<f64> {
    let mut found = Vec::new();
    let (mut before, mut reached, mut known) = (0.0, 0.0, Density::at_zero());
    for (index, &fraction) in fractions.iter().enumerate() {
        let step = fraction - reached;
        let is_last = index + 1 == fractions.len();
        let goal = if is_last { alpha } else { spent(fraction, alpha) } - before;
        if step <= 0.0 || goal <= 0.0 {
            found.push(0.0);
            continue;
        }
        let bound = bound(&known, fraction, step, goal);
        before += goal;
        reached = fraction;
        known = known.after(step, bound * fraction.sqrt());
        found.push(both_tails(bound));
    }
    found
}

/// The bound, in standard errors, that a result without an effect passes with this probability at this look, and at no look before.
fn bound(known: &Density, fraction: f64, step: f64, goal: f64) -> f64 {
    let (mut low, mut high) = (0.0, FARTHEST);
    while high - low > 1e-9 {
        let middle = f64::midpoint(low, high);
        if known.beyond(middle * fraction.sqrt(), step) > goal { low = middle } else { high = middle }
    }
    high
}

/// The distribution of the sum of all values so far, where no look has stopped it. A mass with equal distances, or one point.
struct Density {
    /// Half of the width.
    reach: f64,
    /// Probability of each point, with its weight by Simpson's rule.
    mass: Vec<f64>,
}

impl Density {
    fn at_zero() -> Self {
        Self { reach: 0.0, mass: vec![1.0] }
    }

    fn points(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let width = 2.0 * self.reach / (self.mass.len().max(2) - 1) as f64;
        self.mass.iter().enumerate().map(move |(index, mass)| (index as f64 * width - self.reach, *mass))
    }

    /// The probability that one more step leads beyond this distance from 0.
    fn beyond(&self, distance: f64, step: f64) -> f64 {
        let sd = step.sqrt();
        self.points()
            .map(|(at, mass)| mass * (upper_tail((distance - at) / sd) + upper_tail((distance + at) / sd)))
            .sum()
    }

    /// The distribution after one more step, within this distance from 0.
    fn after(&self, step: f64, reach: f64) -> Self {
        let (sd, width) = (step.sqrt(), 2.0 * reach / (POINTS - 1) as f64);
        let one = |index: usize| {
            let to = index as f64 * width - reach;
            let density: f64 =
                self.points().map(|(at, mass)| mass * (-0.5 * ((to - at) / sd).powi(2)).exp()).sum();
            let weight = match index {
                0 => 1.0,
                index if index == POINTS - 1 => 1.0,
                index if index % 2 == 1 => 4.0,
                _ => 2.0,
            };
            density / (sd * (2.0 * std::f64::consts::PI).sqrt()) * weight * width / 3.0
        };
        Self { reach, mass: (0..POINTS).map(one).collect() }
    }
}

/// Probability that a normal variable is above `z`.
fn upper_tail(z: f64) -> f64 {
    0.5 * libm::erfc(z / std::f64::consts::SQRT_2)
}

fn both_tails(z: f64) -> f64 {
    2.0 * upper_tail(z)
}

/// The `z` whose two tails have this probability.
fn z_of(tails: f64) -> f64 {
    let (mut low, mut high) = (0.0, 40.0);
    while high - low > 1e-12 {
        let middle = f64::midpoint(low, high);
        if both_tails(middle) > tails { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(fractions: &[f64], alpha: f64, bounds: &[f64]) {
        let found: Vec<f64> = levels(fractions, alpha).into_iter().map(z_of).collect();
        assert_eq!(found.len(), bounds.len());
        for (found, expected) in found.iter().zip(bounds) {
            assert!((found - expected).abs() < 6e-4, "{fractions:?}: {found} instead of {expected}");
        }
    }

    /// As the package ldbounds for R has them, which follows the program of Reboussin, DeMets, Kim and Lan (2000).
    #[test]
    fn bounds_agree_with_published_ones() {
        check(&[1.0], 0.05, &[1.9600]);
        check(&[0.5, 1.0], 0.05, &[2.9626, 1.9686]);
        check(&[0.2, 0.4, 0.6, 0.8, 1.0], 0.05, &[4.8769, 3.3569, 2.6803, 2.2898, 2.0310]);
    }

    #[test]
    fn a_look_without_information_spends_nothing() {
        assert_eq!(levels(&[0.0, 0.5, 0.5, 1.0], 0.05)[0], 0.0);
        assert_eq!(levels(&[0.5, 0.5, 1.0], 0.05)[1], 0.0);
        assert!(spent(1.0, 0.05) <= 0.05 && spent(1.0, 0.05) > 0.0499);
        assert!(levels(&[0.01, 1.0], 0.05)[0] < 1e-14);
    }

    #[test]
    fn a_run_that_ends_between_two_looks_spends_what_is_left() {
        let looks = looks(&[12, 18, 24, 30], 0.05);
        let at = |measured| level_at(&looks, measured, 0.05, 0.05);
        for look in &looks {
            assert!((at(look.pairs) - look.level).abs() < 1e-12, "{look:?}");
        }
        assert!(looks.windows(2).all(|two| two[0].level < two[1].level), "{looks:?}");
        assert!((at(9) - 0.05).abs() < 1e-6, "the only look");
        assert!(at(20) > looks[2].level && at(20) < 0.05, "{}", at(20));
        assert!((at(36) - looks[3].level).abs() < 1e-12, "with pairs of the reserve");
        assert_eq!(level_at(&[], 7, 0.05, 0.05), 0.05);
        // Another metric has its own error.
        let other = level_at(&looks, 18, 0.01, 0.05);
        assert!(other < looks[1].level && other > 0.0, "{other}");
        assert!((level_at(&looks, 18, 0.05, 0.02) - looks[1].level).abs() < 1e-12, "computed again");
    }
}

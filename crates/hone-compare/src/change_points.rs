//! Finds where a series of values changes its level: E-divisive with permutations, after Matteson and James, "A Nonparametric Approach for
//! Multiple Change Point Analysis of Multivariate Data", Journal of the American Statistical Association 109 (2014). Daly and others use it
//! for performance over commits ("The Use of Change Point Detection to Identify Software Performance Regressions in a Continuous
//! Integration System", ICPE 2020).
//!
//! It assumes nothing about the scatter of values, except that their order is random without a change. A slow drift violates that, and
//! appears as steps.

use hone_record::ChangePoint;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore as _, SeedableRng as _};

const FEWEST_BESIDE: usize = ChangePoint::FEWEST_BESIDE;
/// Limit on the number of values; a permutation takes time by their square.
pub const MOST_VALUES: usize = 300;
/// Significance level of a change point's test. It is stricter than a comparison's, because a user looks at many series.
pub const SIGNIFICANCE: f64 = 0.01;

/// The rule in words, shown with its results.
pub const CHANGE_POINT_RULE: &str = "E-divisive (Matteson and James 2014) on logarithms. The split with the \
                                     largest energy distance between its sides is a change point if fewer \
                                     than 1 % of 199 permutations show one as large. Then the method \
                                     searches both sides. Each side has at least three values. A change \
                                     point is a place to look at, not a verdict: values of different times \
                                     also differ by their time.";

/// The paper's value.
const PERMUTATIONS: u32 = 199;

/// Change points of positive values, in their order. The same values and seed give the same answer. The answer is empty if a value is not
/// positive and finite, or if there are more than [`MOST_VALUES`].
pub fn change_points(values: &[f64], seed: u64) -> Vec<ChangePoint> {
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    if logs.len() > MOST_VALUES || logs.iter().any(|log| !log.is_finite()) {
        return Vec::new();
    }
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut found: Vec<(usize, f64)> = Vec::new();
    loop {
        let places: Vec<usize> = found.iter().map(|(place, _)| *place).collect();
        let parts = parts(&logs, &places);
        let best = parts.iter().filter_map(|(begin, part)| {
            let split = best_split(part)?;
            Some((begin + split.place, split.distance))
        });
        let Some((place, distance)) = best.max_by(|one, other| one.1.total_cmp(&other.1)) else { break };
        let Some(p_value) = p_value(&parts, distance, &mut random) else { break };
        found.push((place, p_value));
        found.sort_by_key(|(place, _)| *place);
    }
    told(&logs, &found)
}

/// The values between change points, each part with its start index.
fn parts<'a>(logs: &'a [f64], places: &[usize]) -> Vec<(usize, &'a [f64])> {
    let ends = places.iter().copied().chain([logs.len()]);
    let mut begin = 0;
    ends.filter_map(|end| {
        let part = (begin, logs.get(begin..end)?);
        begin = end;
        Some(part)
    })
    .collect()
}

/// A split of a part.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Split {
    /// Index of the first value after the split.
    place: usize,
    /// Scaled energy distance between the values before the split and those after it.
    distance: f64,
}

/// The split with the largest scaled energy distance between the values before it and the values after it, up to any end. A temporary level
/// would not stand out against all the rest. `None` if the part is too short.
fn best_split(part: &[f64]) -> Option<Split> {
    let count = part.len();
    let mut best: Option<Split> = None;
    // For each value, the sum of its distances to the first values.
    let from_first: Vec<Vec<f64>> = (0..count).map(|at| running_distances(part, at)).collect();
    let to_first = |at: usize, many: usize| -> f64 {
        from_first.get(at).and_then(|sums| sums.get(many)).copied().unwrap_or_default()
    };
    let mut within_before = 0.0;
    for place in 1..count {
        within_before += to_first(place - 1, place - 1);
        let (mut across, mut within_behind) = (0.0, 0.0);
        for end in place..count {
            across += to_first(end, place);
            within_behind += to_first(end, end) - to_first(end, place);
            let (before, behind) = (place, end + 1 - place);
            if before < FEWEST_BESIDE || behind < FEWEST_BESIDE {
                continue;
            }
            let distance = scaled_distance(across, [within_before, within_behind], [before, behind]);
            if best.is_none_or(|best| distance > best.distance) {
                best = Some(Split { place, distance });
            }
        }
    }
    best
}

/// Sums of the distances of one value to the first none, one, two and so on, up to the value itself.
fn running_distances(part: &[f64], at: usize) -> Vec<f64> {
    let own = part.get(at).copied().unwrap_or_default();
    let mut sum = 0.0;
    let sums = part.iter().take(at).map(|other| {
        sum += (own - other).abs();
        sum
    });
    std::iter::once(0.0).chain(sums).collect()
}

/// Equations 5 to 7 of the paper with the exponent 1: mn/(m+n) times (twice the mean distance across, less the mean distances within).
fn scaled_distance(across: f64, within: [f64; 2], [m, n]: [usize; 2]) -> f64 {
    let [m, n] = [m, n].map(|count| count as f64);
    let pairs = |count: f64| count * (count - 1.0) / 2.0;
    let energy = 2.0 * across / (m * n) - within[0] / pairs(m) - within[1] / pairs(n);
    m * n / (m + n) * energy
}

/// The share of permutations within the parts that have a distance as large. `None` as soon as the distance can't be significant any more.
fn p_value(parts: &[(usize, &[f64])], distance: f64, random: &mut ChaCha8Rng) -> Option<f64> {
    let share = |reached: u32| f64::from(reached + 1) / f64::from(PERMUTATIONS + 1);
    let mut reached = 0;
    let mut shuffled: Vec<Vec<f64>> = parts.iter().map(|(_, part)| part.to_vec()).collect();
    for _ in 0..PERMUTATIONS {
        shuffled.iter_mut().for_each(|part| shuffle(part, random));
        let largest = shuffled.iter().filter_map(|part| best_split(part)).map(|split| split.distance);
        reached += u32::from(largest.fold(f64::NEG_INFINITY, f64::max) >= distance);
        if share(reached) > SIGNIFICANCE {
            return None;
        }
    }
    Some(share(reached))
}

/// Fisher and Yates.
fn shuffle(values: &mut [f64], random: &mut ChaCha8Rng) {
    for last in (1..values.len()).rev() {
        let other = ((u128::from(random.next_u64()) * (last as u128 + 1)) >> 64) as usize;
        values.swap(last, other);
    }
}

fn told(logs: &[f64], found: &[(usize, f64)]) -> Vec<ChangePoint> {
    let places: Vec<usize> = found.iter().map(|(place, _)| *place).collect();
    let level = |part: &[f64]| (part.iter().sum::<f64>() / part.len().max(1) as f64).exp();
    let levels: Vec<f64> = parts(logs, &places).iter().map(|(_, part)| level(part)).collect();
    found
        .iter()
        .zip(levels.windows(2))
        .filter_map(|((first, p_value), levels)| {
            let [before, after] = *levels else { return None };
            Some(ChangePoint { first: *first, before, after, ratio: after / before, p_value: *p_value })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::normal;

    /// Log-normal values around levels that begin at these places.
    fn line(levels: &[(usize, f64)], count: usize, spread: f64, seed: u64) -> Vec<f64> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let level =
            |at: usize| levels.iter().rev().find(|(from, _)| *from <= at).map_or(1.0, |(_, level)| *level);
        (0..count).map(|at| 20.0 * level(at) * (spread * normal(&mut random)).exp()).collect()
    }

    fn places(values: &[f64]) -> Vec<usize> {
        change_points(values, 1).iter().map(|found| found.first).collect()
    }

    /// The definition, written out, against the running sums.
    #[test]
    fn the_distance_is_that_of_the_paper() {
        let values = [1.0_f64, 4.0, 2.0, 9.0, 7.0, 8.0, 6.5];
        let mean = |pairs: Vec<f64>| pairs.iter().sum::<f64>() / pairs.len() as f64;
        let within = |of: &[f64]| {
            let all = (0..of.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
            mean(all.map(|(i, j)| (of[i] - of[j]).abs()).collect())
        };
        let mut best = (0, f64::MIN);
        for place in 3..values.len() {
            for end in place + 3..=values.len() {
                let (x, y) = (&values[..place], &values[place..end]);
                let across = mean(x.iter().flat_map(|x| y.iter().map(move |y| (x - y).abs())).collect());
                let scale = (x.len() * y.len()) as f64 / (x.len() + y.len()) as f64;
                let distance = scale * (2.0 * across - within(x) - within(y));
                if distance > best.1 {
                    best = (place, distance);
                }
            }
        }
        let found = best_split(&values).unwrap();
        assert_eq!(found.place, best.0);
        assert!((found.distance - best.1).abs() < 1e-12, "{found:?} {best:?}");
    }

    #[test]
    fn a_planted_step_is_found_where_it_is() {
        let mut exact = 0;
        for seed in 0..40 {
            let values = line(&[(18, 1.10)], 30, 0.02, seed);
            let found = change_points(&values, seed);
            assert_eq!(found.len(), 1, "seed {seed}: {found:?}");
            assert!(found[0].first.abs_diff(18) <= 1, "seed {seed}: {found:?}");
            assert!((found[0].ratio / 1.10 - 1.0).abs() < 0.03 && found[0].p_value <= SIGNIFICANCE);
            exact += usize::from(found[0].first == 18);
        }
        assert!(exact >= 36, "{exact} of 40 at the very place");
    }

    #[test]
    fn without_a_step_it_is_silent_as_often_as_it_says() {
        let loud =
            (0..300).filter(|seed| !change_points(&line(&[], 30, 0.05, 1_000 + seed), *seed).is_empty());
        // At 1 %, three are expected; eleven or more have a chance of 0.03 %.
        let loud = loud.count();
        assert!(loud <= 10, "{loud} of 300");
    }

    #[test]
    fn a_step_within_the_noise_is_not_claimed_often() {
        let found = (0..50).filter(|seed| !places(&line(&[(15, 1.005)], 30, 0.05, *seed)).is_empty()).count();
        assert!(found <= 4, "{found} of 50");
    }

    #[test]
    fn what_comes_and_goes_is_two_change_points() {
        for seed in 0..10 {
            let found = places(&line(&[(20, 1.15), (35, 1.0)], 60, 0.02, seed));
            assert_eq!(found.len(), 2, "seed {seed}: {found:?}");
            assert!(found[0].abs_diff(20) <= 1 && found[1].abs_diff(35) <= 1, "seed {seed}: {found:?}");
        }
    }

    #[test]
    fn one_outlier_is_no_change_of_level() {
        for seed in 0..10 {
            let mut values = line(&[], 30, 0.02, seed);
            values[12] *= 3.0;
            assert_eq!(places(&values), [0_usize; 0], "seed {seed}");
        }
    }

    #[test]
    fn the_same_values_and_seed_give_the_same_answer_and_odd_ones_none() {
        let values = line(&[(10, 1.2)], 20, 0.03, 5);
        assert_eq!(change_points(&values, 9), change_points(&values, 9));
        for odd in
            [vec![], vec![1.0; 2], vec![1.0; 50], vec![0.0, 1.0, 2.0], vec![f64::NAN; 20], vec![1.0; 301]]
        {
            assert_eq!(change_points(&odd, 1), [], "{}", odd.len());
        }
    }
}

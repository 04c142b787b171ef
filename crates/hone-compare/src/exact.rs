//! Compares counts of rare events without an approximation for large numbers.

use crate::student::ln_gamma;

/// How often something happened, and how often it could have happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// Times that it happened.
    pub hits: u64,
    /// Opportunities, including the times that it happened.
    pub trials: u64,
}

/// The probability that chance alone puts at least this many of all hits into `now`, if they are equally likely there and `before`:
/// Fisher's exact test, one side (R. A. Fisher, The Design of Experiments, 1935).
pub fn more_often(before: Count, now: Count) -> f64 {
    let [was, is] = [before, now].map(|count| count.hits.min(count.trials));
    let (hits, trials) = (was + is, before.trials + now.trials);
    let all = ln_choose(trials, hits);
    let with =
        |count: u64| (ln_choose(now.trials, count) + ln_choose(before.trials, hits - count) - all).exp();
    let most = hits.min(now.trials);
    // `before` can't contain more hits than it has trials.
    let least = is.max(hits.saturating_sub(before.trials));
    (least..=most).map(with).sum::<f64>().min(1.0)
}

/// ln of the number of ways to choose `some` of `all`; `some` is no more than `all`.
fn ln_choose(all: u64, some: u64) -> f64 {
    let ln_factorial = |count: u64| ln_gamma(count as f64 + 1.0);
    ln_factorial(all) - ln_factorial(some) - ln_factorial(all.saturating_sub(some))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(hits: u64, trials: u64) -> Count {
        Count { hits, trials }
    }

    #[test]
    fn the_lady_who_tastes_tea() {
        assert!((more_often(of(0, 4), of(4, 4)) - 1.0 / 70.0).abs() < 1e-9);
        assert!((more_often(of(1, 4), of(3, 4)) - 17.0 / 70.0).abs() < 1e-9);
        assert!((more_often(of(4, 4), of(0, 4)) - 1.0).abs() < 1e-9);
        assert!((more_often(of(0, 0), of(0, 0)) - 1.0).abs() < 1e-9);
        // Three failures after none, with as many records: one case of eight, nearly.
        let accident = more_often(of(0, 200), of(3, 200));
        assert!((accident - 0.124).abs() < 0.001, "{accident}");
    }

    #[test]
    fn a_probability_that_falls_with_every_hit() {
        for (was, before, now) in [(0, 7, 9), (3, 60, 20), (20, 20, 5), (1, 1_000, 40), (0, 1, 1)] {
            let all: Vec<f64> = (0..=now).map(|is| more_often(of(was, before), of(is, now))).collect();
            assert!(all.iter().all(|one| (0.0..=1.0).contains(one)), "{all:?}");
            assert!(all.is_sorted_by(|one, next| *next <= one + 1e-9), "{all:?}");
        }
    }
}

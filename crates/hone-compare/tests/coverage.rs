//! Does the instrument keep its promises? Known truth, many sessions: an A/A must stay silent, an effect of known size
//! must be found as often as the smallest detectable effect promises, and an interval must hold the truth as often
//! as it says, also with few pairs and with heavy tails.

use std::collections::BTreeMap;

use hone_compare::{Pairs, estimate, judge, plan};
use hone_record::{Metric, PairKind, Verdict};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

mod sessions;
use sessions::{Noise, heavy, normal, outcomes, plan_of, rare_stalls, session, skewed, uniform};

#[test]
fn the_interval_holds_the_truth_as_often_as_it_says() {
    let mut random = ChaCha8Rng::seed_from_u64(20);
    for (noise, name) in [(normal as Noise, "normal"), (heavy as Noise, "heavy")] {
        for count in [6, 10, 20] {
            let sessions = 1_000;
            let misses = (0..sessions)
                .filter(|&seed| {
                    let values = session(&mut random, noise, count, 1.07, 0.1);
                    let pairs = Pairs::of_one_build(Metric::CpuPerRecord, values);
                    let found = estimate(&pairs, 0.95, 1_000, seed).unwrap();
                    found.low > 1.07 || found.high < 1.07
                })
                .count();
            // 5 % promised; 7.5 % is 3.6 standard errors above it at 1,000 sessions.
            assert!(misses < 75, "{name}, {count} pairs: {misses} of {sessions} intervals miss the truth");
        }
    }
}

/// Share of 95 % intervals that miss a truth of 1.07, in per mille.
fn misses_per_mille(noise: Noise, pairs: usize, seed: u64) -> usize {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let misses = |seed: &u64| {
        let values = session(&mut random, noise, pairs, 1.07, 0.1);
        let found = estimate(&Pairs::of_one_build(Metric::LatencyP99, values), 0.95, 1_000, *seed).unwrap();
        found.low > 1.07 || found.high < 1.07
    };
    (0..1_000).filter(misses).count()
}

/// Four standard errors around what 20,000 sessions showed, in per mille of 1,000 sessions.
fn band(per_mille: f64) -> std::ops::RangeInclusive<f64> {
    let error = 4.0 * (per_mille * (1e3 - per_mille) / 1e3).sqrt();
    per_mille - error..=per_mille + error
}

/// The interval does not keep its promise under strong skew; these are the figures of docs/method.md.
#[test]
fn under_skew_intervals_miss_more_often_than_they_say() {
    for (pairs, expected) in [(6, 115.0), (14, 112.0), (40, 81.0)] {
        let misses = misses_per_mille(skewed, pairs, 23);
        assert!(band(expected).contains(&(misses as f64)), "{pairs} pairs: {misses} of 1000, not {expected}");
    }
}

/// What happens in one of `k` windows is in none of N with a probability of (1 - 1/k)^N, and an interval over pairs that
/// did not meet it knows nothing of it.
#[test]
fn an_interval_knows_nothing_of_stalls_that_no_window_met() {
    for (pairs, expected) in [(6, 521.0), (10, 347.0), (14, 233.0), (20, 123.0)] {
        let misses = misses_per_mille(rare_stalls, pairs, 24);
        let unmet = 1e3 * 0.9_f64.powi(pairs as i32);
        assert!((unmet - expected).abs() < 15.0, "{pairs} pairs: the formula says {unmet}");
        assert!(band(expected).contains(&(misses as f64)), "{pairs} pairs: {misses} of 1000, not {expected}");
    }
}

/// The reason for not using the usual interval: the middle 95 % of resampled means misses too often with few pairs.
#[test]
fn the_percentile_interval_would_break_its_promise() {
    let mut random = ChaCha8Rng::seed_from_u64(22);
    let sessions = 1_000;
    let misses = (0..sessions)
        .filter(|_| {
            let logs: Vec<f64> = session(&mut random, normal, 6, 1.0, 0.1)
                .iter()
                .map(|(first, second)| (second / first).ln())
                .collect();
            let mut means: Vec<f64> = (0..1_000)
                .map(|_| (0..6).map(|_| logs[(uniform(&mut random) * 6.0) as usize]).sum::<f64>() / 6.0)
                .collect();
            means.sort_by(f64::total_cmp);
            means[24] > 0.0 || means[975] < 0.0
        })
        .count();
    assert!(misses > 90, "only {misses} of {sessions}: the studentised interval would not be needed");
}

/// The level at which eight secondary metrics are told, with as few pairs as are allowed.
#[test]
fn secondary_intervals_hold_with_the_fewest_pairs_and_stay_finite() {
    let mut random = ChaCha8Rng::seed_from_u64(21);
    let sessions = 1_000;
    let misses = (0..sessions)
        .filter(|&seed| {
            let values = session(&mut random, normal, 5, 1.0, 0.8);
            let pairs = Pairs::of_one_build(Metric::LatencyP99, values);
            let found = estimate(&pairs, 1.0 - 0.05 / 8.0, 1_000, seed).unwrap();
            assert!(found.high < 1e12 && found.low > 1e-12, "{found:?}");
            found.low > 1.0 || found.high < 1.0
        })
        .count();
    // 0.6 % promised; 1.5 % is 3.5 standard errors above it.
    assert!(misses < 15, "{misses} of {sessions} intervals miss the truth");
}

fn verdicts(effect: f64, noise: Noise, sessions: u64) -> BTreeMap<&'static str, u32> {
    let mut random = ChaCha8Rng::seed_from_u64(4);
    let mut counts = BTreeMap::new();
    for seed in 0..sessions {
        let mut design = plan(&plan_of(14, 6, seed)).unwrap();
        design.rule.secondary.clear();
        design.rule.resamples = 1_000;
        let test = session(&mut random, noise, 14, effect, 0.03);
        let control = session(&mut random, noise, 6, 1.0, 0.03);
        let pairs = [outcomes(PairKind::Test, &test), outcomes(PairKind::Control, &control)].concat();
        *counts.entry(judge(&design, &pairs).judgements[0].verdict.label()).or_insert(0) += 1;
    }
    counts
}

#[test]
fn an_a_a_session_stays_silent_in_19_of_20() {
    for noise in [normal as Noise, heavy as Noise] {
        let counts = verdicts(1.0, noise, 1_000);
        let spoken = counts.get(Verdict::Better.label()).unwrap_or(&0) + counts.get("worse").unwrap_or(&0);
        assert!(spoken <= 50, "{counts:?}");
    }
}

#[test]
fn ten_per_cent_is_found_and_has_the_right_sign() {
    let counts = verdicts(1.10, normal, 500);
    assert!(counts.get("worse").unwrap_or(&0) >= &490, "{counts:?}");
    assert_eq!(counts.get("better"), None, "{counts:?}");
}

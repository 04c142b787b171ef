//! Does the instrument meet its stated error rates? With a known true effect and many sessions: an A/A session must find nothing, an effect
//! of known size must be found as often as the smallest detectable effect says, and an interval must hold the true value as often as its
//! level says, also with few pairs and with heavy tails.

use std::collections::BTreeMap;

use hone_compare::{Pairs, estimate, judge, plan};
use hone_record::{Metric, PairKind, Verdict};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

mod sessions;
use sessions::{
    Noise, heavy, normal, outcomes, plan_of, rare_stalls, session, sessions_of_a_figure, skewed, tell,
    uniform,
};

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
            tell(&format!("{name} noise, {count} pairs: {misses} of {sessions} intervals miss"));
            // The design's rate is 5 %; 7.5 % is 3.6 standard errors above it at 1,000 sessions.
            assert!(misses < 75, "{name}, {count} pairs: {misses} of {sessions} intervals miss the truth");
        }
    }
}

/// How many pairs the sessions of the table in docs/method.md have.
const PAIRS: [usize; 5] = [6, 10, 14, 20, 40];

/// Share of 95 % intervals that miss a truth of 1.07, in per cent.
fn misses_percent(noise: Noise, pairs: usize, seed: u64) -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let misses = |seed: &usize| {
        let values = session(&mut random, noise, pairs, 1.07, 0.1);
        let pairs = Pairs::of_one_build(Metric::LatencyP99, values);
        let found = estimate(&pairs, 0.95, 1_000, *seed as u64).unwrap();
        found.low > 1.07 || found.high < 1.07
    };
    let sessions = sessions_of_a_figure();
    100.0 * (0..sessions).filter(misses).count() as f64 / sessions as f64
}

/// Four standard errors around what 20,000 sessions showed, in per cent of the sessions counted now.
fn band(percent: f64) -> std::ops::RangeInclusive<f64> {
    let error = 4.0 * (percent * (100.0 - percent) / sessions_of_a_figure() as f64).sqrt();
    percent - error..=percent + error
}

/// Counts the sessions that miss, row by row of the table in docs/method.md.
fn holds_the_table(name: &str, noise: Noise, seed: u64, expected: [f64; 5]) {
    for (pairs, expected) in PAIRS.into_iter().zip(expected) {
        let misses = misses_percent(noise, pairs, seed);
        tell(&format!("{name}, {pairs} pairs: {misses:.1} % of {} sessions miss", sessions_of_a_figure()));
        assert!(band(expected).contains(&misses), "{name}, {pairs} pairs: {misses} %, not {expected} %");
    }
}

/// The interval does not reach its level under strong skew; these are the figures of docs/method.md.
#[test]
fn under_skew_intervals_miss_more_often_than_they_say() {
    holds_the_table("log-normal", skewed, 23, [11.5, 12.0, 11.2, 10.0, 8.1]);
}

/// What happens in one of `k` windows is in none of N with a probability of (1 - 1/k)^N, and an interval over pairs that
/// did not meet it knows nothing of it.
#[test]
fn an_interval_knows_nothing_of_stalls_that_no_window_met() {
    let expected = [52.1, 34.7, 23.3, 12.3, 2.0];
    holds_the_table("a stall in one of ten", rare_stalls, 24, expected);
    for (pairs, missed) in PAIRS.into_iter().zip(expected) {
        let unmet = 100.0 * 0.9_f64.powi(pairs as i32);
        tell(&format!("no pair of {pairs} met a stall: {unmet:.1} %"));
        assert!((unmet - missed).abs() < 1.5, "{pairs} pairs: the formula says {unmet} %");
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
    tell(&format!("middle 95 % of resampled means, 6 pairs: {misses} of {sessions} miss"));
    assert!(misses > 90, "only {misses} of {sessions}: the studentised interval would not be needed");
}

/// The level of eight secondary metrics, with the smallest allowed number of pairs.
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
    tell(&format!("99.4 % intervals, 5 pairs: {misses} of {sessions} miss"));
    // The design's rate is 0.6 %; 1.5 % is 3.5 standard errors above it.
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
    for (noise, name) in [(normal as Noise, "normal"), (heavy as Noise, "heavy")] {
        let counts = verdicts(1.0, noise, 1_000);
        tell(&format!("A/A, {name} noise, 1000 sessions: {counts:?}"));
        let spoken = counts.get(Verdict::Better.label()).unwrap_or(&0) + counts.get("worse").unwrap_or(&0);
        assert!(spoken <= 50, "{counts:?}");
    }
}

#[test]
fn ten_per_cent_is_found_and_has_the_right_sign() {
    let counts = verdicts(1.10, normal, 500);
    tell(&format!("10 % at a spread of 3 %, 500 sessions: {counts:?}"));
    assert!(counts.get("worse").unwrap_or(&0) >= &490, "{counts:?}");
    assert_eq!(counts.get("better"), None, "{counts:?}");
}

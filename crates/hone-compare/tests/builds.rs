//! Several builds an arm: layout alone moves a build by some per cent, the same way in every pair that measures it. An
//! interval over pairs takes that for a small effect with much evidence. One over blocks does not.

use hone_compare::{Pairs, estimate};
use hone_record::Metric;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

mod sessions;
use sessions::{Noise, heavy, normal, tell};

/// Pairs of `builds` builds an arm: each build has its luck, each pair its noise.
fn measured(
    random: &mut ChaCha8Rng,
    noise: Noise,
    builds: u32,
    per_build: u32,
    truth: f64,
    between: f64,
) -> Pairs {
    let luck: Vec<f64> =
        (0..builds).map(|_| between * (normal(random) - normal(random)) / 2f64.sqrt()).collect();
    let block = |pair: u32| pair % builds;
    let value = |pair: u32, random: &mut ChaCha8Rng| {
        (1.0, (truth.ln() + luck[block(pair) as usize] + 0.02 * noise(random)).exp())
    };
    let count = builds * per_build;
    Pairs {
        metric: Metric::CpuPerRecord,
        values: (0..count).map(|pair| value(pair, random)).collect(),
        blocks: (0..count).map(block).collect(),
    }
}

fn misses(pairs: &Pairs, truth: f64, seed: u64) -> bool {
    let found = estimate(pairs, 0.95, 1_000, seed).unwrap();
    found.low > truth || found.high < truth
}

#[test]
fn the_interval_over_builds_holds_the_truth_as_often_as_it_says() {
    let mut random = ChaCha8Rng::seed_from_u64(30);
    for (noise, name) in [(normal as Noise, "normal"), (heavy as Noise, "heavy")] {
        for builds in [3, 4, 5, 8] {
            for between in [0.0, 0.03] {
                let sessions = 1_000;
                let missed = (0..sessions)
                    .filter(|&seed| {
                        let pairs = measured(&mut random, noise, builds, 5, 0.95, between);
                        misses(&pairs, 0.95, seed)
                    })
                    .count();
                tell(&format!(
                    "{builds} builds, {between} between them, {name} noise: {missed} of {sessions} miss"
                ));
                // The design's rate is 5 %; 7.5 % is 3.6 standard errors above it.
                assert!(
                    missed < 75,
                    "{name}, {builds} builds, between {between}: {missed} of {sessions} miss"
                );
            }
        }
    }
}

/// The reason for the level: the same pairs, taken for pairs of one build.
#[test]
fn an_interval_that_ignores_builds_breaks_its_promise() {
    let mut random = ChaCha8Rng::seed_from_u64(31);
    let sessions = 1_000;
    let missed = (0..sessions)
        .filter(|&seed| {
            let pairs = measured(&mut random, normal, 3, 5, 0.95, 0.03);
            misses(&Pairs { blocks: Vec::new(), ..pairs }, 0.95, seed)
        })
        .count();
    tell(&format!("three builds taken for one: {missed} of {sessions} miss"));
    assert!(missed > 300, "only {missed} of {sessions}: the level of builds would not be needed");
}

#[test]
fn the_spread_between_builds_is_told_and_fewer_than_three_are_refused() {
    let mut random = ChaCha8Rng::seed_from_u64(32);
    let pairs = measured(&mut random, normal, 40, 8, 1.0, 0.05);
    let builds = estimate(&pairs, 0.95, 1_000, 1).unwrap().builds.unwrap();
    assert_eq!(builds.blocks, 40);
    assert!((0.035..0.065).contains(&builds.between_log_sd), "{builds:?}");
    assert!((0.015..0.025).contains(&builds.within_log_sd), "{builds:?}");
    let two = measured(&mut random, normal, 2, 8, 1.0, 0.05);
    let message = estimate(&two, 0.95, 1_000, 1).unwrap_err().to_string();
    assert!(
        message.contains("only 2 of the blocks (builds, or starts of the processes) have a valid pair"),
        "{message}"
    );
}

//! Processes that live for several pairs: two of one build differ by the luck of their layout as long as they live, in test and
//! control alike. A verdict that takes their pairs for independent ones speaks up in A/A sessions; one over starts does not.

use std::collections::BTreeMap;

use hone_compare::{RoundPlan, judge, refused_for_operations};
use hone_record::{Design, Metric, PairKind, PairOutcome, Verdict};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

mod sessions;
use sessions::normal;

const SESSIONS: u64 = 600;
/// Of one process of a build against another.
const LUCK: f64 = 0.03;
const NOISE: f64 = 0.02;

fn design(rounds: u32, block_rounds: u32, seed: u64) -> Design {
    let plan = RoundPlan {
        variants: 3,
        rounds,
        block_rounds,
        closed_loop: true,
        primary: Metric::CpuPerRecord,
        guards: vec![],
        alpha: 0.05,
        equivalence: 0.02,
        seed,
        refused: refused_for_operations(Metric::CpuPerRecord),
        keep_disturbed: false,
    };
    let mut design = plan.design([0, 2]).unwrap();
    design.rule.secondary.clear();
    design.rule.resamples = 1_000;
    design
}

/// Baseline, twin and variant: each has its luck for a block, and its noise in each round.
fn session(design: &Design, effect: f64, block_rounds: u32, random: &mut ChaCha8Rng) -> Vec<PairOutcome> {
    let mut luck = [0.0; 3];
    let mut pairs = Vec::new();
    for round in 0..design.pairs {
        if round % block_rounds == 0 {
            luck = [(); 3].map(|()| LUCK * normal(random));
        }
        let values = luck.map(|luck| (luck + NOISE * normal(random)).exp());
        for (kind, second) in [(PairKind::Test, values[2] * effect), (PairKind::Control, values[1])] {
            let index = pairs.len();
            pairs.push(PairOutcome {
                index: index as u32,
                kind,
                window_a: String::new(),
                window_b: String::new(),
                values_a: BTreeMap::from([(Metric::CpuPerRecord, values[0])]),
                values_b: BTreeMap::from([(Metric::CpuPerRecord, second)]),
                dropped: None,
                block: design.block(index),
                took_s: 0.0,
                troubles: Default::default(),
            });
        }
    }
    pairs
}

fn spoken(effect: f64, rounds: u32, block_rounds: u32, blind: bool) -> [u32; 2] {
    let mut random = ChaCha8Rng::seed_from_u64(51);
    let mut found = [0, 0];
    for seed in 0..SESSIONS {
        let mut design = design(rounds, block_rounds, seed);
        let pairs = session(&design, effect, block_rounds, &mut random);
        if blind {
            design.starts = 0;
        }
        match judge(&design, &pairs).judgements[0].verdict {
            Verdict::Better => found[0] += 1,
            Verdict::Worse => found[1] += 1,
            Verdict::Equivalent | Verdict::NotShown => {}
        }
    }
    found
}

#[test]
fn an_equal_variant_stays_silent_however_long_its_processes_live() {
    for (rounds, block_rounds) in [(12, 4), (30, 3), (30, 10), (31, 1)] {
        let [better, worse] = spoken(1.0, rounds, block_rounds, false);
        assert!(
            better + worse <= 30,
            "{rounds} rounds by {block_rounds}: {better} better, {worse} worse of {SESSIONS}"
        );
    }
}

/// The reason for the level.
#[test]
fn pairs_of_one_start_taken_for_independent_ones_speak_up() {
    let [better, worse] = spoken(1.0, 30, 10, true);
    assert!(
        better + worse > 60,
        "only {better} and {worse} of {SESSIONS}: the level of starts would not be needed"
    );
}

#[test]
fn an_effect_is_found_on_its_side() {
    for (effect, side) in [(0.90, 0), (1.11, 1)] {
        let found = spoken(effect, 30, 3, false);
        assert!(found[side] >= 540 && found[1 - side] == 0, "{effect}: {found:?} of {SESSIONS}");
    }
}

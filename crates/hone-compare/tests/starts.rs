//! Processes that live for several pairs: two of one build differ by the luck of their layout as long as they live, in test and
//! control alike. A verdict that takes their pairs for independent ones speaks up in A/A sessions; one over starts does not. The
//! luck of a build's layout outlives its processes: it takes several builds to see it.

use hone_compare::{RoundPlan, judge};
use hone_record::{Design, PairKind, PairOutcome, Verdict};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

mod sessions;
use sessions::{normal, outcomes, plan_of_rounds as plan, tell};

const SESSIONS: u64 = 600;
/// Of one process of a build against another.
const LUCK: f64 = 0.03;
const NOISE: f64 = 0.02;

fn design(plan: &RoundPlan) -> Design {
    let mut design = plan.design([0, 2]).unwrap();
    design.rule.secondary.clear();
    design.rule.resamples = 1_000;
    design
}

fn pair(design: &Design, index: usize, kind: PairKind, first: f64, second: f64) -> PairOutcome {
    let one = outcomes(kind, &[(first, second)]).remove(0);
    PairOutcome { index: index as u32, block: design.block(index), ..one }
}

/// Counts the sessions that speak up, as better and as worse.
fn count(found: &mut [u32; 2], design: &Design, pairs: &[PairOutcome]) {
    match judge(design, pairs).judgements[0].verdict {
        Verdict::Better => found[0] += 1,
        Verdict::Worse => found[1] += 1,
        Verdict::Equivalent | Verdict::NotShown => {}
    }
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
            pairs.push(pair(design, pairs.len(), kind, values[0], second));
        }
    }
    pairs
}

fn spoken(effect: f64, rounds: u32, block_rounds: u32, blind: bool) -> [u32; 2] {
    let mut random = ChaCha8Rng::seed_from_u64(51);
    let mut found = [0, 0];
    for seed in 0..SESSIONS {
        let mut design = design(&plan(rounds, block_rounds, 1, seed));
        let pairs = session(&design, effect, block_rounds, &mut random);
        if blind {
            design.starts = 0;
        }
        count(&mut found, &design, &pairs);
    }
    found
}

#[test]
fn an_equal_variant_stays_silent_however_long_its_processes_live() {
    for (rounds, block_rounds) in [(12, 4), (30, 2), (30, 3), (30, 10), (31, 1)] {
        let [better, worse] = spoken(1.0, rounds, block_rounds, false);
        tell(&format!(
            "A/A, {rounds} rounds, {block_rounds} a start: {} of {SESSIONS} speak up",
            better + worse
        ));
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
    tell(&format!("starts not seen, 30 rounds, 10 a start: {} of {SESSIONS} speak up", better + worse));
    assert!(
        better + worse > 60,
        "only {better} and {worse} of {SESSIONS}: the level of starts would not be needed"
    );
}

#[test]
fn an_effect_is_found_on_its_side() {
    for (effect, side) in [(0.90, 0), (1.11, 1)] {
        let found = spoken(effect, 30, 3, false);
        tell(&format!("effect {effect}: {found:?} of {SESSIONS} better, worse"));
        assert!(found[side] >= 540 && found[1 - side] == 0, "{effect}: {found:?} of {SESSIONS}");
    }
}

/// The number of sessions in which equal variants of the given number of builds differ. Each build of each variant has its own offset for
/// the whole session, each start of a process has its own, and each round its noise. The twin is a copy of the baseline's build.
fn spoken_of_builds(effect: f64, builds: u32) -> [u32; 2] {
    const ROUNDS: u32 = 30;
    const BLOCK_ROUNDS: u32 = 3;
    const OF_START: f64 = 0.01;
    let mut random = ChaCha8Rng::seed_from_u64(52);
    let mut found = [0, 0];
    for seed in 0..SESSIONS {
        let plan = plan(ROUNDS, BLOCK_ROUNDS, builds, seed);
        let (design, turns) = (design(&plan), plan.builds_of_blocks());
        let lucks: Vec<[f64; 2]> =
            (0..builds).map(|_| [(); 2].map(|()| LUCK * normal(&mut random))).collect();
        let mut starts = [0.0; 3];
        let mut pairs = Vec::new();
        for round in 0..ROUNDS {
            if round % BLOCK_ROUNDS == 0 {
                starts = [(); 3].map(|()| OF_START * normal(&mut random));
            }
            let [baseline, variant] = lucks[turns[plan.block(round) as usize] as usize];
            let mut index = 0;
            let values = [baseline, baseline, variant + effect.ln()].map(|luck| {
                index += 1;
                (luck + starts[index - 1] + NOISE * normal(&mut random)).exp()
            });
            for (kind, second) in [(PairKind::Test, values[2]), (PairKind::Control, values[1])] {
                pairs.push(pair(&design, pairs.len(), kind, values[0], second));
            }
        }
        count(&mut found, &design, &pairs);
    }
    found
}

#[test]
fn luck_of_layout_passes_for_an_effect_in_one_build_and_not_in_several() {
    let [better, worse] = spoken_of_builds(1.0, 1);
    tell(&format!("luck of layout, one build: {} of {SESSIONS} speak up", better + worse));
    assert!(better + worse > 300, "one build: only {better} and {worse} of {SESSIONS} speak up");
    for builds in [3, 5, 10] {
        let [better, worse] = spoken_of_builds(1.0, builds);
        tell(&format!("luck of layout, {builds} builds: {} of {SESSIONS} speak up", better + worse));
        assert!(better + worse <= 30, "{builds} builds: {better} better, {worse} worse of {SESSIONS}");
    }
    let [better, worse] = spoken_of_builds(0.85, 5);
    tell(&format!("luck of layout, 5 builds, 15 % faster: {better} of {SESSIONS} better, {worse} worse"));
    assert!(better >= 450 && worse == 0, "{better} better, {worse} worse of {SESSIONS}");
}

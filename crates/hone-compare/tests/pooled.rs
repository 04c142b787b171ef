//! Rounds whose reference is the baseline together with its byte copy. The model: the effect of the variant, the luck of each copy in its
//! block, and the noise of each window, which neighbours make heavy-tailed. The interval must hold the truth as often as it says, equal
//! variants must stay silent, and the control must not cost what it did as an independent sample.

use hone_compare::{RoundPlan, judge};
use hone_record::{Design, Judgement, Look, Metric, PairKind, PairOutcome, Verdict};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

mod sessions;
use sessions::{Noise, heavy, normal, outcomes, plan_of_rounds, tell};

const SESSIONS: u64 = 600;
const ROUNDS: u32 = 30;
const BLOCK_ROUNDS: u32 = 3;

/// Spread of a copy's luck and of a window, as logs.
struct Spread {
    name: &'static str,
    luck: f64,
    window: f64,
    noise: Noise,
}

const SPREADS: [Spread; 3] = [
    Spread { name: "windows only", luck: 0.0, window: 0.03, noise: normal },
    Spread { name: "copies of 3 %", luck: 0.03, window: 0.02, noise: normal },
    Spread { name: "copies and neighbours", luck: 0.02, window: 0.02, noise: heavy },
];

fn plan(seed: u64) -> RoundPlan {
    RoundPlan { asked_reserve: Some(0), ..plan_of_rounds(ROUNDS, BLOCK_ROUNDS, 1, seed) }
}

fn design(seed: u64) -> Design {
    let mut design = plan(seed).design([0, 2]).unwrap();
    design.rule.secondary.clear();
    design.rule.resamples = 1_000;
    design
}

fn session(design: &Design, spread: &Spread, effect: f64, random: &mut ChaCha8Rng) -> Vec<PairOutcome> {
    let mut luck = [0.0; 3];
    let mut pairs = Vec::new();
    for round in 0..ROUNDS {
        if round % BLOCK_ROUNDS == 0 {
            luck = [(); 3].map(|()| spread.luck * normal(random));
        }
        let [baseline, twin, variant] =
            luck.map(|luck| (luck + spread.window * (spread.noise)(random)).exp());
        for (kind, second) in [(PairKind::Test, variant * effect), (PairKind::Control, twin)] {
            let index = pairs.len();
            let one = outcomes(kind, &[(baseline, second)]).remove(0);
            pairs.push(PairOutcome { index: index as u32, block: design.block(index), ..one });
        }
    }
    pairs
}

/// The judgements of many sessions. `is_pooled` tells whether the reference has both windows, as designs of rounds say.
fn judged(spread: &Spread, effect: f64, is_pooled: bool) -> Vec<Judgement> {
    let mut random = ChaCha8Rng::seed_from_u64(61);
    let one = |seed: u64| {
        let mut design = design(seed);
        let pairs = session(&design, spread, effect, &mut random);
        if !is_pooled {
            design.pooled_baseline = false;
            design.rule.alpha *= 2.0;
        }
        judge(&design, &pairs).judgements.remove(0)
    };
    (0..SESSIONS).map(one).collect()
}

/// Rounds that end at the first look with a verdict: the judgement, and the rounds that it took.
fn until_decided(spread: &Spread, effect: f64) -> Vec<(Judgement, u32)> {
    let mut random = ChaCha8Rng::seed_from_u64(63);
    let looks = looks();
    let one = |seed: u64| {
        let design = Design { looks: looks.clone(), ..design(seed) };
        let pairs = session(&design, spread, effect, &mut random);
        let at = |rounds: u32| judge(&design, &pairs[..2 * rounds as usize]).judgements.remove(0);
        let mut early = design.looks.iter().map(|look| look.pairs);
        let decided =
            early.find_map(|rounds| Some((at(rounds), rounds)).filter(|(found, _)| is_decided(found)));
        decided.unwrap_or_else(|| (at(ROUNDS), ROUNDS))
    };
    (0..SESSIONS).map(one).collect()
}

fn is_decided(judgement: &Judgement) -> bool {
    judgement.verdict != Verdict::NotShown
}

/// The looks of a plan that ends early.
fn looks() -> Vec<Look> {
    RoundPlan { ends_early: true, ..plan(1) }.design([0, 2]).unwrap().looks
}

#[test]
fn rounds_that_end_when_they_are_decided_are_no_more_often_wrong() {
    let planned: Vec<u32> = looks().iter().map(|look| look.pairs).collect();
    assert_eq!(planned, [18, 24, 30]);
    for (spread, effect) in SPREADS.iter().zip([0.975, 0.95, 0.95]) {
        let equal = until_decided(spread, 1.0);
        let spoken = equal.iter().filter(|(found, _)| speaks(found)).count();
        let better = until_decided(spread, effect);
        let found = better.iter().filter(|(found, _)| found.verdict == Verdict::Better).count();
        let wrong = better.iter().filter(|(found, _)| found.verdict == Verdict::Worse).count();
        let held = equal.iter().filter(|(found, _)| found.estimate.low <= 1.0 && found.estimate.high >= 1.0);
        let (held, rounds) = (held.count(), better.iter().map(|(_, rounds)| f64::from(*rounds)).sum::<f64>());
        tell(&format!(
            "{}: {spoken} verdicts of {SESSIONS} equal variants; {effect}: {found} found after {:.1} rounds of {ROUNDS}",
            spread.name,
            rounds / SESSIONS as f64
        ));
        assert!(spoken <= 27, "{}: {spoken} verdicts of equal variants", spread.name);
        assert!(held as u64 >= SESSIONS - 27, "{}: {held} intervals hold the truth", spread.name);
        let fixed = count(&judged(spread, effect, true), |one| one.verdict == Verdict::Better);
        assert!(found + 30 >= fixed, "{}: {found} found, {fixed} at the end", spread.name);
        assert!(rounds < f64::from(ROUNDS) * SESSIONS as f64 * 0.95, "{}: {rounds} rounds", spread.name);
        assert_eq!(wrong, 0, "{}", spread.name);
    }
}

fn count(judged: &[Judgement], verdict: impl Fn(&Judgement) -> bool) -> usize {
    judged.iter().filter(|judgement| verdict(judgement)).count()
}

fn speaks(judgement: &Judgement) -> bool {
    matches!(judgement.verdict, Verdict::Better | Verdict::Worse)
}

#[test]
fn the_interval_holds_the_truth_and_equal_variants_stay_silent() {
    for spread in &SPREADS {
        let equal = judged(spread, 1.0, true);
        let level = equal[0].estimate.confidence;
        assert!((level - 0.975).abs() < 1e-12, "half of 5 %: {level}");
        let misses = count(&equal, |one| one.estimate.low > 1.0 || one.estimate.high < 1.0);
        let spoken = count(&equal, speaks);
        tell(&format!(
            "{}: {misses} of {SESSIONS} intervals miss, {spoken} verdicts of equal variants",
            spread.name
        ));
        // 2.5 % of 600 is 15; three standard errors above it are 27.
        assert!(misses <= 27, "{}: {misses} of {SESSIONS} intervals miss", spread.name);
        assert!(spoken <= misses, "{}: {spoken} verdicts, {misses} misses", spread.name);
    }
}

#[test]
fn more_effects_are_found_than_with_a_control_that_is_subtracted() {
    for (spread, effect) in SPREADS.iter().zip([0.975, 0.95, 0.95]) {
        let [pooled, apart] = [true, false].map(|is_pooled| judged(spread, effect, is_pooled));
        let found = [&pooled, &apart].map(|judged| count(judged, |one| one.verdict == Verdict::Better));
        tell(&format!(
            "{}, {effect}: {} of {SESSIONS} found, {} with the control subtracted",
            spread.name, found[0], found[1]
        ));
        assert!(found[0] > found[1], "{}: {found:?}", spread.name);
        assert_eq!(count(&pooled, |one| one.verdict == Verdict::Worse), 0, "{}", spread.name);
    }
}

#[test]
fn a_round_without_its_copy_keeps_the_baseline_alone() {
    let mut random = ChaCha8Rng::seed_from_u64(62);
    let design = design(1);
    let spread = Spread { name: "", luck: 0.0, window: 1e-6, noise: normal };
    let mut pairs = session(&design, &spread, 0.9, &mut random);
    for pair in pairs.iter_mut().filter(|pair| pair.kind == PairKind::Control) {
        let value = pair.values_b.get_mut(&Metric::CpuPerRecord).unwrap();
        *value *= 1.21;
    }
    let ratio = |pairs: &[PairOutcome]| judge(&design, pairs).judgements[0].estimate.ratio;
    // The reference is the geometric mean of 1 and 1.21.
    assert!((ratio(&pairs) - 0.9 / 1.1).abs() < 1e-4, "{}", ratio(&pairs));
    for pair in pairs.iter_mut().filter(|pair| pair.kind == PairKind::Control) {
        pair.dropped = Some("disturbed".to_owned());
    }
    assert!((ratio(&pairs) - 0.9).abs() < 1e-4, "{}", ratio(&pairs));
}

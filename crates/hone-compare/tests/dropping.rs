//! Dropping pairs for their neighbours must not make the instrument see what is not there, and must help where a neighbour
//! came in one half of a pair.

use hone_compare::{Neighbours, disturbance, disturbed, judge, plan};
use hone_record::{Mode, PairKind, PairOutcome, Verdict};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

mod sessions;
use sessions::{normal, outcomes, plan_of, uniform};

/// A window: what it costs, and what its neighbours did. A neighbour makes it dearer, and in a third of the windows there is
/// one, of any size.
fn window(random: &mut ChaCha8Rng, effect: f64) -> (f64, Neighbours) {
    let there = uniform(random) < 0.33;
    let others_share = if there { uniform(random) } else { 0.05 };
    let cost = effect * (0.05 * normal(random) + 0.5 * others_share).exp();
    (cost, Neighbours { others_share, steal_share: 0.01, memory_pressure: None })
}

fn pair(random: &mut ChaCha8Rng, kind: PairKind, effect: f64, dropping: bool) -> PairOutcome {
    let (a, beside_a) = window(random, 1.0);
    let (b, beside_b) = window(random, if kind == PairKind::Test { effect } else { 1.0 });
    let rule = disturbance(Mode::Solo);
    let mut pair = outcomes(kind, &[(a, b)]).remove(0);
    pair.dropped = disturbed(&rule, [&beside_a, &beside_b]).filter(|_| dropping);
    pair
}

fn spoken(random: &mut ChaCha8Rng, effect: f64, dropping: bool, sessions: u64) -> (usize, usize) {
    let mut dropped = 0;
    let spoken = (0..sessions)
        .filter(|&seed| {
            let mut design = plan(&plan_of(20, 10, seed)).unwrap();
            design.rule.secondary.clear();
            design.rule.resamples = 1_000;
            let pairs: Vec<_> =
                design.order.iter().map(|kind| pair(random, *kind, effect, dropping)).collect();
            dropped += pairs.iter().filter(|pair| pair.dropped.is_some()).count();
            let judged = judge(&design, &pairs);
            let verdict = judged.judgements.first().map(|judgement| judgement.verdict);
            matches!(verdict, Some(Verdict::Better | Verdict::Worse))
        })
        .count();
    (spoken, dropped)
}

#[test]
fn dropping_does_not_raise_the_false_verdicts_of_a_a_sessions() {
    let mut random = ChaCha8Rng::seed_from_u64(50);
    let sessions = 1_000;
    let (spoken, dropped) = spoken(&mut random, 1.0, true, sessions);
    assert!(spoken <= 50, "{spoken} of {sessions} A/A sessions spoke up");
    assert!(dropped > 1_000, "only {dropped} pairs were dropped: this shows nothing");
}

#[test]
fn an_effect_is_found_more_often_when_disturbed_pairs_do_not_count() {
    let mut random = ChaCha8Rng::seed_from_u64(51);
    let (without, _) = spoken(&mut random, 1.10, false, 300);
    let (with, _) = spoken(&mut random, 1.10, true, 300);
    assert!(with > without + 30, "{without} found without dropping, {with} with it, of 300");
}

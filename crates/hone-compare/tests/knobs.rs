//! Many settings tried in the same rounds, each against the one baseline of its round, as `hone host try` does: the baseline's luck is in
//! all of them, and as many verdicts are looked for as there are settings.

use std::collections::BTreeMap;

use hone_compare::{BASELINE, RoundPlan, StallPair, TWIN, judge, judge_stalls};
use hone_record::{Metric, PairKind, PairOutcome, Verdict};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

mod sessions;
use sessions::{STALL_S, normal, published_window as window, uniform};

const KNOBS: usize = 6;

fn plan(rounds: u32, seed: u64) -> RoundPlan {
    RoundPlan {
        busy: false,
        variants: KNOBS + TWIN + 1,
        rounds,
        asked_reserve: None,
        block_rounds: 0,
        builds: 1,
        closed_loop: false,
        primary: Metric::LatencyP99,
        guards: vec![Metric::LatencyP50],
        // What each of the settings has of 5 %.
        alpha: 0.05 / KNOBS as f64,
        equivalence: 0.02,
        seed,
        refused: BTreeMap::from(
            [Metric::CpuPerRequest, Metric::UserCpuPerRecord, Metric::LatencyP90, Metric::LatencyMax]
                .map(|metric| (metric, "not asked".to_owned())),
        ),
        keep_disturbed: true,
        ends_early: false,
    }
}

/// Values of each variant in each round.
type Rounds = Vec<Vec<BTreeMap<Metric, f64>>>;

/// The verdicts on the primary metric, setting by setting.
fn verdicts(plan: &RoundPlan, rounds: &Rounds, resamples: u32) -> Vec<Verdict> {
    (0..KNOBS)
        .map(|knob| {
            let edge = [BASELINE, knob + TWIN + 1];
            let mut design = plan.design(edge).unwrap();
            design.rule.resamples = resamples;
            design.rule.secondary.clear();
            let pair = |(index, values): (usize, &Vec<BTreeMap<Metric, f64>>)| {
                [(PairKind::Test, edge), (PairKind::Control, [BASELINE, TWIN])]
                    .into_iter()
                    .enumerate()
                    .map(move |(place, (kind, [a, b]))| PairOutcome {
                        index: (index * 2 + place) as u32,
                        kind,
                        values_a: values[a].clone(),
                        values_b: values[b].clone(),
                        ..PairOutcome::default()
                    })
                    .collect::<Vec<_>>()
            };
            let pairs: Vec<PairOutcome> = rounds.iter().enumerate().flat_map(pair).collect();
            judge(&design, &pairs).judgements[0].verdict
        })
        .collect()
}

fn speaks(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Better | Verdict::Worse)
}

/// Noise of a round, which all of its windows share, and of each window; `effects` are ratios of the settings.
fn drawn(random: &mut ChaCha8Rng, rounds: u32, spread: f64, effects: [f64; KNOBS]) -> Rounds {
    (0..rounds)
        .map(|_| {
            let shared = 0.3 * normal(random);
            (0..KNOBS + TWIN + 1)
                .map(|variant| {
                    let effect = variant.checked_sub(TWIN + 1).map_or(1.0, |knob| effects[knob]);
                    let p99 = 2_000.0 * (shared + spread * normal(random)).exp() * effect;
                    [(Metric::LatencyP50, 500.0 * (0.02 * normal(random)).exp()), (Metric::LatencyP99, p99)]
                        .into()
                })
                .collect()
        })
        .collect()
}

#[test]
fn settings_without_an_effect_stay_silent_all_together() {
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let sessions = 200;
    let spoken = (0..sessions)
        .filter(|&seed| {
            let rounds = drawn(&mut random, 10, 0.15, [1.0; KNOBS]);
            verdicts(&plan(10, seed), &rounds, 2_000).into_iter().any(speaks)
        })
        .count();
    // 5 % of 200 is 10; four standard errors above it are 22.
    assert!(spoken <= 22, "in {spoken} of {sessions} sessions a setting spoke up");
}

#[test]
fn a_shift_of_30_per_cent_is_found_and_its_neighbours_are_not() {
    let mut random = ChaCha8Rng::seed_from_u64(12);
    let (mut found, mut others, sessions) = (0, 0, 60);
    for seed in 0..sessions {
        let rounds = drawn(&mut random, 12, 0.1, [1.0, 0.7, 1.0, 1.3, 1.0, 1.0]);
        let verdicts = verdicts(&plan(12, seed), &rounds, 2_000);
        found += usize::from(verdicts[1] == Verdict::Better) + usize::from(verdicts[3] == Verdict::Worse);
        others += [0, 2, 4, 5].iter().filter(|&&knob| speaks(verdicts[knob])).count();
    }
    assert!(found >= 108, "{found} of 120 effects were found");
    assert!(others <= 12, "{others} of 240 settings without an effect spoke up");
}

/// One stall in one window of the host as it is lies in a pair of every setting, and makes none of them look good; one in a setting's
/// own window makes none look bad.
#[test]
fn one_stall_makes_no_setting_better() {
    let mut random = ChaCha8Rng::seed_from_u64(13);
    let quiet: Vec<_> = (0..24).map(|_| window(&mut random, false)).collect();
    let stalled = window(&mut random, true);
    for (rounds, hit) in
        [5, 8, 12].into_iter().flat_map(|rounds| (0..3).map(move |hit| (rounds, hit * rounds / 3)))
    {
        for victim in [BASELINE, TWIN + 1] {
            let mut session: Rounds = (0..rounds)
                .map(|_| {
                    (0..KNOBS + TWIN + 1)
                        .map(|_| quiet[(uniform(&mut random) * 24.0) as usize].clone())
                        .collect()
                })
                .collect();
            session[hit as usize][victim] = stalled.clone();
            let found = verdicts(&plan(rounds, u64::from(hit)), &session, 4_000);
            assert!(
                !found.iter().any(|verdict| speaks(*verdict)),
                "{rounds} rounds, stall in {victim} of {hit}: {found:?}"
            );
        }
    }
    // The same windows, looked at by their stalls.
    let pair = |stalled_s| StallPair { kind: PairKind::Test, stalled_s };
    let pairs = [vec![pair([STALL_S, 0.0])], vec![pair([0.0, 0.0]); 11]].concat();
    assert_eq!(judge_stalls(&pairs, 0.05).verdict, Verdict::NotShown);
}

//! Sessions that go on while their A/A pairs scatter: they must not see what is not there, and must find what few pairs would miss.

use hone_compare::{Plan, Turns, USUAL_EFFECT, control_differs, judge, plan};
use hone_record::{Design, PairKind, PairOutcome, Verdict};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

mod sessions;
use sessions::{Noise, heavy, normal, outcomes, plan_of, session, sessions_of_a_figure, skewed, tell};

/// A true ratio, and how the pairs around it scatter.
#[derive(Clone, Copy)]
struct Truth {
    effect: f64,
    noise: Noise,
    sd: f64,
}

fn design(pairs: u32, control_pairs: u32, seed: u64, effect: Option<f64>) -> Design {
    let asked = Plan { reserve: None, effect, ..plan_of(pairs, control_pairs, seed) };
    let mut design = plan(&asked).unwrap();
    design.rule.secondary.clear();
    design.rule.resamples = 1_000;
    design
}

/// A session as it is measured: a pair of the reserve only where it has its turn.
fn measured(random: &mut ChaCha8Rng, design: &Design, truth: Truth) -> Vec<PairOutcome> {
    let (mut turns, mut pairs) = (Turns::new(design), Vec::new());
    for (index, kind) in design.order.iter().enumerate() {
        if index >= design.planned() {
            turns.more(&pairs);
        }
        turns.again(index, &pairs);
        if !turns.is_due(index) {
            continue;
        }
        let effect = if *kind == PairKind::Test { truth.effect } else { 1.0 };
        let values = session(random, truth.noise, 1, effect, truth.sd);
        let pair = PairOutcome { index: index as u32, ..outcomes(*kind, &values).remove(0) };
        turns.count(&pair);
        pairs.push(pair);
    }
    pairs
}

/// Counts of sessions with verdict better and worse, and the pairs of each.
fn found(seed: u64, asked: (u32, u32, Option<f64>), truth: Truth, sessions: usize) -> (usize, f64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (mut spoke, mut pairs) = (0, 0);
    for number in 0..sessions as u64 {
        let design = design(asked.0, asked.1, number, asked.2);
        let session = measured(&mut random, &design, truth);
        pairs += session.len();
        let verdict = judge(&design, &session).judgements.first().map(|judgement| judgement.verdict);
        spoke += usize::from(matches!(verdict, Some(Verdict::Better | Verdict::Worse)));
    }
    (spoke, pairs as f64 / sessions as f64)
}

#[test]
fn equal_arms_stay_silent_however_many_pairs_their_scatter_asks_for() {
    let sessions = sessions_of_a_figure() / 5;
    let cases = [
        (1, normal as Noise, 0.05, 8, 5),
        (2, normal, 0.15, 14, 6),
        (3, heavy, 0.05, 8, 5),
        (4, skewed, 0.2, 8, 5),
    ];
    for (seed, noise, sd, pairs, controls) in cases {
        let truth = Truth { effect: 1.0, noise, sd };
        let (spoke, each) = found(seed, (pairs, controls, Some(USUAL_EFFECT)), truth, sessions);
        tell(&format!(
            "{pairs} and {controls}, scatter {sd}: {spoke} of {sessions} speak, {each:.1} pairs each"
        ));
        assert!(
            spoke * 20 <= sessions,
            "{spoke} of {sessions} with {pairs} and {controls} pairs, scatter {sd}"
        );
        assert!(each > f64::from(pairs + controls) * 1.05, "{each} pairs: this shows nothing");
    }
}

#[test]
fn an_effect_that_the_planned_pairs_would_miss_is_found() {
    let sessions = sessions_of_a_figure() / 10;
    for (pairs, controls, sd) in [(8, 5, 0.08), (14, 6, 0.10)] {
        let truth = Truth { effect: 1.0 / USUAL_EFFECT, noise: normal, sd };
        let (before, _) = found(5, (pairs, controls, None), truth, sessions);
        let (after, each) = found(5, (pairs, controls, Some(USUAL_EFFECT)), truth, sessions);
        tell(&format!(
            "{pairs} and {controls}, scatter {sd}: {before} before, {after} of {sessions}, {each:.1} pairs each"
        ));
        assert!(before * 2 < sessions + sessions / 5, "{before} of {sessions} without: this shows nothing");
        assert!(after * 10 >= sessions * 7, "{after} of {sessions}");
    }
}

/// The number of sessions without a finding because their own control differs, with or without a repeat of the control.
fn without_control(asks_again: bool, sessions: usize) -> usize {
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let truth = Truth { effect: 0.85, noise: normal, sd: 0.12 };
    let differs = |number: &u64| {
        let mut design = design(8, 5, *number, Some(USUAL_EFFECT));
        if !asks_again {
            let again = std::mem::take(&mut design.effect.as_mut().unwrap().again);
            design.order.truncate(design.order.len() - again as usize);
            design.reserve -= again;
        }
        let session = measured(&mut random, &design, truth);
        let judged = judge(&design, &session).judgements;
        judged.first().is_some_and(|judgement| control_differs(&design.rule, judgement))
    };
    (0..sessions as u64).filter(differs).count()
}

/// By chance one control in twenty says that equal arms differ, and nothing may be said then of what the A/B pairs show.
#[test]
fn a_control_that_differs_by_chance_is_mostly_cleared_by_asking_it_again() {
    let sessions = sessions_of_a_figure() / 5;
    let [once, twice] = [false, true].map(|asks_again| without_control(asks_again, sessions));
    tell(&format!("{once} of {sessions} controls differ, {twice} when asked again"));
    assert!(once * 40 > sessions, "{once} of {sessions}: this shows nothing");
    assert!(twice * 2 < once, "{twice} and not {once} of {sessions}");
}

#[test]
fn pairs_that_scatter_little_are_enough() {
    let truth = Truth { effect: 0.95, noise: normal, sd: 0.01 };
    let (_, each) = found(6, (8, 5, Some(USUAL_EFFECT)), truth, 100);
    assert!((13.0..13.3).contains(&each), "{each} pairs each");
}

/// By count alone: an excluded pair is measured again, and never by one of another kind.
#[test]
fn the_reserve_waits_for_excluded_pairs() {
    let design = design(14, 6, 1, None);
    let mut turns = Turns::new(&design);
    for (index, kind) in design.order.iter().copied().enumerate().take(design.planned()) {
        assert!(turns.is_due(index));
        turns.count(&PairOutcome { index: index as u32, kind, ..PairOutcome::default() });
    }
    assert_eq!(turns.counted(), [6, 14]);
    let behind = design.planned()..design.order.len() + 1;
    assert!(behind.clone().all(|index| !turns.is_due(index)), "nothing was excluded");
    let mut turns = Turns::new(&design);
    let pair = |index: usize, is_excluded: bool| PairOutcome {
        index: index as u32,
        kind: design.order[index],
        dropped: is_excluded.then(|| "disturbed".to_owned()),
        ..PairOutcome::default()
    };
    // All A/B pairs, and none of the others.
    (0..design.planned()).for_each(|index| turns.count(&pair(index, design.order[index] == PairKind::Test)));
    let mut again = 0;
    for index in behind {
        if turns.is_due(index) {
            assert_eq!(design.order[index], PairKind::Test);
            turns.count(&pair(index, true));
            again += 1;
        }
    }
    assert_eq!(again, 7, "half as many again and no more");
}

/// Where hardly an A/A pair counts, what would come on top for the scatter replaces them.
#[test]
fn excluded_control_pairs_may_use_what_would_come_on_top() {
    let design = design(8, 5, 1, Some(USUAL_EFFECT));
    let mut turns = Turns::new(&design);
    let mut pairs = Vec::new();
    for (index, kind) in design.order.iter().copied().enumerate() {
        if index == design.planned() {
            assert_eq!(turns.more(&pairs), None);
        }
        if turns.is_due(index) {
            let mut pair = PairOutcome { index: index as u32, kind, ..PairOutcome::default() };
            pair.dropped = (kind == PairKind::Control && pairs.len() < 20).then(|| "late".to_owned());
            turns.count(&pair);
            pairs.push(pair);
        }
    }
    assert_eq!(turns.counted(), [5, 8]);
}

/// An A/A pair that was excluded is measured again, and then they are asked.
#[test]
fn the_control_is_asked_as_soon_as_enough_of_it_counts() {
    let design = design(8, 5, 1, Some(USUAL_EFFECT));
    let (mut turns, mut pairs) = (Turns::new(&design), Vec::new());
    let (mut random, mut is_first, mut asked) = (ChaCha8Rng::seed_from_u64(7), true, 0);
    for (index, kind) in design.order.iter().copied().enumerate() {
        if index >= design.planned() {
            asked += usize::from(turns.more(&pairs).is_some());
        }
        if turns.is_due(index) {
            let values = session(&mut random, normal, 1, 1.0, 0.3);
            let mut pair = PairOutcome { index: index as u32, ..outcomes(kind, &values).remove(0) };
            if kind == PairKind::Control && is_first {
                (pair.dropped, is_first) = (Some("saturated".to_owned()), false);
            }
            turns.count(&pair);
            pairs.push(pair);
        }
    }
    let [controls, tests] = turns.counted();
    assert_eq!(asked, 1);
    assert!(tests > 20 && controls > 12, "{tests} and {controls}");
}

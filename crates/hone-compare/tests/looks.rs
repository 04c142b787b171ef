//! Runs that end at a look with a verdict, and that are continued without one: equal arms must stay silent however often somebody continues,
//! and an effect must be found with fewer pairs than planned.

use hone_compare::{LookPlan, Plan, Turns, decided, judge, plan};
use hone_record::{Design, PairKind, PairOutcome, Verdict};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

mod sessions;
use sessions::{Noise, heavy, normal, outcomes, plan_of, session, sessions_of_a_figure, tell};

const PAIRS: u32 = 30;

/// A true ratio, and how the pairs around it scatter.
#[derive(Clone, Copy)]
struct Truth {
    effect: f64,
    noise: Noise,
    sd: f64,
}

/// A plan with this many A/A pairs, all but five of them spread over it.
fn design(looks: LookPlan, control_pairs: u32) -> Design {
    let pilot_pairs = control_pairs.min(5);
    let mut design = plan(&Plan { looks, pilot_pairs, ..plan_of(PAIRS, control_pairs, 1) }).unwrap();
    design.rule.secondary.clear();
    design.rule.resamples = 1_000;
    design
}

/// Measures on as a run does: until a look decides, until the clock allows no more than this many pairs, or until the last pair.
fn measure(
    design: &Design,
    truth: Truth,
    most: usize,
    pairs: &mut Vec<PairOutcome>,
    random: &mut ChaCha8Rng,
) {
    let mut turns = Turns::new(design);
    pairs.iter().for_each(|pair| turns.count(pair));
    for index in pairs.len()..design.order.len() {
        let kind = design.order[index];
        let is_over = pairs.len() >= most || !turns.is_due(index);
        if is_over || (kind == PairKind::Test && decided(design, pairs).is_some()) {
            return;
        }
        let effect = if kind == PairKind::Test { truth.effect } else { 1.0 };
        let values = session(random, truth.noise, 1, effect, truth.sd);
        let pair = PairOutcome { index: index as u32, ..outcomes(kind, &values).remove(0) };
        turns.count(&pair);
        pairs.push(pair);
    }
}

fn tests(pairs: &[PairOutcome]) -> u32 {
    pairs.iter().filter(|pair| pair.kind == PairKind::Test).count() as u32
}

/// The verdict of a session and its A/B pairs. Without a verdict, somebody continues it after each of these numbers of pairs.
fn held(design: &Design, truth: Truth, clocks: &[usize], random: &mut ChaCha8Rng) -> (Verdict, u32) {
    let (mut design, mut pairs) = (design.clone(), Vec::new());
    for clock in clocks {
        measure(&design, truth, *clock, &mut pairs, random);
        let verdict = judge(&design, &pairs).judgements[0].verdict;
        let Some(continuation) = design.continuation.as_mut().filter(|_| verdict == Verdict::NotShown) else {
            return (verdict, tests(&pairs));
        };
        continuation.ends.push(tests(&pairs));
    }
    (Verdict::NotShown, tests(&pairs))
}

/// Verdicts and A/B pairs of many sessions.
fn all(design: &Design, truth: Truth, clocks: &[usize]) -> Vec<(Verdict, u32)> {
    let mut random = ChaCha8Rng::seed_from_u64(64);
    let mut design = design.clone();
    let mut one = |seed: usize| {
        design.rule.seed = seed as u64;
        held(&design, truth, clocks, &mut random)
    };
    (0..sessions_of_a_figure() / 5).map(&mut one).collect()
}

/// The share of sessions with one of these verdicts.
fn share(all: &[(Verdict, u32)], verdicts: &[Verdict]) -> f64 {
    all.iter().filter(|(verdict, _)| verdicts.contains(verdict)).count() as f64 / all.len() as f64
}

fn mean_pairs(all: &[(Verdict, u32)]) -> f64 {
    all.iter().map(|(_, pairs)| f64::from(*pairs)).sum::<f64>() / all.len() as f64
}

const END: usize = usize::MAX;
/// A run to its planned end, and then as far as possible.
const CONTINUED: [usize; 2] = [END, END];

fn check_equal(noise: Noise, controls: u32, clocks: &[usize], how: &str) {
    let truth = Truth { effect: 1.0, noise, sd: 0.08 };
    let found = all(&design(LookPlan::Continued, controls), truth, clocks);
    let (spoke, pairs) = (share(&found, &[Verdict::Better, Verdict::Worse]), mean_pairs(&found));
    tell(&format!(
        "equal arms, {controls} A/A pairs, {how}: {:.1} % get a verdict, {pairs:.0} A/B pairs of {PAIRS}",
        spoke * 100.0
    ));
    // Two standard errors of the simulation.
    let error = (0.05 * 0.95 / found.len() as f64).sqrt();
    assert!(spoke <= 0.05 + 2.0 * error, "{controls}, {how}: {spoke}");
}

#[test]
fn equal_arms_stay_silent_with_looks_and_continuations() {
    check_equal(normal, 17, &CONTINUED, "continued");
    check_equal(heavy, 17, &CONTINUED, "one pair in ten scatters, continued");
}

#[test]
fn equal_arms_stay_silent_without_a_control() {
    check_equal(normal, 0, &CONTINUED, "continued");
    check_equal(heavy, 0, &CONTINUED, "one pair in ten scatters, continued");
    // The clock cuts the plan, and then the continuation.
    check_equal(normal, 0, &[20, 75, END], "cut and continued");
}

/// Three standard errors of the planned A/B pairs alone.
#[test]
fn an_effect_of_three_standard_errors_is_found() {
    let sd = 0.08;
    let truth = Truth { effect: (-3.0 * sd / f64::from(PAIRS).sqrt()).exp(), noise: normal, sd };
    for (controls, least) in [(17, 0.70), (0, 0.90)] {
        let at_end = share(&all(&design(LookPlan::AtEnd, controls), truth, &[END]), &[Verdict::Better]);
        let looks = all(&design(LookPlan::of_pairs(PAIRS, [1, 1]), controls), truth, &[END]);
        let continued = all(&design(LookPlan::Continued, controls), truth, &CONTINUED);
        let [early, late] = [&looks, &continued].map(|all| share(all, &[Verdict::Better]));
        tell(&format!(
            "three standard errors, {controls} A/A pairs: {:.0} % found at the end; {:.0} % with looks, after {:.1} A/B pairs of {PAIRS}; {:.0} % \
             when continued, after {:.1}",
            at_end * 100.0,
            early * 100.0,
            mean_pairs(&looks),
            late * 100.0,
            mean_pairs(&continued)
        ));
        assert!(early + 0.08 >= at_end, "{early} with looks, {at_end} without");
        assert!(late >= least, "{controls}: {late}");
        assert_eq!(share(&continued, &[Verdict::Worse]), 0.0);
    }
}

#[test]
fn a_large_effect_takes_half_of_the_pairs() {
    let truth = Truth { effect: 0.8, noise: normal, sd: 0.08 };
    let found = all(&design(LookPlan::Continued, 17), truth, &[END]);
    let (better, pairs) = (share(&found, &[Verdict::Better]), mean_pairs(&found));
    tell(&format!("a large effect: {:.0} % found, after {pairs:.1} A/B pairs of {PAIRS}", better * 100.0));
    assert!(better >= 0.98, "{better}");
    assert!(pairs < f64::from(PAIRS) * 0.6, "{pairs}");
}

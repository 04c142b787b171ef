//! Is the planner right? From an A/A pilot it predicts how likely an effect will be found, and the session then finds it that often.
//! Sessions have all kinds of noise, as machines do.

use hone_compare::{Layout, Outlook, Widths, judge, plan};
use hone_record::{Design, Metric, PairKind, PairOutcome, Verdict};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

mod sessions;
use sessions::{Noise, heavy, normal, outcomes, plan_of, session, tell, uniform};

const PILOT_PAIRS: usize = 6;

fn design(pairs: u32, more_control_pairs: u32, seed: u64) -> Design {
    let mut asked = plan_of(pairs, PILOT_PAIRS as u32 + more_control_pairs, seed);
    asked.pilot_pairs = PILOT_PAIRS as u32;
    let mut design = plan(&asked).unwrap();
    design.rule.secondary.clear();
    design.rule.resamples = 1_000;
    design
}

/// The rest of a session behind its pilot, judged; the pilot's pairs count as control pairs.
fn verdict(
    random: &mut ChaCha8Rng,
    noise: Noise,
    pilot: &[PairOutcome],
    layout: Layout,
    effect: f64,
    sd: f64,
) -> Verdict {
    let design = design(layout.pairs, layout.more_control_pairs, layout.pairs.into());
    let more = session(random, noise, layout.more_control_pairs as usize, 1.0, sd);
    let test = session(random, noise, layout.pairs as usize, effect, sd);
    let pairs = [pilot, &outcomes(PairKind::Control, &more), &outcomes(PairKind::Test, &test)].concat();
    judge(&design, &pairs).judgements[0].verdict
}

fn pilot(random: &mut ChaCha8Rng, noise: Noise, sd: f64) -> (Vec<PairOutcome>, Outlook) {
    let pilot = outcomes(PairKind::Control, &session(random, noise, PILOT_PAIRS, 1.0, sd));
    let outlook = Outlook::new(&design(9, 0, 1).rule, Metric::CpuPerRecord, &pilot).unwrap();
    (pilot, outlook)
}

/// Sessions whose spread is between 0.01 and 1 (evenly distributed in its logarithm), sorted by the predicted power: of those with a
/// predicted 70 to 90 per cent, 70 to 90 per cent find the effect.
#[test]
fn an_effect_is_found_as_often_as_was_promised() {
    for (effect, seed) in [(1.05, 11), (1.10, 12), (1.30, 13)] {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut widths = Widths::default();
        // Predicted and found share, in five classes of predicted power.
        let mut classes = [(0.0, 0u32, 0u32); 5];
        for session in 0..1_000 {
            let sd = (uniform(&mut random) * 100f64.ln()).exp() / 100.0;
            let (pilot, outlook) = pilot(&mut random, normal, sd);
            let layout = Layout { pairs: 8 + session % 20, more_control_pairs: session % 4, blocks: 1 };
            let promised = outlook.power(layout, effect, &mut widths);
            let class = &mut classes[((promised * 5.0) as usize).min(4)];
            class.0 += promised;
            class.1 += u32::from(verdict(&mut random, normal, &pilot, layout, effect, sd) == Verdict::Worse);
            class.2 += 1;
        }
        for (promised, found, sessions) in classes {
            let count = f64::from(sessions.max(1));
            let (promised, found) = (promised / count, f64::from(found) / count);
            tell(&format!(
                "effect {effect}: predicted {promised:.3}, found {found:.3} in {sessions} sessions"
            ));
            // Four standard errors, and two per cent for Student's t in place of each bootstrap.
            let error = (promised * (1.0 - promised) / count).sqrt();
            assert!(
                sessions < 30 || (found - promised).abs() < 4.0 * error + 0.02,
                "{effect}: predicted {promised:.3}, found {found:.3} in {sessions} sessions"
            );
        }
    }
}

/// Both predictions and the found share, in sessions with a predicted 80 % or more if the noise stays like the pilot's: once for those with
/// less than 85 % under a tail, once for the others. Spreads are evenly distributed in their logarithm.
fn kept(noise: Noise, seed: u64) -> [Kept; 2] {
    let (effect, mut random) = (1.10, ChaCha8Rng::seed_from_u64(seed));
    let mut widths = Widths::default();
    let mut classes = [Kept::default(); 2];
    for session in 0..400 {
        let sd = (uniform(&mut random) * 10f64.ln()).exp() / 50.0;
        let (pilot, outlook) = pilot(&mut random, noise, sd);
        let layout = Layout { pairs: 8 + session % 20, more_control_pairs: session % 4, blocks: 1 };
        let promised = outlook.power(layout, effect, &mut widths);
        let found = verdict(&mut random, noise, &pilot, layout, effect, sd) == Verdict::Worse;
        if promised >= 0.8 {
            let with_tail = outlook.power_with_tail(layout, effect, &mut widths);
            let class = &mut classes[usize::from(with_tail >= 0.85)];
            class.promised += promised;
            class.with_tail += with_tail;
            class.found += f64::from(u8::from(found));
            class.sessions += 1.0;
        }
    }
    classes.map(|Kept { promised, with_tail, found, sessions }| Kept {
        promised: promised / sessions,
        with_tail: with_tail / sessions,
        found: found / sessions,
        sessions,
    })
}

#[derive(Debug, Default, Clone, Copy)]
struct Kept {
    promised: f64,
    with_tail: f64,
    found: f64,
    sessions: f64,
}

impl Kept {
    /// Four standard errors, and the two per cent of the simulations.
    fn error(&self) -> f64 {
        4.0 * (self.with_tail * (1.0 - self.with_tail) / self.sessions).sqrt() + 0.02
    }
}

/// A pilot of six pairs contains a one-in-ten event in less than half of all cases, and an event that it did not contain makes its
/// prediction too high. The prediction with a tail stays right then; where there is no tail, it is too low.
#[test]
fn under_a_tail_the_promise_with_a_tail_is_the_one_that_is_kept() {
    let of_heavy = kept(heavy, 15);
    for of in of_heavy {
        tell(&format!("one pair in ten scatters: {of:.3?}"));
        assert!(of.sessions > 60.0 && (of.found - of.with_tail).abs() < of.error(), "{of:?}");
    }
    let [doubtful, _] = of_heavy;
    assert!(doubtful.promised > doubtful.found + 0.1, "{doubtful:?}");
    for of in kept(normal, 16) {
        tell(&format!("none does: {of:.3?}"));
        assert!(of.found > of.with_tail - of.error(), "{of:?}");
    }
}

/// The effect that the planner calls the smallest detectable one is found in four of five sessions.
#[test]
fn the_smallest_detectable_effect_is_found_in_four_of_five_sessions() {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let mut widths = Widths::default();
    for sd in [0.03, 0.124, 0.5] {
        let sessions = 800;
        let found = (0..sessions)
            .filter(|session| {
                let (pilot, outlook) = pilot(&mut random, normal, sd);
                let layout = Layout { pairs: 8 + session % 12, more_control_pairs: 2, blocks: 1 };
                let effect = outlook.smallest_effect(layout, &mut widths).unwrap_or(1e3);
                verdict(&mut random, normal, &pilot, layout, effect, sd) == Verdict::Worse
            })
            .count();
        // The prediction is 80 %; four standard errors are 5.7 %.
        assert!((found as f64 / f64::from(sessions) - 0.8).abs() < 0.06, "sd {sd}: {found} of {sessions}");
    }
}

/// Pairs as many as the planner asks for, on a known spread, with A/A pairs in proportion: the textbook's answer is a lower
/// bound, because it knows the spread and has no control.
#[test]
fn pairs_needed_lie_above_the_textbooks_and_suffice() {
    let mut random = ChaCha8Rng::seed_from_u64(6);
    let mut widths = Widths::default();
    let (sessions, mut found, mut pairs) = (400, 0, 0);
    for _ in 0..sessions {
        let (pilot, outlook) = pilot(&mut random, normal, 0.1);
        let least = Layout { pairs: 5, more_control_pairs: 2, blocks: 1 };
        let Some(needed) = outlook.pairs_needed(least, 1.10, &mut widths) else { continue };
        pairs += needed;
        let layout = least.with_pairs(needed);
        found += u32::from(verdict(&mut random, normal, &pilot, layout, 1.10, 0.1) == Verdict::Worse);
    }
    // Textbook: 11 pairs for 10 % at this spread.
    assert!(pairs / sessions > 11 && found * 10 >= sessions * 7, "{found} of {sessions}, {pairs} pairs");
}

/// Two thousand budgeted A/A sessions, in which the number of pairs hangs on what the pilot showed: at most one in twenty
/// says better or worse.
#[test]
fn a_budgeted_a_a_session_stays_silent_in_19_of_20() {
    let mut widths = Widths::default();
    for (noise, seed) in [(normal as Noise, 7), (heavy as Noise, 8)] {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let sessions = 1_000;
        let spoken = (0..sessions)
            .filter(|_| {
                let (pilot, outlook) = pilot(&mut random, noise, 0.05);
                let least = Layout { pairs: 5, more_control_pairs: 1, blocks: 1 };
                let needed = outlook.pairs_needed(least, 1.10, &mut widths).unwrap_or(30);
                let layout = Layout { pairs: needed.min(30), ..least };
                let verdict = verdict(&mut random, noise, &pilot, layout, 1.0, 0.05);
                matches!(verdict, Verdict::Better | Verdict::Worse)
            })
            .count();
        assert!(spoken <= 50, "{spoken} of {sessions} A/A sessions spoke up");
    }
}

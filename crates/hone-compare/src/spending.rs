//! Looks at a running comparison. Whoever looks several times and stops at the first significant result is wrong more often than one look
//! is. So the looks share the error: each may spend a part of it (Lan and DeMets 1983), early ones very little (O'Brien and Fleming 1979).

use hone_record::{Design, Look};

use crate::estimate::FEWEST_PAIRS;
use crate::plan::LookPlan;

/// Points of the grid on which the distribution of a look is kept. With 400 intervals, bounds agree with published ones to four digits.
const POINTS: usize = 401;
/// Farthest bound, in standard errors. A look that may not spend even that much of the error is no look.
const FARTHEST: f64 = 8.0;
/// Early looks, as shares of the planned A/B pairs. This is a choice: before the first one, hardly any error may be spent.
const EARLY: [f64; 3] = [0.4, 0.6, 0.8];
/// A continued run has at most this many times the planned A/B pairs. This is a choice: it halves the interval.
pub(crate) const MOST_TIMES: u32 = 4;
/// The part of the error for the planned pairs of a run that may be continued. This is a choice: most runs are not continued.
const OF_PLAN: f64 = 0.8;

/// The looks of this many planned A/B pairs; none if the only one is at the planned end.
pub(crate) fn looks(planned: u32, plan: LookPlan, alpha: f64) -> Vec<Look> {
    let (step, least, times) = match plan {
        LookPlan::AtEnd => return Vec::new(),
        LookPlan::Early { step, least } => (step.max(1), least, 1),
        LookPlan::Continued => (1, FEWEST_PAIRS, MOST_TIMES),
    };
    let after = |share: f64| (f64::from(planned) * share / f64::from(step)).ceil() as u32 * step;
    let early = EARLY.map(after).into_iter().filter(|pairs| *pairs >= least && *pairs < planned);
    let mut pairs: Vec<u32> = early.chain((1..=times).map(|times| planned.saturating_mul(times))).collect();
    pairs.dedup();
    if pairs.len() < 2 {
        return Vec::new();
    }
    let spending: Vec<(f64, f64)> = pairs
        .iter()
        .map(|pairs| (f64::from(*pairs), spendable(f64::from(*pairs) / f64::from(planned), times, alpha)))
        .collect();
    let looks = pairs.into_iter().zip(&spending).zip(levels(&spending));
    looks.map(|((pairs, (_, spent)), level)| Look { pairs, level, spent: *spent }).collect()
}

/// Error that may be spent up to this many times the planned pairs, of `alpha` in all. A run that may be continued spends 80 % of it on its
/// plan, and the rest evenly over the pairs behind. The function grows and is fixed before the first window, so any looks may use it (Lan and
/// DeMets 1983).
fn spendable(times: f64, most_times: u32, alpha: f64) -> f64 {
    if most_times == 1 {
        return spent(times, alpha);
    }
    if times <= 1.0 {
        return spent(times, OF_PLAN * alpha);
    }
    let behind = (times - 1.0) / f64::from(most_times - 1);
    alpha * (OF_PLAN + (1.0 - OF_PLAN) * behind.min(1.0))
}

/// The level at which results count after so many measured A/B pairs, for a metric with the error `alpha` in all.
///
/// At a planned look it is the level of that look. A run that ends elsewhere, by its clock or by the user, has a look there: no result ended
/// it. Before the planned end this look spends all that the plan may spend. Pairs that come on top of the plan, for excluded ones or for an
/// effect, move the planned end: the A/B results do not decide about them.
pub(crate) fn level_at(design: &Design, measured: u32, alpha: f64) -> f64 {
    let looks = &design.looks;
    if looks.is_empty() {
        return alpha;
    }
    let taken = taken(design, measured);
    let is_as_planned = taken.iter().zip(looks).all(|(taken, look)| *taken == look.pairs);
    let planned = looks.get(taken.len() - 1).filter(|_| is_as_planned && alpha == design.rule.alpha);
    if let Some(look) = planned {
        return look.level;
    }
    let share = alpha / design.rule.alpha;
    let spending: Vec<(f64, f64)> =
        taken.into_iter().map(|pairs| (f64::from(pairs), share * spent_by(design, pairs))).collect();
    levels(&spending).last().copied().unwrap_or(alpha)
}

/// The looks up to this many measured A/B pairs, the last one there. At the planned end there is only a look if a budget ended there.
fn taken(design: &Design, measured: u32) -> Vec<u32> {
    let ends = design.continuation.iter().flat_map(|continuation| continuation.ends.iter().copied());
    let passed = design.looks.iter().map(|look| look.pairs).filter(|pairs| *pairs != design.pairs);
    let mut taken: Vec<u32> =
        passed.chain(ends).filter(|pairs| *pairs < measured).chain([measured]).collect();
    taken.sort_unstable();
    taken.dedup();
    taken
}

/// Error of the primary metric that a look may have spent after so many A/B pairs.
fn spent_by(design: &Design, pairs: u32) -> f64 {
    let (alpha, planned) = (design.rule.alpha, design.pairs);
    let of = |look: &Look| {
        let is_older = look.spent == 0.0;
        if is_older { spent(f64::from(look.pairs) / f64::from(planned), alpha) } else { look.spent }
    };
    let at = |pairs: u32| design.looks.iter().find(|look| look.pairs == pairs);
    if let Some(look) = at(pairs).or_else(|| at(planned).filter(|_| pairs < planned)) {
        return of(look);
    }
    let (before, behind): (Vec<&Look>, Vec<&Look>) = design.looks.iter().partition(|look| look.pairs < pairs);
    match (before.last(), behind.first()) {
        (Some(before), Some(behind)) => {
            let part = f64::from(pairs - before.pairs) / f64::from(behind.pairs - before.pairs);
            of(before) + part * (of(behind) - of(before))
        }
        (Some(last), None) => of(last),
        (None, _) => alpha,
    }
}

/// Two-sided error that may be spent up to a fraction of the planned information (0 to 1), of `alpha` in all: the function of Lan and DeMets
/// that resembles O'Brien and Fleming's bounds, with half of the error for each side.
fn spent(fraction: f64, alpha: f64) -> f64 {
    if fraction <= 0.0 {
        return 0.0;
    }
    if fraction >= 1.0 { alpha } else { (2.0 * both_tails(z_of(alpha / 2.0) / fraction.sqrt())).min(alpha) }
}

/// The two-sided level of each look at which a result counts: of its own confidence interval. Each look has its information, in any unit, and
/// the error that it and those before it may spend. A look that may spend nothing has level 0. The recursion is that of Armitage, McPherson
/// and Rowe (1969).
fn levels(looks: &[(f64, f64)]) -> Vec<f64> {
    let mut found = Vec::new();
    let (mut before, mut reached, mut known) = (0.0, 0.0, Density::at_zero());
    // The last look that spent: its step, and how far the sum may be from 0 there. Behind the last of all, no distribution is needed.
    let mut passed: Option<(f64, f64)> = None;
    for &(information, spent) in looks {
        let (step, goal) = (information - reached, spent - before);
        if step <= 0.0 || goal <= 0.0 {
            found.push(0.0);
            continue;
        }
        if let Some((step, reach)) = passed {
            known = known.after(step, reach);
        }
        let bound = bound(&known, information, step, goal);
        (before, reached) = (spent, information);
        passed = Some((step, bound * information.sqrt()));
        found.push(both_tails(bound));
    }
    found
}

/// The bound, in standard errors, that a result without an effect passes with this probability at this look, and at no look before.
fn bound(known: &Density, information: f64, step: f64, goal: f64) -> f64 {
    let (mut low, mut high) = (0.0, FARTHEST);
    while high - low > 1e-9 {
        let middle = f64::midpoint(low, high);
        if known.beyond(middle * information.sqrt(), step) > goal { low = middle } else { high = middle }
    }
    high
}

/// The distribution of the sum of all values so far, where no look has stopped it. A mass with equal distances, or one point. It is the same on
/// both sides of 0.
struct Density {
    /// Half of the width.
    reach: f64,
    /// Probability of each point, with its weight by Simpson's rule.
    mass: Vec<f64>,
}

impl Density {
    fn at_zero() -> Self {
        Self { reach: 0.0, mass: vec![1.0] }
    }

    fn points(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let width = 2.0 * self.reach / (self.mass.len().max(2) - 1) as f64;
        self.mass.iter().enumerate().map(move |(index, mass)| (index as f64 * width - self.reach, *mass))
    }

    /// The probability that one more step leads beyond this distance from 0.
    fn beyond(&self, distance: f64, step: f64) -> f64 {
        let sd = step.sqrt();
        2.0 * self.points().map(|(at, mass)| mass * upper_tail((distance - at) / sd)).sum::<f64>()
    }

    /// The distribution after one more step, within this distance from 0.
    fn after(&self, step: f64, reach: f64) -> Self {
        let (sd, width) = (step.sqrt(), 2.0 * reach / (POINTS - 1) as f64);
        let one = |index: usize| {
            let to = index as f64 * width - reach;
            let density: f64 =
                self.points().map(|(at, mass)| mass * (-0.5 * ((to - at) / sd).powi(2)).exp()).sum();
            let weight = match index {
                0 => 1.0,
                index if index % 2 == 1 => 4.0,
                _ => 2.0,
            };
            density / (sd * (2.0 * std::f64::consts::PI).sqrt()) * weight * width / 3.0
        };
        let mut mass: Vec<f64> = (0..=POINTS / 2).map(one).collect();
        mass.extend_from_within(..POINTS / 2);
        mass[POINTS / 2 + 1..].reverse();
        Self { reach, mass }
    }
}

/// Probability that a normal variable is above `z`.
fn upper_tail(z: f64) -> f64 {
    0.5 * libm::erfc(z / std::f64::consts::SQRT_2)
}

fn both_tails(z: f64) -> f64 {
    2.0 * upper_tail(z)
}

/// The `z` whose two tails have this probability.
fn z_of(tails: f64) -> f64 {
    let (mut low, mut high) = (0.0, 40.0);
    while high - low > 1e-12 {
        let middle = f64::midpoint(low, high);
        if both_tails(middle) > tails { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use hone_record::{Continuation, Metric, Mode};
    use rand_chacha::ChaCha8Rng;
    use rand_core::SeedableRng;

    use super::*;
    use crate::design::plan;
    use crate::plan::Plan;
    use crate::random::normal;

    /// Levels of looks after these fractions of the plan, of which the last one spends all that is left.
    fn levels_at(fractions: &[f64], alpha: f64) -> Vec<f64> {
        let last = fractions.last().copied().unwrap();
        let spending = |at: &f64| (*at, if *at == last { alpha } else { spent(*at, alpha) });
        levels(&fractions.iter().map(spending).collect::<Vec<_>>())
    }

    fn check(fractions: &[f64], alpha: f64, bounds: &[f64]) {
        let found: Vec<f64> = levels_at(fractions, alpha).into_iter().map(z_of).collect();
        assert_eq!(found.len(), bounds.len());
        for (found, expected) in found.iter().zip(bounds) {
            assert!((found - expected).abs() < 6e-4, "{fractions:?}: {found} instead of {expected}");
        }
    }

    /// As the package ldbounds for R has them, which follows the program of Reboussin, DeMets, Kim and Lan (2000).
    #[test]
    fn bounds_agree_with_published_ones() {
        check(&[1.0], 0.05, &[1.9600]);
        check(&[0.5, 1.0], 0.05, &[2.9626, 1.9686]);
        check(&[0.2, 0.4, 0.6, 0.8, 1.0], 0.05, &[4.8769, 3.3569, 2.6803, 2.2898, 2.0310]);
    }

    #[test]
    fn a_look_without_information_spends_nothing() {
        assert_eq!(levels_at(&[0.0, 0.5, 0.5, 1.0], 0.05)[0], 0.0);
        assert_eq!(levels_at(&[0.5, 0.5, 1.0], 0.05)[1], 0.0);
        assert!(spent(1.0, 0.05) <= 0.05 && spent(1.0, 0.05) > 0.0499);
        assert!(levels_at(&[0.01, 1.0], 0.05)[0] < 1e-14);
    }

    fn design(pairs: u32, looks: LookPlan) -> Design {
        plan(&Plan { looks, ..Plan::new(Mode::Duet, Metric::CpuPerRecord, [pairs, 0]) }).unwrap()
    }

    fn continued(pairs: u32, ends: &[u32]) -> Design {
        let design = design(pairs, LookPlan::Continued);
        let continuation = Continuation { ends: ends.to_vec(), ..design.continuation.clone().unwrap() };
        Design { continuation: Some(continuation), ..design }
    }

    #[test]
    fn a_run_that_ends_between_two_looks_spends_what_is_left() {
        let design = design(30, LookPlan::Early { step: 1, least: 5 });
        let looks = &design.looks;
        let at = |measured| level_at(&design, measured, 0.05);
        assert_eq!(looks.iter().map(|look| look.pairs).collect::<Vec<_>>(), [12, 18, 24, 30]);
        for look in looks {
            assert!((at(look.pairs) - look.level).abs() < 1e-12, "{look:?}");
        }
        assert!(looks.windows(2).all(|two| two[0].level < two[1].level), "{looks:?}");
        assert!((at(9) - 0.05).abs() < 1e-6, "the only look");
        assert!(at(20) > looks[2].level && at(20) < 0.05, "{}", at(20));
        // Pairs on top of the plan are less like those of the looks before.
        assert!(at(36) < looks[3].level && at(36) > at(90) && at(90) > 0.025, "{} and {}", at(36), at(90));
        // Another metric has its own error.
        let other = level_at(&design, 18, 0.01);
        assert!(other < looks[1].level && other > 0.0, "{other}");
        let mut older = design.clone();
        older.looks.iter_mut().for_each(|look| look.spent = 0.0);
        assert!((level_at(&older, 20, 0.05) - at(20)).abs() < 1e-9, "an older design");
        let without = self::design(30, LookPlan::AtEnd);
        assert_eq!(level_at(&without, 7, 0.05), 0.05);
    }

    #[test]
    fn few_pairs_have_one_look_and_blocks_stay_whole() {
        let pairs =
            |planned, plan| looks(planned, plan, 0.05).iter().map(|look| look.pairs).collect::<Vec<_>>();
        assert_eq!(pairs(5, LookPlan::Early { step: 1, least: 5 }), [0_u32; 0]);
        assert_eq!(pairs(14, LookPlan::Early { step: 1, least: 5 }), [6, 9, 12, 14]);
        assert_eq!(pairs(31, LookPlan::Early { step: 3, least: 15 }), [15, 21, 27, 31]);
        assert_eq!(pairs(30, LookPlan::Continued), [12, 18, 24, 30, 60, 90, 120]);
        assert_eq!(pairs(5, LookPlan::Continued), [5, 10, 15, 20]);
    }

    #[test]
    fn a_budget_spends_four_fifths_and_its_continuation_the_rest() {
        let first = continued(30, &[]);
        let spent: Vec<f64> = first.looks.iter().map(|look| look.spent).collect();
        assert!((spent[3] - 0.04).abs() < 1e-9 && (spent[6] - 0.05).abs() < 1e-12, "{spent:?}");
        assert!(spent.windows(2).all(|two| two[0] < two[1]), "{spent:?}");
        // The plan alone is a plan with an error of 4 %.
        let alone = looks(30, LookPlan::Early { step: 1, least: 5 }, 0.04);
        for (of_budget, alone) in first.looks.iter().zip(alone) {
            assert!((of_budget.level - alone.level).abs() < 1e-9, "{of_budget:?} and {alone:?}");
        }
        // After a budget that ended as planned, the looks are as planned.
        let then = continued(30, &[30]);
        assert_eq!(level_at(&then, 60, 0.05), first.looks[4].level);
        // A budget that its clock cut has spent the plan's error, and the rest of the plan adds none.
        let cut = continued(30, &[20]);
        assert!(level_at(&first, 20, 0.05) > first.looks[2].level);
        assert_eq!([24, 30].map(|pairs| level_at(&cut, pairs, 0.05)), [0.0, 0.0]);
        assert!(level_at(&cut, 60, 0.05) > 0.0);
        // Replacements of excluded pairs move the end of the plan, and spend what it spends.
        let with_reserve = level_at(&first, 33, 0.05);
        assert!((with_reserve - first.looks[3].level).abs() < 0.003, "{with_reserve}");
    }

    /// Sums of normal increments without an effect, judged at each look. Somebody who wants a verdict continues each run without one, at stops
    /// that no result decides.
    #[test]
    fn looks_and_continuations_are_wrong_in_one_of_twenty_runs() {
        let mut random = ChaCha8Rng::seed_from_u64(42);
        for stops in [&[30, 60, 90, 120][..], &[20, 75, 120], &[33, 47, 90], &[30, 120]] {
            let (first, last) = (stops[0], stops[stops.len() - 1]);
            let early = [12, 18, 24].into_iter().filter(|look| *look < first);
            let later = [60, 90, 120].into_iter().filter(|look| *look <= last);
            let mut at: Vec<u32> = early.chain(later).chain(stops.iter().copied()).collect();
            at.sort_unstable();
            at.dedup();
            let bound = |pairs: &u32| {
                let before: Vec<u32> = stops.iter().copied().filter(|stop| stop < pairs).collect();
                z_of(level_at(&continued(30, &before), *pairs, 0.05))
            };
            let bounds: Vec<f64> = at.iter().map(bound).collect();
            let is_wrong = |random: &mut ChaCha8Rng| {
                let (mut sum, mut reached) = (0.0, 0);
                at.iter().zip(&bounds).any(|(pairs, bound)| {
                    sum += f64::from(pairs - reached).sqrt() * normal(random);
                    reached = *pairs;
                    f64::abs(sum) > bound * f64::from(reached).sqrt()
                })
            };
            let runs = 200_000;
            let wrong = (0..runs).filter(|_| is_wrong(&mut random)).count() as f64 / f64::from(runs);
            // Three standard errors.
            assert!(wrong <= 0.05 + 0.0015, "{stops:?}: {wrong}");
            assert!(wrong >= 0.045, "{stops:?}: {wrong}, which leaves error unused");
        }
    }
}

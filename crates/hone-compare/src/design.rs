//! Which pairs to measure, in which order: decided, and written down, before the first window.

use hone_record::{Design, Metric, Mode, PairKind, Rule};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use crate::estimate::FEWEST_PAIRS;

/// What the user asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Duet or solo.
    pub mode: Mode,
    /// Whether the arms of a duet have places of their own and change them.
    pub places: bool,
    /// A/B pairs.
    pub pairs: u32,
    /// A/A pairs; zero goes without a control.
    pub control_pairs: u32,
    /// The metric the verdict hangs on.
    pub primary: Metric,
    /// Metrics that must not get worse.
    pub guards: Vec<Metric>,
    /// Two-sided error of the primary interval.
    pub alpha: f64,
    /// Margin inside which two variants count as equal (0.02 = 2 %).
    pub equivalence: f64,
    /// Seed of order and bootstrap.
    pub seed: u64,
}

/// Why a plan can't be carried out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DesignError {
    /// Too few pairs for an interval.
    #[error("{pairs} {kind} pairs are too few for an interval: ask for at least {FEWEST_PAIRS}{or_none}")]
    TooFewPairs {
        /// `A/B` or `A/A`.
        kind: &'static str,
        /// What was asked for.
        pairs: u32,
        /// A hint when none at all is allowed.
        or_none: &'static str,
    },
    /// A share outside its range.
    #[error("{name} must lie between 0 and {limit}, got {value}")]
    OutOfRange {
        /// Name of the setting.
        name: &'static str,
        /// What was asked for.
        value: f64,
        /// Largest sensible value.
        limit: f64,
    },
}

/// More pairs than anybody waits for.
const MOST_PAIRS: u32 = 10_000;
/// Resamples of the bootstrap: the 97.5 % point of |t| then rests on 250 resamples.
const RESAMPLES: u32 = 10_000;

/// Lays out the pairs: control pairs are spread evenly among the test pairs (a control at the end only would watch
/// another hour than the test), and the arm that goes first is balanced within blocks of two and random inside them.
///
/// # Errors
/// When there are too few pairs, or a share is out of its range.
pub fn plan(plan: &Plan) -> Result<Design, DesignError> {
    check(plan)?;
    let mut random = ChaCha8Rng::seed_from_u64(plan.seed);
    let order = spread(plan.pairs, plan.control_pairs);
    let swapped = balanced(&order, &mut random);
    let secondary = Metric::ALL.into_iter().filter(|&metric| metric != plan.primary).collect();
    let mut rule = Rule {
        primary: plan.primary,
        secondary,
        guards: plan.guards.iter().copied().filter(|&metric| metric != plan.primary).collect(),
        alpha: plan.alpha,
        equivalence: plan.equivalence,
        resamples: RESAMPLES,
        seed: plan.seed,
        words: String::new(),
    };
    rule.words = rule_words(&rule, plan.control_pairs > 0);
    Ok(Design {
        mode: plan.mode,
        places: plan.places,
        pairs: plan.pairs,
        control_pairs: plan.control_pairs,
        order,
        swapped,
        rule,
    })
}

fn check(plan: &Plan) -> Result<(), DesignError> {
    if plan.pairs < FEWEST_PAIRS {
        return Err(DesignError::TooFewPairs { kind: "A/B", pairs: plan.pairs, or_none: "" });
    }
    if plan.control_pairs != 0 && plan.control_pairs < FEWEST_PAIRS {
        let or_none = ", or 0 to go without a control";
        return Err(DesignError::TooFewPairs { kind: "A/A", pairs: plan.control_pairs, or_none });
    }
    for (name, value) in [("pairs", plan.pairs), ("control_pairs", plan.control_pairs)] {
        if value > MOST_PAIRS {
            return Err(DesignError::OutOfRange { name, value: value.into(), limit: MOST_PAIRS.into() });
        }
    }
    for (name, value, limit) in [("alpha", plan.alpha, 0.5), ("equivalence", plan.equivalence, 1.0)] {
        if !(value > 0.0 && value < limit) {
            return Err(DesignError::OutOfRange { name, value, limit });
        }
    }
    Ok(())
}

/// Control pairs at even distances among the test pairs.
fn spread(tests: u32, controls: u32) -> Vec<PairKind> {
    let total = u64::from(tests) + u64::from(controls);
    let controls_before = |index: u64| index * u64::from(controls) / total;
    (0..total)
        .map(|index| {
            if controls_before(index + 1) > controls_before(index) {
                PairKind::Control
            } else {
                PairKind::Test
            }
        })
        .collect()
}

/// For each kind on its own: blocks of two, one of each order, the first one random.
fn balanced(order: &[PairKind], random: &mut ChaCha8Rng) -> Vec<bool> {
    let mut pending: [Option<bool>; 2] = [None, None];
    order
        .iter()
        .map(|kind| {
            let slot = &mut pending[usize::from(*kind == PairKind::Test)];
            match slot.take() {
                Some(second) => second,
                None => {
                    let first = random.next_u32() & 1 == 1;
                    *slot = Some(!first);
                    first
                }
            }
        })
        .collect()
}

/// The rule as a sentence, the one that is shown and stored.
pub fn rule_words(rule: &Rule, controlled: bool) -> String {
    let percent = |share: f64| (share * 1e5).round() / 1e3;
    let margin = percent(rule.equivalence);
    let sure = percent(1.0 - rule.alpha);
    let tost = percent(1.0 - 2.0 * rule.alpha);
    let others = percent(1.0 - rule.alpha / rule.secondary.len().max(1) as f64);
    let mut words = format!(
        "Primary metric: {}. Equivalent when the {tost} % interval of the ratio B/A lies within {margin} % of 1; \
         otherwise better or worse when the {sure} % interval excludes 1",
        rule.primary.label()
    );
    words.push_str(&if controlled {
        format!(
            " and the effect is larger than what the A/A control showed; otherwise not shown. A control that itself \
             differs from 1 by more than {margin} % with {sure} % confidence, or can't be read, makes the metric not shown."
        )
    } else {
        "; otherwise not shown. No A/A control was asked for: a bias between the arms would not be seen.".to_owned()
    });
    if !rule.guards.is_empty() {
        let guards: Vec<&str> = rule.guards.iter().map(|guard| guard.label()).collect();
        words.push_str(&format!(
            " Guard rails: {}; one that is worse makes the whole worse, one that can't be estimated keeps it from being \
             better.",
            guards.join(", ")
        ));
    }
    words.push_str(&format!(
        " The other {} metrics get {others} % intervals (Bonferroni).",
        rule.secondary.len()
    ));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(pairs: u32, control_pairs: u32, seed: u64) -> Plan {
        Plan {
            mode: Mode::Duet,
            places: false,
            pairs,
            control_pairs,
            primary: Metric::CpuPerRecord,
            guards: vec![Metric::LatencyP99],
            alpha: 0.05,
            equivalence: 0.02,
            seed,
        }
    }

    #[test]
    fn every_pair_is_there_once_and_the_orders_are_balanced() {
        for seed in 0..50 {
            let design = plan(&asked(14, 6, seed)).unwrap();
            let tests = design.order.iter().filter(|kind| **kind == PairKind::Test).count();
            assert_eq!((tests, design.order.len()), (14, 20));
            for kind in [PairKind::Test, PairKind::Control] {
                let of_kind = design.order.iter().zip(&design.swapped).filter(|(k, _)| **k == kind);
                let swapped = of_kind.clone().filter(|(_, swapped)| **swapped).count();
                assert_eq!(swapped * 2, of_kind.count(), "seed {seed}");
            }
        }
    }

    #[test]
    fn the_order_is_random_and_the_seed_repeats_it() {
        let swapped = |seed| plan(&asked(14, 6, seed)).unwrap().swapped;
        assert_eq!(swapped(7), swapped(7));
        assert!((0..20).any(|seed| swapped(seed) != swapped(7)));
    }

    #[test]
    fn the_control_is_spread_over_the_session() {
        let order = plan(&asked(15, 5, 1)).unwrap().order;
        for quarter in order.chunks(4) {
            assert_eq!(quarter.iter().filter(|kind| **kind == PairKind::Control).count(), 1);
        }
    }

    #[test]
    fn plans_that_cannot_give_an_interval_are_refused() {
        assert!(plan(&asked(4, 6, 1)).unwrap_err().to_string().contains("4 A/B pairs are too few"));
        assert!(plan(&asked(9, 2, 1)).unwrap_err().to_string().contains("or 0 to go without"));
        assert!(plan(&asked(9, 0, 1)).is_ok());
        assert!(
            plan(&asked(4_000_000_000, 0, 1)).unwrap_err().to_string().contains("pairs must lie between")
        );
        assert!(plan(&Plan { alpha: 0.0, ..asked(9, 0, 1) }).is_err());
        assert!(plan(&Plan { equivalence: f64::NAN, ..asked(9, 0, 1) }).is_err());
    }
}

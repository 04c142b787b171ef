//! The requested comparison, before its layout.

use std::collections::BTreeMap;

use hone_record::{Disturbance, Metric, Mode};

use crate::estimate::FEWEST_PAIRS;

/// The user's request.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Concurrent (duet) or sequential (solo).
    pub mode: Mode,
    /// Whether the arms of a duet have their own CPUs, and swap them.
    pub places: bool,
    /// A/B pairs.
    pub pairs: u32,
    /// A/A pairs; zero skips the control.
    pub control_pairs: u32,
    /// The metric that decides the verdict.
    pub primary: Metric,
    /// Metrics that must not get worse.
    pub guards: Vec<Metric>,
    /// Whether [`crate::DEFAULT_GUARDS`] apply if `guards` is empty.
    pub default_guards: bool,
    /// Two-sided error of the primary metric's confidence interval.
    pub alpha: f64,
    /// Margin inside which two variants count as equal (0.02 = 2 %).
    pub equivalence: f64,
    /// Seed of order and bootstrap.
    pub seed: u64,
    /// Builds of A and of B; the pairs are spread over them.
    pub builds: [u32; 2],
    /// The first control pairs, which are a pilot: Hone measures them before anything else.
    pub pilot_pairs: u32,
    /// The requests that nearly every window will have; `None` sets no requirement on tail percentiles.
    pub requests_per_window: Option<u64>,
    /// Metrics that can't compare the arms, with the reason, besides those that the windows can't show.
    pub refused: BTreeMap<Metric, String>,
    /// The rule that excludes pairs because of neighbours.
    pub disturbance: Option<Disturbance>,
    /// Whether the arms are two targets that keep running between their windows, see [`hone_record::Design::both_controls`].
    pub both_controls: bool,
    /// The most excluded pairs of each kind that are measured again; `None` for half of the planned number. 0 keeps to the planned pairs,
    /// whatever effect they can detect.
    pub reserve: Option<u32>,
    /// The ratio above 1 that the pairs must be able to detect. Up to twice as many further pairs serve that. `None` keeps to the planned
    /// pairs. With several builds, no A/A pair shows the necessary number.
    pub effect: Option<f64>,
    /// Whether Hone reads the targets' own counters of busy time.
    pub busy: bool,
    /// Whether consumers read what the load sends.
    pub reads: bool,
    /// Whether the A/A pair of a round is a part of the reference, see [`hone_record::Design::pooled_baseline`].
    pub pooled_baseline: bool,
    /// When Hone looks at the result.
    pub looks: LookPlan,
}

/// When Hone looks at the result of a running comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookPlan {
    /// At the planned end.
    AtEnd,
    /// Also after 40, 60 and 80 % of the planned A/B pairs.
    Early {
        /// Looks are after multiples of this many A/B pairs.
        step: u32,
        /// The fewest A/B pairs before a look.
        least: u32,
    },
    /// Like `Early` after any pair. A run without a verdict may be continued to four times the planned A/B pairs, with a look after each
    /// multiple of the plan.
    Continued,
}

/// With fewer planned A/B pairs, a look saves hardly a pair: an interval needs five.
const FEWEST_WITH_LOOKS: u32 = 2 * FEWEST_PAIRS;

impl LookPlan {
    /// The looks of this many planned A/B pairs of these builds of A and of B. Several builds have only the one at the end: their interval
    /// rests on builds, so it hardly narrows with the pairs of a build, and a look would have to wait until all builds have as many.
    pub fn of_pairs(pairs: u32, builds: [u32; 2]) -> Self {
        if builds != [1, 1] || pairs < FEWEST_WITH_LOOKS {
            return Self::AtEnd;
        }
        Self::Early { step: 1, least: FEWEST_PAIRS }
    }
}

impl Plan {
    /// A/B and A/A pairs of one build on each side, measured exactly as planned. There are no guard metrics, no reserve and no effect to
    /// detect; the caller can set them.
    pub fn new(mode: Mode, primary: Metric, [pairs, control_pairs]: [u32; 2]) -> Self {
        Self {
            mode,
            places: false,
            pairs,
            control_pairs,
            primary,
            guards: Vec::new(),
            default_guards: false,
            alpha: 0.05,
            equivalence: 0.02,
            seed: 1,
            builds: [1, 1],
            pilot_pairs: 0,
            requests_per_window: None,
            refused: BTreeMap::new(),
            disturbance: None,
            both_controls: false,
            reserve: Some(0),
            effect: None,
            busy: false,
            reads: false,
            pooled_baseline: false,
            looks: LookPlan::AtEnd,
        }
    }
}

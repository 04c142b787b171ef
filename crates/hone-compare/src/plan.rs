//! What a comparison is asked for, before it is laid out.

use std::collections::BTreeMap;

use hone_record::{Disturbance, Metric, Mode};

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
    /// Whether [`crate::DEFAULT_GUARDS`] guard where `guards` is empty.
    pub default_guards: bool,
    /// Two-sided error of the primary interval.
    pub alpha: f64,
    /// Margin inside which two variants count as equal (0.02 = 2 %).
    pub equivalence: f64,
    /// Seed of order and bootstrap.
    pub seed: u64,
    /// Builds of A and of B; pairs are spread over them.
    pub builds: [u32; 2],
    /// The first of the control pairs that are a pilot: they are measured before anything else.
    pub pilot_pairs: u32,
    /// Requests that nearly every window will have; `None` asks nothing of the tails.
    pub requests_per_window: Option<u64>,
    /// Metrics by which the arms can't be compared, with the reason, beside those that the windows can't tell.
    pub refused: BTreeMap<Metric, String>,
    /// When neighbours make a pair not count.
    pub disturbance: Option<Disturbance>,
    /// Whether the arms are two targets that go on living between their windows, see [`hone_record::Design::both_controls`].
    pub both_controls: bool,
    /// Most excluded pairs of each kind that are measured again; `None` for half as many as are planned. 0 keeps to the planned pairs,
    /// whatever effect they can show.
    pub reserve: Option<u32>,
    /// The ratio above 1 that the pairs have to be able to show, for which up to twice as many more are measured; `None` keeps to the
    /// planned ones. Of several builds no A/A pair tells how many they would need.
    pub effect: Option<f64>,
    /// Whether the targets' own counters of busy time are read.
    pub busy: bool,
}

impl Plan {
    /// A/B and A/A pairs of one build on each side that Hone measures as planned. There are no guards, no reserve and no effect to show; whoever
    /// wants more sets it.
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
        }
    }
}

//! Decides which pair comes next: the planned pairs, replacements of excluded ones, and more pairs if the A/A pairs scatter too much.
//!
//! Only two things decide: the number of valid pairs, and the scatter of the A/A pairs. The A/B results have no influence outside of the
//! planned looks, so that no one measures on until the answer is convenient. `tests/effect.rs` compares the false verdicts of such sessions
//! with the rule's error, and `tests/looks.rs` those of sessions with looks.

use hone_record::{Design, Effect, PairKind, PairOutcome};

use crate::estimate::POWER;
use crate::judge::primary_control_differs;
use crate::power::{Layout, Outlook, Widths};

/// The index of a kind of pair in a list of both: the A/A pairs come first.
pub fn place_of(kind: PairKind) -> usize {
    usize::from(kind == PairKind::Test)
}

/// The pairs of a design in their order.
#[derive(Debug, Clone)]
pub struct Turns<'a> {
    design: &'a Design,
    /// Valid pairs required, by [`place_of`].
    wanted: [usize; 2],
    /// Valid pairs so far.
    counted: [usize; 2],
    /// A/B pairs so far, with excluded ones.
    tests: u32,
    /// Pairs of the reserve that are still available.
    spare: [usize; 2],
    asked: PilotAnswer,
    /// Whether Hone has checked that the A/A pairs do not differ themselves.
    asked_again: bool,
}

/// Whether Hone has computed the necessary pairs from the A/A pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PilotAnswer {
    NotYet,
    /// There are too few valid A/A pairs.
    InVain,
    Answered,
}

/// Hone measures more pairs than planned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct More {
    /// The ratio above 1 that the planned pairs would most probably detect; `None` if that is absurdly large.
    pub planned_ratio: Option<f64>,
    /// The ratio that they must detect.
    pub wanted_ratio: f64,
    /// Additional A/B and A/A pairs.
    pub pairs: [u32; 2],
}

impl<'a> Turns<'a> {
    /// The state before the first pair.
    pub fn new(design: &'a Design) -> Self {
        let of = |pairs: &[PairKind]| {
            let tests = pairs.iter().filter(|kind| **kind == PairKind::Test).count();
            [pairs.len() - tests, tests]
        };
        let (planned, behind) = design.order[..design.uncontinued()].split_at(design.planned());
        let [tests, controls] = design.effect.as_ref().map_or([0, 0], |effect| effect.more);
        let again = design.effect.as_ref().map_or(0, |effect| effect.again);
        let [behind_controls, behind_tests] = of(behind);
        Self {
            design,
            wanted: of(planned),
            counted: [0, 0],
            tests: 0,
            spare: [
                behind_controls.saturating_sub((controls + again) as usize),
                behind_tests.saturating_sub(tests as usize),
            ],
            asked: PilotAnswer::NotYet,
            asked_again: false,
        }
    }

    /// Whether a pair of the order comes next. A planned pair always does. A reserve pair does while there are too few valid pairs of its
    /// kind. A pair of the continuation does if the run is continued, until the last look.
    pub fn is_due(&self, index: usize) -> bool {
        if index >= self.design.uncontinued() {
            let most = self.design.looks.last().map_or(0, |look| look.pairs);
            let is_continued =
                self.design.continuation.as_ref().is_some_and(|continuation| !continuation.ends.is_empty());
            return is_continued && index < self.design.order.len() && self.tests < most;
        }
        let Some(place) = self.design.order.get(index).copied().map(place_of) else { return false };
        index < self.design.planned() || (self.counted[place] < self.wanted[place] && self.spare[place] > 0)
    }

    /// Records a measured pair.
    pub fn count(&mut self, pair: &PairOutcome) {
        let place = place_of(pair.kind);
        self.counted[place] += usize::from(pair.dropped.is_none());
        self.tests += u32::from(pair.kind == PairKind::Test);
        if pair.index as usize >= self.design.planned() {
            self.spare[place] = self.spare[place].saturating_sub(1);
        }
    }

    /// Valid pairs, the A/A pairs first; see [`place_of`].
    pub fn counted(&self) -> [usize; 2] {
        self.counted
    }

    /// Checks once, after the planned pairs and as soon as there are enough valid A/A pairs, whether more pairs are necessary, and adds
    /// them. `None` if it was checked before, if the planned ones are sufficient, or if the design keeps to them.
    pub fn more(&mut self, measured: &[PairOutcome]) -> Option<More> {
        let effect = self.design.effect.as_ref().filter(|_| self.asked != PilotAnswer::Answered)?;
        let Some(needed) = Needed::of(self.design, effect, measured) else {
            // There are too few valid pairs for a decision: all additional pairs may replace the excluded ones.
            if self.asked == PilotAnswer::NotYet {
                let [tests, controls] = effect.more;
                self.spare = [self.spare[0] + controls as usize, self.spare[1] + tests as usize];
                self.asked = PilotAnswer::InVain;
            }
            return None;
        };
        self.asked = PilotAnswer::Answered;
        let [tests, controls] = needed.more;
        for (place, more) in [controls, tests].into_iter().enumerate() {
            self.wanted[place] += more as usize;
            self.spare[place] += more as usize;
        }
        (needed.more != [0, 0]).then_some(More {
            planned_ratio: needed.planned_ratio,
            wanted_ratio: effect.ratio,
            pairs: needed.more,
        })
    }

    /// Checks once, after all other pairs, whether the A/A pairs themselves differ from 1 by the rule. If they do, Hone measures as many of
    /// them again. `None` if they do not.
    ///
    /// One control in twenty differs by chance, and then no verdict is possible. The same number of further pairs clears about two of three
    /// such controls (`tests/effect.rs`).
    pub fn again(&mut self, index: usize, measured: &[PairOutcome]) -> Option<u32> {
        let effect = self.design.effect.as_ref().filter(|effect| effect.again > 0 && !self.asked_again)?;
        let is_behind = index + effect.again as usize >= self.design.uncontinued();
        if !is_behind || (self.counted[0] < self.wanted[0] && self.spare[0] > 0) {
            return None;
        }
        self.asked_again = true;
        if !primary_control_differs(self.design, measured) {
            return None;
        }
        let more = self.counted[0].min(effect.again as usize);
        self.wanted[0] = self.counted[0] + more;
        self.spare[0] += more;
        Some(more as u32)
    }
}

/// The pairs that detect an effect.
struct Needed {
    more: [u32; 2],
    planned_ratio: Option<f64>,
}

impl Needed {
    /// `None` if there are too few valid A/A pairs. The A/B pairs play no role.
    fn of(design: &Design, effect: &Effect, measured: &[PairOutcome]) -> Option<Self> {
        let outlook = Outlook::of_plan(design, design.rule.primary, measured)?;
        let counts = |pair: &&PairOutcome| pair.kind == PairKind::Control && pair.dropped.is_none();
        let known = measured.iter().filter(counts).count() as u32;
        let [most_tests, most_controls] = effect.more;
        // In the planned proportion.
        let controls =
            |more: u32| (u64::from(most_controls) * u64::from(more)).div_ceil(u64::from(most_tests)) as u32;
        let layout = |more: u32| Layout {
            pairs: design.pairs + more,
            more_control_pairs: (design.control_pairs + controls(more)).saturating_sub(known),
            blocks: 1,
        };
        let mut widths = Widths::default();
        let candidates: Vec<u32> = (0..=most_tests).collect();
        let misses = |more: &u32| outlook.power(layout(*more), effect.ratio, &mut widths) < POWER;
        let needed = candidates.partition_point(misses).min(most_tests as usize) as u32;
        Some(Self {
            more: [needed, controls(needed)],
            planned_ratio: outlook.smallest_effect(layout(0), &mut widths),
        })
    }
}

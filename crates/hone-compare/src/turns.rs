//! Whose turn it is: the planned pairs, others in place of excluded ones, and more where the A/A pairs scatter too much.
//!
//! Two things decide, and nothing else: how many pairs count, and how much the A/A pairs scatter. What A/B pairs show has no say, so
//! that nobody measures on until he likes the answer. `tests/effect.rs` holds the false verdicts of such sessions against the rule's error.

use hone_record::{Design, Effect, PairKind, PairOutcome};

use crate::estimate::POWER;
use crate::judge::primary_control_differs;
use crate::power::{Layout, Outlook, Widths};

/// Where a kind of pair stands in a list of both: the A/A pairs first.
pub fn place_of(kind: PairKind) -> usize {
    usize::from(kind == PairKind::Test)
}

/// The pairs of a design as their turns come.
#[derive(Debug, Clone)]
pub struct Turns<'a> {
    design: &'a Design,
    /// Pairs that have to count, by [`place_of`].
    wanted: [usize; 2],
    /// Pairs that count so far.
    counted: [usize; 2],
    /// Pairs of the reserve that may still be measured.
    spare: [usize; 2],
    asked: PilotAnswer,
    /// Whether the A/A pairs were asked if they themselves differ.
    asked_again: bool,
}

/// Whether the A/A pairs have been asked how many pairs it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PilotAnswer {
    NotYet,
    /// Too few of them counted.
    InVain,
    Answered,
}

/// That more pairs are measured than planned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct More {
    /// The ratio above 1 that the planned pairs would most probably find; `None` where that is beyond all sense.
    pub planned_ratio: Option<f64>,
    /// The one that they have to find.
    pub wanted_ratio: f64,
    /// A/B and A/A pairs on top of the planned ones.
    pub pairs: [u32; 2],
}

impl<'a> Turns<'a> {
    /// Before the first pair.
    pub fn new(design: &'a Design) -> Self {
        let of = |pairs: &[PairKind]| {
            let tests = pairs.iter().filter(|kind| **kind == PairKind::Test).count();
            [pairs.len() - tests, tests]
        };
        let (planned, behind) = design.order.split_at(design.planned());
        let [tests, controls] = design.effect.as_ref().map_or([0, 0], |effect| effect.more);
        let again = design.effect.as_ref().map_or(0, |effect| effect.again);
        let [behind_controls, behind_tests] = of(behind);
        Self {
            design,
            wanted: of(planned),
            counted: [0, 0],
            spare: [
                behind_controls.saturating_sub((controls + again) as usize),
                behind_tests.saturating_sub(tests as usize),
            ],
            asked: PilotAnswer::NotYet,
            asked_again: false,
        }
    }

    /// Whether a pair of the order has its turn. A planned pair always has; one of the reserve has it while fewer of its kind count than
    /// have to.
    pub fn is_due(&self, index: usize) -> bool {
        let Some(place) = self.design.order.get(index).copied().map(place_of) else { return false };
        index < self.design.planned() || (self.counted[place] < self.wanted[place] && self.spare[place] > 0)
    }

    /// Enters a pair that was measured.
    pub fn count(&mut self, pair: &PairOutcome) {
        let place = place_of(pair.kind);
        self.counted[place] += usize::from(pair.dropped.is_none());
        if pair.index as usize >= self.design.planned() {
            self.spare[place] = self.spare[place].saturating_sub(1);
        }
    }

    /// Pairs that count, the A/A pairs first; see [`place_of`].
    pub fn counted(&self) -> [usize; 2] {
        self.counted
    }

    /// Asks once, behind the planned pairs and as soon as enough A/A pairs count, whether more are needed, and takes them into account.
    /// `None` where it was asked before, the planned ones will do, or the design keeps to them.
    pub fn more(&mut self, measured: &[PairOutcome]) -> Option<More> {
        let effect = self.design.effect.as_ref().filter(|_| self.asked != PilotAnswer::Answered)?;
        let Some(needed) = Needed::of(self.design, effect, measured) else {
            // Too few count to tell anything: all that may come on top may be measured in place of the excluded.
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

    /// Asks once, behind all other pairs, whether the A/A pairs themselves differ from 1 by the rule. If they do, as many of them are measured
    /// again. `None` if they do not.
    ///
    /// One control in twenty differs by chance, and no verdict is possible then. As many pairs again clear about two of three such controls
    /// (`tests/effect.rs`).
    pub fn again(&mut self, index: usize, measured: &[PairOutcome]) -> Option<u32> {
        let effect = self.design.effect.as_ref().filter(|effect| effect.again > 0 && !self.asked_again)?;
        let is_behind = index + effect.again as usize >= self.design.order.len();
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

/// What it takes to find an effect.
struct Needed {
    more: [u32; 2],
    planned_ratio: Option<f64>,
}

impl Needed {
    /// `None` where too few A/A pairs count. They alone are looked at.
    fn of(design: &Design, effect: &Effect, measured: &[PairOutcome]) -> Option<Self> {
        let outlook = Outlook::new(&design.rule, design.rule.primary, measured)?;
        let counts = |pair: &&PairOutcome| pair.kind == PairKind::Control && pair.dropped.is_none();
        let known = measured.iter().filter(counts).count() as u32;
        let [most_tests, most_controls] = effect.more;
        // In the proportion of those that are planned.
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

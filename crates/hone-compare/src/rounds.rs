//! Many variants in rounds: their order, and the design of each comparison within the rounds.
//!
//! In every round Hone loads each variant once, alone, for a short time. A pair is a parent and its child in the same round. A control pair
//! is the baseline and its byte copy in the same round. So one session serves all comparisons of a tree.

use std::collections::BTreeMap;

use hone_record::{Design, Metric, Mode, PairKind};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use crate::design::{
    DesignError, check_counts, default_reserve, laid_out, refused_of_what_lives_on, shuffled,
};
use crate::estimate::{FEWEST_BLOCKS, FEWEST_PAIRS};
use crate::plan::{LookPlan, Plan};

/// The index of the baseline among the variants.
pub const BASELINE: usize = 0;
/// The index of its byte copy, the control.
pub const TWIN: usize = 1;

/// The request for rounds.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundPlan {
    /// Number of variants, including the baseline and its twin.
    pub variants: usize,
    /// Planned rounds. Those of the reserve come after them, see [`Self::reserve`].
    pub rounds: u32,
    /// Rounds in reserve; `None` for half as many as are planned.
    pub asked_reserve: Option<u32>,
    /// Rounds between restarts of all processes; 0 if each window has its own process.
    pub block_rounds: u32,
    /// Builds of each variant, from the same source with different layouts. A block measures one of them, and the same one of all variants.
    pub builds: u32,
    /// Whether the load sets its own pace and does as many operations as the target can: then throughput is a valid metric.
    pub closed_loop: bool,
    /// The metric that decides the verdicts.
    pub primary: Metric,
    /// Metrics that must not get worse.
    pub guards: Vec<Metric>,
    /// Two-sided error of the primary metric's confidence interval.
    pub alpha: f64,
    /// Margin inside which two variants count as equal.
    pub equivalence: f64,
    /// Seed of orders and bootstrap.
    pub seed: u64,
    /// Metrics that the windows can't show, with the reason.
    pub refused: BTreeMap<Metric, String>,
    /// Whether Hone reads the targets' own counters of busy time.
    pub busy: bool,
    /// Whether disturbed pairs count.
    pub keep_disturbed: bool,
    /// Whether Hone looks at the result before the planned end, and ends the rounds when everything is decided.
    pub ends_early: bool,
}

impl RoundPlan {
    /// Rounds in reserve. Hone uses one while excluded pairs leave a comparison with fewer pairs of a kind than planned.
    pub fn reserve(&self) -> u32 {
        self.asked_reserve.unwrap_or_else(|| default_reserve(self.rounds))
    }

    /// Planned rounds, and those of the reserve.
    fn most_rounds(&self) -> u32 {
        self.rounds.saturating_add(self.reserve())
    }

    /// The order of the variants in each round. Every second round reverses the order of the one before it. So any two variants appear in
    /// both orders within two rounds, and all have the same mean place: an even drift favours no variant. Otherwise the orders are random.
    pub fn orders(&self) -> Vec<Vec<usize>> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let mut orders: Vec<Vec<usize>> = Vec::new();
        for round in 0..self.most_rounds() {
            let before = orders.last().filter(|_| round % 2 == 1);
            let order = match before {
                Some(before) => before.iter().rev().copied().collect(),
                None => {
                    shuffled(self.variants as u32, &mut random).into_iter().map(|one| one as usize).collect()
                }
            };
            orders.push(order);
        }
        orders
    }

    /// The block of a round: the start of the processes that it belongs to.
    pub fn block(&self, round: u32) -> u32 {
        round / self.block_rounds.max(1)
    }

    /// The build that each block measures. All builds come once, in random order, before any repeats, so that no build runs only in the
    /// morning and another only in the evening. Additional rounds do not change the first ones.
    pub fn builds_of_blocks(&self) -> Vec<u32> {
        /// The seed for the orders of builds, which must be independent of the orders of variants.
        const STREAM: u64 = 1;
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(STREAM);
        let blocks = self.most_rounds().checked_sub(1).map_or(0, |last| self.block(last) + 1);
        let mut builds = Vec::new();
        while builds.len() < blocks as usize {
            builds.extend(shuffled(self.builds.max(1), &mut random));
        }
        builds.truncate(blocks as usize);
        builds
    }

    /// The looks are at ends of blocks. Before the first one there are enough blocks for a bootstrap, and two of each build.
    fn looks(&self) -> LookPlan {
        let step = self.block_rounds.max(1);
        let blocks = FEWEST_PAIRS.max(self.builds.saturating_mul(2));
        let early = LookPlan::Early { step, least: step.saturating_mul(blocks) };
        if self.ends_early { early } else { LookPlan::AtEnd }
    }

    /// The number of process starts that pairs share; 0 if each pair has its own.
    fn starts(&self) -> u32 {
        if self.block_rounds > 1 { self.rounds.div_ceil(self.block_rounds) } else { 0 }
    }

    /// The design of one comparison: `edge` is a parent and its child. The order of the pairs is test, control, round by round.
    ///
    /// # Errors
    /// As for [`crate::plan()`]. Also fails with too few starts of the processes for a confidence interval over them.
    pub fn design(&self, edge: [usize; 2]) -> Result<Design, DesignError> {
        check_counts([("rounds", self.rounds), ("reserve", self.reserve())])?;
        let starts = self.starts();
        if starts != 0 && starts < FEWEST_BLOCKS {
            return Err(DesignError::TooFewStarts {
                rounds: self.rounds,
                block_rounds: self.block_rounds,
                starts,
            });
        }
        let builds = self.builds_of_blocks();
        let blocks = self.rounds.checked_sub(1).map_or(0, |last| self.block(last) + 1);
        if blocks < self.builds {
            return Err(DesignError::TooFewBlocks { builds: self.builds, blocks });
        }
        let pooled_baseline = edge[0] == BASELINE;
        let plan = Plan {
            guards: self.guards.clone(),
            default_guards: true,
            // Half of the error is the primary metric's, and the other metrics share the other half. Together they stay below it. A control
            // that is subtracted makes the rule stricter than that by itself.
            alpha: if pooled_baseline { self.alpha / 2.0 } else { self.alpha },
            equivalence: self.equivalence,
            seed: self.seed,
            builds: [self.builds.max(1); 2],
            refused: refused_of_what_lives_on().into_iter().chain(self.refused.clone()).collect(),
            disturbance: (!self.keep_disturbed).then(|| crate::disturb::disturbance(Mode::Solo)),
            reserve: Some(self.reserve()),
            busy: self.busy,
            pooled_baseline,
            looks: self.looks(),
            ..Plan::new(Mode::Solo, self.primary, [self.rounds; 2])
        };
        let design = laid_out(&plan, self.closed_loop)?;
        let orders = self.orders();
        let is_swapped = |order: &Vec<usize>, [first, second]: [usize; 2]| {
            let place = |wanted: usize| order.iter().position(|one| *one == wanted);
            place(second) < place(first)
        };
        let both = |order: &Vec<usize>| [is_swapped(order, edge), is_swapped(order, [BASELINE, TWIN])];
        // Pairs of a test share the luck of their builds, over any number of starts. Pairs of a control compare a build with its own copy,
        // so they share the luck of their start.
        let blocks = (0..self.most_rounds()).flat_map(|round| {
            let start = self.block(round);
            [if self.builds > 1 { builds[start as usize] } else { start }, start]
        });
        Ok(Design {
            order: orders.iter().flat_map(|_| [PairKind::Test, PairKind::Control]).collect(),
            swapped: orders.iter().flat_map(both).collect(),
            blocks: if starts > 0 || self.builds > 1 { blocks.collect() } else { Vec::new() },
            starts,
            ..design
        })
    }
}

/// Metrics that windows of counted operations can't show: Hone does not see single operations, and an operation is both a record and a
/// request.
pub fn refused_for_operations(primary: Metric) -> BTreeMap<Metric, String> {
    let latency = "the load's command counts operations and reports no latency for them".to_owned();
    let twice = if primary == Metric::CpuPerRequest { Metric::CpuPerRecord } else { Metric::CpuPerRequest };
    let same =
        "an operation is both a record and a request, so this would be the same figure again".to_owned();
    let latencies = Metric::ALL.into_iter().filter(|metric| metric.is_latency());
    latencies.map(|metric| (metric, latency.clone())).chain([(twice, same)]).collect()
}

/// The fewest rounds that give a confidence interval.
pub const FEWEST_ROUNDS: u32 = FEWEST_PAIRS;

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(rounds: u32, block_rounds: u32) -> RoundPlan {
        RoundPlan {
            busy: false,
            variants: 5,
            rounds,
            asked_reserve: None,
            block_rounds,
            builds: 1,
            closed_loop: true,
            primary: Metric::CpuPerRecord,
            guards: vec![Metric::Throughput],
            alpha: 0.05,
            equivalence: 0.02,
            seed: 7,
            refused: refused_for_operations(Metric::CpuPerRecord),
            keep_disturbed: false,
            ends_early: false,
        }
    }

    #[test]
    fn any_two_variants_stand_in_both_orders_equally_often() {
        let plan = asked(30, 3);
        let orders = plan.orders();
        assert_eq!(orders, plan.orders(), "the seed fixes them");
        assert_ne!(orders, RoundPlan { seed: 8, ..plan.clone() }.orders());
        for edge in [[0, 1], [0, 2], [2, 3], [3, 4]] {
            let design = plan.design(edge).unwrap();
            let swapped = |kind| {
                let planned = design.order.iter().zip(&design.swapped).take(design.planned());
                let of_kind = planned.filter(|(one, _)| **one == kind);
                of_kind.filter(|(_, swapped)| **swapped).count()
            };
            assert_eq!([swapped(PairKind::Test), swapped(PairKind::Control)], [15, 15], "{edge:?}");
        }
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4]);
        }
        let firsts: std::collections::BTreeSet<usize> = orders.iter().map(|order| order[0]).collect();
        assert_eq!(firsts.len(), 5, "each is the first at times: {orders:?}");
    }

    #[test]
    fn pairs_of_a_round_share_its_start() {
        let design = asked(7, 2).design([0, 2]).unwrap();
        assert_eq!((design.starts, design.pairs, design.control_pairs), (4, 7, 7));
        assert_eq!(design.blocks[..14], [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3]);
        // Four rounds in reserve, in the same blocks.
        assert_eq!((design.planned(), design.reserve), (14, 8));
        assert_eq!(design.blocks[14..], [3, 3, 4, 4, 4, 4, 5, 5]);
        assert_eq!(design.order[..3], [PairKind::Test, PairKind::Control, PairKind::Test]);
        for own in [0, 1] {
            let design = asked(7, own).design([0, 2]).unwrap();
            assert_eq!((design.starts, design.blocks.len()), (0, 0), "every pair has processes of its own");
        }
        let few = asked(31, 16).design([0, 2]).unwrap_err().to_string();
        assert!(few.contains("31 rounds in blocks of 16 make 2 starts"), "{few}");
    }

    #[test]
    fn pairs_of_a_build_share_its_luck_over_all_its_starts_and_controls_that_of_theirs() {
        let plan = RoundPlan { builds: 3, ..asked(12, 2) };
        let builds = plan.builds_of_blocks();
        assert_eq!(builds.len(), 9, "six blocks, and three in reserve");
        for turn in builds.chunks(3) {
            let mut turn = turn.to_vec();
            turn.sort_unstable();
            assert_eq!(turn, [0, 1, 2], "each comes once before any comes again: {builds:?}");
        }
        assert_eq!(RoundPlan { rounds: 30, ..plan.clone() }.builds_of_blocks()[..9], builds);
        let others = |seed| RoundPlan { seed, rounds: 30, ..plan.clone() }.builds_of_blocks();
        assert!((0..10).any(|seed| others(seed) != others(11)));
        let design = plan.design([0, 2]).unwrap();
        assert_eq!((design.builds, design.starts), ([3, 3], 6));
        for (index, kind) in design.order.iter().enumerate() {
            let start = plan.block(index as u32 / 2);
            let expected = if *kind == PairKind::Test { builds[start as usize] } else { start };
            assert_eq!(design.block(index), expected, "pair {index}");
        }
        // With a process for each window there are builds, and no starts.
        let own = RoundPlan { builds: 3, ..asked(7, 0) }.design([0, 2]).unwrap();
        assert_eq!((own.starts, own.blocks.len()), (0, 22));
        for (builds, rounds, told) in [
            (2, 12, "2 builds of A and 2 of B can't be compared"),
            (5, 8, "5 builds need 5 blocks of rounds, but there are 4"),
        ] {
            let refused = RoundPlan { builds, ..asked(rounds, 2) }.design([0, 2]).unwrap_err().to_string();
            assert!(refused.contains(told), "{refused}");
        }
    }

    #[test]
    fn throughput_tells_in_a_closed_loop_only() {
        let closed = asked(10, 1).design([0, 2]).unwrap();
        assert!(!closed.refused.contains_key(&Metric::Throughput));
        assert_eq!(closed.rule.guards, [Metric::Throughput]);
        assert_eq!(closed.rule.secondary, [Metric::UserCpuPerRecord, Metric::Throughput]);
        assert!(
            closed.rule.words.starts_with("Primary metric: CPU per operation. "),
            "{}",
            closed.rule.words
        );
        let open = RoundPlan { closed_loop: false, ..asked(10, 1) }.design([0, 2]).unwrap_err();
        assert!(matches!(open, DesignError::NotTold { metric: Metric::Throughput, .. }), "{open}");
    }
}

//! ext-TSP: how well transitions fit a layout. It covers taken branches, but not misses: on one exact trace, the layout with the best score
//! doubled the iTLB misses.
//!
//! The weights and distances are those of LLVM (`llvm/lib/Transforms/Utils/CodeLayout.cpp`; Newell and Pupyrev, arXiv 1809.04676).

use super::run::{Part, Run};

const FORWARD_BYTES: f64 = 1024.0;
const BACKWARD_BYTES: f64 = 640.0;
const NEAR: f64 = 0.1;
const FALL_THROUGH: f64 = 1.0;
/// Weight of a jump that is the only successor.
const FALL_THROUGH_ALONE: f64 = 1.05;

/// Score of one transition from a block that ends at `end` to a block that begins at `to`.
fn worth(end: u64, to: u64, is_alone: bool) -> f64 {
    if end == to {
        return if is_alone { FALL_THROUGH_ALONE } else { FALL_THROUGH };
    }
    let (distance, reach) =
        if to > end { ((to - end) as f64, FORWARD_BYTES) } else { ((end - to) as f64, BACKWARD_BYTES) };
    NEAR * (1.0 - distance / reach).max(0.0)
}

/// Mean score of a transition, 0 to 1.05; `None` without transitions. Transitions between objects score zero. An instruction that repeats
/// itself has no transition.
pub fn ext_tsp(run: &Run, part: &Part) -> Option<f64> {
    let mut ways = vec![0_u32; run.blocks.len()];
    let edges = || {
        let known = part.edges.iter().filter_map(|edge| Some((edge, run.ends(edge)?)));
        known.filter(|(_, (from, to))| !from.repeats_as(to))
    };
    edges().for_each(|(edge, _)| ways[edge.from as usize] += 1);
    let (mut score, mut all) = (0.0, 0.0);
    for (edge, (from, to)) in edges() {
        let count = edge.count as f64;
        all += count;
        if from.object == to.object {
            score += count * worth(from.end(), to.address, ways[edge.from as usize] == 1);
        }
    }
    (all > 0.0).then(|| score / all)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{block, run};
    use super::*;

    #[test]
    fn near_is_worth_a_tenth_and_the_next_byte_all() {
        assert_eq!((worth(64, 64, false), worth(64, 64, true)), (1.0, 1.05));
        assert_eq!(worth(0, 512, false), 0.05);
        assert_eq!(worth(640, 320, true), 0.05);
        assert_eq!((worth(0, 1024, false), worth(4096, 0, false)), (0.0, 0.0));
    }

    #[test]
    fn a_loop_with_a_cold_side_is_scored_by_its_counts() {
        // 0 falls into 1 nine times of ten and else jumps 512 bytes on; 1 goes back 384 bytes each time.
        let blocks = [(block(0, 320, 1), 10), (block(320, 64, 1), 9), (block(832, 4, 1), 1)];
        let run = run(&blocks, &[(0, 1, 9), (0, 2, 1), (1, 0, 9)]);
        let wanted = (9.0 * 1.0 + 1.0 * 0.05 + 9.0 * 0.1 * (1.0 - 384.0 / 640.0)) / 19.0;
        assert!((ext_tsp(&run, &run.parts[0]).unwrap() - wanted).abs() < 1e-12);
        assert_eq!(ext_tsp(&run, &Part::default()), None);
    }
}

//! Assigns requests to lanes by their place in the schedule, and not by free capacity. A stalled leader keeps its own requests waiting. If
//! other leaders took them, most of its stall would be hidden. The code is pure.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Step of a lane with weight one. It is large against all weights (at most some thousands), so that rounding a step changes no share.
const STEP: f64 = 1e10;

/// Lanes in turn, each as often as its weight requires (stride scheduling: Waldspurger and Weihl, 1995).
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// Next position of each lane on the common line, the lane, and its step.
    next: BinaryHeap<Reverse<(u64, usize, u64)>>,
}

impl Turn {
    /// A lane without weight has no turn.
    pub(crate) fn new(weights: impl IntoIterator<Item = f64>) -> Self {
        let with_weight = weights.into_iter().enumerate().filter(|(_, weight)| *weight > 0.0);
        let next = with_weight.map(|(lane, weight)| {
            let step = (STEP / weight) as u64;
            // Starts half a step ahead, so that heavy lanes are not all first.
            Reverse((step / 2, lane, step))
        });
        Self { next: next.collect() }
    }

    /// The next lane; `None` when no lane has a weight.
    pub(crate) fn next(&mut self) -> Option<usize> {
        let Reverse((at, lane, step)) = self.next.pop()?;
        match at.checked_add(step) {
            Some(next) => self.next.push(Reverse((next, lane, step))),
            None => self.begin_anew(lane, step),
        }
        Some(lane)
    }

    /// The line is at its end, after more than a thousand million requests of a lane: all begin again.
    fn begin_anew(&mut self, lane: usize, step: u64) {
        let steps = self.next.drain().map(|Reverse((_, lane, step))| (lane, step));
        self.next = steps.chain([(lane, step)]).map(|(lane, step)| Reverse((step, lane, step))).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(weights: &[f64], turns: usize) -> Vec<usize> {
        let mut turn = Turn::new(weights.iter().copied());
        let mut counts = vec![0; weights.len()];
        (0..turns).for_each(|_| counts[turn.next().unwrap()] += 1);
        counts
    }

    #[test]
    fn equal_lanes_take_turns() {
        let mut turn = Turn::new([1.0; 3]);
        let first: Vec<usize> = (0..7).map(|_| turn.next().unwrap()).collect();
        assert_eq!(first, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn weights_are_kept_at_every_moment() {
        let weights = [5.0, 1.0, 0.0, 2.5];
        for turns in [17, 170, 1_700, 17_000] {
            let found = counts(&weights, turns);
            for (lane, weight) in weights.iter().enumerate() {
                let expected = turns as f64 * weight / 8.5;
                assert!((found[lane] as f64 - expected).abs() <= 1.5, "{turns}: {found:?}");
            }
        }
    }

    #[test]
    fn without_weights_there_is_no_turn() {
        assert_eq!(Turn::new([0.0, 0.0]).next(), None);
        assert_eq!(Turn::default().next(), None);
    }

    #[test]
    fn the_end_of_the_line_is_no_end() {
        let mut turn = Turn { next: [Reverse((u64::MAX - 1, 0, 4)), Reverse((u64::MAX, 1, 4))].into() };
        let lanes: Vec<usize> = (0..6).map(|_| turn.next().unwrap()).collect();
        let of_first = lanes.iter().filter(|lane| **lane == 0).count();
        assert!((2..=4).contains(&of_first), "{lanes:?}");
    }
}

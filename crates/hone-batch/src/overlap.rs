//! The least number of producers without an id that wrote a partition.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::scan::Seen;

/// Limit of the open batches.
const MOST_OPEN: usize = 1_000;

/// Batches of a partition that are open together. A producer has one open at a time, so they come from different producers.
#[derive(Debug, Clone, Default)]
pub struct Overlap {
    open: BinaryHeap<Reverse<i64>>,
    most: usize,
}

impl Overlap {
    /// Adds a batch, in the order of offsets.
    pub fn add(&mut self, seen: &Seen) {
        if seen.span_ms().is_none() {
            self.most = self.most.max(1);
            return;
        }
        let (begin, end) = (seen.header.base_timestamp, seen.header.max_timestamp);
        // A batch that closed in the same millisecond can come from the same producer.
        while self.open.peek().is_some_and(|Reverse(earliest)| *earliest <= begin) {
            self.open.pop();
        }
        if self.open.len() < MOST_OPEN {
            self.open.push(Reverse(end));
        }
        self.most = self.most.max(self.open.len());
    }

    /// A lower bound of their number.
    pub fn at_least(&self) -> usize {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::tests::seen;

    #[test]
    fn batches_that_were_open_together_are_of_as_many_producers() {
        let of = |spans: &[(i64, i64)]| {
            let mut overlap = Overlap::default();
            spans.iter().for_each(|&(begin, end)| overlap.add(&seen(-1, 100, 2, begin, end)));
            overlap.at_least()
        };
        assert_eq!(of(&[(0, 5), (5, 9), (9, 14)]), 1, "one after the other");
        assert_eq!(of(&[(0, 5), (3, 8), (6, 11)]), 2);
        assert_eq!(of(&[(0, 10), (1, 10), (2, 10), (20, 30)]), 3);
        assert_eq!(of(&[(4, 4), (4, 4)]), 1, "single records say nothing");
        assert_eq!(of(&[]), 0);
    }
}

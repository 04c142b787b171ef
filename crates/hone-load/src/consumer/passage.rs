//! Finds the output of acknowledged records: a producer says where a record stands in the input, a processor where its input went, and either
//! may come first. The code is pure.

use std::collections::{BTreeMap, VecDeque};

use crate::join::Placed;

/// Largest number of processed ranges of a partition that wait for their acknowledgements. The oldest are dropped.
const PROCESSED_LIMIT: usize = 1 << 16;

/// Offsets of a partition that a committed transaction has moved to the output's partition of the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Processed {
    /// Number of the partition, in the input and in the output.
    pub partition: i32,
    /// The first offset in the input.
    pub from: i64,
    /// Offset in the input after the last one.
    pub to: i64,
    /// The first offset in the output.
    pub out: i64,
}

/// All partitions.
#[derive(Debug, Default)]
pub(crate) struct Passage {
    lanes: BTreeMap<i32, Lane>,
}

#[derive(Debug, Default)]
struct Lane {
    /// Acknowledged and not processed, by their last offset.
    waiting: BTreeMap<i64, Placed>,
    /// In order of offsets.
    processed: VecDeque<Processed>,
}

impl Lane {
    fn output(&self, placed: Placed) -> Option<Placed> {
        let at = self.processed.partition_point(|range| range.to <= placed.last());
        let range = self.processed.get(at).filter(|range| range.from <= placed.first)?;
        Some(Placed { first: range.out + (placed.first - range.from), ..placed })
    }
}

impl Passage {
    /// Adds an acknowledged range of the input. Returns its place in the output, if it is known already.
    pub(crate) fn placed(&mut self, placed: Placed) -> Option<Placed> {
        let lane = self.lanes.entry(placed.partition).or_default();
        let output = lane.output(placed);
        if output.is_none() {
            lane.waiting.insert(placed.last(), placed);
        }
        output
    }

    /// Adds a processed range. Returns the places of what waited for it.
    pub(crate) fn processed(&mut self, range: Processed) -> Vec<Placed> {
        let lane = self.lanes.entry(range.partition).or_default();
        lane.processed.push_back(range);
        if lane.processed.len() > PROCESSED_LIMIT {
            lane.processed.pop_front();
        }
        let stays = lane.waiting.split_off(&range.to);
        let waited = std::mem::replace(&mut lane.waiting, stays);
        waited.into_values().filter_map(|placed| lane.output(placed)).collect()
    }

    /// Acknowledged ranges that no committed transaction has processed.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Placed> {
        self.lanes.values().flat_map(|lane| lane.waiting.values())
    }

    /// Forgets what was processed before a window.
    pub(crate) fn begin(&mut self) {
        self.lanes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(first: i64, records: u32) -> Placed {
        Placed { partition: 3, first, records, intended_ns: 7 }
    }

    fn range(from: i64, to: i64, out: i64) -> Processed {
        Processed { partition: 3, from, to, out }
    }

    #[test]
    fn either_side_may_come_first() {
        let mut passage = Passage::default();
        assert_eq!(passage.placed(placed(10, 5)), None);
        assert_eq!(passage.placed(placed(15, 5)), None);
        assert_eq!(passage.processed(range(10, 15, 100)), [placed(100, 5)]);
        assert_eq!(passage.waiting().count(), 1);
        // A marker stands between the transactions of the output.
        assert_eq!(passage.processed(range(15, 30, 106)), [placed(106, 5)]);
        assert_eq!(passage.placed(placed(20, 10)), Some(placed(111, 10)));
        assert_eq!(passage.waiting().count(), 0);
    }

    #[test]
    fn partitions_do_not_mix() {
        let mut passage = Passage::default();
        passage.processed(range(0, 10, 50));
        assert_eq!(passage.placed(Placed { partition: 4, ..placed(0, 1) }), None);
        assert_eq!(passage.placed(placed(9, 1)), Some(placed(59, 1)));
        passage.begin();
        assert_eq!((passage.placed(placed(9, 1)), passage.waiting().count()), (None, 1));
    }
}

//! The producers by their ids; [`crate::overlap`] estimates the number of those without one.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::scan::Seen;

/// Limit of the distinct producers; a topic with more ids in a window has them combined.
pub const MOST_PRODUCERS: usize = 4_096;

/// The output of one producer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wrote {
    /// Batches.
    pub batches: u64,
    /// Bytes with headers.
    pub bytes: u64,
    /// Records.
    pub records: u64,
    /// Batches of one record.
    pub alone: u64,
}

/// Producers of a partition.
#[derive(Debug, Clone, Default)]
pub struct Producers {
    by_id: HashMap<i64, Wrote>,
    /// Producers beyond the limit.
    pub others: Wrote,
    /// Batches without an id.
    pub nameless: Wrote,
}

impl Wrote {
    /// Adds a batch.
    pub fn add(&mut self, seen: &Seen) {
        self.batches += 1;
        self.bytes += seen.bytes;
        self.records += seen.header.record_count.max(0) as u64;
        self.alone += u64::from(seen.header.record_count == 1);
    }
}

impl Producers {
    /// Adds a batch, in the order of offsets.
    pub fn add(&mut self, seen: &Seen) {
        let id = seen.header.producer_id;
        if id < 0 {
            self.nameless.add(seen);
            return;
        }
        let is_known = self.by_id.contains_key(&id);
        if is_known || self.by_id.len() < MOST_PRODUCERS {
            self.by_id.entry(id).or_default().add(seen);
        } else {
            self.others.add(seen);
        }
    }

    /// By bytes, the largest first.
    pub fn by_bytes(&self) -> Vec<(i64, Wrote)> {
        let mut all: Vec<(i64, Wrote)> = self.by_id.iter().map(|(id, wrote)| (*id, *wrote)).collect();
        all.sort_by_key(|(id, wrote)| (Reverse(wrote.bytes), *id));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::tests::seen;

    #[test]
    fn ids_are_told_apart_up_to_a_bound() {
        let mut producers = Producers::default();
        for id in 0..MOST_PRODUCERS as i64 + 10 {
            producers.add(&seen(id, 100, 1, 0, 0));
        }
        producers.add(&seen(3, 900, 5, 0, 4));
        assert_eq!(producers.by_bytes()[0], (3, Wrote { batches: 2, bytes: 1_000, records: 6, alone: 1 }));
        assert_eq!((producers.by_bytes().len(), producers.others.batches), (MOST_PRODUCERS, 10));
    }
}

//! Keeps headers for questions that sums can't answer: which batches of a producer follow each other, and which are open together.
//!
//! Their number is bounded. Beyond it, Hone drops whole slots of time, for all partitions alike, so that the headers are complete within
//! the remaining slots.

use std::collections::BTreeMap;

use hone_kafka::batch::TimestampType;

use crate::scan::Seen;

/// The most headers: 14 MB.
const MOST: usize = 256 * 1024;
/// Much longer than any linger in use.
const SLOT_MS: i64 = 4_096;

/// The last millisecond of the year 9999. Larger times have another unit.
const LAST_TIME_MS: i64 = 253_402_300_799_999;

/// The kept part of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Offset in its partition.
    pub offset: i64,
    /// First record's time, milliseconds since 1970.
    pub begin_ms: i64,
    /// Last record's time. `None` if the times are not the producer's milliseconds since 1970: the broker has overwritten them, there are
    /// none (-1), they are before the first one's, or they are so large that they must be microseconds.
    pub end_ms: Option<i64>,
    /// -1 means none.
    pub producer_id: i64,
    /// Partition.
    pub partition: i32,
    /// Bytes with the header.
    pub bytes: u32,
    /// Records.
    pub records: u32,
    /// Whether the records are compressed.
    pub is_packed: bool,
    /// Whether it belongs to a transaction.
    pub is_transactional: bool,
}

/// The kept headers.
#[derive(Debug, Clone)]
pub struct Evidence {
    kept: Vec<Kept>,
    most: usize,
    /// Slots with a hash up to this value are kept.
    highest: u64,
    is_full: bool,
}

impl Default for Evidence {
    fn default() -> Self {
        Self::within(MOST)
    }
}

impl Kept {
    /// Milliseconds from the first to the last record; `None` if the times do not show it.
    pub fn span_ms(&self) -> Option<u64> {
        u64::try_from(self.end_ms?.checked_sub(self.begin_ms)?).ok()
    }
}

impl Evidence {
    fn within(most: usize) -> Self {
        Self { kept: Vec::new(), most, highest: u64::MAX, is_full: false }
    }

    /// Adds a batch of data.
    pub fn add(&mut self, partition: i32, seen: &Seen) {
        let header = &seen.header;
        if hash(slot_of(header.base_timestamp)) > self.highest || self.is_full {
            return;
        }
        let is_the_producers = header.timestamp_type() == TimestampType::Create;
        let is_a_time = (0..=LAST_TIME_MS).contains(&header.base_timestamp);
        let tells = |end: &i64| is_the_producers && is_a_time && *end >= header.base_timestamp;
        let end_ms = Some(header.max_timestamp).filter(tells);
        self.kept.push(Kept {
            offset: header.base_offset,
            begin_ms: header.base_timestamp,
            end_ms,
            producer_id: header.producer_id,
            partition,
            bytes: u32::try_from(seen.bytes).unwrap_or(u32::MAX),
            records: header.record_count.max(0).unsigned_abs(),
            is_packed: header.codec() != hone_kafka::Codec::None,
            is_transactional: header.is_transactional(),
        });
        if self.kept.len() >= self.most {
            self.thin_out();
        }
    }

    /// Drops slots until half of the room is free, but keeps at least one. If that is not enough, nearly all batches are in one slot, and
    /// no more are added.
    fn thin_out(&mut self) {
        let least = self.kept.iter().map(|kept| hash(slot_of(kept.begin_ms))).min().unwrap_or(0);
        while self.kept.len() > self.most / 2 && self.highest > least {
            self.highest = (self.highest / 2).max(least);
            let highest = self.highest;
            self.kept.retain(|kept| hash(slot_of(kept.begin_ms)) <= highest);
        }
        self.is_full = self.kept.len() >= self.most / 8 * 7;
    }

    /// Whether some slots were dropped.
    pub fn is_thinned(&self) -> bool {
        self.highest != u64::MAX || self.is_full
    }

    /// Milliseconds that contain all but the first and the last hundredth of the batches, scaled up for those: a few wrong times do not
    /// stretch the span. `None` for too few batches.
    pub fn middle_ms(&self) -> Option<f64> {
        const LEAST: usize = 100;
        const LEFT_OUT: f64 = 0.01;
        let mut begins: Vec<i64> = self.kept.iter().map(|kept| kept.begin_ms).collect();
        begins.sort_unstable();
        let edge = (LEFT_OUT * begins.len() as f64).ceil() as usize;
        let (first, last) = (begins.get(edge)?, begins.get(begins.len().checked_sub(edge + 1)?)?);
        (begins.len() >= LEAST).then(|| last.abs_diff(*first) as f64 / (1.0 - 2.0 * LEFT_OUT))
    }

    /// By producer, then by partition and offset.
    pub fn by_producer(&self) -> BTreeMap<i64, Vec<Kept>> {
        let mut found: BTreeMap<i64, Vec<Kept>> = BTreeMap::new();
        for kept in &self.kept {
            found.entry(kept.producer_id.max(-1)).or_default().push(*kept);
        }
        for of_one in found.values_mut() {
            of_one.sort_by_key(|kept| (kept.partition, kept.offset));
        }
        found
    }
}

/// Whether two batches are in one slot, so that no batch between them was dropped.
pub fn are_near(one: &Kept, other: &Kept) -> bool {
    slot_of(one.begin_ms) == slot_of(other.begin_ms)
}

/// The slot of a time.
pub(crate) fn slot_of(time_ms: i64) -> i64 {
    time_ms.div_euclid(SLOT_MS)
}

/// SplitMix64, so that the choice of slots ignores any rhythm in the data.
fn hash(slot: i64) -> u64 {
    let mut mixed = slot.cast_unsigned().wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::tally::tests::seen;

    #[test]
    fn what_is_kept_is_bounded_and_whole_within_its_slots() {
        let mut evidence = Evidence::within(1_000);
        for number in 0..100_000_i64 {
            evidence.add((number % 3) as i32, &seen(7, 500, 2, number * 10, number * 10 + 5));
        }
        assert!(evidence.is_thinned());
        let found = &evidence.by_producer()[&7];
        assert!((100..1_000).contains(&found.len()), "{}", found.len());
        let mut by_slot: BTreeMap<i64, usize> = BTreeMap::new();
        found.iter().for_each(|kept| *by_slot.entry(slot_of(kept.begin_ms)).or_default() += 1);
        assert!(by_slot.values().all(|batches| (409..=410).contains(batches)), "{by_slot:?}");
        let mut roomy = Evidence::within(10_000);
        (0..100_000_i64).for_each(|number| roomy.add(0, &seen(7, 500, 2, number * 10, number * 10 + 5)));
        let slots: BTreeSet<i64> =
            roomy.by_producer()[&7].iter().map(|kept| slot_of(kept.begin_ms)).collect();
        assert!(
            slots.len() > 5 && slots.last().unwrap() - slots.first().unwrap() > 60,
            "{slots:?}: of all the time"
        );
    }

    #[test]
    fn batches_of_one_moment_end_it() {
        let mut evidence = Evidence::within(1_000);
        (0..5_000).for_each(|_| evidence.add(0, &seen(7, 500, 2, 5, 6)));
        assert!(evidence.by_producer().values().map(Vec::len).sum::<usize>() <= 1_000);
    }

    #[test]
    fn times_that_are_not_the_producers_are_none() {
        let mut evidence = Evidence::default();
        evidence.add(0, &seen(-1, 500, 2, 10, 5));
        evidence.add(0, &seen(-1, 500, 2, 10, 15));
        let spans: Vec<_> = evidence.by_producer()[&-1].iter().map(Kept::span_ms).collect();
        assert_eq!(spans, [None, Some(5)]);
    }
}

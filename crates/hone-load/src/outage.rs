//! What answers and arrivals tell of an outage: the times without any, and acknowledged records that are lost. The code is pure.
//!
//! A leader that dies can take acknowledged records with it. The next leader then gives their offsets to other records, so an offset that is
//! acknowledged twice is a lost record, and so is one behind the end of the log. A loss stays hidden if records without an acknowledgement
//! took all of its offsets, so the count is a lower bound.

use std::collections::BTreeMap;

use hone_record::Gap;

use crate::join::Placed;

/// Shorter times without an event are not kept, in ns.
const KEPT_FROM_NS: u64 = 100_000_000;
/// Largest number of kept times of a partition. A partition that gets a record every second has one for each of them.
const MOST: usize = 1_000;

/// Times without an event, by partition.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    lanes: BTreeMap<i32, Quiet>,
}

#[derive(Debug, Default)]
struct Quiet {
    last_ns: u64,
    /// Begin and end.
    kept: Vec<(u64, u64)>,
}

impl Quiet {
    fn until(&mut self, at_ns: u64) {
        if at_ns.saturating_sub(self.last_ns) >= KEPT_FROM_NS && self.kept.len() < MOST {
            self.kept.push((self.last_ns, at_ns));
        }
        self.last_ns = self.last_ns.max(at_ns);
    }
}

impl Gaps {
    /// An event of a partition. A partition counts from its first event on.
    pub(crate) fn note(&mut self, partition: i32, at_ns: u64) {
        self.lanes.entry(partition).or_insert(Quiet { last_ns: at_ns, kept: Vec::new() }).until(at_ns);
    }

    /// All times of at least 100 ms, up to the end.
    pub(crate) fn finish(self, end_ns: u64) -> Vec<Gap> {
        let gap = |partition: i32, (from_ns, to_ns): (u64, u64)| Gap {
            partition,
            from_s: from_ns as f64 / 1e9,
            length_s: (to_ns - from_ns) as f64 / 1e9,
        };
        let of = |(partition, mut quiet): (i32, Quiet)| {
            quiet.until(end_ns.max(quiet.last_ns));
            quiet.kept.into_iter().map(move |range| gap(partition, range))
        };
        self.lanes.into_iter().flat_map(of).collect()
    }
}

/// The acknowledged offsets of one partition.
#[derive(Debug, Default)]
struct Offsets {
    /// First offset of each range, and the offset after it. Ranges neither touch nor overlap.
    ranges: BTreeMap<i64, i64>,
    /// Offsets that were acknowledged before.
    again: u64,
}

impl Offsets {
    fn add(&mut self, mut first: i64, mut end: i64) {
        // Ranges that begin before the end of this one may touch it.
        while let Some((&from, &to)) = self.ranges.range(..=end).next_back() {
            if to < first {
                break;
            }
            self.again += width(first.max(from), end.min(to));
            self.ranges.remove(&from);
            (first, end) = (first.min(from), end.max(to));
        }
        self.ranges.insert(first, end);
    }

    fn count(&self) -> u64 {
        self.ranges.iter().map(|(first, end)| width(*first, *end)).sum()
    }

    fn beyond(&self, log_end: i64) -> u64 {
        self.ranges.iter().map(|(first, end)| width((*first).max(log_end), *end)).sum()
    }
}

fn width(first: i64, end: i64) -> u64 {
    u64::try_from(end.saturating_sub(first)).unwrap_or(0)
}

/// The offset after the last record, by partition.
type Ends = BTreeMap<i32, i64>;

/// Acknowledgements of a window.
#[derive(Debug, Default)]
pub(crate) struct Acknowledged {
    gaps: Gaps,
    lanes: BTreeMap<i32, Offsets>,
}

/// What became of the acknowledged records.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Account {
    pub(crate) gaps: Vec<Gap>,
    /// Acknowledged records with an offset.
    pub(crate) acked: u64,
    pub(crate) lost: Option<u64>,
    /// Stored records whose offset nobody acknowledged.
    pub(crate) unacked: Option<u64>,
}

impl Acknowledged {
    /// An acknowledged range, at the time of its answer.
    pub(crate) fn placed(&mut self, placed: Placed, at_ns: u64) {
        self.gaps.note(placed.partition, at_ns);
        let end = placed.last().saturating_add(1);
        self.lanes.entry(placed.partition).or_default().add(placed.first, end);
    }

    /// Closes the account. `log` has the ends of all partitions before and after the window.
    pub(crate) fn finish(self, end_ns: u64, log: Option<(&Ends, &Ends)>) -> Account {
        let again: u64 = self.lanes.values().map(|lane| lane.again).sum();
        let there: u64 = self.lanes.values().map(Offsets::count).sum();
        let end_of = |partition: &i32| log.and_then(|(_, ends)| ends.get(partition)).copied();
        let beyond: Option<u64> =
            self.lanes.iter().map(|(partition, lane)| Some(lane.beyond(end_of(partition)?))).sum();
        let stored = log.map(|(begins, ends)| {
            let of =
                |(partition, end): (&i32, &i64)| width(begins.get(partition).copied().unwrap_or(*end), *end);
            ends.iter().map(of).sum::<u64>()
        });
        Account {
            gaps: self.gaps.finish(end_ns),
            acked: there + again,
            lost: beyond.map(|beyond| beyond + again),
            unacked: stored.zip(beyond).map(|(stored, beyond)| stored.saturating_sub(there - beyond)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(partition: i32, first: i64, records: u32) -> Placed {
        Placed { partition, first, records, intended_ns: 0 }
    }

    fn account(acks: &[(i32, i64, u32)], begins: &[i64], ends: &[i64]) -> Account {
        let mut acknowledged = Acknowledged::default();
        acks.iter().for_each(|(partition, first, records)| {
            acknowledged.placed(placed(*partition, *first, *records), 0);
        });
        let of = |offsets: &[i64]| (0..).zip(offsets.iter().copied()).collect::<BTreeMap<i32, i64>>();
        acknowledged.finish(0, Some((&of(begins), &of(ends))))
    }

    #[test]
    fn answers_out_of_order_lose_nothing() {
        let found = account(
            &[(0, 110, 10), (0, 100, 10), (1, 0, 5), (0, 130, 10), (0, 120, 10)],
            &[100, 0],
            &[140, 5],
        );
        assert_eq!((found.acked, found.lost, found.unacked), (45, Some(0), Some(0)));
    }

    #[test]
    fn an_offset_that_is_acknowledged_twice_is_a_lost_record() {
        // The old leader acknowledged 100 to 119. The next one had only 105 of them, and goes on there.
        let found = account(&[(0, 100, 10), (0, 110, 10), (0, 105, 10), (0, 115, 20)], &[100], &[135]);
        assert_eq!((found.acked, found.lost, found.unacked), (50, Some(15), Some(0)));
        // Nothing was sent to it after that.
        let found = account(&[(0, 100, 20)], &[100], &[105]);
        assert_eq!((found.acked, found.lost, found.unacked), (20, Some(15), Some(0)));
    }

    #[test]
    fn what_is_stored_and_not_acknowledged_is_counted() {
        let found = account(&[(0, 0, 10), (0, 20, 10)], &[0, 0], &[30, 3]);
        assert_eq!((found.lost, found.unacked), (Some(0), Some(13)));
        let mut unknown = Acknowledged::default();
        unknown.placed(placed(0, 5, 1), 0);
        let found = unknown.finish(0, None);
        assert_eq!((found.acked, found.lost, found.unacked), (1, None, None));
    }

    #[test]
    fn a_gap_runs_from_the_last_event_to_the_next_of_its_partition() {
        let mut gaps = Gaps::default();
        let ms = |ms: u64| ms * 1_000_000;
        for at in [0, 50, 100, 2_100, 2_150] {
            gaps.note(0, ms(at));
        }
        for at in (1_000..2_000).step_by(20) {
            gaps.note(1, ms(at));
        }
        let found = gaps.finish(ms(2_200));
        let lengths: Vec<_> = found.iter().map(|gap| (gap.partition, gap.from_s, gap.length_s)).collect();
        assert_eq!(lengths, [(0, 0.1, 2.0), (1, 1.98, 0.22)]);
    }

    use proptest::prelude::*;

    proptest! {
        /// In any order, and with any overlaps: each offset counts once, and the others are counted as lost.
        #[test]
        fn every_offset_counts_once(acks in prop::collection::vec((0_i64..200, 1_u32..30), 0..60)) {
            let mut acknowledged = Acknowledged::default();
            let (mut there, mut all) = (std::collections::BTreeSet::new(), 0_u64);
            for (first, records) in &acks {
                acknowledged.placed(placed(0, *first, *records), 0);
                there.extend(*first..*first + i64::from(*records));
                all += u64::from(*records);
            }
            let ends = BTreeMap::from([(0, 100)]);
            let found = acknowledged.finish(0, Some((&BTreeMap::from([(0, 0)]), &ends)));
            let kept = there.iter().filter(|offset| **offset < 100).count() as u64;
            prop_assert_eq!(found.acked, all);
            prop_assert_eq!(found.lost, Some(all - kept));
            prop_assert_eq!(found.unacked, Some(100 - kept));
        }
    }
}

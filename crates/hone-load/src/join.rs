//! Joins acknowledged records with their arrival at a consumer. The code is pure.
//!
//! A producer's acknowledgement gives the offset of a record, a fetch gives the time at which an offset arrived. Either may come first.
//! Both are ranges: a batch of the wire engine is one range. The data that a consumer gets at one time is another range, and it may hold
//! many records of a client.

use std::collections::{BTreeMap, VecDeque};

use hone_record::Hdr;

/// An acknowledged range and its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placed {
    /// The partition.
    pub partition: i32,
    /// Offset of its first record.
    pub first: i64,
    /// Number of records, at least one. They share one scheduled time and are one sample.
    pub records: u32,
    /// Due time, since the window's start.
    pub intended_ns: u64,
}

impl Placed {
    /// Offset of its last record. Records are read in order, so the range is complete with it.
    pub(crate) fn last(&self) -> i64 {
        self.first.saturating_add(i64::from(self.records.max(1)) - 1)
    }
}

/// Largest number of acknowledged ranges that wait for their arrival; further ones are missing. Two hundred megabytes at most.
const WAITING_LIMIT: usize = 4 << 20;
/// Largest number of arrivals per partition that wait for their acknowledgements. The oldest are dropped, which also happens if another
/// producer writes to the topic.
const SEEN_LIMIT: usize = 1 << 16;

/// Lost ranges are stored as due at the end of such a step, so that their wait is never overstated.
const LOST_STEP_NS: u64 = 100_000_000;

/// One consumer's join.
#[derive(Debug, Default)]
pub(crate) struct Join {
    /// Whether offsets arrive in any order, each once. Otherwise an offset that is passed over is lost.
    in_any_order: bool,
    lanes: BTreeMap<i32, Lane>,
    /// Latency from scheduled time to arrival, one sample each.
    pub latency: Hdr,
    waiting: usize,
    /// Number of ranges that will not arrive any more, or whose arrival time is unknown, by the time step in which they were due.
    lost: BTreeMap<u64, u64>,
}

/// Result of a join.
#[derive(Debug)]
pub(crate) struct Closed {
    /// One sample for each range, with or without arrival.
    pub latency: Hdr,
    /// The samples without arrival.
    pub missing: Hdr,
}

/// The state of one partition.
#[derive(Debug, Default)]
struct Lane {
    /// By last offset: number of records and due time.
    waiting: BTreeMap<i64, (u32, u64)>,
    /// Arrivals in order of offsets.
    arrivals: VecDeque<Arrival>,
    /// Offset after the last one that arrived.
    arrived_to: i64,
}

#[derive(Debug)]
struct Arrival {
    first: i64,
    last: i64,
    at_ns: u64,
    /// Records in it whose acknowledgement has not come.
    unclaimed: i64,
}

impl Join {
    /// A join of offsets that may arrive in any order.
    pub(crate) fn in_any_order() -> Self {
        Self { in_any_order: true, ..Self::default() }
    }

    /// Adds an acknowledged range.
    pub(crate) fn placed(&mut self, placed: Placed) {
        let lane = self.lanes.entry(placed.partition).or_default();
        let last = placed.last();
        let is_ahead = last >= lane.arrived_to;
        let claimed = if is_ahead { None } else { lane.claim(placed.first, last) };
        match claimed {
            Some(at_ns) => self.latency.record_ns(at_ns.saturating_sub(placed.intended_ns)),
            None if !(is_ahead || self.in_any_order) || self.waiting >= WAITING_LIMIT => {
                self.lose(placed.intended_ns);
            }
            None => {
                let before = lane.waiting.insert(last, (placed.records, placed.intended_ns));
                self.waiting += usize::from(before.is_none());
            }
        }
    }

    /// Adds the arrival of the offsets from `first` to `last`.
    pub(crate) fn arrived(&mut self, partition: i32, first: i64, last: i64, at_ns: u64) {
        if self.in_any_order {
            self.arrived_in_any_order(partition, first, last, at_ns);
            return;
        }
        let lane = self.lanes.entry(partition).or_default();
        // A consumer that lost its connection reads some offsets again.
        let first = first.max(lane.arrived_to);
        if last < first {
            return;
        }
        lane.arrived_to = last.saturating_add(1);
        lane.arrivals.push_back(Arrival { first, last, at_ns, unclaimed: (last - first).saturating_add(1) });
        while let Some(entry) = lane.waiting.first_entry() {
            if *entry.key() > last {
                break;
            }
            let (complete, (records, intended_ns)) = entry.remove_entry();
            self.waiting -= 1;
            if complete < first {
                // The broker returned later offsets, so this one is gone, for example by retention.
                lost(&mut self.lost, intended_ns);
                continue;
            }
            self.latency.record_ns(at_ns.saturating_sub(intended_ns));
            lane.claim(complete.saturating_sub(i64::from(records.max(1)) - 1), complete);
        }
        if lane.arrivals.len() > SEEN_LIMIT {
            lane.arrivals.pop_front();
        }
    }

    fn arrived_in_any_order(&mut self, partition: i32, first: i64, last: i64, at_ns: u64) {
        if last < first {
            return;
        }
        let lane = self.lanes.entry(partition).or_default();
        lane.arrived_to = lane.arrived_to.max(last.saturating_add(1));
        let at = lane.arrivals.partition_point(|arrival| arrival.first < first);
        let unclaimed = last.saturating_sub(first).saturating_add(1);
        lane.arrivals.insert(at, Arrival { first, last, at_ns, unclaimed });
        let complete: Vec<i64> = lane.waiting.range(first..=last).map(|(key, _)| *key).collect();
        for complete in complete {
            let Some((records, intended_ns)) = lane.waiting.remove(&complete) else { continue };
            self.waiting -= 1;
            self.latency.record_ns(at_ns.saturating_sub(intended_ns));
            lane.claim(complete.saturating_sub(i64::from(records.max(1)) - 1), complete);
        }
        if lane.arrivals.len() > SEEN_LIMIT {
            lane.arrivals.pop_front();
        }
    }

    /// The log begins here: earlier offsets that are still expected will not come.
    pub(crate) fn gone_before(&mut self, partition: i32, start: i64) {
        let Some(lane) = self.lanes.get_mut(&partition) else { return };
        let stays = lane.waiting.split_off(&start);
        let gone = std::mem::replace(&mut lane.waiting, stays);
        self.waiting -= gone.len();
        gone.into_values().for_each(|(_, intended_ns)| self.lose(intended_ns));
    }

    /// Drops arrivals before a window; offsets stay known.
    pub(crate) fn begin(&mut self) {
        for lane in self.lanes.values_mut() {
            lane.waiting.clear();
            lane.arrivals.clear();
        }
        self.waiting = 0;
        self.lost.clear();
        self.latency = Hdr::new();
    }

    /// Number of acknowledged records that have not arrived and may still come.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Adds a range that does not arrive.
    pub(crate) fn lose(&mut self, intended_ns: u64) {
        lost(&mut self.lost, intended_ns);
    }

    /// Ends the join. A range that was acknowledged and has not arrived is still a sample: the time that it has waited, which is a lower
    /// bound.
    pub(crate) fn close(self, end_ns: u64) -> Closed {
        let mut missing = Hdr::new();
        for (_, intended_ns) in self.lanes.values().flat_map(|lane| lane.waiting.values()) {
            missing.record_ns(end_ns.saturating_sub(*intended_ns));
        }
        for (step, count) in self.lost {
            let waited_ns = end_ns.saturating_sub(step.saturating_mul(LOST_STEP_NS));
            (0..count).for_each(|_| missing.record_ns(waited_ns));
        }
        let mut latency = self.latency;
        latency.merge(&missing);
        Closed { latency, missing }
    }
}

fn lost(lost: &mut BTreeMap<u64, u64>, intended_ns: u64) {
    *lost.entry(intended_ns.div_ceil(LOST_STEP_NS)).or_default() += 1;
}

impl Lane {
    /// Time at which the last of these offsets arrived; all of them are claimed then. Arrivals need not have the bounds of the acknowledged
    /// ranges.
    fn claim(&mut self, first: i64, last: i64) -> Option<u64> {
        let begin = self.arrivals.partition_point(|arrival| arrival.last < first);
        let mut at_ns = None;
        for arrival in self.arrivals.range_mut(begin..).take_while(|arrival| arrival.first <= last) {
            let both = last.min(arrival.last) - first.max(arrival.first);
            arrival.unclaimed = arrival.unclaimed.saturating_sub(both).saturating_sub(1);
            at_ns = (arrival.last >= last).then_some(arrival.at_ns);
        }
        while self.arrivals.front().is_some_and(|arrival| arrival.unclaimed <= 0) {
            self.arrivals.pop_front();
        }
        at_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(first: i64, records: u32, intended_ns: u64) -> Placed {
        Placed { partition: 0, first, records, intended_ns }
    }

    impl Join {
        fn missing(&self) -> u64 {
            self.waiting as u64 + self.lost.values().sum::<u64>()
        }
    }

    fn samples(join: &Join) -> u64 {
        join.latency.count()
    }

    #[test]
    fn either_side_may_come_first() {
        let mut join = Join::default();
        join.placed(placed(0, 10, 1_000));
        assert_eq!((join.waiting(), samples(&join)), (1, 0));
        join.arrived(0, 0, 9, 5_000);
        join.arrived(0, 10, 19, 8_000);
        join.placed(placed(10, 10, 2_000));
        assert_eq!((join.missing(), samples(&join)), (0, 2));
        assert!((join.latency.max_us().unwrap() - 6.0).abs() < 0.1);
        assert!(join.lanes[&0].arrivals.is_empty(), "joined ranges are dropped");
    }

    #[test]
    fn records_of_one_batch_are_samples_of_their_own_and_a_batch_of_one_is_one() {
        let mut join = Join::default();
        for record in 0..5 {
            join.placed(placed(record, 1, 1_000 * record.unsigned_abs()));
        }
        join.arrived(0, 0, 9, 10_000);
        assert_eq!((samples(&join), join.waiting()), (5, 0));
        for record in 5..10 {
            join.placed(placed(record, 1, 1_000));
        }
        assert_eq!(samples(&join), 10);
        assert!(join.lanes[&0].arrivals.is_empty());
    }

    #[test]
    fn a_range_that_arrives_in_parts_is_complete_with_its_last_record() {
        let mut join = Join::default();
        join.placed(placed(0, 10, 0));
        join.arrived(0, 0, 4, 1_000);
        assert_eq!(samples(&join), 0);
        join.arrived(0, 5, 12, 3_000);
        assert_eq!(samples(&join), 1);
        assert!((join.latency.max_us().unwrap() - 3.0).abs() < 0.1);
    }

    #[test]
    fn what_never_arrives_is_missing_and_partitions_are_apart() {
        let mut join = Join::default();
        join.placed(placed(7, 1, 0));
        join.placed(Placed { partition: 1, ..placed(7, 1, 0) });
        join.arrived(1, 0, 7, 1_000);
        assert_eq!((join.missing(), samples(&join)), (1, 1));
        join.begin();
        assert_eq!((join.missing(), samples(&join)), (0, 0));
    }

    #[test]
    fn what_never_arrives_is_a_sample_of_the_time_it_waited() {
        const MS: u64 = 1_000_000;
        let mut join = Join::default();
        join.placed(placed(0, 1, 1_000 * MS));
        join.arrived(0, 0, 0, 1_003 * MS);
        // Retention takes one, the log begins behind another, a third one just does not come.
        join.placed(placed(1, 1, 2_050 * MS));
        join.arrived(0, 3, 3, 2_060 * MS);
        join.placed(placed(4, 1, 4_000 * MS));
        join.gone_before(0, 5);
        join.placed(placed(7, 1, 6_000 * MS));
        assert_eq!((samples(&join), join.waiting(), join.missing()), (1, 1, 3));
        let closed = join.close(10_000 * MS);
        assert_eq!((closed.latency.count(), closed.missing.count()), (4, 3));
        let rounded_s = |hdr: &Hdr, quantile| (hdr.quantile_us(quantile).unwrap() / 1e5).round() / 10.0;
        let waited: Vec<f64> = [0.3, 0.6, 0.9].map(|quantile| rounded_s(&closed.missing, quantile)).to_vec();
        assert_eq!(waited, [4.0, 6.0, 7.9], "the wait of lost ranges is not overstated");
        assert_eq!((rounded_s(&closed.latency, 0.2), rounded_s(&closed.latency, 1.0)), (0.0, 7.9));
    }

    #[test]
    fn what_the_broker_no_longer_has_is_missing() {
        let mut join = Join::default();
        join.placed(placed(3, 1, 0));
        join.placed(placed(12, 1, 0));
        join.arrived(0, 10, 19, 1_000);
        assert_eq!((join.missing(), samples(&join)), (1, 1));
    }

    #[test]
    fn reading_again_counts_once() {
        let mut join = Join::default();
        join.arrived(0, 0, 9, 1_000);
        join.arrived(0, 5, 14, 9_000);
        join.placed(placed(7, 1, 0));
        assert!((join.latency.max_us().unwrap() - 1.0).abs() < 0.1, "the first arrival counts");
        join.arrived(0, 0, 14, 12_000);
        join.placed(placed(14, 1, 0));
        assert_eq!((samples(&join), join.missing()), (2, 0));
    }

    #[test]
    fn memory_is_bounded_and_what_is_forgotten_is_missing() {
        let mut join = Join::default();
        for batch in 0..=SEEN_LIMIT as i64 {
            join.arrived(0, batch * 10, batch * 10 + 9, 1_000);
        }
        assert_eq!(join.lanes[&0].arrivals.len(), SEEN_LIMIT);
        join.placed(placed(3, 1, 0));
        assert_eq!((join.missing(), join.waiting()), (1, 0), "it can't arrive any more");
        let far = i64::MAX - 10;
        join.placed(placed(far, u32::MAX, 0));
        join.arrived(0, far, i64::MAX, 1);
        assert_eq!(join.waiting(), 0);
    }

    #[test]
    fn offsets_that_are_passed_over_may_still_arrive() {
        let mut join = Join::in_any_order();
        join.placed(placed(0, 10, 1_000));
        join.arrived(0, 10, 19, 5_000);
        assert_eq!((join.missing(), samples(&join)), (1, 0));
        join.placed(placed(10, 10, 2_000));
        assert_eq!((join.missing(), samples(&join)), (1, 1));
        join.arrived(0, 0, 9, 9_000);
        join.placed(placed(20, 5, 3_000));
        assert_eq!((join.missing(), samples(&join)), (1, 2));
        assert!((join.latency.max_us().unwrap() - 8.0).abs() < 0.1);
        let closed = join.close(13_000);
        assert_eq!((closed.latency.count(), closed.missing.count()), (3, 1));
    }

    /// Any order of acknowledgements and arrivals gives the same count of samples.
    #[test]
    fn the_order_of_the_two_sides_does_not_matter() {
        use rand_chacha::ChaCha8Rng;
        use rand_core::{RngCore as _, SeedableRng as _};
        for seed in 0..50 {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let mut join = Join::default();
            let (mut placed_to, mut arrived_to, mut count) = (0_i64, 0_i64, 0);
            while placed_to < 2_000 || arrived_to < placed_to {
                let step = 1 + (random.next_u32() % 20);
                if random.next_u32().is_multiple_of(2) && placed_to < 2_000 {
                    join.placed(placed(placed_to, step, 0));
                    placed_to += i64::from(step);
                    count += 1;
                } else {
                    let last = arrived_to + i64::from(step) - 1;
                    join.arrived(0, arrived_to, last, 1_000);
                    arrived_to = last + 1;
                }
            }
            assert_eq!((samples(&join), join.missing()), (count, 0), "seed {seed}");
        }
    }
}

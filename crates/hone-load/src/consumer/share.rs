//! Share groups (KIP-932): partitions have several readers, the broker gives each record to one of them, and that one acknowledges it.
//!
//! Records may come in any order. They come again if their reader leaves before it has acknowledged them.

use std::collections::BTreeMap;

use bytes::Bytes;
use hone_kafka::{BatchHeader, batches, error_name};
use hone_record::{Deliveries, Workload};
use kafka_protocol::messages::share_fetch_response::{AcquiredRecords, PartitionData};
use kafka_protocol::messages::{ApiKey, ShareFetchResponse};
use kafka_protocol::protocol::StrBytes;

use super::reader::{Consumer, Why};
use super::session::{Fate, SHARE_FETCH_VERSION, ShareSession};
use crate::error::LoadError;
use crate::join::{Join, Placed};
use crate::line::decode;
use crate::topic_set::TopicIds;

/// The share groups of a load.
#[derive(Debug)]
pub(super) struct Share {
    groups: Vec<Shared>,
    ids: TopicIds,
    /// The id of each consumer.
    members: Vec<StrBytes>,
}

/// What the members of a group have read together.
#[derive(Debug)]
pub(super) struct Shared {
    lanes: BTreeMap<i32, Covered>,
    deliveries: Deliveries,
}

/// Offsets of a partition that were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Covered {
    /// All before it.
    next: i64,
    /// Ranges behind it, by their first offset.
    ahead: BTreeMap<i64, i64>,
    /// Offsets in these ranges.
    ahead_count: i64,
    /// Offset after the last known record.
    end: i64,
    /// First offset that counts.
    from: i64,
}

impl Covered {
    fn at(next: i64) -> Self {
        Self { next, end: next, from: i64::MAX, ..Self::default() }
    }

    /// Adds a range, and returns the parts of it that are new, in order.
    fn add(&mut self, first: i64, last: i64) -> Vec<(i64, i64)> {
        let mut fresh = Vec::new();
        let (mut low, mut high, mut at) = (first.max(self.next), last, first.max(self.next));
        if high < low {
            return fresh;
        }
        // Touching ranges become one.
        let before = self.ahead.range(..low).next_back().filter(|(_, end)| **end >= low - 1);
        let begin = before.map_or(low, |(start, _)| *start);
        let touched: Vec<(i64, i64)> =
            self.ahead.range(begin..=high.saturating_add(1)).map(|(start, end)| (*start, *end)).collect();
        for (start, end) in touched {
            if at < start {
                fresh.push((at, high.min(start - 1)));
            }
            at = at.max(end.saturating_add(1));
            (low, high) = (low.min(start), high.max(end));
            self.ahead.remove(&start);
            self.ahead_count -= end - start + 1;
        }
        if at <= last {
            fresh.push((at, last));
        }
        if low <= self.next {
            self.next = high.saturating_add(1);
        } else {
            self.ahead.insert(low, high);
            self.ahead_count += high - low + 1;
        }
        self.end = self.end.max(high.saturating_add(1));
        fresh
    }

    fn behind(&self) -> u64 {
        u64::try_from(self.end - self.next - self.ahead_count).unwrap_or(0)
    }
}

impl Share {
    /// Groups of a load that begin at these offsets.
    pub(super) fn new(load: &Workload, ids: TopicIds, from: &BTreeMap<i32, i64>) -> Result<Self, LoadError> {
        let lane = |(partition, next): (&i32, &i64)| (*partition, Covered::at(*next));
        let group = || Shared { lanes: from.iter().map(lane).collect(), deliveries: Deliveries::default() };
        let members = load.consumers * load.consumer_groups;
        Ok(Self {
            groups: (0..load.consumer_groups).map(|_| group()).collect(),
            ids,
            members: (0..members).map(|_| own_id()).collect::<Result<_, _>>()?,
        })
    }

    /// The id of a member.
    pub(super) fn member(&self, consumer: usize) -> StrBytes {
        self.members[consumer].clone()
    }

    /// A session of a member with a broker that it has not talked to.
    pub(super) fn session(&self, group: &str, consumer: usize) -> ShareSession {
        ShareSession::new(group, self.member(consumer), self.ids.clone())
    }

    pub(super) fn group(&mut self, group: usize) -> &mut Shared {
        &mut self.groups[group]
    }

    /// The members will read these records.
    pub(super) fn expect(&mut self, placed: Placed) {
        let lanes = self.groups.iter_mut().filter_map(|group| group.lanes.get_mut(&placed.partition));
        lanes.for_each(|lane| lane.end = lane.end.max(placed.last().saturating_add(1)));
    }

    /// Counts from these offsets on.
    pub(super) fn begin(&mut self, from: &BTreeMap<i32, i64>) {
        for group in &mut self.groups {
            group.deliveries = Deliveries::default();
            for (partition, lane) in &mut group.lanes {
                lane.from = from.get(partition).copied().unwrap_or(i64::MAX);
            }
        }
    }

    /// Whether all groups have read what stands before the offsets that count.
    pub(super) fn has_begun(&self) -> bool {
        let lanes = self.groups.iter().flat_map(|group| group.lanes.values());
        lanes.into_iter().all(|lane| lane.from == i64::MAX || lane.next >= lane.from)
    }

    /// Records that the groups have not read before these ends.
    pub(super) fn ahead_of(&self, ends: &BTreeMap<i32, i64>) -> u64 {
        let lanes = self.groups.iter().flat_map(|group| &group.lanes);
        let ahead = |(partition, lane): (&i32, &Covered)| {
            let end = ends.get(partition).copied().unwrap_or(lane.next);
            u64::try_from(end.saturating_sub(lane.next)).unwrap_or(0)
        };
        lanes.map(ahead).sum()
    }

    /// Known records that a group has not read.
    pub(super) fn behind(&self, group: usize) -> u64 {
        self.groups[group].lanes.values().map(Covered::behind).sum()
    }

    /// The partitions.
    pub(super) fn partitions(&self) -> impl Iterator<Item = i32> + '_ {
        self.groups.iter().take(1).flat_map(|group| group.lanes.keys().copied())
    }

    /// The deliveries of all groups.
    pub(super) fn deliveries(&self) -> Deliveries {
        let all = self.groups.iter().map(|group| group.deliveries);
        all.fold(Deliveries::default(), Deliveries::and)
    }
}

/// The id of a new member, as Kafka writes a UUID.
fn own_id() -> Result<StrBytes, LoadError> {
    let mut bytes = [0; 16];
    crate::security::random(&mut bytes)?;
    // Version 4, which also begins with no dash.
    bytes[0] &= 0x7f;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(StrBytes::from_string(base64::Engine::encode(
        &base64::engine::general_purpose::URL_SAFE_NO_PAD,
        bytes,
    )))
}

/// What a share group's answer changes besides its reader.
pub(super) struct Reading<'a> {
    pub(super) shared: &'a mut Shared,
    pub(super) session: &'a mut ShareSession,
    pub(super) join: &'a mut Join,
    pub(super) at_ns: u64,
}

impl Consumer {
    /// Processes an answer to a ShareFetch; returns the refused partitions, and the bytes of all batches.
    pub(super) fn take_shared_answer(
        &mut self,
        body: &[u8],
        expected: i32,
        mut into: Reading<'_>,
    ) -> Result<(Vec<(i32, Why)>, u64), String> {
        let answer: ShareFetchResponse =
            decode(ApiKey::ShareFetch, SHARE_FETCH_VERSION, expected, Bytes::copy_from_slice(body))
                .map_err(|problem| format!("sent an invalid answer to a ShareFetch: {problem}"))?;
        if answer.error_code != 0 {
            let message = answer.error_message.as_ref().map(|text| format!(": {}", &**text));
            let message = message.unwrap_or_default();
            return Err(format!("refused a ShareFetch: {}{message}", error_name(answer.error_code)));
        }
        into.session.epoch = into.session.epoch.checked_add(1).unwrap_or(1);
        let (mut refused, mut bytes) = (Vec::new(), 0);
        for topic in &answer.responses {
            for found in &topic.partitions {
                let Some(number) = into.session.ids.number(topic.topic_id, found.partition_index) else {
                    continue;
                };
                bytes += found.records.as_ref().map_or(0, |records| records.len() as u64);
                if self.take_shared(number, found, &mut into).is_err() {
                    refused.push((number, Why::Refused));
                }
            }
        }
        Ok((refused, bytes))
    }

    fn take_shared(&mut self, number: i32, found: &PartitionData, into: &mut Reading<'_>) -> Result<(), ()> {
        let is_own = self.lanes.contains_key(&number);
        let shared = &mut *into.shared;
        shared.deliveries.refused += u64::from(found.acknowledge_error_code != 0);
        // What came for a partition that the member gave away is for others.
        let kind = if is_own { Fate::Accepted } else { Fate::Released };
        for range in &found.acquired_records {
            let said = into.session.answers.entry(number).or_default();
            said.push((range.first_offset, range.last_offset, kind));
        }
        if found.error_code != 0 {
            return Err(());
        }
        let Some(lane) = shared.lanes.get_mut(&number).filter(|_| is_own) else { return Ok(()) };
        for range in &found.acquired_records {
            for (first, last) in lane.add(range.first_offset, range.last_offset) {
                into.join.arrived(number, first, last, into.at_ns);
            }
        }
        if !found.acquired_records.is_empty() {
            self.gaps.note(number, into.at_ns);
        }
        // The last batch of an answer may be torn; its records are not acquired then.
        for batch in batches(found.records.as_deref().unwrap_or_default()).map_while(Result::ok) {
            if batch.header.base_offset < lane.from || batch.header.is_control() {
                continue;
            }
            self.bytes += batch.bytes.len() as u64;
            for range in &found.acquired_records {
                let records = common(&batch.header, range);
                if records == 0 {
                    continue;
                }
                self.records += records;
                let times = u64::try_from(range.delivery_count).unwrap_or(1);
                shared.deliveries.most = shared.deliveries.most.max(times);
                shared.deliveries.again += if times > 1 { records } else { 0 };
            }
        }
        Ok(())
    }
}

/// Records of a batch that a range holds.
fn common(header: &BatchHeader, range: &AcquiredRecords) -> u64 {
    let (first, last) =
        (header.base_offset.max(range.first_offset), header.last_offset().min(range.last_offset));
    let offsets = u64::try_from(last.saturating_sub(first).saturating_add(1)).unwrap_or(0);
    // Of a compacted batch, offsets are missing.
    offsets.min(u64::from(header.record_count.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ranges_in_any_order_become_one_and_only_new_parts_count() {
        let mut lane = Covered::at(10);
        lane.end = 40;
        assert_eq!(lane.add(20, 29), [(20, 29)]);
        assert_eq!((lane.next, lane.behind()), (10, 20));
        assert_eq!(lane.add(15, 34), [(15, 19), (30, 34)]);
        assert_eq!(lane.add(20, 29), []);
        assert_eq!((lane.next, lane.behind(), lane.ahead.len()), (10, 10, 1));
        assert_eq!(lane.add(5, 14), [(10, 14)]);
        assert_eq!((lane.next, lane.behind(), lane.ahead_count), (35, 5, 0));
        assert_eq!(lane.add(50, 59), [(50, 59)]);
        assert_eq!((lane.end, lane.behind()), (60, 15));
        assert_eq!(lane.add(0, 34), []);
        assert_eq!(lane.add(35, i64::MAX - 1), [(35, 49), (60, i64::MAX - 1)]);
        assert_eq!((lane.behind(), lane.ahead.len()), (0, 0));
    }

    /// Offset by offset, a set says the same.
    #[test]
    fn covered_ranges_are_a_set_of_offsets() {
        use rand_chacha::ChaCha8Rng;
        use rand_core::{RngCore as _, SeedableRng as _};
        for seed in 0..200 {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let (mut lane, mut set) = (Covered::at(0), BTreeSet::new());
            lane.end = 100;
            for _ in 0..40 {
                let first = i64::from(random.next_u32() % 90);
                let last = first + i64::from(random.next_u32() % 10);
                let new: Vec<i64> = (first..=last).filter(|offset| set.insert(*offset)).collect();
                let told: Vec<i64> =
                    lane.add(first, last).into_iter().flat_map(|(first, last)| first..=last).collect();
                assert_eq!(told, new, "seed {seed}");
                assert_eq!(lane.behind(), 100 - set.len() as u64, "seed {seed}");
            }
        }
    }
}

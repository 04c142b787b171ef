//! One consumer: its position in each partition, its links, and its results.

use std::collections::BTreeMap;

use hone_kafka::frame::LENGTH_BYTES;
use hone_kafka::{batches, error_name};

use super::link::{Arrival, Link};
use super::share::{Reading, Shared};
use crate::clock::Clock;
use crate::fetch::{Aborted, FetchedPartition, parse_fetched};
use crate::join::Join;
use crate::outage::Gaps;
use crate::topic_set::TopicSet;

/// One consumer.
#[derive(Debug, Default)]
pub(super) struct Consumer {
    /// Links by token. One link can break without the others.
    pub links: BTreeMap<usize, Link>,
    pub lanes: BTreeMap<i32, Lane>,
    /// Partitions without a link.
    pub strays: BTreeMap<i32, Stray>,
    /// Times without a record.
    pub gaps: Gaps,
    pub records: u64,
    pub bytes: u64,
    /// Known records that have not arrived, over all partitions.
    pub behind: u64,
}

/// An answer to a Fetch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    /// Time of the request.
    pub asked_ns: u64,
    /// Time of its last byte.
    pub at_ns: u64,
    /// Bytes of batches.
    pub bytes: u64,
}

/// One partition as one consumer sees it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Lane {
    pub next: i64,
    /// Offset after the last known record.
    pub end: i64,
    /// First offset that counts.
    pub from: i64,
}

/// A partition whose leader must be looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stray {
    /// Its last leader.
    pub from: String,
    pub why: Why,
}

/// Why no link reads a partition at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// The connection broke.
    Lost,
    /// Its leader refused it, for example because it no longer leads it.
    Refused,
    /// The next offset is not in the log.
    OutOfRange,
    /// The consumer got it from its group, and has not read it yet.
    Adopted,
}

impl Lane {
    pub(super) fn behind(self) -> u64 {
        u64::try_from(self.end.saturating_sub(self.next)).unwrap_or(0)
    }
}

impl Consumer {
    /// A consumer that starts at these offsets.
    pub(super) fn new(from: &BTreeMap<i32, i64>) -> Self {
        let lane =
            |(partition, next): (&i32, &i64)| (*partition, Lane { next: *next, end: *next, from: i64::MAX });
        Self { lanes: from.iter().map(lane).collect(), ..Self::default() }
    }

    /// Changes a partition's state, and with it this consumer's lag.
    pub(super) fn follow(&mut self, partition: i32, change: impl FnOnce(&mut Lane)) {
        if let Some(lane) = self.lanes.get_mut(&partition) {
            let before = lane.behind();
            change(lane);
            self.behind = self.behind - before + lane.behind();
        }
    }

    /// The log begins here; earlier offsets are gone.
    pub(super) fn skip_to(&mut self, partition: i32, start: i64, join: &mut Join) {
        self.follow(partition, |lane| {
            lane.next = lane.next.max(start);
            lane.end = lane.end.max(start);
        });
        join.gone_before(partition, start);
    }

    /// Takes over a partition at this position. Its leader has to be looked up.
    pub(super) fn adopt(&mut self, partition: i32, lane: Lane) {
        self.behind += lane.behind();
        self.lanes.insert(partition, lane);
        self.strays.insert(partition, Stray { from: String::new(), why: Why::Adopted });
    }

    /// Gives a partition away, with its position. An answer that is on its way is not used.
    pub(super) fn release(&mut self, partition: i32) -> Option<Lane> {
        let lane = self.lanes.remove(&partition)?;
        self.behind -= lane.behind();
        self.strays.remove(&partition);
        self.take_off(&[partition]);
        Some(lane)
    }

    /// Removes a link, so its partitions have none. Returns the broker of the link.
    pub(super) fn cut_off(&mut self, token: usize) -> Option<String> {
        let link = self.links.remove(&token)?;
        let stray = |partition| (partition, Stray { from: link.address.clone(), why: Why::Lost });
        self.strays.extend(link.partitions.iter().copied().map(stray));
        Some(link.address)
    }

    /// Removes partitions from their links. A link without partitions is closed, but a session of a share group stays: if the member comes
    /// back to this broker, the end of an old connection would end its new session.
    pub(super) fn take_off(&mut self, partitions: &[i32]) {
        self.links.retain(|_, link| {
            link.partitions.retain(|partition| !partitions.contains(partition));
            !link.partitions.is_empty() || link.session.is_some()
        });
    }

    /// Reads the data of a link, and processes a complete answer.
    pub(super) fn receive(
        &mut self,
        token: usize,
        (topics, is_committed): (&TopicSet, bool),
        clock: &Clock,
        (join, shared): (&mut Join, Option<&mut Shared>),
    ) -> Result<Option<Answer>, String> {
        let Some(link) = self.links.get_mut(&token) else { return Ok(None) };
        let Some(Arrival { asked_ns, at_ns, length }) = link.receive(clock)? else { return Ok(None) };
        let (buffer, expected) = (std::mem::take(&mut link.inbound), link.correlation_id);
        let (address, mut session) = (link.address.clone(), link.session.take());
        let body = &buffer[LENGTH_BYTES..length];
        let (refused, bytes) = match (&mut session, shared) {
            (Some(session), Some(shared)) => {
                self.take_shared_answer(body, expected, Reading { shared, session, join, at_ns })?
            }
            _ => self.take_answer(body, (expected, is_committed, topics), at_ns, join)?,
        };
        let strays: Vec<i32> = refused.iter().map(|(partition, _)| *partition).collect();
        let stray = |(partition, why)| (partition, Stray { from: address.clone(), why });
        self.strays.extend(refused.into_iter().map(stray));
        if let Some(link) = self.links.get_mut(&token) {
            (link.inbound, link.session) = (buffer, session);
        }
        if !strays.is_empty() {
            self.take_off(&strays);
        }
        Ok(Some(Answer { asked_ns, at_ns, bytes }))
    }

    /// Processes an answer; returns the refused partitions, and the bytes of all batches.
    fn take_answer(
        &mut self,
        body: &[u8],
        (expected, is_committed, topics): (i32, bool, &TopicSet),
        at_ns: u64,
        join: &mut Join,
    ) -> Result<(Vec<(i32, Why)>, u64), String> {
        let (mut refused, mut bytes) = (Vec::new(), 0);
        let fetched = parse_fetched(body, topics, |found| {
            bytes += found.record_set.len() as u64;
            if let Err(why) = self.take(found, is_committed, at_ns, join) {
                refused.push((found.partition, why));
            }
        });
        let fetched = fetched.map_err(|error| format!("sent an invalid answer to a Fetch: {error}"))?;
        if fetched.correlation_id != expected {
            return Err(format!("answered Fetch {} instead of {expected}", fetched.correlation_id));
        }
        if fetched.error_code != 0 {
            return Err(format!("refused a Fetch: {}", error_name(fetched.error_code)));
        }
        Ok((refused, bytes))
    }

    fn take(
        &mut self,
        found: FetchedPartition<'_>,
        is_committed: bool,
        at_ns: u64,
        join: &mut Join,
    ) -> Result<(), Why> {
        let Some(&(mut lane)) = self.lanes.get(&found.partition) else { return Ok(()) };
        if error_name(found.error_code) == "OFFSET_OUT_OF_RANGE" {
            // Retention deleted records first, and they count as missing in the end. Not every broker states here where the log begins.
            if found.log_start <= lane.next {
                return Err(Why::OutOfRange);
            }
            self.skip_to(found.partition, found.log_start, join);
            return Ok(());
        }
        if found.error_code != 0 {
            return Err(Why::Refused);
        }
        // Without transactions both are the same.
        lane.end = lane.end.max(if is_committed { found.last_stable } else { found.high_watermark });
        let mut aborted = Aborted::new(&found);
        for batch in batches(found.record_set) {
            // The last batch of an answer may be torn; it comes again.
            let Ok(batch) = batch else { break };
            let header = batch.header;
            let is_aborted = aborted.holds(&header);
            if header.last_offset() < lane.next {
                continue;
            }
            if is_aborted {
                lane.next = header.last_offset().saturating_add(1);
                continue;
            }
            if header.base_offset >= lane.from && !header.is_control() {
                self.records += u64::from(header.record_count.unsigned_abs());
                self.bytes += batch.bytes.len() as u64;
            }
            join.arrived(found.partition, header.base_offset, header.last_offset(), at_ns);
            self.gaps.note(found.partition, at_ns);
            lane.next = header.last_offset().saturating_add(1);
        }
        lane.end = lane.end.max(lane.next);
        self.follow(found.partition, |known| *known = lane);
        Ok(())
    }
}

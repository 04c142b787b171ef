//! One consumer: where it is in each partition, over which link it reads it, and what came of it.

use std::collections::BTreeMap;

use hone_kafka::frame::LENGTH_BYTES;
use hone_kafka::{batches, error_name};

use super::link::Link;
use crate::clock::Clock;
use crate::fetch::{FetchedPartition, parse_fetched};
use crate::join::Join;

/// One consumer.
#[derive(Debug, Default)]
pub(super) struct Consumer {
    /// By token. One link breaks without the others.
    pub links: BTreeMap<usize, Link>,
    pub lanes: BTreeMap<i32, Lane>,
    /// Partitions that are on no link.
    pub strays: BTreeMap<i32, Stray>,
    pub join: Join,
    pub records: u64,
    pub bytes: u64,
    /// Records that are known to exist and have not come, in all lanes.
    pub behind: u64,
}

/// One partition, as one consumer knows it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Lane {
    pub next: i64,
    /// Behind the last record that is known to exist.
    pub end: i64,
    /// Where counting begins.
    pub from: i64,
}

/// A partition whose leader must be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stray {
    /// Who led it last.
    pub from: String,
    pub why: Why,
}

/// Why nobody reads a partition at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// The connection broke.
    Lost,
    /// Its leader refused it: it leads it no more, for example.
    Refused,
    /// The place to go on from is not in the log.
    OutOfRange,
}

impl Lane {
    fn behind(self) -> u64 {
        u64::try_from(self.end.saturating_sub(self.next)).unwrap_or(0)
    }
}

impl Consumer {
    /// A consumer that reads from these offsets on.
    pub(super) fn new(from: &BTreeMap<i32, i64>) -> Self {
        let lane =
            |(partition, next): (&i32, &i64)| (*partition, Lane { next: *next, end: *next, from: i64::MAX });
        Self { lanes: from.iter().map(lane).collect(), ..Self::default() }
    }

    /// Changes a lane, and with it what this consumer is behind.
    pub(super) fn follow(&mut self, partition: i32, change: impl FnOnce(&mut Lane)) {
        if let Some(lane) = self.lanes.get_mut(&partition) {
            let before = lane.behind();
            change(lane);
            self.behind = self.behind - before + lane.behind();
        }
    }

    /// A log begins there; what lay before has gone.
    pub(super) fn skip_to(&mut self, partition: i32, start: i64) {
        self.follow(partition, |lane| {
            lane.next = lane.next.max(start);
            lane.end = lane.end.max(start);
        });
        self.join.gone_before(partition, start);
    }

    /// Takes a link away; its partitions stray. Answers whose it was.
    pub(super) fn cut_off(&mut self, token: usize) -> Option<String> {
        let link = self.links.remove(&token)?;
        let stray = |partition| (partition, Stray { from: link.address.clone(), why: Why::Lost });
        self.strays.extend(link.partitions.iter().copied().map(stray));
        Some(link.address)
    }

    /// Takes partitions from the links they are on; a link without any goes.
    pub(super) fn take_off(&mut self, partitions: &[i32]) {
        self.links.retain(|_, link| {
            link.partitions.retain(|partition| !partitions.contains(partition));
            !link.partitions.is_empty()
        });
    }

    /// Reads what there is on a link, and takes the answer when it is complete.
    pub(super) fn receive(&mut self, token: usize, clock: &Clock) -> Result<(), String> {
        let Some(link) = self.links.get_mut(&token) else { return Ok(()) };
        let Some((at_ns, length)) = link.receive(clock)? else { return Ok(()) };
        let (buffer, expected) = (std::mem::take(&mut link.inbound), link.correlation_id);
        let address = link.address.clone();
        let refused = self.take_answer(&buffer[LENGTH_BYTES..length], expected, at_ns)?;
        let strays: Vec<i32> = refused.iter().map(|(partition, _)| *partition).collect();
        let stray = |(partition, why)| (partition, Stray { from: address.clone(), why });
        self.strays.extend(refused.into_iter().map(stray));
        if let Some(link) = self.links.get_mut(&token) {
            link.inbound = buffer;
        }
        if !strays.is_empty() {
            self.take_off(&strays);
        }
        Ok(())
    }

    /// Takes an answer; answers the partitions that were refused.
    fn take_answer(&mut self, body: &[u8], expected: i32, at_ns: u64) -> Result<Vec<(i32, Why)>, String> {
        let mut refused = Vec::new();
        let fetched = parse_fetched(body, |found| {
            if let Err(why) = self.take(found, at_ns) {
                refused.push((found.partition, why));
            }
        });
        let fetched = fetched.map_err(|error| format!("sent garbage for a Fetch: {error}"))?;
        if fetched.correlation_id != expected {
            return Err(format!("answered Fetch {} where {expected} was due", fetched.correlation_id));
        }
        if fetched.error_code != 0 {
            return Err(format!("refused a Fetch: {}", error_name(fetched.error_code)));
        }
        Ok(refused)
    }

    fn take(&mut self, found: FetchedPartition<'_>, at_ns: u64) -> Result<(), Why> {
        let Some(&(mut lane)) = self.lanes.get(&found.partition) else { return Ok(()) };
        if error_name(found.error_code) == "OFFSET_OUT_OF_RANGE" {
            // Retention was faster. What it took is missing in the end. Not every broker tells here where the log begins.
            if found.log_start <= lane.next {
                return Err(Why::OutOfRange);
            }
            self.skip_to(found.partition, found.log_start);
            return Ok(());
        }
        if found.error_code != 0 {
            return Err(Why::Refused);
        }
        lane.end = lane.end.max(found.high_watermark);
        for batch in batches(found.record_set) {
            // The last batch of an answer may be torn; it comes again.
            let Ok(batch) = batch else { break };
            let header = batch.header;
            if header.last_offset() < lane.next {
                continue;
            }
            if header.base_offset >= lane.from && !header.is_control() {
                self.records += u64::from(header.record_count.unsigned_abs());
                self.bytes += batch.bytes.len() as u64;
            }
            self.join.arrived(found.partition, header.base_offset, header.last_offset(), at_ns);
            lane.next = header.last_offset().saturating_add(1);
        }
        lane.end = lane.end.max(lane.next);
        self.follow(found.partition, |known| *known = lane);
        Ok(())
    }
}

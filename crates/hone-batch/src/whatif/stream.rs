//! Records of a topic's window, by producer and in the order of their times.
//!
//! A batch has millisecond times. Hone spreads records of one producer, partition and millisecond evenly over it, from a random start: the
//! j-th of k is at (j+u)/k of the millisecond, with a u from 0 to 1 that depends only on the millisecond and the partition. So every run
//! gets the same times, and the distance of two records is right on average. The middle of the millisecond for all would make ties with
//! lingers of whole milliseconds. This hides bursts: the data does not show events within a millisecond (mostly relevant for a linger of
//! 0).

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

use hone_kafka::batch::{Batch, TimestampType};
use hone_kafka::codec::{self, Codec};
use hone_kafka::partitioner::{murmur2, partition_of_key};
use hone_kafka::wire::{Reader, WireError};

use super::Dice;
use crate::scan::{Passed, scan};

/// Stands for "no key" among the hashes of keys, which have 31 bits.
pub const NO_KEY: u32 = u32::MAX;
/// Smaller steps back in time come from the clocks of several threads and are no jump, in milliseconds.
const SLIGHTLY_MS: i64 = 10;
/// Above this share of steps back, times are unusable.
const MOST_BACKWARDS: f64 = 0.01;
/// Above this share of compacted batches, a topic is unusable.
const MOST_COMPACTED: f64 = 0.001;
/// Plausible times of records, in milliseconds since 1970: up to the year 2100. Multiplied by a thousand they are far from an overflow.
const SANE_MS: RangeInclusive<i64> = 0..=4_102_444_800_000;
/// Above this share of batches with other times, a topic is unusable.
const MOST_UNTIMED: f64 = 0.01;
/// Tolerance for slightly wrong clocks, and for batches that begin just before the window.
const MARGIN_MS: i64 = 60_000;
/// Fewer batches have no strays.
const FEWEST_FOR_STRAYS: usize = 100;
/// The longest plausible span in a batch's header: a day.
const SPAN_MS_MOST: i64 = 86_400_000;
/// Number of keys that are tested with the partitioner.
const MOST_KEYS_TRIED: u64 = 20_000;

/// Memory limits.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Records; some 60 bytes each while they are collected.
    pub records: usize,
    /// Limit of a decompressed batch, in bytes.
    pub batch_bytes: usize,
    /// Bytes of records that are kept for recompression; 0 keeps no payload.
    pub kept_bytes: usize,
    /// The same, of one producer and partition.
    pub kept_bytes_each: usize,
    /// Whether batches are decompressed for the times and the sizes of their records. Otherwise the headers must be enough: Hone assumes
    /// equal records that are evenly spread over their batch's time, and knows nothing about keys.
    pub reads_records: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            records: 5_000_000,
            batch_bytes: 64 << 20,
            kept_bytes: 64 << 20,
            kept_bytes_each: 4 << 20,
            reads_records: true,
        }
    }
}

/// The producer of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// By the id that stands in its batches.
    Id(i64),
    /// The batches have no id: the n-th of the least number of producers, because that many batches of a partition were open at a time.
    /// There may have been more.
    AtLeast(u32),
}

impl Who {
    /// Whether its batches have no id.
    pub fn is_nameless(self) -> bool {
        matches!(self, Self::AtLeast(_))
    }
}

/// Records in flat arrays, all of the same length, in the order of time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stream {
    /// Microseconds after the window's begin.
    pub at_us: Vec<u64>,
    /// Number of the partition.
    pub partition: Vec<u32>,
    /// Bytes of the encoded record, without its length and its two deltas, which depend on the batch.
    pub body_bytes: Vec<u32>,
    /// murmur2 of the key, 31 bits; [`NO_KEY`] without one.
    pub key_hash: Vec<u32>,
    /// Indices into these arrays, ascending: after each of these records the producer ended a transaction, which sends everything open.
    pub commits: Vec<u32>,
}

/// A batch as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Number of the partition.
    pub partition: u32,
    /// Time of its first record, microseconds after the window's begin.
    pub begin_us: u64,
    /// From its first record's time to the last one's, in milliseconds.
    pub span_ms: u64,
    /// Records.
    pub records: u32,
    /// All of it, as sent.
    pub wire_bytes: u32,
    /// Its uncompressed records, without the batch's header.
    pub plain_bytes: u32,
    /// Its codec.
    pub codec: Codec,
    /// Whether it belongs to a transaction.
    pub is_transactional: bool,
}

/// Records of a partition that are kept for recompression: the bytes after the deltas of each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Kept {
    /// The records, in the order of offsets, from their keys' lengths on.
    pub fn tails(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).filter_map(|(from, to)| self.bytes.get(from as usize..*to as usize))
    }

    /// Their bytes.
    pub fn total_bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// One producer of the window.
#[derive(Debug, Clone)]
pub struct Producer {
    /// Its name.
    pub who: Who,
    /// Its records.
    pub stream: Stream,
    /// Its batches, in the order of their beginning.
    pub written: Vec<Written>,
    /// Records kept for recompression, by partition.
    pub kept: BTreeMap<u32, Kept>,
}

/// Why records can't be replayed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Gate {
    /// No batch of data at all.
    #[error("there are no records in the window; read a longer time (--last), or another topic")]
    Empty,
    /// The times are the broker's, and the producers' times are lost.
    #[error(
        "the topic has LogAppendTime and {lost} of {batches} batches have one time for all records (the \
         broker recompressed them), so the data does not show when records were made"
    )]
    LogAppend {
        /// Batches without the producer's times.
        lost: u64,
        /// Batches.
        batches: u64,
    },
    /// Compaction removed records.
    #[error(
        "{compacted} of {batches} batches are compacted, so the batches that producers sent no longer exist; \
         read newer data, or another topic"
    )]
    Compacted {
        /// Batches that lost records.
        compacted: u64,
        /// Batches.
        batches: u64,
    },
    /// The application sets the times of records, or clocks jump.
    #[error(
        "{backwards} of {steps} steps between records run backwards by more than {SLIGHTLY_MS} ms: the \
         application sets the times, or clocks jumped, so they do not show when records were sent"
    )]
    Backwards {
        /// Steps back.
        backwards: u64,
        /// Steps.
        steps: u64,
    },
    /// Sequence numbers show missing batches.
    #[error(
        "{missing} records of {records} are missing between the batches of producers, by their sequence numbers: the window has holes"
    )]
    Holes {
        /// Missing records.
        missing: u64,
        /// Existing records.
        records: u64,
    },
    /// Missing or implausible times.
    #[error(
        "{untimed} of {batches} batches have times before 1970 or after 2100: the application sets the \
         times, or there are none"
    )]
    Untimed {
        /// Batches with such times.
        untimed: u64,
        /// Batches.
        batches: u64,
    },
    /// More than the memory limit.
    #[error(
        "more than {most} records in the window; read a shorter time (--last), or allow more (--max-records)"
    )]
    TooMany {
        /// The bound.
        most: usize,
    },
}

/// The contents of the window besides its records: part of every prediction's notes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Circumstances {
    /// Batches of data.
    pub batches: u64,
    /// Batches of transactions, whose end closes them whatever the linger.
    pub transactional: u64,
    /// Markers.
    pub control: u64,
    /// Missing batches that could not be decompressed.
    pub unreadable: u64,
    /// Batches without a producer id.
    pub nameless: u64,
    /// Batches with the broker's time whose records still have the producer's.
    pub log_append: u64,
    /// Keyed records in their murmur2 partition, of those that were tested. `None` if the number of partitions is unknown.
    pub keys_by_murmur2: Option<(u64, u64)>,
    /// Records with a key.
    pub keyed: u64,
    /// Records.
    pub records: u64,
    /// Batches whose times are outside the window, or so far from nearly all others that they do not belong to it; they are left out.
    pub out_of_window: u64,
    /// Other contents.
    pub passed: Passed,
    /// Records were not read.
    pub is_by_headers: bool,
}

/// Records of a window, by producer.
#[derive(Debug, Clone)]
pub struct Gathered {
    /// Most records first.
    pub producers: Vec<Producer>,
    /// Milliseconds since 1970 at which `at_us` is 0.
    pub begin_ms: i64,
    /// From the first record to the last one, in microseconds.
    pub span_us: u64,
    /// What else was there.
    pub circumstances: Circumstances,
}

#[derive(Debug, Default)]
struct Raw {
    at_ms: Vec<i64>,
    partition: Vec<u32>,
    body_bytes: Vec<u32>,
    key_hash: Vec<u32>,
    /// Whether a record is the last of its partition before a transaction's end.
    is_last: Vec<bool>,
    written: Vec<(i64, Written)>,
    kept: BTreeMap<u32, Kept>,
}

/// The state of a partition.
#[derive(Debug, Default)]
struct Lane {
    /// Time of the last record of each producer, and its index among that producer's.
    last: BTreeMap<Who, (i64, usize)>,
    /// Begin of the last batch, in milliseconds.
    seen_ms: Option<i64>,
    /// End of the last batch of each nameless producer, in milliseconds.
    ends_ms: Vec<i64>,
    /// Epoch and next sequence by producer id.
    next: BTreeMap<i64, (i16, i32)>,
}

/// Adds batches, in the order of offsets within a partition, and returns the producers' records.
#[derive(Debug)]
pub struct Gatherer {
    limits: Limits,
    partitions: Option<u32>,
    lanes: BTreeMap<u32, Lane>,
    raw: BTreeMap<Who, Raw>,
    found: Circumstances,
    kept_bytes: usize,
    compacted: u64,
    one_time: u64,
    backwards: u64,
    missing: u64,
    untimed: u64,
    is_full: bool,
    until_ms: Option<i64>,
    window_ms: RangeInclusive<i64>,
}

impl Gatherer {
    /// With the number of partitions of the topic, if known.
    pub fn new(limits: Limits, partitions: Option<u32>) -> Self {
        Self {
            limits,
            partitions,
            lanes: BTreeMap::new(),
            raw: BTreeMap::new(),
            found: Circumstances { is_by_headers: !limits.reads_records, ..Circumstances::default() },
            kept_bytes: 0,
            compacted: 0,
            one_time: 0,
            backwards: 0,
            missing: 0,
            untimed: 0,
            is_full: false,
            until_ms: None,
            window_ms: SANE_MS,
        }
    }

    /// Drops batches whose times are more than a minute outside a window, in milliseconds since 1970.
    #[must_use]
    pub fn within(mut self, from_ms: Option<i64>, to_ms: i64) -> Self {
        let from_ms = from_ms.map_or(*SANE_MS.start(), |from_ms| from_ms.saturating_sub(MARGIN_MS));
        self.window_ms = from_ms.max(*SANE_MS.start())..=to_ms.saturating_add(MARGIN_MS).min(*SANE_MS.end());
        self
    }

    /// Whether the limit of records is reached, so that no more are added.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// If reading ends early, partitions end at different times. Drops what is after the time that all incomplete partitions have reached,
    /// so that the window is the same for all.
    pub fn cut_to_common_end(&mut self, is_unfinished: impl Fn(u32) -> bool) {
        let unfinished = self.lanes.iter().filter(|(partition, _)| is_unfinished(**partition));
        self.until_ms = unfinished.filter_map(|(_, lane)| lane.seen_ms).min();
        self.is_full &= self.until_ms.is_none();
    }

    /// Adds the batches of a record set that begin at the wanted offsets. Returns the offset after its last complete batch, whether it was
    /// added or not.
    pub fn add_set(&mut self, partition: u32, record_set: &[u8], wanted: Range<i64>) -> Option<i64> {
        let (passed, next) = scan(record_set, wanted.start, |seen, bytes| {
            if seen.header.base_offset < wanted.end {
                self.add(partition, &Batch { header: seen.header, bytes, position: 0 });
            }
        });
        self.pass_over(&passed);
        next
    }

    /// Counts what was no batch.
    pub fn pass_over(&mut self, passed: &Passed) {
        self.found.passed.add(passed);
    }

    /// Adds one complete batch. A batch that can't be decompressed is counted and left out.
    pub fn add(&mut self, partition: u32, batch: &Batch<'_>) {
        let header = &batch.header;
        if header.is_control() {
            self.found.control += 1;
            return self.end_transaction(partition, header.producer_id);
        }
        if header.is_compacted() {
            self.compacted += 1;
            self.found.batches += 1;
            return;
        }
        let count = usize::try_from(header.record_count).unwrap_or(0);
        if count == 0 || self.is_full {
            return;
        }
        if !self.is_in_window(header.base_timestamp) {
            return self.leave_out(partition, batch);
        }
        if self.found.records as usize + count > self.limits.records {
            self.is_full = true;
            return;
        }
        if !self.limits.reads_records {
            let payload = batch.payload();
            match evenly(batch, count) {
                Some(records) => self.take(partition, batch, payload.len(), &records),
                None => self.found.unreadable += 1,
            }
            return;
        }
        let plain = match header.codec() {
            Codec::None => None,
            packed => match codec::decompress(packed, batch.payload(), self.limits.batch_bytes) {
                Ok(plain) => Some(plain),
                Err(_) => return self.found.unreadable += 1,
            },
        };
        let plain = plain.as_deref().unwrap_or(batch.payload());
        let Ok(records) = walk(plain, count) else {
            self.found.unreadable += 1;
            return;
        };
        let last_ms = records.iter().map(|record| header.base_timestamp.saturating_add(record.delta_ms));
        if last_ms.max().is_some_and(|last_ms| !self.is_in_window(last_ms)) {
            return self.leave_out(partition, batch);
        }
        self.take(partition, batch, plain.len(), &records);
    }

    /// A marker comes after the last record that the transaction has in its partition.
    fn end_transaction(&mut self, partition: u32, producer_id: i64) {
        let who = Who::Id(producer_id);
        let last = self.lanes.get(&partition).and_then(|lane| lane.last.get(&who));
        let is_last =
            last.zip(self.raw.get_mut(&who)).and_then(|((_, place), raw)| raw.is_last.get_mut(*place));
        if let Some(is_last) = is_last {
            *is_last = true;
        }
    }

    fn is_in_window(&self, at_ms: i64) -> bool {
        self.window_ms.contains(&at_ms)
    }

    /// Its sequence number counts all the same: no batch is missing there.
    fn leave_out(&mut self, partition: u32, batch: &Batch<'_>) {
        self.missing += self.lanes.entry(partition).or_default().missing(batch);
        if SANE_MS.contains(&batch.header.base_timestamp) {
            self.found.out_of_window += 1;
        } else {
            self.untimed += 1;
        }
    }

    fn take(&mut self, partition: u32, batch: &Batch<'_>, plain_bytes: usize, records: &[Walked<'_>]) {
        let header = &batch.header;
        let last_ms = records.iter().map(|record| record.delta_ms).max().unwrap_or(0);
        let end_ms = header.base_timestamp.saturating_add(last_ms.max(0));
        let is_brokers = header.timestamp_type() == TimestampType::LogAppend;
        self.found.batches += 1;
        self.found.records += records.len() as u64;
        self.found.transactional += u64::from(header.is_transactional());
        self.found.nameless += u64::from(header.producer_id < 0);
        self.found.log_append += u64::from(is_brokers);
        let is_lost = header.base_timestamp == header.max_timestamp && last_ms == 0;
        self.one_time += u64::from(is_brokers && (is_lost || !self.limits.reads_records));
        let lane = self.lanes.entry(partition).or_default();
        lane.seen_ms = lane.seen_ms.max(Some(header.base_timestamp));
        self.missing += lane.missing(batch);
        let who = match header.producer_id {
            id if id >= 0 => Who::Id(id),
            _ => Who::AtLeast(lane.colour(header.base_timestamp, end_ms)),
        };
        let mut latest_ms = lane.last.get(&who).map(|(last_ms, _)| *last_ms);
        let raw = self.raw.entry(who).or_default();
        let written = Written {
            partition,
            begin_us: 0,
            span_ms: u64::try_from(last_ms).unwrap_or(0),
            records: records.len() as u32,
            wire_bytes: u32::try_from(batch.bytes.len()).unwrap_or(u32::MAX),
            plain_bytes: u32::try_from(plain_bytes).unwrap_or(u32::MAX),
            codec: header.codec(),
            is_transactional: header.is_transactional(),
        };
        raw.written.push((header.base_timestamp, written));
        for record in records {
            let told_ms = header.base_timestamp.saturating_add(record.delta_ms);
            let before_ms = latest_ms.unwrap_or(told_ms);
            self.backwards += u64::from(told_ms < before_ms.saturating_sub(SLIGHTLY_MS));
            let at_ms = told_ms.max(before_ms);
            latest_ms = Some(at_ms);
            let hash = record.key.map_or(NO_KEY, |key| murmur2(key) & 0x7fff_ffff);
            if let Some(key) = record.key {
                self.found.keyed += 1;
                try_key(&mut self.found.keys_by_murmur2, key, partition, self.partitions);
            }
            raw.at_ms.push(at_ms);
            raw.partition.push(partition);
            raw.body_bytes.push(u32::try_from(record.tail.len() + 1).unwrap_or(u32::MAX));
            raw.key_hash.push(hash);
            raw.is_last.push(false);
            if self.limits.kept_bytes == 0 {
                continue;
            }
            let kept = raw.kept.entry(partition).or_default();
            let room = self.limits.kept_bytes_each.saturating_sub(kept.bytes.len());
            if record.tail.len() <= room.min(self.limits.kept_bytes.saturating_sub(self.kept_bytes)) {
                kept.bytes.extend_from_slice(record.tail);
                kept.ends.push(u32::try_from(kept.bytes.len()).unwrap_or(u32::MAX));
                self.kept_bytes += record.tail.len();
            }
        }
        if let Some(latest_ms) = latest_ms {
            lane.last.insert(who, (latest_ms, raw.at_ms.len().saturating_sub(1)));
        }
    }

    /// The producers, after everything was added.
    ///
    /// # Errors
    /// Fails when the window can't be replayed, with the reason.
    pub fn finish(mut self) -> Result<Gathered, Gate> {
        if let Some(until_ms) = self.until_ms {
            self.keep(i64::MIN..=until_ms.saturating_sub(1));
        }
        self.gate()?;
        self.leave_strays_out();
        let times = || self.raw.values().flat_map(|raw| raw.at_ms.iter().copied());
        let (Some(begin_ms), Some(end_ms)) = (times().min(), times().max()) else { return Err(Gate::Empty) };
        let span_us = u64::try_from(end_ms.saturating_sub(begin_ms)).unwrap_or(0).saturating_mul(1_000);
        let mut producers: Vec<Producer> =
            self.raw.into_iter().map(|(who, raw)| ordered(who, raw, begin_ms)).collect();
        producers.sort_by_key(|producer| (std::cmp::Reverse(producer.stream.at_us.len()), producer.who));
        Ok(Gathered { producers, begin_ms, span_us, circumstances: self.found })
    }

    /// Keeps the batches that begin within these times.
    fn keep(&mut self, times_ms: RangeInclusive<i64>) {
        self.raw.values_mut().for_each(|raw| raw.cut(&times_ms));
        self.raw.retain(|_, raw| !raw.at_ms.is_empty());
        self.found.records = self.raw.values().map(|raw| raw.at_ms.len() as u64).sum();
        self.found.batches = self.raw.values().map(|raw| raw.written.len() as u64).sum();
    }

    /// One stale record would stretch a window of minutes to years, and every rate with it. At most one batch in a thousand at either end,
    /// and at least one, is left out if it is farther from all others than those are from each other.
    fn leave_strays_out(&mut self) {
        let written = self.raw.values().flat_map(|raw| &raw.written);
        let mut begins_ms: Vec<i64> = written.map(|(base_ms, _)| *base_ms).collect();
        if begins_ms.len() < FEWEST_FOR_STRAYS {
            return;
        }
        begins_ms.sort_unstable();
        let few = (begins_ms.len() / 1_000).max(1);
        let (Some(low_ms), Some(high_ms)) = (begins_ms.get(few), begins_ms.get(begins_ms.len() - 1 - few))
        else {
            return;
        };
        let far_ms = high_ms.saturating_sub(*low_ms).max(MARGIN_MS);
        let kept_ms = low_ms.saturating_sub(far_ms)..=high_ms.saturating_add(far_ms);
        let strays = begins_ms.iter().filter(|begin_ms| !kept_ms.contains(begin_ms)).count();
        if strays > 0 {
            self.keep(kept_ms);
            self.found.out_of_window += strays as u64;
        }
    }

    fn gate(&self) -> Result<(), Gate> {
        let Circumstances { batches, records, log_append, .. } = self.found;
        if self.untimed as f64 > MOST_UNTIMED * (batches + self.untimed) as f64 {
            return Err(Gate::Untimed { untimed: self.untimed, batches: batches + self.untimed });
        }
        if self.is_full {
            return Err(Gate::TooMany { most: self.limits.records });
        }
        if self.compacted as f64 > MOST_COMPACTED * batches as f64 {
            return Err(Gate::Compacted { compacted: self.compacted, batches });
        }
        if records == 0 {
            return Err(Gate::Empty);
        }
        // One record has one time, and so have batches that were filled within a millisecond; but all of them together have several.
        if log_append > 0 && self.one_time * 2 > batches {
            return Err(Gate::LogAppend { lost: self.one_time, batches });
        }
        if self.backwards as f64 > MOST_BACKWARDS * records as f64 {
            return Err(Gate::Backwards { backwards: self.backwards, steps: records });
        }
        if self.missing * 100 > records {
            return Err(Gate::Holes { missing: self.missing, records });
        }
        Ok(())
    }
}

/// A record as it lies in a batch.
struct Walked<'a> {
    delta_ms: i64,
    key: Option<&'a [u8]>,
    tail: &'a [u8],
}

/// Records of a batch according to its header: of one size, and evenly from its first time to its last. `None` for an impossible number.
fn evenly<'a>(batch: &Batch<'a>, count: usize) -> Option<Vec<Walked<'a>>> {
    let (header, payload) = (&batch.header, batch.payload());
    if header.codec() == Codec::None && count > payload.len() / 7 {
        return None;
    }
    let span_ms = header.max_timestamp.saturating_sub(header.base_timestamp).clamp(0, SPAN_MS_MOST);
    let each = payload.len() / count.max(1);
    // Two deltas, the attributes and the length, which takes two bytes from 64 on.
    let tail = payload.get(..each.saturating_sub(4 + usize::from(each >= 66)))?;
    let steps = count.saturating_sub(1).max(1) as i64;
    let at = |place: usize| Walked { delta_ms: span_ms * place as i64 / steps, key: None, tail };
    Some((0..count).map(at).collect())
}

/// The records of a batch. Their lengths are checked; the bytes after the key are not parsed.
fn walk(plain: &[u8], count: usize) -> Result<Vec<Walked<'_>>, WireError> {
    let mut reader = Reader::new(plain);
    // Even an empty record has seven bytes, so a count can't request more memory than there are bytes.
    let mut all = Vec::with_capacity(count.min(plain.len() / 7 + 1));
    for _ in 0..count {
        let length = reader.varint("record length")?;
        let length = usize::try_from(length)
            .map_err(|_| WireError::Length { field: "record length", length: i64::from(length) })?;
        let mut body = Reader::new(reader.take(length, "record")?);
        body.i8("record attributes")?;
        let delta_ms = body.varlong("timestamp delta")?;
        body.varint("offset delta")?;
        let tail = body.rest();
        let key = match body.varint("key")? {
            length if length < 0 => None,
            length => Some(body.take(length as usize, "key")?),
        };
        all.push(Walked { delta_ms, key, tail });
    }
    match reader.rest().len() {
        0 => Ok(all),
        left => Err(WireError::Trailing { left }),
    }
}

fn try_key(tried: &mut Option<(u64, u64)>, key: &[u8], partition: u32, partitions: Option<u32>) {
    let Some(partitions) = partitions else { return };
    let (hits, all) = tried.get_or_insert((0, 0));
    if *all < MOST_KEYS_TRIED {
        *all += 1;
        *hits += u64::from(partition_of_key(key, partitions) == partition);
    }
}

impl Lane {
    /// The first nameless producer whose last batch had ended. One that ended in the same millisecond can be the same producer.
    fn colour(&mut self, begin_ms: i64, end_ms: i64) -> u32 {
        /// Further colours are combined.
        const MOST: usize = 1_000;
        let free = self.ends_ms.iter().position(|end| *end <= begin_ms);
        let colour = free.unwrap_or(self.ends_ms.len()).min(MOST);
        match self.ends_ms.get_mut(colour) {
            Some(end) => *end = end_ms.max(*end),
            None => self.ends_ms.push(end_ms),
        }
        colour as u32
    }

    /// Records that are missing before a batch, according to the sequence numbers.
    fn missing(&mut self, batch: &Batch<'_>) -> u64 {
        let header = &batch.header;
        if header.producer_id < 0 || header.base_sequence < 0 {
            return 0;
        }
        // Sequence numbers restart at 0 after the largest.
        let after = |sequence: i32, count: i32| (i64::from(sequence) + i64::from(count)) % (1 << 31);
        let next = after(header.base_sequence, header.record_count) as i32;
        let before = self.next.insert(header.producer_id, (header.producer_epoch, next));
        match before {
            Some((epoch, expected)) if epoch == header.producer_epoch => {
                let gap = (i64::from(header.base_sequence) - i64::from(expected)).rem_euclid(1 << 31);
                // A repeated batch is no gap.
                if gap < 1 << 30 { gap as u64 } else { 0 }
            }
            _ => 0,
        }
    }
}

impl Raw {
    /// Drops batches that begin at other times, with their records.
    fn cut(&mut self, times_ms: &RangeInclusive<i64>) {
        let mut keeps = Vec::with_capacity(self.at_ms.len());
        for (base_ms, batch) in &self.written {
            keeps.resize(keeps.len() + batch.records as usize, times_ms.contains(base_ms));
        }
        fn retain<T: Copy>(values: &mut Vec<T>, keeps: &[bool]) {
            let mut keep = keeps.iter();
            values.retain(|_| keep.next().copied().unwrap_or(false));
        }
        retain(&mut self.at_ms, &keeps);
        retain(&mut self.partition, &keeps);
        retain(&mut self.body_bytes, &keeps);
        retain(&mut self.key_hash, &keeps);
        retain(&mut self.is_last, &keeps);
        self.written.retain(|(base_ms, _)| times_ms.contains(base_ms));
    }
}

fn ordered(who: Who, raw: Raw, begin_ms: i64) -> Producer {
    let mut order: Vec<u32> = (0..raw.at_ms.len() as u32).collect();
    let ms = |index: u32| raw.at_ms.get(index as usize).copied().unwrap_or(begin_ms);
    let partition = |index: u32| raw.partition.get(index as usize).copied().unwrap_or(0);
    // Stable: records of a partition stay in the order of offsets.
    order.sort_by_key(|index| (ms(*index), partition(*index)));
    let mut timed: Vec<(u64, u32)> = Vec::with_capacity(order.len());
    for same in order.chunk_by(|one, other| ms(*one) == ms(*other) && partition(*one) == partition(*other)) {
        let Some(first) = same.first().copied() else { continue };
        let since_ms = ms(first).saturating_sub(begin_ms).max(0) as u64;
        let base_us = since_ms * 1_000;
        let begin = Dice::new(since_ms << 20 ^ u64::from(partition(first))).unit();
        let count = same.len() as f64;
        let within = (0..same.len()).map(|place| (1e3 * (place as f64 + begin) / count) as u64);
        timed.extend(same.iter().zip(within).map(|(index, within_us)| (base_us + within_us, *index)));
    }
    timed.sort_by_key(|(at_us, index)| (*at_us, partition(*index)));
    let pick = |from: &[u32]| {
        timed.iter().map(|(_, index)| from.get(*index as usize).copied().unwrap_or(0)).collect()
    };
    let stream = Stream {
        at_us: timed.iter().map(|(at_us, _)| *at_us).collect(),
        partition: pick(&raw.partition),
        body_bytes: pick(&raw.body_bytes),
        key_hash: pick(&raw.key_hash),
        commits: commits(&raw, &timed),
    };
    let mut written: Vec<Written> = raw
        .written
        .iter()
        .map(|(base_ms, batch)| Written {
            begin_us: base_ms.saturating_sub(begin_ms).max(0) as u64 * 1_000,
            ..*batch
        })
        .collect();
    written.sort_by_key(|batch| batch.begin_us);
    Producer { who, stream, written, kept: raw.kept }
}

/// The ends of transactions among the records of all partitions in their order. In each partition a transaction ends somewhere between its
/// last record there and the next one. The fewest positions that are in all of these ranges are the transactions.
fn commits(raw: &Raw, timed: &[(u64, u32)]) -> Vec<u32> {
    let mut next: BTreeMap<u32, u32> = BTreeMap::new();
    // From the last record's index to that of the next one, by the latter.
    let mut stretches: Vec<(u32, u32)> = Vec::new();
    for (place, (_, index)) in timed.iter().enumerate().rev() {
        let (place, index) = (place as u32, *index as usize);
        let partition = raw.partition.get(index).copied().unwrap_or(0);
        let behind = next.insert(partition, place).unwrap_or(timed.len() as u32);
        if raw.is_last.get(index).copied().unwrap_or(false) {
            stretches.push((behind, place));
        }
    }
    stretches.sort_unstable();
    let mut found: Vec<u32> = Vec::new();
    // For overlapping ranges: the first end, and the last beginning.
    let mut open: Option<(u32, u32)> = None;
    for (behind, last) in stretches {
        open = match open {
            Some((end, place)) if last < end => Some((end, place.max(last))),
            before => {
                found.extend(before.map(|(_, place)| place));
                Some((behind, last))
            }
        };
    }
    found.extend(open.map(|(_, place)| place));
    found
}

impl Stream {
    /// Records.
    pub fn len(&self) -> usize {
        self.at_us.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.at_us.is_empty()
    }

    /// Adds a record, which must not be earlier than the last.
    pub fn push(&mut self, at_us: u64, partition: u32, body_bytes: u32, key_hash: u32) {
        self.at_us.push(at_us);
        self.partition.push(partition);
        self.body_bytes.push(body_bytes);
        self.key_hash.push(key_hash);
    }

    /// One more than the largest partition.
    pub fn partitions(&self) -> u32 {
        self.partition.iter().max().map_or(0, |most| most.saturating_add(1))
    }

    /// Combines the records of several producers.
    pub fn merged(streams: &[&Self]) -> Self {
        let total = streams.iter().map(|stream| stream.len()).sum();
        let mut order: Vec<(u64, u32, u32)> = Vec::with_capacity(total);
        for (which, stream) in streams.iter().enumerate() {
            order.extend(stream.at_us.iter().enumerate().map(|(at, us)| (*us, which as u32, at as u32)));
        }
        order.sort_unstable();
        let mut all = Self::default();
        for (at_us, which, at) in order {
            let Some(from) = streams.get(which as usize) else { continue };
            let at = at as usize;
            let of = |values: &[u32]| values.get(at).copied().unwrap_or(0);
            all.push(at_us, of(&from.partition), of(&from.body_bytes), of(&from.key_hash));
            if from.commits.binary_search(&(at as u32)).is_ok() {
                all.commits.push(all.at_us.len() as u32 - 1);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use hone_kafka::BatchBuilder;
    use hone_kafka::batch::{batches, set_base_offset, set_log_append_time, set_producer};
    use proptest::prelude::*;

    use super::*;

    const BEGIN_MS: i64 = 1_700_000_000_000;

    fn built(codec: Codec, times_ms: &[i64]) -> Vec<u8> {
        let mut builder = BatchBuilder::new(codec);
        for at in times_ms {
            builder.push(None, Some(b"a value of some bytes"), BEGIN_MS + at);
        }
        builder.build().unwrap()
    }

    fn of(id: i64, sequence: i32, times_ms: &[i64]) -> Vec<u8> {
        let mut bytes = built(Codec::None, times_ms);
        set_producer(&mut bytes, id, 0, sequence).unwrap();
        bytes
    }

    fn gather(sets: &[(u32, Vec<u8>)]) -> Result<Gathered, Gate> {
        let mut gatherer = Gatherer::new(Limits::default(), Some(4));
        for (partition, bytes) in sets {
            batches(bytes).map(Result::unwrap).for_each(|batch| gatherer.add(*partition, &batch));
        }
        gatherer.finish()
    }

    #[test]
    fn records_of_a_producer_are_merged_by_time_and_those_of_others_kept_apart() {
        let found = gather(&[
            (0, of(7, 0, &[0, 5])),
            (0, of(8, 0, &[6])),
            (1, of(7, 0, &[3, 9])),
            (0, of(7, 2, &[8])),
        ])
        .unwrap();
        assert_eq!(found.producers.len(), 2);
        let (first, second) = (&found.producers[0], &found.producers[1]);
        assert_eq!((first.who, second.who), (Who::Id(7), Who::Id(8)));
        let ms: Vec<_> = first.stream.at_us.iter().map(|us| us / 1_000).collect();
        assert_eq!(ms, [0, 3, 5, 8, 9]);
        assert_eq!(first.stream.partition, [0, 1, 0, 0, 1]);
        assert_eq!((found.span_us, found.begin_ms), (9_000, BEGIN_MS));
        assert_eq!(first.written.iter().map(|batch| batch.begin_us).collect::<Vec<_>>(), [0, 3_000, 8_000]);
        assert_eq!((first.written[0].span_ms, first.written[0].records), (5, 2));
    }

    #[test]
    fn records_of_a_millisecond_are_spread_over_it_the_same_way_each_time() {
        let sets = [(0, of(1, 0, &[4, 4, 4, 4])), (1, of(1, 0, &[4, 4]))];
        let found = gather(&sets).unwrap();
        let stream = &found.producers[0].stream;
        let of = |partition| {
            let each = stream.at_us.iter().zip(&stream.partition);
            each.filter(|(_, own)| **own == partition).map(|(us, _)| *us).collect::<Vec<_>>()
        };
        let steps: Vec<_> = of(0).windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps.iter().all(|step| (249..=251).contains(step)), "{steps:?}");
        assert!((499..=501).contains(&(of(1)[1] - of(1)[0])));
        assert!(stream.at_us.is_sorted() && stream.at_us.iter().all(|us| *us < 1_000));
        assert_eq!(found.producers[0].stream, gather(&sets).unwrap().producers[0].stream);
    }

    #[test]
    fn bodies_and_kept_records_are_those_of_any_codec() {
        let plain = gather(&[(0, built(Codec::None, &[0, 1, 2]))]).unwrap();
        for codec in Codec::ALL {
            let found = gather(&[(0, built(codec, &[0, 1, 2]))]).unwrap();
            let producer = &found.producers[0];
            assert_eq!(producer.stream, plain.producers[0].stream, "{}", codec.name());
            assert_eq!(producer.kept, plain.producers[0].kept);
            assert_eq!(producer.written[0].plain_bytes, 3 * (1 + 1 + 1 + 1 + 1 + 1 + 21 + 1));
            assert_eq!(producer.stream.body_bytes, [1 + 1 + 1 + 21 + 1; 3]);
            assert_eq!(producer.kept[&0].tails().count(), 3);
        }
    }

    #[test]
    fn batches_without_an_id_are_of_as_many_producers_as_were_open_at_a_time() {
        let found = gather(&[
            (0, built(Codec::None, &[0, 10])),
            (0, built(Codec::None, &[4, 14])),
            (0, built(Codec::None, &[10, 20])),
            (1, built(Codec::None, &[2, 9])),
        ])
        .unwrap();
        let who: Vec<_> =
            found.producers.iter().map(|producer| (producer.who, producer.written.len())).collect();
        assert_eq!(who, [(Who::AtLeast(0), 3), (Who::AtLeast(1), 1)]);
        assert_eq!(found.circumstances.nameless, 4);
    }

    #[test]
    fn what_can_not_be_replayed_is_refused_with_the_reason() {
        assert_eq!(gather(&[]).unwrap_err(), Gate::Empty);
        let mut one = built(Codec::None, &[5, 5, 5]);
        set_log_append_time(&mut one, BEGIN_MS + 5).unwrap();
        assert!(matches!(gather(&[(0, one)]), Err(Gate::LogAppend { lost: 1, batches: 1 })));
        let mut whole = built(Codec::None, &[0, 3, 5]);
        set_log_append_time(&mut whole, BEGIN_MS + 9).unwrap();
        let found = gather(&[(0, whole)]).unwrap();
        let ms: Vec<_> = found.producers[0].stream.at_us.iter().map(|us| us / 1_000).collect();
        assert_eq!(ms, [0, 3, 5], "the producer's times survive");
        let mut thin = built(Codec::None, &[0, 1]);
        thin[57..61].copy_from_slice(&1_i32.to_be_bytes());
        assert!(matches!(gather(&[(0, thin)]), Err(Gate::Compacted { .. })));
        assert!(matches!(gather(&[(0, of(1, 0, &[5_000, 0, 1, 2]))]), Err(Gate::Backwards { .. })));
        assert!(matches!(
            gather(&[(0, of(1, 0, &[0, 1])), (0, of(1, 90, &[5, 6]))]),
            Err(Gate::Holes { missing: 88, records: 4 })
        ));
        assert!(gather(&[(0, of(1, i32::MAX, &[0, 1])), (0, of(1, 1, &[5, 6]))]).is_ok(), "they wrap");
        let mut few = Gatherer::new(Limits { records: 3, ..Limits::default() }, None);
        let bytes = of(1, 0, &[0, 1]);
        for _ in 0..2 {
            few.add(0, &batches(&bytes).next().unwrap().unwrap());
        }
        assert!(few.is_full());
        assert_eq!(few.finish().unwrap_err(), Gate::TooMany { most: 3 });
    }

    #[test]
    fn times_that_can_not_be_are_refused_and_stale_ones_left_out() {
        let at = |base_ms: i64| {
            let mut builder = BatchBuilder::new(Codec::None);
            builder.push(None, Some(b"value"), base_ms);
            (0, builder.build().unwrap())
        };
        for wrong_ms in [i64::MIN, -1, SANE_MS.end() + 1, i64::MAX] {
            let sets: Vec<_> = (0..50).map(|_| at(wrong_ms)).collect();
            assert_eq!(gather(&sets).unwrap_err(), Gate::Untimed { untimed: 50, batches: 50 });
            let mut mixed: Vec<_> = (0..400).map(|index| at(BEGIN_MS + index)).collect();
            mixed.push(at(wrong_ms));
            assert_eq!(gather(&mixed).unwrap().span_us, 399_000);
        }
        let mut stale = vec![at(1_000)];
        stale.extend((0..400).map(|index| at(BEGIN_MS + index)));
        let found = gather(&stale).unwrap();
        assert_eq!(
            (found.span_us, found.begin_ms, found.circumstances.out_of_window),
            (399_000, BEGIN_MS, 1)
        );
        assert_eq!((found.circumstances.records, found.circumstances.batches), (400, 400));
        let mut windowed = Gatherer::new(Limits::default(), Some(1)).within(Some(BEGIN_MS), BEGIN_MS + 1_000);
        for (partition, bytes) in [at(BEGIN_MS - 61_000), at(BEGIN_MS), at(BEGIN_MS + 90_000)] {
            windowed.add(partition, &batches(&bytes).next().unwrap().unwrap());
        }
        let found = windowed.finish().unwrap();
        assert_eq!((found.circumstances.records, found.circumstances.out_of_window), (1, 2));
    }

    #[test]
    fn headers_alone_give_even_records_and_unpack_nothing() {
        let limits = Limits { reads_records: false, kept_bytes: 0, ..Limits::default() };
        let headers = |bytes: &[u8]| {
            let mut gatherer = Gatherer::new(limits, Some(1));
            batches(bytes).flatten().for_each(|batch| gatherer.add(0, &batch));
            gatherer.finish()
        };
        let found = headers(&built(Codec::None, &[0, 1, 2, 3, 40])).unwrap();
        let stream = &found.producers[0].stream;
        let ms: Vec<_> = stream.at_us.iter().map(|us| us / 1_000).collect();
        assert_eq!(ms, [0, 10, 20, 30, 40]);
        assert_eq!(stream.body_bytes, [1 + 1 + 1 + 21 + 1; 5]);
        assert!(stream.key_hash.iter().all(|hash| *hash == NO_KEY) && found.circumstances.is_by_headers);
        assert!(found.producers[0].kept.is_empty());
        // A batch that can't be decompressed is not needed here.
        let mut packed = built(Codec::Gzip, &[0, 5]);
        let end = packed.len();
        packed[62..end].fill(0xee);
        let found = headers(&packed).unwrap();
        assert_eq!((found.circumstances.records, found.circumstances.unreadable), (2, 0));
        let mut brokers = built(Codec::None, &[0, 3, 5]);
        set_log_append_time(&mut brokers, BEGIN_MS + 9).unwrap();
        assert!(
            matches!(headers(&brokers), Err(Gate::LogAppend { lost: 1, .. })),
            "the header has lost them"
        );
    }

    #[test]
    fn what_is_no_batch_is_counted() {
        let mut old = built(Codec::None, &[0]);
        old[16] = 1;
        let bytes = [old, built(Codec::None, &[1])].concat();
        let mut gatherer = Gatherer::new(Limits::default(), None);
        gatherer.add_set(0, &bytes, 0..i64::MAX);
        assert_eq!(gatherer.finish().unwrap().circumstances.passed.old_format, 1);
    }

    #[test]
    fn keys_say_whether_they_lie_where_murmur2_puts_them() {
        let mut gatherer = Gatherer::new(Limits::default(), Some(7));
        for key in ["abc", "foobar", "k00000000"] {
            let mut builder = BatchBuilder::new(Codec::None);
            builder.push(Some(key.as_bytes()), None, BEGIN_MS);
            let bytes = builder.build().unwrap();
            gatherer.add(partition_of_key(key.as_bytes(), 7), &batches(&bytes).next().unwrap().unwrap());
        }
        let found = gatherer.finish().unwrap();
        assert_eq!((found.circumstances.keys_by_murmur2, found.circumstances.keyed), (Some((3, 3)), 3));
    }

    #[test]
    fn kept_records_are_bounded() {
        let limits = Limits { kept_bytes: 100, kept_bytes_each: 60, ..Limits::default() };
        let mut gatherer = Gatherer::new(limits, None);
        let bytes = built(Codec::None, &[0, 1, 2, 3, 4, 5]);
        for partition in 0..3 {
            gatherer.add(partition, &batches(&bytes).next().unwrap().unwrap());
        }
        let found = gatherer.finish().unwrap();
        let kept: Vec<_> = found.producers[0].kept.values().map(Kept::total_bytes).collect();
        assert_eq!(kept, [48, 48, 0]);
        assert_eq!(found.producers[0].stream.len(), 18);
    }

    #[test]
    fn a_reading_that_ended_early_is_cut_to_a_time_that_all_partitions_have_come_to() {
        let sets = [
            (0, of(1, 0, &[0, 5])),
            (0, of(1, 2, &[50, 90])),
            (1, of(1, 0, &[3, 9])),
            (1, of(1, 2, &[40])),
            (2, of(1, 0, &[7])),
        ];
        let mut gatherer = Gatherer::new(Limits::default(), Some(3));
        for (partition, bytes) in &sets {
            gatherer.add(*partition, &batches(bytes).next().unwrap().unwrap());
        }
        // Partition 2 was read to its end, and has nothing later.
        gatherer.cut_to_common_end(|partition| partition < 2);
        let found = gatherer.finish().unwrap();
        assert_eq!((found.circumstances.records, found.circumstances.batches), (5, 3));
        assert_eq!(found.span_us, 9_000);
        assert_eq!(found.producers[0].stream.len(), 5);
    }

    proptest! {
        #[test]
        fn batches_with_bytes_changed_do_no_harm(at in 17_usize..200, to: u8, packed: bool) {
            let codec = if packed { Codec::Lz4 } else { Codec::None };
            let mut bytes = built(codec, &[0, 1, 2, 3, 4, 5]);
            set_base_offset(&mut bytes, 3).unwrap();
            let at = at.min(bytes.len() - 1);
            bytes[at] = to;
            let mut gatherer = Gatherer::new(Limits { batch_bytes: 1 << 20, ..Limits::default() }, Some(3));
            for batch in batches(&bytes).flatten() {
                gatherer.add(0, &batch);
            }
            if let Ok(found) = gatherer.finish() {
                let stream = &found.producers[0].stream;
                prop_assert!(stream.at_us.is_sorted());
                prop_assert!(stream.len() <= 6);
            }
        }
    }
}

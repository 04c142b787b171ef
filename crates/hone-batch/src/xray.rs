//! Examines a topic: takes record sets as they arrive, in bounded memory, and ends as the report on the topic.

use std::collections::{BTreeMap, HashMap};

use hone_kafka::batch::HEADER_BYTES;
use hone_record::{
    BatchTrigger, CodecUse, PartitionXray, ProducerXray, Sampled, Spread, TopicXray, XrayRead,
};

use crate::evidence::{Evidence, Kept, slot_of};
use crate::histogram::Histogram;
use crate::overlap::Overlap;
use crate::payload::Payload;
use crate::producers::Wrote;
use crate::scan::{Seen, scan};
use crate::segments::{Layout, walk};
use crate::tally::{CODECS, Tally};
use crate::trigger::{Habits, Known, habits};
use crate::verdict::{self, Topic, Writer};

/// The most producers and partitions in a report.
const MOST_PRODUCERS: usize = 50;
const MOST_PARTITIONS: usize = 1_000;
/// Limit of the producers that are distinguished per partition.
const MOST_OF_PARTITION: usize = 1_000;
/// A span of times is not plausible if it is this many times longer than nearly all of them.
const STRETCHED: f64 = 2.0;
/// More batches than this take longer than that to write.
const AT_ONCE: u64 = 1_000;
const LEAST_S: f64 = 0.05;
/// A batch that begins this much before the one before it, of the same producer and partition, shows a clock that was set back.
const BACK_MS: i64 = 1_000;
/// Least number of stretches of time for an interval.
const LEAST_SLOTS: usize = 3;

/// The depth of the examination.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Depth {
    /// Bytes of batches that are decompressed for a sample of their records; 0 reads no payload.
    pub decode_bytes: u64,
    /// The longest linger that the user tolerates.
    pub tolerable_linger_ms: f64,
}

/// Facts besides the data.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// Fetched bytes.
    pub fetched_bytes: u64,
    /// Share of the requested offsets that was read.
    pub share: f64,
    /// Requested seconds, if the request was for a time.
    pub window_s: Option<f64>,
    /// Whether it is a sample: slots of time, or of offsets.
    pub is_sample: bool,
    /// Seconds that slots of time cover.
    pub slots_s: Option<f64>,
    /// The leader of each partition, by any number.
    pub leaders: BTreeMap<i32, usize>,
    /// The parts that could not be read, in words.
    pub troubles: Vec<String>,
}

/// The state of a topic during reading.
#[derive(Debug, Clone)]
pub struct Sight {
    topic: String,
    partitions: usize,
    depth: Depth,
    tally: Tally,
    parts: BTreeMap<i32, PartitionSight>,
    evidence: Evidence,
    payload: Payload,
    slots: Vec<[u64; 3]>,
    slot: [u64; 3],
}

#[derive(Debug, Clone, Default)]
struct PartitionSight {
    wrote: Wrote,
    /// The last batch's beginning, by producer.
    ids: HashMap<i64, i64>,
    overlap: Overlap,
}

impl Sight {
    /// Of a topic with this number of partitions.
    pub fn new(topic: &str, partitions: usize, depth: Depth) -> Self {
        Self {
            topic: topic.to_owned(),
            partitions,
            depth,
            tally: Tally::default(),
            parts: BTreeMap::new(),
            evidence: Evidence::default(),
            payload: Payload::default(),
            slots: Vec::new(),
            slot: [0; 3],
        }
    }

    /// Adds data of a partition, from an offset on and up to another one; batches that begin outside are ignored. Returns the offset after
    /// the last complete batch.
    pub fn take(&mut self, partition: i32, from: i64, to: i64, record_set: &[u8]) -> Option<i64> {
        let (passed, next) = {
            let (mut number, mut this) = (0_u64, &mut *self);
            scan(record_set, from, |seen, batch| {
                if seen.header.base_offset < to {
                    Self::add(&mut this, partition, seen, batch, number);
                    number += 1;
                }
            })
        };
        self.tally.passed.add(&passed);
        next
    }

    /// Adds a piece of a segment, from its batches with a record that is no older than `since_ms`. Returns its number of bytes in complete
    /// batches.
    pub fn take_segment(&mut self, partition: i32, layout: Layout, since_ms: i64, bytes: &[u8]) -> usize {
        let (passed, walked) = {
            let (mut number, mut this) = (0_u64, &mut *self);
            walk(bytes, layout, |seen, batch| {
                if seen.header.max_timestamp >= since_ms {
                    Self::add(&mut this, partition, seen, batch, number);
                    number += 1;
                }
            })
        };
        self.tally.passed.add(&passed);
        walked
    }

    fn add(this: &mut &mut Self, partition: i32, seen: &Seen, batch: &[u8], number: u64) {
        let before = this.tally.batches;
        this.tally.add(seen);
        if this.tally.batches == before {
            return;
        }
        let records = u64::from(seen.header.record_count.max(0).unsigned_abs());
        for (sum, more) in this.slot.iter_mut().zip([1, records, seen.bytes]) {
            *sum += more;
        }
        let part = this.parts.entry(partition).or_default();
        part.wrote.add(seen);
        let (id, begin) = (seen.header.producer_id, seen.header.base_timestamp);
        let room = part.ids.len() < MOST_OF_PARTITION;
        if id < 0 {
            part.overlap.add(seen);
        } else if let Some(before) = part.ids.get_mut(&id) {
            this.tally.timeless += u64::from(begin.saturating_add(BACK_MS) < *before);
            *before = begin;
        } else if room {
            part.ids.insert(id, begin);
        }
        this.evidence.add(partition, seen);
        if this.stride().is_some_and(|stride| number.is_multiple_of(stride)) {
            this.payload.add(partition, this.partitions, seen, batch);
        }
    }

    /// One of this many batches is decompressed: all of them until half of the budget is used, every second one until half of the rest is,
    /// and so on. `None` when the budget is used up.
    fn stride(&self) -> Option<u64> {
        let budget = self.depth.decode_bytes;
        let left = budget.checked_sub(self.payload.looked_at_bytes).filter(|left| *left > 0)?;
        Some(1 << (budget / left).ilog2().min(32))
    }

    /// The earliest time of a record so far, milliseconds since 1970.
    pub fn first_ms(&self) -> Option<i64> {
        self.tally.times_ms.map(|(first, _)| first)
    }

    /// Ends a stretch of time that was read in all partitions: the unit of the sample.
    pub fn end_slot(&mut self) {
        self.slots.push(std::mem::take(&mut self.slot));
    }

    /// Stretches so far.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The report on the topic.
    pub fn finish(mut self, facts: Facts) -> TopicXray {
        let tally = &self.tally;
        let (seconds, doubt) = self.seconds(&facts);
        let a_second = |count: u64| seconds.filter(|_| count > 0).map(|seconds| count as f64 / seconds);
        let is_sample = facts.is_sample;
        let mean = |which: usize| {
            let value = self.mean(which)?;
            Some(Sampled { value, interval: is_sample.then(|| interval(&self.slots, which)).flatten() })
        };
        let keys = self.payload.keys(self.partitions);
        let mut told = TopicXray {
            topic: self.topic.clone(),
            partitions: self.partitions,
            read: XrayRead {
                times_ms: tally.times_ms,
                bytes: facts.fetched_bytes,
                share: facts.share,
                slots: is_sample.then_some(self.slots.len() as u64),
            },
            batches: tally.batches,
            records: tally.records,
            bytes: tally.bytes,
            batches_per_s: a_second(tally.batches),
            records_per_s: a_second(tally.records),
            mean_bytes: mean(2),
            mean_records: mean(1),
            size_bytes: spread(&tally.sizes),
            size_bytes_by_bytes: spread(&tally.sizes_by_bytes),
            sizes: tally.by_size.clone(),
            records_per_batch: spread(&tally.counts),
            span_ms: spread(&tally.spans_ms),
            small_batches: tally.small[0],
            small_bytes: tally.small[1],
            needless_batches: tally.needless,
            pages: tally.page_bytes as f64 / tally.bytes.max(1) as f64,
            header_share: (tally.batches * HEADER_BYTES as u64) as f64 / tally.bytes.max(1) as f64,
            codecs: self.codecs(),
            transactional: tally.transactional,
            log_append: tally.log_append,
            control: tally.control,
            compacted: tally.compacted,
            timeless: tally.timeless,
            keys,
            nameless_at_least: self.nameless_at_least(),
            by_partition: self.partitions(),
            ..TopicXray::default()
        };
        told.troubles = self.troubles(&facts);
        told.troubles.extend(doubt);
        self.judge(&mut told, &facts, seconds);
        told
    }

    /// The seconds in which the data was written, and a doubt. `None` if the times do not show it: then there is no rate.
    fn seconds(&self, facts: &Facts) -> (Option<f64>, Option<String>) {
        if self.tally.compacted > 0 {
            let why = "compaction removed batches, so the write rate is unknown".to_owned();
            return (None, Some(why));
        }
        if facts.slots_s.is_some() {
            return (facts.slots_s, None);
        }
        let Some((first, last)) = self.tally.times_ms.filter(|(first, last)| last > first) else {
            return (None, None);
        };
        let whole_s = last.abs_diff(first) as f64 / 1e3;
        let middle_s = self.evidence.middle_ms().map_or(whole_s, |middle| middle / 1e3);
        let (all_s, doubt) = if whole_s > STRETCHED * middle_s + 1.0 {
            let told = format!(
                "the records' times span {whole_s:.0} s, but nearly all are within {middle_s:.1} s, and the \
                 rates are for that time: some clocks are wrong, or the load came in a burst"
            );
            (middle_s, Some(told))
        } else {
            (whole_s, None)
        };
        let is_elsewhere = facts.window_s.is_some_and(|window| all_s > STRETCHED * window + 60.0);
        if is_elsewhere || (all_s < LEAST_S && self.tally.batches > AT_ONCE) {
            let told = format!(
                "the records' times span {all_s:.3} s, which is not the time of writing (the application \
                 sets them, or made the records ahead): there are no rates"
            );
            return (None, Some(told));
        }
        // The unread part was written in the same time.
        let share = facts.share.clamp(0.0, 1.0);
        ((share > 0.0).then_some(share * all_s), doubt)
    }

    fn mean(&self, which: usize) -> Option<f64> {
        let sum = [self.tally.batches, self.tally.records, self.tally.bytes][which];
        (self.tally.batches > 0).then(|| sum as f64 / self.tally.batches as f64)
    }

    fn codecs(&self) -> Vec<CodecUse> {
        let all = self.tally.bytes.max(1) as f64;
        let mut found: Vec<CodecUse> = (0..CODECS as i16)
            .zip(self.tally.codec_bytes)
            .filter(|(_, bytes)| *bytes > 0)
            .filter_map(|(bits, bytes)| {
                let codec = hone_kafka::Codec::from_attributes(bits)?;
                let ratio = self.payload.ratio(codec).filter(|_| codec != hone_kafka::Codec::None);
                Some(CodecUse { codec: codec.name().to_owned(), share: bytes as f64 / all, ratio })
            })
            .collect();
        found.sort_by(|one, other| other.share.total_cmp(&one.share));
        found
    }

    fn nameless_at_least(&self) -> usize {
        self.parts.values().map(|part| part.overlap.at_least()).max().unwrap_or(0)
    }

    fn partitions(&self) -> Vec<PartitionXray> {
        let mut all: Vec<PartitionXray> = self
            .parts
            .iter()
            .map(|(partition, part)| PartitionXray {
                partition: *partition,
                batches: part.wrote.batches,
                records: part.wrote.records,
                bytes: part.wrote.bytes,
                producers: part.ids.len(),
                nameless_at_least: part.overlap.at_least(),
            })
            .collect();
        all.sort_by(|one, other| (other.batches, one.partition).cmp(&(one.batches, other.partition)));
        all.truncate(MOST_PARTITIONS);
        all
    }

    fn troubles(&self, facts: &Facts) -> Vec<String> {
        let mut all = facts.troubles.clone();
        let passed = &self.tally.passed;
        if passed.old_format > 0 {
            all.push(format!(
                "skipped {} message sets of formats 0 and 1, which no current client writes",
                passed.old_format
            ));
        }
        if passed.broken > 0 {
            all.push(format!("skipped {} batches with an invalid header", passed.broken));
        }
        if self.tally.compacted > 0 {
            all.push(format!(
                "{} batches lost records by compaction, so the figures leave them out",
                self.tally.compacted
            ));
        }
        if self.tally.timeless > 0 {
            all.push(format!(
                "{} batches have no time, or one before that of the batch before them: a clock jumped, or \
                 the application sets them",
                self.tally.timeless
            ));
        }
        if self.tally.log_append > 0 {
            all.push(format!(
                "{} batches have the broker's time (message.timestamp.type=LogAppendTime), which does not \
                 show the linger",
                self.tally.log_append
            ));
        }
        if let Some(problem) = &self.payload.problem {
            all.push(format!("{} of the decompressed batches are corrupt: {problem}", self.payload.broken));
        }
        all
    }

    fn judge(&mut self, told: &mut TopicXray, facts: &Facts, seconds: Option<f64>) {
        let markers_per_batch = self.tally.control as f64 / self.tally.transactional.max(1) as f64;
        let main_codec = told.codecs.first().and_then(|codec| codec.ratio);
        let known = |id: i64| Known {
            ratio: main_codec.unwrap_or(1.0),
            is_nameless: id < 0,
            producers: if id < 0 { told.nameless_at_least.max(1) } else { 1 },
            markers_per_batch,
            leaders: &facts.leaders,
        };
        let mut kept = std::mem::take(&mut self.evidence).by_producer();
        let wrote = self.wrote();
        told.more_producers = wrote.len().saturating_sub(MOST_PRODUCERS);
        let looked: Vec<(i64, Wrote, Vec<Kept>, Habits)> = wrote
            .into_iter()
            .take(MOST_PRODUCERS)
            .map(|(id, sums)| {
                let of_it = kept.remove(&id).unwrap_or_default();
                let habits = habits(&of_it, &known(id));
                (id, sums, of_it, habits)
            })
            .collect();
        let writers: Vec<Writer<'_>> = looked
            .iter()
            .map(|(id, sums, kept, habits)| writer(*id, sums, kept, habits, seconds, told.nameless_at_least))
            .collect();
        let topic = Topic {
            mean_bytes: told.mean_bytes.map_or(0.0, |mean| mean.value),
            small: [told.small_batches, told.small_bytes],
            pages: told.pages,
            batches_per_s: told.batches_per_s,
            batches: told.batches,
            partitions: self.partitions,
            keys: told.keys.as_ref(),
            tolerable_linger_ms: self.depth.tolerable_linger_ms,
        };
        told.findings = verdict::findings(&topic, &writers);
        let producers = looked.iter().zip(&writers);
        told.producers =
            producers.map(|((_, sums, _, habits), writer)| shown(sums, habits, writer)).collect();
    }

    /// By batches; -1 is all without an id.
    fn wrote(&self) -> Vec<(i64, Wrote)> {
        let mut all = self.tally.producers.by_bytes();
        if self.tally.producers.nameless.batches > 0 {
            all.push((-1, self.tally.producers.nameless));
        }
        all.sort_by(|one, other| (other.1.batches, one.0).cmp(&(one.1.batches, other.0)));
        all
    }
}

fn writer<'a>(
    id: i64,
    sums: &Wrote,
    kept: &[Kept],
    habits: &'a Habits,
    seconds: Option<f64>,
    nameless_at_least: usize,
) -> Writer<'a> {
    let partitions = kept.chunk_by(|one, other| one.partition == other.partition).count().max(1);
    // Each producer without an id gets an equal share.
    let mixed = if id < 0 { nameless_at_least.max(1) } else { 1 };
    let mut spans: Vec<u64> =
        kept.iter().filter(|batch| batch.records > 1).filter_map(Kept::span_ms).collect();
    spans.sort_unstable();
    let small = || kept.iter().filter(|batch| f64::from(batch.bytes) < verdict::BETTER_BYTES);
    let small_bytes: u64 = small().map(|batch| u64::from(batch.bytes)).sum();
    let mean_bytes = sums.bytes as f64 / sums.batches.max(1) as f64;
    let rate = seconds.map(|seconds| own_rate(kept).unwrap_or(sums.records as f64 / seconds));
    Writer {
        id: (id >= 0).then_some(id),
        batches: sums.batches,
        mean_records: sums.records as f64 / sums.batches.max(1) as f64,
        mean_bytes: if small_bytes > 0 { small_bytes as f64 / small().count() as f64 } else { mean_bytes },
        small_share: small().count() as f64 / kept.len().max(1) as f64,
        rate: rate.map(|rate| rate / (partitions * mixed) as f64),
        partitions,
        mixed,
        middle_span_ms: spans.get(spans.len() / 2).copied(),
        habits,
    }
}

/// Records per second while it wrote: all but the last batch of each slot, over the time from its first to its last batch. A producer may
/// have started or stopped in the meantime. `None` for too few batches.
fn own_rate(kept: &[Kept]) -> Option<f64> {
    const LEAST: usize = 20;
    let mut order: Vec<(i64, u32)> = kept.iter().map(|batch| (batch.begin_ms, batch.records)).collect();
    order.sort_unstable();
    let (mut records, mut took_ms, mut counted) = (0, 0, 0);
    for slot in order.chunk_by(|one, other| slot_of(one.0) == slot_of(other.0)) {
        let [first, .., last] = slot else { continue };
        records += slot.iter().rev().skip(1).map(|(_, records)| u64::from(*records)).sum::<u64>();
        took_ms += last.0.abs_diff(first.0);
        counted += slot.len() - 1;
    }
    // If most batches are alone in their slot, this rate would describe only the others.
    (counted >= LEAST && 2 * counted > kept.len() && took_ms > 0)
        .then(|| 1e3 * records as f64 / took_ms as f64)
}

fn shown(sums: &Wrote, habits: &Habits, writer: &Writer<'_>) -> ProducerXray {
    let triggers =
        if habits.triggers.is_empty() { vec![(BatchTrigger::Unknown, 1.0)] } else { habits.triggers.clone() };
    ProducerXray {
        id: writer.id,
        batches: sums.batches,
        records: sums.records,
        bytes: sums.bytes,
        partitions: writer.partitions,
        triggers,
        cap: habits.cap,
        linger_ms: habits.linger_ms,
        records_per_s_per_partition: writer.rate,
        evidence: habits.evidence.clone(),
    }
}

fn spread(found: &Histogram) -> Option<Spread> {
    Some(Spread {
        least: found.least()?,
        p10: found.quantile(0.1)?,
        p50: found.quantile(0.5)?,
        p90: found.quantile(0.9)?,
        p99: found.quantile(0.99)?,
        most: found.most()?,
    })
}

/// 95 % confidence interval of the ratio of two sums over slots: the linearised ratio estimator (Cochran, Sampling Techniques, 6.4), with
/// Student's t by its first expansion. Slots are evenly spread, which leaves out no part of the time; there is no finite population
/// correction.
fn interval(slots: &[[u64; 3]], which: usize) -> Option<(f64, f64)> {
    if slots.len() < LEAST_SLOTS {
        return None;
    }
    let count = slots.len() as f64;
    let batches = slots.iter().map(|slot| slot[0] as f64).sum::<f64>();
    let ratio = slots.iter().map(|slot| slot[which] as f64).sum::<f64>() / batches;
    let scatter: f64 =
        slots.iter().map(|slot| (slot[which] as f64 - ratio * slot[0] as f64).powi(2)).sum::<f64>()
            / (count - 1.0);
    let error = (scatter / count).sqrt() / (batches / count);
    let z = 1.96;
    let t = z + (z * z * z + z) / (4.0 * (count - 1.0));
    (batches > 0.0).then(|| ((ratio - t * error).max(0.0), ratio + t * error))
}

#[cfg(test)]
mod tests {
    use hone_kafka::batch::{set_base_offset, set_producer};
    use hone_kafka::{BatchBuilder, Codec};
    use hone_record::{BatchCap, BatchVerdict};

    use super::*;

    const DEPTH: Depth = Depth { decode_bytes: 1 << 20, tolerable_linger_ms: 100.0 };

    fn batch(offset: i64, producer: i64, times_ms: &[i64], codec: Codec) -> Vec<u8> {
        let mut builder = BatchBuilder::new(codec);
        times_ms.iter().for_each(|time| builder.push(None, Some(&[b'v'; 93]), 1_700_000_000_000 + time));
        let mut bytes = builder.build().unwrap();
        set_base_offset(&mut bytes, offset).unwrap();
        set_producer(&mut bytes, producer, 0, 0).unwrap();
        bytes
    }

    /// The given number of batches with three records, of one producer, each open for 4 ms.
    fn set(batches: i64, producer: i64) -> Vec<u8> {
        let of = |number: i64| {
            batch(3 * number, producer, &[7 * number, 7 * number + 1, 7 * number + 4], Codec::None)
        };
        (0..batches).flat_map(of).collect()
    }

    #[test]
    fn a_topic_is_told_with_its_reason() {
        let mut sight = Sight::new("orders", 2, DEPTH);
        let bytes = set(2_000, 7);
        assert_eq!(sight.take(0, 0, i64::MAX, &bytes), Some(6_000));
        assert_eq!(sight.take(1, 0, 1_500, &bytes), Some(6_000), "behind the end nothing is taken");
        let facts = Facts { fetched_bytes: 2 * bytes.len() as u64, share: 1.0, ..Facts::default() };
        let told = sight.finish(facts);
        assert_eq!((told.batches, told.records, told.sizes.batches()), (2_500, 7_500, 2_500));
        assert_eq!(told.mean_records, Some(Sampled { value: 3.0, interval: None }), "all of it was read");
        assert_eq!(told.producers[0].id, Some(7));
        assert_eq!(told.by_partition.iter().map(|part| part.batches).collect::<Vec<_>>(), [2_000, 500]);
        assert_eq!(
            (told.span_ms.unwrap().p50, told.size_bytes.unwrap().most),
            (4, bytes.len() as u64 / 2_000)
        );
        assert_eq!(told.findings[0].verdict, BatchVerdict::Small);
        assert!((178.0..179.0).contains(&told.batches_per_s.unwrap()), "{:?}", told.batches_per_s);
    }

    #[test]
    fn producers_without_an_id_are_counted_by_overlap() {
        let mut sight = Sight::new("orders", 1, DEPTH);
        let of = |number: i64| batch(2 * number, -1, &[2 * number, 2 * number + 5], Codec::Lz4);
        let bytes: Vec<u8> = (0..500).flat_map(of).collect();
        sight.take(0, 0, i64::MAX, &bytes);
        let told = sight.finish(Facts { share: 1.0, ..Facts::default() });
        assert_eq!((told.nameless_at_least, told.producers[0].id), (3, None));
        assert_eq!(told.codecs[0].codec, "lz4");
        assert!(told.codecs[0].ratio.unwrap() > 1.0);
    }

    #[test]
    fn a_sample_has_an_interval_and_holds_the_truth() {
        // Slots of batches of 2 to 6 records: the truth is 4.
        let mut hits = 0;
        let mut state = 1_u64;
        for _ in 0..200 {
            let slots: Vec<[u64; 3]> = (0..12)
                .map(|_| {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let per_batch = 2 + (state >> 33) % 5;
                    [10, 10 * per_batch, 0]
                })
                .collect();
            let (low, high) = interval(&slots, 1).unwrap();
            hits += u32::from((low..=high).contains(&4.0));
        }
        assert!((180..=199).contains(&hits), "{hits} of 200 intervals of 95 % hold it");
        assert_eq!(interval(&[[1, 2, 3]; 2], 1), None);
    }

    #[test]
    fn a_wrong_clock_makes_no_topic_slow() {
        let told = |wrong_ms: i64| {
            let mut sight = Sight::new("orders", 1, DEPTH);
            sight.take(0, 0, i64::MAX, &set(2_000, 7));
            sight.take(0, 0, i64::MAX, &batch(6_000, 9, &[wrong_ms], Codec::None));
            sight.finish(Facts { share: 1.0, window_s: Some(900.0), ..Facts::default() })
        };
        for wrong_ms in [3_000_000_000, -1_699_000_000_000] {
            let told = told(wrong_ms);
            assert!(
                (120.0..160.0).contains(&told.batches_per_s.unwrap()),
                "{wrong_ms}: {:?}",
                told.batches_per_s
            );
            assert_eq!(told.findings[0].verdict, BatchVerdict::Small, "{wrong_ms}");
            assert!(
                told.troubles.iter().any(|line| line.contains("some clocks are wrong")),
                "{:?}",
                told.troubles
            );
        }
        // By the hour, long before they were read.
        let mut sight = Sight::new("orders", 1, DEPTH);
        let hours =
            |number: i64| batch(3 * number, 7, &[number * 3_600_000, number * 3_600_000 + 5], Codec::None);
        let bytes: Vec<u8> = (0..500).flat_map(hours).collect();
        sight.take(0, 0, i64::MAX, &bytes);
        let told = sight.finish(Facts { share: 1.0, window_s: Some(900.0), ..Facts::default() });
        assert_eq!(told.batches_per_s, None);
        assert_eq!(told.findings[0].verdict, BatchVerdict::Small, "no rate is no low rate");
    }

    #[test]
    fn a_producer_that_came_late_has_its_own_rate() {
        let mut sight = Sight::new("orders", 2, DEPTH);
        // One for a minute, the other for its last four seconds.
        let of = |number: i64, id: i64, at_ms: i64| batch(number, id, &[at_ms, at_ms + 1], Codec::None);
        let long: Vec<u8> = (0..600).flat_map(|number| of(2 * number, 7, 100 * number)).collect();
        let short: Vec<u8> = (0..400).flat_map(|number| of(2 * number, 8, 56_000 + 10 * number)).collect();
        sight.take(0, 0, i64::MAX, &long);
        sight.take(1, 0, i64::MAX, &short);
        let told = sight.finish(Facts { share: 1.0, ..Facts::default() });
        let rate = |id: i64| {
            let found = told.producers.iter().find(|producer| producer.id == Some(id)).unwrap();
            found.records_per_s_per_partition.unwrap()
        };
        assert!(
            (19.0..21.0).contains(&rate(7)) && (195.0..205.0).contains(&rate(8)),
            "{} {}",
            rate(7),
            rate(8)
        );
    }

    #[test]
    fn payloads_are_left_alone_where_nobody_wants_them() {
        let mut sight = Sight::new("orders", 1, Depth { decode_bytes: 0, ..DEPTH });
        sight.take(0, 0, i64::MAX, &set(10, 7));
        let told = sight.finish(Facts::default());
        assert_eq!((told.keys, told.batches), (None, 10));
    }

    #[test]
    fn what_was_passed_over_is_told() {
        let mut sight = Sight::new("orders", 1, DEPTH);
        let mut bytes = set(2, 7);
        bytes[16] = 1;
        sight.take(0, 0, i64::MAX, &bytes);
        sight.take(0, 0, i64::MAX, &batch(50, 7, &[5_009], Codec::None));
        sight.take(0, 0, i64::MAX, &batch(51, 7, &[9], Codec::None));
        let told = sight.finish(Facts { troubles: vec!["partition 3: gone".to_owned()], ..Facts::default() });
        assert_eq!((told.troubles.len(), told.timeless), (3, 1), "{:?}", told.troubles);
        assert!(told.troubles[2].contains("a clock jumped"), "{:?}", told.troubles);
        assert_eq!(told.producers[0].cap, None::<BatchCap>);
    }
}

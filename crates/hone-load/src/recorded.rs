//! The load of a topic, from its own records: their times, sizes, codec and keys. Values are skipped, and keys are only hashed.

use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hone_kafka::{BatchHeader, Codec, Record, batches, codec, records};

use crate::admin::Admin;
use crate::cluster::At;
use crate::error::LoadError;
use crate::security::Security;

/// This number of times takes 400 MB.
const MOST_RECORDS: usize = 50_000_000;
/// Largest reported number of keys.
const MOST_KEYS: usize = 1_000_000;
/// Size limit of one decompressed batch.
const UNPACK_LIMIT_BYTES: usize = 256 << 20;
/// Clocks differ by some seconds; a larger difference means a wrong clock.
const AHEAD_MOST_MS: i64 = 60_000;
/// A broker without progress over this many reads has lost data.
const READS_WITHOUT_PROGRESS: u32 = 20;

/// Load of a topic in its last period.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicLoad {
    /// Creation time of each record, nanoseconds since 1970, in order. Kafka's times are whole milliseconds.
    pub times_ns: Vec<u64>,
    /// Partitions of the topic.
    pub partitions: u32,
    /// Mean bytes of key and value.
    pub record_bytes: f64,
    /// The codec of most records.
    pub codec: Codec,
    /// Share of the records that have a key, 0 to 1.
    pub keyed_share: f64,
    /// Number of different keys, at most a million.
    pub distinct_keys: u64,
    /// Remarks for people.
    pub notes: Vec<String>,
}

/// Sums while a topic is read.
#[derive(Debug, Default)]
struct Sums {
    times_ns: Vec<u64>,
    bytes: u64,
    keyed: u64,
    keys: HashSet<u64>,
    /// Records by codec, in the order of [`Codec::ALL`].
    by_codec: [u64; Codec::ALL.len()],
}

/// Reads the last `stretch` of a topic, counted back from its newest record.
///
/// # Errors
/// Returns an error when the topic does not exist, is empty, can't be read, or has more records than memory should hold.
pub fn topic_load(
    address: &str,
    security: &Security,
    topic: &str,
    stretch: Duration,
) -> Result<TopicLoad, LoadError> {
    let mut admin = Admin::connect_with(address, security)?;
    let layout = admin.layout(&topic.into(), None)?;
    let mut ends = Vec::new();
    let mut newest_ms = i64::MIN;
    for (leader, partitions) in &layout.leaders {
        let mut leader = admin.another(leader)?;
        for partition in partitions {
            let end = leader.offset_at(topic, *partition, At::Latest)?;
            let begin = leader.offset_at(topic, *partition, At::Earliest)?;
            if end > begin {
                let fetch = |offset| leader.fetch(topic, *partition, offset);
                newest_ms = newest_ms.max(newest_of(begin..end, fetch)?.unwrap_or(i64::MIN));
            }
            ends.push((leader.address().to_owned(), *partition, begin, end));
        }
    }
    if newest_ms == i64::MIN {
        return Err(wrong(format!("topic {topic} holds no records")));
    }
    let from_ms = newest_ms.saturating_sub(i64::try_from(stretch.as_millis()).unwrap_or(i64::MAX));
    let mut sums = Sums::default();
    for (leader, partition, begin, end) in &ends {
        let mut leader = admin.another(leader)?;
        let first = leader.offset_at(topic, *partition, At::TimeMs(from_ms))?;
        // No record in it is that recent.
        let first = if first < 0 { *end } else { first.max(*begin) };
        sums.read(topic, *partition, &mut leader, first..*end, from_ms)?;
    }
    let mut load = sums.into_topic_load(topic, ends.len() as u32)?;
    load.notes.extend(from_the_future(topic, newest_ms, now_ms()));
    Ok(load)
}

/// Milliseconds since 1970.
fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// The period is counted back from the newest record. A record with a wrong clock moves it away from all others.
fn from_the_future(topic: &str, newest_ms: i64, now_ms: i64) -> Option<String> {
    let ahead_ms = newest_ms.saturating_sub(now_ms);
    (ahead_ms > AHEAD_MOST_MS).then(|| {
        format!(
            "the newest record of {topic} has a timestamp {} s ahead of this machine's clock. The period is \
             counted back from that record. If one of the clocks is wrong, it holds few records or none",
            ahead_ms / 1_000
        )
    })
}

/// Time of the newest record with content. The last offsets may be a transaction marker, or compacted away. The search then goes back in
/// steps that double, each up to the beginning of the one before.
fn newest_of(
    offsets: Range<i64>,
    mut fetch: impl FnMut(i64) -> Result<Bytes, LoadError>,
) -> Result<Option<i64>, LoadError> {
    let (mut upto, mut step) = (offsets.end, 1);
    while upto > offsets.start {
        let from = offsets.end.saturating_sub(step).max(offsets.start);
        let (mut offset, mut newest) = (from, None);
        while offset < upto {
            let record_set = fetch(offset)?;
            newest = newest.max(last_timestamp_ms(&record_set));
            let behind = batches(&record_set).map_while(Result::ok).map(|found| found.header.last_offset());
            // No whole batch follows, so the missing data stays missing.
            let Some(last) = behind.max().filter(|last| *last >= offset) else { break };
            offset = last.saturating_add(1);
        }
        if newest.is_some() {
            return Ok(newest);
        }
        (upto, step) = (from, step.saturating_mul(2));
    }
    Ok(None)
}

fn wrong(problem: String) -> LoadError {
    LoadError::Setting { name: "the topic's load", problem }
}

fn last_timestamp_ms(record_set: &[u8]) -> Option<i64> {
    let found = batches(record_set).map_while(Result::ok);
    found.filter(|found| !found.header.is_control()).map(|found| found.header.max_timestamp).max()
}

/// Creation time of a record by its producer, in milliseconds since 1970. A broker that stamps batches itself (LogAppendTime) overwrites
/// only the batch's largest time, so base and delta are the producer's in both cases.
pub(crate) fn made_ms(header: &BatchHeader, record: &Record<'_>) -> i64 {
    header.base_timestamp.saturating_add(record.timestamp_delta)
}

/// The same in nanoseconds, for the record at an offset.
pub(crate) fn made_ns(offset: i64, time_ms: i64) -> Result<u64, String> {
    let time_ms = u64::try_from(time_ms)
        .map_err(|_| format!("the record at offset {offset} has the timestamp {time_ms}"))?;
    Ok(time_ms.saturating_mul(1_000_000))
}

/// Reads these offsets of a partition. `add` takes a set of records and the wanted offsets. It returns the offset after the last whole
/// batch, or the reason why the records are too many.
pub(crate) fn read_through(
    (topic, partition): (&str, i32),
    leader: &mut Admin,
    offsets: Range<i64>,
    wrong: fn(String) -> LoadError,
    mut add: impl FnMut(&[u8], Range<i64>) -> (Result<i64, String>, Option<String>),
) -> Result<(), LoadError> {
    let (mut offset, end, mut stuck) = (offsets.start, offsets.end, 0);
    while offset < end {
        let (next, too_much) = add(&leader.fetch(topic, partition, offset)?, offset..end);
        let next =
            next.map_err(|problem| wrong(format!("{topic}/{partition} from offset {offset}: {problem}")))?;
        if let Some(too_much) = too_much {
            return Err(wrong(format!("topic {topic} {too_much}")));
        }
        stuck = if next > offset { 0 } else { stuck + 1 };
        if stuck == READS_WITHOUT_PROGRESS {
            return Err(wrong(format!(
                "{topic}/{partition} can be read only to offset {offset}, but it ends at {end}"
            )));
        }
        offset = next;
    }
    Ok(())
}

/// Passes on the records of these offsets, each with its offset and batch; returns the offset after the last whole batch.
pub(crate) fn each_record(
    record_set: &[u8],
    offsets: Range<i64>,
    mut take: impl FnMut(i64, &BatchHeader, &Record<'_>) -> Result<(), String>,
) -> Result<i64, String> {
    let mut next = offsets.start;
    for found in batches(record_set) {
        let Ok(found) = found else { break };
        let header = &found.header;
        next = next.max(header.last_offset().saturating_add(1));
        if header.is_control() {
            continue;
        }
        let plain = codec::decompress(header.codec(), found.payload(), UNPACK_LIMIT_BYTES)
            .map_err(|error| error.to_string())?;
        for record in records(&plain, header.record_count) {
            let record = record.map_err(|error| error.to_string())?;
            let offset = header.base_offset.saturating_add(i64::from(record.offset_delta));
            if offsets.contains(&offset) {
                take(offset, header, &record)?;
            }
        }
    }
    Ok(next)
}

impl Sums {
    fn read(
        &mut self,
        topic: &str,
        partition: i32,
        leader: &mut Admin,
        offsets: Range<i64>,
        from_ms: i64,
    ) -> Result<(), LoadError> {
        read_through((topic, partition), leader, offsets, wrong, |record_set, offsets| {
            let next = self.add(record_set, offsets, from_ms);
            let most =
                || format!("has more than {MOST_RECORDS} records in that time; ask for a shorter time");
            (next, (self.times_ns.len() > MOST_RECORDS).then(most))
        })
    }

    /// Adds the records of these offsets; returns the offset after the last whole batch.
    fn add(&mut self, record_set: &[u8], offsets: Range<i64>, from_ms: i64) -> Result<i64, String> {
        each_record(record_set, offsets, |offset, header, record| {
            let time_ms = made_ms(header, record);
            if time_ms >= from_ms {
                self.times_ns.push(made_ns(offset, time_ms)?);
                self.count(record.key, record.value);
                if let Some(known) = Codec::ALL.iter().position(|codec| *codec == header.codec()) {
                    self.by_codec[known] += 1;
                }
            }
            Ok(())
        })
    }

    fn count(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) {
        self.bytes += (key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len)) as u64;
        let Some(key) = key else { return };
        self.keyed += 1;
        if self.keys.len() < MOST_KEYS {
            let mut hasher = DefaultHasher::new();
            key.hash(&mut hasher);
            self.keys.insert(hasher.finish());
        }
    }

    fn into_topic_load(mut self, topic: &str, partitions: u32) -> Result<TopicLoad, LoadError> {
        if self.times_ns.is_empty() {
            return Err(wrong(format!("topic {topic} holds no records of that time")));
        }
        self.times_ns.sort_unstable();
        let records = self.times_ns.len() as f64;
        let most = Codec::ALL.into_iter().zip(self.by_codec).max_by_key(|(_, records)| *records);
        Ok(TopicLoad {
            partitions,
            record_bytes: self.bytes as f64 / records,
            codec: most.map_or(Codec::None, |(codec, _)| codec),
            keyed_share: self.keyed as f64 / records,
            distinct_keys: self.keys.len() as u64,
            notes: Vec::new(),
            times_ns: self.times_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_kafka::{BatchBuilder, batch};

    fn built(codec: Codec, key: Option<&[u8]>, times: &[i64]) -> Vec<u8> {
        let mut builder = BatchBuilder::new(codec);
        times.iter().for_each(|time| builder.push(key, Some(b"12345678"), *time));
        builder.build().unwrap().to_vec()
    }

    #[test]
    fn what_is_in_the_batches_is_added_up() {
        let mut sums = Sums::default();
        let all = 0..1_000;
        sums.add(&built(Codec::Lz4, Some(b"k1"), &[900, 1_000, 1_001]), all.clone(), 1_000).unwrap();
        sums.add(&built(Codec::None, None, &[1_500]), all.clone(), 1_000).unwrap();
        assert_eq!(sums.add(&built(Codec::Lz4, Some(b"k2"), &[1_400, 1_402]), all, 1_000), Ok(2));
        let told = sums.into_topic_load("t", 3).unwrap();
        assert_eq!(told.times_ns, [1_000, 1_001, 1_400, 1_402, 1_500].map(|ms: u64| ms * 1_000_000));
        assert_eq!((told.partitions, told.codec, told.distinct_keys), (3, Codec::Lz4, 2));
        assert!((told.keyed_share - 0.8).abs() < 1e-12 && (told.record_bytes - 48.0 / 5.0).abs() < 1e-12);
    }

    /// A log of batches: `(base offset, time)`, or no time for a transaction's marker. Fetch gives two at a time.
    fn newest(log: &[(i64, Option<i64>)], offsets: Range<i64>) -> (Option<i64>, usize) {
        let set: Vec<Vec<u8>> = log
            .iter()
            .map(|(base, time)| {
                let mut bytes = built(Codec::None, None, &[time.unwrap_or(9_999)]);
                batch::set_base_offset(&mut bytes, *base).unwrap();
                if time.is_none() {
                    batch::set_transactional(&mut bytes, true).unwrap();
                }
                bytes
            })
            .collect();
        let mut fetches = 0;
        let found = newest_of(offsets, |offset| {
            fetches += 1;
            let from = log.iter().position(|(base, _)| *base >= offset).unwrap_or(log.len());
            Ok(set[from..].iter().take(2).flatten().copied().collect::<Vec<u8>>().into())
        });
        (found.unwrap(), fetches)
    }

    #[test]
    fn the_newest_record_may_stand_before_markers_and_holes() {
        assert_eq!(newest(&[(0, Some(5)), (1, Some(7))], 0..2), (Some(7), 1));
        assert_eq!(newest(&[(0, Some(5)), (1, None)], 0..2).0, Some(5));
        // Compacted away between, and markers alone at the end.
        let markers: Vec<_> = (100..140).map(|base| (base, None)).collect();
        let log = [&[(0, Some(1)), (60, Some(8)), (61, Some(6))], &markers[..]].concat();
        assert_eq!(newest(&log, 0..140).0, Some(8));
        assert_eq!(newest(&markers, 100..140).0, None);
        let far: Vec<_> = (1..2_000).map(|base| (base, None)).collect();
        let (found, fetches) = newest(&[&[(0, Some(3))], &far[..]].concat(), 0..2_000);
        assert!(found == Some(3) && fetches < 1_200, "{found:?} in {fetches} fetches");
        assert_eq!(newest(&[], 5..5).0, None);
    }

    #[test]
    fn a_time_that_is_still_to_come_is_told() {
        assert_eq!(from_the_future("t", 1_000_000, 1_000_000), None);
        assert_eq!(from_the_future("t", 1_060_000, 1_000_000), None);
        assert!(from_the_future("t", 1_061_000, 1_000_000).unwrap().contains("61 s ahead of"));
    }

    /// Two readers of one batch, for any source of its timestamps.
    #[test]
    fn a_recording_and_a_replay_agree_on_when_a_record_was_made() {
        let mut bytes = built(Codec::Lz4, None, &[1_000, 1_003]);
        for stamps_itself in [false, true] {
            if stamps_itself {
                batch::set_log_append_time(&mut bytes, 5_000).unwrap();
            }
            let (mut sums, mut replayed) = (Sums::default(), Vec::new());
            sums.add(&bytes, 0..10, 0).unwrap();
            crate::replay::timestamps(&bytes, 0, 10, &mut replayed).unwrap();
            assert_eq!(sums.times_ns, [1_000_000_000, 1_003_000_000]);
            assert_eq!(sums.times_ns, replayed);
        }
    }

    #[test]
    fn mutated_batches_do_no_harm() {
        use rand_chacha::ChaCha8Rng;
        use rand_core::{RngCore as _, SeedableRng as _};
        let mut random = ChaCha8Rng::seed_from_u64(7);
        for codec in Codec::ALL {
            let whole = built(codec, Some(b"key"), &[1, 2, 3, 4, 5, 6, 7, 8]);
            for _ in 0..2_000 {
                let mut bytes = whole.clone();
                for _ in 0..1 + random.next_u32() % 4 {
                    let at = random.next_u32() as usize % bytes.len();
                    bytes[at] = random.next_u32() as u8;
                }
                bytes.truncate(1 + random.next_u32() as usize % bytes.len());
                let mut sums = Sums::default();
                let _ = sums.add(&bytes, 0..i64::MAX, i64::MIN);
                assert!(sums.times_ns.len() <= 1 << 20);
            }
        }
    }
}

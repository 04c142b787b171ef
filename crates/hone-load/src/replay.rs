//! Recorded arrival times, from a file or from a topic's own records.
//!
//! A file has one time per line: seconds, with up to nine decimals. Empty lines and lines that begin with `#` are skipped. The order does
//! not matter. The earliest time is the window's start, so Unix times are as good as times from 0. In a recording ([`crate::recording`]) a
//! line has more words, and the first one is the time.

use std::sync::Arc;

use hone_record::{Schedule, Workload};
use sha2::{Digest as _, Sha256};

use crate::admin::Admin;
use crate::cluster::At;
use crate::error::LoadError;
use crate::recorded::{each_record, made_ms, made_ns, read_through};

/// This number of times takes 400 MB.
const MOST_ARRIVALS: usize = 50_000_000;
/// Prefix of a topic as a source.
pub(crate) const TOPIC_PREFIX: &str = "topic ";

fn wrong(problem: String) -> LoadError {
    LoadError::Setting { name: "replay", problem }
}

/// Reads the arrivals that a workload replays. Writes the number and hash of the times, and the mean rate within the window, into the
/// workload. An existing hash must match. `None` for every other schedule.
pub(crate) fn load(workload: &mut Workload, admin: &mut Admin) -> Result<Option<Arc<[u64]>>, LoadError> {
    let Schedule::Replay { source, arrivals, sha256 } = &mut workload.schedule else { return Ok(None) };
    let times = match source.strip_prefix(TOPIC_PREFIX) {
        Some(topic) => of_topic(topic, admin)?,
        None => {
            let text = std::fs::read_to_string(&*source)
                .map_err(|error| wrong(format!("{source} can't be read: {error}")))?;
            times_of(&text).map_err(|problem| wrong(format!("{source}: {problem}")))?
        }
    };
    let times = from_first(times);
    let found = hash_of(&times);
    if !sha256.is_empty() && *sha256 != found {
        return Err(wrong(format!("{source} has changed its times: SHA-256 {found}, expected {sha256}")));
    }
    (*arrivals, *sha256) = (times.len() as u64, found);
    let window_ns = (workload.duration_s * 1e9) as u64;
    let within = times.partition_point(|due_ns| *due_ns < window_ns);
    workload.requests_per_s = within as f64 / workload.duration_s;
    Ok(Some(times.into()))
}

/// The times of a file's text, in nanoseconds, in order.
fn times_of(text: &str) -> Result<Vec<u64>, String> {
    let mut times = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let is_recorded = line.split_whitespace().count() == crate::recording::WORDS;
        let word = line.split_whitespace().next().filter(|_| is_recorded).unwrap_or(line);
        let time = nanoseconds(word).ok_or_else(|| {
            format!("line {}: `{line}` is not a time; write seconds with up to nine decimals", index + 1)
        })?;
        times.push(time);
        if times.len() > MOST_ARRIVALS {
            return Err(format!("more than {MOST_ARRIVALS} times"));
        }
    }
    if times.is_empty() {
        return Err("the file has no time; write one per line, in seconds".to_owned());
    }
    times.sort_unstable();
    Ok(times)
}

/// Exact decimal seconds: a floating-point number would lose the nanoseconds of a Unix time.
fn nanoseconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let seconds: u64 = whole.parse().ok()?;
    let below: u64 = format!("{fraction:0<9}").parse().ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(below)
}

/// Sorted times, counted from the first.
fn from_first(mut times: Vec<u64>) -> Vec<u64> {
    let first = times.first().copied().unwrap_or(0);
    times.iter_mut().for_each(|time| *time -= first);
    times
}

fn hash_of(times_ns: &[u64]) -> String {
    let mut hasher = Sha256::new();
    times_ns.iter().for_each(|time_ns| hasher.update(time_ns.to_le_bytes()));
    hex(&hasher.finalize())
}

/// SHA-256 of bytes, in hexadecimal digits.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The timestamps of all records of a topic, in nanoseconds, in order. Kafka's are whole milliseconds.
fn of_topic(topic: &str, admin: &mut Admin) -> Result<Vec<u64>, LoadError> {
    let layout = admin.layout(&topic.into(), None)?;
    let mut times = Vec::new();
    for (address, partitions) in &layout.leaders {
        let mut leader = admin.another(address)?;
        for partition in partitions {
            read_partition(topic, *partition, &mut leader, &mut times)?;
        }
    }
    if times.is_empty() {
        return Err(wrong(format!("topic {topic} holds no records")));
    }
    times.sort_unstable();
    Ok(times)
}

fn read_partition(
    topic: &str,
    partition: i32,
    leader: &mut Admin,
    times: &mut Vec<u64>,
) -> Result<(), LoadError> {
    let begin = leader.offset_at(topic, partition, At::Earliest)?;
    let offsets = begin..leader.offset_at(topic, partition, At::Latest)?;
    read_through((topic, partition), leader, offsets, wrong, |record_set, offsets| {
        let next = timestamps(record_set, offsets.start, offsets.end, times);
        (next, (times.len() > MOST_ARRIVALS).then(|| format!("has more than {MOST_ARRIVALS} records")))
    })
}

/// Adds the timestamps of the records between two offsets; returns the offset after the last whole batch. Fetch may return a torn batch at
/// the end.
pub(crate) fn timestamps(
    record_set: &[u8],
    from: i64,
    end: i64,
    times: &mut Vec<u64>,
) -> Result<i64, String> {
    each_record(record_set, from..end, |offset, header, record| {
        times.push(made_ns(offset, made_ms(header, record))?);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_kafka::{BatchBuilder, Codec, batch};

    #[test]
    fn times_are_read_exactly_and_counted_from_the_first() {
        let text =
            "# from production\n1795200420.000000002\n\n 1795200420.5\n1795200419.999999999\n1795200421\n";
        assert_eq!(from_first(times_of(text).unwrap()), [0, 3, 500_000_001, 1_000_000_001]);
        assert_eq!(
            times_of("0.25 3 - 100\n1 0 7 50\n").unwrap(),
            [250_000_000, 1_000_000_000],
            "a recording"
        );
    }

    #[test]
    fn what_is_no_time_is_named_with_its_line() {
        for (text, expected) in [
            ("0\n1.5 s\n", "line 2: `1.5 s` is not a time"),
            ("-1\n", "line 1"),
            ("1e9\n", "line 1"),
            ("0.0000000001\n", "line 1"),
            (".5\n", "line 1"),
            ("99999999999999999999\n", "line 1"),
            ("# nothing\n", "the file has no time"),
        ] {
            assert!(times_of(text).unwrap_err().contains(expected), "{text}");
        }
    }

    #[test]
    fn the_hash_is_one_of_the_times_and_not_of_the_text() {
        let of = |text: &str| hash_of(&from_first(times_of(text).unwrap()));
        assert_eq!(of("5\n6.5"), of("# later\n106.500\n105"));
        assert_ne!(of("5\n6.5"), of("5\n6.4"));
    }

    #[test]
    fn a_topics_times_are_base_and_delta_of_each_record() {
        let mut set = Vec::new();
        for (codec, base_offset, times) in
            [(Codec::None, 0, [1_000, 1_001, 1_500]), (Codec::Zstd, 3, [2_000, 1_999, 2_004])]
        {
            let mut builder = BatchBuilder::new(codec);
            times.iter().for_each(|time| builder.push(None, Some(b"value"), *time));
            let mut bytes = builder.build().unwrap();
            batch::set_base_offset(&mut bytes, base_offset).unwrap();
            set.extend(bytes);
        }
        let mut found = Vec::new();
        // The range starts in the middle of the first batch, and the last record arrived after the request for the end.
        assert_eq!(timestamps(&set, 1, 5, &mut found).unwrap(), 6);
        let milliseconds: Vec<u64> = found.iter().map(|time| time / 1_000_000).collect();
        assert_eq!(milliseconds, [1_001, 1_500, 2_000, 1_999]);
        let mut torn = Vec::new();
        assert_eq!(timestamps(&set[..set.len() - 1], 0, 6, &mut torn).unwrap(), 3);
        assert_eq!(torn.len(), 3);
    }

    #[test]
    fn mutated_batches_do_no_harm() {
        use rand_chacha::ChaCha8Rng;
        use rand_core::{RngCore as _, SeedableRng as _};
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for codec in Codec::ALL {
            let mut builder = BatchBuilder::new(codec);
            (0..20).for_each(|time| builder.push(Some(b"key"), Some(b"value"), time * 3));
            let whole = builder.build().unwrap();
            for _ in 0..2_000 {
                let mut bytes = whole.clone();
                for _ in 0..1 + random.next_u32() % 4 {
                    let at = random.next_u32() as usize % bytes.len();
                    bytes[at] = random.next_u32() as u8;
                }
                bytes.truncate(1 + random.next_u32() as usize % bytes.len());
                let mut found = Vec::new();
                // An error, or times; no panic, and no more records than bytes can hold.
                let _ = timestamps(&bytes, 0, i64::MAX, &mut found);
                assert!(found.len() <= 1 << 20, "{} records of {} bytes", found.len(), bytes.len());
            }
        }
    }
}

//! What compaction keeps of a batch: the last record of each key, and what producers and transactions need. Offsets
//! never change. Pure; which segments are worth it, and the files, are the partition's business.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use hone_kafka::batch::{self, BatchError, HEADER_BYTES, TimestampType};
use hone_kafka::{BatchHeader, Codec, Reader, codec, records};

use super::marker;
use super::producers::{Marker, Producers};

/// Largest decompressed size of a batch's records. The broker keeps a larger batch unchanged.
const UNPACK_LIMIT_BYTES: usize = 64 << 20;
/// Keys of one round, about 200 MiB. A round that meets more ends there, and the next one goes on.
const MOST_KEYS: usize = 4 << 20;

/// The last offset of each key in a range of a log. A key is 128 bits of two hashes with random seeds, so no client can
/// make two keys collide, and none collide by chance.
#[derive(Debug)]
pub(crate) struct LastOffsets {
    seeds: [RandomState; 2],
    offsets: HashMap<[u64; 2], i64>,
    most: usize,
}

impl LastOffsets {
    pub(crate) fn new() -> Self {
        Self { seeds: Default::default(), offsets: HashMap::new(), most: MOST_KEYS }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.offsets.len() >= self.most
    }

    /// Records the keys of a batch. It ignores aborted transactions and markers.
    pub(crate) fn note(&mut self, header: &BatchHeader, bytes: &[u8], producers: &Producers) {
        if header.is_control() || producers.is_aborted(header) {
            return;
        }
        let Ok(plain) = unpack(header, bytes) else { return };
        for record in records(&plain, header.record_count).map_while(Result::ok) {
            if let Some(key) = record.key {
                let offset = header.base_offset + i64::from(record.offset_delta);
                self.offsets.insert(self.hash(key), offset);
            }
        }
    }

    fn is_last(&self, key: &[u8], offset: i64) -> bool {
        self.offsets.get(&self.hash(key)).is_none_or(|last| offset >= *last)
    }

    fn hash(&self, key: &[u8]) -> [u64; 2] {
        let [first, second] = &self.seeds;
        [first.hash_one(key), second.hash_one(key)]
    }
}

/// What decides over the records of a segment.
#[derive(Debug)]
pub(crate) struct Rules<'a> {
    pub(crate) last: &'a LastOffsets,
    pub(crate) producers: &'a Producers,
    /// The marks of deleted keys, and of committed transactions, are old enough to go.
    pub(crate) purge: bool,
}

/// What is left of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Whole,
    Part(Vec<u8>),
    Nothing,
}

/// Decides over one batch.
pub(crate) fn keep(header: &BatchHeader, bytes: &[u8], rules: &Rules<'_>) -> Result<Kept, BatchError> {
    if header.is_control() {
        let committed = matches!(marker::parse(header, bytes), Some((Marker::Commit, _)));
        // The marker of an abort stays as long as answers list the abort, because readers need it.
        let goes = committed && rules.purge && !rules.producers.is_last(header);
        return Ok(if goes { Kept::Nothing } else { Kept::Whole });
    }
    let (left, count, max_timestamp) = if rules.producers.is_aborted(header) {
        (Vec::new(), 0, None)
    } else {
        match sift(header, bytes, rules) {
            Some(sifted) if sifted.1 == header.record_count => return Ok(Kept::Whole),
            Some(sifted) => sifted,
            // Records that can't be read can't be judged.
            None => return Ok(Kept::Whole),
        }
    };
    if count > 0 {
        return rebuild(header, bytes, &left, count, max_timestamp).map(Kept::Part);
    }
    if !rules.producers.is_last(header) {
        return Ok(Kept::Nothing);
    }
    // The batch stays without its records, so that the producer's sequence can still be read from the log.
    if header.record_count == 0 {
        Ok(Kept::Whole)
    } else {
        rebuild(header, bytes, &[], 0, None).map(Kept::Part)
    }
}

fn unpack(header: &BatchHeader, bytes: &[u8]) -> Result<Vec<u8>, codec::CodecError> {
    codec::decompress(header.codec(), bytes.get(HEADER_BYTES..).unwrap_or_default(), UNPACK_LIMIT_BYTES)
}

/// The records that stay, how many, and their largest timestamp.
fn sift(header: &BatchHeader, bytes: &[u8], rules: &Rules<'_>) -> Option<(Vec<u8>, i32, Option<i64>)> {
    let plain = unpack(header, bytes).ok()?;
    let mut raw = Reader::new(&plain);
    let (mut left, mut count, mut max_timestamp) = (Vec::new(), 0, None);
    for record in records(&plain, header.record_count) {
        let record = record.ok()?;
        let before = raw.rest();
        let length = raw.varint("record length").ok()?;
        raw.take(usize::try_from(length).ok()?, "record").ok()?;
        let offset = header.base_offset + i64::from(record.offset_delta);
        let stays = match (record.key, record.value) {
            // A record without a key has no place in a compacted topic.
            (None, _) => false,
            (Some(_), None) if rules.purge => false,
            (Some(key), _) => rules.last.is_last(key, offset),
        };
        if stays {
            left.extend_from_slice(before.get(..before.len() - raw.rest().len())?);
            count += 1;
            max_timestamp =
                max_timestamp.max(Some(header.base_timestamp.saturating_add(record.timestamp_delta)));
        }
    }
    Some((left, count, max_timestamp))
}

/// The batch with other records; offsets, sequence and times stay as they were.
fn rebuild(
    header: &BatchHeader,
    bytes: &[u8],
    plain: &[u8],
    count: i32,
    max_timestamp: Option<i64>,
) -> Result<Vec<u8>, BatchError> {
    let mut head = bytes.get(..HEADER_BYTES).unwrap_or_default().to_vec();
    if let Some(field) = head.get_mut(HEADER_BYTES - 4..) {
        field.copy_from_slice(&count.to_be_bytes());
    }
    let codec = if count == 0 { Codec::None } else { header.codec() };
    let mut out = batch::with_payload(&head, plain, codec)?;
    match max_timestamp {
        Some(timestamp) if header.timestamp_type() == TimestampType::Create => {
            batch::set_timestamps(&mut out, header.base_timestamp, timestamp)?;
        }
        _ => (),
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_kafka::BatchBuilder;

    fn batch(codec: Codec, pairs: &[(&str, Option<&str>)], base_offset: i64) -> (BatchHeader, Vec<u8>) {
        let mut builder = BatchBuilder::new(codec);
        for (step, (key, value)) in pairs.iter().enumerate() {
            let key = Some(key.as_bytes()).filter(|key| !key.is_empty());
            builder.push(key, value.map(str::as_bytes), 100 + step as i64);
        }
        let mut bytes = builder.build().unwrap();
        batch::set_base_offset(&mut bytes, base_offset).unwrap();
        (BatchHeader::parse(&bytes).unwrap(), bytes)
    }

    fn offsets(bytes: &[u8]) -> Vec<i64> {
        batch::verify_crc(bytes).unwrap();
        let header = BatchHeader::parse(bytes).unwrap();
        let plain = unpack(&header, bytes).unwrap();
        let all = records(&plain, header.record_count).map(Result::unwrap);
        all.map(|record| header.base_offset + i64::from(record.offset_delta)).collect()
    }

    #[test]
    fn the_last_record_of_each_key_stays_in_every_codec() {
        for codec in Codec::ALL {
            let (header, bytes) = batch(
                codec,
                &[("a", Some("1")), ("b", Some("2")), ("a", Some("3")), ("c", None), ("", Some("x"))],
                50,
            );
            let mut last = LastOffsets::new();
            let producers = Producers::default();
            last.note(&header, &bytes, &producers);
            let rules = Rules { last: &last, producers: &producers, purge: false };
            let Kept::Part(part) = keep(&header, &bytes, &rules).unwrap() else { panic!("{codec:?}") };
            assert_eq!(offsets(&part), [51, 52, 53]);
            let left = BatchHeader::parse(&part).unwrap();
            assert_eq!((left.last_offset(), left.max_timestamp, left.codec()), (54, 103, codec));
            let purging = Rules { purge: true, ..rules };
            let Kept::Part(part) = keep(&left, &part, &purging).unwrap() else { panic!("{codec:?}") };
            assert_eq!(offsets(&part), [51, 52]);
            let left = BatchHeader::parse(&part).unwrap();
            assert_eq!(keep(&left, &part, &purging).unwrap(), Kept::Whole);
            let (newer, bytes) = batch(codec, &[("a", Some("4")), ("b", Some("5"))], 60);
            last.note(&newer, &bytes, &producers);
            let rules = Rules { last: &last, producers: &producers, purge: false };
            assert_eq!(keep(&left, &part, &rules).unwrap(), Kept::Nothing);
        }
    }

    #[test]
    fn the_last_batch_of_a_producer_stays_as_an_empty_one() {
        let (_, mut bytes) = batch(Codec::Zstd, &[("a", Some("1"))], 10);
        batch::set_producer(&mut bytes, 7, 0, 3).unwrap();
        let header = BatchHeader::parse(&bytes).unwrap();
        let mut producers = Producers::default();
        producers.note(&header, None);
        let mut last = LastOffsets::new();
        let (newer, other) = batch(Codec::None, &[("a", Some("2"))], 11);
        last.note(&newer, &other, &producers);
        let rules = Rules { last: &last, producers: &producers, purge: false };
        let Kept::Part(empty) = keep(&header, &bytes, &rules).unwrap() else { panic!() };
        assert_eq!(offsets(&empty), [0_i64; 0]);
        let left = BatchHeader::parse(&empty).unwrap();
        assert_eq!((left.base_sequence, left.last_offset(), left.producer_id), (3, 10, 7));
        assert_eq!(keep(&left, &empty, &rules).unwrap(), Kept::Whole);
    }

    #[test]
    fn aborted_records_go_and_shadow_nothing() {
        let (_, mut bytes) = batch(Codec::None, &[("a", Some("aborted"))], 10);
        batch::set_transactional(&mut bytes, false).unwrap();
        batch::set_producer(&mut bytes, 7, 0, 0).unwrap();
        let header = BatchHeader::parse(&bytes).unwrap();
        let mut producers = Producers::default();
        producers.note(&header, None);
        for (offset, marker) in [(11, Marker::Abort), (12, Marker::Commit)] {
            let mut control = marker::build(7, 0, marker, 1, 0).unwrap();
            batch::set_base_offset(&mut control, offset).unwrap();
            let header = BatchHeader::parse(&control).unwrap();
            producers.note(&header, Some((marker, 1)));
            let last = LastOffsets::new();
            let rules = Rules { last: &last, producers: &Producers::default(), purge: true };
            let wanted = if marker == Marker::Abort { Kept::Whole } else { Kept::Nothing };
            assert_eq!(keep(&header, &control, &rules).unwrap(), wanted);
        }
        let mut last = LastOffsets::new();
        last.note(&header, &bytes, &producers);
        assert!(last.is_last(b"a", 5));
        let (newer, other) = batch(Codec::None, &[("b", None)], 13);
        last.note(&newer, &other, &producers);
        let rules = Rules { last: &last, producers: &producers, purge: false };
        let Kept::Part(empty) = keep(&header, &bytes, &rules).unwrap() else { panic!() };
        assert_eq!(offsets(&empty), [0_i64; 0]);
    }
}

//! The evidence of a sample of the records: how well they compress, whether they have keys, and which rule placed the keys in their
//! partition.
//!
//! Keys are hashed in place, and nothing of a record is kept.

use std::collections::HashSet;

use hone_kafka::partitioner::murmur2;
use hone_kafka::{Codec, batch::HEADER_BYTES, codec, records};
use hone_record::KeyUse;

use crate::scan::Seen;
use crate::tally::{CODECS, codec_index};

/// A batch that decompresses to more is skipped.
const UNPACKED_LIMIT_BYTES: usize = 16 << 20;
/// Limit of the distinct keys.
const MOST_KEYS: usize = 1 << 16;
/// Least number of keyed records that test a rule, and the share that it must explain: a wrong rule explains only one of all partitions.
const LEAST_KEYED: u64 = 50;
const EXPLAINED_SHARE: f64 = 0.98;

/// The hash of a key; the partition is its remainder.
type Place = fn(&[u8]) -> u32;

/// Rules by which clients place keys.
const RULES: [(&str, Place); 3] = [
    // Java's BuiltInPartitioner, franz-go's StickyKeyPartitioner.
    ("murmur2", |key| murmur2(key) & 0x7fff_ffff),
    // librdkafka's `consistent_random`.
    ("crc32", crc32fast::hash),
    // Sarama's NewHashPartitioner: it negates a negative hash instead of clearing the sign bit.
    ("fnv1a", |key| fnv1a(key).cast_signed().unsigned_abs()),
];

/// Sums over decompressed batches.
#[derive(Debug, Clone, Default)]
pub struct Payload {
    /// Bytes of the decompressed batches, as stored.
    pub looked_at_bytes: u64,
    /// Batches that could not be decompressed, or whose records are invalid.
    pub broken: u64,
    /// The first failure.
    pub problem: Option<String>,
    packed: [u64; CODECS],
    plain: [u64; CODECS],
    records: u64,
    keyed: u64,
    record_bytes: u64,
    keys: HashSet<u64>,
    is_more: bool,
    explained: [u64; RULES.len()],
}

impl Payload {
    /// Adds a complete batch as stored, of a topic with this number of partitions.
    pub fn add(&mut self, partition: i32, partitions: usize, seen: &Seen, batch: &[u8]) {
        let Some(payload) = batch.get(HEADER_BYTES..) else { return };
        self.looked_at_bytes += batch.len() as u64;
        let codec = seen.header.codec();
        let unpacked;
        let plain = if codec == Codec::None {
            payload
        } else {
            match codec::decompress(codec, payload, UNPACKED_LIMIT_BYTES) {
                Ok(bytes) => unpacked = bytes,
                Err(error) => return self.fail(format!("{}: {error}", codec.name())),
            }
            unpacked.as_slice()
        };
        let index = codec_index(codec);
        self.packed[index] += payload.len() as u64;
        self.plain[index] += plain.len() as u64;
        self.record_bytes += plain.len() as u64;
        let mut problem = None;
        for record in records(plain, seen.header.record_count) {
            match record {
                Ok(record) => self.key(record.key, partition, partitions),
                Err(error) => problem = Some(error.to_string()),
            }
        }
        if let Some(problem) = problem {
            self.fail(problem);
        }
    }

    fn fail(&mut self, problem: String) {
        self.broken += 1;
        self.problem.get_or_insert(problem);
    }

    fn key(&mut self, key: Option<&[u8]>, partition: i32, partitions: usize) {
        self.records += 1;
        let Some(key) = key else { return };
        self.keyed += 1;
        if self.keys.len() < MOST_KEYS {
            self.keys.insert(u64::from(murmur2(key)) << 32 | u64::from(fnv1a(key)));
        } else {
            self.is_more = true;
        }
        let partitions = u32::try_from(partitions).unwrap_or(u32::MAX).max(1);
        for (explained, (_, rule)) in self.explained.iter_mut().zip(RULES) {
            *explained += u64::from(rule(key) % partitions == partition.unsigned_abs());
        }
    }

    /// Bytes of records before and after compression; `None` if no batch was decompressed.
    pub fn ratio(&self, codec: Codec) -> Option<f64> {
        let index = codec_index(codec);
        (self.packed[index] > 0).then(|| self.plain[index] as f64 / self.packed[index] as f64)
    }

    /// Mean bytes of a record before compression.
    pub fn record_bytes(&self) -> Option<f64> {
        (self.records > 0).then(|| self.record_bytes as f64 / self.records as f64)
    }

    /// The evidence of the keys; `None` without a record.
    pub fn keys(&self, partitions: usize) -> Option<KeyUse> {
        Some(KeyUse {
            records: self.records,
            keyed_share: self.keyed as f64 / self.records.max(1) as f64,
            distinct: self.keys.len() as u64,
            is_more: self.is_more,
            partitioner: self.partitioner(partitions).map(str::to_owned),
            record_bytes: self.record_bytes()?,
        })
    }

    /// One key, or one partition, does not show a rule.
    fn partitioner(&self, partitions: usize) -> Option<&'static str> {
        if partitions < 2 || self.keyed < LEAST_KEYED || self.keys.len() < 8 {
            return None;
        }
        let needed = EXPLAINED_SHARE * self.keyed as f64;
        let found = self.explained.iter().zip(RULES).find(|(explained, _)| **explained as f64 >= needed);
        found.map(|(_, (name, _))| name)
    }
}

/// FNV-1a of 32 bits.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use hone_kafka::{BatchBuilder, BatchHeader, partition_of_key};

    use super::*;

    fn look(payload: &mut Payload, partition: i32, codec: Codec, keys: &[Option<String>]) {
        let mut builder = BatchBuilder::new(codec);
        for key in keys {
            builder.push(key.as_ref().map(String::as_bytes), Some(&[b'v'; 100]), 5);
        }
        let batch = builder.build().unwrap();
        let header = BatchHeader::parse(&batch).unwrap();
        payload.add(partition, 6, &Seen { header, bytes: batch.len() as u64 }, &batch);
    }

    fn placed(place: impl Fn(&str) -> u32) -> Payload {
        let mut payload = Payload::default();
        for partition in 0..6 {
            let keys = (0..400).map(|key| format!("key-{key}")).filter(|key| place(key) == partition);
            look(&mut payload, partition as i32, Codec::Zstd, &keys.map(Some).collect::<Vec<_>>());
        }
        payload
    }

    #[test]
    fn the_rule_that_placed_the_keys_is_named() {
        let murmur = placed(|key| partition_of_key(key.as_bytes(), 6)).keys(6).unwrap();
        assert_eq!(
            (murmur.partitioner.as_deref(), murmur.distinct, murmur.keyed_share),
            (Some("murmur2"), 400, 1.0)
        );
        let crc = placed(|key| crc32fast::hash(key.as_bytes()) % 6).keys(6).unwrap();
        assert_eq!(crc.partitioner.as_deref(), Some("crc32"));
        let other = placed(|key| key.len() as u32 % 6).keys(6).unwrap();
        assert_eq!(other.partitioner, None);
        // Printed by Go's hash/fnv New32a.
        assert_eq!((fnv1a(b""), fnv1a(b"a"), fnv1a(b"foobar")), (0x811c_9dc5, 0xe40c_292c, 0xbf9c_f968));
    }

    #[test]
    fn records_without_keys_and_the_gain_of_a_codec_are_told() {
        let mut payload = Payload::default();
        look(&mut payload, 0, Codec::Gzip, &vec![None; 100]);
        let keys = payload.keys(6).unwrap();
        assert_eq!((keys.keyed_share, keys.distinct, keys.partitioner), (0.0, 0, None));
        assert!((105.0..112.0).contains(&keys.record_bytes), "{}", keys.record_bytes);
        assert!(payload.ratio(Codec::Gzip).unwrap() > 10.0);
        assert_eq!(payload.ratio(Codec::None), None);
    }

    #[test]
    fn what_can_not_be_unpacked_is_counted_with_its_reason() {
        let mut payload = Payload::default();
        let mut builder = BatchBuilder::new(Codec::None);
        builder.push(None, Some(b"value"), 5);
        let mut batch = builder.build().unwrap();
        batch[22] |= Codec::Lz4.bits() as u8;
        let header = BatchHeader::parse(&batch).unwrap();
        payload.add(0, 1, &Seen { header, bytes: batch.len() as u64 }, &batch);
        assert_eq!(payload.broken, 1);
        assert!(payload.problem.unwrap().contains("lz4"));
    }
}

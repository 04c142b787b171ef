//! Compacted logs: any batches, transactions and times. Of each key the last value that counts survives, nothing is
//! invented, and no offset moves.
//!
//! An input is a byte for the log, then steps: a byte each, and what it needs.

use std::collections::BTreeMap;

use hone_kafka::batch::{self, HEADER_BYTES};
use hone_kafka::{BatchBuilder, Codec, batches, codec, records};

use super::cursor::Cursor;
use super::recovery::{config, seal_batches};
use crate::notices::Notices;
use crate::partition::{Ack, Marker, Opening, Partition, Storage};

const MOST_STEPS: usize = 200;
const LIMIT_BYTES: usize = 1 << 20;
const START_MS: i64 = 1_700_000_000_000;
/// Bit of the attributes, and where they stand.
const TRANSACTIONAL: u8 = 1 << 4;
const ATTRIBUTES_AT: usize = 22;

type Key = Vec<u8>;

/// What was appended.
#[derive(Default)]
struct Model {
    /// Key and value by offset.
    records: BTreeMap<i64, (Key, Option<Vec<u8>>)>,
    /// Offsets of open transactions by producer.
    open: BTreeMap<i64, Vec<i64>>,
    /// Offsets of aborted ones.
    aborted: Vec<i64>,
    sequences: BTreeMap<i64, i32>,
    /// Whether batches of meaningless bytes were written, too.
    has_noise: bool,
}

struct Life {
    partition: Partition,
    model: Model,
    now_ms: i64,
    /// Held while the log is used.
    _folder: Option<tempfile::TempDir>,
}

/// Runs an input.
pub fn compaction(data: &[u8]) {
    let mut input = Cursor::new(data);
    let choice = input.u8();
    let mut config = config(true);
    config.delete_retention_ms = if choice & 2 == 0 { 0 } else { 1_000 };
    config.min_cleanable_dirty_ratio = if choice & 4 == 0 { 0.0 } else { 0.5 };
    let folder = (choice & 1 != 0).then(super::folder);
    let place = folder.as_ref().map(|folder| folder.path().join("c-0")).unwrap_or_default();
    let storage = Storage { memory: folder.is_none(), ..Storage::on_disk(Notices::nowhere()) };
    let opening = Opening { topic: "c".to_owned(), index: 0, folder: place, config };
    let partition = Partition::open(opening.clone(), &storage).expect("an empty log");
    let mut life = Life { partition, model: Model::default(), now_ms: START_MS, _folder: folder };
    for _ in 0..MOST_STEPS {
        if input.is_empty() {
            break;
        }
        life.step(&mut input);
    }
    life.compact();
    life.check();
    life.compact();
    life.check();
    if choice & 1 != 0 {
        life.partition = Partition::open(opening, &storage).expect("the log that was written");
        life.check();
    }
}

impl Life {
    fn step(&mut self, input: &mut Cursor<'_>) {
        let step = input.u8();
        self.now_ms += 1;
        match step % 8 {
            0..4 => self.append(Codec::ALL[usize::from(step / 8) % 5], None, input),
            4 => self.append(Codec::None, Some(i64::from(step / 8 % 3)), input),
            5 => self.end(i64::from(step / 8 % 3), step & 0x80 != 0),
            6 => self.noise(step, input.piece()),
            _ => {
                self.now_ms += i64::from(step) * 20;
                self.compact();
            }
        }
    }

    /// A few records; their keys and values are bytes of the input.
    fn append(&mut self, codec: Codec, producer: Option<i64>, input: &mut Cursor<'_>) {
        let mut builder = BatchBuilder::new(codec);
        let mut written = Vec::new();
        for _ in 0..=input.u8() % 4 {
            let (key, value) = (vec![b'k', input.u8() % 16], input.u8());
            let value = (value != 0).then(|| vec![value; usize::from(value)]);
            builder.push(Some(&key), value.as_deref(), self.now_ms);
            written.push((key, value));
        }
        let mut bytes = builder.build().expect("a batch");
        if let Some(producer) = producer {
            let sequence = self.model.sequences.entry(producer).or_default();
            batch::set_producer(&mut bytes, producer, 0, *sequence).expect("a batch");
            *sequence += written.len() as i32;
            bytes[ATTRIBUTES_AT] |= TRANSACTIONAL;
            seal_batches(&mut bytes);
        }
        let appended = self.partition.append(&mut bytes, Ack::Relaxed, self.now_ms, &mut Vec::new());
        let base_offset = appended.expect("a batch that is in order").base_offset;
        for (offset, record) in (base_offset..).zip(written) {
            self.model.records.insert(offset, record);
            if let Some(producer) = producer {
                self.model.open.entry(producer).or_default().push(offset);
            }
        }
    }

    fn end(&mut self, producer: i64, commits: bool) {
        let marker = if commits { Marker::Commit } else { Marker::Abort };
        self.partition
            .append_marker(producer, 0, marker, 0, self.now_ms, &mut Vec::new())
            .expect("a marker of this epoch");
        let offsets = self.model.open.remove(&producer).unwrap_or_default();
        if !commits {
            self.model.aborted.extend(offsets);
        }
    }

    /// Records of any bytes behind a right header and checksum: nothing that can't be read may get lost.
    fn noise(&mut self, choice: u8, records: &[u8]) {
        let mut builder = BatchBuilder::new(Codec::None);
        builder.push(None, None, self.now_ms);
        let mut bytes = builder.build().expect("a batch");
        bytes.truncate(HEADER_BYTES);
        bytes.extend_from_slice(records);
        let length = i32::try_from(bytes.len() - batch::LENGTH_OVERHEAD_BYTES).expect("a small batch");
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        // Codecs that exist, and no control batch: Produce takes none.
        bytes[ATTRIBUTES_AT] = choice / 8 % 5;
        bytes[26] = choice >> 6;
        bytes[60] = choice >> 6;
        seal_batches(&mut bytes);
        self.model.has_noise = true;
        self.partition.append(&mut bytes, Ack::Relaxed, self.now_ms, &mut Vec::new()).expect("a batch");
    }

    fn compact(&mut self) {
        self.now_ms += 10_000_000;
        for _ in 0..2 {
            self.now_ms += 2_000;
            self.partition.housekeep(self.now_ms).expect("a log that can be kept in order");
        }
    }

    fn check(&self) {
        let bounds = self.partition.bounds();
        let found = self.read(bounds.log_start, bounds.high_watermark);
        if self.model.has_noise {
            return;
        }
        for (offset, record) in &found {
            assert_eq!(self.model.records.get(offset), Some(record), "at {offset} there is something new");
        }
        let stable = bounds.last_stable;
        let counts = |offset: &i64| !self.model.aborted.contains(offset);
        let mut last: BTreeMap<&Key, (i64, &Option<Vec<u8>>)> = BTreeMap::new();
        for (offset, (key, value)) in self.model.records.iter().filter(|(offset, _)| counts(offset)) {
            last.insert(key, (*offset, value));
        }
        for (key, (offset, value)) in last {
            let kept = found.contains_key(&offset);
            assert!(
                kept || value.is_none(),
                "the last value of {key:?}, at {offset}, is gone; stable {stable}"
            );
            if !kept {
                let older = found
                    .iter()
                    .find(|(older, record)| **older < offset && record.0 == *key && counts(older));
                assert!(older.is_none(), "{key:?} was deleted at {offset} and is back: {older:?}");
            }
        }
    }

    fn read(&self, mut offset: i64, end: i64) -> BTreeMap<i64, (Key, Option<Vec<u8>>)> {
        let mut found = BTreeMap::new();
        while offset < end {
            let mut set = Vec::new();
            self.partition.read(offset, 4_000, true, false, &mut set).expect("a log that can be read");
            let mut next = end;
            for one in batches(&set) {
                let one = one.expect("a whole batch");
                batch::verify_crc(one.bytes).expect("a right checksum");
                assert!(one.header.last_offset() >= offset, "batches are out of order");
                next = one.header.last_offset() + 1;
                offset = next;
                if !one.header.is_control() {
                    note(&one, &mut found);
                }
            }
            offset = next;
        }
        found
    }
}

fn note(one: &hone_kafka::Batch<'_>, found: &mut BTreeMap<i64, (Key, Option<Vec<u8>>)>) {
    // Noise stays as it is.
    let Ok(plain) = codec::decompress(one.header.codec(), one.payload(), LIMIT_BYTES) else { return };
    for record in records(&plain, one.header.record_count).map_while(Result::ok) {
        let offset = one.header.base_offset + i64::from(record.offset_delta);
        if let Some(key) = record.key {
            found.insert(offset, (key.to_vec(), record.value.map(<[u8]>::to_vec)));
        }
    }
}

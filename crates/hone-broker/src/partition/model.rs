//! Random lives of a log against a simple model: what must be there is there, nothing else is, order holds.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use hone_kafka::{BatchBuilder, Codec, batches, codec, records};
use proptest::prelude::*;

use super::tests::config;
use super::*;
use crate::log::{LOG, file_name};
use crate::notices::Notices;

#[derive(Debug, Clone)]
enum Step {
    Append {
        ack: Ack,
        keys: Vec<u8>,
        codec: usize,
    },
    /// The last batch again, as a producer does that got no answer.
    Retry,
    Flush,
    Housekeep {
        later_ms: i64,
    },
    DeleteRecords {
        part: u8,
    },
    Stop,
    Kill,
    PowerCut,
}

fn step() -> impl Strategy<Value = Step> {
    let ack = prop_oneof![Just(Ack::Relaxed), Just(Ack::Strict)];
    let append = (ack, prop::collection::vec(0_u8..12, 1..6), 0_usize..5)
        .prop_map(|(ack, keys, codec)| Step::Append { ack, keys, codec });
    prop_oneof![
        12 => append,
        2 => Just(Step::Retry),
        3 => Just(Step::Flush),
        3 => (0_i64..40_000).prop_map(|later_ms| Step::Housekeep { later_ms }),
        1 => any::<u8>().prop_map(|part| Step::DeleteRecords { part }),
        1 => Just(Step::Stop),
        1 => Just(Step::Kill),
        1 => Just(Step::PowerCut),
    ]
}

type Key = Vec<u8>;
type Value = Option<Vec<u8>>;

/// What was appended, by offset.
#[derive(Default)]
struct Model {
    records: BTreeMap<i64, (Key, Value)>,
    next: i64,
    log_start: i64,
    sequence: i32,
    last_batch: Option<(Vec<u8>, i64)>,
    /// The first strict batch since the last flush.
    strict: Option<i64>,
}

struct Life<'a> {
    folder: &'a Path,
    config: LogConfig,
    partition: Partition,
    model: Model,
    now_ms: i64,
}

fn open(folder: &Path, config: &LogConfig) -> Partition {
    let opening =
        Opening { topic: "t".to_owned(), index: 0, folder: folder.join("t-0"), config: config.clone() };
    Partition::open(opening, &Storage::on_disk(Notices::nowhere())).unwrap()
}

impl Life<'_> {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Append { ack, keys, codec } => self.append(*ack, keys, Codec::ALL[*codec]),
            Step::Retry => self.retry(),
            Step::Flush => {
                assert_eq!(self.partition.flush().unwrap(), self.model.next);
                assert_eq!(self.partition.bounds().high_watermark, self.model.next);
            }
            Step::Housekeep { later_ms } => {
                self.now_ms += later_ms;
                self.partition.housekeep(self.now_ms).unwrap();
            }
            Step::DeleteRecords { part } => {
                let bounds = self.partition.bounds();
                let visible = bounds.high_watermark - bounds.log_start;
                let before = bounds.log_start + visible * i64::from(*part) / 512;
                assert_eq!(self.partition.delete_records(before).unwrap(), before);
            }
            Step::Stop => {
                self.partition.close().unwrap();
                self.reopen();
                assert_eq!(self.partition.bounds().next, self.model.next);
            }
            Step::Kill => {
                self.reopen();
                assert_eq!(self.partition.bounds().next, self.model.next);
            }
            Step::PowerCut => self.power_cut(),
        }
        self.check();
    }

    fn append(&mut self, ack: Ack, keys: &[u8], codec: Codec) {
        let mut builder = BatchBuilder::new(codec);
        let base = self.model.next;
        for (offset, key) in (base..).zip(keys) {
            let value = (offset % 5 != 0).then(|| format!("{offset}{}", "x".repeat(100)).into_bytes());
            builder.push(Some(&[*key]), value.as_deref(), self.now_ms);
            self.model.records.insert(offset, (vec![*key], value));
        }
        let mut bytes = builder.build().unwrap();
        batch::set_producer(&mut bytes, 9, 0, self.model.sequence).unwrap();
        self.model.sequence += keys.len() as i32;
        self.model.next += keys.len() as i64;
        self.model.last_batch = Some((bytes.clone(), base));
        let appended = self.partition.append(&mut bytes, ack, self.now_ms, &mut Vec::new()).unwrap();
        assert_eq!((appended.base_offset, appended.duplicate), (base, false));
        assert_eq!(appended.end_offset, self.model.next);
        if ack == Ack::Strict {
            self.model.strict.get_or_insert(base);
        }
    }

    fn retry(&mut self) {
        if let Some((bytes, base)) = &self.model.last_batch {
            let again = self.partition.append(&mut bytes.clone(), Ack::Strict, self.now_ms, &mut Vec::new());
            let again = again.unwrap();
            assert_eq!(
                (again.base_offset, again.duplicate, again.end_offset),
                (*base, true, self.model.next)
            );
        }
    }

    fn reopen(&mut self) {
        let before = self.partition.bounds();
        self.partition = open(self.folder, &self.config);
        let after = self.partition.bounds();
        assert!(after.log_start >= before.log_start, "{before:?} {after:?}");
        assert_eq!((after.flushed, after.high_watermark), (after.next, after.next));
    }

    /// Cuts every file to what an fsync has covered.
    fn power_cut(&mut self) {
        let flushed = self.partition.bounds().flushed;
        for segment in &self.partition.log().segments {
            let path = self.folder.join("t-0").join(file_name(segment.base_offset, LOG));
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_len(segment.flushed_bytes).unwrap();
        }
        self.partition = open(self.folder, &self.config);
        let bounds = self.partition.bounds();
        assert_eq!(bounds.next, flushed.max(bounds.log_start));
        self.model.records.split_off(&flushed);
        self.model.next = bounds.next;
        self.model.strict = None;
        // The producer knows which of its batches were lost, and takes a new sequence after that.
        self.model.sequence = self
            .partition
            .producers()
            .first()
            .map_or(self.model.sequence, |producer| producer.last_sequence + 1);
        if self.model.last_batch.as_ref().is_some_and(|(_, base)| *base >= flushed) {
            self.model.last_batch = None;
        }
    }

    fn check(&mut self) {
        let bounds = self.partition.bounds();
        let flushed = bounds.flushed;
        self.model.strict = self.model.strict.filter(|base| *base >= flushed);
        assert_eq!(bounds.high_watermark, self.model.strict.unwrap_or(self.model.next));
        assert!(bounds.log_start >= self.model.log_start);
        assert!(bounds.log_start <= bounds.high_watermark && bounds.high_watermark <= bounds.next);
        assert!(bounds.flushed <= bounds.high_watermark);
        assert_eq!(bounds.next, self.model.next);
        self.model.log_start = bounds.log_start;
        let read = read_all(&self.partition);
        let visible = self.model.records.range(bounds.log_start..bounds.high_watermark);
        if self.config.compact {
            let mut last: HashMap<&Key, (i64, &Value)> = HashMap::new();
            visible.for_each(|(offset, (key, value))| {
                last.insert(key, (*offset, value));
            });
            for (offset, record) in &read {
                assert_eq!(self.model.records.get(offset), Some(record), "offset {offset}");
            }
            for (key, (offset, value)) in last {
                assert!(value.is_none() || read.contains_key(&offset), "key {key:?} at {offset} is lost");
            }
        } else {
            let visible: Vec<_> = visible.collect();
            assert_eq!(read.iter().collect::<Vec<_>>(), visible);
        }
    }
}

/// Every record that readers get, by offset; batches must be whole, good and in order.
fn read_all(partition: &Partition) -> BTreeMap<i64, (Key, Value)> {
    let bounds = partition.bounds();
    let (mut all, mut at) = (BTreeMap::new(), bounds.log_start);
    loop {
        let mut out = Vec::new();
        partition.read(at, 3_000, true, false, &mut out).unwrap();
        if out.is_empty() {
            return all;
        }
        for batch in batches(&out) {
            let batch = batch.unwrap();
            batch::verify_crc(batch.bytes).unwrap();
            assert!(batch.header.last_offset() >= at, "went back from {at}");
            at = batch.header.last_offset() + 1;
            assert!(at <= bounds.high_watermark);
            let plain = codec::decompress(batch.header.codec(), batch.payload(), 1 << 20).unwrap();
            for record in records(&plain, batch.header.record_count) {
                let record = record.unwrap();
                let offset = batch.header.base_offset + i64::from(record.offset_delta);
                let key = record.key.unwrap_or_default().to_vec();
                if offset >= bounds.log_start {
                    all.insert(offset, (key, record.value.map(<[u8]>::to_vec)));
                }
            }
        }
    }
}

/// A file system without a disk.
const MEMORY: &str = "/dev/shm";
/// Each case is a life of many fsyncs: on a slow disk this many take minutes.
const MOST_CASES_ON_DISK: u32 = 500;

/// Power cuts are played on copies, so nothing depends on what is below the folder.
fn tempdir() -> tempfile::TempDir {
    tempfile::tempdir_in(MEMORY).or_else(|_| tempfile::tempdir()).unwrap()
}

/// Few by default; `PROPTEST_CASES` asks for more, and gets as many as end in minutes.
fn cases() -> u32 {
    let asked = std::env::var_os("PROPTEST_CASES").map_or(64, |_| ProptestConfig::default().cases);
    let in_memory = tempfile::tempdir_in(MEMORY).is_ok();
    if in_memory { asked } else { asked.min(MOST_CASES_ON_DISK) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn a_log_keeps_what_it_promised(
        steps in prop::collection::vec(step(), 1..80),
        kind in 0_u8..4,
    ) {
        let folder = tempdir();
        let config = LogConfig {
            segment_bytes: 1_000,
            segment_ms: 100_000,
            compact: kind >= 2,
            delete: kind != 2,
            retention_bytes: (kind == 1).then_some(6_000),
            retention_ms: (kind == 3).then_some(150_000),
            min_cleanable_dirty_ratio: 0.1,
            delete_retention_ms: 30_000,
            ..config()
        };
        let partition = open(folder.path(), &config);
        let mut life =
            Life { folder: folder.path(), config, partition, model: Model::default(), now_ms: 1_000_000 };
        for step in &steps {
            life.step(step);
        }
    }

    /// Damage anywhere in what no manifest names: the good batches before it stay, and no bad one is served.
    #[test]
    fn damage_ends_a_log_at_the_last_good_batch(
        at in any::<prop::sample::Index>(),
        flip in 1_u8..,
        kind in 0_u8..4,
    ) {
        let folder = tempdir();
        let config = LogConfig { segment_bytes: 1_000, ..config() };
        let mut life = Life {
            folder: folder.path(),
            partition: open(folder.path(), &config),
            config: config.clone(),
            model: Model::default(),
            now_ms: 5,
        };
        for step in 0..20 {
            life.append(Ack::Relaxed, &[step, 1, 2], Codec::ALL[usize::from(step) % 5]);
        }
        let whole = read_all(&life.partition);
        let mut logs: Vec<_> = fs::read_dir(folder.path().join("t-0")).unwrap().map(|e| e.unwrap().path()).collect();
        logs.sort();
        let sizes: Vec<_> = logs.iter().map(|path| fs::metadata(path).unwrap().len()).collect();
        let mut position = at.index(sizes.iter().sum::<u64>() as usize) as u64;
        let hurt = sizes.iter().position(|size| position < *size || { position -= size; false }).unwrap();
        let mut bytes = fs::read(&logs[hurt]).unwrap();
        // The checksum does not cover the leader epoch, and no code relies on it.
        let mut good = 0;
        let mut in_epoch = false;
        for batch in batches(&bytes) {
            let batch = batch.unwrap();
            let begin = batch.position as u64;
            in_epoch |= (begin + 12..begin + 16).contains(&position);
            if begin + batch.bytes.len() as u64 <= position {
                good = batch.header.last_offset() + 1;
            }
        }
        let position = position as usize;
        match kind {
            0 | 1 => bytes[position] ^= flip,
            2 => bytes.truncate(position),
            _ => bytes.extend_from_slice(&vec![flip; position + 1]),
        }
        fs::write(&logs[hurt], &bytes).unwrap();
        life.partition = open(folder.path(), &config);
        let left = read_all(&life.partition);
        prop_assert!(left.iter().all(|(offset, record)| whole.get(offset) == Some(record)));
        if kind < 2 && !in_epoch && good + 3 < life.model.next {
            // Whole batches were behind it: in this segment, or in others.
            let names = fs::read_dir(folder.path().join("t-0")).unwrap().map(|entry| entry.unwrap().file_name());
            prop_assert!(names.map(|name| name.into_string().unwrap()).any(|name| name.ends_with(".log.cut-1")));
        }
        if !(in_epoch && kind < 2) {
            let kept = life.partition.bounds().next;
            prop_assert!(kept >= good, "{kept} of {good}");
            prop_assert_eq!(left.len() as i64, kept);
        }
        // It can go on, and be opened again.
        life.model.next = life.partition.bounds().next;
        life.model.sequence = life.partition.producers().first().map_or(0, |one| one.last_sequence + 1);
        life.append(Ack::Strict, &[1], Codec::None);
        life.partition.close().unwrap();
        life.reopen();
        prop_assert_eq!(life.partition.bounds().next, life.model.next);
    }

    /// Damage of the files next to the log costs time, not records.
    #[test]
    fn damaged_indexes_snapshots_and_manifests_cost_nothing(
        victim in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        flip in 1_u8..,
        kind in 0_u8..3,
        clean in any::<bool>(),
    ) {
        let folder = tempdir();
        let config = LogConfig { segment_bytes: 20_000, ..config() };
        let mut life = Life {
            folder: folder.path(),
            partition: open(folder.path(), &config),
            config: config.clone(),
            model: Model::default(),
            now_ms: 5,
        };
        for step in 0..200_u8 {
            life.append(Ack::Relaxed, &[step, 1, 2, 3, 4], Codec::None);
        }
        life.partition.housekeep(6).unwrap();
        if clean {
            life.partition.close().unwrap();
        }
        let whole = read_all(&life.partition);
        let mut files: Vec<_> = fs::read_dir(folder.path().join("t-0")).unwrap().map(|e| e.unwrap().path()).collect();
        files.retain(|path| path.extension().is_none_or(|kind| kind != LOG));
        // An index whose entries still rise, but lead into the middle of a batch, is found out when it is used.
        files.sort();
        let file = &files[victim.index(files.len())];
        let mut bytes = fs::read(file).unwrap();
        let position = at.index(bytes.len().max(1));
        match kind {
            0 if !bytes.is_empty() => bytes[position] ^= flip,
            1 => bytes.truncate(position),
            _ => bytes.clear(),
        }
        fs::write(file, &bytes).unwrap();
        life.partition = open(folder.path(), &config);
        prop_assert_eq!(read_all(&life.partition), whole);
        life.retry();
    }
}

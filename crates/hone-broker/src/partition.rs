//! One partition: its log on disk behind one lock, its counters, and who waits for it to grow.
//!
//! An append is acknowledged once `write` has handed it to the page cache: it survives the death of this process,
//! not the death of the machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hone_kafka::batch;
use hone_kafka::{BatchHeader, batches};

use crate::log_config::LogConfig;
use crate::mailbox::Ticket;
use crate::producers::{Producers, Sequence};
use crate::segment::{Segment, Stretch};
use crate::settings::Notices;

/// The only leader there ever is.
pub(crate) const LEADER_EPOCH: i32 = 0;

/// Behind the name of a folder that is about to go. No topic name leads to it: a folder ends in the partition.
pub(crate) const DELETED_SUFFIX: &str = ".deleted";

/// What the partition counts, for `/metrics`.
#[derive(Debug, Default)]
pub(crate) struct PartitionCounters {
    pub(crate) written_bytes: AtomicU64,
    pub(crate) written_batches: AtomicU64,
    pub(crate) produced_batches: AtomicU64,
    pub(crate) produced_bytes: AtomicU64,
    pub(crate) produced_records: AtomicU64,
    pub(crate) fetched_bytes: AtomicU64,
    /// Batches that could not be written, for want of space for example.
    pub(crate) storage_errors: AtomicU64,
}

/// When a batch is acknowledged and visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ack {
    /// At once, from memory.
    Relaxed,
    /// When it is on the disk.
    Strict,
}

/// Where a batch went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Appended {
    pub(crate) base_offset: i64,
    pub(crate) log_start: i64,
    pub(crate) end_offset: i64,
    pub(crate) append_time_ms: i64,
    pub(crate) duplicate: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) log_start: i64,
    pub(crate) last_stable: i64,
    pub(crate) high_watermark: i64,
    pub(crate) next: i64,
    pub(crate) flushed: i64,
}

/// Why a batch was not stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AppendError {
    #[error("sequence {0:?}")]
    Sequence(Sequence),
    #[error("the topic was deleted")]
    Removed,
    #[error("the log can't be written: {0}")]
    Storage(#[from] io::Error),
}

/// Why records were not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("the offset is outside of the log")]
    OutOfRange,
    #[error("the log can't be read: {0}")]
    Storage(#[from] io::Error),
}

/// One partition of a topic.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) topic: String,
    pub(crate) index: i32,
    pub(crate) counters: PartitionCounters,
    flushed: AtomicU64,
    folder: PathBuf,
    segment_bytes: AtomicU64,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    /// Oldest first; empty until the first append.
    segments: Vec<Segment>,
    next_offset: i64,
    producers: Producers,
    waiting: Vec<Ticket>,
    /// Records before this were deleted by a client.
    deleted_before: i64,
    /// Set when the topic is deleted: a request that still holds it must not bring the folder back.
    removed: bool,
}

impl Log {
    fn start_offset(&self) -> i64 {
        self.segments.first().map_or(self.next_offset, |segment| segment.base_offset.max(self.deleted_before))
    }

    fn segment_of(&self, offset: i64) -> Option<&Segment> {
        let behind = self.segments.partition_point(|segment| segment.base_offset <= offset);
        self.segments.get(behind.checked_sub(1)?)
    }

    /// The segment to write to; a new one when there is none or the last one is full.
    fn active(&mut self, folder: &Path, segment_bytes: u64, more_bytes: u64) -> io::Result<&mut Segment> {
        let full = match self.segments.last() {
            Some(last) => last.bytes > 0 && last.bytes + more_bytes > segment_bytes,
            None => true,
        };
        if full {
            fs::create_dir_all(folder)?;
            let segment = Segment::open(folder, self.next_offset)?;
            // Left behind by an append that failed; nothing in it was ever acknowledged.
            segment.cut()?;
            self.segments.push(segment);
        }
        self.segments.last_mut().ok_or_else(|| io::Error::other("a log without a segment"))
    }
}

impl Partition {
    /// Opens the log in `folder`, if there is one: scans it, cuts a torn tail, learns the producers.
    pub(crate) fn open(
        topic: &str,
        index: i32,
        folder: PathBuf,
        segment_bytes: u64,
        notices: &Notices,
    ) -> io::Result<Self> {
        let log = recover(&folder, notices)?;
        let counters = PartitionCounters::default();
        let segment_bytes = AtomicU64::new(segment_bytes);
        Ok(Self {
            topic: topic.to_owned(),
            index,
            flushed: AtomicU64::new(0),
            counters,
            folder,
            segment_bytes,
            log: Mutex::new(log),
        })
    }

    /// From now on the log is kept so.
    pub(crate) fn configure(&self, config: LogConfig) {
        self.segment_bytes.store(config.segment_bytes, Relaxed);
    }

    /// Moves the first offset up to `before`, and drops the segments that lie before it. Returns the first offset.
    pub(crate) fn delete_records(&self, before: i64) -> Result<i64, ReadError> {
        let mut log = self.log();
        if before < 0 || before > log.next_offset {
            return Err(ReadError::OutOfRange);
        }
        while let Some(next) = log.segments.get(1)
            && next.base_offset <= before
        {
            fs::remove_file(log.segments.remove(0).path())?;
        }
        log.deleted_before = log.deleted_before.max(before);
        Ok(log.start_offset())
    }

    /// Bytes of the log.
    pub(crate) fn bytes(&self) -> u64 {
        self.log().segments.iter().map(|segment| segment.bytes).sum()
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        // Every change under the lock leaves the log readable at each step, so a panic elsewhere spoils nothing.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores one batch whose CRC and records have been checked; base offset and leader epoch are patched in place.
    /// `wake` gets the tickets of those who wait for this partition.
    pub(crate) fn append(
        &self,
        batch: &mut [u8],
        _ack: Ack,
        _now_ms: i64,
        wake: &mut Vec<Ticket>,
    ) -> Result<Appended, AppendError> {
        let mut header = BatchHeader::parse(batch).map_err(|error| io::Error::other(error.to_string()))?;
        let mut guard = self.log();
        let log = &mut *guard;
        if log.removed {
            return Err(AppendError::Removed);
        }
        let log_start = log.start_offset();
        if header.producer_id >= 0 {
            match log.producers.judge(&header) {
                Sequence::Next => (),
                Sequence::Duplicate(base_offset) => {
                    return Ok(Appended {
                        base_offset,
                        log_start,
                        end_offset: base_offset,
                        append_time_ms: -1,
                        duplicate: true,
                    });
                }
                refused => return Err(AppendError::Sequence(refused)),
            }
        }
        let base_offset = log.next_offset;
        header.base_offset = base_offset;
        patch(batch, base_offset)?;
        let bytes = batch.len() as u64;
        log.active(&self.folder, self.segment_bytes.load(Relaxed), bytes)?.append(&header, batch)?;
        log.next_offset = header.last_offset() + 1;
        log.producers.note(&header, base_offset);
        wake.append(&mut log.waiting);
        self.counters.written_bytes.fetch_add(bytes, Relaxed);
        self.counters.written_batches.fetch_add(1, Relaxed);
        Ok(Appended {
            base_offset,
            log_start,
            end_offset: log.next_offset,
            append_time_ms: -1,
            duplicate: false,
        })
    }

    pub(crate) fn bounds(&self) -> Bounds {
        let (log_start, next) = self.offsets();
        Bounds {
            log_start,
            last_stable: next,
            high_watermark: next,
            next,
            flushed: self.flushed.load(Relaxed) as i64,
        }
    }
    pub(crate) fn flush(&self) -> io::Result<()> {
        let next = self.offsets().1;
        self.flushed.store(next as u64, Relaxed);
        Ok(())
    }
    pub(crate) fn take_waiting(&self, wake: &mut Vec<Ticket>) {
        wake.append(&mut self.log().waiting);
    }
    pub(crate) fn housekeep(&self, _now_ms: i64) -> io::Result<()> {
        Ok(())
    }
    pub(crate) fn has_failed(&self) -> bool {
        false
    }
    pub(crate) fn unflushed_bytes(&self) -> u64 {
        0
    }
    pub(crate) fn flush_limits(&self) -> (u64, u64) {
        (100, 262_144)
    }

    /// First offset and the one behind the last.
    pub(crate) fn offsets(&self) -> (i64, i64) {
        let log = self.log();
        (log.start_offset(), log.next_offset)
    }

    /// Appends batches from the one that holds `offset` on to `out`: whole ones, up to `most` bytes, but at least one
    /// when `at_least_one` says so. Returns first and next offset of the partition.
    pub(crate) fn read(
        &self,
        offset: i64,
        most: usize,
        at_least_one: bool,
        out: &mut Vec<u8>,
    ) -> Result<(i64, i64), ReadError> {
        let (bounds, stretch) = {
            let log = self.log();
            let bounds = (log.start_offset(), log.next_offset);
            if offset < bounds.0 || offset > bounds.1 {
                return Err(ReadError::OutOfRange);
            }
            let stretch = if offset < bounds.1 { log.segment_of(offset) } else { None };
            (bounds, stretch.map(|segment| segment.stretch_for_offset(offset)))
        };
        if let Some(stretch) = stretch {
            let start = out.len();
            read_batches(&stretch, offset, most, at_least_one, out).inspect_err(|_| out.truncate(start))?;
            self.counters.fetched_bytes.fetch_add((out.len() - start) as u64, Relaxed);
        }
        Ok(bounds)
    }

    /// Timestamp and offset of the first record at or after `timestamp`.
    pub(crate) fn offset_for_timestamp(&self, timestamp: i64) -> io::Result<Option<(i64, i64)>> {
        let stretches: Vec<Stretch> = {
            let log = self.log();
            log.segments
                .iter()
                .filter_map(|segment| segment.stretch_for_timestamp(timestamp))
                .take(1)
                .collect()
        };
        let Some(stretch) = stretches.first() else { return Ok(None) };
        let Some((header, position)) = stretch.seek(|header| header.max_timestamp >= timestamp)? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        stretch.read(position, header.total_bytes(), &mut bytes)?;
        Ok(Some(record_at(&header, &bytes, timestamp)))
    }

    /// Timestamp and offset of the record with the largest timestamp.
    pub(crate) fn max_timestamp(&self) -> io::Result<Option<(i64, i64)>> {
        let largest = self.log().segments.iter().filter_map(Segment::max_timestamp).max();
        match largest {
            Some(timestamp) => self.offset_for_timestamp(timestamp),
            None => Ok(None),
        }
    }

    /// Asks to be woken by the next append.
    pub(crate) fn wait(&self, ticket: Ticket) {
        let mut log = self.log();
        if !log.waiting.contains(&ticket) {
            log.waiting.push(ticket);
        }
    }

    /// Takes that back.
    pub(crate) fn forget(&self, ticket: Ticket) {
        self.log().waiting.retain(|waiting| *waiting != ticket);
    }

    /// Removes the folder. It is renamed first, so that a start in between finds a name that is never a log's.
    pub(crate) fn remove(&self) -> io::Result<()> {
        let mut log = self.log();
        log.segments.clear();
        log.removed = true;
        let mut doomed = self.folder.clone().into_os_string();
        doomed.push(DELETED_SUFFIX);
        match fs::rename(&self.folder, &doomed) {
            Ok(()) => fs::remove_dir_all(&doomed),
            // Nothing was ever written.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn patch(batch: &mut [u8], base_offset: i64) -> io::Result<()> {
    batch::set_base_offset(batch, base_offset)
        .and_then(|()| batch::set_leader_epoch(batch, LEADER_EPOCH))
        .map_err(|error| io::Error::other(error.to_string()))
}

fn read_batches(
    stretch: &Stretch,
    offset: i64,
    most: usize,
    at_least_one: bool,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let Some((first, position)) = stretch.seek(|header| header.last_offset() >= offset)? else {
        return Ok(());
    };
    let first_bytes = first.total_bytes();
    if first_bytes > most && !at_least_one {
        return Ok(());
    }
    let start = out.len();
    stretch.read(position, most.max(first_bytes), out)?;
    if position + ((out.len() - start) as u64) < stretch.to {
        // The limit fell inside a batch: only whole ones are sent.
        let whole = out.get(start..).map_or(0, |read| {
            batches(read).map_while(Result::ok).map(|batch| batch.bytes.len()).sum::<usize>()
        });
        out.truncate(start + whole);
    }
    Ok(())
}

/// The first record of a batch at or after `timestamp`; the batch itself where its records can't be unpacked.
fn record_at(header: &BatchHeader, batch: &[u8], timestamp: i64) -> (i64, i64) {
    const UNPACK_LIMIT_BYTES: usize = 64 << 20;
    let payload = batch.get(batch::HEADER_BYTES..).unwrap_or_default();
    let plain =
        hone_kafka::codec::decompress(header.codec(), payload, UNPACK_LIMIT_BYTES).unwrap_or_default();
    hone_kafka::records(&plain, header.record_count)
        .map_while(Result::ok)
        .map(|record| (header.base_timestamp + record.timestamp_delta, record.offset_delta))
        .find(|(at, _)| *at >= timestamp)
        .map_or((header.max_timestamp, header.base_offset), |(at, delta)| {
            (at, header.base_offset + i64::from(delta))
        })
}

/// Scans the segments of a folder in order. The first bad batch ends the log: its segment is cut there, and segments
/// behind it, which would leave a hole, are put aside under another name.
fn recover(folder: &Path, notices: &Notices) -> io::Result<Log> {
    let mut log = Log::default();
    let mut bases = base_offsets(folder)?.into_iter();
    if let Some(first) = bases.as_slice().first() {
        log.next_offset = *first;
    }
    for base in bases.by_ref() {
        let mut segment = Segment::open(folder, base)?;
        if base != log.next_offset {
            put_aside(&segment, notices, &format!("it begins at {base}, wanted {}", log.next_offset))?;
            break;
        }
        let tail = segment.scan(|header| {
            log.producers.note(header, header.base_offset);
            log.next_offset = header.last_offset() + 1;
        })?;
        if let Some(tail) = &tail {
            segment.cut()?;
            let path = segment.path().display();
            let (good, bad, reason) = (tail.good_bytes, tail.bad_bytes, &tail.reason);
            notices
                .say(&format!("cut the torn tail of {path} at byte {good}, {bad} bytes dropped: {reason}"));
        }
        log.segments.push(segment);
        if tail.is_some() {
            break;
        }
    }
    for base in bases {
        put_aside(&Segment::open(folder, base)?, notices, "a segment before it is damaged")?;
    }
    Ok(log)
}

fn put_aside(segment: &Segment, notices: &Notices, reason: &str) -> io::Result<()> {
    let aside = segment.path().with_extension("log.aside");
    fs::rename(segment.path(), &aside)?;
    notices.say(&format!("put {} aside: {reason}", aside.display()));
    Ok(())
}

fn base_offsets(folder: &Path) -> io::Result<Vec<i64>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut bases = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let base: Option<i64> =
            name.to_str().and_then(|name| name.strip_suffix(".log")).and_then(|name| name.parse().ok());
        bases.extend(base);
    }
    bases.sort_unstable();
    Ok(bases)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_kafka::{BatchBuilder, Codec};
    use std::sync::Arc;

    fn batch(values: &[&str], timestamp: i64) -> Vec<u8> {
        let mut builder = BatchBuilder::new(Codec::Lz4);
        for (index, value) in values.iter().enumerate() {
            builder.push(None, Some(value.as_bytes()), timestamp + index as i64);
        }
        builder.build().unwrap()
    }

    fn open(folder: &Path, said: &Arc<Mutex<Vec<String>>>) -> Partition {
        let said = Arc::clone(said);
        let notices = Notices::to(move |notice| said.lock().unwrap().push(notice.to_owned()));
        Partition::open("t", 0, folder.join("t-0"), 4096, &notices).unwrap()
    }

    fn filled(folder: &Path, count: i64) -> Partition {
        let partition = open(folder, &Arc::default());
        for index in 0..count {
            let mut bytes = batch(&["first", "second", "third"], index * 10);
            let appended = partition.append(&mut bytes, Ack::Strict, 0, &mut Vec::new()).unwrap();
            assert_eq!(appended.base_offset, index * 3);
        }
        partition
    }

    fn read(partition: &Partition, offset: i64, most: usize, at_least_one: bool) -> Vec<i64> {
        let mut out = Vec::new();
        partition.read(offset, most, at_least_one, &mut out).unwrap();
        batches(&out).map(|batch| batch.unwrap().header.base_offset).collect()
    }

    #[test]
    fn a_read_inside_a_batch_returns_the_whole_batch_and_only_whole_ones() {
        let folder = tempfile::tempdir().unwrap();
        let partition = filled(folder.path(), 100);
        let one = batch(&["first", "second", "third"], 0).len();
        assert_eq!(read(&partition, 0, one * 2 + 5, true), [0, 3]);
        assert_eq!(read(&partition, 4, one * 2, true), [3, 6]);
        assert_eq!(read(&partition, 5, 1, true), [3]);
        assert_eq!(read(&partition, 5, 1, false), [0_i64; 0]);
        assert_eq!(read(&partition, 299, 1 << 20, true), [297]);
        assert_eq!(read(&partition, 300, 1 << 20, true), [0_i64; 0]);
        let mut out = Vec::new();
        assert!(matches!(partition.read(301, 1, true, &mut out), Err(ReadError::OutOfRange)));
        assert!(matches!(partition.read(-1, 1, true, &mut out), Err(ReadError::OutOfRange)));
    }

    #[test]
    fn every_offset_is_found_across_segments() {
        let folder = tempfile::tempdir().unwrap();
        let partition = filled(folder.path(), 300);
        let segments = fs::read_dir(folder.path().join("t-0")).unwrap().count();
        assert!(segments > 3, "{segments} segments");
        for offset in 0..900 {
            assert_eq!(read(&partition, offset, 1, true), [offset - offset % 3]);
        }
    }

    #[test]
    fn timestamps_lead_to_records() {
        let folder = tempfile::tempdir().unwrap();
        let partition = filled(folder.path(), 300);
        assert_eq!(partition.offset_for_timestamp(-5).unwrap(), Some((0, 0)));
        assert_eq!(partition.offset_for_timestamp(11).unwrap(), Some((11, 4)));
        assert_eq!(partition.offset_for_timestamp(13).unwrap(), Some((20, 6)));
        assert_eq!(partition.offset_for_timestamp(2_992).unwrap(), Some((2_992, 899)));
        assert_eq!(partition.offset_for_timestamp(2_993).unwrap(), None);
        assert_eq!(partition.max_timestamp().unwrap(), Some((2_992, 899)));
    }

    fn last_file(folder: &Path) -> PathBuf {
        let base = *base_offsets(&folder.join("t-0")).unwrap().last().unwrap();
        folder.join("t-0").join(Segment::file_name(base))
    }

    fn check_after_damage(damage: impl Fn(&mut Vec<u8>), lost_batches: i64, notices: usize) {
        let folder = tempfile::tempdir().unwrap();
        drop(filled(folder.path(), 100));
        let file = last_file(folder.path());
        let mut bytes = fs::read(&file).unwrap();
        damage(&mut bytes);
        fs::write(&file, &bytes).unwrap();
        let said = Arc::default();
        let partition = open(folder.path(), &said);
        assert_eq!(partition.offsets(), (0, 300 - 3 * lost_batches));
        assert_eq!(said.lock().unwrap().len(), notices, "{:?}", said.lock().unwrap());
        // It goes on behind the cut, and the next start has nothing to say.
        let mut next = batch(&["next"], 0);
        let appended = partition.append(&mut next, Ack::Relaxed, 0, &mut Vec::new()).unwrap();
        assert_eq!(appended.base_offset, 300 - 3 * lost_batches);
        drop(partition);
        let said = Arc::default();
        assert_eq!(open(folder.path(), &said).offsets().1, 301 - 3 * lost_batches);
        assert!(said.lock().unwrap().is_empty());
    }

    #[test]
    fn a_torn_tail_is_cut_at_the_last_good_batch() {
        check_after_damage(|_| (), 0, 0);
        check_after_damage(|bytes| bytes.extend_from_slice(b"garbage"), 0, 1);
        check_after_damage(|bytes| bytes.extend_from_slice(&[0; 4096]), 0, 1);
        check_after_damage(|bytes| bytes.truncate(bytes.len() - 10), 1, 1);
        let one = batch(&["first", "second", "third"], 0).len();
        // A byte inside the records of the last batch, and one of the batch before it.
        check_after_damage(|bytes| *bytes.last_mut().unwrap() ^= 1, 1, 1);
        check_after_damage(
            |bytes| {
                let at = bytes.len() - one - 1;
                bytes[at] ^= 1;
            },
            2,
            1,
        );
        // A length that lies about two gigabytes.
        check_after_damage(
            |bytes| {
                let at = bytes.len() - one + 8;
                bytes[at..at + 4].copy_from_slice(&i32::MAX.to_be_bytes());
            },
            1,
            1,
        );
    }

    #[test]
    fn segments_behind_a_damaged_one_are_put_aside() {
        let folder = tempfile::tempdir().unwrap();
        drop(filled(folder.path(), 300));
        let first = folder.path().join("t-0").join(Segment::file_name(0));
        let bytes = fs::read(&first).unwrap();
        fs::write(&first, &bytes[..bytes.len() - 1]).unwrap();
        let said = Arc::default();
        let partition = open(folder.path(), &said);
        let (_, next) = partition.offsets();
        assert!(next > 0 && next < 900);
        let notices = said.lock().unwrap();
        assert!(notices.len() > 2 && notices[1].contains("aside"), "{notices:?}");
    }

    #[test]
    fn a_restart_remembers_producers() {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = batch(&["a"], 0);
        batch::set_producer(&mut bytes, 5, 0, 0).unwrap();
        let partition = open(folder.path(), &Arc::default());
        assert_eq!(
            partition.append(&mut bytes.clone(), Ack::Relaxed, 0, &mut Vec::new()).unwrap().base_offset,
            0
        );
        drop(partition);
        let partition = open(folder.path(), &Arc::default());
        assert_eq!(
            partition.append(&mut bytes.clone(), Ack::Relaxed, 0, &mut Vec::new()).unwrap().base_offset,
            0
        );
        assert_eq!(partition.offsets(), (0, 1));
        batch::set_producer(&mut bytes, 5, 0, 2).unwrap();
        let refused = partition.append(&mut bytes, Ack::Strict, 0, &mut Vec::new());
        assert!(matches!(refused, Err(AppendError::Sequence(Sequence::Gap))));
    }
}

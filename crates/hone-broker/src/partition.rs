//! One partition: its log behind one lock, what is published of it, its counters, and who waits for it to grow.
//!
//! Readers take the bounds without the lock. Writes happen under it; fsyncs, seals and compaction do not.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hone_kafka::batch;
use hone_kafka::{BatchError, BatchHeader};

pub(crate) use crate::log::producers::{AbortedTransaction, Marker, ProducerState, Sequence};
pub(crate) use crate::log::{Ack, Bounds, Storage};
use crate::log::{
    Dirty, Disk, Log, Manifest, Place, Segment, Unindexed, build_marker, headers, invalid, recover,
};
use crate::log::{file_range::FileRange, producers::MarkerVerdict};
use crate::log_config::LogConfig;
use crate::ticket::Ticket;
use crate::waiters::{Lack, Standing, Waiter};

mod compacting;
mod housekeeping;
#[cfg(test)]
mod model;
#[cfg(test)]
mod promises;

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
    /// Batches with acks=all that are acknowledged when they are on the disk, and from memory.
    pub(crate) ack_all: AtomicU64,
    pub(crate) ack_all_no_flush: AtomicU64,
    pub(crate) ack_leader: AtomicU64,
    pub(crate) ack_none: AtomicU64,
    /// Fsyncs of log files.
    pub(crate) fsyncs: AtomicU64,
    /// Bytes that fsyncs have made durable.
    pub(crate) flushed_bytes: AtomicU64,
}

/// FNV-1a over the name: topics with one partition must not all go to the first reactor.
fn place_in_round(topic: &str, index: i32) -> usize {
    let hash = topic.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash >> 32) as usize + index.unsigned_abs() as usize
}

impl PartitionCounters {
    /// The counter of batches with such acks, in such a class.
    pub(crate) fn requests_of(&self, acks: i16, ack: Ack) -> &AtomicU64 {
        match (acks, ack) {
            (-1, Ack::Strict) => &self.ack_all,
            (-1, Ack::Relaxed) => &self.ack_all_no_flush,
            (0, _) => &self.ack_none,
            _ => &self.ack_leader,
        }
    }
}

/// Where a batch went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Appended {
    pub(crate) base_offset: i64,
    pub(crate) log_start: i64,
    /// Behind its last record: it is durable when [`Bounds::flushed`] is here.
    pub(crate) end_offset: i64,
    /// The time that its records got; -1 when they keep the producer's.
    pub(crate) append_time_ms: i64,
    /// It had been stored before.
    pub(crate) duplicate: bool,
}

/// Why a batch was not stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AppendError {
    #[error("sequence {0:?}")]
    Sequence(Sequence),
    #[error("the marker comes from a transaction coordinator that was replaced")]
    CoordinatorFenced,
    #[error("the topic was deleted")]
    Removed,
    #[error("{0}")]
    Storage(StorageError),
}

/// The storage does not take a batch.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StorageError {
    /// This one was not written; the next one is tried again.
    #[error(
        "can't write the log: {error}; the broker rejects this batch and tries the next ones; check the \
         free space and the health of the disk of {folder}"
    )]
    Write { error: io::Error, folder: String },
    /// After a failed flush, the content of the disk is unknown.
    #[error("{0}")]
    Closed(io::Error),
    /// The batch itself is damaged.
    #[error("{0}")]
    Batch(io::Error),
}

/// Why records were not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("the offset is outside of the log")]
    OutOfRange,
    #[error("can't read the log: {0}")]
    Storage(#[from] io::Error),
}

/// What everybody may know of a log without its lock.
#[derive(Debug)]
struct Published {
    log_start: AtomicI64,
    last_stable: AtomicI64,
    high_watermark: AtomicI64,
    next: AtomicI64,
    flushed: AtomicI64,
    unflushed_bytes: AtomicU64,
    flushing_bytes: AtomicU64,
    failed: AtomicBool,
    removed: AtomicBool,
}

/// One partition of a topic.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) topic: String,
    pub(crate) index: i32,
    /// Which of the reactors it belongs to, before that is cut to their number.
    pub(crate) place_in_round: usize,
    pub(crate) counters: PartitionCounters,
    disk: Disk,
    published: Published,
    /// Held through a round of housekeeping, before any other lock.
    housekeeping: Mutex<()>,
    /// Held through a flush.
    flushing: Mutex<()>,
    /// What is on disk; held while that changes, before the lock of the log.
    manifest: Mutex<Manifest>,
    log: Mutex<Log>,
}

/// A partition that is to be opened.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    pub(crate) topic: String,
    pub(crate) index: i32,
    pub(crate) folder: PathBuf,
    pub(crate) config: LogConfig,
}

impl Partition {
    /// Opens the log in the folder, if it exists. It trusts the manifest, checks the rest, and cuts a torn tail.
    pub(crate) fn open(opening: Opening, storage: &Storage) -> io::Result<Self> {
        let Opening { topic, index, folder, config } = opening;
        let disk = Disk::new(&topic, index, folder, storage.clone());
        let (mut log, manifest) = recover(&disk, config)?;
        let published = Published::of(log.bounds());
        Ok(Self {
            place_in_round: place_in_round(&topic, index),
            topic,
            index,
            counters: PartitionCounters::default(),
            disk,
            published,
            housekeeping: Mutex::new(()),
            flushing: Mutex::new(()),
            manifest: Mutex::new(manifest),
            log: Mutex::new(log),
        })
    }

    /// Opens many partitions with this number of threads. The results are in the same order.
    pub(crate) fn open_all(
        openings: Vec<Opening>,
        storage: &Storage,
        threads: usize,
    ) -> Vec<io::Result<Self>> {
        if threads <= 1 || openings.len() <= 1 {
            return openings.into_iter().map(|opening| Self::open(opening, storage)).collect();
        }
        let count = openings.len();
        let queue = Mutex::new(openings.into_iter().enumerate());
        let opened = Mutex::new(Vec::with_capacity(count));
        std::thread::scope(|scope| {
            for _ in 0..threads.min(count) {
                scope.spawn(|| {
                    loop {
                        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                        let Some((number, opening)) = next else { return };
                        let partition = Self::open(opening, storage);
                        opened.lock().unwrap_or_else(PoisonError::into_inner).push((number, partition));
                    }
                });
            }
        });
        let mut opened = opened.into_inner().unwrap_or_else(PoisonError::into_inner);
        opened.sort_unstable_by_key(|(number, _)| *number);
        opened.into_iter().map(|(_, partition)| partition).collect()
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        // Every change under the lock leaves the log readable at each step, so a panic elsewhere spoils nothing.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, log: &mut Log) {
        let bounds = log.bounds();
        self.published.set(bounds, log);
    }

    /// Stores one batch whose CRC and records have been checked; base offset and leader epoch are patched in place,
    /// and the time where the topic wants that. `wake` gets the tickets of those who wait for this partition and can
    /// see the batch already; for [`Ack::Strict`], and behind such a batch, that is so only after [`Partition::flush`].
    pub(crate) fn append(
        &self,
        batch: &mut [u8],
        ack: Ack,
        now_ms: i64,
        wake: &mut Vec<Ticket>,
    ) -> Result<Appended, AppendError> {
        let header = BatchHeader::parse(batch).map_err(unreadable)?;
        self.disk.before_write();
        let mut log = self.writable()?;
        if header.producer_id >= 0 {
            match log.producers.judge(&header) {
                Sequence::Next => (),
                Sequence::Duplicate(base_offset) => {
                    let end_offset = base_offset + i64::from(header.last_offset_delta) + 1;
                    return Ok(Appended {
                        base_offset,
                        log_start: log.log_start,
                        end_offset,
                        append_time_ms: -1,
                        duplicate: true,
                    });
                }
                refused => return Err(AppendError::Sequence(refused)),
            }
        }
        self.store(&mut log, batch, ack, now_ms, wake)
    }

    /// Stores the control batch that ends a producer's transaction. It counts, and is seen, when it is flushed,
    /// whatever the topic says of write caching.
    pub(crate) fn append_marker(
        &self,
        producer_id: i64,
        epoch: i16,
        marker: Marker,
        coordinator_epoch: i32,
        now_ms: i64,
        wake: &mut Vec<Ticket>,
    ) -> Result<Appended, AppendError> {
        let mut batch =
            build_marker(producer_id, epoch, marker, coordinator_epoch, now_ms).map_err(unreadable)?;
        self.disk.before_write();
        let mut log = self.writable()?;
        match log.producers.admits_marker(producer_id, epoch, coordinator_epoch) {
            MarkerVerdict::Admitted => (),
            MarkerVerdict::ProducerFenced => return Err(AppendError::Sequence(Sequence::Fenced)),
            MarkerVerdict::CoordinatorFenced => return Err(AppendError::CoordinatorFenced),
        }
        self.store(&mut log, &mut batch, Ack::Strict, now_ms, wake)
    }

    fn writable(&self) -> Result<MutexGuard<'_, Log>, AppendError> {
        let log = self.log();
        if log.removed {
            return Err(AppendError::Removed);
        }
        if let Some(reason) = &log.failed {
            return Err(AppendError::Storage(StorageError::Closed(failed(reason))));
        }
        Ok(log)
    }

    fn store(
        &self,
        log: &mut Log,
        batch: &mut [u8],
        ack: Ack,
        now_ms: i64,
        wake: &mut Vec<Ticket>,
    ) -> Result<Appended, AppendError> {
        let base_offset = log.next;
        let append_time_ms = if log.config.log_append_time { now_ms } else { -1 };
        patch(batch, base_offset, append_time_ms).map_err(unreadable)?;
        let header = BatchHeader::parse(batch).map_err(unreadable)?;
        log.append(&self.disk, &header, batch, ack, now_ms).map_err(|error| {
            AppendError::Storage(StorageError::Write { error, folder: self.shown_folder() })
        })?;
        wake_readers(log, wake);
        self.publish(log);
        self.counters.written_bytes.fetch_add(batch.len() as u64, Ordering::Relaxed);
        self.counters.written_batches.fetch_add(1, Ordering::Relaxed);
        Ok(Appended {
            base_offset,
            log_start: log.log_start,
            end_offset: log.next,
            append_time_ms,
            duplicate: false,
        })
    }

    /// Makes all earlier writes durable, then shows them to readers. It blocks on the disk. An error stops the
    /// partition for good, because the content of the disk is then unknown.
    pub(crate) fn flush(&self) -> io::Result<i64> {
        let _one = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        let dirty = {
            let mut log = self.log();
            if let Some(reason) = &log.failed {
                return Err(failed(reason));
            }
            if log.removed || log.flushed == log.next {
                return Ok(log.flushed);
            }
            let dirty = log.take_dirty();
            self.publish(&mut log);
            dirty
        };
        let synced = self.sync(&dirty);
        let mut log = self.log();
        match synced {
            Ok(()) => log.flushed(&dirty),
            // Its folder was taken away meanwhile.
            Err(_) if log.removed => (),
            Err(error) => {
                log.failed = Some(error.to_string());
                self.published.failed.store(true, Ordering::Release);
                return Err(error);
            }
        }
        self.publish(&mut log);
        Ok(log.flushed)
    }

    /// Where its files are, as notices say it.
    fn shown_folder(&self) -> String {
        if self.disk.in_memory() { "memory".to_owned() } else { self.disk.folder().display().to_string() }
    }

    fn sync(&self, dirty: &Dirty) -> io::Result<()> {
        for dirty in &dirty.files {
            self.disk.sync(&dirty.file)?;
            self.counters.fsyncs.fetch_add(1, Ordering::Relaxed);
            self.counters.flushed_bytes.fetch_add(dirty.to - dirty.from, Ordering::Relaxed);
        }
        if dirty.folder { self.disk.sync_folder(dirty.parent) } else { Ok(()) }
    }

    /// The tickets of those who wait for what is visible now; to be called when [`Partition::flush`] has shown more.
    pub(crate) fn take_waiting(&self, wake: &mut Vec<Ticket>) {
        wake_readers(&mut self.log(), wake);
    }

    /// The offsets, without the lock.
    pub(crate) fn bounds(&self) -> Bounds {
        self.published.bounds()
    }

    /// Bytes that no flush has begun to cover.
    pub(crate) fn unflushed_bytes(&self) -> u64 {
        self.published.unflushed_bytes.load(Ordering::Acquire)
    }

    /// Bytes that a power cut would take: those of a flush that is under way are no safer than the others.
    pub(crate) fn volatile_bytes(&self) -> u64 {
        self.unflushed_bytes() + self.published.flushing_bytes.load(Ordering::Acquire)
    }

    /// Whether an fsync has failed, so that nothing is taken any more.
    pub(crate) fn has_failed(&self) -> bool {
        self.published.failed.load(Ordering::Acquire)
    }

    /// Whether its topic was deleted.
    pub(crate) fn is_removed(&self) -> bool {
        self.published.removed.load(Ordering::Acquire)
    }

    /// An error once the topic was deleted, to end work on its files early.
    fn still_there(&self) -> io::Result<()> {
        if self.is_removed() { Err(io::Error::other("the topic was deleted")) } else { Ok(()) }
    }

    /// How long, in milliseconds, and how many bytes may stay unflushed.
    pub(crate) fn flush_limits(&self) -> (u64, u64) {
        let log = self.log();
        (log.config.flush_ms, log.config.flush_bytes)
    }

    /// Bytes of the log.
    pub(crate) fn bytes(&self) -> u64 {
        self.log().segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Where batches from the one that holds `offset` on are: whole ones, visible ones, up to `most` bytes, but at
    /// least one when `at_least_one` says so; none as `None`.
    pub(crate) fn locate(
        &self,
        offset: i64,
        most: usize,
        at_least_one: bool,
        read_committed: bool,
    ) -> Result<(Bounds, Option<FileRange>), ReadError> {
        let most = most as u64;
        // Moved on when compaction has left nothing behind `offset` in a segment.
        let mut from = offset;
        loop {
            let (bounds, limit, place) = {
                let mut log = self.log();
                let bounds = log.bounds();
                if offset < bounds.log_start || offset > bounds.next {
                    return Err(ReadError::OutOfRange);
                }
                let limit = if read_committed { bounds.last_stable } else { bounds.high_watermark };
                if from >= limit {
                    return Ok((bounds, None));
                }
                (bounds, limit, log.place(from, limit, most, at_least_one))
            };
            let found = match place {
                Place::Nowhere => return Ok((bounds, None)),
                Place::Unindexed(unindexed) => {
                    self.load_index(&unindexed)?;
                    continue;
                }
                Place::Exact(range) => Some(range),
                Place::Search(search) => {
                    let found = search.find(from, limit, most, at_least_one)?;
                    from = search.next_offset;
                    found
                }
            };
            if let Some(range) = found {
                return Ok((bounds, Some(range).filter(|range| range.bytes > 0)));
            }
        }
    }

    /// Gets the index of a segment, without the lock and without a write.
    fn load_index(&self, unindexed: &Unindexed) -> io::Result<()> {
        let loaded = unindexed.load(&self.disk)?;
        self.log().put_index(unindexed, loaded);
        Ok(())
    }

    /// As [`Partition::locate`], with the batches appended to `out`.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn read(
        &self,
        offset: i64,
        most: usize,
        at_least_one: bool,
        read_committed: bool,
        out: &mut Vec<u8>,
    ) -> Result<Bounds, ReadError> {
        let (bounds, range) = self.locate(offset, most, at_least_one, read_committed)?;
        if let Some(range) = range {
            let start = out.len();
            out.resize(start + range.bytes, 0);
            let into = out.get_mut(start..).unwrap_or_default();
            if let Err(error) = range.file.read_exact_at(into, range.position) {
                out.truncate(start);
                return Err(error.into());
            }
            self.counters.fetched_bytes.fetch_add(range.bytes as u64, Ordering::Relaxed);
        }
        Ok(bounds)
    }

    /// Aborted transactions with records in `from..to`, in the order of their markers. Costs what is found: a caller
    /// that knows where its batches end should say so.
    pub(crate) fn aborted(&self, from: i64, to: i64) -> Vec<AbortedTransaction> {
        self.log().producers.aborted(from, to)
    }

    /// Every producer that is remembered, by id.
    pub(crate) fn producers(&self) -> Vec<ProducerState> {
        self.log().producers.states()
    }

    /// Timestamp and offset of the first visible record at or after `timestamp`.
    pub(crate) fn offset_for_timestamp(&self, timestamp: i64) -> io::Result<Option<(i64, i64)>> {
        let mut base = i64::MIN;
        loop {
            let (bounds, base_offset, place) = {
                let mut log = self.log();
                let bounds = log.bounds();
                let reaches =
                    |one: &&mut Segment| one.base_offset > base && one.max_timestamp >= Some(timestamp);
                let Some(segment) = log.segments.iter_mut().find(reaches) else { return Ok(None) };
                let place = segment.index().map(|index| {
                    (segment.file.clone(), index.position_for_timestamp(timestamp), segment.bytes)
                });
                (bounds, segment.base_offset, place)
            };
            let (file, from, to) = match place {
                Ok(place) => place,
                Err(unindexed) => {
                    self.load_index(&unindexed)?;
                    continue;
                }
            };
            base = base_offset;
            let reached = |header: &BatchHeader, _| {
                header.max_timestamp >= timestamp && header.last_offset() >= bounds.log_start
            };
            let Some((header, position)) = headers(&file, from, to, reached)? else { continue };
            if header.base_offset >= bounds.high_watermark {
                return Ok(None);
            }
            let mut bytes = vec![0; header.total_bytes()];
            file.read_exact_at(&mut bytes, position)?;
            return Ok(Some(record_at(&header, &bytes, timestamp, bounds.log_start)));
        }
    }

    /// Timestamp and offset of the visible record with the largest timestamp.
    pub(crate) fn max_timestamp(&self) -> io::Result<Option<(i64, i64)>> {
        let (bounds, mut segments) = {
            let mut log = self.log();
            let bounds = log.bounds();
            let next_bases = log.segments.iter().skip(1).map(|next| next.base_offset).chain([log.next]);
            let parts = log.segments.iter().zip(next_bases).filter_map(|(segment, next)| {
                Some((segment.max_timestamp?, segment.base_offset..next, segment.file.clone(), segment.bytes))
            });
            (bounds, parts.collect::<Vec<_>>())
        };
        segments.sort_unstable_by_key(|(largest, ..)| std::cmp::Reverse(*largest));
        let mut found: Option<i64> = None;
        for (largest, offsets, file, bytes) in segments {
            if found >= Some(largest) {
                break;
            }
            if offsets.start >= bounds.log_start && offsets.end <= bounds.high_watermark {
                found = Some(largest);
                continue;
            }
            // The largest timestamp can belong to a batch that is not visible yet, or that is removed.
            headers(&file, 0, bytes, |header, _| {
                let visible = header.base_offset < bounds.high_watermark;
                if visible && header.last_offset() >= bounds.log_start {
                    found = found.max(Some(header.max_timestamp));
                }
                !visible
            })?;
        }
        found.map_or(Ok(None), |timestamp| self.offset_for_timestamp(timestamp))
    }

    /// Forgets every record before an offset (-1: every visible one), durably. Returns the new first offset. Files
    /// go when the partition is kept in order the next time. Blocks on the disk.
    pub(crate) fn delete_records(&self, before: i64) -> Result<i64, ReadError> {
        let mut manifest = self.manifest();
        self.still_there()?;
        let bounds = self.bounds();
        let before = if before == -1 { bounds.high_watermark } else { before };
        if before < 0 || before > bounds.high_watermark {
            return Err(ReadError::OutOfRange);
        }
        if before <= bounds.log_start {
            return Ok(bounds.log_start);
        }
        if before > bounds.flushed {
            // A power cut must not leave a log that ends before it starts: its offsets would be given again.
            self.flush()?;
        }
        let coming = Manifest { log_start: before, ..manifest.clone() };
        coming.write_to_free(&self.disk)?;
        *manifest = coming;
        let mut log = self.log();
        log.log_start = log.log_start.max(before);
        log.producers.forget_aborted(before);
        self.publish(&mut log);
        Ok(before)
    }

    /// Takes other properties.
    pub(crate) fn configure(&self, config: LogConfig) {
        self.log().config = config;
    }

    /// Asks for a wake-up when the missing records are visible. If they are visible already, the waiter is in `wake`.
    pub(crate) fn wait(&self, waiter: &Arc<Waiter>, lack: Lack, wake: &mut Vec<Ticket>) -> Option<Standing> {
        let mut log = self.log();
        let view = log.view();
        log.waiting.wait(waiter, lack, view, wake)
    }

    /// Removes a waiter.
    pub(crate) fn forget(&self, standing: &Standing) {
        self.log().waiting.forget(standing);
    }

    /// Removes the folder; that it is gone is the caller's to make durable. It is renamed first, so that a start in between
    /// finds a name that is never a log's. Blocks until a round of housekeeping has noticed.
    pub(crate) fn remove(&self) -> io::Result<()> {
        {
            let mut log = self.log();
            log.segments.clear();
            log.removed = true;
            self.published.removed.store(true, Ordering::Release);
        }
        if self.disk.in_memory() {
            return Ok(());
        }
        // Work under way writes files by their names, and the folder's name may be that of a new topic's soon.
        let _round = self.housekeeping.lock().unwrap_or_else(PoisonError::into_inner);
        let _manifest = self.manifest();
        let mut doomed = self.disk.folder().to_owned().into_os_string();
        doomed.push(DELETED_SUFFIX);
        match fs::rename(self.disk.folder(), &doomed) {
            Ok(()) => fs::remove_dir_all(&doomed),
            // Nothing was ever written.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Published {
    fn of(bounds: Bounds) -> Self {
        Self {
            log_start: AtomicI64::new(bounds.log_start),
            last_stable: AtomicI64::new(bounds.last_stable),
            high_watermark: AtomicI64::new(bounds.high_watermark),
            next: AtomicI64::new(bounds.next),
            flushed: AtomicI64::new(bounds.flushed),
            unflushed_bytes: AtomicU64::new(0),
            flushing_bytes: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            removed: AtomicBool::new(false),
        }
    }

    /// Writes the larger offsets first. Readers read in the opposite order, so they never see an offset beyond a larger
    /// one.
    fn set(&self, bounds: Bounds, log: &Log) {
        self.next.store(bounds.next, Ordering::Release);
        self.flushed.store(bounds.flushed, Ordering::Release);
        self.high_watermark.store(bounds.high_watermark, Ordering::Release);
        self.last_stable.store(bounds.last_stable, Ordering::Release);
        self.log_start.store(bounds.log_start, Ordering::Release);
        self.unflushed_bytes.store(log.unflushed_bytes, Ordering::Release);
        self.flushing_bytes.store(log.flushing_bytes, Ordering::Release);
    }

    fn bounds(&self) -> Bounds {
        let log_start = self.log_start.load(Ordering::Acquire);
        let last_stable = self.last_stable.load(Ordering::Acquire);
        let high_watermark = self.high_watermark.load(Ordering::Acquire);
        let flushed = self.flushed.load(Ordering::Acquire);
        let next = self.next.load(Ordering::Acquire);
        Bounds { log_start, last_stable, high_watermark, next, flushed }
    }
}

fn wake_readers(log: &mut Log, wake: &mut Vec<Ticket>) {
    if !log.waiting.is_empty() {
        let view = log.view();
        log.waiting.wake(view, wake);
    }
}

fn failed(reason: &str) -> io::Error {
    io::Error::other(format!(
        "an earlier fsync failed ({reason}), so this partition accepts no writes until the broker restarts; \
         check the disk and its free space first"
    ))
}

fn unreadable(error: BatchError) -> AppendError {
    AppendError::Storage(StorageError::Batch(invalid(error)))
}

fn patch(batch: &mut [u8], base_offset: i64, append_time_ms: i64) -> Result<(), BatchError> {
    batch::set_base_offset(batch, base_offset)
        .and_then(|()| batch::set_leader_epoch(batch, LEADER_EPOCH))
        .and_then(|()| match append_time_ms {
            -1 => Ok(()),
            now_ms => batch::set_log_append_time(batch, now_ms),
        })
}

/// The first record of a batch at or after `timestamp`, or the batch itself if its records can't be decompressed.
fn record_at(header: &BatchHeader, batch: &[u8], timestamp: i64, log_start: i64) -> (i64, i64) {
    const UNPACK_LIMIT_BYTES: usize = 64 << 20;
    let first = header.base_offset.max(log_start);
    if header.timestamp_type() == batch::TimestampType::LogAppend {
        return (header.max_timestamp, first);
    }
    let payload = batch.get(batch::HEADER_BYTES..).unwrap_or_default();
    let plain =
        hone_kafka::codec::decompress(header.codec(), payload, UNPACK_LIMIT_BYTES).unwrap_or_default();
    hone_kafka::records(&plain, header.record_count)
        .map_while(Result::ok)
        .map(|record| {
            let at = header.base_timestamp.saturating_add(record.timestamp_delta);
            (at, header.base_offset + i64::from(record.offset_delta))
        })
        .find(|(at, offset)| *at >= timestamp && *offset >= log_start)
        .unwrap_or((header.max_timestamp, first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{LOG, file_name};
    use crate::notices::Notices;
    use hone_kafka::{BatchBuilder, Codec, batches};
    use std::path::Path;
    use std::sync::Arc;

    pub(super) fn config() -> LogConfig {
        LogConfig {
            segment_bytes: 4096,
            segment_ms: u64::MAX,
            retention_bytes: None,
            retention_ms: None,
            compact: false,
            delete: true,
            min_cleanable_dirty_ratio: 0.5,
            min_compaction_lag_ms: 0,
            max_compaction_lag_ms: u64::MAX,
            delete_retention_ms: 1_000,
            log_append_time: false,
            write_caching: false,
            flush_ms: 100,
            flush_bytes: 1 << 18,
            max_message_bytes: 1 << 20,
        }
    }

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
        let folder = folder.join("t-0");
        let opening = Opening { topic: "t".to_owned(), index: 0, folder, config: config() };
        Partition::open(opening, &Storage::on_disk(notices)).unwrap()
    }

    fn ends(partition: &Partition) -> (i64, i64) {
        let bounds = partition.bounds();
        (bounds.log_start, bounds.high_watermark)
    }

    fn filled(folder: &Path, count: i64) -> Partition {
        let partition = open(folder, &Arc::default());
        for index in 0..count {
            let mut bytes = batch(&["first", "second", "third"], index * 10);
            let appended = partition.append(&mut bytes, Ack::Relaxed, 0, &mut Vec::new()).unwrap();
            assert_eq!(appended.base_offset, index * 3);
        }
        partition
    }

    fn read(partition: &Partition, offset: i64, most: usize, at_least_one: bool) -> Vec<i64> {
        let mut out = Vec::new();
        partition.read(offset, most, at_least_one, false, &mut out).unwrap();
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
        assert!(matches!(partition.read(301, 1, true, false, &mut out), Err(ReadError::OutOfRange)));
        assert!(matches!(partition.read(-1, 1, true, false, &mut out), Err(ReadError::OutOfRange)));
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
        let names = fs::read_dir(folder.join("t-0")).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.extension().is_some_and(|kind| kind == LOG)).max().unwrap()
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
        assert_eq!(ends(&partition), (0, 300 - 3 * lost_batches));
        assert_eq!(said.lock().unwrap().len(), notices, "{:?}", said.lock().unwrap());
        // It goes on behind the cut, and the next start has nothing to say.
        let mut next = batch(&["next"], 0);
        let appended = partition.append(&mut next, Ack::Relaxed, 0, &mut Vec::new()).unwrap();
        assert_eq!(appended.base_offset, 300 - 3 * lost_batches);
        drop(partition);
        let said = Arc::default();
        assert_eq!(ends(&open(folder.path(), &said)).1, 301 - 3 * lost_batches);
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
        let first = folder.path().join("t-0").join(file_name(0, LOG));
        let bytes = fs::read(&first).unwrap();
        fs::write(&first, &bytes[..bytes.len() - 1]).unwrap();
        let said = Arc::default();
        let partition = open(folder.path(), &said);
        let (_, next) = ends(&partition);
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
        assert_eq!(ends(&partition), (0, 1));
        batch::set_producer(&mut bytes, 5, 0, 2).unwrap();
        let refused = partition.append(&mut bytes, Ack::Relaxed, 0, &mut Vec::new());
        assert!(matches!(refused, Err(AppendError::Sequence(Sequence::Gap))));
    }
}

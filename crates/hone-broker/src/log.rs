//! The log of one partition as it lies behind the partition's lock: which segments there are, what is durable, what is
//! visible. Nothing in here waits for the disk but the write of a batch.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;

use hone_kafka::BatchHeader;

use crate::log_config::LogConfig;
use crate::waiters::{View, Waiters};

mod aborted;
pub(crate) mod compaction;
pub(crate) mod disk;
pub(crate) mod file_range;
mod index;
mod manifest;
mod marker;
pub(crate) mod producers;
mod recent;
mod recovery;
mod segment;
pub(crate) mod snapshot;
mod walk;

pub(crate) use disk::{BESIDE_SUFFIX, Disk, Storage};
pub(crate) use index::Index;
pub(crate) use manifest::{Entry, Manifest};
pub(crate) use marker::{build as build_marker, parse as parse_marker};
pub(crate) use recovery::recover;
pub(crate) use segment::{LOG, Segment, Stage, Unindexed, file_name, remove_index, write_index};
pub(crate) use walk::{Expected, check, headers, invalid};

use file_range::FileRange;
use producers::Producers;
use recent::Recent;
use segment::Loaded;

/// When a batch counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ack {
    /// At once: it is in the page cache, and survives the death of this process but not that of the machine. Readers
    /// see it at once, too, unless a strict batch in front of it is not durable yet.
    Relaxed,
    /// When an fsync has covered it; until then readers see neither it nor what is behind it.
    Strict,
}

/// The offsets of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// First offset that may be read.
    pub(crate) log_start: i64,
    /// Readers of committed records stop here.
    pub(crate) last_stable: i64,
    /// Readers stop here.
    pub(crate) high_watermark: i64,
    /// Behind the last batch.
    pub(crate) next: i64,
    /// Everything before it survives a power cut.
    pub(crate) flushed: i64,
}

/// What has to be made durable.
#[derive(Debug)]
pub(crate) struct Dirty {
    pub(crate) files: Vec<DirtyFile>,
    /// The log's end when this was taken.
    pub(crate) next: i64,
    pub(crate) folder: bool,
    pub(crate) parent: bool,
}

/// The unsynced bytes of one segment.
#[derive(Debug)]
pub(crate) struct DirtyFile {
    base_offset: i64,
    pub(crate) file: Arc<File>,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// Where to look for batches, in the segment that may hold them.
#[derive(Debug)]
pub(crate) enum Place {
    /// Found without reading.
    Exact(FileRange),
    /// Somewhere in here.
    Search(Search),
    /// In a segment whose index is to be got first.
    Unindexed(Unindexed),
    /// No segment holds the offset or anything behind it that is visible.
    Nowhere,
}

/// A stretch of a file to be searched for a range of whole batches.
#[derive(Debug)]
pub(crate) struct Search {
    pub(crate) file: Arc<File>,
    /// A batch not behind the wanted one.
    pub(crate) from: u64,
    /// A batch not behind the end of the range.
    pub(crate) near_end: u64,
    /// End of the segment.
    pub(crate) to: u64,
    /// Where the next segment begins.
    pub(crate) next_offset: i64,
}

/// The log of a partition.
#[derive(Debug)]
pub(crate) struct Log {
    /// Oldest first; empty until the first append.
    pub(crate) segments: Vec<Segment>,
    pub(crate) log_start: i64,
    pub(crate) next: i64,
    pub(crate) flushed: i64,
    /// Where the strict batches begin that are not durable yet, in their order, each with the bytes appended before it.
    /// A flush is asked for with each of them, so what was acknowledged behind them is not kept from readers for long.
    strict: VecDeque<(i64, u64)>,
    /// Since it was opened.
    appended_bytes: u64,
    pub(crate) producers: Producers,
    pub(crate) config: LogConfig,
    /// Who waits for the visible end to move.
    pub(crate) waiting: Waiters,
    /// Why it stopped taking batches for good.
    pub(crate) failed: Option<String>,
    /// Set when the topic is deleted: a request that still holds it must not bring the folder back.
    pub(crate) removed: bool,
    /// Bytes that no flush has begun to cover.
    pub(crate) unflushed_bytes: u64,
    /// Bytes of the flush that is under way, or has failed.
    pub(crate) flushing_bytes: u64,
    /// The folder has entries, or itself has none yet, that a power cut would take.
    folder_dirty: bool,
    parent_dirty: bool,
    recent: Recent,
}

impl Log {
    /// An empty log.
    pub(crate) fn new(config: LogConfig) -> Self {
        Self {
            segments: Vec::new(),
            log_start: 0,
            next: 0,
            flushed: 0,
            strict: VecDeque::new(),
            appended_bytes: 0,
            producers: Producers::default(),
            config,
            waiting: Waiters::default(),
            failed: None,
            removed: false,
            unflushed_bytes: 0,
            flushing_bytes: 0,
            folder_dirty: false,
            parent_dirty: false,
            recent: Recent::default(),
        }
    }

    pub(crate) fn bounds(&mut self) -> Bounds {
        let high_watermark = self.visible();
        Bounds {
            log_start: self.log_start,
            // What was deleted in front of an open transaction can't be waited for.
            last_stable: self.producers.last_stable(high_watermark).max(self.log_start),
            high_watermark,
            next: self.next,
            flushed: self.flushed,
        }
    }

    /// Readers stop here: at the first strict batch that a power cut could still take.
    pub(crate) fn visible(&self) -> i64 {
        self.strict.front().map_or(self.next, |(base, _)| *base)
    }

    /// How far readers can see.
    pub(crate) fn view(&mut self) -> View {
        let Bounds { high_watermark, last_stable, .. } = self.bounds();
        let bytes = self.strict.front().map_or(self.appended_bytes, |(_, before)| *before);
        View { bytes, high_watermark, last_stable }
    }

    /// Writes a batch that has been judged; its header is that of the patched bytes.
    pub(crate) fn append(
        &mut self,
        disk: &Disk,
        header: &BatchHeader,
        batch: &[u8],
        ack: Ack,
        now_ms: i64,
    ) -> io::Result<()> {
        let bytes = batch.len() as u64;
        self.make_room(disk, bytes, header.last_offset(), now_ms)?;
        let Some(active) = self.segments.last_mut() else {
            return Err(io::Error::other("a log without a segment"));
        };
        let position = active.bytes;
        active.append(disk, header, batch, now_ms)?;
        self.recent.note(header.base_offset, position);
        self.next = header.last_offset() + 1;
        if ack == Ack::Strict {
            self.strict.push_back((header.base_offset, self.appended_bytes));
        }
        self.appended_bytes += bytes;
        self.producers.note(header, parse_marker(header, batch));
        self.unflushed_bytes += bytes;
        Ok(())
    }

    fn make_room(&mut self, disk: &Disk, more_bytes: u64, last_offset: i64, now_ms: i64) -> io::Result<()> {
        match self.segments.last() {
            Some(last)
                if last.stage == Stage::Active
                    && !last.is_full(more_bytes, last_offset, self.config.segment_bytes)
                    && !self.is_aged(now_ms) =>
            {
                Ok(())
            }
            _ => self.roll(disk),
        }
    }

    /// Whether the active segment is as old as a segment gets.
    pub(crate) fn is_aged(&self, now_ms: i64) -> bool {
        let age = |last: &Segment| last.began_ms.map_or(0, |began| now_ms.saturating_sub(began));
        self.segments.last().is_some_and(|last| {
            last.stage == Stage::Active
                && last.bytes > 0
                && u64::try_from(age(last)).unwrap_or(0) >= self.config.segment_ms
        })
    }

    /// Begins the next segment. The active one, if there is one, must not be empty.
    pub(crate) fn roll(&mut self, disk: &Disk) -> io::Result<()> {
        self.parent_dirty |= disk.make_folder()?;
        let segment = Segment::open(disk, self.next)?;
        // Left behind by an append that failed; nothing in it was ever acknowledged.
        segment.file.set_len(0)?;
        self.folder_dirty = true;
        if let Some(last) = self.segments.last_mut()
            && last.stage == Stage::Active
        {
            last.stage = Stage::Closed { producers: self.producers.encode() };
        }
        self.segments.push(segment);
        self.recent.clear();
        Ok(())
    }

    /// What is not durable yet; from here on it counts as being taken care of.
    pub(crate) fn take_dirty(&mut self) -> Dirty {
        let dirty = self.segments.iter().filter(|segment| segment.flushed_bytes < segment.bytes);
        let files: Vec<DirtyFile> = dirty
            .map(|segment| DirtyFile {
                base_offset: segment.base_offset,
                file: Arc::clone(&segment.file),
                from: segment.flushed_bytes,
                to: segment.bytes,
            })
            .collect();
        self.unflushed_bytes = 0;
        self.flushing_bytes = files.iter().map(|file| file.to - file.from).sum();
        Dirty {
            files,
            next: self.next,
            folder: std::mem::take(&mut self.folder_dirty),
            parent: std::mem::take(&mut self.parent_dirty),
        }
    }

    /// It is durable now.
    pub(crate) fn flushed(&mut self, dirty: &Dirty) {
        for dirty in &dirty.files {
            let same = |one: &&mut Segment| one.base_offset == dirty.base_offset;
            if let Some(segment) = self.segments.iter_mut().rev().find(same) {
                segment.flushed_bytes = segment.flushed_bytes.max(dirty.to);
            }
        }
        self.flushing_bytes = 0;
        self.flushed = self.flushed.max(dirty.next);
        let durable = self.strict.partition_point(|(base, _)| *base < self.flushed);
        self.strict.drain(..durable);
    }

    /// Number of the segment that holds an offset, or else of the first one behind it.
    pub(crate) fn segment_of(&self, offset: i64) -> usize {
        self.segments.partition_point(|segment| segment.next_offset <= offset)
    }

    /// Where batches from the one that holds `offset` to `limit` are, in up to `most` bytes.
    pub(crate) fn place(&mut self, offset: i64, limit: i64, most: u64, at_least_one: bool) -> Place {
        let number = self.segment_of(offset);
        let last = self.segments.len().wrapping_sub(1);
        let Some(segment) = self.segments.get_mut(number) else { return Place::Nowhere };
        if segment.base_offset >= limit {
            return Place::Nowhere;
        }
        if number == last
            && segment.stage == Stage::Active
            && let Some((from, to)) = self.recent.range(offset, limit, most, at_least_one, segment.bytes)
        {
            let bytes = (to - from) as usize;
            let file = Arc::clone(&segment.file);
            return Place::Exact(FileRange { file, position: from, bytes });
        }
        let index = match segment.index() {
            Ok(index) => index,
            Err(unindexed) => return Place::Unindexed(unindexed),
        };
        let from = index.position_for(offset);
        let near_most = index.boundary_before(from.saturating_add(most));
        let near_limit = if limit >= segment.next_offset { near_most } else { index.position_for(limit - 1) };
        Place::Search(Search {
            file: Arc::clone(&segment.file),
            from,
            near_end: near_most.min(near_limit),
            to: segment.bytes,
            next_offset: segment.next_offset,
        })
    }

    /// Takes an index that was got without the lock.
    pub(crate) fn put_index(&mut self, of: &Unindexed, loaded: Loaded) {
        if let Some(segment) = self.segment_at(of.base_offset()) {
            segment.put_index(of, loaded);
        }
    }

    /// The segment that begins at an offset.
    pub(crate) fn segment_at(&mut self, base_offset: i64) -> Option<&mut Segment> {
        let number = self.segments.partition_point(|segment| segment.base_offset < base_offset);
        self.segments.get_mut(number).filter(|segment| segment.base_offset == base_offset)
    }
}

impl Search {
    /// Finds the range. `None` when compaction has left nothing from `offset` to the end of this segment.
    pub(crate) fn find(
        &self,
        offset: i64,
        limit: i64,
        most: u64,
        at_least_one: bool,
    ) -> io::Result<Option<FileRange>> {
        let wanted = |header: &BatchHeader, _| header.last_offset() >= offset;
        let Some((first, position)) = headers(&self.file, self.from, self.to, wanted)? else {
            return Ok(None);
        };
        let range = |bytes: u64| FileRange {
            file: Arc::clone(&self.file),
            position,
            bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
        };
        let first_bytes = first.total_bytes() as u64;
        // What a manifest vouches for is not checked at a start, so a length may lie by now.
        if first_bytes > self.to.saturating_sub(position) {
            return Err(invalid(format!("the batch at byte {position} ends beyond its segment")));
        }
        if first.base_offset >= limit || (first_bytes > most && !at_least_one) {
            return Ok(Some(range(0)));
        }
        if first_bytes >= most {
            return Ok(Some(range(first_bytes)));
        }
        if limit >= self.next_offset && self.to - position <= most {
            return Ok(Some(range(self.to - position)));
        }
        let beyond = |header: &BatchHeader, at: u64| {
            header.base_offset >= limit || at + header.total_bytes() as u64 > position + most
        };
        let end = headers(&self.file, self.near_end.max(position), self.to, beyond)?;
        Ok(Some(range(end.map_or(self.to, |(_, at)| at) - position)))
    }
}

//! Compaction of a partition: when it is worthwhile, and its files. A compacted segment is written to a temporary file,
//! made durable and renamed over the old one. A start in between finds either of the two, and recognizes it by its
//! size.

use std::fs;
use std::fs::File;
use std::io;
use std::sync::Arc;

use hone_kafka::BatchHeader;

use crate::log::compaction::{Kept, LastOffsets, Rules, keep};
use crate::log::producers::Producers;
use crate::log::{
    BESIDE_SUFFIX, Disk, Entry, Expected, Index, LOG, Log, Stage, check, file_name, invalid, remove_index,
    write_index,
};

use super::Partition;

/// Written at a time.
const WRITE_BYTES: usize = 1 << 20;

/// One segment that a round reads.
struct Subject {
    entry: Entry,
    file: Arc<File>,
}

/// A compacted segment, not in its place yet.
struct Rewritten {
    file: File,
    bytes: u64,
    index: Index,
}

impl Partition {
    /// Compacts the log if its topic wants that and it is worth it.
    pub(super) fn compact(&self, now_ms: i64) -> io::Result<()> {
        let cleaned_to = self.manifest().cleaned_to;
        let (subjects, producers, delete_retention_ms) = {
            let mut log = self.log();
            let Some(count) = worth(&mut log, cleaned_to, now_ms) else { return Ok(()) };
            let subject =
                |one: &crate::log::Segment| Subject { entry: one.entry(), file: Arc::clone(&one.file) };
            let subjects: Vec<_> = log.segments.iter().take(count).map(subject).collect();
            (subjects, log.producers.clone(), log.config.delete_retention_ms)
        };
        let (last, covered_to) = self.last_offsets(&subjects, cleaned_to, &producers)?;
        for subject in &subjects {
            if subject.entry.base_offset >= covered_to {
                break;
            }
            self.still_there()?;
            let purge = is_older(subject.entry.cleaned_ms, now_ms, delete_retention_ms);
            let rewritten = self.rewrite(subject, &Rules { last: &last, producers: &producers, purge })?;
            let mut entry = subject.entry;
            if entry.next_offset <= covered_to {
                entry.cleaned_ms = entry.cleaned_ms.or(Some(now_ms));
                entry.purged |= purge;
            }
            self.put_in_place(entry, rewritten)?;
        }
        let mut manifest = self.manifest();
        let coming = crate::log::Manifest { cleaned_to: covered_to.max(cleaned_to), ..manifest.clone() };
        self.amend(&mut manifest, coming)
    }

    /// The last offsets of the keys behind what was compacted before, and how far they go.
    fn last_offsets(
        &self,
        subjects: &[Subject],
        cleaned_to: i64,
        producers: &Producers,
    ) -> io::Result<(LastOffsets, i64)> {
        let mut last = LastOffsets::new();
        let mut covered_to = cleaned_to;
        for subject in subjects.iter().filter(|subject| subject.entry.next_offset > cleaned_to) {
            if last.is_full() {
                break;
            }
            let mut ends_at = subject.entry.next_offset;
            self.read_through(subject, |header, bytes| {
                if last.is_full() {
                    ends_at = ends_at.min(header.base_offset);
                } else if header.base_offset >= cleaned_to {
                    last.note(header, bytes, producers);
                }
                Ok(())
            })?;
            covered_to = ends_at;
        }
        let end = subjects.last().map_or(cleaned_to, |subject| subject.entry.next_offset);
        // A round that only purges has nothing new to look at, and all of the old.
        Ok((last, if cleaned_to >= end { end } else { covered_to }))
    }

    /// Calls `each` with every batch of a segment.
    fn read_through(
        &self,
        subject: &Subject,
        mut each: impl FnMut(&BatchHeader, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let expected = Expected { offset: subject.entry.base_offset, holes: true };
        let mut result = Ok(());
        let checked = check(&subject.file, 0, expected, |header, bytes, _| {
            if result.is_ok() {
                result = self.still_there().and_then(|()| each(header, bytes));
            }
        })?;
        result?;
        match checked.tail {
            None => Ok(()),
            Some((_, reason)) => {
                let name = file_name(subject.entry.base_offset, LOG);
                Err(invalid(format!("{name} is damaged at byte {}: {reason}", checked.good_bytes)))
            }
        }
    }

    /// Writes the remaining records of a segment to a temporary file. `None` if all records remain.
    fn rewrite(&self, subject: &Subject, rules: &Rules<'_>) -> io::Result<Option<Rewritten>> {
        let mut writer = Writer::begin(&self.disk, subject.entry.base_offset)?;
        self.read_through(subject, |header, bytes| match keep(header, bytes, rules).map_err(invalid)? {
            Kept::Whole => writer.push(header, bytes),
            Kept::Part(part) => writer.push(&BatchHeader::parse(&part).map_err(invalid)?, &part),
            Kept::Nothing => Ok(()),
        })?;
        let rewritten = writer.finish()?;
        if rewritten.bytes < subject.entry.bytes {
            return Ok(Some(rewritten));
        }
        self.disk.remove(&beside(subject.entry.base_offset))?;
        Ok(None)
    }

    fn put_in_place(&self, mut entry: Entry, rewritten: Option<Rewritten>) -> io::Result<()> {
        let mut manifest = self.manifest();
        if let Some(rewritten) = &rewritten {
            entry.bytes = rewritten.bytes;
            entry.max_timestamp = rewritten.index.max_timestamp();
            entry.index_crc = self.swap_files(entry.base_offset, &rewritten.index)?;
        }
        {
            let mut log = self.log();
            let Some(segment) = log.segment_at(entry.base_offset) else { return Ok(()) };
            segment.cleaned_ms = entry.cleaned_ms;
            segment.purged = entry.purged;
            segment.index_crc = entry.index_crc;
            if let Some(Rewritten { file, bytes, index }) = rewritten {
                segment.file = Arc::new(file);
                segment.index = Some(Arc::new(index));
                segment.index_damaged = false;
                (segment.bytes, segment.flushed_bytes) = (bytes, bytes);
                segment.max_timestamp = entry.max_timestamp;
            }
        }
        let mut coming = manifest.clone();
        for known in coming.sealed.iter_mut().filter(|known| known.base_offset == entry.base_offset) {
            *known = entry;
        }
        if coming == *manifest { Ok(()) } else { self.amend(&mut manifest, coming) }
    }

    fn swap_files(&self, base_offset: i64, index: &Index) -> io::Result<u32> {
        if self.disk.in_memory() {
            return Ok(0);
        }
        // Readers of the old file must not look for the index that goes now.
        let unindexed = self.log().segment_at(base_offset).and_then(|segment| segment.index().err());
        if let Some(unindexed) = unindexed {
            self.load_index(&unindexed)?;
        }
        remove_index(&self.disk, base_offset)?;
        fs::rename(self.disk.path(&beside(base_offset)), self.disk.path(&file_name(base_offset, LOG)))?;
        self.disk.sync_folder(false)?;
        write_index(&self.disk, base_offset, index)
    }
}

fn beside(base_offset: i64) -> String {
    format!("{}{BESIDE_SUFFIX}", file_name(base_offset, LOG))
}

/// How many segments from the front a round takes; `None` when it is not worth it.
fn worth(log: &mut Log, cleaned_to: i64, now_ms: i64) -> Option<usize> {
    if !log.config.compact {
        return None;
    }
    let stable = log.bounds().last_stable;
    let config = &log.config;
    let ready = |one: &&crate::log::Segment| {
        let lag = config.min_compaction_lag_ms;
        let aged = lag == 0 || is_older(one.max_timestamp, now_ms, lag);
        one.stage == Stage::Sealed && one.next_offset <= stable && aged
    };
    let count = log.segments.iter().take_while(ready).count();
    let ready = log.segments.get(..count)?;
    let (mut clean, mut dirty, mut overdue, mut to_purge) = (0, 0, false, false);
    for one in ready {
        if one.next_offset <= cleaned_to {
            clean += one.bytes;
            to_purge |= !one.purged && is_older(one.cleaned_ms, now_ms, config.delete_retention_ms);
        } else {
            dirty += one.bytes;
            overdue |= is_older(one.began_ms, now_ms, config.max_compaction_lag_ms);
        }
    }
    let share = dirty as f64 / ((clean + dirty) as f64).max(1.0);
    let worth = dirty > 0 && (share >= config.min_cleanable_dirty_ratio || overdue);
    (worth || to_purge).then_some(count)
}

fn is_older(since_ms: Option<i64>, now_ms: i64, than_ms: u64) -> bool {
    since_ms.is_some_and(|since| u64::try_from(now_ms.saturating_sub(since)).is_ok_and(|age| age > than_ms))
}

/// Writes a compacted segment, a large piece at a time.
struct Writer<'a> {
    disk: &'a Disk,
    file: File,
    piece: Vec<u8>,
    written: u64,
    index: Index,
}

impl<'a> Writer<'a> {
    fn begin(disk: &'a Disk, base_offset: i64) -> io::Result<Self> {
        let file = disk.open(&beside(base_offset))?;
        file.set_len(0)?;
        Ok(Self { disk, file, piece: Vec::new(), written: 0, index: Index::new(base_offset) })
    }

    fn push(&mut self, header: &BatchHeader, bytes: &[u8]) -> io::Result<()> {
        self.index.note(header, self.written + self.piece.len() as u64);
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= WRITE_BYTES { self.write_out() } else { Ok(()) }
    }

    fn write_out(&mut self) -> io::Result<()> {
        self.disk.write(&self.file, &self.piece, self.written)?;
        self.written += self.piece.len() as u64;
        self.piece.clear();
        Ok(())
    }

    fn finish(mut self) -> io::Result<Rewritten> {
        self.write_out()?;
        self.disk.sync(&self.file)?;
        Ok(Rewritten { file: self.file, bytes: self.written, index: self.index })
    }
}

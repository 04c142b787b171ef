//! One file of a partition's log: batches one behind the other, as they came, with its index.

use std::fs::File;
use std::io;
use std::sync::Arc;

use hone_kafka::BatchHeader;

use super::disk::Disk;
use super::index::Index;
use super::manifest::Entry;
use super::walk;

/// Positions and relative offsets of the indexes have 32 bits.
const MOST_BYTES: u64 = i32::MAX as u64;

/// Where a segment is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Written to, or scanned just now.
    Active,
    /// Full. Holds the state of the producers behind its last batch, to be written when it is sealed.
    Closed { producers: Vec<u8> },
    /// Durable with its indexes, and named in the manifest: the next start does not read it.
    Sealed,
}

/// A segment: the file, how much of it counts, and where to look in it.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) base_offset: i64,
    /// Where the next segment begins, or will.
    pub(crate) next_offset: i64,
    pub(crate) bytes: u64,
    /// Bytes that an fsync has covered.
    pub(crate) flushed_bytes: u64,
    pub(crate) max_timestamp: Option<i64>,
    /// Wall clock at the first append, milliseconds since 1970.
    pub(crate) began_ms: Option<i64>,
    pub(crate) stage: Stage,
    /// When it was compacted first; the marks of deleted keys in it live by this.
    pub(crate) cleaned_ms: Option<i64>,
    /// Compaction has dropped the marks of deleted keys.
    pub(crate) purged: bool,
    /// Checksum of the index files, once there are any.
    pub(crate) index_crc: u32,
    pub(crate) file: Arc<File>,
    /// `None` while it is only on disk.
    pub(crate) index: Option<Arc<Index>>,
    /// Whether the index was looked into since the last round of housekeeping.
    pub(crate) index_used: bool,
    /// Whether the index was rebuilt because its files were damaged. The next round of housekeeping writes them.
    pub(crate) index_damaged: bool,
}

/// What a segment's files are called.
pub(crate) fn file_name(base_offset: i64, kind: &str) -> String {
    format!("{base_offset:020}.{kind}")
}

pub(crate) const LOG: &str = "log";
pub(crate) const INDEX: &str = "index";
pub(crate) const TIME_INDEX: &str = "timeindex";

impl Segment {
    /// Makes or opens the file of a segment, as if it were empty.
    pub(crate) fn open(disk: &Disk, base_offset: i64) -> io::Result<Self> {
        let file = disk.open(&file_name(base_offset, LOG))?;
        Ok(Self {
            base_offset,
            next_offset: base_offset,
            bytes: 0,
            flushed_bytes: 0,
            max_timestamp: None,
            began_ms: None,
            stage: Stage::Active,
            cleaned_ms: None,
            purged: false,
            index_crc: 0,
            file: Arc::new(file),
            index: Some(Arc::new(Index::new(base_offset))),
            index_used: true,
            index_damaged: false,
        })
    }

    /// A segment of which the manifest says that it is good so far.
    pub(crate) fn believed(disk: &Disk, entry: &Entry, stage: Stage) -> io::Result<Self> {
        let empty = Self::open(disk, entry.base_offset)?;
        Ok(Self {
            next_offset: entry.next_offset,
            bytes: entry.bytes,
            flushed_bytes: entry.bytes,
            max_timestamp: entry.max_timestamp,
            began_ms: entry.began_ms,
            stage,
            cleaned_ms: entry.cleaned_ms,
            purged: entry.purged,
            index_crc: entry.index_crc,
            index: None,
            index_used: false,
            ..empty
        })
    }

    /// What the manifest says of it.
    pub(crate) fn entry(&self) -> Entry {
        Entry {
            base_offset: self.base_offset,
            next_offset: self.next_offset,
            bytes: self.bytes,
            max_timestamp: self.max_timestamp,
            began_ms: self.began_ms,
            cleaned_ms: self.cleaned_ms,
            purged: self.purged,
            index_crc: self.index_crc,
        }
    }

    /// Whether these further bytes and offsets belong to the next segment.
    pub(crate) fn is_full(&self, more_bytes: u64, last_offset: i64, segment_bytes: u64) -> bool {
        self.bytes > 0
            && (self.bytes + more_bytes > segment_bytes.min(MOST_BYTES)
                || last_offset - self.base_offset > i64::from(i32::MAX))
    }

    /// Writes a batch behind the last one. Its header is that of the patched batch.
    pub(crate) fn append(
        &mut self,
        disk: &Disk,
        header: &BatchHeader,
        batch: &[u8],
        now_ms: i64,
    ) -> io::Result<()> {
        if let Err(error) = disk.write(&self.file, batch, self.bytes) {
            // Half a batch must not be found by the next start; the next append would overwrite it anyway.
            let _ = self.file.set_len(self.bytes);
            return Err(error);
        }
        self.began_ms.get_or_insert(now_ms);
        self.note(header);
        Ok(())
    }

    /// Counts a batch that is in the file.
    pub(crate) fn note(&mut self, header: &BatchHeader) {
        if let Some(index) = &mut self.index {
            Arc::make_mut(index).note(header, self.bytes);
        }
        self.max_timestamp = self.max_timestamp.max(Some(header.max_timestamp));
        self.bytes += header.total_bytes() as u64;
        self.next_offset = header.last_offset() + 1;
    }

    /// The index, or the request that loads it. Loading reads files, so it must not happen under the lock.
    pub(crate) fn index(&mut self) -> Result<Arc<Index>, Unindexed> {
        self.index_used = true;
        self.index.clone().ok_or_else(|| self.unindexed())
    }

    pub(crate) fn unindexed(&self) -> Unindexed {
        Unindexed { entry: self.entry(), file: Arc::clone(&self.file) }
    }

    /// Takes an index that was got, unless the segment has another file by now.
    pub(crate) fn put_index(&mut self, of: &Unindexed, loaded: Loaded) {
        if Arc::ptr_eq(&self.file, &of.file) && self.index.is_none() {
            self.index = Some(Arc::new(loaded.index));
            self.index_damaged = loaded.made_anew;
        }
    }
}

/// A segment whose index is only on disk.
#[derive(Debug)]
pub(crate) struct Unindexed {
    entry: Entry,
    file: Arc<File>,
}

/// An index that was got.
#[derive(Debug)]
pub(crate) struct Loaded {
    index: Index,
    /// Its files are missing or damaged.
    made_anew: bool,
}

impl Unindexed {
    pub(crate) fn base_offset(&self) -> i64 {
        self.entry.base_offset
    }

    /// Reads the index from its files, or makes it from the log when those can't be right.
    pub(crate) fn load(&self, disk: &Disk) -> io::Result<Loaded> {
        if let Some(index) = self.stored(disk) {
            return Ok(Loaded { index, made_anew: false });
        }
        disk.say(&format!("rebuilding the index of {}", file_name(self.entry.base_offset, LOG)));
        Ok(Loaded { index: self.rebuilt()?, made_anew: true })
    }

    /// The index in the files, if it is one of this segment.
    pub(crate) fn stored(&self, disk: &Disk) -> Option<Index> {
        let Entry { base_offset, next_offset, bytes, index_crc, .. } = self.entry;
        let read = |kind| std::fs::read(disk.path(&file_name(base_offset, kind))).ok();
        let (offsets, times) = (read(INDEX)?, read(TIME_INDEX)?);
        if checksum(&offsets, &times) != index_crc {
            return None;
        }
        let index = Index::decode(base_offset, next_offset, bytes, &offsets, &times)?;
        let Some((last_offset, position)) = index.last_entry() else { return Some(index) };
        let found = walk::headers(&self.file, position, bytes, |_, _| true).ok()??;
        (found.0.last_offset() == last_offset).then_some(index)
    }

    pub(crate) fn rebuilt(&self) -> io::Result<Index> {
        let mut index = Index::new(self.entry.base_offset);
        walk::headers(&self.file, 0, self.entry.bytes, |header, position| {
            index.note(header, position);
            false
        })?;
        Ok(index)
    }
}

fn checksum(offsets: &[u8], times: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(offsets), times)
}

/// Writes both index files, durably but for the folder's entries. Returns their checksum.
pub(crate) fn write_index(disk: &Disk, base_offset: i64, index: &Index) -> io::Result<u32> {
    let (offsets, times) = index.encode();
    if disk.in_memory() {
        return Ok(0);
    }
    disk.replace(&file_name(base_offset, INDEX), &offsets)?;
    disk.replace(&file_name(base_offset, TIME_INDEX), &times)?;
    Ok(checksum(&offsets, &times))
}

/// Removes the index files of a segment.
pub(crate) fn remove_index(disk: &Disk, base_offset: i64) -> io::Result<()> {
    disk.remove(&file_name(base_offset, INDEX))?;
    disk.remove(&file_name(base_offset, TIME_INDEX))
}

//! One file of a partition's log: batches one behind the other, as they came, with a sparse index in memory.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hone_kafka::batch::{self, HEADER_BYTES};
use hone_kafka::{BatchError, BatchHeader};

/// One index entry for so many bytes of log, as in Kafka.
const INDEX_EVERY_BYTES: u64 = 4096;
/// Read at a time while a log is scanned.
const SCAN_BYTES: usize = 1 << 20;
/// Read at a time while a batch is looked for between two index entries.
const SEEK_BYTES: usize = 4096;

#[derive(Debug, Clone, Copy)]
struct IndexEntry {
    base_offset: i64,
    position: u64,
    /// Of the batches from here to the next entry.
    max_timestamp: i64,
}

/// A segment: the file, how much of it counts, and where to look in it.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) base_offset: i64,
    pub(crate) bytes: u64,
    file: Arc<File>,
    path: PathBuf,
    index: Vec<IndexEntry>,
    indexed_to: u64,
}

/// A stretch of a segment that readers may read without the partition's lock: what is written there stays.
#[derive(Debug, Clone)]
pub(crate) struct Stretch {
    file: Arc<File>,
    /// First byte.
    pub(crate) from: u64,
    /// First byte that does not count (yet).
    pub(crate) to: u64,
}

/// What was found behind the last good batch of a scanned segment.
#[derive(Debug)]
pub(crate) struct Tail {
    /// Size of the good part.
    pub(crate) good_bytes: u64,
    /// Bytes behind it.
    pub(crate) bad_bytes: u64,
    /// Why they are no batch.
    pub(crate) reason: String,
}

impl Segment {
    /// The file name of a segment: its base offset in twenty digits.
    pub(crate) fn file_name(base_offset: i64) -> String {
        format!("{base_offset:020}.log")
    }

    /// Makes or opens the file of a segment, as if it were empty.
    pub(crate) fn open(folder: &Path, base_offset: i64) -> io::Result<Self> {
        let path = folder.join(Self::file_name(base_offset));
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
        Ok(Self { base_offset, bytes: 0, file: Arc::new(file), path, index: Vec::new(), indexed_to: 0 })
    }

    /// Where the file lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a batch behind the last one. Its header is that of the patched batch.
    pub(crate) fn append(&mut self, header: &BatchHeader, batch: &[u8]) -> io::Result<()> {
        if let Err(error) = self.file.write_all_at(batch, self.bytes) {
            // Half a batch must not be found by the next start; the next append would overwrite it anyway.
            let _ = self.file.set_len(self.bytes);
            return Err(error);
        }
        self.note(header);
        Ok(())
    }

    fn note(&mut self, header: &BatchHeader) {
        let timestamp = header.max_timestamp;
        match self.index.last_mut() {
            Some(last) if self.bytes - self.indexed_to < INDEX_EVERY_BYTES => {
                last.max_timestamp = last.max_timestamp.max(timestamp);
            }
            _ => {
                let entry = IndexEntry {
                    base_offset: header.base_offset,
                    position: self.bytes,
                    max_timestamp: timestamp,
                };
                self.index.push(entry);
                self.indexed_to = self.bytes;
            }
        }
        self.bytes += header.total_bytes() as u64;
    }

    /// The stretch from the last index entry at or before `offset` to the end.
    pub(crate) fn stretch_for_offset(&self, offset: i64) -> Stretch {
        let behind = self.index.partition_point(|entry| entry.base_offset <= offset);
        let from = behind.checked_sub(1).and_then(|at| self.index.get(at)).map_or(0, |entry| entry.position);
        Stretch { file: Arc::clone(&self.file), from, to: self.bytes }
    }

    /// The stretch from the first index entry whose batches reach `timestamp`, if any do.
    pub(crate) fn stretch_for_timestamp(&self, timestamp: i64) -> Option<Stretch> {
        let entry = self.index.iter().find(|entry| entry.max_timestamp >= timestamp)?;
        Some(Stretch { file: Arc::clone(&self.file), from: entry.position, to: self.bytes })
    }

    /// The largest timestamp.
    pub(crate) fn max_timestamp(&self) -> Option<i64> {
        self.index.iter().map(|entry| entry.max_timestamp).max()
    }

    /// Reads the whole file once, checks every batch (CRC, offsets without a hole) and builds the index. `seen` gets
    /// each good header. Returns what lies behind the last good batch, if anything.
    pub(crate) fn scan(&mut self, mut seen: impl FnMut(&BatchHeader)) -> io::Result<Option<Tail>> {
        let file_bytes = self.file.metadata()?.len();
        let mut expected = self.base_offset;
        let (mut window, mut at) = (Vec::new(), 0);
        loop {
            let ahead = window.get(at..).unwrap_or_default();
            let Some(needed) = wanted(ahead, file_bytes - self.bytes) else { return Ok(None) };
            let needed = match needed {
                Ok(needed) => needed,
                Err(error) => return Ok(Some(self.tail(file_bytes, &error))),
            };
            if ahead.len() < needed {
                let have = (file_bytes - self.bytes).min(needed.max(SCAN_BYTES) as u64) as usize;
                if have < needed {
                    return Ok(Some(self.tail(file_bytes, &BatchError::Torn { needed, have })));
                }
                window.resize(have, 0);
                self.file.read_exact_at(&mut window, self.bytes)?;
                at = 0;
                continue;
            }
            // With a whole header in the window, `needed` is the whole batch.
            match check(&ahead[..needed], expected) {
                Ok(header) => {
                    seen(&header);
                    self.note(&header);
                    expected = header.last_offset().saturating_add(1);
                }
                Err(reason) => return Ok(Some(self.tail(file_bytes, &reason))),
            }
            at += needed;
        }
    }

    fn tail(&self, file_bytes: u64, reason: &dyn std::fmt::Display) -> Tail {
        Tail { good_bytes: self.bytes, bad_bytes: file_bytes - self.bytes, reason: reason.to_string() }
    }

    /// Cuts the file behind its last good batch.
    pub(crate) fn cut(&self) -> io::Result<()> {
        self.file.set_len(self.bytes)
    }
}

/// How many bytes of the window the next step needs: a header, or the whole batch once its header is there. `None`
/// at the end of the file.
fn wanted(window: &[u8], left: u64) -> Option<Result<usize, BatchError>> {
    if left == 0 {
        return None;
    }
    if window.len() < HEADER_BYTES {
        return Some(Ok(HEADER_BYTES));
    }
    Some(BatchHeader::parse(window).and_then(|header| {
        let needed = header.total_bytes();
        // A length beyond the file is torn or lying; no memory is reserved for it.
        if needed as u64 > left { Err(BatchError::Torn { needed, have: left as usize }) } else { Ok(needed) }
    }))
}

fn check(bytes: &[u8], expected: i64) -> Result<BatchHeader, String> {
    batch::verify_crc(bytes).map_err(|error| error.to_string())?;
    let header = BatchHeader::parse(bytes).map_err(|error| error.to_string())?;
    if header.base_offset != expected {
        return Err(format!("the batch has offset {}, wanted {expected}", header.base_offset));
    }
    Ok(header)
}

impl Stretch {
    /// The first batch for which `found` holds: its header and where it begins.
    pub(crate) fn seek(
        &self,
        mut found: impl FnMut(&BatchHeader) -> bool,
    ) -> io::Result<Option<(BatchHeader, u64)>> {
        let mut window = [0; SEEK_BYTES];
        let mut position = self.from;
        while position < self.to {
            let most = (self.to - position).min(SEEK_BYTES as u64) as usize;
            self.file.read_exact_at(&mut window[..most], position)?;
            let mut at = 0;
            while let Some(header) = window[..most].get(at..).filter(|rest| rest.len() >= HEADER_BYTES) {
                let header = BatchHeader::parse(header).map_err(invalid)?;
                if found(&header) {
                    return Ok(Some((header, position + at as u64)));
                }
                at += header.total_bytes();
            }
            if at == 0 {
                return Err(invalid("a batch header is cut"));
            }
            position += at as u64;
        }
        Ok(None)
    }

    /// Appends up to `most` bytes from `position` on to `out`.
    pub(crate) fn read(&self, position: u64, most: usize, out: &mut Vec<u8>) -> io::Result<()> {
        let most = self.to.saturating_sub(position).min(most as u64) as usize;
        let start = out.len();
        out.resize(start + most, 0);
        self.file.read_exact_at(&mut out[start..], position)
    }
}

fn invalid(reason: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_string())
}

//! Sequential records, through a buffer of fixed size.

use std::io::{self, Read, Seek, SeekFrom};

use super::bytes::u16_at;
use super::fault::PerfFault;
use super::head::Head;

/// Largest size of a record: 64 KiB.
const BUFFER_BYTES: usize = 1 << 20;
/// Type, kind and length.
const LEAST_BYTES: usize = 8;

pub(super) struct Stream<R> {
    input: R,
    buffer: Vec<u8>,
    /// Position of the next record.
    at: usize,
    /// End of the bytes read so far.
    end: usize,
    /// Bytes of the data that are still unread.
    left: u64,
    has_end: bool,
    breaks_off: bool,
}

impl<R: Read + Seek> Stream<R> {
    pub(super) fn over(mut input: R, head: &Head) -> Result<Self, PerfFault> {
        let broken = |_: io::Error| PerfFault::Broken { section: "its data" };
        input.seek(SeekFrom::Start(head.data_at)).map_err(broken)?;
        // A killed perf could not write the size of the data.
        let has_end = head.data_bytes > 0;
        let left = if has_end { head.data_bytes } else { u64::MAX };
        Ok(Self { input, buffer: vec![0; BUFFER_BYTES], at: 0, end: 0, left, has_end, breaks_off: !has_end })
    }

    /// The next record with its header; `None` after the last whole one.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, PerfFault> {
        if !self.holds(LEAST_BYTES)? {
            return Ok(None);
        }
        let length = u16_at(&self.buffer, self.at + 6).map_or(0, usize::from);
        if length < LEAST_BYTES || !self.holds(length)? {
            // The following records can't be found.
            self.breaks_off = true;
            self.left = 0;
            self.at = self.end;
            return Ok(None);
        }
        let from = self.at;
        self.at += length;
        Ok(Some(&self.buffer[from..from + length]))
    }

    /// Skips bytes that belong to no record.
    pub(super) fn skip(&mut self, bytes: u64) -> Result<(), PerfFault> {
        let held = (self.end - self.at) as u64;
        if bytes <= held {
            self.at += bytes as usize;
            return Ok(());
        }
        self.at = self.end;
        let beyond = (bytes - held).min(self.left);
        // A position beyond any file size is beyond its end, too.
        self.input
            .seek_relative(i64::try_from(beyond).unwrap_or(i64::MAX))
            .or_else(|_| self.input.seek(SeekFrom::End(0)).map(drop))?;
        self.left -= beyond;
        Ok(())
    }

    /// Whether the data has no proper end.
    pub(super) fn breaks_off(&self) -> bool {
        self.breaks_off
    }

    /// Whether this many bytes are in the buffer, after reading more if needed.
    fn holds(&mut self, bytes: usize) -> Result<bool, PerfFault> {
        if self.end - self.at >= bytes {
            return Ok(true);
        }
        self.buffer.copy_within(self.at..self.end, 0);
        self.end -= self.at;
        self.at = 0;
        while self.end < bytes && self.left > 0 {
            let room = self.buffer.len() - self.end;
            let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(room);
            match self.input.read(&mut self.buffer[self.end..self.end + most]) {
                Ok(0) => {
                    self.breaks_off |= self.has_end;
                    self.left = 0;
                }
                Ok(read) => {
                    self.end += read;
                    self.left -= read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        let is_there = self.end >= bytes;
        self.breaks_off |= !is_there && self.end > 0;
        Ok(is_there)
    }
}

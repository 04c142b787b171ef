//! Batches in a file: whole ones checked one after the other, or only their headers.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use hone_kafka::batch::{self, HEADER_BYTES};
use hone_kafka::{BatchError, BatchHeader};

/// Read at a time while a log is checked.
const SCAN_BYTES: usize = 1 << 20;
/// Read at a time while headers are walked between two index entries.
const HEADERS_BYTES: usize = 4096;

/// Which batches a check takes for good.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    /// Offset of the first batch.
    pub(crate) offset: i64,
    /// Whether compaction may have left holes between the batches.
    pub(crate) holes: bool,
}

/// What a check found.
#[derive(Debug)]
pub(crate) struct Checked {
    /// Where the good part ends.
    pub(crate) good_bytes: u64,
    /// The offset behind the last good batch.
    pub(crate) next_offset: i64,
    /// How many bytes lie behind it, and why they are no batch.
    pub(crate) tail: Option<(u64, String)>,
}

/// Reads a file from a position to its end and checks every batch: checksum, and offsets that follow each other.
/// `seen` gets each good batch and its position. Ends at the first bad one.
pub(crate) fn check(
    file: &File,
    from: u64,
    expected: Expected,
    mut seen: impl FnMut(&BatchHeader, &[u8], u64),
) -> io::Result<Checked> {
    let file_bytes = file.metadata()?.len();
    let mut checked = Checked { good_bytes: from, next_offset: expected.offset, tail: None };
    let (mut window, mut at) = (Vec::new(), 0);
    loop {
        let left = file_bytes.saturating_sub(checked.good_bytes);
        let ahead = window.get(at..).unwrap_or_default();
        let needed = match needed(ahead, left) {
            None => return Ok(checked),
            Some(Ok(needed)) => needed,
            Some(Err(error)) => return Ok(with_tail(checked, left, &error)),
        };
        let Some(bytes) = ahead.get(..needed) else {
            let have = left.min(needed.max(SCAN_BYTES) as u64) as usize;
            if have < needed {
                return Ok(with_tail(checked, left, &BatchError::Torn { needed, have }));
            }
            window.resize(have, 0);
            file.read_exact_at(&mut window, checked.good_bytes)?;
            at = 0;
            continue;
        };
        // With a whole header in the window, `needed` is the whole batch.
        match check_batch(bytes, Expected { offset: checked.next_offset, ..expected }) {
            Ok(header) => {
                seen(&header, bytes, checked.good_bytes);
                checked.good_bytes += needed as u64;
                checked.next_offset = header.last_offset() + 1;
            }
            Err(reason) => return Ok(with_tail(checked, left, &reason)),
        }
        at += needed;
    }
}

fn with_tail(checked: Checked, bytes: u64, reason: &dyn std::fmt::Display) -> Checked {
    Checked { tail: Some((bytes, reason.to_string())), ..checked }
}

/// How many bytes of the window the next step needs: a header, or the whole batch once its header is there. `None`
/// at the end of the file.
fn needed(window: &[u8], left: u64) -> Option<Result<usize, BatchError>> {
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

fn check_batch(bytes: &[u8], expected: Expected) -> Result<BatchHeader, String> {
    batch::verify_crc(bytes).map_err(|error| error.to_string())?;
    let header = BatchHeader::parse(bytes).map_err(|error| error.to_string())?;
    let (offset, wanted) = (header.base_offset, expected.offset);
    // The checksum does not cover the offset.
    if offset != wanted && !(expected.holes && offset > wanted) {
        return Err(format!("the batch has offset {offset}, wanted {wanted}"));
    }
    if header.last_offset() == i64::MAX {
        return Err(format!("the batch ends at the impossible offset {}", i64::MAX));
    }
    Ok(header)
}

/// Walks the headers of batches from a batch's position to `to`, until `stop` says so. Returns the header it stopped
/// at and where that batch begins.
pub(crate) fn headers(
    file: &File,
    from: u64,
    to: u64,
    mut stop: impl FnMut(&BatchHeader, u64) -> bool,
) -> io::Result<Option<(BatchHeader, u64)>> {
    let mut window = [0; HEADERS_BYTES];
    let mut position = from;
    while position < to {
        let most = (to - position).min(HEADERS_BYTES as u64) as usize;
        let read = window.get_mut(..most).unwrap_or_default();
        file.read_exact_at(read, position)?;
        let mut at = 0;
        while let Some(bytes) = read.get(at..).filter(|rest| rest.len() >= HEADER_BYTES) {
            let header = BatchHeader::parse(bytes).map_err(invalid)?;
            if stop(&header, position + at as u64) {
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

/// An error about damaged bytes.
pub(crate) fn invalid(reason: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_string())
}

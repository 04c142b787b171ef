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

/// Read at a time of a batch whose length may lie.
const PIECE_BYTES: usize = 64 << 10;
/// How much is read at most of what looks like batches behind a bad one.
const SEARCHED_BYTES: u64 = 1 << 30;
/// Where a batch says its format, and which one it is.
const MAGIC_AT: usize = 16;
const MAGIC: u8 = 2;
/// Where a batch's checksum stands, and what it covers begins.
const CRC_AT: usize = 17;
const COVERED_FROM: usize = 21;

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

/// What lies behind a place where a log can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behind {
    /// No whole batch: what a write leaves that was cut short.
    Nothing,
    /// A whole batch.
    Batches,
    /// Too much that looks like batches to check all of it.
    Unknown,
}

/// Looks in a file, from the bad batch at `bad` to the end, for a batch that could follow the offset `next`: its header
/// makes sense and its checksum is right. Memory is one window.
pub(crate) fn behind(file: &File, bad: u64, next: i64) -> io::Result<Behind> {
    search(file, bad, next, SEARCHED_BYTES)
}

/// [`behind`], with checksums over this number of bytes at most.
fn search(file: &File, bad: u64, next: i64, mut budget: u64) -> io::Result<Behind> {
    let end = file.metadata()?.len();
    let mut window = vec![0; SCAN_BYTES];
    let mut at = bad;
    while end.saturating_sub(at) >= HEADER_BYTES as u64 {
        let have = (end - at).min(SCAN_BYTES as u64) as usize;
        let bytes = window.get_mut(..have).unwrap_or_default();
        file.read_exact_at(bytes, at)?;
        for (skipped, header) in bytes.windows(HEADER_BYTES).enumerate() {
            let position = at + skipped as u64;
            // Of the bad one itself the offset may be what is bad.
            let least = if position == bad { 0 } else { next };
            let Some(bytes) = plausible(header, least).filter(|bytes| *bytes <= end - position) else {
                continue;
            };
            let Some(left) = budget.checked_sub(bytes) else { return Ok(Behind::Unknown) };
            budget = left;
            if is_whole(file, position, bytes, header)? {
                return Ok(Behind::Batches);
            }
        }
        // The first header that is not whole in this window begins the next one.
        at += (have + 1 - HEADER_BYTES) as u64;
    }
    Ok(Behind::Nothing)
}

/// The size of the batch that a header begins, if its offset can be that.
fn plausible(header: &[u8], least_offset: i64) -> Option<u64> {
    // The cheapest test first: this is asked for every byte.
    if header.get(MAGIC_AT) != Some(&MAGIC) {
        return None;
    }
    let header = BatchHeader::parse(header).ok()?;
    let follows =
        header.base_offset >= least_offset && header.last_offset_delta >= 0 && header.record_count >= 0;
    follows.then_some(header.total_bytes() as u64)
}

/// Whether the checksum of a batch is right; it is read piece by piece, since its length may lie.
fn is_whole(file: &File, position: u64, bytes: u64, header: &[u8]) -> io::Result<bool> {
    let Some(wanted) = header.get(CRC_AT..COVERED_FROM).and_then(|crc| crc.try_into().ok()) else {
        return Ok(false);
    };
    let (mut crc, mut at) = (0, COVERED_FROM as u64);
    let mut piece = [0; PIECE_BYTES];
    while at < bytes {
        let have = (bytes - at).min(PIECE_BYTES as u64) as usize;
        let piece = piece.get_mut(..have).unwrap_or_default();
        file.read_exact_at(piece, position + at)?;
        crc = crc32c::crc32c_append(crc, piece);
        at += have as u64;
    }
    Ok(crc == u32::from_be_bytes(wanted))
}

fn check_batch(bytes: &[u8], expected: Expected) -> Result<BatchHeader, String> {
    batch::verify_crc(bytes).map_err(|error| error.to_string())?;
    let header = BatchHeader::parse(bytes).map_err(|error| error.to_string())?;
    let (offset, wanted) = (header.base_offset, expected.offset);
    // The checksum does not cover the offset.
    if offset != wanted && !(expected.holes && offset > wanted) {
        return Err(format!("the batch has offset {offset} instead of {wanted}"));
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

#[cfg(test)]
mod tests {
    use super::*;
    use hone_kafka::{BatchBuilder, Codec};
    use std::io::Write;

    fn one(offset: i64) -> Vec<u8> {
        let mut builder = BatchBuilder::new(Codec::None);
        builder.push(None, Some(b"value"), 0);
        let mut bytes = builder.build().unwrap();
        batch::set_base_offset(&mut bytes, offset).unwrap();
        bytes
    }

    fn found(bytes: &[u8], budget: u64) -> Behind {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        search(&file, 0, 7, budget).unwrap()
    }

    #[test]
    fn batches_behind_damage_are_found_wherever_they_begin() {
        for before in
            [1, 60, 61, 62, 5_000, SCAN_BYTES - 70, SCAN_BYTES - 61, SCAN_BYTES - 30, SCAN_BYTES + 9]
        {
            let bytes = [&vec![2; before][..], &one(7)].concat();
            assert_eq!(found(&bytes, SEARCHED_BYTES), Behind::Batches, "{before}");
            // One byte less, or an offset that was there before, and it is none.
            assert_eq!(found(&bytes[..bytes.len() - 1], SEARCHED_BYTES), Behind::Nothing, "{before}");
            let bytes = [&vec![2; before][..], &one(6)].concat();
            assert_eq!(found(&bytes, SEARCHED_BYTES), Behind::Nothing, "{before}");
        }
        assert_eq!(found(&one(3), SEARCHED_BYTES), Behind::Batches, "only its offset is bad");
        assert_eq!(found(&[], SEARCHED_BYTES), Behind::Nothing);
    }

    #[test]
    fn the_search_has_an_end() {
        let mut bad = one(8);
        *bad.last_mut().unwrap() ^= 1;
        let bytes = [&bad[..], &bad, &one(9)].concat();
        assert_eq!(found(&bytes, 3 * bad.len() as u64), Behind::Batches);
        assert_eq!(found(&bytes, 3 * bad.len() as u64 - 1), Behind::Unknown);
    }
}

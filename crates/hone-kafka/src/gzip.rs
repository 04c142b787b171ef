//! gzip streams (RFC 1952), decompressed with a context that each thread reuses.
//!
//! The context of the inflating crate has 43 KiB of zeros and tables. Its ready-made reader makes a context for every stream, which costs
//! far more than decompressing a small batch.

use std::cell::RefCell;

use flate2::{Crc, Decompress, FlushDecompress, Status};

use crate::codec::StreamError;

const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
/// Magic, flags, time, extra flags and system.
const FIXED_HEADER_BYTES: usize = 10;
const HEADER_CHECKSUM: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0b1110_0000;
/// Largest room that is reserved at a time.
const STEP_BYTES: usize = 64 << 10;
const CUT: &str = "the stream is truncated";

thread_local! {
    static CONTEXT: RefCell<Decompress> = RefCell::new(Decompress::new(false));
}

/// Decompresses one or more streams to the end of `out`, until `out` has `limit_bytes`.
pub(crate) fn unpack(bytes: &[u8], limit_bytes: usize, out: &mut Vec<u8>) -> Result<(), StreamError> {
    let mut rest = bytes;
    loop {
        let start = out.len();
        rest = skip_header(rest)?;
        rest = CONTEXT.with_borrow_mut(|context| inflate(context, rest, limit_bytes, out))?;
        rest = check_trailer(rest, out.get(start..).unwrap_or_default())?;
        if rest.is_empty() {
            return Ok(());
        }
    }
}

fn skip_header(bytes: &[u8]) -> Result<&[u8], StreamError> {
    let (fixed, mut rest) = bytes.split_at_checked(FIXED_HEADER_BYTES).ok_or(CUT)?;
    if !fixed.starts_with(&MAGIC) {
        return Err("the gzip magic bytes are missing".into());
    }
    let flags = fixed.get(MAGIC.len()).copied().unwrap_or_default();
    if flags & RESERVED != 0 {
        return Err("the gzip header has unknown flags".into());
    }
    if flags & EXTRA != 0 {
        let (length, behind) = rest.split_first_chunk::<2>().ok_or(CUT)?;
        rest = behind.get(usize::from(u16::from_le_bytes(*length))..).ok_or(CUT)?;
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            let end = rest.iter().position(|byte| *byte == 0).ok_or(CUT)?;
            rest = rest.get(end + 1..).ok_or(CUT)?;
        }
    }
    if flags & HEADER_CHECKSUM != 0 {
        let (stated, behind) = rest.split_first_chunk::<2>().ok_or(CUT)?;
        let mut crc = Crc::new();
        crc.update(bytes.get(..bytes.len() - rest.len()).unwrap_or_default());
        if crc.sum() as u16 != u16::from_le_bytes(*stated) {
            return Err("the checksum of the gzip header differs".into());
        }
        rest = behind;
    }
    Ok(rest)
}

/// Returns the bytes after the compressed data.
fn inflate<'a>(
    context: &mut Decompress,
    mut rest: &'a [u8],
    limit_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<&'a [u8], StreamError> {
    context.reset(false);
    loop {
        if out.len() > limit_bytes {
            return Err(StreamError::TooLarge);
        }
        if out.len() == out.capacity() {
            // A small stream is decompressed at once. For a large one the buffer grows with the bytes that are really there.
            out.reserve((rest.len() * 4).max(out.len()).clamp(1 << 10, STEP_BYTES));
        }
        let (taken, had) = (context.total_in(), out.len());
        let status = context
            .decompress_vec(rest, out, FlushDecompress::None)
            .map_err(|error| StreamError::Damaged(error.to_string()))?;
        let taken = (context.total_in() - taken) as usize;
        rest = rest.get(taken..).unwrap_or_default();
        match status {
            Status::StreamEnd if out.len() > limit_bytes => return Err(StreamError::TooLarge),
            Status::StreamEnd => return Ok(rest),
            _ if taken == 0 && out.len() == had && had < out.capacity() => return Err(CUT.into()),
            _ => (),
        }
    }
}

fn check_trailer<'a>(rest: &'a [u8], unpacked: &[u8]) -> Result<&'a [u8], StreamError> {
    let (checksum, rest) = rest.split_first_chunk::<4>().ok_or(CUT)?;
    let (length, rest) = rest.split_first_chunk::<4>().ok_or(CUT)?;
    let mut crc = Crc::new();
    crc.update(unpacked);
    if crc.sum() != u32::from_le_bytes(*checksum) {
        return Err("the checksum of the content differs".into());
    }
    // The length counts modulo 2^32.
    if unpacked.len() as u32 != u32::from_le_bytes(*length) {
        return Err("the size of the content differs from the size in the gzip trailer".into());
    }
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, GzBuilder};
    use proptest::prelude::*;

    use super::*;

    fn packed(builder: GzBuilder, plain: &[u8]) -> Vec<u8> {
        let mut encoder = builder.write(Vec::new(), Compression::default());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    fn sample(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|index| (index % 251) as u8 ^ (index / 777) as u8).collect()
    }

    #[test]
    fn every_shape_of_header_is_skipped_and_streams_follow_each_other() {
        let plain = sample(200_000);
        let mut all = Vec::new();
        for builder in [
            GzBuilder::new(),
            GzBuilder::new().filename("name").mtime(77),
            GzBuilder::new().comment("a comment").extra(vec![1, 2, 3, 0]),
            GzBuilder::new().extra(vec![]).filename("").comment(""),
        ] {
            let stream = packed(builder, &plain);
            let mut out = b"before".to_vec();
            unpack(&stream, plain.len() + 6, &mut out).unwrap();
            assert!(out[6..] == plain);
            assert!(matches!(unpack(&stream, plain.len() - 1, &mut Vec::new()), Err(StreamError::TooLarge)));
            all.extend(stream);
        }
        let mut out = Vec::new();
        unpack(&all, plain.len() * 4, &mut out).unwrap();
        assert!(out == plain.repeat(4));
        assert!(matches!(unpack(&all, plain.len() * 4 - 1, &mut Vec::new()), Err(StreamError::TooLarge)));
    }

    #[test]
    fn a_checksum_of_the_header_is_checked() {
        let mut stream = packed(GzBuilder::new(), b"plain");
        stream[3] |= HEADER_CHECKSUM;
        let mut crc = Crc::new();
        crc.update(&stream[..FIXED_HEADER_BYTES]);
        let sum = (crc.sum() as u16).to_le_bytes();
        stream.splice(FIXED_HEADER_BYTES..FIXED_HEADER_BYTES, sum);
        let mut out = Vec::new();
        unpack(&stream, 100, &mut out).unwrap();
        assert_eq!(out, b"plain");
        stream[4] ^= 1;
        assert!(unpack(&stream, 100, &mut Vec::new()).is_err());
    }

    #[test]
    fn a_cut_stream_is_damaged_wherever_it_is_cut() {
        let stream = packed(GzBuilder::new().filename("n"), &sample(3_000));
        for keep in 0..stream.len() {
            assert!(unpack(&stream[..keep], 1 << 20, &mut Vec::new()).is_err(), "{keep}");
        }
        // The next stream of the thread finds the context as new.
        unpack(&stream, 1 << 20, &mut Vec::new()).unwrap();
    }

    proptest! {
        #[test]
        fn damage_is_an_error_or_leaves_the_content_as_it_was(at in any::<usize>(), byte in any::<u8>()) {
            let plain = sample(2_000);
            let mut stream = packed(GzBuilder::new(), &plain);
            let at = at % stream.len();
            stream[at] = byte;
            let mut out = Vec::new();
            if unpack(&stream, 1 << 20, &mut out).is_ok() {
                prop_assert_eq!(out, plain);
            }
        }
    }
}

//! The four codecs of record batches, each with a limit on the decompressed size.
//!
//! gzip and zstd write their usual streams. lz4 writes the frame format (64 KiB independent blocks, as Kafka's own clients do). Snappy has
//! two dialects: Java clients write xerial's framing around raw blocks, others write a raw block. Hone reads both and writes xerial's.

use std::cell::RefCell;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use zstd::bulk::Compressor;
use zstd::zstd_safe::{self, DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

use crate::{gzip, lz4_frame};

/// Magic bytes, version 1 and lowest compatible version 1 of xerial's snappy framing.
const XERIAL_HEADER: [u8; 16] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1];
const XERIAL_MAGIC: &[u8] = &[0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
/// Uncompressed bytes in one xerial block, as snappy-java writes them.
const XERIAL_BLOCK_BYTES: usize = 32 * 1024;
/// A snappy element of 3 bytes decompresses to at most 64, so a block that claims more than this factor is invalid.
const SNAPPY_MOST_RATIO: usize = 32;
/// Largest zstd window that Hone accepts (2^24 = 16 MiB). A frame may ask for far more before its first byte.
const ZSTD_WINDOW_LOG_MAX: u32 = 24;
/// The level that Kafka uses when none is set.
const ZSTD_LEVEL: i32 = 3;

/// How the records of a batch are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Codec {
    /// Uncompressed.
    None,
    /// RFC 1952.
    Gzip,
    /// Google's Snappy, in xerial's framing.
    Snappy,
    /// LZ4 frames.
    Lz4,
    /// Zstandard, RFC 8878.
    Zstd,
}

/// Reasons why records could not be decompressed or compressed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The stream is damaged.
    #[error("invalid {codec} stream: {reason}")]
    Damaged {
        /// Name of the codec.
        codec: &'static str,
        /// The message of its library.
        reason: String,
    },
    /// The stream decompresses to more than the limit.
    #[error("{codec} records decompress to more than {limit_bytes} bytes")]
    TooLarge {
        /// Name of the codec.
        codec: &'static str,
        /// The limit.
        limit_bytes: usize,
    },
    /// Compression failed, which no input should cause.
    #[error("{codec} could not compress the records: {reason}")]
    Pack {
        /// Name of the codec.
        codec: &'static str,
        /// The message of its library.
        reason: String,
    },
}

/// Why decompression failed, without the names of its codec and limit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StreamError {
    /// The stream is damaged; the text is the reason.
    Damaged(String),
    /// The stream holds more than the limit.
    TooLarge,
}

impl From<&str> for StreamError {
    fn from(reason: &str) -> Self {
        Self::Damaged(reason.to_owned())
    }
}

impl StreamError {
    fn of(self, codec: Codec, limit_bytes: usize) -> CodecError {
        match self {
            Self::Damaged(reason) => damaged(codec, reason),
            Self::TooLarge => too_large(codec, limit_bytes),
        }
    }
}

impl Codec {
    /// Every codec, in the order of its attribute bits.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The name in settings: `none`, `gzip`, `snappy`, `lz4`, `zstd`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// The codec with this name; `uncompressed` is Kafka's other name for `none`.
    pub fn from_name(name: &str) -> Option<Self> {
        if name == "uncompressed" {
            return Some(Self::None);
        }
        Self::ALL.into_iter().find(|codec| codec.name() == name)
    }

    /// Its value in bits 0 to 2 of the batch attributes.
    pub fn bits(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// The codec in batch attributes; `None` for the bits 5 to 7.
    pub fn from_attributes(attributes: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| codec.bits() == attributes & 0b111)
    }
}

/// Decompresses `bytes`, to `limit_bytes` at most.
///
/// # Errors
/// Returns an error when the stream is damaged, or longer than the limit. The size that the stream states is not trusted.
pub fn decompress(codec: Codec, bytes: &[u8], limit_bytes: usize) -> Result<Vec<u8>, CodecError> {
    let mut out = Vec::new();
    decompress_into(codec, bytes, limit_bytes, &mut out)?;
    Ok(out)
}

/// Does the same as [`decompress`], into a buffer that is cleared first and can be used again.
///
/// # Errors
/// Returns the errors of [`decompress`]; the buffer's contents then mean nothing.
pub fn decompress_into(
    codec: Codec,
    bytes: &[u8],
    limit_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    out.clear();
    match codec {
        Codec::None if bytes.len() > limit_bytes => Err(too_large(codec, limit_bytes)),
        Codec::None => {
            out.extend_from_slice(bytes);
            Ok(())
        }
        Codec::Gzip => gzip::unpack(bytes, limit_bytes, out).map_err(|error| error.of(codec, limit_bytes)),
        Codec::Lz4 => {
            lz4_frame::unpack(bytes, limit_bytes, out).map_err(|error| error.of(codec, limit_bytes))
        }
        Codec::Snappy => unpack_snappy(bytes, limit_bytes, out),
        Codec::Zstd => unpack_zstd(bytes, limit_bytes, out),
    }
}

/// Compresses `bytes`.
///
/// # Errors
/// Returns [`CodecError::Pack`], which no input should cause.
pub fn compress(codec: Codec, bytes: &[u8]) -> Result<Vec<u8>, CodecError> {
    let mut out = Vec::new();
    compress_into(codec, bytes, &mut out)?;
    Ok(out)
}

/// Does the same as [`compress`], and appends to a buffer.
///
/// # Errors
/// Returns the errors of [`compress`].
pub fn compress_into(codec: Codec, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
    compress_at_level(codec, None, bytes, out)
}

/// Does the same as [`compress_into`], at a level: 0 to 9 for gzip, -131072 to 22 for zstd. The other codecs have one level only. `None` is
/// the default of the codec.
///
/// # Errors
/// Returns the errors of [`compress`].
pub fn compress_at_level(
    codec: Codec,
    level: Option<i32>,
    bytes: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let packed = match codec {
        Codec::None => {
            out.extend_from_slice(bytes);
            Ok(())
        }
        Codec::Gzip => pack_gzip(level, bytes, out),
        Codec::Snappy => pack_xerial(bytes, out),
        Codec::Lz4 => pack_lz4(bytes, out),
        Codec::Zstd => pack_zstd(level.unwrap_or(ZSTD_LEVEL), bytes, out),
    };
    packed.map_err(|reason| CodecError::Pack { codec: codec.name(), reason })
}

fn too_large(codec: Codec, limit_bytes: usize) -> CodecError {
    CodecError::TooLarge { codec: codec.name(), limit_bytes }
}

fn damaged(codec: Codec, reason: impl ToString) -> CodecError {
    CodecError::Damaged { codec: codec.name(), reason: reason.to_string() }
}

fn unpack_snappy(bytes: &[u8], limit_bytes: usize, out: &mut Vec<u8>) -> Result<(), CodecError> {
    if !bytes.starts_with(XERIAL_MAGIC) {
        return unpack_snappy_block(bytes, limit_bytes, out);
    }
    let mut rest = bytes
        .get(XERIAL_HEADER.len()..)
        .ok_or_else(|| damaged(Codec::Snappy, "the xerial header is truncated"))?;
    while !rest.is_empty() {
        let (length, behind) = rest
            .split_first_chunk::<4>()
            .ok_or_else(|| damaged(Codec::Snappy, "the length of a xerial block is truncated"))?;
        let block = usize::try_from(i32::from_be_bytes(*length))
            .ok()
            .and_then(|length| behind.split_at_checked(length))
            .ok_or_else(|| damaged(Codec::Snappy, "a xerial block is truncated"))?;
        unpack_snappy_block(block.0, limit_bytes, out)?;
        rest = block.1;
    }
    Ok(())
}

fn unpack_snappy_block(block: &[u8], limit_bytes: usize, out: &mut Vec<u8>) -> Result<(), CodecError> {
    let claimed = snap::raw::decompress_len(block).map_err(|error| damaged(Codec::Snappy, error))?;
    if claimed > block.len().saturating_mul(SNAPPY_MOST_RATIO) {
        return Err(damaged(Codec::Snappy, "a block states more bytes than its compressed size can hold"));
    }
    let start = out.len();
    if claimed > limit_bytes.saturating_sub(start) {
        return Err(too_large(Codec::Snappy, limit_bytes));
    }
    out.resize(start + claimed, 0);
    let written = snap::raw::Decoder::new()
        .decompress(block, &mut out[start..])
        .map_err(|error| damaged(Codec::Snappy, error))?;
    out.truncate(start + written);
    Ok(())
}

fn pack_xerial(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    out.extend_from_slice(&XERIAL_HEADER);
    let mut encoder = snap::raw::Encoder::new();
    for block in bytes.chunks(XERIAL_BLOCK_BYTES) {
        let at = out.len();
        out.resize(at + 4 + snap::raw::max_compress_len(block.len()), 0);
        let written = encoder.compress(block, &mut out[at + 4..]).map_err(|error| error.to_string())?;
        let length = i32::try_from(written).map_err(|error| error.to_string())?;
        out[at..at + 4].copy_from_slice(&length.to_be_bytes());
        out.truncate(at + 4 + written);
    }
    Ok(())
}

fn pack_gzip(level: Option<i32>, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let level =
        level.map_or(Compression::default(), |level| Compression::new(level.clamp(0, 9).unsigned_abs()));
    let mut encoder = GzEncoder::new(out, level);
    encoder.write_all(bytes).and_then(|()| encoder.finish()).map(drop).map_err(|error| error.to_string())
}

fn pack_lz4(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let info = FrameInfo::new().block_size(BlockSize::Max64KB).block_mode(BlockMode::Independent);
    let mut encoder = FrameEncoder::with_frame_info(info, out);
    encoder.write_all(bytes).map_err(|error| error.to_string())?;
    encoder.finish().map(drop).map_err(|error| error.to_string())
}

// A zstd context takes a few hundred KiB; one for each thread is cheaper than one for each batch.
thread_local! {
    static ZSTD_PACKER: RefCell<Option<(i32, Compressor<'static>)>> = const { RefCell::new(None) };
    static ZSTD_UNPACKER: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

fn pack_zstd(level: i32, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    ZSTD_PACKER.with_borrow_mut(|slot| {
        let (packed_at, packer) = match slot {
            Some(slot) => slot,
            None => slot.insert((level, Compressor::new(level).map_err(|error| error.to_string())?)),
        };
        if *packed_at != level {
            packer.set_compression_level(level).map_err(|error| error.to_string())?;
            *packed_at = level;
        }
        let at = out.len();
        out.resize(at + zstd_safe::compress_bound(bytes.len()), 0);
        let written = packer.compress_to_buffer(bytes, &mut out[at..]).map_err(|error| error.to_string())?;
        out.truncate(at + written);
        Ok(())
    })
}

fn unpack_zstd(bytes: &[u8], limit_bytes: usize, out: &mut Vec<u8>) -> Result<(), CodecError> {
    let failed = |code| damaged(Codec::Zstd, zstd_safe::get_error_name(code));
    ZSTD_UNPACKER.with_borrow_mut(|slot| {
        let unpacker = match slot {
            Some(unpacker) => unpacker,
            None => slot.insert(new_unpacker().map_err(failed)?),
        };
        // The last batch may have ended in an error.
        unpacker.reset(ResetDirective::SessionOnly).map_err(failed)?;
        let mut input = InBuffer::around(bytes);
        let most = limit_bytes.saturating_add(1);
        let (mut frame_start, mut frame_plain_start) = (0, out.len());
        loop {
            if out.len() >= most {
                return Err(too_large(Codec::Zstd, limit_bytes));
            }
            let start = out.len();
            let room = bytes.len().saturating_mul(4).max(start).clamp(1024, most.max(1024)).min(most - start);
            // The decoder writes to the reserved room directly, so it need not be filled with zeros first.
            out.reserve(room);
            let mut output = OutBuffer::around_pos(out, start);
            let hint = unpacker.decompress_stream(&mut output, &mut input).map_err(failed)?;
            let full = output.pos() == output.capacity();
            let input_done = input.pos >= bytes.len();
            if hint == 0 {
                if !has_stated_size(&bytes[frame_start..], out.len() - frame_plain_start) {
                    return Err(damaged(
                        Codec::Zstd,
                        "the size of a frame differs from the size in its header",
                    ));
                }
                if input_done {
                    break;
                }
                (frame_start, frame_plain_start) = (input.pos, out.len());
            }
            if input_done && !full {
                return Err(damaged(Codec::Zstd, "the stream is truncated"));
            }
        }
        if out.len() > limit_bytes { Err(too_large(Codec::Zstd, limit_bytes)) } else { Ok(()) }
    })
}

/// Whether a frame that decompressed to `plain_bytes` states that size or no size. libzstd compares frames with their header when it
/// decompresses them at once. It does not do so when it decompresses in pieces and the last block is empty.
fn has_stated_size(frame: &[u8], plain_bytes: usize) -> bool {
    match zstd_safe::get_frame_content_size(frame) {
        Ok(Some(stated)) => u64::try_from(plain_bytes) == Ok(stated),
        Ok(None) => true,
        Err(_) => false,
    }
}

fn new_unpacker() -> Result<DCtx<'static>, zstd_safe::ErrorCode> {
    let mut unpacker = DCtx::create();
    unpacker.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX))?;
    Ok(unpacker)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 1 << 20;

    fn sample(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|index| (index % 251) as u8 ^ (index / 777) as u8).collect()
    }

    #[test]
    fn a_zstd_frame_that_holds_less_than_it_says_is_damaged() {
        // 2,000 bytes stated, then an empty compressed block that says it is the last.
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x60, 0xd0, 0x06, 0x05, 0x00, 0x00];
        for limit in [0, 1, 1999, 2000, LIMIT] {
            let error = decompress(Codec::Zstd, &frame, limit).expect_err("nothing is in there");
            assert!(matches!(error, CodecError::Damaged { .. }), "{error}");
        }
        let mut second = compress(Codec::Zstd, b"whole").expect("it compresses");
        second.extend(frame);
        assert!(decompress(Codec::Zstd, &second, LIMIT).is_err(), "the second frame, too");
    }

    #[test]
    fn every_codec_survives_the_round_trip() {
        for codec in Codec::ALL {
            for size in [0, 1, 60, 32 * 1024, 200_000] {
                let plain = sample(size);
                let packed = compress(codec, &plain).unwrap();
                assert_eq!(decompress(codec, &packed, LIMIT).unwrap(), plain, "{} {size}", codec.name());
            }
        }
    }

    #[test]
    fn levels_are_obeyed_in_any_order_and_unpack_alike() {
        let plain: Vec<u8> = (0..60_000_u32).flat_map(|word| (word * word % 1_009).to_le_bytes()).collect();
        let packed = |codec, level| {
            let mut out = Vec::new();
            compress_at_level(codec, level, &plain, &mut out).unwrap();
            assert_eq!(decompress(codec, &out, LIMIT).unwrap(), plain);
            out
        };
        for (codec, fast, default, best) in [(Codec::Gzip, 1, 6, 9), (Codec::Zstd, -50, 3, 19)] {
            let (fast, best) = (packed(codec, Some(fast)).len(), packed(codec, Some(best)).len());
            assert!(fast > best, "{}: {fast} {best}", codec.name());
            assert_eq!(packed(codec, Some(default)), compress(codec, &plain).unwrap());
        }
    }

    #[test]
    fn the_limit_holds_to_the_byte_for_every_codec() {
        let plain = vec![7; 300_000];
        for codec in Codec::ALL {
            let packed = compress(codec, &plain).unwrap();
            assert_eq!(
                decompress(codec, &packed, plain.len()).unwrap().len(),
                plain.len(),
                "{}",
                codec.name()
            );
            let error = decompress(codec, &packed, plain.len() - 1).unwrap_err();
            assert!(matches!(error, CodecError::TooLarge { .. }), "{}: {error}", codec.name());
        }
    }

    #[test]
    fn a_cut_stream_is_damaged() {
        for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            let packed = compress(codec, &sample(50_000)).unwrap();
            for keep in [1, 4, 17, packed.len() / 2, packed.len() - 1] {
                assert!(decompress(codec, &packed[..keep], LIMIT).is_err(), "{} {keep}", codec.name());
            }
        }
    }

    #[test]
    fn both_dialects_of_snappy_are_read() {
        let plain = sample(70_000);
        let raw = snap::raw::Encoder::new().compress_vec(&plain).unwrap();
        assert_eq!(decompress(Codec::Snappy, &raw, LIMIT).unwrap(), plain);
        let xerial = compress(Codec::Snappy, &plain).unwrap();
        assert!(xerial.starts_with(XERIAL_MAGIC));
        assert_eq!(decompress(Codec::Snappy, &xerial, LIMIT).unwrap(), plain);
    }

    #[test]
    fn a_snappy_block_that_boasts_is_refused_without_memory() {
        // A varint of 2^32 - 1, then nothing.
        let error = decompress(Codec::Snappy, &[0xff, 0xff, 0xff, 0xff, 0x0f], usize::MAX).unwrap_err();
        assert!(matches!(error, CodecError::Damaged { .. }), "{error}");
    }

    #[test]
    fn names_and_bits_lead_back() {
        for codec in Codec::ALL {
            assert_eq!(Codec::from_name(codec.name()), Some(codec));
            assert_eq!(Codec::from_attributes(codec.bits() | 0b1000), Some(codec));
        }
        assert_eq!(Codec::from_name("uncompressed"), Some(Codec::None));
        assert_eq!(Codec::from_name("brotli"), None);
        assert_eq!(Codec::from_attributes(5), None);
    }
}

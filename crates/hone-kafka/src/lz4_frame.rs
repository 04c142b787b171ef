//! LZ4 frames, decompressed block by block into a buffer that is used again.
//!
//! The frame decoder of the crate that compresses them allocates room for whole blocks (64 KiB at least) for every frame and fills it with
//! zeros. Most batches are far smaller. That crate still decompresses the blocks themselves.

use std::cell::RefCell;

use lz4_flex::block;
use twox_hash::XxHash32;

use crate::codec::StreamError;

const MAGIC: u32 = 0x184d_2204;
/// Largest window that a block of a linked frame may refer to.
const WINDOW_BYTES: usize = 64 << 10;
/// A sequence of n bytes decompresses to less than 255 times n plus this.
const LEAST_ROOM_BYTES: usize = 64;
const MOST_RATIO: usize = 255;
/// Room that a thread keeps; blocks of Kafka's clients have 64 KiB.
const KEPT_BYTES: usize = 256 << 10;
const UNCOMPRESSED_BLOCK: u32 = 1 << 31;

const CUT: &str = "the frame is truncated";

/// The descriptor of a frame.
struct Descriptor {
    linked: bool,
    block_checksums: bool,
    content_checksum: bool,
    content_bytes: Option<u64>,
    block_bytes: usize,
}

thread_local! {
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Decompresses exactly one frame to the end of `out`, until `out` has `limit_bytes`.
pub(crate) fn unpack(bytes: &[u8], limit_bytes: usize, out: &mut Vec<u8>) -> Result<(), StreamError> {
    let (descriptor, blocks) = read_descriptor(bytes)?;
    let start = out.len();
    let rest = ROOM.with_borrow_mut(|room| unpack_blocks(&descriptor, blocks, limit_bytes, out, room))?;
    check_content(&descriptor, &out[start..], rest)
}

/// Returns the bytes after the end mark.
fn unpack_blocks<'a>(
    descriptor: &Descriptor,
    mut rest: &'a [u8],
    limit_bytes: usize,
    out: &mut Vec<u8>,
    room: &mut Vec<u8>,
) -> Result<&'a [u8], StreamError> {
    let start = out.len();
    while let Some((block, compressed)) = take_block(descriptor, &mut rest)? {
        if !compressed {
            append(out, block, limit_bytes)?;
            continue;
        }
        let most = descriptor.block_bytes.min(block.len() * MOST_RATIO + LEAST_ROOM_BYTES);
        if room.len() < most {
            room.resize(most, 0);
        }
        let written = unpack_block(block, &mut room[..most], window(descriptor, &out[start..]))?;
        append(out, &room[..written], limit_bytes)?;
        room.truncate(KEPT_BYTES);
        room.shrink_to(KEPT_BYTES);
    }
    Ok(rest)
}

fn read_descriptor(bytes: &[u8]) -> Result<(Descriptor, &[u8]), StreamError> {
    let (magic, behind) = bytes.split_first_chunk::<4>().ok_or(CUT)?;
    if u32::from_le_bytes(*magic) != MAGIC {
        return Err("the LZ4 magic bytes are missing".into());
    }
    let [flags, sizes, rest @ ..] = behind else { return Err(CUT.into()) };
    let flag = |bit: u8| flags >> bit & 1 != 0;
    if flags >> 6 != 1 || flag(1) || sizes & 0b1000_1111 != 0 {
        return Err("the frame has an unknown version or unknown flags".into());
    }
    if flag(0) {
        return Err("the frame needs a dictionary".into());
    }
    let block_bytes = match sizes >> 4 {
        size @ 4..=7 => 1 << (8 + 2 * size),
        _ => return Err("the frame has an unknown block size".into()),
    };
    let (content_bytes, rest) = if flag(3) {
        let (length, rest) = rest.split_first_chunk::<8>().ok_or(CUT)?;
        (Some(u64::from_le_bytes(*length)), rest)
    } else {
        (None, rest)
    };
    let (checksum, rest) = rest.split_first().ok_or(CUT)?;
    let covered = behind.get(..behind.len() - rest.len() - 1).unwrap_or_default();
    if (XxHash32::oneshot(0, covered) >> 8) as u8 != *checksum {
        return Err("the checksum of the frame's header differs".into());
    }
    let descriptor = Descriptor {
        linked: !flag(5),
        block_checksums: flag(4),
        content_checksum: flag(2),
        content_bytes,
        block_bytes,
    };
    Ok((descriptor, rest))
}

/// The next block and whether it is compressed; `None` at the end mark.
fn take_block<'a>(
    descriptor: &Descriptor,
    rest: &mut &'a [u8],
) -> Result<Option<(&'a [u8], bool)>, StreamError> {
    let (size, behind) = rest.split_first_chunk::<4>().ok_or(CUT)?;
    let size = u32::from_le_bytes(*size);
    *rest = behind;
    if size == 0 {
        return Ok(None);
    }
    let length = (size & !UNCOMPRESSED_BLOCK) as usize;
    if length > descriptor.block_bytes {
        return Err("a block is larger than the frame's block size".into());
    }
    let (block, behind) = rest.split_at_checked(length).ok_or(CUT)?;
    *rest = behind;
    if descriptor.block_checksums {
        let (checksum, behind) = rest.split_first_chunk::<4>().ok_or(CUT)?;
        *rest = behind;
        if XxHash32::oneshot(0, block) != u32::from_le_bytes(*checksum) {
            return Err("the checksum of a block differs".into());
        }
    }
    Ok(Some((block, size & UNCOMPRESSED_BLOCK == 0)))
}

/// The bytes that the next block may refer to.
fn window<'a>(descriptor: &Descriptor, unpacked: &'a [u8]) -> &'a [u8] {
    let from = if descriptor.linked { unpacked.len().saturating_sub(WINDOW_BYTES) } else { unpacked.len() };
    unpacked.get(from..).unwrap_or_default()
}

fn unpack_block(block: &[u8], room: &mut [u8], window: &[u8]) -> Result<usize, StreamError> {
    let unpacked = if window.is_empty() {
        block::decompress_into(block, room)
    } else {
        block::decompress_into_with_dict(block, room, window)
    };
    unpacked.map_err(|error| StreamError::Damaged(error.to_string()))
}

fn append(out: &mut Vec<u8>, plain: &[u8], limit_bytes: usize) -> Result<(), StreamError> {
    if plain.len() > limit_bytes.saturating_sub(out.len()) {
        return Err(StreamError::TooLarge);
    }
    out.extend_from_slice(plain);
    Ok(())
}

fn check_content(descriptor: &Descriptor, unpacked: &[u8], rest: &[u8]) -> Result<(), StreamError> {
    if descriptor.content_bytes.is_some_and(|stated| stated != unpacked.len() as u64) {
        return Err("the size of the content differs from the size in the frame's header".into());
    }
    let rest = if descriptor.content_checksum {
        let (checksum, rest) = rest.split_first_chunk::<4>().ok_or(CUT)?;
        if XxHash32::oneshot(0, unpacked) != u32::from_le_bytes(*checksum) {
            return Err("the checksum of the content differs".into());
        }
        rest
    } else {
        rest
    };
    if rest.is_empty() { Ok(()) } else { Err("there are bytes after the frame".into()) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
    use proptest::prelude::*;

    use super::*;

    fn packed(info: FrameInfo, plain: &[u8]) -> Vec<u8> {
        let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    /// Every shape of frame that the foreign encoder can write.
    fn infos(plain: &[u8]) -> Vec<FrameInfo> {
        let mut infos = Vec::new();
        for mode in [BlockMode::Independent, BlockMode::Linked] {
            for size in [BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max4MB] {
                for sums in 0..8 {
                    let content_bytes = (sums & 4 != 0).then_some(plain.len() as u64);
                    let info = FrameInfo::new().block_mode(mode).block_size(size).content_size(content_bytes);
                    infos.push(info.block_checksums(sums & 1 != 0).content_checksum(sums & 2 != 0));
                }
            }
        }
        infos
    }

    /// Half of it repeats what is up to 100,000 bytes behind, half of it is noise.
    fn sample(bytes: usize) -> Vec<u8> {
        let mut seed = 7_u32;
        let mut plain: Vec<u8> = Vec::with_capacity(bytes);
        while plain.len() < bytes {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let back = (seed >> 8) as usize % 100_000;
            if seed >> 31 == 0 && plain.len() > back + 64 {
                let from = plain.len() - back - 64;
                plain.extend_from_within(from..from + 64);
            } else {
                plain.extend_from_slice(&seed.to_be_bytes());
            }
        }
        plain.truncate(bytes);
        plain
    }

    #[test]
    fn every_shape_of_frame_is_unpacked_to_the_byte_of_the_limit() {
        for bytes in [0, 1, 100, 65_536, 65_537, 700_000] {
            let plain = sample(bytes);
            for info in infos(&plain) {
                let shown = format!("{bytes} bytes, {info:?}");
                let frame = packed(info, &plain);
                let mut out = b"before".to_vec();
                assert_eq!(unpack(&frame, bytes + 6, &mut out), Ok(()), "{shown}");
                assert!(out[6..] == plain, "{shown}");
                if bytes > 0 {
                    assert_eq!(
                        unpack(&frame, bytes - 1, &mut Vec::new()),
                        Err(StreamError::TooLarge),
                        "{shown}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_frame_with_all_checksums_survives_no_flipped_bit() {
        let plain = sample(2_000);
        let info = FrameInfo::new().block_checksums(true).content_checksum(true);
        let frame = packed(info, &plain);
        for bit in 0..frame.len() * 8 {
            let mut damaged = frame.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(unpack(&damaged, 1 << 20, &mut Vec::new()).is_err(), "bit {bit}");
        }
        for keep in 0..frame.len() {
            assert!(unpack(&frame[..keep], 1 << 20, &mut Vec::new()).is_err(), "{keep} bytes");
        }
        let longer = [frame.as_slice(), &[0]].concat();
        assert_eq!(unpack(&longer, 1 << 20, &mut Vec::new()), Err("there are bytes after the frame".into()));
    }

    proptest! {
        #[test]
        fn damage_is_an_error_or_other_bytes_never_a_panic(
            mode in prop::bool::ANY,
            changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..6),
        ) {
            let mode = if mode { BlockMode::Linked } else { BlockMode::Independent };
            let mut frame = packed(FrameInfo::new().block_mode(mode).block_size(BlockSize::Max64KB), &sample(90_000));
            for (at, byte) in changes {
                let at = at % frame.len();
                frame[at] = byte;
            }
            let mut out = Vec::new();
            let _ = unpack(&frame, 200_000, &mut out);
            prop_assert!(out.len() <= 200_000);
        }
    }
}

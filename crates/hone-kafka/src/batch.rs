//! The record batch of message format v2: its 61-byte header, read and patched in place.
//!
//! Layout (big-endian): base offset 0..8, length of the rest 8..12, leader epoch 12..16, magic 16, CRC 17..21, attributes 21..23, last
//! offset delta 23..27, base timestamp 27..35, max timestamp 35..43, producer id 43..51, producer epoch 51..53, base sequence 53..57,
//! record count 57..61, then the records, compressed as one block. The CRC32C covers everything from the attributes on, so base offset and
//! leader epoch change without it.

use crate::codec::{self, Codec, CodecError};

/// Size of a v2 batch header.
pub const HEADER_BYTES: usize = 61;
/// Bytes that the length field does not count: base offset and the length itself.
pub const LENGTH_OVERHEAD_BYTES: usize = 12;
/// Position at which the bytes under the CRC begin.
const CRC_FROM: usize = 21;
/// Smallest value of the length field: a header without records.
const LEAST_LENGTH: i32 = (HEADER_BYTES - LENGTH_OVERHEAD_BYTES) as i32;

const CODEC_MASK: i16 = 0b111;
const LOG_APPEND_TIME: i16 = 1 << 3;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;
const DELETE_HORIZON: i16 = 1 << 6;

/// Reasons why bytes are not a valid v2 batch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// The bytes end inside the header or inside the batch.
    #[error("torn batch: it needs {needed} bytes, but only {have} are there")]
    Torn {
        /// Bytes that the header or the batch needs.
        needed: usize,
        /// Bytes that are available.
        have: usize,
    },
    /// The length field is smaller than a header.
    #[error("invalid batch length {length}: even a batch without records has {LEAST_LENGTH} bytes")]
    Length {
        /// The field as written.
        length: i32,
    },
    /// A message set of format 0 or 1. Clients stopped writing these formats in 2017.
    #[error(
        "message format {magic} (magic byte) is older than v2 and not supported; use a client from 0.11 on"
    )]
    OldMagic {
        /// The magic byte, 0 or 1.
        magic: i8,
    },
    /// A magic byte that does not exist.
    #[error("unknown magic byte {magic}; v2 batches have 2")]
    UnknownMagic {
        /// The magic byte.
        magic: i8,
    },
    /// Codec bits 5 to 7.
    #[error("unknown compression codec {bits} in the batch attributes")]
    UnknownCodec {
        /// The three codec bits.
        bits: i16,
    },
    /// A record count or last offset delta below zero.
    #[error(
        "invalid counts in the batch header: {record_count} records, last offset delta {last_offset_delta}"
    )]
    Counts {
        /// The field as written.
        record_count: i32,
        /// The field as written.
        last_offset_delta: i32,
    },
    /// The checksum does not match.
    #[error("CRC mismatch: the batch has CRC32C {found:08x}, its header says {stated:08x}")]
    Crc {
        /// Computed over the bytes.
        found: u32,
        /// Written in the header.
        stated: u32,
    },
    /// More bytes than one batch, although exactly one was expected.
    #[error("{extra} bytes after the batch")]
    Extra {
        /// Bytes after the batch.
        extra: usize,
    },
    /// The batch would not fit into the 32-bit length field.
    #[error("the batch would have {bytes} bytes, more than its 32-bit length field can hold")]
    TooLarge {
        /// The size that it would have.
        bytes: usize,
    },
    /// The records could not be decompressed or compressed.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// Meaning of the timestamps of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampType {
    /// When the producer made the record.
    Create,
    /// When the broker stored it.
    LogAppend,
}

/// The header of a v2 batch, copied out of its 61 bytes. The fields have the names of Kafka's description of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record.
    pub base_offset: i64,
    /// Bytes of the batch without the first 12.
    pub batch_length: i32,
    /// Epoch of the partition's leader; -1 from a producer.
    pub leader_epoch: i32,
    /// Always 2.
    pub magic: i8,
    /// CRC32C of everything from the attributes on.
    pub crc: u32,
    /// Codec in bits 0 to 2, timestamp type 3, transactional 4, control 5, delete horizon 6.
    pub attributes: i16,
    /// Offset of the last record minus the base offset.
    pub last_offset_delta: i32,
    /// Timestamp of the first record, milliseconds since 1970; -1 for none.
    pub base_timestamp: i64,
    /// Largest timestamp, milliseconds since 1970.
    pub max_timestamp: i64,
    /// -1 without idempotence.
    pub producer_id: i64,
    /// -1 without idempotence.
    pub producer_epoch: i16,
    /// Sequence of the first record; -1 without idempotence.
    pub base_sequence: i32,
    /// Records in the batch.
    pub record_count: i32,
}

impl BatchHeader {
    /// Reads a header from the front of `bytes`; the rest of the batch may be missing.
    ///
    /// # Errors
    /// Returns an error when the bytes are shorter than a header, have another format, or state impossible counts.
    pub fn parse(bytes: &[u8]) -> Result<Self, BatchError> {
        // The magic byte stands at the same place in formats 0 and 1, whose messages may be shorter than our header.
        if let Some(&magic) = bytes.get(16) {
            check_magic(magic.cast_signed())?;
        }
        let Some(head) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(BatchError::Torn { needed: HEADER_BYTES, have: bytes.len() });
        };
        let header = Self::read(head);
        header.check()?;
        Ok(header)
    }

    #[inline]
    fn read(head: &[u8; HEADER_BYTES]) -> Self {
        Self {
            base_offset: i64::from_be_bytes(at(head, 0)),
            batch_length: i32::from_be_bytes(at(head, 8)),
            leader_epoch: i32::from_be_bytes(at(head, 12)),
            magic: i8::from_be_bytes(at(head, 16)),
            crc: u32::from_be_bytes(at(head, 17)),
            attributes: i16::from_be_bytes(at(head, 21)),
            last_offset_delta: i32::from_be_bytes(at(head, 23)),
            base_timestamp: i64::from_be_bytes(at(head, 27)),
            max_timestamp: i64::from_be_bytes(at(head, 35)),
            producer_id: i64::from_be_bytes(at(head, 43)),
            producer_epoch: i16::from_be_bytes(at(head, 51)),
            base_sequence: i32::from_be_bytes(at(head, 53)),
            record_count: i32::from_be_bytes(at(head, 57)),
        }
    }

    fn check(&self) -> Result<(), BatchError> {
        if self.batch_length < LEAST_LENGTH {
            return Err(BatchError::Length { length: self.batch_length });
        }
        if Codec::from_attributes(self.attributes).is_none() {
            return Err(BatchError::UnknownCodec { bits: self.attributes & CODEC_MASK });
        }
        if self.record_count < 0 || self.last_offset_delta < 0 {
            return Err(BatchError::Counts {
                record_count: self.record_count,
                last_offset_delta: self.last_offset_delta,
            });
        }
        Ok(())
    }

    /// The codec of the records.
    pub fn codec(&self) -> Codec {
        // `parse` rejects the bits that name no codec. A header made by hand counts as uncompressed in that case.
        Codec::from_attributes(self.attributes).unwrap_or(Codec::None)
    }

    /// The meaning of the timestamps.
    pub fn timestamp_type(&self) -> TimestampType {
        if self.attributes & LOG_APPEND_TIME == 0 { TimestampType::Create } else { TimestampType::LogAppend }
    }

    /// Whether the batch belongs to a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    /// The same batch header without its transaction flag.
    #[must_use]
    pub fn outside_transaction(&self) -> Self {
        Self { attributes: self.attributes & !TRANSACTIONAL, ..*self }
    }

    /// Whether a log cleaner has replaced the first record's timestamp by the time after which tombstones are removed (KIP-534).
    pub fn has_delete_horizon(&self) -> bool {
        self.attributes & DELETE_HORIZON != 0
    }

    /// Whether compaction removed records from the batch or rewrote it. If so, the batch is not what a producer sent.
    pub fn is_compacted(&self) -> bool {
        self.has_delete_horizon() || i64::from(self.record_count) < i64::from(self.last_offset_delta) + 1
    }

    /// Whether the batch holds a transaction marker and no data.
    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    /// Size of the whole batch.
    pub fn total_bytes(&self) -> usize {
        // `parse` rejects lengths below 49, so the conversion loses nothing.
        self.batch_length.max(0) as usize + LENGTH_OVERHEAD_BYTES
    }

    /// Offset of the last record.
    pub fn last_offset(&self) -> i64 {
        self.base_offset.saturating_add(i64::from(self.last_offset_delta))
    }
}

/// One batch inside a record set.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// Its header.
    pub header: BatchHeader,
    /// The whole batch, header included.
    pub bytes: &'a [u8],
    /// Where it begins in the record set.
    pub position: usize,
}

impl<'a> Batch<'a> {
    /// The records as they are stored: compressed by [`BatchHeader::codec`].
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(HEADER_BYTES..).unwrap_or_default()
    }
}

/// Walks the batches of a record set. It stops after the first error.
pub fn batches(record_set: &[u8]) -> Batches<'_> {
    Batches { record_set, position: 0 }
}

/// Iterator of [`batches`].
#[derive(Debug, Clone)]
pub struct Batches<'a> {
    record_set: &'a [u8],
    position: usize,
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<Batch<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.record_set.get(self.position..).filter(|rest| !rest.is_empty())?;
        let batch = split_first(rest).map(|(header, bytes)| Batch { header, bytes, position: self.position });
        self.position = match &batch {
            Ok(batch) => self.position + batch.bytes.len(),
            Err(_) => self.record_set.len(),
        };
        Some(batch)
    }
}

fn split_first(bytes: &[u8]) -> Result<(BatchHeader, &[u8]), BatchError> {
    let header = BatchHeader::parse(bytes)?;
    let needed = header.total_bytes();
    let whole = bytes.get(..needed).ok_or(BatchError::Torn { needed, have: bytes.len() })?;
    Ok((header, whole))
}

/// Reads bytes that must be exactly one batch.
///
/// # Errors
/// Returns the errors of [`BatchHeader::parse`], and an error when the batch is torn or has bytes after it.
pub fn single(bytes: &[u8]) -> Result<Batch<'_>, BatchError> {
    let (header, whole) = split_first(bytes)?;
    match bytes.len() - whole.len() {
        0 => Ok(Batch { header, bytes: whole, position: 0 }),
        extra => Err(BatchError::Extra { extra }),
    }
}

/// Checks the CRC32C of one whole batch.
///
/// # Errors
/// Returns an error when the checksum differs, or the bytes are not exactly one batch.
pub fn verify_crc(batch: &[u8]) -> Result<(), BatchError> {
    let batch = single(batch)?;
    let found = crc_of(batch.bytes);
    let stated = batch.header.crc;
    if found == stated { Ok(()) } else { Err(BatchError::Crc { found, stated }) }
}

/// Writes the offset of the first record. The CRC does not cover it.
///
/// # Errors
/// Returns an error when the bytes are shorter than a header.
pub fn set_base_offset(batch: &mut [u8], base_offset: i64) -> Result<(), BatchError> {
    put(head_of(batch)?, 0, base_offset.to_be_bytes());
    Ok(())
}

/// Writes the leader epoch. The CRC does not cover it.
///
/// # Errors
/// Returns an error when the bytes are shorter than a header.
pub fn set_leader_epoch(batch: &mut [u8], leader_epoch: i32) -> Result<(), BatchError> {
    put(head_of(batch)?, 12, leader_epoch.to_be_bytes());
    Ok(())
}

/// Writes producer id, epoch and base sequence into one whole batch and computes its CRC again.
///
/// # Errors
/// Returns an error when the bytes are not exactly one batch.
pub fn set_producer(
    batch: &mut [u8],
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
) -> Result<(), BatchError> {
    single(batch)?;
    let head = head_of(batch)?;
    put(head, 43, producer_id.to_be_bytes());
    put(head, 51, producer_epoch.to_be_bytes());
    put(head, 53, base_sequence.to_be_bytes());
    renew_crc(batch)
}

/// Writes base and max timestamp (milliseconds since 1970) into one whole batch and computes its CRC again.
///
/// # Errors
/// Returns an error when the bytes are not exactly one batch.
pub fn set_timestamps(batch: &mut [u8], base_timestamp: i64, max_timestamp: i64) -> Result<(), BatchError> {
    single(batch)?;
    let head = head_of(batch)?;
    put(head, 27, base_timestamp.to_be_bytes());
    put(head, 35, max_timestamp.to_be_bytes());
    renew_crc(batch)
}

/// Marks one whole batch as part of a transaction. With `control` it marks the batch as the marker that ends the transaction. Computes the
/// CRC again.
///
/// # Errors
/// Returns an error when the bytes are not exactly one batch.
pub fn set_transactional(batch: &mut [u8], control: bool) -> Result<(), BatchError> {
    let header = single(batch)?.header;
    let attributes = header.attributes | TRANSACTIONAL | if control { CONTROL } else { 0 };
    put(head_of(batch)?, 21, attributes.to_be_bytes());
    renew_crc(batch)
}

/// Sets the append time (milliseconds since 1970) as the time of every record of one whole batch, and computes the CRC again. The records
/// stay unchanged, since readers take the batch's largest timestamp.
///
/// # Errors
/// Returns an error when the bytes are not exactly one batch.
pub fn set_log_append_time(batch: &mut [u8], now_ms: i64) -> Result<(), BatchError> {
    let header = single(batch)?.header;
    let head = head_of(batch)?;
    put(head, 21, (header.attributes | LOG_APPEND_TIME).to_be_bytes());
    put(head, 35, now_ms.to_be_bytes());
    renew_crc(batch)
}

/// The same batch with its records compressed by another codec. Every header field stays the same except length, codec bits and CRC.
/// `limit_bytes` limits the size of the decompressed records.
///
/// # Errors
/// Returns an error when the bytes are not exactly one batch, or the records can't be decompressed within the limit.
pub fn recompress(batch: &[u8], to: Codec, limit_bytes: usize) -> Result<Vec<u8>, BatchError> {
    let from = single(batch)?;
    let plain = codec::decompress(from.header.codec(), from.payload(), limit_bytes)?;
    with_payload(batch, &plain, to)
}

/// The header of `batch` with other records. Compresses `plain` by `codec`, then writes the new length, codec bits and CRC. The caller must
/// keep count and offsets correct.
///
/// # Errors
/// Returns an error when `batch` is shorter than a header, compression fails, or the result does not fit its length field.
pub fn with_payload(batch: &[u8], plain: &[u8], codec: Codec) -> Result<Vec<u8>, BatchError> {
    with_payload_at_level(batch, plain, codec, None)
}

/// Does the same as [`with_payload`], at a compression level ([`codec::compress_at_level`]).
///
/// # Errors
/// Returns the errors of [`with_payload`].
pub fn with_payload_at_level(
    batch: &[u8],
    plain: &[u8],
    codec: Codec,
    level: Option<i32>,
) -> Result<Vec<u8>, BatchError> {
    let head = batch
        .first_chunk::<HEADER_BYTES>()
        .ok_or(BatchError::Torn { needed: HEADER_BYTES, have: batch.len() })?;
    let mut out = Vec::with_capacity(HEADER_BYTES + plain.len() / 2);
    out.extend_from_slice(head);
    codec::compress_at_level(codec, level, plain, &mut out)?;
    seal(&mut out, codec)?;
    Ok(out)
}

/// Writes length, codec bits and CRC of a batch whose other fields and records are in place.
pub(crate) fn seal(batch: &mut [u8], codec: Codec) -> Result<(), BatchError> {
    let bytes = batch.len();
    let length = i32::try_from(bytes.saturating_sub(LENGTH_OVERHEAD_BYTES))
        .map_err(|_| BatchError::TooLarge { bytes })?;
    let head = head_of(batch)?;
    put(head, 8, length.to_be_bytes());
    let attributes = i16::from_be_bytes(at(head, 21)) & !CODEC_MASK | codec.bits();
    put(head, 21, attributes.to_be_bytes());
    renew_crc(batch)
}

fn renew_crc(batch: &mut [u8]) -> Result<(), BatchError> {
    let crc = crc_of(batch);
    put(head_of(batch)?, 17, crc.to_be_bytes());
    Ok(())
}

fn crc_of(batch: &[u8]) -> u32 {
    crc32c::crc32c(batch.get(CRC_FROM..).unwrap_or_default())
}

fn check_magic(magic: i8) -> Result<(), BatchError> {
    match magic {
        2 => Ok(()),
        0 | 1 => Err(BatchError::OldMagic { magic }),
        _ => Err(BatchError::UnknownMagic { magic }),
    }
}

fn head_of(batch: &mut [u8]) -> Result<&mut [u8; HEADER_BYTES], BatchError> {
    let have = batch.len();
    batch.first_chunk_mut::<HEADER_BYTES>().ok_or(BatchError::Torn { needed: HEADER_BYTES, have })
}

/// `N` bytes of a header. The positions are this file's constants, all below 61.
#[inline]
fn at<const N: usize>(head: &[u8; HEADER_BYTES], position: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&head[position..position + N]);
    field
}

/// The counterpart of [`at`].
#[inline]
fn put<const N: usize>(head: &mut [u8; HEADER_BYTES], position: usize, field: [u8; N]) {
    head[position..position + N].copy_from_slice(&field);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::BatchBuilder;

    fn batch(values: &[&str]) -> Vec<u8> {
        let mut builder = BatchBuilder::new(Codec::None);
        for value in values {
            builder.push(None, Some(value.as_bytes()), 1_000);
        }
        builder.build().unwrap()
    }

    #[test]
    fn the_outer_fields_change_without_the_crc() {
        let mut bytes = batch(&["a", "b"]);
        set_base_offset(&mut bytes, 77).unwrap();
        set_leader_epoch(&mut bytes, 3).unwrap();
        verify_crc(&bytes).unwrap();
        let header = BatchHeader::parse(&bytes).unwrap();
        assert_eq!((header.base_offset, header.leader_epoch, header.last_offset()), (77, 3, 78));
    }

    #[test]
    fn the_inner_fields_renew_the_crc() {
        let mut bytes = batch(&["a"]);
        set_producer(&mut bytes, 9, 1, 40).unwrap();
        set_timestamps(&mut bytes, 5, 6).unwrap();
        verify_crc(&bytes).unwrap();
        let header = BatchHeader::parse(&bytes).unwrap();
        assert_eq!((header.producer_id, header.producer_epoch, header.base_sequence), (9, 1, 40));
        assert_eq!((header.base_timestamp, header.max_timestamp), (5, 6));
    }

    #[test]
    fn attributes_change_with_the_crc() {
        let mut bytes = batch(&["a"]);
        set_transactional(&mut bytes, false).unwrap();
        set_log_append_time(&mut bytes, 77).unwrap();
        verify_crc(&bytes).unwrap();
        let header = BatchHeader::parse(&bytes).unwrap();
        assert!(header.is_transactional() && !header.is_control());
        assert_eq!((header.timestamp_type(), header.max_timestamp), (TimestampType::LogAppend, 77));
        set_transactional(&mut bytes, true).unwrap();
        assert!(BatchHeader::parse(&bytes).unwrap().is_control());
    }

    #[test]
    fn old_formats_are_refused_by_name() {
        for magic in [0_u8, 1] {
            let mut bytes = batch(&["a"]);
            bytes[16] = magic;
            let message = BatchHeader::parse(&bytes).unwrap_err().to_string();
            assert!(message.starts_with(&format!("message format {magic}")), "{message}");
            // A v0 message can be shorter than a v2 header.
            assert!(matches!(BatchHeader::parse(&bytes[..30]), Err(BatchError::OldMagic { .. })));
        }
    }

    #[test]
    fn a_walk_stops_behind_the_first_torn_batch() {
        let mut set = batch(&["one"]);
        set.extend(batch(&["two"]));
        let whole = set.len();
        set.extend(&batch(&["three"])[..70]);
        let walked: Vec<_> = batches(&set).collect();
        assert_eq!(walked.len(), 3);
        assert_eq!(walked[1].as_ref().unwrap().position + walked[1].as_ref().unwrap().bytes.len(), whole);
        assert!(matches!(walked[2], Err(BatchError::Torn { have: 70, .. })));
    }

    #[test]
    fn a_lying_length_is_refused() {
        for length in [-1, 0, 48, i32::MIN] {
            let mut bytes = batch(&["a"]);
            bytes[8..12].copy_from_slice(&length.to_be_bytes());
            assert!(matches!(BatchHeader::parse(&bytes), Err(BatchError::Length { .. })), "{length}");
        }
        let mut bytes = batch(&["a"]);
        bytes[8..12].copy_from_slice(&i32::MAX.to_be_bytes());
        assert!(matches!(batches(&bytes).next(), Some(Err(BatchError::Torn { .. }))));
    }
}

//! Batches, records and compressed streams. For each stream, our readers and the reference crates must return the same,
//! or both must reject it. No stream decompresses to more than its limit. Everything that is read can be written and
//! read again.
//!
//! An input begins with a byte for the kind of the rest: a stream of one codec, a batch, or its records.

use std::io::Read;

use hone_kafka::batch::{self, HEADER_BYTES, TimestampType};
use hone_kafka::{BatchBuilder, BatchHeader, Codec, CodecError, batches, codec, records};

use super::cursor::Cursor;
use super::recovery::seal_batches;

/// Largest decompressed size of a stream.
const LIMIT_BYTES: usize = 1 << 20;
/// What the rest of an input is; below it a stream of the codec with that number.
pub(super) const BATCH: u8 = 5;
pub(super) const SEALED_BATCH: u8 = 6;
pub(super) const RECORDS: u8 = 7;
/// Like one of the codec's number plus this, to be packed.
pub(super) const PLAIN: u8 = 8;

/// Runs an input.
pub fn batch(data: &[u8]) {
    let mut input = Cursor::new(data);
    let kind = input.u8() % 13;
    let rest = input.rest();
    match kind {
        BATCH => check_batches(rest),
        SEALED_BATCH => {
            let mut sealed = rest.to_vec();
            seal_batches(&mut sealed);
            check_batches(&sealed);
        }
        RECORDS => check_records(rest),
        PLAIN.. => check_round_trip(Codec::ALL[usize::from(kind - PLAIN)], rest),
        stream => check_stream(Codec::ALL[usize::from(stream)], rest),
    }
}

fn check_stream(codec: Codec, packed: &[u8]) {
    let ours = codec::decompress(codec, packed, LIMIT_BYTES);
    if let Ok(plain) = &ours {
        assert!(plain.len() <= LIMIT_BYTES, "{} bytes", plain.len());
        let exact =
            codec::decompress(codec, packed, plain.len()).expect("the same under a limit that is met");
        assert_eq!(*plain, exact);
        if let Some(less) = plain.len().checked_sub(1) {
            let refused = codec::decompress(codec, packed, less);
            assert!(refused.is_err(), "the limit of {less} bytes does not hold");
        }
    }
    let theirs = match codec {
        Codec::None => return,
        Codec::Gzip => read_to_end(flate2::read::MultiGzDecoder::new(packed)),
        Codec::Lz4 => read_to_end(lz4_flex::frame::FrameDecoder::new(packed)),
        Codec::Zstd => zstd::Decoder::new(packed).ok().and_then(read_to_end),
        // The first bytes distinguish both dialects. The raw one has a separate reader.
        Codec::Snappy if packed.starts_with(b"\x82SNAPPY\0") => return,
        Codec::Snappy => snap::raw::decompress_len(packed)
            .is_ok_and(|length| length <= LIMIT_BYTES)
            .then(|| snap::raw::Decoder::new().decompress_vec(packed).ok())
            .flatten(),
    };
    match (ours, theirs) {
        (Ok(ours), Some(theirs)) => {
            assert!(ours == theirs, "{}: {} and {} bytes", codec.name(), ours.len(), theirs.len())
        }
        (Ok(ours), None) => panic!("{}: only we read it, as {} bytes", codec.name(), ours.len()),
        (Err(CodecError::TooLarge { .. }), _) | (Err(_), None) => (),
        (Err(error), Some(theirs)) => {
            let theirs = theirs.len();
            assert!(
                is_stricter(codec, packed, &error),
                "only the reference reads it, as {theirs} bytes; we: {error}"
            );
        }
    }
}

/// Where our readers refuse on purpose what the reference lets pass.
fn is_stricter(codec: Codec, packed: &[u8], error: &CodecError) -> bool {
    match codec {
        // More than one frame, or bytes that are none: no client of Kafka sends that. Nothing at all is no frame either.
        Codec::Lz4 => true,
        Codec::Gzip => packed.is_empty(),
        // The reference decompresses in pieces, and lets a frame end before it holds the size in its header.
        Codec::Zstd => {
            packed.is_empty()
                || error.to_string().ends_with("the size of a frame differs from the size in its header")
        }
        Codec::None | Codec::Snappy => false,
    }
}

/// Everything, or more than the limit, or `None`.
fn read_to_end(mut reader: impl Read) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    let mut piece = [0; 16 << 10];
    while plain.len() <= LIMIT_BYTES {
        match reader.read(&mut piece) {
            Ok(0) => return Some(plain),
            Ok(bytes) => plain.extend_from_slice(&piece[..bytes]),
            Err(_) => return None,
        }
    }
    Some(plain)
}

fn check_round_trip(codec: Codec, plain: &[u8]) {
    let packed = codec::compress(codec, plain).expect("anything can be packed");
    assert_eq!(codec::decompress(codec, &packed, plain.len()).expect("what we packed"), plain);
    check_stream(codec, &packed);
}

fn check_records(plain: &[u8]) {
    let (count, plain) = plain.split_first().map_or((0, plain), |(count, rest)| (i32::from(*count), rest));
    let all: Result<Vec<_>, _> = records(plain, count).collect();
    let Ok(all) = all else { return };
    assert_eq!(all.len(), usize::try_from(count).expect("a count"));
    for codec in Codec::ALL {
        let mut builder = BatchBuilder::new(codec);
        for record in &all {
            builder.push(record.key, record.value, record.timestamp_delta);
        }
        let built = builder.build().expect("a batch of what was read");
        batch::verify_crc(&built).expect("a right checksum");
        let one = batch::single(&built).expect("one batch");
        let unpacked = codec::decompress(codec, one.payload(), usize::MAX >> 1).expect("what we packed");
        let again = records(&unpacked, one.header.record_count);
        for (record, again) in all.iter().zip(again) {
            let again = again.expect("a record that we wrote");
            assert_eq!((record.key, record.value), (again.key, again.value));
        }
    }
}

fn check_batches(set: &[u8]) {
    let mut position = 0;
    for one in batches(set) {
        let Ok(one) = one else { break };
        assert_eq!(one.position, position);
        position += one.bytes.len();
        assert_eq!(one.bytes.len(), one.header.total_bytes());
        check_batch(one.header, one.bytes);
    }
}

fn check_batch(header: BatchHeader, bytes: &[u8]) {
    let was_right = batch::verify_crc(bytes).is_ok();
    let mut moved = bytes.to_vec();
    batch::set_base_offset(&mut moved, 77).expect("a batch that was read");
    assert_eq!(batch::verify_crc(&moved).is_ok(), was_right);
    let read = BatchHeader::parse(&moved).expect("a batch that was moved");
    assert_eq!(read, BatchHeader { base_offset: 77, ..header });
    batch::set_timestamps(&mut moved, 5, 9).expect("a batch that was read");
    batch::set_producer(&mut moved, 3, 2, 1).expect("a batch that was read");
    batch::verify_crc(&moved).expect("who patches makes the checksum right");
    let plain = codec::decompress(header.codec(), &bytes[HEADER_BYTES..], LIMIT_BYTES);
    for wanted in Codec::ALL {
        let Ok(packed) = batch::recompress(bytes, wanted, LIMIT_BYTES) else { continue };
        let plain = plain.as_ref().expect("only readable batches are recompressed");
        batch::verify_crc(&packed).expect("a right checksum");
        let read = BatchHeader::parse(&packed).expect("a batch that we packed");
        let same = |header: BatchHeader| {
            (header.base_offset, header.record_count, header.last_offset_delta, header.producer_id)
        };
        assert_eq!((read.codec(), same(read)), (wanted, same(header)));
        assert_eq!(
            &codec::decompress(wanted, &packed[HEADER_BYTES..], LIMIT_BYTES).expect("what we packed"),
            plain
        );
    }
    let _ = header.timestamp_type() == TimestampType::LogAppend;
    check_against_reference(header, bytes, was_right);
}

/// Records that both readers take are the same records.
fn check_against_reference(header: BatchHeader, bytes: &[u8], crc_is_right: bool) {
    let Ok(plain) = codec::decompress(header.codec(), &bytes[HEADER_BYTES..], LIMIT_BYTES) else { return };
    let ours: Result<Vec<_>, _> = records(&plain, header.record_count).collect();
    // The foreign decoder reserves room for as many records as the header says, so only what we read goes to it.
    let (Ok(ours), Codec::None, true) = (ours, header.codec(), crc_is_right) else { return };
    let mut foreign = bytes::Bytes::copy_from_slice(bytes);
    let Ok(theirs) = kafka_protocol::records::RecordBatchDecoder::decode(&mut foreign) else { return };
    assert_eq!(ours.len(), theirs.records.len());
    for (ours, theirs) in ours.iter().zip(&theirs.records) {
        assert_eq!((ours.key, ours.value), (theirs.key.as_deref(), theirs.value.as_deref()));
    }
}

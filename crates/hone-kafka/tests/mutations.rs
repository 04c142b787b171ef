//! Round trips of generated batches, and damaged input: no input may cause a panic or be accepted wrongly.

use hone_kafka::batch::{self, HEADER_BYTES};
use hone_kafka::{
    BatchBuilder, BatchHeader, Codec, Frame, ProduceFrame, RequestHead, batches, codec,
    parse_produce_response_v7, records,
};
use proptest::prelude::*;

const LIMIT: usize = 1 << 20;

type Pair = (Option<Vec<u8>>, Option<Vec<u8>>);

fn build(pairs: &[Pair], codec: Codec) -> Vec<u8> {
    let mut builder = BatchBuilder::new(codec);
    for (index, (key, value)) in pairs.iter().enumerate() {
        builder.push(key.as_deref(), value.as_deref(), 1_000 + index as i64 * 3);
    }
    builder.build().unwrap()
}

/// Everything this crate can do with bytes that claim to be a record set. Returns the records it could read.
fn read_all(bytes: &[u8]) -> usize {
    let mut read = 0;
    for batch in batches(bytes) {
        let Ok(batch) = batch else { break };
        let Ok(plain) = codec::decompress(batch.header.codec(), batch.payload(), LIMIT) else { continue };
        read += records(&plain, batch.header.record_count).take_while(Result::is_ok).count();
        let _ = batch::recompress(batch.bytes, Codec::None, LIMIT);
    }
    let mut copy = bytes.to_vec();
    let _ = batch::verify_crc(&copy);
    let _ = batch::set_base_offset(&mut copy, 1);
    let _ = batch::set_producer(&mut copy, 1, 1, 1);
    let _ = batch::set_timestamps(&mut copy, 1, 1);
    read
}

fn any_codec() -> impl Strategy<Value = Codec> {
    (0..Codec::ALL.len()).prop_map(|index| Codec::ALL[index])
}

fn any_field() -> impl Strategy<Value = Option<Vec<u8>>> {
    proptest::option::of(proptest::collection::vec(any::<u8>(), 0..200))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_built_batch_reads_back(pairs in proptest::collection::vec((any_field(), any_field()), 1..40), codec in any_codec()) {
        let bytes = build(&pairs, codec);
        batch::verify_crc(&bytes).unwrap();
        let batch = batch::single(&bytes).unwrap();
        prop_assert_eq!(batch.header.record_count as usize, pairs.len());
        prop_assert_eq!(batch.header.last_offset_delta as usize, pairs.len() - 1);
        let plain = codec::decompress(codec, batch.payload(), LIMIT).unwrap();
        let back: Vec<Pair> = records(&plain, batch.header.record_count)
            .map(|record| record.unwrap())
            .map(|record| (record.key.map(<[u8]>::to_vec), record.value.map(<[u8]>::to_vec)))
            .collect();
        prop_assert_eq!(back, pairs);
    }

    #[test]
    fn noise_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        read_all(&bytes);
        let _ = records(&bytes, 10).last();
        let _ = BatchHeader::parse(&bytes);
        let _ = Frame::split(&bytes, LIMIT);
        let _ = RequestHead::parse(&bytes).map(|head| head.body(true).map(<[u8]>::len));
        let _ = parse_produce_response_v7(&bytes).map(|response| response.partitions().count());
        for codec in Codec::ALL {
            let _ = codec::decompress(codec, &bytes, LIMIT);
        }
    }
}

#[test]
fn every_single_byte_mutation_and_truncation_is_survived_and_seen_by_the_crc() {
    let pairs: Vec<Pair> = (0..4_u8).map(|n| (Some(vec![n]), Some(vec![n; 20]))).collect();
    for codec in Codec::ALL {
        let bytes = build(&pairs, codec);
        for position in 0..bytes.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[position] ^= flip;
                read_all(&damaged);
                // Base offset and leader epoch are outside of the CRC, by the format.
                let outside = position < 8 || (12..16).contains(&position);
                assert_eq!(batch::verify_crc(&damaged).is_ok(), outside, "{} at {position}", codec.name());
            }
            assert!(batch::verify_crc(&bytes[..position]).is_err());
            read_all(&bytes[..position]);
        }
    }
}

#[test]
fn a_damaged_produce_frame_is_survived() {
    let batch = build(&[(None, Some(vec![1; 10]))], Codec::None);
    assert!(batch.len() > HEADER_BYTES);
    let frame = ProduceFrame::new("id", 1, 10, "topic", &[(0, &batch)]).unwrap();
    for position in 0..frame.bytes().len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut damaged = frame.bytes().to_vec();
            damaged[position] ^= flip;
            if let Frame::Complete { body, .. } = Frame::split(&damaged, LIMIT) {
                let _ = RequestHead::parse(body);
            }
        }
        let cut = Frame::split(&frame.bytes()[..position], LIMIT);
        assert!(matches!(cut, Frame::Incomplete { .. }));
    }
}

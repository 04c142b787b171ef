//! Our batches read by the kafka-protocol crate, its batches read by us, for every codec; and its messages against
//! our Produce request and response.

use bytes::{Bytes, BytesMut};
use hone_kafka::batch::{self, HEADER_BYTES};
use hone_kafka::{BatchBuilder, BatchHeader, Codec, ProduceFrame, codec, parse_produce_response_v7, records};
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{ProduceRequest, ProduceResponse, RequestHeader, ResponseHeader, TopicName};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use kafka_protocol::records::{
    Compression, Record, RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};

const LIMIT: usize = 1 << 20;

fn foreign(codec: Codec) -> Compression {
    match codec {
        Codec::None => Compression::None,
        Codec::Gzip => Compression::Gzip,
        Codec::Snappy => Compression::Snappy,
        Codec::Lz4 => Compression::Lz4,
        Codec::Zstd => Compression::Zstd,
    }
}

fn foreign_record(index: i64) -> Record {
    Record {
        transactional: index < 0,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: 4,
        producer_id: 1234,
        producer_epoch: 2,
        timestamp_type: TimestampType::Creation,
        offset: 100 + index,
        sequence: 50 + index as i32,
        timestamp: 1_700_000_000_000 + index * 7,
        key: (index % 2 == 0).then(|| Bytes::from(format!("key-{index}"))),
        value: Some(Bytes::from(format!("value number {index} ").repeat(20))),
        headers: [(StrBytes::from_static_str("trace"), Some(Bytes::from_static(b"abc")))]
            .into_iter()
            .collect(),
    }
}

#[test]
fn foreign_batches_are_read() {
    for codec in Codec::ALL {
        let wanted: Vec<_> = (0..40).map(foreign_record).collect();
        let mut bytes = BytesMut::new();
        let options = RecordEncodeOptions { version: 2, compression: foreign(codec) };
        RecordBatchEncoder::encode(&mut bytes, &wanted, &options).unwrap();
        let only = batch::single(&bytes).unwrap();
        batch::verify_crc(&bytes).unwrap();
        let header = only.header;
        assert_eq!(header.codec(), codec);
        assert_eq!((header.base_offset, header.last_offset(), header.record_count), (100, 139, 40));
        assert_eq!((header.producer_id, header.producer_epoch, header.base_sequence), (1234, 2, 50));
        assert_eq!(header.leader_epoch, 4);
        assert_eq!(header.max_timestamp, 1_700_000_000_000 + 39 * 7);
        assert!(!header.is_transactional() && !header.is_control());
        let plain = codec::decompress(codec, only.payload(), LIMIT).unwrap();
        let walked: Vec<_> = records(&plain, 40).map(Result::unwrap).collect();
        assert_eq!(walked.len(), wanted.len());
        for (ours, theirs) in walked.iter().zip(&wanted) {
            assert_eq!(ours.key, theirs.key.as_deref());
            assert_eq!(ours.value, theirs.value.as_deref());
            assert_eq!(header.base_offset + i64::from(ours.offset_delta), theirs.offset);
            assert_eq!(header.base_timestamp + ours.timestamp_delta, theirs.timestamp);
            assert_eq!(ours.header_count, 1);
        }
    }
}

fn ours(codec: Codec) -> Vec<u8> {
    let mut builder = BatchBuilder::new(codec);
    for index in 0..50_i64 {
        let key = format!("k{index}");
        let value = format!("some value {index}").repeat(30);
        builder.push((index % 3 != 0).then_some(key.as_bytes()), Some(value.as_bytes()), 1_000 - index);
    }
    builder.build().unwrap()
}

fn check_read_by_foreigner(bytes: &[u8], codec: Codec) {
    let mut cursor = Bytes::copy_from_slice(bytes);
    let set = RecordBatchDecoder::decode(&mut cursor).unwrap();
    assert_eq!(set.compression, foreign(codec));
    assert_eq!(set.records.len(), 50);
    for (index, record) in set.records.iter().enumerate() {
        assert_eq!(record.offset, index as i64);
        assert_eq!(record.timestamp, 1_000 - index as i64);
        assert_eq!(record.key.is_some(), index % 3 != 0);
        assert_eq!(record.value.as_deref(), Some(format!("some value {index}").repeat(30).as_bytes()));
    }
}

#[test]
fn our_batches_are_read_by_a_foreigner() {
    for codec in Codec::ALL {
        check_read_by_foreigner(&ours(codec), codec);
    }
}

#[test]
fn recompressed_batches_keep_their_records_and_header() {
    for from in Codec::ALL {
        let mut before = ours(from);
        batch::set_producer(&mut before, 77, 3, 1000).unwrap();
        for to in Codec::ALL {
            let after = batch::recompress(&before, to, LIMIT).unwrap();
            batch::verify_crc(&after).unwrap();
            check_read_by_foreigner(&after, to);
            let was = BatchHeader::parse(&before).unwrap();
            let is = BatchHeader::parse(&after).unwrap();
            let same =
                BatchHeader { batch_length: is.batch_length, crc: is.crc, attributes: to.bits(), ..was };
            assert_eq!(is, same);
        }
    }
}

#[test]
fn a_foreigner_decodes_our_produce_request() {
    let (first, second) = (ours(Codec::None), ours(Codec::Lz4));
    let mut frame = ProduceFrame::new("loader", -1, 1500, "orders", &[(0, &first), (3, &second)]).unwrap();
    frame.set_correlation_id(0x0102_0304);
    let bytes = frame.bytes();
    assert_eq!(i32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize, bytes.len() - 4);
    assert_eq!(bytes[frame.batches()[1].clone()], second);
    let mut rest = Bytes::copy_from_slice(&bytes[4..]);
    let header = RequestHeader::decode(&mut rest, 1).unwrap();
    assert_eq!((header.request_api_key, header.request_api_version), (0, 7));
    assert_eq!(header.correlation_id, 0x0102_0304);
    assert_eq!(header.client_id.as_deref(), Some("loader"));
    let request = ProduceRequest::decode(&mut rest, 7).unwrap();
    assert!(rest.is_empty());
    assert_eq!((request.acks, request.timeout_ms), (-1, 1500));
    let topic = &request.topic_data[0];
    assert_eq!(topic.name.as_str(), "orders");
    let partitions: Vec<_> =
        topic.partition_data.iter().map(|data| (data.index, data.records.clone().unwrap())).collect();
    assert_eq!(partitions, [(0, Bytes::from(first)), (3, Bytes::from(second))]);
}

fn foreign_response() -> BytesMut {
    let partition = |index, code, offset| {
        PartitionProduceResponse::default().with_index(index).with_error_code(code).with_base_offset(offset)
    };
    let topic = |name: &'static str, partitions| {
        TopicProduceResponse::default()
            .with_name(TopicName(StrBytes::from_static_str(name)))
            .with_partition_responses(partitions)
    };
    let response = ProduceResponse::default()
        .with_responses(vec![
            topic("a", vec![partition(0, 0, 500), partition(1, 87, -1)]),
            topic("none", vec![]),
            topic("bb", vec![partition(7, 0, 9)]),
        ])
        .with_throttle_time_ms(12);
    let mut bytes = BytesMut::new();
    ResponseHeader::default().with_correlation_id(99).encode(&mut bytes, 0).unwrap();
    response.encode(&mut bytes, 7).unwrap();
    bytes
}

#[test]
fn we_decode_a_foreign_produce_response() {
    let bytes = foreign_response();
    let response = parse_produce_response_v7(&bytes).unwrap();
    assert_eq!((response.correlation_id, response.throttle_ms, response.first_error_code), (99, 12, 87));
    let acks: Vec<_> = response
        .partitions()
        .map(|ack| (ack.topic, ack.partition, ack.error_code, ack.base_offset))
        .collect();
    assert_eq!(acks, [("a", 0, 0, 500), ("a", 1, 87, -1), ("bb", 7, 0, 9)]);
}

#[test]
fn a_cut_or_longer_produce_response_is_refused() {
    let bytes = foreign_response();
    for keep in 0..bytes.len() {
        assert!(parse_produce_response_v7(&bytes[..keep]).is_err(), "{keep}");
    }
    let mut longer = bytes.to_vec();
    longer.push(0);
    assert!(parse_produce_response_v7(&longer).is_err());
}

#[test]
fn an_empty_batch_is_only_a_header() {
    let bytes = BatchBuilder::new(Codec::None).build().unwrap();
    assert_eq!(bytes.len(), HEADER_BYTES);
    batch::verify_crc(&bytes).unwrap();
}

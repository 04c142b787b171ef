//! Fetch of version 11, the last one before the flexible ones, and ListOffsets of version 2: sent and read without decoding a record. The
//! code is pure.

use std::collections::BTreeSet;
use std::time::Duration;

use hone_kafka::{BatchHeader, Reader, WireError};
use hone_record::FetchLimits;

use crate::admin::CLIENT_ID;
use crate::cluster::At;
use crate::topic_set::TopicSet;

const FETCH_KEY: i16 = 1;
const FETCH_VERSION: i16 = 11;
const LIST_OFFSETS_KEY: i16 = 2;
const LIST_OFFSETS_VERSION: i16 = 2;
/// Smallest size of a topic and of a partition in a Fetch answer, and of an aborted transaction.
const LEAST_TOPIC_BYTES: usize = 6;
const LEAST_PARTITION_BYTES: usize = 42;
const ABORTED_BYTES: usize = 16;

/// Limits of a Fetch request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FetchSize {
    /// The broker answers when it has this many bytes.
    pub least_bytes: i32,
    /// Longest wait of the broker for them.
    pub wait_ms: i32,
    /// Bytes from all partitions together. The broker sends at least one whole batch.
    pub bytes: i32,
    /// Bytes from each partition.
    pub partition_bytes: i32,
    /// Whether the broker holds back records of open transactions.
    pub is_committed: bool,
}

impl FetchSize {
    /// Longest wait of the broker.
    pub(crate) fn wait(self) -> Duration {
        Duration::from_millis(u64::try_from(self.wait_ms).unwrap_or(0))
    }
}

impl From<FetchLimits> for FetchSize {
    fn from(limits: FetchLimits) -> Self {
        let signed = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        Self {
            least_bytes: signed(limits.fetch_min_bytes),
            wait_ms: signed(limits.fetch_max_wait_ms),
            bytes: signed(limits.fetch_max_bytes),
            partition_bytes: signed(limits.max_partition_fetch_bytes),
            is_committed: false,
        }
    }
}

/// A Fetch request with its length, for partitions and their start offsets.
pub(crate) fn fetch_request(
    correlation_id: i32,
    topics: &TopicSet,
    partitions: &[(i32, i64)],
    limits: FetchSize,
) -> Vec<u8> {
    let mut frame = head(FETCH_KEY, FETCH_VERSION, correlation_id);
    put(&mut frame, &(-1_i32).to_be_bytes()); // not a replica
    put(&mut frame, &limits.wait_ms.to_be_bytes());
    put(&mut frame, &limits.least_bytes.to_be_bytes());
    put(&mut frame, &limits.bytes.to_be_bytes());
    put(&mut frame, &[u8::from(limits.is_committed)]); // isolation level
    put(&mut frame, &0_i32.to_be_bytes());
    put(&mut frame, &(-1_i32).to_be_bytes()); // no session
    put_topics(&mut frame, topics, partitions, |frame, offset: i64| {
        put(frame, &(-1_i32).to_be_bytes()); // any leader epoch
        put(frame, &offset.to_be_bytes());
        put(frame, &(-1_i64).to_be_bytes()); // no replica's log start
        put(frame, &limits.partition_bytes.to_be_bytes());
    });
    put(&mut frame, &0_i32.to_be_bytes()); // nothing forgotten
    put_text(&mut frame, ""); // no rack
    with_length(frame)
}

/// A ListOffsets request with its length, for the offsets of a position in partitions.
pub(crate) fn offsets_request(correlation_id: i32, topics: &TopicSet, partitions: &[i32], at: At) -> Vec<u8> {
    let mut frame = head(LIST_OFFSETS_KEY, LIST_OFFSETS_VERSION, correlation_id);
    put(&mut frame, &(-1_i32).to_be_bytes()); // not a replica
    put(&mut frame, &[0]); // read uncommitted
    let partitions: Vec<(i32, At)> = partitions.iter().map(|partition| (*partition, at)).collect();
    put_topics(&mut frame, topics, &partitions, |frame, at| put(frame, &at.timestamp().to_be_bytes()));
    with_length(frame)
}

/// Partitions under their topics, and behind each what `each` puts.
fn put_topics<T: Copy>(
    frame: &mut Vec<u8>,
    topics: &TopicSet,
    partitions: &[(i32, T)],
    each: impl Fn(&mut Vec<u8>, T),
) {
    let of_topics = topics.by_topic(partitions.iter().copied());
    put(frame, &(of_topics.len() as i32).to_be_bytes());
    for (topic, partitions) in of_topics {
        put_text(frame, topic);
        put(frame, &(partitions.len() as i32).to_be_bytes());
        for (partition, about) in partitions {
            put(frame, &partition.to_be_bytes());
            each(frame, about);
        }
    }
}

fn head(key: i16, version: i16, correlation_id: i32) -> Vec<u8> {
    let mut frame = vec![0; 4];
    put(&mut frame, &key.to_be_bytes());
    put(&mut frame, &version.to_be_bytes());
    put(&mut frame, &correlation_id.to_be_bytes());
    put_text(&mut frame, CLIENT_ID);
    frame
}

fn put(frame: &mut Vec<u8>, bytes: &[u8]) {
    frame.extend_from_slice(bytes);
}

/// Topic names have at most 249 characters. A longer text is cut, and the broker will not know it.
fn put_text(frame: &mut Vec<u8>, text: &str) {
    let bytes = &text.as_bytes()[..text.len().min(i16::MAX as usize)];
    put(frame, &(bytes.len() as i16).to_be_bytes());
    put(frame, bytes);
}

fn with_length(mut frame: Vec<u8>) -> Vec<u8> {
    let length = (frame.len() - 4) as i32;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

/// The part of a Fetch answer for one partition, under its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FetchedPartition<'a> {
    pub partition: i32,
    pub error_code: i16,
    pub high_watermark: i64,
    /// The first offset of an open transaction, or the high watermark.
    pub last_stable: i64,
    pub log_start: i64,
    /// Aborted transactions: the producer id of each, and its first offset.
    pub aborted: &'a [u8],
    /// Whole batches; only the last one may be torn.
    pub record_set: &'a [u8],
}

/// The head of a Fetch answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fetched {
    pub correlation_id: i32,
    pub error_code: i16,
}

/// Reads a Fetch answer from its frame's body and passes on each partition of these topics.
///
/// # Errors
/// Returns an error when the bytes are not exactly one answer. Partitions before the damage have then been passed on.
pub(crate) fn parse_fetched<'a>(
    frame_body: &'a [u8],
    topics: &TopicSet,
    mut each: impl FnMut(FetchedPartition<'a>),
) -> Result<Fetched, WireError> {
    let mut reader = Reader::new(frame_body);
    let correlation_id = reader.i32("correlation id")?;
    reader.i32("throttle time")?;
    let error_code = reader.i16("error code")?;
    reader.i32("session id")?;
    for _ in 0..reader.array_length(LEAST_TOPIC_BYTES, "topics")? {
        let topic = reader.string("topic")?;
        for _ in 0..reader.array_length(LEAST_PARTITION_BYTES, "partitions")? {
            let found = fetched_partition(&mut reader)?;
            if let Some(number) = topics.number(topic, found.partition) {
                each(FetchedPartition { partition: number, ..found });
            }
        }
    }
    reader.finish()?;
    Ok(Fetched { correlation_id, error_code })
}

fn fetched_partition<'a>(reader: &mut Reader<'a>) -> Result<FetchedPartition<'a>, WireError> {
    let partition = reader.i32("partition")?;
    let error_code = reader.i16("error code")?;
    let high_watermark = reader.i64("high watermark")?;
    let last_stable = reader.i64("last stable offset")?;
    let log_start = reader.i64("log start offset")?;
    let aborted = reader.array_length(ABORTED_BYTES, "aborted transactions")?;
    let aborted = reader.take(aborted * ABORTED_BYTES, "aborted transactions")?;
    reader.i32("preferred read replica")?;
    let record_set = reader.nullable_bytes("records")?.unwrap_or_default();
    Ok(FetchedPartition {
        partition,
        error_code,
        high_watermark,
        last_stable,
        log_start,
        aborted,
        record_set,
    })
}

/// Finds the batches of aborted transactions in a partition's part of an answer, as clients do: from the first offset of each until the next
/// marker of its producer.
#[derive(Debug)]
pub(crate) struct Aborted {
    /// First offset and producer id of those that are still ahead, the last one first.
    ahead: Vec<(i64, i64)>,
    open: BTreeSet<i64>,
}

impl Aborted {
    pub(crate) fn new(found: &FetchedPartition<'_>) -> Self {
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, i64::from_be_bytes);
        let each = found.aborted.chunks_exact(ABORTED_BYTES);
        let mut ahead: Vec<(i64, i64)> = each.map(|one| (number(&one[8..]), number(&one[..8]))).collect();
        ahead.sort_unstable_by(|left, right| right.cmp(left));
        Self { ahead, open: BTreeSet::new() }
    }

    /// Whether the next batch belongs to an aborted transaction. Every batch has to be passed, in order.
    pub(crate) fn holds(&mut self, header: &BatchHeader) -> bool {
        while let Some((_, producer)) = self.ahead.pop_if(|(first, _)| *first <= header.last_offset()) {
            self.open.insert(producer);
        }
        if header.is_control() {
            self.open.remove(&header.producer_id);
            return false;
        }
        header.is_transactional() && self.open.contains(&header.producer_id)
    }
}

/// Reads a ListOffsets answer: number of the partition, error code, offset.
///
/// # Errors
/// Returns an error when the bytes are not exactly one answer.
pub(crate) fn parse_ends(frame_body: &[u8], topics: &TopicSet) -> Result<Vec<(i32, i16, i64)>, WireError> {
    let mut reader = Reader::new(frame_body);
    reader.i32("correlation id")?;
    reader.i32("throttle time")?;
    let mut ends = Vec::new();
    for _ in 0..reader.array_length(LEAST_TOPIC_BYTES, "topics")? {
        let topic = reader.string("topic")?;
        for _ in 0..reader.array_length(22, "partitions")? {
            let (partition, code) = (reader.i32("partition")?, reader.i16("error code")?);
            reader.i64("timestamp")?;
            let offset = reader.i64("offset")?;
            ends.extend(topics.number(topic, partition).map(|number| (number, code, offset)));
        }
    }
    reader.finish()?;
    Ok(ends)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
    use kafka_protocol::messages::list_offsets_response::{
        ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
    };
    use kafka_protocol::messages::{
        FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse, RequestHeader, TopicName,
    };
    use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};

    const SIZE: FetchSize = FetchSize {
        least_bytes: 7,
        wait_ms: 500,
        bytes: 1 << 20,
        partition_bytes: 1 << 16,
        is_committed: false,
    };

    fn name(topic: &'static str) -> TopicName {
        TopicName(StrBytes::from_static_str(topic))
    }

    fn answer() -> Vec<u8> {
        let partition = |index, records: &'static [u8]| {
            PartitionData::default()
                .with_partition_index(index)
                .with_high_watermark(70)
                .with_log_start_offset(3)
                .with_records(Some(Bytes::from_static(records)))
        };
        let topic = FetchableTopicResponse::default().with_topic(name("t")).with_partitions(vec![
            partition(0, b"abc"),
            partition(4, b""),
            partition(9, b"defg"),
        ]);
        let mut bytes = 17_i32.to_be_bytes().to_vec();
        FetchResponse::default().with_responses(vec![topic]).encode(&mut bytes, FETCH_VERSION).unwrap();
        bytes
    }

    #[test]
    fn requests_are_what_others_read() {
        let frame = fetch_request(7, &"topic".into(), &[(0, 10), (3, 99)], SIZE);
        assert_eq!(u32::from_be_bytes(frame[..4].try_into().unwrap()) as usize, frame.len() - 4);
        let mut body = Bytes::from(frame).split_off(4);
        let header = RequestHeader::decode(&mut body, 1).unwrap();
        assert_eq!((header.request_api_key, header.correlation_id), (FETCH_KEY, 7));
        let request = FetchRequest::decode(&mut body, FETCH_VERSION).unwrap();
        assert!(body.is_empty());
        let partitions = &request.topics[0].partitions;
        assert_eq!((partitions[1].partition, partitions[1].fetch_offset), (3, 99));
        assert_eq!((request.min_bytes, request.max_wait_ms, request.max_bytes), (7, 500, 1 << 20));

        let mut body = Bytes::from(offsets_request(8, &"topic".into(), &[1, 2], At::Latest)).split_off(4);
        RequestHeader::decode(&mut body, 1).unwrap();
        let request = ListOffsetsRequest::decode(&mut body, LIST_OFFSETS_VERSION).unwrap();
        assert!(body.is_empty());
        assert_eq!(request.topics[0].partitions[1].timestamp, -1);
    }

    #[test]
    fn answers_of_others_are_read() {
        let answer = answer();
        let mut found = Vec::new();
        let fetched = parse_fetched(&answer, &"t".into(), |partition| found.push(partition)).unwrap();
        assert_eq!(fetched, Fetched { correlation_id: 17, error_code: 0 });
        let seen: Vec<_> = found.iter().map(|found| (found.partition, found.record_set)).collect();
        assert_eq!(seen, [(0, &b"abc"[..]), (4, b""), (9, b"defg")]);
        assert_eq!((found[0].high_watermark, found[0].log_start), (70, 3));

        let partition = ListOffsetsPartitionResponse::default().with_partition_index(5).with_offset(42);
        let topic = ListOffsetsTopicResponse::default().with_name(name("t")).with_partitions(vec![partition]);
        let mut bytes = 17_i32.to_be_bytes().to_vec();
        let answer = ListOffsetsResponse::default().with_topics(vec![topic]);
        answer.encode(&mut bytes, LIST_OFFSETS_VERSION).unwrap();
        assert_eq!(parse_ends(&bytes, &"t".into()).unwrap(), [(5, 0, 42)]);
    }

    #[test]
    fn batches_of_aborted_transactions_are_found() {
        let aborted: Vec<u8> = [[7_i64, 12], [9, 10], [7, 30]]
            .iter()
            .flatten()
            .flat_map(|number| number.to_be_bytes())
            .collect();
        let found = FetchedPartition {
            partition: 0,
            error_code: 0,
            high_watermark: 40,
            last_stable: 40,
            log_start: 0,
            aborted: &aborted,
            record_set: &[],
        };
        let mut aborted = Aborted::new(&found);
        let mut batch = |offset, producer, kind: &str| {
            let mut builder = hone_kafka::BatchBuilder::new(hone_kafka::Codec::None);
            builder.push(None, Some(b"v"), 1);
            let mut bytes = builder.build().unwrap();
            hone_kafka::batch::set_base_offset(&mut bytes, offset).unwrap();
            hone_kafka::batch::set_producer(&mut bytes, producer, 0, 0).unwrap();
            if kind != "plain" {
                hone_kafka::batch::set_transactional(&mut bytes, kind == "marker").unwrap();
            }
            aborted.holds(&BatchHeader::parse(&bytes).unwrap())
        };
        assert!(!batch(9, 7, "records"), "before the aborted one of this producer");
        assert!(batch(10, 9, "records"));
        assert!(!batch(11, 9, "plain"), "of no transaction");
        assert!(batch(12, 7, "records") && batch(13, 9, "records"));
        assert!(!batch(14, 9, "marker"));
        assert!(!batch(15, 9, "records") && batch(16, 7, "records"));
        assert!(!batch(17, 7, "marker") && !batch(18, 7, "records"));
        assert!(batch(31, 7, "records"), "its second aborted one");
    }

    #[test]
    fn damaged_answers_are_refused_without_harm() {
        let answer = answer();
        for cut in 0..answer.len() {
            assert!(parse_fetched(&answer[..cut], &"t".into(), |_| ()).is_err(), "cut at {cut}");
        }
        for at in 0..answer.len() {
            for value in [0, 0x7f, 0xff] {
                let mut damaged = answer.clone();
                damaged[at] = value;
                // Whatever it says, it ends, and no partition lies outside of the answer.
                let _ = parse_fetched(&damaged, &"t".into(), |found| {
                    assert!(found.record_set.len() < damaged.len())
                });
                let _ = parse_ends(&damaged, &"t".into());
            }
        }
    }
}

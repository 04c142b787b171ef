//! Produce: batches are checked, perhaps validated and packed anew, and stored.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

use hone_kafka::batch::{self, Batch};
use hone_kafka::codec::{self, CodecError};
use hone_kafka::{BatchError, BatchHeader, Codec, WireError, records};

use super::{Call, Outcome, Workspace};
use crate::code;
use crate::node::{Node, count};
use crate::partition::{Ack, AppendError, Partition, Sequence};
use crate::protocol::Answer;
use crate::topics::Topic;

/// What the records of one batch may unpack to. A batch has at most about one MiB (`max.message.bytes`), and JSON
/// that packs better than 1:64 is a bomb, not data.
const UNPACK_LIMIT_BYTES: usize = 64 << 20;
/// Complaints sent back for one batch.
const MOST_RECORD_ERRORS: usize = 20;

/// What became of the batch of one partition.
struct Verdict {
    error: i16,
    base_offset: i64,
    log_start: i64,
    record_errors: Vec<(i32, String)>,
    message: Option<String>,
}

impl Verdict {
    fn refused(error: i16, message: impl Into<String>) -> Self {
        Self {
            error,
            base_offset: -1,
            log_start: -1,
            record_errors: Vec::new(),
            message: Some(message.into()),
        }
    }
}

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    // Damage anywhere in the request must be found before its first batch is stored.
    check_layout(call)?;
    let version = call.version;
    let mut at = call.body_at;
    let (acks, transactional, topics) = {
        let mut fields = call.fields();
        let transactional = version >= 3 && fields.nullable_string("transactional id")?.is_some();
        let acks = fields.i16("acks")?;
        fields.i32("timeout")?;
        let topics = fields.array("topics")?;
        at += (call.frame.len() - at) - fields.left();
        (acks, transactional, topics)
    };
    let refusal = if !(-1..=1).contains(&acks) {
        Some((code::INVALID_REQUIRED_ACKS, "acks must be 0, 1 or -1 (all)"))
    } else if transactional {
        Some((code::INVALID_TXN_STATE, "this broker has no transactions"))
    } else {
        None
    };
    answer.array(topics);
    for _ in 0..topics {
        at = serve_topic(call, answer, at, refusal)?;
    }
    if version >= 1 {
        answer.i32(0);
    }
    answer.tags();
    Ok(if acks == 0 { Outcome::Silent } else { Outcome::Reply })
}

fn check_layout(call: &Call<'_>) -> Result<(), WireError> {
    let mut fields = call.fields();
    if call.version >= 3 {
        fields.nullable_string("transactional id")?;
    }
    fields.i16("acks")?;
    fields.i32("timeout")?;
    for _ in 0..fields.array("topics")? {
        if call.version >= 13 {
            fields.uuid("topic id")?;
        } else {
            fields.string("topic")?;
        }
        for _ in 0..fields.array("partitions")? {
            fields.i32("partition")?;
            fields.nullable_bytes("records")?;
            fields.tags()?;
        }
        fields.tags()?;
    }
    fields.tags()
}

type Refusal = Option<(i16, &'static str)>;

/// Serves the topic that begins at `at`; returns where the next one does.
fn serve_topic(
    call: &mut Call<'_>,
    answer: &mut Answer<'_>,
    mut at: usize,
    refusal: Refusal,
) -> Result<usize, WireError> {
    let (topic, partitions) = {
        let mut fields = call.fields_at(at);
        let topic = if call.version >= 13 {
            let id = fields.uuid("topic id")?;
            answer.uuid(id);
            call.node.topics.by_id(id)
        } else {
            let name = fields.string("topic")?;
            answer.string(name);
            call.node.topics.by_name(name)
        };
        let partitions = fields.array("partitions")?;
        at = call.frame.len() - fields.left();
        (topic, partitions)
    };
    answer.array(partitions);
    for _ in 0..partitions {
        let (index, records) = {
            let mut fields = call.fields_at(at);
            let index = fields.i32("partition")?;
            let length = fields.nullable_bytes("records")?.map_or(0, <[u8]>::len);
            let end = call.frame.len() - fields.left();
            fields.tags()?;
            at = call.frame.len() - fields.left();
            (index, end - length..end)
        };
        let verdict = store(call, topic.as_ref(), index, records, refusal);
        write(answer, call.version, index, &verdict);
    }
    let mut fields = call.fields_at(at);
    fields.tags()?;
    answer.tags();
    Ok(call.frame.len() - fields.left())
}

fn write(answer: &mut Answer<'_>, version: i16, index: i32, verdict: &Verdict) {
    answer.i32(index);
    answer.i16(verdict.error);
    answer.i64(verdict.base_offset);
    if version >= 2 {
        // Timestamps stay as the producer made them.
        answer.i64(-1);
    }
    if version >= 5 {
        answer.i64(verdict.log_start);
    }
    if version >= 8 {
        answer.array(verdict.record_errors.len());
        for (record, complaint) in &verdict.record_errors {
            answer.i32(*record);
            answer.nullable_string(Some(complaint));
            answer.tags();
        }
        answer.nullable_string(verdict.message.as_deref());
    }
    answer.tags();
}

fn store(
    call: &mut Call<'_>,
    topic: Option<&Arc<Topic>>,
    index: i32,
    records: Range<usize>,
    refusal: Refusal,
) -> Verdict {
    if let Some((error, message)) = refusal {
        return Verdict::refused(error, message);
    }
    let Some(topic) = topic else {
        let error =
            if call.version >= 13 { code::UNKNOWN_TOPIC_ID } else { code::UNKNOWN_TOPIC_OR_PARTITION };
        return Verdict::refused(error, "there is no such topic");
    };
    let Some(partition) = topic.partition(index) else {
        return Verdict::refused(code::UNKNOWN_TOPIC_OR_PARTITION, "the topic has no such partition");
    };
    let bytes = call.frame.get_mut(records).unwrap_or_default();
    let header = match check_batch(topic, bytes) {
        Ok(header) => header,
        Err(refused) => return *refused,
    };
    let verdict = match prepare(topic, &header, bytes, call.work) {
        Ok(None) => append(call.node, partition, bytes, call.work),
        Ok(Some(mut packed)) => append(call.node, partition, &mut packed, call.work),
        Err(refused) => return *refused,
    };
    if verdict.error == code::NONE {
        count(&partition.counters.produced_batches, 1);
        count(&partition.counters.produced_bytes, header.total_bytes());
        count(&partition.counters.produced_records, header.record_count as usize);
    }
    verdict
}

/// What can be said about a batch from its header and its checksum.
fn check_batch(topic: &Topic, bytes: &[u8]) -> Result<BatchHeader, Box<Verdict>> {
    let invalid = |message: &str| Box::new(Verdict::refused(code::INVALID_RECORD, message));
    if bytes.is_empty() {
        return Err(invalid("there is no batch for this partition"));
    }
    let Batch { header, .. } = batch::single(bytes).map_err(|error| Box::new(no_batch(&error)))?;
    if bytes.len() > topic.properties.max_message_bytes {
        let message = format!(
            "the batch has {} bytes, max.message.bytes of the topic is {}",
            bytes.len(),
            topic.properties.max_message_bytes
        );
        return Err(Box::new(Verdict::refused(code::MESSAGE_TOO_LARGE, message)));
    }
    batch::verify_crc(bytes).map_err(|error| Box::new(no_batch(&error)))?;
    if header.is_control() || header.is_transactional() {
        return Err(invalid("control and transactional batches are not accepted"));
    }
    if header.record_count < 1 || header.last_offset_delta != header.record_count - 1 {
        return Err(invalid("record count and last offset delta of the batch disagree"));
    }
    if header.producer_id >= 0 && (header.base_sequence < 0 || header.producer_epoch < 0) {
        return Err(invalid("a producer id without epoch and sequence"));
    }
    Ok(header)
}

fn no_batch(error: &BatchError) -> Verdict {
    let code = match error {
        BatchError::OldMagic { .. } => code::UNSUPPORTED_FOR_MESSAGE_FORMAT,
        BatchError::Extra { .. } | BatchError::Counts { .. } => code::INVALID_RECORD,
        _ => code::CORRUPT_MESSAGE,
    };
    Verdict::refused(code, error.to_string())
}

/// Looks into the records where the topic wants that, or where it costs nothing because they are not compressed.
/// Returns the batch packed anew if the topic wants another codec. A compressed batch that nobody needs to look into
/// is stored on the word of its header and its checksum.
fn prepare(
    topic: &Topic,
    header: &BatchHeader,
    bytes: &[u8],
    work: &mut Workspace,
) -> Result<Option<Vec<u8>>, Box<Verdict>> {
    let wanted = topic.properties.compression.filter(|codec| *codec != header.codec());
    let payload = bytes.get(batch::HEADER_BYTES..).unwrap_or_default();
    let plain = if header.codec() == Codec::None {
        payload
    } else if wanted.is_some() || topic.properties.schema.is_some() {
        codec::decompress_into(header.codec(), payload, UNPACK_LIMIT_BYTES, &mut work.plain)
            .map_err(|error| Box::new(not_unpacked(&error)))?;
        &work.plain
    } else {
        return Ok(None);
    };
    check_records(topic, header, plain)?;
    let Some(codec) = wanted else { return Ok(None) };
    let packed = batch::with_payload(bytes, plain, codec);
    packed.map(Some).map_err(|error| Box::new(no_batch(&error)))
}

fn not_unpacked(error: &CodecError) -> Verdict {
    let code = match error {
        CodecError::TooLarge { .. } => code::MESSAGE_TOO_LARGE,
        _ => code::CORRUPT_MESSAGE,
    };
    Verdict::refused(code, error.to_string())
}

fn check_records(topic: &Topic, header: &BatchHeader, plain: &[u8]) -> Result<(), Box<Verdict>> {
    let mut record_errors = Vec::new();
    for (index, record) in (0..).zip(records(plain, header.record_count)) {
        let record =
            record.map_err(|error| Box::new(Verdict::refused(code::INVALID_RECORD, error.to_string())))?;
        if record.offset_delta != index {
            let message = format!("record {index} has offset delta {}", record.offset_delta);
            return Err(Box::new(Verdict::refused(code::INVALID_RECORD, message)));
        }
        if let Some(schema) = &topic.properties.schema
            && let Err(complaint) = schema.check(record.value)
        {
            record_errors.push((index, complaint));
            if record_errors.len() == MOST_RECORD_ERRORS {
                break;
            }
        }
    }
    let Some((index, complaint)) = record_errors.first() else { return Ok(()) };
    let message = format!("record {index} breaks hone.value.schema: {complaint}");
    Err(Box::new(Verdict { record_errors, ..Verdict::refused(code::INVALID_RECORD, message) }))
}

fn append(node: &Node, partition: &Partition, bytes: &mut [u8], work: &mut Workspace) -> Verdict {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    match partition.append(bytes, Ack::Relaxed, now_ms, &mut work.wake) {
        Ok(appended) => Verdict {
            error: code::NONE,
            base_offset: appended.base_offset,
            log_start: appended.log_start,
            record_errors: Vec::new(),
            message: None,
        },
        Err(AppendError::Sequence(sequence)) => {
            let (error, message) = match sequence {
                Sequence::TooOld => (code::DUPLICATE_SEQUENCE_NUMBER, "older than the last five batches"),
                Sequence::OutsideTransaction => {
                    (code::INVALID_TXN_STATE, "a transaction of the producer is open")
                }
                Sequence::Fenced => (code::INVALID_PRODUCER_EPOCH, "the producer has a newer epoch"),
                _ => (code::OUT_OF_ORDER_SEQUENCE_NUMBER, "a batch before this one is missing"),
            };
            Verdict::refused(error, message)
        }
        Err(error @ AppendError::CoordinatorFenced) => {
            Verdict::refused(code::INVALID_TXN_STATE, error.to_string())
        }
        Err(error @ AppendError::Removed) => {
            Verdict::refused(code::UNKNOWN_TOPIC_OR_PARTITION, error.to_string())
        }
        Err(error @ AppendError::Storage(_)) => {
            // Told once: a full disk refuses every batch, and each of them is answered with the reason.
            if partition.counters.storage_errors.fetch_add(1, Relaxed) == 0 {
                node.settings.notices.say(&format!("{}-{}: {error}", partition.topic, partition.index));
            }
            Verdict::refused(code::KAFKA_STORAGE_ERROR, error.to_string())
        }
    }
}

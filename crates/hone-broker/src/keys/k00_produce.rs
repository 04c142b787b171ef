//! Produce: batches are checked, perhaps validated and packed anew, and stored.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

use hone_kafka::batch::{self, Batch};
use hone_kafka::codec::{self, CodecError};
use hone_kafka::{BatchError, BatchHeader, Codec, WireError};

use super::{Call, Outcome, Workspace};
use crate::code;
use crate::node::{Node, count};
use crate::partition::{AppendError, Partition};
use crate::producers::Sequence;
use crate::protocol::Answer;
use crate::security::acl::{Operation, Resource};
use crate::topics::Topic;
use crate::validate::{self, Refusal as Refused};

/// What the records of one batch may unpack to. A batch has at most about one MiB (`max.message.bytes`), and JSON
/// that packs better than 1:64 is a bomb, not data.
const UNPACK_LIMIT_BYTES: usize = 64 << 20;

/// What became of the batch of one partition.
struct Verdict {
    error: i16,
    base_offset: i64,
    log_start: i64,
    /// -1 when the times of the records stay as the producer made them.
    append_time_ms: i64,
    record_errors: Vec<(i32, String)>,
    message: Option<String>,
}

impl Verdict {
    fn refused(error: i16, message: impl Into<String>) -> Self {
        Self {
            error,
            base_offset: -1,
            log_start: -1,
            append_time_ms: -1,
            record_errors: Vec::new(),
            message: Some(message.into()),
        }
    }
}

impl From<Box<Refused>> for Box<Verdict> {
    fn from(refused: Box<Refused>) -> Self {
        let Refused { error, message, records } = *refused;
        Self::new(Verdict { record_errors: records, ..Verdict::refused(error, message) })
    }
}

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    // Damage anywhere in the request must be found before its first batch is stored.
    check_layout(call)?;
    let version = call.version;
    let mut at = call.body_at;
    let (acks, transactional, forbidden, topics) = {
        let mut fields = call.fields();
        let id = if version >= 3 { fields.nullable_string("transactional id")? } else { None };
        let transactional = id.is_some();
        let forbidden = id.is_some_and(|id| !call.allows(Operation::Write, Resource::TransactionalId, id));
        let acks = fields.i16("acks")?;
        fields.i32("timeout")?;
        let topics = fields.array("topics")?;
        at += (call.frame.len() - at) - fields.left();
        (acks, transactional, forbidden, topics)
    };
    let refusal = if !(-1..=1).contains(&acks) {
        Some((code::INVALID_REQUIRED_ACKS, "acks must be 0, 1 or -1 (all)"))
    } else if forbidden {
        Some((code::TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "not allowed to use the transactional id"))
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
const FORBIDDEN: (i16, &str) = (code::TOPIC_AUTHORIZATION_FAILED, "not allowed to write to the topic");

/// Serves the topic that begins at `at`; returns where the next one does.
fn serve_topic(
    call: &mut Call<'_>,
    answer: &mut Answer<'_>,
    mut at: usize,
    refusal: Refusal,
) -> Result<usize, WireError> {
    let (topic, allowed, partitions) = {
        let mut fields = call.fields_at(at);
        let (topic, allowed) = if call.version >= 13 {
            let id = fields.uuid("topic id")?;
            answer.uuid(id);
            let topic = call.node.topics.by_id(id);
            let allowed = topic.as_ref().is_none_or(|topic| call.allows_topic(Operation::Write, &topic.name));
            (topic, allowed)
        } else {
            let name = fields.string("topic")?;
            answer.string(name);
            (call.node.topics.by_name(name), call.allows_topic(Operation::Write, name))
        };
        let partitions = fields.array("partitions")?;
        at = call.frame.len() - fields.left();
        (topic, allowed, partitions)
    };
    answer.array(partitions);
    let refusal = refusal.or((!allowed).then_some(FORBIDDEN));
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
        answer.i64(verdict.append_time_ms);
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
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    let header = match check_batch(topic, bytes, call.version, now_ms) {
        Ok(header) => header,
        Err(refused) => return *refused,
    };
    let mut packed = match prepare(topic, &header, bytes, call.work, now_ms) {
        Ok(packed) => packed,
        Err(refused) => return *refused,
    };
    let bytes = packed.as_deref_mut().unwrap_or(bytes);
    let append_time_ms = if topic.properties.records.log_append_time { now_ms } else { -1 };
    if append_time_ms >= 0
        && let Err(error) = batch::set_log_append_time(bytes, append_time_ms)
    {
        return no_batch(&error);
    }
    let verdict = Verdict { append_time_ms, ..append(call.node, partition, bytes, call.work) };
    if verdict.error == code::NONE {
        count(&partition.counters.produced_batches, 1);
        count(&partition.counters.produced_bytes, header.total_bytes());
        count(&partition.counters.produced_records, header.record_count as usize);
    }
    verdict
}

/// What can be said about a batch from its header and its checksum.
fn check_batch(topic: &Topic, bytes: &[u8], version: i16, now_ms: i64) -> Result<BatchHeader, Box<Verdict>> {
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
    validate::header(&header, &topic.properties.records, version, now_ms)?;
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
    now_ms: i64,
) -> Result<Option<Vec<u8>>, Box<Verdict>> {
    let wanted = topic.properties.compression.filter(|codec| *codec != header.codec());
    let rules = &topic.properties.records;
    let payload = bytes.get(batch::HEADER_BYTES..).unwrap_or_default();
    let plain = if header.codec() == Codec::None {
        payload
    } else if wanted.is_some() || topic.properties.schema.is_some() || rules.look_inside() {
        codec::decompress_into(header.codec(), payload, UNPACK_LIMIT_BYTES, &mut work.plain)
            .map_err(|error| Box::new(not_unpacked(&error)))?;
        &work.plain
    } else {
        return Ok(None);
    };
    validate::unpacked(plain, header, rules, topic.properties.schema.as_ref(), now_ms)?;
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

fn append(node: &Node, partition: &Partition, bytes: &mut [u8], work: &mut Workspace) -> Verdict {
    match partition.append(bytes, &mut work.wake) {
        Ok(appended) => Verdict {
            error: code::NONE,
            base_offset: appended.base_offset,
            log_start: appended.log_start,
            append_time_ms: -1,
            record_errors: Vec::new(),
            message: None,
        },
        Err(AppendError::Sequence(sequence)) => {
            let (error, message) = match sequence {
                Sequence::TooOld => (code::DUPLICATE_SEQUENCE_NUMBER, "older than the last five batches"),
                Sequence::Fenced => (code::INVALID_PRODUCER_EPOCH, "the producer has a newer epoch"),
                _ => (code::OUT_OF_ORDER_SEQUENCE_NUMBER, "a batch before this one is missing"),
            };
            Verdict::refused(error, message)
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

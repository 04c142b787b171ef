//! Produce: batches are checked, perhaps validated and packed anew, and stored.

use std::ops::Range;
use std::sync::Arc;

use hone_kafka::batch::{self, Batch};
use hone_kafka::codec::{self, CodecError};
use hone_kafka::{BatchError, BatchHeader, Codec, WireError};

use super::{Call, Outcome, Workspace};
use crate::appends::{self, Append, Destination, Stored, Terms};
use crate::code;
use crate::mailbox::{Letter, Ticket};
use crate::partition::Ack;
use crate::properties::Durability;
use crate::protocol::Answer;
use crate::security::acl::{Operation, Resource};
use crate::topics::Topic;
use crate::validate::{self, Refusal};
use crate::wall_clock::unix_ms;

/// What the records of one batch may unpack to. A batch has at most about one MiB (`max.message.bytes`), and JSON
/// that packs better than 1:64 is a bomb, not data.
const UNPACK_LIMIT_BYTES: usize = 64 << 20;

/// Batches in a request: far above what any client sends, and what is served in one turn.
const MOST_BATCHES: usize = 20_000;
/// Refusals of one request that are told with a text.
const MOST_COMPLAINTS: usize = 100;

/// What became of the batch of one partition.
struct Verdict {
    stored: Stored,
    record_errors: Vec<(i32, String)>,
    message: Option<String>,
}

impl Verdict {
    fn refused(error: i16, message: impl Into<String>) -> Self {
        Self { stored: Stored::refused(error), record_errors: Vec::new(), message: Some(message.into()) }
    }
}

impl From<Box<Refusal>> for Box<Verdict> {
    fn from(refused: Box<Refusal>) -> Self {
        let Refusal { error, message, records } = *refused;
        Self::new(Verdict { record_errors: records, ..Verdict::refused(error, message) })
    }
}

impl From<Stored> for Verdict {
    fn from(stored: Stored) -> Self {
        Self { stored, record_errors: Vec::new(), message: None }
    }
}

/// What holds for all batches of a request.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    acks: i16,
    refusal: Option<(i16, &'static str)>,
    /// The transactional id of the producer.
    transactional: Option<&'a str>,
}

/// What the batches of a request have come to so far.
#[derive(Default)]
struct Progress {
    /// Outcomes that are missing, and the bytes of their batches.
    waiting: usize,
    bytes: usize,
    /// A batch that nobody asked about was not stored.
    failed: Option<i16>,
    /// Where the batches belonged, as long as it is one reactor.
    owner: Option<usize>,
    spread: bool,
    /// Batches that were refused.
    complaints: usize,
}

impl Progress {
    fn note_owner(&mut self, owner: usize) {
        self.spread |= self.owner.is_some_and(|known| known != owner);
        self.owner = Some(owner);
    }
}

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    // Damage anywhere in the request must be found before its first batch is stored.
    if check_layout(call)? > MOST_BATCHES {
        return Ok(Outcome::Fail(code::INVALID_REQUEST));
    }
    let version = call.version;
    let mut at = call.body_at;
    let (acks, transactional, forbidden, topics) = {
        let mut fields = call.fields();
        let id = if version >= 3 { fields.nullable_string("transactional id")? } else { None };
        let transactional = id.map(str::to_owned);
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
    } else {
        None
    };
    let wanted = Wanted { acks, refusal, transactional: transactional.as_deref() };
    let mut progress = Progress::default();
    answer.array(topics);
    for _ in 0..topics {
        at = serve_topic(call, answer, at, &wanted, &mut progress)?;
    }
    if version >= 1 {
        answer.i32(0);
    }
    answer.tags();
    call.work.owner = progress.owner.filter(|_| !progress.spread);
    Ok(match (acks, progress.failed) {
        // The connection is all that the client can be told by.
        (0, Some(error)) => Outcome::Fail(error),
        (0, None) => Outcome::Silent { waiting: progress.waiting, bytes: progress.bytes },
        _ if progress.waiting > 0 => Outcome::Later { waiting: progress.waiting, bytes: progress.bytes },
        _ => Outcome::Reply,
    })
}

/// Returns the number of batches.
fn check_layout(call: &Call<'_>) -> Result<usize, WireError> {
    let mut batches = 0;
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
            batches += 1;
            fields.i32("partition")?;
            fields.nullable_bytes("records")?;
            fields.tags()?;
        }
        fields.tags()?;
    }
    fields.tags()?;
    Ok(batches)
}

const FORBIDDEN: (i16, &str) = (code::TOPIC_AUTHORIZATION_FAILED, "not allowed to write to the topic");

/// Serves the topic that begins at `at`; returns where the next one does.
fn serve_topic(
    call: &mut Call<'_>,
    answer: &mut Answer<'_>,
    mut at: usize,
    wanted: &Wanted<'_>,
    progress: &mut Progress,
) -> Result<usize, WireError> {
    let (topic, partitions) = {
        let mut fields = call.fields_at(at);
        let topic = call.asked_topic(&mut fields, answer, Operation::Write)?;
        let partitions = fields.array("partitions")?;
        at = call.frame.len() - fields.left();
        (topic, partitions)
    };
    answer.array(partitions);
    let wanted = &Wanted { refusal: wanted.refusal.or(topic.is_err().then_some(FORBIDDEN)), ..*wanted };
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
        // The error code stands behind the index.
        let place = answer.buffer().len() + 4 - call.answer_at;
        let back = Destination { ticket: call.ticket, slot: call.slot, at: place };
        let mut verdict = match store(
            call,
            topic.as_ref().ok().and_then(Option::as_ref),
            index,
            records,
            wanted,
            back,
            progress,
        ) {
            Some(verdict) => verdict,
            None => {
                progress.waiting += 1;
                Verdict::from(Stored::refused(code::NONE))
            }
        };
        if verdict.stored.error != code::NONE {
            progress.failed = Some(verdict.stored.error);
            progress.complaints += 1;
        }
        // A request of millions of bad batches must not make an answer many times its size.
        if progress.complaints > MOST_COMPLAINTS {
            verdict.message = None;
        }
        write(answer, call.version, index, &verdict);
    }
    let mut fields = call.fields_at(at);
    fields.tags()?;
    answer.tags();
    Ok(call.frame.len() - fields.left())
}

fn write(answer: &mut Answer<'_>, version: i16, index: i32, verdict: &Verdict) {
    answer.i32(index);
    // These four are written again where the outcome comes later: `Slot::fill`.
    answer.i16(verdict.stored.error);
    answer.i64(verdict.stored.base_offset);
    if version >= 2 {
        answer.i64(verdict.stored.append_time_ms);
    }
    if version >= 5 {
        answer.i64(verdict.stored.log_start);
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

/// Checks a batch and hands it to its partition's reactor. `None` when the outcome comes later.
fn store(
    call: &mut Call<'_>,
    topic: Option<&Arc<Topic>>,
    index: i32,
    records: Range<usize>,
    wanted: &Wanted<'_>,
    back: Destination,
    progress: &mut Progress,
) -> Option<Verdict> {
    if let Some((error, message)) = wanted.refusal {
        return Some(Verdict::refused(error, message));
    }
    let Some(topic) = topic else {
        let error = call.unknown_topic();
        return Some(Verdict::refused(error, "there is no such topic"));
    };
    let Some(partition) = topic.partition(index) else {
        let error = code::UNKNOWN_TOPIC_OR_PARTITION;
        return Some(Verdict::refused(error, "the topic has no such partition"));
    };
    let bytes = call.frame.get_mut(records.clone()).unwrap_or_default();
    let now_ms = unix_ms();
    let checked = check_batch(topic, bytes, call.version, now_ms).and_then(|header| {
        let packed = prepare(topic, &header, bytes, call.work, now_ms)?;
        Ok((header, packed))
    });
    let (header, packed) = match checked {
        Ok(checked) => checked,
        Err(refused) => return Some(*refused),
    };
    let mut admission = None;
    if header.is_transactional() {
        let transactions = &call.node.transactions;
        match transactions.admit(call.version, wanted.transactional, &header, &topic.name, index) {
            Ok(admitted) => admission = Some(admitted),
            Err(error) => {
                let message = "the batch is not part of an ongoing transaction of its producer";
                return Some(Verdict::refused(error, message));
            }
        }
    }
    let ack = class(topic, wanted.acks, &header);
    let received_bytes = header.total_bytes();
    let terms = Terms {
        ack,
        acks: wanted.acks,
        codec: header.codec(),
        back,
        received_bytes,
        records: header.record_count as usize,
    };
    let owner = call.node.owner(partition);
    progress.note_owner(owner);
    if owner == call.ticket.reactor || call.node.rests(owner) {
        let mut packed = packed;
        let batch = match &mut packed {
            Some(packed) => packed.as_mut_slice(),
            None => call.frame.get_mut(records).unwrap_or_default(),
        };
        let outcome = call.appends.append(call.node, partition, batch, terms, &mut call.work.wake);
        return match outcome {
            appends::Outcome::Done(stored) => Some(stored.into()),
            appends::Outcome::Later => None,
        };
    }
    progress.bytes += received_bytes;
    let batch = packed.unwrap_or_else(|| call.frame.get(records).unwrap_or_default().to_vec());
    let append = Append { partition: Arc::clone(partition), batch, terms, admission };
    call.node.post(Ticket { reactor: owner, connection: 0 }, Letter::Append(append));
    None
}

/// When the batch counts. Write caching is never for transactions: their markers promise what is on the disk.
fn class(topic: &Topic, acks: i16, header: &BatchHeader) -> Ack {
    match topic.properties.durability() {
        Durability::Memory => Ack::Relaxed,
        Durability::Fsync if acks == -1 => Ack::Strict,
        _ if header.is_transactional() => Ack::Strict,
        Durability::Fsync | Durability::WriteCaching { .. } => Ack::Relaxed,
    }
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
    if header.is_control() {
        return Err(invalid("control batches are not accepted"));
    }
    if header.is_transactional() && header.producer_id < 0 {
        return Err(invalid("a transactional batch without a producer id"));
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
    validate::unpacked(plain, header, rules, topic.properties.schema.as_deref(), now_ms)?;
    let Some(codec) = wanted else { return Ok(None) };
    let packed = batch::with_payload_at_level(bytes, plain, codec, topic.properties.compression_level);
    packed.map(Some).map_err(|error| Box::new(no_batch(&error)))
}

fn not_unpacked(error: &CodecError) -> Verdict {
    let code = match error {
        CodecError::TooLarge { .. } => code::MESSAGE_TOO_LARGE,
        _ => code::CORRUPT_MESSAGE,
    };
    Verdict::refused(code, error.to_string())
}

//! Produce: the broker checks batches, validates and recompresses them if needed, and stores them.

use std::ops::Range;
use std::sync::Arc;

use hone_kafka::batch::{self, Batch};
use hone_kafka::codec::{self, CodecError};
use hone_kafka::{BatchError, BatchHeader, Codec, WireError};

use super::call::{Call, Outcome, Workspace};
use super::produce_walk::{Progress, RequestTerms, Walk};
use crate::append::{Append, Destination, Stored, Terms};
use crate::appends;
use crate::code;
use crate::keys::park::Attempt;
use crate::mailbox::Letter;
use crate::partition::Ack;
use crate::properties::Durability;
use crate::protocol::Answer;
use crate::security::acl::{Operation, Resource};
use crate::ticket::Ticket;
use crate::topics::Topic;
use crate::validate::{self, Refusal};
use crate::wall_clock::unix_ms;

/// Largest decompressed size of a batch's records. A batch has at most about one MiB (`max.message.bytes`). JSON with a
/// ratio above 64:1 is a decompression bomb, not data.
const UNPACK_LIMIT_BYTES: usize = 64 << 20;

/// Of a client's name for itself, in a notice.
const MOST_CLIENT_ID_CHARS: usize = 100;
/// Number of errors in one answer that have a text.
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

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let mut walk = match std::mem::replace(&mut call.attempt, Attempt::First) {
        Attempt::Further(walk) => *walk,
        _ => {
            // Damage anywhere in the request must be found before its first batch is stored.
            if check_layout(call)? > call.most_entries() {
                return Ok(Outcome::Fail(code::INVALID_REQUEST));
            }
            Walk::begin(call, answer)?
        }
    };
    if !walk.go_on(call, answer)? {
        let waiting = std::mem::take(&mut walk.progress.waiting);
        let bytes = std::mem::take(&mut walk.progress.bytes);
        let silent = walk.wanted.acks == 0;
        return Ok(Outcome::Pause { waiting, bytes, silent, walk: Box::new(walk) });
    }
    if call.version >= 1 {
        answer.i32(0);
    }
    answer.tags();
    let progress = walk.progress;
    call.work.owner = progress.owner.filter(|_| !progress.spread);
    Ok(match (walk.wanted.acks, progress.failed) {
        // Only the end of the connection can report the error to the client.
        (0, Some(error)) => Outcome::Fail(error),
        (0, None) => Outcome::Silent { waiting: progress.waiting, bytes: progress.bytes },
        _ if progress.waiting > 0 => Outcome::Later { waiting: progress.waiting, bytes: progress.bytes },
        _ => Outcome::Reply,
    })
}

/// Returns the number of topics and batches, or of as many of them as are too many.
fn check_layout(call: &Call<'_>) -> Result<usize, WireError> {
    let mut fields = call.fields();
    if call.version >= 3 {
        fields.nullable_string("transactional id")?;
    }
    fields.i16("acks")?;
    fields.i32("timeout")?;
    let topics = fields.array("topics")?;
    let mut entries = topics;
    for _ in 0..topics {
        if entries > call.most_entries() {
            return Ok(entries);
        }
        if call.version >= 13 {
            fields.uuid("topic id")?;
        } else {
            fields.string("topic")?;
        }
        let partitions = fields.array("partitions")?;
        entries += partitions;
        if entries > call.most_entries() {
            break;
        }
        for _ in 0..partitions {
            fields.i32("partition")?;
            fields.nullable_bytes("records")?;
            fields.tags()?;
        }
        fields.tags()?;
    }
    fields.tags()?;
    Ok(entries)
}

const FORBIDDEN: (i16, &str) = (code::TOPIC_AUTHORIZATION_FAILED, "not allowed to write to the topic");

impl Walk {
    /// Reads what stands in front of the topics.
    fn begin(call: &Call<'_>, answer: &mut Answer<'_>) -> Result<Self, WireError> {
        let mut fields = call.fields();
        let id = if call.version >= 3 { fields.nullable_string("transactional id")? } else { None };
        let forbidden = id.is_some_and(|id| !call.allows(Operation::Write, Resource::TransactionalId, id));
        let acks = fields.i16("acks")?;
        fields.i32("timeout")?;
        let topics = fields.array("topics")?;
        answer.array(topics);
        let refusal = if !(-1..=1).contains(&acks) {
            Some((code::INVALID_REQUIRED_ACKS, "acks must be 0, 1 or -1 (all)"))
        } else if forbidden {
            Some((code::TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "not allowed to use the transactional id"))
        } else {
            None
        };
        Ok(Self {
            wanted: RequestTerms { acks, refusal, transactional: id.map(str::to_owned) },
            at: call.frame.len() - fields.left(),
            topics,
            topic: None,
            partitions: 0,
            progress: Progress::default(),
        })
    }

    /// Serves batch after batch. `false` when the rest is for the next turn.
    fn go_on(&mut self, call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<bool, WireError> {
        loop {
            if self.partitions > 0 {
                if call.work.unpack_left_bytes == 0 && self.looks_inside() {
                    return Ok(false);
                }
                self.partitions -= 1;
                self.serve_partition(call, answer)?;
            } else if self.topic.take().is_some() {
                let mut fields = call.fields_at(self.at);
                fields.tags()?;
                self.at = call.frame.len() - fields.left();
                answer.tags();
            } else if self.topics > 0 {
                self.topics -= 1;
                let mut fields = call.fields_at(self.at);
                self.topic = Some(call.asked_topic(&mut fields, answer, Operation::Write)?);
                self.partitions = fields.array("partitions")?;
                self.at = call.frame.len() - fields.left();
                answer.array(self.partitions);
            } else {
                return Ok(true);
            }
        }
    }

    /// Whether the broker may have to decompress, validate or recompress batches of the topic.
    fn looks_inside(&self) -> bool {
        named(&self.topic).is_some_and(|topic| {
            let properties = &topic.properties;
            properties.schema.is_some()
                || properties.compression.is_some()
                || properties.records.look_inside()
        })
    }

    fn serve_partition(&mut self, call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<(), WireError> {
        let (index, records) = {
            let mut fields = call.fields_at(self.at);
            let index = fields.i32("partition")?;
            let length = fields.nullable_bytes("records")?.map_or(0, <[u8]>::len);
            let end = call.frame.len() - fields.left();
            fields.tags()?;
            self.at = call.frame.len() - fields.left();
            (index, end - length..end)
        };
        // The error code stands behind the index.
        let place = answer.buffer().len() + 4 - call.answer_at;
        let back = Destination { ticket: call.ticket, slot: call.slot, at: place };
        let mut verdict = match self.store(call, index, records, back) {
            Some(verdict) => verdict,
            None => {
                self.progress.waiting += 1;
                Verdict::from(Stored::refused(code::NONE))
            }
        };
        if verdict.stored.error != code::NONE {
            self.progress.failed = Some(verdict.stored.error);
            self.progress.complaints += 1;
        }
        // A request of millions of bad batches must not make an answer many times its size.
        if self.progress.complaints > MOST_COMPLAINTS {
            verdict.message = None;
        }
        write(answer, call.version, index, &verdict);
        Ok(())
    }

    fn refusal(&self) -> Option<(i16, &'static str)> {
        self.wanted.refusal.or_else(|| matches!(self.topic, Some(Err(_))).then_some(FORBIDDEN))
    }

    /// Checks a batch and hands it to its partition's reactor. `None` when the outcome comes later.
    fn store(
        &mut self,
        call: &mut Call<'_>,
        index: i32,
        records: Range<usize>,
        back: Destination,
    ) -> Option<Verdict> {
        if let Some((error, message)) = self.refusal() {
            return Some(Verdict::refused(error, message));
        }
        let wanted = &self.wanted;
        let Some(topic) = named(&self.topic) else {
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
            Err(refused) => {
                tell(call, topic, index, &refused);
                return Some(*refused);
            }
        };
        let mut admission = None;
        if header.is_transactional() {
            let transactions = &call.node.transactions;
            match transactions.admit(
                call.version,
                wanted.transactional.as_deref(),
                &header,
                &topic.name,
                index,
            ) {
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
        self.progress.note_owner(owner);
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
        self.progress.bytes += received_bytes;
        let batch = packed.unwrap_or_else(|| call.frame.get(records).unwrap_or_default().to_vec());
        let append = Append { partition: Arc::clone(partition), batch, terms, admission };
        call.node.post(Ticket { reactor: owner, connection: 0 }, Letter::Append(append));
        None
    }
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

/// The topic, if it is there and may be written to.
fn named(asked: &Option<Result<Option<Arc<Topic>>, i16>>) -> Option<&Arc<Topic>> {
    asked.as_ref()?.as_ref().ok()?.as_ref()
}

/// Reports a batch that breaks a rule to the broker's owner, because the client may not report it.
fn tell(call: &Call<'_>, topic: &Topic, index: i32, refused: &Verdict) {
    let client: String = call.client_id().chars().take(MOST_CLIENT_ID_CHARS).collect();
    let reason = refused.message.as_deref().unwrap_or_default();
    let reason: String = reason.chars().map(|one| if one.is_control() { ' ' } else { one }).collect();
    let error = refused.stored.error;
    let (from, topic) = (call.host, &topic.name);
    let line = format!(
        "refused a batch of the client {client:?} at {from} for {topic}-{index}: {reason} (error {error})"
    );
    call.node.tell_of_refusal(&line);
}

/// When the batch is acknowledged. Write caching never applies to transactions, because their markers guarantee that
/// the records are on the disk.
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
            "the batch has {} bytes, but max.message.bytes of the topic is {}",
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

/// Validates the records if the topic requires it, or if it costs nothing because they are not compressed. Returns the
/// recompressed batch if the topic has another codec. The broker stores other compressed batches after checking their
/// header and checksum only.
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
    work.unpack_left_bytes = work.unpack_left_bytes.saturating_sub(plain.len());
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

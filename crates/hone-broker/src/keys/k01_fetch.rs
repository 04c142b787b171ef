//! Fetch: whole batches from an offset on, after a wait if there are too few.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hone_kafka::WireError;

use super::{Attempt, Call, Outcome, Park};
use crate::code;
use crate::partition::{Partition, ReadError};
use crate::protocol::{Answer, Fields};
use crate::security::acl::Operation;
use crate::topics::Topic;

/// Records in one answer, whatever the client would take: the answer is built in memory.
const MOST_BYTES: usize = 8 << 20;
/// Longest wait, whatever the client asks for.
const MOST_WAIT: Duration = Duration::from_secs(60);

/// The head of a request.
struct Asked {
    max_wait: Duration,
    min_bytes: usize,
    max_bytes: usize,
    session_id: i32,
    topics: usize,
}

/// What one pass over the partitions found.
#[derive(Default)]
struct Found {
    bytes: usize,
    failed: bool,
    watched: Vec<Arc<Partition>>,
}

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let now = Instant::now();
    let mut fields = call.fields();
    let mut asked = read_head(&mut fields, call.version)?;
    asked.max_bytes = call.fetch_limit_bytes().map_or(asked.max_bytes, |most| asked.max_bytes.min(most));
    let until = match call.attempt {
        Attempt::Again { until } => until,
        _ => now + asked.max_wait,
    };
    if asked.session_id != 0 {
        // Sessions are declined by never giving an id, so this one is not ours.
        write_head(answer, call.version, code::FETCH_SESSION_ID_NOT_FOUND, 0);
        answer.tags();
        return Ok(Outcome::Reply);
    }
    let start = answer.buffer().len();
    let found = write_topics(call, fields, &asked, answer)?;
    if found.bytes >= asked.min_bytes || found.failed || found.watched.is_empty() || now >= until {
        return Ok(Outcome::Reply);
    }
    // Registered first, read again after: what was appended in between is found by one of the two.
    for partition in &found.watched {
        partition.wait(call.ticket);
    }
    answer.buffer().truncate(start);
    let found = write_topics(call, fields, &asked, answer)?;
    if found.bytes >= asked.min_bytes || found.failed {
        for partition in &found.watched {
            partition.forget(call.ticket);
        }
        return Ok(Outcome::Reply);
    }
    Ok(Outcome::Park(Park::Records { until, watched: found.watched }))
}

fn read_head(fields: &mut Fields<'_>, version: i16) -> Result<Asked, WireError> {
    if version <= 14 {
        fields.i32("replica id")?;
    }
    let max_wait = fields.i32("max wait")?;
    let min_bytes = fields.i32("min bytes")?;
    let max_bytes = fields.i32("max bytes")?;
    fields.i8("isolation level")?;
    let session_id = if version >= 7 { fields.i32("session id")? } else { 0 };
    if version >= 7 {
        fields.i32("session epoch")?;
    }
    Ok(Asked {
        max_wait: Duration::from_millis(u64::try_from(max_wait).unwrap_or(0)).min(MOST_WAIT),
        min_bytes: usize::try_from(min_bytes).unwrap_or(0).min(MOST_BYTES),
        max_bytes: usize::try_from(max_bytes).unwrap_or(0).min(MOST_BYTES),
        session_id,
        topics: fields.array("topics")?,
    })
}

fn write_head(answer: &mut Answer<'_>, version: i16, error: i16, topics: usize) {
    answer.i32(0);
    if version >= 7 {
        answer.i16(error);
        answer.i32(0);
    }
    answer.array(topics);
}

fn write_topics(
    call: &Call<'_>,
    mut fields: Fields<'_>,
    asked: &Asked,
    answer: &mut Answer<'_>,
) -> Result<Found, WireError> {
    let mut found = Found::default();
    write_head(answer, call.version, code::NONE, asked.topics);
    for _ in 0..asked.topics {
        let topic = if call.version >= 13 {
            let id = fields.uuid("topic id")?;
            answer.uuid(id);
            let topic = call.node.topics.by_id(id);
            let allowed = topic.as_ref().is_none_or(|topic| call.allows_topic(Operation::Read, &topic.name));
            if allowed { Ok(topic) } else { Err(code::TOPIC_AUTHORIZATION_FAILED) }
        } else {
            let name = fields.string("topic")?;
            answer.string(name);
            let allowed = call.allows_topic(Operation::Read, name);
            if allowed { Ok(call.node.topics.by_name(name)) } else { Err(code::TOPIC_AUTHORIZATION_FAILED) }
        };
        let partitions = fields.array("partitions")?;
        answer.array(partitions);
        for _ in 0..partitions {
            let wanted = read_partition(&mut fields, call.version)?;
            write_partition(call, topic.as_ref().map(Option::as_deref), &wanted, asked, &mut found, answer);
        }
        fields.tags()?;
        answer.tags();
    }
    read_rest(&mut fields, call.version)?;
    answer.tags();
    Ok(found)
}

/// What is asked of one partition.
struct Wanted {
    index: i32,
    offset: i64,
    max_bytes: usize,
}

fn read_partition(fields: &mut Fields<'_>, version: i16) -> Result<Wanted, WireError> {
    let index = fields.i32("partition")?;
    if version >= 9 {
        fields.i32("current leader epoch")?;
    }
    let offset = fields.i64("fetch offset")?;
    if version >= 12 {
        fields.i32("last fetched epoch")?;
    }
    if version >= 5 {
        fields.i64("log start offset")?;
    }
    let max_bytes = usize::try_from(fields.i32("partition max bytes")?).unwrap_or(0);
    fields.tags()?;
    Ok(Wanted { index, offset, max_bytes })
}

/// What stands behind the topics; it says nothing to a broker without sessions and racks, but it must be there.
fn read_rest(fields: &mut Fields<'_>, version: i16) -> Result<(), WireError> {
    if version >= 7 {
        for _ in 0..fields.array("forgotten topics")? {
            if version >= 13 {
                fields.uuid("topic id")?;
            } else {
                fields.string("topic")?;
            }
            for _ in 0..fields.array("partitions")? {
                fields.i32("partition")?;
            }
            fields.tags()?;
        }
    }
    if version >= 11 {
        fields.string("rack id")?;
    }
    fields.tags()
}

fn write_partition(
    call: &Call<'_>,
    topic: Result<Option<&Topic>, &i16>,
    wanted: &Wanted,
    asked: &Asked,
    found: &mut Found,
    answer: &mut Answer<'_>,
) {
    let unknown = match topic {
        Err(forbidden) => *forbidden,
        Ok(None) if call.version >= 13 => code::UNKNOWN_TOPIC_ID,
        Ok(_) => code::UNKNOWN_TOPIC_OR_PARTITION,
    };
    let partition = topic.ok().flatten().and_then(|topic| topic.partition(wanted.index));
    let start = answer.buffer().len();
    // Error and offsets stand before the records, so they are written once those are read.
    let records_at = open_partition(answer, call.version, wanted.index);
    let records_from = answer.buffer().len();
    let read = match partition {
        None => Err(unknown),
        Some(partition) => {
            let most = wanted.max_bytes.min(asked.max_bytes.saturating_sub(found.bytes));
            let at_least_one = found.bytes == 0;
            partition.read(wanted.offset, most, at_least_one, answer.buffer()).map_err(|error| match error {
                ReadError::OutOfRange => code::OFFSET_OUT_OF_RANGE,
                ReadError::Storage(_) => code::KAFKA_STORAGE_ERROR,
            })
        }
    };
    found.bytes += answer.buffer().len() - records_from;
    answer.close_bytes(records_at);
    answer.tags();
    let (error, bounds) = match read {
        Ok(bounds) => (code::NONE, bounds),
        Err(error) => (error, (-1, -1)),
    };
    found.failed |= error != code::NONE;
    found.watched.extend(partition.filter(|_| error == code::NONE).cloned());
    close_partition(answer, call.version, start, error, bounds);
}

fn open_partition(answer: &mut Answer<'_>, version: i16, index: i32) -> usize {
    answer.i32(index);
    answer.i16(code::NONE);
    answer.i64(-1); // high watermark
    answer.i64(-1); // last stable offset
    if version >= 5 {
        answer.i64(-1); // log start offset
    }
    answer.array(0); // aborted transactions
    if version >= 11 {
        answer.i32(-1); // preferred read replica
    }
    answer.open_bytes()
}

fn close_partition(answer: &mut Answer<'_>, version: i16, start: usize, error: i16, bounds: (i64, i64)) {
    let (log_start, next) = bounds;
    let mut fixed = [0; 26];
    fixed[..2].copy_from_slice(&error.to_be_bytes());
    fixed[2..10].copy_from_slice(&next.to_be_bytes());
    fixed[10..18].copy_from_slice(&next.to_be_bytes());
    fixed[18..].copy_from_slice(&log_start.to_be_bytes());
    let length = if version >= 5 { 26 } else { 18 };
    // Behind the partition index that `open_partition` has written at `start`.
    answer.buffer()[start + 4..start + 4 + length].copy_from_slice(&fixed[..length]);
}

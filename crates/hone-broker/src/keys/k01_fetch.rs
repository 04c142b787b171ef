//! Fetch: whole batches from an offset on, after a wait if there are too few.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hone_kafka::{BatchHeader, WireError, batch};

use super::call::{Call, Outcome};
use crate::code;
use crate::keys::park::{Attempt, Park};
use crate::log::file_range::FileRange;
use crate::partition::{AbortedTransaction, Bounds, Partition, ReadError};
use crate::protocol::{Answer, Fields};
use crate::security::acl::Operation;
use crate::shard_counters::count;
use crate::topics::Topic;
use crate::waiters::{Lack, Waiter};
use crate::watch::Watch;

/// Records in one answer, whatever the client would take.
const MOST_BYTES: usize = 64 << 20;
/// From this size on records are sent by the kernel from the page cache; below it a copy costs less than the call.
const SENT_AS_FILE_BYTES: usize = 16 << 10;
/// The isolation level of readers that want no record of an open or aborted transaction.
const READ_COMMITTED: i8 = 1;
/// What an aborted transaction takes in an answer.
const ABORTED_BYTES: usize = 16;
/// A long poll whose request is larger is answered at once: it would be kept in memory all the time.
const MOST_PARKED_BYTES: usize = 1 << 20;
/// Longest wait, whatever the client asks for.
const MOST_WAIT: Duration = Duration::from_secs(60);

/// The head of a request.
struct Asked {
    max_wait: Duration,
    min_bytes: usize,
    max_bytes: usize,
    read_committed: bool,
    session_id: i32,
    topics: usize,
}

/// What one pass over the partitions found.
#[derive(Default)]
struct Found {
    bytes: usize,
    /// Weight of the answer: its bytes, and its aborted transactions.
    weight: usize,
    /// Topics and partitions that the request has named so far.
    entries: usize,
    failed: bool,
    watched: Vec<Read>,
}

/// A partition that was read.
struct Read {
    partition: Arc<Partition>,
    /// What it gave.
    bytes: usize,
    /// The end of what it could show.
    seen: i64,
}

impl Found {
    /// The answer is final: what it brings counts.
    fn answered(&self) -> Outcome {
        for read in &self.watched {
            count(&read.partition.counters.fetched_bytes, read.bytes);
        }
        Outcome::Reply
    }
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
    if found.entries > call.most_entries() {
        answer.truncate(start);
        return Ok(refuse(call.version, answer));
    }
    let is_enough = found.bytes >= asked.min_bytes || found.failed || found.watched.is_empty();
    if is_enough || now >= until || call.frame.len() > MOST_PARKED_BYTES {
        return Ok(found.answered());
    }
    let watched = wait_for_more(call, found, &asked);
    Ok(Outcome::Park(Park::Records { until, watched }))
}

/// Stands in the list of each partition. What was appended since it was read wakes at once.
fn wait_for_more(call: &mut Call<'_>, found: Found, asked: &Asked) -> Vec<Watch> {
    let waiter = Waiter::new(call.ticket);
    // Before all have grown by what is missing together, one has grown by its share of that.
    let missing = asked.min_bytes.saturating_sub(found.bytes);
    let bytes = missing.div_ceil(found.watched.len().max(1)) as u64;
    let watch = |Read { partition, seen, .. }: Read| {
        let lack = Lack { committed: asked.read_committed, seen, bytes };
        let standing = partition.wait(&waiter, lack, &mut call.work.wake);
        Watch { partition, waiter: Arc::clone(&waiter), standing }
    };
    found.watched.into_iter().map(watch).collect()
}

/// Before version 7 there is no error code for the whole request, and the end of the connection has to say it.
fn refuse(version: i16, answer: &mut Answer<'_>) -> Outcome {
    if version < 7 {
        return Outcome::Fail(code::INVALID_REQUEST);
    }
    write_head(answer, version, code::INVALID_REQUEST, 0);
    answer.tags();
    Outcome::Reply
}

fn read_head(fields: &mut Fields<'_>, version: i16) -> Result<Asked, WireError> {
    if version <= 14 {
        fields.i32("replica id")?;
    }
    let max_wait = fields.i32("max wait")?;
    let min_bytes = fields.i32("min bytes")?;
    let max_bytes = fields.i32("max bytes")?;
    let read_committed = fields.i8("isolation level")? == READ_COMMITTED;
    let session_id = if version >= 7 { fields.i32("session id")? } else { 0 };
    if version >= 7 {
        fields.i32("session epoch")?;
    }
    Ok(Asked {
        max_wait: Duration::from_millis(u64::try_from(max_wait).unwrap_or(0)).min(MOST_WAIT),
        min_bytes: usize::try_from(min_bytes).unwrap_or(0).min(MOST_BYTES),
        max_bytes: usize::try_from(max_bytes).unwrap_or(0).min(MOST_BYTES),
        read_committed,
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
    let mut found = Found { entries: asked.topics, ..Found::default() };
    write_head(answer, call.version, code::NONE, asked.topics);
    for _ in 0..asked.topics {
        if found.entries > call.most_entries() {
            return Ok(found);
        }
        let topic = call.asked_topic(&mut fields, answer, Operation::Read)?;
        let partitions = fields.array("partitions")?;
        found.entries += partitions;
        if found.entries > call.most_entries() {
            return Ok(found);
        }
        answer.array(partitions);
        for _ in 0..partitions {
            let wanted = read_partition(&mut fields, call.version)?;
            write_partition(call, topic.as_ref().map(Option::as_deref), &wanted, asked, &mut found, answer);
        }
        fields.tags()?;
        answer.tags();
    }
    found.entries += read_rest(&mut fields, call.version, call.most_entries())?;
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

/// What stands behind the topics; it says nothing to a broker without sessions and racks, but it must be there. Returns
/// the number of its entries, and ends early when those are too many.
fn read_rest(fields: &mut Fields<'_>, version: i16, most: usize) -> Result<usize, WireError> {
    let mut entries = 0;
    if version >= 7 {
        let topics = fields.array("forgotten topics")?;
        entries += topics;
        for _ in 0..topics {
            if entries > most {
                return Ok(entries);
            }
            if version >= 13 {
                fields.uuid("topic id")?;
            } else {
                fields.string("topic")?;
            }
            let partitions = fields.array("partitions")?;
            entries += partitions;
            if entries > most {
                return Ok(entries);
            }
            for _ in 0..partitions {
                fields.i32("partition")?;
            }
            fields.tags()?;
        }
    }
    if version >= 11 {
        fields.string("rack id")?;
    }
    fields.tags()?;
    Ok(entries)
}

/// What is answered for one partition.
struct Piece {
    error: i16,
    bounds: Option<Bounds>,
    aborted: Vec<AbortedTransaction>,
    range: Option<FileRange>,
}

impl Piece {
    fn failed(error: i16) -> Self {
        Self { error, bounds: None, aborted: Vec::new(), range: None }
    }
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
        Ok(None) => call.unknown_topic(),
        Ok(Some(_)) => code::UNKNOWN_TOPIC_OR_PARTITION,
    };
    let partition = topic.ok().flatten().and_then(|topic| topic.partition(wanted.index));
    let mut piece = match partition {
        None => Piece::failed(unknown),
        Some(partition) => look_up(partition, wanted, asked, found),
    };
    let before = answer.buffer().len();
    let mut records_at = write_head_of(answer, call.version, wanted.index, &piece);
    let mut bytes = 0;
    if let Some(range) = piece.range.take() {
        bytes = range.bytes;
        if bytes >= SENT_AS_FILE_BYTES {
            answer.file(range);
        } else if copy(&range, answer.buffer()).is_err() {
            answer.truncate(before);
            piece = Piece::failed(code::KAFKA_STORAGE_ERROR);
            records_at = write_head_of(answer, call.version, wanted.index, &piece);
            bytes = 0;
        }
    }
    answer.close_bytes(records_at);
    answer.tags();
    found.bytes += bytes;
    found.weight += bytes + piece.aborted.len() * ABORTED_BYTES;
    found.failed |= piece.error != code::NONE;
    if let (Some(partition), Some(bounds)) = (partition, &piece.bounds) {
        let seen = if asked.read_committed { bounds.last_stable } else { bounds.high_watermark };
        found.watched.push(Read { partition: Arc::clone(partition), bytes, seen });
    }
}

fn look_up(partition: &Partition, wanted: &Wanted, asked: &Asked, found: &Found) -> Piece {
    let most = wanted.max_bytes.min(asked.max_bytes.saturating_sub(found.weight));
    let committed = asked.read_committed;
    match partition.locate(wanted.offset, most, found.bytes == 0, committed) {
        Ok((bounds, range)) => {
            let aborted = match &range {
                Some(range) if committed => aborted_in(partition, range, wanted.offset, bounds.last_stable),
                _ => Vec::new(),
            };
            // Removal at the start of the log meanwhile also removes its aborted transactions. Without them, readers
            // would take the range for committed.
            if committed && partition.bounds().log_start > wanted.offset {
                return Piece::failed(code::OFFSET_OUT_OF_RANGE);
            }
            Piece { error: code::NONE, bounds: Some(bounds), aborted, range }
        }
        Err(ReadError::OutOfRange) => Piece::failed(code::OFFSET_OUT_OF_RANGE),
        Err(ReadError::Storage(_)) => Piece::failed(code::KAFKA_STORAGE_ERROR),
    }
}

/// The aborted transactions that a range of batches touches.
fn aborted_in(
    partition: &Partition,
    range: &FileRange,
    offset: i64,
    last_stable: i64,
) -> Vec<AbortedTransaction> {
    // The batch after the range, if it exists, marks the end of the range.
    let mut header = [0; batch::HEADER_BYTES];
    let behind = range.file.read_exact_at(&mut header, range.position + range.bytes as u64);
    let end = behind.ok().and_then(|()| BatchHeader::parse(&header).ok()).map(|header| header.base_offset);
    partition.aborted(offset, end.filter(|end| *end > offset).unwrap_or(last_stable))
}

/// Appends the bytes of a range, without filling the room with zeros first.
fn copy(range: &FileRange, out: &mut Vec<u8>) -> io::Result<()> {
    let end = out.len() + range.bytes;
    out.reserve(range.bytes);
    let mut position = range.position;
    while out.len() < end {
        let most = end - out.len();
        let room = out.spare_capacity_mut();
        // SAFETY: the pointer and `most` are those of spare capacity that is ours, and the descriptor is open.
        let read = unsafe {
            libc::pread(range.file.as_raw_fd(), room.as_mut_ptr().cast(), most, position as libc::off_t)
        };
        match usize::try_from(read) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => {
                position += bytes as u64;
                // SAFETY: `pread` has written this number of bytes after the length.
                unsafe { out.set_len(out.len() + bytes) };
            }
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

/// Everything in front of the records.
fn write_head_of(answer: &mut Answer<'_>, version: i16, index: i32, piece: &Piece) -> usize {
    let offset = |of: fn(&Bounds) -> i64| piece.bounds.as_ref().map_or(-1, of);
    answer.i32(index);
    answer.i16(piece.error);
    answer.i64(offset(|bounds| bounds.high_watermark));
    answer.i64(offset(|bounds| bounds.last_stable));
    if version >= 5 {
        answer.i64(offset(|bounds| bounds.log_start));
    }
    answer.array(piece.aborted.len());
    for aborted in &piece.aborted {
        answer.i64(aborted.producer_id);
        answer.i64(aborted.first_offset);
        answer.tags();
    }
    if version >= 11 {
        answer.i32(-1); // preferred read replica
    }
    answer.open_bytes()
}

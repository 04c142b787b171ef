//! ListOffsets: the ends of a log, or the first record of a time.

use std::collections::HashSet;
use std::io;

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use crate::code;
use crate::partition::{LEADER_EPOCH, Partition};
use crate::protocol::Answer;
use crate::security::acl::Operation;

/// Behind the last record.
const LATEST: i64 = -1;
/// The first record.
const EARLIEST: i64 = -2;
/// The record with the largest timestamp.
const MAX_TIMESTAMP: i64 = -3;
/// The first record on local disk, which is the first one here.
const EARLIEST_LOCAL: i64 = -4;
/// The last record in tiered storage, of which there is none.
const LATEST_TIERED: i64 = -5;
/// Only what is behind no open transaction counts.
const READ_COMMITTED: i8 = 1;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let version = call.version;
    let mut fields = call.fields();
    fields.i32("replica id")?;
    let mut committed_only = false;
    if version >= 2 {
        committed_only = fields.i8("isolation level")? == READ_COMMITTED;
        answer.i32(0);
    }
    let topics = fields.array("topics")?;
    answer.array(topics);
    let mut seen = HashSet::new();
    for _ in 0..topics {
        let name = fields.string("topic")?;
        answer.string(name);
        let allowed = call.allows_topic(Operation::Describe, name);
        let topic = call.node.topics.by_name(name).filter(|_| allowed);
        let partitions = fields.array("partitions")?;
        answer.array(partitions);
        for _ in 0..partitions {
            let index = fields.i32("partition")?;
            if version >= 4 {
                fields.i32("current leader epoch")?;
            }
            let timestamp = fields.i64("timestamp")?;
            fields.tags()?;
            // A look-up may read the disk, so a request makes no more of them than there are partitions.
            let is_first = seen.insert((name, index));
            let partition = topic.as_ref().and_then(|topic| topic.partition(index)).filter(|_| is_first);
            let (error, at) = match partition.map(|partition| look_up(partition, timestamp, committed_only)) {
                None if allowed && !is_first => (code::INVALID_REQUEST, (-1, -1)),
                None if !allowed => (code::TOPIC_AUTHORIZATION_FAILED, (-1, -1)),
                None => (code::UNKNOWN_TOPIC_OR_PARTITION, (-1, -1)),
                Some(Ok(at)) => (code::NONE, at),
                Some(Err(_)) => (code::KAFKA_STORAGE_ERROR, (-1, -1)),
            };
            answer.i32(index);
            answer.i16(error);
            answer.i64(at.0);
            answer.i64(at.1);
            if version >= 4 {
                answer.i32(if at.1 < 0 { -1 } else { LEADER_EPOCH });
            }
            answer.tags();
        }
        fields.tags()?;
        answer.tags();
    }
    if version >= 10 {
        fields.i32("timeout")?;
    }
    fields.tags()?;
    answer.tags();
    Ok(Outcome::Reply)
}

/// Timestamp and offset; -1 for what there is not.
fn look_up(partition: &Partition, timestamp: i64, committed_only: bool) -> io::Result<(i64, i64)> {
    let bounds = partition.bounds();
    let end = if committed_only { bounds.last_stable } else { bounds.high_watermark };
    let found = match timestamp {
        LATEST => Some((-1, end)),
        EARLIEST | EARLIEST_LOCAL => Some((-1, bounds.log_start)),
        LATEST_TIERED => None,
        MAX_TIMESTAMP => partition.max_timestamp()?.filter(|(_, offset)| *offset < end),
        time => partition.offset_for_timestamp(time)?.filter(|(_, offset)| *offset < end),
    };
    Ok(found.unwrap_or((-1, -1)))
}

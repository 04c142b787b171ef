//! OffsetForLeaderEpoch: where the records of an epoch end. There is one epoch, so they end where the log does.

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use crate::code;
use crate::partition::{LEADER_EPOCH, Partition};
use crate::protocol::Answer;
use crate::security::acl::Operation;

/// What there is not, be it an epoch or its end.
const UNDEFINED: i32 = -1;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let mut fields = call.fields();
    if call.version >= 3 {
        fields.i32("replica id")?;
    }
    let topics = fields.array("topics")?;
    // What brokers ask each other as followers, too.
    let is_broker = call.allows_cluster(Operation::ClusterAction);
    answer.i32(0);
    answer.array(topics);
    for _ in 0..topics {
        let name = fields.string("topic")?;
        let forbidden = if is_broker { None } else { call.topic_refusal(Operation::Describe, name) };
        let topic = call.node.topics.by_name(name);
        let partitions = fields.array("partitions")?;
        answer.string(name);
        answer.array(partitions);
        for _ in 0..partitions {
            let index = fields.i32("partition")?;
            let current = fields.i32("current leader epoch")?;
            let asked = fields.i32("leader epoch")?;
            fields.tags()?;
            let partition = topic.as_ref().and_then(|topic| topic.partition(index));
            let look_up = || look_up(partition.map(AsRef::as_ref), current, asked);
            let (error, (epoch, end)) = match forbidden.map_or_else(look_up, Err) {
                Ok(found) => (code::NONE, found),
                Err(error) => (error, (UNDEFINED, UNDEFINED.into())),
            };
            answer.i16(error);
            answer.i32(index);
            answer.i32(epoch);
            answer.i64(end);
            answer.tags();
        }
        fields.tags()?;
        answer.tags();
    }
    fields.tags()?;
    answer.tags();
    Ok(Outcome::Reply)
}

/// The epoch and where it ends.
fn look_up(partition: Option<&Partition>, current: i32, asked: i32) -> Result<(i32, i64), i16> {
    let partition = partition.ok_or(code::UNKNOWN_TOPIC_OR_PARTITION)?;
    if current != UNDEFINED && current < LEADER_EPOCH {
        return Err(code::FENCED_LEADER_EPOCH);
    }
    if current > LEADER_EPOCH {
        return Err(code::UNKNOWN_LEADER_EPOCH);
    }
    if asked == LEADER_EPOCH {
        return Ok((LEADER_EPOCH, partition.bounds().high_watermark));
    }
    Ok((UNDEFINED, UNDEFINED.into()))
}

//! DescribeProducers: who has written to partitions, and since where a transaction is open in them.

use std::collections::HashSet;

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use crate::code;
use crate::partition::Partition;
use crate::protocol::Answer;
use crate::security::acl::Operation;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let mut fields = call.fields();
    answer.i32(0);
    let topics = fields.array("topics")?;
    answer.array(topics);
    let mut seen = HashSet::new();
    for _ in 0..topics {
        let name = fields.string("topic")?;
        answer.string(name);
        let allowed = call.allows_topic(Operation::Read, name);
        let topic = call.node.topics.by_name(name).filter(|_| allowed);
        let partitions = fields.array("partitions")?;
        answer.array(partitions);
        for _ in 0..partitions {
            let index = fields.i32("partition")?;
            answer.i32(index);
            let absent =
                if allowed { code::UNKNOWN_TOPIC_OR_PARTITION } else { code::TOPIC_AUTHORIZATION_FAILED };
            // Described over and over, a partition of a few bytes would make an answer of gigabytes.
            let is_first = seen.insert((name, index));
            let absent = if allowed && !is_first { code::INVALID_REQUEST } else { absent };
            let partition = topic.as_ref().and_then(|topic| topic.partition(index)).filter(|_| is_first);
            describe(answer, partition.ok_or(absent).map(AsRef::as_ref));
        }
        fields.tags()?;
        answer.tags();
    }
    fields.tags()?;
    answer.tags();
    Ok(Outcome::Reply)
}

fn describe(answer: &mut Answer<'_>, partition: Result<&Partition, i16>) {
    answer.i16(partition.err().unwrap_or(code::NONE));
    answer.nullable_string(None);
    let producers = partition.map(Partition::producers).unwrap_or_default();
    answer.array(producers.len());
    for producer in producers {
        answer.i64(producer.producer_id);
        answer.i32(i32::from(producer.epoch));
        answer.i32(producer.last_sequence);
        answer.i64(producer.last_timestamp);
        answer.i32(producer.coordinator_epoch);
        answer.i64(producer.txn_start.unwrap_or(-1));
        answer.tags();
    }
    answer.tags();
}

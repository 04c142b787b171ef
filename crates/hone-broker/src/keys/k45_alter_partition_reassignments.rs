//! AlterPartitionReassignments: with one broker a partition can only be moved to where it is.

use hone_kafka::WireError;

use super::call::{Call, NOT_ALLOWED, Outcome};
use super::resource::{Refusal, check_replicas};
use crate::code;
use crate::protocol::Answer;
use crate::security::acl::Operation;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let mut fields = call.fields();
    fields.i32("timeout")?;
    answer.i32(0);
    if call.version >= 1 {
        answer.bool(fields.bool("allow replication factor change")?);
    }
    let topics = fields.array("topics")?;
    let forbidden = call.cluster_refusal(Operation::Alter).map(|error| (error, NOT_ALLOWED.to_owned()));
    answer.i16(forbidden.as_ref().map_or(code::NONE, |(error, _)| *error));
    answer.nullable_string(forbidden.as_ref().map(|(_, message)| message.as_str()));
    answer.array(topics);
    for _ in 0..topics {
        let name = fields.string("topic")?;
        let topic = call.node.topics.by_name(name);
        let partitions = fields.array("partitions")?;
        answer.string(name);
        answer.array(partitions);
        for _ in 0..partitions {
            let index = fields.i32("partition")?;
            let mut brokers = None;
            if let Some(count) = fields.nullable_array("replicas")? {
                let mut ids = Vec::new();
                for _ in 0..count {
                    ids.push(fields.i32("broker id")?);
                }
                brokers = Some(ids);
            }
            fields.tags()?;
            let exists = topic.as_ref().is_some_and(|topic| topic.partition(index).is_some());
            let outcome = match &forbidden {
                Some(refusal) => Err(refusal.clone()),
                None => judge(exists, brokers.as_deref()),
            };
            answer.i32(index);
            answer.i16(outcome.as_ref().map_or_else(|(error, _)| *error, |()| code::NONE));
            answer.nullable_string(outcome.err().map(|(_, message)| message).as_deref());
            answer.tags();
        }
        fields.tags()?;
        answer.tags();
    }
    fields.tags()?;
    answer.tags();
    Ok(Outcome::Reply)
}

/// `None` for the brokers takes a reassignment back, and there never is one.
fn judge(exists: bool, brokers: Option<&[i32]>) -> Result<(), Refusal> {
    if !exists {
        return Err((code::UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition".to_owned()));
    }
    match brokers {
        Some(brokers) => check_replicas(brokers),
        None => Err((
            code::NO_REASSIGNMENT_IN_PROGRESS,
            "no partition is being moved in a cluster of one broker".to_owned(),
        )),
    }
}

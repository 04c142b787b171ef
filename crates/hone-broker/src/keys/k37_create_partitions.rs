//! CreatePartitions: more partitions for topics that are there.

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use super::resource::{Refusal, check_replicas, refusal, repeated};
use crate::code;
use crate::node::Node;
use crate::protocol::{Answer, Fields};
use crate::security::acl::Operation;

struct Asked {
    topic: String,
    forbidden: Option<i16>,
    /// How many there shall be.
    count: i32,
    /// The brokers of each new partition.
    assignments: Option<Vec<Vec<i32>>>,
}

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    if call.take_answer(answer) {
        return Ok(Outcome::Reply);
    }
    let mut fields = call.fields();
    let mut asked = Vec::new();
    for _ in 0..fields.array("topics")? {
        asked.push(read_topic(call, &mut fields)?);
    }
    fields.i32("timeout")?;
    let validate_only = fields.bool("validate only")?;
    fields.tags()?;
    Ok(call.by_clerk(move |node, answer| {
        let repeated = repeated(asked.iter().map(|one| one.topic.as_str()));
        answer.i32(0);
        answer.array(asked.len());
        for one in &asked {
            let outcome = grow(node, one, repeated.contains(one.topic.as_str()), validate_only);
            answer.string(&one.topic);
            answer.i16(outcome.as_ref().map_or_else(|(error, _)| *error, |()| code::NONE));
            answer.nullable_string(outcome.err().map(|(_, message)| message).as_deref());
            answer.tags();
        }
        answer.tags();
    }))
}

fn read_topic(call: &Call<'_>, fields: &mut Fields<'_>) -> Result<Asked, WireError> {
    let topic = fields.string("topic")?.to_owned();
    let count = fields.i32("count")?;
    let mut assignments = None;
    if let Some(assigned) = fields.nullable_array("assignments")? {
        let mut all = Vec::new();
        for _ in 0..assigned {
            let mut brokers = Vec::new();
            for _ in 0..fields.array("broker ids")? {
                brokers.push(fields.i32("broker id")?);
            }
            fields.tags()?;
            all.push(brokers);
        }
        assignments = Some(all);
    }
    fields.tags()?;
    let forbidden = call.topic_refusal(Operation::Alter, &topic);
    Ok(Asked { topic, forbidden, count, assignments })
}

fn grow(node: &Node, asked: &Asked, repeated: bool, validate_only: bool) -> Result<(), Refusal> {
    if repeated {
        return Err((code::INVALID_REQUEST, "the topic appears more than once in the request".to_owned()));
    }
    if let Some(error) = asked.forbidden {
        return Err((error, format!("not allowed to add partitions to topic `{}`", asked.topic)));
    }
    // Whether it could grow comes first: what is said about assignments counts on it.
    node.topics.grow(&asked.topic, asked.count, true).map_err(|error| refusal(node, &error))?;
    if let Some(assignments) = &asked.assignments {
        let now = node.topics.by_name(&asked.topic).map_or(0, |topic| topic.partitions.len());
        let more = usize::try_from(asked.count).unwrap_or(0).saturating_sub(now);
        if assignments.len() != more {
            let message = format!("{more} more partitions, and assignments for {}", assignments.len());
            return Err((code::INVALID_REPLICA_ASSIGNMENT, message));
        }
        assignments.iter().try_for_each(|brokers| check_replicas(brokers))?;
    }
    if validate_only {
        return Ok(());
    }
    node.topics.grow(&asked.topic, asked.count, false).map_err(|error| refusal(node, &error))
}

//! ConsumerGroupDescribe: who is in consumer groups, and how far each has got.

use std::collections::{BTreeMap, BTreeSet};

use hone_kafka::WireError;

use super::call::{Call, Outcome, once};
use crate::code;
use crate::groups::{ConsumerDescription, ConsumerMemberDescription};
use crate::protocol::Answer;
use crate::security::acl::{Operation, Resource};

/// A member that speaks the consumer protocol, in the protocol's numbers.
const CONSUMER_MEMBER: i8 = 1;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let version = call.version;
    let mut fields = call.fields();
    let mut groups = Vec::new();
    for _ in 0..fields.array("groups")? {
        groups.push(fields.string("group id")?);
    }
    let with_operations = fields.bool("include authorized operations")?;
    fields.tags()?;
    answer.i32(0);
    let groups = once(groups);
    answer.array(groups.len());
    for group in groups {
        let found = describe(call, group);
        answer.i16(found.as_ref().map_or_else(|(error, _)| *error, |_| code::NONE));
        answer.nullable_string(found.as_ref().err().map(|(_, message)| *message));
        answer.string(group);
        match &found {
            Ok(found) => write(answer, version, found),
            Err(_) => write_nothing(answer),
        }
        answer.i32(call.operations(with_operations && found.is_ok(), Resource::Group, group));
        answer.tags();
    }
    answer.tags();
    Ok(Outcome::Reply)
}

fn describe(call: &Call<'_>, group: &str) -> Result<ConsumerDescription, (i16, &'static str)> {
    if let Some(error) = call.group_refusal(Operation::Describe, group) {
        return Err((error, "not allowed to see the group"));
    }
    let found = call.node.with_groups(|groups, _| groups.describe_consumer(group));
    let found = found.ok_or((code::GROUP_ID_NOT_FOUND, "there is no such consumer group"))?;
    let assigned = found.members.iter().flat_map(|member| member.assigned.iter().chain(&member.target));
    let topics: BTreeSet<_> = assigned.filter_map(|(id, _)| found.topics.get(id)).collect();
    let refused = topics.into_iter().find_map(|topic| call.topic_refusal(Operation::Describe, topic));
    match refused {
        Some(error) => Err((error, "the group reads topics that the client may not see")),
        None => Ok(found),
    }
}

fn write_nothing(answer: &mut Answer<'_>) {
    answer.string("");
    answer.i32(0);
    answer.i32(0);
    answer.string("");
    answer.array(0);
}

fn write(answer: &mut Answer<'_>, version: i16, group: &ConsumerDescription) {
    answer.string(group.state);
    answer.i32(group.epoch);
    answer.i32(group.assignment_epoch);
    answer.string(group.assignor);
    answer.array(group.members.len());
    for member in &group.members {
        write_member(answer, version, member, &group.topics);
    }
}

fn write_member(
    answer: &mut Answer<'_>,
    version: i16,
    member: &ConsumerMemberDescription,
    topics: &BTreeMap<u128, String>,
) {
    answer.string(&member.id);
    answer.nullable_string(member.instance.as_deref());
    answer.nullable_string(member.rack.as_deref());
    answer.i32(member.epoch);
    answer.string(&member.client_id);
    answer.string(&member.client_host);
    answer.array(member.names.len());
    member.names.iter().for_each(|name| answer.string(name));
    answer.nullable_string(member.pattern.as_deref());
    write_assignment(answer, &member.assigned, topics);
    write_assignment(answer, &member.target, topics);
    if version >= 1 {
        answer.i8(CONSUMER_MEMBER);
    }
    answer.tags();
}

fn write_assignment(
    answer: &mut Answer<'_>,
    partitions: &BTreeSet<(u128, i32)>,
    topics: &BTreeMap<u128, String>,
) {
    let mut named: BTreeMap<(u128, &str), Vec<i32>> = BTreeMap::new();
    for (id, partition) in partitions {
        // A topic that was deleted has no name any more.
        if let Some(name) = topics.get(id) {
            named.entry((*id, name)).or_default().push(*partition);
        }
    }
    answer.array(named.len());
    for ((id, name), partitions) in named {
        answer.uuid(id);
        answer.string(name);
        answer.array(partitions.len());
        partitions.into_iter().for_each(|partition| answer.i32(partition));
        answer.tags();
    }
    answer.tags();
}

//! DescribeGroups: who is in classic groups, and who has what.

use hone_kafka::WireError;

use super::call::{Call, Outcome, once};
use crate::code;
use crate::groups::GroupDescription;
use crate::protocol::Answer;
use crate::security::acl::{Operation, Resource};

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let version = call.version;
    let mut fields = call.fields();
    let mut groups = Vec::new();
    for _ in 0..fields.array("groups")? {
        groups.push(fields.string("group id")?);
    }
    let with_operations = version >= 3 && fields.bool("include authorized operations")?;
    fields.tags()?;
    if version >= 1 {
        answer.i32(0);
    }
    let groups = once(groups);
    answer.array(groups.len());
    for group in groups {
        let (error, message, found) = describe(call, group);
        answer.i16(error);
        if version >= 6 {
            answer.nullable_string(message);
        }
        answer.string(group);
        write(answer, version, &found);
        if version >= 3 {
            let asked = with_operations && error == code::NONE;
            answer.i32(call.operations(asked, Resource::Group, group));
        }
        answer.tags();
    }
    answer.tags();
    Ok(Outcome::Reply)
}

/// Error and message, and what there is to say all the same.
fn describe(call: &Call<'_>, group: &str) -> (i16, Option<&'static str>, GroupDescription) {
    if let Some(error) = call.group_refusal(Operation::Describe, group) {
        return (error, Some("not allowed to see the group"), nobody(""));
    }
    match find(call, group) {
        Some(found) => (code::NONE, None, found),
        // Older clients take a group that is not there for a dead one.
        None if call.version < 6 => (code::NONE, None, nobody("Dead")),
        None => (code::GROUP_ID_NOT_FOUND, Some("there is no such classic group"), nobody("Dead")),
    }
}

fn find(call: &Call<'_>, group: &str) -> Option<GroupDescription> {
    let (found, known) = call.node.with_groups(|groups, _| (groups.describe(group), groups.contains(group)));
    // A group that only ever stored offsets has no members, and is there.
    found.or_else(|| (!known && call.node.offsets.knows(group)).then(|| nobody("Empty")))
}

fn nobody(state: &'static str) -> GroupDescription {
    GroupDescription { state, protocol_type: String::new(), protocol: String::new(), members: Vec::new() }
}

fn write(answer: &mut Answer<'_>, version: i16, group: &GroupDescription) {
    answer.string(group.state);
    answer.string(&group.protocol_type);
    answer.string(&group.protocol);
    answer.array(group.members.len());
    for member in &group.members {
        answer.string(&member.id);
        if version >= 4 {
            answer.nullable_string(member.instance.as_deref());
        }
        answer.string(&member.client_id);
        answer.string(&member.client_host);
        answer.bytes(&member.metadata);
        answer.bytes(&member.assignment);
        answer.tags();
    }
}

//! DescribeGroups: who is in classic groups, and who has what.

use hone_kafka::WireError;

use super::{Call, GROUP_OPERATIONS, NOT_ASKED, Outcome};
use crate::code;
use crate::groups::GroupDescription;
use crate::protocol::Answer;

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
    answer.array(groups.len());
    for group in groups {
        let found = describe(call, group);
        let missing = found.is_none();
        // Older clients take a group that is not there for a dead one.
        answer.i16(if missing && version >= 6 { code::GROUP_ID_NOT_FOUND } else { code::NONE });
        if version >= 6 {
            answer.nullable_string(missing.then_some("there is no such classic group"));
        }
        answer.string(group);
        write(answer, version, &found.unwrap_or_else(|| nobody("Dead")));
        if version >= 3 {
            answer.i32(if with_operations { GROUP_OPERATIONS } else { NOT_ASKED });
        }
        answer.tags();
    }
    answer.tags();
    Ok(Outcome::Reply)
}

fn describe(call: &Call<'_>, group: &str) -> Option<GroupDescription> {
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

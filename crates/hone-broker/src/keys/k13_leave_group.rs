//! LeaveGroup: members go without waiting for their session to end.

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use crate::code;
use crate::groups::Now;
use crate::protocol::Answer;
use crate::security::acl::Operation;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let version = call.version;
    let mut fields = call.fields();
    let group = fields.string("group id")?;
    let mut leaving = Vec::new();
    if version <= 2 {
        leaving.push((fields.string("member id")?, None));
    } else {
        for _ in 0..fields.array("members")? {
            let member = fields.string("member id")?;
            let instance = fields.nullable_string("group instance id")?;
            if version >= 5 {
                fields.nullable_string("reason")?;
            }
            fields.tags()?;
            leaving.push((member, instance));
        }
    }
    fields.tags()?;
    let left = match call.group_refusal(Operation::Read, group) {
        Some(error) => Err(error),
        // Each is looked for among all members.
        None if leaving.len() > call.node.settings.limits.group_members => Err(code::INVALID_REQUEST),
        None => call.node.with_groups(|groups, effects| groups.leave(Now::read(), group, &leaving, effects)),
    };
    let (error, errors) = match left {
        Ok(errors) => (code::NONE, errors),
        Err(error) => (error, Vec::new()),
    };
    if version >= 1 {
        answer.i32(0);
    }
    if version <= 2 {
        answer.i16(errors.first().copied().unwrap_or(error));
    } else {
        answer.i16(error);
        answer.array(errors.len());
        for ((member, instance), error) in leaving.iter().zip(errors) {
            answer.string(member);
            answer.nullable_string(*instance);
            answer.i16(error);
            answer.tags();
        }
    }
    answer.tags();
    Ok(Outcome::Reply)
}

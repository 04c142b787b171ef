//! LeaveGroup: members go without waiting for their session to end.

use std::time::Instant;

use hone_kafka::WireError;

use super::{Call, Outcome};
use crate::code;
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
    let now = Instant::now();
    let refused = call.group_refusal(Operation::Read, group);
    let errors: Vec<i16> = call.node.with_groups(|groups, due| {
        let mut leave = |member, instance| groups.leave(now, group, member, instance, due);
        leaving.iter().map(|(member, instance)| refused.unwrap_or_else(|| leave(member, *instance))).collect()
    });
    if version >= 1 {
        answer.i32(0);
    }
    if version <= 2 {
        answer.i16(errors.first().copied().unwrap_or(code::NONE));
    } else {
        answer.i16(refused.unwrap_or(code::NONE));
        answer.array(leaving.len());
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

//! Heartbeat: a member lives, and learns that it must join again.

use std::time::Instant;

use hone_kafka::WireError;

use super::{Call, Outcome};
use crate::groups::Who;
use crate::protocol::Answer;
use crate::security::acl::Operation;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let version = call.version;
    let mut fields = call.fields();
    let who = Who {
        group: fields.string("group id")?,
        generation: fields.i32("generation id")?,
        member: fields.string("member id")?,
        instance: if version >= 3 { fields.nullable_string("group instance id")? } else { None },
    };
    fields.tags()?;
    if version >= 1 {
        answer.i32(0);
    }
    let beat = || call.node.with_groups(|groups, _| groups.heartbeat(Instant::now(), &who));
    answer.i16(call.group_refusal(Operation::Read, who.group).unwrap_or_else(beat));
    answer.tags();
    Ok(Outcome::Reply)
}

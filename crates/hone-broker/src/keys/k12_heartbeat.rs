//! Heartbeat: a member lives, and learns that it must join again.

use hone_kafka::WireError;

use super::call::{Call, Outcome, member_identity};
use crate::groups::Now;
use crate::protocol::Answer;
use crate::security::acl::Operation;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let version = call.version;
    let mut fields = call.fields();
    let who = member_identity(&mut fields, version >= 3)?;
    fields.tags()?;
    if version >= 1 {
        answer.i32(0);
    }
    let refused = call.group_refusal(Operation::Read, who.group);
    let beat = || call.node.with_groups(|groups, _| groups.heartbeat(Now::read(), &who));
    answer.i16(refused.unwrap_or_else(beat));
    answer.tags();
    Ok(Outcome::Reply)
}

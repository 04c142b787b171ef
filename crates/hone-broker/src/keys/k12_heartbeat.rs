//! Heartbeat: a member lives, and learns that it must join again.

use hone_kafka::WireError;

use super::{Call, Outcome, member_identity};
use crate::groups::Now;
use crate::protocol::Answer;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let version = call.version;
    let mut fields = call.fields();
    let who = member_identity(&mut fields, version >= 3)?;
    fields.tags()?;
    if version >= 1 {
        answer.i32(0);
    }
    answer.i16(call.node.with_groups(|groups, _| groups.heartbeat(Now::read(), &who)));
    answer.tags();
    Ok(Outcome::Reply)
}

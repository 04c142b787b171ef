//! SyncGroup: the leader brings the assignments, everyone gets its own.

use hone_kafka::WireError;

use super::call::{Call, Outcome, member_identity};
use crate::groups::{Now, SyncAnswer};
use crate::keys::park::{Attempt, Park};
use crate::protocol::Answer;
use crate::reply::Reply;
use crate::security::acl::Operation;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    if let Attempt::Answered(Reply::Sync(sync)) = &call.attempt {
        write(answer, call.version, sync);
        return Ok(Outcome::Reply);
    }
    if let Attempt::Answered(Reply::Code(error)) = &call.attempt {
        write(answer, call.version, &SyncAnswer::refused(*error));
        return Ok(Outcome::Reply);
    }
    let version = call.version;
    let mut fields = call.fields();
    let who = member_identity(&mut fields, version >= 3)?;
    let protocol = if version >= 5 {
        (fields.nullable_string("protocol type")?, fields.nullable_string("protocol name")?)
    } else {
        (None, None)
    };
    let mut assignments = Vec::new();
    for _ in 0..fields.array("assignments")? {
        let member = fields.string("member id")?.to_owned();
        assignments.push((member, fields.bytes("assignment")?.to_vec()));
        fields.tags()?;
    }
    fields.tags()?;
    if let Some(error) = call.group_refusal(Operation::Read, who.group) {
        write(answer, version, &SyncAnswer::refused(error));
        return Ok(Outcome::Reply);
    }
    let ticket = call.ticket;
    let synced = call.node.with_groups(|groups, effects| {
        groups.sync(Now::read(), ticket, &who, protocol, assignments, effects)
    });
    match synced {
        Some(sync) => {
            write(answer, version, &sync);
            Ok(Outcome::Reply)
        }
        None => Ok(Outcome::Park(Park::Reply)),
    }
}

fn write(answer: &mut Answer<'_>, version: i16, sync: &SyncAnswer) {
    if version >= 1 {
        answer.i32(0);
    }
    answer.i16(sync.error);
    if version >= 5 {
        answer.nullable_string(sync.protocol_type.as_deref());
        answer.nullable_string(sync.protocol.as_deref());
    }
    answer.bytes(&sync.assignment);
    answer.tags();
}

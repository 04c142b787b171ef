//! SyncGroup: the leader brings the assignments, everyone gets its own.

use std::time::Instant;

use hone_kafka::WireError;

use super::{Attempt, Call, Outcome, Park};
use crate::groups::{SyncAnswer, Who};
use crate::mailbox::Reply;
use crate::protocol::Answer;
use crate::security::acl::Operation;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    if let Attempt::Answered(Reply::Sync(sync)) = &call.attempt {
        write(answer, call.version, sync);
        return Ok(Outcome::Reply);
    }
    let version = call.version;
    let mut fields = call.fields();
    let who = Who {
        group: fields.string("group id")?,
        generation: fields.i32("generation id")?,
        member: fields.string("member id")?,
        instance: if version >= 3 { fields.nullable_string("group instance id")? } else { None },
    };
    if version >= 5 {
        fields.nullable_string("protocol type")?;
        fields.nullable_string("protocol name")?;
    }
    let mut assignments = Vec::new();
    for _ in 0..fields.array("assignments")? {
        let member = fields.string("member id")?.to_owned();
        assignments.push((member, fields.bytes("assignment")?.to_vec()));
        fields.tags()?;
    }
    fields.tags()?;
    let ticket = call.ticket;
    if let Some(error) = call.group_refusal(Operation::Read, who.group) {
        write(answer, version, &SyncAnswer { error, ..SyncAnswer::default() });
        return Ok(Outcome::Reply);
    }
    let synced =
        call.node.with_groups(|groups, due| groups.sync(Instant::now(), ticket, &who, assignments, due));
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

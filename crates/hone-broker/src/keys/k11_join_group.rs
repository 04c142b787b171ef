//! JoinGroup: a member comes in and waits for the others.

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use crate::groups::{Join, JoinAnswer, Now};
use crate::keys::park::{Attempt, Park};
use crate::protocol::Answer;
use crate::reply::Reply;
use crate::security::acl::Operation;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    if let Attempt::Answered(Reply::Join(join)) = &call.attempt {
        write(answer, call.version, join);
        return Ok(Outcome::Reply);
    }
    let join = read(call)?;
    if let Attempt::Answered(Reply::Code(error)) = &call.attempt {
        write(answer, call.version, &JoinAnswer::refused(*error, &join.member));
        return Ok(Outcome::Reply);
    }
    if let Some(error) = call.group_refusal(Operation::Read, &join.group) {
        write(answer, call.version, &JoinAnswer::refused(error, &join.member));
        return Ok(Outcome::Reply);
    }
    let ticket = call.ticket;
    match call.node.with_groups(|groups, effects| groups.join(Now::read(), ticket, join, effects)) {
        Some(join) => {
            write(answer, call.version, &join);
            Ok(Outcome::Reply)
        }
        None => Ok(Outcome::Park(Park::Reply)),
    }
}

fn read(call: &Call<'_>) -> Result<Join, WireError> {
    let version = call.version;
    let mut fields = call.fields();
    let group = fields.string("group id")?.to_owned();
    let session_ms = fields.i32("session timeout")?;
    let rebalance_ms = if version >= 1 { fields.i32("rebalance timeout")? } else { session_ms };
    let member = fields.string("member id")?.to_owned();
    let instance = if version >= 5 { fields.nullable_string("group instance id")? } else { None };
    let protocol_type = fields.string("protocol type")?.to_owned();
    let mut protocols = Vec::new();
    for _ in 0..fields.array("protocols")? {
        let name = fields.string("protocol")?.to_owned();
        protocols.push((name, fields.bytes("protocol metadata")?.to_vec()));
        fields.tags()?;
    }
    if version >= 8 {
        fields.nullable_string("reason")?;
    }
    fields.tags()?;
    Ok(Join {
        group,
        member,
        instance: instance.map(str::to_owned),
        client_id: call.client_id().to_owned(),
        client_host: call.client_host(),
        session_ms,
        rebalance_ms,
        protocol_type,
        protocols,
        id_required: version >= 4,
        can_skip_assignment: version >= 9,
    })
}

fn write(answer: &mut Answer<'_>, version: i16, join: &JoinAnswer) {
    if version >= 2 {
        answer.i32(0);
    }
    answer.i16(join.error);
    answer.i32(join.generation);
    if version >= 7 {
        answer.nullable_string(join.protocol_type.as_deref());
        answer.nullable_string(join.protocol.as_deref());
    } else {
        answer.string(join.protocol.as_deref().unwrap_or_default());
    }
    answer.string(&join.leader);
    if version >= 9 {
        answer.bool(join.skip_assignment);
    }
    answer.string(&join.member);
    answer.array(join.members.len());
    for (member, instance, metadata) in &join.members {
        answer.string(member);
        if version >= 5 {
            answer.nullable_string(instance.as_deref());
        }
        answer.bytes(metadata);
        answer.tags();
    }
    answer.tags();
}

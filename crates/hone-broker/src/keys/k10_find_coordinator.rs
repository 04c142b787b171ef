//! FindCoordinator: always this broker, for groups and for transactions.

use hone_kafka::WireError;

use super::call::{Call, Outcome, once};
use crate::code;
use crate::endpoint::NODE_ID;
use crate::protocol::Answer;
use crate::security::acl::Operation;

/// What is coordinated, in the protocol's numbers.
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let version = call.version;
    let mut fields = call.fields();
    let key = if version <= 3 { fields.string("key")? } else { "" };
    let key_type = if version >= 1 { fields.i8("key type")? } else { GROUP };
    if version >= 1 {
        answer.i32(0);
    }
    if version <= 3 {
        fields.tags()?;
        let (error, message) = judge(call, key_type, key);
        answer.i16(error);
        if version >= 1 {
            answer.nullable_string(message);
        }
        write_node(call, answer, error);
        answer.tags();
        return Ok(Outcome::Reply);
    }
    let mut keys = Vec::new();
    for _ in 0..fields.array("coordinator keys")? {
        keys.push(fields.string("key")?);
    }
    fields.tags()?;
    let keys = once(keys);
    answer.array(keys.len());
    for key in keys {
        let (error, message) = judge(call, key_type, key);
        answer.string(key);
        write_node(call, answer, error);
        answer.i16(error);
        answer.nullable_string(message);
        answer.tags();
    }
    answer.tags();
    Ok(Outcome::Reply)
}

/// Whether the client may know the coordinator.
fn judge(call: &Call<'_>, key_type: i8, key: &str) -> (i16, Option<&'static str>) {
    let refused = match key_type {
        GROUP => {
            call.group_refusal(Operation::Describe, key).map(|error| (error, "not allowed to see the group"))
        }
        TRANSACTION => call
            .transaction_refusal(Operation::Describe, key)
            .map(|error| (error, "not allowed to see the transactional id")),
        _ => Some((code::INVALID_REQUEST, "this broker coordinates groups and transactions only")),
    };
    refused.map_or((code::NONE, None), |(error, message)| (error, Some(message)))
}

fn write_node(call: &Call<'_>, answer: &mut Answer<'_>, error: i16) {
    if error == code::NONE {
        answer.i32(NODE_ID);
        answer.string(&call.node.advertised.host);
        answer.i32(i32::from(call.node.advertised.port));
    } else {
        answer.i32(-1);
        answer.string("");
        answer.i32(-1);
    }
}

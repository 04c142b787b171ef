//! FindCoordinator: always this broker.

use hone_kafka::WireError;

use super::{Call, Outcome};
use crate::code;
use crate::node::NODE_ID;
use crate::protocol::Answer;
use crate::security::acl::Operation;

const GROUP: i8 = 0;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let version = call.version;
    let mut fields = call.fields();
    let key = if version <= 3 { fields.string("key")? } else { "" };
    let key_type = if version >= 1 { fields.i8("key type")? } else { GROUP };
    let error = if key_type == GROUP { code::NONE } else { code::INVALID_REQUEST };
    let message = (error != code::NONE).then_some("this broker coordinates consumer groups only");
    if version >= 1 {
        answer.i32(0);
    }
    if version <= 3 {
        fields.tags()?;
        let (error, message) = judge(call, error, message, key);
        answer.i16(error);
        if version >= 1 {
            answer.nullable_string(message);
        }
        write_node(call, answer, error);
        answer.tags();
        return Ok(Outcome::Reply);
    }
    let keys = fields.array("coordinator keys")?;
    answer.array(keys);
    for _ in 0..keys {
        let key = fields.string("key")?;
        let (error, message) = judge(call, error, message, key);
        answer.string(key);
        write_node(call, answer, error);
        answer.i16(error);
        answer.nullable_string(message);
        answer.tags();
    }
    fields.tags()?;
    answer.tags();
    Ok(Outcome::Reply)
}

/// Whether the client may know the coordinator of a group.
fn judge(
    call: &Call<'_>,
    error: i16,
    message: Option<&'static str>,
    group: &str,
) -> (i16, Option<&'static str>) {
    match call.group_refusal(Operation::Describe, group).filter(|_| error == code::NONE) {
        Some(refused) => (refused, Some("not allowed to see the group")),
        None => (error, message),
    }
}

fn write_node(call: &Call<'_>, answer: &mut Answer<'_>, error: i16) {
    if error == code::NONE {
        answer.i32(NODE_ID);
        answer.string(&call.node.advertised.ip().to_string());
        answer.i32(i32::from(call.node.advertised.port()));
    } else {
        answer.i32(-1);
        answer.string("");
        answer.i32(-1);
    }
}

//! InitProducerId: a new id for each producer that asks. An idempotent producer that asks again gets a new one, too.

use hone_kafka::WireError;

use super::{Call, Outcome};
use crate::code;
use crate::protocol::Answer;
use crate::security::acl::{Operation, Resource};

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let mut fields = call.fields();
    let transactional_id = fields.nullable_string("transactional id")?;
    let transactional = transactional_id.is_some();
    fields.i32("transaction timeout")?;
    if call.version >= 3 {
        fields.i64("producer id")?;
        fields.i16("producer epoch")?;
    }
    fields.tags()?;
    let (error, id) = if let Some(error) = refusal(call, transactional_id) {
        (error, -1)
    } else if transactional {
        (code::INVALID_REQUEST, -1)
    } else {
        match call.node.topics.new_producer_id() {
            Ok(id) => (code::NONE, id),
            Err(error) => {
                call.node.settings.notices.say(&format!("can't reserve producer ids: {error:#}"));
                (code::KAFKA_STORAGE_ERROR, -1)
            }
        }
    };
    answer.i32(0);
    answer.i16(error);
    answer.i64(id);
    answer.i16(if error == code::NONE { 0 } else { -1 });
    answer.tags();
    Ok(Outcome::Reply)
}

/// The error for a client that may not have a producer id.
fn refusal(call: &Call<'_>, transactional_id: Option<&str>) -> Option<i16> {
    match transactional_id {
        Some(id) if !call.allows(Operation::Write, Resource::TransactionalId, id) => {
            Some(code::TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        }
        Some(_) => None,
        None if call.allows_cluster(Operation::IdempotentWrite) => None,
        None => {
            let writes = call.allows_any(Operation::Write, Resource::Topic);
            (!writes).then_some(code::CLUSTER_AUTHORIZATION_FAILED)
        }
    }
}

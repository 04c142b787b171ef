//! InitProducerId: an id for a producer. An idempotent one gets a new id each time; a transactional one gets its own,
//! under a new epoch, which fences every older instance of it.

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use crate::code;
use crate::keys::park::{Attempt, Park};
use crate::protocol::Answer;
use crate::reply::Reply;
use crate::security::acl::{Operation, Resource};
use crate::transactions::producer::Producer;

/// From here on clients know that being fenced is not the same as an invalid epoch.
const KNOWS_FENCED: i16 = 4;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let given = match &call.attempt {
        Attempt::Answered(Reply::Producer(producer)) => Ok(Some(*producer)),
        Attempt::Answered(Reply::Code(error)) => Err(*error),
        _ => give(call)?,
    };
    let (error, producer) = match given {
        Ok(None) => return Ok(Outcome::Park(Park::Reply)),
        Ok(Some(producer)) => (code::NONE, producer),
        Err(code::PRODUCER_FENCED) if call.version < KNOWS_FENCED => {
            (code::INVALID_PRODUCER_EPOCH, Producer::NONE)
        }
        Err(error) => (error, Producer::NONE),
    };
    answer.i32(0);
    answer.i16(error);
    answer.i64(producer.id);
    answer.i16(producer.epoch);
    answer.tags();
    Ok(Outcome::Reply)
}

/// Whom the client is to be, or an error code; nothing when that comes later.
fn give(call: &Call<'_>) -> Result<Result<Option<Producer>, i16>, WireError> {
    let mut fields = call.fields();
    let name = fields.nullable_string("transactional id")?;
    let timeout_ms = fields.i32("transaction timeout")?;
    let mut said = Producer::NONE;
    if call.version >= 3 {
        said = Producer { id: fields.i64("producer id")?, epoch: fields.i16("producer epoch")? };
    }
    fields.tags()?;
    if let Some(error) = refusal(call, name) {
        return Ok(Err(error));
    }
    let claimed = match (said.id, said.epoch) {
        (-1, -1) => None,
        (-1, _) | (_, -1) => return Ok(Err(code::INVALID_REQUEST)),
        _ => Some(said),
    };
    Ok(call.with_fresh_ids(|fresh_id| match name {
        None => fresh_id().map(|id| Some(Producer { id, epoch: 0 })),
        Some(name) => {
            let transactions = &call.node.transactions;
            transactions.claim(call.ticket, name, timeout_ms, claimed, fresh_id).map(|()| None)
        }
    }))
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

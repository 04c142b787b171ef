//! EndTxn: a transaction commits or aborts. From version 5 on the producer gets a new epoch with it.

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use crate::code;
use crate::keys::park::{Attempt, Park};
use crate::protocol::Answer;
use crate::reply::Reply;
use crate::security::acl::Operation;
use crate::transactions::producer::Producer;
use crate::transactions::{Decision, Protocol};

/// From here on clients know that being fenced is not the same as an invalid epoch.
const KNOWS_FENCED: i16 = 2;
/// First version of the second protocol.
const RAISES_EPOCH: i16 = 5;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let version = call.version;
    let ended = match &call.attempt {
        Attempt::Answered(Reply::Producer(successor)) => Ok(Some(*successor)),
        Attempt::Answered(Reply::Code(error)) => Err(*error),
        _ => end(call)?,
    };
    let (error, successor) = match ended {
        Ok(None) => return Ok(Outcome::Park(Park::Reply)),
        Ok(Some(successor)) => (code::NONE, successor),
        Err(code::PRODUCER_FENCED) if version < KNOWS_FENCED => {
            (code::INVALID_PRODUCER_EPOCH, Producer::NONE)
        }
        Err(error) => (error, Producer::NONE),
    };
    answer.i32(0);
    answer.i16(error);
    if version >= RAISES_EPOCH {
        answer.i64(successor.id);
        answer.i16(successor.epoch);
    }
    answer.tags();
    Ok(Outcome::Reply)
}

/// Whom the client is to be, or an error code; nothing when that comes later.
fn end(call: &Call<'_>) -> Result<Result<Option<Producer>, i16>, WireError> {
    let mut fields = call.fields();
    let name = fields.string("transactional id")?;
    let producer = Producer { id: fields.i64("producer id")?, epoch: fields.i16("producer epoch")? };
    if let Some(error) = call.transaction_refusal(Operation::Write, name) {
        return Ok(Err(error));
    }
    let decision = if fields.bool("committed")? { Decision::Commit } else { Decision::Abort };
    fields.tags()?;
    let protocol = if call.version >= RAISES_EPOCH { Protocol::Second } else { Protocol::First };
    let transactions = &call.node.transactions;
    Ok(call.with_fresh_ids(|fresh_id| {
        transactions.end(call.ticket, name, producer, decision, protocol, fresh_id)
    }))
}

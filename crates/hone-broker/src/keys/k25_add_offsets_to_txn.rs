//! AddOffsetsToTxn: a transaction is about to commit offsets of a group.

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use crate::code;
use crate::keys::park::{Attempt, Park};
use crate::protocol::Answer;
use crate::reply::Reply;
use crate::security::acl::Operation;
use crate::transactions::Places;
use crate::transactions::producer::Producer;

/// From here on clients know that being fenced is not the same as an invalid epoch.
const KNOWS_FENCED: i16 = 2;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let error = match &call.attempt {
        Attempt::Answered(Reply::Code(error)) => *error,
        _ => match add(call)? {
            Ok(true) => return Ok(Outcome::Park(Park::Reply)),
            Ok(false) => code::NONE,
            Err(error) => error,
        },
    };
    let fenced = error == code::PRODUCER_FENCED && call.version < KNOWS_FENCED;
    answer.i32(0);
    answer.i16(if fenced { code::INVALID_PRODUCER_EPOCH } else { error });
    answer.tags();
    Ok(Outcome::Reply)
}

/// Whether there is something to wait for, or an error code.
fn add(call: &Call<'_>) -> Result<Result<bool, i16>, WireError> {
    let mut fields = call.fields();
    let name = fields.string("transactional id")?;
    let producer = Producer { id: fields.i64("producer id")?, epoch: fields.i16("producer epoch")? };
    let group = fields.string("group id")?;
    fields.tags()?;
    let refused = call.transaction_refusal(Operation::Write, name);
    if let Some(error) = refused.or_else(|| call.group_refusal(Operation::Read, group)) {
        return Ok(Err(error));
    }
    let (results, waits) = call.node.transactions.add(call.ticket, [(name, producer, Places::group(group))]);
    Ok(results.into_iter().collect::<Result<(), i16>>().map(|()| waits))
}

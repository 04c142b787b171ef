//! ListPartitionReassignments: partitions never move in a cluster of one broker.

use hone_kafka::WireError;

use super::call::{Call, NOT_ALLOWED, Outcome};
use crate::code;
use crate::protocol::Answer;
use crate::security::acl::Operation;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let mut fields = call.fields();
    fields.i32("timeout")?;
    for _ in 0..fields.array("topics")? {
        fields.string("topic")?;
        for _ in 0..fields.array("partitions")? {
            fields.i32("partition")?;
        }
        fields.tags()?;
    }
    fields.tags()?;
    answer.i32(0);
    let forbidden = call.cluster_refusal(Operation::Describe);
    answer.i16(forbidden.unwrap_or(code::NONE));
    answer.nullable_string(forbidden.map(|_| NOT_ALLOWED));
    answer.array(0);
    answer.tags();
    Ok(Outcome::Reply)
}

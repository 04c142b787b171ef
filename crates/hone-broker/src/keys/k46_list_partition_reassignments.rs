//! ListPartitionReassignments: partitions never move in a cluster of one broker.

use hone_kafka::WireError;

use super::{Call, Outcome};
use crate::code;
use crate::protocol::Answer;

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
    answer.i16(code::NONE);
    answer.nullable_string(None);
    answer.array(0);
    answer.tags();
    Ok(Outcome::Reply)
}

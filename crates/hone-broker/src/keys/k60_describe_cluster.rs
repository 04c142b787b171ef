//! DescribeCluster: the one broker, which is also the controller.

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use crate::code;
use crate::endpoint::NODE_ID;
use crate::protocol::Answer;

/// The endpoints of brokers; the other kind is that of controllers.
const BROKERS: i8 = 1;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let version = call.version;
    let mut fields = call.fields();
    let with_operations = fields.bool("include cluster authorized operations")?;
    let endpoints = if version >= 1 { fields.i8("endpoint type")? } else { BROKERS };
    if version >= 2 {
        fields.bool("include fenced brokers")?;
    }
    fields.tags()?;
    let is_known = endpoints == BROKERS;
    answer.i32(0);
    answer.i16(if is_known { code::NONE } else { code::MISMATCHED_ENDPOINT_TYPE });
    answer.nullable_string(
        (!is_known).then_some("this address is that of a broker; ask for endpoints of type 1"),
    );
    if version >= 1 {
        answer.i8(BROKERS);
    }
    answer.string(&call.node.topics.cluster_id);
    answer.i32(NODE_ID); // controller
    answer.array(usize::from(is_known));
    if is_known {
        answer.i32(NODE_ID);
        answer.string(&call.node.advertised.host);
        answer.i32(i32::from(call.node.advertised.port));
        answer.nullable_string(None); // rack
        if version >= 2 {
            answer.bool(false); // fenced
        }
        answer.tags();
    }
    answer.i32(call.cluster_operations(with_operations));
    answer.tags();
    Ok(Outcome::Reply)
}

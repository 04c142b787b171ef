//! ApiVersions: what the broker serves. A version that it does not know is answered in the layout of version 0, the
//! one that every client can read.

use hone_kafka::WireError;

use super::{APIS, Call, Outcome};
use crate::code;
use crate::protocol::Answer;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    if call.version_known && call.version >= 3 {
        let mut fields = call.fields();
        fields.string("client software name")?;
        fields.string("client software version")?;
        fields.tags()?;
    }
    answer.i16(if call.version_known { code::NONE } else { code::UNSUPPORTED_VERSION });
    answer.array(APIS.len());
    for api in APIS {
        answer.i16(api.key);
        answer.i16(api.min);
        answer.i16(api.max);
        answer.tags();
    }
    if call.version >= 1 {
        answer.i32(0);
    }
    answer.tags();
    Ok(Outcome::Reply)
}

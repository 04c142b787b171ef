//! SaslHandshake: the client says how it will log in.

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use crate::code;
use crate::protocol::Answer;
use crate::security::session::HandshakeError;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let mut fields = call.fields();
    let name = fields.string("mechanism")?.to_owned();
    let offered = call.node.security.offered();
    // After version 0 the tokens come as they are, without requests around them.
    let agreed = call.session.handshake(&name, offered, call.version == 0);
    answer.i16(match agreed {
        Ok(()) => code::NONE,
        Err(HandshakeError::Unsupported) => code::UNSUPPORTED_SASL_MECHANISM,
        Err(HandshakeError::NotNow) => code::ILLEGAL_SASL_STATE,
    });
    answer.array(offered.len());
    for mechanism in offered {
        answer.string(mechanism.name());
    }
    // A client that is served may ask in vain; a stranger has had its chance.
    let over = agreed.is_err() && !call.session.is_open();
    Ok(if over { Outcome::Last } else { Outcome::Reply })
}

//! SaslAuthenticate: the client says who it is, in the mechanism that was agreed on.

use std::time::Instant;

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use crate::code;
use crate::keys::login;
use crate::keys::login::Progress;
use crate::protocol::Answer;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let mut fields = call.fields();
    let token = fields.bytes("token")?.to_vec();
    fields.tags()?;
    let progress =
        login::advance(call.node, call.session, call.ticket, &call.attempt, &token, Instant::now());
    let version = call.version;
    Ok(match progress {
        Progress::Answer(token) => {
            write(answer, version, code::NONE, None, &token);
            Outcome::Reply
        }
        Progress::Park(park) => Outcome::Park(park),
        Progress::Refused => {
            let message = "the login failed: the user or the password is wrong";
            write(answer, version, code::SASL_AUTHENTICATION_FAILED, Some(message), &[]);
            Outcome::Last
        }
        Progress::NotNow => {
            let message = "unexpected login: it must follow a SaslHandshake, once, and only if SASL is on";
            write(answer, version, code::ILLEGAL_SASL_STATE, Some(message), &[]);
            if call.session.is_open() { Outcome::Reply } else { Outcome::Last }
        }
        Progress::Busy => Outcome::Close,
    })
}

fn write(answer: &mut Answer<'_>, version: i16, error: i16, message: Option<&str>, token: &[u8]) {
    answer.i16(error);
    answer.nullable_string(message);
    answer.bytes(token);
    if version >= 1 {
        answer.i64(0); // a login lasts as long as its connection
    }
    answer.tags();
}

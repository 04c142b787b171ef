//! DescribeUserScramCredentials: which users can log in, and how. Nothing of their passwords.

use std::collections::BTreeSet;

use hone_kafka::WireError;

use super::call::{Call, NOT_ALLOWED, Outcome};
use crate::code;
use crate::protocol::Answer;
use crate::security::acl::Operation;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let mut fields = call.fields();
    let mut asked = Vec::new();
    for _ in 0..fields.array("users")? {
        asked.push(fields.string("user")?.to_owned());
        fields.tags()?;
    }
    fields.tags()?;
    if let Some(error) = call.cluster_refusal(Operation::Describe) {
        answer.i32(0);
        answer.i16(error);
        answer.nullable_string(Some(NOT_ALLOWED));
        answer.array(0);
        answer.tags();
        return Ok(Outcome::Reply);
    }
    if asked.is_empty() {
        asked = call.node.security.users.names();
    }
    let (mut seen, mut twice) = (BTreeSet::new(), BTreeSet::new());
    for user in &asked {
        if !seen.insert(user) {
            twice.insert(user);
        }
    }
    answer.i32(0);
    answer.i16(code::NONE);
    answer.nullable_string(None);
    answer.array(seen.len());
    for user in seen {
        answer.string(user);
        write_user(call, answer, user, twice.contains(user));
        answer.tags();
    }
    answer.tags();
    Ok(Outcome::Reply)
}

fn write_user(call: &Call<'_>, answer: &mut Answer<'_>, user: &str, twice: bool) {
    let (error, message, credentials) = match call.node.security.users.describe(user) {
        _ if twice => (code::DUPLICATE_RESOURCE, Some("the same user twice in one request"), Vec::new()),
        None => (code::RESOURCE_NOT_FOUND, Some("there is no such user"), Vec::new()),
        Some(credentials) => (code::NONE, None, credentials),
    };
    answer.i16(error);
    answer.nullable_string(message);
    answer.array(credentials.len());
    for (hash, iterations) in credentials {
        answer.i8(hash.number());
        answer.i32(iterations.get().cast_signed());
        answer.tags();
    }
}

//! AlterUserScramCredentials: gives users passwords, already salted, and takes them away.

use hone_kafka::WireError;

use super::{Attempt, Call, Outcome, Park};
use crate::code;
use crate::mailbox::Reply;
use crate::protocol::Answer;
use crate::security::clerk::Job;
use crate::security::users::{AlterError, Change};

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    if let Attempt::Answered(Reply::Altered(results)) = &call.attempt {
        let changed = results.iter().filter(|(_, result)| result.is_ok()).count();
        let who = call.session.principal();
        call.node.settings.notices.say(&format!("{who} changed the logins of {changed} users"));
        answer.i32(0);
        answer.array(results.len());
        for (user, result) in results {
            answer.string(user);
            answer.i16(code_of(result));
            answer.nullable_string(result.as_ref().err().map(ToString::to_string).as_deref());
            answer.tags();
        }
        answer.tags();
        return Ok(Outcome::Reply);
    }
    let changes = read(call)?;
    let handed_over = call.node.security.clerk.take(Job::Alter { ticket: call.ticket, changes });
    Ok(if handed_over { Outcome::Park(Park::Reply) } else { Outcome::Close })
}

fn read(call: &Call<'_>) -> Result<Vec<Change>, WireError> {
    let mut fields = call.fields();
    let mut changes = Vec::new();
    for _ in 0..fields.array("deletions")? {
        let user = fields.string("user")?.to_owned();
        changes.push(Change::Delete { user, mechanism: fields.i8("mechanism")? });
        fields.tags()?;
    }
    for _ in 0..fields.array("upsertions")? {
        changes.push(Change::Upsert {
            user: fields.string("user")?.to_owned(),
            mechanism: fields.i8("mechanism")?,
            iterations: fields.i32("iterations")?,
            salt: fields.bytes("salt")?.to_vec(),
            salted_password: fields.bytes("salted password")?.to_vec(),
        });
        fields.tags()?;
    }
    fields.tags()?;
    Ok(changes)
}

fn code_of(result: &Result<(), AlterError>) -> i16 {
    match result {
        Ok(()) => code::NONE,
        Err(AlterError::Mechanism) => code::UNSUPPORTED_SASL_MECHANISM,
        Err(AlterError::Twice) => code::DUPLICATE_RESOURCE,
        Err(AlterError::Missing) => code::RESOURCE_NOT_FOUND,
        Err(AlterError::Unacceptable(_)) => code::UNACCEPTABLE_CREDENTIAL,
        Err(AlterError::Storage(_)) => code::KAFKA_STORAGE_ERROR,
    }
}

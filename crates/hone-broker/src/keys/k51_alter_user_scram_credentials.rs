//! AlterUserScramCredentials: gives users passwords, already salted, and takes them away.

use std::collections::BTreeSet;

use hone_kafka::WireError;

use super::call::{Call, NOT_ALLOWED, Outcome};
use crate::code;
use crate::protocol::Answer;
use crate::security::acl::Operation;
use crate::security::users::{AlterError, Change};

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    if call.take_answer(answer) {
        return Ok(Outcome::Reply);
    }
    let changes = read(call)?;
    if let Some(error) = call.cluster_refusal(Operation::Alter) {
        let users: BTreeSet<_> = changes.iter().map(Change::user).collect();
        answer.i32(0);
        answer.array(users.len());
        users.into_iter().for_each(|user| write(answer, user, error, Some(NOT_ALLOWED)));
        answer.tags();
        return Ok(Outcome::Reply);
    }
    let who = call.session.principal().to_owned();
    Ok(call.by_clerk(move |node, answer| {
        let results = node.security.users.alter(&changes);
        let changed = results.iter().filter(|(_, result)| result.is_ok()).count();
        node.settings.notices.say(&format!("{who} changed the logins of {changed} users"));
        answer.i32(0);
        answer.array(results.len());
        for (user, result) in &results {
            let message = result.as_ref().err().map(ToString::to_string);
            write(answer, user, code_of(result), message.as_deref());
        }
        answer.tags();
    }))
}

fn write(answer: &mut Answer<'_>, user: &str, error: i16, message: Option<&str>) {
    answer.string(user);
    answer.i16(error);
    answer.nullable_string(message);
    answer.tags();
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

//! DeleteGroups: groups without members, and all they have committed. Acknowledged when it is durable.

use std::collections::BTreeSet;

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use crate::code;
use crate::keys::park::{Attempt, Park};
use crate::protocol::Answer;
use crate::reply::Reply;
use crate::security::acl::Operation;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let mut fields = call.fields();
    let mut groups = Vec::new();
    for _ in 0..fields.array("groups")? {
        groups.push(fields.string("group id")?);
    }
    fields.tags()?;
    let errors = match &call.attempt {
        Attempt::Answered(Reply::Codes(errors)) => errors.clone(),
        Attempt::Answered(Reply::Code(error)) => vec![*error; groups.len()],
        _ => {
            let errors = delete(call, &groups);
            if errors.contains(&code::NONE) {
                return Ok(Outcome::Park(Park::Reply));
            }
            errors
        }
    };
    answer.i32(0);
    answer.array(groups.len());
    for (group, error) in groups.iter().zip(errors) {
        answer.string(group);
        answer.i16(error);
        answer.tags();
    }
    answer.tags();
    Ok(Outcome::Reply)
}

/// Deletes what may be; if that is anything, the error codes come back as the answer to the request.
fn delete(call: &Call<'_>, asked: &[&str]) -> Vec<i16> {
    let offsets = &call.node.offsets;
    let ticket = call.ticket;
    let forbidden: Vec<_> = asked.iter().map(|group| call.group_refusal(Operation::Delete, group)).collect();
    call.node.with_groups(|groups, effects| {
        let mut delete = |group: &str| match groups.delete(group, effects) {
            _ if group.is_empty() => code::INVALID_GROUP_ID,
            code::GROUP_ID_NOT_FOUND if offsets.knows(group) => code::NONE,
            error => error,
        };
        let mut errors = Vec::new();
        let mut gone = BTreeSet::new();
        for (group, forbidden) in asked.iter().zip(forbidden) {
            let error = match forbidden {
                Some(error) => error,
                None if gone.contains(*group) => code::GROUP_ID_NOT_FOUND,
                None => delete(group),
            };
            if error == code::NONE {
                gone.insert((*group).to_owned());
            }
            errors.push(error);
        }
        if !gone.is_empty() {
            offsets.forget_groups(&gone);
            gone.iter().for_each(|group| effects.touch(group));
            effects.replies.push((ticket, Reply::Codes(errors.clone())));
        }
        errors
    })
}

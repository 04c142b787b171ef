//! AlterClientQuotas: sets and takes away quotas of users and client ids. All of a request or nothing is changed.

use hone_kafka::WireError;

use super::k48_describe_client_quotas::{CLIENT_ID, USER};
use super::{Attempt, Call, Outcome};
use crate::code;
use crate::mailbox::Reply;
use crate::protocol::{Answer, Fields};
use crate::quotas::{Change, Entity, Quota, Whom};
use crate::security::acl::Operation;

/// One entry: the entity as it was named, and the change or why there can't be such a one.
type Asked<'a> = (Vec<(&'a str, Option<&'a str>)>, Result<Change, String>);

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let mut fields = call.fields();
    let mut asked = Vec::new();
    for _ in 0..fields.array("entries")? {
        asked.push(read_entry(&mut fields)?);
    }
    let validate_only = fields.bool("validate only")?;
    fields.tags()?;
    let failure = match &call.attempt {
        Attempt::Answered(Reply::Quotas(done)) => {
            done.as_ref().err().map(|error| (code::KAFKA_STORAGE_ERROR, error.clone()))
        }
        _ if !call.allows_cluster(Operation::AlterConfigs) => {
            Some((code::CLUSTER_AUTHORIZATION_FAILED, "not allowed on the cluster".to_owned()))
        }
        _ => match asked.iter().map(|(_, change)| change.clone()).collect::<Result<Vec<_>, _>>() {
            Ok(changes) if !validate_only => {
                let change = move |node: &crate::node::Node| {
                    Reply::Quotas(node.quotas.change(&changes).map_err(|error| error.to_string()))
                };
                match call.aside(change) {
                    Some(parked) => return Ok(parked),
                    None => Some((code::KAFKA_STORAGE_ERROR, "no thread to write with".to_owned())),
                }
            }
            Ok(_) => None,
            Err(message) => Some((code::INVALID_REQUEST, message)),
        },
    };
    write(answer, &asked, failure.as_ref());
    Ok(Outcome::Reply)
}

fn read_entry<'a>(fields: &mut Fields<'a>) -> Result<Asked<'a>, WireError> {
    let mut parts = Vec::new();
    for _ in 0..fields.array("entity")? {
        parts.push((fields.string("entity type")?, fields.nullable_string("entity name")?));
        fields.tags()?;
    }
    let mut steps = Vec::new();
    for _ in 0..fields.array("ops")? {
        let key = fields.string("key")?;
        let value = fields.f64("value")?;
        let remove = fields.bool("remove")?;
        fields.tags()?;
        steps.push(Quota::from_name(key).map(|quota| (quota, (!remove).then_some(value))));
    }
    fields.tags()?;
    let change = entity_of(&parts).and_then(|entity| {
        let change = Change { entity, steps: steps.into_iter().collect::<Result<_, _>>()? };
        change.check().map(|()| change)
    });
    Ok((parts, change))
}

fn entity_of(parts: &[(&str, Option<&str>)]) -> Result<Entity, String> {
    let mut entity = Entity::default();
    for (kind, name) in parts {
        let slot = match *kind {
            USER => &mut entity.user,
            CLIENT_ID => &mut entity.client_id,
            other => {
                return Err(format!("no quotas for entities of type `{other}`; wanted user or client-id"));
            }
        };
        if slot.replace(Whom::from_name(*name)).is_some() {
            return Err(format!("the entity has two parts of type {kind}"));
        }
    }
    if entity == Entity::default() {
        return Err("the entity is empty; wanted a user, a client-id or both".to_owned());
    }
    Ok(entity)
}

fn write(answer: &mut Answer<'_>, asked: &[Asked<'_>], failure: Option<&(i16, String)>) {
    answer.i32(0);
    answer.array(asked.len());
    for (parts, _) in asked {
        answer.i16(failure.map_or(code::NONE, |(error, _)| *error));
        answer.nullable_string(failure.map(|(_, message)| message.as_str()));
        answer.array(parts.len());
        for (kind, name) in parts {
            answer.string(kind);
            answer.nullable_string(*name);
            answer.tags();
        }
        answer.tags();
    }
    answer.tags();
}

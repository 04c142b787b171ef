//! AlterClientQuotas: sets and takes away quotas of users and client ids. All of a request or nothing is changed.

use hone_kafka::WireError;

use super::call::{Call, NOT_ALLOWED, Outcome};
use super::k48_describe_client_quotas::{CLIENT_ID, USER};
use super::resource::Refusal;
use crate::code;
use crate::protocol::{Answer, Fields};
use crate::quotas::{Change, Entity, Quota, Whom};
use crate::security::acl::Operation;

/// One entry: the entity as it was named, and the change or why there can't be such a one.
type Asked = (Vec<(String, Option<String>)>, Result<Change, String>);

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    if call.take_answer(answer) {
        return Ok(Outcome::Reply);
    }
    let mut fields = call.fields();
    let mut asked = Vec::new();
    for _ in 0..fields.array("entries")? {
        asked.push(read_entry(&mut fields)?);
    }
    let validate_only = fields.bool("validate only")?;
    fields.tags()?;
    let changes = asked.iter().map(|(_, change)| change.clone()).collect::<Result<Vec<_>, _>>();
    let failure = match (call.cluster_refusal(Operation::AlterConfigs), changes) {
        (Some(error), _) => Some((error, NOT_ALLOWED.to_owned())),
        (None, Err(message)) => Some((code::INVALID_REQUEST, message)),
        (None, Ok(_)) if validate_only => None,
        (None, Ok(changes)) => {
            return Ok(call.by_clerk(move |node, answer| {
                let changed = node.quotas.change(&changes);
                let failure = changed.err().map(|error| (code::KAFKA_STORAGE_ERROR, error.to_string()));
                write(answer, &asked, failure.as_ref());
            }));
        }
    };
    write(answer, &asked, failure.as_ref());
    Ok(Outcome::Reply)
}

fn read_entry(fields: &mut Fields<'_>) -> Result<Asked, WireError> {
    let mut parts = Vec::new();
    for _ in 0..fields.array("entity")? {
        let kind = fields.string("entity type")?.to_owned();
        parts.push((kind, fields.nullable_string("entity name")?.map(str::to_owned)));
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

fn entity_of(parts: &[(String, Option<String>)]) -> Result<Entity, String> {
    let mut entity = Entity::default();
    for (kind, name) in parts {
        let slot = match kind.as_str() {
            USER => &mut entity.user,
            CLIENT_ID => &mut entity.client_id,
            other => {
                return Err(format!("no quotas for entities of type `{other}`: use user or client-id"));
            }
        };
        if slot.replace(Whom::from_name(name.as_deref())).is_some() {
            return Err(format!("the entity has two parts of type {kind}"));
        }
    }
    if entity == Entity::default() {
        return Err("the entity is empty: use a user, a client-id or both".to_owned());
    }
    Ok(entity)
}

fn write(answer: &mut Answer<'_>, asked: &[Asked], failure: Option<&Refusal>) {
    answer.i32(0);
    answer.array(asked.len());
    for (parts, _) in asked {
        answer.i16(failure.map_or(code::NONE, |(error, _)| *error));
        answer.nullable_string(failure.map(|(_, message)| message.as_str()));
        answer.array(parts.len());
        for (kind, name) in parts {
            answer.string(kind);
            answer.nullable_string(name.as_deref());
            answer.tags();
        }
        answer.tags();
    }
    answer.tags();
}

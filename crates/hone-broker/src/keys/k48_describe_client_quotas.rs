//! DescribeClientQuotas: the quotas of the entities that a filter takes.

use hone_kafka::WireError;

use super::call::{Call, NOT_ALLOWED, Outcome};
use crate::code;
use crate::protocol::{Answer, Fields};
use crate::quotas::{Entity, Values, Whom};
use crate::security::acl::Operation;

pub(super) const USER: &str = "user";
pub(super) const CLIENT_ID: &str = "client-id";

/// What one part of an entity must be.
enum Wanted {
    Is(Whom),
    /// Any name, and the default.
    Given,
}

/// One component of a filter: the type of entity and what it must be.
type Component<'a> = (&'a str, Wanted);

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let mut fields = call.fields();
    let mut components = Vec::new();
    let mut failure = None;
    for _ in 0..fields.array("components")? {
        match read_component(&mut fields)? {
            Ok(component) => components.push(component),
            Err(message) => failure = Some((code::INVALID_REQUEST, message)),
        }
    }
    let strict = fields.bool("strict")?;
    fields.tags()?;
    if !call.allows_cluster(Operation::DescribeConfigs) {
        failure = Some((code::CLUSTER_AUTHORIZATION_FAILED, NOT_ALLOWED.to_owned()));
    }
    answer.i32(0);
    answer.i16(failure.as_ref().map_or(code::NONE, |(error, _)| *error));
    answer.nullable_string(failure.as_ref().map(|(_, message)| message.as_str()));
    if failure.is_some() {
        answer.null_array();
    } else {
        let mut found = call.node.quotas.all();
        found.retain(|(entity, _)| takes(&components, strict, entity));
        write(answer, &found);
    }
    answer.tags();
    Ok(Outcome::Reply)
}

fn read_component<'a>(fields: &mut Fields<'a>) -> Result<Result<Component<'a>, String>, WireError> {
    let kind = fields.string("entity type")?;
    let how = fields.i8("match type")?;
    let name = fields.nullable_string("match")?;
    fields.tags()?;
    let wanted = match (how, name) {
        (0, Some(name)) => Wanted::Is(Whom::Named(name.to_owned())),
        (1, _) => Wanted::Is(Whom::Default),
        (2, _) => Wanted::Given,
        _ => return Ok(Err(format!("invalid match type {how}: use 0 with a name, 1 or 2"))),
    };
    Ok(Ok((kind, wanted)))
}

fn takes(components: &[Component<'_>], strict: bool, entity: &Entity) -> bool {
    let part = |kind: &str| match kind {
        USER => entity.user.as_ref(),
        CLIENT_ID => entity.client_id.as_ref(),
        // There are quotas for no other type of entity, so there is nothing to find.
        _ => None,
    };
    let named = |kind| components.iter().any(|(component, _)| *component == kind);
    components.iter().all(|(kind, wanted)| match (wanted, part(kind)) {
        (Wanted::Is(whom), Some(found)) => whom == found,
        (Wanted::Given, found) => found.is_some(),
        (Wanted::Is(_), None) => false,
    }) && (!strict || [USER, CLIENT_ID].into_iter().all(|kind| named(kind) || part(kind).is_none()))
}

fn write(answer: &mut Answer<'_>, found: &[(Entity, Values)]) {
    answer.array(found.len());
    for (entity, values) in found {
        write_entity(answer, entity);
        answer.array(values.len());
        for (quota, value) in values {
            answer.string(quota.name());
            answer.f64(*value);
            answer.tags();
        }
        answer.tags();
    }
}

pub(super) fn write_entity(answer: &mut Answer<'_>, entity: &Entity) {
    let parts = [(USER, &entity.user), (CLIENT_ID, &entity.client_id)];
    answer.array(parts.iter().filter(|(_, whom)| whom.is_some()).count());
    for (kind, whom) in parts {
        if let Some(whom) = whom {
            answer.string(kind);
            answer.nullable_string(whom.name());
            answer.tags();
        }
    }
}

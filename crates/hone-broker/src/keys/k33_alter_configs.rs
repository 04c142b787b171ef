//! AlterConfigs, the old way: what is given takes the place of all that was given before.

use std::collections::BTreeMap;

use hone_kafka::WireError;

use super::resource::{Refusal, Resource, repeated};
use super::{Call, Outcome};
use crate::code;
use crate::node::Node;
use crate::protocol::Answer;
use crate::security::acl::Operation;

struct Asked {
    kind: i8,
    name: String,
    /// What it stands for, if that may be changed.
    resource: Result<Resource, Refusal>,
    properties: Vec<(String, Option<String>)>,
}

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    if call.take_answer(answer) {
        return Ok(Outcome::Reply);
    }
    let mut fields = call.fields();
    let mut asked = Vec::new();
    for _ in 0..fields.array("resources")? {
        let kind = fields.i8("resource type")?;
        let name = fields.string("resource name")?.to_owned();
        let mut properties = Vec::new();
        for _ in 0..fields.array("configs")? {
            let name = fields.string("config name")?.to_owned();
            properties.push((name, fields.nullable_string("config value")?.map(str::to_owned)));
            fields.tags()?;
        }
        fields.tags()?;
        let resource = alterable(call, kind, &name);
        asked.push(Asked { kind, name, resource, properties });
    }
    let validate_only = fields.bool("validate only")?;
    fields.tags()?;
    Ok(call.by_clerk(move |node, answer| {
        let repeated = repeated(asked.iter().map(|one| (one.kind, one.name.as_str())));
        answer.i32(0);
        answer.array(asked.len());
        for one in &asked {
            let repeated = repeated.contains(&(one.kind, one.name.as_str()));
            let outcome = alter(node, one, repeated, validate_only);
            write_outcome(answer, one.kind, &one.name, outcome);
        }
        answer.tags();
    }))
}

fn alter(node: &Node, asked: &Asked, repeated: bool, validate_only: bool) -> Result<(), Refusal> {
    if repeated {
        return Err((code::INVALID_REQUEST, "the resource is asked for more than once".to_owned()));
    }
    let mut given = BTreeMap::new();
    for (name, value) in &asked.properties {
        let Some(value) = value else {
            return Err((
                code::INVALID_REQUEST,
                format!("{name} has no value; leave it out to keep its default"),
            ));
        };
        given.insert(name.clone(), value.clone());
    }
    asked.resource.clone()?.alter(node, validate_only, |_, _, _| Ok(given))
}

/// What may be changed: decided before the clerk gets the request.
pub(super) fn alterable(call: &Call<'_>, kind: i8, name: &str) -> Result<Resource, Refusal> {
    let resource = Resource::find(kind, name)?;
    resource.check(call, Operation::AlterConfigs)?;
    Ok(resource)
}

/// The answer to one resource; it is the same for both ways to alter.
pub(super) fn write_outcome(answer: &mut Answer<'_>, kind: i8, name: &str, outcome: Result<(), Refusal>) {
    answer.i16(outcome.as_ref().map_or_else(|(error, _)| *error, |()| code::NONE));
    answer.nullable_string(outcome.err().map(|(_, message)| message).as_deref());
    answer.i8(kind);
    answer.string(name);
    answer.tags();
}

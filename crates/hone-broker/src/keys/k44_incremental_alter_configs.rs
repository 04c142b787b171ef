//! IncrementalAlterConfigs: properties set, taken back, and lists added to and taken from.

use hone_kafka::WireError;

use super::k33_alter_configs::{alterable, write_outcome};
use super::resource::{Refusal, Resource, repeated};
use super::{Call, Outcome};
use crate::code;
use crate::node::Node;
use crate::properties::{Step, take_step};
use crate::protocol::{Answer, Fields};

struct Change {
    property: String,
    operation: i8,
    value: Option<String>,
}

struct Asked {
    kind: i8,
    name: String,
    /// What it stands for, if that may be changed.
    resource: Result<Resource, Refusal>,
    changes: Vec<Change>,
}

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    if call.take_answer(answer) {
        return Ok(Outcome::Reply);
    }
    let mut fields = call.fields();
    let mut asked = Vec::new();
    for _ in 0..fields.array("resources")? {
        asked.push(read_resource(call, &mut fields)?);
    }
    let validate_only = fields.bool("validate only")?;
    fields.tags()?;
    Ok(call.by_clerk(move |node, answer| {
        let repeated = repeated(asked.iter().map(|one| (one.kind, one.name.as_str())));
        answer.i32(0);
        answer.array(asked.len());
        for one in &asked {
            let repeated = repeated.contains(&(one.kind, one.name.as_str()));
            write_outcome(answer, one.kind, &one.name, alter(node, one, repeated, validate_only));
        }
        answer.tags();
    }))
}

fn read_resource(call: &Call<'_>, fields: &mut Fields<'_>) -> Result<Asked, WireError> {
    let kind = fields.i8("resource type")?;
    let name = fields.string("resource name")?.to_owned();
    let mut changes = Vec::new();
    for _ in 0..fields.array("configs")? {
        let property = fields.string("config name")?.to_owned();
        let operation = fields.i8("config operation")?;
        let value = fields.nullable_string("config value")?.map(str::to_owned);
        fields.tags()?;
        changes.push(Change { property, operation, value });
    }
    fields.tags()?;
    let resource = alterable(call, kind, &name);
    Ok(Asked { kind, name, resource, changes })
}

fn alter(node: &Node, asked: &Asked, repeated: bool, validate_only: bool) -> Result<(), Refusal> {
    if repeated {
        return Err((code::INVALID_REQUEST, "the resource is asked for more than once".to_owned()));
    }
    let twice = super::resource::repeated(asked.changes.iter().map(|change| change.property.as_str()));
    let mut steps = Vec::new();
    for change in &asked.changes {
        if twice.contains(change.property.as_str()) {
            return Err((code::INVALID_REQUEST, format!("{} is changed more than once", change.property)));
        }
        steps.push((change.property.as_str(), step(change)?));
    }
    asked.resource.clone()?.alter(node, validate_only, |given, owner, in_force| {
        let mut given = given.clone();
        for (property, step) in steps {
            take_step(&mut given, owner, property, step, in_force)?;
        }
        Ok(given)
    })
}

fn step(change: &Change) -> Result<Step<'_>, Refusal> {
    match (change.operation, change.value.as_deref()) {
        (0, Some(value)) => Ok(Step::Set(value)),
        (1, _) => Ok(Step::Delete),
        (2, Some(value)) => Ok(Step::Append(value)),
        (3, Some(value)) => Ok(Step::Subtract(value)),
        (0 | 2 | 3, None) => {
            Err((code::INVALID_REQUEST, format!("{} has no value; DELETE takes one back", change.property)))
        }
        (operation, _) => {
            let property = &change.property;
            let message = format!(
                "operation {operation} on {property}; wanted SET (0), DELETE (1), APPEND (2) or SUBTRACT (3)"
            );
            Err((code::INVALID_REQUEST, message))
        }
    }
}

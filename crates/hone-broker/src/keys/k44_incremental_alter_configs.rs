//! IncrementalAlterConfigs: sets and resets properties, and appends to and subtracts from lists.

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use super::resource::{Asked, Refusal, repeated, serve_alterations};
use crate::code;
use crate::node::Node;
use crate::properties::{Step, take_step};
use crate::protocol::{Answer, Fields};

struct Change {
    property: String,
    operation: i8,
    value: Option<String>,
}

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    serve_alterations(call, answer, read, alter)
}

fn read(fields: &mut Fields<'_>) -> Result<Change, WireError> {
    Ok(Change {
        property: fields.string("config name")?.to_owned(),
        operation: fields.i8("config operation")?,
        value: fields.nullable_string("config value")?.map(str::to_owned),
    })
}

fn alter(node: &Node, asked: &Asked<Change>, validate_only: bool) -> Result<(), Refusal> {
    let twice = repeated(asked.changes.iter().map(|change| change.property.as_str()));
    let mut steps = Vec::new();
    for change in &asked.changes {
        if twice.contains(change.property.as_str()) {
            return Err((code::INVALID_REQUEST, format!("{} is changed more than once", change.property)));
        }
        steps.push((change.property.as_str(), step(change)?));
    }
    asked.resource()?.alter(node, validate_only, |given, owner, in_force| {
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
            Err((code::INVALID_REQUEST, format!("{} has no value; use DELETE to reset it", change.property)))
        }
        (operation, _) => {
            let property = &change.property;
            let message = format!(
                "operation {operation} on {property}; use SET (0), DELETE (1), APPEND (2) or SUBTRACT (3)"
            );
            Err((code::INVALID_REQUEST, message))
        }
    }
}

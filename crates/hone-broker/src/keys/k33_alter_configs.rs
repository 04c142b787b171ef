//! AlterConfigs, the old way: what is given takes the place of all that was given before.

use std::collections::BTreeMap;

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use super::resource::{Asked, Refusal, serve_alterations};
use crate::code;
use crate::node::Node;
use crate::protocol::{Answer, Fields};

/// A property and its value.
type Property = (String, Option<String>);

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    serve_alterations(call, answer, read, alter)
}

fn read(fields: &mut Fields<'_>) -> Result<Property, WireError> {
    let name = fields.string("config name")?.to_owned();
    Ok((name, fields.nullable_string("config value")?.map(str::to_owned)))
}

fn alter(node: &Node, asked: &Asked<Property>, validate_only: bool) -> Result<(), Refusal> {
    let mut given = BTreeMap::new();
    for (name, value) in &asked.changes {
        let Some(value) = value else {
            return Err((code::INVALID_REQUEST, format!("{name} has no value; omit it to keep its default")));
        };
        given.insert(name.clone(), value.clone());
    }
    asked.resource()?.alter(node, validate_only, |_, _, _| Ok(given))
}

//! DescribeConfigs: the properties of topics, of this broker, and those set for the cluster.

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use super::resource::{Refusal, Resource, repeated};
use crate::code;
use crate::properties::Row;
use crate::properties::broker::Scope;
use crate::protocol::Answer;
use crate::security::acl::Operation;

/// The parts of the answer besides the values.
#[derive(Clone, Copy)]
struct Extent {
    version: i16,
    synonyms: bool,
    documentation: bool,
}

struct Asked<'a> {
    kind: i8,
    name: &'a str,
    /// `None` for all.
    keys: Option<Vec<&'a str>>,
}

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let version = call.version;
    let mut fields = call.fields();
    let mut resources = Vec::new();
    for _ in 0..fields.array("resources")? {
        let kind = fields.i8("resource type")?;
        let name = fields.string("resource name")?;
        let mut keys = None;
        if let Some(count) = fields.nullable_array("configuration keys")? {
            let mut names = Vec::new();
            for _ in 0..count {
                names.push(fields.string("configuration key")?);
            }
            // No keys mean all of them; some clients send an empty list for that.
            keys = Some(names).filter(|names| !names.is_empty());
        }
        fields.tags()?;
        resources.push(Asked { kind, name, keys });
    }
    let synonyms = fields.bool("include synonyms")?;
    let documentation = version >= 3 && fields.bool("include documentation")?;
    fields.tags()?;
    // Described over and over, a resource of a few bytes would make an answer of gigabytes.
    let repeated = repeated(resources.iter().map(|asked| (asked.kind, asked.name)));
    answer.i32(0);
    answer.array(resources.len());
    for asked in &resources {
        let rows = if repeated.contains(&(asked.kind, asked.name)) {
            Err((code::INVALID_REQUEST, "the resource appears more than once in the request".to_owned()))
        } else {
            describe(call, asked)
        };
        write(answer, asked, rows, Extent { version, synonyms, documentation });
    }
    answer.tags();
    Ok(Outcome::Reply)
}

fn write(answer: &mut Answer<'_>, asked: &Asked<'_>, rows: Result<Vec<Row>, Refusal>, extent: Extent) {
    let (error, message, mut rows) = match rows {
        Ok(rows) => (code::NONE, None, rows),
        Err((error, message)) => (error, Some(message), Vec::new()),
    };
    if let Some(keys) = &asked.keys {
        rows.retain(|row| keys.iter().any(|key| row.definition.is(key)));
    }
    answer.i16(error);
    answer.nullable_string(message.as_deref());
    answer.i8(asked.kind);
    answer.string(asked.name);
    answer.array(rows.len());
    for row in &rows {
        write_row(answer, row, extent);
    }
    answer.tags();
}

fn describe(call: &Call<'_>, asked: &Asked<'_>) -> Result<Vec<Row>, Refusal> {
    let node = call.node;
    let resource = Resource::find(asked.kind, asked.name)?;
    resource.check(call, Operation::DescribeConfigs)?;
    let broker = node.topics.broker_properties();
    match resource {
        Resource::Topic(name) => match node.topics.by_name(&name) {
            Some(topic) => Ok(topic.properties.describe(&broker)),
            None => Err((code::UNKNOWN_TOPIC_OR_PARTITION, format!("there is no topic `{name}`"))),
        },
        Resource::Broker(Scope::Broker) => Ok(broker.describe()),
        Resource::Broker(Scope::Cluster) => Ok(broker.describe_cluster()),
    }
}

fn write_row(answer: &mut Answer<'_>, row: &Row, extent: Extent) {
    answer.string(row.definition.name);
    answer.nullable_string(row.value.as_deref());
    answer.bool(row.definition.is_read_only());
    answer.i8(row.source as i8);
    answer.bool(false); // sensitive: no property holds a secret
    let layers = if extent.synonyms { row.layers.as_slice() } else { &[] };
    answer.array(layers.len());
    for layer in layers {
        answer.string(layer.name);
        answer.nullable_string(Some(&layer.value));
        answer.i8(layer.source as i8);
        answer.tags();
    }
    if extent.version >= 3 {
        answer.i8(row.kind as i8);
        answer.nullable_string(extent.documentation.then_some(row.definition.documentation));
    }
    answer.tags();
}

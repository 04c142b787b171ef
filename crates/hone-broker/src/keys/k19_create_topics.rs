//! CreateTopics.

use std::collections::BTreeMap;

use hone_kafka::WireError;

use super::{Call, Outcome};
use crate::code;
use crate::protocol::{Answer, Fields};
use crate::security::acl::Operation;
use crate::topics::CreateError;

/// Where a property's value comes from, in the protocol's numbers.
const TOPIC_CONFIG: i8 = 1;
const DEFAULT_CONFIG: i8 = 5;

/// A topic as it was asked for.
struct Asked {
    name: String,
    partitions: i32,
    replication: i16,
    assignments: usize,
    properties: BTreeMap<String, String>,
}

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let mut fields = call.fields();
    let mut topics = Vec::new();
    for _ in 0..fields.array("topics")? {
        topics.push(read_topic(&mut fields)?);
    }
    fields.i32("timeout")?;
    let validate_only = fields.bool("validate only")?;
    fields.tags()?;
    answer.i32(0);
    answer.array(topics.len());
    for asked in topics {
        let made = create(call, &asked, validate_only);
        write(call, answer, &asked, made);
    }
    answer.tags();
    Ok(Outcome::Reply)
}

fn read_topic(fields: &mut Fields<'_>) -> Result<Asked, WireError> {
    let name = fields.string("topic")?.to_owned();
    let partitions = fields.i32("partition count")?;
    let replication = fields.i16("replication factor")?;
    let assignments = fields.array("assignments")?;
    for _ in 0..assignments {
        fields.i32("partition")?;
        for _ in 0..fields.array("broker ids")? {
            fields.i32("broker id")?;
        }
        fields.tags()?;
    }
    let mut properties = BTreeMap::new();
    for _ in 0..fields.array("configs")? {
        let name = fields.string("config name")?;
        // A property without a value is one that keeps its default.
        if let Some(value) = fields.nullable_string("config value")? {
            properties.insert(name.to_owned(), value.to_owned());
        }
        fields.tags()?;
    }
    fields.tags()?;
    Ok(Asked { name, partitions, replication, assignments, properties })
}

/// Partitions of the topic and its id, or why not.
fn create(call: &Call<'_>, asked: &Asked, validate_only: bool) -> Result<(i32, u128), (i16, String)> {
    if !(call.allows_cluster(Operation::Create) || call.allows_topic(Operation::Create, &asked.name)) {
        return Err((code::TOPIC_AUTHORIZATION_FAILED, "not allowed to create the topic".to_owned()));
    }
    let partitions = match (asked.assignments, asked.partitions) {
        (0, -1) => call.node.settings.default_partitions,
        (0, count) => count,
        (assigned, _) => i32::try_from(assigned).unwrap_or(i32::MAX),
    };
    // -1 asks for the default; one broker can hold one replica.
    if asked.assignments == 0 && !matches!(asked.replication, -1 | 1) {
        let message = format!("replication factor {}; this cluster has one broker", asked.replication);
        return Err((code::INVALID_REPLICATION_FACTOR, message));
    }
    let topics = &call.node.topics;
    let made = if validate_only {
        topics.check(&asked.name, partitions, &asked.properties).map(|()| 0)
    } else {
        topics.create(&asked.name, partitions, asked.properties.clone()).map(|topic| topic.id)
    };
    made.map(|id| (partitions, id)).map_err(|error| {
        let code = match &error {
            CreateError::Name(_) => code::INVALID_TOPIC,
            CreateError::Partitions(_) => code::INVALID_PARTITIONS,
            CreateError::Exists(_) => code::TOPIC_ALREADY_EXISTS,
            CreateError::Property(_) => code::INVALID_CONFIG,
            CreateError::Storage(_) => code::KAFKA_STORAGE_ERROR,
        };
        (code, error.to_string())
    })
}

fn write(call: &Call<'_>, answer: &mut Answer<'_>, asked: &Asked, made: Result<(i32, u128), (i16, String)>) {
    let version = call.version;
    let (error, message, partitions, id) = match made {
        Ok((partitions, id)) => (code::NONE, None, partitions, id),
        Err((error, message)) => (error, Some(message), -1, 0),
    };
    answer.string(&asked.name);
    if version >= 7 {
        answer.uuid(id);
    }
    answer.i16(error);
    answer.nullable_string(message.as_deref());
    if version >= 5 {
        let shown = error == code::NONE && call.allows_topic(Operation::DescribeConfigs, &asked.name);
        answer.i32(if shown { partitions } else { -1 });
        answer.i16(if shown { 1 } else { -1 });
        let rows = call.node.topics.by_name(&asked.name).filter(|_| shown);
        let rows = rows.map(|topic| topic.properties.describe()).unwrap_or_default();
        answer.array(rows.len());
        for (name, value, given) in rows {
            answer.string(&name);
            answer.nullable_string(Some(&value));
            answer.bool(true); // read-only: a topic's properties don't change
            answer.i8(if given { TOPIC_CONFIG } else { DEFAULT_CONFIG });
            answer.bool(false); // sensitive
            answer.tags();
        }
    }
    answer.tags();
}

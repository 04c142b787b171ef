//! CreateTopics. Each topic is made or refused on its own; all that are made are written at once.

use std::collections::{BTreeMap, HashSet};

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use super::resource::{Refusal, check_replicas, repeated};
use crate::code;
use crate::node::Node;
use crate::properties::Properties;
use crate::protocol::{Answer, Fields};
use crate::security::acl::Operation;
use crate::topics::{CreateError, NewTopic};

/// Asks for the broker's default.
const DEFAULT: i32 = -1;

/// The tag of the error that explains why a topic's properties are hidden.
const WHY_HIDDEN: u32 = 0;

/// A topic as it was asked for.
struct Asked {
    name: String,
    partitions: i32,
    replication: i16,
    assignments: Vec<(i32, Vec<i32>)>,
    properties: Vec<(String, Option<String>)>,
    /// Whether the client may make it, and see its properties.
    may_create: bool,
    may_see: bool,
}

/// A topic as it is, or would be.
struct Made {
    id: u128,
    partitions: i32,
    properties: Properties,
}

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    if call.take_answer(answer) {
        return Ok(Outcome::Reply);
    }
    let version = call.version;
    let mut fields = call.fields();
    let mut asked = Vec::new();
    let may_create_any = call.allows_cluster(Operation::Create);
    for _ in 0..fields.array("topics")? {
        let mut topic = read_topic(&mut fields)?;
        topic.may_create = may_create_any || call.allows_topic(Operation::Create, &topic.name);
        topic.may_see = call.allows_topic(Operation::DescribeConfigs, &topic.name);
        asked.push(topic);
    }
    fields.i32("timeout")?;
    let validate_only = fields.bool("validate only")?;
    fields.tags()?;
    Ok(call.by_clerk(move |node, answer| {
        let made = if validate_only { check(node, &asked) } else { create(node, &asked) };
        answer.i32(0);
        answer.array(asked.len());
        for (asked, made) in asked.iter().zip(made) {
            write(node, answer, version, asked, made);
        }
        answer.tags();
    }))
}

fn read_topic(fields: &mut Fields<'_>) -> Result<Asked, WireError> {
    let name = fields.string("topic")?.to_owned();
    let partitions = fields.i32("partition count")?;
    let replication = fields.i16("replication factor")?;
    let mut assignments = Vec::new();
    for _ in 0..fields.array("assignments")? {
        let partition = fields.i32("partition")?;
        let mut brokers = Vec::new();
        for _ in 0..fields.array("broker ids")? {
            brokers.push(fields.i32("broker id")?);
        }
        fields.tags()?;
        assignments.push((partition, brokers));
    }
    let mut properties = Vec::new();
    for _ in 0..fields.array("configs")? {
        let name = fields.string("config name")?.to_owned();
        properties.push((name, fields.nullable_string("config value")?.map(str::to_owned)));
        fields.tags()?;
    }
    fields.tags()?;
    let (may_create, may_see) = (false, false);
    Ok(Asked { name, partitions, replication, assignments, properties, may_create, may_see })
}

/// What can be said without a look at the topics there are.
fn prepare(node: &Node, repeated: &HashSet<&str>, asked: &Asked) -> Result<NewTopic, Refusal> {
    if repeated.contains(asked.name.as_str()) {
        return Err((
            code::INVALID_REQUEST,
            format!("topic `{}` appears more than once in the request", asked.name),
        ));
    }
    if !asked.may_create {
        return Err((
            code::TOPIC_AUTHORIZATION_FAILED,
            format!("not allowed to create topic `{}`", asked.name),
        ));
    }
    let partitions = if asked.assignments.is_empty() {
        if !matches!(asked.replication, -1 | 1) {
            let message = format!("replication factor {}; this cluster has one broker", asked.replication);
            return Err((code::INVALID_REPLICATION_FACTOR, message));
        }
        if asked.partitions == DEFAULT {
            node.topics.broker_properties().default_partitions()
        } else {
            asked.partitions
        }
    } else {
        assigned_partitions(asked)?
    };
    let mut properties = BTreeMap::new();
    for (name, value) in &asked.properties {
        let Some(value) = value else {
            return Err((code::INVALID_CONFIG, format!("{name} has no value; omit it to keep its default")));
        };
        properties.insert(name.clone(), value.clone());
    }
    Ok(NewTopic { name: asked.name.clone(), partitions, properties })
}

fn assigned_partitions(asked: &Asked) -> Result<i32, Refusal> {
    if asked.partitions != DEFAULT || i32::from(asked.replication) != DEFAULT {
        let message = "with assignments, partition count and replication factor must be -1";
        return Err((code::INVALID_REQUEST, message.to_owned()));
    }
    let mut indexes: Vec<_> = asked.assignments.iter().map(|(partition, _)| *partition).collect();
    indexes.sort_unstable();
    if !indexes.iter().copied().eq(0..indexes.len() as i32) {
        let message = format!("the assignment has partitions {indexes:?}; use 0, 1, 2 and so on, each once");
        return Err((code::INVALID_REPLICA_ASSIGNMENT, message));
    }
    for (_, brokers) in &asked.assignments {
        check_replicas(brokers)?;
    }
    Ok(indexes.len() as i32)
}

fn check(node: &Node, asked: &[Asked]) -> Vec<Result<Made, Refusal>> {
    let repeated = repeated(asked.iter().map(|one| one.name.as_str()));
    let check = |one| {
        let new = prepare(node, &repeated, one)?;
        let properties = node.topics.check(&new).map_err(|error| refusal(node, &error))?;
        Ok(Made { id: 0, partitions: new.partitions, properties })
    };
    asked.iter().map(check).collect()
}

fn create(node: &Node, asked: &[Asked]) -> Vec<Result<Made, Refusal>> {
    let repeated = repeated(asked.iter().map(|one| one.name.as_str()));
    let prepared: Vec<_> = asked.iter().map(|one| prepare(node, &repeated, one)).collect();
    let new: Vec<_> = prepared.iter().flatten().cloned().collect();
    new.iter().for_each(|new| node.offsets.forget_orphans(&new.name));
    let mut created = node.topics.create_all(&new).into_iter();
    let outcome = |prepared: Result<NewTopic, Refusal>| {
        let new = prepared?;
        let topic = created.next().unwrap_or_else(|| Err(CreateError::Exists(new.name)));
        let topic = topic.map_err(|error| refusal(node, &error))?;
        Ok(Made { id: topic.id, partitions: new.partitions, properties: topic.properties.clone() })
    };
    prepared.into_iter().map(outcome).collect()
}

fn refusal(node: &Node, error: &CreateError) -> Refusal {
    let code = match error {
        CreateError::Name(_) => code::INVALID_TOPIC,
        CreateError::Partitions(_) => code::INVALID_PARTITIONS,
        CreateError::Full(_) => code::POLICY_VIOLATION,
        CreateError::Exists(_) => code::TOPIC_ALREADY_EXISTS,
        CreateError::Property(_) => code::INVALID_CONFIG,
        CreateError::Storage(error) => {
            node.settings.notices.say(&format!("can't create a topic: {error:#}"));
            code::KAFKA_STORAGE_ERROR
        }
    };
    (code, error.to_string())
}

fn write(node: &Node, answer: &mut Answer<'_>, version: i16, asked: &Asked, made: Result<Made, Refusal>) {
    let (error, message, made) = match made {
        Ok(made) => (code::NONE, None, Some(made)),
        Err((error, message)) => (error, Some(message), None),
    };
    answer.string(&asked.name);
    if version >= 7 {
        answer.uuid(made.as_ref().map_or(0, |made| made.id));
    }
    let hidden = made.is_some() && !asked.may_see;
    let made = made.filter(|_| asked.may_see);
    answer.i16(error);
    answer.nullable_string(message.as_deref());
    if version >= 5 {
        answer.i32(made.as_ref().map_or(-1, |made| made.partitions));
        answer.i16(if made.is_some() { 1 } else { -1 });
        let broker = node.topics.broker_properties();
        let rows = made.map(|made| made.properties.describe(&broker)).unwrap_or_default();
        answer.array(rows.len());
        for row in rows {
            answer.string(row.definition.name);
            answer.nullable_string(row.value.as_deref());
            answer.bool(row.definition.is_read_only());
            answer.i8(row.source as i8);
            answer.bool(false); // sensitive
            answer.tags();
        }
    }
    if hidden && version >= 5 {
        answer.tagged(&[(WHY_HIDDEN, &code::TOPIC_AUTHORIZATION_FAILED.to_be_bytes())]);
    } else {
        answer.tags();
    }
}

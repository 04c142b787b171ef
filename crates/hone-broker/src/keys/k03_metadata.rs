//! Metadata: who the broker is and which topics there are. Asking for a topic makes it, if that is allowed.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use hone_kafka::WireError;

use super::{Call, Outcome};
use crate::code;
use crate::node::{NODE_ID, Node};
use crate::partition::LEADER_EPOCH;
use crate::protocol::Answer;
use crate::topics::{CreateError, NewTopic, Topic, is_topic_name};

/// "Not asked for": the broker has no authorization to tell about.
const NO_OPERATIONS: i32 = i32::MIN;

/// A topic as it was asked for.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Asked {
    Name(String),
    Id(u128),
}

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    if call.take_answer(answer) {
        return Ok(Outcome::Reply);
    }
    let version = call.version;
    let (asked, auto_create) = read(call)?;
    let auto_create = auto_create && call.node.topics.broker_properties().auto_create_topics();
    let is_missing = |asked: &Asked| match asked {
        Asked::Name(name) => is_topic_name(name) && call.node.topics.by_name(name).is_none(),
        Asked::Id(_) => false,
    };
    if auto_create && asked.as_ref().is_some_and(|asked| asked.iter().any(is_missing)) {
        return Ok(call.by_clerk(move |node, answer| write(node, answer, version, asked.as_deref(), true)));
    }
    write(call.node, answer, version, asked.as_deref(), false);
    Ok(Outcome::Reply)
}

fn write(node: &Node, answer: &mut Answer<'_>, version: i16, asked: Option<&[Asked]>, auto_create: bool) {
    if version >= 3 {
        answer.i32(0);
    }
    write_broker(node, answer, version);
    match asked {
        None => {
            let all = node.topics.all();
            answer.array(all.len());
            for topic in &all {
                write_topic(answer, version, code::NONE, &Asked::Id(topic.id), Some(topic));
            }
        }
        Some(asked) => {
            answer.array(asked.len());
            for asked in asked {
                let (error, topic) = look_up(node, asked, auto_create);
                write_topic(answer, version, error, asked, topic.as_deref());
            }
        }
    }
    if (8..=10).contains(&version) {
        answer.i32(NO_OPERATIONS);
    }
    if version >= 13 {
        answer.i16(code::NONE);
    }
    answer.tags();
}

/// The topics, `None` for all, and whether missing ones may be made.
fn read(call: &Call<'_>) -> Result<(Option<Vec<Asked>>, bool), WireError> {
    let version = call.version;
    let mut fields = call.fields();
    let count = fields.nullable_array("topics")?;
    let mut asked = Vec::new();
    for _ in 0..count.unwrap_or(0) {
        let id = if version >= 10 { fields.uuid("topic id")? } else { 0 };
        let name =
            if version >= 10 { fields.nullable_string("topic")? } else { Some(fields.string("topic")?) };
        fields.tags()?;
        asked.push(name.map_or(Asked::Id(id), |name| Asked::Name(name.to_owned())));
    }
    let auto_create = if version >= 4 { fields.bool("allow auto topic creation")? } else { true };
    if (8..=10).contains(&version) {
        fields.bool("include cluster authorized operations")?;
    }
    if version >= 8 {
        fields.bool("include topic authorized operations")?;
    }
    fields.tags()?;
    // Told once each, however often they are asked for.
    let mut seen = HashSet::new();
    asked.retain(|one: &Asked| seen.insert(one.clone()));
    // Version 0 has no null and says "all" with an empty list.
    let all = count.is_none() || version == 0 && asked.is_empty();
    Ok((if all { None } else { Some(asked) }, auto_create))
}

fn look_up(node: &Node, asked: &Asked, auto_create: bool) -> (i16, Option<Arc<Topic>>) {
    let name = match asked {
        Asked::Id(id) => {
            let topic = node.topics.by_id(*id);
            return (if topic.is_some() { code::NONE } else { code::UNKNOWN_TOPIC_ID }, topic);
        }
        Asked::Name(name) => name,
    };
    if let Some(topic) = node.topics.by_name(name) {
        return (code::NONE, Some(topic));
    }
    if !is_topic_name(name) {
        return (code::INVALID_TOPIC, None);
    }
    if !auto_create {
        return (code::UNKNOWN_TOPIC_OR_PARTITION, None);
    }
    let partitions = node.topics.broker_properties().default_partitions();
    let new = NewTopic { name: name.clone(), partitions, properties: BTreeMap::new() };
    match node.topics.create(&new) {
        Ok(topic) => (code::NONE, Some(topic)),
        Err(CreateError::Exists(_)) => (code::NONE, node.topics.by_name(name)),
        Err(CreateError::Name(_)) => (code::INVALID_TOPIC, None),
        Err(CreateError::Partitions(_) | CreateError::Property(_)) => (code::INVALID_PARTITIONS, None),
        Err(CreateError::Storage(error)) => {
            node.settings.notices.say(&format!("can't make topic {name}: {error:#}"));
            (code::KAFKA_STORAGE_ERROR, None)
        }
    }
}

fn write_broker(node: &Node, answer: &mut Answer<'_>, version: i16) {
    answer.array(1);
    answer.i32(NODE_ID);
    answer.string(&node.advertised.host);
    answer.i32(i32::from(node.advertised.port));
    if version >= 1 {
        answer.nullable_string(None); // rack
    }
    answer.tags();
    if version >= 2 {
        answer.nullable_string(Some(&node.topics.cluster_id));
    }
    if version >= 1 {
        answer.i32(NODE_ID); // controller
    }
}

fn write_topic(answer: &mut Answer<'_>, version: i16, error: i16, asked: &Asked, topic: Option<&Topic>) {
    answer.i16(error);
    let (name, id) = match (topic, asked) {
        (Some(topic), _) => (Some(topic.name.as_str()), topic.id),
        (None, Asked::Name(name)) => (Some(name.as_str()), 0),
        (None, Asked::Id(id)) => (None, *id),
    };
    if version >= 12 {
        answer.nullable_string(name);
    } else {
        answer.string(name.unwrap_or_default());
    }
    if version >= 10 {
        answer.uuid(id);
    }
    if version >= 1 {
        answer.bool(false); // internal
    }
    let partitions = topic.map_or(0, |topic| topic.partitions.len());
    answer.array(partitions);
    for index in 0..partitions {
        write_partition(answer, version, index as i32);
    }
    if version >= 8 {
        answer.i32(NO_OPERATIONS);
    }
    answer.tags();
}

fn write_partition(answer: &mut Answer<'_>, version: i16, index: i32) {
    answer.i16(code::NONE);
    answer.i32(index);
    answer.i32(NODE_ID); // leader
    if version >= 7 {
        answer.i32(LEADER_EPOCH);
    }
    // Replicas, and those in sync.
    for _ in 0..2 {
        answer.array(1);
        answer.i32(NODE_ID);
    }
    if version >= 5 {
        answer.array(0); // offline replicas
    }
    answer.tags();
}

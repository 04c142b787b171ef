//! Metadata: who the broker is and which topics there are. Asking for a topic makes it, if that is allowed.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use hone_kafka::WireError;

use super::call::{Call, NOT_ASKED, Outcome};
use crate::code;
use crate::endpoint::NODE_ID;
use crate::node::Node;
use crate::partition::LEADER_EPOCH;
use crate::protocol::Answer;
use crate::security::acl::{Operation, Resource};
use crate::topics::{CreateError, NewTopic, Topic, is_topic_name};

/// A topic as it was asked for.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Asked {
    Name(String),
    Id(u128),
}

/// What a client may know of a topic, and do with it.
#[derive(Clone, Copy)]
struct Rights {
    see: bool,
    create: bool,
    /// The rights on the resource, as the bits of the answer.
    operations: i32,
}

/// A topic of the answer.
struct Wanted {
    asked: Asked,
    /// Found already.
    topic: Option<Arc<Topic>>,
    rights: Rights,
}

struct Request {
    /// `None` for all topics.
    asked: Option<Vec<Asked>>,
    auto_create: bool,
    with_cluster_operations: bool,
    with_topic_operations: bool,
}

/// What stays the same for the whole answer.
#[derive(Clone, Copy)]
struct Frame {
    version: i16,
    auto_create: bool,
    cluster_operations: i32,
}

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    if call.take_answer(answer) {
        return Ok(Outcome::Reply);
    }
    let request = read(call)?;
    let auto_create = request.auto_create && call.node.topics.broker_properties().auto_create_topics();
    let frame = Frame {
        version: call.version,
        auto_create,
        cluster_operations: call.cluster_operations(request.with_cluster_operations),
    };
    let wanted = wanted(call, request.asked, request.with_topic_operations);
    let is_made = |wanted: &Wanted| match &wanted.asked {
        Asked::Name(name) => {
            let allowed = wanted.rights.see && wanted.rights.create;
            allowed && is_topic_name(name) && call.node.topics.by_name(name).is_none()
        }
        Asked::Id(_) => false,
    };
    if auto_create && wanted.iter().any(is_made) {
        return Ok(call.by_clerk(move |node, answer| write(node, answer, frame, &wanted)));
    }
    write(call.node, answer, frame, &wanted);
    Ok(Outcome::Reply)
}

fn wanted(call: &Call<'_>, asked: Option<Vec<Asked>>, with_operations: bool) -> Vec<Wanted> {
    let topics = &call.node.topics;
    let Some(asked) = asked else {
        let all = topics.all().into_iter().map(|topic| Wanted {
            rights: rights(call, &topic.name, with_operations),
            asked: Asked::Id(topic.id),
            topic: Some(topic),
        });
        // Of those that it did not ask for by name, a client learns only what it may see.
        return all.filter(|wanted| wanted.rights.see).collect();
    };
    let with_rights = |asked: Asked| {
        let rights = match &asked {
            Asked::Name(name) => rights(call, name, with_operations),
            Asked::Id(id) => match topics.by_id(*id) {
                Some(topic) => rights(call, &topic.name, with_operations),
                // There is nothing that could be hidden.
                None => Rights { see: true, create: false, operations: NOT_ASKED },
            },
        };
        Wanted { asked, topic: None, rights }
    };
    asked.into_iter().map(with_rights).collect()
}

fn rights(call: &Call<'_>, name: &str, with_operations: bool) -> Rights {
    Rights {
        see: call.allows_topic(Operation::Describe, name),
        create: call.allows_cluster(Operation::Create) || call.allows_topic(Operation::Create, name),
        operations: call.operations(with_operations, Resource::Topic, name),
    }
}

fn write(node: &Node, answer: &mut Answer<'_>, frame: Frame, wanted: &[Wanted]) {
    let version = frame.version;
    if version >= 3 {
        answer.i32(0);
    }
    write_broker(node, answer, version);
    answer.array(wanted.len());
    for Wanted { asked, topic, rights } in wanted {
        let (error, topic) = match topic {
            Some(topic) => (code::NONE, Some(Arc::clone(topic))),
            None => look_up(node, asked, *rights, frame.auto_create),
        };
        let operations = if topic.is_some() { rights.operations } else { NOT_ASKED };
        write_topic(answer, version, error, asked, topic.as_deref(), operations);
    }
    if (8..=10).contains(&version) {
        answer.i32(frame.cluster_operations);
    }
    if version >= 13 {
        answer.i16(code::NONE);
    }
    answer.tags();
}

fn read(call: &Call<'_>) -> Result<Request, WireError> {
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
    let with_cluster_operations =
        (8..=10).contains(&version) && fields.bool("include cluster authorized operations")?;
    let with_topic_operations = version >= 8 && fields.bool("include topic authorized operations")?;
    fields.tags()?;
    // The answer lists each topic once, even if the request repeats it.
    let mut seen = HashSet::new();
    asked.retain(|one: &Asked| seen.insert(one.clone()));
    // Version 0 has no null and says "all" with an empty list.
    let all = count.is_none() || version == 0 && asked.is_empty();
    let asked = if all { None } else { Some(asked) };
    Ok(Request { asked, auto_create, with_cluster_operations, with_topic_operations })
}

fn look_up(node: &Node, asked: &Asked, rights: Rights, auto_create: bool) -> (i16, Option<Arc<Topic>>) {
    if !rights.see {
        // Whether there is such a topic is part of what may not be seen.
        return (code::TOPIC_AUTHORIZATION_FAILED, None);
    }
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
    if !rights.create {
        return (code::TOPIC_AUTHORIZATION_FAILED, None);
    }
    let partitions = node.topics.broker_properties().default_partitions();
    let new = NewTopic { name: name.clone(), partitions, properties: BTreeMap::new() };
    node.offsets.forget_orphans(name);
    match node.topics.create(&new) {
        Ok(topic) => (code::NONE, Some(topic)),
        Err(CreateError::Exists(_)) => (code::NONE, node.topics.by_name(name)),
        Err(CreateError::Name(_)) => (code::INVALID_TOPIC, None),
        Err(CreateError::Full(_)) => (code::POLICY_VIOLATION, None),
        Err(CreateError::Partitions(_) | CreateError::Property(_)) => (code::INVALID_PARTITIONS, None),
        Err(CreateError::Storage(error)) => {
            node.settings.notices.say(&format!("can't create topic {name}: {error:#}"));
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

fn write_topic(
    answer: &mut Answer<'_>,
    version: i16,
    error: i16,
    asked: &Asked,
    topic: Option<&Topic>,
    operations: i32,
) {
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
        answer.i32(operations);
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

//! DeleteTopics, by name or by id.

use std::collections::HashSet;
use std::sync::Arc;

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use super::resource::{Refusal, repeated};
use crate::code;
use crate::node::Node;
use crate::protocol::Answer;
use crate::security::acl::Operation;
use crate::topics::Topic;

/// A topic as it was asked for.
#[derive(PartialEq, Eq, Hash)]
struct Asked {
    name: Option<String>,
    id: u128,
    rights: Rights,
}

/// What the client may know of a topic, and do with it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Rights {
    see: bool,
    delete: bool,
}

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    if call.take_answer(answer) {
        return Ok(Outcome::Reply);
    }
    let version = call.version;
    let mut fields = call.fields();
    let mut asked = Vec::new();
    for _ in 0..fields.array("topics")? {
        let name =
            if version >= 6 { fields.nullable_string("topic")? } else { Some(fields.string("topic")?) };
        let id = if version >= 6 { fields.uuid("topic id")? } else { 0 };
        if version >= 6 {
            fields.tags()?;
        }
        asked.push(Asked { name: name.map(str::to_owned), id, rights: rights(call, name, id) });
    }
    fields.i32("timeout")?;
    fields.tags()?;
    Ok(call.by_clerk(move |node, answer| write(node, answer, version, &asked)))
}

fn rights(call: &Call<'_>, name: Option<&str>, id: u128) -> Rights {
    let on = |name: &str| Rights {
        see: call.allows_topic(Operation::Describe, name),
        delete: call.allows_topic(Operation::Delete, name),
    };
    match name {
        Some(name) => on(name),
        // Without a topic there is nothing that could be hidden.
        None => {
            call.node.topics.by_id(id).map_or(Rights { see: true, delete: false }, |topic| on(&topic.name))
        }
    }
}

fn write(node: &Node, answer: &mut Answer<'_>, version: i16, asked: &[Asked]) {
    let repeated = repeated(asked.iter());
    let found: Vec<_> = asked.iter().map(|one| find(node, &repeated, one)).collect();
    let mut deleted = delete(node, &found).into_iter();
    answer.i32(0);
    answer.array(asked.len());
    for (asked, found) in asked.iter().zip(found) {
        let of_id = || node.topics.by_id(asked.id).filter(|_| asked.rights.see);
        let topic = found.as_ref().ok().cloned().or_else(of_id);
        let name = asked.name.clone().or(topic.map(|topic| topic.name.clone()));
        let id = found.as_ref().map_or(asked.id, |topic| topic.id);
        let outcome = match found {
            Ok(_) => deleted.next().unwrap_or(Ok(())),
            Err(refusal) => Err(refusal),
        };
        if version >= 6 {
            answer.nullable_string(name.as_deref());
            answer.uuid(id);
        } else {
            answer.string(name.as_deref().unwrap_or_default());
        }
        answer.i16(outcome.as_ref().map_or_else(|(error, _)| *error, |()| code::NONE));
        if version >= 5 {
            answer.nullable_string(outcome.err().map(|(_, message)| message).as_deref());
        }
        answer.tags();
    }
    answer.tags();
}

fn find(node: &Node, repeated: &HashSet<&Asked>, asked: &Asked) -> Result<Arc<Topic>, Refusal> {
    let invalid = |message: &str| Err((code::INVALID_REQUEST, message.to_owned()));
    if repeated.contains(asked) {
        return invalid("the topic appears more than once in the request");
    }
    let forbidden = (code::TOPIC_AUTHORIZATION_FAILED, "not allowed to delete the topic".to_owned());
    let topic = match (&asked.name, asked.id) {
        (Some(_), id) if id != 0 => return invalid("use a name or an id, not both"),
        (None, 0) => return invalid("use a name or an id"),
        // Whether there is such a topic is part of what may not be seen.
        (Some(_), _) if !asked.rights.see => return Err(forbidden),
        (Some(name), _) => node
            .topics
            .by_name(name)
            .ok_or_else(|| (code::UNKNOWN_TOPIC_OR_PARTITION, format!("there is no topic `{name}`"))),
        (None, id) => {
            node.topics.by_id(id).ok_or((code::UNKNOWN_TOPIC_ID, "there is no topic with this id".to_owned()))
        }
    }?;
    if asked.rights.delete { Ok(topic) } else { Err(forbidden) }
}

/// One outcome for each topic that was found. A topic that is asked for by name and by id is there once.
fn delete(node: &Node, found: &[Result<Arc<Topic>, Refusal>]) -> Vec<Result<(), Refusal>> {
    let doomed: Vec<_> = found.iter().flatten().cloned().collect();
    let storage = |error: String| {
        node.settings.notices.say(&error);
        (code::KAFKA_STORAGE_ERROR, error)
    };
    let outcomes = match node.topics.delete_all(&doomed) {
        Ok(outcomes) => outcomes,
        Err(error) => {
            let refusal = storage(format!("{error:#}"));
            return doomed.iter().map(|_| Err(refusal.clone())).collect();
        }
    };
    let outcome = |(topic, outcome): (&Arc<Topic>, anyhow::Result<bool>)| {
        if !matches!(outcome, Ok(false)) {
            // Gone it is, even if a file of it is left.
            node.offsets.forget_topic(&topic.name);
        }
        match outcome {
            Ok(false) => {
                Err((code::UNKNOWN_TOPIC_OR_PARTITION, format!("there is no topic `{}`", topic.name)))
            }
            Ok(true) => Ok(()),
            Err(error) => Err(storage(format!("{error:#}"))),
        }
    };
    doomed.iter().zip(outcomes).map(outcome).collect()
}

//! DeleteTopics.

use std::sync::Arc;

use hone_kafka::WireError;

use super::{Call, Outcome};
use crate::code;
use crate::protocol::Answer;
use crate::topics::Topic;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let version = call.version;
    let topics = &call.node.topics;
    let mut fields = call.fields();
    let mut doomed: Vec<(Option<String>, u128, Option<Arc<Topic>>)> = Vec::new();
    for _ in 0..fields.array("topics")? {
        let name =
            if version >= 6 { fields.nullable_string("topic")? } else { Some(fields.string("topic")?) };
        let id = if version >= 6 { fields.uuid("topic id")? } else { 0 };
        if version >= 6 {
            fields.tags()?;
        }
        let topic = match name {
            Some(name) => topics.by_name(name),
            None => topics.by_id(id),
        };
        doomed.push((name.map(str::to_owned), id, topic));
    }
    fields.i32("timeout")?;
    fields.tags()?;
    answer.i32(0);
    answer.array(doomed.len());
    for (name, id, topic) in doomed {
        let (error, message) = delete(call, name.is_some(), topic.as_deref());
        let name = name.as_deref().or(topic.as_ref().map(|topic| topic.name.as_str()));
        if version >= 6 {
            answer.nullable_string(name);
            answer.uuid(topic.as_ref().map_or(id, |topic| topic.id));
        } else {
            answer.string(name.unwrap_or_default());
        }
        answer.i16(error);
        if version >= 5 {
            answer.nullable_string(message.as_deref());
        }
        answer.tags();
    }
    answer.tags();
    Ok(Outcome::Reply)
}

fn delete(call: &Call<'_>, named: bool, topic: Option<&Topic>) -> (i16, Option<String>) {
    let unknown = if named { code::UNKNOWN_TOPIC_OR_PARTITION } else { code::UNKNOWN_TOPIC_ID };
    let Some(topic) = topic else { return (unknown, None) };
    match call.node.topics.delete(topic) {
        Ok(false) => (unknown, None),
        Ok(true) => {
            call.node.offsets.forget_topic(&topic.name);
            (code::NONE, None)
        }
        Err(error) => (code::KAFKA_STORAGE_ERROR, Some(format!("{error:#}"))),
    }
}

//! DescribeConfigs: the properties of topics. The broker itself has none that could be told or changed here.

use hone_kafka::WireError;

use super::{Call, Outcome};
use crate::code;
use crate::node::NODE_ID;
use crate::protocol::Answer;
use crate::security::acl::Operation;

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
/// Where a value comes from, and that it is text, in the protocol's numbers.
const TOPIC_CONFIG: i8 = 1;
const DEFAULT_CONFIG: i8 = 5;
const STRING: i8 = 2;

type Row = (String, String, bool);

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let version = call.version;
    let mut fields = call.fields();
    let resources = fields.array("resources")?;
    answer.i32(0);
    answer.array(resources);
    for _ in 0..resources {
        let kind = fields.i8("resource type")?;
        let name = fields.string("resource name")?;
        let mut wanted = None;
        if let Some(count) = fields.nullable_array("configuration keys")? {
            let mut keys = Vec::new();
            for _ in 0..count {
                keys.push(fields.string("configuration key")?);
            }
            wanted = Some(keys);
        }
        fields.tags()?;
        let (error, message, mut rows) = describe(call, kind, name);
        // No keys mean all of them; some clients send an empty list for that.
        if let Some(keys) = wanted.filter(|keys| !keys.is_empty()) {
            rows.retain(|(name, _, _)| keys.contains(&name.as_str()));
        }
        answer.i16(error);
        answer.nullable_string(message);
        answer.i8(kind);
        answer.string(name);
        write_rows(answer, version, &rows);
        answer.tags();
    }
    fields.bool("include synonyms")?;
    if version >= 3 {
        fields.bool("include documentation")?;
    }
    fields.tags()?;
    answer.tags();
    Ok(Outcome::Reply)
}

fn describe(call: &Call<'_>, kind: i8, name: &str) -> (i16, Option<&'static str>, Vec<Row>) {
    match kind {
        TOPIC if !call.allows_topic(Operation::DescribeConfigs, name) => (
            code::TOPIC_AUTHORIZATION_FAILED,
            Some("not allowed to see the topic's configuration"),
            Vec::new(),
        ),
        BROKER if !call.allows_cluster(Operation::DescribeConfigs) => (
            code::CLUSTER_AUTHORIZATION_FAILED,
            Some("not allowed to see the broker's configuration"),
            Vec::new(),
        ),
        TOPIC => match call.node.topics.by_name(name) {
            Some(topic) => (code::NONE, None, topic.properties.describe()),
            None => (code::UNKNOWN_TOPIC_OR_PARTITION, Some("there is no such topic"), Vec::new()),
        },
        BROKER if name == NODE_ID.to_string() => (code::NONE, None, Vec::new()),
        _ => (code::INVALID_REQUEST, Some("only topics and this broker have a configuration"), Vec::new()),
    }
}

fn write_rows(answer: &mut Answer<'_>, version: i16, rows: &[Row]) {
    answer.array(rows.len());
    for (name, value, given) in rows {
        answer.string(name);
        answer.nullable_string(Some(value));
        answer.bool(true); // read-only
        answer.i8(if *given { TOPIC_CONFIG } else { DEFAULT_CONFIG });
        answer.bool(false); // sensitive
        answer.array(0); // synonyms
        if version >= 3 {
            answer.i8(STRING);
            answer.nullable_string(None); // documentation
        }
        answer.tags();
    }
}

//! OffsetFetch: where groups have got to.

use std::collections::BTreeMap;

use hone_kafka::WireError;

use super::{Call, Outcome};
use crate::code;
use crate::offsets::Committed;
use crate::protocol::{Answer, Fields};
use crate::security::acl::Operation;

/// Topics with the partitions asked for; `None` for everything the group has committed.
type Asked<'a> = Option<Vec<(&'a str, Vec<i32>)>>;
type Partitions = Vec<(i32, Option<Committed>)>;
/// Topics with an error and what was committed to their partitions.
type Rows = Vec<(String, i16, Partitions)>;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let version = call.version;
    let mut fields = call.fields();
    if version >= 3 {
        answer.i32(0);
    }
    if version >= 8 {
        let groups = fields.array("groups")?;
        answer.array(groups);
        for _ in 0..groups {
            let group = fields.string("group id")?;
            if version >= 9 {
                fields.nullable_string("member id")?;
                fields.i32("member epoch")?;
            }
            let asked = read_topics(&mut fields)?;
            fields.tags()?;
            answer.string(group);
            let refused = call.group_refusal(Operation::Describe, group);
            write_topics(answer, version, &rows(call, group, asked, refused));
            answer.i16(refused.unwrap_or(code::NONE));
            answer.tags();
        }
    } else {
        let group = fields.string("group id")?;
        let asked = read_topics(&mut fields)?;
        let refused = call.group_refusal(Operation::Describe, group);
        write_topics(answer, version, &rows(call, group, asked, refused));
        if version >= 2 {
            answer.i16(refused.unwrap_or(code::NONE));
        }
    }
    if version >= 7 {
        fields.bool("require stable")?;
    }
    fields.tags()?;
    answer.tags();
    Ok(Outcome::Reply)
}

fn read_topics<'a>(fields: &mut Fields<'a>) -> Result<Asked<'a>, WireError> {
    let Some(count) = fields.nullable_array("topics")? else { return Ok(None) };
    let mut topics = Vec::new();
    for _ in 0..count {
        let name = fields.string("topic")?;
        let mut partitions = Vec::new();
        for _ in 0..fields.array("partitions")? {
            partitions.push(fields.i32("partition")?);
        }
        fields.tags()?;
        topics.push((name, partitions));
    }
    Ok(Some(topics))
}

fn rows(call: &Call<'_>, group: &str, asked: Asked<'_>, refused: Option<i16>) -> Rows {
    let offsets = &call.node.offsets;
    let Some(asked) = asked else {
        let mut all: BTreeMap<String, Partitions> = BTreeMap::new();
        for (topic, partition, committed) in offsets.of_group(group) {
            if refused.is_none() && call.allows_topic(Operation::Describe, &topic) {
                all.entry(topic).or_default().push((partition, Some(committed)));
            }
        }
        return all.into_iter().map(|(topic, partitions)| (topic, code::NONE, partitions)).collect();
    };
    let look_up = |topic: &str, index| offsets.of(&(group.to_owned(), topic.to_owned(), index));
    asked
        .into_iter()
        .map(|(topic, indexes)| {
            let forbidden = || !call.allows_topic(Operation::Describe, topic);
            let refused = refused.or_else(|| forbidden().then_some(code::TOPIC_AUTHORIZATION_FAILED));
            let found = |index| if refused.is_none() { look_up(topic, index) } else { None };
            let partitions = indexes.into_iter().map(|index| (index, found(index))).collect();
            (topic.to_owned(), refused.unwrap_or(code::NONE), partitions)
        })
        .collect()
}

fn write_topics(answer: &mut Answer<'_>, version: i16, rows: &Rows) {
    answer.array(rows.len());
    for (topic, error, partitions) in rows {
        answer.string(topic);
        answer.array(partitions.len());
        for (index, committed) in partitions {
            answer.i32(*index);
            answer.i64(committed.as_ref().map_or(-1, |committed| committed.offset));
            if version >= 5 {
                answer.i32(committed.as_ref().map_or(-1, |committed| committed.leader_epoch));
            }
            answer.nullable_string(Some(committed.as_ref().map_or("", |committed| &committed.metadata)));
            answer.i16(*error);
            answer.tags();
        }
        answer.tags();
    }
}

//! OffsetFetch: where groups have got to.

use std::collections::{BTreeMap, HashSet};

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use crate::code;
use crate::keys::park::{Attempt, Park};
use crate::offsets::Committed;
use crate::protocol::{Answer, Fields};
use crate::reply::Reply;
use crate::security::acl::Operation;

/// Topics with the partitions asked for; `None` for everything the group has committed.
type Asked<'a> = Option<Vec<(&'a str, Vec<i32>)>>;
/// Topics with the error for those that may not be seen, and what was committed for partitions.
type Rows = Vec<(String, i16, Vec<(i32, Option<Committed>)>)>;

/// A group that is asked about, and the member that asks, where the version says one.
struct Question<'a> {
    group: &'a str,
    member: Option<&'a str>,
    epoch: i32,
    asked: Asked<'a>,
}

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    if call.take_answer(answer) {
        return Ok(Outcome::Reply);
    }
    let failed = match &call.attempt {
        Attempt::Answered(Reply::Code(error)) => Some(*error),
        _ => None,
    };
    let version = call.version;
    let begins_at = answer.buffer().len();
    let mut fields = call.fields();
    let mut questions = Vec::new();
    if version >= 8 {
        for _ in 0..fields.array("groups")? {
            questions.push(read_group(&mut fields, version)?);
        }
    } else {
        let group = fields.string("group id")?;
        questions.push(Question { group, member: None, epoch: -1, asked: read_topics(&mut fields)? });
    }
    let stable = version >= 7 && fields.bool("require stable")?;
    fields.tags()?;
    if version >= 3 {
        answer.i32(0);
    }
    if version >= 8 {
        answer.array(questions.len());
    }
    // Without this check, a request that repeats a small group could cause an answer of gigabytes. The same applies to
    // partitions.
    let mut seen = HashSet::new();
    for question in questions {
        let repeated = (!seen.insert(question.group)).then_some(code::INVALID_REQUEST);
        write_group(call, answer, stable, question, repeated.or(failed));
    }
    answer.tags();
    if failed.is_some() {
        return Ok(Outcome::Reply);
    }
    // A client must not continue from an offset that a power cut could lose.
    let written = answer.buffer();
    let waits = call.node.offsets.answer_when_durable(call.ticket, || {
        Reply::Body(written.get(begins_at..).unwrap_or_default().to_vec())
    });
    if waits {
        written.truncate(begins_at);
        return Ok(Outcome::Park(Park::Reply));
    }
    Ok(Outcome::Reply)
}

fn read_group<'a>(fields: &mut Fields<'a>, version: i16) -> Result<Question<'a>, WireError> {
    let group = fields.string("group id")?;
    let member = if version >= 9 { fields.nullable_string("member id")? } else { None };
    let epoch = if version >= 9 { fields.i32("member epoch")? } else { -1 };
    let asked = read_topics(fields)?;
    fields.tags()?;
    Ok(Question { group, member, epoch, asked })
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

fn write_group(
    call: &Call<'_>,
    answer: &mut Answer<'_>,
    stable: bool,
    question: Question<'_>,
    failed: Option<i16>,
) {
    let version = call.version;
    let Question { group, member, epoch, asked } = question;
    if version >= 8 {
        answer.string(group);
    }
    let refused = call.group_refusal(Operation::Describe, group);
    let check = || call.node.with_groups(|groups, _| groups.fetch_offsets(group, member, epoch));
    let error = refused.or(failed).unwrap_or_else(check);
    let rows = match error {
        code::NONE => rows(call, group, asked),
        // The oldest version has no other place for an error.
        _ if version < 2 => errors(error, asked.unwrap_or_default()),
        _ => Rows::new(),
    };
    write_topics(call, answer, stable, group, &rows);
    if version >= 2 {
        answer.i16(error);
    }
    if version >= 8 {
        answer.tags();
    }
}

fn rows(call: &Call<'_>, group: &str, asked: Asked<'_>) -> Rows {
    let offsets = &call.node.offsets;
    let Some(asked) = asked else {
        let mut all: BTreeMap<String, Vec<(i32, Option<Committed>)>> = BTreeMap::new();
        for (topic, partition, committed) in offsets.of_group(group) {
            all.entry(topic).or_default().push((partition, Some(committed)));
        }
        all.retain(|topic, _| call.allows_topic(Operation::Describe, topic));
        return all.into_iter().map(|(topic, partitions)| (topic, code::NONE, partitions)).collect();
    };
    let look_up = |topic: &str, index| (index, offsets.of(&(group.to_owned(), topic.to_owned(), index)));
    let mut seen = HashSet::new();
    let row = |(topic, indexes): (&str, Vec<i32>)| {
        let forbidden = call.topic_refusal(Operation::Describe, topic);
        let repeated = indexes.iter().filter(|index| !seen.insert((topic.to_owned(), **index))).count() > 0;
        let error = forbidden.or(repeated.then_some(code::INVALID_REQUEST)).unwrap_or(code::NONE);
        let look_up = |index| if error == code::NONE { look_up(topic, index) } else { (index, None) };
        (topic.to_owned(), error, indexes.into_iter().map(look_up).collect())
    };
    asked.into_iter().map(row).collect()
}

fn errors(error: i16, asked: Vec<(&str, Vec<i32>)>) -> Rows {
    let nothing = |indexes: Vec<i32>| indexes.into_iter().map(|index| (index, None)).collect();
    asked.into_iter().map(|(topic, indexes)| (topic.to_owned(), error, nothing(indexes))).collect()
}

fn write_topics(call: &Call<'_>, answer: &mut Answer<'_>, stable: bool, group: &str, rows: &Rows) {
    answer.array(rows.len());
    for (topic, error, partitions) in rows {
        answer.string(topic);
        answer.array(partitions.len());
        for (index, committed) in partitions {
            // A transaction that has not ended may yet change it; the client comes again.
            let seen = *error == code::NONE;
            let unstable = seen && stable && call.node.offsets.has_staged(group, topic, *index);
            let committed = committed.as_ref().filter(|_| !unstable);
            answer.i32(*index);
            answer.i64(committed.map_or(-1, |committed| committed.offset));
            if call.version >= 5 {
                answer.i32(committed.map_or(-1, |committed| committed.leader_epoch));
            }
            answer.nullable_string(Some(committed.map_or("", |committed| &committed.metadata)));
            answer.i16(if unstable { code::UNSTABLE_OFFSET_COMMIT } else { *error });
            answer.tags();
        }
        answer.tags();
    }
}

//! OffsetDelete: removes single offsets of a group that none of its members needs. The answer waits until the removal
//! is durable.

use std::collections::BTreeSet;

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use crate::code;
use crate::keys::park::{Attempt, Park};
use crate::offsets::Place;
use crate::protocol::{Answer, Fields};
use crate::reply::Reply;
use crate::security::acl::Operation;

/// Topics and partitions of one request.
const MOST_ENTRIES: usize = 20_000;

type Asked<'a> = Vec<(&'a str, Vec<i32>)>;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let mut fields = call.fields();
    let group = fields.string("group id")?;
    let Some(asked) = read_topics(&mut fields)? else {
        write(answer, code::INVALID_REQUEST, &Vec::new(), &[]);
        return Ok(Outcome::Reply);
    };
    fields.tags()?;
    match &call.attempt {
        Attempt::Answered(Reply::Codes(errors)) => write(answer, code::NONE, &asked, errors),
        Attempt::Answered(Reply::Code(error)) => write(answer, *error, &Vec::new(), &[]),
        _ => match delete(call, group, &asked) {
            Ok(errors) if errors.contains(&code::NONE) => return Ok(Outcome::Park(Park::Reply)),
            Ok(errors) => write(answer, code::NONE, &asked, &errors),
            Err(error) => write(answer, error, &Vec::new(), &[]),
        },
    }
    Ok(Outcome::Reply)
}

/// `None` when it names too much.
fn read_topics<'a>(fields: &mut Fields<'a>) -> Result<Option<Asked<'a>>, WireError> {
    let mut topics = Vec::new();
    let count = fields.array("topics")?;
    let mut left = MOST_ENTRIES.checked_sub(count);
    for _ in 0..count {
        let name = fields.string("topic")?;
        let mut partitions = Vec::new();
        let count = fields.array("partitions")?;
        left = left.and_then(|left| left.checked_sub(count));
        if left.is_none() {
            return Ok(None);
        }
        for _ in 0..count {
            partitions.push(fields.i32("partition")?);
            fields.tags()?;
        }
        fields.tags()?;
        topics.push((name, partitions));
    }
    Ok(left.map(|_| topics))
}

/// Deletes what may be. One error code for each partition, or one for all; if anything is deleted, the codes come
/// back as the answer to the request.
fn delete(call: &Call<'_>, group: &str, asked: &Asked<'_>) -> Result<Vec<i16>, i16> {
    let offsets = &call.node.offsets;
    if let Some(error) = call.group_refusal(Operation::Delete, group) {
        return Err(error);
    }
    let forbidden: Vec<_> =
        asked.iter().map(|(topic, _)| call.topic_refusal(Operation::Read, topic)).collect();
    let topics: BTreeSet<&str> = asked.iter().map(|(topic, _)| *topic).collect();
    call.node.with_groups(|groups, _| {
        if !groups.contains(group) && !offsets.knows(group) {
            return Err(code::GROUP_ID_NOT_FOUND);
        }
        let subscribed = groups.guarded(group, &topics)?;
        let mut errors = Vec::new();
        let mut places: Vec<Place> = Vec::new();
        for ((topic, partitions), forbidden) in asked.iter().zip(forbidden) {
            let needed = subscribed.contains(topic).then_some(code::GROUP_SUBSCRIBED_TO_TOPIC);
            let guarded = forbidden.or(needed).unwrap_or(code::NONE);
            for partition in partitions {
                errors.push(guarded);
                if guarded == code::NONE {
                    places.push((group.to_owned(), (*topic).to_owned(), *partition));
                }
            }
        }
        if !places.is_empty() {
            offsets.forget(places, Some((call.ticket, Reply::Codes(errors.clone()))));
        }
        Ok(errors)
    })
}

fn write(answer: &mut Answer<'_>, error: i16, asked: &Asked<'_>, errors: &[i16]) {
    let mut errors = errors.iter();
    answer.i16(error);
    answer.i32(0);
    answer.array(asked.len());
    for (topic, partitions) in asked {
        answer.string(topic);
        answer.array(partitions.len());
        for partition in partitions {
            answer.i32(*partition);
            answer.i16(errors.next().copied().unwrap_or(code::NONE));
            answer.tags();
        }
        answer.tags();
    }
    answer.tags();
}

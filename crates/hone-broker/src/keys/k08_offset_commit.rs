//! OffsetCommit: where a group has got to. Acknowledged when it is durable.

use hone_kafka::WireError;

use super::call::{Call, Outcome, member_identity};
use crate::code;
use crate::groups::{CommitKind, Now};
use crate::keys::park::{Attempt, Park};
use crate::offsets::{Committed, Place};
use crate::protocol::{Answer, Fields};
use crate::reply::Reply;
use crate::security::acl::Operation;

/// Kafka's `offset.metadata.max.bytes`.
pub(super) const MOST_METADATA_BYTES: usize = 4096;

/// Partitions of one topic, each with what is wrong with it alone.
type Asked<'a> = (&'a str, Vec<(i32, i16)>);

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let version = call.version;
    let mut fields = call.fields();
    let who = member_identity(&mut fields, version >= 7)?;
    if version <= 4 {
        fields.i64("retention time")?;
    }
    let now = Now::read();
    let mut commits = Vec::new();
    let topics = read_topics(call, &mut fields, who.group, now, &mut commits)?;
    fields.tags()?;
    if let Attempt::Answered(Reply::Code(error)) = call.attempt {
        write(answer, version, &topics, error);
        return Ok(Outcome::Reply);
    }
    if let Some(error) = call.group_refusal(Operation::Read, who.group) {
        write(answer, version, &topics, error);
        return Ok(Outcome::Reply);
    }
    let kind = CommitKind::Plain { knows_epochs: version >= 9 };
    let nothing = commits.is_empty();
    let ticket = call.ticket;
    let error = call.node.with_groups(|groups, _| {
        let error = match groups.commit(now, &who, kind) {
            code::NONE if !has_room(call, &commits) => code::POLICY_VIOLATION,
            error => error,
        };
        if error == code::NONE && !nothing {
            // Under the groups' lock: no rebalance comes between the check and the commit.
            call.node.offsets.commit(commits, Some((ticket, Reply::Code(code::NONE))));
        }
        error
    });
    if error == code::NONE && !nothing {
        return Ok(Outcome::Park(Park::Reply));
    }
    write(answer, version, &topics, error);
    Ok(Outcome::Reply)
}

fn read_topics<'a>(
    call: &Call<'_>,
    fields: &mut Fields<'a>,
    group: &str,
    now: Now,
    commits: &mut Vec<(Place, Committed)>,
) -> Result<Vec<Asked<'a>>, WireError> {
    let mut topics = Vec::new();
    for _ in 0..fields.array("topics")? {
        let name = fields.string("topic")?;
        let topic = call.node.topics.by_name(name);
        let forbidden = call.topic_refusal(Operation::Read, name);
        let mut partitions = Vec::new();
        for _ in 0..fields.array("partitions")? {
            let index = fields.i32("partition")?;
            let offset = fields.i64("committed offset")?;
            let leader_epoch = if call.version >= 6 { fields.i32("committed leader epoch")? } else { -1 };
            let metadata = fields.nullable_string("committed metadata")?.unwrap_or_default().to_owned();
            fields.tags()?;
            let exists = topic.as_ref().is_some_and(|topic| topic.partition(index).is_some());
            let error = match forbidden {
                Some(error) => error,
                None if !exists => code::UNKNOWN_TOPIC_OR_PARTITION,
                None if metadata.len() > MOST_METADATA_BYTES => code::OFFSET_METADATA_TOO_LARGE,
                None => code::NONE,
            };
            partitions.push((index, error));
            if error == code::NONE {
                let place = (group.to_owned(), name.to_owned(), index);
                commits.push((place, Committed { offset, leader_epoch, metadata, at_ms: now.unix_ms }));
            }
        }
        fields.tags()?;
        topics.push((name, partitions));
    }
    Ok(topics)
}

/// Whether the broker can store this number of offsets.
fn has_room(call: &Call<'_>, commits: &[(Place, Committed)]) -> bool {
    let places =
        commits.iter().map(|((group, topic, partition), _)| (group.as_str(), topic.as_str(), *partition));
    call.node.offsets.has_room(places)
}

fn write(answer: &mut Answer<'_>, version: i16, topics: &[Asked<'_>], error: i16) {
    if version >= 3 {
        answer.i32(0);
    }
    answer.array(topics.len());
    for (name, partitions) in topics {
        answer.string(name);
        answer.array(partitions.len());
        for (index, own_error) in partitions {
            answer.i32(*index);
            answer.i16(if error == code::NONE { *own_error } else { error });
            answer.tags();
        }
        answer.tags();
    }
    answer.tags();
}

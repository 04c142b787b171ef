//! OffsetCommit: where a group has got to.

use std::time::Instant;

use hone_kafka::WireError;

use super::{Call, Outcome};
use crate::code;
use crate::groups::Who;
use crate::offsets::{Committed, Place};
use crate::protocol::{Answer, Fields};
use crate::security::acl::Operation;

/// Partitions of one topic, each with what speaks against it.
type Asked<'a> = (&'a str, Vec<(i32, i16)>);

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let version = call.version;
    let mut fields = call.fields();
    let who = Who {
        group: fields.string("group id")?,
        generation: fields.i32("generation id")?,
        member: fields.string("member id")?,
        instance: if version >= 7 { fields.nullable_string("group instance id")? } else { None },
    };
    if version <= 4 {
        fields.i64("retention time")?;
    }
    let mut commits = Vec::new();
    let topics = read_topics(call, &mut fields, who.group, &mut commits)?;
    fields.tags()?;
    let mut error = call
        .group_refusal(Operation::Read, who.group)
        .unwrap_or_else(|| call.node.with_groups(|groups, _| groups.commit(Instant::now(), &who)));
    if error == code::NONE && call.node.offsets.commit(commits).is_err() {
        error = code::KAFKA_STORAGE_ERROR;
    }
    write(answer, version, &topics, error);
    Ok(Outcome::Reply)
}

fn read_topics<'a>(
    call: &Call<'_>,
    fields: &mut Fields<'a>,
    group: &str,
    commits: &mut Vec<(Place, Committed)>,
) -> Result<Vec<Asked<'a>>, WireError> {
    let mut topics = Vec::new();
    for _ in 0..fields.array("topics")? {
        let name = fields.string("topic")?;
        let allowed = call.allows_topic(Operation::Read, name);
        let topic = call.node.topics.by_name(name);
        let mut partitions = Vec::new();
        for _ in 0..fields.array("partitions")? {
            let index = fields.i32("partition")?;
            let offset = fields.i64("committed offset")?;
            let leader_epoch = if call.version >= 6 { fields.i32("committed leader epoch")? } else { -1 };
            let metadata = fields.nullable_string("committed metadata")?.unwrap_or_default().to_owned();
            fields.tags()?;
            let exists = topic.as_ref().is_some_and(|topic| topic.partition(index).is_some());
            let error = match (allowed, exists) {
                (false, _) => code::TOPIC_AUTHORIZATION_FAILED,
                (true, false) => code::UNKNOWN_TOPIC_OR_PARTITION,
                (true, true) => code::NONE,
            };
            partitions.push((index, error));
            if error == code::NONE {
                let place = (group.to_owned(), name.to_owned(), index);
                commits.push((place, Committed { offset, leader_epoch, metadata }));
            }
        }
        fields.tags()?;
        topics.push((name, partitions));
    }
    Ok(topics)
}

fn write(answer: &mut Answer<'_>, version: i16, topics: &[Asked<'_>], error: i16) {
    if version >= 3 {
        answer.i32(0);
    }
    answer.array(topics.len());
    for (name, partitions) in topics {
        answer.string(name);
        answer.array(partitions.len());
        for (index, own) in partitions {
            answer.i32(*index);
            answer.i16(if error == code::NONE { *own } else { error });
            answer.tags();
        }
        answer.tags();
    }
    answer.tags();
}

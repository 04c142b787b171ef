//! TxnOffsetCommit: where a group will have got to if a transaction commits.

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use super::k08_offset_commit::MOST_METADATA_BYTES;
use crate::code;
use crate::groups::{CommitKind, Now, Who};
use crate::keys::park::{Attempt, Park};
use crate::offsets::Committed;
use crate::protocol::{Answer, Fields};
use crate::reply::Reply;
use crate::security::acl::Operation;
use crate::transactions::producer::Producer;

/// First version of the second protocol: committing offsets announces their group.
const ANNOUNCES: i16 = 5;
/// From here on an error that ends the transaction, and not the producer, has a code of its own.
const KNOWS_ABORTABLE: i16 = 4;

/// Topic, partition, and what is to be committed there.
type Commits = Vec<((String, i32), Committed)>;

/// A request, but for its offsets.
struct Asked<'a> {
    name: &'a str,
    producer: Producer,
    who: Who<'a>,
    /// With their partitions, each with what speaks against it.
    topics: Vec<(&'a str, Vec<(i32, i16)>)>,
}

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let mut commits = Vec::new();
    let asked = read(call, call.fields(), &mut commits)?;
    let result = match &call.attempt {
        Attempt::Answered(Reply::Code(code::NONE)) => Ok(false),
        Attempt::Answered(Reply::Code(error)) => Err(*error),
        // The group is a part of the transaction now.
        Attempt::Answered(Reply::Producer(_)) => stage(call, &asked, commits),
        _ => begin(call, &asked, commits),
    };
    let error = match result {
        Ok(true) => return Ok(Outcome::Park(Park::Reply)),
        Ok(false) => code::NONE,
        Err(error) => told(call.version, error),
    };
    write(answer, &asked, error);
    Ok(Outcome::Reply)
}

fn read<'a>(call: &Call<'_>, mut fields: Fields<'a>, commits: &mut Commits) -> Result<Asked<'a>, WireError> {
    let name = fields.string("transactional id")?;
    let group = fields.string("group id")?;
    let producer = Producer { id: fields.i64("producer id")?, epoch: fields.i16("producer epoch")? };
    let mut who = Who { group, generation: -1, member: "", instance: None };
    if call.version >= 3 {
        who.generation = fields.i32("generation id")?;
        who.member = fields.string("member id")?;
        who.instance = fields.nullable_string("group instance id")?;
    }
    let mut topics = Vec::new();
    for _ in 0..fields.array("topics")? {
        let topic = fields.string("topic")?;
        topics.push((topic, read_partitions(call, &mut fields, topic, commits)?));
        fields.tags()?;
    }
    fields.tags()?;
    Ok(Asked { name, producer, who, topics })
}

fn read_partitions(
    call: &Call<'_>,
    fields: &mut Fields<'_>,
    name: &str,
    commits: &mut Commits,
) -> Result<Vec<(i32, i16)>, WireError> {
    let allowed = call.allows_topic(Operation::Read, name);
    let topic = call.node.topics.by_name(name);
    let mut partitions = Vec::new();
    for _ in 0..fields.array("partitions")? {
        let index = fields.i32("partition")?;
        let offset = fields.i64("committed offset")?;
        let leader_epoch = if call.version >= 2 { fields.i32("committed leader epoch")? } else { -1 };
        let metadata = fields.nullable_string("committed metadata")?.unwrap_or_default().to_owned();
        fields.tags()?;
        let exists = topic.as_ref().is_some_and(|topic| topic.partition(index).is_some());
        let error = match (allowed, exists) {
            (false, _) => code::TOPIC_AUTHORIZATION_FAILED,
            (true, false) => code::UNKNOWN_TOPIC_OR_PARTITION,
            (true, true) if metadata.len() > MOST_METADATA_BYTES => code::OFFSET_METADATA_TOO_LARGE,
            (true, true) => code::NONE,
        };
        partitions.push((index, error));
        if error == code::NONE {
            let committed = Committed { offset, leader_epoch, metadata, at_ms: Now::read().unix_ms };
            commits.push(((name.to_owned(), index), committed));
        }
    }
    Ok(partitions)
}

/// Returns whether there is something to wait for.
fn begin(call: &Call<'_>, asked: &Asked<'_>, commits: Commits) -> Result<bool, i16> {
    let group = asked.who.group;
    let refused = call.transaction_refusal(Operation::Write, asked.name);
    if let Some(error) = refused.or_else(|| call.group_refusal(Operation::Read, group)) {
        return Err(error);
    }
    let transactions = &call.node.transactions;
    if call.version >= ANNOUNCES && transactions.add_group(call.ticket, asked.name, asked.producer, group)? {
        return Ok(true);
    }
    stage(call, asked, commits)
}

/// All under the locks of the groups and of the transactions: neither a rebalance nor an end comes in between.
fn stage(call: &Call<'_>, asked: &Asked<'_>, commits: Commits) -> Result<bool, i16> {
    let node = call.node;
    let waits = !commits.is_empty();
    let places = commits.iter().map(|((topic, partition), _)| (asked.who.group, topic.as_str(), *partition));
    if !node.offsets.has_room(places) {
        return Err(code::POLICY_VIOLATION);
    }
    let stage = || {
        if waits {
            let then = Some((call.ticket, Reply::Code(code::NONE)));
            node.offsets.stage(asked.producer.id, asked.who.group, commits, then);
        }
    };
    node.with_groups(|groups, _| match groups.commit(Now::read(), &asked.who, CommitKind::Transactional) {
        code::NONE => node.transactions.stage(asked.name, asked.producer, asked.who.group, stage),
        error => Err(error),
    })?;
    Ok(waits)
}

/// The error that clients of this version know. A group coordinator never returns the error of a fenced producer.
fn told(version: i16, error: i16) -> i16 {
    match error {
        code::PRODUCER_FENCED => code::INVALID_PRODUCER_EPOCH,
        code::TRANSACTION_ABORTABLE if version < KNOWS_ABORTABLE => code::INVALID_TXN_STATE,
        other => other,
    }
}

fn write(answer: &mut Answer<'_>, asked: &Asked<'_>, error: i16) {
    answer.i32(0);
    answer.array(asked.topics.len());
    for (topic, partitions) in &asked.topics {
        answer.string(topic);
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

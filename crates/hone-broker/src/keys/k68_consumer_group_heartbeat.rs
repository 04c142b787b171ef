//! ConsumerGroupHeartbeat: the one request of KIP-848 by which a member joins, lives, moves and leaves.

use std::collections::{BTreeMap, BTreeSet};

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use crate::code;
use crate::groups::{Beat, BeatAnswer, Catalogue, Now};
use crate::keys::park::{Attempt, Park};
use crate::protocol::{Answer, Fields};
use crate::reply::Reply;
use crate::security::acl::Operation;

/// The topics as far as a pattern of the client may find them.
struct Visible<'a, 'c>(&'a Call<'c>);

impl Catalogue for Visible<'_, '_> {
    fn topic(&self, name: &str) -> Option<(u128, i32)> {
        self.0.node.topics.topic(name)
    }

    fn names(&self) -> Vec<String> {
        let mut names = self.0.node.topics.names();
        names.retain(|name| self.0.allows_topic(Operation::Describe, name));
        names
    }

    fn viewer(&self) -> String {
        let call = self.0;
        if call.node.acls.are_enforced() {
            format!("{} {}", call.session.principal(), call.host)
        } else {
            String::new()
        }
    }
}

fn refusal(call: &Call<'_>, beat: &Beat) -> Option<(i16, &'static str)> {
    if let Some(error) = call.group_refusal(Operation::Read, &beat.group) {
        return Some((error, "not allowed to be in the group"));
    }
    let mut names = beat.names.iter().flatten();
    let error = names.find_map(|name| call.topic_refusal(Operation::Describe, name))?;
    Some((error, "not allowed to see one of the topics"))
}

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    match &call.attempt {
        Attempt::Answered(Reply::Beat(beat)) => {
            write(answer, beat);
            return Ok(Outcome::Reply);
        }
        Attempt::Answered(Reply::Code(error)) => {
            write_error(answer, *error, None);
            return Ok(Outcome::Reply);
        }
        _ => (),
    }
    let beat = read(call)?;
    if let Some((error, message)) = refusal(call, &beat) {
        write_error(answer, error, Some(message));
        return Ok(Outcome::Reply);
    }
    let ticket = call.ticket;
    let beaten = call.node.with_groups(|groups, effects| {
        groups.consumer_heartbeat(Now::read(), ticket, &beat, &Visible(call), effects)
    });
    match beaten {
        Some(beaten) => {
            write(answer, &beaten);
            Ok(Outcome::Reply)
        }
        None => Ok(Outcome::Park(Park::Reply)),
    }
}

fn read(call: &Call<'_>) -> Result<Beat, WireError> {
    let mut fields = call.fields();
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let beat = Beat {
        group: fields.string("group id")?.to_owned(),
        member: fields.string("member id")?.to_owned(),
        epoch: fields.i32("member epoch")?,
        instance: owned(fields.nullable_string("instance id")?),
        rack: owned(fields.nullable_string("rack id")?),
        rebalance_ms: fields.i32("rebalance timeout")?,
        names: read_names(&mut fields)?,
        pattern: if call.version >= 1 { owned(fields.nullable_string("topic regex")?) } else { None },
        assignor: owned(fields.nullable_string("server assignor")?),
        owned: read_partitions(&mut fields)?,
        client_id: call.client_id().to_owned(),
        client_host: call.client_host(),
        names_itself: call.version >= 1,
    };
    fields.tags()?;
    Ok(beat)
}

fn read_names(fields: &mut Fields<'_>) -> Result<Option<Vec<String>>, WireError> {
    let Some(count) = fields.nullable_array("topic names")? else { return Ok(None) };
    let mut names = Vec::new();
    for _ in 0..count {
        names.push(fields.string("topic name")?.to_owned());
    }
    Ok(Some(names))
}

fn read_partitions(fields: &mut Fields<'_>) -> Result<Option<BTreeSet<(u128, i32)>>, WireError> {
    let Some(count) = fields.nullable_array("topic partitions")? else { return Ok(None) };
    let mut partitions = BTreeSet::new();
    for _ in 0..count {
        let id = fields.uuid("topic id")?;
        for _ in 0..fields.array("partitions")? {
            partitions.insert((id, fields.i32("partition")?));
        }
        fields.tags()?;
    }
    Ok(Some(partitions))
}

fn write(answer: &mut Answer<'_>, beat: &BeatAnswer) {
    if beat.error != code::NONE {
        write_error(answer, beat.error, beat.message.as_deref());
        return;
    }
    answer.i32(0);
    answer.i16(code::NONE);
    answer.nullable_string(None);
    answer.nullable_string(Some(&beat.member));
    answer.i32(beat.epoch);
    answer.i32(beat.heartbeat_ms);
    match &beat.assignment {
        // A structure that may be null has a byte in front that says whether it is.
        None => answer.i8(-1),
        Some(assignment) => {
            answer.i8(1);
            write_partitions(answer, assignment);
            answer.tags();
        }
    }
    answer.tags();
}

fn write_error(answer: &mut Answer<'_>, error: i16, message: Option<&str>) {
    answer.i32(0);
    answer.i16(error);
    answer.nullable_string(message);
    answer.nullable_string(None);
    answer.i32(0);
    answer.i32(0);
    answer.i8(-1);
    answer.tags();
}

fn write_partitions(answer: &mut Answer<'_>, partitions: &BTreeSet<(u128, i32)>) {
    let mut topics: BTreeMap<u128, Vec<i32>> = BTreeMap::new();
    for (id, partition) in partitions {
        topics.entry(*id).or_default().push(*partition);
    }
    answer.array(topics.len());
    for (id, partitions) in topics {
        answer.uuid(id);
        answer.array(partitions.len());
        partitions.into_iter().for_each(|partition| answer.i32(partition));
        answer.tags();
    }
}

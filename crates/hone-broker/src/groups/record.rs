//! How a group is written to the journal, and read back: each entry has the whole group as it then was.

use std::collections::BTreeMap;
use std::time::Duration;

use super::assignor::{Assignor, Partitions};
use super::group::Group;
use super::step::Now;
use super::{classic, consumer};
use crate::protocol::{Answer, Fields};

/// First byte of a journal entry that is of a group.
pub(crate) const RECORD: u8 = b'g';
/// The kinds of an entry, its first byte behind the one that says it is of a group.
const GONE: i8 = 0;
const CLASSIC: i8 = 1;
const CONSUMER: i8 = 2;

/// Writes what a group is; `None` for one that is no more.
pub(super) fn write(id: &str, group: Option<&Group>) -> Vec<u8> {
    let mut bytes = vec![RECORD];
    let mut out = Answer::new(&mut bytes, true);
    match group {
        None => {
            out.i8(GONE);
            text(&mut out, id);
        }
        Some(Group::Classic(group)) => {
            out.i8(CLASSIC);
            text(&mut out, id);
            write_classic(&mut out, group);
        }
        Some(Group::Consumer(group)) => {
            out.i8(CONSUMER);
            text(&mut out, id);
            write_consumer(&mut out, group);
        }
    }
    bytes
}

/// Reads what [`write()`] wrote, behind its first byte. `None` when that is damaged, which the CRC makes a defect.
pub(super) fn read(now: Now, session: Duration, bytes: &[u8]) -> Option<(String, Option<Group>)> {
    let mut fields = Fields::new(bytes, true);
    let kind = fields.i8("kind").ok()?;
    let id = read_text(&mut fields)?;
    let group = match kind {
        GONE => None,
        CLASSIC => Some(Group::Classic(read_classic(now, &id, &mut fields)?)),
        CONSUMER => Some(Group::Consumer(read_consumer(now, session, &id, &mut fields)?)),
        _ => return None,
    };
    Some((id, group))
}

fn write_classic(out: &mut Answer<'_>, group: &classic::Classic) {
    out.i32(group.generation);
    text(out, &group.protocol_type);
    text(out, &group.protocol);
    text(out, &group.leader);
    out.i64(group.empty_since_ms);
    out.array(group.members.len());
    for (id, member) in &group.members {
        text(out, id);
        optional(out, member.instance.as_deref());
        text(out, &member.client_id);
        text(out, &member.client_host);
        out.i64(member.session.as_millis() as i64);
        out.i64(member.rebalance.as_millis() as i64);
        out.array(member.protocols.len());
        for (name, metadata) in &member.protocols {
            text(out, name);
            out.bytes(metadata);
        }
        out.bytes(&member.assignment);
    }
}

fn read_classic(now: Now, id: &str, fields: &mut Fields<'_>) -> Option<classic::Classic> {
    let mut group = classic::Classic::empty(id, now);
    group.generation = fields.i32("generation").ok()?;
    group.protocol_type = read_text(fields)?;
    group.protocol = read_text(fields)?;
    group.leader = read_text(fields)?;
    group.empty_since_ms = fields.i64("empty since").ok()?;
    for _ in 0..fields.array("members").ok()? {
        let id = read_text(fields)?;
        let mut member = classic::Member::new(now);
        member.instance = read_optional(fields)?;
        member.client_id = read_text(fields)?;
        member.client_host = read_text(fields)?;
        member.session = read_duration(fields)?;
        member.rebalance = read_duration(fields)?;
        for _ in 0..fields.array("protocols").ok()? {
            let name = read_text(fields)?;
            member.protocols.push((name, fields.bytes("metadata").ok()?.to_vec()));
        }
        member.assignment = fields.bytes("assignment").ok()?.to_vec();
        group.restore_member(now, id, member);
    }
    Some(group)
}

fn write_consumer(out: &mut Answer<'_>, group: &consumer::Consumer) {
    out.i32(group.epoch);
    out.i32(group.assignment_epoch);
    optional(out, group.assignor.map(Assignor::name));
    out.i64(group.empty_since_ms);
    out.array(group.topics.len());
    for (name, (id, partitions)) in &group.topics {
        text(out, name);
        out.uuid(*id);
        out.i32(*partitions);
    }
    out.array(group.members.len());
    for (id, member) in &group.members {
        text(out, id);
        optional(out, member.instance.as_deref());
        optional(out, member.rack.as_deref());
        text(out, &member.client_id);
        text(out, &member.client_host);
        out.i32(member.rebalance_ms);
        out.array(member.names.len());
        member.names.iter().for_each(|name| text(out, name));
        optional(out, member.pattern.as_deref());
        optional(out, member.assignor.as_deref());
        out.i32(member.epoch);
        out.i32(member.previous_epoch);
        for partitions in [&member.assigned, &member.revoking, &member.target] {
            write_partitions(out, partitions);
        }
    }
}

fn read_consumer(
    now: Now,
    session: Duration,
    id: &str,
    fields: &mut Fields<'_>,
) -> Option<consumer::Consumer> {
    let mut group = consumer::Consumer::empty(id, now);
    group.epoch = fields.i32("epoch").ok()?;
    group.assignment_epoch = fields.i32("assignment epoch").ok()?;
    group.assignor = read_optional(fields)?.as_deref().and_then(Assignor::of_name);
    group.empty_since_ms = fields.i64("empty since").ok()?;
    let mut topics = BTreeMap::new();
    for _ in 0..fields.array("topics").ok()? {
        let name = read_text(fields)?;
        let topic = (fields.uuid("topic id").ok()?, fields.i32("partitions").ok()?);
        topics.insert(name, topic);
    }
    group.set_topics(topics);
    for _ in 0..fields.array("members").ok()? {
        let id = read_text(fields)?;
        let mut member = consumer::Member::new(now);
        member.instance = read_optional(fields)?;
        member.rack = read_optional(fields)?;
        member.client_id = read_text(fields)?;
        member.client_host = read_text(fields)?;
        member.rebalance_ms = fields.i32("rebalance timeout").ok()?;
        for _ in 0..fields.array("names").ok()? {
            member.names.insert(read_text(fields)?);
        }
        member.pattern = read_optional(fields)?;
        member.assignor = read_optional(fields)?;
        member.epoch = fields.i32("member epoch").ok()?;
        member.previous_epoch = fields.i32("previous epoch").ok()?;
        member.assigned = read_partitions(fields)?;
        member.revoking = read_partitions(fields)?;
        member.target = read_partitions(fields)?;
        group.restore_member(now, session, id, member);
    }
    Some(group)
}

/// As bytes: an answer's strings are cut at 32 KiB, and a key must come back whole.
fn text(out: &mut Answer<'_>, text: &str) {
    out.bytes(text.as_bytes());
}

fn optional(out: &mut Answer<'_>, value: Option<&str>) {
    out.bool(value.is_some());
    text(out, value.unwrap_or_default());
}

fn read_text(fields: &mut Fields<'_>) -> Option<String> {
    String::from_utf8(fields.bytes("text").ok()?.to_vec()).ok()
}

fn read_optional(fields: &mut Fields<'_>) -> Option<Option<String>> {
    let given = fields.bool("given").ok()?;
    let value = read_text(fields)?;
    Some(given.then_some(value))
}

fn read_duration(fields: &mut Fields<'_>) -> Option<Duration> {
    Some(Duration::from_millis(u64::try_from(fields.i64("milliseconds").ok()?).ok()?))
}

fn write_partitions(out: &mut Answer<'_>, partitions: &Partitions) {
    out.array(partitions.len());
    for (id, partition) in partitions {
        out.uuid(*id);
        out.i32(*partition);
    }
}

fn read_partitions(fields: &mut Fields<'_>) -> Option<Partitions> {
    let count = fields.array("partitions").ok()?;
    (0..count).map(|_| Some((fields.uuid("topic id").ok()?, fields.i32("partition").ok()?))).collect()
}

//! The group coordinator: classic groups and consumer groups (KIP-848) under one roof of ids.
//!
//! State machines without I/O: every step gets the time and returns what came of it. Answers for parked requests and
//! the groups that must be written to the journal are [`Effects`]; an answer goes out when what led to it is durable.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::code;
use crate::limits::Limits;
use crate::reply::Reply;
use crate::ticket::Ticket;

pub(crate) mod answers;
mod assignor;
mod bytes;
mod classic;
mod consumer;
mod description;
mod group;
mod record;
mod request;
mod step;
mod subscription;

pub(crate) use answers::{BeatAnswer, JoinAnswer, SyncAnswer};
use classic::Classic;
use consumer::Consumer;
pub(crate) use description::{ConsumerDescription, ConsumerMemberDescription, GroupDescription, Listed};
pub(crate) use record::RECORD;
pub(crate) use request::{Beat, Catalogue, CommitKind, Join, Who};
pub(crate) use step::{Effects, Now, Timing};

use answers::Refusal;
use group::Group;

/// Kafka's `group.max.session.timeout.ms`.
const MOST_SESSION_MS: i32 = 1_800_000;

/// What ListGroups names the two kinds.
pub(crate) const CLASSIC: &str = "classic";
const CONSUMER: &str = "consumer";

/// All groups.
#[derive(Debug)]
pub(crate) struct Groups {
    groups: BTreeMap<String, Group>,
    timing: Timing,
    limits: Limits,
    ids: MemberIds,
    /// What the groups take up: each as it was last weighed, and since then it has not grown.
    held_bytes: usize,
    /// Whether [`Groups::tick`] may have something to do.
    active: bool,
}

impl Groups {
    /// No groups. `salt` must never have been used before.
    pub(crate) fn new(timing: Timing, salt: u64) -> Self {
        let ids = MemberIds { salt, given: 0 };
        Self { groups: BTreeMap::new(), timing, limits: Limits::default(), ids, held_bytes: 0, active: false }
    }

    /// Sets the maximum numbers of groups and members. Existing ones beyond the limits stay.
    pub(crate) fn limited(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Whether a group of this id can be there: it is, or there is room for one more.
    fn has_room(&self, id: &str) -> bool {
        self.groups.contains_key(id) || self.groups.len() < self.limits.groups
    }

    /// Takes an entry of the journal in, without its first byte. `false` for one that can't be read.
    pub(crate) fn replay(&mut self, now: Now, bytes: &[u8]) -> bool {
        self.active = true;
        match record::read(now, self.timing.session, bytes) {
            Some((id, Some(group))) => self.put(id, group),
            Some((id, None)) => self.take_out(&id),
            None => return false,
        }
        true
    }

    /// The journal entries of the groups that a step has touched.
    pub(crate) fn records(&self, effects: &Effects) -> Vec<Vec<u8>> {
        effects.touched.iter().map(|id| record::write(id, self.groups.get(id))).collect()
    }

    /// Ids and journal entries of the next groups behind an id.
    pub(crate) fn records_behind(&self, id: Option<&str>, most: usize) -> Vec<(String, Vec<u8>)> {
        let from = id.map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.groups.range::<str, _>((from, Bound::Unbounded)).take(most);
        next.map(|(id, group)| (id.clone(), record::write(id, Some(group)))).collect()
    }

    /// The journal entries of all groups.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn all_records(&self) -> Vec<Vec<u8>> {
        self.groups.iter().map(|(id, group)| record::write(id, Some(group))).collect()
    }

    /// Whether [`Groups::tick`] has anything to watch.
    pub(crate) fn is_idle(&self) -> bool {
        !self.active
    }

    /// The group as a classic one, made if need be: an empty group of the other kind becomes one.
    fn classic_to_join(&mut self, now: Now, id: &str) -> Option<&mut Classic> {
        if !matches!(self.groups.get(id), Some(Group::Classic(_))) {
            if self.groups.get(id).is_some_and(|group| !group.is_empty()) {
                return None;
            }
            self.put(id.to_owned(), Group::Classic(Classic::empty(id, now)));
        }
        self.classic(id)
    }

    fn classic(&mut self, id: &str) -> Option<&mut Classic> {
        match self.groups.get_mut(id) {
            Some(Group::Classic(group)) => Some(group),
            _ => None,
        }
    }

    /// A member wants in. `Some` is the answer; with `None` it will be among a step's effects.
    pub(crate) fn join(
        &mut self,
        now: Now,
        ticket: Ticket,
        join: Join,
        effects: &mut Effects,
    ) -> Option<JoinAnswer> {
        if let Some(error) = refuse(&join) {
            return Some(JoinAnswer::refused(error, &join.member));
        }
        if !join.member.is_empty() && self.classic(&join.group).is_none() {
            let taken = self.groups.get(&join.group).is_some_and(|group| !group.is_empty());
            let error = if taken { code::INCONSISTENT_GROUP_PROTOCOL } else { code::UNKNOWN_MEMBER_ID };
            return Some(JoinAnswer::refused(error, &join.member));
        }
        if !self.has_room(&join.group) || !self.has_bytes_for_join(&join) {
            return Some(JoinAnswer::refused(code::POLICY_VIOLATION, &join.member));
        }
        self.active = true;
        let new_id = self.ids.next(&join.client_id);
        let most_members = self.limits.group_members;
        let initial_delay = self.timing.initial_delay;
        let Some(group) = self.classic_to_join(now, &join.group) else {
            return Some(JoinAnswer::refused(code::INCONSISTENT_GROUP_PROTOCOL, &join.member));
        };
        if group.is_stranger(&join) && group.size() >= most_members {
            return Some(JoinAnswer::refused(code::GROUP_MAX_SIZE_REACHED, &join.member));
        }
        let id = join.group.clone();
        let answer = group.join(now, initial_delay, ticket, join, new_id, effects);
        self.weigh(&id);
        answer
    }

    /// A member wants its assignment, the leader brings them all. `protocol` is type and name, where the client says.
    pub(crate) fn sync(
        &mut self,
        now: Now,
        ticket: Ticket,
        who: &Who<'_>,
        protocol: (Option<&str>, Option<&str>),
        assignments: Vec<(String, Vec<u8>)>,
        effects: &mut Effects,
    ) -> Option<SyncAnswer> {
        let Some(group) = self.classic(who.group) else {
            return Some(SyncAnswer::refused(code::UNKNOWN_MEMBER_ID));
        };
        let leads = group.awaits_plan_of(who);
        if leads && !self.has_bytes_for_plan(who.group, &assignments) {
            return Some(SyncAnswer::refused(code::POLICY_VIOLATION));
        }
        let group = self.classic(who.group)?;
        let answer = group.sync(now, ticket, who, protocol, assignments, effects);
        if leads {
            self.weigh(who.group);
        }
        answer
    }

    /// A sign of life. Returns an error code.
    pub(crate) fn heartbeat(&mut self, now: Now, who: &Who<'_>) -> i16 {
        self.classic(who.group).map_or(code::UNKNOWN_MEMBER_ID, |group| group.heartbeat(now, who))
    }

    /// Members go, each named by its id or its instance. Returns an error code for each, or one for all.
    pub(crate) fn leave(
        &mut self,
        now: Now,
        group: &str,
        leaving: &[(&str, Option<&str>)],
        effects: &mut Effects,
    ) -> Result<Vec<i16>, i16> {
        let left = self.classic(group).ok_or(code::UNKNOWN_MEMBER_ID)?;
        let results =
            leaving.iter().map(|(member, instance)| left.leave(now, member, *instance, effects)).collect();
        self.weigh(group);
        Ok(results)
    }

    /// A member of a consumer group beats. `Some` is the answer; with `None` it is among the effects.
    pub(crate) fn consumer_heartbeat(
        &mut self,
        now: Now,
        ticket: Ticket,
        beat: &Beat,
        catalogue: &dyn Catalogue,
        effects: &mut Effects,
    ) -> Option<BeatAnswer> {
        match self.beat(now, beat, catalogue, effects) {
            Err(refusal) => Some(BeatAnswer::refused(refusal)),
            Ok(answer) if effects.touched.is_empty() => Some(answer),
            Ok(answer) => {
                effects.replies.push((ticket, Reply::Beat(answer)));
                None
            }
        }
    }

    fn beat(
        &mut self,
        now: Now,
        beat: &Beat,
        catalogue: &dyn Catalogue,
        effects: &mut Effects,
    ) -> Result<BeatAnswer, Refusal> {
        let Timing { session, heartbeat, .. } = self.timing;
        // First of all: a request that makes no sense makes no group.
        consumer::check(beat)?;
        self.active = true;
        let new_id = self.ids.next("consumer");
        let most_members = self.limits.group_members;
        let grows = self.check_bytes_of_beat(beat)?;
        let group = self.consumer_to_beat(now, beat)?;
        if group.is_stranger(beat) && group.members.len() >= most_members {
            let message = format!("group {} already has the maximum of {most_members} members", beat.group);
            return Err((code::GROUP_MAX_SIZE_REACHED, message));
        }
        let beaten = group.heartbeat(now, session, beat, new_id, catalogue, effects);
        if grows || !effects.touched.is_empty() {
            self.weigh(&beat.group);
        }
        let (member, epoch, assignment) = beaten?;
        let heartbeat_ms = i32::try_from(heartbeat.as_millis()).unwrap_or(i32::MAX);
        Ok(BeatAnswer { error: code::NONE, message: None, member, epoch, heartbeat_ms, assignment })
    }

    /// The group as a consumer group; a member that joins makes it, or makes one of an empty classic group.
    fn consumer_to_beat(&mut self, now: Now, beat: &Beat) -> Result<&mut Consumer, Refusal> {
        let id = &beat.group;
        if id.is_empty() {
            return Err((code::INVALID_REQUEST, "the group id is missing".to_owned()));
        }
        let replaceable = match self.groups.get(id) {
            None => true,
            Some(Group::Classic(group)) => group.is_idle(),
            Some(Group::Consumer(_)) => false,
        };
        if replaceable && beat.epoch == 0 {
            if !self.has_room(id) {
                let message = format!("the broker already has the maximum of {} groups", self.limits.groups);
                return Err((code::POLICY_VIOLATION, message));
            }
            self.put(id.clone(), Group::Consumer(Consumer::empty(id, now)));
        }
        match self.groups.get_mut(id) {
            Some(Group::Consumer(group)) => Ok(group),
            Some(Group::Classic(_)) => {
                Err((code::GROUP_ID_NOT_FOUND, format!("group {id} is not a consumer group")))
            }
            None => Err((code::GROUP_ID_NOT_FOUND, format!("there is no group {id}"))),
        }
    }

    /// Whether a commit of offsets is allowed. Returns an error code.
    pub(crate) fn commit(&mut self, now: Now, who: &Who<'_>, kind: CommitKind) -> i16 {
        let transactional = kind == CommitKind::Transactional;
        let knows_epochs = kind == CommitKind::Plain { knows_epochs: true };
        if who.group.is_empty() {
            return code::INVALID_GROUP_ID;
        }
        match self.groups.get_mut(who.group) {
            // Consumers that assign partitions themselves only store offsets.
            None if who.generation < 0 => code::NONE,
            None if knows_epochs => code::GROUP_ID_NOT_FOUND,
            None => code::ILLEGAL_GENERATION,
            Some(Group::Classic(group)) => group.commit(now, who, transactional),
            Some(Group::Consumer(group)) => {
                let anonymous = who.generation < 0 && who.member.is_empty();
                if group.members.is_empty() && who.generation < 0 || transactional && anonymous {
                    return code::NONE;
                }
                let wrong_epoch = match kind {
                    CommitKind::Transactional => code::ILLEGAL_GENERATION,
                    CommitKind::Plain { .. } => code::STALE_MEMBER_EPOCH,
                };
                match group.check_member(who.member, who.generation, wrong_epoch) {
                    code::NONE if !transactional && !knows_epochs => code::UNSUPPORTED_VERSION,
                    error => error,
                }
            }
        }
    }

    /// Whether offsets may be fetched as this member, where one is named. Returns an error code.
    pub(crate) fn fetch_offsets(&self, group: &str, member: Option<&str>, epoch: i32) -> i16 {
        match (self.groups.get(group), member) {
            (Some(Group::Consumer(group)), Some(member)) if !(member.is_empty() && epoch < 0) => {
                group.check_member(member, epoch, code::STALE_MEMBER_EPOCH)
            }
            _ => code::NONE,
        }
    }

    /// A classic group; `None` when there is none of this kind.
    pub(crate) fn describe(&self, group: &str) -> Option<GroupDescription> {
        match self.groups.get(group)? {
            Group::Classic(group) => Some(group.describe()),
            Group::Consumer(_) => None,
        }
    }

    /// A consumer group; `None` when there is none of this kind.
    pub(crate) fn describe_consumer(&self, group: &str) -> Option<ConsumerDescription> {
        let Group::Consumer(group) = self.groups.get(group)? else { return None };
        let member = |(id, member): (&String, &consumer::Member)| ConsumerMemberDescription {
            id: id.clone(),
            instance: member.instance.clone(),
            rack: member.rack.clone(),
            epoch: member.epoch,
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            names: member.names.iter().cloned().collect(),
            pattern: member.pattern.clone(),
            assigned: member.assigned.clone(),
            target: member.target.clone(),
        };
        Some(ConsumerDescription {
            state: group.state_name(),
            epoch: group.epoch,
            assignment_epoch: group.assignment_epoch,
            assignor: group.assignor.unwrap_or(assignor::Assignor::Uniform).name(),
            members: group.members.iter().map(member).collect(),
            topics: group.topics.iter().map(|(name, (id, _))| (*id, name.clone())).collect(),
        })
    }

    /// Every group with its state.
    pub(crate) fn list(&self) -> Vec<Listed> {
        let listed = |(id, group): (&String, &Group)| {
            let (protocol_type, state, kind) = match group {
                Group::Classic(group) => (group.protocol_type.clone(), group.state_name(), CLASSIC),
                Group::Consumer(group) => (CONSUMER.to_owned(), group.state_name(), CONSUMER),
            };
            Listed { id: id.clone(), protocol_type, state, kind }
        };
        self.groups.iter().map(listed).collect()
    }

    /// Whether there is a group of this id, of either kind.
    pub(crate) fn contains(&self, group: &str) -> bool {
        self.groups.contains_key(group)
    }

    /// Takes an empty group out. Returns an error code.
    pub(crate) fn delete(&mut self, group: &str, effects: &mut Effects) -> i16 {
        match self.groups.get(group) {
            None => code::GROUP_ID_NOT_FOUND,
            Some(found) if !found.is_empty() => code::NON_EMPTY_GROUP,
            Some(_) => {
                self.take_out(group);
                effects.touch(group);
                code::NONE
            }
        }
    }

    /// Of which of some topics a group's members need the offsets; an error code where they may need them all. Every
    /// subscription is looked at once, however many topics are asked about.
    pub(crate) fn guarded<'a>(
        &self,
        group: &str,
        asked: &BTreeSet<&'a str>,
    ) -> Result<BTreeSet<&'a str>, i16> {
        match self.groups.get(group) {
            None => Ok(BTreeSet::new()),
            Some(Group::Classic(group)) => group.guarded(asked),
            Some(Group::Consumer(group)) => Ok(group.guarded(asked)),
        }
    }

    /// Since when a group has no members: `None` when it has some, 0 for one that only has offsets.
    pub(crate) fn empty_since_ms(&self, group: &str) -> Option<i64> {
        match self.groups.get(group) {
            Some(found) if !found.is_empty() => None,
            Some(Group::Classic(group)) => Some(group.empty_since_ms),
            Some(Group::Consumer(group)) => Some(group.empty_since_ms),
            None => Some(0),
        }
    }

    /// The groups that are empty since before `until_ms`.
    pub(crate) fn long_empty(&self, until_ms: i64) -> Vec<String> {
        let ids = self.groups.keys();
        ids.filter(|id| self.empty_since_ms(id).is_some_and(|since| since <= until_ms)).cloned().collect()
    }

    /// Time has passed: sessions end, rebalances close.
    pub(crate) fn tick(&mut self, now: Now, effects: &mut Effects) {
        let (mut smaller, mut forgotten) = (Vec::new(), Vec::new());
        for (id, group) in &mut self.groups {
            let heads = group.heads();
            match group {
                Group::Classic(group) => group.tick(now, effects),
                Group::Consumer(group) => group.tick(now, effects),
            }
            // A group that was only asked about, and never had a member, is not kept.
            let was_asked_about =
                matches!(group, Group::Classic(group) if group.is_idle() && group.generation == 0);
            if was_asked_about {
                forgotten.push(id.clone());
            } else if group.heads() < heads {
                smaller.push(id.clone());
            }
        }
        smaller.iter().for_each(|id| self.weigh(id));
        forgotten.iter().for_each(|id| self.take_out(id));
        self.active = !self.groups.values().all(Group::is_idle);
    }
}

fn refuse(join: &Join) -> Option<i16> {
    if join.group.is_empty() {
        return Some(code::INVALID_GROUP_ID);
    }
    if !(1..=MOST_SESSION_MS).contains(&join.session_ms) {
        return Some(code::INVALID_SESSION_TIMEOUT);
    }
    (join.protocols.is_empty() || join.protocol_type.is_empty()).then_some(code::INCONSISTENT_GROUP_PROTOCOL)
}

/// Names members. Two brokers, or one before and after a restart, must not give the same id: a member that was
/// expelled could otherwise come back as another.
#[derive(Debug)]
struct MemberIds {
    salt: u64,
    given: u64,
}

impl MemberIds {
    fn next(&mut self, prefix: &str) -> String {
        self.given += 1;
        format!("{prefix}-{:016x}-{:x}", self.salt, self.given)
    }
}

#[cfg(test)]
mod tests;

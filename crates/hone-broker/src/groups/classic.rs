//! A group of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup. The members' leader assigns, the
//! coordinator only brings them together.
//!
//! One answer, exactly, for every JoinGroup or SyncGroup that was parked.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use super::answers::{JoinAnswer, SyncAnswer};
use super::description::{GroupDescription, MemberDescription};
use super::request::{Join, Protocols, Who};
use super::step::{Effects, Now, milliseconds};
use super::subscription;
use crate::code;
use crate::reply::Reply;
use crate::ticket::Ticket;

/// The protocol type of consumers; other members (Kafka Connect, for example) have their own.
const CONSUMER: &str = "consumer";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Empty,
    /// Members come (back) in until the deadline; a group that begins waits for it, others only for its members.
    Joining {
        until: Instant,
        beginning: bool,
    },
    /// Waiting for the leader's assignment.
    Syncing,
    Stable,
}

/// A member of a classic group.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) instance: Option<String>,
    pub(super) client_id: String,
    pub(super) client_host: String,
    pub(super) session: Duration,
    pub(super) rebalance: Duration,
    pub(super) protocols: Protocols,
    pub(super) assignment: Vec<u8>,
    expires: Instant,
    joining: Option<Ticket>,
    syncing: Option<Ticket>,
    /// Whether it has asked for its assignment since the last rebalance.
    synced: bool,
}

/// A group of the classic protocol.
#[derive(Debug)]
pub(super) struct Classic {
    pub(super) id: String,
    state: State,
    pub(super) generation: i32,
    pub(super) protocol_type: String,
    pub(super) protocol: String,
    pub(super) leader: String,
    pub(super) members: BTreeMap<String, Member>,
    /// Ids that were given and must come back before their time.
    pub(super) expected: HashMap<String, Instant>,
    /// Until when everyone must have asked for its assignment.
    sync_until: Option<Instant>,
    /// Since when it has no members, as wall clock; meaningless while it has some.
    pub(super) empty_since_ms: i64,
    /// What it took up when it was last weighed.
    pub(super) weighed_bytes: usize,
}

impl Classic {
    pub(super) fn empty(id: &str, now: Now) -> Self {
        Self {
            id: id.to_owned(),
            state: State::Empty,
            generation: 0,
            protocol_type: String::new(),
            protocol: String::new(),
            leader: String::new(),
            members: BTreeMap::new(),
            expected: HashMap::new(),
            sync_until: None,
            empty_since_ms: now.unix_ms,
            weighed_bytes: 0,
        }
    }

    /// Adds a member that was read from the journal: it has a whole session to come back.
    pub(super) fn restore_member(&mut self, now: Now, id: String, mut member: Member) {
        member.expires = now.at + member.session;
        member.synced = true;
        self.members.insert(id, member);
        self.state = State::Stable;
    }

    /// Whether the group has no members. Ids that were only handed out do not make it non-empty.
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether nothing will happen to it by time alone.
    pub(super) fn is_idle(&self) -> bool {
        self.members.is_empty() && self.expected.is_empty()
    }

    fn check_member(&self, who: &Who<'_>) -> Result<(), i16> {
        if let Some(instance) = who.instance {
            match self.member_of_instance(instance) {
                None => return Err(code::UNKNOWN_MEMBER_ID),
                Some(owner) if owner != who.member => return Err(code::FENCED_INSTANCE_ID),
                Some(_) => (),
            }
        }
        if self.members.contains_key(who.member) { Ok(()) } else { Err(code::UNKNOWN_MEMBER_ID) }
    }

    fn check(&self, who: &Who<'_>) -> Result<(), i16> {
        self.check_member(who)?;
        if who.generation != self.generation { Err(code::ILLEGAL_GENERATION) } else { Ok(()) }
    }

    pub(super) fn member_of_instance(&self, instance: &str) -> Option<String> {
        let owns = |member: &&Member| member.instance.as_deref() == Some(instance);
        self.members.iter().find(|(_, member)| owns(member)).map(|(id, _)| id.clone())
    }

    fn touch(&mut self, now: Now, member: &str) {
        if let Some(member) = self.members.get_mut(member) {
            member.expires = now.at + member.session;
        }
    }

    fn knows_everywhere(&self, name: &str) -> bool {
        self.members.values().all(|member| member.protocols.iter().any(|(known, _)| known == name))
    }

    fn fits(&self, join: &Join) -> bool {
        self.members.is_empty()
            || join.protocol_type == self.protocol_type
                && join.protocols.iter().any(|(name, _)| self.knows_everywhere(name))
    }

    /// Members, and ids that were given to those who are about to be.
    pub(super) fn size(&self) -> usize {
        self.members.len() + self.expected.len()
    }

    /// Whether it would be one more.
    pub(super) fn is_stranger(&self, join: &Join) -> bool {
        let returns = |instance: &str| self.member_of_instance(instance).is_some();
        join.member.is_empty() && !join.instance.as_deref().is_some_and(returns)
    }

    /// A member wants in. `Some` is the answer; with `None` it will be among a later step's effects.
    pub(super) fn join(
        &mut self,
        now: Now,
        initial_delay: Duration,
        ticket: Ticket,
        join: Join,
        new_id: String,
        effects: &mut Effects,
    ) -> Option<JoinAnswer> {
        let refused = |error, member: &str| Some(JoinAnswer::refused(error, member));
        if !self.fits(&join) {
            return refused(code::INCONSISTENT_GROUP_PROTOCOL, &join.member);
        }
        let owner = join.instance.as_deref().and_then(|instance| self.member_of_instance(instance));
        let id = match (join.member.as_str(), owner) {
            ("", Some(old)) => {
                return self.replace_static(now, initial_delay, ticket, &old, new_id, join, effects);
            }
            ("", None) if join.id_required && join.instance.is_none() => {
                self.expected.insert(new_id.clone(), now.at + milliseconds(join.session_ms));
                return refused(code::MEMBER_ID_REQUIRED, &new_id);
            }
            ("", None) => new_id,
            (id, Some(owner)) if owner != id => return refused(code::FENCED_INSTANCE_ID, id),
            (id, None) if join.instance.is_some() => return refused(code::UNKNOWN_MEMBER_ID, id),
            (id, _) if self.members.contains_key(id) || self.expected.remove(id).is_some() => id.to_owned(),
            (id, _) => return refused(code::UNKNOWN_MEMBER_ID, id),
        };
        self.enter(now, initial_delay, ticket, join, id, effects)
    }

    /// A static member has restarted: it takes its old self's place, with the assignment and without a rebalance
    /// where that still fits.
    #[expect(clippy::too_many_arguments, reason = "a step of the machine: time, who, what, effects")]
    fn replace_static(
        &mut self,
        now: Now,
        initial_delay: Duration,
        ticket: Ticket,
        old: &str,
        new_id: String,
        join: Join,
        effects: &mut Effects,
    ) -> Option<JoinAnswer> {
        let mut member = self.members.remove(old)?;
        fence(old, &mut member, effects);
        let leader_before = self.leader.clone();
        if self.leader == old {
            self.leader.clone_from(&new_id);
        }
        let can_skip = join.can_skip_assignment;
        member.renew(now, join);
        self.members.insert(new_id.clone(), member);
        if self.state == State::Stable && self.vote() == self.protocol {
            let mut answer = self.answer_for(&new_id);
            if can_skip {
                answer.skip_assignment = self.leader == new_id;
            } else {
                // An older client that is named as the leader would assign again.
                answer.leader = leader_before;
                answer.members = Vec::new();
            }
            effects.replies.push((ticket, Reply::Join(answer)));
            effects.touch(&self.id);
            return None;
        }
        self.park_join(now, initial_delay, ticket, &new_id, effects);
        None
    }

    /// Puts a known or admitted member in.
    fn enter(
        &mut self,
        now: Now,
        initial_delay: Duration,
        ticket: Ticket,
        join: Join,
        id: String,
        effects: &mut Effects,
    ) -> Option<JoinAnswer> {
        let known = self.members.get(&id);
        let unchanged = known.is_some_and(|member| member.protocols == join.protocols);
        // A member that lost the answer asks again; only the leader can force a new assignment by that.
        let settled = match self.state {
            State::Syncing => true,
            State::Stable => id != self.leader,
            State::Empty | State::Joining { .. } => false,
        };
        if unchanged && settled {
            self.touch(now, &id);
            return Some(self.answer_for(&id));
        }
        self.protocol_type.clone_from(&join.protocol_type);
        self.members.entry(id.clone()).or_insert_with(|| Member::new(now)).renew(now, join);
        self.park_join(now, initial_delay, ticket, &id, effects);
        None
    }

    fn park_join(
        &mut self,
        now: Now,
        initial_delay: Duration,
        ticket: Ticket,
        id: &str,
        effects: &mut Effects,
    ) {
        // The same member on a second connection: the first one gets its answer, too.
        if let Some(member) = self.members.get_mut(id)
            && let Some(old) = member.joining.replace(ticket).filter(|old| *old != ticket)
        {
            effects.replies.push((old, Reply::Join(JoinAnswer::refused(code::UNKNOWN_MEMBER_ID, id))));
        }
        self.begin_join(now, initial_delay, effects);
        self.finish_join_if_all_in(now, effects);
    }

    fn longest_rebalance(&self) -> Option<Duration> {
        self.members.values().map(|member| member.rebalance).max()
    }

    fn begin_join(&mut self, now: Now, initial_delay: Duration, effects: &mut Effects) {
        let wait = match self.state {
            State::Joining { .. } => return,
            State::Empty => initial_delay,
            State::Syncing | State::Stable => self.longest_rebalance().unwrap_or(initial_delay),
        };
        for member in self.members.values_mut() {
            if let Some(ticket) = member.syncing.take() {
                effects.replies.push((ticket, Reply::Sync(SyncAnswer::refused(code::REBALANCE_IN_PROGRESS))));
            }
        }
        self.sync_until = None;
        // The members of a group that begins are all in at once; the delay is there to wait for others.
        let beginning = self.state == State::Empty && !wait.is_zero();
        self.state = State::Joining { until: now.at + wait, beginning };
    }

    /// Ends a rebalance before its deadline if no member is missing.
    fn finish_join_if_all_in(&mut self, now: Now, effects: &mut Effects) {
        let all_in = self.expected.is_empty() && self.members.values().all(|member| member.joining.is_some());
        if all_in && matches!(self.state, State::Joining { beginning: false, .. }) {
            self.finish_join(now, effects);
        }
    }

    fn finish_join(&mut self, now: Now, effects: &mut Effects) {
        // Who did not come back in time is out, except for static members: those have their whole session.
        self.members.retain(|_, member| member.joining.is_some() || member.instance.is_some());
        if self.members.is_empty() {
            self.become_empty(now, effects);
            return;
        }
        if !self.elect_leader() {
            // Only absent static members are left, so no member can lead.
            let wait = self.longest_rebalance().unwrap_or_default();
            self.state = State::Joining { until: now.at + wait, beginning: false };
            return;
        }
        self.generation += 1;
        self.state = State::Syncing;
        self.sync_until = self.longest_rebalance().map(|wait| now.at + wait);
        self.protocol = self.vote();
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for id in ids {
            let answer = self.answer_for(&id);
            if let Some(member) = self.members.get_mut(&id) {
                member.assignment.clear();
                member.synced = false;
                if let Some(ticket) = member.joining.take() {
                    member.expires = now.at + member.session;
                    effects.replies.push((ticket, Reply::Join(answer)));
                }
            }
        }
    }

    fn elect_leader(&mut self) -> bool {
        let joined = |member: &Member| member.joining.is_some();
        if self.members.get(&self.leader).is_some_and(joined) {
            return true;
        }
        let Some((id, _)) = self.members.iter().find(|(_, member)| joined(member)) else { return false };
        self.leader.clone_from(id);
        true
    }

    fn become_empty(&mut self, now: Now, effects: &mut Effects) {
        if self.state != State::Empty {
            self.generation += 1;
        }
        self.state = State::Empty;
        self.sync_until = None;
        self.protocol.clear();
        self.leader.clear();
        self.empty_since_ms = now.unix_ms;
        effects.touch(&self.id);
    }

    /// The protocol that most members put first among those that all know.
    fn vote(&self) -> String {
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.members.values() {
            if let Some((name, _)) = member.protocols.iter().find(|(name, _)| self.knows_everywhere(name)) {
                *votes.entry(name).or_default() += 1;
            }
        }
        votes.into_iter().max_by_key(|(_, count)| *count).map(|(name, _)| name.to_owned()).unwrap_or_default()
    }

    fn answer_for(&self, id: &str) -> JoinAnswer {
        let members = if id == self.leader {
            let row = |(id, member): (&String, &Member)| {
                (id.clone(), member.instance.clone(), member.metadata(&self.protocol))
            };
            self.members.iter().map(row).collect()
        } else {
            Vec::new()
        };
        JoinAnswer {
            error: code::NONE,
            generation: self.generation,
            protocol_type: Some(self.protocol_type.clone()),
            protocol: Some(self.protocol.clone()),
            leader: self.leader.clone(),
            skip_assignment: false,
            member: id.to_owned(),
            members,
        }
    }

    /// Whether this one is the leader, and its assignments would count.
    pub(super) fn awaits_plan_of(&self, who: &Who<'_>) -> bool {
        self.state == State::Syncing && who.member == self.leader && self.check(who).is_ok()
    }

    /// A member wants its assignment, the leader brings them all. `protocol` is type and name, where the client says.
    pub(super) fn sync(
        &mut self,
        now: Now,
        ticket: Ticket,
        who: &Who<'_>,
        protocol: (Option<&str>, Option<&str>),
        assignments: Vec<(String, Vec<u8>)>,
        effects: &mut Effects,
    ) -> Option<SyncAnswer> {
        if let Err(error) = self.check(who) {
            return Some(SyncAnswer::refused(error));
        }
        let differs = |asked: Option<&str>, chosen: &str| asked.is_some_and(|asked| asked != chosen);
        if differs(protocol.0, &self.protocol_type) || differs(protocol.1, &self.protocol) {
            return Some(SyncAnswer::refused(code::INCONSISTENT_GROUP_PROTOCOL));
        }
        match self.state {
            State::Syncing => (),
            State::Stable => {
                self.note_sync(now, who.member);
                return Some(self.assignment_of(who.member));
            }
            State::Empty | State::Joining { .. } => {
                return Some(SyncAnswer::refused(code::REBALANCE_IN_PROGRESS));
            }
        }
        self.note_sync(now, who.member);
        if let Some(member) = self.members.get_mut(who.member)
            && let Some(old) = member.syncing.replace(ticket).filter(|old| *old != ticket)
        {
            effects.replies.push((old, Reply::Sync(SyncAnswer::refused(code::UNKNOWN_MEMBER_ID))));
        }
        if who.member == self.leader {
            for (member, assignment) in assignments {
                if let Some(member) = self.members.get_mut(&member) {
                    member.assignment = assignment;
                }
            }
            self.state = State::Stable;
            self.hand_out(now, effects);
        }
        None
    }

    fn note_sync(&mut self, now: Now, id: &str) {
        self.touch(now, id);
        if let Some(member) = self.members.get_mut(id) {
            member.synced = true;
        }
    }

    fn hand_out(&mut self, now: Now, effects: &mut Effects) {
        let waiting: Vec<String> = self
            .members
            .iter()
            .filter(|(_, member)| member.syncing.is_some())
            .map(|(id, _)| id.clone())
            .collect();
        for id in waiting {
            let answer = self.assignment_of(&id);
            if let Some(member) = self.members.get_mut(&id) {
                member.expires = now.at + member.session;
                effects.replies.extend(member.syncing.take().map(|ticket| (ticket, Reply::Sync(answer))));
            }
        }
        effects.touch(&self.id);
    }

    fn assignment_of(&self, id: &str) -> SyncAnswer {
        SyncAnswer {
            error: code::NONE,
            protocol_type: Some(self.protocol_type.clone()),
            protocol: Some(self.protocol.clone()),
            assignment: self.members.get(id).map(|member| member.assignment.clone()).unwrap_or_default(),
        }
    }

    /// A sign of life. Returns an error code.
    pub(super) fn heartbeat(&mut self, now: Now, who: &Who<'_>) -> i16 {
        if let Err(error) = self.check(who) {
            return error;
        }
        self.touch(now, who.member);
        if matches!(self.state, State::Joining { .. }) { code::REBALANCE_IN_PROGRESS } else { code::NONE }
    }

    /// A member goes, named by its id, or by its instance with or without the id. Returns an error code.
    pub(super) fn leave(
        &mut self,
        now: Now,
        member: &str,
        instance: Option<&str>,
        effects: &mut Effects,
    ) -> i16 {
        let id = match instance {
            Some(instance) => match self.member_of_instance(instance) {
                None => return code::UNKNOWN_MEMBER_ID,
                Some(id) if member.is_empty() || member == id => id,
                Some(_) => return code::FENCED_INSTANCE_ID,
            },
            None if self.expected.remove(member).is_some() => {
                self.finish_join_if_all_in(now, effects);
                return code::NONE;
            }
            None => member.to_owned(),
        };
        if self.remove(now, &id, effects) { code::NONE } else { code::UNKNOWN_MEMBER_ID }
    }

    /// Whether a commit of offsets is allowed. Returns an error code.
    pub(super) fn commit(&mut self, now: Now, who: &Who<'_>, transactional: bool) -> i16 {
        if who.generation < 0 && self.members.is_empty() {
            return code::NONE;
        }
        let names_a_member = !who.member.is_empty() || who.instance.is_some();
        // A transactional producer of an old version says only the group; its own epoch fences it.
        if transactional && who.generation < 0 && !names_a_member {
            return code::NONE;
        }
        if let Err(error) = self.check(who) {
            return error;
        }
        self.touch(now, who.member);
        if self.state == State::Syncing && !transactional { code::REBALANCE_IN_PROGRESS } else { code::NONE }
    }

    /// Takes a member out and answers what it had parked.
    fn discard(&mut self, id: &str, error: i16, effects: &mut Effects) -> bool {
        let Some(mut member) = self.members.remove(id) else { return false };
        member.answer_parked(id, error, effects);
        true
    }

    fn remove(&mut self, now: Now, id: &str, effects: &mut Effects) -> bool {
        if !self.discard(id, code::UNKNOWN_MEMBER_ID, effects) {
            return false;
        }
        if self.members.is_empty() && self.expected.is_empty() {
            self.become_empty(now, effects);
            return true;
        }
        self.begin_join(now, Duration::ZERO, effects);
        self.finish_join_if_all_in(now, effects);
        true
    }

    /// Time has passed: sessions end, rebalances close.
    pub(super) fn tick(&mut self, now: Now, effects: &mut Effects) {
        let expected = self.expected.len();
        self.expected.retain(|_, deadline| *deadline > now.at);
        for id in self.silent(now) {
            self.remove(now, &id, effects);
        }
        if self.expected.len() < expected {
            self.finish_join_if_all_in(now, effects);
        }
        if let State::Joining { until, .. } = self.state
            && until <= now.at
        {
            self.finish_join(now, effects);
        }
        self.expel_who_never_synced(now, effects);
    }

    /// Members whose session has expired. A parked member is alive as long as its connection is, and gets its answer by
    /// the rebalance's deadline.
    fn silent(&self, now: Now) -> Vec<String> {
        let silent = |member: &Member| {
            member.joining.is_none() && member.syncing.is_none() && member.expires <= now.at
        };
        self.members.iter().filter(|(_, member)| silent(member)).map(|(id, _)| id.clone()).collect()
    }

    /// A member that beats but never asks for its assignment would keep its partitions from everyone, and a leader
    /// that does so keeps all waiting.
    fn expel_who_never_synced(&mut self, now: Now, effects: &mut Effects) {
        if self.sync_until.is_none_or(|until| until > now.at) {
            return;
        }
        self.sync_until = None;
        let late: Vec<String> =
            self.members.iter().filter(|(_, member)| !member.synced).map(|(id, _)| id.clone()).collect();
        for id in late {
            self.remove(now, &id, effects);
        }
    }

    /// As Kafka names it.
    pub(super) fn state_name(&self) -> &'static str {
        match self.state {
            State::Empty => "Empty",
            State::Joining { .. } => "PreparingRebalance",
            State::Syncing => "CompletingRebalance",
            State::Stable => "Stable",
        }
    }

    /// The answer of DescribeGroups. It includes assignments only once they are final.
    pub(super) fn describe(&self) -> GroupDescription {
        let stable = self.state == State::Stable;
        let member = |(id, member): (&String, &Member)| MemberDescription {
            id: id.clone(),
            instance: member.instance.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            metadata: if stable { member.metadata(&self.protocol) } else { Vec::new() },
            assignment: if stable { member.assignment.clone() } else { Vec::new() },
        };
        GroupDescription {
            state: self.state_name(),
            protocol_type: self.protocol_type.clone(),
            protocol: if stable { self.protocol.clone() } else { String::new() },
            members: self.members.iter().map(member).collect(),
        }
    }

    /// Of which of some topics the members need the offsets; an error code when they are no consumers.
    pub(super) fn guarded<'a>(&self, asked: &BTreeSet<&'a str>) -> Result<BTreeSet<&'a str>, i16> {
        if self.members.is_empty() {
            return Ok(BTreeSet::new());
        }
        if self.protocol_type != CONSUMER {
            return Err(code::NON_EMPTY_GROUP);
        }
        let mut guarded = BTreeSet::new();
        for (_, metadata) in self.members.values().flat_map(|member| &member.protocols) {
            // What can't be read may name any topic.
            let Some(subscribed) = subscription::topics(metadata) else { return Ok(asked.clone()) };
            guarded.extend(subscribed.iter().filter_map(|topic| asked.get(topic.as_str())));
        }
        Ok(guarded)
    }
}

/// The old self of a static member must not go on.
fn fence(id: &str, member: &mut Member, effects: &mut Effects) {
    member.answer_parked(id, code::FENCED_INSTANCE_ID, effects);
}

impl Member {
    /// A member about which nothing is known yet.
    pub(super) fn new(now: Now) -> Self {
        Self {
            instance: None,
            client_id: String::new(),
            client_host: String::new(),
            session: Duration::ZERO,
            rebalance: Duration::ZERO,
            protocols: Vec::new(),
            assignment: Vec::new(),
            expires: now.at,
            joining: None,
            syncing: None,
            synced: false,
        }
    }

    fn renew(&mut self, now: Now, join: Join) {
        self.session = milliseconds(join.session_ms);
        self.rebalance =
            milliseconds(if join.rebalance_ms < 0 { join.session_ms } else { join.rebalance_ms });
        self.instance = join.instance;
        self.client_id = join.client_id;
        self.client_host = join.client_host;
        self.protocols = join.protocols;
        self.expires = now.at + self.session;
    }

    fn metadata(&self, protocol: &str) -> Vec<u8> {
        let chosen = self.protocols.iter().find(|(name, _)| name == protocol);
        chosen.map(|(_, metadata)| metadata.clone()).unwrap_or_default()
    }

    fn answer_parked(&mut self, id: &str, error: i16, effects: &mut Effects) {
        if let Some(ticket) = self.joining.take() {
            effects.replies.push((ticket, Reply::Join(JoinAnswer::refused(error, id))));
        }
        if let Some(ticket) = self.syncing.take() {
            effects.replies.push((ticket, Reply::Sync(SyncAnswer::refused(error))));
        }
    }
}

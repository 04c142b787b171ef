//! The coordinator of classic consumer groups: who is in, which generation, who has what.
//!
//! A state machine without I/O: every call gets the time, and answers for parked members come back as values. One
//! answer, exactly, for every JoinGroup or SyncGroup that was parked.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use crate::code;
use crate::mailbox::{Reply, Ticket};

/// Kafka's `group.max.session.timeout.ms`.
const MOST_SESSION_MS: i32 = 1_800_000;
/// A protocol is a name and the member's subscription or the like, opaque here.
pub(crate) type Protocols = Vec<(String, Vec<u8>)>;

/// The answer to a JoinGroup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct JoinAnswer {
    pub(crate) error: i16,
    pub(crate) generation: i32,
    pub(crate) protocol_type: Option<String>,
    pub(crate) protocol: Option<String>,
    pub(crate) leader: String,
    pub(crate) member: String,
    /// Member, instance, metadata; only for the leader.
    pub(crate) members: Vec<(String, Option<String>, Vec<u8>)>,
}

/// The answer to a SyncGroup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SyncAnswer {
    pub(crate) error: i16,
    pub(crate) protocol_type: Option<String>,
    pub(crate) protocol: Option<String>,
    pub(crate) assignment: Vec<u8>,
}

/// What JoinGroup asks.
#[derive(Debug, Clone)]
pub(crate) struct Join {
    pub(crate) group: String,
    pub(crate) member: String,
    pub(crate) instance: Option<String>,
    pub(crate) client_id: String,
    pub(crate) session_ms: i32,
    pub(crate) rebalance_ms: i32,
    pub(crate) protocol_type: String,
    pub(crate) protocols: Protocols,
    /// Whether a stranger must come again with the id it is given, as from version 4 on.
    pub(crate) id_required: bool,
}

/// Answers that became due, for the mailboxes.
pub(crate) type Due = Vec<(Ticket, Reply)>;

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

#[derive(Debug)]
struct Member {
    instance: Option<String>,
    session: Duration,
    rebalance: Duration,
    protocols: Protocols,
    assignment: Vec<u8>,
    expires: Instant,
    joining: Option<Ticket>,
    syncing: Option<Ticket>,
}

#[derive(Debug)]
struct Group {
    state: State,
    generation: i32,
    protocol_type: String,
    protocol: String,
    leader: String,
    members: BTreeMap<String, Member>,
    /// Ids that were given and must come back before their time.
    expected: HashMap<String, Instant>,
}

/// All groups.
#[derive(Debug)]
pub(crate) struct Groups {
    groups: HashMap<String, Group>,
    initial_delay: Duration,
    ids_given: u64,
}

impl Groups {
    pub(crate) fn new(initial_delay: Duration) -> Self {
        Self { groups: HashMap::new(), initial_delay, ids_given: 0 }
    }

    /// Whether [`Groups::tick`] has anything to watch.
    pub(crate) fn is_idle(&self) -> bool {
        self.groups.is_empty()
    }

    /// A member wants in. `Some` is the answer; with `None` it will be among a later call's due answers.
    pub(crate) fn join(
        &mut self,
        now: Instant,
        ticket: Ticket,
        join: Join,
        due: &mut Due,
    ) -> Option<JoinAnswer> {
        if let Some(error) = refuse(&join) {
            return Some(JoinAnswer { error, member: join.member, generation: -1, ..JoinAnswer::default() });
        }
        if join.member.is_empty() {
            self.ids_given += 1;
        }
        let new_id = format!("{}-{}", join.client_id, unique(self.ids_given));
        let group = self.groups.entry(join.group.clone()).or_insert_with(Group::empty);
        group.join(now, self.initial_delay, ticket, join, new_id, due)
    }

    /// A member wants its assignment, the leader brings them all.
    pub(crate) fn sync(
        &mut self,
        now: Instant,
        ticket: Ticket,
        who: &Who<'_>,
        assignments: Vec<(String, Vec<u8>)>,
        due: &mut Due,
    ) -> Option<SyncAnswer> {
        let refused = |error| Some(SyncAnswer { error, ..SyncAnswer::default() });
        let Some(group) = self.groups.get_mut(who.group) else { return refused(code::UNKNOWN_MEMBER_ID) };
        if let Err(error) = group.check(who) {
            return refused(error);
        }
        group.sync(now, ticket, who.member, assignments, due)
    }

    /// A sign of life. Returns an error code.
    pub(crate) fn heartbeat(&mut self, now: Instant, who: &Who<'_>) -> i16 {
        let Some(group) = self.groups.get_mut(who.group) else { return code::UNKNOWN_MEMBER_ID };
        if let Err(error) = group.check(who) {
            return error;
        }
        group.touch(now, who.member);
        if matches!(group.state, State::Joining { .. }) { code::REBALANCE_IN_PROGRESS } else { code::NONE }
    }

    /// A member goes, named by its id or, when that is empty, by its instance. Returns an error code.
    pub(crate) fn leave(
        &mut self,
        now: Instant,
        group: &str,
        member: &str,
        instance: Option<&str>,
        due: &mut Due,
    ) -> i16 {
        let Some(group) = self.groups.get_mut(group) else { return code::UNKNOWN_MEMBER_ID };
        if group.expected.remove(member).is_some() {
            group.finish_join_if_all_in(now, due);
            return code::NONE;
        }
        let id = match instance.and_then(|instance| group.member_of_instance(instance)) {
            Some(id) if member.is_empty() || member == id => id,
            Some(_) => return code::FENCED_INSTANCE_ID,
            None => member.to_owned(),
        };
        if group.remove(now, &id, due) { code::NONE } else { code::UNKNOWN_MEMBER_ID }
    }

    /// Whether a commit of offsets is allowed. Returns an error code.
    pub(crate) fn commit(&mut self, now: Instant, who: &Who<'_>) -> i16 {
        let Some(group) = self.groups.get_mut(who.group) else {
            // Consumers that assign partitions themselves only store offsets.
            return if who.generation < 0 { code::NONE } else { code::ILLEGAL_GENERATION };
        };
        if who.generation < 0 && group.members.is_empty() {
            return code::NONE;
        }
        if let Err(error) = group.check(who) {
            return error;
        }
        group.touch(now, who.member);
        if group.state == State::Syncing { code::REBALANCE_IN_PROGRESS } else { code::NONE }
    }

    /// Time has passed: sessions end, rebalances close.
    pub(crate) fn tick(&mut self, now: Instant, due: &mut Due) {
        for group in self.groups.values_mut() {
            group.tick(now, due);
        }
        self.groups.retain(|_, group| !group.members.is_empty() || !group.expected.is_empty());
    }
}

/// Who speaks: group, generation, member, instance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Who<'a> {
    pub(crate) group: &'a str,
    pub(crate) generation: i32,
    pub(crate) member: &'a str,
    pub(crate) instance: Option<&'a str>,
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

/// Two brokers, or one before and after a restart, must not give the same id: a member that was expelled could
/// otherwise come back as another.
fn unique(count: u64) -> String {
    let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{:x}-{:x}-{count:x}", std::process::id(), unix.as_nanos())
}

fn milliseconds(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

impl Group {
    fn empty() -> Self {
        Self {
            state: State::Empty,
            generation: 0,
            protocol_type: String::new(),
            protocol: String::new(),
            leader: String::new(),
            members: BTreeMap::new(),
            expected: HashMap::new(),
        }
    }

    fn check(&self, who: &Who<'_>) -> Result<(), i16> {
        if let Some(owner) = who.instance.and_then(|instance| self.member_of_instance(instance))
            && owner != who.member
        {
            return Err(code::FENCED_INSTANCE_ID);
        }
        if !self.members.contains_key(who.member) {
            return Err(code::UNKNOWN_MEMBER_ID);
        }
        if who.generation != self.generation { Err(code::ILLEGAL_GENERATION) } else { Ok(()) }
    }

    fn member_of_instance(&self, instance: &str) -> Option<String> {
        let owns = |member: &&Member| member.instance.as_deref() == Some(instance);
        self.members.iter().find(|(_, member)| owns(member)).map(|(id, _)| id.clone())
    }

    fn touch(&mut self, now: Instant, member: &str) {
        if let Some(member) = self.members.get_mut(member) {
            member.expires = now + member.session;
        }
    }

    fn fits(&self, join: &Join) -> bool {
        let others = || self.members.iter().filter(|(id, _)| **id != join.member);
        others().count() == 0
            || join.protocol_type == self.protocol_type
                && join.protocols.iter().any(|(name, _)| {
                    others().all(|(_, member)| member.protocols.iter().any(|(known, _)| known == name))
                })
    }

    fn join(
        &mut self,
        now: Instant,
        initial_delay: Duration,
        ticket: Ticket,
        join: Join,
        new_id: String,
        due: &mut Due,
    ) -> Option<JoinAnswer> {
        let refused = |error, member: &str| {
            Some(JoinAnswer { error, member: member.to_owned(), generation: -1, ..JoinAnswer::default() })
        };
        if !self.fits(&join) {
            return refused(code::INCONSISTENT_GROUP_PROTOCOL, &join.member);
        }
        let owner = join.instance.as_deref().and_then(|instance| self.member_of_instance(instance));
        let id = match (join.member.as_str(), owner) {
            ("", Some(old)) => {
                // A static member has restarted: its old self is fenced off.
                self.discard(&old, code::FENCED_INSTANCE_ID, due);
                new_id
            }
            ("", None) if join.id_required && join.instance.is_none() => {
                self.expected.insert(new_id.clone(), now + milliseconds(join.session_ms));
                return refused(code::MEMBER_ID_REQUIRED, &new_id);
            }
            ("", None) => new_id,
            (id, Some(owner)) if owner != id => return refused(code::FENCED_INSTANCE_ID, id),
            (id, _) if self.members.contains_key(id) || self.expected.remove(id).is_some() => id.to_owned(),
            (id, _) => return refused(code::UNKNOWN_MEMBER_ID, id),
        };
        self.enter(now, initial_delay, ticket, join, id, due)
    }

    /// Puts a known or admitted member in.
    fn enter(
        &mut self,
        now: Instant,
        initial_delay: Duration,
        ticket: Ticket,
        join: Join,
        id: String,
        due: &mut Due,
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
        self.protocol_type = join.protocol_type;
        let session = milliseconds(join.session_ms);
        let rebalance = milliseconds(if join.rebalance_ms < 0 { join.session_ms } else { join.rebalance_ms });
        let member = self.members.entry(id.clone()).or_insert_with(|| Member {
            instance: None,
            session,
            rebalance,
            protocols: Vec::new(),
            assignment: Vec::new(),
            expires: now,
            joining: None,
            syncing: None,
        });
        (member.instance, member.session, member.rebalance) = (join.instance, session, rebalance);
        member.protocols = join.protocols;
        member.expires = now + session;
        // The same member on a second connection: the first one gets its answer, too.
        if let Some(old) = member.joining.replace(ticket).filter(|old| *old != ticket) {
            let error = code::UNKNOWN_MEMBER_ID;
            due.push((old, Reply::Join(JoinAnswer { error, member: id, ..JoinAnswer::default() })));
        }
        self.begin_join(now, initial_delay, due);
        self.finish_join_if_all_in(now, due);
        None
    }

    fn begin_join(&mut self, now: Instant, initial_delay: Duration, due: &mut Due) {
        let wait = match self.state {
            State::Joining { .. } => return,
            State::Empty => initial_delay,
            State::Syncing | State::Stable => {
                self.members.values().map(|member| member.rebalance).max().unwrap_or(initial_delay)
            }
        };
        for member in self.members.values_mut() {
            if let Some(ticket) = member.syncing.take() {
                let error = code::REBALANCE_IN_PROGRESS;
                due.push((ticket, Reply::Sync(SyncAnswer { error, ..SyncAnswer::default() })));
            }
        }
        // The members of a group that begins are all in at once; the delay is there to wait for others.
        let beginning = self.state == State::Empty && !wait.is_zero();
        self.state = State::Joining { until: now + wait, beginning };
    }

    /// Ends a rebalance before its deadline once nobody is missing.
    fn finish_join_if_all_in(&mut self, now: Instant, due: &mut Due) {
        let all_in = self.expected.is_empty() && self.members.values().all(|member| member.joining.is_some());
        if all_in && matches!(self.state, State::Joining { beginning: false, .. }) {
            self.finish_join(now, due);
        }
    }

    fn finish_join(&mut self, now: Instant, due: &mut Due) {
        // Who did not come back in time is out.
        self.members.retain(|_, member| member.joining.is_some());
        self.generation += 1;
        if self.members.is_empty() {
            self.state = State::Empty;
            return;
        }
        self.state = State::Syncing;
        self.protocol = self.vote();
        if !self.members.contains_key(&self.leader) {
            self.leader = self.members.keys().next().cloned().unwrap_or_default();
        }
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for id in ids {
            let answer = self.answer_for(&id);
            if let Some(member) = self.members.get_mut(&id) {
                member.assignment.clear();
                member.expires = now + member.session;
                due.extend(member.joining.take().map(|ticket| (ticket, Reply::Join(answer))));
            }
        }
    }

    /// The protocol that most members put first among those that all know.
    fn vote(&self) -> String {
        let known_to_all = |name: &str| {
            self.members.values().all(|member| member.protocols.iter().any(|(known, _)| known == name))
        };
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.members.values() {
            if let Some((name, _)) = member.protocols.iter().find(|(name, _)| known_to_all(name)) {
                *votes.entry(name).or_default() += 1;
            }
        }
        votes.into_iter().max_by_key(|(_, count)| *count).map(|(name, _)| name.to_owned()).unwrap_or_default()
    }

    fn answer_for(&self, id: &str) -> JoinAnswer {
        let metadata = |member: &Member| {
            let chosen = member.protocols.iter().find(|(name, _)| *name == self.protocol);
            chosen.map(|(_, metadata)| metadata.clone()).unwrap_or_default()
        };
        let members = if id == self.leader {
            let row =
                |(id, member): (&String, &Member)| (id.clone(), member.instance.clone(), metadata(member));
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
            member: id.to_owned(),
            members,
        }
    }

    fn sync(
        &mut self,
        now: Instant,
        ticket: Ticket,
        id: &str,
        assignments: Vec<(String, Vec<u8>)>,
        due: &mut Due,
    ) -> Option<SyncAnswer> {
        self.touch(now, id);
        match self.state {
            State::Stable => return Some(self.assignment_of(id)),
            State::Syncing => (),
            State::Empty | State::Joining { .. } => {
                return Some(SyncAnswer { error: code::REBALANCE_IN_PROGRESS, ..SyncAnswer::default() });
            }
        }
        if let Some(member) = self.members.get_mut(id)
            && let Some(old) = member.syncing.replace(ticket).filter(|old| *old != ticket)
        {
            let error = code::UNKNOWN_MEMBER_ID;
            due.push((old, Reply::Sync(SyncAnswer { error, ..SyncAnswer::default() })));
        }
        if id == self.leader {
            for (member, assignment) in assignments {
                if let Some(member) = self.members.get_mut(&member) {
                    member.assignment = assignment;
                }
            }
            self.state = State::Stable;
            self.hand_out(now, due);
        }
        None
    }

    fn hand_out(&mut self, now: Instant, due: &mut Due) {
        let (protocol_type, protocol) = (self.protocol_type.clone(), self.protocol.clone());
        for member in self.members.values_mut() {
            let Some(ticket) = member.syncing.take() else { continue };
            member.expires = now + member.session;
            let answer = SyncAnswer {
                error: code::NONE,
                protocol_type: Some(protocol_type.clone()),
                protocol: Some(protocol.clone()),
                assignment: member.assignment.clone(),
            };
            due.push((ticket, Reply::Sync(answer)));
        }
    }

    fn assignment_of(&self, id: &str) -> SyncAnswer {
        SyncAnswer {
            error: code::NONE,
            protocol_type: Some(self.protocol_type.clone()),
            protocol: Some(self.protocol.clone()),
            assignment: self.members.get(id).map(|member| member.assignment.clone()).unwrap_or_default(),
        }
    }

    /// Takes a member out and answers what it had parked.
    fn discard(&mut self, id: &str, error: i16, due: &mut Due) -> bool {
        let Some(member) = self.members.remove(id) else { return false };
        if let Some(ticket) = member.joining {
            let answer = JoinAnswer { error, member: id.to_owned(), ..JoinAnswer::default() };
            due.push((ticket, Reply::Join(answer)));
        }
        if let Some(ticket) = member.syncing {
            due.push((ticket, Reply::Sync(SyncAnswer { error, ..SyncAnswer::default() })));
        }
        true
    }

    fn remove(&mut self, now: Instant, id: &str, due: &mut Due) -> bool {
        if !self.discard(id, code::UNKNOWN_MEMBER_ID, due) {
            return false;
        }
        if self.members.is_empty() {
            if self.state != State::Empty {
                self.generation += 1;
                self.state = State::Empty;
            }
            return true;
        }
        self.begin_join(now, Duration::ZERO, due);
        self.finish_join_if_all_in(now, due);
        true
    }

    fn tick(&mut self, now: Instant, due: &mut Due) {
        let expected = self.expected.len();
        self.expected.retain(|_, deadline| *deadline > now);
        // Whoever is parked is alive as long as its connection is, and is answered by the rebalance's deadline.
        let gone: Vec<String> = self
            .members
            .iter()
            .filter(|(_, member)| {
                member.joining.is_none() && member.syncing.is_none() && member.expires <= now
            })
            .map(|(id, _)| id.clone())
            .collect();
        for id in &gone {
            self.remove(now, id, due);
        }
        if self.expected.len() < expected {
            self.finish_join_if_all_in(now, due);
        }
        if let State::Joining { until, .. } = self.state
            && until <= now
        {
            self.finish_join(now, due);
        }
        self.expel_silent_leader(now, due);
    }

    /// Followers whose leader went away between JoinGroup and SyncGroup: its session ends like any other, but a
    /// leader that is parked nowhere and silent would keep them waiting, so they are sent back when it expires.
    fn expel_silent_leader(&mut self, now: Instant, due: &mut Due) {
        let silent = |member: &Member| member.syncing.is_none() && member.expires <= now;
        if self.state == State::Syncing && self.members.get(&self.leader).is_some_and(silent) {
            let leader = self.leader.clone();
            self.remove(now, &leader, due);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(connection: usize) -> Ticket {
        Ticket { reactor: 0, connection }
    }

    fn ask(member: &str) -> Join {
        Join {
            group: "g".into(),
            member: member.into(),
            instance: None,
            client_id: "c".into(),
            session_ms: 10_000,
            rebalance_ms: 30_000,
            protocol_type: "consumer".into(),
            protocols: vec![("range".into(), vec![1])],
            id_required: false,
        }
    }

    fn who<'a>(member: &'a str, generation: i32) -> Who<'a> {
        Who { group: "g", generation, member, instance: None }
    }

    struct Story {
        groups: Groups,
        start: Instant,
    }

    impl Story {
        fn new() -> Self {
            Self { groups: Groups::new(Duration::from_millis(50)), start: Instant::now() }
        }

        fn at(&self, ms: u64) -> Instant {
            self.start + Duration::from_millis(ms)
        }

        fn tick(&mut self, ms: u64) -> Due {
            let mut due = Vec::new();
            let now = self.at(ms);
            self.groups.tick(now, &mut due);
            due
        }

        fn join(&mut self, ms: u64, connection: usize, join: Join) -> (Option<JoinAnswer>, Due) {
            let mut due = Vec::new();
            let now = self.at(ms);
            (self.groups.join(now, ticket(connection), join, &mut due), due)
        }

        /// Two members, synced; returns their ids, the leader first.
        fn stable_pair(&mut self) -> (String, String) {
            self.join(0, 1, ask(""));
            self.join(10, 2, ask(""));
            let due = self.tick(50);
            assert_eq!(due.len(), 2);
            let ids: Vec<String> = due.iter().map(|(_, answer)| joined(answer).member.clone()).collect();
            let leader = joined(&due[0].1).leader.clone();
            let other = ids.into_iter().find(|id| *id != leader).unwrap();
            let mut due = Vec::new();
            let now = self.at(60);
            assert_eq!(self.groups.sync(now, ticket(2), &who(&other, 1), vec![], &mut due), None);
            let plan = vec![(leader.clone(), vec![10]), (other.clone(), vec![20])];
            assert_eq!(self.groups.sync(now, ticket(1), &who(&leader, 1), plan, &mut due), None);
            let assigned: Vec<_> = due.iter().map(|(_, answer)| synced(answer).assignment.clone()).collect();
            assert!(assigned.contains(&vec![10]) && assigned.contains(&vec![20]));
            (leader, other)
        }
    }

    fn joined(answer: &Reply) -> &JoinAnswer {
        match answer {
            Reply::Join(join) => join,
            _ => panic!("wanted a join answer"),
        }
    }

    fn synced(answer: &Reply) -> &SyncAnswer {
        match answer {
            Reply::Sync(sync) => sync,
            _ => panic!("wanted a sync answer"),
        }
    }

    #[test]
    fn two_members_get_their_assignments() {
        let mut story = Story::new();
        let (leader, other) = story.stable_pair();
        let now = story.at(70);
        assert_eq!(story.groups.heartbeat(now, &who(&leader, 1)), code::NONE);
        assert_eq!(story.groups.heartbeat(now, &who(&other, 0)), code::ILLEGAL_GENERATION);
        assert_eq!(story.groups.heartbeat(now, &who("stranger", 1)), code::UNKNOWN_MEMBER_ID);
    }

    #[test]
    fn only_the_leader_learns_the_members() {
        let mut story = Story::new();
        story.join(0, 1, ask(""));
        story.join(10, 2, ask(""));
        let due = story.tick(50);
        for (_, answer) in &due {
            let answer = joined(answer);
            let wanted = if answer.member == answer.leader { 2 } else { 0 };
            assert_eq!(answer.members.len(), wanted);
            assert_eq!((answer.generation, answer.protocol.as_deref()), (1, Some("range")));
        }
    }

    #[test]
    fn a_newcomer_makes_everyone_join_again() {
        let mut story = Story::new();
        let (leader, other) = story.stable_pair();
        let (parked, due) = story.join(100, 3, ask(""));
        assert!(parked.is_none() && due.is_empty());
        let now = story.at(110);
        assert_eq!(story.groups.heartbeat(now, &who(&other, 1)), code::REBALANCE_IN_PROGRESS);
        assert_eq!(story.join(120, 1, ask(&leader)).1, vec![]);
        let (_, due) = story.join(130, 2, ask(&other));
        assert_eq!(due.len(), 3, "the last one in closes the rebalance");
        assert!(due.iter().all(|(_, answer)| joined(answer).generation == 2));
    }

    #[test]
    fn a_member_that_falls_silent_is_out_and_the_others_go_on() {
        let mut story = Story::new();
        let (leader, other) = story.stable_pair();
        let now = story.at(9_000);
        assert_eq!(story.groups.heartbeat(now, &who(&leader, 1)), code::NONE);
        story.tick(10_100);
        let now = story.at(10_200);
        assert_eq!(story.groups.heartbeat(now, &who(&other, 1)), code::UNKNOWN_MEMBER_ID);
        assert_eq!(story.groups.heartbeat(now, &who(&leader, 1)), code::REBALANCE_IN_PROGRESS);
        let (_, due) = story.join(10_300, 1, ask(&leader));
        assert_eq!(joined(&due[0].1).generation, 2);
    }

    #[test]
    fn a_leader_that_never_syncs_does_not_hold_the_others() {
        let mut story = Story::new();
        story.join(0, 1, ask(""));
        story.join(10, 2, ask(""));
        let due = story.tick(50);
        let leader = joined(&due[0].1).leader.clone();
        let other =
            due.iter().map(|(_, answer)| joined(answer).member.clone()).find(|id| *id != leader).unwrap();
        let now = story.at(60);
        assert_eq!(story.groups.sync(now, ticket(2), &who(&other, 1), vec![], &mut Vec::new()), None);
        let due = story.tick(10_100);
        assert_eq!(due.len(), 1);
        assert_eq!(synced(&due[0].1).error, code::REBALANCE_IN_PROGRESS);
    }

    #[test]
    fn a_stranger_of_a_newer_version_comes_back_with_its_id() {
        let mut story = Story::new();
        let (answer, _) = story.join(0, 1, Join { id_required: true, ..ask("") });
        let answer = answer.unwrap();
        assert_eq!(answer.error, code::MEMBER_ID_REQUIRED);
        let (parked, _) = story.join(5, 1, Join { id_required: true, ..ask(&answer.member) });
        assert!(parked.is_none());
        assert_eq!(story.tick(60).len(), 1);
        let (unknown, _) = story.join(70, 2, Join { id_required: true, ..ask("made-up") });
        assert_eq!(unknown.unwrap().error, code::UNKNOWN_MEMBER_ID);
    }

    #[test]
    fn the_last_one_to_leave_ends_the_group() {
        let mut story = Story::new();
        let (leader, other) = story.stable_pair();
        let now = story.at(100);
        assert_eq!(story.groups.leave(now, "g", &other, None, &mut Vec::new()), code::NONE);
        assert_eq!(story.groups.leave(now, "g", &leader, None, &mut Vec::new()), code::NONE);
        assert_eq!(story.groups.leave(now, "g", &leader, None, &mut Vec::new()), code::UNKNOWN_MEMBER_ID);
        story.tick(200);
        assert!(story.groups.is_idle());
    }

    #[test]
    fn a_static_member_that_restarts_fences_its_old_self() {
        let mut story = Story::new();
        let named = |member: &str| Join { instance: Some("one".into()), ..ask(member) };
        story.join(0, 1, named(""));
        let due = story.tick(50);
        let old = joined(&due[0].1).member.clone();
        let (parked, _) = story.join(60, 2, named(""));
        assert!(parked.is_none());
        let now = story.at(70);
        let stale = Who { group: "g", generation: 1, member: &old, instance: Some("one") };
        assert_eq!(story.groups.heartbeat(now, &stale), code::FENCED_INSTANCE_ID);
        assert_eq!(story.join(80, 3, named(&old)).0.unwrap().error, code::FENCED_INSTANCE_ID);
    }

    #[test]
    fn requests_that_make_no_sense_are_refused() {
        let mut story = Story::new();
        let refused = |story: &mut Story, join| story.join(0, 1, join).0.unwrap().error;
        assert_eq!(refused(&mut story, Join { group: String::new(), ..ask("") }), code::INVALID_GROUP_ID);
        assert_eq!(refused(&mut story, Join { session_ms: 0, ..ask("") }), code::INVALID_SESSION_TIMEOUT);
        assert_eq!(
            refused(&mut story, Join { protocols: vec![], ..ask("") }),
            code::INCONSISTENT_GROUP_PROTOCOL
        );
        story.join(0, 1, ask(""));
        let other = Join { protocols: vec![("sticky".into(), vec![])], ..ask("") };
        assert_eq!(refused(&mut story, other), code::INCONSISTENT_GROUP_PROTOCOL);
    }

    #[test]
    fn commits_are_checked_against_the_generation() {
        let mut story = Story::new();
        let now = story.at(0);
        assert_eq!(story.groups.commit(now, &who("", -1)), code::NONE, "a consumer without a group");
        assert_eq!(story.groups.commit(now, &who("x", 3)), code::ILLEGAL_GENERATION);
        let (leader, _) = story.stable_pair();
        let now = story.at(100);
        assert_eq!(story.groups.commit(now, &who(&leader, 1)), code::NONE);
        assert_eq!(story.groups.commit(now, &who(&leader, 2)), code::ILLEGAL_GENERATION);
        assert_eq!(story.groups.commit(now, &who("", -1)), code::UNKNOWN_MEMBER_ID);
    }
}

//! Members of a consumer group, each on a thread of its own: the broker deals the partitions (KIP-848, and KIP-932 in [`super::sharer`]), or the
//! members do (classic protocol).
//!
//! A member commits the positions that the reading thread has reached: every five seconds, and before it gives partitions away. The next owner
//! goes on exactly there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hone_kafka::error_name;
use hone_record::GroupProtocol;
use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions as Owned;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    ApiKey, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, GroupId, HeartbeatRequest,
    HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse,
    OffsetCommitResponse, SyncGroupRequest, SyncGroupResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use super::commits::{COMMIT_EVERY, find, request};
use super::sharer::Sharer;
use crate::admin::{Admin, topic_name};
use crate::error::LoadError;
use crate::groups::assigned;
use crate::security::Access;
use crate::topic_set::{TopicIds, TopicSet};

const JOIN_GROUP_VERSION: i16 = 5;
const SYNC_GROUP_VERSION: i16 = 3;
const HEARTBEAT_VERSION: i16 = 3;
const LEAVE_GROUP_VERSION: i16 = 2;
const CONSUMER_GROUP_HEARTBEAT_VERSION: i16 = 0;
/// The first version that members of KIP-848 may use.
const OFFSET_COMMIT_VERSION: i16 = 9;
/// Time between two heartbeats. Clients wait three seconds; a load wants to learn of a rebalance sooner.
pub(super) const HEARTBEAT_EVERY: Duration = Duration::from_millis(300);
const SESSION_TIMEOUT_MS: i32 = 10_000;
const REBALANCE_TIMEOUT_MS: i32 = 10_000;
/// A member that left on request stays away for this long.
pub(super) const AWAY: Duration = Duration::from_secs(1);
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(300);
/// The one assignor of these members: partitions in turn.
const ASSIGNOR: &str = "roundrobin";
/// Error codes of the protocol.
const ILLEGAL_GENERATION: i16 = 22;
pub(super) const UNKNOWN_MEMBER_ID: i16 = 25;
const REBALANCE_IN_PROGRESS: i16 = 27;
const MEMBER_ID_REQUIRED: i16 = 79;
pub(super) const FENCED_MEMBER_EPOCH: i16 = 110;

/// The next offset to read, by partition.
type Positions = Vec<(i32, i64)>;

/// What a member says to the reading thread.
#[derive(Debug)]
pub(super) enum MemberNews {
    /// It reads these partitions from now on, and no others.
    Assigned { consumer: usize, partitions: Vec<i32> },
    /// It gives these partitions away. The answer has their positions.
    Revoked { consumer: usize, partitions: Vec<i32>, positions: SyncSender<Positions> },
    /// It wants to commit.
    Asks { consumer: usize, positions: SyncSender<Positions> },
    /// It is out of the group, and tries to join again.
    Failed { consumer: usize, why: String },
}

/// A member as the reading thread sees it. Without it, the member leaves.
#[derive(Debug)]
pub(super) struct MemberThread {
    orders: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MemberThread {
    /// Joins a group.
    pub(super) fn start(member: Member, protocol: GroupProtocol) -> Result<Self, LoadError> {
        let (orders, receiver) = channel();
        let serve = move || member.serve(protocol, &receiver);
        let thread = std::thread::Builder::new().name("member".to_owned()).spawn(serve);
        let thread =
            thread.map_err(|source| LoadError::System { what: "starting a member's thread", source })?;
        Ok(Self { orders: Some(orders), thread: Some(thread) })
    }

    /// The member leaves, and joins again a second later.
    pub(super) fn come_again(&self) {
        let _ = self.orders.as_ref().map(|orders| orders.send(()));
    }

    /// The member leaves for good; it does so on its own thread.
    pub(super) fn dismiss(&mut self) {
        self.orders = None;
    }
}

impl Drop for MemberThread {
    fn drop(&mut self) {
        self.dismiss();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// State of a member's thread.
pub(super) struct Member {
    /// Its number among all consumers.
    pub(super) consumer: usize,
    pub(super) address: String,
    pub(super) access: Access,
    pub(super) group: String,
    pub(super) topics: TopicSet,
    /// All partitions of the topics.
    pub(super) partitions: Vec<i32>,
    /// The id that it gives itself, which only members of share groups do.
    pub(super) own_id: StrBytes,
    pub(super) news: Sender<MemberNews>,
}

/// Why a member stops doing what it does.
pub(super) enum Stop {
    /// The load is over.
    Ended,
    /// It has to join anew.
    Rejoin(String),
}

impl From<LoadError> for Stop {
    fn from(error: LoadError) -> Self {
        Self::Rejoin(error.to_string())
    }
}

/// What interrupts the wait for the next heartbeat.
pub(super) enum Pause {
    Over,
    Leave,
    End,
}

pub(super) fn pause(orders: &Receiver<()>, length: Duration) -> Pause {
    match orders.recv_timeout(length) {
        Ok(()) => Pause::Leave,
        Err(RecvTimeoutError::Timeout) => Pause::Over,
        Err(RecvTimeoutError::Disconnected) => Pause::End,
    }
}

impl Member {
    fn serve(self, protocol: GroupProtocol, orders: &Receiver<()>) {
        let mut last = String::new();
        loop {
            let stopped =
                find(&self.address, &self.access, &self.group).map_err(Stop::from).and_then(|line| {
                    match protocol {
                        GroupProtocol::Consumer => OfBroker::new(&self, line)?.serve(orders),
                        GroupProtocol::Share => Sharer::new(&self, line)?.serve(orders),
                        GroupProtocol::Classic | GroupProtocol::Assigned => {
                            Classic::new(&self, line).serve(orders)
                        }
                    }
                });
            let why = match stopped {
                Ok(()) | Err(Stop::Ended) => return,
                Err(Stop::Rejoin(why)) => why,
            };
            // What it had is free for others, since the broker does not count it as a member any more.
            self.give_up(None);
            if why != last {
                let _ = self.news.send(MemberNews::Failed { consumer: self.consumer, why: why.clone() });
                last = why;
            }
            if matches!(pause(orders, TRY_AGAIN_AFTER), Pause::End) {
                return;
            }
        }
    }

    /// Gives partitions away, or all of them. Returns their positions.
    pub(super) fn give_up(&self, partitions: Option<Vec<i32>>) -> Positions {
        let (positions, answer) = sync_channel(1);
        let partitions = partitions.unwrap_or_else(|| self.partitions.clone());
        let news = MemberNews::Revoked { consumer: self.consumer, partitions, positions };
        let _ = self.news.send(news);
        // The reading thread has ended, or answers soon.
        answer.recv().unwrap_or_default()
    }

    fn positions(&self) -> Positions {
        let (positions, answer) = sync_channel(1);
        let _ = self.news.send(MemberNews::Asks { consumer: self.consumer, positions });
        answer.recv().unwrap_or_default()
    }

    pub(super) fn takes(&self, partitions: &[i32]) {
        let news = MemberNews::Assigned { consumer: self.consumer, partitions: partitions.to_vec() };
        let _ = self.news.send(news);
    }

    pub(super) fn group_id(&self) -> GroupId {
        GroupId(StrBytes::from_string(self.group.clone()))
    }

    /// The topics' names, as requests have them.
    pub(super) fn topic_names(&self) -> Vec<TopicName> {
        self.topics.names().iter().map(|name| topic_name(name)).collect()
    }

    fn commit(
        &self,
        line: &mut Admin,
        member: &StrBytes,
        generation: i32,
        positions: &Positions,
    ) -> Result<(), Stop> {
        if positions.is_empty() {
            return Ok(());
        }
        let request = request(&self.group, &self.topics, positions.iter().copied())
            .with_member_id(member.clone())
            .with_generation_id_or_member_epoch(generation);
        // The next commit replaces a refused one, and no measurement depends on it.
        line.ask::<_, OffsetCommitResponse>(ApiKey::OffsetCommit, OFFSET_COMMIT_VERSION, &request)?;
        Ok(())
    }
}

/// A member of the classic protocol. All members stop while the group rebalances.
struct Classic<'a> {
    of: &'a Member,
    line: Admin,
    member: StrBytes,
    generation: i32,
}

impl<'a> Classic<'a> {
    fn new(of: &'a Member, line: Admin) -> Self {
        Self { of, line, member: StrBytes::default(), generation: -1 }
    }

    fn serve(mut self, orders: &Receiver<()>) -> Result<(), Stop> {
        loop {
            let Some(partitions) = self.join()? else { continue };
            self.of.takes(&partitions);
            match self.beat(orders)? {
                Pause::Over => {}
                Pause::End => {
                    self.leave()?;
                    return Ok(());
                }
                Pause::Leave => {
                    self.leave()?;
                    if matches!(pause(orders, AWAY), Pause::End) {
                        return Err(Stop::Ended);
                    }
                }
            }
        }
    }

    /// `None` if another rebalance began meanwhile.
    fn join(&mut self) -> Result<Option<Vec<i32>>, Stop> {
        let protocol = JoinGroupRequestProtocol::default()
            .with_name(StrBytes::from_static_str(ASSIGNOR))
            .with_metadata(subscription(self.of.topics.names()));
        let request = JoinGroupRequest::default()
            .with_group_id(self.of.group_id())
            .with_session_timeout_ms(SESSION_TIMEOUT_MS)
            .with_rebalance_timeout_ms(REBALANCE_TIMEOUT_MS)
            .with_member_id(self.member.clone())
            .with_protocol_type(StrBytes::from_static_str("consumer"))
            .with_protocols(vec![protocol]);
        let joined: JoinGroupResponse = self.line.ask(ApiKey::JoinGroup, JOIN_GROUP_VERSION, &request)?;
        match joined.error_code {
            0 => {}
            MEMBER_ID_REQUIRED => {
                self.member = joined.member_id;
                return Ok(None);
            }
            code => return Err(Stop::Rejoin(format!("JoinGroup: {}", error_name(code)))),
        }
        self.member.clone_from(&joined.member_id);
        self.generation = joined.generation_id;
        let is_leader = joined.leader == joined.member_id;
        let members: Vec<StrBytes> = joined.members.iter().map(|member| member.member_id.clone()).collect();
        let request = SyncGroupRequest::default()
            .with_group_id(self.of.group_id())
            .with_generation_id(self.generation)
            .with_member_id(self.member.clone())
            .with_assignments(if is_leader { self.deal(members) } else { Vec::new() });
        let synced: SyncGroupResponse = self.line.ask(ApiKey::SyncGroup, SYNC_GROUP_VERSION, &request)?;
        match synced.error_code {
            0 => {}
            REBALANCE_IN_PROGRESS => return Ok(None),
            code => return Err(Stop::Rejoin(format!("SyncGroup: {}", error_name(code)))),
        }
        let partitions =
            assigned(&synced.assignment).map_err(|error| Stop::Rejoin(format!("SyncGroup: {error}")))?;
        let number = |(topic, partition): (String, i32)| self.of.topics.number(&topic, partition);
        Ok(Some(partitions.into_iter().filter_map(number).collect()))
    }

    /// Deals the partitions to the members in turn.
    fn deal(&self, mut members: Vec<StrBytes>) -> Vec<SyncGroupRequestAssignment> {
        members.sort();
        let count = members.len().max(1);
        let assignment = |(index, member): (usize, StrBytes)| {
            let own = self.of.partitions.iter().skip(index).step_by(count).copied().collect::<Vec<i32>>();
            SyncGroupRequestAssignment::default()
                .with_member_id(member)
                .with_assignment(assignment(&self.of.topics, &own))
        };
        members.into_iter().enumerate().map(assignment).collect()
    }

    /// Stays in the group until it rebalances (`Over`), or the load wants something else.
    fn beat(&mut self, orders: &Receiver<()>) -> Result<Pause, Stop> {
        let mut due = Instant::now() + COMMIT_EVERY;
        loop {
            match pause(orders, HEARTBEAT_EVERY) {
                Pause::Over => {}
                other => return Ok(other),
            }
            if Instant::now() >= due {
                due += COMMIT_EVERY;
                let positions = self.of.positions();
                self.commit(&positions)?;
            }
            let request = HeartbeatRequest::default()
                .with_group_id(self.of.group_id())
                .with_generation_id(self.generation)
                .with_member_id(self.member.clone());
            let beat: HeartbeatResponse = self.line.ask(ApiKey::Heartbeat, HEARTBEAT_VERSION, &request)?;
            match beat.error_code {
                0 => {}
                REBALANCE_IN_PROGRESS => {
                    let positions = self.of.give_up(None);
                    self.commit(&positions)?;
                    return Ok(Pause::Over);
                }
                ILLEGAL_GENERATION | UNKNOWN_MEMBER_ID => {
                    self.of.give_up(None);
                    self.member = StrBytes::default();
                    return Ok(Pause::Over);
                }
                code => return Err(Stop::Rejoin(format!("Heartbeat: {}", error_name(code)))),
            }
        }
    }

    fn commit(&mut self, positions: &Positions) -> Result<(), Stop> {
        self.of.commit(&mut self.line, &self.member, self.generation, positions)
    }

    fn leave(&mut self) -> Result<(), Stop> {
        let positions = self.of.give_up(None);
        self.commit(&positions)?;
        let request = LeaveGroupRequest::default()
            .with_group_id(self.of.group_id())
            .with_member_id(self.member.clone());
        self.line.ask::<_, LeaveGroupResponse>(ApiKey::LeaveGroup, LEAVE_GROUP_VERSION, &request)?;
        self.member = StrBytes::default();
        Ok(())
    }
}

/// A member of KIP-848. The broker moves single partitions, and the others go on.
struct OfBroker<'a> {
    of: &'a Member,
    line: Admin,
    member: StrBytes,
    epoch: i32,
    ids: TopicIds,
    owned: BTreeSet<i32>,
}

impl<'a> OfBroker<'a> {
    fn new(of: &'a Member, mut line: Admin) -> Result<Self, LoadError> {
        let ids = line.topic_ids(&of.topics)?;
        Ok(Self { of, line, member: StrBytes::default(), epoch: 0, ids, owned: BTreeSet::new() })
    }

    fn serve(mut self, orders: &Receiver<()>) -> Result<(), Stop> {
        let mut due = Instant::now() + COMMIT_EVERY;
        let mut says_what_it_owns = true;
        loop {
            let answer = self.beat(says_what_it_owns)?;
            says_what_it_owns = match answer.assignment {
                Some(assignment) => self.follow(&assignment.topic_partitions)?,
                None => false,
            };
            if Instant::now() >= due {
                due += COMMIT_EVERY;
                let positions = self.of.positions();
                self.of.commit(&mut self.line, &self.member, self.epoch, &positions)?;
            }
            // What was given away is free for others only when the broker knows it.
            let wait = if says_what_it_owns { Duration::ZERO } else { HEARTBEAT_EVERY };
            match pause(orders, wait) {
                Pause::Over => {}
                Pause::End => {
                    self.leave()?;
                    return Ok(());
                }
                Pause::Leave => {
                    self.leave()?;
                    if matches!(pause(orders, AWAY), Pause::End) {
                        return Err(Stop::Ended);
                    }
                    says_what_it_owns = true;
                }
            }
        }
    }

    fn beat(&mut self, says_what_it_owns: bool) -> Result<ConsumerGroupHeartbeatResponse, Stop> {
        let is_new = self.epoch == 0;
        let owned = || self.owned_by_id();
        let topics = self.of.topic_names();
        let request = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(self.of.group_id())
            .with_member_id(self.member.clone())
            .with_member_epoch(self.epoch)
            .with_rebalance_timeout_ms(if is_new { REBALANCE_TIMEOUT_MS } else { -1 })
            .with_subscribed_topic_names(is_new.then_some(topics))
            .with_topic_partitions((is_new || says_what_it_owns).then(owned));
        let (key, version) = (ApiKey::ConsumerGroupHeartbeat, CONSUMER_GROUP_HEARTBEAT_VERSION);
        let answer: ConsumerGroupHeartbeatResponse = self.line.ask(key, version, &request)?;
        match answer.error_code {
            0 => {}
            FENCED_MEMBER_EPOCH | UNKNOWN_MEMBER_ID => {
                return Err(Stop::Rejoin(format!(
                    "the broker removed it: {}",
                    error_name(answer.error_code)
                )));
            }
            code => return Err(Stop::Rejoin(format!("ConsumerGroupHeartbeat: {}", error_name(code)))),
        }
        if let Some(member) = &answer.member_id {
            self.member.clone_from(member);
        }
        self.epoch = answer.member_epoch;
        Ok(answer)
    }

    /// Takes over an assignment. `true` if the broker has to hear of it.
    fn follow(
        &mut self,
        topics: &[kafka_protocol::messages::consumer_group_heartbeat_response::TopicPartitions],
    ) -> Result<bool, Stop> {
        let mut wanted = BTreeSet::new();
        for topic in topics {
            wanted.extend(topic.partitions.iter().filter_map(|own| self.ids.number(topic.topic_id, *own)));
        }
        let gone: Vec<i32> = self.owned.difference(&wanted).copied().collect();
        if !gone.is_empty() {
            let positions = self.of.give_up(Some(gone));
            self.of.commit(&mut self.line, &self.member, self.epoch, &positions)?;
        }
        let has_changed = self.owned != wanted;
        if has_changed {
            self.owned = wanted;
            self.of.takes(&self.owned.iter().copied().collect::<Vec<i32>>());
        }
        Ok(has_changed)
    }

    fn owned_by_id(&self) -> Vec<Owned> {
        let of_topic = |(id, own): (Uuid, Vec<(i32, ())>)| {
            let partitions = own.into_iter().map(|(partition, ())| partition).collect();
            Owned::default().with_topic_id(id).with_partitions(partitions)
        };
        let owned = self.ids.by_topic(self.owned.iter().map(|number| (*number, ())));
        owned.into_iter().map(of_topic).collect()
    }

    fn leave(&mut self) -> Result<(), Stop> {
        let positions = self.of.give_up(None);
        self.of.commit(&mut self.line, &self.member, self.epoch, &positions)?;
        self.owned.clear();
        self.epoch = -1;
        self.beat(false)?;
        (self.epoch, self.member) = (0, StrBytes::default());
        Ok(())
    }
}

/// A subscription in the format of Kafka's consumers, version 0.
fn subscription(topics: &[String]) -> Bytes {
    let mut bytes = vec![0, 0];
    bytes.extend((topics.len() as i32).to_be_bytes());
    topics.iter().for_each(|topic| put_string(&mut bytes, topic));
    bytes.extend((-1_i32).to_be_bytes());
    bytes.into()
}

/// An assignment in the format of Kafka's consumers, version 0.
fn assignment(topics: &TopicSet, partitions: &[i32]) -> Bytes {
    let of_topics = topics.by_topic(partitions.iter().map(|number| (*number, ())));
    let mut bytes = vec![0, 0];
    bytes.extend((of_topics.len() as i32).to_be_bytes());
    for (topic, partitions) in of_topics {
        put_string(&mut bytes, topic);
        bytes.extend((partitions.len() as i32).to_be_bytes());
        partitions.iter().for_each(|(partition, ())| bytes.extend(partition.to_be_bytes()));
    }
    bytes.extend((-1_i32).to_be_bytes());
    bytes.into()
}

fn put_string(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as i16).to_be_bytes());
    bytes.extend(text.as_bytes());
}

/// Times in which partitions of a group had no owner.
#[derive(Debug, Default)]
pub(super) struct Unowned {
    since_ns: BTreeMap<usize, u64>,
}

impl Unowned {
    /// The group with this number has free partitions, or none. Returns the length of the time without an owner when it ends.
    pub(super) fn note(&mut self, group: usize, has_free: bool, now_ns: u64) -> Option<u64> {
        if has_free {
            self.since_ns.entry(group).or_insert(now_ns);
            return None;
        }
        self.since_ns.remove(&group).map(|since_ns| now_ns.saturating_sub(since_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_is_read_as_it_is_written() {
        let read = assigned(&assignment(&"orders".into(), &[3, 5])).unwrap();
        assert_eq!(read, [("orders".to_owned(), 3), ("orders".to_owned(), 5)]);
        assert_eq!(
            subscription(&["t".to_owned()])[..],
            [0, 0, 0, 0, 0, 1, 0, 1, b't', 0xff, 0xff, 0xff, 0xff]
        );
    }

    #[test]
    fn a_time_without_an_owner_ends_once() {
        let mut unowned = Unowned::default();
        assert_eq!(unowned.note(0, true, 100), None);
        assert_eq!(unowned.note(0, true, 200), None);
        assert_eq!(unowned.note(1, false, 250), None);
        assert_eq!(unowned.note(0, false, 300), Some(200));
        assert_eq!(unowned.note(0, false, 400), None);
    }
}

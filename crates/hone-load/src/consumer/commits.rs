//! Commits a group's offsets on a separate thread, so that the reading thread never waits for the coordinator.
//!
//! The group has no members in the broker's sense, like a consumer that assigns its partitions itself (generation -1; KIP-496 keeps such
//! commits). `rpk group describe` and `kafka-consumer-groups` show its lag while the load runs.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    ApiKey, DeleteGroupsRequest, DeleteGroupsResponse, OffsetCommitRequest, OffsetCommitResponse,
};
use kafka_protocol::protocol::StrBytes;

use crate::admin::{Admin, topic_name};
use crate::coordinator::{CoordinatorOf, coordinator};
use crate::error::LoadError;
use crate::security::Access;
use crate::topic_set::TopicSet;

/// Kafka's own `auto.commit.interval.ms`.
pub(super) const COMMIT_EVERY: Duration = Duration::from_secs(5);
/// A coordinator that is asked for the first time may have to load or create its log.
const COORDINATOR_LIMIT: Duration = Duration::from_secs(15);
const OFFSET_COMMIT_VERSION: i16 = 5;
const DELETE_GROUPS_VERSION: i16 = 1;

/// The next offset to read, by partition.
type Offsets = BTreeMap<i32, i64>;

/// The reader's end.
#[derive(Debug)]
pub(super) struct Commits {
    line: Option<SyncSender<Offsets>>,
    thread: Option<JoinHandle<()>>,
    due: Instant,
}

impl Commits {
    /// Finds the coordinator of the group with this number.
    ///
    /// # Errors
    /// Returns an error when there is none within 15 s.
    pub(super) fn start(
        address: &str,
        access: &Access,
        topics: &TopicSet,
        number: usize,
    ) -> Result<Self, LoadError> {
        let group = group_of(topics.first(), number);
        let coordinator = find(address, access, &group)?;
        // At most one commit waits, since the next one supersedes it.
        let (line, orders) = sync_channel(1);
        let topics = topics.clone();
        let serve = move || Keeper { coordinator, group, topics }.serve(&orders);
        let thread = std::thread::Builder::new().name("commits".to_owned()).spawn(serve);
        let thread = thread.map_err(|source| LoadError::System {
            what: "starting the thread that commits offsets",
            source,
        })?;
        Ok(Self { line: Some(line), thread: Some(thread), due: Instant::now() + COMMIT_EVERY })
    }

    /// Whether it is time for a commit.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.due
    }

    /// Passes offsets on; does not wait.
    pub(super) fn send(&mut self, offsets: Offsets) {
        self.due = Instant::now() + COMMIT_EVERY;
        // If the coordinator is still busy with the last commit, it gets the next one.
        let _ = self.line.as_ref().map(|line| line.try_send(offsets));
    }
}

impl Drop for Commits {
    /// Waits until the group is deleted.
    fn drop(&mut self) {
        self.line = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The load's own topic has a unique name; other topics are shared.
pub(crate) fn group_of(topic: &str, number: usize) -> String {
    let name = if topic.starts_with("hone-") {
        topic.to_owned()
    } else {
        format!("hone-load-{topic}-{}", std::process::id())
    };
    if number == 0 { name } else { format!("{name}-{number}") }
}

/// The coordinator of a group; it may have to be created first.
pub(crate) fn find(address: &str, access: &Access, group: &str) -> Result<Admin, LoadError> {
    let deadline = Instant::now() + COORDINATOR_LIMIT;
    loop {
        let found = Admin::enter(address, access.clone(), Admin::LIMIT)
            .and_then(|admin| coordinator(admin, CoordinatorOf::Group(group)));
        if found.is_ok() || Instant::now() >= deadline {
            return found;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Deletes a group without members. A broker that refuses keeps it until its offsets expire.
pub(crate) fn delete(coordinator: &mut Admin, group: &str) {
    let groups = vec![StrBytes::from_string(group.to_owned()).into()];
    let request = DeleteGroupsRequest::default().with_groups_names(groups);
    let _ = coordinator.ask::<_, DeleteGroupsResponse>(ApiKey::DeleteGroups, DELETE_GROUPS_VERSION, &request);
}

/// A commit of these positions. Who commits is still missing.
pub(super) fn request(
    group: &str,
    topics: &TopicSet,
    offsets: impl Iterator<Item = (i32, i64)>,
) -> OffsetCommitRequest {
    let partition = |(partition, next)| {
        OffsetCommitRequestPartition::default().with_partition_index(partition).with_committed_offset(next)
    };
    let topic = |(name, offsets): (&str, Vec<(i32, i64)>)| {
        OffsetCommitRequestTopic::default()
            .with_name(topic_name(name))
            .with_partitions(offsets.into_iter().map(partition).collect())
    };
    OffsetCommitRequest::default()
        .with_group_id(StrBytes::from_string(group.to_owned()).into())
        .with_topics(topics.by_topic(offsets).into_iter().map(topic).collect())
}

/// State of the thread.
struct Keeper {
    coordinator: Admin,
    group: String,
    topics: TopicSet,
}

impl Keeper {
    /// Serves until the reader is gone, then deletes the group.
    fn serve(mut self, orders: &Receiver<Offsets>) {
        while let Ok(offsets) = orders.recv() {
            // The next commit replaces a failed one, and no measurement depends on it.
            let _ = self.commit(&offsets);
        }
        delete(&mut self.coordinator, &self.group);
    }

    fn commit(&mut self, offsets: &Offsets) -> Result<(), LoadError> {
        let offsets = offsets.iter().map(|(partition, next)| (*partition, *next));
        let request = request(&self.group, &self.topics, offsets).with_generation_id_or_member_epoch(-1);
        self.coordinator
            .ask::<_, OffsetCommitResponse>(ApiKey::OffsetCommit, OFFSET_COMMIT_VERSION, &request)
            .map(|_| ())
    }
}

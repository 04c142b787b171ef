//! Consumer groups as a cluster describes them at one moment.

use std::collections::BTreeMap;

/// A partition of a topic.
pub type TopicPartition = (String, i32);

/// A group of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedGroup {
    /// Its name.
    pub group: String,
    /// The kind of its members: `consumer`, `connect`, `share`; empty for a group that only commits.
    pub kind: String,
}

/// A group at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupNow {
    /// Its name.
    pub group: String,
    /// Its state as the broker names it: `Stable`, `Empty`, `PreparingRebalance`.
    pub state: String,
    /// Number of the assignment, for groups of KIP-848.
    pub epoch: Option<i32>,
    /// Its members.
    pub members: Vec<GroupMember>,
    /// Its partitions: those with a committed offset, and those of a member.
    pub partitions: BTreeMap<TopicPartition, Position>,
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupMember {
    /// The broker's id for it. A member that joins again gets another one.
    pub member: String,
    /// `client.id` of its client.
    pub client: String,
    /// Its machine.
    pub host: String,
    /// Partitions that it reads.
    pub partitions: Vec<TopicPartition>,
}

/// Offsets of a partition, as far as they are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// The next offset that the group reads.
    pub committed: Option<i64>,
    /// First offset of the log.
    pub begin: Option<i64>,
    /// The offset that the next record gets.
    pub end: Option<i64>,
}

//! What the coordinator of groups says to a request.

use super::assignor::Partitions;

/// The answer to a JoinGroup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct JoinAnswer {
    pub(crate) error: i16,
    pub(crate) generation: i32,
    pub(crate) protocol_type: Option<String>,
    pub(crate) protocol: Option<String>,
    pub(crate) leader: String,
    /// The leader gets the members and the note that there is nothing to assign.
    pub(crate) skip_assignment: bool,
    pub(crate) member: String,
    /// Member, instance, metadata; only for the leader.
    pub(crate) members: Vec<(String, Option<String>, Vec<u8>)>,
}

impl JoinAnswer {
    pub(crate) fn refused(error: i16, member: &str) -> Self {
        Self { error, member: member.to_owned(), generation: -1, ..Self::default() }
    }
}

/// The answer to a SyncGroup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SyncAnswer {
    pub(crate) error: i16,
    pub(crate) protocol_type: Option<String>,
    pub(crate) protocol: Option<String>,
    pub(crate) assignment: Vec<u8>,
}

impl SyncAnswer {
    pub(crate) fn refused(error: i16) -> Self {
        Self { error, ..Self::default() }
    }
}

/// The answer to ConsumerGroupHeartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BeatAnswer {
    pub(crate) error: i16,
    pub(crate) message: Option<String>,
    pub(crate) member: String,
    pub(crate) epoch: i32,
    pub(crate) heartbeat_ms: i32,
    /// `None`: as before.
    pub(crate) assignment: Option<Partitions>,
}

/// An error code and what is wrong.
pub(super) type Refusal = (i16, String);

impl BeatAnswer {
    pub(super) fn refused((error, message): Refusal) -> Self {
        Self {
            error,
            message: Some(message),
            member: String::new(),
            epoch: 0,
            heartbeat_ms: 0,
            assignment: None,
        }
    }
}

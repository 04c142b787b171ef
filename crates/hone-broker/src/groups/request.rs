//! What members say to the coordinator of groups.

use super::assignor::Partitions;

/// A protocol is a name and the member's subscription or the like, opaque here.
pub(crate) type Protocols = Vec<(String, Vec<u8>)>;

/// What JoinGroup asks.
#[derive(Debug, Clone)]
pub(crate) struct Join {
    pub(crate) group: String,
    pub(crate) member: String,
    pub(crate) instance: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) session_ms: i32,
    pub(crate) rebalance_ms: i32,
    pub(crate) protocol_type: String,
    pub(crate) protocols: Protocols,
    /// Whether a stranger must come again with the id it is given, as from version 4 on.
    pub(crate) id_required: bool,
    /// Whether the answer can carry the note that there is nothing to assign, as from version 9 on.
    pub(crate) can_skip_assignment: bool,
}

/// Who speaks: group, generation (or member epoch), member, instance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Who<'a> {
    pub(crate) group: &'a str,
    pub(crate) generation: i32,
    pub(crate) member: &'a str,
    pub(crate) instance: Option<&'a str>,
}

/// How a commit of offsets comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitKind {
    /// OffsetCommit; with whether its version can say a member epoch (from 9 on).
    Plain { knows_epochs: bool },
    /// TxnOffsetCommit.
    Transactional,
}

/// The topics, as far as groups look at them.
pub(crate) trait Catalogue {
    /// Id and number of partitions.
    fn topic(&self, name: &str) -> Option<(u128, i32)>;
    /// The names of all that the viewer may see.
    fn names(&self) -> Vec<String>;
    /// Whose rights those are: for equal ones, [`Catalogue::names`] are equal.
    fn viewer(&self) -> String;
}

/// What ConsumerGroupHeartbeat says; `None` is "as before".
#[derive(Debug, Clone, Default)]
pub(crate) struct Beat {
    pub(crate) group: String,
    pub(crate) member: String,
    pub(crate) epoch: i32,
    pub(crate) instance: Option<String>,
    pub(crate) rack: Option<String>,
    pub(crate) rebalance_ms: i32,
    pub(crate) names: Option<Vec<String>>,
    pub(crate) pattern: Option<String>,
    pub(crate) assignor: Option<String>,
    /// The partitions that the member has.
    pub(crate) owned: Option<Partitions>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    /// Whether members name themselves, as from version 1 on.
    pub(crate) names_itself: bool,
}

//! The most that clients can make the broker keep. The broker rejects a client that asks for more, and no other client
//! suffers.

/// The most that clients can make the broker keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Partitions of all topics together, including topics that Metadata created.
    pub partitions: usize,
    /// Groups with members, and groups that the broker remembers.
    pub groups: usize,
    /// Members of a group, and ids for members that are about to join.
    pub group_members: usize,
    /// Bytes of all groups together: metadata of their members, assignments, ids and names.
    pub group_bytes: usize,
    /// Committed offsets of groups, including those of open transactions.
    pub offsets: usize,
    /// Transactional ids.
    pub transactional_ids: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            partitions: 10_000,
            groups: 20_000,
            group_members: 5_000,
            group_bytes: 64 << 20,
            offsets: 1_000_000,
            transactional_ids: 100_000,
        }
    }
}

//! What clients can make the broker keep, at most. A client that asks for more is refused, and nobody else suffers.

/// What clients can make the broker keep, at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Partitions of all topics together, those of topics made by asking for them included.
    pub partitions: usize,
    /// Groups that have members, or had some and are remembered.
    pub groups: usize,
    /// Members of a group, and ids handed out to those who are about to join.
    pub group_members: usize,
    /// Bytes of all groups together: what their members said of themselves, their assignments, ids and names.
    pub group_bytes: usize,
    /// Offsets that groups have committed, those of open transactions included.
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

//! What a topic's properties ask of the logs of its partitions.

/// How a log is kept: plain values, so that the log knows nothing of properties and their texts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LogConfig {
    /// Size at which a segment is closed and the next one begun.
    pub(crate) segment_bytes: u64,
    /// Age at which a segment is closed.
    pub(crate) segment_ms: u64,
    /// Size above which the oldest segments go; `None` for no limit.
    pub(crate) retention_bytes: Option<u64>,
    /// Age above which segments go; `None` for no limit.
    pub(crate) retention_ms: Option<u64>,
    /// Whether only the last record of each key is kept.
    pub(crate) compact: bool,
    /// Whether the two limits of retention hold.
    pub(crate) delete: bool,
    /// Share of uncompacted bytes from which on a log is worth compacting.
    pub(crate) min_cleanable_dirty_ratio: f64,
    /// Records younger than this are not compacted.
    pub(crate) min_compaction_lag_ms: u64,
    /// Records older than this are compacted whatever the share.
    pub(crate) max_compaction_lag_ms: u64,
    /// How long a compacted log keeps the marks of deleted keys.
    pub(crate) delete_retention_ms: u64,
    /// Whether records carry the time of their append instead of the producer's.
    pub(crate) log_append_time: bool,
    /// Whether acks=all is given before the flush.
    pub(crate) write_caching: bool,
    /// Longest time that something written stays unflushed.
    pub(crate) flush_ms: u64,
    /// Most bytes that stay unflushed.
    pub(crate) flush_bytes: u64,
    /// Largest batch.
    pub(crate) max_message_bytes: usize,
}

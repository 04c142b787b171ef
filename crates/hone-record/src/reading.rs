//! What consumers did in a window: their Fetch requests, catching up, rebalances, deliveries and transactions.

use serde::{Deserialize, Serialize};

use crate::histogram::Hdr;

/// Deliveries of records by share groups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deliveries {
    /// Records that were delivered before, since their reader did not acknowledge them in time or left.
    pub again: u64,
    /// Largest number of deliveries of a record.
    pub most: u64,
    /// Acknowledgements that the broker refused.
    pub refused: u64,
}

impl Deliveries {
    /// Those of two groups, or of two generators with groups of their own.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            again: self.again.saturating_add(other.again),
            most: self.most.max(other.most),
            refused: self.refused.saturating_add(other.refused),
        }
    }
}

/// Transactions of processors that ended within the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Transactions {
    /// Number of committed ones.
    pub committed: u64,
    /// Number of aborted ones.
    pub aborted: u64,
    /// Records that the committed ones wrote.
    pub records: u64,
    /// Time from the first record of a committed one to the answer to its commit.
    pub length: Hdr,
    /// The part of it from the request for the commit on.
    pub commit: Hdr,
}

/// Times in which partitions of a group had no reader.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Rebalances {
    /// Number of these times, over all groups.
    pub count: u64,
    /// Their sum.
    pub unread_s: f64,
    /// The longest.
    pub unread_s_max: f64,
}

impl Rebalances {
    /// Those of two generators with groups of their own.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_add(other.count),
            unread_s: self.unread_s + other.unread_s,
            unread_s_max: self.unread_s_max.max(other.unread_s_max),
        }
    }
}

/// Consumers that begin with records from before the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CatchUp {
    /// Records from before the window, over all consumers.
    pub records: u64,
    /// Time until the last consumer had read them. `None` if the window ended first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_s: Option<f64>,
}

impl CatchUp {
    /// Together with another generator's consumers.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        let took_s = self.took_s.zip(other.took_s).map(|(one, other)| f64::max(one, other));
        Self { records: self.records.saturating_add(other.records), took_s }
    }
}

/// Fetch requests of all consumers that were answered within the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Fetches {
    /// Number of answers.
    pub answered: u64,
    /// Those without a batch: the wait was over first.
    pub empty: u64,
    /// Bytes of batches in them.
    pub bytes: u64,
    /// Time from the request to the last byte of its answer. It contains the wait for data.
    pub latency: Hdr,
}

impl Fetches {
    /// Adds others.
    pub fn merge(&mut self, others: &Self) {
        self.answered = self.answered.saturating_add(others.answered);
        self.empty = self.empty.saturating_add(others.empty);
        self.bytes = self.bytes.saturating_add(others.bytes);
        self.latency.merge(&others.latency);
    }

    /// Mean bytes of an answer with data. `None` without one.
    pub fn mean_bytes(&self) -> Option<f64> {
        let full = self.answered.saturating_sub(self.empty);
        (full > 0).then(|| self.bytes as f64 / full as f64)
    }

    /// Share of answers without data. `None` without an answer.
    pub fn empty_share(&self) -> Option<f64> {
        (self.answered > 0).then(|| self.empty as f64 / self.answered as f64)
    }
}

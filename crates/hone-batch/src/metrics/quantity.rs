//! The counted quantities, whatever a source calls them.

use std::collections::{BTreeMap, BTreeSet};

/// Something that a broker counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quantity {
    /// Bytes of batches that clients produced, counted once (by the leader), by topic.
    ProducedBytes,
    /// Batches that clients produced, by topic.
    ProducedBatches,
    /// Records that clients produced, by topic.
    ProducedRecords,
    /// Bytes appended to logs, by every replica, by topic.
    WrittenBytes,
    /// Batches appended to logs, by every replica, by topic.
    WrittenBatches,
    /// All bytes appended, internal topics and namespaces included.
    AppendedBytes,
    /// All batches appended, internal topics and namespaces included.
    AppendedBatches,
    /// Partitions that the broker leads: 1 for each of them.
    Leader,
    /// Answered Produce requests.
    ProduceRequests,
    /// CPU time of a shard, seconds.
    ShardCpu,
    /// Share of its time in which a shard was busy, 0 to 1, as the broker sees it.
    ShardUtilization,
    /// CPU time of the process, seconds.
    ProcessCpu,
    /// Waiting tasks, by scheduling group.
    Waiting,
    /// Bytes handed to the disk, by class of I/O.
    DiskBytes,
    /// Flushes to the disk.
    Fsyncs,
    /// Batches by their size: buckets of a histogram.
    BatchSizes,
    /// Bytes from clients.
    ReceivedBytes,
    /// Bytes to clients.
    SentBytes,
    /// Produce requests by their duration, milliseconds: buckets of a histogram.
    ProduceLatency,
    /// A percentile of that time, milliseconds, if the broker exports percentiles and no histogram. The number is the percentile in tenths:
    /// 999 is p99.9.
    ProduceLatencyAt(u16),
    /// Produce requests whose acknowledgement timed out.
    ProduceTimeouts,
    /// Failed requests to followers, including those that timed out.
    ReplicationErrors,
    /// Offset after the last record of a partition that consumers can see.
    EndOffset,
    /// Committed offset of a consumer group.
    CommittedOffset,
    /// Records of a partition that a consumer group has still to read.
    GroupLag,
    /// The same over all partitions of the group.
    GroupLagSum,
    /// The same for the group's partition with the most.
    GroupLagMax,
}

/// The level of detail of batches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum By {
    /// By topic.
    #[default]
    Topic,
    /// By broker and topic.
    Broker,
    /// By broker, topic and partition.
    Partition,
}

/// The dimension of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dimension {
    /// The broker.
    Instance,
    /// The topic.
    Topic,
    /// The partition of the topic.
    Partition,
    /// The shard, which is a core.
    Shard,
    /// The scheduling group, the queue, the class of I/O, or the consumer group.
    Group,
    /// The upper bound of a bucket.
    Bound,
}

impl Quantity {
    /// The dimensions of its rates.
    pub fn dimensions(self, by: By) -> &'static [Dimension] {
        use Dimension::{Bound, Group, Instance, Partition, Shard, Topic};
        match self {
            Self::ProducedBytes
            | Self::ProducedBatches
            | Self::ProducedRecords
            | Self::WrittenBytes
            | Self::WrittenBatches => match by {
                By::Topic | By::Broker => &[Instance, Topic],
                By::Partition => &[Instance, Topic, Partition],
            },
            Self::ShardCpu | Self::ShardUtilization => &[Instance, Shard],
            Self::Waiting | Self::DiskBytes => &[Instance, Group],
            Self::BatchSizes => &[Bound],
            Self::ProduceLatency => &[Instance, Bound],
            Self::EndOffset => &[Topic, Partition],
            Self::CommittedOffset | Self::GroupLag => &[Group, Topic, Partition],
            Self::GroupLagSum | Self::GroupLagMax => &[Group],
            Self::ProduceLatencyAt(_)
            | Self::ProduceTimeouts
            | Self::ReplicationErrors
            | Self::AppendedBytes
            | Self::AppendedBatches
            | Self::Leader
            | Self::ProduceRequests
            | Self::ProcessCpu
            | Self::Fsyncs
            | Self::ReceivedBytes
            | Self::SentBytes => &[Instance],
        }
    }

    /// Whether it is a momentary value and not a sum over time.
    pub fn is_level(self) -> bool {
        matches!(self, Self::Leader | Self::ShardUtilization | Self::Waiting) || self.is_highest()
    }

    /// Whether several series of one place repeat the same value, so that the highest counts and not their sum: each replica exports the
    /// end of a partition, and a lag exporter has a series for each member.
    pub fn is_highest(self) -> bool {
        matches!(
            self,
            Self::ProduceLatencyAt(_)
                | Self::EndOffset
                | Self::CommittedOffset
                | Self::GroupLag
                | Self::GroupLagSum
                | Self::GroupLagMax
        )
    }

    /// Factors of a value and of a bucket's bound: counts of a histogram have no unit, its bounds have one.
    pub(super) fn scales(self, factor: f64) -> (f64, f64) {
        match self {
            Self::BatchSizes | Self::ProduceLatency => (1.0, factor),
            _ => (factor, 1.0),
        }
    }
}

/// A rate per second, or a level, of one quantity.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The quantity.
    pub quantity: Quantity,
    /// The broker; empty if the quantity has no such dimension. The same applies to the others.
    pub instance: String,
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: String,
    /// The shard.
    pub shard: String,
    /// The scheduling group, the queue, the class of I/O, or the consumer group.
    pub group: String,
    /// The upper bound of a bucket; NaN if there is none.
    pub bound: f64,
    /// The rate or level.
    pub value: f64,
}

impl Row {
    /// A row of a quantity, without a place yet.
    pub fn of(quantity: Quantity, value: f64) -> Self {
        let [instance, topic, partition, shard, group] = [const { String::new() }; 5];
        Self { quantity, instance, topic, partition, shard, group, bound: f64::NAN, value }
    }
}

/// Rates and levels over a window.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rates {
    /// Length of the window.
    pub window_s: f64,
    /// The exported quantities by broker, whether anything happened or not.
    pub exported: Exported,
    /// The rates.
    pub rows: Vec<Row>,
    /// Notes about them.
    pub notes: Vec<String>,
}

/// The exported quantities of each broker: a broker may have counters that another one, of an older version, lacks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Exported(BTreeMap<Quantity, BTreeSet<String>>);

impl Exported {
    /// By the existing rates. A metric's name alone is no evidence: its series may have ended long ago.
    pub fn of(rows: &[Row]) -> Self {
        let mut exported = Self::default();
        rows.iter().for_each(|row| exported.insert(row.quantity, &row.instance));
        exported
    }

    /// Adds a quantity of a broker; an empty name if the quantity has no broker.
    pub fn insert(&mut self, quantity: Quantity, instance: &str) {
        self.0.entry(quantity).or_default().insert(instance.to_owned());
    }

    /// Adds the quantities of others.
    pub fn extend(&mut self, others: Self) {
        others.0.into_iter().for_each(|(quantity, by)| self.0.entry(quantity).or_default().extend(by));
    }

    /// Whether any broker exports it.
    pub fn has(&self, quantity: Quantity) -> bool {
        self.0.contains_key(&quantity)
    }

    /// Whether this broker does.
    pub fn by(&self, quantity: Quantity, instance: &str) -> bool {
        self.0.get(&quantity).is_some_and(|by| by.contains(instance))
    }
}

impl Rates {
    /// Rows of a quantity; `None` if it is not exported.
    pub fn rows(&self, quantity: Quantity) -> Option<impl Iterator<Item = &Row>> {
        self.exported.has(quantity).then(|| self.rows.iter().filter(move |row| row.quantity == quantity))
    }

    /// Sum over rows that satisfy a condition; `None` if the quantity is not exported.
    pub fn sum(&self, quantity: Quantity, of: impl Fn(&Row) -> bool) -> Option<f64> {
        Some(self.rows(quantity)?.filter(|row| of(row)).map(|row| row.value).sum())
    }

    /// Sum over a broker's rows that satisfy a condition; `None` if this broker does not export the quantity.
    pub fn sum_by(&self, quantity: Quantity, instance: &str, of: impl Fn(&Row) -> bool) -> Option<f64> {
        let exports = self.exported.by(quantity, instance);
        exports.then(|| self.sum(quantity, |row| row.instance == instance && of(row)))?
    }
}

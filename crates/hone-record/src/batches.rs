//! Batches of topics as they were written: how large, what closed them, by whom, and what follows from it.

use serde::{Deserialize, Serialize};

use crate::envelope::Body;
use crate::whatif::BatchAdvice;

/// Topics looked into, the one whose batches cost most first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BatchXray {
    /// The broker that was asked, or the folder of segments.
    pub source: String,
    /// Topics.
    pub topics: Vec<TopicXray>,
    /// What is to be known of all of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Body for BatchXray {
    const KIND: &'static str = "batch-xray";
}

/// What was read of a topic. Markers of transactions and batches that compaction thinned out are in none of the sums.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TopicXray {
    /// Its name.
    pub topic: String,
    /// Partitions that it has.
    pub partitions: usize,
    /// How much of it was read.
    pub read: XrayRead,
    /// Batches that were read.
    pub batches: u64,
    /// Their records.
    pub records: u64,
    /// Their bytes, headers included.
    pub bytes: u64,
    /// Batches a second, over the times of the records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batches_per_s: Option<f64>,
    /// Records a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records_per_s: Option<f64>,
    /// The effective batch size: bytes of a batch in the mean, with its interval where not all was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_bytes: Option<Sampled>,
    /// Records of a batch in the mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_records: Option<Sampled>,
    /// Bytes of batches, each batch once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<Spread>,
    /// Bytes of the batch that a byte of the topic lies in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes_by_bytes: Option<Spread>,
    /// Records of batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records_per_batch: Option<Spread>,
    /// Milliseconds from the first to the last record, of batches of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_ms: Option<Spread>,
    /// Batches below 16 KiB.
    pub small_batches: u64,
    /// Their bytes.
    pub small_bytes: u64,
    /// Of each batch what 16 KiB would not have needed, summed.
    pub needless_batches: f64,
    /// Bytes in whole pages of 4 KiB for each byte, were each batch written alone.
    pub pages: f64,
    /// Share of the bytes that are headers of batches, 0 to 1.
    pub header_share: f64,
    /// Codecs, by bytes.
    pub codecs: Vec<CodecUse>,
    /// Batches of transactions.
    pub transactional: u64,
    /// Batches that the broker stamped.
    pub log_append: u64,
    /// Markers of transactions.
    pub control: u64,
    /// Batches that compaction thinned out.
    pub compacted: u64,
    /// Batches without a time, or with one that lies before that of the batch before it.
    pub timeless: u64,
    /// What sampled records say; `None` where none was decoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<KeyUse>,
    /// Who wrote, most batches first.
    pub producers: Vec<ProducerXray>,
    /// Producers beyond those that are told.
    pub more_producers: usize,
    /// Producers without an id are so many at least.
    pub nameless_at_least: usize,
    /// Partitions, most batches first.
    pub by_partition: Vec<PartitionXray>,
    /// What follows, the most expensive first.
    pub findings: Vec<BatchFinding>,
    /// What to set, by a replay of the topic's records. `None` where none was replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<BatchAdvice>,
    /// What could not be read or understood, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub troubles: Vec<String>,
}

impl TopicXray {
    /// Batches a second that would not be there if all of them had 16 KiB: what a topic costs that it need not. `None` without a rate.
    pub fn needless_batches_per_s(&self) -> Option<f64> {
        Some(self.batches_per_s? * self.needless_batches / self.batches.max(1) as f64)
    }
}

/// How much was read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct XrayRead {
    /// Least and largest time of a record, milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times_ms: Option<(i64, i64)>,
    /// Bytes that were fetched.
    pub bytes: u64,
    /// Share of the offsets asked for that was read, 0 to 1.
    pub share: f64,
    /// Stretches of time that were read whole, over all partitions, where not everything was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u64>,
}

/// A mean, with a 95 % interval where it is of a sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Sampled {
    /// Of what was read.
    pub value: f64,
    /// `None` where all was read, or too little to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
}

/// A distribution by its quantiles; those above 64 are within 1/32.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// Smallest.
    pub least: u64,
    /// 10 %.
    pub p10: u64,
    /// Median.
    pub p50: u64,
    /// 90 %.
    pub p90: u64,
    /// 99 %.
    pub p99: u64,
    /// Largest.
    pub most: u64,
}

/// A codec and what it brings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CodecUse {
    /// Its name in Kafka: none, gzip, snappy, lz4, zstd.
    pub codec: String,
    /// Share of the topic's bytes, 0 to 1.
    pub share: f64,
    /// Bytes of records before and after, of batches that were unpacked; above 1 is a gain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
}

/// What keys say of how records find their partition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct KeyUse {
    /// Records that were decoded.
    pub records: u64,
    /// Share of them with a key, 0 to 1.
    pub keyed_share: f64,
    /// Different keys that were seen; a lower bound where `is_more`.
    pub distinct: u64,
    /// Whether there were more than are counted.
    pub is_more: bool,
    /// The rule by which the keyed records lie where they lie, where one explains them: murmur2 (Java, franz-go), crc32 (librdkafka),
    /// fnv1a (Sarama).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitioner: Option<String>,
    /// Bytes of a record before compression, in the mean.
    pub record_bytes: f64,
}

/// What closed a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BatchTrigger {
    /// It was full.
    Size,
    /// It had as many records as it may.
    Count,
    /// The linger was over.
    Time,
    /// Another partition's batch for the same broker was ready.
    Drained,
    /// The sender was free again, however long that took.
    SenderFree,
    /// The application flushed, or ended a transaction.
    Flush,
    /// The sender waits for each record, or the application sends at a beat.
    OneByOne,
    /// No second record came in time.
    Alone,
    /// The headers don't tell.
    Unknown,
}

impl BatchTrigger {
    /// As it is told.
    pub fn name(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::Count => "record count",
            Self::Time => "time",
            Self::Drained => "drained with others",
            Self::SenderFree => "sender waits",
            Self::Flush => "flush",
            Self::OneByOne => "one by one",
            Self::Alone => "alone",
            Self::Unknown => "unknown",
        }
    }
}

/// A producer as its batches show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProducerXray {
    /// Its id; `None` is all of those that have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<i64>,
    /// Batches.
    pub batches: u64,
    /// Their records.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Partitions that it wrote to.
    pub partitions: usize,
    /// What closed its batches, by share, 0 to 1.
    pub triggers: Vec<(BatchTrigger, f64)>,
    /// The size or number of records at which its batches end, where they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<BatchCap>,
    /// How long it waited at most for a batch that was not full: the effective linger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linger_ms: Option<u64>,
    /// Records a second to a partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records_per_s_per_partition: Option<f64>,
    /// The evidence for the triggers, in words.
    pub evidence: Vec<String>,
}

/// Where batches end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BatchCap {
    /// At so many bytes.
    Bytes(u64),
    /// At so many records.
    Records(u64),
}

/// A partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PartitionXray {
    /// Partition.
    pub partition: i32,
    /// Batches that were read.
    pub batches: u64,
    /// Their records.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Producers of it that have an id.
    pub producers: usize,
    /// Producers of it without one, at least.
    pub nameless_at_least: usize,
}

/// What is the matter with batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum BatchVerdict {
    /// Large enough.
    Healthy,
    /// Small, and too few to matter.
    Quiet,
    /// Between the least and the better size.
    Fair,
    /// Below the least size at a rate that costs.
    Small,
    /// They end where the producer's limit is.
    SizeCapped,
    /// They end when the linger is over.
    LingerBound,
    /// No linger that can be borne would fill them.
    RateStarved,
    /// They are sent early, along with those of a hotter partition.
    CoDrained,
    /// The sender waits for each acknowledgement.
    SyncSender,
    /// Records without keys are dealt to all partitions in turn.
    RoundRobin,
    /// Many keys over many partitions.
    KeySpread,
    /// The application flushes, or commits, after a few records.
    Flusher,
    /// The sender waits for the broker.
    BackPressured,
    /// The headers don't say enough.
    NoEvidence,
}

impl BatchVerdict {
    /// As it is told.
    pub fn name(self) -> &'static str {
        match self {
            Self::Healthy => "HEALTHY",
            Self::Quiet => "QUIET",
            Self::Fair => "FAIR",
            Self::Small => "SMALL",
            Self::SizeCapped => "SIZE_CAPPED",
            Self::LingerBound => "LINGER_BOUND",
            Self::RateStarved => "RATE_STARVED",
            Self::CoDrained => "CO_DRAINED",
            Self::SyncSender => "SYNC_SENDER",
            Self::RoundRobin => "ROUND_ROBIN",
            Self::KeySpread => "KEY_SPREAD",
            Self::Flusher => "FLUSHER",
            Self::BackPressured => "BACK_PRESSURED",
            Self::NoEvidence => "NO_EVIDENCE",
        }
    }
}

/// A verdict with what it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchFinding {
    /// What is the matter.
    pub verdict: BatchVerdict,
    /// Share of the topic's batches that it is about, 0 to 1.
    pub share: f64,
    /// The producer; `None` is the whole topic, or producers without an id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub producer: Option<i64>,
    /// What was seen.
    pub evidence: String,
    /// The cheapest thing to do.
    pub action: String,
    /// Where the rule comes from.
    pub rule: String,
}

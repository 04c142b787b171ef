//! Batches of topics as they were written: their size, their triggers, their producers, and the advice that follows.

use serde::{Deserialize, Serialize};

use crate::batch_sizes::BatchSizes;
use crate::envelope::Body;
use crate::whatif::BatchAdvice;

/// The topics that were read, sorted by the cost of their batches.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BatchXray {
    /// The broker that was read, or the folder of segments.
    pub source: String,
    /// Topics.
    pub topics: Vec<TopicXray>,
    /// Remarks about the whole result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Body for BatchXray {
    const KIND: &'static str = "batch-xray";
}

/// What was read of a topic. No sum includes transaction markers or batches that compaction thinned out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TopicXray {
    /// Name of the topic.
    pub topic: String,
    /// Number of its partitions.
    pub partitions: usize,
    /// The part of the topic that was read.
    pub read: XrayRead,
    /// Batches that were read.
    pub batches: u64,
    /// Records in these batches.
    pub records: u64,
    /// Bytes of these batches, headers included.
    pub bytes: u64,
    /// Batches per second, over the timestamps of the records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batches_per_s: Option<f64>,
    /// Records per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records_per_s: Option<f64>,
    /// Effective batch size: mean bytes per batch, with its confidence interval if only a part was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_bytes: Option<Sampled>,
    /// Mean number of records per batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_records: Option<Sampled>,
    /// Sizes in bytes; each batch counts once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<Spread>,
    /// Sizes in bytes, weighted by bytes: the size of the batch that holds a byte of the topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes_by_bytes: Option<Spread>,
    /// Number of batches by size. Empty in older records.
    #[serde(default, skip_serializing_if = "BatchSizes::is_empty")]
    pub sizes: BatchSizes,
    /// Number of records per batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records_per_batch: Option<Spread>,
    /// Milliseconds from the first to the last record, of batches with several records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_ms: Option<Spread>,
    /// Batches below 16 KiB.
    pub small_batches: u64,
    /// Bytes of the batches below 16 KiB.
    pub small_bytes: u64,
    /// Number of batches that 16 KiB batches would avoid.
    pub needless_batches: f64,
    /// Write amplification if each batch were written alone: bytes in whole pages of 4 KiB per byte.
    pub pages: f64,
    /// Share of the bytes that are batch headers, 0 to 1.
    pub header_share: f64,
    /// Codecs, sorted by bytes.
    pub codecs: Vec<CodecUse>,
    /// Batches that belong to transactions.
    pub transactional: u64,
    /// Batches whose timestamp the broker has set.
    pub log_append: u64,
    /// Transaction markers.
    pub control: u64,
    /// Batches that compaction thinned out.
    pub compacted: u64,
    /// Batches without a timestamp, or with one before that of the preceding batch.
    pub timeless: u64,
    /// Results from sampled records; `None` if no record was decoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<KeyUse>,
    /// The producers, sorted by number of batches.
    pub producers: Vec<ProducerXray>,
    /// Number of producers that are not listed.
    pub more_producers: usize,
    /// Smallest possible number of producers without an id.
    pub nameless_at_least: usize,
    /// Partitions, sorted by number of batches.
    pub by_partition: Vec<PartitionXray>,
    /// Findings, the most expensive first.
    pub findings: Vec<BatchFinding>,
    /// Advised settings, by a replay of the topic's records. `None` if no record was replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<BatchAdvice>,
    /// Parts that could not be read or understood, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub troubles: Vec<String>,
}

impl TopicXray {
    /// Batches per second that 16 KiB batches would avoid, which is the unnecessary cost of the topic. `None` without a rate.
    pub fn needless_batches_per_s(&self) -> Option<f64> {
        Some(self.batches_per_s? * self.needless_batches / self.batches.max(1) as f64)
    }
}

/// The part of a topic that was read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct XrayRead {
    /// First and last timestamp of a record, milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times_ms: Option<(i64, i64)>,
    /// Fetched bytes.
    pub bytes: u64,
    /// Share of the requested offsets that was read, 0 to 1.
    pub share: f64,
    /// Number of sampled periods that were read completely, over all partitions, if only a part was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u64>,
}

/// A mean, with a 95 % confidence interval if it comes from a sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Sampled {
    /// Mean of the data that was read.
    pub value: f64,
    /// `None` if everything was read, or the sample is too small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
}

/// A distribution by its quantiles. Values above 64 are exact to 1/32.
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

/// A codec and its effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CodecUse {
    /// Its name in Kafka: none, gzip, snappy, lz4, zstd.
    pub codec: String,
    /// Share of the topic's bytes, 0 to 1.
    pub share: f64,
    /// Compression ratio of the batches that were decompressed: bytes before over bytes after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
}

/// What the keys show about the partitioning.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct KeyUse {
    /// Records that were decoded.
    pub records: u64,
    /// Share of these records with a key, 0 to 1.
    pub keyed_share: f64,
    /// Number of different keys. It is a lower bound if `is_more`.
    pub distinct: u64,
    /// Whether there were more keys than the counter holds.
    pub is_more: bool,
    /// The hash that explains the partitions of the keyed records: murmur2 (Java, franz-go), crc32 (librdkafka), fnv1a (Sarama). `None` if
    /// no hash explains them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitioner: Option<String>,
    /// Mean bytes per record before compression.
    pub record_bytes: f64,
}

/// The trigger that closed a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BatchTrigger {
    /// The batch reached its size limit.
    Size,
    /// The batch reached its record limit.
    Count,
    /// The linger expired.
    Time,
    /// Another partition's batch for the same broker was ready.
    Drained,
    /// The sender became free again, after any time.
    SenderFree,
    /// The application flushed, or ended a transaction.
    Flush,
    /// The sender waits for each record, or the application sends at regular times.
    OneByOne,
    /// No second record arrived in time.
    Alone,
    /// The headers do not show the trigger.
    Unknown,
}

impl BatchTrigger {
    /// The name for people.
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

/// A producer as its batches describe it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProducerXray {
    /// Its id; `None` stands for all producers without an id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<i64>,
    /// Batches.
    pub batches: u64,
    /// Records in these batches.
    pub records: u64,
    /// Bytes of these batches.
    pub bytes: u64,
    /// Number of partitions that it wrote to.
    pub partitions: usize,
    /// Triggers of its batches, by share, 0 to 1.
    pub triggers: Vec<(BatchTrigger, f64)>,
    /// The size or number of records at which its batches end, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<BatchCap>,
    /// Effective linger: the longest wait of a batch that was not full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linger_ms: Option<u64>,
    /// Records per second and partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records_per_s_per_partition: Option<f64>,
    /// The evidence for the triggers, in words.
    pub evidence: Vec<String>,
}

/// The limit at which batches end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BatchCap {
    /// A limit in bytes.
    Bytes(u64),
    /// A limit in records.
    Records(u64),
}

/// A partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PartitionXray {
    /// Number of the partition.
    pub partition: i32,
    /// Batches that were read.
    pub batches: u64,
    /// Records in these batches.
    pub records: u64,
    /// Bytes of these batches.
    pub bytes: u64,
    /// Number of its producers with an id.
    pub producers: usize,
    /// Smallest possible number of its producers without an id.
    pub nameless_at_least: usize,
}

/// Diagnosis of batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum BatchVerdict {
    /// The batches are large enough.
    Healthy,
    /// The batches are small, but too few to matter.
    Quiet,
    /// The size lies between the minimum and the better size.
    Fair,
    /// The size lies below the minimum, at a rate that is expensive.
    Small,
    /// The batches end at the producer's limit.
    SizeCapped,
    /// The batches end when the linger expires.
    LingerBound,
    /// No tolerable linger would fill the batches.
    RateStarved,
    /// The batches are sent early, together with those of a hotter partition.
    CoDrained,
    /// The sender waits for each acknowledgement.
    SyncSender,
    /// The producer spreads records without keys over all partitions in turn.
    RoundRobin,
    /// Many keys are spread over many partitions.
    KeySpread,
    /// The application flushes, or commits, after a few records.
    Flusher,
    /// The sender waits for the broker.
    BackPressured,
    /// The headers do not show enough.
    NoEvidence,
}

impl BatchVerdict {
    /// The name for people.
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

/// A diagnosis with its evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchFinding {
    /// The diagnosis.
    pub verdict: BatchVerdict,
    /// Share of the topic's batches that it applies to, 0 to 1.
    pub share: f64,
    /// The producer; `None` stands for the whole topic, or producers without an id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub producer: Option<i64>,
    /// The evidence, in words.
    pub evidence: String,
    /// The cheapest fix.
    pub action: String,
    /// Source of the rule.
    pub rule: String,
}

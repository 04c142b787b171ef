//! Effect of a setting on a topic's batches.

use serde::{Deserialize, Serialize};

/// A prediction, the replay of today behind it, and the parts that could not be predicted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WhatIf {
    /// The topic, or the files.
    pub topic: String,
    /// Partitions that were read.
    pub partitions: u32,
    /// From the first record to the last one, in seconds.
    pub window_s: f64,
    /// Records in it.
    pub records: u64,
    /// The change, in words; empty if the request was about today only.
    pub change: String,
    /// The producers, sorted by number of batches.
    pub producers: Vec<ReplayedProducer>,
    /// Producers beyond those that are listed.
    pub more_producers: u64,
    /// Batches as they were written.
    pub today: BatchFigures,
    /// Today, replayed with the settings that explain it best.
    pub replayed: Option<BatchFigures>,
    /// The change, replayed.
    pub predicted: Option<ForeseenBatches>,
    /// Why there is no prediction.
    pub refused: Option<String>,
    /// The smallest linger and batch size that reach a target size.
    pub cheapest: Vec<CheapestSetting>,
    /// Advised settings, by the replay. `None` in records older than the field, and if no advice was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<BatchAdvice>,
    /// Number of batches that were recompressed from the topic's own records, to learn their compressed size.
    pub batches_packed: u64,
    /// Limits of the prediction.
    pub notes: Vec<String>,
}

/// A producer, and how well its batches are explained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplayedProducer {
    /// Its id, or its number among the producers without an id.
    pub name: String,
    /// Batches that it wrote.
    pub batches: u64,
    /// Records in these batches.
    pub records: u64,
    /// The settings that explain them best.
    pub settings: Option<ClientSettings>,
    /// Other settings that explain them equally well.
    pub others_as_good: Vec<ClientSettings>,
    /// Whether the settings come from a larger producer instead of a search with its own batches.
    #[serde(default)]
    pub lent: bool,
    /// Error of the replay of today; `None` for settings that could not be tried on its batches.
    pub misfit: Option<ReplayMisfit>,
    /// Why the prediction excludes it.
    pub refused: Option<String>,
}

/// Settings of a client, inferred or given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientSettings {
    /// `java3`, `java4`, `librdkafka` or `franz-go`.
    pub client: String,
    /// Linger in milliseconds.
    pub linger_ms: f64,
    /// Batch size in bytes.
    pub batch_bytes: u64,
    /// Record limit of batches, if it is below the client's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_records: Option<u64>,
    /// Codec.
    pub codec: String,
    /// Time from a request to its answer in the replay, in milliseconds.
    pub rtt_ms: f64,
    /// Delay of timers in the replay, in milliseconds.
    pub late_ms: f64,
}

/// Difference between a replay of today and the real batches.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReplayMisfit {
    /// Batches of the replay divided by the real batches, minus 1.
    pub batches: f64,
    /// Distance between the two distributions of sizes, divided by the mean size.
    pub sizes: f64,
    /// Share of the batches that begin with the same record.
    pub same_begin: f64,
}

/// Batches of a window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BatchFigures {
    /// Batches per second.
    pub batches_per_s: f64,
    /// Requests per second; unknown for the real batches.
    pub requests_per_s: Option<f64>,
    /// Bytes of batches per second, as sent.
    pub bytes_per_s: f64,
    /// Mean number of records per batch.
    pub records_per_batch: f64,
    /// Mean bytes per batch.
    pub batch_bytes_mean: f64,
    /// Median bytes per batch.
    pub batch_bytes_p50: u64,
    /// 90th percentile of the bytes per batch.
    pub batch_bytes_p90: u64,
    /// Mean time that a record waits for its request, in milliseconds.
    pub wait_ms_mean: Option<f64>,
    /// Median of the same, in milliseconds.
    pub wait_ms_p50: Option<f64>,
    /// 99th percentile of the same, in milliseconds.
    pub wait_ms_p99: Option<f64>,
    /// Share of bytes that are batch headers.
    pub header_share: f64,
    /// Write amplification if each batch were flushed alone: bytes on disk per byte of a batch. It is an upper bound.
    pub write_amplification_most: f64,
    /// Share of batches by trigger.
    pub sent_by: Option<SentBy>,
    /// Peak memory of a producer's batches, by the client's own accounting.
    pub memory_bytes: Option<u64>,
    /// Records without free memory, so that the application would have waited.
    pub would_wait: Option<u64>,
}

/// Shares of batches by trigger.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SentBy {
    /// The batch was full.
    pub size: f64,
    /// The linger expired.
    pub time: f64,
    /// Another partition of the broker was ready.
    pub with_others: f64,
    /// The memory was used up.
    pub memory: f64,
    /// A transaction ended.
    #[serde(default)]
    pub commit: f64,
}

/// A value with its range.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Foreseen {
    /// Value with the settings that explain today best.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Effect of a change on the batches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForeseenBatches {
    /// All figures of the best replay.
    pub figures: BatchFigures,
    /// Batches per second.
    pub batches_per_s: Foreseen,
    /// Requests per second.
    pub requests_per_s: Foreseen,
    /// Bytes per second.
    pub bytes_per_s: Foreseen,
    /// Mean bytes per batch.
    pub batch_bytes_mean: Foreseen,
    /// Mean wait of a record, in milliseconds.
    pub wait_ms_mean: Foreseen,
    /// Median wait of a record, in milliseconds.
    pub wait_ms_p50: Foreseen,
    /// 99th percentile of the wait of a record, in milliseconds.
    pub wait_ms_p99: Foreseen,
    /// Number of replays that the range covers.
    pub replays: u32,
}

/// The cheapest settings that reach a batch size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheapestSetting {
    /// Target for the mean bytes per batch.
    pub target_bytes: u64,
    /// Linger in milliseconds; `None` if none of the tried lingers reaches the target.
    pub linger_ms: Option<f64>,
    /// Batch size, if it must be raised.
    pub batch_bytes: Option<u64>,
    /// Mean bytes per batch with these settings, or the largest mean that was reached.
    pub batch_bytes_mean: f64,
    /// Mean wait of a record, in milliseconds.
    pub wait_ms_mean: f64,
    /// Peak memory of a producer's batches, in bytes.
    pub memory_bytes: u64,
    /// Whether an application would have to wait for memory.
    pub would_wait: bool,
}

/// Advised settings for a topic, by the replay of its own records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum BatchAdvice {
    /// A linger, a batch size, or both, that reduce the number of batches.
    Set {
        /// New `linger.ms`, if it changes.
        linger_ms: Option<f64>,
        /// New `batch.size`, if it changes.
        batch_bytes: Option<u64>,
        /// New `batch.num.messages`, if it changes.
        batch_records: Option<u64>,
        /// Mean bytes per batch that the advice aims at. `None` if no tolerable linger reaches either size: the advice is then the best one
        /// within it.
        target_bytes: Option<u64>,
        /// Effect of the advice.
        effect: AdvisedEffect,
    },
    /// Even the longest tolerable linger has little effect.
    Starved {
        /// That linger, in milliseconds.
        tolerable_ms: f64,
        /// Its effect.
        effect: AdvisedEffect,
    },
    /// Most batches end with their transaction, so no linger has an effect.
    Commits {
        /// Share of the batches that end with their transaction at the longest tolerable linger, 0 to 1.
        share: f64,
        /// That linger, in milliseconds.
        tolerable_ms: f64,
        /// Its effect.
        effect: AdvisedEffect,
    },
    /// No change: the batches are large enough, or hardly fewer are possible.
    Keep,
    /// Senders wait for every answer, so no linger has an effect.
    Waits {
        /// The linger that each record waits today, in milliseconds. 0 is better.
        linger_ms: Option<f64>,
    },
    /// The replay does not reproduce today, so there is no advice.
    Unknown {
        /// The reason.
        why: String,
    },
}

/// Effect of an advised setting, compared with a replay of today.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AdvisedEffect {
    /// Ratio of batches to today's batches, minus 1: -0.74 is 74 % fewer.
    pub batches_change: f64,
    /// Mean bytes per batch.
    pub batch_bytes_mean: f64,
    /// Additional wait of the median record, in milliseconds.
    pub wait_ms_p50_change: f64,
}

//! What a setting would make of a topic's batches.

use serde::{Deserialize, Serialize};

/// A prediction, the replay of today that it stands on, and what was refused.
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
    /// What would be changed, in words; empty where only today was asked for.
    pub change: String,
    /// Who wrote, most batches first.
    pub producers: Vec<ReplayedProducer>,
    /// Producers beyond those that are listed.
    pub more_producers: u64,
    /// Batches as they were written.
    pub today: BatchFigures,
    /// Today, replayed with the settings that explain it best.
    pub replayed: Option<BatchFigures>,
    /// The change, replayed.
    pub predicted: Option<ForeseenBatches>,
    /// Why nothing is predicted.
    pub refused: Option<String>,
    /// The least linger, and then the least batch size, that reach a size.
    pub cheapest: Vec<CheapestSetting>,
    /// What to set, by the replay. `None` in records that are older than the field, and where nothing was asked of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<BatchAdvice>,
    /// Batches that were packed anew from the topic's own records, to know what packing makes of them.
    pub batches_packed: u64,
    /// Limits of what was said.
    pub notes: Vec<String>,
}

/// A producer, and how well its batches are explained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplayedProducer {
    /// Its id, or its number among those without one.
    pub name: String,
    /// Batches that it wrote.
    pub batches: u64,
    /// Records of them.
    pub records: u64,
    /// The settings that explain them best.
    pub settings: Option<ClientSettings>,
    /// Other settings that explain them as well.
    pub others_as_good: Vec<ClientSettings>,
    /// Whether the settings are those of a larger producer and were not searched for with its own batches.
    #[serde(default)]
    pub lent: bool,
    /// How far the replay of today is off, where there is one: there is none for settings that could not be tried on its batches.
    pub misfit: Option<ReplayMisfit>,
    /// Why it is not in the prediction.
    pub refused: Option<String>,
}

/// Settings of a client, as inferred or told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientSettings {
    /// `java3`, `java4`, `librdkafka` or `franz-go`.
    pub client: String,
    /// Linger in milliseconds.
    pub linger_ms: f64,
    /// Batch size in bytes.
    pub batch_bytes: u64,
    /// Records at which batches end, where that is below the client's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_records: Option<u64>,
    /// Codec.
    pub codec: String,
    /// From a request to its answer, in milliseconds, as the replay had it.
    pub rtt_ms: f64,
    /// What timers were late by, in milliseconds, as the replay had it.
    pub late_ms: f64,
}

/// How far a replay of today is from today.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReplayMisfit {
    /// Batches of the replay over those that were written, less 1.
    pub batches: f64,
    /// Distance of both distributions of sizes over the mean size.
    pub sizes: f64,
    /// Share of the batches that begin at the same record.
    pub same_begin: f64,
}

/// Batches of a window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BatchFigures {
    /// Batches a second.
    pub batches_per_s: f64,
    /// Requests a second; not known of what was written.
    pub requests_per_s: Option<f64>,
    /// Bytes of batches a second, as sent.
    pub bytes_per_s: f64,
    /// Records of a batch in the mean.
    pub records_per_batch: f64,
    /// Bytes of a batch in the mean.
    pub batch_bytes_mean: f64,
    /// Half of the batches have at most so many.
    pub batch_bytes_p50: u64,
    /// A tenth of the batches have more.
    pub batch_bytes_p90: u64,
    /// What a record waits for its request, in milliseconds, in the mean.
    pub wait_ms_mean: Option<f64>,
    /// The same, of half of the records at most.
    pub wait_ms_p50: Option<f64>,
    /// The same, of one in a hundred at least.
    pub wait_ms_p99: Option<f64>,
    /// Share of bytes that are headers of batches.
    pub header_share: f64,
    /// Bytes on disk for a byte of a batch, if each were flushed alone: an upper bound.
    pub write_amplification_most: f64,
    /// Share of batches by what sent them.
    pub sent_by: Option<SentBy>,
    /// Most memory of a producer that batches held, by the client's own account.
    pub memory_bytes: Option<u64>,
    /// Records for which there was no memory, so that the application would have waited.
    pub would_wait: Option<u64>,
}

/// Shares of batches by what sent them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SentBy {
    /// They were full.
    pub size: f64,
    /// Their linger was over.
    pub time: f64,
    /// Another partition of their broker was ready.
    pub with_others: f64,
    /// Memory was used up.
    pub memory: f64,
    /// A transaction ended.
    #[serde(default)]
    pub commit: f64,
}

/// A value with the range that it is said to lie in.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Foreseen {
    /// With the settings that explain today best.
    pub value: f64,
    /// Least.
    pub low: f64,
    /// Most.
    pub high: f64,
}

/// What a change makes of the batches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForeseenBatches {
    /// All figures of the best replay.
    pub figures: BatchFigures,
    /// Batches a second.
    pub batches_per_s: Foreseen,
    /// Requests a second.
    pub requests_per_s: Foreseen,
    /// Bytes a second.
    pub bytes_per_s: Foreseen,
    /// Bytes of a batch in the mean.
    pub batch_bytes_mean: Foreseen,
    /// Wait of a record in the mean, in milliseconds.
    pub wait_ms_mean: Foreseen,
    /// Half of the records wait at most so long.
    pub wait_ms_p50: Foreseen,
    /// One in a hundred waits at least so long.
    pub wait_ms_p99: Foreseen,
    /// Replays that the range covers.
    pub replays: u32,
}

/// The cheapest way to a batch size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheapestSetting {
    /// Bytes of a batch that are wanted in the mean.
    pub target_bytes: u64,
    /// Linger in milliseconds; `None` where none of those that were tried reaches it.
    pub linger_ms: Option<f64>,
    /// Batch size, where it has to be raised.
    pub batch_bytes: Option<u64>,
    /// Bytes of a batch in the mean that it gives, or the most that was reached.
    pub batch_bytes_mean: f64,
    /// Wait of a record in the mean, in milliseconds.
    pub wait_ms_mean: f64,
    /// Most memory of a producer that batches hold, in bytes.
    pub memory_bytes: u64,
    /// Whether an application would have to wait for memory.
    pub would_wait: bool,
}

/// What to set for a topic, by the replay of its own records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum BatchAdvice {
    /// A linger, a batch size, or both, that bring fewer batches.
    Set {
        /// `linger.ms`, where it is to change.
        linger_ms: Option<f64>,
        /// `batch.size`, where it is to change.
        batch_bytes: Option<u64>,
        /// `batch.num.messages`, where it is to change.
        batch_records: Option<u64>,
        /// Bytes of a batch that it reaches in the mean; `None` where neither size is reached by a tolerable linger: then it is the one that brings most.
        target_bytes: Option<u64>,
        /// What it brings.
        effect: AdvisedEffect,
    },
    /// Even the longest linger that the user tolerates brings little.
    Starved {
        /// That linger, in milliseconds.
        tolerable_ms: f64,
        /// What it brings.
        effect: AdvisedEffect,
    },
    /// Most batches end with their transaction, so no linger brings much.
    Commits {
        /// Share of the batches that end so with the longest linger that the user tolerates, 0 to 1.
        share: f64,
        /// That linger, in milliseconds.
        tolerable_ms: f64,
        /// What it brings.
        effect: AdvisedEffect,
    },
    /// Nothing: batches are as large as they need to be, or can hardly be fewer.
    Keep,
    /// Senders wait for every answer, so no linger brings anything.
    Waits {
        /// The linger that each record waits out today, in milliseconds. 0 is better.
        linger_ms: Option<f64>,
    },
    /// The replay does not reproduce today, so that no setting is advised.
    Unknown {
        /// Why not.
        why: String,
    },
}

/// What an advised setting changes, compared with a replay of today.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AdvisedEffect {
    /// Batches over those of today, less 1: -0.74 is 74 % fewer.
    pub batches_change: f64,
    /// Bytes of a batch in the mean.
    pub batch_bytes_mean: f64,
    /// Milliseconds that the median record waits longer.
    pub wait_ms_p50_change: f64,
}

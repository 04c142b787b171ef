//! The load: everything that is needed to send it again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What sends the load.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// Hone's own frames: the shape of a request is an input.
    #[default]
    Wire,
    /// librdkafka: its settings are inputs, the batches an output. A request of the schedule is one record handed over.
    Librdkafka {
        /// Properties of the producer, for example `linger.ms`.
        settings: BTreeMap<String, String>,
    },
    /// Any other client behind the line protocol of docs/client-protocol.md. A request of the schedule is one record.
    Command {
        /// Program and arguments.
        command: Vec<String>,
        /// Settings handed to it.
        settings: BTreeMap<String, String>,
    },
}

impl Engine {
    /// The name for people and options.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Wire => "wire",
            Self::Librdkafka { .. } => "librdkafka",
            Self::Command { .. } => "command",
        }
    }
}

/// When requests are due.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// Equal gaps.
    Uniform,
    /// Independent arrivals: exponential gaps.
    Poisson,
    /// All requests of a period at its beginning; every 2 ms is what kafka-producer-perf-test does.
    Bursts {
        /// The period.
        every_ms: f64,
    },
    /// A rate that rises or falls evenly over the window, from the workload's to this one.
    Ramp {
        /// Rate at the window's end.
        to_requests_per_s: f64,
    },
    /// Rates that hold for equal parts of the window, one after the other; the workload's rate is their mean.
    Steps {
        /// The rates.
        requests_per_s: Vec<f64>,
    },
    /// Arrival times as they were recorded.
    Replay {
        /// Where they came from: a file, or `topic NAME`.
        source: String,
        /// Times in it.
        arrivals: u64,
        /// SHA-256 over the times, so that a record says what it replayed.
        sha256: String,
    },
}

/// Keys of the records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keys {
    /// No keys.
    #[default]
    None,
    /// Every key is as likely as the other.
    Uniform {
        /// How many there are.
        distinct: u64,
    },
    /// The k-th key is 1/k^exponent as likely as the first.
    Zipf {
        /// How many there are.
        distinct: u64,
        /// 0 is uniform; 1 is what texts and shops have.
        exponent: f64,
    },
}

/// What the records hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Payload {
    /// Seeded bytes; `compressible_share` of each value is one repeated byte, the rest is random.
    Bytes {
        /// 0 (random) to 1 (one byte repeated).
        compressible_share: f64,
    },
    /// JSON objects of a named generator in `hone-load`, for example `orders` or `telemetry`.
    Json {
        /// Name of the generator.
        shape: String,
    },
    /// The lines of a file, in turn.
    File {
        /// The file.
        path: String,
        /// SHA-256 of its bytes.
        sha256: String,
    },
}

/// Sizes of the values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sizes {
    /// Each has the workload's `record_bytes`.
    #[default]
    Fixed,
    /// Evenly between two sizes; `record_bytes` is their mean.
    Uniform {
        /// Smallest.
        least_bytes: u32,
        /// Largest.
        most_bytes: u32,
    },
    /// Log-normal with the mean `record_bytes`; most values are smaller, a few much larger.
    LogNormal {
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
}

/// The load: everything that is needed to send it again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// The name in the experiment file.
    pub name: String,
    /// What sends it.
    #[serde(default)]
    pub engine: Engine,
    /// Seed of arrivals, keys and payloads.
    pub seed: u64,
    /// Spacing of the requests.
    pub schedule: Schedule,
    /// Requests asked for, per second, over all connections: Produce requests (wire), or records handed over (clients).
    pub requests_per_s: f64,
    /// Records in each batch; a request carries one batch for each of `partitions_per_request` partitions. 1 for clients.
    pub records_per_batch: u32,
    /// Size of a record's value.
    pub record_bytes: u32,
    /// How the sizes are spread around it.
    #[serde(default)]
    pub sizes: Sizes,
    /// Contents of a record's value.
    pub payload: Payload,
    /// Keys of the records. A keyed record goes to the partition that Kafka's default partitioner (murmur2) names.
    #[serde(default)]
    pub keys: Keys,
    /// Codec the producer uses: `none`, `gzip`, `snappy`, `lz4`, `zstd`.
    pub compression: String,
    /// TCP connections (wire), or producers (clients).
    pub connections: u32,
    /// Most requests without an answer on one connection.
    pub in_flight: u32,
    /// Partitions of the topic.
    pub partitions: u32,
    /// Partitions that one request writes to.
    pub partitions_per_request: u32,
    /// 0, 1 or -1 (all).
    pub acks: i16,
    /// Producer id, epoch and sequences in every batch.
    #[serde(default)]
    pub idempotent: bool,
    /// Consumers, each of which reads everything that is produced.
    #[serde(default)]
    pub consumers: u32,
    /// Requests sent and answered before the window opens.
    pub warmup_requests: u64,
    /// Length of the window.
    pub duration_s: f64,
    /// Time after which a request without an answer is counted as timed out.
    pub timeout_s: f64,
    /// Properties the topic is created with.
    pub topic_config: BTreeMap<String, String>,
}

//! The load: all data that is needed to send it again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ramp_search::Climb;

/// The engine that sends the load.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// Hone's own frames. The shape of a request is an input.
    #[default]
    Wire,
    /// librdkafka. Its settings are inputs, the batches are an output. A scheduled request is one record passed to the client.
    Librdkafka {
        /// Properties of the producer, for example `linger.ms`.
        settings: BTreeMap<String, String>,
    },
    /// Any other client that uses the line protocol of docs/client-protocol.md. A scheduled request is one record.
    Command {
        /// Program and arguments.
        command: Vec<String>,
        /// Settings passed to it.
        settings: BTreeMap<String, String>,
    },
    /// A load generator for any protocol: a command that ends after its operations. It runs at its own pace (closed loop), and single
    /// operations are unknown.
    Tool {
        /// Program and arguments, with placeholders.
        command: Vec<String>,
        /// Number of operations.
        operations: u64,
        /// Command that fills the target with data before the measurement, once for each start of the target.
        populate: Option<Vec<String>>,
        /// Command that warms the target up after `populate`, once for each start of the target.
        warmup: Option<Vec<String>>,
    },
    /// The target itself, started for each window: it does its work and exits.
    Exits {
        /// Its arguments, with placeholders.
        arguments: Vec<String>,
        /// Number of operations.
        operations: u64,
    },
}

impl Engine {
    /// The name for people and options.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Wire => "wire",
            Self::Librdkafka { .. } => "librdkafka",
            Self::Command { .. } => "command",
            Self::Tool { .. } => "tool",
            Self::Exits { .. } => "exits",
        }
    }

    /// Operations per window, if the program counts them; `None` if requests come from a schedule.
    pub fn operations(&self) -> Option<u64> {
        match self {
            Self::Tool { operations, .. } | Self::Exits { operations, .. } => Some(*operations),
            Self::Wire | Self::Librdkafka { .. } | Self::Command { .. } => None,
        }
    }
}

/// Default time limit for a command of a load, or for a target that should exit. It is long compared with any burst, and short compared
/// with an evening.
const COMMAND_LIMIT_S: f64 = 600.0;

/// Times at which requests are due.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// Equal gaps.
    Uniform,
    /// Independent arrivals with exponential gaps.
    Poisson,
    /// All requests of a period at its beginning. kafka-producer-perf-test does this every 2 ms.
    Bursts {
        /// The period.
        every_ms: f64,
    },
    /// A rate that changes linearly over the window, from the workload's rate to this one.
    Ramp {
        /// Rate at the window's end.
        to_requests_per_s: f64,
    },
    /// A sequence of rates for equal parts of the window. The workload's rate is their mean.
    Steps {
        /// The rates.
        requests_per_s: Vec<f64>,
    },
    /// A ramp search: rates that rise until the SLO is missed, with independent arrivals. The workload's rate is the first.
    Climb(Climb),
    /// Recorded arrival times.
    Replay {
        /// Source of the times: a file, or `topic NAME`.
        source: String,
        /// Number of times in it.
        arrivals: u64,
        /// SHA-256 over the times, so that a record identifies the replayed arrivals.
        sha256: String,
    },
}

/// Keys of the records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keys {
    /// Records without keys.
    #[default]
    None,
    /// All keys are equally likely.
    Uniform {
        /// Number of keys.
        distinct: u64,
    },
    /// Zipf distribution: the k-th key is 1/k^exponent as likely as the first.
    Zipf {
        /// Number of keys.
        distinct: u64,
        /// The exponent: 0 is uniform, 1 is typical of texts and shops.
        exponent: f64,
    },
}

/// Topics of a load, each with equally many partitions, and their shares of the requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TopicShares {
    /// All have the same share.
    Equal {
        /// Number of topics.
        count: u32,
    },
    /// The k-th topic has 1/k^exponent of the share of the first.
    Zipf {
        /// Number of topics.
        count: u32,
        /// The exponent: 0 is equal.
        exponent: f64,
    },
    /// One weight for each topic.
    Weights(Vec<f64>),
}

impl Default for TopicShares {
    fn default() -> Self {
        Self::Equal { count: 1 }
    }
}

impl TopicShares {
    /// Number of topics.
    pub fn count(&self) -> u32 {
        match self {
            Self::Equal { count } | Self::Zipf { count, .. } => *count,
            Self::Weights(weights) => weights.len() as u32,
        }
    }

    /// The weight of each topic; only their ratios mean something.
    pub fn weights(&self) -> Vec<f64> {
        match self {
            Self::Equal { count } => vec![1.0; *count as usize],
            Self::Zipf { count, exponent } => (1..=*count).map(|k| f64::from(k).powf(-exponent)).collect(),
            Self::Weights(weights) => weights.clone(),
        }
    }

    /// Whether all have the same weight.
    pub fn is_equal(&self) -> bool {
        matches!(self, Self::Equal { .. })
    }

    fn is_one(&self) -> bool {
        *self == Self::default()
    }
}

/// Contents of the records.
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
    /// The lines of a file in turn.
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
    /// Uniform between two sizes; `record_bytes` is their mean.
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

/// A file with the records of a topic: their times, producers, keys and sizes, but not their contents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// The file.
    pub path: String,
    /// SHA-256 of its bytes, so that a record identifies the data that was sent.
    pub sha256: String,
}

impl Recording {
    /// The key for a number in the file. The numbers are chosen so that Kafka's murmur2 maps these keys to the partitions of the topic's
    /// own keys.
    pub fn key(number: u64) -> String {
        format!("{number:x}")
    }
}

/// Processors that read what the producers send, write it to a topic of their own, and commit both in transactions. The consumers read what
/// they have committed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Processing {
    /// Number of processors.
    pub processors: u32,
    /// Length of a transaction, from its first record on, in seconds.
    pub transaction_s: f64,
    /// One of so many transactions of each is aborted, and its records are read again. 0 for none.
    pub abort_every: u32,
}

impl Default for Processing {
    fn default() -> Self {
        // Kafka Streams commits every 100 ms by default with exactly-once semantics (`commit.interval.ms`).
        Self { processors: 0, transaction_s: 0.1, abort_every: 0 }
    }
}

impl Processing {
    fn is_none(&self) -> bool {
        self.processors == 0
    }
}

/// Limits of a consumer's Fetch requests, under the names and with the defaults of Kafka's own consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FetchLimits {
    /// The broker answers when it has this many bytes (`fetch.min.bytes`).
    pub fetch_min_bytes: u32,
    /// Or after this time (`fetch.max.wait.ms`).
    pub fetch_max_wait_ms: u32,
    /// Most bytes of an answer, except for a single larger batch (`fetch.max.bytes`).
    pub fetch_max_bytes: u32,
    /// The same for each partition (`max.partition.fetch.bytes`).
    pub max_partition_fetch_bytes: u32,
}

/// A position in the log of each partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadFrom {
    /// Behind the last record: consumers read what the window sends.
    #[default]
    End,
    /// The first record.
    Earliest,
    /// The first record that is not older than this, in seconds.
    AgeS(f64),
}

impl ReadFrom {
    fn is_end(&self) -> bool {
        *self == Self::End
    }
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self {
            fetch_min_bytes: 1,
            fetch_max_wait_ms: 500,
            fetch_max_bytes: 50 << 20,
            max_partition_fetch_bytes: 1 << 20,
        }
    }
}

/// The load: all data that is needed to send it again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// The name in the experiment file.
    pub name: String,
    /// The engine that sends it.
    #[serde(default)]
    pub engine: Engine,
    /// Seed of arrivals, keys and payloads.
    pub seed: u64,
    /// Arrival pattern of the requests.
    pub schedule: Schedule,
    /// Scheduled rate per second over all connections: Produce requests (wire), or records passed to the client.
    pub requests_per_s: f64,
    /// Records in each batch; a request carries one batch for each of `partitions_per_request` partitions. 1 for clients.
    pub records_per_batch: u32,
    /// Size of a record's value.
    pub record_bytes: u32,
    /// Distribution of the sizes.
    #[serde(default)]
    pub sizes: Sizes,
    /// Contents of a record's value.
    pub payload: Payload,
    /// Keys of the records. A keyed record goes to the partition that Kafka's default partitioner (murmur2) chooses.
    #[serde(default)]
    pub keys: Keys,
    /// Codec of the producer: `none`, `gzip`, `snappy`, `lz4`, `zstd`.
    pub compression: String,
    /// TCP connections (wire), or producers (clients).
    pub connections: u32,
    /// Largest number of unanswered requests per connection.
    pub in_flight: u32,
    /// Topics of the load.
    #[serde(default, skip_serializing_if = "TopicShares::is_one")]
    pub topics: TopicShares,
    /// Partitions of the topic, or of each of several.
    pub partitions: u32,
    /// Partitions per request.
    pub partitions_per_request: u32,
    /// 0, 1 or -1 (all).
    pub acks: i16,
    /// Idempotence: producer id, epoch and sequences in every batch.
    #[serde(default)]
    pub idempotent: bool,
    /// Number of consumers. Each reads all records, or they share the partitions as one group. With several groups, each has so many.
    #[serde(default)]
    pub consumers: u32,
    /// Whether the consumers share the partitions as one group.
    #[serde(default, skip_serializing_if = "is_false")]
    pub consumer_group: bool,
    /// Number of groups; each reads all records. 1 without groups.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub consumer_groups: u32,
    /// How the members of a group get their partitions.
    #[serde(default, skip_serializing_if = "GroupProtocol::is_assigned")]
    pub group_protocol: GroupProtocol,
    /// Interval at which a member of each group leaves and joins again, in seconds. 0: never.
    #[serde(default, skip_serializing_if = "is_never")]
    pub rebalance_every_s: f64,
    /// Processors between producers and consumers.
    #[serde(default, skip_serializing_if = "Processing::is_none")]
    pub processing: Processing,
    /// Limits of their Fetch requests.
    #[serde(flatten)]
    pub fetch: FetchLimits,
    /// Where the consumers begin when the window opens.
    #[serde(default, skip_serializing_if = "ReadFrom::is_end")]
    pub read_from: ReadFrom,
    /// Bytes of records that the producers store before the window, for the consumers to catch up with.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub backlog_bytes: u64,
    /// Requests sent and answered before the window opens.
    pub warmup_requests: u64,
    /// Time limit for the warm-up, in seconds; it runs until the target is warm. 0 sends only `warmup_requests`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub warmup_limit_s: f64,
    /// Length of the window.
    pub duration_s: f64,
    /// Time after which an unanswered request counts as timed out.
    pub timeout_s: f64,
    /// Properties for creating the topic.
    pub topic_config: BTreeMap<String, String>,
    /// Replicas of each partition of the load's own topic; `None` leaves the number to the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replication_factor: Option<u16>,
    /// Records of a topic to send: their sizes, keys and producers, in the order of the schedule, instead of `sizes` and `keys`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<Recording>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference over")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference over")]
fn is_nothing(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference over")]
fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_never(seconds: &f64) -> bool {
    *seconds == 0.0
}

/// How the members of a group get their partitions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupProtocol {
    /// Hone assigns them, and the broker knows no members.
    #[default]
    Assigned,
    /// The members deal them, and all of them stop for each rebalance.
    Classic,
    /// The broker deals them (KIP-848).
    Consumer,
    /// Members share partitions, and the broker gives each record to one of them (share groups, KIP-932).
    Share,
}

impl GroupProtocol {
    fn is_assigned(&self) -> bool {
        *self == Self::Assigned
    }
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_one(value: &u32) -> bool {
    *value == 1
}

impl Workload {
    /// Number of requests that nearly every window has. Random arrivals sometimes bring three standard deviations fewer. `None` for
    /// recorded arrivals and for counted operations.
    pub fn requests_per_window(&self) -> Option<u64> {
        let mean_rate = match &self.schedule {
            _ if self.engine.operations().is_some() => return None,
            Schedule::Replay { .. } | Schedule::Climb(_) => return None,
            Schedule::Ramp { to_requests_per_s } => f64::midpoint(self.requests_per_s, *to_requests_per_s),
            _ => self.requests_per_s,
        };
        let mean = mean_rate * self.duration_s;
        let spread = if self.schedule == Schedule::Poisson { 3.0 * mean.sqrt() } else { 0.0 };
        Some((mean - spread).max(0.0).floor() as u64)
    }

    /// The same load as a ramp search from its own rate. Its length is the sum of all steps.
    #[must_use]
    pub fn climbing(self, climb: Climb) -> Self {
        let steps = climb.rates(self.requests_per_s).len() as f64;
        Self { schedule: Schedule::Climb(climb), duration_s: steps * climb.stride_s(), ..self }
    }

    /// The shortest valid duration of its windows. This is its length, except for a ramp search, which ends where the SLO is missed.
    pub fn least_s(&self) -> f64 {
        self.climb().map_or(self.duration_s, |climb| climb.least_s(self.requests_per_s))
    }

    /// Partitions of all topics.
    pub fn all_partitions(&self) -> u32 {
        self.partitions.saturating_mul(self.topics.count())
    }

    /// A partition of a gap, counted through all topics: `partition 3`, or `partition 3 of topic 2`.
    pub fn partition_name(&self, number: i32) -> String {
        let width = i32::try_from(self.partitions.max(1)).unwrap_or(i32::MAX);
        match self.topics.count() {
            0 | 1 => format!("partition {number}"),
            _ => format!("partition {} of topic {}", number % width, number / width + 1),
        }
    }

    /// Whether the window sends nothing, and consumers read what is there.
    pub fn is_read_only(&self) -> bool {
        self.requests_per_s == 0.0 && self.consumers > 0
    }

    /// Whether the consumers begin with records from before the window.
    pub fn catches_up(&self) -> bool {
        self.consumers > 0 && (self.backlog_bytes > 0 || self.read_from != ReadFrom::End)
    }

    /// The ramp search; `None` for other loads.
    pub fn climb(&self) -> Option<Climb> {
        match self.schedule {
            Schedule::Climb(climb) => Some(climb),
            _ => None,
        }
    }

    /// A load of counted operations ([`Engine::Tool`] or [`Engine::Exits`]). Fields that describe scheduled requests then mean nothing:
    /// there is no rate and no size, and `duration_s` is 0 because the work and not the clock ends a window.
    pub fn of_operations(name: &str, engine: Engine) -> Self {
        Self {
            name: name.to_owned(),
            engine,
            seed: 1,
            schedule: Schedule::Uniform,
            requests_per_s: 0.0,
            records_per_batch: 1,
            record_bytes: 0,
            sizes: Sizes::Fixed,
            payload: Payload::Bytes { compressible_share: 0.0 },
            keys: Keys::None,
            compression: "none".to_owned(),
            connections: 0,
            in_flight: 0,
            topics: TopicShares::default(),
            partitions: 0,
            partitions_per_request: 0,
            acks: -1,
            idempotent: false,
            consumers: 0,
            consumer_group: false,
            consumer_groups: 1,
            group_protocol: GroupProtocol::Assigned,
            rebalance_every_s: 0.0,
            processing: Processing::default(),
            fetch: FetchLimits::default(),
            read_from: ReadFrom::End,
            backlog_bytes: 0,
            warmup_requests: 0,
            warmup_limit_s: 0.0,
            duration_s: 0.0,
            timeout_s: COMMAND_LIMIT_S,
            topic_config: BTreeMap::new(),
            replication_factor: None,
            recording: None,
        }
    }

    /// The same load with another number of operations. `None` if it is not counted in operations, or if its command lacks `{operations}`,
    /// which would leave the number unchanged.
    #[must_use]
    pub fn with_operations(&self, wanted: u64) -> Option<Self> {
        let mut load = self.clone();
        let (words, operations) = match &mut load.engine {
            Engine::Tool { command, operations, .. } => (command, operations),
            Engine::Exits { arguments, operations } => (arguments, operations),
            Engine::Wire | Engine::Librdkafka { .. } | Engine::Command { .. } => return None,
        };
        if !words.iter().any(|word| word.contains("{operations}")) {
            return None;
        }
        *operations = wanted.max(1);
        Some(load)
    }

    /// The same load with each of its rates changed by this function. Recorded arrivals have no rate.
    #[must_use]
    pub fn at_rates(&self, change: impl Fn(f64) -> f64) -> Self {
        let mut load = self.clone();
        match &mut load.schedule {
            Schedule::Replay { .. } => return load,
            Schedule::Ramp { to_requests_per_s } | Schedule::Climb(Climb { to_requests_per_s, .. }) => {
                *to_requests_per_s = change(*to_requests_per_s);
            }
            Schedule::Steps { requests_per_s } => {
                requests_per_s.iter_mut().for_each(|rate| *rate = change(*rate));
            }
            Schedule::Uniform | Schedule::Poisson | Schedule::Bursts { .. } => {}
        }
        load.requests_per_s = change(load.requests_per_s);
        load
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_load_of_operations_comes_back_from_its_file() {
        let tool = Engine::Tool {
            command: split_words("bench -p {port} -n {operations}"),
            operations: 1_000,
            populate: Some(split_words("fill -p {port}")),
            warmup: None,
        };
        let exits = Engine::Exits { arguments: split_words("--num={operations}"), operations: 7 };
        for (engine, name, operations) in [(tool, "tool", 1_000), (exits, "exits", 7)] {
            let load = Workload::of_operations("judge", engine);
            assert_eq!((load.engine.name(), load.engine.operations()), (name, Some(operations)));
            let text = serde_json::to_string(&load).unwrap();
            assert_eq!(serde_json::from_str::<Workload>(&text).unwrap(), load, "{text}");
            assert_eq!(load.with_operations(0).unwrap().engine.operations(), Some(1));
        }
        assert_eq!(Engine::Wire.operations(), None);
    }

    #[test]
    fn operations_can_only_be_changed_where_the_command_is_told_of_them() {
        let fixed = Engine::Exits { arguments: split_words("--num=5"), operations: 5 };
        assert_eq!(Workload::of_operations("judge", fixed).with_operations(9), None);
        assert_eq!(crate::merge::tests::workload().with_operations(9), None);
    }
}

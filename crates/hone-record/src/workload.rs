//! The load: everything that is needed to send it again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ramp_search::Climb;

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
    /// A load generator of any protocol, as a command that ends when its operations are done. It keeps its own pace (a closed
    /// loop), and nothing is known of single operations.
    Tool {
        /// Program and arguments, with placeholders.
        command: Vec<String>,
        /// Operations that it does.
        operations: u64,
        /// What fills the target with data, once for each start of it, before anything is counted.
        populate: Option<Vec<String>>,
        /// What warms it up, once for each start of it, behind `populate`.
        warmup: Option<Vec<String>>,
    },
    /// The target itself, started for each window: it does its work and exits.
    Exits {
        /// Its arguments, with placeholders.
        arguments: Vec<String>,
        /// Operations that it does.
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

    /// Operations of a window, where they are counted by whoever does them; `None` where requests come from a schedule.
    pub fn operations(&self) -> Option<u64> {
        match self {
            Self::Tool { operations, .. } | Self::Exits { operations, .. } => Some(*operations),
            Self::Wire | Self::Librdkafka { .. } | Self::Command { .. } => None,
        }
    }
}

/// Time after which a command of a load, or a target that should exit, is ended, unless another is asked for: long beside any
/// burst, short beside an evening.
const COMMAND_LIMIT_S: f64 = 600.0;

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
    /// Rates that rise until a promise about latency breaks, with independent arrivals; the workload's rate is the first.
    Climb(Climb),
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

/// A file with the records of a topic: when each came, by which producer, with which key and size, and nothing of what it held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// The file.
    pub path: String,
    /// SHA-256 of its bytes, so that a record says what was sent.
    pub sha256: String,
}

impl Recording {
    /// The key that a number in the file stands for. Numbers are chosen so that Kafka's murmur2 puts these keys where the topic's own lie.
    pub fn key(number: u64) -> String {
        format!("{number:x}")
    }
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
    /// Consumers. Each reads everything that is produced, or they share the partitions as one group.
    #[serde(default)]
    pub consumers: u32,
    /// Whether the consumers share the partitions as one group.
    #[serde(default, skip_serializing_if = "is_false")]
    pub consumer_group: bool,
    /// Requests sent and answered before the window opens.
    pub warmup_requests: u64,
    /// Most time for the warm-up, in seconds: it goes on until the target is warm. 0 sends `warmup_requests` and no more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub warmup_limit_s: f64,
    /// Length of the window.
    pub duration_s: f64,
    /// Time after which a request without an answer is counted as timed out.
    pub timeout_s: f64,
    /// Properties the topic is created with.
    pub topic_config: BTreeMap<String, String>,
    /// Replicas of each partition of the topic that is created for the load; `None` leaves the number to the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replication_factor: Option<u16>,
    /// Records of a topic to send: their sizes, keys and producers, in the order of the schedule, in place of `sizes` and `keys`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<Recording>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference over")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference over")]
fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

impl Workload {
    /// Requests that nearly every window will have: random arrivals bring three standard deviations fewer now and then. `None`
    /// when recorded arrivals decide, and where operations are counted.
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

    /// The same load, climbing from its own rate; its length is that of all steps.
    #[must_use]
    pub fn climbing(self, climb: Climb) -> Self {
        let steps = climb.rates(self.requests_per_s).len() as f64;
        Self { schedule: Schedule::Climb(climb), duration_s: steps * climb.stride_s(), ..self }
    }

    /// The shortest that a window of it can be which counts: its length, but for a climb, which ends where the promise breaks.
    pub fn least_s(&self) -> f64 {
        self.climb().map_or(self.duration_s, |climb| climb.least_s(self.requests_per_s))
    }

    /// How it climbs; `None` for a load that does not.
    pub fn climb(&self) -> Option<Climb> {
        match self.schedule {
            Schedule::Climb(climb) => Some(climb),
            _ => None,
        }
    }

    /// A load of counted operations ([`Engine::Tool`] or [`Engine::Exits`]). What describes requests of a schedule says nothing
    /// then: no rate is asked for, nothing has a size, and `duration_s` is 0 because the work and not the clock ends a window.
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
            partitions: 0,
            partitions_per_request: 0,
            acks: -1,
            idempotent: false,
            consumers: 0,
            consumer_group: false,
            warmup_requests: 0,
            warmup_limit_s: 0.0,
            duration_s: 0.0,
            timeout_s: COMMAND_LIMIT_S,
            topic_config: BTreeMap::new(),
            replication_factor: None,
            recording: None,
        }
    }

    /// The same load with another number of operations. `None` where it is not counted in operations, or where its command does
    /// not say `{operations}` and so would do as many as before.
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

    /// The same load with each of its rates changed so. Recorded arrivals have none of their own.
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

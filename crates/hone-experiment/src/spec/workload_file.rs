//! A workload as a file describes it, and as the options of `hone load` do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hone_record::{
    Engine, FetchLimits, GroupProtocol, Keys, Payload, Processing, ReadFrom, Recording, Schedule, Sizes,
    TopicShares, Workload,
};
use serde::Deserialize;

use super::target;
use crate::clients::engine;
use crate::notation::{Acks, Written, mean_bytes, payload};

/// A workload as the file describes it. `hone load` also fills one from its options.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorkloadFile {
    /// The rate; in a closed loop, the initial one.
    pub requests_per_s: f64,
    /// The schedule of the requests.
    pub schedule: Written<Schedule>,
    /// Records per batch.
    pub records_per_batch: u32,
    /// Bytes of a record, unless its payload determines them.
    pub record_bytes: Option<u32>,
    /// The distribution of the records' sizes.
    pub sizes: Written<Sizes>,
    /// The distribution of the keys.
    pub keys: Written<Keys>,
    /// The contents of the values.
    pub payload: String,
    /// The compressible share of each value, 0 to 1.
    pub compressible_share: f64,
    /// Codec of the batches.
    pub compression: String,
    /// Number of sending connections.
    pub connections: u32,
    /// For the wire engine only.
    pub in_flight: Option<u32>,
    /// Topics with so many partitions each: `30`, `zipf:30:1.2`, or `weights:5,3,1`.
    #[serde(deserialize_with = "count_or_shares")]
    pub topics: Written<TopicShares>,
    /// Partitions of the topic.
    pub partitions: u32,
    /// Partitions that one request writes to.
    pub partitions_per_request: u32,
    /// Acknowledgements: 0, 1 or all.
    pub acks: Acks,
    /// Whether batches carry a producer's sequence numbers.
    pub idempotent: bool,
    /// Requests before the window.
    pub warmup_requests: u64,
    /// Time limit of the warm-up, which lasts until the target is warm.
    pub warmup_limit_s: f64,
    /// Length of the window.
    pub duration_s: f64,
    /// A request without an answer after this time has failed.
    pub timeout_s: f64,
    /// Seed of sizes, keys and payloads.
    pub seed: u64,
    /// Properties of the topic.
    pub topic_config: BTreeMap<String, String>,
    /// For the topic of the load; without it the cluster's default applies.
    pub replication_factor: Option<u16>,
    /// Records of a topic, from `hone init BROKER`, with a path relative to this file: their times, sizes, keys and producers.
    pub recording: Option<PathBuf>,
    /// `wire`, `librdkafka`, or a command line.
    pub client: String,
    /// Settings of the real client, with its own names.
    pub client_settings: BTreeMap<String, String>,
    /// Number of consumers that read at the same time.
    pub consumers: u32,
    /// Whether the consumers form one group.
    pub consumer_group: bool,
    /// Number of groups of so many consumers. Each group reads every record.
    pub consumer_groups: u32,
    /// How the members of a group get their partitions: `assigned`, `classic` or `consumer`.
    pub group_protocol: GroupProtocol,
    /// Interval at which a member leaves and joins again; 0 for never.
    pub rebalance_every_s: f64,
    /// Processors between producers and consumers.
    pub processors: u32,
    /// Length of their transactions.
    pub transaction_s: f64,
    /// One of so many transactions is aborted; 0 for none.
    pub abort_every: u32,
    /// Limits of their Fetch requests, see [`FetchLimits`].
    pub fetch_min_bytes: u32,
    /// See `fetch_min_bytes`.
    pub fetch_max_wait_ms: u32,
    /// See `fetch_min_bytes`.
    pub fetch_max_bytes: u32,
    /// See `fetch_min_bytes`.
    pub max_partition_fetch_bytes: u32,
    /// Where the consumers begin.
    pub read_from: Written<ReadFrom>,
    /// Records that are stored for them before the window.
    pub backlog_bytes: u64,
    /// A program that loads the target. The keys above are then not allowed.
    pub command: Option<String>,
    /// Arguments with which the target itself does the work and exits.
    pub run: Option<Vec<String>>,
    /// Operations of one run of either.
    pub operations: Option<u64>,
    /// Runs before the counters are reset: fills the target with data.
    pub populate: Option<String>,
    /// Runs before each measurement.
    pub warmup: Option<String>,
}

/// A number of topics needs no quotes.
fn count_or_shares<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Written<TopicShares>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "use a number of topics, or a text such as \"zipf:30\"")]
    enum Value {
        Count(u32),
        Shares(String),
    }
    match Value::deserialize(deserializer)? {
        Value::Count(count) => Ok(Written(TopicShares::Equal { count })),
        Value::Shares(text) => text.parse().map_err(serde::de::Error::custom),
    }
}

/// Unanswered requests per connection of the wire engine.
pub const DEFAULT_IN_FLIGHT: u32 = 16;

/// The error for `in_flight` with another engine.
pub const IN_FLIGHT_IS_THE_WIRES: &str = "in_flight (--in-flight) is for the wire engine; with librdkafka \
     use --client-set max.in.flight.requests.per.connection=N";

/// The error for other times.
const RECORDINGS_HAVE_THEIR_TIMES: &str = "a recording has its own times; remove `schedule`";

/// The error for another size.
pub const LINES_HAVE_THEIR_SIZES: &str = "record_bytes (--bytes) does not apply to the lines of a file, \
     which have their own sizes; remove it, or use another payload";

impl Default for WorkloadFile {
    fn default() -> Self {
        let fetch = FetchLimits::default();
        Self {
            requests_per_s: 1_000.0,
            schedule: Written(Schedule::Poisson),
            records_per_batch: 1,
            record_bytes: None,
            sizes: Written(Sizes::Fixed),
            keys: Written(Keys::None),
            payload: "bytes".to_owned(),
            compressible_share: 0.5,
            compression: "none".to_owned(),
            connections: 4,
            in_flight: None,
            topics: Written(TopicShares::default()),
            partitions: 8,
            partitions_per_request: 1,
            acks: Acks(-1),
            idempotent: false,
            warmup_requests: 10_000,
            warmup_limit_s: 60.0,
            duration_s: 5.0,
            timeout_s: 10.0,
            seed: 1,
            topic_config: BTreeMap::new(),
            replication_factor: None,
            recording: None,
            client: "wire".to_owned(),
            client_settings: BTreeMap::new(),
            consumers: 0,
            consumer_group: false,
            consumer_groups: 1,
            group_protocol: GroupProtocol::Assigned,
            rebalance_every_s: 0.0,
            processors: 0,
            transaction_s: Processing::default().transaction_s,
            abort_every: 0,
            fetch_min_bytes: fetch.fetch_min_bytes,
            fetch_max_wait_ms: fetch.fetch_max_wait_ms,
            fetch_max_bytes: fetch.fetch_max_bytes,
            max_partition_fetch_bytes: fetch.max_partition_fetch_bytes,
            read_from: Written(ReadFrom::End),
            backlog_bytes: 0,
            command: None,
            run: None,
            operations: None,
            populate: None,
            warmup: None,
        }
    }
}

/// The error for a load of no operations.
pub(super) const AT_LEAST_ONE: &str =
    "`operations` must be at least 1, because Hone prints the CPU per operation";

impl WorkloadFile {
    /// The mean rate: a schedule of steps has its own rates.
    fn mean_requests_per_s(&self) -> f64 {
        match &self.schedule.0 {
            Schedule::Steps { requests_per_s } => {
                requests_per_s.iter().sum::<f64>() / requests_per_s.len().max(1) as f64
            }
            _ => self.requests_per_s,
        }
    }

    /// The engine of a load by a command, or of a target that does its work and exits.
    fn own_engine(&self) -> Result<Option<Engine>, String> {
        let plain = Self { timeout_s: self.timeout_s, ..Self::default() };
        let own = Self {
            command: self.command.clone(),
            run: self.run.clone(),
            operations: self.operations,
            populate: self.populate.clone(),
            warmup: self.warmup.clone(),
            ..plain.clone()
        };
        if own == plain {
            return Ok(None);
        }
        if own != *self {
            return Err(
                "a workload with `command` or `run` only takes `operations`, `populate`, `warmup` and \
                 `timeout_s`; the other keys are for loads of the Kafka API"
                    .to_owned(),
            );
        }
        let operations = match self.operations {
            Some(0) => return Err(AT_LEAST_ONE.to_owned()),
            Some(operations) => operations,
            None => {
                return Err(
                    "`operations` is missing: set the number of operations of one run, because Hone \
                     prints the CPU per operation"
                        .to_owned(),
                );
            }
        };
        let words = |text: &Option<String>| text.as_deref().map(target::words).transpose();
        match (&self.command, &self.run) {
            (Some(command), None) => Ok(Some(Engine::Tool {
                command: target::words(command)?,
                operations,
                populate: words(&self.populate)?,
                warmup: words(&self.warmup)?,
            })),
            (None, Some(arguments)) if self.populate.is_none() && self.warmup.is_none() => {
                Ok(Some(Engine::Exits { arguments: arguments.clone(), operations }))
            }
            (None, Some(_)) => {
                Err("`populate` and `warmup` are for a `command` that loads a server".to_owned())
            }
            (Some(_), Some(_)) => {
                Err("`command` loads a server, and `run` is for a target that exits: use one of them"
                    .to_owned())
            }
            (None, None) => {
                Err("`operations`, `populate` and `warmup` need a `command` or a `run`".to_owned())
            }
        }
    }

    /// The workload under a name. The error is about its client.
    pub fn named(&self, name: &str) -> Result<Workload, String> {
        if let Some(engine) = self.own_engine()? {
            let load = Workload::of_operations(name, engine);
            let default_s = Self::default().timeout_s;
            let timeout_s = if self.timeout_s == default_s { load.timeout_s } else { self.timeout_s };
            return Ok(Workload { timeout_s, ..load });
        }
        let engine = engine(&self.client, self.client_settings.clone())?;
        if self.in_flight.is_some() && engine != Engine::Wire {
            return Err(IN_FLIGHT_IS_THE_WIRES.to_owned());
        }
        let payload = payload(&self.payload, self.compressible_share);
        if self.record_bytes.is_some() && matches!(payload, Payload::File { .. }) {
            return Err(LINES_HAVE_THEIR_SIZES.to_owned());
        }
        let recording = self.recording.as_ref().map(|path| path.display().to_string());
        let schedule = match &recording {
            Some(_) if self.schedule.0 != Schedule::Poisson => {
                return Err(RECORDINGS_HAVE_THEIR_TIMES.to_owned());
            }
            Some(path) => Schedule::Replay { source: path.clone(), arrivals: 0, sha256: String::new() },
            None => self.schedule.0.clone(),
        };
        Ok(Workload {
            name: name.to_owned(),
            engine,
            seed: self.seed,
            schedule,
            requests_per_s: self.mean_requests_per_s(),
            records_per_batch: self.records_per_batch,
            record_bytes: mean_bytes(self.sizes.0, self.record_bytes),
            sizes: self.sizes.0,
            payload,
            keys: self.keys.0,
            compression: self.compression.clone(),
            connections: self.connections,
            in_flight: self.in_flight.unwrap_or(DEFAULT_IN_FLIGHT),
            topics: self.topics.0.clone(),
            partitions: self.partitions,
            partitions_per_request: self.partitions_per_request,
            acks: self.acks.0,
            idempotent: self.idempotent,
            consumers: self.consumers,
            // Several consumers that share nothing are no groups.
            consumer_group: self.consumer_group
                || self.consumer_groups > 1
                || self.group_protocol != GroupProtocol::Assigned,
            consumer_groups: self.consumer_groups,
            group_protocol: self.group_protocol,
            rebalance_every_s: self.rebalance_every_s,
            processing: Processing {
                processors: self.processors,
                transaction_s: self.transaction_s,
                abort_every: self.abort_every,
            },
            fetch: FetchLimits {
                fetch_min_bytes: self.fetch_min_bytes,
                fetch_max_wait_ms: self.fetch_max_wait_ms,
                fetch_max_bytes: self.fetch_max_bytes,
                max_partition_fetch_bytes: self.max_partition_fetch_bytes,
            },
            read_from: self.read_from.0,
            backlog_bytes: self.backlog_bytes,
            warmup_requests: self.warmup_requests,
            warmup_limit_s: self.warmup_limit_s,
            duration_s: self.duration_s,
            timeout_s: self.timeout_s,
            topic_config: self.topic_config.clone(),
            replication_factor: self.replication_factor,
            recording: recording.map(|path| Recording { path, sha256: String::new() }),
        })
    }

    /// Makes the recording's path relative to the file's folder.
    pub fn beside(&mut self, folder: &Path) {
        self.recording.iter_mut().for_each(|path| *path = folder.join(&*path));
    }
}

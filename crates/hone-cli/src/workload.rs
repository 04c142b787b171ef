//! Options that describe a workload, shared by `load` and `compare`.

use std::collections::BTreeMap;

use crate::values::{duration_s, rate, written};
use anyhow::Result;
use clap::Args;
use hone_record::{Keys, Schedule, Sizes, TopicShares, Workload};

use crate::client::ClientOptions;
use hone_experiment::ending::Usage;
use hone_experiment::notation::{Seconds, Written};
use hone_experiment::spec::{Acks, WorkloadFile};

/// Options of the load.
#[derive(Debug, Args)]
#[command(next_help_heading = "Workload")]
pub struct WorkloadOptions {
    /// Produce requests per second, over all connections. A ramp and a search start at this rate.
    #[arg(short, long, default_value = "1000", value_parser = rate_or_none, value_name = "REQUESTS_PER_S")]
    rate: f64,
    /// When requests are due: `poisson`, `uniform`, `bursts`, `ramp`, `steps` or `replay`. `bursts:2ms` sends all requests of a period at once.
    /// `ramp:TO` rises from --rate to TO. `steps:1000,2000,4000` divides the window equally among these rates. `replay:FILE` reads one time per
    /// line, in seconds. `replay:topic:NAME` uses the timestamps of a topic's records.
    #[arg(long, default_value = "poisson", value_parser = written::<Schedule>)]
    schedule: Written<Schedule>,
    /// How long to measure. Use for example 500ms, 30s or 5m. A number without a unit means seconds.
    #[arg(short, long, default_value = "5s", value_name = "TIME")]
    duration: Seconds,
    /// Warm-up requests before the window opens. Hone sends them as fast as --in-flight allows and waits for every answer.
    #[arg(long, default_value_t = 10_000, value_name = "REQUESTS")]
    warmup: u64,
    /// Maximum time for the warm-up. After the --warmup requests it continues until CPU per request and latency stop falling. 0 sends the
    /// --warmup requests alone. A number without a unit means seconds.
    #[arg(long, default_value = "60s", value_name = "TIME")]
    warmup_limit: Seconds,
    /// Records in each batch.
    #[arg(long, default_value_t = 1)]
    records: u32,
    /// Size of each record's value, or the mean size. Use for example 1024 or 1KiB. [default: 100; with --sizes uniform, the mean of its
    /// range]
    #[arg(long, value_name = "SIZE", value_parser = record_bytes)]
    bytes: Option<u32>,
    /// Distribution of the sizes: `fixed`, `uniform:50-500` or `lognormal:SIGMA`. --bytes is the mean of `lognormal`.
    #[arg(long, default_value = "fixed", value_parser = written::<Sizes>)]
    sizes: Written<Sizes>,
    /// Keys of the records: `none`, `uniform:N`, `zipf:N` or `zipf:N:EXPONENT`. Kafka's default partitioner (murmur2) selects the partition. A
    /// client places them by its own partitioner: librdkafka by CRC32, or by murmur2 with --client-set partitioner=murmur2_random.
    #[arg(long, default_value = "none", value_parser = written::<Keys>)]
    keys: Written<Keys>,
    /// Content of the values: `bytes`, `orders`, `telemetry` or `file:PATH`. `orders` and `telemetry` are JSON objects. `file:PATH` sends the
    /// lines of a file in turn.
    #[arg(long, default_value = "bytes")]
    payload: String,
    /// Share of a `bytes` value that is one repeated byte. The rest is random.
    #[arg(long, default_value = "50%", value_parser = hone_format::read_share, value_name = "SHARE")]
    compressible: f64,
    /// Codec of the producer: none, gzip, snappy, lz4, zstd.
    #[arg(long, default_value = "none", value_name = "CODEC")]
    compression: String,
    /// Number of producers. A producer is a TCP connection of the wire engine, or one client.
    #[arg(short, long, default_value_t = 4, visible_alias = "producers")]
    connections: u32,
    /// Unanswered requests per connection at most. This limits the wire engine. A client has its own setting, for example --client-set
    /// max.in.flight.requests.per.connection=5. [default: 16]
    #[arg(long, value_name = "REQUESTS")]
    in_flight: Option<u32>,
    /// Topics with --partitions each: `30`, `zipf:30` or `zipf:30:1.2` (the first gets most), or `weights:5,3,1`. This applies to topics that
    /// Hone creates.
    #[arg(long, default_value = "1", value_parser = written::<TopicShares>)]
    topics: Written<TopicShares>,
    /// Partitions of the topic. This applies to a topic that Hone creates.
    #[arg(long, default_value_t = 8)]
    partitions: u32,
    /// Replicas of each partition, the leader included. This applies to a topic that Hone creates. [default: the default of the cluster]
    #[arg(long, value_name = "REPLICAS", value_parser = clap::value_parser!(u16).range(1..))]
    replication_factor: Option<u16>,
    /// Partitions that each request writes to. With --keys, a request waits until this many partitions have a full batch, which evens out hot
    /// keys. 1 keeps their distribution.
    #[arg(long, default_value_t = 1, value_name = "PARTITIONS")]
    partitions_per_request: u32,
    /// Acknowledgements: 0, 1 or all.
    #[arg(short, long, default_value = "all", allow_hyphen_values = true)]
    acks: Acks,
    /// Idempotent producer. The broker stores a batch once, even if the producer sends it again. This needs --acks all and --in-flight 5 or
    /// less.
    #[arg(
        long = "idempotence",
        alias = "idempotent",
        value_name = "BOOL",
        action = clap::ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true"
    )]
    idempotent: bool,
    /// Time after which a request without an answer counts as timed out. A number without a unit means seconds.
    #[arg(long, default_value = "10s", value_name = "TIME")]
    timeout: Seconds,
    /// Seed of the random numbers. It determines arrivals, keys, sizes and payloads.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Property of a topic that Hone creates; repeat it for several.
    #[arg(long = "topic-config", value_name = "KEY=VALUE")]
    topic_config: Vec<String>,
    /// Durability guarantee of an acknowledgement, stored in the record. Use for example page-cache, fsync or replicated.
    #[arg(long, default_value = "unstated")]
    pub storage: String,
    /// Highest p99 lateness of the generator in a valid window. Lateness is the time from the due time of a request until the generator sends
    /// it. Above this limit the run fails.
    #[arg(
        long = "max-lateness",
        alias = "lateness-limit",
        default_value = "50ms",
        value_parser = duration_s(0.0, 60.0),
        value_name = "TIME"
    )]
    pub lateness_limit: f64,
    #[command(flatten)]
    client: ClientOptions,
}

impl WorkloadOptions {
    /// The workload under a name.
    pub fn workload(&self, name: &str) -> Result<Workload> {
        Ok(self.over(WorkloadFile::default(), |_| true)?.named(name).map_err(Usage)?)
    }

    /// The file's workload, overridden by the options that the user gave on the command line.
    pub fn over(&self, mut file: WorkloadFile, is_given: impl Fn(&str) -> bool) -> Result<WorkloadFile> {
        macro_rules! take {
            ($($argument:literal: $field:ident = $value:expr),* $(,)?) => {
                $(if is_given($argument) {
                    file.$field = $value;
                })*
            };
        }
        take! {
            "rate": requests_per_s = self.rate, "schedule": schedule = self.schedule.clone(),
            "records": records_per_batch = self.records, "bytes": record_bytes = self.bytes,
            "sizes": sizes = self.sizes.clone(), "keys": keys = self.keys.clone(),
            "compressible": compressible_share = self.compressible, "compression": compression = self.compression.clone(),
            "connections": connections = self.connections, "in_flight": in_flight = self.in_flight,
            "topics": topics = self.topics.clone(), "partitions": partitions = self.partitions,
            "partitions_per_request": partitions_per_request = self.partitions_per_request,
            "acks": acks = self.acks, "idempotent": idempotent = self.idempotent,
            "warmup": warmup_requests = self.warmup, "warmup_limit": warmup_limit_s = self.warmup_limit.0,
            "duration": duration_s = self.duration.0, "timeout": timeout_s = self.timeout.0, "seed": seed = self.seed,
            "topic_config": topic_config = properties(&self.topic_config)?,
            "client": client = self.client.client.clone(), "client_set": client_settings = self.client.settings()?,
            "consumers": consumers = self.client.consumers, "consumer_group": consumer_group = self.client.consumer_group,
            "groups": consumer_groups = self.client.groups,
            "group_protocol": group_protocol = self.client.group_protocol,
            "rebalance_every": rebalance_every_s = self.client.rebalance_every,
            "processors": processors = self.client.processors,
            "transaction_duration": transaction_s = self.client.transaction_duration,
            "abort_every": abort_every = self.client.abort_every,
            "read_from": read_from = self.client.read_from.clone(), "backlog": backlog_bytes = self.client.backlog,
            "fetch_min_bytes": fetch_min_bytes = self.client.fetch_min_bytes,
            "fetch_max_wait": fetch_max_wait_ms = (self.client.fetch_max_wait * 1e3).round() as u32,
            "fetch_max_bytes": fetch_max_bytes = self.client.fetch_max_bytes,
            "max_partition_fetch_bytes": max_partition_fetch_bytes = self.client.max_partition_fetch_bytes,
            "replication_factor": replication_factor = self.replication_factor,
        }
        if is_given("payload") {
            file.payload.clone_from(&self.payload);
            // The size in the file belongs to the payload in the file.
            if !is_given("bytes") && file.payload.starts_with("file:") {
                file.record_bytes = None;
            }
        }
        Ok(file)
    }

    /// Whether a property of the topic is set.
    pub fn has_topic_config(&self) -> bool {
        !self.topic_config.is_empty()
    }

    /// Length of the window in seconds.
    pub fn duration_s(&self) -> f64 {
        self.duration.0
    }

    /// Largest p99 of the lateness, in microseconds.
    pub fn lateness_limit_us(&self) -> f64 {
        self.lateness_limit * 1e6
    }
}

/// Parses --rate. A window without requests only reads.
fn rate_or_none(text: &str) -> Result<f64, String> {
    if text.trim() == "0" { Ok(0.0) } else { rate(text) }
}

/// Parses --bytes. clap needs a function here instead of a trait.
fn record_bytes(text: &str) -> Result<u32, String> {
    let found = hone_format::read_bytes(text)?;
    found.try_into().map_err(|_| format!("`{text}` is too large for a record"))
}

fn properties(pairs: &[String]) -> Result<BTreeMap<String, String>> {
    let property = |pair: &String| {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| Usage(format!("invalid --topic-config `{pair}`: use KEY=VALUE")))?;
        Ok((key.to_owned(), value.to_owned()))
    };
    pairs.iter().map(property).collect()
}

#[cfg(test)]
mod tests {
    use super::record_bytes;

    #[test]
    fn the_size_of_a_record_has_units() {
        for (text, expected) in [("100", 100), ("1KiB", 1_024), ("1kB", 1_000), ("2 MiB", 2 << 20)] {
            assert_eq!(record_bytes(text), Ok(expected), "{text}");
        }
        for text in ["", "KiB", "1x", "-1", "4GiB", "1.5KiB"] {
            assert!(record_bytes(text).is_err(), "{text}");
        }
    }
}

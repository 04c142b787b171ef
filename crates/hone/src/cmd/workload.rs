//! Options that describe a workload, shared by `load` and `compare`.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::Args;
use hone_record::{Keys, Schedule, Sizes, Workload};

use super::client::ClientOptions;
use hone_experiment::ending::Usage;
use hone_experiment::notation::{Seconds, Written};
use hone_experiment::spec::{Acks, WorkloadFile};

/// The load.
#[derive(Debug, Args)]
#[command(next_help_heading = "Workload")]
pub(crate) struct WorkloadOptions {
    /// Produce requests per second, over all connections; where a ramp begins.
    #[arg(short, long, default_value_t = 1_000.0, value_name = "REQUESTS_PER_S")]
    rate: f64,
    /// When requests are due: `poisson`, `uniform`, `bursts:2ms` (all of a period at once), `ramp:TO` (from --rate to
    /// TO), `steps:1000,2000,4000` (equal parts of the window, in place of --rate), `replay:FILE` (one time a line, in
    /// seconds), `replay:topic:NAME` (the timestamps of a topic's records).
    #[arg(long, default_value = "poisson", value_parser = written::<Schedule>)]
    schedule: Written<Schedule>,
    /// Length of the window: seconds, or with a unit, as in 500ms, 30s, 5m.
    #[arg(short, long, default_value = "5", value_name = "TIME")]
    duration: Seconds,
    /// Requests sent and answered before the window opens, as fast as --in-flight allows.
    #[arg(long, default_value_t = 10_000, value_name = "REQUESTS")]
    warmup: u64,
    /// Maximum time for the warm-up. After the --warmup requests it continues until CPU per request and latency stop falling and the JIT
    /// compiler of the target is quiet. 0 sends the --warmup requests alone.
    #[arg(long, default_value = "60", value_name = "TIME")]
    warmup_limit: Seconds,
    /// Records in each batch.
    #[arg(long, default_value_t = 1)]
    records: u32,
    /// Bytes of each record's value, or their mean: 1024, 1KiB; 100 unless --sizes says otherwise.
    #[arg(long, value_name = "SIZE", value_parser = record_bytes)]
    bytes: Option<u32>,
    /// How sizes spread: `fixed`, `uniform:50-500`, `lognormal:SIGMA` (around --bytes).
    #[arg(long, default_value = "fixed", value_parser = written::<Sizes>)]
    sizes: Written<Sizes>,
    /// Keys: `none`, `uniform:N`, `zipf:N` or `zipf:N:EXPONENT`. A keyed record goes to the partition that Kafka's
    /// default partitioner (murmur2) names, so hot keys make hot partitions. A client places them by its own partitioner:
    /// librdkafka by CRC32, unless --client-set partitioner=murmur2_random.
    #[arg(long, default_value = "none", value_parser = written::<Keys>)]
    keys: Written<Keys>,
    /// What values hold: `bytes`, JSON objects (`orders`, `telemetry`), or the lines of a file in turn (`file:PATH`).
    #[arg(long, default_value = "bytes")]
    payload: String,
    /// Share of a `bytes` value that is one repeated byte; the rest is random.
    #[arg(long, default_value_t = 0.5, value_name = "SHARE")]
    compressible: f64,
    /// Codec of the producer: none, gzip, snappy, lz4, zstd.
    #[arg(long, default_value = "none", value_name = "CODEC")]
    compression: String,
    /// Producers: TCP connections of the wire engine, or clients.
    #[arg(short, long, default_value_t = 4, visible_alias = "producers")]
    connections: u32,
    /// Most unanswered requests on a connection of the wire engine, 16 unless given. A client has a setting of its own, such as
    /// --client-set max.in.flight.requests.per.connection=5.
    #[arg(long, value_name = "REQUESTS")]
    in_flight: Option<u32>,
    /// Partitions of the topic that is made for the load.
    #[arg(long, default_value_t = 8)]
    partitions: u32,
    /// Replicas of each partition of that topic. Without it, the cluster's default applies.
    #[arg(long, value_name = "REPLICAS", value_parser = clap::value_parser!(u16).range(1..))]
    replication_factor: Option<u16>,
    /// Partitions that each request writes to. With --keys a request waits for full batches of so many, which evens hot keys out: 1 keeps
    /// their distribution.
    #[arg(long, default_value_t = 1, value_name = "PARTITIONS")]
    partitions_per_request: u32,
    /// 0, 1 or all.
    #[arg(short, long, default_value = "all", allow_hyphen_values = true)]
    acks: Acks,
    /// Producer id and sequences in every batch, so that what is sent again is stored once; needs --acks all and --in-flight 5
    /// or less.
    #[arg(long)]
    idempotent: bool,
    /// Time after which a request without an answer counts as timed out.
    #[arg(long, default_value = "10", value_name = "TIME")]
    timeout: Seconds,
    /// Seed of arrivals, keys, sizes and payloads.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Property of the topic that is made for the load, KEY=VALUE; may be repeated.
    #[arg(long = "topic-config", value_name = "KEY=VALUE")]
    topic_config: Vec<String>,
    /// What the target does before it acknowledges, for the record: page-cache, fsync, replicated ...
    #[arg(long, default_value = "unstated")]
    pub(crate) storage: String,
    /// Milliseconds that the generator's own p99 lateness may reach before the run counts as failed.
    #[arg(long, default_value_t = hone_experiment::spec::DEFAULT_LATENESS_LIMIT_MS, value_name = "MS")]
    pub(crate) lateness_limit: f64,
    #[command(flatten)]
    client: ClientOptions,
}

impl WorkloadOptions {
    /// The workload under a name.
    pub(crate) fn workload(&self, name: &str) -> Result<Workload> {
        Ok(self.over(WorkloadFile::default(), |_| true)?.named(name).map_err(Usage)?)
    }

    /// What these options say over a file: those that stand on the command line.
    pub(crate) fn over(
        &self,
        mut file: WorkloadFile,
        is_given: impl Fn(&str) -> bool,
    ) -> Result<WorkloadFile> {
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
            "partitions": partitions = self.partitions,
            "partitions_per_request": partitions_per_request = self.partitions_per_request,
            "acks": acks = self.acks, "idempotent": idempotent = self.idempotent,
            "warmup": warmup_requests = self.warmup, "warmup_limit": warmup_limit_s = self.warmup_limit.0,
            "duration": duration_s = self.duration.0, "timeout": timeout_s = self.timeout.0, "seed": seed = self.seed,
            "topic_config": topic_config = properties(&self.topic_config)?,
            "client": client = self.client.client.clone(), "client_set": client_settings = self.client.settings()?,
            "consumers": consumers = self.client.consumers, "consumer_group": consumer_group = self.client.consumer_group,
            "replication_factor": replication_factor = self.replication_factor,
        }
        if is_given("payload") {
            file.payload.clone_from(&self.payload);
            // The file's size was for the file's payload.
            if !is_given("bytes") && file.payload.starts_with("file:") {
                file.record_bytes = None;
            }
        }
        Ok(file)
    }

    pub(crate) fn has_topic_config(&self) -> bool {
        !self.topic_config.is_empty()
    }

    pub(crate) fn duration_s(&self) -> f64 {
        self.duration.0
    }

    pub(crate) fn lateness_limit_us(&self) -> f64 {
        self.lateness_limit * 1e3
    }
}

/// For clap, which wants a function and no trait.
fn record_bytes(text: &str) -> Result<u32, String> {
    let found = hone_format::read_bytes(text)?;
    found.try_into().map_err(|_| format!("`{text}` is larger than a record can be"))
}

fn written<T>(text: &str) -> Result<Written<T>, String>
where
    Written<T>: std::str::FromStr<Err = String>,
{
    text.parse()
}

fn properties(pairs: &[String]) -> Result<BTreeMap<String, String>> {
    let property = |pair: &String| {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| Usage(format!("--topic-config `{pair}` has no `=`; write KEY=VALUE")))?;
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

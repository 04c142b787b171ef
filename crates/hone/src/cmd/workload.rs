//! Options that describe a workload, shared by `load` and `compare`.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::{Args, ValueEnum};
use hone_record::{Schedule, Workload};

use super::client::ClientOptions;
use crate::Usage;
use crate::experiment::{Acks, WorkloadFile};

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScheduleName {
    Uniform,
    Poisson,
}

/// The load.
#[derive(Debug, Args)]
#[command(next_help_heading = "Workload")]
pub(crate) struct WorkloadOptions {
    /// Produce requests per second, over all connections.
    #[arg(short, long, default_value_t = 1_000.0, value_name = "REQUESTS_PER_S")]
    rate: f64,
    /// Spacing of the requests.
    #[arg(long, value_enum, default_value = "poisson")]
    schedule: ScheduleName,
    /// Length of the window, in seconds.
    #[arg(short, long, default_value_t = 5.0, value_name = "SECONDS")]
    duration: f64,
    /// Requests sent and answered before the window opens, as fast as --in-flight allows.
    #[arg(long, default_value_t = 10_000, value_name = "REQUESTS")]
    warmup: u64,
    /// Records in each batch.
    #[arg(long, default_value_t = 1)]
    records: u32,
    /// Bytes of each record's value.
    #[arg(long, default_value_t = 100)]
    bytes: u32,
    /// What values hold: `bytes`, or JSON objects: `orders`, `telemetry`.
    #[arg(long, default_value = "bytes")]
    payload: String,
    /// Share of a `bytes` value that is one repeated byte; the rest is random.
    #[arg(long, default_value_t = 0.5, value_name = "SHARE")]
    compressible: f64,
    /// Codec of the producer: none, gzip, snappy, lz4, zstd.
    #[arg(long, default_value = "none", value_name = "CODEC")]
    compression: String,
    /// TCP connections.
    #[arg(short, long, default_value_t = 4)]
    connections: u32,
    /// Most unanswered requests on a connection.
    #[arg(long, default_value_t = 16, value_name = "REQUESTS")]
    in_flight: u32,
    /// Partitions of the topic that is made for the load.
    #[arg(long, default_value_t = 8)]
    partitions: u32,
    /// Partitions that each request writes to.
    #[arg(long, default_value_t = 1, value_name = "PARTITIONS")]
    partitions_per_request: u32,
    /// 0, 1 or all.
    #[arg(short, long, default_value = "all", allow_hyphen_values = true)]
    acks: Acks,
    /// Seconds after which a request without an answer counts as timed out.
    #[arg(long, default_value_t = 10.0, value_name = "SECONDS")]
    timeout: f64,
    /// Seed of arrivals and payloads.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Property of the topic that is made for the load, KEY=VALUE; may be repeated.
    #[arg(long = "topic-config", value_name = "KEY=VALUE")]
    topic_config: Vec<String>,
    /// What the target does before it acknowledges, for the record: page-cache, fsync, replicated ...
    #[arg(long, default_value = "unstated")]
    pub(crate) storage: String,
    /// Milliseconds that the generator's own p99 lateness may reach before the run counts as failed.
    #[arg(long, default_value_t = crate::experiment::DEFAULT_LATENESS_LIMIT_MS, value_name = "MS")]
    pub(crate) lateness_limit: f64,
    #[command(flatten)]
    client: ClientOptions,
}

impl WorkloadOptions {
    /// The workload under a name.
    pub(crate) fn workload(&self, name: &str) -> Result<Workload> {
        let file = WorkloadFile {
            requests_per_s: self.rate,
            schedule: match self.schedule {
                ScheduleName::Uniform => Schedule::Uniform,
                ScheduleName::Poisson => Schedule::Poisson,
            },
            records_per_batch: self.records,
            record_bytes: self.bytes,
            payload: self.payload.clone(),
            compressible_share: self.compressible,
            compression: self.compression.clone(),
            connections: self.connections,
            in_flight: self.in_flight,
            partitions: self.partitions,
            partitions_per_request: self.partitions_per_request,
            acks: self.acks,
            warmup_requests: self.warmup,
            duration_s: self.duration,
            timeout_s: self.timeout,
            seed: self.seed,
            topic_config: properties(&self.topic_config)?,
            client: self.client.client.clone(),
            client_settings: self.client.settings()?,
            consumers: self.client.consumers,
        };
        Ok(file.named(name).map_err(Usage)?)
    }

    pub(crate) fn has_topic_config(&self) -> bool {
        !self.topic_config.is_empty()
    }

    pub(crate) fn lateness_limit_us(&self) -> f64 {
        self.lateness_limit * 1e3
    }
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

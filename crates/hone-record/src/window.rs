//! One measured stretch of one variant under one workload.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Hdr, Metric};

/// When requests are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// Equal gaps.
    Uniform,
    /// Independent arrivals: exponential gaps.
    Poisson,
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
}

/// The load: everything that is needed to send it again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// The name in the experiment file.
    pub name: String,
    /// Seed of arrivals and payloads.
    pub seed: u64,
    /// Spacing of the requests.
    pub schedule: Schedule,
    /// Produce requests asked for, per second, over all connections.
    pub requests_per_s: f64,
    /// Records in each batch; a request carries one batch for each of `partitions_per_request` partitions.
    pub records_per_batch: u32,
    /// Size of a record's value.
    pub record_bytes: u32,
    /// Contents of a record's value.
    pub payload: Payload,
    /// Codec the producer uses: `none`, `gzip`, `snappy`, `lz4`, `zstd`.
    pub compression: String,
    /// TCP connections.
    pub connections: u32,
    /// Most requests without an answer on one connection.
    pub in_flight: u32,
    /// Partitions of the topic.
    pub partitions: u32,
    /// Partitions that one request writes to.
    pub partitions_per_request: u32,
    /// 0, 1 or -1 (all).
    pub acks: i16,
    /// Requests sent and answered before the window opens.
    pub warmup_requests: u64,
    /// Length of the window.
    pub duration_s: f64,
    /// Time after which a request without an answer is counted as timed out.
    pub timeout_s: f64,
    /// Properties the topic is created with.
    pub topic_config: BTreeMap<String, String>,
}

/// What an acknowledgement promises. Windows of different classes are not compared unless that is the question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Durability {
    /// 0, 1 or -1 (all).
    pub acks: i16,
    /// What the target does before it acknowledges, as stated for it: `page-cache`, `fsync`, `unstated` ...
    pub storage: String,
}

/// CPU time, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuSeconds {
    /// User and system together, from the process' CPU clock (ns resolution).
    pub total_s: f64,
    /// Share of it in user mode, 0 to 1, from the tick-based counters; `None` below 0.1 s in all.
    pub user_share: Option<f64>,
}

/// The three latencies of a window. Timeouts and errors are samples at their elapsed time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// From the time the schedule asked for, to the acknowledgement: what a client waits.
    pub intended_to_ack: Hdr,
    /// From the actual send to the acknowledgement: what the service takes.
    pub sent_to_ack: Hdr,
    /// From the intended to the actual send: how late the generator was.
    pub intended_to_sent: Hdr,
}

/// How a window ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The target kept up: percentiles mean something.
    Steady,
    /// The backlog only grew: the target can't serve this rate, percentiles would only measure the window's length.
    Saturated {
        /// Requests due but not acknowledged, at the end of the window.
        backlog_requests: u64,
    },
    /// The generator itself could not keep its schedule: the run failed, the target is not to blame.
    GeneratorLate {
        /// 99th percentile of intended to sent, where the target left room to send.
        lateness_us_p99: f64,
        /// The limit it broke.
        limit_us: f64,
    },
    /// The target broke off: refused, closed half-way, answered garbage.
    Failed {
        /// What happened, on what, and when.
        reason: String,
    },
}

/// One second of a window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SeriesPoint {
    /// Start of the second, from the window's start.
    pub at_s: f64,
    /// Requests acknowledged in it.
    pub acked_requests: u64,
    /// Median of intended to ack; 0 when nothing ended in this second.
    pub latency_us_p50: f64,
    /// 99th percentile of intended to ack.
    pub latency_us_p99: f64,
    /// Largest intended to ack.
    pub latency_us_max: f64,
    /// Requests due but not acknowledged at its end.
    pub backlog_requests: u64,
}

/// Facts beside the latencies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowFacts {
    /// Requests due in the window.
    pub requests: u64,
    /// Requests acknowledged without an error.
    pub acked_requests: u64,
    /// Records in them.
    pub acked_records: u64,
    /// Bytes of their record batches, as sent.
    pub acked_bytes: u64,
    /// Requests per second that the schedule asked for.
    pub asked_requests_per_s: f64,
    /// Requests per second acknowledged.
    pub reached_requests_per_s: f64,
    /// Errors by name, for example `INVALID_RECORD` or `timeout`.
    pub errors: BTreeMap<String, u64>,
    /// CPU of the target's process tree; `None` when its process is not known or not on this machine.
    pub target_cpu: Option<CpuSeconds>,
    /// CPU of the generator.
    pub generator_cpu: CpuSeconds,
    /// CPU time stolen by the hypervisor during the window, as a share of all cores, 0 to 1.
    pub steal_share: f64,
    /// CPU time used by everybody else on the machine, as a share of all cores, 0 to 1.
    pub others_share: f64,
}

/// One measured stretch of one variant under one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// The variant's name.
    pub variant: String,
    /// Where the load went, `host:port`.
    pub address: String,
    /// The load.
    pub workload: Workload,
    /// What an acknowledgement promised.
    pub durability: Durability,
    /// Wall-clock start, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Measured length.
    pub duration_s: f64,
    /// How it ended.
    pub outcome: Outcome,
    /// Counts, rates, CPU.
    pub facts: WindowFacts,
    /// The three histograms.
    pub latencies: Latencies,
    /// One point a second.
    pub series: Vec<SeriesPoint>,
}

/// A tail needs this many samples beyond its quantile before it is told (see docs/method.md).
const SAMPLES_BEYOND: u64 = 10;

impl Window {
    /// The value of a metric in its own unit; `None` when the window can't tell: saturated, too few samples beyond
    /// the quantile, no CPU known.
    pub fn value(&self, metric: Metric) -> Option<f64> {
        if !matches!(self.outcome, Outcome::Steady) {
            return None;
        }
        let latency = &self.latencies.intended_to_ack;
        let cpu = self.facts.target_cpu;
        let per = |total: f64, count: u64| (count > 0).then(|| total * 1e6 / count as f64);
        match metric {
            Metric::CpuPerRecord => per(cpu?.total_s, self.facts.acked_records),
            Metric::CpuPerRequest => per(cpu?.total_s, self.facts.acked_requests),
            Metric::UserCpuPerRecord => per(cpu?.total_s * cpu?.user_share?, self.facts.acked_records),
            Metric::LatencyP50 => latency.quantile_us_if_supported(0.5, SAMPLES_BEYOND),
            Metric::LatencyP90 => latency.quantile_us_if_supported(0.9, SAMPLES_BEYOND),
            Metric::LatencyP99 => latency.quantile_us_if_supported(0.99, SAMPLES_BEYOND),
            Metric::LatencyP999 => latency.quantile_us_if_supported(0.999, SAMPLES_BEYOND),
            Metric::LatencyMax => latency.max_us(),
            Metric::Throughput => Some(self.facts.reached_requests_per_s),
        }
    }
}

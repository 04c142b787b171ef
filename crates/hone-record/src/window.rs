//! One measured period of one variant under one workload.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::batch_sizes::BatchSizes;
use crate::histogram::{Hdr, PackedHdr, SAMPLES_BEYOND};
use crate::machine::Machine;
use crate::metric::Metric;
use crate::outage::Outage;
use crate::ramp_search::ClimbStep;
use crate::reading::{CatchUp, Deliveries, Fetches, Rebalances, Transactions};
use crate::requirement::Requirement;
use crate::resources::{CoreUse, TargetBusy, TargetMemory, Throttling, WarmUp};
use crate::stall::Stalls;
use crate::workload::Workload;

/// The durability guarantee of an acknowledgement. Windows of different classes are compared only if the comparison asks for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Durability {
    /// 0, 1 or -1 (all).
    pub acks: i16,
    /// The target's work before it acknowledges, as the user states it: `page-cache`, `fsync`, `unstated` ...
    pub storage: String,
}

/// CPU time, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuSeconds {
    /// User and system together, from the process' CPU clock (ns resolution).
    pub total_s: f64,
    /// Share of it in user mode, 0 to 1, from the tick-based counters; `None` below 0.1 s in total.
    pub user_share: Option<f64>,
}

/// How the wire engine times its answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerTimes {
    /// Answers of any kind, including errors and answers to repeated requests.
    pub answers: u64,
    /// Answers that the kernel stamped on arrival. The others have the time of reading, which is later by up to a millisecond.
    pub stamped: u64,
}

impl AnswerTimes {
    /// Share of the answers that the kernel stamped, 0 to 1.
    pub fn stamped_share(self) -> f64 {
        self.stamped as f64 / self.answers.max(1) as f64
    }

    /// The sum over several generators.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let (answers, stamped) = (self.answers, self.stamped);
        Self {
            answers: answers.saturating_add(other.answers),
            stamped: stamped.saturating_add(other.stamped),
        }
    }
}

/// The three latencies of a window. Timeouts and errors are samples with their elapsed time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// From the scheduled time to the acknowledgement: the wait of a client.
    pub intended_to_ack: Hdr,
    /// From the actual send to the acknowledgement: the service time.
    pub sent_to_ack: Hdr,
    /// From the scheduled time to the actual send: the delay of the generator.
    pub intended_to_sent: Hdr,
    /// The same delay, only of requests that the target left room for, so that it is the generator's own. Empty in older records without
    /// it.
    #[serde(default, skip_serializing_if = "Hdr::is_empty")]
    pub own_lateness: Hdr,
}

/// Outcome of a window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The target kept up, so the percentiles are meaningful.
    Steady,
    /// The backlog grew all the time: the target can't serve this rate. Percentiles would only measure the window's length.
    Saturated {
        /// Requests due but not acknowledged at the end of the window.
        backlog_requests: u64,
    },
    /// The generator could not keep its own schedule. The run failed, but the target is not the reason.
    GeneratorLate {
        /// 99th percentile of the delay from the scheduled to the actual send, if the target left room to send.
        lateness_us_p99: f64,
        /// The limit that it exceeded.
        limit_us: f64,
    },
    /// The target was still warming up: its CPU per record fell during the whole window.
    Warming {
        /// CPU per record in the first and in the last quarter of the window, in microseconds.
        cpu_us_per_record: [f64; 2],
        /// Share of its CPU that its compiler threads used; `None` without such threads.
        compiling_share: Option<f64>,
    },
    /// The target failed: it refused connections, closed them half-way, or sent garbage.
    Failed {
        /// The failure, its place and its time.
        reason: String,
    },
}

/// One second of a window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SeriesPoint {
    /// Start of the second, from the window's start.
    pub at_s: f64,
    /// Requests acknowledged in it.
    pub acked_requests: u64,
    /// Median latency from scheduled time to acknowledgement; 0 if no request ended in this second.
    pub latency_us_p50: f64,
    /// 99th percentile of the same latency.
    pub latency_us_p99: f64,
    /// Maximum of the same latency.
    pub latency_us_max: f64,
    /// Requests due but not acknowledged at its end.
    pub backlog_requests: u64,
    /// Every such latency of requests that ended in this second. Requests that ended while the window drained are in the whole window's
    /// histogram only.
    #[serde(default)]
    pub latency: PackedHdr,
    /// Requests that failed in it.
    #[serde(default)]
    pub failed_requests: u64,
    /// 99th percentile of the generator's own delay; 0 if no request was sent.
    #[serde(default)]
    pub generator_lag_us_p99: f64,
    /// Largest consumer lag in it, in records over all partitions, of the slowest consumer.
    #[serde(default)]
    pub consumer_lag_records: Option<u64>,
    /// Its length if the window ended within it; `None` for a whole second.
    #[serde(default)]
    pub length_s: Option<f64>,
}

impl SeriesPoint {
    /// Requests acknowledged per second, for any length.
    pub fn acked_per_s(&self) -> f64 {
        self.acked_requests as f64 / self.length_s.unwrap_or(1.0).max(f64::MIN_POSITIVE)
    }
}

/// Figures besides the latencies.
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
    /// Scheduled rate, in requests per second.
    pub asked_requests_per_s: f64,
    /// Requests acknowledged per second before the window ended. Requests acknowledged while it drained are in no rate.
    pub reached_requests_per_s: f64,
    /// Errors by name, for example `INVALID_RECORD` or `timeout`.
    pub errors: BTreeMap<String, u64>,
    /// CPU of the target's process tree; `None` if its process is unknown or not on this machine.
    pub target_cpu: Option<CpuSeconds>,
    /// CPU of the generator.
    pub generator_cpu: CpuSeconds,
    /// CPU time stolen by the hypervisor during the window, as a share of all cores, 0 to 1.
    pub steal_share: f64,
    /// CPU time of all other processes on the machine, as a share of all cores, 0 to 1.
    pub others_share: f64,
    /// Errors after which a request was sent again with its scheduled time kept, by name. Such a request ends once, acknowledged or failed.
    #[serde(default)]
    pub retries: BTreeMap<String, u64>,
    /// Produce requests that reached the broker, if the engine reports them. A client engine's requests are records passed to the client,
    /// and the client combines them into fewer requests.
    #[serde(default)]
    pub produce_requests: Option<u64>,
    /// Delay of the window's start against the agreed time, because its generator was not ready. 0 for a start in time, or without an
    /// agreed time.
    #[serde(default)]
    pub start_slip_ms: f64,
    /// How the answers were timed; `None` if a client times them, or without answers.
    #[serde(default)]
    pub answer_times: Option<AnswerTimes>,
    /// Bytes that the producers wrote to and read from their sockets, by their own count. It includes the requests around the batches but
    /// not TCP's headers. `None` if the engine does not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket_bytes: Option<SocketBytes>,
    /// Periods in which requests waited long; `None` if single requests are unknown, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Stalls>,
    /// The steps of a ramp search, as far as it went; empty for other loads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<ClimbStep>,
    /// Cores that the target used before the window opened: warmed up, with the load's connections open, and without requests. `None` if
    /// this was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_cores: Option<f64>,
    /// Memory of the target's process trees; `None` if its process is unknown or not on this machine, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_memory: Option<TargetMemory>,
    /// Throttling by a CPU limit of the target's control group. Of all groups above its processes it is the most throttled one. `None`
    /// without a limit, if it could not be read, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttling: Option<Throttling>,
    /// Busy time of the target by its own counters; `None` if it was not requested, or could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_busy: Option<TargetBusy>,
    /// The warm-up before the window; `None` without one, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<WarmUp>,
    /// Share of the target's CPU that its compiler threads used, 0 to 1; `None` without such threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiling_share: Option<f64>,
}

/// Bytes through sockets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketBytes {
    /// Written by the producers.
    pub sent: u64,
    /// Read by them.
    pub received: u64,
}

/// An incident of the target, or of the connection to it, while the window was open.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Time from the window's start.
    pub at_s: f64,
    /// Kind of the incident.
    pub kind: EventKind,
    /// The incident and its place, in words.
    pub what: String,
}

/// Kinds of [`Event`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// A connection broke.
    ConnectionLost,
    /// A lost connection was restored.
    Reconnected,
    /// A partition has another leader.
    LeaderMoved,
    /// The topic disappeared.
    TopicDeleted,
    /// A record file could not be written; its data stayed in memory.
    RecordingFailed,
    /// The user ended the window early.
    Interrupted,
    /// The window opened later than the agreed time.
    StartSlipped,
    /// The user disturbed the target.
    FaultInjected,
    /// A group dealt its partitions anew.
    Rebalanced,
}

/// Source of the values of [`TopicBatches`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BatchSource {
    /// The generator's own frames that were acknowledged.
    OwnFrames,
    /// Batch headers in data read from the broker.
    Fetched,
}

/// The effective batches of a topic: as really written, not as configured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopicBatches {
    /// The topic.
    pub topic: String,
    /// Source of the figures.
    pub source: BatchSource,
    /// Record batches.
    pub batches: u64,
    /// Records in these batches.
    pub records: u64,
    /// Bytes of these batches, headers included, compressed as written.
    pub bytes: u64,
    /// Share of the topic's batches that was read, 0 to 1. Reading has a budget.
    pub seen_share: f64,
    /// Number of batches by size. Empty for own frames, and in older records.
    #[serde(default, skip_serializing_if = "BatchSizes::is_empty")]
    pub sizes: BatchSizes,
}

/// The load as its consumers saw it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndToEnd {
    /// Latency from the scheduled time to the arrival at a consumer; one sample for each request (wire) or record (client) and consumer. A
    /// missing record is a sample, too, with the time that it had waited when the window drained.
    pub latency: Hdr,
    /// Number of consumers. Each reads all records, or they share the partitions as one group, or as several.
    pub consumers: u32,
    /// Whether the consumers shared the partitions as a group.
    #[serde(default)]
    pub is_group: bool,
    /// Number of groups beyond the first.
    #[serde(default, skip_serializing_if = "crate::stall::is_zero")]
    pub more_groups: u64,
    /// Records fetched by all consumers.
    pub fetched_records: u64,
    /// Bytes of batches fetched by all consumers.
    pub fetched_bytes: u64,
    /// Acknowledged requests that had not reached a consumer when the window drained, over all consumers.
    pub missing: u64,
    /// Largest lag in the window, in records: of the slowest consumer, or of all members of the slowest group together.
    pub lag_records_max: u64,
    /// Median lag over the window's time, in records. `None` in records of older versions.
    #[serde(default)]
    pub lag_records_p50: Option<u64>,
    /// 99th percentile of the lag over the window's time, in records. `None` in records of older versions.
    #[serde(default)]
    pub lag_records_p99: Option<u64>,
    /// Lag 100 ms after the window closed, in records: the backlog without records in flight. `None` in records of older versions.
    #[serde(default)]
    pub lag_records_end: Option<u64>,
    /// Samples of `latency` that belong to missing records; they are lower bounds.
    #[serde(default)]
    pub missing_latency: Hdr,
    /// Their Fetch requests. `None` in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetches: Option<Fetches>,
    /// How they caught up with the records from before the window. `None` if they began behind them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catch_up: Option<CatchUp>,
    /// Rebalances in the window. `None` if the members assign themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebalances: Option<Rebalances>,
    /// The processors' transactions. `None` without processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions: Option<Transactions>,
    /// How a share group's records were delivered. `None` for other consumers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliveries: Option<Deliveries>,
}

/// Lower and upper bound of a latency, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Lower bound.
    pub least_us: f64,
    /// Upper bound; `None` if it is unknown, since the latency belongs to a missing record.
    pub most_us: Option<f64>,
}

impl EndToEnd {
    /// A quantile of the latency; `None` with fewer samples beyond it than required.
    pub fn quantile(&self, quantile: f64, beyond: u64) -> Option<Bounds> {
        let least_us = self.latency.quantile_us_if_supported(quantile, beyond)?;
        let most_us = if self.missing == 0 {
            Some(least_us)
        } else {
            // Records older than this field have no such samples.
            let is_known = self.missing_latency.count() == self.missing;
            let arrived = is_known.then(|| self.latency.without(&self.missing_latency)).flatten();
            arrived.and_then(|arrived| arrived.quantile_us_with_longer(quantile, self.missing))
        };
        Some(Bounds { least_us, most_us })
    }

    /// The longest latency; `None` without samples.
    pub fn longest(&self) -> Option<Bounds> {
        let least_us = self.latency.max_us()?;
        Some(Bounds { least_us, most_us: (self.missing == 0).then_some(least_us) })
    }
}

/// Parts of a request's time, as far as the engine can separate them. Percentiles of parts can't be added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencySplit {
    /// From the due time to the write to the socket: the wait for a slot, or in the client's queue. `None` if the engine does not know it.
    pub client_queue: Option<Part>,
    /// Round trip of the connection as the kernel or the client measures it, without the broker's work.
    pub network: Option<Part>,
    /// From the write to the acknowledgement, minus the median round trip of the network.
    pub broker: Option<Part>,
    /// Source of each part, in words.
    pub how: String,
}

/// One part of a [`LatencySplit`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Median.
    pub us_p50: f64,
    /// 99th percentile; `None` if the source has none.
    pub us_p99: Option<f64>,
}

/// Environment of a window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The machine of the generator.
    pub machine: Machine,
    /// Pressure stall information (`/proc/pressure`): share of the window in which some task waited for the resource, 0 to 1.
    pub pressure: BTreeMap<String, f64>,
    /// Use of each core over the window's time. `None` if it could not be read, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_use: Option<CoreUse>,
    /// The brokers of the cluster, `id: host:port`.
    pub brokers: BTreeMap<i32, String>,
    /// The cluster's id.
    pub cluster_id: Option<String>,
    /// Name and version of the broker, if it reports them.
    pub broker_software: Option<String>,
    /// Settings of the first leader that differ from the broker's defaults, by DescribeConfigs, without secrets.
    pub broker_config: BTreeMap<String, String>,
    /// Settings of the topic that differ from the defaults.
    pub topic_config: BTreeMap<String, String>,
    /// Replicas of the topic's partitions (the smallest number).
    pub replicas: Option<u32>,
    /// `plaintext`, `tls`, `sasl-plain`, `tls+sasl-scram-sha-512` ...
    pub security: String,
    /// The processes whose CPU and memory were measured, by program name, and the method that found them. Empty in older records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<String>,
    /// Unmeasured servers on this machine to which these processes passed work, for example behind a proxy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub behind: Vec<String>,
    /// Missing facts, with the reason.
    pub unknown: Vec<String>,
    /// The commit of the target, as the user stated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// Prefix of a line in [`Environment::unknown`] that states why the target's CPU is missing or incomplete.
pub const CPU_OF_TARGET: &str = "CPU of the target: ";
/// Prefix of a line in [`Environment::unknown`] that states why the target's busy time is missing.
pub const BUSY_OF_TARGET: &str = "busy time of the target: ";

/// A window with a larger share of failed requests can't be compared.
const ERROR_SHARE_LIMIT: f64 = 0.01;

/// One measured period of one variant under one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// The variant's name.
    pub variant: String,
    /// Address of the load's target, `host:port`.
    pub address: String,
    /// The load.
    pub workload: Workload,
    /// The durability guarantee of an acknowledgement.
    pub durability: Durability,
    /// Wall-clock start, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Measured length.
    pub duration_s: f64,
    /// Outcome.
    pub outcome: Outcome,
    /// Counts, rates, CPU.
    pub facts: WindowFacts,
    /// The three histograms.
    pub latencies: Latencies,
    /// One point per second.
    pub series: Vec<SeriesPoint>,
    /// Measurements of the consumers; `None` without consumers.
    #[serde(default)]
    pub end_to_end: Option<EndToEnd>,
    /// The effective batches by topic.
    #[serde(default)]
    pub batches: Vec<TopicBatches>,
    /// Parts of a request's time.
    #[serde(default)]
    pub split: Option<LatencySplit>,
    /// Incidents in order of time.
    #[serde(default)]
    pub events: Vec<Event>,
    /// The environment.
    #[serde(default)]
    pub environment: Option<Environment>,
    /// The shard number, if several generators share the load; `None` for a whole load.
    #[serde(default)]
    pub shard: Option<Shard>,
    /// The client that sent it; `None` for the wire engine.
    #[serde(default)]
    pub client: Option<ClientFacts>,
    /// The rules that it had to meet, with the results.
    #[serde(default)]
    pub requirements: Vec<Requirement>,
    /// The faults that disturbed it, and what became of its records. `None` without faults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outage: Option<Outage>,
}

/// A client that sent a load.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientFacts {
    /// Name and version, for example `librdkafka 2.12.1`.
    pub software: String,
    /// The settings that shape its requests, as they were in force: given settings and its own defaults.
    pub settings: BTreeMap<String, String>,
}

/// One part of a load that several generators share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Index from 0 to `of` - 1.
    pub index: u32,
    /// Number of generators.
    pub of: u32,
    /// Start of the window of all generators, milliseconds since 1970.
    pub start_unix_ms: u64,
}

impl Window {
    /// The reason in [`Environment::unknown`] after the prefix `begin`, for example [`CPU_OF_TARGET`]; `None` if the figure is known.
    pub fn why_unknown(&self, begin: &str) -> Option<&str> {
        let unknown = self.environment.iter().flat_map(|environment| &environment.unknown);
        unknown.filter_map(|line| line.strip_prefix(begin)).next()
    }

    /// Why a window can't be compared, by a rule that uses neither latency nor CPU.
    pub fn why_excluded(&self) -> Option<String> {
        let name = &self.variant;
        match &self.outcome {
            Outcome::Steady => {}
            Outcome::Saturated { backlog_requests } => {
                return Some(format!("{name} was saturated ({backlog_requests} requests behind at the end)"));
            }
            Outcome::GeneratorLate { lateness_us_p99, limit_us } => {
                return Some(format!(
                    "the generator fell behind for {name} (p99 {:.0} ms, limit {:.0} ms)",
                    lateness_us_p99 / 1e3,
                    limit_us / 1e3
                ));
            }
            Outcome::Warming { cpu_us_per_record: [first, last], .. } => {
                return Some(format!(
                    "{name} was still warming up (CPU per record from {first:.0} to {last:.0} µs in the \
                     window)"
                ));
            }
            Outcome::Failed { reason } => return Some(format!("{name} failed: {reason}")),
        }
        // A ramp search continues until requests fail. Each of its steps has this limit, and failed steps are its result.
        if self.workload.climb().is_some() {
            return None;
        }
        let failed = self.facts.requests.saturating_sub(self.facts.acked_requests);
        let share = failed as f64 / self.facts.requests.max(1) as f64;
        (share > ERROR_SHARE_LIMIT).then(|| {
            let names: Vec<&str> = self.facts.errors.keys().map(String::as_str).collect();
            format!("{name} failed {failed} of {} requests ({})", self.facts.requests, names.join(", "))
        })
    }

    /// Whether the user ended it early.
    pub fn was_interrupted(&self) -> bool {
        self.events.iter().any(|event| event.kind == EventKind::Interrupted)
    }

    /// The set rate, if the number of due requests is a random draw from it. Otherwise the rate of the due requests, for example of a
    /// shard, or of a schedule with its own rates.
    pub fn asked_requests_per_s(&self) -> f64 {
        let set = self.workload.requests_per_s;
        let expected = set * self.duration_s;
        // Five standard deviations of independent arrivals.
        let is_a_draw = (self.facts.requests as f64 - expected).abs() <= 5.0 * expected.sqrt();
        if is_a_draw { set } else { self.facts.asked_requests_per_s }
    }

    /// Records that the target handled: acknowledged ones, or fetched ones if the window sent nothing.
    pub fn records(&self) -> u64 {
        match &self.end_to_end {
            Some(seen) if self.workload.is_read_only() => seen.fetched_records,
            _ => self.facts.acked_records,
        }
    }

    /// Share of the requests that were not acknowledged, 0 to 1.
    pub fn failed_share(&self) -> f64 {
        let failed = self.facts.requests.saturating_sub(self.facts.acked_requests);
        failed as f64 / self.facts.requests.max(1) as f64
    }

    /// CPU per record in microseconds, without the CPU that the target would have used in the same time without a load. `None` if
    /// [`Metric::CpuPerRecord`] has no value, or the idle target was not measured.
    pub fn cpu_us_per_record_beyond_idling(&self) -> Option<f64> {
        let idle_us = self.facts.idle_cores? * self.duration_s * 1e6 / self.records().max(1) as f64;
        Some((self.value(Metric::CpuPerRecord)? - idle_us).max(0.0))
    }

    /// A quantile of the latency up to the consumers. `None` without consumers, with too few samples, or if missing records make it a bound.
    fn end_to_end_us(&self, quantile: f64) -> Option<f64> {
        let bounds = self.end_to_end.as_ref()?.quantile(quantile, SAMPLES_BEYOND)?;
        bounds.most_us.filter(|most_us| *most_us == bounds.least_us)
    }

    /// The value of a metric in its own unit. `None` if the window can't provide it: saturated, too few samples beyond the quantile, CPU
    /// unknown.
    pub fn value(&self, metric: Metric) -> Option<f64> {
        if !matches!(self.outcome, Outcome::Steady) {
            return None;
        }
        // A ramp search is a different load in each window, since it ends where the SLO is missed.
        match (metric, self.workload.climb()) {
            (Metric::Capacity, Some(climb)) => return climb.capacity(&self.facts.steps),
            (Metric::Capacity, None) | (_, Some(_)) => return None,
            _ => {}
        }
        let latency = &self.latencies.intended_to_ack;
        let cpu = self.facts.target_cpu;
        let per = |total: f64, count: u64| (count > 0).then(|| total * 1e6 / count as f64);
        match metric {
            Metric::CpuPerRecord => per(cpu?.total_s, self.records()),
            Metric::CpuPerRequest => per(cpu?.total_s, self.facts.acked_requests),
            Metric::UserCpuPerRecord => per(cpu?.total_s * cpu?.user_share?, self.records()),
            Metric::BusyPerRecord => per(self.facts.target_busy.as_ref()?.busy_s, self.records()),
            Metric::LatencyP50 => latency.quantile_us_if_supported(0.5, SAMPLES_BEYOND),
            Metric::LatencyP90 => latency.quantile_us_if_supported(0.9, SAMPLES_BEYOND),
            Metric::LatencyP99 => latency.quantile_us_if_supported(0.99, SAMPLES_BEYOND),
            Metric::LatencyP999 => latency.quantile_us_if_supported(0.999, SAMPLES_BEYOND),
            Metric::LatencyMax => latency.max_us(),
            Metric::EndToEndP50 => self.end_to_end_us(0.5),
            Metric::EndToEndP99 => self.end_to_end_us(0.99),
            Metric::Throughput if self.workload.is_read_only() => None,
            Metric::Throughput => Some(self.facts.reached_requests_per_s),
            Metric::Capacity => None,
            Metric::MemoryPeak => Some(self.facts.target_memory?.peak_bytes as f64),
            Metric::MemoryMean => self.facts.target_memory?.mean_bytes,
            Metric::Instructions => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1,000 samples of 1 to 1,000 µs, and missing ones that had waited for so long.
    fn seen(missing_us: &[u64]) -> EndToEnd {
        let (mut latency, mut missing_latency) = (Hdr::new(), Hdr::new());
        (1..=1_000).for_each(|us| latency.record_ns(us * 1_000));
        for us in missing_us {
            latency.record_ns(us * 1_000);
            missing_latency.record_ns(us * 1_000);
        }
        EndToEnd {
            latency,
            consumers: 1,
            fetched_records: 1_000,
            fetched_bytes: 1_000,
            missing: missing_us.len() as u64,
            is_group: false,
            more_groups: 0,
            lag_records_max: 0,
            lag_records_p50: None,
            lag_records_p99: None,
            lag_records_end: None,
            missing_latency,
            fetches: None,
            catch_up: None,
            rebalances: None,
            transactions: None,
            deliveries: None,
        }
    }

    fn bounds(seen: &EndToEnd, quantile: f64) -> (f64, Option<f64>) {
        let bounds = seen.quantile(quantile, 0).unwrap();
        (bounds.least_us.round(), bounds.most_us.map(f64::round))
    }

    #[test]
    fn with_nothing_missing_a_quantile_is_what_it_is() {
        assert_eq!(bounds(&seen(&[]), 0.99), (990.0, Some(990.0)));
        assert_eq!(seen(&[]).longest().unwrap().most_us.map(f64::round), Some(1_000.0));
    }

    #[test]
    fn a_quantile_among_what_is_missing_has_no_upper_bound() {
        // They waited shorter than others that arrived, and their full latency is unknown.
        let seen = seen(&[1; 50]);
        assert_eq!(bounds(&seen, 0.5), (475.0, Some(525.0)));
        assert_eq!(bounds(&seen, 0.95), (948.0, Some(998.0)));
        assert_eq!(bounds(&seen, 0.96).1, None);
        assert_eq!(seen.longest().unwrap().most_us, None);
    }

    #[test]
    fn a_record_that_knows_only_how_many_are_missing_promises_no_upper_bound() {
        let old = EndToEnd { missing: 1, ..seen(&[]) };
        assert_eq!(bounds(&old, 0.5).1, None);
        let mut record = serde_json::to_value(seen(&[])).unwrap();
        record.as_object_mut().unwrap().remove("missing_latency");
        assert_eq!(serde_json::from_value::<EndToEnd>(record).unwrap().missing_latency, Hdr::new());
    }
}

//! One measured stretch of one variant under one workload.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::histogram::{Hdr, PackedHdr, SAMPLES_BEYOND};
use crate::machine::Machine;
use crate::metric::Metric;
use crate::ramp_search::ClimbStep;
use crate::requirement::Requirement;
use crate::resources::{TargetBusy, TargetMemory, Throttling, WarmUp};
use crate::stall::Stalls;
use crate::workload::Workload;

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

/// How the wire engine knows when its answers came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerTimes {
    /// Answers of any kind, refusals and what was sent again included.
    pub answers: u64,
    /// Those of them that the kernel stamped as they arrived. The others have the time at which they were read, which is later
    /// by up to a millisecond.
    pub stamped: u64,
}

impl AnswerTimes {
    /// Share of the answers that the kernel stamped, 0 to 1.
    pub fn stamped_share(self) -> f64 {
        self.stamped as f64 / self.answers.max(1) as f64
    }

    /// Those of several generators.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let (answers, stamped) = (self.answers, self.stamped);
        Self {
            answers: answers.saturating_add(other.answers),
            stamped: stamped.saturating_add(other.stamped),
        }
    }
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
    /// The same of requests that the target left room for: what is the generator's own fault. Empty where an older record does not say.
    #[serde(default, skip_serializing_if = "Hdr::is_empty")]
    pub own_lateness: Hdr,
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
    /// The target was still becoming warm: its CPU per record fell all through the window.
    Warming {
        /// CPU per record in the first and in the last quarter of the window, in microseconds.
        cpu_us_per_record: [f64; 2],
        /// Share of its CPU that went into compiling itself; `None` where it has no such threads.
        compiling_share: Option<f64>,
    },
    /// The target broke off: refused, closed half-way, answered garbage.
    Failed {
        /// What happened, on what, and when.
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
    /// Median of intended to ack; 0 when nothing ended in this second.
    pub latency_us_p50: f64,
    /// 99th percentile of intended to ack.
    pub latency_us_p99: f64,
    /// Largest intended to ack.
    pub latency_us_max: f64,
    /// Requests due but not acknowledged at its end.
    pub backlog_requests: u64,
    /// Every intended to ack that ended in this second. What ended while the window was drained is in the whole window's
    /// histogram alone.
    #[serde(default)]
    pub latency: PackedHdr,
    /// Requests that ended with an error in it.
    #[serde(default)]
    pub failed_requests: u64,
    /// 99th percentile of how late the generator was by its own fault; 0 when nothing was sent.
    #[serde(default)]
    pub generator_lag_us_p99: f64,
    /// The most records that existed in it and had not been fetched, over all partitions; the slowest consumer's.
    #[serde(default)]
    pub consumer_lag_records: Option<u64>,
    /// Its length, where the window ended within it; `None` for a whole second.
    #[serde(default)]
    pub length_s: Option<f64>,
}

impl SeriesPoint {
    /// Requests acknowledged per second, whatever its length.
    pub fn acked_per_s(&self) -> f64 {
        self.acked_requests as f64 / self.length_s.unwrap_or(1.0).max(f64::MIN_POSITIVE)
    }
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
    /// Requests per second acknowledged before the window ended; what came while it was drained is in no rate.
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
    /// Errors after which a request was sent again with its intended time kept, by name. Such a request ends once, well or not.
    #[serde(default)]
    pub retries: BTreeMap<String, u64>,
    /// Produce requests that reached the broker, as far as the engine knows: a client engine's requests are records handed to
    /// the client, and the client makes fewer requests of them. `None` when it does not tell.
    #[serde(default)]
    pub produce_requests: Option<u64>,
    /// So much later than agreed did the window open, because its generator was not ready; 0 in time, or without an agreement.
    #[serde(default)]
    pub start_slip_ms: f64,
    /// How the times of the answers are known; `None` where a client tells them, and where nothing was answered.
    #[serde(default)]
    pub answer_times: Option<AnswerTimes>,
    /// What the producers wrote to and read from their sockets, by their own count: requests around the batches included, TCP's own
    /// headers not. `None` where the engine does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket_bytes: Option<SocketBytes>,
    /// Stretches in which requests waited long; `None` where nobody sees single requests, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Stalls>,
    /// The steps of a load that climbs, as far as it got; empty for any other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<ClimbStep>,
    /// Cores that the target took before the window opened: warm, with the load's connections open, and nothing sent. `None` where nobody
    /// looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_cores: Option<f64>,
    /// Memory of the target's process trees; `None` when its process is not known or not on this machine, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_memory: Option<TargetMemory>,
    /// What a CPU limit of its control group took from it: of all groups above its processes the one that was stopped most. `None` without
    /// a limit, where nobody could look, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttling: Option<Throttling>,
    /// Busy time of the target by its own counters; `None` where nobody asked for it, or it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_busy: Option<TargetBusy>,
    /// What came before it; `None` without a warm-up, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<WarmUp>,
    /// Share of the target's CPU that went into compiling itself, 0 to 1; `None` where it has no such threads.
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

/// Something that happened to the target, or to the way to it, while the window was open.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When, from the window's start.
    pub at_s: f64,
    /// What kind of thing.
    pub kind: EventKind,
    /// What happened, on what, in words.
    pub what: String,
}

/// Kinds of [`Event`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// A connection broke.
    ConnectionLost,
    /// A lost connection is back.
    Reconnected,
    /// A partition has another leader.
    LeaderMoved,
    /// The topic is gone.
    TopicDeleted,
    /// A record file could not be written; what was measured was kept in memory.
    RecordingFailed,
    /// The user ended the window before its time.
    Interrupted,
    /// The window opened later than was agreed with others.
    StartSlipped,
}

/// Where the values of [`TopicBatches`] come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BatchSource {
    /// The generator's own frames, acknowledged.
    OwnFrames,
    /// Batch headers in what the broker gave back.
    Fetched,
}

/// The effective batch of a topic: what was really written, not what was configured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopicBatches {
    /// The topic.
    pub topic: String,
    /// How it is known.
    pub source: BatchSource,
    /// Record batches.
    pub batches: u64,
    /// Records in them.
    pub records: u64,
    /// Their bytes, headers included, compressed as written.
    pub bytes: u64,
    /// Share of the topic's batches that was looked at, 0 to 1: reading back has a budget.
    pub seen_share: f64,
}

/// What consumers saw of the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndToEnd {
    /// From the time the schedule asked for to the arrival at a consumer; one sample a request (wire) or record (client)
    /// and consumer. What is missing is a sample, too: the time it had waited when the window was drained.
    pub latency: Hdr,
    /// Consumers. Each reads everything, or they share the partitions as one group.
    pub consumers: u32,
    /// Whether the consumers shared the partitions as one group.
    #[serde(default)]
    pub is_group: bool,
    /// Records fetched, over all consumers.
    pub fetched_records: u64,
    /// Bytes of batches fetched, over all consumers.
    pub fetched_bytes: u64,
    /// Acknowledged requests that a consumer had not seen when the window was drained, over all consumers.
    pub missing: u64,
    /// Largest lag in the window, in records: of the slowest consumer, or of all members of a group together.
    pub lag_records_max: u64,
    /// Lag that half of the window's time did not exceed, in records. `None` in records of older versions.
    #[serde(default)]
    pub lag_records_p50: Option<u64>,
    /// Lag that 99 % of the window's time did not exceed, in records. `None` in records of older versions.
    #[serde(default)]
    pub lag_records_p99: Option<u64>,
    /// Lag 100 ms after the window closed, in records: the backlog without what is under way at any moment. `None` in records of older
    /// versions.
    #[serde(default)]
    pub lag_records_end: Option<u64>,
    /// Of `latency`, the samples of what is missing: those are the least that it can have been.
    #[serde(default)]
    pub missing_latency: Hdr,
}

/// Between which values a latency lies, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// It is not less.
    pub least_us: f64,
    /// It is not more; `None` when nobody knows: it lies among what never came.
    pub most_us: Option<f64>,
}

impl EndToEnd {
    /// A quantile of the latency; `None` without so many samples beyond it.
    pub fn quantile(&self, quantile: f64, beyond: u64) -> Option<Bounds> {
        let least_us = self.latency.quantile_us_if_supported(quantile, beyond)?;
        let most_us = if self.missing == 0 {
            Some(least_us)
        } else {
            // A record from before these were kept has none of them.
            let is_known = self.missing_latency.count() == self.missing;
            let arrived = is_known.then(|| self.latency.without(&self.missing_latency)).flatten();
            arrived.and_then(|arrived| arrived.quantile_us_with_longer(quantile, self.missing))
        };
        Some(Bounds { least_us, most_us })
    }

    /// The longest latency; `None` without any.
    pub fn longest(&self) -> Option<Bounds> {
        let least_us = self.latency.max_us()?;
        Some(Bounds { least_us, most_us: (self.missing == 0).then_some(least_us) })
    }
}

/// Where a request's time went, as far as the engine can tell. Percentiles of parts can't be added up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencySplit {
    /// Due until written to the socket: waiting for a slot, or in the client's queue. `None` where the engine does not know.
    pub client_queue: Option<Part>,
    /// Round trip of the connection as the kernel or the client measures it, without the broker's work.
    pub network: Option<Part>,
    /// Written until acknowledged, less the median round trip of the network.
    pub broker: Option<Part>,
    /// How each was found, in words.
    pub how: String,
}

/// One part of a [`LatencySplit`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Median.
    pub us_p50: f64,
    /// 99th percentile; `None` where the source has none.
    pub us_p99: Option<f64>,
}

/// What a window ran on and against.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The machine of the generator.
    pub machine: Machine,
    /// Pressure stall information (`/proc/pressure`): share of the window in which some task waited for the resource, 0 to 1.
    pub pressure: BTreeMap<String, f64>,
    /// The brokers of the cluster, `id: host:port`.
    pub brokers: BTreeMap<i32, String>,
    /// The cluster's id.
    pub cluster_id: Option<String>,
    /// What the broker calls itself, where it tells.
    pub broker_software: Option<String>,
    /// Settings of the first leader that differ from the broker's defaults, through DescribeConfigs; secrets are left out.
    pub broker_config: BTreeMap<String, String>,
    /// Settings of the topic that are not defaults.
    pub topic_config: BTreeMap<String, String>,
    /// Replicas of the topic's partitions (the least).
    pub replicas: Option<u32>,
    /// `plaintext`, `tls`, `sasl-plain`, `tls+sasl-scram-sha-512` ...
    pub security: String,
    /// The processes whose CPU and memory were measured, by the name of their program, and how they were found. Empty in older records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<String>,
    /// Servers of this machine that they passed work on to, and that were not measured: what stands behind a proxy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub behind: Vec<String>,
    /// What could not be found out, and why.
    pub unknown: Vec<String>,
    /// The commit of the target, as whoever loaded it has said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// Begins a line of [`Environment::unknown`] that gives the reason why the CPU of the target is missing or incomplete.
pub const CPU_OF_TARGET: &str = "CPU of the target: ";
/// Begins a line of [`Environment::unknown`] that gives the reason why the busy time of the target is missing.
pub const BUSY_OF_TARGET: &str = "busy time of the target: ";

/// A window with a larger share of failed requests is another experiment.
const ERROR_SHARE_LIMIT: f64 = 0.01;

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
    /// What consumers saw; `None` without consumers.
    #[serde(default)]
    pub end_to_end: Option<EndToEnd>,
    /// The effective batch by topic.
    #[serde(default)]
    pub batches: Vec<TopicBatches>,
    /// Where the time went.
    #[serde(default)]
    pub split: Option<LatencySplit>,
    /// What happened on the way, in order.
    #[serde(default)]
    pub events: Vec<Event>,
    /// What it ran on and against.
    #[serde(default)]
    pub environment: Option<Environment>,
    /// Which part of a load over several generators this is; `None` for a whole one.
    #[serde(default)]
    pub shard: Option<Shard>,
    /// The client that sent it; `None` for the wire engine.
    #[serde(default)]
    pub client: Option<ClientFacts>,
    /// The rules it had to meet, and what it said to them.
    #[serde(default)]
    pub requirements: Vec<Requirement>,
}

/// A client that sent a load.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientFacts {
    /// Name and version, for example `librdkafka 2.12.1`.
    pub software: String,
    /// The settings that shape its requests, as they were in force: those that were given, and its own defaults.
    pub settings: BTreeMap<String, String>,
}

/// Part of a load that several generators share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// 0 to `of` - 1.
    pub index: u32,
    /// Generators.
    pub of: u32,
    /// When the window opened for all of them, milliseconds since 1970.
    pub start_unix_ms: u64,
}

impl Window {
    /// The reason in [`Environment::unknown`] behind `begin`, for example [`CPU_OF_TARGET`]; `None` if the figure is known.
    pub fn why_unknown(&self, begin: &str) -> Option<&str> {
        let unknown = self.environment.iter().flat_map(|environment| &environment.unknown);
        unknown.filter_map(|line| line.strip_prefix(begin)).next()
    }

    /// Why a window can't be compared, by a rule that looks at no latency and no CPU.
    pub fn why_excluded(&self) -> Option<String> {
        let name = &self.variant;
        match &self.outcome {
            Outcome::Steady => {}
            Outcome::Saturated { backlog_requests } => {
                return Some(format!("{name} was saturated ({backlog_requests} requests behind at the end)"));
            }
            Outcome::GeneratorLate { lateness_us_p99, limit_us } => {
                return Some(format!(
                    "the generator was late for {name} (p99 {:.0} ms, limit {:.0} ms)",
                    lateness_us_p99 / 1e3,
                    limit_us / 1e3
                ));
            }
            Outcome::Warming { cpu_us_per_record: [first, last], .. } => {
                return Some(format!(
                    "{name} was still becoming warm (CPU per record from {first:.0} to {last:.0} µs in the window)"
                ));
            }
            Outcome::Failed { reason } => return Some(format!("{name} failed: {reason}")),
        }
        // A climb goes on to where requests fail: each of its steps is held against that limit, and those that break it are its answer.
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

    /// Whether the user ended it before its time.
    pub fn was_interrupted(&self) -> bool {
        self.events.iter().any(|event| event.kind == EventKind::Interrupted)
    }

    /// The rate that was set, where what was due is a draw of it; otherwise that of what was due: of a shard, or of a schedule
    /// with rates of its own.
    pub fn asked_requests_per_s(&self) -> f64 {
        let set = self.workload.requests_per_s;
        let expected = set * self.duration_s;
        // Five standard deviations of independent arrivals.
        let is_a_draw = (self.facts.requests as f64 - expected).abs() <= 5.0 * expected.sqrt();
        if is_a_draw { set } else { self.facts.asked_requests_per_s }
    }

    /// Share of the requests that were not acknowledged, 0 to 1.
    pub fn failed_share(&self) -> f64 {
        let failed = self.facts.requests.saturating_sub(self.facts.acked_requests);
        failed as f64 / self.facts.requests.max(1) as f64
    }

    /// CPU per record in microseconds, without what the target would have taken in the same time with no load. `None` where
    /// [`Metric::CpuPerRecord`] has no value, or nobody has looked at the idle target.
    pub fn cpu_us_per_record_beyond_idling(&self) -> Option<f64> {
        let idle_us = self.facts.idle_cores? * self.duration_s * 1e6 / self.facts.acked_records.max(1) as f64;
        Some((self.value(Metric::CpuPerRecord)? - idle_us).max(0.0))
    }

    /// The value of a metric in its own unit; `None` when the window can't tell: saturated, too few samples beyond
    /// the quantile, no CPU known.
    pub fn value(&self, metric: Metric) -> Option<f64> {
        if !matches!(self.outcome, Outcome::Steady) {
            return None;
        }
        // A load that climbs is another one in each window: it ends where the promise breaks.
        match (metric, self.workload.climb()) {
            (Metric::Capacity, Some(climb)) => return climb.capacity(&self.facts.steps),
            (Metric::Capacity, None) | (_, Some(_)) => return None,
            _ => {}
        }
        let latency = &self.latencies.intended_to_ack;
        let cpu = self.facts.target_cpu;
        let per = |total: f64, count: u64| (count > 0).then(|| total * 1e6 / count as f64);
        match metric {
            Metric::CpuPerRecord => per(cpu?.total_s, self.facts.acked_records),
            Metric::CpuPerRequest => per(cpu?.total_s, self.facts.acked_requests),
            Metric::UserCpuPerRecord => per(cpu?.total_s * cpu?.user_share?, self.facts.acked_records),
            Metric::BusyPerRecord => per(self.facts.target_busy.as_ref()?.busy_s, self.facts.acked_records),
            Metric::LatencyP50 => latency.quantile_us_if_supported(0.5, SAMPLES_BEYOND),
            Metric::LatencyP90 => latency.quantile_us_if_supported(0.9, SAMPLES_BEYOND),
            Metric::LatencyP99 => latency.quantile_us_if_supported(0.99, SAMPLES_BEYOND),
            Metric::LatencyP999 => latency.quantile_us_if_supported(0.999, SAMPLES_BEYOND),
            Metric::LatencyMax => latency.max_us(),
            Metric::Throughput => Some(self.facts.reached_requests_per_s),
            Metric::Capacity => None,
            Metric::MemoryPeak => Some(self.facts.target_memory?.peak_bytes as f64),
            Metric::MemoryMean => self.facts.target_memory?.mean_bytes,
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
            lag_records_max: 0,
            lag_records_p50: None,
            lag_records_p99: None,
            lag_records_end: None,
            missing_latency,
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
        // They waited shorter than others that came, and nobody knows how long they would have taken.
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

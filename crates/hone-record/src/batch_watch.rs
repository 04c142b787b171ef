//! What a cluster's own metrics report about its batches over a period, and what work costs the cluster.

use serde::{Deserialize, Serialize};

/// A figure from a broker's metrics. A missing metric is not 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// The source does not report it.
    #[default]
    NotExported,
    /// The metric exists, but nothing happened in the period, so a ratio has no value.
    Nothing,
    /// Upper bound of the value.
    AtMost(f64),
    /// The value.
    Known(f64),
}

impl Figure {
    /// The value, if it is known and not a bound.
    pub fn known(self) -> Option<f64> {
        match self {
            Self::Known(value) => Some(value),
            _ => None,
        }
    }

    /// A ratio of two figures.
    pub fn over(self, divisor: Self) -> Self {
        match (self, divisor) {
            (Self::Known(part), Self::Known(of)) if of > 0.0 => Self::Known(part / of),
            (Self::Known(_) | Self::Nothing, Self::Known(_) | Self::Nothing) => Self::Nothing,
            _ => Self::NotExported,
        }
    }
}

impl From<Option<f64>> for Figure {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Self::NotExported, Self::Known)
    }
}

/// Batches of one topic, of a part of it, or of all topics.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchedTopic {
    /// Name of the topic.
    pub topic: String,
    /// The broker, if these are the batches of one broker.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instance: String,
    /// The partition, if these are the batches of one partition.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub partition: String,
    /// Effective batch size: mean bytes per batch, header included.
    pub batch_bytes: Figure,
    /// Mean number of records per batch.
    pub records_per_batch: Figure,
    /// Mean bytes per record, with its share of the batch header.
    pub record_bytes: Figure,
    /// Batches per second.
    pub batches_per_s: Figure,
    /// Records per second.
    pub records_per_s: Figure,
    /// Bytes per second.
    pub bytes_per_s: Figure,
    /// Share of the batches of all topics, 0 to 1.
    pub batch_share: Figure,
}

/// A broker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchedInstance {
    /// The endpoint, or the name that Prometheus gives it.
    pub instance: String,
    /// Cores that serve requests; shards, where a shard is a core.
    pub cores: Figure,
    /// Batches of users' topics appended per second and core. Followers' batches count; internal logs do not (R4).
    pub batches_per_s_per_core: Figure,
    /// CPU seconds per second: 1 is a whole core.
    pub cpu_cores: Figure,
    /// Produce requests per second.
    pub requests_per_s: Figure,
    /// Batches per produce request.
    pub batches_per_request: Figure,
    /// Bytes received from clients per second.
    pub received_bytes_per_s: Figure,
    /// Bytes sent to clients per second.
    pub sent_bytes_per_s: Figure,
    /// Write amplification: bytes written to the disk per appended byte.
    pub write_amplification: Figure,
    /// Flushes to the disk per appended batch.
    pub fsyncs_per_batch: Figure,
    /// Mean bytes per batch, over all topics.
    #[serde(default)]
    pub batch_bytes: Figure,
    /// Produce requests per second whose acknowledgement timed out (on Kafka: their partitions).
    #[serde(default)]
    pub produce_timeouts_per_s: Figure,
    /// Failed requests to followers per second, timeouts included.
    #[serde(default)]
    pub replication_errors_per_s: Figure,
}

/// A percentile of the time that Produce requests took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WatchedPercentile {
    /// The percentile: 99.999 is the slowest of 100,000 requests.
    pub percentile: f64,
    /// The time in milliseconds. It is a bound if fewer requests were answered than the percentile needs.
    pub ms: Figure,
}

/// Duration of Produce requests as a broker measures it, from the request to its finished answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchedLatency {
    /// The broker; empty for all brokers.
    pub instance: String,
    /// The percentiles, in ascending order.
    pub percentiles: Vec<WatchedPercentile>,
}

/// The lag of a consumer group.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchedGroup {
    /// Name of the group.
    pub group: String,
    /// Records that the group still has to read, over all partitions with a committed offset.
    pub lag: Figure,
    /// The same for the partition with the largest lag.
    pub lag_max: Figure,
}

/// CPU use of one shard, which is one core.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WatchedShard {
    /// The broker of the shard.
    pub instance: String,
    /// Number of the shard.
    pub shard: String,
    /// Share of the time in which the shard was busy, 0 to 1.
    pub cpu_share: f64,
}

/// Queued work in a broker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WatchedQueue {
    /// The broker.
    pub instance: String,
    /// The scheduling group, or the name of the queue.
    pub group: String,
    /// Tasks in the queue, over all shards, at the end of the period.
    pub waiting: f64,
}

/// A client as it describes itself to the broker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchedClient {
    /// `client.id`.
    pub client_id: String,
    /// The library and its version, as the client states them.
    pub software: String,
    /// Its transactional id, if it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub transactional_id: String,
    /// Number of connections in this row.
    pub connections: u64,
    /// Bytes of its batches in the last minute.
    pub produced_bytes: u64,
    /// Its batches in the last minute.
    pub batches: u64,
    /// Its requests in the last minute, of every kind.
    pub requests: u64,
    /// Mean bytes per batch.
    pub batch_bytes: Figure,
    /// Batches per request. The value is below 1 if the requests include other kinds.
    pub batches_per_request: Figure,
}

/// A figure that a source does not provide, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotExported {
    /// The figure.
    pub what: String,
    /// The metrics that the figure needs, and what to do.
    pub why: String,
}

/// What the metrics of a cluster report about its batches.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BatchWatch {
    /// Name and version of the source, for example `redpanda-25.1`.
    pub source: String,
    /// Address of the source.
    pub endpoints: Vec<String>,
    /// End of the period, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// Length of the period.
    pub window_s: f64,
    /// All topics together.
    pub total: WatchedTopic,
    /// The topics, sorted by number of batches.
    pub topics: Vec<WatchedTopic>,
    /// The brokers.
    pub instances: Vec<WatchedInstance>,
    /// CPU by shard.
    pub shards: Vec<WatchedShard>,
    /// Backlog by scheduling group.
    pub backlog: Vec<WatchedQueue>,
    /// Median batch size in bytes. It comes from a histogram, so it lies between two bucket bounds.
    pub batch_bytes_p50: Figure,
    /// 99th percentile of the batch size in bytes.
    pub batch_bytes_p99: Figure,
    /// The topics by broker or by partition, if requested, sorted by number of batches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<WatchedTopic>,
    /// Duration of Produce requests: first over all brokers, then broker by broker.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub produce_latency: Vec<WatchedLatency>,
    /// Consumer groups, sorted by lag.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<WatchedGroup>,
    /// Clients, sorted by number of batches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<WatchedClient>,
    /// Figures that are missing.
    pub not_exported: Vec<NotExported>,
    /// Remarks about the figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A coefficient with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CostInterval {
    /// The estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The cost of one kind of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkCost {
    /// `request`, `batch`, `record` or `byte`; `base` is the CPU that is used at any load.
    pub unit: String,
    /// Microseconds of CPU per unit of work; for `base` microseconds per second. `None` if the history can't separate it from other kinds:
    /// the cost is then part of the kinds that include it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub us: Option<CostInterval>,
    /// Kinds of work whose cost is part of this one, since they rose and fell together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub includes: Vec<String>,
    /// Mean of its rate over the history, per second; 1 for `base`.
    pub mean_per_s: f64,
}

/// Kinds of work that always rose and fell together, so that only their sum is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkTogether {
    /// Units of these kinds.
    pub units: Vec<String>,
    /// Mean number of cores that they used together.
    pub cores: CostInterval,
}

/// A forecast for another mix of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CostForecast {
    /// The change, for example `batches=0.2`.
    pub asked: String,
    /// Cores at the mean of the history, according to the model.
    pub cores_now: CostInterval,
    /// Cores after the change.
    pub cores_then: CostInterval,
    /// Limits and simplifications of the forecast.
    pub notes: Vec<String>,
}

/// A topic's share of the CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopicCost {
    /// Name of the topic.
    pub topic: String,
    /// Cores for the topic.
    pub cores: CostInterval,
    /// Cores for its batches as such and the requests around them, which larger batches would save. `None` if the history can't separate
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores_of_batches: Option<f64>,
}

/// The cost of a cluster's work: `CPU/s = base + a requests + b batches + c records + d bytes`, fitted to its own history.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BatchCost {
    /// Source of the history.
    pub source: String,
    /// Number of points in the history.
    pub points: u64,
    /// Length of the history.
    pub span_s: f64,
    /// Share of the CPU's variance that the model explains, 0 to 1.
    pub explained: f64,
    /// Standard deviation of the CPU around the model, in cores.
    pub residual_cores: f64,
    /// Largest condition index of the scaled columns (Belsley, Kuh and Welsch, 1980). Above 30, columns can't be separated.
    pub condition_index: f64,
    /// Nominal coverage of the confidence intervals, 0 to 1.
    pub confidence: f64,
    /// The kinds of work.
    pub costs: Vec<WorkCost>,
    /// Kinds of work that can't be separated.
    pub together: Vec<WorkTogether>,
    /// Topics, the most expensive first.
    pub topics: Vec<TopicCost>,
    /// Forecast for another mix, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<CostForecast>,
    /// Remarks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A history may be older than the latency, the lag and the parts.
    #[test]
    fn older_looks_are_read_and_what_they_lack_is_not_exported() {
        let watch = BatchWatch {
            instances: vec![WatchedInstance { cpu_cores: Figure::Known(0.5), ..WatchedInstance::default() }],
            topics: vec![WatchedTopic { topic: "t".to_owned(), ..WatchedTopic::default() }],
            ..BatchWatch::default()
        };
        let mut text = serde_json::to_value(&watch).unwrap();
        for field in ["batch_bytes", "produce_timeouts_per_s", "replication_errors_per_s"] {
            assert!(text["instances"][0].as_object_mut().unwrap().remove(field).is_some(), "{field}");
        }
        for field in ["parts", "produce_latency", "groups"] {
            assert!(text.get(field).is_none(), "{field} is empty and written");
        }
        assert_eq!(serde_json::from_value::<BatchWatch>(text).unwrap(), watch);
    }
}

//! What a cluster's own counters say of its batches over a stretch of time, and what work costs it.

use serde::{Deserialize, Serialize};

/// A figure of somebody else's metrics. What is not exported is no 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// The source does not say it.
    #[default]
    NotExported,
    /// Exported, but nothing happened in the time that was looked at: a ratio of nothing to nothing.
    Nothing,
    /// It is no more than this.
    AtMost(f64),
    /// It is this.
    Known(f64),
}

impl Figure {
    /// The value, where it is known and no bound.
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

/// Batches of a topic, of a part of it, or of all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchedTopic {
    /// Its name.
    pub topic: String,
    /// The broker, where these are the batches of one broker.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instance: String,
    /// The partition, where these are the batches of one partition.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub partition: String,
    /// Bytes of a batch in the mean, header included: the effective batch size.
    pub batch_bytes: Figure,
    /// Records of a batch in the mean.
    pub records_per_batch: Figure,
    /// Bytes of a record in the mean, its share of the header included.
    pub record_bytes: Figure,
    /// Batches a second.
    pub batches_per_s: Figure,
    /// Records a second.
    pub records_per_s: Figure,
    /// Bytes a second.
    pub bytes_per_s: Figure,
    /// Share of the batches of all topics, 0 to 1.
    pub batch_share: Figure,
}

/// A broker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchedInstance {
    /// The endpoint, or Prometheus' name of it.
    pub instance: String,
    /// Cores that serve; shards, where a shard is a core.
    pub cores: Figure,
    /// Batches of users' topics appended a second for each core, followers' included; those of internal logs are not (R4).
    pub batches_per_s_per_core: Figure,
    /// CPU time a second: 1 is a whole core.
    pub cpu_cores: Figure,
    /// Produce requests a second.
    pub requests_per_s: Figure,
    /// Batches in a produce request.
    pub batches_per_request: Figure,
    /// Bytes received from clients a second.
    pub received_bytes_per_s: Figure,
    /// Bytes sent to clients a second.
    pub sent_bytes_per_s: Figure,
    /// Bytes that went to the disk for a byte that was appended.
    pub write_amplification: Figure,
    /// Flushes to the disk for each batch that was appended.
    pub fsyncs_per_batch: Figure,
    /// Bytes of a batch in the mean, over all topics.
    #[serde(default)]
    pub batch_bytes: Figure,
    /// Produce requests a second whose acknowledgement timed out (partitions of them on Kafka).
    #[serde(default)]
    pub produce_timeouts_per_s: Figure,
    /// Requests a second to followers that failed, those that timed out among them.
    #[serde(default)]
    pub replication_errors_per_s: Figure,
}

/// A percentile of the time that Produce requests took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WatchedPercentile {
    /// The percentile: 99.999 is the slowest of 100,000 requests.
    pub percentile: f64,
    /// The time, milliseconds. A bound where fewer requests than the percentile needs were answered.
    pub ms: Figure,
}

/// How long Produce requests took, as a broker measures it: from the request to its finished answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchedLatency {
    /// The broker; empty for all of them.
    pub instance: String,
    /// The percentiles, in rising order.
    pub percentiles: Vec<WatchedPercentile>,
}

/// How far a consumer group is behind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchedGroup {
    /// Its name.
    pub group: String,
    /// Records that it has still to read, over all partitions that it committed an offset of.
    pub lag: Figure,
    /// The same of the partition that has most.
    pub lag_max: Figure,
}

/// The CPU of one shard, which is one core.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WatchedShard {
    /// Its broker.
    pub instance: String,
    /// Its number.
    pub shard: String,
    /// Busy share of the time, 0 to 1.
    pub cpu_share: f64,
}

/// Work that waits in a broker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WatchedQueue {
    /// Its broker.
    pub instance: String,
    /// The scheduling group, or the name of the queue.
    pub group: String,
    /// Tasks that wait, over all shards, at the end of the stretch.
    pub waiting: f64,
}

/// A client by its own account to the broker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchedClient {
    /// `client.id`.
    pub client_id: String,
    /// The library and its version, by its own account.
    pub software: String,
    /// Its transactional id, where it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub transactional_id: String,
    /// Connections that are summed up here.
    pub connections: u64,
    /// Bytes of its batches over the last minute.
    pub produced_bytes: u64,
    /// Its batches over the last minute.
    pub batches: u64,
    /// Its requests over the last minute, of every kind.
    pub requests: u64,
    /// Bytes of a batch in the mean.
    pub batch_bytes: Figure,
    /// Batches for each request: below 1 where requests of other kinds are among them.
    pub batches_per_request: Figure,
}

/// What a source does not say, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotExported {
    /// The figure.
    pub what: String,
    /// The metrics that it would need, and what to do.
    pub why: String,
}

/// What the counters of a cluster say of its batches.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BatchWatch {
    /// Whose metrics these are, as `redpanda-25.1`.
    pub source: String,
    /// Where they were asked for.
    pub endpoints: Vec<String>,
    /// The end of the stretch, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// Its length.
    pub window_s: f64,
    /// All topics together.
    pub total: WatchedTopic,
    /// The topics, those with most batches first.
    pub topics: Vec<WatchedTopic>,
    /// The brokers.
    pub instances: Vec<WatchedInstance>,
    /// CPU by shard.
    pub shards: Vec<WatchedShard>,
    /// Backlog by scheduling group.
    pub backlog: Vec<WatchedQueue>,
    /// Half of all batches are not larger, bytes; from a histogram, so between two of its bounds.
    pub batch_bytes_p50: Figure,
    /// 99 % of all batches are not larger, bytes.
    pub batch_bytes_p99: Figure,
    /// The topics by broker or by partition, where that was asked for; those with most batches first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<WatchedTopic>,
    /// How long Produce requests took: over all brokers first, then broker by broker.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub produce_latency: Vec<WatchedLatency>,
    /// Consumer groups, those that are furthest behind first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<WatchedGroup>,
    /// Clients, those with most batches first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<WatchedClient>,
    /// What is not known here.
    pub not_exported: Vec<NotExported>,
    /// What else is to be known of these figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A coefficient with the interval that its data allow.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CostInterval {
    /// The estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// What one kind of work costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkCost {
    /// `request`, `batch`, `record` or `byte`; `base` is what is spent whatever the load.
    pub unit: String,
    /// Microseconds of CPU for each; for `base` microseconds a second. `None` where the history can't tell it from others: it is then in
    /// those that include it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub us: Option<CostInterval>,
    /// Kinds of work whose cost is in this one's, since they moved along with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub includes: Vec<String>,
    /// Mean of its rate over the history, each second; 1 for `base`.
    pub mean_per_s: f64,
}

/// Kinds of work that always moved together, so that only their sum is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkTogether {
    /// Their units.
    pub units: Vec<String>,
    /// Cores that they used together in the mean.
    pub cores: CostInterval,
}

/// A forecast for another mix of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CostForecast {
    /// What is changed, as `batches=0.2`.
    pub asked: String,
    /// Cores at the mean of the history, as the model has it.
    pub cores_now: CostInterval,
    /// Cores after the change.
    pub cores_then: CostInterval,
    /// What the forecast leaves out or takes for granted.
    pub notes: Vec<String>,
}

/// A topic's share of the CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopicCost {
    /// Its name.
    pub topic: String,
    /// Cores.
    pub cores: CostInterval,
    /// Of that for the batches as such and the requests around them, which larger batches would save; `None` where the history can't tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores_of_batches: Option<f64>,
}

/// What work costs a cluster: `CPU/s = base + a requests + b batches + c records + d bytes`, fitted on its own history.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BatchCost {
    /// What the history is of.
    pub source: String,
    /// Points of the history.
    pub points: u64,
    /// Length of the history.
    pub span_s: f64,
    /// Share of the scatter of the CPU that the model explains, 0 to 1.
    pub explained: f64,
    /// Scatter of the CPU around the model, cores.
    pub residual_cores: f64,
    /// Largest condition index of the scaled columns (Belsley, Kuh and Welsch, 1980); above 30 columns can't be told apart.
    pub condition_index: f64,
    /// Coverage that the intervals aim at, 0 to 1.
    pub confidence: f64,
    /// The kinds of work.
    pub costs: Vec<WorkCost>,
    /// Those that can't be told apart.
    pub together: Vec<WorkTogether>,
    /// Topics, the dearest first.
    pub topics: Vec<TopicCost>,
    /// For another mix, where one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<CostForecast>,
    /// What else is to be known.
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

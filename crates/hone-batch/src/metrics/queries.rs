//! The same figures as PromQL: for dashboards, recording rules, and people.
//!
//! This module corrects three mistakes of published forms. It drops internal logs by `namespace="kafka"` (the controller's and the
//! key-value store's do not begin with an underscore). It checks divisors, so that a quiet topic gives no NaN. It counts cores on the
//! endpoint that also counts the batches, because the two endpoints of Redpanda may have different labels.

use std::collections::BTreeSet;

use super::quantity::Quantity;
use super::source::{Counting, Pick, Source};

/// A query in PromQL.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Query {
    /// Its name in docs and dashboards.
    pub id: &'static str,
    /// Its result.
    pub title: &'static str,
    /// The text; `$window` is a length of time. Other words with a `$`, such as `$batches`, stand for Kafka's metrics, whatever their
    /// exporter calls them (`PLACEHOLDERS`).
    pub promql: &'static str,
    /// The sources that export its metrics.
    pub sources: &'static [Source],
    /// The required metrics.
    pub metrics: &'static [&'static str],
    /// Labels that they must have.
    pub labels: &'static [&'static str],
    /// The unit of the answer.
    pub unit: &'static str,
    /// Remarks.
    pub note: &'static str,
}

const NEW: &[Source] = &[Source::Redpanda25, Source::HoneBroker];
const INTERNAL: &[Source] = &[Source::Redpanda25, Source::RedpandaOlder, Source::HoneBroker];
const KAFKA: &[Source] = &[Source::KafkaJmx];
const PUBLIC: &[Source] = &[Source::RedpandaPublic];
const REDPANDA: &[Source] = &[Source::Redpanda25, Source::RedpandaOlder];
const ALL: &[Source] = &[
    Source::Redpanda25,
    Source::RedpandaOlder,
    Source::HoneBroker,
    Source::RedpandaPublic,
    Source::KafkaJmx,
];

/// The placeholders of Kafka's metrics in a query.
const PLACEHOLDERS: [(&str, Quantity); 10] = [
    ("$bytes_in", Quantity::ProducedBytes),
    ("$batches", Quantity::ProducedBatches),
    ("$records_in", Quantity::ProducedRecords),
    ("$received", Quantity::ReceivedBytes),
    ("$sent", Quantity::SentBytes),
    ("$timed_out", Quantity::ProduceTimeouts),
    ("$produce_p500", Quantity::ProduceLatencyAt(500)),
    ("$produce_p950", Quantity::ProduceLatencyAt(950)),
    ("$produce_p990", Quantity::ProduceLatencyAt(990)),
    ("$produce_p999", Quantity::ProduceLatencyAt(999)),
];

/// A percentile of the produce latency, from the internal endpoint's microseconds.
macro_rules! internal_latency {
    ($id:literal, $quantile:literal, $named:literal) => {
        Query {
            id: $id,
            title: concat!("produce latency, ", $named),
            promql: concat!(
                "1e-6 * histogram_quantile(",
                $quantile,
                ", sum by (le) (rate(vectorized_kafka_latency_produce_latency_us_bucket[$window])))"
            ),
            sources: INTERNAL,
            metrics: &["vectorized_kafka_latency_produce_latency_us_bucket"],
            labels: &["le"],
            unit: "seconds",
            note: "as the broker measures it; within a bucket of a histogram, whose bounds double",
        }
    };
}

/// The same from the public endpoint's seconds.
macro_rules! public_latency {
    ($id:literal, $quantile:literal, $named:literal) => {
        Query {
            id: $id,
            title: concat!("produce latency, ", $named),
            promql: concat!(
                "histogram_quantile(",
                $quantile,
                ", sum by (le) (rate(redpanda_kafka_request_latency_seconds_bucket{redpanda_request=\"produce\"}[$window])))"
            ),
            sources: PUBLIC,
            metrics: &["redpanda_kafka_request_latency_seconds_bucket"],
            labels: &["le", "redpanda_request"],
            unit: "seconds",
            note: "as the broker measures it; within a bucket of a histogram, whose bounds double",
        }
    };
}

/// Kafka's own percentiles: there is no histogram for other ones.
macro_rules! kafka_latency {
    ($id:literal, $placeholder:literal, $named:literal) => {
        Query {
            id: $id,
            title: concat!("produce latency, ", $named),
            promql: concat!("1e-3 * max(", $placeholder, ")"),
            sources: KAFKA,
            metrics: &["TotalTimeMs"],
            labels: &[],
            unit: "seconds",
            note: "the slowest broker's; always over about the last five minutes",
        }
    };
}

/// All of them.
pub const QUERIES: [Query; 45] = [
    Query {
        id: "R1",
        title: "effective batch size by topic",
        promql: "sum by (topic) (rate(vectorized_cluster_partition_bytes_produced_total{namespace=\"kafka\"}[$window])) / (sum by (topic) \
                 (rate(vectorized_cluster_partition_batches_produced{namespace=\"kafka\"}[$window])) > 0)",
        sources: NEW,
        metrics: &[
            "vectorized_cluster_partition_bytes_produced_total",
            "vectorized_cluster_partition_batches_produced",
        ],
        labels: &["namespace", "topic"],
        unit: "bytes",
        note: "leaders only, batches of clients only; since Redpanda 25.1",
    },
    Query {
        id: "R2",
        title: "records per batch by topic",
        promql: "sum by (topic) (rate(vectorized_cluster_partition_records_produced{namespace=\"kafka\"}[$window])) / (sum by (topic) \
                 (rate(vectorized_cluster_partition_batches_produced{namespace=\"kafka\"}[$window])) > 0)",
        sources: NEW,
        metrics: &[
            "vectorized_cluster_partition_records_produced",
            "vectorized_cluster_partition_batches_produced",
        ],
        labels: &["namespace", "topic"],
        unit: "records",
        note: "since Redpanda 25.1",
    },
    Query {
        id: "R3",
        title: "effective batch size by topic, all replicas",
        promql: "sum by (topic) (rate(vectorized_storage_log_written_bytes{namespace=\"kafka\",topic!~\"_.*\"}[$window])) / (sum by (topic) \
                 (rate(vectorized_storage_log_batches_written{namespace=\"kafka\",topic!~\"_.*\"}[$window])) > 0)",
        sources: INTERNAL,
        metrics: &["vectorized_storage_log_written_bytes", "vectorized_storage_log_batches_written"],
        labels: &["namespace", "topic"],
        unit: "bytes",
        note: "any version; both sums include followers",
    },
    Query {
        id: "R3b",
        title: "effective batch size by topic, leaders, before 25.1",
        promql: "sum by (topic) (rate(vectorized_storage_log_written_bytes{namespace=\"kafka\",topic!~\"_.*\"}[$window]) and on (instance, \
                 namespace, topic, partition) vectorized_cluster_partition_leader == 1) / (sum by (topic) \
                 (rate(vectorized_storage_log_batches_written{namespace=\"kafka\",topic!~\"_.*\"}[$window]) and on (instance, namespace, topic, \
                 partition) vectorized_cluster_partition_leader == 1) > 0)",
        sources: INTERNAL,
        metrics: &[
            "vectorized_storage_log_written_bytes",
            "vectorized_storage_log_batches_written",
            "vectorized_cluster_partition_leader",
        ],
        labels: &["instance", "namespace", "topic", "partition"],
        unit: "bytes",
        note: "needs the label partition, which aggregate_metrics removes",
    },
    Query {
        id: "R4",
        title: "batches per second and core",
        promql: "sum by (instance) (rate(vectorized_storage_log_batches_written{namespace=\"kafka\"}[$window])) / on (instance) count by \
                 (instance) (vectorized_reactor_utilization)",
        sources: INTERNAL,
        metrics: &["vectorized_storage_log_batches_written", "vectorized_reactor_utilization"],
        labels: &["instance", "shard"],
        unit: "batches/s",
        note: "needs the label shard of vectorized_reactor_utilization",
    },
    Query {
        id: "R5",
        title: "batches per second by topic",
        promql: "sum by (topic) (rate(vectorized_storage_log_batches_written{namespace=\"kafka\"}[$window]))",
        sources: INTERNAL,
        metrics: &["vectorized_storage_log_batches_written"],
        labels: &["namespace", "topic"],
        unit: "batches/s",
        note: "counts every replica: too high by the replication factor",
    },
    Query {
        id: "R6a",
        title: "backlog by scheduling group",
        promql: "sum by (instance, group) (vectorized_scheduler_queue_length)",
        sources: INTERNAL,
        metrics: &["vectorized_scheduler_queue_length"],
        labels: &["instance", "group"],
        unit: "tasks",
        note: "the groups depend on the version",
    },
    Query {
        id: "R6b",
        title: "CPU by shard",
        promql: "avg by (instance, shard) (rate(redpanda_cpu_busy_seconds_total[$window]))",
        sources: &[Source::Redpanda25, Source::RedpandaOlder, Source::HoneBroker, Source::RedpandaPublic],
        metrics: &["redpanda_cpu_busy_seconds_total"],
        labels: &["instance", "shard"],
        unit: "share",
        note: "from Redpanda's public endpoint",
    },
    Query {
        id: "R7",
        title: "batches per Produce request",
        promql: "sum(rate(vectorized_cluster_partition_batches_produced{namespace=\"kafka\"}[$window])) / \
                 (sum(rate(vectorized_kafka_handler_requests_completed_total{handler=\"produce\"}[$window])) > 0)",
        sources: NEW,
        metrics: &[
            "vectorized_cluster_partition_batches_produced",
            "vectorized_kafka_handler_requests_completed_total",
        ],
        labels: &["namespace", "handler"],
        unit: "batches",
        note: "1.0 if every request is for one partition, as with librdkafka",
    },
    Query {
        id: "R8a",
        title: "write amplification",
        promql: "sum by (instance) (rate(vectorized_io_queue_total_write_bytes{class=\"raft\"}[$window])) / (sum by (instance) \
                 (rate(vectorized_storage_log_written_bytes[$window])) > 0)",
        sources: &[Source::Redpanda25, Source::RedpandaOlder],
        metrics: &["vectorized_io_queue_total_write_bytes", "vectorized_storage_log_written_bytes"],
        labels: &["instance", "class"],
        unit: "ratio",
        note: "the classes of I/O depend on the version",
    },
    Query {
        id: "R8b",
        title: "fsyncs per batch",
        promql: "sum by (instance) (rate(vectorized_reactor_fsyncs[$window])) / (sum by (instance) \
                 (rate(vectorized_storage_log_batches_written[$window])) > 0)",
        sources: INTERNAL,
        metrics: &["vectorized_reactor_fsyncs", "vectorized_storage_log_batches_written"],
        labels: &["instance"],
        unit: "fsyncs",
        note: "",
    },
    Query {
        id: "R9",
        title: "median batch size of the cluster",
        promql: "histogram_quantile(0.5, sum by (le) (rate(vectorized_kafka_batch_size_bucket[$window])))",
        sources: NEW,
        metrics: &["vectorized_kafka_batch_size_bucket"],
        labels: &["le"],
        unit: "bytes",
        note: "within a bucket of a histogram",
    },
    Query {
        id: "R10",
        title: "effective batch size by broker",
        promql: "sum by (instance) (rate(vectorized_cluster_partition_bytes_produced_total{namespace=\"kafka\"}[$window])) / (sum by \
                 (instance) (rate(vectorized_cluster_partition_batches_produced{namespace=\"kafka\"}[$window])) > 0)",
        sources: NEW,
        metrics: &[
            "vectorized_cluster_partition_bytes_produced_total",
            "vectorized_cluster_partition_batches_produced",
        ],
        labels: &["namespace", "instance"],
        unit: "bytes",
        note: "of the partitions that the broker leads",
    },
    Query {
        id: "R11",
        title: "effective batch size by broker, topic and partition",
        promql: "sum by (instance, topic, partition) \
                 (rate(vectorized_cluster_partition_bytes_produced_total{namespace=\"kafka\",partition!=\"\"}[$window])) / (sum by \
                 (instance, topic, partition) \
                 (rate(vectorized_cluster_partition_batches_produced{namespace=\"kafka\",partition!=\"\"}[$window])) > 0)",
        sources: NEW,
        metrics: &[
            "vectorized_cluster_partition_bytes_produced_total",
            "vectorized_cluster_partition_batches_produced",
        ],
        labels: &["namespace", "instance", "topic", "partition"],
        unit: "bytes",
        note: "needs the label partition, which aggregate_metrics removes",
    },
    internal_latency!("R12a", "0.5", "p50"),
    internal_latency!("R12b", "0.85", "p85"),
    internal_latency!("R12c", "0.95", "p95"),
    internal_latency!("R12d", "0.99", "p99"),
    internal_latency!("R12e", "0.99999", "p99.999"),
    Query {
        id: "R13a",
        title: "bytes per second from clients",
        promql: "sum by (instance) (rate(vectorized_kafka_rpc_received_bytes[$window]))",
        sources: INTERNAL,
        metrics: &["vectorized_kafka_rpc_received_bytes"],
        labels: &["instance"],
        unit: "bytes/s",
        note: "",
    },
    Query {
        id: "R13b",
        title: "bytes per second to clients",
        promql: "sum by (instance) (rate(vectorized_kafka_rpc_sent_bytes[$window]))",
        sources: INTERNAL,
        metrics: &["vectorized_kafka_rpc_sent_bytes"],
        labels: &["instance"],
        unit: "bytes/s",
        note: "",
    },
    Query {
        id: "R14",
        title: "requests to followers that failed or timed out",
        promql: "sum by (instance) (rate(vectorized_raft_replicate_request_errors{namespace=\"kafka\"}[$window]))",
        sources: REDPANDA,
        metrics: &["vectorized_raft_replicate_request_errors"],
        labels: &["instance", "namespace"],
        unit: "requests/s",
        note: "acks=all waits for these requests; Redpanda does not count acknowledgements that timed out",
    },
    Query {
        id: "R15a",
        title: "consumer lag by group",
        promql: "max by (redpanda_group) (redpanda_kafka_consumer_group_lag_sum)",
        sources: &[Source::Redpanda25, Source::HoneBroker, Source::RedpandaPublic],
        metrics: &["redpanda_kafka_consumer_group_lag_sum"],
        labels: &["redpanda_group"],
        unit: "records",
        note: "public endpoint; Redpanda has it with consumer_lag in enable_consumer_group_metrics",
    },
    Query {
        id: "R15b",
        title: "consumer lag by group, by offsets",
        promql: "sum by (group) (clamp_min(max by (topic, partition) (vectorized_cluster_partition_high_watermark{namespace=\"kafka\"}) - on \
                 (topic, partition) group_right () max by (group, topic, partition) (vectorized_kafka_group_offset), 0))",
        sources: INTERNAL,
        metrics: &["vectorized_cluster_partition_high_watermark", "vectorized_kafka_group_offset"],
        labels: &["group", "topic", "partition"],
        unit: "records",
        note: "partitions with a committed offset of the group; needs the label partition",
    },
    Query {
        id: "P1",
        title: "bytes per Produce request: an upper bound of the mean batch size",
        promql: "sum(rate(redpanda_kafka_request_bytes_total{redpanda_namespace=\"kafka\",redpanda_request=\"produce\"}[$window])) / \
                 (sum(rate(redpanda_kafka_request_latency_seconds_count{redpanda_request=\"produce\"}[$window])) > 0)",
        sources: PUBLIC,
        metrics: &["redpanda_kafka_request_bytes_total", "redpanda_kafka_request_latency_seconds_count"],
        labels: &["redpanda_namespace", "redpanda_request"],
        unit: "bytes",
        note: "an upper bound; exact if every request is for one partition",
    },
    public_latency!("P2a", "0.5", "p50"),
    public_latency!("P2b", "0.85", "p85"),
    public_latency!("P2c", "0.95", "p95"),
    public_latency!("P2d", "0.99", "p99"),
    public_latency!("P2e", "0.99999", "p99.999"),
    Query {
        id: "P3a",
        title: "bytes per second from clients",
        promql: "sum by (instance) (rate(redpanda_rpc_received_bytes{redpanda_server=\"kafka\"}[$window]))",
        sources: PUBLIC,
        metrics: &["redpanda_rpc_received_bytes"],
        labels: &["instance", "redpanda_server"],
        unit: "bytes/s",
        note: "",
    },
    Query {
        id: "P3b",
        title: "bytes per second to clients",
        promql: "sum by (instance) (rate(redpanda_rpc_sent_bytes{redpanda_server=\"kafka\"}[$window]))",
        sources: PUBLIC,
        metrics: &["redpanda_rpc_sent_bytes"],
        labels: &["instance", "redpanda_server"],
        unit: "bytes/s",
        note: "",
    },
    Query {
        id: "P4",
        title: "consumer lag by group, by offsets",
        promql: "sum by (redpanda_group) (clamp_min(max by (redpanda_topic, redpanda_partition) \
                 (redpanda_kafka_max_offset{redpanda_namespace=\"kafka\"}) - on (redpanda_topic, redpanda_partition) group_right () max by \
                 (redpanda_group, redpanda_topic, redpanda_partition) (redpanda_kafka_consumer_group_committed_offset), 0))",
        sources: PUBLIC,
        metrics: &["redpanda_kafka_max_offset", "redpanda_kafka_consumer_group_committed_offset"],
        labels: &["redpanda_group", "redpanda_topic", "redpanda_partition"],
        unit: "records",
        note: "any version; partitions with a committed offset of the group",
    },
    Query {
        id: "K1",
        title: "effective batch size by topic",
        promql: "sum by (topic) ($bytes_in) / (sum by (topic) ($batches) > 0)",
        sources: KAFKA,
        metrics: &["BytesInPerSec", "TotalProduceRequestsPerSec"],
        labels: &["topic"],
        unit: "bytes",
        note: "Kafka counts TotalProduceRequestsPerSec once per partition of a request, which has one batch \
               there; rejected batches, transaction markers and offset commits count, too",
    },
    Query {
        id: "K2",
        title: "records per batch by topic",
        promql: "sum by (topic) ($records_in) / (sum by (topic) ($batches) > 0)",
        sources: KAFKA,
        metrics: &["MessagesInPerSec", "TotalProduceRequestsPerSec"],
        labels: &["topic"],
        unit: "records",
        note: "as K1",
    },
    kafka_latency!("K3a", "$produce_p500", "p50"),
    kafka_latency!("K3b", "$produce_p950", "p95"),
    kafka_latency!("K3c", "$produce_p990", "p99"),
    kafka_latency!("K3d", "$produce_p999", "p99.9"),
    Query {
        id: "K4a",
        title: "bytes per second from producers",
        promql: "sum by (instance) ($received)",
        sources: KAFKA,
        metrics: &["BytesInPerSec"],
        labels: &["instance"],
        unit: "bytes/s",
        note: "batches only: Kafka does not count the requests around them",
    },
    Query {
        id: "K4b",
        title: "bytes per second to consumers",
        promql: "sum by (instance) ($sent)",
        sources: KAFKA,
        metrics: &["BytesOutPerSec"],
        labels: &["instance"],
        unit: "bytes/s",
        note: "as K4a; without replication",
    },
    Query {
        id: "K5",
        title: "acknowledgements that timed out",
        promql: "sum by (instance) ($timed_out)",
        sources: KAFKA,
        metrics: &["ExpiresPerSec"],
        labels: &["instance"],
        unit: "partitions/s",
        note: "Produce requests with acks=all whose followers were too slow, once per partition; older \
               versions of Kafka create the counter with the first one",
    },
    Query {
        id: "L1",
        title: "consumer lag by group, kafka-lag-exporter",
        promql: "sum by (group) (max by (group, topic, partition) (kafka_consumergroup_group_lag))",
        sources: ALL,
        metrics: &["kafka_consumergroup_group_lag"],
        labels: &["group", "topic", "partition"],
        unit: "records",
        note: "",
    },
    Query {
        id: "L2",
        title: "consumer lag by group, kafka_exporter",
        promql: "sum by (consumergroup) (clamp_min(max by (consumergroup, topic, partition) (kafka_consumergroup_lag), 0))",
        sources: ALL,
        metrics: &["kafka_consumergroup_lag"],
        labels: &["consumergroup", "topic", "partition"],
        unit: "records",
        note: "",
    },
    Query {
        id: "L3",
        title: "consumer lag by group, kminion",
        promql: "sum by (group_id) (max by (group_id, topic_name, partition_id) (kminion_kafka_consumer_group_topic_partition_lag))",
        sources: ALL,
        metrics: &["kminion_kafka_consumer_group_topic_partition_lag"],
        labels: &["group_id", "topic_name", "partition_id"],
        unit: "records",
        note: "",
    },
];

impl Query {
    /// By its id.
    pub fn named(id: &str) -> Option<&'static Self> {
        QUERIES.iter().find(|query| query.id == id)
    }

    /// The text for a source with metrics of these names, over a window such as `5m`. `None` if it is for another source, or if one of its
    /// metrics is not exported. `more` adds conditions, such as `job="redpanda"`.
    pub fn resolve(
        &self,
        source: Source,
        names: &BTreeSet<String>,
        window: &str,
        more: &str,
    ) -> Option<String> {
        if !self.sources.contains(&source) {
            return None;
        }
        // The texts contain placeholders for Kafka's beans.
        let mut plain = self.metrics.iter().filter(|metric| self.promql.contains(**metric));
        if !plain.all(|metric| names.contains(*metric)) {
            return None;
        }
        let picks = source.picks(names);
        let mut text = self.narrowed(more).replace("$window", window);
        for (placeholder, quantity) in PLACEHOLDERS {
            if text.contains(placeholder) {
                let pick = picks.iter().find(|pick| pick.quantity == quantity)?;
                text = text.replace(placeholder, &rate(pick, window, more));
            }
        }
        Some(text)
    }

    /// Adds more conditions to each of its metrics. A test checks that no metric's name is part of another's.
    fn narrowed(&self, more: &str) -> String {
        let metrics: BTreeSet<&str> = self.metrics.iter().copied().collect();
        metrics.into_iter().filter(|_| !more.is_empty()).fold(self.promql.to_owned(), |text, metric| {
            let [open, marked] = [format!("{metric}{{"), format!("{metric}\u{0}")];
            text.replace(&open, &marked)
                .replace(metric, &format!("{metric}{{{more}}}"))
                .replace(&format!("{metric}{{{more}}}\u{0}"), &format!("{metric}{{{more},"))
        })
    }
}

fn rate(pick: &Pick, window: &str, more: &str) -> String {
    match pick.counting {
        Counting::Sum => format!("rate({}[{window}])", pick.selector(more)),
        Counting::Level | Counting::Rate => pick.selector(more),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[&str]) -> BTreeSet<String> {
        all.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn ids_are_unique_and_every_metric_stands_in_its_text() {
        let ids: BTreeSet<&str> = QUERIES.iter().map(|query| query.id).collect();
        assert_eq!(ids.len(), QUERIES.len());
        for query in QUERIES.iter().filter(|query| !query.sources.contains(&Source::KafkaJmx)) {
            for metric in query.metrics {
                assert!(query.promql.contains(metric), "{}: {metric}", query.id);
                let inside = |other: &&&str| other != &metric && other.contains(metric);
                assert_eq!(query.metrics.iter().find(inside), None, "{}: {metric}", query.id);
            }
            for label in query.labels.iter().filter(|label| !["shard"].contains(label)) {
                assert!(query.promql.contains(label), "{}: {label}", query.id);
            }
        }
    }

    /// A count of series is never 0; every other divisor may be, and then there is no answer and no NaN.
    #[test]
    fn divisors_are_guarded() {
        for query in QUERIES.iter().filter(|query| query.promql.contains(" / ")) {
            let divisor = query.promql.split_once(" / ").unwrap().1;
            let is_guarded = divisor.starts_with('(') && divisor.ends_with("> 0)");
            assert!(is_guarded || divisor.starts_with("on (instance) count by"), "{}: {divisor}", query.id);
        }
    }

    #[test]
    fn kafkas_percentiles_and_other_exporters_lag_are_asked_for_by_their_names() {
        let all = names(&["kafka_network_requestmetrics_totaltimems", "kafka_consumergroup_lag"]);
        let of = |id: &str, source| Query::named(id).unwrap().resolve(source, &all, "1m", "job=\"k\"");
        assert_eq!(
            of("K3d", Source::KafkaJmx).unwrap(),
            "1e-3 * max(kafka_network_requestmetrics_totaltimems{job=\"k\",request=\"Produce\",quantile=\"0.999\"})"
        );
        assert_eq!(
            of("L2", Source::Redpanda25).unwrap(),
            "sum by (consumergroup) (clamp_min(max by (consumergroup, topic, partition) (kafka_consumergroup_lag{job=\"k\"}), 0))"
        );
        assert_eq!((of("L1", Source::KafkaJmx), of("K5", Source::KafkaJmx)), (None, None));
    }

    #[test]
    fn what_is_not_exported_has_no_query() {
        let query = Query::named("R1").unwrap();
        let both = [
            "vectorized_cluster_partition_bytes_produced_total",
            "vectorized_cluster_partition_batches_produced",
        ];
        assert!(query.resolve(Source::Redpanda25, &names(&both[..1]), "5m", "").is_none());
        assert!(query.resolve(Source::RedpandaOlder, &names(&both), "5m", "").is_none());
        let text = query.resolve(Source::Redpanda25, &names(&both), "5m", "").unwrap();
        assert!(text.contains("[5m]") && !text.contains('$'), "{text}");
    }

    #[test]
    fn a_selection_stands_at_every_metric() {
        let of = |id: &str| {
            let query = Query::named(id).unwrap();
            query.resolve(Source::Redpanda25, &names(query.metrics), "5m", "job=\"r\"").unwrap()
        };
        assert_eq!(
            of("R4"),
            "sum by (instance) (rate(vectorized_storage_log_batches_written{job=\"r\",namespace=\"kafka\"}[5m])) / on (instance) count by \
             (instance) (vectorized_reactor_utilization{job=\"r\"})"
        );
        assert!(of("R3b").contains("vectorized_cluster_partition_leader{job=\"r\"} == 1"), "{}", of("R3b"));
        for query in QUERIES.iter().filter(|query| query.sources.contains(&Source::Redpanda25)) {
            let text = of(query.id);
            let narrowed = text.matches("{job=\"r\"").count();
            let all: usize = query.metrics.iter().map(|metric| text.matches(metric).count()).sum();
            assert_eq!(narrowed, all, "{text}");
        }
        let all = names(&[
            "kafka_server_brokertopicmetrics_bytesin_total",
            "kafka_server_brokertopicmetrics_totalproducerequests_total",
        ]);
        let text = Query::named("K1").unwrap().resolve(Source::KafkaJmx, &all, "1m", "job=\"k\"").unwrap();
        assert_eq!(text.matches("{job=\"k\",topic!=\"\",topic!~\"__.*\"}").count(), 2, "{text}");
    }

    #[test]
    fn kafkas_spelling_is_the_exporters() {
        let all = names(&["kafka_server_BrokerTopicMetrics_Count"]);
        assert_eq!(
            Query::named("K1").unwrap().resolve(Source::KafkaJmx, &all, "1m", "").unwrap(),
            "sum by (topic) (rate(kafka_server_BrokerTopicMetrics_Count{name=\"BytesInPerSec\",topic!=\"\",topic!~\"__.*\"}[1m])) / (sum by (topic) \
             (rate(kafka_server_BrokerTopicMetrics_Count{name=\"TotalProduceRequestsPerSec\",topic!=\"\",topic!~\"__.*\"}[1m])) > 0)"
        );
    }
}

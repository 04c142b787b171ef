//! The same figures as PromQL: for dashboards, recording rules, and people.
//!
//! Three things that published forms get wrong are right here: internal logs are dropped by `namespace="kafka"` (the controller's and the
//! key-value store's do not begin with an underscore), divisors are guarded, so that a quiet topic is no NaN, and cores are counted on the
//! endpoint that also counts the batches, since the two endpoints of Redpanda may carry different labels.

use std::collections::BTreeSet;

use super::quantity::Quantity;
use super::source::{Counting, Pick, Source};

/// A question in PromQL.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Query {
    /// As docs and dashboards name it.
    pub id: &'static str,
    /// What it answers.
    pub title: &'static str,
    /// The text; `$window` is a length of time. `$bytes_in`, `$batches` and `$records_in` are rates of Kafka's, however its exporter spells
    /// them.
    pub promql: &'static str,
    /// Who exports what it needs.
    pub sources: &'static [Source],
    /// The metrics that must be there.
    pub metrics: &'static [&'static str],
    /// Labels that they must have.
    pub labels: &'static [&'static str],
    /// The unit of the answer.
    pub unit: &'static str,
    /// What is to be known of it.
    pub note: &'static str,
}

const NEW: &[Source] = &[Source::Redpanda25, Source::HoneBroker];
const INTERNAL: &[Source] = &[Source::Redpanda25, Source::RedpandaOlder, Source::HoneBroker];
const KAFKA: &[Source] = &[Source::KafkaJmx];
const PUBLIC: &[Source] = &[Source::RedpandaPublic];

/// All of them.
pub const QUERIES: [Query; 15] = [
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
        title: "records a batch by topic",
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
        note: "any version; followers are in both sums",
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
        note: "needs the label partition, which aggregate_metrics takes away",
    },
    Query {
        id: "R4",
        title: "batches a second for each core",
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
        title: "batches a second by topic",
        promql: "sum by (topic) (rate(vectorized_storage_log_batches_written{namespace=\"kafka\"}[$window]))",
        sources: INTERNAL,
        metrics: &["vectorized_storage_log_batches_written"],
        labels: &["namespace", "topic"],
        unit: "batches/s",
        note: "every replica counts: too high by the replication factor",
    },
    Query {
        id: "R6a",
        title: "backlog by scheduling group",
        promql: "sum by (instance, group) (vectorized_scheduler_queue_length)",
        sources: INTERNAL,
        metrics: &["vectorized_scheduler_queue_length"],
        labels: &["instance", "group"],
        unit: "tasks",
        note: "groups change with the version",
    },
    Query {
        id: "R6b",
        title: "CPU by shard",
        promql: "avg by (instance, shard) (rate(redpanda_cpu_busy_seconds_total[$window]))",
        sources: &[Source::Redpanda25, Source::RedpandaOlder, Source::HoneBroker, Source::RedpandaPublic],
        metrics: &["redpanda_cpu_busy_seconds_total"],
        labels: &["instance", "shard"],
        unit: "share",
        note: "of Redpanda's public endpoint",
    },
    Query {
        id: "R7",
        title: "batches in a Produce request",
        promql: "sum(rate(vectorized_cluster_partition_batches_produced{namespace=\"kafka\"}[$window])) / \
                 (sum(rate(vectorized_kafka_handler_requests_completed_total{handler=\"produce\"}[$window])) > 0)",
        sources: NEW,
        metrics: &[
            "vectorized_cluster_partition_batches_produced",
            "vectorized_kafka_handler_requests_completed_total",
        ],
        labels: &["namespace", "handler"],
        unit: "batches",
        note: "1.0 where every request is for one partition, as librdkafka's are",
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
        note: "which classes of I/O there are changes with the version",
    },
    Query {
        id: "R8b",
        title: "fsyncs a batch",
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
        note: "between two bounds of a histogram",
    },
    Query {
        id: "P1",
        title: "bytes of a Produce request: no batch is larger in the mean",
        promql: "sum(rate(redpanda_kafka_request_bytes_total{redpanda_namespace=\"kafka\",redpanda_request=\"produce\"}[$window])) / \
                 (sum(rate(redpanda_kafka_request_latency_seconds_count{redpanda_request=\"produce\"}[$window])) > 0)",
        sources: PUBLIC,
        metrics: &["redpanda_kafka_request_bytes_total", "redpanda_kafka_request_latency_seconds_count"],
        labels: &["redpanda_namespace", "redpanda_request"],
        unit: "bytes",
        note: "a bound; exact where every request is for one partition",
    },
    Query {
        id: "K1",
        title: "effective batch size by topic",
        promql: "sum by (topic) ($bytes_in) / (sum by (topic) ($batches) > 0)",
        sources: KAFKA,
        metrics: &["BytesInPerSec", "TotalProduceRequestsPerSec"],
        labels: &["topic"],
        unit: "bytes",
        note: "Kafka marks TotalProduceRequestsPerSec once for each partition of a request, which has one batch there; rejected batches, \
               transaction markers and commits of offsets count, too",
    },
    Query {
        id: "K2",
        title: "records a batch by topic",
        promql: "sum by (topic) ($records_in) / (sum by (topic) ($batches) > 0)",
        sources: KAFKA,
        metrics: &["MessagesInPerSec", "TotalProduceRequestsPerSec"],
        labels: &["topic"],
        unit: "records",
        note: "as K1",
    },
];

impl Query {
    /// By its id.
    pub fn named(id: &str) -> Option<&'static Self> {
        QUERIES.iter().find(|query| query.id == id)
    }

    /// The text for a source with metrics of these names, over a window such as `5m`. `None` where it is not for this source, or one of
    /// its metrics is not exported.
    /// `more` narrows the series down, such as `job="redpanda"`.
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
        if source != Source::KafkaJmx {
            let exported = self.metrics.iter().all(|metric| names.contains(*metric));
            return exported.then(|| self.narrowed(more).replace("$window", window));
        }
        let picks = source.picks(names);
        let mut text = self.promql.to_owned();
        for (placeholder, quantity) in [
            ("$bytes_in", Quantity::ProducedBytes),
            ("$batches", Quantity::ProducedBatches),
            ("$records_in", Quantity::ProducedRecords),
        ] {
            if text.contains(placeholder) {
                let pick = picks.iter().find(|pick| pick.quantity == quantity)?;
                text = text.replace(placeholder, &rate(pick, window, more));
            }
        }
        Some(text)
    }

    /// With more conditions on each of its metrics. No metric's name is in another's, which a test looks after.
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

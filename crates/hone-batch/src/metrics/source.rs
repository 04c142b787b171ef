//! The source of a page's metrics, by their names, and the name of each quantity there.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::exposition::Sample;
use super::quantity::Quantity;

/// The source of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The embedded broker's `/metrics`.
    HoneBroker,
    /// Redpanda's internal endpoint (`/metrics`), 25.1 and newer: with counters of produced batches.
    Redpanda25,
    /// Redpanda's internal endpoint before 25.1.
    RedpandaOlder,
    /// Redpanda's public endpoint (`/public_metrics`) alone: no counter of batches.
    RedpandaPublic,
    /// Apache Kafka through a JMX exporter, in any of its spellings.
    KafkaJmx,
}

/// Names of an unknown source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{names} metrics, but none of Redpanda (vectorized_..., redpanda_...), of Apache Kafka by the JMX \
     exporter (kafka_server_brokertopicmetrics_...) or of the embedded broker{example}\n  next: use the \
     broker's own endpoint (Redpanda: http://HOST:9644/metrics), and let a JMX exporter export \
     kafka.server:type=BrokerTopicMetrics,*"
)]
pub struct Unrecognised {
    names: usize,
    example: String,
}

impl Source {
    /// The name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::HoneBroker => "hone-broker",
            Self::Redpanda25 => "redpanda-25.1",
            Self::RedpandaOlder => "redpanda-older",
            Self::RedpandaPublic => "redpanda-public",
            Self::KafkaJmx => "kafka-jmx",
        }
    }

    /// Recognises the source of metrics with these names.
    ///
    /// # Errors
    /// Fails when it is none of the sources.
    pub fn recognise(names: &BTreeSet<String>) -> Result<Self, Unrecognised> {
        let begins = |prefix: &str| {
            names.range(prefix.to_owned()..).next().is_some_and(|name| name.starts_with(prefix))
        };
        if begins("hone_broker_") {
            return Ok(Self::HoneBroker);
        }
        if names.contains("vectorized_cluster_partition_batches_produced") {
            return Ok(Self::Redpanda25);
        }
        if begins("vectorized_") {
            return Ok(Self::RedpandaOlder);
        }
        if begins("redpanda_") {
            return Ok(Self::RedpandaPublic);
        }
        let kafka = kafka_picks(names);
        if kafka.iter().any(|pick| is_of_topics(pick.quantity)) {
            return Ok(Self::KafkaJmx);
        }
        let example = names.first().map(|name| format!(" (the first is {name})")).unwrap_or_default();
        Err(Unrecognised { names: names.len(), example })
    }

    /// The metrics of each quantity, among these names. Several picks of one quantity are for different labels of one metric.
    pub fn picks(self, names: &BTreeSet<String>) -> Vec<Pick> {
        let fixed: &[&[FixedPick]] = match self {
            Self::HoneBroker => &[&PRODUCED, &WRITTEN, &REDPANDA_BROKER, &HONE_DISK, &LAG],
            Self::Redpanda25 => &[&PRODUCED, &WRITTEN, &REDPANDA_BROKER, &REDPANDA_DISK, &LAG],
            Self::RedpandaOlder => &[&WRITTEN, &REDPANDA_BROKER, &REDPANDA_DISK, &LAG],
            Self::RedpandaPublic => &[&PUBLIC, &LAG],
            Self::KafkaJmx => &[&LAG],
        };
        let mut picks = if self == Self::KafkaJmx { kafka_picks(names) } else { Vec::new() };
        for fixed in fixed.iter().flat_map(|picks| picks.iter()) {
            // If a quantity has several names, the first existing one counts.
            let is_taken = picks.iter().any(|pick| pick.quantity == fixed.quantity);
            if names.contains(fixed.metric) && !is_taken {
                picks.push(fixed.pick());
            }
        }
        without_needless_offsets(picks)
    }

    /// Whether written batches of leaders replace produced ones: before 25.1 there is no other way.
    pub fn joins_leaders(self) -> bool {
        self == Self::RedpandaOlder
    }

    /// The remedy for a quantity that it does not export.
    pub fn remedy(self, quantity: Quantity) -> &'static str {
        use Quantity as Q;
        match (self, quantity) {
            (Self::RedpandaPublic, Q::ProducedBatches | Q::WrittenBatches | Q::BatchSizes) => {
                "the public endpoint counts no batches; scrape /metrics as well as /public_metrics, or read \
                 the topic with `hone batch xray`"
            }
            (Self::HoneBroker, Q::ProduceTimeouts) => {
                "the embedded broker has no followers to wait for, so it never answers with REQUEST_TIMED_OUT"
            }
            (Self::HoneBroker, Q::GroupLag) => "no consumer group has committed an offset",
            (Self::Redpanda25 | Self::RedpandaOlder | Self::RedpandaPublic, Q::ProduceTimeouts) => {
                "Redpanda does not count them; its replication errors (`/metrics`) are the closest figure, \
                 and producers count REQUEST_TIMED_OUT"
            }
            (Self::Redpanda25 | Self::RedpandaOlder | Self::RedpandaPublic, Q::GroupLag) => {
                "no consumer group has committed an offset, or enable_consumer_group_metrics leaves it out; set it to \
                 [\"group\", \"partition\", \"consumer_lag\"] (consumer_lag from 25.1 on), and scrape /public_metrics, too"
            }
            (Self::RedpandaPublic, _) => "the public endpoint does not have it; scrape /metrics, too",
            (Self::RedpandaOlder, Q::ProducedBatches | Q::ProducedRecords) => {
                "Redpanda has this counter from 25.1 on"
            }
            (Self::KafkaJmx, Q::ShardCpu | Q::ShardUtilization | Q::DiskBytes | Q::BatchSizes) => {
                "Apache Kafka does not count it"
            }
            (Self::KafkaJmx, Q::ProduceTimeouts) => {
                "the JMX exporter's rules leave out kafka.server:type=DelayedProduceMetrics,*; or no request has timed out since the \
                 broker started, as older versions of Kafka create the counter with the first one"
            }
            (Self::KafkaJmx, Q::GroupLag) => {
                "Kafka's brokers do not export it; let a Prometheus scrape kminion, kafka-lag-exporter or kafka_exporter, and name it \
                 with --prometheus"
            }
            (Self::KafkaJmx, _) => {
                "the JMX exporter's rules leave it out; export kafka.server:type=BrokerTopicMetrics,*, \
                 kafka.network:type=RequestMetrics,* and kafka.log:type=LogFlushStats,*"
            }
            _ => "this broker does not export it",
        }
    }

    /// The remedy if partitions are not distinguished.
    pub fn remedy_of_partitions(self) -> &'static str {
        match self {
            Self::KafkaJmx => {
                "Apache Kafka counts batches by topic only; `hone batch xray` reads the partitions themselves"
            }
            Self::RedpandaPublic => "the public endpoint counts no batches; scrape /metrics, too",
            _ => {
                "no counter has the label `partition`; if Redpanda's aggregate_metrics is true, set it to \
                 false"
            }
        }
    }
}

/// There are as many offset series as partitions, and they are necessary only if no exporter has the lag itself.
fn without_needless_offsets(mut picks: Vec<Pick>) -> Vec<Pick> {
    let has = |quantity| picks.iter().any(|pick| pick.quantity == quantity);
    if has(Q::GroupLagSum) && has(Q::GroupLagMax) || has(Q::GroupLag) {
        picks.retain(|pick| !matches!(pick.quantity, Q::CommittedOffset | Q::EndOffset));
    }
    picks
}

fn is_of_topics(quantity: Quantity) -> bool {
    matches!(quantity, Quantity::ProducedBytes | Quantity::ProducedBatches | Quantity::ProducedRecords)
}

/// How a metric counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// A sum that only grows, until a restart.
    Sum,
    /// A value of the moment.
    Level,
    /// A rate per second that the exporter has already averaged (Kafka's OneMinuteRate).
    Rate,
}

/// A condition on a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Only {
    /// It has this value.
    Is(&'static str, String),
    /// It is absent, or empty.
    Absent(&'static str),
    /// It exists and names no internal topic, which begin with two underscores: coordinators write a batch for each commit like a producer,
    /// and no linger changes those.
    OfUsers(&'static str),
}

/// The metric of a quantity.
#[derive(Debug, Clone, PartialEq)]
pub struct Pick {
    /// The quantity.
    pub quantity: Quantity,
    /// The metric, as spelled there.
    pub metric: String,
    /// The series that count.
    pub only: Vec<Only>,
    /// How it counts.
    pub counting: Counting,
    /// Converts the metric's unit into the quantity's.
    pub factor: f64,
}

impl Pick {
    /// Whether a sample belongs to the metric.
    pub fn takes(&self, sample: &Sample<'_>) -> bool {
        self.only.iter().all(|only| match only {
            Only::Is(label, wanted) => sample.labels.get(label).as_deref() == Some(wanted.as_str()),
            Only::Absent(label) => sample.labels.get(label).is_none_or(|value| value.is_empty()),
            Only::OfUsers(label) => {
                sample.labels.get(label).is_some_and(|value| !value.is_empty() && !value.starts_with("__"))
            }
        })
    }

    /// A PromQL selector, with more conditions in front, such as `job="redpanda"`.
    pub fn selector(&self, more: &str) -> String {
        let conditions = self.only.iter().map(|only| match only {
            Only::Is(label, value) => Cow::Owned(format!("{label}=\"{value}\"")),
            Only::Absent(label) => Cow::Owned(format!("{label}=\"\"")),
            Only::OfUsers(label) => Cow::Owned(format!("{label}!=\"\",{label}!~\"__.*\"")),
        });
        let more = (!more.is_empty()).then_some(Cow::Borrowed(more));
        let all: Vec<Cow<'_, str>> = more.into_iter().chain(conditions).collect();
        let braces = if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) };
        format!("{}{braces}", self.metric)
    }
}

/// A pick whose metric has one name only.
struct FixedPick {
    quantity: Quantity,
    metric: &'static str,
    only: &'static [(&'static str, &'static str)],
    factor: f64,
}

impl FixedPick {
    const fn new(
        quantity: Quantity,
        metric: &'static str,
        only: &'static [(&'static str, &'static str)],
    ) -> Self {
        Self { quantity, metric, only, factor: 1.0 }
    }

    const fn times(self, factor: f64) -> Self {
        Self { factor, ..self }
    }

    fn pick(&self) -> Pick {
        let only = self.only.iter().map(|(label, value)| Only::Is(label, (*value).to_owned())).collect();
        let counting = if self.quantity.is_level() { Counting::Level } else { Counting::Sum };
        Pick { quantity: self.quantity, metric: self.metric.to_owned(), only, counting, factor: self.factor }
    }
}

/// Drops internal logs, such as the controller's and the key-value store's.
const USERS: &[(&str, &str)] = &[("namespace", "kafka")];

use Quantity as Q;

/// Leaders and clients only: Redpanda's internal metrics reference, 25.1.
const PRODUCED: [FixedPick; 3] = [
    FixedPick::new(Q::ProducedBytes, "vectorized_cluster_partition_bytes_produced_total", USERS),
    FixedPick::new(Q::ProducedBatches, "vectorized_cluster_partition_batches_produced", USERS),
    FixedPick::new(Q::ProducedRecords, "vectorized_cluster_partition_records_produced", USERS),
];

/// Every replica. `records_produced` is older than its batches.
const WRITTEN: [FixedPick; 6] = [
    FixedPick::new(Q::WrittenBytes, "vectorized_storage_log_written_bytes", USERS),
    FixedPick::new(Q::WrittenBatches, "vectorized_storage_log_batches_written", USERS),
    FixedPick::new(Q::AppendedBytes, "vectorized_storage_log_written_bytes", &[]),
    FixedPick::new(Q::AppendedBatches, "vectorized_storage_log_batches_written", &[]),
    FixedPick::new(Q::ProducedRecords, "vectorized_cluster_partition_records_produced", USERS),
    FixedPick::new(Q::Leader, "vectorized_cluster_partition_leader", USERS),
];

const REDPANDA_BROKER: [FixedPick; 14] = [
    FixedPick::new(Q::ProduceLatency, "vectorized_kafka_latency_produce_latency_us_bucket", &[]).times(1e-3),
    FixedPick::new(
        Q::ProduceLatency,
        "vectorized_kafka_handler_latency_microseconds_bucket",
        &[("handler", "produce")],
    )
    .times(1e-3),
    FixedPick::new(Q::ReplicationErrors, "vectorized_raft_replicate_request_errors", USERS),
    FixedPick::new(Q::CommittedOffset, "vectorized_kafka_group_offset", &[]),
    FixedPick::new(Q::EndOffset, "vectorized_cluster_partition_high_watermark", USERS),
    FixedPick::new(
        Q::ProduceRequests,
        "vectorized_kafka_handler_requests_completed_total",
        &[("handler", "produce")],
    ),
    // Both endpoints of the embedded broker have it; with Redpanda only the public one.
    FixedPick::new(Q::ShardCpu, "redpanda_cpu_busy_seconds_total", &[]),
    FixedPick::new(Q::ShardCpu, "vectorized_reactor_cpu_busy_ms", &[]).times(1e-3),
    FixedPick::new(Q::ShardUtilization, "vectorized_reactor_utilization", &[]).times(1e-2),
    FixedPick::new(Q::Waiting, "vectorized_scheduler_queue_length", &[]),
    FixedPick::new(Q::Fsyncs, "vectorized_reactor_fsyncs", &[]),
    FixedPick::new(Q::BatchSizes, "vectorized_kafka_batch_size_bucket", &[]),
    FixedPick::new(Q::ReceivedBytes, "vectorized_kafka_rpc_received_bytes", &[]),
    FixedPick::new(Q::SentBytes, "vectorized_kafka_rpc_sent_bytes", &[]),
];

const REDPANDA_DISK: [FixedPick; 1] =
    [FixedPick::new(Q::DiskBytes, "vectorized_io_queue_total_write_bytes", &[])];
const HONE_DISK: [FixedPick; 1] =
    [FixedPick::new(Q::DiskBytes, "hone_broker_storage_write_bytes_total", &[])];

const PUBLIC: [FixedPick; 10] = [
    FixedPick::new(
        Q::ProduceLatency,
        "redpanda_kafka_request_latency_seconds_bucket",
        &[("redpanda_request", "produce")],
    )
    .times(1e3),
    FixedPick::new(
        Q::ProduceLatency,
        "redpanda_kafka_handler_latency_seconds_bucket",
        &[("handler", "produce")],
    )
    .times(1e3),
    FixedPick::new(Q::CommittedOffset, "redpanda_kafka_consumer_group_committed_offset", &[]),
    FixedPick::new(Q::EndOffset, "redpanda_kafka_max_offset", &[("redpanda_namespace", "kafka")]),
    FixedPick::new(
        Q::ProducedBytes,
        "redpanda_kafka_request_bytes_total",
        &[("redpanda_namespace", "kafka"), ("redpanda_request", "produce")],
    ),
    FixedPick::new(
        Q::ProducedRecords,
        "redpanda_kafka_records_produced_total",
        &[("redpanda_namespace", "kafka")],
    ),
    FixedPick::new(
        Q::ProduceRequests,
        "redpanda_kafka_request_latency_seconds_count",
        &[("redpanda_request", "produce")],
    ),
    FixedPick::new(Q::ShardCpu, "redpanda_cpu_busy_seconds_total", &[]),
    FixedPick::new(Q::ReceivedBytes, "redpanda_rpc_received_bytes", &[("redpanda_server", "kafka")]),
    FixedPick::new(Q::SentBytes, "redpanda_rpc_sent_bytes", &[("redpanda_server", "kafka")]),
];

/// Redpanda's own, and those of exporters that work with any cluster: kafka-lag-exporter, kafka_exporter, kminion.
const LAG: [FixedPick; 5] = [
    FixedPick::new(Q::GroupLagSum, "redpanda_kafka_consumer_group_lag_sum", &[]),
    FixedPick::new(Q::GroupLagMax, "redpanda_kafka_consumer_group_lag_max", &[]),
    FixedPick::new(Q::GroupLag, "kafka_consumergroup_group_lag", &[]),
    FixedPick::new(Q::GroupLag, "kafka_consumergroup_lag", &[]),
    FixedPick::new(Q::GroupLag, "kminion_kafka_consumer_group_topic_partition_lag", &[]),
];

/// The JMX names of Kafka's topic metrics (`kafka.server:type=BrokerTopicMetrics,name=...PerSec,topic=...`).
///
/// Kafka increments `TotalProduceRequestsPerSec` once for each partition of a request (`ReplicaManager.appendToLocalLog`), and a partition
/// has exactly one batch in a Produce request of version 3 or newer, so it counts batches.
const KAFKA_TOPIC: [(Quantity, &str); 3] = [
    (Q::ProducedBytes, "BytesIn"),
    (Q::ProducedBatches, "TotalProduceRequests"),
    (Q::ProducedRecords, "MessagesIn"),
];

const KAFKA_PREFIX: &str = "kafka_server_brokertopicmetrics_";

/// Produce requests that waited for followers (`DelayedProduce`). Each partition has its own series, in addition to the sum.
const KAFKA_EXPIRED: &str = "kafka_server_delayedproducemetrics_";

/// Percentiles of a JMX histogram in tenths, and the names of the exporter's attributes.
const KAFKA_LEVELS: [(u16, &str); 6] =
    [(500, "50"), (750, "75"), (950, "95"), (980, "98"), (990, "99"), (999, "999")];

/// Endings of a sum's name, after the bean's: by the JMX exporter's example rules (`kafka-2_0_0.yml`), by older ones of them, by the Count
/// of every bean, and by rules that name no attribute.
const SUM_ENDINGS: [&str; 5] = ["_total", "persec_total", "persec_count", "persec_count_total", "persec"];

/// Kafka's names, whatever the exporter's rules make of upper case.
fn kafka_picks(names: &BTreeSet<String>) -> Vec<Pick> {
    let kafka: Vec<(String, &String)> = names
        .iter()
        .map(|name| (name.to_ascii_lowercase(), name))
        .filter(|(lower, _)| lower.starts_with("kafka_") || lower == "process_cpu_seconds_total")
        .collect();
    let find =
        |wanted: &str| kafka.iter().find(|(lower, _)| lower == wanted).map(|(_, name)| (*name).clone());
    let pick = |quantity, metric, only, counting| Pick { quantity, metric, only, counting, factor: 1.0 };
    let mut picks: Vec<Pick> = KAFKA_TOPIC
        .into_iter()
        .filter_map(|(quantity, bean)| {
            let (metric, named, counting) = kafka_metric(KAFKA_PREFIX, bean, &find)?;
            let only = named.into_iter().chain([Only::OfUsers("topic")]).collect();
            Some(pick(quantity, metric, only, counting))
        })
        .collect();
    // The sums over all topics: a topic has no counter of bytes out before a consumer reads it, and replication has its own counters.
    for (quantity, bean) in [(Q::ReceivedBytes, "BytesIn"), (Q::SentBytes, "BytesOut")] {
        if let Some((metric, named, counting)) = kafka_metric(KAFKA_PREFIX, bean, &find) {
            picks.push(pick(
                quantity,
                metric,
                named.into_iter().chain([Only::Absent("topic")]).collect(),
                counting,
            ));
        }
    }
    if let Some((metric, named, counting)) = kafka_metric(KAFKA_EXPIRED, "Expires", &find) {
        let only = named.into_iter().chain([Only::Absent("topic")]).collect();
        picks.push(pick(Q::ProduceTimeouts, metric, only, counting));
    }
    picks.extend(KAFKA_LEVELS.into_iter().filter_map(|(tenths, named)| {
        let (metric, only) = kafka_level(named, &find)?;
        Some(pick(Q::ProduceLatencyAt(tenths), metric, only, Counting::Level))
    }));
    let others: [(Quantity, &[&str], Vec<Only>, Counting); 4] = [
        (
            Q::ProduceRequests,
            &[
                "kafka_network_requestmetrics_requests_total",
                "kafka_network_requestmetrics_requestspersec_total",
                "kafka_network_requestmetrics_requestspersec_count",
                "kafka_network_requestmetrics_requestspersec",
            ],
            vec![Only::Is("request", "Produce".to_owned())],
            Counting::Sum,
        ),
        (
            Q::Waiting,
            &[
                "kafka_network_requestchannel_requestqueuesize",
                "kafka_network_requestchannel_requestqueuesize_value",
            ],
            Vec::new(),
            Counting::Level,
        ),
        (
            Q::Fsyncs,
            &[
                "kafka_log_logflushstats_logflushrateandtimems_count",
                "kafka_log_logflushstats_logflushrateandtimems_count_total",
            ],
            Vec::new(),
            Counting::Sum,
        ),
        (Q::ProcessCpu, &["process_cpu_seconds_total"], Vec::new(), Counting::Sum),
    ];
    for (quantity, spellings, only, counting) in others {
        if let Some(metric) = spellings.iter().find_map(|spelling| find(spelling)) {
            picks.push(pick(quantity, metric, only, counting));
        }
    }
    picks
}

/// The metric of a bean, a label that names the bean where the metric does not, and how it counts.
fn kafka_metric(
    prefix: &str,
    bean: &str,
    find: &impl Fn(&str) -> Option<String>,
) -> Option<(String, Option<Only>, Counting)> {
    let lower = bean.to_ascii_lowercase();
    let own = SUM_ENDINGS.iter().find_map(|ending| find(&format!("{prefix}{lower}{ending}")));
    if let Some(metric) = own {
        return Some((metric, None, Counting::Sum));
    }
    // Without rules the exporter names the attribute, and puts the bean into a label.
    let named = || Some(Only::Is("name", format!("{bean}PerSec")));
    for (ending, counting) in [("count", Counting::Sum), ("count_total", Counting::Sum)] {
        if let Some(metric) = find(&format!("{prefix}{ending}")) {
            return Some((metric, named(), counting));
        }
    }
    if let Some(metric) = find(&format!("{prefix}{lower}persec_oneminuterate")) {
        return Some((metric, None, Counting::Rate));
    }
    find(&format!("{prefix}oneminuterate")).map(|metric| (metric, named(), Counting::Rate))
}

/// The metric of a percentile of Kafka's `TotalTimeMs` of Produce requests: by the exporter's example rules, by the attribute of every bean,
/// and without rules.
fn kafka_level(named: &str, find: &impl Fn(&str) -> Option<String>) -> Option<(String, Vec<Only>)> {
    const REQUESTS: &str = "kafka_network_requestmetrics_";
    let produce = Only::Is("request", "Produce".to_owned());
    if let Some(metric) = find(&format!("{REQUESTS}totaltimems")) {
        return Some((metric, vec![produce, Only::Is("quantile", format!("0.{named}"))]));
    }
    if let Some(metric) = find(&format!("{REQUESTS}totaltimems_{named}thpercentile")) {
        return Some((metric, vec![produce]));
    }
    let metric = find(&format!("{REQUESTS}{named}thpercentile"))?;
    Some((metric, vec![Only::Is("name", "TotalTimeMs".to_owned()), produce]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[&str]) -> BTreeSet<String> {
        all.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn sources_are_told_by_names() {
        for (all, expected) in [
            (
                &[
                    "hone_broker_storage_errors_total",
                    "vectorized_cluster_partition_batches_produced",
                    "redpanda_cpu_busy_seconds_total",
                ][..],
                Source::HoneBroker,
            ),
            (
                &["vectorized_cluster_partition_batches_produced", "vectorized_storage_log_written_bytes"],
                Source::Redpanda25,
            ),
            (&["go_goroutines", "vectorized_storage_log_written_bytes"], Source::RedpandaOlder),
            (&["redpanda_kafka_request_bytes_total"], Source::RedpandaPublic),
            (&["kafka_server_brokertopicmetrics_bytesin_total"], Source::KafkaJmx),
            (&["kafka_server_BrokerTopicMetrics_Count"], Source::KafkaJmx),
            (&["kafka_server_brokertopicmetrics_bytesinpersec_oneminuterate"], Source::KafkaJmx),
        ] {
            assert_eq!(Source::recognise(&names(all)), Ok(expected), "{all:?}");
        }
        let error = Source::recognise(&names(&["go_gc_x", "kafka_server_x"])).unwrap_err().to_string();
        assert!(error.starts_with("2 metrics, but none of Redpanda "), "{error}");
        assert!(error.contains("the first is go_gc_x") && error.contains("next:"), "{error}");
    }

    #[test]
    fn kafkas_spellings_are_one_quantity() {
        for (all, selector, counting) in [
            (
                &["kafka_server_brokertopicmetrics_totalproducerequests_total"][..],
                "kafka_server_brokertopicmetrics_totalproducerequests_total{topic!=\"\",topic!~\"__.*\"}",
                Counting::Sum,
            ),
            (
                &["kafka_server_BrokerTopicMetrics_TotalProduceRequestsPerSec_Count"],
                "kafka_server_BrokerTopicMetrics_TotalProduceRequestsPerSec_Count{topic!=\"\",topic!~\"__.*\"}",
                Counting::Sum,
            ),
            (
                &["kafka_server_BrokerTopicMetrics_Count", "kafka_server_BrokerTopicMetrics_OneMinuteRate"],
                "kafka_server_BrokerTopicMetrics_Count{name=\"TotalProduceRequestsPerSec\",topic!=\"\",topic!~\"__.*\"}",
                Counting::Sum,
            ),
            (
                &["kafka_server_brokertopicmetrics_totalproducerequestspersec_oneminuterate"],
                "kafka_server_brokertopicmetrics_totalproducerequestspersec_oneminuterate{topic!=\"\",topic!~\"__.*\"}",
                Counting::Rate,
            ),
        ] {
            let picks = Source::KafkaJmx.picks(&names(all));
            let pick = picks.iter().find(|pick| pick.quantity == Quantity::ProducedBatches).unwrap();
            assert_eq!((pick.selector(""), pick.counting), (selector.to_owned(), counting));
        }
    }

    /// By the exporter's example rules, with an attribute in each name, and without rules.
    #[test]
    fn kafkas_percentiles_are_found_in_every_spelling() {
        for (metric, selector) in [
            (
                "kafka_network_requestmetrics_totaltimems",
                "kafka_network_requestmetrics_totaltimems{request=\"Produce\",quantile=\"0.999\"}",
            ),
            (
                "kafka_network_RequestMetrics_TotalTimeMs_999thPercentile",
                "kafka_network_RequestMetrics_TotalTimeMs_999thPercentile{request=\"Produce\"}",
            ),
            (
                "kafka_network_RequestMetrics_999thPercentile",
                "kafka_network_RequestMetrics_999thPercentile{name=\"TotalTimeMs\",request=\"Produce\"}",
            ),
        ] {
            let picks = Source::KafkaJmx.picks(&names(&[metric]));
            let pick = picks.iter().find(|pick| pick.quantity == Quantity::ProduceLatencyAt(999)).unwrap();
            assert_eq!((pick.selector(""), pick.counting), (selector.to_owned(), Counting::Level));
        }
    }

    #[test]
    fn time_outs_of_partitions_are_not_counted_beside_their_sum() {
        let picks = Source::KafkaJmx.picks(&names(&["kafka_server_delayedproducemetrics_expires_total"]));
        assert_eq!(picks[0].quantity, Quantity::ProduceTimeouts);
        assert_eq!(picks[0].selector(""), "kafka_server_delayedproducemetrics_expires_total{topic=\"\"}");
        let counts = |line: &str| {
            let sample = super::super::exposition::read_only(line, |_| true).next().unwrap().unwrap();
            picks[0].takes(&sample)
        };
        assert!(counts("kafka_server_delayedproducemetrics_expires_total 3"));
        assert!(!counts("kafka_server_delayedproducemetrics_expires_total{partition=\"0\",topic=\"t\"} 3"));
    }

    #[test]
    fn offsets_are_left_alone_where_somebody_exports_the_lag() {
        let has_offsets = |more: &[&str]| {
            let offsets = ["vectorized_kafka_group_offset", "vectorized_cluster_partition_high_watermark"];
            let picks = Source::Redpanda25.picks(&names(&[&offsets[..], more].concat()));
            picks.iter().any(|pick| matches!(pick.quantity, Q::CommittedOffset | Q::EndOffset))
        };
        assert!(has_offsets(&[]));
        assert!(!has_offsets(&["kminion_kafka_consumer_group_topic_partition_lag"]));
        let own = ["redpanda_kafka_consumer_group_lag_sum", "redpanda_kafka_consumer_group_lag_max"];
        assert!(!has_offsets(&own) && has_offsets(&own[..1]));
    }

    #[test]
    fn a_quantity_with_two_names_is_taken_once() {
        let all = names(&["redpanda_cpu_busy_seconds_total", "vectorized_reactor_cpu_busy_ms"]);
        let picks = Source::HoneBroker.picks(&all);
        assert_eq!(picks.len(), 1, "{picks:?}");
        assert_eq!(picks[0].selector("job=\"x\""), "redpanda_cpu_busy_seconds_total{job=\"x\"}");
    }
}

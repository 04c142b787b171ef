//! Answers of a Prometheus server's HTTP API, and the queries that give the same rates as two pages of a broker.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::quantity::{By, Dimension, Quantity, Row};
use super::snapshot::dimension;
use super::source::{Counting, Pick};

/// Why an answer can't be used.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// No answer of this API.
    #[error("it is not an answer of Prometheus's HTTP API: {0}")]
    Shape(#[from] serde_json::Error),
    /// The server refused.
    #[error("{kind}: {said}")]
    Refused {
        /// The kind that it gives.
        kind: String,
        /// Its words.
        said: String,
    },
    /// A result of another type than the query requires.
    #[error("its result is a {0}")]
    Other(String),
}

/// The envelope of every answer.
#[derive(Debug, Deserialize)]
struct Answer<T> {
    status: String,
    data: Option<T>,
    #[serde(default, rename = "errorType")]
    error_type: String,
    #[serde(default)]
    error: String,
}

fn data<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, AnswerError> {
    let answer: Answer<T> = serde_json::from_str(text)?;
    match answer.data {
        Some(data) if answer.status == "success" => Ok(data),
        _ => Err(AnswerError::Refused { kind: answer.error_type, said: answer.error }),
    }
}

#[derive(Debug, Deserialize)]
struct Queried {
    #[serde(rename = "resultType")]
    kind: String,
    result: serde_json::Value,
}

#[derive(Debug, Deserialize)]
struct Instant {
    metric: BTreeMap<String, String>,
    value: (f64, String),
}

#[derive(Debug, Deserialize)]
struct Ranged {
    metric: BTreeMap<String, String>,
    values: Vec<(f64, String)>,
}

/// A series with its labels and its points: seconds since 1970, and the value.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Points, in the order of time.
    pub points: Vec<(f64, f64)>,
}

/// Names: the answer to `/api/v1/label/__name__/values`.
///
/// # Errors
/// Fails when it is no such answer.
pub fn read_names(text: &str) -> Result<Vec<String>, AnswerError> {
    data(text)
}

/// Series of `/api/v1/query` (with one point each) or `/api/v1/query_range`, without points that are not finite numbers, and without series
/// that have no point.
///
/// # Errors
/// Fails when the server refused, or when it is no such answer.
pub fn read_series(text: &str) -> Result<Vec<Series>, AnswerError> {
    let queried: Queried = data(text)?;
    let all: Vec<Ranged> = match queried.kind.as_str() {
        "vector" => {
            let instants: Vec<Instant> = serde_json::from_value(queried.result)?;
            instants.into_iter().map(|one| Ranged { metric: one.metric, values: vec![one.value] }).collect()
        }
        "matrix" => serde_json::from_value(queried.result)?,
        other => return Err(AnswerError::Other(other.to_owned())),
    };
    let series = all.into_iter().map(|one| Series {
        labels: one.metric,
        points: one.values.iter().filter_map(|(at, value)| Some((*at, finite(value)?))).collect(),
    });
    Ok(series.filter(|series| !series.points.is_empty()).collect())
}

fn finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

/// The query for a pick: rates over `window` (such as `1m`), by the dimensions of its quantity. `more` adds conditions, such as
/// `job="redpanda"`.
pub fn question(pick: &Pick, window: &str, more: &str, by: By) -> String {
    let sum = if pick.quantity.is_highest() { "max" } else { "sum" };
    format!("{sum} by ({}) ({})", labels(pick, by), rate(pick, &pick.selector(more), window))
}

/// Like [`question`], only over partitions that the broker leads (R3b).
pub fn question_of_leaders(pick: &Pick, leader: &Pick, window: &str, more: &str, by: By) -> String {
    let rate = rate(pick, &pick.selector(more), window);
    format!(
        "sum by ({}) ({rate} and on (instance, namespace, topic, partition) {} == 1)",
        labels(pick, by),
        leader.selector(more)
    )
}

fn rate(pick: &Pick, selector: &str, window: &str) -> String {
    match pick.counting {
        Counting::Sum => format!("rate({selector}[{window}])"),
        Counting::Level | Counting::Rate => selector.to_owned(),
    }
}

/// The labels of the dimensions in this metric.
fn labels(pick: &Pick, by: By) -> String {
    let begins = |prefix: &str| pick.metric.starts_with(prefix);
    let (is_redpanda, is_kminion) = (begins("redpanda_"), begins("kminion_"));
    let name = |dimension: &Dimension| match dimension {
        Dimension::Instance => "instance",
        Dimension::Topic if is_redpanda => "redpanda_topic",
        Dimension::Topic if is_kminion => "topic_name",
        Dimension::Topic => "topic",
        Dimension::Partition if is_redpanda => "redpanda_partition",
        Dimension::Partition if is_kminion => "partition_id",
        Dimension::Partition => "partition",
        Dimension::Shard => "shard",
        Dimension::Group if pick.quantity == Quantity::DiskBytes => "class",
        Dimension::Group if is_redpanda => "redpanda_group",
        Dimension::Group if is_kminion => "group_id",
        Dimension::Group if begins("kafka_consumergroup_lag") => "consumergroup",
        Dimension::Group => "group",
        Dimension::Bound => "le",
    };
    pick.quantity.dimensions(by).iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Rows from the answer to a query for a quantity.
pub fn rows(quantity: Quantity, factor: f64, series: &[Series]) -> Vec<Row> {
    series.iter().filter_map(|series| row(quantity, factor, series)).collect()
}

fn row(quantity: Quantity, factor: f64, series: &Series) -> Option<Row> {
    let (_, value) = series.points.last()?;
    let (of_value, of_bound) = quantity.scales(factor);
    let mut row = Row::of(quantity, value * of_value);
    for (label, value) in &series.labels {
        match (label.as_str(), dimension(label)) {
            ("instance", _) => row.instance.clone_from(value),
            (_, Some((Dimension::Topic, _))) => row.topic.clone_from(value),
            (_, Some((Dimension::Partition, _))) => row.partition.clone_from(value),
            (_, Some((Dimension::Shard, _))) => row.shard.clone_from(value),
            (_, Some((Dimension::Group, _))) => row.group.clone_from(value),
            (_, Some((Dimension::Bound, _))) => row.bound = value.parse().unwrap_or(f64::NAN) * of_bound,
            _ => {}
        }
    }
    Some(row)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::source::Source;
    use super::*;

    #[test]
    fn answers_of_both_kinds_are_read() {
        let text = r#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"topic":"t"},"value":[1700000000.5,"2.5"]},{"metric":{},"value":[1,"NaN"]}]}}"#;
        let series = read_series(text).unwrap();
        assert_eq!(series.len(), 1);
        assert_eq!(series[0].points, [(1_700_000_000.5, 2.5)]);
        assert_eq!(rows(Quantity::ProducedBatches, 2.0, &series)[0].value, 5.0);
        let text = r#"{"status":"success","data":{"resultType":"matrix","result":[
            {"metric":{},"values":[[1,"2"],[2,"+Inf"],[3,"4e0"]]}]},"warnings":["x"]}"#;
        assert_eq!(read_series(text).unwrap()[0].points, [(1.0, 2.0), (3.0, 4.0)]);
        assert_eq!(read_names(r#"{"status":"success","data":["a","b"]}"#).unwrap(), ["a", "b"]);
    }

    #[test]
    fn refusals_and_other_pages_are_told() {
        let refused = r#"{"status":"error","errorType":"bad_data","error":"parse error at char 3"}"#;
        let told = read_series(refused).unwrap_err().to_string();
        assert_eq!(told, "bad_data: parse error at char 3");
        assert!(read_series("<html>").unwrap_err().to_string().contains("not an answer of Prometheus"));
        let scalar = r#"{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}"#;
        assert_eq!(read_series(scalar).unwrap_err().to_string(), "its result is a scalar");
    }

    /// Each exporter has names of its own for a group, a topic and a partition.
    #[test]
    fn lag_is_asked_for_and_read_in_every_exporters_labels() {
        for (metric, labels) in [
            ("kafka_consumergroup_group_lag", ["group", "topic", "partition"]),
            ("kafka_consumergroup_lag", ["consumergroup", "topic", "partition"]),
            ("kminion_kafka_consumer_group_topic_partition_lag", ["group_id", "topic_name", "partition_id"]),
        ] {
            let picks = Source::KafkaJmx.picks(&[metric.to_owned()].into());
            assert_eq!(
                question(&picks[0], "1m", "", By::Topic),
                format!("max by ({}) ({metric})", labels.join(", "))
            );
            let labels = labels.into_iter().map(str::to_owned).zip(["g", "t", "3"].map(str::to_owned));
            let series = [Series { labels: labels.collect(), points: vec![(1.0, 40.0)] }];
            let row = &rows(Quantity::GroupLag, 1.0, &series)[0];
            assert_eq!(
                (row.group.as_str(), row.topic.as_str(), row.partition.as_str(), row.value),
                ("g", "t", "3", 40.0)
            );
        }
    }

    #[test]
    fn a_histograms_factor_is_of_its_bounds() {
        let picks = Source::RedpandaPublic
            .picks(&["redpanda_kafka_request_latency_seconds_bucket".to_owned()].into());
        assert_eq!(
            question(&picks[0], "1m", "", By::Topic),
            "sum by (instance, le) (rate(redpanda_kafka_request_latency_seconds_bucket{redpanda_request=\"produce\"}[1m]))"
        );
        let labels = [("le".to_owned(), "0.002".to_owned())].into();
        let series = [Series { labels, points: vec![(1.0, 7.0)] }];
        let row = &rows(picks[0].quantity, picks[0].factor, &series)[0];
        assert_eq!((row.bound, row.value), (2.0, 7.0));
    }

    #[test]
    fn questions_are_told_apart_by_their_dimensions() {
        let names: BTreeSet<String> = [
            "vectorized_storage_log_batches_written",
            "vectorized_cluster_partition_leader",
            "vectorized_io_queue_total_write_bytes",
            "vectorized_scheduler_queue_length",
        ]
        .map(str::to_owned)
        .into();
        let picks = Source::RedpandaOlder.picks(&names);
        let of = |quantity| picks.iter().find(|pick| pick.quantity == quantity).unwrap();
        assert_eq!(
            question(of(Quantity::WrittenBatches), "5m", "job=\"r\"", By::Topic),
            "sum by (instance, topic) (rate(vectorized_storage_log_batches_written{job=\"r\",namespace=\"kafka\"}[5m]))"
        );
        assert_eq!(
            question(of(Quantity::DiskBytes), "5m", "", By::Topic),
            "sum by (instance, class) (rate(vectorized_io_queue_total_write_bytes[5m]))"
        );
        assert_eq!(
            question(of(Quantity::Waiting), "5m", "", By::Topic),
            "sum by (instance, group) (vectorized_scheduler_queue_length)"
        );
        assert_eq!(
            question(of(Quantity::WrittenBatches), "5m", "", By::Partition),
            "sum by (instance, topic, partition) (rate(vectorized_storage_log_batches_written{namespace=\"kafka\"}[5m]))"
        );
        let led =
            question_of_leaders(of(Quantity::WrittenBatches), of(Quantity::Leader), "1m", "", By::Topic);
        assert_eq!(
            led,
            "sum by (instance, topic) (rate(vectorized_storage_log_batches_written{namespace=\"kafka\"}[1m]) and on (instance, namespace, \
             topic, partition) vectorized_cluster_partition_leader{namespace=\"kafka\"} == 1)"
        );
    }
}

//! Fetch requests of consumers by a broker's own counters. Pure.

use serde::Serialize;

use crate::metrics::exposition::{self, Sample};

/// Counter of answered Fetch requests by broker: its name, and the label that selects consumers. Names are compared in lower case, because JMX
/// exporters write them in several ways.
const REQUESTS: [(&str, &str, &str); 3] = [
    // hone-broker, and Redpanda's internal page.
    ("vectorized_kafka_handler_requests_completed_total", "handler", "fetch"),
    // Redpanda's public page.
    ("redpanda_kafka_request_latency_seconds_count", "redpanda_request", "consume"),
    // Apache Kafka, RequestMetrics: FetchFollower is replication.
    ("kafka_network_requestmetrics_requests_total", "request", "fetchconsumer"),
];
/// Counter of bytes that consumers got. Kafka has one for each topic, too.
const BYTES: [(&str, &str, &str); 3] = [
    ("vectorized_cluster_partition_bytes_fetched_total", "", ""),
    ("redpanda_kafka_request_bytes_total", "redpanda_request", "consume"),
    ("kafka_server_brokertopicmetrics_bytesout_total", "topic", ""),
];

/// Counts of one broker.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counts {
    /// Answered Fetch requests.
    pub requests: f64,
    /// Bytes in the answers, if the page has them.
    pub bytes: Option<f64>,
}

/// Fetch requests of consumers over some time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FetchRate {
    /// Requests per second, over all brokers with a page.
    pub requests_per_s: f64,
    /// Mean size of an answer, empty ones included.
    pub bytes_per_request: Option<f64>,
}

impl Counts {
    /// What a metrics page counts. `None` if it has no such counter.
    pub fn of_page(page: &str) -> Option<Self> {
        let requests = sum(page, &REQUESTS)?;
        Some(Self { requests, bytes: sum(page, &BYTES) })
    }

    /// The rate between two readings. `None` if the broker was started between them, or no time passed.
    pub fn until(self, later: Self, seconds: f64) -> Option<FetchRate> {
        let requests = later.requests - self.requests;
        if requests < 0.0 || seconds <= 0.0 {
            return None;
        }
        let bytes = self.bytes.zip(later.bytes).map(|(before, after)| after - before);
        Some(FetchRate {
            requests_per_s: requests / seconds,
            bytes_per_request: bytes
                .filter(|bytes| *bytes >= 0.0 && requests > 0.0)
                .map(|bytes| bytes / requests),
        })
    }
}

impl std::ops::Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let bytes = self.bytes.zip(other.bytes).map(|(one, two)| one + two);
        Self { requests: self.requests + other.requests, bytes }
    }
}

/// The sum of the first counter that the page has.
fn sum(page: &str, counters: &[(&str, &str, &str)]) -> Option<f64> {
    counters.iter().find_map(|(name, label, value)| {
        let samples =
            exposition::read_only(page, |found| found.eq_ignore_ascii_case(name)).filter_map(Result::ok);
        let is_it = |sample: &Sample<'_>| {
            let of = sample.labels.get(label).unwrap_or_default();
            of.eq_ignore_ascii_case(value) && sample.value.is_finite()
        };
        samples
            .filter(is_it)
            .map(|sample| sample.value)
            .fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REDPANDA: &str = "\
redpanda_kafka_request_latency_seconds_count{redpanda_request=\"produce\"} 7
redpanda_kafka_request_latency_seconds_count{redpanda_request=\"consume\"} 50
redpanda_kafka_request_bytes_total{redpanda_topic=\"a\",redpanda_request=\"consume\"} 1000
redpanda_kafka_request_bytes_total{redpanda_topic=\"b\",redpanda_request=\"consume\"} 500
redpanda_kafka_request_bytes_total{redpanda_topic=\"b\",redpanda_request=\"produce\"} 9
";
    const KAFKA: &str = "\
kafka_network_RequestMetrics_Requests_total{request=\"FetchConsumer\",version=\"17\"} 30
kafka_network_RequestMetrics_Requests_total{request=\"FetchConsumer\",version=\"12\"} 10
kafka_network_RequestMetrics_Requests_total{request=\"FetchFollower\",version=\"17\"} 999
kafka_server_brokertopicmetrics_bytesout_total 4000
kafka_server_brokertopicmetrics_bytesout_total{topic=\"a\"} 4000
";

    #[test]
    fn the_counters_of_each_broker_are_known() {
        let of = |requests, bytes| Some(Counts { requests, bytes: Some(bytes) });
        assert_eq!(Counts::of_page(REDPANDA), of(50.0, 1_500.0));
        assert_eq!(Counts::of_page(KAFKA), of(40.0, 4_000.0));
        let own = "vectorized_kafka_handler_requests_completed_total{handler=\"fetch\"} 3\n";
        assert_eq!(Counts::of_page(own), Some(Counts { requests: 3.0, bytes: None }));
        assert_eq!(Counts::of_page("up 1\n"), None);
    }

    #[test]
    fn a_rate_needs_counters_that_rise() {
        let (before, after) =
            (Counts::of_page(KAFKA).unwrap(), Counts { requests: 140.0, bytes: Some(204_000.0) });
        let rate = before.until(after, 10.0).unwrap();
        assert_eq!((rate.requests_per_s, rate.bytes_per_request), (10.0, Some(2_000.0)));
        assert_eq!(after.until(before, 10.0), None);
        assert_eq!(before.until(before, 10.0).unwrap().bytes_per_request, None);
    }
}

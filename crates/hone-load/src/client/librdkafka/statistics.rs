//! librdkafka's statistics: the part that a window needs. The code is pure.

use std::collections::BTreeMap;

use hone_record::{LatencySplit, Part, SocketBytes};
use serde::Deserialize;

/// The JSON text, as far as it is read. All latencies are microseconds of the interval since the previous statistics.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Text {
    brokers: BTreeMap<String, BrokerText>,
    /// Bytes of requests and of answers, since the client's start.
    tx_bytes: u64,
    rx_bytes: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BrokerText {
    /// Requests by name, since the client's start.
    req: BTreeMap<String, i64>,
    /// Requests sent again, since the client's start.
    txretries: u64,
    int_latency: Quantiles,
    outbuf_latency: Quantiles,
    rtt: Quantiles,
}

/// Quantiles of one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Quantiles {
    cnt: i64,
    p50: i64,
    p99: i64,
}

/// One interval of one producer.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Interval {
    /// Produce requests since the client's start.
    pub produce_requests: u64,
    /// Requests sent again since the client's start.
    pub retries: u64,
    /// Bytes of all requests since the client's start, and of their answers.
    pub socket: SocketBytes,
    /// Time from passing a record to the client until its request.
    queue: Vec<Quantiles>,
    /// Time from the request until it is written.
    outbound: Vec<Quantiles>,
    /// Time from the request's first written byte to its answer.
    round_trip: Vec<Quantiles>,
}

/// Reads one text; `None` if it is not librdkafka's statistics.
pub(super) fn interval(json: &[u8]) -> Option<Interval> {
    let text: Text = serde_json::from_slice(json).ok()?;
    let produce = |broker: &BrokerText| broker.req.get("Produce").copied().unwrap_or(0).max(0).unsigned_abs();
    let brokers = || text.brokers.values();
    let quantiles =
        |of: fn(&BrokerText) -> Quantiles| brokers().map(of).filter(|found| found.cnt > 0).collect();
    Some(Interval {
        produce_requests: brokers().map(produce).sum(),
        retries: brokers().map(|broker| broker.txretries).sum(),
        socket: SocketBytes { sent: text.tx_bytes, received: text.rx_bytes },
        queue: quantiles(|broker| broker.int_latency),
        outbound: quantiles(|broker| broker.outbuf_latency),
        round_trip: quantiles(|broker| broker.rtt),
    })
}

/// Parts of the time over some intervals. `network_us` is the round trip of a bare connection.
pub(super) fn split<'a>(
    intervals: impl Iterator<Item = &'a Interval> + Clone,
    network_us: Option<f64>,
    software: &str,
) -> Option<LatencySplit> {
    let queue = typical(intervals.clone().flat_map(|interval| &interval.queue))?;
    let outbound = typical(intervals.clone().flat_map(|interval| &interval.outbound));
    let round_trip = typical(intervals.flat_map(|interval| &interval.round_trip));
    let network_p50 = network_us.unwrap_or(0.0);
    let broker = round_trip.map(|part| Part {
        us_p50: (part.us_p50 - network_p50).max(0.0),
        us_p99: part.us_p99.map(|us| (us - network_p50).max(0.0)),
    });
    let outbound = outbound.map_or(0.0, |part| part.us_p50);
    let how = format!(
        "client queue: {software}'s int_latency, from the record's hand-over to its request (the request \
         then waits {outbound:.0} µs more for the socket, outbuf_latency); network: the kernel's round trip \
         of a fresh connection; broker: {software}'s rtt minus the network. {software} reports quantiles of \
         half a second; these are the medians of those, weighted by their samples"
    );
    let network = network_us.map(|us_p50| Part { us_p50, us_p99: None });
    Some(LatencySplit { client_queue: Some(queue), network, broker, how })
}

/// The medians over intervals of their medians and of their p99.
fn typical<'a>(found: impl Iterator<Item = &'a Quantiles>) -> Option<Part> {
    let found: Vec<&Quantiles> = found.collect();
    let median = |of: fn(&Quantiles) -> i64| {
        let mut weighted: Vec<(i64, i64)> = found.iter().map(|found| (of(found), found.cnt)).collect();
        weighted.sort_unstable();
        let half = weighted.iter().map(|(_, count)| count).sum::<i64>() / 2;
        let mut passed = 0;
        weighted.into_iter().find_map(|(value, count)| {
            passed += count;
            (passed > half).then_some(value as f64)
        })
    };
    Some(Part { us_p50: median(|found| found.p50)?, us_p99: median(|found| found.p99) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(requests: u64, queue_us: u64, round_trip_us: u64, samples: u64) -> Interval {
        let json = format!(
            r#"{{"name":"rdkafka#producer-1","msg_cnt":3,"tx_bytes":900,"rx_bytes":90,"brokers":{{
            "b:9092/1":{{"nodeid":1,"txretries":2,"req":{{"Produce":{requests},"Metadata":4}},
              "int_latency":{{"min":1,"p50":{queue_us},"p99":{},"cnt":{samples}}},
              "outbuf_latency":{{"p50":7,"p99":9,"cnt":{samples}}},
              "rtt":{{"p50":{round_trip_us},"p99":{},"cnt":{samples}}}}},
            "GroupCoordinator":{{"req":{{"Fetch":0}},"int_latency":{{"p50":0,"cnt":0}}}}}}}}"#,
            queue_us * 2,
            round_trip_us * 3
        );
        interval(json.as_bytes()).unwrap()
    }

    #[test]
    fn counters_and_quantiles_are_found() {
        let found = text(40, 5_000, 700, 100);
        assert_eq!((found.produce_requests, found.retries), (40, 2));
        assert_eq!(found.socket, SocketBytes { sent: 900, received: 90 });
        assert_eq!(found.queue, [Quantiles { cnt: 100, p50: 5_000, p99: 10_000 }], "empty ones are left out");
    }

    #[test]
    fn the_split_is_the_weighted_median_of_the_intervals() {
        let intervals = [text(1, 5_000, 700, 100), text(2, 5_100, 800, 100), text(3, 90_000, 90_000, 10)];
        let split = split(intervals.iter(), Some(50.0), "librdkafka").unwrap();
        assert_eq!(split.client_queue, Some(Part { us_p50: 5_100.0, us_p99: Some(10_200.0) }));
        assert_eq!(split.broker, Some(Part { us_p50: 750.0, us_p99: Some(2_350.0) }));
        assert_eq!(split.network, Some(Part { us_p50: 50.0, us_p99: None }));
        assert!(split.how.contains("waits 7 µs more"), "{}", split.how);
    }

    #[test]
    fn other_texts_are_no_statistics() {
        for json in ["", r#"{"brokers":{"a":{"req":3}}}"#, r#"{"brokers":7}"#] {
            assert_eq!(interval(json.as_bytes()), None, "{json}");
        }
        assert_eq!(interval(b"{}"), Some(Interval::default()));
        assert!(split([Interval::default()].iter(), None, "x").is_none());
    }
}

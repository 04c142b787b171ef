//! For any load and any number of generators, their records merge into the one that a single generator would
//! have made, in everything that adds up.

use std::collections::BTreeMap;

use hone_record::{
    AnswerTimes, BatchSource, CpuSeconds, Durability, EndToEnd, Engine, Hdr, Keys, Latencies, MOST_SHARDS,
    Outcome, PackedHdr, Payload, Schedule, SeriesPoint, Shard, Sizes, SocketBytes, Stalls, TopicBatches,
    Window, WindowFacts, Workload, merge,
};
use proptest::prelude::*;

/// Length of the window, with a last second that is half of one.
const DURATION_S: f64 = 3.5;

/// Outcome of one request.
#[derive(Debug, Clone)]
struct Request {
    due_us: u64,
    lag_us: u64,
    service_us: u64,
    records: u64,
    bytes: u64,
    /// 0 is well.
    error: u8,
    retries: u64,
    /// From due time to the arrival at a consumer, or to the end of the wait for it.
    end_to_end_us: u64,
    is_missing: bool,
}

impl Request {
    fn ended_s(&self) -> f64 {
        (self.due_us + self.lag_us + self.service_us) as f64 / 1e6
    }
}

fn request() -> impl Strategy<Value = Request> {
    let times = (0..3_500_000_u64, 0..50_000_u64, 1..2_000_000_u64);
    let rest = (1..50_u64, 1..100_000_u64, 0..10_u8, 0..3_u64, 1..3_000_000_u64, any::<bool>());
    (times, rest).prop_map(
        |((due_us, lag_us, service_us), (records, bytes, kind, retries, end_to_end_us, is_missing))| {
            Request {
                due_us,
                lag_us,
                service_us,
                records,
                bytes,
                error: kind.saturating_sub(7),
                retries,
                end_to_end_us,
                is_missing,
            }
        },
    )
}

/// The load of this many generators.
fn workload(of: u32) -> Workload {
    Workload {
        name: "any".to_owned(),
        engine: Engine::Wire,
        seed: 1,
        schedule: Schedule::Poisson,
        requests_per_s: 300.0,
        records_per_batch: 1,
        record_bytes: 100,
        sizes: Sizes::Fixed,
        payload: Payload::Bytes { compressible_share: 0.5 },
        keys: Keys::None,
        compression: "none".to_owned(),
        connections: 2 * of,
        in_flight: 5,
        topics: hone_record::TopicShares::default(),
        partitions: 1,
        partitions_per_request: 1,
        acks: 1,
        idempotent: false,
        consumers: of,
        consumer_group: false,
        consumer_groups: 1,
        group_protocol: hone_record::GroupProtocol::Assigned,
        rebalance_every_s: 0.0,
        processing: hone_record::Processing::default(),
        fetch: hone_record::FetchLimits::default(),
        read_from: hone_record::ReadFrom::End,
        backlog_bytes: 0,
        warmup_requests: 10 * u64::from(of),
        warmup_limit_s: 0.0,
        duration_s: DURATION_S,
        timeout_s: 1.0,
        topic_config: BTreeMap::new(),
        replication_factor: None,
        recording: None,
    }
}

fn hdr(latencies_us: impl Iterator<Item = u64>) -> Hdr {
    let mut hdr = Hdr::new();
    latencies_us.for_each(|us| hdr.record_ns(us * 1_000));
    hdr
}

fn is_well(request: &&Request) -> bool {
    request.error == 0
}

fn point(requests: &[Request], second: u64) -> SeriesPoint {
    let end_s = (second as f64 + 1.0).min(DURATION_S);
    let within = |request: &&Request| request.ended_s() <= DURATION_S && request.ended_s() as u64 == second;
    let ended = || requests.iter().filter(within);
    let latency = hdr(ended().map(|request| request.lag_us + request.service_us));
    let behind = |request: &&Request| request.due_us as f64 / 1e6 <= end_s && request.ended_s() > end_s;
    SeriesPoint {
        at_s: second as f64,
        acked_requests: ended().filter(is_well).count() as u64,
        latency_us_p50: latency.quantile_us(0.5).unwrap_or(0.0),
        latency_us_p99: latency.quantile_us(0.99).unwrap_or(0.0),
        latency_us_max: latency.max_us().unwrap_or(0.0),
        backlog_requests: requests.iter().filter(behind).count() as u64,
        latency: PackedHdr::from(&latency),
        failed_requests: ended().filter(|request| request.error != 0).count() as u64,
        generator_lag_us_p99: 0.0,
        consumer_lag_records: Some(0),
        length_s: (second == 3).then_some(0.5),
    }
}

/// Results of generators with this many consumers each, when `readable` of all written records were readable.
fn recorded(requests: &[Request], readable: &[Request], shard: Option<Shard>, consumers: u32) -> Window {
    let well = || requests.iter().filter(is_well);
    let total = |of: fn(&Request) -> u64| well().map(of).sum::<u64>();
    let errors = ["timeout", "INVALID_RECORD"].into_iter().zip(1..).filter_map(|(name, error)| {
        let count = requests.iter().filter(|request| request.error == error).count() as u64;
        (count > 0).then(|| (name.to_owned(), count))
    });
    let retries: u64 = requests.iter().map(|request| request.retries).sum();
    let in_window = well().filter(|request| request.ended_s() <= DURATION_S).count();
    let missing = || well().filter(|request| request.is_missing);
    let mut waits: Vec<[u64; 2]> = requests
        .iter()
        .map(|request| [request.due_us, request.due_us + request.lag_us + request.service_us])
        .collect();
    waits.sort_unstable_by_key(|[_, end_us]| *end_us);
    let mut stalls = Stalls::default();
    waits.iter().for_each(|[due_us, end_us]| stalls.ended(due_us * 1_000, end_us * 1_000));
    let read =
        |of: fn(&Request) -> u64| readable.iter().filter(is_well).map(of).sum::<u64>() * u64::from(consumers);
    Window {
        variant: "target".to_owned(),
        address: "127.0.0.1:9092".to_owned(),
        workload: workload(consumers),
        durability: Durability { acks: 1, storage: "page-cache".to_owned() },
        started_unix_ms: 1_000,
        duration_s: DURATION_S,
        outcome: Outcome::Steady,
        facts: WindowFacts {
            requests: requests.len() as u64,
            acked_requests: well().count() as u64,
            acked_records: total(|request| request.records),
            acked_bytes: total(|request| request.bytes),
            asked_requests_per_s: requests.len() as f64 / DURATION_S,
            reached_requests_per_s: in_window as f64 / DURATION_S,
            errors: errors.collect(),
            target_cpu: None,
            generator_cpu: CpuSeconds { total_s: requests.len() as f64, user_share: None },
            steal_share: 0.0,
            others_share: 0.0,
            retries: BTreeMap::from([("connection lost".to_owned(), retries)]),
            produce_requests: Some(requests.len() as u64 + retries),
            steps: Vec::new(),
            idle_cores: None,
            target_memory: None,
            throttling: None,
            target_busy: None,
            warm_up: None,
            compiling_share: None,
            start_slip_ms: 0.0,
            answer_times: Some(AnswerTimes {
                answers: requests.len() as u64,
                stamped: well().count() as u64,
            }),
            socket_bytes: Some(SocketBytes {
                sent: total(|request| request.bytes),
                received: well().count() as u64,
            }),
            stalls: Some(stalls),
        },
        latencies: Latencies {
            intended_to_ack: hdr(requests.iter().map(|request| request.lag_us + request.service_us)),
            sent_to_ack: hdr(requests.iter().map(|request| request.service_us)),
            intended_to_sent: hdr(requests.iter().map(|request| request.lag_us)),
            own_lateness: hdr(requests.iter().map(|request| request.lag_us)),
        },
        series: (0..4).map(|second| point(requests, second)).collect(),
        end_to_end: Some(EndToEnd {
            latency: hdr(well().map(|request| request.end_to_end_us)),
            consumers,
            fetched_records: read(|request| request.records),
            fetched_bytes: read(|request| request.bytes),
            missing: missing().count() as u64,
            is_group: false,
            more_groups: 0,
            lag_records_max: 0,
            lag_records_p50: None,
            lag_records_p99: None,
            lag_records_end: None,
            missing_latency: hdr(missing().map(|request| request.end_to_end_us)),
            fetches: None,
            catch_up: None,
            rebalances: None,
            transactions: None,
            deliveries: None,
        }),
        batches: vec![TopicBatches {
            topic: "load".to_owned(),
            source: BatchSource::OwnFrames,
            batches: well().count() as u64,
            records: total(|request| request.records),
            bytes: total(|request| request.bytes),
            seen_share: 1.0,
            sizes: Default::default(),
        }],
        split: None,
        events: Vec::new(),
        environment: None,
        shard,
        client: None,
        requirements: Vec::new(),
        outage: None,
    }
}

/// The same, of each of several generators with one consumer each.
fn shards(requests: &[Request], of: u32) -> Vec<Window> {
    let part = |index: u32| -> Vec<Request> {
        requests.iter().skip(index as usize).step_by(of as usize).cloned().collect()
    };
    let shard = |index| Some(Shard { index, of, start_unix_ms: 1_000 });
    (0..of).map(|index| recorded(&part(index), requests, shard(index), 1)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_shards_say_what_the_whole_says(
        requests in proptest::collection::vec(request(), 0..200),
        of in 1_u32..7,
        turn in 0_usize..7,
    ) {
        let mut parts = shards(&requests, of);
        // In any order.
        parts.rotate_left(turn % of as usize);
        let mut merged = merge(&parts).unwrap();
        let mut whole = recorded(&requests, &requests, None, of);
        for (one, other) in [
            (merged.facts.asked_requests_per_s, whole.facts.asked_requests_per_s),
            (merged.facts.reached_requests_per_s, whole.facts.reached_requests_per_s),
        ] {
            prop_assert!((one - other).abs() < 1e-6, "{} {}", one, other);
        }
        // Fields that are compared except for their last bits, and fields that are not sums.
        for window in [&mut merged, &mut whole] {
            window.facts.asked_requests_per_s = 0.0;
            window.facts.reached_requests_per_s = 0.0;
            window.facts.generator_cpu.user_share = None;
        }
        prop_assert_eq!(merged, whole);
    }

    #[test]
    fn shards_of_unequal_length_have_the_rate_of_their_counts(
        counts in proptest::collection::vec((0_u32..10_000, 1_u32..60_000), 1..8),
    ) {
        let mut parts = shards(&[], counts.len() as u32);
        for (part, (count, length_ms)) in parts.iter_mut().zip(&counts) {
            part.duration_s = f64::from(*length_ms) / 1e3;
            part.facts.requests = u64::from(*count);
            part.facts.asked_requests_per_s = f64::from(*count) / part.duration_s;
            part.facts.reached_requests_per_s = part.facts.asked_requests_per_s;
        }
        let merged = merge(&parts).unwrap();
        let longest_s = counts.iter().map(|(_, length_ms)| f64::from(*length_ms) / 1e3).fold(0.0, f64::max);
        let rate = merged.facts.requests as f64 / longest_s;
        prop_assert!((merged.facts.asked_requests_per_s - rate).abs() < 1e-6 * rate.max(1.0));
        prop_assert!((merged.facts.reached_requests_per_s - rate).abs() < 1e-6 * rate.max(1.0));
    }

    /// Records come from files: whatever stands in them, the answer is a window or a reason, at once.
    #[test]
    fn no_numbers_of_a_record_do_harm(index in any::<u32>(), of in any::<u32>(), count in any::<u64>()) {
        let mut parts = shards(&[], 2);
        for part in &mut parts {
            part.facts.requests = count;
            part.facts.produce_requests = Some(count);
            part.workload.connections = index;
            part.batches[0].bytes = count;
            part.batches[0].seen_share = f64::from(of);
        }
        prop_assert!(merge(&parts).unwrap().facts.requests >= count);
        parts[1].shard = Some(Shard { index, of, start_unix_ms: 1_000 });
        let problem = merge(&parts[1..]).err().map(|error| error.to_string()).unwrap_or_default();
        prop_assert!(problem.len() < 300, "{}", problem);
    }
}

#[test]
fn what_one_shard_read_back_counts_for_all_and_once() {
    let mut parts = shards(&[], 3);
    for part in &mut parts {
        // Payload, as the clients hand it over.
        (part.facts.acked_records, part.facts.acked_bytes) = (1_000, 100_000);
        part.batches.clear();
    }
    parts[0].batches.push(TopicBatches {
        topic: "load".to_owned(),
        source: BatchSource::Fetched,
        batches: 30,
        records: 1_500,
        bytes: 180_000,
        seen_share: 0.5,
        sizes: Default::default(),
    });
    let merged = merge(&parts).unwrap();
    assert_eq!((merged.facts.acked_records, merged.facts.acked_bytes), (3_000, 360_000));
    assert_eq!(merged.batches, parts[0].batches);
}

#[test]
fn an_impossible_shard_is_refused_before_anything_is_counted() {
    for (index, of) in [(0, u32::MAX), (0, MOST_SHARDS + 1), (2, 2), (0, 0)] {
        let mut parts = shards(&[], 1);
        parts[0].shard = Some(Shard { index, of, start_unix_ms: 1_000 });
        let error = merge(&parts).unwrap_err().to_string();
        let expected = format!("record 1 states that it is shard {index} of {of}: shards count from 0");
        assert!(error.starts_with(&expected), "{error}");
    }
    let mut one_of_many = shards(&[], 1);
    one_of_many[0].shard = Some(Shard { index: 0, of: MOST_SHARDS, start_unix_ms: 1_000 });
    let error = merge(&one_of_many).unwrap_err().to_string();
    assert!(error.contains("missing: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, and 9989 more;"), "{error}");
}

//! Consumers see everything once, and a broker that stands still at its full length.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use hone_load::fault_relay::{Fault, Relay};
use hone_load::health::Onlooker;
use hone_load::{Admin, Security};

mod stage;
use stage::{Broker, hone};

fn end_to_end(record: &serde_json::Value) -> &serde_json::Value {
    &record["body"]["end_to_end"]
}

fn latency(record: &serde_json::Value) -> hone_record::Hdr {
    hone_record::Hdr::from_base64(end_to_end(record)["latency"].as_str().unwrap()).unwrap()
}

/// A record that is complete: everything acknowledged came out again, for each consumer, and nothing else.
fn check_counts(record: &serde_json::Value, consumers: u64) {
    let (facts, seen) = (&record["body"]["facts"], end_to_end(record));
    assert_eq!(facts["acked_requests"], facts["requests"], "{facts}");
    assert_eq!(seen["missing"], 0, "{seen}");
    assert_eq!(seen["consumers"].as_u64(), Some(consumers));
    let fetched = |of: &str| seen[of].as_u64().unwrap();
    assert_eq!(fetched("fetched_records"), consumers * facts["acked_records"].as_u64().unwrap());
    assert_eq!(fetched("fetched_bytes"), consumers * facts["acked_bytes"].as_u64().unwrap());
    assert_eq!(latency(record).count(), consumers * facts["acked_requests"].as_u64().unwrap());
}

#[test]
fn each_consumer_gets_everything_once() {
    let broker = Broker::start();
    let load =
        ["load", &broker.address, "--rate", "2000", "--duration", "3", "--warmup", "500", "--records", "5"];
    let record =
        hone(&[&load[..], &["--consumers", "3", "--max-lateness", "5s", "--json", "--quiet"]].concat())
            .expect_code(0)
            .json();
    check_counts(&record, 3);
    // Never before it was acknowledged by much: the broker gives away what it has stored, and both times are the kernel's.
    let acked = record["body"]["latencies"]["intended_to_ack"].as_str().unwrap();
    let acked = hone_record::Hdr::from_base64(acked).unwrap();
    let (fetched, acked) = (latency(&record).quantile_us(0.5).unwrap(), acked.quantile_us(0.5).unwrap());
    assert!(fetched > acked * 0.3, "fetched after {fetched} µs, acknowledged after {acked} µs");
    for point in record["body"]["series"].as_array().unwrap() {
        assert!(point["consumer_lag_records"].is_u64(), "no lag in {point}");
    }
    let batches = &record["body"]["batches"][0];
    assert_eq!(batches["source"], "own-frames");
    assert_eq!(batches["records"].as_u64().unwrap(), 5 * batches["batches"].as_u64().unwrap());
}

/// Three consumers that share six partitions read everything once together, and the cluster knows how far they are.
#[test]
fn a_group_reads_everything_once_and_commits() {
    let broker = Broker::start();
    Admin::connect(&broker.address).unwrap().create_topic("t", 6, &BTreeMap::new()).unwrap();
    let brokers = format!("127.0.0.1:1,{}", broker.address);
    let load = [
        "load",
        &brokers,
        "--rate",
        "1000",
        "--duration",
        "7",
        "--warmup",
        "500",
        "--warmup-limit",
        "0",
        "--producers",
        "2",
        "--consumers",
        "3",
        "--consumer-group",
        "--topic",
        "t",
        "--acks",
        "1",
        "--max-lateness",
        "5s",
    ];
    let rules = ["--require", "lag<=2", "--require", "lag-max<1000000", "--json", "--quiet"];
    let child = stage::hone_here().args([&load[..], &rules].concat()).stdout(Stdio::piped()).spawn().unwrap();
    let group = format!("hone-load-t-{}", child.id());
    let mut onlooker = Onlooker::new(std::slice::from_ref(&broker.address), &Security::default()).unwrap();
    let lag = |onlooker: &mut Onlooker| onlooker.lag(&group).ok();
    let deadline = Instant::now() + Duration::from_secs(60);
    let seen = loop {
        assert!(Instant::now() < deadline, "nothing was committed for {group}");
        if let Some(seen) = lag(&mut onlooker) {
            break seen;
        }
        thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(seen.partitions, 6);
    let ran = child.wait_with_output().unwrap();
    assert_eq!(ran.status.code(), Some(0));
    let record: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    let (facts, seen) = (&record["body"]["facts"], end_to_end(&record));
    assert_eq!((&seen["fetched_records"], &seen["missing"]), (&facts["acked_records"], &0.into()), "{seen}");
    assert_eq!((&seen["consumers"], &seen["is_group"]), (&3.into(), &true.into()));
    assert_eq!(seen["lag_records_end"], 0, "{seen}");
    let of = |name: &str| seen[name].as_u64().unwrap();
    assert!(of("lag_records_p50") <= of("lag_records_p99") && of("lag_records_p99") <= of("lag_records_max"));
    assert!(lag(&mut onlooker).is_none(), "the group is deleted when the load ends");
    hone(&["load", &broker.address, "--consumer-group"]).expect_code(2).expect_error("--consumers 3");
}

/// Two groups read everything once each. They assign their partitions themselves, which is no trouble to `hone fetch xray`.
#[test]
fn each_of_two_groups_reads_everything_and_is_seen() {
    let broker = Broker::start();
    Admin::connect(&broker.address).unwrap().create_topic("t", 4, &BTreeMap::new()).unwrap();
    let load =
        ["load", &broker.address, "--rate", "300", "--duration", "16", "--warmup", "100", "--topic", "t"];
    let readers = ["--consumers", "2", "--groups", "2", "--max-lateness", "9s", "--json", "--quiet"];
    let child =
        stage::hone_here().args([&load[..], &readers].concat()).stdout(Stdio::piped()).spawn().unwrap();
    let group = format!("hone-load-t-{}", child.id());
    let metrics = format!("http://{}/metrics", broker.metrics);
    let mut onlooker = Onlooker::new(std::slice::from_ref(&broker.address), &Security::default()).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while onlooker.lag(&group).is_err() {
        assert!(Instant::now() < deadline, "nothing was committed for {group}");
        thread::sleep(Duration::from_millis(50));
    }
    let watch =
        ["fetch", "xray", &broker.address, "--duration", "10s", "--metrics", &metrics, "--json", "--quiet"];
    let xray = hone(&watch).expect_code(0).json();
    let record: serde_json::Value =
        serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap();
    let (facts, seen) = (&record["body"]["facts"], end_to_end(&record));
    let of = |from: &serde_json::Value, name: &str| from[name].as_u64().unwrap();
    assert_eq!(of(seen, "fetched_records"), 2 * of(facts, "acked_records"), "{seen}");
    assert_eq!((of(seen, "consumers"), of(seen, "more_groups"), of(seen, "missing")), (4, 1, 0), "{seen}");
    let groups = xray["body"]["groups"].as_array().unwrap();
    let names: Vec<&str> = groups.iter().map(|group| group["group"].as_str().unwrap()).collect();
    assert_eq!(names, [&*group, &format!("{group}-1")], "{xray}");
    for group in groups {
        assert_eq!((of(group, "partitions"), &group["findings"]), (4, &serde_json::json!([])), "{group}");
        assert!(group["read_per_s"].as_f64().unwrap() > 100.0, "{group}");
    }
    let per_s = xray["body"]["fetches"]["requests_per_s"].as_f64().unwrap();
    assert!(per_s > 10.0, "four consumers of 300 records/s fetch {per_s} times a second");
}

/// Members that the broker knows: nothing is read twice or left out, however often the group deals its partitions anew.
fn check_rebalances(address: &str, protocol: &str) {
    let load = ["load", address, "--rate", "400", "--duration", "12", "--warmup", "200", "--partitions", "6"];
    let readers =
        ["--consumers", "3", "--groups", "2", "--group-protocol", protocol, "--rebalance-every", "4s"];
    let record = hone(&[&load[..], &readers, &["--max-lateness", "12s", "--json", "--quiet"]].concat());
    // A virtual machine that still compiles ends with 1.
    assert!(record.code <= 1, "{}", record.stderr);
    let record = record.json();
    let (facts, seen) = (&record["body"]["facts"], end_to_end(&record));
    let of = |from: &serde_json::Value, name: &str| from[name].as_u64().unwrap();
    // A share group gives what a member left unacknowledged to another one.
    let again = seen["deliveries"]["again"].as_u64().unwrap_or(0);
    let twice = 2 * of(facts, "acked_records");
    assert!((twice..=twice + again).contains(&of(seen, "fetched_records")), "{protocol}: {seen}");
    assert_eq!((of(seen, "missing"), of(seen, "more_groups")), (0, 1), "{protocol}: {seen}");
    // Two were planted in each group: a member leaves, and it joins again.
    let rebalances = &seen["rebalances"];
    assert!(of(rebalances, "count") >= 4, "{protocol}: {rebalances}");
    assert!(rebalances["unread_s_max"].as_f64().unwrap() < 9.0, "{protocol}: {rebalances}");
    let kinds =
        record["body"]["events"].as_array().unwrap().iter().map(|event| event["kind"].as_str().unwrap());
    let kinds: Vec<&str> = kinds.collect();
    assert!(kinds.iter().all(|kind| *kind == "rebalanced"), "{protocol}: {}", record["body"]["events"]);
}

#[test]
fn groups_deal_their_partitions_anew_and_lose_nothing() {
    let broker = Broker::start();
    check_rebalances(&broker.address, "classic");
    check_rebalances(&broker.address, "consumer");
    let mut cluster = hone_load::Topics::enter(&broker.address, &Security::default()).unwrap();
    assert_eq!(cluster.groups().unwrap(), [], "the groups are deleted when the load ends");
    let load = ["load", &broker.address, "--consumers", "2", "--rebalance-every", "5s"];
    let ran = hone(&load);
    assert!(ran.code != 0 && ran.stderr.contains("set group_protocol"), "{} {}", ran.code, ran.stderr);
    let ran = hone(&["load", &broker.address, "--consumers", "2", "--group-protocol", "share"]);
    assert!(ran.code == 2 && ran.stderr.contains("needs share groups"), "{} {}", ran.code, ran.stderr);
}

#[test]
fn apache_kafka_deals_partitions_to_the_members_of_a_load() {
    let Some(kafka) = stage::kafka::Kafka::start() else { return };
    check_rebalances(&kafka.address, "classic");
    check_rebalances(&kafka.address, "consumer");
    check_rebalances(&kafka.address, "share");
}

#[test]
fn groups_that_are_not_there_are_not_called_well() {
    let broker = Broker::start();
    let watch =
        |more: &[&str]| hone(&[&["fetch", "xray", &broker.address, "--duration", "10s"][..], more].concat());
    let ran = watch(&[]).expect_code(0);
    assert!(ran.stdout.contains("has no consumer group"), "{}", ran.stdout);
    let ran = watch(&["nobody"]).expect_code(0);
    assert!(ran.stdout.contains("nobody: not examined: the cluster has no such group"), "{}", ran.stdout);
    watch(&["--metrics", &format!("http://{}/ready", broker.metrics)])
        .expect_code(1)
        .expect_error("no counter of Fetch requests");
    hone(&["fetch", "xray", &broker.address, "--duration", "1s"])
        .expect_code(2)
        .expect_error("clients commit every 5 s");
}

#[test]
fn a_stop_of_one_second_shows_from_end_to_end() {
    let broker = Broker::start();
    let load =
        ["load", &broker.address, "--rate", "500", "--duration", "10", "--warmup", "100", "--consumers", "2"];
    let record = thread::scope(|scope| {
        let load =
            scope.spawn(|| hone(&[&load[..], &["--max-lateness", "5s", "--json", "--quiet"]].concat()));
        thread::sleep(Duration::from_secs(5));
        broker.signal(libc::SIGSTOP);
        thread::sleep(Duration::from_secs(1));
        broker.signal(libc::SIGCONT);
        load.join().unwrap().expect_code(0).json()
    });
    check_counts(&record, 2);
    let latency = latency(&record);
    let (p50_us, p99_us) = (latency.quantile_us(0.5).unwrap(), latency.quantile_us(0.99).unwrap());
    assert!(p99_us > 500_000.0, "p99 {p99_us} µs: the stall is hidden");
    assert!(p99_us < 1_500_000.0, "p99 {p99_us} µs: longer than the stall");
    assert!(p50_us < 100_000.0, "p50 {p50_us} µs: the stall is everywhere");
}

#[test]
fn without_acknowledgements_there_is_no_join_and_that_is_said() {
    let broker = Broker::start();
    let ran = hone(&["load", &broker.address, "--acks", "0", "--consumers", "1"]);
    ran.expect_code(2).expect_error("with acks 0 no answer states the offset of a record");
}

#[test]
fn a_broker_that_dies_leaves_a_record_with_what_was_seen() {
    let broker = Broker::start();
    let load =
        ["load", &broker.address, "--rate", "500", "--duration", "6", "--warmup", "100", "--consumers", "1"];
    let record = thread::scope(|scope| {
        let load = scope.spawn(|| {
            hone(&[&load[..], &["--timeout", "1", "--max-lateness", "5s", "--json", "--quiet"]].concat())
        });
        thread::sleep(Duration::from_secs(3));
        broker.signal(libc::SIGKILL);
        load.join().unwrap().json()
    });
    let seen = end_to_end(&record);
    assert!(seen["fetched_records"].as_u64().unwrap() > 200, "{seen}");
    let events = record["body"]["events"].as_array().unwrap();
    assert!(events.iter().any(|event| event["kind"] == "connection-lost"), "{events:?}");
}

#[test]
fn a_broker_that_dies_and_comes_back_is_read_to_the_end() {
    let mut broker = Broker::start();
    let address = broker.address.clone();
    let load = ["load", &address, "--rate", "500", "--duration", "6", "--warmup", "100", "--consumers", "2"];
    let record = thread::scope(|scope| {
        let load =
            scope.spawn(|| hone(&[&load[..], &["--max-lateness", "5s", "--json", "--quiet"]].concat()));
        thread::sleep(Duration::from_millis(2_500));
        broker.signal(libc::SIGKILL);
        thread::sleep(Duration::from_secs(1));
        broker.start_again();
        load.join().unwrap().expect_code(0).json()
    });
    let (facts, seen) = (&record["body"]["facts"], end_to_end(&record));
    assert_eq!(facts["acked_requests"], facts["requests"], "{facts}");
    assert_eq!(
        (&seen["missing"], latency(&record).count()),
        (&0.into(), 2 * facts["requests"].as_u64().unwrap())
    );
    let max_s = latency(&record).max_us().unwrap() / 1e6;
    assert!(max_s > 0.9, "the outage of a second shows as {max_s} s");
    let events = record["body"]["events"].as_array().unwrap();
    for consumer in ["consumer 1", "consumer 2"] {
        for kind in ["connection-lost", "reconnected"] {
            let is_it = |event: &&serde_json::Value| {
                event["kind"] == kind && event["what"].as_str().unwrap().starts_with(consumer)
            };
            assert_eq!(events.iter().filter(is_it).count(), 1, "{consumer} {kind}: {events:?}");
        }
    }
}

/// Answers that are held for 200 ms: a record that was just written comes out when an answer has come that holds it, and until
/// then the consumer is behind by what was written meanwhile.
#[test]
fn a_consumer_that_hears_late_is_behind_and_the_record_says_by_how_much() {
    let relay = Relay::bind(Fault::Slow(Duration::from_millis(200))).unwrap();
    let advertised = relay.address().to_string();
    let broker = Broker::start_as(stage::hone_command().args(["broker", "--advertise", &advertised]));
    relay.serve(broker.address.parse().unwrap()).unwrap();
    let load =
        ["load", &advertised, "--rate", "1000", "--duration", "4", "--warmup", "100", "--in-flight", "500"];
    let more = ["--consumers", "1", "--partitions", "1", "--max-lateness", "5s", "--json", "--quiet"];
    let record = hone(&[&load[..], &more].concat()).expect_code(0).json();
    check_counts(&record, 1);
    let p50_us = latency(&record).quantile_us(0.5).unwrap();
    assert!((200_000.0..900_000.0).contains(&p50_us), "p50 {p50_us} µs through answers held for 200 ms");
    // Between two answers pass 200 ms, in which 200 records are written.
    let lags: Vec<u64> = record["body"]["series"]
        .as_array()
        .unwrap()
        .iter()
        .map(|point| point["consumer_lag_records"].as_u64().unwrap())
        .collect();
    let most = end_to_end(&record)["lag_records_max"].as_u64().unwrap();
    assert_eq!(lags.iter().max(), Some(&most), "{lags:?}");
    assert!(most < 2_000, "{lags:?} records behind");
    assert!(lags.len() >= 4 && lags.iter().all(|lag| *lag >= 20), "{lags:?} records behind, in each second");
}

/// Loads a broker with these options; answers the record.
fn loaded(broker: &Broker, more: &[&str]) -> serde_json::Value {
    let load = ["load", &broker.address, "--warmup", "1", "--warmup-limit", "0", "--max-lateness", "60s"];
    hone(&[&load[..], &["--json", "--quiet"], more].concat()).expect_code(0).json()
}

#[test]
fn a_backlog_is_read_and_the_window_ends_with_it() {
    let broker = Broker::start();
    let backlog = ["--rate", "0", "--backlog", "2000000", "--bytes", "1000", "--consumers", "2"];
    let record = loaded(&broker, &[&backlog[..], &["--duration", "60s"]].concat());
    let (body, seen) = (&record["body"], end_to_end(&record));
    assert_eq!((&body["outcome"], &body["facts"]["requests"]), (&"steady".into(), &0.into()), "{body}");
    assert_eq!(seen["catch_up"]["records"], 4_000, "{seen}");
    assert!(seen["fetched_records"].as_u64().unwrap() >= 4_000, "{seen}");
    let took_s = seen["catch_up"]["took_s"].as_f64().unwrap();
    assert!(took_s < 30.0 && body["duration_s"].as_f64().unwrap() < 31.0, "{body}");
    // CPU for each fetched record is a metric like any other.
    let window: hone_record::Window = serde_json::from_value(body.clone()).unwrap();
    assert!(window.value(hone_record::Metric::CpuPerRecord).unwrap() > 0.0);
    // Without the rate of zero, producers go on meanwhile.
    let busy =
        ["--rate", "100", "--backlog", "500000", "--bytes", "1000", "--consumers", "1", "--duration", "3s"];
    let record = loaded(&broker, &busy);
    let seen = end_to_end(&record);
    assert_eq!((&seen["catch_up"]["records"], &seen["missing"]), (&500.into(), &0.into()), "{seen}");
    assert!(record["body"]["facts"]["requests"].as_u64().unwrap() > 200, "{record}");
}

#[test]
fn a_topic_of_the_user_is_only_read() {
    let broker = Broker::start();
    let mut admin = Admin::connect(&broker.address).unwrap();
    admin.create_topic("t", 3, &BTreeMap::new()).unwrap();
    loaded(&broker, &["--topic", "t", "--rate", "300", "--schedule", "uniform", "--duration", "2s"]);
    let read = ["--topic", "t", "--rate", "0", "--consumers", "1", "--duration", "20s", "--read-from"];
    for _ in 0..2 {
        let seen = loaded(&broker, &[&read[..], &["earliest"]].concat());
        // 600 of the window and one of its warm-up; reading adds none.
        assert_eq!(end_to_end(&seen)["catch_up"]["records"], 601, "{seen}");
    }
    let seen = loaded(&broker, &[&read[..], &["1h"]].concat());
    assert_eq!(end_to_end(&seen)["fetched_records"], 601, "{seen}");
    let none = hone(&[&["load", &broker.address, "--rate", "0"][..], &["--consumers", "1"]].concat());
    none.expect_code(2).expect_error("read_from");
    let none = hone(&["load", &broker.address, "--backlog", "1MiB"]);
    none.expect_code(2).expect_error("consumers");
}

#[test]
fn larger_answers_are_fewer_and_wait_no_longer_than_allowed() {
    let broker = Broker::start();
    let load =
        ["--rate", "200", "--bytes", "1000", "--partitions", "2", "--consumers", "1", "--duration", "4s"];
    let fetches = |more: &[&str]| {
        let record = loaded(&broker, &[&load[..], more].concat());
        let seen = end_to_end(&record)["fetches"].clone();
        let of = |name: &str| seen[name].as_u64().unwrap();
        (
            of("answered"),
            of("bytes") / (of("answered") - of("empty")).max(1),
            latency(&record).max_us().unwrap(),
        )
    };
    let (eager, small, _) = fetches(&[]);
    let (rare, large, waited_us) = fetches(&["--fetch-min-bytes", "64KiB", "--fetch-max-wait", "200ms"]);
    // 200 a second of about 1.1 KB: an answer for nearly each, against five a second.
    assert!(eager > 400 && (15..=25).contains(&rare), "{eager} and {rare}");
    assert!(small < 3_000 && large > 30_000, "{small} and {large}");
    assert!(waited_us < 1e6, "{waited_us}");
}

#[test]
fn fetch_limits_are_predicted_and_written_for_each_client() {
    let broker = Broker::start();
    let mut admin = Admin::connect(&broker.address).unwrap();
    admin.create_topic("t", 4, &BTreeMap::new()).unwrap();
    // Hone's own frames have no times; a client's do.
    let client = ["--client", "librdkafka", "--client-set", "linger.ms=0", "--producers", "1"];
    let load = ["--topic", "t", "--rate", "200", "--bytes", "1000", "--duration", "4s"];
    loaded(&broker, &[&client[..], &load].concat());
    let asked = ["fetch", "whatif", &broker.address, "t", "--fetch-min-bytes", "64KiB", "--json"];
    let found = hone(&asked).expect_code(0).json();
    let readers = &found["body"]["readers"];
    let near = |name: &str, wanted: f64| (readers[name].as_f64().unwrap() / wanted - 1.0).abs() < 0.2;
    assert!(near("batches_per_s", 200.0) && near("batch_bytes", 1_080.0), "{readers}");
    let rows = found["body"]["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["is_asked"] == true).unwrap();
    let per_s = row["fetches_per_s"][1].as_f64().unwrap();
    assert!((2.0..6.0).contains(&per_s), "{row}");
    hone(&["fetch", "whatif", &broker.address, "nothing"]).expect_code(1).expect_error("nothing");
    hone(&["fetch", "whatif", &broker.address]).expect_code(2).expect_error("next: name BROKER and TOPIC");
    let text = hone(&["fetch", "settings", "--fetch-min-bytes", "64KiB"]).expect_code(0);
    for line in ["fetch.min.bytes=65536", "kgo.FetchMinBytes(65536),", "minBytes: 65536,"] {
        assert!(text.stdout.contains(line), "{line}: {}", text.stdout);
    }
    hone(&["fetch", "settings"]).expect_code(2).expect_error("--fetch-min-bytes");
}

#[test]
fn traffic_costs_what_the_users_prices_say() {
    let folder = tempfile::tempdir().unwrap();
    let prices = folder.path().join("prices.toml");
    let prices = prices.to_str().unwrap();
    hone(&["cost", "--write-prices", prices]).expect_code(0);
    hone(&["cost", "--write-prices", prices]).expect_code(1).expect_error("a file that does not exist yet");
    let written = std::fs::read_to_string(prices).unwrap();
    assert!(written.contains("crossing_per_gb = 0.02"), "{written}");
    let broker = Broker::start();
    let mut admin = Admin::connect(&broker.address).unwrap();
    admin.create_topic("t", 4, &BTreeMap::new()).unwrap();
    loaded(&broker, &["--topic", "t", "--rate", "100", "--bytes", "1000", "--duration", "3s"]);
    // A single broker has no zones, whatever the prices.
    let asked = ["cost", &broker.address, "t", "--prices", prices];
    hone(&asked).expect_code(1).expect_error("zone");
    std::fs::write(prices, written.replace("0.02", "-1")).unwrap();
    hone(&asked).expect_code(2).expect_error("invalid price");
    std::fs::write(prices, "nonsense = 1\n").unwrap();
    hone(&asked).expect_code(2).expect_error("nonsense");
}

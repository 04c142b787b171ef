//! Every shape of a load reaches the broker as it was asked for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

mod stage;
use stage::{Broker, hone, hone_in};

/// Loads a broker briefly; answers the record's body.
fn body(broker: &Broker, more: &[&str]) -> serde_json::Value {
    // However late neighbours make the generator: what is looked at here is what it sent.
    let load = ["load", &broker.address, "--warmup", "0", "--json", "--quiet", "--max-lateness", "60s"];
    hone(&[&load[..], more].concat()).expect_code(0).json()["body"].take()
}

fn requests_by_second(body: &serde_json::Value) -> Vec<u64> {
    let points = body["series"].as_array().unwrap();
    points.iter().map(|point| point["acked_requests"].as_u64().unwrap()).collect()
}

#[test]
fn a_replay_of_a_file_sends_what_was_recorded_and_pins_it() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    // 30 at once, 20 in the second second, one beyond the window.
    let late = (0..20).map(|step| format!("1700000001.{step:02}5\n")).collect::<String>();
    std::fs::write(folder.path().join("times"), format!("{}{late}1700000009\n", "1700000000\n".repeat(30)))
        .unwrap();
    let load = ["load", &broker.address, "--warmup", "0", "--json", "-q", "--max-lateness", "60s"];
    let replay = ["--schedule", "replay:times", "-d", "2s"];
    let body = hone_in(folder.path(), &[&load[..], &replay].concat()).expect_code(0).json()["body"].take();
    assert_eq!(body["facts"]["requests"], 50);
    assert_eq!(body["workload"]["schedule"]["replay"]["arrivals"], 51);
    assert_eq!(body["workload"]["schedule"]["replay"]["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(body["workload"]["requests_per_s"], 25.0);
    let seconds = requests_by_second(&body);
    assert!(seconds[0].abs_diff(30) <= 10 && seconds.iter().sum::<u64>() >= 40, "{seconds:?}");
}

#[test]
fn a_topics_own_timestamps_are_replayed() {
    let broker = Broker::start();
    let mut admin = hone_load::Admin::connect(&broker.address).unwrap();
    admin.create_topic("recorded", 3, &BTreeMap::new()).unwrap();
    for records in ["1", "5"] {
        let recorded = ["--topic", "recorded", "--rate", "100", "--duration", "1", "--schedule", "uniform"];
        body(&broker, &[&recorded[..], &["--records", records, "--compression", "lz4"]].concat());
    }
    let body = body(&broker, &["--schedule", "replay:topic:recorded", "--duration", "30s", "--records", "1"]);
    assert_eq!(body["workload"]["schedule"]["replay"]["arrivals"], 600);
    assert_eq!(body["facts"]["requests"], 600);
}

#[test]
fn steps_and_bursts_reach_the_broker() {
    let broker = Broker::start();
    let stepped = body(&broker, &["--schedule", "steps:100,400", "--duration", "2s"]);
    let seconds = requests_by_second(&stepped);
    assert!(seconds[0].abs_diff(100) <= 50 && seconds[1].abs_diff(400) <= 100, "{seconds:?}");
    assert_eq!(stepped["facts"]["requests"], 500);
    assert_eq!(stepped["workload"]["requests_per_s"], 250.0);
    let bursts = body(&broker, &["--schedule", "bursts:500ms", "--rate", "200", "--duration", "1"]);
    assert_eq!(bursts["facts"]["requests"], 200);
}

/// Records of each topic of a load, as another client sees them while it runs. The load deletes the topics in the end.
fn records_by_topic(address: &str, is_over: &AtomicBool) -> BTreeMap<String, i64> {
    let mut topics = hone_load::Topics::enter(address, &hone_load::Security::default()).unwrap();
    let mut last = BTreeMap::new();
    while !is_over.load(Ordering::Relaxed) {
        let listed = topics.list().unwrap();
        let mut now = BTreeMap::new();
        for listed in listed.iter().filter(|listed| listed.topic.starts_with("hone-load-")) {
            let Ok((layout, _)) = topics.layout(&listed.topic) else { continue };
            let Ok((ends, _)) = topics.offsets(&layout, hone_load::At::Latest) else { continue };
            // What is behind the name of the load.
            let own = listed.topic.splitn(4, '-').nth(3).unwrap_or_default().to_owned();
            now.insert(own, ends.values().sum());
        }
        let is_more = now.values().sum::<i64>() > last.values().sum::<i64>();
        last = if is_more { now } else { last };
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    last
}

#[test]
fn topics_get_their_shares_and_are_read_whole() {
    let broker = Broker::start();
    for (more, keyed) in [
        (&["--consumers", "2", "--consumer-group", "--partitions", "2"][..], false),
        (&["--consumers", "1", "--group-protocol", "consumer", "--keys", "uniform:1000"], true),
        (&["--client", "librdkafka", "--consumers", "1"], false),
    ] {
        let load = ["--topics", "weights:6,3,1", "--rate", "500", "--duration", "3", "--connections", "2"];
        let is_over = AtomicBool::new(false);
        let (body, seen) = std::thread::scope(|scope| {
            let watch = scope.spawn(|| records_by_topic(&broker.address, &is_over));
            let body = body(&broker, &[&load[..], more].concat());
            is_over.store(true, Ordering::Relaxed);
            (body, watch.join().unwrap())
        });
        let sent = body["facts"]["acked_records"].as_u64().unwrap();
        assert_eq!(body["end_to_end"]["fetched_records"], sent, "{more:?}");
        assert_eq!(body["end_to_end"]["missing"], 0, "{more:?}");
        let all = seen.values().sum::<i64>() as f64;
        assert!(all > sent as f64 / 2.0, "{more:?}: {seen:?} of {sent}");
        for (topic, share) in [("1", 0.6), ("2", 0.3), ("3", 0.1)] {
            let found = seen[topic] as f64 / all;
            // Without keys the turn is exact; what is on its way when the watcher looks is not.
            let tolerance = if keyed { 0.06 } else { 0.04 };
            assert!((found - share).abs() < tolerance, "{more:?}: topic {topic} has {found}: {seen:?}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    for (topics, expected) in [("3", "Equal"), ("\"zipf:3:1.5\"", "Zipf")] {
        let file =
            format!("name = \"t\"\n[workload]\ntopics = {topics}\nrequests_per_s = 100\nduration_s = 1\n");
        std::fs::write(folder.path().join("load.toml"), file).unwrap();
        let load = ["load", &broker.address, "--file", "load.toml", "--warmup", "0", "--json", "--quiet"];
        let body = hone_in(folder.path(), &load).expect_code(0).json()["body"].take();
        let told = &body["workload"]["topics"];
        assert_eq!(told[expected.to_lowercase()]["count"], 3, "{told}");
    }
    let listed = hone_load::Admin::connect(&broker.address).unwrap().topics().unwrap();
    assert!(listed.iter().all(|listed| !listed.topic.starts_with("hone-load-")), "{listed:?}");
    for (more, expected) in [
        (&["--topics", "weights:1,0"][..], "need weights above 0, got 0"),
        (&["--topics", "3", "--topic", "orders"], "leave out --topics or --topic"),
        (&["--topics", "3", "--client", "cat"], "must be 1 for a client command"),
        (&["--topics", "zipf:3", "--partitions-per-request", "2"], "partitions_per_request must be 1"),
        (&["--topics", "many"], "use one of: 30, zipf:30, zipf:30:1.2, weights:5,3,1"),
    ] {
        hone(&[&["load", &broker.address], more].concat()).expect_code(2).expect_error(expected);
    }
}

#[test]
fn processors_pass_every_record_on_once_and_aborted_ones_are_not_read() {
    let broker = Broker::start();
    let load = ["--rate", "200", "--duration", "4", "--processors", "2", "--abort-every", "4"];
    for more in [
        &["--consumers", "1"][..],
        &["--consumers", "2", "--group-protocol", "consumer", "--topics", "3", "--compression", "lz4"],
        &["--consumers", "1", "--client", "librdkafka", "--transaction-duration", "300ms"],
    ] {
        let is_over = AtomicBool::new(false);
        let (body, seen) = std::thread::scope(|scope| {
            let watch = scope.spawn(|| records_by_topic(&broker.address, &is_over));
            let body = body(&broker, &[&load[..], more].concat());
            is_over.store(true, Ordering::Relaxed);
            (body, watch.join().unwrap())
        });
        let sent = body["facts"]["acked_records"].as_i64().unwrap();
        let seen_by_consumers = &body["end_to_end"];
        assert_eq!(seen_by_consumers["fetched_records"], sent, "{more:?}");
        assert_eq!(seen_by_consumers["missing"], 0, "{more:?}");
        let transactions = &seen_by_consumers["transactions"];
        let (committed, aborted) =
            (transactions["committed"].as_u64().unwrap(), transactions["aborted"].as_u64().unwrap());
        assert!(
            committed > 10 && (2.0..=4.5).contains(&(committed as f64 / aborted as f64)),
            "{transactions}"
        );
        let passed_on = transactions["records"].as_i64().unwrap();
        assert!(passed_on <= sent && passed_on > sent / 2, "{passed_on} of {sent}");
        // Input and output, what was aborted, and a marker at least for each transaction.
        let stored = seen.values().sum::<i64>();
        assert!(stored > 2 * sent, "{more:?}: {stored} offsets for {sent} records: {seen:?}");
    }
    for (more, expected) in [
        (&["--processors", "1"][..], "need `consumers`"),
        (&["--processors", "9", "--consumers", "1"], "at most 8, one for each partition"),
        (&["--processors", "1", "--consumers", "1", "--read-from", "earliest"], "`read_from`"),
        (&["--processors", "1", "--consumers", "1", "--transaction-duration", "2m"], "at most 30 s"),
    ] {
        hone(&[&["load", &broker.address], more].concat()).expect_code(2).expect_error(expected);
    }
}

/// A warm broker that gets nothing takes next to nothing, and a part of what it takes under a load.
#[test]
fn an_idle_target_is_looked_at_before_the_window() {
    let broker = Broker::start();
    let body = body(&broker, &["--idle", "1s", "--rate", "500", "--duration", "2"]);
    let idle = body["facts"]["idle_cores"].as_f64().unwrap();
    let under_load = body["facts"]["target_cpu"]["total_s"].as_f64().unwrap() / 2.0;
    assert!(idle < under_load / 2.0, "{idle} cores idle, {under_load} with 500 requests/s");
    let plain = self::body(&broker, &["--rate", "500", "--duration", "1"]);
    assert!(plain["facts"].get("idle_cores").is_none(), "{}", plain["facts"]);
    for (more, expected) in [
        (&["--idle", "10ms"][..], "from 500ms to 5m"),
        (&["--idle", "1s", "--sweep-rate", "100,200"], "does not go with"),
        (&["--idle", "1s", "--shard", "0/2", "--store", "s3://b/p"], "does not go with"),
    ] {
        hone(&[&["load", &broker.address], more].concat()).expect_code(2).expect_error(expected);
    }
}

#[test]
fn keyed_records_of_spread_sizes_are_taken() {
    let broker = Broker::start();
    let keyed = ["--keys", "zipf:1000:1.1", "--sizes", "lognormal:0.8", "--bytes", "300", "--records", "4"];
    let body =
        body(&broker, &[&keyed[..], &["--rate", "300", "--duration", "1", "--compression", "zstd"]].concat());
    assert_eq!(body["facts"]["acked_requests"], body["facts"]["requests"]);
    assert_eq!(body["workload"]["keys"]["zipf"]["distinct"], 1000);
}

#[test]
fn a_request_that_is_wider_than_its_topic_is_refused() {
    let broker = Broker::start();
    let mut admin = hone_load::Admin::connect(&broker.address).unwrap();
    admin.create_topic("narrow", 1, &BTreeMap::new()).unwrap();
    let load = ["load", &broker.address, "--topic", "narrow", "-d", "1", "--rate", "10", "--warmup", "0"];
    let ran = hone(&[&load[..], &["--partitions-per-request", "4"]].concat());
    ran.expect_code(2).expect_error("is 4, but topic `narrow` has only 1,");
}

#[test]
fn the_lines_of_a_file_are_sent_and_the_file_is_pinned() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lines"), "first\nsecond line\n").unwrap();
    let load = [
        "load",
        &broker.address,
        "--json",
        "-q",
        "-d",
        "1",
        "--rate",
        "50",
        "--warmup",
        "0",
        "--max-lateness",
        "60s",
    ];
    let ran = hone_in(folder.path(), &[&load[..], &["--payload", "file:lines"]].concat());
    let workload = ran.expect_code(0).json()["body"]["workload"].take();
    assert_eq!(workload["payload"]["file"]["sha256"].as_str().unwrap().len(), 64);
    // Lines of 5 and of 11 bytes.
    assert_eq!(workload["record_bytes"], 8);
    let sized = hone_in(folder.path(), &[&load[..], &["--payload", "file:lines", "--bytes", "500"]].concat());
    sized.expect_code(2).expect_error("which have their own sizes");
    let gone = hone_in(folder.path(), &[&load[..], &["--payload", "file:none"]].concat());
    gone.expect_code(2).expect_error("none can't be read");
}

fn field_guide() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/field-guide/load.toml").to_owned()
}

#[test]
fn the_field_guides_test_runs_from_its_file_and_is_judged() {
    let broker = Broker::start();
    let short = ["-d", "3", "--warmup", "100", "-q", "--json", "--max-lateness", "60s"];
    let ran = hone(&[&["load", &broker.address, "--file", &field_guide()][..], &short].concat());
    // Three seconds are too short for p99.9; whether the others are met is the machine's affair.
    assert!(ran.code == 1 || ran.code == 3, "{}\n{}", ran.code, ran.stderr);
    let body = ran.json()["body"].take();
    assert_eq!(body["workload"]["name"], "field-guide");
    assert_eq!(
        (&body["workload"]["duration_s"], &body["workload"]["record_bytes"]),
        (&3.0.into(), &1024.into())
    );
    assert_eq!(
        (&body["workload"]["consumers"], &body["workload"]["consumer_group"]),
        (&3.into(), &true.into())
    );
    let rules = body["requirements"].as_array().unwrap();
    let names: Vec<&str> = rules.iter().map(|rule| rule["rule"].as_str().unwrap()).collect();
    assert_eq!(names, ["p99 < 3.00 ms", "p99.9 < 3.00 ms", "records > 1,400/s", "lag <= 2"]);
    assert!(rules[1]["reason"].as_str().unwrap().contains("too few samples"), "{rules:#?}");
    assert!(rules[3]["measured"].as_f64().is_some(), "{rules:#?}");
}

#[test]
fn rules_decide_the_exit_code() {
    let broker = Broker::start();
    let load = [
        "load",
        &broker.address,
        "--rate",
        "300",
        "-d",
        "2",
        "--warmup",
        "10",
        "-q",
        "--max-lateness",
        "60s",
    ];
    let with = |rules: &[&str]| hone(&[&load[..], rules].concat());
    let ran = with(&["--require", "p50<10s", "--require", "throughput>100"]).expect_code(0);
    assert!(ran.stdout.contains("  met\n"), "{}", ran.stdout);
    let ran = with(&["--require", "p50<10s", "--require", "throughput>100000"]).expect_code(3);
    assert!(ran.stdout.contains("NOT MET"), "{}", ran.stdout);
    let ran = with(&["--require", "p99.99<10s"]).expect_code(1);
    assert!(ran.stdout.contains("unknown: too few samples"), "{}", ran.stdout);
    let ran = with(&["--require", "lag<=2"]).expect_code(1);
    assert!(ran.stdout.contains("--consumers"), "{}", ran.stdout);
    with(&["--require", "p99<3"]).expect_code(2).expect_error("invalid duration `3`");
}

#[test]
fn a_file_may_name_the_broker_and_the_command_line_comes_first() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "name = \"n\"\nbroker = \"{}\"\nstorage = \"fsync\"\n[workload]\nrequests_per_s = 50\nduration_s = 1\nacks = 1\n\
         warmup_requests = 0\n",
        broker.address
    );
    std::fs::write(folder.path().join("load.toml"), &text).unwrap();
    let body = hone_in(
        folder.path(),
        &["load", "--file", "load.toml", "--rate", "200", "-q", "--json", "--max-lateness", "60s"],
    );
    let body = body.expect_code(0).json()["body"].take();
    assert_eq!((&body["workload"]["requests_per_s"], &body["workload"]["acks"]), (&200.0.into(), &1.into()));
    assert_eq!(body["durability"]["storage"], "fsync");
    let nowhere = text.replace("broker = ", "# broker = ");
    std::fs::write(folder.path().join("load.toml"), nowhere).unwrap();
    hone_in(folder.path(), &["load", "-f", "load.toml"]).expect_code(2).expect_error("no broker");
    hone_in(folder.path(), &["load"]).expect_code(2);
}

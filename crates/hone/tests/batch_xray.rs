//! Topics written by real producers with known habits: the X-ray names size, trigger and reason of each, and counts every batch.

#![expect(clippy::disallowed_methods, reason = "the test starts producers as their users do")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

mod stage;
use stage::clients::{alone, franz_go, java_jars, make_topics_of_memory, python};
use stage::papers::Papers;
use stage::tools::{of_checkout, skip};
use stage::{Broker, hone, hone_command};

/// How long producers write.
const SECONDS: &str = "7";

/// So often habits are written anew before they count as misread: a producer whose machine takes its CPU away for a while has other habits.
const WRITTEN_AT_MOST: usize = 3;

/// Runs a check whose producers need a machine that leaves them alone, with a fresh broker each time.
fn undisturbed(check: fn(&Broker)) {
    let _alone = alone();
    for _ in 1..WRITTEN_AT_MOST {
        let broker = Broker::start();
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&broker))).is_ok() {
            return;
        }
    }
    check(&Broker::start());
}

/// Records that were acknowledged, by topic; `None` where there is no Java.
fn write_by_java(broker: &Broker, habits: &[&str]) -> Option<BTreeMap<String, u64>> {
    let jars = java_jars()?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/producers/Writer.java");
    let output = Command::new("java")
        .arg("-cp")
        .arg(jars.join("*"))
        .arg(source)
        .args([&broker.address, SECONDS])
        .args(habits)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told = String::from_utf8(output.stdout).unwrap();
    Some(
        told.lines()
            .map(|line| line.split_once(' ').unwrap())
            .map(|(topic, records)| (topic.to_owned(), records.parse().unwrap()))
            .collect(),
    )
}

fn xray(broker: &Broker, topic: &str) -> Value {
    let ran = hone(&["batch", "xray", &broker.address, topic, "--json", "--quiet"]).expect_code(0);
    ran.json()["body"]["topics"][0].clone()
}

/// Share of the first producer's batches that a trigger closed.
fn share(topic: &Value, trigger: &str) -> f64 {
    let triggers = topic["producers"][0]["triggers"].as_array().unwrap();
    triggers.iter().find(|found| found[0] == trigger).map_or(0.0, |found| found[1].as_f64().unwrap())
}

fn verdicts(topic: &Value) -> Vec<&str> {
    topic["findings"].as_array().unwrap().iter().map(|found| found["verdict"].as_str().unwrap()).collect()
}

fn linger_ms(topic: &Value) -> f64 {
    topic["producers"][0]["linger_ms"].as_f64().unwrap_or(f64::NAN)
}

#[test]
fn habits_of_java_producers_are_named() {
    undisturbed(check_java);
}

fn check_java(broker: &Broker) {
    let topics = [("time", 1), ("drained", 8), ("full", 1), ("hot", 10), ("waits", 1), ("flushes", 1)];
    let more = [("commits", 1), ("dealt", 6), ("keyed", 24), ("packed", 1), ("rare", 4), ("lingers", 1)];
    if !make_topics_of_memory(broker, &[&topics[..], &more[..]].concat()) {
        return;
    }
    let round_robin = "org.apache.kafka.clients.producer.RoundRobinPartitioner";
    let first = [
        "time|rate:500|linger.ms=25",
        "drained|rates:80;80;80;80;80;80;80;80|linger.ms=25",
        "full|rate:2500|linger.ms=300",
        "hot|rates:2500;50;50;50;50;50;50;50;50;50|linger.ms=150",
        "rare|rates:2;2;2;2|linger.ms=5",
    ];
    let dealt = format!("dealt|rate:600|linger.ms=20,partitioner.class={round_robin}");
    let second = [
        "flushes|flush:10:50|linger.ms=5",
        "commits|commit:5:40|linger.ms=5",
        dealt.as_str(),
        "keyed|keys:500:200|linger.ms=5",
        "packed|rate:800|linger.ms=30,compression.type=zstd",
    ];
    let Some(mut written) = write_by_java(broker, &first) else { return };
    written.extend(write_by_java(broker, &second).unwrap());
    // A loop that waits takes whatever CPU there is.
    written.extend(write_by_java(broker, &["waits|sync:100000|linger.ms=0"]).unwrap());
    written.extend(write_by_java(broker, &["lingers|sync:100000|linger.ms=5"]).unwrap());
    let seen: BTreeMap<&str, Value> =
        written.keys().map(|topic| (topic.as_str(), xray(broker, topic))).collect();
    for (topic, records) in &written {
        assert_eq!(
            seen[topic.as_str()]["records"].as_u64(),
            Some(*records),
            "{topic}: every record is counted"
        );
    }

    let time = &seen["time"];
    assert!(share(time, "time") > 0.9 && (24.0..32.0).contains(&linger_ms(time)), "{time:#}");
    let drained = &seen["drained"];
    assert!(share(drained, "drained") > 0.6 && (24.0..32.0).contains(&linger_ms(drained)), "{drained:#}");
    let full = &seen["full"];
    assert!(share(full, "size") > 0.9, "{full:#}");
    assert_eq!(full["producers"][0]["cap"]["bytes"], 16_384, "{full:#}");
    let hot = &seen["hot"];
    assert!(share(hot, "drained") > 0.5 && share(hot, "size") > 0.05, "{hot:#}");
    assert!(verdicts(hot).contains(&"CO_DRAINED"), "{hot:#}");
    // 147 records of 111 bytes at 2500 a second: the hot partition is full every 59 ms, far from 150.
    assert!((50.0..90.0).contains(&linger_ms(hot)), "{hot:#}");
    let waits = &seen["waits"];
    assert_eq!(share(waits, "one-by-one"), 1.0, "{waits:#}");
    assert!(verdicts(waits).contains(&"SYNC_SENDER"), "{waits:#}");
    let lingers = &seen["lingers"];
    assert!(verdicts(lingers).contains(&"SYNC_SENDER"), "{lingers:#}");
    assert!((5.0..8.0).contains(&linger_ms(lingers)), "no gap is below the linger: {lingers:#}");
    let action = lingers["findings"][1]["action"].as_str().unwrap();
    assert!(action.starts_with("set linger to 0"), "{action}");
    assert_eq!(share(&seen["flushes"], "flush"), 1.0, "{:#}", seen["flushes"]);
    assert_eq!(share(&seen["commits"], "flush"), 1.0, "{:#}", seen["commits"]);
    assert!(seen["commits"]["control"].as_u64() > Some(100), "{:#}", seen["commits"]);
    assert!(verdicts(&seen["dealt"]).contains(&"ROUND_ROBIN"), "{:#}", seen["dealt"]);
    let keys = &seen["keyed"]["keys"];
    assert_eq!((keys["partitioner"].as_str(), keys["keyed_share"].as_f64()), (Some("murmur2"), Some(1.0)));
    assert!((150..=200).contains(&keys["distinct"].as_u64().unwrap()), "{keys}");
    let packed = &seen["packed"]["codecs"][0];
    assert_eq!((packed["codec"].as_str(), packed["share"].as_f64()), (Some("zstd"), Some(1.0)));
    assert!((0.9..1.3).contains(&packed["ratio"].as_f64().unwrap()), "{packed}: dice don't compress");
    assert_eq!(verdicts(&seen["rare"]), ["QUIET"], "{:#}", seen["rare"]);
    assert!(share(&seen["rare"], "alone") > 0.8, "{:#}", seen["rare"]);
    assert!(same_advice(broker, &seen) >= 4, "{seen:#?}");
}

/// One engine gives the advice: what the X-ray advises is what the what-if does. Answers with the number of topics that have some.
fn same_advice(broker: &Broker, seen: &BTreeMap<&str, Value>) -> usize {
    let advised = seen.iter().filter(|(_, found)| found["advice"].is_object());
    let known = advised.filter(|(_, found)| found["advice"]["do"] != "unknown");
    known
        .map(|(topic, found)| {
            let ran = hone(&["batch", "whatif", &broker.address, topic, "--json", "--quiet"]).json();
            assert_eq!(ran["body"]["advice"], found["advice"], "{topic}: {ran:#}");
        })
        .count()
}

/// A load by `hone load` whose topic stays, and the batches that it read back.
fn load(broker: &Broker, topic: &str, rate: &str, client: &str, settings: &[&str]) -> Value {
    let fixed =
        ["load", &broker.address, "--topic", topic, "--client", client, "--rate", rate, "--json", "--quiet"];
    let window = ["--duration", "6", "--warmup", "100", "--connections", "1", "--max-lateness", "5s"];
    let settings: Vec<&str> = settings.iter().flat_map(|setting| ["--client-set", setting]).collect();
    let ran = hone(&[&fixed[..], &window[..], &settings[..]].concat()).expect_code(0);
    ran.json()["body"]["batches"][0].clone()
}

#[test]
fn habits_of_librdkafka_are_named() {
    undisturbed(check_librdkafka);
}

fn check_librdkafka(broker: &Broker) {
    if !make_topics_of_memory(
        broker,
        &[("time", 1), ("small", 1), ("counted", 1), ("unlingering", 1), ("full", 1), ("own", 1)],
    ) {
        return;
    }
    load(broker, "time", "800", "librdkafka", &["linger.ms=20"]);
    let time = xray(broker, "time");
    assert_eq!(time["producers"][0]["id"], Value::Null, "librdkafka is not idempotent unless told so");
    assert!(share(&time, "time") > 0.9 && (19.0..30.0).contains(&linger_ms(&time)), "{time:#}");

    // What the application tolerates is the limit of the advice.
    load(broker, "small", "2000", "librdkafka", &["linger.ms=3"]);
    let advised = |bearable: &str| {
        let asked =
            ["batch", "xray", &broker.address, "small", "--json", "--quiet", "--tolerable-linger", bearable];
        let found = hone(&asked).expect_code(0).json();
        verdicts(&found["body"]["topics"][0]).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(advised("100ms"), ["SMALL", "LINGER_BOUND"]);
    // It lingers that long today.
    assert_eq!(advised("3ms"), ["SMALL", "RATE_STARVED"]);
    let small = xray(broker, "small");
    assert_eq!(small["advice"]["do"], "set", "{small:#}");
    assert_eq!(same_advice(broker, &BTreeMap::from([("small", small)])), 1);

    // Any number of records at which batches end is found, and raising it is the advice.
    load(broker, "counted", "6000", "librdkafka", &["linger.ms=100", "batch.num.messages=37"]);
    let counted = xray(broker, "counted");
    assert_eq!(counted["producers"][0]["cap"]["records"], 37, "{counted:#}");
    assert_eq!(counted["advice"]["batch_records"], 10_000, "{counted:#}");
    // Without a linger and without producer ids.
    load(broker, "unlingering", "800", "librdkafka", &["linger.ms=0"]);
    let unlingering = xray(broker, "unlingering");
    assert!(!verdicts(&unlingering).contains(&"NO_EVIDENCE"), "{unlingering:#}");
    assert!(unlingering["producers"][0]["evidence"].to_string().contains("linger 0"), "{unlingering:#}");

    load(broker, "full", "12000", "librdkafka", &["linger.ms=500", "batch.size=16384"]);
    let full = xray(broker, "full");
    assert_eq!(full["producers"][0]["cap"]["bytes"], 16_384, "{full:#}");
    assert!(share(&full, "size") > 0.9, "{full:#}");

    // The wire engine sends what it is told to: five records a request.
    let read_back = load(broker, "own", "400", "wire", &[]);
    let own = xray(broker, "own");
    assert!(
        own["batches"].as_u64().unwrap() >= read_back["batches"].as_u64().unwrap(),
        "with the warm-up: {own:#}"
    );
}

#[test]
fn habits_of_franz_go_are_named() {
    undisturbed(check_franz_go);
}

fn check_franz_go(broker: &Broker) {
    let Some(client) = franz_go() else { return };
    if !make_topics_of_memory(broker, &[("time", 1), ("full", 1), ("keyed", 6)]) {
        return;
    }
    load(broker, "time", "800", &client, &["linger_ms=20"]);
    let time = xray(broker, "time");
    assert!(share(&time, "time") > 0.9 && (19.0..30.0).contains(&linger_ms(&time)), "{time:#}");

    // It sends what was begun behind a full batch along with that.
    load(broker, "full", "12000", &client, &["linger_ms=500", "batch_max_bytes=16384"]);
    let full = xray(broker, "full");
    assert!(share(&full, "size") > 0.3 && share(&full, "size") + share(&full, "drained") > 0.95, "{full:#}");
    assert_eq!(full["producers"][0]["cap"]["bytes"], 16_384, "{full:#}");
}

#[test]
fn segments_of_a_disk_tell_the_same_as_the_broker() {
    let _alone = alone();
    let mut broker = Broker::start();
    if !make_topics_of_memory(&broker, &[("both", 3)]) {
        return;
    }
    load(&broker, "both", "500", "wire", &[]);
    let fetched = xray(&broker, "both");
    broker.signal(libc::SIGTERM);
    assert!(broker.child.wait().unwrap().success());
    let path = broker.data.path().to_str().unwrap();
    let ran =
        hone(&["batch", "xray", "--segments", path, "--topic", "both", "--json", "--quiet"]).expect_code(0);
    let on_disk = &ran.json()["body"]["topics"][0];
    for field in ["batches", "records", "bytes", "size_bytes", "span_ms", "keys"] {
        assert_eq!(on_disk[field], fetched[field], "{field}");
    }
    assert!(on_disk["batches"].as_u64() > Some(2_000), "{on_disk:#}");
    if let Some(dumped) = dumped_batches(broker.data.path()) {
        assert_eq!(on_disk["batches"].as_u64(), Some(dumped), "Kafka's own dump counts the same");
    }
}

/// Batches of topic `both` by Kafka's dump-log; `None` where its jars are not there.
fn dumped_batches(data: &Path) -> Option<u64> {
    let libs = of_checkout(".hone/kafka/4.3.1");
    if !libs.join("kafka-tools-4.3.1.jar").is_file() {
        skip("Apache Kafka is not in .hone/kafka: bench/kafka.sh fetch");
        return None;
    }
    let mut batches = 0;
    for partition in 0..3 {
        let folder = data.join(format!("log/both-{partition}"));
        let segments = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        for segment in segments.filter(|path| path.extension().is_some_and(|ending| ending == "log")) {
            let mut dump = Command::new("java");
            dump.args(["-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp"]).arg(libs.join("*"));
            let output = dump
                .args(["org.apache.kafka.tools.DumpLogSegments", "--files"])
                .arg(&segment)
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let told = String::from_utf8(output.stdout).unwrap();
            batches += told.lines().filter(|line| line.starts_with("baseOffset:")).count() as u64;
        }
    }
    Some(batches)
}

#[test]
fn the_right_to_read_is_enough_and_without_it_the_way_is_told() {
    let papers = Papers::make();
    let (admin, reader) = (papers.note("admin", "of all"), papers.note("reader", "of one"));
    let users = [format!("admin:{admin}"), format!("reader:{reader}")];
    let mut command = hone_command();
    command.args([
        "broker",
        "--sasl",
        "--authorize",
        "--superuser",
        "User:admin",
        "--user",
        &users[0],
        "--user",
        &users[1],
    ]);
    let broker = Broker::start_as(&mut command);
    let program = "import sys\nfrom kafka import KafkaProducer\n\
                   from kafka.admin import (KafkaAdminClient, NewTopic, ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType)\n\
                   login = dict(bootstrap_servers=sys.argv[1], security_protocol='SASL_PLAINTEXT', sasl_mechanism='SCRAM-SHA-256',\n\
                   \x20sasl_plain_username='admin', sasl_plain_password='of all')\n\
                   admin = KafkaAdminClient(**login)\n\
                   admin.create_topics([NewTopic('open', 1, 1), NewTopic('closed', 1, 1)])\n\
                   admin.create_acls([ACL('User:reader', '*', ACLOperation.READ, ACLPermissionType.ALLOW,\n\
                   \x20ResourcePattern(ResourceType.TOPIC, 'open'))])\n\
                   producer = KafkaProducer(**login)\n\
                   for topic in ('open', 'closed'): producer.send(topic, b'value').get(10)\n";
    let Some(python) = python() else { return };
    let made = Command::new(python).args(["-c", program, &broker.address]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let login =
        ["--sasl-mechanism", "SCRAM-SHA-256", "--sasl-user", "reader", "--sasl-password-file", &reader];
    let look = |topics: &[&str]| {
        let first = ["batch", "xray", &broker.address, "--json", "--quiet"];
        hone(&[&first[..], topics, &login[..]].concat())
    };
    let open = look(&["open"]).expect_code(0).json();
    assert_eq!(open["body"]["topics"][0]["records"], 1, "{open:#}");
    look(&["closed"])
        .expect_code(1)
        .expect_error("TOPIC_AUTHORIZATION_FAILED")
        .expect_error("next: grant this user the topic's rights: DESCRIBE and READ");
    let all = look(&[]).expect_code(0).json();
    assert_eq!(all["body"]["topics"].as_array().unwrap().len(), 1, "only what may be seen: {all:#}");
}

/// A topic by parts holds its mean size within a few percent, and says that it is a sample.
fn check_a_sample(broker: &Broker, topic: &str, limit: &str) -> Value {
    let whole = xray(broker, topic);
    assert_eq!(whole["read"]["slots"], Value::Null, "all of it was affordable");
    let ran = hone(&["batch", "xray", &broker.address, topic, "--read-limit", limit, "--json", "--quiet"])
        .expect_code(0);
    let part = ran.json()["body"]["topics"][0].clone();
    assert!(part["read"]["slots"].as_u64() >= Some(3), "{part:#}");
    let share = part["read"]["share"].as_f64().unwrap();
    assert!((0.05..0.7).contains(&share), "{share}");
    let truth = whole["mean_bytes"]["value"].as_f64().unwrap();
    let told = part["mean_bytes"]["value"].as_f64().unwrap();
    assert!((0.9..1.1).contains(&(told / truth)), "{told} for {truth}");
    let interval: Vec<f64> =
        part["mean_bytes"]["interval"].as_array().unwrap().iter().map(|end| end.as_f64().unwrap()).collect();
    assert!(interval[0] <= told && told <= interval[1], "{interval:?}");
    part
}

#[test]
fn more_than_the_budget_is_sampled() {
    let _alone = alone();
    let broker = Broker::start();
    if !make_topics_of_memory(&broker, &[("by-time", 2), ("by-offset", 2)]) {
        return;
    }
    load(&broker, "by-time", "5000", "librdkafka", &["linger.ms=5"]);
    let part = check_a_sample(&broker, "by-time", "1MiB");
    let rate = part["records_per_s"].as_f64().unwrap();
    assert!((3_000.0..8_000.0).contains(&rate), "{rate}");
    // The wire engine's frames were encoded before the load, and bear the time of that.
    let fixed = [
        "load",
        &broker.address,
        "--topic",
        "by-offset",
        "--rate",
        "1500",
        "--records",
        "20",
        "--json",
        "--quiet",
    ];
    hone(&[&fixed[..], &["--duration", "8", "--sizes", "uniform:50-150"]].concat()).expect_code(0);
    check_a_sample(&broker, "by-offset", "9MiB");
}

#[test]
fn what_can_not_be_read_is_told_and_the_rest_goes_on() {
    let _alone = alone();
    let broker = Broker::start();
    if !make_topics_of_memory(&broker, &[("one", 1), ("two", 2)]) {
        return;
    }
    load(&broker, "one", "200", "wire", &[]);
    hone(&["batch", "xray", &broker.address, "none"])
        .expect_code(1)
        .expect_error("UNKNOWN_TOPIC_OR_PARTITION")
        .expect_error("DESCRIBE");
    let both =
        hone(&["batch", "xray", &broker.address, "one", "none", "--json", "--quiet"]).expect_code(1).json();
    assert_eq!(both["body"]["topics"][0]["topic"], "one");
    assert!(both["body"]["notes"][0].as_str().unwrap().starts_with("none: "), "{both:#}");
    let quiet = xray(&broker, "two");
    assert_eq!((quiet["batches"].as_u64(), verdicts(&quiet)), (Some(0), vec!["NO_EVIDENCE"]));
    // Of many topics a table, unless all that was found is wanted.
    let told = |more: &[&str]| {
        hone(&[&["batch", "xray", &broker.address, "--quiet"], more].concat()).expect_code(0).stdout
    };
    let (table, detailed) = (told(&[]), told(&["--detail"]));
    let own = "two: 0 batches of 0 records in 2 partitions";
    assert!(table.contains("needless batches/s") && !table.contains(own), "{table}");
    assert!(detailed.contains("needless batches/s") && detailed.contains(own), "{detailed}");

    hone(&["batch", "xray", "127.0.0.1:1", "one"])
        .expect_code(1)
        .expect_error("no connection to 127.0.0.1:1");
    hone(&["batch", "xray"]).expect_code(2);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    hone(&["batch", "xray", "--segments", path]).expect_code(2).expect_error("no segments");
    std::fs::create_dir(folder.path().join("t-0")).unwrap();
    std::fs::write(folder.path().join("t-0/00000000000000000000.log"), [7; 500]).unwrap();
    let garbage = hone(&["batch", "xray", "--segments", path, "--json", "--quiet"]).expect_code(0).json();
    let told = garbage["body"]["topics"][0]["troubles"][0].as_str().unwrap();
    assert!(told.contains("skipped 500 bytes at the end: this is not a segment"), "{told}");
}

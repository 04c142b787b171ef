//! With idempotence, what lies in the topic is what was acknowledged: each batch once, in the order of its numbers, however often
//! the connection breaks.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use hone_load::Admin;
use serde_json::Value;

mod stage;
use stage::{Broker, cut_after, hone, hone_command};

const RECORDS: usize = 3;

/// A batch as it lies in the topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stored {
    producer: (i64, i16),
    sequence: i32,
    records: i32,
}

fn stored(address: &str, topic: &str, partition: i32) -> Vec<Stored> {
    let mut admin = Admin::connect(address).unwrap();
    let (mut found, mut next) = (Vec::new(), 0);
    loop {
        let set = admin.fetch(topic, partition, next).unwrap();
        let before = found.len();
        for batch in hone_kafka::batches(&set).map_while(Result::ok) {
            hone_kafka::batch::verify_crc(batch.bytes).unwrap();
            if batch.header.base_offset < next {
                continue;
            }
            found.push(Stored {
                producer: (batch.header.producer_id, batch.header.producer_epoch),
                sequence: batch.header.base_sequence,
                records: batch.header.record_count,
            });
            next = batch.header.last_offset() + 1;
        }
        if found.len() == before {
            return found;
        }
    }
}

/// Numbers without a gap and without a repetition, from 0 on, for each producer.
#[track_caller]
fn expect_in_order(batches: &[Stored]) {
    let mut next: BTreeMap<(i64, i16), i32> = BTreeMap::new();
    for batch in batches {
        assert!(batch.producer.0 >= 0 && batch.records == RECORDS as i32, "{batch:?}");
        let due = next.entry(batch.producer).or_insert(0);
        assert_eq!(batch.sequence, *due, "{batch:?} came where {due} was due");
        *due += batch.records;
    }
}

fn load(address: &str, topic: &str, more: &[&str]) -> Value {
    let load = [
        "load",
        address,
        "--topic",
        topic,
        "--idempotence",
        "--in-flight",
        "5",
        "--records",
        "3",
        "--warmup",
        "0",
        "--rate",
        "1000",
        "--json",
        "--quiet",
    ];
    hone(&[&load[..], more].concat()).expect_code(0).json()
}

/// Everything that was acknowledged is there, and nothing else.
#[track_caller]
fn expect_exactly(record: &Value, address: &str, topic: &str, partitions: i32) {
    let facts = &record["body"]["facts"];
    assert_eq!(facts["acked_requests"], facts["requests"], "{facts:#}");
    let mut batches = 0;
    for partition in 0..partitions {
        let found = stored(address, topic, partition);
        assert!(!found.is_empty(), "nothing in partition {partition}");
        expect_in_order(&found);
        batches += found.len() as u64;
    }
    assert_eq!(batches, facts["acked_requests"].as_u64().unwrap(), "{facts:#}");
}

#[test]
fn batches_are_numbered_in_order() {
    let broker = Broker::start();
    Admin::connect(&broker.address).unwrap().create_topic("numbered", 5, &BTreeMap::new()).unwrap();
    for connections in ["1", "3"] {
        let topic = format!("numbered-{connections}");
        Admin::connect(&broker.address).unwrap().create_topic(&topic, 5, &BTreeMap::new()).unwrap();
        let more = ["--connections", connections, "--duration", "1"];
        let record = load(&broker.address, &topic, &more);
        expect_exactly(&record, &broker.address, &topic, 5);
        let facts = &record["body"]["facts"];
        assert_eq!(facts["produce_requests"], facts["requests"], "nothing was sent twice: {facts:#}");
    }
}

/// The connection breaks every 20 kB of answers, and each time the answers to some stored batches are lost.
#[test]
fn what_is_sent_again_over_a_new_connection_is_stored_once() {
    let data = tempfile::tempdir().unwrap();
    let behind = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let proxy = cut_after(&behind, 20_000, b"");
    let mut broker = hone_command()
        .args(["broker", "--listen", &behind, "--advertise", &proxy, "--metrics-listen", "off", "--data"])
        .arg(data.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while std::net::TcpStream::connect(&behind).is_err() {
        thread::sleep(Duration::from_millis(20));
    }
    Admin::connect(&behind).unwrap().create_topic("cut", 4, &BTreeMap::new()).unwrap();
    let record = load(&proxy, "cut", &["--connections", "2", "--duration", "4"]);
    let lost = record["body"]["facts"]["retries"]["connection lost"].as_u64().unwrap();
    assert!(lost > 0, "no answer was lost on the way");
    expect_exactly(&record, &behind, "cut", 4);
    broker.kill().unwrap();
    broker.wait().unwrap();
}

#[test]
fn what_is_sent_again_to_a_broker_that_was_killed_is_stored_once() {
    let mut broker = Broker::start();
    let address = broker.address.clone();
    Admin::connect(&address).unwrap().create_topic("killed", 4, &BTreeMap::new()).unwrap();
    thread::scope(|scope| {
        let load = scope.spawn(|| load(&address, "killed", &["--connections", "2", "--duration", "5"]));
        thread::sleep(Duration::from_millis(2_500));
        // Requests pile up before the broker dies: otherwise it may die while nothing is on its way.
        broker.signal(libc::SIGSTOP);
        thread::sleep(Duration::from_millis(200));
        broker.signal(libc::SIGKILL);
        broker.start_again();
        let record = load.join().unwrap();
        assert!(record["body"]["facts"]["retries"]["connection lost"].as_u64().unwrap() > 0);
        expect_exactly(&record, &address, "killed", 4);
    });
}

#[test]
fn what_brokers_could_not_follow_is_refused_before() {
    for (more, expected) in [
        (&["--acks", "1", "--in-flight", "5"][..], "needs acks"),
        (&["--in-flight", "6"], "at most 5 with idempotence, got 6"),
        (&["--in-flight", "5", "--partitions-per-request", "2"], "must be 1 with idempotence"),
    ] {
        hone(&[&["load", "127.0.0.1:1", "--idempotence"], more].concat())
            .expect_code(2)
            .expect_error(expected);
    }
}

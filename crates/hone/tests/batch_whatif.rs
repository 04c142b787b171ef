//! `hone batch whatif` against batches of real clients: what it foresees beside what then comes, and what it refuses.

#![expect(clippy::disallowed_methods, reason = "the test starts producers as their users do")]

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

mod stage;
use stage::clients::{alone, make_topics_of_memory, python};
use stage::{Broker, Ran, hone};

/// The same schedule each time, by librdkafka with a linger.
fn load(broker: &Broker, topic: &str, linger_ms: u32) {
    let linger = format!("linger.ms={linger_ms}");
    let fixed =
        ["load", &broker.address, "--topic", topic, "--client", "librdkafka", "--client-set", &linger];
    let window =
        ["--rate", "1500", "--bytes", "100", "--keys", "uniform:300", "--duration", "8", "--warmup", "1"];
    let rest = ["--connections", "1", "--compression", "none", "--max-lateness", "5s", "--json", "--quiet"];
    hone(&[&fixed[..], &window[..], &rest[..]].concat()).expect_code(0);
}

fn whatif(broker: &Broker, topic: &str, options: &[&str]) -> Ran {
    let ledger = broker.data.path().join("ledger-of-the-test.jsonl");
    let words = ["batch", "whatif", &broker.address, topic, "--json", "--quiet", "--ledger"];
    hone(&[&words[..], &[ledger.to_str().unwrap()], options].concat())
}

/// Folders of a topic's partitions below a broker's data.
fn folders_of(broker: &Broker, topic: &str) -> Vec<PathBuf> {
    let prefix = format!("{topic}-");
    let mut waiting = vec![broker.data.path().to_owned()];
    let mut found = Vec::new();
    while let Some(folder) = waiting.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                let is_own = path.file_name().unwrap().to_str().unwrap().starts_with(&prefix);
                if is_own { &mut found } else { &mut waiting }.push(path);
            }
        }
    }
    found
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_longer_linger_of_librdkafka_is_foreseen_as_it_comes() {
    let _alone = alone();
    let broker = Broker::start();
    if !make_topics_of_memory(&broker, &[("first", 4), ("second", 4), ("third", 4), ("then", 4)]) {
        return;
    }
    let options = ["--linger", "40ms", "--last", "all", "--today-client", "librdkafka"];
    // A machine that is busy with something else makes timers late, and then nothing is foreseen.
    let mut found = None;
    for topic in ["first", "second", "third"] {
        load(&broker, topic, 5);
        let body = whatif(&broker, topic, &options).json()["body"].clone();
        let is_refused = !body["refused"].is_null();
        found = Some((topic, body));
        if !is_refused {
            break;
        }
    }
    let (topic, foreseen) = found.unwrap();
    assert_eq!(foreseen["refused"], Value::Null, "{foreseen:#}");
    load(&broker, "then", 40);
    let came = whatif(&broker, "then", &["--last", "all"]).json()["body"]["today"].clone();
    let today = number(&foreseen["today"]["records_per_batch"]);
    let told = number(&foreseen["predicted"]["figures"]["records_per_batch"]);
    let real = number(&came["records_per_batch"]);
    // 1500 records a second, a quarter of them to each partition: 15 within 40 ms, besides the first.
    assert!(real > 2.0 * today, "a linger of 40 ms makes larger batches: {today} then {real}");
    assert!((0.7..1.4).contains(&(told / real)), "foreseen {told}, came {real}; {foreseen:#}");
    let bytes = number(&foreseen["predicted"]["batch_bytes_mean"]["value"]);
    assert!((0.7..1.4).contains(&(bytes / number(&came["batch_bytes_mean"]))), "{bytes}; {came:#}");

    // The same batches, from the disk of the broker.
    let folders = folders_of(&broker, topic);
    assert_eq!(folders.len(), 4);
    let paths: Vec<&str> = folders.iter().map(|folder| folder.to_str().unwrap()).collect();
    let of_disk = |options: &[&str]| {
        let ledger = broker.data.path().join("ledger-of-the-test.jsonl");
        let known = ["--today-client", "librdkafka", "--linger", "40ms", "--json", "--quiet", "--ledger"];
        let known = [&known[..], &[ledger.to_str().unwrap()]].concat();
        hone(&[&["batch", "whatif", "--segments"], &paths[..], &known[..], options].concat())
    };
    let on_disk = &of_disk(&[]).json()["body"];
    assert_eq!((&on_disk["topic"], &on_disk["records"]), (&Value::from(topic), &foreseen["records"]));
    assert_eq!(on_disk["window_s"], foreseen["window_s"]);
    let without = of_disk(&["--no-payload"]).json();
    assert_eq!(without["body"]["records"], foreseen["records"], "by headers alone");
    // What is told of today is not looked for, and stands in the answer as it was told.
    let told = of_disk(&["--today-linger", "5ms", "--today-batch-size", "20000", "--rtt", "3ms"]).json();
    let settings = &told["body"]["producers"][0]["settings"];
    let as_told = ["linger_ms", "batch_bytes", "rtt_ms"].map(|name| number(&settings[name]));
    assert_eq!(as_told, [5.0, 20_000.0, 3.0], "{settings}");
    let gathered = of_disk(&["--producers", "1"]).json();
    assert!(
        gathered["body"]["change"].as_str().unwrap().contains("producers"),
        "{}",
        gathered["body"]["change"]
    );
    let few = &of_disk(&["--max-records", "500"]).json()["body"];
    assert!(few["records"].as_u64() <= Some(500), "{few:#}");
    assert!(
        few["notes"].to_string().contains("the limit of records in memory was reached (--max-records)"),
        "{few:#}"
    );
    let stopped = of_disk(&["--replay-timeout", "1ms"]).expect_code(1).json();
    let why = stopped["body"]["refused"].as_str().unwrap();
    assert!(why.contains("the replay stopped before") && why.contains("--replay-timeout"), "{why}");
    assert!(stopped["body"]["predicted"].is_null(), "{stopped:#}");
    let another = of_disk(&["--no-payload", "--compression", "zstd"]).expect_code(1).json();
    assert!(another["body"]["refused"].is_string() && another["body"]["predicted"].is_null(), "{another:#}");
    let mixed =
        hone(&["batch", "whatif", "--segments", paths[0], folders_of(&broker, "then")[0].to_str().unwrap()]);
    mixed.expect_code(2).expect_error("these segments belong to several topics: ");
}

#[test]
fn a_sender_who_waits_for_each_answer_is_refused() {
    let _alone = alone();
    let broker = Broker::start();
    if !make_topics_of_memory(&broker, &[("waits", 1)]) {
        return;
    }
    let program = "import sys\nfrom kafka import KafkaProducer\n\
                   producer = KafkaProducer(bootstrap_servers=sys.argv[1], linger_ms=0)\n\
                   for number in range(3000):\n    producer.send('waits', b'a record of some bytes').get(timeout=30)\n\
                   producer.close()";
    let wrote = Command::new(python().unwrap()).args(["-c", program, &broker.address]).output().unwrap();
    assert!(wrote.status.success(), "{}", String::from_utf8_lossy(&wrote.stderr));
    let refused = whatif(&broker, "waits", &["--linger", "20ms"]).expect_code(1).json();
    let why = refused["body"]["refused"].as_str().unwrap();
    assert!(why.contains("open-loop replay is wrong here"), "{why}");
    assert!(
        refused["body"]["predicted"].is_null() && refused["body"]["cheapest"] == Value::Array(Vec::new())
    );
    let text = hone(&["batch", "whatif", &broker.address, "waits", "--linger", "20ms"]).expect_code(1);
    assert!(text.stdout.contains("there is no prediction"), "{}", text.stdout);
}

#[test]
fn what_makes_no_sense_is_said_before_anything_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let of = |arguments: &[&str]| hone(&[&["batch", "whatif"], arguments].concat());
    of(&[]).expect_code(2);
    of(&["127.0.0.1:1"]).expect_code(2).expect_error("no topic is named");
    of(&["127.0.0.1:1", "orders", "--segments", folder]).expect_code(2).expect_error("--segments");
    of(&["127.0.0.1:1", "orders", "--client", "carrier-pigeon"])
        .expect_code(2)
        .expect_error("carrier-pigeon");
    of(&["127.0.0.1:1", "orders", "--compression", "rar"])
        .expect_code(2)
        .expect_error("--compression `rar`: use none, gzip, snappy, lz4 or zstd");
    of(&["127.0.0.1:1", "orders", "--last", "0s"]).expect_code(2).expect_error("above 0");
    of(&["--segments", folder]).expect_code(2).expect_error("no segment files");
    of(&["127.0.0.1:1", "orders", "--linger", "20ms"]).expect_code(1).expect_error("127.0.0.1:1");
}

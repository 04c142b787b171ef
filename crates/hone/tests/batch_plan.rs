//! `hone batch plan` against batches of a real client: what it predicts of twice the flow, and what then comes.

use std::fs;
use std::path::Path;

use hone_record::{BatchWatch, Envelope, Figure, WatchedInstance, WatchedTopic};
use serde_json::Value;

mod stage;
use stage::clients::{alone, make_topics_of_memory};
use stage::{Broker, Ran, hone};

/// One producer of librdkafka with a linger of 20 ms, at a rate.
fn load(broker: &Broker, topic: &str, rate: &str) {
    let fixed =
        ["load", &broker.address, "--topic", topic, "--client", "librdkafka", "--client-set", "linger.ms=20"];
    let window =
        ["--rate", rate, "--bytes", "100", "--keys", "uniform:300", "--duration", "8", "--warmup", "1"];
    let rest = ["--connections", "1", "--compression", "none", "--max-lateness", "5s", "--json", "--quiet"];
    hone(&[&fixed[..], &window[..], &rest[..]].concat()).expect_code(0);
}

fn plan(broker: &Broker, topics: &[&str], options: &[&str]) -> Ran {
    let words = ["batch", "plan", &broker.address];
    let known = ["--quiet", "--last", "all", "--today-client", "librdkafka", "--replication-factor", "1"];
    hone(&[&words[..], topics, &known[..], options].concat())
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// CPU seconds for each request, batch, record and byte, after the cores of the base.
const COSTS: [f64; 5] = [0.2, 10e-6, 30e-6, 0.5e-6, 0.3e-9];

/// Looks of a cluster with these costs and this topic.
fn looks(file: &Path, topic: &str) {
    let look = |at: u32| {
        let wave = |period: f64| 1.0 + 0.5 * (f64::from(at) / period).sin();
        let work = [1.0, 90.0 * wave(11.1), 170.0 * wave(7.3), 1_500.0 * wave(19.0), 2e5 * wave(4.1)];
        let rates = WatchedTopic {
            topic: topic.to_owned(),
            batches_per_s: Figure::Known(work[2]),
            records_per_s: Figure::Known(work[3]),
            bytes_per_s: Figure::Known(work[4]),
            ..WatchedTopic::default()
        };
        let broker = WatchedInstance {
            cpu_cores: Figure::Known(work.iter().zip(COSTS).map(|(work, cost)| work * cost).sum()),
            requests_per_s: Figure::Known(work[1]),
            write_amplification: Figure::Known(1.5),
            ..WatchedInstance::default()
        };
        let watch = BatchWatch {
            source: "redpanda-25.1".to_owned(),
            at_unix_ms: 60_000 * u64::from(at),
            topics: vec![rates.clone()],
            total: rates,
            instances: vec![broker],
            ..BatchWatch::default()
        };
        serde_json::to_string(&Envelope::new(watch)).unwrap() + "\n"
    };
    fs::write(file, (0..200).map(look).collect::<String>()).unwrap();
}

#[test]
fn twice_the_flow_makes_the_batches_that_are_predicted() {
    let _alone = alone();
    let broker = Broker::start();
    if !make_topics_of_memory(&broker, &[("first", 4), ("second", 4), ("third", 4), ("then", 4)]) {
        return;
    }
    // A machine that is busy with something else makes timers late, and then nothing is predicted.
    let mut found = None;
    for topic in ["first", "second", "third"] {
        load(&broker, topic, "1500");
        let body = plan(&broker, &[topic], &["--json"]).expect_code(0).json()["body"].clone();
        let is_refused = !body["topics"][0]["refused"].is_null();
        found = Some((topic, body));
        if !is_refused {
            break;
        }
    }
    let (topic, planned) = found.unwrap();
    let own = &planned["topics"][0];
    assert_eq!(own["refused"], Value::Null, "{planned:#}");
    load(&broker, "then", "3000");
    let came = hone(&["batch", "whatif", &broker.address, "then", "--last", "all", "--json", "--quiet"]);
    let came = came.json()["body"]["today"].clone();
    let (now, new) = (number(&own["batches_now"]), number(&own["batches_new_producers"]));
    let real = number(&came["batches_per_s"]);
    let told = |end: &str| number(&own["batches_same_producers"][end]);
    // A linger of 20 ms holds 8.5 records of 375 a second, and 16 of 750: about 6 % more batches for twice the records.
    assert!(real < 0.75 * new, "the same producers make larger batches: {now} then {real}, not {new}");
    assert!((0.9 * told("low")..1.1 * told("high")).contains(&real), "came {real}; {planned:#}");
    assert!((0.85..1.18).contains(&(told("value") / real)), "came {real}; {planned:#}");
    assert_eq!(new, 2.0 * now);
    // Without a history there is no CPU, and the answer says what is missing.
    assert_eq!(planned["answer"], "inconclusive");
    assert!(planned["next"].as_str().unwrap().contains("hone batch watch --metrics"), "{planned:#}");
    assert!(planned["resources"].as_array().unwrap().iter().all(|each| each["resource"] != "cpu"));

    costs_of_a_history_are_applied(&broker, topic);
}

fn costs_of_a_history_are_applied(broker: &Broker, topic: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("looks.jsonl");
    looks(&file, topic);
    let history = file.to_str().unwrap();
    let with = |options: &[&str]| plan(broker, &[], &[&["--history", history], options].concat());
    let holds =
        with(&["--cores", "4", "--network-bandwidth", "1Gbit", "--disk-bandwidth", "100MiB/s", "--json"]);
    let holds = holds.expect_code(0).json()["body"].clone();
    assert_eq!(holds["answer"], "holds", "{holds:#}");
    assert_eq!(holds["topics"].as_array().unwrap().len(), 1, "counters name one topic with batches");
    let work = |unit: &str| {
        let all = holds["work"].as_array().unwrap();
        number(&all.iter().find(|work| work["unit"] == unit).unwrap()["then"]["value"])
    };
    let rates = ["requests", "batches", "records", "bytes"].map(work);
    let cores = COSTS[0] + rates.iter().zip(&COSTS[1..]).map(|(rate, cost)| rate * cost).sum::<f64>();
    let resource = |name: &str| {
        let all = holds["resources"].as_array().unwrap();
        all.iter().find(|each| each["resource"] == name).unwrap().clone()
    };
    let cpu = number(&resource("cpu")["then"]["value"]);
    assert!((cpu / cores - 1.0).abs() < 1e-3, "{cpu} for {cores}");
    let disk = number(&resource("disk")["then"]["value"]);
    assert!((disk / (1.5 * rates[3]) - 1.0).abs() < 1e-6, "{disk}: measured, one replica, one broker");
    let text = with(&["--cores", "4", "--network-bandwidth", "1Gbit"]).expect_code(0).stdout;
    assert!(text.starts_with("One cluster holds 2x: CPU "), "{text}");
    assert!(
        text.contains("no ceiling given") && text.contains("2 clusters with today's flow each"),
        "{text}"
    );
    let text = with(&["--cores", "0.25"]).expect_code(3).stdout;
    assert!(text.starts_with("One cluster does not hold 2x: CPU "), "{text}");
    let new = with(&["--new-producers", "--grow", "3", "--cores", "4", "--json"]).expect_code(0).json();
    for work in new["body"]["work"].as_array().unwrap() {
        assert!((number(&work["then"]["value"]) / number(&work["now"]) - 3.0).abs() < 1e-9, "{work}");
    }
}

#[test]
fn what_makes_no_sense_is_said_before_anything_is_read() {
    let of = |options: &[&str]| hone(&[&["batch", "plan", "127.0.0.1:1"], options].concat());
    of(&["--grow", "1"]).expect_code(2).expect_error("above 1");
    of(&["--network-bandwidth", "10"]).expect_code(2).expect_error("use a number with Mbit");
    of(&["--cores", "0"]).expect_code(2).expect_error("above 0");
    of(&["--history", "a", "--prometheus", "http://127.0.0.1:1"]).expect_code(2).expect_error("--prometheus");
    of(&["--history", "/nowhere/looks.jsonl"]).expect_code(1).expect_error("can't be read");
    of(&[]).expect_code(1).expect_error("127.0.0.1:1");
}

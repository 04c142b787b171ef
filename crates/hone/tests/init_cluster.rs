//! `hone init HOST:PORT`: topics written by five different producers, and files whose loads write the same batches.

#![expect(clippy::disallowed_methods, reason = "the test starts producers as their users do")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

mod stage;
use stage::clients::{alone, franz_go, java_jars, make_topics_of_memory, python};
use stage::{Broker, Ran, hone, hone_here, hone_in};

/// How long a producer writes, and after how long its topic is looked at: producers still write then.
const SECONDS: &str = "22";
const UNTIL_LOOKED_AT: Duration = Duration::from_secs(9);
/// What is recorded of it.
const RECORDED: &str = "6s";
/// A replica may differ by so much.
const LIKE: f64 = 0.10;
/// So often a topic is written anew before its replica counts as unlike: a machine that takes the CPU away for a while makes other batches.
const WRITTEN_AT_MOST: usize = 3;

/// Records, bytes and batches per second.
type Figures = [f64; 3];

fn of_topic(broker: &Broker, topic: &str) -> Figures {
    let ran = hone(&["batch", "xray", &broker.address, topic, "--last", "30s", "--json", "--quiet"]);
    let seen = &ran.expect_code(0).json()["body"]["topics"][0];
    let of = |field: &str| seen[field].as_f64().unwrap_or(f64::NAN);
    [
        of("records_per_s"),
        of("batches_per_s") * seen["mean_bytes"]["value"].as_f64().unwrap_or(f64::NAN),
        of("batches_per_s"),
    ]
}

fn init(broker: &Broker, folder: &Path, topic: &str) -> Ran {
    let args = ["init", &broker.address, "--topic", topic, "--last", RECORDED, "--quiet"];
    hone_in(folder, &args)
}

/// The load of a file for `hone tune`, sent once to a topic of its own.
fn of_replica(broker: &Broker, folder: &Path, topic: &str) -> Figures {
    let tune: toml::Table = fs::read_to_string(folder.join("tune.toml")).unwrap().parse().unwrap();
    let workload = tune["workload"].as_table().unwrap().values().next().unwrap().clone();
    let mut load = toml::Table::new();
    load.insert("name".to_owned(), "replica".into());
    load.insert("workload".to_owned(), workload);
    fs::write(folder.join("load.toml"), toml::to_string(&load).unwrap()).unwrap();
    let replica = format!("replica-{topic}");
    let args = ["load", &broker.address, "--file", "load.toml", "--topic", &replica, "--make-topic"];
    let more = ["--topic-config", "write.caching=true", "--warmup", "50", "--warmup-limit", "0"];
    let window = hone_in(folder, &[&args[..], &more, &["--json", "--quiet"]].concat()).expect_code(0).json();
    let body = &window["body"];
    let seconds = body["duration_s"].as_f64().unwrap();
    let of = |field: &str| body["batches"][0][field].as_f64().unwrap() / seconds;
    [of("records"), of("bytes"), of("batches")]
}

fn started(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap()
}

/// The replica of a topic beside the topic, and what the file says. The topic is written while Hone looks at it.
fn replicated(topic: &str, partitions: u32, write: &dyn Fn(&Broker) -> Child) -> (Figures, Figures, String) {
    let (broker, folder) = (Broker::start(), tempfile::tempdir().unwrap());
    assert!(make_topics_of_memory(&broker, &[(topic, partitions), ("quiet", 1)]));
    let mut producer = write(&broker);
    thread::sleep(UNTIL_LOOKED_AT);
    let ran = init(&broker, folder.path(), topic).expect_code(0);
    assert!(ran.stdout.contains("hone tune"), "{}", ran.stdout);
    assert!(producer.wait().unwrap().success());
    let text = fs::read_to_string(folder.path().join("tune.toml")).unwrap();
    (of_topic(&broker, topic), of_replica(&broker, folder.path(), topic), text)
}

fn check_like(topic: &str, partitions: u32, write: &dyn Fn(&Broker) -> Child) -> String {
    let mut last = None;
    for _ in 0..WRITTEN_AT_MOST {
        let (today, here, text) = replicated(topic, partitions, write);
        if today.iter().zip(&here).all(|(today, here)| (here / today - 1.0).abs() <= LIKE) {
            return text;
        }
        last = Some((today, here, text));
    }
    let (today, here, text) = last.unwrap();
    panic!("{topic}: {today:?} in the topic, {here:?} in its replica\n{text}");
}

fn settings(text: &str) -> toml::Table {
    let file: toml::Table = text.parse().unwrap();
    file["workload"].as_table().unwrap().values().next().unwrap().as_table().unwrap().clone()
}

fn paced(
    client: &'static str,
    rate: &'static str,
    linger_ms: &'static str,
    keys: &'static str,
) -> Option<impl Fn(&Broker) -> Child> {
    let python = python()?;
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/producers/paced.py");
    Some(move |broker: &Broker| {
        let mut command = Command::new(&python);
        command.arg(&program).args([client, &broker.address, client, SECONDS, rate, linger_ms, keys]);
        started(&mut command)
    })
}

#[test]
fn a_topic_of_librdkafka_is_replicated() {
    let _alone = alone();
    let Some(write) = paced("confluent", "400", "20", "0") else { return };
    let load = settings(&check_like("confluent", 4, &write));
    assert_eq!((load["connections"].as_integer(), load["partitions"].as_integer()), (Some(1), Some(4)));
    let linger: f64 = load["client_settings"]["linger.ms"].as_str().unwrap().parse().unwrap();
    assert!((15.0..=25.0).contains(&linger), "{load:?}");
}

#[test]
fn a_topic_of_kafka_python_is_replicated() {
    let _alone = alone();
    let Some(write) = paced("kafka-python", "300", "10", "50") else { return };
    let load = settings(&check_like("kafka-python", 6, &write));
    assert_eq!(load["client_settings"]["partitioner"].as_str(), Some("murmur2_random"), "{load:?}");
}

#[test]
fn a_topic_of_java_is_replicated() {
    let _alone = alone();
    let Some(jars) = java_jars() else { return };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/producers/Writer.java");
    let write = |broker: &Broker| {
        let mut command = Command::new("java");
        command.arg("-cp").arg(jars.join("*")).arg(&source);
        command.args([&broker.address, SECONDS, "java|rate:500|linger.ms=25"]);
        started(&mut command)
    };
    let text = check_like("java", 3, &write);
    assert_eq!(settings(&text)["idempotent"].as_bool(), Some(true), "{text}");
    assert!(text.contains("FILL IN: your producers look like"), "{text}");
}

/// A load of Hone's own: by another client, or of finished batches.
fn loaded(topic: &'static str, client: String, more: &'static [&'static str]) -> impl Fn(&Broker) -> Child {
    move |broker: &Broker| {
        let mut command = hone_here();
        command.args(["load", &broker.address, "--topic", topic, "--client", &client, "--duration", SECONDS]);
        command.args(["--warmup", "50", "--warmup-limit", "0", "--max-lateness", "5s", "--quiet"]).args(more);
        started(&mut command)
    }
}

#[test]
fn a_topic_of_franz_go_is_replicated() {
    let _alone = alone();
    let Some(client) = franz_go() else { return };
    const MORE: &[&str] = &[
        "--rate",
        "600",
        "--connections",
        "2",
        "--client-set",
        "linger_ms=15",
        "--idempotence",
        "--compression",
        "lz4",
    ];
    let text = check_like("franz-go", 4, &loaded("franz-go", client, MORE));
    let load = settings(&text);
    assert_eq!(
        (load["connections"].as_integer(), load["compression"].as_str()),
        (Some(2), Some("lz4")),
        "{text}"
    );
}

/// Frames that were made before the load have the times of that: the rate is measured, and the load is of batches.
#[test]
fn a_topic_whose_times_tell_nothing_is_replicated_by_its_batches() {
    let _alone = alone();
    const MORE: &[&str] = &["--rate", "200", "--records", "5", "--bytes", "200"];
    let text = {
        let (broker, folder) = (Broker::start(), tempfile::tempdir().unwrap());
        assert!(make_topics_of_memory(&broker, &[("wire", 3)]));
        let mut producer = loaded("wire", "wire".to_owned(), MORE)(&broker);
        thread::sleep(UNTIL_LOOKED_AT);
        init(&broker, folder.path(), "wire").expect_code(0);
        assert!(producer.wait().unwrap().success());
        let here = of_replica(&broker, folder.path(), "wire");
        // Known by the load's own options: 200 batches of five records a second, each with its header and 209 bytes a record.
        let today = [1_000.0, 200.0 * (61.0 + 5.0 * 209.0), 200.0];
        for (today, here) in today.iter().zip(&here) {
            assert!((here / today - 1.0).abs() <= LIKE, "{today:?} {here:?}");
        }
        fs::read_to_string(folder.path().join("tune.toml")).unwrap()
    };
    assert_eq!(settings(&text)["client"].as_str(), Some("wire"), "{text}");
}

#[test]
fn the_cluster_is_only_read_and_no_file_is_written_over() {
    let (broker, folder) = (Broker::start(), tempfile::tempdir().unwrap());
    if !make_topics_of_memory(&broker, &[("orders", 2), ("empty", 1)]) {
        return;
    }
    let send = ["load", &broker.address, "--topic", "orders", "--client", "librdkafka", "--rate", "300"];
    let more = ["--duration", "4", "--warmup", "0", "--connections", "1", "--json", "--quiet"];
    hone_in(folder.path(), &[&send[..], &more].concat()).expect_code(0);
    let records = |broker: &Broker| {
        let ran =
            hone(&["batch", "xray", &broker.address, "--last", "all", "--json", "--quiet"]).expect_code(0);
        let topics: Vec<Value> = ran.json()["body"]["topics"].as_array().unwrap().clone();
        topics.iter().map(|topic| (topic["topic"].to_string(), topic["records"].as_u64())).collect::<Vec<_>>()
    };
    let before = records(&broker);
    // Nobody sends any more: what is kept is looked at.
    let ran = hone_in(folder.path(), &["init", &broker.address, "--json", "--quiet"]).expect_code(0).json();
    assert_eq!(ran["body"]["topic"], "orders", "{ran}");
    assert!(ran["body"]["fill_in"].as_array().unwrap().len() >= 3, "{ran}");
    assert_eq!(records(&broker), before, "nothing is written to the cluster");
    let plan = hone_in(folder.path(), &["tune", "tune.toml", "--dry-run", "--quiet"]);
    assert_eq!(plan.code, 0, "{}{}", plan.stdout, plan.stderr);
    let text = fs::read_to_string(folder.path().join("tune.toml")).unwrap();
    hone_in(folder.path(), &["init", &broker.address, "--quiet"])
        .expect_code(1)
        .expect_error("tune.toml exists already");
    fs::remove_file(folder.path().join("tune.toml")).unwrap();
    hone_in(folder.path(), &["init", &broker.address, "--quiet"])
        .expect_code(1)
        .expect_error("tune.recording exists already");
    assert!(!folder.path().join("tune.toml").exists() && text.contains("recording = \"tune.recording\""));
    hone(&["init", &broker.address, "--topic", "none"]).expect_code(2).expect_error("has no topic `none`");
    hone(&["init", &broker.address, "--load", "run"])
        .expect_code(2)
        .expect_error("--load is for a source tree");
    hone(&["init", ".", "--topic", "orders"]).expect_code(2).expect_error("--topic is for a running cluster");
    hone(&["init", "127.0.0.1:1"]).expect_code(1).expect_error("127.0.0.1:1");
}

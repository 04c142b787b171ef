//! Batches by a cluster's own counters, held against what a load wrote: by the broker's own page, and through a real Prometheus.

#![expect(clippy::disallowed_methods, reason = "tests start servers as their users do")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use hone_batch::metrics::exposition;
use hone_batch::metrics::prometheus::{Series, read_series};
use hone_batch::scan::scan;
use hone_load::Admin;
use hone_record::{BatchWatch, Envelope, Figure, WatchedInstance, WatchedTopic, Window};
use hone_store::web::Web;
use serde_json::Value;

mod stage;
use stage::kafka::Kafka;
use stage::tools::{find, of_checkout};
use stage::{Broker, Ran, free_port, hone, hone_command};

/// A Prometheus that scrapes every second, on loopback; killed on drop.
struct Prometheus {
    child: Child,
    url: String,
    web: Web,
    _data: tempfile::TempDir,
}

impl Prometheus {
    /// `None` is a skip.
    fn scraping(target: &str, rules: &[&str]) -> Option<Self> {
        let program = find("prometheus")?;
        let data = tempfile::tempdir().unwrap();
        let rules: Vec<String> = rules
            .iter()
            .map(|file| format!("'{}'", of_checkout(file).canonicalize().unwrap().display()))
            .collect();
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{}]\n\
             scrape_configs:\n- {{job_name: broker, static_configs: [{{targets: ['{target}']}}]}}\n",
            rules.join(", ")
        );
        fs::write(data.path().join("prometheus.yml"), config).unwrap();
        let url = format!("http://127.0.0.1:{}", free_port());
        let child = Command::new(program)
            .arg(format!("--config.file={}", data.path().join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", data.path().join("data").display()))
            .arg(format!("--web.listen-address={}", url.trim_start_matches("http://")))
            .arg("--log.level=error")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let started = Self { child, url, web: Web::open(None).unwrap(), _data: data };
        let until = Instant::now() + Duration::from_secs(60);
        while started.web.get(&format!("{}/-/ready", started.url), &[], &|| false).is_err() {
            assert!(Instant::now() < until, "Prometheus does not get ready");
            thread::sleep(Duration::from_millis(100));
        }
        Some(started)
    }

    #[track_caller]
    fn ask(&self, query: &str) -> Vec<Series> {
        let answer = self.web.get(&format!("{}/api/v1/query", self.url), &[("query", query)], &|| false);
        read_series(&answer.unwrap_or_else(|error| panic!("{query}: {error}"))).unwrap()
    }

    /// By topic.
    #[track_caller]
    fn by_topic(&self, query: &str) -> BTreeMap<String, f64> {
        let topic = |series: &Series| series.labels.get("topic").cloned().unwrap_or_default();
        self.ask(query).iter().map(|series| (topic(series), series.points[0].1)).collect()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A load on a topic that is there, for so many seconds. Its warm-up is short and of a known length: the broker counts that, too.
fn load<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    address: &str,
    topic: &str,
    more: &[&str],
) -> thread::ScopedJoinHandle<'scope, Value> {
    let mut args: Vec<String> = [
        "load",
        address,
        "--topic",
        topic,
        "--warmup",
        "20",
        "--warmup-limit",
        "0",
        "--json",
        "--quiet",
        "--schedule",
        "uniform",
    ]
    .map(str::to_owned)
    .to_vec();
    args.extend(more.iter().map(|arg| (*arg).to_owned()));
    // A window that a busy machine disturbed ends with 1, and its counts are as good as any.
    scope.spawn(move || hone(&args.iter().map(String::as_str).collect::<Vec<_>>()).json())
}

fn facts(record: &Value, field: &str) -> f64 {
    record["body"]["facts"][field].as_f64().unwrap_or_else(|| panic!("no {field} in {record:#}"))
}

fn watch(args: &[&str]) -> BatchWatch {
    let all = [&["batch", "watch", "--json", "--quiet"], args].concat();
    Envelope::parse(&hone(&all).expect_code(0).stdout).unwrap()
}

#[track_caller]
fn near(what: &str, found: f64, expected: f64, share: f64) {
    assert!((found / expected - 1.0).abs() <= share, "{what}: {found}, expected {expected}");
}

#[track_caller]
fn known(figure: Figure) -> f64 {
    figure.known().unwrap_or_else(|| panic!("{figure:?}"))
}

fn topic<'a>(watch: &'a BatchWatch, name: &str) -> &'a WatchedTopic {
    watch.topics.iter().find(|topic| topic.topic == name).unwrap_or_else(|| panic!("no {name}: {watch:#?}"))
}

/// How far a rate over seconds may be off the whole load's: a machine that builds beside it stalls load and broker for a part of them.
const STALLED: f64 = 0.6;

/// How far a ratio of counters that move may be off.
const MOVING: f64 = 0.03;

/// What a load wrote: bytes and records of a batch, and batches a second.
struct Truth {
    batch_bytes: f64,
    records: f64,
    batches_per_s: f64,
    /// With those of the warm-up.
    batches: f64,
}

/// Requests of the warm-up.
const WARMUP: f64 = 20.0;

impl Truth {
    fn of(record: &Value, batches_a_request: f64) -> Self {
        let batches = batches_a_request * facts(record, "acked_requests");
        Self {
            batch_bytes: facts(record, "acked_bytes") / batches,
            records: facts(record, "acked_records") / batches,
            batches_per_s: batches_a_request * facts(record, "reached_requests_per_s"),
            batches: batches + batches_a_request * WARMUP,
        }
    }

    /// A broker writes its page counter after counter while batches arrive, so ratios of moving counters are off by a few batches; those of
    /// resting counters are exact, and are held to that below. Rates as far as [`STALLED`].
    #[track_caller]
    fn expect(&self, how: &str, found: &WatchedTopic) {
        near(&format!("{how}: bytes a batch"), known(found.batch_bytes), self.batch_bytes, MOVING);
        near(&format!("{how}: records a batch"), known(found.records_per_batch), self.records, MOVING);
        near(&format!("{how}: batches/s"), known(found.batches_per_s), self.batches_per_s, STALLED);
    }
}

const RULES: [&str; 2] =
    ["mixin/rendered/rules/redpanda-25.1.yaml", "mixin/rendered/alerts/hone-batches.yaml"];

#[test]
fn the_brokers_page_and_a_real_prometheus_say_what_the_load_wrote() {
    let broker = Broker::start();
    let mut admin = Admin::connect(&broker.address).unwrap();
    admin.create_topic("small", 4, &BTreeMap::new()).unwrap();
    admin.create_topic("large", 4, &BTreeMap::new()).unwrap();
    leave_behind(&broker.address);
    let Some(prometheus) = Prometheus::scraping(&broker.metrics, &RULES) else { return };
    thread::scope(|scope| {
        let length = ["--duration", "32"];
        let small = ["--rate", "300", "--records", "2", "--bytes", "100", "--partitions-per-request", "2"];
        let large = ["--rate", "50", "--records", "40", "--bytes", "300"];
        let small = load(scope, &broker.address, "small", &[&small[..], &length[..]].concat());
        let large = load(scope, &broker.address, "large", &[&large[..], &length[..]].concat());
        thread::sleep(Duration::from_secs(14));
        let scraped = watch(&["--metrics", &broker.metrics, "--every", "4s", "--once"]);
        let asked = watch(&["--prometheus", &prometheus.url, "--window", "8s", "--once"]);
        let queries =
            hone(&["batch", "watch", "--prometheus", &prometheus.url, "--window", "8s", "--queries"]);
        let answers = answers(&prometheus, &queries.expect_code(0).stdout);
        expect_selection(&prometheus, asked.topics.len());
        expect_panels(&prometheus);
        let (small, large) = (small.join().unwrap(), large.join().unwrap());
        expect_history(&prometheus);
        let (small, large) = (Truth::of(&small, 2.0), Truth::of(&large, 1.0));
        let all_batches = small.batches_per_s + large.batches_per_s;
        for (how, found) in [("scrape", &scraped), ("Prometheus", &asked)] {
            assert_eq!(found.source, "hone-broker");
            small.expect(how, topic(found, "small"));
            large.expect(how, topic(found, "large"));
            // The many small ones are told first.
            assert_eq!(found.topics[0].topic, "small", "{how}");
            near("share", known(found.topics[0].batch_share), small.batches_per_s / all_batches, 0.3);
            expect_broker(how, &found.instances[0], all_batches);
            assert!(found.shards.iter().any(|shard| shard.cpu_share > 0.0), "{how}: {:?}", found.shards);
            assert!(found.backlog.iter().any(|queue| queue.group == "main"), "{how}: {:?}", found.backlog);
            assert!(known(found.batch_bytes_p50) > 0.0 && found.clients.is_empty());
            expect_left_behind(how, found);
            expect_rising(how, found);
            let missing: Vec<&str> = found.not_exported.iter().map(|one| one.what.as_str()).collect();
            assert_eq!(missing, ["produce time-outs", "batches by client"], "{how}");
        }
        for (id, expected_small, expected_large, share) in [
            ("R1", small.batch_bytes, large.batch_bytes, MOVING),
            ("R2", small.records, large.records, MOVING),
            ("R3", small.batch_bytes, large.batch_bytes, MOVING),
            ("R3b", small.batch_bytes, large.batch_bytes, MOVING),
            ("R5", small.batches_per_s, large.batches_per_s, STALLED),
        ] {
            near(id, answers[id]["small"], expected_small, share);
            near(id, answers[id]["large"], expected_large, share);
        }
        let cores = known(scraped.instances[0].cores);
        near("R4", answers["R4"][""] * cores, all_batches, STALLED);
        near("R7", answers["R7"][""], all_batches / (small.batches_per_s / 2.0 + large.batches_per_s), 0.05);
        expect_resting(&prometheus, &small, &large);
        assert!(answers["R8b"][""] >= 0.0 && answers["R9"][""] > 0.0, "{answers:?}");
        assert!(answers.contains_key("R6a") && answers["R6b"][""] <= 1.0, "{answers:?}");
        let all_bytes = small.batches_per_s * small.batch_bytes + large.batches_per_s * large.batch_bytes;
        near("R10", answers["R10"][""], all_bytes / all_batches, STALLED);
        near("R11", answers["R11"]["small"], small.batch_bytes, MOVING);
        near("R13a", answers["R13a"][""], all_bytes, STALLED);
        assert!(answers["R13b"][""] > 0.0 && answers["R12d"][""] >= answers["R12a"][""], "{answers:?}");
        assert_eq!(answers["R15b"][""], 40.0);
        let recorded = prometheus.ask("hone:consumer_group_lag:max");
        assert_eq!((recorded.len(), recorded[0].points[0].1), (1, 25.0), "{recorded:?}");
    });
}

/// Leaves a consumer group 40 records behind: 15 on one partition and 25, which is all of them, on the other.
fn leave_behind(address: &str) {
    use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
    use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
    let mut admin = Admin::connect(address).unwrap();
    admin.create_topic("still", 2, &BTreeMap::new()).unwrap();
    let mut config = rdkafka::ClientConfig::new();
    config.set("bootstrap.servers", address).set("group.id", "slow").set("enable.auto.commit", "false");
    let producer: BaseProducer = config.create().unwrap();
    for partition in [0, 1] {
        for _ in 0..25 {
            let record = BaseRecord::<(), str>::to("still").partition(partition).payload("x");
            producer.send(record).unwrap();
        }
    }
    producer.flush(Duration::from_secs(20)).unwrap();
    let consumer: BaseConsumer = config.create().unwrap();
    let mut offsets = rdkafka::TopicPartitionList::new();
    for (partition, offset) in [(0, 10), (1, 0)] {
        offsets.add_partition_offset("still", partition, rdkafka::Offset::Offset(offset)).unwrap();
    }
    consumer.assign(&offsets).unwrap();
    consumer.commit(&offsets, CommitMode::Sync).unwrap();
}

fn expect_left_behind(how: &str, found: &BatchWatch) {
    let lags: Vec<_> = found.groups.iter().map(|one| (one.group.as_str(), one.lag, one.lag_max)).collect();
    assert_eq!(lags, [("slow", Figure::Known(40.0), Figure::Known(25.0))], "{how}");
}

/// Every percentile is there, and none is below the one before.
fn expect_rising(how: &str, found: &BatchWatch) {
    assert_eq!(found.produce_latency.len(), 1, "{how}: {:?}", found.produce_latency);
    let percentiles = &found.produce_latency[0].percentiles;
    let named: Vec<f64> = percentiles.iter().map(|one| one.percentile).collect();
    assert_eq!(named, [50.0, 85.0, 95.0, 99.0, 99.999], "{how}");
    let ms: Vec<f64> = percentiles.iter().map(|one| known_or_bound(one.ms)).collect();
    assert!(ms[0] > 0.0 && ms.is_sorted(), "{how}: {ms:?}");
    // A few thousand requests don't tell one in 100,000.
    assert!(matches!(percentiles[4].ms, Figure::AtMost(_)), "{how}: {percentiles:?}");
}

fn known_or_bound(figure: Figure) -> f64 {
    match figure {
        Figure::Known(value) | Figure::AtMost(value) => value,
        other => panic!("{other:?}"),
    }
}

/// Every flush takes 40 ms longer, so no request with acks=all takes less; and none takes the broker longer than its client.
#[test]
fn the_latency_is_the_brokers_and_lies_below_the_clients() {
    let broker = Broker::start_as(hone_command().args(["broker", "--storage-fault", "fsync-delay,ms=40"]));
    Admin::connect(&broker.address).unwrap().create_topic("t", 1, &BTreeMap::new()).unwrap();
    thread::scope(|scope| {
        let load = load(scope, &broker.address, "t", &["--rate", "40", "--duration", "14"]);
        thread::sleep(Duration::from_secs(5));
        let public = format!("http://{}/public_metrics", broker.metrics);
        let pages = [broker.metrics.as_str(), &public].map(|page| {
            let scrape = ["--metrics", page, "--every", "3s", "--once"];
            (page.to_owned(), watch(&scrape))
        });
        let record = load.join().unwrap().to_string();
        let window: Window = Envelope::parse(&record).unwrap();
        let client_ms = window.latencies.sent_to_ack.quantile_us(0.5).unwrap() / 1e3;
        assert!(client_ms >= 40.0, "{client_ms}");
        for (page, found) in pages {
            expect_rising(&page, &found);
            let broker_ms = known(found.produce_latency[0].percentiles[0].ms);
            // Bounds double, so the figure is at most twice the true one, and at least half of it.
            assert!((20.0..=2.0 * client_ms).contains(&broker_ms), "{page}: {broker_ms}, client {client_ms}");
            assert!(known(found.instances[0].received_bytes_per_s) > 0.0, "{page}");
            assert!(known(found.instances[0].sent_bytes_per_s) > 0.0, "{page}");
        }
    });
}

/// A record in each batch: 61 bytes of the header, 9 around 100, or 9 around 2,000.
const BYTES_BY_PARTITION: [(&str, usize, f64); 2] = [("0", 100, 170.0), ("1", 2_000, 2_070.0)];

#[test]
fn batches_are_told_apart_by_partition() {
    use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
    let broker = Broker::start();
    Admin::connect(&broker.address).unwrap().create_topic("t", 2, &BTreeMap::new()).unwrap();
    let is_done = std::sync::atomic::AtomicBool::new(false);
    let (by_partition, by_broker) = thread::scope(|scope| {
        scope.spawn(|| {
            let mut config = rdkafka::ClientConfig::new();
            config.set("bootstrap.servers", &broker.address).set("linger.ms", "0");
            let producer: BaseProducer = config.create().unwrap();
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                for (partition, bytes, _) in BYTES_BY_PARTITION {
                    let payload = "x".repeat(bytes);
                    let record = BaseRecord::<(), str>::to("t").payload(&payload);
                    producer.send(record.partition(partition.parse().unwrap())).unwrap();
                }
                producer.flush(Duration::from_secs(20)).unwrap();
            }
        });
        thread::sleep(Duration::from_secs(1));
        let split = |by: &str| {
            let scrape = ["--metrics", &broker.metrics, "--every", "2s", "--once", "--by", by];
            watch(&scrape)
        };
        let found = (split("partition"), split("broker"));
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        found
    });
    for (partition, _, bytes) in BYTES_BY_PARTITION {
        let part = by_partition.parts.iter().find(|part| part.partition == partition).unwrap();
        assert_eq!((part.topic.as_str(), part.instance.as_str()), ("t", broker.metrics.as_str()));
        near(partition, known(part.batch_bytes), bytes, MOVING);
        near(partition, known(part.records_per_batch), 1.0, MOVING);
    }
    assert_eq!((by_partition.parts.len(), by_broker.parts.len()), (2, 1));
    for figure in [
        by_broker.parts[0].batch_bytes,
        by_broker.instances[0].batch_bytes,
        topic(&by_partition, "t").batch_bytes,
    ] {
        near("both partitions", known(figure), (170.0 + 2_070.0) / 2.0, MOVING);
    }
    hone(&["batch", "watch", "--metrics", "x", "--by", "shard"]).expect_code(2).expect_error("partition");
}

/// Other series are as if they were not there.
fn expect_selection(prometheus: &Prometheus, topics: usize) {
    let of = |labels: &str| {
        let asked = ["--prometheus", &prometheus.url, "--window", "8s", "--once", "--select", labels];
        hone(&[&["batch", "watch", "--json", "--quiet"], &asked[..]].concat())
    };
    let selected: BatchWatch = Envelope::parse(&of(r#"job="broker""#).expect_code(0).stdout).unwrap();
    assert_eq!(selected.topics.len(), topics);
    of(r#"job="another""#).expect_code(1).expect_error(r#"job="another""#);
}

/// When nothing moves any more, counters and load agree to the byte.
fn expect_resting(prometheus: &Prometheus, small: &Truth, large: &Truth) {
    thread::sleep(Duration::from_secs(2));
    let ratio = |part: &str| {
        let of = "sum by (topic) (vectorized_cluster_partition_batches_produced)";
        prometheus.by_topic(&format!("sum by (topic) (vectorized_cluster_partition_{part}) / {of}"))
    };
    let (bytes, records) = (ratio("bytes_produced_total"), ratio("records_produced"));
    let batches = prometheus.by_topic("sum by (topic) (vectorized_cluster_partition_batches_produced)");
    for (name, truth) in [("small", small), ("large", large)] {
        near(&format!("{name} at rest: batches"), batches[name], truth.batches, 1e-9);
        near(&format!("{name} at rest: bytes"), bytes[name], truth.batch_bytes, 1e-6);
        near(&format!("{name} at rest: records"), records[name], truth.records, 1e-9);
    }
}

/// One mix that came and went: its cost is known as a whole, and no kind of work alone.
fn expect_history(prometheus: &Prometheus) {
    let args = [
        "batch",
        "cost",
        "--prometheus",
        &prometheus.url,
        "--history-length",
        "40s",
        "--history-step",
        "500ms",
        "--window",
        "4s",
        "--json",
    ];
    let of = |labels: &'static str| hone(&[&args[..], &["--select", labels]].concat());
    of(r#"job="another""#).expect_code(1).expect_error("job=\"another\"");
    let record = of(r#"job="broker""#).expect_code(0).json();
    let body = &record["body"];
    assert!(body["points"].as_u64() >= Some(30), "{body:#}");
    assert!(body["condition_index"].as_f64() > Some(30.0), "{body:#}");
    let together = body["together"][0]["units"].as_array().unwrap();
    assert!(together.contains(&"batch".into()) && together.contains(&"byte".into()), "{body:#}");
    assert!(body["together"][0]["cores"]["value"].as_f64() > Some(0.0), "{body:#}");
}

fn expect_broker(how: &str, broker: &WatchedInstance, batches_per_s: f64) {
    near(
        &format!("{how}: batches"),
        known(broker.batches_per_s_per_core) * known(broker.cores),
        batches_per_s,
        0.25,
    );
    near(&format!("{how}: batches a request"), known(broker.batches_per_request), 650.0 / 350.0, 0.05);
    assert!(
        known(broker.cpu_cores) > 0.0 && known(broker.received_bytes_per_s) > 100_000.0,
        "{how}: {broker:?}"
    );
    // Pages of 4 KiB under appends of less than that: at least what was written, and bounded.
    let amplification = known(broker.write_amplification);
    assert!(
        (0.0..200.0).contains(&amplification) && known(broker.fsyncs_per_batch) >= 0.0,
        "{how}: {broker:?}"
    );
}

/// Every query that `--queries` printed, asked: by id, the answer by topic (or by nothing).
fn answers(prometheus: &Prometheus, text: &str) -> BTreeMap<String, BTreeMap<String, f64>> {
    let lines: Vec<&str> = text.lines().collect();
    let ids: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("# ")?.split(' ').next()).collect();
    assert_eq!(
        ids,
        [
            "R1", "R2", "R3", "R3b", "R4", "R5", "R6a", "R6b", "R7", "R8b", "R9", "R10", "R11", "R12a",
            "R12b", "R12c", "R12d", "R12e", "R13a", "R13b", "R15b"
        ]
    );
    lines
        .chunks(2)
        .map(|pair| pair[1])
        .zip(ids)
        .map(|(query, id)| (id.to_owned(), prometheus.by_topic(query)))
        .collect()
}

/// Every query of every panel is answered, and has a series wherever the embedded broker exports what it needs.
fn expect_panels(prometheus: &Prometheus) {
    let text = fs::read_to_string(of_checkout("mixin/rendered/dashboards/hone-batches.json")).unwrap();
    let board: Value = serde_json::from_str(&text).unwrap();
    let absent = [
        "instance_write_amplification",
        "cluster_request_bytes",
        "instance_produce_timeouts",
        "instance_replication_errors",
    ];
    let mut asked = 0;
    for panel in board["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().unwrap();
            let query = query
                .replace("$source", ".*")
                .replace("$topic", ".*")
                .replace("$__rate_interval", "5s")
                .replace("$compare", "2s");
            let is_absent = absent.iter().any(|name| query.contains(name));
            assert_eq!(prometheus.ask(&query).is_empty(), is_absent, "{}: {query}", panel["title"]);
            asked += 1;
        }
    }
    assert!(asked >= 31, "only {asked} queries");
}

/// What lies in the segments of a topic: batches, records, bytes.
fn on_disk(kafka: &Kafka, topic: &str) -> [u64; 3] {
    let mut sums = [0; 3];
    for folder in fs::read_dir(kafka.data.path().join("data")).unwrap().flatten() {
        let is_ours = folder
            .file_name()
            .to_str()
            .is_some_and(|name| name.rsplit_once('-').is_some_and(|(own, _)| own == topic));
        for segment in is_ours.then(|| segments(&folder.path())).into_iter().flatten() {
            scan(&fs::read(&segment).unwrap(), 0, |seen, _| {
                sums[0] += 1;
                sums[1] += seen.header.record_count as u64;
                sums[2] += seen.bytes;
            });
        }
    }
    sums
}

/// What Kafka has counted of a topic, in the same order.
fn counted(kafka: &Kafka, topic: &str) -> [u64; 3] {
    let page =
        Web::open(None).unwrap().get(&format!("http://{}/metrics", kafka.metrics), &[], &|| false).unwrap();
    ["totalproducerequests", "messagesin", "bytesin"].map(|bean| {
        let name = format!("kafka_server_brokertopicmetrics_{bean}_total");
        let mut samples = exposition::read_only(&page, |own| own == name).map(Result::unwrap);
        let found = samples.find(|sample| sample.labels.get("topic").as_deref() == Some(topic));
        found.unwrap_or_else(|| panic!("no {name} of {topic}")).value as u64
    })
}

fn segments(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    files.filter(|path| path.extension().is_some_and(|ending| ending == "log")).collect()
}

/// K1 and K2: `TotalProduceRequestsPerSec` counts batches, also where a request has several.
#[test]
fn kafkas_own_counters_are_its_batches_to_the_last_one() {
    let Some(kafka) = Kafka::start() else { return };
    let mut admin = Admin::connect(&kafka.address).unwrap();
    admin.create_topic("one", 2, &BTreeMap::new()).unwrap();
    admin.create_topic("several", 8, &BTreeMap::new()).unwrap();
    // Kafka counts requests too that it refuses because a partition has no leader yet: none of those after this.
    let at_first = ["one", "several"].map(|name| {
        let begin = [
            "load",
            &kafka.address,
            "--topic",
            name,
            "--rate",
            "100",
            "--duration",
            "1",
            "--json",
            "--quiet",
        ];
        assert!(facts(&hone(&begin).json(), "acked_requests") > 0.0);
        (counted(&kafka, name), on_disk(&kafka, name))
    });
    let Some(prometheus) = Prometheus::scraping(&kafka.metrics, &["mixin/rendered/rules/kafka-jmx.yaml"])
    else {
        return;
    };
    // What a cost is fitted to: a broker at rest, and then at work.
    thread::sleep(Duration::from_secs(8));
    thread::scope(|scope| {
        let length = ["--duration", "30"];
        let one = ["--rate", "100", "--records", "7", "--bytes", "200"];
        let several = ["--rate", "40", "--records", "3", "--bytes", "150", "--partitions-per-request", "4"];
        let one = load(scope, &kafka.address, "one", &[&one[..], &length[..]].concat());
        let several = load(scope, &kafka.address, "several", &[&several[..], &length[..]].concat());
        thread::sleep(Duration::from_secs(14));
        let scraped = watch(&["--metrics", &kafka.metrics, "--every", "4s", "--once"]);
        let asked = watch(&["--prometheus", &prometheus.url, "--window", "8s", "--once"]);
        let queries =
            hone(&["batch", "watch", "--prometheus", &prometheus.url, "--window", "8s", "--queries"]);
        let queries = queries.expect_code(0).stdout;
        let lines: Vec<&str> = queries.lines().collect();
        assert!(lines[0].starts_with("# K1") && lines[2].starts_with("# K2"), "{queries}");
        let (bytes, records) = (prometheus.by_topic(lines[1]), prometheus.by_topic(lines[3]));
        let recorded = prometheus.by_topic("hone:topic_effective_batch_bytes:rate5m");
        expect_percentiles(&scraped, &prometheus, &lines);
        let (one, several) = (one.join().unwrap(), several.join().unwrap());
        expect_history(&prometheus);
        let (one, several) = (Truth::of(&one, 1.0), Truth::of(&several, 4.0));
        for (how, found) in [("scrape", &scraped), ("Prometheus", &asked)] {
            assert_eq!(found.source, "kafka-jmx");
            one.expect(how, topic(found, "one"));
            several.expect(how, topic(found, "several"));
            let missing: Vec<&str> = found.not_exported.iter().map(|one| one.what.as_str()).collect();
            assert!(
                missing.contains(&"CPU by shard") && missing.contains(&"write amplification"),
                "{missing:?}"
            );
            for what in ["produce latency at p85 and p99.999", "consumer lag by group"] {
                assert!(missing.contains(&what), "{how}: {what}: {missing:?}");
            }
            assert!(known(found.instances[0].sent_bytes_per_s) >= 0.0, "{how}");
            assert_eq!(found.instances[0].produce_timeouts_per_s, Figure::Known(0.0), "{how}");
            assert!(known(found.instances[0].cpu_cores) > 0.0, "{how}: {:?}", found.instances);
            let a_request = (one.batches_per_s + several.batches_per_s)
                / (one.batches_per_s + several.batches_per_s / 4.0);
            near(how, known(found.instances[0].batches_per_request), a_request, 0.1);
        }
        for (name, truth) in [("one", &one), ("several", &several)] {
            near("K1", bytes[name], truth.batch_bytes, MOVING);
            near("K2", records[name], truth.records, MOVING);
            near("rule", recorded[name], truth.batch_bytes, MOVING);
        }
    });
    for (name, (before, lay)) in ["one", "several"].into_iter().zip(at_first) {
        let since = |now: [u64; 3], then: [u64; 3]| [0, 1, 2].map(|kind| now[kind] - then[kind]);
        let written = since(on_disk(&kafka, name), lay);
        assert_eq!(since(counted(&kafka, name), before), written, "batches, records, bytes of {name}");
        assert!(written[0] > 1_000, "{name}: {written:?}");
    }
}

/// Kafka has six percentiles of its own, and none of the others.
fn expect_percentiles(found: &BatchWatch, prometheus: &Prometheus, queries: &[&str]) {
    let percentiles: Vec<(f64, bool)> = found.produce_latency[0]
        .percentiles
        .iter()
        .map(|one| (one.percentile, one.ms.known().is_some()))
        .collect();
    let expected = [
        (50.0, true),
        (75.0, true),
        (85.0, false),
        (95.0, true),
        (98.0, true),
        (99.0, true),
        (99.9, true),
        (99.999, false),
    ];
    assert_eq!(percentiles, expected);
    let p99_ms = known(found.produce_latency[0].percentiles[5].ms);
    let query = queries.iter().skip_while(|line| !line.starts_with("# K3c")).nth(1).unwrap();
    // Kafka's sample goes on between both looks, and counts whole milliseconds.
    let asked_ms = 1e3 * prometheus.ask(query)[0].points[0].1;
    assert!((asked_ms - p99_ms).abs() <= 0.9 * p99_ms + 1.0, "K3c: {asked_ms}, scraped {p99_ms}");
    assert_eq!(prometheus.ask("hone:cluster_produce_latency_seconds:rate5m").len(), 6);
    assert!(prometheus.ask("hone:instance_received_bytes:rate5m")[0].points[0].1 > 1_000.0);
}

/// Stands for an Admin API, which nothing here has: what it says is by its documentation. With a token it answers nobody else.
fn admin_api(answer: &'static str, token: Option<&'static str>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let wanted = token.map(|token| format!("Bearer {token}"));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut question = [0; 4096];
            let read = stream.read(&mut question).unwrap();
            let asked = String::from_utf8_lossy(&question[..read]).into_owned();
            assert!(
                asked.starts_with("POST /redpanda.core.admin.v2.ClusterService/ListKafkaConnections"),
                "{asked}"
            );
            let shown = asked.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("authorization").then_some(value)
            });
            let (status, answer) = match wanted.as_deref() == shown {
                true => ("200 OK", answer),
                false => ("401 Unauthorized", "{}"),
            };
            let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{answer}", answer.len());
        }
    });
    address
}

#[test]
fn clients_are_told_where_an_admin_api_has_them() {
    let broker = Broker::start();
    const CLIENTS: &str = r#"{"connections":[{"clientId":"app","clientSoftwareName":"kgo","recentRequestStatistics":{"produceBytes":"900","produceBatchCount":"3","requestCount":"3"}}]}"#;
    let admin = admin_api(CLIENTS, None);
    let scrape = ["--metrics", &broker.metrics, "--every", "200ms", "--once", "--admin"];
    let found = watch(&[&scrape[..], &[&format!("http://{admin}/")]].concat());
    assert_eq!(
        (found.clients[0].client_id.as_str(), found.clients[0].batch_bytes),
        ("app", Figure::Known(300.0))
    );
    let found = watch(&[&scrape[..], &[&format!("http://{}", broker.metrics)]].concat());
    let missing = found.not_exported.iter().find(|one| one.what == "batches by client").unwrap();
    assert!(missing.why.contains("from 25.3 on"), "{missing:?}");
    // Its token is its own, and that of the page is not shown to it.
    let papers = tempfile::tempdir().unwrap();
    let token = |name: &str, text: &str| {
        let path = papers.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (page, own) = (token("page", "of-the-page\n"), token("own", "of-its-own\n"));
    let closed = format!("http://{}/", admin_api(CLIENTS, Some("of-its-own")));
    let looked =
        |more: &[&str]| watch(&[&scrape[..], &[&closed, "--metrics-token-file", &page], more].concat());
    assert!(looked(&[]).clients.is_empty(), "a token that is not meant for it");
    assert_eq!(looked(&["--admin-token-file", &own]).clients[0].client_id, "app");
}

#[test]
fn a_watch_of_some_length_ends_by_itself() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("looks.jsonl");
    let begun = Instant::now();
    let scrape =
        ["batch", "watch", "--metrics", &broker.metrics, "--every", "300ms", "--duration", "2s", "--output"];
    hone(&[&scrape[..], &[file.to_str().unwrap()]].concat()).expect_code(0);
    let took = begun.elapsed();
    assert!((Duration::from_secs(2)..Duration::from_secs(20)).contains(&took), "{took:?}");
    let looks = fs::read_to_string(&file).unwrap().lines().count();
    assert!((1..=6).contains(&looks), "{looks} looks, each of which wants one before it");
    let short = ["batch", "watch", "--metrics", &broker.metrics, "--every", "2s", "--duration", "100ms"];
    hone(&short).expect_code(1).expect_error("--duration ended before the second sample");
}

#[test]
fn what_is_no_broker_is_refused_with_the_way_out() {
    hone(&["batch", "watch", "--metrics", &format!("127.0.0.1:{}", free_port()), "--once"])
        .expect_code(1)
        .expect_error("can't reach http")
        .expect_error("next: check that the service runs");
    let broker = Broker::start();
    hone(&["batch", "watch", "--metrics", &format!("http://{}/ready", broker.metrics), "--once"])
        .expect_code(1)
        .expect_error("none of Redpanda ");
    hone(&["batch", "watch", "--metrics", &format!("http://{}/nothing", broker.metrics), "--once"])
        .expect_code(1)
        .expect_error("answered 404");
    hone(&["batch", "watch", "--prometheus", &format!("http://{}", broker.metrics), "--once"])
        .expect_code(1)
        .expect_error("answered 404");
    hone(&["batch", "watch", "--metrics", "x", "--every", "1ms"]).expect_code(2).expect_error("100ms");
    hone(&["batch", "watch"]).expect_code(2);
}

#[test]
fn an_interrupt_ends_a_watch_and_its_looks_are_kept() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("looks.jsonl");
    let child = hone_command()
        .args(["batch", "watch", "--metrics", &broker.metrics, "--every", "200ms", "--output"])
        .arg(&file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while fs::read_to_string(&file).unwrap_or_default().lines().count() < 3 {
        assert!(Instant::now() < until, "no look was kept");
        thread::sleep(Duration::from_millis(50));
    }
    // SAFETY: the child has not been waited for, so its pid is its own.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let ended = Instant::now();
    let ran = Ran::of(child.wait_with_output().unwrap()).expect_code(0);
    assert!(ended.elapsed() < Duration::from_secs(5), "{:?}", ended.elapsed());
    assert!(ran.stdout.contains("CPU by shard"), "{}", ran.stdout);
    let path = file.to_str().unwrap();
    hone(&["batch", "cost", path])
        .expect_code(1)
        .expect_error("are too few for a history: the model needs at least 30");
}

/// Looks of a history whose costs are known.
fn kept(count: u64) -> String {
    let look = |at: u64| {
        let wave = 1.2 + (at as f64 / 9.0).sin();
        let records = 20_000.0 * wave;
        let in_batch = 3.0 + ((at / 6) * 7 % 40) as f64;
        let (batches, bytes) = (records / in_batch, records * (100.0 + ((at / 5) * 37 % 400) as f64));
        let requests = batches / (1.0 + ((at / 4) * 3 % 5) as f64);
        let cpu = 0.1 + 10e-6 * requests + 30e-6 * batches + 0.5e-6 * records + 0.3e-9 * bytes;
        let rates = WatchedTopic {
            batches_per_s: Figure::Known(batches),
            records_per_s: Figure::Known(records),
            bytes_per_s: Figure::Known(bytes),
            ..WatchedTopic::default()
        };
        let instance = WatchedInstance {
            cpu_cores: Figure::Known(cpu),
            requests_per_s: Figure::Known(requests),
            ..WatchedInstance::default()
        };
        let watch = BatchWatch {
            source: "redpanda-25.1".to_owned(),
            at_unix_ms: 60_000 * at,
            topics: vec![WatchedTopic { topic: "orders".to_owned(), ..rates.clone() }],
            total: rates,
            instances: vec![instance],
            ..BatchWatch::default()
        };
        serde_json::to_string(&Envelope::new(watch)).unwrap() + "\n"
    };
    (0..count).map(look).collect()
}

#[test]
fn costs_are_fitted_on_looks_that_were_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("looks.jsonl");
    fs::write(&file, kept(300)).unwrap();
    let path = file.to_str().unwrap();
    let record =
        hone(&["batch", "cost", path, "--if", "batches=0.25,requests=0.25", "--json"]).expect_code(0).json();
    let cost = |unit: &str| {
        let costs = record["body"]["costs"].as_array().unwrap();
        costs.iter().find(|cost| cost["unit"] == unit).unwrap()["us"]["value"].as_f64().unwrap()
    };
    for (unit, us) in [("base", 1e5), ("request", 10.0), ("batch", 30.0), ("record", 0.5), ("byte", 3e-4)] {
        near(unit, cost(unit), us, 1e-3);
    }
    assert_eq!(record["body"]["topics"][0]["topic"], "orders");
    let forecast = &record["body"]["forecast"];
    assert!(
        forecast["cores_then"]["value"].as_f64().unwrap() < forecast["cores_now"]["value"].as_f64().unwrap(),
        "{forecast:#}"
    );
    let text = hone(&["batch", "cost", path]).expect_code(0).stdout;
    assert!(text.contains("a batch ") && text.contains("30.0 µs"), "{text}");
    fs::write(&file, format!("{}not a look\n", kept(2))).unwrap();
    hone(&["batch", "cost", path]).expect_code(1).expect_error("line 3 of");
    hone(&["batch", "cost", path, "--if", "batch=2"]).expect_code(2).expect_error("unknown kind of work");
}

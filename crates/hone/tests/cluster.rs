//! Real Apache Kafka, three nodes: a leader's process is killed under an open window, and one is shut down in order. The load
//! follows, every request is stored and read in the end, and the outage shows at its full length.
//!
//! Only with HONE_LONG=1: it wants three JVMs and two minutes. The jars come from `bench/kafka.sh fetch`.

#![expect(clippy::disallowed_methods, reason = "the test starts brokers as their users do")]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use hone_load::Admin;
use serde_json::Value;

mod stage;
use stage::hone;

const NODES: usize = 3;

/// Three nodes, each broker and controller; killed on drop.
struct Cluster {
    folder: tempfile::TempDir,
    libs: PathBuf,
    /// Of each node: for clients, for controllers.
    ports: Vec<(u16, u16)>,
    nodes: Vec<Child>,
}

impl Cluster {
    fn start(libs: PathBuf) -> Self {
        let held: Vec<TcpListener> =
            (0..2 * NODES).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let port = |at: usize| held[at].local_addr().unwrap().port();
        let ports = (0..NODES).map(|node| (port(2 * node), port(2 * node + 1))).collect();
        drop(held);
        let folder = tempfile::tempdir().unwrap();
        let mut cluster = Self { folder, libs, ports, nodes: Vec::new() };
        for node in 0..NODES {
            std::fs::write(cluster.properties(node), cluster.settings(node)).unwrap();
            let format =
                ["format", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c", cluster.properties(node).to_str().unwrap()]
                    .map(str::to_owned);
            assert!(cluster.java("kafka.tools.StorageTool", &format).status().unwrap().success());
        }
        cluster.nodes = (0..NODES).map(|node| cluster.spawn(node)).collect();
        let deadline = Instant::now() + Duration::from_secs(120);
        for node in 0..NODES {
            while Admin::ready(&cluster.address(node), Duration::from_secs(5)).is_err() {
                assert!(Instant::now() < deadline, "node {node} does not serve");
                thread::sleep(Duration::from_millis(200));
            }
        }
        cluster
    }

    fn address(&self, node: usize) -> String {
        format!("127.0.0.1:{}", self.ports[node].0)
    }

    fn properties(&self, node: usize) -> PathBuf {
        self.folder.path().join(format!("{node}.properties"))
    }

    fn settings(&self, node: usize) -> String {
        let voters: Vec<String> = self
            .ports
            .iter()
            .enumerate()
            .map(|(id, (_, port))| format!("{}@127.0.0.1:{port}", id + 1))
            .collect();
        let (client, controller) = self.ports[node];
        format!(
            "process.roles=broker,controller\nnode.id={}\ncontroller.quorum.voters={}\n\
             listeners=PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{client}\ncontroller.listener.names=CONTROLLER\n\
             inter.broker.listener.name=PLAINTEXT\n\
             listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\nlog.dirs={}\n\
             min.insync.replicas=2\ndefault.replication.factor=3\nbroker.rack=zone-{}\n",
            node + 1,
            voters.join(","),
            self.folder.path().join(format!("data-{node}")).display(),
            node + 1,
        )
    }

    fn java(&self, class: &str, args: &[String]) -> Command {
        let mut java = Command::new("java");
        java.args(["-Xmx384m", "-cp", &format!("{}/*", self.libs.display()), class])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        java
    }

    fn spawn(&self, node: usize) -> Child {
        self.java("kafka.Kafka", &[self.properties(node).to_str().unwrap().to_owned()]).spawn().unwrap()
    }

    fn signal(&self, node: usize, signal: i32) {
        // SAFETY: the child has not been waited for, so its pid is its own.
        assert_eq!(unsafe { libc::kill(self.nodes[node].id() as i32, signal) }, 0);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            let _ = node.kill();
            let _ = node.wait();
        }
    }
}

/// Loads the cluster by its first node, and does something to it three seconds into the window.
fn load_and(cluster: &Cluster, deed: impl FnOnce()) -> Value {
    let series = cluster.folder.path().join("seconds");
    let _ = std::fs::remove_file(&series);
    thread::scope(|scope| {
        let load = scope.spawn(|| {
            hone(&[
                "load",
                &cluster.address(0),
                "--rate",
                "300",
                "--duration",
                "25",
                "--warmup",
                "500",
                "--partitions",
                "6",
                "--connections",
                "3",
                "--consumers",
                "1",
                "--timeout",
                "60",
                "--max-lateness",
                "60s",
                "--json",
                "--quiet",
                "--series",
                series.to_str().unwrap(),
            ])
        });
        let deadline = Instant::now() + Duration::from_secs(120);
        while std::fs::read_to_string(&series).unwrap_or_default().lines().count() < 3 {
            assert!(Instant::now() < deadline && !load.is_finished(), "the window did not open");
            thread::sleep(Duration::from_millis(50));
        }
        deed();
        load.join().unwrap().expect_code(0).json()
    })
}

#[track_caller]
fn expect_followed(record: &Value) -> Vec<String> {
    let body = &record["body"];
    assert_eq!(body["outcome"], "steady", "{}", body["events"]);
    assert_eq!(body["facts"]["acked_requests"], body["facts"]["requests"], "{}", body["facts"]);
    expect_read(body);
    body["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["kind"].as_str().unwrap().to_owned())
        .collect()
}

/// The consumer has read everything that was acknowledged; what was sent again may be there twice.
#[track_caller]
fn expect_read(body: &Value) {
    let (facts, seen) = (&body["facts"], &body["end_to_end"]);
    assert_eq!(seen["missing"], 0, "{}", body["events"]);
    let count = |of: &Value| of.as_u64().unwrap();
    assert!(count(&seen["fetched_records"]) >= count(&facts["acked_records"]), "{seen} of {facts}");
    let latency = hone_record::Hdr::from_base64(seen["latency"].as_str().unwrap()).unwrap();
    assert_eq!(latency.count(), count(&facts["acked_requests"]));
    let events = body["events"].as_array().unwrap();
    let reads_elsewhere =
        |event: &Value| event["what"].as_str().unwrap().starts_with("consumer 1 reads partitions");
    assert!(events.iter().any(reads_elsewhere), "{events:?}");
}

/// Three zones with a replica of everything each: all replication crosses, and two of three bytes of clients.
fn expect_priced(cluster: &Cluster) {
    let address = cluster.address(0);
    // Only a client writes true times into its batches, and the cost rests on them.
    let topic = ["--topic", "priced", "--make-topic", "--replication-factor", "3", "--partitions", "6"];
    let load = ["load", &address, "--client", "librdkafka", "--rate", "300", "--duration", "6", "--quiet"];
    hone(&[&load[..], &topic].concat()).expect_code(0);
    let cost =
        hone(&["cost", &address, "priced", "--last", "1m", "--fan-out", "2", "--json"]).expect_code(0).json();
    let flows = &cost["body"]["flows"];
    let of = |kind: &str, name: &str| flows[kind][name].as_f64().unwrap_or_else(|| panic!("{cost:#}"));
    let share = |kind: &str| of(kind, "crossing_per_s") / of(kind, "bytes_per_s");
    for (kind, wanted) in [("produce", 2.0 / 3.0), ("replicate", 1.0), ("fetch", 2.0 / 3.0)] {
        assert!((share(kind) - wanted).abs() < 0.01, "{kind}: {}", share(kind));
    }
    assert!((of("replicate", "bytes_per_s") / of("produce", "bytes_per_s") - 2.0).abs() < 0.01, "{flows}");
    assert!((of("fetch", "bytes_per_s") / of("produce", "bytes_per_s") - 2.0).abs() < 0.01, "{flows}");
}

#[test]
fn a_killed_leader_and_one_that_is_shut_down_are_followed() {
    if std::env::var_os("HONE_LONG").is_none() {
        return;
    }
    let libs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.hone/kafka/4.3.1");
    assert!(libs.is_dir(), "{} is not there; run bench/kafka.sh fetch", libs.display());
    let mut cluster = Cluster::start(libs);
    expect_priced(&cluster);

    // In order: leaders move before the node goes, and who comes late is sent on.
    let record = load_and(&cluster, || cluster.signal(2, libc::SIGTERM));
    let kinds = expect_followed(&record);
    assert!(kinds.iter().any(|kind| kind == "leader-moved"), "{}", record["body"]["events"]);
    cluster.nodes[2].wait().unwrap();
    cluster.nodes[2] = cluster.spawn(2);
    while Admin::ready(&cluster.address(2), Duration::from_secs(5)).is_err() {
        thread::sleep(Duration::from_millis(200));
    }

    // Killed, and it is the node that the load was pointed at: nobody can tell for seconds that it is gone.
    let record = load_and(&cluster, || cluster.signal(0, libc::SIGKILL));
    let kinds = expect_followed(&record);
    for wanted in ["connection-lost", "leader-moved", "reconnected"] {
        assert!(kinds.iter().any(|kind| kind == wanted), "no {wanted}: {}", record["body"]["events"]);
    }
    let hdr = record["body"]["latencies"]["intended_to_ack"].as_str().unwrap();
    let max_s = hone_record::Hdr::from_base64(hdr).unwrap().max_us().unwrap() / 1e6;
    assert!(max_s > 2.0, "an outage of seconds shows as {max_s} s");
}

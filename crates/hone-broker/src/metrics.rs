//! `/metrics` in Prometheus' text format and `/ready`.
//!
//! Names and labels are Redpanda's, for what this broker really counts; what it has no equal for is called
//! `hone_broker_...`. Partitions here belong to no shard, so their series have no `shard` label.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use crate::keys::APIS;
use crate::node::{Node, ShardCounters};
use crate::partition::Partition;
use crate::worker::BELL;

const LISTENER: Token = Token(0);
/// A scraper sends a few hundred bytes at once.
const MOST_REQUEST_BYTES: usize = 8 << 10;
/// One scraper is served at a time, so none may take long.
const SCRAPER_LIMIT: Duration = Duration::from_secs(1);

/// Serves scrapers until `stop` is set and the bell rung.
pub(crate) fn run(node: &Node, listener: &TcpListener, mut poll: Poll, stop: &AtomicBool) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    poll.registry().register(&mut SourceFd(&listener.as_raw_fd()), LISTENER, Interest::READABLE)?;
    let mut events = Events::with_capacity(16);
    while !stop.load(Ordering::Acquire) {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => (),
        }
        debug_assert!(events.iter().all(|event| event.token() == LISTENER || event.token() == BELL));
        while let Ok((stream, _)) = listener.accept() {
            // A scraper that goes away has lost its own answer.
            let _ = serve(node, stream);
        }
    }
    Ok(())
}

fn serve(node: &Node, mut stream: TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(SCRAPER_LIMIT))?;
    stream.set_write_timeout(Some(SCRAPER_LIMIT))?;
    let mut request = Vec::new();
    let mut chunk = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let bytes = stream.read(&mut chunk)?;
        if bytes == 0 || request.len() > MOST_REQUEST_BYTES {
            return Ok(());
        }
        request.extend_from_slice(chunk.get(..bytes).unwrap_or_default());
    }
    stream.write_all(respond(node, &request).as_bytes())
}

fn respond(node: &Node, request: &[u8]) -> String {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let (status, body) = match line.split(|byte| *byte == b' ').take(2).collect::<Vec<_>>().as_slice() {
        [b"GET", b"/metrics"] => ("200 OK", text(node)),
        [b"GET", b"/ready"] => ("200 OK", "ready\n".to_owned()),
        [b"GET", _] => ("404 Not Found", "there is /metrics and /ready\n".to_owned()),
        _ => ("405 Method Not Allowed", "GET only\n".to_owned()),
    };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// The whole page.
fn text(node: &Node) -> String {
    let mut page = String::with_capacity(16 << 10);
    partition_families(node, &mut page);
    topic_families(node, &mut page);
    request_families(node, &mut page);
    shard_families(node, &mut page);
    process_families(node, &mut page);
    page
}

fn head(page: &mut String, name: &str, kind: &str, help: &str) {
    // Writing into a String can't fail.
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

type PartitionFamily = (&'static str, &'static str, &'static str, fn(&Partition) -> u64);

fn partition_families(node: &Node, page: &mut String) {
    const FAMILIES: [PartitionFamily; 9] = [
        ("vectorized_storage_log_written_bytes", "counter", "Bytes appended to the log", |partition| {
            load(&partition.counters.written_bytes)
        }),
        ("vectorized_storage_log_batches_written", "counter", "Batches appended to the log", |partition| {
            load(&partition.counters.written_batches)
        }),
        (
            "vectorized_cluster_partition_bytes_produced_total",
            "counter",
            "Batch bytes as received",
            |partition| load(&partition.counters.produced_bytes),
        ),
        ("vectorized_cluster_partition_batches_produced", "counter", "Batches produced", |partition| {
            load(&partition.counters.produced_batches)
        }),
        ("vectorized_cluster_partition_records_produced", "counter", "Records produced", |partition| {
            load(&partition.counters.produced_records)
        }),
        ("vectorized_cluster_partition_bytes_fetched_total", "counter", "Batch bytes fetched", |partition| {
            load(&partition.counters.fetched_bytes)
        }),
        ("hone_broker_storage_errors_total", "counter", "Batches that could not be written", |partition| {
            load(&partition.counters.storage_errors)
        }),
        ("vectorized_cluster_partition_leader", "gauge", "1: this broker leads the partition", |_| 1),
        (
            "vectorized_cluster_partition_high_watermark",
            "gauge",
            "Offset behind the last record",
            |partition| partition.offsets().1.unsigned_abs(),
        ),
    ];
    let topics = node.topics.all();
    for (name, kind, help, value) in FAMILIES {
        head(page, name, kind, help);
        for partition in topics.iter().flat_map(|topic| &topic.partitions) {
            // A topic name has no character that a label would need to escape.
            let _ = writeln!(
                page,
                "{name}{{namespace=\"kafka\",topic=\"{}\",partition=\"{}\"}} {}",
                partition.topic,
                partition.index,
                value(partition)
            );
        }
    }
}

/// What acks=all means, by topic: durability classes are not to be compared without a look at them.
fn topic_families(node: &Node, page: &mut String) {
    let name = "hone_broker_topic_durability";
    head(page, name, "gauge", "1: what an acknowledgement with acks=all means for the topic");
    for topic in node.topics.all() {
        let class = topic.properties.durability().class();
        let _ = writeln!(page, "{name}{{namespace=\"kafka\",topic=\"{}\",class=\"{class}\"}} 1", topic.name);
    }
}

fn request_families(node: &Node, page: &mut String) {
    let name = "vectorized_kafka_handler_requests_completed_total";
    head(page, name, "counter", "Requests answered");
    for (place, api) in APIS.iter().enumerate() {
        let sum: u64 = node.shards.iter().filter_map(|shard| shard.requests.get(place)).map(load).sum();
        let _ = writeln!(page, "{name}{{handler=\"{}\"}} {sum}", api.name);
    }
}

type ShardFamily = (&'static str, &'static str, &'static str, fn(&ShardCounters) -> f64);

fn shard_families(node: &Node, page: &mut String) {
    const FAMILIES: [ShardFamily; 7] = [
        ("redpanda_cpu_busy_seconds_total", "counter", "CPU time of the worker thread", |shard| {
            shard.clock.get().map_or(0.0, |clock| clock.elapsed().as_secs_f64())
        }),
        ("vectorized_kafka_rpc_received_bytes", "counter", "Bytes received from clients", |shard| {
            load(&shard.received_bytes) as f64
        }),
        ("vectorized_kafka_rpc_sent_bytes", "counter", "Bytes sent to clients", |shard| {
            load(&shard.sent_bytes) as f64
        }),
        ("vectorized_kafka_rpc_connects", "counter", "Connections accepted", |shard| {
            load(&shard.connects) as f64
        }),
        ("vectorized_kafka_rpc_active_connections", "gauge", "Connections open", |shard| {
            load(&shard.connects).saturating_sub(load(&shard.disconnects)) as f64
        }),
        (
            "hone_broker_protocol_errors_total",
            "counter",
            "Connections closed over unreadable bytes",
            |shard| load(&shard.protocol_errors) as f64,
        ),
        (
            "hone_broker_handler_failures_total",
            "counter",
            "Connections closed over a failed handler",
            |shard| load(&shard.handler_failures) as f64,
        ),
    ];
    for (name, kind, help, value) in FAMILIES {
        head(page, name, kind, help);
        for (index, shard) in node.shards.iter().enumerate() {
            let _ = writeln!(page, "{name}{{shard=\"{index}\"}} {}", value(shard));
        }
    }
}

fn process_families(node: &Node, page: &mut String) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let started = node.started_unix_s;
    head(page, "process_start_time_seconds", "gauge", "Start of the broker, seconds since 1970");
    let _ = writeln!(page, "process_start_time_seconds {started}");
    head(page, "redpanda_application_uptime_seconds_total", "gauge", "Seconds since the start");
    let _ = writeln!(page, "redpanda_application_uptime_seconds_total {}", (now - started).max(0.0));
}

//! The internal endpoint: everything, by partition and by shard.

use super::page::{Kind, Page};
use crate::api_key;
use crate::histogram::Histogram;
use crate::keys::{self, APIS};
use crate::node::Node;
use crate::partition::Partition;
use crate::shard_counters::{ShardCounters, load};

/// The whole page.
pub(super) fn text(node: &Node) -> String {
    let mut page = Page::default();
    partitions(node, &mut page);
    durability(node, &mut page);
    requests(node, &mut page);
    shards(node, &mut page);
    codecs(node, &mut page);
    histograms(node, &mut page);
    group_offsets(node, &mut page);
    super::public::process(node, &mut page);
    disk(&mut page);
    page.into_text()
}

/// What the kernel counts as this process' writes to disks: whole pages, also those of logs that were only touched. Redpanda's counter of
/// its own queue would be something else. Where the kernel does not say it, there is no family: that is no 0.
fn disk(page: &mut Page) {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    if let Some(bytes) = written_bytes(&text) {
        let name = "hone_broker_storage_write_bytes_total";
        page.family(name, Kind::Counter, "Bytes that the kernel wrote to disks for this process")
            .sample(&[], bytes);
    }
}

fn written_bytes(io: &str) -> Option<u64> {
    io.lines().find_map(|line| line.strip_prefix("write_bytes:"))?.trim().parse().ok()
}

type PartitionFamily = (&'static str, Kind, &'static str, fn(&Partition) -> u64);

fn partitions(node: &Node, page: &mut Page) {
    use Kind::{Counter, Gauge};
    const FAMILIES: [PartitionFamily; 18] = [
        ("vectorized_storage_log_written_bytes", Counter, "Bytes appended to the log", |partition| {
            load(&partition.counters.written_bytes)
        }),
        ("vectorized_storage_log_batches_written", Counter, "Batches appended to the log", |partition| {
            load(&partition.counters.written_batches)
        }),
        (
            "vectorized_cluster_partition_bytes_produced_total",
            Counter,
            "Batch bytes as received",
            |partition| load(&partition.counters.produced_bytes),
        ),
        ("vectorized_cluster_partition_batches_produced", Counter, "Batches produced", |partition| {
            load(&partition.counters.produced_batches)
        }),
        ("vectorized_cluster_partition_records_produced", Counter, "Records produced", |partition| {
            load(&partition.counters.produced_records)
        }),
        ("vectorized_cluster_partition_bytes_fetched_total", Counter, "Batch bytes fetched", |partition| {
            load(&partition.counters.fetched_bytes)
        }),
        (
            "vectorized_raft_replicate_ack_all_requests",
            Counter,
            "Batches acknowledged after the flush",
            |partition| load(&partition.counters.ack_all),
        ),
        (
            "vectorized_raft_replicate_ack_all_requests_no_flush",
            Counter,
            "Batches with acks=all acknowledged from memory (write caching)",
            |partition| load(&partition.counters.ack_all_no_flush),
        ),
        ("vectorized_raft_replicate_ack_leader_requests", Counter, "Batches with acks=1", |partition| {
            load(&partition.counters.ack_leader)
        }),
        ("vectorized_raft_replicate_ack_none_requests", Counter, "Batches with acks=0", |partition| {
            load(&partition.counters.ack_none)
        }),
        ("vectorized_raft_log_flushes", Counter, "Fsyncs of log files", |partition| {
            load(&partition.counters.fsyncs)
        }),
        ("vectorized_storage_log_partition_size", Gauge, "Size of the log, bytes", Partition::bytes),
        ("hone_broker_storage_errors_total", Counter, "Batches that could not be written", |partition| {
            load(&partition.counters.storage_errors)
        }),
        ("vectorized_cluster_partition_leader", Gauge, "1 if this broker leads the partition", |_| 1),
        ("vectorized_cluster_partition_start_offset", Gauge, "Offset of the first record", |partition| {
            partition.bounds().log_start.unsigned_abs()
        }),
        (
            "vectorized_cluster_partition_high_watermark",
            Gauge,
            "Offset after the last visible record",
            |partition| partition.bounds().high_watermark.unsigned_abs(),
        ),
        (
            "vectorized_cluster_partition_last_stable_offset",
            Gauge,
            "Offset of the first record of the oldest open transaction, or the high watermark",
            |partition| partition.bounds().last_stable.unsigned_abs(),
        ),
        (
            "hone_broker_partition_unflushed_bytes",
            Gauge,
            "Bytes not yet flushed to the disk",
            Partition::volatile_bytes,
        ),
    ];
    let topics = node.topics.all();
    for (name, kind, help, value) in FAMILIES {
        let mut family = page.family(name, kind, help);
        for partition in topics.iter().flat_map(|topic| &topic.partitions) {
            let shard = node.owner(partition);
            family.sample(
                &[
                    ("namespace", &"kafka"),
                    ("topic", &partition.topic),
                    ("partition", &partition.index),
                    ("shard", &shard),
                ],
                value(partition),
            );
        }
    }
}

/// The class in force, one series for each topic.
fn durability(node: &Node, page: &mut Page) {
    let mut family = page.family(
        "hone_broker_topic_durability",
        Kind::Gauge,
        "1 for the durability guarantee of acks=all (fsync, write_caching or memory)",
    );
    for topic in node.topics.all() {
        family.sample(
            &[
                ("namespace", &"kafka"),
                ("topic", &topic.name),
                ("class", &topic.properties.durability().class()),
            ],
            1,
        );
    }
}

fn requests(node: &Node, page: &mut Page) {
    let name = "vectorized_kafka_handler_requests_completed_total";
    let mut family = page.family(name, Kind::Counter, "Requests answered");
    for (place, api) in APIS.iter().enumerate() {
        let sum: u64 = node.shards.iter().filter_map(|shard| shard.requests.get(place)).map(load).sum();
        family.sample(&[("handler", &api.name)], sum);
    }
    let produced = keys::find(api_key::PRODUCE).map_or(0, |(place, _)| place);
    let name = "vectorized_kafka_rpc_produce_requests";
    let mut family =
        page.family(name, Kind::Counter, "Produce requests answered, by the reactor that read them");
    for (index, shard) in node.shards.iter().enumerate() {
        family.sample(&[("shard", &index)], shard.requests.get(produced).map_or(0, load));
    }
}

type ShardFamily = (&'static str, Kind, &'static str, fn(&ShardCounters) -> f64);

fn shards(node: &Node, page: &mut Page) {
    use Kind::{Counter, Gauge};
    const FAMILIES: [ShardFamily; 13] = [
        ("redpanda_cpu_busy_seconds_total", Counter, "CPU time of the reactor", |shard| {
            shard.clock.get().map_or(0.0, |clock| clock.elapsed().as_secs_f64())
        }),
        ("vectorized_reactor_cpu_busy_ms", Counter, "Busy time of the event loop, milliseconds", |shard| {
            load(&shard.busy_ns) as f64 / 1e6
        }),
        ("vectorized_kafka_rpc_received_bytes", Counter, "Bytes received from clients", |shard| {
            load(&shard.received_bytes) as f64
        }),
        ("vectorized_kafka_rpc_sent_bytes", Counter, "Bytes sent to clients", |shard| {
            load(&shard.sent_bytes) as f64
        }),
        ("vectorized_kafka_rpc_connects", Counter, "Connections accepted", |shard| {
            load(&shard.connects) as f64
        }),
        ("vectorized_kafka_rpc_active_connections", Gauge, "Connections open", |shard| {
            load(&shard.active) as f64
        }),
        ("vectorized_reactor_fsyncs", Counter, "Flushes of partitions of this shard", |shard| {
            load(&shard.flushes) as f64
        }),
        (
            "hone_broker_handed_over_batches_total",
            Counter,
            "Batches that another reactor received",
            |shard| load(&shard.handed_over) as f64,
        ),
        ("hone_broker_moved_connections_total", Counter, "Connections that moved to this reactor", |shard| {
            load(&shard.moves) as f64
        }),
        (
            "hone_broker_protocol_errors_total",
            Counter,
            "Connections closed because of unreadable bytes",
            |shard| load(&shard.protocol_errors) as f64,
        ),
        (
            "hone_broker_stalled_connections_total",
            Counter,
            "Connections closed because of an unfinished frame or unread answers",
            |shard| load(&shard.stalled) as f64,
        ),
        (
            "hone_broker_handler_failures_total",
            Counter,
            "Connections closed because a handler failed",
            |shard| load(&shard.handler_failures) as f64,
        ),
        (
            "vectorized_reactor_utilization",
            Gauge,
            "Busy share of the time since the last scrape, percent",
            |shard| shard.utilization_percent(),
        ),
    ];
    for (name, kind, help, value) in FAMILIES {
        let mut family = page.family(name, kind, help);
        for (index, shard) in node.shards.iter().enumerate() {
            family.sample(&[("shard", &index)], value(shard));
        }
    }
    let mut family =
        page.family("vectorized_scheduler_queue_length", Kind::Gauge, "Messages that a reactor has not read");
    for (index, mailbox) in node.mailboxes.iter().enumerate() {
        family.sample(&[("group", &"main"), ("shard", &index)], mailbox.len());
    }
    page.family("hone_broker_client_memory_bytes", Kind::Gauge, "Memory held for clients")
        .sample(&[], node.memory.used_bytes(false));
    page.family(
        "hone_broker_stranger_memory_bytes",
        Kind::Gauge,
        "Memory held for clients before their login",
    )
    .sample(&[], node.memory.used_bytes(true));
}

fn codecs(node: &Node, page: &mut Page) {
    let mut family =
        page.family("vectorized_kafka_produced_bytes", Kind::Counter, "Batch bytes as received, by codec");
    for (index, shard) in node.shards.iter().enumerate() {
        for (codec, bytes) in ["none", "gzip", "snappy", "lz4", "zstd"].iter().zip(&shard.produced_bytes) {
            family.sample(&[("compression_type", codec), ("shard", &index)], load(bytes));
        }
    }
}

fn histograms(node: &Node, page: &mut Page) {
    fn family<const BUCKETS: usize>(
        node: &Node,
        page: &mut Page,
        name: &str,
        help: &str,
        of: fn(&ShardCounters) -> &Histogram<BUCKETS>,
    ) {
        let mut family = page.family(name, Kind::Histogram, help);
        for (index, shard) in node.shards.iter().enumerate() {
            family.histogram(&[("shard", &index)], of(shard), 1.0);
        }
    }
    let name = "vectorized_kafka_latency_produce_latency_us";
    let help = "Time from a received Produce request to its finished answer, microseconds";
    family(node, page, name, help, |shard| &shard.produce_latency_us);
    let name = "vectorized_kafka_batch_size";
    family(node, page, name, "Size of produced batches, bytes", |shard| &shard.batch_bytes);
}

/// With the high watermarks of partitions, the lag of each group.
fn group_offsets(node: &Node, page: &mut Page) {
    let mut family =
        page.family("vectorized_kafka_group_offset", Kind::Gauge, "Committed offset of a consumer group");
    for group in node.offsets.groups() {
        for (topic, partition, committed) in node.offsets.of_group(&group) {
            family.sample(
                &[("group", &group), ("topic", &topic), ("partition", &partition), ("shard", &0)],
                committed.offset,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_does_not_say_is_no_zero() {
        let io = "rchar: 4292\nwchar: 7\nsyscr: 13\nread_bytes: 0\nwrite_bytes: 8192\ncancelled_write_bytes: 4096\n";
        assert_eq!(written_bytes(io), Some(8_192));
        assert_eq!(written_bytes(""), None);
    }
}

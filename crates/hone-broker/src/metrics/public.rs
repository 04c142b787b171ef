//! The public endpoint: few series, by topic and partition.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use super::page::{Kind, Page};
use crate::node::Node;
use crate::offsets::Committed;
use crate::shard_counters::{ShardCounters, load};

/// The whole page.
pub(super) fn text(node: &Node) -> String {
    let mut page = Page::default();
    partitions(node, &mut page);
    groups(node, &mut page);
    latency(node, &mut page);
    cluster(node, &mut page);
    process(node, &mut page);
    page.into_text()
}

fn partitions(node: &Node, page: &mut Page) {
    let topics = node.topics.all();
    let partitions = || topics.iter().flat_map(|topic| &topic.partitions);
    let mut family =
        page.family("redpanda_kafka_request_bytes_total", Kind::Counter, "Batch bytes produced and consumed");
    for partition in partitions() {
        for (request, bytes) in
            [("produce", &partition.counters.produced_bytes), ("consume", &partition.counters.fetched_bytes)]
        {
            family.sample(
                &[
                    ("redpanda_namespace", &"kafka"),
                    ("redpanda_topic", &partition.topic),
                    ("redpanda_partition", &partition.index),
                    ("redpanda_request", &request),
                ],
                load(bytes),
            );
        }
    }
    let mut family = page.family("redpanda_kafka_records_produced_total", Kind::Counter, "Records produced");
    for partition in partitions() {
        family.sample(
            &[
                ("redpanda_namespace", &"kafka"),
                ("redpanda_topic", &partition.topic),
                ("redpanda_partition", &partition.index),
            ],
            load(&partition.counters.produced_records),
        );
    }
    let mut family =
        page.family("redpanda_kafka_max_offset", Kind::Gauge, "Offset after the last visible record");
    for partition in partitions() {
        family.sample(
            &[
                ("redpanda_namespace", &"kafka"),
                ("redpanda_topic", &partition.topic),
                ("redpanda_partition", &partition.index),
            ],
            partition.bounds().high_watermark,
        );
    }
    let mut family = page.family("redpanda_kafka_partitions", Kind::Gauge, "Partitions of the topic");
    for topic in &topics {
        family.sample(
            &[("redpanda_namespace", &"kafka"), ("redpanda_topic", &topic.name)],
            topic.partitions.len(),
        );
    }
}

fn groups(node: &Node, page: &mut Page) {
    let groups: Vec<_> =
        node.offsets.groups().into_iter().map(|group| (node.offsets.of_group(&group), group)).collect();
    let mut family = page.family(
        "redpanda_kafka_consumer_group_committed_offset",
        Kind::Gauge,
        "Committed offset of a consumer group",
    );
    for (offsets, group) in &groups {
        for (topic, partition, committed) in offsets {
            family.sample(
                &[
                    ("redpanda_group", group),
                    ("redpanda_topic", topic),
                    ("redpanda_partition", partition),
                    ("shard", &0),
                ],
                committed.offset,
            );
        }
    }
    let lag = |(topic, partition, committed): &(String, i32, Committed)| {
        let topic = node.topics.by_name(topic)?;
        let end = topic.partition(*partition)?.bounds().high_watermark;
        Some((end - committed.offset).max(0))
    };
    let mut family = page.family(
        "redpanda_kafka_consumer_group_lag_sum",
        Kind::Gauge,
        "Consumer lag over all partitions, records",
    );
    for (offsets, group) in &groups {
        family.sample(&[("redpanda_group", group)], offsets.iter().filter_map(lag).sum::<i64>());
    }
    let mut family = page.family(
        "redpanda_kafka_consumer_group_lag_max",
        Kind::Gauge,
        "Largest consumer lag of a partition, records",
    );
    for (offsets, group) in &groups {
        family.sample(&[("redpanda_group", group)], offsets.iter().filter_map(lag).max().unwrap_or(0));
    }
}

fn latency(node: &Node, page: &mut Page) {
    let mut family = page.family(
        "redpanda_kafka_request_latency_seconds",
        Kind::Histogram,
        "Time from a received request to its finished answer",
    );
    for (index, shard) in node.shards.iter().enumerate() {
        let labels: [(&str, &dyn std::fmt::Display); 2] =
            [("redpanda_request", &"produce"), ("shard", &index)];
        family.histogram(&labels, &shard.produce_latency_us, 1e6);
    }
}

fn cluster(node: &Node, page: &mut Page) {
    let topics = node.topics.all();
    page.family("redpanda_cluster_brokers", Kind::Gauge, "Brokers").sample(&[], 1);
    page.family("redpanda_cluster_topics", Kind::Gauge, "Topics").sample(&[], topics.len());
    let partitions: usize = topics.iter().map(|topic| topic.partitions.len()).sum();
    page.family("redpanda_cluster_partitions", Kind::Gauge, "Partitions").sample(&[], partitions);
    let mut family = page.family("redpanda_cpu_busy_seconds_total", Kind::Counter, "CPU time of the reactor");
    for (index, shard) in node.shards.iter().enumerate() {
        family.sample(
            &[("shard", &index)],
            shard.clock.get().map_or(0.0, |clock| clock.elapsed().as_secs_f64()),
        );
    }
    page.family("redpanda_rpc_active_connections", Kind::Gauge, "Connections open")
        .sample(&[("redpanda_server", &"kafka")], node.connections.load(Relaxed));
    let sum = |bytes: fn(&ShardCounters) -> &AtomicU64| -> u64 {
        node.shards.iter().map(|shard| load(bytes(shard))).sum()
    };
    let kafka: [(&str, &dyn std::fmt::Display); 1] = [("redpanda_server", &"kafka")];
    page.family("redpanda_rpc_received_bytes", Kind::Counter, "Bytes received from clients")
        .sample(&kafka, sum(|shard| &shard.received_bytes));
    page.family("redpanda_rpc_sent_bytes", Kind::Counter, "Bytes sent to clients")
        .sample(&kafka, sum(|shard| &shard.sent_bytes));
}

/// Metrics of the process on both pages.
pub(super) fn process(node: &Node, page: &mut Page) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let started = node.started_unix_s;
    page.family("process_start_time_seconds", Kind::Gauge, "Start of the broker, seconds since 1970")
        .sample(&[], started);
    page.family("redpanda_application_uptime_seconds_total", Kind::Gauge, "Seconds since the start")
        .sample(&[], (now - started).max(0.0));
}

//! The C library, and what is built on it: confluent-kafka for Python, Go, .NET and Node, rdkafka for Rust, kcat.

use super::model::{Block, Change, Client, Partitioner, Row, Sheet, Traps, acks_word, property_lines};

/// The upper end of linger.ms in CONFIGURATION.md.
const LINGER_US_MOST: u64 = 900_000_000;
/// 0 switches stickiness off. Without a value the client takes twice its linger (rd_kafka_conf_finalize), and a fixed value would stay when
/// the linger changes.
pub(super) const STICKY_LINGER: &str = "sticky.partitioning.linger.ms";
/// message.max.bytes.
const MESSAGE_BYTES: u32 = 1_000_000;

pub(super) fn sheet(change: &Change) -> Sheet {
    Sheet {
        client: Client::Librdkafka,
        title: "librdkafka (confluent-kafka for Python, Go, .NET and Node take the same names)",
        read_in: "librdkafka 2.12.1, CONFIGURATION.md",
        rows: rows(change),
        blocks: vec![Block { place: "properties", lines: property_lines("", &properties(change)) }],
        traps: traps(change),
        sources: vec![
            "CONFIGURATION.md of librdkafka 2.12.1",
            "rd_kafka_conf_finalize",
            "librdkafka#2036",
            "librdkafka PR 2974",
        ],
    }
}

pub(super) fn properties(change: &Change) -> Vec<(&'static str, String)> {
    let idempotent = change.idempotent;
    let kbytes = |bytes: u64| bytes.div_ceil(1_024).to_string();
    let all = [
        ("linger.ms", change.linger_us.map(milliseconds)),
        ("batch.size", change.batch_bytes.map(|bytes| bytes.to_string())),
        ("compression.codec", change.codec.map(|codec| codec.name().to_owned())),
        ("partitioner", change.partitioner.map(|partitioner| partitioner_name(partitioner).to_owned())),
        (STICKY_LINGER, (change.partitioner == Some(Partitioner::RoundRobin)).then(|| "0".to_owned())),
        ("acks", change.acks.map(acks_word)),
        ("enable.idempotence", idempotent.map(|idempotent| idempotent.to_string())),
        ("max.in.flight.requests.per.connection", change.in_flight.map(|in_flight| in_flight.to_string())),
        ("queue.buffering.max.kbytes", change.buffer_bytes.map(kbytes)),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// A float, unlike in Java.
fn milliseconds(linger_us: u64) -> String {
    (linger_us as f64 / 1e3).to_string()
}

fn partitioner_name(partitioner: Partitioner) -> &'static str {
    match partitioner {
        Partitioner::Sticky => "consistent_random",
        Partitioner::RoundRobin => "random",
        Partitioner::Murmur2 => "murmur2_random",
    }
}

fn rows(change: &Change) -> Vec<Row> {
    let about = |name: &str| match name {
        "linger.ms" => ("linger", "5 ms since 1.5.0, 0.5 before"),
        "batch.size" => ("batch size", "1000000 bytes"),
        "compression.codec" => ("codec", "none"),
        "partitioner" => ("partitioner", "consistent_random: keys by CRC32, not Java's murmur2"),
        STICKY_LINGER => ("partitioner", "twice linger.ms"),
        "acks" => ("acks", "all"),
        "enable.idempotence" => ("idempotence", "false"),
        "queue.buffering.max.kbytes" => {
            ("buffer memory", "1048576 KiB, and queue.buffering.max.messages 100000")
        }
        _ => ("in flight", "1000000 (5 with idempotence)"),
    };
    let row = |(name, value): (&'static str, String)| {
        let (about, default) = about(name);
        Row { about, name, default, value: Some(value) }
    };
    properties(change).into_iter().map(row).collect()
}

fn traps(change: &Change) -> Vec<String> {
    let mut traps = Traps::default();
    traps.tell(
        change.linger_us.is_some() || change.batch_bytes.is_some(),
        "A request holds one batch of one partition, so there are as many requests as batches: only larger batches make fewer requests.",
    );
    traps.tell(
        change.linger_us.is_some(),
        "linger.ms and queue.buffering.max.ms are one setting: the last one that you set counts.",
    );
    traps.tell(
        change.linger_us.is_some_and(|linger_us| linger_us > LINGER_US_MOST),
        "linger.ms may be 900000 ms at most: the client refuses more.",
    );
    traps.tell(
        change.linger_us.is_some() || change.buffer_bytes.is_some(),
        "queue.buffering.max.messages (100000) caps the queue, too: rate times linger must fit, or produce() fails with QUEUE_FULL.",
    );
    traps.tell(
        change.batch_bytes.is_some(),
        "batch.num.messages (10000) caps a batch, too, and batch.size counts bytes before compression.",
    );
    traps.tell(
        change.batch_bytes.is_some_and(|bytes| bytes > MESSAGE_BYTES),
        "Above 1000000 bytes raise message.max.bytes, too: the smaller of both counts.",
    );
    traps.tell(
        change.partitioner == Some(Partitioner::Murmur2),
        "Changing the hash moves keys to other partitions: their order breaks at the change, and readers that join by partition break \
         with it.",
    );
    traps.tell(
        change.partitioner == Some(Partitioner::RoundRobin),
        "There is no round robin: without stickiness every record without a key goes to a random partition. \
         Keys do not keep their partition, either.",
    );
    traps.tell(
        change.partitioner.is_some_and(|of| of != Partitioner::RoundRobin),
        "Stickiness is for records without a key, and by time, not by bytes. Delete \
         sticky.partitioning.linger.ms: the client takes twice its linger.ms, and a value below linger.ms \
         splits batches.",
    );
    traps.tell(
        change.in_flight.is_some() && change.idempotent != Some(true),
        "Without idempotence, retries can overtake later records, unless max.in.flight is 1.",
    );
    traps.0
}

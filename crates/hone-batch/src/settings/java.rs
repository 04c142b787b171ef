//! Kafka's own producer (kafka-clients).

use super::model::{Block, Change, Client, Partitioner, Row, Sheet, Traps, acks_word, property_lines, size};

/// Kafka's buffer.memory.
const BUFFER_BYTES: u64 = 32 << 20;
/// Kafka's max.request.size, and nearly the limit of brokers and topics (message.max.bytes 1048588).
const REQUEST_BYTES: u32 = 1 << 20;
/// Kafka's delivery.timeout.ms less its request.timeout.ms: the constructor refuses a linger above it.
const LINGER_MS_MOST: u64 = 120_000 - 30_000;
const ROUND_ROBIN: &str = "org.apache.kafka.clients.producer.RoundRobinPartitioner";

pub(super) fn sheet(change: &Change, partitions: Option<u32>) -> Sheet {
    Sheet {
        client: Client::Java,
        title: "Java producer (kafka-clients)",
        read_in: "kafka-clients 4.3.1, ProducerConfig",
        rows: rows(change),
        blocks: vec![
            Block { place: "producer.properties", lines: property_lines("", &properties(change)) },
            Block { place: "Java", lines: code(change) },
        ],
        traps: traps(change, partitions),
        sources: vec![
            "KIP-1030",
            "KIP-480",
            "KIP-679",
            "KIP-782",
            "KIP-794",
            "ProducerConfig",
            "RecordAccumulator",
        ],
    }
}

/// The change in the client's own names, in the order of its manual.
pub(super) fn properties(change: &Change) -> Vec<(&'static str, String)> {
    let idempotent = change.idempotent.or(change.takes_idempotence_away().then_some(false));
    let all = [
        ("linger.ms", change.linger_ms_whole().map(|linger_ms| linger_ms.to_string())),
        ("batch.size", change.batch_bytes.map(|bytes| bytes.to_string())),
        ("compression.type", change.codec.map(|codec| codec.name().to_owned())),
        ("partitioner.class", partitioner_class(change).map(str::to_owned)),
        ("acks", change.acks.map(acks_word)),
        ("enable.idempotence", idempotent.map(|idempotent| idempotent.to_string())),
        ("max.in.flight.requests.per.connection", change.in_flight.map(|in_flight| in_flight.to_string())),
        ("buffer.memory", change.buffer_bytes.map(|bytes| bytes.to_string())),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// The client is sticky and uses murmur2 if no class is named.
fn partitioner_class(change: &Change) -> Option<&'static str> {
    (change.partitioner == Some(Partitioner::RoundRobin)).then_some(ROUND_ROBIN)
}

pub(super) fn rows(change: &Change) -> Vec<Row> {
    let found = properties(change);
    let value = |name: &str| found.iter().find(|(found, _)| *found == name).map(|(_, value)| value.clone());
    let row =
        |about, name, default| value(name).map(|value| Row { about, name, default, value: Some(value) });
    let partitioner = change.partitioner.map(|partitioner| Row {
        about: "partitioner",
        name: "partitioner.class",
        default: "none: keys by murmur2, else sticky by bytes (since 3.3; sticky by batch since 2.4, before that round robin)",
        value: Some(match partitioner {
            Partitioner::RoundRobin => ROUND_ROBIN.to_owned(),
            Partitioner::Sticky | Partitioner::Murmur2 => "(leave it out)".to_owned(),
        }),
    });
    [
        row("linger", "linger.ms", "5 ms since 4.0, 0 before"),
        row("batch size", "batch.size", "16384 bytes"),
        row("codec", "compression.type", "none"),
        partitioner,
        row("acks", "acks", "all since 3.0, 1 before"),
        row("idempotence", "enable.idempotence", "true since 3.0, false before"),
        row("in flight", "max.in.flight.requests.per.connection", "5"),
        row("buffer memory", "buffer.memory", "33554432 bytes"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn code(change: &Change) -> Vec<String> {
    let constant = |name: &str| match name {
        "linger.ms" => "LINGER_MS_CONFIG",
        "batch.size" => "BATCH_SIZE_CONFIG",
        "compression.type" => "COMPRESSION_TYPE_CONFIG",
        "partitioner.class" => "PARTITIONER_CLASS_CONFIG",
        "acks" => "ACKS_CONFIG",
        "enable.idempotence" => "ENABLE_IDEMPOTENCE_CONFIG",
        "buffer.memory" => "BUFFER_MEMORY_CONFIG",
        _ => "MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION",
    };
    let put = |(name, value): (&'static str, String)| {
        format!("properties.put(ProducerConfig.{}, \"{value}\");", constant(name))
    };
    properties(change).into_iter().map(put).collect()
}

/// Applies to the client itself and to everything that is built on it.
pub(super) fn traps(change: &Change, partitions: Option<u32>) -> Vec<String> {
    let mut traps = Traps(change.linger_was_rounded().into_iter().collect());
    traps.tell(
        change.linger_us.is_some(),
        "Linger is only an upper limit: as soon as any partition of a broker is ready, the request takes the \
         head batches of all its partitions, so a hot partition ends the wait of the cold ones.",
    );
    traps.tell(
        change.linger_us.is_some_and(|linger_us| linger_us > 0),
        "A sender that waits for each record's answer (send().get()) sends one record per batch at any \
         linger, and waits for the whole linger.",
    );
    traps.tell(
        change.linger_ms_whole().is_some_and(|linger_ms| linger_ms > LINGER_MS_MOST),
        format!(
            "delivery.timeout.ms (120000) must be at least linger.ms + request.timeout.ms (30000): above a linger of {LINGER_MS_MOST} \
             ms the producer does not start unless it is raised, too."
        ),
    );
    traps.tell(
        change.batch_bytes.is_some_and(|bytes| bytes > REQUEST_BYTES),
        "Above 1 MiB a batch meets max.request.size (1048576) and the topic's max.message.bytes (1048588): raise both, or batches are \
         refused and split.",
    );
    let buffer = change.buffer_bytes.unwrap_or(BUFFER_BYTES);
    match change.open_batches_bytes(partitions) {
        Some(open) if open > buffer => traps.tell(
            true,
            format!(
                "Memory: {} partitions of {} each need {}, and buffer.memory is {}: send() will block. Set buffer.memory={open} at \
                 least, or a smaller batch.",
                partitions.unwrap_or_default(),
                size(change.batch_bytes.unwrap_or_default().into()),
                size(open),
                size(buffer)
            ),
        ),
        Some(_) => {}
        None => traps.tell(
            change.batch_bytes.is_some(),
            format!(
                "Memory: every partition with an open batch holds a whole batch.size. Partitions of one \
                 producer times {} must fit into buffer.memory ({}); to check that, give their number with \
                 --producer-partitions.",
                size(change.batch_bytes.unwrap_or_default().into()),
                size(buffer)
            ),
        ),
    }
    traps.tell(
        change.takes_idempotence_away(),
        "Idempotence needs acks=all and at most 5 in flight. The client would turn it off silently, so the \
         line states it. Without it, retries may store records twice and out of order.",
    );
    traps.tell(
        change.idempotent == Some(true),
        "Brokers before 2.8 require the IDEMPOTENT_WRITE permission for it; 3.0.0 and 3.1.0 had it off in \
         spite of their manual (KAFKA-13598).",
    );
    traps.tell(
        matches!(change.partitioner, Some(Partitioner::Sticky | Partitioner::Murmur2)),
        "Delete partitioner.class if it is set: the built-in partitioner has no class. DefaultPartitioner \
         and UniformStickyPartitioner are gone in 4.0, and a client that names them does not start.",
    );
    traps.tell(
        change.partitioner == Some(Partitioner::RoundRobin),
        "RoundRobinPartitioner spreads each record, keyed ones too, over all partitions: the smallest batches of all partitioners.",
    );
    traps.tell(
        change.codec.is_some_and(|codec| codec.name() != "none"),
        "Right after a start, a compressing producer sends small batches: it fills them by an estimated \
         compression ratio that begins at 1.0 and improves by 0.005 per batch. If the topic's \
         compression.type is not `producer`, the broker recompresses everything.",
    );
    traps.0
}

//! dpkp/kafka-python.

use super::model::{Block, Change, Client, Partitioner, Row, Sheet, Traps};

pub(super) fn sheet(change: &Change) -> Sheet {
    let rows = rows(change);
    let arguments = rows.iter().filter_map(|row| Some(format!("{}={},", row.name, row.value.as_ref()?)));
    Sheet {
        client: Client::KafkaPython,
        title: "kafka-python",
        read_in: "kafka-python 3.0.12, KafkaProducer.DEFAULT_CONFIG",
        blocks: vec![Block { place: "arguments of KafkaProducer (Python)", lines: arguments.collect() }],
        traps: traps(change),
        sources: vec!["kafka-python 2.0.2, 2.1.0, 2.2.0, 2.3.0, 3.0.0 and 3.0.12, kafka/producer/kafka.py"],
        rows,
    }
}

fn rows(change: &Change) -> Vec<Row> {
    let row = |about, name, default, value: Option<String>| {
        value.map(|value| Row { about, name, default, value: Some(value) })
    };
    let idempotent = change.idempotent.or(change.takes_idempotence_away().then_some(false));
    let python = |yes: bool| if yes { "True" } else { "False" }.to_owned();
    let partitioner = change.partitioner.map(|of| Row {
        about: "partitioner",
        name: "partitioner",
        default: "DefaultPartitioner(): keys by murmur2, else a random partition for every record",
        value: match of {
            Partitioner::Sticky => Some("StickyPartitioner()".to_owned()),
            Partitioner::Murmur2 => Some("DefaultPartitioner()".to_owned()),
            Partitioner::RoundRobin => None,
        },
    });
    let buffer = change.buffer_bytes.map(|_| Row {
        about: "buffer memory",
        name: "",
        default: "none since 2.2.0 (buffer_memory, 33554432 bytes, before)",
        value: None,
    });
    [
        row("linger", "linger_ms", "0 ms", change.linger_ms_whole().map(|linger_ms| linger_ms.to_string())),
        row("batch size", "batch_size", "16384 bytes", change.batch_bytes.map(|bytes| bytes.to_string())),
        row(
            "codec",
            "compression_type",
            "None",
            change.codec.map(|codec| match codec.name() {
                "none" => "None".to_owned(),
                name => format!("'{name}'"),
            }),
        ),
        partitioner,
        row(
            "acks",
            "acks",
            "'all' since 3.0.0, 1 before",
            change.acks.map(|acks| if acks == -1 { "'all'".to_owned() } else { acks.to_string() }),
        ),
        row("idempotence", "enable_idempotence", "True since 3.0.0, False before", idempotent.map(python)),
        row(
            "in flight",
            "max_in_flight_requests_per_connection",
            "5",
            change.in_flight.map(|in_flight| in_flight.to_string()),
        ),
        buffer,
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn traps(change: &Change) -> Vec<String> {
    let mut traps = Traps(change.linger_was_rounded().into_iter().collect());
    traps.tell(
        change.linger_us.is_some(),
        "The default is 0 ms, also where Java's is 5 now: a Python producer batches less than Java ones.",
    );
    traps.tell(
        change.linger_us.is_some_and(|linger_us| linger_us > 0),
        "send(...).get() for every record waits for each answer: one record per batch at any linger.",
    );
    traps.tell(
        change.partitioner == Some(Partitioner::Sticky),
        "from kafka.partitioner import StickyPartitioner. Without it records without a key go to a random partition each, which makes \
         batches small.",
    );
    traps.tell(
        change.partitioner == Some(Partitioner::Murmur2),
        "from kafka.partitioner import DefaultPartitioner.",
    );
    traps.tell(
        change.partitioner == Some(Partitioner::RoundRobin),
        "There is no round robin; the default makes batches as small.",
    );
    traps.tell(
        change.codec.is_some_and(|codec| matches!(codec.name(), "snappy" | "lz4" | "zstd")),
        "The codec needs its package (python-snappy, lz4 or zstandard); without it the constructor fails.",
    );
    traps.tell(
        change.buffer_bytes.is_some(),
        "There is no memory limit since 2.2.0; limit the open records by counting futures.",
    );
    traps.tell(
        change.takes_idempotence_away(),
        "Since 3.0.0 idempotence is on and needs acks='all' and at most 5 in flight, so you must turn it off \
         with this change.",
    );
    traps.0
}

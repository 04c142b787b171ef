//! tulios/kafkajs, which has no accumulator at all.

use super::model::{Block, Change, Client, Row, Sheet};

pub(super) fn sheet(change: &Change) -> Sheet {
    let row = |about, name, default, asked: bool, value: Option<String>| {
        asked.then_some(Row { about, name, default, value })
    };
    let codec = change.codec.map(|codec| {
        format!(
            "CompressionTypes.{}",
            match codec.name() {
                "gzip" => "GZIP",
                "snappy" => "Snappy",
                "lz4" => "LZ4",
                "zstd" => "ZSTD",
                _ => "None",
            }
        )
    });
    let rows: Vec<Row> = [
        row("linger", "", "none: every send() is a request", change.linger_us.is_some(), None),
        row(
            "batch size",
            "",
            "none: a batch is the messages of one send()",
            change.batch_bytes.is_some(),
            None,
        ),
        row("codec", "compression", "none", codec.is_some(), codec),
        row("partitioner", "", "your own function (createPartitioner)", change.partitioner.is_some(), None),
        row("acks", "acks", "all (-1)", change.acks.is_some(), change.acks.map(|acks| acks.to_string())),
        row(
            "idempotence",
            "idempotent",
            "false",
            change.idempotent.is_some(),
            change.idempotent.map(|idempotent| idempotent.to_string()),
        ),
        row(
            "in flight",
            "maxInFlightRequests",
            "no limit",
            change.in_flight.is_some(),
            change.in_flight.map(|in_flight| in_flight.to_string()),
        ),
        row("buffer memory", "", "none: nothing is buffered", change.buffer_bytes.is_some(), None),
    ]
    .into_iter()
    .flatten()
    .collect();
    // Some go to kafka.producer(), the others to each send().
    let lines = |names: &[&str]| -> Vec<String> {
        let of = rows.iter().filter(|row| names.contains(&row.name));
        of.filter_map(|row| Some(format!("{}: {},", row.name, row.value.as_ref()?))).collect()
    };
    let blocks = [
        ("the object for kafka.producer()", lines(&["idempotent", "maxInFlightRequests"])),
        ("the object for producer.send()", lines(&["compression", "acks"])),
    ];
    Sheet {
        client: Client::Kafkajs,
        title: "KafkaJS",
        read_in: "KafkaJS' documentation; the package itself was not read",
        blocks: blocks
            .into_iter()
            .filter(|(_, lines)| !lines.is_empty())
            .map(|(place, lines)| Block { place, lines })
            .collect(),
        traps: vec![
            "There is no linger and no batch size: collect messages yourself for a few milliseconds and pass \
             them to one sendBatch(), or move to a client that batches (confluent-kafka-javascript is \
             librdkafka). If you can't change the code, see hone batch caching."
                .to_owned(),
        ],
        sources: vec!["kafkajs#1157", "kafkajs#1161"],
        rows,
    }
}

//! Spring Boot over the Java client.

use super::java;
use super::model::{Block, Change, Client, Row, Sheet};

/// Properties with their own names in Spring Boot.
const OWN: [(&str, &str); 4] = [
    ("batch.size", "batch-size"),
    ("compression.type", "compression-type"),
    ("acks", "acks"),
    ("buffer.memory", "buffer-memory"),
];

pub(super) fn sheet(change: &Change, partitions: Option<u32>) -> Sheet {
    let line = |(name, value): (&'static str, String)| format!("{}={value}", property(name));
    let mut traps = Vec::new();
    if change.linger_us.is_some() {
        traps.push(
            "spring.kafka.producer.linger.ms is not a property of Spring Boot, which ignores it silently: \
             use `properties`."
                .to_owned(),
        );
        traps.push(
            "The default comes with the client that Boot brings: Boot 4 has Kafka 4 (5 ms), Boot 3 has Kafka \
             3 (0 ms). KafkaTemplate with autoFlush, or send(...).get() for each record, makes linger \
             useless."
                .to_owned(),
        );
    }
    if change.batch_bytes.is_some() || change.buffer_bytes.is_some() {
        traps.push("Sizes are Spring's DataSize: a plain number is bytes, 64KB is 65536.".to_owned());
    }
    traps.push(
        "Your own ProducerFactory (a @Bean) ignores these lines unless it starts from KafkaProperties; \
         Spring Cloud Stream's binder has its own settings \
         (spring.cloud.stream.kafka.binder.producer-properties)."
            .to_owned(),
    );
    traps.extend(java::traps(change, partitions));
    Sheet {
        client: Client::Spring,
        title: "Spring Boot",
        read_in: "Spring Boot's KafkaProperties; defaults of kafka-clients 4.3.1",
        rows: rows(change),
        blocks: vec![Block {
            place: "application.properties",
            lines: java::properties(change).into_iter().map(line).collect(),
        }],
        traps,
        sources: vec![
            "Spring Boot, application properties: spring.kafka.producer.*",
            "KIP-1030",
            "ProducerConfig",
        ],
    }
}

fn property(name: &str) -> String {
    match OWN.iter().find(|(own, _)| *own == name) {
        Some((_, spring)) => format!("spring.kafka.producer.{spring}"),
        None => format!("spring.kafka.producer.properties.{name}"),
    }
}

fn rows(change: &Change) -> Vec<Row> {
    java::rows(change)
}

//! Kafka Connect's source connectors, over the Java client.

use super::java;
use super::model::{Block, Change, Client, Row, Sheet, property_lines};

pub(super) fn sheet(change: &Change, partitions: Option<u32>) -> Sheet {
    let properties = java::properties(change);
    let mut traps = vec![
        "For one connector the worker must allow it: connector.client.config.override.policy=All (the default since 3.0; None before, and \
         then producer.override.* is refused)."
            .to_owned(),
        "Only source connectors, and the dead letter queue of sinks, have producers: a sink's batches are those of its consumer \
         (consumer.override.max.poll.records)."
            .to_owned(),
        "producer.* in the worker is for all its connectors and needs a restart of the worker; it does not touch the worker's own topics."
            .to_owned(),
    ];
    if change.in_flight.is_none() {
        traps.push(
            "Connect sets max.in.flight.requests.per.connection=1: one request to a broker at a time, so small batches cost a whole round \
             trip each. With enable.idempotence=true, 5 are as safe."
                .to_owned(),
        );
    }
    traps.extend(java::traps(change, partitions));
    Sheet {
        client: Client::Connect,
        title: "Kafka Connect (source connectors)",
        read_in: "Apache Kafka's Connect Worker (baseProducerConfigs); defaults of kafka-clients 4.3.1",
        rows: rows(change),
        blocks: vec![
            Block {
                place: "the worker's properties, for all connectors",
                lines: property_lines("producer.", &properties),
            },
            Block {
                place: "the connector's configuration, for one",
                lines: property_lines("producer.override.", &properties),
            },
        ],
        traps,
        sources: vec!["KIP-458", "KIP-722", "Connect's Worker.baseProducerConfigs", "ProducerConfig"],
    }
}

/// As the client's, but for what Connect sets itself.
fn rows(change: &Change) -> Vec<Row> {
    let own = |row: Row| match row.name {
        "max.in.flight.requests.per.connection" => Row { default: "1 (Connect's)", ..row },
        "enable.idempotence" => Row { default: "false (Connect's, since 3.0)", ..row },
        "acks" => Row { default: "all (Connect's)", ..row },
        _ => row,
    };
    java::rows(change).into_iter().map(own).collect()
}

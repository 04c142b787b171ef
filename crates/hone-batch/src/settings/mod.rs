//! A change of a producer as configuration lines: the lines for each client, its defaults, and its unexpected behaviour. Pure.
//!
//! There is one file per client. The defaults come from the package of the version that [`Sheet::read_in`] names, and the tests compare the
//! lines with the clients themselves if those are available.

mod connect;
mod franz_go;
mod java;
mod kafka_python;
mod kafkajs;
mod librdkafka;
mod model;
mod sarama;
mod spring;

pub use model::{Block, Change, Client, Conflict, Partitioner, Row, Sheet};

/// The lines for one client. `partitions` are those that one producer writes to, if known: memory depends on them.
///
/// # Errors
/// Fails when no client could apply the change.
pub fn sheet(client: Client, change: &Change, partitions: Option<u32>) -> Result<Sheet, Conflict> {
    change.check()?;
    Ok(match client {
        Client::Java => java::sheet(change, partitions),
        Client::Librdkafka => librdkafka::sheet(change),
        Client::FranzGo => franz_go::sheet(change),
        Client::KafkaPython => kafka_python::sheet(change),
        Client::Sarama => sarama::sheet(change, partitions),
        Client::Spring => spring::sheet(change, partitions),
        Client::Connect => connect::sheet(change, partitions),
        Client::Kafkajs => kafkajs::sheet(change),
    })
}

/// The change as properties of a client that uses properties, without acks, codec and idempotence, which a load sets itself. `None` for
/// clients that are set by code.
pub fn properties(client: Client, change: &Change) -> Option<Vec<(&'static str, String)>> {
    let said_by_the_load = ["acks", "compression.type", "compression.codec", "enable.idempotence"];
    let all = match client {
        Client::Java => java::properties(change),
        Client::Librdkafka => librdkafka::properties(change),
        _ => return None,
    };
    Some(all.into_iter().filter(|(name, _)| !said_by_the_load.contains(name)).collect())
}

/// Properties that must not be set for the change to take effect: the client's default is what they would choose.
pub fn removed(client: Client, change: &Change) -> &'static [&'static str] {
    match (client, change.partitioner) {
        (Client::Java, Some(Partitioner::Sticky | Partitioner::Murmur2)) => &["partitioner.class"],
        (Client::Librdkafka, Some(Partitioner::Sticky | Partitioner::Murmur2)) => {
            &[librdkafka::STICKY_LINGER]
        }
        _ => &[],
    }
}

#[cfg(test)]
mod tests;

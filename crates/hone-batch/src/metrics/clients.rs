//! Batches by client, out of what Redpanda's Admin API (25.3 and newer) lists of its connections.

use std::collections::BTreeMap;

use hone_record::{Figure, WatchedClient};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

/// The method, as a path of the Admin API.
pub const LIST_CONNECTIONS: &str = "redpanda.core.admin.v2.ClusterService/ListKafkaConnections";

/// What is asked of it: connections that produced something lately, those with most bytes first.
pub const REQUEST: &str = r#"{"filter":"recent_request_statistics.produce_bytes > 0","orderBy":"recent_request_statistics.produce_bytes desc","pageSize":1000}"#;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Listed {
    connections: Vec<Connection>,
}

/// Fields of a protobuf message as JSON: what is 0 or empty may be left out.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Connection {
    client_id: String,
    client_software_name: String,
    client_software_version: String,
    transactional_id: String,
    recent_request_statistics: Statistics,
}

/// Of the last minute.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Statistics {
    #[serde(deserialize_with = "whole")]
    produce_bytes: u64,
    #[serde(deserialize_with = "whole")]
    produce_batch_count: u64,
    #[serde(deserialize_with = "whole")]
    request_count: u64,
}

/// Protobuf writes 64-bit numbers as strings.
fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Text(String),
        Plain(u64),
    }
    match Number::deserialize(from)? {
        Number::Plain(number) => Ok(number),
        Number::Text(text) => {
            text.parse().map_err(|_| D::Error::custom(format!("`{text}` is no whole number")))
        }
    }
}

/// The clients of an answer, connections of one client together, those with most batches first.
///
/// # Errors
/// When it is no such answer.
pub fn read(answer: &str) -> Result<Vec<WatchedClient>, serde_json::Error> {
    let listed: Listed = serde_json::from_str(answer)?;
    let mut clients: BTreeMap<(String, String, String), WatchedClient> = BTreeMap::new();
    for connection in listed.connections {
        let software = [connection.client_software_name, connection.client_software_version].join(" ");
        let software = software.trim().to_owned();
        let key = (connection.client_id.clone(), software.clone(), connection.transactional_id.clone());
        let client = clients.entry(key).or_insert_with(|| WatchedClient {
            client_id: connection.client_id,
            software,
            transactional_id: connection.transactional_id,
            ..WatchedClient::default()
        });
        let recent = connection.recent_request_statistics;
        client.connections += 1;
        client.produced_bytes = client.produced_bytes.saturating_add(recent.produce_bytes);
        client.batches = client.batches.saturating_add(recent.produce_batch_count);
        client.requests = client.requests.saturating_add(recent.request_count);
    }
    let mut clients: Vec<WatchedClient> = clients.into_values().map(with_ratios).collect();
    clients.sort_by(|one, other| other.batches.cmp(&one.batches).then(one.client_id.cmp(&other.client_id)));
    Ok(clients)
}

fn with_ratios(client: WatchedClient) -> WatchedClient {
    let known = |count: u64| Figure::Known(count as f64);
    WatchedClient {
        batch_bytes: known(client.produced_bytes).over(known(client.batches)),
        batches_per_request: known(client.batches).over(known(client.requests)),
        ..client
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_a_client_are_one() {
        let answer = r#"{"connections":[
            {"nodeId":1,"clientId":"app","clientSoftwareName":"kgo","clientSoftwareVersion":"1.19","recentRequestStatistics":
              {"produceBytes":"1000","fetchBytes":"0","requestCount":"20","produceBatchCount":"10"}},
            {"clientId":"app","clientSoftwareName":"kgo","clientSoftwareVersion":"1.19","recentRequestStatistics":
              {"produceBytes":3000,"requestCount":5,"produceBatchCount":"10"}},
            {"clientId":"other","transactionalId":"tx","state":"KAFKA_CONNECTION_STATE_OPEN"}],"totalSize":"3"}"#;
        let clients = read(answer).unwrap();
        assert_eq!(clients.len(), 2);
        assert_eq!((clients[0].connections, clients[0].software.as_str()), (2, "kgo 1.19"));
        assert_eq!(clients[0].batch_bytes, Figure::Known(200.0));
        assert_eq!(clients[0].batches_per_request, Figure::Known(0.8));
        assert_eq!((clients[1].batch_bytes, clients[1].transactional_id.as_str()), (Figure::Nothing, "tx"));
        assert!(read("{}").unwrap().is_empty());
        for bad in ["", "[1]", r#"{"connections":[{"recentRequestStatistics":{"produceBytes":"x"}}]}"#] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(serde_json::from_str::<serde_json::Value>(REQUEST).is_ok());
    }
}

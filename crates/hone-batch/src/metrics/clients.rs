//! Batches by client, from the connections that Redpanda's Admin API (25.3 and newer) lists.

use std::collections::BTreeMap;

use hone_record::{Figure, WatchedClient};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

/// The method, as a path of the Admin API.
pub const LIST_CONNECTIONS: &str = "redpanda.core.admin.v2.ClusterService/ListKafkaConnections";

/// Connections on a page of the answer.
const PAGE_SIZE: usize = 1_000;
/// Limit of the connections: those with the most bytes come first, and a note names the number of further ones.
const MOST_CONNECTIONS: usize = 100_000;

/// The request: connections that produced recently, those with the most bytes first.
pub fn first_request() -> String {
    request(None)
}

/// The same request from a page on (`page_token` of Google's AIP-158, which this method follows).
fn request(page_token: Option<&str>) -> String {
    let mut request = serde_json::json!({
        "filter": "recent_request_statistics.produce_bytes > 0",
        "orderBy": "recent_request_statistics.produce_bytes desc",
        "pageSize": PAGE_SIZE,
    });
    if let Some(token) = page_token {
        request["pageToken"] = token.into();
    }
    request.to_string()
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Listed {
    connections: Vec<Connection>,
    next_page_token: String,
    #[serde(deserialize_with = "whole")]
    total_size: u64,
}

/// Fields of a protobuf message as JSON: 0 or empty values may be missing.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Connection {
    client_id: String,
    client_software_name: String,
    client_software_version: String,
    transactional_id: String,
    recent_request_statistics: Statistics,
}

/// For the last minute.
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
            text.parse().map_err(|_| D::Error::custom(format!("`{text}` is not a whole number")))
        }
    }
}

/// The answers to one listing, page by page.
#[derive(Debug, Default)]
pub struct Listing {
    clients: BTreeMap<(String, String, String), WatchedClient>,
    connections: usize,
    total: u64,
}

impl Listing {
    /// Adds a page; returns the request for the next one, if there is one.
    ///
    /// # Errors
    /// Fails when it is no such answer.
    pub fn add(&mut self, answer: &str) -> Result<Option<String>, serde_json::Error> {
        let listed: Listed = serde_json::from_str(answer)?;
        let was_empty = listed.connections.is_empty();
        self.total = self.total.max(listed.total_size);
        self.connections += listed.connections.len();
        listed.connections.into_iter().for_each(|connection| self.count(connection));
        let ends = listed.next_page_token.is_empty() || was_empty || self.connections >= MOST_CONNECTIONS;
        Ok((!ends).then(|| request(Some(&listed.next_page_token))))
    }

    fn count(&mut self, connection: Connection) {
        let software = [connection.client_software_name, connection.client_software_version].join(" ");
        let software = software.trim().to_owned();
        let key = (connection.client_id.clone(), software.clone(), connection.transactional_id.clone());
        let client = self.clients.entry(key).or_insert_with(|| WatchedClient {
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

    /// The clients, with all connections of a client combined, those with the most batches first; and notes about them.
    pub fn finish(self) -> (Vec<WatchedClient>, Option<String>) {
        let mut clients: Vec<WatchedClient> = self.clients.into_values().map(with_ratios).collect();
        clients
            .sort_by(|one, other| other.batches.cmp(&one.batches).then(one.client_id.cmp(&other.client_id)));
        let read = self.connections as u64;
        let note = (self.total > read).then(|| {
            format!("the clients cover {read} of {} connections, those with the most bytes", self.total)
        });
        (clients, note)
    }
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

    fn read(answer: &str) -> Result<(Vec<WatchedClient>, Option<String>), serde_json::Error> {
        let mut listing = Listing::default();
        listing.add(answer)?;
        Ok(listing.finish())
    }

    #[test]
    fn connections_of_a_client_are_one() {
        let answer = r#"{"connections":[
            {"nodeId":1,"clientId":"app","clientSoftwareName":"kgo","clientSoftwareVersion":"1.19","recentRequestStatistics":
              {"produceBytes":"1000","fetchBytes":"0","requestCount":"20","produceBatchCount":"10"}},
            {"clientId":"app","clientSoftwareName":"kgo","clientSoftwareVersion":"1.19","recentRequestStatistics":
              {"produceBytes":3000,"requestCount":5,"produceBatchCount":"10"}},
            {"clientId":"other","transactionalId":"tx","state":"KAFKA_CONNECTION_STATE_OPEN"}],"totalSize":"3"}"#;
        let clients = read(answer).unwrap().0;
        assert_eq!(clients.len(), 2);
        assert_eq!((clients[0].connections, clients[0].software.as_str()), (2, "kgo 1.19"));
        assert_eq!(clients[0].batch_bytes, Figure::Known(200.0));
        assert_eq!(clients[0].batches_per_request, Figure::Known(0.8));
        assert_eq!((clients[1].batch_bytes, clients[1].transactional_id.as_str()), (Figure::Nothing, "tx"));
        assert!(read("{}").unwrap().0.is_empty());
        for bad in ["", "[1]", r#"{"connections":[{"recentRequestStatistics":{"produceBytes":"x"}}]}"#] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_next_page_is_asked_for_until_there_is_none() {
        let page = |count: usize, token: &str| {
            let one = r#"{"clientId":"app","recentRequestStatistics":{"produceBytes":"10","produceBatchCount":"1"}}"#;
            let all: Vec<serde_json::Value> = vec![serde_json::from_str(one).unwrap(); count];
            serde_json::json!({"connections": all, "nextPageToken": token, "totalSize": "5"}).to_string()
        };
        let mut listing = Listing::default();
        let next = listing.add(&page(3, "a\"b")).unwrap().unwrap();
        let asked: serde_json::Value = serde_json::from_str(&next).unwrap();
        assert_eq!((asked["pageToken"].as_str(), asked["pageSize"].as_u64()), (Some("a\"b"), Some(1_000)));
        assert_eq!(listing.add(&page(1, "")).unwrap(), None);
        let (clients, note) = listing.finish();
        assert_eq!((clients.len(), clients[0].connections, clients[0].batches), (1, 4, 4));
        assert!(note.unwrap().contains("4 of 5 connections"));
        // A server that always has another page, and nothing on it, is not asked for ever.
        assert_eq!(Listing::default().add(r#"{"nextPageToken":"again"}"#).unwrap(), None);
    }
}

//! Whether what a connection names answers, address by address.

use std::time::Instant;

use hone_load::{Admin, Security};
use hone_store::Store;
use serde::Serialize;

use super::Connection;
use crate::meter::Metrics;

/// What an address is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// A broker of the cluster.
    Broker,
    /// A metrics page.
    Metrics,
    /// The store.
    Store,
}

/// What came of one address.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// What the address is for.
    pub purpose: Purpose,
    /// The address.
    pub address: String,
    /// What answered; `None` where nothing usable did.
    pub found: Option<Reply>,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What an address answered.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// A cluster: its brokers, the topics that this login may describe, and the time to connect and log in.
    Cluster {
        /// Brokers.
        brokers: usize,
        /// Topics, those of the cluster itself left out.
        topics: usize,
        /// Time until both lists were there, in milliseconds.
        answered_ms: f64,
    },
    /// A metrics page with counters of busy time that Hone knows.
    BusyTime,
    /// A store that can be listed, with this many objects at its top.
    Objects(usize),
}

/// Asks each address of a connection once. Nothing is written anywhere.
pub fn check(connection: &Connection, security: &Security) -> Vec<Answer> {
    let brokers = connection
        .bootstrap
        .iter()
        .map(|address| answer(Purpose::Broker, address, cluster(address, security)));
    let metrics = connection.metrics.iter().map(|url| answer(Purpose::Metrics, url, page(url)));
    let store = connection.store.iter().map(|address| answer(Purpose::Store, address, objects(address)));
    brokers.chain(metrics).chain(store).collect()
}

fn answer(purpose: Purpose, address: &str, found: anyhow::Result<Reply>) -> Answer {
    let error = found.as_ref().err().map(|error| format!("{error:#}"));
    Answer { purpose, address: address.to_owned(), found: found.ok(), error }
}

fn cluster(address: &str, security: &Security) -> anyhow::Result<Reply> {
    let began = Instant::now();
    let mut admin = Admin::connect_with(address, security)?;
    let brokers = admin.brokers()?.len();
    let topics = admin.topics()?.iter().filter(|topic| !topic.is_internal).count();
    Ok(Reply::Cluster { brokers, topics, answered_ms: began.elapsed().as_secs_f64() * 1e3 })
}

fn page(url: &str) -> anyhow::Result<Reply> {
    Metrics { urls: vec![url.to_owned()], ..Metrics::default() }.check_readable()?;
    Ok(Reply::BusyTime)
}

fn objects(address: &str) -> anyhow::Result<Reply> {
    Ok(Reply::Objects(Store::open(address)?.names()?.len()))
}

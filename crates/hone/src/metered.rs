//! A cluster's metrics, asked for: from the brokers themselves, or from a Prometheus server that scrapes them. Both ways end in the same
//! rates.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use hone_batch::metrics::quantity::Quantity;
use hone_batch::metrics::source::Source;
use hone_batch::metrics::{clients, figures};
use hone_record::{BatchWatch, NotExported};
use hone_store::web::Web;
use hone_tool::interrupt;

mod history;
mod prometheus;
mod scraped;

pub(crate) use history::{kept, points};
pub(crate) use prometheus::Server;
pub(crate) use scraped::Brokers;

/// Whoever answers questions about a cluster's batches.
#[derive(Debug)]
pub(crate) enum Meter {
    /// The brokers.
    Brokers(Brokers),
    /// A Prometheus server.
    Server(Server),
}

/// What a meter has seen by now.
#[derive(Debug)]
pub(crate) enum Seen {
    /// Figures of a stretch of time.
    Figures(Box<BatchWatch>),
    /// The first look at counters, which makes no rate yet.
    First,
}

impl Meter {
    /// Looks once more.
    ///
    /// # Errors
    /// When nobody answers, or what they answer is of no known source.
    pub(crate) fn look(&mut self) -> Result<Seen> {
        let (source, rates, endpoints) = match self {
            Self::Brokers(brokers) => match brokers.look()? {
                Some((source, rates)) => (source, rates, brokers.endpoints()),
                None => return Ok(Seen::First),
            },
            Self::Server(server) => {
                let (source, rates) = server.look()?;
                (source, rates, vec![server.address().to_owned()])
            }
        };
        let watch = BatchWatch { endpoints, at_unix_ms: now_unix_ms(), ..figures::watch(source, &rates) };
        Ok(Seen::Figures(Box::new(watch)))
    }
}

/// Adds what Redpanda's Admin API tells of clients, or says why it does not.
pub(crate) fn add_clients(watch: &mut BatchWatch, web: &Web, admin: Option<&str>) {
    let missing = |why: String| NotExported { what: "batches by client".to_owned(), why };
    let is_redpanda = watch.source.starts_with("redpanda");
    let Some(admin) = admin else {
        let why = if is_redpanda {
            "Redpanda's Admin API has them from 25.3 on; name it with --admin http://HOST:9644"
        } else {
            "only Redpanda's Admin API (25.3 and newer) has them; `hone batch xray` tells producers apart by their ids"
        };
        watch.not_exported.push(missing(why.to_owned()));
        return;
    };
    let url = format!("{}/{}", admin.trim_end_matches('/'), clients::LIST_CONNECTIONS);
    let headers = [("Connect-Protocol-Version", "1")];
    let answered = web.post_json(&url, &headers, clients::REQUEST, &interrupt::requested);
    match answered.map_err(|error| (error.status(), error.to_string())) {
        Ok(answer) => match clients::read(&answer) {
            Ok(found) => watch.clients = found,
            Err(error) => {
                watch.not_exported.push(missing(format!("the answer of {url} can't be read: {error}")));
            }
        },
        Err((Some(404 | 405 | 501), _)) => watch
            .not_exported
            .push(missing(format!("{admin} has no ListKafkaConnections, which Redpanda has from 25.3 on"))),
        Err((_, said)) => watch.not_exported.push(missing(said)),
    }
}

/// Milliseconds since 1970.
fn now_unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// The CPU of brokers, in the order in which it is taken.
const CPU: [Quantity; 2] = [Quantity::ShardCpu, Quantity::ProcessCpu];

fn recognised(names: &BTreeSet<String>, wanted: Option<Source>, who: &str) -> Result<Source> {
    match wanted {
        Some(source) => Ok(source),
        None => Source::recognise(names).with_context(|| format!("{who} is no broker's")),
    }
}

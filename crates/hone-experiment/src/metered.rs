//! Metrics of a cluster, from the brokers themselves, or from a Prometheus server that scrapes them. Both give the same rates.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use hone_batch::metrics::quantity::{By, Quantity};
use hone_batch::metrics::source::Source;
use hone_batch::metrics::{clients, figures};
use hone_record::{BatchWatch, NotExported};
use hone_store::web::{Web, shown};
use hone_tool::interrupt;

use crate::moment::now_unix_ms;

mod history;
mod prometheus;
mod scraped;

pub use history::{keep, kept, next_look, open_kept, points, wait_until};
pub use prometheus::Server;
pub use scraped::{Brokers, completed};

/// The source of figures about a cluster's batches.
#[derive(Debug)]
pub enum Meter {
    /// The brokers.
    Brokers(Brokers),
    /// A Prometheus server.
    Server(Server),
}

/// The result of a meter so far.
#[derive(Debug)]
pub enum Seen {
    /// Figures over a period.
    Figures(Box<BatchWatch>),
    /// The first sample of counters, which gives no rate yet.
    First,
}

impl Meter {
    /// Takes another sample, with batches grouped by `by`.
    ///
    /// # Errors
    /// When no source answers, or the answer has an unknown format.
    pub fn look(&mut self, by: By) -> Result<Seen> {
        let (source, rates, endpoints) = match self {
            Self::Brokers(brokers) => match brokers.look(by)? {
                Some((source, rates)) => (source, rates, brokers.endpoints()),
                None => return Ok(Seen::First),
            },
            Self::Server(server) => {
                let (source, rates) = server.look(by)?;
                (source, rates, vec![server.address()])
            }
        };
        let watch = BatchWatch { endpoints, at_unix_ms: now_unix_ms(), ..figures::watch(source, &rates, by) };
        Ok(Seen::Figures(Box::new(watch)))
    }
}

/// Reads the token from a file.
pub fn token_of(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("{} can't be read", path.display()))
}

/// Redpanda's Admin API. It has its own login: the token for the metrics is not sent to it.
#[derive(Debug)]
pub struct Admin {
    web: Web,
    /// The method's address, which may contain a password.
    url: String,
}

impl Admin {
    /// Sends no request yet.
    ///
    /// # Errors
    /// When the client can't be created.
    pub fn at(address: &str, token: Option<&str>) -> Result<Self> {
        let url = format!("{}/{}", address.trim_end_matches('/'), clients::LIST_CONNECTIONS);
        Ok(Self { web: Web::open(token)?, url })
    }

    /// All pages of connections, or the reason why there are none, without a password.
    pub fn clients(&self) -> Result<(Vec<hone_record::WatchedClient>, Option<String>), String> {
        let headers = [("Connect-Protocol-Version", "1")];
        let mut listed = clients::Listing::default();
        let mut next = Some(clients::first_request());
        while let Some(request) = next {
            let answer = self.web.post_json(&self.url, &headers, &request, &interrupt::requested);
            let answer = answer.map_err(|error| match error.status() {
                Some(404 | 405 | 501) => {
                    format!("{} does not exist; Redpanda has it from 25.3 on", shown(&self.url))
                }
                _ => error.to_string(),
            })?;
            let unread = |error| format!("the answer of {} can't be read: {error}", shown(&self.url));
            next = listed.add(&answer).map_err(unread)?;
        }
        Ok(listed.finish())
    }
}

/// Adds the clients from Redpanda's Admin API, or the reason why there are none.
pub fn add_clients(watch: &mut BatchWatch, admin: Option<&Admin>) {
    let missing = |why: String| NotExported { what: "batches by client".to_owned(), why };
    let is_redpanda = watch.source.starts_with("redpanda");
    let Some(admin) = admin else {
        let why = if is_redpanda {
            "Redpanda's Admin API has them from 25.3 on; name it with --admin http://HOST:9644"
        } else {
            "only Redpanda's Admin API (25.3 and newer) has them; `hone batch xray` distinguishes producers \
             by their ids"
        };
        watch.not_exported.push(missing(why.to_owned()));
        return;
    };
    match admin.clients() {
        Ok((found, note)) => {
            watch.clients = found;
            watch.notes.extend(note);
        }
        Err(said) => watch.not_exported.push(missing(said)),
    }
}

/// CPU metrics of brokers, in order of preference.
const CPU: [Quantity; 2] = [Quantity::ShardCpu, Quantity::ProcessCpu];

fn recognised(names: &BTreeSet<String>, wanted: Option<Source>, who: &str) -> Result<Source> {
    match wanted {
        Some(source) => Ok(source),
        None => Source::recognise(names).with_context(|| {
            format!(
                "{who} does not have the metrics of a \
             broker"
            )
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    fn told(address: &str) -> String {
        let mut watch = BatchWatch { source: "redpanda-25.1".to_owned(), ..BatchWatch::default() };
        add_clients(&mut watch, Some(&Admin::at(address, None).unwrap()));
        watch.not_exported.iter().map(|missing| missing.why.clone()).collect()
    }

    /// The request that a server received, which answers with these bytes.
    fn answering(answer: &'static str) -> (String, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 4096];
            let read = stream.read(&mut asked).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8_lossy(&asked[..read]).into_owned()
        });
        (address, server)
    }

    #[test]
    fn no_answer_of_the_admin_api_tells_its_password() {
        for answer in [
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
        ] {
            let (address, server) = answering(answer);
            let why = told(&format!("http://me:secret@{address}"));
            server.join().unwrap();
            assert!(why.contains(&address) && !why.contains("secret"), "{why}");
        }
        assert!(!told("me:secret@127.0.0.1:1").contains("secret"));
    }

    #[test]
    fn a_server_is_told_without_its_password_where_its_answer_is_none() {
        let (address, server) = answering("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>");
        let at = Server::at(&format!("http://me:secret@{address}"), None, 60.0, "", None).unwrap();
        let said = format!("{:#}", Meter::Server(at).look(By::Topic).unwrap_err());
        server.join().unwrap();
        assert!(said.contains(&address) && !said.contains("secret"), "{said}");
    }
}

//! How a broker is to run.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::thread::available_parallelism;

use crate::faults::Faults;
use crate::limits::Limits;
use crate::security::tls::TlsFiles;

/// Where one-line notices go (a torn tail that was cut, for example). The broker itself prints nothing.
#[derive(Clone)]
pub struct Notices(Arc<dyn Fn(&str) + Send + Sync>);

impl Notices {
    /// Sends every notice to `sink`.
    pub fn to(sink: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }

    /// Drops every notice.
    pub fn nowhere() -> Self {
        Self::to(|_| ())
    }

    pub(crate) fn say(&self, notice: &str) {
        (self.0)(notice);
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Notices")
    }
}

/// Where clients are told to connect: a name or an address, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// A name, or an address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self { host: address.ip().to_string(), port: address.port() }
    }
}

impl FromStr for Endpoint {
    type Err = String;

    /// Reads `host:port`, an IPv6 address in brackets.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(address.into());
        }
        let wanted = || format!("wanted HOST:PORT, an IPv6 address in brackets, not `{text}`");
        let (host, port) = text.rsplit_once(':').ok_or_else(wanted)?;
        let is_name = |sign: char| sign.is_ascii_alphanumeric() || "-._".contains(sign);
        match port.parse() {
            Ok(port) if !host.is_empty() && host.chars().all(is_name) => {
                Ok(Self { host: host.to_owned(), port })
            }
            _ => Err(wanted()),
        }
    }
}

/// The address to listen on: one, or a name, which is looked up now and not again.
///
/// # Errors
/// When it is neither, or nothing is known by that name.
pub fn resolve(text: &str) -> Result<SocketAddr, String> {
    let endpoint: Endpoint = text.parse()?;
    let mut found = (endpoint.host.as_str(), endpoint.port)
        .to_socket_addrs()
        .map_err(|error| format!("can't look up `{}`: {error}", endpoint.host))?;
    found.next().ok_or_else(|| format!("`{}` has no address", endpoint.host))
}

/// A user and the password to give it.
#[derive(Clone, PartialEq, Eq)]
pub struct NewUser {
    /// As it logs in.
    pub name: String,
    /// Kept only as what SCRAM needs of it.
    pub password: String,
}

/// Without the password.
impl fmt::Debug for NewUser {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "NewUser({:?})", self.name)
    }
}

/// How a broker is to run. [`Settings::new`] has the defaults.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Address for clients; port 0 picks a free one. Default 127.0.0.1:9092.
    pub listen: SocketAddr,
    /// Where clients are told to connect; default the address that was bound. A name is what certificates are made for;
    /// but a client may resolve one to an address family on which nobody listens.
    pub advertised: Option<Endpoint>,
    /// Address for `/metrics` and `/ready`; default 127.0.0.1:9644, `None` for off.
    pub metrics_listen: Option<SocketAddr>,
    /// Keeps everything in memory: nothing touches the disk, nothing outlives the broker. Default off.
    pub memory: bool,
    /// Faults of the storage, for tests. Default none.
    pub faults: Faults,
    /// Folder of logs and metadata; created when missing, locked while the broker runs. Unused with `memory`.
    pub data_dir: PathBuf,
    /// Reactors, a thread each; default one for each core.
    pub threads: usize,
    /// Properties of the broker, by their names in DescribeConfigs; what was changed while it ran counts more.
    pub properties: BTreeMap<String, String>,
    /// Partitions of a topic that is made without a number.
    pub default_partitions: i32,
    /// Whether Metadata for an unknown topic makes it (if the client does not forbid it).
    pub auto_create_topics: bool,
    /// Largest request accepted, in bytes. A longer one closes its connection.
    pub max_request_bytes: usize,
    /// What clients may make the broker hold in memory, in bytes: unfinished frames, batches under way, answers not
    /// taken. Above it frames that are not small wait, and those that do not end are closed. Default 256 MiB.
    pub max_memory_bytes: usize,
    /// A frame of which nothing more has come for so long never ends: its connection is closed. Default 30 s, in
    /// milliseconds.
    pub stall_ms: u64,
    /// While clients hold all the memory that they may, an unfinished frame is closed after twice this time, a client
    /// that takes none of its answers, if they are large, after once this time. Default 2 s, in milliseconds.
    pub short_stall_ms: u64,
    /// A client that has answers waiting and has taken none of their bytes for so long is closed. Default
    /// 5 minutes, in milliseconds.
    pub untaken_ms: u64,
    /// Room for answers in the kernel, for each client, in bytes; 0 leaves it to the kernel. The kernel takes no more than its
    /// `net.core.wmem_max`. Default 1 MiB.
    pub send_buffer_bytes: usize,
    /// Clients connected at a time; one more is closed at once. Default 20,000.
    pub max_connections: usize,
    /// What clients can make the broker keep, at most.
    pub limits: Limits,
    /// How often logs are looked after (rolls by time, retention, compaction), in milliseconds. Default 1000.
    pub housekeeping_ms: u64,
    /// How long the first members of an empty group wait for others, in milliseconds.
    pub group_initial_delay_ms: u64,
    /// Whether clients are asked who they are and whether they may; see `super_users`. Default off: everyone may do
    /// everything.
    pub authorize: bool,
    /// Principals that may do everything, such as `User:admin`. Authorization needs at least one.
    pub super_users: Vec<String>,
    /// Clients talk inside TLS; `None` for in plain.
    pub tls: Option<TlsFiles>,
    /// Whether clients must log in.
    pub sasl: bool,
    /// Users to give a password at start; those from earlier runs stay.
    pub users: Vec<NewUser>,
    /// Whether other machines are let in without TLS or without a login, and passwords in plain without TLS.
    pub insecure: bool,
    /// How long a new client may take for TLS and login, in milliseconds.
    pub greeting_ms: u64,
    /// How long a member of a consumer group (KIP-848) may be silent, in milliseconds.
    pub consumer_session_ms: u64,
    /// How often members of a consumer group (KIP-848) are told to beat, in milliseconds.
    pub consumer_heartbeat_ms: u64,
    /// How long offsets of a group without members are kept, in minutes.
    pub offsets_retention_minutes: u64,
    /// Where notices go.
    pub notices: Notices,
}

impl Settings {
    /// The defaults, on free ports and without a disk: for a broker inside a test.
    pub fn in_memory() -> Self {
        let mut settings = Self { memory: true, ..Self::new("") };
        settings.listen.set_port(0);
        settings.metrics_listen = Some(settings.listen);
        settings
    }

    /// Where the data are, in words.
    pub fn place(&self) -> String {
        if self.memory { "memory".to_owned() } else { self.data_dir.display().to_string() }
    }

    /// The defaults, over a data folder.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        let loopback = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        Self {
            listen: loopback(9092),
            advertised: None,
            metrics_listen: Some(loopback(9644)),
            memory: false,
            faults: Faults::none(),
            data_dir: data_dir.into(),
            threads: available_parallelism().map_or(1, usize::from),
            properties: BTreeMap::new(),
            default_partitions: 1,
            auto_create_topics: true,
            max_request_bytes: 32 << 20,
            max_memory_bytes: 256 << 20,
            stall_ms: 30_000,
            short_stall_ms: 2_000,
            untaken_ms: 300_000,
            send_buffer_bytes: 1 << 20,
            max_connections: 20_000,
            limits: Limits::default(),
            housekeeping_ms: 1000,
            group_initial_delay_ms: 50,
            authorize: false,
            super_users: Vec::new(),
            tls: None,
            sasl: false,
            users: Vec::new(),
            insecure: false,
            greeting_ms: 10_000,
            consumer_session_ms: 45_000,
            consumer_heartbeat_ms: 5_000,
            offsets_retention_minutes: 7 * 24 * 60,
            notices: Notices::nowhere(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_names_or_addresses_with_a_port() {
        let read = |text: &str| text.parse::<Endpoint>().map(|endpoint| (endpoint.host, endpoint.port)).ok();
        assert_eq!(read("127.0.0.1:9092"), Some(("127.0.0.1".to_owned(), 9092)));
        assert_eq!(read("[::1]:9092"), Some(("::1".to_owned(), 9092)));
        assert_eq!(read("broker-1.example.org:1"), Some(("broker-1.example.org".to_owned(), 1)));
        for bad in ["", "host", ":9092", "host:", "host:65536", "::1:9092", "ho st:1", "host:-1"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_name_to_listen_on_is_looked_up() {
        assert_eq!(resolve("127.0.0.1:0"), Ok("127.0.0.1:0".parse().unwrap()));
        let found = resolve("localhost:7").unwrap();
        assert!(found.ip().is_loopback() && found.port() == 7);
        assert!(resolve("no port").is_err());
    }
}

//! How a broker is to run.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;

use crate::faults::Faults;

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

/// How a broker is to run. [`Settings::new`] has the defaults.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Address for clients; port 0 picks a free one. Default 127.0.0.1:9092.
    pub listen: SocketAddr,
    /// Address that clients are told; default the one that was bound. It is never a name: a client may resolve one
    /// to an address family on which nobody listens.
    pub advertised: Option<SocketAddr>,
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
    /// Partitions of a topic that is made without a number.
    pub default_partitions: i32,
    /// Whether Metadata for an unknown topic makes it (if the client does not forbid it).
    pub auto_create_topics: bool,
    /// Largest request accepted, in bytes. A longer one closes its connection.
    pub max_request_bytes: usize,
    /// What clients may make the broker hold in memory, in bytes: unfinished frames, batches under way, answers not
    /// taken. Above it frames that are not small wait, and those that do not end are closed. Default 256 MiB.
    pub max_memory_bytes: usize,
    /// Clients connected at a time; one more is closed at once. Default 20,000.
    pub max_connections: usize,
    /// How often logs are looked after (rolls by time, retention, compaction), in milliseconds. Default 1000.
    pub housekeeping_ms: u64,
    /// How long the first members of an empty group wait for others, in milliseconds.
    pub group_initial_delay_ms: u64,
    /// Whether clients are asked who they are and whether they may; see `super_users`. Default off: everyone may do
    /// everything.
    pub authorize: bool,
    /// Principals that may do everything, such as `User:admin`. Authorization needs at least one.
    pub super_users: Vec<String>,
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
            default_partitions: 1,
            auto_create_topics: true,
            max_request_bytes: 32 << 20,
            max_memory_bytes: 256 << 20,
            max_connections: 20_000,
            housekeeping_ms: 1000,
            group_initial_delay_ms: 50,
            authorize: false,
            super_users: Vec::new(),
            notices: Notices::nowhere(),
        }
    }
}

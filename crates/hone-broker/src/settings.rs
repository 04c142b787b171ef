//! The settings of a broker.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::thread::available_parallelism;

use crate::endpoint::Endpoint;
use crate::faults::Faults;
use crate::limits::Limits;
use crate::notices::Notices;
use crate::security::tls::TlsFiles;

/// Invalid settings. The text names the command line's flag and the valid values. The library's setting has the same name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(String);

impl SettingsError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// A numeric setting and its range.
#[derive(Debug)]
pub(crate) struct Number {
    /// Its flag on the command line, without dashes.
    pub(crate) flag: &'static str,
    pub(crate) least: u64,
    pub(crate) most: u64,
    pub(crate) get: fn(&Settings) -> u64,
    pub(crate) set: fn(&mut Settings, u64),
}

impl Number {
    /// Reads the number from a text.
    pub(crate) fn read(&self, text: &OsStr, settings: &mut Settings) -> Result<(), SettingsError> {
        match text.to_str().and_then(|text| text.parse().ok()) {
            Some(number) if self.fits(number) => {
                (self.set)(settings, number);
                Ok(())
            }
            _ => Err(self.refused(&text.to_string_lossy())),
        }
    }

    fn fits(&self, number: u64) -> bool {
        (self.least..=self.most).contains(&number)
    }

    pub(crate) fn check(&self, settings: &Settings) -> Result<(), SettingsError> {
        let number = (self.get)(settings);
        if self.fits(number) { Ok(()) } else { Err(self.refused(&number.to_string())) }
    }

    fn refused(&self, given: &str) -> SettingsError {
        let Self { flag, least, most, .. } = self;
        SettingsError::new(format!("invalid --{flag} `{given}`: use a whole number from {least} to {most}"))
    }
}

/// The numeric settings. Below the least value, a broker is not usable. Above the most, the value is a typing error,
/// which would otherwise show up as a machine without threads or memory.
pub(crate) mod numbers {
    use super::{Number, Settings};

    pub(crate) static ALL: [&Number; 6] =
        [&THREADS, &PARTITIONS, &MAX_REQUEST_BYTES, &MAX_MEMORY_BYTES, &MAX_CONNECTIONS, &HOUSEKEEPING_MS];

    pub(crate) static THREADS: Number = Number {
        flag: "threads",
        least: 1,
        most: 1024,
        get: |settings| settings.threads as u64,
        set: |settings, number| settings.threads = number as usize,
    };
    /// The range is that of `num.partitions`.
    pub(crate) static PARTITIONS: Number = Number {
        flag: "default-partitions",
        least: 1,
        most: 10_000,
        get: |settings| u64::try_from(settings.default_partitions).unwrap_or(0),
        set: |settings, number| settings.default_partitions = i32::try_from(number).unwrap_or(i32::MAX),
    };
    /// The least value has room for the lists of any client. A frame can't be longer than the most.
    pub(crate) static MAX_REQUEST_BYTES: Number = Number {
        flag: "max-request-bytes",
        least: 64 << 10,
        most: i32::MAX as u64,
        get: |settings| settings.max_request_bytes as u64,
        set: |settings, number| settings.max_request_bytes = number as usize,
    };
    pub(crate) static MAX_MEMORY_BYTES: Number = Number {
        flag: "max-memory-bytes",
        least: 1 << 20,
        most: 1 << 40,
        get: |settings| settings.max_memory_bytes as u64,
        set: |settings, number| settings.max_memory_bytes = usize::try_from(number).unwrap_or(usize::MAX),
    };
    pub(crate) static MAX_CONNECTIONS: Number = Number {
        flag: "max-connections",
        least: 1,
        most: 1_000_000,
        get: |settings| settings.max_connections as u64,
        set: |settings, number| settings.max_connections = number as usize,
    };
    pub(crate) static HOUSEKEEPING_MS: Number = Number {
        flag: "housekeeping-ms",
        least: 1,
        most: 3_600_000,
        get: |settings| settings.housekeeping_ms,
        set: |settings: &mut Settings, number| settings.housekeeping_ms = number,
    };
}

/// A user and its new password.
#[derive(Clone, PartialEq, Eq)]
pub struct NewUser {
    /// Login name.
    pub name: String,
    /// The broker stores only its SCRAM keys.
    pub password: String,
}

/// Leaves out the password.
impl fmt::Debug for NewUser {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "NewUser({:?})", self.name)
    }
}

/// The settings of a broker. [`Settings::new`] has the defaults.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Address for clients. Port 0 picks a free port. Default 127.0.0.1:9092.
    pub listen: SocketAddr,
    /// Address that clients connect to. The default is the bound address, which must not be the address for all
    /// addresses then. Port 0 stands for the bound port. Certificates need a name, but a client can resolve a name to
    /// an address family on which the broker does not listen.
    pub advertised: Option<Endpoint>,
    /// Address for `/metrics` and `/ready`; `None` for off. Default 127.0.0.1:9644.
    pub metrics_listen: Option<SocketAddr>,
    /// Whether other machines may read the metrics without TLS or login. `insecure` allows it, too.
    pub open_metrics: bool,
    /// Keeps everything in memory. The broker writes nothing to a disk and loses everything when it stops. Default off.
    pub memory: bool,
    /// Storage faults for tests. Default none.
    pub faults: Faults,
    /// Folder for a record of every fsync of this process, for tests of power cuts. It must be on the file system of
    /// the data. Its file `fsyncs` gets a line of JSON after each fsync: `{"file": ID, "bytes": N, "at": M}` for a file
    /// that was N bytes long when the fsync began, and `{"folder": ID, "entries": {NAME: ID}, "at": M}` for a folder
    /// that had these names. Threads can write their lines in another order than that of M. The folder also keeps the
    /// files with durable names, each under its ID. The first broker of a process decides. The default is none.
    pub fsync_record: Option<PathBuf>,
    /// Folder of logs and metadata. The broker creates it, and locks it while it runs. Unused with `memory`.
    pub data_dir: PathBuf,
    /// Number of reactor threads. Default one per core.
    pub threads: usize,
    /// Properties of the broker, by their names in DescribeConfigs. Changes by clients take precedence.
    pub properties: BTreeMap<String, String>,
    /// Partitions of a topic that is created without a number.
    pub default_partitions: i32,
    /// Whether Metadata for an unknown topic creates the topic (if the client does not forbid it).
    pub auto_create_topics: bool,
    /// Largest request, in bytes. The broker closes the connection of a longer one.
    pub max_request_bytes: usize,
    /// Memory that clients can make the broker use, in bytes: unfinished frames, batches in progress, unread answers.
    /// Above it, large frames wait, and the broker closes connections with unfinished frames. Default 256 MiB.
    pub max_memory_bytes: usize,
    /// Time without further bytes after which the broker closes the connection of an unfinished frame, in milliseconds.
    /// Default 30 s.
    pub stall_ms: u64,
    /// The same time while clients use all their memory, in milliseconds. The broker closes an unfinished frame after
    /// twice this time, and a client that reads none of its large answers after this time. Default 2 s.
    pub short_stall_ms: u64,
    /// Time after which the broker closes a client that reads none of its waiting answers, in milliseconds. Default
    /// 5 minutes.
    pub untaken_ms: u64,
    /// Send buffer of the kernel per client, in bytes; 0 leaves the size to the kernel. The kernel's limit is
    /// `net.core.wmem_max`. Default 1 MiB.
    pub send_buffer_bytes: usize,
    /// Largest number of connected clients. The broker closes further connections at once. Default 20,000.
    pub max_connections: usize,
    /// The most that clients can make the broker keep.
    pub limits: Limits,
    /// Time between two rounds of housekeeping (rolls by time, retention, compaction), in milliseconds. Default 1000.
    pub housekeeping_ms: u64,
    /// Time that the first members of an empty group wait for others, in milliseconds.
    pub group_initial_delay_ms: u64,
    /// Whether the broker checks the rights of clients; see `super_users`. Default off: every client has all rights.
    pub authorize: bool,
    /// Principals with all rights, for example `User:admin`. Authorization needs at least one.
    pub super_users: Vec<String>,
    /// Certificate and key for TLS; `None` for plain connections.
    pub tls: Option<TlsFiles>,
    /// Whether clients must log in.
    pub sasl: bool,
    /// Users whose password the broker sets at its start. Users from earlier runs stay.
    pub users: Vec<NewUser>,
    /// Whether other machines may connect without TLS or login, and send plain passwords without TLS.
    pub insecure: bool,
    /// Time limit for TLS and login of a new client, in milliseconds.
    pub greeting_ms: u64,
    /// Session timeout of a member of a consumer group (KIP-848), in milliseconds.
    pub consumer_session_ms: u64,
    /// Heartbeat interval for members of a consumer group (KIP-848), in milliseconds.
    pub consumer_heartbeat_ms: u64,
    /// Retention of the offsets of a group without members, in minutes.
    pub offsets_retention_minutes: u64,
    /// Receiver of notices.
    pub notices: Notices,
}

impl Settings {
    /// The defaults, on free ports and without a disk: for a broker inside a test.
    pub fn in_memory() -> Self {
        Self { memory: true, ..Self::new("") }.on_free_ports()
    }

    /// These settings with a free port instead of each fixed port, so that tests can run at the same time.
    /// [`Broker::kafka_addr`] and [`Broker::metrics_addr`] return the ports.
    ///
    /// [`Broker::kafka_addr`]: crate::Broker::kafka_addr
    /// [`Broker::metrics_addr`]: crate::Broker::metrics_addr
    #[must_use]
    pub fn on_free_ports(mut self) -> Self {
        self.listen.set_port(0);
        if let Some(metrics) = &mut self.metrics_listen {
            metrics.set_port(0);
        }
        self
    }

    /// Address that clients connect to, once the listener is bound.
    pub(crate) fn endpoint(&self, bound: SocketAddr) -> Endpoint {
        match &self.advertised {
            None => bound.into(),
            Some(Endpoint { host, port: 0 }) => Endpoint { host: host.clone(), port: bound.port() },
            Some(endpoint) => endpoint.clone(),
        }
    }

    /// The place of the data, as text.
    pub(crate) fn place(&self) -> String {
        if self.memory { "memory".to_owned() } else { self.data_dir.display().to_string() }
    }

    /// The defaults, over a data folder.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        let loopback = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        Self {
            listen: loopback(9092),
            advertised: None,
            metrics_listen: Some(loopback(9644)),
            open_metrics: false,
            memory: false,
            faults: Faults::none(),
            fsync_record: None,
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

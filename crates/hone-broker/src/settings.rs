//! How a broker is to run.

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

/// Settings that no broker can mean. The text names the flag of the command line, and what it should be; the setting of the
/// library is called alike.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(String);

impl SettingsError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// A setting that is a number, and what it may be.
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
    /// Takes the number that is written in a text.
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
        SettingsError::new(format!("--{flag} is `{given}`, wanted a whole number from {least} to {most}"))
    }
}

/// The settings that are numbers. A least number is what a broker can be used with, a most one what it can be meant with:
/// more is a slip of the pen, and would be told by a machine out of threads or memory.
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
    /// As `num.partitions` may be.
    pub(crate) static PARTITIONS: Number = Number {
        flag: "partitions",
        least: 1,
        most: 10_000,
        get: |settings| u64::try_from(settings.default_partitions).unwrap_or(0),
        set: |settings, number| settings.default_partitions = i32::try_from(number).unwrap_or(i32::MAX),
    };
    /// The least leaves room for the lists of any client; a frame can't be longer than the most.
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
    /// Where clients are told to connect; default the address that was bound, which must not be that of all addresses then.
    /// Port 0 stands for the port that was bound. A name is what certificates are made for; but a client may resolve one to
    /// an address family on which nobody listens.
    pub advertised: Option<Endpoint>,
    /// Address for `/metrics` and `/ready`; default 127.0.0.1:9644, `None` for off.
    pub metrics_listen: Option<SocketAddr>,
    /// Whether other machines may read the metrics, which know neither TLS nor a login. `insecure` lets them, too.
    pub open_metrics: bool,
    /// Keeps everything in memory: nothing touches the disk, nothing outlives the broker. Default off.
    pub memory: bool,
    /// Faults of the storage, for tests. Default none.
    pub faults: Faults,
    /// Folder for a record of every fsync of this process, for tests of power cuts, on the file system of the data. Its file
    /// `fsyncs` gets a line of JSON when an fsync is over: `{"file": ID, "bytes": N, "at": M}` for a file that was N bytes
    /// long when it began, `{"folder": ID, "entries": {NAME: ID}, "at": M}` for a folder that had these names. Threads may
    /// write their lines in another order than that of M, in which they looked. Files of durable names are kept beside it,
    /// each under its ID. The first broker of a process decides. Default none.
    pub fsync_record: Option<PathBuf>,
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
        Self { memory: true, ..Self::new("") }.on_free_ports()
    }

    /// These, with a free port in place of each that is named, so that tests can run side by side. [`Broker::kafka_addr`]
    /// and [`Broker::metrics_addr`] tell which.
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

    /// Where clients are told to connect, once the address is bound.
    pub(crate) fn endpoint(&self, bound: SocketAddr) -> Endpoint {
        match &self.advertised {
            None => bound.into(),
            Some(Endpoint { host, port: 0 }) => Endpoint { host: host.clone(), port: bound.port() },
            Some(endpoint) => endpoint.clone(),
        }
    }

    /// Where the data are, in words.
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

//! A single-node Kafka-API broker over an on-disk log: the first target that Hone optimises, and a stand-in where no
//! Redpanda or Kafka is at hand.
//!
//! What it is not: it has one node and no replica. With `acks=all` acknowledged means fsynced, unless the topic says
//! `write.caching=true`; docs/broker.md has the table of durability, the APIs, the metrics and the limits.
//!
//! A broker for a test, on free ports and without a disk. It serves when `start` returns; it stops with `stop`, which
//! tells of what failed, or when it is dropped:
//!
//! ```
//! use hone_broker::{Broker, Settings};
//!
//! let broker = Broker::start(Settings::in_memory())?;
//! let bootstrap_servers = broker.kafka_addr().to_string(); // for a client of any kind
//! # assert!(std::net::TcpStream::connect(&bootstrap_servers).is_ok());
//! broker.stop()?;
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! Over a folder, with settings of its own, and with its notices shown; every setting is a field of [`Settings`]:
//!
//! ```
//! use hone_broker::{Broker, Notices, Settings};
//!
//! # let folder = tempfile::tempdir()?;
//! let mut settings = Settings::new(folder.path()).on_free_ports();
//! settings.default_partitions = 3;
//! settings.properties.insert("log.segment.bytes".to_owned(), "65536".to_owned());
//! settings.notices = Notices::to(|line| eprintln!("broker: {line}"));
//! let broker = Broker::start(settings)?;
//! # assert!(broker.metrics_addr().is_some());
//! broker.stop()?;
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! A storage that fails, from the start or from a moment that the test chooses:
//!
//! ```
//! use hone_broker::{Broker, Settings};
//!
//! let settings = Settings::in_memory();
//! let faults = settings.faults.clone();
//! let broker = Broker::start(settings)?;
//! faults.add("write-error,topic=orders,times=1".parse().unwrap());
//! # broker.stop()?;
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! A program that serves over a fixed folder until it is asked to end has [`arguments`] for its command line and
//! [`raise_open_files`] for many clients.
//!
//! The way of a batch: a reactor (`reactor`: a thread with an epoll loop) reads it, the handler of its API key
//! (`keys`) checks it, and the reactor that owns the partition appends it (`appends`, `partition`, `log`). What
//! waits for a disk waits on other threads: flushes in `flusher`, the journals of groups and transactions in
//! `journal`, rare changes of topics and lists at the `clerk`'s. Answers keep the order of their connection
//! (`connection`). Every request is decoded from the bytes as they came, and batches are patched and stored without a
//! copy where they belong to the reactor that read them.

mod acceptor;
mod api_key;
mod append;
mod appends;
pub mod arguments;
mod broker;
mod clerk;
mod code;
mod connection;
mod coordinator;
mod cpu;
mod disk_space;
mod durable;
mod endpoint;
mod engine;
mod faults;
mod flusher;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod groups;
mod histogram;
mod housekeeper;
mod journal;
mod keys;
mod limits;
mod log;
mod log_config;
mod mailbox;
mod memory;
mod metrics;
mod node;
mod notices;
mod offsets;
mod outage;
mod outbox;
mod partition;
mod properties;
mod protocol;
mod quotas;
mod reactor;
mod reply;
mod reserve;
mod schema;
mod security;
mod settings;
mod settings_check;
mod shard_counters;
#[cfg(feature = "planted-slowdown")]
mod slowdown;
mod ticket;
mod topics;
mod transaction_ends;
mod transactions;
mod transport;
mod validate;
mod waiters;
mod wall_clock;
mod watch;
mod workers;

pub use broker::{Broker, raise_open_files};
pub use endpoint::Endpoint;
pub use faults::{Fault, FaultKind, Faults};
pub use limits::Limits;
pub use notices::Notices;
pub use security::tls::TlsFiles;
pub use settings::{NewUser, Settings, SettingsError};

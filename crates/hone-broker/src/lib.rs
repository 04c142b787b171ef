//! A single-node Kafka-API broker with an on-disk log: the first target that Hone optimises, and a substitute if no
//! Redpanda or Kafka is available.
//!
//! It has one node and no replica. It acknowledges `acks=all` after the fsync, unless the topic has `write.caching=true`.
//! docs/broker.md has the table of durability, the APIs, the metrics and the limits.
//!
//! The first example is a broker for a test, on free ports and without a disk. It serves when `start` returns. It stops
//! with `stop`, which returns errors, or when it is dropped:
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
//! The second example uses a folder, its own settings, and prints its notices. Every setting is a field of [`Settings`]:
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
//! The third example has a storage that fails, from the start or from a moment that the test chooses:
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
//! A program that serves a fixed folder uses [`arguments`] for its command line and [`raise_open_files`] for many clients.
//!
//! A batch takes this path: a reactor (`reactor`: a thread with an epoll loop) reads it, the handler of its API key
//! (`keys`) checks it, and the reactor that owns the partition appends it (`appends`, `partition`, `log`). Other threads
//! wait for the disk: `flusher` for flushes, `journal` for the journals of groups and transactions, and `clerk` for rare
//! changes of topics and lists. Answers keep the order of their connection (`connection`). The broker decodes every
//! request from the received bytes. If the reactor that read a batch owns its partition, it patches and stores the batch
//! without a copy.

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

//! A single-node Kafka-API broker over an on-disk log: the first target that Hone optimises, and a stand-in where no
//! Redpanda or Kafka is at hand.
//!
//! What it is not: it has one node and no replica. With `acks=all` acknowledged means fsynced, unless the topic says
//! `write.caching=true`; docs/broker.md has the table of durability, the APIs, the metrics and the limits.
//!
//! The way of a batch: a reactor (`reactor`: a thread with an epoll loop) reads it, the handler of its API key
//! (`keys`) checks it, and the reactor that owns the partition appends it (`appends`, `partition`, `log`). What
//! waits for a disk waits on other threads: flushes in `flusher`, the journals of groups and transactions in
//! `journal`, rare changes of topics and lists at the `clerk`'s. Answers keep the order of their connection
//! (`connection`). Every request is decoded from the bytes as they came, and batches are patched and stored without a
//! copy where they belong to the reactor that read them.
//!
//! ```no_run
//! use hone_broker::{Broker, Settings};
//!
//! let broker = Broker::start(Settings::new("/var/tmp/hone-broker"))?;
//! assert!(broker.kafka_addr().ip().is_loopback());
//! broker.stop()?;
//! # Ok::<(), anyhow::Error>(())
//! ```

mod acceptor;
mod appends;
mod broker;
mod clerk;
mod code;
mod connection;
mod coordinator;
mod cpu;
mod disk_space;
mod durable;
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
mod offsets;
mod outbox;
mod partition;
mod properties;
mod protocol;
mod quotas;
mod reactor;
mod schema;
mod security;
mod settings;
#[cfg(feature = "planted-slowdown")]
mod slowdown;
mod topics;
mod transactions;
mod transport;
mod validate;
mod waiters;
mod wall_clock;

pub use broker::{Broker, raise_open_files};
pub use durable::record_fsyncs;
pub use faults::{Fault, FaultKind, Faults};
pub use limits::Limits;
pub use security::read_password;
pub use security::tls::TlsFiles;
pub use settings::{Endpoint, NewUser, Notices, Settings, resolve};

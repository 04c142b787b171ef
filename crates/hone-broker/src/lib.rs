//! A single-node Kafka-API broker over an on-disk log: the first target that Hone optimises, and a stand-in where no
//! Redpanda or Kafka is at hand.
//!
//! What it is not: it has one node and no replica, so `acks=all` means "here"; it acknowledges what `write` has
//! handed to the page cache (`storage=page-cache`): that survives `kill -9`, not a power cut; it keeps everything, knows no
//! transactions and no authorization. TLS and SASL are there for those who let other machines in.
//! transactions and no TLS. Access control lists and client quotas are Kafka's ([`Settings::authorize`]).
//!
//! Threads over epoll: each worker has its own, and its own connections. A partition is one lock; a request takes it for
//! one append or one look-up. Every request is decoded from the bytes as they came, and batches are patched and stored
//! without a copy. A topic can make that more work, as the big brokers' topics can: `compression.type` packs batches anew,
//! and `hone.value.schema` (an inline JSON Schema) refuses batches with a record that is not JSON or breaks the schema.
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

pub use broker::Broker;
pub use faults::{Fault, FaultKind, Faults};
pub use security::read_password;
pub use security::tls::TlsFiles;
pub use settings::{Endpoint, NewUser, Notices, Settings, resolve};

//! Load for a Kafka-API broker: an open-loop [`schedule`], the wire engine, and the recorder of three latencies.
//!
//! The wire engine sends Produce frames that were encoded before the window opened, at times that were fixed before the window opened. A
//! request that can't be sent in time is sent late, and its latency still counts from its due time. So a stalled broker can't hide behind a
//! stalled client.
//!
//! Real clients send on the same schedule: librdkafka inside this process, any other producer as a program with a line protocol. Consumers
//! read along, and their records are joined with the produced ones.
//!
//! This room owns sockets and clocks but knows nothing of processes. A caller who needs the target's CPU in a [`Window`] passes a
//! [`Probe`], and a caller who needs a client program passes a [`Launcher`].
//!
//! [`Window`]: hone_record::Window

mod admin;
pub mod canary;
mod client;
mod clock;
mod cluster;
mod cluster_setting;
mod connection;
mod consumer;
mod coordinator;
mod cpu;
mod engine;
mod error;
mod fault_inject;
pub mod fault_relay;
mod fetch;
mod frames;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod groups;
pub mod health;
mod in_turn;
mod join;
pub mod keys;
mod line;
mod live;
mod outage;
pub mod payload;
mod placement;
mod poll;
mod processor;
mod ramp_search;
mod raw;
mod readback;
mod reconnect;
mod recorded;
mod recorder;
mod recording;
mod replay;
mod run;
pub mod schedule;
pub mod security;
mod sender;
mod settings;
mod shape;
pub mod sizes;
mod smoke;
#[cfg(test)]
mod stand_in;
mod steadiness;
mod stream;
mod topic_set;
mod topics;
mod warm;

pub use admin::{Admin, Listed, TopicLayout};
pub use client::command::{Launched, Launcher, Watch};
pub use cluster::At;
pub use cluster_setting::ClusterSetting;
pub use error::{LoadError, hint};
pub use fault_inject::{Provoked, provoke};
pub use in_turn::InTurn;
pub use live::{Live, Progress};
pub use placement::Placement;
pub use raw::RawFile;
pub use recorded::{TopicLoad, topic_load};
pub use recording::compressible_share;
pub use run::{Faults, LONGEST_WINDOW_S, Prepared, Probe, ProbeFacts, check, prepare};
pub use security::Security;
pub use sender::Helpers;
pub use settings::{Settings, Topic};
pub use smoke::smoke_test;
pub use topic_set::TopicSet;
pub use topics::{Lost, Offsets, Portion, ReadLimits, Reading, ReadingEnd, Silent, Stretch, Topics};
pub use warm::{Effort, Target, Unseen};

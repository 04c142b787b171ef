//! A canary: a topic with one partition on each broker. Hone writes a small record to one broker after the other and reads it back, again
//! and again. If one broker takes longer than its peers at the same time, the broker itself is slow.
//!
//! Each partition has one replica and is written with acks=all. So the answer waits for that broker's own log, as durable as the cluster
//! makes it, and for no other broker.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hone_kafka::{BatchBuilder, Codec, ProduceFrame, parse_produce_response_v7};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore as _, SeedableRng as _};
use serde::{Deserialize, Serialize};

use crate::admin::{Admin, CLIENT_ID};
use crate::error::LoadError;
use crate::frames::encoding;
use crate::security::{Access, Security};

/// A longer time is as bad as no answer.
pub const LIMIT: Duration = Duration::from_secs(2);
const VALUE_BYTES: usize = 512;
/// Retention of the topic: each record is read at once, or never.
const RETENTION: [(&str, &str); 4] = [
    ("retention.ms", "600000"),
    ("retention.bytes", "16777216"),
    ("segment.bytes", "4194304"),
    ("min.insync.replicas", "1"),
];

/// One record at one broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// From the write to its acknowledgement, in microseconds.
    pub ack_us: u64,
    /// Time from the write until the record was read back, in microseconds. A failed record counts as at least [`LIMIT`].
    pub read_us: u64,
    /// Whether it failed.
    pub failed: bool,
}

/// Writes one record to each broker, in random order.
pub type Round = BTreeMap<i32, Sample>;

/// The topic, and a connection to each broker.
#[derive(Debug)]
pub struct Canary {
    topic: String,
    access: Access,
    /// Broker by partition, with its address.
    brokers: Vec<(i32, String)>,
    lines: BTreeMap<i32, Admin>,
    random: ChaCha8Rng,
    value: Vec<u8>,
    last_failure: Option<String>,
}

/// Deletes the topic of a canary that another process left behind. A missing topic is not an error.
///
/// # Errors
/// Returns an error when no broker can be reached, or the cluster refuses.
pub fn delete_left(topic: &str, addresses: &[String], security: &Security) -> Result<(), LoadError> {
    let access = Access::new(security)?;
    match any_line(addresses.iter(), &access)?.delete_topic(topic) {
        Err(LoadError::Refused { error: "UNKNOWN_TOPIC_OR_PARTITION", .. }) => Ok(()),
        deleted => deleted,
    }
}

/// The first broker of a list (`host:port,host:port`) that answers, as clients read `bootstrap.servers`.
///
/// # Errors
/// Returns the error of each broker when none of them answers.
pub fn reachable(brokers: &str, security: &Security) -> Result<String, LoadError> {
    let addresses: Vec<String> = brokers.split(',').map(|address| address.trim().to_owned()).collect();
    match addresses.as_slice() {
        // For a single broker without an answer, the next step reports a better error.
        [only] => Ok(only.clone()),
        all => Ok(any_line(all.iter(), &Access::new(security)?)?.address().to_owned()),
    }
}

/// An error with its causes in one line.
fn with_sources(error: &LoadError) -> String {
    let sources = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    sources.fold(error.to_string(), |all, cause| format!("{all}: {cause}"))
}

/// A connection to the first broker that answers.
fn any_line<'a>(addresses: impl Iterator<Item = &'a String>, access: &Access) -> Result<Admin, LoadError> {
    let mut reasons = Vec::new();
    for address in addresses {
        match Admin::enter(address, access.clone(), LIMIT) {
            Ok(mut admin) => {
                admin.limit_answers(Admin::LIMIT)?;
                return Ok(admin);
            }
            Err(error) => reasons.push(with_sources(&error)),
        }
    }
    Err(LoadError::NoneAnswers { reasons })
}

impl Canary {
    /// Creates the topic, whose name must be unique, with a partition on each of these brokers (id and `host:port`).
    ///
    /// # Errors
    /// Returns an error when no broker can be reached, or the cluster does not create the topic.
    pub fn make(
        topic: &str,
        brokers: &BTreeMap<i32, String>,
        security: &Security,
    ) -> Result<Self, LoadError> {
        let access = Access::new(security)?;
        let canary = Self {
            topic: topic.to_owned(),
            access,
            brokers: brokers.iter().map(|(id, address)| (*id, address.clone())).collect(),
            lines: BTreeMap::new(),
            random: ChaCha8Rng::seed_from_u64(0x00CA_9A27),
            value: vec![0; VALUE_BYTES],
            last_failure: None,
        };
        let ids: Vec<i32> = brokers.keys().copied().collect();
        let config =
            RETENTION.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut admin = any_line(brokers.values(), &canary.access)?;
        match admin.create_placed_topic(topic, &ids, &config) {
            // The name is unique. A broker that forwards the request to a slow controller repeats it and then receives this answer.
            Err(LoadError::Refused { error: "TOPIC_ALREADY_EXISTS", .. }) => {}
            made => made?,
        }
        let partitions = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        if let Err(error) = admin.layout(&topic.into(), Some(partitions)) {
            let _ = admin.delete_topic(topic);
            return Err(error);
        }
        Ok(canary)
    }

    /// Name of the topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Why a record failed last.
    pub fn last_failure(&self) -> Option<&str> {
        self.last_failure.as_deref()
    }

    /// Writes and reads one record at each broker. A failure is a sample, and the next round uses a new connection.
    pub fn round(&mut self) -> Round {
        let mut order: Vec<usize> = (0..self.brokers.len()).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, self.random.next_u32() as usize % (at + 1));
        }
        let mut round = Round::new();
        for at in order {
            let Some((id, address)) = self.brokers.get(at).cloned() else { continue };
            let partition = i32::try_from(at).unwrap_or(i32::MAX);
            round.insert(id, self.sample(id, &address, partition));
        }
        round
    }

    fn sample(&mut self, id: i32, address: &str, partition: i32) -> Sample {
        // Connecting is not part of the time, since users have open connections.
        let begun = Instant::now();
        let line = match self.lines.remove(&id) {
            Some(line) => Ok(line),
            None => Admin::enter(address, self.access.clone(), LIMIT),
        };
        let failed = |since: Instant| {
            let us = micros(since.elapsed().max(LIMIT));
            Sample { ack_us: us, read_us: us, failed: true }
        };
        let mut line = match line {
            Ok(line) => line,
            Err(error) => {
                self.last_failure = Some(error.to_string());
                return failed(begun);
            }
        };
        let begun = Instant::now();
        match self.there_and_back(&mut line, partition, begun) {
            Ok(sample) => {
                self.lines.insert(id, line);
                sample
            }
            Err(error) => {
                self.last_failure = Some(error.to_string());
                failed(begun)
            }
        }
    }

    fn there_and_back(
        &mut self,
        line: &mut Admin,
        partition: i32,
        begun: Instant,
    ) -> Result<Sample, LoadError> {
        self.random.fill_bytes(&mut self.value);
        let mut builder = BatchBuilder::new(Codec::None);
        builder.push(None, Some(&self.value), now_ms());
        let batch = builder.build().map_err(|error| encoding(&error))?;
        let timeout_ms = i32::try_from(LIMIT.as_millis()).unwrap_or(i32::MAX);
        let frame = ProduceFrame::new(CLIENT_ID, -1, timeout_ms, &self.topic, &[(partition, &batch)])
            .map_err(|error| encoding(&error))?;
        let answer = line.exchange(frame.bytes(), "Produce v7")?;
        let acked = begun.elapsed();
        let told = parse_produce_response_v7(&answer)
            .map_err(|error| line.garbage("Produce v7", &error.to_string()))?;
        line.accepted("a record of the canary", told.first_error_code, String::new())?;
        let Some(ack) = told.partitions().next() else {
            return Err(line.garbage("Produce v7", "the answer names no partition"));
        };
        let found = line.fetch(&self.topic, partition, ack.base_offset)?;
        if found.is_empty() {
            return Err(line.garbage("Fetch v11", "the acknowledged record can't be read"));
        }
        Ok(Sample { ack_us: micros(acked), read_us: micros(begun.elapsed()), failed: false })
    }

    /// Deletes the topic.
    ///
    /// # Errors
    /// Returns an error when no broker can be reached, or the cluster refuses.
    pub fn delete(self) -> Result<(), LoadError> {
        any_line(self.brokers.iter().map(|(_, address)| address), &self.access)?.delete_topic(&self.topic)
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Retention depends on this setting.
fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

//! A canary: a topic with one partition on each broker, into which a small record is written and read back, broker by broker, again
//! and again. What one broker takes longer than its peers at the same time is its own.
//!
//! Each partition has one replica and is written with acks=all: the answer waits for that broker's own log, as durable as the
//! cluster makes it, and for no other broker.

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

/// Longer than this is as bad as no answer.
pub const LIMIT: Duration = Duration::from_secs(2);
const VALUE_BYTES: usize = 512;
/// What the topic may keep: it is read at once, or never.
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
    /// From the write until the record was read back, in microseconds. One that failed counts as at least [`LIMIT`].
    pub read_us: u64,
    /// Whether it failed.
    pub failed: bool,
}

/// One record at each broker, in an order of chance.
pub type Round = BTreeMap<i32, Sample>;

/// The topic, and a line to each broker.
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

/// Deletes the topic of a canary that another process has left behind; one that is gone already is no error.
///
/// # Errors
/// When nobody can be reached, or the cluster refuses.
pub fn delete_left(topic: &str, addresses: &[String], security: &Security) -> Result<(), LoadError> {
    let access = Access::new(security)?;
    match any_line(addresses.iter(), &access)?.delete_topic(topic) {
        Err(LoadError::Refused { error: "UNKNOWN_TOPIC_OR_PARTITION", .. }) => Ok(()),
        deleted => deleted,
    }
}

/// The first broker of a list (`host:port,host:port`) that answers, as clients take `bootstrap.servers`.
///
/// # Errors
/// When none of them answers: what each of them said.
pub fn reachable(brokers: &str, security: &Security) -> Result<String, LoadError> {
    let addresses: Vec<String> = brokers.split(',').map(|address| address.trim().to_owned()).collect();
    match addresses.as_slice() {
        // Whoever comes next says more of a single one that does not answer.
        [only] => Ok(only.clone()),
        all => Ok(any_line(all.iter(), &Access::new(security)?)?.address().to_owned()),
    }
}

/// An error with what is behind it, in one line.
fn with_sources(error: &LoadError) -> String {
    let sources = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    sources.fold(error.to_string(), |all, cause| format!("{all}: {cause}"))
}

/// A line to whoever answers first.
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
    /// Makes the topic, whose name must be nobody else's, with a partition on each of these brokers (id and `host:port`).
    ///
    /// # Errors
    /// When nobody can be reached, or the cluster makes no such topic.
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
            // Nobody else has this name: a broker that hands the request to its controller asks again when that one is slow,
            // and gets this for an answer.
            Err(LoadError::Refused { error: "TOPIC_ALREADY_EXISTS", .. }) => {}
            made => made?,
        }
        let partitions = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        if let Err(error) = admin.layout(topic, Some(partitions)) {
            let _ = admin.delete_topic(topic);
            return Err(error);
        }
        Ok(canary)
    }

    /// Its topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Why a record failed last.
    pub fn last_failure(&self) -> Option<&str> {
        self.last_failure.as_deref()
    }

    /// One record at each broker. A failure is a sample; the line is made anew for the next round.
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
        // Not on the clock: users have lines that are open.
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
            return Err(line.garbage("Produce v7", "it names no partition"));
        };
        let found = line.fetch(&self.topic, partition, ack.base_offset)?;
        if found.is_empty() {
            return Err(line.garbage("Fetch v11", "the record that was acknowledged is not there"));
        }
        Ok(Sample { ack_us: micros(acked), read_us: micros(begun.elapsed()), failed: false })
    }

    /// Deletes the topic.
    ///
    /// # Errors
    /// When nobody can be reached, or the cluster refuses.
    pub fn delete(self) -> Result<(), LoadError> {
        any_line(self.brokers.iter().map(|(_, address)| address), &self.access)?.delete_topic(&self.topic)
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Retention goes by it.
fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

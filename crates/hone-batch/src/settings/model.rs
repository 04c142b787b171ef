//! What the sheets of all clients are made of: a change, a client, rows and blocks.

use std::fmt;
use std::str::FromStr;

use hone_kafka::Codec;
use serde::Serialize;

/// Most batches without an answer that brokers number for an idempotent producer, from Kafka's ProducerStateEntry.
const NUMBERED_BATCHES: u32 = 5;
/// A day; no client waits longer, and none should.
const LINGER_US_MOST: u64 = 86_400_000_000;

/// A change of a producer in words that belong to no client. What is `None` stays as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Change {
    /// How long the first record of a batch waits for others.
    pub linger_us: Option<u64>,
    /// Cap of a batch.
    pub batch_bytes: Option<u32>,
    /// Codec of batches.
    #[serde(serialize_with = "codec_name")]
    pub codec: Option<Codec>,
    /// Where records go.
    pub partitioner: Option<Partitioner>,
    /// 0, 1 or -1 (all).
    pub acks: Option<i16>,
    /// Most requests without an answer on one connection.
    pub in_flight: Option<u32>,
    /// Whether batches are numbered, so that what is sent again is stored once.
    pub idempotent: Option<bool>,
    /// Memory for records that are not sent yet.
    pub buffer_bytes: Option<u64>,
}

fn codec_name<S: serde::Serializer>(codec: &Option<Codec>, to: S) -> Result<S::Ok, S::Error> {
    codec.map(Codec::name).serialize(to)
}

/// Where records go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Partitioner {
    /// Without a key: to one partition until a batch is full (KIP-480, KIP-794). With a key: by the client's own hash.
    Sticky,
    /// Each record to the next partition, whatever its key.
    RoundRobin,
    /// With a key: by Java's hash (murmur2), so that all clients agree on a key's partition.
    Murmur2,
}

/// Whose lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Client {
    /// Kafka's own producer for the JVM.
    Java,
    /// The C library, and what is built on it.
    Librdkafka,
    /// twmb/franz-go.
    FranzGo,
    /// dpkp/kafka-python.
    KafkaPython,
    /// IBM/sarama.
    Sarama,
    /// Spring Boot over the Java client.
    Spring,
    /// Kafka Connect's source connectors, over the Java client.
    Connect,
    /// tulios/kafkajs.
    Kafkajs,
}

impl Client {
    /// All of them, in the order of the manual.
    pub const ALL: [Self; 8] = [
        Self::Java,
        Self::Librdkafka,
        Self::FranzGo,
        Self::KafkaPython,
        Self::Sarama,
        Self::Spring,
        Self::Connect,
        Self::Kafkajs,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Java => "java",
            Self::Librdkafka => "librdkafka",
            Self::FranzGo => "franz-go",
            Self::KafkaPython => "kafka-python",
            Self::Sarama => "sarama",
            Self::Spring => "spring",
            Self::Connect => "connect",
            Self::Kafkajs => "kafkajs",
        }
    }
}

impl FromStr for Client {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|client| client.name() == text);
        found.ok_or_else(|| format!("unknown client `{text}`; there are {}", known()))
    }
}

/// What people need to make a change at one client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sheet {
    /// Whose.
    pub client: Client,
    /// The name for people.
    pub title: &'static str,
    /// Package and version in which the defaults were read.
    pub read_in: &'static str,
    /// One for each setting that changes.
    pub rows: Vec<Row>,
    /// What to write, place by place; any one of the places will do unless its name says otherwise.
    pub blocks: Vec<Block>,
    /// What this client does otherwise than one would think, as far as this change meets it.
    pub traps: Vec<String>,
    /// Where the defaults and the traps come from.
    pub sources: Vec<&'static str>,
}

/// A setting, before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// What it is about, in words of no client.
    pub about: &'static str,
    /// The client's own name; empty where the client has no such setting.
    pub name: &'static str,
    /// What is in force without it, with its unit, and since which version.
    pub default: &'static str,
    /// The value, as this client writes it; `None` where the client can't do it.
    pub value: Option<String>,
}

/// Lines for one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Block {
    /// Which file or code.
    pub place: &'static str,
    /// The lines.
    pub lines: Vec<String>,
}

/// A change that no client can carry out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// Nothing would change.
    #[error("nothing to change: name a setting, for example --linger 5ms")]
    Nothing,
    /// A value that no client takes.
    #[error("{what} {problem}")]
    Value {
        /// The setting.
        what: &'static str,
        /// What is wrong, and what would do.
        problem: String,
    },
    /// Brokers number batches only where all replicas answer.
    #[error(
        "idempotence needs acks=all, and acks={acks} was asked for: drop one of both (brokers number only batches that are safe)"
    )]
    IdempotentAcks {
        /// What was asked for.
        acks: i16,
    },
    /// Brokers know the last five batches of a producer by their numbers.
    #[error(
        "idempotence allows at most 5 requests in flight, and {in_flight} were asked for: brokers know the last 5 batches of a \
         producer by their numbers"
    )]
    IdempotentInFlight {
        /// What was asked for.
        in_flight: u32,
    },
}

impl Change {
    /// Whether a client could carry it out at all.
    ///
    /// # Errors
    /// With the settings that contradict each other, or the value that is none.
    pub fn check(&self) -> Result<(), Conflict> {
        let value = |what: &'static str, problem: &str| Conflict::Value { what, problem: problem.to_owned() };
        if *self == Self::default() {
            return Err(Conflict::Nothing);
        }
        if self.linger_us.is_some_and(|linger_us| linger_us > LINGER_US_MOST) {
            return Err(value("linger", "must be at most a day"));
        }
        if self.batch_bytes.is_some_and(|bytes| bytes < 512 || i32::try_from(bytes).is_err()) {
            return Err(value("batch size", "must lie between 512 bytes and 2 GiB"));
        }
        if self.buffer_bytes == Some(0) {
            return Err(value("buffer memory", "must be above 0"));
        }
        if self.in_flight == Some(0) {
            return Err(value("requests in flight", "must be at least 1"));
        }
        match (self.idempotent, self.acks, self.in_flight) {
            (_, Some(acks), _) if !matches!(acks, -1..=1) => Err(value("acks", "must be 0, 1 or all")),
            (Some(true), Some(acks), _) if acks != -1 => Err(Conflict::IdempotentAcks { acks }),
            (Some(true), _, Some(in_flight)) if in_flight > NUMBERED_BATCHES => {
                Err(Conflict::IdempotentInFlight { in_flight })
            }
            _ => Ok(()),
        }
    }

    /// Linger in whole milliseconds, rounded up: a client that counts in them and was asked for less than one would not wait at all.
    pub(super) fn linger_ms_whole(&self) -> Option<u64> {
        self.linger_us.map(|linger_us| linger_us.div_ceil(1_000))
    }

    /// Says of a client that counts in whole milliseconds what became of a finer linger.
    pub(super) fn linger_was_rounded(&self) -> Option<String> {
        let (linger_us, linger_ms) = (self.linger_us?, self.linger_ms_whole()?);
        (!linger_us.is_multiple_of(1_000)).then(|| {
            format!("Linger is a whole number of milliseconds here: {} µs became {linger_ms} ms.", linger_us)
        })
    }

    /// What numbering must become with this change, where the client numbers by itself: switched off by acks or by too many in flight.
    pub(super) fn takes_idempotence_away(&self) -> bool {
        self.idempotent.is_none()
            && (self.acks.is_some_and(|acks| acks != -1)
                || self.in_flight.is_some_and(|in_flight| in_flight > NUMBERED_BATCHES))
    }

    /// Bytes that all open batches of a producer may take, where each reserves a whole one (KIP-782).
    pub(super) fn open_batches_bytes(&self, partitions: Option<u32>) -> Option<u64> {
        Some(u64::from(self.batch_bytes?) * u64::from(partitions?))
    }
}

/// `0`, `1` or `all`.
pub(super) fn acks_word(acks: i16) -> String {
    if acks == -1 { "all".to_owned() } else { acks.to_string() }
}

/// What to mind, gathered one by one.
#[derive(Debug, Default)]
pub(super) struct Traps(pub(super) Vec<String>);

impl Traps {
    pub(super) fn tell(&mut self, applies: bool, text: impl Into<String>) {
        if applies {
            self.0.push(text.into());
        }
    }
}

/// Go's notation of a time.
pub(super) fn go_duration(us: u64) -> String {
    match us {
        0 => "0".to_owned(),
        _ if us.is_multiple_of(1_000) => format!("{} * time.Millisecond", us / 1_000),
        _ => format!("{us} * time.Microsecond"),
    }
}

/// `NAME=VALUE` lines.
pub(super) fn property_lines(prefix: &str, properties: &[(&'static str, String)]) -> Vec<String> {
    properties.iter().map(|(name, value)| format!("{prefix}{name}={value}")).collect()
}

/// A size for people, exact where it is a power.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}

impl fmt::Display for Partitioner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Sticky => "sticky",
            Self::RoundRobin => "round-robin",
            Self::Murmur2 => "murmur2",
        })
    }
}

impl FromStr for Partitioner {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "sticky" => Ok(Self::Sticky),
            "round-robin" => Ok(Self::RoundRobin),
            "murmur2" => Ok(Self::Murmur2),
            _ => Err(format!("unknown partitioner `{text}`; there are sticky, round-robin, murmur2")),
        }
    }
}

//! The parts of all sheets: a change, a client, rows and blocks.

use std::fmt;
use std::str::FromStr;

use hone_kafka::Codec;
use serde::Serialize;

/// The most unanswered batches that brokers number for an idempotent producer, from Kafka's ProducerStateEntry.
const NUMBERED_BATCHES: u32 = 5;
/// A day; no client waits longer, and none should.
const LINGER_US_MOST: u64 = 86_400_000_000;

/// A change of a producer in client-neutral terms. `None` leaves a setting unchanged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Change {
    /// How long the first record of a batch waits for others.
    pub linger_us: Option<u64>,
    /// Cap of a batch.
    pub batch_bytes: Option<u32>,
    /// Codec of batches.
    #[serde(serialize_with = "codec_name")]
    pub codec: Option<Codec>,
    /// The partitioner.
    pub partitioner: Option<Partitioner>,
    /// 0, 1 or -1 (all).
    pub acks: Option<i16>,
    /// The most unanswered requests on one connection.
    pub in_flight: Option<u32>,
    /// Whether batches are numbered, so that retries are stored once.
    pub idempotent: Option<bool>,
    /// Memory for records that are not sent yet.
    pub buffer_bytes: Option<u64>,
}

fn codec_name<S: serde::Serializer>(codec: &Option<Codec>, to: S) -> Result<S::Ok, S::Error> {
    codec.map(Codec::name).serialize(to)
}

/// The partitioner.
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

/// The client of the lines.
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
        found.ok_or_else(|| format!("unknown client `{text}`: use one of {}", known()))
    }
}

/// What the user needs to make a change at one client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sheet {
    /// The client.
    pub client: Client,
    /// The name for people.
    pub title: &'static str,
    /// Package and version in which the defaults were read.
    pub read_in: &'static str,
    /// One for each setting that changes.
    pub rows: Vec<Row>,
    /// The lines, place by place; any one of the places is enough unless its name says otherwise.
    pub blocks: Vec<Block>,
    /// Unexpected behaviour of this client that concerns the change.
    pub traps: Vec<String>,
    /// The sources of the defaults and of the remarks.
    pub sources: Vec<&'static str>,
}

/// A setting, before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The subject, in client-neutral terms.
    pub about: &'static str,
    /// The client's own name; empty if the client has no such setting.
    pub name: &'static str,
    /// The default, with its unit, and since which version.
    pub default: &'static str,
    /// The value, as this client writes it; `None` if the client can't do it.
    pub value: Option<String>,
}

/// Lines for one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Block {
    /// The file or code.
    pub place: &'static str,
    /// The lines.
    pub lines: Vec<String>,
}

/// A change that no client can apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// Nothing would change.
    #[error("nothing to change: name a setting, for example --linger 5ms")]
    Nothing,
    /// A value that no client accepts.
    #[error("{what} {problem}")]
    Value {
        /// The setting.
        what: &'static str,
        /// The fault, and valid values.
        problem: String,
    },
    /// Brokers number batches only if all replicas answer.
    #[error(
        "idempotence needs acks=all, but acks={acks} was requested: drop one of the two (brokers number only \
         batches that all replicas have)"
    )]
    IdempotentAcks {
        /// The requested value.
        acks: i16,
    },
    /// Brokers know the last five batches of a producer by their numbers.
    #[error(
        "idempotence allows at most 5 requests in flight, but {in_flight} were requested: brokers remember \
         the last 5 batches of a producer by their numbers"
    )]
    IdempotentInFlight {
        /// The requested value.
        in_flight: u32,
    },
}

impl Change {
    /// Whether a client could apply it at all.
    ///
    /// # Errors
    /// Names the settings that contradict each other, or the invalid value.
    pub fn check(&self) -> Result<(), Conflict> {
        let value = |what: &'static str, problem: &str| Conflict::Value { what, problem: problem.to_owned() };
        if *self == Self::default() {
            return Err(Conflict::Nothing);
        }
        if self.linger_us.is_some_and(|linger_us| linger_us > LINGER_US_MOST) {
            return Err(value("linger", "must be at most a day"));
        }
        if self.batch_bytes.is_some_and(|bytes| bytes < 512 || i32::try_from(bytes).is_err()) {
            return Err(value("batch size", "must be between 512 bytes and 2 GiB"));
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

    /// Linger in whole milliseconds, rounded up: a client that counts in milliseconds would not wait at all for less than one.
    pub(super) fn linger_ms_whole(&self) -> Option<u64> {
        self.linger_us.map(|linger_us| linger_us.div_ceil(1_000))
    }

    /// Explains the rounding of a finer linger by a client that counts in whole milliseconds.
    pub(super) fn linger_was_rounded(&self) -> Option<String> {
        let (linger_us, linger_ms) = (self.linger_us?, self.linger_ms_whole()?);
        (!linger_us.is_multiple_of(1_000)).then(|| {
            format!("Linger is a whole number of milliseconds here: {} µs became {linger_ms} ms.", linger_us)
        })
    }

    /// The idempotence with this change, for a client that enables it by default: switched off by acks or by too many in flight.
    pub(super) fn takes_idempotence_away(&self) -> bool {
        self.idempotent.is_none()
            && (self.acks.is_some_and(|acks| acks != -1)
                || self.in_flight.is_some_and(|in_flight| in_flight > NUMBERED_BATCHES))
    }

    /// Bytes of all open batches of a producer, if each reserves a whole one (KIP-782).
    pub(super) fn open_batches_bytes(&self, partitions: Option<u32>) -> Option<u64> {
        Some(u64::from(self.batch_bytes?) * u64::from(partitions?))
    }
}

/// `0`, `1` or `all`.
pub(super) fn acks_word(acks: i16) -> String {
    if acks == -1 { "all".to_owned() } else { acks.to_string() }
}

/// The remarks, collected one by one.
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

/// A size for people, exact if it is a power.
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
            _ => Err(format!("unknown partitioner `{text}`: use sticky, round-robin or murmur2")),
        }
    }
}

//! Fetch limits side by side for the consumers of a topic, and the largest one that an application tolerates. Pure.

use serde::Serialize;

use super::{Limits, Range, Stream, fetches};

/// The consumers of a topic.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Readers {
    /// Batches per second of the whole topic.
    pub batches_per_s: f64,
    /// Mean bytes of a batch, its header included.
    pub batch_bytes: f64,
    /// Its partitions.
    pub partitions: u32,
    /// Brokers that lead them.
    pub brokers: u32,
    /// Consumers of one group, which share the partitions.
    pub consumers: u32,
    /// Groups, each of which reads everything.
    pub groups: u32,
    /// Their client.
    pub client: Client,
}

/// A client, by the time from an answer until its next request is at the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Client {
    /// Hone's own frames.
    Wire,
    /// Kafka's own consumer for the JVM.
    Java,
    /// The C library, and what is built on it.
    Librdkafka,
    /// twmb/franz-go.
    FranzGo,
    /// dpkp/kafka-python.
    KafkaPython,
}

impl Client {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Wire, Self::Java, Self::Librdkafka, Self::FranzGo, Self::KafkaPython];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wire => "wire",
            Self::Java => "java",
            Self::Librdkafka => "librdkafka",
            Self::FranzGo => "franz-go",
            Self::KafkaPython => "kafka-python",
        }
    }

    /// A quick and a slow turn, without a network in between and without the application's own work. On two virtual cores, own frames and
    /// librdkafka took 1.3 to 1.6 ms (`bench/fetch.sh`).
    pub fn turn_ms(self) -> Range {
        match self {
            Self::Wire => [0.05, 2.0],
            Self::Librdkafka | Self::FranzGo | Self::Java => [0.1, 2.0],
            Self::KafkaPython => [0.3, 5.0],
        }
    }
}

impl std::str::FromStr for Client {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|client| client.name() == text);
        found.ok_or_else(|| format!("unknown client `{text}`: use one of {}", known()))
    }
}

/// One setting with what it brings. Ranges go from the quickest to the slowest client.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// `fetch.min.bytes`.
    pub fetch_min_bytes: u64,
    /// `fetch.max.wait.ms`.
    pub fetch_max_wait_ms: f64,
    /// Whether the user asked for it.
    pub is_asked: bool,
    /// Fetch requests per second of all consumers.
    pub fetches_per_s: Range,
    /// Share without a batch.
    pub empty_share: Range,
    /// Mean bytes of an answer with batches.
    pub bytes: Range,
    /// Time that a batch waits at the broker: median, in milliseconds.
    pub wait_ms_p50: Range,
    /// The 99th percentile.
    pub wait_ms_p99: Range,
}

/// Settings side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outlook {
    /// Where the batches come from.
    pub source: String,
    /// The consumers.
    pub readers: Readers,
    /// Connections that fetch at the same time.
    pub links: u32,
    /// Time until the next request, as predicted with.
    pub turn_ms: Range,
    /// In the order of their bytes.
    pub rows: Vec<Row>,
    /// Index of the row with the fewest requests whose batches wait no longer than tolerated.
    pub suggested: Option<usize>,
    /// The longest wait that the application tolerates, in milliseconds.
    pub tolerable_ms: f64,
}

/// Limits that the user wants to know about. Anything that is not named is as in Kafka's own consumer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wish {
    /// `fetch.min.bytes`.
    pub min_bytes: Option<u64>,
    /// `fetch.max.wait.ms`.
    pub max_wait_ms: Option<f64>,
    /// `fetch.max.bytes`.
    pub max_bytes: u64,
    /// `max.partition.fetch.bytes`.
    pub partition_bytes: u64,
    /// Time until the next request, if it is known better than by the client.
    pub turn_ms: Option<f64>,
    /// The longest tolerable wait.
    pub tolerable_ms: f64,
}

/// Sizes to show next to those that the user asked for.
const LADDER: [u64; 6] = [1, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Kafka's own wait.
const USUAL_WAIT_MS: f64 = 500.0;

impl Readers {
    /// Connections that fetch at the same time: each consumer has one to each broker that leads a partition of its own.
    pub fn links(&self) -> u32 {
        let busy = self.consumers.min(self.partitions).max(1);
        let own = self.partitions.div_ceil(busy).max(1);
        self.groups.max(1) * busy * own.min(self.brokers.max(1))
    }
}

/// The limits side by side.
pub fn outlook(source: &str, readers: Readers, wish: Wish) -> Outlook {
    let links = readers.links();
    let turn_ms = wish.turn_ms.map_or_else(|| readers.client.turn_ms(), |turn_ms| [turn_ms, turn_ms]);
    let all_per_s = readers.batches_per_s * f64::from(readers.groups.max(1));
    let stream = Stream { batches_per_s: all_per_s / f64::from(links), batch_bytes: readers.batch_bytes };
    let of_link = f64::from(readers.partitions * readers.groups.max(1)) / f64::from(links);
    let max_bytes = wish.max_bytes.min((wish.partition_bytes as f64 * of_link.max(1.0)) as u64);
    // A wait that the application does not tolerate is no choice. What arrives between two requests waits for the next one, too.
    let wait_ms = wish.max_wait_ms.unwrap_or(USUAL_WAIT_MS);
    let tolerated_ms = (wish.tolerable_ms - turn_ms[1]).floor().clamp(1.0, USUAL_WAIT_MS);
    let tolerated_ms = wish.max_wait_ms.unwrap_or(tolerated_ms);
    let mut asked: Vec<(u64, f64, bool)> = LADDER.iter().map(|bytes| (*bytes, tolerated_ms, false)).collect();
    asked[0].1 = wait_ms;
    if wish.min_bytes.is_some() || wish.max_wait_ms.is_some() {
        asked.push((wish.min_bytes.unwrap_or(1), wait_ms, true));
    }
    asked.sort_by(|one, other| one.0.cmp(&other.0).then(other.2.cmp(&one.2)).then(one.1.total_cmp(&other.1)));
    asked.dedup_by(|one, other| one.0 == other.0 && one.1 == other.1);
    let rows: Vec<Row> = asked
        .into_iter()
        .map(|(min_bytes, max_wait_ms, is_asked)| {
            let found = fetches(stream, Limits { min_bytes, max_wait_ms, max_bytes }, turn_ms);
            Row {
                fetch_min_bytes: min_bytes,
                fetch_max_wait_ms: max_wait_ms,
                is_asked,
                fetches_per_s: found.per_s.map(|per_s| per_s * f64::from(links)),
                empty_share: found.empty_share,
                bytes: found.bytes,
                wait_ms_p50: found.wait_ms_p50,
                wait_ms_p99: found.wait_ms_p99,
            }
        })
        .collect();
    let suggested = suggested(&rows, wish.tolerable_ms);
    Outlook {
        source: source.to_owned(),
        readers,
        links,
        turn_ms,
        rows,
        suggested,
        tolerable_ms: wish.tolerable_ms,
    }
}

/// Less than this is not worth a change.
const LEAST_SAVED: f64 = 0.2;

fn suggested(rows: &[Row], tolerable_ms: f64) -> Option<usize> {
    let today = rows.first()?.fetches_per_s[1];
    let tolerated = rows.iter().enumerate().filter(|(_, row)| row.wait_ms_p99[1] <= tolerable_ms);
    let best =
        tolerated.min_by(|(_, one), (_, other)| one.fetches_per_s[1].total_cmp(&other.fetches_per_s[1]))?;
    // The smallest of those that are as good.
    let enough = best.1.fetches_per_s[1] * 1.05;
    let first =
        rows.iter().position(|row| row.fetches_per_s[1] <= enough && row.wait_ms_p99[1] <= tolerable_ms)?;
    (rows[first].fetches_per_s[1] <= today * (1.0 - LEAST_SAVED)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readers(consumers: u32, groups: u32) -> Readers {
        Readers {
            batches_per_s: 2_000.0,
            batch_bytes: 1_024.0,
            partitions: 12,
            brokers: 3,
            consumers,
            groups,
            client: Client::Java,
        }
    }

    const WISH: Wish = Wish {
        min_bytes: None,
        max_wait_ms: None,
        max_bytes: 50 << 20,
        partition_bytes: 1 << 20,
        turn_ms: None,
        tolerable_ms: 100.0,
    };

    #[test]
    fn each_consumer_has_a_link_to_each_leader_of_its_partitions() {
        assert_eq!(readers(1, 1).links(), 3);
        assert_eq!(readers(6, 1).links(), 12, "two partitions each, on two brokers at most");
        assert_eq!(readers(12, 2).links(), 24);
        assert_eq!(readers(40, 1).links(), 12, "the others have nothing to read");
    }

    #[test]
    fn larger_answers_save_requests_within_what_is_tolerated() {
        let found = outlook("t", readers(12, 1), WISH);
        assert_eq!(found.rows.len(), 6);
        let rates: Vec<f64> = found.rows.iter().map(|row| row.fetches_per_s[1]).collect();
        assert!(rates.is_sorted_by(|one, other| *one >= *other * 0.98), "{rates:?}");
        let suggested = &found.rows[found.suggested.unwrap()];
        assert!(suggested.wait_ms_p99[1] <= 100.0 && suggested.fetch_min_bytes >= 16 << 10, "{suggested:?}");
        assert!(suggested.fetches_per_s[1] < 0.2 * rates[0], "{suggested:?}");
    }

    #[test]
    fn what_was_asked_has_a_row_and_a_quiet_topic_keeps_its_settings() {
        let asked = Wish { min_bytes: Some(10_000), max_wait_ms: Some(250.0), ..WISH };
        let found = outlook("t", readers(12, 1), asked);
        let row = found.rows.iter().find(|row| row.is_asked).unwrap();
        assert_eq!((row.fetch_min_bytes, row.fetch_max_wait_ms), (10_000, 250.0));
        let quiet = outlook("t", Readers { batches_per_s: 0.1, ..readers(12, 1) }, WISH);
        assert_eq!(quiet.suggested, None, "{quiet:?}");
    }
}

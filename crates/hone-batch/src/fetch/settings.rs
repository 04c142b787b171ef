//! A change of a consumer as configuration lines for each client, with the client's defaults and its unexpected behaviour. Pure.
//!
//! The defaults come from the package of the version that each sheet names.

use crate::settings::{Block, Client, Conflict, Row, Sheet};

/// A change of a consumer in client-neutral terms. `None` leaves a setting unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// Bytes that the broker collects before it answers.
    pub min_bytes: Option<u32>,
    /// Longest time that it collects them.
    pub max_wait_ms: Option<u32>,
    /// Most bytes of an answer.
    pub max_bytes: Option<u32>,
    /// The same for each partition.
    pub partition_bytes: Option<u32>,
    /// The consumer's rack, so that it may read from a follower (KIP-392).
    pub rack: Option<String>,
}

/// A setting of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Setting {
    MinBytes,
    MaxWait,
    MaxBytes,
    PartitionBytes,
    Rack,
}

/// How a client writes its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `NAME=VALUE`.
    Properties,
    /// `NAME(VALUE),`.
    Options,
    /// `NAME=VALUE,` in a call.
    Keywords,
    /// `NAME = VALUE`.
    Fields,
    /// `NAME: VALUE,`.
    Object,
}

/// One client: its sheet, its form, and name and default of each setting.
struct Known {
    client: Client,
    title: &'static str,
    read_in: &'static str,
    place: &'static str,
    form: Form,
    settings: [(&'static str, &'static str); 5],
}

const ALL: [Setting; 5] =
    [Setting::MinBytes, Setting::MaxWait, Setting::MaxBytes, Setting::PartitionBytes, Setting::Rack];

const KNOWN: [Known; 8] = [
    Known {
        client: Client::Java,
        title: "Kafka's own consumer for the JVM",
        read_in: "kafka-clients 4.3.1, ConsumerConfig",
        place: "properties",
        form: Form::Properties,
        settings: [
            ("fetch.min.bytes", "1"),
            ("fetch.max.wait.ms", "500 ms"),
            ("fetch.max.bytes", "52428800"),
            ("max.partition.fetch.bytes", "1048576"),
            ("client.rack", "none"),
        ],
    },
    Known {
        client: Client::Librdkafka,
        title: "librdkafka (confluent-kafka for Python, Go, .NET and Node take the same names)",
        read_in: "librdkafka 2.12.1, CONFIGURATION.md",
        place: "properties",
        form: Form::Properties,
        settings: [
            ("fetch.min.bytes", "1"),
            ("fetch.wait.max.ms", "500 ms"),
            ("fetch.max.bytes", "52428800"),
            ("fetch.message.max.bytes", "1048576"),
            ("client.rack", "none"),
        ],
    },
    Known {
        client: Client::FranzGo,
        title: "franz-go",
        read_in: "franz-go 1.22.2, pkg/kgo/config.go",
        place: "options of kgo.NewClient (Go)",
        form: Form::Options,
        settings: [
            ("kgo.FetchMinBytes", "1"),
            ("kgo.FetchMaxWait", "5 s"),
            ("kgo.FetchMaxBytes", "50 MiB"),
            ("kgo.FetchMaxPartitionBytes", "1 MiB"),
            ("kgo.Rack", "none"),
        ],
    },
    Known {
        client: Client::KafkaPython,
        title: "kafka-python",
        read_in: "kafka-python 3.0.12, kafka/consumer/group.py",
        place: "arguments of KafkaConsumer (Python)",
        form: Form::Keywords,
        settings: [
            ("fetch_min_bytes", "1"),
            ("fetch_max_wait_ms", "500 ms"),
            ("fetch_max_bytes", "52428800"),
            ("max_partition_fetch_bytes", "1048576"),
            ("client_rack", "none"),
        ],
    },
    Known {
        client: Client::Sarama,
        title: "Sarama",
        read_in: "sarama 1.46, config.go",
        place: "fields of sarama.Config (Go)",
        form: Form::Fields,
        settings: [
            ("config.Consumer.Fetch.Min", "1"),
            ("config.Consumer.MaxWaitTime", "500 ms"),
            ("config.Consumer.Fetch.Max", "0 (no limit for a partition)"),
            ("config.Consumer.Fetch.Default", "1 MiB"),
            ("config.RackID", "none"),
        ],
    },
    Known {
        client: Client::Spring,
        title: "Spring Boot",
        read_in: "Spring Boot 3.5, KafkaProperties",
        place: "application.properties",
        form: Form::Properties,
        settings: [
            ("spring.kafka.consumer.fetch-min-size", "1"),
            ("spring.kafka.consumer.fetch-max-wait", "500 ms"),
            ("spring.kafka.consumer.properties[fetch.max.bytes]", "52428800"),
            ("spring.kafka.consumer.properties[max.partition.fetch.bytes]", "1048576"),
            ("spring.kafka.consumer.properties[client.rack]", "none"),
        ],
    },
    Known {
        client: Client::Connect,
        title: "Kafka Connect, sink connectors",
        read_in: "Apache Kafka 4.3.1, KIP-458",
        place: "the connector's configuration",
        form: Form::Properties,
        settings: [
            ("consumer.override.fetch.min.bytes", "1"),
            ("consumer.override.fetch.max.wait.ms", "500 ms"),
            ("consumer.override.fetch.max.bytes", "52428800"),
            ("consumer.override.max.partition.fetch.bytes", "1048576"),
            ("consumer.override.client.rack", "none"),
        ],
    },
    Known {
        client: Client::Kafkajs,
        title: "KafkaJS",
        read_in: "kafkajs 2.2.4, src/consumer/index.js",
        place: "fields of kafka.consumer (JavaScript)",
        form: Form::Object,
        settings: [
            ("minBytes", "1"),
            ("maxWaitTimeInMs", "5000 ms"),
            ("maxBytes", "10485760"),
            ("maxBytesPerPartition", "1048576"),
            ("rackId", "none"),
        ],
    },
];

/// A wait beyond this is longer than most clients wait for an answer (`request.timeout.ms`).
const LONGEST_WAIT_MS: u32 = 30_000;

/// The lines for one client.
///
/// # Errors
/// Fails when no client could apply the change.
pub fn sheet(client: Client, change: &Change) -> Result<Sheet, Conflict> {
    change.check()?;
    // Each client has a sheet.
    let known = KNOWN.iter().find(|known| known.client == client).unwrap_or(&KNOWN[0]);
    let rows: Vec<Row> = ALL
        .into_iter()
        .zip(known.settings)
        .filter_map(|(setting, (name, default))| {
            let value = change.value(setting, client)?;
            Some(Row { about: setting.about(), name, default, value: Some(value) })
        })
        .collect();
    let line = |row: &Row| {
        let (name, value) = (row.name, row.value.as_deref().unwrap_or_default());
        match known.form {
            Form::Properties => format!("{name}={value}"),
            Form::Options => format!("{name}({value}),"),
            Form::Keywords => format!("{name}={value},"),
            Form::Fields => format!("{name} = {value}"),
            Form::Object => format!("{name}: {value},"),
        }
    };
    Ok(Sheet {
        client,
        title: known.title,
        read_in: known.read_in,
        blocks: vec![Block { place: known.place, lines: rows.iter().map(line).collect() }],
        rows,
        traps: traps(client, change),
        sources: vec![known.read_in],
    })
}

impl Setting {
    fn about(self) -> &'static str {
        match self {
            Self::MinBytes => "least bytes",
            Self::MaxWait => "longest wait",
            Self::MaxBytes => "most bytes",
            Self::PartitionBytes => "most bytes of a partition",
            Self::Rack => "rack",
        }
    }
}

impl Change {
    /// Whether a client could apply it at all.
    ///
    /// # Errors
    /// Names the invalid value.
    pub fn check(&self) -> Result<(), Conflict> {
        let value = |what, problem: &str| Conflict::Value { what, problem: problem.to_owned() };
        if *self == Self::default() {
            return Err(value("fetch", "needs a setting: name one, for example --fetch-min-bytes 64KiB"));
        }
        let sizes = [
            ("fetch-min-bytes", self.min_bytes),
            ("fetch-max-bytes", self.max_bytes),
            ("max-partition-fetch-bytes", self.partition_bytes),
        ];
        for (what, bytes) in sizes {
            if bytes.is_some_and(|bytes| bytes == 0 || i32::try_from(bytes).is_err()) {
                return Err(value(what, "must be between 1 byte and 2 GiB"));
            }
        }
        if self.min_bytes.zip(self.max_bytes).is_some_and(|(least, most)| least > most) {
            return Err(value("fetch-min-bytes", "must be at most fetch-max-bytes"));
        }
        if self.max_wait_ms.is_some_and(|wait_ms| wait_ms >= LONGEST_WAIT_MS) {
            return Err(value("fetch-max-wait", "must be shorter than 30 s, the time limit of a request"));
        }
        let is_word = |rack: &String| !rack.is_empty() && !rack.contains(['"', '\'', '\n', '\\']);
        if !self.rack.iter().all(is_word) {
            return Err(value("rack", "must be a word without quotes"));
        }
        Ok(())
    }

    /// The value as a client writes it.
    fn value(&self, setting: Setting, client: Client) -> Option<String> {
        let is_go = matches!(client, Client::FranzGo | Client::Sarama);
        let is_code = is_go || matches!(client, Client::KafkaPython | Client::Kafkajs);
        match setting {
            Setting::MinBytes => self.min_bytes.map(|bytes| bytes.to_string()),
            Setting::MaxWait if is_go => self.max_wait_ms.map(|ms| format!("{ms} * time.Millisecond")),
            Setting::MaxWait if client == Client::Spring => self.max_wait_ms.map(|ms| format!("{ms}ms")),
            Setting::MaxWait => self.max_wait_ms.map(|ms| ms.to_string()),
            Setting::MaxBytes => self.max_bytes.map(|bytes| bytes.to_string()),
            Setting::PartitionBytes => self.partition_bytes.map(|bytes| bytes.to_string()),
            Setting::Rack if is_code => self.rack.as_ref().map(|rack| format!("\"{rack}\"")),
            Setting::Rack => self.rack.clone(),
        }
    }
}

fn traps(client: Client, change: &Change) -> Vec<String> {
    let mut traps = Vec::new();
    let mut tell = |applies: bool, text: &str| {
        if applies {
            traps.push(text.to_owned());
        }
    };
    let waits = change.min_bytes.is_some_and(|bytes| bytes > 1);
    tell(
        waits && change.max_wait_ms.is_none(),
        "On a quiet topic, a record now waits until fetch.max.wait.ms is over: set that to the wait that your application tolerates.",
    );
    tell(
        waits && client == Client::Librdkafka,
        "fetch.min.bytes may be 100000000 at most, and counts for each broker, not for each partition.",
    );
    tell(
        change.max_wait_ms.is_some_and(|wait_ms| wait_ms < 10) && client == Client::FranzGo,
        "FetchMaxWait must be 10 ms or more: the client refuses less.",
    );
    tell(
        change.max_bytes.is_some() && client == Client::Sarama,
        "Fetch.Max limits a partition, as Fetch.Default does: Sarama has no limit of a whole answer but sarama.MaxResponseSize.",
    );
    tell(
        change.rack.is_some(),
        "Brokers need replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector, and broker.rack; else the leader is \
         read.",
    );
    tell(
        client == Client::Connect,
        "The worker must allow it: connector.client.config.override.policy=All (the default since 3.0).",
    );
    traps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(client: Client, change: &Change) -> Vec<String> {
        sheet(client, change).unwrap().blocks.remove(0).lines
    }

    #[test]
    fn every_client_gets_its_own_names() {
        let change = Change { min_bytes: Some(65_536), max_wait_ms: Some(250), ..Change::default() };
        assert_eq!(lines(Client::Java, &change), ["fetch.min.bytes=65536", "fetch.max.wait.ms=250"]);
        assert_eq!(lines(Client::Librdkafka, &change)[1], "fetch.wait.max.ms=250");
        assert_eq!(lines(Client::FranzGo, &change)[1], "kgo.FetchMaxWait(250 * time.Millisecond),");
        assert_eq!(lines(Client::KafkaPython, &change)[0], "fetch_min_bytes=65536,");
        assert_eq!(lines(Client::Sarama, &change)[0], "config.Consumer.Fetch.Min = 65536");
        assert_eq!(lines(Client::Spring, &change)[1], "spring.kafka.consumer.fetch-max-wait=250ms");
        assert_eq!(lines(Client::Kafkajs, &change)[1], "maxWaitTimeInMs: 250,");
        let rack = Change { rack: Some("a1".to_owned()), ..Change::default() };
        assert_eq!(lines(Client::FranzGo, &rack), ["kgo.Rack(\"a1\"),"]);
        for client in Client::ALL {
            assert_eq!(sheet(client, &change).unwrap().client, client);
        }
    }

    #[test]
    fn what_no_client_takes_is_refused() {
        let of = |change: Change| sheet(Client::Java, &change).map(drop).unwrap_err().to_string();
        assert!(of(Change::default()).contains("--fetch-min-bytes"));
        assert!(of(Change { min_bytes: Some(0), ..Change::default() }).contains("2 GiB"));
        assert!(of(Change { max_wait_ms: Some(30_000), ..Change::default() }).contains("30 s"));
        let crossed = Change { min_bytes: Some(9), max_bytes: Some(8), ..Change::default() };
        assert!(of(crossed).contains("at most fetch-max-bytes"));
        assert!(of(Change { rack: Some("a\"b".to_owned()), ..Change::default() }).contains("without quotes"));
    }

    #[test]
    fn a_wait_without_a_limit_is_told() {
        let change = Change { min_bytes: Some(1_024), ..Change::default() };
        assert!(sheet(Client::Java, &change).unwrap().traps[0].contains("fetch.max.wait.ms"));
    }
}

//! `hone fetch whatif`: predicts the Fetch requests of consumers with other limits.

use anyhow::{Result, bail};
use clap::Args;
use hone_batch::fetch::whatif::{Client, Readers, Wish, outlook};
use hone_cli::values::{rate, size};
use hone_format::read_duration_s;
use hone_load::Topics;

use crate::cmd::context::CliContext;
use hone_cli::connection::BrokerOptions;
use hone_experiment::ending::{Ending, Usage};
use hone_tune::batch::reading;

/// Predict the Fetch requests of a topic's consumers with other limits.
///
/// Hone reads the batch headers of the last minutes, or takes their rate and size from you. It replays the requests of each consumer one by one:
/// the broker answers when it has the least bytes, or when the wait is over. The ranges go from a quick to a slow client.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone fetch whatif broker-1:9092 orders --consumers 6
  hone fetch whatif broker-1:9092 orders --consumers 6 --fetch-max-wait 100ms \\
    --fetch-min-bytes 64KiB --consumer-client librdkafka
  hone fetch whatif --batches-per-s 2000 --batch-bytes 900 --consumers 20 \\
    --groups 3 --tolerable-wait 20ms")]
pub(crate) struct Arguments {
    /// Any broker of the cluster: HOST:PORT, or several, separated by commas.
    #[arg(value_name = "BROKER", conflicts_with = "batches_per_s")]
    broker: Option<String>,
    /// Topic that the consumers read.
    #[arg(value_name = "TOPIC", conflicts_with = "batches_per_s")]
    topic: Option<String>,
    /// Batches per second of the topic, instead of a topic to read. It needs --batch-bytes.
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "batch_bytes")]
    batches_per_s: Option<f64>,
    /// Mean size of a batch.
    #[arg(long, value_name = "SIZE", value_parser = size::<u64>(61, 1 << 30), requires = "batches_per_s")]
    batch_bytes: Option<u64>,
    /// Partitions of the topic. [default: those of the topic; with --batches-per-s, one for each consumer]
    #[arg(long, value_name = "PARTITIONS", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    partitions: Option<u32>,
    /// Brokers that lead the partitions. [default: those of the topic; with --batches-per-s, 1]
    #[arg(long, value_name = "BROKERS", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    brokers: Option<u32>,
    /// Number of consumers. They share the partitions as one group.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    consumers: u32,
    /// Groups of consumers. Each group reads every record.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    groups: u32,
    /// Consumer client. One of wire, java, librdkafka, franz-go, kafka-python.
    #[arg(long = "consumer-client", value_name = "CLIENT", default_value = "java")]
    client: Client,
    /// Bytes that the broker collects before it answers a Fetch of a consumer (`fetch.min.bytes`).
    #[arg(long, value_name = "SIZE", value_parser = size::<u64>(1, (1 << 31) - 1))]
    fetch_min_bytes: Option<u64>,
    /// Longest time that the broker collects them (`fetch.max.wait.ms`).
    #[arg(long, value_name = "TIME", value_parser = read_duration_s)]
    fetch_max_wait: Option<f64>,
    /// Most bytes of an answer (`fetch.max.bytes`).
    #[arg(long, value_name = "SIZE", default_value = "50MiB", value_parser = size::<u64>(1, (1 << 31) - 1))]
    fetch_max_bytes: u64,
    /// Most bytes of an answer for each partition (`max.partition.fetch.bytes`).
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = size::<u64>(1, (1 << 31) - 1))]
    max_partition_fetch_bytes: u64,
    /// Time from an answer until the next request is at the broker: round trip, and the application's own work. [default: by client, on one
    /// machine]
    #[arg(long, value_name = "TIME", value_parser = read_duration_s)]
    turn: Option<f64>,
    /// Longest time that a record may wait at the broker. Hone suggests no larger limits.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = read_duration_s)]
    tolerable_wait: f64,
    /// How far back from now to read.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = read_duration_s)]
    last: f64,
    #[command(flatten)]
    connection: BrokerOptions,
}

/// Bytes of headers to read: a few seconds of a busy topic are enough.
const BUDGET_BYTES: u64 = 64 << 20;

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let (source, readers) = match (arguments.batches_per_s, arguments.batch_bytes) {
        (Some(batches_per_s), Some(batch_bytes)) => {
            let partitions = arguments.partitions.unwrap_or(arguments.consumers);
            let of = (batches_per_s, batch_bytes as f64, partitions, arguments.brokers.unwrap_or(1));
            ("as given".to_owned(), arguments.readers(of))
        }
        _ => arguments.read(cli)?,
    };
    let wish = Wish {
        min_bytes: arguments.fetch_min_bytes,
        max_wait_ms: arguments.fetch_max_wait.map(|wait_s| 1e3 * wait_s),
        max_bytes: arguments.fetch_max_bytes,
        partition_bytes: arguments.max_partition_fetch_bytes,
        turn_ms: arguments.turn.map(|turn_s| 1e3 * turn_s),
        tolerable_ms: 1e3 * arguments.tolerable_wait,
    };
    let found = outlook(&source, readers, wish);
    cli.show_found("fetch-whatif", &found, hone_document::fetch::text)
}

impl Arguments {
    fn readers(&self, (batches_per_s, batch_bytes, partitions, brokers): (f64, f64, u32, u32)) -> Readers {
        Readers {
            batches_per_s,
            batch_bytes,
            partitions,
            brokers,
            consumers: self.consumers,
            groups: self.groups,
            client: self.client,
        }
    }

    /// The batches of the topic, by their headers.
    fn read(&self, cli: &CliContext) -> Result<(String, Readers)> {
        let named: Vec<String> = self.topic.iter().cloned().collect();
        let (brokers, topics) = self.connection.split(self.broker.as_deref(), &named)?;
        let [topic] = &topics[..] else {
            bail!(Usage(
                "no topic is named\n  next: name BROKER and TOPIC, or --batches-per-s and --batch-bytes"
                    .to_owned()
            ));
        };
        cli.progress.doing(&format!("reading the batch headers of {topic}"));
        let mut cluster = Topics::enter(&brokers, &self.connection.security.security()?)?;
        let Some(rate) = reading::rate(&mut cluster, topic, self.last, BUDGET_BYTES)? else {
            bail!(
                "{topic} has too few batches of the last {} to know their rate\n  next: a longer --last, or --batches-per-s and --batch-bytes",
                hone_format::duration(self.last)
            );
        };
        let leaders = cluster.layout(topic)?.0.leaders.len() as u32;
        let partitions = self.partitions.unwrap_or(rate.partitions as u32);
        let of = (rate.batches_per_s, rate.batch_bytes, partitions, self.brokers.unwrap_or(leaders));
        Ok((topic.clone(), self.readers(of)))
    }
}

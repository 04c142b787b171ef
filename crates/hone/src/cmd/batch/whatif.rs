//! `hone batch whatif`: predicts the batches of a topic with other settings.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use hone_batch::whatif::Codec;
use hone_batch::whatif::calibrate::Told;
use hone_batch::whatif::client::Client;
use hone_batch::whatif::predict::{Change, Partitioner};
use hone_cli::values::size;
use hone_format::read_duration_s;
use hone_load::Topics;
use hone_record::WhatIf;

use crate::cmd::context::{CliContext, default_runs};
use hone_cli::connection::BrokerOptions;
use hone_document::entries::whatif::entry_of;
use hone_document::whatif as shown;
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::ledger;
use hone_tune::batch::replaying::{self, LAST_S, Question, Window, Wish};

/// Predict a topic's batches with other producer settings.
///
/// Hone replays the records of a window by the rules of the client that wrote them. It replays the change only if today's settings reproduce
/// today's batches within 15 %. For a sender that waits for every answer, it predicts only the time from send to send with another linger.
///
/// Without a change, Hone shows today's settings, and the shortest linger and smallest batch size for 4 KiB and 16 KiB batches. It also shows
/// what to set within --tolerable-linger.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone batch whatif broker-1:9092 orders --linger 20ms
  hone batch whatif broker-1:9092 orders --linger 50ms --batch-size 131072 \\
    --compression zstd
  hone batch whatif broker-1:9092 orders --client java4   # a client upgrade
  hone batch whatif broker-1:9092 orders --producers 1    # one gateway
  hone batch whatif broker-1:9092 orders --today-client librdkafka \\
    --today-linger 5ms
  hone batch whatif --segments /var/lib/kafka/data/orders-[0-9]* --linger 20ms")]
pub(crate) struct Arguments {
    /// Any broker of the cluster: HOST:PORT, or several, separated by commas.
    #[arg(value_name = "BROKER", conflicts_with = "segments")]
    broker: Option<String>,
    /// Topic whose records Hone replays.
    #[arg(value_name = "TOPIC", conflicts_with = "segments")]
    topic: Option<String>,
    /// Read segment files (*.log) instead of a broker. Name files, or folders with the partitions of one topic. Files of Apache Kafka and
    /// Redpanda work.
    #[arg(long, alias = "from", value_name = "PATH", num_args = 1..)]
    segments: Vec<PathBuf>,
    #[command(flatten)]
    change: ChangeOptions,
    #[command(flatten)]
    today: TodayOptions,
    /// How far back from now to read. Examples: `5m`, `1h`. `all` reads everything that the topic holds. [default: 5m; all with --segments]
    #[arg(long, value_name = "TIME", value_parser = last)]
    last: Option<Last>,
    /// Bytes to read at most.
    #[arg(
        long = "read-limit",
        alias = "budget",
        value_name = "SIZE",
        default_value = "512MiB",
        value_parser = size::<u64>(1 << 20, 1 << 40)
    )]
    budget: u64,
    /// Time limit for reading.
    #[arg(
        long = "read-timeout",
        alias = "limit",
        value_name = "TIME",
        default_value = "60s",
        value_parser = read_duration_s
    )]
    limit: f64,
    /// Largest number of records to hold in memory. Each record takes about 100 bytes.
    #[arg(long = "max-records", alias = "most-records", value_name = "N", default_value_t = 5_000_000)]
    most_records: usize,
    /// Read batch headers only and never decompress records. The result is coarser. Hone then can't predict another codec, partitioner or
    /// number of partitions.
    #[arg(long)]
    no_payload: bool,
    /// Time limit for the replay. It includes the search for today's settings. Hone predicts nothing if the time is too short.
    #[arg(
        long = "replay-timeout",
        alias = "replay-limit",
        value_name = "TIME",
        default_value = "10m",
        value_parser = read_duration_s
    )]
    replay_limit: f64,
    /// Longest linger that the application tolerates. Hone suggests no longer linger.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = read_duration_s)]
    tolerable_linger: f64,
    /// Seed of the random numbers. They decide the client's random choices and the confidence intervals.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Ledger file. Hone adds the prediction to it. [default: runs/ledger.jsonl]
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    #[command(flatten)]
    brokers: BrokerOptions,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Change to predict")]
struct ChangeOptions {
    /// Linger of the producer.
    #[arg(long, value_name = "TIME", value_parser = read_duration_s)]
    linger: Option<f64>,
    /// Batch size of the producer.
    #[arg(long, value_name = "SIZE", value_parser = size::<u32>(1, 1 << 30))]
    batch_size: Option<u32>,
    /// Largest number of records in a batch, librdkafka's `batch.num.messages`.
    #[arg(
        long = "batch-num-messages",
        alias = "batch-records",
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    batch_records: Option<u32>,
    /// Codec of the producer: none, gzip, snappy, lz4, zstd.
    #[arg(long = "compression", alias = "codec", value_name = "CODEC", value_parser = codec)]
    codec: Option<Codec>,
    /// Producer client. One of java3, java4, librdkafka, franz-go. Settings that are defaults of today's client become defaults of this one.
    #[arg(long, value_name = "CLIENT", value_parser = client)]
    client: Option<Client>,
    /// Partitioner of the producer. It places records without a key.
    #[arg(long, value_name = "PARTITIONER")]
    partitioner: Option<Keyless>,
    /// Partitions of the topic.
    #[arg(long, value_name = "PARTITIONS", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    partitions: Option<u32>,
    /// Number of producers that send the same records.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    producers: Option<u32>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Today's settings")]
pub(super) struct TodayOptions {
    /// Today's producer client. [default: inferred from the batches]
    #[arg(long, value_name = "CLIENT", value_parser = client)]
    today_client: Option<Client>,
    /// Today's linger. [default: inferred from the batches]
    #[arg(long, value_name = "TIME", value_parser = read_duration_s)]
    today_linger: Option<f64>,
    /// Today's batch size. [default: inferred from the batches]
    #[arg(long, value_name = "SIZE", value_parser = size::<u32>(1, 1 << 30))]
    today_batch_size: Option<u32>,
    /// Time from a request to its answer. The Java client reports it as request-latency-avg. [default: inferred from the batches]
    #[arg(long, value_name = "TIME", value_parser = read_duration_s)]
    rtt: Option<f64>,
    /// Assume that senders do not wait for answers. Use it if Hone takes your sender for one that waits.
    #[arg(long)]
    open_loop: bool,
}

impl TodayOptions {
    pub(super) fn told(&self) -> Told {
        Told {
            client: self.today_client,
            linger_us: self.today_linger.map(us),
            batch_bytes: self.today_batch_size,
            rtt_us: self.rtt.map(us),
            is_open_loop: self.open_loop,
        }
    }
}

/// How far back to read, in seconds. `None` reads everything.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Last(pub(super) Option<f64>);

pub(super) fn last(text: &str) -> Result<Last, String> {
    if text == "all" {
        return Ok(Last(None));
    }
    let found = read_duration_s(text)?;
    if found > 0.0 { Ok(Last(Some(found))) } else { Err("it must be above 0".to_owned()) }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Keyless {
    /// Fill a batch for one partition before the next, as the client does.
    Sticky,
    /// Change the partition with each record.
    RoundRobin,
}

fn codec(text: &str) -> Result<Codec, String> {
    Codec::from_name(text)
        .ok_or_else(|| format!("unknown codec `{text}`: use none, gzip, snappy, lz4 or zstd"))
}

fn client(text: &str) -> Result<Client, String> {
    let names = Client::ALL.map(Client::name).join(", ");
    Client::from_name(text).ok_or_else(|| format!("unknown client `{text}`: use one of {names}"))
}

fn us(seconds: f64) -> u64 {
    (seconds * 1e6).round().clamp(0.0, 1e12) as u64
}

impl Arguments {
    fn change(&self) -> Change {
        let asked = &self.change;
        Change {
            linger_us: asked.linger.map(us),
            batch_bytes: asked.batch_size,
            batch_records: asked.batch_records,
            codec: asked.codec,
            client: asked.client,
            partitioner: asked.partitioner.map(|keyless| match keyless {
                Keyless::Sticky => Partitioner::Sticky,
                Keyless::RoundRobin => Partitioner::RoundRobin,
            }),
            partitions: asked.partitions,
            producers: asked.producers,
            denser: None,
        }
    }

    fn wish(&self) -> Wish {
        // Hone reads named segment files whole unless --last limits it.
        let unless_told = if self.segments.is_empty() { Some(LAST_S) } else { None };
        let last_s = self.last.map_or(unless_told, |last| last.0);
        let mut wish = Wish::usual(last_s, self.budget, self.limit, !self.no_payload);
        wish.limits.records = self.most_records;
        wish
    }

    fn question(&self) -> Question {
        Question {
            told: self.today.told(),
            change: self.change(),
            seed: self.seed,
            tolerable_ms: 1e3 * self.tolerable_linger,
            limit_s: self.replay_limit,
        }
    }
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let window = read(arguments, cli)?;
    cli.progress.doing("replaying");
    let found = replaying::replayed(window, &arguments.question())?;
    let ending = if found.refused.is_some() { Ending::CouldNot } else { Ending::Done };
    let entered = enter_in_ledger(&found, arguments, cli);
    cli.show(found, shown::text)?;
    entered.map(|()| ending)
}

/// Adds the prediction of a change to the ledger, so that you can compare it with the result later. A run without a change adds nothing.
fn enter_in_ledger(found: &WhatIf, arguments: &Arguments, cli: &CliContext) -> Result<()> {
    let Some(entry) = entry_of(found) else { return Ok(()) };
    let path = arguments.ledger.clone().unwrap_or_else(|| default_runs().join(ledger::NAME));
    ledger::enter(&path, &entry, &cli.progress)
}

fn read(arguments: &Arguments, cli: &CliContext) -> Result<Window> {
    let wish = arguments.wish();
    if !arguments.segments.is_empty() {
        cli.progress.doing("reading segments");
        return replaying::of_segments(&arguments.segments, &wish);
    }
    let topics: Vec<String> = arguments.topic.iter().cloned().collect();
    let (brokers, topics) = arguments.brokers.split(arguments.broker.as_deref(), &topics)?;
    let [topic] = &topics[..] else {
        bail!(Usage(
            "no topic is named\n  next: name one behind the broker, or segment files with --segments"
                .to_owned()
        ));
    };
    cli.progress.doing(&format!("reading {topic}"));
    let mut cluster = Topics::enter(&brokers, &arguments.brokers.security.security()?)?;
    replaying::of_cluster(&mut cluster, topic, &wish)
}

//! `hone batch whatif`: what a setting would make of a topic's batches.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use hone_batch::whatif::Codec;
use hone_batch::whatif::calibrate::Told;
use hone_batch::whatif::client::Client;
use hone_batch::whatif::predict::{Change, Partitioner};
use hone_format::read_duration_s;
use hone_load::Topics;
use hone_record::WhatIf;

use crate::cmd::context::{CliContext, default_runs};
use crate::cmd::security::SecurityOptions;
use hone_document::entries::whatif::entry_of;
use hone_document::whatif as shown;
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::ledger;
use hone_tune::batch::replaying::{self, LAST_S, Question, Window, Wish};

/// Foresee what linger, batch size, codec, partitioner, partitions, fewer producers or another client would make of a topic's batches.
///
/// Reads the records of a window with their times and replays them through the rules of the client that wrote them: first with the settings
/// of today, as the batches show them, and only if today comes out, within 15 %, with the change. A range covers all settings that explain
/// today as well, brokers that lead other partitions, and chance. Bytes are those of the topic's own records, packed anew.
///
/// Hone does not replay a sender that waits for every answer. If it is one thread, Hone predicts its time from send to send with another linger.
/// Without a change, Hone shows today's settings, the least linger and batch size that reach 4 KiB and 16 KiB, and what to set within
/// --tolerable-linger.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone batch whatif broker-1:9092 orders --linger 20ms
  hone batch whatif broker-1:9092 orders --linger 50ms --batch-size 131072 --codec zstd
  hone batch whatif broker-1:9092 orders --client java4            an upgrade from kafka-clients 3, where no linger is set
  hone batch whatif broker-1:9092 orders --producers 1             all of them behind one gateway
  hone batch whatif broker-1:9092 orders --today-client librdkafka --today-linger 5ms
  hone batch whatif --segments /var/lib/kafka/data/orders-[0-9]* --linger 20ms")]
pub(crate) struct Arguments {
    /// host:port of any broker of the cluster, or several (host:port,host:port).
    #[arg(value_name = "BROKER", required_unless_present = "segments", conflicts_with = "segments")]
    broker: Option<String>,
    /// The topic.
    #[arg(value_name = "TOPIC", required_unless_present = "segments")]
    topic: Option<String>,
    /// Read segment files (*.log) instead: files, or folders of one topic's partitions; Kafka's or Redpanda's.
    #[arg(long, visible_alias = "from", value_name = "PATH", num_args = 1..)]
    segments: Vec<PathBuf>,
    #[command(flatten)]
    change: ChangeOptions,
    #[command(flatten)]
    today: TodayOptions,
    /// How far back from now, by the records' times: 5m, 1h; `all` is what is kept. 5m unless given, and all of --segments.
    #[arg(long, value_name = "TIME", value_parser = last)]
    last: Option<Last>,
    /// Mebibytes that are read at most.
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    budget: u64,
    /// How long reading may take.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = read_duration_s)]
    limit: f64,
    /// Records that are held at most, at some 100 bytes each.
    #[arg(long, value_name = "N", default_value_t = 5_000_000)]
    most_records: usize,
    /// Never unpack a record: headers have to do, which is coarser. Another codec, partitioner or number of partitions is then not foreseen.
    #[arg(long)]
    no_payload: bool,
    /// How long looking for today's settings and replaying may take; nothing is foreseen where that is not enough.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = read_duration_s)]
    replay_limit: f64,
    /// The longest linger that the application tolerates; advice stays below it.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = read_duration_s)]
    tolerable_linger: f64,
    /// For the client's own chance and for intervals.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The ledger that what is foreseen of a change goes into; runs/ledger.jsonl unless named.
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    #[command(flatten)]
    security: SecurityOptions,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "The change")]
struct ChangeOptions {
    /// Another linger.
    #[arg(long, value_name = "TIME", value_parser = read_duration_s)]
    linger: Option<f64>,
    /// Another batch size, in bytes.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    batch_size: Option<u32>,
    /// Another number of records that a batch holds at most: librdkafka's batch.num.messages.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    batch_records: Option<u32>,
    /// Another codec: none, gzip, snappy, lz4, zstd.
    #[arg(long, value_name = "NAME", value_parser = codec)]
    codec: Option<Codec>,
    /// Another client; settings that are today's defaults become its own: java3, java4, librdkafka, franz-go.
    #[arg(long, value_name = "NAME", value_parser = client)]
    client: Option<Client>,
    /// Where records without a key go.
    #[arg(long, value_name = "NAME")]
    partitioner: Option<Keyless>,
    /// Another number of partitions.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    partitions: Option<u32>,
    /// All producers in so many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    producers: Option<u32>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "What is known of today (it wins over what the batches show)")]
pub(super) struct TodayOptions {
    /// The client of today.
    #[arg(long, value_name = "NAME", value_parser = client)]
    today_client: Option<Client>,
    /// The linger of today.
    #[arg(long, value_name = "TIME", value_parser = read_duration_s)]
    today_linger: Option<f64>,
    /// The batch size of today, in bytes.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    today_batch_size: Option<u32>,
    /// From a request to its answer (the Java client's request-latency-avg).
    #[arg(long, value_name = "TIME", value_parser = read_duration_s)]
    rtt: Option<f64>,
    /// Senders do not wait for answers, whatever it looks like.
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

/// How far back.
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
    /// As the client's default does it.
    Sticky,
    /// To the next partition with each record.
    RoundRobin,
}

fn codec(text: &str) -> Result<Codec, String> {
    Codec::from_name(text)
        .ok_or_else(|| format!("`{text}` is no codec; it can be none, gzip, snappy, lz4 or zstd"))
}

fn client(text: &str) -> Result<Client, String> {
    let names = Client::ALL.map(Client::name).join(", ");
    Client::from_name(text).ok_or_else(|| format!("the rules of `{text}` are not known; it can be {names}"))
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
        // Files are those that were named: nobody asks for a part of them unless he says so.
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

/// What is foreseen of a change goes into the ledger, where it can be held against what came of it. Today alone is no change.
fn enter_in_ledger(found: &WhatIf, arguments: &Arguments, cli: &CliContext) -> Result<()> {
    let Some(entry) = entry_of(found) else { return Ok(()) };
    let path = arguments.ledger.clone().unwrap_or_else(|| default_runs().join(ledger::NAME));
    ledger::enter(&path, &entry, &cli.progress)
}

fn read(arguments: &Arguments, cli: &CliContext) -> Result<Window> {
    let wish = arguments.wish();
    match (&arguments.broker, &arguments.topic) {
        (Some(broker), Some(topic)) => {
            cli.progress.doing(&format!("reading {topic}"));
            let mut topics = Topics::enter(broker, &arguments.security.security()?)?;
            replaying::of_cluster(&mut topics, topic, &wish)
        }
        _ if !arguments.segments.is_empty() => {
            cli.progress.doing("reading segments");
            replaying::of_segments(&arguments.segments, &wish)
        }
        _ => bail!(Usage("name a broker and a topic, or --segments".to_owned())),
    }
}

//! `hone batch settings`: a change of a producer as lines for people.

use anyhow::Result;
use clap::Args;
use hone_batch::settings::{Change, Client, Partitioner, Sheet, sheet};
use hone_format::read_bytes;
use hone_kafka::Codec;

use crate::cmd::context::CliContext;
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::spec::Acks;
use hone_tune::producer::{codec, linger_us};

/// Write a change of a producer's settings as the lines of each client: what to write, what is in force without it, and the traps.
///
/// Every client has names, units and defaults of its own, and some can't do what others can; then the sheet says so and what to do
/// instead. Nothing is measured and nothing is sent.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone batch settings --linger 5ms --batch-size 64KiB
  hone batch settings --client librdkafka --linger 500us --codec lz4
  hone batch settings --client java --client connect --batch-size 128KiB --partitions 400
  hone batch settings --client sarama --partitioner murmur2 --acks all --json")]
pub(crate) struct Arguments {
    /// Whose lines: java, librdkafka, franz-go, kafka-python, sarama, spring, connect, kafkajs; may be repeated. All of them without it.
    #[arg(long = "client", value_name = "CLIENT")]
    clients: Vec<Client>,
    /// How long the first record of a batch waits for others: 5ms, 500us, 0.
    #[arg(long, value_name = "TIME", value_parser = linger_us)]
    linger: Option<u64>,
    /// Cap of a batch: 65536, 64KiB, 1MiB.
    #[arg(long, value_name = "SIZE", value_parser = batch_bytes)]
    batch_size: Option<u32>,
    /// Codec: none, gzip, snappy, lz4, zstd.
    #[arg(long, value_name = "CODEC", value_parser = codec)]
    codec: Option<Codec>,
    /// Where records go: sticky (no key: one partition until a batch is full), round-robin, murmur2 (keys as in Java).
    #[arg(long, value_name = "PARTITIONER")]
    partitioner: Option<Partitioner>,
    /// 0, 1 or all.
    #[arg(long, allow_hyphen_values = true)]
    acks: Option<Acks>,
    /// Most requests without an answer on one connection.
    #[arg(long, value_name = "REQUESTS")]
    in_flight: Option<u32>,
    /// Whether batches are numbered: true or false.
    #[arg(long, value_name = "BOOL")]
    idempotence: Option<bool>,
    /// Memory for records that are not sent yet: 64MiB.
    #[arg(long, value_name = "SIZE", value_parser = read_bytes)]
    buffer_memory: Option<u64>,
    /// Partitions that one producer writes to, to check its memory.
    #[arg(long, value_name = "PARTITIONS")]
    partitions: Option<u32>,
}

fn batch_bytes(text: &str) -> Result<u32, String> {
    u32::try_from(read_bytes(text)?).map_err(|_| format!("`{text}` is too large for a batch"))
}

impl Arguments {
    fn change(&self) -> Change {
        Change {
            linger_us: self.linger,
            batch_bytes: self.batch_size,
            codec: self.codec,
            partitioner: self.partitioner,
            acks: self.acks.as_ref().map(|acks| acks.0),
            in_flight: self.in_flight,
            idempotent: self.idempotence,
            buffer_bytes: self.buffer_memory,
        }
    }
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let change = arguments.change();
    let clients = if arguments.clients.is_empty() { &Client::ALL[..] } else { &arguments.clients };
    let sheets = clients.iter().map(|client| sheet(*client, &change, arguments.partitions));
    let sheets = sheets.collect::<Result<Vec<Sheet>, _>>().map_err(|conflict| Usage(conflict.to_string()))?;
    cli.show_found("client-settings", &sheets, |sheets| hone_document::client_settings::text(sheets))
}

//! `hone batch settings`: a change of producer settings as configuration lines for each client.

use anyhow::Result;
use clap::Args;
use hone_batch::settings::{Change, Client, Partitioner, Sheet, sheet};
use hone_format::read_bytes;
use hone_kafka::Codec;

use crate::cmd::context::CliContext;
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::spec::Acks;
use hone_tune::producer::{codec, linger_us};

/// Print a change of producer settings as each client's configuration lines.
///
/// For each setting, Hone prints the line, the client's default and the traps. It measures nothing and sends nothing.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone batch settings --linger 5ms --batch-size 64KiB
  hone batch settings --client librdkafka --linger 500us --compression lz4
  hone batch settings --client java --client connect --batch-size 128KiB \\
    --producer-partitions 400
  hone batch settings --client sarama --partitioner murmur2 --acks all --json")]
pub(crate) struct Arguments {
    /// Producer client. One of java, librdkafka, franz-go, kafka-python, sarama, spring, connect, kafkajs; repeat it for several. [default:
    /// all clients]
    #[arg(long = "client", value_name = "CLIENT")]
    clients: Vec<Client>,
    /// Linger of the producer. The first record of a batch waits this long for others. Examples: `5ms`, `500us`, `0`.
    #[arg(long, value_name = "TIME", value_parser = linger_us)]
    linger: Option<u64>,
    /// Batch size of the producer. It is the upper limit of a batch. Examples: `65536`, `64KiB`, `1MiB`.
    #[arg(long, value_name = "SIZE", value_parser = batch_bytes)]
    batch_size: Option<u32>,
    /// Codec of the producer: none, gzip, snappy, lz4, zstd.
    #[arg(long = "compression", alias = "codec", value_name = "CODEC", value_parser = codec)]
    codec: Option<Codec>,
    /// Partitioner of the producer. `sticky` fills a batch for one partition before the next, for records without a key. `round-robin` changes
    /// the partition with each record. `murmur2` places keys as Java does.
    #[arg(long, value_name = "PARTITIONER")]
    partitioner: Option<Partitioner>,
    /// Acknowledgements: 0, 1 or all.
    #[arg(long, value_name = "ACKS", allow_hyphen_values = true)]
    acks: Option<Acks>,
    /// Unanswered requests per connection at most.
    #[arg(long, value_name = "REQUESTS")]
    in_flight: Option<u32>,
    /// Idempotent producer. Use `true` or `false`.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    idempotence: Option<bool>,
    /// Memory for records that the producer has not sent yet. Example: `64MiB`.
    #[arg(long, value_name = "SIZE", value_parser = read_bytes)]
    buffer_memory: Option<u64>,
    /// Number of partitions that one producer writes to. Hone checks with it whether the producer's memory suffices.
    #[arg(long = "producer-partitions", alias = "partitions", value_name = "PARTITIONS")]
    partitions: Option<u32>,
}

fn batch_bytes(text: &str) -> Result<u32, String> {
    u32::try_from(read_bytes(text)?).map_err(|_| format!("invalid batch size `{text}`: use less than 4GiB"))
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

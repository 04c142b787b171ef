//! `hone fetch settings`: a change of consumer settings as configuration lines for each client.

use anyhow::Result;
use clap::Args;
use hone_batch::fetch::settings::{Change, sheet};
use hone_batch::settings::{Client, Sheet};
use hone_cli::values::size;
use hone_format::read_duration_s;

use crate::cmd::context::CliContext;
use hone_experiment::ending::{Ending, Usage};

/// Print a change of consumer settings as each client's configuration lines.
///
/// For each setting, Hone prints the line, the client's default and the traps. It measures nothing and sends nothing.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone fetch settings --fetch-min-bytes 64KiB --fetch-max-wait 100ms
  hone fetch settings --consumer-client librdkafka --fetch-min-bytes 16KiB
  hone fetch settings --consumer-client java --rack zone-a")]
pub(crate) struct Arguments {
    /// Consumer client. One of java, librdkafka, franz-go, kafka-python, sarama, spring, connect, kafkajs; repeat it for several. [default:
    /// all clients]
    #[arg(long = "consumer-client", value_name = "CLIENT")]
    clients: Vec<Client>,
    /// Bytes that the broker collects before it answers a Fetch of a consumer (`fetch.min.bytes`).
    #[arg(long, value_name = "SIZE", value_parser = size::<u32>(1, (1 << 31) - 1))]
    fetch_min_bytes: Option<u32>,
    /// Longest time that the broker collects them (`fetch.max.wait.ms`).
    #[arg(long, value_name = "TIME", value_parser = read_duration_s)]
    fetch_max_wait: Option<f64>,
    /// Most bytes of an answer (`fetch.max.bytes`).
    #[arg(long, value_name = "SIZE", value_parser = size::<u32>(1, (1 << 31) - 1))]
    fetch_max_bytes: Option<u32>,
    /// Most bytes of an answer for each partition (`max.partition.fetch.bytes`).
    #[arg(long, value_name = "SIZE", value_parser = size::<u32>(1, (1 << 31) - 1))]
    max_partition_fetch_bytes: Option<u32>,
    /// Rack of the consumer. It then reads from a replica in its rack (`client.rack`).
    #[arg(long, value_name = "RACK")]
    rack: Option<String>,
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let change = Change {
        min_bytes: arguments.fetch_min_bytes,
        max_wait_ms: arguments.fetch_max_wait.map(|wait_s| (1e3 * wait_s).round() as u32),
        max_bytes: arguments.fetch_max_bytes,
        partition_bytes: arguments.max_partition_fetch_bytes,
        rack: arguments.rack.clone(),
    };
    let clients = if arguments.clients.is_empty() { &Client::ALL[..] } else { &arguments.clients };
    let sheets = clients.iter().map(|client| sheet(*client, &change));
    let sheets = sheets.collect::<Result<Vec<Sheet>, _>>().map_err(|conflict| Usage(conflict.to_string()))?;
    cli.show_found("client-settings", &sheets, |sheets| hone_document::client_settings::text(sheets))
}

//! `hone batch xray`: reads the batches of topics and explains their size.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use hone_batch::xray::Depth;
use hone_cli::values::size;
use hone_format::read_duration_s;

use super::whatif::{Last, last};
use crate::cmd::context::{CliContext, ReportOptions, default_runs};
use hone_cli::connection::BrokerOptions;
use hone_document::xray as shown;
use hone_experiment::ending::Ending;
use hone_experiment::moment::now_ms;
use hone_tune::batch::advise::Replaying;
use hone_tune::batch::reading::Wish;
use hone_tune::batch::xray::{of_cluster, of_disk};

/// Show how large a topic's batches are, and why.
///
/// Hone reads the batch headers from the topic and needs only the right to read. If a topic is larger than --read-limit, Hone reads evenly
/// spread stretches of time. It decompresses a sample of the records, and neither stores nor shows them.
///
/// A verdict names what closed the batches, and the cheapest remedy. Hone also replays the records, as `hone batch whatif` does, and shows what
/// to set. It does so for the topics that you name, else for the eight with the most costly batches.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone batch xray broker-1:9092    # all topics, the most costly batches first
  hone batch xray broker-1:9092 orders clicks --last 1h
  hone batch xray broker-1:9093 orders --tls-ca ca.pem \\
    --sasl-mechanism SCRAM-SHA-512 --sasl-user ada
  hone batch xray broker-1:9092 orders --no-payload --json > orders.json
  hone batch xray --segments /var/lib/kafka/data")]
pub(crate) struct Arguments {
    /// Any broker of the cluster: HOST:PORT, or several, separated by commas.
    #[arg(value_name = "BROKER", conflicts_with = "segments")]
    broker: Option<String>,
    /// Topics to read. [default: all topics except the cluster's internal ones]
    #[arg(value_name = "TOPIC")]
    topics: Vec<String>,
    /// Read segment files (*.log) instead of a broker. Name files, or folders that contain them.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    segments: Vec<PathBuf>,
    /// Existing topic. Hone reads only this topic of --segments; repeat it for several. [default: all topics]
    #[arg(long = "topic", alias = "only", value_name = "TOPIC", requires = "segments")]
    only: Vec<String>,
    /// How far back from now to read. Examples: `15m`, `1h`. `all` reads everything, as does --segments without --last.
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = last)]
    last: Last,
    /// Bytes to read at most. This limit applies to each topic.
    #[arg(
        long = "read-limit",
        alias = "budget",
        value_name = "SIZE",
        default_value = "256MiB",
        value_parser = size::<u64>(1 << 20, 1 << 40)
    )]
    budget: u64,
    /// Time limit for reading. This limit applies to each topic.
    #[arg(
        long = "read-timeout",
        alias = "limit",
        value_name = "TIME",
        default_value = "60s",
        value_parser = read_duration_s
    )]
    limit: f64,
    /// Longest linger that the application tolerates. Hone suggests no longer linger.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = read_duration_s)]
    tolerable_linger: f64,
    /// Read batch headers only and never decompress records. Compression ratio and key statistics are then missing.
    #[arg(long)]
    no_payload: bool,
    /// Do not replay records. Hone then shows what closed the batches, but not what to set.
    #[arg(long)]
    no_replay: bool,
    /// Show all findings of every topic. Without it, Hone shows details only for the topics that you name, or for a single topic.
    #[arg(long)]
    detail: bool,
    /// Where to write the result. Hone creates the run's folder in this folder.
    #[arg(short, long, value_name = "PATH", default_value_os_t = default_runs())]
    output: PathBuf,
    #[command(flatten)]
    report: ReportOptions,
    #[command(flatten)]
    brokers: BrokerOptions,
}

/// Bytes of batches that Hone decompresses in each topic for a sample of the records.
const DECODE_BYTES: u64 = 8 << 20;

impl Arguments {
    fn depth(&self) -> Depth {
        Depth {
            decode_bytes: if self.no_payload { 0 } else { DECODE_BYTES },
            tolerable_linger_ms: 1e3 * self.tolerable_linger,
        }
    }

    /// The start of the time to read, in Unix milliseconds. Segment files are read whole unless --last limits them.
    fn since_ms(&self, cli: &CliContext) -> i64 {
        let given = self.last.0.filter(|_| cli.is_given("last"));
        given.map_or(i64::MIN, |last_s| now_ms() - (1e3 * last_s) as i64)
    }

    fn wish(&self) -> Wish {
        Wish {
            last_s: self.last.0,
            budget_bytes: self.budget,
            limit: Duration::from_secs_f64(self.limit.clamp(0.1, 1e6)),
            depth: self.depth(),
        }
    }

    fn replaying(&self) -> Replaying {
        Replaying {
            budget_bytes: self.budget,
            limit_s: self.limit,
            reads_records: !self.no_payload,
            tolerable_ms: 1e3 * self.tolerable_linger,
        }
    }
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let Arguments { segments, only, .. } = arguments;
    let mut topics = arguments.topics.clone();
    let (wish, progress) = (arguments.wish(), &cli.progress);
    let replaying = (!arguments.no_replay).then(|| arguments.replaying());
    let found = match segments.is_empty() {
        true => {
            let (brokers, named) = arguments.brokers.split(arguments.broker.as_deref(), &arguments.topics)?;
            topics = named;
            let security = arguments.brokers.security.security()?;
            of_cluster(&brokers, &topics, &wish, replaying.as_ref(), &security, progress)?
        }
        false => of_disk(segments, only, arguments.since_ms(cli), &wish, replaying.as_ref(), progress)?,
    };
    let is_short = !topics.is_empty() && found.topics.len() < topics.len();
    let is_detailed = arguments.detail || !topics.is_empty() || found.topics.len() == 1;
    let is_none = found.topics.is_empty();
    let places =
        arguments.report.keep(&arguments.output, ["batch-xray", "xray.json"], found.clone(), &cli.progress);
    cli.show(found, |found| format!("{}\n{places}", shown::text(found, is_detailed)))?;
    // A named topic that Hone could not read is in the notes.
    Ok(if is_short || is_none { Ending::CouldNot } else { Ending::Done })
}

//! `hone batch xray`: what is in a topic as it was written.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use hone_batch::xray::Depth;
use hone_format::read_duration_s;

use super::whatif::{Last, last};
use crate::cmd::context::CliContext;
use crate::cmd::security::SecurityOptions;
use hone_document::xray as shown;
use hone_experiment::ending::Ending;
use hone_experiment::moment::now_ms;
use hone_tune::batch::advise::Replaying;
use hone_tune::batch::reading::Wish;
use hone_tune::batch::xray::{of_cluster, of_disk};

/// Look into the batches of topics: how large, what closed them, by whom, and what follows.
///
/// Reads what was written, as raw Fetch answers and by the headers of the batches, with nothing but the right to read. Of a topic that is
/// larger than the budget, evenly spread stretches of time are read whole, and means have an interval. A sample of the records is unpacked
/// for its compression and its keys; nothing of it is kept or shown.
///
/// What closed a batch is told by evidence: sizes that end at a limit, times from first to last record that end at the linger, batches of
/// one broker's partitions that end together, counts that never change, single records at a beat. A verdict says what the matter is and the
/// cheapest thing to do; "do not raise linger" is one. Hone replays a topic's own records, as `hone batch whatif` does, and says what to set and
/// what that brings. It does so for the topics that you name, else for the eight whose batches cost most.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone batch xray broker-1:9092                            all topics, the one whose batches cost most first
  hone batch xray broker-1:9092 orders clicks --last 1h
  hone batch xray broker-1:9093 orders --tls-ca ca.pem --sasl-mechanism SCRAM-SHA-512 --sasl-user ada
  hone batch xray broker-1:9092 orders --no-payload --json > orders.json
  hone batch xray --segments /var/lib/kafka/data           on a broker's disk; Redpanda's, too")]
pub(crate) struct Arguments {
    /// host:port of any broker of the cluster, or several (host:port,host:port).
    #[arg(value_name = "BROKER", required_unless_present = "segments", conflicts_with = "segments")]
    broker: Option<String>,
    /// Topics; all that are not the cluster's own unless named.
    #[arg(value_name = "TOPIC")]
    topics: Vec<String>,
    /// Read segment files (*.log) instead: files, or folders with them below.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    segments: Vec<PathBuf>,
    /// With --segments, only this topic; may be repeated.
    #[arg(long, value_name = "TOPIC", requires = "segments")]
    only: Vec<String>,
    /// How far back: 15m, 1h; `all` is what is kept.
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = last)]
    last: Last,
    /// Mebibytes that are read of a topic at most.
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    budget: u64,
    /// How long a topic may take.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = read_duration_s)]
    limit: f64,
    /// The longest linger that the application tolerates; advice stays below it.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = read_duration_s)]
    tolerable_linger: f64,
    /// Never unpack a record: no compression ratio and nothing of keys.
    #[arg(long)]
    no_payload: bool,
    /// Replay no records. Findings then say what closed the batches, and not what a setting brings.
    #[arg(long)]
    no_replay: bool,
    /// Tell every topic with all that was found, whatever their number.
    #[arg(long)]
    detail: bool,
    #[command(flatten)]
    security: SecurityOptions,
}

/// Bytes of batches that are decoded for a sample of the records, of each topic.
const DECODE_BYTES: u64 = 8 << 20;

impl Arguments {
    fn depth(&self) -> Depth {
        Depth {
            decode_bytes: if self.no_payload { 0 } else { DECODE_BYTES },
            tolerable_linger_ms: 1e3 * self.tolerable_linger,
        }
    }

    /// Of segments all is read unless --last is given.
    fn since_ms(&self, cli: &CliContext) -> i64 {
        let given = self.last.0.filter(|_| cli.is_given("last"));
        given.map_or(i64::MIN, |last_s| now_ms() - (1e3 * last_s) as i64)
    }

    fn wish(&self) -> Wish {
        Wish {
            last_s: self.last.0,
            budget_bytes: self.budget << 20,
            limit: Duration::from_secs_f64(self.limit.clamp(0.1, 1e6)),
            depth: self.depth(),
        }
    }

    fn replaying(&self) -> Replaying {
        Replaying {
            budget_mib: self.budget,
            limit_s: self.limit,
            reads_records: !self.no_payload,
            tolerable_ms: 1e3 * self.tolerable_linger,
        }
    }
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let Arguments { topics, segments, only, .. } = arguments;
    let (wish, progress) = (arguments.wish(), &cli.progress);
    let replaying = (!arguments.no_replay).then(|| arguments.replaying());
    let found = match &arguments.broker {
        Some(broker) => {
            let security = arguments.security.security()?;
            of_cluster(broker, topics, &wish, replaying.as_ref(), &security, progress)?
        }
        None => of_disk(segments, only, arguments.since_ms(cli), &wish, replaying.as_ref(), progress)?,
    };
    let is_short = !arguments.topics.is_empty() && found.topics.len() < arguments.topics.len();
    let is_detailed = arguments.detail || !arguments.topics.is_empty() || found.topics.len() == 1;
    let is_none = found.topics.is_empty();
    cli.show(found, |found| shown::text(found, is_detailed))?;
    // One that was asked for by name and could not be looked into is said in the notes.
    Ok(if is_short || is_none { Ending::CouldNot } else { Ending::Done })
}

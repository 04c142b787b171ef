//! `hone batch xray`: what is in a topic as it was written.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use hone_batch::xray::Depth;
use hone_format::read_duration_s;
use hone_load::Topics;
use hone_record::{BatchXray, TopicXray};

use crate::cmd::context::CliContext;
use crate::cmd::security::SecurityOptions;
use hone_document::xray as shown;
use hone_experiment::ending::Ending;
use hone_experiment::moment::now_ms;
use hone_tune::batch::advise::{self, Records, Replaying};
use hone_tune::batch::reading::{self, Wish};
use hone_tune::batch::segments;

/// Bytes of batches that are decoded for a sample of the records, of each topic.
const DECODE_BYTES: u64 = 8 << 20;

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

/// How far back.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Last(Option<f64>);

fn last(text: &str) -> Result<Last, String> {
    if text == "all" {
        return Ok(Last(None));
    }
    let found = read_duration_s(text)?;
    if found > 0.0 { Ok(Last(Some(found))) } else { Err("it must be above 0".to_owned()) }
}

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

    /// Replays the topics whose batches cost most, or those that are named.
    fn advise(&self, topics: &mut [TopicXray], cli: &CliContext, mut records: impl FnMut(&mut TopicXray)) {
        if self.no_replay {
            return;
        }
        let named = !self.topics.is_empty() || !self.only.is_empty();
        let most = if named { usize::MAX } else { advise::MOST_REPLAYED };
        for topic in topics.iter_mut().filter(|topic| advise::is_open(topic)).take(most) {
            if hone_tool::interrupt::requested() {
                return;
            }
            cli.progress.doing(&format!("replaying {}", topic.topic));
            records(topic);
        }
    }
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let found = match &arguments.broker {
        Some(broker) => of_cluster(broker, arguments, cli)?,
        None => of_disk(arguments, cli)?,
    };
    let is_short = !arguments.topics.is_empty() && found.topics.len() < arguments.topics.len();
    let is_detailed = arguments.detail || !arguments.topics.is_empty() || found.topics.len() == 1;
    let is_none = found.topics.is_empty();
    cli.show(found, |found| shown::text(found, is_detailed))?;
    // One that was asked for by name and could not be looked into is said in the notes.
    Ok(if is_short || is_none { Ending::CouldNot } else { Ending::Done })
}

fn of_disk(arguments: &Arguments, cli: &CliContext) -> Result<BatchXray> {
    cli.progress.doing("reading segments");
    let segments::Seen { topics, files, internal } =
        segments::look(&arguments.segments, &arguments.only, arguments.since_ms(cli), arguments.depth())?;
    let (mut topics, replaying) = (ranked(topics), arguments.replaying());
    arguments.advise(&mut topics, cli, |topic| advise::advise(topic, Records::Files(&files), &replaying));
    let apart = || format!("internal topics, left out: {}; --only TOPIC looks into one", internal.join(", "));
    let notes = (!internal.is_empty()).then(apart).into_iter().collect();
    let paths: Vec<String> = arguments.segments.iter().map(|path| path.display().to_string()).collect();
    Ok(BatchXray { source: paths.join(", "), topics, notes })
}

fn of_cluster(broker: &str, arguments: &Arguments, cli: &CliContext) -> Result<BatchXray> {
    let mut cluster = Topics::enter(broker, &arguments.security.security()?)?;
    let (mut topics, mut notes) = (Vec::new(), Vec::new());
    let names = if arguments.topics.is_empty() { all(&mut cluster)? } else { arguments.topics.clone() };
    for (number, name) in names.iter().enumerate() {
        if hone_tool::interrupt::requested() {
            notes.push(format!(
                "interrupted: {} of {} topics were not looked into",
                names.len() - number,
                names.len()
            ));
            break;
        }
        cli.progress.doing(&format!("topic {} of {}: {name}", number + 1, names.len()));
        match reading::look(&mut cluster, name, &arguments.wish()) {
            Ok(found) => topics.push(found),
            // One that was named alone is all that was asked for.
            Err(error) if names.len() == 1 => return Err(error),
            Err(error) => notes.push(format!("{name}: {error:#}")),
        }
    }
    let (mut topics, replaying) = (ranked(topics), arguments.replaying());
    arguments
        .advise(&mut topics, cli, |topic| advise::advise(topic, Records::Cluster(&mut cluster), &replaying));
    Ok(BatchXray { source: broker.to_owned(), topics, notes })
}

fn all(cluster: &mut Topics) -> Result<Vec<String>> {
    let names: Vec<String> =
        cluster.list()?.into_iter().filter(|topic| !topic.is_internal).map(|topic| topic.topic).collect();
    if names.is_empty() {
        bail!("the cluster has no topic that may be seen; seeing one needs DESCRIBE on it");
    }
    Ok(names)
}

/// By the batches a second that would not be there if all were of 16 KiB.
fn ranked(mut topics: Vec<TopicXray>) -> Vec<TopicXray> {
    topics.sort_by(|one, other| {
        let needless = |topic: &TopicXray| topic.needless_batches_per_s().unwrap_or(0.0);
        needless(other).total_cmp(&needless(one)).then_with(|| one.topic.cmp(&other.topic))
    });
    topics
}

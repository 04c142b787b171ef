//! `hone batch watch`: shows live batch statistics from a cluster's own counters.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use hone_batch::metrics::quantity::By;
use hone_cli::connection::ConnectionName;
use hone_format::read_duration_s;
use hone_record::BatchWatch;
use hone_tool::interrupt;
use serde::Serialize;

use super::super::heatmap::look;
use super::metrics::Prometheus;
use crate::cmd::context::{CliContext, reader_is_gone};
use hone_document::batch_watch::{self as shown, Strip};
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::metered::{
    Admin, Brokers, Meter, Seen, add_clients, keep, next_look, open_kept, token_of, wait_until,
};

/// Bounds of --every and --duration, in seconds.
const LEAST_EVERY_S: f64 = 0.1;
const MOST_EVERY_S: f64 = 86_400.0;
const MOST_LENGTH_S: f64 = 366.0 * 86_400.0;

/// Show live batch statistics from the brokers' own counters.
///
/// Hone shows bytes and records per batch, batches per second by topic and core, CPU, network, fsyncs, produce latency and consumer lag. --by
/// splits the topics by broker or partition.
///
/// The figures come from the brokers' metrics pages (--metrics), or from a Prometheus server (--prometheus). Hone recognises Redpanda, Apache
/// Kafka with a JMX exporter, and the embedded broker. It runs until you press Ctrl-C.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone batch watch --metrics http://127.0.0.1:9644/metrics
  hone batch watch --metrics a:9644 --metrics b:9644   # two brokers
  hone batch watch --metrics a:9644/metrics --metrics a:9644/public_metrics \\
    --admin http://a:9644 --once
  hone batch watch --metrics a:9644 --by partition --every 1m --once
  hone batch watch --prometheus http://127.0.0.1:9090 --window 5m --once --json
  hone batch watch --prometheus http://127.0.0.1:9090 --queries
  hone batch watch --metrics a:9644 --every 1m --duration 12h \\
    -o history.jsonl && hone batch cost history.jsonl")]
pub(crate) struct Arguments {
    /// Metrics page of a broker; repeat it for each broker. `HOST:PORT` means http://HOST:PORT/metrics.
    #[arg(
        long = "metrics",
        alias = "scrape",
        value_name = "URL",
        required_unless_present_any = ["prometheus", "connection"],
        conflicts_with = "prometheus"
    )]
    scrape: Vec<String>,
    #[command(flatten)]
    named: ConnectionName,
    #[command(flatten)]
    from: Prometheus,
    /// Level of detail for topics: per topic, per broker, or per partition.
    #[arg(long, value_enum, default_value = "topic", value_name = "LEVEL")]
    by: Split,
    /// URL of Redpanda's Admin API. Redpanda 25.3 and newer report batches per client there.
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
    /// File with the bearer token for --admin. Hone never sends the token of --metrics-token-file to the Admin API.
    #[arg(long, value_name = "FILE", requires = "admin")]
    admin_token_file: Option<PathBuf>,
    /// Time from one sample to the next. With --metrics, rates are computed over this time.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = read_duration_s)]
    every: f64,
    /// How long to measure. [default: until you press Ctrl-C]
    #[arg(
        long = "duration",
        alias = "for",
        value_name = "TIME",
        value_parser = read_duration_s,
        conflicts_with = "once"
    )]
    length: Option<f64>,
    /// Take one sample and stop.
    #[arg(long)]
    once: bool,
    /// Where to write the result. Hone appends each sample to this file, one JSON record per line. `hone batch cost` and `hone batch plan`
    /// read it as history.
    #[arg(short = 'o', long = "output", alias = "keep", value_name = "PATH")]
    keep: Option<PathBuf>,
    /// Print the PromQL queries that the source can answer, and stop. Only with --prometheus.
    #[arg(long, requires = "prometheus")]
    queries: bool,
}

/// The level of detail for topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Split {
    /// By topic alone.
    Topic,
    /// By topic and broker.
    Broker,
    /// By topic, partition and broker.
    Partition,
}

impl From<Split> for By {
    fn from(split: Split) -> Self {
        match split {
            Split::Topic => Self::Topic,
            Split::Broker => Self::Broker,
            Split::Partition => Self::Partition,
        }
    }
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    check(arguments)?;
    if arguments.queries {
        return print_queries(arguments, cli);
    }
    let mut kept = arguments.keep.as_deref().map(open_kept).transpose()?;
    let mut meter = meter(arguments)?;
    let admin = arguments.admin()?;
    let begun = Instant::now();
    let every = Duration::from_secs_f64(arguments.every);
    let end = arguments.length.map(|length| begun + Duration::from_secs_f64(length));
    let mut strip = Strip::default();
    let (mut looks, mut planned) = (0_u32, begun);
    loop {
        match meter.look(arguments.by.into()) {
            Ok(Seen::First) => {}
            Ok(Seen::Figures(mut watch)) => {
                add_clients(&mut watch, admin.as_ref());
                looks += 1;
                strip.add(&watch);
                if let Some(file) = &mut kept {
                    keep(file, &watch)?;
                }
                show(*watch, &strip, arguments, cli)?;
            }
            Err(_) if interrupt::requested() => break,
            // After a first sample, Hone waits for a broker that is away for a while.
            Err(error) if looks > 0 && !arguments.once => {
                cli.progress.line(&format!("no sample: {error:#}"));
            }
            Err(error) => return Err(error),
        }
        if (arguments.once && looks > 0) || (reader_is_gone() && kept.is_none()) {
            break;
        }
        planned = next_look(planned, every, Instant::now());
        // --duration ends the run exactly, so no sample follows its end.
        let before = end.filter(|end| *end < planned);
        if !wait_until(before.unwrap_or(planned)) || before.is_some() {
            break;
        }
    }
    if looks == 0 && !interrupt::requested() {
        bail!(
            "--duration ended before the second sample, and a rate needs two samples\n  \
             next: use a --duration that is longer than --every"
        );
    }
    if looks == 0 && arguments.once {
        bail!("interrupted before the second sample, and a rate needs two samples");
    }
    Ok(Ending::Done)
}

/// Checks that --every and --duration are in range.
fn check(arguments: &Arguments) -> Result<()> {
    if !(LEAST_EVERY_S..=MOST_EVERY_S).contains(&arguments.every) {
        return Err(Usage(
            "--every is out of range: use 100ms to 24h, because counters need time to change".to_owned(),
        )
        .into());
    }
    if arguments.length.is_some_and(|length| !(0.0..=MOST_LENGTH_S).contains(&length)) {
        return Err(Usage("--duration is out of range: use at most 8784h, which is a year".to_owned()).into());
    }
    Ok(())
}

fn meter(arguments: &Arguments) -> Result<Meter> {
    Ok(match arguments.from.server()? {
        Some(server) => Meter::Server(server),
        None => Meter::Brokers(Brokers::at(&arguments.pages()?, arguments.from.token()?.as_deref())?),
    })
}

impl Arguments {
    /// The metrics pages of the command line, or else those of the connection.
    fn pages(&self) -> Result<Vec<String>> {
        let pages = if self.scrape.is_empty() { self.named.open()?.metrics } else { self.scrape.clone() };
        if pages.is_empty() {
            bail!(Usage("the connection names no metrics page\n  next: add --metrics URL".to_owned()));
        }
        Ok(pages)
    }

    fn admin(&self) -> Result<Option<Admin>> {
        let token = self.admin_token_file.as_deref().map(token_of).transpose()?;
        self.admin.as_ref().map(|address| Admin::at(address, token.as_deref())).transpose()
    }
}

/// Shows a sample. On a terminal it replaces the last one.
fn show(watch: BatchWatch, strip: &Strip, arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let look = look();
    let repaints = !arguments.once && std::io::stdout().is_terminal();
    cli.show(watch, |watch| {
        let text = shown::text(watch, strip, &look);
        if repaints { format!("\u{1b}[H\u{1b}[2J{text}") } else { format!("{text}\n") }
    })
}

/// A query that the server can answer.
#[derive(Serialize)]
struct Told {
    id: &'static str,
    title: &'static str,
    promql: String,
}

fn print_queries(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let server = arguments.from.server()?.context("--queries needs a Prometheus server (--prometheus)")?;
    let queries = server.queries()?;
    let told: Vec<Told> = queries.into_iter().map(|(id, title, promql)| Told { id, title, promql }).collect();
    cli.show_found("queries", &told, |told| {
        told.iter().map(|Told { id, title, promql }| format!("# {id} {title}\n{promql}\n")).collect()
    })
}

//! `hone batch watch`: batches by a cluster's own counters, as they go.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use hone_batch::metrics::quantity::By;
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

/// Bounds of --every and --for, in seconds.
const LEAST_EVERY_S: f64 = 0.1;
const MOST_EVERY_S: f64 = 86_400.0;
const MOST_LENGTH_S: f64 = 366.0 * 86_400.0;

/// Show batches by topic and core as the brokers count them, until it is interrupted.
///
/// Bytes and records a batch, batches a second by topic and by core, what waits in front of the CPU and how busy each core is, the network,
/// how many bytes go to the disk for each that was written, and how often it is flushed. Percentiles of the produce latency as the broker
/// measures it, acknowledgements that timed out, and the lag of consumer groups. --by splits the topics by broker or by partition. Out of the brokers' own pages (--scrape, twice, with
/// a while between), or out of a Prometheus server that scrapes them. Redpanda (internal and public endpoint), Apache Kafka through a JMX
/// exporter, and the embedded broker are told by the names of their metrics. What a source does not export is called so, and is never a 0.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone batch watch --scrape http://127.0.0.1:9644/metrics            a Redpanda, every 5 s
  hone batch watch --scrape a:9644 --scrape b:9644 --scrape c:9644   a cluster of three
  hone batch watch --scrape a:9644/metrics --scrape a:9644/public_metrics --admin http://a:9644 --once
  hone batch watch --scrape a:9644 --by partition --every 1m --once  each partition's batches
  hone batch watch --prometheus http://127.0.0.1:9090 --window 5m --once --json
  hone batch watch --prometheus http://127.0.0.1:9090 --queries      the PromQL of all of it
  hone batch watch --scrape a:9644 --every 1m --for 12h --keep looks.jsonl && hone batch cost looks.jsonl")]
pub(crate) struct Arguments {
    /// A broker's page of metrics; once for each broker. `HOST:PORT` stands for http://HOST:PORT/metrics.
    #[arg(long, value_name = "URL", required_unless_present = "prometheus", conflicts_with = "prometheus")]
    scrape: Vec<String>,
    #[command(flatten)]
    from: Prometheus,
    /// Split the topics by broker, or by broker and partition.
    #[arg(long, value_enum, default_value = "topic")]
    by: Split,
    /// Redpanda's Admin API, which tells batches by client from 25.3 on.
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
    /// A file with a token for --admin alone; that of --token-file is not shown to it.
    #[arg(long, value_name = "FILE", requires = "admin")]
    admin_token_file: Option<PathBuf>,
    /// A look every so often; with --scrape also the time that rates are over.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = read_duration_s)]
    every: f64,
    /// End after this time.
    #[arg(long = "for", value_name = "TIME", value_parser = read_duration_s, conflicts_with = "once")]
    length: Option<f64>,
    /// One look, and end.
    #[arg(long)]
    once: bool,
    /// Append every look to this file, one record on each line: the history that `hone batch cost` reads.
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Print the PromQL of all that the source can answer, and end; for --prometheus.
    #[arg(long, requires = "prometheus")]
    queries: bool,
}

/// How far topics are split.
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
            // Once it has worked, a broker that is away for a while is no reason to end.
            Err(error) if looks > 0 && !arguments.once => {
                cli.progress.line(&format!("no look: {error:#}"));
            }
            Err(error) => return Err(error),
        }
        if (arguments.once && looks > 0) || (reader_is_gone() && kept.is_none()) {
            break;
        }
        planned = next_look(planned, every, Instant::now());
        // Whoever asks for a length gets it, and no look behind it.
        let before = end.filter(|end| *end < planned);
        if !wait_until(before.unwrap_or(planned)) || before.is_some() {
            break;
        }
    }
    if looks == 0 && !interrupt::requested() {
        bail!(
            "--for ended before the second look, and one look at counters makes no rate: give it more than --every"
        );
    }
    if looks == 0 && arguments.once {
        bail!("interrupted before the second look, and one look at counters makes no rate");
    }
    Ok(Ending::Done)
}

/// What no clock can hold, and what counters can't tell.
fn check(arguments: &Arguments) -> Result<()> {
    if !(LEAST_EVERY_S..=MOST_EVERY_S).contains(&arguments.every) {
        return Err(Usage(
            "--every must lie between 100ms, as counters need time to move, and 24h".to_owned(),
        )
        .into());
    }
    if arguments.length.is_some_and(|length| !(0.0..=MOST_LENGTH_S).contains(&length)) {
        return Err(Usage("--for must lie between 0s and 8784h, which is a year".to_owned()).into());
    }
    Ok(())
}

fn meter(arguments: &Arguments) -> Result<Meter> {
    Ok(match arguments.from.server()? {
        Some(server) => Meter::Server(server),
        None => Meter::Brokers(Brokers::at(&arguments.scrape, arguments.from.token()?.as_deref())?),
    })
}

impl Arguments {
    fn admin(&self) -> Result<Option<Admin>> {
        let token = self.admin_token_file.as_deref().map(token_of).transpose()?;
        self.admin.as_ref().map(|address| Admin::at(address, token.as_deref())).transpose()
    }
}

/// In place of the last one where this is a terminal.
fn show(watch: BatchWatch, strip: &Strip, arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let look = look();
    let repaints = !arguments.once && std::io::stdout().is_terminal();
    cli.show(watch, |watch| {
        let text = shown::text(watch, strip, &look);
        if repaints { format!("\u{1b}[H\u{1b}[2J{text}") } else { format!("{text}\n") }
    })
}

/// A query that the server's metrics can answer.
#[derive(Serialize)]
struct Told {
    id: &'static str,
    title: &'static str,
    promql: String,
}

fn print_queries(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let server = arguments.from.server()?.context("no Prometheus server is named")?;
    let queries = server.queries()?;
    let told: Vec<Told> = queries.into_iter().map(|(id, title, promql)| Told { id, title, promql }).collect();
    cli.show_found("queries", &told, |told| {
        told.iter().map(|Told { id, title, promql }| format!("# {id} {title}\n{promql}\n")).collect()
    })
}

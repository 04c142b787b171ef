//! `hone batch watch`: batches by a cluster's own counters, as they go.

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use hone_record::{BatchWatch, Envelope};
use hone_store::web::Web;
use hone_tool::interrupt;

use super::super::heatmap::look;
use super::super::{Desk, print};
use super::metrics::Prometheus;
use crate::metered::{Brokers, Meter, Seen, add_clients};
use crate::notation::seconds;
use crate::show::batch_watch::{self as shown, Strip};
use crate::{Ending, Usage};

/// So often a wait looks whether somebody wants it to end.
const STEP: Duration = Duration::from_millis(50);

/// Show batches by topic and core as the brokers count them, until it is interrupted.
///
/// Bytes and records a batch, batches a second by topic and by core, what waits in front of the CPU and how busy each core is, the network,
/// how many bytes go to the disk for each that was written, and how often it is flushed. Out of the brokers' own pages (--scrape, twice, with
/// a while between), or out of a Prometheus server that scrapes them. Redpanda (internal and public endpoint), Apache Kafka through a JMX
/// exporter, and the embedded broker are told by the names of their metrics. What a source does not export is called so, and is never a 0.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone batch watch --scrape http://127.0.0.1:9644/metrics            a Redpanda, every 5 s
  hone batch watch --scrape a:9644 --scrape b:9644 --scrape c:9644   a cluster of three
  hone batch watch --scrape a:9644/metrics --scrape a:9644/public_metrics --admin http://a:9644 --once
  hone batch watch --prometheus http://127.0.0.1:9090 --window 5m --once --json
  hone batch watch --prometheus http://127.0.0.1:9090 --queries      the PromQL of all of it
  hone batch watch --scrape a:9644 --every 1m --for 12h --keep looks.jsonl && hone batch cost looks.jsonl")]
pub(crate) struct Arguments {
    /// A broker's page of metrics; once for each broker. `HOST:PORT` stands for http://HOST:PORT/metrics.
    #[arg(long, value_name = "URL", required_unless_present = "prometheus", conflicts_with = "prometheus")]
    scrape: Vec<String>,
    #[command(flatten)]
    from: Prometheus,
    /// Redpanda's Admin API, which tells batches by client from 25.3 on.
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
    /// A look every so often; with --scrape also the time that rates are over.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = seconds)]
    every: f64,
    /// End after this time.
    #[arg(long = "for", value_name = "TIME", value_parser = seconds, conflicts_with = "once")]
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

pub(crate) fn run(arguments: &Arguments, desk: &Desk) -> Result<Ending> {
    if arguments.every < 0.1 {
        return Err(Usage("--every can't be less than 100ms: counters need time to move".to_owned()).into());
    }
    if arguments.queries {
        return print_queries(arguments, desk);
    }
    let mut keep = arguments.keep.as_deref().map(open).transpose()?;
    let mut meter = meter(arguments)?;
    let begun = Instant::now();
    let every = Duration::from_secs_f64(arguments.every);
    let end = arguments.length.map(|length| begun + Duration::from_secs_f64(length));
    let mut strip = Strip::default();
    let (mut looks, mut missed) = (0_u32, 0_u32);
    for turn in 1_u32.. {
        match meter.look() {
            Ok(Seen::First) => {}
            Ok(Seen::Figures(mut watch)) => {
                add_clients(&mut watch, web(&meter), arguments.admin.as_deref());
                looks += 1;
                strip.add(&watch);
                if let Some(file) = &mut keep {
                    append(file, &watch)?;
                }
                show(*watch, &strip, arguments, desk)?;
            }
            Err(_) if interrupt::requested() => break,
            // Once it has worked, a broker that is away for a while is no reason to end.
            Err(error) if looks > 0 && !arguments.once => {
                missed += 1;
                desk.progress.line(&format!("no look: {error:#}"));
            }
            Err(error) => return Err(error),
        }
        let is_over = end.is_some_and(|end| Instant::now() >= end);
        if (arguments.once && looks > 0) || is_over || !wait_until(begun + every * turn) {
            break;
        }
    }
    Ok(if looks > 0 || missed == 0 { Ending::Done } else { Ending::CouldNot })
}

fn meter(arguments: &Arguments) -> Result<Meter> {
    Ok(match arguments.from.server()? {
        Some(server) => Meter::Server(server),
        None => Meter::Brokers(Brokers::at(&arguments.scrape, arguments.from.token()?.as_deref())?),
    })
}

fn web(meter: &Meter) -> &Web {
    match meter {
        Meter::Brokers(brokers) => brokers.web(),
        Meter::Server(server) => server.web(),
    }
}

fn open(path: &Path) -> Result<File> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.with_context(|| format!("{} can't be written", path.display()))
}

/// On one line, so that looks can be appended for days and the file is still read line by line.
fn append(file: &mut File, watch: &BatchWatch) -> Result<()> {
    let line = serde_json::to_string(&Envelope::new(watch.clone()))?;
    writeln!(file, "{line}").context("the look can't be kept")
}

/// In place of the last one where this is a terminal.
fn show(watch: BatchWatch, strip: &Strip, arguments: &Arguments, desk: &Desk) -> Result<()> {
    let look = look();
    let repaints = !arguments.once && std::io::stdout().is_terminal();
    desk.show(watch, |watch| {
        let text = shown::text(watch, strip, &look);
        if repaints { format!("\u{1b}[H\u{1b}[2J{text}") } else { format!("{text}\n") }
    })
}

fn print_queries(arguments: &Arguments, desk: &Desk) -> Result<Ending> {
    let server = arguments.from.server()?.context("no Prometheus server is named")?;
    let queries = server.queries()?;
    desk.progress.clear();
    for (id, title, text) in queries {
        print(&format!("# {id} {title}\n{text}\n"))?;
    }
    Ok(Ending::Done)
}

/// Whether the time came, and nobody ended the wait.
fn wait_until(time: Instant) -> bool {
    while !interrupt::requested() {
        let left = time.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(STEP));
    }
    false
}

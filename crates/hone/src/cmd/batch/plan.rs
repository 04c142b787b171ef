//! `hone batch plan`: whether one cluster holds a larger flow, or two are needed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use hone_batch::cost::{self, Model, Point};
use hone_batch::metrics::quantity::By;
use hone_batch::plan::{Known, PlanSettings, looks, plan};
use hone_batch::whatif::predict::Change;
use hone_cli::values::{not_negative, size};
use hone_format::{read_duration_s, read_number, read_throughput};
use hone_load::{Listed, Topics};
use hone_record::{BatchPlan, BatchWatch, PlanAnswer, WhatIf};
use hone_tool::interrupt;

use super::metrics::Prometheus;
use super::whatif::{Last, TodayOptions, last};
use crate::cmd::context::CliContext;
use hone_cli::connection::BrokerOptions;
use hone_document::batch_plan as shown;
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::metered::{Meter, Seen, kept, points};
use hone_experiment::notation::share;
use hone_tune::batch::advise::MOST_REPLAYED;
use hone_tune::batch::replaying::{self, Question, Wish};

/// A fixed seed, so that the same records and history give the same answer.
const SEED: u64 = 1;
/// The largest growth that the prediction covers.
const MOST_GROWTH: f64 = 100.0;

/// Predict whether one cluster holds a larger flow.
///
/// Hone replays the records of the topics N times as dense (see `hone batch whatif`). The cluster's history gives the CPU cost of the work (see
/// `hone batch cost`).
///
/// Exit code 0: one cluster holds the flow, or the answer is inconclusive. Exit code 3: one cluster does not hold the flow.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone batch plan broker-1:9092 --grow 2 --prometheus http://127.0.0.1:9090 \\
    --network-bandwidth 10Gbit --disk-bandwidth 1GiB/s
  hone batch plan broker-1:9092 orders clicks --grow 1.5 --cores 24 \\
    --history history.jsonl
  hone batch plan broker-1:9092 orders --grow 3 --new-producers --cores 24 \\
    --history history.jsonl")]
pub(crate) struct Arguments {
    /// Any broker of the cluster: HOST:PORT, or several, separated by commas.
    #[arg(value_name = "BROKER")]
    broker: Option<String>,
    /// Topics to read. [default: the eight topics with most batches if the history has counters, else all topics]
    #[arg(value_name = "TOPIC")]
    topics: Vec<String>,
    /// Factor by which the flow grows.
    #[arg(long, value_name = "N", default_value = "2", value_parser = grow)]
    grow: f64,
    /// Assume that new producers like today's bring the additional flow. Without it, Hone assumes that the same producers send more.
    #[arg(long)]
    new_producers: bool,
    /// How far back from now to read. Examples: `5m`, `1h`. `all` reads everything that the topic holds.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = last)]
    last: Last,
    /// Bytes to read at most. This limit applies to each topic.
    #[arg(
        long = "read-limit",
        alias = "budget",
        value_name = "SIZE",
        default_value = "512MiB",
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
    /// Time limit for the replay. This limit applies to each topic.
    #[arg(
        long = "replay-timeout",
        alias = "replay-limit",
        value_name = "TIME",
        default_value = "10m",
        value_parser = read_duration_s
    )]
    replay_limit: f64,
    #[command(flatten)]
    ceilings: CeilingOptions,
    #[command(flatten)]
    history: HistoryOptions,
    #[command(flatten)]
    today: TodayOptions,
    #[command(flatten)]
    brokers: BrokerOptions,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Capacity of the cluster")]
struct CeilingOptions {
    /// Number of cores of all brokers together. [default: taken from the counters]
    #[arg(long, value_name = "N", value_parser = above_zero)]
    cores: Option<f64>,
    /// Largest share of the cores that the mean flow may use. The busiest point of the history may use all cores.
    #[arg(long, value_name = "SHARE", default_value = "70%", value_parser = share)]
    max_cpu: f64,
    /// Network bandwidth of each broker in one direction. Examples: `10Gbit`, `1.25GB/s`. Without it, Hone prints the bandwidth that each
    /// broker needs.
    #[arg(long = "network-bandwidth", alias = "network", value_name = "RATE", value_parser = read_throughput)]
    network: Option<f64>,
    /// Write bandwidth of each broker's disk. Example: `1GiB/s`. Without it, Hone prints the bandwidth that each broker needs.
    #[arg(long = "disk-bandwidth", alias = "disk", value_name = "RATE", value_parser = read_throughput)]
    disk: Option<f64>,
    /// Number of times that consumers read each byte. [default: taken from the counters, else 1]
    #[arg(long, value_name = "N", value_parser = not_negative)]
    fan_out: Option<f64>,
    /// Replicas of each partition, the leader included. [default: as the topics have them]
    #[arg(long, value_name = "REPLICAS", value_parser = clap::value_parser!(u32).range(1..=100))]
    replication_factor: Option<u32>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "History of the cluster, for the CPU")]
struct HistoryOptions {
    /// History file that `hone batch watch --output` wrote; repeat it for several.
    #[arg(long, value_name = "FILE", conflicts_with = "prometheus")]
    history: Vec<PathBuf>,
    #[command(flatten)]
    from: Prometheus,
    /// Length of the history to query. Only with --prometheus.
    #[arg(
        long = "history-length",
        alias = "history-last",
        value_name = "TIME",
        default_value = "6h",
        value_parser = read_duration_s
    )]
    history_last: f64,
    /// Resolution of the history to query. Only with --prometheus.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = read_duration_s)]
    history_step: f64,
}

fn above_zero(text: &str) -> Result<f64, String> {
    read_number(text)
        .and_then(|found| if found > 0.0 { Ok(found) } else { Err("it must be above 0".to_owned()) })
}

fn grow(text: &str) -> Result<f64, String> {
    let found = read_number(text.trim().trim_end_matches(['x', 'X']))?;
    if found > 1.0 && found <= MOST_GROWTH {
        Ok(found)
    } else {
        Err(format!("it must be above 1 and at most {MOST_GROWTH}"))
    }
}

/// The history of the cluster's counters, and the mean of its samples.
#[derive(Debug, Default)]
struct History {
    points: Vec<Point>,
    watch: Option<BatchWatch>,
}

impl HistoryOptions {
    fn read(&self) -> Result<Option<History>> {
        if let Some(server) = self.from.server()? {
            if self.history_step <= 0.0 || self.history_last < self.history_step {
                bail!(Usage(
                    "--history-length is too short: it must span several times --history-step\n  \
                     next: use a longer --history-length, for example 6h"
                        .to_owned()
                ));
            }
            let (_, points) = server.history(self.history_last, self.history_step)?;
            let watch = match Meter::Server(server).look(By::Topic)? {
                Seen::Figures(watch) => Some(*watch),
                Seen::First => None,
            };
            return Ok(Some(History { points, watch }));
        }
        if self.history.is_empty() {
            return Ok(None);
        }
        let kept = kept(&self.history)?;
        Ok(Some(History { points: points(&kept), watch: looks::mean(&kept) }))
    }
}

/// The topics that Hone read, with notes on those that it could not read.
#[derive(Debug, Default)]
struct Read {
    topics: Vec<WhatIf>,
    /// Replicas of each topic's partitions.
    replicas: Vec<usize>,
    brokers: usize,
    notes: Vec<String>,
}

impl Read {
    /// Mean number of replicas per byte, weighted by the bytes of the topics.
    fn replicas(&self) -> f64 {
        let weighed = || {
            self.topics.iter().map(|topic| topic.today.bytes_per_s.max(f64::MIN_POSITIVE)).zip(&self.replicas)
        };
        let bytes: f64 = weighed().map(|(bytes, _)| bytes).sum();
        weighed().map(|(bytes, replicas)| bytes * (*replicas).max(1) as f64).sum::<f64>() / bytes
    }
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    cli.progress.doing("reading the history");
    let history = arguments.history.read()?;
    let watch = history.as_ref().and_then(|history| history.watch.as_ref());
    let (brokers, topics) = arguments.brokers.split(arguments.broker.as_deref(), &arguments.topics)?;
    let read = read(arguments, (&brokers, &topics), watch, cli)?;
    let (model, unfit) = match history.as_ref().map(|history| cost::fit(&history.points, SEED)) {
        Some(Ok(model)) => (Some(model), None),
        Some(Err(why)) => (None, Some(format!("Hone can't fit the CPU cost to the history: {why}"))),
        None => (None, None),
    };
    let mut found = planned(arguments, brokers, &read, model.as_ref(), watch);
    found.notes.splice(0..0, unfit.into_iter().chain(read.notes));
    let ending = match found.answer {
        PlanAnswer::DoesNotHold => Ending::Worse,
        PlanAnswer::Holds | PlanAnswer::Inconclusive => Ending::Done,
    };
    cli.show(found, shown::text)?;
    Ok(ending)
}

fn planned(
    arguments: &Arguments,
    target: String,
    read: &Read,
    model: Option<&Model>,
    watch: Option<&BatchWatch>,
) -> BatchPlan {
    let ceilings = &arguments.ceilings;
    let asked = PlanSettings {
        target,
        grow: arguments.grow,
        new_producers: arguments.new_producers,
        max_cpu: ceilings.max_cpu,
        cores: ceilings.cores,
        network: ceilings.network,
        disk: ceilings.disk,
        fan_out: ceilings.fan_out,
        replicas: ceilings.replication_factor.map_or_else(|| read.replicas(), f64::from),
        brokers: read.brokers as f64,
    };
    plan(&asked, &Known { topics: &read.topics, model, watch })
}

fn read(
    arguments: &Arguments,
    (brokers, topics): (&str, &[String]),
    watch: Option<&BatchWatch>,
    cli: &CliContext,
) -> Result<Read> {
    let mut cluster = Topics::enter(brokers, &arguments.brokers.security.security()?)?;
    let listed = cluster.list()?;
    let names = names(topics, watch, &listed)?;
    let replicas: BTreeMap<String, usize> =
        listed.into_iter().map(|listed| (listed.topic, listed.replicas)).collect();
    let mut read = Read::default();
    for (number, name) in names.iter().enumerate() {
        if interrupt::requested() {
            bail!("interrupted before Hone had read all topics");
        }
        cli.progress.doing(&format!("reading topic {} of {}: {name}", number + 1, names.len()));
        match replayed(arguments, &mut cluster, name) {
            Ok((topic, brokers)) => {
                read.brokers = read.brokers.max(brokers);
                read.replicas.push(replicas.get(name).copied().unwrap_or(1));
                read.topics.push(topic);
            }
            // With a single topic, its error is the result.
            Err(error) if names.len() == 1 => return Err(error),
            Err(error) => read.notes.push(format!("{name} has no prediction of its own: {error:#}")),
        }
    }
    if read.topics.is_empty() {
        bail!("Hone could not read any topic:\n  {}", read.notes.join("\n  "));
    }
    Ok(read)
}

/// The named topics. Without names, the topics with most batches if counters show them, else all topics.
fn names(topics: &[String], watch: Option<&BatchWatch>, listed: &[Listed]) -> Result<Vec<String>> {
    if !topics.is_empty() {
        return Ok(topics.to_vec());
    }
    let users = listed.iter().filter(|topic| !topic.is_internal);
    let names: Vec<String> = users.map(|topic| topic.topic.clone()).collect();
    if names.is_empty() {
        bail!(
            "the cluster shows no topic to you: Hone needs the right DESCRIBE on a topic\n  \
             next: grant DESCRIBE to this user, or log in with --sasl-user"
        );
    }
    let busiest: Vec<String> =
        watch.map(|watch| watch.topics.iter().map(|topic| topic.topic.clone()).collect()).unwrap_or_default();
    let counted: Vec<String> =
        busiest.into_iter().filter(|topic| names.contains(topic)).take(MOST_REPLAYED).collect();
    Ok(if counted.is_empty() { names } else { counted })
}

/// Replays a topic with the larger flow from the same producers. Also returns the number of brokers that lead its partitions.
fn replayed(arguments: &Arguments, cluster: &mut Topics, name: &str) -> Result<(WhatIf, usize)> {
    let wish = Wish::usual(arguments.last.0, arguments.budget, arguments.limit, true);
    let window = replaying::of_cluster(cluster, name, &wish)?;
    let brokers =
        window.leads.as_ref().and_then(|leads| leads.iter().max()).map_or(1, |last| *last as usize + 1);
    let question = Question {
        told: arguments.today.told(),
        change: Change { denser: Some(arguments.grow), ..Change::default() },
        seed: SEED,
        tolerable_ms: 0.0,
        limit_s: arguments.replay_limit,
    };
    Ok((replaying::replayed(window, &question)?, brokers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_grows_by_more_than_one() {
        assert_eq!((grow("2"), grow("1.5x")), (Ok(2.0), Ok(1.5)));
        for text in ["1", "0", "-2", "101", "NaN", "two"] {
            assert!(grow(text).is_err(), "{text}");
        }
    }
}

//! `hone batch plan`: one cluster or two.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use hone_batch::cost::{self, Model, Point};
use hone_batch::metrics::quantity::By;
use hone_batch::plan::{Known, PlanSettings, looks, plan};
use hone_batch::whatif::predict::Change;
use hone_format::{read_duration_s, read_number, read_throughput};
use hone_load::{Listed, Topics};
use hone_record::{BatchPlan, BatchWatch, PlanAnswer, WhatIf};
use hone_tool::interrupt;

use super::metrics::Prometheus;
use super::whatif::{Last, TodayOptions, last};
use crate::cmd::context::CliContext;
use crate::cmd::security::SecurityOptions;
use hone_document::batch_plan as shown;
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::metered::{Meter, Seen, kept, points};
use hone_experiment::notation::share;
use hone_tune::batch::advise::MOST_REPLAYED;
use hone_tune::batch::replaying::{self, Question, Wish};

/// The same records and history give the same answer.
const SEED: u64 = 1;
/// A flow that grows more is another cluster's.
const MOST_GROWTH: f64 = 100.0;

/// Predict whether one cluster holds a larger flow, or two are needed.
///
/// Hone replays the records of the topics N times as dense, by the rules of the client that wrote them (`hone batch whatif`). CPU follows from what
/// work costs by the cluster's history (`hone batch cost`), network and disk from the bytes. The answer names the assumption that moves it most.
///
/// Exit code: 0 when one cluster holds the flow and when the answer is inconclusive, 3 when it does not hold it.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone batch plan broker-1:9092 --grow 2 --prometheus http://127.0.0.1:9090 --network 10Gbit --disk 1GiB/s
  hone batch plan broker-1:9092 orders clicks --grow 1.5 --history looks.jsonl --cores 24
  hone batch plan broker-1:9092 orders --grow 3 --new-producers --history looks.jsonl --cores 24")]
pub(crate) struct Arguments {
    /// host:port of any broker of the cluster, or several (host:port,host:port).
    #[arg(value_name = "BROKER")]
    broker: String,
    /// The topics. Without any, Hone reads all of them, or the eight with most batches where counters show those.
    #[arg(value_name = "TOPIC")]
    topics: Vec<String>,
    /// How many times today's flow.
    #[arg(long, value_name = "N", default_value = "2", value_parser = grow)]
    grow: f64,
    /// New producers like today's bring the flow. Without it, the same producers send more.
    #[arg(long)]
    new_producers: bool,
    /// How far back from now to read records: 5m, 1h; `all` is what is kept.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = last)]
    last: Last,
    /// Mebibytes to read of a topic at most.
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    budget: u64,
    /// How long reading a topic may take.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = read_duration_s)]
    limit: f64,
    /// How long replaying a topic may take.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = read_duration_s)]
    replay_limit: f64,
    #[command(flatten)]
    ceilings: CeilingOptions,
    #[command(flatten)]
    history: HistoryOptions,
    #[command(flatten)]
    today: TodayOptions,
    #[command(flatten)]
    security: SecurityOptions,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "What the cluster has")]
struct CeilingOptions {
    /// Cores of all brokers; as the counters show it unless given.
    #[arg(long, value_name = "N", value_parser = above_zero)]
    cores: Option<f64>,
    /// Share of the cores that the mean flow may take. The busiest point of the history may take all of them.
    #[arg(long, value_name = "SHARE", default_value = "70%", value_parser = share)]
    max_cpu: f64,
    /// Network of each broker in one direction: 10Gbit, 1.25GB/s.
    #[arg(long, value_name = "RATE", value_parser = read_throughput)]
    network: Option<f64>,
    /// What the disk of each broker writes: 1GiB/s.
    #[arg(long, value_name = "RATE", value_parser = read_throughput)]
    disk: Option<f64>,
    /// How often consumers read each byte; as the counters show it unless given, else 1.
    #[arg(long, value_name = "K", value_parser = not_negative)]
    fan_out: Option<f64>,
    /// Replicas of each partition, with the leader; as the topics have them unless given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    replication_factor: Option<u32>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "The cluster's history, for the CPU")]
struct HistoryOptions {
    /// Looks that `hone batch watch --keep` wrote; may be repeated.
    #[arg(long, value_name = "FILE", conflicts_with = "prometheus")]
    history: Vec<PathBuf>,
    #[command(flatten)]
    from: Prometheus,
    /// The history's length; for --prometheus.
    #[arg(long, value_name = "TIME", default_value = "6h", value_parser = read_duration_s)]
    history_last: f64,
    /// The history's steps; for --prometheus.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = read_duration_s)]
    history_step: f64,
}

fn not_negative(text: &str) -> Result<f64, String> {
    read_number(text)
        .and_then(|found| if found >= 0.0 { Ok(found) } else { Err("it must not be negative".to_owned()) })
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

/// What the cluster's counters say.
#[derive(Debug, Default)]
struct History {
    points: Vec<Point>,
    watch: Option<BatchWatch>,
}

impl HistoryOptions {
    fn read(&self) -> Result<Option<History>> {
        if let Some(server) = self.from.server()? {
            if self.history_step <= 0.0 || self.history_last < self.history_step {
                bail!(Usage("--history-last must hold several of --history-step".to_owned()));
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

/// Topics that were read, and why others were not.
#[derive(Debug, Default)]
struct Read {
    topics: Vec<WhatIf>,
    /// Replicas of each topic's partitions.
    replicas: Vec<usize>,
    brokers: usize,
    notes: Vec<String>,
}

impl Read {
    /// Replicas of a byte: the mean of the topics by their bytes.
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
    let read = read(arguments, watch, cli)?;
    let (model, unfit) = match history.as_ref().map(|history| cost::fit(&history.points, SEED)) {
        Some(Ok(model)) => (Some(model), None),
        Some(Err(why)) => (None, Some(format!("the history gives no cost of work: {why}"))),
        None => (None, None),
    };
    let mut found = planned(arguments, &read, model.as_ref(), watch);
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
    read: &Read,
    model: Option<&Model>,
    watch: Option<&BatchWatch>,
) -> BatchPlan {
    let ceilings = &arguments.ceilings;
    let asked = PlanSettings {
        target: arguments.broker.clone(),
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

fn read(arguments: &Arguments, watch: Option<&BatchWatch>, cli: &CliContext) -> Result<Read> {
    let mut cluster = Topics::enter(&arguments.broker, &arguments.security.security()?)?;
    let listed = cluster.list()?;
    let names = names(arguments, watch, &listed)?;
    let replicas: BTreeMap<String, usize> =
        listed.into_iter().map(|listed| (listed.topic, listed.replicas)).collect();
    let mut read = Read::default();
    for (number, name) in names.iter().enumerate() {
        if interrupt::requested() {
            bail!("interrupted before all topics were read");
        }
        cli.progress.doing(&format!("topic {} of {}: {name}", number + 1, names.len()));
        match replayed(arguments, &mut cluster, name) {
            Ok((topic, brokers)) => {
                read.brokers = read.brokers.max(brokers);
                read.replicas.push(replicas.get(name).copied().unwrap_or(1));
                read.topics.push(topic);
            }
            // One that was named alone is all that was asked for.
            Err(error) if names.len() == 1 => return Err(error),
            Err(error) => read.notes.push(format!("{name} is in no figure of its own: {error:#}")),
        }
    }
    if read.topics.is_empty() {
        bail!("no topic could be read:\n  {}", read.notes.join("\n  "));
    }
    Ok(read)
}

/// Those that were named, or all; or those with most batches where counters show them.
fn names(arguments: &Arguments, watch: Option<&BatchWatch>, listed: &[Listed]) -> Result<Vec<String>> {
    if !arguments.topics.is_empty() {
        return Ok(arguments.topics.clone());
    }
    let users = listed.iter().filter(|topic| !topic.is_internal);
    let names: Vec<String> = users.map(|topic| topic.topic.clone()).collect();
    if names.is_empty() {
        bail!("the cluster has no topic that you may see; seeing one needs DESCRIBE on it");
    }
    let busiest: Vec<String> =
        watch.map(|watch| watch.topics.iter().map(|topic| topic.topic.clone()).collect()).unwrap_or_default();
    let counted: Vec<String> =
        busiest.into_iter().filter(|topic| names.contains(topic)).take(MOST_REPLAYED).collect();
    Ok(if counted.is_empty() { names } else { counted })
}

/// A topic with the larger flow of the same producers, and the brokers that lead it.
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

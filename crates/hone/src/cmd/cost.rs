//! `hone cost`: what a cluster's traffic between zones costs, and what changes save.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use hone_batch::zones::{Bill, Change, Placed, Prices, Readers, Topic, bill};
use hone_cli::values::not_negative;
use hone_format::{read_duration_s, read_share};
use hone_load::{Admin, Security, Topics};

use crate::cmd::context::CliContext;
use hone_cli::connection::BrokerOptions;
use hone_experiment::ending::Ending;
use hone_tune::batch::reading;
use hone_tune::prices;

/// Show what a cluster's traffic between zones costs.
///
/// Hone reads the racks of the brokers, the replicas of the topics and the rate of their batches. It assumes that producers and consumers are
/// spread evenly over the zones. The prices are list prices unless you give your own.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone cost broker-1:9092 --fan-out 3
  hone cost broker-1:9092 orders clicks --fan-out 3 --size-ratio 60%
  hone cost --write-prices prices.toml
  hone cost broker-1:9092 --prices prices.toml --saved-cores 3.5")]
pub(crate) struct Arguments {
    /// Any broker of the cluster: HOST:PORT, or several, separated by commas.
    #[arg(value_name = "BROKER")]
    broker: Option<String>,
    /// Topics to read. [default: all topics except the cluster's internal ones]
    #[arg(value_name = "TOPIC")]
    topics: Vec<String>,
    /// Number of times that consumers read each byte.
    #[arg(long, value_name = "N", default_value = "1", value_parser = not_negative)]
    fan_out: f64,
    /// Consumers read from a replica in their own zone already (`client.rack`).
    #[arg(long)]
    follower_fetching: bool,
    /// Bytes of a batch with other settings, as a share of today's. `hone batch whatif` predicts it.
    #[arg(long, value_name = "SHARE", value_parser = read_share)]
    size_ratio: Option<f64>,
    /// Cores that the brokers save. `hone tune` measures it.
    #[arg(long, value_name = "CORES", value_parser = not_negative)]
    saved_cores: Option<f64>,
    /// File with your prices.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Write the list prices to a new file, for you to edit.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["broker", "prices"])]
    write_prices: Option<PathBuf>,
    /// How far back from now to read.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = read_duration_s)]
    last: f64,
    #[command(flatten)]
    connection: BrokerOptions,
}

/// Bytes of headers to read of each topic.
const BUDGET_BYTES: u64 = 16 << 20;

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    if let Some(path) = &arguments.write_prices {
        prices::write(path)?;
        cli.progress.line(&format!("Written: {}", path.display()));
        return Ok(Ending::Done);
    }
    let prices = arguments.prices.as_deref().map_or_else(|| Ok(Prices::usual()), prices::read)?;
    let found = arguments.bill(prices, cli)?;
    cli.show_found("cost", &found, hone_document::zones::text)
}

impl Arguments {
    fn bill(&self, prices: Prices, cli: &CliContext) -> Result<Bill> {
        let (brokers, named) = self.connection.split(self.broker.as_deref(), &self.topics)?;
        let security = self.connection.security.security()?;
        let Cluster { racks, topics, notes } = self.read(&brokers, &named, &security, cli)?;
        let readers = Readers { fan_out: self.fan_out, follower_fetching: self.follower_fetching };
        let change = Change { size_ratio: self.size_ratio, saved_cores: self.saved_cores };
        let found = bill(&racks, &topics, readers, change, prices).map_err(|error| {
            anyhow::anyhow!("{error}\n  next: `hone batch plan` counts the traffic of a cluster in one zone")
        })?;
        Ok(Bill { notes, ..found })
    }

    fn read(
        &self,
        brokers: &str,
        named: &[String],
        security: &Security,
        cli: &CliContext,
    ) -> Result<Cluster> {
        let mut cluster = Topics::enter(brokers, security)?;
        let mut names = named.to_vec();
        if names.is_empty() {
            let listed = cluster.list()?.into_iter().filter(|topic| !topic.is_internal);
            names = listed.map(|topic| topic.topic).collect();
        }
        let address = hone_load::canary::reachable(brokers, security)?;
        let mut admin = Admin::connect_with(&address, security)?;
        let mut all = Cluster::default();
        for (number, name) in names.iter().enumerate() {
            cli.progress.doing(&format!("topic {} of {}: {name}", number + 1, names.len()));
            let placed = admin.placement(name)?;
            all.racks.extend(placed.racks);
            match reading::rate(&mut cluster, name, self.last, BUDGET_BYTES)? {
                Some(rate) => all.topics.push(Topic {
                    name: name.clone(),
                    bytes_per_s: rate.batches_per_s * rate.batch_bytes,
                    partitions: placed
                        .partitions
                        .into_iter()
                        .map(|(leader, replicas)| Placed { leader, replicas })
                        .collect(),
                }),
                None => all.notes.push(format!(
                    "{name} has too few batches of the last {}",
                    hone_format::duration(self.last)
                )),
            }
        }
        if all.topics.is_empty() {
            bail!(
                "no topic has batches of the last {}\n  next: a longer --last",
                hone_format::duration(self.last)
            );
        }
        Ok(all)
    }
}

/// A cluster, as far as traffic concerns it.
#[derive(Debug, Default)]
struct Cluster {
    racks: BTreeMap<i32, Option<String>>,
    topics: Vec<Topic>,
    /// About topics without traffic.
    notes: Vec<String>,
}

//! `hone batch`: the size of the batches of a cluster's topics, its cause, and the changes that would make them larger.

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::cmd::context::CliContext;
use hone_experiment::ending::Ending;

mod caching;
mod cost;
mod dashboards;
pub(super) mod metrics;
pub(super) mod options;
mod plan;
mod prove;
mod settings;
mod watch;
mod whatif;
mod xray;

/// Measure the effective batch size of each topic and find larger settings.
///
/// The configured batch size is only an upper limit. Rates, partitions, linger and the broker decide the effective batch size.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone batch xray broker-1:9092 orders
  hone batch whatif broker-1:9092 orders --linger 20ms
  hone batch prove broker-1:9092 --topic orders --step linger=20ms")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Xray(Box<xray::Arguments>),
    #[command(name = "whatif")]
    WhatIf(Box<whatif::Arguments>),
    Watch(watch::Arguments),
    Cost(cost::Arguments),
    Plan(Box<plan::Arguments>),
    Dashboards(dashboards::Arguments),
    Settings(settings::Arguments),
    Prove(Box<prove::Arguments>),
    Caching(Box<caching::Arguments>),
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    match &arguments.verb {
        Verb::Xray(arguments) => xray::run(arguments, cli),
        Verb::WhatIf(arguments) => whatif::run(arguments, cli),
        Verb::Watch(arguments) => watch::run(arguments, cli),
        Verb::Cost(arguments) => cost::run(arguments, cli),
        Verb::Plan(arguments) => plan::run(arguments, cli),
        Verb::Dashboards(arguments) => dashboards::run(arguments, cli),
        Verb::Settings(arguments) => settings::run(arguments, cli),
        Verb::Prove(arguments) => prove::run(arguments, cli),
        Verb::Caching(arguments) => caching::run(arguments, cli),
    }
}

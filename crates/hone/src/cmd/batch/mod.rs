//! `hone batch`: how large the batches of a cluster's topics are, why, and what would make them larger.

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

/// Find the effective batch of every topic, the reason why it is small, and what would change it.
///
/// Each batch costs a broker a request's worth of CPU, a checksum, an append and often a page of the disk, whether it holds one record or a
/// thousand. What producers are told to batch is not what they do: rates, partitions, other producers and the broker itself decide.
#[derive(Debug, Args)]
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

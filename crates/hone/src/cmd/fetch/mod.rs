//! `hone fetch`: how a cluster's consumers ask for data, and the limits that make fewer and fuller requests.

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::cmd::context::CliContext;
use hone_experiment::ending::Ending;

mod settings;
mod whatif;

/// Predict the Fetch requests of consumers, and find better limits.
///
/// A broker answers a consumer as soon as it has a byte. On a topic with small batches that is a request for nearly every batch.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone fetch whatif broker-1:9092 orders --consumers 6
  hone fetch settings --fetch-min-bytes 64KiB --fetch-max-wait 100ms
  hone compare broker-1:9092 --consumers 6 \\
    --change load.fetch_min_bytes=65536")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    #[command(name = "whatif")]
    WhatIf(Box<whatif::Arguments>),
    Settings(settings::Arguments),
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    match &arguments.verb {
        Verb::WhatIf(arguments) => whatif::run(arguments, cli),
        Verb::Settings(arguments) => settings::run(arguments, cli),
    }
}

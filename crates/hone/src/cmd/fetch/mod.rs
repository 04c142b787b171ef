//! `hone fetch`: what is wrong with consumer groups, how they ask for data, and the limits that make fewer and fuller requests.

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::cmd::context::CliContext;
use hone_experiment::ending::Ending;

mod settings;
mod whatif;
mod xray;

/// Find what is wrong with consumers, and predict their requests.
///
/// A broker answers a consumer as soon as it has a byte. On a topic with small batches that is a request for nearly every batch.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone fetch xray broker-1:9092
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
    Xray(xray::Arguments),
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    match &arguments.verb {
        Verb::WhatIf(arguments) => whatif::run(arguments, cli),
        Verb::Settings(arguments) => settings::run(arguments, cli),
        Verb::Xray(arguments) => xray::run(arguments, cli),
    }
}

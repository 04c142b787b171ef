//! `hone batch`: how large the batches of a cluster's topics are, why, and what would make them larger.

use anyhow::Result;
use clap::{Args, Subcommand};

use super::Desk;
use crate::Ending;

mod whatif;

/// Find the effective batch of every topic, the reason why it is small, and what would change it.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    #[command(name = "whatif")]
    WhatIf(whatif::Arguments),
}

pub(crate) fn run(arguments: &Arguments, desk: &Desk) -> Result<Ending> {
    match &arguments.verb {
        Verb::WhatIf(arguments) => whatif::run(arguments, desk),
    }
}

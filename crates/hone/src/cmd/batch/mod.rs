//! `hone batch`: which topic's batches are too small, why, and what to do about it.

use anyhow::Result;
use clap::{Args, Subcommand};

use super::Desk;
use crate::Ending;

mod caching;
mod options;
mod prove;
mod settings;

/// Find out how large the batches of a Kafka-API cluster really are, why, and what a setting would change.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    step: Step,
}

#[derive(Debug, Subcommand)]
enum Step {
    Settings(settings::Arguments),
    Prove(Box<prove::Arguments>),
    Caching(Box<caching::Arguments>),
}

pub(crate) fn run(arguments: Arguments, desk: &Desk) -> Result<Ending> {
    match arguments.step {
        Step::Settings(arguments) => settings::run(&arguments, desk),
        Step::Prove(arguments) => prove::run(&arguments, desk),
        Step::Caching(arguments) => caching::run(&arguments, desk),
    }
}

//! `hone host`: shows, plans, changes and rolls back the kernel settings of a broker's host.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::cmd::context::CliContext;
use hone_experiment::ending::Ending;
use hone_experiment::host_ledger::HostLedger;

mod apply;
mod export;
mod lint;
mod plan;
mod rollout;
mod status;
mod trial;
mod undo;

/// Show, test, change and roll back kernel settings of a broker's host.
///
/// Hone saves each old value to disk before it writes a new one.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone host status --data /var/lib/kafka
  hone host plan redpanda --data /var/lib/redpanda/data
  hone host try latency --target 127.0.0.1:9092 --data /var/lib/kafka \\
    --rate 2000
  hone host apply latency --data /var/lib/kafka --confirm-within 10m
  hone host confirm    # or: hone host rollback
  hone host lint guide.md tune.sh rollback.sh --data /var/lib/kafka
  hone host rollout hosts.toml --profile latency --bootstrap kafka-1:9092")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
pub(crate) struct Place {
    /// Root folder of the host's files. Another folder than `/` is a recorded host.
    #[arg(long, value_name = "FOLDER", default_value = "/", global = true, display_order = 800)]
    root: PathBuf,
    /// Ledger file. Hone enters each change of this host. [default: var/lib/hone/host/ledger.jsonl below --root]
    #[arg(long, value_name = "FILE", global = true, display_order = 801)]
    ledger: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Status(status::Arguments),
    Plan(plan::Arguments),
    Apply(apply::Arguments),
    Try(Box<trial::Arguments>),
    Confirm(undo::Confirm),
    Renew(undo::Renew),
    #[command(alias = "revert")]
    Rollback(undo::Revert),
    /// The old name of `hone host rollback --interrupted`.
    #[command(hide = true)]
    Recover {
        #[arg(long)]
        force: bool,
    },
    Uninstall(undo::Uninstall),
    Lint(lint::Arguments),
    Export(export::Arguments),
    Rollout(Box<rollout::Arguments>),
    #[command(hide = true)]
    Guard(undo::Guard),
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let root = std::path::absolute(&arguments.place.root)?;
    let book = HostLedger::at(&root, arguments.place.ledger.as_deref());
    match &arguments.verb {
        Verb::Status(arguments) => status::run(arguments, &root, cli),
        Verb::Plan(arguments) => plan::run(arguments, &root, cli),
        Verb::Apply(arguments) => apply::run(arguments, &root, &book, cli),
        Verb::Try(arguments) => trial::run(arguments, &root, cli),
        Verb::Confirm(arguments) => undo::confirm(arguments, &root, &book, cli),
        Verb::Renew(arguments) => undo::renew(arguments, &root, cli),
        Verb::Rollback(arguments) => undo::revert(arguments, &root, &book, cli),
        Verb::Recover { force } => undo::recover(*force, &root, &book, cli),
        Verb::Uninstall(arguments) => undo::uninstall(arguments, &root, cli),
        Verb::Export(arguments) => export::run(arguments, &root, cli),
        Verb::Lint(arguments) => lint::run(arguments, &root, cli),
        Verb::Rollout(arguments) => rollout::run(arguments, cli),
        Verb::Guard(arguments) => undo::guard(arguments, &root, &book, cli),
    }
}

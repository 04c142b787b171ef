//! `hone host`: the kernel settings of a broker's host: seen, planned, changed, and taken back exactly.

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

/// See, plan, change and take back the kernel settings of a broker's host.
///
/// Examples:
///   hone host status --data /var/lib/kafka
///   hone host plan redpanda --data /var/lib/redpanda/data
///   hone host try latency --target 127.0.0.1:9092 --data /var/lib/kafka --rate 2000
///   hone host apply latency --data /var/lib/kafka --confirm-within 10m
///   hone host confirm        (or: hone host revert)
///   hone host lint tuning-guide.md tune.sh rollback.sh --data /var/lib/kafka
///   hone host rollout hosts.toml --profile latency --bootstrap kafka-1:9092
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
pub(crate) struct Place {
    /// Where the machine's files are: another root than / is a recorded machine.
    #[arg(long, value_name = "DIR", default_value = "/", global = true, display_order = 800)]
    root: PathBuf,
    /// The ledger for what is changed here; beside the journals (var/lib/hone/host/ledger.jsonl under the root) unless named.
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
    Revert(undo::Revert),
    Recover(undo::Recover),
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
        Verb::Revert(arguments) => undo::revert(arguments, &root, &book, cli),
        Verb::Recover(arguments) => undo::recover(arguments, &root, &book, cli),
        Verb::Uninstall(arguments) => undo::uninstall(arguments, &root, cli),
        Verb::Export(arguments) => export::run(arguments, &root, cli),
        Verb::Lint(arguments) => lint::run(arguments, &root, cli),
        Verb::Rollout(arguments) => rollout::run(arguments, cli),
        Verb::Guard(arguments) => undo::guard(arguments, &root, &book, cli),
    }
}

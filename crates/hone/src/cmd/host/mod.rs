//! `hone host`: the kernel settings of a broker's host: seen, planned, changed, and taken back exactly.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};

use super::Desk;
use crate::Ending;

mod apply;
mod book;
mod plan;
mod status;
mod undo;

use book::Book;

pub(crate) use apply::Made;
pub(crate) use status::Status;
pub(crate) use undo::Found;

/// See, plan, change and take back the kernel settings of a broker's host.
///
/// Examples:
///   hone host status --data /var/lib/kafka
///   hone host plan redpanda --data /var/lib/redpanda/data
///   hone host apply latency --data /var/lib/kafka --confirm-within 10m
///   hone host confirm        (or: hone host revert)
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
    Confirm(undo::Confirm),
    Revert(undo::Revert),
    Recover(undo::Recover),
    Uninstall(undo::Uninstall),
    #[command(hide = true)]
    Guard(undo::Guard),
}

pub(crate) fn run(arguments: &Arguments, desk: &Desk) -> Result<Ending> {
    let root = std::path::absolute(&arguments.place.root)?;
    let book = Book::of(&root, arguments.place.ledger.as_deref());
    match &arguments.verb {
        Verb::Status(arguments) => status::run(arguments, &root, desk),
        Verb::Plan(arguments) => plan::run(arguments, &root, desk),
        Verb::Apply(arguments) => apply::run(arguments, &root, &book, desk),
        Verb::Confirm(arguments) => undo::confirm(arguments, &root, &book, desk),
        Verb::Revert(arguments) => undo::revert(arguments, &root, &book, desk),
        Verb::Recover(arguments) => undo::recover(arguments, &root, &book, desk),
        Verb::Uninstall(arguments) => undo::uninstall(arguments, &root, desk),
        Verb::Guard(arguments) => undo::guard(arguments, &root, &book, desk),
    }
}

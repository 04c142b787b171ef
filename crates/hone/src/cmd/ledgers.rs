//! `hone ledger push` and `pull`: the ledgers of many hosts meet in a place, and become one.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::cmd::context::{CliContext, default_runs};
use hone_experiment::ending::Ending;
use hone_rollout::fleet::host_of;
use hone_serve::{ledger_exchange, ledger_view};

/// Keep a ledger where those of all hosts meet: a folder or an object store, one object for each host.
///
/// A ledger only grows, there as here: one that lacks a line which is there already is refused, and so is one that is not as it was
/// written. Who gets in is said by the environment, as for `hone load --store`.
///
/// With --records the files that its entries rest on go there, too, each by its SHA-256, and what their runs have concluded. What is there
/// already is not pushed again. One that is gone here is told; one that has changed is named and left out, with exit code 1.
#[derive(Debug, Args)]
pub(super) struct PushArguments {
    /// The ledger, or a folder that has one; runs/ledger.jsonl unless named.
    path: Option<PathBuf>,
    /// The place: a folder, s3://BUCKET/PATH, gs://BUCKET/PATH or az://CONTAINER/PATH.
    #[arg(long, value_name = "PLACE")]
    to: String,
    /// The host that it is of; this machine's name unless told otherwise.
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Push the record files that the entries rest on, too.
    #[arg(long)]
    records: bool,
}

/// Make one ledger of those of all hosts.
///
/// Lines that are there already stay as they are; the others come behind them, each once. A copy that is not as it was written ends it,
/// by its host, and nothing of it gets in.
///
/// With --records the files that the entries rest on are taken into `records` beside FILE, a folder for each run, where `hone ledger verify
/// --records`, `hone report` and `hone serve` find them. Each is held against its hash; a broken one is named and left out, with exit code 1.
/// What lies there already is not taken again, and no other file is replaced.
#[derive(Debug, Args)]
pub(super) struct PullArguments {
    /// The place.
    place: String,
    /// The one ledger; it is made, or grows.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Take the record files that the entries rest on, too.
    #[arg(long)]
    records: bool,
}

fn ending(is_whole: bool) -> Ending {
    if is_whole { Ending::Done } else { Ending::CouldNot }
}

pub(super) fn push(arguments: &PushArguments, cli: &CliContext) -> Result<Ending> {
    let (to, host) = (&arguments.to, host_of(arguments.host.as_deref())?);
    cli.progress.doing("push");
    let path = ledger_view::found_at(arguments.path.as_deref(), &default_runs())?;
    let pushed = ledger_exchange::push(&path, (to, host), arguments.records, &cli.progress)?;
    cli.show_found("ledger-push", &pushed, |pushed| hone_document::ledger::pushed(pushed, to))?;
    Ok(ending(pushed.records.is_none_or(|records| records.left_out.is_empty())))
}

pub(super) fn pull(arguments: &PullArguments, cli: &CliContext) -> Result<Ending> {
    let PullArguments { place, output, records } = arguments;
    let pulled = ledger_exchange::pull(place, output, *records, &cli.progress)?;
    cli.show_found("ledger-pull", &pulled, hone_document::ledger::pulled)?;
    Ok(ending(pulled.records.is_none_or(|records| records.left_out.is_empty())))
}

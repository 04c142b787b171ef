//! `hone ledger push` and `pull`: uploads ledgers of many hosts to a store, and merges them into one ledger.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::cmd::context::{CliContext, default_runs};
use hone_cli::connection::StoreOption;
use hone_experiment::ending::Ending;
use hone_rollout::fleet::host_of;
use hone_serve::{ledger_exchange, ledger_view};

/// Upload a ledger to a store that all hosts share.
///
/// The store is a folder or an object store. Hone rejects a ledger that lacks a line of the stored copy, and a ledger with a changed line.
/// Credentials come from the environment, as for `hone load --store`.
///
/// With --with-records, Hone also uploads the record files of the entries and the results of their runs. It names and skips a file that has
/// changed, and exits with code 1.
#[derive(Debug, Args)]
pub(super) struct PushArguments {
    /// Ledger file, or a folder that contains it. [default: runs/ledger.jsonl]
    path: Option<PathBuf>,
    #[command(flatten)]
    store: StoreOption,
    /// Name of the host. [default: this machine's name]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Include the record files of the entries.
    #[arg(long = "with-records", alias = "records")]
    records: bool,
}

/// Merge the ledgers of all hosts into one ledger.
///
/// Hone appends each new line once. If the copy of a host has a changed line, Hone stops, names the host and adds nothing of that copy.
///
/// With --with-records, Hone downloads the record files to `records` next to the ledger, one folder per run. It names and skips a broken file,
/// and exits with code 1. It skips files that already exist.
#[derive(Debug, Args)]
pub(super) struct PullArguments {
    /// Store: a folder, `s3://BUCKET/PATH`, `gs://BUCKET/PATH` or `az://CONTAINER/PATH`.
    #[arg(value_name = "STORE")]
    place: String,
    /// Where to write the result. Hone creates this ledger, or appends to it.
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,
    /// Include the record files of the entries.
    #[arg(long = "with-records", alias = "records")]
    records: bool,
}

fn ending(is_whole: bool) -> Ending {
    if is_whole { Ending::Done } else { Ending::CouldNot }
}

pub(super) fn push(arguments: &PushArguments, cli: &CliContext) -> Result<Ending> {
    let (to, host) = (&arguments.store.store()?, host_of(arguments.host.as_deref())?);
    cli.progress.doing("pushing the ledger");
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

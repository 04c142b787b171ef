//! `hone host status`: shows every setting, and what already delays a broker on this host.

use std::path::Path;

use anyhow::Result;
use clap::Args;

use super::plan::On;
use crate::cmd::context::CliContext;
use hone_cli::values::whole_seconds;
use hone_experiment::ending::Ending;
use hone_tune::host::status::status;

/// Show kernel settings, and what already delays a broker here.
///
/// Hone changes no setting. --probe-fsync writes a file and deletes it again.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    on: On,
    /// How long to measure. Hone reads the kernel's counters at the start and at the end.
    #[arg(
        long = "duration",
        alias = "watch",
        value_name = "TIME",
        default_value = "2s",
        value_parser = whole_seconds::<u64>(0.0, 600.0)
    )]
    watch: u64,
    /// Folder in which to measure fsync. Hone writes 4 KiB there a hundred times a second, and deletes its file at the end.
    #[arg(long = "probe-fsync", alias = "fsync", value_name = "FOLDER")]
    fsync: Option<std::path::PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, root: &Path, cli: &CliContext) -> Result<Ending> {
    cli.progress.doing("measuring the kernel's counters");
    let status = status(&arguments.on.choice(), root, arguments.watch, arguments.fsync.as_deref())?;
    cli.show_found("host-status", &status, hone_document::host::status)
}

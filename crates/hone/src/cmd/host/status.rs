//! `hone host status`: every knob, and what delays a broker already.

use std::path::Path;

use anyhow::Result;
use clap::Args;

use super::plan::On;
use crate::cmd::context::CliContext;
use hone_experiment::ending::Ending;
use hone_tune::host::status::status;

/// Show every knob with its value, who set it and whether it can matter here, and what delays a broker on this host already.
///
/// Nothing is changed. The probe of fsync writes 4 KiB a hundred times a second into the folder that you name for it, and
/// deletes its file.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    on: On,
    /// How long to watch the kernel's counters, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(0..=600))]
    watch: u64,
    /// Probe fsync in this folder.
    #[arg(long, value_name = "DIR")]
    fsync: Option<std::path::PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, root: &Path, cli: &CliContext) -> Result<Ending> {
    cli.progress.doing("watching the kernel's counters");
    let status = status(&arguments.on.choice(), root, arguments.watch, arguments.fsync.as_deref())?;
    cli.show_found("host-status", &status, hone_document::host::status)
}

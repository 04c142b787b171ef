//! `hone host plan`: shows what a profile would change on this host.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;

use crate::cmd::context::CliContext;
use hone_experiment::ending::Ending;
use hone_experiment::host_plan::{DiskChoice, planned, save};

/// Show what a profile would change on this host, and why.
///
/// Hone writes no setting and needs no root. Without root, it sees fewer of the broker's files.
///
/// --save stores the plan with the current values. `hone host apply FILE.json` applies exactly that plan, and refuses if the host has changed
/// since.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) what: What,
    /// File for the plan, for example plan.json.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

/// A profile and the disks that it is for.
#[derive(Debug, Args)]
pub(crate) struct What {
    /// Profile with the settings. One of field-guide, redpanda, kafka-page-cache, latency, throughput, or your own TOML file. `-` reads TOML
    /// from standard input.
    #[arg(value_name = "PROFILE", default_value = "latency")]
    pub(crate) profile: String,
    #[command(flatten)]
    pub(crate) on: On,
}

/// The broker's data folder or its disks.
#[derive(Debug, Args)]
pub(crate) struct On {
    /// Data folder of the broker. Hone finds its disks through md, dm and partitions, and the broker's process by its open files.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,
    /// Disk of the broker, for example `nvme1n1`; repeat it for several. Hone then ignores the disks of --data.
    #[arg(long, value_name = "NAME")]
    pub(crate) disk: Vec<String>,
}

impl On {
    pub(crate) fn choice(&self) -> DiskChoice {
        let folder = self.data.as_deref().map(hone_host::disks::absolute);
        DiskChoice { folder, disks: self.disk.clone() }
    }
}

pub(crate) fn run(arguments: &Arguments, root: &Path, cli: &CliContext) -> Result<Ending> {
    let What { profile, on } = &arguments.what;
    let plan = planned(profile, &on.choice(), root)?;
    if let Some(path) = &arguments.save {
        save(path, plan.clone(), root)?;
    }
    cli.show_found("host-plan", &plan, hone_document::host::plan)
}

//! `hone host plan`: what a profile would change here.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;

use crate::cmd::context::CliContext;
use hone_experiment::ending::Ending;
use hone_experiment::host_plan::{DiskChoice, planned, save};

/// Say what a profile would change on this host, why, who says so, what it risks, and what can't matter here.
///
/// Nothing is written, and it takes no root; without root it sees fewer of the broker's files. With --save the plan is kept in a
/// file with what each setting says now: `hone host apply FILE.json` makes just that plan, and refuses when the host has changed since.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) what: What,
    /// Keep the plan in a file, as plan.json.
    #[arg(long, value_name = "FILE.json")]
    save: Option<PathBuf>,
}

/// A profile and the disks that it is for.
#[derive(Debug, Args)]
pub(crate) struct What {
    /// field-guide, redpanda, kafka-page-cache, latency, throughput, the path of a TOML file of your own, or - for standard input (to
    /// apply, also a saved plan, .json).
    #[arg(default_value = "latency")]
    pub(crate) profile: String,
    #[command(flatten)]
    pub(crate) on: On,
}

/// Which disks are meant.
#[derive(Debug, Args)]
pub(crate) struct On {
    /// The broker's data folder: its disks are found through md, dm and partitions, and its process by its open files.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// A disk, in place of those of a folder, as nvme1n1 (may be given several times).
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

//! `hone host plan`: what a profile would change here.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use hone_host::disks::{self, DataPath};
use hone_host::kernel::Files;
use hone_host::plan::{Plan, plan};
use hone_host::profile::{self, OWN, Profile};
use hone_host::relevance;
use hone_host::saved_plan::{self, SavedPlan, SavedPlanError};

use crate::cmd::context::CliContext;
use hone_experiment::ending::{Ending, Usage};

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
    /// The way of the data; nothing where neither folder nor disk was named.
    pub(crate) fn data_path(&self, files: &Files, root: &Path) -> Result<DataPath> {
        let mut found = DataPath::default();
        if let Some(folder) = self.folder() {
            // The disk of the folder above it would be another one than is meant.
            if root == Path::new("/") && !folder.is_dir() {
                bail!(Usage(format!(
                    "--data {}: there is no such folder; name the one that holds the broker's data, or its disk by --disk",
                    folder.display()
                )));
            }
            found = disks::of_folder(files, root, &folder);
        }
        for name in &self.disk {
            let named = disks::of_name(files, name)
                .ok_or_else(|| Usage(format!("{name} is no disk of this machine; /sys/block lists them")))?;
            found.top = found.top.or(named.top);
            found.layers.extend(named.layers);
            found.disks.extend(named.disks);
        }
        Ok(found)
    }

    pub(crate) fn names_something(&self) -> bool {
        self.data.is_some() || !self.disk.is_empty()
    }

    pub(crate) fn folder(&self) -> Option<PathBuf> {
        self.data.as_deref().map(disks::absolute)
    }
}

/// A profile is a few kilobytes.
const LONGEST_BYTES: u64 = 1 << 20;

/// One of Hone's profiles, standard input, or a file.
pub(super) fn profile(name: &str) -> Result<Profile> {
    if name == "-" {
        let mut text = String::new();
        std::io::stdin()
            .take(LONGEST_BYTES)
            .read_to_string(&mut text)
            .context("standard input is no profile")?;
        return profile::parse("(standard input)", &text).map_err(|error| Usage(error.to_string()).into());
    }
    if let Some((name, text)) = OWN.iter().find(|(own, _)| *own == name) {
        return Ok(profile::parse(name, text)?);
    }
    let names: Vec<&str> = OWN.iter().map(|(name, _)| *name).collect();
    let text = std::fs::read_to_string(name).with_context(|| {
        format!("{name} is neither a profile ({}) nor a file that can be read", names.join(", "))
    })?;
    profile::parse(name, &text).map_err(|error| Usage(error.to_string()).into())
}

/// What a profile would do here.
pub(crate) fn made(what: &What, root: &Path) -> Result<Plan> {
    let files = Files::new(root);
    let profile = profile(&what.profile)?;
    let data = what.on.data_path(&files, root)?;
    let facts = relevance::look(&files, root, what.on.folder().as_deref());
    let mut plan = plan(&files, &what.profile, &profile, &data, &facts);
    plan.obstacles.extend(data.problem);
    Ok(plan)
}

/// The plan of a file, if the host is still the one that it was made for.
pub(crate) fn kept(name: &str, root: &Path) -> Result<Plan> {
    let text = std::fs::read_to_string(name).with_context(|| format!("the plan {name} can't be read"))?;
    let saved: SavedPlan = serde_json::from_str(&text)
        .map_err(SavedPlanError::from)
        .with_context(|| format!("{name} is no saved plan"))?;
    Ok(saved_plan::check(&Files::new(root), saved)?)
}

fn keep(path: &Path, plan: Plan, root: &Path) -> Result<()> {
    if !saved_plan::is_name(&path.display().to_string()) {
        bail!(Usage(format!("{} has to end in .json, by which apply knows a plan", path.display())));
    }
    let saved = saved_plan::save(&Files::new(root), plan)?;
    std::fs::write(path, serde_json::to_string_pretty(&saved)? + "\n")
        .with_context(|| format!("the plan can't be written into {}", path.display()))
}

pub(crate) fn run(arguments: &Arguments, root: &Path, cli: &CliContext) -> Result<Ending> {
    let plan = made(&arguments.what, root)?;
    if let Some(path) = &arguments.save {
        keep(path, plan.clone(), root)?;
    }
    cli.show_found("host-plan", &plan, hone_document::host::plan)?;
    Ok(Ending::Done)
}

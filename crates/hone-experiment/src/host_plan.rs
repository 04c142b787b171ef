//! The plan of a profile on a host, from its name or its file, and the change itself.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hone_host::commit::{Applied, ChangeRequest, CommitError, make};
use hone_host::disks::{self, DataPath};
use hone_host::kernel::Files;
use hone_host::origin;
use hone_host::plan::{Plan, plan};
use hone_host::profile::{self, OWN, Profile};
use hone_host::relevance::{self, Facts};
use hone_host::saved_plan::{self, SavedPlan, SavedPlanError};

use crate::ending::{NotItsOwn, Usage};
use crate::guard;

/// The selected disks: those below a folder, or named ones.
#[derive(Debug, Clone, Default)]
pub struct DiskChoice {
    /// The broker's data folder.
    pub folder: Option<PathBuf>,
    /// Disks by their names.
    pub disks: Vec<String>,
}

/// The inputs of a plan on a host.
pub struct HostView {
    /// Its files.
    pub files: Files,
    /// The path to the data; empty without a folder or disk.
    pub data: DataPath,
    /// Facts that decide which knobs can matter.
    pub facts: Facts,
}

impl DiskChoice {
    /// Examines the host below this root.
    pub fn look(&self, root: &Path) -> Result<HostView> {
        let files = Files::new(root);
        let data = self.data_path(&files, root)?;
        let facts = relevance::look(&files, root, self.folder.as_deref());
        Ok(HostView { files, data, facts })
    }

    fn data_path(&self, files: &Files, root: &Path) -> Result<DataPath> {
        let mut found = DataPath::default();
        if let Some(folder) = &self.folder {
            // The parent folder could be on another disk.
            if root == Path::new("/") && !folder.is_dir() {
                bail!(Usage(format!(
                    "--data {}: the folder does not exist\n  next: name the folder of the broker's data, or \
                     its disk with --disk",
                    folder.display()
                )));
            }
            found = disks::of_folder(files, root, folder);
        }
        for name in &self.disks {
            let named = disks::of_name(files, name).ok_or_else(|| {
                Usage(format!(
                    "this machine has no disk {name}\n  next: choose one from \
                     /sys/block"
                ))
            })?;
            found.top = found.top.or(named.top);
            found.layers.extend(named.layers);
            found.disks.extend(named.disks);
        }
        Ok(found)
    }
}

/// A profile is a few kilobytes.
const LONGEST_BYTES: u64 = 1 << 20;

/// One of Hone's profiles, standard input, or a file.
pub fn profile(name: &str) -> Result<Profile> {
    if name == "-" {
        let mut text = String::new();
        std::io::stdin()
            .take(LONGEST_BYTES)
            .read_to_string(&mut text)
            .context("standard input is not a profile")?;
        return profile::parse("(standard input)", &text).map_err(|error| Usage(error.to_string()).into());
    }
    if let Some((name, text)) = OWN.iter().find(|(own, _)| *own == name) {
        return Ok(profile::parse(name, text)?);
    }
    let text = profile_file(name)?;
    profile::parse(name, &text).map_err(|error| Usage(error.to_string()).into())
}

/// The text of a file that is named instead of one of Hone's own profiles.
///
/// # Errors
/// When it can't be read.
pub fn profile_file(name: &str) -> Result<String> {
    std::fs::read_to_string(name).with_context(|| {
        let names: Vec<&str> = OWN.iter().map(|(name, _)| *name).collect();
        format!("{name} is neither a profile ({}) nor a readable file", names.join(", "))
    })
}

/// The plan of a profile on this host.
pub fn planned(name: &str, disks: &DiskChoice, root: &Path) -> Result<Plan> {
    let profile = profile(name)?;
    let HostView { files, data, facts } = disks.look(root)?;
    let mut plan = plan(&files, name, &profile, &data, &facts);
    plan.obstacles.extend(data.problem);
    Ok(plan)
}

/// A stored plan, if the host has not changed since then.
pub fn saved(name: &str, root: &Path) -> Result<Plan> {
    let text = std::fs::read_to_string(name).with_context(|| format!("the plan {name} can't be read"))?;
    let plan: SavedPlan = serde_json::from_str(&text)
        .map_err(SavedPlanError::from)
        .with_context(|| format!("{name} is not a saved plan"))?;
    Ok(saved_plan::check(&Files::new(root), plan)?)
}

/// Stores a plan in a file, with the current value of each setting.
///
/// # Errors
/// When it can't be written.
pub fn save(path: &Path, plan: Plan, root: &Path) -> Result<()> {
    if !saved_plan::is_name(&path.display().to_string()) {
        bail!(Usage(format!(
            "the name {} must end in .json, because `hone host apply` recognises a plan by \
             that",
            path.display()
        )));
    }
    let saved = saved_plan::save(&Files::new(root), plan)?;
    std::fs::write(path, serde_json::to_string_pretty(&saved)? + "\n")
        .with_context(|| format!("the plan {} can't be written", path.display()))
}

/// Applies a plan; `None` if there is nothing to write. The watchdog enters a rollback in `ledger`.
pub fn apply(
    root: &Path,
    plan: &Plan,
    all: bool,
    confirm_within: Option<Duration>,
    ledger: &Path,
) -> Result<Option<Applied>> {
    let mut steps = plan.steps(all);
    if steps.is_empty() {
        return Ok(None);
    }
    let files = Files::new(root);
    steps.extend(plan.held_by_hand(&files, &origin::origins(&files, false)));
    let order = ChangeRequest { profile: plan.profile.clone(), steps, disks: plan.devices(), confirm_within };
    let made = make(root, &order, &mut |id| guard::start(root, id, Some(ledger)));
    made.map(Some).map_err(with_what_is_left)
}

/// Adds the settings that were not rolled back after a failed step to the error.
fn with_what_is_left(error: CommitError) -> anyhow::Error {
    let CommitError::TakenBack { outcomes, unkept, .. } = &error else { return error.into() };
    let left: Vec<&str> =
        outcomes.iter().filter(|outcome| !outcome.is_back()).map(|outcome| outcome.path.as_str()).collect();
    let mut text = error.to_string();
    if !left.is_empty() {
        let _ =
            write!(text, ", except for {}; `hone host rollback --force` overwrites these", left.join(", "));
    }
    if let Some(why) = unkept {
        let _ = write!(
            text,
            "; its journal could not be updated ({why}): run `hone host rollback --interrupted` when that is \
             fixed"
        );
    }
    if left.is_empty() && unkept.is_none() { error.into() } else { NotItsOwn(text).into() }
}

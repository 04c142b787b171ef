//! What a profile would change on a host, from its name or its file, and the change itself.

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

/// Which disks are meant: those below a folder, or named ones.
#[derive(Debug, Clone, Default)]
pub struct DiskChoice {
    /// The broker's data folder.
    pub folder: Option<PathBuf>,
    /// Disks by their names.
    pub disks: Vec<String>,
}

/// A host as a plan needs it.
pub struct HostView {
    /// Its files.
    pub files: Files,
    /// The way of the data; nothing where neither folder nor disk was named.
    pub data: DataPath,
    /// What decides what can matter.
    pub facts: Facts,
}

impl DiskChoice {
    /// Looks at the host below this root.
    pub fn look(&self, root: &Path) -> Result<HostView> {
        let files = Files::new(root);
        let data = self.data_path(&files, root)?;
        let facts = relevance::look(&files, root, self.folder.as_deref());
        Ok(HostView { files, data, facts })
    }

    fn data_path(&self, files: &Files, root: &Path) -> Result<DataPath> {
        let mut found = DataPath::default();
        if let Some(folder) = &self.folder {
            // The disk of the folder above it would be another one than is meant.
            if root == Path::new("/") && !folder.is_dir() {
                bail!(Usage(format!(
                    "--data {}: there is no such folder; name the one that holds the broker's data, or its disk by --disk",
                    folder.display()
                )));
            }
            found = disks::of_folder(files, root, folder);
        }
        for name in &self.disks {
            let named = disks::of_name(files, name)
                .ok_or_else(|| Usage(format!("{name} is no disk of this machine; /sys/block lists them")))?;
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
            .context("standard input is no profile")?;
        return profile::parse("(standard input)", &text).map_err(|error| Usage(error.to_string()).into());
    }
    if let Some((name, text)) = OWN.iter().find(|(own, _)| *own == name) {
        return Ok(profile::parse(name, text)?);
    }
    let text = profile_file(name)?;
    profile::parse(name, &text).map_err(|error| Usage(error.to_string()).into())
}

/// The text of a file that is named in place of one of Hone's own profiles.
///
/// # Errors
/// When it can't be read.
pub fn profile_file(name: &str) -> Result<String> {
    std::fs::read_to_string(name).with_context(|| {
        let names: Vec<&str> = OWN.iter().map(|(name, _)| *name).collect();
        format!("{name} is neither a profile ({}) nor a file that can be read", names.join(", "))
    })
}

/// What a profile would do here.
pub fn planned(name: &str, disks: &DiskChoice, root: &Path) -> Result<Plan> {
    let profile = profile(name)?;
    let HostView { files, data, facts } = disks.look(root)?;
    let mut plan = plan(&files, name, &profile, &data, &facts);
    plan.obstacles.extend(data.problem);
    Ok(plan)
}

/// The plan of a file, if the host is still the one that it was made for.
pub fn saved(name: &str, root: &Path) -> Result<Plan> {
    let text = std::fs::read_to_string(name).with_context(|| format!("the plan {name} can't be read"))?;
    let plan: SavedPlan = serde_json::from_str(&text)
        .map_err(SavedPlanError::from)
        .with_context(|| format!("{name} is no saved plan"))?;
    Ok(saved_plan::check(&Files::new(root), plan)?)
}

/// Keeps a plan in a file, with what each setting says now.
///
/// # Errors
/// When it can't be written.
pub fn save(path: &Path, plan: Plan, root: &Path) -> Result<()> {
    if !saved_plan::is_name(&path.display().to_string()) {
        bail!(Usage(format!("{} has to end in .json, by which apply knows a plan", path.display())));
    }
    let saved = saved_plan::save(&Files::new(root), plan)?;
    std::fs::write(path, serde_json::to_string_pretty(&saved)? + "\n")
        .with_context(|| format!("the plan can't be written into {}", path.display()))
}

/// Makes what a plan says; nothing where there is nothing to write. `ledger` is where the guard enters what it takes back.
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

/// What was not taken back after a failed step is part of what is told.
fn with_what_is_left(error: CommitError) -> anyhow::Error {
    let CommitError::TakenBack { outcomes, unkept, .. } = &error else { return error.into() };
    let left: Vec<&str> =
        outcomes.iter().filter(|outcome| !outcome.is_back()).map(|outcome| outcome.path.as_str()).collect();
    let mut text = error.to_string();
    if !left.is_empty() {
        let _ = write!(text, ", but for {}; `hone host revert --force` writes over these", left.join(", "));
    }
    if let Some(why) = unkept {
        let _ = write!(
            text,
            "; its journal does not say so ({why}): run `hone host recover` once that is mended"
        );
    }
    if left.is_empty() && unkept.is_none() { error.into() } else { NotItsOwn(text).into() }
}

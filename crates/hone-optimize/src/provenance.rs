//! The inputs of a merged profile, written next to it. The lock file stays with the profile wherever it is kept.

use std::path::{Path, PathBuf};

use anyhow::Result;
use hone_binary::Built;
use hone_binary::lock::{Lock, LockedProgram, LockedTraining, commit_of};
use hone_binary::profile_store::Keeper;
use hone_record::ToolReceipt;

use super::kinds::Kind;
use crate::job::Job;
use hone_experiment::spec::target::Form;

/// A training of a profile.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'a> {
    /// Its place in the experiment.
    pub(super) index: usize,
    /// The files that it left.
    pub(super) raw: &'a Path,
    pub(super) weight: f64,
    /// The load as it ran, and the part of it that was counted.
    pub(super) load: &'a str,
}

/// The inputs of a merged profile.
#[derive(Debug, Clone, Copy)]
pub(super) struct WentIn<'a> {
    /// The trainings of this run.
    pub(super) parts: &'a [Part<'a>],
    /// Whether it includes the profile that the experiment names.
    pub(super) given: bool,
}

/// The trainings of an existing profile are known if it has a lock.
fn of_given(lock: Option<Lock>, bytes: u64) -> (Vec<LockedProgram>, Vec<LockedTraining>) {
    match lock {
        Some(lock) => (lock.programs, lock.trainings),
        None => {
            let unknown = LockedTraining { raw_files: 1, raw_bytes: bytes, ..LockedTraining::default() };
            (Vec::new(), vec![unknown])
        }
    }
}

impl Job<'_> {
    /// Writes the lock of a merged profile. Hone reports a profile that can't have one and uses it anyway, because the profile itself is
    /// verified.
    pub(super) fn lock_profile(
        &self,
        profile: &Path,
        counting: &Built,
        tools: &[ToolReceipt],
        went_in: WentIn<'_>,
    ) {
        if profile.is_dir() {
            // gcc's profile is a folder of counts next to objects, which nothing else uses.
            return;
        }
        match self.locked(profile, counting, tools, went_in) {
            Ok(lock) => self.progress.line(&format!("  provenance: {}", lock.display())),
            Err(error) => {
                self.progress.line(&format!(
                    "  {} has no lock: {}",
                    profile.display(),
                    crate::outcome::in_a_line(&error)
                ));
            }
        }
    }

    fn locked(
        &self,
        profile: &Path,
        counting: &Built,
        tools: &[ToolReceipt],
        went_in: WentIn<'_>,
    ) -> Result<PathBuf> {
        let machine = hone_host::observe::machine(Path::new("/"));
        let trainings = went_in.parts.iter().map(|part| {
            let workload = &self.experiment.training[part.index].workload;
            let (name, load) = (&workload.name, part.load.to_owned());
            LockedTraining::from_raw(name, load, workload.seed, part.weight, part.raw, &machine)
        });
        let trainings = trainings.collect::<Result<Vec<_>, _>>()?;
        let (mut programs, mut all) = match self.given_profile()? {
            Some(Kind::Given { file, .. }) if went_in.given => {
                let mut known = Lock::read(&file)?;
                if known.is_none() && trainings.is_empty() {
                    // An earlier merge of known trainings may have had the same contents.
                    known = Lock::read(profile)?;
                }
                of_given(known, file.metadata().map_or(0, |facts| facts.len()))
            }
            _ => (Vec::new(), Vec::new()),
        };
        if !trainings.is_empty() {
            let commit = self.source().and_then(|folder| commit_of(self.runner, &folder));
            let commands = counting.commands.clone();
            programs.push(LockedProgram::from_executable(&counting.executable, commit, commands, tools)?);
        }
        all.extend(trainings);
        let scratch = self.folder.join("scratch");
        std::fs::create_dir_all(&scratch)?;
        Keeper::new(self.runner, &scratch).lock(profile, programs, all)
    }

    /// The folder of the sources; a finished program has none.
    fn source(&self) -> Option<PathBuf> {
        let folder = match &self.experiment.target.form {
            Form::Cargo(cargo) => self.beside(&cargo.manifest),
            Form::Recipe(recipe) => self.beside(&recipe.source),
            Form::Go(go) => self.beside(&go.module),
            Form::Elf { .. } | Form::Jvm(_) => return None,
        };
        let folder = if folder.is_dir() { folder } else { folder.parent()?.to_owned() };
        folder.canonicalize().ok()
    }
}

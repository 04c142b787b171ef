//! What a merged profile is made of, written beside it: a lock that goes with it wherever it is kept.

use std::path::{Path, PathBuf};

use anyhow::Result;
use hone_binary::Built;
use hone_binary::lock::{Lock, LockedProgram, LockedTraining, commit_of};
use hone_binary::profile_store::Keeper;
use hone_record::ToolReceipt;

use super::kinds::Kind;
use crate::job::Job;
use hone_experiment::spec::target::Form;

/// A training that went into a profile.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'a> {
    /// Its place in the experiment.
    pub(super) index: usize,
    /// What it left.
    pub(super) raw: &'a Path,
    pub(super) weight: f64,
    /// The load as it was, and what of it was counted.
    pub(super) load: &'a str,
}

/// What a merged profile was made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct WentIn<'a> {
    /// What was trained here.
    pub(super) parts: &'a [Part<'a>],
    /// Whether the profile that the experiment names is in it, too.
    pub(super) given: bool,
}

/// What somebody else trained is known when it has a lock.
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
    /// Writes the lock of a merged profile. A profile that can't have one is told of, and used all the same: it is proven.
    pub(super) fn lock_profile(
        &self,
        profile: &Path,
        counting: &Built,
        tools: &[ToolReceipt],
        went_in: WentIn<'_>,
    ) {
        if profile.is_dir() {
            // gcc's is a folder of counts beside objects, which nobody keeps.
            return;
        }
        match self.locked(profile, counting, tools, went_in) {
            Ok(lock) => self.progress.line(&format!("  provenance: {}", lock.display())),
            Err(error) => {
                self.progress.line(&format!(
                    "  {} gets no lock: {}",
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
                    // The same contents may have been merged here before, of trainings that are known.
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
            Form::Elf { .. } => return None,
        };
        let folder = if folder.is_dir() { folder } else { folder.parent()?.to_owned() };
        folder.canonicalize().ok()
    }
}

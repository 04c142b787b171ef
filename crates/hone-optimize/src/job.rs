//! The context of an optimisation, which all of its steps use.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_load::Security;
use hone_record::Engine;
use hone_tool::Runner;

use hone_experiment::arm::{Arm, Place};
use hone_experiment::bench::Bench;
use hone_experiment::folder::RunFolder;
use hone_experiment::left::LOCK_OF_BUILDS;
use hone_experiment::phase::Phase;
use hone_experiment::progress::Progress;
use hone_experiment::ready::Ready;
use hone_experiment::spec::Experiment;
use hone_experiment::spec::target::Target;

/// The context of an optimisation.
pub struct Job<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// The experiment file.
    pub file: &'a Path,
    /// The run's folder.
    pub folder: &'a RunFolder,
    /// The folder of the builds and of the ledger of all runs.
    pub home: &'a Path,
    /// Starts programs.
    pub runner: &'a dyn Runner,
    /// Receives the progress.
    pub progress: &'a Progress,
    /// The only phase to run, if one was requested.
    pub only: Option<Phase>,
}

impl<'a> Job<'a> {
    /// Two concurrent runs of one experiment would remove each other's builds. Two in one run would remove each other's
    /// measurements.
    pub(crate) fn lock(&self, folder: &Path, what: &str) -> Result<fs::File> {
        let path = folder.join(LOCK_OF_BUILDS);
        fs::create_dir_all(folder).with_context(|| format!("{} can't be made", folder.display()))?;
        let file = fs::File::create(&path).with_context(|| format!("{} can't be made", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(fs::TryLockError::WouldBlock) => bail!(
                "another run of `{}` is {what} {}\n  next: wait for its end, or use another --output",
                self.experiment.name,
                folder.display()
            ),
            Err(fs::TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("{} can't be locked", path.display()))
            }
        }
    }

    pub(crate) fn target(&self) -> &'a Target {
        &self.experiment.target
    }

    /// Whether the program runs until Hone stops it.
    pub(crate) fn serves(&self) -> bool {
        let training = self.experiment.training.iter().map(|training| &training.workload);
        training.chain(&self.experiment.judging).any(|load| !matches!(load.engine, Engine::Exits { .. }))
    }

    /// Whether its loads use the Kafka API.
    pub(crate) fn is_broker(&self) -> bool {
        self.experiment.is_broker()
    }

    pub(crate) fn ready(&self) -> Ready {
        self.experiment.ready()
    }

    /// Runs share their builds, so that a second run does not compile the same sources again.
    pub(crate) fn work(&self) -> PathBuf {
        self.home.join("builds").join(&self.experiment.name)
    }

    pub(crate) fn bench(&self) -> Bench<'a> {
        Bench {
            runner: self.runner,
            scratch: self.folder.scratch(),
            storage: self.target().storage.clone(),
            lateness_limit_us: self.experiment.compare.lateness_limit_ms * 1e3,
            progress: self.progress,
        }
    }

    pub(crate) fn arm(&self, name: &str, path: &Path, env: BTreeMap<String, OsString>) -> Arm {
        let program = self.target().started_as(path, env, self.beside(Path::new("")), self.ready());
        Arm {
            name: name.to_owned(),
            place: Place::Program(program),
            security: Security::default(),
            metrics: self.target().metrics.clone(),
        }
    }
}

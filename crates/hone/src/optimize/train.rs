//! Training: a program that counts is loaded, and stopped so that its counts get onto disk.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use hone_binary::capture::{CaptureRefusal, Dump, ProfileFiles, build_preload, preload_env};
use hone_binary::{Built, Refusal, Workshop};
use hone_record::{Engine, Outcome, Window};
use hone_tool::{Tool, interrupt};
use serde::{Deserialize, Serialize};

use super::check::trouble_of;
use super::steps::Told;
use super::{Job, Left};
use crate::arm::Arm;
use crate::bench;
use crate::experiment::Training;
use crate::show;

/// A program that counts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Counting {
    pub(super) variant: String,
    pub(super) program: PathBuf,
    pub(super) env: Vec<(OsString, OsString)>,
    /// Where its counts will be.
    pub(super) files: ProfileFiles,
    /// It writes by itself, every so many seconds.
    pub(super) every_s: Option<u32>,
    /// Makes a signal's death an orderly exit.
    pub(super) preload: Option<PathBuf>,
}

/// One training.
#[derive(Debug, Clone)]
pub(super) struct Trained {
    /// What was done, and what is lost.
    pub(super) words: String,
}

/// Where the counts of each training workload are, in their order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Raw {
    pub(super) folders: Vec<PathBuf>,
    /// Nothing was trained: it is a file of the user's.
    pub(super) is_given: bool,
}

impl Job<'_> {
    /// Trains a counting build with each workload; each leaves its counts in a folder of its own.
    pub(super) fn train(&self, workshop: &dyn Workshop, counting: &Built, round: &str) -> Result<Told<Raw>> {
        let (mut folders, mut words) = (Vec::new(), Vec::new());
        let mut preload = None;
        for (index, training) in self.experiment.training.iter().enumerate() {
            let raw = self.raw_folder(round, &training.workload.name)?;
            let mut counting = Counting {
                variant: counting.variant.clone(),
                program: counting.executable.clone(),
                env: workshop.training_env(&raw),
                files: workshop.profile_files(counting, &raw),
                every_s: None,
                preload: preload.clone(),
            };
            if index == 0 {
                if let Err(trouble) = self.rehearse(&mut counting)? {
                    bail!(trouble);
                }
                preload.clone_from(&counting.preload);
            }
            words.push(self.train_with(&counting, training)?.words);
            folders.push(raw);
        }
        Ok(Told { note: words.join("; "), command: None, result: Raw { folders, is_given: false } })
    }

    pub(super) fn raw_folder(&self, round: &str, workload: &str) -> Result<PathBuf> {
        let raw = self.folder.join("profile-raw").join(round).join(workload);
        if raw.exists() {
            fs::remove_dir_all(&raw).with_context(|| format!("{} can't be removed", raw.display()))?;
        }
        fs::create_dir_all(&raw).with_context(|| format!("{} can't be made", raw.display()))?;
        Ok(raw)
    }

    /// Starts a counting program, stops it and looks whether it writes: nobody should train for an hour to find out that it
    /// does not. One that dies of its signal gets a preload. The inner error is the refusal when that does not help.
    pub(super) fn rehearse(&self, counting: &mut Counting) -> Result<Result<(), Refusal>> {
        if self.experiment.training.iter().all(is_of_exits) {
            return Ok(Ok(()));
        }
        let refusal = match self.start_and_stop(counting)? {
            Ok(()) => return Ok(Ok(())),
            Err(refusal) => refusal,
        };
        // Only where the program is found that compiles it; there is no other help for a finished one.
        let Some(compiler) =
            ["cc", "clang", "gcc"].iter().find_map(|name| Tool::new(name, "").locate(&[]).ok())
        else {
            return Ok(Err(refusal));
        };
        let preload = build_preload(self.runner, compiler.path(), &self.folder.join("aids"))?;
        counting.preload = Some(preload);
        match self.start_and_stop(counting)? {
            Ok(()) => {
                self.progress.line(&format!(
                    "  {} writes no profile when it is stopped; with the preload it does",
                    counting.variant
                ));
                Ok(Ok(()))
            }
            Err(_) => {
                counting.preload = None;
                Ok(Err(refusal))
            }
        }
    }

    fn start_and_stop(&self, counting: &Counting) -> Result<Result<(), Refusal>> {
        counting.clear()?;
        let running = self.counting_arm(counting).start(self.runner, &self.folder.scratch())?;
        let stopped = running.stop_with_profile(self.runner, counting.files.clone(), counting.dump());
        counting.clear()?;
        match stopped {
            Ok(_) => Ok(Ok(())),
            Err(error) => match error.downcast_ref::<Refusal>() {
                Some(
                    refusal @ Refusal::Capture(
                        CaptureRefusal::NothingWritten { .. } | CaptureRefusal::SomeEmpty { .. },
                    ),
                ) if !interrupt::requested() => Ok(Err(refusal.clone())),
                _ => Err(error),
            },
        }
    }

    fn counting_arm(&self, counting: &Counting) -> Arm {
        let mut env = counting.env.clone();
        if let Some(preload) = &counting.preload {
            let already = self.target().env.get("LD_PRELOAD").map(OsString::from);
            env.push(preload_env(preload, already.as_deref()));
        }
        let env = env.into_iter().map(|(name, value)| (name.to_string_lossy().into_owned(), value));
        self.arm(&counting.variant, &counting.program, env.collect())
    }

    /// One training. What was counted before the load does not count, where the target can forget it.
    pub(super) fn train_with(&self, counting: &Counting, training: &Training) -> Result<Trained> {
        counting.clear()?;
        let arm = self.counting_arm(counting);
        let how =
            bench::Training { files: counting.files.clone(), dump: counting.dump(), has_dump_object: false };
        let trained = self.bench().train(&arm, &training.workload, how);
        let (window, stop) = match trained {
            Ok(trained) => trained,
            Err(error) => return Err(Left(format!("the training failed: {}", trouble_of(error)?)).into()),
        };
        Ok(Trained { words: format!("{}; {}", trained_words(&window), stop.lost) })
    }
}

impl Counting {
    /// What an earlier training left must not pass for what this one leaves.
    fn clear(&self) -> Result<()> {
        for file in self.files.snapshot()?.into_keys() {
            fs::remove_file(&file).with_context(|| format!("{} can't be removed", file.display()))?;
        }
        Ok(())
    }

    fn dump(&self) -> Dump {
        self.every_s.map_or(Dump::None, |seconds| Dump::Every { seconds })
    }
}

fn is_of_exits(training: &Training) -> bool {
    matches!(training.workload.engine, Engine::Exits { .. })
}

fn trained_words(window: &Window) -> String {
    let what = if window.workload.engine.operations().is_some() { "operations" } else { "requests" };
    format!(
        "{} {what} of workload `{}` acknowledged{}",
        show::number(window.facts.acked_requests as f64),
        window.workload.name,
        match window.outcome {
            Outcome::Steady => "",
            Outcome::GeneratorLate { .. } =>
                " (the generator could not keep the rate, which a profile does not need)",
            _ => " (the instrumented program could not keep the rate, which a profile does not need)",
        }
    )
}

//! The steps of an optimisation. Each ends in a file, so a run that was interrupted, or that ran one phase only, continues after the last
//! one.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result};
use hone_record::StepReceipt;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::attempt::Underway;
use hone_experiment::folder::RunFolder;
use hone_experiment::phase::Phase;
use hone_experiment::progress::Progress;

/// Why a run with `--phase` ends before its last step.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PhaseEnd {
    /// All of the phase is done.
    #[error("the phase {} is done", .0.name())]
    Done(Phase),
    /// An earlier step is not done.
    #[error(
        "the phase {} needs {step}, which this run has not done\n  next: run the earlier phase with --phase \
         {} first",
        .wanted.name(),
        .missing.name()
    )]
    Missing {
        /// The requested phase.
        wanted: Phase,
        /// The earlier phase that is not done.
        missing: Phase,
        /// Its step.
        step: String,
    },
}

/// An error of a run, with the command that continues it. Finished steps stay. `more` is another next step for failures that the user did
/// not cause.
pub(crate) fn with_way_on(error: &anyhow::Error, way_on: &str, more: Option<String>) -> anyhow::Error {
    // The user knows the reason of an interrupt.
    if hone_tool::interrupt::requested() {
        return anyhow::anyhow!("interrupted; Hone keeps the finished steps\n  next: {way_on}");
    }
    stopped(error, way_on, more)
}

/// Each next step has a line of its own: that of the error first, then the command that continues the run.
fn stopped(error: &anyhow::Error, way_on: &str, more: Option<String>) -> anyhow::Error {
    const NEXT: &str = "\n  next: ";
    let told = format!("{error:#}");
    let (failed, remedies) = told.split_at(told.find(NEXT).unwrap_or(told.len()));
    let more = more.map(|more| format!("{NEXT}{more}")).unwrap_or_default();
    anyhow::anyhow!(
        "{failed}\nthe run stopped; Hone keeps the finished steps{remedies}{NEXT}after you have fixed the \
         cause, continue with `{way_on}`{more}"
    )
}

/// A finished step on disk.
#[derive(Debug, Serialize, Deserialize)]
struct Finished<T> {
    receipt: StepReceipt,
    result: T,
    /// `None` for runs of older versions.
    #[serde(default)]
    phase: Option<Phase>,
}

/// The output of a step: its result, and its note for the user.
pub struct Told<T> {
    pub(super) result: T,
    pub(super) note: String,
    pub(super) command: Option<String>,
}

/// The steps with their receipts, in order.
pub struct Steps<'a> {
    folder: &'a RunFolder,
    progress: &'a Progress,
    only: Option<Phase>,
    underway: Option<Underway<'a>>,
    pub(super) receipts: Vec<StepReceipt>,
}

impl<'a> Steps<'a> {
    pub(super) fn new(folder: &'a RunFolder, progress: &'a Progress, only: Option<Phase>) -> Self {
        Self { folder, progress, only, underway: None, receipts: Vec::new() }
    }

    /// Also notes the current step.
    pub(super) fn of(self, underway: Underway<'a>) -> Self {
        Self { underway: Some(underway), ..self }
    }

    /// Runs a step, or takes its result from the file of an earlier attempt.
    ///
    /// # Errors
    /// Returns the errors of the step, and [`PhaseEnd`] if it does not belong to the requested phase.
    pub fn run<T: Serialize + DeserializeOwned>(
        &mut self,
        phase: Phase,
        name: &str,
        step: impl FnOnce() -> Result<Told<T>>,
    ) -> Result<T> {
        let file = file_of(name);
        if let Some(Finished { receipt, result, .. }) = self.folder.read_note::<Finished<T>>(&file)? {
            self.progress.line(&format!("{name:<19} already done: {}", receipt.note));
            self.receipts.push(receipt);
            return Ok(result);
        }
        self.is_its_turn(phase, name)?;
        self.progress.doing(name);
        if let Some(underway) = &mut self.underway {
            underway.at(name)?;
        }
        let start = Instant::now();
        let told = step().with_context(|| format!("step {name}"))?;
        let took_s = start.elapsed().as_secs_f64();
        self.progress.line(&format!("{name:<19} {:>6.1} s  {}", took_s, told.note));
        let receipt = StepReceipt { step: name.to_owned(), took_s, command: told.command, note: told.note };
        let finished = Finished { receipt, result: told.result, phase: Some(phase) };
        self.folder.write_note(&file, &finished)?;
        self.receipts.push(finished.receipt);
        Ok(finished.result)
    }

    fn is_its_turn(&self, phase: Phase, step: &str) -> Result<()> {
        let Some(only) = self.only else { return Ok(()) };
        match phase.cmp(&only) {
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Greater => Err(PhaseEnd::Done(only).into()),
            std::cmp::Ordering::Less => {
                Err(PhaseEnd::Missing { wanted: only, missing: phase, step: step.to_owned() }.into())
            }
        }
    }

    /// A value that is computed once and needs no receipt.
    pub(super) fn quiet<T: Serialize + DeserializeOwned>(
        &mut self,
        name: &str,
        step: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let file = file_of(name);
        if let Some(value) = self.folder.read_note(&file)? {
            return Ok(value);
        }
        let value = step()?;
        self.folder.write_note(&file, &value)?;
        Ok(value)
    }
}

/// A step that is done.
#[derive(Debug, Clone, PartialEq)]
pub struct DoneStep {
    /// The step.
    pub name: String,
    /// `None` for runs of older versions.
    pub phase: Option<Phase>,
    /// Seconds that it took.
    pub took_s: f64,
}

/// The steps of a run that are done.
pub fn done(folder: &Path) -> Vec<DoneStep> {
    let entries = std::fs::read_dir(folder.join("steps")).into_iter().flatten().flatten();
    let texts = entries.filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
    // Other files of the folder are no steps with a receipt.
    let done = texts.filter_map(|text| serde_json::from_str::<Finished<serde::de::IgnoredAny>>(&text).ok());
    done.map(|Finished { receipt, phase, .. }| DoneStep { name: receipt.step, phase, took_s: receipt.took_s })
        .collect()
}

/// The result of a step that is done.
///
/// # Errors
/// Fails when its file can't be read.
pub(super) fn result_of<T: DeserializeOwned>(folder: &RunFolder, name: &str) -> Result<Option<T>> {
    let finished = folder.read_note::<Finished<T>>(&file_of(name))?;
    Ok(finished.map(|finished| finished.result))
}

/// Names of variants contain `+` and `@`, which are valid in file names.
fn file_of(name: &str) -> String {
    format!("steps/{name}.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(result: u32) -> Result<Told<u32>> {
        Ok(Told { result, note: String::new(), command: None })
    }

    #[test]
    fn each_next_step_of_a_run_that_stopped_has_its_line() {
        let error = anyhow::anyhow!("no clang\n  next: install it").context("step train");
        let told =
            stopped(&error, "hone optimize x.toml --resume", Some("begin anew".to_owned())).to_string();
        assert_eq!(
            told,
            "step train: no clang\nthe run stopped; Hone keeps the finished steps\n  next: install it\n  next: \
             after you have fixed the cause, continue with `hone optimize x.toml --resume`\n  next: begin anew"
        );
        assert_eq!(stopped(&anyhow::anyhow!("it broke"), "x", None).to_string().matches("next:").count(), 1);
    }

    #[test]
    fn a_phase_alone_needs_what_is_before_it_and_ends_before_what_is_behind() {
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(parent.path(), "run").unwrap();
        let progress = Progress::new(true);
        let only = |phase| Steps::new(&folder, &progress, Some(phase));
        let end = |result: Result<u32>| result.unwrap_err().downcast::<PhaseEnd>().unwrap();

        let missing = end(only(Phase::Train).run(Phase::Baseline, "build-baseline", || told(1)));
        assert!(
            missing.to_string().contains("run the earlier phase with --phase baseline first"),
            "{missing}"
        );
        let mut steps = only(Phase::Baseline);
        assert_eq!(steps.run(Phase::Baseline, "build-baseline", || told(1)).unwrap(), 1);
        assert_eq!(end(steps.run(Phase::Train, "train", || told(2))), PhaseEnd::Done(Phase::Baseline));
        let mut steps = only(Phase::Train);
        assert_eq!(
            steps.run(Phase::Baseline, "build-baseline", || told(9)).unwrap(),
            1,
            "as it was found before"
        );
        assert_eq!(steps.run(Phase::Train, "train", || told(2)).unwrap(), 2);
        // A later run knows the phase of each step.
        folder.write_note("steps/quiet.json", &3).unwrap();
        let mut done = done(folder.path());
        done.sort_by_key(|step| step.phase);
        let done: Vec<_> = done.iter().map(|step| (&*step.name, step.phase)).collect();
        assert_eq!(done, [("build-baseline", Some(Phase::Baseline)), ("train", Some(Phase::Train))]);
    }
}

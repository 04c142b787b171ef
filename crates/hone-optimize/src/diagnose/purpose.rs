//! What the traces of a diagnosis are for: to say why, to learn a budget, or to be held against one.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use hone_record::Evidence;

use super::Command;
use super::found::Found;
use super::gate::{self, Budget, Gate, Subject};
use crate::job::Job;
use hone_experiment::ending::Usage;
use hone_experiment::folder::RunFolder;
use hone_experiment::output::Output;
use hone_experiment::progress::Progress;
use hone_experiment::run_context::{experiment_text, shown_runner};
use hone_experiment::{bench, spec};

/// What the traces are for.
pub enum Purpose<'a> {
    /// To say why the CPU stalls.
    Diagnose,
    /// To write a budget out of several of them.
    Learn {
        /// The budget's file.
        path: &'a Path,
        /// So many.
        repeats: u32,
    },
    /// To be held against a budget.
    Gate {
        /// The budget's file.
        path: &'a Path,
    },
}

/// What came of it.
pub enum Answer {
    /// Why the CPU stalls.
    Diagnosis(Found),
    /// What a budget says of the trace.
    Gate(Gate),
    /// The budget that was written.
    Learned(Budget),
}

/// Traces the target of an experiment under a workload of it, or another build of the target.
pub fn of_experiment(
    purpose: &Purpose<'_>,
    file: &Path,
    (workload, program): (Option<&str>, Option<&Path>),
    output: &Path,
    progress: &Progress,
) -> Result<Answer> {
    let experiment = spec::parse(&experiment_text(file)?, file)?;
    for workload in experiment.training.iter().map(|training| &training.workload).chain(&experiment.judging) {
        bench::check(workload)?;
    }
    let workload = crate::workload(&experiment, workload).with_context(|| file.display().to_string())?;
    let subject = Subject {
        program: experiment.name.clone(),
        workload: Some(workload.name.clone()),
        evidence: Evidence::Simulated,
    };
    let budget = purpose.budget(&subject)?;
    let folder = RunFolder::create(output, &format!("{}-diagnosis", experiment.name))?;
    progress.line(&format!("Run folder: {}", folder.path().display()));
    let runner = shown_runner(&folder, progress)?;
    let home = std::path::absolute(output)?.canonicalize()?;
    let job = Job {
        experiment: &experiment,
        file,
        folder: &folder,
        home: &home,
        runner: &runner,
        progress,
        only: None,
    };
    let program = crate::program_to_diagnose(&job, program)?;
    purpose.serve((subject, budget), &folder, progress, || crate::diagnose(&job, workload, &program))
}

/// Traces a command that ends by itself.
pub fn of_command(
    purpose: &Purpose<'_>,
    command: &[String],
    output: &Path,
    progress: &Progress,
) -> Result<Answer> {
    let command = Command::look(command)?;
    let subject = Subject { program: command.name(), workload: None, evidence: Evidence::Simulated };
    let budget = purpose.budget(&subject)?;
    let folder = RunFolder::create(output, "diagnosis")?;
    progress.line(&format!("Run folder: {}", folder.path().display()));
    let runner = shown_runner(&folder, progress)?;
    purpose.serve((subject, budget), &folder, progress, || super::of_command(&runner, &folder, &command))
}

impl Purpose<'_> {
    /// Looked at before anything runs: a budget that can't be read, or written, is known at once.
    fn budget(&self, subject: &Subject) -> Result<Option<Budget>> {
        let path = match self {
            Self::Diagnose => return Ok(None),
            Self::Gate { path } => *path,
            Self::Learn { path, .. } => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
                    let (path, folder) = (path.display(), folder.display());
                    let why = format!("{path} can't be written: there is no folder {folder}");
                    return Err(Usage(why).into());
                }
                return Ok(None);
            }
        };
        let next = "\n  next: hone diagnose --learn FILE writes one";
        let text = fs::read_to_string(path)
            .with_context(|| format!("the budget {} can't be read{next}", path.display()))?;
        let wrong = |what: String| Usage(format!("{} {what}{next}", path.display()));
        let budget = Budget::parse(&text).map_err(wrong)?;
        budget.fits(subject).map_err(wrong)?;
        Ok(Some(budget))
    }

    /// Traces as often as is wanted. `folder` is where the traces stay.
    fn serve(
        &self,
        (subject, budget): (Subject, Option<Budget>),
        folder: &RunFolder,
        progress: &Progress,
        once: impl Fn() -> Result<Found>,
    ) -> Result<Answer> {
        if let Self::Learn { path, repeats } = self {
            return learn(path, *repeats, &subject, progress, once).map(Answer::Learned);
        }
        let found = once()?;
        match (self, budget) {
            // What broke off says nothing of what the rest would have been.
            (Self::Gate { path }, Some(budget)) if found.is_whole => {
                held(path, &budget, &subject, folder.path(), &found).map(Answer::Gate)
            }
            _ => Ok(Answer::Diagnosis(found)),
        }
    }
}

fn held(path: &Path, budget: &Budget, subject: &Subject, folder: &Path, found: &Found) -> Result<Gate> {
    let figures = budget.hold(&figures(found)?);
    let is_worse = figures.iter().any(|held| held.outcome.fails());
    let (budget, folder) = (path.display().to_string(), folder.display());
    let next = [
        format!("where the code lies now: hone heatmap {folder}"),
        format!(
            "what moved: trace the state that {budget} was learned of in the same way, and hone heatmap BEFORE {folder} -o moved.html"
        ),
        format!(
            "where it is meant: the same command with --learn {budget} in place of --gate, and commit the file"
        ),
    ];
    Ok(Gate {
        budget,
        subject: subject.clone(),
        source: found.diagnosis.source.clone(),
        is_worse,
        figures,
        notes: found.diagnosis.notes.clone(),
        next: if is_worse { next.into() } else { Vec::new() },
    })
}

fn learn(
    path: &Path,
    repeats: u32,
    subject: &Subject,
    progress: &Progress,
    once: impl Fn() -> Result<Found>,
) -> Result<Budget> {
    let (mut all, mut of) = (Vec::new(), String::new());
    for repeat in 1..=repeats {
        progress.line(&format!("Repeat {repeat} of {repeats}"));
        let found = once()?;
        anyhow::ensure!(
            found.is_whole,
            "nothing was learned: repeat {repeat} did not come to its end\n  {}",
            found.diagnosis.notes.join("\n  ")
        );
        all.push(figures(&found)?);
        of = found.diagnosis.source;
    }
    let budget = gate::learn(subject.clone(), of, &all);
    Output::claim(path)?.keep(budget.text())?;
    Ok(budget)
}

/// Of all threads.
fn figures(found: &Found) -> Result<BTreeMap<String, f64>> {
    let layout = found.diagnosis.parts.iter().rev().find_map(|part| part.layout.as_ref());
    Ok(gate::figures(layout.context("nothing ran")?, found.operations))
}

//! The purpose of a diagnosis's traces: to find the reason, to learn a budget, or to compare with one.

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

/// The purpose of the traces.
pub enum Purpose<'a> {
    /// Find out why the CPU stalls.
    Diagnose,
    /// Learn a budget from several traces.
    Learn {
        /// The budget's file.
        path: &'a Path,
        /// The number of traces.
        repeats: u32,
    },
    /// Compare with a budget.
    Gate {
        /// The budget's file.
        path: &'a Path,
    },
}

/// The result.
pub enum Answer {
    /// Why the CPU stalls.
    Diagnosis(Box<Found>),
    /// The comparison of the trace with a budget.
    Gate(Gate),
    /// The written budget.
    Learned(Budget),
}

/// Traces the target of an experiment, or another build of it, under one of its workloads.
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
    /// Checked before anything runs: a budget that can't be read or written is an early error.
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
        let next = "\n  next: write one with `hone diagnose --learn FILE`";
        let text = fs::read_to_string(path)
            .with_context(|| format!("the budget {} can't be read{next}", path.display()))?;
        let budget = Budget::parse(&text, path).map_err(|wrong| Usage(wrong + next))?;
        let of_another = |what: String| Usage(format!("{} {what}{next}", path.display()));
        budget.fits(subject).map_err(of_another)?;
        Ok(Some(budget))
    }

    /// Traces the requested number of times. `folder` keeps the traces.
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
            // An incomplete trace says nothing about the rest.
            (Self::Gate { path }, Some(budget)) if found.is_whole => {
                held(path, &budget, &subject, folder.path(), &found).map(Answer::Gate)
            }
            _ => Ok(Answer::Diagnosis(Box::new(found))),
        }
    }
}

fn held(path: &Path, budget: &Budget, subject: &Subject, folder: &Path, found: &Found) -> Result<Gate> {
    let figures = budget.hold(&figures(found)?);
    let is_worse = figures.iter().any(|held| held.outcome.fails());
    let (budget, folder) = (path.display().to_string(), folder.display());
    let next = [
        format!("see where the code is now with `hone heatmap {folder}`"),
        format!(
            "see what moved: trace the state that {budget} was learned from in the same way, then run \
             `hone heatmap BEFORE {folder} -o moved.html`"
        ),
        format!(
            "if the change is intended: use the same command with --learn {budget} instead of --gate, and \
             commit the file"
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
            "no budget written: repeat {repeat} did not finish\n  {}",
            found.diagnosis.notes.join("\n  ")
        );
        all.push(figures(&found)?);
        of = found.diagnosis.source;
    }
    let budget = gate::learn(subject.clone(), of, &all);
    Output::claim(path)?.keep(budget.text())?;
    Ok(budget)
}

/// The total of all threads.
fn figures(found: &Found) -> Result<BTreeMap<String, f64>> {
    let layout = found.diagnosis.parts.iter().rev().find_map(|part| part.layout.as_ref());
    Ok(gate::figures(layout.context("nothing ran")?, found.operations))
}

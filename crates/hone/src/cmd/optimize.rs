//! `hone optimize FILE`: from an experiment file to a verdict and a report.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use hone_record::Verdict;
use hone_tool::{System, interrupt};

use super::{Desk, default_runs, report};
use crate::Ending;
use crate::experiment::{self, Experiment};
use crate::folder::RunFolder;
use crate::optimize::{Job, design, optimize};
use crate::show;

/// Take a Cargo target through profile-guided optimisation and say, by measurement, what it brought.
///
/// Builds the baseline, tells the ceiling, builds with counters, trains, proves the profile, builds with it, proves that
/// it was applied, checks that the result still works, and judges it against the baseline pair by pair, with another
/// workload than the one that trained. Every step ends in a file of the run's folder.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone optimize examples/broker/hone.toml
  hone optimize examples/broker/hone.toml --resume
  hone optimize examples/broker/hone.toml --resume runs/broker-pgo-003
  hone optimize my.toml --output /var/tmp/runs --json")]
pub(crate) struct Arguments {
    /// The experiment: target, workloads, how to compare.
    file: PathBuf,
    /// Folder for runs, builds and the ledger.
    #[arg(short, long, value_name = "FOLDER", default_value_os_t = default_runs())]
    output: PathBuf,
    /// Go on with a run that was broken off: the named one, or the newest of this experiment.
    #[arg(long, value_name = "RUN", num_args = 0..=1)]
    resume: Option<Option<PathBuf>>,
}

pub(crate) fn run(arguments: Arguments, desk: &Desk) -> Result<Ending> {
    let text = fs::read_to_string(&arguments.file)
        .with_context(|| format!("the experiment {} can't be read", arguments.file.display()))?;
    let experiment = experiment::parse(&text, &arguments.file)?;
    for workload in experiment.judging.iter().chain([&experiment.training]) {
        hone_load::check(workload).with_context(|| format!("workload `{}`", workload.name))?;
    }
    design(&experiment.compare)?;
    let folder = folder(&arguments, &experiment, &text)?;
    desk.progress.line(&format!("Run folder: {}", folder.path().display()));
    let done = carry_out(&arguments, &experiment, &folder, desk);
    let found =
        done.map_err(|error| with_way_on(error, &arguments.file, &folder, arguments.resume.is_none()))?;
    let page = report::write(&folder.join("optimization.json"), None)?;
    let worse = found.comparisons.iter().any(|comparison| comparison.verdict() == Verdict::Worse);
    desk.show(found, |found| format!("{}\nReport: {}\n", show::optimization::text(found), page.display()))?;
    Ok(if worse { Ending::Worse } else { Ending::Done })
}

fn carry_out(
    arguments: &Arguments,
    experiment: &Experiment,
    folder: &RunFolder,
    desk: &Desk,
) -> Result<hone_record::Optimization> {
    let progress = desk.progress.clone();
    let runner = System::new(folder.join("logs"))?.on_progress(move |at| {
        progress.detail(&format!("{:.0} s  {}", at.elapsed.as_secs_f64(), at.last_line.unwrap_or_default()));
    });
    let job = Job {
        experiment,
        file: &arguments.file,
        folder,
        home: &arguments.output,
        runner: &runner,
        progress: &desk.progress,
    };
    optimize(&job)
}

/// A new folder, or the one to go on with. The experiment's text is kept in it: a run is of one experiment.
fn folder(arguments: &Arguments, experiment: &Experiment, text: &str) -> Result<RunFolder> {
    let Some(resume) = &arguments.resume else {
        let folder = RunFolder::create(&arguments.output, &experiment.name)?;
        folder.write_text("experiment.toml", text)?;
        return Ok(folder);
    };
    let path = match resume {
        Some(path) => path.clone(),
        None => newest(&arguments.output, &experiment.name)?,
    };
    let folder = RunFolder::open(&path)?;
    let kept = folder.join("experiment.toml");
    let kept = fs::read_to_string(&kept).with_context(|| {
        format!("{} can't be read; is {} a run of optimize?", kept.display(), path.display())
    })?;
    if kept != text {
        bail!(
            "{} has changed since {} was begun; a run is of one experiment. Begin a new one without --resume",
            arguments.file.display(),
            path.display()
        );
    }
    Ok(folder)
}

fn newest(output: &Path, name: &str) -> Result<PathBuf> {
    let number = |path: &PathBuf| {
        let file_name = path.file_name()?.to_str()?;
        file_name.strip_prefix(name)?.strip_prefix('-')?.parse::<u32>().ok()
    };
    let entries = fs::read_dir(output).into_iter().flatten().flatten();
    let runs = entries.map(|entry| entry.path()).filter_map(|path| Some((number(&path)?, path)));
    let newest = runs.max().map(|(_, path)| path);
    newest.with_context(|| format!("there is no run of `{name}` in {} to go on with", output.display()))
}

/// An error keeps what was done; say how to go on.
fn with_way_on(error: anyhow::Error, file: &Path, folder: &RunFolder, is_new: bool) -> anyhow::Error {
    if !folder.join("steps").exists() {
        // Nothing was done that could be gone on with.
        if is_new {
            let _ = fs::remove_dir_all(folder.path());
        }
        return error;
    }
    // Of an interrupt the user knows the reason.
    let what =
        if interrupt::requested() { "interrupted".to_owned() } else { format!("{error:#}\nbroken off") };
    anyhow::anyhow!(
        "{what}; finished steps are kept. To go on: hone optimize {} --resume {}",
        file.display(),
        folder.path().display()
    )
}

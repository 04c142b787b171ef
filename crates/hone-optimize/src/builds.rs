//! The builds of an experiment without their judging, for whoever judges them himself.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hone_record::Foretold;

use crate::run::{OptimizeRun, RunRequest, check_rule_and_loads, newest};
use crate::steps::{self, DoneStep};
use crate::{Findings, findings, foretold_of};
use hone_experiment::folder::RunFolder;
use hone_experiment::phase::Phase;
use hone_experiment::progress::Progress;
use hone_experiment::run_context::experiment_text;
use hone_experiment::spec::{self, VariantChoice};
use hone_experiment::takes::{self, MAKING, Takes};
use hone_experiment::variants::BASELINE;

/// Whether an experiment can be read, and its loads and its rule be had.
///
/// # Errors
/// With what is wrong.
pub fn check(file: &Path) -> Result<()> {
    let text = experiment_text(file)?;
    let experiment = spec::parse(&text, file)?;
    check_rule_and_loads(&experiment)
}

/// What the builds of an experiment take, as far as its file says it.
///
/// # Errors
/// With what is wrong with it.
pub fn takes(file: &Path) -> Result<Takes> {
    let text = experiment_text(file)?;
    Ok(takes::takes(&spec::parse(&text, file)?))
}

/// What a run up to the judging has made and found.
pub struct Programs {
    /// The program as it is built without a profile.
    pub plain: PathBuf,
    /// Those that are worth a comparison, each behind the one that it builds on.
    pub variants: Vec<(String, PathBuf)>,
    /// The loads that trained them.
    pub trained_by: Vec<String>,
    /// What is known of the plain one.
    pub findings: Findings,
    /// What replays foretell of the layouts of variants, by name.
    pub foretold: BTreeMap<String, Foretold>,
    /// Why the variants were not made.
    pub stopped: Option<String>,
}

/// The plain program of an experiment and its variants, and what is known of the plain one: everything up to the judging, by a run in `output`.
/// One that was broken off there goes on. Before each phase behind the first `stops` is asked, with the seconds that all the rest takes at least, whether the time is over; then the
/// plain program is all that there is.
///
/// # Errors
/// As for the phases.
pub fn programs(
    file: &Path,
    output: &Path,
    stops: &dyn Fn(f64) -> Option<String>,
    progress: &Progress,
) -> Result<Programs> {
    let text = experiment_text(file)?;
    let experiment = spec::parse(&text, file)?;
    let takes = takes::takes(&experiment);
    let mut stopped = None;
    for (done, phase) in MAKING.into_iter().enumerate() {
        if done > 0 {
            stopped = stops(rest_s(&takes, done, &steps::done(&newest(output, &experiment.name)?)));
        }
        if stopped.is_some() {
            break;
        }
        OptimizeRun::read(phase_of(file, output, &experiment.name, phase))?.carry_out(progress)?;
    }
    let run = newest(output, &experiment.name)?;
    let made = run.join("bin");
    let program = |variant: &str| -> Option<PathBuf> {
        let mut files = fs::read_dir(made.join(variant)).ok()?.flatten().map(|entry| entry.path());
        files.find(|path| path.is_file())
    };
    let plain = program(BASELINE).with_context(|| format!("{} holds no plain build", made.display()))?;
    let tried = takes.tried.into_iter().filter(|_| stopped.is_none());
    let variants: Vec<(String, PathBuf)> =
        tried.filter_map(|name| Some((name.clone(), program(&name)?))).collect();
    let run = RunFolder::open(&run)?;
    let mut foretold = BTreeMap::new();
    for (name, _) in &variants {
        foretold.extend(foretold_of(&run, name)?.map(|found| (name.clone(), found)));
    }
    let findings = findings(&run)?;
    Ok(Programs { plain, variants, trained_by: takes.trained_by, findings, foretold, stopped })
}

/// Seconds that are left at least behind so many phases, when these steps are done.
fn rest_s(takes: &Takes, phases: usize, done: &[DoneStep]) -> f64 {
    let compile_s = done.iter().find(|step| step.name == BUILD_BASELINE).map_or(0.0, |step| step.took_s);
    let of = |phase: Phase| done.iter().filter(move |step| step.phase == Some(phase)).map(|step| step.took_s);
    takes.rest_s(phases, compile_s, MAKING.map(|phase| of(phase).sum()))
}

/// Seconds that the steps took which are done of the builds in `output`, whoever did them and was broken off. A step that was not finished is made anew,
/// and nobody has written down how long it took.
///
/// # Errors
/// When the experiment can't be read.
pub fn made_s(file: &Path, output: &Path) -> Result<f64> {
    let text = experiment_text(file)?;
    let run = spec::name_in(&text).and_then(|name| newest(output, &name).ok());
    Ok(run.map_or(0.0, |run| steps::done(&run).iter().map(|step| step.took_s).sum()))
}

/// A phase of the only run in a folder: the one that is there goes on, whatever its phase.
fn phase_of(file: &Path, output: &Path, name: &str, phase: Phase) -> RunRequest {
    RunRequest {
        file: file.to_owned(),
        output: output.to_owned(),
        resume: newest(output, name).is_ok().then_some(None),
        only: Some(phase),
        variants: VariantChoice::default(),
    }
}

/// The step that says how long a compiler takes for one program.
const BUILD_BASELINE: &str = "build-baseline";

#[cfg(test)]
mod tests {
    use super::*;

    /// It is counted among what earlier attempts took, and would be counted twice.
    #[test]
    fn what_an_earlier_attempt_built_is_not_left_to_be_built() {
        let takes = Takes { compiled: [1, 1, 2], loads_s: [0.0, 10.0, 0.0], ..Takes::default() };
        let step = |name: &str, phase, took_s| DoneStep { name: name.to_owned(), phase, took_s };
        let mut done = vec![step(BUILD_BASELINE, Some(Phase::Baseline), 60.0)];
        assert_eq!(rest_s(&takes, 1, &done), 70.0 + 120.0);
        done.push(step("train", Some(Phase::Train), 75.0));
        done.push(step("build-pgo", Some(Phase::Build), 60.0));
        assert_eq!(rest_s(&takes, 1, &done), 60.0);
        done.push(step("of an older Hone", None, 60.0));
        assert_eq!(rest_s(&takes, 1, &done), 60.0, "nobody knows where it belongs");
    }

    /// Builds of an hour are not made twice because the second of them was interrupted.
    #[test]
    fn builds_that_were_broken_off_go_on() {
        let home = tempfile::tempdir().unwrap();
        let of = |phase| phase_of(Path::new("x.toml"), home.path(), "x", phase).resume;
        assert_eq!(of(Phase::Baseline), None, "nothing is there yet");
        fs::create_dir(home.path().join("x-001")).unwrap();
        assert_eq!(of(Phase::Baseline), Some(None));
        assert_eq!(of(Phase::Build), Some(None));
    }
}

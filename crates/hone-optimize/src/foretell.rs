//! Why the baseline stalls, before any variant is made, and the predicted effect of each rewritten layout, before it is measured. Both
//! come from an exact trace under an emulator. If the trace fails, the run continues without them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use hone_binary::Built;
use hone_diagnose::emulator::TraceOptions;
use hone_diagnose::model::{self, Run};
use hone_diagnose::trace::TraceFolder;
use hone_record::{Diagnosis, Foretelling};
use hone_tool::interrupt;
use serde::{Deserialize, Serialize};

use super::emulated::Traced;
use super::steps::{Steps, Told};
use crate::diagnose;
use crate::job::Job;
use crate::outcome::{Outcomes, in_a_line};
use hone_experiment::emulated::image;
use hone_experiment::phase::Phase;
use hone_experiment::variants::{BASELINE, Made, Variant};

/// The note about a trace, next to its files.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Kept {
    words: String,
    operations: Option<u64>,
    user_share: Option<f64>,
    notes: Vec<String>,
    broke: Option<String>,
}

/// The step that predicts the effect of a variant's layout.
pub(super) fn step_of(variant: &str) -> String {
    format!("foretell-{variant}")
}

/// A result, or why there is none.
pub(super) type Tried<T> = Result<T, String>;

impl Job<'_> {
    /// Why the CPU of the plain build stalls. `None` if the user did not ask, or if the program can't be traced.
    pub(super) fn look_why(&self, steps: &mut Steps<'_>, baseline: &Built) -> Result<Option<Diagnosis>> {
        if !self.experiment.diagnose {
            return Ok(None);
        }
        let found = steps.run(Phase::Baseline, "diagnose", || {
            let found = tried(|| {
                let kept = self.trace(baseline)?;
                let traced = self.kept_trace(BASELINE, kept)?;
                let source = format!("{BASELINE}, {}", traced.words);
                Ok(diagnose::of_trace(&diagnose::run_of(&traced), &baseline.executable, source, &traced))
            })?;
            let note = match &found {
                Ok(diagnosis) => hone_document::diagnosis::sentence(diagnosis),
                Err(why) => format!("none: {why}"),
            };
            Ok(Told { result: found, note, command: None })
        })?;
        Ok(found.ok())
    }

    /// Predicts the effect of BOLT's layouts.
    pub(super) fn predict(
        &self,
        steps: &mut Steps<'_>,
        variants: &[Variant],
        outcomes: &Outcomes,
    ) -> Result<BTreeMap<usize, Foretelling>> {
        let mut foretold = BTreeMap::new();
        if !self.experiment.diagnose {
            return Ok(foretold);
        }
        let mut runs: BTreeMap<usize, Tried<(String, Run)>> = BTreeMap::new();
        for (index, variant) in variants.iter().enumerate() {
            let Made::Rewritten { from, .. } = variant.made else { continue };
            let (Some(built), Some(base)) = (outcomes.made.get(&index), outcomes.made.get(&from)) else {
                continue;
            };
            let name = step_of(&variant.name);
            let found = steps.run(Phase::Build, &name, || {
                // Several variants can come from one program.
                let run = match runs.entry(from) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(new) => new.insert(tried(|| self.run_of(base))?),
                };
                let found = match run {
                    Ok((words, run)) => tried(|| of_layout(run, words, base, built))?,
                    Err(why) => Err(why.clone()),
                };
                let note = match &found {
                    Ok(found) => format!("{}: {}", found.expected, found.rule),
                    Err(why) => format!("none: {why}"),
                };
                Ok(Told { result: found, note, command: None })
            })?;
            foretold.extend(found.ok().map(|found| (index, found)));
        }
        Ok(foretold)
    }

    /// Runs a build under the emulator with the training load.
    fn trace(&self, built: &Built) -> Result<Kept> {
        let workload = &self.experiment.training[0].workload;
        let name = format!("{}-traced", built.variant);
        let to = self.traces_of(&built.variant);
        let traced = self.traced(&name, &built.executable, workload, TraceOptions::ALL, &to)?;
        let Traced { words, operations, user_share, notes, broke, .. } = traced;
        let kept = Kept { words, operations, user_share, notes, broke };
        self.folder.write_note(&kept_name(&built.variant), &kept)?;
        Ok(kept)
    }

    fn traces_of(&self, variant: &str) -> PathBuf {
        self.folder.join("traces").join(variant)
    }

    fn kept_trace(&self, variant: &str, kept: Kept) -> Result<Traced> {
        let folder = self.traces_of(variant);
        let left = TraceFolder::open(&folder).left();
        let left = left.with_context(|| format!("{} can't be read", folder.display()))?;
        let Kept { words, operations, user_share, notes, broke } = kept;
        Ok(Traced { left, words, operations, user_share, notes, broke })
    }

    /// The execution of a build, from an existing trace or a new one.
    fn run_of(&self, base: &Built) -> Result<(String, Run)> {
        let known = self.folder.read_note::<Kept>(&kept_name(&base.variant))?;
        let kept = match known {
            Some(kept) => kept,
            None => self.trace(base)?,
        };
        let traced = self.kept_trace(&base.variant, kept)?;
        let run = model::of_traces(&traced.left.traces, image);
        Ok((format!("{}, {}", base.variant, traced.words), run))
    }
}

fn kept_name(variant: &str) -> String {
    format!("steps/traced-{variant}.json")
}

/// An optional result: only an interrupt ends the run.
pub(super) fn tried<T>(work: impl FnOnce() -> Result<T>) -> Result<Tried<T>> {
    match work() {
        Ok(done) => Ok(Ok(done)),
        Err(error) if interrupt::requested() => Err(error),
        Err(error) => Ok(Err(in_a_line(&error))),
    }
}

fn of_layout(run: &Run, words: &str, base: &Built, built: &Built) -> Result<Foretelling> {
    diagnose::foretold(run, words.to_owned(), &base.executable, &built.executable)
}

//! A variant that BOLT makes: instrument, train, prove, then as much of BOLT as the program stands. What breaks it is searched
//! for and left alone.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_binary::bolt::bisect::{self, Verdict};
use hone_binary::bolt::fdata::{self, Weighted};
use hone_binary::bolt::{
    Bolt, BoltRefusal, BoltTools, Budget, Input, InstrumentedByBolt, OptimizedByBolt, Origin, ProvenFdata,
    Rung, Said, Samples, Wish, Writes, bundle,
};
use hone_binary::capture::{ProfileFiles, ProfileKind, Tally};
use hone_binary::perf::{self, Event};
use hone_binary::{Built, ProfileForm, Refusal};
use hone_diagnose::emulator::{Emulator, TraceOptions};
use hone_record::{Rewriting, SmokeTest};
use hone_tool::{ToolError, interrupt};
use serde::{Deserialize, Serialize};

use super::kinds::{Kind, kept_name, perf};
use super::provenance::{Part, WentIn};
use super::steps::{Steps, Told};
use super::train::{Counting, failed};
use crate::diagnose;
use crate::job::Job;
use hone_experiment::arm::Reset;
use hone_experiment::phase::Phase;

/// The builds of a search are as many as so many culprits need; with more of them innocent functions are left alone, too.
const MOST_CULPRITS: u32 = 4;

/// No search takes more builds, each of which is started and loaded.
const MOST_BUILDS: u32 = 80;

/// Between two writings of a program that can't write as it ends.
const WRITE_EVERY_S: u32 = 2;

/// A program that BOLT rewrote, and that works.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Delivered {
    pub(super) built: Built,
    pub(super) rewriting: Rewriting,
    pub(super) checked: SmokeTest,
}

/// What the trainings of one program left.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Left {
    /// Profiles of BOLT, each with the weight of its workload.
    files: Vec<(PathBuf, f64)>,
    /// The folders that they lie in, by the workload's place in the experiment, and the loads in words.
    parts: Vec<(usize, PathBuf, f64, String)>,
    /// What they are, in words.
    kind: String,
}

/// BOLT at work for one variant.
struct Bench<'a, 'b> {
    job: &'a Job<'b>,
    variant: &'a str,
    bolt: Bolt<'b>,
    input: Input,
    folder: PathBuf,
}

/// Makes a variant out of another build.
///
/// # Errors
/// A refusal, or what failed; the caller leaves the variant out then.
pub(super) fn rewrite(
    job: &Job<'_>,
    steps: &mut Steps<'_>,
    tools: &BoltTools,
    kind: &Kind,
    variant: &str,
    from: &Built,
) -> Result<Delivered> {
    let folder = job.folder.join("bolt").join(variant);
    let bolt = Bolt::prepare(job.runner, tools.clone(), &folder, Budget::default())?;
    let input = Input::look(&from.executable)?;
    for warning in &input.warnings {
        job.progress.line(&format!("  {variant}: {}; {}", warning.what, warning.mend));
    }
    let bench = Bench { job, variant, bolt, input, folder };
    let left = steps.run(Phase::Build, &format!("train-{variant}"), || bench.profile(kind, from))?;
    steps.run(Phase::Build, &format!("build-{variant}"), || bench.deliver(&left, from))
}

/// What was made of a variant in an earlier phase, where there is no BOLT any more.
///
/// # Errors
/// When nothing was.
pub(super) fn rewritten_before(steps: &mut Steps<'_>, variant: &str) -> Result<Delivered> {
    steps.run::<Left>(Phase::Build, &format!("train-{variant}"), missing)?;
    steps.run(Phase::Build, &format!("build-{variant}"), missing)
}

fn missing<T>() -> Result<Told<T>> {
    bail!("this needs BOLT, and what it made is not among the steps of this run")
}

impl Bench<'_, '_> {
    /// A profile of the wanted kind.
    fn profile(&self, kind: &Kind, from: &Built) -> Result<Told<Left>> {
        match kind {
            Kind::Perf(event) => self.sample(*event, from),
            Kind::Emulated => self.emulate(from),
            Kind::Given { file, form } => self.take(file, *form),
            // Go's programs are not rewritten, so nothing else is left.
            Kind::Counts | Kind::Pprof => self.count_or_emulate(from),
        }
    }

    /// Some programs BOLT can't instrument, and some it can whose counts it then can't write (Rust's names are too long for its
    /// runtime). An emulator takes them as they are.
    fn count_or_emulate(&self, from: &Built) -> Result<Told<Left>> {
        let error = match self.train(from) {
            Err(error) if Emulator::find().is_ok() => error,
            done => return done,
        };
        let why = crate::outcome::left_out(error)?;
        let why = why.lines().next().unwrap_or_default();
        let said = format!("BOLT's instrumentation gave no profile ({why}); an emulator takes it instead");
        self.job.progress.line(&format!("  {}: {said}", self.variant));
        let told = self.emulate(from)?;
        Ok(Told { note: format!("{said}; {}", told.note), ..told })
    }

    /// Samples the program as it is under each workload.
    fn sample(&self, event: Event, from: &Built) -> Result<Told<Left>> {
        let (mut files, mut parts, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        for (index, training) in self.job.experiment.training.iter().enumerate() {
            let kept = std::path::absolute(self.folder.join(format!("training-{index}")))?;
            fresh_folder(&kept)?;
            let data = kept.join("perf.data");
            let words = self.job.sampled(from, training, event, &data)?;
            let kind = if event == Event::Branches { Samples::Branches } else { Samples::Plain };
            let (file, samples) = self.converted(&data, kind, &kept)?;
            perf::enough(&data, samples)?;
            // It is tens of megabytes, and all that BOLT takes of it is in the profile now.
            let _ = fs::remove_file(&data);
            notes.push(format!("{words}: {}", hone_format::count(samples)));
            files.push((file, training.weight));
            parts.push((index, kept, training.weight, hone_report::load::load_text(&training.workload)));
        }
        let kind = event.text().to_owned();
        Ok(Told { note: notes.join("; "), command: None, result: Left { files, parts, kind } })
    }

    /// Traces the program as it is under an emulator and each workload.
    fn emulate(&self, from: &Built) -> Result<Told<Left>> {
        let (mut files, mut parts, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        let mut beside = BTreeSet::new();
        for (index, training) in self.job.experiment.training.iter().enumerate() {
            let kept = std::path::absolute(self.folder.join(format!("training-{index}")))?;
            fresh_folder(&kept)?;
            let trace = kept.join("trace");
            let name = format!("{}-traced", self.variant);
            let traced =
                self.job.traced(&name, &from.executable, &training.workload, TraceOptions::COUNTS, &trace);
            let traced = traced.map_err(failed)?;
            if let Some(why) = &traced.broke {
                return Err(crate::outcome::Left(format!("the training failed: {why}")).into());
            }
            let added_up = diagnose::added_up(&diagnose::run_of(&traced), &from.executable);
            let Some(added_up) = added_up else {
                let nothing = format!("nothing of {} ran under the emulator", from.executable.display());
                return Err(crate::outcome::Left(nothing).into());
            };
            let branches = kept.join("branches.pa");
            fs::write(&branches, &added_up.text)
                .with_context(|| format!("{} can't be written", branches.display()))?;
            // Everything that BOLT takes of them is in the text now.
            fs::remove_dir_all(&trace).with_context(|| format!("{} can't be removed", trace.display()))?;
            let (file, _) = self.converted(&branches, Samples::AddedUpBranches, &kept)?;
            let instructions = hone_format::count(added_up.instructions);
            notes.push(format!("{}: {instructions} instructions of the program itself", traced.words));
            beside.extend(traced.notes);
            files.push((file, training.weight));
            parts.push((index, kept, training.weight, hone_report::load::load_text(&training.workload)));
        }
        // Of each training the same is to be said.
        notes.extend(beside);
        let kind = "an exact trace under an emulator".to_owned();
        Ok(Told { note: notes.join("; "), command: None, result: Left { files, parts, kind } })
    }

    /// The profile that the user named, brought into BOLT's form.
    fn take(&self, file: &Path, form: ProfileForm) -> Result<Told<Left>> {
        let kept = std::path::absolute(self.folder.join("given"))?;
        fresh_folder(&kept)?;
        let copy = kept.join(kept_name(form));
        let told = || format!("{} can't be copied to {}", file.display(), copy.display());
        fs::copy(file, &copy).with_context(told)?;
        let mut more = "";
        let (taken, counts) = match form.to_convert() {
            None => {
                if !self.input.is_told_by(file)? {
                    more = "; nothing beside it says which build it is of: that it is of this one is taken for granted";
                }
                let note = Origin::note(file);
                if note.exists() {
                    fs::copy(&note, Origin::note(&copy)).with_context(told)?;
                }
                (copy, None)
            }
            Some(kind) => {
                if form == ProfileForm::Perf {
                    perf()?.enough(self.job.runner, &copy)?;
                }
                let converted = self.converted(&copy, kind, &kept);
                let lacks_branches =
                    converted.as_ref().err().and_then(crate::outcome::refused).is_some_and(|refusal| {
                        matches!(refusal, Refusal::Bolt(BoltRefusal::NoBranchRecords { .. }))
                    });
                let (taken, counts) = match lacks_branches {
                    true => self.converted(&copy, Samples::Plain, &kept)?,
                    false => converted?,
                };
                (taken, Some(counts))
            }
        };
        let counts = counts.map(|counts| format!(", {} counts", hone_format::count(counts)));
        let counts = counts.unwrap_or_default();
        let note = format!("{form} out of {}{counts}, and no training{more}", file.display());
        let files = vec![(taken, 1.0)];
        let result = Left { files, parts: Vec::new(), kind: format!("{form}, {}", file.display()) };
        Ok(Told { note, command: None, result })
    }

    /// By perf2bolt, into this folder, with its note. Also gives how much was counted.
    fn converted(&self, data: &Path, kind: Samples, kept: &Path) -> Result<(PathBuf, u64)> {
        let made = self.bolt.convert(&self.input, data, kind)?;
        let file = kept.join("converted.fdata");
        let told = || format!("{} can't be moved to {}", made.display(), file.display());
        fs::rename(&made, &file).with_context(told)?;
        fs::rename(Origin::note(&made), Origin::note(&file)).with_context(told)?;
        let counts = fdata::counts(&file).map_err(BoltRefusal::from).map_err(Refusal::from)?;
        Ok((file, counts.total))
    }

    /// Instruments, and trains with each workload; each leaves files of its own.
    fn train(&self, from: &Built) -> Result<Told<Left>> {
        let mut writes = if self.input.anatomy.static_link {
            Writes::Every { seconds: WRITE_EVERY_S }
        } else {
            Writes::AtExit { for_each_process: true }
        };
        let mut instrumented = self.bolt.instrument(&self.input, writes)?;
        self.job.open_to_its_user(instrumented.profile.parent().unwrap_or(&self.folder))?;
        let mut counting = self.counting(&instrumented);
        let rehearsed = self.job.rehearse(&mut counting, &|| self.sum(&instrumented))?;
        if let Err(trouble) = rehearsed {
            // It does not end in order; but it can write while it runs.
            self.job
                .progress
                .line(&format!("  {}: {trouble}; it writes every {WRITE_EVERY_S} s instead", self.variant));
            writes = Writes::Every { seconds: WRITE_EVERY_S };
            instrumented = self.bolt.instrument(&self.input, writes)?;
            counting = Counting { every_s: Some(WRITE_EVERY_S), ..self.counting(&instrumented) };
            self.job.rehearse(&mut counting, &|| self.sum(&instrumented))?.map_err(anyhow::Error::from)?;
        }
        let (mut files, mut parts, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        for (index, training) in self.job.experiment.training.iter().enumerate() {
            let sum = || self.sum(&instrumented);
            let trained = self.job.train_with(from, &mut counting, training, &sum)?;
            let kept = self.folder.join(format!("training-{index}"));
            files.extend(self.keep(&instrumented, &kept)?.into_iter().map(|file| (file, training.weight)));
            parts.push((index, kept, training.weight, trained.load));
            notes.push(trained.words);
        }
        Ok(Told {
            note: notes.join("; "),
            command: Some(instrumented.command),
            result: Left { files, parts, kind: "counts".to_owned() },
        })
    }

    fn counting(&self, instrumented: &InstrumentedByBolt) -> Counting {
        Counting {
            variant: format!("{}-instrumented", self.variant),
            program: instrumented.executable.clone(),
            env: Vec::new(),
            files: ProfileFiles {
                kind: ProfileKind::Bolt,
                folder: instrumented.profile.parent().unwrap_or(&self.folder).to_path_buf(),
            },
            every_s: match instrumented.writes {
                Writes::Every { seconds } => Some(seconds),
                Writes::AtExit { .. } => None,
            },
            preload: None,
            dumps: false,
            reset: Reset::Not,
            idle: None,
            slow: None,
        }
    }

    fn sum(&self, instrumented: &InstrumentedByBolt) -> Result<Tally> {
        Tally::of_fdata(&self.bolt.left_by(instrumented)?)
    }

    /// Moves what a training left out of the way of the next one, each with the note that says what it is of.
    fn keep(&self, instrumented: &InstrumentedByBolt, to: &Path) -> Result<Vec<PathBuf>> {
        let told = || format!("{} can't be written", to.display());
        fresh_folder(to)?;
        let mut kept = Vec::new();
        for file in self.bolt.left_by(instrumented)? {
            let moved = to.join(file.file_name().unwrap_or_default());
            fs::rename(&file, &moved).with_context(told)?;
            fs::copy(Origin::note(&file), Origin::note(&moved)).with_context(told)?;
            kept.push(moved);
        }
        Ok(kept)
    }

    fn proven(&self, left: &Left) -> Result<ProvenFdata> {
        let profile = self.folder.join("merged.fdata");
        let files: Vec<Weighted> = left
            .files
            .iter()
            .map(|(file, weight)| Weighted { file: file.clone(), weight: *weight })
            .collect();
        self.bolt.merge(&self.input, &files, &profile)?;
        // Who names a profile in the experiment vouches for it; what lies beside it has been asked before.
        self.bolt.prove_profile(&self.input, &profile, left.parts.is_empty())
    }

    /// Climbs down the ladder until the program works; when it takes too much of BOLT away, what breaks it is searched for.
    fn deliver(&self, left: &Left, from: &Built) -> Result<Told<Delivered>> {
        let proven = self.proven(left)?;
        let parts: Vec<Part<'_>> = left
            .parts
            .iter()
            .map(|(index, raw, weight, load)| Part { index: *index, raw, weight: *weight, load })
            .collect();
        let went_in = WentIn { parts: &parts, given: parts.is_empty() };
        self.job.lock_profile(&proven.path, from, &self.bolt.tools().receipts, went_in);
        let mut ladder = Ladder { profile: left.kind.clone(), ..Ladder::default() };
        for rung in Rung::LADDER {
            match self.try_wish(&proven, &Wish::new(rung))? {
                Tried::Works(done, checked) => {
                    if rung == Rung::LayoutOnly
                        && let Some(better) = self.without_culprits(&proven, &mut ladder)?
                    {
                        return self.told(better.0, better.1, ladder, from);
                    }
                    return self.told(*done, checked, ladder, from);
                }
                Tried::Fails(trouble, said) => ladder.gives_up(rung.name(), trouble, said),
            }
        }
        match self.without_culprits(&proven, &mut ladder)? {
            Some((done, checked)) => self.told(done, checked, ladder, from),
            None => Err(ladder.nothing_works()),
        }
    }

    /// One wish carried out, proven and checked.
    fn try_wish(&self, proven: &ProvenFdata, wish: &Wish) -> Result<Tried> {
        let done = match self.bolt.optimize(&self.input, proven, wish) {
            Ok(done) => done,
            Err(error) => return Ok(Tried::Fails(bolt_itself_failed(error)?, None)),
        };
        match self.job.check_hard(&self.check_name(), &done.executable)? {
            Ok(checked) => match self.job.soak(&self.check_name(), &done.executable, checked)? {
                Ok(checked) => Ok(Tried::Works(Box::new(done), checked)),
                Err(trouble) => Ok(Tried::Fails(trouble, Some(Box::new(done.said)))),
            },
            Err(trouble) => Ok(Tried::Fails(trouble, Some(Box::new(done.said)))),
        }
    }

    fn check_name(&self) -> String {
        format!("{}-checked", self.variant)
    }

    /// Searches for the functions that must be left alone, and delivers all of BOLT for the others.
    fn without_culprits(
        &self,
        proven: &ProvenFdata,
        ladder: &mut Ladder,
    ) -> Result<Option<(OptimizedByBolt, SmokeTest)>> {
        let candidates = coldest_first(proven);
        let limit = bisect::most_builds(candidates.len(), MOST_CULPRITS).min(MOST_BUILDS);
        self.job.progress.line(&format!(
            "  {}: searching for what BOLT breaks among {} functions, at most {limit} builds",
            self.variant,
            candidates.len()
        ));
        let works = |skip: &[String]| -> Result<bool> {
            let wish = Wish { skip: skip.to_vec(), ..Wish::new(Rung::Full) };
            match self.bolt.rewrite(&self.input, proven, &wish) {
                Ok(written) => Ok(self.job.check_hard(&self.check_name(), &written.executable)?.is_ok()),
                Err(error) => bolt_itself_failed(error).map(|_| false),
            }
        };
        let found = bisect::find_culprits(&candidates, limit, works)?;
        ladder.search_builds = found.builds;
        let (skip, are_culprits) = match found.verdict {
            Verdict::Culprits(names) => (names, true),
            Verdict::Enough(names) => (names, false),
            Verdict::NotByFunctions => {
                ladder
                    .given_up
                    .push("no function is to blame alone: it fails with all of them skipped, too".to_owned());
                self.report(proven, ladder, &[])?;
                return Ok(None);
            }
            Verdict::NothingWrong => {
                ladder.given_up.push("the search found nothing wrong: the trouble comes and goes".to_owned());
                self.report(proven, ladder, &[])?;
                return Ok(None);
            }
        };
        if are_culprits {
            ladder.culprits.clone_from(&skip);
        }
        self.report(proven, ladder, &skip)?;
        match self.try_wish(proven, &Wish { skip, ..Wish::new(Rung::Full) }) {
            Ok(Tried::Works(done, checked)) => Ok(Some((*done, checked))),
            Ok(Tried::Fails(trouble, _)) => {
                ladder.given_up.push(format!("full, without what the search found: {trouble}"));
                Ok(None)
            }
            // With so much skipped it may have nothing left to do, which is a refusal and no breakage.
            Err(error) if crate::outcome::refused(&error).is_some() => {
                ladder.given_up.push(format!("full, without what the search found: {error:#}"));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The folder for a bug report.
    fn report(&self, proven: &ProvenFdata, ladder: &mut Ladder, culprits: &[String]) -> Result<()> {
        let folder = self.folder.join("bug-report");
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("{} can't be removed", folder.display()))?;
        }
        let nothing = Said::parse("");
        bundle::write(
            &folder,
            &bundle::Bundle {
                trouble: ladder.given_up.first().map_or("", String::as_str),
                bolt: &self.bolt,
                wish: &Wish::new(Rung::Full),
                input: &self.input,
                profile: &proven.path,
                culprits,
                said: ladder.said.as_deref().unwrap_or(&nothing),
            },
        )?;
        ladder.bundle = Some(folder.display().to_string());
        Ok(())
    }

    fn told(
        &self,
        done: OptimizedByBolt,
        checked: SmokeTest,
        ladder: Ladder,
        from: &Built,
    ) -> Result<Told<Delivered>> {
        let said = &done.said;
        let rewriting = Rewriting {
            profile: ladder.profile,
            rung: done.rung.name().to_owned(),
            given_up: ladder.given_up,
            skipped: done.skipped.clone(),
            culprits: ladder.culprits,
            search_builds: ladder.search_builds,
            profiled_functions: said.profiled_functions.map(|part| [part.of_them, part.all]),
            layout_modified: said.layout_modified,
            not_optimized: said.not_optimized,
            wants_more_samples: said.wants_more_samples,
            stale_share: said.stale_share(),
            bundle: ladder.bundle,
        };
        let command = done.command.clone();
        let mut built = done.built(self.variant, from);
        self.job.keep_program(&mut built)?;
        let note = format!(
            "{}; {}; {}",
            hone_document::optimization::rewriting(&rewriting),
            super::shop::sizes(&built),
            checked.what
        );
        Ok(Told { note, command: Some(command), result: Delivered { built, rewriting, checked } })
    }
}

/// One wish.
enum Tried {
    Works(Box<OptimizedByBolt>, SmokeTest),
    /// With the trouble, and what BOLT said when it was not BOLT that failed.
    Fails(String, Option<Box<Said>>),
}

/// What was tried and did not work.
#[derive(Default)]
struct Ladder {
    /// What all of it goes by, in words.
    profile: String,
    given_up: Vec<String>,
    culprits: Vec<String>,
    search_builds: u32,
    bundle: Option<String>,
    /// Of the first program that did not work.
    said: Option<Box<Said>>,
}

impl Ladder {
    fn gives_up(&mut self, rung: &str, trouble: String, said: Option<Box<Said>>) {
        self.given_up.push(format!("{rung}: {trouble}"));
        self.said = self.said.take().or(said);
    }

    /// The variant can't be had; the one that it builds on is as good as before.
    fn nothing_works(&self) -> anyhow::Error {
        let report = self.bundle.as_ref().map(|folder| format!("{folder} has what a bug report needs; "));
        let why = format!(
            "no form of what BOLT makes works: {}\n  next: {}use the variant that it builds on",
            self.given_up.join("; "),
            report.unwrap_or_default()
        );
        crate::outcome::Left(why).into()
    }
}

fn fresh_folder(folder: &Path) -> Result<()> {
    let told = || format!("{} can't be written", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(told)?;
    }
    fs::create_dir_all(folder).with_context(told)
}

/// What is skipped when a search runs out of builds should cost little.
fn coldest_first(proven: &ProvenFdata) -> Vec<String> {
    let mut functions: Vec<(u64, &String)> =
        proven.counts.functions.iter().map(|(name, counts)| (counts.heat(), name)).collect();
    functions.sort();
    functions.into_iter().map(|(_, name)| name.clone()).collect()
}

/// The words of a BOLT that crashed or gave up, which another rung may cure.
///
/// # Errors
/// With everything else: a refused profile is refused on every rung.
fn bolt_itself_failed(error: anyhow::Error) -> Result<String> {
    match error.downcast_ref::<ToolError>() {
        Some(ToolError::Failed { .. } | ToolError::TimedOut { .. } | ToolError::NothingProduced { .. })
            if !interrupt::requested() =>
        {
            Ok(format!("BOLT failed: {}", crate::outcome::in_a_line(&error)))
        }
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn a_program_that_works_in_no_form_leaves_out_its_variant_and_does_not_end_the_run() {
        let mut ladder = Ladder { bundle: Some("bug-report".to_owned()), ..Ladder::default() };
        ladder.gives_up("full", "it crashed".to_owned(), None);
        ladder.gives_up("layout-only", "it hung".to_owned(), None);
        let failed: Result<()> = Err(ladder.nothing_works());
        let why = super::super::left_out(failed.context("step build-bolt").unwrap_err()).unwrap();
        assert!(why.contains("works: full: it crashed; layout-only: it hung\n"), "{why}");
        assert!(why.contains("next: bug-report has what a bug report needs"), "{why}");
    }
}

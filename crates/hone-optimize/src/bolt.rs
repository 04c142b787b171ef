//! A variant that BOLT makes: instrument, train, verify, then apply as much of BOLT as the program supports. Hone searches for
//! the functions that break it and skips them.

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

/// A search needs at most as many builds as this number of culprits requires. With more culprits, it also skips innocent
/// functions.
const MOST_CULPRITS: u32 = 4;

/// No search takes more builds, because Hone starts and loads each of them.
const MOST_BUILDS: u32 = 80;

/// Seconds between two writes of the counts, for a program that can't write them at its end.
const WRITE_EVERY_S: u32 = 2;

/// A program that BOLT rewrote, and that works.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Delivered {
    pub(super) built: Built,
    pub(super) rewriting: Rewriting,
    pub(super) checked: SmokeTest,
}

/// The files that the trainings of one program left.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Left {
    /// BOLT profiles, each with the weight of its workload.
    files: Vec<(PathBuf, f64)>,
    /// The folders of the profiles, by the workload's place in the experiment, and the loads in words.
    parts: Vec<(usize, PathBuf, f64, String)>,
    /// The kind of the profiles, in words.
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

/// Makes a variant from another build.
///
/// # Errors
/// Returns a refusal or the failure. The caller then leaves the variant out.
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

/// The result of a variant in an earlier phase, on a machine without BOLT.
///
/// # Errors
/// Fails if there is no such result.
pub(super) fn rewritten_before(steps: &mut Steps<'_>, variant: &str) -> Result<Delivered> {
    steps.run::<Left>(Phase::Build, &format!("train-{variant}"), missing)?;
    steps.run(Phase::Build, &format!("build-{variant}"), missing)
}

fn missing<T>() -> Result<Told<T>> {
    bail!("this phase needs BOLT: no earlier step of this run has made the variant")
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

    /// BOLT can't instrument some programs. Others can't write their counts (Rust's names are too long for BOLT's runtime). An
    /// emulator traces such programs unchanged.
    fn count_or_emulate(&self, from: &Built) -> Result<Told<Left>> {
        let error = match self.train(from) {
            Err(error) if Emulator::find().is_ok() => error,
            done => return done,
        };
        let why = crate::outcome::left_out(error)?;
        let why = why.lines().next().unwrap_or_default();
        let said = format!(
            "BOLT's instrumentation gave no profile ({why}); Hone traces the program under an emulator \
             instead"
        );
        self.job.progress.line(&format!("  {}: {said}", self.variant));
        let told = self.emulate(from)?;
        Ok(Told { note: format!("{said}; {}", told.note), ..told })
    }

    /// Samples the unchanged program under each workload.
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
            // The data takes tens of megabytes, and the profile already contains all that BOLT uses.
            let _ = fs::remove_file(&data);
            notes.push(format!("{words}: {}", hone_format::count(samples)));
            files.push((file, training.weight));
            parts.push((index, kept, training.weight, hone_report::load::load_text(&training.workload)));
        }
        let kind = event.text().to_owned();
        Ok(Told { note: notes.join("; "), command: None, result: Left { files, parts, kind } })
    }

    /// Traces the unchanged program under an emulator and each workload.
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
                let nothing = format!("no code of {} ran under the emulator", from.executable.display());
                return Err(crate::outcome::Left(nothing).into());
            };
            let branches = kept.join("branches.pa");
            fs::write(&branches, &added_up.text)
                .with_context(|| format!("{} can't be written", branches.display()))?;
            // The text already contains all that BOLT uses.
            fs::remove_dir_all(&trace).with_context(|| format!("{} can't be removed", trace.display()))?;
            let (file, _) = self.converted(&branches, Samples::AddedUpBranches, &kept)?;
            let instructions = hone_format::count(added_up.instructions);
            notes.push(format!("{}: {instructions} instructions of the program itself", traced.words));
            beside.extend(traced.notes);
            files.push((file, training.weight));
            parts.push((index, kept, training.weight, hone_report::load::load_text(&training.workload)));
        }
        // All trainings give the same kind.
        notes.extend(beside);
        let kind = "an exact trace under an emulator".to_owned();
        Ok(Told { note: notes.join("; "), command: None, result: Left { files, parts, kind } })
    }

    /// The profile that the user named, converted into BOLT's format.
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
                    more = "; no note names the build of the profile: Hone assumes that it is this build";
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
        let note = format!("{form} from {}{counts}, without training{more}", file.display());
        let files = vec![(taken, 1.0)];
        let result = Left { files, parts: Vec::new(), kind: format!("{form}, {}", file.display()) };
        Ok(Told { note, command: None, result })
    }

    /// Converts by perf2bolt into this folder, with its note. Also returns the number of counts.
    fn converted(&self, data: &Path, kind: Samples, kept: &Path) -> Result<(PathBuf, u64)> {
        let made = self.bolt.convert(&self.input, data, kind)?;
        let file = kept.join("converted.fdata");
        let told = || format!("{} can't be moved to {}", made.display(), file.display());
        fs::rename(&made, &file).with_context(told)?;
        fs::rename(Origin::note(&made), Origin::note(&file)).with_context(told)?;
        let counts = fdata::counts(&file).map_err(BoltRefusal::from).map_err(Refusal::from)?;
        Ok((file, counts.total))
    }

    /// Instruments, and trains with each workload. Each workload leaves its own files.
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
            // The program does not exit in order, but it can write its profile while it runs.
            self.job.progress.line(&format!(
                "  {}: {trouble}; it writes its profile every {WRITE_EVERY_S} s instead",
                self.variant
            ));
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

    /// Moves the files of a training out of the way of the next one. Each keeps its note, which names its program.
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
        // The user vouches for a profile that the experiment names. Hone has already checked the note next to
        // it.
        self.bolt.prove_profile(&self.input, &profile, left.parts.is_empty())
    }

    /// Lowers BOLT's level until the program works. If a level costs too much of BOLT, Hone searches for the functions that
    /// break the program.
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

    /// Builds one request, then verifies and checks it.
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

    /// Searches for the functions that BOLT must skip, and applies all of BOLT to the others.
    fn without_culprits(
        &self,
        proven: &ProvenFdata,
        ladder: &mut Ladder,
    ) -> Result<Option<(OptimizedByBolt, SmokeTest)>> {
        let candidates = coldest_first(proven);
        let limit = bisect::most_builds(candidates.len(), MOST_CULPRITS).min(MOST_BUILDS);
        self.job.progress.line(&format!(
            "  {}: searching {} functions for those that BOLT breaks, at most {limit} builds",
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
                ladder.given_up.push("the program also fails with all of these functions skipped".to_owned());
                self.report(proven, ladder, &[])?;
                return Ok(None);
            }
            Verdict::NothingWrong => {
                ladder
                    .given_up
                    .push("the search found no faulty function: the failure is intermittent".to_owned());
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
                ladder.given_up.push(format!("full, without the functions that the search found: {trouble}"));
                Ok(None)
            }
            // After so much skipping, BOLT may have nothing to do. That is a refusal, not a failure
            // of the program.
            Err(error) if crate::outcome::refused(&error).is_some() => {
                ladder.given_up.push(format!("full, without the functions that the search found: {error:#}"));
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

/// One request to BOLT.
enum Tried {
    Works(Box<OptimizedByBolt>, SmokeTest),
    /// The failure, with BOLT's output if BOLT itself did not fail.
    Fails(String, Option<Box<Said>>),
}

/// The attempts that failed.
#[derive(Default)]
struct Ladder {
    /// The profile of all attempts, in words.
    profile: String,
    given_up: Vec<String>,
    culprits: Vec<String>,
    search_builds: u32,
    bundle: Option<String>,
    /// BOLT's output for the first program that failed.
    said: Option<Box<Said>>,
}

impl Ladder {
    fn gives_up(&mut self, rung: &str, trouble: String, said: Option<Box<Said>>) {
        self.given_up.push(format!("{rung}: {trouble}"));
        self.said = self.said.take().or(said);
    }

    /// The variant can't be made. The variant that it builds on is unaffected.
    fn nothing_works(&self) -> anyhow::Error {
        let report =
            self.bundle.as_ref().map(|folder| format!("{folder} contains the files for a bug report; "));
        let why = format!(
            "the program fails at every level of BOLT: {}\n  next: {}use the variant that it builds on",
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

/// When a search runs out of builds, it skips the coldest functions, which cost least.
fn coldest_first(proven: &ProvenFdata) -> Vec<String> {
    let mut functions: Vec<(u64, &String)> =
        proven.counts.functions.iter().map(|(name, counts)| (counts.heat(), name)).collect();
    functions.sort();
    functions.into_iter().map(|(_, name)| name.clone()).collect()
}

/// The words of a BOLT that crashed or gave up. Another level may avoid that.
///
/// # Errors
/// Returns every other error: all levels refuse the same profile.
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
        assert!(
            why.contains("fails at every level of BOLT: full: it crashed; layout-only: it hung\n"),
            "{why}"
        );
        assert!(why.contains("next: bug-report contains the files for a bug report"), "{why}");
    }
}

//! Runs BOLT: instruments and rewrites programs, converts, merges and verifies profiles.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hone_tool::{Call, Finished, Runner, ToolError};
use serde::{Deserialize, Serialize};

use super::calls::{self, BoltTools, Rung, Wish, Writes};
use super::diagnostics::Said;
use super::fdata::{self, Counts, MergedFdata, Weighted};
use super::input::{Input, Origin, refused, same_build};
use super::preflight;
use super::refusal::BoltRefusal;
use super::samples::Samples;
use crate::built::{Built, How};
use crate::elf::{FileFacts, file_facts};
use crate::perf;
use crate::refusal::Refusal;

/// Tolerances of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// The most of its samples, 0 to 1, that may be in functions with changed code.
    pub stale_samples: f64,
    /// The least of its counts, 0 to 1, that must be in functions of the program.
    pub known_counts: f64,
}

impl Default for Budget {
    /// One in ten stale is a release or two of ordinary work; a profile of another program shares little more than the start-up functions
    /// (6 of 4,653 in the case of the facts). Choices, not constants of nature.
    fn default() -> Self {
        Self { stale_samples: 0.10, known_counts: 0.50 }
    }
}

/// An instrumented program.
#[derive(Debug, Clone, PartialEq)]
pub struct InstrumentedByBolt {
    /// The program.
    pub executable: PathBuf,
    /// The path of its profile. With a file per process: the beginning of their names.
    pub profile: PathBuf,
    /// How it writes.
    pub writes: Writes,
    /// The command, ready to paste.
    pub command: String,
    /// BOLT's messages.
    pub said: Said,
}

/// A verified profile.
#[derive(Debug, Clone, PartialEq)]
pub struct ProvenFdata {
    /// The profile.
    pub path: PathBuf,
    /// Records and counts.
    pub counts: Counts,
    /// Share of counts in functions of the program, 0 to 1.
    pub known: f64,
    /// Whether the note next to it was checked; otherwise the caller vouches for it.
    pub noted: bool,
}

/// A program that BOLT wrote, not verified yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Rewritten {
    /// The program.
    pub executable: PathBuf,
    /// The command, ready to paste.
    pub command: String,
    /// Wall time of BOLT.
    pub took_s: f64,
    /// Logs of its messages.
    pub stderr_paths: Vec<PathBuf>,
    /// Its messages.
    pub said: Said,
}

/// A program that BOLT rewrote, verified to be a changed one.
#[derive(Debug, Clone, PartialEq)]
pub struct OptimizedByBolt {
    /// The program.
    pub executable: PathBuf,
    /// Sizes and hashes.
    pub facts: FileFacts,
    /// The level.
    pub rung: Rung,
    /// Skipped functions.
    pub skipped: Vec<String>,
    /// The command, ready to paste.
    pub command: String,
    /// Wall time of BOLT.
    pub took_s: f64,
    /// Logs of its messages.
    pub stderr_paths: Vec<PathBuf>,
    /// Its messages.
    pub said: Said,
}

impl OptimizedByBolt {
    /// As an ordinary variant. `from` is the build that BOLT rewrote.
    pub fn built(self, variant: &str, from: &Built) -> Built {
        Built {
            variant: variant.to_owned(),
            executable: self.executable,
            commands: from.commands.iter().cloned().chain([self.command]).collect(),
            build_s: self.took_s,
            fresh: false,
            stderr_paths: self.stderr_paths,
            facts: self.facts,
            how: How::Bolt {
                rung: self.rung,
                skipped: self.skipped,
                said: Box::new(self.said),
                from_sha256: from.facts.sha256.clone(),
            },
        }
    }
}

/// BOLT at work in one folder.
pub struct Bolt<'a> {
    runner: &'a dyn Runner,
    tools: BoltTools,
    work: PathBuf,
    budget: Budget,
}

impl<'a> Bolt<'a> {
    /// Finds the tools and makes the folder.
    ///
    /// # Errors
    /// When a tool is missing, or the folder can't be made.
    pub fn prepare(runner: &'a dyn Runner, tools: BoltTools, work: &Path, budget: Budget) -> Result<Self> {
        let named = || format!("the work folder {} can't be made: name another one", work.display());
        fs::create_dir_all(work).with_context(named)?;
        let work = work.canonicalize().with_context(named)?;
        Ok(Self { runner, tools, work, budget })
    }

    /// The tools.
    pub fn tools(&self) -> &BoltTools {
        &self.tools
    }

    /// Instruments a program. Writes the profile's note now, while the instrumented program is known.
    ///
    /// # Errors
    /// A [`Refusal`], or BOLT's messages.
    pub fn instrument(&self, input: &Input, writes: Writes) -> Result<InstrumentedByBolt> {
        let runtime = self.tools.runtime();
        if !runtime.is_file() {
            return refused(BoltRefusal::NoRuntime { file: runtime, major: self.tools.major });
        }
        if input.anatomy.static_link && matches!(writes, Writes::AtExit { .. }) {
            return refused(BoltRefusal::StaticNeedsPeriod { file: input.executable.clone() });
        }
        let folder = self.folder("instrumented")?;
        let name = file_name(&input.executable);
        let (executable, profile) = (folder.join(&name), folder.join(with_ending(&name, ".fdata")));
        let skip_file = self.skip_file(&folder, &self.skipped(input, &[]))?;
        let paths = self.paths(input, &executable, &profile, skip_file.as_deref());
        let call = calls::instrument(&self.tools, paths, writes);
        // Files of an earlier training must not pass for those of the next one.
        for old in of_each_process(&profile)?.into_iter().chain(profile.exists().then(|| profile.clone())) {
            fs::remove_file(&old).with_context(|| format!("{} can't be removed", old.display()))?;
        }
        let finished = self.runner.run(&call)?;
        let said = printed(&finished)?;
        let written = preflight::anatomy(&executable)?;
        if !written.bolt_instrumented {
            return refused(BoltRefusal::NotWritten { file: executable, what: "is not instrumented" });
        }
        Origin::new(input, "instrumented by BOLT").write(&profile)?;
        Ok(InstrumentedByBolt { executable, profile, writes, command: call.to_string(), said })
    }

    /// The profiles that an instrumented program left.
    ///
    /// # Errors
    /// [`fdata::FdataFault::Empty`] when there is none: the program ended without writing.
    pub fn left_by(&self, instrumented: &InstrumentedByBolt) -> Result<Vec<PathBuf>> {
        let beginning = &instrumented.profile;
        if instrumented.writes != (Writes::AtExit { for_each_process: true }) {
            let there = beginning.metadata().is_ok_and(|facts| facts.is_file() && facts.len() > 0);
            return if there { Ok(vec![beginning.clone()]) } else { none_written(beginning) };
        }
        let files = of_each_process(beginning)?;
        if files.is_empty() {
            return none_written(beginning);
        }
        // All were written by the one program whose note is next to their common beginning.
        if let Some(origin) = Origin::read(beginning)? {
            files.iter().try_for_each(|file| origin.write(file))?;
        }
        Ok(files)
    }

    /// Merges profiles of one program into a new one, with its note. There is no note if any of them has none, because the origin of the
    /// sum is then unknown.
    ///
    /// # Errors
    /// A [`Refusal`]: profiles that can't be added up, or of different programs.
    pub fn merge(&self, input: &Input, profiles: &[Weighted], output: &Path) -> Result<MergedFdata> {
        let mut all_are_noted = true;
        for profile in profiles {
            match Origin::read(&profile.file)? {
                Some(origin) => same_build(input, &profile.file, &origin)?,
                None => all_are_noted = false,
            }
        }
        // The note of an earlier merge does not apply to this one.
        Origin::remove(output)?;
        let merged = fdata::merge(profiles, output).map_err(BoltRefusal::from).map_err(Refusal::from)?;
        if all_are_noted {
            Origin::new(input, "merged").write(output)?;
        }
        Ok(merged)
    }

    /// Turns samples of a program into a profile, with its note.
    ///
    /// # Errors
    /// A [`Refusal`]: samples without branch records, or an empty profile, after which perf2bolt exits with 0.
    pub fn convert(&self, input: &Input, samples: &Path, kind: Samples) -> Result<PathBuf> {
        let folder = self.folder("sampled")?;
        let profile = folder.join(with_ending(&file_name(&input.executable), ".fdata"));
        let scratch = tempfile::tempdir_in(&folder)?;
        let call = calls::convert(&self.tools, &input.executable, samples, kind, &profile, scratch.path())
            .map_err(Refusal::from)?;
        let call = perf::with_perf(call, scratch.path())?;
        let _ = fs::remove_file(&profile);
        let said = printed(&self.runner.run(&call)?)?;
        if said.no_branch_records {
            return refused(BoltRefusal::NoBranchRecords { file: samples.to_path_buf() });
        }
        if profile.metadata().map_or(0, |facts| facts.len()) == 0 {
            return none_written(&profile);
        }
        Origin::new(input, "sampled").write(&profile)?;
        Ok(profile)
    }

    /// Reads a profile back and compares it with its program. Without a note next to it, `vouched` says that the caller knows its origin.
    ///
    /// # Errors
    /// A [`Refusal`]: empty, cut off, of another build, of another program.
    pub fn prove_profile(&self, input: &Input, profile: &Path, vouched: bool) -> Result<ProvenFdata> {
        let counts = fdata::counts(profile).map_err(BoltRefusal::from).map_err(Refusal::from)?;
        let origin = Origin::read(profile)?;
        match &origin {
            Some(origin) => same_build(input, profile, origin)?,
            None if vouched => {}
            None => {
                let note = Origin::note(profile);
                return refused(BoltRefusal::UnknownOrigin { profile: profile.to_path_buf(), note });
            }
        }
        let names = preflight::function_names(&input.executable)?;
        let sums = counts.functions.iter().map(|(name, sum)| (names.contains(name), sum.heat() as f64));
        let (known, all) = sums.fold((0.0, 0.0), |(known, all), (is_known, sum)| {
            (known + if is_known { sum } else { 0.0 }, all + sum)
        });
        let known = if all > 0.0 { known / all } else { 0.0 };
        if known < self.budget.known_counts {
            let (profile, binary) = (profile.to_path_buf(), input.executable.clone());
            return refused(BoltRefusal::OtherProgram { profile, binary, known });
        }
        Ok(ProvenFdata { path: profile.to_path_buf(), counts, known, noted: origin.is_some() })
    }

    /// Rewrites a program without verification: for a search that skips functions until little is left to change.
    ///
    /// # Errors
    /// Fails when BOLT fails.
    pub fn rewrite(&self, input: &Input, profile: &ProvenFdata, wish: &Wish) -> Result<Rewritten> {
        let folder = self.folder(wish.rung.name())?;
        let executable = folder.join(file_name(&input.executable));
        let skip_file = self.skip_file(&folder, &self.skipped(input, &wish.skip))?;
        let call = self.command(input, &profile.path, wish, &executable, skip_file.as_deref());
        let finished = self.runner.run(&call)?;
        Ok(Rewritten {
            executable,
            command: call.to_string(),
            took_s: finished.took.as_secs_f64(),
            said: printed(&finished)?,
            stderr_paths: vec![finished.stdout_path, finished.stderr_path],
        })
    }

    /// Rewrites a program, and verifies that it was rewritten.
    ///
    /// # Errors
    /// A [`Refusal`] for each way in which BOLT exits with 0 without a useful result.
    pub fn optimize(&self, input: &Input, profile: &ProvenFdata, wish: &Wish) -> Result<OptimizedByBolt> {
        let Rewritten { executable, command, took_s, stderr_paths, said } =
            self.rewrite(input, profile, wish)?;
        prove_said(&said, self.budget).map_err(Refusal::from)?;
        let facts = self.prove_written(input, &executable)?;
        let skipped = self.skipped(input, &wish.skip);
        let rung = wish.rung;
        Ok(OptimizedByBolt { executable, facts, rung, skipped, command, took_s, stderr_paths, said })
    }

    /// The file has BOLT's mark, and the code has changed.
    fn prove_written(&self, input: &Input, output: &Path) -> Result<FileFacts> {
        let (written, facts) = (preflight::anatomy(output)?, file_facts(output)?);
        if !written.bolted {
            return refused(BoltRefusal::NotWritten {
                file: output.to_path_buf(),
                what: "has no mark of BOLT",
            });
        }
        let expected = input.anatomy.build_id.as_deref().and_then(preflight::flipped);
        if expected.is_some() && expected != written.build_id {
            let what = "was not made from this input: its build-id is not the input's with the last bit \
                flipped";
            return refused(BoltRefusal::NotWritten { file: output.to_path_buf(), what });
        }
        if facts.text_sha256 == input.facts.text_sha256 {
            let (output, input) = (output.to_path_buf(), input.executable.clone());
            return refused(BoltRefusal::SameCode { output, input });
        }
        Ok(facts)
    }

    /// The call that [`Bolt::optimize`] would make, for a dry run or a bug report.
    pub fn command(
        &self,
        input: &Input,
        profile: &Path,
        wish: &Wish,
        output: &Path,
        skip_file: Option<&Path>,
    ) -> Call {
        calls::optimize(&self.tools, self.paths(input, output, profile, skip_file), wish)
    }

    fn paths<'p>(
        &'p self,
        input: &'p Input,
        output: &'p Path,
        profile: &'p Path,
        skip_file: Option<&'p Path>,
    ) -> calls::Paths<'p> {
        calls::Paths { input: &input.executable, output, profile, skip_file, cwd: &self.work }
    }

    /// The requested skips, and the functions that this BOLT fails on.
    pub(super) fn skipped(&self, input: &Input, asked: &[String]) -> Vec<String> {
        let more = input.anatomy.to_skip(self.tools.major).iter().filter(|name| !asked.contains(name));
        asked.iter().chain(more).cloned().collect()
    }

    pub(super) fn skip_file(&self, folder: &Path, names: &[String]) -> Result<Option<PathBuf>> {
        if names.is_empty() {
            return Ok(None);
        }
        let file = folder.join("skip-funcs.txt");
        fs::write(&file, calls::skip_text(names))
            .with_context(|| format!("{} can't be written", file.display()))?;
        Ok(Some(file))
    }

    fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.work.join(name);
        fs::create_dir_all(&folder).with_context(|| format!("{} can't be made", folder.display()))?;
        Ok(folder)
    }
}

/// What BOLT must report before Hone examines its output.
fn prove_said(said: &Said, budget: Budget) -> Result<(), BoltRefusal> {
    let profiled =
        said.profiled_functions.ok_or(BoltRefusal::Silent { what: "how many functions have a profile" })?;
    if profiled.of_them == 0 {
        return Err(BoltRefusal::NothingProfiled { of: profiled.all });
    }
    if let Some(line) = said.profile_ends_at_line {
        return Err(BoltRefusal::ReadInPart { line });
    }
    if said.stale_functions.is_some() && said.stale_samples.is_none() {
        // Without it the share would be 0, whatever is stale.
        return Err(BoltRefusal::Silent { what: "how many samples are in functions whose profile is stale" });
    }
    let share = said.stale_share();
    if share > budget.stale_samples {
        return Err(BoltRefusal::Stale { share, budget: budget.stale_samples });
    }
    match said.layout_modified {
        None => Err(BoltRefusal::Silent { what: "whether it changed the layout" }),
        Some(0) => Err(BoltRefusal::LayoutUnchanged),
        Some(_) => Ok(()),
    }
}

/// Profiles with names `PROFILE.PID.fdata`, in order.
fn of_each_process(profile: &Path) -> Result<Vec<PathBuf>> {
    let folder = profile.parent().unwrap_or(Path::new("."));
    let start = with_ending(&file_name(profile), ".");
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("{} can't be listed", folder.display()))? {
        let path = entry?.path();
        let name = file_name(&path).to_string_lossy().into_owned();
        let middle =
            name.strip_prefix(&*start.to_string_lossy()).and_then(|rest| rest.strip_suffix(".fdata"));
        if middle.is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit())) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn none_written<T>(profile: &Path) -> Result<T> {
    refused(BoltRefusal::Fdata(fdata::FdataFault::Empty { file: profile.to_path_buf() }))
}

/// Both outputs; BOLT splits its messages between them.
fn printed(finished: &Finished) -> Result<Said, ToolError> {
    Ok(Said::parse(&(finished.stdout_text()? + "\n" + &finished.stderr_text()?)))
}

fn file_name(path: &Path) -> OsString {
    path.file_name().unwrap_or_default().to_owned()
}

fn with_ending(name: &OsString, ending: &str) -> OsString {
    let mut name = name.clone();
    name.push(ending);
    name
}

#[cfg(test)]
mod tests {
    use super::super::diagnostics;
    use super::*;

    #[test]
    fn a_stale_profile_of_unknown_weight_is_not_taken_for_a_good_one() {
        let part = |of_them| Some(diagnostics::Part { of_them, all: 100 });
        let said = |stale_functions, stale_samples| Said {
            profiled_functions: part(50),
            layout_modified: Some(5),
            stale_functions,
            stale_samples,
            ..Said::default()
        };
        let prove = |said: &Said| prove_said(said, Budget::default());
        assert_eq!(prove(&said(None, None)), Ok(()));
        assert_eq!(prove(&said(Some(1), part(1))), Ok(()));
        assert!(matches!(prove(&said(Some(40), part(40))), Err(BoltRefusal::Stale { .. })));
        assert!(matches!(prove(&said(Some(40), None)), Err(BoltRefusal::Silent { .. })));
    }
}

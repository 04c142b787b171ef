//! BOLT: rewriting a linked program by a profile of its branches.
//!
//! *Plan* is `calls`, *capture* is [`Bolt`], *verify* is `preflight` before, `said` and the checks in this file after. BOLT
//! ends with 0 when it found no profile, when the profile is of another program, and when most of it is stale; so its
//! words and the file that it wrote decide. `docs/bolt.md` tells of each of these failures.
//!
//! [`fdata`] reads, writes and merges profiles, [`bisect`] finds the functions that BOLT must leave alone, [`bundle`]
//! packs what a bug report needs.

pub mod bisect;
pub mod bundle;
pub(crate) mod calls;
pub mod fdata;
pub mod preflight;
pub(crate) mod refusal;
pub(crate) mod said;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hone_tool::{Call, Finished, Runner, ToolError};
use serde::{Deserialize, Serialize};

pub use calls::{BoltTools, Rung, Samples, Wish, Writes};
pub use refusal::BoltRefusal;
pub use said::{DynoRow, Part, Quality, Said, Split};

use crate::built::{Built, How};
use crate::elf::{FileFacts, file_facts};
use crate::lock::Lock;
use crate::perf;
use crate::refusal::Refusal;
use fdata::{Counts, MergedFdata, Weighted};
use preflight::{Anatomy, Warning};

/// What a profile may lack before it is refused.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// The most of its samples, 0 to 1, that may be in functions whose code has changed since.
    pub stale_samples: f64,
    /// The least of its counts, 0 to 1, that must be in functions that the program has.
    pub known_counts: f64,
}

impl Default for Budget {
    /// One in ten stale is a release or two of ordinary work; a profile of another program shares little more than the
    /// functions of its start (6 of 4,653 in the case of the facts). Choices, not constants of nature.
    fn default() -> Self {
        Self { stale_samples: 0.10, known_counts: 0.50 }
    }
}

/// Which program a profile was taken from. It lies beside the profile as `PROFILE.origin.json`, because the profile itself
/// does not say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Build-id of the program before BOLT, hex.
    pub build_id: Option<String>,
    /// SHA-256 of that program, hex.
    pub sha256: String,
    /// How it was taken.
    pub how: String,
}

impl Origin {
    fn of(input: &Input, how: &str) -> Self {
        let build_id = input.anatomy.build_id.clone();
        Self { build_id, sha256: input.facts.sha256.clone(), how: how.to_owned() }
    }

    /// The build-id, or the hash of a program that has none.
    fn key(&self) -> &str {
        self.build_id.as_deref().unwrap_or(&self.sha256)
    }

    /// Where the note of a profile lies.
    pub fn note(profile: &Path) -> PathBuf {
        let mut name: OsString = profile.as_os_str().to_owned();
        name.push(".origin.json");
        PathBuf::from(name)
    }

    fn write(&self, profile: &Path) -> Result<()> {
        let note = Self::note(profile);
        let text = serde_json::to_string_pretty(self)? + "\n";
        fs::write(&note, text).with_context(|| format!("{} can't be written", note.display()))
    }

    fn remove(profile: &Path) -> Result<()> {
        let note = Self::note(profile);
        match fs::remove_file(&note) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("{} can't be removed", note.display()))
            }
            _ => Ok(()),
        }
    }

    fn read(profile: &Path) -> Result<Option<Self>> {
        let note = Self::note(profile);
        match fs::read_to_string(&note) {
            Ok(text) => {
                let origin = serde_json::from_str(&text);
                Ok(Some(origin.with_context(|| format!("{} can't be understood", note.display()))?))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("{} can't be read", note.display())),
        }
    }
}

/// A program that BOLT can rewrite.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// The program.
    pub executable: PathBuf,
    /// What it is made of.
    pub anatomy: Anatomy,
    /// Sizes and hashes.
    pub facts: FileFacts,
    /// Troubles that BOLT lives with.
    pub warnings: Vec<Warning>,
}

impl Input {
    /// Looks at a program before BOLT does.
    ///
    /// # Errors
    /// A [`Refusal`] with the flag that mends it.
    pub fn look(executable: &Path) -> Result<Self> {
        let anatomy = preflight::anatomy(executable)?;
        let warnings = preflight::check(executable, &anatomy)?;
        Ok(Self { executable: executable.to_path_buf(), facts: file_facts(executable)?, anatomy, warnings })
    }

    /// Whether the note or the lock beside a profile says that it is of this program; `false` when neither says anything.
    ///
    /// # Errors
    /// [`BoltRefusal::OtherBuild`] when they name another build; what is wrong with one of them.
    pub fn is_told_by(&self, profile: &Path) -> Result<bool> {
        if let Some(origin) = Origin::read(profile)? {
            return same_build(self, profile, &origin).map(|()| true);
        }
        let programs = Lock::read(profile)?.map(|lock| lock.programs).unwrap_or_default();
        // Of a merge of several builds one has to be this one: what does not fit is left to BOLT's own words.
        let mut other = None;
        for program in programs {
            let is_this = match (&program.build_id, &self.anatomy.build_id) {
                (Some(told), Some(own)) => told == own,
                _ => program.sha256 == self.facts.sha256,
            };
            if is_this {
                return Ok(true);
            }
            let key = program.build_id.unwrap_or(program.sha256);
            other = other.or(Some(key).filter(|key| !key.is_empty()));
        }
        other.map_or(Ok(false), |taken_from| other_build(self, profile, &taken_from))
    }
}

/// An instrumented program.
#[derive(Debug, Clone, PartialEq)]
pub struct InstrumentedByBolt {
    /// The program.
    pub executable: PathBuf,
    /// Where it writes its profile. With a file for each process: the beginning of their names.
    pub profile: PathBuf,
    /// How it writes.
    pub writes: Writes,
    /// The command, ready to paste.
    pub command: String,
    /// What BOLT said.
    pub said: Said,
}

/// A profile that may be used.
#[derive(Debug, Clone, PartialEq)]
pub struct ProvenFdata {
    /// The profile.
    pub path: PathBuf,
    /// Records and counts.
    pub counts: Counts,
    /// Share of counts in functions of the program, 0 to 1.
    pub known: f64,
    /// Whether the note beside it was checked; otherwise the caller vouches for it.
    pub noted: bool,
}

/// A program that BOLT wrote, of which nothing is proven.
#[derive(Debug, Clone, PartialEq)]
pub struct Rewritten {
    /// The program.
    pub executable: PathBuf,
    /// The command, ready to paste.
    pub command: String,
    /// Wall time of BOLT.
    pub took_s: f64,
    /// Logs of what it said.
    pub stderr_paths: Vec<PathBuf>,
    /// What it said.
    pub said: Said,
}

/// A program that BOLT rewrote, proven to be another one.
#[derive(Debug, Clone, PartialEq)]
pub struct OptimizedByBolt {
    /// The program.
    pub executable: PathBuf,
    /// Sizes and hashes.
    pub facts: FileFacts,
    /// How much BOLT was allowed.
    pub rung: Rung,
    /// Functions that it left alone.
    pub skipped: Vec<String>,
    /// The command, ready to paste.
    pub command: String,
    /// Wall time of BOLT.
    pub took_s: f64,
    /// Logs of what it said.
    pub stderr_paths: Vec<PathBuf>,
    /// What it said.
    pub said: Said,
}

impl OptimizedByBolt {
    /// As a variant like any other. `from` is the build that BOLT rewrote.
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

    /// Instruments a program. The profile's note is written now, while it is known which program counts.
    ///
    /// # Errors
    /// A [`Refusal`], or what BOLT said.
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
        // What an earlier training left must not pass for what the next one leaves.
        for old in of_each_process(&profile)?.into_iter().chain(profile.exists().then(|| profile.clone())) {
            fs::remove_file(&old).with_context(|| format!("{} can't be removed", old.display()))?;
        }
        let finished = self.runner.run(&call)?;
        let said = words(&finished)?;
        let written = preflight::anatomy(&executable)?;
        if !written.bolt_instrumented {
            return refused(BoltRefusal::NotWritten { file: executable, what: "is not instrumented" });
        }
        Origin::of(input, "instrumented by BOLT").write(&profile)?;
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
        // All were written by the one program whose note lies beside their common beginning.
        if let Some(origin) = Origin::read(beginning)? {
            files.iter().try_for_each(|file| origin.write(file))?;
        }
        Ok(files)
    }

    /// Merges profiles of one program into a new one, with its note; without one when any of them has none, since what nobody knows of
    /// a part nobody knows of the sum.
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
        // That of an earlier merge says nothing of this one.
        Origin::remove(output)?;
        let merged = fdata::merge(profiles, output).map_err(BoltRefusal::from).map_err(Refusal::from)?;
        if all_are_noted {
            Origin::of(input, "merged").write(output)?;
        }
        Ok(merged)
    }

    /// Turns samples of a program into a profile, with its note.
    ///
    /// # Errors
    /// A [`Refusal`]: samples without branch records, or an empty profile, after which perf2bolt ends with 0.
    pub fn convert(&self, input: &Input, samples: &Path, kind: Samples) -> Result<PathBuf> {
        let folder = self.folder("sampled")?;
        let profile = folder.join(with_ending(&file_name(&input.executable), ".fdata"));
        let scratch = tempfile::tempdir_in(&folder)?;
        let call = calls::convert(&self.tools, &input.executable, samples, kind, &profile, scratch.path())
            .map_err(Refusal::from)?;
        let call = perf::with_perf(call, scratch.path())?;
        let _ = fs::remove_file(&profile);
        let said = words(&self.runner.run(&call)?)?;
        if said.no_branch_records {
            return refused(BoltRefusal::NoBranchRecords { file: samples.to_path_buf() });
        }
        if profile.metadata().map_or(0, |facts| facts.len()) == 0 {
            return none_written(&profile);
        }
        Origin::of(input, "sampled").write(&profile)?;
        Ok(profile)
    }

    /// Reads a profile back and holds it against the program that it shall shape. Without a note beside it, `vouched` says
    /// that the caller knows where it comes from.
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

    /// Rewrites a program and proves nothing: for a search, in which functions are skipped until little is left to change.
    ///
    /// # Errors
    /// When BOLT fails.
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
            said: words(&finished)?,
            stderr_paths: vec![finished.stdout_path, finished.stderr_path],
        })
    }

    /// Rewrites a program, and proves that it was rewritten.
    ///
    /// # Errors
    /// A [`Refusal`] for each way in which BOLT ends with 0 and has done nothing of use.
    pub fn optimize(&self, input: &Input, profile: &ProvenFdata, wish: &Wish) -> Result<OptimizedByBolt> {
        let Rewritten { executable, command, took_s, stderr_paths, said } =
            self.rewrite(input, profile, wish)?;
        prove_said(&said, self.budget).map_err(Refusal::from)?;
        let facts = self.prove_written(input, &executable)?;
        let skipped = self.skipped(input, &wish.skip);
        let rung = wish.rung;
        Ok(OptimizedByBolt { executable, facts, rung, skipped, command, took_s, stderr_paths, said })
    }

    /// BOLT's mark is in the file, and the code is not what it was.
    fn prove_written(&self, input: &Input, output: &Path) -> Result<FileFacts> {
        let (written, facts) = (preflight::anatomy(output)?, file_facts(output)?);
        if !written.bolted {
            return refused(BoltRefusal::NotWritten {
                file: output.to_path_buf(),
                what: "bears no mark of BOLT",
            });
        }
        let expected = input.anatomy.build_id.as_deref().and_then(preflight::flipped);
        if expected.is_some() && expected != written.build_id {
            let what = "is not made of this input: its build-id is not that of the input with the last bit turned over";
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

    /// What is asked for, and what this BOLT fails on.
    fn skipped(&self, input: &Input, asked: &[String]) -> Vec<String> {
        let more = input.anatomy.to_skip(self.tools.major).iter().filter(|name| !asked.contains(name));
        asked.iter().chain(more).cloned().collect()
    }

    fn skip_file(&self, folder: &Path, names: &[String]) -> Result<Option<PathBuf>> {
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

/// What BOLT's words must tell before its output is looked at.
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

fn same_build(input: &Input, profile: &Path, origin: &Origin) -> Result<()> {
    if origin.key() == Origin::of(input, "").key() {
        return Ok(());
    }
    other_build(input, profile, origin.key())
}

fn other_build<T>(input: &Input, profile: &Path, taken_from: &str) -> Result<T> {
    refused(BoltRefusal::OtherBuild {
        profile: profile.to_path_buf(),
        binary: input.executable.clone(),
        taken_from: taken_from.to_owned(),
        asked: Origin::of(input, "").key().to_owned(),
    })
}

/// Profiles of the form `PROFILE.PID.fdata`, in order.
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

fn refused<T>(refusal: BoltRefusal) -> Result<T> {
    Err(Refusal::from(refusal).into())
}

/// Both outputs; BOLT spreads its words over them.
fn words(finished: &Finished) -> Result<Said, ToolError> {
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
    use super::*;
    use crate::kept::Kind;
    use crate::lock::{LockedProfile, LockedProgram};

    fn input(build_id: Option<&str>, sha256: &str) -> Input {
        Input {
            executable: PathBuf::from("/bin/x"),
            anatomy: Anatomy { build_id: build_id.map(str::to_owned), ..Anatomy::default() },
            facts: FileFacts {
                file_bytes: 1,
                text_bytes: 1,
                sha256: sha256.to_owned(),
                text_sha256: String::new(),
                instrumented: false,
            },
            warnings: Vec::new(),
        }
    }

    #[test]
    fn note_and_lock_say_which_build_a_profile_is_of() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("kept.fdata");
        fs::write(&file, "1 main 0 1 main 1 0 1\n").unwrap();
        let [own, other] = [input(Some("aa"), &"a".repeat(64)), input(Some("bb"), &"b".repeat(64))];
        let nameless = input(None, &"a".repeat(64));
        assert!(!own.is_told_by(&file).unwrap(), "nothing says anything");
        let locked = |programs: Vec<LockedProgram>| {
            let (sha256, bytes) = crate::lock::sha256_of(&file).unwrap();
            let level = "branches".to_owned();
            let (functions, total_count, max_count) = (1, 1, 1);
            let profile =
                LockedProfile { kind: Kind::Fdata, sha256, bytes, level, functions, total_count, max_count };
            Lock::new(profile, programs, Vec::new()).write(&file).unwrap();
        };
        let program = |build_id: Option<&str>, sha256: &str| LockedProgram {
            build_id: build_id.map(str::to_owned),
            sha256: sha256.to_owned(),
            ..LockedProgram::default()
        };
        let told = |input: &Input| {
            let told = input.is_told_by(&file);
            told.map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())
        };
        locked(vec![program(Some("aa"), "")]);
        assert_eq!(told(&own), Ok(true));
        assert!(told(&other).unwrap_err().contains("was taken from build-id aa, /bin/x has bb"));
        assert!(told(&nameless).is_err(), "nothing of it is the same");
        locked(vec![program(None, &"a".repeat(64))]);
        assert_eq!((told(&own), told(&nameless)), (Ok(true), Ok(true)));
        assert!(told(&other).is_err());
        locked(vec![program(Some("cc"), ""), program(Some("bb"), "")]);
        assert!(told(&other).unwrap() && told(&own).is_err(), "one of those that were merged");
        locked(vec![program(None, "")]);
        assert_eq!(told(&own), Ok(false));
        Origin::of(&own, "merged").write(&file).unwrap();
        assert!(told(&own).unwrap() && told(&other).is_err(), "the note is asked first");
    }

    #[test]
    fn a_stale_profile_of_unknown_weight_is_not_taken_for_a_good_one() {
        let part = |of_them| Some(said::Part { of_them, all: 100 });
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

//! gcc's counts: merged by gcov-tool, read by gcov, and gcc's messages about them.
//!
//! An instrumented program writes a file of counts (`.gcda`) for each of its objects; gcc wrote notes (`.gcno`) next to the object when it
//! compiled it. Only both together have names. If they belong to different builds, gcov counts nothing and reports that on stderr.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufReader, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hone_record::{HotFunction, ProfileApplied, ProfileProof};
use hone_tool::{Call, Runner, ToolError};
use serde::{Deserialize, Serialize};

use crate::built::{Built, Merged};
use crate::capture::{ProfileFiles, ProfileKind, Tally};
use crate::diagnostics;
use crate::digest::{content_hash, short};
use crate::lock::Lock;
use crate::profdata::sized;
use crate::recipe::refusal::RecipeRefusal;
use crate::refusal::{Refusal, refuse_if};
use crate::shim::{Action, Entry, Language};
use crate::weights::whole_weights;

/// The number of files per call of gcov: its answer can have 10 MB per file with C++ templates.
const AT_A_TIME: usize = 8;

/// gcov's exit codes for a rejected file: 5 for one of another build and 2 for one that is no data file.
const NOT_TAKEN: std::ops::RangeInclusive<i32> = 1..=7;

/// Counts of this very build have all of their notes; the same limit as for other compilers' profiles.
const LEAST_KNOWN_PERCENT: usize = 90;

/// The number of hottest functions that are shown, the same number as for other compilers' profiles.
const HOT: usize = 200;

/// No more messages are kept.
const MESSAGES: usize = 5;

/// Summary of one function's counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Function {
    /// For people.
    pub(crate) demangled: String,
    /// The largest count of one of its lines, or of its calls.
    pub(crate) max_count: u64,
    /// Sum of the counts of its lines.
    pub(crate) total: u64,
    /// Where it begins, as `FILE:LINE:COLUMN`; empty if unknown.
    #[serde(default)]
    pub(crate) place: String,
}

/// Functions by symbol.
pub(crate) type Functions = BTreeMap<String, Function>;

/// Functions by symbol, and the weight of each file of counts by its path in the sources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Noted {
    functions: Functions,
    files: BTreeMap<PathBuf, u64>,
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    data_file: String,
    files: Vec<SourceFile>,
}

#[derive(Deserialize)]
struct SourceFile {
    #[serde(default)]
    file: String,
    functions: Vec<OneFunction>,
    lines: Vec<Line>,
}

#[derive(Deserialize)]
struct OneFunction {
    name: String,
    demangled_name: String,
    execution_count: serde_json::Number,
    #[serde(default)]
    start_line: u64,
    #[serde(default)]
    start_column: u64,
}

#[derive(Deserialize)]
struct Line {
    function_name: Option<String>,
    count: serde_json::Number,
}

/// Older versions write large counts with a fraction, and broken files have negative ones.
fn count(number: &serde_json::Number) -> u64 {
    number.as_u64().or_else(|| number.as_f64().map(|count| count.max(0.0) as u64)).unwrap_or(0)
}

/// Parses the output of `gcov --json-format --stdout`: one document after the other, one for each file of counts.
fn parse_files(answer: impl Read) -> Result<Vec<(String, Functions)>, String> {
    let documents = serde_json::Deserializer::from_reader(answer).into_iter::<Document>();
    let read = |document: Result<Document, serde_json::Error>| {
        let document = document.map_err(|error| format!("gcov's output has an unknown format: {error}"))?;
        Ok((document.data_file, functions_of(document.files)))
    };
    documents.map(read).collect()
}

fn functions_of(files: Vec<SourceFile>) -> Functions {
    let mut functions = Functions::new();
    for file in files {
        for found in file.functions {
            let function = functions.entry(found.name).or_default();
            function.demangled = found.demangled_name;
            function.place = format!("{}:{}:{}", file.file, found.start_line, found.start_column);
            function.max_count = function.max_count.max(count(&found.execution_count));
        }
        for line in file.lines {
            let Some(name) = line.function_name else { continue };
            let (function, count) = (functions.entry(name).or_default(), count(&line.count));
            function.max_count = function.max_count.max(count);
            function.total = function.total.saturating_add(count);
        }
    }
    functions
}

/// Adds functions to those of other files.
fn add(functions: &mut Functions, more: Functions) {
    for (name, found) in more {
        let function = functions.entry(name).or_default();
        function.demangled = found.demangled;
        function.place = found.place;
        function.max_count = function.max_count.max(found.max_count);
        function.total = function.total.saturating_add(found.total);
    }
}

/// The functions of all files of counts together.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn parse(text: &[u8]) -> Result<Functions, String> {
    let mut functions = Functions::new();
    for (_, found) in parse_files(text)? {
        add(&mut functions, found);
    }
    Ok(functions)
}

/// Files of counts that gcov rejected, from its standard error.
pub(crate) fn not_taken(text: &str) -> BTreeSet<&str> {
    let reasons = [":stamp mismatch with notes file", ":not a gcov data file", ":corrupted", ":overflowed"];
    text.lines()
        .filter_map(|line| reasons.iter().find_map(|reason| line.trim_end().strip_suffix(reason)))
        .collect()
}

/// The tools of one gcc at work in one folder.
pub(crate) struct Gcov<'a> {
    pub(crate) runner: &'a dyn Runner,
    pub(crate) gcov: &'a Path,
    pub(crate) gcov_tool: &'a Path,
    pub(crate) work: &'a Path,
}

/// The counts of one training: the file of each object, by the object's path in the sources.
type Counts = BTreeMap<PathBuf, (PathBuf, u64)>;

impl Gcov<'_> {
    /// Merges trainings, each the folder that was `GCOV_PREFIX`, or the copy of the sources with the build.
    pub(crate) fn merge(&self, raw: &[(PathBuf, f64)]) -> Result<Merged> {
        refuse_if(raw.is_empty(), || Refusal::NothingToMerge)?;
        let weights: Vec<f64> = raw.iter().map(|(_, weight)| *weight).collect();
        let weights = whole_weights(&weights)?;
        let trainings = raw.iter().map(|(folder, _)| self.counts_in(folder)).collect::<Result<Vec<_>>>()?;
        let fresh = self.empty_folder("merging-gcda")?;
        let command = match trainings.as_slice() {
            [one] => {
                for (place, (file, _)) in one {
                    copy_to(file, &fresh.join(place))?;
                }
                Call::new("copy-counts", "cp", self.work).arg("-r").arg(&raw[0].0).arg(&fresh).to_string()
            }
            all => self.add_up(all, &weights, &fresh)?,
        };
        let sha256 = content_hash(&fresh)?;
        let path = self.work.join("profiles").join(format!("{}-gcda", short(&sha256)));
        remove_folder(&path)?;
        fs::rename(&fresh, &path).with_context(|| format!("{} can't be named", path.display()))?;
        let files = || trainings.iter().flat_map(BTreeMap::values);
        Ok(Merged {
            bytes: self.counts_in(&path)?.values().map(|(_, bytes)| bytes).sum(),
            path,
            sha256,
            raw_files: u32::try_from(files().count()).unwrap_or(u32::MAX),
            raw_bytes: files().map(|(_, bytes)| bytes).sum(),
            command,
        })
    }

    /// Finds the files of a training. Below a prefix they have the whole path of the object; only the part inside the sources matters,
    /// because the next copy of the sources has the same one.
    fn counts_in(&self, folder: &Path) -> Result<Counts> {
        let files = ProfileFiles { kind: ProfileKind::Gcov, folder: folder.to_path_buf() };
        let found = files.snapshot().with_context(|| format!("{} can't be read", folder.display()))?;
        let (mut prefixed, mut plain) = (Counts::new(), Counts::new());
        for path in found.into_keys() {
            let (path, bytes) = sized(&path)?;
            let Ok(below) = path.strip_prefix(folder) else { continue };
            let built_at = Path::new("/").join(below);
            let in_sources =
                |place: &&Path| place.components().nth(1).is_some_and(|part| part.as_os_str() == "source");
            match built_at.strip_prefix(self.work).ok().filter(in_sources) {
                // VARIANT/source/PLACE
                Some(place) => prefixed.insert(place.components().skip(2).collect(), (path, bytes)),
                None => plain.insert(below.to_path_buf(), (path, bytes)),
            };
        }
        if let (false, Some(outside)) = (prefixed.is_empty(), plain.keys().next()) {
            let file = Path::new("/").join(outside);
            return Err(Refusal::from(RecipeRefusal::CountsOutside { file }).into());
        }
        let counts = if prefixed.is_empty() { plain } else { prefixed };
        refuse_if(counts.is_empty(), || RecipeRefusal::NoCounts { folder: folder.to_path_buf() }.into())?;
        Ok(counts)
    }

    /// Adds up two at a time, which is gcov-tool's limit. Files are numbered, so that it needs no folders.
    fn add_up(&self, trainings: &[Counts], weights: &[u64], into: &Path) -> Result<String> {
        let places: BTreeSet<&PathBuf> = trainings.iter().flat_map(BTreeMap::keys).collect();
        let numbered: BTreeMap<&PathBuf, String> =
            places.into_iter().zip(0..).map(|(place, number)| (place, format!("{number}.gcda"))).collect();
        let stage = |at: usize| self.empty_folder(&format!("merging-{at}"));
        let (mut sum, mut commands) = (PathBuf::new(), Vec::new());
        for (at, (counts, weight)) in trainings.iter().zip(weights).enumerate() {
            let folder = stage(2 * at)?;
            for (place, (file, _)) in counts {
                copy_to(file, &folder.join(&numbered[place]))?;
            }
            if at == 0 {
                sum = folder;
                continue;
            }
            let output = stage(2 * at + 1)?;
            let first = if at == 1 { weights[0] } else { 1 };
            let call = Call::new("merge-counts", self.gcov_tool, self.work)
                .args(["merge", "-w", format!("{first},{weight}").as_str(), "-o"])
                .arg(&output)
                .arg(&sum)
                .arg(&folder);
            let said = self.runner.run(&call).map_err(unmergeable)?.stderr_text()?;
            refuse_if(left_out(&said), || refused(ASTRAY, &said))?;
            commands.push(call.to_string());
            sum = output;
        }
        for (place, number) in &numbered {
            copy_to(&sum.join(number), &into.join(place))?;
        }
        for at in 0..2 * trainings.len() {
            remove_folder(&self.work.join("profiles").join(format!("merging-{at}")))?;
        }
        Ok(commands.join(" && "))
    }

    /// Reads merged counts back with the notes of the instrumented build. Also returns the number of functions that ran.
    pub(crate) fn prove(
        &self,
        merged: &Merged,
        counting: &Built,
        notes: &Path,
    ) -> Result<(ProfileProof, usize)> {
        let counts = self.counts_in(&merged.path)?;
        let (noted, known) = self.noted(&counts, notes)?;
        let functions = &noted.functions;
        refuse_if(known * 100 < counts.len() * LEAST_KNOWN_PERCENT, || {
            let (folder, binary) = (merged.path.clone(), counting.executable.clone());
            RecipeRefusal::OtherCounts { folder, binary, known, files: counts.len() }.into()
        })?;
        let hollow = |what| Refusal::Hollow { file: merged.path.clone(), what };
        let max_count = functions.values().map(|function| function.max_count).max().unwrap_or(0);
        refuse_if(functions.is_empty(), || hollow("functions"))?;
        refuse_if(max_count == 0, || hollow("count above 0"))?;
        write_note(&merged.path, &noted)?;
        let hot = hot(functions);
        let ran = functions.values().filter(|function| function.max_count > 0).count();
        let proof = ProfileProof {
            path: merged.path.display().to_string(),
            sha256: merged.sha256.clone(),
            bytes: merged.bytes,
            raw_files: merged.raw_files,
            raw_bytes: merged.raw_bytes,
            level: "gcov".to_owned(),
            functions: functions.len() as u64,
            max_count,
            total_count: total_of(functions.values()),
            // Everything that a recipe compiles belongs to the target.
            hot_functions_of_target: u32::try_from(hot.len()).unwrap_or(u32::MAX),
            hot_functions: hot,
        };
        Ok((proof, ran))
    }

    /// Counts with the notes of the instrumented build, and the number of files that belong to it.
    fn noted(&self, counts: &Counts, notes: &Path) -> Result<(Noted, usize)> {
        let reading = self.empty_folder("reading-gcda")?;
        let (mut names, mut places) = (Vec::new(), BTreeMap::new());
        for (place, (file, _)) in counts {
            let note = notes.join(place).with_extension("gcno");
            if note.is_file() {
                let name = names.len().to_string();
                let link =
                    |from: &Path, ending: &str| symlink(from, reading.join(format!("{name}.{ending}")));
                link(file, "gcda")
                    .and_then(|()| link(&note, "gcno"))
                    .with_context(|| format!("{} can't be linked to", note.display()))?;
                names.push(format!("{name}.gcda"));
                places.insert(format!("{name}.gcda"), place.clone());
            }
        }
        let (by_file, foreign) = self.read(&reading, &names)?;
        let mut noted = Noted::default();
        for (file, functions) in by_file {
            if let Some(place) = places.remove(&file) {
                noted.files.insert(place, total_of(functions.values()));
            }
            add(&mut noted.functions, functions);
        }
        remove_folder(&reading)?;
        Ok((noted, names.len().saturating_sub(foreign)))
    }

    /// The sum of a training's counts.
    pub(crate) fn tally(&self, raw: &Path, notes: &Path) -> Result<Tally> {
        let files = ProfileFiles { kind: ProfileKind::Gcov, folder: raw.to_path_buf() };
        if files.snapshot()?.is_empty() {
            return Ok(Tally::default());
        }
        let (noted, _) = self.noted(&self.counts_in(raw)?, notes)?;
        // A function without its own line has the counts of its calls.
        let count = |function: Function| function.total.max(function.max_count);
        Ok(Tally::from_counts(noted.functions.into_iter().map(|(name, function)| (name, count(function)))))
    }

    /// The functions of each file with its notes next to it, and the number of files that gcov rejected.
    fn read(&self, folder: &Path, names: &[String]) -> Result<(Vec<(String, Functions)>, usize)> {
        let (mut by_file, mut foreign) = (Vec::new(), 0);
        for names in names.chunks(AT_A_TIME) {
            let call = Call::new("read-counts", self.gcov, folder).args(["--json-format", "--stdout"]);
            let call = NOT_TAKEN.fold(call.args(names), Call::accept_status);
            let finished = self.runner.run(&call)?;
            foreign += match not_taken(&finished.stderr_text()?).len() {
                0 if finished.code != 0 => names.len(),
                told => told,
            };
            let answer = &finished.stdout_path;
            let file =
                fs::File::open(answer).with_context(|| format!("{} can't be read", answer.display()))?;
            by_file.extend(parse_files(BufReader::new(file)).map_err(anyhow::Error::msg)?);
        }
        Ok((by_file, foreign))
    }

    fn empty_folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.work.join("profiles").join(name);
        remove_folder(&folder)?;
        fs::create_dir_all(&folder).with_context(|| format!("{} can't be made", folder.display()))?;
        Ok(folder)
    }
}

fn total_of<'a>(functions: impl Iterator<Item = &'a Function>) -> u64 {
    functions.fold(0, |sum: u64, function| sum.saturating_add(function.total))
}

fn hot(functions: &Functions) -> Vec<HotFunction> {
    let mut ran: Vec<&Function> = functions.values().filter(|function| function.max_count > 0).collect();
    ran.sort_by(|a, b| b.max_count.cmp(&a.max_count).then_with(|| a.demangled.cmp(&b.demangled)));
    let told = |function: &&Function| HotFunction {
        name: function.demangled.clone(),
        max_count: function.max_count,
    };
    ran.iter().take(HOT).map(told).collect()
}

impl Merged {
    /// The profile, and everything next to it that a later step elsewhere needs; not all of it must exist.
    pub fn with_what_is_beside(&self) -> [PathBuf; 3] {
        [self.path.clone(), Lock::path(&self.path), note_of(&self.path)]
    }
}

/// The functions are next to merged counts, so that Hone can weigh those that gcc drops.
fn note_of(merged: &Path) -> PathBuf {
    merged.with_extension("functions.json")
}

fn write_note(merged: &Path, noted: &Noted) -> Result<()> {
    let note = note_of(merged);
    fs::write(&note, serde_json::to_vec(noted)?)
        .with_context(|| format!("{} can't be written", note.display()))
}

fn read_note(merged: &Path) -> Result<Noted> {
    let note = note_of(merged);
    let text = fs::read(&note)
        .with_context(|| format!("{} can't be read: verify the profile first", note.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} can't be parsed", note.display()))
}

/// gcc's messages about counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GccMessages {
    /// Functions whose counts gcc dropped, as gcc writes them, with the place of their beginning.
    pub(crate) mismatched: BTreeMap<String, String>,
    /// Functions without counts.
    pub(crate) missing_functions: BTreeSet<String>,
    /// Files of counts that it looked for but did not find.
    pub(crate) missing_files: BTreeSet<String>,
    /// Why it rejected a file.
    pub(crate) unreadable: Option<String>,
}

/// Parses gcc's warnings about counts. They are in English and without colours, which the compiler wrappers ensure; names are in quotes,
/// which depend on the character set.
pub(crate) fn reported(logs: &[String]) -> GccMessages {
    let mut messages = GccMessages::default();
    for line in logs.iter().flat_map(|log| log.lines()) {
        let Some(name) = quoted(line).map(str::to_owned) else { continue };
        if line.contains("profile count data file not found") {
            messages.missing_files.insert(name);
        } else if line.contains("not found in profile data") {
            messages.missing_functions.insert(name);
        } else if line.contains("coverage-mismatch]") {
            let place = line.split_once(": ").map_or("", |(place, _)| place);
            messages.mismatched.insert(name, place.to_owned());
        } else if line.contains("is not a gcov data file") || line.contains(", expected version ") {
            messages.unreadable.get_or_insert_with(|| line.trim().to_owned());
        }
    }
    messages
}

/// The first text in quotes, of which gcc opens and closes with the same one or with a pair.
fn quoted(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(['\'', '‘'])?;
    Some(rest.split_once(['\'', '’'])?.0)
}

/// Verifies by gcc's messages and by the objects that counts were found and used.
pub(crate) fn applied(
    logs: &[String],
    compiled: &[Entry],
    proof: &ProfileProof,
    program: &Path,
    sources: &Path,
) -> Result<ProfileApplied> {
    let messages = reported(logs);
    if let Some(message) = messages.unreadable {
        return Err(Refusal::NotUsed { message }.into());
    }
    refuse_if(!any_fed(compiled, messages.missing_files.len()), || {
        RecipeRefusal::CountsNotFound { program: program.to_path_buf() }.into()
    })?;
    let Noted { functions, files } = read_note(Path::new(&proof.path))?;
    // The reason for a missing file.
    let weight_of = |file: &str| {
        let place = Path::new(file).strip_prefix(sources).ok()?;
        files.get(place).copied().filter(|weight| *weight > 0)
    };
    let gone = messages.missing_files.iter().filter_map(|file| weight_of(file)).fold(0, u64::saturating_add);
    let discarded_count = total_of(lost(&functions, &messages.mismatched).into_iter()).saturating_add(gone);
    let words = |file: &String| match weight_of(file) {
        Some(_) => format!("the build deleted {file} before gcc looked for it: its counts are lost"),
        None => format!("{file} has no counts: its object was not in the instrumented program"),
    };
    let (lost, others): (Vec<_>, Vec<_>) =
        messages.missing_files.iter().partition(|file| weight_of(file).is_some());
    let applied = ProfileApplied {
        discarded_functions: messages.mismatched.len() as u64,
        discarded_count,
        discarded_weight: diagnostics::share(discarded_count, proof.total_count),
        missing_functions: messages.missing_functions.len() as u64,
        messages: lost.into_iter().chain(others).take(MESSAGES).map(words).collect(),
    };
    diagnostics::fits(&applied, proof.functions)?;
    Ok(applied)
}

/// The functions that gcc means. It writes instances of templates in its own way (`T f(T) [with T = int]`), so a name without a match is
/// resolved by its place, to all functions that begin there.
fn lost<'a>(functions: &'a Functions, mismatched: &BTreeMap<String, String>) -> Vec<&'a Function> {
    let mut by_name: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (symbol, function) in functions {
        by_name.entry(&function.demangled).or_default().push(symbol);
    }
    let mut meant: BTreeSet<&str> = BTreeSet::new();
    for (said, place) in mismatched {
        let named = || {
            // `unsigned int f(char, int)` is `f(char, int)` to gcov.
            let ends = said.match_indices(' ').map(|(at, _)| &said[at + 1..]);
            [said.as_str()].into_iter().chain(ends).find_map(|name| by_name.get(name))
        };
        if let Some((symbol, _)) = functions.get_key_value(said) {
            meant.insert(symbol);
        } else if let Some(symbols) = named() {
            meant.extend(symbols);
        } else {
            let there = functions.iter().filter(|(_, function)| function.place == *place);
            meant.extend(there.map(|(symbol, _)| symbol.as_str()));
        }
    }
    meant.into_iter().filter_map(|symbol| functions.get(symbol)).collect()
}

/// Whether at least one object was compiled with counts next to it.
fn any_fed(log: &[Entry], missing_files: usize) -> bool {
    log.iter().filter(|entry| entry.saw_flags()).any(|entry| match entry.action {
        // gcc invents these names, but it reports those that it did not find.
        Action::CompileAndLink => {
            let sources = entry.inputs.iter().filter(|input| input.language == Language::Source).count();
            sources > missing_files
        }
        _ => entry.outputs.iter().any(|output| output.path.with_extension("gcda").is_file()),
    })
}

/// Why counts can't be added up, in the case of gcov-tool: it names only the file that it fails on.
const ASTRAY: &str = "gcov-tool reports that one of the files is broken or is of another build";

/// If a file is cut off or belongs to another build, version 12 asks for a bug report, although it is no compiler error.
const CRASHED: &str = "gcov-tool crashed on one of the files, which is cut off or is of another build \
                       (gcov-tool calls that a compiler error and asks for a bug report, but no report is \
                       needed)";

fn unmergeable(error: ToolError) -> anyhow::Error {
    let ToolError::Failed { scene, .. } = &error else {
        return error.into();
    };
    let crashed =
        scene.stderr.iter().any(|line| line.contains("internal compiler error") || asks_for_report(line));
    refused(if crashed { CRASHED } else { ASTRAY }, &scene.to_string()).into()
}

fn refused(reason: &'static str, said: &str) -> Refusal {
    let is_of_crash = |line: &&str| {
        let line = line.trim_start();
        let line = line.strip_prefix("stderr:").unwrap_or(line).trim_start();
        !asks_for_report(line) && !line.starts_with("0x") && !line.starts_with("../")
    };
    Refusal::Unmergeable {
        reason,
        next: "check the free space of the disk, and train the same instrumented build for each workload",
        details: said.lines().filter(is_of_crash).collect::<Vec<_>>().join("\n"),
    }
}

fn asks_for_report(line: &str) -> bool {
    line.starts_with("Please submit") || line.starts_with("Please include") || line.starts_with("See <file:")
}

/// gcov-tool's messages when it leaves counts out; it exits with 0 all the same.
fn left_out(said: &str) -> bool {
    [" mismatch", "mismatched ", " skipping", " unread"].iter().any(|words| said.contains(words))
}

fn copy_to(from: &Path, to: &Path) -> Result<()> {
    let told = || format!("{} can't be copied to {}", from.display(), to.display());
    fs::create_dir_all(to.parent().unwrap_or(to)).with_context(told)?;
    fs::copy(from, to).with_context(told)?;
    Ok(())
}

fn remove_folder(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{} can't be removed", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ONE: &str = r#"{"gcc_version": "12.2.0", "format_version": "1", "data_file": "a.gcda", "files": [{"file": "a.cc",
        "functions": [{"name": "_Z4workv", "demangled_name": "work()", "execution_count": 7, "blocks": 3},
                      {"name": "main", "demangled_name": "main", "execution_count": 1, "blocks": 9}],
        "lines": [{"line_number": 1, "function_name": "_Z4workv", "count": 900, "branches": []},
                  {"line_number": 2, "function_name": "_Z4workv", "count": 100, "branches": []},
                  {"line_number": 9, "function_name": "main", "count": 1.0, "branches": []},
                  {"line_number": 12, "count": 5, "branches": []}]}]}"#;

    #[test]
    fn counts_are_added_up_by_function() {
        let function = |demangled: &str, max_count, total| Function {
            demangled: demangled.to_owned(),
            max_count,
            total,
            place: "a.cc:0:0".to_owned(),
        };
        let one = parse(ONE.as_bytes()).unwrap();
        let expected = [
            ("_Z4workv".to_owned(), function("work()", 900, 1000)),
            ("main".to_owned(), function("main", 1, 1)),
        ];
        assert_eq!(one, Functions::from(expected));
        let two = parse(format!("{ONE}\n{ONE}\n").as_bytes()).unwrap();
        assert_eq!(two["_Z4workv"], function("work()", 900, 2000), "a document for each file");
        assert_eq!(hot(&two)[0], HotFunction { name: "work()".into(), max_count: 900 });
        assert_eq!(parse(b"").unwrap(), Functions::new());
        assert!(parse(b"no counts").unwrap_err().starts_with("gcov's output has an unknown format"));
    }

    #[test]
    fn what_gcov_tool_says_of_files_that_do_not_fit_is_understood() {
        let crash = "mismatched profiles in ./0.gcda (2 functions vs 1 functions)\ngcov-tool: internal compiler error: in \
                     write_topn_counters, at ../libgcc/libgcov-driver.c:426\n0x7f49b217b249 __libc_start_call_main\n\t../sysdeps/x.h:58\n\
                     \x20 stderr: Please submit a full bug report, with preprocessed source.\nSee <file:///README.Bugs> for instructions.\n";
        let Refusal::Unmergeable { details, .. } = refused(CRASHED, crash) else { unreachable!() };
        assert!(details.ends_with("libgcov-driver.c:426"), "{details}");
        assert!(left_out("gcov-tool: warning: ./0.gcda:record size mismatch 10 bytes unread\n"));
        assert!(left_out("in ./0.gcda, cfg_checksum mismatch, skipping\n") && !left_out(""));
    }

    #[test]
    fn files_that_gcov_does_not_take_are_known_by_its_words() {
        let text = "3.gcda:stamp mismatch with notes file\n4.gcda:not a gcov data file\nFile 'a.c'\n";
        assert_eq!(not_taken(text), BTreeSet::from(["3.gcda", "4.gcda"]));
    }

    #[test]
    fn warnings_of_gcc_are_understood_in_every_character_set() {
        let log = "a.c:5:1: warning: profile for function ‘fresh’ not found in profile data [-Wmissing-profile]\n\
            a.c:9:6: warning: number of counters in profile data for function 'hot' does not match its profile data \
            (counter 'arcs', expected 7 and have 4) [-Wcoverage-mismatch]\n\
            b.c:3:1: warning: '/w/b.gcda' profile count data file not found [-Wmissing-profile]\n\
            c.c:3:1: warning: unused variable 'x' [-Wunused-variable]\n";
        let told = reported(&[log.to_owned(), log.to_owned()]);
        let one = |text: &str| BTreeSet::from([text.to_owned()]);
        let expected = GccMessages {
            mismatched: [("hot".to_owned(), "a.c:9:6".to_owned())].into(),
            missing_functions: one("fresh"),
            missing_files: one("/w/b.gcda"),
            unreadable: None,
        };
        assert_eq!(told, expected);
        let garbage = ["x.c:1:1: warning: 'x.gcda' is not a gcov data file".to_owned()];
        assert!(super::reported(&garbage).unreadable.is_some());
    }

    #[test]
    fn lost_functions_are_known_by_name_or_by_place() {
        let function = |demangled: &str, place: &str| Function {
            demangled: demangled.to_owned(),
            place: place.to_owned(),
            ..Function::default()
        };
        let all = Functions::from([
            ("plain".to_owned(), function("plain", "a.c:1:5")),
            ("_Z5twicePc".to_owned(), function("twice(char*)", "a.cc:2:5")),
            ("_Z3hotILi1EEjj".to_owned(), function("unsigned int hot<1>(unsigned int)", "a.cc:3:9")),
            ("_Z4coldv".to_owned(), function("cold()", "a.cc:9:9")),
        ]);
        let names = |said: &str, place: &str| {
            let said = BTreeMap::from([(said.to_owned(), place.to_owned())]);
            lost(&all, &said).into_iter().map(|function| function.demangled.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(names("plain", "x.c:7:7"), ["plain"]);
        assert_eq!(names("char* twice(char*)", "x.c:7:7"), ["twice(char*)"]);
        let template = names("unsigned int hot(unsigned int) [with int N = 1]", "a.cc:3:9");
        assert_eq!(template, ["unsigned int hot<1>(unsigned int)"]);
        assert_eq!(names("unknown", "x.c:7:7"), [] as [&str; 0]);
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(at in 0..ONE.len(), byte in 32_u8..127, text: String) {
            let mut bytes = ONE.as_bytes().to_vec();
            let _ = parse(&bytes[..at]);
            bytes[at] = byte;
            let _ = parse(&bytes);
            let _ = (not_taken(&text), reported(&[text.clone(), format!("'{text}' coverage-mismatch]")]));
        }
    }
}

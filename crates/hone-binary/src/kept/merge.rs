//! Profiles of one program made one, each with its weight.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hone_tool::{Call, ToolError};
use serde::Serialize;

use super::check::{Taken, note};
use super::{Contents, Keeper, KeptFault, Kind, Opened, kind_of, profdata};
use crate::bolt::Origin;
use crate::bolt::fdata;
use crate::go;
use crate::lock::{Lock, LockedProfile};
use crate::profile;
use crate::workshop::whole_ratio;

/// Weights of llvm-profdata are whole numbers; beyond this ratio counts would not fit into their type.
const MOST_APART: f64 = 1e6;

/// With a path of 4,096 bytes each these are far below what Linux lets a command line have (2 MiB at its default).
const MOST_ARGUMENTS: usize = 100;

/// Of two builds of one program, this share of the functions of the one with fewer must be in the other: the rule of the
/// proof that a profile is of its program.
const LEAST_COMMON_PERCENT: usize = 90;

/// One profile that goes into a merge.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Input {
    /// The file.
    pub file: PathBuf,
    /// SHA-256, hex.
    pub sha256: String,
    /// Its counts were multiplied by this.
    pub weight: f64,
    /// Sum of its counts before that.
    pub total_count: u64,
    /// Whether a lock lay beside it.
    pub locked: bool,
}

/// How much each profile counts for.
#[derive(Debug, Clone, PartialEq)]
pub enum Weights {
    /// All the same: counts are added up as they are.
    Same,
    /// Each is multiplied by its own.
    Each(Vec<f64>),
    /// Each gets this share of the sum, however long its training was.
    Shares(Vec<f64>),
}

/// What came of a merge.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MergedProfile {
    /// The new profile.
    pub file: PathBuf,
    /// What is in it.
    pub profile: LockedProfile,
    /// Its lock.
    pub lock: PathBuf,
    /// What went in, in order.
    pub inputs: Vec<Input>,
    /// What else must be known.
    pub notes: Vec<String>,
}

/// What must be known of an input; its contents are not kept.
struct Known {
    opened: Opened,
    facts: LockedProfile,
    lock: Option<Lock>,
    taken: Vec<Taken>,
}

impl Keeper<'_> {
    /// Merges profiles of one kind into a new file with its lock. One profile at a time is in memory, beside the sum of
    /// those of BOLT and Go and the names of those of LLVM.
    ///
    /// # Errors
    /// When one can't be read or has no counts, when kinds differ, when builds differ and `different_builds` does not
    /// allow it, when weights make no sense, and when the sum is not what it must be. Then there is no output.
    pub fn merge(
        &self,
        files: &[PathBuf],
        weights: &Weights,
        output: &Path,
        different_builds: bool,
    ) -> Result<MergedProfile> {
        let known = self.known(files, different_builds)?;
        let Some(first) = known.first() else {
            return Err(KeptFault::Weights("no profile was named".to_owned()).into());
        };
        let totals: Vec<u64> = known.iter().map(|known| known.facts.total_count).collect();
        let mut weights = weights.of(&totals)?;
        if first.opened.kind == Kind::Profdata {
            weights = whole(&weights)?.into_iter().map(|weight| weight as f64).collect();
        }
        let part = part_of(output)?;
        let merged = match first.opened.kind {
            Kind::Profdata => self.merge_llvm(&known, &weights, &part).map(|()| Rounding::default()),
            Kind::Fdata => merge_bolt(&known, &weights, &part),
            Kind::Pprof => merge_go(&known, &weights, &part),
        };
        let made = merged.and_then(|rounding| {
            let facts = self.facts(&part)?;
            prove_sum(first.opened.kind, &totals, &weights, &facts, &rounding)?;
            fs::rename(&part, output).with_context(|| format!("{} can't be written", output.display()))?;
            Ok((facts, rounding.clipped))
        });
        let (facts, clipped) = made.inspect_err(|_| drop(fs::remove_file(&part)))?;
        finish(known, weights, facts, output, clipped)
    }

    /// Reads all inputs, one at a time, and refuses those that do not belong together.
    fn known(&self, files: &[PathBuf], different_builds: bool) -> Result<Vec<Known>> {
        let mut known: Vec<Known> = Vec::new();
        let mut functions: Option<Functions> = None;
        for file in files {
            // The kind is told before anything is read whole.
            if let Some(first) = known.first() {
                let (kind, _) = kind_of(file)?;
                same_kind(file, kind, first)?;
            }
            let mut opened = self.open(file)?;
            opened.counted()?;
            if let Some(first) = known.first() {
                opened.like(&first.opened)?;
            }
            let (facts, lock, taken) = (opened.facts(), opened.lock()?, opened.builds()?);
            if let Contents::Profdata(profile) = &opened.contents {
                let of_this = Functions::of(profile);
                match (&functions, known.first()) {
                    (Some(others), Some(first)) if !different_builds => {
                        others.same(&of_this).map_err(|reason| builds(file, first, reason))?;
                    }
                    _ => functions = Some(of_this),
                }
            } else if let Some(first) = known.first().filter(|_| !different_builds) {
                same_build(&taken, &first.taken).map_err(|reason| builds(file, first, reason))?;
            }
            opened.contents = opened.contents.head();
            known.push(Known { opened, facts, lock, taken });
        }
        Ok(known)
    }

    /// By llvm-profdata: the newest that writes no newer form than the inputs have, since the compiler that made them reads
    /// none that is newer than its own.
    fn merge_llvm(&self, known: &[Known], weights: &[f64], output: &Path) -> Result<()> {
        let wanted = known.iter().filter_map(|known| known.opened.format).max();
        let tools = profdata::tools(self.runner)?;
        let inputs = self.inputs_of_llvm(known, weights)?;
        let mut last = None;
        for tool in &tools {
            let call = Call::new("merge-profile", &tool.path, self.scratch)
                .args(["merge", "-o"])
                .arg(profdata::absolute(output))
                .args(inputs.iter().cloned())
                .produces(profdata::absolute(output));
            match self.runner.run(&call) {
                Ok(_) => {}
                // Older than the inputs need; what speaks against the newer one is the reason.
                Err(ToolError::Failed { .. }) if last.is_some() => break,
                Err(error) => return Err(error.into()),
            }
            let (_, written) = kind_of(output)?;
            if wanted.is_none() || written <= wanted {
                return Ok(());
            }
            last = Some(anyhow::anyhow!(
                "{} ({}) writes version {} of the form, and the compiler that made these profiles reads up to {}\n  next: \
                 install the LLVM of that compiler, or let HONE_LLVM_PROFDATA name its llvm-profdata",
                tool.path.display(),
                tool.receipt.version,
                written.unwrap_or(0),
                wanted.unwrap_or(0)
            ));
        }
        Err(last.unwrap_or_else(|| KeptFault::NoTool.into()))
    }

    /// Profiles with their weights as llvm-profdata takes them: each as an argument, or, of more than a command line may hold, in a
    /// list of lines.
    fn inputs_of_llvm(&self, known: &[Known], weights: &[f64]) -> Result<Vec<OsString>> {
        let weighted = known.iter().zip(weights).map(|(known, weight)| {
            let mut text = OsString::from(format!("{},", *weight as u64));
            text.push(profdata::absolute(&known.opened.file));
            text
        });
        if known.len() <= MOST_ARGUMENTS {
            let option = |text: OsString| {
                let mut option = OsString::from("--weighted-input=");
                option.push(text);
                option
            };
            return Ok(weighted.map(option).collect());
        }
        let list = profdata::absolute(&self.scratch.join("inputs.txt"));
        let mut text = Vec::new();
        for line in weighted {
            if line.as_bytes().contains(&b'\n') {
                anyhow::bail!("{} has a line break in its name, and so can't be in a list", line.display());
            }
            text.extend_from_slice(line.as_bytes());
            text.push(b'\n');
        }
        fs::write(&list, text).with_context(|| format!("{} can't be written", list.display()))?;
        let mut option = OsString::from("--input-files=");
        option.push(list);
        Ok(vec![option])
    }
}

fn same_kind(file: &Path, kind: Kind, first: &Known) -> Result<(), KeptFault> {
    if kind == first.opened.kind {
        return Ok(());
    }
    Err(KeptFault::Kinds {
        file: file.to_path_buf(),
        here: kind.to_string(),
        other: first.opened.file.clone(),
        there: first.opened.kind.to_string(),
    })
}

fn builds(file: &Path, first: &Known, reason: String) -> KeptFault {
    KeptFault::Builds { file: file.to_path_buf(), other: first.opened.file.clone(), reason }
}

/// Names and hashes of control flow in a profile of LLVM: what makes two builds the same to the compiler.
struct Functions(BTreeSet<(String, u64)>);

impl Functions {
    fn of(profile: &profile::Profile) -> Self {
        Self(profile.functions.iter().map(|function| (function.name.clone(), function.hash)).collect())
    }

    /// Every name has the same hashes in both, and nearly all functions of the one with fewer are in the other. (A sparse
    /// profile leaves out what did not run.)
    fn same(&self, other: &Self) -> Result<(), String> {
        let by_name = |functions: &BTreeSet<(String, u64)>| {
            let mut names: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
            for (name, hash) in functions {
                names.entry(name.clone()).or_default().insert(*hash);
            }
            names
        };
        let (here, there) = (by_name(&self.0), by_name(&other.0));
        let in_both: Vec<&String> = here.keys().filter(|name| there.contains_key(*name)).collect();
        let changed: Vec<&&String> =
            in_both.iter().filter(|name| here[**name].is_disjoint(&there[**name])).collect();
        if let Some(one) = changed.first() {
            let name = crate::proof::demangle(profile::symbol_of(one));
            return Err(format!(
                "control flow differs in {} of {} functions, in {name} for one",
                changed.len(),
                in_both.len()
            ));
        }
        let fewer = here.len().min(there.len());
        if in_both.len() * 100 < fewer * LEAST_COMMON_PERCENT {
            return Err(format!("only {} of {fewer} functions are in both", in_both.len()));
        }
        Ok(())
    }
}

/// Builds that are known, and have none in common, differ.
fn same_build(here: &[Taken], there: &[Taken]) -> Result<(), String> {
    if here.is_empty() || there.is_empty() || here.iter().any(|one| there.iter().any(|other| one.same(other)))
    {
        return Ok(());
    }
    let name = |taken: &Taken| match &taken.build_id {
        Some(build_id) => format!("build-id {build_id}"),
        None => format!("SHA-256 {}", taken.sha256.get(..16).unwrap_or(&taken.sha256)),
    };
    Err(format!("one from {}, the other from {}", name(&here[0]), name(&there[0])))
}

impl Opened {
    /// The builds by lock and note, and of Go by the profile itself.
    pub(super) fn builds(&self) -> Result<Vec<Taken>> {
        let mut taken = self.taken_from()?;
        if let (true, Contents::Pprof(profile)) = (taken.is_empty(), &self.contents) {
            let main = profile.mappings.first().filter(|mapping| !mapping.build_id.is_empty());
            taken.extend(
                main.map(|mapping| Taken { sha256: String::new(), build_id: Some(mapping.build_id.clone()) }),
            );
        }
        Ok(taken)
    }
}

impl Contents {
    /// What the comparison with the next one needs, without the counts.
    fn head(&self) -> Self {
        match self {
            Self::Profdata(profile) => {
                Self::Profdata(profile::Profile { ir: profile.ir, ..profile::Profile::default() })
            }
            Self::Fdata(counts) => {
                Self::Fdata(fdata::Counts { head: counts.head.clone(), ..fdata::Counts::default() })
            }
            Self::Pprof(profile) => Self::Pprof(Box::new(go::Profile {
                sample_types: profile.sample_types.clone(),
                ..go::Profile::default()
            })),
        }
    }
}

impl Weights {
    fn of(&self, totals: &[u64]) -> Result<Vec<f64>, KeptFault> {
        let (given, what) = match self {
            Self::Same => return Ok(vec![1.0; totals.len()]),
            Self::Each(weights) => (weights, "weights"),
            Self::Shares(shares) => (shares, "shares"),
        };
        if given.len() != totals.len() {
            return Err(KeptFault::Weights(format!("{} profiles and {} {what}", totals.len(), given.len())));
        }
        if let Some(wrong) =
            given.iter().find(|weight| !(weight.is_finite() && (1e-6..=1e6).contains(*weight)))
        {
            return Err(KeptFault::Weights(format!(
                "{wrong} is none of the {what} between 0.000001 and 1000000"
            )));
        }
        match self {
            Self::Shares(shares) => weights_for_shares(totals, shares)
                .ok_or_else(|| KeptFault::Weights("shares need profiles with counts".to_owned())),
            _ => Ok(given.clone()),
        }
    }
}

/// Weights with which each profile gets its share of the sum; the largest is 1.
pub fn weights_for_shares(totals: &[u64], shares: &[f64]) -> Option<Vec<f64>> {
    fdata::weights_for_shares(totals, shares)
}

/// Weights as llvm-profdata takes them.
fn whole(weights: &[f64]) -> Result<Vec<u64>, KeptFault> {
    let (least, most) =
        weights.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), &one| (a.min(one), b.max(one)));
    if most / least > MOST_APART {
        return Err(KeptFault::Weights(format!("{weights:?} are too far apart for llvm-profdata")));
    }
    Ok(whole_ratio(weights))
}

/// A file beside the output, which gets the name when all is proven.
fn part_of(output: &Path) -> Result<PathBuf> {
    let name = output.file_name().filter(|_| !output.is_dir());
    let name = name.with_context(|| format!("{} is a folder: name the new profile", output.display()))?;
    Ok(output.with_file_name(format!(".{}.{}.part", name.to_string_lossy(), std::process::id())))
}

/// How far the sum of a merge may be from that of its parts, and why.
#[derive(Debug, Default)]
struct Rounding {
    /// Counts that were rounded to whole ones may have moved the sum by so much.
    slack: f64,
    /// Counts that would have been larger than the form holds, and were kept at the largest.
    clipped: u64,
}

fn merge_bolt(known: &[Known], weights: &[f64], output: &Path) -> Result<Rounding> {
    let files: Vec<fdata::Weighted> = known
        .iter()
        .zip(weights)
        .map(|(known, &weight)| fdata::Weighted { file: known.opened.file.clone(), weight })
        .collect();
    let merged = fdata::merge(&files, output)?;
    // A record's count and its mispredictions are rounded once, by a half, or up to 1 where that would be nothing; a weight by its
    // last bit.
    let bit = 0.5_f64.powi(fdata::WEIGHT_BITS as i32 + 1);
    let of_weights: f64 = known.iter().map(|known| known.facts.total_count as f64 * bit).sum();
    Ok(Rounding { slack: merged.records as f64 + of_weights, clipped: merged.clipped })
}

fn merge_go(known: &[Known], weights: &[f64], output: &Path) -> Result<Rounding> {
    let mut merger = go::Merger::new();
    let mut slack = 0.0;
    for (known, &weight) in known.iter().zip(weights) {
        let file = &known.opened.file;
        let profile = go::read_profile(file)?;
        if weight != 1.0 {
            // Each sample by a half.
            slack += profile.samples.len() as f64 / 2.0;
        }
        let added = merger.add(&profile, weight).map_err(anyhow::Error::msg);
        added.with_context(|| format!("{} can't be merged", file.display()))?;
    }
    let merged = merger.finish().map_err(anyhow::Error::msg)?;
    fs::write(output, merged.to_bytes()).with_context(|| format!("{} can't be written", output.display()))?;
    Ok(Rounding { slack, clipped: 0 })
}

/// The sum of the result must be that of the inputs, each times its weight; a tool that leaves out what it can't add ends with 0. Where
/// counts were rounded, the sum may be off by what that can have moved it, and by no more.
fn prove_sum(
    kind: Kind,
    totals: &[u64],
    weights: &[f64],
    facts: &LockedProfile,
    rounding: &Rounding,
) -> Result<()> {
    /// Beyond 2^53 the sum itself is rounded here.
    const OF_FLOATS: f64 = 1e-9;
    let expected: f64 = totals.iter().zip(weights).map(|(&total, weight)| total as f64 * weight).sum();
    let found = facts.total_count as f64;
    // What was kept at the largest count is less than it would be, and is told.
    if (found - expected).abs() <= expected * OF_FLOATS + rounding.slack || rounding.clipped > 0 {
        return Ok(());
    }
    let sums = format!("the merged {kind} has the sum {found:.0}, and its parts have {expected:.0}");
    // The largest that LLVM keeps; its last numbers have other meanings.
    if kind == Kind::Profdata && facts.max_count >= u64::MAX - 8 || expected >= u64::MAX as f64 {
        anyhow::bail!(
            "{sums}: a count has come to the end of its type\n  next: take smaller weights in the same ratio, or a shorter training"
        );
    }
    anyhow::bail!(
        "{sums}: something was left out\n  next: merge profiles of one build only; look at each with `hone profile show`"
    )
}

fn finish(
    known: Vec<Known>,
    weights: Vec<f64>,
    facts: LockedProfile,
    output: &Path,
    clipped: u64,
) -> Result<MergedProfile> {
    let unknown: Vec<&Known> = known.iter().filter(|known| known.taken.is_empty()).collect();
    let mut notes = Vec::new();
    if clipped > 0 {
        notes.push(format!("{clipped} counts would be larger than BOLT reads, and were kept at the largest"));
    }
    if known.len() > 1 && !unknown.is_empty() && facts.kind != Kind::Profdata {
        let names: Vec<String> =
            unknown.iter().map(|known| known.opened.file.display().to_string()).collect();
        notes.push(format!("nothing says which build was trained for {}", names.join(", ")));
    }
    keep_note(&known, output)?;
    let inputs: Vec<Input> = known
        .iter()
        .zip(&weights)
        .map(|(known, &weight)| Input {
            file: known.opened.file.clone(),
            sha256: known.opened.sha256.clone(),
            weight,
            total_count: known.facts.total_count,
            locked: known.lock.is_some(),
        })
        .collect();
    let locks: Vec<(Option<Lock>, String, f64)> = known
        .into_iter()
        .zip(weights)
        .map(|(known, weight)| (known.lock, known.opened.sha256, weight))
        .collect();
    let lock = Lock::merged(facts.clone(), &locks).write(output)?;
    Ok(MergedProfile { file: output.to_path_buf(), profile: facts, lock, inputs, notes })
}

/// BOLT's note goes with the profile when all inputs have the same; an older one of the output must not stay.
fn keep_note(known: &[Known], output: &Path) -> Result<()> {
    let notes: HashSet<Option<String>> = known
        .iter()
        .map(|known| (known.opened.kind == Kind::Fdata).then(|| note(&known.opened.file)).flatten())
        .map(|note| note.map(|note| note.sha256))
        .collect();
    let path = Origin::note(output);
    let of_first = known.first().and_then(|known| note(&known.opened.file));
    match (notes.len(), of_first.filter(|_| !notes.contains(&None))) {
        (1, Some(first)) => {
            let text = serde_json::to_string_pretty(&Origin { how: "merged".to_owned(), ..first })? + "\n";
            fs::write(&path, text).with_context(|| format!("{} can't be written", path.display()))
        }
        _ => match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("{} can't be removed", path.display()))
            }
            _ => Ok(()),
        },
    }
}

#[cfg(test)]
mod tests {
    use hone_tool::System;

    use super::*;
    use crate::lock::{LockedProgram, LockedTraining};

    fn hash(of: char) -> String {
        of.to_string().repeat(64)
    }

    struct Bench {
        folder: tempfile::TempDir,
        system: System,
    }

    impl Bench {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let system = System::new(folder.path().join("log")).unwrap();
            Self { folder, system }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        /// A profile with a lock that names its build.
        fn locked(&self, name: &str, text: &str, build: char) -> PathBuf {
            let file = self.path(name);
            fs::write(&file, text).unwrap();
            let program =
                LockedProgram { name: "p".to_owned(), sha256: hash(build), ..LockedProgram::default() };
            let training = LockedTraining {
                workload: Some(name.to_owned()),
                seed: Some(7),
                ..LockedTraining::default()
            };
            let keeper = Keeper::new(&self.system, self.folder.path());
            keeper.lock(&file, vec![program], vec![training]).unwrap();
            file
        }

        fn merge(&self, files: &[PathBuf], weights: &Weights, different: bool) -> Result<MergedProfile> {
            let keeper = Keeper::new(&self.system, self.folder.path());
            keeper.merge(files, weights, &self.path("out"), different)
        }
    }

    fn fault(error: &anyhow::Error) -> &KeptFault {
        error.downcast_ref().unwrap_or_else(|| panic!("no fault of a kept profile: {error:#}"))
    }

    #[test]
    fn locks_are_merged_with_the_profiles() {
        let bench = Bench::new();
        let a = bench.locked("a", "1 f 0 1 g 0 0 10\n", 'a');
        let b = bench.locked("b", "1 f 0 1 g 0 0 1\n1 h 0 1 g 0 0 29\n", 'a');
        let files = [a, b];
        let merged = bench.merge(&files, &Weights::Each(vec![3.0, 1.0]), false).unwrap();
        assert_eq!((merged.profile.total_count, merged.profile.functions), (60, 3));
        assert_eq!(fs::read_to_string(&merged.file).unwrap(), "1 f 0 1 g 0 0 31\n1 h 0 1 g 0 0 29\n");
        let lock = Lock::read(&merged.file).unwrap().unwrap();
        let trainings: Vec<(Option<&str>, f64)> =
            lock.trainings.iter().map(|training| (training.workload.as_deref(), training.weight)).collect();
        assert_eq!(trainings, [(Some("a"), 3.0), (Some("b"), 1.0)]);
        assert_eq!((lock.programs.len(), lock.profile), (1, merged.profile));
        assert_eq!(merged.notes, [] as [&str; 0]);

        let shares = bench.merge(&files, &Weights::Shares(vec![0.5, 0.5]), false).unwrap();
        assert_eq!(shares.inputs.iter().map(|input| input.weight).collect::<Vec<_>>(), [1.0, 1.0 / 3.0]);
    }

    #[test]
    fn different_builds_are_refused_unless_told() {
        let bench = Bench::new();
        let files =
            [bench.locked("a", "1 f 0 1 g 0 0 10\n", 'a'), bench.locked("b", "1 f 0 1 g 0 0 1\n", 'b')];
        let error = bench.merge(&files, &Weights::Same, false).unwrap_err();
        assert!(matches!(fault(&error), KeptFault::Builds { .. }), "{error:#}");
        assert!(error.to_string().contains("--different-builds"));
        assert!(!bench.path("out").exists() && !Lock::path(&bench.path("out")).exists());
        let merged = bench.merge(&files, &Weights::Same, true).unwrap();
        assert_eq!(Lock::read(&merged.file).unwrap().unwrap().programs.len(), 2, "both are told");
        let bare = bench.path("bare");
        fs::write(&bare, "1 f 0 1 g 0 0 1\n").unwrap();
        let merged = bench.merge(&[files[0].clone(), bare], &Weights::Same, false).unwrap();
        assert!(merged.notes[0].contains("nothing says which build was trained for"), "{:?}", merged.notes);
    }

    /// Go's profiles name their build, and no hash of it.
    #[test]
    fn builds_that_are_known_by_their_ids_alone_differ_by_them() {
        let taken = |id: &str| Taken { sha256: String::new(), build_id: Some(id.to_owned()) };
        assert!(taken("aa").same(&taken("aa")) && !taken("aa").same(&taken("bb")));
        let reason = same_build(&[taken("aa")], &[taken("bb")]).unwrap_err();
        assert_eq!(reason, "one from build-id aa, the other from build-id bb");
    }

    #[test]
    fn the_note_of_bolt_goes_with_the_profile() {
        let bench = Bench::new();
        let origin = |name: &str, build: char| {
            let file = bench.path(name);
            fs::write(&file, "1 f 0 1 g 0 0 1\n").unwrap();
            let origin =
                Origin { build_id: None, sha256: hash(build), how: "instrumented by BOLT".to_owned() };
            fs::write(Origin::note(&file), serde_json::to_string(&origin).unwrap()).unwrap();
            file
        };
        let (a, b, c) = (origin("a", 'a'), origin("b", 'a'), origin("c", 'c'));
        bench.merge(&[a.clone(), b], &Weights::Same, false).unwrap();
        let kept = note(&bench.path("out")).unwrap();
        assert_eq!((kept.sha256, kept.how.as_str()), (hash('a'), "merged"));
        let error = bench.merge(&[a.clone(), c.clone()], &Weights::Same, false).unwrap_err();
        assert!(matches!(fault(&error), KeptFault::Builds { .. }), "{error:#}");
        bench.merge(&[a, c], &Weights::Same, true).unwrap();
        assert_eq!(note(&bench.path("out")), None, "it would name one of two builds");
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let bench = Bench::new();
        let a = bench.locked("a", "1 f 0 1 g 0 0 10\n", 'a');
        let samples = bench.locked("samples", "no_lbr x\n1 f 0 10\n", 'a');
        let gzip = bench.path("gzip");
        fs::write(&gzip, b"\x1f\x8b\x08").unwrap();
        for other in [samples, gzip] {
            let error = bench.merge(&[a.clone(), other], &Weights::Same, true).unwrap_err();
            assert!(matches!(fault(&error), KeptFault::Kinds { .. }), "{error:#}");
        }
        for weights in [Weights::Each(vec![1.0]), Weights::Each(vec![0.0]), Weights::Each(vec![f64::NAN])] {
            let files = vec![a.clone(); if weights == Weights::Each(vec![1.0]) { 2 } else { 1 }];
            let error = bench.merge(&files, &weights, false).unwrap_err();
            assert!(matches!(fault(&error), KeptFault::Weights(_)), "{error:#}");
        }
        assert!(matches!(
            fault(&bench.merge(&[], &Weights::Same, false).unwrap_err()),
            KeptFault::Weights(_)
        ));
        fs::write(&a, "1 f 0 1 g 0 0 11\n").unwrap();
        let error = bench.merge(&[a], &Weights::Same, false).unwrap_err();
        assert!(error.to_string().contains("is not the profile that its lock describes"), "{error:#}");
    }

    #[test]
    fn builds_of_llvm_are_told_by_hashes_of_control_flow() {
        let of = |functions: &[(&str, u64)]| {
            Functions(functions.iter().map(|&(name, hash)| (name.to_owned(), hash)).collect())
        };
        let a = of(&[("f", 1), ("g", 2), ("h", 3)]);
        assert_eq!(a.same(&of(&[("f", 1), ("g", 2), ("h", 3)])), Ok(()));
        assert_eq!(a.same(&of(&[("f", 1)])), Ok(()), "sparse");
        assert!(
            a.same(&of(&[("f", 1), ("g", 9), ("h", 3)]))
                .unwrap_err()
                .contains("differs in 1 of 3 functions, in g for one")
        );
        assert!(a.same(&of(&[("f", 1), ("x", 9), ("y", 3)])).unwrap_err().contains("only 1 of 3 functions"));
    }

    #[test]
    fn weights_that_are_too_far_apart_are_told() {
        assert_eq!(whole(&[20.0, 1e-4]).unwrap(), [200_000, 1]);
        assert!(matches!(whole(&[2e6, 1.0]), Err(KeptFault::Weights(_))));
    }

    #[test]
    fn a_sum_that_is_short_of_its_parts_is_refused_with_any_weights() {
        let facts = |total_count, max_count| LockedProfile {
            kind: Kind::Fdata,
            sha256: hash('a'),
            bytes: 1,
            level: "branches".to_owned(),
            functions: 1,
            total_count,
            max_count,
        };
        let check = |kind, weights: [f64; 2], total, rounding: Rounding| {
            prove_sum(kind, &[1_000, 600], &weights, &facts(total, 9), &rounding)
                .map_err(|error| error.to_string())
        };
        let none = Rounding::default;
        let of_ten = || Rounding { slack: 10.0, clipped: 0 };
        check(Kind::Profdata, [3.0, 1.0], 3_600, none()).unwrap();
        let short = check(Kind::Profdata, [3.0, 1.0], 3_599, none()).unwrap_err();
        assert!(short.contains("something was left out"), "{short}");
        // A tenth of the second is 60; ten records may have been rounded.
        for total in [1_050, 1_060, 1_070] {
            check(Kind::Fdata, [1.0, 0.1], total, of_ten()).unwrap();
        }
        for (kind, total) in [(Kind::Fdata, 1_000), (Kind::Pprof, 1_071), (Kind::Fdata, 1_049)] {
            let off = check(kind, [1.0, 0.1], total, of_ten()).unwrap_err();
            assert!(off.contains("and its parts have 1060: something was left out"), "{off}");
        }
        check(Kind::Fdata, [1.0, 1e6], 5, Rounding { slack: 1.0, clipped: 1 }).unwrap();
        let full = prove_sum(Kind::Profdata, &[u64::MAX / 2], &[4.0], &facts(u64::MAX, u64::MAX), &none());
        assert!(full.unwrap_err().to_string().contains("the end of its type"));
    }
}

//! Merges profiles of one program, each with its weight.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hone_tool::{Call, ToolError};
use serde::Serialize;

use super::fault::StoreFault;
use super::format::{StoredFormat, kind_of};
use super::keeper::Keeper;
use super::opened::{Contents, Opened, Taken, note};
use super::profdata;
use crate::bolt::Origin;
use crate::bolt::fdata;
use crate::go;
use crate::lock::{Lock, LockedProfile};
use crate::profdata::{MOST_ARGUMENTS, list_of};
use crate::profile;
use crate::weights::{nearly_whole_ratio, whole_ratio};

/// With a larger ratio between the largest and the smallest weight, the smaller profile has no effect.
const MOST_APART: f64 = 1e12;

/// For two builds of one program, this share of the functions of the one with fewer must be in the other: the rule of the check that a
/// profile belongs to its program.
const LEAST_COMMON_PERCENT: usize = 90;

/// One input of a merge.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Input {
    /// The file.
    pub file: PathBuf,
    /// SHA-256, hex.
    pub sha256: String,
    /// The factor of its counts.
    pub weight: f64,
    /// Sum of its counts before that.
    pub total_count: u64,
    /// Whether it had a lock.
    pub locked: bool,
}

/// The weights of the profiles.
#[derive(Debug, Clone, PartialEq)]
pub enum Weights {
    /// Equal weights: counts are added up unchanged.
    Same,
    /// A separate factor for each.
    Each(Vec<f64>),
    /// Each gets this share of the sum, however long its training was.
    Shares(Vec<f64>),
}

/// The result of a merge.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MergedProfile {
    /// The new profile.
    pub file: PathBuf,
    /// Its facts.
    pub profile: LockedProfile,
    /// Its lock.
    pub lock: PathBuf,
    /// The inputs, in order.
    pub inputs: Vec<Input>,
    /// Further notes.
    pub notes: Vec<String>,
}

/// The facts about an input; its contents are not kept.
struct Known {
    opened: Opened,
    facts: LockedProfile,
    /// Sums of its counts; for Go one for each type of value.
    sums: Vec<i128>,
    lock: Option<Lock>,
    taken: Vec<Taken>,
}

impl Keeper<'_> {
    /// Merges profiles of one kind into a new file with its lock. One profile at a time is in memory, together with the sum for BOLT and
    /// Go, and with the names for LLVM.
    ///
    /// # Errors
    /// Fails when one can't be read or has no counts, when kinds differ, when builds differ and `different_builds` does not allow it, when
    /// weights are invalid, and when the sum is wrong. Then there is no output.
    pub fn merge(
        &self,
        files: &[PathBuf],
        weights: &Weights,
        output: &Path,
        different_builds: bool,
    ) -> Result<MergedProfile> {
        let known = self.known(files, different_builds)?;
        let Some(first) = known.first() else {
            return Err(StoreFault::Weights("no profile was given".to_owned()).into());
        };
        let weights = weights.for_profiles(first.opened.kind, &known)?;
        let part = part_of(output)?;
        let merged = match first.opened.kind {
            StoredFormat::Profdata => self.merge_llvm(&known, &weights, &part).map(|()| Rounding::default()),
            StoredFormat::Fdata => merge_bolt(&known, &weights, &part),
            StoredFormat::Pprof => merge_go(&known, &weights, &part),
        };
        let made = merged.and_then(|rounding| {
            let weights: Vec<f64> = weights.iter().map(|weight| times(*weight, rounding.factor)).collect();
            let merged = self.open(&part)?;
            let parts = known.iter().map(|known| known.sums.as_slice()).zip(weights.iter().copied());
            prove_sum(&merged.facts(), &merged.sums(), &parts.collect::<Vec<_>>(), &rounding)?;
            let lock = lock_of(&known, &weights, merged.facts());
            lock.writable(output)?;
            fs::rename(&part, output).with_context(|| format!("{} can't be written", output.display()))?;
            Ok((weights, lock, rounding.clipped))
        });
        let (weights, lock, clipped) = made.inspect_err(|_| drop(fs::remove_file(&part)))?;
        finish(known, weights, &lock, output, clipped)
    }

    /// Reads all inputs, one at a time, and refuses those that do not belong together.
    fn known(&self, files: &[PathBuf], different_builds: bool) -> Result<Vec<Known>> {
        let mut known: Vec<Known> = Vec::new();
        let mut functions = Functions::default();
        for file in files {
            // The kind is known before anything is read completely.
            if let Some(first) = known.first() {
                let (kind, _) = kind_of(file)?;
                same_kind(file, kind, first)?;
            }
            let mut opened = self.open(file)?;
            opened.counted()?;
            if let Some(first) = known.first() {
                opened.like(&first.opened)?;
            }
            let (facts, sums) = (opened.facts(), opened.sums());
            let (lock, taken) = (opened.lock()?, opened.builds()?);
            if !different_builds {
                one_build(&opened, &taken, &known, &mut functions)?;
            }
            opened.contents = opened.contents.head();
            known.push(Known { opened, facts, sums, lock, taken });
        }
        Ok(known)
    }

    /// By llvm-profdata: the newest one whose output format is no newer than the inputs', because the compiler that made them reads no
    /// newer one.
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
                // Older than the inputs need; the error names the problem with the newer one.
                Err(ToolError::Failed { .. }) if last.is_some() => break,
                Err(error) => return Err(error.into()),
            }
            let (_, written) = kind_of(output)?;
            if wanted.is_none() || written <= wanted {
                return Ok(());
            }
            last = Some(anyhow::anyhow!(
                "{} ({}) writes version {} of the format, but the compiler that made these profiles reads \
                 up to {}\n  next: install the LLVM of that compiler, or set HONE_LLVM_PROFDATA to its \
                 llvm-profdata",
                tool.path.display(),
                tool.receipt.version,
                written.unwrap_or(0),
                wanted.unwrap_or(0)
            ));
        }
        Err(last.unwrap_or_else(|| StoreFault::NoTool.into()))
    }

    /// Profiles with their weights for llvm-profdata: as arguments, or, if a command line can't hold them all, in a list file.
    fn inputs_of_llvm(&self, known: &[Known], weights: &[f64]) -> Result<Vec<OsString>> {
        let weighted = known
            .iter()
            .zip(weights)
            .map(|(known, weight)| (profdata::absolute(&known.opened.file), *weight as u64));
        if known.len() <= MOST_ARGUMENTS {
            let option = |(file, weight): (PathBuf, u64)| {
                let mut option = OsString::from(format!("--weighted-input={weight},"));
                option.push(file);
                option
            };
            return Ok(weighted.map(option).collect());
        }
        let list = profdata::absolute(&self.scratch.join("inputs.txt"));
        let text = list_of(&weighted.collect::<Vec<_>>()).map_err(anyhow::Error::msg)?;
        fs::write(&list, text).with_context(|| format!("{} can't be written", list.display()))?;
        let mut option = OsString::from("--input-files=");
        option.push(list);
        Ok(vec![option])
    }
}

fn same_kind(file: &Path, kind: StoredFormat, first: &Known) -> Result<(), StoreFault> {
    if kind == first.opened.kind {
        return Ok(());
    }
    Err(StoreFault::Kinds {
        file: file.to_path_buf(),
        here: kind.to_string(),
        other: first.opened.file.clone(),
        there: first.opened.kind.to_string(),
    })
}

/// Refuses a profile of another build than those before it, as far as their builds are known.
fn one_build(
    opened: &Opened,
    taken: &[Taken],
    known: &[Known],
    functions: &mut Functions,
) -> Result<(), StoreFault> {
    let differs = |from: usize, reason: String| StoreFault::Builds {
        file: opened.file.clone(),
        other: known[from].opened.file.clone(),
        reason,
    };
    if let Contents::Profdata(profile) = &opened.contents {
        return functions.add(profile, known.len()).map_err(|(from, reason)| differs(from, reason));
    }
    match known.iter().position(|known| !known.taken.is_empty()) {
        Some(from) => same_build(taken, &known[from].taken).map_err(|reason| differs(from, reason)),
        None => Ok(()),
    }
}

/// Names and hashes of control flow in the LLVM profiles so far: the compiler's identity of builds. A sparse profile leaves out functions
/// that did not run, so each may know functions that those before it lack.
#[derive(Default)]
struct Functions(BTreeMap<String, Flow>);

/// Hashes of control flow under one name.
#[derive(Default)]
struct Flow {
    hashes: BTreeSet<u64>,
    /// The first profile with the name.
    from: usize,
}

impl Functions {
    /// Adds the functions of the profile `at`, after a comparison with those before it: every name must have the same hashes in both, and
    /// nearly all functions of the side with fewer must be on the other. A difference names the profile that it differs from.
    fn add(&mut self, profile: &profile::Profile, at: usize) -> Result<(), (usize, String)> {
        let mut here: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
        for function in &profile.functions {
            here.entry(&function.name).or_default().insert(function.hash);
        }
        if !self.0.is_empty() {
            self.same(&here)?;
        }
        for (name, hashes) in here {
            match self.0.get_mut(name) {
                Some(flow) => flow.hashes.extend(hashes),
                None => drop(self.0.insert(name.to_owned(), Flow { hashes, from: at })),
            }
        }
        Ok(())
    }

    fn same(&self, here: &BTreeMap<&str, BTreeSet<u64>>) -> Result<(), (usize, String)> {
        let (mut in_both, mut changed) = (0_usize, Vec::new());
        for (name, hashes) in here {
            let Some(flow) = self.0.get(*name) else { continue };
            in_both += 1;
            if flow.hashes.is_disjoint(hashes) {
                changed.push((flow.from, *name));
            }
        }
        if let Some((from, one)) = changed.first() {
            let name = hone_record::without_hash(profile::symbol_of(one));
            let all = changed.len();
            let reason =
                format!("control flow differs in {all} of {in_both} functions, for example in {name}");
            return Err((*from, reason));
        }
        let fewer = here.len().min(self.0.len());
        if in_both * 100 < fewer * LEAST_COMMON_PERCENT {
            return Err((0, format!("only {in_both} of {fewer} functions are in both")));
        }
        Ok(())
    }
}

/// Known builds without a common one differ.
fn same_build(here: &[Taken], there: &[Taken]) -> Result<(), String> {
    if here.is_empty() || there.is_empty() || here.iter().any(|one| there.iter().any(|other| one.same(other)))
    {
        return Ok(());
    }
    let name = |taken: &Taken| match &taken.build_id {
        Some(build_id) => format!("build-id {build_id}"),
        None => format!("SHA-256 {}", taken.sha256.get(..16).unwrap_or(&taken.sha256)),
    };
    Err(format!("one is from {}, the other from {}", name(&here[0]), name(&there[0])))
}

impl Weights {
    fn for_profiles(&self, kind: StoredFormat, known: &[Known]) -> Result<Vec<f64>, StoreFault> {
        let totals: Vec<u64> = known.iter().map(|known| known.facts.total_count).collect();
        let (given, what) = match self {
            Self::Same => return Ok(vec![1.0; totals.len()]),
            Self::Each(weights) => (weights, "weights"),
            Self::Shares(shares) => (shares, "shares"),
        };
        if given.len() != totals.len() {
            return Err(StoreFault::Weights(format!("{} profiles but {} {what}", totals.len(), given.len())));
        }
        if let Some(wrong) =
            given.iter().find(|weight| !(weight.is_finite() && (1e-6..=1e6).contains(*weight)))
        {
            return Err(StoreFault::Weights(format!(
                "{wrong} is not one of the {what} between 0.000001 and 1000000"
            )));
        }
        match (self, kind) {
            (Self::Shares(shares), _) => weights_for_shares(kind, &totals, shares).map_err(|apart| {
                StoreFault::Apart { file: known[apart.at].opened.file.clone(), reason: apart.reason }
            }),
            (_, StoredFormat::Profdata) => {
                in_their_type(whole_ratio(given), &totals).map_err(StoreFault::Weights)
            }
            _ => Ok(given.clone()),
        }
    }
}

/// The profile that can't have its share, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Apart {
    /// Its index.
    pub at: usize,
    /// Why, in words.
    pub reason: String,
}

/// Weights with which each profile gets its share of the sum. The largest is 1; those of LLVM are whole numbers, the smallest ones in these
/// proportions.
///
/// # Errors
/// [`Apart`]: the profile with the fewest counts for its share, if they are too few compared with those of others.
pub fn weights_for_shares(kind: StoredFormat, totals: &[u64], shares: &[f64]) -> Result<Vec<f64>, Apart> {
    let Some(weights) = fdata::weights_for_shares(totals, shares) else {
        let at = totals.iter().position(|total| *total == 0).unwrap_or(0);
        return Err(Apart { at, reason: "a share needs counts above 0".to_owned() });
    };
    let by_weight = |a: &usize, b: &usize| weights[*a].total_cmp(&weights[*b]);
    let most = (0..weights.len()).max_by(by_weight).unwrap_or(0);
    let least = (0..weights.len()).min_by(by_weight).unwrap_or(0);
    let apart = weights[most] / weights[least];
    let differ = |reason: String| {
        let few = format!("it has {} counts, and another profile has {}", totals[most], totals[least]);
        Apart {
            at: most,
            reason: format!("{few}, each of them with {apart:.1e} times less weight: {reason}"),
        }
    };
    if apart > MOST_APART {
        return Err(differ(format!("a merge allows at most {MOST_APART:.0e}")));
    }
    match kind {
        StoredFormat::Profdata => in_their_type(nearly_whole_ratio(&weights), totals).map_err(differ),
        StoredFormat::Fdata | StoredFormat::Pprof => Ok(weights),
    }
}

/// Refuses weights with which the sum of LLVM's counts would overflow.
fn in_their_type(weights: Vec<u64>, totals: &[u64]) -> Result<Vec<f64>, String> {
    let products = weights.iter().zip(totals).map(|(&weight, &total)| u128::from(weight) * u128::from(total));
    let sum = products.fold(0, u128::saturating_add);
    if sum > u128::from(u64::MAX) {
        return Err(format!(
            "llvm-profdata takes only whole weights, here up to {}, and the sum of the counts would be \
             {:.1e}, above its limit",
            weights.iter().max().unwrap_or(&1),
            sum as f64
        ));
    }
    Ok(weights.into_iter().map(|weight| weight as f64).collect())
}

/// A file next to the output, which gets the name after the verification.
fn part_of(output: &Path) -> Result<PathBuf> {
    let name = output.file_name().filter(|_| !output.is_dir());
    let name = name.with_context(|| format!("{} is a folder: name the new profile", output.display()))?;
    Ok(output.with_file_name(format!(".{}.{}.part", name.to_string_lossy(), std::process::id())))
}

/// A weight times the factor that should make it whole, without floating-point noise in the last digit.
fn times(weight: f64, factor: f64) -> f64 {
    let product = weight * factor;
    let whole = product.round();
    if (product - whole).abs() < 1e-9 * product { whole } else { product }
}

/// How far the sum of a merge may differ from that of its parts, and why.
#[derive(Debug)]
struct Rounding {
    /// Counts that were rounded to whole ones, each by a half, or by up to 1 if it would become 0.
    rounded: f64,
    /// The possible error of a weight.
    weight_off: f64,
    /// Counts that would exceed the format's limit, and were set to it.
    clipped: u64,
    /// All weights were multiplied by this.
    factor: f64,
}

impl Default for Rounding {
    /// Nothing was rounded.
    fn default() -> Self {
        Self { rounded: 0.0, weight_off: 0.0, clipped: 0, factor: 1.0 }
    }
}

fn merge_bolt(known: &[Known], weights: &[f64], output: &Path) -> Result<Rounding> {
    let files: Vec<fdata::Weighted> = known
        .iter()
        .zip(weights)
        .map(|(known, &weight)| fdata::Weighted { file: known.opened.file.clone(), weight })
        .collect();
    let merged = fdata::merge(&files, output)?;
    Ok(Rounding {
        rounded: merged.records as f64,
        weight_off: 0.5_f64.powi(merged.weight_bits as i32 + 1),
        clipped: merged.clipped,
        ..Rounding::default()
    })
}

fn merge_go(known: &[Known], weights: &[f64], output: &Path) -> Result<Rounding> {
    let mut merger = go::Merger::new();
    for (known, &weight) in known.iter().zip(weights) {
        let file = &known.opened.file;
        let profile = go::read_profile(file)?;
        let added = merger.add(&profile, weight).map_err(anyhow::Error::msg);
        added.with_context(|| format!("{} can't be merged", file.display()))?;
    }
    let (merged, factor) = merger.finish_scaled().map_err(anyhow::Error::msg)?;
    fs::write(output, merged.to_bytes()).with_context(|| format!("{} can't be written", output.display()))?;
    let exact = weights.iter().all(|&weight| times(weight, factor).fract() == 0.0);
    let rounded = if exact { 0.0 } else { merged.samples.len() as f64 };
    Ok(Rounding { rounded, weight_off: go::WEIGHT_OFF * factor, clipped: 0, factor })
}

/// The sum of the result must be that of the inputs, each times its weight; a tool that leaves out what it can't add exits with 0. If
/// counts were rounded, the sum may differ by that effect, and by no more. For Go this applies to each type of value: the compiler uses the
/// number of samples, people read times.
fn prove_sum(
    merged: &LockedProfile,
    sums: &[i128],
    parts: &[(&[i128], f64)],
    rounding: &Rounding,
) -> Result<()> {
    sums.iter().enumerate().try_for_each(|(at, &found)| {
        let of = |sums: &[i128]| sums.get(at).map_or(0.0, |&sum| sum as f64);
        let expected: f64 = parts.iter().map(|(sums, weight)| of(sums) * weight).sum();
        let counted: f64 = parts.iter().map(|(sums, _)| of(sums).abs()).sum();
        let slack = rounding.rounded + counted * rounding.weight_off;
        prove_one(merged, found as f64, expected, slack, rounding.clipped)
    })
}

fn prove_one(merged: &LockedProfile, found: f64, expected: f64, slack: f64, clipped: u64) -> Result<()> {
    /// Beyond 2^53 the sum itself is rounded here.
    const OF_FLOATS: f64 = 1e-9;
    // Counts at the limit are smaller than they should be; a note reports it.
    if (found - expected).abs() <= expected.abs() * OF_FLOATS + slack || clipped > 0 {
        return Ok(());
    }
    let kind = merged.kind;
    let sums = format!("the merged {kind} has the sum {found:.0}, but its parts have {expected:.0}");
    let full = match kind {
        // LLVM's limit; its last numbers have other meanings.
        StoredFormat::Profdata => merged.max_count >= u64::MAX - 8 || expected >= u64::MAX as f64,
        StoredFormat::Fdata => expected >= u64::MAX as f64,
        StoredFormat::Pprof => expected.abs() >= i64::MAX as f64,
    };
    if full {
        anyhow::bail!(
            "{sums}: a counter has overflowed\n  next: use smaller weights in the same ratio, or a shorter \
             training"
        );
    }
    anyhow::bail!(
        "{sums}: the merge left out a part\n  next: merge only profiles of one build; look at each with \
         `hone profile show`"
    )
}

/// The lock of the result: every training with its weight.
fn lock_of(known: &[Known], weights: &[f64], facts: LockedProfile) -> Lock {
    let locks: Vec<(Option<Lock>, String, f64)> = known
        .iter()
        .zip(weights)
        .map(|(known, &weight)| (known.lock.clone(), known.opened.sha256.clone(), weight))
        .collect();
    Lock::merged(facts, &locks)
}

fn finish(
    known: Vec<Known>,
    weights: Vec<f64>,
    lock: &Lock,
    output: &Path,
    clipped: u64,
) -> Result<MergedProfile> {
    let facts = lock.profile.clone();
    let unknown: Vec<&Known> = known.iter().filter(|known| known.taken.is_empty()).collect();
    let mut notes = Vec::new();
    if clipped > 0 {
        notes.push(format!(
            "{clipped} counts exceed the largest number that BOLT reads, so Hone wrote that number"
        ));
    }
    if known.len() > 1 && !unknown.is_empty() && facts.kind != StoredFormat::Profdata {
        let names: Vec<String> =
            unknown.iter().map(|known| known.opened.file.display().to_string()).collect();
        notes.push(format!("no lock or note names the trained build of {}", names.join(", ")));
    }
    keep_note(&known, output)?;
    let inputs: Vec<Input> = known
        .into_iter()
        .zip(weights)
        .map(|(known, weight)| Input {
            file: known.opened.file,
            sha256: known.opened.sha256,
            weight,
            total_count: known.facts.total_count,
            locked: known.lock.is_some(),
        })
        .collect();
    let lock = lock.write(output)?;
    Ok(MergedProfile { file: output.to_path_buf(), profile: facts, lock, inputs, notes })
}

/// BOLT's note stays with the profile if all inputs have the same one; an older note of the output must not stay.
fn keep_note(known: &[Known], output: &Path) -> Result<()> {
    let notes: HashSet<Option<String>> = known
        .iter()
        .map(|known| (known.opened.kind == StoredFormat::Fdata).then(|| note(&known.opened.file)).flatten())
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

    fn fault(error: &anyhow::Error) -> &StoreFault {
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
        assert!(matches!(fault(&error), StoreFault::Builds { .. }), "{error:#}");
        assert!(error.to_string().contains("--different-builds"));
        assert!(!bench.path("out").exists() && !Lock::path(&bench.path("out")).exists());
        let merged = bench.merge(&files, &Weights::Same, true).unwrap();
        assert_eq!(Lock::read(&merged.file).unwrap().unwrap().programs.len(), 2, "both are listed");
        let bare = bench.path("bare");
        fs::write(&bare, "1 f 0 1 g 0 0 1\n").unwrap();
        let merged = bench.merge(&[files[0].clone(), bare], &Weights::Same, false).unwrap();
        assert!(merged.notes[0].contains("no lock or note names the trained build of"), "{:?}", merged.notes);
    }

    /// Go's profiles name their build, and no hash of it.
    #[test]
    fn builds_that_are_known_by_their_ids_alone_differ_by_them() {
        let taken = |id: &str| Taken { sha256: String::new(), build_id: Some(id.to_owned()) };
        assert!(taken("aa").same(&taken("aa")) && !taken("aa").same(&taken("bb")));
        let reason = same_build(&[taken("aa")], &[taken("bb")]).unwrap_err();
        assert_eq!(reason, "one is from build-id aa, the other from build-id bb");
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
        assert!(matches!(fault(&error), StoreFault::Builds { .. }), "{error:#}");
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
            assert!(matches!(fault(&error), StoreFault::Kinds { .. }), "{error:#}");
        }
        for weights in [Weights::Each(vec![1.0]), Weights::Each(vec![0.0]), Weights::Each(vec![f64::NAN])] {
            let files = vec![a.clone(); if weights == Weights::Each(vec![1.0]) { 2 } else { 1 }];
            let error = bench.merge(&files, &weights, false).unwrap_err();
            assert!(matches!(fault(&error), StoreFault::Weights(_)), "{error:#}");
        }
        assert!(matches!(
            fault(&bench.merge(&[], &Weights::Same, false).unwrap_err()),
            StoreFault::Weights(_)
        ));
        fs::write(&a, "1 f 0 1 g 0 0 11\n").unwrap();
        let error = bench.merge(&[a], &Weights::Same, false).unwrap_err();
        assert!(error.to_string().contains("is not the profile that its lock describes"), "{error:#}");
    }

    /// Adds profiles of LLVM with these functions one after the other.
    fn added(profiles: &[&[(&str, u64)]]) -> Result<(), (usize, String)> {
        let mut functions = Functions::default();
        profiles.iter().enumerate().try_for_each(|(at, of)| {
            let text: String = of.iter().map(|(name, hash)| format!("{name}\n{hash}\n1\n5\n\n")).collect();
            functions.add(&profile::Profile::parse(&text).unwrap(), at)
        })
    }

    #[test]
    fn builds_of_llvm_are_told_by_hashes_of_control_flow() {
        let a: &[(&str, u64)] = &[("f", 1), ("g", 2), ("h", 3)];
        assert_eq!(added(&[a, a]), Ok(()));
        assert_eq!(added(&[a, &[("f", 1)]]), Ok(()), "sparse");
        let (from, reason) = added(&[a, &[("f", 1), ("g", 9), ("h", 3)]]).unwrap_err();
        assert_eq!(
            (from, reason.as_str()),
            (0, "control flow differs in 1 of 3 functions, for example in g")
        );
        let (_, reason) = added(&[a, &[("f", 1), ("x", 9), ("y", 3)]]).unwrap_err();
        assert!(reason.contains("only 1 of 3 functions"), "{reason}");
    }

    /// The first says next to nothing of its build; the two behind it are of two.
    #[test]
    fn a_sparse_profile_does_not_speak_for_those_behind_it() {
        let sparse: &[(&str, u64)] = &[("main", 1)];
        let one: &[(&str, u64)] = &[("main", 1), ("g", 2)];
        let other: &[(&str, u64)] = &[("main", 1), ("g", 9)];
        assert_eq!(added(&[sparse, one]), Ok(()));
        assert_eq!(added(&[sparse, other]), Ok(()));
        let (from, reason) = added(&[sparse, one, other]).unwrap_err();
        assert!(
            from == 1 && reason.contains("for example in g"),
            "the error names the profile that differs: {from} {reason}"
        );
    }

    #[test]
    fn a_profile_of_an_unknown_build_does_not_speak_for_those_behind_it() {
        let bench = Bench::new();
        let bare = bench.path("bare");
        fs::write(&bare, "1 f 0 1 g 0 0 1\n").unwrap();
        let of = |name: &str, build: char| bench.locked(name, "1 f 0 1 g 0 0 10\n", build);
        let (a, also_a, b) = (of("a", 'a'), of("also_a", 'a'), of("b", 'b'));
        bench.merge(&[bare.clone(), a.clone(), also_a], &Weights::Same, false).unwrap();
        let error = bench.merge(&[bare, a.clone(), b.clone()], &Weights::Same, false).unwrap_err();
        let StoreFault::Builds { file, other, .. } = fault(&error) else { panic!("{error:#}") };
        assert_eq!((file, other), (&b, &a));
    }

    #[test]
    fn a_share_can_be_had_by_profiles_that_are_far_apart() {
        let bench = Bench::new();
        let files = [
            bench.locked("long", "1 f 0 1 g 0 0 5000000000\n", 'a'),
            bench.locked("short", "1 f 0 1 h 0 0 4000\n", 'a'),
        ];
        let halves = Weights::Shares(vec![0.5, 0.5]);
        let merged = bench.merge(&files, &halves, false).unwrap();
        assert_eq!(fs::read_to_string(&merged.file).unwrap(), "1 f 0 1 g 0 0 4000\n1 f 0 1 h 0 0 4000\n");
        let files = [files[0].clone(), bench.locked("longest", "1 f 0 1 g 0 0 9000000000000000000\n", 'a')];
        bench.merge(&files, &halves, false).unwrap();
        let files = [files[1].clone(), bench.locked("least", "1 f 0 1 h 0 0 4\n", 'a')];
        let error = bench.merge(&files, &halves, false).unwrap_err();
        let StoreFault::Apart { file, reason } = fault(&error) else { panic!("{error:#}") };
        assert_eq!(file, &files[1]);
        assert!(
            reason.starts_with("it has 4 counts, and another profile has 9000000000000000000"),
            "{reason}"
        );
        assert!(error.to_string().contains("next: leave it out"), "{error:#}");
    }

    /// Each time the profile of the day before is merged with a new one.
    #[test]
    fn a_profile_of_llvm_takes_in_a_new_one_again_and_again() {
        let mut kept = 3_340_569_523_u64;
        for day in 0..30 {
            let new = 1_834_676_138 + day * 71_993_311;
            let weights = weights_for_shares(StoredFormat::Profdata, &[kept, new], &[0.7, 0.3]).unwrap();
            let [of_kept, of_new] =
                [(kept, weights[0]), (new, weights[1])].map(|(sum, weight)| sum as f64 * weight);
            assert!((of_kept / (of_kept + of_new) - 0.7).abs() < 0.001, "{day}: {weights:?}");
            kept = (of_kept + of_new) as u64;
        }
        let full = weights_for_shares(StoredFormat::Profdata, &[u64::MAX / 2, 1_000_000_000], &[0.3, 0.7])
            .unwrap_err();
        assert_eq!(full.at, 1);
        assert!(full.reason.contains("only whole weights"), "{}", full.reason);
        let given = in_their_type(whole_ratio(&[20.0, 1e-4]), &[1_000, 1_000]).unwrap();
        assert_eq!(given, [200_000.0, 1.0]);
        assert!(in_their_type(vec![1 << 20, 1], &[u64::MAX >> 10, 1]).is_err());
    }

    /// Most stacks of a profile of Go were seen once.
    #[test]
    fn what_go_takes_first_keeps_its_share() {
        let bench = Bench::new();
        let write = |name: &str, stacks: &[(&str, i64)]| {
            let mut profile = go::profile_of_kind("samples", "count", stacks);
            profile.sample_types.push(go::ValueType { kind: "cpu".into(), unit: "nanoseconds".into() });
            profile.samples.iter_mut().for_each(|sample| sample.values.push(sample.values[0] * 10_000_000));
            let file = bench.path(name);
            fs::write(&file, profile.to_bytes()).unwrap();
            file
        };
        let stacks: Vec<String> = (0..50).map(|at| format!("main.main:1>main.f{at}:2")).collect();
        let all = |value: i64| stacks.iter().map(|stack| (stack.as_str(), value)).collect::<Vec<_>>();
        let files = [write("busy", &[("main.main:1>main.busy:2", 1_000)]), write("idle", &all(1))];
        for weights in
            [Weights::Each(vec![1.0, 0.3]), Weights::Shares(vec![0.5, 0.5]), Weights::Shares(vec![0.9, 0.1])]
        {
            let merged = bench.merge(&files, &weights, false).unwrap();
            let sums = Keeper::new(&bench.system, bench.folder.path()).open(&merged.file).unwrap().sums();
            let [busy, idle] = [0, 1].map(|at: usize| merged.inputs[at].weight * [1_000.0, 50.0][at]);
            assert_eq!(sums[0] as f64, busy + idle, "{weights:?}");
            assert_eq!(sums[1], sums[0] * 10_000_000, "{weights:?}");
            let asked = match &weights {
                Weights::Each(weights) => weights[1] / weights[0] * 50.0 / 1_000.0,
                Weights::Shares(shares) => shares[1] / shares[0],
                Weights::Same => unreachable!(),
            };
            assert!((idle / busy / asked - 1.0).abs() < 1e-9, "{weights:?}: {idle} to {busy}");
        }
    }

    #[test]
    fn a_sum_that_is_short_of_its_parts_is_refused_with_any_weights() {
        let facts = |total_count, max_count| LockedProfile {
            kind: StoredFormat::Fdata,
            sha256: hash('a'),
            bytes: 1,
            level: "branches".to_owned(),
            functions: 1,
            total_count,
            max_count,
        };
        let check = |kind, weights: [f64; 2], total: u64, rounding: Rounding| {
            let parts: [(&[i128], f64); 2] = [(&[1_000], weights[0]), (&[600], weights[1])];
            let merged = LockedProfile { kind, ..facts(total, 9) };
            prove_sum(&merged, &[total.into()], &parts, &rounding).map_err(|error| error.to_string())
        };
        let none = Rounding::default;
        let of_ten = || Rounding { rounded: 10.0, ..none() };
        check(StoredFormat::Profdata, [3.0, 1.0], 3_600, none()).unwrap();
        let short = check(StoredFormat::Profdata, [3.0, 1.0], 3_599, none()).unwrap_err();
        assert!(short.contains("the merge left out a part"), "{short}");
        // A tenth of the second is 60; ten records may have been rounded.
        for total in [1_050, 1_060, 1_070] {
            check(StoredFormat::Fdata, [1.0, 0.1], total, of_ten()).unwrap();
        }
        for (kind, total) in
            [(StoredFormat::Fdata, 1_000), (StoredFormat::Pprof, 1_071), (StoredFormat::Fdata, 1_049)]
        {
            let off = check(kind, [1.0, 0.1], total, of_ten()).unwrap_err();
            assert!(off.contains("but its parts have 1060: the merge left out a part"), "{off}");
        }
        check(StoredFormat::Fdata, [1.0, 1e6], 5, Rounding { rounded: 1.0, clipped: 1, ..none() }).unwrap();
        let full = LockedProfile { kind: StoredFormat::Profdata, ..facts(u64::MAX, u64::MAX) };
        let parts: [(&[i128], f64); 1] = [(&[i128::from(u64::MAX / 2)], 4.0)];
        let full = prove_sum(&full, &[u64::MAX.into()], &parts, &none());
        assert!(full.unwrap_err().to_string().contains("a counter has overflowed"));
        // The second type of value is looked at as the first is.
        let of_go = LockedProfile { kind: StoredFormat::Pprof, ..facts(7, 7) };
        let parts: [(&[i128], f64); 1] = [(&[7, 100], 1.0)];
        prove_sum(&of_go, &[7, 100], &parts, &none()).unwrap();
        assert!(prove_sum(&of_go, &[7, 99], &parts, &none()).is_err());
        assert!(prove_sum(&of_go, &[0, 100], &parts, &none()).is_err());
    }
}

//! Merges and reads LLVM profiles by the compiler's own llvm-profdata.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hone_record::{HotFunction, ProfileProof};
use hone_tool::{Call, Lack, Runner, ToolError};

use crate::built::Merged;
use crate::capture::Tally;
use crate::digest::short;
use crate::elf::sha256_hex;
use crate::profile::Profile;
use crate::refusal::{Refusal, refuse_if};
use crate::weights::whole_weights;

/// With a path of 4,096 bytes each, this number is far below Linux's limit for a command line (2 MiB by default).
pub(crate) const MOST_ARGUMENTS: usize = 100;

/// Profiles with their weights in llvm-profdata's list format: one per line.
///
/// # Errors
/// In words, if a path can't be in a list.
pub(crate) fn list_of(profiles: &[(PathBuf, u64)]) -> Result<Vec<u8>, String> {
    let mut list = Vec::new();
    for (path, weight) in profiles {
        let name = path.as_os_str().as_bytes();
        if name.contains(&b'\n') {
            return Err(format!(
                "{} has a line break in its name, so a list can't contain it",
                path.display()
            ));
        }
        // After a weight, a comma belongs to the path.
        list.extend_from_slice(format!("{weight},").as_bytes());
        list.extend_from_slice(name);
        list.push(b'\n');
    }
    Ok(list)
}

/// Merges the profiles of a list.
fn merge_listed(profdata: &Path, work: &Path, list: &Path, samples: bool, into: &Path) -> Call {
    let mut word = OsString::from("--input-files=");
    word.push(list);
    merging(profdata, work, samples, into).arg(word).produces(into)
}

fn merging(profdata: &Path, work: &Path, samples: bool, into: &Path) -> Call {
    let call = Call::new("merge-profile", profdata, work).arg("merge");
    let call = if samples { call.arg("--sample") } else { call };
    call.arg("-o").arg(into)
}

/// Merges profiles with these weights. At most [`MOST_ARGUMENTS`].
fn merge(profdata: &Path, work: &Path, profiles: &[(PathBuf, u64)], samples: bool, into: &Path) -> Call {
    let weighted = profiles.iter().map(|(path, weight)| match weight {
        1 => path.clone().into_os_string(),
        weight => {
            let mut word = OsString::from(format!("--weighted-input={weight},"));
            word.push(path);
            word
        }
    });
    merging(profdata, work, samples, into).args(weighted).produces(into)
}

/// Writes a merged profile as text, with every counter.
fn dump(profdata: &Path, work: &Path, profile: &Path, samples: bool, into: &Path) -> Call {
    let call = Call::new("read-profile", profdata, work).arg("merge");
    let call = if samples { call.arg("--sample") } else { call };
    call.args(["--text", "-o"]).arg(into).arg(profile).produces(into)
}

/// The environment variable for the instrumented server: one raw file for each process in `raw_dir`, named by the program's signature and
/// the process id.
pub fn profile_env(raw_dir: &Path) -> (OsString, OsString) {
    ("LLVM_PROFILE_FILE".into(), raw_dir.join("%m_%p.profraw").into())
}

/// The names of merged sample profiles, which distinguish them from profiles of counts.
pub(crate) const SAMPLES_ENDING: &str = "samples";

/// Merges profiles of counts into one, named by its own hash.
pub(crate) fn merge_raw(
    runner: &dyn Runner,
    profdata: &Path,
    work: &Path,
    raw: &[(PathBuf, f64)],
) -> Result<Merged> {
    let inputs = inputs_of(raw)?;
    let merged = merge_files(runner, profdata, work, &inputs, false)?;
    prove_sum(runner, profdata, work, &inputs, &merged)?;
    Ok(merged)
}

/// The sum of all counters must be that of the parts, each times its weight: llvm-profdata silently leaves out what it can't add up.
fn prove_sum(
    runner: &dyn Runner,
    profdata: &Path,
    work: &Path,
    inputs: &[MergeInput],
    merged: &Merged,
) -> Result<()> {
    let total = |path: &Path| -> Result<u128> {
        Ok(u128::from(read_profile(runner, profdata, work, path)?.total_count))
    };
    let mut expected = 0_u128;
    for input in inputs {
        expected += total(&input.path)? * u128::from(input.weight);
    }
    let found = total(&merged.path)?;
    let details = || format!("the merged profile has the sum {found}, but its parts have {expected}");
    refuse_if(found != expected, || Refusal::Unmergeable {
        reason: if expected > u128::from(u64::MAX / 2) {
            "a counter has overflowed"
        } else {
            "llvm-profdata left out a part of them"
        },
        next: "train the current instrumented build in one go, and lower large weights",
        details: details(),
    })
}

/// The sum of raw profiles. Removes the intermediate files.
pub(crate) fn tally_of(runner: &dyn Runner, profdata: &Path, work: &Path, raw: &Path) -> Result<Tally> {
    let Ok(files) = raw_profiles(raw) else { return Ok(Tally::default()) };
    let folder = work.join("profiles");
    fs::create_dir_all(&folder).with_context(|| format!("{} can't be made", folder.display()))?;
    let merged = folder.join("tally.profdata");
    let files: Vec<(PathBuf, u64)> = files.into_iter().map(|(path, _)| (path, 1)).collect();
    let (call, list) = merge_call(profdata, work, &files, false, &merged)?;
    runner.run(&call).map_err(unmergeable)?;
    if let Some(list) = list {
        fs::remove_file(&list).with_context(|| format!("{} can't be removed", list.display()))?;
    }
    let tally = read_profile(runner, profdata, work, &merged).map(|profile| Tally::of_profile(&profile));
    fs::remove_file(&merged).with_context(|| format!("{} can't be removed", merged.display()))?;
    tally
}

/// An input file of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MergeInput {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) weight: u64,
}

/// A service that forks leaves a profile for each process. If a command line can't hold them all, this writes a list file and returns it
/// with the call.
fn merge_call(
    profdata: &Path,
    work: &Path,
    profiles: &[(PathBuf, u64)],
    samples: bool,
    into: &Path,
) -> Result<(Call, Option<PathBuf>)> {
    if profiles.len() <= MOST_ARGUMENTS {
        return Ok((merge(profdata, work, profiles, samples, into), None));
    }
    let list = into.with_extension("inputs");
    let text = list_of(profiles).map_err(anyhow::Error::msg)?;
    fs::write(&list, text).with_context(|| format!("{} can't be written", list.display()))?;
    Ok((merge_listed(profdata, work, &list, samples, into), Some(list)))
}

/// Merges files of one form into one, named by its own hash.
pub(crate) fn merge_files(
    runner: &dyn Runner,
    profdata: &Path,
    work: &Path,
    inputs: &[MergeInput],
    samples: bool,
) -> Result<Merged> {
    let folder = work.join("profiles");
    fs::create_dir_all(&folder).with_context(|| format!("{} can't be made", folder.display()))?;
    let ending = if samples { SAMPLES_ENDING } else { "profdata" };
    let fresh = folder.join(format!("merging.{ending}"));
    let paths: Vec<(PathBuf, u64)> = inputs.iter().map(|input| (input.path.clone(), input.weight)).collect();
    let (call, _) = merge_call(profdata, work, &paths, samples, &fresh)?;
    runner.run(&call).map_err(unmergeable)?;
    let bytes = fs::read(&fresh).with_context(|| format!("{} can't be read", fresh.display()))?;
    let sha256 = sha256_hex(&bytes);
    let path = folder.join(format!("{}.{ending}", short(&sha256)));
    fs::rename(&fresh, &path).with_context(|| format!("{} can't be named", path.display()))?;
    Ok(Merged {
        path,
        sha256,
        bytes: bytes.len() as u64,
        raw_files: u32::try_from(inputs.len()).unwrap_or(u32::MAX),
        raw_bytes: inputs.iter().map(|input| input.bytes).sum(),
        command: call.to_string(),
    })
}

/// The files of folders of raw profiles, and files that were named themselves.
fn inputs_of(raw: &[(PathBuf, f64)]) -> Result<Vec<MergeInput>> {
    refuse_if(raw.is_empty(), || Refusal::NothingToMerge)?;
    let weights: Vec<f64> = raw.iter().map(|(_, weight)| *weight).collect();
    let mut inputs = Vec::new();
    for ((path, _), weight) in raw.iter().zip(whole_weights(&weights)?) {
        let files = if path.is_file() { vec![sized(path)?] } else { raw_profiles(path)? };
        inputs.extend(files.into_iter().map(|(path, bytes)| MergeInput { path, bytes, weight }));
    }
    Ok(inputs)
}

/// A raw profile with its size, which must not be 0.
pub(crate) fn sized(path: &Path) -> Result<(PathBuf, u64)> {
    let bytes = path.metadata().with_context(|| format!("{} can't be read", path.display()))?.len();
    refuse_if(bytes == 0, || Refusal::EmptyRawProfile { file: path.to_path_buf() })?;
    Ok((path.to_path_buf(), bytes))
}

/// A merged profile, read back with every counter.
pub(crate) fn read_profile(
    runner: &dyn Runner,
    profdata: &Path,
    work: &Path,
    path: &Path,
) -> Result<Profile> {
    let text = as_text(runner, profdata, work, path, false)?;
    Profile::parse(&text).map_err(|reason| anyhow::anyhow!("{}: {reason}", path.display()))
}

/// A merged profile in the text form.
pub(crate) fn as_text(
    runner: &dyn Runner,
    profdata: &Path,
    work: &Path,
    path: &Path,
    samples: bool,
) -> Result<String> {
    let text = path.with_extension("proftext");
    let call = dump(profdata, work, path, samples, &text);
    match runner.run(&call) {
        // The tool writes a profile without functions like this; the verification has the error text.
        Err(ToolError::NothingProduced { lack: Lack::Empty, .. }) => {}
        other => drop(other.map_err(unmergeable)?),
    }
    let bytes = fs::read(&text).with_context(|| format!("{} can't be read", text.display()))?;
    // As large as all counters in text, and no longer needed.
    fs::remove_file(&text).with_context(|| format!("{} can't be removed", text.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The raw profiles of a training with their sizes, in a fixed order.
fn raw_profiles(folder: &Path) -> Result<Vec<(PathBuf, u64)>> {
    let none = || Refusal::NoRawProfile { folder: folder.to_path_buf() };
    let mut raw = Vec::new();
    for entry in fs::read_dir(folder).map_err(|_| none())? {
        let path = entry.with_context(|| format!("{} can't be listed", folder.display()))?.path();
        if path.extension().is_some_and(|ending| ending == "profraw") {
            raw.push(sized(&path)?);
        }
    }
    refuse_if(raw.is_empty(), none)?;
    raw.sort();
    Ok(raw)
}

/// Puts the reason before llvm-profdata's message.
fn unmergeable(error: ToolError) -> anyhow::Error {
    let ToolError::Failed { scene, .. } = &error else {
        return error.into();
    };
    let said = scene.stderr.join("\n");
    // LLVM 14 prints the first, 22 the second.
    let of_other_llvm =
        ["unsupported instrumentation profile format version", "raw profile version mismatch"];
    let (reason, next) = if of_other_llvm.iter().any(|text| said.contains(text)) {
        (
            "a program of another LLVM version wrote them",
            "use the llvm-profdata of the toolchain that built the program",
        )
    } else if said.contains("excessively large counter value") {
        (
            "concurrent threads lost increments until a counter fell below 0",
            "train again; if the error returns, build with -fprofile-update=atomic (rustc: \
             -Cllvm-args=-instrprof-atomic-counter-update-all), which is slower",
        )
    } else if ["header is corrupt", "truncated", "malformed", "bad magic", "empty raw profile"]
        .iter()
        .any(|text| said.contains(text))
    {
        (
            "one is cut off or is not a profile",
            "check the free space of the disk, stop the server with SIGTERM, and train again",
        )
    } else {
        return error.into();
    };
    Refusal::Unmergeable { reason, next, details: scene.to_string() }.into()
}

/// A verification of a profile of counts.
pub(crate) fn proof_of(
    merged: &Merged,
    profile: &Profile,
    hot_functions: Vec<HotFunction>,
    hot_functions_of_target: u32,
) -> ProfileProof {
    ProfileProof {
        path: merged.path.display().to_string(),
        sha256: merged.sha256.clone(),
        bytes: merged.bytes,
        raw_files: merged.raw_files,
        raw_bytes: merged.raw_bytes,
        level: profile.level().to_owned(),
        functions: profile.functions.len() as u64,
        max_count: profile.max_count,
        total_count: profile.total_count,
        hot_functions,
        hot_functions_of_target,
    }
}

#[cfg(test)]
mod tests {
    use std::env;

    use hone_tool::{System, Tool};

    use super::*;

    /// Forty thousand processes, each with a profile of its own, in folders with long names: none of their names is in the command.
    #[test]
    fn more_profiles_than_a_command_line_holds_go_by_a_list() {
        let dir = tempfile::tempdir().unwrap();
        let raw: Vec<(PathBuf, u64)> =
            (0..40_000).map(|at| (format!("/{}/{at}.profraw", "a".repeat(200)).into(), 2)).collect();
        let into = dir.path().join("merging.profdata");
        let (call, list) = merge_call(Path::new("llvm-profdata"), dir.path(), &raw, false, &into).unwrap();
        assert!(call.to_string().len() < 1_000, "{call}");
        let text = fs::read_to_string(list.unwrap()).unwrap();
        assert_eq!((text.lines().count(), text.starts_with("2,/aaa")), (40_000, true));
        let (call, list) =
            merge_call(Path::new("llvm-profdata"), dir.path(), &raw[..2], false, &into).unwrap();
        assert_eq!(call.to_string().matches("--weighted-input=2,/aaa").count(), 2);
        assert_eq!(list, None);
    }

    #[test]
    fn a_list_of_profiles_is_merged_as_they_are() {
        let Ok(profdata) = Tool::new("llvm-profdata", "").locate(&[]) else {
            assert!(
                env::var_os("HONE_REQUIRE_TOOLS").is_none_or(|value| value != "1"),
                "llvm-profdata is missing"
            );
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        let system = System::new(dir.path().join("log")).unwrap();
        let inputs: Vec<MergeInput> = (0..150_u64)
            .map(|at| {
                // As a name may be, commas and all.
                let path = dir.path().join(format!("a, {at}.proftext"));
                fs::write(&path, format!(":ir\nmain\n1\n1\n{at}\n")).unwrap();
                MergeInput { path, bytes: 1, weight: 1 + at % 2 }
            })
            .collect();
        let merged = merge_files(&system, profdata.path(), dir.path(), &inputs, false).unwrap();
        let profile = read_profile(&system, profdata.path(), dir.path(), &merged.path).unwrap();
        let expected: u64 = (0..150).map(|at| at * (1 + at % 2)).sum();
        assert_eq!((profile.total_count, merged.raw_files), (expected, 150));
        prove_sum(&system, profdata.path(), dir.path(), &inputs[..0], &merged).unwrap_err();
    }

    #[test]
    fn profile_calls() {
        let raw = [("/w/raw/1_2.profraw".into(), 1), ("/w/raw/3_4.profraw".into(), 3)];
        let (tool, work, m) = (Path::new("/rust/llvm-profdata"), Path::new("/w"), Path::new("/w/m"));
        assert_eq!(
            merge(tool, work, &raw, false, m).to_string(),
            "cd /w && /rust/llvm-profdata merge -o /w/m /w/raw/1_2.profraw --weighted-input=3,/w/raw/3_4.profraw"
        );
        assert_eq!(
            merge(tool, work, &raw[..1], true, m).to_string(),
            "cd /w && /rust/llvm-profdata merge --sample -o /w/m /w/raw/1_2.profraw"
        );
        assert_eq!(
            merge_listed(tool, work, Path::new("/w/l"), true, m).to_string(),
            "cd /w && /rust/llvm-profdata merge --sample -o /w/m --input-files=/w/l"
        );
        assert_eq!(list_of(&raw).unwrap(), b"1,/w/raw/1_2.profraw\n3,/w/raw/3_4.profraw\n");
        assert!(list_of(&[("/w/a\nb".into(), 1)]).unwrap_err().contains("line break"));
        let text = Path::new("/w/t");
        assert_eq!(
            dump(tool, work, m, false, text).to_string(),
            "cd /w && /rust/llvm-profdata merge --text -o /w/t /w/m"
        );
        assert_eq!(
            dump(tool, work, m, true, text).to_string(),
            "cd /w && /rust/llvm-profdata merge --sample --text -o /w/t /w/m"
        );
        assert_eq!(profile_env(Path::new("/w/raw")).1, "/w/raw/%m_%p.profraw");
    }
}

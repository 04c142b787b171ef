//! The steps, carried out.

use std::collections::{BTreeSet, HashSet};
use std::env;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use hone_record::{Artifact, CodeInside, ProfileApplied, ProfileProof};
use hone_tool::{Lack, Runner, Scene, ToolError};
use serde::{Deserialize, Serialize};

use crate::elf::{self, FileFacts, file_facts, sha256_hex};
use crate::flags::{Route, Sources};
use crate::messages::{self, NativeCode};
use crate::plan::{self, BuildPlan, CFlags, Kind};
use crate::profile::Profile;
use crate::target::Metadata;
use crate::{CargoTarget, Refusal, Toolchain, proof, said};

/// Three builds of a small service take about this much; less is certain to fail half-way.
const LEAST_FREE_BYTES: u64 = 2 << 30;

/// Build logs of C code are not read beyond this.
const LOG_BYTES: u64 = 64 << 20;

/// One built variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Built {
    /// `baseline`, `instrumented` or `pgo`.
    pub variant: String,
    /// The program.
    pub executable: PathBuf,
    /// The build's command, ready to paste.
    pub command: String,
    /// Wall time of the build.
    pub build_s: f64,
    /// Whether Cargo found the program up to date, so that `build_s` is not the time of a build.
    pub fresh: bool,
    /// Crates that this build compiled; the others were up to date, and their time is not in `build_s`.
    pub crates_compiled: u32,
    /// Crates that Cargo found up to date.
    pub crates_up_to_date: u32,
    /// What cargo and rustc said.
    pub stderr_path: PathBuf,
    /// Crates whose sources lie on this machine, as they appear in symbols.
    pub own_crates: BTreeSet<String>,
    /// Foreign code inside.
    pub native: Vec<NativeCode>,
    /// Sizes and hashes.
    pub facts: FileFacts,
}

/// A merged profile, named by its own hash so that Cargo and the compilers notice every change of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merged {
    /// The profile.
    pub path: PathBuf,
    /// SHA-256 of the profile, hex.
    pub sha256: String,
    /// Size of the profile.
    pub bytes: u64,
    /// Raw files that went in.
    pub raw_files: u32,
    /// Their total size.
    pub raw_bytes: u64,
    /// The command, ready to paste.
    pub command: String,
}

/// A profile that may be used, and what it covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proven {
    /// What was read back from it.
    pub proof: ProfileProof,
    /// Foreign code in the program, covered by the profile or left out.
    pub code_inside: Vec<CodeInside>,
}

/// Profile-guided optimisation of one target in one work folder.
pub struct Pgo<'a> {
    runner: &'a dyn Runner,
    work: PathBuf,
    toolchain: Toolchain,
    plan: BuildPlan,
    /// Why C code is left out, when it is.
    c_left_out: Option<String>,
}

impl<'a> Pgo<'a> {
    /// Checks everything that is cheap to check: flags, work folder and free space, tools and their versions, manifest
    /// and program name.
    ///
    /// # Errors
    /// With what is wrong, and the way out.
    pub fn prepare(runner: &'a dyn Runner, target: CargoTarget, work: &Path) -> Result<Self> {
        target.check_flags()?;
        let manifest = target.manifest_dir.join("Cargo.toml");
        ensure!(manifest.is_file(), "{} is not there: name the folder of the package", manifest.display());
        let manifest_dir = target.manifest_dir.canonicalize()?;
        let target = CargoTarget { manifest_dir: manifest_dir.clone(), ..target };
        let work = prepare_work(work)?;
        let toolchain = Toolchain::find(runner, &manifest_dir)?;
        let metadata = runner.run(&plan::metadata(&toolchain.cargo, &manifest_dir))?;
        let metadata = Metadata::parse(&metadata.stdout()?)?;
        metadata.check_bin(&target)?;
        let route = Route::choose(&Sources::read(&manifest_dir, &toolchain.host)?, &toolchain.host)?;
        let c = choose_c(&target, &toolchain, &work);
        let plan = BuildPlan {
            cargo: toolchain.cargo.clone(),
            rustc: toolchain.rustc.clone(),
            triple: toolchain.host.clone(),
            route,
            locked: metadata.lock_file().is_file(),
            c: c.as_ref().ok().cloned(),
            target,
        };
        Ok(Self { runner, work, toolchain, plan, c_left_out: c.err() })
    }

    /// The toolchain that builds.
    pub fn toolchain(&self) -> &Toolchain {
        &self.toolchain
    }

    /// Why C and C++ code gets no profile; `None` when it gets one.
    pub fn c_left_out(&self) -> Option<&str> {
        self.c_left_out.as_deref()
    }

    /// Builds the program as its makers do, only with the C compiler that the other variants use too.
    ///
    /// # Errors
    /// When the build fails, or when its result counts for a profile.
    pub fn build_baseline(&self) -> Result<Built> {
        let built = self.build(Kind::Baseline, &self.folder("baseline"))?;
        refuse_if(built.facts.instrumented, || Refusal::Instrumented { binary: built.executable.clone() })?;
        Ok(built)
    }

    /// Builds the program so that it counts.
    ///
    /// # Errors
    /// When the build fails, or when its result does not count.
    pub fn build_instrumented(&self) -> Result<Built> {
        let stray = self.work.join("stray-profiles");
        let built = self.build(Kind::Instrumented { stray: &stray }, &self.folder("instrumented"))?;
        refuse_if(!built.facts.instrumented, || Refusal::NotInstrumented {
            binary: built.executable.clone(),
        })?;
        Ok(built)
    }

    /// Builds the program with a profile. To be called with a proven one only.
    ///
    /// Each profile gets a folder of its own, since a build script that compiles C need not notice that its flags have
    /// changed, and always an empty one: Cargo does not repeat what the compiler said about dependencies that are up
    /// to date, and [`Pgo::prove_applied`] needs all of it.
    ///
    /// # Errors
    /// When the build fails, or when its result counts for a profile.
    pub fn build_optimized(&self, merged: &Merged) -> Result<Built> {
        let folder = self.work.join(format!("pgo-{}", short(&merged.sha256)));
        remove_if_there(&folder)?;
        let built = self.build(Kind::Optimized { profile: &merged.path }, &folder)?;
        refuse_if(built.facts.instrumented, || Refusal::Instrumented { binary: built.executable.clone() })?;
        Ok(built)
    }

    /// Folders with and without profiled C code are kept apart: not every build script compiles its C code again when
    /// compiler and flags have changed.
    fn folder(&self, variant: &str) -> PathBuf {
        self.work.join(if self.plan.c.is_some() {
            variant.to_owned()
        } else {
            format!("{variant}-rust-only")
        })
    }

    fn build(&self, kind: Kind<'_>, target_dir: &Path) -> Result<Built> {
        let call = self.plan.build(kind, target_dir);
        let finished = self.runner.run(&call).map_err(|error| self.about_c(kind, error))?;
        let bin = &self.plan.target.bin;
        let said = messages::parse(&finished.stdout()?, bin);
        let executable = said.executable.with_context(|| {
            format!("cargo named no executable for the program `{bin}`\n  command: {call}")
        })?;
        let facts = file_facts(&executable)?;
        Ok(Built {
            variant: kind.variant().to_owned(),
            executable,
            command: call.to_string(),
            build_s: finished.took.as_secs_f64(),
            fresh: said.fresh,
            crates_compiled: said.compiled,
            crates_up_to_date: said.up_to_date,
            stderr_path: finished.stderr_path,
            own_crates: said.own_crates,
            native: said.native,
            facts,
        })
    }

    /// Build scripts that link C code of their own get its flags too, but no profile runtime: then the link fails.
    fn about_c(&self, kind: Kind<'_>, error: ToolError) -> anyhow::Error {
        let undefined = |scene: &Scene| {
            let log = scene.log.as_deref().and_then(read_log).unwrap_or_default();
            log.contains("undefined") && log.contains("__llvm_profile_")
        };
        let by_c = matches!((kind, &error), (Kind::Instrumented { .. }, ToolError::Failed { scene, .. }) if undefined(scene));
        let error = anyhow::Error::from(error);
        if by_c && self.plan.c.is_some() {
            return error.context(
                "a build script links instrumented C code without the profile runtime: leave C code out of the \
                 profile (c_code = false)",
            );
        }
        error
    }

    /// Merges the raw profiles of one training.
    ///
    /// # Errors
    /// A [`Refusal`] when there is no raw profile, an empty one, or one that llvm-profdata can't read.
    pub fn merge(&self, raw_dir: &Path) -> Result<Merged> {
        merge_raw(self.runner, &self.toolchain.profdata, &self.work, raw_dir)
    }

    /// Reads a merged profile back and holds it against the instrumented program: level, functions, counts, whose
    /// functions they are, and whether the target's own ones are hot.
    ///
    /// # Errors
    /// A [`Refusal`] with the reason for which no build may use it.
    pub fn prove_profile(&self, merged: &Merged, instrumented: &Built) -> Result<Proven> {
        let profile = read_profile(self.runner, &self.toolchain.profdata, &self.work, &merged.path)?;
        let in_binary = elf::instrumented_functions(&instrumented.executable)?;
        let heat = proof::prove(
            &profile,
            &merged.path,
            &in_binary,
            &instrumented.executable,
            &instrumented.own_crates,
        )?;
        Ok(Proven {
            code_inside: self.code_inside(&profile, &instrumented.native),
            proof: ProfileProof {
                path: merged.path.display().to_string(),
                sha256: merged.sha256.clone(),
                bytes: merged.bytes,
                raw_files: merged.raw_files,
                raw_bytes: merged.raw_bytes,
                level: profile.level().to_owned(),
                functions: profile.functions.len() as u64,
                max_count: profile.max_count,
                total_count: profile.total_count,
                hot_functions: heat.functions,
                hot_functions_of_target: heat.of_target,
            },
        })
    }

    fn code_inside(&self, profile: &Profile, native: &[NativeCode]) -> Vec<CodeInside> {
        let counted: HashSet<&str> = profile
            .functions
            .iter()
            .filter(|function| function.max_count > 0)
            .map(|function| function.name.as_str())
            .collect();
        let mut inside: Vec<CodeInside> =
            native.iter().map(|code| code_of(code, &counted, self.c_left_out.as_deref())).collect();
        inside.push(CodeInside {
            name: "std (Rust)".to_owned(),
            profiled: false,
            how:
                "comes compiled with the toolchain; only its generic and inlined functions are in the profile"
                    .to_owned(),
        });
        inside
    }

    /// Proves from the compilers' messages, and from the machine code, that the profile shaped the program.
    ///
    /// # Errors
    /// A [`Refusal`] when the compilers did not use it, when next to nothing of it fits, or when the code is that of
    /// the baseline.
    pub fn prove_applied(
        &self,
        optimized: &Built,
        baseline: &Built,
        proof: &ProfileProof,
    ) -> Result<ProfileApplied> {
        let stderr = fs::read(&optimized.stderr_path)
            .with_context(|| format!("{} can't be read", optimized.stderr_path.display()))?;
        let mut logs = vec![String::from_utf8_lossy(&stderr).into_owned()];
        logs.extend(optimized.native.iter().flat_map(|code| &code.logs).filter_map(|log| read_log(log)));
        let applied = said::applied(&logs, proof.total_count, proof.functions)?;
        refuse_if(optimized.facts.text_sha256 == baseline.facts.text_sha256, || Refusal::SameCode {
            optimized: optimized.executable.clone(),
            baseline: baseline.executable.clone(),
        })?;
        Ok(applied)
    }

    /// A built variant as it stands in records. The profile's parts are for the variant that was shaped by it.
    pub fn artifact(&self, built: &Built, profile: Option<(&Proven, &ProfileApplied)>) -> Artifact {
        Artifact {
            variant: built.variant.clone(),
            path: built.executable.display().to_string(),
            sha256: built.facts.sha256.clone(),
            file_bytes: built.facts.file_bytes,
            text_bytes: built.facts.text_bytes,
            build_s: built.build_s,
            command: built.command.clone(),
            tools: self.toolchain.receipts.clone(),
            profile: profile.map(|(proven, _)| proven.proof.clone()),
            applied: profile.map(|(_, applied)| applied.clone()),
            code_inside: profile.map(|(proven, _)| proven.code_inside.clone()).unwrap_or_default(),
            smoke: None,
        }
    }
}

pub(crate) fn refuse_if(wrong: bool, refusal: impl FnOnce() -> Refusal) -> Result<()> {
    if wrong { Err(refusal().into()) } else { Ok(()) }
}

fn remove_if_there(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{} can't be removed", folder.display()))
        }
        _ => Ok(()),
    }
}

fn short(sha256: &str) -> &str {
    sha256.get(..16).unwrap_or(sha256)
}

/// Makes the work folder and finds out now what would else be found out after the first build.
fn prepare_work(work: &Path) -> Result<PathBuf> {
    let name = || format!("the work folder {}", work.display());
    fs::create_dir_all(work).with_context(|| format!("{} can't be made: name another one", name()))?;
    tempfile::tempfile_in(work).with_context(|| format!("{} can't be written: name another one", name()))?;
    let work = work.canonicalize().with_context(name)?;
    ensure!(work.to_str().is_some(), "{} has a name that is not UTF-8: name another one", name());
    let free = free_bytes(&work).with_context(name)?;
    if free < LEAST_FREE_BYTES {
        bail!(
            "{} has {} MiB free, the builds need at least {} MiB",
            name(),
            free >> 20,
            LEAST_FREE_BYTES >> 20
        );
    }
    Ok(work)
}

fn free_bytes(folder: &Path) -> io::Result<u64> {
    let path = CString::new(folder.as_os_str().as_bytes())?;
    // SAFETY: `statvfs` is plain data for which all zeroes is a valid value.
    let mut facts: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `path` ends with a zero byte and `facts` is writable; both outlive the call.
    if unsafe { libc::statvfs(path.as_ptr(), &raw mut facts) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(facts.f_bavail.saturating_mul(facts.f_frsize))
}

/// The C compiler of all variants with the user's own flags, or the reason why C code is left as it is.
fn choose_c(
    target: &CargoTarget,
    toolchain: &Toolchain,
    work: &Path,
) -> Result<(crate::CCompiler, CFlags), String> {
    if !target.c_code {
        return Err("the experiment leaves C code out".to_owned());
    }
    let compiler = toolchain.c_compiler.clone()?;
    let triple = &toolchain.host;
    if let Some((name, value)) = c_setting("CC", triple).or_else(|| c_setting("CXX", triple)) {
        return Err(format!(
            "{name}={value} already chooses a C compiler: unset it to let C code be profiled"
        ));
    }
    if work.to_string_lossy().contains(char::is_whitespace) {
        return Err(format!("{} holds a blank, which can't stand in CFLAGS", work.display()));
    }
    let flags = |name| c_setting(name, triple).map(|(_, value)| value).unwrap_or_default();
    Ok((compiler, CFlags { c: flags("CFLAGS"), cxx: flags("CXXFLAGS") }))
}

/// A setting for C code as build scripts look it up (the crate `cc` has this order; `HOST_`, because the target that
/// is named is the host), with the variable it stands in.
fn c_setting(name: &str, triple: &str) -> Option<(String, String)> {
    let underscored = triple.replace(['-', '.'], "_");
    let names = [
        format!("{name}_{triple}"),
        format!("{name}_{underscored}"),
        format!("HOST_{name}"),
        name.to_owned(),
    ];
    names.into_iter().find_map(|name| Some((name.clone(), env::var(name).ok()?)))
}

/// Merges the raw profiles of a folder into one, named by its own hash.
pub(crate) fn merge_raw(runner: &dyn Runner, profdata: &Path, work: &Path, raw_dir: &Path) -> Result<Merged> {
    let raw = raw_profiles(raw_dir)?;
    let folder = work.join("profiles");
    fs::create_dir_all(&folder).with_context(|| format!("{} can't be made", folder.display()))?;
    let fresh = folder.join("merging.profdata");
    let paths: Vec<PathBuf> = raw.iter().map(|(path, _)| path.clone()).collect();
    let call = plan::merge(profdata, work, &paths, &fresh);
    runner.run(&call).map_err(unmergeable)?;
    let bytes = fs::read(&fresh).with_context(|| format!("{} can't be read", fresh.display()))?;
    let sha256 = sha256_hex(&bytes);
    let path = folder.join(format!("{}.profdata", short(&sha256)));
    fs::rename(&fresh, &path).with_context(|| format!("{} can't be named", path.display()))?;
    Ok(Merged {
        path,
        sha256,
        bytes: bytes.len() as u64,
        raw_files: u32::try_from(raw.len()).unwrap_or(u32::MAX),
        raw_bytes: raw.iter().map(|(_, bytes)| bytes).sum(),
        command: call.to_string(),
    })
}

/// A merged profile, read back with every counter.
pub(crate) fn read_profile(
    runner: &dyn Runner,
    profdata: &Path,
    work: &Path,
    path: &Path,
) -> Result<Profile> {
    let text = path.with_extension("proftext");
    let call = plan::dump(profdata, work, path, &text);
    match runner.run(&call) {
        // That is how the tool writes a profile without functions; the proof has the words for it.
        Err(ToolError::NothingProduced { lack: Lack::Empty, .. }) => {}
        other => drop(other.map_err(unmergeable)?),
    }
    let bytes = fs::read(&text).with_context(|| format!("{} can't be read", text.display()))?;
    Profile::parse(&String::from_utf8_lossy(&bytes))
        .map_err(|reason| anyhow::anyhow!("{}: {reason}", text.display()))
}

/// The raw profiles of a training with their sizes, in a fixed order.
fn raw_profiles(folder: &Path) -> Result<Vec<(PathBuf, u64)>> {
    let none = || Refusal::NoRawProfile { folder: folder.to_path_buf() };
    let mut raw = Vec::new();
    for entry in fs::read_dir(folder).map_err(|_| none())? {
        let path = entry.with_context(|| format!("{} can't be listed", folder.display()))?.path();
        if path.extension().is_some_and(|ending| ending == "profraw") {
            let bytes = path.metadata().with_context(|| format!("{} can't be read", path.display()))?.len();
            refuse_if(bytes == 0, || Refusal::EmptyRawProfile { file: path.clone() })?;
            raw.push((path, bytes));
        }
    }
    refuse_if(raw.is_empty(), none)?;
    raw.sort();
    Ok(raw)
}

/// Puts the reason in front of what llvm-profdata says.
fn unmergeable(error: ToolError) -> anyhow::Error {
    let ToolError::Failed { scene, .. } = &error else {
        return error.into();
    };
    let said = scene.stderr.join("\n");
    // LLVM 14 says the first, 22 the second.
    let of_other_llvm =
        ["unsupported instrumentation profile format version", "raw profile version mismatch"];
    let (reason, next) = if of_other_llvm.iter().any(|text| said.contains(text)) {
        (
            "they were written by a program of another LLVM version",
            "use the llvm-profdata of the toolchain that built the program",
        )
    } else if ["header is corrupt", "truncated", "malformed", "bad magic", "empty raw profile"]
        .iter()
        .any(|text| said.contains(text))
    {
        (
            "one is cut off or is no profile",
            "look at the free space of the disk, stop the server with SIGTERM, and train again",
        )
    } else {
        return error.into();
    };
    Refusal::Unmergeable { reason, next, details: scene.to_string() }.into()
}

/// Whether a package's foreign code was instrumented, told from its archives, and how much of it the training ran.
fn code_of(code: &NativeCode, counted: &HashSet<&str>, left_out: Option<&str>) -> CodeInside {
    let mut instrumented = HashSet::new();
    let mut trouble = None;
    for archive in code.archives.iter().filter(|archive| archive.is_file()) {
        match elf::instrumented_functions_of_archive(archive) {
            Ok(names) => instrumented.extend(names),
            Err(error) => trouble = Some(format!("{error:#}")),
        }
    }
    let ran = instrumented.iter().filter(|name| counted.contains(name.as_str())).count();
    let how = match (instrumented.len(), trouble, left_out) {
        (0, Some(trouble), _) => trouble,
        (0, None, Some(reason)) => format!("not instrumented: {reason}"),
        (0, None, None) => {
            "not instrumented: its build script does not go by CC and CFLAGS of the target".to_owned()
        }
        (all, ..) if ran == 0 => format!("none of its {all} instrumented functions ran in the training"),
        (all, ..) => format!("{ran} of its {all} instrumented functions ran in the training"),
    };
    let name = format!("{} (C or C++: {})", code.package, code.libraries.join(", "));
    CodeInside { name, profiled: ran > 0, how }
}

fn read_log(path: &Path) -> Option<String> {
    let size = path.metadata().ok()?.len();
    let bytes = (size <= LOG_BYTES).then(|| fs::read(path).ok()).flatten()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

//! The steps for a Cargo target, carried out.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::env;
use std::ffi::{CString, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use hone_record::{CodeInside, HotFunction, ProfileApplied, ProfileProof, ToolReceipt};
use hone_tool::{Call, Lack, Runner, Scene, Tool, ToolError};

use crate::build_request::{Guide, Order};
use crate::built::{Built, How, Merged, Proven, refuse_other_counting, refuse_same_code, words_of};
use crate::capture::{ProfileFiles, ProfileKind, Tally, build_dump_object, planned_dump_object};
use crate::digest::short;
use crate::elf::{self, file_facts, sha256_hex};
use crate::flags::{Route, Sources};
use crate::messages::{self, NativeCode};
use crate::plan::{self, BuildPlan, CFlags, profile_env};
use crate::profile::Profile;
use crate::refusal::{Refusal, refuse_if};
use crate::target::{CargoTarget, Metadata};
use crate::target_kind::TargetKind;
use crate::toolchain::Toolchain;
use crate::weights::whole_weights;
use crate::workshop::Workshop;
use crate::{proof, said};

/// Three builds of a small service take about this much; less is certain to fail half-way.
const LEAST_FREE_BYTES: u64 = 2 << 30;

/// A package of one line, outside of every workspace.
const ASKS_FOR_PADDING: &str = "[package]\nname = \"ask-padding\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[[bin]]\nname = \"ask-padding\"\npath = \"main.rs\"\n\n[workspace]\n";

/// How merged profiles of samples are named, to be known from those of counts.
pub(crate) const SAMPLES_ENDING: &str = "samples";

/// Build logs of C code are not read beyond this.
const LOG_BYTES: u64 = 64 << 20;

/// Profile-guided optimisation of one target in one work folder.
pub struct Pgo<'a> {
    runner: &'a dyn Runner,
    work: PathBuf,
    toolchain: Toolchain,
    plan: BuildPlan,
    /// Why C code is left out, when it is.
    c_left_out: Option<String>,
    /// Compiles the dump object.
    compiler: Option<PathBuf>,
    /// Whether the linker can pad functions by a seed; asked when it is needed.
    pads: OnceCell<bool>,
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
        let sources = Sources::read(&manifest_dir)?;
        let triple = sources.triple(&toolchain.host)?;
        let route = Route::choose(&sources.of_target(&triple)?, &triple)?;
        let c = choose_c(&target, &toolchain, &triple, &work);
        let plan = BuildPlan {
            cargo: toolchain.cargo.clone(),
            rustc: toolchain.rustc.clone(),
            triple,
            route,
            locked: metadata.lock_file().is_file(),
            c: c.as_ref().ok().cloned(),
            dump_object: None,
            pads: false,
            target,
        };
        // rustc links by a C compiler, so there is one, by this name or another.
        let compiler = toolchain.c_compiler.as_ref().ok().map(|compiler| compiler.clang.clone());
        let compiler = compiler.or_else(|| Some(Tool::new("cc", "").locate(&[]).ok()?.path().to_path_buf()));
        let object =
            planned_dump_object(&work.join("aids"), ProfileKind::Llvm).map_err(Refusal::from)?.object;
        let plan = BuildPlan { dump_object: compiler.is_some().then_some(object), ..plan };
        Ok(Self { runner, work, toolchain, plan, c_left_out: c.err(), compiler, pads: OnceCell::new() })
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
    /// As [`Workshop::build`].
    pub fn build_baseline(&self) -> Result<Built> {
        self.build(&Order::plain("baseline"))
    }

    /// Builds the program so that it counts.
    ///
    /// # Errors
    /// As [`Workshop::build`].
    pub fn build_instrumented(&self) -> Result<Built> {
        self.build(&Order::plain("instrumented").guided(Guide::Generate))
    }

    /// Builds the program with a profile.
    ///
    /// # Errors
    /// As [`Workshop::build`].
    pub fn build_optimized(&self, merged: &Merged) -> Result<Built> {
        self.build(&Order::plain("pgo").guided(Guide::Use(merged.path.clone())))
    }

    /// Where Cargo builds. Folders with and without profiled C code are kept apart: not every build script compiles its C
    /// code again when compiler and flags have changed.
    fn folder(&self, order: &Order) -> PathBuf {
        let name = order.folder_name();
        let with_c = self.plan.c.is_some() || order.guide.profile().is_some();
        self.work.join(if with_c { name } else { format!("{name}-rust-only") })
    }

    fn call(&self, order: &Order) -> Result<Call> {
        let plan = BuildPlan { pads: order.link_seed.is_some() && self.pads()?, ..self.plan.clone() };
        Ok(plan.build(order, &self.work.join("stray-profiles"), &self.folder(order)))
    }

    /// Which linker it is depends on rustc, its target and Cargo's configuration, so a link is tried.
    fn pads(&self) -> Result<bool> {
        if let Some(known) = self.pads.get() {
            return Ok(*known);
        }
        let folder = self.work.join("ask-padding");
        let source = folder.join("main.rs");
        let manifest = folder.join("Cargo.toml");
        let told = || format!("{} can't be written", folder.display());
        fs::create_dir_all(&folder).with_context(told)?;
        fs::write(&source, "fn main() {}\n").with_context(told)?;
        fs::write(&manifest, ASKS_FOR_PADDING).with_context(told)?;
        let found = match self.runner.run(&self.plan.trial_of_padding(&manifest, &folder.join("target"))) {
            Ok(_) => true,
            Err(ToolError::Failed { .. }) => false,
            Err(error) => return Err(error.into()),
        };
        Ok(*self.pads.get_or_init(|| found))
    }

    fn carry_out(&self, order: &Order) -> Result<Built> {
        let call = self.call(order)?;
        let finished = self.runner.run(&call).map_err(|error| self.about_c(order, error))?;
        let bin = &self.plan.target.bin;
        let said = messages::parse(&finished.stdout()?, bin);
        let executable = said.executable.with_context(|| {
            format!("cargo named no executable for the program `{bin}`\n  command: {call}")
        })?;
        let facts = file_facts(&executable)?;
        Ok(Built {
            variant: order.variant.clone(),
            executable,
            commands: vec![call.to_string()],
            build_s: finished.took.as_secs_f64(),
            fresh: said.fresh,
            stderr_paths: vec![finished.stderr_path],
            facts,
            how: How::Cargo {
                crates_compiled: said.compiled,
                crates_up_to_date: said.up_to_date,
                own_crates: said.own_crates,
                native: said.native,
            },
        })
    }

    /// Build scripts that link C code of their own get its flags too, but no profile runtime: then the link fails.
    fn about_c(&self, order: &Order, error: ToolError) -> anyhow::Error {
        let undefined = |scene: &Scene| {
            let log = scene.log.as_deref().and_then(read_log).unwrap_or_default();
            log.contains("undefined") && log.contains("__llvm_profile_")
        };
        let failed_so = matches!(&error, ToolError::Failed { scene, .. } if undefined(scene));
        let by_c = order.guide == Guide::Generate && failed_so;
        let error = anyhow::Error::from(error);
        if by_c && self.plan.c.is_some() {
            return error.context(
                "a build script links instrumented C code without the profile runtime: leave C code out of the \
                 profile (c_code = false)",
            );
        }
        error
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
}

impl Workshop for Pgo<'_> {
    fn kind(&self) -> TargetKind {
        TargetKind::Cargo
    }

    /// Builds with a profile have always an empty folder: Cargo does not repeat what the compiler said about dependencies that
    /// are up to date, and [`Workshop::prove_applied`] needs all of it. Each profile has a folder of its own, since a build
    /// script that compiles C need not notice that its flags have changed.
    fn build(&self, order: &Order) -> Result<Built> {
        self.fits(order)?;
        if order.guide.profile().is_some() {
            remove_if_there(&self.folder(order))?;
        }
        if let Some(compiler) = self.compiler.as_ref().filter(|_| order.guide.counts()) {
            build_dump_object(self.runner, compiler, &self.work.join("aids"), ProfileKind::Llvm)?;
        }
        let built = self.carry_out(order)?;
        refuse_other_counting(order, &built)?;
        Ok(built)
    }

    fn commands(&self, order: &Order) -> Result<Vec<String>> {
        self.fits(order)?;
        Ok(vec![self.call(order)?.to_string()])
    }

    fn training_env(&self, raw: &Path) -> Vec<(OsString, OsString)> {
        vec![profile_env(raw)]
    }

    fn profile_files(&self, _built: &Built, raw: &Path) -> ProfileFiles {
        ProfileFiles { kind: ProfileKind::Llvm, folder: raw.to_path_buf() }
    }

    fn has_dump_object(&self, counting: &Built) -> bool {
        let object = self.plan.dump_object.as_ref().map(|object| object.display().to_string());
        object.is_some_and(|object| counting.commands.iter().any(|command| command.contains(&object)))
    }

    fn tally(&self, raw: &Path, _counting: &Built) -> Result<Tally> {
        tally_of(self.runner, &self.toolchain.profdata, &self.work, raw)
    }

    fn merge(&self, raw: &[(PathBuf, f64)]) -> Result<Merged> {
        merge_raw(self.runner, &self.toolchain.profdata, &self.work, raw)
    }

    /// Level, functions, counts, whose functions they are, and whether the target's own ones are hot.
    fn prove_profile(&self, merged: &Merged, counting: &Built) -> Result<Proven> {
        let How::Cargo { own_crates, native, .. } = &counting.how else {
            bail!("{} was not built by Cargo", counting.executable.display())
        };
        let profile = read_profile(self.runner, &self.toolchain.profdata, &self.work, &merged.path)?;
        let in_binary = elf::instrumented_functions(&counting.executable)?;
        let heat = proof::prove(&profile, &merged.path, &in_binary, &counting.executable, own_crates)?;
        Ok(Proven {
            code_inside: self.code_inside(&profile, native),
            proof: proof_of(merged, &profile, heat.functions, heat.of_target),
        })
    }

    fn prove_applied(&self, shaped: &Built, plain: &Built, proven: &Proven) -> Result<ProfileApplied> {
        let mut logs = words_of(shaped)?;
        let native = shaped.native().unwrap_or_default();
        logs.extend(native.iter().flat_map(|code| &code.logs).filter_map(|log| read_log(log)));
        let applied = said::applied(&logs, proven.proof.total_count, proven.proof.functions)?;
        refuse_same_code(shaped, plain)?;
        Ok(applied)
    }

    fn receipts(&self) -> Vec<ToolReceipt> {
        self.toolchain.receipts.clone()
    }
}

/// A proof about a profile of counts.
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

fn remove_if_there(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{} can't be removed", folder.display()))
        }
        _ => Ok(()),
    }
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
    triple: &str,
    work: &Path,
) -> Result<(crate::toolchain::CCompiler, CFlags), String> {
    if !target.c_code {
        return Err("the experiment leaves C code out".to_owned());
    }
    // The headers and libraries of C that clang finds are the host's.
    if triple != toolchain.host {
        return Err(format!("Cargo builds for {triple}, and clang for {}", toolchain.host));
    }
    let compiler = toolchain.c_compiler.clone()?;
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

/// The sum of all counters must be that of the parts, each times its weight: llvm-profdata leaves out what it can't add up, and ends
/// with 0.
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
    let details = || format!("the merged profile has the sum {found}, and its parts have {expected}");
    refuse_if(found != expected, || Refusal::Unmergeable {
        reason: if expected > u128::from(u64::MAX / 2) {
            "a count has come to the end of its type"
        } else {
            "llvm-profdata left a part of them out"
        },
        next: "train the present instrumented build in one go, with weights that are smaller where they are large",
        details: details(),
    })
}

/// The sum of raw profiles. What it is read from is removed again.
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

/// A file that goes into a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MergeInput {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) weight: u64,
}

/// A service that forks leaves a profile for each process: more of them than a command line holds are named in a file, which is written
/// here and answered with the call.
fn merge_call(
    profdata: &Path,
    work: &Path,
    profiles: &[(PathBuf, u64)],
    samples: bool,
    into: &Path,
) -> Result<(Call, Option<PathBuf>)> {
    if profiles.len() <= plan::MOST_ARGUMENTS {
        return Ok((plan::merge(profdata, work, profiles, samples, into), None));
    }
    let list = into.with_extension("inputs");
    let text = plan::list_of(profiles).map_err(anyhow::Error::msg)?;
    fs::write(&list, text).with_context(|| format!("{} can't be written", list.display()))?;
    Ok((plan::merge_listed(profdata, work, &list, samples, into), Some(list)))
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
    let call = plan::dump(profdata, work, path, samples, &text);
    match runner.run(&call) {
        // That is how the tool writes a profile without functions; the proof has the words for it.
        Err(ToolError::NothingProduced { lack: Lack::Empty, .. }) => {}
        other => drop(other.map_err(unmergeable)?),
    }
    let bytes = fs::read(&text).with_context(|| format!("{} can't be read", text.display()))?;
    // As large as all counters written out, and of no further use.
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
    } else if said.contains("excessively large counter value") {
        (
            "threads that counted at once have lost additions until a counter fell below 0",
            "train again; when it comes back, count with -fprofile-update=atomic (rustc: \
             -Cllvm-args=-instrprof-atomic-counter-update-all), which is slower",
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

#[cfg(test)]
mod tests {
    use hone_tool::System;

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
}

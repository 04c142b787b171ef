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
use hone_record::{CodeInside, ProfileApplied, ToolReceipt};
use hone_tool::{Call, Runner, Scene, Tool, ToolError};

use crate::build_request::{BuildRequest, Guide};
use crate::builder::Builder;
use crate::built::{Built, How, Merged, Proven, refuse_other_counting, refuse_same_code, words_of};
use crate::capture::{ProfileFiles, ProfileKind, Tally, build_dump_object, planned_dump_object};
use crate::elf::{self, file_facts};
use crate::flags::{Route, Sources};
use crate::messages::{self, NativeCode};
use crate::plan::{BuildPlan, CFlags};
use crate::profdata::{merge_raw, profile_env, proof_of, read_profile, tally_of};
use crate::profile::Profile;
use crate::refusal::Refusal;
use crate::target::{CargoTarget, Metadata, metadata_call};
use crate::target_kind::TargetKind;
use crate::toolchain::Toolchain;
use crate::{diagnostics, proof};

/// Three builds of a small service take about this much; less would fail half-way.
const LEAST_FREE_BYTES: u64 = 2 << 30;

/// A package of one line, outside of every workspace.
const ASKS_FOR_PADDING: &str = "[package]\nname = \"ask-padding\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[[bin]]\nname = \"ask-padding\"\npath = \"main.rs\"\n\n[workspace]\n";

/// Limit of the build logs of C code that are read.
const LOG_BYTES: u64 = 64 << 20;

/// Profile-guided optimisation of one target in one work folder.
pub struct Pgo<'a> {
    runner: &'a dyn Runner,
    work: PathBuf,
    toolchain: Toolchain,
    plan: BuildPlan,
    /// Why C code is left out, if it is.
    c_left_out: Option<String>,
    /// Compiles the dump object.
    compiler: Option<PathBuf>,
    /// Whether the linker can pad functions by a seed; tested on demand.
    pads: OnceCell<bool>,
}

impl<'a> Pgo<'a> {
    /// Checks everything that is cheap to check: flags, work folder and free space, tools and their versions, manifest and program name.
    ///
    /// # Errors
    /// Returns the fault and the remedy.
    pub fn prepare(runner: &'a dyn Runner, target: CargoTarget, work: &Path) -> Result<Self> {
        target.check_flags()?;
        let manifest = target.manifest_dir.join("Cargo.toml");
        ensure!(manifest.is_file(), "{} does not exist: name the folder of the package", manifest.display());
        let manifest_dir = target.manifest_dir.canonicalize()?;
        let target = CargoTarget { manifest_dir: manifest_dir.clone(), ..target };
        let work = prepare_work(work)?;
        let toolchain = Toolchain::find(runner, &manifest_dir)?;
        let metadata = runner.run(&metadata_call(&toolchain.cargo, &manifest_dir))?;
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

    /// The toolchain of the builds.
    pub fn toolchain(&self) -> &Toolchain {
        &self.toolchain
    }

    /// Why C and C++ code gets no profile; `None` when it gets one.
    pub fn c_left_out(&self) -> Option<&str> {
        self.c_left_out.as_deref()
    }

    /// The default build, but with the C compiler of the other variants.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn build_baseline(&self) -> Result<Built> {
        self.build(&BuildRequest::plain("baseline"))
    }

    /// Builds the instrumented program.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn build_instrumented(&self) -> Result<Built> {
        self.build(&BuildRequest::plain("instrumented").guided(Guide::Generate))
    }

    /// Builds the program with a profile.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn build_optimized(&self, merged: &Merged) -> Result<Built> {
        self.build(&BuildRequest::plain("pgo").guided(Guide::Use(merged.path.clone())))
    }

    /// Cargo's target folder. Folders with and without profiled C code are separate: not every build script recompiles its C code when
    /// compiler and flags change.
    fn folder(&self, request: &BuildRequest) -> PathBuf {
        let name = request.folder_name();
        let with_c = self.plan.c.is_some() || request.guide.profile().is_some();
        self.work.join(if with_c { name } else { format!("{name}-rust-only") })
    }

    fn call(&self, request: &BuildRequest) -> Result<Call> {
        let plan = BuildPlan { pads: request.link_seed.is_some() && self.pads()?, ..self.plan.clone() };
        Ok(plan.build(request, &self.work.join("stray-profiles"), &self.folder(request)))
    }

    /// The linker depends on rustc, its target and Cargo's configuration, so Hone tests a link.
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

    fn carry_out(&self, request: &BuildRequest) -> Result<Built> {
        let call = self.call(request)?;
        let finished = self.runner.run(&call).map_err(|error| self.about_c(request, error))?;
        let bin = &self.plan.target.bin;
        let said = messages::parse(&finished.stdout()?, bin);
        let executable = said.executable.with_context(|| {
            format!("cargo named no executable for the program `{bin}`\n  command: {call}")
        })?;
        let facts = file_facts(&executable)?;
        Ok(Built {
            variant: request.variant.clone(),
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

    /// Build scripts that link their own C code get its flags too, but no profile runtime: then the link fails.
    fn about_c(&self, request: &BuildRequest, error: ToolError) -> anyhow::Error {
        let undefined = |scene: &Scene| {
            let log = scene.log.as_deref().and_then(read_log).unwrap_or_default();
            log.contains("undefined") && log.contains("__llvm_profile_")
        };
        let failed_so = matches!(&error, ToolError::Failed { scene, .. } if undefined(scene));
        let by_c = request.guide == Guide::Generate && failed_so;
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
            how: "the toolchain contains it compiled; only its generic and inlined functions are in the \
                 profile"
                .to_owned(),
        });
        inside
    }
}

impl Builder for Pgo<'_> {
    fn kind(&self) -> TargetKind {
        TargetKind::Cargo
    }

    /// Builds with a profile always have an empty folder: Cargo does not repeat the compiler's messages about dependencies that are up to
    /// date, and [`Builder::prove_applied`] needs all of them. Each profile has its own folder, because a build script that compiles C may
    /// not notice changed flags.
    fn build(&self, request: &BuildRequest) -> Result<Built> {
        self.fits(request)?;
        if request.guide.profile().is_some() {
            remove_if_there(&self.folder(request))?;
        }
        if let Some(compiler) = self.compiler.as_ref().filter(|_| request.guide.counts()) {
            build_dump_object(self.runner, compiler, &self.work.join("aids"), ProfileKind::Llvm)?;
        }
        let built = self.carry_out(request)?;
        refuse_other_counting(request, &built)?;
        Ok(built)
    }

    fn commands(&self, request: &BuildRequest) -> Result<Vec<String>> {
        self.fits(request)?;
        Ok(vec![self.call(request)?.to_string()])
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

    /// Level, functions, counts, the owners of the functions, and whether the target's own ones are hot.
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
        let applied = diagnostics::applied(&logs, proven.proof.total_count, proven.proof.functions)?;
        refuse_same_code(shaped, plain)?;
        Ok(applied)
    }

    fn receipts(&self) -> Vec<ToolReceipt> {
        self.toolchain.receipts.clone()
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

/// Makes the work folder and finds faults that would otherwise appear after the first build.
fn prepare_work(work: &Path) -> Result<PathBuf> {
    let name = || format!("the work folder {}", work.display());
    fs::create_dir_all(work).with_context(|| format!("{} can't be made: name another one", name()))?;
    tempfile::tempfile_in(work).with_context(|| format!("{} can't be written: name another one", name()))?;
    let work = work.canonicalize().with_context(name)?;
    ensure!(work.to_str().is_some(), "{} has a name that is not UTF-8: name another one", name());
    let free = free_bytes(&work).with_context(name)?;
    if free < LEAST_FREE_BYTES {
        bail!(
            "{} has {} MiB free, but the builds need at least {} MiB",
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

/// The C compiler of all variants with the user's own flags, or why C code is left unchanged.
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
        return Err(format!("Cargo builds for {triple}, but clang builds for {}", toolchain.host));
    }
    let compiler = toolchain.c_compiler.clone()?;
    if let Some((name, value)) = c_setting("CC", triple).or_else(|| c_setting("CXX", triple)) {
        return Err(format!("{name}={value} already selects a C compiler: unset it to profile C code"));
    }
    if work.to_string_lossy().contains(char::is_whitespace) {
        return Err(format!("{} contains a blank, which CFLAGS can't hold", work.display()));
    }
    let flags = |name| c_setting(name, triple).map(|(_, value)| value).unwrap_or_default();
    Ok((compiler, CFlags { c: flags("CFLAGS"), cxx: flags("CXXFLAGS") }))
}

/// A setting for C code as build scripts look it up (the crate `cc` has this order; `HOST_`, because the named target is the host), with
/// the variable that contains it.
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

/// Whether a package's foreign code was instrumented, according to its archives, and how much of it the training ran.
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
            "not instrumented: its build script ignores CC and CFLAGS of the target".to_owned()
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

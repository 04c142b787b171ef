//! The builds of a Go program, carried out and verified.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use hone_record::{CodeInside, ProfileApplied, ProfileProof, ToolReceipt};
use hone_tool::{Call, LocatedTool, Runner, Tool};

use super::diagnostics::{self, Decisions, Package};
use super::merge::Merger;
use super::plan::{From, GoPlan};
use super::pprof::Profile;
use super::proof::{self, Coverage};
use super::refusal::GoRefusal;
use super::symbols;
use super::target::GoTarget;
use crate::build_request::{BuildRequest, Guide};
use crate::builder::Builder;
use crate::built::{Built, How, Merged, Proven, refuse_same_code};
use crate::capture::{ProfileFiles, ProfileKind};
use crate::digest::short;
use crate::elf::{file_facts, sha256_hex};
use crate::lock::Lock;
use crate::refusal::{Refusal, refuse_if};
use crate::target_kind::TargetKind;

/// `-pgo` has its present meaning since this version.
const GO: Tool<'static> =
    Tool::new("go", "HONE_GO").version_args(&["version"]).at_least(1, 21, 0).debian("golang-go");

/// The usual folder of Go's own archive, for a PATH without it.
const USUAL_FOLDER: &str = "/usr/local/go/bin";

/// The profile that Go takes from the main package's folder.
pub const DEFAULT_PGO: &str = "default.pgo";

/// Files that Hone may leave in the main package's folder, which are no sources of its builds: the placed profile, its lock, and the
/// earlier profile that it moved aside.
pub fn left_beside(main: &Path) -> Vec<PathBuf> {
    let own = main.join(DEFAULT_PGO);
    vec![Lock::path(&own), set_aside(&own), own]
}

/// Limit of the folders in the search for a misplaced `default.pgo`.
const MOST_FOLDERS: usize = 20_000;

/// The number of lost functions in a record.
const MESSAGES: usize = 5;

/// Profile-guided optimisation of one Go program in one work folder. The order of work, in which the caller does load and capture:
///
/// 1. [`GoPgo::prepare`], [`GoPgo::build_baseline`];
/// 2. the caller loads the baseline and fetches profiles from it: Go needs no instrumented build;
/// 3. [`Builder::merge`] of the files, then [`Builder::prove_profile`] against the baseline;
/// 4. [`GoPgo::build_optimized`], then [`Builder::prove_applied`].
pub struct GoPgo<'a> {
    pub(super) runner: &'a dyn Runner,
    pub(super) work: PathBuf,
    pub(super) plan: GoPlan,
    receipt: ToolReceipt,
    main: Package,
    pub(super) packages: Vec<Package>,
}

impl<'a> GoPgo<'a> {
    /// Checks what is cheap to check: flags, work folder, `go` and its version, the module and its main package.
    ///
    /// # Errors
    /// Returns the fault and the remedy.
    pub fn prepare(runner: &'a dyn Runner, target: GoTarget, work: &Path) -> Result<Self> {
        target.check_flags()?;
        let manifest = target.module_dir.join("go.mod");
        ensure!(manifest.is_file(), "{} does not exist: name the folder of the module", manifest.display());
        let module_dir = target.module_dir.canonicalize()?;
        fs::create_dir_all(work)
            .with_context(|| format!("the work folder {} can't be made", work.display()))?;
        let work = work.canonicalize()?;
        let go: LocatedTool = GO.locate(&[PathBuf::from(USUAL_FOLDER)])?;
        let receipt = go.receipt()?;
        let plan = GoPlan { go: go.path().to_path_buf(), target: GoTarget { module_dir, ..target } };
        let list = |call| -> Result<Vec<Package>> { diagnostics::packages(&runner.run(&call)?.stdout()?) };
        let mains = list(plan.main_package())?;
        let package = &plan.target.package;
        let [main] = mains.as_slice() else {
            bail!("`{package}` matches {} packages: name the one that is the program", mains.len());
        };
        let main = main.clone();
        ensure!(
            main.name == "main",
            "`{package}` is the package {}, which is not a program: name a folder of `package main`, for \
             example ./cmd/NAME",
            main.name
        );
        let packages = list(plan.packages())?;
        Ok(Self { runner, work, plan, receipt, main, packages })
    }

    /// The `go` that builds.
    pub fn receipt(&self) -> &ToolReceipt {
        &self.receipt
    }

    /// Packages of the module itself in the program, as they appear in symbols: the program's own package is `main`.
    pub fn own_packages(&self) -> BTreeSet<String> {
        let own =
            self.packages.iter().filter(|package| package.module.as_ref().is_some_and(|module| module.main));
        let mut own: BTreeSet<String> = own
            .filter(|package| package.name != "main")
            .map(|package| in_symbols(&package.import_path))
            .collect();
        own.insert("main".to_owned());
        own
    }

    /// Where Go looks for the program's profile.
    pub fn default_profile(&self) -> PathBuf {
        self.main.dir.join(DEFAULT_PGO)
    }

    /// Builds without a profile.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn build_baseline(&self) -> Result<Built> {
        self.build(&BuildRequest::plain("baseline"))
    }

    /// Builds with a merged profile, which must be verified.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn build_optimized(&self, merged: &Merged) -> Result<Built> {
        self.build(&BuildRequest::plain("pgo").guided(Guide::Use(merged.path.clone())))
    }

    /// Builds like a plain `go build`, with the `default.pgo` of the main package.
    ///
    /// # Errors
    /// [`GoRefusal::Misplaced`] and [`GoRefusal::Missing`] if there is none at the place where Go looks for it, and as
    /// [`GoPgo::build_optimized`].
    pub fn build_auto(&self) -> Result<Built> {
        let wanted = self.default_profile();
        if !wanted.is_file() {
            let found = misplaced(&self.plan.target.module_dir, &self.main.dir);
            return Err(go(match found.is_empty() {
                true => GoRefusal::Missing { file: wanted },
                false => GoRefusal::Misplaced { found, wanted },
            }));
        }
        let request = BuildRequest::plain("pgo");
        let built = self.carry_out(&request, self.call_from(&request, &From::Auto, "pgo-auto"))?;
        self.prove_named(&built.executable, &wanted)?;
        Ok(built)
    }

    fn call(&self, request: &BuildRequest) -> (Call, PathBuf) {
        let from = request.guide.profile().map_or(From::Off, From::File);
        self.call_from(request, &from, &request.folder_name())
    }

    fn call_from(&self, request: &BuildRequest, from: &From<'_>, folder: &str) -> (Call, PathBuf) {
        let name = self.main.import_path.rsplit('/').next().unwrap_or("program");
        let executable = self.work.join(folder).join(name);
        (self.plan.build(&request.variant, from, request.link_seed, &executable), executable)
    }

    fn carry_out(&self, request: &BuildRequest, (call, executable): (Call, PathBuf)) -> Result<Built> {
        let folder = executable.parent().unwrap_or(&self.work);
        fs::create_dir_all(folder).with_context(|| format!("{} can't be made", folder.display()))?;
        // By its build id alone, Go would consider an older file up to date.
        remove_if_there(&executable)?;
        let finished = self.runner.run(&call)?;
        let known = self.packages.iter().map(|package| package.import_path.clone()).collect();
        let compiled = diagnostics::compiled(&finished.stderr_text()?, &known);
        Ok(Built {
            variant: request.variant.clone(),
            facts: file_facts(&executable)?,
            executable,
            commands: vec![call.to_string()],
            build_s: finished.took.as_secs_f64(),
            fresh: compiled == 0,
            stderr_paths: vec![finished.stderr_path],
            how: How::Go {
                packages_compiled: count(compiled),
                packages_up_to_date: count(self.packages.len().saturating_sub(compiled)),
                own_packages: self.own_packages(),
            },
        })
    }

    /// The share of a profile's weight that a program can use.
    ///
    /// # Errors
    /// A [`GoRefusal`] if the profile can't be used at all; otherwise when the program can't be read.
    pub fn coverage(&self, profile: &Path, binary: &Path) -> Result<Coverage> {
        let (contents, _) = read(profile)?;
        let own = self.own_packages();
        let sound = proof::sound(&contents, profile, &own).map_err(go)?;
        Ok(proof::coverage(&contents, sound.index, &symbols::functions_of(binary)?, &own))
    }

    /// Builds the module's own packages once more to learn which calls the compiler inlines and devirtualises because of the profile.
    ///
    /// # Errors
    /// Fails when the build fails.
    pub fn explain(&self, merged: &Merged) -> Result<Decisions> {
        let folder = self.work.join("explained");
        fs::create_dir_all(&folder).with_context(|| format!("{} can't be made", folder.display()))?;
        let output = folder.join("program");
        remove_if_there(&output)?;
        let module = self.main.module.as_ref().map_or("", |module| module.path.as_str());
        let finished = self.runner.run(&self.plan.explain(&merged.path, module, &output))?;
        Ok(diagnostics::decisions(&finished.stderr_text()?))
    }

    /// Places a profile where a plain `go build` uses it. The earlier file stays next to it until [`Placed::put_back`] or [`Placed::keep`].
    ///
    /// # Errors
    /// Fails when the profile can't be used, or the files can't be written.
    pub fn place(&self, profile: &Path) -> Result<Placed> {
        read(profile)?;
        Placed::lay(profile, self.default_profile())
    }

    /// Restores the file that an interrupted run had moved aside in [`GoPgo::place`] with this profile.
    ///
    /// # Errors
    /// Fails when another file is in its place, which would be lost, or when the files can't be moved.
    pub fn lay_back(&self, profile: &Path) -> Result<()> {
        lay_back(profile, &self.default_profile())
    }

    /// Files with the name `default.pgo` at places where Go ignores them.
    pub fn misplaced(&self) -> Vec<PathBuf> {
        misplaced(&self.plan.target.module_dir, &self.main.dir)
    }

    fn prove_named(&self, binary: &Path, wanted: &Path) -> Result<()> {
        let found = self.profile_of(binary)?;
        let named = found.as_deref().is_some_and(|found| match self.plan.target.trimpath {
            true => Path::new(found).file_name() == wanted.file_name(),
            false => Path::new(found) == wanted,
        });
        match named {
            true => Ok(()),
            false => Err(go(GoRefusal::NotInBuild {
                binary: binary.to_path_buf(),
                wanted: wanted.to_path_buf(),
                found,
            })),
        }
    }

    /// The profile of a program, according to its build settings.
    ///
    /// # Errors
    /// Fails when `go version -m` can't read the program.
    pub fn profile_of(&self, binary: &Path) -> Result<Option<String>> {
        let finished = self.runner.run(&self.plan.settings(binary))?;
        Ok(diagnostics::build_settings(&finished.stdout_text()?).remove("-pgo"))
    }

    fn code_inside(&self) -> Vec<CodeInside> {
        let outside = |package: &Package, what: &str| CodeInside {
            name: format!("{} ({what})", package.import_path),
            profiled: false,
            how: "Go's compiler does not compile it: it gets no profile".to_owned(),
        };
        let module = |package: &&Package| package.module.is_some();
        let cgo = self.packages.iter().filter(module).filter(|package| !package.cgo_files.is_empty());
        let assembly = self.packages.iter().filter(module).filter(|package| !package.s_files.is_empty());
        cgo.map(|package| outside(package, "C by cgo"))
            .chain(assembly.map(|package| outside(package, "assembly")))
            .collect()
    }
}

impl Builder for GoPgo<'_> {
    fn kind(&self) -> TargetKind {
        TargetKind::Go
    }

    /// The program's settings must name the requested profile, or none if none was requested.
    fn build(&self, request: &BuildRequest) -> Result<Built> {
        self.fits(request)?;
        let built = self.carry_out(request, self.call(request))?;
        match (request.guide.profile(), self.profile_of(&built.executable)?) {
            (Some(profile), _) => self.prove_named(&built.executable, profile)?,
            (None, Some(found)) => {
                return Err(go(GoRefusal::ProfileInBaseline { binary: built.executable, found }));
            }
            (None, None) => {}
        }
        Ok(built)
    }

    fn commands(&self, request: &BuildRequest) -> Result<Vec<String>> {
        self.fits(request)?;
        Ok(vec![self.call(request).0.to_string()])
    }

    /// Nothing: the plain program is trained.
    fn training_env(&self, _raw: &Path) -> Vec<(OsString, OsString)> {
        Vec::new()
    }

    fn profile_files(&self, _built: &Built, raw: &Path) -> ProfileFiles {
        ProfileFiles { kind: ProfileKind::Pprof, folder: raw.to_path_buf() }
    }

    /// Files, or folders of files that end in `.pprof`. Only the ratio of the weights counts.
    fn merge(&self, raw: &[(PathBuf, f64)]) -> Result<Merged> {
        refuse_if(raw.is_empty(), || Refusal::NothingToMerge)?;
        let profiles = files_of(raw)?;
        let heaviest = profiles.iter().map(|(_, weight)| *weight).fold(0.0, f64::max);
        let mut merger = Merger::new();
        let mut raw_bytes = 0;
        for (file, weight) in &profiles {
            let (profile, bytes) = read(file)?;
            raw_bytes += bytes;
            let merged = merger.add(&profile, weight / heaviest).map_err(anyhow::Error::msg);
            merged.with_context(|| format!("{} can't be merged", file.display()))?;
        }
        let bytes = merger.finish().map_err(anyhow::Error::msg)?.to_bytes();
        let folder = self.work.join("profiles");
        fs::create_dir_all(&folder).with_context(|| format!("{} can't be made", folder.display()))?;
        let sha256 = sha256_hex(&bytes);
        let path = folder.join(format!("{}.pgo", short(&sha256)));
        write_whole(&path, &bytes)?;
        Ok(Merged {
            path,
            sha256,
            bytes: bytes.len() as u64,
            raw_files: count(profiles.len()),
            raw_bytes,
            command: merge_command(&profiles),
        })
    }

    fn prove_profile(&self, merged: &Merged, counting: &Built) -> Result<Proven> {
        let (profile, _) = read(&merged.path)?;
        let own = self.own_packages();
        let sound = proof::sound(&profile, &merged.path, &own).map_err(go)?;
        let names = symbols::functions_of(&counting.executable)?;
        let coverage = proof::coverage(&profile, sound.index, &names, &own);
        proof::fits(&coverage, &merged.path, &counting.executable).map_err(go)?;
        let total_count = sound.total.cast_unsigned();
        Ok(Proven {
            code_inside: self.code_inside(),
            proof: ProfileProof {
                path: merged.path.display().to_string(),
                sha256: merged.sha256.clone(),
                bytes: merged.bytes,
                raw_files: merged.raw_files,
                raw_bytes: merged.raw_bytes,
                level: "pprof".to_owned(),
                functions: profile.functions.len() as u64,
                max_count: sound.hot.first().map_or(0, |function| function.max_count),
                total_count,
                hot_functions_of_target: count(sound.hot_own),
                hot_functions: sound.hot,
            },
        })
    }

    /// By the program's build settings, its names and its machine code; and the share of the profile's weight that the present source can't
    /// use.
    fn prove_applied(&self, shaped: &Built, plain: &Built, proven: &Proven) -> Result<ProfileApplied> {
        let profile = Path::new(&proven.proof.path);
        self.prove_named(&shaped.executable, profile)?;
        let coverage = self.coverage(profile, &shaped.executable)?;
        proof::fits(&coverage, profile, &shaped.executable).map_err(go)?;
        refuse_same_code(shaped, plain)?;
        let lost = coverage.lost_functions.iter().take(MESSAGES);
        Ok(ProfileApplied {
            discarded_functions: coverage.lost_functions.len() as u64,
            discarded_count: coverage.lost.cast_unsigned(),
            discarded_weight: coverage.lost_percent / 100.0,
            missing_functions: 0,
            messages: lost
                .map(|(name, weight)| {
                    let percent = *weight as f64 * 100.0 / coverage.weight.max(1) as f64;
                    format!(
                        "{name} is no longer in the program: {percent:.1} % of the weight of the profile's \
                         calls"
                    )
                })
                .collect(),
        })
    }

    fn receipts(&self) -> Vec<ToolReceipt> {
        vec![self.receipt.clone()]
    }
}

/// The profiles of folders, and separately named ones.
fn files_of(raw: &[(PathBuf, f64)]) -> Result<Vec<(PathBuf, f64)>> {
    let mut files = Vec::new();
    for (path, weight) in raw {
        if !path.is_dir() {
            files.push((path.clone(), *weight));
            continue;
        }
        let found = ProfileFiles { kind: ProfileKind::Pprof, folder: path.clone() }.snapshot();
        let found = found.with_context(|| format!("{} can't be read", path.display()))?;
        if found.is_empty() {
            return Err(go(GoRefusal::Missing { file: path.join("*.pprof") }));
        }
        files.extend(found.into_keys().map(|file| (file, *weight)));
    }
    Ok(files)
}

/// A profile that was placed where Go uses it. Dropping it restores the earlier state.
#[derive(Debug)]
#[must_use = "a dropped `Placed` removes the profile again"]
pub struct Placed {
    path: PathBuf,
    /// The earlier file.
    kept: Option<PathBuf>,
    done: bool,
}

impl Placed {
    fn lay(profile: &Path, path: PathBuf) -> Result<Self> {
        let kept = set_aside(&path);
        ensure!(!kept.exists(), left_over(&kept));
        let had = path.is_file();
        if had {
            fs::rename(&path, &kept).with_context(|| format!("{} can't be moved aside", path.display()))?;
        }
        let placed = Self { path, kept: had.then_some(kept), done: false };
        let bytes = fs::read(profile).with_context(|| format!("{} can't be read", profile.display()))?;
        write_whole(&placed.path, &bytes)?;
        Ok(placed)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it, and restores the earlier file.
    ///
    /// # Errors
    /// Fails when the files can't be moved.
    pub fn put_back(mut self) -> Result<()> {
        self.done = true;
        self.restore()
    }

    /// Keeps it, and removes the earlier file.
    ///
    /// # Errors
    /// Fails when the old file can't be removed.
    pub fn keep(mut self) -> Result<PathBuf> {
        self.done = true;
        if let Some(kept) = &self.kept {
            remove_if_there(kept)?;
        }
        Ok(self.path.clone())
    }

    fn restore(&self) -> Result<()> {
        match &self.kept {
            Some(kept) => {
                fs::rename(kept, &self.path).with_context(|| format!("{} can't be restored", kept.display()))
            }
            None => remove_if_there(&self.path),
        }
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        if !self.done {
            // A destructor has no caller for an error; the next run finds a file that was moved aside.
            let _ = self.restore();
        }
    }
}

fn set_aside(path: &Path) -> PathBuf {
    path.with_file_name(format!("{DEFAULT_PGO}.kept"))
}

fn left_over(kept: &Path) -> String {
    format!(
        "{} is left over from an interrupted run: it is your earlier {DEFAULT_PGO}; rename it back, or \
         remove it",
        kept.display()
    )
}

/// The file at `path` may be removed only if it is the profile that was being placed.
fn lay_back(profile: &Path, path: &Path) -> Result<()> {
    let kept = set_aside(path);
    if !kept.exists() {
        return Ok(());
    }
    if path.exists() {
        let read = |path: &Path| fs::read(path).with_context(|| format!("{} can't be read", path.display()));
        ensure!(read(path)? == read(profile)?, left_over(&kept));
    }
    fs::rename(&kept, path).with_context(|| format!("{} can't be restored", kept.display()))
}

/// Files with the name `default.pgo` without a main package next to them.
fn misplaced(module_dir: &Path, main_dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![module_dir.to_path_buf()];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        seen += 1;
        if seen > MOST_FOLDERS {
            break;
        }
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        let entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        let has_profile = entries.iter().any(|path| path.file_name().is_some_and(|name| name == DEFAULT_PGO));
        if has_profile && folder != main_dir && !entries.iter().any(|path| is_main(path)) {
            found.push(folder.join(DEFAULT_PGO));
        }
        folders.extend(entries.into_iter().filter(|path| {
            let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
            !hidden && path.is_dir() && !path.is_symlink()
        }));
    }
    found.sort();
    found
}

fn is_main(path: &Path) -> bool {
    let go_file = path.extension().is_some_and(|extension| extension == "go");
    go_file
        && fs::read_to_string(path)
            .is_ok_and(|text| text.lines().any(|line| line.trim_end() == "package main"))
}

fn read(file: &Path) -> Result<(Profile, u64)> {
    let bytes = match fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(go(GoRefusal::Missing { file: file.to_path_buf() }));
        }
        Err(error) => return Err(error).with_context(|| format!("{} can't be read", file.display())),
    };
    let profile = Profile::parse(&bytes)
        .map_err(|reason| go(GoRefusal::NotAProfile { file: file.to_path_buf(), reason }))?;
    Ok((profile, bytes.len() as u64))
}

fn go(refusal: GoRefusal) -> anyhow::Error {
    Refusal::Go(refusal).into()
}

/// The linker writes a dot in the last part of a path as `%2e`.
fn in_symbols(import_path: &str) -> String {
    let (head, last) = import_path.rsplit_once('/').map_or(("", import_path), |(head, last)| (head, last));
    let last = last.replace('.', "%2e");
    if head.is_empty() { last } else { format!("{head}/{last}") }
}

/// The equivalent command of the merge, ready to paste. The tool has no weights: it would need a file of weight 2 twice.
fn merge_command(profiles: &[(PathBuf, f64)]) -> String {
    let files: Vec<String> = profiles.iter().map(|(file, _)| file.display().to_string()).collect();
    let weights: Vec<String> = profiles.iter().map(|(_, weight)| weight.to_string()).collect();
    match profiles.iter().all(|(_, weight)| *weight == 1.0) {
        true => format!("go tool pprof -proto {}", files.join(" ")),
        false => {
            format!("go tool pprof -proto {}  # with the weights {}", files.join(" "), weights.join(", "))
        }
    }
}

fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let fresh = path.with_extension("writing");
    fs::write(&fresh, bytes).with_context(|| format!("{} can't be written", fresh.display()))?;
    fs::rename(&fresh, path).with_context(|| format!("{} can't be named", path.display()))
}

pub(super) fn remove_if_there(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{} can't be removed", path.display()))
        }
        _ => Ok(()),
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_hone_sets_are_refused() {
        let mut target = GoTarget::new("/w", ".");
        target.extra_flags = vec!["-race".into(), "-overlay=x".into()];
        assert!(target.check_flags().is_ok());
        for flag in ["-pgo=auto", "--pgo=x", "-o=/x", "-o"] {
            target.extra_flags[1] = flag.into();
            assert!(target.check_flags().unwrap_err().to_string().contains(flag));
        }
    }

    /// Killed behind the first move, and behind both.
    #[test]
    fn what_a_killed_run_set_aside_is_laid_back_and_nothing_else_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let (profile, place) = (dir.path().join("a.pgo"), dir.path().join(DEFAULT_PGO));
        let texts = || [&place, &set_aside(&place)].map(|path| fs::read_to_string(path).ok());
        let old = || [Some("old".to_owned()), None];
        fs::write(&profile, "new").unwrap();
        lay_back(&profile, &place).unwrap();
        assert_eq!(texts(), [None, None]);

        fs::write(set_aside(&place), "old").unwrap();
        lay_back(&profile, &place).unwrap();
        assert_eq!(texts(), old());

        std::mem::forget(Placed::lay(&profile, place.clone()).unwrap());
        assert_eq!(texts(), ["new", "old"].map(|text| Some(text.to_owned())));
        lay_back(&profile, &place).unwrap();
        assert_eq!(texts(), old());

        std::mem::forget(Placed::lay(&profile, place.clone()).unwrap());
        fs::write(&place, "of the user").unwrap();
        let refused = lay_back(&profile, &place).unwrap_err().to_string();
        assert!(refused.contains("left over from an interrupted run"), "{refused}");
        assert_eq!(texts(), ["of the user", "old"].map(|text| Some(text.to_owned())));
    }

    #[test]
    fn a_placed_profile_goes_as_it_came() {
        let dir = tempfile::tempdir().unwrap();
        let (profile, place) = (dir.path().join("a.pgo"), dir.path().join(DEFAULT_PGO));
        fs::write(&profile, "new").unwrap();
        let text = || fs::read_to_string(&place).ok();

        Placed::lay(&profile, place.clone()).unwrap().put_back().unwrap();
        assert_eq!(text(), None);
        fs::write(&place, "old").unwrap();
        let placed = Placed::lay(&profile, place.clone()).unwrap();
        assert_eq!(text().as_deref(), Some("new"));
        let again = Placed::lay(&profile, place.clone()).unwrap_err().to_string();
        assert!(again.contains("left over from an interrupted run"), "{again}");
        drop(placed);
        assert_eq!(text().as_deref(), Some("old"));
        assert_eq!(Placed::lay(&profile, place.clone()).unwrap().keep().unwrap(), place);
        assert_eq!((text().as_deref(), fs::read_dir(dir.path()).unwrap().count()), (Some("new"), 2));
    }

    #[test]
    fn a_path_is_written_as_the_linker_does() {
        assert_eq!(in_symbols("gopkg.in/yaml.v3"), "gopkg.in/yaml%2ev3");
        assert_eq!(in_symbols("lab"), "lab");
    }
}

//! The builder of a target, and its results in the run's folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_binary::c_toolchain::{self, CToolchain};
use hone_binary::go::{GoPgo, GoTarget};
use hone_binary::recipe::{Recipe, RecipeBuilder, sugar};
use hone_binary::{BuildRequest, Builder, Built, CargoTarget, GivenBinary, Pgo, ProfileForm};

use super::cache::{self, Cache};
use super::kinds::Kind;
use super::steps::Told;
use crate::job::Job;
use hone_experiment::ending::Usage;
use hone_experiment::spec::target::{Build, Cargo, Form, Go};
use hone_experiment::variants;

impl<'a> Job<'a> {
    /// The builder of this target, after all cheap checks.
    pub(super) fn builder(&self) -> Result<Box<dyn Builder + 'a>> {
        let work = self.work();
        match &self.experiment.target.form {
            Form::Cargo(cargo) => Ok(Box::new(Pgo::prepare(self.runner, self.cargo_target(cargo)?, &work)?)),
            Form::Recipe(recipe) => {
                let toolchain = CToolchain::find(self.runner, recipe.compiler.as_deref())?;
                self.tells_compiler(recipe.compiler.is_none(), &toolchain);
                let jobs = recipe.jobs.unwrap_or_else(|| {
                    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
                });
                let recipe = Recipe {
                    source: self.there("source", &recipe.source)?,
                    commands: commands(&recipe.build),
                    program: recipe.program.clone(),
                    jobs,
                };
                let hone = std::env::current_exe().context("the program of Hone itself can't be found")?;
                let shop = RecipeBuilder::new(self.runner, recipe, toolchain, &hone, &work)?;
                Ok(Box::new(shop.leaving_out(self.home)))
            }
            Form::Go(go) => Ok(Box::new(GoPgo::prepare(self.runner, self.go_target(go)?, &work)?)),
            Form::Jvm(_) => bail!(Usage(
                "the target is a Java service, which Hone does not build\n  next: use hone optimize, which compares \
                 its options and caches"
                    .to_owned()
            )),
            Form::Elf { binary } => {
                Ok(Box::new(GivenBinary::prepare(&self.there("binary", binary)?, &work)?))
            }
        }
    }

    /// A variable that names a tool affects the choice of the compiler, which surprises users.
    fn tells_compiler(&self, is_unnamed: bool, toolchain: &CToolchain) {
        let variables = c_toolchain::tools_named();
        if let (true, false, Some(compiler)) = (is_unnamed, variables.is_empty(), toolchain.receipts.first())
        {
            self.progress.line(&format!(
                "compiler: {} ({}), the newest one that matches {}",
                compiler.version,
                compiler.path,
                variables.join(" and ")
            ));
        }
    }

    /// An existing path of the experiment.
    pub(super) fn there(&self, key: &str, path: &Path) -> Result<PathBuf> {
        let path = self.beside(path);
        path.canonicalize().with_context(|| {
            format!("{}: target.{key} names {}, which does not exist", self.file.display(), path.display())
        })
    }

    /// A path of the experiment is relative to its file.
    pub(super) fn beside(&self, path: &Path) -> PathBuf {
        let folder = self.file.parent().filter(|folder| !folder.as_os_str().is_empty());
        folder.unwrap_or(Path::new(".")).join(path)
    }

    fn cargo_target(&self, cargo: &Cargo) -> Result<CargoTarget> {
        let manifest = self.there("manifest", &cargo.manifest)?;
        let folder =
            if manifest.is_dir() { manifest } else { manifest.parent().unwrap_or(&manifest).to_owned() };
        Ok(CargoTarget {
            package: Some(cargo.package.clone()),
            profile: cargo.profile.clone(),
            features: cargo.features.clone(),
            c_code: cargo.c_code,
            extra_rustflags: self.mangling()?,
            ..CargoTarget::new(folder, &cargo.bin)
        })
    }

    /// BOLT takes every function with `.cold` or `.warm` in its name for the split-off part of another function, and stops if that one is
    /// missing. rustc's older names contain `..cold..` wherever a module called `cold` has an `impl`. All builds of a run use the same
    /// mangling, because profiles refer to names. An existing profile defines it.
    fn mangling(&self) -> Result<Vec<String>> {
        let is_newer = match self.given_profile()? {
            None => variants::needs_bolt(&self.experiment.variants),
            Some(Kind::Given { file, form: ProfileForm::Counts | ProfileForm::Fdata }) => {
                let bytes = fs::read(&file).with_context(|| format!("{} can't be read", file.display()))?;
                has_newer_names(&bytes)
            }
            Some(_) => false,
        };
        Ok(is_newer.then(|| "-Csymbol-mangling-version=v0".to_owned()).into_iter().collect())
    }

    pub(super) fn go_target(&self, go: &Go) -> Result<GoTarget> {
        Ok(GoTarget::new(self.there("source", &go.module)?, &go.package))
    }

    /// A build, with a copy of its program in the run's folder. A later build can't change a measured program.
    pub(super) fn build(&self, builder: &dyn Builder, order: &BuildRequest) -> Result<Told<Built>> {
        let cache = Cache::of(self, builder, order)?;
        let (mut built, is_cached) = match cache.as_ref().and_then(Cache::find) {
            Some(built) => (built, true),
            None => (builder.build(order)?, false),
        };
        if let Some(cache) = cache.filter(|_| !is_cached) {
            cache.keep(&built)?;
        }
        let times = BuildTimes::open(self.work().join("build-times.json"));
        let note = if is_cached {
            format!("unchanged since the build that took {:.1} s", built.build_s)
        } else if built.fresh {
            if let Some(earlier_s) = times.of(&built.facts.sha256) {
                built.build_s = earlier_s;
            }
            format!("up to date; the earlier build took {:.1} s", built.build_s)
        } else {
            times.remember(&built.facts.sha256, built.build_s)?;
            format!("built in {:.1} s", built.build_s)
        };
        built.variant.clone_from(&order.variant);
        self.keep_program(&mut built)?;
        let mut note = format!("{note}; {}", sizes(&built));
        if let Some(coverage) = built.coverage() {
            note.push_str(&format!(", {}", hone_document::optimization::coverage(coverage)));
        }
        Ok(Told { note, command: Some(built.command()), result: built })
    }

    /// The path of a variant's program in the run's folder.
    pub(super) fn kept_program(&self, variant: &str) -> PathBuf {
        self.folder.join("bin").join(variant).join(self.target().name())
    }

    /// Copies a program into the run's folder.
    pub(super) fn keep_program(&self, built: &mut Built) -> Result<()> {
        let kept = self.kept_program(&built.variant);
        let folder = kept.parent().unwrap_or(&kept);
        fs::create_dir_all(folder).and_then(|()| fs::copy(&built.executable, &kept)).with_context(|| {
            format!("{} can't be copied to {}", built.executable.display(), kept.display())
        })?;
        built.executable = kept;
        Ok(())
    }

    /// Builds of old profiles are large and useless.
    pub(super) fn forget_other_builds(&self, profiles: &[String]) -> Result<()> {
        let keep: Vec<&str> = profiles.iter().map(|hash| hash.get(..16).unwrap_or(hash)).collect();
        for entry in fs::read_dir(self.work())? {
            let path = entry?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let of_profile = ["pgo-", "cs-instrumented-"].iter().find_map(|what| name.strip_prefix(what));
            if of_profile.is_some_and(|rest| !keep.iter().any(|hash| rest.starts_with(hash))) {
                fs::remove_dir_all(&path).with_context(|| format!("{} can't be removed", path.display()))?;
            }
        }
        Ok(())
    }

    /// Files that Hone itself writes or reads are not sources, even inside the source tree.
    pub(super) fn ours(&self) -> Vec<PathBuf> {
        let home = self.home;
        let runs =
            [home.to_owned(), home.join("builds"), home.join("ledger.jsonl"), self.folder.path().to_owned()];
        // The build's commands include the settings of the experiment, and count by themselves.
        runs.into_iter().chain([self.file.to_owned()]).chain(said_to()).collect()
    }

    /// The identity of a target's sources; `None` if its own build system knows what is up to date.
    pub(super) fn source_hash(&self) -> Result<Option<String>> {
        match &self.experiment.target.form {
            Form::Recipe(recipe) => {
                let source = self.there("source", &recipe.source)?;
                let commands = format!("{:?} {}", commands(&recipe.build), recipe.program.display());
                Ok(Some(cache::Tree::of(&source, &self.ours())?.hash(&commands)))
            }
            Form::Cargo(_) | Form::Go(_) | Form::Elf { .. } | Form::Jvm(_) => Ok(None),
        }
    }
}

/// The files of standard output and standard error. They grow during the run, and are often inside the source tree.
fn said_to() -> impl Iterator<Item = PathBuf> {
    let file = |stream: u32| std::fs::read_link(format!("/proc/self/fd/{stream}")).ok();
    [1, 2].into_iter().filter_map(file).filter(|path| path.is_file())
}

/// Whether a profile's functions have rustc's newer names (v0), which it contains unchanged.
fn has_newer_names(profile: &[u8]) -> bool {
    ["_RNv", "_RINv"].iter().any(|begin| profile.windows(begin.len()).any(|bytes| bytes == begin.as_bytes()))
}

/// Sizes of a program, in words.
pub(super) fn sizes(built: &Built) -> String {
    format!(
        "file {}, .text {}",
        hone_format::bytes(built.facts.file_bytes),
        hone_format::bytes(built.facts.text_bytes)
    )
}

fn commands(build: &Build) -> Vec<Vec<String>> {
    match build {
        Build::Commands(commands) => commands.clone(),
        Build::Cmake(of) => {
            sugar::cmake(&sugar::CMake { arguments: of.arguments.clone(), target: of.target.clone() })
        }
        Build::Meson(of) => {
            sugar::meson(&sugar::Meson { arguments: of.arguments.clone(), target: of.target.clone() })
        }
        Build::Make(of) => sugar::make(&sugar::Make {
            configure: of.configure.clone(),
            arguments: of.arguments.clone(),
            target: of.target.clone(),
        }),
    }
}

/// Build times of the programs that still exist, by hash.
struct BuildTimes {
    path: PathBuf,
    times: BTreeMap<String, f64>,
}

impl BuildTimes {
    /// A missing or unreadable file gives no times.
    fn open(path: PathBuf) -> Self {
        let times = fs::read_to_string(&path).ok().and_then(|text| serde_json::from_str(&text).ok());
        Self { path, times: times.unwrap_or_default() }
    }

    fn of(&self, sha256: &str) -> Option<f64> {
        self.times.get(sha256).copied()
    }

    fn remember(mut self, sha256: &str, build_s: f64) -> Result<()> {
        self.times.insert(sha256.to_owned(), build_s);
        fs::write(&self.path, serde_json::to_string_pretty(&self.times)?)
            .with_context(|| format!("{} can't be written", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_says_which_names_its_build_had() {
        assert!(has_newer_names(b"1 _RNvXNtCs3QFdgDZC7S6_5store4cold 4 1 main 0 0 1\n"));
        assert!(!has_newer_names(b"1 _ZN5store4cold3get17h63ce44612d8b2403E 4 1 main 0 0 1\n"));
    }
}

//! A program made by the commands of its own build system, each variant in a fresh copy of its sources.
//!
//! Nothing is asked of the build but that it takes its compilers from CC and CXX or from PATH: there it finds the stand-ins of
//! [`crate::shim`], which add the flags of the phase. What came of it is read from the linker's map, see [`crate::linkmap`].

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use hone_record::{HotFunction, ProfileApplied, ProfileProof};
use hone_tool::{Call, Runner};
use serde::{Deserialize, Serialize};

use crate::elf::{self, FileFacts, file_facts};
use crate::family::{Family, Tools};
use crate::linkmap::{Coverage, LinkMap, coverage, link_of};
use crate::pgo::{merge_raw, read_profile, refuse_if};
use crate::shim::{Entry, ORDERS, Orders, read_log};
use crate::{Merged, Refusal, proof, said};

/// A large C++ service takes hours on a small machine.
const LIMIT: Duration = Duration::from_secs(6 * 3600);

/// Folders of version control, which no build needs and which can be larger than the sources.
const LEFT_OUT: [&str; 4] = [".git", ".hg", ".svn", ".jj"];

/// A build, or what is to be built, that must not be used. It is inside of [`crate::Refusal::Recipe`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecipeRefusal {
    /// The commands did not make the program.
    #[error("the build ended well, but {} is not there\n  next: name the program as it lies in the source folder after the build", program.display())]
    NoProgram {
        /// Where it should be.
        program: PathBuf,
    },
    /// No link of the program went through a stand-in.
    #[error(
        "no compiler that Hone stands in for has linked {}: the build does not take its compilers from CC, CXX or PATH, or a cache has \
         answered\n  next: pass $CC and $CXX on in the build's commands; switch compiler caches off", program.display()
    )]
    NotSeen {
        /// The program.
        program: PathBuf,
    },
    /// The link's map can't be read.
    #[error("the link map {} is neither of lld nor of GNU ld\n  next: link with one of these", map.display())]
    OtherMap {
        /// The map.
        map: PathBuf,
    },
    /// A step that only profiles of clang take.
    #[error(
        "the counts of gcc are not merged: they lie beside the objects\n  next: build with the folder of the counting build as its profile"
    )]
    CountsOfGcc,
    /// None of the program's text was compiled under the flags.
    #[error(
        "no object of {} was made by a compiler that Hone stands in for; most of its text is in {largest}\n  next: build from clean \
         sources, without objects that were there before", program.display()
    )]
    NothingShaped {
        /// The program.
        program: PathBuf,
        /// The object with the most text, and why.
        largest: String,
    },
}

/// How a program is built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// The folder of its sources. It is copied and never built in.
    pub source: PathBuf,
    /// Commands, each a program with its arguments, run one after the other in the copy. `{jobs}` stands for the number of jobs.
    pub commands: Vec<Vec<String>>,
    /// The program, relative to the source folder.
    pub program: PathBuf,
    /// Jobs of a parallel build.
    pub jobs: usize,
}

/// The profile's part in a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guide {
    /// None.
    None,
    /// The program counts.
    Generate,
    /// The program is shaped by a profile: a merged file for clang; for gcc the copy of the sources in which the counting program
    /// was built and beside whose objects it left its `.gcda` files.
    Use(PathBuf),
}

/// Which build is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Its name, which is also that of its folder.
    pub variant: String,
    /// The profile's part.
    pub guide: Guide,
    /// Whether the linker keeps relocations, which BOLT needs.
    pub relocs: bool,
    /// Whether switches may become tables of addresses.
    pub jump_tables: bool,
}

/// A built variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecipeBuilt {
    /// Its name.
    pub variant: String,
    /// The copy of the sources in which it was built.
    pub folder: PathBuf,
    /// The program.
    pub executable: PathBuf,
    /// The commands, ready to paste.
    pub commands: Vec<String>,
    /// Wall time of the commands.
    pub build_s: f64,
    /// What the commands said, the compilers' warnings among it.
    pub stderr_paths: Vec<PathBuf>,
    /// Actions of compilers.
    pub log: Vec<Entry>,
    /// How much of the program's text the flags have shaped.
    pub coverage: Coverage,
    /// Sizes and hashes.
    pub facts: FileFacts,
}

/// Flags for compiling and for linking.
fn flags(family: &Family, order: &Order) -> (Vec<String>, Vec<String>) {
    let (mut compile, mut link): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let guide = match (&order.guide, &family.tools) {
        (Guide::None, _) => vec![],
        (Guide::Generate, Tools::Llvm { .. }) => vec!["-fprofile-generate".to_owned()],
        // Without it, counts of threads are lost.
        (Guide::Generate, Tools::Gnu { .. }) => {
            vec!["-fprofile-generate".to_owned(), "-fprofile-update=prefer-atomic".to_owned()]
        }
        (Guide::Use(profile), Tools::Llvm { .. }) => vec![format!("-fprofile-use={}", profile.display())],
        // Threads leave counts that do not add up, and a file without a profile is no fault.
        (Guide::Use(_), Tools::Gnu { .. }) => {
            ["-fprofile-use", "-fprofile-correction", "-Wno-missing-profile"].map(str::to_owned).to_vec()
        }
    };
    // Link-time optimisation compiles at the link.
    link.extend(guide.iter().cloned());
    compile.extend(guide);
    if !order.jump_tables {
        compile.push("-fno-jump-tables".to_owned());
    }
    match &family.tools {
        Tools::Llvm { lld, .. } => link.push(format!("--ld-path={}", lld.display())),
        // BOLT can't join the halves into which gcc splits functions.
        Tools::Gnu { .. } if order.relocs => compile.push("-fno-reorder-blocks-and-partition".to_owned()),
        Tools::Gnu { .. } => {}
    }
    if order.relocs {
        link.push("-Wl,--emit-relocs".to_owned());
    }
    (compile, link)
}

/// Builds variants of one program in one work folder.
pub struct RecipeWorkshop<'a> {
    runner: &'a dyn Runner,
    recipe: Recipe,
    family: Family,
    /// The program that stands in for the compilers.
    hone: PathBuf,
    work: PathBuf,
}

impl<'a> RecipeWorkshop<'a> {
    /// A workshop. `hone` is the program of Hone itself.
    ///
    /// # Errors
    /// When a folder is not there or can't be made.
    pub fn new(
        runner: &'a dyn Runner,
        recipe: Recipe,
        family: Family,
        hone: &Path,
        work: &Path,
    ) -> Result<Self> {
        fs::create_dir_all(work).with_context(|| format!("{} can't be made", work.display()))?;
        let there =
            |path: &Path| path.canonicalize().with_context(|| format!("{} is not there", path.display()));
        let recipe = Recipe { source: there(&recipe.source)?, ..recipe };
        Ok(Self { runner, recipe, family, hone: there(hone)?, work: there(work)? })
    }

    /// Builds one variant from a fresh copy of the sources; what an earlier build of this name has left is removed.
    ///
    /// # Errors
    /// When a command fails, and [`RecipeRefusal`] inside of [`crate::Refusal`] when its result proves nothing.
    pub fn build(&self, order: &Order) -> Result<RecipeBuilt> {
        let folder = self.work.join(&order.variant);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("{} can't be removed", folder.display()))?;
        }
        let source = folder.join("source");
        copy_sources(&self.recipe.source, &source, &self.work)?;
        if let (Guide::Use(trained), Tools::Gnu { .. }) = (&order.guide, &self.family.tools) {
            copy_counts(trained, &source)?;
        }
        let mut orders = Orders::new(&self.family, &folder);
        (orders.compile, orders.link) = flags(&self.family, order);
        let names = folder.join("bin");
        let file = orders.install(&names, &self.hone)?;
        let (began, start) = (SystemTime::now(), Instant::now());
        let (mut commands, mut stderr_paths) = (Vec::new(), Vec::new());
        for words in &self.recipe.commands {
            let call = self.call(words, order, &source, &names, &file)?;
            stderr_paths.push(self.runner.run(&call)?.stderr_path);
            commands.push(call.to_string());
        }
        let build_s = start.elapsed().as_secs_f64();
        let executable = source.join(&self.recipe.program);
        if !executable.is_file() {
            return Err(refused(RecipeRefusal::NoProgram { program: executable }));
        }
        let facts = file_facts(&executable)?;
        let log = read_log(&fs::read_to_string(&orders.log).unwrap_or_default())?;
        let coverage = covered(&log, &executable, &facts, began)?;
        let variant = order.variant.clone();
        Ok(RecipeBuilt {
            variant,
            folder: source,
            executable,
            commands,
            build_s,
            stderr_paths,
            log,
            coverage,
            facts,
        })
    }

    fn profdata(&self) -> Result<&Path> {
        match &self.family.tools {
            Tools::Llvm { profdata, .. } => Ok(profdata),
            Tools::Gnu { .. } => Err(refused(RecipeRefusal::CountsOfGcc)),
        }
    }

    /// Merges the raw profiles of a training; clang only.
    ///
    /// # Errors
    /// [`Refusal`] when there is none, one is empty, or they can't be merged.
    pub fn merge(&self, raw_dir: &Path) -> Result<Merged> {
        merge_raw(self.runner, self.profdata()?, &self.work, raw_dir)
    }

    /// Proves that a profile has counts and is of this counting build; clang only.
    ///
    /// # Errors
    /// [`Refusal`] when it must not be used.
    pub fn prove_profile(&self, merged: &Merged, counting: &RecipeBuilt) -> Result<ProfileProof> {
        let profile = read_profile(self.runner, self.profdata()?, &self.work, &merged.path)?;
        let in_binary = elf::instrumented_functions(&counting.executable)?;
        proof::holds(&profile, &merged.path, &in_binary, &counting.executable)?;
        let hot = profile.hot().into_iter().map(|function| HotFunction {
            name: proof::demangle(function.symbol()),
            max_count: function.max_count,
        });
        let hot_functions: Vec<HotFunction> = hot.collect();
        Ok(ProfileProof {
            path: merged.path.display().to_string(),
            sha256: merged.sha256.clone(),
            bytes: merged.bytes,
            raw_files: merged.raw_files,
            raw_bytes: merged.raw_bytes,
            level: profile.level().to_owned(),
            functions: profile.functions.len() as u64,
            max_count: profile.max_count,
            total_count: profile.total_count,
            // All that a recipe compiles is the target's own.
            hot_functions_of_target: u32::try_from(hot_functions.len()).unwrap_or(u32::MAX),
            hot_functions,
        })
    }

    /// Proves that the compilers used a profile: from what they said, and since the code is another.
    ///
    /// # Errors
    /// [`Refusal`] when they did not, or most of the profile was thrown away.
    pub fn prove_applied(
        &self,
        shaped: &RecipeBuilt,
        plain: &RecipeBuilt,
        proof: &ProfileProof,
    ) -> Result<ProfileApplied> {
        let read = |path: &PathBuf| {
            let bytes = fs::read(path).with_context(|| format!("{} can't be read", path.display()))?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let logs = shaped.stderr_paths.iter().map(read).collect::<Result<Vec<String>>>()?;
        let applied = said::applied(&logs, proof.total_count, proof.functions)?;
        refuse_if(shaped.facts.text_sha256 == plain.facts.text_sha256, || Refusal::SameCode {
            optimized: shaped.executable.clone(),
            baseline: plain.executable.clone(),
        })?;
        Ok(applied)
    }

    fn call(
        &self,
        words: &[String],
        order: &Order,
        source: &Path,
        names: &Path,
        orders: &Path,
    ) -> Result<Call> {
        let jobs = self.recipe.jobs.max(1).to_string();
        let mut words = words.iter().map(|word| word.replace("{jobs}", &jobs));
        let program = words.next().context("a command of the build is empty")?;
        let mut path = OsString::from(names);
        if let Some(rest) = env::var_os("PATH") {
            path.push(":");
            path.push(rest);
        }
        let mut call = Call::new(format!("build-{}", order.variant), program, source).args(words);
        call = call.env("PATH", path).env(ORDERS, orders).limit(LIMIT);
        call = call.env("CC", names.join("cc")).env("AR", &self.family.ar);
        call = call.env("RANLIB", &self.family.ranlib).env("NM", &self.family.nm);
        if self.family.cxx.is_some() {
            call = call.env("CXX", names.join("c++"));
        }
        // An object out of a cache is an object that no compiler was asked for; and what a build runs must not count.
        Ok(call.env("CCACHE_DISABLE", "1").env_remove("LLVM_PROFILE_FILE"))
    }
}

fn refused(refusal: RecipeRefusal) -> anyhow::Error {
    crate::Refusal::Recipe(refusal).into()
}

fn covered(log: &[Entry], program: &Path, facts: &FileFacts, began: SystemTime) -> Result<Coverage> {
    let not_seen = || refused(RecipeRefusal::NotSeen { program: program.to_path_buf() });
    let link = link_of(log, program, &facts.sha256).ok_or_else(not_seen)?;
    let file = link.map.clone().ok_or_else(not_seen)?;
    let bytes = fs::read(&file).with_context(|| format!("the link map {} can't be read", file.display()))?;
    let map = LinkMap::parse(&String::from_utf8_lossy(&bytes));
    let map = map.ok_or_else(|| refused(RecipeRefusal::OtherMap { map: file }))?;
    let coverage = coverage(&map, link, log, began);
    if coverage.shaped_bytes == 0 {
        let largest = coverage.others.first().map(|other| format!("{}: {}", other.object, other.reason));
        let largest = largest.unwrap_or_else(|| "no object".to_owned());
        return Err(refused(RecipeRefusal::NothingShaped { program: program.to_path_buf(), largest }));
    }
    Ok(coverage)
}

/// Copies a tree of sources with its times (make decides by them) and links; `but` is left out, since the work folder may lie
/// inside of it.
fn copy_sources(from: &Path, to: &Path, but: &Path) -> Result<()> {
    let told = || format!("{} can't be copied to {}", from.display(), to.display());
    fs::create_dir_all(to).with_context(told)?;
    for entry in fs::read_dir(from).with_context(told)? {
        let entry = entry.with_context(told)?;
        let (path, name) = (entry.path(), entry.file_name());
        if path == but || LEFT_OUT.iter().any(|left| name == *left) {
            continue;
        }
        let kind = entry.file_type().with_context(told)?;
        let target = to.join(&name);
        if kind.is_dir() {
            copy_sources(&path, &target, but)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&path).with_context(told)?, &target)
                .with_context(told)?;
        } else if kind.is_file() {
            copy_file(&path, &target).with_context(|| format!("{} can't be copied", path.display()))?;
        }
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::copy(from, to)?;
    let modified = from.metadata()?.modified()?;
    // Sources may be read-only; their copies are ours.
    let mut permissions = to.metadata()?.permissions();
    std::os::unix::fs::PermissionsExt::set_mode(
        &mut permissions,
        std::os::unix::fs::PermissionsExt::mode(&from.metadata()?.permissions()) | 0o200,
    );
    fs::set_permissions(to, permissions)?;
    fs::File::options().write(true).open(to)?.set_modified(modified)
}

/// gcc looks for counts beside the object that it is to make, so they go to the same place in the new copy.
fn copy_counts(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("{} can't be read", from.display()))? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            copy_counts(&path, &to.join(entry.file_name()))?;
        } else if path.extension().is_some_and(|end| end == "gcda") {
            fs::create_dir_all(to)?;
            copy_file(&path, &to.join(entry.file_name()))
                .with_context(|| format!("{} can't be copied", path.display()))?;
        }
    }
    Ok(())
}

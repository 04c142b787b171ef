//! Reuses builds as long as none of their inputs has changed. This serves targets that build from a fresh copy of the sources.
//! Cargo and Go find out themselves what is up to date.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hone_binary::lock::sha256_of;
use hone_binary::recipe::is_no_source;
use hone_binary::{BuildRequest, Builder, Built, file_facts, sha256_hex};
use hone_record::ToolReceipt;
use serde::{Deserialize, Serialize};

use crate::job::Job;

/// Variables that identify a user or a job and do not affect a build. All others count, because a build system can read them.
const NO_PART: [&str; 19] = [
    "PWD",
    "OLDPWD",
    "SHLVL",
    "_",
    "TERM",
    "COLUMNS",
    "LINES",
    "LS_COLORS",
    "PS1",
    "MAIL",
    "TMUX",
    "TMUX_PANE",
    "WINDOWID",
    "DISPLAY",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "LESSOPEN",
    "LESSCLOSE",
    // Each container has another value.
    "HOSTNAME",
];
const NO_PART_BEGINS: [&str; 10] =
    ["SSH_", "XDG_SESSION", "DBUS_", "GITHUB_", "RUNNER_", "HIST", "CI_", "GITLAB_", "ACTIONS_", "SYSTEMD_"];

/// Variables that pass flags and tools to builds, besides those with FLAGS in their names.
const FLAGS: [&str; 14] = [
    "AR",
    "AS",
    "CC",
    "CPATH",
    "CPLUS_INCLUDE_PATH",
    "CXX",
    "C_INCLUDE_PATH",
    "LD",
    "LIBRARY_PATH",
    "RUSTC",
    "RUSTC_BOOTSTRAP",
    "RUSTC_WRAPPER",
    "RUSTUP_TOOLCHAIN",
    "SOURCE_DATE_EPOCH",
];
const FLAGS_BEGIN: [&str; 13] = [
    "AR_",
    "CARGO_BUILD_",
    "CARGO_PROFILE_",
    "CARGO_TARGET_",
    "CARGO_UNSTABLE_",
    "CC_",
    "CGO_",
    "CMAKE_",
    "CXX_",
    "GO",
    "HOST_",
    "PKG_CONFIG_",
    "TARGET_",
];
/// The number of jobs of a parent make, and the folder for builds.
const NO_FLAGS: [&str; 5] =
    ["MAKEFLAGS", "MFLAGS", "CARGO_MAKEFLAGS", "CARGO_TARGET_DIR", "CARGO_BUILD_JOBS"];

/// Programs of build systems that no receipt names.
const BUILDERS: [&str; 9] = ["make", "cmake", "meson", "ninja", "ld", "ar", "as", "pkg-config", "sh"];

/// The place of one build, and the key of its present inputs.
pub(super) struct Cache {
    file: PathBuf,
    key: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    key: String,
    built: Built,
}

impl Cache {
    /// `None` for targets that need none.
    pub(super) fn of(job: &Job<'_>, builder: &dyn Builder, order: &BuildRequest) -> Result<Option<Self>> {
        let Some(source) = job.source_hash()? else { return Ok(None) };
        let key = key(&source, builder, order, 1)?;
        Ok(Some(Self { file: job.work().join(format!("built-{}.json", order.variant)), key }))
    }

    /// The cached build, if its inputs are the same and all of its files still exist.
    pub(super) fn find(&self) -> Option<Built> {
        let kept: Kept = serde_json::from_str(&fs::read_to_string(&self.file).ok()?).ok()?;
        let built = Some(kept).filter(|kept| kept.key == self.key)?.built;
        let whole = built.stderr_paths.iter().all(|path| path.is_file());
        let same = file_facts(&built.executable).is_ok_and(|facts| facts.sha256 == built.facts.sha256);
        (whole && same && built.changed_library().is_none()).then_some(built)
    }

    pub(super) fn keep(&self, built: &Built) -> Result<()> {
        let text = serde_json::to_string(&Kept { key: self.key.clone(), built: built.clone() })?;
        fs::write(&self.file, text).with_context(|| format!("{} can't be written", self.file.display()))
    }
}

/// One hash over all inputs of builds: Hone, sources, tools, commands, environment, and the machine. The CPU defines what `native` means to a
/// compiler, and the system provides the libraries. `builds` is the number of layouts.
pub(super) fn key(source: &str, builder: &dyn Builder, order: &BuildRequest, builds: u32) -> Result<String> {
    // A rebuilt compiler may print the same version.
    let stamped =
        |tool: ToolReceipt| format!("{} {} {:?}", tool.path, tool.version, stamp(Path::new(&tool.path)));
    let tools: Vec<String> = builder.receipts().into_iter().map(stamped).collect();
    // The contents identify a profile.
    let commands = builder.commands(order)?;
    let (environment, builders, hone) = (environment(std::env::vars_os()), builders(), hone()?);
    let machine = machine(Path::new("/"));
    Ok(sha256_hex(
        format!(
            "{hone}\n{source}\n{order:?} {builds}\n{tools:?}\n{commands:?}\n{builders:?}\n{environment:?}\n{machine:?}"
        )
        .as_bytes(),
    ))
}

/// The properties of a machine that affect builds: the model and features of its first CPU, the release of its system, and the user's Cargo
/// settings.
fn machine(root: &Path) -> Vec<String> {
    let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let cpu = text(&root.join("proc/cpuinfo"));
    let first = cpu.lines().take_while(|line| !line.is_empty());
    let of_cpu = ["vendor_id", "cpu family", "model", "stepping", "flags", "Features", "CPU "];
    let counts = |line: &&str| of_cpu.iter().any(|name| line.starts_with(name));
    let cargo =
        cargo_home().into_iter().flat_map(|home| ["config.toml", "config"].map(|name| home.join(name)));
    let files = std::iter::once(root.join("etc/os-release")).chain(cargo).map(|path| text(&path));
    first.filter(counts).map(str::to_owned).chain(files).collect()
}

fn cargo_home() -> Option<PathBuf> {
    let named = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))
}

/// The variables of an environment that pass flags and tools to builds.
pub(super) fn flags(all: impl Iterator<Item = (OsString, OsString)>) -> BTreeMap<String, String> {
    let gives = |name: &str| {
        !NO_FLAGS.contains(&name)
            && (name.contains("FLAGS")
                || FLAGS.contains(&name)
                || FLAGS_BEGIN.iter().any(|begin| name.starts_with(begin)))
    };
    let words =
        |(name, value): (OsString, OsString)| (name.to_string_lossy().into_owned(), format!("{value:?}"));
    all.map(words).filter(|(name, _)| gives(name)).collect()
}

/// The part of an environment that can affect a build.
fn environment(all: impl Iterator<Item = (OsString, OsString)>) -> BTreeMap<OsString, OsString> {
    let counts =
        |name: &str| !NO_PART.contains(&name) && !NO_PART_BEGINS.iter().any(|begin| name.starts_with(begin));
    all.filter(|(name, _)| counts(&name.to_string_lossy())).collect()
}

/// The programs of build systems in PATH.
fn builders() -> Vec<(PathBuf, u64, i64)> {
    let folders: Vec<PathBuf> =
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    let found =
        |name: &&str| stamp(&folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file())?);
    BUILDERS.iter().filter_map(found).collect()
}

/// The real path of a program, its size and its time.
fn stamp(program: &Path) -> Option<(PathBuf, u64, i64)> {
    let facts = program.metadata().ok()?;
    Some((program.canonicalize().ok()?, facts.len(), facts.mtime()))
}

/// Version and hash of Hone itself, because its compiler wrappers take part in every build.
pub(super) fn hone() -> Result<String> {
    static HONE: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    if let Some(known) = HONE.get() {
        return Ok(known.clone());
    }
    let path = std::env::current_exe().context("the program of Hone itself can't be found")?;
    let (sha256, _) = sha256_of(&path)?;
    Ok(HONE.get_or_init(|| format!("{} {sha256}", env!("CARGO_PKG_VERSION"))).clone())
}

/// The files and links of a tree by name, each with its kind and hash. Links that leave the tree include the contents
/// of their targets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tree(BTreeMap<String, String>);

impl Tree {
    /// The excluded folders and files.
    pub(super) fn of(folder: &Path, but: &[PathBuf]) -> Result<Self> {
        let root = folder.canonicalize().with_context(|| format!("{} can't be read", folder.display()))?;
        let but = but.iter().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone())).collect();
        let seen = BTreeSet::from([root.clone()]);
        let mut listing = Listing { root: root.clone(), but, seen, of: Self::default() };
        listing.tree(&root)?;
        Ok(listing.of)
    }

    /// One hash over all names and contents, and over `and`.
    pub(super) fn hash(&self, and: &str) -> String {
        sha256_hex(format!("{and}\n{:?}", self.0).as_bytes())
    }

    /// The names that only one of the two has, or that differ.
    pub(super) fn differences<'a>(&'a self, other: &'a Self) -> Vec<&'a str> {
        let names: BTreeSet<&String> = self.0.keys().chain(other.0.keys()).collect();
        let differs = |name: &&String| self.0.get(*name) != other.0.get(*name);
        names.into_iter().filter(differs).map(String::as_str).collect()
    }
}

struct Listing {
    root: PathBuf,
    but: Vec<PathBuf>,
    /// The tree, and the folders outside it that were listed.
    seen: BTreeSet<PathBuf>,
    of: Tree,
}

impl Listing {
    fn tree(&mut self, folder: &Path) -> Result<()> {
        let told = |path: &Path| format!("{} can't be read", path.display());
        let mut paths = BTreeSet::new();
        for entry in fs::read_dir(folder).with_context(|| told(folder))? {
            paths.insert(entry.with_context(|| told(folder))?.path());
        }
        for path in paths {
            // Builds do not see these files.
            if self.but.contains(&path) || is_no_source(&path) {
                continue;
            }
            let facts = path.symlink_metadata().with_context(|| told(&path))?;
            if facts.is_dir() {
                self.tree(&path)?;
            } else if facts.is_symlink() {
                let to = fs::read_link(&path).with_context(|| told(&path))?;
                self.note(&path, format!("link {}", to.display()));
                self.behind(&path)?;
            } else if facts.is_file() {
                self.file(&path)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> Result<()> {
        let (sha256, _) = sha256_of(path)?;
        let facts = path.metadata().with_context(|| format!("{} can't be read", path.display()))?;
        self.note(path, format!("{sha256} {:o}", facts.mode() & 0o111));
        Ok(())
    }

    fn note(&mut self, path: &Path, what: String) {
        let name = path.strip_prefix(&self.root).unwrap_or(path).display().to_string();
        self.of.0.insert(name, what);
    }

    /// The target of a link that leaves everything listed. A dangling link consists of its text alone.
    fn behind(&mut self, link: &Path) -> Result<()> {
        let Ok(to) = link.canonicalize() else { return Ok(()) };
        if self.seen.iter().any(|seen| to.starts_with(seen) || seen.starts_with(&to))
            || self.but.contains(&to)
        {
            return Ok(());
        }
        self.seen.insert(to.clone());
        if to.is_dir() {
            self.tree(&to)
        } else if to.is_file() {
            self.file(&to)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_another_when_a_name_or_a_byte_of_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir_all(path("src")).unwrap();
        fs::create_dir_all(path(".git")).unwrap();
        fs::create_dir_all(path("runs")).unwrap();
        fs::write(path("src/a.c"), "int a;").unwrap();
        let hash = |and: &str| Tree::of(dir.path(), &[path("runs")]).unwrap().hash(and);
        let first = hash("make");
        fs::write(path(".git/x"), "x").unwrap();
        fs::write(path("runs/x"), "x").unwrap();
        assert_eq!(hash("make"), first, "neither version control nor our own work counts");
        assert_ne!(hash("make -j2"), first);
        fs::write(path("src/a.c"), "int b;").unwrap();
        let second = hash("make");
        assert_ne!(second, first);
        let then = Tree::of(dir.path(), &[]).unwrap();
        fs::rename(path("src/a.c"), path("src/b.c")).unwrap();
        assert_ne!(hash("make"), second);
        assert_eq!(then.differences(&Tree::of(dir.path(), &[]).unwrap()), ["src/a.c", "src/b.c"]);
    }

    #[test]
    fn what_a_link_leads_to_and_what_may_be_run_are_parts_of_a_tree() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for folder in ["tree", "elsewhere"] {
            fs::create_dir_all(path(folder)).unwrap();
        }
        fs::write(path("elsewhere/a.h"), "1").unwrap();
        fs::write(path("tree/configure"), "#!/bin/sh").unwrap();
        std::os::unix::fs::symlink(path("elsewhere"), path("tree/third_party")).unwrap();
        std::os::unix::fs::symlink(path("tree"), path("elsewhere/back")).unwrap();
        let hash = || Tree::of(&path("tree"), &[]).unwrap().hash("");
        let first = hash();
        fs::write(path("elsewhere/a.h"), "2").unwrap();
        let second = hash();
        assert_ne!(second, first, "behind the link");
        let runs = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(path("tree/configure"), runs).unwrap();
        assert_ne!(hash(), second, "it may be run now");
    }

    #[test]
    fn only_what_hone_or_a_cache_says_of_itself_is_no_source() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let write = |name: &str, text: &str| {
            fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            fs::write(path(name), text).unwrap();
        };
        let hash = || Tree::of(dir.path(), &[]).unwrap().hash("");
        write("tests/experiment.toml", "name = \"whoever's\"");
        write("kept/CACHEDIR.TAG", "a file of this name, and no tag");
        write("run/experiment.toml", "");
        write("run/asked.json", "{}");
        write("target/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n# by cargo\n");
        let first = hash();
        for made in ["run/a", "target/a"] {
            write(made, "1");
            assert_eq!(hash(), first, "{made}");
        }
        for source in ["tests/a.c", "kept/a.c"] {
            let before = hash();
            write(source, "1");
            assert_ne!(hash(), before, "{source}");
        }
    }

    #[test]
    fn flags_of_the_environment_are_makings_of_a_build_and_where_somebody_sits_is_none() {
        let of = |pairs: &[(&str, &str)]| {
            environment(pairs.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))))
        };
        let plain = of(&[("PATH", "/bin"), ("PWD", "/a"), ("SSH_TTY", "1")]);
        assert_eq!(plain, of(&[("PATH", "/bin"), ("PWD", "/b")]));
        for (name, value) in
            [("CFLAGS", "-O3"), ("LDFLAGS", "-s"), ("PKG_CONFIG_PATH", "/x"), ("PATH", "/sbin")]
        {
            assert_ne!(of(&[("PATH", "/bin"), (name, value)]), plain, "{name}");
        }
        // The workflow of the examples finds its builds again, whichever run made them.
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/ci/github.yml");
        let workflow = fs::read_to_string(file).unwrap();
        let of_job = workflow.lines().skip_while(|line| *line != "    env:").skip(1);
        let of_job = of_job.take_while(|line| line.starts_with("      ")).map(str::trim);
        let names: Vec<&str> = of_job
            .filter_map(|line| Some(line.split_once(": ")?.0))
            .filter(|name| !name.starts_with('#'))
            .collect();
        assert_eq!(names.len(), 2, "{names:?}");
        for name in names.into_iter().chain(["HOSTNAME", "GITHUB_SHA"]) {
            assert_eq!(of(&[("PATH", "/bin"), (name, "1")]), plain, "{name}");
        }
    }
}

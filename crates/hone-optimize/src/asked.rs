//! The inputs of a run besides its experiment: sources, tools, Hone itself. All variants need the same inputs, also when the run
//! continues later: a measurement would attribute a changed input to a profile.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use hone_binary::bolt::BoltTools;
use hone_binary::{Builder, file_facts};
use serde::{Deserialize, Serialize};

use super::cache::Tree;
use super::kinds::Kind;
use super::{cache, outside};
use crate::job::Job;
use hone_experiment::ending::Usage;
use hone_experiment::spec::target::Form;
use hone_experiment::standing::Standing;

const NOTE: &str = "asked.json";

/// The files of the source tree, to find out which of them have changed.
const SOURCES: &str = "sources.json";

/// A message names this many files and counts the rest.
const NAMED: usize = 3;

/// Note about the machine, from the first comparison on.
const JUDGING_NOTE: &str = "judging.json";

/// Begins the names of BOLT's tools.
const OF_BOLT: &str = "BOLT's ";

/// Begins the names of the variables that pass flags to builds.
const VARIABLE: &str = "the variable ";

/// Inputs by name, each with its version, contents or value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Inputs(BTreeMap<String, String>);

impl Inputs {
    /// Adds the BOLT tools that an earlier attempt had.
    fn without_bolt(&mut self, then: &Self) {
        let of_bolt = then.0.iter().filter(|(name, _)| name.starts_with(OF_BOLT));
        self.0.extend(of_bolt.map(|(name, value)| (name.clone(), value.clone())));
    }

    /// The changed inputs, in words. A new input changes nothing, unless it is a variable: a build may leave a lock file.
    fn changes(&self, now: &Self) -> Vec<String> {
        let is_new = |name: &&String| name.starts_with(VARIABLE) && !self.0.contains_key(*name);
        let new = now.0.keys().filter(is_new).map(|name| format!("{name} is set"));
        let change = |(name, then): (&String, &String)| match now.0.get(name) {
            Some(now) if now == then => None,
            Some(_) => Some(format!("{name} has changed")),
            None if name.starts_with(VARIABLE) => Some(format!("{name} is not set any more")),
            None => Some(format!("{name} is not there any more")),
        };
        self.0.iter().filter_map(change).chain(new).collect()
    }
}

impl Job<'_> {
    /// Saves the inputs of the run, or refuses to continue a run whose inputs have changed.
    pub(super) fn is_of_the_same(&self, builder: &dyn Builder, tools: Option<&BoltTools>) -> Result<()> {
        let (mut now, sources) = self.asked(builder, tools)?;
        let Some(then) = self.folder.read_note::<Inputs>(NOTE)? else {
            self.folder.write_note(SOURCES, &sources)?;
            return self.folder.write_note(NOTE, &now);
        };
        if tools.is_none() {
            // BOLT is absent, so it has finished its work in this run.
            now.without_bolt(&then);
        }
        match &then.changes(&now)[..] {
            [] => Ok(()),
            changes => {
                let then = self.folder.read_note::<Tree>(SOURCES)?.unwrap_or_default();
                bail!(Usage(format!(
                    "can't continue {}: {}{} since the run began, so new builds would differ from the \
                     earlier ones by that change too\n  next: restore the earlier state, or begin a new run \
                     (without --resume, or with --phase baseline); Hone keeps the measurements",
                    self.folder.path().display(),
                    changes.join(" and "),
                    named(&then.differences(&sources))
                )))
            }
        }
    }

    fn asked(&self, builder: &dyn Builder, tools: Option<&BoltTools>) -> Result<(Inputs, Tree)> {
        let mut all = BTreeMap::from([("Hone".to_owned(), cache::hone()?)]);
        for tool in builder.receipts() {
            all.insert(tool.name.clone(), format!("{} {}", tool.path, tool.version));
        }
        for tool in tools.into_iter().flat_map(|tools| tools.receipts.clone()) {
            all.insert(format!("{OF_BOLT}{}", tool.name), format!("{} {}", tool.path, tool.version));
        }
        let flags = cache::flags(std::env::vars_os()).into_iter();
        all.extend(flags.map(|(name, value)| (format!("{VARIABLE}{name}"), value)));
        if let Some(Kind::Given { file, .. }) = self.given_profile()? {
            all.insert(format!("the profile {}", file.display()), contents_of(&file)?);
        }
        let ours = self.ours();
        let mut sources = Tree::default();
        let mut tree = |folder: &Path, but: &[PathBuf], outside: BTreeSet<PathBuf>| -> Result<()> {
            let but = [ours.as_slice(), but].concat();
            sources = Tree::of(folder, &but)?;
            all.insert(format!("the source tree {}", folder.display()), sources.hash(""));
            for path in outside {
                let (name, hash) = match path.is_dir() {
                    true => ("the source tree", Tree::of(&path, &but)?.hash("")),
                    false => ("the source", contents_of(&path)?),
                };
                all.insert(format!("{name} {}", path.display()), hash);
            }
            Ok(())
        };
        match &self.target().form {
            Form::Recipe(recipe) => tree(&self.there("source", &recipe.source)?, &[], BTreeSet::new())?,
            Form::Go(go) => {
                // Every build names its profile, so the profiles in this folder are not sources.
                let module = self.there("source", &go.module)?;
                let main = module.join(&go.package);
                let main = main.canonicalize().unwrap_or(main);
                let outside = outside::of_go(&module, std::env::var_os("GOWORK").as_deref());
                tree(&module, &hone_binary::go::left_beside(&main), outside)?;
            }
            Form::Cargo(cargo) => {
                let root = workspace(&self.there("manifest", &cargo.manifest)?);
                // The first build creates the lock file.
                let lock = root.join("Cargo.lock");
                tree(&root, std::slice::from_ref(&lock), outside::of_cargo(&root))?;
                if lock.is_file() {
                    all.insert(lock.display().to_string(), contents_of(&lock)?);
                }
            }
            Form::Elf { binary } => {
                let path = self.there("binary", binary)?;
                all.insert(path.display().to_string(), file_facts(&path)?.sha256);
            }
            // Its caches have the hashes of what they depend on.
            Form::Jvm(_) => {}
        }
        Ok((Inputs(all), sources))
    }

    /// All comparisons run on one machine, because the record names only one.
    pub(super) fn is_on_the_same_machine(&self) -> Result<()> {
        let machine = hone_host::observe::machine(Path::new("/"));
        let now = Standing::of(std::iter::empty(), self.experiment.judging.iter(), &machine)?;
        match self.folder.read_note::<Standing>(JUDGING_NOTE)? {
            Some(then) => then.same_as(&now, self.folder.path()),
            None => self.folder.write_note(JUDGING_NOTE, &now),
        }
    }
}

/// The first of some files, as an addition to the words about a change.
fn named(files: &[&str]) -> String {
    match files.split_at_checked(NAMED) {
        _ if files.is_empty() => String::new(),
        Some((first, more)) if !more.is_empty() => {
            format!(" (files: {} and {} more)", first.join(", "), more.len())
        }
        _ => format!(" (files: {})", files.join(", ")),
    }
}

fn contents_of(path: &Path) -> Result<String> {
    Ok(hone_binary::lock::sha256_of(path)?.0)
}

/// The folder of the workspace that a manifest (or the folder of one) belongs to.
pub(super) fn workspace(manifest: &Path) -> PathBuf {
    let own = if manifest.is_dir() { manifest } else { manifest.parent().unwrap_or(manifest) };
    let is_root = |folder: &&Path| {
        std::fs::read_to_string(folder.join("Cargo.toml")).is_ok_and(|text| text.contains("[workspace"))
    };
    own.ancestors().find(is_root).unwrap_or(own).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_is_of_may_not_change_and_what_comes_new_may() {
        let asked = |pairs: &[(&str, &str)]| {
            Inputs(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
        };
        let then = asked(&[("Hone", "0.1 aa"), ("clang", "/bin/clang 22"), ("the source tree /s", "11")]);
        assert!(then.changes(&then).is_empty());
        let now = asked(&[("Hone", "0.1 aa"), ("the source tree /s", "12"), ("Cargo.lock", "1")]);
        assert_eq!(then.changes(&now), ["clang is not there any more", "the source tree /s has changed"]);
        let then = asked(&[("BOLT's llvm-bolt", "/bin/llvm-bolt 22"), ("clang", "/bin/clang 22")]);
        let mut now = asked(&[]);
        now.without_bolt(&then);
        assert_eq!(then.changes(&now), ["clang is not there any more"]);
        let [none, some, other] =
            [&[][..], &[("the variable CFLAGS", "-O2")], &[("the variable CFLAGS", "-O3")]].map(asked);
        assert_eq!(none.changes(&some), ["the variable CFLAGS is set"]);
        assert_eq!(some.changes(&other), ["the variable CFLAGS has changed"]);
        assert_eq!(some.changes(&none), ["the variable CFLAGS is not set any more"]);
    }

    #[test]
    fn a_few_changed_files_are_named_and_the_others_counted() {
        assert_eq!(named(&[]), "");
        assert_eq!(named(&["a.c", "b.c", "c.c"]), " (files: a.c, b.c, c.c)");
        assert_eq!(named(&["a.c", "b.c", "c.c", "d.c", "e.c"]), " (files: a.c, b.c, c.c and 2 more)");
    }

    #[test]
    fn a_package_belongs_to_the_workspace_around_it() {
        let dir = tempfile::tempdir().unwrap();
        let package = dir.path().join("crates/a");
        std::fs::create_dir_all(&package).unwrap();
        std::fs::write(package.join("Cargo.toml"), "[package]").unwrap();
        assert_eq!(workspace(&package.join("Cargo.toml")), package);
        std::fs::write(dir.path().join("Cargo.toml"), "[workspace]\nmembers = [\"crates/a\"]").unwrap();
        assert_eq!(workspace(&package), dir.path());
    }
}

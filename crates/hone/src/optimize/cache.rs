//! Builds that are taken again as long as nothing they are made of has changed. For targets whose build starts from a fresh copy of
//! the sources; Cargo and Go know themselves what is up to date.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hone_binary::{Built, Order, Workshop, file_facts, sha256_hex};
use serde::{Deserialize, Serialize};

use super::Job;

/// Folders of version control; a build does not see them.
const LEFT_OUT: [&str; 4] = [".git", ".hg", ".svn", ".jj"];

/// The place of one build, and the key that its present makings have.
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
    pub(super) fn of(job: &Job<'_>, workshop: &dyn Workshop, order: &Order) -> Result<Option<Self>> {
        let Some(source) = job.source_hash()? else { return Ok(None) };
        let tools: Vec<String> =
            workshop.receipts().into_iter().map(|tool| format!("{} {}", tool.path, tool.version)).collect();
        // A profile is named by its contents.
        let commands = workshop.commands(order)?;
        let key = sha256_hex(format!("{source}\n{order:?}\n{tools:?}\n{commands:?}").as_bytes());
        Ok(Some(Self { file: job.work().join(format!("built-{}.json", order.variant)), key }))
    }

    /// The build, when it is of the same makings and everything that it left is still there.
    pub(super) fn find(&self) -> Option<Built> {
        let kept: Kept = serde_json::from_str(&fs::read_to_string(&self.file).ok()?).ok()?;
        let built = Some(kept).filter(|kept| kept.key == self.key)?.built;
        let whole = built.stderr_paths.iter().all(|path| path.is_file());
        let same = file_facts(&built.executable).is_ok_and(|facts| facts.sha256 == built.facts.sha256);
        (whole && same).then_some(built)
    }

    pub(super) fn keep(&self, built: &Built) -> Result<()> {
        let text = serde_json::to_string(&Kept { key: self.key.clone(), built: built.clone() })?;
        fs::write(&self.file, text).with_context(|| format!("{} can't be written", self.file.display()))
    }
}

/// One hash over the names and contents of a tree, without `but`, and over what is done with it.
pub(super) fn tree_hash(folder: &Path, but: &Path, and: &str) -> Result<String> {
    let mut list = format!("{and}\n");
    list_tree(folder, folder, but, &mut list)?;
    Ok(sha256_hex(list.as_bytes()))
}

fn list_tree(root: &Path, folder: &Path, but: &Path, list: &mut String) -> Result<()> {
    let told = |path: &Path| format!("{} can't be read", path.display());
    let mut paths = BTreeSet::new();
    for entry in fs::read_dir(folder).with_context(|| told(folder))? {
        paths.insert(entry.with_context(|| told(folder))?.path());
    }
    for path in paths {
        let is_left_out = path.file_name().is_some_and(|name| LEFT_OUT.iter().any(|left| name == *left));
        if is_left_out || path == but {
            continue;
        }
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let facts = path.symlink_metadata().with_context(|| told(&path))?;
        if facts.is_dir() {
            list_tree(root, &path, but, list)?;
        } else if facts.is_symlink() {
            let to = fs::read_link(&path).with_context(|| told(&path))?;
            list.push_str(&format!("link {} {name}\n", to.display()));
        } else if facts.is_file() {
            let bytes = fs::read(&path).with_context(|| told(&path))?;
            list.push_str(&format!("{} {name}\n", sha256_hex(&bytes)));
        }
    }
    Ok(())
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
        let hash = |and: &str| tree_hash(dir.path(), &path("runs"), and).unwrap();
        let first = hash("make");
        fs::write(path(".git/x"), "x").unwrap();
        fs::write(path("runs/x"), "x").unwrap();
        assert_eq!(hash("make"), first, "neither version control nor our own work counts");
        assert_ne!(hash("make -j2"), first);
        fs::write(path("src/a.c"), "int b;").unwrap();
        let second = hash("make");
        assert_ne!(second, first);
        fs::rename(path("src/a.c"), path("src/b.c")).unwrap();
        assert_ne!(hash("make"), second);
    }
}

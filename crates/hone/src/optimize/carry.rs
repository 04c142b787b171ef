//! What a run takes along: a phase of it may be carried out elsewhere, by a job that was given the run's folder and nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hone_binary::Merged;
use hone_binary::lock::Lock;

use super::Job;

/// Merged profiles lie here under the names that they have beside the builds, which other runs use, too.
const PROFILES: &str = "profiles";

impl Job<'_> {
    /// Keeps a copy of a merged profile, and of its lock, in the run.
    pub(super) fn keep_profile(&self, merged: &Merged) -> Result<()> {
        for path in [merged.path.clone(), Lock::path(&merged.path)] {
            if path.exists() {
                copy(&path, &self.kept(&path))?;
            }
        }
        Ok(())
    }

    /// Puts a profile that is not there back to where it was made: builds name it by that place.
    pub(super) fn bring_back(&self, merged: &Merged) -> Result<()> {
        let path = &merged.path;
        if path.exists() || !self.kept(path).exists() {
            return Ok(());
        }
        for path in [path.clone(), Lock::path(path)] {
            let kept = self.kept(&path);
            if kept.exists() {
                copy(&kept, &path)?;
            }
        }
        self.progress.line(&format!("  {} is taken from the run", path.display()));
        Ok(())
    }

    fn kept(&self, path: &Path) -> PathBuf {
        self.folder.join(PROFILES).join(path.file_name().unwrap_or_default())
    }
}

/// A file or a folder, whole or not at all: under another name first.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut part = to.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let copied = || -> std::io::Result<()> {
        fs::create_dir_all(to.parent().unwrap_or(Path::new(".")))?;
        remove(&part)?;
        copy_tree(from, &part)?;
        remove(to)?;
        fs::rename(&part, to)
    };
    copied().with_context(|| format!("{} can't be copied to {}", from.display(), to.display()))
}

fn remove(path: &Path) -> std::io::Result<()> {
    match path {
        path if path.is_dir() => fs::remove_dir_all(path),
        path if path.exists() => fs::remove_file(path),
        _ => Ok(()),
    }
}

fn copy_tree(from: &Path, to: &Path) -> std::io::Result<()> {
    if !from.is_dir() {
        return fs::copy(from, to).map(|_| ());
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy_tree(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_folders_are_copied_over_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir_all(path("a/b")).unwrap();
        fs::write(path("a/b/x.gcda"), "1").unwrap();
        fs::create_dir_all(path("run/a")).unwrap();
        fs::write(path("run/a/old"), "").unwrap();
        copy(&path("a"), &path("run/a")).unwrap();
        assert_eq!(fs::read_to_string(path("run/a/b/x.gcda")).unwrap(), "1");
        assert!(!path("run/a/old").exists() && !path("run/a.part").exists());
        copy(&path("a/b/x.gcda"), &path("run/x")).unwrap();
        copy(&path("a/b/x.gcda"), &path("run/x")).unwrap();
        assert_eq!(fs::read_to_string(path("run/x")).unwrap(), "1");
        assert!(copy(&path("none"), &path("run/none")).is_err());
    }
}

//! The files that a run carries along. Another job can run a phase on another machine with nothing but the run's folder.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hone_binary::Merged;

use crate::job::Job;

/// Merged profiles are here under the same names as in the shared build folder.
const PROFILES: &str = "profiles";

impl Job<'_> {
    /// Keeps a copy of a merged profile and its notes in the run.
    pub(super) fn keep_profile(&self, merged: &Merged) -> Result<()> {
        keep(merged, &self.folder.join(PROFILES))
    }

    /// Restores a missing profile at its original path, because builds name that path.
    pub(super) fn bring_back(&self, merged: &Merged) -> Result<()> {
        if bring_back(merged, &self.folder.join(PROFILES))? {
            self.progress.line(&format!("  using {} from the run", merged.path.display()));
        }
        Ok(())
    }
}

fn keep(merged: &Merged, folder: &Path) -> Result<()> {
    for path in merged.with_what_is_beside().iter().filter(|path| path.exists()) {
        copy(path, &kept(path, folder))?;
    }
    Ok(())
}

/// Whether a profile had to be restored.
fn bring_back(merged: &Merged, folder: &Path) -> Result<bool> {
    let mut is_any = false;
    for path in merged.with_what_is_beside().iter().filter(|path| !path.exists()) {
        let kept = kept(path, folder);
        if kept.exists() {
            copy(&kept, path)?;
            is_any = true;
        }
    }
    Ok(is_any)
}

fn kept(path: &Path, folder: &Path) -> PathBuf {
    folder.join(path.file_name().unwrap_or_default())
}

/// Copies a file or a folder, whole or not at all: first under another name.
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

    /// gcc's profiles are a folder, and the proof that a build used them reads the functions from the file next to it.
    #[test]
    fn a_profile_goes_with_all_that_lies_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let (made, run) = (dir.path().join("builds"), dir.path().join("run"));
        let path = made.join("ab12-gcda");
        let merged = Merged {
            path: path.clone(),
            sha256: String::new(),
            bytes: 1,
            raw_files: 1,
            raw_bytes: 1,
            command: String::new(),
        };
        fs::create_dir_all(path.join("src")).unwrap();
        fs::write(path.join("src/x.gcda"), "1").unwrap();
        let functions = made.join("ab12-gcda.functions.json");
        fs::write(&functions, "{}").unwrap();
        keep(&merged, &run).unwrap();
        assert!(!bring_back(&merged, &run).unwrap(), "everything is there");
        fs::remove_dir_all(&made).unwrap();
        assert!(bring_back(&merged, &run).unwrap());
        assert!(path.join("src/x.gcda").exists() && functions.exists());
        fs::remove_file(&functions).unwrap();
        assert!(
            bring_back(&merged, &run).unwrap() && functions.exists(),
            "the functions are restored although the profile exists"
        );
    }

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

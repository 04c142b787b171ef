//! The profile files of a run, before and after.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};

use serde::{Deserialize, Serialize};

/// Deeper folders are not searched; gcc's files are as deep as the objects of a build.
const DEPTH: usize = 64;

/// The writer of the profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProfileKind {
    /// LLVM's instrumentation (clang, rustc): `.profraw`.
    Llvm,
    /// gcc's: `.gcda`.
    Gcov,
    /// BOLT's: `.fdata`.
    Bolt,
    /// Go CPU profiles, which the caller fetches from the running program: `.pprof`.
    Pprof,
}

impl ProfileKind {
    /// How its files end, without the dot.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Llvm => "profraw",
            Self::Gcov => "gcda",
            Self::Bolt => "fdata",
            Self::Pprof => "pprof",
        }
    }
}

/// The place of a run's profile files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileFiles {
    /// Their kind.
    pub kind: ProfileKind,
    /// The folder, searched with all folders below it; symbolic links are not followed.
    pub folder: PathBuf,
}

/// Permissions for a server that starts as root, becomes another user, and must write its profile. All users may make files in `folder`,
/// and each may remove only its own (as in `/tmp`), and may pass through the folders between it and `root`. A process without root rights
/// can't become another user, so nothing changes then.
///
/// # Errors
/// Fails when the permissions can't be set.
pub fn let_all_write(folder: &Path, root: &Path) -> io::Result<()> {
    // SAFETY: it takes nothing and can't fail.
    if unsafe { libc::geteuid() } != 0 {
        return Ok(());
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o1777))?;
    for above in folder.ancestors().skip(1).take_while(|above| above.starts_with(root)) {
        let mode = above.metadata()?.permissions().mode();
        fs::set_permissions(above, fs::Permissions::from_mode(mode & 0o7777 | 0o011))?;
    }
    Ok(())
}

/// One file at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    /// Bytes.
    pub bytes: u64,
    /// Time of the last write; `None` if the file system does not store it.
    pub modified: Option<SystemTime>,
}

/// All profile files at one moment.
pub type Snapshot = BTreeMap<PathBuf, FileState>;

impl ProfileFiles {
    /// Reads the present state. A missing folder has no files.
    ///
    /// # Errors
    /// Fails when a folder can't be read.
    pub fn snapshot(&self) -> io::Result<Snapshot> {
        let mut found = Snapshot::new();
        self.collect(&self.folder, DEPTH, &mut found)?;
        Ok(found)
    }

    fn collect(&self, folder: &Path, depth: usize, found: &mut Snapshot) -> io::Result<()> {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && depth > 0 {
                self.collect(&path, depth - 1, found)?;
            } else if kind.is_file() && path.extension().is_some_and(|end| end == self.kind.ending()) {
                // A runtime may replace a file between the two calls.
                let Ok(facts) = entry.metadata() else { continue };
                found.insert(path, FileState { bytes: facts.len(), modified: facts.modified().ok() });
            }
        }
        Ok(())
    }
}

/// The change of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// The file.
    pub path: PathBuf,
    /// Bytes before; `None` if it did not exist.
    pub before: Option<u64>,
    /// Bytes after; `None` if it is gone.
    pub after: Option<u64>,
}

impl FileChange {
    /// Whether it now has contents that it did not have before.
    pub fn wrote(&self) -> bool {
        self.after.is_some_and(|bytes| bytes > 0)
    }
}

/// The changed files, including those that were rewritten with the same size.
pub fn changes(before: &Snapshot, after: &Snapshot) -> Vec<FileChange> {
    let paths = before.keys().chain(after.keys().filter(|path| !before.contains_key(*path)));
    paths
        .filter(|path| before.get(*path) != after.get(*path))
        .map(|path| FileChange {
            path: path.clone(),
            before: before.get(path).map(|state| state.bytes),
            after: after.get(path).map(|state| state.bytes),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(bytes: u64, seconds: u64) -> FileState {
        FileState {
            bytes,
            modified: SystemTime::UNIX_EPOCH.checked_add(std::time::Duration::from_secs(seconds)),
        }
    }

    #[test]
    fn a_file_that_is_written_anew_with_the_same_size_has_changed() {
        let all = |list: [(&str, FileState); 3]| -> Snapshot {
            list.into_iter().map(|(path, state)| (PathBuf::from(path), state)).collect()
        };
        let before = all([("a", state(9, 1)), ("b", state(9, 1)), ("gone", state(1, 1))]);
        let after = all([("a", state(9, 2)), ("b", state(9, 1)), ("new", state(0, 2))]);
        let found = changes(&before, &after);
        let words: Vec<_> =
            found.iter().map(|change| (change.path.to_str().unwrap(), change.before, change.after)).collect();
        assert_eq!(words, [("a", Some(9), Some(9)), ("gone", Some(1), None), ("new", None, Some(0))]);
        assert_eq!(found.iter().map(FileChange::wrote).collect::<Vec<_>>(), [true, false, false]);
    }

    #[test]
    fn only_files_of_the_kind_are_found_at_any_depth() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("src/deep")).unwrap();
        for name in ["src/deep/a.gcda", "b.gcda", "c.gcno", "d.profraw"] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        std::os::unix::fs::symlink(dir.path(), dir.path().join("src/loop")).unwrap();
        let files = |kind| ProfileFiles { kind, folder: dir.path().to_path_buf() }.snapshot().unwrap().len();
        assert_eq!([ProfileKind::Gcov, ProfileKind::Llvm, ProfileKind::Bolt].map(files), [2, 1, 0]);
        let nowhere = ProfileFiles { kind: ProfileKind::Llvm, folder: dir.path().join("none") };
        assert!(nowhere.snapshot().unwrap().is_empty());
    }
}

//! A run's folder: every stage ends in a file that the next one can read alone.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_record::{Body, Envelope};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::reader::{self, Caller};

/// The records that stand for a whole run of something that was tried.
pub const TRIED: [&str; 6] = [
    "commit-gate.json",
    "optimization.json",
    "comparison.json",
    "proof.json",
    "host-trial.json",
    "tuning.json",
];

/// The records that stand for a whole run; those that may lie beside another one come last.
pub const RESULTS: [&str; 8] = {
    let [gate, optimization, comparison, proof, host_trial, tuning] = TRIED;
    [gate, optimization, comparison, proof, host_trial, tuning, "capacity.json", "curve.json"]
};

/// The folder of one run.
#[derive(Debug, Clone)]
pub struct RunFolder {
    path: PathBuf,
}

/// A run's folder that is nobody else's as long as this lives.
#[derive(Debug)]
pub struct Held {
    _lock: File,
}

impl RunFolder {
    /// Takes it.
    ///
    /// # Errors
    /// When another process has it.
    pub fn held(&self) -> Result<Held> {
        let path = self.join("lock");
        let lock = File::create(&path).with_context(|| format!("{} can't be written", path.display()))?;
        match lock.try_lock() {
            Ok(()) => Ok(Held { _lock: lock }),
            Err(_) => bail!("the run in {} still goes on; wait for it, or end it", self.path.display()),
        }
    }

    /// Makes `parent/name-NNN` with the next free number, and proves that it can be written.
    pub fn create(parent: &Path, name: &str) -> Result<Self> {
        let cannot = || format!("the output folder {} can't be written; name another one", parent.display());
        fs::create_dir_all(parent).with_context(cannot)?;
        for number in 1..100_000 {
            let path = parent.join(format!("{name}-{number:03}"));
            match fs::create_dir(&path) {
                Ok(()) => return Self { path: path.canonicalize().with_context(cannot)? }.proved(),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).with_context(cannot),
            }
        }
        bail!("{} is full of runs named {name}", parent.display())
    }

    /// Opens an earlier run's folder.
    pub fn open(path: &Path) -> Result<Self> {
        let path = path.canonicalize().with_context(|| {
            format!("there is no run folder {}; name one that a run told when it began", path.display())
        })?;
        if !path.is_dir() {
            bail!("{} is not a folder; name the folder of a run", path.display());
        }
        Self { path }.proved()
    }

    /// Proves by writing, because rights, quotas and read-only mounts all look different from outside.
    fn proved(self) -> Result<Self> {
        let probe = self.path.join(".writable");
        File::create(&probe)
            .and_then(|mut file| file.write_all(b"x").and_then(|()| file.sync_all()))
            .and_then(|()| fs::remove_file(&probe))
            .with_context(|| format!("the run folder {} can't be written", self.path.display()))?;
        Ok(self)
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where this run and others lie, with their ledger.
    pub fn home(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// A file in it.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    /// Where servers keep their data while they run.
    pub fn scratch(&self) -> PathBuf {
        self.join("scratch")
    }

    /// Writes a record whole or not at all.
    pub fn write_record<T: Body>(&self, name: &str, body: T) -> Result<PathBuf> {
        self.write_text(name, &Envelope::new(body).to_text()?)
    }

    /// Writes a text whole or not at all: a new file that then takes the name.
    pub fn write_text(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.join(name);
        let failed = || format!("{} can't be written", path.display());
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(failed)?;
        }
        let temporary = path.with_extension("part");
        let mut file = File::create(&temporary).with_context(failed)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).with_context(failed)?;
        fs::rename(&temporary, &path).with_context(failed)?;
        Ok(path)
    }

    /// Removes a note; one that is not there is as good.
    pub fn remove(&self, name: &str) -> Result<()> {
        let path = self.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("{} can't be removed", path.display()))
            }
            _ => Ok(()),
        }
    }

    /// Writes a private note of this run (not a record that others read).
    pub fn write_note<T: Serialize>(&self, name: &str, note: &T) -> Result<()> {
        self.write_text(name, &serde_json::to_string_pretty(note)?).map(|_| ())
    }

    /// A note of an earlier attempt; `None` when that step was not finished.
    pub fn read_note<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let Some(text) = self.read_text(name)? else { return Ok(None) };
        let note = serde_json::from_str(&text).with_context(|| {
            format!("{} is not what this version of hone writes; start a new run", self.join(name).display())
        })?;
        Ok(Some(note))
    }

    /// A text of an earlier attempt; `None` where there is none.
    pub fn read_text(&self, name: &str) -> Result<Option<String>> {
        let path = self.join(name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("{} can't be read", path.display())),
        }
    }
}

/// Reads a record file.
pub fn read_record<T: Body>(path: &Path) -> Result<T> {
    reader::record(&Caller, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_numbered_and_never_overwritten() {
        let parent = tempfile::tempdir().unwrap();
        let first = RunFolder::create(parent.path(), "run").unwrap();
        let second = RunFolder::create(parent.path(), "run").unwrap();
        assert_ne!(first.path(), second.path());
        assert!(second.path().ends_with("run-002"));
    }

    #[test]
    fn a_note_comes_back_and_a_missing_one_is_none() {
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(parent.path(), "run").unwrap();
        folder.write_note("steps/a.json", &vec![1, 2]).unwrap();
        assert_eq!(folder.read_note::<Vec<u32>>("steps/a.json").unwrap(), Some(vec![1, 2]));
        assert_eq!(folder.read_note::<Vec<u32>>("steps/b.json").unwrap(), None);
        assert!(folder.read_note::<String>("steps/a.json").is_err());
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        fs::write(&file, "x").unwrap();
        let message = format!("{:#}", RunFolder::create(&file, "run").unwrap_err());
        assert!(message.contains("can't be written; name another one"), "{message}");
        assert!(RunFolder::open(&file).is_err());
    }
}

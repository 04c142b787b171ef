//! A run's folder. Every stage ends with a file that the next stage can read alone.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_record::{Body, Envelope};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::command_line::{self, CommandLine};
use crate::reader::{self, Caller};

/// The records that stand for a complete run.
pub const TRIED: [&str; 6] = [
    "commit-gate.json",
    "optimization.json",
    "comparison.json",
    "proof.json",
    "host-trial.json",
    "tuning.json",
];

/// The records that stand for a complete run. Those that may accompany another one come last.
pub const RESULTS: [&str; 12] = {
    let [gate, optimization, comparison, proof, host_trial, tuning] = TRIED;
    [
        gate,
        optimization,
        comparison,
        proof,
        host_trial,
        tuning,
        "capacity.json",
        "curve.json",
        // Beside it lies the window whose tail it is.
        "tail.json",
        "window.json",
        "xray.json",
        "diagnosis.json",
    ]
};

/// The folder of one run.
#[derive(Debug, Clone)]
pub struct RunFolder {
    path: PathBuf,
}

/// An exclusive hold on a run's folder, as long as this lives.
#[derive(Debug)]
pub struct Held {
    _lock: File,
}

impl RunFolder {
    /// Takes the hold.
    ///
    /// # Errors
    /// When another process holds it.
    pub fn held(&self) -> Result<Held> {
        let path = self.join("lock");
        let lock = File::create(&path).with_context(|| format!("{} can't be written", path.display()))?;
        match lock.try_lock() {
            Ok(()) => Ok(Held { _lock: lock }),
            Err(_) => {
                bail!("the run in {} is still active\n  next: wait for it, or end it", self.path.display())
            }
        }
    }

    /// Creates `parent/name-NNN` with the next free number, and checks that it is writable. It keeps the command of this process.
    pub fn create(parent: &Path, name: &str) -> Result<Self> {
        let cannot =
            || format!("the output folder {} can't be written\n  next: name another one", parent.display());
        fs::create_dir_all(parent).with_context(cannot)?;
        for number in 1..100_000 {
            let path = parent.join(format!("{name}-{number:03}"));
            match fs::create_dir(&path) {
                Ok(()) => {
                    let folder = Self { path: path.canonicalize().with_context(cannot)? }.proved()?;
                    folder.write_note(command_line::NOTE, &CommandLine::of_this_process())?;
                    return Ok(folder);
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).with_context(cannot),
            }
        }
        bail!("{} has no free number for another run named {name}", parent.display())
    }

    /// Opens an earlier run's folder.
    pub fn open(path: &Path) -> Result<Self> {
        let path = path.canonicalize().with_context(|| {
            format!(
                "there is no run folder {}\n  next: name the folder that the run printed when it started",
                path.display()
            )
        })?;
        if !path.is_dir() {
            bail!("{} is not a folder\n  next: name the folder of a run", path.display());
        }
        Self { path }.proved()
    }

    /// Checks by writing a file, because rights, quotas and read-only mounts all look different from outside.
    fn proved(self) -> Result<Self> {
        let probe = self.path.join(".writable");
        File::create(&probe)
            .and_then(|mut file| file.write_all(b"x").and_then(|()| file.sync_all()))
            .and_then(|()| fs::remove_file(&probe))
            .with_context(|| format!("the run folder {} can't be written", self.path.display()))?;
        Ok(self)
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of this and other runs, with their ledger.
    pub fn home(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// A file in it.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    /// The folder for the data of running servers.
    pub fn scratch(&self) -> PathBuf {
        self.join("scratch")
    }

    /// Writes a record completely or not at all.
    pub fn write_record<T: Body>(&self, name: &str, body: T) -> Result<PathBuf> {
        self.write_text(name, &Envelope::new(body).to_text()?)
    }

    /// Writes a text completely or not at all: a new file replaces the old one.
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

    /// Removes a note. A missing one is no error.
    pub fn remove(&self, name: &str) -> Result<()> {
        let path = self.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("{} can't be removed", path.display()))
            }
            _ => Ok(()),
        }
    }

    /// Writes a private note of this run (not a record for others).
    pub fn write_note<T: Serialize>(&self, name: &str, note: &T) -> Result<()> {
        self.write_text(name, &serde_json::to_string_pretty(note)?).map(|_| ())
    }

    /// A note of an earlier attempt; `None` if that step was not finished.
    pub fn read_note<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let Some(text) = self.read_text(name)? else { return Ok(None) };
        let note = serde_json::from_str(&text).with_context(|| {
            format!("{} has an unknown format\n  next: start a new run", self.join(name).display())
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

/// Whether a run's folder has a name of this kind: `compare-001`.
pub fn is_named(path: &Path, kind: &str) -> bool {
    let number = path.file_name().and_then(|name| name.to_str()?.strip_prefix(kind)?.strip_prefix('-'));
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The run that `--resume` names, or without a name the newest one in `home` of this verb, whose folders `is_one` knows.
///
/// # Errors
/// When there is none.
pub fn to_resume(
    named: Option<&Path>,
    home: &Path,
    verb: &str,
    is_one: impl Fn(&Path) -> bool,
) -> Result<PathBuf> {
    if let Some(path) = named {
        return Ok(path.to_owned());
    }
    let entries = fs::read_dir(home).into_iter().flatten().flatten();
    let run = |entry: fs::DirEntry| {
        let is_one = entry.path().is_dir() && is_one(&entry.path());
        let changed = entry.metadata().ok()?.modified().ok()?;
        is_one.then(|| (changed, entry.path()))
    };
    entries.filter_map(run).max().map(|(_, path)| path).with_context(|| {
        format!(
            "there is no run of `hone {verb}` in {} to continue\n  next: name its folder (--resume RUN), or begin a new run",
            home.display()
        )
    })
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
        let kept: Option<CommandLine> = second.read_note(command_line::NOTE).unwrap();
        assert_eq!(kept, Some(CommandLine::of_this_process()));
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
        assert!(message.contains("\n  next: name another one"), "{message}");
        assert!(RunFolder::open(&file).is_err());
    }
}

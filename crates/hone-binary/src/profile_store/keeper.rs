//! The reader of stored profiles.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Result;
use hone_tool::Runner;

use super::format::{StoredFormat, kind_of};
use super::opened::{Contents, Opened};
use super::profdata;
use crate::bolt::fdata;
use crate::go;
use crate::lock::{self, Lock, LockedProfile, LockedProgram, LockedTraining};

/// The identity of a profile, and its programs.
#[derive(Debug, Clone, PartialEq)]
pub struct Identity {
    /// The contents of its lock, or of a new one.
    pub profile: LockedProfile,
    /// Its programs, each once, sorted: by its lock, BOLT's note, or, for Go, the profile itself.
    pub build_ids: Vec<String>,
}

/// Reads, compares and merges kept profiles.
pub struct Keeper<'a> {
    pub(super) runner: &'a dyn Runner,
    /// Folder for temporary files.
    pub(super) scratch: &'a Path,
}

impl<'a> Keeper<'a> {
    /// `scratch` is an existing folder of the caller.
    pub fn new(runner: &'a dyn Runner, scratch: &'a Path) -> Self {
        Self { runner, scratch }
    }

    pub(super) fn open(&self, file: &Path) -> Result<Opened> {
        let (kind, format) = kind_of(file)?;
        let (sha256, bytes) = lock::sha256_of(file)?;
        let contents = match kind {
            StoredFormat::Profdata => {
                Contents::Profdata(profdata::read(self.runner, self.scratch, file, format)?)
            }
            StoredFormat::Fdata => Contents::Fdata(fdata::counts(file)?),
            StoredFormat::Pprof => Contents::Pprof(Box::new(go::read_profile(file)?)),
        };
        Ok(Opened { file: file.to_path_buf(), kind, format, sha256, bytes, contents })
    }

    /// The identity of a profile and its programs, in one reading.
    ///
    /// # Errors
    /// As [`Keeper::facts`], and `LockFault`.
    pub fn identity(&self, file: &Path) -> Result<Identity> {
        let opened = self.open(file)?;
        let ids: BTreeSet<String> = opened.builds()?.into_iter().filter_map(|taken| taken.build_id).collect();
        Ok(Identity { profile: opened.facts(), build_ids: ids.into_iter().collect() })
    }

    /// Refuses a profile that no merge would accept: one that can't be read, has no count, or differs from its lock.
    ///
    /// # Errors
    /// As [`Keeper::facts`], and `LockFault`.
    pub fn sound(&self, file: &Path) -> Result<()> {
        let opened = self.open(file)?;
        opened.counted()?;
        opened.lock()?;
        Ok(())
    }

    /// Writes the lock of a profile next to it, and returns its path.
    ///
    /// # Errors
    /// As [`Keeper::facts`], and `LockFault`.
    pub fn lock(
        &self,
        file: &Path,
        programs: Vec<LockedProgram>,
        trainings: Vec<LockedTraining>,
    ) -> Result<PathBuf> {
        Ok(Lock::new(self.facts(file)?, programs, trainings).write(file)?)
    }

    /// The lock's facts about the profile itself.
    ///
    /// # Errors
    /// `StoreFault` and those of the profile's form.
    pub fn facts(&self, file: &Path) -> Result<LockedProfile> {
        Ok(self.open(file)?.facts())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use hone_tool::System;

    use super::super::opened::weights;
    use super::*;

    #[test]
    fn what_can_not_be_read_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let system = System::new(folder.path().join("log")).unwrap();
        let keeper = Keeper::new(&system, folder.path());
        let fails = |path: &Path| format!("{:#}", keeper.facts(path).unwrap_err());
        assert!(fails(&folder.path().join("none")).contains("none: No such file"));
        assert!(fails(folder.path()).contains("it is not a regular file"));
        let file = folder.path().join("f");
        fs::write(&file, "1 main 0 1 f 0 0 1\nwhat\n").unwrap();
        assert!(fails(&file).contains("line 2"), "the reader of the form has the words");
        fs::write(&file, b"\x1f\x8b\x08garbage").unwrap();
        assert!(fails(&file).contains("is not a pprof profile"));
    }

    #[test]
    fn facts_of_a_profile_of_bolt() {
        let folder = tempfile::tempdir().unwrap();
        let system = System::new(folder.path().join("log")).unwrap();
        let file = folder.path().join("f");
        fs::write(&file, "no_lbr cpu-clock:u:\n1 main 0 5\n2 _ZN1a1b17h0123456789abcdefE/1 3 7\n").unwrap();
        let facts = Keeper::new(&system, folder.path()).facts(&file).unwrap();
        assert_eq!((facts.kind, facts.level.as_str()), (StoredFormat::Fdata, "samples cpu-clock:u:"));
        assert_eq!((facts.functions, facts.total_count, facts.max_count), (2, 12, 7));
        let counts = Contents::Fdata(fdata::counts(&file).unwrap());
        assert_eq!(weights(&counts)["a::b"], 7, "the demangled name");
    }
}

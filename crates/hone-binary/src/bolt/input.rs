//! A program that BOLT can rewrite, and the program of a profile.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::preflight::{self, Anatomy, Warning};
use super::refusal::BoltRefusal;
use crate::elf::{FileFacts, file_facts};
use crate::lock::Lock;
use crate::refusal::Refusal;

/// The program of a profile. The note is next to the profile as `PROFILE.origin.json`, because the profile itself does not contain it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Build-id of the program before BOLT, hex.
    pub build_id: Option<String>,
    /// SHA-256 of that program, hex.
    pub sha256: String,
    /// The method.
    pub how: String,
}

impl Origin {
    pub(super) fn new(input: &Input, how: &str) -> Self {
        let build_id = input.anatomy.build_id.clone();
        Self { build_id, sha256: input.facts.sha256.clone(), how: how.to_owned() }
    }

    /// The build-id, or the hash of a program without one.
    pub(super) fn key(&self) -> &str {
        self.build_id.as_deref().unwrap_or(&self.sha256)
    }

    /// The path of a profile's note.
    pub fn note(profile: &Path) -> PathBuf {
        let mut name: OsString = profile.as_os_str().to_owned();
        name.push(".origin.json");
        PathBuf::from(name)
    }

    pub(super) fn write(&self, profile: &Path) -> Result<()> {
        let note = Self::note(profile);
        let text = serde_json::to_string_pretty(self)? + "\n";
        fs::write(&note, text).with_context(|| format!("{} can't be written", note.display()))
    }

    pub(super) fn remove(profile: &Path) -> Result<()> {
        let note = Self::note(profile);
        match fs::remove_file(&note) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("{} can't be removed", note.display()))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn read(profile: &Path) -> Result<Option<Self>> {
        let note = Self::note(profile);
        match fs::read_to_string(&note) {
            Ok(text) => {
                let origin = serde_json::from_str(&text);
                Ok(Some(origin.with_context(|| format!("{} can't be parsed", note.display()))?))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("{} can't be read", note.display())),
        }
    }
}

/// A program that BOLT can rewrite.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// The program.
    pub executable: PathBuf,
    /// Its anatomy.
    pub anatomy: Anatomy,
    /// Sizes and hashes.
    pub facts: FileFacts,
    /// Problems that BOLT tolerates.
    pub warnings: Vec<Warning>,
}

impl Input {
    /// Examines a program before BOLT does.
    ///
    /// # Errors
    /// A [`Refusal`] with the flag that fixes it.
    pub fn look(executable: &Path) -> Result<Self> {
        let anatomy = preflight::anatomy(executable)?;
        let warnings = preflight::check(executable, &anatomy)?;
        Ok(Self { executable: executable.to_path_buf(), facts: file_facts(executable)?, anatomy, warnings })
    }

    /// Whether the note or the lock next to a profile names this program; `false` if neither names any.
    ///
    /// # Errors
    /// [`BoltRefusal::OtherBuild`] if they name another build; the faults of one of them.
    pub fn is_told_by(&self, profile: &Path) -> Result<bool> {
        if let Some(origin) = Origin::read(profile)? {
            return same_build(self, profile, &origin).map(|()| true);
        }
        let programs = Lock::read(profile)?.map(|lock| lock.programs).unwrap_or_default();
        // For a merge of several builds, one has to be this one: BOLT's own messages cover what does not fit.
        let mut other = None;
        for program in programs {
            let is_this = match (&program.build_id, &self.anatomy.build_id) {
                (Some(told), Some(own)) => told == own,
                _ => program.sha256 == self.facts.sha256,
            };
            if is_this {
                return Ok(true);
            }
            let key = program.build_id.unwrap_or(program.sha256);
            other = other.or(Some(key).filter(|key| !key.is_empty()));
        }
        other.map_or(Ok(false), |taken_from| other_build(self, profile, &taken_from))
    }
}

pub(super) fn same_build(input: &Input, profile: &Path, origin: &Origin) -> Result<()> {
    if origin.key() == Origin::new(input, "").key() {
        return Ok(());
    }
    other_build(input, profile, origin.key())
}

fn other_build<T>(input: &Input, profile: &Path, taken_from: &str) -> Result<T> {
    refused(BoltRefusal::OtherBuild {
        profile: profile.to_path_buf(),
        binary: input.executable.clone(),
        taken_from: taken_from.to_owned(),
        asked: Origin::new(input, "").key().to_owned(),
    })
}

pub(super) fn refused<T>(refusal: BoltRefusal) -> Result<T> {
    Err(Refusal::from(refusal).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::{LockedProfile, LockedProgram};
    use crate::profile_store::format::StoredFormat;

    fn input(build_id: Option<&str>, sha256: &str) -> Input {
        Input {
            executable: PathBuf::from("/bin/x"),
            anatomy: Anatomy { build_id: build_id.map(str::to_owned), ..Anatomy::default() },
            facts: FileFacts {
                file_bytes: 1,
                text_bytes: 1,
                sha256: sha256.to_owned(),
                text_sha256: String::new(),
                instrumented: false,
            },
            warnings: Vec::new(),
        }
    }

    #[test]
    fn note_and_lock_say_which_build_a_profile_is_of() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("kept.fdata");
        fs::write(&file, "1 main 0 1 main 1 0 1\n").unwrap();
        let [own, other] = [input(Some("aa"), &"a".repeat(64)), input(Some("bb"), &"b".repeat(64))];
        let nameless = input(None, &"a".repeat(64));
        assert!(!own.is_told_by(&file).unwrap(), "nothing says anything");
        let locked = |programs: Vec<LockedProgram>| {
            let (sha256, bytes) = crate::lock::sha256_of(&file).unwrap();
            let level = "branches".to_owned();
            let (functions, total_count, max_count) = (1, 1, 1);
            let profile = LockedProfile {
                kind: StoredFormat::Fdata,
                sha256,
                bytes,
                level,
                functions,
                total_count,
                max_count,
            };
            Lock::new(profile, programs, Vec::new()).write(&file).unwrap();
        };
        let program = |build_id: Option<&str>, sha256: &str| LockedProgram {
            build_id: build_id.map(str::to_owned),
            sha256: sha256.to_owned(),
            ..LockedProgram::default()
        };
        let told = |input: &Input| {
            let told = input.is_told_by(&file);
            told.map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())
        };
        locked(vec![program(Some("aa"), "")]);
        assert_eq!(told(&own), Ok(true));
        assert!(told(&other).unwrap_err().contains("was taken from build-id aa, /bin/x has bb"));
        assert!(told(&nameless).is_err(), "nothing of it is the same");
        locked(vec![program(None, &"a".repeat(64))]);
        assert_eq!((told(&own), told(&nameless)), (Ok(true), Ok(true)));
        assert!(told(&other).is_err());
        locked(vec![program(Some("cc"), ""), program(Some("bb"), "")]);
        assert!(told(&other).unwrap() && told(&own).is_err(), "one of those that were merged");
        locked(vec![program(None, "")]);
        assert_eq!(told(&own), Ok(false));
        Origin::new(&own, "merged").write(&file).unwrap();
        assert!(told(&own).unwrap() && told(&other).is_err(), "the note is asked first");
    }
}

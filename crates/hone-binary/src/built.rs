//! Results of builds and merges.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use hone_record::{CodeInside, ProfileProof};
use serde::{Deserialize, Serialize};

use crate::bolt::calls::Rung;
use crate::bolt::diagnostics::Said;
use crate::build_request::BuildRequest;
use crate::elf::{FileFacts, file_facts, loaded_sha256};
use crate::libraries::Libraries;
use crate::linkmap::Coverage;
use crate::lock::sha256_of;
use crate::messages::NativeCode;
use crate::refusal::{Refusal, refuse_if};
use crate::shim::Entry;

/// One built variant, however it was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Built {
    /// Its name.
    pub variant: String,
    /// The program.
    pub executable: PathBuf,
    /// The build's commands, ready to paste.
    pub commands: Vec<String>,
    /// Wall time of the build.
    pub build_s: f64,
    /// Whether the program was up to date, so that `build_s` is not the time of a build.
    pub fresh: bool,
    /// The tools' messages.
    pub stderr_paths: Vec<PathBuf>,
    /// Sizes and hashes.
    pub facts: FileFacts,
    /// Facts of this way of building.
    pub how: How,
}

/// A shared library that a build has made, and that its program loads from there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Library {
    /// The path at which the loader finds it.
    pub path: PathBuf,
    /// SHA-256, hex.
    pub sha256: String,
}

impl Library {
    pub(crate) fn from_path(path: PathBuf) -> Result<Self> {
        let (sha256, _) = sha256_of(&path)?;
        Ok(Self { path, sha256 })
    }
}

/// Facts of one way of building.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// By Cargo.
    Cargo {
        /// Crates that this build compiled; the others were up to date, and their time is not in `build_s`.
        crates_compiled: u32,
        /// Crates that Cargo found up to date.
        crates_up_to_date: u32,
        /// Crates with sources on this machine, as they appear in symbols.
        own_crates: BTreeSet<String>,
        /// Code of other languages in it.
        native: Vec<NativeCode>,
    },
    /// By the commands of the program's own build system.
    Recipe {
        /// The copy of the sources in which it was built.
        folder: PathBuf,
        /// Actions of compilers.
        log: Vec<Entry>,
        /// The share of the program's text that the flags reached.
        coverage: Coverage,
        /// Libraries of this build that the program loads from where they were made.
        #[serde(default)]
        libraries: Vec<Library>,
    },
    /// By `go build`.
    Go {
        /// Packages that this build compiled.
        packages_compiled: u32,
        /// Packages that were up to date.
        packages_up_to_date: u32,
        /// Packages of the program's own module, as they appear in symbols.
        own_packages: BTreeSet<String>,
    },
    /// By BOLT, from another build.
    Bolt {
        /// The level of optimisation.
        rung: Rung,
        /// Skipped functions.
        skipped: Vec<String>,
        /// Its messages.
        said: Box<Said>,
        /// SHA-256 of the program before BOLT.
        from_sha256: String,
    },
    /// The program was finished before.
    Given,
}

impl Built {
    /// All commands as one line to paste.
    pub fn command(&self) -> String {
        self.commands.join(" && ")
    }

    /// The share of the text that the flags reached, if known.
    pub fn coverage(&self) -> Option<&Coverage> {
        match &self.how {
            How::Recipe { coverage, .. } => Some(coverage),
            _ => None,
        }
    }

    /// Libraries of this build that the program loads from where they were made.
    pub fn libraries(&self) -> &[Library] {
        match &self.how {
            How::Recipe { libraries, .. } => libraries,
            _ => &[],
        }
    }

    /// The first of these libraries that has changed or is gone: a later build was made in its place.
    pub fn changed_library(&self) -> Option<&Library> {
        let is_as_it_was =
            |library: &Library| sha256_of(&library.path).is_ok_and(|(now, _)| now == library.sha256);
        self.libraries().iter().find(|library| !is_as_it_was(library))
    }

    /// The contents that the loader reads of the program and of its own libraries, as hashes; the same for two builds that differ only by
    /// their folder.
    ///
    /// # Errors
    /// Fails when a file can't be read.
    pub fn loaded_sha256(&self) -> Result<Vec<String>> {
        let How::Recipe { folder, libraries, .. } = &self.how else {
            return Ok(vec![self.facts.sha256.clone()]);
        };
        let folder = folder.parent().unwrap_or(folder);
        let files = std::iter::once(&self.executable).chain(libraries.iter().map(|library| &library.path));
        files.map(|file| loaded_sha256(file, folder)).collect()
    }

    /// Code of other languages that a build script compiled, if known.
    pub fn native(&self) -> Option<&[NativeCode]> {
        match &self.how {
            How::Cargo { native, .. } => Some(native),
            _ => None,
        }
    }
}

/// A merged profile, named by its own hash so that build tools notice every change of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merged {
    /// The profile; for gcc a folder.
    pub path: PathBuf,
    /// SHA-256 of the profile, hex.
    pub sha256: String,
    /// Size of the profile.
    pub bytes: u64,
    /// Number of raw files in it.
    pub raw_files: u32,
    /// Their total size.
    pub raw_bytes: u64,
    /// The command, ready to paste.
    pub command: String,
}

/// A verified profile, and its coverage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proven {
    /// Its contents.
    pub proof: ProfileProof,
    /// Code in the program that the profile covers or leaves out.
    pub code_inside: Vec<CodeInside>,
}

/// A requested instrumented build must be instrumented, and no other build may be.
pub(crate) fn refuse_other_counting(request: &BuildRequest, built: &Built) -> Result<()> {
    let binary = || built.executable.clone();
    match (request.guide.counts(), built.facts.instrumented) {
        (true, false) => Err(Refusal::NotInstrumented { binary: binary() }.into()),
        (false, true) => Err(Refusal::Instrumented { binary: binary() }.into()),
        _ => Ok(()),
    }
}

pub(crate) fn refuse_same_code(shaped: &Built, plain: &Built) -> Result<()> {
    let same = shaped.facts.text_sha256 == plain.facts.text_sha256;
    refuse_if(same && libraries_of(shaped) == libraries_of(plain), || Refusal::SameCode {
        optimized: shaped.executable.clone(),
        baseline: plain.executable.clone(),
    })
}

/// The machine code of the shared libraries that a build made, by their names.
fn libraries_of(built: &Built) -> BTreeMap<PathBuf, String> {
    let How::Recipe { log, .. } = &built.how else { return BTreeMap::new() };
    let code = |path: &PathBuf| {
        let name = PathBuf::from(path.file_name()?);
        Some((name, file_facts(path).ok()?.text_sha256))
    };
    Libraries::from_log(log).paths().filter_map(code).collect()
}

/// The messages of a build's tools, one text for each command.
pub(crate) fn words_of(built: &Built) -> Result<Vec<String>> {
    let read = |path: &PathBuf| {
        let bytes = fs::read(path).with_context(|| format!("{} can't be read", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    built.stderr_paths.iter().map(read).collect()
}

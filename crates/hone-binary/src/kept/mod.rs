//! Profiles that are kept: shown, held against the program of today, against each other, and merged.
//!
//! Three forms: `profdata` of LLVM (read through llvm-profdata, whose form changes with each version), `fdata` of BOLT and
//! `pprof` of Go (read by own code). A file says itself which one it is. What it was taken from it does not say; that is in
//! the [lock] beside it.
//!
//! [`Keeper::check`] answers how much of a profile's weight a program can still take. For each form that is asked of what the
//! optimiser itself goes by: names and hashes of control flow for LLVM, names and BOLT's own words for BOLT, pairs of
//! caller and callee for Go.

mod check;
mod counting;
mod diff;
mod merge;
mod profdata;
mod show;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use hone_tool::Runner;
use serde::{Deserialize, Serialize};

pub use check::{Check, DEFAULT_BUDGET, Lost, Why};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use counting::table as counting_table;
pub use diff::{Difference, Moved};
pub use merge::{Apart, Input, MergedProfile, Weights, weights_for_shares};
pub use show::{Beside, HotRow, HotTable, Shown};

use crate::bolt::fdata::{self, Counts};
use crate::form::head_of;
use crate::go;
use crate::lock::{self, Lock, LockFault, LockedProfile, LockedProgram, LockedTraining};
use crate::profile::{self, symbol_of};
use hone_record::without_hash;

/// The form of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Of LLVM: clang and rustc.
    Profdata,
    /// Of BOLT.
    Fdata,
    /// Of Go.
    Pprof,
}

impl Kind {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Profdata => "profdata",
            Self::Fdata => "fdata",
            Self::Pprof => "pprof",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A profile that can't be kept, or not with another one.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KeptFault {
    /// The file can't be read.
    #[error("{}: {reason}\n  next: check the path and its rights", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// Another kind of file.
    #[error("{} is {what}\n  next: {next}", file.display())]
    NotAProfile {
        /// The file.
        file: PathBuf,
        /// What it is.
        what: &'static str,
        /// The way out.
        next: &'static str,
    },
    /// A profile of LLVM that no tool here reads.
    #[error(
        "{} has version {format} of its form, which {tool} can't read\n  next: install the LLVM of the compiler that made \
         it, or name its tool by HONE_LLVM_PROFDATA", file.display()
    )]
    TooNew {
        /// The profile.
        file: PathBuf,
        /// Version of the indexed form.
        format: u32,
        /// The newest tool that was found.
        tool: String,
    },
    /// No llvm-profdata.
    #[error(
        "there is no llvm-profdata here, through which profiles of LLVM are read\n  next: rustup component add llvm-tools, \
         apt-get install llvm-22, or let HONE_LLVM_PROFDATA name one"
    )]
    NoTool,
    /// llvm-profdata failed, or wrote something else than it was asked for.
    #[error("{}: {reason}\n  next: take the profile again, or from version control", file.display())]
    Broken {
        /// The profile.
        file: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Nothing was counted.
    #[error("the profile {} has no count above 0\n  next: check that the training reached the program", file.display())]
    Hollow {
        /// The profile.
        file: PathBuf,
    },
    /// Profiles of different kinds.
    #[error("{} is {here}, {} is {there}\n  next: name profiles of one kind", file.display(), other.display())]
    Kinds {
        /// One.
        file: PathBuf,
        /// Its kind.
        here: String,
        /// Another.
        other: PathBuf,
        /// Its kind.
        there: String,
    },
    /// Profiles of different builds.
    #[error(
        "{} and {} were taken from different builds: {reason}\n  next: take both from one build, or say --different-builds \
         when the sum is wanted nevertheless", file.display(), other.display()
    )]
    Builds {
        /// One.
        file: PathBuf,
        /// Another.
        other: PathBuf,
        /// How that is known.
        reason: String,
    },
    /// A program that can't answer.
    #[error("{} {what}\n  next: {next}", program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// What it lacks.
        what: String,
        /// The way out.
        next: &'static str,
    },
    /// Next to nothing of the profile is of a kind about which the program can say something.
    #[error(
        "{} can judge {judged} of the {total} counts of {}: nothing is known of the rest\n  next: {next}",
        program.display(), file.display()
    )]
    Unjudged {
        /// The profile.
        file: PathBuf,
        /// The program.
        program: PathBuf,
        /// Counts that were compared.
        judged: u64,
        /// Counts of the profile.
        total: u64,
        /// The way out.
        next: &'static str,
    },
    /// A weight that makes no sense.
    #[error("{0}\n  next: give each profile a weight above 0, or a share")]
    Weights(String),
    /// A share for which counts would have to be multiplied by more than a merge can.
    #[error(
        "{} can't have its share: {reason}\n  next: leave it out, take a longer training of it, or merge the trainings themselves \
         where others are merges already", file.display()
    )]
    Apart {
        /// The profile with the fewest counts for its share.
        file: PathBuf,
        /// Why it can't.
        reason: String,
    },
}

/// The largest part of a file's beginning that tells its kind.
const HEAD_BYTES: u64 = 64;

/// What a file is, by its first bytes, and the version of the form of an indexed profile of LLVM.
fn recognize(head: &[u8]) -> Result<(Kind, Option<u32>), (&'static str, &'static str)> {
    let again = "take the profile again";
    match head {
        [] => Err(("empty (0 bytes)", again)),
        // An indexed profile; its version stands in the lower half of the next word, what it is made of above.
        [0xff, b'l', b'p', b'r', b'o', b'f', b'i', 0x81, a, b, c, d, ..] => {
            Ok((Kind::Profdata, Some(u32::from_le_bytes([*a, *b, *c, *d]))))
        }
        [0x81, b'r' | b'R', b'f', b'o', b'r', b'p', b'l', 0xff, ..] => {
            Err(("a raw profile of LLVM", "merge it first: llvm-profdata merge -o FILE.profdata *.profraw"))
        }
        [b':', ..] | [b'#', b' ', ..] => Ok((Kind::Profdata, None)),
        [0x1f, 0x8b, ..] | [b'\n', ..] => Ok((Kind::Pprof, None)),
        [b'0'..=b'5', b' ', ..] => Ok((Kind::Fdata, None)),
        _ if head.starts_with(b"no_lbr") || head.starts_with(b"boltedcollection") => Ok((Kind::Fdata, None)),
        _ if head.starts_with(b"---\n") => {
            Err(("a YAML profile of BOLT", "take it as text: without -profile-format=yaml"))
        }
        _ if head.starts_with(b"PERFILE2") => Err(("perf's samples", "convert them with perf2bolt first")),
        _ if head.starts_with(b"adcg") || head.starts_with(b"gcda") => Err((
            "gcc's counts of one object",
            "gcc's profiles live in the build's folder, and are not kept as a file",
        )),
        _ if head.starts_with(b"\x7fELF") => Err(("a program and no profile", "name the profile first")),
        _ => Err(("no profile that is known", "name a file of llvm-profdata, BOLT (text) or pprof")),
    }
}

/// A profile, read.
#[derive(Debug)]
enum Contents {
    Profdata(profile::Profile),
    Fdata(Counts),
    Pprof(Box<go::Profile>),
}

/// A profile with what is known of its file.
#[derive(Debug)]
struct Opened {
    file: PathBuf,
    kind: Kind,
    /// Version of the form, of an indexed profile of LLVM.
    format: Option<u32>,
    sha256: String,
    bytes: u64,
    contents: Contents,
}

/// The value of pprof that stands for the whole where people read it: time, where it was taken. (Go's compiler takes the first of
/// samples and time, which are to each other as they are in every other stack.)
fn main_value(profile: &go::Profile) -> usize {
    let wanted = ["cpu", "samples", "alloc_space"];
    wanted.iter().find_map(|kind| profile.value_index(kind)).unwrap_or(0)
}

/// Functions by the name that people read, each with its weight. What differs only in what the compiler adds to a name (the
/// hash of Rust's symbols, the unit in front of local ones) is one function.
fn weights(contents: &Contents) -> HashMap<String, u64> {
    let mut sums: HashMap<String, u64> = HashMap::new();
    let mut add = |name: String, weight: u64| {
        let sum = sums.entry(name).or_default();
        *sum = sum.saturating_add(weight);
    };
    match contents {
        Contents::Profdata(profile) => profile
            .functions
            .iter()
            .for_each(|function| add(without_hash(symbol_of(&function.name)), function.total_count)),
        Contents::Fdata(counts) => {
            counts.functions.iter().for_each(|(name, sum)| add(without_hash(name), sum.heat()));
        }
        Contents::Pprof(profile) => {
            let kind = &profile.sample_types[main_value(profile)].kind;
            let rows = go::table(profile, kind).map(|table| table.rows).unwrap_or_default();
            rows.into_iter().for_each(|row| add(row.name, row.flat.max(0).cast_unsigned()));
        }
    }
    sums.retain(|_, weight| *weight > 0);
    sums
}

/// What a profile is, and what it was taken from.
#[derive(Debug, Clone, PartialEq)]
pub struct Identity {
    /// What its lock says of it, or would.
    pub profile: LockedProfile,
    /// Of the programs, each once, sorted: by its lock, BOLT's note, or, of Go, the profile itself.
    pub build_ids: Vec<String>,
}

/// Reads, compares and merges kept profiles.
pub struct Keeper<'a> {
    runner: &'a dyn Runner,
    /// For files that nobody wants to keep.
    scratch: &'a Path,
}

impl<'a> Keeper<'a> {
    /// `scratch` is a folder that is there and belongs to the caller.
    pub fn new(runner: &'a dyn Runner, scratch: &'a Path) -> Self {
        Self { runner, scratch }
    }

    fn open(&self, file: &Path) -> Result<Opened> {
        let (kind, format) = kind_of(file)?;
        let (sha256, bytes) = lock::sha256_of(file)?;
        let contents = match kind {
            Kind::Profdata => Contents::Profdata(profdata::read(self.runner, self.scratch, file, format)?),
            Kind::Fdata => Contents::Fdata(fdata::counts(file)?),
            Kind::Pprof => Contents::Pprof(Box::new(go::read_profile(file)?)),
        };
        Ok(Opened { file: file.to_path_buf(), kind, format, sha256, bytes, contents })
    }

    /// What a profile is and what it was taken from, by one reading.
    ///
    /// # Errors
    /// As [`Keeper::facts`], and [`LockFault`].
    pub fn identity(&self, file: &Path) -> Result<Identity> {
        let opened = self.open(file)?;
        let ids: BTreeSet<String> = opened.builds()?.into_iter().filter_map(|taken| taken.build_id).collect();
        Ok(Identity { profile: opened.facts(), build_ids: ids.into_iter().collect() })
    }

    /// Refuses a profile that no merge would take: one that can't be read, has no count, or is not the one of its lock.
    ///
    /// # Errors
    /// As [`Keeper::facts`], and [`LockFault`].
    pub fn sound(&self, file: &Path) -> Result<()> {
        let opened = self.open(file)?;
        opened.counted()?;
        opened.lock()?;
        Ok(())
    }

    /// Writes the lock of a profile beside it, and answers its path.
    ///
    /// # Errors
    /// As [`Keeper::facts`], and [`LockFault`].
    pub fn lock(
        &self,
        file: &Path,
        programs: Vec<LockedProgram>,
        trainings: Vec<LockedTraining>,
    ) -> Result<PathBuf> {
        Ok(Lock::new(self.facts(file)?, programs, trainings).write(file)?)
    }

    /// What a lock says of the profile itself.
    ///
    /// # Errors
    /// [`KeptFault`] and those of the profile's form.
    pub fn facts(&self, file: &Path) -> Result<LockedProfile> {
        Ok(self.open(file)?.facts())
    }
}

/// The kind of a file, and its version.
fn kind_of(file: &Path) -> Result<(Kind, Option<u32>), KeptFault> {
    let unreadable = |reason: String| KeptFault::Unreadable { file: file.to_path_buf(), reason };
    let head = head_of(file, HEAD_BYTES).map_err(|error| unreadable(error.to_string()))?;
    let head = head.ok_or_else(|| unreadable("it is no regular file".to_owned()))?;
    recognize(&head).map_err(|(what, next)| KeptFault::NotAProfile { file: file.to_path_buf(), what, next })
}

impl Opened {
    fn facts(&self) -> LockedProfile {
        let (level, functions, total_count, max_count) = match &self.contents {
            Contents::Profdata(profile) => (
                profile.level().to_owned(),
                profile.functions.len() as u64,
                profile.total_count,
                profile.max_count,
            ),
            Contents::Fdata(counts) => {
                let heat = counts.functions.values().map(|sum| sum.heat()).max();
                (fdata_level(counts), counts.functions.len() as u64, counts.total, heat.unwrap_or(0))
            }
            Contents::Pprof(profile) => {
                let index = main_value(profile);
                let largest = weights(&self.contents).into_values().max();
                let total = profile.total(index).max(0).cast_unsigned();
                (pprof_level(profile), profile.functions.len() as u64, total, largest.unwrap_or(0))
            }
        };
        LockedProfile {
            kind: self.kind,
            sha256: self.sha256.clone(),
            bytes: self.bytes,
            level,
            functions,
            total_count,
            max_count,
        }
    }

    /// Its lock, held against it.
    fn lock(&self) -> Result<Option<Lock>, LockFault> {
        Lock::read(&self.file)
    }

    /// The sum of its counts; of Go one for each type of value.
    fn sums(&self) -> Vec<i128> {
        match &self.contents {
            Contents::Profdata(profile) => vec![profile.total_count.into()],
            Contents::Fdata(counts) => vec![counts.total.into()],
            Contents::Pprof(profile) => {
                let sum = |index: usize| {
                    profile.samples.iter().map(|sample| i128::from(sample.values[index])).sum()
                };
                (0..profile.sample_types.len()).map(sum).collect()
            }
        }
    }

    /// Refuses a profile in which nothing was counted.
    fn counted(&self) -> Result<(), KeptFault> {
        match self.facts().total_count {
            0 => Err(KeptFault::Hollow { file: self.file.clone() }),
            _ => Ok(()),
        }
    }

    /// Refuses two profiles whose counts do not mean the same.
    fn like(&self, other: &Self) -> Result<(), KeptFault> {
        let words = |opened: &Self| match &opened.contents {
            // A merge of both levels is how a profile with context is made.
            Contents::Profdata(profile) => {
                format!("profdata ({})", if profile.ir { "IR" } else { "Front-end" })
            }
            Contents::Fdata(counts) => {
                let kind = if counts.head.samples.is_some() { "plain samples" } else { "branches" };
                let of = if counts.head.bolted { " of a program that BOLT had rewritten" } else { "" };
                format!("fdata ({kind}{of})")
            }
            Contents::Pprof(profile) => format!("pprof ({})", value_types(profile)),
        };
        let (here, there) = (words(self), words(other));
        if here == there {
            return Ok(());
        }
        Err(KeptFault::Kinds { file: self.file.clone(), here, other: other.file.clone(), there })
    }
}

fn fdata_level(counts: &Counts) -> String {
    let level = match &counts.head.samples {
        None => "branches".to_owned(),
        Some(events) => format!("samples {}", events.join(" ")).trim_end().to_owned(),
    };
    if counts.head.bolted { format!("{level}, mapped back from a rewritten program") } else { level }
}

fn pprof_level(profile: &go::Profile) -> String {
    profile.sample_types[main_value(profile)].kind.clone()
}

fn value_types(profile: &go::Profile) -> String {
    let types = profile.sample_types.iter().map(|found| format!("{}/{}", found.kind, found.unit));
    types.collect::<Vec<_>>().join(", ")
}

/// A part of a whole, 0 to 1; 0 of nothing.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use hone_tool::System;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_file_says_what_it_is() {
        let kind = |head: &[u8]| recognize(head).map(|(kind, _)| kind);
        let indexed = b"\xfflprofi\x81\x0d\0\0\0\0\0\0\x01";
        assert_eq!(recognize(indexed), Ok((Kind::Profdata, Some(13))));
        assert_eq!(kind(b":ir\nmain\n"), Ok(Kind::Profdata));
        assert_eq!(kind(b"# IR level Instrumentation Flag\n:ir\n"), Ok(Kind::Profdata));
        assert_eq!(kind(b"1 main 0 1 f 0 0 1\n"), Ok(Kind::Fdata));
        assert_eq!(kind(b"no_lbr cpu-clock:u:\n1 main 0 1\n"), Ok(Kind::Fdata));
        assert_eq!(kind(b"boltedcollection\n"), Ok(Kind::Fdata));
        assert_eq!(kind(b"\x1f\x8b\x08\0"), Ok(Kind::Pprof));
        assert_eq!(kind(b"\n\x04\x08\x01\x10\x02"), Ok(Kind::Pprof));
        let refused = |head: &[u8], words: &str| {
            let (what, next) = recognize(head).unwrap_err();
            assert!(what.contains(words) && !next.is_empty(), "{what}");
        };
        refused(b"", "empty");
        refused(b"\x81rforpl\xff\x0a", "raw profile");
        refused(b"---\nheader:", "YAML");
        refused(b"PERFILE2", "perf");
        refused(b"adcgA22*", "gcc");
        refused(b"\x7fELF\x02", "program");
        refused(b"<html>", "no profile");
    }

    #[test]
    fn what_can_not_be_read_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let system = System::new(folder.path().join("log")).unwrap();
        let keeper = Keeper::new(&system, folder.path());
        let fails = |path: &Path| format!("{:#}", keeper.facts(path).unwrap_err());
        assert!(fails(&folder.path().join("none")).contains("none: No such file"));
        assert!(fails(folder.path()).contains("it is no regular file"));
        let file = folder.path().join("f");
        fs::write(&file, "1 main 0 1 f 0 0 1\nwhat\n").unwrap();
        assert!(fails(&file).contains("line 2"), "the reader of the form has the words");
        fs::write(&file, b"\x1f\x8b\x08garbage").unwrap();
        assert!(fails(&file).contains("is no pprof profile"));
    }

    #[test]
    fn facts_of_a_profile_of_bolt() {
        let folder = tempfile::tempdir().unwrap();
        let system = System::new(folder.path().join("log")).unwrap();
        let file = folder.path().join("f");
        fs::write(&file, "no_lbr cpu-clock:u:\n1 main 0 5\n2 _ZN1a1b17h0123456789abcdefE/1 3 7\n").unwrap();
        let facts = Keeper::new(&system, folder.path()).facts(&file).unwrap();
        assert_eq!((facts.kind, facts.level.as_str()), (Kind::Fdata, "samples cpu-clock:u:"));
        assert_eq!((facts.functions, facts.total_count, facts.max_count), (2, 12, 7));
        let counts = Contents::Fdata(fdata::counts(&file).unwrap());
        assert_eq!(weights(&counts)["a::b"], 7, "told as people read it");
    }

    proptest! {
        #[test]
        fn no_beginning_makes_it_panic(head in proptest::collection::vec(any::<u8>(), 0..20)) {
            let _ = recognize(&head);
        }
    }
}

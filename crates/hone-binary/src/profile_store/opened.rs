//! An opened stored profile, and its facts.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use hone_record::without_hash;

use super::fault::StoreFault;
use super::format::StoredFormat;
use crate::bolt::Origin;
use crate::bolt::fdata::Counts;
use crate::go;
use crate::lock::{Lock, LockFault, LockedProfile};
use crate::profile::{self, symbol_of};

/// An opened profile.
#[derive(Debug)]
pub(super) enum Contents {
    Profdata(profile::Profile),
    Fdata(Counts),
    Pprof(Box<go::Profile>),
}

/// A profile with the facts about its file.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: PathBuf,
    pub(super) kind: StoredFormat,
    /// Version of the form, of an indexed profile of LLVM.
    pub(super) format: Option<u32>,
    pub(super) sha256: String,
    pub(super) bytes: u64,
    pub(super) contents: Contents,
}

/// The pprof value that represents the whole for people: time, if the profile has it. (Go's compiler uses the first of samples and time,
/// which are proportional in every stack.)
pub(super) fn main_value(profile: &go::Profile) -> usize {
    let wanted = ["cpu", "samples", "alloc_space"];
    wanted.iter().find_map(|kind| profile.value_index(kind)).unwrap_or(0)
}

/// Functions by demangled name, each with its weight. Names that differ only by the compiler's additions (the hash of Rust's symbols, the
/// unit before local ones) are one function.
pub(super) fn weights(contents: &Contents) -> HashMap<String, u64> {
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

impl Opened {
    pub(super) fn facts(&self) -> LockedProfile {
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

    /// Its lock, which Hone has compared with it.
    pub(super) fn lock(&self) -> Result<Option<Lock>, LockFault> {
        Lock::read(&self.file)
    }

    /// The sum of its counts; for Go one for each type of value.
    pub(super) fn sums(&self) -> Vec<i128> {
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
    pub(super) fn counted(&self) -> Result<(), StoreFault> {
        match self.facts().total_count {
            0 => Err(StoreFault::Hollow { file: self.file.clone() }),
            _ => Ok(()),
        }
    }

    /// Refuses two profiles with different kinds of counts.
    pub(super) fn like(&self, other: &Self) -> Result<(), StoreFault> {
        let words = |opened: &Self| match &opened.contents {
            // A merge of both levels is how a context-sensitive profile is made.
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
        Err(StoreFault::Kinds { file: self.file.clone(), here, other: other.file.clone(), there })
    }

    /// The builds that the lock names, or BOLT's note next to the profile.
    pub(super) fn taken_from(&self) -> Result<Vec<Taken>> {
        let from_lock = self.lock()?.map(|lock| lock.programs).unwrap_or_default();
        let mut taken: Vec<Taken> = from_lock
            .into_iter()
            .map(|program| Taken { sha256: program.sha256, build_id: program.build_id })
            .collect();
        if taken.is_empty() && self.kind == StoredFormat::Fdata {
            taken.extend(note(&self.file).map(|note| Taken { sha256: note.sha256, build_id: note.build_id }));
        }
        Ok(taken)
    }

    /// The builds by lock and note, and for Go by the profile itself.
    pub(super) fn builds(&self) -> Result<Vec<Taken>> {
        let mut taken = self.taken_from()?;
        if let (true, Contents::Pprof(profile)) = (taken.is_empty(), &self.contents) {
            let main = profile.mappings.first().filter(|mapping| !mapping.build_id.is_empty());
            taken.extend(
                main.map(|mapping| Taken { sha256: String::new(), build_id: Some(mapping.build_id.clone()) }),
            );
        }
        Ok(taken)
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

/// A part of a whole, 0 to 1; 0 if the whole is 0.
pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl Contents {
    /// The data for the comparison with the next one, without the counts.
    pub(super) fn head(&self) -> Self {
        match self {
            Self::Profdata(profile) => {
                Self::Profdata(profile::Profile { ir: profile.ir, ..profile::Profile::default() })
            }
            Self::Fdata(counts) => Self::Fdata(Counts { head: counts.head.clone(), ..Counts::default() }),
            Self::Pprof(profile) => Self::Pprof(Box::new(go::Profile {
                sample_types: profile.sample_types.clone(),
                ..go::Profile::default()
            })),
        }
    }
}

/// The build of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) sha256: String,
    pub(super) build_id: Option<String>,
}

impl Taken {
    pub(super) fn is(&self, sha256: &str, build_id: Option<&str>) -> bool {
        // For some programs only the build-id is known.
        (!sha256.is_empty() && self.sha256 == sha256)
            || (self.build_id.is_some() && self.build_id.as_deref() == build_id)
    }

    pub(super) fn same(&self, other: &Self) -> bool {
        self.is(&other.sha256, other.build_id.as_deref())
    }
}

/// BOLT's note next to a profile; an unreadable one is no evidence.
pub(super) fn note(profile: &Path) -> Option<Origin> {
    serde_json::from_slice(&std::fs::read(Origin::note(profile)).ok()?).ok()
}

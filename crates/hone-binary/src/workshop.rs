//! One seam for every way in which a program comes to be built: by Cargo, by the commands of its own build system, by `go`,
//! or long ago by somebody else.
//!
//! An [`Order`] says which build is wanted, a [`Workshop`] makes it into a [`Built`]. What a kind of target can't have is
//! refused before anything starts ([`Workshop::fits`]). BOLT stands beside: it takes a `Built` and gives another one.
//! The order of work, of which the training itself belongs to the caller:
//!
//! 1. [`Workshop::build`] of the plain order, and of one with [`Guide::Generate`] (Go: none, its plain program is trained);
//! 2. the caller starts the counting program with [`Workshop::training_env`], loads it, and stops it; its counts are then
//!    where [`Workshop::profile_files`] says;
//! 3. [`Workshop::merge`], then [`Workshop::prove_profile`]: no build may use a profile that was not proven;
//! 4. [`Workshop::build`] with [`Guide::Use`], then [`Workshop::prove_applied`].
//!
//! For context-sensitive counts (clang) there is a second round in between: a build with [`Guide::CsGenerate`] and the proven
//! profile, a second training, and a merge of the first merged profile *and* the second training.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hone_record::{Artifact, CodeInside, ProfileApplied, ProfileProof, ToolReceipt};
use serde::{Deserialize, Serialize};

use crate::autofdo::Converter;
use crate::bolt::{Rung, Said};
use crate::capture::{ProfileFiles, Tally};
use crate::elf::{FileFacts, loaded_sha256, sha256_hex};
use crate::linkmap::Coverage;
use crate::lock::sha256_of;
use crate::messages::NativeCode;
use crate::refusal::Refusal;
use crate::shim::Entry;
use crate::target_kind::TargetKind;

/// The profile's part in a build.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guide {
    /// None.
    None,
    /// The program counts.
    Generate,
    /// A plain program whose code can be traced back to the lines of its sources: what samples of it become a profile by.
    Traceable,
    /// The program is shaped by a merged profile: a file, for gcc a folder of `.gcda` files.
    Use(PathBuf),
    /// The program is shaped by a merged profile and counts once more, after inlining.
    CsGenerate(PathBuf),
    /// The program is shaped by samples of its branches.
    SampleUse(PathBuf),
}

impl Guide {
    /// The profile that a build reads.
    pub fn profile(&self) -> Option<&Path> {
        match self {
            Self::None | Self::Generate | Self::Traceable => None,
            Self::Use(profile) | Self::CsGenerate(profile) | Self::SampleUse(profile) => Some(profile),
        }
    }

    /// Whether the program counts while it runs.
    pub fn counts(&self) -> bool {
        matches!(self, Self::Generate | Self::CsGenerate(_))
    }
}

/// Which build is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Order {
    /// Its name.
    pub variant: String,
    /// The profile's part.
    pub guide: Guide,
    /// Whether the linker keeps relocations, which BOLT needs.
    pub relocs: bool,
    /// Whether switches may become tables of addresses.
    pub jump_tables: bool,
    /// Whether each function is compiled into a section of its own, as it is wherever there is a seed: the first of several
    /// builds differs from the others by its places only.
    #[serde(default)]
    pub apart: bool,
    /// Places functions in an order of luck, the same for the same number: how much of a difference is luck of placement
    /// is seen from several. In a build with a profile of clang or rustc, lld orders hot functions by the profile, seed or
    /// not; those move by the padding that the linker puts between functions, where it knows how to.
    pub link_seed: Option<u64>,
}

impl Order {
    /// A build as the program's makers do it.
    pub fn plain(variant: &str) -> Self {
        Self {
            variant: variant.to_owned(),
            guide: Guide::None,
            relocs: false,
            jump_tables: true,
            apart: false,
            link_seed: None,
        }
    }

    /// With this part of a profile.
    #[must_use]
    pub fn guided(self, guide: Guide) -> Self {
        Self { guide, ..self }
    }

    /// With relocations kept.
    #[must_use]
    pub fn with_relocs(self) -> Self {
        Self { relocs: true, ..self }
    }

    /// Without tables of addresses for switches.
    #[must_use]
    pub fn without_jump_tables(self) -> Self {
        Self { jump_tables: false, ..self }
    }

    /// With each function in a section of its own.
    #[must_use]
    pub fn apart(self) -> Self {
        Self { apart: true, ..self }
    }

    /// With functions in the order of this number.
    #[must_use]
    pub fn seeded(self, link_seed: u64) -> Self {
        Self { link_seed: Some(link_seed), ..self }
    }

    /// Names the folder of all builds with this guide, these flags, and a profile of this content.
    pub(crate) fn folder_name(&self) -> String {
        let of = |what: &str, profile: &Path| format!("{what}-{}", key_of(profile));
        let mut name = match &self.guide {
            Guide::None => "baseline".to_owned(),
            Guide::Generate => "instrumented".to_owned(),
            Guide::Traceable => "traceable".to_owned(),
            Guide::Use(profile) => of("pgo", profile),
            Guide::CsGenerate(profile) => of("cs-instrumented", profile),
            Guide::SampleUse(profile) => of("sampled", profile),
        };
        if self.relocs {
            name.push_str("-relocs");
        }
        if !self.jump_tables {
            name.push_str("-no-jump-tables");
        }
        if self.apart && self.link_seed.is_none() {
            name.push_str("-apart");
        }
        if let Some(seed) = self.link_seed {
            name.push_str(&format!("-seed-{seed}"));
        }
        name
    }
}

/// What a profile's builds are known by: its contents, or the name of one that is not there yet.
fn key_of(profile: &Path) -> String {
    let stem = || profile.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    content_hash(profile).map_or_else(|_| stem(), |hash| short(&hash).to_owned())
}

/// SHA-256 of a file, or of the names and contents of all files in a folder.
pub(crate) fn content_hash(path: &Path) -> Result<String> {
    let told = || format!("{} can't be read", path.display());
    if !path.is_dir() {
        return Ok(sha256_hex(&fs::read(path).with_context(told)?));
    }
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(path).with_context(told)? {
        names.insert(entry.with_context(told)?.file_name());
    }
    let mut list = String::new();
    for name in names {
        list.push_str(&format!("{} {}\n", content_hash(&path.join(&name))?, name.to_string_lossy()));
    }
    Ok(sha256_hex(list.as_bytes()))
}

/// Enough of a hash for a name.
pub(crate) fn short(sha256: &str) -> &str {
    sha256.get(..16).unwrap_or(sha256)
}

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
    /// What the tools said.
    pub stderr_paths: Vec<PathBuf>,
    /// Sizes and hashes.
    pub facts: FileFacts,
    /// What only this way of building knows.
    pub how: How,
}

/// A shared library that a build has made, and that its program loads from there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Library {
    /// Where the loader finds it.
    pub path: PathBuf,
    /// SHA-256, hex.
    pub sha256: String,
}

impl Library {
    pub(crate) fn of(path: PathBuf) -> Result<Self> {
        let (sha256, _) = sha256_of(&path)?;
        Ok(Self { path, sha256 })
    }
}

/// What only one way of building knows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// By Cargo.
    Cargo {
        /// Crates that this build compiled; the others were up to date, and their time is not in `build_s`.
        crates_compiled: u32,
        /// Crates that Cargo found up to date.
        crates_up_to_date: u32,
        /// Crates whose sources lie on this machine, as they appear in symbols.
        own_crates: BTreeSet<String>,
        /// Foreign code inside.
        native: Vec<NativeCode>,
    },
    /// By the commands of the program's own build system.
    Recipe {
        /// The copy of the sources in which it was built.
        folder: PathBuf,
        /// Actions of compilers.
        log: Vec<Entry>,
        /// How much of the program's text the flags have shaped.
        coverage: Coverage,
        /// Libraries of this build that the program loads: they stay where they were made.
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
        /// How much it was allowed.
        rung: Rung,
        /// Functions that it left alone.
        skipped: Vec<String>,
        /// What it said.
        said: Box<Said>,
        /// SHA-256 of the program that it rewrote.
        from_sha256: String,
    },
    /// By somebody else.
    Given,
}

impl Built {
    /// All commands as one line to paste.
    pub fn command(&self) -> String {
        self.commands.join(" && ")
    }

    /// How much of the text the flags have shaped, when that is known.
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

    /// The first of these libraries that is another one now, or gone: a later build was made in its place.
    pub fn changed_library(&self) -> Option<&Library> {
        let is_as_it_was =
            |library: &Library| sha256_of(&library.path).is_ok_and(|(now, _)| now == library.sha256);
        self.libraries().iter().find(|library| !is_as_it_was(library))
    }

    /// What the loader gets of the program and of its own libraries, as hashes; the same for two builds that differ by nothing but the
    /// folder they were made in.
    ///
    /// # Errors
    /// When a file can't be read.
    pub fn loaded_sha256(&self) -> Result<Vec<String>> {
        let How::Recipe { folder, libraries, .. } = &self.how else {
            return Ok(vec![self.facts.sha256.clone()]);
        };
        let folder = folder.parent().unwrap_or(folder);
        let files = std::iter::once(&self.executable).chain(libraries.iter().map(|library| &library.path));
        files.map(|file| loaded_sha256(file, folder)).collect()
    }

    /// Foreign code that a build script compiled, when that is known.
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
    /// Raw files that went in.
    pub raw_files: u32,
    /// Their total size.
    pub raw_bytes: u64,
    /// The command, ready to paste.
    pub command: String,
}

/// A profile that may be used, and what it covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proven {
    /// What was read back from it.
    pub proof: ProfileProof,
    /// Code in the program that the profile covers or leaves out.
    pub code_inside: Vec<CodeInside>,
}

/// Builds variants of one program, merges and proves their profiles.
pub trait Workshop {
    /// Who builds.
    fn kind(&self) -> TargetKind;

    /// Whether this kind of target can have this part of a profile.
    ///
    /// # Errors
    /// [`Refusal::Unfit`] with the reason and the way out.
    fn can(&self, guide: &Guide) -> Result<(), Refusal> {
        fits_guide(self.kind(), guide)
    }

    /// Whether this kind of target can be built so; [`Workshop::can`] and the order's other wishes. Nothing is built.
    ///
    /// # Errors
    /// [`Refusal::Unfit`] with the reason and the way out.
    fn fits(&self, order: &Order) -> Result<(), Refusal> {
        self.can(&order.guide)?;
        fits_flags(self.kind(), order)
    }

    /// Builds one variant. Orders with a profile are to be given with a proven one only.
    ///
    /// # Errors
    /// A [`Refusal`] when the order does not fit or the result is not what was ordered; otherwise when the build fails.
    fn build(&self, order: &Order) -> Result<Built>;

    /// What [`Workshop::build`] would run, ready to paste. Nothing is carried out.
    ///
    /// # Errors
    /// A [`Refusal`] when the order does not fit.
    fn commands(&self, order: &Order) -> Result<Vec<String>>;

    /// The environment of a counting program, so that its counts get into this folder. The folder must be empty for each
    /// training, and there when the program starts.
    fn training_env(&self, raw: &Path) -> Vec<(OsString, OsString)>;

    /// Where the counts of a program will be that was started with [`Workshop::training_env`].
    fn profile_files(&self, built: &Built, raw: &Path) -> ProfileFiles;

    /// Who turns perf's data with branch records of a [`Guide::Traceable`] build into a file that [`Workshop::merge`] takes.
    ///
    /// # Errors
    /// [`Refusal::Unfit`] where the compiler takes no samples; when the tool that converts them is missing, with its package.
    fn converter(&self) -> Result<Converter> {
        self.can(&Guide::Traceable)?;
        anyhow::bail!("{} has no tool that makes a profile of samples", self.kind())
    }

    /// Whether this counting program was linked with the dump object (see [`crate::capture::DumpObject`]), and all that counts in
    /// it obeys that one.
    fn has_dump_object(&self, _counting: &Built) -> bool {
        false
    }

    /// What a counting program has left in a folder, in a sum; nothing is proven.
    ///
    /// # Errors
    /// When it can't be read, and for what does not count.
    fn tally(&self, _raw: &Path, _counting: &Built) -> Result<Tally> {
        Err(Refusal::Uncounted { kind: self.kind() }.into())
    }

    /// Merges profiles: folders of raw ones, or files (a merged profile for a second round, a `.pprof`), each with its weight: its
    /// counts are taken that many times. Only the ratio of the weights matters; it is kept to a thousandth.
    ///
    /// # Errors
    /// A [`Refusal`] when one has no profile, an empty one, or one that can't be read.
    fn merge(&self, raw: &[(PathBuf, f64)]) -> Result<Merged>;

    /// Reads a merged profile back and holds it against the program that counted (Go, samples: against the plain program).
    ///
    /// # Errors
    /// A [`Refusal`] with the reason for which no build may use it.
    fn prove_profile(&self, merged: &Merged, counting: &Built) -> Result<Proven>;

    /// Proves from what the tools said, and from the machine code, that the profile shaped the program.
    ///
    /// # Errors
    /// A [`Refusal`] when it was not used, next to nothing of it fits, or the code is that of the plain build.
    fn prove_applied(&self, shaped: &Built, plain: &Built, proven: &Proven) -> Result<ProfileApplied>;

    /// A built variant as it stands in records. The profile's parts are for the variant that was shaped by it.
    fn artifact(&self, built: &Built, profile: Option<(&Proven, &ProfileApplied)>) -> Artifact {
        Artifact {
            variant: built.variant.clone(),
            path: built.executable.display().to_string(),
            sha256: built.facts.sha256.clone(),
            file_bytes: built.facts.file_bytes,
            text_bytes: built.facts.text_bytes,
            build_s: built.build_s,
            command: built.command(),
            tools: self.receipts(),
            profile: profile.map(|(proven, _)| proven.proof.clone()),
            applied: profile.map(|(_, applied)| applied.clone()),
            code_inside: profile.map(|(proven, _)| proven.code_inside.clone()).unwrap_or_default(),
            smoke: None,
        }
    }

    /// Which tools build and merge.
    fn receipts(&self) -> Vec<ToolReceipt>;
}

/// Which guides a kind of target can have.
fn fits_guide(kind: TargetKind, guide: &Guide) -> Result<(), Refusal> {
    let (what, why, next) = match (kind, guide) {
        (_, Guide::None)
        | (TargetKind::Cargo | TargetKind::Clang | TargetKind::Gcc, Guide::Generate | Guide::Use(_))
        | (TargetKind::Clang, Guide::CsGenerate(_) | Guide::SampleUse(_) | Guide::Traceable)
        | (TargetKind::Go, Guide::Use(_)) => return Ok(()),
        (TargetKind::Cargo, Guide::CsGenerate(_)) => {
            ("context-sensitive counts", "rustc has no flag for them", "leave out the variant csir")
        }
        (TargetKind::Cargo, Guide::SampleUse(_) | Guide::Traceable) => (
            "a profile of samples",
            "rustc takes one in nightly builds only (-Zprofile-sample-use)",
            "train an instrumented build (pgo), or let BOLT use the samples",
        ),
        (TargetKind::Gcc, Guide::CsGenerate(_)) => (
            "context-sensitive counts",
            "gcc has no flag for them",
            "leave out the variant csir, or say compiler = \"clang\"",
        ),
        (TargetKind::Gcc, Guide::SampleUse(_) | Guide::Traceable) => (
            "a profile of samples",
            "gcc's form of it is made of branch records by a tool of its own",
            "train an instrumented build (pgo), or let BOLT use the samples",
        ),
        (TargetKind::Go, Guide::Generate) => (
            "a counting build",
            "Go's profile is taken from the plain program by net/http/pprof",
            "train the plain build, and merge what /debug/pprof/profile gave",
        ),
        (TargetKind::Go, Guide::CsGenerate(_)) => {
            ("context-sensitive counts", "Go's compiler has no counts at all", "leave out the variant csir")
        }
        (TargetKind::Go, Guide::SampleUse(_) | Guide::Traceable) => (
            "a profile of branch samples",
            "Go's compiler takes pprof's CPU profiles",
            "use them as its profile (pgo)",
        ),
        (TargetKind::Given, _) => (
            "a build with a profile",
            "there are no sources to compile",
            "use BOLT (variant bolt), or name the sources as the target",
        ),
    };
    Err(Refusal::Unfit { kind, what, why, next })
}

/// Which other wishes a kind of target can be granted.
fn fits_flags(kind: TargetKind, order: &Order) -> Result<(), Refusal> {
    let refuse = |what, why, next| Err(Refusal::Unfit { kind, what, why, next });
    match kind {
        TargetKind::Go if order.relocs => refuse(
            "relocations",
            "they are for BOLT, which does not rewrite Go programs",
            "leave out the variants relocs and bolt",
        ),
        TargetKind::Go if !order.jump_tables => refuse(
            "a build without jump tables",
            "they are for BOLT, which does not rewrite Go programs",
            "leave out the variant no-jump-tables",
        ),
        TargetKind::Given if !order.jump_tables => refuse(
            "a build without jump tables",
            "there are no sources to compile",
            "leave out the variant no-jump-tables, or name the sources as the target",
        ),
        TargetKind::Given if order.link_seed.is_some() => refuse(
            "a link in another order",
            "there are no objects to link",
            "ask for one build only (builds = 1), or name the sources as the target",
        ),
        TargetKind::Gcc if order.link_seed.is_some() => refuse(
            "a link in another order",
            "GNU ld can't shuffle functions, and another order of the objects is another order of their constructors",
            "ask for one build only (builds = 1), or say compiler = \"clang\"",
        ),
        _ => Ok(()),
    }
}

/// The weights that a training may have.
pub const TRAINING_WEIGHTS: std::ops::RangeInclusive<f64> = 1e-3..=1e3;

/// Weights as whole numbers that stand in the same ratio, which is what counts can be taken times.
///
/// # Errors
/// [`Refusal::Weight`] for one that is not between a thousandth and a thousand.
pub(crate) fn whole_weights(weights: &[f64]) -> Result<Vec<u64>, Refusal> {
    if let Some(weight) = weights.iter().find(|weight| !TRAINING_WEIGHTS.contains(*weight)) {
        return Err(Refusal::Weight { weight: weight.to_string() });
    }
    Ok(whole_ratio(weights))
}

/// Whole numbers in the ratio of these, which are above 0: exactly where a factor up to a thousand makes them whole, otherwise
/// as [`nearly_whole_ratio`] has them.
pub(crate) fn whole_ratio(weights: &[f64]) -> Vec<u64> {
    const FINEST: u32 = 1000;
    let times = |factor: f64| weights.iter().map(move |weight| weight * factor);
    let is_whole = |weight: f64| weight >= 0.5 && (weight - weight.round()).abs() < 1e-9 * weight.max(1.0);
    let exact = (1..=FINEST).map(f64::from).find(|&factor| times(factor).all(is_whole));
    exact.map_or_else(|| nearly_whole_ratio(weights), |factor| rounded(times(factor)))
}

/// The smallest whole numbers in the ratio of these, which are above 0, of which none is off by more than a thousandth: what is taken
/// more times than it must be comes to the end of its type the sooner.
pub(crate) fn nearly_whole_ratio(weights: &[f64]) -> Vec<u64> {
    const MOST_OFF: f64 = 1e-3;
    // Half of one is a thousandth of it.
    const LEAST_AT_MOST: u32 = 500;
    let least = weights.iter().copied().fold(f64::INFINITY, f64::min);
    let times = |smallest: u32| weights.iter().map(move |weight| weight / least * f64::from(smallest));
    let is_near = |weight: f64| (weight - weight.round()).abs() <= MOST_OFF * weight;
    let smallest = (1..LEAST_AT_MOST).find(|&smallest| times(smallest).all(is_near));
    rounded(times(smallest.unwrap_or(LEAST_AT_MOST)))
}

/// To the nearest, without what all have in common.
fn rounded(weights: impl Iterator<Item = f64>) -> Vec<u64> {
    let whole: Vec<u64> = weights.map(|weight| weight.round() as u64).collect();
    let common = whole.iter().copied().fold(0, greatest_common_divisor).max(1);
    whole.into_iter().map(|weight| weight / common).collect()
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_kind_of_target_cannot_have_is_refused_with_the_way_out() {
        let profile = || PathBuf::from("/p");
        let guides = [
            Guide::None,
            Guide::Generate,
            Guide::Use(profile()),
            Guide::CsGenerate(profile()),
            Guide::SampleUse(profile()),
            Guide::Traceable,
        ];
        let takes = |kind| guides.iter().map(|guide| fits_guide(kind, guide).is_ok()).collect::<Vec<_>>();
        assert_eq!(takes(TargetKind::Cargo), [true, true, true, false, false, false]);
        assert_eq!(takes(TargetKind::Clang), [true; 6]);
        assert_eq!(takes(TargetKind::Gcc), [true, true, true, false, false, false]);
        assert_eq!(takes(TargetKind::Go), [true, false, true, false, false, false]);
        assert_eq!(takes(TargetKind::Given), [true, false, false, false, false, false]);

        let wishes = [
            Order::plain("x").with_relocs(),
            Order::plain("x").without_jump_tables(),
            Order::plain("x").seeded(1),
        ];
        let takes = |kind| wishes.iter().map(|order| fits_flags(kind, order).is_ok()).collect::<Vec<_>>();
        assert_eq!(takes(TargetKind::Cargo), [true, true, true]);
        assert_eq!(takes(TargetKind::Clang), [true, true, true]);
        assert_eq!(takes(TargetKind::Gcc), [true, true, false]);
        assert_eq!(takes(TargetKind::Go), [false, false, true]);
        assert_eq!(takes(TargetKind::Given), [true, false, false]);

        let words = fits_guide(TargetKind::Cargo, &guides[3]).unwrap_err().to_string();
        assert_eq!(
            words,
            "a Cargo target can't have context-sensitive counts: rustc has no flag for them\n  next: leave out the \
             variant csir"
        );
    }

    #[test]
    fn builds_of_other_orders_have_other_folders() {
        let dir = tempfile::tempdir().unwrap();
        let profile = dir.path().join("a.profdata");
        let shaped = || Order::plain("x").guided(Guide::Use(profile.clone())).folder_name();
        assert_eq!(shaped(), "pgo-a", "a profile that is not there yet");
        fs::write(&profile, "one").unwrap();
        let one = shaped();
        fs::write(&profile, "two").unwrap();
        assert_ne!(one, shaped(), "another content under the same name");
        assert_eq!((one.len(), &one[..4]), (20, "pgo-"));
        let all = Order::plain("x").guided(Guide::Generate).with_relocs().without_jump_tables().seeded(7);
        assert_eq!(all.folder_name(), "instrumented-relocs-no-jump-tables-seed-7");
        assert_eq!(Order::plain("y").folder_name(), "baseline");
    }

    #[test]
    fn a_folder_is_known_by_its_contents() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("in")).unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        write("a.gcda", "1");
        write("in/b.gcda", "2");
        let before = content_hash(dir.path()).unwrap();
        assert_eq!(content_hash(dir.path()).unwrap(), before);
        write("in/b.gcda", "3");
        let changed = content_hash(dir.path()).unwrap();
        fs::rename(dir.path().join("in/b.gcda"), dir.path().join("in/c.gcda")).unwrap();
        assert!(before != changed && changed != content_hash(dir.path()).unwrap());
        assert!(content_hash(&dir.path().join("none")).is_err());
    }

    #[test]
    fn weights_keep_their_ratio() {
        let whole = |weights: &[f64]| whole_weights(weights).unwrap();
        assert_eq!(whole(&[1.0, 1.0]), [1, 1]);
        assert_eq!(whole(&[0.7, 0.2, 0.1]), [7, 2, 1]);
        assert_eq!(whole(&[20.0, 30.0]), [2, 3]);
        assert_eq!(whole(&[0.001, 1000.0]), [1, 1_000_000]);
        assert_eq!(whole(&[1.0 / 3.0, 2.0 / 3.0]), [1, 2]);
        assert_eq!(whole(&[]), [] as [u64; 0]);
        assert_eq!(whole(&[1.0, 1.001]), [1_000, 1_001], "exactly where that can be");
        assert_eq!(nearly_whole_ratio(&[1.0, 1.001]), [1, 1]);
        assert_eq!(nearly_whole_ratio(&[1.0, std::f64::consts::PI]), [7, 22], "no more than they must be");
        assert_eq!(nearly_whole_ratio(&[8e-7, 1.0]), [1, 1_250_000]);
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-4, 1e4] {
            assert!(matches!(whole_weights(&[1.0, wrong]), Err(Refusal::Weight { .. })), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn every_ratio_is_kept_to_a_thousandth(weights in prop::collection::vec(1e-3..1e3_f64, 1..6)) {
            let whole = whole_weights(&weights).unwrap();
            for (a, b) in weights.iter().zip(&whole) {
                let ratio = (*b as f64 / whole[0] as f64) / (a / weights[0]);
                prop_assert!((ratio - 1.0).abs() < 2e-3, "{weights:?} {whole:?}");
            }
            let least = nearly_whole_ratio(&weights).into_iter().min().unwrap();
            prop_assert!(least <= 500, "{weights:?} {least}");
        }
    }
}

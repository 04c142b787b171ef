//! One interface for every way to build a program: by Cargo, by the commands of its own build system, by `go`, or not at all (a finished
//! program).
//!
//! A [`BuildRequest`] describes the requested build, a [`Builder`] makes it into a [`Built`]. Hone refuses what a kind of target can't have
//! before anything starts ([`Builder::fits`]). BOLT is separate: it takes a `Built` and returns another one. The order of work, in which
//! the caller does the training itself:
//!
//! 1. [`Builder::build`] of the plain request, and of one with [`Guide::Generate`] (Go: none, its plain program is trained);
//! 2. the caller starts the instrumented program with [`Builder::training_env`], loads it, and stops it; its counts are then where
//!    [`Builder::profile_files`] says;
//! 3. [`Builder::merge`], then [`Builder::prove_profile`]: no build may use an unverified profile;
//! 4. [`Builder::build`] with [`Guide::Use`], then [`Builder::prove_applied`].
//!
//! For context-sensitive counts (clang) there is a second round in between: a build with [`Guide::CsGenerate`] and the verified profile, a
//! second training, and a merge of the first merged profile *and* the second training.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Result;
use hone_record::{Artifact, ProfileApplied, ToolReceipt};

use crate::autofdo::Converter;
use crate::build_request::{BuildRequest, Guide};
use crate::built::{Built, Merged, Proven};
use crate::capture::{ProfileFiles, Tally};
use crate::refusal::Refusal;
use crate::target_kind::TargetKind;

/// Builds variants of one program, merges and verifies their profiles.
pub trait Builder {
    /// The kind of its targets.
    fn kind(&self) -> TargetKind;

    /// Checks that this kind of target can have this part of a profile.
    ///
    /// # Errors
    /// [`Refusal::Unfit`] with the reason and the remedy.
    fn can(&self, guide: &Guide) -> Result<(), Refusal> {
        fits_guide(self.kind(), guide)
    }

    /// Checks that this kind of target can be built this way; [`Builder::can`] and the other parts of the request. It builds nothing.
    ///
    /// # Errors
    /// [`Refusal::Unfit`] with the reason and the remedy.
    fn fits(&self, request: &BuildRequest) -> Result<(), Refusal> {
        self.can(&request.guide)?;
        fits_flags(self.kind(), request)
    }

    /// Builds one variant. A request with a profile must name a verified one.
    ///
    /// # Errors
    /// A [`Refusal`] when the request does not fit or the result is not what was requested; otherwise when the build fails.
    fn build(&self, request: &BuildRequest) -> Result<Built>;

    /// The commands of [`Builder::build`], ready to paste. It runs nothing.
    ///
    /// # Errors
    /// A [`Refusal`] when the request does not fit.
    fn commands(&self, request: &BuildRequest) -> Result<Vec<String>>;

    /// The environment of an instrumented program that writes its counts into this folder. The folder must be empty for each training, and
    /// must exist when the program starts.
    fn training_env(&self, raw: &Path) -> Vec<(OsString, OsString)>;

    /// The files of the counts of a program that was started with [`Builder::training_env`].
    fn profile_files(&self, built: &Built, raw: &Path) -> ProfileFiles;

    /// The tool that converts perf's data with branch records of a [`Guide::Traceable`] build into a file for [`Builder::merge`].
    ///
    /// # Errors
    /// [`Refusal::Unfit`] if the compiler takes no samples; also fails when the converter is missing, and names its package.
    fn converter(&self) -> Result<Converter> {
        self.can(&Guide::Traceable)?;
        anyhow::bail!("{} has no tool that makes a profile of samples", self.kind())
    }

    /// Whether this instrumented program contains the dump object (see [`crate::capture::DumpObject`]), which then controls all of its
    /// counters.
    fn has_dump_object(&self, _counting: &Built) -> bool {
        false
    }

    /// The sum of the counts in a folder, without verification.
    ///
    /// # Errors
    /// Fails when it can't be read, and for a program without counters.
    fn tally(&self, _raw: &Path, _counting: &Built) -> Result<Tally> {
        Err(Refusal::Uncounted { kind: self.kind() }.into())
    }

    /// Merges profiles: folders of raw ones, or files (a merged profile for a second round, a `.pprof`), each with its weight, which
    /// multiplies its counts. Only the ratio of the weights matters; it is kept to a thousandth.
    ///
    /// # Errors
    /// A [`Refusal`] when one has no profile, an empty one, or one that can't be read.
    fn merge(&self, raw: &[(PathBuf, f64)]) -> Result<Merged>;

    /// Reads a merged profile back and compares it with the instrumented program (Go, samples: with the plain program).
    ///
    /// # Errors
    /// A [`Refusal`] with the reason why no build may use it.
    fn prove_profile(&self, merged: &Merged, counting: &Built) -> Result<Proven>;

    /// Verifies, by the tools' messages and the machine code, that the build used the profile.
    ///
    /// # Errors
    /// A [`Refusal`] when it was not used, when next to nothing of it fits, or when the code is that of the plain build.
    fn prove_applied(&self, shaped: &Built, plain: &Built, proven: &Proven) -> Result<ProfileApplied>;

    /// A built variant for the record. The parts of the profile are for a variant that was built with it.
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

    /// The tools that build and merge.
    fn receipts(&self) -> Vec<ToolReceipt>;
}

/// The guides that a kind of target can have.
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
            "leave out the variant csir, or set compiler = \"clang\"",
        ),
        (TargetKind::Gcc, Guide::SampleUse(_) | Guide::Traceable) => (
            "a profile of samples",
            "gcc reads another format, and a separate tool converts branch records to it",
            "train an instrumented build (pgo), or let BOLT use the samples",
        ),
        (TargetKind::Go, Guide::Generate) => (
            "an instrumented build",
            "net/http/pprof takes Go's profile from the plain program",
            "train the plain build, and merge the profile from /debug/pprof/profile",
        ),
        (TargetKind::Go, Guide::CsGenerate(_)) => {
            ("context-sensitive counts", "Go's compiler has no counters at all", "leave out the variant csir")
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

/// The other parts of a request that a kind of target supports.
fn fits_flags(kind: TargetKind, request: &BuildRequest) -> Result<(), Refusal> {
    let refuse = |what, why, next| Err(Refusal::Unfit { kind, what, why, next });
    match kind {
        TargetKind::Go if request.relocs => refuse(
            "relocations",
            "they are for BOLT, which does not rewrite Go programs",
            "leave out the variants relocs and bolt",
        ),
        TargetKind::Go if !request.jump_tables => refuse(
            "a build without jump tables",
            "they are for BOLT, which does not rewrite Go programs",
            "leave out the variant no-jump-tables",
        ),
        TargetKind::Given if !request.jump_tables => refuse(
            "a build without jump tables",
            "there are no sources to compile",
            "leave out the variant no-jump-tables, or name the sources as the target",
        ),
        TargetKind::Given if request.link_seed.is_some() => refuse(
            "a link in another order",
            "there are no objects to link",
            "set one build only (builds = 1), or name the sources as the target",
        ),
        TargetKind::Gcc if request.link_seed.is_some() => refuse(
            "a link in another order",
            "GNU ld can't shuffle functions, and another order of the objects also changes the order of \
             their constructors",
            "set one build only (builds = 1), or set compiler = \"clang\"",
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
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
            BuildRequest::plain("x").with_relocs(),
            BuildRequest::plain("x").without_jump_tables(),
            BuildRequest::plain("x").seeded(1),
        ];
        let takes = |kind| wishes.iter().map(|request| fits_flags(kind, request).is_ok()).collect::<Vec<_>>();
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
}

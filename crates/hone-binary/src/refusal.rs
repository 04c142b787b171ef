//! Reasons why Hone stops with a profile or a build, although the tools would continue.

use std::path::PathBuf;

/// How a server must end so that its profile is written; part of every message with that probable cause.
const END_WELL: &str = "stop it with SIGTERM and let it return from `main` (or call `exit`); SIGKILL, \
                        `_exit` and an unhandled SIGTERM write no profile";

/// A profile or a build that must not be used, in the chain of this crate's `anyhow` errors.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// BOLT, or its input.
    #[error(transparent)]
    Bolt(#[from] crate::bolt::refusal::BoltRefusal),
    /// The training left no raw profile.
    #[error(
        "no raw profile (*.profraw) in {}: the server was killed before it wrote its profile, or the \
         program was not instrumented\n  next: {END_WELL}; start it with the planned LLVM_PROFILE_FILE",
        folder.display()
    )]
    NoRawProfile {
        /// Where it should be.
        folder: PathBuf,
    },
    /// A raw profile of 0 bytes.
    #[error(
        "{} is empty (0 bytes): the server was killed before it wrote its profile\n  next: {END_WELL}",
        file.display()
    )]
    EmptyRawProfile {
        /// The file.
        file: PathBuf,
    },
    /// llvm-profdata can't read the raw profiles.
    #[error("the raw profiles can't be merged: {reason}\n  next: {next}\n{details}")]
    Unmergeable {
        /// The fault.
        reason: &'static str,
        /// What to do.
        next: &'static str,
        /// The tool's message.
        details: String,
    },
    /// The merged profile does not come from the instrumentation that the compiler can use.
    #[error(
        "the profile {} has level {level}, but Hone needs IR: it is empty, or `-Cinstrument-coverage` or \
         `-fprofile-instr-generate` made it\n  next: train the instrumented build again", file.display()
    )]
    WrongLevel {
        /// The merged profile.
        file: PathBuf,
        /// Its level.
        level: String,
    },
    /// Nothing in the profile.
    #[error("the profile {} has no {what}\n  next: check that the training reached the instrumented server", file.display())]
    Hollow {
        /// The merged profile.
        file: PathBuf,
        /// `functions`, or `count above 0`.
        what: &'static str,
    },
    /// The profile was taken from another program, or from another build of it.
    #[error(
        "the profile {} is of another binary: {known} of its {functions} functions are in {}\n  next: train \
         this instrumented build, and give it a separate raw folder", file.display(), binary.display()
    )]
    OtherBinary {
        /// The merged profile.
        file: PathBuf,
        /// The instrumented program.
        binary: PathBuf,
        /// Functions of the profile that the program has.
        known: u64,
        /// Functions of the profile.
        functions: u64,
    },
    /// A build that should be instrumented is not.
    #[error(
        "{} is not instrumented (it has no section __llvm_prf_names): the flag -Cprofile-generate did not reach the \
         compiler\n  next: look for rustflags in RUSTC_WRAPPER, build scripts and Cargo profiles", binary.display()
    )]
    NotInstrumented {
        /// The program.
        binary: PathBuf,
    },
    /// A build that should not be instrumented is.
    #[error(
        "{} is instrumented: it would be slow and write profiles\n  next: remove -Cprofile-generate and \
         -Cinstrument-coverage from the target's own flags", binary.display()
    )]
    Instrumented {
        /// The program.
        binary: PathBuf,
    },
    /// The compiler could not use the profile and only warned.
    #[error(
        "the compiler did not use the profile: {message}\n  next: merge and verify the profile again with \
         this toolchain's llvm-profdata"
    )]
    NotUsed {
        /// Its warning.
        message: String,
    },
    /// The compiler used next to nothing of the profile.
    #[error(
        "the profile does not fit the code: {what}\n  next: the sources or flags have changed since the instrumented \
         build; build, train and merge again"
    )]
    DoesNotFit {
        /// The lost share.
        what: String,
    },
    /// The rebuilt program has the same code as the baseline.
    #[error(
        "{} has the same machine code as {}: the profile changed nothing\n  next: check that the profile covers \
         the target's own code", optimized.display(), baseline.display()
    )]
    SameCode {
        /// The program built with the profile.
        optimized: PathBuf,
        /// The program built without.
        baseline: PathBuf,
    },
    /// A request that this kind of target does not support.
    #[error("{kind} can't have {what}: {why}\n  next: {next}")]
    Unfit {
        /// What kind of target it is.
        kind: crate::target_kind::TargetKind,
        /// The request.
        what: &'static str,
        /// The reason.
        why: &'static str,
        /// What to do.
        next: &'static str,
    },
    /// A program without counts to add up.
    #[error("{kind} has no counters\n  next: use the profile that was taken from it")]
    Uncounted {
        /// What kind of target it is.
        kind: crate::target_kind::TargetKind,
    },
    /// An invalid weight, or one that lets one training outweigh all others.
    #[error("invalid weight {weight} of a training\n  next: give a number between 0.001 and 1000")]
    Weight {
        /// The weight.
        weight: String,
    },
    /// A merge of nothing.
    #[error("no training was named to be merged\n  next: name the folder with its raw profiles")]
    NothingToMerge,
    /// A second round without counts of its own.
    #[error(
        "the profile {} has no context-sensitive counts: the second training wrote none, or it ran the \
         first training's program\n  next: train the program that was built with -fcs-profile-generate, and \
         merge its raw profiles with the first profile",
        file.display()
    )]
    NotContextSensitive {
        /// The merged profile.
        file: PathBuf,
    },
    /// A profile or a build of a Go program.
    #[error(transparent)]
    Go(#[from] crate::go::refusal::GoRefusal),
    /// A compiler of C or C++, or a tool of its.
    #[error(transparent)]
    CToolchain(#[from] crate::c_toolchain::refusal::CToolchainRefusal),
    /// A build by a recipe.
    #[error(transparent)]
    Recipe(#[from] crate::recipe::refusal::RecipeRefusal),
    /// A profile that was named by its path.
    #[error(transparent)]
    Form(#[from] crate::format_detect::fault::FormFault),
    /// Samples of a program.
    #[error(transparent)]
    Perf(#[from] crate::perf::refusal::PerfRefusal),
    /// A target that was stopped without a profile.
    #[error(transparent)]
    Capture(#[from] crate::capture::refusal::CaptureRefusal),
}

/// Refuses when something is wrong.
pub(crate) fn refuse_if(wrong: bool, refusal: impl FnOnce() -> Refusal) -> anyhow::Result<()> {
    if wrong { Err(refusal().into()) } else { Ok(()) }
}

//! Reasons for which Hone does not go on with BOLT, although BOLT itself would, or says so less clearly.

use std::path::PathBuf;

use super::fdata::FdataFault;

/// A program, a profile or a rewritten program that must not be used. It is inside of [`crate::Refusal::Bolt`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BoltRefusal {
    /// The profile's file.
    #[error(transparent)]
    Fdata(#[from] FdataFault),
    /// Not a program that BOLT can read.
    #[error("{} is no program that BOLT rewrites: {what}\n  next: name an ELF program for x86-64 or AArch64", file.display())]
    NoProgram {
        /// The file.
        file: PathBuf,
        /// What it is.
        what: String,
    },
    /// Go's compiler keeps tables of addresses that BOLT does not know.
    #[error("{} is a Go program, which BOLT can't rewrite\n  next: use Go's own profile (-pgo) for it", file.display())]
    Go {
        /// The file.
        file: PathBuf,
    },
    /// BOLT has been there.
    #[error(
        "{} was already {} by BOLT, which never takes its own output\n  next: name the program as the linker left it",
        file.display(), if *instrumented { "instrumented" } else { "rewritten" }
    )]
    AlreadyBolted {
        /// The file.
        file: PathBuf,
        /// Whether it counts for a profile.
        instrumented: bool,
    },
    /// No symbols.
    #[error(
        "{} is stripped: without symbols a profile fits no function, and BOLT ends well and changes nothing\n  next: \
         link without -s, set `strip = false` in the Cargo profile; `strip -g` does no harm", file.display()
    )]
    Stripped {
        /// The file.
        file: PathBuf,
    },
    /// BOLT would stop at it.
    #[error(
        "{} has a function that BOLT takes for the split-off part of another ({function}): a path of its sources is called `cold` or \
         `warm`, and BOLT stops at names with `.cold` or `.warm`\n  next: build it with -Csymbol-mangling-version=v0", file.display()
    )]
    TakenForPart {
        /// The file.
        file: PathBuf,
        /// The first of them.
        function: String,
    },
    /// The linker threw the relocations away.
    #[error(
        "{} has no relocations (.rela.text): BOLT can't move its functions\n  next: link it with -Wl,--emit-relocs (Rust: \
         -Clink-arg=-Wl,--emit-relocs) and strip it only after BOLT", file.display()
    )]
    NoRelocations {
        /// The file.
        file: PathBuf,
    },
    /// A static program never runs what BOLT hooks into.
    #[error(
        "{} is linked statically: its instrumentation writes nothing at the end\n  next: let it write every few seconds, \
         or link it dynamically", file.display()
    )]
    StaticNeedsPeriod {
        /// The file.
        file: PathBuf,
    },
    /// The library that is linked into instrumented programs.
    #[error("BOLT's runtime {} is not there\n  next: apt-get install libbolt-{major}-dev", file.display())]
    NoRuntime {
        /// Where BOLT looks for it.
        file: PathBuf,
        /// Major version.
        major: u32,
    },
    /// BOLT itself is too old for what is asked of it.
    #[error("BOLT {major} can't {what}\n  next: install bolt-{needed}, or do without")]
    TooOld {
        /// Its major version.
        major: u32,
        /// What it can't do.
        what: &'static str,
        /// The first one that can.
        needed: u32,
    },
    /// What should have been written is not what BOLT writes.
    #[error("{} {what}\n  next: look at what BOLT said; the input may have been left as it was", file.display())]
    NotWritten {
        /// The output.
        file: PathBuf,
        /// What it lacks.
        what: &'static str,
    },
    /// perf2bolt found no branch records and wrote an empty profile.
    #[error(
        "the samples in {} have no branch records\n  next: convert them as plain samples, or record with `perf record -j \
         any,u` on a machine whose PMU has branch records", file.display()
    )]
    NoBranchRecords {
        /// perf's data.
        file: PathBuf,
    },
    /// The profile's note names another program.
    #[error(
        "the profile {} was taken from build-id {taken_from}, {} has {asked}\n  next: take a profile of this build",
        profile.display(), binary.display()
    )]
    OtherBuild {
        /// The profile.
        profile: PathBuf,
        /// The program to be optimised.
        binary: PathBuf,
        /// Build-id in the note.
        taken_from: String,
        /// Build-id of the program.
        asked: String,
    },
    /// Nobody knows where the profile comes from.
    #[error(
        "nothing says which program {} was taken from ({} is missing)\n  next: keep the note beside the profile, or \
         vouch for the profile if you know that it is of this very build", profile.display(), note.display()
    )]
    UnknownOrigin {
        /// The profile.
        profile: PathBuf,
        /// Where the note should be.
        note: PathBuf,
    },
    /// The profile names functions that the program lacks.
    #[error(
        "the profile {} is of another program: only {:.1} % of its counts are in functions of {}\n  next: take a profile \
         of this program", profile.display(), known * 100.0, binary.display()
    )]
    OtherProgram {
        /// The profile.
        profile: PathBuf,
        /// The program.
        binary: PathBuf,
        /// Share of counts in known functions, 0 to 1.
        known: f64,
    },
    /// BOLT found the profile of no function.
    #[error(
        "BOLT used the profile for none of {of} functions, and ended well\n  next: check that the training reached this \
         program, and that the profile is of this build"
    )]
    NothingProfiled {
        /// Functions of the program.
        of: u64,
    },
    /// Too much of the profile does not fit.
    #[error(
        "{:.1} % of the samples are in functions whose code has changed since (allowed: {:.1} %)\n  next: take the profile \
         again from this build", share * 100.0, budget * 100.0
    )]
    Stale {
        /// Share of samples, 0 to 1.
        share: f64,
        /// The most that is allowed.
        budget: f64,
    },
    /// BOLT read a part of the profile only.
    #[error(
        "BOLT read the profile up to line {line} only, and ended well\n  next: merge the profile once more, which puts its \
         records into the order that BOLT wants"
    )]
    ReadInPart {
        /// The first line that was passed over.
        line: u64,
    },
    /// BOLT moved nothing.
    #[error(
        "BOLT changed the layout of no function\n  next: check the profile: it may be too thin (train longer)"
    )]
    LayoutUnchanged,
    /// A line that decides was not said.
    #[error(
        "BOLT did not say {what}: its words have changed, and nothing proves what it did\n  next: use BOLT 19 to 22"
    )]
    Silent {
        /// The fact.
        what: &'static str,
    },
    /// The bytes of the code are the same.
    #[error("{} has the same machine code as {}: BOLT changed nothing", output.display(), input.display())]
    SameCode {
        /// The rewritten program.
        output: PathBuf,
        /// The program before.
        input: PathBuf,
    },
}

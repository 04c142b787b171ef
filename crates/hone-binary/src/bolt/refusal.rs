//! Reasons why Hone stops with BOLT, although BOLT itself would continue, or reports them less clearly.

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
    #[error("BOLT can't rewrite {}: {what}\n  next: name an ELF program for x86-64 or AArch64", file.display())]
    NoProgram {
        /// The file.
        file: PathBuf,
        /// Its kind.
        what: String,
    },
    /// Go's compiler keeps tables of addresses that BOLT does not know.
    #[error("{} is a Go program, which BOLT can't rewrite\n  next: use Go's own profile (-pgo) for it", file.display())]
    Go {
        /// The file.
        file: PathBuf,
    },
    /// BOLT has already rewritten it.
    #[error(
        "{} was already {} by BOLT, which never takes its own output\n  next: name the linker's original \
         output",
        file.display(), if *instrumented { "instrumented" } else { "rewritten" }
    )]
    AlreadyBolted {
        /// The file.
        file: PathBuf,
        /// Whether it is instrumented.
        instrumented: bool,
    },
    /// No symbols.
    #[error(
        "{} is stripped: without symbols a profile fits no function, and BOLT succeeds without a change\n  \
         next: link without -s, or set `strip = false` in the Cargo profile; `strip -g` does no harm", file.display()
    )]
    Stripped {
        /// The file.
        file: PathBuf,
    },
    /// BOLT would stop at it.
    #[error(
        "{} has a function that BOLT mistakes for the split part of another ({function}): a path in its \
         sources has the name `cold` or `warm`, and BOLT stops at names with `.cold` or `.warm`\n  next: \
         build it with -Csymbol-mangling-version=v0", file.display()
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
    /// A static program never runs BOLT's hooks.
    #[error(
        "{} is linked statically: its instrumentation writes nothing at the end\n  next: let it write every few seconds, \
         or link it dynamically", file.display()
    )]
    StaticNeedsPeriod {
        /// The file.
        file: PathBuf,
    },
    /// The library for instrumented programs.
    #[error("BOLT's runtime {} is missing\n  next: apt-get install libbolt-{major}-dev", file.display())]
    NoRuntime {
        /// Where BOLT looks for it.
        file: PathBuf,
        /// Major version.
        major: u32,
    },
    /// BOLT itself is too old for the request.
    #[error("BOLT {major} can't {what}\n  next: install bolt-{needed}, or leave that out")]
    TooOld {
        /// Its major version.
        major: u32,
        /// The missing ability.
        what: &'static str,
        /// The first version with it.
        needed: u32,
    },
    /// The output is not BOLT's.
    #[error("{} {what}\n  next: read BOLT's output; it may have left the input unchanged", file.display())]
    NotWritten {
        /// The output.
        file: PathBuf,
        /// The missing part.
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
    /// The origin of the profile is unknown.
    #[error(
        "Hone can't find out which program {} was taken from ({} is missing)\n  next: keep the note next to \
         the profile, or write it yourself if you know that the profile is of exactly this build", profile.display(), note.display()
    )]
    UnknownOrigin {
        /// The profile.
        profile: PathBuf,
        /// The expected path of the note.
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
    /// BOLT found no function of the profile.
    #[error(
        "BOLT succeeded, but used the profile for none of {of} functions\n  next: check that the training \
         reached this program, and that the profile is of this build"
    )]
    NothingProfiled {
        /// Functions of the program.
        of: u64,
    },
    /// Too much of the profile does not fit.
    #[error(
        "{:.1} % of the samples are in functions with changed code (allowed: {:.1} %)\n  next: take the \
         profile again from this build", share * 100.0, budget * 100.0
    )]
    Stale {
        /// Share of samples, 0 to 1.
        share: f64,
        /// The limit.
        budget: f64,
    },
    /// BOLT read a part of the profile only.
    #[error(
        "BOLT succeeded, but read the profile only up to line {line}\n  next: merge the profile once more, \
         which sorts its records in BOLT's order"
    )]
    ReadInPart {
        /// The first ignored line.
        line: u64,
    },
    /// BOLT moved nothing.
    #[error(
        "BOLT did not change the layout of any function\n  next: train longer: the profile may have too few \
         samples"
    )]
    LayoutUnchanged,
    /// A necessary line is missing.
    #[error(
        "BOLT did not report {what}: its messages have changed, so Hone can't verify the result\n  next: \
         use BOLT 19 to 22"
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

//! Why a profile can't be stored, or not together with another one.

use std::path::PathBuf;

/// A profile that can't be stored, or not together with another one.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreFault {
    /// The file can't be read.
    #[error("{}: {reason}\n  next: check the path and its permissions", file.display())]
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
        /// Its kind.
        what: &'static str,
        /// What to do.
        next: &'static str,
    },
    /// An LLVM profile that no tool on this machine reads.
    #[error(
        "{} has version {format} of its format, which {tool} can't read\n  next: install the LLVM of the \
         compiler that made it, or set HONE_LLVM_PROFDATA to its llvm-profdata", file.display()
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
        "Hone found no llvm-profdata, and needs it to read LLVM profiles\n  next: run `rustup component add \
         llvm-tools` or `apt-get install llvm-22`, or set HONE_LLVM_PROFDATA to the path of one"
    )]
    NoTool,
    /// llvm-profdata failed, or wrote unexpected output.
    #[error("{}: {reason}\n  next: take the profile again, or restore it from version control", file.display())]
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
    #[error("{} is {here}, but {} is {there}\n  next: name profiles of one kind", file.display(), other.display())]
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
        "{} and {} were taken from different builds: {reason}\n  next: take both from one build, or merge \
         them nevertheless with --different-builds", file.display(), other.display()
    )]
    Builds {
        /// One.
        file: PathBuf,
        /// Another.
        other: PathBuf,
        /// The evidence.
        reason: String,
    },
    /// A program that can't answer.
    #[error("{} {what}\n  next: {next}", program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// The missing part.
        what: String,
        /// What to do.
        next: &'static str,
    },
    /// The program can judge next to nothing of the profile's kind of counts.
    #[error(
        "with {}, Hone can check only {judged} of the {total} counts of {}\n  next: {next}",
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
        /// What to do.
        next: &'static str,
    },
    /// An invalid weight.
    #[error("{0}\n  next: give each profile a weight above 0, or a share")]
    Weights(String),
    /// A share that would require too large a factor for the counts.
    #[error(
        "{} can't have its share: {reason}\n  next: leave it out, train longer, or merge the original \
         trainings if other profiles are already merged", file.display()
    )]
    Apart {
        /// The profile with the fewest counts for its share.
        file: PathBuf,
        /// The reason.
        reason: String,
    },
}

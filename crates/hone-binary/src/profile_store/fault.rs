//! Why a profile can't be kept, or not with another one.

use std::path::PathBuf;

/// A profile that can't be kept, or not with another one.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreFault {
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

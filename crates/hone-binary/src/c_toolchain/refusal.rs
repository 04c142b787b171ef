//! Reasons for which a compiler of C or C++, or a tool of its, is not used.

/// Majors of clang that are looked for when none is named, newest first. Those below know no way to be told of stale counts of templates and
/// inline functions, and end at the option for that ([`crate::diagnostics::HEARD_FROM_LLVM`]).
pub(super) const CLANG_MAJORS: std::ops::RangeInclusive<u32> = 15..=30;

/// A compiler, or a tool of its, that must not be used. It is inside of [`crate::Refusal::CToolchain`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CToolchainRefusal {
    /// Not a compiler that is known.
    #[error(
        "{name} is no clang and no gcc: it says \"{says}\"\n  next: name the compiler itself, by its path where a cache or a \
         script stands in front of it: compiler = \"/usr/bin/gcc\""
    )]
    Unknown {
        /// What was named.
        name: String,
        /// Its version line.
        says: String,
    },
    /// A tool of another version.
    #[error(
        "{tool} says \"{says}\", but the compiler {compiler} is version {major}: profiles can't go from one to the other\n  \
         next: {next}"
    )]
    OtherVersion {
        /// The tool's file.
        tool: String,
        /// Its version line.
        says: String,
        /// The compiler's file.
        compiler: String,
        /// The compiler's major version.
        major: u32,
        /// How the right one is got: its package, or the variable that named this one.
        next: String,
    },
    /// A clang that drops counts in silence.
    #[error(
        "{name} is clang {major}, which can't say that it drops stale counts of templates and inline functions \
         (-no-pgo-warn-mismatch-comdat-weak came with {})\n  next: apt-get install clang-22 lld-22 llvm-22 libclang-rt-22-dev, and name \
         that compiler: compiler = \"clang-22\"", CLANG_MAJORS.start()
    )]
    TooOld {
        /// What was named.
        name: String,
        /// Its major version.
        major: u32,
    },
    /// The library that instrumented programs are linked with.
    #[error(
        "the profile runtime of {compiler} is not there ({looked}): no instrumented program can be linked\n  next: apt-get \
         install {package}"
    )]
    NoRuntime {
        /// The compiler's file.
        compiler: String,
        /// What the compiler answered when asked for it.
        looked: String,
        /// The package that has it.
        package: String,
    },
    /// No compiler was named, and none that is there goes with the tools that the environment names.
    #[error("{variables}: no clang goes with that: {}\n  next: correct or unset {variables}, or name the compiler that belongs to it: \
             compiler = \"clang-22\"", tried.join("; "))]
    NoneFits {
        /// The variables that are set.
        variables: String,
        /// Each compiler that was found, and why it was not taken.
        tried: Vec<String>,
    },
    /// No compiler was named, and none that is there is whole.
    #[error("no clang with its linker, llvm-profdata and profile runtime: {}\n  next: apt-get install clang-22 lld-22 llvm-22 \
             libclang-rt-22-dev, or say compiler = \"gcc\"", if tried.is_empty() { "there is none".to_owned() } else { tried.join("; ") })]
    NoneWhole {
        /// Each that was found, with what it lacks.
        tried: Vec<String>,
    },
}

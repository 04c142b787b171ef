//! Reasons why Hone does not use a compiler of C or C++, or one of its tools.

/// Majors of clang in the search for an unnamed compiler, newest first. Older ones can't report stale counts of templates and inline
/// functions, and fail on the option for that ([`crate::diagnostics::HEARD_FROM_LLVM`]).
pub(super) const CLANG_MAJORS: std::ops::RangeInclusive<u32> = 15..=30;

/// A compiler, or one of its tools, that must not be used. It is inside of [`crate::Refusal::CToolchain`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CToolchainRefusal {
    /// An unknown compiler.
    #[error(
        "{name} is neither clang nor gcc: it reports \"{says}\"\n  next: name the compiler itself, by its \
         path where a cache or a script wraps it: compiler = \"/usr/bin/gcc\""
    )]
    Unknown {
        /// The name in the settings.
        name: String,
        /// Its version line.
        says: String,
    },
    /// A tool of another version.
    #[error(
        "{tool} reports \"{says}\", but the compiler {compiler} is version {major}: the two can't exchange \
         profiles\n  next: {next}"
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
        /// How to get the right one: its package, or the variable that named this one.
        next: String,
    },
    /// A clang that silently drops counts.
    #[error(
        "{name} is clang {major}, which can't report that it drops stale counts of templates and inline \
         functions (-no-pgo-warn-mismatch-comdat-weak came with {})\n  next: run `apt-get install clang-22 \
         lld-22 llvm-22 libclang-rt-22-dev`, and name that compiler: compiler = \"clang-22\"", CLANG_MAJORS.start()
    )]
    TooOld {
        /// The name in the settings.
        name: String,
        /// Its major version.
        major: u32,
    },
    /// The library for instrumented programs is missing.
    #[error(
        "the profile runtime of {compiler} is missing ({looked}), so no instrumented program can be \
         linked\n  next: apt-get install {package}"
    )]
    NoRuntime {
        /// The compiler's file.
        compiler: String,
        /// The compiler's answer to the question for it.
        looked: String,
        /// The package that has it.
        package: String,
    },
    /// No compiler was named, and no existing one matches the tools that the environment names.
    #[error("{variables}: no clang matches that: {}\n  next: correct or unset {variables}, or name the \
             compiler that belongs to it: compiler = \"clang-22\"", tried.join("; "))]
    NoneFits {
        /// The variables that are set.
        variables: String,
        /// Each compiler that was found, and why it was rejected.
        tried: Vec<String>,
    },
    /// No compiler was named, and no existing one is complete.
    #[error("no clang with its linker, llvm-profdata and profile runtime found: {}\n  next: run `apt-get \
             install clang-22 lld-22 llvm-22 libclang-rt-22-dev`, or set compiler = \"gcc\"", if tried.is_empty() { "there is none".to_owned() } else { tried.join("; ") })]
    NoneWhole {
        /// Each one that was found, with its missing parts.
        tried: Vec<String>,
    },
}

//! A built program, with the proofs about the profile that shaped it.

use serde::{Deserialize, Serialize};

/// A tool that made something: its resolved path and the version that it printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolReceipt {
    /// The tool's plain name, for example `llvm-profdata`.
    pub name: String,
    /// Absolute path of the started program.
    pub path: String,
    /// First line of its version output.
    pub version: String,
}

/// Compiled code inside the artifact, and whether the profile covered it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeInside {
    /// Package or library, for example `zstd-sys (C)`.
    pub name: String,
    /// `true` when its objects were instrumented and optimised with the same profile.
    pub profiled: bool,
    /// The evidence for that, in words.
    pub how: String,
}

/// A function at the top of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotFunction {
    /// The demangled name where possible.
    pub name: String,
    /// The largest counter of the function.
    pub max_count: u64,
}

/// Facts read back from a merged profile before any build was allowed to use it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileProof {
    /// Path of the merged profile.
    pub path: String,
    /// SHA-256 of the merged profile, hex.
    pub sha256: String,
    /// Size of the merged profile.
    pub bytes: u64,
    /// Raw files that were merged.
    pub raw_files: u32,
    /// Total size of the raw files.
    pub raw_bytes: u64,
    /// `IR`, or `Front-end`.
    pub level: String,
    /// Functions in the profile.
    pub functions: u64,
    /// The largest counter of the whole profile.
    pub max_count: u64,
    /// Sum of all counters.
    pub total_count: u64,
    /// The hottest functions, hottest first.
    pub hot_functions: Vec<HotFunction>,
    /// Number of hot functions that belong to the target's own program.
    pub hot_functions_of_target: u32,
}

/// Messages of the compiler while it used a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileApplied {
    /// Functions whose profile was discarded because their code had changed.
    pub discarded_functions: u64,
    /// Sum of the discarded counts, as the compiler states them.
    pub discarded_count: u64,
    /// `discarded_count` as a share of the profile's total count, 0 to 1: the lost weight.
    pub discarded_weight: f64,
    /// Functions for which the compiler found no profile.
    pub missing_functions: u64,
    /// Other profile messages of the compiler, each once, at most a few.
    pub messages: Vec<String>,
}

/// Proof that a rebuilt program still does its work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SmokeTest {
    /// The check, in words.
    pub what: String,
    /// Records written and read again.
    pub records: u64,
    /// `true` when every byte was read as written.
    pub passed: bool,
    /// The first difference when the check failed.
    pub difference: Option<String>,
}

/// A built program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Artifact {
    /// The variant it belongs to, for example `baseline` or `pgo`.
    pub variant: String,
    /// Path of the file that was measured.
    pub path: String,
    /// SHA-256 of the file, hex.
    pub sha256: String,
    /// Size of the file.
    pub file_bytes: u64,
    /// Size of the section `.text`.
    pub text_bytes: u64,
    /// Wall time of the build.
    pub build_s: f64,
    /// The build command, ready to paste.
    pub command: String,
    /// Compiler, linker driver, profile tools.
    pub tools: Vec<ToolReceipt>,
    /// The profile that shaped it, if any.
    pub profile: Option<ProfileProof>,
    /// Proof that the profile was applied, if any was.
    pub applied: Option<ProfileApplied>,
    /// Foreign code in the build (C, C++, assembly), profiled or left out.
    pub code_inside: Vec<CodeInside>,
    /// Proof that the program still works.
    pub smoke: Option<SmokeTest>,
}

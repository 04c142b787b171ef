//! The kinds of targets.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A kind of target, by who builds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetKind {
    /// Cargo.
    Cargo,
    /// The program's own build system, with clang.
    Clang,
    /// The program's own build system, with gcc.
    Gcc,
    /// `go`.
    Go,
    /// No one: the program is finished.
    Given,
}

impl fmt::Display for TargetKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Cargo => "a Cargo target",
            Self::Clang => "a target of clang",
            Self::Gcc => "a target of gcc",
            Self::Go => "a Go program",
            Self::Given => "a finished program",
        })
    }
}

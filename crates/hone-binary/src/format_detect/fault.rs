//! Why a file is not taken for a profile.

use std::path::PathBuf;

/// A file that is no profile, or none that can be taken. It is inside of [`crate::Refusal::Form`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the profile {} {what}\n  next: {next}", file.display())]
pub struct FormFault {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub what: String,
    /// The way out.
    pub next: &'static str,
}

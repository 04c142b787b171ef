//! Why a file is not accepted as a profile.

use std::path::PathBuf;

/// A file that is not a usable profile. It is inside of [`crate::Refusal::Form`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the profile {} {what}\n  next: {next}", file.display())]
pub struct FormFault {
    /// The file.
    pub file: PathBuf,
    /// The fault.
    pub what: String,
    /// What to do.
    pub next: &'static str,
}

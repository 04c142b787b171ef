//! The log files of a child.

use std::path::PathBuf;

/// The log files of one child.
pub(crate) struct Logs {
    pub(crate) stdout_path: PathBuf,
    pub(crate) stderr_path: PathBuf,
}

/// A step's name without characters that a file name can't contain.
pub(crate) fn file_name_of(step: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    step.chars().map(fit).take(80).collect()
}

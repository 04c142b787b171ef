//! Writes files completely or not at all, and stops when you interrupt it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, bail};
use hone_tool::interrupt;

/// Finished files stay when the user interrupts.
pub fn not_interrupted() -> Result<()> {
    if interrupt::requested() {
        bail!("interrupted; finished files stay, and the same command continues");
    }
    Ok(())
}

/// Numbers for unfinished files.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Writes a file completely or not at all. The unfinished file has a short name, since the final one may be as long as names can
/// be.
pub fn write_whole(file: &Path, contents: &[u8]) -> Result<()> {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let part = file.with_file_name(format!(".{}-{number}.part", std::process::id()));
    let written = fs::write(&part, contents).and_then(|()| fs::rename(&part, file));
    written
        .inspect_err(|_| drop(fs::remove_file(&part)))
        .map_err(|why| NotWritten { file: file.to_path_buf(), why }.into())
}

/// The next step if a file can't be written.
const REMEDY: &str = "check the rights of its folder and the free space; finished files stay, and the same \
     command continues";

/// A file that could not be written. The next one would fail, too.
#[derive(Debug, thiserror::Error)]
#[error("{} can't be written: {why}\n  next: {}", .file.display(), REMEDY)]
pub struct NotWritten {
    file: PathBuf,
    why: std::io::Error,
}

impl NotWritten {
    /// Whether only its name, or its path, is too long for the file system.
    pub fn is_for_its_name(&self) -> bool {
        self.why.kind() == std::io::ErrorKind::InvalidFilename
    }
}

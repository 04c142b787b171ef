//! Files that Hone writes whole or not at all, until you interrupt it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, bail};
use hone_tool::interrupt;

/// What is done stays when the user ends it.
pub fn not_interrupted() -> Result<()> {
    if interrupt::requested() {
        bail!("interrupted; what is done stays, and the same command goes on");
    }
    Ok(())
}

/// Numbers what is not whole yet.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Writes a file whole or not at all. Until then it has a name of its own: its own one may be as long as names can be.
pub fn write_whole(file: &Path, contents: &[u8]) -> Result<()> {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let part = file.with_file_name(format!(".{}-{number}.part", std::process::id()));
    let written = fs::write(&part, contents).and_then(|()| fs::rename(&part, file));
    written
        .inspect_err(|_| drop(fs::remove_file(&part)))
        .map_err(|why| NotWritten { file: file.to_path_buf(), why }.into())
}

/// What to do where the disk takes no file.
const REMEDY: &str = "look at the rights of its folder and the free space there; what was done stays, and the same command goes on";

/// A file that the disk did not take: it would not take another one either.
#[derive(Debug, thiserror::Error)]
#[error("{} can't be written: {why}\n  next: {}", .file.display(), REMEDY)]
pub struct NotWritten {
    file: PathBuf,
    why: std::io::Error,
}

impl NotWritten {
    /// Whether only its name, or its path, is too long for the disk.
    pub fn is_for_its_name(&self) -> bool {
        self.why.kind() == std::io::ErrorKind::InvalidFilename
    }
}

//! Creates the first files of a project or a cluster. It never overwrites a file.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// The name of a file without its folder.
pub(crate) fn name_of(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The named file, or this file name in the working directory.
pub(crate) fn output_file(named: Option<&Path>, usual: &str) -> Result<PathBuf> {
    let here = std::env::current_dir().context("the working directory does not exist any more")?;
    Ok(here.join(named.unwrap_or(Path::new(usual))))
}

/// Writes a file that does not exist yet.
pub(crate) fn write_new(file: &Path, text: &str) -> Result<()> {
    let mut new = match OpenOptions::new().write(true).create_new(true).open(file) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(
            "{} exists already; Hone does not overwrite it\n  next: name another file with --output, or move \
             that one away",
            file.display()
        ),
        other => other.with_context(|| format!("{} can't be written", file.display()))?,
    };
    new.write_all(text.as_bytes()).with_context(|| {
        // A partial file would block the next attempt to write a whole one.
        let _ = std::fs::remove_file(file);
        format!("{} can't be written", file.display())
    })
}

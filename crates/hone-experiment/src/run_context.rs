//! What every job does with the folder of a run that it begins or goes on with.

use std::path::Path;

use anyhow::{Context as _, Result};
use hone_tool::System;
use serde::de::DeserializeOwned;

use crate::ending::Usage;
use crate::folder::RunFolder;
use crate::progress::Progress;

/// What a run of a verb was begun with.
pub fn begun_with<T: DeserializeOwned>(folder: &RunFolder, note: &str, verb: &str) -> Result<T> {
    let none = || Usage(format!("{} is no run of hone {verb}: it has no {note}", folder.path().display()));
    Ok(folder.read_note(note)?.ok_or_else(none)?)
}

/// The text of an experiment file.
///
/// # Errors
/// When it can't be read.
pub fn experiment_text(file: &Path) -> Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("the experiment {} can't be read", file.display()))
}

/// Goes to where the run was begun: commands may hold paths that were meant from there.
pub fn back_to(working_folder: &Path) -> Result<()> {
    std::env::set_current_dir(working_folder)
        .with_context(|| format!("the run began in {}", working_folder.display()))
}

/// A runner whose programs are shown while they run, and whose logs lie in the run's folder.
///
/// # Errors
/// When the folder can't be written.
pub fn shown_runner(folder: &RunFolder, progress: &Progress) -> Result<System> {
    let progress = progress.clone();
    Ok(System::new(folder.join("logs"))?.on_progress(move |at| {
        progress.detail(&format!("{:.0} s  {}", at.elapsed.as_secs_f64(), at.last_line.unwrap_or_default()));
    }))
}

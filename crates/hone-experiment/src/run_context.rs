//! The handling of a run's folder that all commands share, for new and resumed runs.

use std::path::Path;

use anyhow::{Context as _, Result};
use hone_tool::System;
use serde::de::DeserializeOwned;

use crate::ending::Usage;
use crate::folder::RunFolder;
use crate::progress::Progress;

/// The settings with which a run of a verb was started.
pub fn begun_with<T: DeserializeOwned>(folder: &RunFolder, note: &str, verb: &str) -> Result<T> {
    let none =
        || Usage(format!("{} is not a run folder of hone {verb}: it has no {note}", folder.path().display()));
    Ok(folder.read_note(note)?.ok_or_else(none)?)
}

/// The text of an experiment file.
///
/// # Errors
/// When it can't be read.
pub fn experiment_text(file: &Path) -> Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("the experiment {} can't be read", file.display()))
}

/// Changes to the working directory of the run's start, since commands may have relative paths.
pub fn back_to(working_folder: &Path) -> Result<()> {
    std::env::set_current_dir(working_folder)
        .with_context(|| format!("can't enter {}, in which the run was started", working_folder.display()))
}

/// A runner that shows the output of its programs while they run, with logs in the run's folder.
///
/// # Errors
/// When the folder can't be written.
pub fn shown_runner(folder: &RunFolder, progress: &Progress) -> Result<System> {
    let progress = progress.clone();
    Ok(System::new(folder.join("logs"))?.on_progress(move |at| {
        progress.detail(&format!("{:.0} s  {}", at.elapsed.as_secs_f64(), at.last_line.unwrap_or_default()));
    }))
}

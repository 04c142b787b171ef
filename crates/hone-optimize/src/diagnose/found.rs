//! A diagnosis with the files next to it, and notes about the files that ran.

use std::path::PathBuf;

use hone_diagnose::model::Run;
use hone_record::Diagnosis;

/// A diagnosis, and whether the program finished.
pub struct Found {
    /// The diagnosis.
    pub diagnosis: Diagnosis,
    /// Whether the program finished.
    pub is_whole: bool,
    /// Operations of its load.
    pub operations: Option<u64>,
    /// The file of its record.
    pub record: PathBuf,
}

/// Notes about files that could not be read as code, and about code without a file.
pub(super) fn notes_of(run: &Run) -> Vec<String> {
    let mut notes = Vec::new();
    for object in &run.objects {
        match &object.image {
            // The kernel's own library has no file.
            None if object.path.starts_with('[') => {}
            None if object.path.ends_with(" (deleted)") => notes.push(format!(
                "{} was removed while it ran: Hone counts its code by its place in the file, without names",
                object.path.trim_end_matches(" (deleted)")
            )),
            None => notes.push(format!(
                "{} can't be read: Hone counts its code by its place in the file, without names",
                object.path
            )),
            Some(image) if image.is_stripped() => {
                notes.push(format!("{} has no symbols: Hone counts its code without names", object.path));
            }
            Some(_) => {}
        }
    }
    notes
}

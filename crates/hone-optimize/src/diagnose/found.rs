//! A diagnosis with what stands beside it, and what is known of the files that ran.

use std::fs;

use hone_diagnose::image::Image;
use hone_diagnose::model::Run;
use hone_record::Diagnosis;

/// Reads the file at a path as the kernel told it; one that was removed, or can't be read, is none.
pub fn image(path: &str) -> Option<Image> {
    Image::parse(&fs::read(path).ok()?).ok()
}

/// A diagnosis, and whether all of it was seen.
pub struct Found {
    /// The diagnosis.
    pub diagnosis: Diagnosis,
    /// Whether all of it was seen.
    pub is_whole: bool,
    /// Of its load.
    pub operations: Option<u64>,
}

/// Files that could not be read as code, and code of no file.
pub(super) fn notes_of(run: &Run) -> Vec<String> {
    let mut notes = Vec::new();
    for object in &run.objects {
        match &object.image {
            None if object.path.ends_with(" (deleted)") => notes.push(format!(
                "{} was removed while it ran: its code is counted by its place in the file, without names",
                object.path.trim_end_matches(" (deleted)")
            )),
            None => notes.push(format!(
                "{} can't be read: its code is counted by its place in the file, without names",
                object.path
            )),
            Some(image) if image.is_stripped() => {
                notes.push(format!("{} has no symbols: its code is counted without names", object.path));
            }
            Some(_) => {}
        }
    }
    notes
}

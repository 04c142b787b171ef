//! A diagnosis with what stands beside it, and the images of what ran.

use std::fs;

use hone_diagnose::image::Image;
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

//! A stretch of a log file that is sent to a client as it is.

use std::fs::File;
use std::sync::Arc;

/// Whole batches in a file.
#[derive(Debug, Clone)]
pub(crate) struct FileRange {
    pub(crate) file: Arc<File>,
    pub(crate) position: u64,
    pub(crate) bytes: usize,
}

//! The file of this process, and the limits of all processes of a run.
//!
//! A target that starts thousands of processes must not fill the disk. Each process leaves a note of 16 bytes when it ends, with its number
//! and its written bytes. A new process counts the notes, and beyond a limit it is left out. A note of 0 bytes stands for a process that
//! was left out.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::settings::settings;

/// Largest number of processes of a run with a file.
const MOST_PROCESSES: u64 = 2_000;
/// Largest number of bytes of a run.
const MOST_BYTES: u64 = 2 << 30;
/// Size of a note.
const NOTE: usize = 16;

/// This process's file name; `None` if it is left out.
static NAME: Mutex<Option<String>> = Mutex::new(None);

/// Chooses a name, or none. Process ids are reused, times are not.
pub(crate) fn begin() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let name = has_room().then(|| format!("{}-{now}", std::process::id()));
    if name.is_none() {
        note(0);
    }
    *NAME.lock().unwrap_or_else(PoisonError::into_inner) = name;
}

fn has_room() -> bool {
    let notes = fs::read(settings().folder.join("ended")).unwrap_or_default();
    let (notes, _) = notes.as_chunks::<NOTE>();
    let bytes = |note: &[u8; NOTE]| note[8..].try_into().map_or(0, u64::from_le_bytes);
    (notes.len() as u64) < MOST_PROCESSES && notes.iter().map(bytes).fold(0, u64::saturating_add) < MOST_BYTES
}

/// `FOLDER/NUMBER-TIME.ENDING`.
pub(crate) fn path(ending: &str) -> Option<PathBuf> {
    let name = NAME.lock().unwrap_or_else(PoisonError::into_inner);
    Some(settings().folder.join(format!("{}.{ending}", name.as_ref()?)))
}

/// Notes that this process has ended, or was left out. It is one write to a file in append mode, so notes do not mix.
pub(crate) fn note(bytes: u64) {
    let file = OpenOptions::new().append(true).create(true).open(settings().folder.join("ended"));
    let Ok(mut file) = file else { return };
    let mut note = [0; NOTE];
    note[..8].copy_from_slice(&u64::from(std::process::id()).to_le_bytes());
    note[8..].copy_from_slice(&bytes.to_le_bytes());
    let _ = file.write_all(&note);
}

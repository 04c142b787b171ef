//! Where this process writes, and how much all processes of a run may.
//!
//! A target that starts thousands of processes must not fill the disk. Each that has ended leaves a note of 16 bytes, its number and the
//! bytes that it wrote; whoever begins looks how many there are, and is left out behind a bound. A note of 0 bytes is one that was left out.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::settings::settings;

/// Processes of a run that are written down.
const MOST_PROCESSES: u64 = 2_000;
/// Bytes of a run.
const MOST_BYTES: u64 = 2 << 30;
/// Of a note.
const NOTE: usize = 16;

/// This process's name among the files; `None` for one that is left out.
static NAME: Mutex<Option<String>> = Mutex::new(None);

/// Takes a name, or none. Numbers of processes come again, times do not.
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

/// That this process has ended, or was left out. One write of a file that is only appended to: notes do not mix.
pub(crate) fn note(bytes: u64) {
    let file = OpenOptions::new().append(true).create(true).open(settings().folder.join("ended"));
    let Ok(mut file) = file else { return };
    let mut note = [0; NOTE];
    note[..8].copy_from_slice(&u64::from(std::process::id()).to_le_bytes());
    note[8..].copy_from_slice(&bytes.to_le_bytes());
    let _ = file.write_all(&note);
}

//! The one door to fsync, and what a power cut would leave.
//!
//! A test can kill this process but not the machine under it: what was written and never flushed survives every kill.
//! So the door keeps a record when it is asked to: which bytes of which file, and which names in which folder, an fsync
//! has covered. From that a test makes the folder that a power cut would have left. Without a record it costs a load.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use serde_json::json;

/// Where the record's lines are, inside its folder.
const LINES: &str = "fsyncs";

static RECORD: OnceLock<Record> = OnceLock::new();

/// Keeps a record of every fsync of this process, in a folder that is on the same file system as the data. The file
/// `fsyncs` in it gets a line of JSON after each fsync: `{"file": ID, "bytes": N, "at": M}` for a file that was N bytes
/// long when the fsync began, and `{"folder": ID, "entries": {NAME: ID}, "at": M}` for a folder that had these names.
/// Threads can write their lines in another order than that of M. The folder also keeps the files with durable names,
/// each under its ID.
///
/// It is for tests of power cuts. A second call in the same process has no effect.
///
/// # Errors
/// When the folder can't be created or written to.
pub(crate) fn record_fsyncs(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let lines = File::options().create(true).append(true).open(folder.join(LINES))?;
    let _ = RECORD.set(Record { folder: folder.to_owned(), lines, looks: AtomicU64::new(0) });
    Ok(())
}

struct Record {
    folder: PathBuf,
    lines: File,
    /// Looks at files and folders so far.
    looks: AtomicU64,
}

/// Makes the bytes of a file durable.
pub(crate) fn sync_file(file: &File) -> io::Result<()> {
    let Some(record) = RECORD.get() else { return file.sync_data() };
    let at = record.look();
    let before = file.metadata()?;
    file.sync_data()?;
    record.note(&json!({"file": id(&before), "bytes": before.len(), "at": at}))
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    let Some(record) = RECORD.get() else { return File::open(folder)?.sync_all() };
    let at = record.look();
    let opened = File::open(folder)?;
    let entries = record.entries(folder)?;
    opened.sync_all()?;
    record.note(&json!({"folder": id(&opened.metadata()?), "entries": entries, "at": at}))
}

/// Replaces a file: writes a temporary file, syncs it and renames it over the old one. After a crash, either the old or
/// the new file exists, complete.
pub(crate) fn replace_file(path: &Path, contents: &[u8]) -> io::Result<()> {
    replace(path, contents, 0o666)
}

/// As [`replace_file`], for a file that only its owner may read.
pub(crate) fn replace_private_file(path: &Path, contents: &[u8]) -> io::Result<()> {
    replace(path, contents, 0o600)
}

fn replace(path: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
    swap_in(&path.with_extension("new"), path, contents, mode)?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// Writes a temporary file and renames it over `path`. The caller must sync the folder.
pub(crate) fn swap_in(beside: &Path, path: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
    write_anew(beside, contents, mode)?;
    fs::rename(beside, path)
}

/// Writes a new file and syncs it. The caller must sync the folder. It first removes a file that a crash left, because
/// that file can have another mode.
pub(crate) fn write_anew(path: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
    remove_if_there(path)?;
    let made = make(path, contents, mode);
    if made.is_err() {
        // What a full disk had room for is of use to others.
        let _ = fs::remove_file(path);
    }
    made
}

/// Removes a file; one that is not there is no error.
pub(crate) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn make(path: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(contents)?;
    sync_file(&file)
}

impl Record {
    /// Numbers a look. Whatever was done before is seen by it.
    fn look(&self) -> u64 {
        self.looks.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// What is in a folder; a second name keeps the files there, whatever happens to the first.
    fn entries(&self, folder: &Path) -> io::Result<BTreeMap<String, String>> {
        let mut entries = BTreeMap::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            match self.keep(&entry.path()) {
                Ok(id) => drop(entries.insert(entry.file_name().to_string_lossy().into_owned(), id)),
                // The file was removed or renamed meanwhile, so this fsync does not guarantee that it exists.
                Err(error) if error.kind() == io::ErrorKind::NotFound => (),
                Err(error) => return Err(error),
            }
        }
        Ok(entries)
    }

    fn keep(&self, path: &Path) -> io::Result<String> {
        let found = fs::symlink_metadata(path)?;
        let id = id(&found);
        if found.is_file() {
            match fs::hard_link(path, self.folder.join(&id)) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => (),
            }
        }
        Ok(id)
    }

    /// One write for a line, so that a kill leaves whole ones and lines of threads don't mix.
    fn note(&self, line: &serde_json::Value) -> io::Result<()> {
        (&self.lines).write_all(format!("{line}\n").as_bytes())
    }
}

/// Identifies a file or folder uniquely, even among later ones with the same inode.
fn id(found: &Metadata) -> String {
    let made = found.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    format!("{:x}-{:x}", found.ino(), made.as_nanos())
}

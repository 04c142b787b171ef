//! The ledger: what was tried, what was decided, and why.
//!
//! A ledger is a text file with one [`LedgerEntry`] in its envelope on each line. It only ever grows. One entry is
//! one `write` in append mode under a lock on the file, followed by `fsync`, so two runs may share a ledger. A
//! writer that was killed half-way leaves a *torn* line: it is reported by [`Ledger::read`], kept in the file, and
//! the next entry starts on a line of its own.
//!
//! A file that is no ledger is refused and not touched.

mod lines;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use hone_record::{Envelope, LedgerEntry, RecordError};

pub use lines::{Contents, TornLine};

/// Why a ledger can't be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The file holds something else. It was not touched.
    #[error(
        "{} is not a ledger (line {line}: {why}); nothing was written, name another file for the ledger",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The first line that no ledger could have, counted from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// Written by a newer build of Hone.
    #[error("{}, line {line}: {source}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// Which version it has.
        source: RecordError,
    },
    /// A folder, a device, a pipe.
    #[error("{} is not a regular file; name a file for the ledger", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("could not {tried} the ledger {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// `open`, `lock`, `read`, `append to` ...
        tried: &'static str,
        /// The answer of the system.
        source: io::Error,
    },
    /// An entry holds a number that is not finite, which is a defect in the arithmetic that made it.
    #[error("the entry can't be written so that it can be read again: {source}")]
    Entry {
        /// Which field.
        source: RecordError,
    },
}

/// An append-only file of [`LedgerEntry`]s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger {
    path: PathBuf,
}

impl Ledger {
    /// Names a ledger and checks what is there. A missing file is an empty ledger; the first
    /// [`Ledger::append`] creates it.
    ///
    /// # Errors
    /// When the path holds something that is no ledger, or can't be read.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, LedgerError> {
        let ledger = Self { path: path.into() };
        ledger.read()?;
        Ok(ledger)
    }

    /// Where the ledger lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All entries, oldest first, and the lines that a killed writer left behind.
    ///
    /// # Errors
    /// When the file can't be read, is no ledger, or holds an entry of a newer build.
    pub fn read(&self) -> Result<Contents, LedgerError> {
        if !self.exists()? {
            return Ok(Contents::default());
        }
        let mut file = File::open(&self.path).map_err(self.io("open"))?;
        file.lock_shared().map_err(self.io("lock"))?;
        lines::parse(&self.path, &self.bytes_of(&mut file)?)
    }

    /// Adds one entry and waits until the disk has it.
    ///
    /// On an error the file has the length that it had before, as far as the system allows.
    ///
    /// # Errors
    /// When the file is no ledger, or can't be opened, locked or written.
    pub fn append(&self, entry: &LedgerEntry) -> Result<(), LedgerError> {
        let line = line_of(entry).map_err(|source| LedgerError::Entry { source })?;
        let is_new = !self.exists()?;
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(&self.path)
            .map_err(self.io("open for writing"))?;
        file.lock().map_err(self.io("lock"))?;
        let before = self.bytes_of(&mut file)?;
        lines::parse(&self.path, &before)?;
        let addition = if lines::ends_torn(&before) { format!("\n{line}") } else { line };
        if let Err(source) = write_whole(&mut file, addition.as_bytes()) {
            // The lock is still held, so nobody else has written behind these bytes. Should this fail as well, the
            // rest is a torn line, which every reader knows.
            let _ = file.set_len(before.len() as u64);
            return Err(self.io("append to")(source));
        }
        if is_new { self.keep_name() } else { Ok(()) }
    }

    /// Whether a regular file is there. Asked before opening, because opening a pipe would wait for ever.
    fn exists(&self) -> Result<bool, LedgerError> {
        match std::fs::metadata(&self.path) {
            Ok(found) if found.is_file() => Ok(true),
            Ok(_) => Err(LedgerError::NotAFile { path: self.path.clone() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(self.io("look at")(error)),
        }
    }

    fn bytes_of(&self, file: &mut File) -> Result<Vec<u8>, LedgerError> {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(self.io("read"))?;
        Ok(bytes)
    }

    /// A new file survives a power cut only when its folder is on the disk too.
    fn keep_name(&self) -> Result<(), LedgerError> {
        let folder = match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(self.io("keep the name of"))
    }

    fn io(&self, tried: &'static str) -> impl FnOnce(io::Error) -> LedgerError {
        let path = self.path.clone();
        move |source| LedgerError::Io { path, tried, source }
    }
}

/// The entry as a line that can be read again. JSON has no NaN: its writer makes `null` of it, and one such line would
/// make the whole file unreadable, so the line is read back before it goes out.
fn line_of(entry: &LedgerEntry) -> Result<String, RecordError> {
    let line = Envelope::new(entry.clone()).to_line()?;
    Envelope::<LedgerEntry>::parse(&line)?;
    Ok(line)
}

/// One `write` for the whole addition: with a second one, a kill between the two would tear the line. A short write
/// means that the disk is full.
fn write_whole(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    let written = file.write(bytes)?;
    if written < bytes.len() {
        return Err(io::Error::new(
            io::ErrorKind::WriteZero,
            format!("only {written} of {} bytes went in; is the disk full?", bytes.len()),
        ));
    }
    file.sync_all()
}

//! The ledger: every change that was tried, the decision about it, and its reason.
//!
//! A ledger is a text file with one [`LedgerEntry`] per line. It only ever grows. Each line has its own SHA-256 and those of the
//! lines that it follows, so that a changed, deleted or moved line is detected ([`Checked::faults`]). If two branches have both
//! appended, a merge keeps the lines of both, and the next entry follows both ends.
//!
//! One entry is one `write` in append mode under a lock on the file, followed by `fsync`, so two runs may share a ledger. A
//! writer that is killed within its write leaves a *torn* line: [`Ledger::read`] reports it, it stays in the file, and the next
//! entry starts on a new line.
//!
//! A file that is not a ledger is rejected and not changed.

mod canonical;
mod chain;
mod lines;

use std::collections::HashSet;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use hone_record::LedgerEntry;

pub use chain::{Checked, Fault, Head, Meaning, Repeated};
pub use lines::{LINE_VERSION, Line, TornLine};

/// A ledger can't be larger: a million entries need less.
const MOST_BYTES: u64 = 2 << 30;

/// If the file is replaced (as git does) while an entry is written, the write is repeated. After this many times there is another
/// problem.
const ATTEMPTS: u32 = 10;

/// Why a ledger can't be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The file has other contents. It was not changed.
    #[error(
        "{} is not a ledger (line {line}: {why}); nothing was written, name another file for the ledger",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The first line that can't belong to a ledger, counted from 1.
        line: usize,
        /// Its fault.
        why: String,
    },
    /// A newer build of Hone wrote it.
    #[error(
        "{}, line {line}: it has {found}, but this version reads up to version {LINE_VERSION}; use a newer \
         hone",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// Its version.
        found: String,
    },
    /// A folder, a device, a pipe.
    #[error("{} is not a regular file; name a file for the ledger", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// It is too large for a ledger.
    #[error("{} has {bytes} bytes, but a ledger has at most {MOST_BYTES}; name another file for the ledger", path.display())]
    TooLarge {
        /// The path.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// The operating system failed.
    #[error("could not {tried} the ledger {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// `open`, `lock`, `read`, `append to` ...
        tried: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// Another program repeatedly replaces the file.
    #[error("the ledger {} was replaced by another file {ATTEMPTS} times while the entry was written", path.display())]
    Replaced {
        /// The file.
        path: PathBuf,
    },
    /// A ledger to import was changed after it was written.
    #[error("{name} failed verification: line {line}, {what}")]
    Faulty {
        /// Its name.
        name: String,
        /// Its first faulty line, counted from 1.
        line: usize,
        /// The fault.
        what: &'static str,
    },
    /// An entry has a number that is not finite, which is a defect in the arithmetic of its writer.
    #[error("the entry can't be written in a readable form: {why}")]
    Entry {
        /// The reason.
        why: String,
    },
}

/// An append-only file of [`LedgerEntry`]s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger {
    path: PathBuf,
}

/// A ledger's file under an exclusive lock.
struct Held {
    file: File,
    /// Its contents.
    before: Vec<u8>,
    /// Whether the file is new.
    is_new: bool,
}

/// The result of a written entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    /// Its hash.
    pub hash: String,
    /// The partial line of a killed writer at the end of the file. The entry is on a new line after it.
    pub behind: Option<TornLine>,
    /// The first changed line, if any. Another program changed it, and a new entry does not repair it.
    pub fault: Option<Fault>,
}

impl Ledger {
    /// Names a ledger and checks its contents. A missing file is an empty ledger; the first [`Ledger::append`] creates it.
    ///
    /// # Errors
    /// When the path is not a ledger, or can't be read.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, LedgerError> {
        let ledger = Self { path: path.into() };
        ledger.read()?;
        Ok(ledger)
    }

    /// Names a ledger without a check.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The path of the ledger.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All entries, oldest first, and the partial lines of killed writers. Changed lines are among the faults.
    ///
    /// # Errors
    /// When the file can't be read, is not a ledger, or has an entry of a newer build.
    pub fn read(&self) -> Result<Checked, LedgerError> {
        let checked = self.check()?;
        self.refuse(&checked)?;
        Ok(checked)
    }

    /// The same for any file. Lines that can't belong to a ledger are among the faults.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn check(&self) -> Result<Checked, LedgerError> {
        if !self.exists()? {
            return Ok(Checked::default());
        }
        self.check_file(File::open(&self.path).map_err(self.io("open"))?)
    }

    /// The same for the contents of a file.
    pub fn check_bytes(bytes: &[u8]) -> Checked {
        chain::check(lines::read(bytes))
    }

    /// The contents of the file, without a partial entry of a current writer.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn bytes(&self) -> Result<Vec<u8>, LedgerError> {
        if !self.exists()? {
            return Ok(Vec::new());
        }
        let mut file = File::open(&self.path).map_err(self.io("open"))?;
        file.lock_shared().map_err(self.io("lock"))?;
        self.bytes_of(&mut file)
    }

    /// The same for a ledger's file that the caller has opened, with its own access rules.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn check_file(&self, mut file: File) -> Result<Checked, LedgerError> {
        file.lock_shared().map_err(self.io("lock"))?;
        Ok(Self::check_bytes(&self.bytes_of(&mut file)?))
    }

    /// Appends one entry after all lines without a successor, and waits until it is on the disk.
    ///
    /// After an error the file has its previous length, as far as the system allows.
    ///
    /// # Errors
    /// When the file is not a ledger, or can't be opened, locked or written.
    pub fn append(&self, entry: &LedgerEntry) -> Result<Appended, LedgerError> {
        // An entry that can't be written is rejected before any file is created.
        lines::write(entry, &[]).map_err(|why| LedgerError::Entry { why })?;
        for _ in 0..ATTEMPTS {
            if let Some(appended) = self.append_once(entry)? {
                return Ok(appended);
            }
        }
        Err(LedgerError::Replaced { path: self.path.clone() })
    }

    /// Appends the lines of another ledger that are missing here, unchanged, in their order and in one write, and waits until
    /// they are on the disk. Returns their number. Partial lines of killed writers are skipped. `name` is for the errors.
    ///
    /// The other ledger's lines follow each other and lines of both, so no line is missing in the result.
    ///
    /// # Errors
    /// When a line of either was changed, and as for [`Ledger::append`].
    pub fn take_in(&self, other: &[u8], name: &str) -> Result<usize, LedgerError> {
        let theirs = Self::check_bytes(other);
        if let Some(fault) = theirs.faults.first() {
            let (line, what) = (fault.line, fault.meaning.words());
            return Err(LedgerError::Faulty { name: name.to_owned(), line, what });
        }
        for _ in 0..ATTEMPTS {
            if let Some(taken) = self.take_in_once(other, &theirs)? {
                return Ok(taken);
            }
        }
        Err(LedgerError::Replaced { path: self.path.clone() })
    }

    /// `None` if the file was replaced in the meantime.
    fn take_in_once(&self, other: &[u8], theirs: &Checked) -> Result<Option<usize>, LedgerError> {
        let Some(mut held) = self.held()? else { return Ok(None) };
        let own = Self::check_bytes(&held.before);
        self.refuse(&own)?;
        if let Some(fault) = own.faults.first() {
            let (name, what) = (self.path.display().to_string(), fault.meaning.words());
            return Err(LedgerError::Faulty { name, line: fault.line, what });
        }
        let there: HashSet<&str> = own.lines.iter().map(|line| line.hash.as_str()).collect();
        let texts: Vec<&[u8]> = other.split(|byte| *byte == b'\n').collect();
        let new: Vec<&Line> =
            theirs.lines.iter().filter(|line| !there.contains(line.hash.as_str())).collect();
        let mut addition = if lines::ends_torn(&held.before) { b"\n".to_vec() } else { Vec::new() };
        for line in &new {
            addition.extend_from_slice(texts[line.number - 1]);
            addition.push(b'\n');
        }
        self.add(&mut held, if new.is_empty() { &[] } else { &addition })?;
        Ok(self.is_still(&held.file)?.then_some(new.len()))
    }

    /// `None` if the file was replaced in the meantime, and the new file does not have the entry.
    fn append_once(&self, entry: &LedgerEntry) -> Result<Option<Appended>, LedgerError> {
        let Some(mut held) = self.held()? else { return Ok(None) };
        let checked = Self::check_bytes(&held.before);
        self.refuse(&checked)?;
        let parents: Vec<String> = checked.heads.iter().map(|head| head.hash.clone()).collect();
        let (line, hash) = lines::write(entry, &parents).map_err(|why| LedgerError::Entry { why })?;
        let addition = if lines::ends_torn(&held.before) { format!("\n{line}") } else { line };
        self.add(&mut held, addition.as_bytes())?;
        if !self.is_still(&held.file)? && !self.check()?.lines.iter().any(|line| line.hash == hash) {
            return Ok(None);
        }
        let behind =
            checked.torn.into_iter().next_back().filter(|torn| lines::ends_at(&held.before, torn.line));
        Ok(Some(Appended { hash, behind, fault: checked.faults.into_iter().next() }))
    }

    /// The file, which is created if necessary, with its contents; `None` if another file got its name while this one waited for
    /// the lock.
    fn held(&self) -> Result<Option<Held>, LedgerError> {
        let is_new = !self.exists()?;
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(&self.path)
            .map_err(self.io("open for writing"))?;
        file.lock().map_err(self.io("lock"))?;
        if !self.is_still(&file)? {
            return Ok(None);
        }
        let before = self.bytes_of(&mut file)?;
        Ok(Some(Held { file, before, is_new }))
    }

    /// Appends to the contents, and waits until the disk has all of it; completely or not at all.
    fn add(&self, held: &mut Held, addition: &[u8]) -> Result<(), LedgerError> {
        let written = if addition.is_empty() { Ok(()) } else { write_whole(&mut held.file, addition) };
        if let Err(source) = written {
            // The lock is still held, so no other writer has appended. If this fails as well, the rest is a
            // torn line, which every reader recognises.
            let _ = held.file.set_len(held.before.len() as u64);
            if held.is_new && held.before.is_empty() {
                let _ = std::fs::remove_file(&self.path);
            }
            return Err(self.io("append to")(source));
        }
        if held.is_new { self.keep_name() } else { Ok(()) }
    }

    /// Rejects a file that is not a ledger.
    ///
    /// # Errors
    /// When it has lines that can't belong to a ledger, or those of a newer build.
    pub fn refuse(&self, checked: &Checked) -> Result<(), LedgerError> {
        let path = || self.path.clone();
        for fault in &checked.faults {
            let (line, found) = (fault.line, fault.found.clone());
            match fault.meaning {
                Meaning::Foreign => return Err(LedgerError::Foreign { path: path(), line, why: found }),
                Meaning::Newer => return Err(LedgerError::Newer { path: path(), line, found }),
                Meaning::Edited | Meaning::Deleted | Meaning::Reordered => {}
            }
        }
        Ok(())
    }

    /// Whether there is a regular file. Checked before opening, because opening a pipe would block forever.
    fn exists(&self) -> Result<bool, LedgerError> {
        Ok(self.metadata()?.is_some())
    }

    fn metadata(&self) -> Result<Option<Metadata>, LedgerError> {
        match std::fs::metadata(&self.path) {
            Ok(found) if found.is_file() => Ok(Some(found)),
            Ok(_) => Err(LedgerError::NotAFile { path: self.path.clone() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.io("look at")(error)),
        }
    }

    /// Whether the ledger's name still refers to this file.
    fn is_still(&self, file: &File) -> Result<bool, LedgerError> {
        let own = file.metadata().map_err(self.io("look at"))?;
        let named = self.metadata()?;
        Ok(named.is_some_and(|named| (named.dev(), named.ino()) == (own.dev(), own.ino())))
    }

    fn bytes_of(&self, file: &mut File) -> Result<Vec<u8>, LedgerError> {
        let mut bytes = Vec::new();
        file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(self.io("read"))?;
        let length = bytes.len() as u64;
        if length > MOST_BYTES {
            return Err(LedgerError::TooLarge { path: self.path.clone(), bytes: length });
        }
        Ok(bytes)
    }

    /// A new file only survives a power cut if its folder is on the disk, too.
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

/// The line of an entry as the first one of a ledger, for a run that could not write it.
///
/// # Errors
/// When it has a number that is not finite.
pub fn line_of(entry: &LedgerEntry) -> Result<String, LedgerError> {
    lines::write(entry, &[]).map(|(line, _)| line).map_err(|why| LedgerError::Entry { why })
}

/// One `write` for the whole addition: with two, a kill in between would tear the line. A short write means that the disk is
/// full.
fn write_whole(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    let written = file.write(bytes)?;
    if written < bytes.len() {
        return Err(io::Error::new(
            io::ErrorKind::WriteZero,
            format!("only {written} of {} bytes were written; is the disk full?", bytes.len()),
        ));
    }
    file.sync_all()
}

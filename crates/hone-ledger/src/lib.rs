//! The ledger: what was tried, what was decided, and why.
//!
//! A ledger is a text file with one [`LedgerEntry`] on each line. It only ever grows. Each line says its own SHA-256 and those of the lines
//! that it follows, so that a line that was changed, taken out or moved is found ([`Checked::faults`]). Two branches that both have
//! appended are merged by keeping the lines of both; the next entry follows both ends.
//!
//! One entry is one `write` in append mode under a lock on the file, followed by `fsync`, so two runs may share a ledger. A
//! writer that was killed half-way leaves a *torn* line: it is reported by [`Ledger::read`], kept in the file, and
//! the next entry starts on a line of its own.
//!
//! A file that is no ledger is refused and not touched.

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

/// More than this is no ledger: a million entries have less.
const MOST_BYTES: u64 = 2 << 30;

/// A file that is replaced (as git does) while an entry is written gets it once more; after so many times something else is wrong.
const ATTEMPTS: u32 = 10;

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
    #[error(
        "{}, line {line}: it has {found}, this build reads up to version {LINE_VERSION}; use a newer hone",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// Which version it has.
        found: String,
    },
    /// A folder, a device, a pipe.
    #[error("{} is not a regular file; name a file for the ledger", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// Larger than any ledger.
    #[error("{} has {bytes} bytes, and a ledger {MOST_BYTES} at most; name another file for the ledger", path.display())]
    TooLarge {
        /// The path.
        path: PathBuf,
        /// Its size.
        bytes: u64,
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
    /// Something replaces the file again and again.
    #[error("the ledger {} was replaced by another file while the entry was written, {ATTEMPTS} times over", path.display())]
    Replaced {
        /// The file.
        path: PathBuf,
    },
    /// A ledger that is to be taken in is not as it was written.
    #[error("{name} is not as it was written: line {line}, {what}")]
    Faulty {
        /// Which one.
        name: String,
        /// Its first line that is wrong, counted from 1.
        line: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// An entry holds a number that is not finite, which is a defect in the arithmetic that made it.
    #[error("the entry can't be written so that it can be read again: {why}")]
    Entry {
        /// What is wrong.
        why: String,
    },
}

/// An append-only file of [`LedgerEntry`]s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger {
    path: PathBuf,
}

/// A ledger's file while nobody else writes it.
struct Held {
    file: File,
    /// What is in it.
    before: Vec<u8>,
    /// Whether it was not there.
    is_new: bool,
}

/// What came of an entry that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    /// Its hash.
    pub hash: String,
    /// What a killed writer had left at the end of the file. The entry stands on a line of its own behind it.
    pub behind: Option<TornLine>,
    /// The first line that is not as it was written, if any: somebody else's doing, which an entry does not heal.
    pub fault: Option<Fault>,
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

    /// Names a ledger, whatever is there.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where the ledger lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All entries, oldest first, and the lines that a killed writer left behind. Lines that were changed are among the faults.
    ///
    /// # Errors
    /// When the file can't be read, is no ledger, or holds an entry of a newer build.
    pub fn read(&self) -> Result<Checked, LedgerError> {
        let checked = self.check()?;
        self.refuse(&checked)?;
        Ok(checked)
    }

    /// The same of any file, with what is no line of a ledger among the faults.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn check(&self) -> Result<Checked, LedgerError> {
        if !self.exists()? {
            return Ok(Checked::default());
        }
        self.check_file(File::open(&self.path).map_err(self.io("open"))?)
    }

    /// The same of what a file holds.
    pub fn check_bytes(bytes: &[u8]) -> Checked {
        chain::check(lines::read(bytes))
    }

    /// The file as it is, without half an entry of a writer that is at it.
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

    /// The same of the ledger's file when the caller has opened it, by rules of its own.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn check_file(&self, mut file: File) -> Result<Checked, LedgerError> {
        file.lock_shared().map_err(self.io("lock"))?;
        Ok(Self::check_bytes(&self.bytes_of(&mut file)?))
    }

    /// Adds one entry behind all that nobody has followed yet, and waits until the disk has it.
    ///
    /// On an error the file has the length that it had before, as far as the system allows.
    ///
    /// # Errors
    /// When the file is no ledger, or can't be opened, locked or written.
    pub fn append(&self, entry: &LedgerEntry) -> Result<Appended, LedgerError> {
        // What can't be written at all is known before anything is made.
        lines::write(entry, &[]).map_err(|why| LedgerError::Entry { why })?;
        for _ in 0..ATTEMPTS {
            if let Some(appended) = self.append_once(entry)? {
                return Ok(appended);
            }
        }
        Err(LedgerError::Replaced { path: self.path.clone() })
    }

    /// Adds the lines of another ledger that this one has not, as they are, in their order and in one piece, and waits until the disk has
    /// them. Answers how many. What killed writers left in the other one is not taken. `name` is for the errors.
    ///
    /// The other ledger's lines follow each other and lines that both have, so the result is a ledger in which nothing is missing.
    ///
    /// # Errors
    /// When a line of either is not as it was written, and as for [`Ledger::append`].
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

    /// `None` when the file was replaced meanwhile.
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

    /// `None` when the file was replaced meanwhile, and the entry is not in the one that is there now.
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

    /// The file, which is made, with what is in it; `None` when its name went to another file while it waited for the lock.
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

    /// Writes behind what is there, and waits until the disk has it; all of it or nothing.
    fn add(&self, held: &mut Held, addition: &[u8]) -> Result<(), LedgerError> {
        let written = if addition.is_empty() { Ok(()) } else { write_whole(&mut held.file, addition) };
        if let Err(source) = written {
            // The lock is still held, so nobody else has written behind these bytes. Should this fail as well, the
            // rest is a torn line, which every reader knows.
            let _ = held.file.set_len(held.before.len() as u64);
            if held.is_new && held.before.is_empty() {
                let _ = std::fs::remove_file(&self.path);
            }
            return Err(self.io("append to")(source));
        }
        if held.is_new { self.keep_name() } else { Ok(()) }
    }

    /// What is no ledger is left alone.
    ///
    /// # Errors
    /// When what was found has lines that no ledger has, or those of a newer build.
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

    /// Whether a regular file is there. Asked before opening, because opening a pipe would wait for ever.
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

    /// Whether the ledger's name is still that of this file.
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

/// The line that an entry would have at the beginning of a ledger: for a run to show where it could not be written.
///
/// # Errors
/// When it holds a number that is not finite.
pub fn line_of(entry: &LedgerEntry) -> Result<String, LedgerError> {
    lines::write(entry, &[]).map(|(line, _)| line).map_err(|why| LedgerError::Entry { why })
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

//! The journal of a change: the earlier values, each announced write, and its result. A line is on disk before the step that it announces,
//! so a change can be rolled back after any failure.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::disks::Disk;
use crate::line_file::LineFile;

/// Folder of the journals, under the root.
pub const FOLDER: &str = "var/lib/hone/host";

/// Format version of a journal's lines.
pub const FORMAT: u32 = 1;

/// Attributes and their values; `None` if an attribute does not exist (a scheduler's, while another one is active).
pub type Values = BTreeMap<String, Option<String>>;

/// A line of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "entry")]
pub enum Entry {
    /// The first line: boot, devices, and all earlier values.
    Begun(Box<Begun>),
    /// The watchdog is alive, and rolls everything back at this time unless the change is confirmed.
    Armed {
        /// Process id of the watchdog.
        pid: u32,
        /// Deadline in seconds since boot, including sleep.
        deadline_s: u64,
    },
    /// A write follows.
    Intent {
        /// Path of the attribute.
        path: String,
        /// The value to write.
        value: String,
        /// Other attributes that this write may change.
        closure: Vec<String>,
    },
    /// A write was done. The line has the values of its closure afterwards.
    Done {
        /// Path of the attribute.
        path: String,
        /// Values of the closure now.
        now: Values,
        /// Why the kernel did not accept it; `None` if it did.
        refused: Option<String>,
    },
    /// All requested values are in force.
    Applied,
    /// Boot settings will be written to these files.
    Persisting {
        /// Paths under the root.
        files: Vec<String>,
    },
    /// The change was confirmed.
    Confirmed,
    /// The machine has booted since, and files of the change have set values again. The line has the values in force in this boot, and the
    /// values before the change. From here on, the journal belongs to this boot.
    Again {
        /// The kernel's id of this boot.
        boot_id: String,
        /// The devices, by their current names.
        disks: Vec<Disk>,
        /// Value of each attribute before the change.
        before: Values,
        /// Value of each attribute now.
        left: Values,
    },
    /// The rollback has begun, or continues after a crash.
    Reverting {
        /// Current values that come from the change.
        ours: Values,
        /// Those of them whose origin is unknown after a crash.
        unclear: Vec<String>,
        /// Current values that another process has set.
        foreign: Values,
    },
    /// The end: the change was rolled back, with these exceptions.
    Reverted {
        /// Attributes whose value differs from the earlier one, since another process set them or the kernel refused, and remaining files
        /// for the next boot.
        left: Vec<String>,
    },
    /// The end: the machine has booted since, and the change ended with its boot.
    Void,
}

/// The first line of a journal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// [`FORMAT`].
    pub journal: u32,
    /// Id of the change.
    pub id: String,
    /// The kernel's id of this boot.
    pub boot_id: String,
    /// The kernel's release.
    pub kernel: String,
    /// Name of the profile.
    pub profile: String,
    /// Seconds until the rollback, unless confirmed.
    pub confirm_within_s: Option<u64>,
    /// The requested attributes and values, in the order of writes.
    pub wanted: Vec<(String, String)>,
    /// The devices whose queues are changed.
    pub disks: Vec<Disk>,
    /// Value of every attribute that the change can touch.
    pub before: Values,
}

/// State of a journal after reading it from the beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// The first line, with the boot and device names to which the journal was last carried over.
    pub begun: Begun,
    /// The first line as it was written, if the journal was carried over to another boot.
    pub first: Option<Box<Begun>>,
    /// Values after the change: the last read-back of every attribute.
    pub left: Values,
    /// A write that was announced and whose result is unknown.
    pub in_flight: Option<InFlight>,
    /// Whether all requested values were in force once.
    pub applied: bool,
    /// Process id and deadline of the watchdog.
    pub armed: Option<(u32, u64)>,
    /// Whether it was confirmed.
    pub confirmed: bool,
    /// Whether a rollback has begun.
    pub reverting: bool,
    /// Attributes whose origin is unknown after a crash: the kernel, or another process.
    pub unclear: BTreeSet<String>,
    /// Values that another process had set when the rollback began.
    pub foreign: Values,
    /// Files of boot settings that may have been written.
    pub files: Vec<String>,
    /// Whether nothing remains to be done.
    pub closed: bool,
    /// Remains at the end.
    pub left_behind: Vec<String>,
}

/// A write that may or may not have happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InFlight {
    /// Path of the attribute.
    pub path: String,
    /// The value.
    pub value: String,
    /// Other attributes that it may have changed.
    pub closure: Vec<String>,
}

/// Reasons why a journal can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// A file or folder can't be accessed.
    #[error("the journal {path} can't be {what}; run as root, and check that the disk is not \
        full", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// `read`, `written` ...
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// Its text is not in Hone's format.
    #[error("line {line} of the journal {path} can't be read ({why}); compare its first line with the \
        machine by hand", path = path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// Line number from 1.
        line: usize,
        /// The problem.
        why: String,
    },
    /// Another Hone process is changing this host.
    #[error("another hone is changing this host: the lock {path} is held; wait for it, or check with `hone \
        host status`", path = path.display())]
    Locked {
        /// Path of the lock.
        path: PathBuf,
    },
}

/// Destination of entries.
pub trait Log {
    /// Writes an entry; it is on disk when this returns.
    ///
    /// # Errors
    /// Returns an error when it can't be written: the announced step must then not be done.
    fn append(&mut self, entry: &Entry) -> Result<(), JournalError>;
}

/// A journal on disk.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    lines: LineFile,
}

fn io_error<'a>(path: &'a Path, what: &'static str) -> impl Fn(io::Error) -> JournalError + 'a {
    move |source| JournalError::Io { path: path.to_owned(), what, source }
}

impl Journal {
    /// Begins a journal under a root.
    ///
    /// # Errors
    /// Returns an error when it can't be written, or one with this id exists.
    pub fn begin(root: &Path, begun: Begun) -> Result<Self, JournalError> {
        let folder = root.join(FOLDER);
        make_folder(root, &folder)?;
        let path = folder.join(format!("{}.journal", begun.id));
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(io_error(&path, "created"))?;
        // The directory entry must survive a power loss, too.
        File::open(&folder).and_then(|folder| folder.sync_all()).map_err(io_error(&path, "created"))?;
        let mut journal = Self { path, lines: LineFile::over(file) };
        journal.append(&Entry::Begun(Box::new(begun)))?;
        Ok(journal)
    }

    /// Opens a journal to continue it. An incomplete last line after a crash is removed, since it announced a step that was not done.
    ///
    /// # Errors
    /// Returns an error when it can't be opened.
    pub fn resume(path: &Path) -> Result<Self, JournalError> {
        let failed = io_error(path, "opened");
        let file = OpenOptions::new().read(true).append(true).open(path).map_err(&failed)?;
        let lines = LineFile::resumed(file).map_err(&failed)?;
        Ok(Self { path: path.to_owned(), lines })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Log for Journal {
    fn append(&mut self, entry: &Entry) -> Result<(), JournalError> {
        self.lines.append(entry).map_err(io_error(&self.path, "written"))
    }
}

/// A journal during a rollback. A full disk must not prevent the restore, so a failed write is remembered and is not an error.
#[derive(Debug)]
pub struct Willing<L> {
    log: Option<L>,
    /// The first failed write.
    pub unkept: Option<String>,
}

impl<L: Log> Willing<L> {
    /// Wraps a journal, or the reason why there is none.
    pub fn over(log: Result<L, JournalError>) -> Self {
        match log {
            Ok(log) => Self { log: Some(log), unkept: None },
            Err(error) => Self { log: None, unkept: Some(error.to_string()) },
        }
    }
}

impl<L: Log> Log for Willing<L> {
    fn append(&mut self, entry: &Entry) -> Result<(), JournalError> {
        if let Some(Err(error)) = self.log.as_mut().map(|log| log.append(entry)) {
            self.unkept.get_or_insert(error.to_string());
        }
        Ok(())
    }
}

impl<L: Log> Log for &mut L {
    fn append(&mut self, entry: &Entry) -> Result<(), JournalError> {
        (**self).append(entry)
    }
}

fn make_folder(root: &Path, folder: &Path) -> Result<(), JournalError> {
    fs::create_dir_all(folder).map_err(io_error(folder, "created"))?;
    // Syncs every new folder above: without its directory entry the journal would be lost.
    for above in folder.ancestors().take_while(|above| *above != root).chain([root]) {
        let _ = File::open(above).and_then(|above| above.sync_all());
    }
    Ok(())
}

/// Reads a journal.
///
/// # Errors
/// Returns an error when it can't be read or is not a journal.
pub fn read(path: &Path) -> Result<State, JournalError> {
    let text = fs::read_to_string(path).map_err(io_error(path, "read"))?;
    parse(&text).map_err(|(line, why)| JournalError::Broken { path: path.to_owned(), line, why })
}

/// The state after all whole lines of a text.
///
/// # Errors
/// Returns the number of an invalid line, and the reason.
pub fn parse(text: &str) -> Result<State, (usize, String)> {
    let whole = text.rfind('\n').map_or("", |last| text.get(..last).unwrap_or_default());
    let mut state = State::default();
    for (at, line) in whole.lines().enumerate() {
        let entry: Entry = serde_json::from_str(line).map_err(|error| (at + 1, error.to_string()))?;
        match (at, &entry) {
            (0, Entry::Begun(begun)) if begun.journal == FORMAT => {}
            (0, Entry::Begun(begun)) => {
                return Err((1, format!("format {}, but this build reads {FORMAT}", begun.journal)));
            }
            (0, _) | (_, Entry::Begun(_)) => return Err((at + 1, "its beginning is missing".to_owned())),
            _ => {}
        }
        state.take(entry);
    }
    // A crash came before the first line was complete, so nothing was changed.
    state.closed |= whole.is_empty();
    Ok(state)
}

impl State {
    fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Begun(begun) => {
                self.left.clone_from(&begun.before);
                self.begun = *begun;
            }
            Entry::Armed { pid, deadline_s } => self.armed = Some((pid, deadline_s)),
            Entry::Intent { path, value, closure } => {
                self.in_flight = Some(InFlight { path, value, closure });
            }
            Entry::Done { now, .. } => {
                self.left.extend(now);
                self.in_flight = None;
            }
            Entry::Applied => self.applied = true,
            Entry::Persisting { files } => self.files = files,
            Entry::Confirmed => self.confirmed = true,
            Entry::Again { boot_id, disks, before, left } => {
                let first = Box::new(self.begun.clone());
                self.first.get_or_insert(first);
                self.begun = Begun { boot_id, disks, before, ..self.begun.clone() };
                self.left = left;
                (self.in_flight, self.armed, self.reverting) = (None, None, false);
                self.unclear.clear();
                self.foreign.clear();
            }
            Entry::Reverting { ours, unclear, foreign } => {
                self.reverting = true;
                self.left.extend(ours);
                self.unclear.extend(unclear);
                self.foreign.extend(foreign);
                self.in_flight = None;
            }
            Entry::Reverted { left } => (self.closed, self.left_behind) = (true, left),
            Entry::Void => (self.closed, self.left_behind) = (true, Vec::new()),
        }
    }
}

/// All journals under a root, the oldest first.
///
/// # Errors
/// Returns an error when their folder exists and can't be read.
pub fn all(root: &Path) -> Result<Vec<PathBuf>, JournalError> {
    let folder = root.join(FOLDER);
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io_error(&folder, "read")(error)),
    };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "journal"))
        .collect();
    paths.sort();
    Ok(paths)
}

/// The exclusive right to change this host, while it is held.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes it, waiting at most this long.
    ///
    /// # Errors
    /// Returns an error when another process holds it, or its file can't be created.
    pub fn take(root: &Path, patience: Duration) -> Result<Self, JournalError> {
        Self::named(root, "lock", patience)
    }

    /// Takes another lock, by the name of its file next to the journals.
    ///
    /// # Errors
    /// Returns the errors of [`Lock::take`].
    pub fn named(root: &Path, name: &str, patience: Duration) -> Result<Self, JournalError> {
        let path = root.join(FOLDER).join(name);
        let until = Instant::now() + patience;
        loop {
            if let Some(file) = Self::tried(root, &path)? {
                return Ok(Self { _file: file });
            }
            if Instant::now() >= until {
                return Err(JournalError::Locked { path });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Tries once. A file that was deleted between its opening and its lock does not count, since the next process creates another one.
    fn tried(root: &Path, path: &Path) -> Result<Option<File>, JournalError> {
        let failed = io_error(path, "created");
        make_folder(root, &root.join(FOLDER))?;
        let opened = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path);
        let file = match opened {
            Ok(file) => file,
            // The folder was deleted in between.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        // SAFETY: the file is open during the call.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            return Ok(None);
        }
        let held = file.metadata().map_err(&failed)?;
        let named = fs::metadata(path).ok();
        let is_it = named.is_some_and(|named| (named.dev(), named.ino()) == (held.dev(), held.ino()));
        Ok(is_it.then_some(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn begun() -> Begun {
        let before =
            [("a", Some("1".to_owned())), ("gone", None)].map(|(path, text)| (path.to_owned(), text));
        Begun { journal: FORMAT, id: "1".to_owned(), before: before.into(), ..Begun::default() }
    }

    fn reverting() -> Entry {
        Entry::Reverting { ours: Values::new(), unclear: Vec::new(), foreign: Values::new() }
    }

    #[test]
    fn a_journal_says_what_was_told() {
        let root = tempfile::tempdir().unwrap();
        let mut journal = Journal::begin(root.path(), begun()).unwrap();
        let intent = Entry::Intent { path: "a".into(), value: "2".into(), closure: vec!["a".into()] };
        journal.append(&intent).unwrap();
        let state = read(journal.path()).unwrap();
        assert_eq!(state.in_flight.as_ref().unwrap().value, "2");
        let now = Values::from([("a".to_owned(), Some("2".to_owned()))]);
        journal.append(&Entry::Done { path: "a".into(), now, refused: None }).unwrap();
        journal.append(&Entry::Applied).unwrap();
        let state = read(journal.path()).unwrap();
        assert_eq!(state.left["a"].as_deref(), Some("2"));
        assert!(state.applied && !state.closed && state.in_flight.is_none());
        assert_eq!(all(root.path()).unwrap(), [journal.path()]);
        assert!(Journal::begin(root.path(), begun()).is_err(), "a journal is never written over");
    }

    #[test]
    fn a_line_cut_off_anywhere_is_no_line() {
        let root = tempfile::tempdir().unwrap();
        let mut journal = Journal::begin(root.path(), begun()).unwrap();
        let first = fs::read(journal.path()).unwrap().len();
        journal.append(&Entry::Applied).unwrap();
        let whole = fs::read(journal.path()).unwrap();
        for length in 0..whole.len() {
            fs::write(journal.path(), &whole[..length]).unwrap();
            let state = read(journal.path()).unwrap();
            assert!(!state.applied);
            assert_eq!(state.closed, length < first, "without a beginning nothing was changed");
            let mut resumed = Journal::resume(journal.path()).unwrap();
            if length >= first {
                resumed.append(&reverting()).unwrap();
                assert!(read(journal.path()).unwrap().reverting);
            }
        }
    }

    #[test]
    fn one_at_a_time() {
        let root = tempfile::tempdir().unwrap();
        let held = Lock::take(root.path(), Duration::ZERO).unwrap();
        assert!(matches!(Lock::take(root.path(), Duration::ZERO), Err(JournalError::Locked { .. })));
        drop(held);
        Lock::take(root.path(), Duration::ZERO).unwrap();
    }

    /// A process that waits for a lock file that is deleted meanwhile gets the lock of the new file, or none.
    #[test]
    fn a_lock_that_was_deleted_is_no_lock() {
        let root = tempfile::tempdir().unwrap();
        let first = Lock::take(root.path(), Duration::ZERO).unwrap();
        let waiting = std::thread::spawn({
            let root = root.path().to_owned();
            move || Lock::take(&root, Duration::from_secs(20)).unwrap()
        });
        // It has opened the file by then; if not, it opens the next one, and the test shows nothing.
        std::thread::sleep(Duration::from_millis(300));
        fs::remove_dir_all(root.path().join(FOLDER)).unwrap();
        drop(first);
        let second = waiting.join().unwrap();
        assert!(matches!(Lock::take(root.path(), Duration::ZERO), Err(JournalError::Locked { .. })));
        drop(second);
        Lock::take(root.path(), Duration::ZERO).unwrap();
    }

    proptest! {
        #[test]
        fn foreign_journals_do_no_harm(text in "(\\PC*\n){0,4}\\PC*") {
            let _ = parse(&text);
        }

        #[test]
        fn a_journal_with_other_bytes_does_no_harm(at in 0_usize..300, byte in 0_u8..128) {
            let lines = [Entry::Begun(Box::new(begun())), Entry::Applied, reverting()]
                .map(|entry| serde_json::to_string(&entry).unwrap() + "\n");
            let mut bytes = lines.concat().into_bytes();
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = parse(&String::from_utf8_lossy(&bytes));
        }
    }
}

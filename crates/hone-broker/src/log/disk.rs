//! Where the files of one partition are: a folder, or memory alone. Every write and fsync goes through here, past the
//! faults that a test asks for.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::FromRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::durable;
use crate::faults::{FaultKind, Faults};
use crate::settings::Notices;

/// What every log of a broker is opened with.
#[derive(Debug, Clone)]
pub(crate) struct Storage {
    pub(crate) notices: Notices,
    pub(crate) faults: Faults,
    /// Logs are files in memory; nothing touches the disk.
    pub(crate) memory: bool,
}

impl Storage {
    /// Logs in folders, without faults.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn on_disk(notices: Notices) -> Self {
        Self { notices, faults: Faults::none(), memory: false }
    }
}

/// The place of one partition's files.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) storage: Storage,
    folder: PathBuf,
}

impl Disk {
    pub(crate) fn new(topic: &str, partition: i32, folder: PathBuf, storage: Storage) -> Self {
        Self { topic: topic.to_owned(), partition, storage, folder }
    }

    pub(crate) fn in_memory(&self) -> bool {
        self.storage.memory
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Tells of something, named after the partition.
    pub(crate) fn say(&self, notice: &str) {
        self.storage.notices.say(&format!("{}-{}: {notice}", self.topic, self.partition));
    }

    /// Makes or opens a log file. Whether it is new is for the caller to know.
    pub(crate) fn open(&self, name: &str) -> io::Result<File> {
        if self.in_memory() {
            return memory_file(name);
        }
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(self.path(name))
    }

    /// Makes the folder; `true` when it was not there.
    pub(crate) fn make_folder(&self) -> io::Result<bool> {
        if self.in_memory() || self.folder.is_dir() {
            return Ok(false);
        }
        fs::create_dir_all(&self.folder)?;
        Ok(true)
    }

    /// Waits as a fault wants it. No lock may be held.
    pub(crate) fn before_write(&self) {
        self.storage.faults.before_write(&self.topic, self.partition);
    }

    /// Writes into a log file.
    pub(crate) fn write(&self, file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
        match self.storage.faults.of_write(&self.topic, self.partition) {
            None => file.write_all_at(bytes, at),
            Some(FaultKind::TornWrite) => {
                let half = bytes.get(..bytes.len() / 2).unwrap_or_default();
                file.write_all_at(half, at)?;
                Err(io::Error::from_raw_os_error(libc::EIO))
            }
            Some(FaultKind::WriteError(errno)) => Err(io::Error::from_raw_os_error(errno)),
            Some(_) => Err(io::Error::from_raw_os_error(libc::EIO)),
        }
    }

    /// Makes a log file's bytes durable.
    pub(crate) fn sync(&self, file: &File) -> io::Result<()> {
        self.storage.faults.fsync(&self.topic, self.partition)?;
        if self.in_memory() { Ok(()) } else { durable::sync_file(file) }
    }

    /// Makes the folder's entries durable, and with `parent` the entry of the folder itself.
    pub(crate) fn sync_folder(&self, parent: bool) -> io::Result<()> {
        if self.in_memory() {
            return Ok(());
        }
        durable::sync_folder(&self.folder)?;
        if parent { self.sync_parent() } else { Ok(()) }
    }

    /// Makes the entry of the folder itself durable, or that it is gone.
    pub(crate) fn sync_parent(&self) -> io::Result<()> {
        self.folder.parent().map_or(Ok(()), durable::sync_folder)
    }

    /// Writes a small file durably, but for the folder's entry, which is the caller's to sync: beside the old one,
    /// renamed over it.
    pub(crate) fn replace(&self, name: &str, contents: &[u8]) -> io::Result<()> {
        let beside = self.path(&format!("{name}{BESIDE_SUFFIX}"));
        durable::swap_in(&beside, &self.path(name), contents, 0o666)
    }

    /// Removes a file if it is there.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        if self.in_memory() {
            return Ok(());
        }
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Behind the name of a file that is being written; what still has it at the next start goes.
pub(crate) const BESIDE_SUFFIX: &str = ".new";

fn memory_file(name: &str) -> io::Result<File> {
    let name = CString::new(name)?;
    // SAFETY: the name is a string with a zero behind it that lives through the call.
    let descriptor = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and belongs to nobody else.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

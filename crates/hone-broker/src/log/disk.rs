//! Where the files of one partition are: a folder, or memory alone. Every write and fsync goes through here, past the
//! faults that a test asks for.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::FromRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::durable;
use crate::faults::{FaultKind, Faults};
use crate::notices::Notices;
use crate::reserve::Reserve;

/// What every log of a broker is opened with.
#[derive(Debug, Clone)]
pub(crate) struct Storage {
    pub(crate) notices: Notices,
    pub(crate) faults: Faults,
    /// Logs are files in memory; nothing touches the disk.
    pub(crate) memory: bool,
    /// For what makes room on a full disk.
    pub(crate) reserve: Option<Arc<Reserve>>,
}

impl Storage {
    /// Logs in folders, without faults.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn on_disk(notices: Notices) -> Self {
        Self { notices, faults: Faults::none(), memory: false, reserve: None }
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

    /// Sends a notice with the partition's name.
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

    /// Writes a small file durably: a temporary file that it renames over the old one. The caller must sync the folder.
    pub(crate) fn replace(&self, name: &str, contents: &[u8]) -> io::Result<()> {
        let beside = self.path(&format!("{name}{BESIDE_SUFFIX}"));
        durable::swap_in(&beside, &self.path(name), contents, 0o666)
    }

    /// As [`Disk::replace`], for a file that says of others that they may go: on a full disk into the reserve.
    pub(crate) fn replace_to_free(&self, name: &str, contents: &[u8]) -> io::Result<()> {
        let Some(reserve) = &self.storage.reserve else { return self.replace(name, contents) };
        let beside = self.path(&format!("{name}{BESIDE_SUFFIX}"));
        reserve.swap_in(&beside, &self.path(name), contents)
    }

    /// Keeps a copy of the end of a log file, from a position on, under the first free name `NAME.cut-N`, durably. A copy
    /// that is there already is not made twice. Returns its path.
    pub(crate) fn keep_end(&self, name: &str, file: &File, from: u64) -> io::Result<PathBuf> {
        for number in 1_u64.. {
            let kept = format!("{name}.cut-{number}");
            let path = self.path(&kept);
            match File::open(&path) {
                Ok(there) if is_end_of(&there, file, from)? => return Ok(path),
                Ok(_) => (),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.copy_end(&kept, file, from)?;
                    return Ok(path);
                }
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("no free name"))
    }

    fn copy_end(&self, kept: &str, file: &File, from: u64) -> io::Result<()> {
        let beside = self.path(&format!("{kept}{BESIDE_SUFFIX}"));
        let copy = OpenOptions::new().write(true).create(true).truncate(true).open(&beside)?;
        let mut to = 0;
        pieces(file, from, |piece| {
            copy.write_all_at(piece, to)?;
            to += piece.len() as u64;
            Ok(true)
        })?;
        self.sync(&copy)?;
        fs::rename(&beside, self.path(kept))?;
        self.sync_folder(false)
    }

    /// Removes a file if it is there.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        if self.in_memory() {
            return Ok(());
        }
        durable::remove_if_there(&self.path(name))
    }
}

/// Behind the name of a file that is being written; what still has it at the next start goes.
pub(crate) const BESIDE_SUFFIX: &str = ".new";

/// Read at a time while a file is copied or compared.
const PIECE_BYTES: usize = 1 << 20;

/// Reads a file from a position to its end, piece by piece, until `each` says `false`.
fn pieces(file: &File, from: u64, mut each: impl FnMut(&[u8]) -> io::Result<bool>) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    let (mut at, end) = (from, file.metadata()?.len());
    while at < end {
        let have = (end - at).min(PIECE_BYTES as u64) as usize;
        let piece = piece.get_mut(..have).unwrap_or_default();
        file.read_exact_at(piece, at)?;
        if !each(piece)? {
            return Ok(());
        }
        at += have as u64;
    }
    Ok(())
}

fn is_end_of(copy: &File, file: &File, from: u64) -> io::Result<bool> {
    if copy.metadata()?.len() != file.metadata()?.len().saturating_sub(from) {
        return Ok(false);
    }
    let (mut same, mut at) = (true, 0);
    let mut other = Vec::new();
    pieces(file, from, |piece| {
        other.resize(piece.len(), 0);
        copy.read_exact_at(&mut other, at)?;
        at += piece.len() as u64;
        same = other == piece;
        Ok(same)
    })?;
    Ok(same)
}

fn memory_file(name: &str) -> io::Result<File> {
    let name = CString::new(name)?;
    // SAFETY: the name is a string with a zero behind it that lives through the call.
    let descriptor = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nothing else owns it.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

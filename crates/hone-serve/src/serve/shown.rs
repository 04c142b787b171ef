//! The files that a page may read: a limited number of regular files in the served folders, not through links.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use hone_ledger::{Checked, Ledger};

use hone_experiment::reader::Reader;

/// A larger file is listed but not read.
pub(super) const MOST_BYTES: u64 = 64 << 20;
/// Maximum files of a page. A window takes one or two megabytes of memory.
const MOST_FILES: usize = 1_000;
/// Maximum bytes of a page.
const MOST_BYTES_OF_A_PAGE: u64 = 512 << 20;
/// A writer locks a ledger for a moment. A process that holds it longer must not block others.
const PATIENCE: Duration = Duration::from_secs(2);

/// The reader of one page.
#[derive(Debug)]
pub(super) struct Shown {
    folders: Vec<PathBuf>,
    files: usize,
    read: RefCell<Read>,
}

#[derive(Debug, Default)]
struct Read {
    files: HashSet<PathBuf>,
    bytes: u64,
    was_too_much: bool,
}

impl Shown {
    /// Reads in these folders, whose paths have no links.
    pub(super) fn new(folders: Vec<PathBuf>) -> Self {
        Self { folders, files: MOST_FILES, read: RefCell::default() }
    }

    /// Whether a file was omitted because of the limits of a page.
    pub(super) fn was_too_much(&self) -> bool {
        self.read.borrow().was_too_much
    }

    /// Repeated reads of a file count once.
    fn count(&self, path: &Path, bytes: u64) -> Result<()> {
        let mut read = self.read.borrow_mut();
        if read.files.contains(path) {
            return Ok(());
        }
        let in_all = read.bytes.saturating_add(bytes);
        if read.was_too_much || read.files.len() >= self.files || in_all > MOST_BYTES_OF_A_PAGE {
            read.was_too_much = true;
            bail!("a page reads at most {} files and {MOST_BYTES_OF_A_PAGE} bytes", self.files);
        }
        read.files.insert(path.to_owned());
        read.bytes = in_all;
        Ok(())
    }
}

impl Reader for Shown {
    fn may_see(&self, path: &Path) -> bool {
        let is_plain =
            path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        is_plain && self.folders.iter().any(|folder| path.starts_with(folder))
    }

    fn open(&self, path: &Path) -> Result<File> {
        if !self.may_see(path) {
            bail!("it is in none of the served folders");
        }
        let file = open(path).map_err(|why| anyhow!(why))?;
        self.count(path, file.metadata()?.len())?;
        Ok(file)
    }

    fn ledger(&self, path: &Path) -> Result<Checked> {
        let file = self.open(path)?;
        let until = Instant::now() + PATIENCE;
        while file.try_lock_shared().is_err() {
            if Instant::now() >= until {
                bail!("another process holds the lock of {}; refresh the page", path.display());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Ledger::at(path).check_file(file)?)
    }
}

/// Opens a regular file at exactly this path. Neither the file nor a folder above it may be a link, even if it was replaced since
/// the scan.
///
/// # Errors
/// The error names the obstacle.
pub(super) fn open(path: &Path) -> Result<File, String> {
    let cannot = |error: io::Error| format!("can't read it: {error}");
    // The type is checked before the file is opened, because opening a pipe blocks, and opening a device may
    // have effects.
    let held = File::options()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_NOFOLLOW)
        .open(path)
        .map_err(cannot)?;
    let name = format!("/proc/self/fd/{}", held.as_raw_fd());
    let found = held.metadata().map_err(cannot)?;
    if found.is_symlink() || fs::read_link(&name).map_err(cannot)? != path {
        return Err("can't read it: there is a link on its path, or it was replaced just now".to_owned());
    }
    if !found.is_file() {
        return Err("can't read it: it is no file".to_owned());
    }
    if found.len() > MOST_BYTES {
        return Err(format!("it has {} bytes; the limit is {MOST_BYTES}", found.len()));
    }
    File::open(&name).map_err(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_pipes_and_what_lies_outside_are_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let (inside, outside) = (top.join("inside"), top.join("outside"));
        for folder in [&inside, &outside] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("a.json"), "{}").unwrap();
        }
        symlink(outside.join("a.json"), inside.join("link.json")).unwrap();
        symlink(&outside, inside.join("folder")).unwrap();
        symlink("/dev/zero", inside.join("zero.json")).unwrap();
        let pipe = std::ffi::CString::new(inside.join("pipe.json").to_str().unwrap()).unwrap();
        // SAFETY: the path ends in a zero byte.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        let shown = Shown::new(vec![inside.clone()]);
        assert!(shown.open(&inside.join("a.json")).is_ok());
        for name in
            ["link.json", "folder/a.json", "zero.json", "pipe.json", "../outside/a.json", "none.json", ""]
        {
            assert!(shown.open(&inside.join(name)).is_err(), "{name}");
        }
        for path in [outside.join("a.json"), PathBuf::from("a.json"), PathBuf::from("/")] {
            assert!(!shown.may_see(&path) && shown.open(&path).is_err(), "{}", path.display());
        }
        assert!(!shown.was_too_much());
    }

    #[test]
    fn a_page_rests_on_so_many_files_and_each_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let paths = ["a.json", "b.json", "c.json"].map(|name| top.join(name));
        for path in &paths {
            fs::write(path, "{}").unwrap();
        }
        let shown = Shown { files: 2, ..Shown::new(vec![top]) };
        for path in [&paths[0], &paths[0], &paths[1]] {
            assert!(shown.open(path).is_ok() && !shown.was_too_much());
        }
        assert!(shown.open(&paths[2]).is_err() && shown.was_too_much());
    }
}

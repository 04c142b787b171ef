//! Reserved space for writes that free space on a full disk: a few files of zeros in the data folder.
//!
//! Before the files of a log can be removed, a new manifest or `cluster.json` must record it. On a full disk, the
//! broker writes that file into a reserve file and so takes its blocks. No other writer can take them first.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::durable;
use crate::notices::Notices;

const FOLDER: &str = "reserve";
/// Several deletions may come before there is room again.
const PIECES: usize = 4;
const PIECE_BYTES: usize = 256 << 10;

/// The reserve of one data folder.
#[derive(Debug)]
pub(crate) struct Reserve {
    folder: PathBuf,
    notices: Notices,
    lacks: AtomicBool,
    /// Held while pieces are made or given up.
    pieces: Mutex<()>,
}

impl Reserve {
    /// Makes what is missing of it. A disk without room for it is no reason not to start.
    pub(crate) fn open(data_dir: &Path, notices: &Notices) -> Self {
        let reserve = Self {
            folder: data_dir.join(FOLDER),
            notices: notices.clone(),
            lacks: AtomicBool::new(false),
            pieces: Mutex::default(),
        };
        if let Err(error) = reserve.fill() {
            reserve.lacks.store(true, Relaxed);
            let folder = reserve.folder.display();
            notices.say(&format!(
                "can't reserve disk space in {folder}: {error}; without the reserve, the broker can't \
                 delete topics and records on a full disk"
            ));
        }
        reserve
    }

    /// As [`durable::swap_in`], for a file that says of others that they may go.
    pub(crate) fn swap_in(&self, beside: &Path, path: &Path, contents: &[u8]) -> io::Result<()> {
        match durable::swap_in(beside, path, contents, 0o666) {
            Err(error) if is_full(&error) => self.give_up_for(path, contents).unwrap_or(Err(error)),
            done => done,
        }
    }

    /// Makes again what was given up, if there is room.
    pub(crate) fn refill(&self) {
        if !self.lacks.load(Relaxed) {
            return;
        }
        let _one = self.lock();
        if self.fill().is_ok() && self.lacks.swap(false, Relaxed) {
            let folder = self.folder.display();
            self.notices
                .say(&format!("the disk has free space again, and the reserve in {folder} is complete"));
        }
    }

    /// Writes a file into a piece; `None` when there is none.
    fn give_up_for(&self, path: &Path, contents: &[u8]) -> Option<io::Result<()>> {
        let _one = self.lock();
        let whole: Vec<PathBuf> = self.pieces().filter(|piece| is_whole(piece)).collect();
        let (piece, others) = whole.split_first()?;
        if !self.lacks.swap(true, Relaxed) {
            self.notices.say(&format!(
                "the disk is full: the broker writes {} into the reserve in {}; delete topics or records, \
                 or free other space",
                path.display(),
                self.folder.display()
            ));
        }
        // A file that is longer than a piece grows, so that much must be free.
        let more = contents.len().div_ceil(PIECE_BYTES).saturating_sub(1);
        Some(
            others
                .iter()
                .take(more)
                .try_for_each(fs::remove_file)
                .and_then(|()| turn_into(piece, path, contents)),
        )
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pieces(&self) -> impl Iterator<Item = PathBuf> {
        (0..PIECES).map(|number| self.folder.join(number.to_string()))
    }

    fn fill(&self) -> io::Result<()> {
        let missing: Vec<PathBuf> = self.pieces().filter(|piece| !is_whole(piece)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        fs::create_dir_all(&self.folder)?;
        // The zeros must be written, not only allocated: some file systems can't store data in space that was only
        // allocated.
        let zeros = vec![0; PIECE_BYTES];
        missing.iter().try_for_each(|piece| durable::write_anew(piece, &zeros, 0o666))?;
        durable::sync_folder(&self.folder)?;
        self.folder.parent().map_or(Ok(()), durable::sync_folder)
    }
}

/// Whether a write failed for want of room.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn is_whole(piece: &Path) -> bool {
    fs::symlink_metadata(piece).is_ok_and(|found| found.is_file() && found.len() == PIECE_BYTES as u64)
}

fn turn_into(piece: &Path, path: &Path, contents: &[u8]) -> io::Result<()> {
    let file = File::options().write(true).open(piece)?;
    file.write_all_at(contents, 0)?;
    file.set_len(contents.len() as u64)?;
    durable::sync_file(&file)?;
    fs::rename(piece, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_takes_a_piece_and_a_long_one_several_and_all_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let reserve = Reserve::open(folder.path(), &Notices::nowhere());
        let whole = || reserve.pieces().filter(|piece| is_whole(piece)).count();
        assert_eq!(whole(), PIECES);
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        let long = vec![7; 2 * PIECE_BYTES + 1];
        for (contents, left) in [(&b"short"[..], PIECES - 1), (&long, 0)] {
            reserve.give_up_for(&path, contents).unwrap().unwrap();
            assert_eq!((fs::read(&path).unwrap() == contents, whole()), (true, left));
        }
        assert!(reserve.give_up_for(&path, b"no piece is left").is_none());
        assert!(fs::read(&path).unwrap() == long);
        reserve.refill();
        assert_eq!((whole(), reserve.lacks.load(Relaxed)), (PIECES, false));
    }

    #[test]
    fn a_piece_that_is_not_whole_is_made_anew_at_a_start() {
        let folder = tempfile::tempdir().unwrap();
        drop(Reserve::open(folder.path(), &Notices::nowhere()));
        let piece = folder.path().join(FOLDER).join("1");
        fs::write(&piece, "half").unwrap();
        drop(Reserve::open(folder.path(), &Notices::nowhere()));
        assert!(is_whole(&piece) && fs::read(&piece).unwrap().iter().all(|byte| *byte == 0));
    }
}

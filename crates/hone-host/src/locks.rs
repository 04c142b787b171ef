//! Holders of a file lock, from `/proc/locks`. It does not take the lock, since a try could block another process at that moment.

use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Far more locks than any machine has.
const MOST_BYTES: usize = 4 << 20;

/// The locks of a machine at one moment.
#[derive(Debug, Clone, Default)]
pub struct Locks {
    held: Vec<Lock>,
    root: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lock {
    pid: u32,
    inode: u64,
}

impl Locks {
    /// Reads them; empty if the kernel shows none (another PID namespace).
    pub fn read(root: &Path) -> Self {
        let mut text = fs::read_to_string(root.join("proc/locks")).unwrap_or_default();
        text.truncate(text.floor_char_boundary(MOST_BYTES));
        Self { held: parse(&text), root: root.to_owned() }
    }

    /// The process with an exclusive lock on a file. The kernel's list has the device of the file system, which differs from `stat`'s on
    /// btrfs and overlays. So the code searches for the inode, and then for the file among the process's open files, if it may see them.
    pub fn holder(&self, path: &Path) -> Option<u32> {
        let file = fs::metadata(path).ok()?;
        let of_inode = self.held.iter().filter(|lock| lock.inode == file.ino());
        of_inode.map(|lock| lock.pid).find(|pid| self.may_have_open(*pid, &file))
    }

    fn may_have_open(&self, pid: u32, file: &Metadata) -> bool {
        match fs::read_dir(self.root.join(format!("proc/{pid}/fd"))) {
            Ok(open) => open.flatten().any(|entry| {
                fs::metadata(entry.path())
                    .is_ok_and(|found| (found.dev(), found.ino()) == (file.dev(), file.ino()))
            }),
            // The process belongs to another user, so its files are unknown.
            Err(error) => error.kind() == ErrorKind::PermissionDenied,
        }
    }
}

/// Exclusive locks as `flock` takes them: `1: FLOCK  ADVISORY  WRITE 4711 fe:01:393218 0 EOF`. A waiting line has an arrow after its
/// number, and holds no lock.
fn parse(text: &str) -> Vec<Lock> {
    let lock = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, "WRITE", pid, place, ..] = words[..] else { return None };
        Some(Lock { pid: pid.parse().ok()?, inode: place.rsplit(':').next()?.parse().ok()? })
    };
    text.lines().filter_map(lock).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_held_has_its_process_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let file = fs::File::create(&path).unwrap();
        assert_eq!(Locks::read(Path::new("/")).holder(&path), None);
        file.try_lock().unwrap();
        assert_eq!(Locks::read(Path::new("/")).holder(&path), Some(std::process::id()));
        drop(file);
        assert_eq!(Locks::read(Path::new("/")).holder(&path), None);
        assert_eq!(Locks::read(Path::new("/")).holder(&dir.path().join("none")), None);
    }

    #[test]
    fn a_lock_on_another_file_with_the_same_inode_is_not_this_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let file = fs::File::create(&path).unwrap();
        let lock = Lock { pid: std::process::id(), inode: fs::metadata(&path).unwrap().ino() };
        let locks = Locks { held: vec![lock], root: PathBuf::from("/") };
        assert_eq!(locks.holder(&path), Some(std::process::id()));
        drop(file);
        assert_eq!(locks.holder(&path), None, "no process has it open");
    }

    #[test]
    fn who_waits_and_who_only_reads_holds_nothing() {
        let text = "1: FLOCK  ADVISORY  WRITE 4711 fe:01:393218 0 EOF\n\
                    1: -> FLOCK  ADVISORY  WRITE 4712 fe:01:393218 0 EOF\n\
                    2: FLOCK  ADVISORY  READ  4713 fe:01:5 0 EOF\n\
                    3: POSIX  ADVISORY  WRITE 4714 fe:01:6 0 EOF\n\
                    4: FLOCK  ADVISORY  WRITE -1 fe:01:7 0 EOF\n5: FLOCK\n";
        assert_eq!(parse(text), [Lock { pid: 4711, inode: 393_218 }]);
    }
}

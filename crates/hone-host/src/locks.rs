//! Who holds a lock on a file, out of `/proc/locks`: looked up without taking the lock, since a try would be in the way of whoever takes it
//! at that moment.

use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Far more than any machine has locks.
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
    /// Reads them. Where the kernel shows none (another namespace of processes), there are none.
    pub fn read(root: &Path) -> Self {
        let mut text = fs::read_to_string(root.join("proc/locks")).unwrap_or_default();
        text.truncate(text.floor_char_boundary(MOST_BYTES));
        Self { held: parse(&text), root: root.to_owned() }
    }

    /// The process that holds an exclusive lock on a file. The kernel's list has the device of the file system, which is another one than
    /// `stat` tells on btrfs and overlays; so the inode is looked for, and then the file among those that its process has open, where that
    /// may be seen.
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
            // Of another user: nobody can tell.
            Err(error) => error.kind() == ErrorKind::PermissionDenied,
        }
    }
}

/// Exclusive locks as `flock` takes them: `1: FLOCK  ADVISORY  WRITE 4711 fe:01:393218 0 EOF`. A line that waits for another one has an arrow
/// behind its number, and holds nothing.
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
        assert_eq!(locks.holder(&path), None, "nobody has it open");
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

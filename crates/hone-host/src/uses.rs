//! Features of kernel and core that a process uses, and that a user-mode emulator lacks.

use std::fs;
use std::path::{Path, PathBuf};

/// Features of a process and its threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Uses {
    /// io_uring, by an open ring.
    pub io_uring: bool,
    /// The kernel's asynchronous I/O (`io_setup`), by its mapped ring.
    pub aio: bool,
    /// AVX-512, by the kernel's note of the last use of its registers (Linux 5.2 and newer, x86 only). A library with such code is enough,
    /// and the C library is one.
    pub avx512: bool,
}

/// Features of a running process; empty for one that has ended.
pub fn used_features(pid: u32) -> Uses {
    under(Path::new("/"), pid)
}

fn under(root: &Path, pid: u32) -> Uses {
    let process = root.join(format!("proc/{pid}"));
    let rings = entries(&process.join("fd")).into_iter().filter_map(|link| fs::read_link(link).ok());
    let maps = fs::read_to_string(process.join("maps")).unwrap_or_default();
    let threads = entries(&process.join("task")).into_iter();
    let notes = threads.filter_map(|thread| fs::read_to_string(thread.join("arch_status")).ok());
    Uses {
        io_uring: rings.into_iter().any(|ring| ring.as_os_str() == "anon_inode:[io_uring]"),
        aio: maps.lines().any(|line| line.contains("/[aio]")),
        avx512: notes.into_iter().any(|note| has_used_avx512(&note)),
    }
}

impl Uses {
    /// The union with another process's features.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            io_uring: self.io_uring || other.io_uring,
            aio: self.aio || other.aio,
            avx512: self.avx512 || other.avx512,
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// `AVX512_elapsed_ms: 44`; -1 is never (Documentation/filesystems/proc.rst).
fn has_used_avx512(note: &str) -> bool {
    let elapsed = note.lines().find_map(|line| line.strip_prefix("AVX512_elapsed_ms:"));
    elapsed.is_some_and(|elapsed| elapsed.trim().parse::<i64>().is_ok_and(|ms| ms >= 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn rings_and_registers_are_seen() {
        let root = tempfile::tempdir().unwrap();
        let process = root.path().join("proc/7");
        fs::create_dir_all(process.join("fd")).unwrap();
        fs::create_dir_all(process.join("task/8")).unwrap();
        symlink("anon_inode:[io_uring]", process.join("fd/3")).unwrap();
        fs::write(
            process.join("maps"),
            "5500-5600 r-xp 00000000 fe:00 12 /bin/x\n7f00-7f01 rw-s 00000000 00:0e 9 /[aio] (deleted)\n",
        )
        .unwrap();
        fs::write(process.join("task/8/arch_status"), "AVX512_elapsed_ms:\t12\n").unwrap();
        let found = under(root.path(), 7);
        assert_eq!(found, Uses { io_uring: true, aio: true, avx512: true });
        fs::write(process.join("maps"), "5500-5600 r-xp 00000000 fe:00 12 /bin/x\n").unwrap();
        fs::write(process.join("task/8/arch_status"), "AVX512_elapsed_ms:\t-1\n").unwrap();
        let found = under(root.path(), 7);
        assert_eq!((found.aio, found.avx512), (false, false));
        assert_eq!(under(root.path(), 9), Uses::default());
    }

    #[test]
    fn a_plain_program_uses_none_of_the_rings() {
        let found = used_features(std::process::id());
        assert!(!found.io_uring && !found.aio, "{found:?}");
    }
}

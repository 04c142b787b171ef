//! How much room a file system has.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Room on a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskSpace {
    pub(crate) total_bytes: i64,
    /// What is left for this user.
    pub(crate) usable_bytes: i64,
}

impl DiskSpace {
    /// The space on a path's file system. `None` if the system does not report it.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let path = CString::new(path.as_os_str().as_bytes()).ok()?;
        let mut found = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
        // SAFETY: the path ends in a zero byte, and `found` is as large as the call writes.
        let failed = unsafe { libc::statvfs(path.as_ptr(), found.as_mut_ptr()) };
        if failed != 0 {
            return None;
        }
        // SAFETY: a structure of numbers, zeroed before and written by the call.
        let found = unsafe { found.assume_init() };
        let bytes = |blocks: u64| i64::try_from(blocks.saturating_mul(found.f_frsize)).unwrap_or(i64::MAX);
        Some(Self { total_bytes: bytes(found.f_blocks), usable_bytes: bytes(found.f_bavail) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_room_and_what_is_not_there_has_none() {
        let folder = tempfile::tempdir().unwrap();
        let space = DiskSpace::of(folder.path()).unwrap();
        assert!(0 < space.usable_bytes && space.usable_bytes <= space.total_bytes);
        assert_eq!(DiskSpace::of(&folder.path().join("missing")), None);
    }
}

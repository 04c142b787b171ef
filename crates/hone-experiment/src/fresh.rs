//! Fresh copies of programs. Byte-identical copies of one program can differ by some percent in CPU, for as long as their pages stay where
//! they are (docs/bias.md has the experiment). Copies that are made anew for each block of rounds turn this luck into noise, which the
//! confidence interval contains.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::arm::{Arm, Place, Program};

/// Copies of one block may take this much space. Larger programs are measured where they are: it would take seconds to write each block, and
/// a program of this size has its luck spread over many pages.
const MOST_BYTES: u64 = 256 << 20;

/// The folder of the current block's copies. It is deleted with this value.
#[derive(Debug)]
pub(crate) struct FreshCopies {
    folder: PathBuf,
    is_wanted: bool,
}

impl FreshCopies {
    /// Copies of the programs of these arms, in this folder.
    pub(crate) fn within<'a>(folder: PathBuf, arms: impl Iterator<Item = &'a Arm>) -> Self {
        let bytes = |program: &Program| fs::metadata(&program.path).map_or(u64::MAX, |file| file.len());
        let total = arms.filter_map(Arm::program).map(bytes).fold(0, u64::saturating_add);
        Self { folder, is_wanted: total <= MOST_BYTES }
    }

    /// The same for two arms, by their first builds. `None` if both have the same program: then nothing depends on its pages.
    pub(crate) fn of_builds(folder: PathBuf, builds: &[Vec<Arm>; 2]) -> Option<Self> {
        let first = || builds.iter().filter_map(|arms| arms.first());
        let mut paths = first().filter_map(Arm::program).map(|program| &program.path);
        (paths.next() != paths.next()).then(|| Self::within(folder, first()))
    }

    /// The arm with a fresh copy of its program. `place` is a number of its own among the arms of the block.
    ///
    /// # Errors
    /// When the copy can't be written.
    pub(crate) fn copy_of(&self, arm: &Arm, place: usize) -> Result<Arm> {
        let Some(program) = arm.program().filter(|_| self.is_wanted) else { return Ok(arm.clone()) };
        // All paths have the same length, because they are a part of the stack of each process.
        let path = self.folder.join(format!("{place:03}")).join(program.path.file_name().unwrap_or_default());
        copied(&program.path, &path)
            .with_context(|| format!("{} can't be copied to {}", program.path.display(), path.display()))?;
        let program = Program { path, ..program.clone() };
        Ok(Arm { place: Place::Program(program), ..arm.clone() })
    }

    /// Deletes the copies of the block before.
    ///
    /// # Errors
    /// When they can't be deleted.
    pub(crate) fn clear(&self) -> Result<()> {
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("{} can't be deleted", self.folder.display()))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for FreshCopies {
    fn drop(&mut self) {
        let _ = self.clear();
    }
}

/// Copies a program to the disk, drops its pages and reads them again, as they are on a machine that has started. Pages that are still to be
/// written would disturb the windows, and the first window must not pay for reading them.
fn copied(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to.parent().unwrap_or(Path::new(".")))?;
    fs::copy(from, to)?;
    let mut file = File::open(to)?;
    file.sync_data()?;
    // SAFETY: the descriptor is open, and the call changes no memory of this process. It is only advice.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    io::copy(&mut file, &mut io::sink()).map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::time::Duration;

    use hone_load::Security;

    use super::*;
    use crate::meter::Metrics;

    #[test]
    fn each_block_has_files_of_its_own_with_the_same_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("tool");
        fs::write(&program, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let arm = Arm {
            name: "tool".to_owned(),
            place: Place::Program(Program {
                path: program.clone(),
                args: Vec::new(),
                env: BTreeMap::new(),
                address: String::new(),
                ready_timeout: Duration::ZERO,
                stop_timeout: Duration::ZERO,
                ways: Box::default(),
            }),
            security: Security::default(),
            metrics: Metrics::default(),
        };
        let copies = FreshCopies::within(folder.path().join("fresh"), std::iter::once(&arm));
        let [first, second] =
            [0, 1].map(|place| copies.copy_of(&arm, place).unwrap().program().unwrap().path.clone());
        let inode = |path: &Path| fs::metadata(path).unwrap().ino();
        assert_ne!(inode(&first), inode(&second));
        assert_eq!(first.as_os_str().len(), second.as_os_str().len());
        for copy in [&first, &second] {
            assert_eq!(fs::read(copy).unwrap(), fs::read(&program).unwrap());
            assert_eq!(fs::metadata(copy).unwrap().permissions().mode() & 0o777, 0o755);
            assert_eq!(copy.file_name(), program.file_name(), "its process has the same name");
        }
        copies.clear().unwrap();
        assert!(!first.exists() && program.exists());
        copies.copy_of(&arm, 0).unwrap();
        drop(copies);
        assert!(!folder.path().join("fresh").exists());
    }
}

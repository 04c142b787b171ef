//! A process that holds the lock of a run: whether it may be interrupted from here, and how.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// Name of the only program that is interrupted from here.
const PROGRAM: &str = "hone";

/// A process. The start time tells it from a later one with the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// Clock ticks since the start of the machine.
    started: u64,
}

impl Process {
    /// The running process with this id. `None` if there is none.
    pub(super) fn running(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(folder(pid).join("stat")).ok()?;
        Some(Self { pid, started: started(&stat)? })
    }

    /// Text that differs for every process.
    pub(super) fn key(self) -> String {
        format!("{} {}", self.pid, self.started)
    }

    /// Why it can't be interrupted from here, as a sentence. `None` if it can.
    pub(super) fn why_not(self) -> Option<&'static str> {
        let stat = fs::read_to_string(folder(self.pid).join("stat")).unwrap_or_default();
        if started(&stat) != Some(self.started) {
            return Some("The process has ended.");
        }
        // SAFETY: the call has no parameter and always succeeds.
        let own = unsafe { libc::geteuid() };
        if fs::metadata(folder(self.pid)).map(|found| found.uid()).ok() != Some(own) {
            return Some("The process belongs to another user.");
        }
        if name(&stat) != Some(PROGRAM) {
            return Some("The process that holds the lock of the run is not Hone.");
        }
        None
    }

    /// Sends SIGINT, as Ctrl-C does.
    ///
    /// # Errors
    /// The process has ended, or is not ours.
    pub(super) fn interrupt(self) -> io::Result<()> {
        // The descriptor stands for this process, even if its id is given to another one in the meantime.
        let descriptor = pidfd(self.pid)?;
        if let Some(why) = self.why_not() {
            return Err(io::Error::other(why));
        }
        // SAFETY: the descriptor is open, the signal is a constant, and a null pointer means no further information.
        let sent = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                descriptor.as_raw_fd(),
                libc::SIGINT,
                std::ptr::null::<libc::siginfo_t>(),
                0,
            )
        };
        if sent == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

fn folder(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}

fn pidfd(pid: u32) -> io::Result<OwnedFd> {
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    // SAFETY: the call takes two numbers and touches no memory.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let descriptor = i32::try_from(descriptor).map_err(io::Error::other)?;
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened this descriptor, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The 22nd field of `/proc/PID/stat`. The second one is a name in parentheses that may contain anything.
fn started(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(19)?.parse().ok()
}

fn name(stat: &str) -> Option<&str> {
    let (_, rest) = stat.split_once('(')?;
    rest.rsplit_once(')').map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_id_and_its_start() {
        let own = Process::running(std::process::id()).unwrap();
        assert_eq!(Process::running(std::process::id()), Some(own));
        assert!(own.started > 0 && own.key().starts_with(&format!("{} ", own.pid)));
        let later = Process { started: own.started + 1, ..own };
        assert_eq!(later.why_not(), Some("The process has ended."));
        assert!(later.interrupt().is_err(), "another process with the same id is left alone");
        assert_eq!(Process::running(u32::MAX), None);
    }

    #[test]
    fn the_start_is_found_behind_any_name() {
        let stat = "4711 (a) b (c) S 1 4711 4711 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1000 2 3";
        assert_eq!((started(stat), name(stat)), (Some(98_765), Some("a) b (c")));
        assert_eq!((started(""), name("")), (None, None));
    }
}

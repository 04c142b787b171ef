//! Processes that a started program put into the background: outside its group, and no longer its children.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::child::{Pause, members, send, vanished};
use crate::orphans;

/// Makes this process the parent of orphaned descendants, so that Hone can find and end a daemon. Without effect if the kernel refuses.
pub fn adopt_orphans() {
    // SAFETY: a plain flag of this process; the unused arguments are zero.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

/// A process below this one that no [`crate::Session`] owns. It ends with this value, and so does its process group, unless that is Hone's
/// own.
#[derive(Debug)]
pub struct Daemon {
    pid: i32,
    /// Its own group, which contains the processes that it started.
    group: Option<i32>,
    /// Whether it has ended and was reaped: another process may have its id by now.
    is_gone: AtomicBool,
    /// The note of its group, for the next run if Hone is killed.
    note: Option<PathBuf>,
}

impl Daemon {
    /// Takes over a process below this one that was started for `step`. The caller must know that it is below this one, and in no session's
    /// group.
    pub fn adopt(pid: u32, step: &str) -> Option<Self> {
        let pid = i32::try_from(pid).ok().filter(|pid| *pid > 1)?;
        // SAFETY: both calls only read.
        let (group, own) = unsafe { (libc::getpgid(pid), libc::getpgrp()) };
        let group = (group > 1 && group != own).then_some(group);
        let note = group.and_then(|group| orphans::note_of(group, step));
        Some(Self { pid, group, is_gone: AtomicBool::new(false), note })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// Whether it still runs.
    pub fn is_alive(&self) -> bool {
        !self.is_reaped()
    }

    /// Asks it to end, waits for up to `grace`, and kills it after that.
    pub fn stop(mut self, grace: Duration) {
        self.end(grace);
    }

    /// Only once: a second call finds no group to end.
    fn end(&mut self, grace: Duration) {
        self.end_leader(grace);
        if let Some(group) = self.group.take().filter(|group| !members(*group).is_empty()) {
            send(-group, libc::SIGKILL);
            vanished(group, KILL_LIMIT);
        }
        if let Some(note) = self.note.take() {
            let _ = std::fs::remove_file(note);
        }
    }

    fn end_leader(&self, grace: Duration) {
        if self.is_reaped() {
            return;
        }
        send(self.pid, libc::SIGTERM);
        let (deadline, mut pause) = (Instant::now() + grace, Pause::default());
        while Instant::now() < deadline {
            if self.is_reaped() {
                return;
            }
            pause.sleep();
        }
        send(self.pid, libc::SIGKILL);
        let (deadline, mut pause) = (Instant::now() + KILL_LIMIT, Pause::default());
        while Instant::now() < deadline && !self.is_reaped() {
            pause.sleep();
        }
    }

    /// Reaps it if it has ended. True also if other code has reaped it: its id is then no longer valid.
    fn is_reaped(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed) || {
            let has_ended = self.reap();
            self.is_gone.store(has_ended, Ordering::Relaxed);
            has_ended
        }
    }

    fn reap(&self) -> bool {
        let mut status = 0;
        // SAFETY: `status` is a valid place for the answer.
        let answer = unsafe { libc::waitpid(self.pid, &raw mut status, libc::WNOHANG) };
        // A process whose own parent still lives is not our child: it runs as long as its id exists.
        let is_ours = answer >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ECHILD);
        if is_ours {
            return answer == self.pid;
        }
        // SAFETY: signal 0 only asks.
        unsafe { libc::kill(self.pid, 0) != 0 }
    }
}

/// Time for the kernel to end a killed process.
const KILL_LIMIT: Duration = Duration::from_secs(5);
/// The default grace time.
const DROP_GRACE: Duration = Duration::from_secs(2);

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end(DROP_GRACE);
    }
}

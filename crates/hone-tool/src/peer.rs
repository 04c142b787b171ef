//! Signals to processes that Hone did not start.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

/// A process that somebody else started. Its handle never means another process, even when the kernel gives its id away.
#[derive(Debug)]
pub struct Peer {
    pid: u32,
    handle: OwnedFd,
}

/// Signals that Hone sends to such a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerSignal {
    /// SIGKILL.
    Kill,
    /// SIGTERM.
    Terminate,
}

/// A stopped process. It goes on when this is dropped, and also when Hone is killed.
#[derive(Debug)]
pub struct Halt {
    /// Closed by the end of Hone, whatever ends it.
    line: Option<PipeWriter>,
    guard: libc::pid_t,
}

impl Peer {
    /// A running process that this user may send signals to.
    ///
    /// # Errors
    /// When there is none, when it belongs to another user, or when it is Hone or one of its ancestors.
    pub fn open(pid: u32) -> io::Result<Self> {
        let id = i32::try_from(pid).ok().filter(|id| *id > 1);
        let id = id.ok_or_else(|| io::Error::other("no process that Hone may end has this id"))?;
        if pid == std::process::id() || is_ancestor(id) {
            return Err(io::Error::other("Hone itself runs in this process, or below it"));
        }
        let peer = Self { pid, handle: handle_of(id)? };
        // Signal 0 only checks the right to send others.
        send(peer.handle.as_raw_fd(), 0)?;
        Ok(peer)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn signal(&self, signal: PeerSignal) -> io::Result<()> {
        let number = match signal {
            PeerSignal::Kill => libc::SIGKILL,
            PeerSignal::Terminate => libc::SIGTERM,
        };
        send(self.handle.as_raw_fd(), number)
    }

    /// Stops the process (SIGSTOP) until the halt is dropped.
    ///
    /// # Errors
    /// When the process has ended, or when the guard that lets it go on can't be started. It is not stopped then.
    pub fn halt(&self) -> io::Result<Halt> {
        let (from_hone, line) = io::pipe()?;
        let guard = self.guard(&from_hone)?;
        let halt = Halt { line: Some(line), guard };
        send(self.handle.as_raw_fd(), libc::SIGSTOP)?;
        Ok(halt)
    }

    /// Starts the process that sends SIGCONT as soon as no other process has the other end of the line.
    fn guard(&self, line: &PipeReader) -> io::Result<libc::pid_t> {
        let (line, handle) = (line.as_raw_fd(), self.handle.as_raw_fd());
        // SAFETY: the child calls only system calls, and ends without any destructor.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                // SAFETY: only system calls with valid arguments; the buffer is on this stack.
                unsafe {
                    // A signal to Hone's process group, such as Ctrl-C, must not end it.
                    libc::setsid();
                    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
                        libc::signal(signal, libc::SIG_IGN);
                    }
                    close_all_but(line, handle);
                    let mut byte = [0_u8; 1];
                    while libc::read(line, byte.as_mut_ptr().cast(), 1) < 0
                        && *libc::__errno_location() == libc::EINTR
                    {}
                    let no_info = std::ptr::null::<libc::siginfo_t>();
                    libc::syscall(libc::SYS_pidfd_send_signal, handle, libc::SIGCONT, no_info, 0);
                    libc::_exit(0)
                }
            }
            child => Ok(child),
        }
    }
}

impl Drop for Halt {
    fn drop(&mut self) {
        self.line = None;
        let mut status = 0;
        // SAFETY: the guard is a child that nobody else waits for. It ends at once, because the line is closed.
        unsafe { libc::waitpid(self.guard, &raw mut status, 0) };
    }
}

/// A descriptor of a process (`pidfd_open`), which is readable when the process has ended.
pub(crate) fn handle_of(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: plain integers.
    let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if handle < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor, and nothing else uses it.
    Ok(unsafe { OwnedFd::from_raw_fd(handle as RawFd) })
}

/// Between fork and exit: otherwise the guard keeps pipes open whose ends others wait for.
fn close_all_but(one: RawFd, other: RawFd) {
    let (low, high) = (one.min(other), one.max(other));
    for (first, last) in [(0, low - 1), (low + 1, high - 1), (high + 1, RawFd::MAX)] {
        if first <= last {
            // SAFETY: plain integers.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    }
}

fn send(handle: RawFd, signal: i32) -> io::Result<()> {
    // SAFETY: plain integers, and no info.
    let sent = unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, handle, signal, std::ptr::null::<libc::siginfo_t>(), 0)
    };
    if sent == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn is_ancestor(pid: i32) -> bool {
    let parent = |pid: i32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in brackets may itself contain spaces and brackets.
        text.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<i32>().ok()
    };
    let own = std::process::id() as i32;
    std::iter::successors(parent(own), |pid| parent(*pid)).take(64).any(|ancestor| ancestor == pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};

    #[expect(clippy::disallowed_methods, reason = "the test needs a process that Hone did not start")]
    fn sleeper() -> Child {
        Command::new("sleep").arg("60").spawn().unwrap()
    }

    fn state(child: &Child) -> char {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        text.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    }

    fn until(child: &Child, wanted: impl Fn(char) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !wanted(state(child)) {
            assert!(Instant::now() < deadline, "the process is in state {}", state(child));
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn a_stopped_process_goes_on_when_its_halt_is_dropped() {
        let mut child = sleeper();
        let peer = Peer::open(child.id()).unwrap();
        let halt = peer.halt().unwrap();
        until(&child, |state| state == 'T');
        drop(halt);
        until(&child, |state| state == 'S');
        peer.signal(PeerSignal::Kill).unwrap();
        child.wait().unwrap();
        assert!(peer.signal(PeerSignal::Terminate).is_err());
        assert!(peer.halt().is_err());
    }

    /// `kill -9` of the process that holds the halt.
    #[test]
    fn a_stopped_process_goes_on_when_hone_is_killed() {
        let mut child = sleeper();
        let peer = Peer::open(child.id()).unwrap();
        // SAFETY: the child makes system calls and allocates nothing that another thread may have locked.
        let holder = unsafe { libc::fork() };
        if holder == 0 {
            let halt = peer.halt();
            std::mem::forget(halt);
            // SAFETY: it only waits for its end.
            unsafe { libc::pause() };
        }
        until(&child, |state| state == 'T');
        // SAFETY: the holder is a child of this test.
        unsafe {
            libc::kill(holder, libc::SIGKILL);
            libc::waitpid(holder, std::ptr::null_mut(), 0);
        }
        until(&child, |state| state == 'S');
        peer.signal(PeerSignal::Terminate).unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn hone_and_its_ancestors_are_refused() {
        for pid in [0, 1, std::process::id(), std::os::unix::process::parent_id(), u32::MAX] {
            assert!(Peer::open(pid).is_err(), "{pid}");
        }
    }
}

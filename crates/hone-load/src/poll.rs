//! Waiting for sockets with a nanosecond limit.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::time::Duration;

/// Largest number of events per wait.
const EVENTS: usize = 128;

/// An epoll instance, level-triggered.
#[derive(Debug)]
pub(crate) struct Poll {
    epoll: OwnedFd,
    nanosecond_wait: bool,
}

/// A socket that is ready.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ready {
    /// The token of the socket.
    pub token: usize,
    /// The socket has bytes, an end or an error to read.
    pub readable: bool,
    /// The socket takes bytes again.
    pub writable: bool,
}

impl Poll {
    /// A new instance. Also sets the calling thread's timer slack to 1 ns, since the default of 50 µs would delay requests.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no pointers are passed.
        let slack = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
        check(slack)?;
        // SAFETY: no pointers are passed; the descriptor is owned from here on.
        let epoll = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        Ok(Self { epoll, nanosecond_wait: true })
    }

    /// Watches a socket for reading.
    pub(crate) fn add(&self, socket: RawFd, token: usize) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, socket, token, false)
    }

    /// Watches a socket for reading, and for writing if `writable`.
    pub(crate) fn modify(&self, socket: RawFd, token: usize, writable: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, socket, token, writable)
    }

    fn control(&self, operation: libc::c_int, socket: RawFd, token: usize, writable: bool) -> io::Result<()> {
        let mut wanted = libc::EPOLLIN | libc::EPOLLRDHUP;
        if writable {
            wanted |= libc::EPOLLOUT;
        }
        let mut event = libc::epoll_event { events: wanted as u32, u64: token as u64 };
        // SAFETY: `event` lives through the call; both descriptors are open.
        check(unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, socket, &raw mut event) })?;
        Ok(())
    }

    /// Waits until a socket is ready or `limit` has passed; replaces the contents of `ready`.
    pub(crate) fn wait(&mut self, limit: Duration, ready: &mut Vec<Ready>) -> io::Result<()> {
        ready.clear();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        let count = match self.wait_raw(limit, &mut events) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        ready.extend(events[..count].iter().map(|event| {
            let flags = event.events as libc::c_int;
            Ready {
                token: event.u64 as usize,
                readable: flags & (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) != 0,
                writable: flags & libc::EPOLLOUT != 0,
            }
        }));
        Ok(())
    }

    fn wait_raw(&mut self, limit: Duration, events: &mut [libc::epoll_event; EVENTS]) -> io::Result<usize> {
        if self.nanosecond_wait {
            match self.wait_ns(limit, events) {
                // Kernels before 5.11 lack the call, and some sandboxes filter it out.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                    self.nanosecond_wait = false;
                }
                other => return other,
            }
        }
        // Rounded down: waking early costs one turn of the loop, waking late would delay requests.
        let limit_ms = limit.as_millis().min(1_000) as libc::c_int;
        // SAFETY: `events` has room for EVENTS entries.
        let count = unsafe {
            libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), EVENTS as libc::c_int, limit_ms)
        };
        check(count).map(|count| count as usize)
    }

    fn wait_ns(&self, limit: Duration, events: &mut [libc::epoll_event; EVENTS]) -> io::Result<usize> {
        let limit = libc::timespec {
            tv_sec: limit.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(limit.subsec_nanos()),
        };
        // SAFETY: `events` has room for EVENTS entries and `limit` lives through the call; the signal mask is null.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                events.as_mut_ptr(),
                EVENTS as libc::c_int,
                &raw const limit,
                std::ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        };
        if count < 0 { Err(io::Error::last_os_error()) } else { Ok(count as usize) }
    }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

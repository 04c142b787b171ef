//! What a process does about a signal, from `/proc/PID/status`.

use std::fs;

/// The sets of signals of one process; bit `n - 1` is signal `n` (`proc_pid_status(5)`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SignalState {
    /// Blocked in its first thread.
    blocked: u64,
    /// It has a handler.
    caught: u64,
    /// Sent to the process and not yet delivered.
    pending: u64,
}

impl SignalState {
    /// Of a running process; `None` when it is gone, or the system does not tell.
    pub(crate) fn of(process: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{process}/status")).ok()?)
    }

    fn parse(status: &str) -> Option<Self> {
        let set = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            u64::from_str_radix(line.trim(), 16).ok()
        };
        Some(Self { blocked: set("SigBlk:")?, caught: set("SigCgt:")?, pending: set("ShdPnd:")? })
    }

    /// Whether the process can be sent this signal without being hurt by it.
    pub(crate) fn takes(self, signal: i32) -> bool {
        has(self.blocked | self.caught, signal)
    }

    /// Whether the process has a handler of its own for it.
    pub(crate) fn handles(self, signal: i32) -> bool {
        has(self.caught, signal)
    }

    /// Whether the signal was sent and nobody has taken it yet.
    pub(crate) fn waits(self, signal: i32) -> bool {
        has(self.pending, signal)
    }
}

fn has(set: u64, signal: i32) -> bool {
    (1..=64).contains(&signal) && set >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sets_are_read_by_their_names() {
        let status = "Name:\tx\nSigQ:\t0/96000\nSigPnd:\t0000000000000001\nShdPnd:\t0000000000000800\n\
                      SigBlk:\t0000000000000a00\nSigIgn:\t0000000000001000\nSigCgt:\t0000000000004002\n";
        let state = SignalState::parse(status).unwrap();
        assert!(state.takes(libc::SIGUSR1) && state.takes(libc::SIGUSR2), "blocked");
        assert!(state.takes(libc::SIGTERM) && state.takes(libc::SIGINT), "caught");
        assert!(!state.takes(libc::SIGHUP) && !state.takes(libc::SIGPIPE), "neither, or ignored");
        assert!(state.handles(libc::SIGTERM) && !state.handles(libc::SIGUSR1), "blocked is not handled");
        assert!(state.waits(libc::SIGUSR2) && !state.waits(libc::SIGUSR1));
        assert!(!state.takes(0) && !state.takes(65) && !state.takes(-1));
    }

    #[test]
    fn an_odd_text_is_no_state() {
        for text in ["", "SigBlk:\t00\n", "SigBlk:\tx\nSigCgt:\t0\nShdPnd:\t0\n"] {
            assert_eq!(SignalState::parse(text), None, "{text}");
        }
    }
}

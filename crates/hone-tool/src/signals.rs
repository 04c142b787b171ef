//! The reaction of a process to a signal, according to `/proc`.

use std::fs;

use crate::child::text_of;

/// The name of a thread that Hone added to a program to fetch signals for it.
pub const SERVES_SIGNALS: &str = "hone-signals";

/// A process's signals. Sets of them are as in `proc_pid_status(5)`: bit `n - 1` is signal `n`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SignalState {
    /// It has a handler.
    caught: u64,
    threads: Vec<Thread>,
    /// Signals that one of its descriptors fetches (`signalfd`).
    in_descriptors: u64,
}

/// One of its threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Thread {
    /// During `sigwait`, the kernel omits the signals that it waits for.
    blocked: u64,
    /// It is in `sigwait`.
    waits: bool,
    /// Hone added it ([`SERVES_SIGNALS`]).
    serves: bool,
}

impl SignalState {
    /// Reads the state of a running process; `None` if it is gone, or if the system does not show it.
    pub(crate) fn read(process: i32) -> Option<Self> {
        let caught = set_in(&text_of(&format!("/proc/{process}/status"))?, "SigCgt:")?;
        let tasks = fs::read_dir(format!("/proc/{process}/task")).ok()?.flatten();
        // A process that has ended since is skipped.
        let threads = tasks.filter_map(|task| Thread::read(&task.path().to_string_lossy())).collect();
        Some(Self { caught, threads, in_descriptors: in_descriptors(process) })
    }

    /// Whether the signal can't hurt the process, and something in it receives the signal.
    pub(crate) fn takes(&self, signal: i32) -> bool {
        let is_safe = |thread: &Thread| has(thread.blocked, signal) || thread.waits || thread.serves;
        let is_fetched = self.fetches(signal) || self.threads.iter().any(|thread| thread.serves);
        has(self.caught, signal) || (self.threads.iter().all(is_safe) && is_fetched)
    }

    /// Whether the process itself uses the signal.
    pub(crate) fn uses(&self, signal: i32) -> bool {
        has(self.caught, signal) || self.fetches(signal)
    }

    fn fetches(&self, signal: i32) -> bool {
        let fetches = |thread: &Thread| thread.waits && !thread.serves && !has(thread.blocked, signal);
        has(self.in_descriptors, signal) || self.threads.iter().any(fetches)
    }
}

impl Thread {
    fn read(folder: &str) -> Option<Self> {
        let file = |name: &str| text_of(&format!("{folder}/{name}"));
        let wait = libc::SYS_rt_sigtimedwait.to_string();
        Some(Self {
            blocked: set_in(&file("status")?, "SigBlk:")?,
            waits: file("syscall").is_some_and(|call| call.split_ascii_whitespace().next() == Some(&wait)),
            serves: file("comm")?.trim_end() == SERVES_SIGNALS,
        })
    }
}

/// Whether the signal is still pending.
pub(crate) fn is_pending(process: i32, signal: i32) -> bool {
    let pending = || set_in(&text_of(&format!("/proc/{process}/status"))?, "ShdPnd:");
    pending().is_some_and(|pending| has(pending, signal))
}

fn in_descriptors(process: i32) -> u64 {
    let entries = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let of_signals = entries.filter(|entry| {
        fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == "anon_inode:[signalfd]")
    });
    let told = of_signals.filter_map(|entry| {
        set_in(&text_of(&format!("/proc/{process}/fdinfo/{}", entry.file_name().display()))?, "sigmask:")
    });
    told.fold(0, |all, set| all | set)
}

fn set_in(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn has(set: u64, signal: i32) -> bool {
    (1..=64).contains(&signal) && set >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const USR1: u64 = 1 << (libc::SIGUSR1 - 1);

    fn state(threads: &[Thread]) -> SignalState {
        SignalState { threads: threads.to_vec(), ..SignalState::default() }
    }

    #[test]
    fn the_sets_are_read_by_their_names() {
        let status = "Name:\tx\nSigQ:\t0/96000\nSigPnd:\t0000000000000001\nShdPnd:\t0000000000000800\n\
                      SigBlk:\t0000000000000a00\nSigIgn:\t0000000000001000\nSigCgt:\t0000000000004002\n";
        let set = |name: &str| set_in(status, name).unwrap();
        assert!(has(set("SigBlk:"), libc::SIGUSR1) && has(set("SigBlk:"), libc::SIGUSR2));
        assert!(has(set("SigCgt:"), libc::SIGTERM) && !has(set("SigCgt:"), libc::SIGHUP));
        assert!(has(set("ShdPnd:"), libc::SIGUSR2) && !has(set("ShdPnd:"), libc::SIGUSR1));
        assert!([0, 65, -1].iter().all(|&signal| !has(u64::MAX, signal)));
        for text in ["", "SigBlk:\tx\n", " SigBlk:\t1\n"] {
            assert_eq!(set_in(text, "SigBlk:"), None, "{text}");
        }
    }

    #[test]
    fn a_signal_hurts_who_has_one_thread_open_to_it() {
        let blocks = Thread { blocked: USR1, ..Thread::default() };
        let serves = Thread { waits: true, serves: true, ..Thread::default() };
        let (open, waits) = (Thread::default(), Thread { waits: true, ..Thread::default() });
        let busy = Thread { waits: false, blocked: USR1, ..serves };
        let takes = |threads: &[Thread]| state(threads).takes(libc::SIGUSR1);
        assert!(takes(&[blocks, serves]) && takes(&[blocks, busy]) && takes(&[blocks, waits]));
        assert!(!takes(&[blocks, serves, open]), "the kernel may choose the open one");
        assert!(!takes(&[blocks]) && !takes(&[]), "no thread fetches it");
        let caught = SignalState { caught: USR1, ..state(&[open]) };
        assert!(caught.takes(libc::SIGUSR1) && !caught.takes(libc::SIGUSR2));

        let uses = |threads: &[Thread]| state(threads).uses(libc::SIGUSR1);
        assert!(uses(&[blocks, serves, waits]) && caught.uses(libc::SIGUSR1));
        assert!(!uses(&[blocks, serves, busy]), "what was put in is not its own");
        let by_descriptor = SignalState { in_descriptors: USR1, ..state(&[blocks]) };
        assert!(by_descriptor.takes(libc::SIGUSR1) && by_descriptor.uses(libc::SIGUSR1));
    }
}

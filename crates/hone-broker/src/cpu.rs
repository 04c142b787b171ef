//! CPU time of threads.

use std::time::Duration;

/// The CPU clock of one thread; it can be read from any thread of the process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThreadClock(libc::clockid_t);

impl ThreadClock {
    /// The clock of the calling thread; `None` where the system has none.
    pub(crate) fn of_this_thread() -> Option<Self> {
        let mut id: libc::clockid_t = 0;
        // SAFETY: `pthread_self` is the calling, hence living, thread, and `id` is ours to write.
        let failed = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut id) };
        (failed == 0).then_some(Self(id))
    }

    /// CPU time of the thread so far, user and system. Zero once it has ended.
    pub(crate) fn elapsed(self) -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is ours to write; a clock that no longer exists is an error code, not a fault.
        let failed = unsafe { libc::clock_gettime(self.0, &raw mut time) };
        if failed != 0 {
            return Duration::ZERO;
        }
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_moves_the_clock() {
        let clock = ThreadClock::of_this_thread().unwrap();
        let before = clock.elapsed();
        let mut sum = 0_u64;
        while clock.elapsed() == before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(clock.elapsed() > before);
    }
}

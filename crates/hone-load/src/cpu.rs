//! CPU time of the generator's threads.

use std::time::Duration;

use hone_record::CpuSeconds;

/// CPU used up to a moment. The clock has nanoseconds; user and system come from counters of 10 ms.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct CpuTime {
    total_s: f64,
    user_s: f64,
    system_s: f64,
}

impl CpuTime {
    /// Of the calling thread, since its start.
    pub(crate) fn of_this_thread() -> Self {
        let mut clock = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: both structures are valid for writing; the calls can't fail with these constants.
        let usage = unsafe {
            libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut clock);
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
            usage
        };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        Self {
            total_s: Duration::new(clock.tv_sec as u64, clock.tv_nsec as u32).as_secs_f64(),
            user_s: seconds(usage.ru_utime),
            system_s: seconds(usage.ru_stime),
        }
    }

    /// What was used from this moment to a later one. The user share is told from 0.1 s on.
    pub(crate) fn until(self, later: Self) -> CpuSeconds {
        let user_s = later.user_s - self.user_s;
        let both_s = user_s + later.system_s - self.system_s;
        let user_share = (both_s >= 0.1).then(|| user_s / both_s);
        CpuSeconds { total_s: later.total_s - self.total_s, user_share }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_burns_is_counted() {
        let before = CpuTime::of_this_thread();
        let mut sum = 0_u64;
        while before.until(CpuTime::of_this_thread()).total_s < 0.2 {
            // Long beside the look at the clock, which is a system call.
            for _ in 0..100_000 {
                sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
            }
        }
        let used = before.until(CpuTime::of_this_thread());
        assert!(used.user_share.unwrap() > 0.3, "{used:?} for arithmetic");
    }
}

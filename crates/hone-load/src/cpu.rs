//! CPU time of the generator's threads.

use std::time::Duration;

use hone_record::CpuSeconds;

/// CPU time used up to a moment. The clock has nanoseconds; user and system time come from counters of 10 ms.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct CpuTime {
    total_s: f64,
    user_s: f64,
    system_s: f64,
}

impl CpuTime {
    /// CPU of the calling thread, since its start.
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

    /// CPU of another thread of this process, since its start; `None` if it has ended.
    pub(crate) fn of_thread(thread_id: i32) -> Option<Self> {
        let mut clock = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // The kernel's name for the CPU clock of a thread: its id, inverted, above the bits for "thread" and "scheduler".
        let name = (!thread_id << 3) | 6;
        // SAFETY: the structure is valid for writing; a clock that does not exist is an error.
        if unsafe { libc::clock_gettime(name, &raw mut clock) } != 0 {
            return None;
        }
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread_id}/stat")).ok()?;
        let (user_s, system_s) = user_and_system_s(&stat)?;
        let total_s = Duration::new(clock.tv_sec as u64, clock.tv_nsec as u32).as_secs_f64();
        Some(Self { total_s, user_s, system_s })
    }

    /// CPU of a process, since its start.
    pub(crate) fn from(cpu: CpuSeconds) -> Self {
        let user_s = cpu.total_s * cpu.user_share.unwrap_or(0.0);
        Self { total_s: cpu.total_s, user_s, system_s: cpu.total_s - user_s }
    }

    /// The sum with another thread or process.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            total_s: self.total_s + other.total_s,
            user_s: self.user_s + other.user_s,
            system_s: self.system_s + other.system_s,
        }
    }

    /// CPU used from this moment to a later one. The user share is known from 0.1 s on. The result is never negative: a thread that ended
    /// in between is in the first value only.
    pub(crate) fn until(self, later: Self) -> CpuSeconds {
        let user_s = (later.user_s - self.user_s).max(0.0);
        let both_s = user_s + (later.system_s - self.system_s).max(0.0);
        let user_share = (both_s >= 0.1).then(|| user_s / both_s);
        CpuSeconds { total_s: (later.total_s - self.total_s).max(0.0), user_share }
    }
}

/// Threads of this process whose names begin with one of these.
#[cfg(feature = "librdkafka")]
pub(crate) fn threads_named(prefixes: &[&str]) -> Vec<i32> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
    let thread_id = |entry: std::fs::DirEntry| {
        let name = std::fs::read_to_string(entry.path().join("comm")).ok()?;
        let fits = prefixes.iter().any(|prefix| name.starts_with(prefix));
        fits.then(|| entry.file_name().to_str()?.parse().ok()).flatten()
    };
    tasks.flatten().filter_map(thread_id).collect()
}

/// Fields 14 and 15 of `/proc/PID/stat`, in ticks; the name before them may contain any character.
fn user_and_system_s(stat: &str) -> Option<(f64, f64)> {
    let mut fields = stat.rsplit(") ").next()?.split(' ').skip(11);
    let mut seconds = || Some(fields.next()?.parse::<f64>().ok()? / TICKS_PER_S);
    Some((seconds()?, seconds()?))
}

/// Every Linux has this number unless it was rebuilt with another one.
const TICKS_PER_S: f64 = 100.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_thread_is_counted_as_it_counts_itself() {
        let (send, receive) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let mut sum = 0_u64;
            while CpuTime::of_this_thread().total_s < 0.1 {
                for _ in 0..100_000 {
                    sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
                }
            }
            // SAFETY: no pointers are passed.
            send.send((unsafe { libc::gettid() }, CpuTime::of_this_thread())).unwrap();
            let _ = ended.recv();
        });
        let (thread_id, own) = receive.recv().unwrap();
        let seen = CpuTime::of_thread(thread_id).unwrap();
        assert!((seen.total_s / own.total_s - 1.0).abs() < 0.2, "{seen:?}, itself {own:?}");
        assert!((seen.and(own).total_s - seen.total_s - own.total_s).abs() < 1e-9);
        drop(end);
        thread.join().unwrap();
        assert_eq!(user_and_system_s("7 (a) b) S 1 7 7 0 -1 4194304 1 0 0 0 250 50 0"), Some((2.5, 0.5)));
    }

    #[test]
    fn what_has_gone_takes_nothing_back() {
        let before = CpuTime { total_s: 3.0, user_s: 2.0, system_s: 1.0 };
        let later = CpuTime { total_s: 1.0, user_s: 0.5, system_s: 0.5 };
        assert_eq!(before.until(later), CpuSeconds { total_s: 0.0, user_share: None });
    }

    #[test]
    fn what_a_thread_burns_is_counted() {
        let before = CpuTime::of_this_thread();
        let mut sum = 0_u64;
        while before.until(CpuTime::of_this_thread()).total_s < 0.2 {
            // Long compared with the reading of the clock, which is a system call.
            for _ in 0..100_000 {
                sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
            }
        }
        let used = before.until(CpuTime::of_this_thread());
        assert!(used.user_share.unwrap() > 0.3, "{used:?} for arithmetic");
    }
}

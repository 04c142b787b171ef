//! Kernel statistics for each thread of a running process: CPU, waits for a core, switches, page faults. A user needs no privileges for
//! their own processes.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::HostError;

/// The flag of the kernel's own threads (`PF_KTHREAD` of linux/sched.h).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The kind of a process, and whether it can be inspected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    /// A program, by its path.
    Program(PathBuf),
    /// A thread of the kernel's.
    Kernel,
    /// It has ended, and its parent has not waited for it yet.
    Zombie,
    /// This user may not inspect it.
    Foreign,
}

/// Inspects a process.
///
/// # Errors
/// Returns [`HostError::Vanished`] when it does not exist, and another error when `/proc` can't be read.
pub fn who(root: &Path, pid: u32) -> Result<Who, HostError> {
    let folder = root.join(format!("proc/{pid}"));
    let path = folder.join("stat");
    let text = fs::read(&path).map_err(|source| vanished(pid, &path, source))?;
    let text = String::from_utf8_lossy(&text);
    let columns: Vec<&str> =
        text.rsplit_once(')').map_or("", |(_, behind)| behind).split_whitespace().collect();
    // State, and flags, are fields 3 and 9 of the manual page.
    let flags: u64 = columns.get(6).and_then(|flags| flags.parse().ok()).unwrap_or(0);
    if flags & KERNEL_THREAD != 0 {
        return Ok(Who::Kernel);
    }
    if matches!(columns.first(), Some(&("Z" | "X"))) {
        return Ok(Who::Zombie);
    }
    let link = folder.join("exe");
    match fs::read_link(&link) {
        Ok(program) => Ok(Who::Program(program)),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(Who::Foreign),
        Err(error) => Err(vanished(pid, &link, error)),
    }
}

/// A thread at a moment; its counts begin with its start.
#[derive(Debug, Clone, Default, PartialEq)]
struct Now {
    name: String,
    started: u64,
    user_ticks: u64,
    system_ticks: u64,
    page_faults: u64,
    /// Time on a core and time waiting for one, in nanoseconds; only some kernels provide it.
    schedule_ns: Option<(u64, u64)>,
    switches: Option<(u64, u64)>,
}

/// All threads of a process at a moment.
#[derive(Debug, Clone)]
pub struct Threads {
    at: Instant,
    ticks_per_s: f64,
    threads: BTreeMap<u32, Now>,
    /// Number of calls that read or wrote data.
    calls: Option<u64>,
}

/// Activity of a thread between two moments.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ThreadUse {
    /// The kernel's id of the thread.
    pub tid: u32,
    /// Its name at the end.
    pub name: String,
    /// CPU time.
    pub cpu_s: f64,
    /// The part of it in the kernel, by ticks, mostly of 10 ms.
    pub system_s: f64,
    /// Time ready to run without a core, if the kernel provides it.
    pub queued_s: Option<f64>,
    /// Voluntary context switches: the thread waited for something.
    pub switches_voluntary: Option<u64>,
    /// Involuntary context switches: the thread lost its core.
    pub switches_involuntary: Option<u64>,
    /// Page faults.
    pub page_faults: u64,
}

/// Activity of a process between two moments.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Used {
    /// Time between the moments.
    pub window_s: f64,
    /// Threads that existed at the end.
    pub threads: Vec<ThreadUse>,
    /// Number of threads that ended meanwhile; their activity is unknown.
    pub ended: u64,
    /// Number of calls that read or wrote data, of all threads.
    pub reads_and_writes: Option<u64>,
}

/// Samples all threads of a process.
///
/// # Errors
/// Returns [`HostError::Vanished`] when it has ended, and another error when `/proc` can't be read.
pub fn sample(root: &Path, pid: u32) -> Result<Threads, HostError> {
    let folder = root.join(format!("proc/{pid}"));
    let tasks = folder.join("task");
    let at = Instant::now();
    let entries = fs::read_dir(&tasks).map_err(|source| vanished(pid, &tasks, source))?;
    let tids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    // Threads come and go, so one that is gone by now is skipped.
    let threads: BTreeMap<u32, Now> =
        tids.filter_map(|tid| Some((tid, now(&tasks.join(tid.to_string()))?))).collect();
    if threads.is_empty() {
        return Err(HostError::Vanished { pid });
    }
    let calls = fs::read_to_string(folder.join("io")).ok().and_then(|text| calls(&text));
    Ok(Threads { at, ticks_per_s: crate::cpu::ticks_per_s() as f64, threads, calls })
}

/// Each process with its name and its CPU time so far.
pub(crate) fn cpu_of_all() -> impl Iterator<Item = (u32, String, Duration)> {
    let ticks_per_s = crate::cpu::ticks_per_s().max(1) as f64;
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let now = of_stat(&String::from_utf8_lossy(&fs::read(entry.path().join("stat")).ok()?))?;
        let cpu_s = now.user_ticks.saturating_add(now.system_ticks) as f64 / ticks_per_s;
        Some((pid, now.name, Duration::try_from_secs_f64(cpu_s).ok()?))
    })
}

impl Threads {
    /// The names of the threads.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.threads.values().map(|thread| thread.name.as_str())
    }
}

/// Activity between two samples of the same process.
pub fn between(before: &Threads, after: &Threads) -> Used {
    let use_of = |(tid, now): (&u32, &Now)| {
        // A different thread with the same id has another start time.
        let then = before.threads.get(tid).filter(|then| then.started == now.started);
        used(*tid, then.unwrap_or(&Now::nothing()), now, after.ticks_per_s)
    };
    let is_gone =
        |(tid, then): &(&u32, &Now)| after.threads.get(tid).is_none_or(|now| now.started != then.started);
    Used {
        window_s: after.at.saturating_duration_since(before.at).as_secs_f64(),
        threads: after.threads.iter().map(use_of).collect(),
        ended: before.threads.iter().filter(is_gone).count() as u64,
        reads_and_writes: before.calls.zip(after.calls).map(|(before, after)| after.saturating_sub(before)),
    }
}

fn used(tid: u32, then: &Now, now: &Now, ticks_per_s: f64) -> ThreadUse {
    let pair = |now: Option<(u64, u64)>, then: Option<(u64, u64)>| {
        let ((now_one, now_other), (one, other)) = (now?, then?);
        Some((now_one.saturating_sub(one), now_other.saturating_sub(other)))
    };
    let schedule_ns = pair(now.schedule_ns, then.schedule_ns);
    let switches = pair(now.switches, then.switches);
    let ticks = |now: u64, then: u64| now.saturating_sub(then) as f64 / ticks_per_s.max(1.0);
    let system_s = ticks(now.system_ticks, then.system_ticks);
    let by_ticks_s = system_s + ticks(now.user_ticks, then.user_ticks);
    ThreadUse {
        tid,
        name: now.name.clone(),
        cpu_s: schedule_ns.map_or(by_ticks_s, |(run, _)| run as f64 / 1e9),
        system_s,
        queued_s: schedule_ns.map(|(_, queued)| queued as f64 / 1e9),
        switches_voluntary: switches.map(|(voluntary, _)| voluntary),
        switches_involuntary: switches.map(|(_, involuntary)| involuntary),
        page_faults: now.page_faults.saturating_sub(then.page_faults),
    }
}

impl Now {
    /// The counts of a thread that did not exist yet.
    fn nothing() -> Self {
        Self { schedule_ns: Some((0, 0)), switches: Some((0, 0)), ..Self::default() }
    }
}

fn now(folder: &Path) -> Option<Now> {
    let text = |name: &str| {
        fs::read(folder.join(name))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    };
    let mut now = of_stat(&text("stat"))?;
    now.schedule_ns = schedule(&text("schedstat"));
    now.switches = switches(&text("status"));
    Some(now)
}

/// See proc_pid_stat(5). The name may contain spaces and parentheses.
fn of_stat(stat: &str) -> Option<Now> {
    let (head, tail) = stat.rsplit_once(')')?;
    let columns: Vec<&str> = tail.split_whitespace().collect();
    // An ended thread stays until it is waited for, and is inactive.
    if matches!(columns.first(), Some(&("Z" | "X"))) {
        return None;
    }
    let field = |number: usize| columns.get(number.checked_sub(3)?)?.parse::<u64>().ok();
    Some(Now {
        name: head.split_once('(')?.1.to_owned(),
        started: field(22)?,
        user_ticks: field(14)?,
        system_ticks: field(15)?,
        page_faults: field(10)?.saturating_add(field(12)?),
        schedule_ns: None,
        switches: None,
    })
}

/// Time on a core, time waiting for one, and number of switches.
pub(crate) fn schedule(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_whitespace().map(str::parse);
    Some((words.next()?.ok()?, words.next()?.ok()?))
}

fn switches(status: &str) -> Option<(u64, u64)> {
    let value = |key: &str| status.lines().find_map(|line| line.strip_prefix(key))?.trim().parse().ok();
    Some((value("voluntary_ctxt_switches:")?, value("nonvoluntary_ctxt_switches:")?))
}

fn calls(io: &str) -> Option<u64> {
    let value = |key: &str| io.lines().find_map(|line| line.strip_prefix(key))?.trim().parse::<u64>().ok();
    Some(value("syscr:")?.saturating_add(value("syscw:")?))
}

fn vanished(pid: u32, path: &Path, source: io::Error) -> HostError {
    match (source.kind(), source.raw_os_error()) {
        (io::ErrorKind::NotFound, _) | (_, Some(libc::ESRCH)) => HostError::Vanished { pid },
        _ => HostError::Read { path: path.to_owned(), source },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STAT: &str = "7 (a ) b) R 1 1 1 0 -1 4194368 11 0 2 0 300 40 0 0 20 0 3 0 99 0 0";

    /// A process of one thread; its threads' files are those of its task.
    fn root(stat: &str, more: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let task = root.path().join("proc/7/task/7");
        fs::create_dir_all(&task).unwrap();
        fs::write(task.join("stat"), stat).unwrap();
        fs::write(root.path().join("proc/7/stat"), stat).unwrap();
        more.iter().for_each(|(name, text)| fs::write(task.join(name), text).unwrap());
        fs::write(root.path().join("proc/7/io"), "rchar: 1\nsyscr: 5\nsyscw: 6\n").unwrap();
        root
    }

    fn at(stat: &str, schedule: &str, status: &str) -> Threads {
        let root = root(stat, &[("schedstat", schedule), ("status", status)]);
        Threads { ticks_per_s: 100.0, ..sample(root.path(), 7).unwrap() }
    }

    #[test]
    fn a_window_is_the_difference_of_two_looks() {
        let status = |one: u64, other: u64| {
            format!("Name:\tx\nvoluntary_ctxt_switches:\t{one}\nnonvoluntary_ctxt_switches:\t{other}\n")
        };
        let before = at(STAT, "1000000000 500 3", &status(10, 1));
        let after = at(&STAT.replace(" 300 40 ", " 500 90 "), "3000000000 250000500 9", &status(30, 4));
        let used = between(&before, &after);
        let wanted = ThreadUse {
            tid: 7,
            name: "a ) b".to_owned(),
            cpu_s: 2.0,
            system_s: 0.5,
            queued_s: Some(0.25),
            switches_voluntary: Some(20),
            switches_involuntary: Some(3),
            page_faults: 0,
        };
        assert_eq!((used.threads, used.ended, used.reads_and_writes), (vec![wanted], 0, Some(0)));
    }

    #[test]
    fn a_kernel_that_keeps_no_schedule_has_ticks() {
        let used = between(&at(STAT, "", ""), &at(&STAT.replace(" 300 40 ", " 400 90 "), "", ""));
        let thread = &used.threads[0];
        assert_eq!((thread.cpu_s, thread.queued_s, thread.switches_voluntary), (1.5, None, None));
        // The same number, another thread.
        let other = between(&at(STAT, "", ""), &at(&STAT.replace(" 99 ", " 100 "), "1000000000 0 1", ""));
        assert_eq!((other.ended, other.threads[0].cpu_s), (1, 1.0));
    }

    #[test]
    fn whose_process_it_is() {
        let kernel = STAT.replace("4194368", "2129984");
        assert_eq!(who(root(&kernel, &[]).path(), 7).unwrap(), Who::Kernel);
        assert_eq!(who(root(&STAT.replace(" R ", " Z "), &[]).path(), 7).unwrap(), Who::Zombie);
        assert!(matches!(who(Path::new("/"), 1 << 23), Err(HostError::Vanished { .. })));
        assert!(matches!(sample(Path::new("/"), 1 << 23), Err(HostError::Vanished { .. })));
        let own = who(Path::new("/"), std::process::id()).unwrap();
        assert_eq!(own, Who::Program(std::env::current_exe().unwrap()));
    }

    #[test]
    fn this_very_process_is_seen_at_work() {
        // By this thread's own clock: on a busy machine it may wait for most of any other time.
        let own_cpu_s = || {
            let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: a valid place for the answer.
            unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
            time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
        };
        let before = sample(Path::new("/"), std::process::id()).unwrap();
        let until_s = own_cpu_s() + 0.05;
        while own_cpu_s() < until_s {}
        let used = between(&before, &sample(Path::new("/"), std::process::id()).unwrap());
        let all_s: f64 = used.threads.iter().map(|thread| thread.cpu_s).sum();
        assert!(used.window_s >= 0.05 && all_s > 0.02, "{used:?}");
    }

    proptest! {
        #[test]
        fn foreign_texts_do_no_harm(text in "[ ()a-z0-9:\n]*") {
            let _ = (of_stat(&text), schedule(&text), switches(&text), calls(&text));
        }
    }
}

//! When processes stood still: the limit of a control group stopped them, or a thread waited in a system call on a file, for a page of
//! memory, or for a core. Looks at `/proc` and at the groups' counters, many times a second.
//!
//! `/proc/PID/task/TID/syscall` names the call of a thread that waits, with its arguments (proc_pid_syscall(5)). It takes the right to trace
//! the process. Fast calls are missed between two looks; only what two looks find unchanged is a wait. A thread that writes and syncs in a
//! loop looks the same each time, so its counts of calls (proc_pid_io(5)) have to be unchanged, too.
//!
//! `/proc/PID/task/TID/schedstat` counts how long a thread was ready and had no core (sched-stats.rst). What it gained between two looks ended
//! with the second look, or up to one interval before.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::kernel_text;
use crate::threads;
use crate::throttle;

/// What a thread waited for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Waited {
    /// The end of a system call on a file.
    File {
        /// Name of the call.
        call: &'static str,
        /// Path of the file; `None` if it could not be read.
        path: Option<PathBuf>,
    },
    /// A page of memory.
    PageFault,
    /// A core.
    Core,
}

/// A wait of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// Name of the thread.
    pub thread: String,
    /// What it waited for.
    pub waited: Waited,
    /// First and last look that saw it.
    pub seen: [Instant; 2],
}

/// What was seen while the watch lasted.
#[derive(Debug, Clone, Default)]
pub struct Stalls {
    /// Waits of at least two looks.
    pub waits: Vec<Wait>,
    /// Times in which a group's limit stopped its processes.
    pub throttled: Vec<[Instant; 2]>,
    /// Whether control groups are visible.
    pub sees_groups: bool,
    /// Why the calls of threads could not be read.
    pub blind: Option<String>,
    /// Whether the kernel counts waits for a core.
    pub sees_cores: bool,
    /// Length of the watch.
    pub lasted: Duration,
    /// Other programs by their CPU time in it, the hungriest first. A program that ran for less than a tenth of a second may be missing.
    pub others: Vec<(String, Duration)>,
}

/// Interval of the looks at the groups and at threads that waited for a file before.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Every so many looks all threads are read: on 2 cores a hundred threads then cost about 2 % of one.
const ALL_EVERY: u32 = 8;
/// Every so many looks the threads and the other programs are listed again: on 2 cores three hundred processes then cost about 2 % of one.
const LIST_EVERY: u32 = 20;
/// Shorter waits for a core are the scheduler's everyday: a time slice has about 3 ms (sched-eevdf.rst).
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
/// Other programs that are told.
const MOST_OTHERS: usize = 3;
/// The kernel's default period of CPU limits (sched-bwc.rst). A group is never stopped for longer at a time, but its counters add up CPUs.
const PERIOD: Duration = Duration::from_millis(100);

/// System calls that can wait for a disk. The first argument is a file descriptor.
#[cfg(target_arch = "x86_64")]
const CALLS: [(u64, &str); 13] = [
    (0, "read"),
    (1, "write"),
    (17, "pread64"),
    (18, "pwrite64"),
    (19, "readv"),
    (20, "writev"),
    (74, "fsync"),
    (75, "fdatasync"),
    (77, "ftruncate"),
    (277, "sync_file_range"),
    (285, "fallocate"),
    (295, "preadv"),
    (296, "pwritev"),
];
#[cfg(not(target_arch = "x86_64"))]
const CALLS: [(u64, &str); 13] = [
    (63, "read"),
    (64, "write"),
    (67, "pread64"),
    (68, "pwrite64"),
    (65, "readv"),
    (66, "writev"),
    (82, "fsync"),
    (83, "fdatasync"),
    (46, "ftruncate"),
    (84, "sync_file_range"),
    (47, "fallocate"),
    (69, "preadv"),
    (70, "pwritev"),
];

/// Watches processes until `stop` is set.
pub fn watch(pids: &[u32], stop: &AtomicBool) -> Stalls {
    let mut watch = Watch::begin(pids);
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_EVERY);
        watch.look();
    }
    watch.end()
}

struct Watch {
    pids: Vec<u32>,
    groups: Vec<Group>,
    threads: BTreeMap<PathBuf, Thread>,
    looks: u32,
    begun: Instant,
    others: BTreeMap<u32, Other>,
    found: Stalls,
}

/// Another program: its name, and its CPU time at the first and at the last look.
struct Other {
    name: String,
    cpu: [Duration; 2],
}

struct Group {
    stat: PathBuf,
    last: (u64, f64),
}

#[derive(Default)]
struct Thread {
    /// The call as the kernel wrote it, and since when.
    open: Option<(String, Instant, Instant)>,
    /// It waited for a file before.
    is_hot: bool,
    /// The open file of its times on a core and waiting for one, and the last of them.
    schedule: Option<(File, (u64, u64))>,
    /// It was on a core between the last two looks.
    has_run: bool,
}

impl Watch {
    fn begin(pids: &[u32]) -> Self {
        let folders = throttle::group_folders(pids);
        let found = Stalls { sees_groups: folders.is_some(), ..Stalls::default() };
        let stats = folders.unwrap_or_default().into_iter().map(|folder| folder.join("cpu.stat"));
        let groups = stats.filter_map(|stat| counters(&stat).map(|last| Group { stat, last })).collect();
        let (threads, others) = (BTreeMap::new(), BTreeMap::new());
        Self { pids: pids.to_vec(), groups, threads, looks: 0, begun: Instant::now(), others, found }
    }

    fn look(&mut self) {
        let now = Instant::now();
        for group in &mut self.groups {
            let Some(counters) = counters(&group.stat) else { continue };
            let (periods, seconds) = (counters.0.saturating_sub(group.last.0), counters.1 - group.last.1);
            if seconds > 0.0 {
                let longest = PERIOD * u32::try_from(periods.max(1)).unwrap_or(1);
                let took = Duration::from_secs_f64(seconds).min(longest);
                self.found.throttled.push([now.checked_sub(took).unwrap_or(now), now]);
            }
            group.last = counters;
        }
        if self.looks.is_multiple_of(LIST_EVERY) {
            self.list();
        }
        let is_all = self.looks.is_multiple_of(ALL_EVERY);
        self.looks += 1;
        let found = &mut self.found;
        for (folder, thread) in &mut self.threads {
            if is_all || thread.has_run {
                thread.count(now, folder, found);
            }
            if is_all || thread.is_hot || thread.open.is_some() {
                thread.look(now, folder, found);
            }
        }
    }

    fn list(&mut self) {
        for pid in &self.pids {
            let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            for entry in entries {
                self.threads.entry(entry.path()).or_default();
            }
        }
        self.threads.retain(|folder, thread| thread.open.is_some() || folder.is_dir());
        // One that was not there at first has started since.
        let is_first = self.others.is_empty();
        for (pid, name, cpu) in threads::cpu_of_all().filter(|(pid, ..)| !self.pids.contains(pid)) {
            let before = if is_first { cpu } else { Duration::ZERO };
            let other =
                self.others.entry(pid).or_insert_with(|| Other { name: String::new(), cpu: [before, cpu] });
            // A shell's child has the name of its program only after it has begun.
            (other.name, other.cpu[1]) = (name, cpu);
        }
    }

    fn end(mut self) -> Stalls {
        self.list();
        let mut others: BTreeMap<String, Duration> = BTreeMap::new();
        for other in self.others.into_values() {
            *others.entry(other.name).or_default() += other.cpu[1].saturating_sub(other.cpu[0]);
        }
        self.found.lasted = self.begun.elapsed();
        self.found.others = others.into_iter().collect();
        self.found.others.sort_by_key(|(_, cpu)| std::cmp::Reverse(*cpu));
        self.found.others.truncate(MOST_OTHERS);
        for (folder, thread) in &mut self.threads {
            thread.close(folder, &mut self.found);
        }
        self.found
    }
}

impl Thread {
    /// What it waits for now.
    fn look(&mut self, now: Instant, folder: &Path, found: &mut Stalls) {
        match fs::read_to_string(folder.join("syscall")) {
            Ok(call) => {
                let call = call.trim_end();
                let calls = number_of(call).map(|_| calls_so_far(folder)).unwrap_or_default();
                self.now(&format!("{call} {calls}"), now, folder, found);
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                found.blind = Some(error.to_string());
            }
            // It has ended.
            Err(_) => self.close(folder, found),
        }
    }

    /// How long it has waited for a core since the last look.
    fn count(&mut self, now: Instant, folder: &Path, found: &mut Stalls) {
        let Some((file, last)) = &mut self.schedule else {
            let opened = File::open(folder.join("schedstat")).ok();
            self.schedule = opened.and_then(|file| schedule(&file).map(|first| (file, first)));
            found.sees_cores |= self.schedule.is_some();
            return;
        };
        let Some(current) = schedule(file) else { return };
        let waited = Duration::from_nanos(current.1.saturating_sub(last.1));
        self.has_run = current.0 != last.0;
        *last = current;
        if let Some(begin) = now.checked_sub(waited).filter(|_| waited >= SHORTEST_WAIT) {
            found.waits.push(Wait { thread: name_of(folder), waited: Waited::Core, seen: [begin, now] });
        }
    }

    fn now(&mut self, call: &str, now: Instant, folder: &Path, found: &mut Stalls) {
        match &mut self.open {
            Some((open, _, last)) if open == call => *last = now,
            _ => {
                self.close(folder, found);
                // Another call, or the same one again with other arguments or on another stack.
                if number_of(call).is_some() {
                    self.open = Some((call.to_owned(), now, now));
                }
            }
        }
    }

    /// Only a call that two looks saw is a wait.
    fn close(&mut self, folder: &Path, found: &mut Stalls) {
        let Some((call, first, last)) = self.open.take() else { return };
        if last <= first {
            return;
        }
        let Some(waited) = waited(&call, folder) else { return };
        self.is_hot = true;
        found.waits.push(Wait { thread: name_of(folder), waited, seen: [first, last] });
    }
}

fn name_of(folder: &Path) -> String {
    fs::read_to_string(folder.join("comm")).unwrap_or_default().trim_end().to_owned()
}

/// Time on a core and time waiting for one, in nanoseconds.
fn schedule(file: &File) -> Option<(u64, u64)> {
    let mut bytes = [0_u8; 80];
    let length = file.read_at(&mut bytes, 0).ok()?;
    threads::schedule(std::str::from_utf8(&bytes[..length]).ok()?)
}

/// Counts of calls that read or wrote and are over; empty if they can't be read.
fn calls_so_far(folder: &Path) -> String {
    let text = fs::read_to_string(folder.join("io")).unwrap_or_default();
    text.lines().filter(|line| line.starts_with("sysc")).collect::<Vec<_>>().join(" ")
}

/// The number of a call on a file, or -1 for a wait outside of any call. `None` for others, and for a thread that runs.
fn number_of(call: &str) -> Option<i64> {
    let number: i64 = call.split(' ').next()?.parse().ok()?;
    (number == -1 || CALLS.iter().any(|(known, _)| i64::try_from(*known) == Ok(number))).then_some(number)
}

/// What a call waits for. `None` for a socket, a pipe or a terminal.
fn waited(call: &str, folder: &Path) -> Option<Waited> {
    let number = number_of(call)?;
    if number == -1 {
        return Some(Waited::PageFault);
    }
    let (_, name) = CALLS.iter().find(|(known, _)| i64::try_from(*known) == Ok(number))?;
    let descriptor = u64::from_str_radix(call.split(' ').nth(1)?.trim_start_matches("0x"), 16).ok()?;
    let link = folder.join(format!("fd/{}", descriptor as u32));
    let path = fs::read_link(&link).ok();
    // Only files wait for a disk. A call that only files have needs no open file.
    let is_file = fs::metadata(&link).map(|facts| facts.is_file()).unwrap_or(name.contains("sync"));
    is_file.then_some(Waited::File { call: name, path })
}

/// Throttled periods, and the time in them, in seconds.
fn counters(stat: &Path) -> Option<(u64, f64)> {
    let found = kernel_text::throttling(&fs::read_to_string(stat).ok()?)?;
    Some((found.throttled_periods, found.throttled_s))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_calls_on_files_and_faults_are_waits() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("fd")).unwrap();
        let log = folder.path().join("0.log");
        fs::write(&log, "").unwrap();
        symlink(&log, folder.path().join("fd/7")).unwrap();
        symlink("socket:[123]", folder.path().join("fd/8")).unwrap();
        symlink("/dev/null", folder.path().join("fd/9")).unwrap();
        let sync = CALLS.iter().find(|(_, name)| *name == "fdatasync").unwrap().0;
        let write = CALLS.iter().find(|(_, name)| *name == "write").unwrap().0;
        let of = |call: &str| waited(call, folder.path());
        let file = |call, path: Option<&Path>| Some(Waited::File { call, path: path.map(Path::to_owned) });
        assert_eq!(of(&format!("{sync} 0x7 0x0 0x0 0x7ffd 0x7f1")), file("fdatasync", Some(&log)));
        assert_eq!(of(&format!("{write} 0x7 0x0")), file("write", Some(&log)));
        assert_eq!(of(&format!("{write} 0x8 0x0")), None);
        assert_eq!(of(&format!("{write} 0x9 0x0")), None);
        assert_eq!(of(&format!("{sync} 0x3 0x0")), file("fdatasync", None));
        assert_eq!(of(&format!("{write} 0x3 0x0")), None);
        assert_eq!(of("-1 0x7ffd 0x7f1"), Some(Waited::PageFault));
        for other in ["running", "202 0x7f", "", "-1x", "x 0x7"] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn a_wait_needs_two_looks_and_ends_with_the_call() {
        let folder = tempfile::tempdir().unwrap();
        let (mut thread, mut found) = (Thread::default(), Stalls::default());
        let begun = Instant::now();
        let sync = CALLS.iter().find(|(_, name)| *name == "fsync").unwrap().0;
        let calls =
            [(0, format!("{sync} 0x3 0x1")), (5, format!("{sync} 0x3 0x1")), (10, "running".to_owned())];
        for (at_ms, call) in calls {
            thread.now(&call, begun + Duration::from_millis(at_ms), folder.path(), &mut found);
        }
        assert_eq!(found.waits.len(), 1);
        assert_eq!(found.waits[0].seen, [begun, begun + Duration::from_millis(5)]);
        assert!(thread.is_hot);
        // Another call of the same kind is not the same wait.
        for (at_ms, stack) in [(20, "0x2"), (25, "0x4"), (30, "0x6")] {
            let call = format!("{sync} 0x3 {stack}");
            thread.now(&call, begun + Duration::from_millis(at_ms), folder.path(), &mut found);
        }
        thread.close(folder.path(), &mut found);
        assert_eq!(found.waits.len(), 1);
    }

    #[test]
    fn a_wait_for_a_core_is_what_the_kernel_counted_and_not_less_than_a_millisecond() {
        let folder = tempfile::tempdir().unwrap();
        let counts = folder.path().join("schedstat");
        let (mut thread, mut found) = (Thread::default(), Stalls::default());
        let begun = Instant::now();
        let looks = [
            (0, "5 7000000 1\n"),
            (40, "6 7900000 2\n"),
            (45, "7 20900000 3\n"),
            (50, "7 20900000 3\n"),
            (55, ""),
        ];
        for (at_ms, text) in looks {
            fs::write(&counts, text).unwrap();
            thread.count(begun + Duration::from_millis(at_ms), folder.path(), &mut found);
            assert_eq!(thread.has_run, at_ms == 40 || at_ms == 45, "{at_ms}");
        }
        assert!(found.sees_cores);
        let [wait] = &found.waits[..] else { panic!("{:?}", found.waits) };
        assert_eq!(wait.waited, Waited::Core);
        assert_eq!(wait.seen, [32, 45].map(|at_ms| begun + Duration::from_millis(at_ms)));
        let (mut gone, mut found) = (Thread::default(), Stalls::default());
        gone.count(begun, Path::new("/nowhere"), &mut found);
        assert!(!found.sees_cores && found.waits.is_empty());
    }

    #[test]
    fn the_own_process_can_be_watched_and_waits_for_no_file() {
        let (stop, pid) = (AtomicBool::new(false), std::process::id());
        let (reading, writing) = std::io::pipe().unwrap();
        let seen = std::thread::scope(|scope| {
            let watching = scope.spawn(|| watch(&[pid], &stop));
            // It waits in `read` all the time, but for a pipe.
            let waiting = scope.spawn(move || std::io::read_to_string(reading).unwrap());
            std::thread::sleep(Duration::from_millis(150));
            drop(writing);
            waiting.join().unwrap();
            stop.store(true, Ordering::Relaxed);
            watching.join().unwrap()
        });
        let is_pipe = |wait: &Wait| matches!(&wait.waited, Waited::File { call: "read", .. });
        assert!(!seen.waits.iter().any(is_pipe), "{:?}", seen.waits);
        assert!(seen.throttled.iter().all(|[begin, end]| begin <= end));
    }
}

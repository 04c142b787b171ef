//! CPU time around a measured window: of a process with all its descendants, and of the whole machine.
//!
//! The total comes from the process's CPU clock, which counts nanoseconds and includes ended threads. An ended child is in the tick-based
//! counters of the parent that waited for it. The user share comes from ticks only, since the kernel has no finer split.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use hone_record::CpuSeconds;

use crate::error::HostError;
use crate::kernel_text::{self, CpuTicks, ProcessStat};

/// CPU time of a process and its descendants at one moment. Two of them make a window; see [`between`].
#[derive(Debug, Clone, PartialEq)]
pub struct CpuSample {
    ticks_per_s: u64,
    processes: BTreeMap<ProcessKey, ProcessCpu>,
}

/// Process ids are reused, but an id together with its start time identifies one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ProcessKey {
    pid: u32,
    started: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct ProcessCpu {
    clock_ns: u64,
    user_ticks: u64,
    system_ticks: u64,
    reaped_user_ticks: u64,
    reaped_system_ticks: u64,
}

/// Below this the ticks are too few for a split (0.1 s are 10 ticks of the usual 10 ms: ±10 %).
const SHARE_NEEDS_S: f64 = 0.1;

/// Samples a process and all its descendants.
///
/// # Errors
/// Returns [`HostError::Vanished`] when there is no such process, and another error when `/proc` can't be read.
pub fn sample(pid: u32) -> Result<CpuSample, HostError> {
    sample_under(Path::new("/"), pid, process_clock_ns)
}

/// CPU seconds of a process and its descendants since each of them started.
///
/// # Errors
/// Returns the errors of [`sample`].
pub fn so_far(pid: u32) -> Result<f64, HostError> {
    let now = sample(pid)?;
    let start = CpuSample { ticks_per_s: now.ticks_per_s, processes: BTreeMap::new() };
    Ok(between(&start, &now).total_s)
}

/// A process and all its descendants, every parent before its children.
///
/// # Errors
/// Returns the errors of [`sample`].
pub fn tree(pid: u32) -> Result<Vec<u32>, HostError> {
    tree_of(Path::new("/"), pid)
}

/// CPU time that the tree used between two samples of the same process.
///
/// Processes that started in between count from their start. Processes that ended in between count if their parent belonged to the tree and
/// waited for them, as services do. A process that left the tree (a daemon that its starter did not wait for) does not count from then on.
pub fn between(before: &CpuSample, after: &CpuSample) -> CpuSeconds {
    let ticks_per_s = after.ticks_per_s.max(1) as f64;
    let own = own_deltas(before, after);
    let reaped = reaped_delta(before, after);
    let total_s = own.clock_ns as f64 / 1e9 + (reaped.user + reaped.system) as f64 / ticks_per_s;
    let user = own.user_ticks + reaped.user;
    let all = user + own.system_ticks + reaped.system;
    let user_share = (all as f64 >= SHARE_NEEDS_S * ticks_per_s).then(|| user as f64 / all as f64);
    CpuSeconds { total_s, user_share }
}

/// CPU of the processes that are alive at the end.
fn own_deltas(before: &CpuSample, after: &CpuSample) -> ProcessCpu {
    let mut sum = ProcessCpu::default();
    for (key, now) in &after.processes {
        let then = before.processes.get(key).copied().unwrap_or_default();
        sum.clock_ns += now.clock_ns.saturating_sub(then.clock_ns);
        sum.user_ticks += now.user_ticks.saturating_sub(then.user_ticks);
        sum.system_ticks += now.system_ticks.saturating_sub(then.system_ticks);
    }
    sum
}

#[derive(Debug, Clone, Copy, Default)]
struct Reaped {
    user: u64,
    system: u64,
}

/// CPU of ended processes in the window. Their parents' counters got the CPU time of their whole lives, and of the children that they had
/// waited for. CPU before the first sample does not belong to the window.
fn reaped_delta(before: &CpuSample, after: &CpuSample) -> Reaped {
    let mut reaped = Reaped::default();
    for (key, now) in &after.processes {
        let then = before.processes.get(key).copied().unwrap_or_default();
        reaped.user += now.reaped_user_ticks.saturating_sub(then.reaped_user_ticks);
        reaped.system += now.reaped_system_ticks.saturating_sub(then.reaped_system_ticks);
    }
    let gone = before.processes.iter().filter(|(key, _)| !after.processes.contains_key(key));
    for (_, then) in gone {
        reaped.user = reaped.user.saturating_sub(then.user_ticks + then.reaped_user_ticks);
        reaped.system = reaped.system.saturating_sub(then.system_ticks + then.reaped_system_ticks);
    }
    reaped
}

/// A child that ends during the reading would be missed. The tree is then read again, at most this often.
const ATTEMPTS: u32 = 5;

fn sample_under(
    root: &Path,
    pid: u32,
    clock: impl Fn(u32) -> Result<u64, HostError>,
) -> Result<CpuSample, HostError> {
    let mut attempt = 1;
    loop {
        let tree = tree_of(root, pid)?;
        let (processes, complete) = read_tree(root, pid, &tree, &clock)?;
        if complete || attempt == ATTEMPTS {
            return Ok(CpuSample { ticks_per_s: ticks_per_s(), processes });
        }
        attempt += 1;
    }
}

/// Reads the processes of a tree; `false` if one of them ended meanwhile.
///
/// A parent is read before its children. So a child that could still be read was not yet in its parent's counters, and does not count
/// twice.
fn read_tree(
    root: &Path,
    pid: u32,
    tree: &[u32],
    clock: impl Fn(u32) -> Result<u64, HostError>,
) -> Result<(BTreeMap<ProcessKey, ProcessCpu>, bool), HostError> {
    let mut processes = BTreeMap::new();
    let mut complete = true;
    for &member in tree {
        match read_process(root, member, &clock) {
            Ok((key, cpu)) => {
                processes.insert(key, cpu);
            }
            Err(HostError::Vanished { .. }) if member != pid => complete = false,
            Err(error) => return Err(error),
        }
    }
    Ok((processes, complete))
}

fn read_process(
    root: &Path,
    pid: u32,
    clock: impl Fn(u32) -> Result<u64, HostError>,
) -> Result<(ProcessKey, ProcessCpu), HostError> {
    let stat = read_stat(root, pid)?;
    let cpu = ProcessCpu {
        clock_ns: clock(pid)?,
        user_ticks: stat.user,
        system_ticks: stat.system,
        reaped_user_ticks: stat.reaped_user,
        reaped_system_ticks: stat.reaped_system,
    };
    Ok((ProcessKey { pid, started: stat.started }, cpu))
}

fn read_stat(root: &Path, pid: u32) -> Result<ProcessStat, HostError> {
    let path = root.join(format!("proc/{pid}/stat"));
    let bytes = fs::read(&path).map_err(|source| match (source.kind(), source.raw_os_error()) {
        (io::ErrorKind::NotFound, _) | (_, Some(libc::ESRCH)) => HostError::Vanished { pid },
        _ => HostError::Read { path: path.clone(), source },
    })?;
    kernel_text::process_stat(&String::from_utf8_lossy(&bytes))
        .ok_or(HostError::Form { path, expected: "`PID (name) state parent ...` of at least 22 columns" })
}

/// The process and all its descendants, every parent before its children.
pub(crate) fn tree_of(root: &Path, pid: u32) -> Result<Vec<u32>, HostError> {
    read_stat(root, pid)?;
    let folder = root.join("proc");
    let entries = fs::read_dir(&folder).map_err(|source| HostError::Read { path: folder, source })?;
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    // Other processes come and go and may be hidden; only those of the tree must be readable.
    let parents: Vec<(u32, u32)> =
        pids.filter_map(|pid| Some((pid, read_stat(root, pid).ok()?.parent))).collect();
    Ok(descendants(pid, &parents))
}

/// Breadth first from `root`; `parents` holds (pid, parent) of every process. The code is pure.
fn descendants(root: u32, parents: &[(u32, u32)]) -> Vec<u32> {
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(&parent) = tree.get(next) {
        let children = parents.iter().filter(|(pid, of)| *of == parent && *pid != root).map(|(pid, _)| *pid);
        let new: Vec<u32> = children.filter(|pid| !tree.contains(pid)).collect();
        tree.extend(new);
        next += 1;
    }
    tree
}

/// The process's CPU clock: user and system time of all its threads, including ended ones.
fn process_clock_ns(pid: u32) -> Result<u64, HostError> {
    let failed = |errno| match errno {
        libc::ESRCH | libc::EINVAL => HostError::Vanished { pid },
        other => HostError::Clock { pid, source: io::Error::from_raw_os_error(other) },
    };
    let number = libc::pid_t::try_from(pid).map_err(|_| HostError::Vanished { pid })?;
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the call only writes the clock's number to the given place.
    let answer = unsafe { libc::clock_getcpuclockid(number, &raw mut clock) };
    if answer != 0 {
        return Err(failed(answer));
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call only writes a time to the given place.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(failed(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)));
    }
    let (seconds, nanoseconds) = (time.tv_sec.max(0).unsigned_abs(), time.tv_nsec.max(0).unsigned_abs());
    Ok(seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds))
}

/// Clock ticks per second of the counters in `/proc`, 100 on every common system.
pub(crate) fn ticks_per_s() -> u64 {
    // SAFETY: the call has no side effects.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).ok().filter(|ticks| *ticks > 0).unwrap_or(100)
}

/// CPU time of the whole machine at one moment. Two of them make a window; see [`system_between`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SystemSample {
    ticks_per_s: u64,
    ticks: CpuTicks,
}

/// CPU time of all cores in a window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SystemUse {
    /// CPU used by all processes, in core seconds.
    pub busy_s: f64,
    /// CPU that the hypervisor took while a task here wanted to run, as a share of `total_s`, 0 to 1.
    pub steal_share: f64,
    /// Number of cores times the length of the window, in core seconds.
    pub total_s: f64,
}

/// Samples the CPU time of all cores.
///
/// # Errors
/// Returns an error when `/proc/stat` can't be read.
pub fn system() -> Result<SystemSample, HostError> {
    system_under(Path::new("/"))
}

fn system_under(root: &Path) -> Result<SystemSample, HostError> {
    let path = root.join("proc/stat");
    let text = fs::read_to_string(&path).map_err(|source| HostError::Read { path: path.clone(), source })?;
    let ticks = kernel_text::cpu_ticks(&text)
        .ok_or(HostError::Form { path, expected: "a line `cpu` with at least four counters" })?;
    Ok(SystemSample { ticks_per_s: ticks_per_s(), ticks })
}

/// CPU time of all cores between two samples. A counter that went backwards, as idle time does when a core goes offline, counts as
/// unchanged.
pub fn system_between(before: &SystemSample, after: &SystemSample) -> SystemUse {
    let delta = CpuTicks {
        busy: after.ticks.busy.saturating_sub(before.ticks.busy),
        idle: after.ticks.idle.saturating_sub(before.ticks.idle),
        steal: after.ticks.steal.saturating_sub(before.ticks.steal),
    };
    let ticks_per_s = after.ticks_per_s.max(1) as f64;
    let total = delta.total();
    let steal_share = if total == 0 { 0.0 } else { delta.steal as f64 / total as f64 };
    SystemUse { busy_s: delta.busy as f64 / ticks_per_s, steal_share, total_s: total as f64 / ticks_per_s }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a recorded `/proc` with one process for each (pid, parent, user, system, reaped user, reaped system).
    fn proc_of(root: &Path, processes: &[(u32, u32, u64, u64, u64, u64)]) {
        let _ = fs::remove_dir_all(root.join("proc"));
        for (pid, parent, user, system, reaped_user, reaped_system) in processes {
            let folder = root.join(format!("proc/{pid}"));
            fs::create_dir_all(&folder).unwrap();
            let stat = format!(
                "{pid} (a ) b) S {parent} 1 1 0 -1 0 0 0 0 0 {user} {system} {reaped_user} {reaped_system} \
                 20 0 1 0 {pid}00 0 0\n"
            );
            fs::write(folder.join("stat"), stat).unwrap();
        }
    }

    /// Ten milliseconds a tick, as the clock of a machine with 100 ticks per second would say.
    fn clock_of(processes: &[(u32, u32, u64, u64, u64, u64)]) -> impl Fn(u32) -> Result<u64, HostError> {
        move |pid| {
            let found = processes.iter().find(|process| process.0 == pid);
            found.map(|process| (process.2 + process.3) * 10_000_000).ok_or(HostError::Vanished { pid })
        }
    }

    fn sampled(processes: &[(u32, u32, u64, u64, u64, u64)]) -> CpuSample {
        let root = tempfile::tempdir().unwrap();
        proc_of(root.path(), processes);
        let sample = sample_under(root.path(), 10, clock_of(processes)).unwrap();
        CpuSample { ticks_per_s: 100, ..sample }
    }

    #[track_caller]
    fn check(used: CpuSeconds, total_s: f64, user_share: Option<f64>) {
        assert!((used.total_s - total_s).abs() < 1e-9, "{used:?}");
        match (used.user_share, user_share) {
            (Some(found), Some(expected)) => assert!((found - expected).abs() < 1e-9, "{used:?}"),
            (found, expected) => assert_eq!(found, expected),
        }
    }

    #[test]
    fn a_tree_is_the_process_and_its_descendants_and_nobody_else() {
        let parents = [(1, 0), (10, 1), (11, 10), (12, 11), (13, 1), (14, 12), (5, 14)];
        assert_eq!(descendants(10, &parents), [10, 11, 12, 14, 5]);
        assert_eq!(descendants(13, &parents), [13]);
        // A torn reading of /proc can hold a circle.
        assert_eq!(descendants(1, &[(1, 2), (2, 1), (3, 3)]), [1, 2]);
    }

    #[test]
    fn living_children_count_and_strangers_do_not() {
        let before = sampled(&[(10, 1, 100, 50, 0, 0), (11, 10, 10, 10, 0, 0), (99, 1, 1000, 1000, 0, 0)]);
        let after = sampled(&[(10, 1, 160, 60, 0, 0), (11, 10, 20, 30, 0, 0), (99, 1, 5000, 5000, 0, 0)]);
        check(between(&before, &after), 1.0, Some(0.7));
    }

    #[test]
    fn a_child_that_was_born_and_reaped_in_the_window_counts() {
        let before = sampled(&[(10, 1, 100, 50, 7, 3)]);
        let after = sampled(&[(10, 1, 100, 50, 47, 13)]);
        check(between(&before, &after), 0.5, Some(0.8));
    }

    #[test]
    fn what_a_reaped_child_had_used_before_the_window_does_not_count() {
        let before = sampled(&[(10, 1, 0, 0, 0, 0), (11, 10, 300, 100, 0, 0), (12, 11, 50, 0, 0, 0)]);
        // 12 used 10 more and was reaped by 11, which used 20 more and was reaped by 10.
        let after = sampled(&[(10, 1, 0, 0, 380, 100)]);
        check(between(&before, &after), 0.3, Some(1.0));
    }

    #[test]
    fn what_a_reaped_child_had_itself_reaped_before_the_window_does_not_count() {
        let before = sampled(&[(10, 1, 0, 0, 0, 0), (11, 10, 100, 0, 50, 30)]);
        // 11 used 20 more and was reaped by 10.
        let after = sampled(&[(10, 1, 0, 0, 170, 30)]);
        check(between(&before, &after), 0.2, Some(1.0));
    }

    #[test]
    fn a_child_that_left_the_tree_takes_nothing_away_from_the_others() {
        let before = sampled(&[(10, 1, 0, 0, 0, 0), (11, 10, 300, 100, 0, 0)]);
        let after = sampled(&[(10, 1, 40, 0, 0, 0)]);
        check(between(&before, &after), 0.4, Some(1.0));
    }

    #[test]
    fn the_user_share_needs_a_tenth_of_a_second() {
        let before = sampled(&[(10, 1, 0, 0, 0, 0)]);
        check(between(&before, &sampled(&[(10, 1, 9, 0, 0, 0)])), 0.09, None);
        check(between(&before, &sampled(&[(10, 1, 9, 1, 0, 0)])), 0.1, Some(0.9));
        check(between(&before, &before), 0.0, None);
    }

    #[test]
    fn a_missing_process_is_told_by_kind() {
        let root = tempfile::tempdir().unwrap();
        proc_of(root.path(), &[(1, 0, 0, 0, 0, 0)]);
        let error = sample_under(root.path(), 10, |_| Ok(0)).unwrap_err();
        assert!(matches!(error, HostError::Vanished { pid: 10 }), "{error}");
        assert!(matches!(sample(u32::MAX), Err(HostError::Vanished { .. })));
        assert!(matches!(process_clock_ns(u32::MAX), Err(HostError::Vanished { .. })));
        // Largest pid that Linux ever gives out is 2^22.
        assert!(matches!(process_clock_ns(1 << 23), Err(HostError::Vanished { .. })));
    }

    #[test]
    fn an_odd_stat_file_is_told_with_its_path() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/10")).unwrap();
        fs::write(root.path().join("proc/10/stat"), "10 (x").unwrap();
        let error = sample_under(root.path(), 10, |_| Ok(0)).unwrap_err();
        assert!(matches!(error, HostError::Form { .. }), "{error}");
        assert!(error.to_string().contains("proc/10/stat"), "{error}");
    }

    /// The first reading of the tree loses a child half-way; the second one is whole.
    #[test]
    fn a_tree_that_changes_while_it_is_read_is_read_again() {
        let root = tempfile::tempdir().unwrap();
        proc_of(root.path(), &[(10, 1, 5, 0, 0, 0), (11, 10, 40, 0, 0, 0)]);
        let asked = std::cell::Cell::new(0);
        let clock = |pid| {
            asked.set(asked.get() + 1);
            if pid == 11 {
                proc_of(root.path(), &[(10, 1, 5, 0, 40, 0)]);
                return Err(HostError::Vanished { pid });
            }
            Ok(50_000_000)
        };
        let sample = sample_under(root.path(), 10, clock).unwrap();
        assert_eq!(asked.get(), 3);
        let expected = ProcessCpu {
            clock_ns: 50_000_000,
            user_ticks: 5,
            reaped_user_ticks: 40,
            ..ProcessCpu::default()
        };
        assert_eq!(sample.processes.values().collect::<Vec<_>>(), [&expected]);
    }

    #[test]
    fn the_machine_in_a_window() {
        let at = |busy, idle, steal| SystemSample { ticks_per_s: 100, ticks: CpuTicks { busy, idle, steal } };
        let used = system_between(&at(100, 1000, 10), &at(250, 1040, 20));
        assert_eq!(used, SystemUse { busy_s: 1.5, steal_share: 0.05, total_s: 2.0 });
        let nothing = SystemUse::default();
        assert_eq!(system_between(&at(1, 1, 1), &at(1, 1, 1)), nothing);
        assert_eq!(system_between(&at(9, 9, 9), &at(1, 1, 1)), nothing);
    }

    #[test]
    fn the_running_machine_can_be_sampled() {
        let before = system().unwrap();
        let after = system().unwrap();
        let used = system_between(&before, &after);
        assert!(used.busy_s <= used.total_s && (0.0..=1.0).contains(&used.steal_share), "{used:?}");
        let missing = tempfile::tempdir().unwrap();
        assert!(matches!(system_under(missing.path()), Err(HostError::Read { .. })));
    }
}

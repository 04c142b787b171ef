//! Delays of a broker on this host before any change: waits for a core, a disk, memory and the hypervisor, late timers, and the cost of a
//! small write with fsync. All come from the kernel's own counters, without packages.

use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::kernel::Kernel;
use crate::pressure;
use crate::relevance::counter;

/// Counters at a moment.
#[derive(Debug, Clone)]
pub struct Sample {
    at: Instant,
    vmstat: String,
    stat: String,
    interrupts: String,
    diskstats: String,
    pressure: pressure::Pressure,
    queued_ns: Vec<(u32, u64)>,
}

/// Activity between two samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Length of the window, in seconds.
    pub window_s: f64,
    /// Share of it in which some task waited for this resource.
    pub pressure: std::collections::BTreeMap<String, f64>,
    /// Time that the broker's threads waited for a core, in seconds, summed.
    pub run_queue_s: Option<f64>,
    /// Share of CPU time that the hypervisor gave to other guests.
    pub steal: Option<f64>,
    /// Memory events: name and count.
    pub memory: Vec<(String, u64)>,
    /// Interrupts per second, and the share of the core with the most of them.
    pub interrupts_per_s: Option<f64>,
    /// See `interrupts_per_s`.
    pub interrupts_busiest_core: Option<f64>,
    /// Activity of the disks.
    pub disks: Vec<DiskTimes>,
}

/// Mean times of a disk's requests; the kernel keeps no distribution.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct DiskTimes {
    /// Name of the disk.
    pub name: String,
    /// Finished reads.
    pub reads: u64,
    /// Mean time from queueing to completion, in milliseconds.
    pub read_ms_mean: Option<f64>,
    /// Finished writes.
    pub writes: u64,
    /// Mean time, in milliseconds.
    pub write_ms_mean: Option<f64>,
    /// Flushes of the disk's own cache.
    pub flushes: Option<u64>,
    /// Mean time, in milliseconds.
    pub flush_ms_mean: Option<f64>,
}

/// Events that stall tasks in need of memory.
const MEMORY_EVENTS: [&str; 8] = [
    "compact_stall",
    "allocstall_normal",
    "allocstall_movable",
    "thp_fault_fallback",
    "pgscan_direct",
    "pswpin",
    "pswpout",
    "balance_dirty_pages",
];

/// The counters now. `pids` are the broker's processes.
pub fn sample(kernel: &dyn Kernel, root: &Path, pids: &[u32]) -> Sample {
    let read = |path: &str| kernel.read(path).unwrap_or_default();
    Sample {
        at: Instant::now(),
        vmstat: read("proc/vmstat"),
        stat: read("proc/stat"),
        interrupts: read("proc/interrupts"),
        diskstats: read("proc/diskstats"),
        pressure: pressure::sample(root),
        queued_ns: pids.iter().filter_map(|pid| Some((*pid, queued_ns(kernel, *pid)?))).collect(),
    }
}

/// Second field of schedstat: time on a run queue, in nanoseconds.
pub(crate) fn queued_ns(kernel: &dyn Kernel, pid: u32) -> Option<u64> {
    let tasks = kernel.list(&format!("proc/{pid}/task"));
    let queued = |task: &String| {
        let text = kernel.read(&format!("proc/{pid}/task/{task}/schedstat")).ok()?;
        text.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    let all: Vec<u64> = tasks.iter().filter_map(queued).collect();
    (!all.is_empty()).then(|| all.iter().fold(0_u64, |sum, ns| sum.saturating_add(*ns)))
}

/// Activity between two samples, on these disks.
pub fn between(before: &Sample, after: &Sample, disks: &[String]) -> Latency {
    let window_s = after.at.saturating_duration_since(before.at).as_secs_f64();
    let memory = |name: &&str| {
        let events = counter(&after.vmstat, name)?.saturating_sub(counter(&before.vmstat, name)?);
        Some(((*name).to_owned(), events))
    };
    let (rate, busiest) = interrupts(&before.interrupts, &after.interrupts, window_s);
    Latency {
        window_s,
        pressure: pressure::between(&before.pressure, &after.pressure),
        run_queue_s: run_queue_s(before, after),
        steal: steal(&before.stat, &after.stat),
        memory: MEMORY_EVENTS.iter().filter_map(memory).collect(),
        interrupts_per_s: rate,
        interrupts_busiest_core: busiest,
        disks: disks
            .iter()
            .filter_map(|disk| disk_times(&before.diskstats, &after.diskstats, disk))
            .collect(),
    }
}

fn run_queue_s(before: &Sample, after: &Sample) -> Option<f64> {
    let grown = |(pid, ns): &(u32, u64)| {
        let (_, earlier) = before.queued_ns.iter().find(|(other, _)| other == pid)?;
        Some(ns.saturating_sub(*earlier) as f64 / 1e9)
    };
    let all: Vec<f64> = after.queued_ns.iter().filter_map(grown).collect();
    (!all.is_empty()).then(|| all.iter().sum())
}

fn steal(before: &str, after: &str) -> Option<f64> {
    let (before, after) = (crate::kernel_text::cpu_ticks(before)?, crate::kernel_text::cpu_ticks(after)?);
    let total = after.total().saturating_sub(before.total());
    (total > 0).then(|| after.steal.saturating_sub(before.steal) as f64 / total as f64)
}

/// Interrupts of each core.
pub(crate) fn interrupts_by_core(text: &str) -> Vec<u64> {
    let mut lines = text.lines();
    let cores = lines.next().unwrap_or_default().split_whitespace().count();
    let mut sums = vec![0_u64; cores];
    for line in lines {
        let counts = line.split_whitespace().skip(1).map_while(|word| word.parse::<u64>().ok());
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum = sum.saturating_add(count);
        }
    }
    sums
}

fn interrupts(before: &str, after: &str, window_s: f64) -> (Option<f64>, Option<f64>) {
    let (before, after) = (interrupts_by_core(before), interrupts_by_core(after));
    if after.is_empty() || before.len() != after.len() || window_s <= 0.0 {
        return (None, None);
    }
    let grown: Vec<u64> = before.iter().zip(&after).map(|(b, a)| a.saturating_sub(*b)).collect();
    let total = grown.iter().fold(0_u64, |sum, n| sum.saturating_add(*n));
    let most = grown.iter().max().copied().unwrap_or(0);
    (Some(total as f64 / window_s), (total > 0).then(|| most as f64 / total as f64))
}

/// Columns after the name; see Documentation/admin-guide/iostats.rst.
pub(crate) fn columns(diskstats: &str, disk: &str) -> Option<Vec<u64>> {
    diskstats.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(2);
        (words.next()? == disk).then(|| words.map_while(|word| word.parse().ok()).collect())
    })
}

fn disk_times(before: &str, after: &str, disk: &str) -> Option<DiskTimes> {
    let (before, after) = (columns(before, disk)?, columns(after, disk)?);
    let grown = |column: usize| Some(after.get(column)?.saturating_sub(*before.get(column)?));
    let mean = |count: usize, ms: usize| {
        let count = grown(count).filter(|count| *count > 0)?;
        Some(grown(ms)? as f64 / count as f64)
    };
    Some(DiskTimes {
        name: disk.to_owned(),
        reads: grown(0)?,
        read_ms_mean: mean(0, 3),
        writes: grown(4)?,
        write_ms_mean: mean(4, 7),
        flushes: grown(15),
        flush_ms_mean: mean(15, 16),
    })
}

/// Times of a repeated operation, in microseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Times {
    /// Number of repetitions.
    pub count: usize,
    /// Median.
    pub us_p50: u64,
    /// 99th percentile; the maximum with fewer than 100 repetitions.
    pub us_p99: u64,
    /// Maximum.
    pub us_max: u64,
}

pub(crate) fn times(mut all_us: Vec<u64>) -> Option<Times> {
    all_us.sort_unstable();
    let at = |share: f64| {
        let rank = (all_us.len() as f64 * share).ceil() as usize;
        all_us.get(rank.saturating_sub(1)).copied()
    };
    Some(Times { count: all_us.len(), us_p50: at(0.5)?, us_p99: at(0.99)?, us_max: *all_us.last()? })
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Delay of timers of a millisecond, over some time or until `stop` returns true. A broker's wake-ups have the same delay.
pub fn timer_delays(over: Duration, stop: &dyn Fn() -> bool) -> Option<Times> {
    const PERIOD: Duration = Duration::from_millis(1);
    let began = Instant::now();
    let mut late_us = Vec::new();
    while began.elapsed() < over && !stop() {
        let asked = Instant::now();
        std::thread::sleep(PERIOD);
        late_us.push(micros(asked.elapsed().saturating_sub(PERIOD)));
    }
    times(late_us)
}

/// Cost of writing 4 KiB with fdatasync in a folder, this many times, with pauses so that a broker there is not delayed. The file has a
/// name only for a moment, so no file remains if this process ends.
///
/// # Errors
/// Returns an error when the folder can't be written.
pub fn fsync_probe(folder: &Path, writes: usize) -> io::Result<Option<Times>> {
    const PAUSE: Duration = Duration::from_millis(10);
    let mut file = tempfile::tempfile_in(folder)?;
    let block = vec![0x5a_u8; 4096];
    let mut all_us = Vec::with_capacity(writes);
    for _ in 0..writes {
        file.seek(SeekFrom::Start(0))?;
        let began = Instant::now();
        file.write_all(&block)?;
        file.sync_data()?;
        all_us.push(micros(began.elapsed()));
        std::thread::sleep(PAUSE);
    }
    Ok(times(all_us))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn disks_by_their_columns() {
        let before = " 254 0 vda 10 0 80 5 20 0 160 40 0 0 0 0 0 0 0 4 8\n";
        let after = " 254 0 vda 14 0 80 25 30 0 160 90 0 0 0 0 0 0 0 6 18\n";
        let times = disk_times(before, after, "vda").unwrap();
        assert_eq!((times.reads, times.read_ms_mean), (4, Some(5.0)));
        assert_eq!((times.writes, times.write_ms_mean), (10, Some(5.0)));
        assert_eq!((times.flushes, times.flush_ms_mean), (Some(2), Some(5.0)));
        assert_eq!(disk_times(before, after, "sda"), None);
    }

    #[test]
    fn interrupts_and_the_busiest_core() {
        let text = |a: u64, b: u64| format!("     CPU0 CPU1\n 1: {a} {b} chip edge\nNMI: 5 5 text\n");
        let (rate, busiest) = interrupts(&text(0, 0), &text(30, 10), 2.0);
        assert_eq!((rate, busiest), (Some(20.0), Some(0.75)));
        assert_eq!(interrupts("", "", 1.0), (None, None));
    }

    #[test]
    fn quantiles_of_known_numbers() {
        let found = times((1..=200).collect()).unwrap();
        assert_eq!((found.us_p50, found.us_p99, found.us_max), (100, 198, 200));
        assert_eq!(times(Vec::new()), None);
    }

    #[test]
    fn the_probe_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let found = fsync_probe(folder.path(), 3).unwrap().unwrap();
        assert_eq!(found.count, 3);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(fsync_probe(&folder.path().join("missing"), 1).is_err());
    }

    /// A name would be left behind when it is killed.
    #[test]
    fn the_probe_has_no_name_while_it_writes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let probe = std::thread::spawn(move || fsync_probe(&path, 30));
        let mut most = 0;
        while !probe.is_finished() {
            most = most.max(std::fs::read_dir(folder.path()).unwrap().count());
        }
        probe.join().unwrap().unwrap();
        assert_eq!(most, 0);
    }

    #[test]
    fn steal_is_a_share_of_all_ticks() {
        assert_eq!(steal("cpu 0 0 0 0 0 0 0 0\n", "cpu 50 0 0 25 0 0 0 25\n"), Some(0.25));
    }

    proptest! {
        #[test]
        fn foreign_texts_do_no_harm(a in "\\PC*", b in "\\PC*") {
            let _ = (interrupts(&a, &b, 1.0), disk_times(&a, &b, "vda"), steal(&a, &b));
        }
    }
}

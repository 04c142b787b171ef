//! Effects of a load on the disk and the page cache, observed before any change: the knobs that the load can't affect.

use serde::{Deserialize, Serialize};

use crate::disks::Disk;
use crate::kernel::Kernel;
use crate::latency::columns;
use crate::relevance::counter;

/// Observations during a load. They are samples: the true maximum between them may be higher.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnderLoad {
    /// Number of samples.
    pub looks: u64,
    /// Reads that the disks finished; `None` if a disk is invisible.
    pub reads: Option<u64>,
    /// Largest number of requests of a disk at a sample.
    pub in_flight_max: Option<u64>,
    /// Largest number of pages that were dirty or in writeback.
    pub dirty_pages_max: Option<u64>,
    /// Numbers of dirty pages from which the kernel writes in the background, and from which writers wait; the minimum of the samples.
    pub dirty_limits: Option<(u64, u64)>,
    /// Waits for memory compaction, and failed requests for huge pages.
    pub compaction: Option<(u64, u64)>,
}

/// Takes samples repeatedly.
#[expect(missing_debug_implementations, reason = "a kernel has none")]
pub struct Watcher<'a> {
    kernel: &'a dyn Kernel,
    disks: Vec<&'a str>,
    seen: UnderLoad,
    first: Option<Counters>,
}

#[derive(Debug, Clone, Copy)]
struct Counters {
    reads: Option<u64>,
    compaction: Option<(u64, u64)>,
}

/// Columns of `/proc/diskstats` after the name (Documentation/admin-guide/iostats.rst).
const READS: usize = 0;
const IN_FLIGHT: usize = 8;

impl<'a> Watcher<'a> {
    /// For these disks.
    pub fn new(kernel: &'a dyn Kernel, disks: &'a [Disk]) -> Self {
        let disks = disks.iter().map(|disk| disk.name.as_str()).collect();
        Self { kernel, disks, seen: UnderLoad::default(), first: None }
    }

    /// One sample.
    pub fn look(&mut self) {
        let (vmstat, diskstats) = (
            self.kernel.read("proc/vmstat").unwrap_or_default(),
            self.kernel.read("proc/diskstats").unwrap_or_default(),
        );
        let count = |name: &str| counter(&vmstat, name);
        let of_disks = |column: usize| -> Option<Vec<u64>> {
            let all = self.disks.iter().map(|disk| columns(&diskstats, disk)?.get(column).copied());
            all.collect::<Option<Vec<u64>>>().filter(|all| !all.is_empty())
        };
        let now = Counters {
            reads: of_disks(READS).map(|reads| reads.iter().sum()),
            compaction: count("compact_stall").zip(count("thp_fault_fallback")),
        };
        let first = *self.first.get_or_insert(now);
        let seen = &mut self.seen;
        seen.looks += 1;
        seen.reads = now.reads.zip(first.reads).map(|(now, first)| now.saturating_sub(first));
        seen.compaction = now.compaction.zip(first.compaction).map(|((stalls, missed), (first, other))| {
            (stalls.saturating_sub(first), missed.saturating_sub(other))
        });
        seen.in_flight_max =
            of_disks(IN_FLIGHT).and_then(|all| all.into_iter().max()).max(seen.in_flight_max);
        let dirty = count("nr_dirty")
            .zip(count("nr_writeback"))
            .map(|(dirty, written)| dirty.saturating_add(written));
        seen.dirty_pages_max = dirty.max(seen.dirty_pages_max);
        let limits = count("nr_dirty_background_threshold").zip(count("nr_dirty_threshold"));
        seen.dirty_limits = match (seen.dirty_limits, limits) {
            (Some((low, high)), Some((now_low, now_high))) => Some((low.min(now_low), high.min(now_high))),
            (before, now) => before.or(now),
        };
    }

    /// Result of all samples.
    pub fn seen(self) -> UnderLoad {
        self.seen
    }
}

/// A sample is not the peak: a knob may matter unless its limit is at least this many times away.
const SPARE: u64 = 4;
/// With fewer samples no knob is excluded.
const FEWEST_LOOKS: u64 = 20;

/// Why a knob can't matter under this load, with both its current and its wanted value; `None` if it may.
pub fn cannot_matter(knob: &str, now: &str, wanted: &str, seen: &UnderLoad) -> Option<String> {
    if seen.looks < FEWEST_LOOKS {
        return None;
    }
    let numbers = || Some((now.parse::<u64>().ok()?, wanted.parse::<u64>().ok()?));
    match knob {
        "queue.read_ahead_kb" => {
            (seen.reads? == 0).then(|| "under this load no data was read from the disk".to_owned())
        }
        "queue.nr_requests" => {
            let (now, wanted) = numbers()?;
            let most = seen.in_flight_max?;
            (most.saturating_mul(SPARE) <= now.min(wanted)).then(|| {
                format!(
                    "under this load the disk had at most {most} requests, and it takes {} with either value",
                    now.min(wanted)
                )
            })
        }
        "vm.dirty_ratio" => {
            far_below(seen.dirty_pages_max?, seen.dirty_limits?.1, numbers()?, "writers wait")
        }
        "vm.dirty_background_ratio" => far_below(
            seen.dirty_pages_max?,
            seen.dirty_limits?.0,
            numbers()?,
            "writing begins in the background",
        ),
        "transparent_hugepage.defrag" => (seen.compaction? == (0, 0)).then(|| {
            "under this load no task waited for compaction, and no huge page was missing".to_owned()
        }),
        _ => None,
    }
}

/// Limits are proportional to the share, so the smaller one of both counts.
fn far_below(dirty: u64, limit: u64, (now, wanted): (u64, u64), what: &str) -> Option<String> {
    let wanted_limit = limit.saturating_mul(wanted).checked_div(now)?;
    let least = limit.min(wanted_limit);
    (dirty.saturating_mul(SPARE) <= least).then(|| {
        format!(
            "under this load at most {dirty} pages were dirty, and {what} only from {least} on with either \
             value"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Files;
    use proptest::prelude::*;
    use std::fs;

    fn seen() -> UnderLoad {
        UnderLoad {
            looks: 100,
            reads: Some(0),
            in_flight_max: Some(6),
            dirty_pages_max: Some(1_000),
            dirty_limits: Some((50_000, 100_000)),
            compaction: Some((0, 0)),
        }
    }

    #[test]
    fn what_is_far_away_can_not_matter_and_what_is_near_may() {
        let why = |knob: &str, now: &str, wanted: &str| cannot_matter(knob, now, wanted, &seen());
        assert!(why("queue.read_ahead_kb", "128", "0").unwrap().contains("no data was read"));
        assert!(why("queue.nr_requests", "256", "32").unwrap().contains("at most 6 requests"));
        assert_eq!(why("queue.nr_requests", "256", "16"), None, "6 of 16 at a look may be more between two");
        assert!(why("vm.dirty_ratio", "20", "80").unwrap().contains("from 100000 on"));
        assert!(why("vm.dirty_background_ratio", "10", "1").unwrap().contains("from 5000 on"));
        assert_eq!(why("vm.dirty_ratio", "20", "0"), None, "a limit of nothing is near");
        assert!(why("transparent_hugepage.defrag", "madvise", "never").is_some());
        assert_eq!(why("queue.scheduler", "none", "kyber"), None);
        let few = UnderLoad { looks: 3, ..seen() };
        assert_eq!(cannot_matter("queue.read_ahead_kb", "128", "0", &few), None);
        assert_eq!(
            cannot_matter(
                "queue.nr_requests",
                "256",
                "32",
                &UnderLoad { looks: 100, ..UnderLoad::default() }
            ),
            None
        );
    }

    #[test]
    fn looks_are_joined() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("proc")).unwrap();
        let disk = [Disk { name: "vda".to_owned(), ..Disk::default() }];
        let files = Files::new(root.path());
        let mut watcher = Watcher::new(&files, &disk);
        for (reads, flight, dirty, stalls) in [(10, 2, 500, 7), (10, 9, 900, 7), (14, 1, 100, 8)] {
            let text = format!(" 254 0 vda {reads} 0 80 5 20 0 160 40 {flight} 0 0\n");
            fs::write(root.path().join("proc/diskstats"), text).unwrap();
            let text = format!(
                "nr_dirty {dirty}\nnr_writeback 5\nnr_dirty_threshold 100\nnr_dirty_background_threshold 50\ncompact_stall {stalls}\nthp_fault_fallback 0\n"
            );
            fs::write(root.path().join("proc/vmstat"), text).unwrap();
            watcher.look();
        }
        let seen = watcher.seen();
        assert_eq!((seen.looks, seen.reads, seen.in_flight_max), (3, Some(4), Some(9)));
        assert_eq!(
            (seen.dirty_pages_max, seen.dirty_limits, seen.compaction),
            (Some(905), Some((50, 100)), Some((1, 0)))
        );
    }

    proptest! {
        #[test]
        fn foreign_values_do_no_harm(now in "\\PC*", wanted in "\\PC*", number in any::<u64>()) {
            let seen = UnderLoad { dirty_pages_max: Some(number), in_flight_max: Some(number), ..seen() };
            for knob in ["vm.dirty_ratio", "queue.nr_requests"] {
                let _ = cannot_matter(knob, &now, &wanted, &seen);
                let _ = cannot_matter(knob, &number.to_string(), "0", &seen);
            }
        }
    }
}

//! Memory of processes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use hone_record::{MemoryCounted, TargetMemory};

use crate::repeated::Repeated;
use crate::{cpu, kernel_text};

/// Peak memory of a process so far (resident, in bytes); `None` if it is gone, or the kernel does not report it. Its children are not
/// included.
pub fn peak_rss_bytes(pid: u32) -> Option<u64> {
    peak_under(Path::new("/"), pid)
}

fn peak_under(root: &Path, pid: u32) -> Option<u64> {
    let text = fs::read_to_string(root.join(format!("proc/{pid}/status"))).ok()?;
    kernel_text::peak_rss_bytes(&text)
}

/// Memory of processes at one moment, in bytes, and the method; `None` if none of them can be read.
///
/// For one process it is the resident set, for several the proportional sets: otherwise a server that forks would count memory shared by
/// its workers once for each of them. Kernels before 4.14 have no proportional sets, and those of another user's processes can't be read.
/// Resident sets are summed in these cases.
fn held_under(root: &Path, pids: &[u32]) -> Option<(u64, MemoryCounted)> {
    let resident = |pid: &u32| {
        let text = fs::read_to_string(root.join(format!("proc/{pid}/statm"))).ok()?;
        kernel_text::resident_pages(&text)?.checked_mul(page_bytes())
    };
    let residents: Vec<(u32, u64)> = pids.iter().filter_map(|pid| Some((*pid, resident(pid)?))).collect();
    match residents.as_slice() {
        [] => None,
        [(_, bytes)] => Some((*bytes, MemoryCounted::Resident)),
        several => {
            let proportional = |(pid, _): &(u32, u64)| {
                let text = fs::read_to_string(root.join(format!("proc/{pid}/smaps_rollup"))).ok()?;
                kernel_text::proportional_bytes(&text)
            };
            let all: Option<u64> = several.iter().map(proportional).sum();
            let sum = || several.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
            Some(all.map_or_else(
                || (sum(), MemoryCounted::ResidentSum),
                |bytes| (bytes, MemoryCounted::Proportional),
            ))
        }
    }
}

fn page_bytes() -> u64 {
    // SAFETY: the call has no side effects.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).ok().filter(|bytes| *bytes > 0).unwrap_or(4_096)
}

/// Samples the memory of process trees until the result is requested, or it is dropped.
#[derive(Debug)]
pub struct Watch(Repeated<MemorySamples>);

/// Smallest pause between two samples. The mean may miss shorter changes, but the peak of a single process is the kernel's own.
const EVERY: Duration = Duration::from_millis(100);

/// Number of samples after which children are searched again.
const FAMILY_EVERY: u32 = 10;

impl Watch {
    /// Starts to sample `pids` with all their descendants. `None` without processes, or if no thread can be started.
    pub fn start(pids: &[u32]) -> Option<Self> {
        if pids.is_empty() {
            return None;
        }
        let samples = MemorySamples::new(pids.to_vec());
        Repeated::start("memory", EVERY, samples, |samples| samples.look(Path::new("/"))).map(Self)
    }

    /// Ends the sampling; `None` if nothing could be read.
    pub fn stop(self) -> Option<TargetMemory> {
        self.0.stop()?.target_memory(Path::new("/"))
    }
}

/// Results of the samples.
#[derive(Debug)]
struct MemorySamples {
    roots: Vec<u32>,
    tree: Vec<u32>,
    /// The peak of the only process before the first sample.
    peak_before: Option<(u32, u64)>,
    looks: u32,
    samples: u32,
    peak_bytes: u64,
    sum_bytes: f64,
    /// The least exact method of any sample.
    counted: MemoryCounted,
}

impl MemorySamples {
    fn new(roots: Vec<u32>) -> Self {
        let counted = MemoryCounted::Resident;
        Self {
            roots,
            tree: Vec::new(),
            peak_before: None,
            looks: 0,
            samples: 0,
            peak_bytes: 0,
            sum_bytes: 0.0,
            counted,
        }
    }

    fn look(&mut self, root: &Path) {
        if self.looks.is_multiple_of(FAMILY_EVERY) {
            let all: BTreeSet<u32> =
                self.roots.iter().flat_map(|pid| cpu::tree_of(root, *pid).unwrap_or_default()).collect();
            self.tree = all.into_iter().collect();
        }
        if let (0, [only]) = (self.looks, self.tree.as_slice()) {
            self.peak_before = peak_under(root, *only).map(|bytes| (*only, bytes));
        }
        self.looks += 1;
        let Some((bytes, counted)) = held_under(root, &self.tree) else { return };
        self.samples += 1;
        self.peak_bytes = self.peak_bytes.max(bytes);
        self.sum_bytes += bytes as f64;
        let rank = |counted: MemoryCounted| match counted {
            MemoryCounted::Resident | MemoryCounted::AtExit => 0,
            MemoryCounted::Proportional => 1,
            MemoryCounted::ResidentSum => 2,
        };
        if rank(counted) > rank(self.counted) {
            self.counted = counted;
        }
    }

    fn target_memory(self, root: &Path) -> Option<TargetMemory> {
        if self.samples == 0 {
            return None;
        }
        // A peak between two samples: the kernel's own peak has risen since the first.
        let own = self
            .peak_before
            .filter(|_| self.counted == MemoryCounted::Resident)
            .and_then(|(pid, before)| peak_under(root, pid).filter(|peak| *peak > before));
        Some(TargetMemory {
            peak_bytes: self.peak_bytes.max(own.unwrap_or(0)),
            mean_bytes: Some(self.sum_bytes / f64::from(self.samples)),
            samples: self.samples,
            counted: self.counted,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_held_once_counts_after_it_is_given_back() {
        let before = peak_rss_bytes(std::process::id()).unwrap();
        let held = vec![1_u8; 256 << 20];
        std::hint::black_box(&held);
        drop(held);
        let after = peak_rss_bytes(std::process::id()).unwrap();
        assert!(after >= before + (200 << 20), "{before} .. {after}");
        assert_eq!(peak_rss_bytes(u32::MAX), None);
    }

    #[test]
    fn a_zombie_holds_nothing_and_says_nothing() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/7")).unwrap();
        fs::write(root.path().join("proc/7/status"), "Name:\tx\nState:\tZ (zombie)\n").unwrap();
        assert_eq!(peak_under(root.path(), 7), None);
    }

    fn process(root: &Path, pid: u32, parent: u32, pages: u64, proportional_kib: Option<u64>) {
        let folder = root.join(format!("proc/{pid}"));
        fs::create_dir_all(&folder).unwrap();
        let stat = format!("{pid} (x) S {parent} 1 1 0 -1 0 0 0 0 0 5 5 0 0 20 0 1 0 9 0 0 0");
        fs::write(folder.join("stat"), stat).unwrap();
        fs::write(folder.join("statm"), format!("{} {pages} 10 1 0 9 0\n", pages * 2)).unwrap();
        if let Some(kib) = proportional_kib {
            let rollup = format!("0-1 ---p 0 00:00 0 [rollup]\nRss: 9 kB\nPss:  {kib} kB\nPss_Anon: 1 kB\n");
            fs::write(folder.join("smaps_rollup"), rollup).unwrap();
        }
    }

    fn looked(root: &Path) -> Option<TargetMemory> {
        let mut seen = MemorySamples::new(vec![7]);
        seen.look(root);
        seen.target_memory(root)
    }

    #[test]
    fn what_processes_share_counts_once_where_the_kernel_tells() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        assert_eq!(looked(root), None);
        let counted = |root: &Path| looked(root).map(|seen| (seen.peak_bytes, seen.counted)).unwrap();
        process(root, 7, 1, 100, Some(250));
        assert_eq!(counted(root), (100 * page_bytes(), MemoryCounted::Resident));
        process(root, 8, 7, 100, Some(150));
        process(root, 9, 1, 1_000, Some(9_999));
        assert_eq!(counted(root), (400 << 10, MemoryCounted::Proportional));
        fs::remove_file(root.join("proc/8/smaps_rollup")).unwrap();
        assert_eq!(counted(root), (200 * page_bytes(), MemoryCounted::ResidentSum));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "this crate knows no runner")]
    fn a_watch_sees_what_a_child_held_for_a_moment() {
        let script = "sleep 0.3; x=$(head -c 60000000 /dev/zero | tr '\\0' x); sleep 0.4; x=; sleep 30";
        let mut child = std::process::Command::new("bash").args(["-c", script]).spawn().unwrap();
        let watch = Watch::start(&[child.id()]).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        drop(Watch::start(&[child.id()]));
        std::thread::sleep(Duration::from_millis(1_500));
        let seen = watch.stop().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(seen.peak_bytes > 55 << 20, "{seen:?}");
        assert!(seen.mean_bytes.unwrap() < seen.peak_bytes as f64, "{seen:?}");
        assert!(seen.samples > 3, "{seen:?}");
        assert_eq!(Watch::start(&[u32::MAX / 2]).unwrap().stop(), None);
    }
}

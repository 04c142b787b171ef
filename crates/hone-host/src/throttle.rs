//! CPU limits of control groups, and how often they throttled a process. It covers cgroup v2 (`cpu.max`, `throttled_usec`) and v1
//! (`cpu.cfs_quota_us`, `throttled_time`), as the kernel's Documentation/scheduler/sched-bwc.rst describes them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use hone_record::Throttling;

use crate::kernel_text;

/// Counters of every limited group above some processes at one moment. A limit holds for all groups below it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ThrottleSample {
    groups: BTreeMap<PathBuf, Throttling>,
}

/// Samples the groups of `pids`, with all groups above them, as far as they are visible from here.
pub fn sample(pids: &[u32]) -> ThrottleSample {
    sample_under(Path::new("/"), pids)
}

/// Throttling between two samples, for the group with the most throttled periods. `None` without a limit.
pub fn between(before: &ThrottleSample, after: &ThrottleSample) -> Option<Throttling> {
    let used = |(path, now): (&PathBuf, &Throttling)| {
        let then = before.groups.get(path)?;
        Some(Throttling {
            limit_cores: now.limit_cores,
            periods: now.periods.checked_sub(then.periods)?,
            throttled_periods: now.throttled_periods.checked_sub(then.throttled_periods)?,
            throttled_s: (now.throttled_s - then.throttled_s).max(0.0),
        })
    };
    let limited =
        after.groups.iter().filter_map(used).filter(|found| found.limit_cores.is_some() || found.is_felt());
    limited.max_by(|left, right| {
        let of = |found: &Throttling| (found.throttled_periods, found.periods);
        of(left).cmp(&of(right))
    })
}

/// Folders of the groups of `pids` that have counters, with all groups above them. A process without a group of its own has none. `None` where
/// groups are not visible.
pub fn group_folders(pids: &[u32]) -> Option<Vec<PathBuf>> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let is_visible = !kernel_text::cpu_group_mounts(&mounts).is_empty();
    is_visible.then(|| sample(pids).groups.into_keys().map(|folder| Path::new("/").join(folder)).collect())
}

fn sample_under(root: &Path, pids: &[u32]) -> ThrottleSample {
    let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let mounts = kernel_text::cpu_group_mounts(&text("proc/self/mountinfo"));
    let mut groups = BTreeMap::new();
    for membership in
        pids.iter().flat_map(|pid| kernel_text::cpu_groups(&text(&format!("proc/{pid}/cgroup"))))
    {
        let Some(mount) = mounts.iter().find(|mount| mount.is_unified == membership.is_unified) else {
            continue;
        };
        // A container sees a part of the tree, mounted as if it were the whole.
        let Ok(inside) = Path::new(&membership.path).strip_prefix(&mount.shown) else { continue };
        // A group outside the visible part is named by the path up to it.
        if inside.components().any(|part| part == Component::ParentDir) {
            continue;
        }
        for inside in inside.ancestors() {
            let folder = Path::new(mount.at.trim_start_matches('/')).join(inside);
            if let Some(found) = counters(&root.join(&folder)) {
                groups.insert(folder, found);
            }
        }
    }
    ThrottleSample { groups }
}

/// The counters of a group; `None` for a group without them, such as the root.
fn counters(folder: &Path) -> Option<Throttling> {
    let text = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let limit_cores = match text("cpu.max") {
        Some(limit) => kernel_text::unified_limit_cores(&limit),
        None => limit_of(text("cpu.cfs_quota_us"), text("cpu.cfs_period_us")),
    };
    kernel_text::throttling(&text("cpu.stat")?).map(|found| Throttling { limit_cores, ..found })
}

/// Quota over period; a quota of -1 is no limit.
fn limit_of(quota_us: Option<String>, period_us: Option<String>) -> Option<f64> {
    let number = |text: Option<String>| text?.trim().parse::<f64>().ok().filter(|number| *number > 0.0);
    Some(number(quota_us)? / number(period_us)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// As a Kubernetes node with cgroup v2 shows it: the limit is the container's, and its pod has one of its own.
    #[test]
    fn the_group_that_was_stopped_most_is_told_wherever_it_is_above() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        write(root, "proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n");
        write(root, "proc/7/cgroup", "0::/kubepods.slice/pod1.slice/cri-1.scope\n");
        let pod = "sys/fs/cgroup/kubepods.slice/pod1.slice";
        let stat = |periods: u64, throttled: u64, usec: u64| {
            format!(
                "usage_usec 9\nuser_usec 5\nsystem_usec 4\nnr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec {usec}\n"
            )
        };
        write(root, &format!("{pod}/cpu.max"), "max 100000\n");
        write(root, &format!("{pod}/cpu.stat"), &stat(0, 0, 0));
        write(root, &format!("{pod}/cri-1.scope/cpu.max"), "50000 100000\n");
        write(root, &format!("{pod}/cri-1.scope/cpu.stat"), &stat(1_000, 20, 5_000_000));
        let before = sample_under(root, &[7]);
        assert_eq!(between(&before, &before).map(Throttling::is_felt), Some(false));
        write(root, &format!("{pod}/cri-1.scope/cpu.stat"), &stat(1_100, 70, 7_500_000));
        let found = between(&before, &sample_under(root, &[7, 8])).unwrap();
        let right =
            Throttling { limit_cores: Some(0.5), periods: 100, throttled_periods: 50, throttled_s: 2.5 };
        assert_eq!(found, right);
        assert_eq!(found.share(), 0.5);
        // A counter that runs backwards is another group under the old name.
        write(root, &format!("{pod}/cri-1.scope/cpu.stat"), &stat(3, 0, 0));
        assert_eq!(between(&before, &sample_under(root, &[7])), None);
        assert_eq!(between(&before, &sample_under(root, &[])), None);
    }

    #[test]
    fn the_older_groups_are_read_below_what_a_container_sees_of_them() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let mounts = "32 31 0:29 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro,relatime - cgroup cgroup rw,cpu,cpuacct\n\
                      35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        write(root, "proc/self/mountinfo", mounts);
        write(root, "proc/7/cgroup", "4:memory:/m\n2:cpu,cpuacct:/docker/abc/broker\n");
        let group = "sys/fs/cgroup/cpu,cpuacct/broker";
        write(root, &format!("{group}/cpu.cfs_quota_us"), "150000\n");
        write(root, &format!("{group}/cpu.cfs_period_us"), "100000\n");
        write(
            root,
            &format!("{group}/cpu.stat"),
            "nr_periods 10\nnr_throttled 2\nthrottled_time 3000000000\n",
        );
        let before = sample_under(root, &[7]);
        write(
            root,
            &format!("{group}/cpu.stat"),
            "nr_periods 14\nnr_throttled 5\nthrottled_time 4000000000\n",
        );
        let found = between(&before, &sample_under(root, &[7])).unwrap();
        let right = Throttling { limit_cores: Some(1.5), periods: 4, throttled_periods: 3, throttled_s: 1.0 };
        assert_eq!(found, right);
    }
}

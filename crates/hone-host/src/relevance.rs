//! Knobs that can't matter on this host for this broker, by facts that are visible before any change.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;

use crate::kernel::Kernel;

/// Facts about the host and its broker. `None` means "unknown", and nothing follows from it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// Swap space, in bytes.
    pub swap_bytes: Option<u64>,
    /// Its devices, by their names in `/proc/swaps`.
    pub swap_devices: Vec<String>,
    /// Size of a page, in KiB.
    pub page_kib: Option<u64>,
    /// Size of a huge page, in bytes.
    pub huge_page_bytes: Option<u64>,
    /// Dirty pages now, and the number from which writers wait.
    pub dirty_pages: Option<(u64, u64)>,
    /// Processes with open files below the data folder.
    pub brokers: Vec<Broker>,
    /// Memory of these processes in huge pages, in bytes.
    pub huge_bytes: Option<u64>,
    /// Counts since boot: waits for compaction, and failed requests for huge pages.
    pub compaction: Option<(u64, u64)>,
    /// The kernel command line's words about huge pages.
    pub huge_pages_at_boot: Option<String>,
    /// Whether the mounts prevent writing kernel settings.
    pub sys_is_read_only: bool,
    /// The active profile of tuned.
    pub tuned_profile: Option<String>,
    /// The unit of Redpanda's own tuner that runs at each boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tuner_unit: Option<String>,
    /// The container manager, inside a container.
    pub container: Option<String>,
}

/// A process with open files of the data folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Broker {
    /// Its id.
    pub pid: u32,
    /// Name of its program.
    pub program: String,
    /// Files open for reading or writing below the data folder.
    pub files: u64,
    /// Those of them that bypass the page cache (O_DIRECT).
    pub direct_files: u64,
}

/// `O_DIRECT` as the kernel of the observed machine writes it into fdinfo. That machine need not be the running one: Arm has `O_DIRECTORY`
/// at x86's value, and the other way round (arch/*/include/uapi/asm/fcntl.h).
fn direct_flag(cpuinfo: &str) -> u64 {
    const ARM: u64 = 0o200_000;
    const X86: u64 = 0o40_000;
    if cpuinfo.contains("CPU implementer") {
        ARM
    } else if cpuinfo.contains("vendor_id") {
        X86
    } else {
        u64::try_from(libc::O_DIRECT).unwrap_or(X86)
    }
}

/// Collects facts about the host, and about the processes that use a folder.
pub fn look(kernel: &dyn Kernel, root: &Path, data: Option<&Path>) -> Facts {
    let read = |path: &str| kernel.read(path).ok();
    let direct = direct_flag(&read("proc/cpuinfo").unwrap_or_default());
    let brokers = data.map(|data| brokers(root, data, direct)).unwrap_or_default();
    let vmstat = read("proc/vmstat").unwrap_or_default();
    let count = |name: &str| counter(&vmstat, name);
    let mounts = read("proc/self/mountinfo").unwrap_or_default();
    Facts {
        swap_bytes: read("proc/meminfo").and_then(|text| kib_of(&text, "SwapTotal")),
        swap_devices: swap_devices(&read("proc/swaps").unwrap_or_default()),
        page_kib: read("proc/self/smaps").and_then(|text| Some(kib_of(&text, "KernelPageSize")? / 1024)),
        huge_page_bytes: read("sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
            .and_then(|text| text.trim().parse().ok()),
        dirty_pages: count("nr_dirty").zip(count("nr_dirty_threshold")),
        huge_bytes: sum(brokers
            .iter()
            .map(|broker| kib_of(&read(&format!("proc/{}/smaps_rollup", broker.pid))?, "AnonHugePages"))),
        compaction: count("compact_stall").zip(count("thp_fault_fallback")),
        huge_pages_at_boot: read("proc/cmdline").and_then(|text| {
            let word = text.split_whitespace().find_map(|word| word.strip_prefix("transparent_hugepage="))?;
            Some(word.to_owned())
        }),
        sys_is_read_only: is_read_only(&mounts),
        tuned_profile: read("etc/tuned/active_profile")
            .map(|text| text.trim().to_owned())
            .filter(|name| !name.is_empty()),
        tuner_unit: tuner_unit(kernel),
        container: crate::observe::container(root),
        brokers,
    }
}

/// A systemd target that wants `redpanda-tuner.service`, which Redpanda's package enables; it runs `rpk redpanda tune all`.
fn tuner_unit(kernel: &dyn Kernel) -> Option<String> {
    const UNITS: &str = "etc/systemd/system";
    const TUNER: &str = "redpanda-tuner.service";
    let wants = kernel.list(UNITS).into_iter().filter(|name| name.ends_with(".wants"));
    let mut folders = wants.map(|name| format!("{UNITS}/{name}"));
    let folder = folders.find(|folder| kernel.list(folder).iter().any(|unit| unit == TUNER))?;
    Some(format!("{folder}/{TUNER}"))
}

fn sum(mut parts: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let first = parts.next()??;
    parts.try_fold(first, |sum, part| Some(sum.saturating_add(part?)))
}

fn kib_of(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// A counter of `/proc/vmstat`.
pub(crate) fn counter(vmstat: &str, name: &str) -> Option<u64> {
    vmstat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?.trim().parse().ok()
}

/// Whether `/sys` or `/proc/sys` is mounted read-only; the last mount of a place counts.
fn is_read_only(mountinfo: &str) -> bool {
    let options = |place: &str| {
        mountinfo.lines().rev().find_map(|line| {
            let mut fields = line.split(' ').skip(4);
            (fields.next()? == place).then(|| fields.next())?
        })
    };
    let is_ro = |place| options(place).is_some_and(|text| text.split(',').any(|option| option == "ro"));
    is_ro("/sys") || is_ro("/proc/sys")
}

/// The first column below the heading.
fn swap_devices(swaps: &str) -> Vec<String> {
    swaps.lines().skip(1).filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect()
}

/// Limit of processes, so that a foreign tree can't extend the search for ever.
const MOST_PROCESSES: usize = 100_000;

fn brokers(root: &Path, data: &Path, direct: u64) -> Vec<Broker> {
    let Ok(entries) = std::fs::read_dir(root.join("proc")) else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let mut brokers: Vec<Broker> =
        pids.take(MOST_PROCESSES).filter_map(|pid| broker(root, pid, data, direct)).collect();
    brokers.sort_by_key(|broker| broker.pid);
    brokers
}

/// A process with open files below the folder.
fn broker(root: &Path, pid: u32, data: &Path, direct: u64) -> Option<Broker> {
    let folder = root.join(format!("proc/{pid}"));
    let mut broker = Broker { pid, ..Broker::default() };
    let mut seen = BTreeSet::new();
    for entry in std::fs::read_dir(folder.join("fd")).ok()?.flatten() {
        let Ok(file) = std::fs::read_link(entry.path()) else { continue };
        let is_file = file.starts_with(data) && file != data;
        if !is_file || !seen.insert(entry.file_name()) {
            continue;
        }
        let info = std::fs::read_to_string(folder.join("fdinfo").join(entry.file_name())).unwrap_or_default();
        broker.files += 1;
        broker.direct_files += u64::from(flags_of(&info).is_some_and(|flags| flags & direct != 0));
    }
    if broker.files == 0 {
        return None;
    }
    broker.program = std::fs::read_to_string(folder.join("comm")).unwrap_or_default().trim().to_owned();
    Some(broker)
}

/// The octal flags in fdinfo.
fn flags_of(fdinfo: &str) -> Option<u64> {
    let text = fdinfo.lines().find_map(|line| line.strip_prefix("flags:"))?;
    u64::from_str_radix(text.trim(), 8).ok()
}

/// Why a knob can't matter here; `None` if it may.
pub fn cannot_matter(knob: &str, facts: &Facts) -> Option<String> {
    match knob {
        "vm.swappiness" => (facts.swap_bytes == Some(0)).then(|| "this host has no swap space".to_owned()),
        "queue.read_ahead_kb" => past_the_cache(facts),
        knob if knob.starts_with("vm.dirty_") => past_the_cache(facts),
        "transparent_hugepage.defrag" => no_compaction(facts),
        _ => None,
    }
}

/// This holds only if all visible files bypass the page cache.
fn past_the_cache(facts: &Facts) -> Option<String> {
    let (files, direct) = facts
        .brokers
        .iter()
        .fold((0_u64, 0_u64), |(files, direct), broker| (files + broker.files, direct + broker.direct_files));
    (files > 0 && files == direct)
        .then(|| format!("the broker's {files} open files all bypass the page cache (O_DIRECT)"))
}

fn no_compaction(facts: &Facts) -> Option<String> {
    (facts.compaction == Some((0, 0)))
        .then(|| "since boot no task has waited for compaction, and no huge page was missing".to_owned())
}

/// Remarks about a knob on this host, for people.
pub fn remark(knob: &str, facts: &Facts) -> Option<String> {
    match knob {
        "vm.dirty_ratio" => {
            let (dirty, limit) = facts.dirty_pages?;
            let share = dirty.saturating_mul(100).checked_div(limit)?;
            Some(format!("dirty pages are at {share} % of the number from which writers wait"))
        }
        "vm.swappiness" => swap_in_memory(facts),
        "transparent_hugepage.enabled" => huge_pages(facts),
        _ => None,
    }
}

/// Documentation/admin-guide/sysctl/vm.rst, swappiness: values above 100 may be right for swap in memory.
fn swap_in_memory(facts: &Facts) -> Option<String> {
    let all_in_memory = facts.swap_devices.iter().all(|device| device.starts_with("/dev/zram"));
    (all_in_memory && !facts.swap_devices.is_empty()).then(|| {
        "swap is compressed memory (zram), so no task waits for a disk: the kernel's documentation suggests \
         more than 100 for it, not less"
            .to_owned()
    })
}

/// This applies to x86, and to Arm with pages of 4 KiB.
const USUAL_HUGE_PAGE_BYTES: u64 = 2 << 20;

fn huge_pages(facts: &Facts) -> Option<String> {
    let mut remarks = Vec::new();
    if let Some(bytes) = facts.huge_bytes.filter(|bytes| *bytes > 0) {
        remarks.push(format!(
            "the broker has {:.1} GiB in huge pages now; this setting decides how much it gets at its next \
             start",
            bytes as f64 / f64::from(1_u32 << 30)
        ));
    }
    if let Some(bytes) = facts.huge_page_bytes.filter(|bytes| *bytes > USUAL_HUGE_PAGE_BYTES) {
        remarks.push(format!(
            "a huge page has {} MiB on this kernel: sparsely used memory takes many times its size",
            bytes >> 20
        ));
    }
    if let Some(value) = &facts.huge_pages_at_boot {
        remarks.push(format!(
            "the kernel's command line has transparent_hugepage={value}: each boot begins with that, and \
             tuned then leaves the setting unchanged"
        ));
    }
    (!remarks.is_empty()).then(|| remarks.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Files;
    use proptest::prelude::*;

    fn direct(files: u64, direct_files: u64) -> Facts {
        Facts { brokers: vec![Broker { files, direct_files, ..Broker::default() }], ..Facts::default() }
    }

    #[test]
    fn a_tuner_that_runs_at_each_boot_is_seen() {
        let root = tempfile::tempdir().unwrap();
        let wants = root.path().join("etc/systemd/system/multi-user.target.wants");
        std::fs::create_dir_all(&wants).unwrap();
        std::fs::write(wants.join("redpanda.service"), "").unwrap();
        let seen = || look(&crate::kernel::Files::new(root.path()), root.path(), None).tuner_unit;
        assert_eq!(seen(), None);
        // What the link leads to need not be there.
        std::os::unix::fs::symlink("/nowhere", wants.join("redpanda-tuner.service")).unwrap();
        let unit = "etc/systemd/system/multi-user.target.wants/redpanda-tuner.service";
        assert_eq!(seen().as_deref(), Some(unit));
    }

    #[test]
    fn only_what_was_seen_rules_a_knob_out() {
        let nothing = Facts::default();
        for knob in crate::knob::KNOBS {
            assert_eq!(cannot_matter(knob.name, &nothing), None, "{}", knob.name);
        }
        assert!(cannot_matter("queue.read_ahead_kb", &direct(3, 3)).unwrap().contains("O_DIRECT"));
        assert_eq!(cannot_matter("vm.dirty_ratio", &direct(3, 2)), None, "one file goes through the cache");
        let swapless = Facts { swap_bytes: Some(0), ..Facts::default() };
        assert!(cannot_matter("vm.swappiness", &swapless).is_some());
    }

    #[test]
    fn a_process_with_a_direct_file_is_seen() {
        use std::os::unix::fs::OpenOptionsExt as _;
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let data = folder.path().canonicalize().unwrap();
        let _plain = std::fs::File::create(data.join("plain")).unwrap();
        let mut options = std::fs::OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).custom_flags(libc::O_DIRECT);
        let Ok(_direct) = options.open(data.join("direct")) else { return }; // a file system without
        let root = Path::new("/");
        let facts = look(&Files::new(root), root, Some(&data));
        let own = facts.brokers.iter().find(|broker| broker.pid == std::process::id()).unwrap();
        assert_eq!((own.files, own.direct_files), (2, 1));
    }

    #[test]
    fn the_flag_of_the_machine_that_is_looked_at() {
        assert_eq!(direct_flag("CPU implementer\t: 0x41\n"), 0o200_000);
        assert_eq!(direct_flag("vendor_id\t: GenuineIntel\n"), 0o40_000);
    }

    #[test]
    fn swap_in_memory_is_remarked() {
        let swap_devices = swap_devices("Filename Type\n/dev/zram0 partition 8 0 100\n");
        let zram = Facts { swap_devices: swap_devices.clone(), ..Facts::default() };
        assert!(remark("vm.swappiness", &zram).unwrap().contains("more than 100"));
        let both =
            Facts { swap_devices: [swap_devices, vec!["/dev/sda5".to_owned()]].concat(), ..Facts::default() };
        assert_eq!(remark("vm.swappiness", &both), None);
    }

    #[test]
    fn read_only_mounts_of_containers() {
        let ro = "41 30 0:5 / /proc/sys ro,nosuid - proc proc rw\n";
        assert!(is_read_only(ro));
        assert!(!is_read_only("23 27 0:22 / /sys rw,relatime - sysfs sysfs rw\n"));
    }

    proptest! {
        #[test]
        fn foreign_texts_do_no_harm(text in "\\PC*") {
            let _ = (is_read_only(&text), counter(&text, "a"), kib_of(&text, "a"), flags_of(&text));
        }
    }
}

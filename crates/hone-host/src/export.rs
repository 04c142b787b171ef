//! A host's counters and settings in Prometheus' text format: delays of a broker, and drift of the settings. Counters that the kernel does
//! not provide have no sample; a sample of 0 was really counted.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::commit;
use crate::disks::DataPath;
use crate::held::held;
use crate::kernel::{Kernel, plain_value};
use crate::knob::{DeviceKnob, Family, KNOBS};
use crate::relevance::{Facts, counter};

/// Labels and value.
type Sample = (Vec<(&'static str, String)>, f64);

/// A family of samples.
struct Metric {
    /// Name without the common prefix.
    name: &'static str,
    /// `counter` or `gauge`.
    kind: &'static str,
    help: &'static str,
    samples: Vec<Sample>,
}

const PREFIX: &str = "hone_host_";

fn counts(name: &'static str, help: &'static str, samples: Vec<Sample>) -> Metric {
    Metric { name, kind: "counter", help, samples }
}

fn gauge(name: &'static str, help: &'static str, samples: Vec<Sample>) -> Metric {
    Metric { name, kind: "gauge", help, samples }
}

/// Further facts about a host, besides its files.
#[derive(Debug, Clone, Default)]
pub struct OpenSettings {
    /// Number of settings that Hone's open changes hold.
    pub settings: u64,
    /// Number of these whose value differs now.
    pub drifted: u64,
}

/// Settings that Hone has changed and not rolled back; `None` if the journals can't be read. Attributes that a change could have touched
/// but did not are left out.
pub fn kept_here(root: &Path) -> Option<OpenSettings> {
    let known = commit::known(root);
    if !known.unreadable.is_empty() {
        return None;
    }
    let mut kept = OpenSettings::default();
    let changes = held(root, &known);
    let attributes = changes.iter().flat_map(|change| &change.attributes);
    for attribute in attributes.filter(|attribute| attribute.is_changed()) {
        kept.settings += 1;
        kept.drifted += u64::from(attribute.has_drifted());
    }
    Some(kept)
}

/// All values of a host as a Prometheus page. `kept` comes from Hone's own journals, if they can be read.
pub fn page(kernel: &dyn Kernel, data: &DataPath, facts: &Facts, kept: Option<&OpenSettings>) -> String {
    let mut metrics = vec![pressure(kernel)];
    metrics.extend(memory(kernel, facts));
    metrics.extend(disks(kernel));
    metrics.extend(cores(kernel));
    metrics.extend(network(kernel));
    metrics.push(run_queue(kernel, facts));
    metrics.extend(knobs(kernel, data));
    metrics.extend(changes(kept));
    let mut text = String::new();
    for metric in metrics.iter().filter(|metric| !metric.samples.is_empty()) {
        write_metric(metric, &mut text);
    }
    text
}

fn write_metric(metric: &Metric, text: &mut String) {
    let name = format!("{PREFIX}{}", metric.name);
    let _ = writeln!(text, "# HELP {name} {}", metric.help);
    let _ = writeln!(text, "# TYPE {name} {}", metric.kind);
    for (labels, value) in &metric.samples {
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
        let _ = match labels.as_slice() {
            [] => writeln!(text, "{name} {value}"),
            labels => writeln!(text, "{name}{{{}}} {value}", labels.join(",")),
        };
    }
}

/// Escapes a label's value for the format.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn read(kernel: &dyn Kernel, path: &str) -> String {
    kernel.read(path).unwrap_or_default()
}

/// `some avg10=... total=30190281`, in microseconds (Documentation/accounting/psi.rst).
fn pressure(kernel: &dyn Kernel) -> Metric {
    let mut samples = Vec::new();
    for resource in ["cpu", "io", "memory", "irq"] {
        for line in read(kernel, &format!("proc/pressure/{resource}")).lines() {
            let mut words = line.split_whitespace();
            let tasks = words.next().filter(|word| matches!(*word, "some" | "full"));
            let total = words.find_map(|word| word.strip_prefix("total=")?.parse::<u64>().ok());
            if let (Some(tasks), Some(total)) = (tasks, total) {
                let labels = vec![("resource", resource.to_owned()), ("tasks", tasks.to_owned())];
                samples.push((labels, total as f64 / 1e6));
            }
        }
    }
    counts(
        "pressure_waiting_seconds_total",
        "Time in which some tasks, or all of them (full), waited for a resource.",
        samples,
    )
}

/// Events of `/proc/vmstat` that stall tasks in need of memory, or concern swap and writeback.
const EVENTS: [&str; 11] = [
    "compact_stall",
    "compact_fail",
    "thp_fault_alloc",
    "thp_fault_fallback",
    "thp_collapse_alloc",
    "pgscan_direct",
    "pgscan_kswapd",
    "pswpin",
    "pswpout",
    "pgmajfault",
    "oom_kill",
];

fn memory(kernel: &dyn Kernel, facts: &Facts) -> Vec<Metric> {
    let vmstat = read(kernel, "proc/vmstat");
    let page_bytes = facts.page_kib.unwrap_or(4) * 1024;
    let mut events: Vec<Sample> = EVENTS
        .iter()
        .filter_map(|name| Some((vec![("event", (*name).to_owned())], counter(&vmstat, name)? as f64)))
        .collect();
    let stalls: Vec<u64> = vmstat
        .lines()
        .filter_map(|line| line.strip_prefix("allocstall_")?.split_once(' ')?.1.trim().parse().ok())
        .collect();
    if !stalls.is_empty() {
        events.push((vec![("event", "allocstall".to_owned())], stalls.iter().sum::<u64>() as f64));
    }
    let bytes = |name: &str| Some(counter(&vmstat, name)?.saturating_mul(page_bytes) as f64);
    let of = |label: &'static str, names: &[(&str, &str)]| -> Vec<Sample> {
        names
            .iter()
            .filter_map(|(state, name)| Some((vec![(label, (*state).to_owned())], bytes(name)?)))
            .collect()
    };
    vec![
        counts("memory_events_total", "Memory events since boot, by their names in /proc/vmstat.", events),
        gauge(
            "unwritten_bytes",
            "Memory that is not written to the disks yet.",
            of("state", &[("dirty", "nr_dirty"), ("writeback", "nr_writeback")]),
        ),
        gauge(
            "unwritten_limit_bytes",
            "Dirty memory from which the kernel writes in the background, and from which writers wait.",
            of(
                "begins",
                &[("background", "nr_dirty_background_threshold"), ("waiting", "nr_dirty_threshold")],
            ),
        ),
        counts(
            "dirtied_bytes_total",
            "Memory that became dirty, and memory that was written, since boot.",
            of("state", &[("dirtied", "nr_dirtied"), ("written", "nr_written")]),
        ),
        gauge(
            "swap_bytes",
            "Swap space.",
            facts.swap_bytes.map(|bytes| (Vec::new(), bytes as f64)).into_iter().collect(),
        ),
    ]
}

/// Positions of operations among the columns of `/proc/diskstats` after the name: count, and milliseconds
/// (Documentation/admin-guide/iostats.rst). Older kernels have no discards and no flushes.
const OPERATIONS: [(&str, usize, usize); 4] =
    [("read", 0, 3), ("write", 4, 7), ("discard", 11, 14), ("flush", 15, 16)];

fn disks(kernel: &dyn Kernel) -> Vec<Metric> {
    let (mut requests, mut seconds, mut running, mut busy) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let known = kernel.list("sys/block");
    for line in read(kernel, "proc/diskstats").lines() {
        let mut words = line.split_whitespace().skip(2);
        let Some(disk) = words.next().filter(|name| known.iter().any(|disk| disk == name)) else { continue };
        let columns: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        let device = || ("device", disk.to_owned());
        for (operation, count, ms) in OPERATIONS {
            let labels = || vec![device(), ("operation", operation.to_owned())];
            if let (Some(count), Some(ms)) = (columns.get(count), columns.get(ms)) {
                requests.push((labels(), *count as f64));
                seconds.push((labels(), *ms as f64 / 1e3));
            }
        }
        running.extend(columns.get(8).map(|count| (vec![device()], *count as f64)));
        busy.extend(columns.get(9).map(|ms| (vec![device()], *ms as f64 / 1e3)));
    }
    vec![
        counts("disk_requests_total", "Finished requests of a disk.", requests),
        counts(
            "disk_request_seconds_total",
            "Time of these requests from queueing to completion, summed.",
            seconds,
        ),
        gauge("disk_requests_running", "Unfinished requests of a disk.", running),
        counts("disk_busy_seconds_total", "Time in which a disk had requests.", busy),
    ]
}

/// The column of `/proc/stat` with the hypervisor's share; old kernels lack it.
const STEAL_COLUMN: usize = 7;

fn ticks_per_second() -> f64 {
    // SAFETY: the call has no side effects.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    if ticks > 0 { ticks as f64 } else { 100.0 }
}

fn cores(kernel: &dyn Kernel) -> Vec<Metric> {
    let stat = read(kernel, "proc/stat");
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "));
    let steal = all.and_then(|line| line.split_whitespace().nth(STEAL_COLUMN)?.parse::<u64>().ok());
    let cpu = |at: usize| vec![("cpu", at.to_string())];
    let interrupts = crate::latency::interrupts_by_core(&read(kernel, "proc/interrupts"));
    let softirqs = read(kernel, "proc/softirqs");
    let of_kind = |line: &str| {
        let (kind, counts) = line.split_once(':')?;
        let sum = counts.split_whitespace().map_while(|word| word.parse::<u64>().ok()).sum::<u64>();
        Some((vec![("kind", kind.trim().to_lowercase())], sum as f64))
    };
    vec![
        counts(
            "stolen_seconds_total",
            "CPU time that the hypervisor gave to other guests, over all cores.",
            steal.map(|ticks| (Vec::new(), ticks as f64 / ticks_per_second())).into_iter().collect(),
        ),
        counts(
            "interrupts_total",
            "Interrupts by the core that served them; cores are numbered as in /proc/interrupts.",
            interrupts.iter().enumerate().map(|(at, count)| (cpu(at), *count as f64)).collect(),
        ),
        counts(
            "softirqs_total",
            "Deferred work of interrupts, by kind.",
            softirqs.lines().skip(1).filter_map(of_kind).collect(),
        ),
    ]
}

/// Columns of `/proc/net/softnet_stat`: hexadecimal, one line per core (net/core/net-procfs.c).
fn network(kernel: &dyn Kernel) -> Vec<Metric> {
    let text = read(kernel, "proc/net/softnet_stat");
    let sum = |column: usize| -> Vec<Sample> {
        let of_line = |line: &str| u64::from_str_radix(line.split_whitespace().nth(column)?, 16).ok();
        let all: Vec<u64> = text.lines().filter_map(of_line).collect();
        if all.is_empty() { Vec::new() } else { vec![(Vec::new(), all.iter().sum::<u64>() as f64)] }
    };
    vec![
        counts("network_backlog_dropped_total", "Packets dropped because a core's backlog was full.", sum(1)),
        counts(
            "network_budget_exceeded_total",
            "Number of times that a core stopped taking packets although more were waiting.",
            sum(2),
        ),
    ]
}

fn run_queue(kernel: &dyn Kernel, facts: &Facts) -> Metric {
    let mut waited: BTreeMap<&str, u64> = BTreeMap::new();
    for broker in &facts.brokers {
        if let Some(ns) = crate::latency::queued_ns(kernel, broker.pid) {
            let sum = waited.entry(&broker.program).or_default();
            *sum = sum.saturating_add(ns);
        }
    }
    let sample = |(program, ns): (&str, u64)| (vec![("program", program.to_owned())], ns as f64 / 1e9);
    counts(
        "run_queue_waiting_seconds_total",
        "Time that the live threads of the data's processes waited for a core.",
        waited.into_iter().map(sample).collect(),
    )
}

fn knobs(kernel: &dyn Kernel, data: &DataPath) -> Vec<Metric> {
    let (mut numbers, mut choices) = (Vec::new(), Vec::new());
    for knob in KNOBS {
        let devices: Vec<Option<&str>> = match knob.family {
            Family::Sysctl | Family::HugePages => vec![None],
            Family::Queue => data.disks.iter().map(|disk| Some(disk.name.as_str())).collect(),
            Family::TopQueue => data.top.iter().map(|top| Some(top.as_str())).collect(),
        };
        for device in devices {
            let Ok(text) = kernel.read(&DeviceKnob::new(knob, device).path()) else { continue };
            let mut labels = vec![("knob", knob.name.to_owned())];
            labels.extend(device.map(|device| ("device", device.to_owned())));
            let value = plain_value(&text);
            if let Ok(number) = value.parse::<u64>() {
                numbers.push((labels, number as f64));
            } else {
                labels.push(("value", value));
                choices.push((labels, 1.0));
            }
        }
    }
    vec![
        gauge("knob_value", "Value of a numeric setting, in its own unit.", numbers),
        gauge("knob_info", "Value of a setting that is a word.", choices),
    ]
}

fn changes(kept: Option<&OpenSettings>) -> Vec<Metric> {
    let of = |value: fn(&OpenSettings) -> u64| -> Vec<Sample> {
        kept.map(|kept| (Vec::new(), value(kept) as f64)).into_iter().collect()
    };
    vec![
        gauge(
            "settings_held",
            "Settings that Hone has changed and not rolled back.",
            of(|kept| kept.settings),
        ),
        gauge(
            "settings_drifted",
            "Number of these settings whose value differs now.",
            of(|kept| kept.drifted),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Files;
    use std::fs;
    use std::path::Path;

    fn page_of(files: &[(&str, &str)]) -> String {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        page(&Files::new(root.path()), &DataPath::default(), &Facts::default(), None)
    }

    #[test]
    fn what_is_not_there_has_no_sample() {
        assert_eq!(page_of(&[]), "");
        let text =
            page_of(&[("proc/stat", "cpu  1 2 3 4\n"), ("proc/vmstat", "nr_dirty 2\ncompact_stall 0\n")]);
        assert!(!text.contains("stolen"), "four columns have no steal: {text}");
        assert!(text.contains("hone_host_unwritten_bytes{state=\"dirty\"} 8192\n"), "{text}");
        assert!(text.contains("hone_host_memory_events_total{event=\"compact_stall\"} 0\n"), "{text}");
        assert!(!text.contains("pswpin") && !text.contains("writeback"), "{text}");
    }

    #[test]
    fn counters_by_their_columns() {
        let text = page_of(&[
            ("sys/block/vda/dev", "254:0\n"),
            (
                "proc/diskstats",
                " 254 0 vda 10 0 80 5000 20 0 160 4000 3 2500 0 0 0 0 0 4 8000\n 254 1 vda1 1 0 0 0 0 0 0 0 0 0 0\n",
            ),
            ("proc/pressure/io", "some avg10=0.00 total=1500000\nfull avg10=0.00 total=500000\n"),
            ("proc/stat", "cpu  1 2 3 4 5 6 7 250 0\n"),
            ("proc/interrupts", "     CPU0 CPU1\n 1: 30 10 chip edge\nERR: 0\n"),
            ("proc/softirqs", "     CPU0 CPU1\n BLOCK: 7 5\n"),
            ("proc/net/softnet_stat", "0000000a 00000010 00000003 0\n0000000a 00000001 00000000 0\n"),
        ]);
        for line in [
            "disk_requests_total{device=\"vda\",operation=\"read\"} 10",
            "disk_request_seconds_total{device=\"vda\",operation=\"write\"} 4",
            "disk_request_seconds_total{device=\"vda\",operation=\"flush\"} 8",
            "disk_requests_running{device=\"vda\"} 3",
            "disk_busy_seconds_total{device=\"vda\"} 2.5",
            "pressure_waiting_seconds_total{resource=\"io\",tasks=\"full\"} 0.5",
            "stolen_seconds_total 2.5",
            "interrupts_total{cpu=\"0\"} 30",
            "softirqs_total{kind=\"block\"} 12",
            "network_backlog_dropped_total 17",
            "network_budget_exceeded_total 3",
        ] {
            assert!(text.lines().any(|found| found == format!("{PREFIX}{line}")), "{line} in {text}");
        }
        assert!(!text.contains("vda1"));
    }

    #[test]
    fn every_family_says_what_it_is_once() {
        let files = Files::new(Path::new("/"));
        let facts = Facts { swap_bytes: Some(0), ..Facts::default() };
        let text = page(&files, &DataPath::default(), &facts, Some(&OpenSettings::default()));
        let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        assert_eq!(names.len(), names.iter().collect::<std::collections::BTreeSet<_>>().len());
        for name in names {
            assert_eq!(name.ends_with("_total counter"), name.ends_with("counter"), "{name}");
        }
        assert!(text.contains("hone_host_settings_held 0\n"));
    }
}

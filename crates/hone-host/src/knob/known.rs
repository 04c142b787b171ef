//! The knobs, as data. Defaults are the kernel's own (Documentation/admin-guide/sysctl, block/blk-settings.c). Recommendations of others
//! have their source.

use super::Effect::{NewFiles, NewMemory, NewSockets, Now};
use super::Family::{HugePages, Queue, Sysctl, TopQueue};
use super::Risk::{High, Low, Medium};
use super::{Advice, Form, Knob, Rounding};

const fn number(min: u64, max: u64) -> Form {
    Form::Number { min, max, rounding: Rounding::None }
}

const fn says(who: &'static str, value: &'static str) -> Advice {
    Advice { who, value }
}

/// A sysctl with immediate effect.
const fn sysctl(
    name: &'static str,
    form: Form,
    default: Option<&'static str>,
    risk: super::Risk,
    about: &'static str,
    advice: &'static [Advice],
) -> Knob {
    Knob { name, family: Sysctl, form, default, effect: Now, risk, freezes: false, about, advice }
}

/// Every knob that Hone plans, changes and rolls back.
pub const KNOBS: &[Knob] = &[
    sysctl(
        "vm.swappiness",
        number(0, 200),
        Some("60"),
        Low,
        "how readily the kernel swaps out memory of processes instead of dropping cached files",
        &[
            says("Redpanda rpk tuner, Scylla, Cloudera", "1 (0 risks killed processes)"),
            says("tuned latency-performance", "10"),
        ],
    ),
    sysctl(
        "vm.dirty_ratio",
        number(0, 100),
        Some("20"),
        High,
        "share of available memory (%) that may be dirty before writers must wait",
        &[
            says("tuned latency-performance", "10 % (as bytes)"),
            says("tuned throughput-performance", "40"),
            says("Netflix slides of 2014, Kafka folklore", "60 to 80"),
        ],
    ),
    sysctl(
        "vm.dirty_bytes",
        number(8192, u64::MAX / 2),
        Some("0"),
        High,
        "the same limit as vm.dirty_ratio, in bytes; the one that was set last is effective",
        &[],
    ),
    sysctl(
        "vm.dirty_background_ratio",
        number(0, 100),
        Some("10"),
        Low,
        "share of available memory (%) from which dirty pages are written in the background",
        &[says("Netflix, Kafka folklore", "5"), says("tuned latency-performance", "3 % (as bytes)")],
    ),
    sysctl(
        "vm.dirty_background_bytes",
        number(1, u64::MAX / 2),
        Some("0"),
        Low,
        "the same limit as vm.dirty_background_ratio, in bytes; the one that was set last is effective",
        &[],
    ),
    sysctl(
        "vm.dirty_expire_centisecs",
        number(0, 1_000_000_000),
        Some("3000"),
        Medium,
        "age (1/100 s) from which a dirty page must be written",
        &[says("Netflix slides of 2014", "12000"), says("PostgreSQL community", "less, to flush early")],
    ),
    sysctl(
        "vm.dirty_writeback_centisecs",
        number(0, 1_000_000_000),
        Some("500"),
        Medium,
        "interval (1/100 s) in which the kernel looks for old dirty pages; 0 is never",
        &[],
    ),
    sysctl(
        "vm.max_map_count",
        number(0, 2_147_483_647),
        Some("65530"),
        Low,
        "number of mappings that a process may have; each index of a log segment takes two",
        &[says("Apache Kafka, operations page", "raise with the number of partitions")],
    ),
    sysctl(
        "vm.min_free_kbytes",
        number(0, 1_073_741_824),
        None,
        Medium,
        "memory (KiB) that is kept free, so that allocations need not wait for reclaim",
        &[],
    ),
    sysctl(
        "vm.zone_reclaim_mode",
        number(0, 7),
        Some("0"),
        Low,
        "whether a memory node reclaims its own pages before it takes pages of another node",
        &[says("Linux, admin-guide/sysctl/vm", "0 for file servers")],
    ),
    sysctl(
        "vm.stat_interval",
        number(1, 86_400),
        Some("1"),
        Low,
        "interval (s) in which each core updates the memory counters",
        &[says("tuned network-latency", "10")],
    ),
    sysctl(
        "fs.aio-max-nr",
        number(0, 1_073_741_824),
        Some("65536"),
        Low,
        "number of asynchronous requests that all processes together may have",
        &[says("Redpanda rpk tuner", "at least 1048576")],
    ),
    Knob {
        effect: NewSockets,
        ..sysctl(
            "net.core.somaxconn",
            number(0, 2_147_483_647),
            Some("4096"),
            Low,
            "number of connections that may wait to be accepted, in this network namespace",
            &[says("Redpanda rpk tuner", "4096")],
        )
    },
    Knob {
        effect: NewSockets,
        ..sysctl(
            "net.ipv4.tcp_max_syn_backlog",
            number(0, 2_147_483_647),
            None,
            Low,
            "number of connections that may be half open, in this network namespace",
            &[says("Redpanda rpk tuner", "4096")],
        )
    },
    Knob {
        name: "transparent_hugepage.enabled",
        family: HugePages,
        form: Form::Choice,
        default: None,
        effect: NewMemory,
        risk: Medium,
        freezes: false,
        about: "which memory of processes gets huge pages",
        advice: &[
            says("Redpanda rpk tuner and its production checklist", "always"),
            says("Netflix slides of 2017", "madvise"),
        ],
    },
    Knob {
        name: "transparent_hugepage.defrag",
        family: HugePages,
        form: Form::Choice,
        default: Some("madvise"),
        effect: NewMemory,
        risk: Low,
        freezes: false,
        about: "which tasks wait for memory compaction for a huge page; this setting causes stalls, if any \
            does",
        advice: &[says("Linux, admin-guide/mm/transhuge", "madvise or defer+madvise for latency")],
    },
    Knob {
        name: "queue.scheduler",
        family: Queue,
        form: Form::Choice,
        default: None,
        effect: Now,
        risk: Low,
        freezes: true,
        about: "scheduler that orders a disk's requests; the kernel starts with none, or mq-deadline for \
            one hardware queue",
        advice: &[
            says("RHEL, default disk scheduler", "none for NVMe, which is the default"),
            says("Redpanda rpk tuner, Seastar perftune", "none, else noop"),
        ],
    },
    Knob {
        name: "queue.nr_requests",
        family: Queue,
        form: Form::Number { min: 1, max: 65_536, rounding: Rounding::AtLeast(4) },
        default: None,
        effect: Now,
        risk: Medium,
        freezes: true,
        about: "number of requests that a hardware queue may hold; further requests wait in the submitter",
        advice: &[
            says("Netflix slides of 2014", "256"),
            says("Redpanda rpk tuner, Seastar perftune", "untouched"),
        ],
    },
    Knob {
        name: "queue.read_ahead_kb",
        family: TopQueue,
        form: Form::Number { min: 0, max: 1_048_576, rounding: Rounding::PagesOfKib },
        default: None,
        effect: NewFiles,
        risk: High,
        freezes: false,
        about: "how far (KiB) buffered sequential reads read ahead; no effect on O_DIRECT",
        advice: &[
            says("tuned throughput-performance", "at least 4096"),
            says("Netflix slides of 2014", "256"),
        ],
    },
    Knob {
        name: "queue.nomerges",
        family: Queue,
        form: number(0, 2),
        default: Some("0"),
        effect: Now,
        risk: Low,
        freezes: false,
        about: "whether the kernel merges neighbouring requests: 0 all, 1 simple ones, 2 none",
        advice: &[says("Redpanda rpk tuner", "2")],
    },
    Knob {
        name: "queue.rq_affinity",
        family: Queue,
        form: number(0, 2),
        default: Some("1"),
        effect: Now,
        risk: Low,
        freezes: false,
        about: "core that completes a request: 1 one near the requesting core, 2 exactly that core",
        advice: &[],
    },
    Knob {
        name: "queue.wbt_lat_usec",
        family: Queue,
        form: number(0, 10_000_000),
        default: None,
        effect: Now,
        risk: Medium,
        freezes: false,
        about: "latency of reads (us) above which writeback is throttled; 0 is never",
        advice: &[],
    },
];

//! The machine of a measurement.

use serde::{Deserialize, Serialize};

/// Access to hardware counters, found by opening them and not by asking a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PmuState {
    /// Instructions and branch records can both be opened.
    CountersAndBranches,
    /// Instructions can be opened, branch records can't.
    Counters,
    /// The kernel denies access for lack of rights (`perf_event_paranoid`).
    Forbidden,
    /// The machine has no PMU.
    #[default]
    None,
}

/// The machine of a measurement. An empty text or a zero means that the value is unknown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// CPU model name as the kernel prints it.
    pub cpu_model: String,
    /// Logical cores online.
    pub cores: u32,
    /// Level 1 instruction cache of core 0, in bytes.
    pub l1i_bytes: u64,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Name and version of the distribution.
    pub os: String,
    /// `kvm`, `vmware`, `xen` ...; `None` on bare metal.
    pub virtualization: Option<String>,
    /// `docker`, `podman`, `kubernetes` ...; `None` outside a container.
    pub container: Option<String>,
    /// CPU frequency governor of core 0; `None` if the kernel reports none (most VMs).
    pub governor: Option<String>,
    /// `/proc/sys/kernel/perf_event_paranoid`.
    pub perf_event_paranoid: Option<i32>,
    /// Hardware counters.
    pub pmu: PmuState,
    /// One-minute load average when the record was made.
    pub load_average_1m: f64,
    /// Share of CPU time stolen by the hypervisor since boot, 0 to 1.
    pub steal_share: f64,
}

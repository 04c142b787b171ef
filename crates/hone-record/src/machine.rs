//! The machine a number was measured on.

use serde::{Deserialize, Serialize};

/// Whether hardware counters can be opened, found by opening them and not by asking a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PmuState {
    /// Instructions and branch records both open.
    CountersAndBranches,
    /// Instructions open, branch records do not.
    Counters,
    /// The kernel refuses for lack of rights (`perf_event_paranoid`).
    Forbidden,
    /// There is no PMU to open.
    #[default]
    None,
}

/// The machine a number was measured on. An empty text or a zero means that it could not be found out.
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
    /// `docker`, `podman`, `kubernetes` ...; `None` outside of a container.
    pub container: Option<String>,
    /// CPU frequency governor of core 0; `None` where the kernel shows none (most VMs).
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

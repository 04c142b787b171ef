//! The metrics that can be compared.

use serde::{Deserialize, Serialize};

/// A figure of a window by which two variants can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// CPU of the target (user and system) per acknowledged record; per fetched one if the load only reads.
    CpuPerRecord,
    /// CPU of the target per acknowledged request.
    CpuPerRequest,
    /// User-mode CPU of the target per acknowledged record: the part that a build can change.
    UserCpuPerRecord,
    /// Busy time of the target by its own counters ([`crate::TargetBusy`]) per acknowledged record.
    BusyPerRecord,
    /// Median latency, intended to ack.
    LatencyP50,
    /// 90th percentile.
    LatencyP90,
    /// 99th percentile.
    LatencyP99,
    /// 99.9th percentile.
    LatencyP999,
    /// Largest latency.
    LatencyMax,
    /// Median latency, intended to the arrival at a consumer ([`crate::EndToEnd`]).
    EndToEndP50,
    /// 99th percentile.
    EndToEndP99,
    /// Requests acknowledged per second.
    Throughput,
    /// Highest requests per second at which the SLO is met, from a ramp search ([`crate::Climb`]).
    Capacity,
    /// Peak memory of the target's process trees ([`crate::TargetMemory`]).
    MemoryPeak,
    /// Mean memory of the target's process trees.
    MemoryMean,
    /// Instructions of the target per operation, counted by an emulator ([`crate::Counted`]). No window has it.
    Instructions,
}

impl Metric {
    /// Every metric of a window, in the order of the tables.
    pub const ALL: [Self; 15] = [
        Self::CpuPerRecord,
        Self::CpuPerRequest,
        Self::UserCpuPerRecord,
        Self::BusyPerRecord,
        Self::LatencyP50,
        Self::LatencyP90,
        Self::LatencyP99,
        Self::LatencyP999,
        Self::LatencyMax,
        Self::EndToEndP50,
        Self::EndToEndP99,
        Self::Throughput,
        Self::Capacity,
        Self::MemoryPeak,
        Self::MemoryMean,
    ];

    /// The name in files and on the command line, units last.
    pub fn name(self) -> &'static str {
        match self {
            Self::CpuPerRecord => "cpu-per-record",
            Self::CpuPerRequest => "cpu-per-request",
            Self::UserCpuPerRecord => "user-cpu-per-record",
            Self::BusyPerRecord => "busy-per-record",
            Self::LatencyP50 => "latency-p50",
            Self::LatencyP90 => "latency-p90",
            Self::LatencyP99 => "latency-p99",
            Self::LatencyP999 => "latency-p999",
            Self::LatencyMax => "latency-max",
            Self::EndToEndP50 => "end-to-end-p50",
            Self::EndToEndP99 => "end-to-end-p99",
            Self::Throughput => "throughput",
            Self::Capacity => "capacity",
            Self::MemoryPeak => "memory-peak",
            Self::MemoryMean => "memory-mean",
            Self::Instructions => "instructions",
        }
    }

    /// The name for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::CpuPerRecord => "CPU per record",
            Self::CpuPerRequest => "CPU per request",
            Self::UserCpuPerRecord => "user CPU per record",
            Self::BusyPerRecord => "busy time per record",
            Self::LatencyP50 => "p50",
            Self::LatencyP90 => "p90",
            Self::LatencyP99 => "p99",
            Self::LatencyP999 => "p99.9",
            Self::LatencyMax => "max",
            Self::EndToEndP50 => "end-to-end p50",
            Self::EndToEndP99 => "end-to-end p99",
            Self::Throughput => "throughput",
            Self::Capacity => "capacity",
            Self::MemoryPeak => "memory peak",
            Self::MemoryMean => "memory mean",
            Self::Instructions => "instructions per operation",
        }
    }

    /// The name for people if a load is counted in operations. Each operation is both a record and a request.
    pub fn label_in_operations(self) -> &'static str {
        match self {
            Self::CpuPerRecord | Self::CpuPerRequest => "CPU per operation",
            Self::UserCpuPerRecord => "user CPU per operation",
            other => other.label(),
        }
    }

    /// Unit of [`crate::Window::value`].
    pub fn unit(self) -> &'static str {
        match self {
            Self::Throughput | Self::Capacity => "requests/s",
            Self::MemoryPeak | Self::MemoryMean => "B",
            Self::Instructions => "instructions",
            _ => "µs",
        }
    }

    /// Whether a smaller value is the better one.
    pub fn lower_is_better(self) -> bool {
        !matches!(self, Self::Throughput | Self::Capacity)
    }

    /// The loss at `ratio`, as a share: the growth of a cost, or the fall of a rate. A negative value is a gain.
    pub fn loss(self, ratio: f64) -> f64 {
        if self.lower_is_better() { ratio - 1.0 } else { 1.0 - ratio }
    }

    /// Whether the loss is `share` or more.
    pub fn is_worse_by(self, share: f64, ratio: f64) -> bool {
        if self.lower_is_better() { ratio >= 1.0 + share } else { ratio <= 1.0 - share }
    }

    /// Whether it is a latency of requests.
    pub fn is_latency(self) -> bool {
        use Metric::{LatencyMax, LatencyP50, LatencyP90, LatencyP99, LatencyP999};
        matches!(self, LatencyP50 | LatencyP90 | LatencyP99 | LatencyP999 | LatencyMax)
            || self.is_end_to_end()
    }

    /// Whether it is a latency up to a consumer.
    pub fn is_end_to_end(self) -> bool {
        matches!(self, Self::EndToEndP50 | Self::EndToEndP99)
    }

    /// Whether it is the target's CPU by the clocks of its processes, per record or request.
    pub fn is_cpu(self) -> bool {
        matches!(self, Self::CpuPerRecord | Self::CpuPerRequest | Self::UserCpuPerRecord)
    }

    /// Whether it is the target's memory.
    pub fn is_memory(self) -> bool {
        matches!(self, Self::MemoryPeak | Self::MemoryMean)
    }

    /// Requests that a window needs for a percentile: ten beyond the quantile. `None` for other metrics.
    pub fn samples_needed(self) -> Option<u64> {
        match self {
            Self::LatencyP50 | Self::EndToEndP50 => Some(20),
            Self::LatencyP90 => Some(100),
            Self::LatencyP99 | Self::EndToEndP99 => Some(1_000),
            Self::LatencyP999 => Some(10_000),
            _ => None,
        }
    }

    /// The metric of a name. A percentile is a latency, with or without its decimal point: `p99.9` is `latency-p999`, and `e2e-p99` is
    /// `end-to-end-p99`.
    pub fn from_name(name: &str) -> Option<Self> {
        let plain = name.replace('.', "").replace("e2e-", "end-to-end-");
        let latency = format!("latency-{plain}");
        Self::ALL.into_iter().find(|metric| [plain.as_str(), latency.as_str()].contains(&metric.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_names_in_files() {
        for metric in Metric::ALL {
            assert_eq!(serde_json::to_value(metric).unwrap(), metric.name());
            assert_eq!(Metric::from_name(metric.name()), Some(metric));
        }
    }
}

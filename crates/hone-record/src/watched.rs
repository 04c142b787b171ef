//! Activity of a process's threads over a window: kernel statistics and samples.

use serde::{Deserialize, Serialize};

use crate::diagnosis::Footprint;

/// Samples by the owner of the code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeSplit {
    /// Code of the program itself.
    pub program: u64,
    /// Code of libraries.
    pub libraries: u64,
    /// Code that a virtual machine made, and named.
    #[serde(default, skip_serializing_if = "crate::stall::is_zero")]
    pub generated: u64,
    /// Code of the kernel; `None` if it was not sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<u64>,
    /// Code without a file and a name, or unknown code.
    pub unknown: u64,
}

impl CodeSplit {
    /// The sum.
    pub fn all(&self) -> u64 {
        self.program + self.libraries + self.generated + self.kernel.unwrap_or(0) + self.unknown
    }

    /// The share of a part, 0 to 1; `None` without a sample.
    pub fn share(&self, part: u64) -> Option<f64> {
        (self.all() > 0).then(|| part as f64 / self.all() as f64)
    }
}

/// A thread, or all threads that are not listed alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchedThread {
    /// Its name in the kernel.
    pub name: String,
    /// Its kernel id; `None` for several threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
    /// Number of threads.
    pub threads: u64,
    /// CPU time over the window, in seconds. Here and below, `None` means that the kernel did not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// The part of it in the kernel, in seconds, by clock ticks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_s: Option<f64>,
    /// Time ready to run without a core, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_s: Option<f64>,
    /// Number of times it gave the core up to wait (voluntary context switches).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switches_voluntary: Option<u64>,
    /// Number of times it lost the core (involuntary context switches).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switches_involuntary: Option<u64>,
    /// Number of page faults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_faults: Option<u64>,
    /// Its samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<CodeSplit>,
}

/// A function with samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WatchedFunction {
    /// Demangled, where it was mangled.
    pub name: String,
    /// Share of all samples, 0 to 1.
    pub share: f64,
}

/// Activity of threads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Watched {
    /// Id of the process; `None` if the data comes from a file of samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Length of the window.
    pub window_s: f64,
    /// The sampled event, as perf names it; `None` without sampling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Samples of all threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<CodeSplit>,
    /// Threads of a Java virtual machine by their purpose, the busiest first. Empty for any other program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<WatchedThread>,
    /// Threads, the busiest first. The last row may stand for all others.
    pub threads: Vec<WatchedThread>,
    /// Functions of the program, and of the code that it made; hottest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<WatchedFunction>,
    /// Number of pages that hold shares of the user-code samples. With few samples the number is too small.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub footprints: Vec<Footprint>,
    /// Number of calls that read or wrote data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads_and_writes: Option<u64>,
    /// The next thing to improve, in words.
    pub next: String,
}

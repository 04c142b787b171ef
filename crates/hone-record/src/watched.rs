//! What the threads of a process did over a window: what the kernel keeps of them, and what was sampled.

use serde::{Deserialize, Serialize};

use crate::diagnosis::Footprint;

/// Samples by whose code they lie in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeSplit {
    /// The program's own.
    pub program: u64,
    /// Libraries'.
    pub libraries: u64,
    /// The kernel's; `None` where that was not sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<u64>,
    /// Of no file (just-in-time compilers), or not known.
    pub unknown: u64,
}

impl CodeSplit {
    /// All of them.
    pub fn all(&self) -> u64 {
        self.program + self.libraries + self.kernel.unwrap_or(0) + self.unknown
    }

    /// A part of all, 0 to 1; `None` without a sample.
    pub fn share(&self, part: u64) -> Option<f64> {
        (self.all() > 0).then(|| part as f64 / self.all() as f64)
    }
}

/// A thread, or all those that are not told alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchedThread {
    /// Its name, as the kernel has it.
    pub name: String,
    /// The kernel's number of it; `None` where several are added up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
    /// How many threads.
    pub threads: u64,
    /// CPU time over the window, in seconds. What is `None` here and below was not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// Of it in the kernel, in seconds; by ticks of the clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_s: Option<f64>,
    /// Ready to run and without a core, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_s: Option<f64>,
    /// It gave the core up by itself, since it waited for something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switches_voluntary: Option<u64>,
    /// The core was taken from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switches_involuntary: Option<u64>,
    /// Pages that had to be mapped, or read.
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
    /// Of all samples, 0 to 1.
    pub share: f64,
}

/// What threads did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Watched {
    /// The process; `None` where it is of a file of samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Length of the window.
    pub window_s: f64,
    /// What was sampled, in perf's words; `None` where nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Samples of all threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<CodeSplit>,
    /// Busiest first; the last one can be all others.
    pub threads: Vec<WatchedThread>,
    /// Functions of the program, hottest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<WatchedFunction>,
    /// Pages that hold parts of the samples of user code. Few samples make them too few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub footprints: Vec<Footprint>,
    /// Calls that read or wrote something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads_and_writes: Option<u64>,
    /// What to turn to, in words.
    pub next: String,
}

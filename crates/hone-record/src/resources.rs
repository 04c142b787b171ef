//! What a target held and was denied in a window, beside its CPU time.

use serde::{Deserialize, Serialize};

/// Memory of the target's process trees in one window, from samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TargetMemory {
    /// The most that was held at a time.
    pub peak_bytes: u64,
    /// Mean of the samples; `None` where only the peak is known.
    pub mean_bytes: Option<f64>,
    /// How many samples there are.
    pub samples: u32,
    /// How it was counted.
    pub counted: MemoryCounted,
}

/// How [`TargetMemory`] was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryCounted {
    /// Resident set of the only process (`/proc/PID/statm`).
    Resident,
    /// Proportional set size of all processes (`/proc/PID/smaps_rollup`): what several of them share counts once.
    Proportional,
    /// Resident sets of all processes: what several of them share counts for each.
    ResidentSum,
    /// The peak that the kernel reports of a program that has ended (`ru_maxrss` of `wait4`).
    AtExit,
}

/// How long the target was busy in one window by its own counters, without what serving the counters took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetBusy {
    /// Over all brokers and shards, in seconds.
    pub busy_s: f64,
    /// Between the two readings, in seconds.
    pub over_s: f64,
    /// The counter, as the target calls it.
    pub counter: String,
    /// Its series: shards, or brokers.
    pub series: u32,
    /// Taken off `busy_s`: what one reading costs the target, in seconds.
    pub reading_s: f64,
    /// Share of the time in which Kafka's request handlers were idle, 0 to 1; `None` for other targets.
    pub handlers_idle_share: Option<f64>,
    /// Where it was read, without passwords.
    pub endpoints: Vec<String>,
}

/// What came before a window so that its target is warm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WarmUp {
    /// How long it took, in seconds.
    pub took_s: f64,
    /// Requests that it sent.
    pub requests: u64,
    /// What ended it.
    pub end: WarmUpEnd,
    /// CPU of the target per request in its first and in its last slice, in microseconds.
    pub cpu_us_per_request: Option<[f64; 2]>,
    /// Median from sending to the answer in its first and in its last slice, in microseconds.
    pub latency_us_p50: Option<[f64; 2]>,
    /// Share of the target's CPU in the last slice that went into compiling itself; `None` where it has no such threads.
    pub compiling_share: Option<f64>,
}

/// What ended a [`WarmUp`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WarmUpEnd {
    /// CPU per request and latency had stopped falling, and compilers were quiet.
    Steady,
    /// The time for it was over before.
    Limit,
    /// It was too short to tell.
    TooShort,
}

/// What a CPU limit of the target's control group took from it in one window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Throttling {
    /// The limit, in cores; `None` where it was lifted since.
    pub limit_cores: Option<f64>,
    /// Periods of the limit in which the group had work.
    pub periods: u64,
    /// Those of them in which it was stopped.
    pub throttled_periods: u64,
    /// How long it was stopped, summed over the cores that it was stopped on, in seconds.
    pub throttled_s: f64,
}

impl Throttling {
    /// Share of the periods in which the group was stopped, 0 to 1.
    pub fn share(self) -> f64 {
        self.throttled_periods as f64 / self.periods.max(1) as f64
    }

    /// `the CPU limit of 0.5 cores stopped the target in 62 of 100 periods`.
    pub fn stopped_words(self, whom: &str) -> String {
        let limit = self.limit_cores.map_or_else(
            || "a CPU limit that is lifted by now".to_owned(),
            |cores| format!("the CPU limit of {} cores", (cores * 1e3).round() / 1e3),
        );
        format!("{limit} stopped {whom} in {} of {} periods", self.throttled_periods, self.periods)
    }

    /// Whether it was stopped at all.
    pub fn is_felt(self) -> bool {
        self.throttled_periods > 0
    }

    /// Of several windows under one limit.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            limit_cores: other.limit_cores.or(self.limit_cores),
            periods: self.periods.saturating_add(other.periods),
            throttled_periods: self.throttled_periods.saturating_add(other.throttled_periods),
            throttled_s: self.throttled_s + other.throttled_s,
        }
    }
}

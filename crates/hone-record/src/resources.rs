//! Resources that a target used or was denied in a window, besides CPU time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Memory of the target's process trees in one window, from samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TargetMemory {
    /// Peak memory, in bytes.
    pub peak_bytes: u64,
    /// Mean of the samples; `None` if only the peak is known.
    pub mean_bytes: Option<f64>,
    /// Number of samples.
    pub samples: u32,
    /// Method of measurement.
    pub counted: MemoryCounted,
}

/// Method by which [`TargetMemory`] was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryCounted {
    /// Resident set of the only process (`/proc/PID/statm`).
    Resident,
    /// Proportional set size of all processes (`/proc/PID/smaps_rollup`): shared memory counts once.
    Proportional,
    /// Resident sets of all processes: shared memory counts in each process.
    ResidentSum,
    /// The peak that the kernel reports for a program that has ended (`ru_maxrss` of `wait4`).
    AtExit,
}

/// Busy time of the target in one window by its own counters, without the cost of serving the counters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetBusy {
    /// Busy time over all brokers and shards, in seconds.
    pub busy_s: f64,
    /// Time between the two readings, in seconds.
    pub over_s: f64,
    /// Name of the counter in the target.
    pub counter: String,
    /// Number of its series: shards, or brokers.
    pub series: u32,
    /// Cost of one reading for the target, in seconds; it is subtracted from `busy_s`.
    pub reading_s: f64,
    /// Share of the time in which Kafka's request handlers were idle, 0 to 1; `None` for other targets.
    pub handlers_idle_share: Option<f64>,
    /// Address of the counters, without passwords.
    pub endpoints: Vec<String>,
}

/// The warm-up before a window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WarmUp {
    /// Duration, in seconds.
    pub took_s: f64,
    /// Requests that it sent.
    pub requests: u64,
    /// Reason of its end.
    pub end: WarmUpEnd,
    /// CPU of the target per request in the first and in the last slice, in microseconds.
    pub cpu_us_per_request: Option<[f64; 2]>,
    /// Median latency from sending to answer in the first and in the last slice, in microseconds.
    pub latency_us_p50: Option<[f64; 2]>,
    /// Share of the target's CPU in the last slice that its compiler threads used; `None` without such threads.
    pub compiling_share: Option<f64>,
}

/// The end of a [`WarmUp`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WarmUpEnd {
    /// CPU per request and latency had stopped falling, and compilers were quiet.
    Steady,
    /// The time limit came first.
    Limit,
    /// The warm-up was too short for a decision.
    TooShort,
}

/// Effect of a CPU limit of the target's control group in one window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Throttling {
    /// The limit, in cores; `None` if it was lifted since.
    pub limit_cores: Option<f64>,
    /// Periods of the limit in which the group had work.
    pub periods: u64,
    /// Periods in which the group was throttled.
    pub throttled_periods: u64,
    /// Time for which it was throttled, summed over its cores, in seconds.
    pub throttled_s: f64,
}

impl Throttling {
    /// Share of the periods in which the group was throttled, 0 to 1.
    pub fn share(self) -> f64 {
        self.throttled_periods as f64 / self.periods.max(1) as f64
    }

    /// `the CPU limit of 0.5 cores throttled the target in 62 of 100 periods`.
    pub fn stopped_words(self, whom: &str) -> String {
        let limit = self.limit_cores.map_or_else(
            || "a CPU limit that is now lifted".to_owned(),
            |cores| format!("the CPU limit of {} cores", (cores * 1e3).round() / 1e3),
        );
        format!("{limit} throttled {whom} in {} of {} periods", self.throttled_periods, self.periods)
    }

    /// Whether it was throttled at all.
    pub fn is_felt(self) -> bool {
        self.throttled_periods > 0
    }

    /// The sum over several windows under one limit.
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

/// Use of each core of the generator's machine over a window's time, by all processes together (`/proc/stat`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CoreUse {
    /// End of each slice, in seconds from the first sample. Each slice begins at the end of the one before, the first at 0.
    pub ends_s: Vec<f64>,
    /// For each core, by its number: the share of each slice in which it was busy, in percent. Stolen time is not busy.
    pub busy_percent: BTreeMap<u32, Vec<u8>>,
}

impl CoreUse {
    /// The slices of a core: begin and end in seconds, and percent.
    pub fn slices(&self, core: u32) -> impl Iterator<Item = (f64, f64, u8)> + '_ {
        let percent = self.busy_percent.get(&core).map_or(&[][..], Vec::as_slice);
        let begins = std::iter::once(0.0).chain(self.ends_s.iter().copied());
        begins.zip(&self.ends_s).zip(percent).map(|((begin, end), percent)| (begin, *end, *percent))
    }

    /// Mean over the whole time, in percent. `None` for a core without slices.
    pub fn mean_percent(&self, core: u32) -> Option<f64> {
        let (busy, all) = self.slices(core).fold((0.0, 0.0), |(busy, all), (begin, end, percent)| {
            (busy + (end - begin) * f64::from(percent), all + end - begin)
        });
        (all > 0.0).then(|| busy / all)
    }

    /// The busiest slice of a core, in percent.
    pub fn most_percent(&self, core: u32) -> Option<u8> {
        self.busy_percent.get(&core)?.iter().copied().max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_slice_weighs_less_in_the_mean() {
        let found = CoreUse {
            ends_s: vec![1.0, 2.0, 2.5],
            busy_percent: BTreeMap::from([(0, vec![100, 50, 0]), (3, vec![10])]),
        };
        assert_eq!((found.mean_percent(0), found.most_percent(0)), (Some(60.0), Some(100)));
        assert_eq!(found.slices(3).collect::<Vec<_>>(), [(0.0, 1.0, 10)]);
        assert_eq!((found.mean_percent(7), found.most_percent(7)), (None, None));
    }
}

//! Host settings, each tried alone under a load and rolled back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::comparison::{Comparison, Verdict};
use crate::machine::Machine;
use crate::proof::{BatchState, Decision};
use crate::window::{Durability, Window};
use crate::workload::Workload;

/// Comparison of stalls in pairs: in which of the two windows of a pair requests waited longer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StallVerdict {
    /// Number of A/B pairs in which A stalled longer, and in which B stalled longer. The other pairs have no difference.
    pub longer: [u32; 2],
    /// The same numbers for the control pairs, of A and its repetition.
    pub control_longer: [u32; 2],
    /// Share of the differing pairs in which B stalled longer: lower end of its confidence interval.
    pub share_low: f64,
    /// Upper end of that interval.
    pub share_high: f64,
    /// Confidence level of that interval (0.95 = 95 %).
    pub confidence: f64,
    /// The verdict.
    pub verdict: Verdict,
    /// Why, in words.
    pub why: String,
}

/// Stalls of all windows of one state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StallCounts {
    /// Windows with data about stalls.
    pub windows: u32,
    /// Number of these windows with a stall.
    pub windows_with: u32,
    /// Number of stalls.
    pub stalls: u64,
    /// Total length of the stalls, in seconds.
    pub total_s: f64,
    /// Longest stall, in seconds.
    pub longest_s: f64,
    /// Requests that waited in a stall.
    pub requests: u64,
    /// Requests of all windows.
    pub all_requests: u64,
}

impl StallCounts {
    /// Adds up windows of one state.
    pub fn from_windows(windows: &[Window]) -> Self {
        let mut counts = Self::default();
        for (stalls, window) in
            windows.iter().filter_map(|window| Some((window.facts.stalls.as_ref()?, window)))
        {
            counts.windows += 1;
            counts.windows_with += u32::from(stalls.count() > 0);
            counts.stalls += stalls.count();
            counts.total_s += stalls.total_s();
            counts.longest_s = counts.longest_s.max(stalls.longest_s());
            counts.requests += stalls.requests();
            counts.all_requests += window.latencies.intended_to_ack.count();
        }
        counts
    }

    /// Share of the requests beyond a quantile that waited in a stall, 0 to 1; `None` without requests. A request that waited in a stall is
    /// slower than all others.
    pub fn share_of_tail(&self, quantile: f64) -> Option<f64> {
        let beyond = self.all_requests as f64 * (1.0 - quantile);
        (beyond >= 1.0).then(|| (self.requests as f64 / beyond).min(1.0))
    }
}

/// One attribute of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriedSetting {
    /// The attribute's path, without the leading `/`.
    pub path: String,
    /// Its value before the run.
    pub was: String,
    /// Its value in the candidate's windows.
    pub value: String,
}

/// One knob, or several together, compared with the unchanged host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TriedKnob {
    /// Name of the knob; for several knobs their names.
    pub title: String,
    /// The values that were written.
    pub settings: Vec<TriedSetting>,
    /// The reason for the setting, and its source.
    pub reason: String,
    /// Whether every window had a target that was started for it with the setting in force.
    pub started_anew: bool,
    /// The durability guarantee of an acknowledgement, equal on both sides.
    pub durability: Durability,
    /// Other durability guarantees that the setting changes, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<String>,
    /// The overall verdict of the comparator.
    pub verdict: Verdict,
    /// Whether the setting may be kept.
    pub decision: Decision,
    /// Why, in words.
    pub why: String,
    /// The comparison.
    pub comparison: Comparison,
    /// The unchanged host, in this comparison's windows.
    pub before: BatchState,
    /// The host with the setting.
    pub after: BatchState,
    /// Stalls of the unchanged host.
    pub stalls_before: StallCounts,
    /// Stalls with the setting.
    pub stalls_after: StallCounts,
    /// The verdict about the stalls.
    pub stalls: StallVerdict,
    /// Longest time to write the settings for one window, in milliseconds. It lies outside every window.
    pub writing_ms_max: u64,
}

/// A knob that was not tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UntriedKnob {
    /// Its name.
    pub title: String,
    /// Its current value.
    pub now: Option<String>,
    /// The wanted value.
    pub wanted: String,
    /// The reason.
    pub why: String,
}

/// The record of a whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostTrial {
    /// Address of the load's target.
    pub target: String,
    /// The load, in words.
    pub load: String,
    /// The load. In rows with another durability class it has the acks of that class.
    pub workload: Workload,
    /// Source of the values: the name of a profile, or the command line.
    pub profile: String,
    /// The rule of the verdicts, in words; written to disk before the first window.
    pub rule: String,
    /// Seconds between writing a setting and the load.
    pub settle_s: f64,
    /// Whether the rows are all settings together under several durability classes, and not each knob alone.
    pub factorial: bool,
    /// The trials.
    pub tried: Vec<TriedKnob>,
    /// The knobs that were not tried.
    pub untried: Vec<UntriedKnob>,
    /// All helpful settings, measured together once more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<TriedKnob>,
    /// The change that is still in force and waits for its confirmation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_in_force: Option<String>,
    /// Limits of the result, in words.
    pub limits: Vec<String>,
    /// The machine.
    pub machine: Machine,
    /// Client and broker of the first window.
    pub software: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stall::Stalls;

    #[test]
    fn the_tail_that_rests_on_a_stall_is_told() {
        let mut window = crate::merge::tests::shard(0, 1);
        window.latencies.intended_to_ack = crate::histogram::Hdr::new();
        (0..30_000).for_each(|_| window.latencies.intended_to_ack.record_ns(1_000_000));
        let mut stalls = Stalls::default();
        (0..240).for_each(|at| stalls.ended(at * 1_000_000, 1_000_000_000));
        window.facts.stalls = Some(stalls);
        let quiet = Window {
            facts: crate::window::WindowFacts { stalls: Some(Stalls::default()), ..window.facts.clone() },
            ..window.clone()
        };
        let counts = StallCounts::from_windows(&[window, quiet]);
        assert_eq!((counts.windows, counts.windows_with, counts.stalls, counts.requests), (2, 1, 1, 240));
        assert!((counts.share_of_tail(0.99).unwrap() - 0.4).abs() < 1e-9, "{counts:?}");
        assert_eq!(counts.share_of_tail(0.999), Some(1.0));
        assert_eq!(StallCounts::default().share_of_tail(0.99), None);
    }
}

//! Settings of a host, each tried alone under a load and taken back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::comparison::{Comparison, Verdict};
use crate::machine::Machine;
use crate::proof::{BatchState, Decision};
use crate::window::{Durability, Window};
use crate::workload::Workload;

/// What stalls say in pairs: in which of the two windows of a pair requests stood still for longer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StallVerdict {
    /// A/B pairs in which A stalled for longer, and in which B did. In the others neither did.
    pub longer: [u32; 2],
    /// The same in the control pairs, of A and its twin.
    pub control_longer: [u32; 2],
    /// Of the pairs that differ, the share in which B stalled for longer: lower end of its interval.
    pub share_low: f64,
    /// Upper end.
    pub share_high: f64,
    /// Confidence of that interval (0.95 = 95 %).
    pub confidence: f64,
    /// What may be said.
    pub verdict: Verdict,
    /// Why, in words.
    pub why: String,
}

/// Stalls of all windows of one state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StallCounts {
    /// Windows that can tell.
    pub windows: u32,
    /// Those of them with a stall.
    pub windows_with: u32,
    /// Stalls.
    pub stalls: u64,
    /// Their length together, in seconds.
    pub total_s: f64,
    /// The longest, in seconds.
    pub longest_s: f64,
    /// Requests that waited in one.
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

    /// Of the slowest requests that lie beyond a quantile, the share that waited in a stall, 0 to 1; `None` without requests. Whoever
    /// waited in one is slower than whoever did not.
    pub fn share_of_tail(&self, quantile: f64) -> Option<f64> {
        let beyond = self.all_requests as f64 * (1.0 - quantile);
        (beyond >= 1.0).then(|| (self.requests as f64 / beyond).min(1.0))
    }
}

/// One attribute of a try.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriedSetting {
    /// The attribute's path, without the leading `/`.
    pub path: String,
    /// What it said before the run.
    pub was: String,
    /// What it said in the candidate's windows.
    pub value: String,
}

/// One knob, or several together, held against the host as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TriedKnob {
    /// Its name; of several together what they are.
    pub title: String,
    /// What was written.
    pub settings: Vec<TriedSetting>,
    /// Why somebody wants it, and who.
    pub reason: String,
    /// Whether every window had a target that was started for it, with the setting in force.
    pub started_anew: bool,
    /// What an acknowledgement promised; the same on both sides.
    pub durability: Durability,
    /// What else the setting changes of what is promised, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<String>,
    /// What the comparator says of the whole.
    pub verdict: Verdict,
    /// Whether it may be kept.
    pub decision: Decision,
    /// Why, in words.
    pub why: String,
    /// The comparison.
    pub comparison: Comparison,
    /// The host as it is, in this comparison's windows.
    pub before: BatchState,
    /// With the setting.
    pub after: BatchState,
    /// Stalls of the host as it is.
    pub stalls_before: StallCounts,
    /// Stalls with the setting.
    pub stalls_after: StallCounts,
    /// What the stalls say.
    pub stalls: StallVerdict,
    /// The longest that the writes of one window took, in milliseconds: outside of every window.
    pub writing_ms_max: u64,
}

/// A knob that was not tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UntriedKnob {
    /// Its name.
    pub title: String,
    /// Its value now.
    pub now: Option<String>,
    /// The wanted value.
    pub wanted: String,
    /// Why not.
    pub why: String,
}

/// All of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostTrial {
    /// Where the load went, as it was asked for.
    pub target: String,
    /// The load, in words.
    pub load: String,
    /// The load; in rows of another durability class with that one's acks.
    pub workload: Workload,
    /// Where the values come from: a profile's name, or what was written on the command line.
    pub profile: String,
    /// How it is judged, in words; on the disk before the first window.
    pub rule: String,
    /// Seconds between a write and the load.
    pub settle_s: f64,
    /// Whether the rows are the settings together under several durability classes, and not each knob alone.
    pub factorial: bool,
    /// What was tried.
    pub tried: Vec<TriedKnob>,
    /// What was not.
    pub untried: Vec<UntriedKnob>,
    /// Everything that helped, measured together once more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<TriedKnob>,
    /// The change that was left in force, and waits to be confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_in_force: Option<String>,
    /// What this can't say, in words.
    pub limits: Vec<String>,
    /// Where it ran.
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

//! Where the slowest requests of a window come from.

use serde::{Deserialize, Serialize};

use crate::envelope::Body;
use crate::machine::Machine;

/// The slowest requests of a window, with the stalls of their target at the same time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TailAccount {
    /// The target's address, with its programs.
    pub target: String,
    /// Wall-clock start of the window, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Measured length.
    pub duration_s: f64,
    /// Requests of the window.
    pub requests: u64,
    /// Requests beyond this quantile are slow, for example 0.999.
    pub quantile: f64,
    /// The latency at that quantile, from the due time.
    pub threshold_us: f64,
    /// The median latency.
    pub median_us: f64,
    /// The slow requests in order of time; at most 10,000.
    pub slow: Vec<SlowRequest>,
    /// Number of slow requests.
    pub slow_count: u64,
    /// Those of them that no cause explains.
    pub unexplained: u64,
    /// Stalls of one kind and name each, those that explain the most requests first.
    pub causes: Vec<TailCause>,
    /// What was watched, and what could not be.
    pub watched: Vec<TailWatch>,
    /// Remarks for the reader.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The machine.
    #[serde(default)]
    pub machine: Machine,
}

impl Body for TailAccount {
    const KIND: &'static str = "tail";
}

/// A request beyond the quantile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SlowRequest {
    /// When it was due, in seconds from the start of the window.
    pub at_s: f64,
    /// From there until its end, in microseconds.
    pub latency_us: f64,
    /// Index of the cause that explains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<usize>,
}

/// A kind of stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StallKind {
    /// The limit of a control group stopped the target.
    Throttling,
    /// A virtual machine stopped all its threads.
    Pause,
    /// A thread waited in a system call on a file.
    File,
    /// A thread waited for a page of memory.
    PageFault,
    /// A thread was ready to run, and no core was free.
    RunQueue,
}

/// Stalls with one name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TailCause {
    /// Their kind.
    pub kind: StallKind,
    /// For example `Pause Young (Mixed) (G1 Evacuation Pause)`, or `fsync of /data/x.log`.
    pub name: String,
    /// Begin and end of each, in seconds from the start of the window.
    pub stalls: Vec<[f64; 2]>,
    /// Slow requests that it explains.
    pub explained: u64,
    /// Whether that is more than chance explains: it stops all threads, or fast requests rarely fall into its stalls.
    pub is_beyond_chance: bool,
    /// More about the longest of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Whether stalls of a kind could be seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TailWatch {
    /// The kind.
    pub kind: StallKind,
    /// Why not; `None` if they were seen, or would have been.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

impl TailCause {
    /// Time of all stalls, in seconds.
    pub fn total_s(&self) -> f64 {
        self.stalls.iter().map(|[begin, end]| end - begin).sum()
    }

    /// Time of the longest stall, in seconds.
    pub fn longest_s(&self) -> f64 {
        self.stalls.iter().map(|[begin, end]| end - begin).fold(0.0, f64::max)
    }
}

impl TailAccount {
    /// The causes that explain the tail: together with the rest of their kind at least a third of the slow requests, beyond chance.
    pub fn named(&self) -> Vec<&TailCause> {
        let of_kind = |kind: StallKind| {
            let same = self.causes.iter().filter(move |cause| cause.kind == kind && cause.is_beyond_chance);
            same.map(|cause| cause.explained).sum::<u64>()
        };
        let enough = self.slow_count.div_ceil(3).max(1);
        let is_named = |cause: &&TailCause| {
            cause.explained > 0 && cause.is_beyond_chance && of_kind(cause.kind) >= enough
        };
        self.causes.iter().filter(is_named).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_named_if_its_kind_explains_a_third() {
        let cause = |kind, explained, is_beyond_chance| TailCause {
            kind,
            name: format!("{kind:?} {explained}"),
            stalls: vec![[1.0, 1.5], [2.0, 2.25]],
            explained,
            is_beyond_chance,
            detail: None,
        };
        let named = |causes: &[TailCause]| {
            let account = TailAccount { slow_count: 10, causes: causes.to_vec(), ..TailAccount::default() };
            account.named().iter().map(|cause| cause.name.clone()).collect::<Vec<_>>()
        };
        let pauses = [cause(StallKind::Pause, 3, true), cause(StallKind::Pause, 1, true)];
        assert_eq!(named(&pauses), ["Pause 3", "Pause 1"]);
        assert!(named(&[cause(StallKind::Pause, 3, true), cause(StallKind::File, 2, true)]).is_empty());
        assert!(named(&[cause(StallKind::File, 9, false)]).is_empty());
        assert!(named(&[]).is_empty());
        assert!((pauses[0].total_s() - 0.75).abs() < 1e-12 && (pauses[0].longest_s() - 0.5).abs() < 1e-12);
    }
}

//! Results for a Go program besides its variants: where CPU and allocations go, remarkable functions, and Go's own benchmarks.

use serde::{Deserialize, Serialize};

use crate::comparison::Verdict;

/// Results for a Go program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GoAccount {
    /// Costs from the merged profiles: CPU first, then allocations.
    pub hot_spots: Vec<HotSpots>,
    /// Remarks on these costs, in words.
    pub findings: Vec<String>,
    /// Comparison of the `default.pgo` found in the sources with the plain build, in words.
    pub found_profile: Option<String>,
    /// Benchmarks without the profile compared with benchmarks with it, if requested.
    pub benchmarks: Option<GoBenchmarks>,
    /// Why requested benchmarks are missing.
    pub no_benchmarks: Option<String>,
    /// Outcome of the request to place the profile, in words; `None` without such a request.
    pub placed: Option<String>,
}

/// Functions by one kind of count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HotSpots {
    /// `cpu`, `alloc_space` or `alloc_objects`.
    pub kind: String,
    /// Unit of the counts: `nanoseconds`, `bytes`, `count`.
    pub unit: String,
    /// Sum of all counts.
    pub total: u64,
    /// Number of functions with a share of it.
    pub functions: u64,
    /// The functions with the largest flat counts, largest first.
    pub rows: Vec<HotSpot>,
}

/// The share of one function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HotSpot {
    /// The function.
    pub function: String,
    /// Count in the function itself.
    pub flat: u64,
    /// Count in the function and in all functions that it called.
    pub cumulative: u64,
    /// `flat` as a share of the total, 0 to 1.
    pub flat_share: f64,
    /// `cumulative` as a share of the total, 0 to 1.
    pub cumulative_share: f64,
}

/// Go's own benchmarks, without and with the profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoBenchmarks {
    /// Number of rounds; every program ran once in each round.
    pub rounds: u32,
    /// Duration of each benchmark run, in Go's notation.
    pub benchtime: String,
    /// GOMAXPROCS, if it was set.
    pub cpus: Option<u32>,
    /// The rule of the verdicts, fixed before the first round.
    pub rule: String,
    /// The geometric mean of the times of all benchmarks; `None` if there is only one.
    pub geomean: Option<GoBenchmark>,
    /// Each metric of each benchmark.
    pub rows: Vec<GoBenchmark>,
    /// Packages in which the profile changes no machine code. They were not run.
    pub unchanged: Vec<String>,
    /// Results that were missing from some program in some round, and were left out.
    pub incomplete: Vec<String>,
    /// One command line of each program, ready to paste.
    pub commands: Vec<String>,
}

/// One metric of one benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoBenchmark {
    /// The package; empty for the geometric mean.
    pub package: String,
    /// Name of the benchmark, with sub-benchmark and number of CPUs.
    pub benchmark: String,
    /// The unit, which is the metric's name: `ns/op`, `B/op`, `allocs/op` or a unit of the benchmark.
    pub metric: String,
    /// Values by round without the profile.
    pub off: Vec<f64>,
    /// Values by round with the profile.
    pub on: Vec<f64>,
    /// Values by round of another copy of the program without the profile.
    pub control: Vec<f64>,
    /// Ratio of with to without the profile, with its confidence interval; `None` if the metric is not judged.
    pub ratio: Option<[f64; 3]>,
    /// Ratio of the control to the program without the profile, with its confidence interval.
    pub control_ratio: Option<[f64; 3]>,
    /// The verdict; `None` for a metric that is shown but not judged.
    pub verdict: Option<Verdict>,
    /// Why, in words.
    pub why: String,
}

//! What an optimisation of a Go program tells beside its variants: where CPU and allocations go, what stands out, and Go's own
//! benchmarks.

use serde::{Deserialize, Serialize};

use crate::comparison::Verdict;

/// Of a Go program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GoAccount {
    /// Of the merged profiles: CPU first, then what was allocated.
    pub hot_spots: Vec<HotSpots>,
    /// What stands out in them, in words.
    pub findings: Vec<String>,
    /// The `default.pgo` that lay in the sources, held against the plain build, in words.
    pub found_profile: Option<String>,
    /// Off against on, where it was asked for.
    pub benchmarks: Option<GoBenchmarks>,
    /// Why there are none, although they were asked for.
    pub no_benchmarks: Option<String>,
    /// What became of the wish to have the profile placed, in words; `None` when nobody wished it.
    pub placed: Option<String>,
}

/// Functions by what was counted in them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HotSpots {
    /// `cpu`, `alloc_space` or `alloc_objects`.
    pub kind: String,
    /// Unit of the counts: `nanoseconds`, `bytes`, `count`.
    pub unit: String,
    /// Sum of all.
    pub total: u64,
    /// Functions that have a part in it.
    pub functions: u64,
    /// Those with the largest flat part, largest first.
    pub rows: Vec<HotSpot>,
}

/// One function's part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HotSpot {
    /// The function.
    pub function: String,
    /// What was counted in the function itself.
    pub flat: u64,
    /// What was counted in it and in all that it called.
    pub cumulative: u64,
    /// `flat` as a share of the whole, 0 to 1.
    pub flat_share: f64,
    /// `cumulative` as a share of the whole, 0 to 1.
    pub cumulative_share: f64,
}

/// Go's own benchmarks, without the profile and with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoBenchmarks {
    /// Rounds; in each every program ran once.
    pub rounds: u32,
    /// How long a benchmark ran each time, as Go takes it.
    pub benchtime: String,
    /// GOMAXPROCS, where it was set.
    pub cpus: Option<u32>,
    /// How the verdicts are found, fixed before the first round.
    pub rule: String,
    /// Over all benchmarks: the geometric mean of their times. `None` of one benchmark alone.
    pub geomean: Option<GoBenchmark>,
    /// Each metric of each benchmark.
    pub rows: Vec<GoBenchmark>,
    /// Packages of which the profile changes no machine code: not run.
    pub unchanged: Vec<String>,
    /// What did not come from every program in every round: left out.
    pub incomplete: Vec<String>,
    /// One run of each program, to be pasted.
    pub commands: Vec<String>,
}

/// One metric of one benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoBenchmark {
    /// The package; empty of the geometric mean.
    pub package: String,
    /// Its name, with sub-benchmark and number of CPUs.
    pub benchmark: String,
    /// The unit, which is the metric's name: `ns/op`, `B/op`, `allocs/op` or one of its own.
    pub metric: String,
    /// By round, without the profile.
    pub off: Vec<f64>,
    /// By round, with it.
    pub on: Vec<f64>,
    /// By round, another copy of the program without it.
    pub control: Vec<f64>,
    /// On by off with its interval; `None` where nothing is judged.
    pub ratio: Option<[f64; 3]>,
    /// Control by off with its interval.
    pub control_ratio: Option<[f64; 3]>,
    /// What may be said; `None` of what is told and not judged.
    pub verdict: Option<Verdict>,
    /// Why, in words.
    pub why: String,
}

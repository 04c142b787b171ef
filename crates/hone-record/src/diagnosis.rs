//! Why a CPU stalls, and whether a better code layout can help.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::watched::Watched;

/// Evidence of a diagnosis, the best last. Diagnoses with different evidence are never compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// Kernel statistics about threads: how long they ran and waited, without the place in the code.
    Threads,
    /// Samples of the clock: where time goes, but not why. They support no verdict.
    Sampled,
    /// Exact counts without their order.
    Modelled,
    /// An exact trace, replayed on models of caches.
    Simulated,
    /// Counters of misses, without pipeline slots.
    MeasuredPartial,
    /// Pipeline slots, from hardware counters.
    Measured,
}

impl Evidence {
    /// The name for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Threads => "kernel statistics about threads (nothing was sampled)",
            Self::Sampled => "sampled (where time goes, not why)",
            Self::Modelled => "modelled (exact counts, without their order)",
            Self::Simulated => "simulated (an exact trace on models of caches)",
            Self::MeasuredPartial => "measured in part (counters of misses, no slots)",
            Self::Measured => "measured (slots by counters)",
        }
    }
}

/// Categories of pipeline slots, level 1 and 2 (Yasin, "A Top-Down method", ISPASS 2014).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Category {
    /// No instruction was available.
    FrontendBound,
    /// The work was discarded.
    BadSpeculation,
    /// Instructions waited for data or for an execution unit.
    BackendBound,
    /// Useful work.
    Retiring,
    /// The other thread of the core had the slot (AMD).
    SmtContention,
    /// Part of the frontend: no instructions arrived. Reasons are misses of the instruction cache and its TLB, and mispredicted and late
    /// branches.
    FetchLatency,
    /// Part of the frontend: fewer instructions arrived than the core could take.
    FetchBandwidth,
    /// Part of bad speculation: branches.
    BranchMispredicts,
    /// Part of bad speculation: everything else.
    MachineClears,
    /// Part of the backend: data.
    MemoryBound,
    /// Part of the backend: execution units.
    CoreBound,
    /// Part of retiring: instructions that are many operations.
    HeavyOperations,
    /// Part of retiring: the others.
    LightOperations,
}

use Category::*;

impl Category {
    /// The four categories of level 1 that every vendor has.
    pub const LEVEL_1: [Self; 4] = [FrontendBound, BadSpeculation, BackendBound, Retiring];

    /// The name for people.
    pub fn label(self) -> &'static str {
        match self {
            FrontendBound => "frontend bound",
            BadSpeculation => "bad speculation",
            BackendBound => "backend bound",
            Retiring => "retiring",
            SmtContention => "SMT contention",
            FetchLatency => "fetch latency",
            FetchBandwidth => "fetch bandwidth",
            BranchMispredicts => "branch mispredicts",
            MachineClears => "machine clears",
            MemoryBound => "memory bound",
            CoreBound => "core bound",
            HeavyOperations => "heavy operations",
            LightOperations => "light operations",
        }
    }

    /// The level 1 category that this one is a part of; `None` for level 1 itself.
    pub fn is_level_2(self) -> bool {
        !Self::LEVEL_1.contains(&self) && self != SmtContention
    }
}

impl fmt::Display for Category {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.label())
    }
}

/// Shares of the slots of one core, thread or PMU that passed all rules.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Slots {
    /// The core or thread, as the tool names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The PMU, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pmu: Option<String>,
    /// Shares in percent: means over intervals.
    pub percent: BTreeMap<Category, f64>,
    /// Smallest share of the time in which any of the events was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_percent: Option<f64>,
    /// Number of intervals.
    pub intervals: usize,
    /// Remarks about them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Slots {
    /// A share in percent, if there is one.
    pub fn share(&self, category: Category) -> Option<f64> {
        self.percent.get(&category).copied()
    }
}

/// Change of the slots of one core, thread or PMU between two measurements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shift {
    /// Scope of the part in the measurement before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Scope of the part in the measurement after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Shares before and after in percent, of the categories that both have.
    pub percent: BTreeMap<Category, [f64; 2]>,
}

/// Smallest change of a share, in points, that the text mentions.
const LEAST_MOVE_POINTS: f64 = 0.5;

impl Shift {
    /// Categories of level 1 whose share became smaller, with the points, the largest change first.
    pub fn left(&self) -> Vec<(Category, f64)> {
        self.moved(-1.0)
    }

    /// Categories of level 1 whose share became larger, with the points, the largest change first.
    pub fn came(&self) -> Vec<(Category, f64)> {
        self.moved(1.0)
    }

    fn moved(&self, sign: f64) -> Vec<(Category, f64)> {
        let points =
            |(category, [before, after]): (&Category, &[f64; 2])| (*category, (after - before) * sign);
        let is_told =
            |(category, points): &(Category, f64)| !category.is_level_2() && *points >= LEAST_MOVE_POINTS;
        let mut moved: Vec<(Category, f64)> = self.percent.iter().map(points).filter(is_told).collect();
        moved.sort_by(|one, other| other.1.total_cmp(&one.1));
        moved
    }

    /// The bottleneck behind the shrunk categories: the largest other category afterwards, if it grew.
    pub fn next_bottleneck(&self) -> Option<Category> {
        let is_loss = |category: &Category| !category.is_level_2() && *category != Category::Retiring;
        let after = |category: &Category| self.percent.get(category).map_or(0.0, |[_, after]| *after);
        let (left, came) = (self.left(), self.came());
        let has =
            |moved: &[(Category, f64)], category: &Category| moved.iter().any(|(one, _)| one == category);
        let others = self.percent.keys().copied().filter(|one| is_loss(one) && !has(&left, one));
        let largest = others.max_by(|one, other| after(one).total_cmp(&after(other)))?;
        let lost_less = left.iter().any(|(category, _)| is_loss(category));
        (lost_less && has(&came, &largest)).then_some(largest)
    }

    /// Where the points went, in one sentence; `None` if nothing changed.
    pub fn sentence(&self) -> Option<String> {
        let (left, came, next) = (self.left(), self.came(), self.next_bottleneck());
        if left.is_empty() || came.is_empty() {
            return None;
        }
        let left: Vec<String> = left
            .iter()
            .enumerate()
            .map(|(index, (category, points))| match index {
                0 => format!(
                    "{points:.0} {} left {category}",
                    if points.round() == 1.0 { "point" } else { "points" }
                ),
                _ => format!("{points:.0} {category}"),
            })
            .collect();
        let came: Vec<String> = came
            .iter()
            .enumerate()
            .map(|(index, (category, points))| {
                let went = if index == 0 { "went to" } else { "to" };
                let next = if next == Some(*category) { ", the next bottleneck" } else { "" };
                format!("{points:.0} {went} {category}{next}")
            })
            .collect();
        Some(format!("{}: {}", left.join(" and "), came.join(", and ")))
    }
}

/// Probability that a better layout helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Likelihood {
    /// A better layout will not help.
    No,
    /// A better layout may help.
    Possible,
    /// A better layout helps more likely than not.
    Likely,
    /// The layout is the main problem of this service.
    Strong,
}

impl fmt::Display for Likelihood {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::No => "no",
            Self::Possible => "possible",
            Self::Likely => "likely",
            Self::Strong => "very likely",
        })
    }
}

/// The next thing to improve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remedy {
    /// The code layout: profile-guided optimization, BOLT.
    Layout,
    /// Branches that can't be predicted: the code itself.
    Branches,
    /// The data layout.
    Data,
    /// Execution units of the core, or fewer instructions.
    Core,
    /// The operating system: fewer and larger requests.
    Kernel,
    /// Not the code layout. Only hardware counters can show the cause.
    NotLayout,
}

impl Remedy {
    /// The advice, in words.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Layout => "code layout: hone optimize",
            Self::Branches => {
                "unpredictable branches: change the code at these branches; a profile helps if they lean to \
                 one side"
            }
            Self::Data => {
                "waiting for data: data layout, data size, prefetching, the allocator, huge pages for data"
            }
            Self::Core => "instruction count: use fewer or wider instructions",
            Self::Kernel => "the kernel: use fewer and larger requests, batching, the host's settings",
            Self::NotLayout => {
                "not the code layout; only counters can separate data, branches and instruction count (hone \
                 diagnose --read, on a machine with counters)"
            }
        }
    }
}

/// An answer to the question "will a better layout help?".
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayoutVerdict {
    /// The probability.
    pub likelihood: Likelihood,
    /// The rule that applied, with the values that it used.
    pub rule: String,
    /// Source of the rule's thresholds.
    pub source: String,
    /// The largest share of the CPU that a layout can save, in percent: the frontend's share times the share of CPU that is user code of
    /// this program. If the frontend's share is not measured, it is the whole user share. `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling_percent: Option<f64>,
    /// The next thing to improve.
    pub next: Remedy,
}

impl LayoutVerdict {
    /// The ceiling, rounded up because it is a bound: `13 %`, and `1 %` for anything below.
    pub fn ceiling_words(&self) -> Option<String> {
        self.ceiling_percent.map(|percent| format!("{:.0} %", percent.ceil().max(1.0)))
    }
}

/// Number of memory units that hold given shares of the execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footprint {
    /// Size of a unit in bytes: a line, or a page.
    pub unit_bytes: u64,
    /// The smallest number of units that hold 50, 90, 99 and 99.9 % of the executed instructions.
    pub units: [u64; 4],
}

/// Misses of a structure that was simulated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Missed {
    /// Name of the model: "L1i 32 KiB 8-way".
    pub structure: String,
    /// Misses per 1,000 executed instructions.
    pub per_1000: f64,
}

/// Share of the execution in one file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObjectShare {
    /// Path of the file; `None` stands for code without a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Share of the executed instructions, 0 to 1.
    pub share: f64,
}

/// Layout in memory of the code that ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CodeLayout {
    /// Executed instructions.
    pub instructions: u64,
    /// For lines of 64 B and for pages of 4 KiB and 2 MiB.
    pub footprints: Vec<Footprint>,
    /// Mean number of bytes that ran per touched line of 64 bytes.
    pub bytes_used_of_a_line: f64,
    /// Taken branches per 1,000 instructions; `None` if the source does not know the order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_per_1000: Option<f64>,
    /// How well transitions fit the layout, 0 to 1.05 (LLVM's ext-TSP score over the number of transitions).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ext_tsp: Option<f64>,
    /// Lines fetched per 1,000 instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines_fetched_per_1000: Option<f64>,
    /// Misses of each simulated structure; empty without a simulation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub misses: Vec<Missed>,
    /// Number of overfull sets among the 64 sets of a 32 KiB L1 cache. A set is overfull if it has more lines of 99 % of the execution than
    /// it holds.
    pub crowded_sets: u32,
    /// Share of the instructions that are repetitions of one string instruction (`rep movs`).
    pub repeated_share: f64,
    /// Files by share, largest first.
    pub objects: Vec<ObjectShare>,
}

impl CodeLayout {
    /// Misses of a structure per 1,000 instructions, if it was simulated.
    pub fn missed(&self, structure: &str) -> Option<f64> {
        self.misses.iter().find(|missed| missed.structure == structure).map(|missed| missed.per_1000)
    }
}

/// Misses by hardware counters, of the machine's own structures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CounterMisses {
    /// Executed instructions. They include the kernel's unless the events exclude them.
    pub instructions: u64,
    /// Misses of the L1i and the iTLB, if they were counted.
    pub misses: Vec<Missed>,
    /// Remarks about them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Slots of one core, thread or PMU, or the reason why they are missing, and the verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Diagnosed {
    /// The core, thread or PMU, as the tool names it; `None` stands for everything that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The slots that passed the rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<Slots>,
    /// Counters of misses, if there are no slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<CounterMisses>,
    /// The code layout, if it was traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<CodeLayout>,
    /// The verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<LayoutVerdict>,
    /// Why there is no verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl Diagnosed {
    /// A scope without results.
    pub fn empty(scope: Option<String>) -> Self {
        Self { scope, slots: None, counted: None, layout: None, verdict: None, refused: None }
    }
}

/// An answer to the question "why does it stall?".
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// The evidence.
    pub evidence: Evidence,
    /// The file or program that was read.
    pub source: String,
    /// The share of the CPU that is user code of the program, 0 to 1, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_share: Option<f64>,
    /// One part for each core, thread or PMU.
    pub parts: Vec<Diagnosed>,
    /// Changes of the slots if there are two measurements: the first half of the parts is before, the second half is after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shifts: Vec<Shift>,
    /// Activity of the threads in the same time, if a running process or samples were read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched: Option<Watched>,
    /// Remarks about the measurement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a vendor published of a build with a profile.
    #[test]
    fn points_that_leave_one_bottleneck_are_followed_to_the_next() {
        use Category::{BackendBound, BadSpeculation, FetchLatency, FrontendBound, Retiring};
        let of = |values: &[(Category, [f64; 2])]| Shift {
            before: None,
            after: None,
            percent: values.iter().copied().collect(),
        };
        let published = of(&[
            (FrontendBound, [51.0, 37.9]),
            (BadSpeculation, [10.3, 9.5]),
            (BackendBound, [7.8, 16.0]),
            (Retiring, [30.9, 36.6]),
            (FetchLatency, [40.0, 1.0]),
        ]);
        assert_eq!(published.next_bottleneck(), Some(BackendBound));
        assert_eq!(
            published.sentence().unwrap(),
            "13 points left frontend bound and 1 bad speculation: 8 went to backend bound, the next bottleneck, and 6 to retiring"
        );
        let hidden =
            of(&[(BackendBound, [60.0, 40.0]), (FrontendBound, [35.0, 35.0]), (BadSpeculation, [1.0, 6.0])]);
        assert_eq!(hidden.next_bottleneck(), None, "the front end is larger and did not grow");
        let better =
            of(&[(FrontendBound, [30.0, 25.0]), (Retiring, [50.0, 55.0]), (BackendBound, [20.0, 20.0])]);
        assert_eq!(better.sentence().unwrap(), "5 points left frontend bound: 5 went to retiring");
        assert_eq!(better.next_bottleneck(), None);
        let worse = of(&[(FrontendBound, [25.0, 30.0]), (Retiring, [55.0, 50.0])]);
        assert_eq!(worse.next_bottleneck(), None, "no other loss preceded it");
        assert_eq!(of(&[(FrontendBound, [25.0, 25.2]), (Retiring, [55.2, 55.0])]).sentence(), None);
    }

    #[test]
    fn a_ceiling_is_a_bound_and_never_below_nothing() {
        let of = |ceiling_percent| LayoutVerdict {
            likelihood: Likelihood::Strong,
            rule: String::new(),
            source: String::new(),
            ceiling_percent,
            next: Remedy::Layout,
        };
        let words = [Some(0.0), Some(0.3), Some(12.2), None].map(|ceiling| of(ceiling).ceiling_words());
        assert_eq!(words, [Some("1 %".to_owned()), Some("1 %".to_owned()), Some("13 %".to_owned()), None]);
    }

    #[test]
    fn levels_of_evidence_have_an_order_and_categories_two_levels() {
        assert!(Evidence::Sampled < Evidence::Simulated && Evidence::Simulated < Evidence::Measured);
        assert!(FetchLatency.is_level_2() && !SmtContention.is_level_2());
    }
}

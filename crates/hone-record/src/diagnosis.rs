//! Why a CPU stalls, and whether a better layout of the code can help.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::watched::Watched;

/// Where a diagnosis comes from, best last. Diagnoses of two levels are never compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// What the kernel keeps of threads: how long they ran and waited, and nothing of where in the code.
    Threads,
    /// Samples of the clock: where time goes, and nothing of why. No verdict comes from it.
    Sampled,
    /// Exact counts without their order.
    Modelled,
    /// An exact trace, replayed on models of caches.
    Simulated,
    /// Counters of misses, without slots.
    MeasuredPartial,
    /// Slots of the pipeline, by counters.
    Measured,
}

impl Evidence {
    /// In words.
    pub fn label(self) -> &'static str {
        match self {
            Self::Threads => "what the kernel keeps of threads (nothing was sampled)",
            Self::Sampled => "sampled (where time goes, not why)",
            Self::Modelled => "modelled (exact counts, without their order)",
            Self::Simulated => "simulated (an exact trace, on models of caches)",
            Self::MeasuredPartial => "measured in part (misses by counters, no slots)",
            Self::Measured => "measured (slots by counters)",
        }
    }
}

/// Where the slots of a pipeline went, of level 1 and 2 (Yasin, "A Top-Down method", ISPASS 2014).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Category {
    /// No instruction was there to be carried out.
    FrontendBound,
    /// What was done was thrown away.
    BadSpeculation,
    /// Instructions waited for data or for a unit.
    BackendBound,
    /// Useful work.
    Retiring,
    /// The other thread of the core had the slot (AMD).
    SmtContention,
    /// Of the frontend: nothing came at all. Misses of the instruction cache and its TLB, mispredicted and late branches.
    FetchLatency,
    /// Of the frontend: less came than could have been taken.
    FetchBandwidth,
    /// Of bad speculation: branches.
    BranchMispredicts,
    /// Of bad speculation: everything else.
    MachineClears,
    /// Of the backend: data.
    MemoryBound,
    /// Of the backend: units.
    CoreBound,
    /// Of retiring: instructions that are many operations.
    HeavyOperations,
    /// Of retiring: the others.
    LightOperations,
}

use Category::*;

impl Category {
    /// The four of level 1 that every vendor has.
    pub const LEVEL_1: [Self; 4] = [FrontendBound, BadSpeculation, BackendBound, Retiring];

    /// In words.
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

    /// Whether it is a part of one of level 1.
    pub fn is_level_2(self) -> bool {
        !Self::LEVEL_1.contains(&self) && self != SmtContention
    }
}

impl fmt::Display for Category {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.label())
    }
}

/// Shares of the slots, of one core, thread or PMU, that passed all rules.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Slots {
    /// The core or thread, in the tool's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The PMU, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pmu: Option<String>,
    /// Shares in percent; means over intervals.
    pub percent: BTreeMap<Category, f64>,
    /// The smallest share of the time for which any was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_percent: Option<f64>,
    /// How many intervals.
    pub intervals: usize,
    /// What is to be known of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Slots {
    /// A share in percent, where it is there.
    pub fn share(&self, category: Category) -> Option<f64> {
        self.percent.get(&category).copied()
    }
}

/// How the slots of one core, thread or PMU moved from one measurement to another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shift {
    /// The part that was before, by its scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The part that was after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Shares before and after in percent, of categories that both have.
    pub percent: BTreeMap<Category, [f64; 2]>,
}

/// A smaller move of a share, in points, is rounded away where it is told.
const LEAST_MOVE_POINTS: f64 = 0.5;

impl Shift {
    /// Categories of level 1 whose share became smaller, with the points, the largest move first.
    pub fn left(&self) -> Vec<(Category, f64)> {
        self.moved(-1.0)
    }

    /// Those whose share became larger.
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

    /// What was behind the losses that became smaller: the largest of the others afterwards, where it grew.
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

    /// Where the points went, in one sentence; `None` where nothing moved.
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

/// How likely a better layout helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Likelihood {
    /// It will not.
    No,
    /// It may.
    Possible,
    /// More likely than not.
    Likely,
    /// This is what the service suffers from.
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

/// What to turn to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remedy {
    /// Where the code lies: profile-guided optimisation, BOLT.
    Layout,
    /// Branches that can't be foretold: the code itself.
    Branches,
    /// Where the data lies.
    Data,
    /// Units of the core, or fewer instructions.
    Core,
    /// The operating system: fewer and larger requests.
    Kernel,
    /// Not where the code lies. What else it is, only counters of the core tell.
    NotLayout,
}

impl Remedy {
    /// What to do, in words.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Layout => "the layout of the code: hone optimize",
            Self::Branches => {
                "branches that can't be foretold: the code where they are; a profile helps where they lean to one side"
            }
            Self::Data => {
                "data that is waited for: its layout, its size, prefetching, the allocator, huge pages for data"
            }
            Self::Core => "the instructions themselves: fewer of them, or wider ones",
            Self::Kernel => "the kernel: fewer and larger requests, batching, the host's settings",
            Self::NotLayout => {
                "not the layout of the code; whether data, branches or the instructions themselves, only counters tell (hone \
                 diagnose --read, on a machine that has them)"
            }
        }
    }
}

/// An answer to "will a better layout help?".
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayoutVerdict {
    /// How likely.
    pub likelihood: Likelihood,
    /// The rule that fired, with the values that it saw.
    pub rule: String,
    /// Where the rule's thresholds are from.
    pub source: String,
    /// The most that a layout can save of the CPU, in percent: the frontend's share times the share of CPU that is user code of this
    /// program; where the frontend's share is not measured, all of that. `None` where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling_percent: Option<f64>,
    /// What to turn to next.
    pub next: Remedy,
}

impl LayoutVerdict {
    /// The ceiling as the bound that it is, rounded up: `13 %`, and `1 %` for anything below.
    pub fn ceiling_words(&self) -> Option<String> {
        self.ceiling_percent.map(|percent| format!("{:.0} %", percent.ceil().max(1.0)))
    }
}

/// How many units of memory hold parts of the execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footprint {
    /// Size of a unit: a line, or a page.
    pub unit_bytes: u64,
    /// The least number of units that hold 50, 90, 99 and 99.9 % of the executed instructions.
    pub units: [u64; 4],
}

/// Misses of a structure that was simulated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Missed {
    /// The model, by its name: "L1i 32 KiB 8-way".
    pub structure: String,
    /// Misses in 1,000 executed instructions.
    pub per_1000: f64,
}

/// How much of the execution is in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObjectShare {
    /// Its path; `None` is code that no file holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Of the executed instructions, 0 to 1.
    pub share: f64,
}

/// How code that ran lies in memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CodeLayout {
    /// Executed instructions.
    pub instructions: u64,
    /// Of lines of 64 B, pages of 4 KiB and of 2 MiB.
    pub footprints: Vec<Footprint>,
    /// Bytes that ran of each line that was touched, in the mean; of 64.
    pub bytes_used_of_a_line: f64,
    /// Branches taken in 1,000 instructions; `None` where the source knows no order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_per_1000: Option<f64>,
    /// How well transitions fit the layout, 0 to 1.05 (LLVM's ext-TSP score over the number of transitions).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ext_tsp: Option<f64>,
    /// Lines fetched in 1,000 instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines_fetched_per_1000: Option<f64>,
    /// Of each structure that was simulated; empty where none was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub misses: Vec<Missed>,
    /// Of the 64 sets of a first level of 32 KiB, those with more lines than they hold among the lines of 99 % of the execution.
    pub crowded_sets: u32,
    /// Share of the instructions that are repetitions of one string instruction (`rep movs`).
    pub repeated_share: f64,
    /// By share, largest first.
    pub objects: Vec<ObjectShare>,
}

impl CodeLayout {
    /// Misses of a structure in 1,000 instructions, where it was simulated.
    pub fn missed(&self, structure: &str) -> Option<f64> {
        self.misses.iter().find(|missed| missed.structure == structure).map(|missed| missed.per_1000)
    }
}

/// Misses by counters of the machine's own structures, whatever they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// Executed instructions, of the kernel, too, unless the events say otherwise.
    pub instructions: u64,
    /// Of the L1i and the iTLB, as far as they were counted.
    pub misses: Vec<Missed>,
    /// What is to be known of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Slots of one core, thread or PMU, or why there are none, and what follows from them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Diagnosed {
    /// The core, thread or PMU, in the tool's words; `None` is all that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// What passed the rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<Slots>,
    /// What counters of misses said, where there are no slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<Counted>,
    /// How the code lies, where it was traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<CodeLayout>,
    /// What follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<LayoutVerdict>,
    /// Why nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl Diagnosed {
    /// Of a scope of which nothing is known yet.
    pub fn empty(scope: Option<String>) -> Self {
        Self { scope, slots: None, counted: None, layout: None, verdict: None, refused: None }
    }
}

/// An answer to "why does it stall?".
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// Where it comes from.
    pub evidence: Evidence,
    /// The file or program that it was read of.
    pub source: String,
    /// The share of the CPU that is user code of the program, of 1, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_share: Option<f64>,
    /// For each core, thread or PMU.
    pub parts: Vec<Diagnosed>,
    /// How slots moved, where it is of two measurements: the first half of the parts is before, the second after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shifts: Vec<Shift>,
    /// What threads did meanwhile: of a running process, or of samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched: Option<Watched>,
    /// What is to be known of how it came about.
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
        assert_eq!(worse.next_bottleneck(), None, "nothing stood in front of it");
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

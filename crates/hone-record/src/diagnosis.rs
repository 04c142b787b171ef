//! Why a CPU stalls, and whether a better layout of the code can help.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Watched;

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
    pub fn words(self) -> &'static str {
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
    pub fn words(self) -> &'static str {
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
        formatter.write_str(self.words())
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
pub enum Lever {
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

impl Lever {
    /// What to do, in words.
    pub fn words(self) -> &'static str {
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
    pub next: Lever,
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
    pub fn of(scope: Option<String>) -> Self {
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

    #[test]
    fn a_ceiling_is_a_bound_and_never_below_nothing() {
        let of = |ceiling_percent| LayoutVerdict {
            likelihood: Likelihood::Strong,
            rule: String::new(),
            source: String::new(),
            ceiling_percent,
            next: Lever::Layout,
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

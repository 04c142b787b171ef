//! Why a CPU stalls, and whether a better layout of the code can help.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a diagnosis comes from, best last. Diagnoses of two levels are never compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
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
            Self::Strong => "strong",
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
    /// program. `None` where one of them is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling_percent: Option<f64>,
    /// What to turn to next.
    pub next: Lever,
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
    /// What follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<LayoutVerdict>,
    /// Why nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_of_evidence_have_an_order_and_categories_two_levels() {
        assert!(Evidence::Sampled < Evidence::Simulated && Evidence::Simulated < Evidence::Measured);
        assert!(FetchLatency.is_level_2() && !SmtContention.is_level_2());
    }
}

//! Whether one cluster holds a flow that grows.

use serde::{Deserialize, Serialize};

use crate::batch_watch::CostInterval;
use crate::whatif::Foreseen;

/// Whether one cluster holds the flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlanAnswer {
    /// All that has a ceiling stays below it, over the whole interval.
    Holds,
    /// Something passes its ceiling, over the whole interval.
    DoesNotHold,
    /// An interval spans its ceiling, or the CPU is not known.
    Inconclusive,
}

/// A topic today and with the larger flow. Rates are each second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedTopic {
    /// Its name.
    pub topic: String,
    /// Batches today, as they were written.
    pub batches_now: f64,
    /// Batches where the same producers send more.
    pub batches_same_producers: Foreseen,
    /// Batches where new producers like today's send more.
    pub batches_new_producers: f64,
    /// Records of a batch in the mean, today.
    pub records_per_batch_now: f64,
    /// The same, where the same producers send more.
    pub records_per_batch_then: f64,
    /// Why its records can't be replayed: then its batches grow as with new producers, which is the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A kind of work of the whole cluster, each second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedWork {
    /// `requests`, `batches`, `records` or `bytes`.
    pub unit: String,
    /// Today: the mean of the history, or of the topics' windows where there is no history.
    pub now: f64,
    /// With the larger flow.
    pub then: Foreseen,
}

/// What the larger flow takes of something that can run out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedResource {
    /// `cpu` (cores of all brokers), `network-in`, `network-out` or `disk` (bytes a second of a broker).
    pub resource: String,
    /// Today.
    pub now: f64,
    /// At the mean flow.
    pub then: CostInterval,
    /// At the busiest point of the history, with the larger flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busiest: Option<CostInterval>,
    /// All that there is of it, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<f64>,
    /// Share of the ceiling that the mean flow may take; the busiest point may take all of it.
    pub most_share: f64,
    /// Whether it holds; `None` without a ceiling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<PlanAnswer>,
}

/// The same flow on several clusters: batches of each are today's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PlannedClusters {
    /// How many.
    pub clusters: f64,
    /// Cores of all of them.
    pub cores: CostInterval,
    /// Cores that one cluster saves.
    pub saved: CostInterval,
}

/// Something that is assumed, with what its ends make of the headline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanAssumption {
    /// In words.
    pub assumption: String,
    /// The headline at one end, and at the other.
    pub ends: [f64; 2],
    /// Unit of the headline: `cores`, or `batches/s` where the CPU is not known.
    pub unit: String,
}

/// Whether one cluster holds a flow that grows, and what that rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchPlan {
    /// The cluster.
    pub target: String,
    /// So many times today's flow.
    pub grow: f64,
    /// Whether new producers bring it; else the same producers send more.
    pub new_producers: bool,
    /// The answer.
    pub answer: PlanAnswer,
    /// Today and then.
    pub work: Vec<PlannedWork>,
    /// What it takes.
    pub resources: Vec<PlannedResource>,
    /// The alternative; `None` where the CPU is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<PlannedClusters>,
    /// What the answer rests on, that which moves the headline most first.
    pub assumptions: Vec<PlanAssumption>,
    /// Topics that were read.
    pub topics: Vec<PlannedTopic>,
    /// One thing to do that settles it, and how long that takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// What the answer leaves out or takes for granted.
    pub notes: Vec<String>,
}

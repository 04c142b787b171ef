//! Whether one cluster can carry a growing flow of records.

use serde::{Deserialize, Serialize};

use crate::batch_watch::CostInterval;
use crate::whatif::Foreseen;

/// Whether one cluster can carry the flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlanAnswer {
    /// Every resource stays below its ceiling, over the whole confidence interval.
    Holds,
    /// A resource passes its ceiling, over the whole confidence interval.
    DoesNotHold,
    /// A confidence interval spans its ceiling, or the CPU is unknown.
    Inconclusive,
}

/// A topic today and with the larger flow. All rates are per second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedTopic {
    /// Name of the topic.
    pub topic: String,
    /// Batches as they are written today.
    pub batches_now: f64,
    /// Batches if the same producers send more.
    pub batches_same_producers: Foreseen,
    /// Batches if new producers, like today's, send more.
    pub batches_new_producers: f64,
    /// Mean number of records per batch today.
    pub records_per_batch_now: f64,
    /// Mean number of records per batch if the same producers send more.
    pub records_per_batch_then: f64,
    /// Why the topic's records can't be replayed. Its batches then grow as with new producers, which is the upper bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A kind of work of the whole cluster, per second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedWork {
    /// `requests`, `batches`, `records` or `bytes`.
    pub unit: String,
    /// Rate today: the mean of the history, or of the topics' windows where the history is missing.
    pub now: f64,
    /// Rate with the larger flow.
    pub then: Foreseen,
}

/// How much of a limited resource the larger flow takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedResource {
    /// `cpu` (cores of all brokers), `network-in`, `network-out` or `disk` (bytes per second of a broker).
    pub resource: String,
    /// Use today.
    pub now: f64,
    /// Use at the mean flow.
    pub then: CostInterval,
    /// Use at the busiest point of the history, with the larger flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busiest: Option<CostInterval>,
    /// The ceiling of the resource, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<f64>,
    /// Share of the ceiling that the mean flow may take. The busiest point may take all of it.
    pub most_share: f64,
    /// Whether the resource suffices; `None` without a ceiling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<PlanAnswer>,
}

/// The same flow spread over several clusters. The batches of each cluster are today's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PlannedClusters {
    /// Number of clusters.
    pub clusters: f64,
    /// Cores of all clusters.
    pub cores: CostInterval,
    /// Cores that one cluster saves.
    pub saved: CostInterval,
}

/// An assumption, and the headline at each end of its range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanAssumption {
    /// The assumption, in words.
    pub assumption: String,
    /// The headline at the two ends of the range.
    pub ends: [f64; 2],
    /// Unit of the headline: `cores`, or `batches/s` where the CPU is unknown.
    pub unit: String,
}

/// Whether one cluster can carry a growing flow, with the basis of the answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchPlan {
    /// Name of the cluster.
    pub target: String,
    /// Factor on today's flow.
    pub grow: f64,
    /// Whether new producers bring the larger flow. If `false`, the same producers send more.
    pub new_producers: bool,
    /// The answer.
    pub answer: PlanAnswer,
    /// Work today and with the larger flow.
    pub work: Vec<PlannedWork>,
    /// Resources that the flow takes.
    pub resources: Vec<PlannedResource>,
    /// The alternative with several clusters; `None` where the CPU is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<PlannedClusters>,
    /// Assumptions of the answer, sorted by their effect on the headline.
    pub assumptions: Vec<PlanAssumption>,
    /// Topics that were read.
    pub topics: Vec<PlannedTopic>,
    /// One step that settles the answer, and how long it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Limits and simplifications of the answer.
    pub notes: Vec<String>,
}

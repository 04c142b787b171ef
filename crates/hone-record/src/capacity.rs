//! Windows at several rates or batch sizes: the curve, and the rate at which a target stops keeping its promise.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::metric::Metric;
use crate::window::Outcome;
use crate::workload::Workload;

/// One window of a curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Requests per second that were asked for.
    pub requests_per_s: f64,
    /// Records in each batch.
    pub records_per_batch: u32,
    /// Requests acknowledged per second.
    pub reached_requests_per_s: f64,
    /// Records acknowledged per second.
    pub reached_records_per_s: f64,
    /// How the window ended.
    pub outcome: Outcome,
    /// Every metric that the window can tell.
    pub values: BTreeMap<Metric, f64>,
    /// Whether the promise held; `None` where none was made, or the window can't tell.
    pub held: Option<bool>,
    /// Why it did not hold, or can't be told.
    pub why: Option<String>,
    /// The window's file, relative to the run's folder.
    pub window: String,
}

/// How a capacity is searched for; fixed before the first window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapacityDesign {
    /// What has to hold, for example `p99 <= 10.0 ms`.
    pub promise: Vec<String>,
    /// The first rate.
    pub start_requests_per_s: f64,
    /// No lower rate is tried: it would have too few samples for the promise.
    pub least_requests_per_s: f64,
    /// No higher rate is tried.
    pub most_requests_per_s: f64,
    /// Each step up multiplies by this, until the promise breaks.
    pub growth: f64,
    /// The ends of the interval come this near, as a ratio.
    pub precision: f64,
    /// Windows that an end of the interval has to hold, or to fail, all alike.
    pub confirmations: u32,
    /// Windows at most.
    pub most_windows: u32,
}

/// How a search ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityEnd {
    /// Both ends of the interval are confirmed.
    Found,
    /// Even the highest rate held.
    NotReached,
    /// Not even the lowest rate held.
    NothingHeld,
    /// Above the lower end the generator was late: it is the limit, not the target.
    GeneratorLate,
    /// The windows were used up before both ends were confirmed.
    OutOfWindows,
    /// The user ended it, or the target broke off.
    BrokenOff {
        /// What happened.
        why: String,
    },
}

/// The highest rate at which a target keeps a promise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// Name of the target.
    pub variant: String,
    /// Where the load went.
    pub address: String,
    /// The load; its rate and seed are those of the first window.
    pub workload: Workload,
    /// The design.
    pub design: CapacityDesign,
    /// Every window in the order it was measured.
    pub points: Vec<CurvePoint>,
    /// Highest rate that held in all of its windows.
    pub held_requests_per_s: Option<f64>,
    /// Lowest rate above it that failed in all of its windows.
    pub failed_requests_per_s: Option<f64>,
    /// How the search ended.
    pub end: CapacityEnd,
    /// The machine of the generator.
    pub machine: Machine,
}

/// What varies along a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CurveOver {
    /// Requests per second.
    Rate,
    /// Records in a batch, at the same records per second.
    RecordsPerBatch,
}

/// Windows along a line of rates or batch sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Name of the target.
    pub variant: String,
    /// Where the load went.
    pub address: String,
    /// The load; what varies is in the points.
    pub workload: Workload,
    /// What varies.
    pub over: CurveOver,
    /// Every window in the order it was measured.
    pub points: Vec<CurvePoint>,
    /// The machine of the generator.
    pub machine: Machine,
}

impl CurvePoint {
    /// Where the point lies on the axis.
    pub fn position(&self, over: CurveOver) -> f64 {
        match over {
            CurveOver::Rate => self.requests_per_s,
            CurveOver::RecordsPerBatch => f64::from(self.records_per_batch),
        }
    }
}

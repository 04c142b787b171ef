//! Windows at several rates or batch sizes: the curve, and the highest rate at which a target meets its SLO.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::metric::Metric;
use crate::window::Outcome;
use crate::workload::Workload;

/// One window of a curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Requested rate, in requests per second.
    pub requests_per_s: f64,
    /// Records in each batch.
    pub records_per_batch: u32,
    /// Requests acknowledged per second.
    pub reached_requests_per_s: f64,
    /// Records acknowledged per second.
    pub reached_records_per_s: f64,
    /// Outcome of the window.
    pub outcome: Outcome,
    /// Every metric that the window can provide.
    pub values: BTreeMap<Metric, f64>,
    /// Whether the SLO was met; `None` without an SLO, or if the window can't show it.
    pub held: Option<bool>,
    /// Why the SLO was missed, or why the window can't show it.
    pub why: Option<String>,
    /// The window's file, relative to the run's folder.
    pub window: String,
}

/// The design of a search for the capacity; fixed before the first window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapacityDesign {
    /// The SLO, for example `p99 <= 10.0 ms`.
    pub promise: Vec<String>,
    /// The first rate.
    pub start_requests_per_s: f64,
    /// Lowest rate of the search. A lower rate would have too few samples for the SLO.
    pub least_requests_per_s: f64,
    /// Highest rate of the search.
    pub most_requests_per_s: f64,
    /// Factor of each step up, until the SLO is missed.
    pub growth: f64,
    /// The search narrows the ends of the interval to this ratio.
    pub precision: f64,
    /// Windows at each end of the interval that must agree: all met, or all missed.
    pub confirmations: u32,
    /// Largest number of windows.
    pub most_windows: u32,
}

/// The end of a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityEnd {
    /// Both ends of the interval are confirmed.
    Found,
    /// The highest rate met the SLO.
    NotReached,
    /// The lowest rate missed the SLO.
    NothingHeld,
    /// Above the lower end the generator fell behind: the generator is the limit, not the target.
    GeneratorLate,
    /// The search used all its windows before both ends were confirmed.
    OutOfWindows,
    /// The user ended the search, or the target failed.
    BrokenOff {
        /// The reason.
        why: String,
    },
}

/// The highest rate at which a target meets an SLO.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// Name of the target.
    pub variant: String,
    /// Address of the load's target.
    pub address: String,
    /// The load. Its rate and seed are those of the first window.
    pub workload: Workload,
    /// The design.
    pub design: CapacityDesign,
    /// Every window in the order it was measured.
    pub points: Vec<CurvePoint>,
    /// Highest rate that met the SLO in all of its windows.
    pub held_requests_per_s: Option<f64>,
    /// Lowest rate above it that missed the SLO in all of its windows.
    pub failed_requests_per_s: Option<f64>,
    /// The end of the search.
    pub end: CapacityEnd,
    /// The machine of the generator.
    pub machine: Machine,
}

/// The quantity that varies along a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CurveOver {
    /// Requests per second.
    Rate,
    /// Records per batch, at the same records per second.
    RecordsPerBatch,
}

/// Windows at a series of rates or batch sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Name of the target.
    pub variant: String,
    /// Address of the load's target.
    pub address: String,
    /// The load; the points hold the quantity that varies.
    pub workload: Workload,
    /// The quantity that varies.
    pub over: CurveOver,
    /// Every window in the order it was measured.
    pub points: Vec<CurvePoint>,
    /// The machine of the generator.
    pub machine: Machine,
}

impl CurvePoint {
    /// Position of the point on the axis.
    pub fn position(&self, over: CurveOver) -> f64 {
        match over {
            CurveOver::Rate => self.requests_per_s,
            CurveOver::RecordsPerBatch => f64::from(self.records_per_batch),
        }
    }
}

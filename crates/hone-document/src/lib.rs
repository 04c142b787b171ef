//! Records and results as text: for a terminal, as Markdown, as CSV. The functions take values and return text; `hone` prints it.
//!
//! Each kind of record has a file. Code for one job alone is next to that job.

pub mod advice;
pub mod batch_cost;
pub mod batch_plan;
pub mod batch_watch;
pub mod client_settings;
pub mod comparison;
pub mod connection;
pub mod curve;
pub mod diagnosis;
pub mod doctor;
pub mod entries;
pub mod fetch;
pub mod fetch_xray;
pub mod go;
pub mod heat_blocks;
pub mod heatmap;
pub mod host;
pub mod host_lint;
pub mod ledger;
pub mod optimization;
pub mod plan;
pub mod profile;
pub mod saved;
pub mod selftest;
pub mod story;
pub mod table;
mod watched;
pub mod whatif;
pub mod xray;
pub mod zones;

pub use hone_report::{plain, wrapped};

/// A value of a metric with its unit.
pub fn metric_value(metric: hone_record::Metric, value: f64) -> String {
    hone_format::of_unit(value, metric.unit())
}

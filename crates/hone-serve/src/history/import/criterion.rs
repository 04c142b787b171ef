//! What criterion.rs keeps in `target/criterion/BENCHMARK/new`: `estimates.json` has the statistics, `benchmark.json` the name
//! (<https://github.com/bheisler/criterion.rs>, `src/estimate.rs` and `src/report.rs` of 0.5). The files do not state a unit; criterion's usual
//! measurement is in nanoseconds.

use serde::Deserialize;

use super::benchmark::{Benchmark, Fault, measure};

/// File with the statistics of a benchmark.
pub(super) const ESTIMATES: &str = "estimates.json";
/// File with the name of a benchmark.
pub(super) const BENCHMARK: &str = "benchmark.json";

#[derive(Deserialize)]
struct Estimates {
    mean: Estimate,
    slope: Option<Estimate>,
}

#[derive(Deserialize)]
struct Estimate {
    point_estimate: f64,
    confidence_interval: Interval,
}

#[derive(Deserialize)]
struct Interval {
    lower_bound: f64,
    upper_bound: f64,
}

#[derive(Deserialize)]
struct Identity {
    full_id: String,
}

/// The time that criterion prints: the slope, or the mean where it fitted no line.
///
/// # Errors
/// It is no such JSON.
pub(super) fn parse(estimates: &str, name: String) -> Result<Benchmark, Fault> {
    let found: Estimates = serde_json::from_str(estimates).map_err(|error| Fault::of_json(&error))?;
    let time = found.slope.unwrap_or(found.mean);
    let Interval { lower_bound, upper_bound } = time.confidence_interval;
    Ok(Benchmark {
        name,
        measure: measure("time", "ns", Some(true)),
        value: time.point_estimate,
        range: Some([lower_bound, upper_bound]),
        ..Benchmark::default()
    })
}

/// The name of a benchmark.
///
/// # Errors
/// It is no such JSON.
pub(super) fn name(benchmark: &str) -> Result<String, Fault> {
    let found: Identity = serde_json::from_str(benchmark).map_err(|error| Fault::of_json(&error))?;
    Ok(found.full_id)
}

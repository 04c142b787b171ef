//! What `hyperfine --export-json` writes. Version 1 has one object of figures for each command
//! (<https://github.com/sharkdp/hyperfine>, `src/benchmark/benchmark_result.rs` of v1.19). Version 2 has a summary of each metric, and states
//! `schema_version` 2 (release notes of v2.0.0).

use std::collections::BTreeMap;

use serde::Deserialize;

use super::benchmark::{Benchmark, Fault, measure};

/// The newest known schema.
const NEWEST: u64 = 2;

#[derive(Deserialize)]
struct Head {
    schema_version: Option<u64>,
}

#[derive(Deserialize)]
struct Export<T> {
    results: Vec<T>,
}

/// A command in version 1. All times are in seconds.
#[derive(Deserialize)]
struct Timed {
    command: String,
    mean: f64,
    user: Option<f64>,
    system: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    #[serde(default)]
    times: Vec<Option<f64>>,
}

/// A command in version 2.
#[derive(Deserialize)]
struct Measured {
    command: String,
    name: Option<String>,
    summary: BTreeMap<String, Summary>,
}

#[derive(Deserialize)]
struct Summary {
    unit: String,
    #[serde(default)]
    count: usize,
    mean: f64,
    min: Option<f64>,
    max: Option<f64>,
}

/// The means of each command: its times, and in version 2 all metrics. All of them are costs, so a smaller value is better.
///
/// # Errors
/// It is no such JSON.
pub(super) fn parse(text: &str) -> Result<Vec<Benchmark>, Fault> {
    let head: Head = read(text)?;
    match head.schema_version {
        None | Some(0..=1) => Ok(read::<Export<Timed>>(text)?.results.iter().flat_map(timed).collect()),
        Some(NEWEST) => Ok(read::<Export<Measured>>(text)?.results.iter().flat_map(measured).collect()),
        Some(newer) => Err(Fault::new(format!(
            "the schema version {newer} is newer than {NEWEST}, the newest known one"
        ))),
    }
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|error| Fault::of_json(&error))
}

/// The figures of version 1, under the names of version 2.
fn timed(found: &Timed) -> Vec<Benchmark> {
    let benchmark = |metric: &str, value: f64, range| Benchmark {
        name: found.command.clone(),
        measure: measure(metric, "s", Some(true)),
        value,
        range,
        runs: found.times.len(),
        ..Benchmark::default()
    };
    let wall = benchmark("time_wall_clock", found.mean, found.min.zip(found.max).map(<[f64; 2]>::from));
    let cpu = [("time_user", found.user), ("time_system", found.system)];
    let cpu = cpu.into_iter().filter_map(|(metric, value)| Some(benchmark(metric, value?, None)));
    std::iter::once(wall).chain(cpu).collect()
}

fn measured(found: &Measured) -> Vec<Benchmark> {
    let benchmark = |(metric, summary): (&String, &Summary)| Benchmark {
        name: found.name.clone().unwrap_or_else(|| found.command.clone()),
        measure: measure(metric, short(&summary.unit), Some(true)),
        value: summary.mean,
        range: summary.min.zip(summary.max).map(<[f64; 2]>::from),
        runs: summary.count,
        ..Benchmark::default()
    };
    found.summary.iter().map(benchmark).collect()
}

/// The sign of a unit.
fn short(unit: &str) -> &str {
    match unit {
        "second" => "s",
        "byte" => "B",
        unit => unit,
    }
}

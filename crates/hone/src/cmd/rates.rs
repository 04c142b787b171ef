//! Options for loads at many rates: the search for a capacity, and sweeps.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use hone_host::observe;
use hone_record::{Body, CapacityDesign, CapacityEnd, CurveOver, Schedule, Workload};
use hone_report::{Document, documents};

use crate::cmd::context::{CliContext, default_runs};
use hone_experiment::aim::Aim;
use hone_experiment::curve::{CAPACITY_FILE, CURVE_FILE, Course, Stop};
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::folder::RunFolder;
use hone_experiment::require::{Rule, promise};

/// More than one rate.
#[derive(Debug, Args)]
#[command(next_help_heading = "Many rates")]
pub(crate) struct RateOptions {
    /// Search for the highest rate at which --slo holds, from --rate on: up by a factor, then between, then both ends
    /// confirmed, each window on a fresh topic.
    #[arg(long, requires = "slo", conflicts_with_all = SINGLE)]
    find_capacity: bool,
    /// What has to hold: p99=10ms, or p99=10ms,p99.9=50ms, or any rule of --require.
    #[arg(long, value_name = "RULES", value_delimiter = ',', value_parser = promise, requires = "find_capacity")]
    slo: Vec<Rule>,
    /// Windows that each end of the interval has to hold, or to fail, all alike.
    #[arg(long, value_name = "WINDOWS", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    confirmations: u32,
    /// How near the ends of the interval come, as a ratio.
    #[arg(long, value_name = "RATIO", default_value_t = 1.05)]
    precision: f64,
    /// Windows of a search at most.
    #[arg(long, value_name = "WINDOWS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_windows: u32,
    /// Highest rate of a search.
    #[arg(long, value_name = "REQUESTS_PER_S", default_value_t = 1e6)]
    max_rate: f64,
    /// One window at each of these rates: 1000,2000,4000.
    #[arg(long, value_name = "RATES", value_delimiter = ',', conflicts_with_all = SINGLE, conflicts_with = "find_capacity")]
    sweep_rate: Vec<f64>,
    /// One window at each of these batch sizes, at the same records/s (--rate times --records): 1,2,5,10,20,50,100.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000), conflicts_with_all = SINGLE, conflicts_with_all = ["find_capacity", "sweep_rate"])]
    sweep_records: Vec<u32>,
    /// Windows at each point of a sweep, all points in random order each time.
    #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    repeats: u32,
    /// Where the folder of a search or a sweep is made.
    #[arg(long, value_name = "FOLDER", default_value_os_t = default_runs())]
    runs: PathBuf,
}

/// What belongs to a single window.
const SINGLE: [&str; 11] =
    ["topic", "output", "series", "hgrm", "raw", "require", "shard", "store", "emit", "commit", "idle"];

impl RateOptions {
    /// Whether more than one window is asked for.
    pub(crate) fn are_asked_for(&self) -> bool {
        self.find_capacity || !self.sweep_rate.is_empty() || !self.sweep_records.is_empty()
    }

    /// Measures, shows and keeps what was asked for.
    pub(crate) fn run(&self, aim: &Aim, workload: &Workload, cli: &CliContext) -> Result<Ending> {
        check_schedule(&workload.schedule)?;
        let design = self.find_capacity.then(|| self.design(workload)).transpose()?;
        let stops = self.stops(workload)?;
        let name = if self.find_capacity { "capacity" } else { "curve" };
        let folder = RunFolder::create(&self.runs, name)?;
        let _held = folder.held()?;
        cli.progress.line(&format!("windows go to {}", folder.path().display()));
        let machine = observe::machine(std::path::Path::new("/"));
        let (progress, point_line) = (&cli.progress, hone_document::curve::point_line);
        let course = Course { aim, workload, folder: &folder, machine, progress, point_line };
        if let Some(design) = design {
            let found = course.capacity(design, &self.slo)?;
            let ending = match found.end {
                CapacityEnd::Found | CapacityEnd::NotReached => Ending::Done,
                CapacityEnd::NothingHeld => Ending::Worse,
                _ => Ending::CouldNot,
            };
            keep_and_show(&folder, CAPACITY_FILE, found, documents::capacity, cli)?;
            return Ok(ending);
        }
        let over = if self.sweep_rate.is_empty() { CurveOver::RecordsPerBatch } else { CurveOver::Rate };
        let (curve, broken_off) = course.sweep(over, &stops)?;
        keep_and_show(&folder, CURVE_FILE, curve, documents::curve, cli)?;
        broken_off.map_or(Ok(Ending::Done), Err)
    }

    fn design(&self, workload: &Workload) -> Result<CapacityDesign> {
        if !(self.precision > 1.001 && self.precision <= 2.0) {
            bail!(Usage(format!("--precision must lie between 1.001 and 2, got {}", self.precision)));
        }
        let needed = self.slo.iter().map(Rule::samples_needed).max().unwrap_or(0) as f64;
        // A Poisson window has fewer than asked for now and then, but not by five standard deviations.
        let least_requests_per_s = ((needed + 5.0 * needed.sqrt()) / workload.duration_s).max(1.0);
        if workload.requests_per_s < least_requests_per_s {
            bail!(Usage(format!(
                "the promise needs {needed} requests a window: {} requests/s for {} s are too few; begin with --rate {} or \
                 take a longer --duration",
                workload.requests_per_s,
                workload.duration_s,
                least_requests_per_s.ceil()
            )));
        }
        if !(self.max_rate >= workload.requests_per_s && self.max_rate <= 1e7) {
            bail!(Usage(format!("--max-rate must lie between --rate and 1e7, got {}", self.max_rate)));
        }
        Ok(CapacityDesign {
            promise: self.slo.iter().map(Rule::to_string).collect(),
            start_requests_per_s: workload.requests_per_s,
            least_requests_per_s,
            most_requests_per_s: self.max_rate,
            growth: 2.0,
            precision: self.precision,
            confirmations: self.confirmations,
            most_windows: self.max_windows,
        })
    }

    /// The windows of a sweep, each checked before the first one is measured.
    fn stops(&self, workload: &Workload) -> Result<Vec<Stop>> {
        let records_per_s = workload.requests_per_s * f64::from(workload.records_per_batch);
        let rates = self
            .sweep_rate
            .iter()
            .map(|rate| Stop { requests_per_s: *rate, records_per_batch: workload.records_per_batch });
        let sizes = self.sweep_records.iter().map(|records| Stop {
            requests_per_s: records_per_s / f64::from(*records),
            records_per_batch: *records,
        });
        let once: Vec<Stop> = rates.chain(sizes).collect();
        for stop in &once {
            hone_load::check(&Workload {
                requests_per_s: stop.requests_per_s,
                records_per_batch: stop.records_per_batch,
                ..workload.clone()
            })?;
        }
        let mut order = Vec::new();
        for round in 0..u64::from(self.repeats) {
            order.extend(shuffled(&once, workload.seed.wrapping_add(round)));
        }
        Ok(order)
    }
}

/// Each window has a rate of its own, which a schedule with rates of its own would not follow: the same load would stand at every
/// point.
fn check_schedule(schedule: &Schedule) -> Result<()> {
    match schedule {
        Schedule::Poisson | Schedule::Uniform | Schedule::Bursts { .. } => Ok(()),
        Schedule::Ramp { .. } | Schedule::Steps { .. } | Schedule::Climb(_) | Schedule::Replay { .. } => bail!(Usage(
            "a search and a sweep set the rate of each window, and this load's schedule has rates of its own: leave out --schedule (in a file \
             `schedule`), or take poisson, uniform or bursts"
                .to_owned()
        )),
    }
}

/// In an order that a slow drift of the machine does not follow (Fisher and Yates, by SplitMix64).
fn shuffled(stops: &[Stop], seed: u64) -> Vec<Stop> {
    let mut state = seed;
    let mut order = stops.to_vec();
    for last in (1..order.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        order.swap(last, ((u128::from(mixed) * (last as u128 + 1)) >> 64) as usize);
    }
    order
}

fn keep_and_show<T: Body + Clone>(
    folder: &RunFolder,
    name: &str,
    record: T,
    document: impl FnOnce(&T) -> Document,
    cli: &CliContext,
) -> Result<()> {
    let kept = folder.write_record(name, record.clone());
    // Shown even when it could not be kept: it is measured.
    cli.show_document(record, document, "")?;
    let page = hone_serve::page::write(&kept?, None)?;
    cli.progress.line(&format!("report: {}", page.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_a_rule_in_short() {
        for (text, written) in [
            ("p99=10ms", "p99 <= 10.0 ms"),
            ("p99.9<50ms", "p99.9 < 50.0 ms"),
            ("records>=5", "records >= 5.00/s"),
        ] {
            assert_eq!(promise(text).unwrap().to_string(), written);
        }
        assert!(promise("p99").is_err() && promise("p99=ten").is_err());
    }

    #[test]
    fn every_stop_comes_once_a_round() {
        let stops: Vec<Stop> =
            (1..=20).map(|records_per_batch| Stop { requests_per_s: 1.0, records_per_batch }).collect();
        let mut order = shuffled(&stops, 5);
        assert_ne!(order, stops);
        assert_ne!(order, shuffled(&stops, 6));
        order.sort_by_key(|stop| stop.records_per_batch);
        assert_eq!(order, stops);
    }
}

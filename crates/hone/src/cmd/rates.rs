//! Options for loads at several rates: the capacity search and the sweeps.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use hone_cli::values::rate;
use hone_host::observe;
use hone_record::{Body, CapacityDesign, CapacityEnd, CurveOver, Workload};
use hone_report::{Document, documents};

use crate::cmd::context::{CliContext, ReportOptions, default_runs};
use hone_experiment::aim::Aim;
use hone_experiment::curve::{CAPACITY_FILE, CURVE_FILE, Course, capacity_design, check_schedule, stops};
use hone_experiment::ending::Ending;
use hone_experiment::folder::RunFolder;
use hone_experiment::require::{Rule, promise};

/// Options of a search or a sweep.
#[derive(Debug, Args)]
#[command(next_help_heading = "Search and sweep")]
pub(crate) struct RateOptions {
    /// Search for the highest rate at which --slo holds. The search starts at --rate. Each window uses a new topic.
    #[arg(long, requires = "slo", conflicts_with_all = SINGLE)]
    find_capacity: bool,
    /// SLO: the latency goal that must hold, for example `p99=10ms`. Separate several rules with commas, for example p99=10ms,p99.9=50ms.
    /// Every rule of --require is valid.
    #[arg(long, value_name = "RULES", value_delimiter = ',', value_parser = promise, requires = "find_capacity")]
    slo: Vec<Rule>,
    /// Windows that confirm each end of the range. The SLO must hold in all at the lower end, and break in all at the upper.
    #[arg(long, value_name = "WINDOWS", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    confirmations: u32,
    /// Ratio between the two ends of the range at which the search stops.
    #[arg(long, value_name = "RATIO", default_value_t = 1.05)]
    precision: f64,
    /// Windows of the search at most.
    #[arg(long, value_name = "WINDOWS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_windows: u32,
    /// Highest rate of the search.
    #[arg(long, value_name = "REQUESTS_PER_S", value_parser = rate, default_value = "1M")]
    max_rate: f64,
    /// Measure one window at each of these rates. Example: `1000,2000,4000`.
    #[arg(long, value_name = "RATES", value_delimiter = ',', value_parser = rate, conflicts_with_all = SINGLE, conflicts_with = "find_capacity")]
    sweep_rate: Vec<f64>,
    /// Measure one window at each of these records per batch. Example: `1,10,100`. The records/s stay the same: --rate times --records.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000), conflicts_with_all = SINGLE, conflicts_with_all = ["find_capacity", "sweep_rate"])]
    sweep_records: Vec<u32>,
    /// Number of repeats. A sweep measures all its points this many times, each time in another random order.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    repeats: u32,
    /// Folder for the runs. Hone creates a folder in it for each load without --output, and for each search and sweep.
    #[arg(long, value_name = "FOLDER", default_value_os_t = default_runs())]
    pub(crate) runs: PathBuf,
    #[command(flatten)]
    pub(crate) report: ReportOptions,
}

/// Options that apply to a single window only.
const SINGLE: [&str; 11] =
    ["topic", "output", "series", "hgrm", "raw", "require", "shard", "store", "emit", "commit", "idle"];

impl RateOptions {
    /// Whether the options ask for a search or a sweep.
    pub(crate) fn are_asked_for(&self) -> bool {
        self.find_capacity || !self.sweep_rate.is_empty() || !self.sweep_records.is_empty()
    }

    /// Runs the search or the sweep, shows the result and writes its record.
    pub(crate) fn run(&self, aim: &Aim, workload: &Workload, cli: &CliContext) -> Result<Ending> {
        check_schedule(&workload.schedule)?;
        let design = self
            .find_capacity
            .then(|| capacity_design(self.design(workload), &self.slo, workload))
            .transpose()?;
        let stops = stops(&self.sweep_rate, &self.sweep_records, self.repeats, workload)?;
        let name = if self.find_capacity { "capacity" } else { "curve" };
        let folder = RunFolder::create(&self.runs, name)?;
        let _held = folder.held()?;
        cli.progress.line(&format!("writing the windows to {}", folder.path().display()));
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
            self.keep_and_show(&folder, CAPACITY_FILE, found, documents::capacity, cli)?;
            return Ok(ending);
        }
        let over = if self.sweep_rate.is_empty() { CurveOver::RecordsPerBatch } else { CurveOver::Rate };
        let (curve, broken_off) = course.sweep(over, &stops)?;
        self.keep_and_show(&folder, CURVE_FILE, curve, documents::curve, cli)?;
        broken_off.map_or(Ok(Ending::Done), Err)
    }

    fn design(&self, workload: &Workload) -> CapacityDesign {
        CapacityDesign {
            promise: Vec::new(),
            start_requests_per_s: workload.requests_per_s,
            least_requests_per_s: 0.0,
            most_requests_per_s: self.max_rate,
            growth: 2.0,
            precision: self.precision,
            confirmations: self.confirmations,
            most_windows: self.max_windows,
        }
    }

    fn keep_and_show<T: Body + Clone>(
        &self,
        folder: &RunFolder,
        name: &str,
        record: T,
        document: impl FnOnce(&T) -> Document,
        cli: &CliContext,
    ) -> Result<()> {
        let places = folder.write_record(name, record.clone()).and_then(|kept| self.report.write(&kept));
        // Hone shows the result even if the record could not be written, because the measurement exists.
        cli.show_document(record, document, &format!("\n{}", places.as_deref().unwrap_or_default()))?;
        places.map(|_| ())
    }
}

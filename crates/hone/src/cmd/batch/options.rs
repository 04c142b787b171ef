//! Options of the verbs that measure steps (rule, pairs, load, connection), and the settings that they make.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use hone_record::{Metric, Mode};

use crate::cmd::context::{CliContext, ReportOptions, default_runs};
use hone_cli::connection::SecurityOptions;
use hone_cli::values::metric;
use hone_cli::workload::WorkloadOptions;
use hone_experiment::ending::Usage;
use hone_experiment::meter::Metrics;
use hone_experiment::settings::ComparisonSettings;
use hone_experiment::spec::WorkloadFile;
use hone_experiment::{arm, require};
use hone_tune::batch::prove::ProofSettings;
use hone_tune::batch::step::Step;

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(in crate::cmd) enum ModeName {
    Solo,
    Duet,
}

impl From<ModeName> for Mode {
    fn from(name: ModeName) -> Self {
        match name {
            ModeName::Solo => Self::Solo,
            ModeName::Duet => Self::Duet,
        }
    }
}

/// Options for the measurement and the verdict of each step.
#[derive(Debug, Args)]
pub(super) struct ProofOptions {
    /// Metric that decides the verdict. [default: busy-per-record with --metrics, else cpu-per-record if Hone can read the broker's CPU, else
    /// latency-p50]
    #[arg(long, value_name = "METRIC", value_parser = metric)]
    pub(super) primary: Option<Metric>,
    /// Metric that must not get worse; repeat it for several. [default: latency-p99, with consumers end-to-end-p99, too; none if a --require
    /// limits a latency]
    #[arg(long = "guard-metric", alias = "guard", value_name = "METRIC", value_parser = metric)]
    pub(super) guards: Vec<Metric>,
    /// Requirement that the result must meet; repeat it for several. Examples: `p99<50ms`, `errors<0.1%`, `lag<=1000`. A longer linger may add
    /// latency while the requirement holds.
    #[arg(long, value_name = "RULE", value_parser = require::as_written)]
    pub(super) require: Vec<String>,
    /// Number of A/B pairs, at least 5. Each step has this many pairs.
    #[arg(long, default_value_t = 8, value_name = "PAIRS")]
    pub(super) pairs: u32,
    /// A/A control pairs, at least 5; 0 skips the control. Each step has this many control pairs.
    #[arg(long, default_value_t = 5, value_name = "PAIRS")]
    pub(super) control_pairs: u32,
    /// How the two windows of a pair run: `solo` (one after the other) or `duet` (both at once). `solo` shows the true latencies. `duet`
    /// resists noisy neighbours.
    #[arg(long, value_enum, default_value = "solo", value_name = "MODE")]
    pub(super) mode: ModeName,
    #[command(flatten)]
    pub(super) comparison: ComparisonSettings,
    /// Where to write the result. Hone creates the run's folder and the ledger in this folder.
    #[arg(short, long, value_name = "PATH", default_value_os_t = default_runs())]
    pub(super) output: PathBuf,
    #[command(flatten)]
    pub(super) report: ReportOptions,
    #[command(flatten)]
    pub(super) metrics: Metrics,
    #[command(flatten)]
    pub(super) workload: WorkloadOptions,
    #[command(flatten)]
    pub(super) security: SecurityOptions,
}

impl ProofOptions {
    /// The settings of a run with these steps. Without a target, Hone starts an embedded broker.
    pub(super) fn asked(
        &self,
        target: Option<&str>,
        steps: Vec<Step>,
        cli: &CliContext,
    ) -> Result<ProofSettings> {
        let (shown, place) = match target {
            Some(target) => (target.to_owned(), target.to_owned()),
            None => ("an embedded broker".to_owned(), arm::embedded()?),
        };
        // The run measures the batches, so a real client must make them.
        let file = WorkloadFile { client: "librdkafka".to_owned(), ..WorkloadFile::default() };
        let workload = self.workload.over(file, |argument| cli.is_given(argument))?;
        let workload = workload.named("prove").map_err(Usage)?;
        let guards = match &self.guards[..] {
            [] => require::latency_guards(&require::read(&self.require)?, &workload),
            guards => guards.to_vec(),
        };
        let metrics = self.security.metrics(&self.metrics)?;
        metrics.check()?;
        self.comparison.check_timeouts()?;
        let is_program = !arm::is_address(&place);
        let mode_is_duet = matches!(self.mode, ModeName::Duet);
        if mode_is_duet && !is_program {
            bail!(Usage(format!(
                "--mode duet needs a command that starts the broker, but {place} is a running broker\n  \
                 next: use --mode solo"
            )));
        }
        let halves = mode_is_duet.then(|| {
            "Both states ran at once, each on half of the machine. Differences are right, but latencies are \
             those of half a machine."
                .to_owned()
        });
        let others = (!is_program).then(|| {
            format!(
                "The CPU of {shown} covers all of its work. If other clients load it, too, CPU per record \
                 understates the change."
            )
        });
        let limits = halves.into_iter().chain(others).collect();
        // This is the embedded broker's default durability. A topic's own properties can change it.
        let storage = match target {
            None if !cli.is_given("storage") => "fsync before an acknowledgement".to_owned(),
            _ => self.workload.storage.clone(),
        };
        Ok(ProofSettings {
            target: shown,
            load: format!(
                "{} records/s of {} by {} producers to {} partitions",
                hone_format::exact(workload.requests_per_s),
                hone_report::load::records_text(&workload),
                workload.connections,
                workload.partitions
            ),
            place,
            working_folder: std::env::current_dir().context("the working folder is gone")?,
            workload,
            steps,
            primary: self.primary.unwrap_or_else(|| metrics.decides()),
            require: self.require.clone(),
            pairs: self.pairs,
            control_pairs: self.control_pairs,
            mode: self.mode.into(),
            keep_topics: false,
            topic_prefix: hone_experiment::topics::prefix("prove"),
            limits,
            is_card: false,
            standing: None,
            metrics,
            today: None,
            unlike: false,
            comparison: ComparisonSettings {
                guards,
                storage,
                lateness_limit_us: self.workload.lateness_limit_us(),
                ..self.comparison.clone()
            },
        })
    }
}

//! Options of what measures steps: the rule, the pairs, the load, the way to the broker; and what they ask for.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use hone_record::{Metric, Mode};

use crate::cmd::context::{CliContext, default_runs};
use crate::cmd::security::SecurityOptions;
use crate::cmd::workload::WorkloadOptions;
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

/// How steps are measured and judged.
#[derive(Debug, Args)]
pub(super) struct ProofOptions {
    /// The metric that decides: busy-per-record with --metrics, else cpu-per-record where the broker's CPU can be read, else latency-p50.
    #[arg(long, value_parser = metric)]
    pub(super) primary: Option<Metric>,
    /// A metric that must not get worse; may be repeated. latency-p99 unless --guard names others, or a --require limits a latency.
    #[arg(long = "guard", value_parser = metric)]
    pub(super) guards: Vec<Metric>,
    /// What the windows of a step have to meet, as in `hone load`: p99<50ms, errors<0.1%, lag<=1000; may be repeated. A linger may cost
    /// what it waits as long as this holds.
    #[arg(long, value_name = "RULE", value_parser = require::as_written)]
    pub(super) require: Vec<String>,
    /// Pairs of windows for each step, at least 5.
    #[arg(long, default_value_t = 8)]
    pub(super) pairs: u32,
    /// A/A pairs for each step, at least 5; 0 goes without a control.
    #[arg(long, default_value_t = 5)]
    pub(super) control_pairs: u32,
    /// One window after the other (the true size of a latency), or both at once (steadier beside neighbours, but each arm has half of
    /// the machine).
    #[arg(long, value_enum, default_value = "solo")]
    pub(super) mode: ModeName,
    #[command(flatten)]
    pub(super) comparison: ComparisonSettings,
    /// Folder under which the run's folder is made; the ledger lies there.
    #[arg(short, long, value_name = "FOLDER", default_value_os_t = default_runs())]
    pub(super) output: PathBuf,
    #[command(flatten)]
    pub(super) metrics: Metrics,
    #[command(flatten)]
    pub(super) workload: WorkloadOptions,
    #[command(flatten)]
    pub(super) security: SecurityOptions,
}

/// One of the metrics, by its name.
pub(in crate::cmd) fn metric(name: &str) -> Result<Metric, String> {
    let known = || Metric::ALL.map(Metric::name).join(", ");
    Metric::from_name(name).ok_or_else(|| format!("unknown metric `{name}`; there are: {}", known()))
}

impl ProofOptions {
    /// What the options say, with these steps; against an embedded broker where no target is named.
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
        // The batch is the question, so it has to be an output: a real client makes it.
        let file = WorkloadFile { client: "librdkafka".to_owned(), ..WorkloadFile::default() };
        let workload = self.workload.over(file, |argument| cli.is_given(argument))?;
        let workload = workload.named("prove").map_err(Usage)?;
        let guards = match &self.guards[..] {
            [] if !require::say_how_late(&require::read(&self.require)?) => vec![Metric::LatencyP99],
            guards => guards.to_vec(),
        };
        self.metrics.check()?;
        self.comparison.check_timeouts()?;
        let is_program = !arm::is_address(&place);
        let mode_is_duet = matches!(self.mode, ModeName::Duet);
        if mode_is_duet && !is_program {
            bail!(Usage(format!("{place} runs already and can't be in two states at once: use --mode solo")));
        }
        let halves = mode_is_duet.then(|| {
            "Both states were loaded at once, each on half of the machine: differences are right, latencies are those of half a machine."
                .to_owned()
        });
        let others = (!is_program).then(|| {
            format!(
                "The CPU of {shown} covers all of its work. If other clients load it too, CPU per record shows less of the change than there is."
            )
        });
        let limits = halves.into_iter().chain(others).collect();
        // Its default class; a topic's own properties say when it is another.
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
            primary: self.primary.unwrap_or_else(|| self.metrics.decides()),
            require: self.require.clone(),
            pairs: self.pairs,
            control_pairs: self.control_pairs,
            mode: self.mode.into(),
            keep_topics: false,
            topic_prefix: hone_experiment::topics::prefix("prove"),
            limits,
            is_card: false,
            standing: None,
            metrics: self.metrics.clone(),
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

//! `hone host try`: measures which settings of this host help under a load.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use hone_host::commit::Turn;
use hone_host::profile::Profile;
use hone_load::Security;
use hone_record::{HostTrial, Metric, Verdict, Workload};
use hone_report::documents;

use super::apply::time;
use super::plan::On;
use crate::cmd::context::{CliContext, ReportOptions, default_runs};
use hone_cli::connection::SecurityOptions;
use hone_cli::values::metric;
use hone_cli::workload::WorkloadOptions;
use hone_experiment::arm;
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::folder::{RunFolder, is_named, to_resume};
use hone_experiment::host_plan::HostView;
use hone_experiment::notation::Seconds;
use hone_experiment::settings::ComparisonSettings;
use hone_experiment::settle;
use hone_experiment::spec::Acks;
use hone_tune::host::candidate::{Given, Sorted, sorted};
use hone_tune::host::service::{Service, load};
use hone_tune::host::trial::{HostTrialSettings, sweep};
use hone_tune::host::trial_run::{begin, limits, measured, resume, wanted};

/// Measure under a load which settings of a profile help here.
///
/// Hone tests each setting alone, in rounds of random order with an A/A control. It saves each old value to disk before it writes, rolls back
/// after each window, and restores all values even if this run is killed.
///
/// The load goes to --target: a broker (HOST:PORT), or a command with {port} and {data}. Settings for new memory or new sockets need a target
/// that Hone starts.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone host try latency --target 127.0.0.1:9092 --data /var/lib/kafka \\
    --rate 2000 --duration 10s
  hone host try --set vm.dirty_background_ratio=5 --set queue.nr_requests=32 \\
    --data /var/lib/kafka --target 127.0.0.1:9092
  hone host try field-guide --data /srv/data --dry-run
  hone host try kafka-page-cache --data /srv/data --keep
  hone host try field-guide --factorial 1,all --data /srv/data
  hone host try --resume runs/host-try-001

Exit code 3: no setting was better, and at least one was worse.")]
pub(crate) struct Arguments {
    /// Profile with the settings to test. One of field-guide, redpanda, kafka-page-cache, latency, throughput, or your own TOML file.
    /// [default: latency; none with --set]
    #[arg(value_name = "PROFILE")]
    profile: Option<String>,
    /// Knob and the value to test; repeat it for several. It replaces the value of the profile.
    #[arg(long = "set", value_name = "KNOB=VALUE")]
    sets: Vec<String>,
    #[command(flatten)]
    on: On,
    /// Target of the load: broker (HOST:PORT), command that starts one, or experiment file. [default: an embedded broker with its data below
    /// --data]
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
    /// Program (executable file). It is the finished build of the experiment file in --target.
    #[arg(long, value_name = "FILE", requires = "target")]
    program: Option<PathBuf>,
    /// Acks values (0, 1, all) for which to test all settings together. The result has a row for each durability class, and no verdict across
    /// classes.
    #[arg(long, value_name = "ACKS,...", value_delimiter = ',', conflicts_with_all = ["acks", "keep"])]
    factorial: Vec<Acks>,
    /// Include knobs that cannot matter on this host. Without it, Hone names and skips them.
    #[arg(long)]
    all: bool,
    /// Keep the settings that helped, if they also help together. Hone measures them together once more. They stay in force until
    /// --confirm-within ends, or permanently with `hone host confirm`.
    #[arg(long)]
    keep: bool,
    /// Time to confirm the change before Hone rolls it back. Only with --keep.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10m")]
    confirm_within: Duration,
    /// Show what would happen, and change nothing. Hone prints the tests, the writes and the duration.
    #[arg(long)]
    dry_run: bool,
    /// Continue an interrupted run. Give the TLS and login options again, because Hone does not save them.
    #[arg(long, value_name = "RUN", num_args = 0..=1, conflicts_with_all = ["profile", "sets", "target", "dry_run"])]
    resume: Option<Option<PathBuf>>,
    /// Print the result as Markdown.
    #[arg(long)]
    markdown: bool,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    workload: WorkloadOptions,
    #[command(flatten)]
    security: SecurityOptions,
}

/// Options for the measurement and the verdict of each setting.
#[derive(Debug, Args)]
#[command(next_help_heading = "Measuring")]
struct How {
    /// Metric that decides the verdict. [default: latency-p99; cpu-per-record for a load of operations]
    #[arg(long, value_name = "METRIC", value_parser = metric)]
    primary: Option<Metric>,
    /// Metric that must not get worse; repeat it for several. [default: latency-p50; throughput for a load of operations]
    #[arg(long = "guard-metric", alias = "guard-rail", value_name = "METRIC", value_parser = metric)]
    guards: Vec<Metric>,
    /// Number of rounds, at least 5.
    #[arg(long, default_value_t = 10, value_name = "N")]
    rounds: u32,
    /// Pause between a write and the load. A write of the scheduler stops the disk's queue for 20 to 40 ms.
    #[arg(long, default_value = "1s", value_name = "TIME")]
    settle: Seconds,
    /// Time after which the rollback watchdog restores the host if this run has died. [default: long enough for one window]
    #[arg(long = "watchdog-timeout", alias = "guard", value_name = "TIME", value_parser = time)]
    guard: Option<Duration>,
    #[command(flatten)]
    comparison: ComparisonSettings,
    /// Where to write the result. Hone creates the run's folder and the ledger in this folder.
    #[arg(short, long, value_name = "PATH", default_value_os_t = default_runs())]
    output: PathBuf,
    #[command(flatten)]
    report: ReportOptions,
}

/// The longest pause between windows, in seconds.
const LONGEST_SETTLE_S: f64 = 600.0;

pub(crate) fn run(arguments: &Arguments, root: &Path, cli: &CliContext) -> Result<Ending> {
    let security = arguments.security.security()?;
    if let Some(named) = &arguments.resume {
        let more = ["markdown", "root", "ledger", "output"];
        cli.goes_on(if named.is_some() { &more[..3] } else { &more })?;
        let is_one = |path: &Path| is_named(path, "host-try");
        let folder =
            RunFolder::open(&to_resume(named.as_deref(), &arguments.how.output, "host try", is_one)?)?;
        let asked = resume(&folder, &security)?;
        return go(&asked, &folder, (arguments.markdown, arguments.how.report), &security, cli);
    }
    // Settings of a killed run or of another run are not the host's own values.
    let turn = if arguments.dry_run { None } else { Some(Turn::take(root)?) };
    if turn.is_some() {
        sweep(root, &cli.progress)?;
    }
    let mut asked = asked(arguments, root, cli)?;
    asked.check()?;
    if arguments.dry_run {
        return cli.show_found("host-try-plan", &asked, hone_tune::host::plan_text::dry);
    }
    let folder = begin(&mut asked, &arguments.how.output, &security)?;
    drop(turn);
    go(&asked, &folder, (arguments.markdown, arguments.how.report), &security, cli)
}

/// Measures the remaining rounds, and shows all results.
fn go(
    asked: &HostTrialSettings,
    folder: &RunFolder,
    (markdown, report): (bool, ReportOptions),
    security: &Security,
    cli: &CliContext,
) -> Result<Ending> {
    let (trial, record) = measured(asked, folder, security, &cli.progress)?;
    let behind = report.write(&record)? + &settle::host_trial(&trial, folder.path());
    let ending = ending(&trial);
    let document = |trial: &HostTrial| documents::host_trial(trial, &BTreeMap::new(), None);
    cli.show_document_or_markdown(trial, markdown, document, &behind)?;
    Ok(ending)
}

/// The ending is worse if a setting was worse and none was better.
fn ending(trial: &HostTrial) -> Ending {
    let is = |verdict: Verdict| trial.tried.iter().any(|knob| knob.verdict == verdict);
    if !is(Verdict::Better) && is(Verdict::Worse) { Ending::Worse } else { Ending::Done }
}

fn asked(arguments: &Arguments, root: &Path, cli: &CliContext) -> Result<HostTrialSettings> {
    let how = &arguments.how;
    how.comparison.check_timeouts()?;
    if !(0.0..=LONGEST_SETTLE_S).contains(&how.settle.0) {
        bail!(Usage(format!("--settle is out of range: use at most {LONGEST_SETTLE_S} seconds")));
    }
    let Aimed { shown, place, service, workload, storage } = aimed(arguments, cli)?;
    let is_program = service.is_some() || !arm::is_address(&place);
    let (name, wanted) = wanted(arguments.profile.as_deref(), &arguments.sets)?;
    let Sorted { candidates, untried, obstacles } = knobs(arguments, &name, &wanted, root, is_program)?;
    let [usual, beside] = match workload.engine.operations() {
        None => [Metric::LatencyP99, Metric::LatencyP50],
        Some(_) => [Metric::CpuPerRecord, Metric::Throughput],
    };
    let primary = how.primary.unwrap_or(usual);
    let guards = if how.guards.is_empty() {
        std::iter::once(beside).filter(|beside| *beside != primary).collect()
    } else {
        how.guards.clone()
    };
    let mut asked = HostTrialSettings {
        target: shown,
        place,
        service,
        working_folder: std::env::current_dir().context("the working folder is gone")?,
        root: root.to_owned(),
        data: arguments.on.choice().folder,
        workload,
        profile: name,
        candidates,
        untried,
        acks: arguments.factorial.iter().map(|acks| acks.0).collect(),
        primary,
        rounds: how.rounds,
        settle_s: how.settle.0,
        guard_s: 0,
        all: arguments.all,
        keep_s: arguments.keep.then_some(arguments.confirm_within.as_secs()),
        limits: Vec::new(),
        standing: None,
        comparison: ComparisonSettings {
            guards,
            storage,
            lateness_limit_us: arguments.workload.lateness_limit_us(),
            ..how.comparison.clone()
        },
    };
    asked.acks.sort_unstable_by_key(|acks| if *acks < 0 { i16::MAX } else { *acks });
    asked.acks.dedup();
    asked.guard_s = how.guard.map_or_else(|| asked.guard_for(), |guard| guard.as_secs());
    asked.limits = limits(&asked, &obstacles, is_program);
    Ok(asked)
}

/// The target of the load, and the load.
struct Aimed {
    shown: String,
    place: String,
    service: Option<Service>,
    workload: Workload,
    storage: String,
}

fn aimed(arguments: &Arguments, cli: &CliContext) -> Result<Aimed> {
    let named = || arguments.target.clone().unwrap_or_default();
    if Path::new(&named()).extension().is_some_and(|ending| ending == "toml") {
        return aimed_at_a_service(&named(), arguments, cli);
    }
    if arguments.program.is_some() {
        bail!(Usage(
            "--program needs an experiment file as the target\n  \
             next: name the file, for example --target hone.toml"
                .to_owned()
        ));
    }
    let workload = arguments.workload.workload("try")?;
    let storage = arguments.workload.storage.clone();
    if arguments.target.is_some() {
        return Ok(Aimed { shown: named(), place: named(), service: None, workload, storage });
    }
    // docs/broker.md describes this durability.
    let own = "page cache; acks=all waits for fsync".to_owned();
    let storage = if cli.is_given("storage") { storage } else { own };
    let shown = "an embedded broker".to_owned();
    Ok(Aimed { shown, place: arm::embedded()?, service: None, workload, storage })
}

/// Options that contradict the load of the experiment file.
const OF_THE_LOAD: [&str; 8] =
    ["rate", "schedule", "duration", "records", "bytes", "connections", "partitions", "acks"];

fn aimed_at_a_service(file: &str, arguments: &Arguments, cli: &CliContext) -> Result<Aimed> {
    if let Some(given) = OF_THE_LOAD.into_iter().find(|option| cli.is_given(option)) {
        bail!(Usage(format!(
            "--{given} contradicts {file}: the experiment file defines the load\n  next: leave out --{given}"
        )));
    }
    let (service, experiment) = Service::read(Path::new(file), arguments.program.as_deref())?;
    Ok(Aimed {
        shown: experiment.name.clone(),
        place: String::new(),
        service: Some(service),
        workload: load(&experiment)?,
        storage: experiment.target.storage.clone(),
    })
}

fn knobs(
    arguments: &Arguments,
    name: &str,
    wanted: &Profile,
    root: &Path,
    can_start: bool,
) -> Result<Sorted> {
    let HostView { data, facts, .. } = arguments.on.choice().look(root)?;
    let given = Given { root, data: &data, facts: &facts, can_start, all: arguments.all };
    let mut sorted = sorted(name, wanted, &given);
    sorted.obstacles.extend(data.problem.clone());
    Ok(sorted)
}

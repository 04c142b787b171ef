//! `hone host try`: knobs of this host tried under a load, and not believed.

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

use super::super::batch::options::metric;
use super::super::security::SecurityOptions;
use super::super::workload::WorkloadOptions;
use super::apply::time;
use super::plan::On;
use crate::cmd::context::{CliContext, default_runs, record_and_page};
use hone_experiment::arm;
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::folder::RunFolder;
use hone_experiment::host_plan::HostView;
use hone_experiment::notation::Seconds;
use hone_experiment::settings::ComparisonSettings;
use hone_experiment::spec::Acks;
use hone_tune::host::candidate::{Given, Sorted, sorted};
use hone_tune::host::service::{Service, load};
use hone_tune::host::trial::{HostTrialSettings, sweep};
use hone_tune::host::trial_run::{begin, limits, measured, resume, wanted};

/// Try the settings of a profile under a load, each alone, and say which of them help here: better, worse, equivalent or not shown.
///
/// In every round each knob is in force for one window, and the host as it is has two of its own, the second as the A/A control; the
/// order is random. Before each write the journal of `hone host apply` holds what was there, with a guard armed: whatever ends this run,
/// the values go back. After each window everything is taken back exactly, and the next one begins after a pause (--settle).
///
/// The load goes to the broker that --target names (host:port, or a command with {port} and {data}), or to an embedded broker that
/// Hone starts. Knobs that can't matter here are named and left out; those that matter only to new memory or new sockets need a
/// target that Hone starts.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone host try latency --target 127.0.0.1:9092 --data /var/lib/kafka --rate 2000 --duration 10
  hone host try --set vm.dirty_background_ratio=5 --set queue.nr_requests=32 --data /var/lib/kafka --target 127.0.0.1:9092
  hone host try field-guide --data /srv/data --dry-run
  hone host try kafka-page-cache --data /srv/data --keep        what helped stays for 10 minutes, unless `hone host confirm` says more
  hone host try field-guide --factorial 1,all --data /srv/data  all settings together, under each durability class
  hone host try --resume runs/host-try-001

Exit codes: 0 done, 3 where nothing helped and something was shown to be worse.")]
pub(crate) struct Arguments {
    /// field-guide, redpanda, kafka-page-cache, latency, throughput, or the path of a TOML file of your own; `latency` where neither a
    /// profile nor --set is given.
    profile: Option<String>,
    /// A knob and the value to try; may be repeated. Beside a profile it takes the place of that one's value.
    #[arg(long = "set", value_name = "KNOB=VALUE")]
    sets: Vec<String>,
    #[command(flatten)]
    on: On,
    /// host:port of a running broker, a command that starts one, or an experiment file (hone.toml) whose target and first judging load are
    /// meant; an embedded broker without it, with its data below --data.
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
    /// The finished program of an experiment file that says how to build one.
    #[arg(long, value_name = "PATH", requires = "target")]
    program: Option<PathBuf>,
    /// All settings together in place of each alone, under each of these acks (0, 1, all): a row for each class, and no verdict
    /// across classes.
    #[arg(long, value_name = "ACKS,...", value_delimiter = ',', conflicts_with_all = ["acks", "keep"])]
    factorial: Vec<Acks>,
    /// Also try what can't matter here: by what the host is, or by what a first window of it shows of disk and page cache.
    #[arg(long)]
    all: bool,
    /// Measure everything that helped together once more, and leave it in force if that is better, too: until the time of
    /// --confirm-within is over, or for good with `hone host confirm`.
    #[arg(long)]
    keep: bool,
    /// With --keep: how long there is to confirm.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10m")]
    confirm_within: Duration,
    /// Say what would be tried, written and measured, and how long it takes; nothing is.
    #[arg(long)]
    dry_run: bool,
    /// Go on with an interrupted run, after its last round. TLS and login are said again: they are kept nowhere.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["profile", "sets", "target", "dry_run"])]
    resume: Option<PathBuf>,
    /// Print the table as Markdown.
    #[arg(long)]
    markdown: bool,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    workload: WorkloadOptions,
    #[command(flatten)]
    security: SecurityOptions,
}

/// How knobs are measured and judged.
#[derive(Debug, Args)]
#[command(next_help_heading = "Measuring")]
struct How {
    /// The metric that decides: latency-p99, of a load of operations cpu-per-record.
    #[arg(long, value_parser = metric)]
    primary: Option<Metric>,
    /// A metric that must not get worse; may be repeated. latency-p50 unless said otherwise, of a load of operations throughput.
    #[arg(long = "guard-rail", value_parser = metric)]
    guards: Vec<Metric>,
    /// Rounds, at least 5.
    #[arg(long, default_value_t = 10)]
    rounds: u32,
    /// Time between a write and the load: writes of a scheduler stop a disk's queue for 20 to 40 ms.
    #[arg(long, default_value = "1", value_name = "TIME")]
    settle: Seconds,
    /// Time after which a guard takes back what a window has set, should this run have ended by then; long enough for a window unless
    /// said.
    #[arg(long, value_name = "TIME", value_parser = time)]
    guard: Option<Duration>,
    #[command(flatten)]
    comparison: ComparisonSettings,
    /// Folder under which the run's folder is made; the ledger lies there.
    #[arg(short, long, value_name = "FOLDER", default_value_os_t = default_runs())]
    output: PathBuf,
}

/// A pause that is longer is none between windows.
const LONGEST_SETTLE_S: f64 = 600.0;

pub(crate) fn run(arguments: &Arguments, root: &Path, cli: &CliContext) -> Result<Ending> {
    let security = arguments.security.security()?;
    if let Some(folder) = &arguments.resume {
        cli.goes_on(&["markdown", "root", "ledger"])?;
        let folder = RunFolder::open(folder)?;
        let asked = resume(&folder, &security)?;
        return go(&asked, &folder, arguments.markdown, &security, cli);
    }
    // What a run that was killed left in force is not how the host is, and what another run has in force is not either.
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
    go(&asked, &folder, arguments.markdown, &security, cli)
}

/// Measures what is not measured yet, and shows all of it.
fn go(
    asked: &HostTrialSettings,
    folder: &RunFolder,
    markdown: bool,
    security: &Security,
    cli: &CliContext,
) -> Result<Ending> {
    let (trial, record) = measured(asked, folder, security, &cli.progress)?;
    let places = record_and_page(&record)?;
    let ending = ending(&trial);
    let document = |trial: &HostTrial| documents::host_trial(trial, &BTreeMap::new(), None);
    cli.show_document_or_markdown(trial, markdown, document, &places)?;
    Ok(ending)
}

/// Worse where something was shown to be, and nothing helped.
fn ending(trial: &HostTrial) -> Ending {
    let is = |verdict: Verdict| trial.tried.iter().any(|knob| knob.verdict == verdict);
    if !is(Verdict::Better) && is(Verdict::Worse) { Ending::Worse } else { Ending::Done }
}

fn asked(arguments: &Arguments, root: &Path, cli: &CliContext) -> Result<HostTrialSettings> {
    let how = &arguments.how;
    how.comparison.check_timeouts()?;
    if !(0.0..=LONGEST_SETTLE_S).contains(&how.settle.0) {
        bail!(Usage(format!("--settle must lie between 0 and {LONGEST_SETTLE_S} seconds")));
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

/// Where the load goes, and the load.
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
        bail!(Usage("--program is of an experiment file: name that with --target".to_owned()));
    }
    let workload = arguments.workload.workload("try")?;
    let storage = arguments.workload.storage.clone();
    if arguments.target.is_some() {
        return Ok(Aimed { shown: named(), place: named(), service: None, workload, storage });
    }
    // As docs/broker.md has it.
    let own = "page cache; acks=all waits for fsync".to_owned();
    let storage = if cli.is_given("storage") { storage } else { own };
    let shown = "an embedded broker".to_owned();
    Ok(Aimed { shown, place: arm::embedded()?, service: None, workload, storage })
}

/// Options that the file's load has already.
const OF_THE_LOAD: [&str; 8] =
    ["rate", "schedule", "duration", "records", "bytes", "connections", "partitions", "acks"];

fn aimed_at_a_service(file: &str, arguments: &Arguments, cli: &CliContext) -> Result<Aimed> {
    if let Some(given) = OF_THE_LOAD.into_iter().find(|option| cli.is_given(option)) {
        bail!(Usage(format!("--{given} and {file} contradict each other: the load is the file's")));
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

//! `hone host try`: knobs of this host tried under a load, and not believed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use hone_host::commit::Turn;
use hone_host::kernel::Files;
use hone_host::profile::{self, Only, Profile, Wish};
use hone_host::relevance;
use hone_load::Security;
use hone_record::{HostTrial, Metric, Verdict, Workload};
use hone_tool::System;

use super::super::batch::options::metric;
use super::super::security::SecurityOptions;
use super::super::workload::WorkloadOptions;
use super::apply::time;
use super::plan::{On, profile};
use crate::cmd::context::{CliContext, default_runs};
use hone_experiment::arm;
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::folder::RunFolder;
use hone_experiment::notation::Seconds;
use hone_experiment::settings::ComparisonSettings;
use hone_experiment::spec::Acks;
use hone_experiment::standing::Standing;
use hone_tune::host::candidate::{Given, Sorted, sorted};
use hone_tune::host::service::{Service, load};
use hone_tune::host::trial::{ASKED, HostTrialSettings, Session, sweep};

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
        return resume(folder, arguments, &security, cli);
    }
    // What a run that was killed left in force is not how the host is, and what another run has in force is not either.
    let turn = if arguments.dry_run { None } else { Some(Turn::take(root)?) };
    if turn.is_some() {
        sweep(root, &cli.progress)?;
    }
    let mut asked = asked(arguments, root, cli)?;
    asked.check()?;
    if arguments.dry_run {
        cli.show_found("host-try-plan", &asked, hone_tune::host::plan_text::dry)?;
        return Ok(Ending::Done);
    }
    if asked.candidates.is_empty() {
        bail!("nothing is left to try:\n{}", hone_document::host_trial::untried(&asked.untried));
    }
    if let Some(data) = asked.data.as_ref().filter(|data| !data.is_dir()) {
        bail!(Usage(format!("--data {} is no folder", data.display())));
    }
    let folder = RunFolder::create(&arguments.how.output, "host-try")?;
    asked.standing = Some(standing(&asked, &security)?);
    folder.write_note(ASKED, &asked)?;
    drop(turn);
    go(&asked, &folder, arguments.markdown, &security, cli)
}

fn resume(path: &Path, arguments: &Arguments, security: &Security, cli: &CliContext) -> Result<Ending> {
    let folder = RunFolder::open(path)?;
    let missing =
        || Usage(format!("{} is no run of hone host try: it has no {ASKED}", folder.path().display()));
    let asked: HostTrialSettings = folder.read_note(ASKED)?.ok_or_else(missing)?;
    std::env::set_current_dir(&asked.working_folder)
        .with_context(|| format!("the run began in {}", asked.working_folder.display()))?;
    if let Some(then) = &asked.standing {
        then.same_as(&standing(&asked, security)?, folder.path())?;
    }
    go(&asked, &folder, arguments.markdown, security, cli)
}

fn standing(asked: &HostTrialSettings, security: &Security) -> Result<Standing> {
    let machine = hone_host::observe::machine(Path::new("/"));
    Standing::of([asked.arm(security)?].iter(), std::iter::once(&asked.workload), &machine)
}

/// Measures what is not measured yet, and shows all of it.
fn go(
    asked: &HostTrialSettings,
    folder: &RunFolder,
    markdown: bool,
    security: &Security,
    cli: &CliContext,
) -> Result<Ending> {
    let runner = System::new(folder.join("logs"))?;
    let progress = &cli.progress;
    let (windows, seconds) = asked.cost();
    progress.line(&format!(
        "Run folder: {}\n{windows} windows, about {:.0} minutes",
        folder.path().display(),
        (seconds / 60.0).ceil()
    ));
    let session = Session { asked, folder, security, runner: &runner, progress };
    let trial = session.run().with_context(|| {
        format!("go on after the last round with: hone host try --resume {}", folder.path().display())
    })?;
    let record = folder.write_record("host-trial.json", trial.clone())?;
    folder.write_text("host-trial.md", &hone_document::host_trial::markdown(&trial))?;
    let page = hone_serve::page::write(&record, None)?;
    let text = |trial: &HostTrial| {
        let told = if markdown {
            hone_document::host_trial::markdown(trial)
        } else {
            hone_document::host_trial::text(trial)
        };
        format!("{told}\nRecord: {}\nPage: {}\n", record.display(), page.display())
    };
    let ending = ending(&trial);
    cli.show(trial, text)?;
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
    let (name, wanted) = wanted(arguments)?;
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
        data: arguments.on.folder(),
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

/// What the run can't say.
fn limits(asked: &HostTrialSettings, obstacles: &[String], is_program: bool) -> Vec<String> {
    let mut limits = vec![match asked.data {
        Some(_) => format!(
            "A window is {} s long, and what is unwritten is written back before each: what a setting does to a backlog that grows for \
             longer is not seen.",
            hone_format::exact(asked.workload.duration_s)
        ),
        None => {
            "The data's folder was not named (--data): nothing is written back between windows, so a window may pay for the one before."
                .to_owned()
        }
    }];
    if !is_program {
        limits.push(
            "The broker ran before and goes on running: what matters only to new memory or new sockets was not tried, and topics of \
             earlier windows may still be deleted behind the scenes."
                .to_owned(),
        );
    }
    if !asked.acks.is_empty() {
        let classes: Vec<String> =
            asked.acks.iter().map(|acks| format!("acks={}", hone_format::acks(*acks))).collect();
        limits.push(format!(
            "{} are promises of different strength (durability classes). Each row is judged against its own class only: a difference between \
             classes is the price of a promise, and no tuning.",
            classes.join(", ")
        ));
    }
    limits.extend(obstacles.iter().cloned());
    limits
}

/// The profile's name and its wishes with those of the command line.
fn wanted(arguments: &Arguments) -> Result<(String, Profile)> {
    let name = match (&arguments.profile, &arguments.sets[..]) {
        (Some(name), _) => Some(name.as_str()),
        (None, []) => Some("latency"),
        (None, _) => None,
    };
    let empty = || Profile { about: "what was asked for".to_owned(), knobs: Vec::new() };
    let mut wanted = name.map(profile).transpose()?.unwrap_or_else(empty);
    for set in &arguments.sets {
        let (knob, value) = set.split_once('=').ok_or_else(|| {
            Usage(format!("--set `{set}` has no `=`; write KNOB=VALUE, as in vm.dirty_ratio=10"))
        })?;
        let wish = Wish {
            name: knob.trim().to_owned(),
            value: value.trim().to_owned(),
            reason: "asked for".to_owned(),
            source: "the command line".to_owned(),
            at_least: false,
            only: Only::All,
        };
        wanted.knobs.retain(|other| other.name != wish.name);
        wanted.knobs.push(wish);
    }
    let title = name.unwrap_or("the command line").to_owned();
    let wanted = profile::checked(&title, wanted).map_err(|error| Usage(error.to_string()))?;
    Ok((title, wanted))
}

fn knobs(
    arguments: &Arguments,
    name: &str,
    wanted: &Profile,
    root: &Path,
    can_start: bool,
) -> Result<Sorted> {
    let files = Files::new(root);
    let data = arguments.on.data_path(&files, root)?;
    let facts = relevance::look(&files, root, arguments.on.folder().as_deref());
    let given = Given { root, data: &data, facts: &facts, can_start, all: arguments.all };
    let mut sorted = sorted(name, wanted, &given);
    sorted.obstacles.extend(data.problem.clone());
    Ok(sorted)
}

//! `hone host rollout`: applies a profile to the hosts of a cluster one by one, while the cluster is healthy.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use hone_cli::values::milliseconds;
use hone_host::rollout::inventory::{self, Host};

use super::apply::time;
use crate::cmd::context::{CliContext, default_runs, print};
use hone_cli::connection::{BrokerOptions, utf8};
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::folder::{RunFolder, is_named, to_resume};
use hone_rollout::gates::looked_through;
use hone_rollout::kubernetes::{SECRETS, name_in_secret};
use hone_rollout::rollout::gate::{self, Rules};
use hone_rollout::rollout::print::{self as printing, Kubernetes, Play};
use hone_rollout::rollout::{self, Settings, profile_text, source};

/// Apply a profile to the hosts of a cluster, one by one.
///
/// Hone connects over ssh. It changes a canary first, then rack by rack, and the controller's host last. For each host: plan, gate, apply with
/// a rollback watchdog, soak, gate, confirm.
///
/// If the cluster is unhealthy, or the changed broker gets slower than its peers, Hone rolls that host back and halts. If a host loses contact
/// with Hone, its rollback watchdog rolls the change back.
///
/// Exit code 1: the rollout halted. Exit code 3: it halted because a measurement showed harm.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone host rollout hosts.toml --profile latency --bootstrap kafka-1:9092 \\
    --dry-run
  hone host rollout --hosts k1,k2,k3 --data /var/lib/kafka --profile latency \\
    --bootstrap k1:9092 --soak 1h
  hone host rollout --rollback runs/rollout-001")]
pub(crate) struct Arguments {
    /// TOML file with the hosts. Each host has a name, and optionally broker, rack, data, ssh and sudo.
    #[arg(value_name = "HOSTS.toml", conflicts_with = "hosts")]
    inventory: Option<PathBuf>,
    /// Names of the hosts, separated by commas. Use them instead of a TOML file.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    hosts: Vec<String>,
    /// Profile to apply. One of field-guide, redpanda, kafka-page-cache, latency, throughput, your own TOML file, or the output of `hone host
    /// plan --json`.
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,
    /// Data folder of the broker. It applies to hosts without a data folder in the TOML file.
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Host that Hone changes first. [default: the first host of a rack without the controller]
    #[arg(long, value_name = "HOST")]
    canary: Option<String>,
    /// How long Hone observes each host before it confirms the change. One busy hour shows more than ten quiet ones.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10m")]
    soak: Duration,
    /// How long Hone samples latencies before it changes a host.
    #[arg(
        long = "baseline-duration",
        alias = "baseline",
        value_name = "TIME",
        value_parser = time,
        default_value = "60s"
    )]
    baseline: Duration,
    /// Consecutive healthy checks required.
    #[arg(
        long = "healthy-checks",
        alias = "healthy",
        value_name = "N",
        default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=100)
    )]
    healthy: u32,
    /// Time between two health checks of the cluster.
    #[arg(
        long = "poll-interval",
        alias = "every-ms",
        value_name = "TIME",
        default_value = "2s",
        value_parser = milliseconds(0.1, 600.0)
    )]
    every_ms: u64,
    /// Time that the cluster has to become healthy.
    #[arg(
        long = "health-timeout",
        alias = "wait",
        value_name = "TIME",
        value_parser = time,
        default_value = "10m"
    )]
    wait: Duration,
    /// Time without contact after which a host rolls its change back.
    #[arg(long, value_name = "TIME", value_parser = lease, default_value = "2m")]
    lease: Duration,
    /// Largest slowdown of a broker relative to its peers, as a factor. The latency gate fails when a larger slowdown is significant.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.25)]
    tolerance: f64,
    /// Consumer group that must keep up; repeat it for several.
    #[arg(long, value_name = "GROUP")]
    group: Vec<String>,
    /// Write nothing to the cluster, and skip the latency gate. Hone then creates no canary topic.
    #[arg(long)]
    no_canary: bool,
    /// Keep the change only until the next boot.
    #[arg(long)]
    this_boot: bool,
    /// Include knobs that cannot matter on this host.
    #[arg(long)]
    all: bool,
    /// Path of hone on the hosts. It must be the same version. [default: Hone copies itself to /var/lib/hone/bin]
    #[arg(long, value_name = "PATH")]
    remote_hone: Option<String>,
    /// Where to write the result. Hone creates the run's folder in this folder.
    #[arg(short, long, value_name = "PATH", default_value_os_t = default_runs())]
    output: PathBuf,
    /// Show what would happen, and change nothing. Hone prints the order of the hosts, their changes and the duration.
    #[arg(long, conflicts_with_all = ["resume", "undo", "inspect"])]
    dry_run: bool,
    /// Check the gates once and stop.
    #[arg(long, conflicts_with_all = ["dry_run", "resume", "undo", "inspect", "print"])]
    gate_only: bool,
    /// File for the state of the cluster before a change. Only with --gate-only.
    #[arg(long = "save-baseline", alias = "keep", value_name = "FILE", requires = "gate_only")]
    keep: Option<PathBuf>,
    /// File of --save-baseline with which Hone compares the cluster. Only with --gate-only.
    #[arg(long = "baseline-file", alias = "against", value_name = "FILE", requires = "gate_only")]
    against: Option<PathBuf>,
    /// Broker whose host has changed since the baseline. Name its id or its address. Only with --baseline-file. [default: Hone judges all
    /// brokers alike]
    #[arg(long, value_name = "BROKER", requires = "against")]
    changed: Option<String>,
    /// Continue an interrupted run. A rollout that has halted continues, too.
    #[arg(long, value_name = "RUN", num_args = 0..=1, conflicts_with_all = ["undo", "inspect", "print"])]
    resume: Option<Option<PathBuf>>,
    /// Roll back the changes of this run. Hone begins with the last host.
    #[arg(long = "rollback", alias = "undo", value_name = "RUN", conflicts_with_all = ["inspect", "print"])]
    undo: Option<PathBuf>,
    /// Show what a rollout has done.
    #[arg(long, value_name = "RUN", conflicts_with = "print")]
    inspect: Option<PathBuf>,
    /// Print files for another tool and stop.
    #[arg(long = "emit", alias = "print", value_enum, value_name = "FORMAT")]
    print: Option<Tool>,
    /// Container image with hone as its entry point. Only with --emit daemonset.
    #[arg(long, value_name = "IMAGE", default_value = "hone:latest")]
    image: String,
    #[command(flatten)]
    brokers: BrokerOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Tool {
    /// An Ansible play that changes one host at a time.
    Ansible,
    /// A Kubernetes DaemonSet that changes one node at a time by a label.
    Daemonset,
}

/// The rollback watchdog checks its time twice a second, and a renewal over ssh takes one or two seconds.
const SHORTEST_LEASE: Duration = Duration::from_secs(6);

fn lease(text: &str) -> Result<Duration, String> {
    time(text).and_then(|lease| {
        if lease < SHORTEST_LEASE {
            Err(format!("use at least {} s", SHORTEST_LEASE.as_secs()))
        } else {
            Ok(lease)
        }
    })
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    if let Some(run) = &arguments.inspect {
        return cli.show_found("host-rollout", &rollout::inspect(run)?, hone_rollout::rollout::text::report);
    }
    if let Some(run) = &arguments.undo {
        let security = arguments.brokers.security.security()?;
        let undone = rollout::undo(&RunFolder::open(run)?, &security, &cli.progress)?;
        let whole = undone.iter().all(|host| host.whole);
        cli.show_found("host-rollout-undone", &undone, |undone| hone_rollout::rollout::text::undone(undone))?;
        return Ok(if whole { Ending::Done } else { Ending::CouldNot });
    }
    if let Some(named) = &arguments.resume {
        let is_one = |path: &Path| is_named(path, "rollout");
        let run = to_resume(named.as_deref(), &arguments.output, "host rollout", is_one)?;
        return resumed(arguments, &run, cli);
    }
    if arguments.gate_only {
        return gates(arguments, cli);
    }
    let settings = settings(arguments)?;
    let profile = arguments.profile.as_deref().ok_or_else(|| {
        Usage("--profile is missing\n  next: name a profile, for example --profile latency".to_owned())
    })?;
    let (name, text) = profile_text(profile)?;
    if let Some(tool) = arguments.print {
        return printed(arguments, tool, &name, text.as_deref(), &settings);
    }
    let hosts = hosts(arguments)?;
    let security = arguments.brokers.security.security()?;
    let report = if arguments.dry_run {
        let scratch = tempfile::tempdir()?;
        let source = source(scratch.path(), name, text.as_deref())?;
        rollout::dry(&settings, &source, hosts, &security, &cli.progress)?
    } else {
        let folder = RunFolder::create(&arguments.output, "rollout")?;
        let source = source(folder.path(), name, text.as_deref())?;
        cli.progress.line(&format!("the journal is in {}", folder.path().display()));
        rollout::begin(&settings, &source, hosts, &security, &folder, &cli.progress)?
    };
    told(&report, cli)
}

fn told(report: &rollout::Report, cli: &CliContext) -> Result<Ending> {
    cli.show_found("host-rollout", report, hone_rollout::rollout::text::report)?;
    Ok(match (&report.halted, report.worse) {
        (None, _) => Ending::Done,
        (Some(_), true) => Ending::Worse,
        (Some(_), false) => Ending::CouldNot,
    })
}

fn printed(
    arguments: &Arguments,
    tool: Tool,
    name: &str,
    text: Option<&str>,
    settings: &Settings,
) -> Result<Ending> {
    printing::check(settings)?;
    let bootstrap = if settings.bootstrap.is_empty() {
        vec!["kafka-1:9092".to_owned()]
    } else {
        settings.bootstrap.clone()
    };
    let settings = Settings { bootstrap, ..settings.clone() };
    let data = arguments.data.clone().map(|data| data.display().to_string());
    let security = &arguments.brokers.security;
    let text = match tool {
        Tool::Ansible => {
            let hosts = if arguments.inventory.is_some() || !arguments.hosts.is_empty() {
                hosts(arguments)?
            } else {
                Vec::new()
            };
            Play {
                profile: name,
                profile_text: text,
                hosts: &hosts,
                data: data.as_deref(),
                settings: &settings,
                security: &security.as_arguments(|_, file| utf8(&std::path::absolute(file)?))?,
            }
            .text()
        }
        Tool::Daemonset => Kubernetes {
            profile: name,
            profile_text: text,
            image: &arguments.image,
            data: data.as_deref(),
            settings: &settings,
            security: &security
                .as_arguments(|option, _| Ok(format!("{SECRETS}/{}", name_in_secret(option))))?,
            secrets: &security.secrets()?,
        }
        .text(),
    };
    print(&text)?;
    Ok(Ending::Done)
}

fn resumed(arguments: &Arguments, run: &Path, cli: &CliContext) -> Result<Ending> {
    let folder = RunFolder::open(run)?;
    let state = hone_host::rollout::log::read(folder.path())?;
    if state.finished {
        bail!(Usage(format!(
            "the rollout {} is finished, so there is nothing to resume\n  \
             next: use --inspect to show it, or --rollback to roll it back",
            run.display()
        )));
    }
    let mut settings: Settings = serde_json::from_value(state.begun.settings.clone())
        .context("another version of Hone wrote this journal; use that version")?;
    let named = bootstrap(arguments)?;
    if !named.is_empty() {
        settings.bootstrap = named;
    }
    let source = source(folder.path(), state.begun.profile.clone(), state.begun.profile_text.as_deref())?;
    let report =
        rollout::resume(&settings, &source, &arguments.brokers.security.security()?, &folder, &cli.progress)?;
    told(&report, cli)
}

fn hosts(arguments: &Arguments) -> Result<Vec<Host>> {
    let usage = |error: inventory::InventoryError| anyhow::Error::from(Usage(error.to_string()));
    let mut hosts = match (&arguments.inventory, arguments.hosts.is_empty()) {
        (Some(path), _) => {
            let text =
                std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            inventory::parse(&path.display().to_string(), &text).map_err(usage)?
        }
        (None, false) => inventory::named(&arguments.hosts).map_err(usage)?,
        (None, true) => bail!(Usage(
            "no hosts are named\n  next: name a TOML file with the hosts, or use --hosts k1,k2,k3".to_owned()
        )),
    };
    for host in &mut hosts {
        host.data = host.data.take().or_else(|| arguments.data.clone());
    }
    Ok(hosts)
}

/// The brokers to connect to first.
fn bootstrap(arguments: &Arguments) -> Result<Vec<String>> {
    let named = arguments.brokers.bootstrap()?.unwrap_or_default();
    Ok(named.split(',').map(str::trim).filter(|address| !address.is_empty()).map(str::to_owned).collect())
}

fn settings(arguments: &Arguments) -> Result<Settings> {
    let bootstrap = bootstrap(arguments)?;
    if bootstrap.is_empty() && arguments.print.is_none() {
        bail!(Usage(
            "--bootstrap is missing: Hone asks a broker for the health of the cluster\n  \
             next: add --bootstrap HOST:PORT"
                .to_owned()
        ));
    }
    if arguments.remote_hone.as_ref().is_some_and(|path| !path.starts_with('/')) {
        bail!(Usage("--remote-hone needs an absolute path, for example `/usr/local/bin/hone`".to_owned()));
    }
    let settings = Settings {
        bootstrap,
        rules: rules(arguments),
        soak_s: arguments.soak.as_secs(),
        baseline_s: arguments.baseline.as_secs(),
        lease_s: arguments.lease.as_secs(),
        no_canary: arguments.no_canary,
        first: arguments.canary.clone(),
        this_boot: arguments.this_boot,
        all: arguments.all,
        remote_hone: arguments.remote_hone.clone(),
    };
    gate::check(&settings.rules)?;
    Ok(settings)
}

fn rules(arguments: &Arguments) -> Rules {
    Rules {
        healthy: arguments.healthy,
        every_ms: arguments.every_ms,
        wait_s: arguments.wait.as_secs(),
        tolerance: arguments.tolerance,
        groups: arguments.group.clone(),
    }
}

fn gates(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let bootstrap = bootstrap(arguments)?;
    if bootstrap.is_empty() {
        bail!(Usage(
            "--bootstrap is missing: Hone asks a broker for the health of the cluster\n  \
             next: add --bootstrap HOST:PORT"
                .to_owned()
        ));
    }
    let rules = rules(arguments);
    gate::check(&rules)?;
    let security = arguments.brokers.security.security()?;
    let (baseline, with_canary) = (arguments.baseline, !arguments.no_canary);
    let before = (arguments.against.as_deref(), arguments.changed.as_deref());
    let (found, worse) = looked_through(
        (&bootstrap, &security),
        &rules,
        (with_canary, baseline),
        before,
        arguments.keep.as_deref(),
        &cli.progress,
    )?;
    let closed = found.findings.iter().any(|finding| finding.bad);
    cli.show_found("host-gates", &found, hone_rollout::rollout::text::gates)?;
    Ok(match (worse, closed) {
        (true, _) => Ending::Worse,
        (false, true) => Ending::CouldNot,
        (false, false) => Ending::Done,
    })
}

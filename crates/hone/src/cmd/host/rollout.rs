//! `hone host rollout`: a profile brought to the hosts of a cluster one by one, behind the cluster's health.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use hone_host::rollout::inventory::{self, Host};

use super::super::security::{SecurityOptions, utf8};
use super::apply::time;
use crate::cmd::context::{CliContext, default_runs, print};
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::folder::RunFolder;
use hone_rollout::gates::looked_through;
use hone_rollout::kubernetes::{SECRETS, name_in_secret};
use hone_rollout::rollout::gate::{self, Rules};
use hone_rollout::rollout::print::{self as printing, Kubernetes, Play};
use hone_rollout::rollout::{self, Settings, profile_text, source};

/// Bring a profile to the hosts of a cluster one by one, over ssh, behind the health of the cluster.
///
/// One canary first, rack by rack, the controller's host last. Each host: plan, gate, apply under a guard, soak, gate, confirm. When
/// the cluster is not well, or the changed broker has got slower beside its peers, that host is taken back and the roll-out halts.
/// The guard of each host hears from here; when this program or the line to the host is gone, it takes the change back.
///
/// Examples:
///   hone host rollout hosts.toml --profile latency --bootstrap kafka-1:9092 --dry-run
///   hone host rollout --hosts k1,k2,k3 --data /var/lib/kafka --profile latency --bootstrap k1:9092 --soak 1h
///   hone host rollout --undo runs/rollout-001
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// The hosts, as a TOML file: name, and where it helps broker, rack, data, ssh, sudo.
    #[arg(value_name = "HOSTS.toml", conflicts_with = "hosts")]
    inventory: Option<PathBuf>,
    /// The hosts by their names, in place of a file.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    hosts: Vec<String>,
    /// field-guide, redpanda, kafka-page-cache, latency, throughput, a TOML file, or a plan kept by `hone host plan --json`.
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,
    /// Brokers to ask, host:port.
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',')]
    bootstrap: Vec<String>,
    /// The brokers' data folder, on hosts that name none.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The host that is changed first.
    #[arg(long, value_name = "HOST")]
    canary: Option<String>,
    /// How long each host is watched before it keeps its change: one busy hour says more than ten quiet ones.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10m")]
    soak: Duration,
    /// How long latencies are sampled before a host is changed.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "60s")]
    baseline: Duration,
    /// Well so many times in a row.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    healthy: u32,
    /// Milliseconds between two looks at the cluster.
    #[arg(long, value_name = "MS", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(100..=600_000))]
    every_ms: u64,
    /// How long the cluster may need to get well.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10m")]
    wait: Duration,
    /// A host that has not heard from here for so long takes its change back.
    #[arg(long, value_name = "TIME", value_parser = lease, default_value = "2m")]
    lease: Duration,
    /// How many times as slow beside its peers a broker may get; more is harm, once it is shown.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.25)]
    tolerance: f64,
    /// A consumer group that has to keep up (may be given several times).
    #[arg(long, value_name = "GROUP")]
    group: Vec<String>,
    /// Without the canary's topic: nothing is written to the cluster, and latencies are not judged.
    #[arg(long)]
    no_canary: bool,
    /// Keep the change until the next boot only.
    #[arg(long)]
    this_boot: bool,
    /// Also set what can't matter on a host.
    #[arg(long)]
    all: bool,
    /// The program on the hosts, in place of a copy of this one in /var/lib/hone/bin.
    #[arg(long, value_name = "PATH")]
    remote_hone: Option<String>,
    /// Where the run's folder is made.
    #[arg(long, value_name = "DIR", default_value_os_t = default_runs())]
    output: PathBuf,
    /// Say in which order what would be changed, and how long it would take.
    #[arg(long, conflicts_with_all = ["resume", "undo", "inspect"])]
    dry_run: bool,
    /// Only look through the gates, once.
    #[arg(long, conflicts_with_all = ["dry_run", "resume", "undo", "inspect", "print"])]
    gate_only: bool,
    /// With --gate-only: keep what was seen in this file.
    #[arg(long, value_name = "FILE", requires = "gate_only")]
    keep: Option<PathBuf>,
    /// With --gate-only: judge against what was kept before a change.
    #[arg(long, value_name = "FILE", requires = "gate_only")]
    against: Option<PathBuf>,
    /// With --against: the broker whose host was changed since, by its id or its address; all are judged alike otherwise.
    #[arg(long, value_name = "BROKER", requires = "against")]
    changed: Option<String>,
    /// Go on with a roll-out that was interrupted or halted.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["undo", "inspect", "print"])]
    resume: Option<PathBuf>,
    /// Take everything back that a roll-out has changed, the last host first.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["inspect", "print"])]
    undo: Option<PathBuf>,
    /// Tell what a roll-out has done.
    #[arg(long, value_name = "RUN", conflicts_with = "print")]
    inspect: Option<PathBuf>,
    /// Print the same steps for another tool, and do nothing.
    #[arg(long, value_enum, value_name = "TOOL")]
    print: Option<Tool>,
    /// With --print daemonset: the image that has `hone`.
    #[arg(long, value_name = "IMAGE", default_value = "hone:latest")]
    image: String,
    #[command(flatten)]
    security: SecurityOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Tool {
    /// A play of Ansible, one host at a time.
    Ansible,
    /// A DaemonSet of Kubernetes, one node at a time by a label.
    Daemonset,
}

/// A guard looks twice a second, and a renewal takes a second or two over ssh.
const SHORTEST_LEASE: Duration = Duration::from_secs(6);

fn lease(text: &str) -> Result<Duration, String> {
    time(text).and_then(|lease| {
        if lease < SHORTEST_LEASE {
            Err(format!("at least {} s", SHORTEST_LEASE.as_secs()))
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
        let security = arguments.security.security()?;
        let undone = rollout::undo(&RunFolder::open(run)?, &security, &cli.progress)?;
        let whole = undone.iter().all(|host| host.whole);
        cli.show_found("host-rollout-undone", &undone, |undone| hone_rollout::rollout::text::undone(undone))?;
        return Ok(if whole { Ending::Done } else { Ending::CouldNot });
    }
    if let Some(run) = &arguments.resume {
        return resumed(arguments, run, cli);
    }
    if arguments.gate_only {
        return gates(arguments, cli);
    }
    let settings = settings(arguments)?;
    let profile = arguments
        .profile
        .as_deref()
        .ok_or_else(|| Usage("--profile is missing: what shall be brought to the hosts?".to_owned()))?;
    let (name, text) = profile_text(profile)?;
    if let Some(tool) = arguments.print {
        return printed(arguments, tool, &name, text.as_deref(), &settings);
    }
    let hosts = hosts(arguments)?;
    let security = arguments.security.security()?;
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
    let security = &arguments.security;
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
                security: &security.words(|(_, file)| utf8(&std::path::absolute(file)?))?,
            }
            .text()
        }
        Tool::Daemonset => Kubernetes {
            profile: name,
            profile_text: text,
            image: &arguments.image,
            data: data.as_deref(),
            settings: &settings,
            security: &security.words(|(option, _)| Ok(format!("{SECRETS}/{}", name_in_secret(option))))?,
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
        bail!(Usage(format!("{} is finished; --inspect tells of it, --undo takes it back", run.display())));
    }
    let mut settings: Settings = serde_json::from_value(state.begun.settings.clone())
        .context("the journal's settings are of another version of hone; use that one")?;
    if !arguments.bootstrap.is_empty() {
        settings.bootstrap.clone_from(&arguments.bootstrap);
    }
    let source = source(folder.path(), state.begun.profile.clone(), state.begun.profile_text.as_deref())?;
    let report =
        rollout::resume(&settings, &source, &arguments.security.security()?, &folder, &cli.progress)?;
    told(&report, cli)
}

fn hosts(arguments: &Arguments) -> Result<Vec<Host>> {
    let usage = |error: inventory::InventoryError| anyhow::Error::from(Usage(error.to_string()));
    let mut hosts = match (&arguments.inventory, arguments.hosts.is_empty()) {
        (Some(path), _) => {
            let text =
                std::fs::read_to_string(path).with_context(|| format!("{} can't be read", path.display()))?;
            inventory::parse(&path.display().to_string(), &text).map_err(usage)?
        }
        (None, false) => inventory::named(&arguments.hosts).map_err(usage)?,
        (None, true) => bail!(Usage("no hosts: name a file of them, or --hosts a,b,c".to_owned())),
    };
    for host in &mut hosts {
        host.data = host.data.take().or_else(|| arguments.data.clone());
    }
    Ok(hosts)
}

fn settings(arguments: &Arguments) -> Result<Settings> {
    if arguments.bootstrap.is_empty() && arguments.print.is_none() {
        bail!(Usage("--bootstrap is missing: which brokers are asked how the cluster is?".to_owned()));
    }
    if arguments.remote_hone.as_ref().is_some_and(|path| !path.starts_with('/')) {
        bail!(Usage("--remote-hone is a path from the root on, as /usr/local/bin/hone".to_owned()));
    }
    let settings = Settings {
        bootstrap: arguments.bootstrap.clone(),
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
    if arguments.bootstrap.is_empty() {
        bail!(Usage("--bootstrap is missing: which brokers are asked how the cluster is?".to_owned()));
    }
    let rules = rules(arguments);
    gate::check(&rules)?;
    let security = arguments.security.security()?;
    let (baseline, with_canary) = (arguments.baseline, !arguments.no_canary);
    let before = (arguments.against.as_deref(), arguments.changed.as_deref());
    let (found, worse) = looked_through(
        (&arguments.bootstrap, &security),
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

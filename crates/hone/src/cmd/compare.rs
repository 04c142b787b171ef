//! `hone compare A B`: two brokers, pair by pair.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use hone_compare::Plan;
use hone_load::Admin;
use hone_record::{Comparison, Design, Metric, Mode, Verdict};
use hone_tool::System;

use super::security::SecurityOptions;
use super::workload::WorkloadOptions;
use super::{Desk, default_runs};
use crate::arm::{Arm, Place, processes_behind};
use crate::drive::{Contest, compare};
use crate::folder::RunFolder;
use crate::places::Places;
use crate::show;
use crate::{Ending, Usage};

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ModeName {
    Duet,
    Solo,
}

/// Compare two brokers under the same load, pair by pair, and say what may be said.
///
/// A and B are each host:port of a broker that runs, or a command that Hone starts for every window and stops
/// afterwards, with {port} and {data} (a fresh folder) filled in. Arrivals and payloads are the same for both arms of a
/// pair; the order is random; A/A control pairs run in the same session. The rule for the verdict is written to the run's
/// folder before the first window.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone compare 127.0.0.1:9092 127.0.0.1:9192
  hone compare --mode solo --pairs 20 old:9092 new:9092 --rate 5000
  hone compare './old/hone-broker --listen 127.0.0.1:{port} --metrics 127.0.0.1:0 --data {data}' \\
               './new/hone-broker --listen 127.0.0.1:{port} --metrics 127.0.0.1:0 --data {data}'
  hone compare A B --primary latency-p50 --guard latency-p99 --json")]
pub(crate) struct Arguments {
    /// The state before: host:port, or a command.
    a: String,
    /// The state after: host:port, or a command.
    b: String,
    /// Both arms at once (steadier), or one after the other (true magnitudes). Duet for two commands; solo as soon as
    /// one arm is an address, because a broker that runs already has no twin for the control of a duet.
    #[arg(long, value_enum)]
    mode: Option<ModeName>,
    /// Leave the arms of a duet of two commands where the scheduler puts them, instead of binding each to one half of
    /// the cores and swapping them four times a second.
    #[arg(long)]
    free: bool,
    /// A/B pairs, at least 5.
    #[arg(long, default_value_t = 14)]
    pairs: u32,
    /// A/A pairs, at least 5; 0 goes without a control.
    #[arg(long, default_value_t = 6)]
    control_pairs: u32,
    /// The metric that the verdict hangs on: cpu-per-record, cpu-per-request, user-cpu-per-record, latency-p50, -p90, -p99,
    /// -p999, -max, or throughput.
    #[arg(long, default_value = "cpu-per-record", value_parser = metric)]
    primary: Metric,
    /// A metric that must not get worse; may be repeated.
    #[arg(long = "guard", value_parser = metric)]
    guards: Vec<Metric>,
    /// Two-sided error of the primary interval.
    #[arg(long, default_value_t = 0.05)]
    alpha: f64,
    /// Margin inside which the two count as equivalent.
    #[arg(long, default_value_t = 0.02, value_name = "SHARE")]
    equivalence: f64,
    /// Seconds that a started command has to answer as a broker.
    #[arg(long, default_value_t = 30.0, value_name = "SECONDS")]
    ready_timeout: f64,
    /// Seconds that it has to end after SIGTERM before it is killed.
    #[arg(long, default_value_t = 30.0, value_name = "SECONDS")]
    stop_timeout: f64,
    /// Folder under which the run's folder is made.
    #[arg(short, long, value_name = "FOLDER", default_value_os_t = default_runs())]
    output: PathBuf,
    #[command(flatten)]
    workload: WorkloadOptions,
    #[command(flatten)]
    security: SecurityOptions,
}

fn metric(name: &str) -> Result<Metric, String> {
    let known = || Metric::ALL.map(Metric::name).join(", ");
    Metric::from_name(name).ok_or_else(|| format!("unknown metric `{name}`; there are: {}", known()))
}

pub(crate) fn run(arguments: Arguments, desk: &Desk) -> Result<Ending> {
    let arms = arms(&arguments)?;
    let workload = arguments.workload.workload("command-line")?;
    hone_load::check(&workload)?;
    let design = design(&arguments, &arms, workload.seed)?;
    check_cpu(&arms, design.rule.primary)?;
    let folder = RunFolder::create(&arguments.output, "compare")?;
    let runner = System::new(folder.join("logs"))?;
    let contest = Contest {
        arms,
        workload,
        design,
        storage: arguments.workload.storage.clone(),
        lateness_limit_us: arguments.workload.lateness_limit_us(),
        folder: &folder,
        prefix: String::new(),
        runner: &runner,
        machine: hone_host::observe::machine(Path::new("/")),
    };
    desk.progress.line(&format!("Run folder: {}", folder.path().display()));
    let comparison = compare(&contest, &desk.progress)?;
    let ending = if comparison.verdict() == Verdict::Worse { Ending::Worse } else { Ending::Done };
    folder.write_record("comparison.json", comparison.clone())?;
    desk.show(comparison, |comparison| with_place(comparison, folder.path()))?;
    Ok(ending)
}

fn with_place(comparison: &Comparison, folder: &Path) -> String {
    format!("{}\nRecord: {}\n", show::comparison::text(comparison), folder.join("comparison.json").display())
}

fn arms(arguments: &Arguments) -> Result<[Arm; 2]> {
    let limit = |seconds: f64| {
        let within = (0.0..=3_600.0).contains(&seconds);
        let wrong =
            || Usage("--ready-timeout and --stop-timeout must lie between 0 and 3600 seconds".to_owned());
        within.then(|| Duration::from_secs_f64(seconds)).ok_or_else(wrong)
    };
    let (ready, stop) = (limit(arguments.ready_timeout)?, limit(arguments.stop_timeout)?);
    let security = arguments.security.security()?;
    let arm = |name: &str, text: &str| {
        let place = Place::parse(text, ready, stop)?;
        anyhow::Ok(Arm { name: name.to_owned(), place, security: security.clone() })
    };
    let arms = [arm("A", &arguments.a)?, arm("B", &arguments.b)?];
    if matches!(arms[0].place, Place::Address(_)) && arms[0].place == arms[1].place {
        bail!(Usage(format!("A and B are the same broker, {}; for an A/A test start two", arguments.a)));
    }
    Ok(arms)
}

fn design(arguments: &Arguments, arms: &[Arm; 2], seed: u64) -> Result<Design> {
    let programs = arms.iter().all(|arm| matches!(arm.place, Place::Program(_)));
    let mode = match arguments.mode {
        Some(ModeName::Duet) => Mode::Duet,
        None if programs => Mode::Duet,
        Some(ModeName::Solo) | None => Mode::Solo,
    };
    if mode == Mode::Duet && !programs && arguments.control_pairs > 0 {
        bail!(Usage(
            "in a duet, a broker that runs already has no twin for the A/A control: use --mode solo, give both arms as \
             commands, or go without a control (--control-pairs 0)"
                .to_owned()
        ));
    }
    let plan = Plan {
        mode,
        places: mode == Mode::Duet && programs && !arguments.free && Places::halves().is_some(),
        pairs: arguments.pairs,
        control_pairs: arguments.control_pairs,
        primary: arguments.primary,
        guards: arguments.guards.clone(),
        alpha: arguments.alpha,
        equivalence: arguments.equivalence,
        seed,
    };
    Ok(hone_compare::plan(&plan)?)
}

/// Finds out before the first pair, and not after the last, that a broker's CPU can't be read from here.
fn check_cpu(arms: &[Arm; 2], primary: Metric) -> Result<()> {
    if !matches!(primary, Metric::CpuPerRecord | Metric::CpuPerRequest | Metric::UserCpuPerRecord) {
        return Ok(());
    }
    for arm in arms {
        if let Place::Address(address) = &arm.place
            && processes_behind(std::iter::once(address.as_str())).is_empty()
        {
            Admin::ready_with(address, &arm.security, Duration::from_secs(10))?;
            bail!(Usage(format!(
                "the CPU of {address} can't be read from here (another machine, another user's process or a container), so \
                 {} can't be the primary metric; use --primary latency-p50",
                primary.label()
            )));
        }
    }
    Ok(())
}

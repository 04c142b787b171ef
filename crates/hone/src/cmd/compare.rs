//! `hone compare A B`: two brokers, pair by pair.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use hone_compare::SavedRule;
use hone_record::{Comparison, Metric, Mode, Workload};
use hone_report::documents;

use super::batch::options::ModeName;
use super::saved;
use crate::cmd::context::{CliContext, ReportOptions, default_runs};
use hone_cli::connection::SecurityOptions;
use hone_cli::values::{metric, rate};
use hone_cli::workload::WorkloadOptions;
use hone_experiment::climb::Wanted;
use hone_experiment::compare::{CompareSettings, Compared, begin, resume, undo};
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::folder::{RunFolder, is_named, to_resume};
use hone_experiment::meter::Metrics;
use hone_experiment::notation::{TimeBudget, share};
use hone_experiment::settings::ComparisonSettings;
use hone_experiment::{change, ledger, settle};

/// Compare two brokers, builds or settings under the same load.
///
/// A and B are each HOST:PORT of a running broker, or a command. Hone starts a command for every window and stops it afterwards. It fills in
/// {port} and {data} (a fresh folder). To measure one change of one target, name A only and add --change.
///
/// Both arms of a pair get the same requests at the same times, and chance decides which arm runs first. A/A control pairs show the noise.
///
/// The verdict rests on the ratio B/A of the primary metric, as a 95 % confidence interval over pairs. better, worse: the interval excludes 1,
/// also after the A/A control is subtracted. equivalent: the 90 % interval lies within --equivalence. inconclusive: the pairs can't decide
/// (exit code 0). Exit code 3 means a regression.
///
/// Two running brokers can differ in disk, age and heap, which no control shows: start both as commands, or swap A and B and repeat.
///
/// The run takes --budget (5 minutes) at most. A pilot determines what this time can detect, and the run ends early if a look at 40, 60 or
/// 80 % of the pairs has a verdict. A run without one can be continued. --plan-only stops after the pilot. --pairs replaces the budget.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone compare 127.0.0.1:9092 127.0.0.1:9192
  hone compare old:9092 new:9092 --budget 20m --effect 5%
  hone compare a:9092 b:9092 --primary latency-p50 --guard-metric latency-p99
  hone compare old:9092 new:9092 --capacity --slo p99=10ms --start-rate 1000
  hone compare './old-broker --listen 127.0.0.1:{port} --data {data}' \\
    './new-broker --listen 127.0.0.1:{port} --data {data}'
  hone compare broker-1:9092 --change client.linger.ms=0,5

Kinds of --change (KIND.NAME=VALUE for B, or KIND.NAME=OLD,NEW for both arms):
  client.linger.ms=0,5     setting of the client that sends the load
  load.acks=1              property of the load (record_bytes, compression ...)
  topic.flush.messages=1   property of the topic that Hone creates
  broker.KEY=VALUE         setting of the cluster
  host.vm.swappiness=1     file under /proc/sys or /sys/block
  env.NAME=VALUE           environment variable of a command
  arg.--flag=VALUE         argument of a command
  jvm.gc=zgc               setting of the virtual machine of a java command
Hone sets a change of the cluster or the host before each window of B, and rolls it back after it.

Saved windows (hone load --output), compared by their ratio and without a verdict:
  hone compare before.json after.json
  hone compare monday/ friday/

Interrupted runs, and runs without a verdict:
  hone compare --resume runs/compare-007
  hone compare --resume runs/compare-007 --budget 15m
  # Restore the setting that a killed run has left
  hone compare --rollback runs/compare-007")]
pub(crate) struct Arguments {
    /// State A (before): HOST:PORT, or a command. A and B can also be saved windows: a .json file, or a folder of them.
    #[arg(required_unless_present_any = ["resume", "undo"])]
    a: Option<String>,
    /// State B (after): HOST:PORT, or a command. Leave it out with --change.
    #[arg(required_unless_present_any = ["change", "resume", "undo"])]
    b: Option<String>,
    /// Change that B gets, where A and B are the same target. The end of this help lists the kinds.
    #[arg(long, value_name = "KIND.NAME=VALUE", conflicts_with = "b")]
    change: Vec<String>,
    /// Another build of A, as a command; repeat it for several. The confidence interval then covers the differences between builds. Use at
    /// least 3 builds per arm. With --budget, Hone then uses the whole budget.
    #[arg(long = "a-build", value_name = "COMMAND")]
    a_builds: Vec<String>,
    /// Another build of B, as a command; repeat it for several.
    #[arg(long = "b-build", value_name = "COMMAND")]
    b_builds: Vec<String>,
    /// Longest time of a comparison, starts and warm-ups included. With --resume, the larger total time of a run that ended without a verdict. A number
    /// without a unit means seconds. [default: 5m, unless --pairs or --control-pairs fixes the pairs]
    #[arg(long, value_name = "TIME", conflicts_with_all = ["pairs", "control_pairs"])]
    budget: Option<String>,
    /// Smallest difference to detect, for example `5%` or `0.05`. A budget then plans only the pairs that it needs. With --pairs, Hone measures
    /// up to three times as many if the A/A pairs are too noisy. [default: 10% with --pairs; otherwise all pairs that fit]
    #[arg(long, value_name = "SHARE")]
    effect: Option<String>,
    /// Measure only the pilot and show what the budget can detect.
    #[arg(long = "plan-only", alias = "plan", conflicts_with_all = ["pairs", "control_pairs"])]
    plan: bool,
    /// Continue an interrupted run. With --budget, continue one that ended without a verdict. Programs, machine and boot must be the same. Repeat the
    /// options for TLS and login, because Hone does not store them.
    #[arg(long, value_name = "RUN", num_args = 0..=1, conflicts_with_all = ["a", "b", "change"])]
    resume: Option<Option<PathBuf>>,
    /// Roll back the changes of this run. Hone restores the setting that a killed run has left, and deletes the topics of that run.
    #[arg(long = "rollback", alias = "undo", value_name = "RUN", conflicts_with_all = ["a", "b", "change", "budget", "resume"])]
    undo: Option<PathBuf>,
    /// Do not count the instructions of two commands. Hone counts them in an emulator (qemu-user) after the pairs.
    #[arg(long)]
    no_counts: bool,
    /// Change settings of this machine without asking.
    #[arg(long)]
    yes: bool,
    /// Where the machine's files are.
    #[arg(long, value_name = "FOLDER", default_value = "/", hide = true)]
    host_root: PathBuf,
    /// How the two windows of a pair run: `solo` (one after the other) or `duet` (both at once). A duet is steadier on a noisy machine, but
    /// only solo shows true magnitudes. [default: duet if both arms are commands, otherwise solo]
    #[arg(long, value_enum, value_name = "MODE")]
    mode: Option<ModeName>,
    /// Do not pin the arms of a duet to cores. Without it, each command gets one half of the cores, and the halves take turns.
    #[arg(long = "no-pinning", alias = "free")]
    free: bool,
    /// Number of A/B pairs, at least 5. It is fixed, and replaces the budget. [default with --control-pairs: 14]
    #[arg(long, value_name = "PAIRS")]
    pairs: Option<u32>,
    /// A/A control pairs, at least 5; 0 skips the control. Their number is fixed. If an arm is an address, A/A and B/B pairs take turns. [default with
    /// --pairs: 6]
    #[arg(long, value_name = "PAIRS")]
    control_pairs: Option<u32>,
    /// Excluded pairs to replace at most, for A/B and A/A pairs each. With 0, Hone measures only the planned pairs. [default: half of the
    /// planned pairs]
    #[arg(long, value_name = "PAIRS")]
    reserve: Option<u32>,
    /// Metric that decides the verdict. One of cpu-per-record, cpu-per-request, user-cpu-per-record, latency-p50, -p90, -p99, -p999 or -max,
    /// memory-peak, memory-mean; busy-per-record with --metrics; capacity with --slo. [default: cpu-per-record; with --metrics,
    /// busy-per-record]
    #[arg(long, value_name = "METRIC", value_parser = metric)]
    primary: Option<Metric>,
    /// Compare the capacities: the highest rates at which --slo holds. This is the same as --primary capacity. The arms run one after the other
    /// (solo).
    #[arg(long, requires = "slo", conflicts_with = "primary")]
    capacity: bool,
    /// SLO: the latency goal that must hold, for example `p99=10ms`. A window ends when the SLO breaks, so --duration does not apply.
    #[arg(long, value_name = "RULES", conflicts_with = "duration")]
    slo: Option<String>,
    /// First rate of the climb, instead of --rate. Half the capacity of the weaker arm is a good choice.
    #[arg(
        long = "start-rate",
        alias = "from",
        value_name = "REQUESTS_PER_S",
        value_parser = rate,
        requires = "slo",
        conflicts_with = "rate"
    )]
    from: Option<f64>,
    /// Highest rate of the search. [default: 32 times the first rate]
    #[arg(long = "max-rate", alias = "to", value_name = "REQUESTS_PER_S", value_parser = rate, requires = "slo")]
    to: Option<f64>,
    /// Ratio of each rate of the climb to the one before. [default: 1.05]
    #[arg(long = "rate-step", alias = "growth", value_name = "RATIO", requires = "slo")]
    growth: Option<f64>,
    /// Metric that must not get worse; repeat it for several. [default: latency-p99 and memory-peak, if the windows measure them]
    #[arg(long = "guard-metric", alias = "guard", value_name = "METRIC", value_parser = metric)]
    guards: Vec<Metric>,
    #[command(flatten)]
    comparison: ComparisonSettings,
    /// Where to write the result. Hone creates a folder for the run in this folder.
    #[arg(short, long, value_name = "PATH", default_value_os_t = default_runs())]
    output: PathBuf,
    #[command(flatten)]
    report: ReportOptions,
    #[command(flatten)]
    workload: WorkloadOptions,
    #[command(flatten)]
    metrics: Metrics,
    /// Metrics page of B; repeat it for each broker of B. --metrics then applies to A alone.
    #[arg(long, value_name = "URL", requires = "urls", conflicts_with = "change")]
    b_metrics: Vec<String>,
    #[command(flatten)]
    security: SecurityOptions,
}

/// The default of --budget in seconds: people wait five minutes for an answer.
const BUDGET_S: f64 = 300.0;
/// The defaults of fixed numbers of pairs.
const PAIRS: u32 = 14;
const CONTROL_PAIRS: u32 = 6;

impl Arguments {
    /// The primary metric, which decides the verdict.
    fn metric(&self) -> Metric {
        let named = if self.capacity { Some(Metric::Capacity) } else { self.primary };
        named.unwrap_or_else(|| self.metrics.decides())
    }

    /// The given budget in seconds.
    fn budget_s(&self) -> Result<Option<f64>> {
        self.budget.as_deref().map(seconds).transpose()
    }

    /// The budget of a new run; `None` if its pairs are fixed.
    fn budget_of_run_s(&self) -> Result<Option<f64>> {
        let is_fixed = self.pairs.is_some() || self.control_pairs.is_some();
        Ok(self.budget_s()?.or((!is_fixed).then_some(BUDGET_S)))
    }

    /// The load. Its rate climbs if the run compares capacities.
    fn load(&self) -> Result<Workload> {
        let mut load = self.workload.workload("command-line")?;
        load.requests_per_s = self.from.unwrap_or(load.requests_per_s);
        let (to_requests_per_s, growth) = (self.to, self.growth);
        Wanted { slo: self.slo.clone(), to_requests_per_s, growth }.of(load, self.metric())
    }
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let (security, progress) = (arguments.security.security()?, &cli.progress);
    if let Some(folder) = &arguments.undo {
        return undo(folder, &security, progress).map(|()| Ending::Done);
    }
    let run = if let Some(named) = &arguments.resume {
        cli.goes_on(if named.is_some() { &["yes", "budget"] } else { &["yes", "budget", "output"] })?;
        let is_one = |path: &Path| is_named(path, "compare");
        let folder = to_resume(named.as_deref(), &arguments.output, "compare", is_one)?;
        resume(&folder, arguments.budget_s()?, &security, progress)?
    } else {
        if let (Some(a), Some(b)) = (&arguments.a, &arguments.b)
            && let (Some(a), Some(b)) = (saved::place(a), saved::place(b))
        {
            let rule = SavedRule {
                primary: arguments.metric(),
                alpha: arguments.comparison.alpha,
                equivalence: arguments.comparison.equivalence,
            };
            return saved::run([a, b], rule, cli);
        }
        let may_change = |what: &str| if arguments.yes { Ok(()) } else { confirm(what, cli) };
        begin(settings(arguments)?, &arguments.output, &may_change, &security, progress)?
    };
    let folder = run.folder.clone();
    run.finish(hone_document::plan::headline, &security, progress, |compared| match compared {
        Compared::Planned(pilot, budget_s) => {
            cli.show_found("pilot", &pilot, |pilot| hone_document::plan::text(pilot, budget_s))
        }
        Compared::Judged(comparison) => judged(*comparison, &folder, arguments.report, cli),
    })
}

fn judged(
    comparison: Comparison,
    folder: &RunFolder,
    report: ReportOptions,
    cli: &CliContext,
) -> Result<Ending> {
    let ending = if comparison.has_regression() { Ending::Worse } else { Ending::Done };
    let entry = |_: &str| hone_document::entries::comparison::entry_of(&comparison, folder.path());
    // A resumed run gets one entry as well, and one for each continuation. The ledger lies next to the run's folder.
    let earlier = comparison.design.continuation.as_ref().map_or(0, |continuation| continuation.ends.len());
    let note = if earlier == 0 { "ledger.json".to_owned() } else { format!("ledger-{}.json", earlier + 1) };
    let entered = ledger::enter_once(folder, &note, Some(&comparison), entry, &cli.progress);
    let next = settle::comparison(&comparison, folder.path());
    let page = report.write(&folder.join("comparison.json"));
    let behind = format!("\n{}{next}", page.as_deref().unwrap_or_default());
    cli.show_document(
        comparison,
        |comparison| documents::comparison(comparison, &BTreeMap::new(), None),
        &behind,
    )?;
    page.and(entered).map(|()| ending)
}

/// Parses --budget (`300`, `90s`, `5m`, `1h`) to seconds. The limits are one second and one week.
fn seconds(text: &str) -> Result<f64> {
    let found: TimeBudget = text.parse().map_err(|problem| Usage(format!("--budget: {problem}")))?;
    Ok(found.0)
}

/// Parses --effect (`5%` or `0.05`) to a ratio above 1.
fn ratio(text: &str) -> Result<f64> {
    let share = share(text).map_err(|problem| Usage(format!("--effect: {problem}")))?;
    Ok(1.0 + share)
}

/// The settings of the run. Hone stores them, so that --resume can read them.
fn settings(arguments: &Arguments) -> Result<CompareSettings> {
    let change = match &arguments.change[..] {
        [] => None,
        [one] => Some(change::parse(one)?),
        more => bail!(Usage(format!(
            "--change is given {} times, so the result would not show which change had the effect\n  \
             next: measure one change at a time, and make it part of A before you measure the next one",
            more.len()
        ))),
    };
    let builds =
        |first: &Option<String>, more: &[String]| first.iter().chain(more).cloned().collect::<Vec<String>>();
    if change.is_some() && !(arguments.a_builds.is_empty() && arguments.b_builds.is_empty()) {
        bail!(Usage(
            "--change conflicts with --a-build and --b-build: it compares one build with itself\n  \
             next: leave out --a-build and --b-build"
                .to_owned()
        ));
    }
    Ok(CompareSettings {
        a: builds(&arguments.a, &arguments.a_builds),
        b: builds(&arguments.b, &arguments.b_builds),
        change,
        host_root: arguments.host_root.clone(),
        working_folder: std::env::current_dir().context("the working folder is gone")?,
        mode: arguments.mode.map(Mode::from),
        free: arguments.free,
        pairs: arguments.pairs.unwrap_or(PAIRS),
        control_pairs: arguments.control_pairs.unwrap_or(CONTROL_PAIRS),
        reserve: arguments.reserve,
        primary: arguments.metric(),
        workload: arguments.load()?,
        budget_s: arguments.budget_of_run_s()?,
        effect: arguments.effect.as_deref().map(ratio).transpose()?,
        plan_only: arguments.plan,
        counts: !arguments.no_counts,
        metrics: arguments.metrics.clone(),
        b_metrics: arguments.b_metrics.clone(),
        standing: None,
        comparison: ComparisonSettings {
            guards: arguments.guards.clone(),
            storage: arguments.workload.storage.clone(),
            lateness_limit_us: arguments.workload.lateness_limit_us(),
            ..arguments.comparison.clone()
        },
    })
}

fn confirm(what: &str, cli: &CliContext) -> Result<()> {
    if !std::io::stdin().is_terminal() {
        bail!(Usage(format!(
            "the run changes a setting of this machine ({what}) and stdin is no terminal to confirm it\n  \
             next: add --yes"
        )));
    }
    cli.progress.line(&format!("The run changes a setting of this machine: {what}. Continue? [y/N]"));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).context("cannot read the answer")?;
    let is_confirmed = matches!(answer.trim(), "y" | "Y" | "yes");
    if is_confirmed { Ok(()) } else { bail!("you declined the change, so Hone changed nothing") }
}

#[cfg(test)]
mod tests {
    use hone_experiment::budget;
    use hone_load::Security;

    use super::*;

    #[test]
    fn budgets_and_effects_are_read() {
        for (text, expected) in
            [("300", 300.0), ("90s", 90.0), ("5m", 300.0), ("1.5h", 5_400.0), (" 2 m", 120.0)]
        {
            assert_eq!(seconds(text).unwrap(), expected, "{text}");
        }
        for (text, expected) in [("5%", 1.05), ("0.05", 1.05), ("30 %", 1.3)] {
            assert!((ratio(text).unwrap() - expected).abs() < 1e-12, "{text}");
        }
        for bad in ["", "m", "-5m", "5 weeks", "nan", "1e99h"] {
            assert!(seconds(bad).is_err(), "{bad}");
            assert!(ratio(bad).is_err(), "{bad}");
        }
    }

    #[derive(Debug, clap::Parser)]
    struct Only {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn a_run_has_a_budget_unless_its_pairs_are_fixed() {
        use clap::Parser as _;
        let of = |more: &[&str]| {
            let only = Only::try_parse_from(["compare", "a:1", "b:2"].iter().chain(more)).unwrap();
            let asked = settings(&only.arguments).unwrap();
            (asked.budget_s, asked.pairs, asked.control_pairs)
        };
        assert_eq!(of(&[]).0, Some(300.0));
        assert_eq!(of(&["--budget", "90s"]).0, Some(90.0));
        assert_eq!(of(&["--effect", "5%", "--plan-only"]).0, Some(300.0));
        assert_eq!(of(&["--pairs", "8"]), (None, 8, 6));
        assert_eq!(of(&["--control-pairs", "0"]), (None, 14, 0));
        for refused in [["--pairs", "8", "--budget", "5m"].as_slice(), &["--pairs", "8", "--plan-only"]] {
            assert!(Only::try_parse_from(["compare", "a:1", "b:2"].iter().chain(refused)).is_err());
        }
        let resumed = Only::try_parse_from(["compare", "--resume", "runs/compare-007", "--budget", "15m"]);
        assert_eq!(resumed.unwrap().arguments.budget_s().unwrap(), Some(900.0));
    }

    /// A climb from 1,000 to 32,000 requests/s takes at most 94 s, but only 5 s if the SLO breaks at the second step.
    #[test]
    fn a_budget_that_may_hold_a_climb_is_not_refused() {
        use clap::Parser as _;
        let capacity = ["compare", "a:1", "b:2", "--capacity", "--slo", "p99=10ms", "--budget"];
        let check = |time: &str| {
            let only = Only::parse_from(capacity.iter().chain([&time]));
            let asked = settings(&only.arguments).unwrap();
            let plan = asked.plan(&asked.sides(&Security::default()).unwrap()).unwrap();
            budget::check(&asked.wanted().unwrap(), asked.least_windows_s(Mode::Solo), &plan)
        };
        check("20m").unwrap();
        let told = check("90s").unwrap_err().to_string();
        assert!(told.contains("take about 104 s") && told.contains("--start-rate"), "{told}");
        let longer = Only::try_parse_from(capacity.iter().chain([&"20m", &"--duration", &"3"]));
        assert!(longer.unwrap_err().to_string().contains("cannot be used with"));
    }
}

//! `hone compare A B`: two brokers, pair by pair.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use hone_compare::SavedRule;
use hone_format::read_seconds;
use hone_record::{Comparison, Metric, Mode, Workload};
use hone_report::documents;

use super::batch::options::{ModeName, metric};
use super::saved;
use super::security::SecurityOptions;
use super::workload::WorkloadOptions;
use crate::cmd::context::{CliContext, default_runs};
use hone_experiment::climb::Wanted;
use hone_experiment::compare::{CompareSettings, Compared, begin, resume, undo};
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::folder::RunFolder;
use hone_experiment::meter::Metrics;
use hone_experiment::notation::share;
use hone_experiment::settings::ComparisonSettings;
use hone_experiment::settle::to_settle;
use hone_experiment::{change, ledger};

/// Compare two brokers under the same load, pair by pair, and say what may be said.
///
/// A and B are each host:port of a broker that runs, or a command that Hone starts for every window and stops
/// afterwards, with {port} and {data} (a fresh folder) filled in. Or name one of them, and with --change the one thing that
/// differs. Arrivals and payloads are the same for both arms of a pair; the order is random; A/A control pairs run in the
/// same session. The rule for the verdict is written to the run's folder before the first window.
///
/// With --budget, about a minute of A/A pairs finds out what the rest of the time can show; --plan stops there.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone compare 127.0.0.1:9092 127.0.0.1:9192
  hone compare old:9092 new:9092 --budget 5m --effect 5%
  hone compare --mode solo --pairs 20 old:9092 new:9092 --rate 5000
  hone compare './old/hone-broker --listen 127.0.0.1:{port} --metrics 127.0.0.1:0 --data {data}' \\
               './new/hone-broker --listen 127.0.0.1:{port} --metrics 127.0.0.1:0 --data {data}'
  hone compare A B --primary latency-p50 --guard latency-p99 --json
  hone compare A B --capacity --slo p99=10ms --from 1000 --to 50000

One target, one change (--change KIND.NAME=VALUE for B, or NAME=OLD,NEW for both sides):
  client.linger.ms=0,5       a setting of the client that sends the load
  load.acks=1                a property of the load (acks, records_per_batch, record_bytes, compression ...)
  topic.flush.messages=1     a property of the topic that is made for the load
  broker.KEY=VALUE           a setting of the cluster, set through its API for B's windows and put back after each
  host.vm.swappiness=1       a file under /proc/sys or /sys/block, set and put back the same way
  env.NAME=VALUE, arg.--flag=VALUE   of a command

Windows that were saved (hone load --output), without pairs: ratios, and whether they differ, never better or worse (exit 0):
  hone compare before.json after.json
  hone compare monday/ friday/

A run that was interrupted:
  hone compare --resume runs/compare-007
  hone compare --undo runs/compare-007      (puts a setting back that a killed run left)")]
pub(crate) struct Arguments {
    /// The state before: host:port, or a command.
    #[arg(required_unless_present_any = ["resume", "undo"])]
    a: Option<String>,
    /// The state after: host:port, or a command; left out with --change.
    #[arg(required_unless_present_any = ["change", "resume", "undo"])]
    b: Option<String>,
    /// The one thing in which B differs from A, where both are the same target.
    #[arg(long, value_name = "KIND.NAME=VALUE", conflicts_with = "b")]
    change: Vec<String>,
    /// Another build of A, as a command like A itself; may be repeated. Pairs are spread over the builds, and the interval
    /// rests on them: at least 3 an arm. With --budget nothing is promised then, and all of it is used.
    #[arg(long = "a-build", value_name = "COMMAND")]
    a_builds: Vec<String>,
    /// Another build of B.
    #[arg(long = "b-build", value_name = "COMMAND")]
    b_builds: Vec<String>,
    /// All the time the run may take, starts and warm-ups included: 300, 90s, 5m, 1h. Takes the place of --pairs.
    #[arg(long, value_name = "TIME", conflicts_with_all = ["pairs", "control_pairs"])]
    budget: Option<String>,
    /// Smallest difference to detect: 5% or 0.05. If the A/A pairs are too noisy for it, Hone measures up to three times the planned
    /// pairs, and more A/A pairs if these themselves differ. With --budget, it measures no more pairs than it needs [default: 10%; with --budget, all pairs that fit].
    #[arg(long, value_name = "SHARE")]
    effect: Option<String>,
    /// Only measure the pilot and say what the budget could show.
    #[arg(long, requires = "budget")]
    plan: bool,
    /// Go on with an interrupted run, after its last pair, by its own design, as long as programs, machine and boot are the
    /// same. TLS and login are said again: they are kept
    /// nowhere.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["a", "b", "change", "budget"])]
    resume: Option<PathBuf>,
    /// Put back the setting that a killed run left set, and delete the topics that it left.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["a", "b", "change", "budget", "resume"])]
    undo: Option<PathBuf>,
    /// Change a setting of this machine without asking.
    #[arg(long)]
    yes: bool,
    /// Where the machine's files are.
    #[arg(long, value_name = "FOLDER", default_value = "/", hide = true)]
    host_root: PathBuf,
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
    /// A/A pairs, at least 5; 0 goes without a control. Where an arm is an address, A/A and B/B in turn: what lies between the
    /// two brokers beside their software (disk, age of the log, heap) no control can see.
    #[arg(long, default_value_t = 6)]
    control_pairs: u32,
    /// Most excluded pairs of each kind (A/B, A/A) to measure again [default: half as many as planned]. With 0 Hone
    /// measures the planned pairs only.
    #[arg(long, value_name = "PAIRS")]
    reserve: Option<u32>,
    /// The metric that the verdict hangs on: cpu-per-record, cpu-per-request, user-cpu-per-record, latency-p50, -p90, -p99,
    /// -p999 or -max, memory-peak, memory-mean; busy-per-record with --metrics; capacity with --slo. Throughput is no choice at a fixed rate [default: cpu-per-record; busy-per-record with --metrics].
    #[arg(long, value_parser = metric)]
    primary: Option<Metric>,
    /// Compare capacities, as --primary capacity: each window climbs from --rate on, by steps, until --slo breaks. More is
    /// better. The arms are loaded one after the other (solo).
    #[arg(long, requires = "slo", conflicts_with = "primary")]
    capacity: bool,
    /// The promise that a capacity hangs on: p99=10ms. A window ends where it breaks, so there is no --duration.
    #[arg(long, value_name = "RULE", conflicts_with = "duration")]
    slo: Option<String>,
    /// Requests/s at which a climb begins, in place of --rate: half of what the weaker arm can do is near enough.
    #[arg(long, value_name = "REQUESTS_PER_S", requires = "slo", conflicts_with = "rate")]
    from: Option<f64>,
    /// Requests/s beyond which it does not climb; 32 times where it begins unless given.
    #[arg(long, value_name = "REQUESTS_PER_S", requires = "slo")]
    to: Option<f64>,
    /// How much higher each step is than the one before, as a ratio; 1.05 unless given.
    #[arg(long, value_name = "RATIO", requires = "slo")]
    growth: Option<f64>,
    /// A metric that must not get worse; may be repeated [default: latency-p99 and memory-peak, where the windows can tell them].
    #[arg(long = "guard", value_parser = metric)]
    guards: Vec<Metric>,
    #[command(flatten)]
    comparison: ComparisonSettings,
    /// Folder under which the run's folder is made.
    #[arg(short, long, value_name = "FOLDER", default_value_os_t = default_runs())]
    output: PathBuf,
    #[command(flatten)]
    workload: WorkloadOptions,
    #[command(flatten)]
    metrics: Metrics,
    /// Metrics page of B, if B has its own. Then --metrics applies to A alone.
    #[arg(long, value_name = "URL", requires = "urls", conflicts_with = "change")]
    b_metrics: Vec<String>,
    #[command(flatten)]
    security: SecurityOptions,
}

impl Arguments {
    /// What the verdict hangs on.
    fn metric(&self) -> Metric {
        let named = if self.capacity { Some(Metric::Capacity) } else { self.primary };
        named.unwrap_or_else(|| self.metrics.decides())
    }

    /// The load, climbing where capacities are compared.
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
    let run = if let Some(folder) = &arguments.resume {
        cli.goes_on(&["yes"])?;
        resume(folder, &security, progress)?
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
        Compared::Judged(comparison) => judged(*comparison, &folder, cli),
    })
}

fn judged(comparison: Comparison, folder: &RunFolder, cli: &CliContext) -> Result<Ending> {
    let ending = if comparison.has_regression() { Ending::Worse } else { Ending::Done };
    let entry = |_: &str| hone_document::entries::comparison::entry_of(&comparison, folder.path());
    // Once, however often a run is resumed. The ledger lies beside the run's folder.
    let entered = ledger::enter_once(folder, "ledger.json", Some(&comparison), entry, &cli.progress);
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let next = to_settle(&comparison, 1, &words).map_or(String::new(), |next| format!("  next: {next}\n"));
    let behind = format!("\nRecord: {}\n{next}", folder.join("comparison.json").display());
    cli.show_document(
        comparison,
        |comparison| documents::comparison(comparison, &BTreeMap::new(), None),
        &behind,
    )?;
    entered.map(|()| ending)
}

/// A budget: `300`, `90s`, `5m`, `1h`, from a second to a week.
fn seconds(text: &str) -> Result<f64> {
    let found = read_seconds(text).map_err(|problem| Usage(format!("--budget: {problem}")))?;
    match (1.0..=604_800.0).contains(&found) {
        true => Ok(found),
        false => {
            Err(Usage(format!("--budget `{text}`: use a duration from 1s to 168h, for example `5m`")).into())
        }
    }
}

/// `5%` or `0.05`, as a ratio above 1.
fn ratio(text: &str) -> Result<f64> {
    let share = share(text).map_err(|problem| Usage(format!("--effect: {problem}")))?;
    Ok(1.0 + share)
}

/// What was asked for, as it is kept for the next attempt.
fn settings(arguments: &Arguments) -> Result<CompareSettings> {
    let change = match &arguments.change[..] {
        [] => None,
        [one] => Some(change::parse(one)?),
        more => bail!(Usage(format!(
            "{} changes at once: nobody could say which of them did it. One change at a time; what is kept becomes \
             part of A for the next one",
            more.len()
        ))),
    };
    let builds =
        |first: &Option<String>, more: &[String]| first.iter().chain(more).cloned().collect::<Vec<String>>();
    if change.is_some() && !(arguments.a_builds.is_empty() && arguments.b_builds.is_empty()) {
        bail!(Usage("--change compares one build with itself; leave out --a-build and --b-build".to_owned()));
    }
    Ok(CompareSettings {
        a: builds(&arguments.a, &arguments.a_builds),
        b: builds(&arguments.b, &arguments.b_builds),
        change,
        host_root: arguments.host_root.clone(),
        working_folder: std::env::current_dir().context("the working folder is gone")?,
        mode: arguments.mode.map(Mode::from),
        free: arguments.free,
        pairs: arguments.pairs,
        control_pairs: arguments.control_pairs,
        reserve: arguments.reserve,
        primary: arguments.metric(),
        workload: arguments.load()?,
        budget_s: arguments.budget.as_deref().map(seconds).transpose()?,
        effect: arguments.effect.as_deref().map(ratio).transpose()?,
        plan_only: arguments.plan,
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
            "this changes a setting of the machine ({what}); say --yes to do so without being asked"
        )));
    }
    cli.progress.line(&format!("This changes a setting of the machine: {what}. Go on? [y/N]"));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).context("the answer can't be read")?;
    if matches!(answer.trim(), "y" | "Y" | "yes") { Ok(()) } else { bail!("nothing was changed") }
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

    /// A climb from 1,000 to 32,000 requests/s could take 94 s, and ends behind 5 where it breaks at the second step.
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
        assert!(told.contains("take about 104 s") && told.contains("--from"), "{told}");
        let longer = Only::try_parse_from(capacity.iter().chain([&"20m", &"--duration", &"3"]));
        assert!(longer.unwrap_err().to_string().contains("cannot be used with"));
    }
}

//! `hone compare A B`: two brokers, pair by pair.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use hone_compare::{Plan, SavedRule};
use hone_format::read_seconds;
use hone_load::Security;
use hone_record::{Change, Comparison, Design, Metric, Mode, PairOutcome, Pilot, Workload};
use hone_report::documents;
use hone_tool::System;
use serde::{Deserialize, Serialize};

use super::batch::options::{ModeName, metric};
use super::saved;
use super::security::SecurityOptions;
use super::settle::to_settle;
use super::workload::WorkloadOptions;
use crate::cmd::context::{CliContext, default_runs};
use hone_experiment::arm::{self, Arm, Place};
use hone_experiment::budget;
use hone_experiment::climb::Wanted;
use hone_experiment::drive::{Clock, Contest, compare};
use hone_experiment::ending::{Ending, Usage, WayOn};
use hone_experiment::folder::RunFolder;
use hone_experiment::lever::{self, Lever, Set};
use hone_experiment::meter::Metrics;
use hone_experiment::notation::share;
use hone_experiment::places::Places;
use hone_experiment::settings::ComparisonSettings;
use hone_experiment::standing::Standing;
use hone_experiment::topics::{self, Topics, all_looked_after};
use hone_experiment::{change, ledger, left, targets};

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

/// All that was asked for, as it is kept for the next attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct CompareSettings {
    /// The builds of A, and those of B; none of B when a change makes B.
    a: Vec<String>,
    b: Vec<String>,
    change: Option<Change>,
    host_root: PathBuf,
    /// Where commands and their relative paths were meant.
    working_folder: PathBuf,
    mode: Option<Mode>,
    free: bool,
    pairs: u32,
    control_pairs: u32,
    reserve: Option<u32>,
    primary: Metric,
    workload: Workload,
    budget_s: Option<f64>,
    /// As a ratio above 1.
    effect: Option<f64>,
    plan_only: bool,
    #[serde(default)]
    metrics: Metrics,
    /// Of B, where they are not those of A.
    #[serde(default)]
    b_metrics: Vec<String>,
    /// What the run stands on; filled before the first window.
    #[serde(default)]
    standing: Option<Standing>,
    /// How pairs are judged, which of them count, and how long starts may take.
    #[serde(flatten)]
    comparison: ComparisonSettings,
}

const ASKED: &str = "asked.json";

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let security = arguments.security.security()?;
    if let Some(folder) = &arguments.undo {
        return undo(folder, &security, cli);
    }
    if let Some(folder) = &arguments.resume {
        cli.goes_on(&["yes"])?;
        return resume(folder, &security, cli);
    }
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
    let mut asked = CompareSettings::of(arguments)?;
    let sides = asked.sides(&security)?;
    if sides.are_alike() {
        let line = "A and B are the same command: this A/A test shows how much two equal arms differ";
        cli.progress.line(line);
    }
    let plan = asked.plan(&sides)?;
    hone_compare::plan(&plan)?;
    sides.workloads.iter().try_for_each(hone_load::check)?;
    if let Some(wanted) = asked.wanted() {
        budget::check(&wanted, asked.least_windows_s(plan.mode), &plan)?;
    }
    left::tidied(&arguments.output, &sides.addresses(), &security, &cli.progress)?;
    check_cpu(&sides.builds, plan.primary)?;
    asked.standing = Some(standing(&sides)?);
    let folder = RunFolder::create(&arguments.output, "compare")?;
    if let Some(change) = &mut asked.change {
        change.was = try_lever(change, &sides, arguments.yes, &folder, cli)?;
        change::differs_from_what_was(change)?;
    }
    folder.write_note(ASKED, &asked)?;
    go(&asked, sides, &plan, &folder, &security, cli)
}

fn undo(folder: &Path, security: &Security, cli: &CliContext) -> Result<Ending> {
    if !folder.join(ASKED).is_file() && !folder.join(lever::UNDO).is_file() {
        bail!(Usage(format!(
            "{} is no folder of a run, so nothing was looked at and nothing put back\n  next: name the folder that the run told when it began",
            folder.display()
        )));
    }
    let was_set = lever::put_back_left_over(folder, security, &cli.progress)?;
    let run = RunFolder::open(folder)?;
    let _held = run.held()?;
    let had_topics = topics::sweep(&run, security, &cli.progress)?;
    if !was_set && !had_topics {
        cli.progress.line(&format!("{} left nothing set", folder.display()));
    }
    Ok(Ending::Done)
}

fn resume(folder: &Path, security: &Security, cli: &CliContext) -> Result<Ending> {
    let folder = RunFolder::open(folder)?;
    lever::put_back_left_over(folder.path(), security, &cli.progress)?;
    let missing =
        || Usage(format!("{} is no run of hone compare: it has no {ASKED}", folder.path().display()));
    let asked: CompareSettings = folder.read_note(ASKED)?.ok_or_else(missing)?;
    // Commands may hold paths that were meant from where the run began.
    std::env::set_current_dir(&asked.working_folder)
        .with_context(|| format!("the run began in {}", asked.working_folder.display()))?;
    // One who goes on wants the pairs and not the plan again.
    let asked = CompareSettings { plan_only: false, ..asked };
    let sides = asked.sides(security)?;
    // What another run left would be measured on, too.
    left::tidied(folder.home(), &sides.addresses(), security, &cli.progress)?;
    if let Some(then) = &asked.standing {
        then.same_as(&standing(&sides)?, folder.path())?;
    }
    let plan = asked.plan(&sides)?;
    go(&asked, sides, &plan, &folder, security, cli)
}

fn standing(sides: &Sides) -> Result<Standing> {
    let machine = hone_host::observe::machine(Path::new("/"));
    Standing::of(sides.builds.iter().flatten(), sides.workloads.iter(), &machine)
}

/// Measures what is not measured yet, judges, shows.
fn go(
    asked: &CompareSettings,
    sides: Sides,
    plan: &Plan,
    folder: &RunFolder,
    security: &Security,
    cli: &CliContext,
) -> Result<Ending> {
    let _held = folder.held()?;
    left::clean_up(folder.path(), &cli.progress)?;
    let runner = System::new(folder.join("logs"))?;
    let _noting = left::noted(folder)?;
    let sets = sides.sets(asked.change.as_ref());
    let topics = sides.topics();
    let mut contest = Contest {
        names: ["A", "B"].map(str::to_owned),
        builds: sides.builds,
        workloads: sides.workloads,
        most_saved: None,
        change: asked.change.clone(),
        sets,
        design: hone_compare::plan(plan)?,
        pilot: None,
        clock: asked.budget_s.map(|total_s| clock(total_s, folder)).transpose()?,
        storage: asked.comparison.storage.clone(),
        lateness_limit_us: asked.comparison.lateness_limit_us,
        topic: match topics.first() {
            Some(Topics { prefix, .. }) => hone_load::Topic::Named { prefix: prefix.clone(), keep: false },
            None => hone_load::Topic::Fresh,
        },
        folder,
        prefix: String::new(),
        runner: &runner,
        machine: hone_host::observe::machine(Path::new("/")),
    };
    cli.progress.line(&format!("Run folder: {}", folder.path().display()));
    let work = || match planned(asked, plan, &mut contest, cli)? {
        Some(pilot) if asked.plan_only => {
            cli.show_found("pilot", &pilot, |pilot| {
                hone_document::plan::text(pilot, asked.budget_s.unwrap_or_default())
            })?;
            Ok(Ending::Done)
        }
        _ => judged(&contest, folder, cli),
    };
    let result = all_looked_after(folder, &topics, security, &cli.progress, work);
    let kept = folder.join("pairs").exists();
    if kept { WayOn::behind(result, "compare", folder) } else { result }
}

fn judged(contest: &Contest<'_>, folder: &RunFolder, cli: &CliContext) -> Result<Ending> {
    let comparison = compare(contest, &cli.progress)?;
    let ending = if comparison.has_regression() { Ending::Worse } else { Ending::Done };
    folder.write_record("comparison.json", comparison.clone())?;
    let entered = enter_in_ledger(&comparison, folder, cli);
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let next = to_settle(&comparison, &words).map_or(String::new(), |next| format!("  next: {next}\n"));
    let behind = format!("\nRecord: {}\n{next}", folder.join("comparison.json").display());
    cli.show_document(
        comparison,
        |comparison| documents::comparison(comparison, &BTreeMap::new(), None),
        &behind,
    )?;
    entered.map(|()| ending)
}

/// Once, however often a run is resumed. The ledger lies beside the run's folder.
fn enter_in_ledger(comparison: &Comparison, folder: &RunFolder, cli: &CliContext) -> Result<()> {
    let entry = |_: &str| hone_document::entries::comparison::entry_of(comparison, folder.path());
    ledger::enter_once(folder, "ledger.json", Some(comparison), entry, &cli.progress)
}

/// With a budget: the design and what it promises, from the folder or from a pilot. Both are on the disk before the first
/// A/B window.
fn planned(
    asked: &CompareSettings,
    plan: &Plan,
    contest: &mut Contest<'_>,
    cli: &CliContext,
) -> Result<Option<Pilot>> {
    let (Some(wanted), Some(clock)) = (asked.wanted(), contest.clock) else {
        // A design that is on the disk is the one that counts.
        if let Some(design) = contest.folder.read_note("design.json")? {
            contest.design = design;
        }
        return Ok(None);
    };
    let earlier: (Option<Design>, Option<Pilot>) =
        (contest.folder.read_note("design.json")?, contest.folder.read_note("pilot.json")?);
    let (design, pilot) = match earlier {
        (Some(design), Some(pilot)) => (design, pilot),
        _ => {
            contest.design = budget::pilot_design(plan)?;
            contest.folder.write_note("pilot-design.json", &contest.design)?;
            cli.progress.line("Pilot: A/A pairs, to find out what the rest of the budget can show");
            let measured = budget::measure_pilot(contest, plan, &wanted, &cli.progress)?;
            let (design, pilot) = budget::lay_out(plan, &measured, clock.left_s(), &wanted)?;
            contest.folder.write_note("pilot.json", &pilot)?;
            contest.folder.write_note("design.json", &design)?;
            (design, pilot)
        }
    };
    cli.progress.line(&hone_document::plan::headline(&pilot));
    contest.design = design;
    contest.pilot = Some(pilot.clone());
    Ok(Some(pilot))
}

/// The clock of this attempt; what earlier ones took is on the disk.
fn clock(total_s: f64, folder: &RunFolder) -> Result<Clock> {
    let mut earlier_s = 0.0;
    for index in 0.. {
        let note = format!("pairs/{index:03}.json");
        let Some(pair) = folder.read_note::<PairOutcome>(&note)? else { break };
        earlier_s += pair.took_s;
    }
    Ok(Clock { total_s, earlier_s, started: Instant::now(), for_the_reserve: false })
}

/// What stands on the two sides.
struct Sides {
    builds: [Vec<Arm>; 2],
    workloads: [Workload; 2],
    lever: Option<Lever>,
}

impl Sides {
    /// Whether nothing differs but chance.
    fn are_alike(&self) -> bool {
        let places = |side: usize| self.builds[side].iter().map(|arm| &arm.place);
        self.workloads[0] == self.workloads[1] && self.lever.is_none() && places(0).eq(places(1))
    }

    /// Brokers that run already, each once.
    fn addresses(&self) -> Vec<&str> {
        let places = self.builds.iter().flatten().filter_map(|arm| match &arm.place {
            Place::Address(address) => Some(address.as_str()),
            Place::Program(_) => None,
        });
        places.collect::<BTreeSet<&str>>().into_iter().collect()
    }

    /// Where this run makes topics that no broker takes with it when it ends.
    fn topics(&self) -> Vec<Topics> {
        let prefix = topics::prefix("compare");
        let topics = |address: &str| Topics { address: address.to_owned(), prefix: prefix.clone() };
        self.addresses().into_iter().map(topics).collect()
    }

    /// What the change sets outside of the arms, for each of them.
    fn sets(&self, change: Option<&Change>) -> [Vec<Set>; 2] {
        let Some((lever, change)) = self.lever.as_ref().zip(change) else { return Default::default() };
        [change.from.as_ref(), Some(&change.to)].map(|value| {
            let set =
                |value: &String| Set { lever: lever.clone(), value: value.clone(), was: change.was.clone() };
            value.map(set).into_iter().collect()
        })
    }
}

impl CompareSettings {
    fn of(arguments: &Arguments) -> Result<Self> {
        let change = match &arguments.change[..] {
            [] => None,
            [one] => Some(change::parse(one)?),
            more => bail!(Usage(format!(
                "{} changes at once: nobody could say which of them did it. One change at a time; what is kept becomes \
                 part of A for the next one",
                more.len()
            ))),
        };
        let builds = |first: &Option<String>, more: &[String]| {
            first.iter().chain(more).cloned().collect::<Vec<String>>()
        };
        if change.is_some() && !(arguments.a_builds.is_empty() && arguments.b_builds.is_empty()) {
            bail!(Usage(
                "--change compares one build with itself; leave out --a-build and --b-build".to_owned()
            ));
        }
        Ok(Self {
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

    fn wanted(&self) -> Option<budget::Wanted> {
        Some(budget::Wanted { total_s: self.budget_s?, effect: self.effect })
    }

    /// What the windows of a pair take by themselves at least: a climb ends where the promise breaks.
    fn least_windows_s(&self, mode: Mode) -> f64 {
        self.workload.least_s() * if mode == Mode::Solo { 2.0 } else { 1.0 }
    }

    fn sides(&self, security: &Security) -> Result<Sides> {
        let place = |text: &String| self.comparison.place(text);
        let mut of_b = self.metrics.clone();
        if !self.b_metrics.is_empty() {
            of_b.urls.clone_from(&self.b_metrics);
        }
        self.metrics.check()?;
        of_b.check()?;
        let arms = |name: &str, places: Vec<Place>| {
            let metrics = if name == "A" { &self.metrics } else { &of_b };
            let several = places.len() > 1;
            let name =
                |number: usize| if several { format!("{name}{}", number + 1) } else { name.to_owned() };
            let arm = |(number, place)| Arm {
                name: name(number),
                place,
                security: security.clone(),
                metrics: metrics.clone(),
            };
            places.into_iter().enumerate().map(arm).collect::<Vec<Arm>>()
        };
        let a = self.a.iter().map(place).collect::<Result<Vec<_>>>()?;
        let Some(change) = &self.change else {
            let b = self.b.iter().map(place).collect::<Result<Vec<_>>>()?;
            if a.iter().any(|place| matches!(place, Place::Address(_)) && b.contains(place)) {
                bail!(Usage(format!(
                    "A and B are the same broker, {}; for an A/A test start two, for a change of it see --change",
                    self.a[0]
                )));
            }
            let workloads = [self.workload.clone(), self.workload.clone()];
            return Ok(Sides { builds: [arms("A", a), arms("B", b)], workloads, lever: None });
        };
        let place = a.first().context("A is missing")?;
        let [a, b] = change::places(change, place)?;
        Ok(Sides {
            builds: [arms("A", vec![a]), arms("B", vec![b])],
            workloads: change::workloads(change, &self.workload)?,
            lever: Lever::of(change, &self.host_root, security),
        })
    }

    fn plan(&self, sides: &Sides) -> Result<Plan> {
        let programs = sides.builds.iter().flatten().all(|arm| matches!(arm.place, Place::Program(_)));
        let on_host = matches!(sides.lever, Some(Lever::Host { .. }));
        let mode = match self.mode {
            Some(mode) => mode,
            None if programs && !on_host && self.primary != Metric::Capacity => Mode::Duet,
            None => Mode::Solo,
        };
        if mode == Mode::Duet && (on_host || (self.change.is_some() && !programs)) {
            let shared = if on_host { "machine" } else { "broker" };
            bail!(Usage(format!(
                "both arms share one {shared}, which can't be as it is and changed at the same time: use --mode solo"
            )));
        }
        if mode == Mode::Duet && !programs && self.control_pairs > 0 {
            bail!(Usage(
                "in a duet, a broker that runs already has no twin for the A/A control: use --mode solo, give both arms as \
                 commands, or go without a control (--control-pairs 0)"
                    .to_owned()
            ));
        }
        let builds = [0, 1].map(|side: usize| sides.builds[side].len() as u32);
        // A budget's pairs come out of the pilot.
        let pairs =
            if self.budget_s.is_some() { builds.into_iter().fold(self.pairs, u32::max) } else { self.pairs };
        Ok(Plan {
            places: mode == Mode::Duet && programs && !self.free && Places::halves().is_some(),
            builds,
            refused: arm::refused(&sides.workloads, programs),
            both_controls: self.change.is_none() && !programs,
            reserve: self.reserve,
            effect: self.effect_of_pairs(),
            default_guards: true,
            busy: self.metrics.are_read(),
            ..self.comparison.plan(mode, self.primary, [pairs, self.control_pairs], &self.workload)
        })
    }

    /// What a number of pairs has to be able to show. A budget has a plan of its own.
    fn effect_of_pairs(&self) -> Option<f64> {
        self.budget_s.is_none().then(|| self.effect.unwrap_or(hone_compare::USUAL_EFFECT))
    }
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

/// A setting is tried for a moment; this is for the case that the process ends in it.
const GUARD_OF_A_TRIAL: Duration = Duration::from_secs(60);

/// Shows a change of the world outside, asks where it is the machine's, and tries it once: what is refused is refused now,
/// and not after an hour of control pairs. Answers what is in force now.
fn try_lever(
    change: &Change,
    sides: &Sides,
    yes: bool,
    folder: &RunFolder,
    cli: &CliContext,
) -> Result<Option<String>> {
    let Some(lever) = &sides.lever else { return Ok(None) };
    let address = match (&sides.builds[0][0].place, lever) {
        (Place::Address(address), _) => address.as_str(),
        (Place::Program(_), Lever::Host { .. }) => "",
        (Place::Program(_), Lever::Cluster { .. }) => return Ok(None),
    };
    let now = lever.now(address)?;
    let first = change.from.as_ref().unwrap_or(&now);
    if *first == change.to {
        bail!(Usage(format!("{}.{} is `{now}` already: nothing would differ", change.kind, change.name)));
    }
    let what = format!(
        "{}.{}: {first} -> {} for B's windows, and back to {now}",
        change.kind, change.name, change.to
    );
    if matches!(lever, Lever::Host { .. }) && !yes {
        confirm(&what, cli)?;
    }
    cli.progress.line(&format!("Change: {what}"));
    lever.set(&change.to, address, folder.path(), Some(&now), Some(GUARD_OF_A_TRIAL))?.end(Ok(()))?;
    Ok(Some(now))
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

/// For each arm that is a broker which runs already: what decides can be read from here.
fn check_cpu(builds: &[Vec<Arm>; 2], primary: Metric) -> Result<()> {
    builds.iter().flatten().try_for_each(|arm| match &arm.place {
        Place::Address(address) => {
            arm.metrics.check_readable()?;
            targets::check_cpu(address, &arm.security, primary, "say --primary latency-p50")
        }
        Place::Program(_) => Ok(()),
    })
}

#[cfg(test)]
mod tests {
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
            let asked = CompareSettings::of(&only.arguments).unwrap();
            let plan = asked.plan(&asked.sides(&Security::default()).unwrap()).unwrap();
            budget::check(&asked.wanted().unwrap(), asked.least_windows_s(Mode::Solo), &plan)
        };
        check("20m").unwrap();
        let told = check("90s").unwrap_err().to_string();
        assert!(told.contains("take about 104 s") && told.contains("--from"), "{told}");
        let longer = Only::try_parse_from(capacity.iter().chain([&"20m", &"--duration", &"3"]));
        assert!(longer.unwrap_err().to_string().contains("cannot be used with"));
    }

    #[test]
    fn random_arrivals_promise_fewer_requests_than_even_ones() {
        let mut workload = hone_experiment::spec::WorkloadFile::default().named("w").unwrap();
        assert_eq!(workload.requests_per_window(), Some(4_787));
        workload.schedule = hone_record::Schedule::Uniform;
        assert_eq!(workload.requests_per_window(), Some(5_000));
    }
}

//! A comparison of two brokers: its settings, its sides, and the run from the first check to the record.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hone_compare::{LookPlan, Plan};
use hone_load::Security;
use hone_record::{Change, Comparison, Counted, Metric, Mode, Pilot, Workload};
use hone_tool::{System, interrupt};
use serde::{Deserialize, Serialize};

use crate::arm::{self, Arm, Place};
use crate::bench::Bench;
use crate::counted::Counting;
use crate::drive::{Contest, compare, in_one_line};
use crate::ending::{Usage, WayOn};
use crate::folder::RunFolder;
use crate::lever::{self, Lever, Set};
use crate::meter::Metrics;
use crate::places::Places;
use crate::progress::Progress;
use crate::run_context::{back_to, begun_with};
use crate::settings::ComparisonSettings;
use crate::standing::Standing;
use crate::topics::{self, Topics, all_looked_after};
use crate::{budget, change, continuation, left, targets};

/// All settings of the run, stored for the next attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CompareSettings {
    /// The builds of A.
    pub a: Vec<String>,
    /// Those of B; none if a change turns A into B.
    pub b: Vec<String>,
    /// The change that turns A into B.
    pub change: Option<Change>,
    /// Root of the machine's files.
    pub host_root: PathBuf,
    /// The working directory for commands and their relative paths.
    pub working_folder: PathBuf,
    /// Concurrent pairs (duet) or sequential ones (solo), if given.
    pub mode: Option<Mode>,
    /// Leave the placement of a duet's arms to the scheduler.
    pub free: bool,
    /// A/B pairs.
    pub pairs: u32,
    /// A/A pairs.
    pub control_pairs: u32,
    /// Limit of excluded pairs of each kind that are measured again.
    pub reserve: Option<u32>,
    /// The metric that decides.
    pub primary: Metric,
    /// The load.
    pub workload: Workload,
    /// Time limit of the complete run.
    pub budget_s: Option<f64>,
    /// As a ratio above 1.
    pub effect: Option<f64>,
    /// Stop after the pilot.
    pub plan_only: bool,
    /// Count the instructions of two programs in an emulator, too.
    #[serde(default)]
    pub counts: bool,
    /// Metrics pages; of A only if B has its own.
    #[serde(default)]
    pub metrics: Metrics,
    /// Metrics pages of B, if they differ from A's.
    #[serde(default)]
    pub b_metrics: Vec<String>,
    /// The basis of the run, filled before the first window.
    #[serde(default)]
    pub standing: Option<Standing>,
    /// How pairs are judged, which ones are excluded, and time limits for starts.
    #[serde(flatten)]
    pub comparison: ComparisonSettings,
}

impl CompareSettings {
    /// The requirements of a budget.
    pub fn wanted(&self) -> Option<budget::Wanted> {
        Some(budget::Wanted { total_s: self.budget_s?, effect: self.effect })
    }

    /// The shortest duration of a pair's windows. A climb ends where the SLO breaks.
    pub fn least_windows_s(&self, mode: Mode) -> f64 {
        self.workload.least_s() * if mode == Mode::Solo { 2.0 } else { 1.0 }
    }

    /// Address or command of A and of B. Of several builds it is the first, with their number.
    pub fn targets(&self) -> [String; 2] {
        let of = |builds: &[String]| match builds {
            [] => String::new(),
            [one] => one.clone(),
            [first, more @ ..] => format!("{first} and {} more builds", more.len()),
        };
        let a = of(&self.a);
        [a.clone(), if self.change.is_some() { a } else { of(&self.b) }]
    }

    /// The two sides.
    pub fn sides(&self, security: &Security) -> Result<Sides> {
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
                    "A and B are the same broker, {}\n  next: for an A/A test start two brokers; to test a \
                     change of it use --change",
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

    /// The design of the pairs, as far as it is known before a pilot.
    pub fn plan(&self, sides: &Sides) -> Result<Plan> {
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
                "both arms share one {shared}, whose setting can't have two values at once\n  next: use \
                 --mode solo"
            )));
        }
        if mode == Mode::Duet && !programs && self.control_pairs > 0 {
            bail!(Usage(
                "in a duet, a running broker has no twin for the A/A control\n  next: use --mode solo, give \
                 both arms as commands, or drop the control (--control-pairs 0)"
                    .to_owned()
            ));
        }
        let builds = [0, 1].map(|side: usize| sides.builds[side].len() as u32);
        // With a budget, the pilot determines the pairs.
        let pairs =
            if self.budget_s.is_some() { builds.into_iter().fold(self.pairs, u32::max) } else { self.pairs };
        Ok(Plan {
            places: mode == Mode::Duet && programs && !self.free && Places::halves().is_some(),
            builds,
            refused: arm::refused(&sides.workloads, programs),
            both_controls: self.change.is_none() && !programs,
            reserve: self.reserve,
            effect: self.effect_of_pairs(),
            looks: LookPlan::of_pairs(pairs, builds),
            default_guards: true,
            busy: self.metrics.are_read(),
            ..self.comparison.plan(mode, self.primary, [pairs, self.control_pairs], &self.workload)
        })
    }

    /// The difference that the pairs must be able to detect. A budget has its own plan.
    fn effect_of_pairs(&self) -> Option<f64> {
        self.budget_s.is_none().then(|| self.effect.unwrap_or(hone_compare::USUAL_EFFECT))
    }
}

/// The two sides.
pub struct Sides {
    builds: [Vec<Arm>; 2],
    workloads: [Workload; 2],
    lever: Option<Lever>,
}

impl Sides {
    /// Whether both sides are equal.
    fn are_alike(&self) -> bool {
        let places = |side: usize| self.builds[side].iter().map(|arm| &arm.place);
        self.workloads[0] == self.workloads[1] && self.lever.is_none() && places(0).eq(places(1))
    }

    /// Running brokers, without duplicates.
    fn addresses(&self) -> Vec<&str> {
        let places = self.builds.iter().flatten().filter_map(|arm| match &arm.place {
            Place::Address(address) => Some(address.as_str()),
            Place::Program(_) => None,
        });
        places.collect::<BTreeSet<&str>>().into_iter().collect()
    }

    /// The clusters on which this run's topics would remain after its end.
    fn topics(&self) -> Vec<Topics> {
        let prefix = topics::prefix("compare");
        let topics = |address: &str| Topics { address: address.to_owned(), prefix: prefix.clone() };
        self.addresses().into_iter().map(topics).collect()
    }

    /// The external settings of the change, for each arm.
    fn sets(&self, change: Option<&Change>) -> [Vec<Set>; 2] {
        let Some((lever, change)) = self.lever.as_ref().zip(change) else { return Default::default() };
        [change.from.as_ref(), Some(&change.to)].map(|value| {
            let set =
                |value: &String| Set { lever: lever.clone(), value: value.clone(), was: change.was.clone() };
            value.map(set).into_iter().collect()
        })
    }
}

const ASKED: &str = "asked.json";

/// A comparison that was started or resumed.
pub struct CompareRun {
    asked: CompareSettings,
    sides: Sides,
    plan: Plan,
    /// The run's folder.
    pub folder: RunFolder,
}

/// The result.
#[derive(Debug)]
pub enum Compared {
    /// The prediction for a budget of these seconds, if only a plan was requested.
    Planned(Pilot, f64),
    /// All pairs, judged.
    Judged(Box<Comparison>),
}

/// Examines both sides, rejects invalid settings before the first window, and makes the run's folder under `runs`. `may_change`
/// asks for consent before a setting of the machine is changed.
pub fn begin(
    mut asked: CompareSettings,
    runs: &Path,
    may_change: &dyn Fn(&str) -> Result<()>,
    security: &Security,
    progress: &Progress,
) -> Result<CompareRun> {
    let sides = asked.sides(security)?;
    if sides.are_alike() {
        let line = "A and B are the same command: this A/A test shows the difference of two equal arms";
        progress.line(line);
    }
    let plan = asked.plan(&sides)?;
    hone_compare::plan(&plan)?;
    sides.workloads.iter().try_for_each(hone_load::check)?;
    if let Some(wanted) = asked.wanted() {
        budget::check(&wanted, asked.least_windows_s(plan.mode), &plan)?;
    }
    left::tidied(runs, &sides.addresses(), security, progress)?;
    check_cpu(&sides.builds, plan.primary)?;
    asked.standing = Some(standing(&sides)?);
    let folder = RunFolder::create(runs, "compare")?;
    if let Some(change) = &mut asked.change {
        change.was = try_lever(change, &sides, may_change, &folder, progress)?;
        change::differs_from_what_was(change)?;
    }
    folder.write_note(ASKED, &asked)?;
    Ok(CompareRun { asked, sides, plan, folder })
}

/// Opens a run that continues after its last pair. With a total budget in seconds, it continues a run that ended without a verdict.
pub fn resume(
    folder: &Path,
    budget_s: Option<f64>,
    security: &Security,
    progress: &Progress,
) -> Result<CompareRun> {
    let folder = RunFolder::open(folder)?;
    lever::put_back_left_over(folder.path(), security, progress)?;
    let asked: CompareSettings = begun_with(&folder, ASKED, "compare")?;
    back_to(&asked.working_folder)?;
    // A resumed run measures the pairs and does not repeat the plan.
    let asked = CompareSettings { plan_only: false, ..asked };
    let sides = asked.sides(security)?;
    // A setting that another run left behind would be part of the measurement.
    left::tidied(folder.home(), &sides.addresses(), security, progress)?;
    if let Some(then) = &asked.standing {
        then.same_as(&standing(&sides)?, folder.path())?;
    }
    let plan = asked.plan(&sides)?;
    if let Some(total_s) = budget_s {
        continuation::begin(&folder, asked.budget_s, budget::pairs_s(&folder, "")?, total_s)?;
    }
    Ok(CompareRun { asked, sides, plan, folder })
}

/// Restores the settings of a killed run, and deletes the topics that it left.
pub fn undo(folder: &Path, security: &Security, progress: &Progress) -> Result<()> {
    if !folder.join(ASKED).is_file() && !folder.join(lever::UNDO).is_file() {
        bail!(Usage(format!(
            "{} is not the folder of a run, so Hone checked and restored nothing\n  next: name the folder \
             that the run printed when it started",
            folder.display()
        )));
    }
    let was_set = lever::put_back_left_over(folder, security, progress)?;
    let run = RunFolder::open(folder)?;
    let _held = run.held()?;
    let had_topics = topics::sweep(&run, security, progress)?;
    if !was_set && !had_topics {
        progress.line(&format!("{} left nothing to roll back", folder.display()));
    }
    Ok(())
}

impl CompareRun {
    /// Measures the remaining pairs, judges them, and passes the result to `show`. `headline` is the pilot's prediction in words.
    pub fn finish<T>(
        self,
        headline: fn(&Pilot) -> String,
        security: &Security,
        progress: &Progress,
        show: impl FnOnce(Compared) -> Result<T>,
    ) -> Result<T> {
        let Self { asked, sides, plan, folder } = self;
        let (asked, plan, folder) = (&asked, &plan, &folder);
        let _held = folder.held()?;
        left::clean_up(folder.path(), progress)?;
        let runner = System::new(folder.join("logs"))?;
        let _noting = left::noted(folder)?;
        let sets = sides.sets(asked.change.as_ref());
        let topics = sides.topics();
        let mut contest = Contest {
            names: ["A", "B"].map(str::to_owned),
            builds: sides.builds,
            fresh_programs: false,
            workloads: sides.workloads,
            most_saved: None,
            change: asked.change.clone(),
            sets,
            design: hone_compare::plan(plan)?,
            pilot: None,
            clock: continuation::total_s(folder, asked.budget_s)?
                .map(|total_s| budget::clock(total_s, folder, ""))
                .transpose()?,
            storage: asked.comparison.storage.clone(),
            lateness_limit_us: asked.comparison.lateness_limit_us,
            topic: match topics.first() {
                Some(Topics { prefix, .. }) => {
                    hone_load::Topic::Named { prefix: prefix.clone(), keep: false }
                }
                None => hone_load::Topic::Fresh,
            },
            folder,
            prefix: String::new(),
            runner: &runner,
            machine: hone_host::observe::machine(Path::new("/")),
        };
        progress.line(&format!("Run folder: {}", folder.path().display()));
        let work = || match planned(asked, plan, &mut contest, headline, progress)? {
            Some(pilot) if asked.plan_only => {
                show(Compared::Planned(pilot, asked.budget_s.unwrap_or_default()))
            }
            _ => {
                continuation::add_ends(&mut contest.design, folder)?;
                let measured = compare(&contest, progress)?;
                let counted = if asked.counts { counted(&contest, progress)? } else { None };
                let comparison = Comparison { targets: asked.targets(), counted, ..measured };
                folder.write_record("comparison.json", comparison.clone())?;
                show(Compared::Judged(Box::new(comparison)))
            }
        };
        let result = all_looked_after(folder, &topics, security, progress, work);
        let kept = folder.join("pairs").exists();
        if kept { WayOn::behind(result, "compare", folder) } else { result }
    }
}

/// Exact counts of two programs under the same load. `None` if the sides are not two programs, or can't be counted.
fn counted(contest: &Contest<'_>, progress: &Progress) -> Result<Option<Box<Counted>>> {
    let ([a], [b]) = (&contest.builds[0][..], &contest.builds[1][..]) else { return Ok(None) };
    let is_program = |arm: &Arm| matches!(arm.place, Place::Program(_));
    let is_same_load = contest.workloads[0] == contest.workloads[1];
    if !is_same_load || !is_program(a) || !is_program(b) || contest.sets.iter().any(|sets| !sets.is_empty()) {
        return Ok(None);
    }
    let bench = Bench {
        runner: contest.runner,
        scratch: contest.folder.scratch(),
        storage: contest.storage.clone(),
        lateness_limit_us: contest.lateness_limit_us,
        progress,
    };
    progress.doing("counting instructions");
    let counting = Counting::begin(bench, contest.folder.scratch().join("counts"));
    match counting.and_then(|counting| counting.both([a, b], &contest.workloads[0])) {
        Ok(counted) => Ok(Some(Box::new(counted))),
        Err(error) if interrupt::requested() => Err(error),
        Err(error) => {
            progress.line(&format!("Not counted: {}", in_one_line(&error)));
            Ok(None)
        }
    }
}

fn standing(sides: &Sides) -> Result<Standing> {
    Standing::now(sides.builds.iter().flatten(), sides.workloads.iter())
}

/// With a budget: the design and its prediction, from the folder or from a pilot. Both are on the disk before the first A/B
/// window.
fn planned(
    asked: &CompareSettings,
    plan: &Plan,
    contest: &mut Contest<'_>,
    headline: fn(&Pilot) -> String,
    progress: &Progress,
) -> Result<Option<Pilot>> {
    let (Some(wanted), Some(clock)) = (asked.wanted(), contest.clock) else {
        // A stored design has precedence.
        if let Some(design) = contest.folder.read_note("design.json")? {
            contest.design = design;
        }
        return Ok(None);
    };
    budget::planned(contest, plan, &wanted, clock, progress)?;
    let pilot = contest.pilot.clone();
    // A continued run has measured its plan.
    if continuation::budgets(contest.folder)?.is_empty() {
        pilot.iter().for_each(|pilot| progress.line(&headline(pilot)));
    }
    Ok(pilot)
}

/// A setting is only tried for a moment. The watchdog acts if the process dies in that moment.
const GUARD_OF_A_TRIAL: Duration = Duration::from_secs(60);

/// Shows a change of an external setting, asks for consent if it belongs to the machine, and tries it once. A rejected value is
/// then found at once, and not after an hour of control pairs. Returns the current value.
fn try_lever(
    change: &Change,
    sides: &Sides,
    may_change: &dyn Fn(&str) -> Result<()>,
    folder: &RunFolder,
    progress: &Progress,
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
        bail!(Usage(format!(
            "{}.{} is `{now}` already: there would be no difference",
            change.kind, change.name
        )));
    }
    let what = format!(
        "{}.{}: {first} -> {} for B's windows, then {now} again",
        change.kind, change.name, change.to
    );
    if matches!(lever, Lever::Host { .. }) {
        may_change(&what)?;
    }
    progress.line(&format!("Change: {what}"));
    lever.set(&change.to, address, folder.path(), Some(&now), Some(GUARD_OF_A_TRIAL))?.end(Ok(()))?;
    Ok(Some(now))
}

/// Checks for each arm that is a running broker that the deciding metric can be read from here.
fn check_cpu(builds: &[Vec<Arm>; 2], primary: Metric) -> Result<()> {
    builds.iter().flatten().try_for_each(|arm| match &arm.place {
        Place::Address(address) => {
            arm.metrics.check_readable()?;
            targets::check_cpu(address, &arm.security, primary, "use --primary latency-p50")
        }
        Place::Program(_) => Ok(()),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn random_arrivals_promise_fewer_requests_than_even_ones() {
        let mut workload = crate::spec::WorkloadFile::default().named("w").unwrap();
        assert_eq!(workload.requests_per_window(), Some(4_787));
        workload.schedule = hone_record::Schedule::Uniform;
        assert_eq!(workload.requests_per_window(), Some(5_000));
    }
}

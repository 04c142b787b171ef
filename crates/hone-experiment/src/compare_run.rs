//! A comparison of two brokers from its first look at them to its record.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use hone_compare::Plan;
use hone_load::Security;
use hone_record::{Change, Comparison, Design, Metric, PairOutcome, Pilot};
use hone_tool::System;

use crate::arm::{Arm, Place};
use crate::compare_settings::{CompareSettings, Sides};
use crate::drive::{Clock, Contest, compare};
use crate::ending::{Usage, WayOn};
use crate::folder::RunFolder;
use crate::lever::{self, Lever};
use crate::progress::Progress;
use crate::run_context::{back_to, begun_with};
use crate::standing::Standing;
use crate::topics::{self, Topics, all_looked_after};
use crate::{budget, change, left, targets};

const ASKED: &str = "asked.json";

/// A comparison that was begun, or goes on.
pub struct CompareRun {
    asked: CompareSettings,
    sides: Sides,
    plan: Plan,
    /// The run's folder.
    pub folder: RunFolder,
}

/// What came of it.
#[derive(Debug)]
pub enum Compared {
    /// What the budget of these seconds could show: only a plan was asked for.
    Planned(Pilot, f64),
    /// All pairs, judged.
    Judged(Comparison),
}

/// Looks at both sides, finds what can be refused before the first window, and makes the run's folder under `runs`. `may_change` is asked before a
/// setting of the machine is changed.
///
/// # Errors
/// With what is refused.
pub fn begin(
    mut asked: CompareSettings,
    runs: &Path,
    may_change: &dyn Fn(&str) -> Result<()>,
    security: &Security,
    progress: &Progress,
) -> Result<CompareRun> {
    let sides = asked.sides(security)?;
    if sides.are_alike() {
        let line = "A and B are the same command: this A/A test shows how much two equal arms differ";
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

/// Opens a run that goes on after its last pair.
///
/// # Errors
/// When there is no such run, or it stands on something else now.
pub fn resume(folder: &Path, security: &Security, progress: &Progress) -> Result<CompareRun> {
    let folder = RunFolder::open(folder)?;
    lever::put_back_left_over(folder.path(), security, progress)?;
    let asked: CompareSettings = begun_with(&folder, ASKED, "compare")?;
    back_to(&asked.working_folder)?;
    // One who goes on wants the pairs and not the plan again.
    let asked = CompareSettings { plan_only: false, ..asked };
    let sides = asked.sides(security)?;
    // What another run left would be measured on, too.
    left::tidied(folder.home(), &sides.addresses(), security, progress)?;
    if let Some(then) = &asked.standing {
        then.same_as(&standing(&sides)?, folder.path())?;
    }
    let plan = asked.plan(&sides)?;
    Ok(CompareRun { asked, sides, plan, folder })
}

/// Puts back what a run that was killed left set, and deletes the topics that it left.
///
/// # Errors
/// When there is no such run, or something can't be put back.
pub fn undo(folder: &Path, security: &Security, progress: &Progress) -> Result<()> {
    if !folder.join(ASKED).is_file() && !folder.join(lever::UNDO).is_file() {
        bail!(Usage(format!(
            "{} is no folder of a run, so nothing was looked at and nothing put back\n  next: name the folder that the run told when it began",
            folder.display()
        )));
    }
    let was_set = lever::put_back_left_over(folder, security, progress)?;
    let run = RunFolder::open(folder)?;
    let _held = run.held()?;
    let had_topics = topics::sweep(&run, security, progress)?;
    if !was_set && !had_topics {
        progress.line(&format!("{} left nothing set", folder.display()));
    }
    Ok(())
}

impl CompareRun {
    /// Measures what is not measured yet, judges, and shows it by `show`. `headline` is what a pilot says of the rest of the budget.
    ///
    /// # Errors
    /// With what broke off, and how to go on.
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
                let comparison = compare(&contest, progress)?;
                folder.write_record("comparison.json", comparison.clone())?;
                show(Compared::Judged(comparison))
            }
        };
        let result = all_looked_after(folder, &topics, security, progress, work);
        let kept = folder.join("pairs").exists();
        if kept { WayOn::behind(result, "compare", folder) } else { result }
    }
}

fn standing(sides: &Sides) -> Result<Standing> {
    Standing::now(sides.builds.iter().flatten(), sides.workloads.iter())
}

/// With a budget: the design and what it promises, from the folder or from a pilot. Both are on the disk before the first
/// A/B window.
fn planned(
    asked: &CompareSettings,
    plan: &Plan,
    contest: &mut Contest<'_>,
    headline: fn(&Pilot) -> String,
    progress: &Progress,
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
            progress.line("Pilot: A/A pairs, to find out what the rest of the budget can show");
            let measured = budget::measure_pilot(contest, plan, &wanted, progress)?;
            let (design, pilot) = budget::lay_out(plan, &measured, clock.left_s(), &wanted)?;
            contest.folder.write_note("pilot.json", &pilot)?;
            contest.folder.write_note("design.json", &design)?;
            (design, pilot)
        }
    };
    progress.line(&headline(&pilot));
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

/// A setting is tried for a moment; this is for the case that the process ends in it.
const GUARD_OF_A_TRIAL: Duration = Duration::from_secs(60);

/// Shows a change of the world outside, asks where it is the machine's, and tries it once: what is refused is refused now,
/// and not after an hour of control pairs. Answers what is in force now.
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
        bail!(Usage(format!("{}.{} is `{now}` already: nothing would differ", change.kind, change.name)));
    }
    let what = format!(
        "{}.{}: {first} -> {} for B's windows, and back to {now}",
        change.kind, change.name, change.to
    );
    if matches!(lever, Lever::Host { .. }) {
        may_change(&what)?;
    }
    progress.line(&format!("Change: {what}"));
    lever.set(&change.to, address, folder.path(), Some(&now), Some(GUARD_OF_A_TRIAL))?.end(Ok(()))?;
    Ok(Some(now))
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

//! A run of `hone tune` from its settings to its record: started, resumed, measured.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use hone_ledger::Ledger;
use hone_load::Security;
use hone_record::Tuning;
use hone_report::documents;
use hone_tool::System;

use crate::session::Session;
use crate::settings::TuneSettings;
use hone_experiment::ending::{Usage, WayOn};
use hone_experiment::folder::{Held, RunFolder};
use hone_experiment::progress::Progress;
use hone_experiment::run_context::back_to;
use hone_experiment::standing::Standing;
use hone_experiment::{arm, ledger, left, lever, targets};

const ASKED: &str = "asked.json";
const STANDING: &str = "standing.json";
/// The settings outside of the target as they were when the run started.
const FOUND: &str = "found.json";

/// Finds every error that can be found before the builds, which take long, and makes the run's folder under `runs`.
/// `first_change_s` is the time until the first change can be tried. `no_knobs` is the reason why no machine settings are tried.
pub fn begin(
    asked: &TuneSettings,
    (first_change_s, no_knobs): (f64, Option<String>),
    may_change_the_host: bool,
    runs: &Path,
    security: &Security,
    progress: &Progress,
) -> Result<RunFolder> {
    if arm::is_address(&asked.place) {
        asked.metrics.check_readable()?;
        targets::check_cpu(
            &asked.place,
            security,
            asked.objective,
            "set `objective = \"latency-p99\"` in [tune]",
        )?;
    }
    asked.has_time_for_builds(first_change_s)?;
    if let Some(notice) = asked.without_slack() {
        progress.line(&notice);
    }
    if let Some(why) = no_knobs {
        progress.line(&format!("Hone tries no settings of this machine: {why}"));
    }
    if asked.changes_the_host() && !may_change_the_host {
        return Err(Usage(
            "the file allows `host`: Hone would change kernel settings of this machine for one window at a \
             time, and restore them after each\n  next: add --yes to allow that"
                .to_owned(),
        )
        .into());
    }
    left::tidied(runs, &[&asked.place], security, progress)?;
    let folder = RunFolder::create(runs, &asked.name)?;
    folder.write_note(ASKED, asked)?;
    Ok(folder)
}

/// The settings of a resumed run. What it left set is rolled back.
pub fn resume(folder: &RunFolder, security: &Security, progress: &Progress) -> Result<TuneSettings> {
    let missing = || {
        let folder = folder.path().display();
        Usage(format!(
            "can't resume {folder}: it is not a run folder of `hone tune` (no {ASKED})\n  next: name the run \
             folder that `hone tune` printed when it started"
        ))
    };
    let asked: TuneSettings = folder.read_note(ASKED)?.ok_or_else(missing)?;
    back_to(&asked.working_folder)?;
    lever::put_back_left_over(folder.path(), security, progress)?;
    // A setting that another run left behind would be part of the measurement.
    left::tidied(folder.home(), &[&asked.place], security, progress)?;
    Ok(asked)
}

/// Reserves the run's folder before the builds.
pub fn take(folder: &RunFolder, progress: &Progress) -> Result<Held> {
    let held = folder.held()?;
    progress.line(&format!("Run folder: {}", folder.path().display()));
    // Nothing is measured if its ledger entry could not be written.
    Ledger::open(folder.home().join(ledger::NAME))?;
    left::clean_up(folder.path(), progress)?;
    Ok(held)
}

/// Why the builds stop here: with the remaining ones, the budget would leave no time to try anything.
pub fn no_time(left_s: f64, rest_s: f64, then_s: f64) -> Option<String> {
    (left_s < rest_s + then_s).then(|| {
        format!(
            "Hone stopped the builds and tries none of them. {} of the budget were left. The remaining \
             builds would have taken at least {}, judging by the plain build. A first look and one \
             comparison take {}. Hone used that time for candidates that need no build",
            hone_format::duration(left_s),
            hone_format::duration(rest_s),
            hone_format::duration(then_s)
        )
    })
}

/// Measures what is missing, and writes the record and the Markdown. Returns the record's place. `begun` is the start of this
/// attempt; earlier attempts took `earlier_s` seconds.
pub fn finish(
    asked: &TuneSettings,
    folder: &RunFolder,
    time: (Instant, f64),
    security: &Security,
    progress: &Progress,
) -> Result<(Tuning, PathBuf)> {
    same_standing(asked, folder, security)?;
    let tuning = WayOn::behind(tuned(asked, folder, time, security, progress), "tune", folder)?;
    let record = folder.write_record("tuning.json", tuning.clone())?;
    let document = documents::tuning(&tuning, &BTreeMap::new(), None);
    folder.write_text("tuning.md", &document.markdown())?;
    Ok((tuning, record))
}

/// Stores the basis of the run, or compares it with the basis of an earlier attempt.
fn same_standing(asked: &TuneSettings, folder: &RunFolder, security: &Security) -> Result<()> {
    let arms = asked.base(security)?.arms(&asked.candidates)?;
    let now = Standing::now(arms.iter(), std::iter::once(&asked.workload))?;
    match folder.read_note::<Standing>(STANDING)? {
        Some(then) => then.same_as(&now, folder.path()),
        None => folder.write_note(STANDING, &now),
    }
}

fn tuned(
    asked: &TuneSettings,
    folder: &RunFolder,
    (begun, earlier_s): (Instant, f64),
    security: &Security,
    progress: &Progress,
) -> Result<Tuning> {
    let runner = System::new(folder.join("logs"))?;
    let _noting = left::noted(folder)?;
    let mut base = asked.base(security)?;
    base.found = match folder.read_note(FOUND)? {
        Some(found) => found,
        None => {
            let found = base.look(&asked.candidates)?;
            folder.write_note(FOUND, &found)?;
            found
        }
    };
    Session { asked, folder, security, runner: &runner, progress, base, begun, earlier_s }.run()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The builds only stop if nothing could be tried after them.
    #[test]
    fn builds_that_would_eat_the_budget_are_broken_off() {
        assert_eq!(no_time(1_000.0, 700.0, 300.0), None);
        let why = no_time(1_000.0, 701.0, 300.0).unwrap();
        for told in
            ["16 min 40 s of the budget were left", "at least 11 min 41 s", "one comparison take 5 min"]
        {
            assert!(why.contains(told), "{told}: {why}");
        }
    }
}

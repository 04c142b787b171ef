//! A run of `hone tune` from its settings to its record: begun, gone on with, measured.

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
/// What settings outside of the target were when the run began.
const FOUND: &str = "found.json";

/// Finds what can be refused before the builds, which take long, and makes the run's folder under `runs`. `first_change_s` is when the first change
/// could be tried, and `no_knobs` why no settings of the machine are.
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
        progress.line(&format!("No settings of the machine are tried: {why}"));
    }
    if asked.changes_the_host() && !may_change_the_host {
        return Err(Usage(
            "the file allows `host`: settings of this machine's kernel would be changed for windows and put back after each; say --yes to do so"
                .to_owned(),
        )
        .into());
    }
    left::tidied(runs, &[&asked.place], security, progress)?;
    let folder = RunFolder::create(runs, &asked.name)?;
    folder.write_note(ASKED, asked)?;
    Ok(folder)
}

/// The settings of a run that goes on. What it left set is put back.
pub fn resume(folder: &RunFolder, security: &Security, progress: &Progress) -> Result<TuneSettings> {
    let missing = || {
        let folder = folder.path().display();
        Usage(format!(
            "{folder} is no run of hone tune: it has no {ASKED}; name the run folder that it told when it began"
        ))
    };
    let asked: TuneSettings = folder.read_note(ASKED)?.ok_or_else(missing)?;
    back_to(&asked.working_folder)?;
    lever::put_back_left_over(folder.path(), security, progress)?;
    // What another run left would be measured on, too.
    left::tidied(folder.home(), &[&asked.place], security, progress)?;
    Ok(asked)
}

/// Takes the run's folder, before anything is built for it.
pub fn take(folder: &RunFolder, progress: &Progress) -> Result<Held> {
    let held = folder.held()?;
    progress.line(&format!("Run folder: {}", folder.path().display()));
    // Nothing is measured of which the entry could not be written.
    Ledger::open(folder.home().join(ledger::NAME))?;
    left::clean_up(folder.path(), progress)?;
    Ok(held)
}

/// Why builds end here: with their rest, nothing would be left of the budget to try anything in.
pub fn no_time(left_s: f64, rest_s: f64, then_s: f64) -> Option<String> {
    (left_s < rest_s + then_s).then(|| {
        format!(
            "The builds were broken off, and none is tried: {} of the budget were left, the rest of them would have taken {} at least, by what the plain build \
             took, and a first look with one comparison takes {}. What needs no build was tried in that time",
            hone_format::duration(left_s),
            hone_format::duration(rest_s),
            hone_format::duration(then_s)
        )
    })
}

/// Measures what is not measured yet, and keeps record and Markdown. Answers where the record is, too. The attempt began at this time, and earlier
/// ones took so many seconds.
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

/// Notes what the run stands on, or holds it against what an earlier attempt stood on.
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

    /// They are broken off only where nothing could be tried behind them.
    #[test]
    fn builds_that_would_eat_the_budget_are_broken_off() {
        assert_eq!(no_time(1_000.0, 700.0, 300.0), None);
        let why = no_time(1_000.0, 701.0, 300.0).unwrap();
        for told in
            ["16 min 40 s of the budget were left", "11 min 41 s at least", "one comparison takes 5 min"]
        {
            assert!(why.contains(told), "{told}: {why}");
        }
    }
}

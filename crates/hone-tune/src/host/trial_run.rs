//! A trial of a host's knobs from its settings to its record: started, resumed, measured.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_host::profile::{self, Only, Profile, Wish};
use hone_load::Security;
use hone_record::HostTrial;
use hone_report::documents;
use hone_tool::System;

use super::plan_text::untried;
use super::trial::{ASKED, HostTrialSettings, Session};
use hone_experiment::ending::{Usage, WayOn};
use hone_experiment::folder::RunFolder;
use hone_experiment::host_plan::profile;
use hone_experiment::progress::Progress;
use hone_experiment::run_context::{back_to, begun_with};
use hone_experiment::standing::Standing;

/// The profile's name and its wishes, with those of the command line.
pub fn wanted(named: Option<&str>, sets: &[String]) -> Result<(String, Profile)> {
    let name = match (named, sets) {
        (Some(name), _) => Some(name),
        (None, []) => Some("latency"),
        (None, _) => None,
    };
    let empty = || Profile { about: "settings given with --set".to_owned(), knobs: Vec::new() };
    let mut wanted = name.map(profile).transpose()?.unwrap_or_else(empty);
    for set in sets {
        let (knob, value) = set.split_once('=').ok_or_else(|| {
            Usage(format!("--set `{set}` has no `=`; write KNOB=VALUE, for example vm.dirty_ratio=10"))
        })?;
        let wish = Wish {
            name: knob.trim().to_owned(),
            value: value.trim().to_owned(),
            reason: "given with --set".to_owned(),
            source: "the command line".to_owned(),
            at_least: false,
            only: Only::All,
        };
        wanted.knobs.retain(|other| other.name != wish.name);
        wanted.knobs.push(wish);
    }
    let title = name.unwrap_or("the command line").to_owned();
    let wanted = profile::checked(&title, wanted).map_err(|error| Usage(error.to_string()))?;
    Ok((title, wanted))
}

/// Limits of the result.
pub fn limits(asked: &HostTrialSettings, obstacles: &[String], is_program: bool) -> Vec<String> {
    let mut limits = vec![match asked.data {
        Some(_) => format!(
            "A window is {} s long, and dirty pages are flushed before each one: the run can't show a \
             setting's effect on a backlog that grows for longer.",
            hone_format::exact(asked.workload.duration_s)
        ),
        None => {
            "The data folder is not known (--data): Hone does not flush dirty pages between windows, so a \
             window may be slowed down by the previous one."
                .to_owned()
        }
    }];
    if !is_program {
        limits.push(
            "The broker was running before the trial and keeps running. Knobs that only affect new memory or \
             new sockets were not tried. Topics of earlier windows may still be in deletion."
                .to_owned(),
        );
    }
    if !asked.acks.is_empty() {
        let classes: Vec<String> =
            asked.acks.iter().map(|acks| format!("acks={}", hone_format::acks(*acks))).collect();
        limits.push(format!(
            "{} are different durability classes. Each row is only judged within its own class: a difference \
             between classes is the price of a durability guarantee, not a tuning gain.",
            classes.join(", ")
        ));
    }
    limits.extend(obstacles.iter().cloned());
    limits
}

/// Makes the folder of a run with complete settings.
pub fn begin(asked: &mut HostTrialSettings, runs: &Path, security: &Security) -> Result<RunFolder> {
    if asked.candidates.is_empty() {
        bail!("no knob is left to try:\n{}", untried(&asked.untried));
    }
    if let Some(data) = asked.data.as_ref().filter(|data| !data.is_dir()) {
        bail!(Usage(format!("--data {} is not a folder", data.display())));
    }
    let folder = RunFolder::create(runs, "host-try")?;
    asked.standing = Some(standing(asked, security)?);
    folder.write_note(ASKED, asked)?;
    Ok(folder)
}

/// The settings of a resumed run, whose basis must be unchanged.
pub fn resume(folder: &RunFolder, security: &Security) -> Result<HostTrialSettings> {
    let asked: HostTrialSettings = begun_with(folder, ASKED, "host try")?;
    back_to(&asked.working_folder)?;
    if let Some(then) = &asked.standing {
        then.same_as(&standing(&asked, security)?, folder.path())?;
    }
    Ok(asked)
}

fn standing(asked: &HostTrialSettings, security: &Security) -> Result<Standing> {
    Standing::now([asked.arm(security)?].iter(), std::iter::once(&asked.workload))
}

/// Measures what is missing, and writes the record and the Markdown. Returns the record's place.
pub fn measured(
    asked: &HostTrialSettings,
    folder: &RunFolder,
    security: &Security,
    progress: &Progress,
) -> Result<(HostTrial, PathBuf)> {
    let runner = System::new(folder.join("logs"))?;
    let (windows, seconds) = asked.cost();
    progress.line(&format!(
        "Run folder: {}\n{windows} windows, about {:.0} minutes",
        folder.path().display(),
        (seconds / 60.0).ceil()
    ));
    let session = Session { asked, folder, security, runner: &runner, progress };
    let way_on = || {
        WayOn(format!("`hone host try --resume {}` continues after the last round", folder.path().display()))
    };
    let trial = session.run().with_context(way_on)?;
    let record = folder.write_record("host-trial.json", trial.clone())?;
    let document = documents::host_trial(&trial, &BTreeMap::new(), None);
    folder.write_text("host-trial.md", &document.markdown())?;
    Ok((trial, record))
}

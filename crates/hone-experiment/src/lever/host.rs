//! Kernel settings for a window. The journal of `hone host apply` stores the original values, including those of settings that a
//! write changes as a side effect. Its watchdog rolls them back if this process is gone.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use hone_host::change::{Fate, Outcome, Step};
use hone_host::commit::{self, ChangeRequest, Turn};
use hone_host::disks::look;
use hone_host::kernel::Files;
use hone_host::knob::closure;
use hone_host::setting::Setting;
use serde::{Deserialize, Serialize};

use super::Back;
use crate::guard;

/// Settings of a machine that are set together. The journal has the original values; this type finds them again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OfMachine {
    root: PathBuf,
    /// The owner's name in the journal: the run's folder.
    run: String,
    settings: Vec<Wanted>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Wanted {
    /// Its path under the root.
    attribute: String,
    set: String,
    before: String,
}

/// Prefix that marks the journals of windows, of any run.
const NAME: &str = "window of ";

impl OfMachine {
    /// Reads the settings to set in the name of a run; `was` is the value in force when the run began.
    ///
    /// # Errors
    /// When one is unknown, can't be read, or has changed.
    pub(super) fn read<'a>(
        root: &Path,
        folder: &Path,
        wanted: impl Iterator<Item = (&'a str, &'a str, Option<&'a str>)>,
    ) -> Result<Self> {
        let one = |(name, value, was): (&str, &str, Option<&str>)| {
            let setting = Setting::parse(root, name)?;
            let (attribute, before) = (setting.attribute().to_owned(), setting.read()?);
            if let Some(was) = was {
                super::as_it_was(&root.join(&attribute).display().to_string(), was, &before)?;
            }
            Ok(Wanted { attribute, set: super::plain(value), before })
        };
        let settings = wanted.map(one).collect::<Result<_>>()?;
        let run = format!("{NAME}{}", std::path::absolute(folder)?.display());
        Ok(Self { root: root.to_owned(), run, settings })
    }

    /// An exclusive hold on the machine, as long as the result lives.
    pub(super) fn turn(&self) -> Result<Turn> {
        Ok(Turn::take(&self.root)?)
    }

    /// Sets them. After `guard` the watchdog rolls them back.
    ///
    /// # Errors
    /// When the kernel rejects one, after which all have their original values, or when another change is open.
    pub(super) fn set(&self, guard: Option<Duration>) -> Result<()> {
        let files = Files::new(&self.root);
        let step = |wanted: &Wanted| Step {
            path: wanted.attribute.clone(),
            value: wanted.set.clone(),
            closure: closure(&wanted.attribute, &files),
        };
        let mut names: Vec<&str> = self
            .settings
            .iter()
            .filter_map(|wanted| wanted.attribute.strip_prefix("sys/block/")?.split('/').next())
            .collect();
        names.sort_unstable();
        names.dedup();
        let order = ChangeRequest {
            profile: self.run.clone(),
            steps: self.settings.iter().map(step).collect(),
            disks: names.iter().map(|name| look(&files, name)).collect(),
            confirm_within: guard,
        };
        let made = commit::make(&self.root, &order, &mut |id| guard::start(&self.root, id, None));
        made.map(drop).map_err(Into::into)
    }

    /// Rolls them back, if Hone's own values are still in force.
    ///
    /// # Errors
    /// When the journal or the kernel fails.
    pub(super) fn go(&self) -> Result<Back> {
        let known = commit::known(&self.root);
        let open = known.states.iter().find(|(_, state)| !state.closed && state.begun.profile == self.run);
        let back = match (open, known.unreadable.into_iter().next()) {
            (Some((_, state)), _) => commit::take_one_back(&self.root, &state.begun.id)?,
            // The unreadable journal may be this change's.
            (None, Some(broken)) => return Err(broken.why.into()),
            (None, None) => None,
        };
        let told = match back {
            None => self.gone(),
            Some(back) => told(&self.root, &back.outcomes)?,
        };
        self.forget();
        Ok(told)
    }

    /// There was nothing to roll back: the watchdog was faster, or nothing had been set.
    fn gone(&self) -> Back {
        let now = |wanted: &Wanted| Setting::parse(&self.root, &wanted.attribute).ok()?.read().ok();
        let other = |wanted: &&Wanted| now(wanted).as_ref() != Some(&wanted.before);
        let drifted: Vec<String> = self
            .settings
            .iter()
            .filter(other)
            .map(|wanted| is_now(&self.root, &wanted.attribute, &wanted.set, now(wanted).as_deref()))
            .collect();
        if drifted.is_empty() { Back::Gone } else { Back::Drifted(drifted.join("; ")) }
    }

    /// Deletes journals of finished windows. If a watchdog still runs, the next window deletes its journal.
    fn forget(&self) {
        let known = commit::known(&self.root);
        let over =
            known.states.iter().filter(|(_, state)| state.closed && state.begun.profile.starts_with(NAME));
        // Remaining journals do no harm.
        let _ = commit::forget_these(&self.root, over.map(|(_, state)| state.begun.id.as_str()));
    }

    /// Their paths, for people.
    pub(super) fn what(&self) -> String {
        self.listed(|wanted| self.root.join(&wanted.attribute).display().to_string())
    }

    /// Their original values, for people.
    pub(super) fn words(&self) -> String {
        self.listed(|wanted| format!("{} = {}", self.root.join(&wanted.attribute).display(), wanted.before))
    }

    fn listed(&self, words: impl Fn(&Wanted) -> String) -> String {
        self.settings.iter().map(words).collect::<Vec<_>>().join(", ")
    }
}

fn is_now(root: &Path, attribute: &str, set: &str, now: Option<&str>) -> String {
    let now = now.unwrap_or("missing");
    format!("{} was set to `{}` and is `{}` now", root.join(attribute).display(), set.trim(), now.trim())
}

/// The result of a restore. A value that another program changed stays, and is reported. A value that the kernel rejects is an
/// error.
fn told(root: &Path, outcomes: &[Outcome]) -> Result<Back> {
    let words = |outcome: &&Outcome| {
        let set = outcome.left.as_deref().unwrap_or("nothing");
        is_now(root, &outcome.path, set, outcome.now.as_deref())
    };
    let is_decided = |outcome: &&Outcome| outcome.fate == Fate::Drifted && outcome.now.is_some();
    let left = || outcomes.iter().filter(|outcome| !outcome.is_back());
    let failed: Vec<String> = left().filter(|outcome| !is_decided(outcome)).map(|one| words(&one)).collect();
    if !failed.is_empty() {
        bail!("{}; `hone host rollback --force` tries again", failed.join("; "));
    }
    let drifted: Vec<String> = left().map(|one| words(&one)).collect();
    Ok(if drifted.is_empty() { Back::Done } else { Back::Drifted(drifted.join("; ")) })
}

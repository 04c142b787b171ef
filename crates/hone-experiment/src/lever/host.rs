//! Settings of the kernel for a window: the journal of `hone host apply` has what was there before, with all that a write takes along,
//! and its guard takes it back should this process be gone.

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

/// Settings of a machine that are set together. What was there before is in the journal; this is how it is found again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OfMachine {
    root: PathBuf,
    /// In whose name the journal is: the run's folder.
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

/// By this the journals of windows are known, whichever run they are of.
const NAME: &str = "window of ";

impl OfMachine {
    /// What shall be set in the name of a run; `was` is what was in force when that began.
    ///
    /// # Errors
    /// When one is no setting, can't be read, or is not as it was.
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

    /// The machine, for nobody else as long as the answer lives.
    pub(super) fn turn(&self) -> Result<Turn> {
        Ok(Turn::take(&self.root)?)
    }

    /// Sets them; after `guard` they go back by themselves.
    ///
    /// # Errors
    /// When the kernel refuses one, in which case all are as they were, or when somebody else's change is open.
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

    /// Takes them back, if they still are what was set.
    ///
    /// # Errors
    /// When the journal or the kernel refuses.
    pub(super) fn go(&self) -> Result<Back> {
        let known = commit::known(&self.root);
        let open = known.states.iter().find(|(_, state)| !state.closed && state.begun.profile == self.run);
        let back = match (open, known.unreadable.into_iter().next()) {
            (Some((_, state)), _) => commit::take_one_back(&self.root, &state.begun.id)?,
            // It may be the one that was looked for.
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

    /// There was nothing to take back: a guard was quicker, or nothing had been set.
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

    /// Journals of windows that are over. One whose guard has not gone yet is the next one's to delete.
    fn forget(&self) {
        let known = commit::known(&self.root);
        let over =
            known.states.iter().filter(|(_, state)| state.closed && state.begun.profile.starts_with(NAME));
        // What is left of them does no harm.
        let _ = commit::forget_these(&self.root, over.map(|(_, state)| state.begun.id.as_str()));
    }

    /// Where they are, for people.
    pub(super) fn what(&self) -> String {
        self.listed(|wanted| self.root.join(&wanted.attribute).display().to_string())
    }

    /// What they were, for people.
    pub(super) fn words(&self) -> String {
        self.listed(|wanted| format!("{} = {}", self.root.join(&wanted.attribute).display(), wanted.before))
    }

    fn listed(&self, words: impl Fn(&Wanted) -> String) -> String {
        self.settings.iter().map(words).collect::<Vec<_>>().join(", ")
    }
}

fn is_now(root: &Path, attribute: &str, set: &str, now: Option<&str>) -> String {
    let now = now.unwrap_or("not there");
    format!("{} was set to `{}` and is `{}` now", root.join(attribute).display(), set.trim(), now.trim())
}

/// What a way back brought. What somebody decided meanwhile is left, and told; what the kernel does not take back is an error.
fn told(root: &Path, outcomes: &[Outcome]) -> Result<Back> {
    let words = |outcome: &&Outcome| {
        let set = outcome.left.as_deref().unwrap_or("nothing");
        is_now(root, &outcome.path, set, outcome.now.as_deref())
    };
    let is_decided = |outcome: &&Outcome| outcome.fate == Fate::Drifted && outcome.now.is_some();
    let left = || outcomes.iter().filter(|outcome| !outcome.is_back());
    let failed: Vec<String> = left().filter(|outcome| !is_decided(outcome)).map(|one| words(&one)).collect();
    if !failed.is_empty() {
        bail!("{}; `hone host revert --force` tries again", failed.join("; "));
    }
    let drifted: Vec<String> = left().map(|one| words(&one)).collect();
    Ok(if drifted.is_empty() { Back::Done } else { Back::Drifted(drifted.join("; ")) })
}

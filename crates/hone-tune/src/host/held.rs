//! A change that lasts for a window, with its guard.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use hone_experiment::ending::NotItsOwn;
use hone_experiment::guard;
use hone_experiment::progress::alarm;
use hone_host::change::ChangeError;
use hone_host::commit::{self, Applied, ChangeRequest, CommitError, TakenBack};

use super::candidate::Candidate;

/// A candidate that is in force, with an armed guard. Taken back when dropped; [`Held::end`] says when that fails.
#[derive(Debug)]
pub struct Held {
    root: PathBuf,
    /// The change, until it is taken back.
    open: Option<String>,
    pub(crate) applied: Applied,
}

/// Why a candidate is not in force.
pub enum NotSet {
    /// The kernel does not take it: that is an answer.
    Refused(String),
    /// Nothing can be tried.
    Stops(anyhow::Error),
}

impl Held {
    /// Sets a candidate for `within`, in the name of a run.
    pub fn set(root: &Path, candidate: &Candidate, run: &str, within: Duration) -> Result<Self, NotSet> {
        let order = ChangeRequest {
            profile: run.to_owned(),
            steps: candidate.steps(),
            disks: candidate.disks.clone(),
            confirm_within: Some(within),
        };
        match commit::make(root, &order, &mut |id| guard::start(root, id, None)) {
            Ok(applied) => Ok(Self { root: root.to_owned(), open: Some(applied.id.clone()), applied }),
            Err(CommitError::TakenBack { source, outcomes, unkept: None })
                if matches!(*source, ChangeError::Refused { .. })
                    && outcomes.iter().all(|outcome| outcome.is_back()) =>
            {
                Err(NotSet::Refused(source.to_string()))
            }
            Err(error) => Err(NotSet::Stops(error.into())),
        }
    }

    /// Takes it back, and answers what was done meanwhile.
    ///
    /// # Errors
    /// Those of what was done; and when something is not as it was before, or the guard was quicker.
    pub fn end<T>(mut self, done: Result<T>) -> Result<T> {
        match (self.take_back(), done) {
            (Ok(()), done) => done,
            (Err(problem), Ok(_)) => Err(problem),
            (Err(problem), Err(error)) => Err(error.context(format!("{problem:#}; this happened after"))),
        }
    }

    fn take_back(&mut self) -> Result<()> {
        let Some(id) = self.open.take() else { return Ok(()) };
        match commit::take_one_back(&self.root, &id)? {
            None => bail!(NotItsOwn(format!(
                "the guard took change {id} back inside of its window, which is then none: give a longer --guard, or shorter windows"
            ))),
            Some(back) if back.is_whole() => Ok(()),
            Some(back) => Err(anyhow!(not_whole(&back))),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // On the way out of a panic; nobody else would tell.
        if let Err(problem) = self.take_back() {
            alarm(&format!("{problem:#}"));
        }
    }
}

/// What was not taken back, and what to do about it.
fn not_whole(back: &TakenBack) -> String {
    let left = back.outcomes.iter().filter(|outcome| !outcome.is_back());
    let told: Vec<String> = left
        .map(|outcome| {
            let says = |text: &Option<String>| text.as_deref().map_or("nothing", str::trim).to_owned();
            let why = outcome.why.as_deref().unwrap_or("the kernel does not take it");
            format!(
                "/{} is `{}` and was `{}` before ({why})",
                outcome.path,
                says(&outcome.now),
                says(&outcome.before)
            )
        })
        .chain(back.unkept.clone())
        .collect();
    format!(
        "change {} is not taken back as a whole, so nothing more is tried: {}; `hone host revert --force` writes over what others set",
        back.id,
        told.join("; ")
    )
}

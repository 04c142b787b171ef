//! A change that lasts for one window, with its rollback watchdog.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use hone_experiment::ending::NotItsOwn;
use hone_experiment::guard;
use hone_experiment::progress::alarm;
use hone_host::change::ChangeError;
use hone_host::commit::{self, Applied, ChangeRequest, CommitError, TakenBack};

use super::candidate::Candidate;

/// A candidate in force, with an armed watchdog. Dropping it rolls the change back; [`Held::end`] returns the error if that
/// fails.
#[derive(Debug)]
pub struct Held {
    root: PathBuf,
    /// The change, until it is rolled back.
    open: Option<String>,
    pub(crate) applied: Applied,
}

/// Why a candidate is not in force.
pub enum NotSet {
    /// The kernel rejects it, which is a result.
    Refused(String),
    /// An error that ends the run.
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

    /// Rolls the change back, and returns the result of the window.
    ///
    /// # Errors
    /// Those of the window. Also when a value is not restored, or the watchdog rolled back first.
    pub fn end<T>(mut self, done: Result<T>) -> Result<T> {
        match (self.take_back(), done) {
            (Ok(()), done) => done,
            (Err(problem), Ok(_)) => Err(problem),
            (Err(problem), Err(error)) => Err(error.context(format!(
                "{problem:#}; it happened after this \
                 error"
            ))),
        }
    }

    fn take_back(&mut self) -> Result<()> {
        let Some(id) = self.open.take() else { return Ok(()) };
        match commit::take_one_back(&self.root, &id)? {
            None => bail!(NotItsOwn(format!(
                "the watchdog rolled back change {id} during its window, which makes the window invalid; give a \
                 longer --watchdog-timeout, or shorter windows"
            ))),
            Some(back) if back.is_whole() => Ok(()),
            Some(back) => Err(anyhow!(not_whole(&back))),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // A panic unwinds here; no other code reports the failure.
        if let Err(problem) = self.take_back() {
            alarm(&format!("{problem:#}"));
        }
    }
}

/// The values that were not restored, with the next step.
fn not_whole(back: &TakenBack) -> String {
    let left = back.outcomes.iter().filter(|outcome| !outcome.is_back());
    let told: Vec<String> = left
        .map(|outcome| {
            let says = |text: &Option<String>| text.as_deref().map_or("nothing", str::trim).to_owned();
            let why = outcome.why.as_deref().unwrap_or("the kernel rejects it");
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
        "change {} is only partly rolled back, so Hone tries nothing more: {}; `hone host rollback \
         --force` overwrites what others have changed",
        back.id,
        told.join("; ")
    )
}
